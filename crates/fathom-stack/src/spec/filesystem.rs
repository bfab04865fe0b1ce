//! A file system: what mounts it, what makes it, and the command lines for both.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::Duration;

use fathom_ground::command::CommandLine;

use super::stack_spec::StackSpec;
use crate::ground::distribution::Package;

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
    pub fn min_mib(self) -> Option<u64> {
        match self {
            Log::None => None,
            // A journal of ext needs 1024 blocks of 4 KiB; xfsprogs ≥ 5.19 wants a log of 64 MiB.
            Log::Ext => Some(8),
            Log::Xfs => Some(64),
        }
    }
}

/// ext2/3/4: inode tables and journal are zeroed now, not by a kernel thread during the first
/// minutes.
const EXT_EXTENDED: &str = "nodiscard,lazy_itable_init=0,lazy_journal_init=0";

/// A program that makes file systems, and what a user may say to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mkfs {
    /// Its name.
    pub program: Cow<'static, str>,
    /// Words that let it work unasked, without discarding (which would punch holes into the image),
    /// and without leaving work to the background of the measurement.
    pub words: &'static [&'static str],
    /// Word that makes it print its version.
    pub version: &'static str,
    /// What brings it.
    pub package: Package,
    /// Its options of one letter that take no value; none where nothing is known of it.
    pub alone: Option<&'static str>,
    /// Its options of one letter that name a file, or do something else than making.
    pub refused: &'static str,
}

/// One file system and how to make it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSystem {
    /// As an experiment file names it.
    pub name: Cow<'static, str>,
    /// What mounts it.
    pub(crate) driver: Driver,
    /// What makes it.
    pub(crate) mkfs: Mkfs,
    /// Smallest image, MiB.
    pub min_mib: u64,
    /// External log.
    pub(crate) log: Log,
    /// Whether names that differ in case only name one file.
    pub(crate) case_folds: bool,
}

impl FileSystem {
    /// Driver and tool, in words.
    pub(crate) fn described(&self) -> String {
        match &self.driver {
            Driver::Kernel(_) => format!("kernel driver, {}", self.mkfs.program),
            Driver::Fuse { program, .. } => format!("{program} (FUSE), {}", self.mkfs.program),
        }
    }

    /// A file system that the kernel lists and that the table does not know.
    pub(crate) fn listed(name: &str) -> FileSystem {
        FileSystem {
            name: Cow::Owned(name.to_owned()),
            driver: Driver::Kernel(Cow::Owned(name.to_owned())),
            mkfs: Mkfs {
                program: Cow::Owned(format!("mkfs.{name}")),
                words: &[],
                version: "-V",
                package: Package::NONE,
                alone: None,
                refused: "",
            },
            min_mib: 64,
            log: Log::None,
            case_folds: name == "msdos",
        }
    }

    /// Whether a kernel mounts it; else a program does (FUSE).
    #[must_use]
    pub fn is_of_kernel(&self) -> bool {
        matches!(self.driver, Driver::Kernel(_))
    }

    /// Smallest external log, MiB; none where there can be no external log.
    #[must_use]
    pub fn min_log_mib(&self) -> Option<u64> {
        self.log.min_mib()
    }

    fn is_ext(&self) -> bool {
        self.mkfs.program == "mke2fs"
    }

    /// The command lines that make this file system on `device` (and its log), with the user's
    /// extra words; none where it is begun with an image.
    ///
    /// Blocks of ext2, ext3 and ext4 are 4096 bytes unless the words say otherwise: mke2fs would
    /// take 1024 for images below 512 MiB, and a small image would measure something else than a
    /// large one.
    pub(crate) fn mkfs_commands(
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
        let mut all: Vec<OsString> = self.mkfs.words.iter().map(Into::into).collect();
        if self.is_ext() {
            let block = value_of(words, "-b").unwrap_or("4096");
            all.extend(["-t", &self.name, "-b", block].map(Into::into));
            // mke2fs takes the last -E only, so ours and the user's become one.
            let extended =
                value_of(words, "-E").map_or(EXT_EXTENDED.to_owned(), |own| format!("{EXT_EXTENDED},{own}"));
            all.extend(["-E", &extended].map(Into::into));
            if let Some(log) = log {
                let words: [&OsStr; 7] = [
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
    pub(crate) fn mount_command(
        &self,
        driver: &Path,
        device: &Path,
        log: Option<&Path>,
        point: &Path,
        options: Option<&str>,
    ) -> CommandLine {
        let mut all = OsString::from(options.unwrap_or_default());
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
    pub(crate) fn mount_program(&self) -> &str {
        match &self.driver {
            Driver::Kernel(_) => "mount",
            Driver::Fuse { program, .. } => program,
        }
    }

    /// The line in which mkfs (or the FUSE driver) names its version.
    pub(crate) fn version_line(&self, program: &Path) -> String {
        let output = match CommandLine::new(program, [self.mkfs.version]).run(Duration::from_secs(60)) {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    fn shown(name: &str, log: bool, text: &str) -> Vec<String> {
        let filesystem = super::super::table::KNOWN.iter().find(|f| f.name == name).unwrap();
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
        let xfs = super::super::table::KNOWN.iter().find(|f| f.name == "xfs").unwrap();
        let line = xfs.mount_command(
            Path::new("mount"),
            Path::new("/dev/loop1"),
            Some(Path::new("/dev/loop2")),
            Path::new("/m"),
            Some("noatime"),
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
}
