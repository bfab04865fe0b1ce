//! Measures a device and writes the model of it.
//!
//! All operations go past the page cache (O_DIRECT), one at a time unless said otherwise:
//!
//! - 4 KiB random and sequential reads and writes: their quantiles are the model's;
//! - the same at random places in sizes up to 1 MiB, and 1 MiB in sequence: what the 1 MiB in sequence takes beyond 4 KiB is the
//!   bandwidth, the sizes between tell how well the model's straight line fits (comments of the file);
//! - 4 KiB random reads by 1 to 32 threads: how many times the rate of one is the number of channels;
//! - sequential reads of 1 to 8 streams in turn: how many streams the device still recognises;
//! - a flush after 4 KiB to 4 MiB of writes: the slope over what is dirty (Theil and Sen: the median of the slopes of all pairs), and
//!   the quantiles of what remains;
//! - single writes of all sizes after a flush and a rest: where they stay flat up to a size and then rise, there is a cache of that
//!   size, and the rise is the rate at which it empties.
//!
//! Nothing is corrected: what the kernel (and a file system, if there is one) adds to an operation is in the model.

use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::random::Random;
use crate::mountinfo::mount_of;

const BLOCK: usize = 4096;
const LARGEST: usize = 1 << 20;
/// Sizes of single operations.
const SIZES: [usize; 6] = [BLOCK, 16 << 10, 64 << 10, 128 << 10, 256 << 10, LARGEST];
/// What is written before a flush.
const DIRTY: [usize; 6] = [BLOCK, 16 << 10, 64 << 10, 256 << 10, LARGEST, 4 << 20];
/// Threads that read at once.
const DEPTHS: [usize; 6] = [1, 2, 4, 8, 16, 32];
/// Streams read in turn.
const STREAMS: [usize; 4] = [1, 2, 4, 8];
/// The percentiles that go into the model.
const PERCENTILES: [f64; 8] = [5.0, 25.0, 50.0, 75.0, 90.0, 99.0, 99.9, 100.0];
/// Rest before a write that an empty cache is to take.
const REST: Duration = Duration::from_millis(20);
/// Least room in which places are random, MiB.
const SMALLEST_MIB: u64 = 16;

/// What is to be measured, and how long it may take.
#[derive(Clone, Debug)]
pub struct Calibration {
    /// A directory or a new file (a file of its own is measured there and goes again), or with `destroy` a block device or file.
    pub path: PathBuf,
    /// How much of it is used, MiB.
    pub size_mib: u64,
    /// Some seconds instead of a minute or two: fewer operations, coarser tails.
    pub quick: bool,
    /// What is on a block device or in a file may be overwritten.
    pub destroy: bool,
    /// The model's name.
    pub name: String,
    /// When it is measured, for the model's source.
    pub when: String,
}

/// Why a device was not measured.
#[derive(Debug, thiserror::Error)]
pub enum CalibrateError {
    /// It must not be overwritten without being told so.
    #[error("{} {what}: what is on it would be overwritten. Give a directory on it, where a file of Fathom's own is measured, or add --destroy", path.display())]
    HoldsData {
        /// The path.
        path: PathBuf,
        /// What it is.
        what: &'static str,
    },
    /// It cannot be measured.
    #[error("{}: {problem}", path.display())]
    Place {
        /// The path.
        path: PathBuf,
        /// Why, and what to do.
        problem: String,
    },
    /// Too little room.
    #[error("{}: {free_mib} MiB are free, and {size_mib} MiB are to be measured: use a smaller --size (at least {SMALLEST_MIB})", path.display())]
    NoSpace {
        /// The path.
        path: PathBuf,
        /// Free for this user.
        free_mib: u64,
        /// Asked for.
        size_mib: u64,
    },
    /// An operation on it failed.
    #[error("{}: {what} failed: {source}", path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// What was done.
        what: String,
        /// The operating system's error.
        source: io::Error,
    },
    /// The user wants to stop.
    #[error("stopped; nothing was written")]
    Stopped,
}

/// How many operations a part makes and how long it may go on.
#[derive(Clone, Copy)]
struct Effort {
    operations: usize,
    sized: usize,
    flushes: usize,
    most: Duration,
}

#[derive(Clone, Copy, PartialEq)]
enum What {
    Read,
    Write,
}

/// Memory for operations, aligned and where possible in large pages, so that 1 MiB is one request.
struct Room {
    memory: Vec<u8>,
    start: usize,
}

impl Room {
    fn new(bytes: usize, random: &mut Random) -> Room {
        const LARGE_PAGE: usize = 2 << 20;
        let align = if bytes > BLOCK { LARGE_PAGE } else { BLOCK };
        let mut memory = vec![0; bytes.next_multiple_of(align) + align];
        let start = memory.as_ptr().align_offset(align).min(align);
        if align == LARGE_PAGE {
            // SAFETY: the range lies within the vector; the advice changes how it is backed, not what it holds. Where the kernel
            // has no large pages requests are smaller, no more.
            unsafe { libc::madvise(memory.as_mut_ptr().add(start).cast(), LARGE_PAGE, libc::MADV_HUGEPAGE) };
        }
        // Zeros might be compressed away.
        memory[start..]
            .chunks_mut(8)
            .for_each(|eight| eight.copy_from_slice(&random.next().to_le_bytes()[..eight.len()]));
        Room { memory, start }
    }

    fn of(&mut self, bytes: usize) -> &mut [u8] {
        &mut self.memory[self.start..self.start + bytes]
    }
}

impl Random {
    /// A place for `bytes`, aligned to their size, that does not begin at `not`.
    fn place(&mut self, within: u64, bytes: usize, not: u64) -> u64 {
        let bytes = bytes as u64;
        let slots = (within / bytes).max(1);
        let slot = self.next() % slots;
        let slot = if slot * bytes == not { (slot + slots / 2) % slots } else { slot };
        slot * bytes
    }
}

/// What is measured on.
struct Target<'a> {
    path: PathBuf,
    file: File,
    bytes: u64,
    random: Random,
    room: Room,
    /// Whether the user wants to stop.
    stopped: &'a dyn Fn() -> bool,
}

/// Times in rising order, ns.
struct Sorted(Vec<u64>);

impl Sorted {
    fn of(mut times: Vec<u64>) -> Sorted {
        times.sort_unstable();
        Sorted(times)
    }

    fn at(&self, percentile: f64) -> f64 {
        let rank = (percentile / 100.0 * self.0.len() as f64).ceil() as usize;
        self.0.get(rank.saturating_sub(1).min(self.0.len().saturating_sub(1))).copied().unwrap_or(0) as f64
    }

    fn median(&self) -> f64 {
        self.at(50.0)
    }

    /// As a model writes it.
    fn written(&self) -> String {
        let mut points = Vec::new();
        for percentile in PERCENTILES {
            // A percentile that rests on less than two operations is the largest.
            let enough = self.0.len() as f64 * (1.0 - percentile / 100.0) >= 1.0 || percentile == 100.0;
            if enough {
                points.push(format!("[{percentile}, {}]", us(self.at(percentile))));
            }
        }
        format!("[{}]", points.join(", "))
    }
}

fn us(ns: f64) -> String {
    let text = format!("{:.1}", ns.max(0.0) / 1e3);
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

impl Target<'_> {
    fn failed<'a>(&'a self, what: &str) -> impl FnOnce(io::Error) -> CalibrateError + use<'a> {
        let what = what.to_owned();
        move |source| match source.raw_os_error() {
            Some(libc::EINVAL) => CalibrateError::Place {
                path: self.path.clone(),
                problem: format!(
                    "{what} past the page cache (O_DIRECT) is refused: this file system or device cannot be measured"
                ),
            },
            _ => CalibrateError::Io { path: self.path.clone(), what, source },
        }
    }

    fn go_on(&self) -> Result<(), CalibrateError> {
        if (self.stopped)() { Err(CalibrateError::Stopped) } else { Ok(()) }
    }

    /// One operation: its time, ns.
    fn operate(&mut self, what: What, at: u64, bytes: usize) -> Result<u64, CalibrateError> {
        let room = self.room.of(bytes);
        let begin = Instant::now();
        let done = match what {
            What::Read => self.file.read_exact_at(room, at),
            What::Write => self.file.write_all_at(room, at),
        };
        let took = begin.elapsed().as_nanos() as u64;
        done.map(|()| took).map_err(self.failed(if what == What::Read { "a read" } else { "a write" }))
    }

    fn flush(&mut self) -> Result<u64, CalibrateError> {
        let begin = Instant::now();
        let done = self.file.sync_data();
        let took = begin.elapsed().as_nanos() as u64;
        done.map(|()| took).map_err(self.failed("a flush"))
    }

    /// Operations of one size at random places.
    fn random(
        &mut self,
        what: What,
        bytes: usize,
        count: usize,
        most: Duration,
    ) -> Result<Sorted, CalibrateError> {
        let (begin, mut end, mut times) = (Instant::now(), u64::MAX, Vec::with_capacity(count));
        while times.len() < count && (begin.elapsed() < most || times.len() < 5) {
            self.go_on()?;
            let at = self.random.place(self.bytes, bytes, end);
            end = at + bytes as u64;
            times.push(self.operate(what, at, bytes)?);
        }
        Ok(Sorted::of(times))
    }

    /// Operations of one size one after the other, in `streams` places in turn.
    fn sequential(
        &mut self,
        what: What,
        bytes: usize,
        streams: usize,
        count: usize,
        most: Duration,
    ) -> Result<Sorted, CalibrateError> {
        let (begin, mut times) = (Instant::now(), Vec::with_capacity(count));
        let length = self.bytes / streams as u64 / bytes as u64 * bytes as u64;
        let start = |stream: usize| length * stream as u64;
        let mut next: Vec<u64> = (0..streams).map(start).collect();
        // The first of each stream is none of it.
        for turn in 0.. {
            let known = turn >= streams;
            if times.len() >= count || (begin.elapsed() >= most && times.len() >= 5) {
                break;
            }
            self.go_on()?;
            let stream = turn % streams;
            let at = next[stream];
            if at + bytes as u64 > start(stream) + length {
                next[stream] = start(stream);
                continue;
            }
            let took = self.operate(what, at, bytes)?;
            next[stream] = at + bytes as u64;
            // Nor is one that begins anew.
            if known && at > start(stream) {
                times.push(took);
            }
        }
        Ok(Sorted::of(times))
    }

    /// Random reads a second by so many threads.
    fn rate(&mut self, threads: usize, count: usize, most: Duration) -> Result<f64, CalibrateError> {
        let (left, begin) = (AtomicUsize::new(count), Instant::now());
        let (file, bytes) = (&self.file, self.bytes);
        let seeds: Vec<u64> = (0..threads).map(|_| self.random.next()).collect();
        let one = |seed: u64| -> io::Result<usize> {
            let mut random = Random(seed);
            let mut room = Room::new(BLOCK, &mut random);
            let (mut end, mut done) = (u64::MAX, 0);
            let take =
                || left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |it| it.checked_sub(1)).is_ok();
            while begin.elapsed() < most && take() {
                let at = random.place(bytes, BLOCK, end);
                end = at + BLOCK as u64;
                file.read_exact_at(room.of(BLOCK), at)?;
                done += 1;
            }
            Ok(done)
        };
        let done: io::Result<usize> = thread::scope(|scope| {
            let all: Vec<_> = seeds.into_iter().map(|seed| scope.spawn(move || one(seed))).collect();
            let gone = || Err(io::Error::other("a thread has ended early"));
            all.into_iter().map(|it| it.join().unwrap_or_else(|_| gone())).sum()
        });
        let done = done.map_err(self.failed("a read"))?;
        Ok(done as f64 / begin.elapsed().as_secs_f64())
    }
}

/// What a flush costs.
struct Flushes {
    per_kib_ns: f64,
    base: Sorted,
    medians: Vec<(usize, f64)>,
}

/// Slope by Theil and Sen over the medians of the amounts, and what remains of each flush.
fn flush_cost(points: &[(usize, u64)]) -> Flushes {
    let mut amounts: Vec<usize> = points.iter().map(|it| it.0).collect();
    amounts.sort_unstable();
    amounts.dedup();
    let of = |amount| points.iter().filter(|it| it.0 == amount).map(|it| it.1).collect();
    let medians: Vec<(usize, f64)> =
        amounts.into_iter().map(|amount| (amount, Sorted::of(of(amount)).median())).collect();
    let mut slopes = Vec::new();
    for (number, (bytes, ns)) in medians.iter().enumerate() {
        for (more, longer) in &medians[number + 1..] {
            // Small amounts differ by less than the noise.
            if *more >= 16 * bytes {
                slopes.push((longer - ns) / ((more - bytes) as f64 / 1024.0));
            }
        }
    }
    let per_kib_ns = median(slopes).max(0.0);
    let rest = |&(bytes, ns): &(usize, u64)| (ns as f64 - per_kib_ns * bytes as f64 / 1024.0).max(0.0) as u64;
    Flushes { per_kib_ns, base: Sorted::of(points.iter().map(rest).collect()), medians }
}

/// A cache found in the times of single writes by size.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Found {
    bytes: usize,
    write_ns: f64,
    drain_bytes_per_ns: f64,
}

/// A cache, if the times are flat up to a size and rise from there, and a straight line from 4 KiB is clearly worse.
fn cache_in(times: &[(usize, f64)]) -> Option<Found> {
    let (&(least, first), &(most, last)) = (times.first()?, times.last()?);
    let off = |predicted: &dyn Fn(f64) -> f64| -> f64 {
        let each = |&(bytes, ns): &(usize, f64)| (ns / predicted(bytes as f64).max(1.0)).ln().abs();
        times.iter().map(each).sum::<f64>() / times.len() as f64
    };
    let line = |from: f64, base: f64| {
        let slope = (last - base) / (most as f64 - from);
        move |bytes: f64| base + (bytes - from).max(0.0) * slope
    };
    let straight = off(&line(least as f64, first));
    let candidate = |&(bytes, _): &(usize, f64)| {
        let flat = median(times.iter().filter(|it| it.0 <= bytes).map(|it| it.1).collect());
        (off(&line(bytes as f64, flat)), bytes, flat)
    };
    let inner = times.get(1..times.len() - 1)?;
    let (error, bytes, flat) = inner.iter().map(candidate).min_by(|a, b| a.0.total_cmp(&b.0))?;
    // Three times as long in the end: less is no wait for a cache.
    let real = straight > 0.15 && error < 0.5 * straight && last > 3.0 * flat;
    real.then(|| Found {
        bytes,
        write_ns: flat,
        drain_bytes_per_ns: (most - bytes) as f64 / (last - flat).max(1.0),
    })
}

/// The number of channels by rates of 1, 2, 4 … threads.
fn channels(rates: &[(usize, f64)]) -> usize {
    let one = rates.first().map_or(1.0, |it| it.1).max(1e-9);
    let best = rates.iter().map(|it| it.1 / one).fold(1.0, f64::max);
    // The largest number of threads bounds what can be seen.
    (best.round() as usize).clamp(1, DEPTHS[DEPTHS.len() - 1])
}

/// The most streams whose reads are still nearer to those of one stream than to random ones.
fn streams(times: &[(usize, f64)], random: f64) -> usize {
    let Some(&(_, one)) = times.first() else { return 1 };
    if one > 0.8 * random {
        return 1;
    }
    let limit = (one * random).sqrt();
    times.iter().take_while(|it| it.1 < limit).map(|it| it.0).last().unwrap_or(1)
}

impl Calibration {
    /// Measures, and gives the model's text. `on_step` is told what is measured; `stopped` is asked whether to stop.
    ///
    /// # Errors
    /// [`CalibrateError`]; nothing is left behind.
    pub fn run(
        &self,
        on_step: &mut dyn FnMut(&str),
        stopped: &dyn Fn() -> bool,
    ) -> Result<String, CalibrateError> {
        let effort = match self.quick {
            true => Effort { operations: 100, sized: 7, flushes: 7, most: Duration::from_millis(800) },
            false => Effort { operations: 4000, sized: 31, flushes: 41, most: Duration::from_secs(12) },
        };
        let (mut target, described, sectors) = self.open(stopped)?;
        let Effort { operations, sized, flushes, most } = effort;
        on_step("writing the file");
        self.prepare(&mut target)?;

        on_step("4 KiB random reads");
        let read = target.random(What::Read, BLOCK, operations, most)?;
        on_step("4 KiB sequential reads");
        let mut turns = Vec::new();
        let read_next = target.sequential(What::Read, BLOCK, 1, operations, most)?;
        for number in STREAMS {
            turns
                .push((number, target.sequential(What::Read, BLOCK, number, 10 * sized, most / 8)?.median()));
        }
        on_step("larger reads");
        let reads = target.sizes(What::Read, sized, most)?;
        let read_mib = target.sequential(What::Read, LARGEST, 1, sized, most)?.median();
        on_step("reads by 1 to 32 threads");
        let mut rates = Vec::new();
        for depth in DEPTHS {
            rates.push((depth, target.rate(depth, (operations / 4).max(100), most / 4)?));
        }

        on_step("4 KiB random writes");
        target.flush()?;
        let write = target.random(What::Write, BLOCK, operations, most)?;
        target.flush()?;
        on_step("4 KiB sequential writes");
        let write_next = target.sequential(What::Write, BLOCK, 1, operations, most)?;
        target.flush()?;
        on_step("larger writes");
        let writes = target.sizes(What::Write, sized, most)?;
        target.flush()?;
        let write_mib = target.sequential(What::Write, LARGEST, 1, sized, most)?.median();
        let mut single = SIZES.map(|bytes| (bytes, Vec::new()));
        for _ in 0..(sized / 2).max(3) {
            for (bytes, times) in &mut single {
                target.flush()?;
                thread::sleep(REST);
                let at = target.random.place(target.bytes, *bytes, u64::MAX);
                times.push(target.operate(What::Write, at, *bytes)? as f64);
            }
        }
        let cache = cache_in(&single.map(|(bytes, times)| (bytes, median(times))));
        on_step("flushes");
        let flush = flush_cost(&target.flushes(flushes, most * 2, cache)?);

        // From 4 KiB in sequence to 1 MiB in sequence: what each byte more takes.
        let mb_per_s = |mib: f64, four_kib: f64| {
            let each = (mib - four_kib).max(1.0) / (LARGEST - BLOCK) as f64;
            1e3 / each
        };
        let bandwidth = [mb_per_s(read_mib, read_next.median()), mb_per_s(write_mib, write_next.median())];
        let mut text = String::new();
        let Calibration { name, when, .. } = self;
        let used = target.bytes >> 20;
        // Writing into a String does not fail.
        let _ = write!(
            text,
            "# How well this model's straight lines fit is at the end.\n\
             name = {name:?}\ntitle = {title:?}\nkind = {kind:?}\n\
             sources = [{source:?}]\n\
             assumptions = [\"a power cut leaves 512 bytes whole\"{more}]\n\
             channels = {channels}\nstreams = {streams}\nsector_bytes = {sectors}\ntear_bytes = 512\n\
             [read]\nrandom_us = {read}\nsequential_us = {read_next}\nmb_per_s = {read_mb:.1}\n\
             [write]\nrandom_us = {write}\nsequential_us = {write_next}\nmb_per_s = {write_mb:.1}\n\
             [flush]\nbase_us = {flush_base}\nper_dirty_kib_us = {per_kib:.3}\n",
            title = format!("{}, measured", described.title),
            kind = described.kind,
            source = format!(
                "measured {when} by fathom stack calibrate {version}: {described}, {used} MiB used, O_DIRECT, {reads} random reads and \
                 {writes} random writes of 4 KiB, {flushes} flushes{quick}",
                version = env!("CARGO_PKG_VERSION"),
                described = described.text,
                reads = read.0.len(),
                writes = write.0.len(),
                flushes = flush.base.0.len(),
                quick = if self.quick { ", with --quick: its tails are guesses" } else { "" },
            ),
            more = match cache {
                Some(_) => ", \"the cache empties at one rate whatever is in it\"",
                None =>
                    ", \"no cache shows in single writes up to 1 MiB: a larger one would be in the quantiles of the writes\"",
            },
            channels = channels(&rates),
            streams = streams(&turns, read.median()),
            read = read.written(),
            read_next = read_next.written(),
            read_mb = bandwidth[0],
            write = write.written(),
            write_next = write_next.written(),
            write_mb = bandwidth[1],
            flush_base = flush.base.written(),
            per_kib = flush.per_kib_ns / 1e3,
        );
        if let Some(cache) = cache {
            let _ = write!(
                text,
                "[cache]\nkib = {}\nwrite_us = {}\ndrain_mb_per_s = {:.1}\n",
                cache.bytes >> 10,
                us(cache.write_ns),
                cache.drain_bytes_per_ns * 1e3
            );
        }
        let mut compared = |heading: &str, rows: Vec<(String, f64, f64)>| {
            let _ = writeln!(text, "#\n# {heading:32} measured, us    by the model");
            for (what, measured, model) in rows {
                let _ = writeln!(text, "# {what:32} {:>12} {:>15}", us(measured), us(model));
            }
        };
        let line = |base: &Sorted, bandwidth: f64, bytes: usize| {
            base.median() + (bytes - BLOCK) as f64 * 1e3 / bandwidth
        };
        let rows = |sizes: &[(usize, f64)], base: &Sorted, bandwidth: f64| {
            let row = |&(bytes, ns): &(usize, f64)| {
                (format!("{} KiB", bytes >> 10), ns, line(base, bandwidth, bytes))
            };
            sizes.iter().map(row).collect()
        };
        compared("random reads, medians", rows(&reads, &read, bandwidth[0]));
        if cache.is_none() {
            compared("random writes, medians", rows(&writes, &write, bandwidth[1]));
        }
        let row = |&(bytes, ns): &(usize, f64)| {
            (
                format!("{} KiB", bytes >> 10),
                ns,
                flush.base.median() + flush.per_kib_ns * bytes as f64 / 1024.0,
            )
        };
        compared("flushes after, medians", flush.medians.iter().map(row).collect());
        let _ = writeln!(text, "#\n# random reads of 4 KiB a second:");
        for (depth, rate) in rates {
            let _ = writeln!(text, "# {depth:>3} at once {rate:>12.0}");
        }
        Ok(text)
    }

    /// Opens what is measured. A file of Fathom's own has no name, so that nothing is left of it however this ends.
    fn open<'a>(
        &self,
        stopped: &'a dyn Fn() -> bool,
    ) -> Result<(Target<'a>, Described, u32), CalibrateError> {
        let path = &self.path;
        let place = |problem: String| CalibrateError::Place { path: path.clone(), problem };
        if self.size_mib < SMALLEST_MIB {
            return Err(place(format!(
                "--size {} is too small to be random in: give {SMALLEST_MIB} or more",
                self.size_mib
            )));
        }
        let refused = |error: io::Error| {
            place(match error.raw_os_error() {
                Some(libc::EINVAL | libc::EOPNOTSUPP) => "cannot be read and written past the page cache (O_DIRECT), so its cache would be measured: give a place on another file system".into(),
                Some(libc::EROFS) => "is on a file system that is mounted read-only: give another place".into(),
                Some(libc::EACCES | libc::EPERM) => "you may not write here: give a directory of your own, or run as root".into(),
                Some(libc::EBUSY) => "is in use (mounted, or part of something): unmount it first, or give a directory on it".into(),
                Some(libc::ENOSPC | libc::EDQUOT) => "no space left (or a quota is used up): use a smaller --size".into(),
                _ => error.to_string(),
            })
        };
        let wanted = self.size_mib << 20;
        let direct = |path: &Path, more: libc::c_int| {
            OpenOptions::new().read(true).write(true).custom_flags(libc::O_DIRECT | more).open(path)
        };
        let found = match fs::metadata(path) {
            Ok(found) => Some(found),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(refused(error)),
        };
        let kind = found.as_ref().map(fs::Metadata::file_type);
        let held = |what| CalibrateError::HoldsData { path: path.clone(), what };
        let (file, bytes) = match kind {
            Some(kind) if kind.is_block_device() => {
                if !self.destroy {
                    return Err(held("is a block device"));
                }
                // With O_EXCL nobody else has it mounted.
                let file = direct(path, libc::O_EXCL).map_err(refused)?;
                let bytes =
                    rustix::fs::seek(&file, rustix::fs::SeekFrom::End(0)).map_err(|e| refused(e.into()))?;
                (file, bytes.min(wanted))
            }
            Some(kind) if kind.is_file() => {
                if !self.destroy {
                    return Err(held("is a file that is there already"));
                }
                let bytes = found.as_ref().map_or(0, fs::Metadata::len);
                (direct(path, 0).map_err(refused)?, bytes.min(wanted))
            }
            Some(kind) if !kind.is_dir() => {
                return Err(place("is neither a directory nor a block device nor a file".into()));
            }
            _ => {
                let directory = if kind.is_some() { path.clone() } else { parent(path) };
                if !directory.is_dir() {
                    return Err(place("does not exist, nor does the directory it would lie in".into()));
                }
                let mount = mount_of(&directory).map_err(refused)?;
                if matches!(mount.filesystem.as_str(), "tmpfs" | "ramfs") {
                    return Err(place(format!(
                        "is on {}, in memory: there is no device to measure",
                        mount.filesystem
                    )));
                }
                let space = rustix::fs::statvfs(&directory).map_err(|e| refused(e.into()))?;
                let free = space.f_bavail.saturating_mul(space.f_frsize);
                let file = nameless(&directory).map_err(refused)?;
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
            }
        };
        let bytes = bytes >> 20 << 20;
        if bytes < SMALLEST_MIB << 20 {
            return Err(place(format!("holds {} MiB only: at least {SMALLEST_MIB} are needed", bytes >> 20)));
        }
        let mut random = Random(1);
        let mut room = Room::new(LARGEST, &mut random);
        // Whether 512 bytes can be read by themselves is what the sector's size is.
        let sectors = if file.read_exact_at(&mut room.of(512)[..512], 0).is_ok() { 512 } else { 4096 };
        let described = Described::of(path, &file);
        Ok((Target { path: path.clone(), file, bytes, random, room, stopped }, described, sectors))
    }

    /// Writes everything once: what was never written reads as zeros without the device.
    fn prepare(&self, target: &mut Target<'_>) -> Result<(), CalibrateError> {
        for at in (0..target.bytes).step_by(LARGEST) {
            target.go_on()?;
            target.operate(What::Write, at, LARGEST)?;
        }
        target.file.sync_all().map_err(target.failed("a flush"))
    }
}

impl Target<'_> {
    /// Medians of single operations of each size at random places.
    fn sizes(
        &mut self,
        what: What,
        count: usize,
        most: Duration,
    ) -> Result<Vec<(usize, f64)>, CalibrateError> {
        let one = |bytes| Ok((bytes, self.random(what, bytes, count, most / 4)?.median()));
        SIZES.into_iter().map(one).collect()
    }

    /// Flushes after so much was written (less what the cache has written by itself meanwhile), amounts in turn.
    fn flushes(
        &mut self,
        rounds: usize,
        most: Duration,
        cache: Option<Found>,
    ) -> Result<Vec<(usize, u64)>, CalibrateError> {
        let (start, mut points) = (Instant::now(), Vec::new());
        for round in 0..rounds {
            for bytes in DIRTY {
                if start.elapsed() > most && round > 2 {
                    return Ok(points);
                }
                self.go_on()?;
                let begin = Instant::now();
                let mut end = u64::MAX;
                for _ in 0..bytes.div_ceil(64 << 10) {
                    let some = bytes.min(64 << 10);
                    let at = self.random.place(self.bytes, some, end);
                    end = at + some as u64;
                    self.operate(What::Write, at, some)?;
                }
                let drained =
                    cache.map_or(0.0, |it| it.drain_bytes_per_ns * begin.elapsed().as_nanos() as f64);
                let took = self.flush()?;
                // In steps of a block, so that equal amounts stay together.
                let dirty = (bytes as f64 - drained).max(0.0);
                points.push(((dirty / BLOCK as f64).round() as usize * BLOCK, took));
            }
        }
        Ok(points)
    }
}

fn parent(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
        _ => ".".into(),
    }
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

/// What was measured, in words.
struct Described {
    title: String,
    kind: &'static str,
    text: String,
}

impl Described {
    fn of(path: &Path, file: &File) -> Described {
        let metadata = file.metadata().ok();
        let is_device = metadata.as_ref().is_some_and(|it| it.file_type().is_block_device());
        let number = metadata.map_or(0, |it| if is_device { it.rdev() } else { it.dev() });
        let sys = format!("/sys/dev/block/{}:{}", rustix::fs::major(number), rustix::fs::minor(number));
        let sys = fs::canonicalize(sys).unwrap_or_default();
        let read = |name: &str| {
            // A partition has its disk above it.
            let all = [sys.join(name), sys.join("..").join(name)];
            let text = all.iter().find_map(|it| fs::read_to_string(it).ok());
            text.map(|it| it.trim().to_owned()).filter(|it| !it.is_empty())
        };
        let node = crate::command::file_name(&sys);
        let model = read("device/model").or_else(|| read("device/name"));
        let kind = match (read("device/type").as_deref(), read("queue/rotational").as_deref()) {
            (Some("SD"), _) => "sd",
            (Some("MMC"), _) => "emmc",
            (_, Some("1")) if !node.starts_with("loop") => "disk",
            _ => "flash",
        };
        let plain = |text: &str| -> String { text.chars().filter(|c| !c.is_control()).collect() };
        let on = match (is_device, mount_of(path).or_else(|_| mount_of(&parent(path)))) {
            (false, Ok(mount)) => format!("a file on {} ({})", mount.filesystem, mount.source),
            _ => path.display().to_string(),
        };
        let title = model.unwrap_or_else(|| if node.is_empty() { "device".into() } else { node });
        let kernel = rustix::system::uname().release().to_string_lossy().into_owned();
        let text = plain(&format!("{title}: {on}, Linux {kernel}"));
        Described { title: plain(&title), kind, text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_is_told_apart_from_what_is_dirty() {
        let mut points = Vec::new();
        for round in 0..20u64 {
            for bytes in DIRTY {
                // 2 ms, 4 µs for each KiB, and now and then something else.
                let noise = if round % 7 == 3 { 30_000_000 } else { round * 1000 };
                points.push((bytes, 2_000_000 + bytes as u64 / 1024 * 4000 + noise));
            }
        }
        let found = flush_cost(&points);
        assert!((found.per_kib_ns - 4000.0).abs() < 50.0, "{}", found.per_kib_ns);
        assert!((found.base.median() / 2_000_000.0 - 1.0).abs() < 0.02, "{}", found.base.median());
        assert_eq!(flush_cost(&[]).per_kib_ns, 0.0);
    }

    #[test]
    fn a_cache_is_found_where_there_is_one_only() {
        let times = |of: &dyn Fn(f64) -> f64| SIZES.map(|bytes| (bytes, of(bytes as f64)));
        let cached = cache_in(&times(&|bytes| 50e3 + (bytes - 65536.0).max(0.0) / 0.053)).unwrap();
        assert_eq!((cached.bytes, cached.write_ns), (65536, 50e3));
        assert!((cached.drain_bytes_per_ns / 0.053 - 1.0).abs() < 0.01, "{cached:?}");
        for bytes_per_ns in [0.008, 0.02, 0.06, 0.2, 1.0, 4.0] {
            for base in [40e3, 800e3, 2000e3] {
                assert_eq!(
                    cache_in(&times(&|bytes| base + (bytes - 4096.0) / bytes_per_ns)),
                    None,
                    "{bytes_per_ns} {base}"
                );
            }
        }
    }

    #[test]
    fn channels_and_streams_by_what_they_give() {
        assert_eq!(channels(&[(1, 3000.0), (2, 5900.0), (4, 11_800.0), (8, 12_100.0), (16, 12_000.0)]), 4);
        assert_eq!(channels(&[(1, 3000.0), (2, 3000.0), (32, 2900.0)]), 1);
        assert_eq!(streams(&[(1, 100.0), (2, 105.0), (4, 110.0), (8, 300.0)], 300.0), 4);
        assert_eq!(streams(&[(1, 290.0), (2, 290.0)], 300.0), 1);
    }

    #[test]
    fn quantiles_that_rest_on_too_little_are_left_out() {
        let times = Sorted::of((1..=100).map(|it| it * 1000).collect());
        assert_eq!(times.written(), "[[5, 5], [25, 25], [50, 50], [75, 75], [90, 90], [99, 99], [100, 100]]");
        assert_eq!(Sorted::of(vec![1500]).written(), "[[100, 1.5]]");
    }
}
