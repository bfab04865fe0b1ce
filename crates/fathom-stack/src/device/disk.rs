//! A modelled device as a file: FUSE, a file called `disk` (and beside it one that tells of it).
//!
//! The file is loop-mounted for file systems of this kernel, or handed to a guest kernel. Reads, writes, `fsync` (a flush) and
//! `fallocate` that punches or zeroes (a discard) reach [`Device::operate`], which does the work on the image at once, asks the
//! [`Timeline`] when the device would be done with it, and has the answer given then. The image is an ordinary file that is never
//! synced: what a power cut would leave is for the operation log to say, and a daemon that is killed loses nothing.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use fuser::{
    BackgroundSession, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, WriteFlags,
};

use super::fault::{Fault, Faults, Outcome};
use super::model::Model;
use super::oplog::{OperationLog, Record};
use super::sleeper::Sleeper;
use super::statistics::{Statistics, TESTED_FROM_NS, Tally, Tried, index};
use super::timeline::{Operation, Timeline};

/// Name of the file.
pub const FILE: &str = "disk";
const DISK: INodeNo = INodeNo(2);
/// Name of the file beside it that holds what the device has done so far, as JSON: whoever may look at the mount reads it at any time.
pub const STATISTICS: &str = "statistics";
const TOLD: INodeNo = INodeNo(3);
/// The kernel may keep names and attributes: they never change.
const FOR_EVER: Duration = Duration::from_secs(1 << 30);
/// Calibration asks for this delay, ns: long enough to sleep through, short enough to be over soon.
const TRIAL_NS: u64 = 300_000;
/// Operations of each kind that calibration makes.
const TRIALS: usize = 101;
/// Operations of each kind that each step of the self-test makes.
const TEST_TRIALS: usize = 51;
/// What the self-test asks for, ns: the shortest delay that is promised, and a card's.
const TESTED_NS: [u64; 2] = [TESTED_FROM_NS, 1_000_000];
/// Bytes of an operation of the calibration.
const TRIAL_BYTES: usize = 4096;

/// How a device is to be served.
#[derive(Debug)]
pub struct Options {
    /// The model.
    pub model: Model,
    /// Seed of its times.
    pub seed: u64,
    /// Where operations are logged, if anywhere.
    pub log: Option<PathBuf>,
    /// Whether the data of the writes is kept beside the log.
    pub capture: bool,
    /// What fails.
    pub faults: Vec<Fault>,
}

struct State {
    timeline: Timeline,
    faults: Faults,
    log: Option<OperationLog>,
    tally: Tally,
    /// Why the log ended early.
    log_problem: Option<String>,
}

struct Device {
    image: File,
    bytes: u64,
    began: Instant,
    state: Mutex<State>,
    /// What it costs to answer late at all, by operation, ns: answers are begun that much earlier.
    overhead_ns: [AtomicU64; 3],
    /// Not 0: every operation takes this long, whatever the model says, and is not logged.
    trial_ns: AtomicU64,
}

/// When an operation is to be answered, and how.
struct Verdict {
    outcome: Outcome,
    at: Instant,
    record: Option<Record>,
}

impl Device {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn since(&self, at: Instant) -> u64 {
        at.saturating_duration_since(self.began).as_nanos() as u64
    }

    fn statistics(&self) -> Statistics {
        let now_ns = self.since(Instant::now());
        self.state().tally.statistics(now_ns)
    }

    /// Decides what becomes of an operation and when it is answered. `work` does it on the image, if it is to be done.
    fn operate(
        &self,
        operation: Operation,
        offset: u64,
        bytes: u64,
        data: Option<&[u8]>,
        work: impl FnOnce() -> io::Result<()>,
    ) -> Verdict {
        let arrival = Instant::now();
        let trial_ns = self.trial_ns.load(Ordering::Relaxed);
        if trial_ns > 0 {
            let outcome = if work().is_ok() { Outcome::Done } else { Outcome::Error };
            return Verdict { outcome, at: self.begun_earlier(operation, arrival, trial_ns), record: None };
        }
        let mut state = self.state();
        let state = &mut *state;
        let mut outcome = state.faults.next(operation, bytes);
        if outcome == Outcome::Done && work().is_err() {
            outcome = Outcome::Error;
        }
        let arrival_ns = self.since(arrival);
        // A lie takes no time; an error takes what the operation would have taken.
        let service =
            (outcome != Outcome::Lied).then(|| state.timeline.submit(arrival_ns, operation, offset, bytes));
        let asked_ns = service.map_or(arrival_ns, |service| service.finish_ns);
        let data_at = match (&mut state.log, data, outcome) {
            (Some(log), Some(data), Outcome::Done) => log.keep(data).unwrap_or_else(|problem| {
                state.log_problem = Some(problem.to_string());
                None
            }),
            _ => None,
        };
        let sequential = service.is_some_and(|service| service.sequential);
        state.tally.arrived(operation, bytes, arrival_ns, asked_ns, sequential);
        let record = Record {
            operation,
            outcome,
            sequential,
            stalled: service.is_some_and(|service| service.stalled),
            offset,
            bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
            arrival_ns,
            asked_ns,
            given_ns: 0,
            data_at,
        };
        let at = self.begun_earlier(operation, arrival, asked_ns - arrival_ns);
        Verdict { outcome, at, record: Some(record) }
    }

    fn begun_earlier(&self, operation: Operation, arrival: Instant, took_ns: u64) -> Instant {
        let overhead = self.overhead_ns.get(index(operation));
        let overhead_ns = overhead.map_or(0, |ns| ns.load(Ordering::Relaxed));
        arrival + Duration::from_nanos(took_ns.saturating_sub(overhead_ns))
    }

    /// Writes down that an operation was answered at `now`.
    fn answered(&self, record: Option<Record>, now: Instant) {
        let Some(mut record) = record else { return };
        let overhead =
            self.overhead_ns.get(index(record.operation)).map_or(0, |ns| ns.load(Ordering::Relaxed));
        let took_ns = record.asked_ns - record.arrival_ns;
        // An answer travels for `overhead`; one that was due at once is as late as the machinery is slow, which is no lateness.
        record.given_ns = self.since(now) + overhead.min(took_ns);
        let mut state = self.state();
        let failed = !matches!(record.outcome, Outcome::Done | Outcome::Lied);
        let Record { operation, arrival_ns, asked_ns, given_ns, .. } = record;
        state.tally.answered(operation, failed, arrival_ns, asked_ns, given_ns);
        let State { log, log_problem, .. } = &mut *state;
        if let Some(open) = log
            && let Err(problem) = open.add(&record)
        {
            *log_problem = Some(problem.to_string());
            *log = None;
        }
    }
}

/// The file system with the one file.
struct DiskFs {
    device: Arc<Device>,
    sleeper: Sleeper,
    told: Told,
}

/// Statistics as they were when somebody opened their file, by handle.
#[derive(Default)]
struct Told {
    next: AtomicU64,
    texts: Mutex<HashMap<u64, Vec<u8>>>,
}

impl Told {
    fn texts(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Vec<u8>>> {
        self.texts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self, statistics: &Statistics) -> FileHandle {
        let mut text = serde_json::to_vec(statistics).unwrap_or_default();
        text.push(b'\n');
        let handle = self.next.fetch_add(1, Ordering::Relaxed);
        self.texts().insert(handle, text);
        FileHandle(handle)
    }
}

impl DiskFs {
    /// Gives the answer when it is due: at once on this thread, or later on the sleeper's.
    fn answer(&self, verdict: Verdict, give: impl FnOnce(Outcome) + Send + 'static) {
        let Verdict { outcome, at, record } = verdict;
        let now = Instant::now();
        if at <= now {
            give(outcome);
            self.device.answered(record, now);
            return;
        }
        let device = self.device.clone();
        self.sleeper.at(at, move |now| {
            give(outcome);
            device.answered(record, now);
        });
    }

    fn attributes(&self, ino: INodeNo) -> FileAttr {
        let disk = ino == DISK;
        FileAttr {
            ino,
            size: if disk { self.device.bytes } else { 0 },
            blocks: if disk { self.device.bytes / 512 } else { 0 },
            atime: SystemTime::UNIX_EPOCH,
            mtime: SystemTime::UNIX_EPOCH,
            ctime: SystemTime::UNIX_EPOCH,
            crtime: SystemTime::UNIX_EPOCH,
            kind: if ino == INodeNo::ROOT { FileType::Directory } else { FileType::RegularFile },
            perm: if ino == INodeNo::ROOT { 0o700 } else { 0o600 },
            nlink: 1,
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
            rdev: 0,
            blksize: 4096,
            flags: 0,
        }
    }
}

fn errno(outcome: Outcome) -> Option<Errno> {
    match outcome {
        Outcome::Done | Outcome::Lied => None,
        Outcome::Error => Some(Errno::EIO),
        Outcome::Full => Some(Errno::ENOSPC),
    }
}

fn empty(reply: ReplyEmpty) -> impl FnOnce(Outcome) + Send + 'static {
    move |outcome| match errno(outcome) {
        None => reply.ok(),
        Some(errno) => reply.error(errno),
    }
}

impl Filesystem for DiskFs {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // What the kernel has not is done without.
        for wish in [InitFlags::FUSE_ASYNC_DIO, InitFlags::FUSE_MAX_PAGES] {
            let _ = config.add_capabilities(wish);
        }
        let _ = config.set_max_write(1 << 20);
        let _ = config.set_max_background(256);
        Ok(())
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let known =
            [(FILE, DISK), (STATISTICS, TOLD)].into_iter().find(|it| parent == INodeNo::ROOT && name == it.0);
        match known {
            Some((_, ino)) => reply.entry(&FOR_EVER, &self.attributes(ino), Generation(0)),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _request: &Request, ino: INodeNo, _handle: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&FOR_EVER, &self.attributes(ino));
    }

    fn readdir(&self, _: &Request, _: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let all = [
            (INodeNo::ROOT, FileType::Directory, "."),
            (INodeNo::ROOT, FileType::Directory, ".."),
            (DISK, FileType::RegularFile, FILE),
            (TOLD, FileType::RegularFile, STATISTICS),
        ];
        for (next, (ino, kind, name)) in (1u64..).zip(all).skip(offset as usize) {
            if reply.add(ino, next, kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn open(&self, _request: &Request, ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        if ino == TOLD {
            reply.opened(self.told.open(&self.device.statistics()), FopenFlags::FOPEN_DIRECT_IO);
            return;
        }
        reply.opened(FileHandle(0), FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES);
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        if ino == TOLD {
            let texts = self.told.texts();
            let rest = texts.get(&handle.0).and_then(|text| text.get(usize::try_from(offset).ok()?..));
            let rest = rest.unwrap_or_default();
            reply.data(&rest[..rest.len().min(size as usize)]);
            return;
        }
        let bytes = u64::from(size).min(self.device.bytes.saturating_sub(offset));
        let mut data = vec![0; bytes as usize];
        let image = &self.device.image;
        let verdict = self
            .device
            .operate(Operation::Read, offset, bytes, None, || image.read_exact_at(&mut data, offset));
        self.answer(verdict, move |outcome| match errno(outcome) {
            None => reply.data(&data),
            Some(errno) => reply.error(errno),
        });
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        if ino != DISK {
            reply.error(Errno::EACCES);
            return;
        }
        let device = &self.device;
        let bytes = data.len() as u64;
        if offset.checked_add(bytes).is_none_or(|end| end > device.bytes) {
            reply.error(Errno::ENOSPC);
            return;
        }
        let verdict = device
            .operate(Operation::Write, offset, bytes, Some(data), || device.image.write_all_at(data, offset));
        self.answer(verdict, move |outcome| match errno(outcome) {
            None => reply.written(bytes as u32),
            Some(errno) => reply.error(errno),
        });
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        // close(2), which asks nothing of a device.
        reply.ok();
    }

    fn release(
        &self,
        _: &Request,
        ino: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        if ino == TOLD {
            self.told.texts().remove(&handle.0);
        }
        reply.ok();
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        if ino != DISK {
            reply.ok();
            return;
        }
        let verdict = self.device.operate(Operation::Flush, 0, 0, None, || Ok(()));
        self.answer(verdict, empty(reply));
    }

    fn fallocate(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        if ino != DISK {
            reply.error(Errno::EACCES);
            return;
        }
        let inside = offset.checked_add(length).is_some_and(|end| end <= self.device.bytes);
        let gives_up = mode & (libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_ZERO_RANGE) != 0;
        if !inside || !gives_up {
            reply.error(if inside { Errno::EOPNOTSUPP } else { Errno::EINVAL });
            return;
        }
        let flags = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
        let image = &self.device.image;
        let verdict = self.device.operate(Operation::Discard, offset, length, None, || {
            Ok(rustix::fs::fallocate(image, flags, offset, length)?)
        });
        self.answer(verdict, empty(reply));
    }
}

/// Why a modelled device cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum DiskError {
    /// The mount failed.
    #[error(
        "a FUSE file system cannot be mounted on {at}: {source}; this needs /dev/fuse, and fusermount3 (package fuse3) without root"
    )]
    Mount {
        /// Where.
        at: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// Something about the image, the log or the trial operations.
    #[error("{what}: {source}")]
    Io {
        /// What was being done.
        what: String,
        /// The operating system's error.
        source: io::Error,
    },
}

fn io_error(what: &str) -> impl FnOnce(io::Error) -> DiskError + '_ {
    move |source| DiskError::Io { what: what.to_owned(), source }
}

/// A view of a device that stays while the device is waited for.
#[derive(Clone)]
pub struct Shared(Arc<Device>);

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Shared({} bytes)", self.0.bytes)
    }
}

impl Shared {
    /// What has been done so far.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.0.statistics()
    }
}

/// A modelled device that is served by this process.
pub struct Disk {
    session: Option<BackgroundSession>,
    device: Arc<Device>,
    at: PathBuf,
}

impl std::fmt::Debug for Disk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Disk({})", self.at.display())
    }
}

impl Disk {
    /// Serves `image` (whose length is the device's) as the file `disk` in `at`, an empty directory, and measures what that costs.
    ///
    /// # Errors
    /// [`DiskError`]; then nothing is mounted.
    pub fn serve(image: File, at: &Path, options: Options) -> Result<Disk, DiskError> {
        let bytes = image.metadata().map_err(io_error("look at the image"))?.len();
        let log = options.log.as_ref().map(|path| OperationLog::create(path, options.capture));
        let device = Arc::new(Device {
            image,
            bytes,
            began: Instant::now(),
            state: Mutex::new(State {
                timeline: Timeline::new(options.model, options.seed),
                faults: Faults::new(options.faults),
                log: log.transpose().map_err(io_error("make the operation log"))?,
                tally: Tally::default(),
                log_problem: None,
            }),
            overhead_ns: Default::default(),
            trial_ns: AtomicU64::new(0),
        });
        let sleeper = Sleeper::start().map_err(io_error("start a thread"))?;
        let mut config = Config::default();
        config.mount_options =
            vec![MountOption::FSName("fathom-device".into()), MountOption::NoSuid, MountOption::NoDev];
        let fs = DiskFs { device: device.clone(), sleeper, told: Told::default() };
        let session = fuser::spawn_mount(fs, at, &config)
            .map_err(|source| DiskError::Mount { at: at.to_path_buf(), source })?;
        let disk = Disk { session: Some(session), device, at: at.to_path_buf() };
        disk.calibrate()?;
        disk.test_itself()?;
        Ok(disk)
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.at.join(FILE)
    }

    /// The directory in which the file is.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.at
    }

    /// A view of the device that stays.
    #[must_use]
    pub fn shared(&self) -> Shared {
        Shared(self.device.clone())
    }

    /// What has been done so far.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.device.statistics()
    }

    /// What a late answer costs beyond its delay, ns: read, write, flush. Answers are begun that much earlier.
    #[must_use]
    pub fn overhead_ns(&self) -> [u64; 3] {
        std::array::from_fn(|kind| self.device.overhead_ns[kind].load(Ordering::Relaxed))
    }

    /// Why the operation log ended before the device did, if it did.
    #[must_use]
    pub fn log_problem(&self) -> Option<String> {
        self.device.state().log_problem.clone()
    }

    /// Has operations of each kind take a known time, and measures what they took.
    fn calibrate(&self) -> Result<(), DiskError> {
        if self.device.bytes < TRIAL_BYTES as u64 {
            return Ok(());
        }
        let medians = self.tried(TRIAL_NS, TRIALS).map_err(io_error("try the modelled device"))?;
        for (overhead, median) in self.device.overhead_ns.iter().zip(medians) {
            overhead.store(median.saturating_sub(TRIAL_NS), Ordering::Relaxed);
        }
        Ok(())
    }

    /// Asks for known times and keeps what came, for all who ask how exact the device is.
    fn test_itself(&self) -> Result<(), DiskError> {
        if self.device.bytes < TRIAL_BYTES as u64 {
            return Ok(());
        }
        let step = |asked_ns| Ok(Tried { asked_ns, given_ns: self.tried(asked_ns, TEST_TRIALS)? });
        let tried = TESTED_NS.into_iter().map(step).collect::<io::Result<_>>();
        self.device.state().tally.tried(tried.map_err(io_error("try the modelled device"))?);
        Ok(())
    }

    /// What an operation takes (median, ns: read, write, flush) while each is asked to take `asked_ns`, as a program sees it.
    /// What is written is what was there.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn trial(&self, asked_ns: u64) -> io::Result<[u64; 3]> {
        self.tried(asked_ns, TRIALS)
    }

    fn tried(&self, asked_ns: u64, trials: usize) -> io::Result<[u64; 3]> {
        let file =
            OpenOptions::new().read(true).write(true).custom_flags(libc::O_DIRECT).open(self.path())?;
        let mut room = vec![0; 2 * TRIAL_BYTES];
        let start = room.as_ptr().align_offset(TRIAL_BYTES).min(TRIAL_BYTES);
        let block = &mut room[start..start + TRIAL_BYTES];
        self.device.trial_ns.store(asked_ns.max(1), Ordering::Relaxed);
        let mut times: [Vec<u64>; 3] = Default::default();
        let mut measure = || -> io::Result<()> {
            for _ in 0..trials {
                let begin = Instant::now();
                file.read_exact_at(block, 0)?;
                let read = Instant::now();
                file.write_all_at(block, 0)?;
                let written = Instant::now();
                file.sync_data()?;
                let ends = [begin, read, written, Instant::now()];
                for (kind, pair) in times.iter_mut().zip(ends.windows(2)) {
                    kind.push((pair[1] - pair[0]).as_nanos() as u64);
                }
            }
            Ok(())
        };
        let done = measure();
        self.device.trial_ns.store(0, Ordering::Relaxed);
        done?;
        Ok(times.map(|mut kind| *kind.select_nth_unstable(trials / 2).1))
    }

    /// Unmounts, and brings the log to its file. Answers that are due later are given at once.
    ///
    /// # Errors
    /// The mount is busy, or the log cannot be written.
    pub fn stop(mut self) -> Result<Statistics, DiskError> {
        if let Some(session) = self.session.take() {
            session.umount_and_join().map_err(|source| DiskError::Mount { at: self.at.clone(), source })?;
        }
        self.finish()
    }

    /// Serves until somebody takes the mount away, and brings the log to its file.
    ///
    /// # Errors
    /// Serving failed, or the log cannot be written.
    pub fn wait(mut self) -> Result<Statistics, DiskError> {
        if let Some(session) = self.session.take() {
            session.join().map_err(io_error("serve the modelled device"))?;
        }
        self.finish()
    }

    fn finish(&self) -> Result<Statistics, DiskError> {
        if let Some(log) = &mut self.device.state().log {
            log.flush().map_err(io_error("write the operation log"))?;
        }
        Ok(self.device.statistics())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::{preset, read_log};

    fn can_fuse() -> bool {
        let able = crate::is_root() && Path::new("/dev/fuse").exists();
        if !able {
            println!("skipped: a FUSE mount needs root here (sudo cargo test) and /dev/fuse");
        }
        able
    }

    fn served(model: &str, faults: &[&str], log: bool) -> (tempfile::TempDir, Disk) {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("at");
        std::fs::create_dir(&at).unwrap();
        let image = tempfile::tempfile().unwrap();
        image.set_len(1 << 20).unwrap();
        let options = Options {
            model: preset(model).unwrap().clone(),
            seed: 1,
            log: log.then(|| dir.path().join("log")),
            capture: log,
            faults: faults.iter().map(|fault| fault.parse().unwrap()).collect(),
        };
        let disk = Disk::serve(image, &at, options).unwrap();
        (dir, disk)
    }

    #[test]
    fn what_was_written_is_read_and_every_operation_is_in_the_log() {
        if !can_fuse() {
            return;
        }
        let (dir, disk) = served("none", &[], true);
        let file = OpenOptions::new().read(true).write(true).open(disk.path()).unwrap();
        assert_eq!(file.metadata().unwrap().len(), 1 << 20);
        file.write_all_at(b"hello", 8192).unwrap();
        file.sync_all().unwrap();
        let mut five = [0; 5];
        file.read_exact_at(&mut five, 8192).unwrap();
        assert_eq!(&five, b"hello");
        let flags = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(&file, flags, 8192, 4096).unwrap();
        file.read_exact_at(&mut five, 8192).unwrap();
        assert_eq!(five, [0; 5], "a discarded block reads as zeros");
        assert_eq!(file.write_all_at(b"x", 1 << 20).unwrap_err().raw_os_error(), Some(libc::ENOSPC));
        drop(file);
        let told = std::fs::read(disk.directory().join(STATISTICS)).unwrap();
        let told: Statistics = serde_json::from_slice(&told).unwrap();
        let denied = OpenOptions::new()
            .write(true)
            .open(disk.directory().join(STATISTICS))
            .unwrap()
            .write_all_at(b"x", 0);
        assert_eq!(denied.unwrap_err().raw_os_error(), Some(libc::EACCES));
        let statistics = disk.stop().unwrap();
        assert_eq!((statistics.operations, statistics.bytes), ([2, 1, 1, 1], [10, 5, 0, 4096]));
        assert_eq!(told.operations, statistics.operations);
        assert_eq!(statistics.self_test.iter().map(|it| it.asked_ns).collect::<Vec<_>>(), TESTED_NS);
        let log = read_log(&dir.path().join("log")).unwrap();
        let seen: Vec<_> = log.iter().map(|record| (record.operation, record.offset, record.bytes)).collect();
        use Operation::{Discard, Flush, Read, Write};
        assert_eq!(
            seen,
            [(Write, 8192, 5), (Flush, 0, 0), (Read, 8192, 5), (Discard, 8192, 4096), (Read, 8192, 5)]
        );
        assert_eq!(std::fs::read(dir.path().join("log.data")).unwrap(), b"hello");
        assert!(!dir.path().join("at/disk").exists(), "nothing is mounted any more");
    }

    #[test]
    fn no_answer_comes_before_its_time() {
        if !can_fuse() {
            return;
        }
        let (dir, disk) = served("sd-slow", &[], true);
        let file = OpenOptions::new().read(true).write(true).open(disk.path()).unwrap();
        for i in 0..20 {
            file.write_all_at(&[7; 4096], i * 8192).unwrap();
            file.sync_data().unwrap();
        }
        drop(file);
        disk.stop().unwrap();
        let mut free_ns = 0;
        for record in read_log(&dir.path().join("log")).unwrap() {
            assert!(record.given_ns >= record.asked_ns, "{record:?}");
            // A program that got its answer a little early finds the device still busy.
            let took_us = (record.asked_ns - record.arrival_ns.max(free_ns)) / 1000;
            assert_eq!(took_us, if record.operation == Operation::Flush { 4000 } else { 1500 }, "{record:?}");
            free_ns = record.asked_ns;
        }
    }

    #[test]
    fn faults_reach_the_program() {
        if !can_fuse() {
            return;
        }
        let (_dir, disk) = served("none", &["write-error@2x1", "full@12", "flush-error@2", "gone@9"], false);
        let file = OpenOptions::new().read(true).write(true).open(disk.path()).unwrap();
        let block = [1; 4096];
        let code = |done: io::Result<()>| done.err().and_then(|e| e.raw_os_error());
        let mut got = Vec::new();
        for _ in 0..5 {
            got.push(code(file.write_all_at(&block, 0)));
        }
        assert_eq!(got, [None, Some(libc::EIO), None, None, Some(libc::ENOSPC)]);
        assert_eq!((code(file.sync_data()), code(file.sync_data())), (None, Some(libc::EIO)));
        let mut byte = [0];
        assert_eq!(code(file.read_exact_at(&mut byte, 0)), None, "the eighth");
        assert_eq!(code(file.read_exact_at(&mut byte, 0)), Some(libc::EIO), "the ninth: gone");
    }
}
