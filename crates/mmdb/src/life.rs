//! Whether a table is there, and which of its lives this is.

use crate::sync::atomic::{AtomicU64, Ordering};

const LIVE: u64 = 0;
const FILLED: u64 = 1;
const DROPPED: u64 = 2;
const STATES: u64 = 4;
/// Each change of the table's definition that leaves its rows alone adds this,
const DEFINITION: u64 = STATES;
/// each change of its columns this (a life has at most 2^14, one for each generation of rows),
const SHAPE: u64 = 1 << 26;
/// and each new life this.
const LIFE: u64 = 1 << 42;

/// What becomes of a table: live, taken away to be filled, or dropped. Every change is from one
/// known state to another, by compare-and-swap, so that of a fill and a drop at the same time one
/// is refused and neither undoes what the other did.
///
/// A fill that ends, well or not, gives the table back in a new life: places in its containers that
/// somebody took in an earlier one mean nothing any more. A change of the table's columns leaves
/// the places, and is another shape of the rows, which snapshots of before cannot read. When it
/// gets or loses an index, or another name, life and shape go on with another definition, which a
/// transaction notices and a snapshot does not mind.
#[derive(Debug, Default)]
pub(crate) struct Life {
    state: AtomicU64,
    /// The state that the last change of the definition led to, or is about to lead to.
    redefined: AtomicU64,
}

/// One life of a table, as a transaction that uses the table remembers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span(u64);

impl Span {
    /// Whether rows and places are the same as in another span, and rows have the same columns.
    pub(crate) fn has_rows_of(self, other: Span) -> bool {
        self.0 / SHAPE == other.0 / SHAPE
    }

    /// Whether a place in a container that was taken in the other span is still the same one.
    pub(crate) fn has_places_of(self, other: Span) -> bool {
        self.0 / LIFE == other.0 / LIFE
    }
}

impl Life {
    /// The life that goes on now; `None` if the table is being filled or dropped.
    #[inline]
    pub(crate) fn now(&self) -> Option<Span> {
        let state = self.state.load(Ordering::Acquire);
        (state % STATES == LIVE).then_some(Span(state))
    }

    /// Whether the table is dropped, or was about to be when its lock was last free: who gets the
    /// lock and sees this sees it for good.
    pub(crate) fn is_dropped(&self) -> bool {
        self.state.load(Ordering::Acquire) % STATES == DROPPED
    }

    pub(crate) fn begin_fill(&self) -> bool {
        self.change(LIVE, |live| live + FILLED)
    }

    pub(crate) fn end_fill(&self) -> bool {
        self.change(FILLED, |filled| filled - FILLED + LIFE)
    }

    pub(crate) fn begin_drop(&self) -> bool {
        self.change(LIVE, |live| live + DROPPED)
    }

    /// The drop could not be stated: the table lives on, the same life.
    pub(crate) fn give_up_drop(&self) -> bool {
        self.change(DROPPED, |dropped| dropped - DROPPED)
    }

    /// Of a table that begins again without rows, in the place of this one: no life of this is one
    /// of it.
    pub(crate) fn following(&self) -> Life {
        let state = self.state.load(Ordering::Acquire);
        Life { state: AtomicU64::new((state / LIFE + 1) * LIFE), redefined: AtomicU64::new(0) }
    }

    /// The table has got another definition of the same rows.
    pub(crate) fn redefine(&self) -> bool {
        self.change_definition(DEFINITION)
    }

    /// The table has got other columns.
    pub(crate) fn reshape(&self) -> bool {
        self.change_definition(SHAPE)
    }

    /// One at a time. It is noted first: who sees the new state, with no lock that keeps this off,
    /// must see what has led to it.
    fn change_definition(&self, by: u64) -> bool {
        let state = self.state.load(Ordering::Acquire);
        if state % STATES != LIVE {
            return false;
        }
        let before = self.redefined.swap(state + by, Ordering::AcqRel);
        let done =
            self.state.compare_exchange(state, state + by, Ordering::AcqRel, Ordering::Acquire).is_ok();
        if !done {
            self.redefined.store(before, Ordering::Release);
        }
        done
    }

    /// Whether the last thing that happened between two spans was a change of the definition, or
    /// one has happened since: states of live tables only grow.
    pub(crate) fn was_redefined(&self, then: Span, now: Span) -> bool {
        then != now && self.redefined.load(Ordering::Acquire) >= now.0
    }

    fn change(&self, from: u64, to: impl FnOnce(u64) -> u64) -> bool {
        let state = self.state.load(Ordering::Acquire);
        state % STATES == from
            && self.state.compare_exchange(state, to(state), Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}
