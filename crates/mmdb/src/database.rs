//! The handle on an open database.

use crate::admin::Admin;
use crate::backup::BackupStats;
use crate::checkpoint::{CheckpointStats, Stepwise};
use crate::documented::documented;
use crate::engine::Engine;
use crate::error::{Error, Result};
use crate::lock::Mode;
use crate::log::{HeldBack, Ticket};
use crate::manifest::MAX_TABLES;
use crate::options::{Durability, Options};
use crate::recovery;
use crate::register::ManifestState;
use crate::retries::Retries;
use crate::sabotage::has_defect;
use crate::schema::Schema;
use crate::snapshot::Snapshot;
use crate::standby::{MANY_CHANGES, Role};
use crate::stats::Stats;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::thread::JoinHandle;
use crate::sync::{self, Mutex, MutexGuard};
use crate::table::{Table, TableInner};
use crate::tx::{Refusal, Transaction};
use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A flusher looks for lazy commits this often at most: without a pause it would do nothing else.
const SHORTEST_LAZY: Duration = Duration::from_millis(1);

/// Checkpoints and backups that a change of a definition lets go first.
const ATTEMPTS: usize = 8;

/// An open database. Clones share it; dropping the last one flushes and closes it.
///
/// It belongs to the process that opened it. One that is forked from that has a copy of the memory
/// and nothing else: it may read, a commit of what is logged is refused with [`Error::Forked`], as
/// is all else that writes, and dropping its handles changes nothing. Whether a commit of before
/// the fork became durable only the process that opened it learns: its [`Ticket`] returns
/// [`Error::Indeterminate`] in the other one. A program that forks to go on in the background opens
/// its database afterwards.
///
/// ```
/// use mmdb::{ColumnType, Database, Schema, Value};
/// let db = Database::in_memory()?;
/// let accounts = db.create_table(
///     Schema::new("account").column("id", ColumnType::Int64).column("balance", ColumnType::Int64).primary_key(&["id"]),
/// )?;
/// db.run(|tx| {
///     tx.insert(&accounts, &[1.into(), 100.into()])?;
///     tx.insert(&accounts, &[2.into(), 0.into()])
/// })?;
/// db.run(|tx| {
///     tx.update(&accounts, &[1.into()], &[("balance", 60.into())])?;
///     tx.update(&accounts, &[2.into()], &[("balance", 40.into())])
/// })?;
/// let mut tx = db.begin()?;
/// assert_eq!(tx.get(&accounts, &[2.into()])?.map(|r| r.at(1) == Value::Int(40)), Some(true));
/// # Ok::<(), mmdb::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Database(pub(crate) Arc<Inner>);

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) engine: Arc<Engine>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    expiry: Expirer,
    /// The closing was begun: it is done once.
    is_closing: AtomicBool,
}

/// The thread that expires rows, if there is one. It commits, so it ends before a closing begins.
#[derive(Debug)]
struct Expirer {
    stop: Arc<AtomicBool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Expirer {
    fn none() -> Expirer {
        Expirer { stop: Arc::new(AtomicBool::new(false)), thread: Mutex::new(None) }
    }

    fn end(&self) {
        self.stop.store(true, Ordering::Release);
        let Some(t) = self.thread.lock().take() else { return };
        t.thread().unpark();
        // It flushes, so a waker may drop the last handle on it: that is when it waits for what it
        // has deleted, and it begins nothing more.
        if !sync::is_current(t.thread()) {
            let _ = t.join();
        }
    }
}

impl Inner {
    /// Starts what works in the background, if anything is to.
    fn start_threads(&self) -> Result<()> {
        let e = &self.engine;
        if !e.options.background || e.options.reference {
            return Ok(());
        }
        let start = |name: String, run: Box<dyn FnOnce() + Send>| {
            let started = e.options.spawner.spawn(name, run);
            started.map(|t| self.threads.lock().push(t)).map_err(Error::io("start a thread for", &e.path))
        };
        if e.options.checkpoint_log_bytes > 0 {
            let (weak, elsewhere) = (Arc::downgrade(e), e.options.stream_dirs.len());
            // A log with a place of its own takes nothing from the images.
            let shares = move |stream: usize| weak.upgrade().filter(|_| stream >= elsewhere);
            e.log.leave_room(move |stream| shares(stream).map_or(0, |engine| engine.images_need()));
        }
        for i in 0..e.log.streams.len() {
            let (log, lazy) = (e.log.clone(), e.options.lazy_interval.max(SHORTEST_LAZY));
            start(format!("mmdb-log-{i}"), Box::new(move || log.run_flusher(i, lazy)))?;
        }
        let log = e.log.clone();
        start("mmdb-segments".into(), Box::new(move || log.run_preparer()))?;
        if e.options.checkpoint_log_bytes > 0 {
            let (weak, log) = (Arc::downgrade(e), e.log.clone());
            start("mmdb-checkpoint".into(), Box::new(move || Engine::run_checkpoints(&weak, &log)))?;
        }
        self.start_expiry(e.options.expire_interval)
    }

    /// Starts the thread that expires rows, if there is to be one.
    pub(crate) fn start_expiry(&self, interval: Duration) -> Result<()> {
        let e = &self.engine;
        if !interval.is_zero() {
            let (weak, stop) = (Arc::downgrade(e), self.expiry.stop.clone());
            let run = move || Engine::run_expiry(&weak, &stop, interval);
            let started = e.options.spawner.spawn("mmdb-expiry".into(), Box::new(run));
            *self.expiry.thread.lock() = Some(started.map_err(Error::io("start a thread for", &e.path))?);
        }
        Ok(())
    }

    /// Makes everything durable, ends the threads, and leaves the evidence: a manifest that states
    /// the last commit. Only the last handle calls this, so nothing is committed meanwhile.
    fn shut_down(&self) -> Result<()> {
        if self.is_closing.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        self.expiry.end();
        let log = &self.engine.log;
        if log.is_forked() {
            // The threads are not here, and nothing here is this process's to write.
            std::mem::take(&mut *self.threads.lock()).into_iter().for_each(std::mem::forget);
            return log.require_own_process();
        }
        let flushed = log.flush_all();
        log.stop();
        for t in self.threads.lock().drain(..) {
            t.thread().unpark();
            // A waker may drop the last handle, on a thread of the log: that one ends by itself as
            // soon as the waker returns.
            if !sync::is_current(t.thread()) {
                let _ = t.join();
            }
        }
        flushed?;
        self.engine.state_closed()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Best effort: what is not acknowledged may be lost anyway, and what is needs no evidence
        // to be there.
        let _ = self.shut_down();
    }
}

impl Database {
    /// Opens the database in directory `path`, creating it if there is none, and recovers what was
    /// acknowledged.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Options, Schema};
    /// let dir = std::env::temp_dir().join(format!("mmdb-doc-{}", std::process::id()));
    /// let options = Options { segment_bytes: 1 << 20, ..Options::default() };
    /// let db = Database::open(&dir, options.clone())?;
    /// let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
    /// db.run(|tx| tx.insert(&t, &[1.into()]))?;
    /// drop((t, db));                                             // the last handle closes the database
    ///
    /// let db = Database::open(&dir, options)?;
    /// assert_eq!(db.recovery().cut, 1);
    /// assert!(db.begin()?.get(&db.table("t")?, &[1.into()])?.is_some());
    /// # drop(db);
    /// # std::fs::remove_dir_all(&dir).expect("the directory is ours");
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Options`] names an option that is out of range; [`Error::Corrupt`] names the file
    /// and offset, [`Error::CorruptTable`] the table, if acknowledged data is missing or damaged,
    /// [`Error::Directory`] a directory that is missing or does not belong to the database,
    /// [`Error::File`] a file that is a link: nothing is changed, and [`crate::salvage`] can save
    /// what is readable. [`Error::DiskFull`] says how much room it needs. [`Error::Io`] with
    /// `WouldBlock` if the database, or one of its log directories, is open elsewhere, or if a
    /// thread was refused that it needs: then it is closed again, and none is left. Recovery makes
    /// do with fewer.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Database> {
        documented("Database::open", || Database::open_as(path.as_ref(), options, Role::Primary))
    }

    pub(crate) fn open_as(path: &Path, options: Options, role: Role) -> Result<Database> {
        let engine = Arc::new(recovery::open(path, options, role)?);
        let (threads, is_closing) = (Mutex::new(Vec::new()), AtomicBool::new(false));
        let inner = Inner { engine, threads, expiry: Expirer::none(), is_closing };
        // Should a thread be refused, dropping this ends those that run and closes what was opened.
        inner.start_threads()?;
        Ok(Database(Arc::new(inner)))
    }

    /// A new database on a medium in memory.
    ///
    /// ```
    /// let db = mmdb::Database::in_memory()?;
    /// assert!(db.tables().is_empty());
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// None in practice.
    pub fn in_memory() -> Result<Database> {
        documented("Database::in_memory", || {
            Database::open_as("/mmdb".as_ref(), Options::in_memory(), Role::Primary)
        })
    }

    /// Creates a table. When this returns, the table survives a crash.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Options, Schema};
    /// # use mmdb::Error;
    /// let db = Database::in_memory()?;
    /// let schema = Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]);
    /// let t = db.create_table(schema.clone())?;
    /// assert_eq!(t.name(), "t");
    /// assert!(matches!(db.create_table(schema), Err(Error::TableExists { .. })));
    /// let keyless = Schema::new("u").column("id", ColumnType::Int64);
    /// assert!(matches!(db.create_table(keyless), Err(Error::Schema { .. })));
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::TableExists`]; [`Error::Schema`] if the schema contradicts itself;
    /// [`Error::NoSuchColumn`] if an index has a column that the table has not;
    /// [`Error::Operation`] if as many tables were created as a database can have; [`Error::Io`], [`Error::Directory`],
    /// [`Error::Poisoned`].
    pub fn create_table(&self, schema: Schema) -> Result<Table> {
        documented("Database::create_table", || {
            let made = self.create_all(vec![schema])?.pop();
            made.ok_or_else(|| Error::Internal { what: "a table was created and is not there".into() })
        })
    }

    /// Creates tables, all of them or none, and returns them in the same order. When this returns,
    /// they survive a crash. Each change of a definition writes a manifest, which repeats all
    /// others: who creates thousands of tables one by one waits for thousands of them, and here for
    /// one.
    ///
    /// An empty table takes a few KB of memory. Its first row brings a container, and 8 KiB for the
    /// shards of each hash index, the primary key's among them: so many writers do not meet.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Schema};
    /// # let db = Database::in_memory()?;
    /// let named = |name: &str| Schema::new(name).column("id", ColumnType::Int64).primary_key(&["id"]);
    /// let schema = |n: u32| named(&format!("t{n}"));
    /// let tables = db.create_tables((0..100).map(schema))?;
    /// assert_eq!((tables.len(), tables[7].name()), (100, "t7"));
    /// assert!(db.create_tables([schema(100), schema(7)]).is_err());
    /// assert!(db.table("t100").is_err(), "none of them");
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Database::create_table`]; [`Error::Operation`] for more than 256 where changes are kept
    /// for standbys, too: these would have to begin again.
    pub fn create_tables(&self, schemas: impl IntoIterator<Item = Schema>) -> Result<Vec<Table>> {
        documented("Database::create_tables", || self.create_all(schemas.into_iter().collect()))
    }

    fn create_all(&self, schemas: Vec<Schema>) -> Result<Vec<Table>> {
        let e = &self.0.engine;
        let schemas: Vec<Schema> = schemas.into_iter().map(Schema::of_new_table).collect();
        schemas.iter().try_for_each(Schema::validate)?;
        e.log.check()?;
        if schemas.is_empty() {
            return Ok(Vec::new());
        }
        let _held = HeldBack::begin();
        let mut admin = e.admin.lock();
        let mut next = ManifestState::clone(&e.stated());
        let cannot = |table: &Schema, reason: String| {
            Err(Error::Operation { table: table.name.clone(), operation: "create it", reason })
        };
        if let Some(beyond) = schemas.get(MANY_CHANGES).filter(|_| next.lineage.recorded) {
            let reason =
                format!("standbys are told of {MANY_CHANGES} changes at once; create fewer at a time");
            return cannot(beyond, reason);
        }
        let first = next.next_table;
        assert!(next.schemas.iter().all(|s| s.0 < first), "number {first} is no table's");
        let (mut tables, mut names) = (Vec::with_capacity(schemas.len()), HashSet::new());
        for schema in schemas {
            if e.names.read().contains_key(&schema.name) || !names.insert(schema.name.clone()) {
                return Err(Error::TableExists { table: schema.name });
            }
            let id = next.next_table;
            if id >= MAX_TABLES {
                let reason = format!("{MAX_TABLES} tables were created, the most in the life of a database");
                return cannot(&schema, reason);
            }
            let table = Arc::new(TableInner::new(id, schema, e.space.clone(), e.options.reference));
            next.next_table += 1;
            next.schemas.push((id, table.schema.clone()));
            e.note_change(&mut next, id);
            tables.push(table);
        }
        let defect = e.options.defect();
        if has_defect!(defect, CreatesWithoutManifest) {
            e.log.register.assume(next);
        } else if has_defect!(defect, CreatesHalf) {
            let done = e.state(&mut admin, next.clone());
            e.log.register.assume(next);
            done?;
        } else {
            e.state(&mut admin, next)?;
        }
        tables.iter().for_each(|table| e.enter_table(table));
        Ok(tables.into_iter().map(Table).collect())
    }

    /// The named table.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Options, Schema};
    /// # let db = Database::in_memory()?;
    /// # let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
    /// # use mmdb::Error;
    /// assert_eq!(db.table("t")?.name(), "t");
    /// assert!(matches!(db.table("no such"), Err(Error::NoSuchTable { .. })));
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::NoSuchTable`].
    pub fn table(&self, name: &str) -> Result<Table> {
        documented("Database::table", || {
            let e = &self.0.engine;
            let found = e.names.read().get(name).filter(|t| t.is_live()).cloned();
            found.map(Table).ok_or_else(|| Error::NoSuchTable { table: name.to_owned() })
        })
    }

    /// All tables, in order of creation.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Options, Schema};
    /// # let db = Database::in_memory()?;
    /// # let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
    /// db.create_table(Schema::new("u").column("id", ColumnType::Int64).primary_key(&["id"]))?;
    /// assert_eq!(db.tables().iter().map(|t| t.name().to_owned()).collect::<Vec<_>>(), ["t", "u"]);
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    #[must_use]
    pub fn tables(&self) -> Vec<Table> {
        self.0.engine.live_tables().into_iter().map(Table).collect()
    }

    /// Drops a table and its rows, durably; the last handle on it frees what is left of it. Waits
    /// for transactions that use it, as [`Database::run`] does; among those that want the table its
    /// turn comes by its age.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Options, Schema};
    /// # let db = Database::in_memory()?;
    /// # let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
    /// # use mmdb::Error;
    /// db.drop_table(&t)?;
    /// assert!(matches!(db.begin()?.get(&t, &[1.into()]), Err(Error::NoSuchTable { .. })));
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::LockTimeout`] if the table is still busy after [`Options::lock_timeout`];
    /// [`Error::NoSuchTable`], also for a handle of another database or opening;
    /// [`Error::TableChanged`]; [`Error::Io`], [`Error::Directory`], [`Error::Poisoned`].
    pub fn drop_table(&self, table: &Table) -> Result<()> {
        documented("Database::drop_table", || self.drop_all(vec![table]))
    }

    /// Drops tables and their rows, all of them or none, durably, as [`Database::drop_table`] does
    /// one: by one manifest, where each change of a definition writes one that repeats all others.
    /// One that is given twice is dropped once. All of them are taken before any is dropped, so a
    /// transaction that uses one of them keeps the others waiting, too.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Schema};
    /// # let db = Database::in_memory()?;
    /// let schema = |n: u32| Schema::new(&format!("t{n}")).column("id", ColumnType::Int64).primary_key(&["id"]);
    /// let tables = db.create_tables((0..100).map(schema))?;
    /// db.drop_tables(&tables[1..])?;
    /// assert_eq!(db.tables().len(), 1);
    /// assert!(db.drop_tables(&tables).is_err(), "some are gone");
    /// assert_eq!(db.tables().len(), 1, "none of them");
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Database::drop_table`]; [`Error::Operation`] for more than 256 where changes are kept
    /// for standbys: these would have to begin again.
    pub fn drop_tables<'t>(&self, tables: impl IntoIterator<Item = &'t Table>) -> Result<()> {
        documented("Database::drop_tables", || self.drop_all(tables.into_iter().collect()))
    }

    fn drop_all(&self, tables: Vec<&Table>) -> Result<()> {
        let e = &self.0.engine;
        // A checkpoint that is running is waited for first: a fill need not wait with this.
        drop(e.admin.lock());
        let _held = HeldBack::begin();
        // Nobody changes the tables' definitions meanwhile.
        let _turn = e.alterations.lock();
        let (mut mine, mut seen) = (Vec::with_capacity(tables.len()), HashSet::new());
        for table in tables {
            // A handle of another database, or of an earlier opening, has a number that is
            // somebody else's here.
            let table = e.table_of(table)?;
            if seen.insert(table.id) {
                mine.push(table);
            }
        }
        if mine.is_empty() {
            return Ok(());
        }
        let (tx, (), mut admin) = self.locked_to_state(&mine, || Ok(()))?;
        if let Some(beyond) = mine.get(MANY_CHANGES).filter(|_| e.stated().lineage.recorded) {
            return Err(Error::Operation {
                table: beyond.schema.name.clone(),
                operation: "drop it",
                reason: format!("standbys are told of {MANY_CHANGES} changes at once; drop fewer at a time"),
            });
        }
        // While this waited for a checkpoint, a fill or another drop may have taken a table.
        let begun = mine.iter().take_while(|table| table.life.begin_drop()).count();
        let done = match mine.get(begun) {
            Some(taken) => Err(taken.gone()),
            None => self.state_drop(&mine, &mut admin),
        };
        if let Err(e) = done {
            for table in &mine[..begun] {
                let lives = table.life.give_up_drop();
                assert!(lives, "nobody else changes a table that is being dropped");
            }
            return Err(e);
        }
        // Who waits in line for a table learns that it is gone, and leaves it, while it can still
        // be found.
        drop(tx);
        for table in mine {
            e.forget_table(table);
            table.discard_rows();
        }
        Ok(())
    }

    /// A transaction that has these tables for itself, each of them whole. Whoever is older and in
    /// the way is waited for.
    pub(crate) fn locked_whole(&self, tables: &[&Arc<TableInner>]) -> Result<Transaction<'_>> {
        let e = &self.0.engine;
        let age = e.ages.fetch_add(1, Ordering::Relaxed);
        let mut retries = Retries::default();
        loop {
            let mut tx = e.begin_aged(age)?;
            let taken = tables.iter().try_for_each(|table| tx.lock_table(table, Mode::Exclusive));
            let Err(error) = taken else { return Ok(tx) };
            // Where nobody waits there is one thread, and nobody would go out of the way.
            let refusal = tx.take_refusal().filter(|_| e.options.background).ok_or(error)?;
            // It must hold nothing while it waits: that is what wait-die is for.
            drop(tx);
            retries.after(refusal, e)?;
        }
    }

    /// A transaction that has these tables for itself, whose rows are settled, and the right to
    /// change what the manifest states. That may be a checkpoint's or a backup's by now, which take
    /// seconds, or minutes: they are waited for without the tables, unless they come again and
    /// again.
    pub(crate) fn locked_to_state<S>(
        &self,
        tables: &[&Arc<TableInner>],
        settle: impl Fn() -> Result<S>,
    ) -> Result<(Transaction<'_>, S, MutexGuard<'_, Admin>)> {
        let e = &self.0.engine;
        for _ in 0..ATTEMPTS {
            let tx = self.locked_whole(tables)?;
            // To settle them may take a checkpoint.
            if e.admin.try_lock().is_some() {
                let settled = settle()?;
                if let Some(admin) = e.admin.try_lock() {
                    return Ok((tx, settled, admin));
                }
            }
            drop(tx);
            drop(e.admin.lock());
        }
        let tx = self.locked_whole(tables)?;
        let settled = settle()?;
        Ok((tx, settled, e.admin.lock()))
    }

    /// Makes it durable that tables, which nobody uses any more, are dropped.
    fn state_drop(&self, tables: &[&Arc<TableInner>], admin: &mut Admin) -> Result<()> {
        let e = &self.0.engine;
        // Who commits without locks may have been past the last look at the table.
        e.quiesce();
        // Commits that are numbered must be durable before their records may become unreadable.
        e.log.flush_all()?;
        let ids: HashSet<u32> = tables.iter().map(|table| table.id).collect();
        let mut next = ManifestState::clone(&e.stated());
        next.schemas.retain(|s| !ids.contains(&s.0));
        tables.iter().for_each(|table| e.note_change(&mut next, table.id));
        if let Some(p) = &mut next.published {
            p.images.retain(|i| !ids.contains(&i.table));
        }
        let defect = e.options.defect();
        if has_defect!(defect, ForgetsBeforeManifest) {
            admin.forget_images(|table| ids.contains(&table));
        }
        if !has_defect!(defect, DropsWithoutManifest) {
            e.state(admin, next)?;
        }
        admin.forget_images(|table| ids.contains(&table));
        Ok(())
    }

    /// Starts a serializable transaction. Waits here, holding nothing, while the log device is
    /// behind.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Options, Schema};
    /// # let db = Database::in_memory()?;
    /// # let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
    /// let mut tx = db.begin()?;
    /// tx.insert(&t, &[1.into()])?;
    /// tx.commit()?.wait()?;
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Poisoned`] after a failed write or sync.
    pub fn begin(&self) -> Result<Transaction<'_>> {
        documented("Database::begin", || {
            self.0.engine.begin_aged(self.0.engine.ages.fetch_add(1, Ordering::Relaxed))
        })
    }

    /// Runs a transaction until it commits, and waits until it is durable.
    ///
    /// If `f` returns an error, the transaction is undone and the error, of whatever type the
    /// caller likes, is returned as it is. Only where another transaction was in the way, `f` runs
    /// again: once that one has gone, with the same age, so that it gets its turn. Whether one was
    /// in the way is known from the transaction itself, so it does not matter what `f` makes of
    /// [`Error::Deadlock`]. `f` may run many times: what else it changes must bear that.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Options, Schema};
    /// # let db = Database::in_memory()?;
    /// # let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
    /// let count = db.run(|tx| {
    ///     tx.insert(&t, &[1.into()])?;
    ///     Ok::<_, mmdb::Error>(tx.scan(&t)?.count())
    /// })?;
    /// assert_eq!((count, db.horizon()), (1, 1));
    ///
    /// let refused: Result<(), Box<dyn std::error::Error>> = db.run(|tx| {
    ///     tx.insert(&t, &[2.into()])?;
    ///     Err("not on a Sunday".into())
    /// });
    /// assert_eq!(refused.map_err(|e| e.to_string()), Err("not on a Sunday".into()));
    /// assert!(db.begin()?.get(&t, &[2.into()])?.is_none(), "nothing of it stays");
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// What `f` returns; [`Error::LogFull`] and [`Error::Poisoned`] of the commit, of tables
    /// without locking [`Error::DuplicateKey`], [`Error::TransactionTooLarge`] and, if they were
    /// dropped or filled meanwhile, [`Error::NoSuchTable`], too; [`Error::Indeterminate`] of
    /// waiting for it, also where [`crate::set_wait_check`] ends that; [`Error::LockTimeout`] after
    /// [`Options::lock_timeout`] of waiting for one lock or [`Options::max_runs`] runs.
    pub fn run<T, E: From<Error>>(
        &self,
        f: impl FnMut(&mut Transaction<'_>) -> std::result::Result<T, E>,
    ) -> std::result::Result<T, E> {
        let (value, ticket) = self.run_with(Durability::Durable, f)?;
        documented("Database::run", || ticket.settle())?;
        Ok(value)
    }

    /// As [`Database::run`], but hands out the ticket instead of waiting.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Options, Schema};
    /// # let db = Database::in_memory()?;
    /// # let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
    /// use mmdb::Durability;
    /// let mut tickets = Vec::new();
    /// for id in 0..100 {
    ///     tickets.push(db.run_with(Durability::Durable, |tx| tx.insert(&t, &[id.into()]))?.1);
    /// }
    /// for ticket in tickets {
    ///     ticket.wait()?;                                        // many commits, few flushes
    /// }
    /// assert_eq!(db.horizon(), 100);
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// What `f` returns; [`Error::LogFull`], [`Error::Poisoned`], [`Error::DuplicateKey`],
    /// [`Error::TransactionTooLarge`], [`Error::NoSuchTable`] and [`Error::LockTimeout`] mean what
    /// they do of [`Database::run`].
    pub fn run_with<T, E: From<Error>>(
        &self,
        durability: Durability,
        f: impl FnMut(&mut Transaction<'_>) -> std::result::Result<T, E>,
    ) -> std::result::Result<(T, Ticket), E> {
        self.0.engine.run_with(durability, f)
    }

    /// Number of the last commit such that it and all before it are durable.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Options, Schema};
    /// # let db = Database::in_memory()?;
    /// # let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
    /// let ticket = db.run_with(mmdb::Durability::Durable, |tx| tx.insert(&t, &[1.into()]))?.1;
    /// ticket.wait()?;
    /// assert!(db.horizon() >= ticket.gsn());
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    #[must_use]
    pub fn horizon(&self) -> u64 {
        self.0.engine.log.horizon()
    }

    /// Makes all commits so far durable.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Options, Schema};
    /// # let db = Database::in_memory()?;
    /// # let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
    /// let ticket = db.run_with(mmdb::Durability::Lazy, |tx| tx.insert(&t, &[1.into()]))?.1;
    /// db.flush()?;
    /// assert!(db.horizon() >= ticket.gsn());
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Poisoned`] or [`Error::Io`]; [`Error::Directory`] if the directory was replaced
    /// meanwhile, or the log deleted.
    pub fn flush(&self) -> Result<()> {
        documented("Database::flush", || self.0.engine.log.flush_all())
    }

    /// Takes a checkpoint while transactions go on, and recycles the log that it makes superfluous.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Options, Schema};
    /// # let db = Database::in_memory()?;
    /// # let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
    /// db.run(|tx| tx.insert(&t, &[1.into()]))?;
    /// let done = db.checkpoint()?;
    /// assert_eq!((done.g0, done.containers), (1, 1));
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Directory`] if the directory was replaced or the file of images is
    /// removed meanwhile, [`Error::Poisoned`]; the last good checkpoint stays.
    pub fn checkpoint(&self) -> Result<CheckpointStats> {
        documented("Database::checkpoint", || self.0.engine.checkpoint())
    }

    /// A checkpoint in steps, so that tests can do things in between.
    #[doc(hidden)]
    pub fn checkpoint_stepwise(&self) -> Result<Stepwise<'_>> {
        Stepwise::begin(&self.0.engine)
    }

    /// The database as it is now, to be read without locks while others go on. Opening it waits
    /// until the commits that are being applied at this moment are, which takes microseconds; they
    /// wait as long for it.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Schema};
    /// # let db = Database::in_memory()?;
    /// # let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
    /// let mut writer = db.begin()?;
    /// writer.insert(&t, &[1.into()])?;
    /// let now = db.snapshot()?;                                  // the writer has not committed
    /// writer.commit()?.wait()?;
    /// assert!(now.get(&t, &[1.into()])?.is_none());
    /// assert!(db.snapshot()?.get(&t, &[1.into()])?.is_some());
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Poisoned`] after a failed write or sync.
    pub fn snapshot(&self) -> Result<Snapshot<'_>> {
        documented("Database::snapshot", || {
            let engine = &*self.0.engine;
            engine.log.check()?;
            Ok(Snapshot::of(engine))
        })
    }

    /// Copies the database into the empty directory `to` (on the same medium) while transactions go
    /// on. The copy holds every commit that was durable when this was called, and ends with the one
    /// that is returned; it can be opened as it is. No commit waits for it; but checkpoints and
    /// schema changes do, so the log must have room for what is committed meanwhile
    /// ([`Options::max_log_bytes`]). What changes meanwhile is kept in memory until it is copied, up
    /// to [`Options::snapshot_memory`]; where that is not enough, or is 0, the piece of log is copied
    /// too that makes the copy whole.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Options, Schema};
    /// let options = Options::in_memory();
    /// let db = Database::open("/db", options.clone())?;
    /// let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
    /// db.run(|tx| tx.insert(&t, &[1.into()]))?;
    /// let done = db.backup("/copy")?;
    /// assert_eq!((done.gsn, done.log_bytes), (1, 0));
    /// db.run(|tx| tx.insert(&t, &[2.into()]))?;
    ///
    /// let copy = Database::open("/copy", options)?;
    /// assert_eq!(copy.begin()?.scan(&copy.table("t")?)?.count(), 1);
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Io`]; [`Error::Directory`] if `to` is not empty; [`Error::Corrupt`] if the piece of
    /// log cannot be read; [`Error::Unsupported`] of a database that is opened with
    /// [`Options::reference`], which has no log; [`Error::Poisoned`]. What was written to `to` is
    /// taken away again.
    pub fn backup(&self, to: impl AsRef<Path>) -> Result<BackupStats> {
        documented("Database::backup", || self.0.engine.backup(to.as_ref()))
    }

    /// What the database is doing: sizes, counters, positions.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Options, Schema};
    /// # let db = Database::in_memory()?;
    /// # let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
    /// db.run(|tx| tx.insert(&t, &[1.into()]))?;
    /// let s = db.stats();
    /// assert_eq!((s.commits, s.tables[0].rows, s.poisoned), (1, 1, false));
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats::collect(&self.0.engine)
    }

    /// What opening read and how long it took.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Options, Schema};
    /// let options = Options::in_memory();
    /// let db = Database::open("/db", options.clone())?;
    /// let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
    /// db.run(|tx| tx.insert(&t, &[1.into()]))?;
    /// drop((t, db));
    /// let r = Database::open("/db", options)?.recovery();
    /// assert_eq!((r.cut, r.frames, r.dropped_frames), (1, 1, 0));
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    #[must_use]
    pub fn recovery(&self) -> recovery::RecoveryReport {
        *self.0.engine.recovered.lock()
    }

    /// Flushes and closes, and states in the manifest which commit was the last: damage to the log
    /// of a closed database is always noticed. Other clones of the handle keep the database open;
    /// then this only flushes, and the last one closes. Dropping the last one does the same without
    /// telling of errors.
    ///
    /// ```
    /// # use mmdb::{ColumnType, Database, Options, Schema};
    /// # let db = Database::in_memory()?;
    /// # let t = db.create_table(Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]))?;
    /// db.run_with(mmdb::Durability::Lazy, |tx| tx.insert(&t, &[1.into()]))?;
    /// drop(t);
    /// db.close()?;                                               // the lazy commit is durable now
    /// # Ok::<(), mmdb::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Poisoned`] or [`Error::Io`] if the last flush fails; [`Error::Directory`] if the
    /// directory was replaced meanwhile.
    pub fn close(self) -> Result<()> {
        documented("Database::close", || {
            self.flush()?;
            match Arc::into_inner(self.0) {
                Some(last) => last.shut_down(),
                None => Ok(()),
            }
        })
    }

    /// Locks on a table name exist only while somebody holds them; for tests of leaks.
    #[doc(hidden)]
    #[must_use]
    pub fn locks_held(&self) -> usize {
        self.0.engine.locks_held()
    }

    /// Flushes one stream alone, so that tests can make the others lag.
    #[doc(hidden)]
    pub fn flush_stream(&self, i: usize) -> Result<()> {
        self.0.engine.log.flush(i % self.0.engine.log.streams.len()).map(|_| ())
    }

    /// Checks the indexes against the rows.
    ///
    /// # Errors
    /// [`Error::CorruptTable`] on the first contradiction. Only meaningful while no transaction
    /// runs.
    #[doc(hidden)]
    pub fn verify(&self) -> Result<()> {
        recovery::verify(&self.0.engine)
    }
}

impl Engine {
    pub(crate) fn begin_aged(&self, age: u64) -> Result<Transaction<'_>> {
        // Without background threads there is one thread; spreading its transactions makes tests
        // see all streams.
        let (stripe, lane) = match self.options.background {
            true => (sync::processor(), sync::thread_number()),
            false => (age as usize, age as usize),
        };
        if !self.options.reference {
            self.log.check()?;
            let s = &self.log.streams[lane % self.log.streams.len()];
            s.throttle(&self.log)?;
            if self.log.is_crowded() {
                self.log.wait_for_space()?;
            }
        }
        Ok(Transaction::new(self, age, stripe, lane))
    }

    /// See [`Database::run_with`].
    pub(crate) fn run_with<T, E: From<Error>>(
        &self,
        durability: Durability,
        mut f: impl FnMut(&mut Transaction<'_>) -> std::result::Result<T, E>,
    ) -> std::result::Result<(T, Ticket), E> {
        let age = self.ages.fetch_add(1, Ordering::Relaxed);
        let mut retries = Retries::default();
        loop {
            let mut tx = documented("Database::run_with", || self.begin_aged(age))?;
            let done = f(&mut tx);
            let refusal = match (tx.take_refusal(), done) {
                (Some(refusal), _) => {
                    // It must hold nothing while it waits: that is what wait-die is for.
                    drop(tx);
                    if !refusal.error.is_retryable() {
                        // An operation of the closure has returned it, and is documented.
                        retries.after(refusal, self)?;
                        continue;
                    }
                    refusal
                }
                (None, Err(e)) => return Err(e),
                (None, Ok(value)) => match tx.commit_with(durability) {
                    Ok(ticket) => return Ok((value, ticket)),
                    Err(e) => Refusal::of(e),
                },
            };
            documented("Database::run_with", || retries.after(refusal, self))?;
        }
    }
}
