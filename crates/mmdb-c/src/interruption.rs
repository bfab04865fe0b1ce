//! What ends a wait: a function of the caller, or a signal's handler in an interpreter.

use crate::failure::{guard, misuse};
use crate::status::mmdb_status;
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::OnceLock;

/// Says whether a wait is to end: not 0.
pub type mmdb_wait_check = Option<unsafe extern "C" fn() -> c_int>;

static CHECK: OnceLock<unsafe extern "C" fn() -> c_int> = OnceLock::new();

/// For the whole process, once: `check` is asked some twenty times a second while a call on the
/// process's first thread waits for a lock, for a flush or for room in the log. Where it returns
/// anything but 0 the call ends with MMDB_STATUS_INTERRUPTED, and its transaction can only be
/// undone then; a ticket can be waited for again. mmdb_commit and mmdb_run that wait for the flush
/// of what they have committed end with MMDB_STATUS_INDETERMINATE.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_set_wait_check(check: mmdb_wait_check) -> mmdb_status {
    guard(|| {
        let check = check.ok_or_else(|| misuse("NULL is given for the check"))?;
        if *CHECK.get_or_init(|| check) as usize != check as usize {
            return Err(misuse("there is another check of waits already"));
        }
        mmdb::set_wait_check(|| {
            // SAFETY: whoever gave it says that it can be called.
            CHECK.get().is_some_and(|check| unsafe { check() } != 0)
        });
        Ok(())
    })
}

/// Functions of an interpreter's C interface. All must be there.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct mmdb_interpreter {
    /// Makes this thread the one that runs: PyGILState_Ensure.
    pub enter: Option<unsafe extern "C" fn() -> c_int>,
    /// Ends that, with what `enter` returned: PyGILState_Release.
    pub leave: Option<unsafe extern "C" fn(c_int)>,
    /// Runs the handlers of signals that came; not 0 if one has raised an exception:
    /// PyErr_CheckSignals.
    pub check: Option<unsafe extern "C" fn() -> c_int>,
    /// Takes that exception away, in three parts: PyErr_Fetch.
    pub take: Option<unsafe extern "C" fn(*mut *mut c_void, *mut *mut c_void, *mut *mut c_void)>,
}

struct Interpreter {
    enter: unsafe extern "C" fn() -> c_int,
    leave: unsafe extern "C" fn(c_int),
    check: unsafe extern "C" fn() -> c_int,
    take: unsafe extern "C" fn(*mut *mut c_void, *mut *mut c_void, *mut *mut c_void),
}

static INTERPRETER: OnceLock<Interpreter> = OnceLock::new();

thread_local! {
    /// The exception that ended this thread's last wait.
    static CAME: Cell<[*mut c_void; 3]> = const { Cell::new([null_mut(); 3]) };
}

/// Runs the handlers of signals that came.
unsafe extern "C" fn check_signals() -> c_int {
    let Some(i) = INTERPRETER.get() else { return 0 };
    // SAFETY: they are the interpreter's, which lives as long as the process, and this is its first
    // thread, which waits in a call from it.
    unsafe {
        let state = (i.enter)();
        let raised = (i.check)();
        if raised != 0 {
            let [mut kind, mut value, mut trace] = [null_mut(); 3];
            (i.take)(&raw mut kind, &raw mut value, &raw mut trace);
            CAME.set([kind, value, trace]);
        }
        (i.leave)(state);
        raised
    }
}

/// As mmdb_set_wait_check, for an interpreter that runs handlers of signals on its first thread and
/// between two steps of a program. For the package for Python.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_interpreter_signals(functions: *const mmdb_interpreter) -> mmdb_status {
    let given = guard(|| {
        // SAFETY: it is NULL or one, says the caller.
        let given = unsafe { functions.as_ref() }.copied();
        let interpreter = given.and_then(|f| {
            Some(Interpreter { enter: f.enter?, leave: f.leave?, check: f.check?, take: f.take? })
        });
        let interpreter =
            interpreter.ok_or_else(|| misuse("NULL is given for a function of the interpreter"))?;
        INTERPRETER.get_or_init(|| interpreter);
        Ok(())
    });
    if given != mmdb_status::Ok {
        return given;
    }
    // SAFETY: that one can be called.
    unsafe { mmdb_set_wait_check(Some(check_signals)) }
}

/// The exception that ended this thread's last wait, as `take` gave it; three times NULL if there is
/// none. It is the caller's from now on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_interpreter_exception(parts: *mut *mut c_void) {
    let came = CAME.replace([null_mut(); 3]);
    if !parts.is_null() {
        // SAFETY: there is room for three, says the caller.
        unsafe { parts.cast::<[*mut c_void; 3]>().write(came) };
    }
}
