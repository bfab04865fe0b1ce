//! The command line of Fathom: parse, call, print. No logic of its own.

// `println!` panics where standard output is full or closed, and lets through what a terminal obeys: `say!` and `tell!` do neither.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod cli;
mod commands;
mod outcome;
mod progress;

use clap::Parser;

use cli::{Cli, Command};
use outcome::Outcome;

fn main() -> std::process::ExitCode {
    restore_sigpipe();
    let cli = Cli::parse(); // exits with 2 and a message when asked wrongly
    let outcome = match cli.command {
        Command::Doctor(asked) => commands::doctor::run(&asked),
        Command::List(asked) => commands::list::run(&asked),
        Command::Run(asked) => commands::run::run(&asked),
        Command::Report(asked) => commands::report::run(&asked),
        Command::Baseline(asked) => commands::baseline::run(&asked),
        Command::Compare(asked) => commands::compare::run(&asked),
        Command::Stack(asked) => commands::stack::run(&asked),
        Command::Trace(asked) => commands::trace::run(&asked),
        Command::Worker => return commands::worker::run(),
        Command::GuestAgent => return fathom_stack::guest::agent::main(),
        Command::DeviceServer => return fathom_stack::device::server::main(),
        Command::GuestKeeper => return fathom_stack::guest::relay::keeper::main(),
    };
    let outcome = outcome.unwrap_or_else(Outcome::from);
    match fathom_output::end() {
        Ok(()) => outcome.exit(),
        Err(error) => {
            fathom_output::tell!("error: standard output: {error}");
            outcome.or_failed().exit()
        }
    }
}

/// Lets `fathom list | head` end quietly instead of with a panic on a closed pipe.
fn restore_sigpipe() {
    // SAFETY: called before any thread is started; SIG_DFL is a valid disposition for SIGPIPE.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}
