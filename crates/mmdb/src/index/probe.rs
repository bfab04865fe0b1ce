//! A key that is looked up together with others.

use crate::container::Rid;
use std::ops::Range;

/// Keys that are looked up together at most: as many misses of the caches overlap.
pub(crate) const BATCH: usize = 16;

/// One of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Probe {
    /// Where it stands among the encoded keys.
    pub(crate) key: Range<usize>,
    pub(crate) hash: u64,
    /// Where its row is, as the hash says.
    pub(crate) rid: Option<Rid>,
}
