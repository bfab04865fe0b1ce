//! Clients that run at the same time, blocking each other and waiting for the disk, until the disk
//! dies under them. Meanwhile checkpoints and backups are taken, log directories copied, to be put
//! back after the crash (`older.rs`), and a third table comes and goes (`keeper.rs`).
//!
//! The same clients run on threads of the operating system (`main.rs`) and under the scheduler of
//! the unit tests (`src/interleavings.rs`), which is why they name the engine and the threads
//! through their parent.

use super::engine::medium::{CrashKind, CrashMedium, Faults, Medium};
use super::engine::{
    Database, Durability, Error, Locking, LogKind, Logging, Options, Result, Row, Table, Transaction, Value,
    restore,
};
use super::history::{Content, History, Key, Tx};
use super::keeper::{Keeper, Third};
use super::older::{self, Older};
use super::rng::Rng;
use super::spawn;
use super::table::{PADS, Rows, TAGS, content, is_unique, key, padding, rows, schema, values};
use super::wrong;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

const KEYS: u64 = 5;
/// Keys of the rows that make a transaction as large as a segment.
const CROWD: std::ops::Range<u8> = 10..90;
/// The tables that every client uses; their places are their numbers in the history.
const NAMES: [&str; 2] = ["a", "b"];

/// What a seed decides about one schedule.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub clients: u64,
    pub transactions: u64,
    pub lives: u64,
    pub options: Options,
    pub locking: Locking,
}

impl Plan {
    pub fn new(seed: u64, clients: u64, transactions: u64, disk: &CrashMedium, base: Options) -> Plan {
        let mut rng = Rng(seed);
        let streams = 1 + rng.below(3) as usize;
        let elsewhere = if rng.one_in(2) { streams } else { 0 };
        let options = Options {
            medium: Arc::new(disk.clone()),
            streams,
            stream_dirs: (0..elsewhere).map(|i| format!("/disk-{i}/log").into()).collect(),
            log_kind: if rng.one_in(4) { LogKind::AfterImage } else { LogKind::Differential },
            scrub: rng.one_in(4),
            segment_bytes: 16384 + 4096 * rng.below(3),
            container_bytes: 4096,
            recovery_threads: 1,
            checkpoint_log_bytes: 0,
            // Backups copy the log where there is none for a snapshot.
            snapshot_memory: if seed.is_multiple_of(3) { 0 } else { base.snapshot_memory },
            ..base
        };
        let locking = rng.of(&[Locking::Record, Locking::Page, Locking::Container]);
        Plan { seed, clients, transactions, lives: 2, options, locking }
    }
}

/// A transaction as its client saw it: what it read, not from whom.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    pub tx: Tx,
    pub reads: BTreeMap<Key, Content>,
    /// All rows with a tag: the table's number, the tag, the rows.
    pub tagged: Vec<(usize, u8, Rows)>,
}

/// What the clients of one life tell.
pub struct ClientHistory {
    pub disk: CrashMedium,
    pub seen: Mutex<Vec<Seen>>,
    pub ids: AtomicU64,
    /// Calls that had failed when this life began.
    failed: u64,
    backups: Mutex<Vec<Backup>>,
    /// Copies of log directories.
    older: Mutex<Vec<Older>>,
    wrong: Mutex<Vec<String>>,
}

/// A backup that was taken, and the horizon before it.
struct Backup {
    path: String,
    horizon: u64,
}

impl ClientHistory {
    pub fn id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }

    /// Perhaps copies a log directory, as somebody may at any moment.
    fn copy_log(&self, rng: &mut Rng, plan: &Plan) {
        let mut older = self.older.lock().unwrap();
        if rng.one_in(8) && older.len() < 3 {
            older.push(older::copy(rng, &plan.options, &self.disk));
        }
    }

    pub fn complain(&self, what: String) {
        self.wrong.lock().unwrap().push(what);
    }

    /// Notes an error of the disk if the disk has not failed.
    pub fn excuse(&self, what: &str, e: &Error) {
        let disk = matches!(
            e,
            Error::Io { .. } | Error::LogFull { .. } | Error::Poisoned { .. } | Error::Indeterminate { .. }
        );
        if disk && self.disk.failed_calls() == self.failed {
            self.complain(format!("{what}: {e}, but the disk is whole"));
        }
    }
}

/// Runs a schedule: lives with concurrent clients, each ended by a crash, and a last one that only
/// looks. How many commits the crashes took back, or what was wrong.
pub fn run(plan: &Plan, disk: &CrashMedium) -> std::result::Result<u64, String> {
    let mut rng = Rng(plan.seed ^ 0x5eed);
    let mut history = History::default();
    let mut third = Third::new();
    let mut created = false;
    let (mut lost, mut ids, mut opened) = (0, 1, false);
    let other = rng.one_in(8);
    if other {
        wrong::make_other(&plan.options)?;
    }
    for life in 0..=plan.lives {
        let last = life == plan.lives;
        let (failed, refused) = (disk.failed_calls(), disk.refused_calls());
        if !last {
            let now = disk.calls();
            let within = rng.of(&[60, 150, 150, 400]);
            let mut faults = Faults { crash_at: Some(now + 1 + rng.below(within)), ..Faults::default() };
            match rng.below(8) {
                0 => faults.sync_error_at = Some(now + 1 + rng.below(60)),
                1 => faults.error_at = Some(now + 1 + rng.below(60)),
                _ => {}
            }
            disk.set_faults(faults);
        }
        let (mut backups, mut copies) = (Vec::new(), Vec::new());
        match Database::open("/db", plan.options.clone()) {
            Err(e)
                if last
                    || disk.failed_calls() == failed
                    || matches!(e, Error::Corrupt { .. } | Error::CorruptTable { .. }) =>
            {
                return Err(format!("life {life}: cannot open: {e}"));
            }
            Err(_) => {}
            Ok(db) => {
                opened = true;
                let before = history.committed.len();
                let checked = check_recovered(&db, &mut history, created)
                    .and_then(|()| third.check_recovered(&db, &history))
                    .map_err(|e| format!("life {life}: {e}"));
                // The first segment is got ready meanwhile, on a disk that may fail.
                let is_over =
                    disk.failed_calls() > failed && matches!(db.begin(), Err(Error::Poisoned { .. }));
                if !is_over {
                    checked?;
                }
                lost += (before - history.committed.len()) as u64;
                if !last && !is_over && tables(&db, plan, &mut created).is_some() {
                    let told = ClientHistory {
                        disk: disk.clone(),
                        seen: Mutex::default(),
                        ids: AtomicU64::new(ids),
                        failed,
                        backups: Mutex::default(),
                        older: Mutex::default(),
                        wrong: Mutex::default(),
                    };
                    let told = live(&db, plan, life, told, &mut third);
                    ids = told.id();
                    if let Some(wrong) = told.wrong.into_inner().unwrap().first() {
                        return Err(format!("life {life}: {wrong}"));
                    }
                    backups = told.backups.into_inner().unwrap();
                    copies = told.older.into_inner().unwrap();
                    explain(&mut history, told.seen.into_inner().unwrap())
                        .map_err(|e| format!("life {life}, {:?} locks: {e}", plan.locking))?;
                }
            }
        }
        disk.crash(if rng.one_in(3) { CrashKind::Kill } else { CrashKind::Power });
        let shortened = opened && rng.one_in(8);
        if shortened || !copies.is_empty() {
            let acknowledged = history.acknowledged();
            let excused = disk.refused_calls() > refused;
            let as_it_is = |disk| -> Arc<dyn Medium> { Arc::new(disk) };
            for copy in &copies {
                older::exchange(copy, &plan.options, disk, &as_it_is, &acknowledged, excused)
                    .map_err(|e| format!("life {life}: {e}"))?;
            }
            if shortened {
                older::shorten(&mut rng, &plan.options, disk, &as_it_is, &acknowledged)
                    .map_err(|e| format!("life {life}: {e}"))?;
            }
        }
        for b in backups {
            b.check(plan, &history, &third, rng.one_in(2)).map_err(|e| format!("{}: {e}", b.path))?;
        }
        if opened && (other || rng.one_in(4)) {
            wrong::attempt(&mut rng, &plan.options, disk, other).map_err(|e| format!("life {life}: {e}"))?;
        }
    }
    Ok(lost)
}

/// After opening: the state is that of a prefix of the commits which has everything acknowledged.
fn check_recovered(db: &Database, history: &mut History, created: bool) -> std::result::Result<(), String> {
    let cut = db.recovery().cut;
    history.truncate(cut)?;
    for (number, name) in NAMES.iter().enumerate() {
        let now = match db.table(name) {
            Ok(t) => rows(db, &t)?,
            Err(e) if created => return Err(e.to_string()),
            Err(_) => Rows::new(),
        };
        let want = history.rows(number);
        if now != want {
            return Err(format!("recovered {now:?} in {name}, expected {want:?} at cut {cut}"));
        }
    }
    db.verify().map_err(|e| e.to_string())
}

fn tables(db: &Database, plan: &Plan, created: &mut bool) -> Option<Vec<Table>> {
    let mut rng = Rng(plan.seed ^ 0x7ab1e5);
    let all = NAMES.map(|n| {
        let schema = schema(n, plan.locking, Logging::Logged, &mut rng);
        db.table(n).or_else(|_| db.create_table(schema))
    });
    let all: Option<Vec<Table>> = all.into_iter().map(Result::ok).collect();
    *created |= all.is_some();
    all
}

/// One life: clients, the keeper of the third table, and checkpoints, at the same time, until they
/// are through or the disk is dead.
fn live(db: &Database, plan: &Plan, life: u64, told: ClientHistory, third: &mut Third) -> ClientHistory {
    let told = Arc::new(told);
    let mut threads = Vec::new();
    for c in 0..plan.clients {
        let (db, plan, told) = (db.clone(), plan.clone(), told.clone());
        threads.push(spawn(move || client(&db, &plan, life, c, &told)));
    }
    if plan.options.snapshot_memory > 0 {
        let (looked, looker) = (db.clone(), told.clone());
        threads.push(spawn(move || look(&looked, &looker)));
    }
    let (copies, plan_of, teller) = (db.clone(), plan.clone(), told.clone());
    threads.push(spawn(move || keep_copies(&copies, &plan_of, life, &teller)));
    // Not in every life, because it takes a thread of its own.
    let mut rng = Rng(plan.seed ^ (life << 40) ^ 0x7419d);
    let keeper = rng.one_in(2).then(|| {
        let keeper = Keeper { db: db.clone(), told: told.clone(), locking: plan.locking, rng };
        let third = std::mem::replace(third, Third::new());
        spawn(move || keeper.run(third))
    });
    for t in threads {
        t.join().unwrap();
    }
    if let Some(keeper) = keeper {
        *third = keeper.join().unwrap();
    }
    Arc::into_inner(told).unwrap_or_else(|| panic!("all threads have ended"))
}

/// Reads everything at one moment, in two ways: a transaction that reads and takes no locks.
fn look(db: &Database, told: &ClientHistory) {
    for _ in 0..3 {
        let Ok(snapshot) = db.snapshot() else { return };
        let tx = Tx { id: told.id(), gsn: snapshot.gsn(), ..Tx::default() };
        let mut seen = Seen { tx, ..Seen::default() };
        for (number, name) in NAMES.iter().enumerate() {
            let Ok(table) = db.table(name) else { return };
            let rows = match snapshot.scan(&table).and_then(|all| all.collect::<Result<Vec<Row>>>()) {
                Ok(rows) => rows,
                Err(e) => return told.complain(format!("a snapshot: {e}")),
            };
            let rows: Rows = rows.iter().map(|r| (key(r), content(r))).collect();
            for k in 0..KEYS as u8 {
                let again = snapshot.get(&table, &[Value::Int(k.into())]);
                let again = again.map(|row| row.as_ref().map(content));
                if !matches!(&again, Ok(row) if *row == rows.get(&k).copied()) {
                    let first = rows.get(&k);
                    told.complain(format!("a snapshot shows {first:?} in row {k} of {name}, then {again:?}"));
                }
                seen.saw((number, k), rows.get(&k).copied());
            }
        }
        told.seen.lock().unwrap().push(seen);
    }
}

/// Takes checkpoints, and in some lives a backup.
fn keep_copies(db: &Database, plan: &Plan, life: u64, told: &ClientHistory) {
    let mut rng = Rng(plan.seed ^ (life << 40) ^ 0xc0b1e5);
    let backup_at = rng.below(8);
    for i in 0..3 {
        if i == backup_at {
            let (path, horizon) = (format!("/backup-{life}"), db.horizon());
            match db.backup(&path) {
                Ok(_) => told.backups.lock().unwrap().push(Backup { path, horizon }),
                Err(e) => return told.excuse("backup", &e),
            }
        }
        if let Err(e) = db.checkpoint() {
            return told.excuse("checkpoint", &e);
        }
    }
}

fn client(db: &Database, plan: &Plan, life: u64, number: u64, told: &ClientHistory) {
    let Some(tables) = tables(db, plan, &mut false) else { return };
    let mut rng = Rng(plan.seed ^ (life << 40) ^ (number << 32));
    for _ in 0..plan.transactions {
        // Enough for two segments: a flush that spans them must make both durable.
        let many = if rng.one_in(12) { 10 } else { 1 };
        let mut lazy = Vec::new();
        for _ in 0..many {
            let durability = if many > 1 || rng.one_in(4) { Durability::Lazy } else { Durability::Durable };
            told.copy_log(&mut rng, plan);
            let script = rng.next();
            let mut last = Seen::default();
            let done = db.run_with(durability, |tx| {
                last = Seen { tx: Tx { id: told.id(), ..Tx::default() }, ..Seen::default() };
                let mut rng = Rng(script);
                if many == 1 && rng.one_in(24) {
                    return crowd(tx, &tables, &mut rng, &mut last);
                }
                let n = if many > 1 { 4 } else { 1 + rng.below(4) };
                (0..n).try_for_each(|_| act(tx, &tables, &mut rng, &mut last, many > 1))
            });
            let ticket = match done {
                Ok(((), ticket)) => ticket,
                Err(e) => return told.excuse("transaction", &e),
            };
            last.tx.gsn = ticket.gsn();
            let wanted = rng.below(3);
            // In line before it is durable: others may have read it already.
            let place = {
                let mut seen = told.seen.lock().unwrap();
                seen.push(last);
                seen.len() - 1
            };
            if many > 1 {
                lazy.push(place);
                continue;
            }
            let durable = match wanted {
                0 => ticket.wait_durable().is_ok(),
                1 => durability == Durability::Durable && ticket.poll().is_ok_and(|d| d),
                _ => durability == Durability::Durable && ticket.wait().is_ok(),
            };
            told.seen.lock().unwrap()[place].tx.acknowledged = durable;
        }
        if !lazy.is_empty() && db.flush().is_ok() {
            let mut seen = told.seen.lock().unwrap();
            lazy.into_iter().for_each(|place| seen[place].tx.acknowledged = true);
        }
    }
}

/// A transaction as large as a segment: rows that no other client writes, until one is too many. It
/// commits what it has.
fn crowd(tx: &mut Transaction<'_>, tables: &[Table], rng: &mut Rng, seen: &mut Seen) -> Result<()> {
    let number = rng.below(2) as usize;
    let (t, id, len) = (&tables[number], seen.tx.id, PADS[3]);
    if is_unique(t) {
        // There are not so many tags.
        return Ok(());
    }
    let pad = padding(id, len);
    for k in CROWD {
        let tag = rng.below(TAGS) as u8;
        let row = values(t, k, (id, len, tag), &pad);
        let before = tx.get(t, &row[..1])?;
        seen.saw((number, k), before.as_ref().map(content));
        match tx.upsert(t, &row) {
            Err(Error::TransactionTooLarge { .. }) => break,
            Err(e) => return Err(e),
            Ok(_) => drop(seen.tx.writes.insert((number, k), Some((id, len, tag)))),
        }
    }
    Ok(())
}

fn act(
    tx: &mut Transaction<'_>,
    tables: &[Table],
    rng: &mut Rng,
    seen: &mut Seen,
    is_large: bool,
) -> Result<()> {
    let number = rng.below(2) as usize;
    let (t, k) = (&tables[number], rng.below(KEYS) as u8);
    let (at, id, tag) = ((number, k), seen.tx.id, rng.below(TAGS) as u8);
    let len = if is_large { PADS[3] } else { rng.of(&PADS) };
    let pad = padding(id, len);
    let row = values(t, k, (id, len, tag), &pad);
    let what = if is_large { 3 } else { rng.below(10) };
    match what {
        0..=2 => {
            let row = tx.get(t, &row[..1])?;
            seen.saw(at, row.as_ref().map(content));
        }
        3..=5 => {
            let before = tx.get(t, &row[..1])?;
            seen.saw(at, before.as_ref().map(content));
            match tx.upsert(t, &row) {
                // Another row has the tag.
                Err(Error::DuplicateKey { .. }) => {}
                Err(e) => return Err(e),
                Ok(_) => drop(seen.tx.writes.insert(at, Some((id, len, tag)))),
            }
        }
        6 => {
            let before = tx.get(t, &row[..1])?;
            seen.saw(at, before.as_ref().map(content));
            let absent = seen.reads.get(&at) == Some(&None);
            if tx.delete(t, &row[..1])? && absent {
                // Its own row: nothing has happened.
                seen.tx.writes.remove(&at);
            } else if before.is_some() {
                seen.tx.writes.insert(at, None);
            }
        }
        7..=8 => {
            let found = tx.get_by(t, "by_tag", &row[2..3])?;
            let found: Rows = found.iter().map(|r| (key(r), content(r))).collect();
            found.iter().for_each(|(k, c)| seen.saw((number, *k), Some(*c)));
            // Own rows may be among them, others may be missing.
            if !seen.tx.writes.keys().any(|(n, _)| *n == number) {
                seen.tagged.push((number, tag, found));
            }
        }
        _ => {
            let rows = tx.scan(t)?.collect::<Result<Vec<Row>>>()?;
            let rows: Rows = rows.iter().map(|r| (key(r), content(r))).collect();
            (0..KEYS as u8).for_each(|k| seen.saw((number, k), rows.get(&k).copied()));
        }
    }
    Ok(())
}

impl Seen {
    /// Notes the first read of a key; own writes are not reads of others.
    pub fn saw(&mut self, key: Key, got: Content) {
        if !self.tx.writes.contains_key(&key) {
            self.reads.entry(key).or_insert(got);
        }
    }
}

/// Puts a life's transactions into the history in the order of their numbers. What each one read
/// must be what stood there at its number, which names the version read; then the graph of their
/// dependencies must have no cycle.
fn explain(history: &mut History, mut seen: Vec<Seen>) -> std::result::Result<(), String> {
    // A read-only transaction has the number of the last commit it may have seen.
    seen.sort_by_key(|s| (s.tx.gsn, s.tx.writes.is_empty()));
    for mut s in seen {
        for (key, got) in s.reads {
            let now = history.current(key);
            if got != now.content {
                return Err(format!(
                    "{} (commit {}) saw {got:?} in {key:?}, there was {now:?}",
                    s.tx.id, s.tx.gsn
                ));
            }
            s.tx.reads.insert(key, now.writer);
        }
        for (number, tag, found) in s.tagged {
            let mut now = history.rows(number);
            now.retain(|_, c| c.2 == tag);
            if now != found {
                let (id, gsn) = (s.tx.id, s.tx.gsn);
                return Err(format!("{id} (commit {gsn}) saw {found:?} with tag {tag}, there was {now:?}"));
            }
        }
        history.commit(s.tx);
    }
    history.check_serializable()
}

impl Backup {
    /// After the crash, so that a copy that was not made durable is noticed: it has every commit up
    /// to some number, which is not below the horizon when it was begun, and none after.
    fn check(
        &self,
        plan: &Plan,
        history: &History,
        third: &Third,
        restored: bool,
    ) -> std::result::Result<(), String> {
        let options = Options { stream_dirs: Vec::new(), ..plan.options.clone() };
        let mut path = self.path.clone();
        if restored {
            path.push_str("-restored");
            restore(&self.path, &path, &options).map_err(|e| format!("restore: {e}"))?;
        }
        let db = Database::open(&path, options).map_err(|e| format!("open: {e}"))?;
        let cut = db.recovery().cut;
        if cut < self.horizon {
            return Err(format!("the cut is {cut}, the horizon was {}", self.horizon));
        }
        for (number, name) in NAMES.iter().enumerate() {
            let now = rows(&db, &db.table(name).map_err(|e| e.to_string())?)?;
            let want = history.rows_at(number, cut);
            if now != want {
                return Err(format!("{now:?} is in {name}, expected {want:?} at cut {cut}"));
            }
        }
        third.check_copy(&db, history, cut)?;
        db.verify().map_err(|e| e.to_string())
    }
}
