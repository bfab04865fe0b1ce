//! Records an application's trace with settings, for `fathom simulate` and `fathom advise`: runs of
//! their own on the device `recorder`, whose results keep what is replayed.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use fathom_lab::conduct::{self, Request, RunError};
use fathom_lab::experiment::{Selection, TraceChoice};
use fathom_lab::schedule::{Interrupt, Local, Summary};
use fathom_lab::store::Results;
use fathom_output::{shown_path, tell};

use crate::outcome::Error;
use crate::progress::Bar;

/// The device that recordings are made on: every operation takes the same short time.
pub const RECORDER: &str = "recorder";

/// What is recorded.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// The trace.
    pub trace: TraceChoice,
    /// File systems.
    pub filesystems: Vec<String>,
    /// Devices: the recorder, or others for runs that are measured as they are.
    pub devices: Vec<String>,
    /// Variants: a name, and settings of the engine.
    pub variants: Vec<(String, Vec<(String, String)>)>,
    /// Runs of each cell.
    pub repeat: u32,
    /// More `--set`s.
    pub sets: Vec<String>,
    /// Title of the results.
    pub title: String,
    /// Seed of order and data.
    pub seed: u64,
}

impl Recorded {
    /// The experiment, as a file would say it.
    fn source(&self) -> String {
        let mut text = format!(
            "name = \"recorded\"\ntitle = {:?}\nrepeats = {}\n\n[workload]\nname = \"trace\"\n\n[engine]\nname = \"sqlite\"\n\n\
             [stack]\nsize_mib = 1024\n\n[instruments]\noperations = true\n\n[matrix]\n",
            self.title, self.repeat
        );
        // Writing to a String cannot fail.
        let _ = writeln!(text, "\"stack.filesystem\" = {:?}", self.filesystems);
        let _ = writeln!(text, "\"stack.device\" = {:?}", self.devices);
        for (name, settings) in &self.variants {
            let _ = writeln!(text, "\n[[matrix.variants]]\nname = {name:?}");
            for (key, value) in settings {
                let value = match value.parse::<i64>() {
                    Ok(number) => number.to_string(),
                    Err(_) => format!("{value:?}"),
                };
                let _ = writeln!(text, "\"engine.{key}\" = {value}");
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
    what: &Recorded,
    out: &Path,
    directory: &Path,
    command: &str,
    interrupt: Interrupt,
) -> Result<(Results, Summary), Error> {
    let request = Request {
        source_name: "the recording".into(),
        source: what.source(),
        selection: Selection {
            quick: false,
            repeat: None,
            sets: what.sets.clone(),
            traces: vec![what.trace.clone()],
        },
        seed: Some(what.seed),
        directory: directory.to_owned(),
        out: out.to_owned(),
        resume: false,
        time_limit: None,
        until: None,
        budget: None,
        command: command.to_owned(),
    };
    let prepared = conduct::prepare(&request).map_err(asked_or_failed)?;
    for warning in &prepared.cells.warnings {
        tell!("warning: {warning}");
    }
    // Before anything is made: no run could be.
    fathom_stack::trusted_state().map_err(Error::failed)?;
    let mut world = Local::new(directory.to_owned(), interrupt)
        .map_err(|error| Error::failed(format!("this program's own path: {error}")))?;
    let bar = Bar::new(prepared.plan.runs(), false);
    let summary = conduct::run(&request, prepared, &mut world, &mut |progress| bar.show(progress));
    bar.clear();
    let summary = summary.map_err(asked_or_failed)?;
    let results = Results::load(out).map_err(Error::failed)?;
    Ok((results, summary))
}

fn asked_or_failed(error: RunError) -> Error {
    if error.asked_wrongly() { Error::asked(error) } else { Error::failed(error) }
}

/// Whether this machine can record: a modelled device under a file system takes root.
///
/// # Errors
/// What is missing, and what there is to do.
pub fn check_machine(command: &str) -> Result<(), Error> {
    if fathom_stack::is_root() {
        return Ok(());
    }
    Err(Error::failed(format!(
        "{command} records on a modelled device with a file system on it, and mounting one needs root; a directory (`dir`) \
         cannot have a modelled device. Run it with sudo, or record where you are root \
         (`--out RECORDED.db`) and simulate here: `fathom simulate RECORDED.db`"
    )))
}

/// Where results lie that nobody asked to keep: a directory that goes again.
pub struct Kept {
    pub file: PathBuf,
    directory: Option<tempfile::TempDir>,
}

impl Kept {
    /// In `out`, or in a directory of its own below `directory`.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn new(out: Option<&Path>, directory: &Path) -> Result<Kept, Error> {
        if let Some(out) = out {
            return Ok(Kept { file: out.to_owned(), directory: None });
        }
        let made = tempfile::Builder::new().prefix(".fathom-recorded-").tempdir_in(directory);
        let made = made.map_err(|error| Error::failed(format!("{}: {error}", shown_path(directory))))?;
        Ok(Kept { file: made.path().join("recorded.db"), directory: Some(made) })
    }

    /// Whether the user has the file afterwards.
    pub fn is_asked_for(&self) -> bool {
        self.directory.is_none()
    }
}
