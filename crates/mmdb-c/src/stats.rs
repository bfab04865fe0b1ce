//! What a database is doing.

use crate::argument::{place, put};
use crate::database::{database, mmdb_database};
use crate::failure::{guard, misuse};
use crate::status::mmdb_status;
use crate::table::{mmdb_table, table};

/// What a database is doing. Later releases add fields at the end.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mmdb_stats {
    /// Transactions that committed.
    pub commits: u64,
    /// Transactions that were undone.
    pub aborts: u64,
    /// Number of the last commit.
    pub last_gsn: u64,
    /// Number of the last commit such that it and all before it are durable.
    pub horizon: u64,
    /// Requests for a lock that waited.
    pub lock_waits: u64,
    /// Requests that were refused because they might have waited for each other.
    pub lock_deaths: u64,
    /// Locks that are held.
    pub locks: u64,
    /// Syncs of log streams.
    pub flushes: u64,
    /// Bytes that they wrote.
    pub flushed_bytes: u64,
    /// Commits in them.
    pub frames: u64,
    /// Most commits of one.
    pub max_batch: u64,
    /// Time of all of them, ns.
    pub flush_ns: u64,
    /// Bytes of commits that are not flushed.
    pub pending_bytes: u64,
    /// Bytes of the log's segments.
    pub log_bytes: u64,
    /// Checkpoints that were taken.
    pub checkpoints: u64,
    /// Checkpoints that failed.
    pub checkpoint_failures: u64,
    /// Containers that they copied.
    pub checkpoint_containers: u64,
    /// Segments that were used again.
    pub segments_recycled: u64,
    /// Bytes of tables, indexes, locks and large transactions.
    pub memory_bytes: u64,
    /// Snapshots that are open.
    pub snapshots: u64,
    /// Bytes that are kept for them.
    pub snapshot_bytes: u64,
    /// Snapshots that were given up.
    pub snapshot_expiries: u64,
    /// Rows that expired.
    pub expired_rows: u64,
    /// Whether a failure ended all writing.
    pub poisoned: bool,
}

/// What the database is doing. `size` is sizeof(mmdb_stats) of the header that the caller was
/// compiled with: so much is written and no more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_get_stats(
    db: *const mmdb_database,
    stats: *mut mmdb_stats,
    size: usize,
) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        let place = place(stats, "stats")?;
        if size > size_of::<mmdb_stats>() {
            return Err(misuse(format!(
                "the stats have {size} bytes in the header and {} in the library, which is older",
                size_of::<mmdb_stats>()
            )));
        }
        let s = database(db)?.stats();
        let found = mmdb_stats {
            commits: s.commits,
            aborts: s.aborts,
            last_gsn: s.last_gsn,
            horizon: s.horizon,
            lock_waits: s.lock_waits,
            lock_deaths: s.lock_deaths,
            locks: s.locks,
            flushes: s.flushes,
            flushed_bytes: s.flushed_bytes,
            frames: s.frames,
            max_batch: s.max_batch,
            flush_ns: s.flush_ns,
            pending_bytes: s.pending_bytes,
            log_bytes: s.log_bytes,
            checkpoints: s.checkpoints,
            checkpoint_failures: s.checkpoint_failures,
            checkpoint_containers: s.checkpoint_containers,
            segments_recycled: s.segments_recycled,
            memory_bytes: s.memory_bytes,
            snapshots: s.snapshots,
            snapshot_bytes: s.snapshot_bytes,
            snapshot_expiries: s.snapshot_expiries,
            expired_rows: s.expired_rows,
            poisoned: s.poisoned,
        };
        std::ptr::copy_nonoverlapping((&raw const found).cast::<u8>(), place.cast::<u8>(), size);
        Ok(())
    })
}

/// Rows of a table, its containers, and the bytes of both with its indexes. Each may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_get_table_stats(
    db: *const mmdb_database,
    of: *const mmdb_table,
    rows: *mut u64,
    containers: *mut u64,
    bytes: *mut u64,
) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        // By the handle: another table may have its name, here or in the other database that it is
        // of.
        let stats = database(db)?.table_stats(table(of)?)?;
        put(rows, stats.rows);
        put(containers, stats.containers);
        put(bytes, stats.bytes);
        Ok(())
    })
}
