//! The file systems Fathom knows how to make: their drivers, mkfs words and packages, and which of them work here.
//!
//! The table is knowledge, not a limit: a block file system that the running kernel lists and for which there is an
//! `mkfs.NAME` is offered too.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::check::KnownFileSystem;
use crate::command::{CommandLine, find_program_in};
use crate::distribution::{Distribution, Package};
use crate::guest::{self, Kernel};
use crate::spec::StackSpec;

/// What mounts the file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Driver {
    /// The kernel, under this type.
    Kernel(Cow<'static, str>),
    /// A FUSE driver: this program, called as `PROGRAM DEVICE MOUNTPOINT [-o OPTIONS]`.
    Fuse {
        /// The program.
        program: &'static str,
        /// What brings it.
        package: Package,
    },
}

/// How an external log is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Log {
    /// Not known.
    None,
    /// XFS: `-l logdev=`, and again at mount.
    Xfs,
    /// ext3 and ext4: a journal device made before, `-J device=`.
    Ext,
}

impl Log {
    /// Smallest one, MiB; none where there is none.
    fn min_mib(self) -> Option<u64> {
        match self {
            Log::None => None,
            // A journal of ext needs 1024 blocks of 4 KiB; xfsprogs ≥ 5.19 wants a log of 64 MiB.
            Log::Ext => Some(8),
            Log::Xfs => Some(64),
        }
    }
}

/// One file system and how to make it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FileSystem {
    /// As [`crate::StackSpec::filesystem`] names it.
    pub name: Cow<'static, str>,
    /// What mounts it.
    pub driver: Driver,
    /// The program that makes it.
    pub mkfs: Cow<'static, str>,
    /// Words that let mkfs work unasked, without discarding (which would punch holes into the image), and without
    /// leaving work to the background of the measurement.
    pub words: &'static [&'static str],
    /// Word that makes mkfs print its version.
    pub version: &'static str,
    /// What brings mkfs.
    pub package: Package,
    /// Smallest image, MiB.
    pub min_mib: u64,
    /// External log.
    pub log: Log,
}

/// ext2/3/4: inode tables and journal are zeroed now, not by a kernel thread during the first minutes.
const EXT_EXTENDED: &str = "nodiscard,lazy_itable_init=0,lazy_journal_init=0";
const EXT_WORDS: &[&str] = &["-F", "-q"];

macro_rules! file_systems {
    ($( $name:literal $driver:expr, $mkfs:literal $words:expr, $version:literal, $package:ident, $min:literal, $log:ident; )*) => {
        const KNOWN: &[FileSystem] = &[ $( FileSystem {
            name: Cow::Borrowed($name), driver: $driver, mkfs: Cow::Borrowed($mkfs), words: $words, version: $version,
            package: Package::$package, min_mib: $min, log: Log::$log,
        } ),* ];
    };
}

const fn kernel(name: &'static str) -> Driver {
    Driver::Kernel(Cow::Borrowed(name))
}

// The smallest sizes are those of the tools on the left (xfsprogs ≥ 5.19 refuses less than 300 MiB), rounded up to what
// leaves room to work.
file_systems! {
    "ext2" kernel("ext2"), "mke2fs" EXT_WORDS, "-V", E2FSPROGS, 8, None;
    "ext3" kernel("ext3"), "mke2fs" EXT_WORDS, "-V", E2FSPROGS, 16, Ext;
    "ext4" kernel("ext4"), "mke2fs" EXT_WORDS, "-V", E2FSPROGS, 16, Ext;
    "xfs" kernel("xfs"), "mkfs.xfs" &["-q", "-f", "-K"], "-V", XFSPROGS, 300, Xfs;
    "btrfs" kernel("btrfs"), "mkfs.btrfs" &["-q", "-f", "-K"], "--version", BTRFS_PROGS, 128, None;
    "ntfs" Driver::Fuse { program: "ntfs-3g", package: Package::NTFS_3G }, "mkntfs" &["-q", "-F", "-Q"], "--version", NTFS_3G, 16, None;
    "ntfs3" kernel("ntfs3"), "mkntfs" &["-q", "-F", "-Q"], "--version", NTFS_3G, 16, None;
    "vfat" kernel("vfat"), "mkfs.vfat" &["-I"], "--help", DOSFSTOOLS, 16, None;
    "exfat" kernel("exfat"), "mkfs.exfat" &[], "-V", EXFATPROGS, 16, None;
    "exfat-fuse" Driver::Fuse { program: "mount.exfat-fuse", package: Package::EXFAT_FUSE }, "mkfs.exfat" &[], "-V", EXFATPROGS, 16, None;
    "f2fs" kernel("f2fs"), "mkfs.f2fs" &["-q", "-f", "-t", "0"], "-V", F2FS_TOOLS, 64, None;
    "nilfs2" kernel("nilfs2"), "mkfs.nilfs2" &["-q", "-f", "-K"], "-V", NILFS_TOOLS, 160, None;
    "jfs" kernel("jfs"), "mkfs.jfs" &["-q"], "-V", JFSUTILS, 32, None;
    "bcachefs" kernel("bcachefs"), "mkfs.bcachefs" &["-q", "--force"], "--version", BCACHEFS_TOOLS, 128, None;
    "udf" kernel("udf"), "mkudffs" &["--media-type=hd"], "--help", UDFTOOLS, 16, None;
    "minix" kernel("minix"), "mkfs.minix" &["-3"], "--version", UTIL_LINUX_EXTRA, 16, None;
}

/// The program that makes a file system of this name.
pub(crate) fn mkfs_of(name: &str) -> Cow<'static, str> {
    let known = KNOWN.iter().find(|it| it.name == name);
    known.map_or_else(|| Cow::Owned(format!("mkfs.{name}")), |it| it.mkfs.clone())
}

/// Block file systems of the kernel that cannot be written.
const READ_ONLY: &[&str] = &["squashfs", "erofs", "cramfs", "iso9660", "romfs", "fuseblk"];

/// Whether a file system can be made here, for lists and for skipping cells with a reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Availability {
    /// As [`crate::StackSpec::filesystem`] names it.
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

/// What the machine has for file systems, read once for a question.
pub(crate) struct Machine<'a> {
    /// Block file systems in `/proc/filesystems`.
    pub listed: Vec<String>,
    /// For package commands.
    pub distribution: Distribution,
    /// Looked into before `PATH`.
    pub tools: &'a [PathBuf],
    /// Whether images can be mounted.
    pub root: bool,
    /// `None` when loop devices can be had, else why not.
    pub no_loop: Option<String>,
    /// The kernel of guests, if one was built.
    pub guest: Option<Kernel>,
}

impl<'a> Machine<'a> {
    pub fn here(tools: &'a [PathBuf]) -> Machine<'a> {
        Machine {
            listed: listed_by_kernel(),
            distribution: Distribution::here(),
            tools,
            root: crate::is_root(),
            no_loop: no_loop(),
            guest: Kernel::cached().filter(|_| crate::stack::fathom_itself().is_some()),
        }
    }

    /// Every file system known by the table or listed by the kernel with an `mkfs` of its name.
    pub fn known(&self) -> Vec<FileSystem> {
        let mut all = KNOWN.to_vec();
        for name in &self.listed {
            let mkfs = format!("mkfs.{name}");
            let known = all.iter().any(|f| f.name == *name);
            if !known && !READ_ONLY.contains(&name.as_str()) && find_program_in(self.tools, &mkfs).is_some() {
                all.push(FileSystem {
                    name: Cow::Owned(name.clone()),
                    driver: Driver::Kernel(Cow::Owned(name.clone())),
                    mkfs: Cow::Owned(mkfs),
                    words: &[],
                    version: "-V",
                    package: Package::NONE,
                    min_mib: 64,
                    log: Log::None,
                });
            }
        }
        all
    }

    /// What is missing for a file system (reason, remedy), or `None`. Root and loop devices are not asked about here.
    pub fn missing(&self, filesystem: &FileSystem) -> Option<(String, String)> {
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
                if find_program_in(self.tools, program).is_none() {
                    reasons.push(format!("{program} is not installed"));
                    packages.push(self.distribution.package(*package).to_owned());
                }
            }
        }
        if find_program_in(self.tools, &filesystem.mkfs).is_none() {
            reasons.push(format!("{} is not installed", filesystem.mkfs));
            packages.push(self.distribution.package(filesystem.package).to_owned());
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
    pub fn in_guest(&self, filesystem: &FileSystem) -> Result<Kernel, (String, String)> {
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
        if !kernel.filesystems.iter().any(|it| it == driver) {
            return Err((
                format!("the guest kernel ({}) has no {driver} driver", kernel.release),
                String::new(),
            ));
        }
        if find_program_in(self.tools, &filesystem.mkfs).is_none() {
            let reason = format!("{} is not installed", filesystem.mkfs);
            return Err((reason, self.distribution.brings(filesystem.package)));
        }
        Ok(kernel.clone())
    }

    /// As [`Machine::missing`], with the rights to mount.
    pub fn availability(&self, filesystem: &FileSystem) -> Availability {
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
                    detail = format!("{}, {}", kernel.title(), filesystem.mkfs);
                }
                // The host's remedy is the better one where there is one: it measures without a guest.
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

/// Every file system that could be asked for, and whether this machine can make it and why not. Nothing is mounted; see
/// [`crate::doctor`] for a trial.
#[must_use]
pub fn available_filesystems() -> Vec<Availability> {
    let machine = Machine::here(&[]);
    let dir = Availability {
        filesystem: "dir".into(),
        present: true,
        detail: "a directory where you are; needs no root".into(),
        remedy: String::new(),
        min_mib: 0,
        in_guest: false,
    };
    std::iter::once(dir).chain(machine.known().iter().map(|f| machine.availability(f))).collect()
}

/// Every file system that a stack may name, `dir` first, whether this machine can make it or not.
#[must_use]
pub fn known_filesystems() -> Vec<KnownFileSystem> {
    nameable(&Machine::here(&[]).known())
}

/// The names of these file systems and of `dir`, with their smallest sizes.
pub(crate) fn nameable(known: &[FileSystem]) -> Vec<KnownFileSystem> {
    let dir = KnownFileSystem { name: "dir".into(), min_mib: 0, min_log_mib: None };
    let all = known.iter().map(|it| KnownFileSystem {
        name: it.name.to_string(),
        min_mib: it.min_mib,
        min_log_mib: it.log.min_mib(),
    });
    std::iter::once(dir).chain(all).collect()
}

/// As [`available_filesystems`], where a guest is asked for whatever this machine's kernel has.
#[must_use]
pub fn filesystems_in_guest() -> Vec<Availability> {
    let machine = Machine::here(&[]);
    let known = machine.known();
    let in_guest = |filesystem: &FileSystem| {
        let (present, detail, remedy) = match machine.in_guest(filesystem) {
            Ok(kernel) => (true, format!("{}, {}", kernel.title(), filesystem.mkfs), String::new()),
            Err((reason, remedy)) => (false, reason, remedy),
        };
        filesystem.available(present, detail, remedy, true)
    };
    known.iter().map(in_guest).collect()
}

impl FileSystem {
    fn available(&self, present: bool, detail: String, remedy: String, in_guest: bool) -> Availability {
        let (filesystem, min_mib) = (self.name.to_string(), self.min_mib);
        Availability { filesystem, present, detail, remedy, min_mib, in_guest }
    }

    /// Driver and tool, in words.
    fn described(&self) -> String {
        match &self.driver {
            Driver::Kernel(_) => format!("kernel driver, {}", self.mkfs),
            Driver::Fuse { program, .. } => format!("{program} (FUSE), {}", self.mkfs),
        }
    }

    /// Whether names that differ in case only name one file.
    pub fn case_folds(&self) -> bool {
        ["vfat", "msdos", "exfat", "ntfs3"].contains(&&*self.name)
    }

    fn is_ext(&self) -> bool {
        self.mkfs == "mke2fs"
    }

    /// The command lines that make this file system on `device` (and its log), with the user's extra words; none where it is begun
    /// with an image.
    ///
    /// Blocks of ext2, ext3 and ext4 are 4096 bytes unless the words say otherwise: mke2fs would take 1024 for images
    /// below 512 MiB, and a small image would measure something else than a large one.
    pub fn mkfs_commands(
        &self,
        program: &Path,
        device: &Path,
        log: Option<&Path>,
        spec: &StackSpec,
    ) -> Vec<CommandLine> {
        let mut commands = Vec::new();
        if spec.image.is_some() {
            return commands;
        }
        let words = &spec.mkfs;
        let mut all: Vec<OsString> = self.words.iter().map(Into::into).collect();
        if self.is_ext() {
            let block = value_of(words, "-b").unwrap_or("4096");
            all.extend(["-t", &self.name, "-b", block].map(Into::into));
            // mke2fs takes the last -E only, so ours and the user's become one.
            let extended =
                value_of(words, "-E").map_or(EXT_EXTENDED.to_owned(), |own| format!("{EXT_EXTENDED},{own}"));
            all.extend(["-E", &extended].map(Into::into));
            if let Some(log) = log {
                let words: [&std::ffi::OsStr; 7] = [
                    "-F".as_ref(),
                    "-q".as_ref(),
                    "-O".as_ref(),
                    "journal_dev".as_ref(),
                    "-b".as_ref(),
                    block.as_ref(),
                    log.as_ref(),
                ];
                commands.push(CommandLine::new(program, words));
                all.extend(["-J".into(), joined("device=", log)]);
            }
            all.extend(without(words, &["-b", "-E"]).map(Into::into));
        } else {
            if let (Log::Xfs, Some(log)) = (self.log, log) {
                all.extend(["-l".into(), joined("logdev=", log)]);
            }
            all.extend(words.iter().map(Into::into));
        }
        all.push(device.into());
        commands.push(CommandLine::new(program, all));
        commands
    }

    /// The command line that mounts it.
    pub fn mount_command(
        &self,
        driver: &Path,
        device: &Path,
        log: Option<&Path>,
        point: &Path,
        options: &str,
    ) -> CommandLine {
        let mut all = OsString::from(options);
        if let (Log::Xfs, Some(log)) = (self.log, log) {
            if !all.is_empty() {
                all.push(",");
            }
            all.push(joined("logdev=", log));
        }
        let mut words: Vec<OsString> = Vec::new();
        // -i: no mount.TYPE helper in between, the kernel's driver and no other.
        if let Driver::Kernel(name) = &self.driver {
            words.extend(["-i".into(), "-t".into(), name.as_ref().into()]);
        }
        if !all.is_empty() {
            words.extend(["-o".into(), all]);
        }
        words.extend([device.into(), point.into()]);
        CommandLine::new(driver, words)
    }

    /// The program that mounts it.
    pub fn mount_program(&self) -> &str {
        match &self.driver {
            Driver::Kernel(_) => "mount",
            Driver::Fuse { program, .. } => program,
        }
    }

    /// The line in which mkfs (or the FUSE driver) names its version.
    pub fn version_line(&self, program: &Path) -> String {
        let output = match CommandLine::new(program, [self.version]).run(Duration::from_secs(10)) {
            Ok(output) => format!("{}\n{}", output.stdout, output.stderr),
            // Some tools print their version and then complain about missing operands.
            Err(e) => e.stderr,
        };
        version_in(&output)
    }
}

/// The first line with a digit that follows a digit and a dot, e.g. `mkfs.xfs version 6.1.0`.
fn version_in(output: &str) -> String {
    let versioned = |line: &&str| {
        line.as_bytes().windows(3).any(|w| w[0].is_ascii_digit() && w[1] == b'.' && w[2].is_ascii_digit())
    };
    output
        .lines()
        .map(str::trim)
        .find(versioned)
        .or_else(|| output.lines().next())
        .unwrap_or_default()
        .to_owned()
}

fn joined(prefix: &str, path: &Path) -> OsString {
    let mut word = OsString::from(prefix);
    word.push(path);
    word
}

/// The value of a mkfs flag, as `-b 4096` or `-b4096`; the last one, as mkfs takes it.
fn value_of<'a>(words: &'a [String], flag: &str) -> Option<&'a str> {
    let mut value = None;
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if word == flag {
            value = words.next().map(String::as_str).or(value);
        } else if let Some(own) = word.strip_prefix(flag) {
            value = Some(own);
        }
    }
    value
}

/// The words without these flags and their values.
fn without<'a>(words: &'a [String], flags: &'a [&str]) -> impl Iterator<Item = &'a String> {
    let mut skip = false;
    words.iter().filter(move |word| {
        if std::mem::take(&mut skip) {
            return false;
        }
        if flags.contains(&word.as_str()) {
            skip = true;
            return false;
        }
        !flags.iter().any(|flag| word.starts_with(flag))
    })
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
        CommandLine::new(modprobe, ["--dry-run", "--quiet", &alias]).run(Duration::from_secs(5)).is_ok()
    })
}

pub(crate) fn kernel_release() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

/// Why no loop device can be had, or `None`.
pub(crate) fn no_loop() -> Option<String> {
    let control = Path::new("/dev/loop-control");
    if !control.exists() {
        return Some("there is no /dev/loop-control: this kernel or container has no loop devices".into());
    }
    match fs::OpenOptions::new().read(true).write(true).open(control) {
        Ok(_) => None,
        Err(e) => Some(format!("/dev/loop-control cannot be opened: {e}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    fn shown(name: &str, log: bool, text: &str) -> Vec<String> {
        let filesystem = KNOWN.iter().find(|f| f.name == name).unwrap();
        let log = log.then_some(Path::new("LOG"));
        let spec = StackSpec { mkfs: words(text), ..StackSpec::default() };
        let commands = filesystem.mkfs_commands(Path::new("mkfs"), Path::new("IMAGE"), log, &spec);
        commands.iter().map(CommandLine::shown).collect()
    }

    #[test]
    fn ext4_has_no_lazy_work_and_keeps_the_users_words() {
        assert_eq!(
            shown("ext4", false, "-O ^has_journal -E stride=4 -b 1024 -m0"),
            [
                "mkfs -F -q -t ext4 -b 1024 -E 'nodiscard,lazy_itable_init=0,lazy_journal_init=0,stride=4' -O '^has_journal' -m0 IMAGE"
            ]
        );
    }

    #[test]
    fn an_external_journal_is_made_first_with_the_same_block_size() {
        assert_eq!(
            shown("ext4", true, "-b2048"),
            [
                "mkfs -F -q -O journal_dev -b 2048 LOG",
                "mkfs -F -q -t ext4 -b 2048 -E 'nodiscard,lazy_itable_init=0,lazy_journal_init=0' -J 'device=LOG' IMAGE"
            ]
        );
        assert_eq!(shown("xfs", true, "-m crc=1"), ["mkfs -q -f -K -l 'logdev=LOG' -m 'crc=1' IMAGE"]);
    }

    #[test]
    fn the_log_device_is_named_at_mount() {
        let xfs = KNOWN.iter().find(|f| f.name == "xfs").unwrap();
        let line = xfs.mount_command(
            Path::new("mount"),
            Path::new("/dev/loop1"),
            Some(Path::new("/dev/loop2")),
            Path::new("/m"),
            "noatime",
        );
        assert_eq!(line.shown(), "mount -i -t xfs -o 'noatime,logdev=/dev/loop2' /dev/loop1 /m");
    }

    #[test]
    fn versions_are_found_in_chatter() {
        assert_eq!(
            version_in("mke2fs 1.47.0 (5-Feb-2023)\n\tUsing EXT2FS Library"),
            "mke2fs 1.47.0 (5-Feb-2023)"
        );
        assert_eq!(version_in("Usage: mkfs.vfat\nmkfs.fat 4.2 (2021-01-31)"), "mkfs.fat 4.2 (2021-01-31)");
        assert_eq!(version_in(""), "");
    }

    #[test]
    fn what_is_missing_is_named_with_its_remedy() {
        let nothing = Machine {
            listed: vec!["ext4".into()],
            distribution: Distribution::of("ID=debian\n", true),
            tools: &[],
            root: true,
            no_loop: None,
            guest: None,
        };
        let absent = FileSystem {
            name: "zzz".into(),
            driver: Driver::Kernel("zzzfs".into()),
            mkfs: "mkfs.zzzfs".into(),
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
        let machine = Machine {
            listed: vec!["ext4".into(), "newfs".into(), "squashfs".into(), "toolless".into()],
            distribution: Distribution::of("ID=debian\n", true),
            tools: &tools,
            root: true,
            no_loop: None,
            guest: None,
        };
        let names: Vec<_> = machine.known().into_iter().map(|f| f.name.into_owned()).collect();
        assert!(names.contains(&"newfs".into()) && !names.contains(&"toolless".into()));
        assert!(!names.contains(&"squashfs".into()), "cannot be written");
    }
}
