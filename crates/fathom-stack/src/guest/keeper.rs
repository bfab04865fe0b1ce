//! What a keeper leaves in a stack's directory: its process, and why its guest is not what it was.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::layout::STATE;

/// Word of the command line.
pub(crate) const WORD: &str = "guest-keeper";
/// Its process id, in the directory of what the guest's kernel keeps.
pub(crate) const PID: &str = "keeper";
/// Why it ended before its time, beside that.
pub(crate) const BROKEN: &str = "broken";
/// How long a keeper may take to end once its guest has.
const END_LIMIT: Duration = Duration::from_secs(5);

/// Why the guest of a stack is not what it was, if it is not.
pub(crate) fn broken(home: &Path) -> Option<String> {
    fs::read_to_string(home.join(STATE).join(BROKEN)).ok().map(|text| text.trim().to_owned())
}

/// Waits for the keeper whose guest was ended and whose mount is gone; one that does not end is
/// killed.
pub(crate) fn end(state: &Path) {
    let Ok(text) = fs::read_to_string(state.join(PID)) else { return };
    let Some(pid) = text.trim().parse().ok().and_then(Pid::from_raw) else { return };
    let begin = Instant::now();
    loop {
        let words = fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).unwrap_or_default();
        if !words.split(|byte| *byte == 0).any(|word| word == WORD.as_bytes()) {
            return;
        }
        if begin.elapsed() > END_LIMIT {
            let _ = kill_process(pid, Signal::KILL);
            return;
        }
        thread::sleep(Duration::from_millis(5));
    }
}
