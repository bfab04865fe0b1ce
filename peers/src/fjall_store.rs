//! fjall, an LSM tree in Rust.
//!
//! Durability: every batch is committed with `PersistMode::SyncData`, which is `fdatasync`, as the
//! other peers use it. One `WriteBatch` for each transaction over three keyspaces. fjall syncs
//! while it holds its journal, so waiting threads are not grouped: it runs as is and behind the
//! batching writer. Journal and write buffers are large enough that no run stalls on compaction;
//! the rest is the default.

use crate::message::{Digest, Message, TABLES, Table};
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
    /// Opens or creates the database in `dir`.
    pub fn open(dir: &Path) -> Result<Fjall> {
        let db = Database::builder(dir)
            .max_journaling_size(2 << 30)
            .open()
            .with_context(|| format!("opening {}", dir.display()))?;
        let table = |name| {
            db.keyspace(name, || KeyspaceCreateOptions::default().max_memtable_size(128 << 20))
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
