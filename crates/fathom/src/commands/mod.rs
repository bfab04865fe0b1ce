//! One file a command.

pub mod compare;
pub mod doctor;
pub mod list;
pub mod report;
pub mod run;
pub mod stack;
pub mod worker;

use crate::outcome::{Error, Outcome};

/// What every command gives.
pub type Result = std::result::Result<Outcome, Error>;

/// Prints a value as JSON for a machine to read.
pub fn print_json(value: &impl serde::Serialize) -> Result {
    let text = serde_json::to_string_pretty(value).map_err(Error::failed)?;
    println!("{text}");
    Ok(Outcome::Good)
}

/// How wide and how colourful the terminal is; plain where stdout is none.
pub fn terminal() -> fathom_report::Terminal {
    use std::io::IsTerminal;
    let tty = std::io::stdout().is_terminal();
    let utf8 = ["LC_ALL", "LC_CTYPE", "LANG"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
        .is_some_and(|value| value.to_ascii_lowercase().replace('-', "").contains("utf8"));
    let colour = tty && std::env::var_os("NO_COLOR").is_none();
    fathom_report::Terminal { width: if tty { columns() } else { 120 }, colour, blocks: utf8 || tty }
}

/// Columns of the terminal on stdout.
fn columns() -> usize {
    // SAFETY: winsize is plain data for which all zeros is valid; TIOCGWINSZ only writes to it.
    let size: libc::winsize = unsafe {
        let mut size = std::mem::zeroed();
        libc::ioctl(libc::STDOUT_FILENO, libc::TIOCGWINSZ, &mut size);
        size
    };
    if size.ws_col == 0 { 100 } else { usize::from(size.ws_col) }
}
