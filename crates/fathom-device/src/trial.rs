//! Operations on a device whose times are known, measured as a program sees them.
//!
//! They are made in a process of their own. One that serves a device and waits for it as well
//! cannot be killed in that moment: the thread that waits does not end before the kernel has its
//! answer, and the connection, whose end would be an answer, stays open until the thread has ended.

use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Times of reads, writes and flushes, in turn, in memory that two processes share.
struct Times {
    start: *mut libc::c_void,
    count: usize,
}

impl Times {
    fn new(count: usize) -> io::Result<Times> {
        let (protection, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: a new anonymous mapping at a place of the kernel's choice touches no other
        // memory.
        let start = unsafe { libc::mmap(std::ptr::null_mut(), 8 * count, protection, kind, -1, 0) };
        if start == libc::MAP_FAILED { Err(io::Error::last_os_error()) } else { Ok(Times { start, count }) }
    }

    fn all(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is page-aligned, as long as `count` words, zeroed, and lives as long
        // as `self`; atomics may be shared.
        unsafe { std::slice::from_raw_parts(self.start.cast(), self.count) }
    }
}

impl Drop for Times {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and no reference to it outlives the value.
        unsafe { libc::munmap(self.start, 8 * self.count) };
    }
}

/// Reads, writes what was read and flushes the first `block` of the file at `path`, `rounds` times,
/// with a `rest` before each operation: what each took, ns.
///
/// # Errors
/// No process can be made, or the file cannot be opened, read or written.
pub(super) fn measure(
    path: &Path,
    block: &mut [u8],
    rounds: usize,
    rest: Duration,
) -> io::Result<[Vec<u64>; 3]> {
    let path = CString::new(path.as_os_str().as_bytes())?;
    let times = Times::new(3 * rounds)?;
    // SAFETY: the child calls nothing but `operate`, which is made for it, and _exit.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let error = operate(&path, block, rest, times.all());
        // SAFETY: _exit takes an integer and runs nothing of this process's.
        unsafe { libc::_exit(error) };
    }
    if child < 0 {
        return Err(io::Error::last_os_error());
    }
    let mut status = 0;
    loop {
        // SAFETY: the child is this function's own and `status` a place for an integer.
        if unsafe { libc::waitpid(child, &mut status, 0) } == child {
            break;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    match (libc::WIFEXITED(status), libc::WEXITSTATUS(status)) {
        (true, 0) => {}
        (true, error) => return Err(io::Error::from_raw_os_error(error)),
        (false, _) => return Err(io::Error::other("the process of a trial was killed")),
    }
    let of =
        |kind| times.all().iter().skip(kind).step_by(3).map(|time| time.load(Ordering::Relaxed)).collect();
    Ok([of(0), of(1), of(2)])
}

/// The child: the other threads of its process are not in it, so it takes no lock and allocates
/// nothing. 0, or the number of an error.
fn operate(path: &CString, block: &mut [u8], rest: Duration, times: &[AtomicU64]) -> i32 {
    let failed = || io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
    // SAFETY: calls of the system with integers, a string that ends with 0, and a block of
    // `block.len()` bytes.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong);
        // Above all the connection to the kernel, which must end with the process that serves.
        if libc::syscall(libc::SYS_close_range, 0, libc::c_uint::MAX, 0) != 0 {
            (0..1024).for_each(|descriptor| {
                libc::close(descriptor);
            });
        }
        let file = libc::open(path.as_ptr(), libc::O_RDWR | libc::O_DIRECT | libc::O_CLOEXEC);
        if file < 0 {
            return failed();
        }
        for (number, time) in times.iter().enumerate() {
            if !rest.is_zero() {
                std::thread::sleep(rest);
            }
            let begin = Instant::now();
            let done = match number % 3 {
                0 => libc::pread(file, block.as_mut_ptr().cast(), block.len(), 0),
                1 => libc::pwrite(file, block.as_ptr().cast(), block.len(), 0),
                _ => libc::fdatasync(file) as isize,
            };
            time.store(begin.elapsed().as_nanos() as u64, Ordering::Relaxed);
            match done {
                0 if number % 3 == 2 => {}
                bytes if number % 3 < 2 && bytes == block.len() as isize => {}
                -1 => return failed(),
                _ => return libc::EIO,
            }
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn a_trial_times_each_operation_and_tells_of_what_fails() {
        // Where O_DIRECT is to be had: the build's folder is on a disk.
        let file = tempfile::NamedTempFile::new_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        file.as_file().write_all_at(&[7; 4096], 0).unwrap();
        let mut random = fathom_random::Random::new(1);
        let mut room = crate::aligned::AlignedBuffer::new(4096, &mut random);
        let rest = Duration::from_millis(1);
        let begin = Instant::now();
        let times = match measure(file.path(), room.of(4096), 5, rest) {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                return println!("skipped: no O_DIRECT here");
            }
            times => times.unwrap(),
        };
        assert!(begin.elapsed() >= 15 * rest, "it rests");
        assert!(times.iter().all(|kind| kind.len() == 5 && kind.iter().all(|&ns| ns > 0)), "{times:?}");
        let mut content = [0; 4096];
        file.as_file().read_exact_at(&mut content, 0).unwrap();
        assert_eq!(content, [7; 4096], "what is written is what was there");
        file.as_file().set_len(1000).unwrap();
        assert!(measure(file.path(), room.of(4096), 5, Duration::ZERO).is_err(), "a short read");
        let gone = measure(Path::new("/none-such"), room.of(4096), 5, Duration::ZERO);
        assert_eq!(gone.unwrap_err().raw_os_error(), Some(libc::ENOENT));
    }
}
