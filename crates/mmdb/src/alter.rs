//! Changes of a table's definition: columns, names, indexes.
//!
//! Each is stated in the manifest first and then made in memory, whole. A column that comes or goes
//! changes no row (`generations.rs`). The table is taken for a moment, as a drop takes it: no
//! transaction works with two definitions.
//!
//! An index is built while others work:
//! 1. With the table taken for a moment, a definition takes its place that has the index behind the
//!    others: nobody can look for it yet, and every commit maintains it from now on.
//! 2. The rows are entered, container by container, each under its latch: a commit that changes a
//!    row of it comes before, and then its row is entered, or after, and then it finds the entry.
//! 3. Of a unique index every key that came twice is looked at again while no commit is half
//!    applied. Those that commit meanwhile are refused doubled keys as if the index were there.
//! 4. The rows of a unique one are made durable as they are now: a crash must not bring back those
//!    of before, which may have been doubled.
//! 5. The manifest states the index, and then it is found. If anything fails before that, the index
//!    is taken out again. A crash in between leaves nothing, for indexes are only in memory.

use crate::column::Column;
use crate::container::{Rid, Slot};
use crate::database::Database;
use crate::documented::documented;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::index::Index;
use crate::key::{self, KeyBuf};
use crate::log::HeldBack;
use crate::register::ManifestState;
use crate::row::Layout;
use crate::sabotage::has_defect;
use crate::schema::{IndexDef, IndexKind, Locking, Logging, Schema};
use crate::sync::thread;
use crate::table::{Growth, Table, TableInner};
use crate::value::Value;
use std::sync::Arc;

/// An index to be created.
///
/// ```
/// # use mmdb::{ColumnType, Database, Schema};
/// use mmdb::NewIndex;
/// let db = Database::in_memory()?;
/// let t = db.create_table(
///     Schema::new("t").column("id", ColumnType::Int64).column("n", ColumnType::Int64).primary_key(&["id"]),
/// )?;
/// db.create_index(&t, NewIndex::ordered("by_n", &["n"]))?;
/// db.create_index(&t, NewIndex::hash("only_n", &["n"]).unique())?;
/// assert_eq!(t.schema().indexes.len(), 3);
/// # Ok::<(), mmdb::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewIndex {
    name: String,
    columns: Vec<String>,
    kind: IndexKind,
    unique: bool,
}

impl NewIndex {
    fn new(name: &str, columns: &[&str], kind: IndexKind) -> NewIndex {
        let columns = columns.iter().map(|&column| column.to_owned()).collect();
        NewIndex { name: name.to_owned(), columns, kind, unique: false }
    }

    /// One for point reads.
    ///
    /// ```
    /// # use mmdb::NewIndex;
    /// assert_ne!(NewIndex::hash("by_n", &["n"]), NewIndex::ordered("by_n", &["n"]));
    /// ```
    #[must_use]
    pub fn hash(name: &str, columns: &[&str]) -> NewIndex {
        NewIndex::new(name, columns, IndexKind::Hash)
    }

    /// One for point and range reads.
    ///
    /// ```
    /// # use mmdb::NewIndex;
    /// assert_ne!(NewIndex::ordered("by_n", &["n"]), NewIndex::ordered("by_n", &["n", "id"]));
    /// ```
    #[must_use]
    pub fn ordered(name: &str, columns: &[&str]) -> NewIndex {
        NewIndex::new(name, columns, IndexKind::Ordered)
    }

    /// No two rows may share a key of it. In a unique index NULL equals NULL.
    ///
    /// ```
    /// # use mmdb::NewIndex;
    /// assert_ne!(NewIndex::hash("by_n", &["n"]), NewIndex::hash("by_n", &["n"]).unique());
    /// ```
    #[must_use]
    pub fn unique(mut self) -> NewIndex {
        self.unique = true;
        self
    }
}

/// What a change makes of a table.
struct Changed {
    schema: Schema,
    indexes: Vec<Index>,
    /// Rows have other columns.
    reshaped: bool,
    /// Handles of before may go on.
    continues: bool,
}

impl Changed {
    /// Another definition of rows that stay as they are.
    fn definition(schema: Schema, indexes: Vec<Index>) -> Changed {
        Changed { schema, indexes, reshaped: false, continues: true }
    }
}

impl Database {
    /// Adds a column behind the others. Rows that are there have `default` in it without being
    /// written again; so have those that a handle of before inserts without it. Snapshots that are
    /// open cannot read the table any more.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Schema};
    /// use mmdb::Column;
    /// let db = Database::in_memory()?;
    /// let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
    /// db.run(|tx| tx.insert(&t, &[1.into()]))?;
    /// let tries = Column { name: "tries".into(), kind: ColumnType::Int16, nullable: false };
    /// let now = db.add_column(&t, tries, 0.into())?;
    /// db.run(|tx| tx.insert(&now, &[2.into(), 7.into()]))?;
    /// db.run(|tx| tx.insert(&t, &[3.into()]))?;                  // the handle of before goes on
    /// let mut tx = db.begin()?;
    /// let tries: Vec<_> = (1..=3i64)
    ///     .map(|id| Ok(tx.get(&now, &[id.into()])?.and_then(|row| row.at(1).as_int())))
    ///     .collect::<mmdb::Result<_>>()?;
    /// assert_eq!(tries, [Some(0), Some(7), Some(0)]);
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Value`] if the default does not fit; [`Error::Schema`] if there is such a column;
    /// [`Error::RowTooLarge`] if a row that is there has no room for it; [`Error::Operation`] if
    /// columns were added and dropped as often as can be; [`Error::LockTimeout`] if the table is
    /// still busy after [`crate::Options::lock_timeout`]; [`Error::Io`], [`Error::Directory`], [`Error::Poisoned`];
    /// [`Error::NoSuchTable`], [`Error::TableChanged`].
    pub fn add_column(&self, table: &Table, column: Column, default: Value<'_>) -> Result<Table> {
        documented("Database::add_column", || {
            self.settle_ahead(table, &column, default)?;
            let settle = |t: &TableInner| self.settle_rows(t, &with_column(t, &column, default)?);
            self.alter_settled(table, settle, |t| {
                let (schema, indexes) = (with_column(t, &column, default)?, t.indexes.clone());
                Ok(Changed { schema, indexes, reshaped: true, continues: true })
            })
        })
    }

    /// Drops a column. Rows that are there keep its bytes until they are changed. Handles of before
    /// are refused with [`Error::TableChanged`], for columns are at other positions; snapshots that
    /// are open cannot read the table any more.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Error, Schema};
    /// let db = Database::in_memory()?;
    /// let t = db.create_table(
    ///     Schema::new("t").column("id", ColumnType::Int64).column("n", ColumnType::Int64).primary_key(&["id"]),
    /// )?;
    /// db.run(|tx| tx.insert(&t, &[1.into(), 10.into()]))?;
    /// let now = db.drop_column(&t, "n")?;
    /// assert!(matches!(db.begin()?.get(&t, &[1.into()]), Err(Error::TableChanged { .. })));
    /// assert_eq!(db.begin()?.get(&now, &[1.into()])?.map(|row| row.to_json()), Some(r#"{"id":1}"#.into()));
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Operation`] if an index has the column, rows expire by it, or columns were added
    /// and dropped as often as can be; [`Error::NoSuchColumn`]; [`Error::Schema`] of the last one;
    /// [`Error::LockTimeout`] if the table is still busy after [`crate::Options::lock_timeout`];
    /// [`Error::Io`], [`Error::Directory`], [`Error::Poisoned`]; [`Error::NoSuchTable`], [`Error::TableChanged`].
    pub fn drop_column(&self, table: &Table, name: &str) -> Result<Table> {
        documented("Database::drop_column", || {
            self.alter(table, |t| {
                let mut schema = t.schema.clone();
                require_generation(&schema)?;
                let at = column_of(&schema, name)?;
                if let Some(index) = schema.indexes.iter().find(|index| index.columns.contains(&at)) {
                    let what = if index.name == "primary" { "the primary key" } else { "an index" };
                    return Err(Error::Operation {
                        table: schema.name.clone(),
                        operation: "drop a column",
                        reason: format!("{name} is a column of {what}, {}; drop that first", index.name),
                    });
                }
                if schema.expiry.is_some_and(|expiry| expiry.column == at) {
                    return Err(Error::Operation {
                        table: schema.name.clone(),
                        operation: "drop a column",
                        reason: format!("rows expire by {name}"),
                    });
                }
                if schema.columns.len() == 1 {
                    return Err(Error::Schema {
                        table: schema.name,
                        reason: "no column would be left".into(),
                    });
                }
                schema.generations.remove(&schema.columns, at);
                schema.columns.remove(at);
                let behind = |column: &mut usize| *column -= usize::from(*column > at);
                schema.indexes.iter_mut().flat_map(|index| &mut index.columns).for_each(behind);
                schema.expiry.iter_mut().map(|expiry| &mut expiry.column).for_each(behind);
                // An index knows its columns by their positions: those behind it are told the new
                // ones.
                let indexes = t.indexes.iter().zip(&schema.indexes);
                let indexes = indexes.map(|(index, def)| index.renumbered(def)).collect();
                Ok(Changed { schema, indexes, reshaped: true, continues: false })
            })
        })
    }

    /// Gives a column another name. Handles go on.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Schema};
    /// let db = Database::in_memory()?;
    /// let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
    /// db.run(|tx| tx.insert(&t, &[1.into()]))?;
    /// db.rename_column(&t, "id", "number")?;
    /// let row = db.begin()?.get(&t, &[1.into()])?.expect("it is there");
    /// assert_eq!(row.get("number"), Some(1.into()));
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Schema`] if there is a column of the new name; [`Error::NoSuchColumn`];
    /// [`Error::LockTimeout`] if the table is still busy after [`crate::Options::lock_timeout`];
    /// [`Error::Io`], [`Error::Directory`], [`Error::Poisoned`]; [`Error::NoSuchTable`], [`Error::TableChanged`].
    pub fn rename_column(&self, table: &Table, name: &str, to: &str) -> Result<()> {
        documented("Database::rename_column", || {
            let renamed = self.alter(table, |t| {
                let mut schema = t.schema.clone();
                let at = column_of(&schema, name)?;
                to.clone_into(&mut schema.columns[at].name);
                schema.validate()?;
                Ok(Changed::definition(schema, t.indexes.clone()))
            });
            renamed.map(drop)
        })
    }

    /// Gives a table another name. Handles go on.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Schema};
    /// let db = Database::in_memory()?;
    /// let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
    /// db.rename_table(&t, "u")?;
    /// assert_eq!(t.name(), "u");
    /// assert!(db.table("t").is_err() && db.table("u").is_ok());
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::TableExists`]; [`Error::Schema`] if the new name is empty; [`Error::LockTimeout`]
    /// if the table is still busy after [`crate::Options::lock_timeout`]; [`Error::Io`], [`Error::Directory`],
    /// [`Error::Poisoned`]; [`Error::NoSuchTable`], [`Error::TableChanged`].
    pub fn rename_table(&self, table: &Table, to: &str) -> Result<()> {
        documented("Database::rename_table", || {
            let renamed = self.alter(table, |t| {
                let mut schema = t.schema.clone();
                to.clone_into(&mut schema.name);
                schema.validate()?;
                Ok(Changed::definition(schema, t.indexes.clone()))
            });
            renamed.map(drop)
        })
    }

    /// Drops an index. Handles go on.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Error, Schema};
    /// let db = Database::in_memory()?;
    /// let schema = Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]);
    /// let t = db.create_table(schema.ordered_index("by_id", &["id"]))?;
    /// db.drop_index(&t, "by_id")?;
    /// assert!(matches!(db.begin()?.get_by(&t, "by_id", &[1.into()]), Err(Error::NoSuchIndex { .. })));
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Operation`] for the primary key, and for the only index by which rows expire;
    /// [`Error::NoSuchIndex`]; [`Error::LockTimeout`] if the table is still busy after
    /// [`crate::Options::lock_timeout`]; [`Error::Io`], [`Error::Directory`], [`Error::Poisoned`];
    /// [`Error::NoSuchTable`], [`Error::TableChanged`].
    pub fn drop_index(&self, table: &Table, name: &str) -> Result<()> {
        documented("Database::drop_index", || {
            let mut gone = None;
            self.alter(table, |t| {
                let at = t.index(name)?;
                if at == 0 {
                    return Err(Error::Operation {
                        table: t.schema.name.clone(),
                        operation: "drop an index",
                        reason: "a table has a primary key".into(),
                    });
                }
                let (mut schema, mut indexes) = (t.schema.clone(), t.indexes.clone());
                schema.indexes.remove(at);
                if let Some(problem) = schema.expiry_problem() {
                    return Err(Error::Operation {
                        table: schema.name,
                        operation: "drop an index",
                        reason: format!("{problem} any more"),
                    });
                }
                gone = Some(indexes.remove(at));
                Ok(Changed::definition(schema, indexes))
            })?;
            if let Some(index) = gone {
                self.0.engine.discard_index(&index);
            }
            Ok(())
        })
    }

    /// Creates an index while others read and write the table. It is found when this returns, and
    /// survives a crash. The table is taken for a moment at the beginning, which waits for
    /// transactions that use it.
    ///
    /// Of a unique index doubled keys are refused to others from the beginning on, though it may
    /// come to nothing.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Error, NewIndex, Schema, Value};
    /// let db = Database::in_memory()?;
    /// let t = db.create_table(
    ///     Schema::new("t").column("id", ColumnType::Int64).column("n", ColumnType::Int64).primary_key(&["id"]),
    /// )?;
    /// db.run(|tx| (0..10i64).try_for_each(|id| tx.insert(&t, &[id.into(), (id / 2).into()])))?;
    /// db.create_index(&t, NewIndex::ordered("by_n", &["n"]))?;
    /// assert_eq!(db.begin()?.range(&t, "by_n", [Value::Int(3)]..)?.count(), 4);
    ///
    /// let doubled = db.create_index(&t, NewIndex::hash("only_n", &["n"]).unique()).unwrap_err();
    /// assert_eq!(doubled.to_string(), "table t, constraint only_n: key (0) is already present");
    /// assert_eq!(t.schema().indexes.len(), 2, "nothing of it is left");
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::DuplicateKey`] with the least key that two rows share, if it is to be unique;
    /// [`Error::Schema`] if there is such an index; [`Error::NoSuchColumn`];
    /// [`Error::MemoryLimit`]; [`Error::LockTimeout`] if the table is still busy after
    /// [`crate::Options::lock_timeout`], when this begins or, if it is to be unique, when all rows are
    /// in it; [`Error::Io`], [`Error::Directory`], [`Error::Poisoned`];
    /// [`Error::NoSuchTable`], [`Error::TableChanged`]. Nothing is left then.
    pub fn create_index(&self, table: &Table, index: NewIndex) -> Result<()> {
        documented("Database::create_index", || {
            let e = &self.0.engine;
            e.log.check()?;
            let _held = HeldBack::begin();
            let _turn = e.alterations.lock();
            let mine = e.table_of(table)?;
            let columns: Vec<&str> = index.columns.iter().map(|column| &**column).collect();
            let before = mine.schema.clone();
            let schema = before.index(usize::MAX, &index.name, &columns, index.kind, index.unique);
            schema.validate()?;
            let Some(def) = schema.indexes.last() else { return Err(mine.gone()) };
            let fresh = Index::unfinished(def, &e.space.budget);
            if e.space.lacks(mine.rows().saturating_mul(fresh.entry_bytes())) {
                return Err(mine.full());
            }
            let mut indexes = mine.indexes.clone();
            indexes.push(fresh.clone());
            let growing = self.begin_index(mine, &fresh, indexes.clone())?;
            let filled = fill_index(e, &growing, &fresh)
                .and_then(|()| self.outlast_users(&growing, &fresh))
                .and_then(|()| refuse_doubled(e, &growing, &fresh));
            // A checkpoint that is running is waited for here, and not when tasks are to be told of
            // what the next step makes durable.
            let settled = filled.map(|()| drop(e.admin.lock()));
            let built = settled.and_then(|()| e.keep_rows(&growing, &fresh)).and_then(|()| {
                let mut admin = e.admin.lock();
                let mut next = ManifestState::clone(&e.stated());
                put_schema(&mut next, growing.id, &schema);
                e.note_change(&mut next, growing.id);
                e.state_altered(&mut admin, next)
            });
            let last = match &built {
                Ok(()) => growing.redefined(schema.clone(), indexes),
                Err(_) => growing.redefined(growing.schema.clone(), mine.indexes.clone()),
            };
            // Rows, keys and positions are as before: nobody has to run again.
            e.exchange_table(&growing, &Arc::new(last), true, || fresh.finish());
            if built.is_err() {
                e.discard_index(&fresh);
            }
            built
        })
    }

    /// Lets commits maintain an index that nobody can look for yet.
    fn begin_index(
        &self,
        mine: &Arc<TableInner>,
        fresh: &Index,
        indexes: Vec<Index>,
    ) -> Result<Arc<TableInner>> {
        let e = &self.0.engine;
        // Every transaction that has used the table is over, so each one that commits from now on
        // has looked for the keys that it gives.
        let tx = self.locked_whole(&[mine])?;
        let growing = Arc::new(mine.redefined(mine.schema.clone(), indexes));
        e.exchange_table(mine, &growing, true, || {
            fresh.set_born(e.snapshots().newest());
            let redefined = mine.life.redefine();
            assert!(redefined, "nobody fills or drops a table whose definition changes");
        });
        drop(tx);
        Ok(growing)
    }

    /// Waits until every transaction is over that may have looked for a key in a unique index
    /// before the row that has it was entered. Those that begin now find it, so that after this no
    /// key is doubled any more; who changes rows without locks looks again at the commit.
    fn outlast_users(&self, growing: &Arc<TableInner>, fresh: &Index) -> Result<()> {
        if !fresh.def.unique || has_defect!(self.0.engine.options.defect(), OutlastsNobody) {
            return Ok(());
        }
        self.locked_whole(&[growing]).map(drop)
    }

    /// Refuses a definition in which a row is too long, and sees to it that none of before comes
    /// back after a crash. It stays so while the table is taken and what this returns is there.
    fn settle_rows(&self, t: &TableInner, schema: &Schema) -> Result<Option<Growth>> {
        let e = &self.0.engine;
        // Nobody keeps those off the table who lock nothing.
        let growth = (t.locking == Locking::None).then(|| {
            let growth = t.announce_growth(schema.generations.most_added());
            e.quiesce();
            growth
        });
        if require_room(t, schema)? {
            e.make_rows_durable(t)?;
        }
        Ok(growth)
    }

    /// Before the table is taken: leaves little to do to [`Database::settle_rows`], for which all
    /// wait who use the table. A checkpoint copies what has changed since the last one of its side,
    /// so after one for each side the third copies what came meanwhile.
    fn settle_ahead(&self, table: &Table, column: &Column, default: Value<'_>) -> Result<()> {
        let e = &self.0.engine;
        e.log.check()?;
        let t = e.table_of(table)?;
        if t.logging != Logging::Checkpointed {
            return Ok(());
        }
        // What is wrong with the column is told when the table is taken.
        let has_large_slots = with_column(t, column, default).and_then(|schema| require_room(t, &schema));
        if matches!(has_large_slots, Ok(true)) {
            e.checkpoint()?;
            e.checkpoint()?;
        }
        Ok(())
    }

    /// Changes a table's definition: states it, and then lets everybody find it.
    fn alter(&self, table: &Table, change: impl FnOnce(&TableInner) -> Result<Changed>) -> Result<Table> {
        self.alter_settled(table, |_| Ok(None), change)
    }

    /// As [`Database::alter`]; when the table is taken, its rows are settled first.
    fn alter_settled(
        &self,
        table: &Table,
        settle: impl Fn(&TableInner) -> Result<Option<Growth>>,
        change: impl FnOnce(&TableInner) -> Result<Changed>,
    ) -> Result<Table> {
        let e = &self.0.engine;
        e.log.check()?;
        // A checkpoint that is running is waited for before others have to wait for this, and
        // before the table is taken.
        drop(e.admin.lock());
        let _held = HeldBack::begin();
        let _turn = e.alterations.lock();
        let mine = e.table_of(table)?;
        let (tx, _growth, mut admin) = self.locked_to_state(&[mine], || settle(mine))?;
        let changed = change(mine)?;
        let renamed = changed.schema.name != mine.schema.name;
        if renamed && e.names.read().contains_key(&changed.schema.name) {
            return Err(Error::TableExists { table: changed.schema.name });
        }
        let mut next = ManifestState::clone(&e.stated());
        put_schema(&mut next, mine.id, &changed.schema);
        e.note_change(&mut next, mine.id);
        e.state_altered(&mut admin, next)?;
        let new = Arc::new(mine.redefined(changed.schema, changed.indexes));
        e.exchange_table(mine, &new, changed.continues, || {
            let done = if changed.reshaped { mine.life.reshape() } else { mine.life.redefine() };
            assert!(done, "nobody fills or drops a table whose definition changes");
        });
        drop(admin);
        drop(tx);
        Ok(Table(new))
    }

    /// The table of this definition: it is created if there is none of its name. If there is one,
    /// its definition must be the same.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Schema};
    /// let db = Database::in_memory()?;
    /// let schema = Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]);
    /// db.create_table_if_missing(schema.clone())?;
    /// db.create_table_if_missing(schema.clone())?;               // it is there, and as it should be
    /// let other = db.create_table_if_missing(schema.ordered_index("by_id", &["id"])).unwrap_err();
    /// assert_eq!(other.to_string(), "table t is there, and differs: index by_id is not there");
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::SchemaDiffers`] says what differs; [`Error::NoSuchTable`] if the table is being
    /// filled, or dropped at this moment; [`Error::Schema`], [`Error::NoSuchColumn`],
    /// [`Error::Operation`], [`Error::Io`], [`Error::Directory`] and [`Error::Poisoned`] mean what they do of
    /// [`Database::create_table`].
    pub fn create_table_if_missing(&self, schema: Schema) -> Result<Table> {
        documented("Database::create_table_if_missing", || {
            let schema = schema.of_new_table();
            schema.validate()?;
            let table = loop {
                let name = match self.create_table(schema.clone()) {
                    Err(Error::TableExists { table }) => table,
                    done => return done,
                };
                match self.table(&name) {
                    // It was dropped in between, and the name is free.
                    Err(_) if !self.0.engine.names.read().contains_key(&name) => {}
                    found => break found?,
                }
            };
            let differences = table.schema().differences(&schema);
            if differences.is_empty() {
                return Ok(table);
            }
            Err(Error::SchemaDiffers { table: schema.name, differences })
        })
    }
}

impl Engine {
    /// Makes another definition of a table what the manifest states.
    fn state_altered(&self, admin: &mut crate::admin::Admin, next: ManifestState) -> Result<()> {
        let defect = self.options.defect();
        if has_defect!(defect, AltersWithoutManifest) {
            self.log.register.assume(next);
            return Ok(());
        }
        if has_defect!(defect, AltersHalf) {
            let done = self.state(admin, next.clone());
            self.log.register.assume(next);
            return done.map(drop);
        }
        self.state(admin, next).map(drop)
    }

    /// Before a unique index is stated: what a crash may take back must not have been needed for
    /// keys to be distinct, or the next opening would find rows that contradict the index.
    fn keep_rows(&self, t: &TableInner, index: &Index) -> Result<()> {
        if !index.def.unique || has_defect!(self.options.defect(), StatesUniqueEarly) {
            return Ok(());
        }
        self.make_rows_durable(t)
    }

    /// After a crash the table has no rows of before.
    fn make_rows_durable(&self, t: &TableInner) -> Result<()> {
        match t.logging {
            Logging::Logged => self.log.flush_all(),
            Logging::Checkpointed => self.checkpoint().map(drop),
            Logging::Volatile => Ok(()),
        }
    }

    /// Gives the memory of an index back that no commit maintains any more.
    pub(crate) fn discard_index(&self, index: &Index) {
        index.clear();
        self.snapshots().give_back(index.clear_ghosts());
    }
}

/// Puts the definition of the table with this number in the place of the one that is stated.
pub(crate) fn put_schema(stated: &mut ManifestState, id: u32, schema: &Schema) {
    for (_, there) in stated.schemas.iter_mut().filter(|(number, _)| *number == id) {
        there.clone_from(schema);
    }
}

fn column_of(schema: &Schema, name: &str) -> Result<usize> {
    let missing = || Error::NoSuchColumn { table: schema.name.clone(), column: name.to_owned() };
    schema.columns.iter().position(|column| column.name == name).ok_or_else(missing)
}

fn require_generation(schema: &Schema) -> Result<()> {
    if !schema.generations.are_full() {
        return Ok(());
    }
    Err(Error::Operation {
        table: schema.name.clone(),
        operation: "add or drop a column",
        reason: format!("that was done {} times, the most in a table's life", schema.generations.now),
    })
}

/// The definition of a table with a column behind the others.
fn with_column(t: &TableInner, column: &Column, default: Value<'_>) -> Result<Schema> {
    let mut schema = t.schema.clone();
    require_generation(&schema)?;
    let one = std::iter::once((&*column.name, column.kind, column.nullable));
    let mut row = Vec::new();
    Layout::of(&schema.name, 1, one).encode(&[default], &mut row)?;
    schema.generations.add(&schema.columns, row);
    schema.columns.push(column.clone());
    schema.validate()?;
    Ok(schema)
}

/// Refuses a column for which a row that is there has no room: it could not be changed any more.
/// A row that was written long ago lacks all columns that were added since, not this one alone.
/// Whether there are slots that may hold such rows.
fn require_room(t: &TableInner, schema: &Schema) -> Result<bool> {
    let max = t.space.container_size - crate::container::SLOT_HEAD;
    let more = schema.generations.most_added();
    let layout = Layout::new(schema);
    let mut has_large_slots = false;
    for (_, c) in t.containers.iter().filter(|(_, c)| c.slot_size + more > max) {
        has_large_slots = true;
        let bytes = c.bytes.read();
        for slot in (0..c.slots(t.space.container_size)).filter_map(|slot| bytes.get(c.range(slot))) {
            if !Slot(slot).is_live() {
                continue;
            }
            let row = layout.row_of(Slot(slot));
            if row.as_ref().is_none_or(|row| row.len() > max) {
                return Err(t.row_too_large(row.map_or(Slot(slot).len() + more, |row| row.len())));
            }
        }
    }
    Ok(has_large_slots)
}

/// Enters all rows into an index that commits maintain already, and looks whether keys of a unique
/// one are doubled.
pub(crate) fn fill_index(e: &Engine, t: &TableInner, index: &Index) -> Result<()> {
    let mut k = Vec::new();
    for number in 0..t.containers.len() {
        let Some(c) = t.containers.get(number) else { continue };
        let bytes = c.bytes.read();
        for slot in 0..c.slots(t.space.container_size) {
            let row = bytes.get(c.range(slot)).and_then(|bytes| t.layout.row_of(Slot(bytes)));
            let Some(row) = row else { continue };
            k.clear();
            t.layout.row_key(&row, &index.def.columns, &mut k);
            // Under the latch: a commit that changes the row next finds the entry.
            index.insert(&k, key::hash(&k), Rid::new(number, slot));
        }
        drop(bytes);
        if t.space.lacks(0) {
            return Err(t.full());
        }
        e.log.check()?;
        // Who waits for the latch goes first.
        thread::yield_now();
    }
    Ok(())
}

/// Refuses a unique index that has all rows, if two of them share a key.
pub(crate) fn refuse_doubled(e: &Engine, t: &TableInner, index: &Index) -> Result<()> {
    let Some(doubts) = index.doubts() else { return Ok(()) };
    // Two rows that have a key after the same commits have it for good.
    let doubled = e.quiesced(|| {
        let (keys, more) = doubts.all();
        for key in keys {
            if let Some(row) = doubled_row(t, index, &key)? {
                return Ok(Some(t.layout.key_text(&row, &index.def.columns)));
            }
        }
        // What others trade meanwhile may be more than is remembered: then every row is looked at.
        let row = if more { least_doubled_row(t, index)? } else { None };
        Ok::<_, Error>(row.map(|row| t.layout.key_text(&row, &index.def.columns)))
    })?;
    match doubled {
        None => Ok(()),
        Some(key) => {
            Err(Error::DuplicateKey { table: t.schema.name.clone(), constraint: index.def.name.clone(), key })
        }
    }
}

/// One of the rows with the least key that two have, of all rows. No commit is half applied.
fn least_doubled_row(t: &TableInner, index: &Index) -> Result<Option<Vec<u8>>> {
    let (mut least, mut keys): (Option<(KeyBuf, Vec<u8>)>, Vec<KeyBuf>) = (None, Vec::new());
    for (_, c) in t.containers.iter() {
        // The look at the rows takes the latch again.
        let bytes = c.bytes.read();
        let slots = (0..c.slots(t.space.container_size)).filter_map(|slot| bytes.get(c.range(slot)));
        keys.extend(slots.filter_map(|slot| t.layout.row_of(Slot(slot))).map(|row| {
            let mut k = Vec::new();
            t.layout.row_key(&row, &index.def.columns, &mut k);
            KeyBuf::new(&k)
        }));
        drop(bytes);
        for key in keys.drain(..) {
            if least.as_ref().is_none_or(|(there, _)| key < *there)
                && let Some(row) = doubled_row(t, index, &key)?
            {
                least = Some((key, row));
            }
        }
    }
    Ok(least.map(|(_, row)| row))
}

/// A row with this key, if there are two.
fn doubled_row(t: &TableInner, index: &Index, key: &KeyBuf) -> Result<Option<Vec<u8>>> {
    let mut rids = Vec::new();
    index.find_all(key.as_slice(), key::hash(key.as_slice()), &mut rids);
    if rids.len() < 2 {
        return Ok(None);
    }
    let mut found = Vec::new();
    for rid in rids {
        let (mut row, mut its) = (Vec::new(), Vec::new());
        if t.read(rid, &mut row)?.is_some() {
            t.layout.row_key(&row, &index.def.columns, &mut its);
            if its == key.as_slice() {
                found.push(row);
            }
        }
        // Those that have the key may be all rows of the table.
        if found.len() > 1 {
            return Ok(found.pop());
        }
    }
    Ok(None)
}

impl Schema {
    /// What this table's definition has other than `wanted`, in words.
    pub(crate) fn differences(&self, wanted: &Schema) -> Vec<String> {
        let mut all = Vec::new();
        let kind = |c: &Column| format!("{:?}{}", c.kind, if c.nullable { " or NULL" } else { "" });
        for (at, c) in wanted.columns.iter().enumerate() {
            match self.columns.iter().position(|there| there.name == c.name) {
                None => all.push(format!("column {} is not there", c.name)),
                Some(place) => {
                    let there = &self.columns[place];
                    if kind(there) != kind(c) {
                        all.push(format!("column {} is {} and not {}", c.name, kind(there), kind(c)));
                    } else if place != at {
                        let (place, at) = (place + 1, at + 1);
                        all.push(format!("column {} is number {place} and not {at}", c.name));
                    }
                }
            }
        }
        let names = |s: &Schema, index: &IndexDef| {
            let names = index.columns.iter().filter_map(|&c| s.columns.get(c)).map(|c| c.name.clone());
            let kind = if index.kind == IndexKind::Ordered { "ordered" } else { "hash" };
            let unique = if index.unique { "unique " } else { "" };
            format!("{unique}{kind} ({})", names.collect::<Vec<_>>().join(", "))
        };
        for index in &wanted.indexes {
            match self.indexes.iter().find(|there| there.name == index.name) {
                None => all.push(format!("index {} is not there", index.name)),
                Some(there) => {
                    let (there, index_text) = (names(self, there), names(wanted, index));
                    if there != index_text {
                        all.push(format!("index {} is {there} and not {index_text}", index.name));
                    }
                }
            }
        }
        for c in self.columns.iter().filter(|c| wanted.columns.iter().all(|w| w.name != c.name)) {
            all.push(format!("column {} is there", c.name));
        }
        for index in self.indexes.iter().filter(|i| wanted.indexes.iter().all(|w| w.name != i.name)) {
            all.push(format!("index {} is there", index.name));
        }
        if self.locking != wanted.locking {
            all.push(format!("locking is {:?} and not {:?}", self.locking, wanted.locking));
        }
        if self.expiry != wanted.expiry {
            let words = |s: &Schema| {
                let column = s.expiry.and_then(|e| s.columns.get(e.column).map(|c| (&c.name, e.unit)));
                column.map_or("never".to_owned(), |(name, unit)| format!("by {name} in {unit:?}"))
            };
            all.push(format!("rows expire {} and not {}", words(self), words(wanted)));
        }
        if self.logging != wanted.logging {
            all.push(format!("it is {:?} and not {:?}", self.logging, wanted.logging));
        }
        all
    }
}
