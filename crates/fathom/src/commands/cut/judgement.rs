//! The judgement of a recording's states, and what it takes.

use std::time::Duration;

use fathom_cut::{CutError, History, Limits, RecordedRun, judge};
use fathom_lab::schedule::Interrupt;
use fathom_stack::guest::Kernel;

use crate::cli::CutArgs;
use crate::outcome::Error;

pub(super) fn check_piece(asked: &CutArgs) -> Result<(), Error> {
    if asked.from < asked.states {
        return Ok(());
    }
    Err(Error::usage(format!("--from {}: the last state is --states {}", asked.from, asked.states)))
}

/// Root mounts what a cut leaves, or a guest does.
pub(super) fn check_machine() -> Result<(), Error> {
    if fathom_ground::system::is_root() || Kernel::cached().is_some() {
        return Ok(());
    }
    Err(Error::failed(
        "fathom cut mounts a file system for each state that a power cut leaves, which needs root (run it with sudo) or the guest kernel (fathom stack kernel builds it)",
    ))
}

/// Judges what was asked for of a recording, within its share of the time.
pub(super) fn judged(
    asked: &CutArgs,
    recorded: &RecordedRun,
    history: &History,
    time: Duration,
    interrupt: &Interrupt,
) -> Result<fathom_cut::Outcome, CutError> {
    let limits = Limits {
        from: usize::try_from(asked.from).unwrap_or(usize::MAX),
        states: usize::try_from(asked.states).unwrap_or(usize::MAX),
        time: (asked.time > 0).then(|| time.max(Duration::from_secs(1))),
    };
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    judge(recorded, history, threads, limits, &|| interrupt.is_raised(), &|_, _| {})
}
