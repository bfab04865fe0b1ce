//! The guard: this program in a process of its own, which waits on a pipe for its owner to end,
//! however it ends, and then takes the stack down.
//!
//! A destructor does not run after Ctrl-C, SIGTERM or kill -9. The pipe closes all the same, and
//! the guard reads in the entry what there is, and calls the one teardown. Told `down` on the pipe,
//! it ends without doing anything. It ignores the signals of the terminal and has a process group
//! of its own. It runs the file that its owner runs ([`executable`]), so an update of Fathom
//! meanwhile does not concern it.
//!
//! Should the guard be killed too, the entry's lock tells the next sweep that nobody owns the
//! stack. Until then the guard has a part in that lock: a sweep that undid the same stack beside it
//! would be done first, and the slower of the two would then remove what a new stack of the same
//! name has made.

use std::fs::File;
use std::io::{self, BufRead};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use fathom_ground::pipe;
use fathom_ground::program::executable;

use super::entry::Entry;
use super::teardown::{BusyMount, undo_abandoned};

/// The command of `fathom` that this is.
pub const WORD: &str = "stack-guard";
/// What the owner says when there is nothing left to undo.
const DOWN: &str = "down";
/// How long a process that still uses the mount may take to end.
const BUSY_LIMIT: Duration = Duration::from_secs(60);

/// A running guard.
#[derive(Debug)]
pub(crate) struct Guard(Child);

impl Guard {
    /// Starts `program` as the guard of the entry in `home`, whose lock is `owner`'s.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn start(program: &Path, home: &Path, owner: &File) -> io::Result<Guard> {
        Command::new(executable(program))
            .arg0(program)
            .arg(WORD)
            .arg(home)
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            // Not on the mount, nor on the file system that holds it.
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            // Nothing is written there: a lock lasts as long as somebody has its file open, and
            // this is the one descriptor left that a child is given. Programs that may hang have
            // another.
            .stderr(owner.try_clone()?)
            .process_group(0)
            .spawn()
            .map(Guard)
    }

    /// Process id, for tests that kill it.
    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Ends the guard: there is nothing left to undo.
    pub fn dismiss(mut self) {
        // A guard that was killed cannot be told; it is only to be waited for.
        if let Some(mut pipe) = self.0.stdin.take() {
            let _ = pipe::write_all(&mut pipe, format!("{DOWN}\n").as_bytes());
        }
        let _ = self.0.wait();
    }
}

/// The whole of `fathom stack-guard HOME`: waits for the end of stdin, and takes the stack down
/// whose entry is in `home`. What it cannot undo, the next sweep finds.
#[must_use]
pub fn main(home: &Path) -> ExitCode {
    ignore_signals();
    let mut word = String::new();
    // An error is an end like another.
    let _ = io::stdin().lock().read_line(&mut word);
    if word.trim() == DOWN {
        return ExitCode::SUCCESS;
    }
    match undo_of_killed(home) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// Whether nothing is left to undo.
fn undo_of_killed(home: &Path) -> bool {
    let Ok(entry) = Entry::read_trusted(home) else { return false };
    // Complete, and its owner died before it could say so.
    if entry.kept {
        return true;
    }
    undo_abandoned(home, &entry, BusyMount { wait: BUSY_LIMIT, lazy: false }).is_ok()
}

/// Ctrl-C, a closed terminal and a service manager's SIGTERM are for the owner.
fn ignore_signals() {
    for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM] {
        // SAFETY: SIG_IGN is a valid disposition for each of these, and no handler is set.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
}
