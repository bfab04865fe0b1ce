//! The command line: parse, call, print. Exit codes: 0, 1 (it ran and something failed), 2 (asked
//! wrongly), 141 (nobody reads).

/// As `eprintln!`, which panics where standard error is full or closed: then there is nobody to
/// tell.
macro_rules! tell {
    () => { tell!("") };
    ($($words:tt)*) => {{
        let _ = std::io::Write::write_fmt(&mut std::io::stderr(), format_args!("{}\n", format_args!($($words)*)));
    }};
}

mod bench;
mod check;
mod copy;
mod dump;
mod leftovers;
mod load;
mod man;
mod password;
mod place;
mod remarks;
mod serve;
mod stop;
mod store;
mod token;
mod wrong;

use clap::{CommandFactory, Parser, Subcommand};
use std::error::Error;
use std::io::ErrorKind;
use std::process::ExitCode;
use wrong::Wrong;

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
    Serve(serve::Serve),
    Load(Box<load::Load>),
    Password(password::Password),
    Token(token::Token),
    Man(man::Man),
}

/// Parses, runs, and tells how it went.
pub fn run() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Bench(bench) => bench.run(),
        Command::Check(check) => check.run(),
        Command::Serve(serve) => serve.run(),
        Command::Load(load) => load.run(),
        Command::Password(password) => password.run(),
        Command::Token(token) => token.run(),
        Command::Man(man) => man.run(Cli::command()),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) if nobody_reads(&*error) => ExitCode::from(NOBODY_READS),
        Err(error) => {
            tell!("smsc: {error}");
            if error.is::<Wrong>() { ExitCode::from(2) } else { ExitCode::FAILURE }
        }
    }
}

/// What a shell gives for a program that SIGPIPE has ended, 128 + 13. The signal itself would leave
/// stores and servers behind.
const NOBODY_READS: u8 = 141;

/// Whether a line could not be written because its reader has gone, such as `head`: no fault of
/// anybody.
fn nobody_reads(error: &(dyn Error + 'static)) -> bool {
    error.downcast_ref::<std::io::Error>().is_some_and(|cause| cause.kind() == ErrorKind::BrokenPipe)
}
