//! Opens what is to be measured: nothing is overwritten that was not given for it.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use super::Calibration;
use super::described::Description;
use super::error::CalibrateError;
use super::sizes::{LARGEST, SMALLEST_MIB};
use super::target::Target;
use crate::aligned::AlignedBuffer;
use fathom_ground::mountinfo::host_of;
use fathom_random::Random;

impl Calibration {
    /// Opens what is measured. A file of Fathom's own has no name, so that nothing is left of it
    /// however this ends.
    pub(super) fn open<'a>(
        &self,
        stopped: &'a dyn Fn() -> bool,
    ) -> Result<(Target<'a>, Description), CalibrateError> {
        let path = &self.path;
        let place = |problem: String| CalibrateError::Place { path: path.clone(), problem };
        if self.size_mib < SMALLEST_MIB {
            return Err(CalibrateError::Small { size_mib: self.size_mib });
        }
        let refused = |error: io::Error| {
            place(match error.raw_os_error() {
                Some(libc::EINVAL | libc::EOPNOTSUPP) => "cannot be read and written past the page cache (O_DIRECT), so its cache would be measured: give a place on another file system".into(),
                Some(libc::EROFS) => "is on a file system that is mounted read-only: give another place".into(),
                Some(libc::EACCES | libc::EPERM) if fathom_ground::system::is_root() => "may not be written, not even by root (a file system that takes no files, or a device that is kept from this container): give another place".into(),
                Some(libc::EACCES | libc::EPERM) => "you may not write here: give a directory of your own, or run as root".into(),
                // The directory is there, so it is the file in it that cannot be.
                Some(libc::ENOENT) => "no file can be made here (a file system such as /proc takes none): give a directory on what is to be measured".into(),
                Some(libc::EBUSY) => "is in use (mounted, or part of something): unmount it first, or give a directory on it".into(),
                Some(libc::ENOSPC | libc::EDQUOT) => "no space left (or a quota is used up): use a smaller --size".into(),
                _ => error.to_string(),
            })
        };
        let wanted = self.size_mib.saturating_mul(1 << 20);
        let direct = |path: &Path, more: libc::c_int| {
            OpenOptions::new().read(true).write(true).custom_flags(libc::O_DIRECT | more).open(path)
        };
        // A mistyped mount point must not become a file on another disk, which would then be
        // measured.
        let found = fs::metadata(path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => CalibrateError::Missing { path: path.clone() },
            _ => refused(error),
        })?;
        let kind = found.file_type();
        let held = |what| CalibrateError::HoldsData { path: path.clone(), what };
        let (file, bytes) = if kind.is_block_device() {
            if !self.destroy {
                return Err(held("is a block device"));
            }
            // It may be opened for writing all the same, or the error is that of a file system.
            if is_read_only(found.rdev(), Path::new("/sys/dev/block")) {
                let why = "is read-only (a card's lock switch, or `blockdev --setro`), and writes are measured, too: make it writable first";
                return Err(place(why.into()));
            }
            // With O_EXCL nobody else has it mounted.
            let file = direct(path, libc::O_EXCL).map_err(refused)?;
            let bytes =
                rustix::fs::seek(&file, rustix::fs::SeekFrom::End(0)).map_err(|e| refused(e.into()))?;
            (file, bytes.min(wanted))
        } else if kind.is_file() {
            if !self.destroy {
                return Err(held("is a file that is there already"));
            }
            // What is mounted through a loop device is the file, and not the device that is opened.
            if let Some(device) = loop_on((found.dev(), found.ino()), Path::new("/sys/block")) {
                return Err(place(format!(
                    "is in use: /dev/{device} lies on it: unmount that, or `losetup -d /dev/{device}`, first"
                )));
            }
            (direct(path, 0).map_err(refused)?, found.len().min(wanted))
        } else if !kind.is_dir() {
            return Err(place("is neither a directory nor a block device nor a file".into()));
        } else {
            let mount = host_of(path);
            if matches!(mount.filesystem.as_str(), "tmpfs" | "ramfs") {
                return Err(place(format!(
                    "is on {}, in memory: there is no device to measure",
                    mount.filesystem
                )));
            }
            let space = rustix::fs::statvfs(path).map_err(|e| refused(e.into()))?;
            let free = space.f_bavail.saturating_mul(space.f_frsize);
            let file = nameless(path).map_err(refused)?;
            if free < wanted {
                let (free_mib, size_mib) = (free >> 20, self.size_mib);
                return Err(CalibrateError::NoSpace { path: path.clone(), free_mib, size_mib });
            }
            // A file system that cannot allocate ahead does so when the file is written in full.
            match rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, wanted) {
                Ok(()) | Err(rustix::io::Errno::OPNOTSUPP) => {}
                Err(error) => return Err(refused(error.into())),
            }
            (file, wanted)
        };
        let bytes = bytes >> 20 << 20;
        if bytes < SMALLEST_MIB << 20 {
            return Err(place(format!("holds {} MiB only: at least {SMALLEST_MIB} are needed", bytes >> 20)));
        }
        let mut random = Random::new(1);
        let room = AlignedBuffer::new(LARGEST, &mut random);
        let described = Description::of(path, &file);
        Ok((Target { path: path.clone(), file, bytes, random, room, stopped }, described))
    }
}

/// The loop device that lies on a file, known by its device and its number; `block` is what the
/// kernel tells of block devices.
fn loop_on(file: (u64, u64), block: &Path) -> Option<String> {
    let all = fs::read_dir(block).into_iter().flatten().flatten();
    let lies_on_it = |name: &String| {
        let told = fs::read_to_string(block.join(name).join("loop/backing_file"));
        let backing = told.and_then(|path| fs::metadata(path.trim_end_matches('\n')));
        backing.is_ok_and(|backing| (backing.dev(), backing.ino()) == file)
    };
    all.map(|device| device.file_name().to_string_lossy().into_owned()).find(lies_on_it)
}

/// Whether a block device takes no writes; `block` is what the kernel tells of devices by number.
fn is_read_only(device: u64, block: &Path) -> bool {
    let number = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    fs::read_to_string(block.join(number).join("ro")).is_ok_and(|told| told.trim() == "1")
}

/// A file without a name; where the file system has none, one whose name is taken away at once.
fn nameless(directory: &Path) -> io::Result<File> {
    let direct = libc::O_DIRECT;
    let open = |path: &Path, flags: libc::c_int, new: bool| {
        OpenOptions::new().read(true).write(true).create_new(new).custom_flags(flags).open(path)
    };
    match open(directory, libc::O_TMPFILE | direct, false) {
        Err(error)
            if matches!(error.raw_os_error(), Some(libc::EOPNOTSUPP | libc::EISDIR | libc::ENOENT)) => {}
        other => return other,
    }
    let path = directory.join(format!(".fathom-calibrate-{}", std::process::id()));
    let file = open(&path, direct, true);
    // Made even where O_DIRECT is refused afterwards.
    let removed = fs::remove_file(&path);
    let file = file?;
    removed?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened: `stack calibrate card.img --destroy` wrote over an image that was mounted
    /// through a loop device, which is "not at all" to be measured; only block devices were asked
    /// whether they are in use.
    #[test]
    fn a_file_that_a_loop_device_lies_on_is_known() {
        let place = tempfile::tempdir().unwrap();
        let (image, other) = (place.path().join("card.img"), place.path().join("other.img"));
        let number = |path: &Path| {
            let about = fs::metadata(path).unwrap();
            (about.dev(), about.ino())
        };
        for file in [&image, &other] {
            fs::write(file, "").unwrap();
        }
        let block = place.path().join("block");
        for (device, told) in
            [("loop3", "/gone.img (deleted)\n".to_owned()), ("loop5", format!("{}\n", image.display()))]
        {
            fs::create_dir_all(block.join(device).join("loop")).unwrap();
            fs::write(block.join(device).join("loop/backing_file"), told).unwrap();
        }
        fs::create_dir(block.join("sda")).unwrap();
        assert_eq!(loop_on(number(&image), &block).as_deref(), Some("loop5"));
        assert_eq!(loop_on(number(&other), &block), None);
        assert_eq!(loop_on(number(&image), &place.path().join("nothing")), None);
    }

    /// What happened: of a card whose lock switch is on it was said that it is on a file system
    /// that is mounted read-only, and of a loop device that a write failed.
    #[test]
    fn a_device_that_takes_no_writes_is_known() {
        let block = tempfile::tempdir().unwrap();
        for (number, told) in [("179:0", "1\n"), ("7:3", "0\n")] {
            fs::create_dir(block.path().join(number)).unwrap();
            fs::write(block.path().join(number).join("ro"), told).unwrap();
        }
        let of = |major, minor| is_read_only(rustix::fs::makedev(major, minor), block.path());
        assert_eq!([of(179, 0), of(7, 3), of(7, 4)], [true, false, false]);
    }
}
