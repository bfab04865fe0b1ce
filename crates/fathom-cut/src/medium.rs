//! An image under a loop device, mounted by this kernel's own driver.
//!
//! Nothing can stay behind: the image has no name, the loop device goes with the last descriptor of
//! it, and the file system is mounted in no namespace at all (`fsmount`), but held by a descriptor.
//! All of them end with the process, however that ends.

use std::ffi::CString;
use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use fathom_ground::mountinfo::mounts;
use fathom_stack::{LoopDevice, Machine};
use rustix::io::Errno;
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MountPropagationFlags, MoveMountFlags, UnmountFlags,
};
use rustix::thread::UnshareFlags;

use serde::{Deserialize, Serialize};

use crate::error::CutError;
use crate::guest::{self, Answer, Guest, Request};
use crate::history::History;
use crate::image::Image;
use crate::safe::{Safe, Side};
use crate::states::State;
use crate::subject::Subject;

/// Drops what the kernel keeps of a block device's content, from <linux/fs.h>.
pub(crate) const BLKFLSBUF: libc::Ioctl = 0x1261;

/// Whether states of this file system can be mounted: not one whose driver is a program (FUSE).
pub(crate) fn is_mountable(filesystem: &str) -> bool {
    Machine::here().filesystem(filesystem).is_some_and(fathom_stack::FileSystem::is_of_kernel)
}

/// How a file system is mounted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileSystem {
    /// Its driver.
    pub driver: String,
    /// Its mount options.
    pub options: String,
    /// Sectors of the device, bytes.
    pub sector_bytes: u32,
    /// The same of the device that its external log lies on, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_sector_bytes: Option<u32>,
    /// Whether it is mounted in a guest, whose kernel has it.
    #[serde(default)]
    pub guest: bool,
}

/// The devices' content in memory, with a loop device on each.
#[derive(Debug)]
pub(crate) struct Medium {
    main: Disk,
    /// Of the external log.
    log: Option<Disk>,
    filesystem: FileSystem,
}

/// A device's content in memory, with a loop device on it.
#[derive(Debug)]
struct Disk {
    image: Image,
    device: LoopDevice,
}

impl Disk {
    fn new(places: Range<u64>, sector_bytes: u32) -> io::Result<Disk> {
        let image = Image::new(places)?;
        let device = LoopDevice::attach_sectors(image.file(), sector_bytes)?;
        Ok(Disk { image, device })
    }

    fn bring_to(&mut self, history: &History, safe: Safe, state: &State) -> io::Result<u64> {
        let written = self.image.bring_to(history, safe, state)?;
        // SAFETY: this ioctl takes no argument.
        match unsafe { libc::ioctl(self.device.file().as_raw_fd(), BLKFLSBUF, 0) } {
            0 => Ok(written),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn wait_until_free(&self) -> io::Result<()> {
        let begin = Instant::now();
        loop {
            let opened = File::options()
                .read(true)
                .custom_flags(libc::O_EXCL | libc::O_CLOEXEC)
                .open(&self.device.path);
            match opened {
                Err(error) if error.raw_os_error() == Some(libc::EBUSY) && begin.elapsed() < FREE_LIMIT => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                opened => return opened.map(drop),
            }
        }
    }
}

/// Options of the mount itself, or of mount(8) alone, and not of a driver's.
const OF_THE_MOUNT: [&str; 31] = [
    "defaults",
    "atime",
    "noatime",
    "relatime",
    "norelatime",
    "strictatime",
    "nostrictatime",
    "diratime",
    "nodiratime",
    "rw",
    "suid",
    "nosuid",
    "dev",
    "nodev",
    "exec",
    "noexec",
    "symfollow",
    "nosymfollow",
    "silent",
    "loud",
    "auto",
    "noauto",
    "user",
    "nouser",
    "users",
    "nousers",
    "owner",
    "noowner",
    "group",
    "nogroup",
    "nofail",
];

/// What a mounted state is kept from: a recording may be somebody else's, and root has its files
/// opened. A device in it would be one of this machine's.
const CONFINED: MountAttrFlags = MountAttrFlags::MOUNT_ATTR_NOATIME
    .union(MountAttrFlags::MOUNT_ATTR_NODEV)
    .union(MountAttrFlags::MOUNT_ATTR_NOSUID)
    .union(MountAttrFlags::MOUNT_ATTR_NOEXEC);
/// And a symbolic link would lead to this machine's own files. `MOUNT_ATTR_NOSYMFOLLOW` of
/// <linux/mount.h>; Linux before 5.14 refuses it.
const NO_LINKS: MountAttrFlags = MountAttrFlags::from_bits_retain(0x0020_0000);

impl FileSystem {
    /// The options that are the driver's; those of the mount itself (`noatime`) change nothing
    /// here. Several images of one file system are mounted at once, which XFS has to be told.
    pub(crate) fn own_options(&self) -> impl Iterator<Item = &str> {
        let own = (self.driver == "xfs").then_some("nouuid");
        let given = self.options.split(',').map(str::trim);
        let is_own = |word: &&str| {
            let word = *word;
            let is_for_others = OF_THE_MOUNT.contains(&word)
                || ["x-", "X-", "comment=", "_netdev"].iter().any(|begin| word.starts_with(begin));
            !word.is_empty() && word != "nouuid" && !is_for_others
        };
        given.filter(is_own).chain(own)
    }

    /// The option that tells the driver where the external log is; none without one.
    pub(crate) fn log_option(&self, log: &Path) -> Option<String> {
        // ext notes the log's device number, which is another one whenever it is mounted.
        let key = if self.driver == "xfs" { "logdev" } else { "journal_path" };
        self.log_sector_bytes.map(|_| format!("{key}={}", log.display()))
    }
}

/// Whether a mount failed because the machine had not what it takes: memory, a place for one more
/// file, or time before a signal. That says nothing of what the device holds.
pub(crate) fn is_want(error: Errno) -> bool {
    matches!(error, Errno::NOMEM | Errno::MFILE | Errno::NFILE | Errno::INTR)
}

/// A mounted file system. Dropped, it is unmounted.
#[derive(Debug)]
pub(crate) struct MountedFileSystem(OwnedFd);

/// Why it cannot be mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unmountable {
    pub error: i32,
    /// What the driver said.
    pub said: String,
}

impl fmt::Display for Unmountable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let error = io::Error::from_raw_os_error(self.error);
        match self.said.as_str() {
            "" => write!(f, "{error}"),
            said => write!(f, "{said} ({error})"),
        }
    }
}

impl Medium {
    /// # Errors
    /// There is no memory, or no loop device to be had.
    pub fn new(history: &History, filesystem: &FileSystem) -> io::Result<Medium> {
        let main = Disk::new(history.places_of(Side::Main), filesystem.sector_bytes)?;
        let log = filesystem.log_sector_bytes.map(|bytes| Disk::new(history.places_of(Side::Log), bytes));
        Ok(Medium { main, log: log.transpose()?, filesystem: filesystem.clone() })
    }

    /// Brings the content to a state; nothing may be mounted.
    pub fn bring_to(&mut self, history: &History, safe: Safe, state: &State) -> io::Result<u64> {
        let mut disks = std::iter::once(&mut self.main).chain(&mut self.log);
        disks.try_fold(0, |written, disk| Ok(written + disk.bring_to(history, safe, state)?))
    }

    /// Mounts it, or says why the driver does not take what the device holds.
    ///
    /// # Errors
    /// The driver, an option or the mount is refused whatever the device holds, which is no verdict
    /// on a state.
    pub fn mount(&self) -> Result<Result<MountedFileSystem, Unmountable>, CutError> {
        let filesystem = &self.filesystem;
        let refused = |what: String| move |error: Errno| CutError::io(what)(error.into());
        let driver = &filesystem.driver;
        let context = rustix::mount::fsopen(driver, FsOpenFlags::FSOPEN_CLOEXEC)
            .map_err(refused(format!("take the driver {driver}")))?;
        let set = |option: &str| match option.split_once('=') {
            Some((key, value)) => rustix::mount::fsconfig_set_string(&context, key, value),
            None => rustix::mount::fsconfig_set_flag(&context, option),
        };
        rustix::mount::fsconfig_set_string(&context, "source", &self.main.device.path)
            .map_err(refused(format!("take {}", self.main.device.path.display())))?;
        let log = self.log.as_ref().and_then(|log| filesystem.log_option(&log.device.path));
        for option in filesystem.own_options().chain(log.as_deref()) {
            set(option).map_err(|error| {
                let problem = Unmountable { error: error.raw_os_error(), said: said(&context) };
                CutError::Usage(format!("{driver} does not take the mount option {option}: {problem}"))
            })?;
        }
        match rustix::mount::fsconfig_create(&context) {
            Ok(()) => {}
            Err(error) if is_want(error) => return Err(refused(format!("mount {driver}"))(error)),
            Err(error) => {
                return Ok(Err(Unmountable { error: error.raw_os_error(), said: said(&context) }));
            }
        }
        let mount = |flags| rustix::mount::fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, flags);
        let mounted = match mount(CONFINED.union(NO_LINKS)) {
            Err(Errno::INVAL) => mount(CONFINED),
            mounted => mounted,
        };
        let mounted = mounted.map_err(refused(format!("mount {driver}")))?;
        Ok(Ok(MountedFileSystem(mounted)))
    }

    /// Waits until nothing is mounted of it: whoever else had a file open may have let go a moment
    /// ago.
    pub fn wait_until_free(&self) -> io::Result<()> {
        std::iter::once(&self.main).chain(&self.log).try_for_each(Disk::wait_until_free)
    }

    /// Whether the file system has noted an error of its own in its superblock (ext2, ext3, ext4).
    pub fn notes_errors(&self) -> bool {
        notes_errors(&self.main.image, &self.filesystem)
    }

    /// Whether what becomes of the files is told by what they hold.
    pub fn is_told_by_files(&self) -> bool {
        is_told_by_files(&self.main.image, &self.filesystem.driver)
    }

    /// The image of a device, if there is such a one.
    pub fn image(&self, side: Side) -> Option<&Image> {
        match side {
            Side::Main => Some(&self.main.image),
            Side::Log => self.log.as_ref().map(|log| &log.image),
        }
    }

    /// Has Btrfs forget a device whose content is another now.
    pub fn forget(&self) {
        if self.filesystem.driver != "btrfs" {
            return;
        }
        // struct btrfs_ioctl_vol_args of <linux/btrfs.h>, and BTRFS_IOC_FORGET_DEV: _IOW(0x94, 5,
        // that).
        const FORGET_DEV: libc::Ioctl = 0x5000_9405;
        let mut arguments = [0u8; 4096];
        let path = CString::new(self.main.device.path.to_string_lossy().as_bytes()).unwrap_or_default();
        let bytes = path.as_bytes();
        arguments[8..8 + bytes.len()].copy_from_slice(bytes);
        if let Ok(control) = File::options().read(true).write(true).open("/dev/btrfs-control") {
            // SAFETY: the arguments have the layout and the length that the number says, and
            // outlive the call.
            unsafe { libc::ioctl(control.as_raw_fd(), FORGET_DEV, arguments.as_ptr()) };
        }
    }
}

fn notes_errors(image: &Image, filesystem: &FileSystem) -> bool {
    // s_state at 0x3a of the superblock at 1024; 2: "errors detected".
    let mut state = [0; 2];
    filesystem.driver.starts_with("ext")
        && image.read(1024 + 0x3a, &mut state).is_ok()
        && u16::from_le_bytes(state) & 2 != 0
}

/// Whether what becomes of a state's files is told by what they hold, on a device that keeps what
/// the file system flushes. It is where the driver replays a log of its metadata, or never writes
/// over what is in use. Elsewhere a bitmap or a table of clusters may take blocks for free that a
/// file has and that can be read: as recovery frees them, or makes a file, the driver notes an
/// error, fails, or takes no more writes.
fn is_told_by_files(image: &Image, driver: &str) -> bool {
    if !["ext3", "ext4", "xfs", "btrfs", "f2fs", "nilfs2", "bcachefs"].contains(&driver) {
        return false;
    }
    // s_feature_compat at 0x5c of the superblock at 1024; 4: it has a journal.
    let mut features = [0; 4];
    let is_read = image.read(1024 + 0x5c, &mut features).is_ok();
    !driver.starts_with("ext") || (is_read && u32::from_le_bytes(features) & 4 != 0)
}

/// The devices' content in memory, as the disks of a guest.
#[derive(Debug)]
pub(crate) struct GuestMedium {
    // The guest is ended before its disks go.
    guest: Guest,
    main: Image,
    /// Of the external log.
    log: Option<Image>,
    filesystem: FileSystem,
}

/// Boots a guest with the images as its disks.
fn boot(main: &Image, log: Option<&Image>, filesystem: &FileSystem) -> Result<Guest, CutError> {
    let disks = std::iter::once((main.file(), filesystem.sector_bytes));
    let external = log.zip(filesystem.log_sector_bytes).map(|(log, bytes)| (log.file(), bytes));
    Guest::boot(&disks.chain(external).collect::<Vec<_>>())
}

impl GuestMedium {
    /// # Errors
    /// There is no memory, or no guest to be had.
    pub fn new(history: &History, filesystem: &FileSystem) -> Result<GuestMedium, CutError> {
        let image = |side| Image::new(history.places_of(side)).map_err(CutError::io("an image in memory"));
        let main = image(Side::Main)?;
        let log = filesystem.log_sector_bytes.map(|_| image(Side::Log)).transpose()?;
        let guest = boot(&main, log.as_ref(), filesystem)?;
        Ok(GuestMedium { guest, main, log, filesystem: filesystem.clone() })
    }

    /// Brings the content to a state; nothing is mounted between two looks.
    pub fn bring_to(&mut self, history: &History, safe: Safe, state: &State) -> io::Result<u64> {
        let mut images = std::iter::once(&mut self.main).chain(&mut self.log);
        images.try_fold(0, |written, image| Ok(written + image.bring_to(history, safe, state)?))
    }

    /// Has the guest mount it and look at the database, or at all files; whether it may know a
    /// database again by its files.
    pub fn look(
        &mut self,
        database: &Path,
        subject: &Subject,
        files: bool,
        by_files: bool,
    ) -> Result<Answer, CutError> {
        let log = self.filesystem.log_option(Path::new(guest::LOG_DISK));
        self.guest.look(&Request {
            driver: self.filesystem.driver.clone(),
            options: self.filesystem.own_options().chain(log.as_deref()).collect::<Vec<_>>().join(","),
            database: database.to_owned(),
            subject: subject.clone(),
            is_told_by_files: by_files && is_told_by_files(&self.main, &self.filesystem.driver),
            files,
        })
    }

    /// Whether the guest has ended.
    pub fn has_ended(&mut self) -> bool {
        self.guest.has_ended()
    }

    /// Boots another guest with the same disks.
    ///
    /// # Errors
    /// It does not come up.
    pub fn renew(&mut self) -> Result<(), CutError> {
        self.guest = boot(&self.main, self.log.as_ref(), &self.filesystem)?;
        Ok(())
    }

    pub fn notes_errors(&self) -> bool {
        notes_errors(&self.main, &self.filesystem)
    }

    /// The image of a device, if there is such a one.
    pub fn image(&self, side: Side) -> Option<&Image> {
        match side {
            Side::Main => Some(&self.main),
            Side::Log => self.log.as_ref(),
        }
    }
}

/// Where a mount is attached, in a namespace that no other program sees: every user may enter it.
const POINT: &str = "/mnt";
/// How long the last reference to a file system may take to go.
const FREE_LIMIT: Duration = Duration::from_secs(30);

impl MountedFileSystem {
    /// Has `look` see it at a path that the programs which it starts see too. The mount namespace
    /// is that of a thread of its own, and goes with it and with those programs.
    pub fn attached<T: Send>(&self, look: impl FnOnce(&Path) -> T + Send) -> io::Result<T> {
        let attach = || -> io::Result<T> {
            // SAFETY: what is not shared any more is this thread's view of the file systems and its
            // working directory, and nothing here relies on either being the process'.
            unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS | UnshareFlags::FS)? };
            rustix::mount::mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
            leave_stacks_out();
            let empty = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
            rustix::mount::move_mount(&self.0, "", rustix::fs::CWD, POINT, empty)?;
            let found = look(Path::new(POINT));
            rustix::mount::unmount(POINT, UnmountFlags::DETACH)?;
            Ok(found)
        };
        std::thread::scope(|scope| match scope.spawn(attach).join() {
            Ok(found) => found,
            Err(panicked) => std::panic::resume_unwind(panicked),
        })
    }

    /// A path to a file in it, as long as it is mounted.
    pub fn path(&self, below: &str) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}/{below}", self.0.as_raw_fd()))
    }
}

/// Takes stacks that are up, here and elsewhere, out of this thread's view of the file systems: as
/// long as it has a copy of a mount, that is in use, and so is its loop device or its device's
/// server, also when the stack is taken down meanwhile.
fn leave_stacks_out() {
    // Those of the process, of which this view is a copy: `STATE/stacks/ID/…`.
    for mount in mounts().unwrap_or_default().iter().rev() {
        if mount.point.ancestors().nth(2).is_some_and(|above| above.ends_with("stacks")) {
            // An error means that it is gone already.
            let _ = rustix::mount::unmount(mount.point.as_path(), UnmountFlags::DETACH);
        }
    }
}

/// What a driver wrote to its context, in a line.
fn said(context: &OwnedFd) -> String {
    let mut said = Vec::new();
    let mut line = [0; 1024];
    // One message a read; none any more is an error.
    while let Ok(bytes) = rustix::io::read(context, &mut line) {
        if bytes == 0 {
            break;
        }
        let text = String::from_utf8_lossy(&line[..bytes]);
        said.push(text.trim_start_matches(['e', 'w', 'i', ' ']).trim().to_owned());
    }
    said.join("; ")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened: of a run that was recorded with `--mount exec` (or `nofail`, which mount(8)
    /// keeps to itself) every state "cannot be mounted": the driver was given the word.
    #[test]
    fn a_driver_is_given_its_own_options_alone() {
        let own = |driver: &str, options: &str| {
            let filesystem = FileSystem {
                driver: driver.into(),
                options: options.into(),
                sector_bytes: 512,
                log_sector_bytes: None,
                guest: false,
            };
            filesystem.own_options().map(str::to_owned).collect::<Vec<_>>()
        };
        let options = "defaults,exec,nofail,_netdev,x-systemd.automount,norelatime,data=journal,dirsync";
        assert_eq!(own("ext4", options), ["data=journal", "dirsync"]);
        assert_eq!(own("xfs", "nouuid,noatime,logbsize=64k"), ["logbsize=64k", "nouuid"]);
        assert!(own("ext4", "").is_empty());
    }

    /// What happened: of exFAT, FAT, ext2, UDF and MINIX states were known by their files too. Two
    /// whose files hold the same may differ in the bitmap, by which recovery frees a journal or
    /// meets an error (ext2 notes one then); the first that was looked at decided for both.
    #[test]
    fn states_are_known_by_their_files_only_where_these_tell_all() {
        let image = Image::new(0..1 << 16).unwrap();
        let of = |driver| is_told_by_files(&image, driver);
        for driver in ["ext2", "vfat", "msdos", "exfat", "ntfs3", "udf", "minix", "jfs"] {
            assert!(!of(driver), "{driver}");
        }
        assert!(of("xfs") && of("btrfs") && of("f2fs"));
        assert!(!of("ext4"), "made without a journal");
        std::os::unix::fs::FileExt::write_all_at(image.file(), &[0x3c], 1024 + 0x5c).unwrap();
        assert!(of("ext4") && of("ext3"));
        assert!(!of("ext2"), "whose driver replays none");
    }

    /// What happened: while PostgreSQL looked at a state, in a view of its own that had copies of
    /// all mounts, stacks of other commands that were taken down had their loop devices held: after
    /// five seconds that was told as an error.
    #[test]
    fn a_view_of_ones_own_holds_no_stack_of_others() {
        let place = tempfile::tempdir().unwrap();
        let point = place.path().join("stacks/fathom-other-1-2-3/mnt");
        std::fs::create_dir_all(&point).unwrap();
        let done = |words: &[&str]| {
            let ended = std::process::Command::new(words[0]).args(&words[1..]).arg(&point).status();
            ended.is_ok_and(|status| status.success())
        };
        let is_root = fathom_ground::system::is_root();
        if !is_root || !done(&["mount", "-t", "tmpfs", "-o", "size=64k", "none"]) {
            println!("skipped: a mount needs root");
            return;
        }
        let context = rustix::mount::fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC).unwrap();
        rustix::mount::fsconfig_create(&context).unwrap();
        let flags = (FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty());
        let own = rustix::mount::fsmount(&context, flags.0, flags.1).unwrap();
        let seen = MountedFileSystem(own)
            .attached(|_| std::fs::read_to_string("/proc/thread-self/mountinfo").unwrap());
        let here = mounts().unwrap().iter().any(|mount| mount.point.ends_with("fathom-other-1-2-3/mnt"));
        assert!(done(&["umount"]) && here, "it is there for all others");
        let seen = seen.unwrap();
        assert!(seen.contains(" /mnt ") && !seen.contains("fathom-other-1-2-3/mnt"), "{seen}");
    }
}
