//! `fathom trace …`: capture what an application asks of SQLite or make it up, look at it, make it
//! anonymous, replay it.

mod anonymise;
mod capture;
mod import;
mod info;
mod part;
mod replay;
mod replay_place;
mod synthesise;

use fathom_output::{say, shown_path, tell};

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
        TraceAction::Part(asked) => part::run(asked),
        TraceAction::Replay(asked) => replay::run(asked),
        TraceAction::Extension { file } => {
            fathom_trace::capture::write_extension(file).map_err(Error::of_trace)?;
            if !fathom_output::is_standard_output(file) {
                say!("{}", shown_path(file));
            }
            tell!("A program started by `fathom trace capture` finds it in $FATHOM_TRACE_EXTENSION too.");
            Ok(Outcome::Good)
        }
    }
}
