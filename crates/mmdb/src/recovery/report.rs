//! What an opening read.

use std::time::Duration;

/// What the last opening read and how long it took.
///
/// ```
/// # use mmdb::{ColumnType, Database, Options, Schema};
/// let options = Options::in_memory();
/// let db = Database::open("/db", options.clone())?;
/// let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
/// db.run(|tx| tx.insert(&t, &[1.into()]))?;
/// db.checkpoint()?;
/// db.run(|tx| tx.insert(&t, &[2.into()]))?;
/// drop((t, db));
/// let r = Database::open("/db", options)?.recovery();
/// assert_eq!((r.images, r.cut), (1, 2));
/// # Ok::<(), mmdb::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Containers loaded from checkpoint images.
    pub images: u64,
    /// Frames found that count, those of commits in the images included.
    pub frames: u64,
    /// Records applied or found in the images already.
    pub records: u64,
    /// Bytes of log frames.
    pub log_bytes: u64,
    /// Last commit recovered.
    pub cut: u64,
    /// Last commit that the manifest states to be durable. Up to here nothing can be missing
    /// unnoticed.
    pub manifest_horizon: u64,
    /// Whether the database had been closed: then the manifest states its last commit, and nothing
    /// at all can be missing.
    pub is_closed: bool,
    /// Frames behind the cut, dropped: never acknowledged.
    pub dropped_frames: u64,
    /// Time to load the images.
    pub image_time: Duration,
    /// Time to read, check and apply the log.
    pub replay_time: Duration,
    /// Time to build the indexes.
    pub index_time: Duration,
}
