//! `smsc password`: the hash of a password, for the configuration.

use super::wrong::Wrong;
use clap::Args;
use smsc::serve::{hash_admin_password, hash_password};
use std::error::Error;
use std::io::{BufRead, IsTerminal, Write};

/// Read a password from standard input and print its Argon2 hash, as the configuration has it.
#[derive(Args)]
pub struct Password {
    /// For the admin page: up to 128 characters, not SMPP's eight.
    #[arg(long)]
    admin: bool,
}

impl Password {
    /// Prints the hash. The password is no argument, as other users see those.
    pub fn run(&self) -> Result<bool, Box<dyn Error>> {
        if std::io::stdin().is_terminal() {
            tell!("the password, then Enter (it is shown):");
        }
        let mut line = String::new();
        std::io::stdin().lock().read_line(&mut line)?;
        let password = line.trim_end_matches(['\n', '\r']);
        let hash = if self.admin { hash_admin_password(password) } else { hash_password(password) };
        let hash = hash.map_err(Wrong)?;
        writeln!(std::io::stdout(), "{hash}")?;
        Ok(true)
    }
}
