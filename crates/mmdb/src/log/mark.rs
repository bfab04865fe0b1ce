//! The mark of a stream's directory: whose log is here, which stream of it, and which life used it
//! last.
//!
//! ```text
//! offset size
//!      0    8  magic "MMDBSTR1"
//!      8   16  identity of the database
//!     24    4  stream
//!     28   12  last life that used the directory: number u32, salt u64; zeros before the first
//!     40    4  CRC32C of bytes 0..40
//! ```
//! Written when the directory is made part of the database and at every opening, behind the
//! manifest; replaced whole.

use crate::codec::{Reader, put_u32, u32_at};
use crate::error::{Error, Result};
use crate::identity::{Identity, Life};
use crate::medium::{self, Medium};
use std::io;
use std::path::Path;

pub(crate) const NAME: &str = "STREAM";
const MAGIC: &[u8; 8] = b"MMDBSTR1";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) identity: Identity,
    pub(crate) stream: u32,
    pub(crate) life: Option<Life>,
}

impl Mark {
    fn encode(self) -> Vec<u8> {
        let mut b = MAGIC.to_vec();
        self.identity.put(&mut b);
        put_u32(&mut b, self.stream);
        Life::put(self.life, &mut b);
        let crc = crc32c::crc32c(&b);
        put_u32(&mut b, crc);
        b
    }

    fn decode(b: &[u8]) -> Option<Mark> {
        let n = b.len().checked_sub(4)?;
        if crc32c::crc32c(&b[..n]) != u32_at(b, n) {
            return None;
        }
        let mut r = Reader::new(&b[..n]);
        if r.take(8)? != MAGIC {
            return None;
        }
        let mark = Mark { identity: Identity::read(&mut r)?, stream: r.u32()?, life: Life::read(&mut r)? };
        r.is_empty().then_some(mark)
    }

    /// Reads the mark of a directory; `None` if it has none.
    pub(crate) fn load(medium: &dyn Medium, dir: &Path) -> Result<Option<Mark>> {
        let path = dir.join(NAME);
        let file = match medium.open_to_read(&path) {
            Ok(f) => f,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(Error::io("open", &path)(e)),
        };
        // A file that is longer is not a mark, and need not be read.
        let mut b = [0; 64];
        let n = file.read_at(0, &mut b).map_err(Error::io("read", &path))?;
        let mark = Mark::decode(&b[..n]);
        mark.map(Some).ok_or_else(|| {
            Error::corrupt(&path, 0, "this is not the mark of a log directory, or it is damaged")
        })
    }

    /// Replaces the mark of a directory, durably.
    pub(crate) fn store(self, medium: &dyn Medium, dir: &Path) -> Result<()> {
        medium::replace(medium, dir, NAME, &self.encode())
            .map_err(|(_, e)| Error::io("replace", &dir.join(NAME))(e))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::medium::MemoryMedium;

    #[test]
    fn a_mark_reads_back_and_notices_every_flipped_bit() {
        let (m, dir) = (MemoryMedium::new(), Path::new("/log"));
        assert_eq!(Mark::load(&m, dir).unwrap(), None);
        let mark = Mark { identity: Identity::random(), stream: 3, life: Some(Life { number: 4, salt: 5 }) };
        mark.store(&m, dir).unwrap();
        assert_eq!(Mark::load(&m, dir).unwrap(), Some(mark));
        let good = mark.encode();
        assert_eq!(good.len(), 44);
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Mark::decode(&bad), None, "bit {bit}");
        }
        (0..good.len()).for_each(|n| assert_eq!(Mark::decode(&good[..n]), None));
        m.create(&dir.join(NAME)).unwrap().write_at(0, &[good, vec![0; 9]].concat()).unwrap();
        assert!(matches!(Mark::load(&m, dir), Err(Error::Corrupt { .. })));
    }
}
