//! Filling an empty volatile table: what can be made again need not be brought in row by
//! row, by transactions.
//!
//! 1. [`Database::fill`] takes the table away from everybody else: it does not exist until it is
//!    full.
//! 2. Any number of threads put rows into containers, without locks, log and indexes.
//! 3. [`Fill::finish`] builds the indexes from the containers, sorted and on several threads, as a
//!    restart does.

use crate::container::{CLASSES, class_of, write_slot};
use crate::database::Database;
use crate::documented::documented;
use crate::error::{Error, Result};
use crate::recovery::build_indexes;
use crate::schema::Logging;
use crate::spawner::Spawner;
use crate::sync;
use crate::table::{Table, TableInner};
use crate::value::Value;
use std::sync::Arc;

/// An empty [`Logging::Volatile`] table that is being filled. Nobody else may use it meanwhile; who
/// tries gets [`Error::NoSuchTable`]. If this is dropped before [`Fill::finish`], or that fails,
/// the table is there again, empty as it was, and its memory is given back: as it would be if the
/// database were opened again.
///
/// ```
/// use mmdb::{ColumnType, Database, Logging, Schema};
/// let db = Database::in_memory()?;
/// let t = db.create_table(
///     Schema::new("t").column("id", ColumnType::Int64).ordered_primary_key(&["id"]).logging(Logging::Volatile),
/// )?;
/// let fill = db.fill(&t)?;
/// let mut writer = fill.writer();
/// for id in (0..1000).rev() {
///     writer.put(&[id.into()])?;
/// }
/// drop(writer);
/// fill.finish()?;
/// let first = db.begin()?.scan(&t)?.next().transpose()?;
/// assert_eq!(first.map(|row| row.at(0) == 0.into()), Some(true));
/// # Ok::<(), mmdb::Error>(())
/// ```
#[derive(Debug)]
#[must_use = "the table exists again once it is finished"]
pub struct Fill {
    table: Arc<TableInner>,
    whole: bool,
    spawner: Spawner,
}

impl Drop for Fill {
    fn drop(&mut self) {
        if !self.whole {
            self.table.discard_rows();
        }
        // Nobody drops a table that is being filled, so this is refused to nobody but a defect.
        let ended = self.table.life.end_fill();
        assert!(ended || std::thread::panicking(), "nobody else changes a table that is being filled");
    }
}

/// Puts rows into a table that is being filled, for one thread.
///
/// ```
/// # use mmdb::{ColumnType, Database, Logging, Schema};
/// # let db = Database::in_memory()?;
/// # let t = db.create_table(
/// #     Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]).logging(Logging::Volatile),
/// # )?;
/// let fill = db.fill(&t)?;
/// std::thread::scope(|scope| {
///     for part in 0..4 {
///         let mut writer = fill.writer();
///         scope.spawn(move || (part * 100..part * 100 + 100).try_for_each(|id| writer.put(&[id.into()])));
///     }
/// });
/// fill.finish()?;
/// assert_eq!(db.begin()?.scan(&t)?.count(), 400);
/// # Ok::<(), mmdb::Error>(())
/// ```
#[derive(Debug)]
pub struct FillWriter<'a> {
    table: &'a TableInner,
    stripe: usize,
    row: Vec<u8>,
}

impl Database {
    /// Begins to fill an empty table whose rows nothing keeps ([`Logging::Volatile`]). Waits for a change of a definition
    /// that is under way, and for no transaction: one that has used the table before gets
    /// [`Error::NoSuchTable`] when it goes on with it, or commits what it wrote there.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Error, Logging, Schema};
    /// # let db = Database::in_memory()?;
    /// let schema = |name| Schema::new(name).column("id", ColumnType::Int64).primary_key(&["id"]);
    /// let t = db.create_table(schema("t").logging(Logging::Volatile))?;
    /// let logged = db.create_table(schema("logged"))?;
    /// assert!(matches!(db.fill(&logged), Err(Error::Operation { .. })), "its rows would be missing in the log");
    /// let fill = db.fill(&t)?;
    /// assert!(matches!(db.table("t"), Err(Error::NoSuchTable { .. })));
    /// fill.finish()?;
    /// assert!(db.table("t").is_ok());
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Operation`] if the table is logged or checkpointed, or has rows;
    /// [`Error::NoSuchTable`].
    pub fn fill(&self, table: &Table) -> Result<Fill> {
        documented("Database::fill", || {
            let engine = &self.0.engine;
            // Nobody changes the table's definition meanwhile.
            let _turn = engine.alterations.lock();
            let mine = engine.table_of(table)?;
            let refuse = |reason: &str| {
                Err(Error::Operation {
                    table: table.name().to_owned(),
                    operation: "fill it",
                    reason: reason.to_owned(),
                })
            };
            match mine.schema.logging {
                Logging::Volatile => {}
                Logging::Checkpointed => return refuse("its rows are in checkpoints"),
                Logging::Logged => return refuse("its rows are logged"),
            }
            // Looked at first: who uses a table that is not to be filled must not notice.
            if mine.rows() > 0 {
                return refuse("it has rows");
            }
            if !mine.life.begin_fill() {
                return Err(mine.gone());
            }
            // Commits look once more at the table inside the gate, and slots of it are taken and
            // given back there: who was in has done so by now, who comes later finds that the table
            // is in another life.
            engine.quiesce();
            // Some may have come meanwhile.
            let whole = mine.rows() > 0;
            let fill = Fill { table: Arc::clone(mine), whole, spawner: engine.options.spawner.clone() };
            if whole { refuse("it has rows") } else { Ok(fill) }
        })
    }
}

impl Fill {
    /// A writer for one thread.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Logging, Schema};
    /// # let db = Database::in_memory()?;
    /// # let t = db.create_table(
    /// #     Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]).logging(Logging::Volatile),
    /// # )?;
    /// let fill = db.fill(&t)?;
    /// fill.writer().put(&[1.into()])?;
    /// fill.finish()?;
    /// assert_eq!(db.stats().tables[0].rows, 1);
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    #[must_use]
    pub fn writer(&self) -> FillWriter<'_> {
        FillWriter { table: &self.table, stripe: sync::processor(), row: Vec::new() }
    }

    /// Builds the indexes, and gives the table back to everybody.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Error, Logging, Schema};
    /// # let db = Database::in_memory()?;
    /// # let t = db.create_table(
    /// #     Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]).logging(Logging::Volatile),
    /// # )?;
    /// let fill = db.fill(&t)?;
    /// fill.writer().put(&[1.into()])?;
    /// fill.writer().put(&[1.into()])?;
    /// let refused = fill.finish();
    /// assert!(matches!(refused, Err(Error::DuplicateKey { .. })), "two rows share a key");
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::DuplicateKey`] if two rows share a unique key; [`Error::MemoryLimit`]. The table is
    /// empty again then.
    pub fn finish(mut self) -> Result<()> {
        documented("Fill::finish", || {
            let threads = std::thread::available_parallelism().map_or(1, usize::from);
            build_indexes(&self.table, threads, &self.spawner)?;
            if self.table.space.lacks(0) {
                return Err(self.table.full());
            }
            self.whole = true;
            Ok(())
        })
    }
}

impl FillWriter<'_> {
    /// Adds a row. That its keys are its own is checked at the end.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Error, Logging, Schema};
    /// # let db = Database::in_memory()?;
    /// # let t = db.create_table(
    /// #     Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]).logging(Logging::Volatile),
    /// # )?;
    /// let fill = db.fill(&t)?;
    /// let mut writer = fill.writer();
    /// assert!(matches!(writer.put(&["one".into()]), Err(Error::Value { .. })), "not an integer");
    /// writer.put(&[1.into()])?;                                  // the writer goes on
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Value`]; [`Error::Operation`] if the number of values is wrong;
    /// [`Error::RowTooLarge`]; [`Error::MemoryLimit`], [`Error::OutOfMemory`],
    /// [`Error::TableFull`].
    pub fn put(&mut self, values: &[Value<'_>]) -> Result<()> {
        documented("FillWriter::put", || {
            let t = self.table;
            self.row.clear();
            t.layout.encode(values, &mut self.row)?;
            let class = class_of(self.row.len(), t.space.container_size);
            let class = class.ok_or_else(|| t.row_too_large(self.row.len()))?;
            // The indexes come at the end, when it is too late to find that there is no memory for
            // them.
            let slots = t.space.container_size / CLASSES[usize::from(class)];
            let rows = u64::from(t.containers.len()).saturating_add(1).saturating_mul(slots as u64);
            let rid = t.allocate(class, self.stripe, t.entry_bytes(rows))?;
            let container = t.container(rid)?;
            let mut bytes = container.bytes.write();
            let slot = bytes.get_mut(container.range(rid.slot())).ok_or_else(|| t.gone())?;
            write_slot(slot, &self.row, t.layout.generation);
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ColumnType, Options, Schema};

    fn numbers() -> (Database, Table) {
        let db = Database::open("/mmdb", Options::in_memory()).unwrap();
        let schema = Schema::new("t").column("id", ColumnType::Int64).column("n", ColumnType::Int64);
        let schema = schema.primary_key(&["id"]).ordered_index("by_n", &["n"]).logging(Logging::Volatile);
        let t = db.create_table(schema).unwrap();
        (db, t)
    }

    #[test]
    fn a_filled_table_is_whole_and_goes_on() {
        let (db, t) = numbers();
        let fill = db.fill(&t).unwrap();
        let mut writer = fill.writer();
        (0..10_000i64).for_each(|id| writer.put(&[id.into(), (id % 7).into()]).unwrap());
        fill.finish().unwrap();
        db.verify().unwrap();
        // Slots that were filled are not free, those that were not are free once.
        db.run(|tx| (10_000..20_000i64).try_for_each(|id| tx.insert(&t, &[id.into(), 9.into()]))).unwrap();
        db.run(|tx| {
            (0..20_000i64).try_for_each(|id| tx.delete(&t, &[id.into()]).map(|there| assert!(there)))
        })
        .unwrap();
        db.run(|tx| (0..20_000i64).try_for_each(|id| tx.insert(&t, &[id.into(), 1.into()]))).unwrap();
        db.verify().unwrap();
        assert_eq!(db.stats().tables[0].rows, 20_000);
    }

    #[test]
    fn nobody_uses_a_table_that_is_being_filled() {
        let (db, t) = numbers();
        let mut before = db.begin().unwrap();
        before.insert(&t, &[1.into(), 1.into()]).unwrap();
        let fill = db.fill(&t).unwrap();
        assert!(matches!(before.commit(), Err(Error::NoSuchTable { .. })));
        assert!(matches!(db.fill(&t), Err(Error::NoSuchTable { .. })));
        fill.finish().unwrap();
        db.run(|tx| tx.insert(&t, &[1.into(), 1.into()])).unwrap();
        assert!(matches!(db.fill(&t), Err(Error::Operation { .. })), "it has a row now");
        assert!(db.begin().unwrap().get(&t, &[1.into()]).unwrap().is_some(), "and keeps it");
    }
}
