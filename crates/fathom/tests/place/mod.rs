//! A fresh directory in which `fathom` is called as a user calls it.

#![allow(dead_code, reason = "each test file uses its part")]
#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

pub struct Place {
    directory: tempfile::TempDir,
    /// The list of stacks is this test's own: what other tests have up, or have just killed, is
    /// none of its affair.
    state: tempfile::TempDir,
}

/// How long is waited for what must come: far more than it takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);

/// Held while a test looks at the machine as a whole: such tests run one after the other, in
/// whatever test binary and whichever checkout they are (those of `fathom-stack` have the same
/// lock), for a machine has one list of mounts and of loop devices.
pub struct Alone(std::fs::File);

pub fn alone() -> Alone {
    // SAFETY: geteuid takes nothing and cannot fail.
    let user = unsafe { libc::geteuid() };
    // Not where TMPDIR says: each run of all tests has a directory of its own.
    let directory = if Path::new("/tmp").is_dir() { "/tmp".into() } else { std::env::temp_dir() };
    let path = directory.join(format!("fathom-tests-{user}.lock"));
    let file = std::fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
    // Opened anew each time, so that threads of one binary exclude each other, too.
    file.lock().unwrap();
    Alone(file)
}

impl Drop for Alone {
    fn drop(&mut self) {
        // At once, whoever has a copy: a child that is just being started has one until its exec.
        let _ = self.0.unlock();
    }
}

/// How a call of `fathom` ended.
pub struct End {
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    pub stdout: String,
    pub stderr: String,
    words: String,
}

impl End {
    fn of(words: &[&str], output: std::process::Output) -> End {
        End {
            code: output.status.code(),
            signal: std::os::unix::process::ExitStatusExt::signal(&output.status),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            words: words.join(" "),
        }
    }

    #[track_caller]
    pub fn exits(&self, code: i32) -> &End {
        assert_eq!(self.code, Some(code), "{self}");
        if code != 0 {
            assert!(!self.stderr.contains("panicked"), "{self}");
            assert!(!self.stderr.trim().is_empty(), "an error says what is wrong: {self}");
        }
        self
    }

    /// It ended as a signal ends any program: a shell has 128 and its number.
    #[track_caller]
    pub fn ends_by(&self, signal: i32) -> &End {
        assert_eq!(self.signal, Some(signal), "{self}");
        assert!(!self.stderr.contains("panicked"), "{self}");
        self
    }

    /// Exit code 1 or 2.
    #[track_caller]
    pub fn fails(&self) -> &End {
        assert!(matches!(self.code, Some(1 | 2)), "{self}");
        assert!(!self.stderr.contains("panicked"), "{self}");
        self
    }

    #[track_caller]
    pub fn says(&self, words: &str) -> &End {
        assert!(self.stderr.contains(words), "says {words:?}: {self}");
        self
    }
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "fathom {} → {:?}\nstdout: {}\nstderr: {}", self.words, self.code, self.stdout, self.stderr)
    }
}

/// Whether a process still runs; one that only waits to be reaped does not.
pub fn lives(process: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{process}/stat"))
        .is_ok_and(|stat| stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z')))
}

/// Stops a process; whether it stands still, and did not end before.
pub fn stopped(process: i32) -> bool {
    // SAFETY: kill takes integers.
    unsafe { libc::kill(process, libc::SIGSTOP) };
    loop {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        match stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next()) {
            Some('T') => return true,
            None | Some('Z' | 'X') => return false,
            Some(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

/// A call of `fathom` that goes on.
pub struct Running {
    child: Child,
    words: Vec<String>,
}

impl Place {
    pub fn new() -> Place {
        let state = tempfile::tempdir().unwrap();
        // Stacks are mounted below it, and an engine may run as another user.
        let anybody = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(state.path(), anybody).unwrap();
        Place { directory: tempfile::tempdir().unwrap(), state }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn write(&self, name: &str, text: &str) {
        self.write_bytes(name, text.as_bytes());
    }

    pub fn write_bytes(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.path(name), bytes).unwrap();
    }

    pub fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }

    /// Names in the directory, sorted.
    pub fn files(&self) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(self.directory.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// Processes that work in the directory or have a file of it open.
    pub fn processes(&self) -> Vec<String> {
        let below = self.path("").canonicalize().unwrap();
        let uses = |process: &std::fs::DirEntry| {
            let files = std::fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten();
            let links = files.map(|file| file.path()).chain([process.path().join("cwd")]);
            links.filter_map(|link| std::fs::read_link(link).ok()).any(|at| at.starts_with(&below))
        };
        let all = std::fs::read_dir("/proc").unwrap().flatten();
        let numbered = all.filter(|entry| entry.file_name().to_string_lossy().parse::<i32>().is_ok());
        let named = |process: std::fs::DirEntry| {
            let command = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
            let command = String::from_utf8_lossy(&command).replace('\0', " ");
            format!("{}: {command}", process.file_name().to_string_lossy())
        };
        numbered.filter(uses).map(named).collect()
    }

    /// What a finished or interrupted run must not leave: anything but results, reports and
    /// experiment files.
    pub fn leftover_work(&self) -> Vec<String> {
        self.files()
            .into_iter()
            .filter(|name| {
                ![".db", ".db-wal", ".db-shm", ".toml", ".html"].iter().any(|end| name.ends_with(end))
            })
            .collect()
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fathom"));
        command.args(words).current_dir(self.directory.path()).env("FATHOM_STATE_DIR", self.state.path());
        command
    }

    pub fn fathom(&self, words: &[&str]) -> End {
        End::of(words, self.command(words).stdin(Stdio::null()).output().unwrap())
    }

    pub fn fathom_with(&self, words: &[&str], variables: &[(&str, &str)]) -> End {
        End::of(
            words,
            self.command(words).envs(variables.iter().copied()).stdin(Stdio::null()).output().unwrap(),
        )
    }

    pub fn fathom_with_input(&self, words: &[&str], input: &str) -> End {
        let mut child = self
            .command(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A worker that refuses early may close the pipe first.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        End::of(words, child.wait_with_output().unwrap())
    }

    pub fn start(&self, words: &[&str]) -> Running {
        self.start_with(words, &[])
    }

    pub fn start_with(&self, words: &[&str], variables: &[(&str, &str)]) -> Running {
        // A shell without job control ignores SIGINT for what it puts into the background, nohup
        // ignores SIGHUP, and a child inherits that.
        for signal in [libc::SIGINT, libc::SIGHUP] {
            // SAFETY: no handler of ours is installed.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
        let child = self
            .command(words)
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        Running { child, words: words.iter().map(|word| (*word).to_owned()).collect() }
    }

    /// Copies `fathom` into the place. A process of its own does it: what this one has open for
    /// writing is, for a moment, open in whatever another test starts just then, and is not
    /// executed meanwhile ("Text file busy").
    pub fn copy_program(&self, name: &str) {
        let program = env!("CARGO_BIN_EXE_fathom");
        let copied = Command::new("cp").arg("--").arg(program).arg(self.path(name)).status();
        assert!(copied.unwrap().success());
    }

    /// Makes the place another user's, with `fathom` and a guest kernel in it: what root has built
    /// is not for others.
    pub fn give_to_nobody(&self, kernel: &Path) {
        let own = self.path("cache/guest-kernel").join(kernel.parent().unwrap().file_name().unwrap());
        std::fs::create_dir_all(&own).unwrap();
        // As with `copy_program`: a guest kernel is a program.
        for name in ["linux", "kernel.json"] {
            let copied = Command::new("cp").arg("--").arg(kernel.with_file_name(name)).arg(&own).status();
            assert!(copied.unwrap().success());
        }
        self.copy_program("fathom");
        let given = Command::new("chown").args(["-R", "65534", "."]).current_dir(self.path("")).status();
        assert!(given.unwrap().success());
    }

    /// Runs a script as that user.
    pub fn as_nobody(&self, script: &str) -> std::process::Output {
        Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c", script])
            .current_dir(self.path(""))
            .envs([("FATHOM_CACHE_DIR", self.path("cache")), ("FATHOM_STATE_DIR", self.path("state"))])
            .env("HOME", self.path(""))
            .stdin(Stdio::null())
            .output()
            .unwrap()
    }

    pub fn sql(&self, database: &str, sql: &str) {
        rusqlite::Connection::open(self.path(database)).unwrap().execute_batch(sql).unwrap();
    }

    /// The one value of a query, as text.
    pub fn rows(&self, database: &str, sql: &str) -> String {
        let connection = rusqlite::Connection::open(self.path(database)).unwrap();
        connection.query_row(sql, [], |row| row.get::<_, rusqlite::types::Value>(0)).map(text).unwrap()
    }

    /// As `rows`; empty where the file or the table is not there yet.
    pub fn rows_or_empty(&self, database: &str, sql: &str) -> String {
        let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
        let Ok(connection) = rusqlite::Connection::open_with_flags(self.path(database), flags) else {
            return String::new();
        };
        connection
            .query_row(sql, [], |row| row.get::<_, rusqlite::types::Value>(0))
            .map(text)
            .unwrap_or_default()
    }
}

fn text(value: rusqlite::types::Value) -> String {
    use rusqlite::types::Value;
    match value {
        Value::Null => String::new(),
        Value::Integer(number) => number.to_string(),
        Value::Real(number) => number.to_string(),
        Value::Text(text) => text,
        Value::Blob(bytes) => format!("{bytes:?}"),
    }
}

impl Running {
    /// Its process id.
    pub fn process(&self) -> i32 {
        self.id()
    }

    fn id(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    /// The first child process whose command line holds `word`.
    pub fn wait_for_child(&self, word: &str) -> i32 {
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE {
            for entry in std::fs::read_dir("/proc").unwrap().flatten() {
                let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
                    continue;
                };
                let stat = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat"))
                    .unwrap_or_default();
                let parent =
                    stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1).map(str::to_owned));
                let words = std::fs::read(Path::new("/proc").join(pid.to_string()).join("cmdline"))
                    .unwrap_or_default();
                if parent == Some(self.id().to_string())
                    && String::from_utf8_lossy(&words).split('\0').any(|part| part == word)
                {
                    return pid;
                }
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        panic!("no child process {word} within {PATIENCE:?}");
    }

    #[track_caller]
    pub fn wait_until(&self, mut holds: impl FnMut() -> bool) {
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE {
            if holds() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("did not come to hold within {PATIENCE:?}");
    }

    /// As [`Running::wait_until`], for what does not last: looks all the time.
    #[track_caller]
    pub fn wait_until_soon(&self, mut holds: impl FnMut() -> bool) {
        let begin = Instant::now();
        while !holds() {
            assert!(begin.elapsed() < PATIENCE, "did not come to hold within {PATIENCE:?}");
        }
    }

    /// Until this holds, or the process has ended, which is told by `false`: a test that stood
    /// still for so long begins again.
    #[track_caller]
    pub fn holds_before_its_end(&self, mut holds: impl FnMut() -> bool) -> bool {
        let begin = Instant::now();
        while !holds() {
            if !lives(self.id()) {
                return false;
            }
            assert!(begin.elapsed() < PATIENCE, "did not come to hold within {PATIENCE:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
        true
    }

    /// Stops the first child process whose command line holds `word`, so that it does not end
    /// before the test has done with it. One that was about to end has ended in order all the same:
    /// then it is the next one's turn.
    pub fn stop_child(&self, word: &str) -> i32 {
        loop {
            let child = self.wait_for_child(word);
            if stopped(child) {
                return child;
            }
        }
    }

    /// Until it has written something to stdout, which is not read here.
    #[track_caller]
    pub fn wait_for_output(&self) {
        let stdout = self.child.stdout.as_ref().unwrap().as_raw_fd();
        let mut asked = libc::pollfd { fd: stdout, events: libc::POLLIN, revents: 0 };
        // SAFETY: one valid structure, which poll writes.
        let ready = unsafe { libc::poll(&raw mut asked, 1, PATIENCE.as_millis() as libc::c_int) };
        assert!(ready == 1 && asked.revents & libc::POLLIN != 0, "no output within {PATIENCE:?}");
    }

    /// What it has written to stderr so far, as far as a pipe holds it; it is still there for
    /// [`Running::end`].
    pub fn said(&self) -> String {
        let stderr = self.child.stderr.as_ref().unwrap().as_raw_fd();
        let (mut copy, into) = std::io::pipe().unwrap();
        // SAFETY: two descriptors that are open, and numbers. An error means that there is nothing.
        unsafe { libc::tee(stderr, into.as_raw_fd(), 1 << 16, libc::SPLICE_F_NONBLOCK) };
        drop(into);
        let mut bytes = Vec::new();
        std::io::Read::read_to_end(&mut copy, &mut bytes).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Whether it catches Ctrl-C by now.
    pub fn listens(&self) -> bool {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id())).unwrap_or_default();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or("0");
        u64::from_str_radix(caught.trim(), 16).unwrap() >> (libc::SIGINT - 1) & 1 == 1
    }

    pub fn interrupt(&self) {
        self.signal(libc::SIGINT);
    }

    pub fn signal(&self, signal: i32) {
        // SAFETY: kill only takes numbers; the process is our own child.
        unsafe { libc::kill(self.id(), signal) };
    }

    pub fn kill(&self) {
        // SAFETY: as above.
        unsafe { libc::kill(self.id(), libc::SIGKILL) };
    }

    pub fn end(self) -> End {
        let words: Vec<&str> = self.words.iter().map(String::as_str).collect();
        End::of(&words, self.child.wait_with_output().unwrap())
    }
}

/// Whether a modelled device can be served and mounted here; says why not. What the machine has is
/// asked once in each program.
pub fn can_serve(place: &Place) -> bool {
    static MISSING: OnceLock<Option<String>> = OnceLock::new();
    let missing = MISSING.get_or_init(|| {
        let list = place.fathom(&["list", "filesystems", "--json"]);
        let listed: serde_json::Value = serde_json::from_str(&list.stdout).unwrap();
        let ext4 = listed["filesystems"]
            .as_array()
            .unwrap()
            .iter()
            .find(|filesystem| filesystem["filesystem"] == "ext4")
            .unwrap();
        let able = ext4["present"] == true && Path::new("/dev/fuse").exists();
        (!able).then(|| ext4["detail"].to_string())
    });
    if let Some(detail) = missing {
        println!("SKIP: a modelled device needs root, mkfs.ext4 and /dev/fuse ({detail})");
    }
    missing.is_none()
}

/// Waits until a process has ended.
#[track_caller]
pub fn gone_soon(process: i32) {
    let begin = Instant::now();
    while lives(process) {
        assert!(begin.elapsed() < PATIENCE, "process {process} still runs");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A stack's name of this test alone: all tests share the list of stacks.
pub fn named(test: &str) -> String {
    format!("{test}-{}", std::process::id())
}

/// The process that serves the device whose image lies in the place.
pub fn server(place: &Place) -> i32 {
    *servers(place).first().expect("a device's server runs")
}

/// All of them.
pub fn servers(place: &Place) -> Vec<i32> {
    let below = place.path("").canonicalize().unwrap();
    let serves = |process: &std::fs::DirEntry| {
        let command = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        let files = std::fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten();
        command.ends_with(b"device-server\0")
            && files.filter_map(|fd| std::fs::read_link(fd.path()).ok()).any(|at| at.starts_with(&below))
    };
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    all.filter(serves).filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

/// A server that is stopped; killed at the end, and after two minutes at the latest, so that a
/// failing test does not hang. With the time at which it began: after two minutes its number may be
/// that of another test's server.
pub struct Stopped(pub i32, Option<String>);

impl Stopped {
    pub fn new(process: i32) -> Stopped {
        // SAFETY: kill takes integers.
        assert_eq!(unsafe { libc::kill(process, libc::SIGSTOP) }, 0);
        let begun = began(process);
        let again = Stopped(process, begun.clone());
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_secs(120));
            drop(again);
        });
        Stopped(process, begun)
    }
}

/// When a process began, as the kernel counts it: field 22 of its stat (proc(5)).
fn began(process: i32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(19).map(str::to_owned)
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let command = std::fs::read(format!("/proc/{}/cmdline", self.0)).unwrap_or_default();
        if command.ends_with(b"device-server\0") && self.1.is_some() && began(self.0) == self.1 {
            // SAFETY: as above.
            unsafe { libc::kill(self.0, libc::SIGKILL) };
        }
    }
}

/// Mounts of stacks that a process has made.
pub fn mounts_by(process: i32) -> Vec<String> {
    let all = std::fs::read_to_string("/proc/mounts").unwrap();
    all.lines()
        .filter(|line| line.contains("/fathom-") && line.contains(&format!("-{process}-")))
        .map(str::to_owned)
        .collect()
}

/// What the device of a run that goes on tells of itself.
pub fn told(running: &Running) -> serde_json::Value {
    let mounts = mounts_by(running.process());
    let mut points = mounts.iter().filter_map(|line| line.split(' ').nth(1));
    let point = Path::new(points.find(|at| at.ends_with(".device")).unwrap());
    serde_json::from_slice(&std::fs::read(point.join("statistics")).unwrap()).unwrap()
}
