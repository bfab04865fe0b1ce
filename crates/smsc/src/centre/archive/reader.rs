//! Finding a record in an archive without reading all of it.

use super::{ArchiveError, Archived};
use crate::transaction::StoreError;
use std::fs::File;
use std::ops::{Range, RangeInclusive};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Records that lie behind each other in the file: where, and what numbers they have. Small enough
/// that looking through all of them is quick; that a stretch has them all in memory would cost what
/// archiving is to spare.
#[derive(Clone, Debug)]
struct Stretch {
    ids: RangeInclusive<i64>,
    octets: Range<u64>,
}

/// Records of a stretch at most.
const STRETCH: usize = 1024;

/// The stretches of an archive, shared by who appends and who reads.
#[derive(Debug, Default)]
pub(super) struct Stretches {
    all: Vec<Stretch>,
    /// Records in the last one.
    last: usize,
}

impl Stretches {
    pub fn add(&mut self, id: i64, octets: Range<u64>) {
        match self.all.last_mut() {
            Some(last) if self.last < STRETCH => {
                last.ids = *last.ids.start().min(&id)..=*last.ids.end().max(&id);
                last.octets.end = octets.end;
                self.last += 1;
            }
            _ => {
                self.all.push(Stretch { ids: id..=id, octets });
                self.last = 1;
            }
        }
    }
}

/// Finds records in an archive that others may be appending to. Any number of threads may use it.
pub struct ArchiveReader {
    pub(super) path: PathBuf,
    pub(super) file: File,
    pub(super) stretches: Arc<Mutex<Stretches>>,
}

impl ArchiveReader {
    /// The record of this message.
    ///
    /// # Errors
    /// I/O, a line that is no record.
    pub fn find(&self, msg_id: i64) -> Result<Option<Archived>, ArchiveError> {
        let stretches = lock(&self.stretches);
        let may_have = stretches.all.iter().rev().filter(|stretch| stretch.ids.contains(&msg_id));
        let octets: Vec<Range<u64>> = may_have.map(|stretch| stretch.octets.clone()).collect();
        drop(stretches);
        let beginning = format!("{{\"msg_id\":{msg_id},");
        for octets in octets {
            // A stretch of this process's making fits its memory.
            let mut lines = vec![0; (octets.end - octets.start) as usize];
            self.file.read_exact_at(&mut lines, octets.start).map_err(StoreError::io(&self.path))?;
            // Every record begins with its number: `Archived` has it first.
            let found =
                lines.split(|&octet| octet == b'\n').find(|line| line.starts_with(beginning.as_bytes()));
            if let Some(line) = found {
                let record = serde_json::from_slice(line);
                return record.map(Some).map_err(|error| ArchiveError::Record {
                    path: self.path.display().to_string(),
                    msg_id,
                    problem: error.to_string(),
                });
            }
        }
        Ok(None)
    }
}

pub(super) fn lock(stretches: &Mutex<Stretches>) -> MutexGuard<'_, Stretches> {
    stretches.lock().unwrap_or_else(PoisonError::into_inner)
}
