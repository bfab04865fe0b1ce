//! Keeping what one processor writes away from what another one reads.

use std::ops::Deref;

/// A value alone on its cache line, and on the one beside it that processors fetch along. Measured
/// with 96 clients on two processors: a counter of every commit on the line of a field of every
/// read cost 6 % of a commit.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(crate) struct CacheLine<T>(pub(crate) T);

impl<T> Deref for CacheLine<T> {
    type Target = T;
    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}
