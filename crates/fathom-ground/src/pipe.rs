//! Writing to a program whose end may come first.

use crate::signals::keeping_back;
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::time::{Duration, Instant};

/// How long is waited at most before it is asked again whether to go on.
const GLANCE: Duration = Duration::from_millis(50);

/// Writes all of `bytes` to a pipe whose reader may have ended.
///
/// A program that lets SIGPIPE end it, as a command line does for `| head`, would end here and
/// leave its results and mounts: so the signal, which goes to the writing thread, is held back
/// there and taken away.
///
/// # Errors
/// The reader has ended ([`io::ErrorKind::BrokenPipe`]), or the write failed.
pub fn write_all(pipe: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    without_signal(|| pipe.write_all(bytes))
}

/// As [`write_all`], to a pipe whose reader may stand still. While it takes nothing, `is_over` is
/// asked again and again, with how long that is; where it says so, the pipe may hold a part of
/// `bytes`. What is not longer than 4 KiB (PIPE_BUF) is written as a whole or not at all. From now
/// on no other write to this end of the pipe waits, either.
///
/// # Errors
/// As [`write_all`]; it was over before all had been taken ([`io::ErrorKind::TimedOut`]).
pub fn write_all_unless(
    pipe: &mut (impl Write + AsRawFd),
    bytes: &[u8],
    mut is_over: impl FnMut(Duration) -> bool,
) -> io::Result<()> {
    let descriptor = pipe.as_raw_fd();
    // SAFETY: fcntl takes integers here, and the pipe is open as long as it is borrowed.
    unsafe {
        let flags = libc::fcntl(descriptor, libc::F_GETFL);
        if flags == -1 || libc::fcntl(descriptor, libc::F_SETFL, flags | libc::O_NONBLOCK) == -1 {
            return Err(io::Error::last_os_error());
        }
    }
    let mut left = bytes;
    let mut moved = Instant::now();
    while !left.is_empty() {
        match without_signal(|| pipe.write(left)) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(taken) => {
                left = left.get(taken..).unwrap_or_default();
                moved = Instant::now();
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if is_over(moved.elapsed()) {
                    return Err(io::ErrorKind::TimedOut.into());
                }
                let mut asked = libc::pollfd { fd: descriptor, events: libc::POLLOUT, revents: 0 };
                // SAFETY: one structure, which lives for the call. Whatever ends the wait, the next
                // write tells what has become of the pipe.
                unsafe { libc::poll(&raw mut asked, 1, GLANCE.as_millis() as libc::c_int) };
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// A write, whose SIGPIPE is held back and taken away.
fn without_signal<T>(write: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    keeping_back(&[libc::SIGPIPE], |broken| {
        let written = write();
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
        let broken = write_all_unless(&mut pipe, b"order", |_| false).unwrap_err();
        assert_eq!(broken.kind(), io::ErrorKind::BrokenPipe);
    }

    /// What happened: whoever asked more than a pipe holds of a program that stood still waited for
    /// ever, whatever time limit the question had.
    #[test]
    fn a_reader_that_stands_still_is_waited_for_until_it_is_over() {
        let (mut reader, mut pipe) = io::pipe().unwrap();
        let long = vec![b'x'; 1 << 20];
        let mut asked = 0;
        let over = write_all_unless(&mut pipe, &long, |_| {
            asked += 1;
            asked == 3
        });
        assert_eq!((over.unwrap_err().kind(), asked), (io::ErrorKind::TimedOut, 3));
        // One that reads gets the whole, however often the pipe is full meanwhile.
        let reads = std::thread::spawn(move || {
            let mut all = Vec::new();
            io::Read::read_to_end(&mut reader, &mut all).unwrap();
            all
        });
        write_all_unless(&mut pipe, &long, |_| false).unwrap();
        drop(pipe);
        let all = reads.join().unwrap();
        assert!(all.len() > long.len() && all.iter().all(|octet| *octet == b'x'));
    }
}
