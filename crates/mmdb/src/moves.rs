//! Commits that take a row's key away and give it back.

use crate::cache_line::CacheLine;
use crate::sync::atomic::{AtomicU64, Ordering};

/// How many commits have begun and ended to apply changes that take a primary key from one place of
/// a table and give it to another: an update that outgrew its slot, or a delete and an insert of
/// one key. In between the key is in no index, though there was a row before and is one after.
/// Whoever reads under locks waits for them; who reads without finds out by this that a missing key
/// may be one of those.
#[derive(Debug, Default)]
pub(crate) struct Moves(CacheLine<Counts>);

#[derive(Debug, Default)]
struct Counts {
    begun: AtomicU64,
    ended: AtomicU64,
}

/// How many had ended when a read began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MovesEnded(u64);

impl Moves {
    /// Before a commit takes the first key away.
    pub(crate) fn begin(&self) {
        self.0.begun.fetch_add(1, Ordering::AcqRel);
    }

    /// All keys are where they belong again.
    pub(crate) fn end(&self) {
        let before = self.0.ended.fetch_add(1, Ordering::AcqRel);
        assert!(before < self.0.begun.load(Ordering::Acquire), "a move that ends has begun");
    }

    /// Before a read.
    #[inline]
    pub(crate) fn ended(&self) -> MovesEnded {
        MovesEnded(self.0.ended.load(Ordering::Acquire))
    }

    /// After a read: whether a commit was moving rows at any moment of it. Latches order the two: a
    /// commit takes a key away and gives it back under that of the index or the container, and the
    /// read has held it in between. So it sees that the move has begun, and had not seen it ended
    /// before; and each other move that it saw ended it sees begun.
    #[inline]
    pub(crate) fn have_been_under_way(&self, since: MovesEnded) -> bool {
        self.0.begun.load(Ordering::Acquire) != since.0
    }
}
