//! A text file line by line.

use std::fs::File;
use std::io::{BufRead, BufReader, Error, ErrorKind, Read};
use std::path::{Path, PathBuf};

use crate::error::TraceError;

/// Longest line, bytes: a device (`/dev/zero`), or a pipe that never ends, is not read for ever.
const LONGEST: u64 = 256 << 20;

/// What begins the sequences that colour a text on a terminal (`ESC [ 31;1 m`).
pub const COLOUR: &str = "\u{1b}[";

/// Whether a file may be looked through before it is read: a pipe can be read once.
///
/// # Errors
/// There is none.
pub fn can_be_read_twice(path: &Path) -> Result<bool, TraceError> {
    Ok(std::fs::metadata(path).map_err(TraceError::io(path))?.is_file())
}

/// Lines of a file, with their line ends (CR LF as LF, as the `sqlite3` shell reads them), without
/// a byte order mark; what is no UTF-8 becomes U+FFFD.
pub struct Lines {
    path: PathBuf,
    file: BufReader<File>,
    bytes: Vec<u8>,
    text: String,
    has_colours: bool,
    number: u64,
    read: u64,
}

impl Lines {
    /// From the start of a file.
    pub fn open(path: &Path) -> Result<Lines, TraceError> {
        let file = BufReader::with_capacity(1 << 16, File::open(path).map_err(TraceError::io(path))?);
        let (bytes, text) = (Vec::new(), String::new());
        Ok(Lines { path: path.to_owned(), file, bytes, text, has_colours: true, number: 0, read: 0 })
    }

    /// Without what colours them on a terminal, from now on.
    pub fn without_colours(mut self) -> Lines {
        self.has_colours = false;
        self
    }

    /// The next line; none at the end.
    pub fn next_line(&mut self) -> Result<Option<&str>, TraceError> {
        self.bytes.clear();
        let mut bounded = self.file.by_ref().take(LONGEST + 1);
        if bounded.read_until(b'\n', &mut self.bytes).map_err(TraceError::io(&self.path))? == 0 {
            return Ok(None);
        }
        self.read += self.bytes.len() as u64;
        self.number += 1;
        if self.bytes.len() as u64 > LONGEST {
            let problem =
                format!("line {} has more than {} MiB, and so is no text of SQL", self.number, LONGEST >> 20);
            return Err(TraceError::io(&self.path)(Error::new(ErrorKind::InvalidData, problem)));
        }
        if self.number == 1 && self.bytes.starts_with(b"\xef\xbb\xbf") {
            self.bytes.drain(..3);
        }
        if self.bytes.ends_with(b"\r\n") {
            self.bytes.truncate(self.bytes.len() - 2);
            self.bytes.push(b'\n');
        }
        self.text.clear();
        self.text.push_str(&String::from_utf8_lossy(&self.bytes));
        if !self.has_colours && self.text.contains(COLOUR) {
            self.text = without_colours(&self.text);
        }
        Ok(Some(&self.text))
    }

    /// The last line as it stands in the file.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Bytes of the file that were read.
    pub fn read_bytes(&self) -> u64 {
        self.read
    }

    /// Number of the last line, from 1.
    pub fn number(&self) -> u64 {
        self.number
    }
}

/// A text without the sequences that colour it.
pub fn without_colours(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(COLOUR) {
        plain.push_str(before);
        let words = after.trim_start_matches(|letter: char| letter.is_ascii_digit() || letter == ';');
        rest = words.strip_prefix('m').unwrap_or_else(|| {
            plain.push_str(COLOUR);
            after
        });
    }
    plain.push_str(rest);
    plain
}
