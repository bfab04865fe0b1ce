//! Programs of the system that are asked what it is, and not for ever: a phone whose services hang
//! must not hang whoever measures on it.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// How long one may take; Android's `dumpsys` itself gives a service ten seconds.
const LIMIT: Duration = Duration::from_secs(12);
/// How long all of them may take together: who waits for what they say gives it two minutes.
const ALL: Duration = Duration::from_secs(30);
/// How long one that was killed may take to die. What hangs in the kernel is left behind.
const DEATH: Duration = Duration::from_secs(2);
/// What is read of one, octets; a phone's `dumpsys power` has some hundred KiB.
const MOST: u64 = 4 << 20;
/// How often is looked whether one has ended.
const GLANCE: Duration = Duration::from_millis(2);

/// One round of questions.
#[derive(Debug)]
pub(super) struct Programs {
    limit: Duration,
    until: Instant,
    /// Names of those that did not answer; they are not asked again.
    late: Vec<String>,
    /// What has no answer for that, as it would be typed.
    unanswered: Vec<String>,
}

/// What came of asking a program.
enum Answer {
    /// It is not there, or failed.
    None,
    /// What it said.
    Text(String),
    /// It did not end in time.
    Late,
}

impl Programs {
    /// A round that begins now.
    pub fn new() -> Programs {
        Programs::within(LIMIT, ALL)
    }

    /// As [`Programs::new`], with other limits: of one, and of all.
    pub fn within(limit: Duration, all: Duration) -> Programs {
        Programs { limit, until: Instant::now() + all, late: Vec::new(), unanswered: Vec::new() }
    }

    /// What the program of this name in `place` says; nothing where it is not there, fails, or does
    /// not answer in time.
    pub fn said(&mut self, place: &Path, name: &str, words: &[&str]) -> Option<String> {
        let path = place.join(name);
        if !path.exists() {
            return None;
        }
        let left = self.limit.min(self.until.saturating_duration_since(Instant::now()));
        let is_late = left.is_zero() || self.late.iter().any(|late| late == name);
        let answer = if is_late { Answer::Late } else { asked(&path, words, left) };
        match answer {
            Answer::None => None,
            Answer::Text(text) => Some(text).filter(|text| !text.is_empty()),
            Answer::Late => {
                self.late.push(name.to_owned());
                self.unanswered.push(format!("{name} {}", words.join(" ")));
                None
            }
        }
    }

    /// What was asked in vain, each as it would be typed.
    pub fn unanswered(self) -> Vec<String> {
        self.unanswered
    }
}

fn asked(path: &Path, words: &[&str], limit: Duration) -> Answer {
    let mut command = Command::new(path);
    command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    // A group of its own, so that what it has started ends with it.
    let Ok(mut child) = command.process_group(0).spawn() else { return Answer::None };
    let begin = Instant::now();
    let (sender, heard) = channel();
    if let Some(stdout) = child.stdout.take() {
        std::thread::spawn(move || {
            let mut text = Vec::new();
            // What cannot be read is missing, and nobody may wait for it any more.
            let _ = stdout.take(MOST).read_to_end(&mut text);
            let _ = sender.send(text);
        });
    }
    let text = heard.recv_timeout(limit).ok();
    let status = ended(&mut child, limit.saturating_sub(begin.elapsed()));
    match (text, status) {
        (Some(text), Some(status)) if status.success() => {
            Answer::Text(String::from_utf8_lossy(&text).trim().to_owned())
        }
        (Some(_), Some(_)) => Answer::None,
        _ => {
            if let Some(group) = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw) {
                // An error means that nothing is left of it.
                let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
            }
            let _ = ended(&mut child, DEATH);
            Answer::Late
        }
    }
}

/// How a child ended, waited for at most so long.
fn ended(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let begin = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if begin.elapsed() < limit => std::thread::sleep(GLANCE),
            _ => return None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `name` is: the system's own shell by another name.
    fn place() -> (tempfile::TempDir, &'static str) {
        let place = tempfile::tempdir().unwrap();
        std::os::unix::fs::symlink("/bin/sh", place.path().join("dumpsys")).unwrap();
        (place, "dumpsys")
    }

    /// A `dumpsys` whose service did not answer hung the whole experiment: it was waited for without
    /// an end.
    #[test]
    fn what_does_not_answer_is_given_up_told_and_not_asked_again() {
        let (place, name) = place();
        let limit = Duration::from_secs(2);
        let mut programs = Programs::within(limit, limit * 60);
        let begin = Instant::now();
        // It is no process alone: what it started holds its output, too.
        assert_eq!(programs.said(place.path(), name, &["-c", "sleep 600; echo late"]), None);
        assert_eq!(programs.said(place.path(), name, &["-c", "echo again"]), None);
        assert!(begin.elapsed() < limit * 30, "{:?}", begin.elapsed());
        let unanswered = programs.unanswered();
        assert_eq!(unanswered, ["dumpsys -c sleep 600; echo late", "dumpsys -c echo again"]);
    }

    #[test]
    fn what_answers_is_heard_and_what_fails_or_is_not_there_is_left_out() {
        let (place, name) = place();
        // Longer than a user would wait: a shell may get no processor for long.
        let mut programs = Programs::within(LIMIT * 10, ALL * 10);
        let mut said = |words: &[&str]| programs.said(place.path(), name, words);
        assert_eq!(said(&["-c", "echo ' level: 17 '"]), Some("level: 17".into()));
        assert_eq!(said(&["-c", "echo half; exit 1"]), None);
        assert_eq!(said(&["-c", ":"]), None);
        assert_eq!(programs.said(place.path(), "settings", &["get"]), None);
        assert_eq!(programs.unanswered(), Vec::<String>::new());
    }

    /// All together have a limit, too: on a slow phone each may need nearly all of its own.
    #[test]
    fn after_the_time_of_all_nothing_is_asked() {
        let (place, name) = place();
        let mut programs = Programs::within(LIMIT, Duration::ZERO);
        assert_eq!(programs.said(place.path(), name, &["-c", "echo x"]), None);
        assert_eq!(programs.said(place.path(), "settings", &["get"]), None);
        assert_eq!(programs.unanswered(), ["dumpsys -c echo x"]);
    }
}
