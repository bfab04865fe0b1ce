//! What this machine has for file systems, and which of them work here.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fathom_ground::command::{CommandLine, find_program_in};
use fathom_ground::program::own_fathom;
use fathom_ground::system::{is_root, kernel_release};
use serde::{Deserialize, Serialize};

use super::filesystem::{Driver, FileSystem};
use super::table::KNOWN;
use crate::ground::distribution::Distribution;
use crate::ground::loop_device;
use crate::guest::{self, Kernel};

/// Block file systems of the kernel that cannot be written.
const READ_ONLY: &[&str] = &["squashfs", "erofs", "cramfs", "iso9660", "romfs", "fuseblk"];

/// Whether a file system can be made here, for lists and for skipping cells with a reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Availability {
    /// As [`crate::StackSpec::place`] names it.
    pub filesystem: String,
    /// Whether this machine has driver, mkfs and rights for it.
    pub present: bool,
    /// Driver and tool when present, the reason when not.
    pub detail: String,
    /// The command that brings it; empty when present or when nothing can.
    pub remedy: String,
    /// Smallest image, MiB.
    pub min_mib: u64,
    /// Whether it is a guest kernel that has it here.
    pub in_guest: bool,
}

/// What this machine has for file systems, read once for many questions.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Block file systems in `/proc/filesystems`.
    listed: Vec<String>,
    /// For package commands.
    pub(crate) distribution: Distribution,
    /// Looked into before `PATH`.
    tools: Vec<PathBuf>,
    /// Whether images can be mounted.
    pub(crate) root: bool,
    /// `None` when loop devices can be had, else why not.
    pub(crate) no_loop: Option<String>,
    /// The kernel of guests, if one was built.
    pub(crate) guest: Option<Kernel>,
    /// What a stack may name beside `dir`.
    filesystems: Vec<FileSystem>,
}

impl Machine {
    /// This machine.
    #[must_use]
    pub fn here() -> Machine {
        Machine::with_tools(&[])
    }

    /// This machine, where mkfs and mount programs are looked for in `tools` before `PATH`.
    pub(crate) fn with_tools(tools: &[PathBuf]) -> Machine {
        Machine {
            distribution: Distribution::here(),
            root: is_root(),
            no_loop: no_loop(),
            guest: Kernel::cached().filter(|_| own_fathom().is_some()),
            ..Machine::listing(listed_by_kernel(), tools)
        }
    }

    /// With this kernel for guests, whichever is cached.
    pub(crate) fn with_guest(self, guest: Option<Kernel>) -> Machine {
        Machine { guest, ..self }
    }

    /// A machine of which nothing is known: any file system of the table may be named, and none
    /// works. What a specification says by itself is judged alike on every machine with it.
    #[must_use]
    pub fn unknown() -> Machine {
        Machine::listing(Vec::new(), &[])
    }

    /// One whose kernel has these block file systems.
    fn listing(listed: Vec<String>, tools: &[PathBuf]) -> Machine {
        let mut filesystems = KNOWN.to_vec();
        for name in &listed {
            let is_known = filesystems.iter().any(|filesystem| filesystem.name == *name);
            if is_known || READ_ONLY.contains(&name.as_str()) {
                continue;
            }
            let filesystem = FileSystem::listed(name);
            if find_program_in(tools, &filesystem.mkfs.program).is_some() {
                filesystems.push(filesystem);
            }
        }
        Machine {
            listed,
            distribution: Distribution::of("", false),
            tools: tools.to_vec(),
            root: false,
            no_loop: None,
            guest: None,
            filesystems,
        }
    }

    /// Every file system that a stack may name beside `dir`, whether this machine can make it or
    /// not: those of the table, and those that the kernel lists and that have an `mkfs` of their
    /// name.
    #[must_use]
    pub fn filesystems(&self) -> &[FileSystem] {
        &self.filesystems
    }

    /// The file system of this name, if one may be named so.
    #[must_use]
    pub fn filesystem(&self, name: &str) -> Option<&FileSystem> {
        self.filesystems.iter().find(|filesystem| filesystem.name == name)
    }

    /// What is missing for a file system (reason, remedy), or `None`. Root and loop devices are not
    /// asked about here.
    pub(crate) fn missing(&self, filesystem: &FileSystem) -> Option<(String, String)> {
        let mut reasons = Vec::new();
        let mut packages = Vec::new();
        let mut hopeless = None;
        match &filesystem.driver {
            Driver::Kernel(name) => {
                if !self.listed.iter().any(|l| l == name) && !has_module(name) {
                    let release = kernel_release();
                    reasons.push(format!("this kernel ({release}) has no {name} driver"));
                    if self.distribution.has_extra_modules() {
                        packages.push(format!("linux-modules-extra-{release}"));
                    } else {
                        hopeless = Some("no package brings one to a running kernel");
                    }
                }
            }
            Driver::Fuse { program, package } => {
                if !Path::new("/dev/fuse").exists() {
                    reasons.push("there is no /dev/fuse".into());
                    hopeless = Some("this kernel or container has no FUSE");
                }
                if find_program_in(&self.tools, program).is_none() {
                    reasons.push(format!("{program} is not installed"));
                    packages.push(self.distribution.package(*package).to_owned());
                }
            }
        }
        if find_program_in(&self.tools, &filesystem.mkfs.program).is_none() {
            reasons.push(format!("{} is not installed", filesystem.mkfs.program));
            packages.push(self.distribution.package(filesystem.mkfs.package).to_owned());
        }
        if reasons.is_empty() {
            return None;
        }
        packages.sort();
        packages.dedup();
        let reason = reasons.join(" and ");
        Some(match hopeless {
            Some(why) => (format!("{reason}; {why}"), String::new()),
            None => (reason, self.distribution.install(&packages)),
        })
    }

    /// The guest kernel for a file system, or what is missing for it (reason, remedy).
    pub(crate) fn in_guest(&self, filesystem: &FileSystem) -> Result<Kernel, (String, String)> {
        let Driver::Kernel(driver) = &filesystem.driver else {
            let reason =
                format!("{} is a program of this machine's, no driver of a kernel's", filesystem.name);
            return Err((reason, String::new()));
        };
        let Some(kernel) = &self.guest else {
            return Err(if guest::FILE_SYSTEMS.contains(&&**driver) {
                ("there is no guest kernel yet".into(), guest::BUILD.into())
            } else {
                (format!("guest kernels have no {driver} driver"), String::new())
            });
        };
        if !kernel.filesystems.iter().any(|name| name == driver) {
            return Err((
                format!("the guest kernel ({}) has no {driver} driver", kernel.release),
                String::new(),
            ));
        }
        if find_program_in(&self.tools, &filesystem.mkfs.program).is_none() {
            let reason = format!("{} is not installed", filesystem.mkfs.program);
            return Err((reason, self.distribution.brings(filesystem.mkfs.package)));
        }
        Ok(kernel.clone())
    }

    /// As [`Machine::missing`], with the rights to mount.
    pub(crate) fn availability(&self, filesystem: &FileSystem) -> Availability {
        let (mut present, mut detail, mut remedy) = match (self.missing(filesystem), self.root, &self.no_loop)
        {
            (Some((reason, remedy)), _, _) => (false, reason, remedy),
            (None, false, _) => (false, "mounting an image needs root".into(), "run fathom with sudo".into()),
            (None, true, Some(why)) => (false, why.clone(), String::new()),
            (None, true, None) => (true, filesystem.described(), String::new()),
        };
        let mut in_guest = false;
        if !present {
            match self.in_guest(filesystem) {
                Ok(kernel) => {
                    (present, in_guest, remedy) = (true, true, String::new());
                    detail = format!("{}, {}", kernel.title(), filesystem.mkfs.program);
                }
                // The host's remedy is the better one where there is one: it measures without a
                // guest.
                Err((reason, build)) if remedy.is_empty() && !build.is_empty() => {
                    detail = format!("{detail}; in a guest: {reason}");
                    remedy = build;
                }
                Err(_) => {}
            }
        }
        filesystem.available(present, detail, remedy, in_guest)
    }
}

/// Every file system that could be asked for, and whether this machine can make it and why not.
/// Nothing is mounted; see [`crate::doctor`] for a trial.
#[must_use]
pub fn available_filesystems() -> Vec<Availability> {
    let machine = Machine::here();
    let dir = Availability {
        filesystem: "dir".into(),
        present: true,
        detail: "a directory where you are; needs no root".into(),
        remedy: String::new(),
        min_mib: 0,
        in_guest: false,
    };
    std::iter::once(dir)
        .chain(machine.filesystems().iter().map(|filesystem| machine.availability(filesystem)))
        .collect()
}

/// As [`available_filesystems`], where a guest is asked for whatever this machine's kernel has.
#[must_use]
pub fn filesystems_in_guest() -> Vec<Availability> {
    let machine = Machine::here();
    let in_guest = |filesystem: &FileSystem| {
        let (present, detail, remedy) = match machine.in_guest(filesystem) {
            Ok(kernel) => (true, format!("{}, {}", kernel.title(), filesystem.mkfs.program), String::new()),
            Err((reason, remedy)) => (false, reason, remedy),
        };
        filesystem.available(present, detail, remedy, true)
    };
    machine.filesystems().iter().map(in_guest).collect()
}

/// Block file systems that the running kernel has now (a module that is not loaded is not listed).
fn listed_by_kernel() -> Vec<String> {
    let text = fs::read_to_string("/proc/filesystems").unwrap_or_default();
    text.lines().filter(|line| !line.starts_with("nodev")).map(|line| line.trim().to_owned()).collect()
}

/// Whether a module of that name could be loaded (the kernel loads it at mount).
fn has_module(name: &str) -> bool {
    // The kernel asks for the alias `fs-NAME`; a machine without modprobe or modules has none.
    find_program_in(&[], "modprobe").is_some_and(|modprobe| {
        let alias = format!("fs-{name}");
        CommandLine::new(modprobe, ["--dry-run", "--quiet", &alias]).run(Duration::from_secs(60)).is_ok()
    })
}

/// Why no loop device can be had, or `None`.
pub(crate) fn no_loop() -> Option<String> {
    let control = Path::new("/dev/loop-control");
    if !control.exists() {
        return Some("there is no /dev/loop-control: this kernel or container has no loop devices".into());
    }
    match fs::OpenOptions::new().read(true).write(true).open(control) {
        Ok(_) if !loop_device::is_attachable() => {
            let release = kernel_release();
            Some(format!("Linux {release} attaches none in one call (LOOP_CONFIGURE), as 5.8 and later do"))
        }
        Ok(_) => None,
        Err(e) => Some(format!("/dev/loop-control cannot be opened: {e}")),
    }
}

impl FileSystem {
    fn available(&self, present: bool, detail: String, remedy: String, in_guest: bool) -> Availability {
        let (filesystem, min_mib) = (self.name.to_string(), self.min_mib);
        Availability { filesystem, present, detail, remedy, min_mib, in_guest }
    }
}

#[cfg(test)]
mod tests {
    use super::super::filesystem::Mkfs;
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_its_remedy() {
        let nothing = Machine {
            distribution: Distribution::of("ID=debian\n", true),
            root: true,
            ..Machine::listing(vec!["ext4".into()], &[])
        };
        let absent = FileSystem {
            name: "zzz".into(),
            driver: Driver::Kernel("zzzfs".into()),
            mkfs: Mkfs { program: "mkfs.zzzfs".into(), ..KNOWN[3].mkfs.clone() },
            ..KNOWN[3].clone()
        };
        let (reason, remedy) = nothing.missing(&absent).unwrap();
        assert!(
            reason.contains("has no zzzfs driver") && reason.contains("mkfs.zzzfs is not installed"),
            "{reason}"
        );
        assert_eq!(remedy, "", "installing mkfs alone would not help");
        let tool_only = FileSystem { driver: Driver::Kernel("ext4".into()), ..absent };
        let (reason, remedy) = nothing.missing(&tool_only).unwrap();
        assert_eq!(
            (reason.as_str(), remedy.as_str()),
            ("mkfs.zzzfs is not installed", "apt-get install xfsprogs")
        );
    }

    #[test]
    fn a_kernel_file_system_with_an_mkfs_of_its_name_is_offered() {
        let dir = tempfile::tempdir().unwrap();
        let tool = dir.path().join("mkfs.newfs");
        fs::write(&tool, "#!/bin/sh\n").unwrap();
        fs::set_permissions(&tool, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let tools = [dir.path().to_path_buf()];
        let listed = ["ext4", "newfs", "squashfs", "toolless"].map(str::to_owned);
        let machine = Machine::listing(listed.to_vec(), &tools);
        let names: Vec<_> =
            machine.filesystems().iter().map(|filesystem| filesystem.name.to_string()).collect();
        assert!(names.contains(&"newfs".into()) && !names.contains(&"toolless".into()));
        assert!(!names.contains(&"squashfs".into()), "cannot be written");
    }
}
