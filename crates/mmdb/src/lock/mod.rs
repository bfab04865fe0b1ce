//! Strict two-phase locking with wait-die.

mod manager;
mod queue;
mod ranges;
mod table;

pub(crate) use manager::LockManager;
pub(crate) use queue::{Grant, LockFailure};
pub(crate) use ranges::{Bounds, RangeLocks, pairs_within, within};
pub(crate) use table::TableLock;

/// Lock modes of granular locking (Gray 1975).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Intends shared locks below.
    IntentShared = 0,
    /// Intends exclusive locks below.
    IntentExclusive = 1,
    /// Reads all of it.
    Shared = 2,
    /// Reads all, intends exclusive locks below.
    SharedIntent = 3,
    /// Writes it.
    Exclusive = 4,
}

impl Mode {
    pub(crate) fn compatible(self, other: Mode) -> bool {
        const YES: [[bool; 5]; 5] = [
            [true, true, true, true, false],
            [true, true, false, false, false],
            [true, false, true, false, false],
            [true, false, false, false, false],
            [false, false, false, false, false],
        ];
        YES[self as usize][other as usize]
    }

    /// What holding a part in this mode means for the whole.
    pub(crate) fn intent(self) -> Mode {
        match self {
            Mode::IntentShared | Mode::Shared => Mode::IntentShared,
            _ => Mode::IntentExclusive,
        }
    }

    /// True for the modes in which a transaction needs no locks of rows, for reading at least.
    pub(crate) fn is_whole(self) -> bool {
        !matches!(self, Mode::IntentShared | Mode::IntentExclusive)
    }

    /// The weakest mode that grants both.
    pub(crate) fn join(self, other: Mode) -> Mode {
        use Mode::*;
        match (self, other) {
            (a, b) if a == b => a,
            (Exclusive, _) | (_, Exclusive) => Exclusive,
            (IntentShared, x) | (x, IntentShared) => x,
            _ => SharedIntent,
        }
    }
}
