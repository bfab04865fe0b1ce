//! What callers give: texts, arrays, places for results.

use crate::failure::{Failure, Result, misuse};
use crate::status::mmdb_status;
use std::ffi::{CStr, c_char};

/// A text that ends with a zero.
///
/// # Safety
/// `p` is NULL or such a text, and stays for `'a`.
pub(crate) unsafe fn text<'a>(p: *const c_char, name: &str) -> Result<&'a str> {
    if p.is_null() {
        return Err(misuse(format!("NULL is given for {name}")));
    }
    // SAFETY: it ends with a zero, says the caller.
    let text = unsafe { CStr::from_ptr(p) }.to_str();
    text.map_err(|e| Failure { status: mmdb_status::NotText, message: format!("{name} is not UTF-8: {e}") })
}

/// An array; NULL has no elements.
///
/// # Safety
/// `p` is NULL or has `count` elements, which stay for `'a`.
pub(crate) unsafe fn array<'a, T>(p: *const T, count: usize, name: &str) -> Result<&'a [T]> {
    if count == 0 {
        return Ok(&[]);
    }
    if p.is_null() {
        return Err(misuse(format!("NULL is given for {name}, with a count of {count}")));
    }
    if !p.is_aligned() || count.checked_mul(size_of::<T>()).is_none_or(|n| n > isize::MAX as usize) {
        return Err(misuse(format!("{name} cannot be an array of {count}")));
    }
    // SAFETY: it is there, says the caller; aligned and not too large, as was just seen.
    Ok(unsafe { std::slice::from_raw_parts(p, count) })
}

/// The texts of an array.
///
/// # Safety
/// As [`array`] and [`text`].
pub(crate) unsafe fn texts<'a>(p: *const *const c_char, count: usize, name: &str) -> Result<Vec<&'a str>> {
    // SAFETY: says the caller.
    unsafe { array(p, count, name)?.iter().map(|&p| text(p, name)).collect() }
}

/// Where a result goes that the caller must take.
pub(crate) fn place<T>(p: *mut T, name: &str) -> Result<*mut T> {
    if p.is_null() || !p.is_aligned() {
        return Err(misuse(format!("NULL is given for {name}, where the result goes")));
    }
    Ok(p)
}

/// Writes a result where the caller wants it, if he does.
///
/// # Safety
/// `p` is NULL or a place for it.
pub(crate) unsafe fn put<T>(p: *mut T, value: T) {
    if !p.is_null() {
        // SAFETY: it is a place for it, says the caller.
        unsafe { p.write(value) };
    }
}
