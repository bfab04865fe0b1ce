//! A run in the guest of a stack. The program there says each step that was acknowledged and goes
//! on once the host has marked it: the host makes a file of the step's number, which the program
//! sees through the guest's view of the host's files.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use fathom_stack::Stack;
use fathom_stack::guest::ProgramOutput;

use super::COMMAND;
use crate::error::CutError;
use crate::marks::Marks;
use crate::work::{Report, RunRequest, work};

/// File of the order, beside those of the numbers.
const ORDER: &str = "order";
/// Between two looks for the host's file.
const LOOK: Duration = Duration::from_micros(300);
/// How long the program may say nothing.
const SILENCE: Duration = Duration::from_secs(300);

/// Makes the run in a stack's guest.
///
/// # Errors
/// What the program there said, or that it said nothing.
pub(crate) fn record(
    stack: &mut Stack,
    order: &RunRequest,
    marks: &Marks,
    stop: &dyn Fn() -> bool,
) -> Result<Report, CutError> {
    let failed = |problem: String| CutError::Database { what: "the run in the guest".into(), problem };
    // Of an input that is longer than the guest's terminal takes at once (4 KiB) the end comes, and
    // nothing that is said after it: the guest is told where the order is, and sees the file.
    let place = order.marked.join(ORDER);
    let text = serde_json::to_string(order).map_err(|error| failed(error.to_string()))?;
    std::fs::write(&place, text).map_err(CutError::io("write what the guest is to do"))?;
    let program = fathom_ground::program::own_program().map_err(CutError::io("this program's own path"))?;
    let guest = stack.guest().ok_or_else(|| failed("there is no guest".into()))?;
    guest
        .run(&program, &[COMMAND.into()], place.display().to_string())
        .map_err(|error| failed(error.to_string()))?;
    let mut report = None;
    loop {
        match guest.hear(SILENCE).map_err(|error| failed(error.to_string()))? {
            ProgramOutput::Line(line) => {
                let text = String::from_utf8_lossy(&line);
                match text.trim().strip_prefix("step ").and_then(|number| number.parse::<u64>().ok()) {
                    Some(number) => {
                        marks.tell(number)?;
                        let name = if stop() { "stop".to_owned() } else { number.to_string() };
                        File::create(order.marked.join(name)).map_err(CutError::io("tell the guest"))?;
                    }
                    None => {
                        report =
                            Some(serde_json::from_str(&text).map_err(|error| failed(error.to_string()))?);
                    }
                }
            }
            ProgramOutput::Ended(status, _) if status.success() => break,
            ProgramOutput::Ended(status, said) => return Err(failed(format!("{status}: {said}"))),
            ProgramOutput::Silence => return Err(failed("it does not go on".into())),
        }
    }
    report.ok_or_else(|| failed("it has not said how it ended".into()))
}

/// The program in the guest: standard input names the file of the order.
pub(super) fn main() -> Result<(), String> {
    let place = std::io::read_to_string(std::io::stdin()).map_err(|error| error.to_string())?;
    let text = std::fs::read_to_string(&place).map_err(|error| format!("{place}: {error}"))?;
    let order: RunRequest = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let root = File::open(&order.directory).map_err(|error| error.to_string())?;
    rustix::fs::syncfs(&root).map_err(|error| error.to_string())?;
    let told = |number: u64| said(&order.marked, number);
    told(0).map_err(|error| error.to_string())?;
    let report = work(&order, &told).map_err(|error| error.to_string())?;
    println!("{}", serde_json::to_string(&report).map_err(|error| error.to_string())?);
    Ok(())
}

/// Says a step and waits until the host has marked it; false: the host wants no more.
fn said(marked: &Path, number: u64) -> Result<bool, CutError> {
    let mut out = std::io::stdout();
    writeln!(out, "step {number}").and_then(|()| out.flush()).map_err(CutError::io("say a step"))?;
    let (mine, stop) = (marked.join(number.to_string()), marked.join("stop"));
    loop {
        if mine.exists() {
            return Ok(true);
        }
        if stop.exists() {
            return Ok(false);
        }
        std::thread::sleep(LOOK);
    }
}
