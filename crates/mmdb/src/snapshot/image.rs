//! Containers as a snapshot shows them, for copies of the database.

use super::Snapshot;
use crate::container::{Container, clear_slot, write_slot};
use crate::engine::Engine;
use crate::error::Result;
use crate::sync;
use crate::table::TableInner;

impl<'db> Snapshot<'db> {
    /// As [`crate::Database::snapshot`].
    pub(crate) fn of(engine: &'db Engine) -> Snapshot<'db> {
        Snapshot { db: engine, opened: engine.open_snapshot(), stripe: sync::processor() }
    }

    /// The bytes of a container as they were. The slots' versions count changes, and may be higher
    /// than they were; bytes of rows that came later are zeros. `None` if it was made since.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub(crate) fn image(&self, t: &TableInner, c: &Container) -> Result<Option<Box<[u8]>>> {
        if c.born >= self.opened.number {
            return self.stands(t).map(|()| None);
        }
        let bytes = c.bytes.read();
        let mut copy = bytes.clone();
        let versions = c.versions.lock();
        for (number, row) in versions.shown_to(self.opened.number) {
            // A dropped table has no bytes.
            let Some(slot) = copy.get_mut(c.range(number)) else { continue };
            match row {
                Some(row) => write_slot(slot, row),
                None => clear_slot(slot, true),
            }
        }
        drop(versions);
        drop(bytes);
        // Now that it is read.
        self.stands(t).map(|()| Some(copy))
    }
}
