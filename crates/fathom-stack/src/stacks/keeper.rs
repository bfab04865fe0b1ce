//! The keeper: the sidecar process that holds a guest whose file system is mounted on this machine,
//! in `fathom stack up`.
//!
//! It outlives the command, as the server of a modelled device does, and ends when the mount is
//! taken away or the guest is not what it was. Why it ended before its time is in a file beside
//! what the guest's kernel keeps.
//!
//! ```text
//! stdin    a Request as one line of JSON, then `keep`; its end before: no owner
//! stdout   one line of JSON: {"ready": {"path": …, "record": …}} or {"error": "…"}
//! ```

use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use fathom_device::Model;
use fathom_ground::fuse_mount::unmount;
use fathom_ground::mountinfo::mounts;
use fathom_ground::program::own_program;
use fathom_ground::sidecar::{Sidecar, say};
use serde::{Deserialize, Serialize};

use super::claim::Claim;
use super::config::Stacks;
use super::entry::{Entry, mount_point};
use super::error::StackError;
use super::in_guest::{Disks, no_agent, path_of, state_in};
use crate::ground::image::Image;
use crate::guest::keeper::{BROKEN, PID, WORD};
use crate::guest::relay::{STUCK, mount};
use crate::guest::{Beat, Disk, Guest, Kernel, STATE, milliseconds};
use crate::spec::{FileSystem, Machine, Place, StackRecord};

/// How long a keeper may take beside what its commands may: it boots, and writes images in full.
const KEEPER_LIMIT: Duration = Duration::from_secs(120);
/// What a reader of times on a mount of a guest's must know.
const RELAY_WARNING: &str = "each operation that this machine's kernel has not in its caches goes to the guest and back, which takes some \
     50 µs more than the file system itself would; docs/guest-kernel.md has figures";
/// How often an unused mount is taken away once the owner is gone.
const AGAIN: Duration = Duration::from_millis(100);

/// What a keeper is to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Request {
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
struct Ready {
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
    let text = lines.next().and_then(Result::ok).unwrap_or_default();
    let request: Request = match serde_json::from_str(&text) {
        Ok(request) => request,
        Err(error) => {
            say(&Answer::Error(format!("the request: {error}")));
            return ExitCode::FAILURE;
        }
    };
    let point = mount_point(&request.home);
    thread::spawn(move || {
        if !lines.map_while(Result::ok).any(|line| line.trim() == "keep") {
            give_up(&point);
        }
    });
    let state = request.home.join(STATE);
    match serve(&request, &state) {
        Ok((mut guest, ready)) => {
            say(&Answer::Ready(Box::new(ready)));
            let watched = watch(&mut guest);
            if let Err(problem) = &watched {
                // Where this cannot be written, the mount's errors tell as much.
                let _ = fs::write(state.join(BROKEN), format!("{problem}\n"));
                mount::abort(&mount_point(&request.home));
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

/// The owner is gone before the stack was complete: nothing of it stays. The guest ends with this
/// process.
fn give_up(point: &Path) -> ! {
    while mounts().is_ok_and(|all| all.iter().any(|mount| mount.point == point)) {
        if !unmount(point) {
            thread::sleep(AGAIN);
        }
    }
    std::process::exit(1)
}

fn serve(request: &Request, state: &Path) -> Result<(Guest, Ready), String> {
    fs::create_dir_all(state)
        .and_then(|()| fs::write(state.join(PID), std::process::id().to_string()))
        .map_err(|error| format!("{}: {error}", state.display()))?;
    let point = mount_point(&request.home);
    let kernel = Kernel { path: request.kernel_path.clone(), ..request.kernel.clone() };
    let agent = own_program().map_err(|error| format!("this program's own path: {error}"))?;
    let stacks = Stacks {
        tools: request.tools.clone(),
        limit: Duration::from_millis(request.limit_ms),
        allocate: request.allocate,
        program: Some(agent.clone()),
        kernel: Some(kernel.clone()),
        ..Stacks::here()
    };
    let filesystem = filesystem(&stacks, &request.entry.spec.place)?;
    let open = |path: &PathBuf| {
        let file = OpenOptions::new().read(true).write(true).open(path);
        let bytes = |file: &fs::File| file.metadata().map(|about| about.len());
        let image = file.and_then(|file| Ok(Image { bytes: bytes(&file)?, file }));
        image.map_err(|error| format!("{}: {error}", path.display()))
    };
    let disks = Disks {
        devices: request.devices.clone(),
        images: request.images.iter().map(open).collect::<Result<_, _>>()?,
        described: request.described.clone(),
        warnings: request.warnings.clone(),
    };
    let connection = mount::mount(&point, &filesystem.name)?;
    let guest = Guest::boot(&kernel, &agent, &disks.all(), state, Some(&connection));
    // From here on it is the guest's alone: with the guest it ends, and every operation on the
    // mount with it.
    drop(connection);
    let mut guest = guest.map_err(|error| error.to_string())?;
    let made = stacks.make_on(&mut guest, &request.entry, &filesystem, &disks);
    let (_, record) = made.map_err(|error| error.to_string())?;
    let root_is = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    guest.serve(filesystem.case_folds, root_is).map_err(|error| error.to_string())?;
    Ok((guest, Ready { path: point.join("work"), record }))
}

fn filesystem(stacks: &Stacks, place: &Place) -> Result<FileSystem, String> {
    let machine = Machine::with_tools(&stacks.tools).with_guest(stacks.kernel.clone());
    let found = place.filesystem().and_then(|name| machine.filesystem(name)).cloned();
    found.ok_or_else(|| format!("there is no file system {:?}", place.name()))
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

/// Since when the disk has done nothing although something waits. A card may well take a minute for
/// what is dirty; but then it completes operations all the time.
#[derive(Debug)]
struct Stillness {
    operations: u64,
    since: Instant,
}

impl Stillness {
    fn begin(now: Instant) -> Stillness {
        Stillness { operations: 0, since: now }
    }

    /// How it stands now: for how long the oldest operation has waited, and how many the disk has
    /// completed.
    fn is_too_long(&mut self, waited: Duration, operations: u64, now: Instant) -> bool {
        if operations != self.operations || waited.is_zero() {
            *self = Stillness { operations, since: now };
        }
        waited >= STUCK && now.duration_since(self.since) >= STUCK
    }
}

/// Starts `program guest-keeper` and waits until the file system is mounted.
///
/// # Errors
/// In words: what the keeper says.
fn start(program: &Path, request: &Request, limit: Duration) -> Result<(Sidecar, Ready), String> {
    let text = serde_json::to_string(request).map_err(|error| error.to_string())?;
    let log = request.home.join(STATE).join("keeper.log");
    let mut keeper = Sidecar::start(program, WORD, &text, &log)?;
    let line = keeper.line(limit)?;
    match serde_json::from_str(&line) {
        Ok(Answer::Ready(ready)) => Ok((keeper, *ready)),
        Ok(Answer::Error(problem)) => Err(problem),
        Err(error) => Err(format!("the guest's keeper says {line:?}: {error}")),
    }
}

impl Stacks {
    /// As [`Stacks::make_in_guest`], with the guest in a process of its own that has it mounted
    /// here as well, for as long as it is mounted.
    pub(crate) fn make_relayed(
        &self,
        claim: &mut Claim,
        filesystem: &FileSystem,
        modelled: &[(File, Model)],
        kernel: &Kernel,
    ) -> Result<(PathBuf, StackRecord), StackError> {
        let mut disks = self.disks(claim, modelled)?;
        disks.warnings.push(RELAY_WARNING.into());
        let program = self.program.as_deref().ok_or_else(|| no_agent(filesystem))?;
        state_in(&claim.home)?;
        let request = Request {
            home: claim.home.clone(),
            entry: claim.entry.clone(),
            kernel: kernel.clone(),
            kernel_path: kernel.path.clone(),
            images: disks.images.iter().map(|image| path_of(&image.file)).collect(),
            devices: disks.devices,
            described: disks.described,
            warnings: disks.warnings,
            tools: self.tools.clone(),
            limit_ms: milliseconds(self.limit),
            allocate: self.allocate,
        };
        // mkfs in several steps, sync, settling, mount.
        let limit = KEEPER_LIMIT + 5 * self.limit + Duration::from_secs(claim.entry.spec.size_mib / 20);
        let point = claim.mount_point();
        let started = start(program, &request, limit);
        let (keeper, ready) = started.map_err(|problem| StackError::Mount { path: point, problem })?;
        claim.keeper = Some(keeper);
        Ok((ready.path, ready.record))
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
