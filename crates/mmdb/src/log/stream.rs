//! A stream: one directory of segments, one buffer, one flush at a time.

use super::cell::{Cell, Cells};
use super::frame::{self, frame_len};
use super::mark::Mark;
use super::preparer::Problem;
use super::segment::{self, BLOCK, Header, Segment};
use super::{HeldBack, Log};
use crate::cache_line::CacheLine;
use crate::error::{Error, Result};
use crate::interruption;
use crate::manifest::Inventory;
use crate::medium::Medium;
use crate::memory::{Budget, Gauge};
use crate::sabotage::{Defect, has_defect};
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{Condvar, Mutex, MutexGuard};
use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Segments kept ready ahead of the writer.
const READY: usize = 2;
/// New transactions wait while this much is not flushed yet, bytes.
const MAX_PENDING: u64 = 16 << 20;

/// What identifies a stream and its place on the medium.
pub(crate) struct Place {
    pub(crate) medium: Arc<dyn Medium>,
    pub(crate) dir: PathBuf,
    pub(crate) index: u32,
    pub(crate) epoch: u32,
    pub(crate) salt: u64,
    pub(crate) segment_size: u64,
    /// What the directory's mark says as long as it is the one that was opened.
    pub(crate) mark: Mark,
    pub(crate) budget: Arc<Budget>,
}

/// A full segment that may still be needed for recovery.
#[derive(Clone, Debug)]
pub(crate) struct Closed {
    pub(crate) number: u64,
    pub(crate) max_gsn: u64,
}

/// Frames for one place of one segment, and who waits for them.
struct Chunk {
    segment: Segment,
    at: u64,
    bytes: Vec<u8>,
    first: u64,
    last: u64,
    frames: u64,
    batch: u32,
}

/// What one flush takes to the medium.
pub(crate) struct Batch {
    chunks: Vec<Chunk>,
    pub(crate) frames: u64,
}

impl Batch {
    /// The last segment of which these are the first frames.
    pub(crate) fn begins(&self) -> Option<u64> {
        self.chunks.iter().filter(|c| c.at == BLOCK as u64).map(|c| c.segment.number).max()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.chunks.iter().map(|c| c.bytes.len() as u64).sum()
    }
}

struct State {
    segment: Option<Segment>,
    /// Where `buf` will stand in the segment.
    at: u64,
    buf: Vec<u8>,
    /// First and last commit in `buf`; no frames if `frames` is 0.
    first: u64,
    last: u64,
    frames: u64,
    /// Number of the batch that `buf` belongs to.
    batch: u32,
    sealed: VecDeque<Chunk>,
    /// First commit of the flush under way and its last batch.
    inflight: Option<(u64, u32)>,
    /// Last commit that a flush took from here.
    taken: u64,
    flushing: bool,
    urgent: bool,
    kicked: bool,
    idle: bool,
    /// The stream's thread runs wakers: guests need not wait for it.
    aside: bool,
    ready: VecDeque<Segment>,
    next_number: u64,
    /// Those from this number on may not be used yet: no manifest names them.
    unnamed: u64,
    /// The last segment that was flushed into; 0 for none.
    begun: u64,
    closed: Vec<Closed>,
    /// Segments that were ever closed here, those before the opening that were needed then
    /// included.
    rolled: u64,
    free: Vec<String>,
    /// Segments that recovery does not need any more, and tails do; rising.
    kept: Vec<Closed>,
    /// The last commit whose frame may be gone: in a segment that was released.
    released: u64,
    /// Why no segment could be got ready.
    problem: Option<Problem>,
    /// After a problem: another attempt is worth while.
    wanted: bool,
    /// Attempts to get a segment ready that have ended.
    attempts: u64,
    buffers: Vec<Vec<u8>>,
    /// Not flushed yet, bytes.
    pending: u64,
}

/// What is to be done to get a segment ready.
enum Step {
    /// The first one is made, and no manifest names it.
    Name,
    /// One of this number, out of the old one of this name.
    Make(u64, Option<String>),
    Nothing,
}

impl State {
    /// A segment is ready, and may be used.
    fn is_ready(&self) -> bool {
        self.ready.front().is_some_and(|s| s.number < self.unnamed)
    }

    /// Nothing was committed since the opening, which found log that is needed and nothing to make
    /// another segment of: each opening would leave one segment more, until the disk is full.
    fn is_untouched(&self) -> bool {
        let is_unnamed = !self.ready.is_empty() && !self.is_ready();
        let is_used = self.segment.is_some() || self.wanted;
        !is_used && !self.closed.is_empty() && self.free.is_empty() && !is_unnamed
    }

    /// Takes from what is kept for tails what they do not ask for any more, who have every commit
    /// up to `done`, and the oldest of the rest beyond `room` segments.
    fn let_go(&mut self, done: Option<u64>, room: usize) -> Vec<String> {
        let asked = self.kept.iter().position(|c| done.is_some_and(|done| c.max_gsn > done));
        let from = asked.map_or(self.kept.len(), |at| at.max(self.kept.len().saturating_sub(room)));
        let kept = self.kept.split_off(from);
        let gone = std::mem::replace(&mut self.kept, kept);
        let released = gone.iter().map(|c| c.max_gsn).max();
        self.released = self.released.max(released.unwrap_or(0));
        gone.into_iter().map(|c| segment::name(c.number)).collect()
    }

    fn next_step(&mut self, at_most: usize) -> Step {
        if !self.is_ready() && !self.ready.is_empty() {
            Step::Name
        } else if self.ready.len() < at_most {
            Step::Make(self.next_number, self.free.pop())
        } else {
            Step::Nothing
        }
    }
}

pub(crate) struct Stream {
    place: Place,
    /// Held while a segment is got ready, so that its number is not taken meanwhile. Locked before
    /// `state` and the register.
    maker: Mutex<()>,
    /// Bytes of all buffers, those under way to the medium too.
    gauge: Gauge,
    state: CacheLine<Mutex<State>>,
    cells: Cells,
    work: Condvar,
    drained: Condvar,
    /// More than [`MAX_PENDING`] is not flushed yet. Written when that changes, for it is read by
    /// every transaction.
    behind: AtomicBool,
    /// A flush is under way or asked for: polling need not ask again.
    busy: AtomicBool,
}

impl Stream {
    /// A stream that continues after `closed` and writes its first segment as number `next`.
    pub(crate) fn new(place: Place, closed: Vec<Closed>, free: Vec<String>, next: u64) -> Stream {
        Stream {
            gauge: Gauge::new(&place.budget, 0),
            place,
            maker: Mutex::new(()),
            state: CacheLine(Mutex::new(State {
                segment: None,
                at: 0,
                buf: Vec::new(),
                first: 0,
                last: 0,
                frames: 0,
                batch: 0,
                sealed: VecDeque::new(),
                inflight: None,
                taken: 0,
                flushing: false,
                urgent: false,
                kicked: false,
                // Until its thread first sleeps, guests may work.
                idle: true,
                aside: false,
                ready: VecDeque::new(),
                next_number: next,
                unnamed: next,
                begun: closed.iter().map(|c| c.number).max().unwrap_or(0),
                rolled: closed.len() as u64,
                closed,
                free,
                kept: Vec::new(),
                released: 0,
                problem: None,
                wanted: false,
                attempts: 0,
                buffers: Vec::new(),
                pending: 0,
            })),
            cells: Cells::new(),
            work: Condvar::new(),
            drained: Condvar::new(),
            behind: AtomicBool::new(false),
            busy: AtomicBool::new(false),
        }
    }

    /// Largest body a frame can have here, bytes.
    pub(crate) fn max_body(&self) -> u64 {
        self.place.segment_size - BLOCK as u64 - frame::HEAD as u64 - frame::ALIGN as u64
    }

    pub(crate) fn dir(&self) -> &PathBuf {
        &self.place.dir
    }

    pub(crate) fn medium(&self) -> &dyn Medium {
        &*self.place.medium
    }

    /// Frames of commits up to `gsn` may be gone, wherever they were.
    pub(crate) fn forget_frames(&self, gsn: u64) {
        let mut st = self.state.lock();
        st.released = st.released.max(gsn);
    }

    /// The last commit whose frame may be gone.
    pub(crate) fn released(&self) -> u64 {
        self.state.lock().released
    }

    /// The segment that has the first frame here from commit `gsn` on, or will have it.
    pub(crate) fn segment_of(&self, gsn: u64) -> Option<u64> {
        let st = self.state.lock();
        let full = st.kept.iter().chain(&st.closed).find(|c| c.max_gsn >= gsn).map(|c| c.number);
        full.or(st.segment.as_ref().map(|s| s.number))
    }

    /// Bytes of log that are kept for tails only.
    pub(crate) fn kept(&self) -> u64 {
        self.state.lock().kept.len() as u64 * self.place.segment_size
    }

    pub(crate) fn pending(&self) -> u64 {
        self.state.lock().pending
    }

    /// Puts a frame into the buffer under the next commit number, which it returns with the batch's
    /// number.
    pub(crate) fn append(&self, log: &Log, body: &[u8], body_crc: u32, urgent: bool) -> Result<(u64, u32)> {
        let len = frame_len(body.len()) as u64;
        if body.len() as u64 > self.max_body() {
            return Err(Error::TransactionTooLarge { bytes: body.len() as u64, max: self.max_body() });
        }
        let mut st = self.state.lock();
        log.check()?;
        let fits = |st: &State| {
            st.segment.is_some()
                && (st.at + st.buf.len() as u64 + len).next_multiple_of(BLOCK as u64)
                    <= self.place.segment_size
        };
        while !fits(&st) {
            if let Some(why) = log.is_full() {
                return Err(self.full(&st, why));
            }
            let believed = has_defect!(log.defect, UsesBeforeManifest) && !st.ready.is_empty();
            if !st.is_ready() && !believed {
                st = self.await_segment(log, st)?;
                continue;
            }
            self.roll(&mut st);
            log.segments.fetch_add(1, Ordering::Relaxed);
        }
        let Some(seed) = st.segment.as_ref().map(|s| s.seed) else {
            return Err(Error::Internal { what: "a stream has no segment after it got one".into() });
        };
        let offset = st.at + st.buf.len() as u64;
        assert!(
            offset >= BLOCK as u64 && offset + len <= self.place.segment_size,
            "a frame of {len} bytes at {offset} lies in its segment"
        );
        // From here to the end nothing can fail: a number once taken has its frame.
        let gsn = log.last.fetch_add(1, Ordering::AcqRel) + 1;
        let horizon = log.horizon();
        assert!(horizon < gsn, "commit {gsn} cannot be durable before it is logged (horizon {horizon})");
        assert!(gsn > st.last, "numbers rise along a stream: {gsn} comes after {}", st.last);
        assert!((st.frames == 0) == st.buf.is_empty(), "a buffer holds what is counted in it");
        let State { buf, .. } = &mut *st;
        let before = buf.capacity();
        frame::put_frame(buf, seed, offset, gsn, horizon, body, body_crc);
        if buf.capacity() != before {
            self.gauge.add(buf.capacity() as i64 - before as i64);
        }
        if st.frames == 0 {
            st.first = gsn;
        }
        st.last = gsn;
        st.frames += 1;
        st.urgent |= urgent;
        st.pending += len;
        if st.pending > MAX_PENDING {
            self.behind.store(true, Ordering::Relaxed);
        }
        let batch = st.batch;
        if log.single {
            self.seal(&mut st);
        }
        Ok((gsn, batch))
    }

    /// Gets a segment ready: on this thread without background threads, else by waiting for the
    /// preparer.
    fn await_segment<'a>(
        &'a self,
        log: &Log,
        mut st: MutexGuard<'a, State>,
    ) -> Result<MutexGuard<'a, State>> {
        if !log.background {
            drop(st);
            self.step(log, 1, &|| true).map_err(|e| self.full(&self.state.lock(), e.to_string()))?;
            return Ok(self.state.lock());
        }
        if let Some(p) = st.problem.as_ref().filter(|p| !p.is_over()) {
            return Err(self.full(&st, p.why.clone()));
        }
        log.require_own_process()?;
        if log.is_stopping() {
            return Err(Error::Closed);
        }
        st.wanted = true;
        let attempts = st.attempts;
        // The preparer takes this lock to deliver, so it must be told without it.
        drop(st);
        log.wake_preparer();
        let mut st = self.state.lock();
        // Whatever came while the lock was free has notified nobody.
        if !st.is_ready() && st.attempts == attempts && !log.is_poisoned() {
            st = self.drained.wait_for(st, Duration::from_millis(100));
        }
        match &st.problem {
            Some(p) if !st.is_ready() && st.attempts != attempts => Err(self.full(&st, p.why.clone())),
            _ => Ok(st),
        }
    }

    fn full(&self, st: &State, cause: String) -> Error {
        let kept = (st.kept.len() as u64 * self.place.segment_size).div_ceil(1 << 20);
        let cause = match kept {
            0 => cause,
            _ => format!(
                "{cause}; {kept} MiB of log are kept for standbys that are behind: forget those that are gone, or lower \
                 Options::tail_log_floor_bytes or tail_log_bytes"
            ),
        };
        Error::LogFull { dir: self.place.dir.clone(), cause }
    }

    /// Where the disk has no room for another segment: makes the oldest that is kept for tails one
    /// to be used again. One that nobody asks for any more goes at once, and another one where no
    /// checkpoint can release log instead, and there are more than are kept in any case. False if
    /// there is none.
    fn reuse_kept(&self, log: &Log) -> bool {
        // Locked before the stream by nobody.
        let (done, expects) = (log.tails.done(), log.expects_checkpoints());
        let floor = log.tails.room(self.place.segment_size, log.streams.len(), true);
        let mut st = self.state.lock();
        let Some(oldest) = st.kept.first() else { return false };
        let is_asked = done.is_some_and(|done| oldest.max_gsn > done);
        let may_wait = expects && !st.closed.is_empty();
        if is_asked && (may_wait || st.kept.len() <= floor) {
            return false;
        }
        let oldest = st.kept.remove(0);
        st.released = st.released.max(oldest.max_gsn);
        st.free.push(segment::name(oldest.number));
        true
    }

    /// A checkpoint lacks room on this stream's disk: gives it that of segments which no tail asks
    /// for any more, and of half of the others that are kept for tails, the oldest first, as far as
    /// there are more than are kept in any case; and of those that are there to be used again,
    /// where commits get none of them before a checkpoint has succeeded.
    pub(crate) fn make_room(&self, log: &Log) -> Result<()> {
        let done = log.tails.done();
        let floor = log.tails.room(self.place.segment_size, log.streams.len(), true);
        let mut st = self.state.lock();
        let room = floor.max(st.kept.len() / 2);
        let mut gone = st.let_go(done, room);
        if log.has_checkpoints() {
            gone.append(&mut st.free);
        }
        drop(st);
        self.remove(gone)
    }

    fn remove(&self, names: Vec<String>) -> Result<()> {
        for name in names {
            let path = self.place.dir.join(name);
            self.place.medium.remove(&path).map_err(Error::io("remove", &path))?;
        }
        Ok(())
    }

    fn header(&self, number: u64, used: bool) -> Header {
        Header { epoch: self.place.epoch, stream: self.place.index, number, used }
    }

    /// A segment is made by its name: if the directory was moved away meanwhile, there may be
    /// another database's in its place.
    fn require_own_directory(&self) -> Result<()> {
        let p = &self.place;
        if Mark::load(&*p.medium, &p.dir)? == Some(p.mark) {
            return Ok(());
        }
        let what = "the log that was opened here is not here any more: the directory was replaced or emptied";
        Err(Error::directory(&p.dir, what))
    }

    /// Refuses a segment whose room checkpoints need, while there is log that they would release:
    /// without the room they never could, and the disk would be the log's for good.
    fn leave_room(&self, log: &Log) -> Result<()> {
        let p = &self.place;
        if !self.has_closed() || !log.expects_checkpoints() {
            return Ok(());
        }
        let images = log.images_need(p.index as usize);
        // Where nobody knows it, the attempt tells.
        let Ok(Some(room)) = p.medium.room(&p.dir) else { return Ok(()) };
        if images == 0 || room >= images.saturating_add(p.segment_size) {
            return Ok(());
        }
        let what =
            format!("the disk has {room} bytes left, and the images of the next checkpoints need {images}");
        Err(Error::io("prepare a segment in", &p.dir)(io::Error::new(io::ErrorKind::StorageFull, what)))
    }

    fn make(&self, number: u64, old: Option<&str>, is_wanted: &dyn Fn() -> bool) -> Result<Segment> {
        let (p, header) = (&self.place, self.header(number, false));
        // If it cannot be told, it is taken for its own: a disk that fails has not replaced it.
        let is_another = |there: Option<Mark>| there != Some(p.mark);
        let is_own_directory = || !Mark::load(&*p.medium, &p.dir).is_ok_and(is_another);
        let ask = segment::Questions { is_wanted, is_own_directory: &is_own_directory };
        segment::prepare(&*p.medium, &p.dir, header, p.salt, p.segment_size, old, ask)
    }

    /// Does the next step towards `at_most` segments that are ready. False if there is none to be
    /// done.
    fn step(&self, log: &Log, at_most: usize, is_wanted: &dyn Fn() -> bool) -> Result<bool> {
        log.require_own_process()?;
        let _held = HeldBack::begin();
        let _one = self.maker.lock();
        let step = self.state.lock().next_step(at_most);
        match step {
            Step::Nothing => return Ok(false),
            Step::Name if has_defect!(log.defect, UsesBeforeManifest) => return Ok(false),
            Step::Name => drop(log.register.state(log, None, false)?),
            Step::Make(number, old) => {
                if let Err(e) = self.require_own_directory() {
                    // Nothing was done to it: it is there for the next attempt.
                    self.state.lock().free.extend(old);
                    return Err(e);
                }
                let room = if old.is_none() { self.leave_room(log) } else { Ok(()) };
                let made = match room.and_then(|()| self.make(number, old.as_deref(), is_wanted)) {
                    // The next step makes it of that one.
                    Err(e) if e.is_full_disk() && self.reuse_kept(log) => return Ok(true),
                    made => made?,
                };
                let mut st = self.state.lock();
                assert_eq!(st.next_number, number, "one segment is made at a time");
                assert!(st.ready.len() < at_most, "no more segments are ready than were to be made");
                st.next_number = number + 1;
                st.ready.push_back(made);
            }
        }
        Ok(true)
    }

    /// Gets segments ready until there are enough, or the log stops. After a failure only a commit
    /// that needs a segment, or the use of one that was ready, is worth another attempt. While a
    /// checkpoint lacks room none is made: it would take what room there will be.
    pub(crate) fn prepare(&self, log: &Log) {
        let is_worth = |st: &State| st.problem.as_ref().is_none_or(|p| st.wanted && p.is_over());
        let may_try =
            |st: &State| is_worth(st) && !st.is_untouched() && !log.is_starving.load(Ordering::Relaxed);
        while !log.is_stopping() && may_try(&self.state.lock()) {
            let done = self.step(log, READY, &|| !log.is_stopping());
            let mut st = self.state.lock();
            match done {
                Ok(true) => {
                    st.problem = None;
                    log.lacks_room.store(false, Ordering::Relaxed);
                }
                Ok(false) => return,
                Err(e) => {
                    log.lacks_room.store(e.is_full_disk(), Ordering::Relaxed);
                    st.problem = Some(Problem::after(st.problem.as_ref(), e.to_string()));
                    st.wanted = false;
                }
            }
            st.attempts += 1;
            self.drained.notify_all();
            drop(st);
            // The next step may take seconds.
            log.register.state_progress(log);
        }
    }

    /// The manifest on the disk names the segments before `next`.
    pub(crate) fn named(&self, next: u64) {
        let mut st = self.state.lock();
        assert!(next <= st.next_number, "segment {next} is not made, and cannot be named");
        st.unnamed = st.unnamed.max(next);
    }

    /// There are durable frames in segment `number`.
    pub(crate) fn begun(&self, number: u64) {
        let mut st = self.state.lock();
        assert!(number < st.next_number, "segment {number} was written before it was made");
        assert!(number >= st.begun, "segments begin in order: {number} after {}", st.begun);
        st.begun = number;
    }

    /// How far this stream has come, bytes; see [`Log::position`].
    pub(crate) fn position(&self) -> u64 {
        let st = self.state.lock();
        st.rolled * self.place.segment_size + if st.segment.is_some() { st.at - BLOCK as u64 } else { 0 }
    }

    /// Whether segments are full and not released.
    pub(crate) fn has_closed(&self) -> bool {
        !self.state.lock().closed.is_empty()
    }

    /// Ends the current chunk; what follows begins at a new block.
    fn seal(&self, st: &mut State) {
        if st.frames == 0 {
            return;
        }
        let Some(segment) = st.segment.clone() else { return };
        let spare = st.buffers.pop().unwrap_or_default();
        let mut bytes = std::mem::replace(&mut st.buf, spare);
        let before = bytes.capacity();
        bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
        self.gauge.add(bytes.capacity() as i64 - before as i64);
        let at = st.at;
        st.at += bytes.len() as u64;
        assert!(
            at.is_multiple_of(BLOCK as u64) && st.at <= self.place.segment_size,
            "a flush of {} bytes at {at} is blocks of its segment",
            bytes.len()
        );
        let (first, last, frames, batch) = (st.first, st.last, st.frames, st.batch);
        assert!(
            first > 0 && frames <= last - first + 1,
            "{frames} frames have numbers of their own from {first} to {last}"
        );
        let behind = st.sealed.back().map_or(st.taken, |chunk| chunk.last);
        assert!(first > behind, "what follows commit {behind} on a stream begins with {first}");
        let chunk = Chunk { segment, at, bytes, first, last, frames, batch };
        st.batch = batch.wrapping_add(1);
        st.frames = 0;
        st.sealed.push_back(chunk);
    }

    /// Goes on in the next segment, which must be ready.
    fn roll(&self, st: &mut State) {
        self.seal(st);
        assert!(st.buf.is_empty() && st.frames == 0, "no frame continues in another segment");
        if let Some(old) = st.segment.take() {
            if let Some(before) = st.closed.last() {
                assert!(
                    before.number < old.number && before.max_gsn < st.last,
                    "segments are closed in order: {} after {}",
                    old.number,
                    before.number
                );
            }
            st.closed.push(Closed { number: old.number, max_gsn: st.last });
            st.rolled += 1;
        }
        let next = st.ready.pop_front();
        if let (Some(next), Some(before)) = (&next, st.closed.last()) {
            assert!(next.number > before.number, "segment {} was closed already", next.number);
            assert!(next.number > st.begun, "segment {} was begun already", next.number);
        }
        st.segment = next;
        st.wanted = true;
        st.at = BLOCK as u64;
    }

    /// Oldest commit here that is not durable.
    pub(crate) fn oldest_undurable(&self) -> Option<u64> {
        let st = self.state.lock();
        if let Some((first, _)) = &st.inflight {
            return Some(*first);
        }
        if let Some(c) = st.sealed.front() {
            return Some(c.first);
        }
        (st.frames > 0).then_some(st.first)
    }

    /// True if a commit up to `gsn` is here and not durable.
    pub(crate) fn needs_flush(&self, gsn: u64) -> bool {
        self.oldest_undurable().is_some_and(|o| o <= gsn)
    }

    pub(crate) fn is_urgent(&self) -> bool {
        self.state.lock().urgent
    }

    /// Where those sleep who wait for this batch.
    #[inline]
    pub(crate) fn cell(&self, batch: u32) -> &Cell {
        self.cells.of(batch)
    }

    /// The batch with which what is undurable here up to `gsn` becomes durable.
    pub(crate) fn batch_of(&self, gsn: u64) -> Option<u32> {
        let st = self.state.lock();
        if st.frames > 0 && st.first <= gsn {
            return Some(st.batch);
        }
        if let Some(c) = st.sealed.iter().rev().find(|c| c.first <= gsn) {
            return Some(c.batch);
        }
        st.inflight.filter(|(first, _)| *first <= gsn).map(|(_, batch)| batch)
    }

    /// Takes what is there, if nobody is flushing. With `single`, one chunk only. A `guest` is not
    /// the stream's own thread: while that one is awake it goes on by itself, which saves waking it
    /// for every batch.
    pub(crate) fn begin_flush(&self, single: bool, guest: bool) -> Option<Batch> {
        let mut st = self.state.lock();
        if st.flushing {
            return None;
        }
        if guest && !st.aside && (!st.idle || st.kicked) {
            // It may be on its way to sleep.
            st.kicked = true;
            return None;
        }
        self.seal(&mut st);
        let n = if single { st.sealed.len().min(1) } else { st.sealed.len() };
        let chunks: Vec<Chunk> = st.sealed.drain(..n).collect();
        let (Some(first), Some(last)) = (chunks.first(), chunks.last()) else {
            self.busy.store(false, Ordering::Relaxed);
            return None;
        };
        let batch_first = first.first;
        let frames = chunks.iter().map(|c| c.frames).sum();
        assert!(st.inflight.is_none(), "one flush at a time");
        assert!(first.first > st.taken, "commit {} was flushed already", first.first);
        st.taken = last.last;
        let last_batch = last.batch;
        if st.sealed.is_empty() {
            st.urgent = false;
        }
        st.flushing = true;
        if !guest {
            st.kicked = false;
        }
        st.inflight = Some((batch_first, last_batch));
        self.busy.store(true, Ordering::Relaxed);
        Some(Batch { chunks, frames })
    }

    /// Whether what is about to be written is what was sealed: whole blocks within the segment, and
    /// the frame that the chunk begins with at the place that its checksum is seeded with.
    fn require_place(&self, c: &Chunk) {
        let (at, len) = (c.at, c.bytes.len() as u64);
        assert!(
            at >= BLOCK as u64 && at.is_multiple_of(BLOCK as u64) && len.is_multiple_of(BLOCK as u64),
            "{len} bytes at {at} are whole blocks behind the header"
        );
        assert!(at + len <= self.place.segment_size, "{len} bytes at {at} are within the segment");
        let first = frame::head(&c.bytes, at, c.segment.seed);
        assert_eq!(first, Some(c.first), "the frame at {at} is that of the chunk's first commit");
    }

    /// Writes a batch and makes it durable: one write per chunk, one sync per segment.
    pub(crate) fn write_batch(&self, batch: &Batch, defect: Defect) -> Result<()> {
        for (i, c) in batch.chunks.iter().enumerate() {
            self.require_place(c);
            if c.at == BLOCK as u64 {
                // The segment's first frames: the header says from now on that there are some. It
                // goes first, so that a killed process leaves no frames behind a header that denies
                // them.
                let header = segment::header_block(self.header(c.segment.number, true));
                c.segment.file.write_at(0, &header).map_err(Error::io("write", &c.segment.path))?;
            }
            c.segment.file.write_at(c.at, &c.bytes).map_err(Error::io("write", &c.segment.path))?;
            let next_same = batch.chunks.get(i + 1).is_some_and(|n| n.segment.number == c.segment.number);
            let is_last = i + 1 == batch.chunks.len();
            let forgotten = has_defect!(defect, NoSync) || (!is_last && has_defect!(defect, LastSegmentOnly));
            if !next_same && !forgotten {
                c.segment.file.sync().map_err(Error::io("sync", &c.segment.path))?;
                self.require_name(&c.segment)?;
            }
        }
        Ok(())
    }

    /// Refuses a segment that was deleted while it was open: the system takes what is written to
    /// it as ever, and no opening would find it. After the sync, so that whatever is acknowledged
    /// had its file until then.
    fn require_name(&self, segment: &Segment) -> Result<()> {
        if segment.file.has_name().map_err(Error::io("look at", &segment.path))? {
            return Ok(());
        }
        let what = format!(
            "the log was deleted while the database was open: {} has no name any more, and what was committed last is \
             in no file that an opening would find",
            segment::name(segment.number)
        );
        Err(Error::directory(&self.place.dir, what))
    }

    /// Marks the batch under way as durable here.
    pub(crate) fn end_flush(&self) {
        let mut st = self.state.lock();
        assert!(st.flushing && st.inflight.is_some(), "a flush that ends was begun");
        st.flushing = false;
        st.inflight = None;
        self.busy.store(st.urgent, Ordering::Relaxed);
        // Padding was not counted when the frames came in, so recount from what is left.
        let left: u64 = st.buf.len() as u64 + st.sealed.iter().map(|c| c.bytes.len() as u64).sum::<u64>();
        st.pending = left;
        if left <= MAX_PENDING && self.behind.swap(false, Ordering::Relaxed) {
            self.drained.notify_all();
        }
    }

    /// Keeps a batch's buffers for later.
    pub(crate) fn recycle_buffers(&self, batch: Batch) {
        let mut st = self.state.lock();
        for mut c in batch.chunks {
            if st.buffers.len() < 3 && c.bytes.capacity() < 4 << 20 {
                c.bytes.clear();
                st.buffers.push(c.bytes);
            } else {
                self.gauge.add(-(c.bytes.capacity() as i64));
            }
        }
    }

    /// The batches of a flush, each with the last commit it stands for.
    pub(crate) fn batches(flushed: &Batch) -> Vec<(u64, u32)> {
        flushed.chunks.iter().map(|c| (c.last, c.batch)).collect()
    }

    /// Asks the stream's thread for a flush. `force` wakes it even if it is told already.
    pub(crate) fn kick(&self, force: bool) {
        self.busy.store(true, Ordering::Relaxed);
        let mut st = self.state.lock();
        st.kicked = true;
        if st.idle || force {
            self.work.notify_one();
        }
    }

    /// Sees to it that everything here up to `gsn` gets flushed, lazy commits too. A flush under
    /// way that does not hold them must be followed by another one, whoever does it: a kick may
    /// reach the stream's thread while a guest still flushes, find nothing to do and be forgotten.
    pub(crate) fn demand(&self, gsn: u64) {
        let mut st = self.state.lock();
        let sealed = st.sealed.front().is_some_and(|c| c.first <= gsn);
        if !sealed && (st.frames == 0 || st.first > gsn) {
            return;
        }
        st.urgent = true;
        self.busy.store(true, Ordering::Relaxed);
        if !st.flushing {
            st.kicked = true;
            if st.idle {
                self.work.notify_one();
            }
        }
    }

    /// Lets a poller skip the lock: true if a flush is on its way.
    pub(crate) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Relaxed)
    }

    /// The stream's own thread ends: from now on guests do the work.
    pub(crate) fn retire(&self) {
        let mut st = self.state.lock();
        st.idle = true;
        st.kicked = false;
        self.busy.store(false, Ordering::Relaxed);
    }

    /// The stream's thread begins or ends to do something else than flush, for as long as that
    /// takes. What it was asked for meanwhile, and nobody has done, it does afterwards.
    pub(crate) fn step_aside(&self, aside: bool) {
        self.state.lock().aside = aside;
    }

    pub(crate) fn wait_for_work(&self, at_most: Duration) {
        let mut st = self.state.lock();
        if !st.kicked {
            st.idle = true;
            st = self.work.wait_for(st, at_most);
            st.idle = false;
        }
        st.kicked = false;
    }

    /// After poisoning: everybody who waits here looks again.
    pub(crate) fn wake_all(&self) {
        // Whoever is about to look at `drained` or `work` holds this.
        drop(self.state.lock());
        self.cells.all().for_each(super::cell::Cell::resolve);
        self.drained.notify_all();
        self.work.notify_all();
    }

    /// Holds a new transaction back while the device is behind. No locks are held here.
    pub(crate) fn throttle(&self, log: &Log) -> Result<()> {
        while self.behind.load(Ordering::Relaxed) {
            log.check()?;
            if log.is_forked() {
                // Nobody catches up here, and nothing comes behind it.
                return Ok(());
            }
            if !log.background {
                return log.flush_all();
            }
            interruption::require_none("a flush")?;
            self.kick(false);
            let st = self.state.lock();
            if st.pending > MAX_PENDING {
                drop(self.drained.wait_for(st, Duration::from_millis(20)));
            }
        }
        Ok(())
    }

    /// What a manifest has to state of the segments here, when its checkpoint has every commit up
    /// to `g0`.
    pub(crate) fn inventory(&self, g0: u64) -> Inventory {
        let st = self.state.lock();
        let mut segments: Vec<u64> = st.closed.iter().filter(|c| c.max_gsn > g0).map(|c| c.number).collect();
        segments.extend(st.segment.as_ref().map(|s| s.number));
        segments.extend(st.ready.iter().map(|s| s.number));
        segments.sort_unstable();
        assert!(segments.is_sorted_by(|a, b| a < b), "no segment is named twice: {segments:?}");
        assert!(segments.last().is_none_or(|&last| last < st.next_number), "{segments:?} were made");
        assert!(st.begun < st.next_number, "segment {} was made", st.begun);
        Inventory { next: st.next_number, begun: st.begun, segments }
    }

    /// Releases segments whose commits are all at or below `upto`: kept for reuse or removed.
    /// Returns how many. Those that the manifest on the disk names, which are `stated`, stay: one
    /// may have been closed since.
    pub(crate) fn recycle(&self, log: &Log, upto: u64, stated: &[u64]) -> Result<usize> {
        let mut gone = Vec::new();
        let is_full = log.lacks_room.load(Ordering::Relaxed);
        // Locked before the stream by nobody.
        let done = log.tails.done();
        let forgotten = has_defect!(log.defect, ForgetsTails);
        let room = log.tails.room(self.place.segment_size, log.streams.len(), is_full);
        let room = if forgotten { 0 } else { room };
        let n = {
            let mut st = self.state.lock();
            let superfluous = |c: &Closed| c.max_gsn <= upto && !stated.contains(&c.number);
            let (old, kept): (Vec<_>, Vec<_>) = st.closed.drain(..).partition(superfluous);
            st.closed = kept;
            let n = old.len();
            let before = log.segments.fetch_sub(n as u64, Ordering::Relaxed);
            assert!(before >= n as u64, "{n} segments of {before} are released");
            let current = st.segment.as_ref().map(|segment| segment.number);
            assert!(old.iter().all(|c| Some(c.number) != current), "the segment in use stays");
            if n > 0 {
                // What was missing may be there now.
                st.wanted = true;
                st.problem.iter_mut().for_each(Problem::forget_pause);
            }
            // What tails still read is kept, the newest of it, as far as there is room.
            st.kept.extend(old);
            st.kept.sort_unstable_by_key(|c| c.number);
            for name in st.let_go(done, room) {
                if st.free.len() + st.ready.len() < 2 * READY {
                    st.free.push(name);
                } else {
                    gone.push(name);
                }
            }
            n
        };
        self.remove(gone)?;
        if n > 0 {
            log.wake_preparer();
            log.space_freed.1.notify_all();
        }
        Ok(n)
    }

    /// Bytes of all segments of these streams that recovery needs. One stream after the other would
    /// add up what never was at one time: more than there may be, where a checkpoint comes between.
    /// Nobody else locks two streams, so whatever the order is, nobody waits in a circle.
    pub(crate) fn bytes_of(streams: &[Stream]) -> u64 {
        let held: Vec<MutexGuard<'_, State>> = streams.iter().map(|s| s.state.lock()).collect();
        let bytes = |(s, st): (&Stream, &MutexGuard<'_, State>)| {
            st.closed.len() as u64 * s.place.segment_size + if st.segment.is_some() { st.at } else { 0 }
        };
        streams.iter().zip(&held).map(bytes).sum()
    }

    /// Numbers of the segments that hold frames now.
    pub(crate) fn live_segments(&self) -> Vec<u64> {
        let st = self.state.lock();
        let mut v: Vec<u64> = st.closed.iter().map(|c| c.number).collect();
        v.extend(st.segment.as_ref().map(|s| s.number));
        v
    }
}
