//! The relay: a file system that only a guest has, mounted on this machine for any program of its.
//!
//! The host mounts a FUSE file system and hands its connection to the guest (`mount.rs`), whose
//! agent answers the host's kernel itself (`files.rs`): a program's operation goes from the host's
//! kernel to the guest's and back, and no third party copies it. The guest's kernel has the
//! connection as `/dev/fathom-fuse` (`kernel/fathom_fuse.c`).
//!
//! A process of its own (`keeper`) holds the guest for as long as the file system is mounted. The
//! agent tells it every two seconds how it stands; where an operation has waited for half a minute
//! while the disk did nothing, or the agent is silent, the guest is ended: the host's kernel then
//! gives every operation an error at once.

mod files;
pub(crate) mod mount;
mod nodes;
mod underway;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use fuser::{Session, SessionACL};

use files::Files;
pub(super) use files::Terms;
use underway::UnderWay;

use super::protocol::Answer;

/// The connection in the guest.
const CONNECTION: &str = "/dev/fathom-fuse";
/// How often the agent tells how it stands.
const BEAT: Duration = Duration::from_secs(2);
/// How long an operation may wait while the disk does nothing, and how long the agent may be
/// silent.
pub(crate) const STUCK: Duration = Duration::from_secs(30);
/// Operations that the agent does at the same time: one that waits for the disk must not keep
/// others from the cache.
const AT_ONCE: usize = 8;
/// Files that may be open or known at the same time.
const MOST_FILES: u64 = 1 << 20;
/// The kernel's counts of what the disk has completed, and the places of reads, writes, discards
/// and flushes among them.
const DISK: &str = "/sys/block/ubda/stat";
const COMPLETED: [usize; 4] = [0, 4, 11, 15];

/// In the guest: serves what is mounted at `point` to the host until the host's mount is taken
/// away. `say` passes an answer on.
///
/// # Errors
/// In words: the connection or the file system cannot be opened.
pub(super) fn serve(
    point: &Path,
    terms: Terms,
    say: &mut dyn FnMut(&Answer) -> Result<(), String>,
) -> Result<(), String> {
    let most = rustix::process::Rlimit { current: Some(MOST_FILES), maximum: Some(MOST_FILES) };
    // Fewer will do for most programs.
    let _ = rustix::process::setrlimit(rustix::process::Resource::Nofile, most);
    let under_way = Arc::new(UnderWay::default());
    let files = Files::at(point, terms, under_way.clone())
        .map_err(|error| format!("{}: {error}", point.display()))?;
    let connection = fs::OpenOptions::new().read(true).write(true).open(CONNECTION);
    let wrong = |error| format!("{CONNECTION}: {error}");
    let mut config = fuser::Config::default();
    config.n_threads = Some(AT_ONCE);
    // Who may come was told to the host's kernel.
    let session = Session::from_fd(files, connection.map_err(wrong)?.into(), SessionACL::All, config);
    let session = session.map_err(wrong)?;
    say(&Answer::Done)?;
    let (sender, ended) = channel();
    thread::spawn(move || sender.send(session.run()));
    loop {
        match ended.recv_timeout(BEAT) {
            Ok(result) => return result.map_err(wrong),
            Err(RecvTimeoutError::Disconnected) => return Err("the thread that serves has failed".into()),
            Err(RecvTimeoutError::Timeout) => {}
        }
        let waited = BEAT * u32::try_from(under_way.beat()).unwrap_or(u32::MAX);
        let waited_ms = u64::try_from(waited.as_millis()).unwrap_or(u64::MAX);
        say(&Answer::Serving { waited_ms, operations: completed() })?;
    }
}

/// What the disk has completed so far.
fn completed() -> u64 {
    let text = fs::read_to_string(DISK).unwrap_or_default();
    let numbers: Vec<u64> = text.split_whitespace().map(|word| word.parse().unwrap_or(0)).collect();
    COMPLETED.iter().filter_map(|place| numbers.get(*place)).sum()
}
