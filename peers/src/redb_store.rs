//! redb, a copy-on-write B+ tree in Rust.
//!
//! Durability: `Durability::Immediate`, the default. One writer at a time, so it runs as is and
//! behind the batching writer. The cache is large enough for every page. Quick repair is off, as by
//! default: commits are faster, and opening after a crash walks the file.

use crate::message::{Digest, Message, TABLES, Table, queue_bounds};
use crate::peer::{Engine, Transaction};
use anyhow::{Context, Result, ensure};
use redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition};
use std::path::Path;

const NAMES: [TableDefinition<&[u8], &[u8]>; 3] =
    [TableDefinition::new("message"), TableDefinition::new("to_delivery"), TableDefinition::new("ms_state")];

/// An open database.
pub struct Redb {
    db: Database,
}

impl Redb {
    /// Opens or creates the database in `dir`.
    pub fn open(dir: &Path) -> Result<Redb> {
        let path = dir.join("peers.redb");
        let db = Database::builder()
            .set_cache_size(2 << 30)
            .create(&path)
            .with_context(|| format!("opening {}", path.display()))?;
        let create = db.begin_write()?;
        for name in NAMES {
            create.open_table(name)?;
        }
        create.commit()?;
        Ok(Redb { db })
    }
}

impl Engine for Redb {
    fn apply(&self, transactions: &[(Transaction, Message)]) -> Result<()> {
        let mut txn = self.db.begin_write()?;
        txn.set_durability(Durability::Immediate)?;
        {
            let mut messages = txn.open_table(NAMES[Table::Message as usize])?;
            let mut queue = txn.open_table(NAMES[Table::Queue as usize])?;
            let mut states = txn.open_table(NAMES[Table::State as usize])?;
            let mut value = Vec::with_capacity(256);
            for (transaction, message) in transactions {
                match transaction {
                    Transaction::Receive => {
                        value.clear();
                        message.message_value(&mut value);
                        messages.insert(&message.message_key()[..], &value[..])?;
                        queue.insert(&message.queue_key()[..], &message.queue_value()[..])?;
                    }
                    Transaction::Deliver => {
                        let gone = queue.remove(&message.queue_key()[..])?.is_none();
                        ensure!(!gone, "redb: the queue row is gone");
                        let gone = messages.remove(&message.message_key()[..])?.is_none();
                        ensure!(!gone, "redb: the message is gone");
                        let state = message.state();
                        states.insert(&state.key()[..], &state.value()[..])?;
                    }
                }
            }
        }
        txn.commit().context("redb: commit")
    }

    fn read(&self, msg_id: u64, out: &mut Vec<u8>) -> Result<bool> {
        let table = self.db.begin_read()?.open_table(NAMES[Table::Message as usize])?;
        let value = table.get(&msg_id.to_be_bytes()[..])?;
        let there = value.is_some();
        value.iter().for_each(|value| out.extend_from_slice(value.value()));
        Ok(there)
    }

    fn head(&self, dst_key: u64, most: usize) -> Result<usize> {
        let [from, to] = queue_bounds(dst_key);
        let table = self.db.begin_read()?.open_table(NAMES[Table::Queue as usize])?;
        table.range(&from[..]..&to[..])?.take(most).try_fold(0, |n, row| Ok(row.map(|_| n + 1)?))
    }

    fn scan(&self, digest: &mut Digest) -> Result<()> {
        let txn = self.db.begin_read()?;
        for table in TABLES {
            for row in txn.open_table(NAMES[table as usize])?.iter()? {
                let (key, value) = row?;
                digest.row(table, key.value(), value.value());
            }
        }
        Ok(())
    }
}
