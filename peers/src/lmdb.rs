//! LMDB, through heed.
//!
//! Durability: the default, which syncs data and then the meta page at each commit. One writer at a
//! time (LMDB's own lock), so it runs as is and behind the batching writer. Writing through the map
//! (`MDB_WRITEMAP`) is left off, as LMDB's documentation has it by default: a stray write of the
//! application would reach the file.

use crate::message::{Digest, Message, TABLES, Table, queue_bounds};
use crate::peer::{Engine, Transaction};
use anyhow::{Context, Result, ensure};
use heed::types::Bytes;
use heed::{CommitOrAbort, Database, Env, EnvOpenOptions};
use std::ops::Bound;
use std::path::Path;

type Tree = Database<'static, Bytes, Bytes>;

/// An open environment.
pub struct Lmdb {
    env: &'static Env,
    tables: [Tree; 3],
}

impl Lmdb {
    /// Opens or creates the environment in `dir`.
    pub fn open(dir: &Path) -> Result<Lmdb> {
        // SAFETY: the file lies in a directory of this run, and only this process has it mapped.
        let env = unsafe { EnvOpenOptions::new().map_size(16 << 30).max_dbs(3).open(dir) }
            .with_context(|| format!("opening {}", dir.display()))?;
        // The tables borrow from the environment, and both last as long as the process, which ends
        // by being killed.
        let env: &'static Env = Box::leak(Box::new(env));
        let transaction = env.write_txn()?;
        let tables = env
            .create_databases_and_commit(transaction, |open, transaction| {
                let mut table = |name| open.create_database(transaction, Some(name));
                Ok::<_, heed::Error>(CommitOrAbort::<[Tree; 3], ()>::Commit([
                    table("message")?,
                    table("to_delivery")?,
                    table("ms_state")?,
                ]))
            })
            .context("LMDB: opening the tables")?
            .unwrap_commit();
        Ok(Lmdb { env, tables })
    }
}

impl Engine for Lmdb {
    fn apply(&self, transactions: &[(Transaction, Message)]) -> Result<()> {
        let [messages, queue, states] = &self.tables;
        let mut txn = self.env.write_txn()?;
        let mut value = Vec::with_capacity(256);
        for (transaction, message) in transactions {
            match transaction {
                Transaction::Receive => {
                    value.clear();
                    message.message_value(&mut value);
                    messages.put(&mut txn, &message.message_key(), &value)?;
                    queue.put(&mut txn, &message.queue_key(), &message.queue_value())?;
                }
                Transaction::Deliver => {
                    ensure!(queue.delete(&mut txn, &message.queue_key())?, "LMDB: the queue row is gone");
                    ensure!(messages.delete(&mut txn, &message.message_key())?, "LMDB: the message is gone");
                    let state = message.state();
                    states.put(&mut txn, &state.key(), &state.value())?;
                }
            }
        }
        txn.commit().context("LMDB: commit")
    }

    fn read(&self, msg_id: u64, out: &mut Vec<u8>) -> Result<bool> {
        let txn = self.env.read_txn()?;
        let value = self.tables[Table::Message as usize].get(&txn, &msg_id.to_be_bytes())?;
        out.extend_from_slice(value.unwrap_or_default());
        Ok(value.is_some())
    }

    fn head(&self, dst_key: u64, most: usize) -> Result<usize> {
        let ([from, to], txn) = (queue_bounds(dst_key), self.env.read_txn()?);
        let rows = self.tables[Table::Queue as usize].range(&txn, &(Bound::Included(&from[..]), Bound::Excluded(&to[..])))?;
        rows.take(most).try_fold(0, |n, row| Ok(row.map(|_| n + 1)?))
    }

    fn scan(&self, digest: &mut Digest) -> Result<()> {
        let txn = self.env.read_txn()?;
        for table in TABLES {
            for row in self.tables[table as usize].iter(&txn)? {
                let (key, value) = row?;
                digest.row(table, key, value);
            }
        }
        debug_assert_eq!(Table::State as usize, 2);
        Ok(())
    }
}
