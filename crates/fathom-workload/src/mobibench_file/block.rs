//! What stands in the file: each record says where it belongs, and every one of its bytes can be
//! checked.
//!
//! ```text
//! offset  bytes  content (little endian)
//!      0      8  magic "FATHOMBK"
//!      8      4  file (number of the thread whose file it is)
//!     12      4  generation (1 = prepared before the run, then one more for each access that writes)
//!     16      8  offset of the record in its file
//!     24    n-32 random bytes, drawn from (seed, file, generation, offset)
//!    n-8      8  checksum of all bytes before it
//! ```
//!
//! A record that is read back is compared with what must stand there, byte by byte. When they
//! differ, magic, stamp and checksum tell how: zeroes (never written), a whole record of an older
//! generation (a lost write), a whole record of another place (a misplaced write), or bytes that
//! fit no record (torn or damaged).

use fathom_random::Random;

const MAGIC: [u8; 8] = *b"FATHOMBK";

/// Where a record belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Number of the file, which is that of its thread.
    pub file: u32,
    /// 1 for prepared records, then one more for each access that writes.
    pub generation: u32,
    /// Offset of the record in its file, bytes.
    pub offset: u64,
}

/// Fills `record` (1,024 bytes or more) with what this place must hold.
pub fn write(record: &mut [u8], seed: u64, stamp: Stamp) {
    let end = record.len() - 8;
    record[0..8].copy_from_slice(&MAGIC);
    record[8..12].copy_from_slice(&stamp.file.to_le_bytes());
    record[12..16].copy_from_slice(&stamp.generation.to_le_bytes());
    record[16..24].copy_from_slice(&stamp.offset.to_le_bytes());
    let part = u64::from(stamp.file) << 32 | u64::from(stamp.generation);
    Random::stream(seed ^ part, "mobibench-file record", stamp.offset).fill(&mut record[24..end]);
    let sum = checksum(&record[..end]);
    record[end..].copy_from_slice(&sum.to_le_bytes());
}

/// Checks that `record` is what this place must hold. `scratch` has the record's length.
///
/// # Errors
/// What stands there instead, in words.
pub fn check(record: &[u8], seed: u64, stamp: Stamp, scratch: &mut [u8]) -> Result<(), String> {
    write(scratch, seed, stamp);
    if record == scratch {
        return Ok(());
    }
    let first = record.iter().zip(scratch.iter()).position(|(is, must)| is != must).unwrap_or(record.len());
    Err(format!("{} (the first wrong byte is number {first} of {})", diagnose(record, stamp), record.len()))
}

/// How a wrong record is wrong.
fn diagnose(record: &[u8], must: Stamp) -> String {
    if record.iter().all(|&byte| byte == 0) {
        return "only zeroes: never written, or lost".into();
    }
    let Some(is) = stamp_of(record) else {
        return "damaged: its checksum does not fit its content (a torn or corrupted write)".into();
    };
    if is.file != must.file || is.offset != must.offset {
        return format!("the record of offset {} of file {}: a misplaced write or read", is.offset, is.file);
    }
    if is.generation < must.generation {
        return format!("content of generation {}, not {}: a lost write", is.generation, must.generation);
    }
    format!("content of generation {}, not {}, or of another seed", is.generation, must.generation)
}

/// The stamp of a whole record; none where magic or checksum do not fit.
fn stamp_of(record: &[u8]) -> Option<Stamp> {
    let end = record.len().checked_sub(8)?;
    let word = |at: usize| -> Option<[u8; 8]> { record.get(at..at + 8)?.try_into().ok() };
    let half = |at: usize| -> Option<[u8; 4]> { record.get(at..at + 4)?.try_into().ok() };
    if word(0)? != MAGIC || u64::from_le_bytes(word(end)?) != checksum(&record[..end]) {
        return None;
    }
    Some(Stamp {
        file: u32::from_le_bytes(half(8)?),
        generation: u32::from_le_bytes(half(12)?),
        offset: u64::from_le_bytes(word(16)?),
    })
}

/// FNV-1a over 64-bit words instead of bytes, with a final mix: quick, and any changed word changes
/// it.
fn checksum(bytes: &[u8]) -> u64 {
    let mut sum = 0xcbf2_9ce4_8422_2325_u64;
    for chunk in bytes.chunks(8) {
        let mut word = [0_u8; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        sum = (sum ^ u64::from_le_bytes(word)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    sum ^ (sum >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STAMP: Stamp = Stamp { file: 2, generation: 3, offset: 8192 };

    fn made(seed: u64, stamp: Stamp) -> Vec<u8> {
        let mut record = vec![0; 1024];
        write(&mut record, seed, stamp);
        record
    }

    fn wrong(record: &[u8]) -> String {
        check(record, 1, STAMP, &mut vec![0; record.len()]).expect_err("the record is wrong")
    }

    proptest! {
        #[test]
        fn any_changed_byte_is_found(seed: u64, at in 0_usize..1024, change in 1_u8..) {
            let mut record = made(seed, STAMP);
            prop_assert_eq!(check(&record, seed, STAMP, &mut [0; 1024]), Ok(()));
            record[at] ^= change;
            let problem = check(&record, seed, STAMP, &mut [0; 1024]).expect_err("a byte was changed");
            prop_assert!(problem.contains(&format!("number {at} of 1024")), "{}", problem);
            prop_assert!(problem.contains("damaged"), "{}", problem);
        }

        #[test]
        fn content_is_random_and_differs_by_place(seed: u64, a in 0_u64..1 << 40, b in 0_u64..1 << 40) {
            prop_assume!(a != b);
            let (first, second) = (made(seed, Stamp { offset: a, ..STAMP }), made(seed, Stamp { offset: b, ..STAMP }));
            let equal = first[24..].iter().zip(&second[24..]).filter(|(x, y)| x == y).count();
            prop_assert!(equal < 50, "{} of 1000 bytes are equal", equal);
        }
    }

    #[test]
    fn a_wrong_record_is_named() {
        assert!(wrong(&[0; 1024]).contains("zeroes"));
        assert!(wrong(&made(1, Stamp { generation: 2, ..STAMP })).contains("a lost write"));
        assert!(wrong(&made(1, Stamp { offset: 0, ..STAMP })).contains("offset 0 of file 2: a misplaced"));
        assert!(wrong(&made(1, Stamp { file: 0, ..STAMP })).contains("of file 0: a misplaced"));
        assert!(wrong(&made(9, STAMP)).contains("another seed"));
        let mut torn = made(1, STAMP);
        torn[512..].copy_from_slice(&made(1, Stamp { generation: 2, ..STAMP })[512..]);
        assert!(wrong(&torn).contains("torn"));
    }
}
