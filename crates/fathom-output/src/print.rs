//! Standard output and error, which may be full or closed.

use std::fmt::Arguments;
use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::lines;

/// The first error of standard output.
static FAILED: Mutex<Option<io::Error>> = Mutex::new(None);

/// Whether the program was started without a standard output.
static CLOSED: AtomicBool = AtomicBool::new(false);

/// Run by the loader before the standard library begins, which puts `/dev/null` in the place of
/// what is closed: from then on nothing shows that all that is written is lost.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = {
    extern "C" fn look() {
        // SAFETY: the call takes numbers only, and a descriptor that is not open is what is asked
        // for.
        let open = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) } != -1;
        CLOSED.store(!open, Ordering::Relaxed);
    }
    look
};

/// Whether standard output was closed when the program was started, so that nothing can be written
/// to it.
#[must_use]
pub fn is_stdout_closed() -> bool {
    CLOSED.load(Ordering::Relaxed)
}

/// What a write would have said.
pub(crate) fn closed() -> io::Error {
    io::Error::other("is closed, and what would be written there would be lost")
}

/// As `println!`; a full disk does not end the program here, [`end`] tells it. Control characters
/// are shown as text.
#[macro_export]
macro_rules! say {
    () => { $crate::out_line(format_args!("")) };
    ($($words:tt)*) => { $crate::out_line(format_args!($($words)*)) };
}

/// As `eprintln!`; where nobody can be told, nobody is. Control characters are shown as text.
#[macro_export]
macro_rules! tell {
    ($($words:tt)*) => { $crate::tell_line(format_args!($($words)*)) };
}

/// A line of standard output; what [`say!`] calls.
pub fn out_line(words: Arguments<'_>) {
    raw(&(lines(&words.to_string()) + "\n"));
}

/// A line of standard error; what [`tell!`] calls.
pub fn tell_line(words: Arguments<'_>) {
    let text = lines(&words.to_string()) + "\n";
    // There is nowhere else to tell it.
    let _ = io::stderr().write_all(text.as_bytes());
}

/// Text of ours on standard output as it is: tables that bring their colours with them, files of
/// others that were asked for.
pub fn raw(text: &str) {
    let mut failed = FAILED.lock().unwrap_or_else(PoisonError::into_inner);
    if failed.is_none() {
        let written =
            if is_stdout_closed() { Err(closed()) } else { io::stdout().write_all(text.as_bytes()) };
        *failed = written.err();
    }
}

/// To be asked last: whether all that was said has been written.
///
/// # Errors
/// The first error of standard output; a closed pipe is none, for whoever read has seen enough.
pub fn end() -> io::Result<()> {
    let failed = FAILED.lock().unwrap_or_else(PoisonError::into_inner).take();
    match failed.map_or_else(|| io::stdout().flush(), Err) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}
