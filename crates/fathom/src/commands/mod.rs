//! One file a command.

pub mod advise;
pub mod age;
pub mod anatomy;
pub mod baseline;
pub mod calibrate;
pub mod compare;
pub mod cut;
pub mod doctor;
mod filesystems;
mod full;
pub mod list;
pub mod manual;
pub mod operations;
mod outputs;
pub mod papers;
pub mod record;
pub mod report;
pub mod run;
pub mod simulate;
pub mod stack;
pub mod status;
pub mod trace;
mod trace_choice;
mod variables;
pub mod worker;

use std::io::IsTerminal;
use std::path::Path;

use fathom_lab::schedule::Interrupt;
use fathom_lab::store::{Results, StoreError};
use fathom_output::tell;

use crate::outcome::{Error, Outcome};

use outputs::{
    all_inputs, check_kept, check_output, check_outputs, check_trace_output, check_unnamed, named_inputs,
    refused_or_failed, takes_stdout, write_copy, write_excerpt, write_filled, write_html, write_text,
};

/// A word as a shell reads it back.
pub fn quoted(word: &str) -> String {
    fathom_ground::command::shell_line([word])
}

/// Tells what there is to know of another machine.
pub fn tell_note(note: &str) {
    tell!("{note}");
}

/// What every command gives.
pub type Result = std::result::Result<Outcome, Error>;

/// What a command fails with that had several problems: the others are told.
pub fn first_of(problems: Vec<Error>) -> Option<Error> {
    let mut problems = problems.into_iter();
    let first = problems.next();
    for Error::Usage(problem) | Error::Failed(problem) in problems {
        tell!("error: {problem}");
    }
    first
}

/// Lets nothing stay of a command that a signal ends.
pub fn tidy_up_on_signals() -> std::result::Result<(), Error> {
    crate::ending::tidy_up_on_signals().map_err(|error| Error::failed(format!("signal handlers: {error}")))
}

/// The system does not tell where this program lies, which is started again for parts of the work.
pub fn no_own_path(error: std::io::Error) -> Error {
    Error::failed(format!("this program's own path: {error}"))
}

/// Lets a signal ask for a stop, so that a command ends in order.
pub fn stop_on_signals(interrupt: &Interrupt) -> std::result::Result<(), Error> {
    interrupt.on_signals().map_err(|error| Error::failed(format!("signal handlers: {error}")))
}

/// Refuses to write to a standard output that was closed from the begin.
pub fn open_stdout() -> std::result::Result<std::io::Stdout, Error> {
    match fathom_output::is_stdout_closed() {
        true => {
            Err(Error::failed("standard output: is closed, and what would be written there would be lost"))
        }
        false => Ok(std::io::stdout()),
    }
}

/// Prints a value as JSON for a machine to read.
pub fn print_json(value: &impl serde::Serialize) -> Result {
    let text = serde_json::to_string_pretty(value).map_err(Error::failed)?;
    // A person at a terminal is shown what it would obey; a program gets what is there.
    let text = if std::io::stdout().is_terminal() { fathom_output::lines(&text) } else { text };
    fathom_output::raw(&(text + "\n"));
    Ok(Outcome::Good)
}

/// What standard output can show, its width asked of the terminal.
pub fn style() -> fathom_report::Style {
    let style = fathom_report::Style::of_stdout();
    match columns() {
        Some(width) => fathom_report::Style { width: width.clamp(40, 400), ..style },
        None => style,
    }
}

/// Columns of the terminal on stdout; none where it is no terminal.
fn columns() -> Option<usize> {
    // SAFETY: winsize is plain data for which all zeros is valid.
    let mut size: libc::winsize = unsafe { std::mem::zeroed() };
    // SAFETY: TIOCGWINSZ writes one winsize, which outlives the call.
    let asked = unsafe { libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &raw mut size) };
    (asked == 0 && size.ws_col > 0).then(|| usize::from(size.ws_col))
}

/// Reads a results file that was named on the command line.
pub fn load(file: &Path) -> std::result::Result<Results, Error> {
    let results = Results::load(file).map_err(|error| match error {
        StoreError::Missing { .. } => Error::usage(error),
        other => Error::failed(other),
    })?;
    if !results.has_checksums() {
        tell!(
            "note: {}: no checksum: an earlier Fathom wrote it, and damage may go unnoticed",
            fathom_output::shown_path(file)
        );
    }
    Ok(results)
}

/// A path that is handed on as text.
pub fn text_path<'a>(option: &str, path: &'a Path) -> std::result::Result<&'a str, Error> {
    path.to_str().ok_or_else(|| {
        let problem = "its path is not text (UTF-8): move or rename what is not";
        Error::usage(format!("{option} {}: {problem}", fathom_output::shown_path(path)))
    })
}
