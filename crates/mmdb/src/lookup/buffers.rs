//! Buffers that a thread's reads use again and again.

use super::batch::Batch;
use std::cell::Cell;

/// What a read of a row by its key writes to.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    /// The key that is looked for, encoded.
    pub(crate) key: Vec<u8>,
    /// The row that was found.
    pub(crate) row: Vec<u8>,
    /// The key that it has.
    pub(crate) its_key: Vec<u8>,
    pub(crate) batch: Batch,
}

thread_local!(static SPARE: Cell<Option<Box<Buffers>>> = const { Cell::new(None) });

/// The buffers of this thread, which go back when this is dropped. A read within a read has others.
#[derive(Debug)]
pub(crate) struct Lease(Option<Box<Buffers>>);

impl Lease {
    #[inline]
    pub(crate) fn take() -> Lease {
        // The thread may be ending, and its buffers be gone.
        Lease(Some(SPARE.try_with(Cell::take).ok().flatten().unwrap_or_default()))
    }

    #[inline]
    pub(crate) fn buffers(&mut self) -> &mut Buffers {
        self.0.get_or_insert_default()
    }
}

impl Drop for Lease {
    #[inline]
    fn drop(&mut self) {
        let _ = SPARE.try_with(|spare| spare.set(self.0.take()));
    }
}
