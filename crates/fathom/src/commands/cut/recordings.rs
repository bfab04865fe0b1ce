//! The operation logs of a cut's cells: in a new directory that was asked for (`--record`), or in
//! one that goes again.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use fathom_cut::{CutError, RecordedRun, Scratch};
use fathom_device::{data_of, external_of};
use fathom_ground::fnv::{EMPTY, fnv1a};
use fathom_output::{shown_path, tell};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::super::{text_path, write_text};
use crate::outcome::Error;

/// File of a directory of recordings that says what they are of.
const INDEX: &str = "cut.json";
/// What that is until it is complete.
const NEW_INDEX: &str = "cut.json.new";
/// Version of its form.
const VERSION: u32 = 1;
/// The operation log in a cell's directory.
const LOG: &str = "operations";

/// Octets of the largest [`INDEX`] that is read: a cell takes some KiB, its script more. A longer
/// one may be a hole, which takes nothing on the disk.
const LARGEST: u64 = 256 << 20;

/// What a directory of recordings says of itself.
#[derive(Debug, Serialize, Deserialize)]
struct Index {
    /// Version of this file's form.
    version: u32,
    /// By the number of the cell.
    cells: BTreeMap<usize, RecordedRun>,
    /// What [`checksum`] says of the cells; none in a file of before it was kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    checksum: Option<String>,
}

/// FNV-1a (64 bits) of the cells' JSON without white space between its parts, hexadecimal. What a
/// cell was recorded with decides what is expected of its states: another number of commits, or
/// another seed, would look like a promise that was broken.
fn checksum(cells: &Json) -> String {
    format!("{:016x}", fnv1a(EMPTY, cells.to_string().as_bytes()))
}

/// What is written down of recordings.
fn text_of(cells: BTreeMap<usize, RecordedRun>) -> serde_json::Result<String> {
    let checksum = Some(checksum(&serde_json::to_value(&cells)?));
    Ok(serde_json::to_string_pretty(&Index { version: VERSION, cells, checksum })? + "\n")
}

/// Where a cell's log lies.
pub(super) fn log_of(directory: &Path, number: usize) -> PathBuf {
    directory.join(number.to_string()).join(LOG)
}

/// What lies in a directory of recordings, by the number of the cell.
pub(super) fn recorded_in(directory: &Path) -> Result<BTreeMap<usize, RecordedRun>, Error> {
    let file = directory.join(INDEX);
    let wrong =
        |error: &dyn std::fmt::Display| Error::usage(format!("--replay {}: {error}", shown_path(&file)));
    // A FIFO would be waited for.
    if file.metadata().is_ok_and(|found| !found.is_file()) {
        return Err(wrong(&"it is no file"));
    }
    let too_long = format!(
        "it has more than {} MiB, and so is not what `fathom cut --record DIR` writes there",
        LARGEST >> 20
    );
    if file.metadata().is_ok_and(|found| found.len() > LARGEST) {
        return Err(wrong(&too_long));
    }
    let mut text = String::new();
    let read = std::fs::File::open(&file).and_then(|file| file.take(LARGEST + 1).read_to_string(&mut text));
    read.map_err(|error| match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory => wrong(
            &"is not there; give the directory that `fathom cut --record DIR` has made, with this file in it \
              (where that was killed before a run was recorded there is none: record again)",
        ),
        _ => wrong(&error),
    })?;
    if text.len() as u64 > LARGEST {
        return Err(wrong(&too_long));
    }
    let damaged = |error: serde_json::Error| {
        wrong(&format!("it is not what `fathom cut --record DIR` writes there, or is damaged: {error}"))
    };
    let index: Index = serde_json::from_str(&text).map_err(damaged)?;
    if index.version != VERSION {
        return Err(wrong(&format!("version {} of its form: this Fathom reads {VERSION}", index.version)));
    }
    if let Some(written) = &index.checksum {
        let all: Json = serde_json::from_str(&text).map_err(damaged)?;
        if checksum(&all["cells"]) != *written {
            return Err(wrong(
                &"it was changed after it was written, for its checksum is another, and says no more what was \
                  recorded: put it back as it was, or record again in a new directory",
            ));
        }
    }
    if index.cells.is_empty() {
        return Err(wrong(&"nothing was recorded: no cell's run was done; record again in a new directory"));
    }
    Ok(index.cells)
}

/// Whether a text is what a directory of recordings says of itself.
pub(super) fn is_index(text: &str) -> bool {
    serde_json::from_str::<Index>(text).is_ok()
}

/// The logs of a call. What was asked for and is not [kept](Recordings::keep) goes when this does.
pub(super) struct Recordings {
    directory: PathBuf,
    /// As the user has named it; none: it goes in any case.
    asked: Option<PathBuf>,
    _temporary: Option<Scratch>,
    /// Cells that were begun, and are not done with.
    begun: Vec<usize>,
    done: BTreeMap<usize, RecordedRun>,
    is_kept: bool,
}

impl Recordings {
    /// Makes the directory.
    ///
    /// # Errors
    /// It is there already, or cannot be made.
    pub fn new(asked: Option<&Path>) -> Result<Recordings, Error> {
        let of = |directory, asked, temporary| Recordings {
            directory,
            asked,
            _temporary: temporary,
            begun: Vec::new(),
            done: BTreeMap::new(),
            is_kept: false,
        };
        let Some(asked) = asked else {
            let made = Scratch::new("cut-logs").map_err(Error::failed)?;
            return Ok(of(made.path().to_owned(), None, Some(made)));
        };
        text_path("--record", asked)?;
        let wrong = |problem: String| Error::usage(format!("--record {}: {problem}", shown_path(asked)));
        let directory = std::path::absolute(asked).map_err(|error| wrong(error.to_string()))?;
        std::fs::create_dir(&directory).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => wrong(
                "is there already, and recordings lie in a directory of their own: give a new name".into(),
            ),
            ErrorKind::NotFound => wrong("the directory that it is to lie in is not there: make it".into()),
            _ => wrong(format!("cannot be made: {error}")),
        })?;
        Ok(of(directory, Some(asked.to_owned()), None))
    }

    /// Where a cell's log is to lie.
    ///
    /// # Errors
    /// Its directory cannot be made.
    pub fn begin(&mut self, number: usize) -> Result<PathBuf, CutError> {
        let log = log_of(&self.directory, number);
        let directory = self.directory.join(number.to_string());
        std::fs::create_dir(&directory)
            .map_err(|source| CutError::Io { what: format!("make {}", shown_path(&directory)), source })?;
        self.begun.push(number);
        Ok(log)
    }

    /// A cell's log is whole: it stays if it was asked for, and from now on can be replayed,
    /// however the command ends that judges it.
    pub fn done(&mut self, number: usize, recorded: &RecordedRun) {
        if self.asked.is_some() {
            self.begun.retain(|begun| *begun != number);
            self.done.insert(number, recorded.clone());
            // What keeps it from being written is told when all is done.
            let _ = self.write_index();
        }
    }

    /// Writes down what was recorded until now, in the place of what was written down before.
    fn write_index(&self) -> Result<(), Error> {
        let directory = self.asked.as_ref().unwrap_or(&self.directory);
        let (new, index) = (directory.join(NEW_INDEX), directory.join(INDEX));
        let text = text_of(self.done.clone()).map_err(Error::failed)?;
        // An earlier one that got no further.
        let _ = std::fs::remove_file(&new);
        write_text("--record", &new, &[], &text)?;
        std::fs::rename(&new, &index)
            .map_err(|error| Error::failed(format!("--record: {}: {error}", shown_path(&index))))
    }

    /// Removes what cells that are not done have left.
    pub fn remove_undone(&mut self) {
        for number in std::mem::take(&mut self.begun) {
            remove(&self.directory, number);
        }
    }

    /// Writes down what was recorded, and says where that can be replayed from; nowhere where
    /// nothing was recorded.
    ///
    /// # Errors
    /// It cannot be written. Nothing stays then.
    pub fn keep(&mut self) -> Result<Option<PathBuf>, Error> {
        let Some(asked) = self.asked.clone() else { return Ok(None) };
        self.remove_undone();
        if self.done.is_empty() {
            tell!("--record {}: no run was recorded, so the directory is removed", shown_path(&asked));
            return Ok(None);
        }
        self.write_index().map_err(|error| {
            let remedy = "what was recorded is removed; name a directory where there is more room";
            Error::failed(format!("{}: {remedy}", error.message()))
        })?;
        self.is_kept = true;
        Ok(Some(asked))
    }
}

impl Drop for Recordings {
    /// Removes what this command has made, and nothing that somebody has put beside it.
    fn drop(&mut self) {
        if self.asked.is_none() || self.is_kept {
            return;
        }
        self.remove_undone();
        for number in self.done.keys() {
            remove(&self.directory, *number);
        }
        for file in [INDEX, NEW_INDEX] {
            let _ = std::fs::remove_file(self.directory.join(file));
        }
        // Where it cannot be removed, something of others' lies in it.
        let _ = std::fs::remove_dir(&self.directory);
    }
}

/// Removes a cell's log. What cannot be removed stays: the cell was said not to be tried.
fn remove(directory: &Path, number: usize) {
    let log = log_of(directory, number);
    for log in [external_of(&log), log] {
        let _ = std::fs::remove_file(data_of(&log));
        let _ = std::fs::remove_file(log);
    }
    let _ = std::fs::remove_dir(directory.join(number.to_string()));
}

/// A run as recordings tell of it, for tests.
#[cfg(test)]
pub(super) fn recorded_run() -> RecordedRun {
    serde_json::from_value(serde_json::json!({
        "filesystem": { "driver": "ext4", "options": "noatime", "sector_bytes": 512 },
        "database": "work/cut.db", "device_bytes": 64 << 20, "operations": 3, "commits": 25, "seed": 1,
        "behaviour": { "keeps": "flushed", "tear_bytes": 512 },
        "settings": { "journal_mode": "delete" }, "promise": "power-cut"
    }))
    .unwrap()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened: of recordings whose `cut.json` had another seed, or other commits, it was
    /// said that a power cut breaks the promise.
    #[test]
    fn what_was_changed_is_refused_and_what_is_older_is_read() {
        let recorded = recorded_run();
        let cells = BTreeMap::from([(2, recorded.clone()), (10, recorded)]);
        let text = text_of(cells.clone()).unwrap();
        let place = tempfile::tempdir().unwrap();
        let read = |text: &str| {
            std::fs::write(place.path().join(INDEX), text).unwrap();
            recorded_in(place.path())
        };
        assert_eq!(read(&text).unwrap(), cells);
        for (from, to) in [("\"seed\": 1", "\"seed\": 2"), ("\"commits\": 25", "\"commits\": 24")] {
            let refused = read(&text.replacen(from, to, 1)).unwrap_err();
            assert!(refused.message().contains("its checksum is another"), "{}", refused.message());
        }
        let mut older: Json = serde_json::from_str(&text).unwrap();
        older.as_object_mut().unwrap().remove("checksum").unwrap();
        assert_eq!(read(&older.to_string()).unwrap(), cells, "of before there was one");
    }

    /// What happened: a `cut.json` that was a hole of gigabytes was read into memory.
    #[test]
    fn what_no_recording_is_as_long_as_is_not_read() {
        let place = tempfile::tempdir().unwrap();
        let file = std::fs::File::create(place.path().join(INDEX)).unwrap();
        file.set_len(8 << 40).unwrap();
        let refused = recorded_in(place.path()).unwrap_err();
        assert!(refused.message().contains("more than 256 MiB"), "{}", refused.message());
    }

    /// What happened: a command that was killed while it judged states, after a night of it, left
    /// whole recordings without a `cut.json`, so that no state could be looked at again.
    #[test]
    fn what_was_recorded_can_be_replayed_while_it_is_judged() {
        let place = tempfile::tempdir().unwrap();
        let asked = place.path().join("cuts");
        let mut recordings = Recordings::new(Some(&asked)).unwrap();
        let recorded = recorded_run();
        let mut expected = BTreeMap::new();
        for number in [1, 2] {
            let log = recordings.begin(number).unwrap();
            std::fs::write(&log, "operations").unwrap();
            recordings.done(number, &recorded);
            expected.insert(number, recorded.clone());
            assert_eq!(recorded_in(&asked).unwrap(), expected, "as after a kill");
        }
        recordings.begin(3).unwrap();
        assert_eq!(recordings.keep().unwrap().as_ref(), Some(&asked));
        drop(recordings);
        assert_eq!(recorded_in(&asked).unwrap(), expected);
        assert!(!asked.join(NEW_INDEX).exists() && !asked.join("3").exists());
        // What is not kept goes, with all that was written down of it.
        let asked = place.path().join("others");
        let mut recordings = Recordings::new(Some(&asked)).unwrap();
        recordings.begin(1).unwrap();
        recordings.done(1, &recorded);
        drop(recordings);
        assert!(!asked.exists());
    }
}
