//! Handles: what the caller holds.

use crate::failure::{Result, misuse};
use std::mem::offset_of;
use std::sync::{Mutex, MutexGuard, TryLockError};

/// A type that C knows by its name only.
pub(crate) trait Kind {
    /// What is behind a handle of this kind.
    type Content;
    /// The first word of what is behind it.
    const MARK: u64;
    /// Its name in C.
    const NAME: &'static str;
}

/// What a handle points to. The mark is the first word of every kind, so that it can be read
/// before it is known which kind there is.
#[repr(C)]
pub(crate) struct Body<T> {
    mark: u64,
    content: T,
}

/// The first word where there is no handle any more. The memory may be anything else by then, so
/// seeing it is luck.
const FREED: u64 = 0;

/// Makes a handle, which the caller has to free.
pub(crate) fn give<K: Kind>(content: K::Content) -> *mut K {
    const { assert!(offset_of!(Body<()>, mark) == 0) };
    Box::into_raw(Box::new(Body { mark: K::MARK, content })).cast()
}

/// Whether this is a handle of the kind.
///
/// # Safety
/// `p` is NULL or points to at least 8 bytes that can be read.
unsafe fn check<K: Kind>(p: *const K) -> Result<()> {
    if p.is_null() {
        return Err(misuse(format!("NULL is given for a {}", K::NAME)));
    }
    let word = p.cast::<u64>();
    // SAFETY: it can be read, says the caller.
    if !word.is_aligned() || unsafe { word.read() } != K::MARK {
        return Err(misuse(format!("a pointer is given for a {} that is none, or was freed", K::NAME)));
    }
    Ok(())
}

/// Whether this is a handle of the kind.
///
/// # Safety
/// As [`check`].
pub(crate) unsafe fn is_handle<K: Kind>(p: *const K) -> bool {
    // SAFETY: says the caller.
    unsafe { check(p) }.is_ok()
}

/// What is behind a handle.
///
/// # Safety
/// `p` is NULL or a handle of any kind, and nobody frees it meanwhile.
pub(crate) unsafe fn content<'a, K: Kind>(p: *const K) -> Result<&'a K::Content> {
    // SAFETY: every handle points to a word at least.
    unsafe { check(p)? };
    // SAFETY: the mark says that `give` made it, with this content.
    Ok(unsafe { &(*p.cast::<Body<K::Content>>()).content })
}

/// Takes a handle from its owner.
///
/// # Safety
/// As [`content`], and nobody uses it any more.
pub(crate) unsafe fn take<K: Kind>(p: *mut K) -> Result<K::Content> {
    // SAFETY: every handle points to a word at least.
    unsafe { check(p)? };
    // SAFETY: the mark says that `give` made it, and that it was not taken before.
    let mut body = unsafe { Box::from_raw(p.cast::<Body<K::Content>>()) };
    // SAFETY: it is ours. Volatile, for nothing else would keep a write before the end.
    unsafe { (&raw mut body.mark).write_volatile(FREED) };
    Ok(body.content)
}

/// What one thread at a time may use. Another one is refused: it must not wait for a call that may
/// take long, and the first one might wait for it.
pub(crate) fn enter<'a, T>(lock: &'a Mutex<T>, name: &str) -> Result<MutexGuard<'a, T>> {
    match lock.try_lock() {
        Ok(guard) => Ok(guard),
        Err(TryLockError::WouldBlock) => Err(misuse(format!("another call uses this {name} now"))),
        Err(TryLockError::Poisoned(_)) => {
            Err(misuse(format!("an earlier call broke off in this {name}: free it")))
        }
    }
}

/// Declares a type that C knows by name only.
macro_rules! kind {
    ($name:ident, $content:ty, $mark:literal) => {
        impl $crate::handle::Kind for $name {
            type Content = $content;
            const MARK: u64 = u64::from_le_bytes(*$mark);
            const NAME: &'static str = stringify!($name);
        }
    };
}

pub(crate) use kind;
