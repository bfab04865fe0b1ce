//! Records an application's trace with settings, for `fathom simulate` and `fathom advise`: runs of
//! their own on the device `recorder`, whose results keep what is replayed.

use std::fmt::Write;
use std::fs::{File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use fathom_lab::conduct::{self, Request, RunError};
use fathom_lab::experiment::{Selection, TraceChoice};
use fathom_lab::remote::Remote;
use fathom_lab::schedule::{Interrupt, Local, Progress, Summary, WorkError, World};
use fathom_lab::store::{CutFinding, Results};
use fathom_output::{TemporaryPath, shown_path, tell};
use tempfile::TempDir;

use crate::outcome::Error;
use crate::progress::Bar;

/// What runs are made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To be replayed on other models.
    Recording,
    /// For their own times.
    Live,
    /// For what power cuts leave; so many seconds for each cell.
    PowerCuts(u64),
}

/// What is recorded.
#[derive(Clone, Debug)]
pub struct RecordingRequest {
    /// What for.
    pub purpose: Purpose,
    /// The trace.
    pub trace: TraceChoice,
    /// File systems; none where each variant has its own.
    pub filesystems: Vec<String>,
    /// Devices: the recorder, or others for runs that are measured as they are; none for runs in a
    /// directory.
    pub devices: Vec<String>,
    /// Variants: a name, and settings; those of the engine by their own name.
    pub variants: Vec<(String, Vec<(String, String)>)>,
    /// Runs of each cell.
    pub repeat: u32,
    /// Where these are more: until every value is known to within so much of it.
    pub more: Option<MoreRuns>,
    /// More `--set`s.
    pub sets: Vec<String>,
    /// Title of the results.
    pub title: String,
    /// Seed of order and data.
    pub seed: u64,
    /// The machine that it is recorded on, as `--on` names it; none = this one.
    pub machines: Vec<String>,
    /// SHA-256 of the trace's file, by which it is known again ([`trace_hash`]).
    pub hash: Option<String>,
}

/// Before the SHA-256 of the trace, in the experiment that results keep.
const TRACE_HASH: &str = "# SHA-256 of the trace: ";

/// The SHA-256 of the trace that results are recordings of, where they say it.
pub fn trace_hash(results: &Results) -> Option<&str> {
    results.experiment.source.lines().find_map(|line| line.strip_prefix(TRACE_HASH))
}

/// Runs beyond those that are made in any case.
#[derive(Clone, Copy, Debug)]
pub struct MoreRuns {
    /// The most of each cell.
    pub most: u32,
    /// Every value is known well enough to within this share of it.
    pub until: f64,
    /// No block beyond those that are made in any case ends later than this.
    pub budget: Duration,
}

impl RecordingRequest {
    /// The most runs of each cell.
    fn most(&self) -> u32 {
        self.more.map_or(self.repeat, |more| more.most)
    }

    /// The experiment, as a file would say it.
    pub fn source(&self) -> String {
        let mut text = format!(
            "name = \"recorded\"\ntitle = {:?}\nrepeats = {}\n\n[workload]\nname = \"trace\"\n\n[engine]\nname = \"sqlite\"\n\n",
            self.title, self.repeat
        );
        if let Some(hash) = &self.hash {
            text.insert_str(0, &format!("{TRACE_HASH}{hash}\n"));
        }
        let is_modelled = !self.devices.is_empty();
        if is_modelled {
            // Writing to a String cannot fail.
            let _ = write!(text, "[stack]\nsize_mib = {IMAGE_MIB}\n\n");
        }
        text += &match self.purpose {
            Purpose::Recording if is_modelled => "[instruments]\noperations = true\n\n".to_owned(),
            Purpose::Recording | Purpose::Live => String::new(),
            Purpose::PowerCuts(seconds) => {
                format!("[instruments]\npower_cut = true\npower_cut_seconds = {seconds}\n\n")
            }
        };
        text += "[matrix]\n";
        if !self.filesystems.is_empty() {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "\"stack.filesystem\" = {:?}", self.filesystems);
        }
        if is_modelled {
            let _ = writeln!(text, "\"stack.device\" = {:?}", self.devices);
        }
        for (name, settings) in &self.variants {
            let _ = writeln!(text, "\n[[matrix.variants]]\nname = {name:?}");
            for (key, value) in settings {
                let value = match value.parse::<i64>() {
                    Ok(number) => number.to_string(),
                    Err(_) => format!("{value:?}"),
                };
                let table = if key.contains('.') { "" } else { "engine." };
                let _ = writeln!(text, "\"{table}{key}\" = {value}");
            }
        }
        text
    }
}

/// Makes the runs; the results lie in `out`, the stacks in `directory`.
///
/// # Errors
/// What is wrong with the settings; what this machine lacks; the results file.
pub fn record(
    what: &RecordingRequest,
    out: &Path,
    directory: &Path,
    command: &str,
    interrupt: Interrupt,
    remote: Option<&mut Remote>,
) -> Result<(Results, Summary), Error> {
    let place = Place { directory, command, interrupt: &interrupt };
    let mut both = record_side_by_side(what, &[out.to_owned()], &place, remote)?;
    both.pop().ok_or_else(|| Error::failed("nothing was recorded"))
}

/// Where recordings are made, and for whom.
#[derive(Debug)]
pub struct Place<'a> {
    /// Where the stacks are made.
    pub directory: &'a Path,
    /// The command that is carried out, for the record.
    pub command: &'a str,
    /// The user's wish to stop.
    pub interrupt: &'a Interrupt,
}

/// As [`record`], the variants shared out among as many files as are named, at the same time. Model
/// time does not know of the neighbour, and a recording waits for its device most of the time.
/// Another machine has one agent: there all go into the first file.
///
/// # Errors
/// As [`record`], of the first file that has one.
pub fn record_side_by_side(
    what: &RecordingRequest,
    outs: &[PathBuf],
    place: &Place<'_>,
    remote: Option<&mut Remote>,
) -> Result<Vec<(Results, Summary)>, Error> {
    // Before anything is made: no run could be.
    fathom_stack::trusted_state().map_err(Error::failed)?;
    let parts = if remote.is_some() { 1 } else { outs.len().min(what.variants.len()).max(1) };
    let cells = what.filesystems.len().max(1) * what.devices.len().max(1) * what.variants.len().max(1);
    let shown = Mutex::new(PartsProgress {
        bar: Bar::new(cells * what.most() as usize, false),
        of_parts: Vec::new(),
    });
    let part = |number: usize, out: &Path, remote: Option<&mut Remote>| {
        let mut own = what.clone();
        own.variants = what.variants.iter().skip(number).step_by(parts).cloned().collect();
        record_part(&own, out, place, (number, remote), &mut |progress| {
            shown.lock().unwrap_or_else(PoisonError::into_inner).show(number, progress);
        })
    };
    let all: Vec<_> = match (remote, outs.first()) {
        (Some(remote), Some(out)) => vec![part(0, out, Some(remote))],
        _ => std::thread::scope(|scope| {
            let begin = |(number, out): (usize, &PathBuf)| {
                let (part, out) = (&part, out.clone());
                scope.spawn(move || part(number, &out, None))
            };
            let begun: Vec<_> = outs.iter().take(parts).enumerate().map(begin).collect();
            let end = |recording: std::thread::ScopedJoinHandle<'_, _>| {
                recording.join().unwrap_or_else(|_| Err(Error::failed("a recording ended by a panic")))
            };
            begun.into_iter().map(end).collect()
        }),
    };
    let made = all.iter().flatten().map(|(_, summary): &(Results, Summary)| summary.done).sum();
    shown.into_inner().unwrap_or_else(PoisonError::into_inner).bar.end(made);
    all.into_iter().collect()
}

/// How far all parts are together.
struct PartsProgress {
    bar: Bar,
    /// The last that each part has said.
    of_parts: Vec<(usize, Progress)>,
}

impl PartsProgress {
    fn show(&mut self, number: usize, progress: &Progress) {
        match self.of_parts.iter_mut().find(|part| part.0 == number) {
            Some(known) => known.1 = progress.clone(),
            None => self.of_parts.push((number, progress.clone())),
        }
        let sum = |of: fn(&Progress) -> usize| self.of_parts.iter().map(|part| of(&part.1)).sum::<usize>();
        let whole = Progress {
            done: sum(|part| part.done),
            total: sum(|part| part.total),
            failed: sum(|part| part.failed),
            share: self.of_parts.iter().map(|part| part.1.share).sum::<f64>().min(1.0),
            left: self.of_parts.iter().filter_map(|part| part.1.left).max(),
            ..progress.clone()
        };
        self.bar.show(&whole);
    }
}

impl RecordingRequest {
    /// As `fathom run` would be asked it.
    fn request(&self, out: &Path, place: &Place<'_>) -> Request {
        Request {
            source_name: "the recording".into(),
            source: self.source(),
            selection: Selection {
                quick: false,
                repeat: self.more.map(|more| more.most),
                sets: self.sets.clone(),
                traces: vec![self.trace.clone()],
                machines: self.machines.clone(),
            },
            seed: Some(self.seed),
            directory: place.directory.to_owned(),
            out: out.to_owned(),
            resume: false,
            time_limit: None,
            until: self.more.map(|more| more.until),
            budget: self.more.map(|more| more.budget),
            firm: self.repeat,
            command: place.command.to_owned(),
        }
    }
}

/// What power cuts leave of each cell, in the order of the plan, without its runs: what was found,
/// or why nothing could be tried.
///
/// # Errors
/// What is wrong with the settings; the user's wish to stop.
pub fn power_cuts(
    what: &RecordingRequest,
    place: &Place<'_>,
) -> Result<Vec<Result<CutFinding, String>>, Error> {
    let prepared = conduct::prepare(&what.request(Path::new("unused.db"), place)).map_err(asked_or_failed)?;
    let mut world = Local::new(place.directory.to_owned(), place.interrupt.clone())
        .map_err(|error| Error::failed(format!("this program's own path: {error}")))?;
    let mut all = Vec::new();
    for planned in prepared.plan.cells {
        let found = match planned.skipped {
            Some(why) => Err(why),
            None => match world.power_cut(&planned.cell, what.seed) {
                Ok(Some(found)) => Ok(found),
                Ok(None) => Err("it cannot be tried there".to_owned()),
                Err(WorkError::Interrupted) => return Err(Error::failed("stopped by a signal")),
                Err(WorkError::Failed(why)) => Err(why),
            },
        };
        all.push(found);
    }
    Ok(all)
}

fn record_part(
    what: &RecordingRequest,
    out: &Path,
    place: &Place<'_>,
    (number, remote): (usize, Option<&mut Remote>),
    on_progress: &mut dyn FnMut(&Progress),
) -> Result<(Results, Summary), Error> {
    let request = what.request(out, place);
    let mut local;
    let (prepared, world): (_, &mut dyn World) = match remote {
        Some(remote) => (conduct::prepare_on(&request, remote), remote),
        None => {
            local = Local::new(place.directory.to_owned(), place.interrupt.clone())
                .map_err(|error| Error::failed(format!("this program's own path: {error}")))?
                .beside(number);
            (conduct::prepare(&request), &mut local)
        }
    };
    let prepared = prepared.map_err(asked_or_failed)?;
    for warning in &prepared.cells.warnings {
        tell!("warning: {warning}");
    }
    let summary = conduct::run(&request, prepared, world, on_progress).map_err(asked_or_failed)?;
    let results = Results::load(out).map_err(|error| match error.is_of_a_full_disk() {
        true => temporary_is_full(),
        false => Error::failed(error),
    })?;
    Ok((results, summary))
}

fn asked_or_failed(error: RunError) -> Error {
    match error {
        RunError::Store(error) if error.is_of_a_full_disk() => temporary_is_full(),
        error if error.asked_wrongly() => Error::usage(error),
        error => Error::failed(error),
    }
}

/// What there is to do where recordings do not fit: they are not kept, and nothing goes on with
/// them.
pub fn temporary_is_full() -> Error {
    Error::failed(format!(
        "{}: the disk is full, and recordings lie there (TMPDIR) for as long as the command runs. Nothing of them is kept: \
         free some space there, or give the command again with TMPDIR=DIR, a directory on a larger disk",
        shown_path(&std::env::temp_dir())
    ))
}

/// The image that is recorded on, MiB.
pub const IMAGE_MIB: u64 = 1024;

/// Refuses a directory that has no space for one image to record on, and says how many of `wanted`
/// it has space for. Where that cannot be asked, whoever makes them finds out.
///
/// # Errors
/// It has no space for one.
pub fn images_that_fit(directory: &Path, wanted: usize) -> Result<usize, Error> {
    let Ok(free_bytes) = fathom_stack::free_bytes(directory) else { return Ok(wanted) };
    let free_mib = free_bytes >> 20;
    if free_mib < IMAGE_MIB {
        return Err(Error::failed(format!(
            "--dir {}: {free_mib} MiB are free there, and the image that is recorded on takes {IMAGE_MIB} MiB: free some space, \
             or name a directory on a larger disk with --dir",
            shown_path(directory)
        )));
    }
    Ok(wanted.min(usize::try_from(free_mib / IMAGE_MIB).unwrap_or(wanted)))
}

/// Keeps recordings that are complete in the file that `--out` names, which is there whole or not
/// at all.
///
/// # Errors
/// The file must not or cannot be written.
pub fn keep(recorded: &Path, out: &Path, inputs: &[&Path]) -> Result<(), Error> {
    // What SQLite has not brought into the file itself would be missing.
    for end in ["-wal", "-journal"] {
        let mut beside = recorded.as_os_str().to_owned();
        beside.push(end);
        if std::fs::metadata(&beside).is_ok_and(|found| found.len() > 0) {
            return Err(Error::failed(format!("--out {}: the recordings are not complete", shown_path(out))));
        }
    }
    super::check_kept(out)?;
    super::write_copy("--out", out, inputs, recorded)?;
    tell!("Recorded: {}", shown_path(out));
    Ok(())
}

/// Why this machine cannot model a device, and what would bring that; none where it can.
pub fn why_not_here() -> Option<String> {
    if !fathom_ground::system::is_root() {
        return Some("Recording for other devices needs root: give the command with sudo".into());
    }
    let fuse = Path::new("/dev/fuse");
    (!fuse.exists()).then(|| "Recording for other devices needs /dev/fuse: `modprobe fuse`".into())
}

/// Whether this machine can record: a modelled device under a file system takes root.
///
/// # Errors
/// What is missing, and what there is to do.
pub fn check_machine(command: &str) -> Result<(), Error> {
    if fathom_ground::system::is_root() {
        return Ok(());
    }
    Err(Error::failed(format!(
        "{command} records on a modelled device with a file system on it, and mounting one needs root; a directory (`dir`) \
         cannot have a modelled device. Run it with sudo, or record where you are root \
         (`--out RECORDED.db`) and simulate here: `fathom simulate RECORDED.db`"
    )))
}

/// Where results lie that nobody asked to keep: a directory that goes again, of the user alone, for
/// a trace may lie in it. Its lock says that its process lives ([`remove_abandoned`]).
pub struct RecordingFile {
    pub file: PathBuf,
    // Dropped in this order: it is held until it is gone.
    _directory: TempDir,
    _held: (TemporaryPath, File),
}

/// How the directory begins.
const KEPT: &str = ".fathom-recorded-";

/// The file in it that its process has locked.
const LOCK: &str = "lock";

impl RecordingFile {
    /// In a directory of its own below `directory`.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn new(directory: &Path) -> Result<RecordingFile, Error> {
        let problem = |error: std::io::Error| match super::is_full(&error) {
            true => temporary_is_full(),
            false => Error::failed(format!("{}: {error}", shown_path(directory))),
        };
        let make = || {
            let mut builder = tempfile::Builder::new();
            builder.prefix(KEPT).permissions(Permissions::from_mode(0o700)).tempdir_in(directory)
        };
        // Its reason alone: the user has not named the directory that is named there.
        let made = fathom_output::hold(make, TempDir::path).map_err(|error| error.kind().into());
        let (made, held) = made.map_err(problem)?;
        let lock = File::create_new(made.path().join(LOCK)).map_err(problem)?;
        lock.lock().map_err(problem)?;
        Ok(RecordingFile { file: made.path().join("recorded.db"), _directory: made, _held: (held, lock) })
    }
}

/// Removes what commands that were killed have left of recordings in `directory`: directories of
/// this user's whose process has ended. Gives their paths, and what could not be removed.
pub fn remove_abandoned(directory: &Path) -> (Vec<PathBuf>, Vec<String>) {
    // SAFETY: geteuid takes nothing and cannot fail.
    let user = unsafe { libc::geteuid() };
    let (mut removed, mut failed) = (Vec::new(), Vec::new());
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_named = entry.file_name().as_encoded_bytes().starts_with(KEPT.as_bytes());
        // Not behind a link, which might lead anywhere.
        let is_own = || {
            std::fs::symlink_metadata(&path).is_ok_and(|metadata| metadata.is_dir() && metadata.uid() == user)
        };
        if !is_named || !is_own() {
            continue;
        }
        // Without a lock it is just being made, or is none of these.
        let Ok(lock) = File::open(path.join(LOCK)) else { continue };
        if lock.try_lock().is_err() {
            continue;
        }
        match std::fs::remove_dir_all(&path) {
            Ok(()) => removed.push(path),
            Err(error) => failed.push(format!("{}: {error}", shown_path(&path))),
        }
    }
    (removed, failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `kill -9` of a command that records left its directory, with an application's trace in it,
    /// for ever.
    #[test]
    fn only_what_a_process_that_has_ended_left_is_removed() {
        let place = tempfile::tempdir().unwrap();
        let alive = RecordingFile::new(place.path()).unwrap();
        let mode = std::fs::metadata(alive.file.parent().unwrap()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        let killed = place.path().join(".fathom-recorded-killed");
        std::fs::create_dir(&killed).unwrap();
        std::fs::write(killed.join(LOCK), "").unwrap();
        std::fs::write(killed.join("recorded.db"), "x").unwrap();
        // Not one of these: another name, no lock, a link to somewhere.
        let other = place.path().join("recorded");
        std::fs::create_dir(&other).unwrap();
        std::fs::write(other.join(LOCK), "").unwrap();
        let unlocked = place.path().join(".fathom-recorded-mine");
        std::fs::create_dir(&unlocked).unwrap();
        std::os::unix::fs::symlink(&other, place.path().join(".fathom-recorded-link")).unwrap();
        let (removed, failed) = remove_abandoned(place.path());
        assert_eq!((removed, failed), (vec![killed.clone()], Vec::new()));
        assert!(alive.file.parent().unwrap().exists() && other.join(LOCK).exists() && unlocked.exists());
        let path = alive.file.parent().unwrap().to_owned();
        drop(alive);
        assert!(!path.exists());
    }
}
