//! A modelled device in a process of its own, and the other end of it.
//!
//! A sidecar of the process that measures on it: `fathom device-server`.
//!
//! ```text
//! stdin    a Request as one line of JSON, then lines: `statistics`, `hold-faults`, `begin-faults`, `keep-served`, `served N`, `hurry`,
//!          `keep`; the end of it means that the owner is gone
//! stdout   one line of JSON: {"ready": [read, write, flush overhead, ns]} or {"error": "…"}; one Statistics for each question, and at
//!          the end; for `served N` the operations from the N-th on, some at a time, of those since `keep-served`
//! ```
//! What is to fail is held at first, and counted from `begin-faults` on. It ends when its mount is
//! taken away, by whoever undoes the stack. When its owner is gone and did not say `keep`, it takes
//! no more time, and takes the mount away itself, as soon as nobody uses it.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::disk::{Disk, Options};
use super::model::Model;
use super::request_times::RequestTimes;
use super::statistics::Statistics;
use fathom_ground::fuse_mount::unmount;
use fathom_ground::sidecar::{Sidecar, Voice, say};

/// What a server is to serve.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
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
    /// A file that devices share whose answers are counted together, if there is another device.
    #[serde(default)]
    pub answers: Option<PathBuf>,
    /// What fails.
    pub faults: Vec<String>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Answer {
    Ready([u64; 3]),
    Error(String),
    Statistics(Box<Statistics>),
    Requests(Vec<RequestTimes>),
}

/// The command of `fathom` that this is.
pub const WORD: &str = "device-server";
const HOLD_FAULTS: &str = "hold-faults";
const BEGIN_FAULTS: &str = "begin-faults";
const KEEP_SERVED: &str = "keep-served";
const SERVED: &str = "served ";
const HURRY: &str = "hurry";
/// Operations that one answer tells of at most.
const SERVED_IN_ONE: usize = 20_000;
/// From <linux/prctl.h>.
const PR_SET_IO_FLUSHER: libc::c_int = 57;
/// Its unused arguments.
const NONE: libc::c_ulong = 0;
/// How long a server may take to be ready: it tries itself with a thousand operations, for each of
/// which a busy machine gives it a processor some ten milliseconds late, twice.
const READY_LIMIT: Duration = Duration::from_secs(120);
/// How long it may take to answer.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);
/// How often an unused mount is looked for once the owner is gone.
const AGAIN: Duration = Duration::from_millis(100);

/// The whole of `fathom device-server`.
#[must_use]
pub fn main() -> ExitCode {
    // Memory that is short must not make the device wait for itself. Needs root; without, the risk
    // is the caller's as ever. SAFETY: this prctl takes integers only.
    unsafe { libc::prctl(PR_SET_IO_FLUSHER, 1 as libc::c_ulong, NONE, NONE, NONE) };
    let mut lines = BufReader::new(std::io::stdin()).lines();
    let disk = lines
        .next()
        .ok_or_else(|| "no request came".to_owned())
        .and_then(|line| line.map_err(|e| e.to_string()))
        .and_then(|line| serve(&line));
    let disk = match disk {
        Ok(disk) => disk,
        Err(problem) => {
            say(&Answer::Error(problem));
            return ExitCode::FAILURE;
        }
    };
    let at = disk.directory().to_path_buf();
    let shared = disk.shared();
    shared.hold_faults();
    say(&Answer::Ready(disk.overhead_ns()));
    thread::spawn(move || {
        let mut keep = false;
        for line in lines.map_while(Result::ok) {
            match line.trim() {
                "statistics" => say(&Answer::Statistics(Box::new(shared.statistics()))),
                HOLD_FAULTS => shared.hold_faults(),
                BEGIN_FAULTS => shared.begin_faults(),
                KEEP_SERVED => shared.keep_served(),
                HURRY => shared.hurry(),
                "keep" => keep = true,
                other => {
                    if let Some(first) = other.strip_prefix(SERVED).and_then(|number| number.parse().ok()) {
                        say(&Answer::Requests(shared.served(first, SERVED_IN_ONE)));
                    }
                }
            }
        }
        if keep {
            return;
        }
        // Nobody wants its times any more, and whoever waits for it (mkfs, an unmount) cannot be
        // broken off.
        shared.hurry();
        // In use until whoever undoes the rest has done so.
        while !unmount(&at) {
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

fn serve(line: &str) -> Result<Disk, String> {
    let request: Request = serde_json::from_str(line).map_err(|e| format!("the request: {e}"))?;
    let model = Model::parse("the model", &request.model).map_err(|e| e.to_string())?;
    let faults = request.faults.iter().map(|fault| fault.parse()).collect::<Result<_, _>>()?;
    let image = std::fs::OpenOptions::new().read(true).write(true).open(&request.image);
    let image = image.map_err(|e| format!("open the image: {e}"))?;
    let open = |path: &PathBuf| std::fs::OpenOptions::new().read(true).write(true).open(path);
    let answers = request.answers.as_ref().map(open).transpose();
    let answers = answers.map_err(|e| format!("open the file that counts answers: {e}"))?;
    let options =
        Options { model, seed: request.seed, log: request.log, capture: request.capture, answers, faults };
    Disk::serve(image, &request.at, options).map_err(|e| e.to_string())
}

const NOT_ASKED: &str = "the server answered what it was not asked";

/// A server that this process started.
#[derive(Debug)]
pub struct Server {
    sidecar: Sidecar,
    /// What a late answer costs beyond its delay, ns: read, write, flush.
    pub overhead_ns: [u64; 3],
}

impl Server {
    /// Starts `program device-server` and waits until the file is there; `log` is for what it says
    /// on stderr.
    ///
    /// # Errors
    /// In words: the program cannot be started, or what the server says.
    pub fn start(program: &Path, request: &Request, log: &Path) -> Result<Server, String> {
        let text = serde_json::to_string(request).map_err(|e| e.to_string())?;
        let sidecar = Sidecar::start(program, WORD, &text, log)?;
        let mut server = Server { sidecar, overhead_ns: [0; 3] };
        match server.answer(READY_LIMIT) {
            Ok(Answer::Ready(overhead_ns)) => {
                server.overhead_ns = overhead_ns;
                Ok(server)
            }
            Ok(Answer::Error(problem)) => Err(problem),
            Ok(_) => Err(NOT_ASKED.into()),
            Err(problem) => {
                // It may be stopped, and would keep its mount for ever.
                server.sidecar.kill();
                Err(problem)
            }
        }
    }

    fn answer(&mut self, limit: Duration) -> Result<Answer, String> {
        let line = self.sidecar.line(limit)?;
        serde_json::from_str(&line).map_err(|e| format!("the device's server says {line:?}: {e}"))
    }

    /// What the device has done so far.
    ///
    /// # Errors
    /// In words: the server is gone.
    pub fn statistics(&mut self) -> Result<Statistics, String> {
        self.sidecar.tell("statistics");
        match self.answer(ANSWER_LIMIT)? {
            Answer::Statistics(statistics) => Ok(*statistics),
            Answer::Error(problem) => Err(problem),
            Answer::Ready(_) | Answer::Requests(_) => Err(NOT_ASKED.into()),
        }
    }

    /// Has each operation kept from now on, as many as there is room for.
    ///
    /// # Errors
    /// In words: the server is gone.
    pub fn keep_served(&mut self) -> Result<(), String> {
        self.tell(KEEP_SERVED)
    }

    /// The operations that were kept, in order of their answers.
    ///
    /// # Errors
    /// In words: the server is gone.
    pub fn served(&mut self) -> Result<Vec<RequestTimes>, String> {
        let mut all = Vec::new();
        loop {
            self.sidecar.tell(&format!("{SERVED}{}", all.len()));
            match self.answer(ANSWER_LIMIT)? {
                Answer::Requests(more) if more.is_empty() => return Ok(all),
                Answer::Requests(more) => all.extend(more),
                Answer::Error(problem) => return Err(problem),
                Answer::Ready(_) | Answer::Statistics(_) => return Err(NOT_ASKED.into()),
            }
        }
    }

    /// Has nothing fail for now.
    ///
    /// # Errors
    /// In words: the server is gone.
    pub fn hold_faults(&mut self) -> Result<(), String> {
        self.tell(HOLD_FAULTS)
    }

    /// Has what is to fail be counted from now on.
    ///
    /// # Errors
    /// In words: the server is gone.
    pub fn begin_faults(&mut self) -> Result<(), String> {
        self.tell(BEGIN_FAULTS)
    }

    /// What has it hurry, in the hands of another thread; none where it cannot be told any more.
    pub fn spur(&self) -> Option<Spur> {
        self.sidecar.voice().map(Spur)
    }

    /// Tells it something and waits until it has heard.
    fn tell(&mut self, line: &str) -> Result<(), String> {
        self.sidecar.tell(line);
        self.statistics().map(|_| ())
    }

    /// Lets the server outlive this process.
    pub fn keep(self) {
        self.sidecar.keep();
    }

    /// Process id, for tests that kill it.
    pub fn pid(&self) -> u32 {
        self.sidecar.pid()
    }

    /// Waits for the server's end after its mount was taken away; one that does not end is killed.
    pub fn end(self) {
        self.sidecar.end();
    }
}

/// Has a server's device answer everything at once: nobody wants its times any more.
#[derive(Debug)]
pub struct Spur(Voice);

impl Spur {
    /// Tells it.
    pub fn hurry(&mut self) {
        self.0.tell(HURRY);
    }
}
