//! Child commands with a time limit: what was run, how it ended and what it said on stderr.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::ends::both_ends;

/// Where system tools live beside `PATH`, which often lacks the sbin directories for an ordinary
/// user.
const SYSTEM_DIRECTORIES: [&str; 6] =
    ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];
/// How much of a command's output is kept, bytes.
const KEPT_BYTES: usize = 64 * 1024;
/// How long a killed child may take to die before it is left behind (it hangs in the kernel). To
/// die it needs a processor, which on a busy machine it may not get for seconds.
const DEATH: Duration = Duration::from_secs(10);

/// A command did not do its work.
#[derive(Debug, thiserror::Error)]
#[error("{problem}: {command}{}", said(.stderr))]
pub struct CommandError {
    /// The command line, quoted for a shell.
    pub command: String,
    /// How it ended.
    pub problem: CommandProblem,
    /// What it wrote to stderr (or, when that is empty, to stdout), trimmed; of more than 64 KiB
    /// the beginning and the end.
    pub stderr: String,
}

fn said(stderr: &str) -> String {
    if stderr.is_empty() {
        String::new()
    } else {
        format!("\n  it said: {}", stderr.replace('\n', "\n           "))
    }
}

/// How a command failed.
#[derive(Debug, thiserror::Error)]
pub enum CommandProblem {
    /// It could not be started.
    #[error("cannot start ({0})")]
    Start(io::Error),
    /// It ended with another status than success.
    #[error("failed ({0})")]
    Status(ExitStatus),
    /// It was killed after its time limit, in seconds; `true` when it did not even die (it hangs in
    /// the kernel).
    #[error("did not end within {limit_s} s and was killed{}", if *.alive { ", but hangs in the kernel" } else { "" })]
    TimeLimit {
        /// The limit, seconds.
        limit_s: f64,
        /// Whether it survived SIGKILL.
        alive: bool,
    },
    /// Waiting for it failed.
    #[error("cannot be waited for ({0})")]
    Wait(io::Error),
}

/// A command to run: program and words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandLine {
    /// Program, a name or a path.
    pub program: PathBuf,
    /// Its arguments.
    pub words: Vec<OsString>,
}

impl CommandLine {
    /// A command line from a program and words.
    pub fn new<W: AsRef<OsStr>>(
        program: impl Into<PathBuf>,
        words: impl IntoIterator<Item = W>,
    ) -> CommandLine {
        CommandLine {
            program: program.into(),
            words: words.into_iter().map(|w| w.as_ref().to_owned()).collect(),
        }
    }

    /// As a shell would take it.
    pub fn shown(&self) -> String {
        let words =
            std::iter::once(self.program.as_os_str()).chain(self.words.iter().map(OsString::as_os_str));
        shell_line(words.map(OsStr::to_string_lossy))
    }

    /// Runs the command to its end; its stdout is returned (at most 64 KiB, lossy UTF-8).
    ///
    /// Output goes to anonymous files rather than pipes: a FUSE driver that turns into a daemon
    /// keeps them open, and a reader of a pipe would wait for it for ever. The child has its own
    /// process group, so Ctrl-C at the terminal reaches the caller, which decides, and not a
    /// half-done mkfs.
    ///
    /// # Errors
    /// It cannot be started, ends with a failure, or takes longer than `limit`.
    pub fn run(&self, limit: Duration) -> Result<Output, CommandError> {
        self.run_holding(&[], limit)
    }

    /// As [`CommandLine::run`]; the command, and whatever it starts, has these files open as long
    /// as it runs. A device that is named to it so stays what it is, even where the caller is
    /// killed meanwhile: a loop device would go with its last user, another stack would get its
    /// number, and what is late would be done to that one.
    ///
    /// # Errors
    /// As [`CommandLine::run`].
    pub fn run_holding(&self, held: &[&File], limit: Duration) -> Result<Output, CommandError> {
        let failed = |problem, stderr| CommandError { command: self.shown(), problem, stderr };
        let start = |e| failed(CommandProblem::Start(e), String::new());
        let mut stdout = anonymous_file().map_err(start)?;
        let mut stderr = anonymous_file().map_err(start)?;
        let mut command = Command::new(&self.program);
        for held in held.iter().map(|file| file.as_raw_fd()) {
            // SAFETY: between fork and exec only fcntl is called, which is async-signal-safe and
            // takes integers. The caller has the descriptor open until this returns.
            unsafe {
                command.pre_exec(move || match libc::fcntl(held, libc::F_SETFD, 0) {
                    -1 => Err(io::Error::last_os_error()),
                    _ => Ok(()),
                });
            }
        }
        let mut child = command
            .args(&self.words)
            .env("LC_ALL", "C")
            .env("PATH", search_path())
            .stdin(Stdio::null())
            .stdout(stdout.try_clone().map_err(start)?)
            .stderr(stderr.try_clone().map_err(start)?)
            .process_group(0)
            .spawn()
            .map_err(start)?;
        let ended = wait(&mut child, limit);
        let stderr = text(&mut stderr, |file| both_ends(file, KEPT_BYTES));
        let problem = match ended {
            Ok(Some(status)) if status.success() => {
                return Ok(Output { stdout: text(&mut stdout, beginning), stderr });
            }
            Ok(Some(status)) => CommandProblem::Status(status),
            Ok(None) => {
                CommandProblem::TimeLimit { limit_s: limit.as_secs_f64(), alive: !killed(&mut child) }
            }
            Err(e) => CommandProblem::Wait(e),
        };
        let said =
            if stderr.is_empty() { text(&mut stdout, |file| both_ends(file, KEPT_BYTES)) } else { stderr };
        Err(failed(problem, said))
    }
}

/// What a successful command wrote, trimmed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    /// To stdout.
    pub stdout: String,
    /// To stderr.
    pub stderr: String,
}

/// Finds a program in `PATH` and the system directories.
pub fn find_program(name: &str) -> Option<PathBuf> {
    find_program_in(&[], name)
}

/// As [`find_program`], looking in `first` before all.
pub fn find_program_in(first: &[PathBuf], name: &str) -> Option<PathBuf> {
    let path = search_path();
    first.iter().cloned().chain(std::env::split_paths(&path)).map(|directory| directory.join(name)).find(
        |p| {
            p.metadata().is_ok_and(|m| {
                m.is_file() && std::os::unix::fs::PermissionsExt::mode(&m.permissions()) & 0o111 != 0
            })
        },
    )
}

/// The first of these shared libraries that lies where the dynamic linker looks for them.
pub fn find_library(names: &[&str]) -> Option<PathBuf> {
    let directories = library_directories(&std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default());
    names
        .iter()
        .find_map(|name| directories.iter().map(|directory| directory.join(name)).find(|path| path.is_file()))
}

/// Where libraries lie: those that `LD_LIBRARY_PATH` says, and the system's.
fn library_directories(own: &OsStr) -> Vec<PathBuf> {
    let triplet = of_debian(std::env::consts::ARCH);
    let versioned = ["/lib", "/usr/lib"].map(|directory| Path::new(directory).join(&triplet));
    let system = ["/usr/local/lib", "/lib64", "/usr/lib64", "/lib", "/usr/lib"].map(PathBuf::from);
    // Of a variable that is not set, too, the one part is empty, which would be this directory.
    let said = std::env::split_paths(own).filter(|directory| !directory.as_os_str().is_empty());
    said.chain(versioned).chain(system).collect()
}

/// The directory that Debian, and what comes from it, has for a processor's libraries
/// (<https://wiki.debian.org/Multiarch/Tuples>).
fn of_debian(processor: &str) -> String {
    match processor {
        "arm" if cfg!(target_abi = "eabi") => "arm-linux-gnueabi".into(),
        "arm" => "arm-linux-gnueabihf".into(),
        "x86" => "i386-linux-gnu".into(),
        "powerpc64" if cfg!(target_endian = "little") => "powerpc64le-linux-gnu".into(),
        other => format!("{other}-linux-gnu"),
    }
}

fn search_path() -> OsString {
    let mut all: Vec<PathBuf> =
        std::env::var_os("PATH").map(|p| std::env::split_paths(&p).collect()).unwrap_or_default();
    all.extend(SYSTEM_DIRECTORIES.iter().map(PathBuf::from));
    // A directory whose name holds a colon cannot be in PATH in the first place; without PATH the
    // system's remain.
    std::env::join_paths(&all).unwrap_or_else(|_| SYSTEM_DIRECTORIES.join(":").into())
}

/// Waits until the child ends or the limit passes (`None`), with short sleeps first: most commands
/// take milliseconds.
fn wait(child: &mut Child, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let start = Instant::now();
    let mut pause = Duration::from_micros(200);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        let left = limit.saturating_sub(start.elapsed());
        if left.is_zero() {
            return Ok(None);
        }
        thread::sleep(pause.min(left));
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

/// Kills the child's process group; whether it died.
fn killed(child: &mut Child) -> bool {
    // SAFETY: kill takes no pointers. The child has not been waited for, so its group id cannot
    // have been reused.
    unsafe { libc::kill(-(child.id() as libc::pid_t), libc::SIGKILL) };
    matches!(wait(child, DEATH), Ok(Some(_)))
}

/// A file without a name: in memory, or, where the kernel has no such files (before Linux 3.17, as
/// on phones with Android 7) or keeps them from this program, in the directory for temporary files.
fn anonymous_file() -> io::Result<File> {
    match rustix::fs::memfd_create("fathom-output", rustix::fs::MemfdFlags::CLOEXEC) {
        Ok(file) => Ok(file.into()),
        Err(_) => unlinked_file(&std::env::temp_dir()),
    }
}

/// A new file of this user's alone, whose name is gone.
fn unlinked_file(directory: &Path) -> io::Result<File> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    loop {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = directory.join(format!(".fathom-output-{}-{number}", std::process::id()));
        let made = File::options().read(true).write(true).create_new(true).mode(0o600).open(&path);
        match made.and_then(|file| std::fs::remove_file(&path).map(|()| file)) {
            // Left by one that was killed between the two, and had the same number.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(io::Error::new(error.kind(), format!("{}: {error}", path.display()))),
            made => return made,
        }
    }
}

/// What was written to a file, as `read` reads it, trimmed.
fn text(file: &mut File, read: impl FnOnce(&mut File) -> String) -> String {
    // What cannot be read back is only missing from a message.
    let is_at_start = file.seek(SeekFrom::Start(0)).is_ok();
    if is_at_start { read(file).trim().to_owned() } else { String::new() }
}

/// What is parsed is a whole from its begin on.
fn beginning(file: &mut File) -> String {
    let mut bytes = Vec::new();
    let _ = file.take(KEPT_BYTES as u64).read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Words as one line that a POSIX shell reads back as these words.
pub fn shell_line<W: AsRef<str>>(words: impl IntoIterator<Item = W>) -> String {
    let quoter = shlex::Quoter::new().allow_nul(true);
    // With NUL allowed nothing is left that could fail; a word of ours never holds one.
    let quoted = words.into_iter().filter_map(|word| Some(quoter.quote(word.as_ref()).ok()?.into_owned()));
    quoted.collect::<Vec<_>>().join(" ")
}

/// The file name of a path, for messages.
pub fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// More than any of these commands takes, on a busy machine too.
    const ENOUGH: Duration = Duration::from_secs(60);

    fn sh(script: &str) -> CommandLine {
        CommandLine::new("sh", ["-c", script])
    }

    /// What happened: of an `LD_LIBRARY_PATH` that is not set the directory of the moment was looked
    /// at first, so a file that lay there was said to be the system's library; and on a 32-bit Arm
    /// the system's own was not found, for Debian calls its directory otherwise than Rust the
    /// processor.
    #[test]
    fn libraries_are_looked_for_where_the_system_has_them_and_not_here() {
        for own in ["", ":", "/opt/lib::lib"] {
            let looked_at = library_directories(OsStr::new(own));
            assert!(looked_at.iter().all(|directory| !directory.as_os_str().is_empty()), "{looked_at:?}");
            assert_eq!(looked_at[0] == Path::new("/opt/lib"), own.starts_with("/opt"), "{looked_at:?}");
            assert!(looked_at.contains(&PathBuf::from("/usr/lib")), "{looked_at:?}");
        }
        assert!(of_debian("arm").starts_with("arm-linux-gnueabi"));
        assert_eq!(of_debian("x86"), "i386-linux-gnu");
        assert_eq!(of_debian("aarch64"), "aarch64-linux-gnu");
    }

    #[test]
    fn output_of_a_good_command_is_returned() {
        let output = sh("echo out; echo err >&2").run(ENOUGH).unwrap();
        assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("out", "err"));
    }

    #[test]
    fn a_failure_names_command_status_and_stderr() {
        let error = sh("echo broken disk >&2; exit 3").run(ENOUGH).unwrap_err().to_string();
        for part in ["sh -c 'echo broken disk >&2; exit 3'", "exit status: 3", "it said: broken disk"] {
            assert!(error.contains(part), "{part} in {error}");
        }
    }

    /// What happened: of a check of a damaged file system that listed each inode the first 64 KiB
    /// were shown, and not why it gave up.
    #[test]
    fn of_a_long_complaint_the_end_is_kept_as_well() {
        let script = "echo begun >&2; head -c 300000 /dev/zero | tr '\\0' x >&2; echo the reason >&2; exit 1";
        let error = sh(script).run(ENOUGH).unwrap_err();
        assert!(error.stderr.starts_with("begun\nxxx") && error.stderr.ends_with("the reason"), "{error}");
        assert!(error.stderr.contains("octets are left out") && error.stderr.len() < KEPT_BYTES + 100);
    }

    /// What happened: a kernel without files in memory (Android 7 with Linux 3.10) started no
    /// command at all.
    #[test]
    fn a_file_without_a_name_is_had_without_the_kernels_files_in_memory() {
        let place = tempfile::tempdir().unwrap();
        let left = place.path().join(format!(".fathom-output-{}-0", std::process::id()));
        std::fs::write(&left, "").unwrap();
        for _ in 0..2 {
            let mut file = unlinked_file(place.path()).unwrap();
            io::Write::write_all(&mut file, b"said\n").unwrap();
            assert_eq!(text(&mut file, beginning), "said");
        }
        std::fs::remove_file(left).unwrap();
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0, "no name is left");
        let absent = unlinked_file(&place.path().join("absent")).unwrap_err();
        assert!(absent.to_string().contains("absent/.fathom-output-"), "{absent}");
    }

    #[test]
    fn a_hang_becomes_an_error_with_the_command_line() {
        let start = Instant::now();
        let error = sh("sleep 600; echo never").run(Duration::from_millis(100)).unwrap_err();
        assert!(start.elapsed() < Duration::from_secs(300), "killed, not waited for");
        assert!(matches!(error.problem, CommandProblem::TimeLimit { alive: false, .. }), "{error}");
        assert!(
            error.to_string().contains("did not end within 0.1 s") && error.to_string().contains("sleep 600"),
            "{error}"
        );
    }

    #[test]
    fn a_daemon_that_keeps_the_output_open_does_not_hang_us() {
        let start = Instant::now();
        let output = sh("echo up; (sleep 120 &)").run(ENOUGH).unwrap();
        assert_eq!(output.stdout, "up");
        assert!(start.elapsed() < ENOUGH);
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = CommandLine::new("no-such-mkfs", ["x"]).run(ENOUGH).unwrap_err().to_string();
        assert!(error.contains("cannot start") && error.contains("no-such-mkfs x"), "{error}");
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        let shown = CommandLine::new("mkfs", ["-q", "a b", ""]).shown();
        assert_eq!(shown, "mkfs -q 'a b' ''");
        for word in ["plain", "two words", "it's", "", "a=b,c", "$x", "üñ", "^has_journal", "`!`"] {
            let script = format!("printf %s {}", shell_line([word]));
            assert_eq!(sh(&script).run(ENOUGH).unwrap().stdout, word);
        }
    }
}
