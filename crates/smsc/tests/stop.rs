//! How a bench ends before its end: by Ctrl-C and its like, once or twice, and by a store that does
//! not answer.
#![allow(clippy::unwrap_used)]

mod foreign_server;

use foreign_server::{connect, rows};
use std::fs::{File, read_to_string};
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// However slow the machine: what is waited for so long does not come.
const FOREVER: Duration = Duration::from_secs(120);

/// A bench without end, unless `more` says one.
fn bench(dir: &Path, more: &[&str]) -> Child {
    // In a shell that does not ignore the signal, whatever the tests were started with.
    let mut command = Command::new("env");
    command.args(["--default-signal=HUP", env!("CARGO_BIN_EXE_smsc"), "bench", "--threads", "2"]);
    command.args(more).current_dir(dir).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begin.elapsed() < FOREVER, "{what} does not come");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn signal(pid: u32, signal: i32) {
    // SAFETY: the call takes numbers only; the process is one of this test, which has not been
    // waited for.
    unsafe { libc::kill(pid.try_into().unwrap(), signal) };
}

/// How it ended, and what it said.
fn end(mut bench: Child) -> (ExitStatus, String) {
    let status = until("the end of the bench", || bench.try_wait().unwrap());
    let mut said = String::new();
    bench.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    (status, said)
}

/// The store's directory, once it is there.
fn store(dir: &Path) -> PathBuf {
    until("the store", || Some(std::fs::read_dir(dir).unwrap().next()?.unwrap().path()))
}

fn is_empty(dir: &Path) -> bool {
    std::fs::read_dir(dir).unwrap().next().is_none()
}

/// A queue was filled to its end whatever one did, and SIGHUP left the store behind.
#[test]
fn each_signal_ends_a_bench_in_order_while_it_fills_and_while_it_runs() {
    let fills = ["--side", "sender", "--messages", "1000000000"];
    let runs = ["--side", "both", "--seconds", "100000"];
    for (more, number) in
        [(&fills[..], libc::SIGINT), (&runs, libc::SIGHUP), (&runs, libc::SIGTERM), (&fills, libc::SIGHUP)]
    {
        let dir = tempfile::tempdir().unwrap();
        let bench = bench(dir.path(), more);
        store(dir.path());
        std::thread::sleep(Duration::from_millis(300));
        signal(bench.id(), number);
        let (status, said) = end(bench);
        assert_eq!(status.code(), Some(1), "{number}: {said}");
        assert!(is_empty(dir.path()), "signal {number} leaves something behind");
    }
}

/// Nobody can tidy up at a kill -9; each left a store.
#[test]
fn the_next_bench_removes_what_a_killed_one_has_left_and_not_what_is_in_use() {
    let dir = tempfile::tempdir().unwrap();
    let owned = |path: &Path| path.join("smsc-bench.owner").exists().then_some(());
    let runs = ["--seconds", "100000"];
    let mut killed = bench(dir.path(), &runs);
    let left = store(dir.path());
    until("the claim", || owned(&left));
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert!(left.exists(), "nobody could tidy up");
    let running = bench(dir.path(), &runs);
    let in_use = until("the next store", || {
        let mut entries = std::fs::read_dir(dir.path()).unwrap().flatten().map(|entry| entry.path());
        entries.find(|path| *path != left)
    });
    until("its claim", || owned(&in_use));
    assert!(!left.exists(), "the next bench has removed it");
    let (status, said) = end(bench(dir.path(), &["--messages", "100"]));
    assert!(status.success() && in_use.exists() && !said.contains("removed"), "{status}: {said}");
    signal(running.id(), libc::SIGINT);
    let (_, said) = end(running);
    assert!(said.contains("removed, left by a bench that was killed"), "{said}");
    assert!(is_empty(dir.path()));
}

/// Who starts a bench with nohup wants it to go on.
#[test]
fn an_ignored_hangup_stays_ignored() {
    let dir = tempfile::tempdir().unwrap();
    let bench = format!("trap '' HUP; exec {} bench --threads 1 --seconds 1", env!("CARGO_BIN_EXE_smsc"));
    let mut command = Command::new("sh");
    let command = command.args(["-c", &bench]).current_dir(dir.path()).stdout(Stdio::null());
    let bench = command.stderr(Stdio::piped()).spawn().unwrap();
    store(dir.path());
    signal(bench.id(), libc::SIGHUP);
    let (status, said) = end(bench);
    assert!(status.success(), "{status}: {said}");
}

/// Process and parent of all processes.
fn processes() -> Vec<(u32, u32)> {
    let parent = |pid: u32| {
        let stat = read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
        // A zombie has ended.
        (fields[0] != "Z").then_some((pid, fields[1].parse().ok()?))
    };
    let pids = std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().to_str()?.parse().ok());
    pids.filter_map(parent).collect()
}

/// A bench on PostgreSQL whose sessions have stopped answering: the bench, the server, its
/// directory.
fn deaf_bench(dir: &Path, patience: &str) -> Option<(Child, u32, PathBuf)> {
    if let Err(error) = postgresql_server::find_programs(None) {
        eprintln!("skipped: {error}");
        return None;
    }
    // PostgreSQL runs as another user.
    std::fs::set_permissions(dir, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let more = ["--store", "postgresql", "--window", "4", "--seconds", "100000", "--patience", patience];
    let bench = bench(dir, &more);
    let directory = store(dir);
    let server: u32 = until("the server", || {
        let pid = read_to_string(directory.join("postgresql/postmaster.pid")).ok()?;
        pid.lines().next()?.trim().parse().ok()
    });
    let sessions = || -> Vec<u32> {
        let is_session = |pid: u32| {
            read_to_string(format!("/proc/{pid}/cmdline"))
                .is_ok_and(|command| command.contains("fathom postgres"))
        };
        processes()
            .into_iter()
            .filter(|process| process.1 == server && is_session(process.0))
            .map(|process| process.0)
            .collect()
    };
    // What has been accepted tells that all are there, and that none is still being opened: a bench
    // that has not begun yet waits for those that are stopped, and does not watch.
    let data = File::open(directory.join("postgresql")).unwrap();
    let socket = format!("%2Fproc%2Fself%2Ffd%2F{}", data.as_raw_fd());
    let url = format!("postgresql://fathom@{socket}:5432/postgres?sslmode=disable");
    until("a message", || {
        let found = rows(&mut connect(&url).ok()?, "SELECT 1 FROM message LIMIT 1").ok()?;
        (!found.is_empty()).then_some(())
    });
    // Two clients, two senders with two each, the timers and who asks what is due.
    let sessions = until("all sessions", || Some(sessions()).filter(|sessions| sessions.len() >= 8));
    sessions.into_iter().for_each(|session| signal(session, libc::SIGSTOP));
    Some((bench, server, directory))
}

fn ends_with_its_bench(server: u32) {
    until("the end of the server", || {
        processes().iter().all(|process| process.0 != server && process.1 != server).then_some(())
    });
}

/// "stuck" was never told, and the bench never ended: its threads were waited for, and they waited
/// for the store.
#[test]
fn a_store_that_does_not_answer_ends_its_bench() {
    let dir = tempfile::tempdir().unwrap();
    // Patience for what a busy disk takes, so that it does not end before it is to.
    let Some((bench, server, directory)) = deaf_bench(dir.path(), "30") else { return };
    let (status, said) = end(bench);
    assert_eq!(status.code(), Some(1), "{status}: {said}");
    assert!(said.contains("smsc: stuck: nothing was attempted or accepted for 30 s, although "), "{said}");
    assert_eq!(said.matches("stuck").count(), 1, "{said}");
    let name = directory.file_name().unwrap().to_str().unwrap();
    assert!(said.contains("kept: ") && said.contains(name) && directory.exists(), "{said}");
    ends_with_its_bench(server);
}

/// Nothing but kill -9 ended a bench whose store did not answer.
#[test]
fn a_second_ctrl_c_ends_a_bench_at_once_and_tells_what_it_leaves_behind() {
    let dir = tempfile::tempdir().unwrap();
    let Some((mut bench, server, directory)) = deaf_bench(dir.path(), "100000") else { return };
    signal(bench.id(), libc::SIGINT);
    // Within a second it would be the same wish: `timeout` sends a signal twice.
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(bench.try_wait().unwrap(), None, "what is under way is waited for");
    // One that stood still has heard of both at once: then it is the next.
    let status = until("the end of the bench", || {
        signal(bench.id(), libc::SIGINT);
        std::thread::sleep(Duration::from_millis(1500));
        bench.try_wait().unwrap()
    });
    let mut said = String::new();
    bench.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!((status.code(), status.signal()), (Some(130), None), "{said}");
    let name = directory.file_name().unwrap().to_str().unwrap();
    assert!(said.contains("left behind, PostgreSQL is ending there: ") && said.contains(name), "{said}");
    ends_with_its_bench(server);
}

/// Without a server nobody writes there any more, so nothing need stay.
#[test]
fn a_second_ctrl_c_leaves_nothing_behind_that_can_be_removed() {
    let dir = tempfile::tempdir().unwrap();
    let mut bench = bench(dir.path(), &["--side", "receiver", "--seconds", "100000"]);
    store(dir.path());
    std::thread::sleep(Duration::from_millis(300));
    // Stopped, it gets both at once.
    signal(bench.id(), libc::SIGSTOP);
    for number in [libc::SIGINT, libc::SIGTERM, libc::SIGCONT] {
        signal(bench.id(), number);
    }
    let status = until("the end of the bench", || bench.try_wait().unwrap());
    assert!([Some(1), Some(130), Some(143)].contains(&status.code()), "{status}");
    assert!(is_empty(dir.path()), "something is left behind");
}
