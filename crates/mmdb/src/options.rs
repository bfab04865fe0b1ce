//! How a database is opened.

use crate::medium::{FileMedium, Medium};
use crate::sabotage::Defect;
#[cfg(feature = "sabotage")]
use crate::sabotage::Sabotage;
use crate::spawner::Spawner;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Most log streams of a database.
pub(crate) const MAX_STREAMS: usize = 256;

/// What a log record holds.
///
/// ```
/// # use mmdb::{ColumnType, Database, Options, Schema};
/// use mmdb::LogKind;
/// let db = Database::open("/db", Options { log_kind: LogKind::AfterImage, ..Options::in_memory() })?;
/// let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
/// db.run(|tx| tx.insert(&t, &[1.into()]))?;
/// assert_eq!(db.stats().frames, 1);
/// # Ok::<(), mmdb::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum LogKind {
    /// The packed XOR of before and after.
    #[default]
    Differential,
    /// The whole row after the change.
    AfterImage,
}

/// When a commit counts as done.
///
/// ```
/// # use mmdb::{ColumnType, Database, Options, Schema};
/// # let db = Database::in_memory()?;
/// # let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
/// use mmdb::Durability;
/// let lazy = db.run_with(Durability::Lazy, |tx| tx.insert(&t, &[1.into()]))?.1;
/// let durable = db.run_with(Durability::Durable, |tx| tx.insert(&t, &[2.into()]))?.1;
/// assert_eq!(lazy.wait()?, 1);                               // returns at once
/// durable.wait()?;                                           // and takes the lazy one before it along
/// assert!(db.horizon() >= 2);
/// # Ok::<(), mmdb::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Durability {
    /// Its ticket resolves once a power cut cannot take it back.
    #[default]
    Durable,
    /// Its ticket is resolved from the start; it becomes durable within [`Options::lazy_interval`].
    /// A crash may take it back, but only together with every later commit.
    Lazy,
}

/// Settings of an open database. Take the default and change fields.
///
/// ```
/// use mmdb::{Database, Options};
/// let options = Options { streams: 2, memory_limit: 1 << 30, ..Options::in_memory() };
/// let db = Database::open("/db", options)?;
/// # Ok::<(), mmdb::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Options {
    /// Where files live. Default: the file system.
    pub medium: Arc<dyn Medium>,
    /// Number of log streams, at least 1. Several pay with several devices. Default 1.
    pub streams: usize,
    /// Directory of each stream; those not given are `log-N` in the database's directory. The paths
    /// are not kept (but a relative one is of the working directory at the opening, whatever that
    /// is later): who moves a directory names the new place here. Each belongs to one stream of one
    /// database, which its file `STREAM` says; any other is refused.
    pub stream_dirs: Vec<PathBuf>,
    /// Size of a log segment, bytes; a multiple of 4096, at least 16 KiB. A transaction's log
    /// record lies in one segment, so it has at most 4136 bytes less than this; the first change
    /// that is too much is refused with [`crate::Error::TransactionTooLarge`]. Default 64 MiB.
    pub segment_bytes: u64,
    /// Size of a container for a new database, bytes: a power of two from 4 KiB to 64 KiB. A row is
    /// at most 12 bytes smaller. Default 64 KiB.
    pub container_bytes: usize,
    /// What log records hold. Default: differences.
    pub log_kind: LogKind,
    /// Whether a delete zeroes the row in memory and on disk. Default: false, only its flag
    /// changes.
    pub scrub: bool,
    /// Memory for all tables, bytes, beyond which inserts and updates fail with
    /// [`crate::Error::MemoryLimit`]; deletes, commits and checkpoints go on. Counted are
    /// containers, free slots, all indexes, locks, the log's buffers, and the private changes of
    /// transactions that have more than 64 KiB of them. The last sixteenth (and at most 512 KiB
    /// more) is kept for rows that take the place of deleted ones, so that deletes make room once
    /// they are committed. At the limit a row that is deleted and inserted again by one transaction
    /// keeps the place that it had, if it fits there. A database that holds more already can be
    /// opened. Default: no limit.
    pub memory_limit: u64,
    /// Memory for what open snapshots need of rows that have changed since, bytes; a part of
    /// `memory_limit`. Beyond it the oldest snapshot is given up, and its reads return
    /// [`crate::Error::SnapshotExpired`]; beyond twice of it all are. No writer waits for that.
    /// [`crate::Database::backup`] reads a snapshot too; where it is given up, or this is 0, the
    /// backup copies the log as well. Default 256 MiB.
    pub snapshot_memory: u64,
    /// Longest time that a transaction waits for one lock, and that [`crate::Database::run`] waits
    /// between two runs for whoever made it give way. Then it is [`crate::Error::LockTimeout`]: a
    /// transaction that somebody began and forgot makes nobody wait for good. Default 10 s.
    pub lock_timeout: Duration,
    /// Locks that a transaction takes for what it reads of one table in ranges: one for each range
    /// and, with [`crate::Locking::Record`], one for each row. Where it would take more, it takes
    /// the whole table against writers instead; 0 takes the table from the start. A lock takes
    /// about 100 bytes. Default 1,000.
    pub range_locks: usize,
    /// How often [`crate::Database::run`] runs a transaction at most before it reports
    /// [`crate::Error::LockTimeout`], at least 1. Default 10,000.
    pub max_runs: u32,
    /// A checkpoint starts by itself once so many bytes were logged since the last one, or changed
    /// in tables that are only checkpointed ([`crate::Logging::Checkpointed`]), or once a segment
    /// is full and the log has half of the segments that `max_log_bytes` allows, or its disk no
    /// room for another one; 0 for never. One that fails is told by
    /// [`crate::Stats::checkpoint_error`] and tried again after 100 ms, 200 ms, and so on up to 10
    /// s. Default 1 GiB.
    pub checkpoint_log_bytes: u64,
    /// Most bytes that the log may hold, in whole segments. While checkpoints succeed, new
    /// transactions wait near it until one has made room, for at most `lock_timeout`. While they
    /// fail, or are never made, commits are refused with [`crate::Error::LogFull`], which says why,
    /// before the log fills the disk that a checkpoint needs; one that succeeds lets commits go on.
    /// Where the disk has no room for one that is due by itself, a log in the database's directory
    /// gets no further segment until it has. At least four segments for each stream, and more than
    /// `checkpoint_log_bytes`. Default 64 GiB.
    pub max_log_bytes: u64,
    /// Most bytes of log that are kept for standbys that are behind, beyond what recovery needs.
    /// What is older is released, and who needs it begins again from a backup
    /// ([`crate::Error::TailLost`]). Nothing is kept while no [`crate::Tail`] is open and no standby
    /// has acknowledged anything. Beside this, `max_log_bytes` is what recovery needs; an opening after
    /// a crash reads both. Default 1 GiB.
    pub tail_log_bytes: u64,
    /// Of `tail_log_bytes`, what is kept although the disk is full: where it has no room for a
    /// checkpoint or for another segment, older log that is only kept for standbys goes, the oldest
    /// first, before commits are refused for good. A standby that needed it begins again from a
    /// backup. As much as `tail_log_bytes` where standbys are worth more than commits. Default 0.
    pub tail_log_floor_bytes: u64,
    /// Longest time until a lazy commit's flush begins; less than 1 ms counts as 1 ms. Default 10
    /// ms.
    pub lazy_interval: Duration,
    /// Longest time until the manifest states that a commit is durable, but for what storing it
    /// takes. What is stated cannot be missing unnoticed after a crash, whatever becomes of the log
    /// (see `docs/recovery.md`, R15). While nothing is committed nothing is stored; a manifest of
    /// more than 1 MiB is stored less often, at 100 KiB a second. Default 10 s.
    pub manifest_interval: Duration,
    /// How often rows that have expired are looked for and deleted, in the background; 0 for never:
    /// then [`crate::Database::expire`] does it. Only tables that say so have such rows
    /// ([`crate::Schema::expire_by`]). Default 0.
    pub expire_interval: Duration,
    /// Whether one flush serves all commits waiting. False is for measuring what that is worth.
    /// Default true.
    pub group_commit: bool,
    /// No locking and no logging at all, whatever the tables say: the reference of what
    /// transactions cost. Nothing is read or written, so [`crate::Database::backup`] is refused.
    /// Threads that write the same keys at once can break unique constraints. Default false.
    pub reference: bool,
    /// Threads that load, replay and index at start. Default: the machine's parallelism.
    pub recovery_threads: usize,
    /// False runs everything on the callers' threads and refuses instead of waiting: repeatable
    /// tests.
    #[doc(hidden)]
    pub background: bool,
    /// Where threads come from; tests refuse some.
    #[doc(hidden)]
    pub spawner: Spawner,
    /// A defect for tests to find.
    #[cfg(feature = "sabotage")]
    #[doc(hidden)]
    pub sabotage: Sabotage,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            medium: Arc::new(FileMedium),
            streams: 1,
            stream_dirs: Vec::new(),
            segment_bytes: 64 << 20,
            container_bytes: 64 << 10,
            log_kind: LogKind::default(),
            scrub: false,
            memory_limit: u64::MAX,
            snapshot_memory: 256 << 20,
            lock_timeout: Duration::from_secs(10),
            range_locks: 1000,
            max_runs: 10_000,
            checkpoint_log_bytes: 1 << 30,
            max_log_bytes: 64 << 30,
            tail_log_bytes: 1 << 30,
            tail_log_floor_bytes: 0,
            lazy_interval: Duration::from_millis(10),
            manifest_interval: Duration::from_secs(10),
            expire_interval: Duration::ZERO,
            group_commit: true,
            reference: false,
            recovery_threads: std::thread::available_parallelism().map_or(2, usize::from),
            background: true,
            spawner: Spawner::default(),
            #[cfg(feature = "sabotage")]
            sabotage: Sabotage::None,
        }
    }
}

impl Options {
    /// Defaults on a medium in memory, with small segments: for tests and examples.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Options, Schema};
    /// let options = Options::in_memory();
    /// drop(Database::open("/db", options.clone())?);
    /// assert!(Database::open("/db", options).is_ok(), "clones of the options share the medium");
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    #[must_use]
    pub fn in_memory() -> Options {
        Options {
            medium: Arc::new(crate::medium::MemoryMedium::new()),
            segment_bytes: 1 << 20,
            ..Options::default()
        }
    }

    /// The defect to be found, if there is one.
    pub(crate) fn defect(&self) -> Defect {
        Defect(
            #[cfg(feature = "sabotage")]
            self.sabotage,
        )
    }

    pub(crate) fn stream_dir(&self, path: &std::path::Path, i: usize) -> PathBuf {
        self.stream_dirs.get(i).cloned().unwrap_or_else(|| path.join(format!("log-{i}")))
    }
}
