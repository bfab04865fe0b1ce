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
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use fuser::{Config, Filesystem, InitFlags, KernelConfig, MountOption, Request, Session, SessionUnmounter};
use rustix::mount::UnmountFlags;

use super::aligned::AlignedBuffer;
use super::answers::Answers;
use super::device::{Device, DeviceView, FILE, LARGEST};
use super::fault::{Fault, Faults};
use super::model::Model;
use super::oplog::OperationLog;
use super::overhead::LEAST;
use super::presets::RECORDER;
use super::serving::DeviceThread;
use super::statistics::{SelfTestStep, Statistics, TESTED_FROM_NS};
use super::timeline::Timeline;
use super::trial;
use fathom_random::Random;

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
/// How long a mount that is to be taken away may be busy.
const BUSY_LIMIT: Duration = Duration::from_secs(60);

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
    /// A file that devices share whose answers are counted together; none: this one's alone.
    pub answers: Option<File>,
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
        let create = |path: &PathBuf| {
            let what = format!("make the log of operations {}", path.display());
            OperationLog::create(path, options.capture).map_err(io_error(&what))
        };
        let log = options.log.as_ref().map(create).transpose()?;
        let timeline = Timeline::new(options.model, options.seed);
        let answers = Answers::new(options.answers.as_ref()).map_err(io_error("count answers"))?;
        let faults = Faults::new(options.faults);
        let device = Arc::new(Device::new(image, bytes, timeline, faults, log, answers));
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
    /// The mount stays busy, or the log cannot be written.
    pub fn stop(mut self) -> Result<Statistics, DiskError> {
        self.unmount().map_err(|source| DiskError::Mount { at: self.at.clone(), source })?;
        self.end()
    }

    /// Unmounts. A process that this one has just made, for a trial of another device say, has a
    /// copy of whatever is open until it gets a processor and closes it: that is waited for.
    fn unmount(&mut self) -> io::Result<()> {
        let begin = Instant::now();
        let mut done = self.mount.unmount();
        // That tries it once, and never again.
        while matches!(&done, Err(error) if error.raw_os_error() == Some(libc::EBUSY))
            && begin.elapsed() < BUSY_LIMIT
        {
            std::thread::sleep(Duration::from_millis(5));
            done = rustix::mount::unmount(self.at.as_path(), UnmountFlags::empty()).map_err(io::Error::from);
        }
        done
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
        let _ = self.unmount();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timeline::Operation;
    use crate::{End, MARK, STATISTICS, preset, read_log};
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
        served_as(preset(model).unwrap().clone(), faults, log)
    }

    fn served_as(model: Model, faults: &[&str], log: bool) -> (tempfile::TempDir, Disk) {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path().join("at");
        std::fs::create_dir(&at).unwrap();
        let image = tempfile::tempfile().unwrap();
        image.set_len(1 << 20).unwrap();
        let options = Options {
            model,
            seed: 1,
            log: log.then(|| dir.path().join("log")),
            capture: log,
            answers: None,
            faults: faults.iter().map(|fault| fault.parse().unwrap()).collect(),
        };
        let disk = Disk::serve(image, &at, options).unwrap();
        (dir, disk)
    }

    /// What happened: of a device whose reads take long, one that was waited for when the device
    /// was told to hurry was answered in its own time: mkfs, its loop device and the server of a
    /// `stack up` that Ctrl-C had ended stayed for so long.
    #[test]
    fn an_answer_that_is_waited_for_is_given_when_the_device_hurries() {
        if !can_fuse() {
            return;
        }
        let text = "name = \"hour\"\ntitle = \"t\"\nkind = \"sd\"\nsources = [\"test\"]\n\
                    [read]\nrandom_us = 3.6e9\nmb_per_s = 1\n\
                    [write]\nrandom_us = 1\nmb_per_s = 1\n\
                    [flush]\nbase_us = 1\n";
        let (_dir, disk) = served_as(Model::parse("hour", text).unwrap(), &[], false);
        let (view, path) = (disk.shared(), disk.path());
        let reads = std::thread::spawn(move || std::fs::File::open(path)?.read_exact_at(&mut [0; 512], 0));
        while view.statistics().under_way == 0 {
            std::thread::sleep(Duration::from_millis(10));
        }
        // Long enough for it to have begun to wait.
        std::thread::sleep(Duration::from_millis(300));
        assert!(!reads.is_finished());
        view.hurry();
        let begin = Instant::now();
        while !reads.is_finished() {
            assert!(begin.elapsed() < Duration::from_secs(60), "it still waits");
            std::thread::sleep(Duration::from_millis(10));
        }
        reads.join().unwrap().unwrap();
        disk.stop().unwrap();
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

    /// What happened: the trials of one device are made in a process of their own, which has copies
    /// of all that is open here until it gets a processor. Whoever stopped another device then was
    /// told that its mount is busy, and it stayed.
    #[test]
    fn a_mount_that_is_busy_for_a_moment_is_waited_for() {
        if !can_fuse() {
            return;
        }
        let (dir, disk) = served("none", &[], false);
        let open = File::open(disk.path()).unwrap();
        let user = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(300));
            drop(open);
        });
        disk.stop().unwrap();
        user.join().unwrap();
        assert!(!dir.path().join("at/disk").exists(), "nothing is mounted any more");
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
