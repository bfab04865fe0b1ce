//! What is measured on, and operations on it.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::cache::CacheEstimate;
use super::error::CalibrateError;
use super::flush::flush_cost;
use super::sizes::{BLOCK, DEPTHS, DIRTY, LARGEST, REST, SIZES};
use super::sorted::{SortedTimes, median};
use crate::aligned::AlignedBuffer;
use fathom_random::Random;

/// Operations between two looks whether the quantiles are known well.
const BETWEEN: usize = 1000;
/// How many times as long as its share a part may take until they are.
const LONGER: u32 = 5;

/// Which operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Direction {
    Read,
    Write,
}

/// A place for `bytes`, aligned to their size, that does not begin at `not`.
fn place(random: &mut Random, within: u64, bytes: usize, not: u64) -> u64 {
    let bytes = bytes as u64;
    let slots = (within / bytes).max(1);
    let slot = random.bits() % slots;
    let slot = if slot * bytes == not { (slot + slots / 2) % slots } else { slot };
    slot * bytes
}

/// What is measured on.
pub(super) struct Target<'a> {
    pub path: PathBuf,
    pub file: File,
    pub bytes: u64,
    pub random: Random,
    pub room: AlignedBuffer,
    /// Whether the user wants to stop.
    pub stopped: &'a dyn Fn() -> bool,
}

impl Target<'_> {
    /// What to say of an operation that failed.
    pub fn failed<'a>(&'a self, what: &str) -> impl FnOnce(io::Error) -> CalibrateError + use<'a> {
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

    /// Whether the user wants to go on.
    pub fn go_on(&self) -> Result<(), CalibrateError> {
        if (self.stopped)() { Err(CalibrateError::Stopped) } else { Ok(()) }
    }

    /// One operation: its time, ns.
    pub fn operate(&mut self, what: Direction, at: u64, bytes: usize) -> Result<u64, CalibrateError> {
        let room = self.room.of(bytes);
        let begin = Instant::now();
        let done = match what {
            Direction::Read => self.file.read_exact_at(room, at),
            Direction::Write => self.file.write_all_at(room, at),
        };
        let took = begin.elapsed().as_nanos() as u64;
        done.map(|()| took).map_err(self.failed(if what == Direction::Read { "a read" } else { "a write" }))
    }

    /// A flush: its time, ns.
    pub fn flush(&mut self) -> Result<u64, CalibrateError> {
        let begin = Instant::now();
        let done = self.file.sync_data();
        let took = begin.elapsed().as_nanos() as u64;
        done.map(|()| took).map_err(self.failed("a flush"))
    }

    /// Writes everything once: what was never written reads as zeros without the device.
    pub fn prepare(&mut self) -> Result<(), CalibrateError> {
        for at in (0..self.bytes).step_by(LARGEST) {
            self.go_on()?;
            self.operate(Direction::Write, at, LARGEST)?;
        }
        self.file.sync_all().map_err(self.failed("a flush"))
    }

    /// Its sectors, bytes: whether 512 can be read by themselves. Once all is written only: there
    /// is nothing to be read where the file system cannot allocate ahead.
    pub fn sector_bytes(&mut self) -> u32 {
        let sector = &mut self.room.of(512)[..512];
        if self.file.read_exact_at(sector, 0).is_ok() { 512 } else { 4096 }
    }

    /// Does something with another file as with this one.
    pub fn beside<T>(
        &mut self,
        path: &Path,
        with: impl FnOnce(&mut Target<'_>) -> Result<T, CalibrateError>,
    ) -> Option<T> {
        let file = OpenOptions::new().read(true).write(true).custom_flags(libc::O_DIRECT).open(path).ok()?;
        let room = AlignedBuffer::new(LARGEST, &mut self.random);
        let (random, stopped) = (Random::new(self.random.bits()), self.stopped);
        let mut other = Target { path: path.to_path_buf(), file, bytes: self.bytes, random, room, stopped };
        with(&mut other).ok()
    }

    /// Operations of one size at random places.
    pub fn random(
        &mut self,
        what: Direction,
        bytes: usize,
        count: usize,
        most: Duration,
    ) -> Result<SortedTimes, CalibrateError> {
        let (begin, mut end, mut times) = (Instant::now(), u64::MAX, Vec::with_capacity(count));
        while times.len() < count && (begin.elapsed() < most || times.len() < 5) {
            times.push(self.one(what, bytes, &mut end)?);
        }
        Ok(SortedTimes::of(times))
    }

    /// As [`Target::random`], of 4 KiB, and more of them until their quantiles are known well, if
    /// that is to be had.
    pub fn random_with_quantiles(
        &mut self,
        what: Direction,
        count: usize,
        most: Duration,
        well: bool,
    ) -> Result<SortedTimes, CalibrateError> {
        let begin = Instant::now();
        let mut known = self.random(what, BLOCK, count, most)?;
        let mut end = u64::MAX;
        while well && !known.is_known_well() && begin.elapsed() < LONGER * most {
            let mut times = known.0;
            for _ in 0..BETWEEN {
                times.push(self.one(what, BLOCK, &mut end)?);
            }
            known = SortedTimes::of(times);
        }
        Ok(known)
    }

    /// One operation at a random place that does not begin where the last one ended.
    fn one(&mut self, what: Direction, bytes: usize, end: &mut u64) -> Result<u64, CalibrateError> {
        self.go_on()?;
        let at = place(&mut self.random, self.bytes, bytes, *end);
        *end = at + bytes as u64;
        self.operate(what, at, bytes)
    }

    /// Operations of one size one after the other, in `streams` places in turn.
    pub fn sequential(
        &mut self,
        what: Direction,
        bytes: usize,
        streams: usize,
        count: usize,
        most: Duration,
    ) -> Result<SortedTimes, CalibrateError> {
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
        Ok(SortedTimes::of(times))
    }

    /// Random reads a second by so many threads.
    pub fn rate(&mut self, threads: usize, count: usize, most: Duration) -> Result<f64, CalibrateError> {
        let (left, begin) = (AtomicUsize::new(count), Instant::now());
        let (file, bytes) = (&self.file, self.bytes);
        let seeds: Vec<u64> = (0..threads).map(|_| self.random.bits()).collect();
        let one = |seed: u64| -> io::Result<usize> {
            let mut random = Random::new(seed);
            let mut room = AlignedBuffer::new(BLOCK, &mut random);
            let (mut end, mut done) = (u64::MAX, 0);
            let take = || {
                left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| count.checked_sub(1)).is_ok()
            };
            while begin.elapsed() < most && take() {
                let at = place(&mut random, bytes, BLOCK, end);
                end = at + BLOCK as u64;
                file.read_exact_at(room.of(BLOCK), at)?;
                done += 1;
            }
            Ok(done)
        };
        let done: io::Result<usize> = thread::scope(|scope| {
            let all: Vec<_> = seeds.into_iter().map(|seed| scope.spawn(move || one(seed))).collect();
            let gone = || Err(io::Error::other("a thread has ended early"));
            all.into_iter().map(|thread| thread.join().unwrap_or_else(|_| gone())).sum()
        });
        let done = done.map_err(self.failed("a read"))?;
        Ok(done as f64 / begin.elapsed().as_secs_f64())
    }

    /// Medians of single operations of each size at random places.
    pub fn sizes(
        &mut self,
        what: Direction,
        count: usize,
        most: Duration,
    ) -> Result<Vec<(usize, f64)>, CalibrateError> {
        let one = |bytes| Ok((bytes, self.random(what, bytes, count, most / 4)?.median()));
        SIZES.into_iter().map(one).collect()
    }

    /// Flushes after so much was written (less what the cache has written by itself meanwhile),
    /// amounts in turn; then after 4 KiB only, until their quantiles are known well, if that is to
    /// be had.
    pub fn flushes(
        &mut self,
        rounds: usize,
        most: Duration,
        cache: Option<CacheEstimate>,
        well: bool,
    ) -> Result<Vec<(usize, u64)>, CalibrateError> {
        let (start, mut points) = (Instant::now(), Vec::new());
        for round in 0..rounds {
            for bytes in DIRTY {
                if start.elapsed() > most && round > 2 {
                    break;
                }
                points.push(self.flush_after(bytes, cache)?);
            }
        }
        let start = Instant::now();
        let mut known = flush_cost(&points);
        while well && !known.base.is_known_well() && start.elapsed() < 2 * most {
            for _ in 0..BETWEEN / 4 {
                points.push(self.flush_after(BLOCK, cache)?);
            }
            known = flush_cost(&points);
        }
        Ok(points)
    }

    /// What is dirty, in steps of a block so that equal amounts stay together, and what its flush
    /// takes, ns.
    fn flush_after(
        &mut self,
        bytes: usize,
        cache: Option<CacheEstimate>,
    ) -> Result<(usize, u64), CalibrateError> {
        let begin = Instant::now();
        let mut end = u64::MAX;
        for _ in 0..bytes.div_ceil(64 << 10) {
            self.one(Direction::Write, bytes.min(64 << 10), &mut end)?;
        }
        let drained = cache.map_or(0.0, |cache| cache.drain_bytes_per_ns * begin.elapsed().as_nanos() as f64);
        let took = self.flush()?;
        let dirty = (bytes as f64 - drained).max(0.0);
        Ok(((dirty / BLOCK as f64).round() as usize * BLOCK, took))
    }

    /// Lower quartiles of single writes of each size that find the cache empty: where a few take a
    /// hundred times as long as most, medians of so few rise and fall by chance as those of a cache
    /// do.
    pub fn single(&mut self, rounds: usize) -> Result<[(usize, f64); SIZES.len()], CalibrateError> {
        let mut single = SIZES.map(|bytes| (bytes, Vec::new()));
        for _ in 0..rounds {
            for (bytes, times) in &mut single {
                self.flush()?;
                thread::sleep(REST);
                let at = place(&mut self.random, self.bytes, *bytes, u64::MAX);
                times.push(self.operate(Direction::Write, at, *bytes)?);
            }
        }
        Ok(single.map(|(bytes, times)| (bytes, SortedTimes::of(times).at(25.0))))
    }

    /// What a write of 4 KiB takes that a cache takes in. A machine that has rested is slow to
    /// begin, so the first after a rest does not count.
    pub fn cached(&mut self, cache: CacheEstimate, rounds: usize) -> Result<f64, CalibrateError> {
        let burst = (cache.bytes / BLOCK / 2).clamp(2, 16);
        let mut times = Vec::new();
        for _ in 0..rounds {
            self.flush()?;
            thread::sleep(REST);
            let mut end = u64::MAX;
            for number in 0..burst {
                let took = self.one(Direction::Write, BLOCK, &mut end)?;
                if number > 0 {
                    times.push(took as f64);
                }
            }
        }
        Ok(median(times))
    }

    /// Random reads a second by 1 to 32 threads in turns, of each round.
    pub fn rates(
        &mut self,
        rounds: usize,
        count: usize,
        most: Duration,
    ) -> Result<Vec<(usize, Vec<f64>)>, CalibrateError> {
        let mut all = DEPTHS.map(|depth| (depth, Vec::new()));
        for _ in 0..rounds {
            for (depth, rates) in &mut all {
                rates.push(self.rate(*depth, count, most)?);
            }
        }
        Ok(Vec::from(all))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened: on ext2 and exFAT, which cannot allocate ahead, the file was still empty when
    /// its sectors were asked for, so that each such card was said to have some of 4096 bytes.
    #[test]
    fn a_file_that_was_empty_has_the_sectors_of_its_device() {
        let mut random = Random::new(1);
        let room = AlignedBuffer::new(LARGEST, &mut random);
        let (file, path) = (tempfile::tempfile().unwrap(), PathBuf::from("/card"));
        let mut target = Target { path, file, bytes: 1 << 20, random, room, stopped: &|| false };
        assert_eq!(target.sector_bytes(), 4096, "it has no byte yet");
        target.prepare().unwrap();
        assert_eq!(target.sector_bytes(), 512);
    }
}
