//! `fathom trace capture`: runs a program and keeps what it asked of SQLite.

use fathom_output::{shown, shown_path, tell};
use fathom_trace::capture::{CaptureResult, Request, capture};
use fathom_trace::model::Loss;

use crate::cli::TraceCapture;
use crate::outcome::{Error, Outcome};

/// Runs the program and says what was captured.
pub fn run(asked: &TraceCapture) -> super::super::Result {
    super::super::check_trace_output(&asked.out, &[])?;
    let request =
        Request { command: asked.command.clone(), out: asked.out.clone(), spool: asked.spool.clone() };
    let captured = capture(&request, &mut |words| tell!("fathom: {words}")).map_err(Error::of_trace)?;
    say(asked, &captured)
}

fn say(asked: &TraceCapture, captured: &CaptureResult) -> super::super::Result {
    if let Some(reason) = &captured.unseen {
        return Err(Error::failed(format!("no call of SQLite was seen, and no trace was written: {reason}")));
    }
    let merged = &captured.merged;
    tell!(
        "fathom: {}: {} events of {} connections in {} processes",
        shown_path(&asked.out),
        merged.events,
        merged.connections,
        merged.processes
    );
    for database in &merged.unknown {
        tell!(
            "warning: {}: what it held at the start is not known, so the trace cannot be replayed on it: {}",
            shown(&database.path),
            shown(&database.reason)
        );
    }
    if merged.unfinished > 0 {
        tell!(
            "warning: {} executions had not returned when their process was killed; they are marked so",
            merged.unfinished
        );
    }
    if merged.cut > 0 {
        tell!("error: {}", Loss::sentence(merged.cut.into()));
    }
    if captured.left > 0 {
        tell!("warning: processes of the program still run; what they do from now on is not in the trace");
    }
    if captured.status.success() && merged.cut > 0 {
        return Ok(Outcome::Failed);
    }
    if captured.status.success() {
        tell!("Next:  fathom trace info {}", super::super::quoted(&shown_path(&asked.out)));
        Ok(Outcome::Good)
    } else {
        Err(Error::failed(format!(
            "the program ended with {}; the trace holds what it did until then",
            captured.status
        )))
    }
}
