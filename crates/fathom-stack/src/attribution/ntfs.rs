//! NTFS's master file table, log, bitmap and directories, from the file table as it is
//! (little-endian; the layout as the Linux-NTFS project documents it,
//! <https://flatcap.github.io/linux-ntfs/>).
//!
//! Everything on an NTFS volume is a file, its metadata too: records 0 to 23 of the table are the
//! file system's own, and every directory keeps its index in extents of its own. All of them are
//! taken for metadata; the data of record 2 is the journal. What a small file holds lies within its
//! record, and so counts as metadata.

use std::io;
use std::ops::Range;

use super::regions::{Bytes, Regions, Superblocks, joined, unlike};

/// Records of the file system's own files.
const OWN_RECORDS: u64 = 24;
/// The record of `$LogFile`.
const LOG_RECORD: u64 = 2;
/// Records beyond which a table is not read.
const RECORDS_MAX: u64 = 1 << 20;
/// Pieces of what those records name beyond which they are not believed.
const PIECES_MAX: usize = 1 << 24;
const SECTOR_BYTES: usize = 512;

/// Types of attributes.
const ATTRIBUTE_LIST: u64 = 0x20;
const DATA: u64 = 0x80;
const INDEX_ALLOCATION: u64 = 0xa0;
const BITMAP: u64 = 0xb0;
const END: u64 = 0xffff_ffff;

pub(super) fn regions(device: &Superblocks) -> io::Result<Regions> {
    let boot = device.read(0, SECTOR_BYTES)?;
    let byte = |at: usize| boot.array::<1>(at)[0];
    let (sector, per_cluster) = (boot.le16(11), byte(13));
    // A number above 0x80 is a negative power of two.
    let sectors =
        if per_cluster > 0x80 { 1 << (256 - u32::from(per_cluster)).min(16) } else { per_cluster.into() };
    let cluster_bytes = sector * sectors;
    let record_bytes = match byte(0x40) as i8 {
        log @ ..0 => 1_u64 << u32::from(log.unsigned_abs()).min(16),
        clusters => clusters as u64 * cluster_bytes,
    };
    let fits = |bytes: u64, most: u64| bytes.is_power_of_two() && (512..=most).contains(&bytes);
    if boot.array(3) != *b"NTFS    " || !fits(cluster_bytes, 2 << 20) || !fits(record_bytes, 1 << 16) {
        return Err(unlike("NTFS's boot sector"));
    }
    let volume = Volume { device, cluster_bytes, record_bytes };
    let table_at = boot.le64(0x30).checked_mul(cluster_bytes).ok_or_else(|| unlike("NTFS's boot sector"))?;
    let first = volume.record(table_at)?.ok_or_else(|| unlike("the record of NTFS's file table"))?;
    let table = volume.extents(&first, |kind| kind == DATA);
    // The boot sector.
    let mut metadata: Vec<Range<u64>> = std::iter::once(0..cluster_bytes).collect();
    let mut journal = Vec::new();
    let mut number = 0;
    for extent in &table {
        for at in (extent.start..extent.end).step_by(record_bytes as usize) {
            if number >= RECORDS_MAX {
                break;
            }
            if let Some(record) = volume.record(at)? {
                volume.add(number, &record, &mut metadata, &mut journal);
            }
            // All records of an image that somebody else has made may be one with many pieces.
            if metadata.len() + journal.len() > PIECES_MAX {
                return Err(unlike("NTFS's file table"));
            }
            number += 1;
        }
    }
    metadata.extend(table);
    Ok(Regions { journal: joined(journal), metadata: joined(metadata) })
}

struct Volume<'a> {
    device: &'a Superblocks,
    cluster_bytes: u64,
    record_bytes: u64,
}

impl Volume<'_> {
    /// The record at a place, where there is one in use.
    fn record(&self, at: u64) -> io::Result<Option<Bytes>> {
        let Bytes(mut bytes) = self.device.read(at, self.record_bytes as usize)?;
        let head = Bytes(bytes.clone());
        if head.array(0) != *b"FILE" || head.le16(0x16) & 1 == 0 {
            return Ok(None);
        }
        // The last two bytes of each sector stand in the record's head, so that a torn write shows.
        let (place, count) = (head.le16(4) as usize, head.le16(6) as usize);
        for number in 1..count {
            let kept = head.array::<2>(place + 2 * number);
            let end = number * SECTOR_BYTES;
            if let Some(last) = bytes.get_mut(end - 2..end) {
                last.copy_from_slice(&kept);
            }
        }
        Ok(Some(Bytes(bytes)))
    }

    /// What a record has outside of itself that is metadata.
    fn add(
        &self,
        number: u64,
        record: &Bytes,
        metadata: &mut Vec<Range<u64>>,
        journal: &mut Vec<Range<u64>>,
    ) {
        // A record that another one did not suffice for belongs to that one (48 bits of the
        // reference).
        let base = match record.le64(0x20) & 0xffff_ffff_ffff {
            0 => number,
            base => base,
        };
        if base == LOG_RECORD {
            journal.extend(self.extents(record, |kind| kind == DATA));
        } else if base < OWN_RECORDS {
            metadata.extend(self.extents(record, |_| true));
        } else {
            let is_metadata = |kind| [ATTRIBUTE_LIST, INDEX_ALLOCATION, BITMAP].contains(&kind);
            metadata.extend(self.extents(record, is_metadata));
        }
    }

    /// The places of a record's attributes of these types, in order of their content.
    fn extents(&self, record: &Bytes, wanted: impl Fn(u64) -> bool) -> Vec<Range<u64>> {
        let mut found = Vec::new();
        let mut at = record.le16(0x14) as usize;
        loop {
            let (kind, length) = (record.le32(at), record.le32(at + 4) as usize);
            // 0 is beyond the record's end.
            if kind == END || kind == 0 || length < 24 {
                return found;
            }
            if record.array::<1>(at + 8) == [1] && wanted(kind) {
                let runs = at + record.le16(at + 0x20) as usize;
                self.runs(
                    record.0.get(runs..(at + length).min(record.0.len())).unwrap_or_default(),
                    &mut found,
                );
            }
            at += length;
        }
    }

    /// A list of runs: a byte with the sizes of two numbers, clusters and the way from the last
    /// run's first one. A run without place is a hole.
    fn runs(&self, list: &[u8], found: &mut Vec<Range<u64>>) {
        let number = |bytes: &[u8], is_signed: bool| -> i64 {
            let fill = if is_signed && bytes.last().is_some_and(|byte| byte & 0x80 != 0) { 0xff } else { 0 };
            let mut wide = [fill; 8];
            wide[..bytes.len()].copy_from_slice(bytes);
            i64::from_le_bytes(wide)
        };
        let (mut at, mut cluster) = (0, 0_i64);
        while let Some(&sizes) = list.get(at).filter(|sizes| **sizes != 0) {
            let (count_size, way_size) = (usize::from(sizes & 15), usize::from(sizes >> 4));
            let (Some(count), Some(way)) = (
                list.get(at + 1..at + 1 + count_size).filter(|field| field.len() <= 8),
                list.get(at + 1 + count_size..at + 1 + count_size + way_size)
                    .filter(|field| field.len() <= 8),
            ) else {
                return;
            };
            at += 1 + count_size + way_size;
            if way_size == 0 {
                continue;
            }
            cluster = cluster.wrapping_add(number(way, true));
            let place = |cluster: i64| u64::try_from(cluster).ok()?.checked_mul(self.cluster_bytes);
            if let (Some(start), Some(end)) =
                (place(cluster), place(cluster.saturating_add(number(count, false))))
            {
                found.push(start..end);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_have_signed_ways_and_holes() {
        let file = tempfile::tempfile().expect("a file");
        let volume = Volume { device: &Superblocks(file), cluster_bytes: 4096, record_bytes: 1024 };
        let runs = |list: &[u8]| {
            let mut found = Vec::new();
            volume.runs(list, &mut found);
            found.into_iter().map(|range| range.start / 4096..range.end / 4096).collect::<Vec<_>>()
        };
        // 24 clusters from 0x5634, a hole of 16, 8 clusters 16 before the first ones.
        assert_eq!(
            runs(&[0x21, 0x18, 0x34, 0x56, 0x01, 0x10, 0x11, 0x08, 0xf0, 0]),
            [0x5634..0x564c, 0x5624..0x562c]
        );
        assert_eq!(runs(&[0x21, 0x18]), [], "cut off");
        assert_eq!(runs(&[0x11, 0x01, 0x80, 0]), [], "before the volume");
        assert_eq!(runs(&[0xff; 40]), []);
    }

    /// A volume that mkntfs made: its own tool says where the file table lies.
    #[test]
    fn table_log_and_bitmap_of_a_fresh_volume_are_found() {
        let directory = tempfile::tempdir().expect("a directory");
        let image = directory.path().join("volume");
        std::fs::File::create(&image).and_then(|file| file.set_len(64 << 20)).expect("made");
        let made = std::process::Command::new("mkntfs").args(["-F", "-Q", "-q"]).arg(&image).output();
        if !made.is_ok_and(|output| output.status.success()) {
            return println!("skipped: no mkntfs; apt-get install ntfs-3g");
        }
        let device = Superblocks(std::fs::File::open(&image).expect("opens"));
        let found = regions(&device).expect("read");
        println!("{found:?}");
        let [log] = &found.journal[..] else { panic!("{found:?}") };
        assert_eq!(
            device.read(log.start, 4).expect("read").array(0),
            [0xff; 4],
            "mkntfs fills a log with ones"
        );
        // mkntfs gives a volume of this size 2 MiB of log.
        assert!((1 << 20..8 << 20).contains(&(log.end - log.start)), "{found:?}");
        let table = device.read(0, 512).expect("read").le64(0x30) * 4096;
        let holds = |at: u64| found.metadata.iter().any(|range| range.contains(&at));
        assert!(holds(0) && holds(table) && holds(table + 26 * 1024), "{found:?}");
        let all: u64 = found.metadata.iter().map(|range| range.end - range.start).sum();
        assert!(all < 4 << 20, "the bad clusters' file is a hole as large as the volume: {found:?}");
        // A damaged table is an error or less, and no panic.
        let whole = std::fs::read(&image).expect("readable");
        for at in (0..200).map(|step| table as usize + step * 41) {
            let mut bytes = whole.clone();
            bytes[at] = bytes[at].wrapping_add(0x7f);
            std::fs::write(&image, bytes).expect("written");
            let _ = regions(&Superblocks(std::fs::File::open(&image).expect("opens")));
        }
    }
}
