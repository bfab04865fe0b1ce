//! A server of our own: started in the run's directory, never reachable from outside it, gone when
//! we are.

use anyhow::{Context, Result, bail};
use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::chown;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// A running server. Dropping it ends and reaps it; the kernel ends it should this process be
/// killed.
pub struct Server {
    child: Child,
    /// What ends it at once, without a last checkpoint.
    signal: i32,
}

impl Server {
    /// Starts `command` in `dir`, its output into `server.log` there, and waits until `ready`
    /// succeeds. `signal` is what ends the server as a crash would: `SIGKILL`, or what the server
    /// has for it.
    ///
    /// Call it from the main thread: the kernel's death signal goes out when the thread that
    /// started the server ends.
    pub fn start<T>(
        mut command: Command,
        dir: &Path,
        signal: i32,
        mut ready: impl FnMut() -> Result<T>,
    ) -> Result<(Server, T)> {
        let log_path = dir.join("server.log");
        let log = File::options().append(true).create(true).open(&log_path).context("server.log")?;
        command.current_dir(dir).stdin(std::process::Stdio::null()).stdout(log.try_clone()?).stderr(log);
        die_with_parent(&mut command, signal);
        let program = command.get_program().to_owned();
        let child = command.spawn().with_context(|| format!("starting {}", program.display()))?;
        let mut server = Server { child, signal };
        let begin = Instant::now();
        loop {
            match ready() {
                Ok(value) => return Ok((server, value)),
                Err(error) if begin.elapsed() > Duration::from_secs(120) => {
                    return Err(error.context(format!("{} does not answer", program.display())));
                }
                Err(_) => {}
            }
            if let Some(status) = server.child.try_wait()? {
                let log = std::fs::read_to_string(&log_path).unwrap_or_default();
                let tail: Vec<&str> = log.lines().rev().take(8).collect();
                let tail: Vec<&str> = tail.into_iter().rev().collect();
                bail!("{} ended with {status}:\n{}", program.display(), tail.join("\n"));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Process number.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Ends it as a crash would, and waits until it has ended.
    pub fn end(mut self) -> Result<()> {
        self.crash().context("waiting for the server")
    }

    fn crash(&mut self) -> std::io::Result<()> {
        if self.child.try_wait()?.is_none() {
            // SAFETY: the child is ours and not yet reaped, so the number is its own.
            unsafe { libc::kill(self.child.id() as i32, self.signal) };
            self.child.wait()?;
        }
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // There is nobody to tell.
        let _ = self.crash();
    }
}

/// Has the kernel send `signal` to the child when the thread that starts it ends, however that
/// comes about.
pub fn die_with_parent(command: &mut Command, signal: i32) {
    let parent = std::process::id();
    // SAFETY: between fork and exec only prctl, getppid and _exit are called, which are
    // async-signal-safe. A change of user comes before this closure and would clear the setting, so
    // it is made here, last.
    unsafe {
        command.pre_exec(move || {
            if libc::prctl(libc::PR_SET_PDEATHSIG, signal) != 0 {
                return Err(std::io::Error::last_os_error());
            }
            // The parent may have died in between.
            if libc::getppid() != parent as i32 {
                libc::_exit(1);
            }
            Ok(())
        });
    }
}

/// A user for servers that refuse root: `postgres` or `nobody`. `None` where we are not root
/// ourselves.
pub fn unprivileged() -> Option<(u32, u32)> {
    // SAFETY: no preconditions.
    if unsafe { libc::geteuid() } != 0 {
        return None;
    }
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    ["postgres", "nobody"].iter().find_map(|name| {
        let mut fields =
            users.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?.split(':').skip(1);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    })
}

/// Makes `dir` the unprivileged user's, and `command` run as that user.
pub fn as_unprivileged(command: &mut Command, dir: &Path) -> Result<()> {
    if let Some((uid, gid)) = unprivileged() {
        chown(dir, Some(uid), Some(gid)).with_context(|| format!("giving {} away", dir.display()))?;
        command.uid(uid).gid(gid);
    }
    Ok(())
}

/// Looks a program up in `PATH` and where Debian keeps PostgreSQL's.
pub fn find(program: impl AsRef<OsStr>) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places: Vec<PathBuf> = std::env::split_paths(&path).collect();
    if let Ok(versions) = std::fs::read_dir("/usr/lib/postgresql") {
        let mut bins: Vec<PathBuf> = versions.flatten().map(|v| v.path().join("bin")).collect();
        bins.sort();
        places.extend(bins.into_iter().rev());
    }
    places.into_iter().map(|place| place.join(program.as_ref())).find(|p| p.is_file())
}

/// Connects to a Unix socket, by way of its directory's descriptor: an address holds 108 bytes, a
/// path may be longer.
pub fn connect(socket: &Path) -> Result<UnixStream> {
    let dir = File::open(socket.parent().context("a socket lies in a directory")?)?;
    let name = socket.file_name().context("a socket has a name")?;
    let short = Path::new("/proc/self/fd").join(dir.as_raw_fd().to_string()).join(name);
    UnixStream::connect(short).with_context(|| format!("connecting to {}", socket.display()))
}

/// Bytes in the files of `dir` (not of its directories) whose names end with `ending`.
pub fn bytes_in(dir: &Path, ending: &str) -> Result<u64> {
    let mut bytes = 0;
    for file in std::fs::read_dir(dir).with_context(|| dir.display().to_string())? {
        let file = file?;
        if file.file_name().to_string_lossy().ends_with(ending) {
            bytes += file.metadata()?.len();
        }
    }
    Ok(bytes)
}
