//! The file under test, opened the way its sync mode asks: through calls or through a mapping.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use fathom_probe::PlainFile;

use super::sync::SyncMode;
use crate::workload::WorkloadError;

/// The file under test.
#[derive(Debug)]
pub struct Medium {
    path: PathBuf,
    file: File,
    mode: SyncMode,
    map: Option<Map>,
    /// For the block trace: where its bytes lie on the device.
    watched: PlainFile,
}

impl Medium {
    /// Opens (creates) the file. A mapped file gets `bytes` of allocated space first, because
    /// writing through a mapping into space that the file system cannot give kills the process.
    ///
    /// # Errors
    /// What the operating system says; for `O_DIRECT` with what to do.
    pub fn open(path: &Path, mode: SyncMode, bytes: u64) -> Result<Self, WorkloadError> {
        let failed = |source| failure(path, mode, source);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .custom_flags(mode.open_flags())
            .open(path)
            .map_err(failed)?;
        let map = if mode.maps() {
            allocate(&file, bytes).map_err(failed)?;
            Some(Map::new(&file, bytes).map_err(failed)?)
        } else {
            None
        };
        Ok(Medium { path: path.to_owned(), file, mode, map, watched: PlainFile::open(path) })
    }

    /// Writes the record at this offset, all of it, and gives the number of calls.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn write(&mut self, record: &[u8], offset: u64) -> Result<u64, WorkloadError> {
        if let Some(map) = &mut self.map {
            map.write(record, offset as usize);
            return Ok(1);
        }
        let (mut done, mut calls) = (0, 0);
        while done < record.len() {
            calls += 1;
            match self.file.write_at(&record[done..], offset + done as u64) {
                Ok(0) => return Err(self.failed(io::ErrorKind::WriteZero.into())),
                Ok(bytes) => done += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed(error)),
            }
        }
        Ok(calls)
    }

    /// Reads the record at this offset, all of it, and gives the number of calls.
    ///
    /// # Errors
    /// What the operating system says; a file that ends too early.
    pub fn read(&self, record: &mut [u8], offset: u64) -> Result<u64, WorkloadError> {
        if let Some(map) = &self.map {
            map.read(record, offset as usize);
            return Ok(1);
        }
        let (mut done, mut calls) = (0, 0);
        while done < record.len() {
            calls += 1;
            match self.file.read_at(&mut record[done..], offset + done as u64) {
                Ok(0) => return Err(self.failed(io::ErrorKind::UnexpectedEof.into())),
                Ok(bytes) => done += bytes,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed(error)),
            }
        }
        Ok(calls)
    }

    /// Whether [`Medium::sync`] makes a call in this mode.
    #[must_use]
    pub fn syncs_each(&self) -> bool {
        matches!(self.mode, SyncMode::Fsync | SyncMode::Fdatasync | SyncMode::MmapAsync | SyncMode::MmapSync)
    }

    /// What the mode does after each written record.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn sync(&self, offset: u64, bytes: usize) -> Result<(), WorkloadError> {
        match (self.mode, &self.map) {
            (SyncMode::Fsync, _) => self.file.sync_all(),
            (SyncMode::Fdatasync, _) => self.file.sync_data(),
            (SyncMode::MmapAsync, Some(map)) => {
                map.sync(offset as usize, bytes, rustix::mm::MsyncFlags::ASYNC)
            }
            (SyncMode::MmapSync, Some(map)) => map.sync(offset as usize, bytes, rustix::mm::MsyncFlags::SYNC),
            _ => Ok(()),
        }
        .map_err(|source| self.failed(source))
    }

    /// Whether a block trace wants to know where the file lies.
    #[must_use]
    pub fn is_watched(&self) -> bool {
        self.watched.is_watched()
    }

    /// After a record was written, and outside of its measured time: where it lies, as far as that
    /// is settled then. Without a sync in each operation that is at the end of the pass.
    pub fn look(&mut self, offset: u64, bytes: usize) {
        self.watched.written(offset, bytes as u64);
        if self.syncs_each() || self.mode.open_flags() != 0 {
            self.watched.settle();
        }
    }

    /// After [`Medium::sync_whole`]: where all of the file lies.
    pub fn look_at_whole(&mut self) {
        if self.is_watched() {
            self.watched.written(0, self.file.metadata().map_or(0, |metadata| metadata.len()));
            self.watched.settle();
        }
    }

    /// The sync at the end of a writing pass: all that was written is on the device after it.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn sync_whole(&self) -> Result<(), WorkloadError> {
        match &self.map {
            Some(map) => map.sync(0, map.bytes, rustix::mm::MsyncFlags::SYNC),
            None => self.file.sync_all(),
        }
        .map_err(|source| self.failed(source))
    }

    fn failed(&self, source: io::Error) -> WorkloadError {
        failure(&self.path, self.mode, source)
    }
}

/// The error with what to do where that is known.
fn failure(path: &Path, mode: SyncMode, source: io::Error) -> WorkloadError {
    let source = if mode.is_direct() && source.raw_os_error() == Some(libc::EINVAL) {
        io::Error::new(
            source.kind(),
            format!(
                "{source}: this file system takes no O_DIRECT, or not with records of this size; choose another `sync` \
                 (`o_sync` also writes each record through), a `record_kib` that is a multiple of the device's block, or \
                 another file system"
            ),
        )
    } else {
        source
    };
    WorkloadError::Io { path: path.display().to_string(), source }
}

/// Gives the file `bytes` of allocated space without changing what it holds.
fn allocate(file: &File, bytes: u64) -> io::Result<()> {
    if file.metadata()?.len() >= bytes {
        return Ok(());
    }
    match rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, bytes) {
        Ok(()) => Ok(()),
        // ext2 and some FUSE drivers cannot: zeroes do it everywhere.
        Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::NOSYS) => {
            let zeroes = [0; 64 * 1024];
            let mut at = file.metadata()?.len();
            while at < bytes {
                let step = zeroes.len().min((bytes - at) as usize);
                file.write_all_at(&zeroes[..step], at)?;
                at += step as u64;
            }
            file.sync_all()
        }
        Err(error) => Err(error.into()),
    }
}

/// A shared mapping of a whole file, readable and writable.
#[derive(Debug)]
struct Map {
    start: *mut libc::c_void,
    bytes: usize,
}

// SAFETY: the mapping belongs to this value alone (it is neither cloned nor handed out), so it may
// move to another thread.
unsafe impl Send for Map {}

impl Map {
    fn new(file: &File, bytes: u64) -> io::Result<Self> {
        let bytes = usize::try_from(bytes).map_err(|_| io::Error::from(io::ErrorKind::FileTooLarge))?;
        // SAFETY: a new mapping at an address of the kernel's choice; it aliases no Rust object.
        let start = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                bytes,
                rustix::mm::ProtFlags::READ | rustix::mm::ProtFlags::WRITE,
                rustix::mm::MapFlags::SHARED,
                file,
                0,
            )
        }?;
        Ok(Map { start, bytes })
    }

    /// # Panics
    /// When the record does not lie within the mapping.
    fn write(&mut self, record: &[u8], offset: usize) {
        assert!(offset <= self.bytes && record.len() <= self.bytes - offset, "a record outside the mapping");
        // SAFETY: the target lies within the mapping (asserted), which no Rust reference points
        // into.
        unsafe {
            std::ptr::copy_nonoverlapping(record.as_ptr(), self.start.cast::<u8>().add(offset), record.len());
        }
    }

    /// # Panics
    /// When the record does not lie within the mapping.
    fn read(&self, record: &mut [u8], offset: usize) {
        assert!(offset <= self.bytes && record.len() <= self.bytes - offset, "a record outside the mapping");
        // SAFETY: the source lies within the mapping (asserted), and `record` is a buffer outside
        // it.
        unsafe {
            std::ptr::copy_nonoverlapping(
                self.start.cast::<u8>().add(offset),
                record.as_mut_ptr(),
                record.len(),
            );
        }
    }

    /// Syncs the pages that hold these bytes.
    fn sync(&self, offset: usize, bytes: usize, flags: rustix::mm::MsyncFlags) -> io::Result<()> {
        let first = offset - offset % rustix::param::page_size();
        assert!(offset <= self.bytes && bytes <= self.bytes - offset, "a record outside the mapping");
        // SAFETY: the range starts at a page of the mapping and ends within it (asserted).
        unsafe {
            rustix::mm::msync(self.start.cast::<u8>().add(first).cast(), bytes + (offset - first), flags)
        }?;
        Ok(())
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new` with this start and size and is used by nobody
        // else. An error is impossible for such a range, and there is nobody to tell.
        let _ = unsafe { rustix::mm::munmap(self.start, self.bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modes() -> impl Iterator<Item = SyncMode> {
        SyncMode::NAMES.iter().filter_map(|name| SyncMode::from_name(name))
    }

    /// 8 KiB at an address that suits O_DIRECT.
    fn aligned(buffer: &mut Vec<u8>) -> &mut [u8] {
        buffer.resize(3 * 4096, 0);
        let skip = buffer.as_ptr().align_offset(4096);
        &mut buffer[skip..skip + 8192]
    }

    #[test]
    fn every_mode_reads_what_it_wrote_and_other_programs_see_it() {
        let directory = tempfile::tempdir().expect("a directory");
        for mode in modes() {
            let path = directory.path().join(format!("{mode:?}"));
            let mut medium = match Medium::open(&path, mode, 16_384) {
                Err(WorkloadError::Io { source, .. }) if mode.is_direct() => {
                    println!("SKIP {mode:?}: {source}");
                    continue;
                }
                opened => opened.expect("opens"),
            };
            let (mut out, mut back) = (Vec::new(), Vec::new());
            let record = aligned(&mut out);
            record.fill(7);
            medium.write(record, 8192).expect("writes");
            medium.sync(8192, 8192).expect("syncs");
            medium.sync_whole().expect("syncs");
            let read = aligned(&mut back);
            medium.read(read, 8192).expect("reads");
            assert_eq!(read, record, "{mode:?}");
            let seen = std::fs::read(&path).expect("readable");
            assert_eq!((seen.len(), &seen[8192..]), (16_384, &*record), "{mode:?}");
            assert!(seen[..8192].iter().all(|&byte| byte == 0));
        }
    }

    #[test]
    fn a_file_system_without_direct_io_says_what_to_do() {
        // procfs opens this file for writing, but never with O_DIRECT.
        let error = Medium::open(Path::new("/proc/self/comm"), SyncMode::ODirect, 4096).expect_err("refused");
        let text = error.to_string();
        assert!(text.contains("takes no O_DIRECT") && text.contains("o_sync"), "{text}");
    }

    #[test]
    fn a_file_that_ends_early_is_an_error() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("short");
        std::fs::write(&path, [1; 100]).expect("written");
        let medium = Medium::open(&path, SyncMode::None, 4096).expect("opens");
        let error = medium.read(&mut [0; 4096], 0).expect_err("too short");
        assert!(error.to_string().contains("short"), "{error}");
    }

    #[test]
    fn a_full_disk_is_an_error() {
        let mut medium = Medium::open(Path::new("/dev/full"), SyncMode::None, 4096).expect("opens");
        let error = medium.write(&[0; 4096], 0).expect_err("full");
        assert!(error.to_string().contains("No space left"), "{error}");
    }
}
