//! What is said between Fathom and its agent in a guest: one JSON object a line
//! ([`fathom_ground::lines`]), over the guest's serial line.

use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use fathom_probe::Note;
use serde::{Deserialize, Serialize};

use crate::attribution::{Cause, Piece};
use crate::blocks::Request;
use crate::instruments::floor::FloorProbe;
use fathom_ground::command::{CommandError, CommandLine, CommandProblem, Output};

/// What the agent is asked.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Ask {
    /// Runs a command to its end.
    Command { line: CommandLine, limit_ms: u64 },
    /// A small file's text.
    Read { path: PathBuf },
    /// Makes a directory.
    MakeDirectory { path: PathBuf },
    /// What its clock shows: CLOCK_MONOTONIC.
    Clock,
    /// Measures what a durable write costs.
    Floor { directory: PathBuf, writes: u32 },
    /// Runs a program with this input; what it writes comes line by line.
    Run { line: CommandLine, directory: PathBuf, input: String },
    /// Traces the blocks of these devices from now on.
    Trace { devices: Vec<PathBuf>, tag: String },
    /// Ends the trace and attributes what was traced, by the [`FileNotes`] of this file.
    Traced { filesystem: String, device: PathBuf, directory: PathBuf, known: PathBuf },
    /// Serves what is mounted at `point` to the host until the host's mount is taken away:
    /// [`Answer::Done`], then one [`Answer::Serving`] after the other, and [`Answer::Unmounted`].
    Serve { point: PathBuf, case_folds: bool, root_is: (u32, u32) },
    /// Takes the mount away and turns the guest off.
    Off { point: PathBuf },
}

/// What it says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Answer {
    /// What was asked is done.
    Done,
    /// It cannot be done: why.
    Refused { problem: String },
    /// A file's text.
    Text { text: String },
    /// How a command ended.
    Command(Ending),
    /// Requests of a trace with their pieces; several such answers, then [`Answer::Traced`].
    Requests { requests: Vec<(Request, Vec<Piece>)> },
    /// A trace is told.
    Traced { lost_events: u64, unfinished: u64, span_ns: (u64, u64), remarks: Vec<String> },
    /// The clock, ns.
    Clock { now_ns: u64 },
    /// The floor.
    Floor(FloorProbe),
    /// The host's mount is being served: for how long the oldest operation has waited, and how many
    /// the disk has completed.
    Serving { waited_ms: u64, operations: u64 },
    /// The host's mount is gone.
    Unmounted,
    /// A program of [`Ask::Run`] has ended: its status as wait(2) gives it, and the end of what it
    /// wrote to stderr.
    Ended { status: i32, complaints: String },
}

/// What the worker's probe knows of files, for the attribution. It is handed over in a file: it may
/// be large.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct FileNotes {
    pub notes: Vec<Note>,
    pub causes: Vec<Cause>,
}

/// How a command ended in the guest.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Ending {
    Good(Output),
    Start { errno: Option<i32>, words: String },
    Status { status: i32, said: String },
    TimeLimit { limit_s: f64, alive: bool, said: String },
    Wait { errno: Option<i32>, words: String },
}

fn errno_of(error: &io::Error) -> (Option<i32>, String) {
    (error.raw_os_error(), error.to_string())
}

fn error_of(errno: Option<i32>, words: String) -> io::Error {
    errno.map_or_else(|| io::Error::other(words), io::Error::from_raw_os_error)
}

impl Ending {
    pub fn of(result: Result<Output, CommandError>) -> Ending {
        match result {
            Ok(output) => Ending::Good(output),
            Err(CommandError { problem, stderr: said, .. }) => match problem {
                CommandProblem::Start(error) => {
                    let (errno, words) = errno_of(&error);
                    Ending::Start { errno, words }
                }
                CommandProblem::Wait(error) => {
                    let (errno, words) = errno_of(&error);
                    Ending::Wait { errno, words }
                }
                CommandProblem::Status(status) => Ending::Status { status: status.into_raw(), said },
                CommandProblem::TimeLimit { limit_s, alive } => Ending::TimeLimit { limit_s, alive, said },
            },
        }
    }

    /// As if the command had run here.
    pub fn result(self, line: &CommandLine) -> Result<Output, CommandError> {
        let (problem, stderr) = match self {
            Ending::Good(output) => return Ok(output),
            Ending::Start { errno, words } => (CommandProblem::Start(error_of(errno, words)), String::new()),
            Ending::Wait { errno, words } => (CommandProblem::Wait(error_of(errno, words)), String::new()),
            Ending::Status { status, said } => (CommandProblem::Status(ExitStatus::from_raw(status)), said),
            Ending::TimeLimit { limit_s, alive, said } => {
                (CommandProblem::TimeLimit { limit_s, alive }, said)
            }
        };
        Err(CommandError { command: format!("(in the guest) {}", line.shown()), problem, stderr })
    }
}

pub(crate) fn milliseconds(limit: Duration) -> u64 {
    u64::try_from(limit.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_that_fails_in_the_guest_fails_alike_here() {
        let line = CommandLine::new("sh", ["-c", "echo broken disk >&2; exit 3"]);
        let here = Ending::of(line.run(Duration::from_secs(60)));
        let text = serde_json::to_string(&Answer::Command(here)).unwrap();
        let Answer::Command(ending) = serde_json::from_str(&text).unwrap() else { panic!("{text}") };
        let error = ending.result(&line).unwrap_err().to_string();
        for part in ["(in the guest) sh -c", "exit status: 3", "it said: broken disk"] {
            assert!(error.contains(part), "{part} in {error}");
        }
        let missing = CommandLine::new("no-such-mkfs", ["x"]);
        let error =
            Ending::of(missing.run(Duration::from_secs(60))).result(&missing).unwrap_err().to_string();
        assert!(error.contains("cannot start") && error.contains("No such file"), "{error}");
    }
}
