//! One file a command.

pub mod calibrate;
pub mod compare;
pub mod doctor;
pub mod list;
pub mod operations;
pub mod report;
pub mod run;
pub mod stack;
pub mod status;
pub mod trace;
pub mod worker;

use fathom_lab::store::{Results, StoreError};

use crate::outcome::{Error, Outcome};

/// What every command gives.
pub type Result = std::result::Result<Outcome, Error>;

/// Prints a value as JSON for a machine to read.
pub fn print_json(value: &impl serde::Serialize) -> Result {
    let text = serde_json::to_string_pretty(value).map_err(Error::failed)?;
    println!("{text}");
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
pub fn load(file: &std::path::Path) -> std::result::Result<Results, Error> {
    Results::load(file).map_err(|error| match error {
        StoreError::Missing { .. } => Error::asked(error),
        other => Error::failed(other),
    })
}

/// Writes the HTML report; a reader never sees half of it.
pub fn write_html(results: &Results, file: &std::path::Path) -> std::result::Result<(), Error> {
    fathom_report::write_whole(file, |out| fathom_report::html(results, out)).map_err(Error::failed)
}
