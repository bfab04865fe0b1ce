//! The trace of a run: a file, or one that a profile makes up for it.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use fathom_trace::model::{Origin, Record};
use fathom_trace::synthesise::{NOTE, profile, synthesise};
use fathom_trace::{Reader, TraceError};

use super::refused;
use crate::params::Params;
use crate::sample::{Sink, WarningKind};
use crate::workload::WorkloadError;

/// Where the trace is.
pub enum Source {
    /// The user's file.
    File(PathBuf),
    /// A file without a name, by its descriptor: it goes with the process, however that ends.
    Nameless(PathBuf, #[allow(dead_code, reason = "held until the trace is no longer read")] File),
    /// A file that goes with its directory, where descriptors have no paths.
    Made(PathBuf, #[allow(dead_code, reason = "held until the trace is no longer read")] tempfile::TempDir),
}

/// Refuses what does not go together.
pub fn check(params: &Params) -> Result<(), WorkloadError> {
    let (file, profile) = (params.is_set("file"), params.is_set("profile"));
    if file && profile {
        return Err(refused("profile", "there is a file as well: give one of the two".into()));
    }
    if !file && !profile {
        let words = "which trace? Give a file (fathom trace capture --out FILE -- CMD makes one) or a profile such as \"gmail\"";
        return Err(refused("file", words.into()));
    }
    if file && params.is_set("scale") {
        return Err(refused("scale", "is of a profile; a file has the size that it has".into()));
    }
    // Opened at the plan, so that no run fails of it.
    match params.optional_text("file").map(Path::new).map(Reader::open) {
        Some(Err(error)) => Err(refused("file", error.to_string())),
        _ => Ok(()),
    }
}

impl Source {
    /// The file, or what the profile makes with this seed. That is kept in memory where the system
    /// has a place for it, so that nothing of it comes to the device under test.
    pub fn of(params: &Params, seed: u64) -> Result<Source, WorkloadError> {
        let Some(name) = params.optional_text("profile") else {
            return Ok(Source::File(params.optional_text("file").unwrap_or_default().into()));
        };
        let wrong = |error: TraceError| refused("profile", error.to_string());
        let scale_percent = params.optional_integer("scale").unwrap_or(100);
        let memory = Path::new("/dev/shm");
        let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let io = |source| WorkloadError::Io { path: place.display().to_string(), source };
        let directory = tempfile::Builder::new().prefix(".fathom-made-").tempdir_in(&place).map_err(io)?;
        let file = directory.path().join("made.trace");
        let scale_percent = u32::try_from(scale_percent).unwrap_or(u32::MAX);
        synthesise(profile(name).map_err(wrong)?, seed, scale_percent, &file).map_err(wrong)?;
        let open = File::open(&file).map_err(io)?;
        let by_descriptor = PathBuf::from(format!("/proc/self/fd/{}", open.as_raw_fd()));
        if !by_descriptor.exists() {
            return Ok(Source::Made(file, directory));
        }
        // A run that is ended by a signal removes nothing, and this is memory.
        directory.close().map_err(io)?;
        Ok(Source::Nameless(by_descriptor, open))
    }

    /// The file to read.
    pub fn path(&self) -> &Path {
        match self {
            Source::File(path) | Source::Nameless(path, _) | Source::Made(path, _) => path,
        }
    }

    /// Says of a made-up trace, from a file too, what it is.
    pub fn tell(&self, sink: &mut dyn Sink) -> Result<(), WorkloadError> {
        let first = Reader::open(self.path()).and_then(|mut reader| reader.next_record());
        match first.map_err(|error| refused("file", error.to_string()))? {
            Some(Record::Origin(Origin { how, what, .. })) if how == "synthesise" => {
                // Without seed, so that all runs say the same.
                let name = what.split(',').next().unwrap_or_default();
                sink.warning_of(WarningKind::MadeUp, format!("the trace {name} is {NOTE}"));
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened: a run that was interrupted or came to its time limit left the trace that a
    /// profile had made up for it in /dev/shm, and with it its memory until the next start.
    #[test]
    fn a_made_up_trace_has_no_name_that_a_killed_run_could_leave() {
        let given = crate::testing::map(serde_json::json!({"profile": "gmail", "scale": 1}));
        let params = Params::read(super::super::PARAMETERS, &given).expect("known");
        let source = Source::of(&params, 1).expect("made up");
        let target = std::fs::read_link(source.path()).expect("a descriptor's");
        assert!(target.to_string_lossy().ends_with("(deleted)"), "{}", target.display());
        assert!(target.parent().is_some_and(|directory| !directory.exists()), "{}", target.display());
        // It is read more than once, each time from its beginning.
        for _ in 0..2 {
            let first = Reader::open(source.path()).and_then(|mut reader| reader.next_record());
            assert!(matches!(first, Ok(Some(Record::Origin(_)))), "{first:?}");
        }
    }
}
