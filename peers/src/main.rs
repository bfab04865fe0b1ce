//! mmdb and its rivals under one workload. See README.md; `peers/run` builds and starts this.

mod batcher;
mod catalog;
mod cell;
mod fjall_store;
mod floor;
mod futex;
mod lmdb;
mod message;
mod mix;
mod mmdb_store;
mod peer;
mod postgres;
mod redb_store;
mod redis;
mod report;
mod rocks;
mod run;
mod server;
mod sqlite;
mod tarantool;
mod usage;
mod wire;

use anyhow::{Context, Result, bail};
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments.as_slice() {
        ["measure", spec] => measure(spec),
        ["reopen", spec] => reopen(spec),
        ["table", file] => report::print_file(std::path::Path::new(file)),
        options => run::run(options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn say(report: &impl serde::Serialize) -> Result<()> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, report)?;
    out.write_all(b"\n")?;
    out.flush().context("reporting")
}

/// The first process of a cell: measures, reports, and dies without a farewell to the store.
fn measure(spec: &str) -> Result<()> {
    let (peer, measured) = cell::measure(&serde_json::from_str(spec)?)?;
    say(&measured)?;
    peer.kill()?;
    // SAFETY: no preconditions; nothing of this process shall run any more.
    unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
    bail!("still alive after SIGKILL")
}

/// The second process of a cell: opens, reads everything, reports.
fn reopen(spec: &str) -> Result<()> {
    let (peer, reopened) = cell::reopen(&serde_json::from_str(spec)?)?;
    say(&reopened)?;
    peer.kill()
}
