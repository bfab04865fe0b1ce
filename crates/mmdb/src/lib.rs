//! An embedded main-memory DBMS with parallel differential logging.
//!
//! Tables live in memory; every commit that is acknowledged survives a power cut; the log is the
//! only disk I/O in normal operation. A commit writes one frame, the XOR of what changed, to one of
//! several log streams, and its ticket resolves once everything up to it is on the disk.
//!
//! ```
//! use mmdb::{ColumnType, Database, Schema};
//! let db = Database::in_memory()?;                                   // or Database::open("dir", Options::default())
//! let messages = db.create_table(
//!     Schema::new("message").column("id", ColumnType::Int64).column("body", ColumnType::VarText(160)).primary_key(&["id"]),
//! )?;
//! let mut tx = db.begin()?;                                          // serializable
//! tx.insert(&messages, &[1.into(), "hello".into()])?;
//! let ticket = tx.commit()?;                                         // applied, in the log buffer, locks free
//! ticket.wait()?;                                                    // durable
//! assert_eq!(db.begin()?.get(&messages, &[1.into()])?.and_then(|r| r.at(1).as_text().map(String::from)), Some("hello".into()));
//! # Ok::<(), mmdb::Error>(())
//! ```
//!
//! The formats are in `docs/design.md`, the rules of recovery in `docs/recovery.md`. Linux only
//! (futexes).

// The locks of unit tests are larger.
#![cfg_attr(test, allow(clippy::large_enum_variant))]

mod admin;
mod alter;
mod append_list;
mod backup;
mod blob;
mod cache_line;
mod checkpoint;
mod codec;
mod column;
mod container;
mod database;
mod decimal;
mod documented;
mod engine;
mod error;
mod expiry;
mod fill;
mod format;
mod generations;
mod identity;
mod index;
#[cfg(test)]
mod interleavings;
mod interruption;
#[cfg(test)]
mod intrusions;
mod key;
mod key_text;
mod lent;
mod life;
mod lock;
mod log;
mod lookup;
mod manifest;
pub mod medium;
mod memory;
mod moment;
mod moves;
mod options;
mod pause;
mod places;
mod point;
mod prefetch;
mod process;
mod record;
mod recovery;
mod register;
mod retries;
mod row;
mod sabotage;
mod salvage;
mod schema;
mod snapshot;
mod spawner;
mod standby;
mod stats;
#[cfg(not(test))]
mod sync;
#[cfg(test)]
#[path = "sync/scheduled.rs"]
mod sync;
mod table;
mod table_stats;
mod tables;
mod time_unit;
mod tx;
mod value;

/// Runs the README's example as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

/// And that of the page on standbys.
#[cfg(doctest)]
#[doc = include_str!("../docs/standby.md")]
mod standby_page {}

pub use alter::NewIndex;
pub use backup::{BackupStats, restore};
pub use blob::{BlobSnapshot, Blobs};
pub use checkpoint::CheckpointStats;
#[doc(hidden)]
pub use checkpoint::Stepwise;
pub use column::{Column, ColumnType};
pub use database::Database;
pub use decimal::{Decimal, ParseDecimalError};
pub use error::{Error, Result};
pub use fill::{Fill, FillWriter};
pub use interruption::set_wait_check;
pub use log::Ticket;
pub use options::{Durability, LogKind, Options};
pub use record::{Field, PlainField, Record, RecordColumn, RecordCursor, Records};
pub use recovery::RecoveryReport;
pub use row::{Row, RowView};
#[cfg(feature = "sabotage")]
#[doc(hidden)]
pub use sabotage::Sabotage;
pub use salvage::{LogFrame, LogRecord, OfflineDatabase, SalvageReport, read_log, salvage};
pub use schema::{Expiry, IndexDef, IndexKind, Locking, Logging, MAX_COLUMNS, Schema};
pub use snapshot::{Snapshot, SnapshotCursor, SnapshotDump};
#[doc(hidden)]
pub use spawner::Spawner;
pub use standby::{Confirmation, Frames, Position, Standby, Tail};
pub use stats::{Stats, TableStats};
pub use table::Table;
pub use time_unit::TimeUnit;
pub use tx::{Cursor, Transaction};
pub use value::Value;
