//! All that a snapshot shows, as lines of text.

use super::{Snapshot, SnapshotCursor};
use crate::documented::documented;
use crate::error::{Error, Result};
use crate::medium::MediumFile;
use crate::row::Row;
use crate::table::{Table, TableInner};
use crate::value::Value;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// A dump is written in pieces of about so many bytes.
const PIECE: usize = 1 << 20;

/// A row of a table as a line of JSON, without its end.
pub(crate) fn line_of(table: &str, row: &Row) -> String {
    format!("{{\"table\":{},\"row\":{}}}", Value::Text(table), row.to_json())
}

/// An iterator over all rows of a snapshot as lines of JSON, made by [`Snapshot::dump`]. It returns
/// an error once, and nothing behind it.
///
/// ```
/// # use mmdb::{ColumnType, Database, Schema};
/// # let db = Database::in_memory()?;
/// # let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).ordered_primary_key(&["id"]))?;
/// db.run(|tx| (1..=3i64).try_for_each(|id| tx.insert(&t, &[id.into()])))?;
/// let snapshot = db.snapshot()?;
/// assert_eq!(snapshot.dump()?.last().transpose()?, Some(r#"{"table":"t","row":{"id":3}}"#.into()));
/// # Ok::<(), mmdb::Error>(())
/// ```
#[derive(Debug)]
pub struct SnapshotDump<'a, 'db> {
    snapshot: &'a Snapshot<'db>,
    /// Those behind the one at hand, as they were defined when the dump began.
    tables: std::vec::IntoIter<Table>,
    /// The name of the table at hand, and its rows.
    at: Option<(String, SnapshotCursor<'a, 'db>)>,
    failed: bool,
}

impl SnapshotDump<'_, '_> {
    fn line(&mut self) -> Result<Option<String>> {
        loop {
            if let Some((name, rows)) = &mut self.at
                && let Some(row) = rows.next().transpose()?
            {
                return Ok(Some(line_of(name, &row)));
            }
            let Some(table) = self.tables.next() else { return Ok(None) };
            // Not `Table::name`, which is of this moment: where two tables trade their names
            // meanwhile, both would have one.
            self.at = Some((table.0.schema.name.clone(), self.snapshot.scan(&table)?));
        }
    }
}

impl Iterator for SnapshotDump<'_, '_> {
    type Item = Result<String>;

    fn next(&mut self) -> Option<Result<String>> {
        if self.failed {
            return None;
        }
        let line = self.line();
        self.failed = line.is_err();
        line.transpose()
    }
}

impl<'db> Snapshot<'db> {
    /// All tables that it shows, in order of creation.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Error, Schema};
    /// # let db = Database::in_memory()?;
    /// let make = |name: &str| {
    ///     db.create_table(Schema::new(name).column("id", ColumnType::Int64).primary_key(&["id"]))
    /// };
    /// let t = make("t")?;
    /// let snapshot = db.snapshot()?;
    /// make("later")?;
    /// assert_eq!(snapshot.tables()?.iter().map(|t| t.name().to_owned()).collect::<Vec<_>>(), ["t"]);
    /// db.drop_table(&t)?;
    /// assert!(matches!(snapshot.tables(), Err(Error::NoSuchTable { .. })), "and not one less");
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoSuchTable`] if one of them was filled or dropped since, [`Error::Operation`] if
    /// it got or lost a column; [`Error::SnapshotExpired`].
    pub fn tables(&self) -> Result<Vec<Table>> {
        documented("Snapshot::tables", || {
            let names = self.db.names.read();
            let there: HashMap<u32, &Arc<TableInner>> = names.values().map(|t| (t.id, t)).collect();
            let mut tables = Vec::with_capacity(self.opened.tables.len());
            for (id, _) in &self.opened.tables {
                let table = there.get(id).copied().ok_or_else(|| self.db.missing(*id))?;
                self.stands(table)?;
                tables.push(Table(table.clone()));
            }
            Ok(tables)
        })
    }

    /// All rows of all tables as lines of JSON, those that `mmdb dump` prints of a closed database:
    /// `{"table":"t","row":{"id":1}}`. Nobody waits for it, and it waits for nobody. Rows of volatile
    /// tables are among them. Names are not those of the snapshot's moment: tables have the ones
    /// that they had when the dump began, whatever is renamed meanwhile, and columns those of
    /// today.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Schema};
    /// # let db = Database::in_memory()?;
    /// # let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
    /// db.run(|tx| tx.insert(&t, &[1.into()]))?;
    /// let snapshot = db.snapshot()?;
    /// db.run(|tx| tx.delete(&t, &[1.into()]))?;
    /// for line in snapshot.dump()? {
    ///     assert_eq!(line?, r#"{"table":"t","row":{"id":1}}"#);
    /// }
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Snapshot::tables`], here and from the iterator: a dump never lacks a table or a row.
    pub fn dump(&self) -> Result<SnapshotDump<'_, 'db>> {
        documented("Snapshot::dump", || {
            let tables = self.tables()?.into_iter();
            Ok(SnapshotDump { snapshot: self, tables, at: None, failed: false })
        })
    }

    /// Writes what [`Snapshot::dump`] gives into the new file `path`, durably, once all of it is
    /// durable in the database, and returns the number of rows. After an error there is no file.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Error, Schema};
    /// # let db = Database::in_memory()?;
    /// # let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
    /// db.run(|tx| (1..=3i64).try_for_each(|id| tx.insert(&t, &[id.into()])))?;
    /// assert_eq!(db.snapshot()?.dump_to("/dump")?, 3);
    /// assert!(matches!(db.snapshot()?.dump_to("/dump"), Err(Error::File { .. })), "it is there");
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Snapshot::dump`]; [`Error::File`] if something has that name; [`Error::Io`];
    /// [`Error::Indeterminate`] if what the snapshot shows may not become durable.
    pub fn dump_to(&self, path: impl AsRef<Path>) -> Result<u64> {
        documented("Snapshot::dump_to", || {
            let (path, medium) = (path.as_ref(), &*self.db.options.medium);
            let path = medium.absolute(path).map_err(Error::io("find the place of", path))?;
            if medium.entry(&path).map_err(Error::io("look at", &path))?.is_some() {
                return Err(Error::file(&path, "it is there already, and a dump is written to a new file"));
            }
            // A dump must not know what a crash takes back.
            self.ticket().wait()?;
            let file = medium.create(&path).map_err(Error::io("create", &path))?;
            let done = self.dump_into(&*file, &path).and_then(|rows| {
                let dir = path.parent().unwrap_or(&path);
                medium.sync_dir(dir).map_err(Error::io("sync", dir)).map(|()| rows)
            });
            if done.is_err() {
                // Half of one must not be taken for a whole one.
                let _ = medium.remove(&path);
            }
            done
        })
    }

    fn dump_into(&self, file: &dyn MediumFile, path: &Path) -> Result<u64> {
        let (mut rows, mut at, mut piece) = (0, 0, Vec::new());
        for line in self.dump()? {
            piece.extend_from_slice(line?.as_bytes());
            piece.push(b'\n');
            rows += 1;
            if piece.len() >= PIECE {
                file.write_at(at, &piece).map_err(Error::io("write", path))?;
                at += piece.len() as u64;
                piece.clear();
            }
        }
        file.write_at(at, &piece).map_err(Error::io("write", path))?;
        file.sync().map_err(Error::io("sync", path))?;
        Ok(rows)
    }
}
