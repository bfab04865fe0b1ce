//! A store as it is at one moment, to be looked at: nothing of it is changed, and whoever has it
//! open goes on.

use super::foreign;
use super::url::PostgresqlUrl;
use super::wire::{Wire, Wires};
use crate::model::Record;
use crate::store::{Acknowledge, Durability, EachRow, Row, Session, Store, StoreError, scan_all};
use std::sync::{Arc, Mutex, PoisonError};

/// A store of a server, in one transaction that only reads.
pub struct PostgresqlSnapshot {
    wire: Mutex<Wire>,
    wires: Arc<Wires>,
    name: &'static str,
}

impl PostgresqlSnapshot {
    /// Looks at the store of `url`; from then on all that is read is as it is now.
    ///
    /// # Errors
    /// There is none; the role may not read it.
    pub fn open(url: &PostgresqlUrl) -> Result<PostgresqlSnapshot, StoreError> {
        let wires = Arc::new(Wires::default());
        wires.limit_silence(url.timeout());
        let mut wire = foreign::dial(url, &wires)?;
        foreign::found(&mut wire, url)?;
        wire.script("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")?;
        // The first statement takes the snapshot.
        wire.script("SELECT FROM smsc_store")?;
        Ok(PostgresqlSnapshot { wire: Mutex::new(wire), wires, name: url.kind().name() })
    }

    fn scan_table<R: Record>(&self, wrap: fn(R) -> Row, each: EachRow<'_>) -> Result<(), StoreError> {
        let mut wire = self.wire.lock().unwrap_or_else(PoisonError::into_inner);
        wire.prepare("", &format!("SELECT * FROM {}", R::TABLE.name), &[])?;
        wire.execute("", &[])?;
        wire.sync();
        wire.until_ready(&mut |row| each(wrap(R::read(&row)?)))
    }
}

impl Store for PostgresqlSnapshot {
    fn name(&self) -> &str {
        self.name
    }

    fn durability(&self) -> Durability {
        Durability::PowerCut
    }

    fn has_flusher(&self) -> bool {
        false
    }

    fn session(&self, _: Acknowledge) -> Result<Box<dyn Session + '_>, StoreError> {
        Err(StoreError::protocol("a snapshot has no sessions"))
    }

    fn abandon(&self) {
        self.wires.abandon();
    }

    fn scan(&self, each: EachRow<'_>) -> Result<(), StoreError> {
        scan_all!(self.scan_table, each)
    }
}
