//! A private PostgreSQL server: made in the run's directory, run by an unprivileged user, gone with
//! this process.
//!
//! - The server refuses to run as root, so root starts it as `postgres` or else `nobody`, and gives
//!   it its directory.
//! - That user may not be allowed to walk down to the directory (a home or temporary directory of
//!   mode 0700). So the directory is made the working directory while still root, and the server
//!   knows it as `/proc/self/cwd`.
//! - Its socket lies in the data directory. A socket's path may have 107 bytes at most, so the
//!   client goes through an open descriptor of the directory, `/proc/self/fd/N`, which is always
//!   short. Nothing is left outside the run's directory.
//! - It must not outlive this process, however that ends. The kernel sends SIGQUIT (PostgreSQL's
//!   immediate shutdown) to it when the thread that started it ends; that thread, the keeper, lives
//!   until the server is stopped or the process dies.

pub mod connection;

use std::ffi::{CStr, CString};
use std::fs::{File, TryLockError};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The cluster's superuser. Only who may enter the data directory can reach the socket, so it has
/// no password.
pub const USER: &str = "fathom";

/// SQLSTATE of an error that a full disk, or a quota that is used up, has caused.
pub const DISK_FULL: &str = "53100";

/// What the error of a start says of a cluster whose server another process has, which lives.
pub const TAKEN: &str = "another process that runs has the cluster";

/// Whether a SQLSTATE says that a server had not what it takes: memory or connections (class 53,
/// but for [`DISK_FULL`]), or that it is not up yet.
#[must_use]
pub fn is_want_state(sqlstate: &str) -> bool {
    (sqlstate.starts_with("53") && sqlstate != DISK_FULL) || sqlstate == "57P03"
}

/// A server that cannot be made or started.
#[derive(Debug, thiserror::Error)]
#[error("{subject}: {message}")]
pub struct ServerError {
    /// The file, directory or program.
    pub subject: String,
    /// What is wrong, and what helps.
    pub message: String,
    /// Whether a disk had no space left, or a quota was used up.
    pub is_full_disk: bool,
    /// Whether it was the machine, and not what lies in the directory: a program or a user that it
    /// has not, no memory, files or processes left, a socket's place that is taken, no answer in
    /// time.
    pub is_of_the_machine: bool,
}

/// Opens a conversation over the socket: tells whether the server answers.
type Answers = Box<dyn Fn(&Path) -> Result<(), String> + Send + Sync>;

/// How the server's processes name the data directory.
const DATA: &str = "/proc/self/cwd";

/// How long a start or an orderly stop may take on a slow device.
const PATIENCE: Duration = Duration::from_secs(120);

/// The name of a cluster that is not whole yet, beside the place that it is to have.
const UNFINISHED: &str = "postgresql.new";

/// How long is waited for a process that has the cluster: one that is just ending is soon gone.
const COURTESY: Duration = Duration::from_secs(1);

/// A running server. Dropping it stops it.
pub struct Server {
    programs: PathBuf,
    data: PathBuf,
    /// The directory that the data directory lies in, with a lock, which the system takes away when
    /// this process ends; none while no server runs, and where its file system has no locks.
    lock: Option<File>,
    log: PathBuf,
    options: Vec<String>,
    /// The user that runs it; none = this one.
    user: Option<User>,
    keeper: Option<Keeper>,
    answers: Answers,
    /// Set by [`Server::abandon`].
    abandoned: Arc<AtomicBool>,
}

#[derive(Clone, Copy)]
struct User {
    uid: libc::uid_t,
    gid: libc::gid_t,
}

/// The thread that holds the server: it ends the server when told, and the kernel ends the server
/// when it ends.
struct Keeper {
    /// Dropping it tells the keeper to stop the server.
    stop: mpsc::Sender<()>,
    thread: JoinHandle<()>,
    /// Its process.
    process: u32,
    /// The server's exit, if it ends by itself.
    ended: Mutex<mpsc::Receiver<ExitStatus>>,
}

impl Keeper {
    /// How the server ended, if it did by itself; once.
    fn ended(&self) -> Option<ExitStatus> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).try_recv().ok()
    }
}

impl Server {
    /// Starts a server in `directory`, on the cluster there or a new one, with `options` (each
    /// `name=value`), and waits until `answers`, which is given the path of its socket, is
    /// satisfied. A new cluster has page checksums or not, or where that is not said as this
    /// version of PostgreSQL has it.
    ///
    /// # Errors
    /// PostgreSQL is not installed; the directory's file system cannot hold a cluster; the server
    /// refuses an option.
    pub fn start(
        programs: Option<&str>,
        directory: &Path,
        checksums: Option<bool>,
        options: Vec<String>,
        answers: impl Fn(&Path) -> Result<(), String> + Send + Sync + 'static,
    ) -> Result<Self, ServerError> {
        let programs = find_programs(programs)?;
        let data = directory.join("postgresql");
        let user = unprivileged_user()?;
        let log = directory.join("postgresql.log");
        let answers = Box::new(answers);
        let abandoned = Arc::default();
        let (lock, keeper) = (None, None);
        let mut server = Server { programs, data, lock, log, options, user, keeper, answers, abandoned };
        server.take()?;
        if !server.data.join("PG_VERSION").exists() {
            server.make(checksums)?;
        }
        server.wait_for_predecessor();
        server.run()?;
        Ok(server)
    }

    /// Takes the cluster for this process, so that whoever comes next knows at once that its server
    /// does not end.
    fn take(&mut self) -> Result<(), ServerError> {
        if self.lock.is_some() {
            return Ok(());
        }
        let directory = self.data.parent().unwrap_or(Path::new("/"));
        let directory = File::open(directory).map_err(|error| failed_by(directory, &error))?;
        let begin = Instant::now();
        loop {
            match directory.try_lock() {
                Ok(()) => {
                    self.lock = Some(directory);
                    return Ok(());
                }
                // A file system without locks: then there is the server's own file.
                Err(TryLockError::Error(_)) => return Ok(()),
                Err(TryLockError::WouldBlock) => {}
            }
            if begin.elapsed() >= COURTESY {
                let message = format!("{TAKEN}: end that one first, or name another directory");
                return Err(ServerError { is_of_the_machine: true, ..failed(&self.data, message) });
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// A server whose process was killed needs a moment to end itself; until then it holds the
    /// cluster. One that does not end belongs to somebody: then the start says so.
    fn wait_for_predecessor(&self) {
        let begin = Instant::now();
        let file = self.data.join("postmaster.pid");
        while begin.elapsed() < PATIENCE / 4 {
            let process = std::fs::read_to_string(&file).unwrap_or_default();
            let process = process.lines().next().unwrap_or_default().trim().to_owned();
            let name = std::fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
            if process.is_empty() || name.trim_end() != "postgres" {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Makes the cluster beside its place, and gives it that when it is whole: initdb writes
    /// `PG_VERSION` first, and what a process has left that was killed meanwhile is no cluster.
    fn make(&mut self, checksums: Option<bool>) -> Result<(), ServerError> {
        let place = self.data.clone();
        self.data.set_file_name(UNFINISHED);
        let made = self.make_beside(&place, checksums);
        if made.is_err() {
            // The next start does the same.
            let _ = std::fs::remove_dir_all(&self.data);
        }
        self.data = place;
        made
    }

    fn make_beside(&self, place: &Path, checksums: Option<bool>) -> Result<(), ServerError> {
        if std::fs::read_dir(place).is_ok_and(|mut entries| entries.next().is_some()) {
            let problem = "has no PG_VERSION, and so is no cluster, and is not empty: name another \
                           directory, or put back what was there";
            return Err(failed(place, problem.into()));
        }
        match std::fs::remove_dir_all(&self.data) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(failed_by(&self.data, &error));
            }
            _ => {}
        }
        self.make_directory()?;
        self.make_cluster(checksums)?;
        std::fs::rename(&self.data, place).map_err(|error| ServerError {
            message: format!("a new cluster cannot be put there: {error}"),
            ..failed_by(place, &error)
        })?;
        // initdb has synced all of it but its name.
        let _ = File::open(place.parent().unwrap_or(Path::new("/"))).and_then(|parent| parent.sync_all());
        Ok(())
    }

    fn make_directory(&self) -> Result<(), ServerError> {
        let data = &self.data;
        std::fs::create_dir(data).map_err(|error| ServerError {
            message: format!("cannot be made: {error}"),
            ..failed_by(data, &error)
        })?;
        if let Some(user) = self.user {
            self.reachable(user)?;
            std::os::unix::fs::chown(data, Some(user.uid), Some(user.gid)).map_err(|error| {
                failed(data, format!("cannot be given to the user that runs PostgreSQL: {error}; use a file system with owners"))
            })?;
        }
        Ok(())
    }

    /// Whether the server's user may enter every directory on the way: initdb's own words do not
    /// tell.
    fn reachable(&self, user: User) -> Result<(), ServerError> {
        let whole = self.data.canonicalize().map_err(|error| failed(&self.data, error.to_string()))?;
        for directory in whole.ancestors().skip(1) {
            let about = std::fs::metadata(directory).map_err(|error| failed(directory, error.to_string()))?;
            let enters = match (about.uid() == user.uid, about.gid() == user.gid) {
                (true, _) => 0o100,
                (false, true) => 0o010,
                (false, false) => 0o001,
            };
            if about.mode() & enters == 0 {
                let problem = "may not be entered by the user that PostgreSQL runs as, because it does not run as root: work in a directory \
                               that everybody may enter, such as one below /var/tmp, or `chmod o+x` it";
                return Err(failed(directory, problem.into()));
            }
        }
        Ok(())
    }

    /// The log's file, for error messages.
    fn log_file(&self) -> Result<File, ServerError> {
        let mut options = File::options();
        options.create(true).append(true);
        options.open(&self.log).map_err(|error| failed_by(&self.log, &error))
    }

    /// A command in the data directory, as the server's user, that gets `signal` when the calling
    /// thread ends.
    fn command(&self, program: &str, signal: libc::c_int) -> Result<Command, ServerError> {
        let mut command = Command::new(self.programs.join(program));
        let log = self.log_file()?;
        let log_too = log.try_clone().map_err(|error| failed(&self.log, error.to_string()))?;
        command.current_dir(&self.data).stdin(Stdio::null()).stdout(log).stderr(log_too);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("PG") {
                command.env_remove(name);
            }
        }
        command.env("LC_ALL", "C");
        let user = self.user;
        let parent = std::process::id();
        // SAFETY: between fork and exec only system calls are made, all of them safe there; nothing
        // is allocated. The working directory was changed before this, still as the calling user.
        // Changing the user clears the parent-death signal, so that comes last, and a parent that
        // died before it is looked for after it.
        unsafe {
            command.pre_exec(move || {
                if let Some(user) = user {
                    check(libc::setgroups(0, std::ptr::null()))?;
                    check(libc::setgid(user.gid))?;
                    check(libc::setuid(user.uid))?;
                }
                check(libc::prctl(libc::PR_SET_PDEATHSIG, signal))?;
                if u32::try_from(libc::getppid()) != Ok(parent) {
                    return Err(std::io::Error::from_raw_os_error(libc::ESRCH));
                }
                // A group of its own, so that Ctrl-C in a terminal reaches the worker alone, which
                // stops the server in order.
                check(libc::setpgid(0, 0))
            });
        }
        Ok(command)
    }

    fn make_cluster(&self, checksums: Option<bool>) -> Result<(), ServerError> {
        let mut command = self.command("initdb", libc::SIGKILL)?;
        command.args(["--pgdata", DATA, "--username", USER, "--auth", "trust", "--encoding", "UTF8"]);
        command.args(["--locale", "C"]);
        if checksums.is_some() {
            let help = Command::new(self.programs.join("initdb")).arg("--help").stdin(Stdio::null()).output();
            let help = help.map(|help| String::from_utf8_lossy(&help.stdout).into_owned());
            command.args(word_for(checksums, &help.unwrap_or_default()));
        }
        let status = command.status().map_err(|error| not_started(&self.programs, "initdb", &error))?;
        if status.success() {
            return Ok(());
        }
        let words = self.last_words();
        Err(ServerError {
            is_full_disk: tells_of_a_full_disk(&words),
            is_of_the_machine: tells_of_the_machine(&words),
            ..failed(&self.data, format!("initdb could not make a cluster here ({status}): {words}"))
        })
    }

    /// Starts the server on the cluster and waits until it answers.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub fn run(&mut self) -> Result<(), ServerError> {
        self.take()?;
        self.launch()
    }

    fn launch(&mut self) -> Result<(), ServerError> {
        let mut command = self.command("postgres", libc::SIGQUIT)?;
        command.args(["-D", DATA]);
        let private = [
            "listen_addresses=",
            "unix_socket_directories=.",
            "port=5432",
            "logging_collector=off",
            // With the SQLSTATE: what a server ends of is said by its log alone.
            "log_line_prefix=%m [%p] %e ",
        ];
        for option in private.into_iter().chain(self.options.iter().map(String::as_str)) {
            command.args(["-c", option]);
        }
        let (stop, stopped) = mpsc::channel::<()>();
        let (end, ended) = mpsc::channel();
        let (spawn, spawned) = mpsc::channel();
        let abandoned = Arc::clone(&self.abandoned);
        let thread = std::thread::spawn(move || match command.spawn() {
            Err(error) => drop(spawn.send(Err(error))),
            Ok(child) => {
                drop(spawn.send(Ok(child.id())));
                keep(child, &stopped, &end, &abandoned);
            }
        });
        let started =
            spawned.recv().unwrap_or_else(|_| Err(std::io::Error::other("its keeper thread ended")));
        let process = started.map_err(|error| not_started(&self.programs, "postgres", &error))?;
        self.keeper = Some(Keeper { stop, thread, process, ended: Mutex::new(ended) });
        self.wait_until_it_answers().inspect_err(|_| self.stop())
    }

    fn wait_until_it_answers(&mut self) -> Result<(), ServerError> {
        let begin = Instant::now();
        loop {
            if let Some(status) = self.keeper.as_ref().and_then(Keeper::ended) {
                let words = self.last_words();
                return Err(ServerError {
                    is_full_disk: tells_of_a_full_disk(&words),
                    // SIGKILL is nothing that a cluster has its server do.
                    is_of_the_machine: tells_of_the_machine(&words) || status.signal() == Some(libc::SIGKILL),
                    ..failed(&self.data, format!("the server ended at its start ({status}): {words}"))
                });
            }
            let answer = self.with_socket(|socket| (self.answers)(socket));
            match answer {
                Ok(Ok(())) if self.holds_the_cluster() => return Ok(()),
                Ok(Ok(())) if begin.elapsed() > PATIENCE => {
                    let problem =
                        "another server has this cluster, and the one started beside it does not end";
                    return Err(failed(&self.data, problem.into()));
                }
                Ok(Err(message)) if begin.elapsed() > PATIENCE => {
                    let is_of_the_machine = !is_of_the_cluster(&message, &self.log());
                    return Err(ServerError { is_of_the_machine, ..failed(&self.data, message) });
                }
                Err(error) if begin.elapsed() > PATIENCE => return Err(error),
                _ => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    /// Whether the server that has the cluster is the one that was started here. Another one's
    /// socket lies at the same place, and it answers before the one started here has ended for it.
    fn holds_the_cluster(&self) -> bool {
        let file = std::fs::read_to_string(self.data.join("postmaster.pid")).unwrap_or_default();
        let holder = file.lines().next().and_then(|line| line.trim().parse::<u32>().ok());
        holder.is_some() && holder == self.process()
    }

    /// Gives `connect` a path of the server's socket that is short enough for an address and good
    /// until it returns.
    ///
    /// # Errors
    /// The data directory is gone.
    pub fn with_socket<T>(&self, connect: impl FnOnce(&Path) -> T) -> Result<T, ServerError> {
        let directory = File::open(&self.data).map_err(|error| failed_by(&self.data, &error))?;
        let socket = format!("/proc/self/fd/{}/.s.PGSQL.5432", directory.as_raw_fd());
        Ok(connect(Path::new(&socket)))
    }

    /// The server's process, while it runs.
    #[must_use]
    pub fn process(&self) -> Option<u32> {
        self.keeper.as_ref().map(|keeper| keeper.process)
    }

    /// Where the cluster is.
    #[must_use]
    pub fn data(&self) -> &Path {
        &self.data
    }

    /// Stops the server in order (fast shutdown: open transactions roll back, a checkpoint is
    /// written). A server that does not stop is killed.
    pub fn stop(&mut self) {
        if let Some(keeper) = self.keeper.take() {
            drop(keeper.stop);
            // A keeper that panicked has ended, and its server with it.
            let _ = keeper.thread.join();
        }
        // What is open keeps a file system from being unmounted.
        self.lock = None;
    }

    /// Has the server stopped at once when it is stopped (immediate shutdown: what has committed is
    /// recovered at the next start), for one that does not answer. Also while it is being stopped.
    pub fn abandon(&self) {
        self.abandoned.store(true, Ordering::Relaxed);
    }

    /// The log, which a power cut may have left with octets that are no text.
    fn log(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(&self.log).unwrap_or_default()).into_owned()
    }

    /// The last lines of the log that tell what went wrong.
    fn last_words(&self) -> String {
        let log = self.log();
        let telling = |line: &&str| {
            ["FATAL", "ERROR", "PANIC", "error:", "HINT"].iter().any(|word| line.contains(word))
        };
        let mut lines: Vec<&str> = log.lines().rev().filter(telling).take(3).collect();
        if lines.is_empty() {
            lines = log.lines().rev().filter(|line| !line.trim().is_empty()).take(3).collect();
        }
        lines.reverse();
        lines.join("; ").replace(DATA, &self.data.display().to_string())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The keeper's work: waits until told to stop or until the server ends by itself.
fn keep(
    mut child: Child,
    stopped: &mpsc::Receiver<()>,
    end: &mpsc::Sender<ExitStatus>,
    abandoned: &AtomicBool,
) {
    while stopped.recv_timeout(Duration::from_millis(50)) == Err(mpsc::RecvTimeoutError::Timeout) {
        if let Ok(Some(status)) = child.try_wait() {
            // Nobody listens any more once the server has answered.
            let _ = end.send(status);
            return;
        }
    }
    // Fast, then immediate, then without asking.
    for (signal, patience) in [(libc::SIGINT, PATIENCE), (libc::SIGQUIT, Duration::from_secs(10))] {
        let skips = || signal == libc::SIGINT && abandoned.load(Ordering::Relaxed);
        if !skips() {
            send(&child, signal);
        }
        let begin = Instant::now();
        while begin.elapsed() < patience && !skips() {
            if !matches!(child.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
    let _ = child.kill();
    let _ = child.wait();
}

/// What initdb, which says this of itself, is told of page checksums. It knows no word against them
/// before PostgreSQL 18, where clusters have them without a word.
fn word_for(checksums: Option<bool>, help: &str) -> Option<&'static str> {
    if checksums? {
        Some("--data-checksums")
    } else {
        Some("--no-data-checksums").filter(|word| help.contains(*word))
    }
}

fn send(child: &Child, signal: libc::c_int) {
    if let Ok(pid) = libc::pid_t::try_from(child.id()) {
        // SAFETY: the child has not been waited for, so the number is still its own.
        unsafe { libc::kill(pid, signal) };
    }
}

fn check(result: libc::c_int) -> std::io::Result<()> {
    if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

fn failed(path: &Path, message: String) -> ServerError {
    ServerError {
        subject: path.display().to_string(),
        message,
        is_full_disk: false,
        is_of_the_machine: false,
    }
}

/// A program that the system does not start.
fn not_started(programs: &Path, name: &str, error: &std::io::Error) -> ServerError {
    let message = format!("{name} did not start: {error}");
    ServerError { message, ..failed_by(programs, error) }
}

/// A file that the system refuses.
fn failed_by(path: &Path, error: &std::io::Error) -> ServerError {
    let is_full_disk = matches!(error.raw_os_error(), Some(libc::ENOSPC | libc::EDQUOT));
    let is_of_the_machine = is_want(error);
    ServerError { is_full_disk, is_of_the_machine, ..failed(path, error.to_string()) }
}

/// Whether the system had not what it takes: memory, a process or a file more, a free address, or
/// time. That says nothing of what a file holds.
#[must_use]
pub fn is_want(error: &std::io::Error) -> bool {
    match error.raw_os_error() {
        Some(code) => [
            libc::ENOMEM,
            libc::EAGAIN,
            libc::EMFILE,
            libc::ENFILE,
            libc::EADDRINUSE,
            libc::EINTR,
            libc::ETIMEDOUT,
        ]
        .contains(&code),
        // Memory that is missing for as much as a file says that it holds has no code: its length
        // may be damaged.
        None => error.kind() == std::io::ErrorKind::TimedOut,
    }
}

/// Whether PostgreSQL's programs have ended for want of space. At a start there is nobody to tell
/// the SQLSTATE to, and their log has the system's words, in the C locale that they run in.
fn tells_of_a_full_disk(log: &str) -> bool {
    ["No space left on device", "Disk quota exceeded"].iter().any(|words| log.contains(words))
}

/// Whether PostgreSQL's programs have ended for want of something that the machine had not, as
/// [`tells_of_a_full_disk`].
fn tells_of_the_machine(log: &str) -> bool {
    let words = [
        "Cannot allocate memory",
        "out of memory",
        // Segments of it are no files of the cluster.
        "shared memory",
        "Address already in use",
        // A process has the number that the server had which the power cut ended.
        "\"postmaster.pid\" already exists",
        "Too many open files",
        "Resource temporarily unavailable",
        "could not fork",
        "terminated by signal 9",
    ];
    // Where a process of the server's crashed, others say that it "possibly corrupted shared
    // memory"; and so much memory may be what a damaged record of the log asks for.
    let rest = log.replace("corrupted shared memory", "").replace("out of memory while trying to decode", "");
    words.iter().any(|words| rest.contains(words))
}

/// Whether it comes of a cluster that its server runs and lets nobody in: it has an answer, and
/// that is no want, or processes of it crash, each time that they are started.
fn is_of_the_cluster(answer: &str, log: &str) -> bool {
    let sqlstate = answer.rsplit_once("(SQLSTATE ").and_then(|(_, rest)| rest.get(..5));
    let is_crash = |line: &str| {
        line.contains("PANIC:")
            || (line.contains("was terminated by signal") && !line.contains("terminated by signal 9"))
    };
    // Class 08 is a conversation that broke, which is no answer.
    sqlstate.is_some_and(|sqlstate| !is_want_state(sqlstate) && !sqlstate.starts_with("08"))
        || log.lines().any(|line| is_crash(line) && !tells_of_the_machine(line))
}

/// The directory that has `initdb` and `postgres`: the one given, or on the PATH, or the newest at
/// a usual place.
///
/// # Errors
/// There is none; the message says how to install it.
pub fn find_programs(given: Option<&str>) -> Result<PathBuf, ServerError> {
    let complete =
        |directory: &Path| ["initdb", "postgres"].iter().all(|name| directory.join(name).is_file());
    if let Some(given) = given {
        let directory = PathBuf::from(given);
        if complete(&directory) {
            return Ok(directory);
        }
        let message =
            "has no `initdb` and `postgres`; setting `bin_directory` names the directory that has them";
        return Err(ServerError { is_of_the_machine: true, ..failed(&directory, message.into()) });
    }
    let on_path = std::env::var_os("PATH").unwrap_or_default();
    if let Some(directory) = std::env::split_paths(&on_path).find(|directory| complete(directory)) {
        return Ok(directory);
    }
    // Debian and Ubuntu, Fedora and RHEL, own builds.
    let mut places: Vec<(u32, PathBuf)> = vec![(0, PathBuf::from("/usr/local/pgsql/bin"))];
    for (parent, prefix) in [("/usr/lib/postgresql", ""), ("/usr", "pgsql-")] {
        for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            if let Some(version) = name.strip_prefix(prefix).and_then(|version| version.parse().ok()) {
                places.push((version, entry.path().join("bin")));
            }
        }
    }
    places.sort();
    places.into_iter().rev().map(|(_, place)| place).find(|place| complete(place)).ok_or_else(|| ServerError {
        subject: "PostgreSQL".into(),
        message: "the PostgreSQL server is not installed; `apt-get install postgresql` brings it, or name the directory \
                  of `initdb` and `postgres` by setting `bin_directory`"
            .into(),
        is_full_disk: false,
        is_of_the_machine: true,
    })
}

/// Who shall run the server: nobody else when this process is unprivileged; for root `postgres`,
/// else `nobody`.
fn unprivileged_user() -> Result<Option<User>, ServerError> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    let users: Vec<User> = [c"postgres", c"nobody"].into_iter().filter_map(user_named).collect();
    // Root of a user namespace may become only who is in it: there are none in that of `unshare
    // -Ur`.
    let is_here = |user: &&User| ids_here("uid").is_here(user.uid) && ids_here("gid").is_here(user.gid);
    if let Some(user) = users.iter().find(is_here) {
        return Ok(Some(*user));
    }
    if !users.is_empty() {
        return Err(ServerError {
            subject: "PostgreSQL".into(),
            message: "PostgreSQL does not run as root, and this process, root of a user namespace (`unshare -Ur`, a rootless \
                      container), may not become another user: start it outside of it"
                .into(),
            is_full_disk: false,
            is_of_the_machine: true,
        });
    }
    Err(ServerError {
        subject: "PostgreSQL".into(),
        message:
            "PostgreSQL does not run as root, and there is neither a user `postgres` nor `nobody` to run it"
                .into(),
        is_full_disk: false,
        is_of_the_machine: true,
    })
}

/// Ids that this process's user namespace has; all, where nobody tells.
struct Ids(Vec<(u64, u64)>);

/// The ids of a kind (`uid`, `gid`), from lines of first id, first id outside, and their number
/// (user_namespaces(7)).
fn ids_here(kind: &str) -> Ids {
    let text = std::fs::read_to_string(format!("/proc/self/{kind}_map")).unwrap_or_default();
    let line = |line: &str| {
        let numbers: Vec<u64> = line.split_whitespace().map_while(|word| word.parse().ok()).collect();
        Some((*numbers.first()?, *numbers.get(2)?))
    };
    Ids(text.lines().filter_map(line).collect())
}

impl Ids {
    fn is_here(&self, id: u32) -> bool {
        let id = u64::from(id);
        self.0.is_empty() || self.0.iter().any(|&(first, count)| id >= first && id - first < count)
    }
}

fn user_named(name: &CStr) -> Option<User> {
    let name: CString = name.into();
    let mut buffer = vec![0; 16 * 1024];
    // SAFETY: all zeros is a valid passwd: null pointers and numbers.
    let mut entry: libc::passwd = unsafe { std::mem::zeroed() };
    let mut found = std::ptr::null_mut();
    // SAFETY: all pointers are to live memory of the lengths given.
    let code =
        unsafe { libc::getpwnam_r(name.as_ptr(), &mut entry, buffer.as_mut_ptr(), buffer.len(), &mut found) };
    (code == 0 && !found.is_null() && entry.pw_uid != 0)
        .then_some(User { uid: entry.pw_uid, gid: entry.pw_gid })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened: that a disk was full was known by its words alone, wherever they stood.
    #[test]
    fn a_full_disk_is_one_for_whoever_asks() {
        let refused = |code| failed_by(Path::new("/x"), &std::io::Error::from_raw_os_error(code));
        assert!(refused(libc::ENOSPC).is_full_disk && refused(libc::EDQUOT).is_full_disk);
        assert!(!refused(libc::EACCES).is_full_disk);
        for (log, is_full) in [
            ("initdb: error: could not write file \"/x/PG_VERSION\": No space left on device", true),
            ("FATAL:  could not write lock file \"postmaster.pid\": No space left on device", true),
            ("FATAL:  could not create lock file \"postmaster.pid\": Disk quota exceeded", true),
            ("FATAL:  invalid value for parameter \"shared_buffers\": 1", false),
        ] {
            assert_eq!(tells_of_a_full_disk(log), is_full, "{log}");
        }
    }

    /// What happened: whatever kept a server from starting was said to be wrong with the cluster.
    #[test]
    fn what_the_machine_has_not_says_nothing_of_a_cluster() {
        let refused = |code| failed_by(Path::new("/x"), &std::io::Error::from_raw_os_error(code));
        assert!(
            [libc::ENOMEM, libc::EMFILE, libc::EAGAIN].iter().all(|code| refused(*code).is_of_the_machine)
        );
        assert!([libc::EIO, libc::ENOENT, libc::ENOSPC].iter().all(|code| !refused(*code).is_of_the_machine));
        // What a length that was damaged asks for was taken for it, too.
        assert!(!is_want(&std::io::Error::from(std::io::ErrorKind::OutOfMemory)));
        let none = Path::new("/nonexistent").display().to_string();
        assert!(find_programs(Some(&none)).is_err_and(|error| error.is_of_the_machine));
        for (log, is_of_it) in [
            ("FATAL:  could not map anonymous shared memory: Cannot allocate memory", true),
            (
                "FATAL:  could not create any Unix-domain sockets; could not bind: Address already in use",
                true,
            ),
            ("ERROR:  could not open file \"base/5/1259\": Too many open files in system", true),
            ("PANIC:  could not locate a valid checkpoint record at 0/1528F80", false),
            ("PANIC:  out of memory while trying to decode a record of length 3456789012", false),
            ("another server process exited abnormally and possibly corrupted shared memory.", false),
            ("ERROR:  out of memory", true),
            ("FATAL:  lock file \"postmaster.pid\" already exists", true),
            ("FATAL:  bogus data in lock file \"postmaster.pid\": \"\"", false),
            ("FATAL:  could not open file \"global/pg_filenode.map\": No such file or directory", false),
            ("FATAL:  could not write to file \"pg_wal/xlogtemp.9\": No space left on device", false),
        ] {
            assert_eq!(tells_of_the_machine(log), is_of_it, "{log}");
        }
    }

    /// What happened: a cluster whose server ran, and refused each conversation for what was
    /// damaged or missing, was "this machine's failure" after two minutes, four times, and that it
    /// cannot be opened was said of no power cut.
    #[test]
    fn a_server_that_lets_nobody_in_is_no_want_of_the_machine() {
        let up = "LOG:  database system is ready to accept connections";
        let broken = "the connection to the server broke: unexpected end of file";
        let crash = "LOG:  server process (PID 7) was terminated by signal 11: Segmentation fault";
        let panic = "PANIC:  could not read from file \"pg_xact/0000\": read too few bytes";
        for (answer, log, is_of_it) in [
            ("database \"postgres\" does not exist (SQLSTATE 3D000)", up, true),
            ("could not open file \"base/5/1259\" (SQLSTATE 58P01); a hint", up, true),
            ("the database system is starting up (SQLSTATE 57P03)", up, false),
            ("sorry, too many clients already (SQLSTATE 53300)", up, false),
            ("cannot be reached: No such file or directory (os error 2)", up, false),
            (broken, up, false),
            ("the connection broke: unexpected end of file (SQLSTATE 08006)", up, false),
            (broken, crash, true),
            ("the database system is in recovery mode (SQLSTATE 57P03)", panic, true),
            (broken, "LOG:  server process (PID 7) was terminated by signal 9: Killed", false),
            (broken, "PANIC:  could not open file \"x\": Too many open files", false),
        ] {
            assert_eq!(is_of_the_cluster(answer, log), is_of_it, "{answer}");
        }
    }

    /// What happened: with PostgreSQL 18 a cluster that was to have no checksums had them, and
    /// every run that asked for none failed of the setting that had not taken.
    #[test]
    fn a_cluster_without_checksums_is_asked_for_where_they_are_the_rule() {
        let old = "  -k, --data-checksums      use data page checksums\n";
        let new = "  -k, --data-checksums      use data page checksums\n      --no-data-checksums   do not use data page checksums\n";
        for help in [old, new] {
            assert_eq!(word_for(None, help), None);
            assert_eq!(word_for(Some(true), help), Some("--data-checksums"));
        }
        assert_eq!(word_for(Some(false), old), None);
        assert_eq!(word_for(Some(false), new), Some("--no-data-checksums"));
    }

    /// What happened: who started a server on a cluster that another one had was answered by that
    /// one, before its own had ended for it, and went on with it: two programs had one store.
    #[test]
    fn a_cluster_that_another_server_has_is_refused() {
        if find_programs(None).is_err() {
            println!("skipped: needs PostgreSQL");
            return;
        }
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let readable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(directory.path(), readable).unwrap();
        let answers = |socket: &Path| {
            std::os::unix::net::UnixStream::connect(socket).map(drop).map_err(|error| error.to_string())
        };
        // What happened: of a process that was killed while initdb worked a part of a cluster
        // stayed, which had its PG_VERSION and could not be started any more.
        let unfinished = directory.path().join(UNFINISHED);
        std::fs::create_dir(&unfinished).unwrap();
        std::fs::write(unfinished.join("PG_VERSION"), "15\n").unwrap();
        let first = Server::start(None, directory.path(), None, Vec::new(), answers).unwrap();
        assert!(!unfinished.exists() && first.data().join("global/pg_control").exists());
        // As a start does, after its wait for a server that is about to end.
        let mut second = Server {
            programs: first.programs.clone(),
            data: first.data.clone(),
            lock: None,
            log: first.log.clone(),
            options: Vec::new(),
            user: first.user,
            keeper: None,
            answers: Box::new(answers),
            abandoned: Arc::default(),
        };
        let error = second.launch().unwrap_err();
        assert!(error.message.contains("\"postmaster.pid\" already exists"), "{error}");
        // What happened: half a minute was waited for a server that did not end. It is not asked
        // now whether it does.
        let error = Server::start(None, directory.path(), None, Vec::new(), answers).err().unwrap();
        assert!(error.message.contains(TAKEN) && error.is_of_the_machine, "{error}");
        assert!(first.with_socket(answers).unwrap().is_ok(), "the first goes on");
    }

    #[test]
    fn a_directory_that_only_root_enters_is_named() {
        if !rustix::process::geteuid().is_root() || find_programs(None).is_err() {
            println!("skipped: needs root and PostgreSQL");
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let only_owner = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        std::fs::set_permissions(directory.path(), only_owner).unwrap();
        let below = directory.path().join("below");
        std::fs::create_dir(&below).unwrap();
        let error = Server::start(None, &below, None, Vec::new(), |_| Ok(())).err().unwrap().to_string();
        let path = directory.path().display().to_string();
        for part in [&*path, "may not be entered", "chmod o+x"] {
            assert!(error.contains(part), "{part} in {error}");
        }
    }
}
