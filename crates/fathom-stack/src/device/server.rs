//! A modelled device in a process of its own, and the other end of it.
//!
//! The device must outlive whatever happens to the process that measures on it for as long as anything is mounted on it, and must not
//! share its fate when that process ends up waiting for the device. So `fathom device-server` serves it:
//!
//! ```text
//! stdin    an Order as one line of JSON, then lines: `statistics`, `keep`; the end of it means that the owner is gone
//! stdout   one line of JSON: {"ready": [read, write, flush overhead, ns]} or {"error": "…"}; one Statistics for each question, and at the end
//! ```
//! It ends when its mount is taken away, by whoever undoes the stack. When its owner is gone and did not say `keep`, it takes the
//! mount away itself, as soon as nobody uses it.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitCode, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::disk::{Disk, Options};
use super::model::Model;
use super::statistics::Statistics;

/// What a server is to serve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Order {
    /// The image; its length is the device's.
    pub image: PathBuf,
    /// Empty directory in which the file appears.
    pub at: PathBuf,
    /// The model's text.
    pub model: String,
    /// Seed of its times.
    pub seed: u64,
    /// Where operations are logged, if anywhere.
    pub log: Option<PathBuf>,
    /// Whether the data of the writes is kept beside the log.
    pub capture: bool,
    /// What fails.
    pub faults: Vec<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Answer {
    Ready([u64; 3]),
    Error(String),
    Statistics(Box<Statistics>),
}

/// From <linux/prctl.h>.
const PR_SET_IO_FLUSHER: libc::c_int = 57;
/// Its unused arguments.
const NONE: libc::c_ulong = 0;
/// How long a server may take to be ready, or to answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
/// How often an unused mount is looked for once the owner is gone.
const AGAIN: Duration = Duration::from_millis(100);

fn say(answer: &Answer) {
    // If nobody listens any more, nobody misses it.
    if let Ok(text) = serde_json::to_string(answer) {
        let mut out = std::io::stdout().lock();
        let _ = writeln!(out, "{text}").and_then(|()| out.flush());
    }
}

/// The whole of `fathom device-server`.
#[must_use]
pub fn main() -> ExitCode {
    // Memory that is short must not make the device wait for itself. Needs root; without, the risk is the caller's as ever.
    // SAFETY: this prctl takes integers only.
    unsafe { libc::prctl(PR_SET_IO_FLUSHER, 1 as libc::c_ulong, NONE, NONE, NONE) };
    let mut lines = BufReader::new(std::io::stdin()).lines();
    let disk = lines
        .next()
        .ok_or_else(|| "no order came".to_owned())
        .and_then(|line| line.map_err(|e| e.to_string()))
        .and_then(|line| serve(&line));
    let disk = match disk {
        Ok(disk) => disk,
        Err(problem) => {
            say(&Answer::Error(problem));
            return ExitCode::FAILURE;
        }
    };
    say(&Answer::Ready(disk.overhead_ns()));
    let at = disk.directory().to_path_buf();
    let shared = disk.shared();
    thread::spawn(move || {
        let mut keep = false;
        for line in lines.map_while(Result::ok) {
            match line.trim() {
                "statistics" => say(&Answer::Statistics(Box::new(shared.statistics()))),
                "keep" => keep = true,
                _ => {}
            }
        }
        // In use until whoever undoes the rest has done so.
        while !keep && !unmounted(&at) {
            thread::sleep(AGAIN);
        }
    });
    match disk.wait() {
        Ok(statistics) => {
            say(&Answer::Statistics(Box::new(statistics)));
            ExitCode::SUCCESS
        }
        Err(problem) => {
            say(&Answer::Error(problem.to_string()));
            ExitCode::FAILURE
        }
    }
}

/// Takes the mount away, as root or with the help of fusermount; whether it is gone.
fn unmounted(at: &Path) -> bool {
    if crate::is_root() {
        return rustix::mount::unmount(at, rustix::mount::UnmountFlags::empty()).is_ok();
    }
    crate::command::fusermount(at, &[]).is_ok()
}

fn serve(line: &str) -> Result<Disk, String> {
    let order: Order = serde_json::from_str(line).map_err(|e| format!("the order: {e}"))?;
    let model = Model::parse("the model", &order.model).map_err(|e| e.to_string())?;
    let faults = order.faults.iter().map(|fault| fault.parse()).collect::<Result<_, _>>()?;
    let image = std::fs::OpenOptions::new().read(true).write(true).open(&order.image);
    let image = image.map_err(|e| format!("open the image: {e}"))?;
    let options = Options { model, seed: order.seed, log: order.log, capture: order.capture, faults };
    Disk::serve(image, &order.at, options).map_err(|e| e.to_string())
}

/// A server that this process started.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    stdin: Option<ChildStdin>,
    answers: Receiver<String>,
    /// What a late answer costs beyond its delay, ns: read, write, flush.
    pub overhead_ns: [u64; 3],
}

impl Server {
    /// Starts `program device-server` and waits until the file is there.
    ///
    /// # Errors
    /// In words: the program cannot be started, or what the server says.
    pub fn start(program: &Path, order: &Order) -> Result<Server, String> {
        let mut child = Command::new(program)
            .arg("device-server")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .current_dir("/")
            // The terminal's Ctrl-C is for its owner, who undoes the stack in order.
            .process_group(0)
            .spawn()
            .map_err(|e| format!("{} device-server: {e}", program.display()))?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let (sender, answers) = channel();
        if let Some(stdout) = stdout {
            thread::spawn(move || {
                for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                    if sender.send(line).is_err() {
                        return;
                    }
                }
            });
        }
        let mut server = Server { child, stdin, answers, overhead_ns: [0; 3] };
        let line = serde_json::to_string(order).map_err(|e| e.to_string())?;
        server.tell(&line);
        match server.answer() {
            Ok(Answer::Ready(overhead_ns)) => {
                server.overhead_ns = overhead_ns;
                Ok(server)
            }
            Ok(Answer::Error(problem)) => Err(problem),
            Ok(Answer::Statistics(_)) => Err("the server answered what it was not asked".into()),
            Err(problem) => Err(problem),
        }
    }

    fn tell(&mut self, line: &str) {
        if let Some(stdin) = &mut self.stdin {
            // A server that is gone is noticed by its missing answer.
            let _ = crate::pipe::write_all(stdin, format!("{line}\n").as_bytes());
        }
    }

    fn answer(&self) -> Result<Answer, String> {
        match self.answers.recv_timeout(ANSWER_LIMIT) {
            Ok(line) => {
                serde_json::from_str(&line).map_err(|e| format!("the device's server says {line:?}: {e}"))
            }
            Err(RecvTimeoutError::Timeout) => {
                Err(format!("the device's server has not answered for {ANSWER_LIMIT:?}"))
            }
            Err(RecvTimeoutError::Disconnected) => {
                Err("the device's server is gone: it was killed or has failed".into())
            }
        }
    }

    /// What the device has done so far.
    ///
    /// # Errors
    /// In words: the server is gone.
    pub fn statistics(&mut self) -> Result<Statistics, String> {
        self.tell("statistics");
        match self.answer()? {
            Answer::Statistics(statistics) => Ok(*statistics),
            Answer::Error(problem) => Err(problem),
            Answer::Ready(_) => Err("the server answered what it was not asked".into()),
        }
    }

    /// Lets the server outlive this process.
    pub fn keep(mut self) {
        self.tell("keep");
        // Without this the child would be waited for by nobody, which is what is wanted: it belongs to nobody now.
        self.stdin = None;
    }

    /// Process id, for tests that kill it.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for the server's end after its mount was taken away; one that does not end is killed.
    pub fn end(mut self) {
        self.stdin = None;
        for _ in 0..50 {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(AGAIN);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
