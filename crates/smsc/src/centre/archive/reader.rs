//! Finding a record in an archive without reading all of it.

use super::stretch::{Stretch, Stretches};
use super::{ArchiveError, ArchivedMessage, closed};
use crate::transaction::StoreError;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Finds records in an archive that others may be appending to. Any number of threads may use it.
pub struct ArchiveReader {
    pub(super) directory: PathBuf,
    pub(super) path: PathBuf,
    pub(super) stretches: Arc<Mutex<Stretches>>,
}

impl ArchiveReader {
    /// The record of this message.
    ///
    /// # Errors
    /// I/O, a line that is no record.
    pub fn find(&self, msg_id: i64) -> Result<Option<ArchivedMessage>, ArchiveError> {
        let places: Vec<Stretch> = {
            let stretches = lock(&self.stretches);
            let may_have = stretches.all.iter().rev().filter(|stretch| stretch.ids.contains(&msg_id));
            may_have.cloned().collect()
        };
        let beginning = format!("{{\"msg_id\":{msg_id},");
        for place in places {
            let Some(lines) = self.read(&place)? else { continue };
            // Every record begins with its number: `ArchivedMessage` has it first.
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

    /// The latest records to a destination, digits without `+`, the last first: `max` at most, in
    /// the last `octets` of the archive.
    ///
    /// # Errors
    /// I/O.
    pub fn find_to(
        &self,
        digits: &str,
        max: usize,
        octets: u64,
    ) -> Result<Vec<ArchivedMessage>, ArchiveError> {
        let stretches = lock(&self.stretches).all.clone();
        let (mut found, mut left) = (Vec::new(), octets);
        let wanted = format!("{digits}\"");
        for place in stretches.iter().rev() {
            let length = place.octets.end - place.octets.start;
            if length > left || found.len() == max {
                break;
            }
            left -= length;
            let Some(lines) = self.read(place)? else { continue };
            for line in lines.split(|&octet| octet == b'\n').rev() {
                // A look at the octets spares reading what has not even the digits.
                let has_digits = line.windows(wanted.len()).any(|part| part == wanted.as_bytes());
                if has_digits
                    && let Ok(record) = serde_json::from_slice::<ArchivedMessage>(line)
                    && record.dst.trim_start_matches('+') == digits
                {
                    found.push(record);
                    if found.len() == max {
                        break;
                    }
                }
            }
        }
        Ok(found)
    }

    /// The octets of a stretch; none if its file was moved away.
    fn read(&self, place: &Stretch) -> Result<Option<Vec<u8>>, ArchiveError> {
        let (path, opened) = {
            // Who closes a file gives it its name and takes the next number under this lock.
            let stretches = lock(&self.stretches);
            let is_open = place.file == stretches.open;
            let path = if is_open { self.path.clone() } else { closed::path(&self.directory, place.file) };
            let opened = File::open(&path);
            (path, opened)
        };
        let file = match opened {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(StoreError::io(&path))?,
        };
        // A stretch fits the memory: a thousand records.
        let mut lines = vec![0; (place.octets.end - place.octets.start) as usize];
        file.read_exact_at(&mut lines, place.octets.start).map_err(StoreError::io(&path))?;
        Ok(Some(lines))
    }
}

pub(super) fn lock(stretches: &Mutex<Stretches>) -> MutexGuard<'_, Stretches> {
    stretches.lock().unwrap_or_else(PoisonError::into_inner)
}
