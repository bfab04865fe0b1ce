//! fjall, an LSM tree in Rust.
//!
//! Durability: every batch is committed with `PersistMode::SyncData`, which is `fdatasync`, as the
//! other peers use it. One `WriteBatch` for each transaction over three keyspaces. fjall syncs
//! while it holds its journal, so waiting threads are not grouped: it runs as is and behind the
//! batching writer. Journal and write buffers are large enough that no run stalls on compaction;
//! the rest is the default.

use crate::message::{Digest, Message, TABLES, Table, queue_bounds};
use crate::peer::{Engine, Transaction};
use anyhow::{Context, Result};
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use std::path::Path;

/// An open database.
pub struct Fjall {
    db: Database,
    tables: [Keyspace; 3],
}

impl Fjall {
    /// Opens or creates the database in `dir`. `sustained`: with write buffers of the default size, so
    /// that they are flushed and compacted during a run.
    pub fn open(dir: &Path, sustained: bool) -> Result<Fjall> {
        let buffer = if sustained { 64 << 20 } else { 128 << 20 };
        let db = Database::builder(dir)
            .max_journaling_size(2 << 30)
            .open()
            .with_context(|| format!("opening {}", dir.display()))?;
        let table = |name| {
            db.keyspace(name, || KeyspaceCreateOptions::default().max_memtable_size(buffer))
                .with_context(|| format!("opening keyspace {name}"))
        };
        let tables = [table("message")?, table("to_delivery")?, table("ms_state")?];
        Ok(Fjall { db, tables })
    }
}

impl Engine for Fjall {
    fn apply(&self, transactions: &[(Transaction, Message)]) -> Result<()> {
        let [messages, queue, states] = &self.tables;
        let mut batch = self.db.batch().durability(Some(PersistMode::SyncData));
        for (transaction, message) in transactions {
            match transaction {
                Transaction::Receive => {
                    let mut value = Vec::with_capacity(256);
                    message.message_value(&mut value);
                    batch.insert(messages, message.message_key(), value);
                    batch.insert(queue, message.queue_key(), message.queue_value());
                }
                Transaction::Deliver => {
                    batch.remove(queue, message.queue_key());
                    batch.remove(messages, message.message_key());
                    let state = message.state();
                    batch.insert(states, state.key(), state.value());
                }
            }
        }
        batch.commit().context("fjall: commit")
    }

    fn read(&self, msg_id: u64, out: &mut Vec<u8>) -> Result<bool> {
        let value = self.tables[Table::Message as usize].get(msg_id.to_be_bytes()).context("fjall: get")?;
        out.extend_from_slice(value.as_deref().unwrap_or_default());
        Ok(value.is_some())
    }

    fn head(&self, dst_key: u64, most: usize) -> Result<usize> {
        let [from, to] = queue_bounds(dst_key);
        let rows = self.tables[Table::Queue as usize].range(from..to).take(most);
        rows.map(|row| row.into_inner().context("fjall: range")).try_fold(0, |n, row| row.map(|_| n + 1))
    }

    fn scan(&self, digest: &mut Digest) -> Result<()> {
        for table in TABLES {
            for row in self.tables[table as usize].iter() {
                let (key, value) = row.into_inner().context("fjall: scan")?;
                digest.row(table, &key, &value);
            }
        }
        // The order of TABLES is the order of the keyspaces.
        debug_assert_eq!(Table::State as usize, 2);
        Ok(())
    }
}
