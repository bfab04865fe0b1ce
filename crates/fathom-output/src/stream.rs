//! What is written to as it is: a device, a FIFO, standard output.
//!
//! A FIFO waits for its reader, in `open` and whenever it is full, and a signal that a handler
//! catches does not end that: so it is asked again and again, and the wish to stop in between.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::{OutputError, shown_path, tell};

/// Whether the user wants the program to stop.
static STOP: AtomicBool = AtomicBool::new(false);

/// How often the wish to stop is looked at.
const PAUSE: Duration = Duration::from_millis(50);

/// After so many of these pauses it is said what is waited for: most readers are just beginning.
const TOLD_AFTER: u32 = 5;

/// Says that the user wants the program to stop: nobody's reader is waited for any more. A handler
/// of signals may call it.
pub fn stop_waiting() {
    STOP.store(true, Ordering::SeqCst);
}

/// A stream that is written to.
#[derive(Debug)]
pub(crate) struct Stream {
    file: File,
    /// Whether it had been asked to stop before: what is written then is written on purpose.
    was_stopped: bool,
}

impl Stream {
    /// One that is open: standard output.
    pub(crate) fn of(file: File) -> Stream {
        Stream { file, was_stopped: STOP.load(Ordering::SeqCst) }
    }

    /// Opens a device or a FIFO; for a FIFO's reader it is waited, which is said.
    pub(crate) fn open(path: &Path) -> Result<Stream, OutputError> {
        let io = OutputError::io(path);
        let is_fifo = std::fs::metadata(path).map_err(&io)?.file_type().is_fifo();
        let mut options = OpenOptions::new();
        options.write(true);
        if is_fifo {
            options.custom_flags(libc::O_NONBLOCK);
        }
        let mut pauses = 0;
        let file = loop {
            match options.open(path) {
                Err(error) if is_fifo && error.raw_os_error() == Some(libc::ENXIO) => {
                    if STOP.load(Ordering::SeqCst) {
                        return Err(io(io::Error::other("stopped by a signal before anybody read it")));
                    }
                    pauses += 1;
                    if pauses == TOLD_AFTER {
                        tell!("{}: a FIFO that nobody reads yet: waiting for its reader", shown_path(path));
                    }
                    std::thread::sleep(PAUSE);
                }
                other => break other.map_err(&io)?,
            }
        };
        let kind = file.metadata().map_err(&io)?.file_type();
        if !kind.is_char_device() && !kind.is_fifo() {
            return Err(OutputError::refused(path, "became another file meanwhile"));
        }
        Ok(Stream::of(file))
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.file.write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if STOP.load(Ordering::SeqCst) && !self.was_stopped {
                        return Err(io::Error::other("stopped by a signal before its reader took all"));
                    }
                    let pause = Timespec { tv_sec: 0, tv_nsec: PAUSE.subsec_nanos().into() };
                    match poll(
                        &mut [PollFd::from_borrowed_fd(self.file.as_fd(), PollFlags::OUT)],
                        Some(&pause),
                    ) {
                        Ok(_) | Err(rustix::io::Errno::INTR) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
                other => return other,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}
