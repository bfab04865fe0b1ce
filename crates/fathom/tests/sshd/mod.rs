//! A real OpenSSH server on this machine for one test: its own keys, configuration and port,
//! nothing of the user's.

#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]
#![allow(dead_code, reason = "each test file uses its part")]

#[path = "../../../smsc/tests/free_ports/mod.rs"]
mod free_ports;

use free_ports::free_ports;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The name that the configuration gives the machine.
pub const HOST: &str = "board";

pub struct Server {
    place: tempfile::TempDir,
    port: u16,
    child: Child,
}

fn program(name: &str) -> Option<PathBuf> {
    ["/usr/sbin", "/usr/bin", "/sbin", "/bin"]
        .iter()
        .map(|at| Path::new(at).join(name))
        .find(|path| path.is_file())
}

fn key(path: &Path) {
    let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(path).status();
    assert!(made.unwrap().success());
}

impl Server {
    /// None where there is no sshd; says what brings it.
    pub fn start() -> Option<Server> {
        Server::start_with(|here| {
            format!("SetEnv XDG_CACHE_HOME=\"{here}/cache dir\" FATHOM_STATE_DIR={here}/state")
        })
    }

    /// With lines for its configuration, which are made of the server's own directory.
    pub fn start_with(lines: impl Fn(&str) -> String) -> Option<Server> {
        let Some(sshd) = program("sshd").filter(|_| program("ssh").is_some()) else {
            println!("SKIP: no sshd; to get it: sudo apt-get install openssh-server openssh-client");
            return None;
        };
        // SAFETY: geteuid takes nothing and cannot fail.
        if unsafe { libc::geteuid() } == 0 {
            // Its privilege separation wants an empty directory there, which its package's service
            // makes; another test may have made it just now.
            std::fs::create_dir_all("/run/sshd").unwrap();
        }
        let place = tempfile::tempdir().unwrap();
        let at = |name: &str| place.path().join(name);
        key(&at("host"));
        key(&at("user"));
        let [port] = free_ports();
        let here = place.path().display();
        // Greetings of a login shell must not be taken for answers, nor a directory with a blank
        // for two.
        std::fs::write(
            at("sshd_config"),
            format!(
                "Port {port}\nListenAddress 127.0.0.1\nHostKey {here}/host\nAuthorizedKeysFile {here}/user.pub\nPidFile none\n\
                 UsePAM no\nStrictModes no\nPasswordAuthentication no\nPermitRootLogin prohibit-password\nPrintMotd no\n\
                 MaxStartups 100\n{}\n",
                lines(&here.to_string())
            ),
        )
        .unwrap();
        let user = Command::new("id").arg("-un").output().unwrap().stdout;
        std::fs::write(
            at("config"),
            format!(
                "Host {HOST} other\n  HostName 127.0.0.1\n  Port {port}\n  User {}\n  IdentityFile {here}/user\n  IdentitiesOnly yes\n  \
                 UserKnownHostsFile {here}/known\n  StrictHostKeyChecking accept-new\n  LogLevel ERROR\n",
                String::from_utf8_lossy(&user).trim()
            ),
        )
        .unwrap();
        let mut child = Command::new(sshd)
            .args(["-D", "-e", "-f"])
            .arg(at("sshd_config"))
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("listening on") {
            line.clear();
            assert_ne!(said.read_line(&mut line).unwrap(), 0, "sshd did not come up");
        }
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        Some(Server { place, port, child })
    }

    /// The client's configuration, for `FATHOM_SSH_CONFIG`.
    pub fn config(&self) -> String {
        self.place.path().join("config").display().to_string()
    }

    /// Its port on this machine.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// A directory of the "other" machine.
    pub fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// Processes that came of connections: whose program was pushed there, or who work there.
    pub fn processes(&self) -> Vec<String> {
        let here = self.place.path().canonicalize().unwrap();
        let mut found = Vec::new();
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let path = entry.path();
            if entry.file_name().to_string_lossy().parse::<u32>().is_err() {
                continue;
            }
            let words = std::fs::read(path.join("cmdline")).unwrap_or_default();
            let words = String::from_utf8_lossy(&words).replace('\0', " ");
            let is_there =
                |name: &str| std::fs::read_link(path.join(name)).is_ok_and(|at| at.starts_with(&here));
            let is_named = words.contains(&*here.to_string_lossy());
            let is_sshd = words.starts_with("sshd:") && parent(&path) == Some(self.child.id());
            if (is_there("exe") || is_there("cwd") || is_named || is_sshd)
                && !words.contains("sshd -D")
                && !words.is_empty()
            {
                found.push(format!("{}: {words}", entry.file_name().to_string_lossy()));
            }
        }
        found
    }

    /// Mounts below the place.
    pub fn mounts(&self) -> Vec<String> {
        let here = self.place.path().canonicalize().unwrap().display().to_string();
        let mounts = std::fs::read_to_string("/proc/mounts").unwrap();
        mounts.lines().filter(|line| line.contains(&here)).map(str::to_owned).collect()
    }

    /// Until nothing of a connection is left.
    #[track_caller]
    pub fn is_clean_within(&self, limit: Duration) {
        let begin = Instant::now();
        loop {
            let work = std::fs::read_dir(self.path("cache dir/fathom/work")).into_iter().flatten().flatten();
            let left: Vec<String> = (self.processes().into_iter())
                .chain(self.mounts())
                .chain(work.map(|entry| entry.path().display().to_string()))
                .collect();
            if left.is_empty() {
                return;
            }
            assert!(begin.elapsed() < limit, "still there after {limit:?}: {left:#?}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Ends the sessions of clients that are connected, as a cable that is pulled out does.
    pub fn cut(&self) {
        self.signal_sessions(libc::SIGKILL);
    }

    /// Sends a signal to the server itself.
    pub fn signal(&self, signal: i32) {
        // SAFETY: kill takes no pointers.
        unsafe { libc::kill(self.child.id().cast_signed(), signal) };
    }

    /// Sends a signal to the processes of the server that serve a client.
    pub fn signal_sessions(&self, signal: i32) {
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let path = entry.path();
            let words = std::fs::read(path.join("cmdline")).unwrap_or_default();
            // Where the user is not root, a session is two processes.
            let above = parent(&path).and_then(|pid| parent(&Path::new("/proc").join(pid.to_string())));
            let is_below = [parent(&path), above].contains(&Some(self.child.id()));
            let is_session = words.starts_with(b"sshd:") && is_below;
            let Ok(pid) = entry.file_name().to_string_lossy().parse::<i32>() else { continue };
            if is_session {
                // SAFETY: kill takes no pointers.
                unsafe { libc::kill(pid, signal) };
            }
        }
    }

    /// As [`Server::cut`], where the server itself is gone and its sessions are nobody's children.
    pub fn cut_all(&self) {
        for process in self.processes().iter().filter(|process| process.contains("agent --dir")) {
            let pid = process.split(':').next().unwrap().parse::<i32>().unwrap();
            let path = Path::new("/proc")
                .join(parent(&Path::new("/proc").join(pid.to_string())).unwrap().to_string());
            if std::fs::read(path.join("cmdline")).unwrap_or_default().starts_with(b"sshd:") {
                let session = path.file_name().unwrap().to_string_lossy().parse::<i32>().unwrap();
                // SAFETY: kill takes no pointers.
                unsafe { libc::kill(session, libc::SIGKILL) };
            }
        }
    }

    /// Lets nobody connect any more.
    pub fn stop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn parent(process: &Path) -> Option<u32> {
    let stat = std::fs::read_to_string(process.join("stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}
