//! How a call fails: a status is returned, the words are kept for the thread.

use crate::status::mmdb_status;
use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Why a call was not done.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: mmdb_status,
    pub(crate) message: String,
}

pub(crate) type Result<T> = std::result::Result<T, Failure>;

impl From<mmdb::Error> for Failure {
    fn from(e: mmdb::Error) -> Failure {
        Failure { status: (&e).into(), message: e.to_string() }
    }
}

/// The caller broke a rule, and it was noticed.
pub(crate) fn misuse(message: impl Into<String>) -> Failure {
    Failure { status: mmdb_status::Misuse, message: message.into() }
}

struct Last {
    status: mmdb_status,
    message: CString,
}

thread_local! {
    static LAST: RefCell<Last> =
        RefCell::new(Last { status: mmdb_status::Ok, message: CString::default() });
}

/// Keeps the words of a failure for the thread, and gives the status.
fn keep(failure: Failure) -> mmdb_status {
    // A name with a zero in it may be quoted; C would read it as the end.
    let message = CString::new(failure.message.replace('\0', "\\0")).unwrap_or_default();
    let status = failure.status;
    // A thread that is ending may have no place for it any more; then there is the status.
    let _ = LAST.try_with(|last| *last.borrow_mut() = Last { status, message });
    status
}

/// Does something for C: no panic leaves it.
pub(crate) fn guard(f: impl FnOnce() -> Result<()>) -> mmdb_status {
    // What a panic leaves half done is behind a lock that is poisoned by it, or in the engine,
    // whose own locks and invariants hold for panics of any thread.
    match catch_unwind(AssertUnwindSafe(f)) {
        Ok(Ok(())) => mmdb_status::Ok,
        Ok(Err(failure)) => keep(failure),
        Err(panic) => {
            let words = panic.downcast_ref::<String>().map(String::as_str);
            let words = words.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
            keep(Failure { status: mmdb_status::Internal, message: format!("{words} (a defect of mmdb)") })
        }
    }
}

/// What the last call of this thread that failed says, in English, or "" if none has. It stays
/// where it is until the next call of this thread that fails.
#[unsafe(no_mangle)]
pub extern "C" fn mmdb_error_message() -> *const c_char {
    LAST.try_with(|last| last.borrow().message.as_ptr()).unwrap_or(c"".as_ptr())
}

/// The status of the last call of this thread that failed, or MMDB_STATUS_OK if none has.
#[unsafe(no_mangle)]
pub extern "C" fn mmdb_error_code() -> mmdb_status {
    LAST.try_with(|last| last.borrow().status).unwrap_or(mmdb_status::Internal)
}
