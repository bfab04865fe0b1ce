//! Text of others on a terminal.

use std::io::{self, Write};

/// Text in one line without anything that a terminal would obey or hide: control characters (escape
/// sequences begin with one, and a line break could pretend to be a message of ours) and marks of
/// direction and of no width are shown by their code, as in `\u{1b}`.
#[must_use]
pub fn shown(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut out, c| {
        match c {
            '\n' => out.push_str("\\n"),
            c if is_obeyed(c) => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
        out
    })
}

/// As [`shown`], of a path: a file's name may hold a line break, too.
#[must_use]
pub fn shown_path(path: &std::path::Path) -> String {
    shown(&path.to_string_lossy())
}

/// As [`shown`], for text of several lines: line breaks and tabulators stay.
#[must_use]
pub fn lines(text: &str) -> String {
    let mut chars = text.chars().peekable();
    let mut out = String::with_capacity(text.len());
    while let Some(c) = chars.next() {
        match c {
            '\n' | '\t' => out.push(c),
            '\r' if chars.peek() == Some(&'\n') => out.push(c),
            c if is_obeyed(c) => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out
}

/// Shows all that is written to it as [`lines`] does. Flush it, or its last bytes may be missing.
#[derive(Debug)]
pub struct EscapingWriter<W> {
    out: W,
    /// What may be the begin of a character, or of a line's end.
    held: Vec<u8>,
}

impl<W: Write> EscapingWriter<W> {
    /// Nothing is written yet.
    pub fn new(out: W) -> EscapingWriter<W> {
        EscapingWriter { out, held: Vec::new() }
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(lines(&String::from_utf8_lossy(bytes)).as_bytes())
    }
}

impl<W: Write> Write for EscapingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.held.extend_from_slice(bytes);
        let held = std::mem::take(&mut self.held);
        let mut whole = match std::str::from_utf8(&held) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => held.len(),
        };
        if held[..whole].ends_with(b"\r") {
            whole -= 1;
        }
        self.held = held[whole..].to_vec();
        self.put(&held[..whole])?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let held = std::mem::take(&mut self.held);
        self.put(&held)?;
        self.out.flush()
    }
}

/// Whether a terminal would obey or hide a character: it is a control character, or a mark of
/// direction or of no width.
#[must_use]
pub fn is_obeyed(c: char) -> bool {
    let invisible = matches!(
        c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}'
            | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}'
    );
    c.is_control() || invisible
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_shown() {
        assert_eq!(
            shown("a\x1b[2Jb\n\u{202e}c\u{9b}\u{7f}\té"),
            "a\\u{1b}[2Jb\\n\\u{202e}c\\u{9b}\\u{7f}\\u{9}é"
        );
        // The Arabic mark of direction, a soft hyphen and tags passed through.
        assert_eq!(shown("r.db\u{61c}\u{ad}\u{e0041}.html"), "r.db\\u{61c}\\u{ad}\\u{e0041}.html");
        assert_eq!(lines("a\x1b]0;x\x07\n\tb\r\nc\r"), "a\\u{1b}]0;x\\u{7}\n\tb\r\nc\\u{d}");
    }

    #[test]
    fn what_is_written_in_pieces_is_shown_as_if_in_one() {
        let text = "é\u{9b}2J,\x1bc\r\nd\r";
        for size in 1..text.len() {
            let mut out = EscapingWriter::new(Vec::new());
            text.as_bytes().chunks(size).for_each(|piece| out.write_all(piece).unwrap());
            out.flush().unwrap();
            assert_eq!(String::from_utf8(out.out).unwrap(), lines(text), "{size} bytes at a time");
        }
    }
}
