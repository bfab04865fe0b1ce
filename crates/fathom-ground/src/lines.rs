//! Messages as JSON, one object a line, over anything that carries octets: a guest's serial line,
//! or the pipes of a process on another machine.
//!
//! A line that begins with [`RAW`] is no message: it is what a program on the other side wrote,
//! passed on as it is.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::sync::mpsc::{Receiver, channel, sync_channel};
use std::thread;
use std::time::Duration;

use serde::Serialize;

/// A line that a program on the other side wrote, as it is, behind this.
pub const RAW: u8 = b'>';

/// Longest line that is read, octets: an event of a worker has at most a few KiB.
pub const LONGEST_LINE: u64 = 1 << 20;

/// Writes one message. A reader that has ended is an error ([`io::ErrorKind::BrokenPipe`]) and does
/// not end this process.
///
/// # Errors
/// What the system said.
pub fn send(out: &mut impl Write, message: &impl Serialize) -> io::Result<()> {
    crate::pipe::write_all(out, &line(message)?)
}

/// As [`send`], to a pipe whose reader may stand still: see [`crate::pipe::write_all_unless`].
///
/// # Errors
/// As there.
pub fn send_unless(
    out: &mut (impl Write + AsRawFd),
    message: &impl Serialize,
    is_over: impl FnMut(Duration) -> bool,
) -> io::Result<()> {
    crate::pipe::write_all_unless(out, &line(message)?, is_over)
}

fn line(message: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut text = serde_json::to_vec(message)?;
    text.push(b'\n');
    Ok(text)
}

/// Reads lines, each with its end, in a thread of their own until the other side ends; then the
/// channel is closed.
pub fn receive(from: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, lines) = channel();
    thread::spawn(move || hand_on(from, |line| sender.send(line).is_ok()));
    lines
}

/// As [`receive`], of whoever may write faster than is read, or without an end: no more than so many
/// lines wait in memory, and then the other side waits.
pub fn receive_few(from: impl Read + Send + 'static, most: usize) -> Receiver<Vec<u8>> {
    let (sender, lines) = sync_channel(most);
    thread::spawn(move || hand_on(from, |line| sender.send(line).is_ok()));
    lines
}

/// Hands on each line until there are no more, or it is not taken.
fn hand_on(from: impl Read, is_taken: impl Fn(Vec<u8>) -> bool) {
    let mut reader = BufReader::with_capacity(1 << 16, from);
    loop {
        let mut line = Vec::new();
        let read = reader.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line);
        if !matches!(read, Ok(1..)) || !is_taken(line) {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_is_received_line_by_line() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let lines = receive(reader);
        send(&mut writer, &("one\nline", 1)).unwrap();
        writer.write_all(b">raw\n").unwrap();
        drop(writer);
        let all: Vec<Vec<u8>> = lines.iter().collect();
        assert_eq!(all, [b"[\"one\\nline\",1]\n".to_vec(), b">raw\n".to_vec()]);
    }
    /// A machine that wrote without an end filled the memory of this one.
    #[test]
    fn whoever_writes_without_an_end_waits_for_the_reader() {
        struct Counted(std::sync::Arc<std::sync::atomic::AtomicUsize>);
        impl Read for Counted {
            fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
                self.0.fetch_add(into.len(), std::sync::atomic::Ordering::SeqCst);
                into.fill(b'\n');
                Ok(into.len())
            }
        }
        let taken = std::sync::Arc::default();
        let lines = receive_few(Counted(std::sync::Arc::clone(&taken)), 10);
        for _ in 0..1000 {
            assert_eq!(lines.recv().unwrap(), b"\n");
        }
        thread::sleep(std::time::Duration::from_millis(200));
        // One buffer is read ahead, and it holds more than these lines.
        assert_eq!(taken.load(std::sync::atomic::Ordering::SeqCst), 1 << 16);
    }
}
