//! The processes of this machine, as /proc tells.

use std::fs;

/// The numbers of all processes that are seen; none where /proc is missing. Each may have ended
/// meanwhile.
pub fn pids() -> impl Iterator<Item = u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// The process that one came of, or was left to.
#[must_use]
pub fn parent(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may hold anything; the state follows it, then the parent
    // (proc_pid_stat(5)).
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// Whether a process was started with this word, whole.
#[must_use]
pub fn was_started_with(pid: u32, word: &str) -> bool {
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    words.split(|byte| *byte == 0).any(|given| given == word.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::{Duration, Instant};

    use super::*;

    /// Three places walked through /proc and took its lines apart, each by itself.
    #[test]
    fn a_child_is_found_with_its_parent_and_its_words() {
        let mut child = Command::new("sleep").arg("61.5").spawn().unwrap();
        let pid = child.id();
        assert!(pids().any(|other| other == pid) && pids().any(|other| other == std::process::id()));
        assert_eq!(parent(pid), Some(std::process::id()));
        // Its words are there a little after it has begun.
        let begun = Instant::now();
        while !was_started_with(pid, "61.5") {
            assert!(begun.elapsed() < Duration::from_secs(60), "the child's words are never seen");
            std::thread::yield_now();
        }
        assert!(!was_started_with(pid, "61"));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!((parent(pid), was_started_with(pid, "61.5")), (None, false));
    }
}
