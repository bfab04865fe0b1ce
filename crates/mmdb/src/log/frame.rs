//! Frames: one transaction each, valid as a whole or not at all.
//!
//! ```text
//! offset size
//!      0    4  magic "MMFR"
//!      4    4  length of the body, bytes
//!      8    8  gsn: number of the commit, dense over all streams
//!     16    8  horizon: every commit up to this was durable when the frame was written
//!     24    4  CRC32C of the body
//!     28    4  CRC32C of bytes 0..28, seeded with salt, stream, segment and offset
//!     32    n  body: records; then zeros to a multiple of 8
//! ```
//! The seed makes stale bytes invalid: those of an earlier use of a recycled segment, of an earlier
//! life of the database, or of another place.

use crate::codec::{u32_at, u64_at};

pub(crate) const MAGIC: u32 = u32::from_le_bytes(*b"MMFR");
/// Bytes of a frame before its body.
pub(crate) const HEAD: usize = 32;
/// No commit has a greater number: at a million a second, 36,000 years.
pub(crate) const MAX_GSN: u64 = 1 << 60;
/// Frames begin at multiples of this, bytes.
pub(crate) const ALIGN: usize = 8;

/// What seeds the checksums of one segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seed(u32);

impl Seed {
    pub(crate) fn new(salt: u64, stream: u32, segment: u64) -> Seed {
        let mut b = [0; 20];
        b[..8].copy_from_slice(&salt.to_le_bytes());
        b[8..12].copy_from_slice(&stream.to_le_bytes());
        b[12..].copy_from_slice(&segment.to_le_bytes());
        Seed(crc32c::crc32c(&b))
    }

    #[inline]
    fn crc(self, offset: u64, head: &[u8]) -> u32 {
        crc32c::crc32c_append(self.0 ^ (offset as u32).rotate_left(7), head)
    }
}

/// Length on disk of a frame with a body of `body` bytes.
pub(crate) fn frame_len(body: usize) -> usize {
    (HEAD + body).next_multiple_of(ALIGN)
}

/// Appends a frame that will stand at `offset` of its segment. `body_crc` is the CRC32C of `body`.
#[inline]
pub(crate) fn put_frame(
    out: &mut Vec<u8>,
    seed: Seed,
    offset: u64,
    gsn: u64,
    horizon: u64,
    body: &[u8],
    body_crc: u32,
) {
    assert!(offset.is_multiple_of(ALIGN as u64) && gsn <= MAX_GSN && horizon < gsn);
    assert!(u32::try_from(body.len()).is_ok(), "a body's length has 32 bits");
    let mut head = [0; HEAD];
    head[..4].copy_from_slice(&MAGIC.to_le_bytes());
    head[4..8].copy_from_slice(&(body.len() as u32).to_le_bytes());
    head[8..16].copy_from_slice(&gsn.to_le_bytes());
    head[16..24].copy_from_slice(&horizon.to_le_bytes());
    head[24..28].copy_from_slice(&body_crc.to_le_bytes());
    let crc = seed.crc(offset, &head[..28]);
    head[28..].copy_from_slice(&crc.to_le_bytes());
    let start = out.len();
    out.extend_from_slice(&head);
    out.extend_from_slice(body);
    out.resize(start + frame_len(body.len()), 0);
}

/// A valid frame found in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) gsn: u64,
    pub(crate) horizon: u64,
    /// Offset of the frame in the bytes given, and its length on disk.
    pub(crate) at: usize,
    pub(crate) len: usize,
    pub(crate) body_len: usize,
}

impl Frame {
    pub(crate) fn body(&self) -> std::ops::Range<usize> {
        self.at + HEAD..self.at + HEAD + self.body_len
    }
}

/// The number of the frame with which `bytes` begin, if its head is whole and stands at `offset`.
pub(crate) fn head(bytes: &[u8], offset: u64, seed: Seed) -> Option<u64> {
    let head = bytes.get(..HEAD)?;
    let is_whole = u32_at(head, 0) == MAGIC && seed.crc(offset, &head[..28]) == u32_at(head, 28);
    is_whole.then(|| u64_at(head, 8))
}

/// The frame at `at` of a segment's bytes, if a valid one is there.
pub(crate) fn parse(bytes: &[u8], at: usize, seed: Seed) -> Option<Frame> {
    parse_from(bytes, at, at as u64, seed)
}

/// The frame at `at` of some bytes of a segment, of which that place is the segment's `offset`.
pub(crate) fn parse_from(bytes: &[u8], at: usize, offset: u64, seed: Seed) -> Option<Frame> {
    let head = bytes.get(at..at.checked_add(HEAD)?)?;
    if u32_at(head, 0) != MAGIC {
        return None;
    }
    if seed.crc(offset, &head[..28]) != u32_at(head, 28) {
        return None;
    }
    let body_len = u32_at(head, 4) as usize;
    let body = bytes.get(at + HEAD..(at + HEAD).checked_add(body_len)?)?;
    if crc32c::crc32c(body) != u32_at(head, 24) {
        return None;
    }
    let (gsn, horizon) = (u64_at(head, 8), u64_at(head, 16));
    let sane = gsn <= MAX_GSN && horizon <= MAX_GSN;
    sane.then(|| Frame { gsn, horizon, at, len: frame_len(body_len), body_len })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_frame_reads_back_only_where_and_as_it_was_written(body: Vec<u8>, flip in any::<proptest::sample::Index>()) {
            let seed = Seed::new(7, 1, 3);
            let mut b = vec![0; 64];
            put_frame(&mut b, seed, 64, 42, 40, &body, crc32c::crc32c(&body));
            let f = parse(&b, 64, seed).unwrap();
            prop_assert_eq!((f.gsn, f.horizon, &b[f.body()]), (42, 40, &body[..]));
            prop_assert_eq!(f.at + f.len, b.len());
            prop_assert_eq!(parse(&b, 64, Seed::new(8, 1, 3)), None);
            prop_assert_eq!(parse(&b, 64, Seed::new(7, 2, 3)), None);
            prop_assert_eq!(parse(&b, 64, Seed::new(7, 1, 4)), None);
            let moved = b[8..].to_vec();
            prop_assert_eq!(parse(&moved, 56, seed), None);
            let bit = flip.index((HEAD + body.len()) * 8);
            b[64 + bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(parse(&b, 64, seed), None);
        }

        #[test]
        fn no_bytes_make_the_parser_panic(b: Vec<u8>, at in 0usize..300) {
            parse(&b, at, Seed::new(0, 0, 0));
        }
    }
}
