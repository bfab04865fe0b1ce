//! Segments: fixed-size, zero-filled files that a stream writes from front to back and uses again.
//!
//! ```text
//! offset size
//!      0    8  magic: "MMDBSEG0" as prepared, "MMDBSEG1" from the first flush into it on
//!      8    4  epoch        (which life of the database wrote it)
//!     12    4  stream
//!     16    8  number of the segment in its stream
//!     24    4  CRC32C of bytes 0..24
//!   4096       frames; every flush begins at a multiple of 4096
//! ```
//! The header tells people and tools what the file is, and recovery which salt to try first. If it
//! is damaged, recovery tries every salt of the manifest, because the name alone and a salt make
//! the seed.
//!
//! The first flush writes its frames and the second magic under one sync. So while a whole header
//! has the first magic, no frame in the segment was ever acknowledged, and recovery need not read
//! it.

use crate::codec::{put_u32, put_u64, u32_at, u64_at};
use crate::error::{Error, Result};
use crate::log::frame::Seed;
use crate::medium::{Medium, MediumFile};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Unit of a flush and size of the header, bytes: no block that holds acknowledged frames is
/// written again.
pub(crate) const BLOCK: usize = 4096;
/// No segment is longer, bytes.
pub(crate) const MAX_SIZE: u64 = 1 << 32;
const PREPARED: &[u8; 8] = b"MMDBSEG0";
const USED: &[u8; 8] = b"MMDBSEG1";

/// A segment ready to be written.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub(crate) number: u64,
    pub(crate) path: PathBuf,
    pub(crate) file: Arc<dyn MediumFile>,
    pub(crate) seed: Seed,
}

/// A segment is filled in steps of so many bytes: a database that is closed meanwhile waits for one
/// of them at most.
const STEP: u64 = 8 << 20;

/// The identity that a segment's header states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) epoch: u32,
    pub(crate) stream: u32,
    pub(crate) number: u64,
    /// Frames may follow.
    pub(crate) used: bool,
}

/// The name of segment `number`.
pub(crate) fn name(number: u64) -> String {
    format!("segment-{number:010}")
}

/// No segment has a greater number.
pub(crate) const MAX_NUMBER: u64 = 1 << 60;

/// The number in a segment's name. A number has one name: `segment-7` is none, or a copy would be
/// read twice.
pub(crate) fn number_of(file: &str) -> Option<u64> {
    let number = file.strip_prefix("segment-")?.parse().ok()?;
    (number < MAX_NUMBER && name(number) == file).then_some(number)
}

pub(crate) fn read_header(bytes: &[u8]) -> Option<Header> {
    let b = bytes.get(..28)?;
    let used = &b[..8] == USED;
    let whole = (used || &b[..8] == PREPARED) && crc32c::crc32c(&b[..24]) == u32_at(b, 24);
    whole.then(|| Header { epoch: u32_at(b, 8), stream: u32_at(b, 12), number: u64_at(b, 16), used })
}

/// The first block of a segment.
pub(crate) fn header_block(h: Header) -> Vec<u8> {
    let mut b = if h.used { USED } else { PREPARED }.to_vec();
    put_u32(&mut b, h.epoch);
    put_u32(&mut b, h.stream);
    put_u64(&mut b, h.number);
    let crc = crc32c::crc32c(&b);
    put_u32(&mut b, crc);
    b.resize(BLOCK, 0);
    b
}

/// What a preparation asks meanwhile, which may take seconds.
#[derive(Clone, Copy)]
pub(crate) struct Questions<'a> {
    /// Whether the segment is still wanted.
    pub(crate) is_wanted: &'a dyn Fn() -> bool,
    /// Whether the directory is the one that was opened: what has the segment's name in another one
    /// is not to be removed.
    pub(crate) is_own_directory: &'a dyn Fn() -> bool,
}

/// Makes segment `number` ready, out of `old` if there is one: named, of full size, headed and
/// durable. Between two steps of filling it, asks whether it is still wanted; one that is not is
/// removed, and an error.
pub(crate) fn prepare(
    medium: &dyn Medium,
    dir: &Path,
    h: Header,
    salt: u64,
    size: u64,
    old: Option<&str>,
    ask: Questions<'_>,
) -> Result<Segment> {
    let path = dir.join(name(h.number));
    let file = match old {
        Some(old) => {
            let from = dir.join(old);
            medium.rename(&from, &path).map_err(Error::io("rename", &from))?;
            medium.open(&path).map_err(Error::io("open", &path))?
        }
        None => medium.create(&path).map_err(Error::io("create", &path))?,
    };
    let ready = (|| {
        // On a disk that has no room for it, none of it is written.
        file.reserve(size)?;
        // One that is used again has its size.
        let mut filled = if size > STEP { file.len()? } else { size };
        while filled.saturating_add(STEP) < size {
            filled += STEP;
            file.preallocate(filled)?;
            if !(ask.is_wanted)() {
                return Err(ErrorKind::Interrupted.into());
            }
        }
        file.preallocate(size)?;
        // The name first: a header that contradicts the name would be read as damage.
        medium.sync_dir(dir)?;
        file.write_at(0, &header_block(h))?;
        file.sync()
    })();
    if let Err(e) = ready {
        // A half-made segment only takes the space that is missing.
        if (ask.is_own_directory)() {
            let _ = medium.remove(&path);
        }
        return Err(Error::io("prepare", &path)(e));
    }
    Ok(Segment { number: h.number, path, file, seed: Seed::new(salt, h.stream, h.number) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::medium::MemoryMedium;
    use std::cell::Cell;

    /// Closing a database used to wait until the segments ahead were whole, which a slow disk takes
    /// seconds for.
    #[test]
    fn a_segment_that_is_wanted_no_more_is_given_up_between_two_steps() {
        let (medium, dir) = (MemoryMedium::new(), Path::new("/log"));
        let asked = Cell::new(0);
        let make = |number, size, old: Option<u64>, steps| {
            asked.set(0);
            let is_wanted = || {
                asked.set(asked.get() + 1);
                asked.get() < steps
            };
            let h = Header { epoch: 1, stream: 0, number, used: false };
            let ask = Questions { is_wanted: &is_wanted, is_own_directory: &|| true };
            prepare(&medium, dir, h, 7, size, old.map(name).as_deref(), ask).map(|s| s.file.len().unwrap())
        };
        let size = 4 * STEP + 4096;
        assert!(make(1, size, None, 2).is_err());
        assert_eq!((asked.get(), medium.list(dir).unwrap().len()), (2, 0), "no half of one is left");
        assert_eq!((make(2, size, None, 99).unwrap(), asked.get()), (size, 4));
        // Nothing is filled, nobody is asked.
        assert_eq!((make(3, size, Some(2), 0).unwrap(), asked.get()), (size, 0));
        assert_eq!((make(4, STEP, None, 0).unwrap(), asked.get()), (STEP, 0));
    }

    /// While a segment was filled, its directory was taken away and another database made in its
    /// place. The segment was given up when the first database was closed, and what had its name by
    /// then, a segment of the other one, was removed.
    #[test]
    fn a_segment_that_is_given_up_is_not_removed_from_another_directory() {
        let (medium, dir) = (MemoryMedium::new(), Path::new("/log"));
        let h = Header { epoch: 1, stream: 0, number: 1, used: false };
        for (is_own, left) in [(true, 0), (false, 1)] {
            let ask = Questions { is_wanted: &|| false, is_own_directory: &|| is_own };
            assert!(prepare(&medium, dir, h, 7, 4 * STEP, None, ask).is_err());
            assert_eq!(medium.list(dir).unwrap().len(), left);
        }
    }
}
