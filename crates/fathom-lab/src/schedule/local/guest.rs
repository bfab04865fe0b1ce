//! One worker in a guest: started, listened to, and ended with its guest.

use std::ffi::OsString;
use std::path::Path;
use std::time::{Duration, Instant};

use fathom_stack::guest::{Guest, ProgramOutput};
use fathom_workload::engine::engine_named;

use super::Interrupt;
use super::process::{GLANCE, excerpt, how_it_ended, too_long, with_complaints};
use crate::event::{Event, WorkerRequest};
use crate::schedule::WorkError;

/// Runs a worker to its end. A guest that is no longer understood, or whose worker is not to go on,
/// is ended.
pub(super) fn run(
    guest: &mut Guest,
    (program, arguments): (&Path, &[OsString]),
    order: &WorkerRequest,
    limit: Duration,
    interrupt: &Interrupt,
    on_event: &mut dyn FnMut(Event),
) -> Result<(), WorkError> {
    let failed = |message: String| Err(WorkError::Failed(message));
    let text = match serde_json::to_string(order) {
        Ok(text) => text,
        Err(error) => return failed(format!("the order cannot be written: {error}")),
    };
    let engine = order.cell.engine.as_ref().and_then(|engine| engine_named(&engine.name));
    if let Some(server) = engine.filter(|kind| !kind.is_embedded) {
        return failed(format!(
            "{}'s server is not started in a guest kernel; choose a file system of this machine's",
            server.title
        ));
    }
    let deadline = Instant::now() + limit;
    let result = guest.run(program, arguments, text);
    if let Err(error) = result {
        return failed(error.to_string());
    }
    loop {
        if interrupt.is_raised() {
            guest.end();
            return Err(WorkError::Interrupted);
        }
        if Instant::now() >= deadline {
            guest.end();
            return Err(too_long(limit));
        }
        match guest.hear(GLANCE) {
            Ok(ProgramOutput::Silence) => {}
            Ok(ProgramOutput::Line(line)) => match serde_json::from_slice(&line) {
                Ok(event) => on_event(event),
                Err(_) => {
                    guest.end();
                    return failed(format!("the worker wrote what is no event: {}", excerpt(&line)));
                }
            },
            Ok(ProgramOutput::Ended(status, _)) if status.success() => return Ok(()),
            Ok(ProgramOutput::Ended(status, complaints)) => {
                return failed(with_complaints(how_it_ended(status), &complaints));
            }
            Err(error) => {
                guest.end();
                return failed(error.to_string());
            }
        }
    }
}
