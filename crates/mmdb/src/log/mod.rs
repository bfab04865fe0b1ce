//! The log: versioned differential frames on parallel streams, flushed in groups.

mod cell;
pub(crate) mod frame;
pub(crate) mod mark;
mod patience;
mod preparer;
pub(crate) mod record;
pub(crate) mod segment;
pub(crate) mod stream;
mod ticket;
mod wakers;

pub(crate) use ticket::Anchor;
pub use ticket::Ticket;
pub(crate) use wakers::{HeldBack, wake};

use crate::cache_line::CacheLine;
use crate::error::{Error, Result};
use crate::interruption;
use crate::process;
use crate::register::Register;
use crate::sabotage::{Defect, has_defect};
use crate::standby::Tails;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Condvar, Mutex, thread};
use patience::Patience;
use std::sync::OnceLock;
use std::task::Waker;
use std::time::{Duration, Instant};
use stream::{Batch, Stream};

/// Who was let go by a flush.
struct Woken {
    threads: u64,
    /// Of futures, still to be woken.
    wakers: Vec<Waker>,
    /// The last commit number before they were woken.
    last: u64,
}

/// A batch that is on the medium: its last commit, its stream, its number there.
struct Lagging {
    last: u64,
    stream: usize,
    batch: u32,
}

/// Counters of the log, for [`crate::Stats`].
#[derive(Debug, Default)]
pub(crate) struct LogCounters {
    pub(crate) flushes: AtomicU64,
    pub(crate) flushed_bytes: AtomicU64,
    pub(crate) frames: AtomicU64,
    pub(crate) max_batch: AtomicU64,
    pub(crate) flush_ns: AtomicU64,
}

/// Tells how many bytes images will take of the disk on which a stream is.
type ImagesNeed = dyn Fn(usize) -> u64 + Send + Sync;

/// The log of a database: its streams, the commit counter and the durable horizon.
pub(crate) struct Log {
    pub(crate) streams: Vec<Stream>,
    /// Last commit number given out. Only moved inside some stream's critical section.
    pub(crate) last: CacheLine<AtomicU64>,
    /// Every commit up to here is durable.
    horizon: CacheLine<AtomicU64>,
    /// Batches on the medium whose tickets wait for other streams.
    lagging: Mutex<Vec<Lagging>>,
    poison: Mutex<Option<String>>,
    poisoned: AtomicBool,
    pub(crate) defect: Defect,
    /// Flushes by background threads; else whoever waits does all the work.
    pub(crate) background: bool,
    /// Flushes one frame at a time: group commit off, to measure what it is worth.
    pub(crate) single: bool,
    pub(crate) counters: LogCounters,
    stopping: AtomicBool,
    /// The process that opened the database.
    process: u32,
    /// Segments that recovery would read, of all streams, and the most there may be. Read by every
    /// transaction.
    pub(crate) segments: CacheLine<AtomicU64>,
    max_segments: u64,
    segment_bytes: u64,
    /// How long new transactions wait for a checkpoint; zero if none comes by itself.
    space_timeout: Duration,
    /// Told when segments are released.
    pub(crate) space_freed: (Mutex<()>, Condvar),
    /// How far the log went, by [`Log::position`], before the last checkpoint.
    released: AtomicU64,
    /// The manifest, which must know of segments before they are used.
    pub(crate) register: Register,
    /// Why the last checkpoint failed.
    pub(crate) checkpoint_failure: Mutex<Option<String>>,
    /// The disk had no room for the last checkpoint that was due, and none has come since: what the
    /// log takes now, that one lacks.
    pub(crate) is_starving: AtomicBool,
    /// The disk had no room for the last segment that was tried.
    pub(crate) lacks_room: AtomicBool,
    /// What segments have to leave of the disk, where checkpoints come by themselves.
    images_need: OnceLock<Box<ImagesNeed>>,
    /// Who reads the log while it grows.
    pub(crate) tails: Tails,
    /// The epoch that this database was in, and the one that has deposed it.
    deposed: Mutex<Option<(u64, u64)>>,
    /// Streams that need a segment prepared.
    pub(crate) segment_wanted: (Mutex<bool>, Condvar),
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Log(last {}, horizon {})", self.last.load(Ordering::Relaxed), self.horizon())
    }
}

/// A medium is the application's code too. If it panics in the middle of a flush, nobody knows what
/// is on the disk: then everybody who waits for this flush or a later one must learn that, instead
/// of waiting for good. The same holds for an assertion that fails while a commit is applied: its
/// frame has a number, and its slots are half changed.
pub(crate) struct PoisonIfPanicking<'a> {
    log: &'a Log,
    /// What was under way.
    what: &'static str,
}

impl<'a> PoisonIfPanicking<'a> {
    /// Does `f`, and poisons the log if a panic leaves it. Whether the thread panics is not asked:
    /// a destructor may commit, and well, while its thread unwinds for a reason of the caller's.
    #[inline]
    pub(crate) fn during<T>(log: &'a Log, what: &'static str, f: impl FnOnce() -> T) -> T {
        let unwinds = PoisonIfPanicking { log, what };
        let done = f();
        // It has nothing to free.
        std::mem::forget(unwinds);
        done
    }
}

impl Drop for PoisonIfPanicking<'_> {
    fn drop(&mut self) {
        self.log.poison(&format!("a thread panicked during {}", self.what));
    }
}

impl Log {
    pub(crate) fn new(
        streams: Vec<Stream>,
        register: Register,
        last: u64,
        background: bool,
        single: bool,
        defect: Defect,
    ) -> Log {
        let segments = streams.iter().map(|s| s.live_segments().len() as u64).sum();
        Log {
            streams,
            last: CacheLine(AtomicU64::new(last)),
            horizon: CacheLine(AtomicU64::new(last)),
            lagging: Mutex::new(Vec::new()),
            poison: Mutex::new(None),
            poisoned: AtomicBool::new(false),
            defect,
            background,
            single,
            counters: LogCounters::default(),
            stopping: AtomicBool::new(false),
            process: process::number(),
            segments: CacheLine(AtomicU64::new(segments)),
            max_segments: u64::MAX,
            segment_bytes: 0,
            space_timeout: Duration::ZERO,
            space_freed: (Mutex::new(()), Condvar::new()),
            released: AtomicU64::new(0),
            register,
            checkpoint_failure: Mutex::new(None),
            is_starving: AtomicBool::new(false),
            lacks_room: AtomicBool::new(false),
            images_need: OnceLock::new(),
            tails: Tails::new(Vec::new(), 0, 0),
            deposed: Mutex::new(None),
            segment_wanted: (Mutex::new(false), Condvar::new()),
        }
    }

    /// Bounds the log: at so many bytes, in segments of `segment_bytes`, commits are refused.
    /// Before, new transactions wait for `patience` that a checkpoint makes room.
    pub(crate) fn bounded(mut self, max_bytes: u64, segment_bytes: u64, space_timeout: Duration) -> Log {
        self.max_segments = max_bytes / segment_bytes.max(1);
        self.segment_bytes = segment_bytes;
        self.space_timeout = space_timeout;
        self
    }

    /// What tails can read, and how much is kept for them.
    pub(crate) fn read_by(mut self, tails: Tails) -> Log {
        self.tails = tails;
        self
    }

    /// Whether checkpoints come by themselves, as soon as one is due.
    fn has_checkpoints(&self) -> bool {
        self.images_need.get().is_some()
    }

    /// Whether one comes by itself, and none has failed since the last one that succeeded.
    fn expects_checkpoints(&self) -> bool {
        self.has_checkpoints() && self.checkpoint_failure.lock().is_none()
    }

    /// From now on a segment leaves, of the disk on which its stream is, what `images` says of that
    /// stream, in bytes.
    pub(crate) fn leave_room(&self, images: impl Fn(usize) -> u64 + Send + Sync + 'static) {
        let first = self.images_need.set(Box::new(images)).is_ok();
        assert!(first, "it is said once what images need");
    }

    /// What the images of checkpoints need of the disk on which stream `i` is, bytes.
    fn images_need(&self, i: usize) -> u64 {
        self.images_need.get().map_or(0, |need| need(i))
    }

    /// Bytes of log that recovery would read, of all streams at one moment.
    pub(crate) fn bytes(&self) -> u64 {
        Stream::bytes_of(&self.streams)
    }

    /// Bytes logged since the log's beginning, and what an opening found of it: a measure of how
    /// far the log has come.
    pub(crate) fn position(&self) -> u64 {
        self.streams.iter().map(|s| s.position()).sum()
    }

    /// A checkpoint has everything up to `position`.
    pub(crate) fn released(&self, position: u64) {
        assert!(position <= self.position(), "the log went as far as {position} bytes");
        self.released.fetch_max(position, Ordering::Relaxed);
        self.is_starving.store(false, Ordering::Relaxed);
    }

    /// Whether a checkpoint is due that shall keep the log at `bytes`. What counts is what came
    /// since the last one: that one could not release the segments that are being written, however
    /// many they are, and the next one cannot either. And near the most segments that there may be,
    /// or where the disk has room for no more, as soon as one of them is full.
    ///
    /// `unlogged` are bytes that came since then and are in no log: what a crash takes is bounded by
    /// the same number.
    pub(crate) fn wants_checkpoint(&self, bytes: u64, unlogged: u64) -> bool {
        let segments = self.segments.load(Ordering::Relaxed);
        let logged = self.position().saturating_sub(self.released.load(Ordering::Relaxed));
        let is_short = segments > self.max_segments / 2 || self.lacks_room.load(Ordering::Relaxed);
        logged.saturating_add(unlogged) > bytes || (is_short && self.streams.iter().any(|s| s.has_closed()))
    }

    /// Whether new transactions should wait for a checkpoint: soon one of the streams may not get
    /// another segment.
    #[inline]
    pub(crate) fn is_crowded(&self) -> bool {
        self.segments.load(Ordering::Relaxed).saturating_add(self.streams.len() as u64) > self.max_segments
    }

    /// Holds a new transaction back while a checkpoint is to make room. No locks are held here. If
    /// checkpoints fail, the commit is refused that needs the room, and says why.
    pub(crate) fn wait_for_space(&self) -> Result<()> {
        let began = Instant::now();
        while self.is_crowded() && began.elapsed() < self.space_timeout && !self.is_stopping() {
            self.check()?;
            if self.is_forked() {
                // No checkpoint comes, and nothing that is committed here needs room.
                break;
            }
            interruption::require_none("a checkpoint to make room in the log")?;
            if self.checkpoint_failure.lock().is_some() {
                break;
            }
            let guard = self.space_freed.0.lock();
            // Whoever makes room does not take this lock.
            drop(self.space_freed.1.wait_for(guard, Duration::from_millis(10)));
        }
        Ok(())
    }

    /// Why the log may not get another segment, if it may not.
    pub(crate) fn is_full(&self) -> Option<String> {
        let segments = self.segments.load(Ordering::Relaxed);
        if self.is_starving.load(Ordering::Relaxed) {
            let why = self.checkpoint_failure.lock().clone().unwrap_or_default();
            return Some(format!(
                "the log holds {} MiB, and takes no more of the disk before there is room for the checkpoint that \
                 is due: {why}; make room, and let Options::max_log_bytes leave some from now on",
                (segments * self.segment_bytes) >> 20
            ));
        }
        (segments >= self.max_segments).then(|| {
            let why = match &*self.checkpoint_failure.lock() {
                Some(why) => format!("checkpoints fail: {why}"),
                None => "no checkpoint has released any of it (one waits while a backup is made)".to_owned(),
            };
            format!(
                "the log holds {} MiB, as much as Options::max_log_bytes allows, because {why}; make a checkpoint \
                 possible or raise the limit",
                (segments * self.segment_bytes) >> 20
            )
        })
    }

    #[inline]
    pub(crate) fn horizon(&self) -> u64 {
        self.horizon.load(Ordering::SeqCst)
    }

    pub(crate) fn last(&self) -> u64 {
        self.last.load(Ordering::Acquire)
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Makes every background thread of the log return.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        for s in &self.streams {
            s.kick(true);
        }
        self.wake_preparer();
        self.tails.wake_all();
    }

    pub(crate) fn wake_preparer(&self) {
        *self.segment_wanted.0.lock() = true;
        self.segment_wanted.1.notify_all();
    }

    #[inline]
    pub(crate) fn check(&self) -> Result<()> {
        if self.poisoned.load(Ordering::Acquire) {
            return Err(self.why_poisoned());
        }
        Ok(())
    }

    #[cold]
    fn why_poisoned(&self) -> Error {
        self.why_deposed().unwrap_or_else(|| Error::Poisoned { cause: self.cause() })
    }

    /// The error of a database that has been deposed.
    pub(crate) fn why_deposed(&self) -> Option<Error> {
        self.deposed.lock().map(|(epoch, by)| Error::Deposed { epoch, by })
    }

    /// Another database is the primary, in epoch `by`: nothing is acknowledged here any more.
    pub(crate) fn depose(&self, epoch: u64, by: u64) {
        self.deposed.lock().get_or_insert((epoch, by));
        self.poison(&format!("deposed by the primary of epoch {by}"));
    }

    /// Whether this is a copy of the log, in a process that was forked from the one that opened the
    /// database.
    pub(crate) fn is_forked(&self) -> bool {
        process::number() != self.process
    }

    /// Refuses what writes, or waits for a background thread, in a process that was forked after
    /// the opening: it has a copy of the memory and none of the threads, and the files and their
    /// lock are the other process's, whose commits it would overwrite.
    pub(crate) fn require_own_process(&self) -> Result<()> {
        // What is in memory is right, and can be read: nothing that fails here was applied.
        if self.is_forked() {
            return Err(Error::Forked { process: self.process });
        }
        self.check()
    }

    pub(crate) fn cause(&self) -> String {
        self.poison.lock().clone().unwrap_or_default()
    }

    pub(crate) fn is_poisoned(&self) -> bool {
        self.poisoned.load(Ordering::SeqCst)
    }

    /// After this nothing is acknowledged any more and every waiter learns that it cannot know.
    pub(crate) fn poison(&self, cause: &str) {
        {
            let mut p = self.poison.lock();
            p.get_or_insert_with(|| cause.to_owned());
        }
        self.poisoned.store(true, Ordering::SeqCst);
        self.lagging.lock().clear();
        for s in &self.streams {
            s.wake_all();
        }
        self.tails.wake_all();
    }

    /// Puts a flushed batch in line and moves the horizon as far as all streams allow.
    ///
    /// The counter is read before the streams: a number up to it was taken inside a stream's
    /// critical section, so locking that stream afterwards shows the frame if it is not durable
    /// yet.
    fn advance(&self, batches: impl Iterator<Item = Lagging>) -> Woken {
        let mut lagging = self.lagging.lock();
        lagging.extend(batches);
        let given_out = self.last();
        let mut h = given_out;
        for s in &self.streams {
            if let Some(oldest) = s.oldest_undurable() {
                assert!(oldest > 0, "commits are numbered from 1");
                h = h.min(oldest - 1);
            }
        }
        if self.is_poisoned() {
            // The horizon stays: a failed flush's frames are never durable in this life.
            // Whoever poisoned the log wakes everybody.
            lagging.clear();
            return Woken { threads: 0, wakers: Vec::new(), last: h };
        }
        // Who comes with less than is known already has looked earlier.
        let before = self.horizon.fetch_max(h, Ordering::SeqCst);
        let h = self.horizon();
        assert!(before <= h, "the horizon never falls: {before}, then {h}");
        assert!(h <= self.last(), "commit {h} was not given out: the last one is {given_out}");
        let mut done = Vec::new();
        lagging.retain(|l| {
            if l.last <= h {
                done.push((l.stream, l.batch));
            }
            l.last > h
        });
        // Who waits for a commit of a batch is woken with the last one of that. It may be behind
        // one that nobody asks for on another stream.
        let waits = |l: &&Lagging| self.streams[l.stream].cell(l.batch).has_waiters();
        let asked = lagging.iter().filter(waits).map(|l| l.last).max();
        drop(lagging);
        asked.iter().for_each(|&gsn| self.streams.iter().for_each(|s| s.demand(gsn)));
        let last = self.last();
        let mut wakers = Vec::new();
        let threads = done.iter().map(|&(i, b)| self.streams[i].cell(b).wake_threads(&mut wakers)).sum();
        Woken { threads, wakers, last }
    }

    /// Moves the horizon as far as all streams allow, and wakes who waited for that.
    pub(crate) fn move_horizon(&self) {
        wake(self.advance(std::iter::empty()).wakers);
    }

    /// Wakes the futures that a flush of stream `i` has let go, on its own thread. Wakers are the
    /// caller's code: one may do the next transaction here and wait for it, or drop the last handle
    /// on the database. So the thread steps aside meanwhile, or it would wait for itself.
    fn wake_futures(&self, mut woken: Woken, i: usize) -> Woken {
        let wakers = std::mem::take(&mut woken.wakers);
        if wakers.is_empty() {
            return woken;
        }
        self.streams[i].step_aside(true);
        wake(wakers);
        self.streams[i].step_aside(false);
        woken
    }

    /// Lets those who were just woken come back with their next commits, so that these share the
    /// next flush: a flush costs as much processor time as several commits. Returns as soon as no
    /// more come, at once if nobody was woken.
    fn gather(&self, woken: &Woken, patience: &mut Patience) {
        if woken.threads == 0 || !patience.is_there() {
            return;
        }
        let (began, mut seen) = (Instant::now(), woken.last);
        while seen - woken.last < woken.threads {
            // Gives the processor to one of them if they outnumber the processors, else costs less
            // than a microsecond.
            thread::yield_now();
            let now = self.last();
            if now == seen {
                break;
            }
            seen = now;
        }
        patience.learn(began.elapsed(), seen - woken.last);
    }

    /// Flushes stream `i` once if nobody else does. True if this call did a flush. What came
    /// meanwhile is left to the stream's thread: until that has got a processor more comes in, and
    /// the caller has work of its own.
    pub(crate) fn flush(&self, i: usize) -> Result<bool> {
        let Some(woken) = self.flush_as(i, self.background)? else { return Ok(false) };
        if self.streams[i].is_urgent() && self.background {
            self.streams[i].kick(false);
        }
        wake(woken.wakers);
        Ok(true)
    }

    /// One flush. `None` if there was nothing to do or somebody else does it, else whom it woke,
    /// and which futures are to be.
    fn flush_as(&self, i: usize, guest: bool) -> Result<Option<Woken>> {
        self.require_own_process()?;
        let Some(batch) = self.streams[i].begin_flush(self.single, guest) else { return Ok(None) };
        PoisonIfPanicking::during(self, "a flush", || self.write_out(i, batch)).map(Some)
    }

    /// Makes a batch durable. An error is one that poisons.
    fn write_out(&self, i: usize, batch: Batch) -> Result<Woken> {
        let started = Instant::now();
        let done = self.streams[i].write_batch(&batch, self.defect);
        // Nobody has been told of these commits yet.
        let done = done.and_then(|()| batch.begins().map_or(Ok(()), |number| self.state_begun(i, number)));
        if let Err(e) = done {
            self.poison(&e.to_string());
            // The batch never ends, so the horizon can never pass it.
            return Err(e);
        }
        let c = &self.counters;
        c.flushes.fetch_add(1, Ordering::Relaxed);
        c.flushed_bytes.fetch_add(batch.bytes(), Ordering::Relaxed);
        c.frames.fetch_add(batch.frames, Ordering::Relaxed);
        c.max_batch.fetch_max(batch.frames, Ordering::Relaxed);
        c.flush_ns.fetch_add(started.elapsed().as_nanos() as u64, Ordering::Relaxed);
        self.streams[i].end_flush();
        let done = Stream::batches(&batch).into_iter();
        let mut woken = self.advance(done.map(|(last, batch)| Lagging { last, stream: i, batch }));
        self.tails.wake_threads(&mut woken.wakers);
        self.streams[i].recycle_buffers(batch);
        Ok(woken)
    }

    /// Stores a manifest which says that there are commits in a segment, the first of which have
    /// just been made durable: so an older copy of the log, in which it was only ready, is told
    /// from it. An error is one that poisons.
    fn state_begun(&self, i: usize, number: u64) -> Result<()> {
        self.streams[i].begun(number);
        if has_defect!(self.defect, UsesBeforeManifest | BeginsWithoutManifest) {
            return Ok(());
        }
        let done = match self.register.state(self, None, false) {
            Ok(_) => Ok(()),
            // Commits in this segment are not refused any more, and nothing is lost: the manifest
            // on the disk names it. The evidence comes when there is room, or a file can be opened.
            Err(e) if (e.is_full_disk() || e.is_for_want_of_files()) && !self.is_poisoned() => Ok(()),
            Err(e) => {
                self.poison(&e.to_string());
                Err(e)
            }
        };
        // One that was ready is in use.
        self.wake_preparer();
        done
    }

    /// Makes everything up to the present durable.
    pub(crate) fn flush_all(&self) -> Result<()> {
        let target = self.last();
        while self.horizon() < target {
            let mut did = false;
            for i in 0..self.streams.len() {
                did |= self.flush(i)?;
            }
            if !did {
                self.check()?;
                if self.horizon() < target {
                    thread::yield_now();
                    self.move_horizon();
                }
            }
        }
        Ok(())
    }

    /// Flushes as the device gets free until told to stop; the body of a stream's thread.
    pub(crate) fn run_flusher(&self, i: usize, lazy: Duration) {
        let mut patience = Patience::default();
        loop {
            let stop = self.is_stopping();
            match self.flush_as(i, false) {
                Ok(Some(woken)) => {
                    self.gather(&self.wake_futures(woken, i), &mut patience);
                    if self.streams[i].is_urgent() {
                        continue;
                    }
                }
                Ok(None) => {}
                Err(_) => break,
            }
            if stop {
                break;
            }
            self.streams[i].wait_for_work(lazy);
        }
        self.streams[i].retire();
    }
}
