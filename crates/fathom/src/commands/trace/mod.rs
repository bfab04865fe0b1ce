//! `fathom trace …`: capture what an application asks of SQLite or make it up, look at it, make it
//! anonymous, replay it.

mod anonymise;
mod capture;
mod import;
mod info;
mod replay;
mod replay_place;
mod synthesise;

use fathom_output::{say, shown_path, tell};
use fathom_trace::TraceError;

use crate::cli::{Trace, TraceAction};
use crate::outcome::{Error, Outcome};

/// Does what was asked.
pub fn run(asked: &Trace) -> super::Result {
    match &asked.action {
        TraceAction::Capture(asked) => capture::run(asked),
        TraceAction::Import(asked) => import::run(asked),
        TraceAction::Synthesise(asked) => synthesise::run(asked),
        TraceAction::Info(asked) => info::run(asked),
        TraceAction::Anonymise(asked) => anonymise::run(asked),
        TraceAction::Replay(asked) => replay::run(asked),
        TraceAction::Extension { file } => {
            fathom_trace::capture::write_extension(file).map_err(asked_or_failed)?;
            if !fathom_output::is_standard_output(file) {
                say!("{}", shown_path(file));
            }
            tell!("A program started by `fathom trace capture` finds it in $FATHOM_TRACE_EXTENSION too.");
            Ok(Outcome::Good)
        }
    }
}

/// A file that is not there or is no trace was asked for wrongly; all else has failed here.
fn asked_or_failed(error: TraceError) -> Error {
    match &error {
        TraceError::NotATrace { .. } | TraceError::Refused { .. } | TraceError::Parts { .. } => {
            Error::usage(error)
        }
        TraceError::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => Error::usage(error),
        _ => Error::failed(error),
    }
}
