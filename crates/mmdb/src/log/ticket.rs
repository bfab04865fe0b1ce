//! Tickets: how a commit learns that it is durable.

use super::Log;
use crate::cache_line::CacheLine;
use crate::documented::documented;
use crate::error::{Error, Result};
use crate::interruption;
use crate::sync::thread;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// The log, as tickets hold it. There is one for each processor, because every ticket counts itself
/// here.
pub(crate) type Anchor = Arc<CacheLine<Arc<Log>>>;

/// A promise that a commit becomes durable: wait for it, poll it or await it.
///
/// The commit's effects are visible to other transactions already. A ticket that is neither waited
/// for nor polled is flushed within [`crate::Options::lazy_interval`] all the same. Dropping it
/// loses nothing but the answer.
///
/// ```
/// use mmdb::{ColumnType, Database, Schema};
/// let db = Database::in_memory()?;
/// let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
/// let mut tx = db.begin()?;
/// tx.insert(&t, &[1.into()])?;
/// let ticket = tx.commit()?;
/// let gsn = ticket.wait()?;
/// assert!(db.horizon() >= gsn);
/// # Ok::<(), mmdb::Error>(())
/// ```
#[must_use = "a commit is durable only once its ticket says so"]
pub struct Ticket {
    anchor: Anchor,
    /// The batch of its frame; `None` for a read-only transaction.
    batch: Option<u32>,
    stream: usize,
    gsn: u64,
    lazy: bool,
}

impl std::fmt::Debug for Ticket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Ticket(commit {})", self.gsn)
    }
}

impl Ticket {
    pub(crate) fn new(anchor: Anchor, batch: Option<u32>, stream: usize, gsn: u64, lazy: bool) -> Ticket {
        assert!(batch.is_none() || gsn > 0, "commits are numbered from 1");
        Ticket { anchor, batch, stream, gsn, lazy }
    }

    pub(crate) fn log(&self) -> &Log {
        &self.anchor
    }

    /// True if there is nothing left to wait for.
    fn is_decided(&self) -> bool {
        self.log().horizon() >= self.gsn || self.log().is_poisoned()
    }

    /// Number of the commit; commits are numbered in serial order. For a read-only transaction,
    /// that of the last commit it may have seen.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Schema};
    /// # let db = Database::in_memory()?;
    /// # let t = db.create_table(
    /// #     Schema::new("t").column("id", ColumnType::Int64).column("n", ColumnType::Int64).primary_key(&["id"]),
    /// # )?;
    /// # let mut tx = db.begin()?;
    /// # tx.insert(&t, &[1.into(), 10.into()])?;
    /// let ticket = tx.commit()?;
    /// assert_eq!(ticket.gsn(), 1);
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    #[must_use]
    pub fn gsn(&self) -> u64 {
        self.gsn
    }

    pub(crate) fn failed(&self) -> Error {
        if let Some(deposed) = self.log().why_deposed() {
            return deposed;
        }
        let cause = if self.log().is_forked() && !self.log().is_poisoned() {
            "only the process that opened the database, from which this one was forked, learns of its flush"
                .to_owned()
        } else {
            format!("its flush failed: {}; reopen to recover", self.log().cause())
        };
        Error::Indeterminate { gsn: self.gsn, cause }
    }

    /// Blocks until the commit is durable and returns its number. Returns at once for a lazy
    /// commit.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Schema};
    /// # let db = Database::in_memory()?;
    /// # let t = db.create_table(
    /// #     Schema::new("t").column("id", ColumnType::Int64).column("n", ColumnType::Int64).primary_key(&["id"]),
    /// # )?;
    /// # let mut tx = db.begin()?;
    /// # tx.insert(&t, &[1.into(), 10.into()])?;
    /// let ticket = tx.commit()?;
    /// assert_eq!(ticket.wait()?, ticket.gsn());
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Indeterminate`] if the flush failed: reopening decides whether the commit survived.
    pub fn wait(&self) -> Result<u64> {
        if self.lazy {
            return Ok(self.gsn);
        }
        self.wait_durable()
    }

    /// As [`Ticket::wait`], for a call that has committed and ends with this: if what
    /// [`crate::set_wait_check`] was given ends the wait, the caller must not take that for a
    /// transaction of which nothing was done, and do it again.
    #[doc(hidden)]
    pub fn settle(&self) -> Result<u64> {
        self.wait().map_err(|e| match e {
            Error::Interrupted { .. } => {
                let cause = "the wait for its flush was interrupted: it is done, and becomes durable \
                             unless that fails";
                Error::Indeterminate { gsn: self.gsn, cause: cause.into() }
            }
            other => other,
        })
    }

    /// Blocks until the commit is durable, lazy or not.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Schema};
    /// # let db = Database::in_memory()?;
    /// # let t = db.create_table(
    /// #     Schema::new("t").column("id", ColumnType::Int64).column("n", ColumnType::Int64).primary_key(&["id"]),
    /// # )?;
    /// # let mut tx = db.begin()?;
    /// # tx.insert(&t, &[1.into(), 10.into()])?;
    /// let ticket = tx.commit_with(mmdb::Durability::Lazy)?;
    /// let gsn = ticket.wait_durable()?;
    /// assert!(db.horizon() >= gsn);
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Indeterminate`] if the flush failed.
    pub fn wait_durable(&self) -> Result<u64> {
        documented("Ticket::wait_durable", || {
            loop {
                if self.log().horizon() >= self.gsn {
                    return Ok(self.gsn);
                }
                if self.log().is_poisoned() {
                    return Err(self.failed());
                }
                if !self.log().background {
                    self.log().flush_all().map_err(|_| self.failed())?;
                    continue;
                }
                // Nobody would wake who sleeps here.
                self.log().require_own_process().map_err(|_| self.failed())?;
                // Whoever waits first is the one who flushes: one hand-over less than asking a
                // thread to.
                let Some(batch) = self.batch else {
                    interruption::require_none("a flush")?;
                    self.wait_all();
                    continue;
                };
                // A flush under way is followed by another one if this commit is not in it, so
                // there is nothing to look up.
                let stream = &self.log().streams[self.stream];
                if !stream.is_busy()
                    && stream.needs_flush(self.gsn)
                    && self.log().flush(self.stream).map_err(|_| self.failed())?
                {
                    continue;
                }
                self.demand_others();
                if self.lazy {
                    stream.demand(self.gsn);
                }
                stream.cell(batch).wait_unless(|| self.is_decided());
                if !self.is_decided() {
                    interruption::require_none("a flush")?;
                }
            }
        })
    }

    /// A read-only transaction has no frame: it waits for every stream.
    fn wait_all(&self) {
        for i in 0..self.log().streams.len() {
            let s = &self.log().streams[i];
            if s.needs_flush(self.gsn) {
                match self.log().flush(i) {
                    Ok(true) => {}
                    Ok(false) => {
                        if let Some(batch) = s.batch_of(self.gsn) {
                            s.demand(self.gsn);
                            s.cell(batch).wait_unless(|| self.is_decided() || !s.needs_flush(self.gsn));
                        }
                    }
                    Err(_) => return,
                }
            }
        }
        if self.log().horizon() < self.gsn {
            thread::yield_now();
        }
    }

    /// This commit is durable only when all before it are, on every stream.
    fn demand_others(&self) {
        if self.log().streams.len() > 1 {
            for (i, s) in self.log().streams.iter().enumerate() {
                if i != self.stream {
                    s.demand(self.gsn);
                }
            }
        }
    }

    /// Whether the commit is durable, without blocking. Sees to it that a flush is under way.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Schema};
    /// # let db = Database::in_memory()?;
    /// # let t = db.create_table(
    /// #     Schema::new("t").column("id", ColumnType::Int64).column("n", ColumnType::Int64).primary_key(&["id"]),
    /// # )?;
    /// # let mut tx = db.begin()?;
    /// # tx.insert(&t, &[1.into(), 10.into()])?;
    /// let ticket = tx.commit()?;
    /// while !ticket.poll()? {
    ///     std::thread::yield_now();                              // do something useful meanwhile
    /// }
    /// assert!(db.horizon() >= ticket.gsn());
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Indeterminate`] if the flush failed.
    pub fn poll(&self) -> Result<bool> {
        if self.lazy { Ok(true) } else { self.is_durable() }
    }

    /// As [`Ticket::poll`], lazy or not.
    fn is_durable(&self) -> Result<bool> {
        documented("Ticket::poll", || {
            if self.log().horizon() >= self.gsn {
                return Ok(true);
            }
            if self.log().is_poisoned() {
                return Err(self.failed());
            }
            if !self.log().background {
                self.log().flush_all().map_err(|_| self.failed())?;
                return Ok(self.log().horizon() >= self.gsn);
            }
            self.log().require_own_process().map_err(|_| self.failed())?;
            for s in &self.log().streams {
                if !s.is_busy() && s.needs_flush(self.gsn) {
                    s.kick(false);
                }
            }
            Ok(false)
        })
    }

    /// For a task: resolves once the commit is durable, lazy or not.
    pub(crate) fn poll_durable(&self, cx: &mut Context<'_>) -> Poll<Result<u64>> {
        loop {
            match self.is_durable() {
                Ok(true) => return Poll::Ready(Ok(self.gsn)),
                Err(e) => return Poll::Ready(Err(e)),
                Ok(false) => {}
            }
            if self.log().background {
                self.demand_others();
                if self.batch.is_none() || self.lazy {
                    self.log().streams[self.stream].demand(self.gsn);
                }
            }
            let (log, mut streams) = (self.log(), self.log().streams.iter().enumerate());
            let place = match self.batch {
                Some(batch) => Some((self.stream, batch)),
                // Of a read-only transaction: one of the streams that are behind.
                None => streams.find_map(|(i, s)| s.batch_of(self.gsn).map(|batch| (i, batch))),
            };
            let Some((i, batch)) = place else {
                // All of it is durable, and who made it so is about to say that.
                log.move_horizon();
                continue;
            };
            // At a batch that is done, of a stream before another one, nobody would wake it.
            let is_done = || self.batch.is_none() && !log.streams[i].needs_flush(self.gsn);
            let news = || self.is_decided() || is_done();
            if log.streams[i].cell(batch).register_unless(news, cx.waker()) {
                return Poll::Pending;
            }
        }
    }
}

impl Future for Ticket {
    type Output = Result<u64>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<u64>> {
        if self.lazy { Poll::Ready(Ok(self.gsn)) } else { self.poll_durable(cx) }
    }
}
