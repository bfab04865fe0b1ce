//! Strict two-phase locking with wait-die.

mod manager;

pub(crate) use manager::{Held, LockManager, Refused};

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
