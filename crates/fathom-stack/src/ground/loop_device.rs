//! Loop devices: an image file as a block device, past the host's page cache.
//!
//! A device is attached with *autoclear*: it goes by itself when its last user closes it. While
//! Fathom prepares a stack it holds the device open; after the mount only the file system does. So
//! whoever unmounts, or dies before mounting, frees the device, and with it the image, which has no
//! name any more.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use fathom_ground::system::kernel_release;

// From <linux/loop.h>.
const LOOP_CLR_FD: libc::Ioctl = 0x4C01;
const LOOP_GET_STATUS64: libc::Ioctl = 0x4C05;
const LOOP_CONFIGURE: libc::Ioctl = 0x4C0A;
const LOOP_CTL_GET_FREE: libc::Ioctl = 0x4C82;
const LO_FLAGS_AUTOCLEAR: u32 = 4;
const LO_FLAGS_DIRECT_IO: u32 = 16;
/// How often a free device is asked for anew when another process was faster.
const RACES: u32 = 64;
/// The release of Linux from which on a device is attached in one call, `LOOP_CONFIGURE`.
const CONFIGURES: (u32, u32) = (5, 8);

/// `struct loop_info64` of <linux/loop.h>.
#[repr(C)]
#[derive(Clone, Copy)]
struct LoopInfo64 {
    device: u64,
    inode: u64,
    rdevice: u64,
    offset: u64,
    size_limit: u64,
    number: u32,
    encrypt_type: u32,
    encrypt_key_size: u32,
    flags: u32,
    file_name: [u8; 64],
    crypt_name: [u8; 64],
    encrypt_key: [u8; 32],
    init: [u64; 2],
}

/// `struct loop_config` of <linux/loop.h>.
#[repr(C)]
struct LoopConfig {
    fd: u32,
    block_size: u32,
    info: LoopInfo64,
    reserved: [u64; 8],
}

const EMPTY_INFO: LoopInfo64 = LoopInfo64 {
    device: 0,
    inode: 0,
    rdevice: 0,
    offset: 0,
    size_limit: 0,
    number: 0,
    encrypt_type: 0,
    encrypt_key_size: 0,
    flags: 0,
    file_name: [0; 64],
    crypt_name: [0; 64],
    encrypt_key: [0; 32],
    init: [0; 2],
};

/// A block device of a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockDevice {
    /// `/dev/loopN`.
    pub path: PathBuf,
    /// Major and minor number.
    pub number: (u32, u32),
}

/// An attached loop device, held open. It is detached with its last user, however that ends.
#[derive(Debug)]
pub struct LoopDevice {
    /// `/dev/loopN`.
    pub path: PathBuf,
    /// N.
    pub number: u32,
    /// Whether reads and writes go past the host's page cache.
    pub direct: bool,
    /// Logical sector size, bytes.
    pub sector_bytes: u32,
    file: File,
}

impl LoopDevice {
    /// Attaches an image, with direct I/O where its file system allows it: first with sectors of
    /// 512 bytes (what SD cards, eMMC and most disks show), then of 4096, which direct I/O needs on
    /// a backing device with such sectors.
    ///
    /// # Errors
    /// No loop device can be had; the reason is the kernel's.
    pub fn attach(image: &File) -> io::Result<LoopDevice> {
        let first = LoopDevice::attach_with(image, 512)?;
        if first.direct {
            return Ok(first);
        }
        let backing = first.number;
        drop(first);
        wait_detached(backing, None, Duration::from_secs(5));
        let second = LoopDevice::attach_with(image, 4096)?;
        if second.direct {
            return Ok(second);
        }
        let backing = second.number;
        drop(second);
        wait_detached(backing, None, Duration::from_secs(5));
        LoopDevice::attach_with(image, 512)
    }

    /// Attaches a modelled device with its own sector size.
    ///
    /// # Errors
    /// As [`LoopDevice::attach`].
    pub fn attach_sectors(disk: &File, sector_bytes: u32) -> io::Result<LoopDevice> {
        LoopDevice::attach_with(disk, sector_bytes)
    }

    fn attach_with(image: &File, sector_bytes: u32) -> io::Result<LoopDevice> {
        let control = OpenOptions::new().read(true).write(true).open("/dev/loop-control")?;
        let mut last = io::Error::other("no free loop device");
        for _ in 0..RACES {
            // SAFETY: this ioctl takes no argument.
            let number = unsafe { libc::ioctl(control.as_raw_fd(), LOOP_CTL_GET_FREE) };
            if number < 0 {
                return Err(io::Error::last_os_error());
            }
            let number = number as u32;
            let path = PathBuf::from(format!("/dev/loop{number}"));
            let file = open_device(&path).map_err(|error| without_node(error, number))?;
            let config = LoopConfig {
                fd: image.as_raw_fd() as u32,
                block_size: sector_bytes,
                info: LoopInfo64 { flags: LO_FLAGS_AUTOCLEAR | LO_FLAGS_DIRECT_IO, ..EMPTY_INFO },
                reserved: [0; 8],
            };
            // SAFETY: `config` has the layout of struct loop_config and outlives the call.
            if unsafe { libc::ioctl(file.as_raw_fd(), LOOP_CONFIGURE, &config) } == 0 {
                let mut info = EMPTY_INFO;
                // SAFETY: `info` has the layout of struct loop_info64 and outlives the call.
                if unsafe { libc::ioctl(file.as_raw_fd(), LOOP_GET_STATUS64, &mut info) } != 0 {
                    return Err(io::Error::last_os_error());
                }
                return Ok(LoopDevice {
                    path,
                    number,
                    direct: info.flags & LO_FLAGS_DIRECT_IO != 0,
                    sector_bytes,
                    file,
                });
            }
            last = io::Error::last_os_error();
            // Another process took this number between the two calls.
            if last.raw_os_error() != Some(libc::EBUSY) {
                break;
            }
            thread::sleep(Duration::from_millis(1));
        }
        Err(last)
    }

    /// The device, open.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Path and number.
    ///
    /// # Errors
    /// The device cannot be looked at.
    pub fn block_device(&self) -> io::Result<BlockDevice> {
        let number = rustix::fs::fstat(&self.file)?.st_rdev;
        let number = (rustix::fs::major(number), rustix::fs::minor(number));
        Ok(BlockDevice { path: self.path.clone(), number })
    }

    /// Makes the device refuse discards, so that no file system punches holes into the allocated
    /// image.
    ///
    /// # Errors
    /// sysfs is not writable.
    pub fn refuse_discards(&self) -> io::Result<()> {
        fs::write(format!("/sys/block/loop{}/queue/discard_max_bytes", self.number), "0")
    }

    /// Writes the device's own page cache (mkfs used it) out to the image.
    ///
    /// # Errors
    /// The write fails, e.g. for want of space.
    pub fn flush(&self) -> io::Result<()> {
        self.file.sync_all()
    }
}

/// Whether this kernel attaches devices by the call that is made here; where it does not tell, it
/// is taken to.
pub fn is_attachable() -> bool {
    let is_old = release_of(&kernel_release()).is_some_and(|release| release < CONFIGURES);
    !is_old || takes_configuration().unwrap_or(true)
}

/// Major and minor number of a kernel's release, such as `4.9.337-tegra`.
fn release_of(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Whether a kernel knows the call, which makers have brought to older ones (Android's 4.14, for
/// one); none where there is no device to ask. Nothing is attached: no file has that number, which
/// a kernel that knows the call says before all else.
fn takes_configuration() -> Option<bool> {
    let device = (0..8).find_map(|number| File::open(format!("/dev/loop{number}")).ok())?;
    let config = LoopConfig { fd: u32::MAX, block_size: 0, info: EMPTY_INFO, reserved: [0; 8] };
    // SAFETY: `config` has the layout of struct loop_config and outlives the call.
    let is_refused = unsafe { libc::ioctl(device.as_raw_fd(), LOOP_CONFIGURE, &config) } != 0;
    Some(is_refused && io::Error::last_os_error().raw_os_error() == Some(libc::EBADF))
}

fn open_device(path: &Path) -> io::Result<File> {
    // The device node may appear a moment after the kernel made the device.
    let start = Instant::now();
    loop {
        match OpenOptions::new().read(true).write(true).custom_flags(libc::O_CLOEXEC).open(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound && start.elapsed() < Duration::from_secs(1) => {
                thread::sleep(Duration::from_millis(5));
            }
            other => return other,
        }
    }
}

/// What helps where the node of a device that the kernel has is not there.
fn without_node(error: io::Error, number: u32) -> io::Error {
    if error.kind() != io::ErrorKind::NotFound {
        return error;
    }
    let problem = format!(
        "there is no /dev/loop{number}, although the kernel has the device: a container's /dev is not told \
         of new ones. `mknod /dev/loop{number} b 7 {number}` makes it, or start the container with the \
         machine's /dev"
    );
    io::Error::new(io::ErrorKind::NotFound, problem)
}

/// The backing file of each attached loop device: number and path as sysfs shows it (`… (deleted)`
/// for an unnamed one).
pub fn attached() -> Vec<(u32, String)> {
    let mut all: Vec<(u32, String)> = fs::read_dir("/sys/block")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let number = entry.file_name().to_str()?.strip_prefix("loop")?.parse().ok()?;
            Some((number, backing_file(number)?))
        })
        .collect();
    all.sort_unstable();
    all
}

/// The backing file of one loop device, if it is attached.
pub fn backing_file(number: u32) -> Option<String> {
    let text = fs::read_to_string(format!("/sys/block/loop{number}/loop/backing_file")).ok()?;
    Some(text.trim_end_matches('\n').to_owned()).filter(|t| !t.is_empty())
}

/// Whether requests are under way on a loop device, by the kernel's own count.
pub fn is_at_work(number: u32) -> bool {
    let counts = fs::read_to_string(format!("/sys/block/loop{number}/inflight")).unwrap_or_default();
    counts.split_whitespace().any(|count| count != "0")
}

/// Waits until the device is detached, or belongs to another image than `image`; `false` after
/// `limit`.
pub fn wait_detached(number: u32, image: Option<&str>, limit: Duration) -> bool {
    let start = Instant::now();
    loop {
        let gone = match (backing_file(number), image) {
            (None, _) => true,
            (Some(now), Some(image)) => !now.contains(image),
            (Some(_), None) => false,
        };
        if gone || start.elapsed() >= limit {
            return gone;
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// The device of this number, open, while it belongs to `image`: as long as it is open it belongs
/// to no other. None where it does not any more: a number is used again at once.
///
/// # Errors
/// The device cannot be opened.
pub fn hold(number: u32, image: &str) -> io::Result<Option<File>> {
    let file = OpenOptions::new().read(true).open(format!("/dev/loop{number}"))?;
    Ok(backing_file(number).is_some_and(|now| now.contains(image)).then_some(file))
}

/// Detaches a device by number, unless it belongs to another image than `image` by now (a leftover,
/// or one whose user did not let go in time). In use, it goes with its last user.
///
/// # Errors
/// The device cannot be opened or the kernel refuses.
pub fn detach(number: u32, image: &str) -> io::Result<()> {
    let Some(file) = hold(number, image)? else { return Ok(()) };
    // SAFETY: this ioctl takes no argument.
    if unsafe { libc::ioctl(file.as_raw_fd(), LOOP_CLR_FD) } == 0 {
        return Ok(());
    }
    match io::Error::last_os_error() {
        e if e.raw_os_error() == Some(libc::ENXIO) => Ok(()),
        e => Err(e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_are_the_kernels() {
        assert_eq!(size_of::<LoopInfo64>(), 232);
        assert_eq!(size_of::<LoopConfig>(), 304);
    }

    /// What happened: in a container that may use loop devices, and whose /dev has only those that
    /// were there when it was started, every image was "No such file or directory".
    #[test]
    fn a_device_without_a_node_is_told_with_a_remedy() {
        let of = |number: i32| without_node(io::Error::from_raw_os_error(number), 9);
        let told = of(libc::ENOENT).to_string();
        assert!(told.contains("`mknod /dev/loop9 b 7 9`") && told.contains("container"), "{told}");
        assert_eq!(of(libc::EACCES).raw_os_error(), Some(libc::EACCES));
    }

    /// What happened: `doctor` said of a board with Linux 4.9 that it has loop devices, and each
    /// run that mounted failed there: "attach a loop device to an image: Invalid argument".
    #[test]
    fn a_kernel_that_is_too_old_is_told_by_its_release_and_by_its_answer() {
        for (release, is_new) in [
            ("4.9.337-tegra", false),
            ("5.4.0-1063-raspi", false),
            ("5.8.0", true),
            ("5.10.103-v7l+", true),
            ("6.1.0-32-amd64", true),
        ] {
            assert_eq!(release_of(release) >= Some(CONFIGURES), is_new, "{release}");
        }
        assert_eq!(release_of("none"), None);
        if crate::can_loop() && release_of(&kernel_release()) >= Some(CONFIGURES) {
            assert_ne!(takes_configuration(), Some(false), "this one knows the call");
        }
    }

    #[test]
    fn an_image_is_attached_directly_and_goes_with_its_last_user() {
        if !crate::can_loop() {
            println!("skipped: loop devices need root");
            return;
        }
        let dir = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        // A name of its own: the machine's devices are those of other checkouts, too.
        let name = format!("fathom-loop-test-{}.img", std::process::id());
        let path = dir.path().join(&name);
        let file = OpenOptions::new().read(true).write(true).create_new(true).open(&path).unwrap();
        file.set_len(1 << 20).unwrap();
        let device = LoopDevice::attach(&file).unwrap();
        let takes = File::options().read(true).custom_flags(libc::O_DIRECT).open(&path).is_ok();
        assert!(device.direct || !takes, "this directory's disk takes direct I/O");
        assert!(attached().iter().any(|(n, f)| *n == device.number && f.ends_with(&name)));
        device.refuse_discards().unwrap();
        device.flush().unwrap();
        let number = device.number;
        drop(device);
        assert!(wait_detached(number, Some(&name), Duration::from_secs(60)), "autoclear");
        assert!(!attached().iter().any(|(_, f)| f.ends_with(&name)));
    }
}
