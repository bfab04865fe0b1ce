//! The floor: what the smallest durable write costs on a stack, before any database takes part.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::{Deserialize, Serialize};

/// Bytes of one write: a page of SQLite and of most file systems.
pub const FLOOR_WRITE_BYTES: usize = 4096;
/// Blocks of the file; the writes go round it in order.
const BLOCKS: u64 = 256;
/// Writes before the first sample: the first ones allocate, load code and wake the device.
const WARM_UP: u64 = 4;

/// Durations of single 4 KiB overwrites, each followed by `fdatasync`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FloorProbe {
    /// Each write with its sync, ns, in the order they were made.
    pub samples_ns: Vec<u64>,
    /// Shortest, ns.
    pub min_ns: u64,
    /// 10th percentile, ns (nearest rank).
    pub p10_ns: u64,
    /// Median, ns (nearest rank).
    pub median_ns: u64,
    /// 90th percentile, ns (nearest rank).
    pub p90_ns: u64,
    /// Longest, ns.
    pub max_ns: u64,
}

impl FloorProbe {
    fn of(samples_ns: Vec<u64>) -> FloorProbe {
        let mut sorted = samples_ns.clone();
        sorted.sort_unstable();
        let rank = |percent: usize| {
            // Nearest rank: the smallest sample that at least `percent` % of all do not exceed.
            let index = (percent * sorted.len()).div_ceil(100).clamp(1, sorted.len().max(1)) - 1;
            sorted.get(index).copied().unwrap_or(0)
        };
        FloorProbe {
            min_ns: rank(0),
            p10_ns: rank(10),
            median_ns: rank(50),
            p90_ns: rank(90),
            max_ns: rank(100),
            samples_ns,
        }
    }
}

/// Why the floor could not be measured.
#[derive(Debug, thiserror::Error)]
#[error("floor probe in {}: {source}", path.display())]
pub struct FloorError {
    /// The probe's file.
    pub path: PathBuf,
    /// What the operating system said.
    pub source: io::Error,
}

impl FloorError {
    /// Whether there is no space left, or a quota is used up.
    #[must_use]
    pub fn is_full_disk(&self) -> bool {
        fathom_ground::system::is_full_disk(&self.source)
    }
}

/// Removes the probe's file however the probe ends.
struct Removed<'a>(&'a Path);

impl Drop for Removed<'_> {
    fn drop(&mut self) {
        // Nobody is left to tell; the directory belongs to the stack and goes with it.
        let _ = fs::remove_file(self.0);
    }
}

/// The probe's file: a name of eight letters and three, without a dot in front. msdos, which is FAT
/// without long names, refuses a dot there, cuts longer names off, and would have two probes meet.
fn file_name(process: u32) -> String {
    format!("fl{process:06x}.tmp")
}

/// Measures `n` (at least 1) times what one 4 KiB write + `fdatasync` costs in `directory`: a file
/// of 1 MiB that was written and synced before is overwritten in place, block by block, so that no
/// size, name or allocation changes. (A copy-on-write file system allocates all the same; that is
/// its floor.) The file is removed afterwards.
///
/// # Errors
/// The directory cannot be written, or a write or sync fails.
pub fn floor_probe(directory: &Path, n: u32) -> Result<FloorProbe, FloorError> {
    let path = directory.join(file_name(std::process::id()));
    let at = |source| FloorError { path: path.clone(), source };
    let file = OpenOptions::new().write(true).create_new(true).open(&path).map_err(at)?;
    let _removed = Removed(&path);
    // Not constant, so that no layer below can compress it or recognise it as zeros.
    let mut block: Vec<u8> =
        (0..FLOOR_WRITE_BYTES as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for number in 0..BLOCKS {
        block[..8].copy_from_slice(&number.to_le_bytes());
        file.write_all_at(&block, number * FLOOR_WRITE_BYTES as u64).map_err(at)?;
    }
    file.sync_all().map_err(at)?;
    let mut samples_ns = Vec::with_capacity(n.max(1) as usize);
    for number in 0..WARM_UP + u64::from(n.max(1)) {
        block[..8].copy_from_slice(&(BLOCKS + number).to_le_bytes());
        let start = Instant::now();
        file.write_all_at(&block, number % BLOCKS * FLOOR_WRITE_BYTES as u64).map_err(at)?;
        file.sync_data().map_err(at)?;
        if number >= WARM_UP {
            samples_ns.push(start.elapsed().as_nanos() as u64);
        }
    }
    Ok(FloorProbe::of(samples_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_nearest_ranks() {
        let probe = FloorProbe::of((1..=10).rev().collect());
        assert_eq!(
            (probe.min_ns, probe.p10_ns, probe.median_ns, probe.p90_ns, probe.max_ns),
            (1, 1, 5, 9, 10)
        );
        let one = FloorProbe::of(vec![7]);
        assert_eq!((one.min_ns, one.p10_ns, one.median_ns, one.p90_ns, one.max_ns), (7, 7, 7, 7, 7));
    }

    #[test]
    fn measures_and_leaves_nothing() {
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let probe = floor_probe(dir.path(), 20).unwrap();
        assert_eq!(probe.samples_ns.len(), 20);
        assert!(probe.min_ns > 0 && probe.min_ns <= probe.median_ns && probe.median_ns <= probe.max_ns);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    /// It was called `.fathom-floor-1234`: msdos has no name with a dot in front, so that no cell on
    /// it was ever measured ("Invalid argument").
    #[test]
    fn every_file_system_takes_the_name_of_the_file() {
        // 4194304 is the highest number that Linux gives a process (PID_MAX_LIMIT).
        for (process, expected) in [(1, "fl000001.tmp"), (4_194_304, "fl400000.tmp")] {
            let name = file_name(process);
            assert_eq!(name, expected);
            let (stem, end) = name.split_once('.').unwrap();
            assert!((1..=8).contains(&stem.len()) && (1..=3).contains(&end.len()), "{name}");
            let is_plain = |text: &str| text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
            assert!(is_plain(stem) && is_plain(end), "{name}");
        }
    }

    #[test]
    fn a_directory_that_cannot_be_written_is_named() {
        let error = floor_probe(Path::new("/nonexistent/fathom"), 5).unwrap_err();
        assert!(error.to_string().contains("/nonexistent/fathom"), "{error}");
        assert!(!error.is_full_disk());
        let full = FloorError { source: io::Error::from_raw_os_error(libc::ENOSPC), ..error };
        assert!(full.is_full_disk(), "{full}");
    }
}
