//! A tail: the durable commits of a primary, in order, from the log's files.
//!
//! 1. The horizon is read, and then what is stated of changes: a commit up to the horizon that
//!    depends on a change came after that was stated, so the change is seen.
//! 2. Each change goes out behind the commits that cannot know it, and before the others.
//! 3. A frame up to the horizon is in some stream's file, for it is durable.

use super::frames::{Builder, Frames, Head, Place};
use super::lineage::Lineage;
use super::position::Position;
use super::reader::StreamReader;
use crate::documented::documented;
use crate::error::{Error, Result};
use crate::log::Log;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// A batch is closed once it has so many bytes.
const BATCH: usize = 256 << 10;

/// The durable commits and the changes of definitions of a database, in order, while it goes on;
/// made by [`crate::Database::tail`]. While it is open, the log that it has not read yet is kept, up
/// to [`crate::Options::tail_log_bytes`].
///
/// As an iterator it waits for the next batch, and ends when the database is closed.
///
/// ```
/// use mmdb::{ColumnType, Database, Schema};
/// let db = Database::in_memory()?;
/// let tail = db.tail(&db.position()?)?;
/// let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
/// db.run(|tx| tx.insert(&t, &[1.into()]))?;
/// drop((t, db));
/// let frames = tail.collect::<mmdb::Result<Vec<_>>>()?;
/// assert_eq!(frames.last().map(|frames| frames.last_gsn()), Some(1));
/// # Ok::<(), mmdb::Error>(())
/// ```
pub struct Tail {
    log: Arc<Log>,
    number: u64,
    at: Place,
    readers: Vec<StreamReader>,
    /// The stream that the last frame came from: the next one comes from there mostly.
    last: usize,
    introduced: bool,
    batch_bytes: usize,
    /// As an iterator it has come to its end.
    ended: bool,
}

impl std::fmt::Debug for Tail {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tail(behind commit {})", self.at.gsn)
    }
}

impl Drop for Tail {
    fn drop(&mut self) {
        self.log.tails.close(self.number);
    }
}

/// Refuses a position that is not one of this lineage's past.
pub(crate) fn require_past(lineage: &Lineage, position: &Position, horizon: u64) -> Result<()> {
    let foreign = |reason: String| Err(Error::FramesForeign { reason });
    if position.lineage != lineage.id {
        return foreign(format!(
            "the standby follows lineage {}, and this database is of lineage {}",
            position.lineage, lineage.id
        ));
    }
    let Some(at) = lineage.fences.iter().position(|fence| *fence == position.fence) else {
        return foreign(format!(
            "the standby is in an epoch {} that was begun elsewhere",
            position.fence.epoch
        ));
    };
    if let Some(next) = lineage.fences.get(at + 1)
        && (position.gsn > next.after || position.change > next.changes)
    {
        return foreign(format!(
            "the standby has commits up to {} of epoch {}, which ended with commit {}",
            position.gsn, position.fence.epoch, next.after
        ));
    }
    if position.gsn > horizon || position.change > lineage.last_change {
        return foreign(format!(
            "the standby has commits up to {}, and here they end with {horizon}",
            position.gsn
        ));
    }
    Ok(())
}

impl Tail {
    pub(crate) fn open(log: Arc<Log>, lineage: &Lineage, from: &Position) -> Result<Tail> {
        require_past(lineage, from, log.horizon())?;
        let at = Place { gsn: from.gsn, change: from.change };
        let number = log.tails.open(at);
        let readers = (0..log.streams.len()).map(StreamReader::new).collect();
        let tail =
            Tail { log, number, at, readers, last: 0, introduced: false, batch_bytes: BATCH, ended: false };
        // Listed first: what is there now is kept from now on.
        tail.require_log()?;
        if lineage.change(from.change + 1).is_err() {
            return Err(tail.lost());
        }
        Ok(tail)
    }

    /// Batches are closed once they have so many bytes; one commit may be more. A transport may
    /// have a limit. 256 KiB at first.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Schema};
    /// let db = Database::in_memory()?;
    /// let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
    /// let mut tail = db.tail(&db.position()?)?.batch_bytes(1);
    /// (1..=3).try_for_each(|id| db.run(|tx| tx.insert(&t, &[id.into()])))?;
    /// let first = tail.try_next()?.expect("three commits are durable");
    /// assert_eq!((first.first_gsn(), first.last_gsn()), (1, 1));
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    #[must_use]
    pub fn batch_bytes(mut self, bytes: usize) -> Tail {
        self.batch_bytes = bytes.max(1);
        self
    }

    fn lost(&self) -> Error {
        let oldest = self.log.streams.iter().map(|s| s.released()).max().unwrap_or(0) + 1;
        Error::TailLost { gsn: self.at.gsn + 1, oldest }
    }

    /// Refuses to go on where log that is needed may have been released.
    fn require_log(&self) -> Result<()> {
        if self.log.streams.iter().any(|s| s.released() > self.at.gsn) {
            return Err(self.lost());
        }
        Ok(())
    }

    /// The next batch, if there is one now. The first one is given at once, though there may be
    /// nothing in it: it says which epoch the primary is in.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Schema};
    /// let db = Database::in_memory()?;
    /// let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
    /// let mut tail = db.tail(&db.position()?)?;
    /// assert!(tail.try_next()?.is_some_and(|first| first.is_empty()));
    /// assert!(tail.try_next()?.is_none());
    /// db.run(|tx| tx.insert(&t, &[1.into()]))?;
    /// assert_eq!(tail.try_next()?.map(|frames| frames.last_gsn()), Some(1));
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::TailLost`] if this is so far behind that the log is not there any more;
    /// [`Error::Closed`] or [`Error::Poisoned`] once all is given that is durable;
    /// [`Error::Deposed`]; [`Error::Corrupt`], [`Error::Io`].
    pub fn try_next(&mut self) -> Result<Option<Frames>> {
        documented("Tail::try_next", || {
            // What is durable goes out, unless it is another's turn.
            self.log.why_deposed().map_or(Ok(()), Err)?;
            match self.collect_durable() {
                Ok(Some(frames)) => Ok(Some(frames)),
                Ok(None) => {
                    self.log.check()?;
                    // Read again: what became durable last came before it was said that it ends.
                    if self.log.is_stopping() && self.log.horizon() <= self.at.gsn {
                        return Err(Error::Closed);
                    }
                    Ok(None)
                }
                // Whoever opens the database next may use the files again.
                Err(_) if self.log.is_stopping() => Err(Error::Closed),
                Err(e) => Err(e),
            }
        })
    }

    fn collect_durable(&mut self) -> Result<Option<Frames>> {
        let horizon = self.log.horizon();
        let Some(lineage) = self.log.tails.lineage() else { return Ok(None) };
        if self.introduced && horizon <= self.at.gsn && lineage.last_change <= self.at.change {
            return Ok(None);
        }
        let (kind, fences) = (self.log.register.kind(), lineage.fences.clone());
        let mut batch = Builder::new(Head { lineage: lineage.id, kind, fences, from: self.at });
        let begun = self.at;
        loop {
            while let Some(change) = lineage.change(self.at.change + 1).map_err(|()| self.lost())? {
                if change.after > self.at.gsn {
                    break;
                }
                batch.change(change);
                self.at.change += 1;
            }
            let is_full = batch.len() >= self.batch_bytes && self.at != begun;
            if self.at.gsn >= horizon || is_full {
                break;
            }
            if let Err(e) = self.next_frame(&mut batch) {
                if self.at == begun {
                    return Err(e);
                }
                // What was found goes out; the next call comes to the same error.
                break;
            }
        }
        if self.introduced && self.at == begun {
            return Ok(None);
        }
        self.introduced = true;
        self.log.tails.has_given(self.number, self.at);
        Ok(Some(batch.finish()))
    }

    /// Appends the next frame, which is durable.
    fn next_frame(&mut self, batch: &mut Builder) -> Result<()> {
        let (next, streams) = (self.at.gsn + 1, self.readers.len());
        for i in 0..streams {
            let stream = (self.last + i) % streams;
            match self.readers[stream].take(&self.log, next) {
                Ok(Some(body)) => {
                    batch.frame(body);
                    self.at.gsn = next;
                    self.last = stream;
                    return Ok(());
                }
                Ok(None) => {}
                // A segment that was released meanwhile may be gone by its name.
                Err(e) => return Err(self.require_log().err().unwrap_or(e)),
            }
        }
        self.require_log()?;
        let dir = self.log.streams.first().map(|s| s.dir().clone()).unwrap_or_default();
        let what = format!("commit {next} was made durable, and its frame is in no segment");
        Err(Error::corrupt(&dir, 0, what))
    }

    fn has_more(&self) -> bool {
        self.log.horizon() > self.at.gsn
            || self.log.tails.last_change() > self.at.change
            || self.log.is_stopping()
            || self.log.is_poisoned()
    }

    /// The next batch, waiting for it `at_most` so long; `None` if none came.
    ///
    /// ```
    /// # use mmdb::Database;
    /// use std::time::Duration;
    /// let db = Database::in_memory()?;
    /// let mut tail = db.tail(&db.position()?)?;
    /// assert!(tail.next_within(Duration::from_millis(1))?.is_some(), "it introduces the primary");
    /// assert!(tail.next_within(Duration::from_millis(1))?.is_none());
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tail::try_next`].
    pub fn next_within(&mut self, at_most: Duration) -> Result<Option<Frames>> {
        let began = Instant::now();
        loop {
            if let Some(frames) = self.try_next()? {
                return Ok(Some(frames));
            }
            let left = at_most.saturating_sub(began.elapsed());
            // Without threads in the background nothing comes while this one waits.
            if left.is_zero() || !self.log.background {
                return Ok(None);
            }
            self.log.tails.sleep_unless(|| self.has_more(), left);
        }
    }

    /// The next batch for a task; it is woken when there may be one.
    ///
    /// ```
    /// # use mmdb::Database;
    /// use std::task::{Context, Poll, Waker};
    /// let db = Database::in_memory()?;
    /// let mut tail = db.tail(&db.position()?)?;
    /// let mut task = Context::from_waker(Waker::noop());
    /// assert!(matches!(tail.poll_next(&mut task), Poll::Ready(Ok(_))), "it introduces the primary");
    /// assert!(tail.poll_next(&mut task).is_pending());
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tail::try_next`].
    pub fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Frames>> {
        loop {
            match self.try_next() {
                Ok(Some(frames)) => return Poll::Ready(Ok(frames)),
                Err(e) => return Poll::Ready(Err(e)),
                Ok(None) => {}
            }
            if self.log.tails.register_unless(self.number, || self.has_more(), cx.waker()) {
                return Poll::Pending;
            }
        }
    }
}

impl Iterator for Tail {
    type Item = Result<Frames>;

    fn next(&mut self) -> Option<Result<Frames>> {
        if self.ended {
            return None;
        }
        let next = self.next_within(Duration::MAX);
        self.ended = !matches!(next, Ok(Some(_)));
        match next {
            Ok(Some(frames)) => Some(Ok(frames)),
            Ok(None) | Err(Error::Closed) => None,
            Err(e) => Some(Err(e)),
        }
    }
}
