//! The machine and this process's rights on it.

use std::ffi::OsString;
use std::path::PathBuf;

/// Whether this process is root and may so mount file systems, have loop devices, and use root's
/// directories: root's user id, and not that of a user namespace (`unshare -Ur`, a rootless
/// container), which is an ordinary user outside of it.
#[must_use]
pub fn is_root() -> bool {
    // Without /proc nobody tells, and what root may not do after all fails with its own reason.
    rustix::process::geteuid().is_root() && !in_user_namespace()
}

/// Whether this process is in a user namespace other than the machine's own, as user_namespaces(7)
/// has it: there all ids are their own.
#[must_use]
pub fn in_user_namespace() -> bool {
    std::fs::read_to_string("/proc/self/uid_map")
        .is_ok_and(|text| text.split_whitespace().ne(["0", "0", "4294967295"]))
}

/// A directory as a variable of the XDG Base Directory Specification names it: one that is relative
/// is ignored, as that asks.
#[must_use]
pub fn base_directory(named: Option<OsString>) -> Option<PathBuf> {
    named.map(PathBuf::from).filter(|path| path.is_absolute())
}

/// CPUs of the machine that are online, whatever this process is pinned to; at least 1.
#[must_use]
pub fn online_cpus() -> usize {
    // SAFETY: sysconf takes no pointers.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }).unwrap_or(1).max(1)
}

/// The release of the kernel that runs, as `uname -r` has it.
#[must_use]
pub fn kernel_release() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

/// CLOCK_MONOTONIC, ns: the clock of traces and of modelled devices.
#[must_use]
pub fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    // The clock counts from boot and is never negative.
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// One moment by two clocks, [`std::time::Instant`] and [`now_ns`], to tell the times of one by the
/// other. How far they may lie apart is known from a reading between two others; of several, the
/// closest is taken.
///
/// Read one after the other they lay up to 0.1 ms apart, differently in each process: what reads
/// the clock first looks for the kernel's quick way to it. All that a modelled device did lay that
/// much later than the calls that had waited for it, and model time was up to 5 % short.
#[must_use]
pub fn moment() -> (std::time::Instant, u64) {
    let read = || {
        let before = std::time::Instant::now();
        let ns = now_ns();
        let width = before.elapsed();
        (width, before + width / 2, ns)
    };
    let mut closest = read();
    for _ in 0..15 {
        let again = read();
        if again.0 < closest.0 {
            closest = again;
        }
    }
    (closest.1, closest.2)
}

/// Whether an error says that a disk is full, or a quota used up.
#[must_use]
pub fn is_full_disk(error: &std::io::Error) -> bool {
    matches!(error.kind(), std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded)
}

/// Whether this process may make files in a directory.
///
/// # Errors
/// What the kernel says, EROFS and EACCES among it.
pub fn may_write(directory: &std::path::Path) -> std::io::Result<()> {
    use rustix::fs::{Access, AtFlags, CWD, accessat};
    let access = Access::WRITE_OK | Access::EXEC_OK;
    accessat(CWD, directory, access, AtFlags::EACCESS).map_err(std::io::Error::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened: `XDG_STATE_HOME=state` made a list of stacks in whatever directory a command
    /// was given in, and the next one did not find it.
    #[test]
    fn a_relative_base_directory_is_ignored() {
        let of = |named: &str| base_directory(Some(named.into()));
        assert_eq!(of("/var/state"), Some(PathBuf::from("/var/state")));
        assert_eq!([of("state"), of(""), of("~/state"), base_directory(None)], [None, None, None, None]);
    }

    /// The two clocks lay as far apart as the first reading of the second one took, 0.1 ms, and
    /// model time was up to 5 % short, by process.
    #[test]
    fn a_moment_is_the_same_by_both_clocks() {
        for _ in 0..100 {
            let (at, ns) = moment();
            // What keeps the thread from running here lies between the two bounds.
            let earliest = now_ns() - ns;
            let elapsed = at.elapsed().as_nanos() as u64;
            let latest = now_ns() - ns;
            let slack = 20_000;
            assert!(
                (earliest..=latest + slack).contains(&(elapsed + slack / 2)),
                "{earliest} {elapsed} {latest}"
            );
        }
    }
}
