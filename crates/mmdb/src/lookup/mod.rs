//! Keys that are looked up: many together, and what that is done with again and again.

mod batch;
mod buffers;

pub(crate) use buffers::Buffers;

use crate::error::Result;
use crate::index::BATCH;

/// Does something with up to [`BATCH`] of the keys after the other; `f` gets the number of the first
/// one as well.
pub(crate) fn in_batches<K>(
    keys: impl IntoIterator<Item = K>,
    mut f: impl FnMut(usize, &[K]) -> Result<()>,
) -> Result<()> {
    let mut keys = keys.into_iter();
    let (mut first, mut some) = (0, Vec::with_capacity(BATCH));
    loop {
        some.extend(keys.by_ref().take(BATCH));
        if some.is_empty() {
            return Ok(());
        }
        f(first, &some)?;
        first += some.len();
        some.clear();
    }
}
