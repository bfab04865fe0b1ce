//! Where FAT and exFAT keep what they know of their files, by their boot sectors (little-endian;
//! FAT: <https://www.ecma-international.org/publications-and-standards/standards/ecma-107/>, with
//! the fields of FAT32 behind it; exFAT:
//! <https://learn.microsoft.com/en-us/windows/win32/fileio/exfat-specification>).

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;

/// Bytes of a boot sector that are read.
const BOOT_BYTES: usize = 512;
/// Entries of exFAT's root directory among which that of the bitmap is looked for.
const ENTRIES_MAX: u64 = 128;
const ENTRY_BYTES: u64 = 32;
/// The kind of the entry that names exFAT's allocation bitmap.
const BITMAP: u8 = 0x81;

/// Places, each with what it is.
pub(crate) type Places = Vec<(Range<u64>, &'static str)>;

/// Those of the file system in an image; none where it is of another kind.
pub(crate) fn places(image: &File) -> Places {
    let mut boot = [0; BOOT_BYTES];
    if image.read_exact_at(&mut boot, 0).is_err() {
        return Places::new();
    }
    let found = if boot[3..11] == *b"EXFAT   " { exfat(image, &boot) } else { fat(&boot) };
    found.unwrap_or_default()
}

fn number(bytes: &[u8], at: usize, length: usize) -> u64 {
    let bytes = bytes.get(at..at + length).unwrap_or_default();
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

/// None where a number of the boot sector cannot be.
fn fat(boot: &[u8]) -> Option<Places> {
    let sector = number(boot, 11, 2);
    if !sector.is_power_of_two() || !(512..=4096).contains(&sector) {
        return None;
    }
    let (reserved, tables) = (number(boot, 14, 2), number(boot, 16, 1));
    let length = Some(number(boot, 22, 2)).filter(|&sectors| sectors > 0).unwrap_or(number(boot, 36, 4));
    let begins = reserved * sector;
    let ends = begins + tables * length * sector;
    let root = ends + number(boot, 17, 2) * ENTRY_BYTES;
    Some(vec![
        (0..begins, "the boot sectors"),
        (begins..ends, "the file allocation table"),
        (ends..root, "the root directory"),
    ])
}

fn exfat(image: &File, boot: &[u8]) -> Option<Places> {
    let sector = 1_u64.checked_shl(number(boot, 108, 1) as u32).filter(|sector| *sector <= 4096)?;
    let cluster = sector.checked_shl(number(boot, 109, 1) as u32).filter(|cluster| *cluster <= 32 << 20)?;
    let begins = number(boot, 80, 4) * sector;
    let ends = begins + number(boot, 84, 4) * number(boot, 110, 1) * sector;
    let heap = number(boot, 88, 4) * sector;
    // Clusters are counted from 2.
    let at = |first: u64| Some(heap + first.checked_sub(2)? * cluster);
    let root = at(number(boot, 96, 4))?;
    let mut places = vec![
        (0..begins, "the boot sectors"),
        (begins..ends, "the file allocation table"),
        (root..root + cluster, "the root directory"),
    ];
    let mut entry = [0; ENTRY_BYTES as usize];
    for place in (root..root + cluster.min(ENTRIES_MAX * ENTRY_BYTES)).step_by(ENTRY_BYTES as usize) {
        image.read_exact_at(&mut entry, place).ok()?;
        if entry[0] == BITMAP {
            let bitmap = at(number(&entry, 20, 4))?;
            let bytes = number(&entry, 24, 8).div_ceil(cluster).saturating_mul(cluster);
            places.push((bitmap..bitmap.saturating_add(bytes), "the allocation bitmap"));
        }
    }
    Some(places)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(parts: &[(usize, &[u8])]) -> File {
        let file = tempfile::tempfile().unwrap();
        file.set_len(8 << 20).unwrap();
        for (at, bytes) in parts {
            file.write_all_at(bytes, *at as u64).unwrap();
        }
        file
    }

    fn at(places: &Places, place: u64) -> Option<&'static str> {
        places.iter().find(|found| found.0.contains(&place)).map(|found| found.1)
    }

    #[test]
    fn a_place_of_fat_is_told() {
        // 512 bytes a sector, 4 reserved, 2 tables of 8 sectors, 512 entries in the root.
        let file = image(&[
            (11, &512_u16.to_le_bytes()),
            (14, &[4, 0, 2]),
            (17, &512_u16.to_le_bytes()),
            (22, &[8, 0]),
        ]);
        let found = places(&file);
        assert_eq!(at(&found, 0), Some("the boot sectors"));
        assert_eq!(at(&found, 2048), Some("the file allocation table"));
        assert_eq!(at(&found, 2048 + 8192), Some("the root directory"));
        assert_eq!(at(&found, 2048 + 8192 + 16384), None);
    }

    #[test]
    fn a_place_of_exfat_is_told() {
        let mut entry = [0; 32];
        entry[0] = BITMAP;
        entry[20] = 2;
        entry[24] = 100;
        // Sectors of 512 bytes, clusters of 4096; the table at sector 2048, 64 long, the heap at
        // 4096, the root in its cluster 5.
        let root = (4096 * 512) + 3 * 4096;
        let file = image(&[
            (3, b"EXFAT   "),
            (80, &2048_u32.to_le_bytes()),
            (84, &64_u32.to_le_bytes()),
            (88, &4096_u32.to_le_bytes()),
            (96, &5_u32.to_le_bytes()),
            (108, &[9, 3, 1]),
            (root + 32, &entry),
        ]);
        let found = places(&file);
        assert_eq!(at(&found, 1 << 20), Some("the file allocation table"));
        assert_eq!(at(&found, 2 << 20), Some("the allocation bitmap"));
        assert_eq!(at(&found, root as u64 + 40), Some("the root directory"));
        assert_eq!(at(&found, 7 << 20), None);
    }

    #[test]
    fn what_is_neither_has_no_places() {
        assert!(places(&image(&[])).is_empty());
        assert!(places(&image(&[(0, &[0xff; 512])])).is_empty());
        let mut boot = [0xff; 512];
        boot[3..11].copy_from_slice(b"EXFAT   ");
        assert!(places(&image(&[(0, &boot)])).is_empty());
        assert!(places(&tempfile::tempfile().unwrap()).is_empty());
    }
}
