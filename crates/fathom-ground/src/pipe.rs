//! Writing to a program whose end may come first.

use crate::signals::keeping_back;
use std::io::{self, Write};

/// Writes all of `bytes` to a pipe whose reader may have ended.
///
/// A program that lets SIGPIPE end it, as a command line does for `| head`, would end here and
/// leave its results and mounts: so the signal, which goes to the writing thread, is held back
/// there and taken away.
///
/// # Errors
/// The reader has ended ([`io::ErrorKind::BrokenPipe`]), or the write failed.
pub fn write_all(pipe: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    keeping_back(&[libc::SIGPIPE], |broken| {
        let written = pipe.write_all(bytes);
        if written.is_err() {
            // SAFETY: a time is plain data, of which zeros are one; the pointers live for the call.
            unsafe {
                let at_once = std::mem::zeroed::<libc::timespec>();
                libc::sigtimedwait(broken, std::ptr::null_mut(), &raw const at_once);
            }
        }
        written
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    /// Set for the child process in which SIGPIPE ends whoever gets it.
    const CHILD: &str = "FATHOM_TEST_BROKEN_PIPE";

    #[test]
    fn a_broken_pipe_is_an_error_and_no_end() {
        if std::env::var_os(CHILD).is_none() {
            let name = "pipe::tests::a_broken_pipe_is_an_error_and_no_end";
            let child = Command::new(std::env::current_exe().unwrap())
                .args([name, "--exact"])
                .env(CHILD, "1")
                .output();
            let child = child.unwrap();
            assert!(child.status.success(), "{}: {}", child.status, String::from_utf8_lossy(&child.stdout));
            return;
        }
        // SAFETY: SIG_DFL is a valid disposition for SIGPIPE; this process runs this test only.
        unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
        let mut reader = Command::new("true").stdin(Stdio::piped()).spawn().unwrap();
        let mut pipe = reader.stdin.take().unwrap();
        reader.wait().unwrap();
        for _ in 0..2 {
            assert_eq!(write_all(&mut pipe, b"order").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        }
    }
}
