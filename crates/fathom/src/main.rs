//! The command line of Fathom: parse, call, print. No logic of its own.

// `println!` panics where standard output is full or closed, and lets through what a terminal
// obeys: `say!` and `tell!` do neither.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod cli;
mod commands;
mod ending;
mod outcome;
mod progress;
mod repeat;

use cli::Command;
use outcome::Outcome;
use repeat::Invocation;

fn main() -> std::process::ExitCode {
    restore_sigpipe();
    fathom_ground::program::this_is_fathom();
    ending::outlive_the_limit();
    let parsed = Invocation::of_process().and_then(|parsed| Ok((parsed.cli()?, parsed)));
    let (cli, parsed) = match parsed {
        Ok(both) => both,
        Err(said) => return say_of_the_command_line(&said),
    };
    let outcome = match cli.command {
        Command::Doctor(asked) => commands::doctor::run(&asked),
        Command::Advise(asked) => commands::advise::run(&asked, &parsed),
        Command::List(asked) => commands::list::run(&asked),
        Command::Run(asked) => commands::run::run(&asked, &parsed),
        Command::Report(asked) => commands::report::run(&asked),
        Command::Papers(asked) => commands::papers::run(&asked),
        Command::Anatomy(asked) => commands::anatomy::run(&asked),
        Command::Baseline(asked) => commands::baseline::run(&asked),
        Command::Compare(asked) => commands::compare::run(&asked),
        Command::Simulate(asked) => commands::simulate::run(&asked, &parsed),
        Command::Cut(asked) => commands::cut::run(&asked),
        Command::Stack(asked) => commands::stack::run(&asked),
        Command::Trace(asked) => commands::trace::run(&asked),
        Command::Completions { shell } => commands::manual::completions(shell),
        Command::Man { out } => commands::manual::man(out.as_deref()),
        Command::Worker => {
            let code = commands::worker::run();
            ending::tell_of_the_limit();
            return code;
        }
        Command::CutGuest => return fathom_cut::guest::main(),
        Command::Agent { dir, after } => {
            let code = fathom_lab::remote::agent::main(&dir, after);
            ending::tell_of_the_limit();
            return code;
        }
        Command::GuestAgent => return fathom_stack::guest::agent::main(),
        Command::DeviceServer => return fathom_device::server::main(),
        Command::GuestKeeper => return fathom_stack::keeper::main(),
        Command::StackGuard { home } => return fathom_stack::guard::main(&home),
    };
    let mut outcome = outcome.unwrap_or_else(Outcome::from);
    if ending::tell_of_the_limit() {
        outcome = outcome.or_failed();
    }
    if let Err(error) = fathom_output::end() {
        fathom_output::tell!("error: standard output: {error}");
        outcome = outcome.or_failed();
    }
    // Who was asked to stop, and has not come to the end, ends as the signal ends any program.
    if let (Outcome::Failed, Some(signal)) = (&outcome, fathom_lab::schedule::stopped_by()) {
        ending::as_the_signal(signal);
    }
    outcome.exit()
}

/// Help and version (0), or what is wrong with the command line (2).
fn say_of_the_command_line(said: &clap::Error) -> std::process::ExitCode {
    if said.use_stderr() {
        // Where nobody can be told, nobody is.
        let _ = said.print();
        return Outcome::Usage.exit();
    }
    let printed = match fathom_output::is_stdout_closed() {
        true => Err(std::io::Error::other("is closed")),
        false => said.print().and_then(|()| std::io::Write::flush(&mut std::io::stdout())),
    };
    match printed {
        Ok(()) => Outcome::Good.exit(),
        Err(error) => {
            fathom_output::tell!("error: standard output: {error}");
            Outcome::Failed.exit()
        }
    }
}

/// Lets `fathom list | head` end quietly instead of with a panic on a closed pipe.
fn restore_sigpipe() {
    // SAFETY: called before any thread is started; SIG_DFL is a valid disposition for SIGPIPE.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}
