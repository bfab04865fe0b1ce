//! `smsc token`: a new token for the HTTP API or the admin page.

use clap::Args;
use smsc::serve::{hash_token, new_token};
use std::error::Error;
use std::io::Write;

/// Print a new random token, for a program, and below it its hash, for the configuration.
#[derive(Args)]
pub struct Token {}

impl Token {
    /// Prints both.
    pub fn run(&self) -> Result<bool, Box<dyn Error>> {
        let token = new_token()?;
        writeln!(std::io::stdout(), "{token}\n{}", hash_token(&token))?;
        Ok(true)
    }
}
