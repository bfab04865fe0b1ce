//! Containers as a snapshot shows them, for copies of the database.

use super::Snapshot;
use crate::container::{Container, SLOT_HEAD, clear_slot, write_slot};
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
    /// As [`Snapshot::get`]; [`crate::Error::Conflict`] for a row that was written before a
    /// column was added, and with it is longer than its slot.
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
                Some(row) if SLOT_HEAD + row.len() <= slot.len() => {
                    write_slot(slot, row, t.layout.generation);
                }
                Some(_) => return Err(t.changed()),
                None => clear_slot(slot, true),
            }
        }
        drop(versions);
        drop(bytes);
        // Now that it is read.
        self.stands(t).map(|()| Some(copy))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Column, ColumnType, Database, Error, Schema};

    /// Rows that are kept for a snapshot have the columns of today. One that was written before a
    /// column was added may then be longer than its slot, which an image must not be written with:
    /// a backup takes the log's way then.
    #[test]
    fn an_image_has_no_row_that_is_longer_than_its_slot() {
        let db = Database::in_memory().unwrap();
        let schema = Schema::new("t").column("id", ColumnType::Int64).column("a", ColumnType::VarBytes(400));
        let t = db.create_table(schema.primary_key(&["id"])).unwrap();
        // One of these lengths fills its slot.
        let bytes = [7; 400];
        let lengths = 0..200i64;
        db.run(|tx| {
            let mut each = lengths.clone();
            each.try_for_each(|id| tx.insert(&t, &[id.into(), bytes[..id as usize].into()]))
        })
        .unwrap();
        let more = Column { name: "b".into(), kind: ColumnType::VarBytes(100), nullable: false };
        let t = db.add_column(&t, more, bytes[..100].into()).unwrap();
        let engine = &*db.0.engine;
        let snapshot = Snapshot::of(engine);
        db.run(|tx| lengths.clone().try_for_each(|id| tx.delete(&t, &[id.into()]).map(drop))).unwrap();
        let images: Vec<_> = t.0.containers.iter().map(|(_, c)| snapshot.image(&t.0, c)).collect();
        assert!(!images.is_empty());
        assert!(images.iter().all(|image| matches!(image, Err(Error::Conflict { .. }))), "{images:?}");
        drop(snapshot);
        assert_eq!(db.backup("/copy").unwrap().gsn, 2);
    }
}
