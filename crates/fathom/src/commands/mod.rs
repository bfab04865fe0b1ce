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
