//! The process that holds a guest whose file system is mounted on this machine, in `fathom stack up`.
//!
//! It outlives the command, as the server of a modelled device does, and ends when the mount is taken away or the guest is not
//! what it was. Why it ended before its time is in a file beside what the guest's kernel keeps.
//!
//! ```text
//! stdin    an Order as one line of JSON, then `keep`; the end of it before means that the owner is gone
//! stdout   one line of JSON: {"ready": {"path": …, "record": …}} or {"error": "…"}
//! ```

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::{STUCK, mount};
use crate::claim::{Entry, mount_point};
use crate::companion::{Companion, fusermounted, say};
use crate::filesystem::{FileSystem, Machine};
use crate::guest::machine::Beat;
use crate::guest::stack::{Disk, Disks};
use crate::guest::{Guest, Kernel, STATE};
use crate::image::Image;
use crate::mountinfo::mounts;
use crate::spec::StackRecord;
use crate::stack::Stacks;

/// Word of the command line.
const WORD: &str = "guest-keeper";
/// Its process id, in the directory of what the guest's kernel keeps.
const PID: &str = "keeper";
/// Why it ended before its time, beside that.
const BROKEN: &str = "broken";
/// How often an unused mount is taken away once the owner is gone.
const AGAIN: Duration = Duration::from_millis(100);
/// How long a keeper may take to end once its guest has.
const END_LIMIT: Duration = Duration::from_secs(5);

/// What a keeper is to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(in crate::guest) struct Order {
    /// Directory of the stack's entry.
    pub home: PathBuf,
    /// What it says.
    pub entry: Entry,
    /// The kernel.
    pub kernel: Kernel,
    /// Its program, which the kernel's description does not hold.
    pub kernel_path: PathBuf,
    /// Images, by descriptors of the owner's.
    pub images: Vec<PathBuf>,
    /// The modelled devices' files.
    pub devices: Vec<Disk>,
    /// The disk in words.
    pub described: String,
    /// What is known already that a reader must know.
    pub warnings: Vec<String>,
    /// Where mkfs and mount programs are looked for first.
    pub tools: Vec<PathBuf>,
    /// Time limit of mkfs and mount, ms.
    pub limit_ms: u64,
    /// Whether images are written in full.
    pub allocate: bool,
}

/// What a keeper says when it is ready.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(in crate::guest) struct Ready {
    /// Where to work.
    pub path: PathBuf,
    /// What was made.
    pub record: StackRecord,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Answer {
    Ready(Box<Ready>),
    Error(String),
}

/// The whole of `fathom guest-keeper`.
#[must_use]
pub fn main() -> ExitCode {
    let mut lines = BufReader::new(std::io::stdin()).lines();
    let order = lines.next().and_then(Result::ok).unwrap_or_default();
    let order: Order = match serde_json::from_str(&order) {
        Ok(order) => order,
        Err(error) => {
            say(&Answer::Error(format!("the order: {error}")));
            return ExitCode::FAILURE;
        }
    };
    let point = mount_point(&order.home);
    thread::spawn(move || {
        if !lines.map_while(Result::ok).any(|line| line.trim() == "keep") {
            give_up(&point);
        }
    });
    let state = order.home.join(STATE);
    match serve(&order, &state) {
        Ok((mut guest, ready)) => {
            say(&Answer::Ready(Box::new(ready)));
            let watched = watch(&mut guest);
            if let Err(problem) = &watched {
                // Where this cannot be written, the mount's errors tell as much.
                let _ = fs::write(state.join(BROKEN), format!("{problem}\n"));
                mount::abort(&mount_point(&order.home));
            }
            guest.end();
            if watched.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(problem) => {
            say(&Answer::Error(problem));
            ExitCode::FAILURE
        }
    }
}

/// The owner is gone before the stack was complete: nothing of it stays. The guest ends with this process.
fn give_up(point: &Path) -> ! {
    while mounts().is_ok_and(|all| all.iter().any(|it| it.point == point)) {
        if !fusermounted(point) {
            thread::sleep(AGAIN);
        }
    }
    std::process::exit(1)
}

fn serve(order: &Order, state: &Path) -> Result<(Guest, Ready), String> {
    fs::create_dir_all(state)
        .and_then(|()| fs::write(state.join(PID), std::process::id().to_string()))
        .map_err(|error| format!("{}: {error}", state.display()))?;
    let point = mount_point(&order.home);
    let kernel = Kernel { path: order.kernel_path.clone(), ..order.kernel.clone() };
    let agent = crate::own_program().map_err(|error| format!("this program's own path: {error}"))?;
    let stacks = Stacks {
        tools: order.tools.clone(),
        limit: Duration::from_millis(order.limit_ms),
        allocate: order.allocate,
        server: Some(agent.clone()),
        kernel: Some(kernel.clone()),
        ..Stacks::here()
    };
    let filesystem = filesystem(&stacks, &order.entry.spec.filesystem)?;
    let open = |path: &PathBuf| {
        let file = OpenOptions::new().read(true).write(true).open(path);
        let bytes = |file: &fs::File| file.metadata().map(|it| it.len());
        let image = file.and_then(|file| Ok(Image { bytes: bytes(&file)?, file }));
        image.map_err(|error| format!("{}: {error}", path.display()))
    };
    let disks = Disks {
        devices: order.devices.clone(),
        images: order.images.iter().map(open).collect::<Result<_, _>>()?,
        described: order.described.clone(),
        warnings: order.warnings.clone(),
    };
    let connection = mount::mount(&point, &filesystem.name)?;
    let guest = Guest::boot(&kernel, &agent, &disks.all(), state, Some(&connection));
    // From here on it is the guest's alone: with the guest it ends, and every operation on the mount with it.
    drop(connection);
    let mut guest = guest.map_err(|error| error.to_string())?;
    let made = stacks.make_on(&mut guest, &order.entry, &filesystem, &disks);
    let (_, record) = made.map_err(|error| error.to_string())?;
    let root_is = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    guest.serve(filesystem.case_folds(), root_is).map_err(|error| error.to_string())?;
    Ok((guest, Ready { path: point.join("work"), record }))
}

fn filesystem(stacks: &Stacks, name: &str) -> Result<FileSystem, String> {
    let machine = Machine { guest: stacks.kernel.clone(), ..Machine::here(&stacks.tools) };
    let found = machine.known().iter().find(|it| it.name == name).cloned();
    found.ok_or_else(|| format!("there is no file system {name:?}"))
}

/// Until the mount is taken away.
///
/// # Errors
/// In words: what is the matter with the guest.
fn watch(guest: &mut Guest) -> Result<(), String> {
    let mut stillness = Stillness::begin(Instant::now());
    loop {
        match guest.beat(STUCK) {
            Ok(Beat::Unmounted) => return Ok(()),
            Ok(Beat::Serving { waited, operations }) => {
                if stillness.is_too_long(waited, operations, Instant::now()) {
                    return Err(format!(
                        "an operation has waited for {} s while the disk did nothing; the guest was ended",
                        waited.as_secs()
                    ));
                }
            }
            Err(error) => return Err(error.to_string()),
        }
    }
}

/// Since when the disk has done nothing although something waits. A card may well take a minute for what is dirty; but then it
/// completes operations all the time.
#[derive(Debug)]
struct Stillness {
    operations: u64,
    since: Instant,
}

impl Stillness {
    fn begin(now: Instant) -> Stillness {
        Stillness { operations: 0, since: now }
    }

    /// How it stands now: for how long the oldest operation has waited, and how many the disk has completed.
    fn is_too_long(&mut self, waited: Duration, operations: u64, now: Instant) -> bool {
        if operations != self.operations || waited.is_zero() {
            *self = Stillness { operations, since: now };
        }
        waited >= STUCK && now.duration_since(self.since) >= STUCK
    }
}

/// A keeper that this process started.
#[derive(Debug)]
pub(crate) struct Keeper(Companion);

impl Keeper {
    /// Starts `program guest-keeper` and waits until the file system is mounted.
    ///
    /// # Errors
    /// In words: what the keeper says.
    pub(in crate::guest) fn start(
        program: &Path,
        order: &Order,
        limit: Duration,
    ) -> Result<(Keeper, Ready), String> {
        let text = serde_json::to_string(order).map_err(|error| error.to_string())?;
        let log = order.home.join(STATE).join("keeper.log");
        let mut companion = Companion::start(program, WORD, &text, &log)?;
        let line = companion.line(limit)?;
        match serde_json::from_str(&line) {
            Ok(Answer::Ready(ready)) => Ok((Keeper(companion), *ready)),
            Ok(Answer::Error(problem)) => Err(problem),
            Err(error) => Err(format!("the guest's keeper says {line:?}: {error}")),
        }
    }

    /// Lets the keeper outlive this process.
    pub fn keep(self) {
        self.0.keep();
    }

    /// Waits for the keeper's end after the mount was taken away.
    pub fn end(self) {
        self.0.end();
    }
}

/// Why the guest of a stack is not what it was, if it is not.
pub(crate) fn broken(home: &Path) -> Option<String> {
    fs::read_to_string(home.join(STATE).join(BROKEN)).ok().map(|text| text.trim().to_owned())
}

/// Waits for the keeper whose guest was ended and whose mount is gone; one that does not end is killed.
pub(crate) fn end_left_behind(state: &Path) {
    let Ok(text) = fs::read_to_string(state.join(PID)) else { return };
    let Some(pid) = text.trim().parse().ok().and_then(rustix::process::Pid::from_raw) else { return };
    let begin = Instant::now();
    loop {
        let words = fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).unwrap_or_default();
        if !words.split(|byte| *byte == 0).any(|word| word == WORD.as_bytes()) {
            return;
        }
        if begin.elapsed() > END_LIMIT {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            return;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_works_may_take_its_time_and_one_that_does_not_may_not() {
        let begin = Instant::now();
        let at = |seconds: u64| begin + Duration::from_secs(seconds);
        let mut slow = Stillness::begin(begin);
        for second in 0..300 {
            let waited = Duration::from_secs(second);
            assert!(!slow.is_too_long(waited, second / 20, at(second)), "a flush goes on: {second} s");
        }
        let mut idle = Stillness::begin(begin);
        assert!(!(0..300).any(|second| idle.is_too_long(Duration::ZERO, 7, at(second))), "nothing waits");
        let mut stuck = Stillness::begin(begin);
        let too_long = |second: &u64| {
            let waited = Duration::from_secs(second.saturating_sub(100));
            stuck.is_too_long(waited, 7, at(*second))
        };
        assert_eq!((0..300).find(too_long), Some(130), "half a minute after the operation began");
    }
}
