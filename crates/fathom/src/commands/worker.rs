//! `fathom worker`: executes one cell for `fathom run`.

use std::process::ExitCode;

/// Takes an order on stdin, writes events on stdout.
pub fn run() -> ExitCode {
    fathom_lab::worker::main()
}
