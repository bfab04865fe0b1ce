//! A modelled device as a file: FUSE, a file called `disk` (and beside it one that tells of it, and
//! one that takes marks).
//!
//! The file is loop-mounted for file systems of this kernel, or handed to a guest kernel. Reads,
//! writes, `fsync` (a flush) and `fallocate` that punches or zeroes (a discard) reach
//! [`Device::operate`], which does the work on the image at once, asks the [`Timeline`] when the
//! device would be done with it, and has the answer given then. The image is an ordinary file that
//! is never synced: what a power cut would leave is for the operation log to say, and a daemon that
//! is killed loses nothing.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fuser::{Config, Filesystem, InitFlags, KernelConfig, MountOption, Request, Session, SessionUnmounter};

use super::calibrate::target::AlignedBuffer;
use super::fault::{Fault, Faults, Outcome};
use super::model::Model;
use super::oplog::{Mark, OperationLog, Record};
use super::overhead::{LEAST, Overhead};
use super::presets::RECORDER;
use super::request_times::RequestTimes;
use super::serving::DeviceThread;
use super::statistics::{SelfTestStep, Statistics, TESTED_FROM_NS, Tally, index};
use super::timeline::{Operation, Timeline};
use super::trial;
use super::waiting::ThreadWait;
use fathom_random::Random;

/// Name of the file.
pub const FILE: &str = "disk";
/// Name of the file beside it that holds what the device has done so far, as JSON: whoever may look
/// at the mount reads it at any time.
pub const STATISTICS: &str = "statistics";
/// Name of the file beside it that takes marks for the operation log: a decimal number in each
/// write, e.g. that of a commit that was just acknowledged.
pub const MARK: &str = "mark";
/// Most bytes of an operation.
pub(super) const LARGEST: usize = 1 << 20;
/// Calibration asks for these delays, ns, so many times.
const DELAYS: [(u64, usize); 4] = [(50_000, 31), (200_000, 51), (1_000_000, 15), (4_000_000, 7)];
/// The second time it sees what the answers that are begun earlier by the first leave.
const PASSES: usize = 2;
/// And for this one with much data.
const LARGE: (u64, usize) = (1_000_000, 15);
/// The first operations of a trial find memory that nobody has used yet; they do not count.
const WARM: usize = 2;
/// Operations of each kind that each step of the self-test makes.
const TEST_TRIALS: usize = 51;
/// What the self-test asks for, ns: the shortest delay that is promised, and a card's.
const TESTED_NS: [u64; 2] = [TESTED_FROM_NS, 1_000_000];

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

/// Operations that are asked to take a known time.
#[derive(Clone, Copy, Debug)]
pub struct Trial {
    /// What each is to take, ns.
    pub asked_ns: u64,
    /// What each read and each write carries: a multiple of 4096, at most 1 MiB and what the device
    /// holds.
    pub bytes: usize,
    /// How many of each kind, at least one.
    pub count: usize,
    /// What the program does in between: nothing for so long.
    pub rest: Duration,
}

impl Default for Trial {
    fn default() -> Trial {
        Trial { asked_ns: TESTED_FROM_NS, bytes: LEAST, count: 101, rest: Duration::ZERO }
    }
}

struct State {
    timeline: Timeline,
    faults: Faults,
    log: Option<OperationLog>,
    /// Operations that were answered, as they are in the log.
    answered: u64,
    tally: Tally,
    /// Operations as they were served, while they are kept.
    served: Option<Vec<RequestTimes>>,
}

/// Operations that are kept at most: 48 bytes each.
pub const SERVED_MAX: usize = 1 << 21;

/// A device, apart from the thread that serves it.
pub(super) struct Device {
    /// What it holds.
    pub image: File,
    /// Its length.
    pub bytes: u64,
    began: Instant,
    /// What CLOCK_MONOTONIC showed then, ns.
    began_ns: u64,
    /// The serving thread's, for a processor.
    pub waiting: ThreadWait,
    state: Mutex<State>,
    /// What it costs to answer late at all: reads, writes, flushes.
    overhead: Mutex<[Overhead; 3]>,
    /// Not 0: every operation takes this long, whatever the model says, and is not logged.
    trial_ns: AtomicU64,
}

/// When an operation is to be answered, and how.
pub(super) struct Verdict {
    /// What becomes of it.
    pub outcome: Outcome,
    /// When its answer is begun.
    pub at: Instant,
    /// What is written down of it once it is answered; none of trials.
    pub record: Option<Record>,
    /// How much earlier than it is asked for, ns.
    pub early_ns: u64,
}

impl Device {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn since(&self, at: Instant) -> u64 {
        at.saturating_duration_since(self.began).as_nanos() as u64
    }

    /// What has been done so far.
    pub fn statistics(&self) -> Statistics {
        let now_ns = self.since(Instant::now());
        let waited_ns = self.waiting.so_far_ns();
        let state = self.state();
        let log_problem = state.log.as_ref().and_then(OperationLog::problem);
        Statistics { log_problem, waited_ns, ..state.tally.statistics(now_ns) }
    }

    /// Decides what becomes of an operation and when it is answered. `work` does it on the image,
    /// if it is to be done.
    pub fn operate(
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
            let (at, early_ns) = self.begun_earlier(operation, arrival, trial_ns, bytes);
            return Verdict { outcome, at, record: None, early_ns };
        }
        let mut outcome = self.state().faults.next(operation, bytes);
        if outcome == Outcome::Done && work().is_err() {
            outcome = Outcome::Error;
        }
        let mut state = self.state();
        let state = &mut *state;
        let arrival_ns = self.since(arrival);
        // A lie takes no time; an error takes what the operation would have taken.
        let service =
            (outcome != Outcome::Lied).then(|| state.timeline.submit(arrival_ns, operation, offset, bytes));
        let asked_ns = service.map_or(arrival_ns, |service| service.finish_ns);
        let data_at = match (&mut state.log, data, outcome) {
            (Some(log), Some(data), Outcome::Done) => log.keep(data),
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
            after: Some(state.answered),
        };
        let (at, early_ns) = self.begun_earlier(operation, arrival, asked_ns - arrival_ns, bytes);
        Verdict { outcome, at, record: Some(record), early_ns }
    }

    /// When an answer is begun that is to be there after `took_ns`, and how much earlier that is.
    fn begun_earlier(
        &self,
        operation: Operation,
        arrival: Instant,
        took_ns: u64,
        bytes: u64,
    ) -> (Instant, u64) {
        // A discard takes no time, so nothing of it can be begun earlier.
        let overhead = self.overhead();
        let early_ns = overhead.get(index(operation)).map_or(0, |overhead| overhead.early_ns(took_ns, bytes));
        let early_ns = early_ns.min(took_ns);
        (arrival + Duration::from_nanos(took_ns - early_ns), early_ns)
    }

    fn overhead(&self) -> std::sync::MutexGuard<'_, [Overhead; 3]> {
        self.overhead.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes down that an operation was answered at `now`, begun `early_ns` earlier than it was
    /// asked for.
    pub fn answered(&self, record: Option<Record>, early_ns: u64, now: Instant) {
        let Some(mut record) = record else { return };
        // One that was due at once is as late as the machinery is slow, which is no lateness.
        record.given_ns = self.since(now) + early_ns;
        let mut state = self.state();
        let failed = !matches!(record.outcome, Outcome::Done | Outcome::Lied);
        let Record { operation, arrival_ns, asked_ns, given_ns, .. } = record;
        state.tally.answered(operation, failed, arrival_ns, asked_ns, given_ns);
        if let Some(served) = state.served.as_mut().filter(|served| served.len() < SERVED_MAX) {
            served.push(RequestTimes {
                kind: index(operation) as u8,
                bytes: record.bytes,
                arrival_ns: self.began_ns + arrival_ns,
                asked_ns: self.began_ns + asked_ns,
                given_ns: self.began_ns + given_ns,
                early_ns,
                offset: record.offset,
            });
        }
        state.answered += 1;
        if let Some(log) = &mut state.log {
            log.add(&record);
        }
    }

    /// Writes a mark down, after all that was answered until now; `false` where there is no log.
    pub fn mark(&self, number: u64) -> bool {
        let at_ns = self.since(Instant::now());
        let mut state = self.state();
        let after = state.answered;
        state.log.as_mut().map(|log| log.mark(&Mark { number, at_ns, after })).is_some()
    }
}

/// What is asked of the kernel when the file system is mounted; requests are the [`DeviceThread`]'s.
struct Wishes;

impl Filesystem for Wishes {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // What the kernel has not is done without.
        for wish in [InitFlags::FUSE_ASYNC_DIO, InitFlags::FUSE_MAX_PAGES] {
            let _ = config.add_capabilities(wish);
        }
        let _ = config.set_max_write(LARGEST as u32);
        let _ = config.set_max_background(256);
        Ok(())
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
    /// The log of operations is not complete.
    #[error("the log of operations: {0}")]
    Log(String),
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
pub struct DeviceView(Arc<Device>);

impl std::fmt::Debug for DeviceView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Shared({} bytes)", self.0.bytes)
    }
}

impl DeviceView {
    /// What has been done so far.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.0.statistics()
    }

    /// Has each operation kept from now on, for [`DeviceView::served`].
    pub fn keep_served(&self) {
        self.0.state().served = Some(Vec::new());
    }

    /// At most so many of the operations that were kept, from the one numbered `first` on, in order
    /// of their answers.
    #[must_use]
    pub fn served(&self, first: usize, most: usize) -> Vec<RequestTimes> {
        let state = self.0.state();
        let rest = state.served.as_ref().and_then(|served| served.get(first..)).unwrap_or_default();
        rest[..rest.len().min(most)].to_vec()
    }

    /// Has nothing fail until [`DeviceView::begin_faults`].
    pub fn hold_faults(&self) {
        self.0.state().faults.hold();
    }

    /// Has what is to fail be counted from now on.
    pub fn begin_faults(&self) {
        self.0.state().faults.begin();
    }
}

/// A modelled device that is served by this process.
pub struct Disk {
    thread: Option<JoinHandle<io::Result<()>>>,
    mount: SessionUnmounter,
    device: Arc<Device>,
    at: PathBuf,
}

impl std::fmt::Debug for Disk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Disk({})", self.at.display())
    }
}

impl Disk {
    /// Serves `image` (whose length is the device's) as the file `disk` in `at`, an empty
    /// directory, and measures what that costs.
    ///
    /// # Errors
    /// [`DiskError`]; then nothing is mounted.
    pub fn serve(image: File, at: &Path, options: Options) -> Result<Disk, DiskError> {
        let bytes = image.metadata().map_err(io_error("look at the image"))?.len();
        let is_recorder = options.model.name == RECORDER;
        let log = options.log.as_ref().map(|path| OperationLog::create(path, options.capture));
        let device = Arc::new(Device {
            image,
            bytes,
            began: Instant::now(),
            began_ns: fathom_ground::system::now_ns(),
            waiting: ThreadWait::default(),
            state: Mutex::new(State {
                timeline: Timeline::new(options.model, options.seed),
                faults: Faults::new(options.faults),
                log: log.transpose().map_err(io_error("make the operation log"))?,
                answered: 0,
                tally: Tally::default(),
                served: None,
            }),
            overhead: Mutex::default(),
            trial_ns: AtomicU64::new(0),
        });
        let mut config = Config::default();
        config.mount_options =
            vec![MountOption::FSName("fathom-device".into()), MountOption::NoSuid, MountOption::NoDev];
        let mut session = Session::new(Wishes, at, &config)
            .map_err(|source| DiskError::Mount { at: at.to_path_buf(), source })?;
        let mount = session.unmount_callable();
        let fuse = session.as_fd().try_clone_to_owned().map_err(io_error("take the connection"))?;
        let thread = DeviceThread::start(fuse, device.clone(), session)
            .map_err(io_error("start the device's thread"))?;
        let disk = Disk { thread: Some(thread), mount, device, at: at.to_path_buf() };
        // A recording keeps when operations came, and its device's own times are replaced: half a
        // second for how exact they are would be half of what a recording takes.
        if !is_recorder {
            disk.calibrate()?;
            disk.test_itself()?;
        }
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
    pub fn shared(&self) -> DeviceView {
        DeviceView(self.device.clone())
    }

    /// What has been done so far.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        self.device.statistics()
    }

    /// What a late answer of 4 KiB costs beyond its delay, ns: read, write, flush. Answers are
    /// begun that much earlier.
    #[must_use]
    pub fn overhead_ns(&self) -> [u64; 3] {
        let overhead = self.device.overhead();
        std::array::from_fn(|kind| overhead[kind].early_ns(TESTED_FROM_NS, 0))
    }

    /// Has operations of each kind take a known time, and measures what they took.
    fn calibrate(&self) -> Result<(), DiskError> {
        if self.device.bytes < LEAST as u64 {
            return Ok(());
        }
        let tried = |trial: &Trial| self.trial(trial).map_err(io_error("try the modelled device"));
        for _ in 0..PASSES {
            for (asked_ns, count) in DELAYS {
                let given = tried(&Trial { asked_ns, count, ..Trial::default() })?;
                for (overhead, given_ns) in self.device.overhead().iter_mut().zip(given) {
                    overhead.correct(asked_ns, given_ns);
                }
            }
        }
        let (asked_ns, count) = LARGE;
        let bytes = usize::try_from(self.device.bytes).unwrap_or(usize::MAX).min(LARGEST) / LEAST * LEAST;
        let given = tried(&Trial { asked_ns, bytes, count, rest: Duration::ZERO })?;
        for (overhead, given_ns) in self.device.overhead().iter_mut().zip(given).take(2) {
            overhead.correct_bytes(bytes, asked_ns, given_ns);
        }
        Ok(())
    }

    /// Asks for known times and keeps what came, for all who ask how exact the device is.
    fn test_itself(&self) -> Result<(), DiskError> {
        if self.device.bytes < LEAST as u64 {
            return Ok(());
        }
        let step = |asked_ns| {
            let trial = Trial { asked_ns, count: TEST_TRIALS, ..Trial::default() };
            Ok(SelfTestStep { asked_ns, given_ns: self.trial(&trial)? })
        };
        let tried = TESTED_NS.into_iter().map(step).collect::<io::Result<_>>();
        self.device.state().tally.add_self_test(tried.map_err(io_error("try the modelled device"))?);
        Ok(())
    }

    /// What an operation takes (median, ns: read, write, flush) while each is asked to take a known
    /// time, as a program sees it. What is written is what was there.
    ///
    /// # Errors
    /// The file cannot be read or written.
    pub fn trial(&self, trial: &Trial) -> io::Result<[u64; 3]> {
        let Trial { asked_ns, bytes, count, rest } = *trial;
        let mut room = AlignedBuffer::new(bytes, &mut Random::new(1));
        self.device.trial_ns.store(asked_ns.max(1), Ordering::Relaxed);
        let times = trial::measure(&self.path(), room.of(bytes), WARM + count, rest);
        self.device.trial_ns.store(0, Ordering::Relaxed);
        let times = times?;
        Ok(times.map(|mut kind| {
            kind.drain(..WARM);
            *kind.select_nth_unstable(count / 2).1
        }))
    }

    /// Unmounts, and brings the log to its file. Answers that are due later are given at once.
    ///
    /// # Errors
    /// The mount is busy, or the log cannot be written.
    pub fn stop(mut self) -> Result<Statistics, DiskError> {
        self.mount.unmount().map_err(|source| DiskError::Mount { at: self.at.clone(), source })?;
        self.end()
    }

    /// Serves until somebody takes the mount away, and brings the log to its file.
    ///
    /// # Errors
    /// Serving failed, or the log cannot be written.
    pub fn wait(mut self) -> Result<Statistics, DiskError> {
        self.end()
    }

    fn end(&mut self) -> Result<Statistics, DiskError> {
        let ended = self.thread.take().map_or(Ok(()), |thread| {
            thread.join().unwrap_or_else(|_| Err(io::Error::other("its thread panicked")))
        });
        // Whatever became of the device: what was logged is to be read.
        if let Some(log) = &mut self.device.state().log {
            log.close();
        }
        ended.map_err(io_error("serve the modelled device"))?;
        let statistics = self.device.statistics();
        match statistics.log_problem {
            Some(problem) => Err(DiskError::Log(problem)),
            None => Ok(statistics),
        }
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Busy: then whoever uses it keeps the thread, and the mount goes with the process.
        let _ = self.mount.unmount();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{End, preset, read_log};
    use std::fs::OpenOptions;
    use std::os::unix::fs::FileExt;

    fn can_fuse() -> bool {
        let able = fathom_ground::system::is_root() && Path::new("/dev/fuse").exists();
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
        assert_eq!(statistics.self_test.iter().map(|tried| tried.asked_ns).collect::<Vec<_>>(), TESTED_NS);
        let log = read_log(&dir.path().join("log")).unwrap();
        assert_eq!(log.end, End::Complete);
        let seen: Vec<_> =
            log.records.iter().map(|record| (record.operation, record.offset, record.bytes)).collect();
        use Operation::{Discard, Flush, Read, Write};
        assert_eq!(
            seen,
            [(Write, 8192, 5), (Flush, 0, 0), (Read, 8192, 5), (Discard, 8192, 4096), (Read, 8192, 5)]
        );
        assert_eq!(std::fs::read(dir.path().join("log.data")).unwrap(), b"hello");
        assert!(!dir.path().join("at/disk").exists(), "nothing is mounted any more");
    }

    /// What a power cut may take is told by the order in which the device answered, came to know of
    /// a commit and got a flush. By the clocks of two processes, 59 of 60 losses were false;
    /// `arrival_ns` and `given_ns` of one log do not tell it either, for an answer is begun before
    /// its time.
    #[test]
    fn marks_and_flushes_have_their_places_among_the_answers() {
        if !can_fuse() {
            return;
        }
        let (dir, disk) = served("sd-slow", &[], true);
        let file = OpenOptions::new().read(true).write(true).open(disk.path()).unwrap();
        let marks = OpenOptions::new().write(true).open(disk.directory().join(MARK)).unwrap();
        for number in 0..5u64 {
            file.write_all_at(&[7; 4096], number * 8192).unwrap();
            file.sync_data().unwrap();
            marks.write_all_at(format!("{number}\n").as_bytes(), 0).unwrap();
        }
        let said = |text: &[u8]| marks.write_all_at(text, 0).unwrap_err().raw_os_error();
        assert_eq!([said(b"seven"), said(b"-1"), said(&[0xff])], [Some(libc::EINVAL); 3]);
        // As a shell does it.
        std::fs::write(disk.directory().join(MARK), "18446744073709551615").unwrap();
        drop((file, marks));
        let statistics = disk.stop().unwrap();
        assert_eq!(statistics.operations, [0, 5, 5, 0], "a mark is no operation");
        let log = read_log(&dir.path().join("log")).unwrap();
        let places: Vec<_> = log.marks.iter().map(|mark| (mark.number, mark.after)).collect();
        assert_eq!(places, [(0, 2), (1, 4), (2, 6), (3, 8), (4, 10), (u64::MAX, 10)]);
        let after: Vec<_> = log.records.iter().map(|record| record.after.unwrap()).collect();
        assert_eq!(after, (0..10).collect::<Vec<_>>(), "each came when all before it was answered");
    }

    #[test]
    fn a_mark_that_nobody_keeps_is_refused() {
        if !can_fuse() {
            return;
        }
        let (_dir, disk) = served("none", &[], false);
        let error = std::fs::write(disk.directory().join(MARK), "1").unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EOPNOTSUPP));
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
        for record in read_log(&dir.path().join("log")).unwrap().records {
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
