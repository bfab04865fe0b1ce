//! Standard output and error, which may be full or closed.

use std::fmt::Arguments;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use crate::lines;

/// The first error of standard output.
static FAILED: Mutex<Option<io::Error>> = Mutex::new(None);

/// As `println!`; a full disk does not end the program here, [`end`] tells it. Control characters are shown as text.
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

/// Text of ours on standard output as it is: tables that bring their colours with them, files of others that were asked for.
pub fn raw(text: &str) {
    let mut failed = FAILED.lock().unwrap_or_else(PoisonError::into_inner);
    if failed.is_none() {
        *failed = io::stdout().write_all(text.as_bytes()).err();
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
