//! What all parts of an open database share.

use crate::admin::Admin;
use crate::cache_line::CacheLine;
use crate::error::{Error, Result};
use crate::index::Index;
use crate::key::mix;
use crate::lock::LockManager;
use crate::log::{Anchor, Log};
use crate::options::Options;
use crate::recovery::RecoveryReport;
use crate::snapshot::Snapshots;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use crate::table::{Space, Table, TableInner};
use crate::tables::Tables;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

/// Stripes of the gate: processors do not meet there. A transaction keeps the stripe of the
/// processor it began on, wherever it goes later.
pub(crate) const GATES: usize = 8;

/// Counters of the engine, for [`crate::Stats`].
#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) commits: [CacheLine<AtomicU64>; GATES],
    pub(crate) aborts: AtomicU64,
    pub(crate) checkpoints: AtomicU64,
    pub(crate) checkpoint_containers: AtomicU64,
    pub(crate) recycled: AtomicU64,
    pub(crate) expired: AtomicU64,
    /// Why the last expiry in the background failed.
    pub(crate) expiry_error: Mutex<Option<String>>,
    pub(crate) checkpoint_failures: AtomicU64,
    /// Bytes that changed in tables that are checkpointed but not logged.
    pub(crate) unlogged: [CacheLine<AtomicU64>; GATES],
    /// So many of those bytes are in the last checkpoint.
    pub(crate) unlogged_kept: AtomicU64,
    /// Since when no checkpoint succeeds, and why the last one failed.
    pub(crate) failing: Mutex<Option<(Instant, String)>>,
}

impl Counters {
    /// Bytes that have changed in tables that are checkpointed but not logged.
    pub(crate) fn unlogged(&self) -> u64 {
        self.unlogged.iter().map(|stripe| stripe.load(Ordering::Relaxed)).sum()
    }
}

pub(crate) struct Engine {
    pub(crate) path: PathBuf,
    pub(crate) options: Options,
    pub(crate) log: Arc<Log>,
    anchors: [Anchor; GATES],
    pub(crate) locks: LockManager,
    pub(crate) space: Arc<Space>,
    /// Tables that exist, those that are being filled too.
    pub(crate) names: RwLock<HashMap<String, Arc<TableInner>>>,
    /// Names of tables that were dropped since the opening, by their numbers, for who has nothing
    /// but the number left to say what is missing.
    dropped: Mutex<HashMap<u32, String>>,
    /// Commits pass it shared until they are applied; closing it for a moment gives a commit number
    /// up to which everything is applied. Who is inside finds the tables there.
    gates: [CacheLine<RwLock<Tables>>; GATES],
    pub(crate) ages: CacheLine<AtomicU64>,
    /// Changes of tables' definitions, fills and drops, one at a time; taken before `admin` and
    /// before any table is locked.
    pub(crate) alterations: Mutex<()>,
    /// Checkpoints, schema changes and backups, one at a time.
    pub(crate) admin: Mutex<Admin>,
    pub(crate) counters: Counters,
    pub(crate) recovered: Mutex<RecoveryReport>,
    /// Held while the database is open.
    pub(crate) _lock: Option<Box<dyn Send + Sync>>,
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Engine({}, {:?})", self.path.display(), self.log)
    }
}

/// Names of locks. Two names that collide only exclude more than needed.
pub(crate) mod name {
    use super::mix;

    pub(crate) fn key(table: u32, index: usize, hash: u64) -> u64 {
        mix(u64::from(table) << 16 | index as u64, hash)
    }

    pub(crate) fn page(table: u32, container: u32, page: usize) -> u64 {
        mix(u64::from(table) << 16 | 0xfffe, u64::from(container) << 8 | page as u64)
    }

    pub(crate) fn container(table: u32, container: u32) -> u64 {
        mix(u64::from(table) << 16 | 0xfffd, u64::from(container))
    }

    /// Of whoever reads ranges of an index, by its number.
    pub(crate) fn reader(table: u32, index: usize, number: u64) -> u64 {
        mix(u64::from(table) << 16 | 0xfffc, number << 16 | index as u64)
    }
}

impl Engine {
    pub(crate) fn new(
        path: PathBuf,
        options: Options,
        log: Arc<Log>,
        space: Arc<Space>,
        admin: Admin,
        lock: Option<Box<dyn Send + Sync>>,
    ) -> Engine {
        Engine {
            path,
            locks: LockManager::new(options.background, options.lock_timeout).counted_in(&space.budget),
            options,
            anchors: std::array::from_fn(|_| Arc::new(CacheLine(log.clone()))),
            log,
            space,
            names: RwLock::new(HashMap::new()),
            dropped: Mutex::default(),
            gates: Default::default(),
            ages: CacheLine(AtomicU64::new(1)),
            alterations: Mutex::default(),
            admin: Mutex::new(admin),
            counters: Counters::default(),
            recovered: Mutex::new(RecoveryReport::default()),
            _lock: lock,
        }
    }

    /// The snapshots that are open.
    pub(crate) fn snapshots(&self) -> &Snapshots {
        &self.space.snapshots
    }

    pub(crate) fn anchor(&self, stripe: usize) -> Anchor {
        self.anchors[stripe % GATES].clone()
    }

    /// Passes the gate. Nobody may wait for a transaction or pass it again before he has left it.
    pub(crate) fn enter(&self, stripe: usize) -> RwLockReadGuard<'_, Tables> {
        self.gates[stripe % GATES].read()
    }

    /// A commit number such that everything up to it is applied.
    pub(crate) fn quiesce(&self) -> u64 {
        self.quiesced(|| self.log.last())
    }

    /// Does `f` at a moment when no commit is half applied.
    pub(crate) fn quiesced<T>(&self, f: impl FnOnce() -> T) -> T {
        let closed: Vec<RwLockWriteGuard<'_, Tables>> = self.gates.iter().map(|g| g.write()).collect();
        let done = f();
        drop(closed);
        done
    }

    /// The table inside a handle, if it is one of this opening, and there.
    pub(crate) fn table_of<'t>(&self, handle: &'t Table) -> Result<&'t Arc<TableInner>> {
        // A number is given once in a database, and every opening has a space of its own.
        if !Arc::ptr_eq(&handle.0.space, &self.space) {
            return Err(handle.0.gone());
        }
        handle.0.alive()?;
        handle.0.latest()
    }

    /// The table with this number, for who has passed the gate.
    ///
    /// # Errors
    /// [`Error::NoSuchTable`] if it was dropped.
    #[inline]
    pub(crate) fn existing<'t>(&self, tables: &'t Tables, id: u32) -> Result<&'t TableInner> {
        tables.get(id).ok_or_else(|| self.missing(id))
    }

    /// The error of a table with this number, which is not there any more.
    #[cold]
    pub(crate) fn missing(&self, id: u32) -> Error {
        match self.dropped.lock().get(&id) {
            Some(name) => Error::NoSuchTable { table: name.clone() },
            None => Error::Internal { what: format!("table number {id} was never dropped and is missing") },
        }
    }

    /// Lets everybody find a table: first by its number, as who has got a handle must.
    pub(crate) fn enter_table(&self, table: &Arc<TableInner>) {
        self.gates.iter().for_each(|g| g.write().put(table));
        let before = self.names.write().insert(table.schema.name.clone(), table.clone());
        assert!(before.is_none(), "no two tables are called {}", table.schema.name);
    }

    /// Lets everybody find another definition of a table, of which no commit is half applied at
    /// that moment: `at_once` changes what has to change with it. Nobody fills or drops the table
    /// meanwhile.
    pub(crate) fn exchange_table(
        &self,
        old: &Arc<TableInner>,
        new: &Arc<TableInner>,
        continues: bool,
        at_once: impl FnOnce(),
    ) {
        assert_eq!(old.id, new.id, "a table keeps its number");
        let mut closed: Vec<_> = self.gates.iter().map(|gate| gate.write()).collect();
        closed.iter_mut().for_each(|tables| tables.replace(new));
        let mut names = self.names.write();
        let before = names.remove(&old.schema.name);
        assert!(before.is_some_and(|before| before.id == old.id), "the table is found by its name");
        names.insert(new.schema.name.clone(), new.clone());
        drop(names);
        old.succeed(new, continues);
        at_once();
        drop(closed);
    }

    /// Forgets a table that is dropped: it goes with its last handle.
    pub(crate) fn forget_table(&self, table: &TableInner) {
        assert!(table.life.is_dropped(), "table {} is still there", table.schema.name);
        self.dropped.lock().insert(table.id, table.schema.name.clone());
        let mut names = self.names.write();
        if names.get(&table.schema.name).is_some_and(|there| there.id == table.id) {
            names.remove(&table.schema.name);
        }
        drop(names);
        self.gates.iter().for_each(|g| g.write().remove(table.id));
    }

    /// Locks held or waited for now.
    pub(crate) fn locks_held(&self) -> usize {
        let tables = self.live_tables();
        let indexes = tables.iter().flat_map(|t| &t.indexes).map(Index::ranges_listed);
        self.locks.len() + tables.iter().map(|t| t.lock.len()).sum::<usize>() + indexes.sum::<usize>()
    }

    /// Tables that exist, in order of creation.
    pub(crate) fn live_tables(&self) -> Vec<Arc<TableInner>> {
        let mut tables: Vec<_> = self.names.read().values().filter(|t| t.is_live()).cloned().collect();
        tables.sort_unstable_by_key(|t| t.id);
        tables
    }
}
