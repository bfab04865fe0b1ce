//! Buffers that a thread's transactions use again and again.

use super::range_read::{Claim, RangeRead};
use super::write_set::WriteSet;
use crate::life::Span;
use crate::lock::Mode;
use crate::memory::SMALL;
use std::cell::Cell;
use std::ops::{Deref, DerefMut};

/// What a transaction writes to while it goes on.
#[derive(Default)]
pub(super) struct Scratch {
    pub(super) locks: Vec<u64>,
    pub(super) intents: Vec<(u32, Mode)>,
    pub(super) reads: Vec<RangeRead>,
    pub(super) claims: Vec<Claim>,
    /// The tables in use, and the life each was in at first.
    pub(super) spans: Vec<(u32, Span)>,
    pub(super) writes: WriteSet,
    /// The rows of the writes, and what was read.
    pub(super) arena: Vec<u8>,
    pub(super) key: Vec<u8>,
    pub(super) body: Vec<u8>,
    pub(super) old: Vec<u8>,
    pub(super) names: Vec<u64>,
}

impl Scratch {
    /// Bytes of the buffers that grow with the transaction.
    pub(super) fn bytes(&self) -> u64 {
        let locks = self.locks.capacity() * size_of::<u64>() + self.claims.capacity() * size_of::<Claim>();
        (self.arena.capacity() + self.body.capacity() + locks) as u64 + self.writes.bytes()
    }

    /// Does something with the writes, which is shown their rows.
    #[inline]
    pub(super) fn with_rows<T>(&mut self, f: impl FnOnce(&mut WriteSet, &[u8]) -> T) -> T {
        f(&mut self.writes, &self.arena)
    }
}

thread_local!(static SPARE: Cell<Option<Box<Scratch>>> = const { Cell::new(None) });

/// The buffers of this thread, which go back when this is dropped. Another transaction that is open
/// on the thread has others.
pub(super) struct Lent(Option<Box<Scratch>>);

impl Lent {
    #[inline]
    pub(super) fn take() -> Lent {
        // The thread may be ending, and its buffers be gone.
        let s = SPARE.try_with(Cell::take).ok().flatten().unwrap_or_default();
        assert!(
            s.locks.is_empty() && s.intents.is_empty() && s.spans.is_empty() && s.writes.len() == 0,
            "a transaction begins with nothing"
        );
        Lent(Some(s))
    }
}

impl Deref for Lent {
    type Target = Scratch;
    #[inline]
    fn deref(&self) -> &Scratch {
        match &self.0 {
            Some(s) => s,
            None => unreachable!("they are there until this is dropped"),
        }
    }
}

impl DerefMut for Lent {
    #[inline]
    fn deref_mut(&mut self) -> &mut Scratch {
        match &mut self.0 {
            Some(s) => s,
            None => unreachable!("they are there until this is dropped"),
        }
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let Some(mut s) = self.0.take() else { return };
        assert!(
            (s.locks.is_empty() && s.intents.is_empty() && s.claims.is_empty() && s.reads.is_empty())
                || std::thread::panicking(),
            "a transaction that ends has given its locks back"
        );
        s.arena.clear();
        s.intents.clear();
        s.reads.clear();
        s.claims.clear();
        s.spans.clear();
        s.writes.clear();
        // One large transaction must not keep its memory for good.
        if s.bytes() <= 4 * SMALL {
            // The thread may be ending; then the buffers go with it.
            let _ = SPARE.try_with(|spare| spare.set(Some(s)));
        }
    }
}
