//! Reading a segment: every valid frame in it, and where it is damaged.

use super::buffer::Buffer;
use crate::codec::u32_at;
use crate::error::{Error, Result};
use crate::log::frame::{self, ALIGN, Frame, Seed};
use crate::log::segment::{self, BLOCK, Header, MAX_SIZE};
use crate::manifest::{Epoch, Manifest};
use crate::medium::Medium;
use std::path::{Path, PathBuf};

/// A segment that has been read.
#[derive(Debug)]
pub(crate) struct ScannedSegment {
    pub(crate) path: PathBuf,
    pub(crate) stream: usize,
    pub(crate) number: u64,
    pub(crate) bytes: Buffer,
    pub(crate) frames: Vec<Frame>,
    /// The life that wrote the frames.
    pub(crate) epoch: Option<Epoch>,
    /// First place where neither a frame nor padding is, and frames follow.
    pub(crate) damage: Option<u64>,
    /// End of the last valid frame.
    pub(crate) end: u64,
    /// The first block that the disk could not read: zeros stand for it, and for all such.
    pub(crate) unreadable: Option<u64>,
}

impl ScannedSegment {
    /// The error of a segment without a frame in which the manifest knows of some.
    pub(crate) fn misses_frames(&self, manifest: &Manifest) -> Option<Error> {
        if !self.frames.is_empty() || !manifest.has_begun(self.stream, self.number) {
            return None;
        }
        let what = "MANIFEST says that commits in this segment were acknowledged, and none is there: the segment is \
                    damaged, or the log directory an older copy";
        Some(Error::corrupt(&self.path, self.bytes.len().min(BLOCK) as u64, what))
    }

    /// The last commit here that counts.
    pub(crate) fn max_gsn(&self) -> Option<u64> {
        let cut = self.epoch?.cut;
        self.frames.iter().map(|f| f.gsn).filter(|&g| g <= cut).max()
    }
}

/// Segment numbers in a directory, in order.
pub(crate) fn numbers(medium: &dyn Medium, dir: &Path) -> Result<Vec<u64>> {
    let names = medium.list(dir).map_err(Error::io("list", dir))?;
    let mut numbers: Vec<u64> = names.iter().filter_map(|n| segment::number_of(n)).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// Reads segment `number` from the device, into `buffer`'s memory.
pub(crate) fn read(
    medium: &dyn Medium,
    dir: &Path,
    stream: usize,
    number: u64,
    epochs: &[Epoch],
    mut buffer: Buffer,
) -> Result<ScannedSegment> {
    let path = dir.join(segment::name(number));
    let file = medium.open_to_read(&path).map_err(Error::io("open", &path))?;
    // After a failed sync the cache may hold what the device does not.
    let mut fill = |len: usize| {
        buffer.resize(len).map_err(Error::io("read", &path))?;
        let n = file.read_device(&mut buffer).map_err(Error::io("read", &path))?;
        buffer.truncate(n);
        Ok(header_of(&buffer, stream, number))
    };
    // A segment that was only prepared is 64 MiB of zeros, or of an earlier life: nothing in it
    // counts.
    if fill(BLOCK)?.is_none_or(|h| h.used) {
        let len = file.len().map_err(Error::io("read", &path))?;
        fill(sane_length(&path, len)?)?;
    }
    Ok(scan(path, stream, number, buffer, epochs))
}

/// The length of a segment in memory. A damaged one must not cost more than a segment can have.
fn sane_length(path: &Path, len: u64) -> Result<usize> {
    let too_long = || Error::corrupt(path, MAX_SIZE, format!("no segment has {len} bytes"));
    usize::try_from(len).ok().filter(|_| len <= MAX_SIZE).ok_or_else(too_long)
}

/// Reads of segment `number`, which the disk cannot read whole, the blocks that it can.
pub(crate) fn read_rest(
    medium: &dyn Medium,
    dir: &Path,
    stream: usize,
    number: u64,
    epochs: &[Epoch],
) -> Result<ScannedSegment> {
    let path = dir.join(segment::name(number));
    let file = medium.open_to_read(&path).map_err(Error::io("open", &path))?;
    let len = file.len().map_err(Error::io("read", &path))?;
    let mut buffer = Buffer::default();
    buffer.resize(sane_length(&path, len)?).map_err(Error::io("read", &path))?;
    let mut unreadable = None;
    for (i, block) in buffer.chunks_mut(BLOCK).enumerate() {
        let at = (i * BLOCK) as u64;
        let n = file.read_at(at, block).unwrap_or_else(|_| {
            unreadable.get_or_insert(at);
            0
        });
        block[n..].fill(0);
    }
    Ok(ScannedSegment { unreadable, ..scan(path, stream, number, buffer, epochs) })
}

/// The header, if it is whole and fits the place.
fn header_of(bytes: &[u8], stream: usize, number: u64) -> Option<Header> {
    segment::read_header(bytes).filter(|h| h.stream as usize == stream && h.number == number)
}

/// Finds the frames in a segment's bytes.
pub(crate) fn scan(
    path: PathBuf,
    stream: usize,
    number: u64,
    bytes: Buffer,
    epochs: &[Epoch],
) -> ScannedSegment {
    let mut s = ScannedSegment {
        path,
        stream,
        number,
        bytes,
        frames: Vec::new(),
        epoch: None,
        damage: None,
        end: BLOCK as u64,
        unreadable: None,
    };
    let header = header_of(&s.bytes, stream, number);
    for e in epochs {
        // A whole header says which life wrote the segment; a damaged one leaves them all possible.
        if header.is_some_and(|h| h.epoch != e.number) {
            continue;
        }
        let seed = Seed::new(e.salt, stream as u32, number);
        let (frames, damage) = frames(&s.bytes, seed);
        if let Some(last) = frames.last() {
            s.end = (last.at + last.len) as u64;
            s.frames = frames;
            s.damage = damage;
            s.epoch = Some(*e);
            break;
        }
    }
    s
}

fn frames(bytes: &[u8], seed: Seed) -> (Vec<Frame>, Option<u64>) {
    let mut found = Vec::new();
    let mut damage = None;
    let mut at = BLOCK;
    loop {
        while let Some(f) = frame::parse(bytes, at, seed) {
            at = f.at + f.len;
            found.push(f);
        }
        // Padding to the next block, the end, or damage: look for the next frame.
        let gap = at;
        let Some(next) = next_frame(bytes, at, seed) else { return (found, damage) };
        // Zeros up to a block are padding; what stands between them and the next frame is damage.
        let block = gap.next_multiple_of(BLOCK);
        let padded = block <= next && bytes[gap..block].iter().all(|&b| b == 0);
        let start = if padded { block } else { gap };
        if start < next {
            damage.get_or_insert(start as u64);
        }
        at = next;
    }
}

fn next_frame(bytes: &[u8], after: usize, seed: Seed) -> Option<usize> {
    let mut at = after.next_multiple_of(ALIGN);
    while at + ALIGN <= bytes.len() {
        // Unwritten space is long runs of zeros.
        if let Some(block) = bytes.get(at..at + 512)
            && block == [0; 512]
        {
            at += 512;
            continue;
        }
        if u32_at(bytes, at) == frame::MAGIC && frame::parse(bytes, at, seed).is_some() {
            return Some(at);
        }
        at += ALIGN;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> (Vec<u8>, Epoch) {
        let e = Epoch { number: 3, salt: 77, cut: u64::MAX };
        let seed = Seed::new(e.salt, 1, 9);
        let mut b = vec![0; BLOCK];
        for gsn in 1..=6u64 {
            let body = vec![gsn as u8; 700];
            let at = b.len() as u64;
            frame::put_frame(&mut b, seed, at, gsn, 0, &body, crc32c::crc32c(&body));
            if gsn % 2 == 0 {
                b.resize(b.len().next_multiple_of(BLOCK), 0);
            }
        }
        b.resize(BLOCK * 8, 0);
        (b, e)
    }

    #[test]
    fn padding_is_not_damage_and_a_flipped_bit_is() {
        let (good, e) = sample();
        let s = scan("x".into(), 1, 9, good.clone().into(), &[e]);
        assert_eq!((s.frames.len(), s.damage), (6, None));
        let mut bad = good;
        bad[BLOCK + 100] ^= 4;
        let s = scan("x".into(), 1, 9, bad.into(), &[e]);
        assert_eq!((s.frames.len(), s.damage), (5, Some(BLOCK as u64)));
    }

    #[test]
    fn a_segment_that_was_only_prepared_is_not_read_further_than_its_header() {
        let (mut bytes, e) = sample();
        let medium = crate::medium::MemoryMedium::new();
        let (dir, path) = (Path::new("/log"), Path::new("/log").join(segment::name(9)));
        let file = medium.create(&path).unwrap();
        let mut found = |used| {
            let h = Header { epoch: e.number, stream: 1, number: 9, used };
            bytes[..BLOCK].copy_from_slice(&segment::header_block(h));
            file.write_at(0, &bytes).unwrap();
            let s = read(&medium, dir, 1, 9, &[e], Buffer::default()).unwrap();
            (s.frames.len(), s.bytes.len())
        };
        assert_eq!(found(false), (0, BLOCK));
        assert_eq!(found(true), (6, BLOCK * 8));
        // A header that is damaged denies nothing.
        file.write_at(0, b"MMDBSEG0").unwrap();
        assert_eq!(read(&medium, dir, 1, 9, &[e], Buffer::default()).unwrap().frames.len(), 6);
    }

    #[test]
    fn a_frame_of_another_life_stream_or_segment_is_not_seen() {
        let (good, e) = sample();
        for (stream, number, salt) in [(0, 9, 77), (1, 8, 77), (1, 9, 78)] {
            let s = scan("x".into(), stream, number, good.clone().into(), &[Epoch { salt, ..e }]);
            assert_eq!(s.frames.len(), 0);
        }
    }
}
