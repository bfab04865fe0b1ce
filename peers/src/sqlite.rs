//! SQLite, bundled and linked in.
//!
//! Durability: `journal_mode = WAL`, `synchronous = FULL`: the log is synced at each commit, with
//! `fdatasync` (`.cargo/config.toml`; SQLite's default build has `fsync`). One writer at a time; in
//! one process the fair way is one connection behind a lock, so that waiting threads sleep instead
//! of polling a busy handler. It runs so, and behind the batching writer. Statements are prepared
//! once. Exclusive locking keeps the WAL index in the heap, the page cache holds everything, and
//! the log is written back at every 16 MiB instead of 4, so that checkpoints weigh less.

use crate::message::{Digest, Message, State};
use crate::peer::{Engine, Transaction};
use anyhow::{Context, Result, ensure};
use rusqlite::{Connection, params};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

const SCHEMA: &str = "
CREATE TABLE IF NOT EXISTS message(
  msg_id INTEGER PRIMARY KEY, account INTEGER NOT NULL, source BLOB NOT NULL, dst_key INTEGER NOT NULL,
  submit_us INTEGER NOT NULL, expire_us INTEGER NOT NULL, rank INTEGER NOT NULL, coding INTEGER NOT NULL,
  body BLOB NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS to_delivery(
  dst_key INTEGER NOT NULL, rank INTEGER NOT NULL, msg_id INTEGER NOT NULL, expire_us INTEGER NOT NULL,
  PRIMARY KEY(dst_key, rank, msg_id)) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS ms_state(
  dst_key INTEGER PRIMARY KEY, state INTEGER NOT NULL, ready_us INTEGER NOT NULL, last_msg INTEGER NOT NULL) STRICT;
";

/// An open database.
pub struct Sqlite {
    connection: Mutex<Connection>,
}

impl Sqlite {
    /// Opens or creates the database in `dir`.
    pub fn open(dir: &Path) -> Result<Sqlite> {
        let path = dir.join("peers.db");
        let connection = Connection::open(&path).with_context(|| format!("opening {}", path.display()))?;
        connection.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
        let mode: String = connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
        ensure!(mode == "wal", "SQLite: journal mode is {mode}, not wal");
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "wal_autocheckpoint", 4096)?;
        connection.pragma_update(None, "cache_size", -(1 << 20))?;
        connection.set_prepared_statement_cache_capacity(32);
        connection.execute_batch(SCHEMA)?;
        Ok(Sqlite { connection: Mutex::new(connection) })
    }
}

impl Engine for Sqlite {
    fn apply(&self, transactions: &[(Transaction, Message)]) -> Result<()> {
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        let mut insert_message =
            connection.prepare_cached("INSERT INTO message VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9)")?;
        let mut insert_queue = connection.prepare_cached("INSERT INTO to_delivery VALUES (?1,?2,?3,?4)")?;
        let mut delete_queue = connection
            .prepare_cached("DELETE FROM to_delivery WHERE dst_key = ?1 AND rank = ?2 AND msg_id = ?3")?;
        let mut delete_message = connection.prepare_cached("DELETE FROM message WHERE msg_id = ?1")?;
        let mut upsert_state = connection.prepare_cached(
            "INSERT INTO ms_state VALUES (?1,?2,?3,?4) ON CONFLICT(dst_key) DO UPDATE SET
             state = excluded.state, ready_us = excluded.ready_us, last_msg = excluded.last_msg",
        )?;
        for (transaction, m) in transactions {
            match transaction {
                Transaction::Receive => {
                    insert_message.execute(params![
                        m.msg_id,
                        m.account,
                        m.source,
                        m.dst_key,
                        m.submit_us,
                        m.expire_us,
                        m.rank,
                        m.coding,
                        m.body()
                    ])?;
                    insert_queue.execute(params![m.dst_key, m.rank, m.msg_id, m.expire_us])?;
                }
                Transaction::Deliver => {
                    let deleted = delete_queue.execute(params![m.dst_key, m.rank, m.msg_id])?;
                    ensure!(deleted == 1, "SQLite: the queue row is gone");
                    ensure!(delete_message.execute([m.msg_id])? == 1, "SQLite: the message is gone");
                    let state = m.state();
                    upsert_state.execute(params![
                        state.dst_key,
                        state.state,
                        state.ready_us,
                        state.last_msg
                    ])?;
                }
            }
        }
        connection.prepare_cached("COMMIT")?.execute([]).context("SQLite: commit")?;
        Ok(())
    }

    fn read(&self, msg_id: u64, out: &mut Vec<u8>) -> Result<bool> {
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let mut statement = connection.prepare_cached(
            "SELECT account, source, dst_key, submit_us, expire_us, rank, coding, body FROM message WHERE msg_id = ?1",
        )?;
        let mut rows = statement.query([msg_id])?;
        let Some(row) = rows.next()? else { return Ok(false) };
        out.extend_from_slice(&row.get::<_, u32>(0)?.to_le_bytes());
        out.extend_from_slice(row.get_ref(1)?.as_blob()?);
        for column in 2..5 {
            out.extend_from_slice(&row.get::<_, i64>(column)?.to_le_bytes());
        }
        out.extend_from_slice(&[row.get(5)?, row.get(6)?]);
        out.extend_from_slice(row.get_ref(7)?.as_blob()?);
        Ok(true)
    }

    fn head(&self, dst_key: u64, most: usize) -> Result<usize> {
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let mut statement = connection.prepare_cached(
            "SELECT rank, msg_id, expire_us FROM to_delivery WHERE dst_key = ?1 ORDER BY rank, msg_id LIMIT ?2",
        )?;
        let mut rows = statement.query(params![dst_key, most as u64])?;
        let mut count = 0;
        while rows.next()?.is_some() {
            count += 1;
        }
        Ok(count)
    }

    fn scan(&self, digest: &mut Digest) -> Result<()> {
        let connection = self.connection.lock().unwrap_or_else(PoisonError::into_inner);
        let mut statement = connection.prepare("SELECT * FROM message")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            digest.message(&Message::from_columns(
                row.get(0)?,
                row.get(1)?,
                row.get_ref(2)?.as_blob()?,
                row.get(3)?,
                row.get(4)?,
                row.get(5)?,
                row.get(6)?,
                row.get(7)?,
                row.get_ref(8)?.as_blob()?,
            )?);
        }
        let mut statement = connection.prepare("SELECT * FROM to_delivery")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            digest.queue(row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?);
        }
        let mut statement = connection.prepare("SELECT * FROM ms_state")?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            digest.state(&State {
                dst_key: row.get(0)?,
                state: row.get(1)?,
                ready_us: row.get(2)?,
                last_msg: row.get(3)?,
            });
        }
        Ok(())
    }
}
