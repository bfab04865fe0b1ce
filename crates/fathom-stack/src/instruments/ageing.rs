//! Ages a file system: fills it with files, deletes some of them, and so on, so that its free space
//! is in pieces, as on a device that was in use for months.
//!
//! The method is that of Smith and Seltzer ("File System Aging", SIGMETRICS 1997) with made-up
//! files in place of a recorded history: sizes are log-uniform from 4 to 512 KiB, and which files
//! go is drawn at random, both from the seed. A round fills the file system to the brim and deletes
//! files until it is emptier than it shall be in the end; the last one stops at the wanted share.
//! The files that are left stay. Where their blocks lie is the file system's own choice, which
//! depends on when it writes back. How far it went is measured: a file of 4 MiB is written before
//! and after, and its extents are counted.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use fathom_random::Random;

/// The directory that holds the files, in the directory that is aged.
const DIRECTORY: &str = "aged";
/// Sizes of files, bytes: the smallest, and by how many powers of two the largest is larger.
const SMALLEST: u64 = 4096;
const DOUBLINGS: f64 = 7.0;
/// A round fills until so much is used.
const BRIM: f64 = 0.97;
/// Files between two looks at what is used.
const BETWEEN_LOOKS: usize = 16;
/// The file whose extents are counted, bytes.
const PROBE: u64 = 4 << 20;
/// Subdirectories, so that none grows long.
const SUBDIRECTORIES: u64 = 64;
/// What statfs(2) calls FUSE.
const FUSE: u32 = 0x6573_5546;

/// How a file system is aged.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ageing {
    /// The share of its space that is used in the end, 0.1 to 0.95.
    pub used: f64,
    /// How often it is filled and emptied, 1 or more.
    pub rounds: u32,
    /// Of sizes and of which files go.
    pub seed: u64,
}

/// What ageing has made.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct AgeingReport {
    /// Files that are left.
    pub files: usize,
    /// Files that were written, all rounds together.
    pub written_files: usize,
    /// Bytes that were written, all rounds together.
    pub written_bytes: u64,
    /// The share of the space that is used.
    pub used: f64,
    /// Extents of a file of 4 MiB before; none where the file system does not tell.
    pub extents_before: Option<usize>,
    /// Extents of a file of 4 MiB after it.
    pub extents_after: Option<usize>,
}

impl Ageing {
    /// Ages the file system that `directory` is on. Everything is written below a new directory
    /// `aged` in it, which stays. Nothing else is touched, but the space goes: the directory has to
    /// be on a file system that is made for this.
    ///
    /// # Errors
    /// It was aged already; a write fails for another reason than that there is no space; what is
    /// deleted gives no space back (NILFS2 without its cleaner).
    pub fn age(self, directory: &Path) -> io::Result<AgeingReport> {
        let place = directory.join(DIRECTORY);
        fs::create_dir(&place)?;
        let mut random = Random::stream(self.seed, "ageing", 0);
        let extents_before = probe(&place, &mut random)?;
        for number in 0..SUBDIRECTORIES {
            fs::create_dir(place.join(number.to_string()))?;
        }
        let is_relayed = u32::try_from(rustix::fs::statfs(&place)?.f_type).ok() == Some(FUSE);
        let mut history = History {
            place,
            files: Vec::new(),
            written_files: 0,
            written_bytes: 0,
            is_relayed,
            unsynced: Vec::new(),
        };
        for round in 1..=self.rounds {
            history.fill(&mut random)?;
            // Emptier than in the end, so that the next round has something to put between.
            let low = if round == self.rounds { self.used } else { self.used * 0.7 };
            history.delete_until(low, &mut random)?;
        }
        let extents_after = probe(&history.place, &mut random)?;
        Ok(AgeingReport {
            files: history.files.len(),
            written_files: history.written_files,
            written_bytes: history.written_bytes,
            used: used(&history.place)?,
            extents_before,
            extents_after,
        })
    }
}

/// The files that are there, and what was written.
struct History {
    place: PathBuf,
    files: Vec<PathBuf>,
    written_files: usize,
    written_bytes: u64,
    /// Whether the file system is a program's, or a guest's that a program stands for: the kernel
    /// hands on to it that a file is synced, and of a whole file system nothing.
    is_relayed: bool,
    /// Files that were written since the last sync, and directories that something was deleted
    /// from, where they are synced one by one.
    unsynced: Vec<File>,
}

impl History {
    /// Notes a file that was written, or a directory that was changed.
    fn changed(&mut self, file: File) {
        if self.is_relayed {
            self.unsynced.push(file);
        }
    }

    /// Has all that was done be on the device.
    fn sync(&mut self) -> io::Result<()> {
        for file in self.unsynced.drain(..) {
            match file.sync_all() {
                // At the brim a guest finds it out as it writes back.
                Err(error) if error.kind() == io::ErrorKind::StorageFull => {}
                synced => synced?,
            }
        }
        sync(&self.place)
    }

    fn fill(&mut self, random: &mut Random) -> io::Result<()> {
        let mut content = vec![0; (SMALLEST as usize) << DOUBLINGS as u32];
        random.fill(&mut content);
        loop {
            if self.written_files.is_multiple_of(BETWEEN_LOOKS) {
                // What is not allocated yet is not counted by every file system.
                self.sync()?;
                if used(&self.place)? >= BRIM {
                    break;
                }
            }
            let size = (SMALLEST as f64 * (random.unit() * DOUBLINGS).exp2()) as usize;
            let number = self.written_files as u64;
            let path = self.place.join(format!("{}/{number}", number % SUBDIRECTORIES));
            let text = content.get(..size).unwrap_or(&content);
            let written = File::create(&path).and_then(|mut file| file.write_all(text).map(|()| file));
            self.written_files += 1;
            match written {
                Ok(file) => {
                    self.changed(file);
                    self.written_bytes += text.len() as u64;
                    self.files.push(path);
                }
                Err(error) if error.kind() == io::ErrorKind::StorageFull => {
                    // What there is of it has taken the last space.
                    if path.exists() {
                        fs::remove_file(&path)?;
                    }
                    break;
                }
                Err(error) => return Err(error),
            }
        }
        self.sync()
    }

    fn delete_until(&mut self, low: f64, random: &mut Random) -> io::Result<()> {
        random.shuffle(&mut self.files);
        let (before, files) = (used(&self.place)?, self.files.len());
        let mut since_look = 0;
        while let Some(path) = self.files.pop() {
            fs::remove_file(&path)?;
            if let Some(directory) = path.parent().filter(|_| self.is_relayed) {
                self.changed(File::open(directory)?);
            }
            since_look += 1;
            if since_look == BETWEEN_LOOKS {
                since_look = 0;
                // A file system may give space back only when its journal has committed.
                self.sync()?;
                if used(&self.place)? <= low {
                    break;
                }
            }
        }
        self.sync()?;
        let deleted = files - self.files.len();
        if self.files.is_empty() && is_in_vain(deleted, before, used(&self.place)?, low) {
            return Err(io::Error::other(format!(
                "{deleted} files were deleted, which gave no space back, so that it does not age here \
                 (NILFS2 does so without its cleaner)"
            )));
        }
        Ok(())
    }
}

/// Whether so many files were deleted for nothing: no less is used than before, and more than there
/// shall be.
fn is_in_vain(deleted: usize, before: f64, after: f64, low: f64) -> bool {
    deleted > 0 && after > low && after >= before
}

/// The share of the space that is used.
fn used(place: &Path) -> io::Result<f64> {
    let status = rustix::fs::statvfs(place)?;
    Ok(1.0 - status.f_bfree as f64 / (status.f_blocks.max(1)) as f64)
}

fn sync(place: &Path) -> io::Result<()> {
    Ok(rustix::fs::syncfs(File::open(place)?.as_fd())?)
}

/// Extents of a file of [`PROBE`] bytes that is written, synced, looked at and removed; none where
/// the file system has no map to show, or no room.
fn probe(place: &Path, random: &mut Random) -> io::Result<Option<usize>> {
    let path = place.join("probe");
    let mut content = vec![0; PROBE as usize];
    random.fill(&mut content);
    let counted = File::create(&path).and_then(|mut file| {
        file.write_all(&content)?;
        file.sync_all()?;
        let extents = fathom_probe::extents(&file, 0, u64::MAX);
        // Neighbours that follow each other on the device are one piece, however they are told.
        Ok(extents.ok().map(|extents| {
            let breaks = extents.windows(2).filter(|pair| match pair {
                [first, second] => first.physical + first.length != second.physical,
                _ => false,
            });
            breaks.count() + usize::from(!extents.is_empty())
        }))
    });
    if path.exists() {
        fs::remove_file(&path)?;
    }
    sync(place)?;
    match counted {
        Err(error) if error.kind() == io::ErrorKind::StorageFull => Ok(None),
        counted => counted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened: the file system of a guest was aged without a sync, for `syncfs` ends at the
    /// host's FUSE: files were deleted that had never been written to the device, and its free
    /// space was in larger pieces than here.
    #[test]
    fn what_a_guest_holds_is_synced_file_by_file() {
        let place = tempfile::tempdir().unwrap();
        for is_relayed in [true, false] {
            let mut history = History {
                place: place.path().to_owned(),
                files: vec![place.path().join("1"), place.path().join("2")],
                written_files: 0,
                written_bytes: 0,
                is_relayed,
                unsynced: Vec::new(),
            };
            for path in history.files.clone() {
                history.changed(File::create(path).unwrap());
            }
            assert_eq!(history.unsynced.len(), if is_relayed { 2 } else { 0 });
            history.sync().unwrap();
            assert!(history.unsynced.is_empty());
            // Whether that gave space back is the business of whoever else uses this disk.
            let _ = history.delete_until(0.0, &mut Random::stream(1, "ageing", 0));
            assert!(history.unsynced.is_empty() && history.files.is_empty());
        }
    }

    /// What happened: NILFS2 is mounted without its cleaner, so that what is deleted gives no space
    /// back. All files were deleted, and it was called aged, with none left and all of its space
    /// used.
    #[test]
    fn what_gives_no_space_back_is_not_aged() {
        assert!(is_in_vain(300, 0.97, 0.97, 0.9), "nothing came back");
        assert!(is_in_vain(300, 0.97, 0.98, 0.63), "and deleting itself was written");
        assert!(!is_in_vain(300, 0.97, 0.2, 0.07), "as empty as it can be, for its metadata");
        assert!(!is_in_vain(0, 0.98, 0.98, 0.9), "there was nothing to delete");
    }
}
