//! The command `smsc`.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run()
}
