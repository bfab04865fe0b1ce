//! What is mounted where: `/proc/self/mountinfo`, and who keeps a mount busy.

use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::processes;

/// One mount, as `proc_pid_mountinfo(5)` describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Device number, `major:minor`.
    pub device: String,
    /// Where it is mounted.
    pub point: PathBuf,
    /// File system type, e.g. `ext4`, `fuseblk`.
    pub filesystem: String,
    /// What is mounted, e.g. `/dev/loop0`.
    pub source: String,
    /// Options of the mount and of the file system, merged, each once, in that order.
    pub options: String,
}

/// All mounts of this process's namespace, in the order they were made.
///
/// # Errors
/// `/proc` cannot be read.
pub fn mounts() -> io::Result<Vec<Mount>> {
    Ok(mounts_in(&fs::read("/proc/self/mountinfo")?))
}

/// The mounts in the text of a mountinfo.
pub fn mounts_in(text: &[u8]) -> Vec<Mount> {
    text.split(|b| *b == b'\n').filter_map(parse).collect()
}

/// The mount that a path lies on: the last one made among those with the longest matching mount
/// point.
///
/// # Errors
/// The path does not exist or `/proc` cannot be read.
pub fn mount_of(path: &Path) -> io::Result<Mount> {
    let path = path.canonicalize()?;
    let mut best: Option<Mount> = None;
    for mount in mounts()? {
        let longer = best.as_ref().is_none_or(|b| mount.point.as_os_str().len() >= b.point.as_os_str().len());
        if longer && path.starts_with(&mount.point) {
            best = Some(mount);
        }
    }
    best.ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no mount holds this path"))
}

/// What a path lies on, for the record: as [`mount_of`], and where no mount is told to hold it,
/// what the file system itself says.
///
/// In a chroot (and in a build root, or under proot) the mount that holds everything is often not
/// below the root that this process sees, and so is in no list of its; `/proc` may not be there at
/// all. What nobody tells is "unknown".
pub fn host_of(path: &Path) -> Mount {
    mount_of(path).unwrap_or_else(|_| {
        let device = fs::metadata(path).map(|about| about.dev()).ok();
        let number = |device| format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
        let magic = rustix::fs::statfs(path).ok().and_then(|about| u32::try_from(about.f_type).ok());
        Mount {
            device: device.map_or_else(|| UNKNOWN.into(), number),
            point: PathBuf::from(UNKNOWN),
            filesystem: magic.and_then(by_magic).unwrap_or(UNKNOWN).into(),
            source: UNKNOWN.into(),
            options: UNKNOWN.into(),
        }
    })
}

/// A value that nobody tells.
const UNKNOWN: &str = "unknown";

/// A file system by the number that statfs(2) gives, where that is enough to name it.
fn by_magic(magic: u32) -> Option<&'static str> {
    Some(match magic {
        0x0000_ef53 => "ext2/ext3/ext4",
        0x5846_5342 => "xfs",
        0x9123_683e => "btrfs",
        0xf2f5_2010 => "f2fs",
        0xca45_1a4e => "bcachefs",
        0x2fc1_2fc1 => "zfs",
        0x0102_1994 => "tmpfs",
        0x8584_58f6 => "ramfs",
        0x794c_7630 => "overlay",
        0x0000_6969 => "nfs",
        0xff53_4d42 => "cifs",
        0xfe53_4d42 => "smb3",
        0x0102_1997 => "9p",
        0x00c3_6400 => "ceph",
        0x6573_5546 => "fuse",
        0x0000_4d44 => "vfat",
        0x2011_bab0 => "exfat",
        0x7366_746e => "ntfs3",
        _ => return None,
    })
}

/// Whether something is mounted at a path, or, without `/proc`, whether it is on another device
/// than the directory above it.
pub fn is_mounted(point: &Path) -> bool {
    match mounts() {
        Ok(all) => all.iter().any(|mount| mount.point == point),
        Err(_) => {
            let device = |path: &Path| fs::symlink_metadata(path).map(|about| about.dev());
            match device(point) {
                Ok(own) => {
                    point.parent().and_then(|above| device(above).ok()).is_some_and(|device| device != own)
                }
                // A mount whose server has ended cannot be looked at.
                Err(error) => error.kind() != io::ErrorKind::NotFound,
            }
        }
    }
}

fn parse(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|b| *b == b' ');
    let device = fields.nth(2)?;
    let point = fields.nth(1)?;
    let own = fields.next()?;
    // Optional fields up to a lone "-".
    fields.by_ref().find(|f| *f == b"-")?;
    let (filesystem, source, of_filesystem) = (fields.next()?, fields.next()?, fields.next()?);
    let text = |bytes: &[u8]| String::from_utf8_lossy(&unescaped(bytes)).into_owned();
    let (own, of_filesystem) = (text(own), text(of_filesystem));
    let mut options: Vec<&str> = Vec::new();
    for option in own.split(',').chain(of_filesystem.split(',')) {
        if !option.is_empty() && !options.contains(&option) {
            options.push(option);
        }
    }
    Some(Mount {
        device: text(device),
        point: PathBuf::from(OsString::from_vec(unescaped(point))),
        filesystem: text(filesystem),
        source: text(source),
        options: options.join(","),
    })
}

/// Undoes the kernel's `\ooo` for space, tab, newline and backslash.
fn unescaped(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let [first, tail @ ..] = rest {
        if let (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..]) = (first, tail) {
            out.push((a - b'0') * 64 + (b - b'0') * 8 + (c - b'0'));
            rest = after;
        } else {
            out.push(*first);
            rest = tail;
        }
    }
    out
}

/// A process that uses something on a mount (or a device).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Process id.
    pub pid: u32,
    /// Its command name.
    pub command: String,
    /// What it uses: an open file, its working directory, a mapping.
    pub path: PathBuf,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (pid {}) uses {}", self.command, self.pid, self.path.display())
    }
}

/// Who uses `root` or a path below it: open files, working and root directories, executables,
/// mapped files. One entry a process. Processes that this user may not look into are not seen.
pub fn holders(root: &Path) -> Vec<Holder> {
    let mut found = Vec::new();
    for pid in processes::pids() {
        let process = PathBuf::from(format!("/proc/{pid}"));
        if let Some(path) = used_below(&process, root) {
            let command = fs::read_to_string(process.join("comm")).unwrap_or_default().trim().to_owned();
            found.push(Holder { pid, command, path });
        }
    }
    found.sort_by_key(|holder| holder.pid);
    found
}

fn used_below(process: &Path, root: &Path) -> Option<PathBuf> {
    let links = ["cwd", "root", "exe"].iter().map(|name| process.join(name));
    let files = fs::read_dir(process.join("fd")).into_iter().flatten().flatten().map(|e| e.path());
    let linked = links.chain(files).filter_map(|link| fs::read_link(link).ok()).find(|p| p.starts_with(root));
    linked.or_else(|| {
        let maps = fs::read_to_string(process.join("maps")).unwrap_or_default();
        // address perms offset dev inode path
        let paths = maps.lines().filter_map(|line| line.find('/').map(|at| PathBuf::from(&line[at..])));
        paths.into_iter().find(|p| p.starts_with(root))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_line_with_optional_fields_and_a_space_is_understood() {
        let line = br"36 35 7:3 / /mnt/a\040b rw,noatime master:1 shared:2 - ext4 /dev/loop3 rw,data=journal";
        let mount = parse(line).unwrap();
        assert_eq!(mount.point, Path::new("/mnt/a b"));
        assert_eq!((mount.device.as_str(), mount.filesystem.as_str()), ("7:3", "ext4"));
        assert_eq!(
            (mount.source.as_str(), mount.options.as_str()),
            ("/dev/loop3", "rw,noatime,data=journal")
        );
    }

    #[test]
    fn the_root_is_mounted_and_proc_is_proc() {
        assert!(!mounts().unwrap().is_empty());
        assert_eq!(mount_of(Path::new("/proc/self/status")).unwrap().filesystem, "proc");
    }

    /// Nothing could be run in a chroot: what is only recorded was asked for as if everything
    /// depended on it.
    #[test]
    fn what_no_mount_holds_is_unknown_and_no_error() {
        let here = tempfile::tempdir().unwrap();
        assert_eq!(host_of(here.path()), mount_of(here.path()).unwrap());
        let nowhere = host_of(Path::new("/nonexistent"));
        assert_eq!([&*nowhere.filesystem, &*nowhere.source, &*nowhere.options], [UNKNOWN; 3]);
        assert_eq!(by_magic(0x0102_1994), Some("tmpfs"));
        assert_eq!(by_magic(7), None);
        assert!(is_mounted(Path::new("/proc")) && !is_mounted(here.path()));
    }

    #[test]
    fn an_open_file_names_its_holder() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        assert_eq!(holders(&root), []);
        let _file = fs::File::create(root.join("held")).unwrap();
        // A process that another test is just starting has a copy of the descriptor until its exec.
        let mut all = holders(&root);
        all.retain(|holder| holder.pid == std::process::id());
        assert_eq!(all.iter().map(|holder| holder.path.as_path()).collect::<Vec<_>>(), [root.join("held")]);
    }

    fn escaped(bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        for b in bytes {
            match b {
                b' ' | b'\t' | b'\n' | b'\\' => out.extend(format!("\\{b:03o}").bytes()),
                _ => out.push(*b),
            }
        }
        out
    }

    proptest! {
        #[test]
        fn escapes_are_undone(bytes: Vec<u8>) {
            prop_assert_eq!(unescaped(&escaped(&bytes)), bytes);
        }

        #[test]
        fn no_line_panics(bytes: Vec<u8>) {
            let _ = parse(&bytes);
        }
    }
}
