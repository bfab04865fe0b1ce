//! What a transaction remembers of ranges, its own and those that it stands in the way of.

use crate::key::KeyBuf;

/// An index of which a transaction has read ranges.
pub(super) struct RangeRead {
    pub(super) table: u32,
    pub(super) index: usize,
    /// Number of its reader; see [`crate::lock::RangeLocks::reader`].
    pub(super) reader: u64,
    /// Locks that were taken for it: one for each interval, and those of rows.
    pub(super) locks: usize,
}

/// A key of an ordered index that a transaction is about to bring.
pub(super) struct Claim {
    pub(super) table: u32,
    pub(super) index: usize,
    pub(super) hash: u64,
    pub(super) key: KeyBuf,
}
