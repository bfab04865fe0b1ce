//! How rows of a cursor are locked.

use crate::lock::Mode;

/// How a cursor locks the rows that it shows.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowLock {
    pub(super) mode: Mode,
    /// Rows that somebody else has locked are passed over.
    pub(super) skip_locked: bool,
}
