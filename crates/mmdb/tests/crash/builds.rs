//! A unique index is built beside clients that commit rows, many of which share a key, until the
//! disk dies. It is built whole, or it comes to nothing and leaves nothing, in memory and on the
//! disk; and the rows are those of the commits, whatever becomes of it.
//!
//! `alterations.rs` builds such indexes while nobody else is there, on one thread, whose schedules
//! repeat exactly. Here are threads of the operating system, so a seed repeats only roughly.

use crate::rng::Rng;
use mmdb::medium::{CrashKind, CrashMedium, Faults};
use mmdb::{
    ColumnType, Database, Durability, Error, Locking, NewIndex, Options, Sabotage, Schema, Table, Value,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

const INDEX: &str = "only_k";
const LIVES: u64 = 3;
const CLIENTS: i64 = 3;
/// Rows that all clients change; each has one more of its own.
const IDS: u64 = 8;

/// Keys by the rows that have them.
type Rows = BTreeMap<i64, i64>;

/// What outlives a crash.
struct Known {
    /// What each commit has written, by its number: the key of a row, or that it is gone.
    commits: BTreeMap<u64, Vec<(i64, Option<i64>)>>,
    /// The last commit that was waited for.
    acknowledged: u64,
    created: bool,
    /// Whether the index is there; `None` if only the next opening can tell.
    there: Option<bool>,
}

/// One life, as its threads see it.
struct Life<'a> {
    db: &'a Database,
    table: &'a Table,
    disk: &'a CrashMedium,
    /// Calls that had failed when it began.
    failed: u64,
    known: Mutex<Known>,
    wrong: Mutex<Vec<String>>,
}

fn schema(locking: Locking) -> Schema {
    Schema::new("t")
        .column("id", ColumnType::Int64)
        .column("k", ColumnType::Int64)
        .column("pad", ColumnType::VarBytes(400))
        .ordered_primary_key(&["id"])
        .locking(locking)
}

fn rows(db: &Database, table: &Table) -> mmdb::Result<Rows> {
    let number = |v: Value<'_>| v.as_int().unwrap_or(i64::MIN);
    let mut tx = db.begin()?;
    let all = tx.scan(table)?;
    all.map(|row| row.map(|row| (number(row.at(0)), number(row.at(1))))).collect()
}

/// The least key that two rows share.
fn doubled(rows: &Rows) -> Option<i64> {
    let mut all: Vec<i64> = rows.values().copied().collect();
    all.sort_unstable();
    all.windows(2).find(|pair| pair[0] == pair[1]).map(|pair| pair[0])
}

impl Known {
    /// After an opening: the rows are those of the commits up to some number, and the index is
    /// there if it must be, and is not if it must not be.
    fn check(&mut self, db: &Database) -> Result<(), String> {
        let cut = db.recovery().cut;
        if cut < self.acknowledged {
            return Err(format!("the cut is {cut}, and {} was acknowledged", self.acknowledged));
        }
        self.commits.retain(|gsn, _| *gsn <= cut);
        let Ok(table) = db.table("t") else {
            return if self.created { Err("the table is gone".into()) } else { Ok(()) };
        };
        let there = table.schema().indexes.len() == 2;
        if self.there.is_some_and(|expected| expected != there) {
            return Err(format!("that the index is there is {there}"));
        }
        (self.created, self.there) = (true, Some(there));
        let now = rows(db, &table).map_err(|e| e.to_string())?;
        let mut want = Rows::new();
        for (id, key) in self.commits.values().flatten() {
            match key {
                Some(key) => want.insert(*id, *key),
                None => want.remove(id),
            };
        }
        if now != want {
            return Err(format!("recovered {now:?}, expected {want:?} at cut {cut}"));
        }
        if let Some(key) = doubled(&now).filter(|_| there) {
            return Err(format!("two rows share key {key} of a unique index"));
        }
        db.verify().map_err(|e| e.to_string())
    }
}

impl Life<'_> {
    fn complain(&self, what: String) {
        self.wrong.lock().unwrap().push(what);
    }

    /// Whether no more can be done in this life.
    fn is_over(&self) -> bool {
        self.disk.is_dead() || matches!(self.db.begin(), Err(Error::Poisoned { .. }))
    }

    /// Notes an error that the disk has not caused.
    fn excuse(&self, what: &str, e: &Error) {
        let disk = matches!(
            e,
            Error::Io { .. } | Error::LogFull { .. } | Error::Poisoned { .. } | Error::Indeterminate { .. }
        );
        let excused = disk && self.disk.failed_calls() > self.failed;
        if !excused && !matches!(e, Error::LockTimeout { .. }) {
            self.complain(format!("{what}: {e}"));
        }
    }

    /// The index is there, or nothing of it is.
    fn require(&self, there: bool) {
        let indexes = &self.table.schema().indexes;
        if (indexes.len() == 2) != there {
            self.complain(format!("{indexes:?}, and that the index is there should be {there}"));
        }
    }

    /// Commits, each of which changes the client's own row, so that each has a number of its own.
    fn commit(&self, rng: &mut Rng, client: i64, keys: u64) {
        for _ in 0..30 {
            let durability = if rng.one_in(2) { Durability::Lazy } else { Durability::Durable };
            let script = rng.next();
            let mut writes = Vec::new();
            let done = self.db.run_with(durability, |tx| {
                let mut rng = Rng(script);
                writes.clear();
                for place in 0..1 + rng.below(4) {
                    // Keys below zero are nobody else's.
                    let (id, key) = match place {
                        0 => (100 + client, -1 - client),
                        _ => (rng.below(IDS) as i64, rng.below(keys) as i64),
                    };
                    if place > 0 && rng.one_in(4) {
                        tx.delete(self.table, &[id.into()])?;
                        writes.push((id, None));
                        continue;
                    }
                    let pad: Vec<u8> = (0..300).map(|_| rng.next() as u8).collect();
                    match tx.upsert(self.table, &[id.into(), key.into(), Value::Bytes(&pad)]) {
                        Ok(_) => writes.push((id, Some(key))),
                        // Another row has the key, and the index is there or is being built.
                        Err(Error::DuplicateKey { .. }) if place > 0 => {}
                        Err(e) => return Err(e),
                    }
                }
                Ok(())
            });
            let ticket = match done {
                Ok(((), ticket)) => ticket,
                Err(e) => return self.excuse("transaction", &e),
            };
            self.known.lock().unwrap().commits.insert(ticket.gsn(), writes);
            if durability == Durability::Durable && ticket.wait().is_ok() {
                let mut known = self.known.lock().unwrap();
                known.acknowledged = known.acknowledged.max(ticket.gsn());
            }
        }
    }

    /// Builds the index and drops it, again and again; whether it is there in the end, or `None` if
    /// only the next opening can tell.
    fn build(&self, rng: &mut Rng, mut there: bool) -> Option<bool> {
        for _ in 0..8 {
            let done = if there {
                self.db.drop_index(self.table, INDEX)
            } else {
                let kind = if rng.one_in(2) { NewIndex::hash } else { NewIndex::ordered };
                self.db.create_index(self.table, kind(INDEX, &["k"]).unique())
            };
            match &done {
                Ok(()) => there = !there,
                Err(Error::DuplicateKey { constraint, .. }) if !there && constraint == INDEX => {}
                Err(e) => {
                    self.excuse("index", e);
                    if self.is_over() {
                        return None;
                    }
                }
            }
            self.require(there);
            if rng.one_in(4)
                && let Err(e) = self.db.checkpoint()
            {
                self.excuse("checkpoint", &e);
            }
        }
        Some(there)
    }

    /// The same once, when nobody else is there: it comes to nothing if two rows share a key, and
    /// only then.
    fn build_alone(&self) -> Option<bool> {
        let now = match rows(self.db, self.table) {
            Ok(now) => now,
            Err(e) => {
                self.excuse("scan", &e);
                return Some(false);
            }
        };
        let least = doubled(&now);
        let done = self.db.create_index(self.table, NewIndex::hash(INDEX, &["k"]).unique());
        let there = match (&done, least) {
            (Ok(()), None) => true,
            (Err(Error::DuplicateKey { key, .. }), Some(least)) if *key == format!("({least})") => false,
            (Err(e), _) if !matches!(e, Error::DuplicateKey { .. }) => {
                self.excuse("index alone", e);
                if self.is_over() {
                    return None;
                }
                false
            }
            _ => {
                self.complain(format!("{done:?} of {now:?}"));
                return None;
            }
        };
        self.require(there);
        Some(there)
    }
}

fn live(
    db: &Database,
    disk: &CrashMedium,
    failed: u64,
    mut known: Known,
    (locking, seed): (Locking, u64),
) -> Result<Known, String> {
    let table = match db.table("t").or_else(|_| db.create_table(schema(locking))) {
        Ok(table) => table,
        Err(_) if disk.failed_calls() > failed => return Ok(known),
        Err(e) => return Err(format!("create table: {e}")),
    };
    known.created = true;
    let was = known.there == Some(true);
    let (known, wrong) = (Mutex::new(known), Mutex::default());
    let life = Life { db, table: &table, disk, failed, known, wrong };
    let mut rng = Rng(seed);
    // Of few keys some are doubled nearly always, of many now and then.
    let keys = rng.of(&[4, 12, 60]);
    let mut there = std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (life, mut rng) = (&life, Rng(rng.next()));
            scope.spawn(move || life.commit(&mut rng, client, keys));
        }
        life.build(&mut rng, was)
    });
    if there == Some(false) && !life.is_over() {
        there = life.build_alone();
    }
    if let Some(wrong) = life.wrong.into_inner().unwrap().first() {
        return Err(wrong.clone());
    }
    Ok(Known { there, ..life.known.into_inner().unwrap() })
}

pub fn run(seed: u64, sabotage: Sabotage) -> Result<(), String> {
    let disk = CrashMedium::new(seed ^ 0xd0b1e5);
    let mut rng = Rng(seed ^ 0xb111d5);
    let options = Options {
        medium: Arc::new(disk.clone()),
        streams: 1 + rng.below(2) as usize,
        segment_bytes: 16384,
        container_bytes: 4096,
        recovery_threads: 1,
        checkpoint_log_bytes: 0,
        sabotage,
        ..Options::in_memory()
    };
    let locking = rng.of(&[Locking::Record, Locking::Page, Locking::Container]);
    let mut known = Known { commits: BTreeMap::new(), acknowledged: 0, created: false, there: Some(false) };
    for life in 0..=LIVES {
        let (last, failed) = (life == LIVES, disk.failed_calls());
        if !last {
            let within = rng.of(&[60, 150, 400]);
            let crash_at = Some(disk.calls() + 1 + rng.below(within));
            disk.set_faults(Faults { crash_at, ..Faults::default() });
        }
        match Database::open("/db", options.clone()) {
            Err(e)
                if last
                    || disk.failed_calls() == failed
                    || matches!(e, Error::Corrupt { .. } | Error::CorruptTable { .. }) =>
            {
                return Err(format!("life {life}: cannot open: {e}"));
            }
            Err(_) => {}
            Ok(db) => {
                let checked = known.check(&db);
                // The first segment is got ready meanwhile, on a disk that may fail.
                let is_over =
                    disk.failed_calls() > failed && matches!(db.begin(), Err(Error::Poisoned { .. }));
                if !is_over {
                    checked.map_err(|e| format!("life {life}: {e}"))?;
                    if !last {
                        let plan = (locking, rng.next());
                        let lived = live(&db, &disk, failed, known, plan);
                        known = lived.map_err(|e| format!("life {life}, {locking:?}: {e}"))?;
                    }
                }
                if !last && !disk.is_dead() && rng.one_in(2) {
                    // The closing is cut off, too.
                    let crash_at = Some(disk.calls() + 1 + rng.below(4));
                    disk.set_faults(Faults { crash_at, ..Faults::default() });
                }
            }
        }
        disk.crash(if rng.one_in(3) { CrashKind::Kill } else { CrashKind::Power });
    }
    Ok(())
}
