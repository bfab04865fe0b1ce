//! Messages as JSON, one object a line, over anything that carries octets: a guest's serial line,
//! or the pipes of a process on another machine.
//!
//! A line that begins with [`RAW`] is no message: it is what a program on the other side wrote,
//! passed on as it is.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

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
    let mut text = serde_json::to_vec(message)?;
    text.push(b'\n');
    crate::pipe::write_all(out, &text)
}

/// Reads lines, each with its end, in a thread of their own until the other side ends; then the
/// channel is closed.
pub fn receive(from: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, lines) = channel();
    thread::spawn(move || {
        let mut reader = BufReader::with_capacity(1 << 16, from);
        loop {
            let mut line = Vec::new();
            let read = reader.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line);
            if !matches!(read, Ok(1..)) || sender.send(line).is_err() {
                return;
            }
        }
    });
    lines
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
}
