//! Introspection: what the database is doing, for people and metrics.

use crate::engine::Engine;
use crate::sync::atomic::Ordering::Relaxed;
use crate::table::TableInner;
use std::time::Duration;

/// Figures of one table.
///
/// ```
/// # use mmdb::{ColumnType, Database, Options, Schema};
/// # let db = Database::in_memory()?;
/// # let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
/// db.run(|tx| tx.insert(&t, &[1.into()]))?;
/// let s = &db.stats().tables[0];
/// assert_eq!((s.name.as_str(), s.rows, s.containers), ("t", 1, 1));
/// assert!(s.bytes >= 64 << 10, "a container is 64 KiB");
/// # Ok::<(), mmdb::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableStats {
    /// Name.
    pub name: String,
    /// Rows committed.
    pub rows: u64,
    /// Containers allocated.
    pub containers: u64,
    /// Bytes of containers, free slots and indexes.
    pub bytes: u64,
}

impl TableStats {
    pub(crate) fn of(t: &TableInner) -> TableStats {
        TableStats {
            name: t.schema.name.clone(),
            rows: t.rows(),
            containers: t.count_containers(),
            bytes: t.memory(),
        }
    }
}

/// A snapshot of counters and positions. Counters start at 0 when the database is opened.
///
/// ```
/// let db = mmdb::Database::in_memory()?;
/// let s = db.stats();
/// assert_eq!((s.commits, s.horizon, s.tables.len()), (0, 0, 0));
/// # Ok::<(), mmdb::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stats {
    /// Per table.
    pub tables: Vec<TableStats>,
    /// Transactions committed.
    pub commits: u64,
    /// Transactions that ended otherwise.
    pub aborts: u64,
    /// Number of the last commit.
    pub last_gsn: u64,
    /// Every commit up to this number is durable.
    pub horizon: u64,
    /// Times a transaction waited for a lock.
    pub lock_waits: u64,
    /// Times a transaction was refused a lock and had to run again.
    pub lock_deaths: u64,
    /// Locks held now.
    pub locks: u64,
    /// Flushes done.
    pub flushes: u64,
    /// Bytes written by flushes, with padding.
    pub flushed_bytes: u64,
    /// Frames that flushes carried: divided by `flushes`, the mean batch.
    pub frames: u64,
    /// Largest number of frames in one flush.
    pub max_batch: u64,
    /// Time spent in flushes, nanoseconds, over all streams.
    pub flush_ns: u64,
    /// Bytes appended and not yet flushed.
    pub pending_bytes: u64,
    /// Bytes of log that recovery would read.
    pub log_bytes: u64,
    /// Checkpoints published.
    pub checkpoints: u64,
    /// Checkpoints that failed, those that started by themselves and those that were called for.
    pub checkpoint_failures: u64,
    /// Why the last checkpoint failed; `None` once one has succeeded after it.
    pub checkpoint_error: Option<String>,
    /// Time since the first of the failures without a success between them.
    pub checkpoint_failing_for: Option<Duration>,
    /// Containers that checkpoints copied.
    pub checkpoint_containers: u64,
    /// Log segments released by checkpoints.
    pub segments_recycled: u64,
    /// Bytes that [`crate::Options::memory_limit`] counts.
    pub memory_bytes: u64,
    /// Snapshots that are open.
    pub snapshots: u64,
    /// Bytes that are kept for them: rows as they were, and entries that indexes have lost.
    pub snapshot_bytes: u64,
    /// Snapshots given up because of [`crate::Options::snapshot_memory`].
    pub snapshot_expiries: u64,
    /// Rows deleted because they had expired, since the opening.
    pub expired_rows: u64,
    /// Why the last expiry in the background failed; `None` if it did not.
    pub expiry_error: Option<String>,
    /// Tails that are open.
    pub tails: u64,
    /// Bytes of log that are kept for standbys only; see [`crate::Options::tail_log_bytes`] and
    /// [`crate::Database::forget_standby`].
    pub tail_log_bytes: u64,
    /// Standbys that have acknowledged commits, each with the last one.
    pub standbys: Vec<(String, u64)>,
    /// True after a failed write or sync.
    pub poisoned: bool,
}

impl Stats {
    pub(crate) fn collect(e: &Engine) -> Stats {
        let tables = e.live_tables().into_iter().map(|t| TableStats::of(&t));
        let c = &e.log.counters;
        let failing = e.counters.failing.lock().clone();
        Stats {
            tables: tables.collect(),
            commits: e.counters.commits.iter().map(|c| c.0.load(Relaxed)).sum(),
            aborts: e.counters.aborts.load(Relaxed),
            last_gsn: e.log.last(),
            horizon: e.log.horizon(),
            lock_waits: e.locks.waits.load(Relaxed),
            lock_deaths: e.locks.deaths.load(Relaxed),
            locks: e.locks_held() as u64,
            flushes: c.flushes.load(Relaxed),
            flushed_bytes: c.flushed_bytes.load(Relaxed),
            frames: c.frames.load(Relaxed),
            max_batch: c.max_batch.load(Relaxed),
            flush_ns: c.flush_ns.load(Relaxed),
            pending_bytes: e.log.streams.iter().map(|s| s.pending()).sum(),
            log_bytes: e.log.bytes(),
            checkpoints: e.counters.checkpoints.load(Relaxed),
            checkpoint_failures: e.counters.checkpoint_failures.load(Relaxed),
            checkpoint_failing_for: failing.as_ref().map(|(since, _)| since.elapsed()),
            checkpoint_error: failing.map(|(_, why)| why),
            checkpoint_containers: e.counters.checkpoint_containers.load(Relaxed),
            segments_recycled: e.counters.recycled.load(Relaxed),
            memory_bytes: e.space.bytes(),
            snapshots: e.snapshots().count(),
            snapshot_bytes: e.snapshots().bytes(),
            snapshot_expiries: e.snapshots().expiries(),
            expired_rows: e.counters.expired.load(Relaxed),
            expiry_error: e.counters.expiry_error.lock().clone(),
            tails: e.log.tails.count(),
            tail_log_bytes: e.log.streams.iter().map(|s| s.kept()).sum(),
            standbys: e.log.tails.standbys(),
            poisoned: e.log.is_poisoned(),
        }
    }
}
