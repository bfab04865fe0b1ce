//! A sidecar: this very program in a process of its own, which serves something for as long as it
//! is mounted.
//!
//! What a sidecar serves must outlive whatever happens to the process that uses it, and must not
//! share its fate when that process ends up waiting for it. It gets its request as one line on
//! stdin and answers with lines on stdout; told `keep`, it outlives its owner. What else it has to
//! say (a panic) goes into a file, and comes with the error that tells of its end.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use crate::program::executable;

/// How often the end of a sidecar is looked for, and how many times.
const AGAIN: Duration = Duration::from_millis(100);
const TRIES: usize = 50;
/// How much of a sidecar's last words is told.
const LAST_WORDS: usize = 1000;

/// A sidecar that this process started.
#[derive(Debug)]
pub struct Sidecar {
    child: Child,
    word: &'static str,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    log: PathBuf,
}

impl Sidecar {
    /// Starts `program word` and gives it its request. `log` is written anew with what it says on
    /// stderr.
    ///
    /// # Errors
    /// In words: it cannot be started.
    pub fn start(program: &Path, word: &'static str, request: &str, log: &Path) -> Result<Sidecar, String> {
        let wrong = |error| format!("{} {word}: {error}", program.display());
        let stderr = File::create(log).map_err(|error| format!("{}: {error}", log.display()))?;
        let mut child = Command::new(executable(program))
            .arg0(program)
            .arg(word)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(stderr)
            .current_dir("/")
            // The terminal's Ctrl-C is for its owner, who undoes the stack in order.
            .process_group(0)
            .spawn()
            .map_err(wrong)?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let (sender, lines) = channel();
        if let Some(stdout) = stdout {
            thread::spawn(move || {
                for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                    if sender.send(line).is_err() {
                        return;
                    }
                }
            });
        }
        let mut sidecar = Sidecar { child, word, stdin, lines, log: log.to_path_buf() };
        sidecar.tell(request);
        Ok(sidecar)
    }

    /// Tells it something.
    pub fn tell(&mut self, line: &str) {
        if let Some(stdin) = &mut self.stdin {
            // A sidecar that is gone is noticed by its missing answer.
            let _ = crate::pipe::write_all(stdin, format!("{line}\n").as_bytes());
        }
    }

    /// What another thread tells it by; none where its input is closed. As long as one is there,
    /// the sidecar does not take its owner for gone.
    pub fn voice(&self) -> Option<Voice> {
        let input = self.stdin.as_ref()?.as_fd().try_clone_to_owned();
        input.ok().map(|input| Voice(File::from(input)))
    }

    /// Its next line.
    ///
    /// # Errors
    /// In words: it is silent, or gone, and what it said last.
    pub fn line(&mut self, limit: Duration) -> Result<String, String> {
        self.lines.recv_timeout(limit).map_err(|error| match error {
            RecvTimeoutError::Timeout => format!("fathom {} has not answered for {limit:?}", self.word),
            RecvTimeoutError::Disconnected => {
                let how = self.status().map_or_else(String::new, |status| format!(" ({status})"));
                format!("fathom {} is gone{how}: it was killed or has failed{}", self.word, self.last_words())
            }
        })
    }

    /// How it ended, if it does within a moment: its output ends before it does, and on a busy
    /// machine it may get no processor in between.
    fn status(&mut self) -> Option<ExitStatus> {
        for _ in 0..TRIES * 10 {
            match self.child.try_wait() {
                Ok(None) => thread::sleep(AGAIN / 10),
                Ok(status) => return status,
                Err(_) => return None,
            }
        }
        None
    }

    fn last_words(&self) -> String {
        let text = std::fs::read(&self.log).unwrap_or_default();
        let end = &text[text.len().saturating_sub(LAST_WORDS)..];
        let said = String::from_utf8_lossy(end);
        if said.trim().is_empty() { String::new() } else { format!("\n  it said: {}", said.trim()) }
    }

    /// Lets it outlive this process.
    pub fn keep(mut self) {
        self.tell("keep");
        // Without this the child would be waited for by nobody, which is what is wanted: it belongs
        // to nobody now.
        self.stdin = None;
    }

    /// Process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for its end after its mount was taken away; one that does not end is killed.
    pub fn end(mut self) {
        self.stdin = None;
        for _ in 0..TRIES {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(AGAIN);
        }
        self.kill();
    }

    /// Ends it at once.
    pub fn kill(mut self) {
        self.stdin = None;
        // An error means that it has ended already.
        let _ = self.child.kill();
        let _ = self.status();
    }
}

/// Another end of a sidecar's input. A line is shorter than what a pipe takes in one piece, so
/// that those of two threads are never mixed.
#[derive(Debug)]
pub struct Voice(File);

impl Voice {
    /// Tells it something.
    pub fn tell(&mut self, line: &str) {
        // One that is gone needs to be told nothing.
        let _ = crate::pipe::write_all(&mut self.0, format!("{line}\n").as_bytes());
    }
}

/// What a sidecar says to its owner: one line of JSON on stdout.
pub fn say(answer: &impl serde::Serialize) {
    // If nobody listens any more, nobody misses it. Nor is that the end (SIGPIPE): who has a mount
    // has to take it away. Standard output writes whole lines at once.
    if let Ok(text) = serde_json::to_string(answer) {
        let _ = crate::pipe::write_all(&mut std::io::stdout().lock(), format!("{text}\n").as_bytes());
    }
}
