//! Runs on another machine: a board over ssh, a phone over adb.
//!
//! ```text
//!   fathom run --on …                          there
//!   schedule ── Remote (a World) ── ssh|adb ── fathom agent ── Local (a World) ── stack, worker
//!                 questions, one JSON object a line ▸   ◂ answers; events of the worker as raw lines
//! ```
//! The program is pushed once, by its content (`files`), and what a cell names of files here
//! likewise. The agent makes stacks as `fathom run` does there: with a claim and a guard of that
//! machine, so that nothing stays there whatever becomes of the connection.

pub mod agent;
mod allowance;
mod connection;
mod files;
mod machines;
mod processor;
mod program;
mod shell;
mod target;
mod wire;
mod world;

pub use files::file_hash;
pub use machines::Machines;
pub use target::{ADB_DIRECTORY, LOCAL, Target, TargetError};
pub use world::{REMOTE_FILE, Remote};
