//! A tracefs instance of our own: buffers, clock, events and their filters, and its removal.
//!
//! An instance is a directory in tracefs's `instances`; it outlives the process that made it. So it
//! carries its owner's mark as images do (`fathom-LABEL-PID-START-N`), and whoever undoes a stack
//! removes the instance of its tag.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::error::TraceError;
use fathom_ground::mountinfo::mounts;

/// Events recorded, in the order of their life.
pub(super) const EVENTS: [&str; 3] = ["block_getrq", "block_rq_issue", "block_rq_complete"];

/// Buffer of each CPU, KiB: 16 MiB hold the events of about 80,000 requests, of which the reader
/// takes everything every [`super::record::PAUSE`].
pub(crate) const BUFFER_KIB: u32 = 16 << 10;

/// An instance, removed when dropped.
#[derive(Debug)]
pub(super) struct Instance {
    path: PathBuf,
}

impl Instance {
    /// Makes an instance whose buffers record nothing yet.
    pub fn make(tag: &str, buffer_kib: u32) -> Result<Instance, TraceError> {
        let path = instance_path(tag).map_err(TraceError::NoTracefs)?;
        fs::create_dir(&path).map_err(TraceError::io("make", &path))?;
        // From here on an error removes it.
        let instance = Instance { path };
        instance.write("tracing_on", "0")?;
        instance.write("trace_clock", "mono")?;
        instance.write("buffer_size_kb", &buffer_kib.to_string())?;
        Ok(instance)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The description of an event.
    pub fn format_path(&self, event: &str) -> PathBuf {
        self.path.join("events/block").join(event).join("format")
    }

    /// The raw buffer of each CPU.
    pub fn buffers(&self) -> Result<Vec<PathBuf>, TraceError> {
        let directory = self.path.join("per_cpu");
        let entries = fs::read_dir(&directory).map_err(TraceError::io("list", &directory))?;
        let mut all: Vec<PathBuf> =
            entries.flatten().map(|entry| entry.path().join("trace_pipe_raw")).collect();
        all.sort();
        Ok(all)
    }

    /// Records the block events of these devices from now on.
    pub fn begin(&self, devices: &[(u32, u32)]) -> Result<(), TraceError> {
        // The kernel's own dev_t, as its events have it: 12 bits major, 20 bits minor.
        let filter: Vec<String> =
            devices.iter().map(|&(major, minor)| format!("dev == {}", major << 20 | minor)).collect();
        for event in EVENTS {
            self.write(&format!("events/block/{event}/filter"), &filter.join(" || "))?;
        }
        // The completion of a request is recorded wherever its issue is: events are enabled
        // backwards.
        for event in EVENTS.iter().rev() {
            self.write(&format!("events/block/{event}/enable"), "1")?;
        }
        self.write("tracing_on", "1")
    }

    /// Of requests that are at the device by now, the completion is still recorded; of others
    /// nothing.
    pub fn begin_nothing_more(&self) -> Result<(), TraceError> {
        let [made, issued, _] = EVENTS;
        for event in [made, issued] {
            self.write(&format!("events/block/{event}/enable"), "0")?;
        }
        Ok(())
    }

    /// Events that found no room, over all CPUs: `overrun`, `commit overrun` and `dropped events`
    /// of `per_cpu/*/stats`.
    pub fn lost_events(&self) -> Result<u64, TraceError> {
        let mut lost = 0;
        for buffer in self.buffers()? {
            let path = buffer.with_file_name("stats");
            let text = fs::read_to_string(&path).map_err(TraceError::io("read", &path))?;
            lost += lost_in(&text);
        }
        Ok(lost)
    }

    fn write(&self, name: &str, text: &str) -> Result<(), TraceError> {
        let path = self.path.join(name);
        fs::write(&path, text).map_err(TraceError::io("write", &path))
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if let Err(error) = remove_instance(&self.path) {
            // A destructor can return nothing, and a leftover must not be passed over in silence.
            eprintln!(
                "fathom: removing {}: {error}; `fathom stack down --leftovers` tries again",
                self.path.display()
            );
        }
    }
}

fn lost_in(stats: &str) -> u64 {
    let counted = ["overrun", "commit overrun", "dropped events"];
    let lines = stats.lines().filter_map(|line| line.split_once(':'));
    lines
        .filter(|(name, _)| counted.contains(&name.trim()))
        .filter_map(|(_, n)| n.trim().parse::<u64>().ok())
        .sum()
}

/// Where this process finds tracefs: where it is mounted, or where it is not (as on a machine that
/// was just started), in a mount without a place, which ends with the process and so cannot be left
/// behind. Such a path is this process's alone.
///
/// # Errors
/// Neither is to be had: no root, or a kernel without it.
pub fn tracing() -> io::Result<PathBuf> {
    let usual = Path::new("/sys/kernel/tracing");
    let mounts = mounts()?;
    let found =
        || mounts.iter().filter(|mount| mount.filesystem == "tracefs").map(|mount| mount.point.clone());
    if let Some(point) = found().find(|point| point == usual).or_else(|| found().next()) {
        return Ok(point);
    }
    let mut detached = DETACHED.lock().unwrap_or_else(PoisonError::into_inner);
    let mount = match detached.take() {
        Some(mount) => mount,
        None => detached_tracefs()?,
    };
    let path = PathBuf::from(format!("/proc/self/fd/{}", mount.as_raw_fd()));
    *detached = Some(mount);
    Ok(path)
}

/// The mount without a place, once it was needed.
static DETACHED: Mutex<Option<OwnedFd>> = Mutex::new(None);

fn detached_tracefs() -> rustix::io::Result<OwnedFd> {
    use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
    let filesystem = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
    fsconfig_create(&filesystem)?;
    fsmount(&filesystem, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())
}

/// Where the instance of a tag is, if it exists.
///
/// # Errors
/// There is no tracefs.
pub(crate) fn instance_path(tag: &str) -> io::Result<PathBuf> {
    Ok(tracing()?.join("instances").join(tag))
}

/// Every instance that carries a tag of Fathom's: tag and path.
pub(crate) fn tagged_instances() -> Vec<(String, PathBuf)> {
    let Ok(tracing) = tracing() else { return Vec::new() };
    let entries = fs::read_dir(tracing.join("instances")).into_iter().flatten().flatten();
    let mut all: Vec<(String, PathBuf)> = entries
        .filter_map(|entry| {
            let tag = entry.file_name().into_string().ok()?;
            let ours = tag.starts_with("fathom-") && crate::ground::tag::owner_in(&tag).is_some();
            ours.then(|| (tag, entry.path()))
        })
        .collect();
    all.sort();
    all
}

/// How long an instance that is to be removed may be in use.
const IN_USE: Duration = Duration::from_secs(20);

/// Removes an instance; one that is not there is fine. A reader may hold it for a moment longer,
/// and so may a child that is just being started, until its exec.
pub(crate) fn remove_instance(path: &Path) -> io::Result<()> {
    let start = Instant::now();
    loop {
        match fs::remove_dir(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(e) if e.raw_os_error() == Some(libc::EBUSY) && start.elapsed() < IN_USE => {
                std::thread::sleep(Duration::from_millis(5));
            }
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_summed() {
        let text =
            "entries: 7\noverrun: 2\ncommit overrun: 1\nbytes: 100\ndropped events: 40\nread events: 3\n";
        assert_eq!(lost_in(text), 43);
        assert_eq!(lost_in("overrun: x\n"), 0);
    }
}
