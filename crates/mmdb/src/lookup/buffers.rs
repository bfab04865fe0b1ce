//! Buffers that a thread's reads use again and again.

use super::batch::Batch;
use crate::lent::{Reused, Spare};
use std::cell::Cell;
use std::thread::LocalKey;

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

thread_local!(static SPARE: Spare<Buffers> = const { Cell::new(None) });

impl Reused for Buffers {
    fn spare() -> &'static LocalKey<Spare<Buffers>> {
        &SPARE
    }

    #[inline]
    fn clean(&mut self) -> bool {
        // Whoever writes to one clears it first.
        true
    }
}
