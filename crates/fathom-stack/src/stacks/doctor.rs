//! What this machine can do, found by trying where that is cheap, and the command that brings what
//! is missing.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fathom_ground::command::{CommandLine, find_library, find_program};
use fathom_ground::system::is_root;

use super::config::Stacks;
use crate::blocks::{TraceError, tracing};
use crate::ground::distribution::{Distribution, Package};
use crate::ground::loop_device;
use crate::guest;
use crate::spec::{Capability, FileSystem, Machine, StackRecord, StackSpec, no_loop};

/// Time limit of one `--version`.
const VERSION_LIMIT: Duration = Duration::from_secs(20);

/// Every capability, in the order a user wants to read: rights, file systems, instruments,
/// companions. As root, each file system that seems present is made, mounted, written and synced
/// once, on a small sparse image in the temporary directory (about a second for all).
#[must_use]
pub fn doctor() -> Vec<Capability> {
    let mut all = vec![root(), loops()];
    let machine = Machine::here();
    all.extend(machine.filesystems().iter().map(|filesystem| tried(&machine, filesystem)));
    all.extend([guest_kernel(&machine), block_trace(), drop_caches()]);
    all.extend(companions());
    all
}

/// The companion programs of [`doctor`] alone, asked for their version; nothing is mounted or
/// tried.
#[must_use]
pub fn companions() -> Vec<Capability> {
    let distribution = Distribution::here();
    vec![
        program("postgresql", postgresql().as_deref(), &distribution, Package::POSTGRESQL),
        sqlcipher(&distribution),
        program("redis-server", find_program("redis-server").as_deref(), &distribution, Package::REDIS),
        program("browser", browser().as_deref(), &distribution, Package::CHROMIUM),
        program(
            "c-compiler",
            first_of(&["cc", "gcc", "clang"]).as_deref(),
            &distribution,
            Package::C_COMPILER,
        ),
        program("sqlite3-shell", find_program("sqlite3").as_deref(), &distribution, Package::SQLITE),
    ]
}

fn present(name: &str, detail: impl Into<String>) -> Capability {
    Capability { name: name.into(), present: true, detail: detail.into(), remedy: String::new() }
}

fn absent(name: &str, detail: impl Into<String>, remedy: impl Into<String>) -> Capability {
    Capability { name: name.into(), present: false, detail: detail.into(), remedy: remedy.into() }
}

/// One command that installs every package of what is missing, those of the guest kernel's build
/// included where that is missing; none where no package brings anything.
#[must_use]
pub fn packages(missing: &[Capability]) -> Option<String> {
    packages_for(missing, &Distribution::here(), &guest::missing_tools(&Distribution::here()))
}

fn packages_for(missing: &[Capability], distribution: &Distribution, build: &[String]) -> Option<String> {
    let command = distribution.command();
    let is_guest = |capability: &&Capability| capability.name == GUEST_KERNEL;
    let missing = || missing.iter().filter(|capability| !capability.present);
    let brought = missing()
        .filter(|capability| !is_guest(capability))
        .filter_map(|capability| capability.remedy.strip_prefix(&command));
    let build = build.iter().filter(|_| missing().any(|capability| is_guest(&capability)));
    let mut names: Vec<&str> =
        brought.chain(build.map(String::as_str)).flat_map(str::split_whitespace).collect();
    names.sort_unstable();
    names.dedup();
    let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
    (!names.is_empty()).then(|| distribution.install(&names))
}

/// For what only root may do.
const AS_ROOT: &str = "sudo fathom doctor";

fn root() -> Capability {
    if is_root() {
        present("root", "mounts, loop devices and cache dropping are possible")
    } else if rustix::process::geteuid().is_root() {
        let why = "you are root in a user namespace only (`unshare -Ur`, a rootless container), who mounts no images; the file system `dir` works";
        absent("root", why, "outside of it: sudo fathom doctor")
    } else {
        absent("root", "you are not root; the file system `dir` works without", AS_ROOT)
    }
}

fn loops() -> Capability {
    match no_loop() {
        None => {
            let used = loop_device::attached().len();
            present("loop", format!("/dev/loop-control opens; {used} devices are in use"))
        }
        Some(reason) => absent("loop", reason, if is_root() { "" } else { AS_ROOT }),
    }
}

/// A file system, made and mounted where everything for it seems to be here.
fn tried(machine: &Machine, filesystem: &FileSystem) -> Capability {
    let availability = machine.availability(filesystem);
    let name = &*filesystem.name;
    if !availability.present {
        let remedy = if machine.root || machine.missing(filesystem).is_some() {
            availability.remedy
        } else {
            AS_ROOT.into()
        };
        return absent(name, availability.detail, remedy);
    }
    let start = Instant::now();
    match trial(filesystem) {
        Ok(version) => present(
            name,
            format!("{version}; made, mounted and synced in {} ms", start.elapsed().as_millis()),
        ),
        Err(why) => absent(name, format!("{} are here, but a trial failed: {why}", availability.detail), ""),
    }
}

/// Its name among the capabilities.
const GUEST_KERNEL: &str = "guest-kernel";

/// Whether there is a kernel for guests.
fn guest_kernel(machine: &Machine) -> Capability {
    match &machine.guest {
        Some(kernel) => {
            present(GUEST_KERNEL, format!("Linux {} with {}", kernel.release, kernel.filesystems.join(", ")))
        }
        None => {
            let distribution = &machine.distribution;
            let tools = distribution.install(&guest::missing_tools(distribution));
            let first = if tools.is_empty() { String::new() } else { format!("{tools} && ") };
            let detail = "for file systems that this kernel lacks, without root";
            absent(GUEST_KERNEL, detail, format!("{first}{}", guest::BUILD))
        }
    }
}

fn trial(filesystem: &FileSystem) -> Result<String, String> {
    let spec = StackSpec {
        place: (&*filesystem.name).into(),
        size_mib: filesystem.min_mib,
        directory: Some(std::env::temp_dir()),
        ..StackSpec::default()
    };
    let stacks = Stacks { allocate: false, limit: Duration::from_secs(20), ..Stacks::here() };
    let mut stack = stacks.up(&spec, "doctor").map_err(|e| e.to_string())?;
    if stack.guest().is_some() {
        let written = stack.floor(1).map(|_| ()).map_err(|e| e.to_string());
        let StackRecord { mkfs_version, guest, .. } = stack.record();
        stack.down().map_err(|e| e.to_string())?;
        return written.map(|()| format!("{mkfs_version} in a guest ({guest})"));
    }
    let path = stack.path().join("trial");
    let written = OpenOptions::new().write(true).create_new(true).open(&path).and_then(|mut file| {
        file.write_all(&[7; 4096])?;
        file.sync_data()
    });
    let version = stack.record().mkfs_version;
    stack.down().map_err(|e| e.to_string())?;
    written.map_err(|e| format!("writing and syncing a file: {e}"))?;
    Ok(version)
}

/// The block layer's events, from tracefs (blktrace's debugfs files are closed under kernel
/// lockdown; these may be open).
fn block_trace() -> Capability {
    const NAME: &str = "block-trace";
    if !is_root() {
        return absent(NAME, "tracefs needs root", AS_ROOT);
    }
    let tracing = match tracing() {
        Ok(tracing) => tracing,
        Err(e) => {
            let why = format!("{}{}", TraceError::NoTracefs(e), lockdown());
            return absent(NAME, why, "");
        }
    };
    // A path of this process's own says nothing to anybody else.
    let place = if tracing.starts_with("/proc") {
        "tracefs, mounted for this process alone".to_owned()
    } else {
        tracing.display().to_string()
    };
    match events(&tracing) {
        Ok(()) => present(NAME, format!("block events in {place}")),
        Err(why) => absent(NAME, format!("{place}: {why}{}", lockdown()), ""),
    }
}

/// Whether the block events are there and an instance of our own can be made.
fn events(tracing: &Path) -> Result<(), String> {
    for event in ["block_rq_issue", "block_rq_complete"] {
        let path = tracing.join("events/block").join(event).join("enable");
        OpenOptions::new().write(true).open(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    let instance = tracing.join("instances").join(format!("fathom-{}", std::process::id()));
    fs::create_dir(&instance).map_err(|e| format!("{}: {e}", instance.display()))?;
    fs::remove_dir(&instance).map_err(|e| format!("{}: {e}", instance.display()))
}

/// `; kernel lockdown is "confidentiality"`, where that is why.
fn lockdown() -> String {
    let text = fs::read_to_string("/sys/kernel/security/lockdown").unwrap_or_default();
    match text.split_once('[').and_then(|(_, rest)| rest.split_once(']')) {
        Some((level, _)) if level != "none" => format!("; kernel lockdown is {level:?}, which closes it"),
        _ => String::new(),
    }
}

fn drop_caches() -> Capability {
    match OpenOptions::new().write(true).open("/proc/sys/vm/drop_caches") {
        Ok(_) => present("drop-caches", "page cache, directory entries and inodes can be dropped"),
        Err(e) if is_root() => absent(
            "drop-caches",
            format!("/proc/sys/vm/drop_caches: {e}; files are evicted one by one instead"),
            "",
        ),
        Err(_) => absent(
            "drop-caches",
            "needs root; files are evicted one by one instead (names and inodes stay warm)",
            AS_ROOT,
        ),
    }
}

/// A companion program by its version.
fn program(name: &str, path: Option<&Path>, distribution: &Distribution, package: Package) -> Capability {
    let Some(path) = path else {
        return absent(name, "not installed", distribution.brings(package));
    };
    match CommandLine::new(path, ["--version"]).run(VERSION_LIMIT) {
        Ok(output) => {
            let version = output.stdout.lines().next().unwrap_or("no version").to_owned();
            present(name, format!("{}: {version}", path.display()))
        }
        Err(e) => absent(name, e.to_string(), distribution.brings(package)),
    }
}

fn first_of(names: &[&str]) -> Option<PathBuf> {
    names.iter().find_map(|name| find_program(name))
}

fn browser() -> Option<PathBuf> {
    first_of(&["chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"])
}

/// SQLCipher's shared library, by the names that distributions give it.
#[must_use]
pub fn sqlcipher_library() -> Option<PathBuf> {
    find_library(&["libsqlcipher.so.2", "libsqlcipher.so.1", "libsqlcipher.so.0", "libsqlcipher.so"])
}

fn sqlcipher(distribution: &Distribution) -> Capability {
    // The library that a package would bring could not be loaded either.
    if cfg!(target_feature = "crt-static") {
        return absent("sqlcipher", "this program is linked statically and loads no library", "");
    }
    match sqlcipher_library() {
        Some(path) => present("sqlcipher", path.display().to_string()),
        None => absent("sqlcipher", "not installed", distribution.brings(Package::SQLCIPHER)),
    }
}

/// `initdb`, which distributions keep out of `PATH`; the newest version of several.
fn postgresql() -> Option<PathBuf> {
    let versioned = |root: &str, prefix: &str, tail: &str| {
        let entries = fs::read_dir(root).into_iter().flatten().flatten();
        let numbered = entries.filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let version: f64 = name.strip_prefix(prefix)?.parse().ok()?;
            let path = entry.path().join(tail);
            path.is_file().then_some((version, path))
        });
        numbered.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, path)| path)
    };
    find_program("initdb")
        .or_else(|| versioned("/usr/lib/postgresql", "", "bin/initdb"))
        .or_else(|| versioned("/usr", "pgsql-", "bin/initdb"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_capability_is_answered_once_with_a_reason() {
        let all = doctor();
        let mut names: Vec<&str> = all.iter().map(|c| c.name.as_str()).collect();
        for name in ["root", "loop", "ext2", "ext4", "xfs", "btrfs", "ntfs", "vfat", "exfat", "f2fs", "ntfs3"]
        {
            assert!(names.contains(&name), "{name}");
        }
        for name in [
            "block-trace",
            "drop-caches",
            "postgresql",
            "redis-server",
            "browser",
            "c-compiler",
            "sqlite3-shell",
        ] {
            assert!(names.contains(&name), "{name}");
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all.len());
        for capability in &all {
            println!("{capability:?}");
            assert!(!capability.detail.is_empty(), "{}", capability.name);
            assert!(!capability.present || capability.remedy.is_empty(), "{}", capability.name);
        }
    }

    #[test]
    fn one_line_names_every_package_that_is_missing_and_none_twice() {
        let missing = [
            absent("xfs", "mkfs.xfs is not installed", "sudo apt-get install xfsprogs"),
            absent("ntfs", "", "sudo apt-get install ntfs-3g"),
            absent("ntfs3", "", "sudo apt-get install ntfs-3g"),
            absent("root", "", AS_ROOT),
            present("ext4", "here"),
            absent(GUEST_KERNEL, "", "sudo apt-get install bc && fathom stack kernel"),
        ];
        let debian = Distribution::of("ID=debian\n", false);
        let build = ["flex".to_owned(), "gcc libc6-dev".to_owned()];
        let line = packages_for(&missing, &debian, &build).unwrap();
        assert_eq!(line, "sudo apt-get install flex gcc libc6-dev ntfs-3g xfsprogs");
        let without_guest = packages_for(&missing[..5], &debian, &build).unwrap();
        assert_eq!(without_guest, "sudo apt-get install ntfs-3g xfsprogs");
        assert_eq!(packages_for(&missing[3..5], &debian, &build), None);
    }

    #[test]
    fn a_missing_program_has_its_command() {
        let debian = Distribution::of("ID=debian\n", false);
        let capability = program("postgresql", None, &debian, Package::POSTGRESQL);
        assert_eq!(capability.remedy, "sudo apt-get install postgresql");
        let broken = program("browser", Some(Path::new("/bin/false")), &debian, Package::CHROMIUM);
        assert!(!broken.present && broken.detail.contains("/bin/false --version"), "{broken:?}");
    }
}
