//! Ranges of keys.

use crate::failure::{Result, misuse};
use crate::value::{mmdb_value, values};
use mmdb::Value;
use std::ops::Bound;

/// Where a range begins or ends: a key, or the first of its columns. NULL stands for no bound.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mmdb_bound {
    /// Values of the first columns of the index.
    pub values: *const mmdb_value,
    /// How many.
    pub count: usize,
    /// Whether rows with these values are left out.
    pub excluded: bool,
}

/// From the greatest key to the smallest.
pub const MMDB_RANGE_REVERSE: u32 = 1;
/// Rows are locked for a change when the cursor comes to them.
pub const MMDB_RANGE_FOR_UPDATE: u32 = 2;
/// Rows that another transaction has locked are passed over, and only those shown are locked.
pub const MMDB_RANGE_SKIP_LOCKED: u32 = 4;

pub(crate) type Bounds<'a> = (Bound<Vec<Value<'a>>>, Bound<Vec<Value<'a>>>);

/// # Safety
/// The bound and what it points to are there, and stay for `'a`.
unsafe fn bound<'a>(p: *const mmdb_bound) -> Result<Bound<Vec<Value<'a>>>> {
    // SAFETY: says the caller.
    let Some(bound) = (unsafe { p.as_ref() }) else { return Ok(Bound::Unbounded) };
    // SAFETY: says the caller.
    let key = unsafe { values(bound.values, bound.count)? };
    Ok(if bound.excluded { Bound::Excluded(key) } else { Bound::Included(key) })
}

/// The bounds of a range.
///
/// # Safety
/// They are NULL or there, as what they point to, and stay for `'a`.
pub(crate) unsafe fn bounds<'a>(lower: *const mmdb_bound, upper: *const mmdb_bound) -> Result<Bounds<'a>> {
    // SAFETY: says the caller.
    Ok(unsafe { (bound(lower)?, bound(upper)?) })
}

/// The bits of a range.
#[derive(Clone, Copy)]
pub(crate) struct RangeBits {
    pub(crate) reverse: bool,
    pub(crate) for_update: bool,
    pub(crate) skip_locked: bool,
}

pub(crate) fn range_bits(flags: u32) -> Result<RangeBits> {
    if flags & !(MMDB_RANGE_REVERSE | MMDB_RANGE_FOR_UPDATE | MMDB_RANGE_SKIP_LOCKED) != 0 {
        return Err(misuse(format!("{flags} has bits that a range does not")));
    }
    Ok(RangeBits {
        reverse: flags & MMDB_RANGE_REVERSE != 0,
        for_update: flags & MMDB_RANGE_FOR_UPDATE != 0,
        skip_locked: flags & MMDB_RANGE_SKIP_LOCKED != 0,
    })
}
