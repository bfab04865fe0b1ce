//! Records an application's trace with settings, for `fathom simulate` and `fathom advise`: runs of
//! their own on the device `recorder`, whose results keep what is replayed.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use fathom_lab::conduct::{self, RunError};
use fathom_lab::remote::Remote;
use fathom_lab::schedule::{Interrupt, Local, Progress, Summary, WorkError, World};
use fathom_lab::store::{CutFinding, Results};
use fathom_output::tell;

use crate::outcome::Error;
use crate::progress::Bar;

mod file;
mod place;
mod progress;
mod request;

use progress::PartsProgress;

pub use file::{RecordingFile, keep, remove_abandoned, temporary_is_full};
pub use place::{Place, check_machine, images_that_fit, why_not_here};
pub use request::{MoreRuns, Purpose, RecordingRequest, trace_hash};

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
    mut remote: Option<&mut Remote>,
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
    let all: Vec<_> = match (remote.as_deref_mut(), outs.first()) {
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
    for note in remote.map(World::notes).unwrap_or_default() {
        tell!("{note}");
    }
    all.into_iter().collect()
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
                .map_err(super::no_own_path)?
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
    let mut world =
        Local::new(place.directory.to_owned(), place.interrupt.clone()).map_err(super::no_own_path)?;
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

fn asked_or_failed(error: RunError) -> Error {
    match error {
        RunError::Store(error) if error.is_of_a_full_disk() => temporary_is_full(),
        error if error.asked_wrongly() => Error::usage(error),
        error => Error::failed(error),
    }
}
