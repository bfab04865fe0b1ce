//! mmdb, in the process.
//!
//! Durability: the default, one log stream, differential log. Asynchronous clients hold tickets and
//! wait for the oldest. Locking by record, every table logged; default options throughout. Keys:
//! hash for `message` and `ms_state`, ordered for `to_delivery`.

use crate::message::{Digest, Message, State};
use crate::peer::{Client, Peer, Transaction};
use anyhow::{Context, Result, ensure};
use mmdb::{ColumnType, Database, Durability, Options, Row, Schema, Table, Ticket, Value};
use std::collections::VecDeque;
use std::path::Path;

/// An open database.
pub struct Mmdb {
    db: Database,
    message: Table,
    to_delivery: Table,
    ms_state: Table,
}

impl Mmdb {
    /// Opens or creates the database in `dir`. `sustained`: with checkpoints.
    pub fn open(dir: &Path, sustained: bool) -> Result<Mmdb> {
        // Several checkpoints in the time of a run, as in the long run of a larger store.
        let options = match sustained {
            true => Options { checkpoint_log_bytes: 128 << 20, ..Options::default() },
            false => Options::default(),
        };
        let db = Database::open(dir, options).with_context(|| format!("opening {}", dir.display()))?;
        let table = |schema: Schema| match db.table(&schema.name) {
            Ok(table) => Ok(table),
            Err(mmdb::Error::NoSuchTable { .. }) => db.create_table(schema),
            Err(error) => Err(error),
        };
        use ColumnType::{FixedBytes, Int16, Int32, Int64, Time, VarBytes};
        let message = table(
            Schema::new("message")
                .column("msg_id", Int64)
                .column("account", Int32)
                .column("source", FixedBytes(crate::message::SOURCE_LEN as u16))
                .column("dst_key", Int64)
                .column("submit_us", Time)
                .column("expire_us", Time)
                .column("rank", Int16)
                .column("coding", Int16)
                .column("body", VarBytes(crate::message::BODY_MAX as u16))
                .primary_key(&["msg_id"]),
        )?;
        let to_delivery = table(
            Schema::new("to_delivery")
                .column("dst_key", Int64)
                .column("rank", Int16)
                .column("msg_id", Int64)
                .column("expire_us", Time)
                .ordered_primary_key(&["dst_key", "rank", "msg_id"]),
        )?;
        let ms_state = table(
            Schema::new("ms_state")
                .column("dst_key", Int64)
                .column("state", Int16)
                .column("ready_us", Time)
                .column("last_msg", Int64)
                .primary_key(&["dst_key"]),
        )?;
        Ok(Mmdb { db, message, to_delivery, ms_state })
    }

    fn receive(&self, m: &Message) -> mmdb::Result<Ticket> {
        let done = self.db.run_with(Durability::Durable, |tx| {
            tx.insert(
                &self.message,
                &[
                    int(m.msg_id),
                    int(m.account),
                    Value::Bytes(&m.source),
                    int(m.dst_key),
                    Value::Time(m.submit_us),
                    Value::Time(m.expire_us),
                    int(m.rank),
                    int(m.coding),
                    Value::Bytes(m.body()),
                ],
            )?;
            tx.insert(
                &self.to_delivery,
                &[int(m.dst_key), int(m.rank), int(m.msg_id), Value::Time(m.expire_us)],
            )
        });
        done.map(|((), ticket)| ticket)
    }

    /// Returns also whether the rows to delete were there.
    fn deliver(&self, m: &Message) -> mmdb::Result<(bool, Ticket)> {
        let state = m.state();
        self.db.run_with(Durability::Durable, |tx| {
            let queued = tx.delete(&self.to_delivery, &[int(m.dst_key), int(m.rank), int(m.msg_id)])?;
            let stored = tx.delete(&self.message, &[int(m.msg_id)])?;
            let row =
                [int(state.dst_key), int(state.state), Value::Time(state.ready_us), int(state.last_msg)];
            tx.upsert(&self.ms_state, &row)?;
            Ok(queued && stored)
        })
    }
}

/// An integer column; every number of the workload fits 63 bits.
fn int<'a>(number: impl Into<u64>) -> Value<'a> {
    Value::Int(number.into() as i64)
}

/// An integer or a time out of a row.
fn number(row: &Row, column: usize) -> Result<i64> {
    row.at(column).as_int().with_context(|| format!("column {column} is no number"))
}

/// Bytes out of a row.
fn bytes(row: &Row, column: usize) -> Result<&[u8]> {
    row.at(column).as_bytes().with_context(|| format!("column {column} holds no bytes"))
}

impl Peer for Mmdb {
    fn client(&self) -> Result<Box<dyn Client + '_>> {
        Ok(Box::new(MmdbClient { mmdb: self, tickets: VecDeque::new() }))
    }

    fn scan(&self, digest: &mut Digest) -> Result<()> {
        let mut tx = self.db.begin()?;
        for row in tx.scan(&self.message)? {
            let row = row?;
            digest.message(&Message::from_columns(
                number(&row, 0)? as u64,
                number(&row, 1)? as u32,
                bytes(&row, 2)?,
                number(&row, 3)? as u64,
                number(&row, 4)?,
                number(&row, 5)?,
                number(&row, 6)? as u8,
                number(&row, 7)? as u8,
                bytes(&row, 8)?,
            )?);
        }
        for row in tx.scan(&self.to_delivery)? {
            let row = row?;
            let (dst_key, msg_id) = (number(&row, 0)? as u64, number(&row, 2)? as u64);
            digest.queue(dst_key, number(&row, 1)? as u8, msg_id, number(&row, 3)?);
        }
        for row in tx.scan(&self.ms_state)? {
            let row = row?;
            digest.state(&State {
                dst_key: number(&row, 0)? as u64,
                state: number(&row, 1)? as u8,
                ready_us: number(&row, 2)?,
                last_msg: number(&row, 3)? as u64,
            });
        }
        Ok(())
    }

    fn log_bytes(&self) -> Result<u64> {
        Ok(self.db.stats().flushed_bytes)
    }
}

struct MmdbClient<'a> {
    mmdb: &'a Mmdb,
    /// Of commits under way, oldest first.
    tickets: VecDeque<Ticket>,
}

impl Client for MmdbClient<'_> {
    fn submit(&mut self, transaction: Transaction, message: &Message) -> Result<()> {
        let ticket = match transaction {
            Transaction::Receive => self.mmdb.receive(message)?,
            Transaction::Deliver => {
                let (there, ticket) = self.mmdb.deliver(message)?;
                ensure!(there, "mmdb: the message or its queue row is gone");
                ticket
            }
        };
        self.tickets.push_back(ticket);
        Ok(())
    }

    fn read(&mut self, msg_id: u64, out: &mut Vec<u8>) -> Result<bool> {
        let read = self.mmdb.db.get_with(&self.mmdb.message, &[int(msg_id)], |row| {
            let number = |column| row.at(column).as_int().unwrap_or(0);
            out.extend_from_slice(&(number(1) as u32).to_le_bytes());
            out.extend_from_slice(row.at(2).as_bytes().unwrap_or_default());
            [3, 4, 5].into_iter().for_each(|column| out.extend_from_slice(&number(column).to_le_bytes()));
            out.extend_from_slice(&[number(6) as u8, number(7) as u8]);
            out.extend_from_slice(row.at(8).as_bytes().unwrap_or_default());
        })?;
        Ok(read.is_some())
    }

    fn head(&mut self, dst_key: u64, most: usize) -> Result<usize> {
        let snapshot = self.mmdb.db.snapshot()?;
        let mut rows = snapshot.range(&self.mmdb.to_delivery, "primary", [int(dst_key)]..=[int(dst_key)])?;
        let mut count = 0;
        while count < most && rows.next_with(|row| row.at(2).as_int())?.flatten().is_some() {
            count += 1;
        }
        Ok(count)
    }

    fn settle(&mut self) -> Result<usize> {
        if let Some(oldest) = self.tickets.front() {
            oldest.wait()?;
        }
        let horizon = self.mmdb.db.horizon();
        let settled = self.tickets.iter().take_while(|ticket| ticket.gsn() <= horizon).count();
        self.tickets.drain(..settled);
        Ok(settled)
    }
}
