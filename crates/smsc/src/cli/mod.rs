//! The command line: parse, call, print. Exit codes: 0, 1 (it ran and something failed), 2 (asked wrongly).

mod bench;
mod check;
mod store;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// An SMS centre on exchangeable stores.
#[derive(Parser)]
#[command(name = "smsc", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Bench(Box<bench::Bench>),
    Check(check::Check),
}

/// A question that cannot be answered: what is wrong with it.
#[derive(Debug)]
struct Wrong(String);

impl std::fmt::Display for Wrong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Wrong {}

/// Parses, runs, and tells how it went.
pub fn run() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Bench(bench) => bench.run(),
        Command::Check(check) => check.run(),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("smsc: {error}");
            if error.is::<Wrong>() { ExitCode::from(2) } else { ExitCode::FAILURE }
        }
    }
}
