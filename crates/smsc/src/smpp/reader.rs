//! Fields of a body, one after another.

use super::Status;

/// A body, and how far it has been read.
pub(super) struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// One octet.
    pub fn octet(&mut self) -> Result<u8, Status> {
        let (&octet, rest) = self.0.split_first().ok_or(Status::CommandLength)?;
        self.0 = rest;
        Ok(octet)
    }

    /// So many octets.
    pub fn octets(&mut self, count: usize) -> Result<&'a [u8], Status> {
        let (octets, rest) = self.0.split_at_checked(count).ok_or(Status::CommandLength)?;
        self.0 = rest;
        Ok(octets)
    }

    /// A C-Octet String of at most `max` octets, its NUL included; `wrong` if it is longer.
    /// Where the body ends before it does, the body's length is wrong.
    pub fn text(&mut self, max: usize, wrong: Status) -> Result<&'a [u8], Status> {
        let end = self.0.iter().take(max).position(|&octet| octet == 0);
        match end {
            Some(end) => {
                let text = &self.0[..end];
                self.0 = &self.0[end + 1..];
                Ok(text)
            }
            None if self.0.len() < max => Err(Status::CommandLength),
            None => Err(wrong),
        }
    }

    /// As [`Reader::text`], of printable characters of ASCII.
    pub fn ascii(&mut self, max: usize, wrong: Status) -> Result<String, Status> {
        let text = self.text(max, wrong)?;
        if !text.iter().all(|octet| (b' '..=b'~').contains(octet)) {
            return Err(wrong);
        }
        String::from_utf8(text.to_vec()).map_err(|_| wrong)
    }
}
