//! One schedule: a few lives of a database, each with interleaved transactions and a violent end.

use crate::backups::Backups;
use crate::catalogue::{Catalogue, Outcome};
use crate::history::{Content, History, Key, Tx};
use crate::older::{self, Older};
use crate::rng::Rng;
use crate::table::{PADS, Rows, TAGS, content, key, padding, schema, tag_value, values};
use crate::wrong;
use mmdb::medium::{CrashKind, CrashMedium, Faults, Medium};
use mmdb::{
    Database, Durability, Error, Locking, LogKind, Logging, Options, Row, Sabotage, Snapshot, Stepwise,
    Table, Ticket, Transaction, Value,
};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

const KEYS: u64 = 6;
/// Keys of the rows that make a transaction as large as a segment; nobody else writes them.
const CROWD: std::ops::Range<u8> = 10..90;
/// Tables come and go under these names.
const NAMES: [&str; 4] = ["a", "b", "c", "d"];

struct Client<'a> {
    tx: Transaction<'a>,
    log: Tx,
}

/// What the harness knows that outlives a crash.
struct World {
    rng: Rng,
    history: History,
    catalogue: Catalogue,
    backups: Backups,
    medium: CrashMedium,
    next_id: u64,
    /// There is a database.
    opened: bool,
    /// The last life ended with a clean closing.
    closed: bool,
    /// Calls that had failed when this life began.
    failed: u64,
    /// Copies of log directories that were made in this life.
    older: Vec<Older>,
    trace: bool,
}

impl World {
    fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// Whether the disk has given the engine a reason to fail in this life.
    fn is_disturbed(&self) -> bool {
        self.medium.failed_calls() > self.failed
    }

    /// An error of the disk is nobody's fault, if the disk has failed.
    fn excuse(&self, what: &str, e: &Error) -> Result<(), String> {
        let disk = matches!(
            e,
            Error::Io { .. }
                | Error::DiskFull { .. }
                | Error::LogFull { .. }
                | Error::Poisoned { .. }
                | Error::Indeterminate { .. }
        );
        if disk && self.is_disturbed() { Ok(()) } else { Err(format!("{what}: {e}")) }
    }

    fn check_recovered(&mut self, db: &Database) -> Result<(), String> {
        let World { catalogue, history, next_id, .. } = self;
        catalogue.check_recovered(db, history, || {
            *next_id += 1;
            *next_id
        })
    }

    /// The handle and number of a table that is there.
    fn table(&mut self, logged: bool) -> Option<(usize, Table, bool)> {
        let all = &self.catalogue.tables;
        let mut some =
            all.iter().filter(|t| t.handle.is_some() && (!logged || t.schema.logging == Logging::Logged));
        let n = some.clone().count() as u64;
        if n == 0 {
            return None;
        }
        let t = some.nth(self.rng.below(n) as usize)?;
        Some((t.number, t.handle.clone()?, t.unique))
    }
}

macro_rules! trace {
    ($w:expr, $($arg:tt)*) => { if $w.trace { eprintln!($($arg)*); } };
}

/// Runs the schedule of `seed` with an engine that has the defect `sabotage`, on the disk as `wrap`
/// shows it to the engine.
pub fn run(
    seed: u64,
    sabotage: Sabotage,
    wrap: impl Fn(CrashMedium) -> Arc<dyn Medium>,
    trace: bool,
) -> Result<(), String> {
    let medium = CrashMedium::new(seed ^ 0xabcd);
    let mut w = World {
        rng: Rng(seed),
        history: History::default(),
        catalogue: Catalogue::default(),
        backups: Backups::default(),
        medium: medium.clone(),
        next_id: 0,
        opened: false,
        closed: false,
        failed: 0,
        older: Vec::new(),
        trace,
    };
    let locking = w.rng.of(&[Locking::Record, Locking::Page, Locking::Container]);
    let streams = 1 + w.rng.below(3) as usize;
    let elsewhere = w.rng.one_in(2);
    let options = Options {
        medium: wrap(medium.clone()),
        streams,
        stream_dirs: (0..if elsewhere { streams } else { 0 })
            .map(|i| PathBuf::from(format!("/disk-{i}/log")))
            .collect(),
        log_kind: if w.rng.one_in(4) { LogKind::AfterImage } else { LogKind::Differential },
        scrub: w.rng.one_in(4),
        segment_bytes: 16384 + 4096 * w.rng.below(3),
        container_bytes: 4096,
        background: false,
        recovery_threads: if w.rng.one_in(16) { 2 } else { 1 },
        // Backups copy the log where there is none for a snapshot.
        snapshot_memory: if seed.is_multiple_of(3) { 0 } else { Options::default().snapshot_memory },
        // Ranges of few rows take the table in some schedules.
        range_locks: if seed.is_multiple_of(4) { 3 } else { Options::default().range_locks },
        sabotage,
        ..Options::in_memory()
    };
    trace!(w, "{options:?} {locking:?}");
    let lives = 2 + w.rng.below(3);
    let other = w.rng.one_in(8);
    if other {
        wrong::make_other(&options)?;
    }
    for life in 0..lives {
        let refused = medium.refused_calls();
        one_life(&mut w, &options, locking, life + 1 == lives).map_err(|e| format!("life {life}: {e}"))?;
        let kind = if w.rng.one_in(3) { CrashKind::Kill } else { CrashKind::Power };
        trace!(w, "{kind:?}");
        medium.crash(kind);
        w.backups.check(&options, &medium, life + 1 == lives)?;
        lose_log(&mut w, &options, &wrap, refused).map_err(|e| format!("life {life}: {e}"))?;
        if w.opened && (other || w.rng.one_in(4)) {
            wrong::attempt(&mut w.rng, &options, &medium, other).map_err(|e| format!("life {life}: {e}"))?;
        }
    }
    w.history.check_serializable()
}

/// After a crash, on copies of the disk: log directories are older copies of themselves, or lack
/// their last segments. `refused` calls had failed before this life.
fn lose_log(
    w: &mut World,
    options: &Options,
    wrap: &dyn Fn(CrashMedium) -> Arc<dyn Medium>,
    refused: u64,
) -> Result<(), String> {
    let (older, medium) = (std::mem::take(&mut w.older), w.medium.clone());
    let missing = w.opened && w.rng.one_in(8);
    if older.is_empty() && !missing {
        return Ok(());
    }
    let acknowledged = w.history.acknowledged();
    // A manifest that cannot be stored stops no commit in a segment that one names already.
    let excused = medium.refused_calls() > refused;
    for copy in &older {
        older::exchange(copy, options, &medium, wrap, &acknowledged, excused)?;
    }
    if missing {
        older::shorten(&mut w.rng, options, &medium, wrap, &acknowledged)?;
    }
    Ok(())
}

/// From an opening to a crash. The last life only looks.
fn one_life(w: &mut World, options: &Options, locking: Locking, last: bool) -> Result<(), String> {
    let medium = w.medium.clone();
    if std::mem::take(&mut w.closed) && w.rng.one_in(2) {
        open_damaged(w, options)?;
    }
    w.failed = medium.failed_calls();
    if !last {
        let start = medium.calls();
        let mut faults = Faults::default();
        match w.rng.below(12) {
            0 => faults.sync_error_at = Some(start + 1 + w.rng.below(60)),
            1 => faults.write_error_at = Some(start + 1 + w.rng.below(60)),
            2 => faults.capacity = Some(60_000 + w.rng.below(150_000)),
            3 => faults.error_at = Some(start + 1 + w.rng.below(60)),
            _ => {
                let within = w.rng.of(&[40, 150, 150, 400]);
                faults.crash_at = Some(start + 1 + w.rng.below(within));
            }
        }
        trace!(w, "{faults:?}");
        medium.set_faults(faults);
    }
    let db = match Database::open("/db", options.clone()) {
        Ok(db) => db,
        Err(e) => {
            trace!(w, "open failed: {e}");
            return w.excuse("cannot open", &e);
        }
    };
    trace!(w, "recovered {:?}", db.recovery());
    w.opened = true;
    w.check_recovered(&db)?;
    if last {
        return Ok(());
    }
    for name in &NAMES[..2] {
        if db.table(name).is_err() {
            create(&db, w, name, locking, Logging::Logged)?;
        }
    }
    live(&db, w, options, locking)?;
    if w.rng.one_in(5) {
        let closed = db.close();
        trace!(w, "close: {closed:?}");
        match closed {
            Ok(()) => {
                w.closed = true;
                w.history.acknowledge_all();
            }
            Err(e) => w.excuse("close", &e)?,
        }
    } else if !medium.is_dead() {
        // The handle that goes flushes what it can; a process that dies does not, or gets not far.
        let crash_at = Some(medium.calls() + 1 + w.rng.below(4));
        medium.set_faults(Faults { crash_at, ..Faults::default() });
    }
    Ok(())
}

/// One bit of the end of a closed log flips: whoever opens it is told, unless nothing needs that
/// frame any more.
fn open_damaged(w: &mut World, options: &Options) -> Result<(), String> {
    let medium = w.medium.clone();
    let Some((file, at)) = wrong::end_of_log(&mut w.rng, options, &medium) else { return Ok(()) };
    let bit = w.rng.below(8) as u8;
    medium.flip_bit(&file, at, bit).map_err(|e| e.to_string())?;
    let damaged = medium.fingerprint();
    let opened = Database::open("/db", options.clone());
    trace!(w, "damaged {} at {at}: {:?}", file.display(), opened.as_ref().err());
    match opened {
        Ok(db) => {
            w.check_recovered(&db).map_err(|e| format!("with a bit of {} flipped: {e}", file.display()))
        }
        Err(e) if medium.fingerprint() != damaged => Err(format!("refused ({e}), but files changed")),
        Err(Error::Corrupt { .. } | Error::CorruptTable { .. }) => {
            medium.flip_bit(&file, at, bit).map_err(|e| e.to_string())
        }
        Err(e) => Err(format!("a flipped bit of {}: {e}", file.display())),
    }
}

fn live(db: &Database, w: &mut World, options: &Options, locking: Locking) -> Result<(), String> {
    let streams = options.streams;
    let medium = w.medium.clone();
    let mut clients: Vec<Option<Client<'_>>> = (0..3).map(|_| None).collect();
    let mut tickets: Vec<(u64, Ticket)> = Vec::new();
    let mut checkpoint: Option<Stepwise<'_>> = None;
    let steps = 20 + w.rng.below(180);
    // Most lives have one specialty, so that they get far in it.
    let (bursts, schemas, backups) = (w.rng.one_in(4), w.rng.one_in(3), w.rng.one_in(8));
    let (limits, copies) = (w.rng.one_in(4), w.rng.one_in(4));
    let (looks, mut open) = (w.rng.one_in(3) && options.snapshot_memory > 0, Vec::new());
    for _ in 0..steps {
        if medium.is_dead() {
            break;
        }
        match w.rng.below(48) {
            0 if checkpoint.is_none() => match db.checkpoint_stepwise() {
                Ok(c) => {
                    trace!(w, "checkpoint begins");
                    w.catalogue.checkpoint_begins(&w.history);
                    checkpoint = Some(c);
                }
                Err(e) => w.excuse("checkpoint", &e)?,
            },
            0..=3 => {
                if let Some(mut c) = checkpoint.take() {
                    match c.step() {
                        Ok(true) => checkpoint = Some(c),
                        Ok(false) => publish(db, w, c)?,
                        Err(e) => {
                            trace!(w, "checkpoint: {e}");
                            w.catalogue.checkpoint_ends(Some(false));
                            w.excuse("checkpoint", &e)?;
                        }
                    }
                }
            }
            4..=6 => {
                let s = w.rng.below(streams as u64) as usize;
                trace!(w, "flush stream {s}");
                // A failure shows in the tickets.
                if let Err(e) = db.flush_stream(s) {
                    w.excuse("flush", &e)?;
                }
            }
            7..=8 if !tickets.is_empty() => {
                let i = w.rng.below(tickets.len() as u64) as usize;
                let (id, t) = tickets.swap_remove(i);
                if t.wait_durable().is_ok() {
                    trace!(w, "acknowledged {id}");
                    w.history.acknowledge(id);
                }
            }
            // Each of these needs the place of a checkpoint.
            9..=10 if checkpoint.is_none() && (schemas || w.rng.one_in(8)) => {
                if w.rng.one_in(2) {
                    // Nobody is in the way.
                    clients.iter_mut().for_each(|c| *c = None);
                }
                change_schema(db, w, locking)?;
            }
            11 if checkpoint.is_none() && backups => {
                let (catalogue, history, rng) = (&w.catalogue, &w.history, &mut w.rng);
                let done = w.backups.take(db, rng, catalogue.expected(history), history.last());
                trace!(w, "backup: {done:?}");
                if let Err(e) = done {
                    w.excuse("backup", &e)?;
                }
            }
            15 if copies && w.older.len() < 3 => {
                trace!(w, "a log directory is copied");
                w.older.push(older::copy(&mut w.rng, options, &medium));
            }
            16 => {
                // Who waits for nobody would try again and again.
                clients.iter_mut().for_each(|c| *c = None);
                expire(db, w, &mut tickets)?;
            }
            12..=13 if bursts => burst(db, w, streams)?,
            14 if limits => {
                let (large, filled) = (w.rng.one_in(2), w.rng.one_in(3));
                if large {
                    crowd(db, w, &mut tickets)?;
                }
                if filled && checkpoint.is_none() {
                    // Who has locks in the table would commit into rows that came without them.
                    clients.iter_mut().for_each(|c| *c = None);
                    fill(db, w)?;
                }
            }
            _ => {
                let c = w.rng.below(clients.len() as u64) as usize;
                step(db, w, &mut clients[c], &mut tickets)?;
            }
        }
        if looks && w.rng.one_in(8) {
            look(db, w, &mut open)?;
        }
        // What a poll or another wait has made durable counts as well.
        w.history.acknowledge_up_to(db.horizon());
    }
    drop(checkpoint);
    w.catalogue.checkpoint_ends(Some(false));
    Ok(())
}

/// A snapshot, and what it must show: of each table its number, its handle and its rows.
struct Look<'a> {
    snapshot: Snapshot<'a>,
    want: Vec<(usize, Table, Rows)>,
}

/// Opens a snapshot, or reads one that is open, whatever has happened since, and perhaps closes it.
fn look<'a>(db: &'a Database, w: &mut World, open: &mut Vec<Look<'a>>) -> Result<(), String> {
    if open.is_empty() || (open.len() < 3 && w.rng.one_in(3)) {
        return match db.snapshot() {
            Ok(snapshot) => {
                trace!(w, "snapshot of commit {}", snapshot.gsn());
                let all = w.catalogue.tables.iter();
                let there = all.filter_map(|t| Some((t.number, t.handle.clone()?)));
                let want = there.map(|(number, t)| (number, t, w.history.rows(number))).collect();
                open.push(Look { snapshot, want });
                Ok(())
            }
            Err(e) => w.excuse("snapshot", &e),
        };
    }
    let i = w.rng.below(open.len() as u64) as usize;
    let look = &open[i];
    for (number, table, want) in &look.want {
        let rows = if w.rng.one_in(2) {
            look.snapshot.scan(table).and_then(|all| all.collect::<mmdb::Result<Vec<Row>>>())
        } else {
            // By the index of tags, which rows leave and come back to.
            let of_tag = |tag: u64| look.snapshot.get_by(table, "by_tag", &[tag_value(table, tag as u8)]);
            (0..TAGS)
                .map(of_tag)
                .collect::<mmdb::Result<Vec<_>>>()
                .map(|all| all.into_iter().flatten().collect())
        };
        match rows {
            Ok(rows) => {
                let found: Rows = rows.iter().map(|r| (key(r), content(r))).collect();
                if found != *want || found.len() != rows.len() {
                    let (name, gsn) = (table.name(), look.snapshot.gsn());
                    return Err(format!(
                        "a snapshot of commit {gsn} shows {found:?} in {name}, expected {want:?}"
                    ));
                }
            }
            // It was dropped since, or filled.
            Err(Error::NoSuchTable { .. })
                if table.schema().logging == Logging::Volatile
                    || w.catalogue.tables.iter().all(|t| t.number != *number) => {}
            Err(e) => return Err(format!("a snapshot: {e}")),
        }
    }
    if w.rng.one_in(3) {
        open.swap_remove(i);
    }
    Ok(())
}

fn publish(db: &Database, w: &mut World, c: Stepwise<'_>) -> Result<(), String> {
    let done = c.finish();
    trace!(w, "checkpoint {done:?}");
    let published = match &done {
        Ok(_) => Some(true),
        Err(_) if is_over(db, &w.medium) => None,
        Err(_) => Some(false),
    };
    w.catalogue.checkpoint_ends(published);
    done.map_or_else(|e| w.excuse("checkpoint", &e), |_| Ok(()))
}

/// Whether the database takes no more calls in this life.
fn is_over(db: &Database, medium: &CrashMedium) -> bool {
    medium.is_dead() || matches!(db.begin(), Err(Error::Poisoned { .. }))
}

/// Creates or drops a table; in half of the cases one of the few calls fails that this takes.
fn change_schema(db: &Database, w: &mut World, locking: Locking) -> Result<(), String> {
    let before = w.medium.faults();
    if w.rng.one_in(2) {
        let error_at = Some(w.medium.calls() + 1 + w.rng.below(5));
        w.medium.set_faults(Faults { error_at, ..before });
    }
    let name = w.rng.of(&NAMES);
    let done = match w.catalogue.tables.iter().position(|t| t.schema.name == name) {
        Some(i) => drop_table(db, w, i),
        None => {
            let logging = w.rng.of(&[Logging::Logged, Logging::Checkpointed, Logging::Volatile]);
            create(db, w, name, locking, logging)
        }
    };
    w.medium.set_faults(Faults { error_at: before.error_at, ..w.medium.faults() });
    done?;
    // Whatever became of it, the next manifests and the next images of both sides must go with it.
    if w.is_disturbed() && w.rng.one_in(2) {
        for _ in 0..2 {
            match db.checkpoint_stepwise() {
                Ok(c) => {
                    w.catalogue.checkpoint_begins(&w.history);
                    publish(db, w, c)?;
                }
                Err(e) => return w.excuse("checkpoint", &e),
            }
        }
    }
    Ok(())
}

fn create(
    db: &Database,
    w: &mut World,
    name: &str,
    locking: Locking,
    logging: Logging,
) -> Result<(), String> {
    let schema = schema(name, locking, logging, &mut w.rng);
    let done = db.create_table(schema.clone());
    trace!(w, "create {name} {logging:?}: {:?}", done.as_ref().map(|_| ()));
    let outcome = match &done {
        Ok(_) => Outcome::Done,
        Err(_) if is_over(db, &w.medium) => Outcome::Unknown,
        Err(_) => Outcome::NotDone,
    };
    if outcome == Outcome::NotDone && db.table(name).is_ok() {
        return Err(format!("table {name} is there although it could not be created"));
    }
    let failed = done.as_ref().err().cloned();
    w.catalogue.created(schema, done.ok(), outcome);
    failed.map_or(Ok(()), |e| w.excuse("create table", &e))
}

fn drop_table(db: &Database, w: &mut World, i: usize) -> Result<(), String> {
    let Some(handle) = w.catalogue.tables[i].handle.clone() else { return Ok(()) };
    let done = db.drop_table(&handle);
    trace!(w, "drop {}: {done:?}", handle.name());
    let outcome = match &done {
        Ok(_) => Outcome::Done,
        Err(_) if is_over(db, &w.medium) => Outcome::Unknown,
        Err(_) => Outcome::NotDone,
    };
    if db.table(handle.name()).is_ok() != (outcome != Outcome::Done) {
        return Err(format!("table {} was to be dropped: {done:?}", handle.name()));
    }
    w.catalogue.dropped(i, outcome);
    match done {
        // Somebody uses it.
        Err(Error::Deadlock { .. }) | Ok(()) => Ok(()),
        Err(e) => w.excuse("drop table", &e),
    }
}

/// Many commits that nobody waits for, enough for several segments, and perhaps a flush that takes
/// them all.
fn burst(db: &Database, w: &mut World, streams: usize) -> Result<(), String> {
    for _ in 0..10 + w.rng.below(30) {
        let mut slot = None;
        step(db, w, &mut slot, &mut Vec::new())?;
        for _ in 0..1 + w.rng.below(4) {
            let Some((number, table, unique)) = w.table(true) else { return Ok(()) };
            let Some(client) = &mut slot else { break };
            if !operate(w, client, (number, &table, unique), 4, Some(PADS[3]))? {
                slot = None;
            }
        }
        if let Some(client) = slot {
            commit(w, client, Durability::Lazy, &mut Vec::new())?;
        }
    }
    let flushed = match w.rng.below(3) {
        0 => Ok(()),
        1 => db.flush_stream(w.rng.below(streams as u64) as usize),
        _ => db.flush(),
    };
    trace!(w, "burst, {flushed:?}");
    flushed.or_else(|e| w.excuse("flush", &e))
}

/// A transaction near the largest frame that a segment holds: it inserts rows with keys of their
/// own until one is refused, which is told with both sizes and changes nothing, takes them back
/// until it can commit a little, or commits all of it as one.
fn crowd(db: &Database, w: &mut World, tickets: &mut Vec<(u64, Ticket)>) -> Result<(), String> {
    let Some((number, table, unique)) = w.table(true) else { return Ok(()) };
    if unique {
        // There are not so many tags.
        return Ok(());
    }
    let tx = match db.begin() {
        Ok(tx) => tx,
        Err(e) => return w.excuse("begin", &e),
    };
    let mut client = Client { tx, log: Tx { id: w.id(), ..Tx::default() } };
    let (id, len) = (client.log.id, PADS[3]);
    let pad = padding(id, len);
    let spare = w.rng.below(3);
    let mut refused = 0;
    for k in CROWD {
        let tag = w.rng.below(TAGS) as u8;
        let row = values(&table, k, (id, len, tag), &pad);
        match client.tx.upsert(&table, &row) {
            Ok(was) => {
                if was != expect(w, &mut client, (number, k))?.is_some() {
                    return Err(format!("upsert of row {k} of the crowd says {was}"));
                }
                client.log.writes.insert((number, k), Some((id, len, tag)));
            }
            Err(Error::TransactionTooLarge { bytes, max }) => {
                if bytes <= max {
                    return Err(format!("a transaction of {bytes} bytes is too large for {max}"));
                }
                refused += 1;
                if refused > spare {
                    break;
                }
            }
            Err(Error::Deadlock { .. }) => return Ok(()),
            Err(e) => return w.excuse("crowd", &e),
        }
    }
    trace!(w, "tx {id}: a crowd of {} rows, {refused} refused", client.log.writes.len());
    if w.rng.one_in(4) {
        return Ok(());
    }
    let durability = if w.rng.one_in(2) { Durability::Lazy } else { Durability::Durable };
    commit(w, client, durability, tickets)
}

/// Rows of a table expire, in one transaction or several: those that are due go, and no other.
fn expire(db: &Database, w: &mut World, tickets: &mut Vec<(u64, Ticket)>) -> Result<(), String> {
    let expiring = |t: &&crate::catalogue::CreatedTable| t.schema.expiry.is_some();
    let all = w.catalogue.tables.iter().filter(expiring);
    let all: Vec<(usize, Table)> = all.filter_map(|t| Some((t.number, t.handle.clone()?))).collect();
    if all.is_empty() {
        return Ok(());
    }
    let (number, table) = all[w.rng.below(all.len() as u64) as usize].clone();
    let last = w.rng.below(TAGS) as u8;
    let now = UNIX_EPOCH + Duration::from_secs(last.into());
    loop {
        let before = w.history.rows(number);
        let mut due: Rows = before.iter().filter(|(_, c)| c.2 <= last).map(|(k, c)| (*k, *c)).collect();
        let (gone, ticket) = match db.expire_some(&table, now) {
            Ok(None) if due.is_empty() => return Ok(()),
            Ok(None) => return Err(format!("{due:?} in {} did not expire", table.name())),
            Ok(Some(done)) => done,
            Err(e) => return w.excuse("expire", &e),
        };
        trace!(w, "{gone} rows of {} expire in commit {}", table.name(), ticket.gsn());
        if gone as usize != due.len() {
            let after = crate::table::rows(db, &table)?;
            due.retain(|k, _| !after.contains_key(k));
            if gone as usize != due.len()
                || before.iter().any(|(k, c)| after.get(k) != Some(c) && !due.contains_key(k))
            {
                return Err(format!(
                    "{gone} rows of {before:?} expired up to tag {last}, left are {after:?}"
                ));
            }
        }
        let mut log = Tx { id: w.id(), gsn: ticket.gsn(), ..Tx::default() };
        log.writes = due.keys().map(|k| ((number, *k), None)).collect();
        let id = log.id;
        w.history.commit(log);
        match w.rng.below(3) {
            0 if ticket.wait_durable().is_ok() => w.history.acknowledge(id),
            1 => tickets.push((id, ticket)),
            _ => {}
        }
        if is_over(db, &w.medium) {
            return Ok(());
        }
    }
}

/// Fills an empty volatile table, while calls of the disk fail. A fill that is dropped, or in which
/// two rows share a key, leaves the table empty; and none is there after a restart.
fn fill(db: &Database, w: &mut World) -> Result<(), String> {
    let volatile =
        |t: &&crate::catalogue::CreatedTable| t.schema.logging == Logging::Volatile && t.handle.is_some();
    let Some(t) = w.catalogue.tables.iter().find(volatile) else { return Ok(()) };
    let (number, name) = (t.number, t.schema.name.clone());
    let Some(table) = t.handle.clone() else { return Ok(()) };
    let there = w.history.rows(number);
    let fill = match db.fill(&table) {
        Ok(fill) if there.is_empty() => fill,
        Ok(_) => return Err(format!("{name} is filled although it has {there:?}")),
        Err(Error::Operation { .. }) if !there.is_empty() => return Ok(()),
        Err(e) => return w.excuse("fill", &e),
    };
    let before = w.medium.faults();
    if w.rng.one_in(2) {
        let error_at = Some(w.medium.calls() + 1 + w.rng.below(5));
        w.medium.set_faults(Faults { error_at, ..before });
    }
    let mut log = Tx { id: w.id(), ..Tx::default() };
    let (id, len) = (log.id, w.rng.of(&PADS));
    let pad = padding(id, len);
    let (twice, dropped) = (w.rng.one_in(3), w.rng.one_in(4));
    let mut writer = fill.writer();
    for k in (0..KEYS as u8).chain(twice.then_some(0)) {
        // Every row has a tag of its own, whether that is asked for or not.
        let content = (id, len, k);
        writer.put(&values(&table, k, content, &pad)).map_err(|e| format!("fill of {name}: {e}"))?;
        log.writes.insert((number, k), Some(content));
    }
    if db.table(&name).is_ok() {
        return Err(format!("{name} is there while it is filled"));
    }
    // Commits of others go on, and so does the disk's trouble.
    let flushed = db.flush();
    drop(writer);
    let done = if dropped {
        drop(fill);
        None
    } else {
        Some(fill.finish())
    };
    w.medium.set_faults(Faults { error_at: before.error_at, ..w.medium.faults() });
    trace!(w, "fill {name}: {done:?}, twice {twice}; flush {flushed:?}");
    flushed.or_else(|e| w.excuse("flush", &e))?;
    match done {
        Some(Ok(())) if !twice => {
            // It is no commit: it comes between those before and those after it.
            log.gsn = w.history.last();
            w.history.commit(log);
        }
        Some(Err(Error::DuplicateKey { .. })) if twice => {}
        None => {}
        Some(done) => return Err(format!("fill of {name}, a key twice {twice}: {done:?}")),
    }
    if is_over(db, &w.medium) {
        return Ok(());
    }
    let now = crate::table::rows(db, &table)?;
    let want = w.history.rows(number);
    if now != want { Err(format!("{name} has {now:?} after a fill, expected {want:?}")) } else { Ok(()) }
}

fn step<'a>(
    db: &'a Database,
    w: &mut World,
    slot: &mut Option<Client<'a>>,
    tickets: &mut Vec<(u64, Ticket)>,
) -> Result<(), String> {
    let Some(client) = slot else {
        match db.begin() {
            Ok(tx) => *slot = Some(Client { tx, log: Tx { id: w.id(), ..Tx::default() } }),
            Err(e) => w.excuse("begin", &e)?,
        }
        return Ok(());
    };
    let what = w.rng.below(20);
    match what {
        16..=18 => {
            let Some(client) = slot.take() else { return Ok(()) };
            let durability = if w.rng.one_in(4) { Durability::Lazy } else { Durability::Durable };
            return commit(w, client, durability, tickets);
        }
        19 => {
            *slot = None;
            return Ok(());
        }
        _ => {}
    }
    let Some((number, table, unique)) = w.table(false) else { return Ok(()) };
    if !operate(w, client, (number, &table, unique), what, None)? {
        *slot = None;
    }
    Ok(())
}

/// One operation of a transaction. False if it is to be aborted.
fn operate(
    w: &mut World,
    client: &mut Client<'_>,
    (number, t, unique): (usize, &Table, bool),
    what: u64,
    len: Option<usize>,
) -> Result<bool, String> {
    let k = w.rng.below(KEYS) as u8;
    let (at, id) = ((number, k), client.log.id);
    let tag = w.rng.below(TAGS) as u8;
    let len = len.unwrap_or_else(|| w.rng.of(&PADS));
    let pad = padding(id, len);
    let new = (id, len, tag);
    let row = values(t, k, new, &pad);
    let by_key = [row[0]];
    trace!(w, "tx {id}: {what} on {at:?}, tag {tag}");
    // Who has the tag, as this transaction sees the table.
    let holder = |w: &World, c: &Client<'_>| {
        (0..KEYS as u8).filter(|&o| o != k).find(|&o| view(w, c, (number, o)).is_some_and(|r| r.2 == tag))
    };
    // After a write: it said the right thing about the row that was there, and did not take another
    // row's tag.
    let after = |w: &World, c: &mut Client<'_>, was: bool, written: Content| {
        let there = expect(w, c, at)?.is_some();
        if was != there {
            return Err(format!("operation {what} on {at:?} says {was}"));
        }
        if let Some(o) = holder(w, c).filter(|_| unique && written.is_some()) {
            return Err(format!("{at:?} got the tag of row {o}"));
        }
        if there || written.is_some() {
            c.log.writes.insert(at, written);
        }
        Ok(())
    };
    let done = match what {
        0..=2 => client.tx.get(t, &by_key).map(|r| saw(w, client, at, r.as_ref().map(content))),
        3..=6 => client.tx.upsert(t, &row).map(|was| after(w, client, was, Some(new))),
        7 => client.tx.insert(t, &row).map(|()| after(w, client, false, Some(new))),
        8 => {
            let set = [("writer", row[1]), ("tag", row[2]), ("pad", row[3])];
            client
                .tx
                .update(t, &by_key, &set)
                .map(|was| after(w, client, was, if was { Some(new) } else { None }))
        }
        9..=10 => client.tx.delete(t, &by_key).map(|was| after(w, client, was, None)),
        11 => {
            let all = client.tx.scan(t).and_then(|c| c.collect::<mmdb::Result<Vec<Row>>>());
            let checked = all.map(|rows| saw_all(w, client, number, &rows, |_| true));
            // Of all rows, those that are not there were read as well.
            checked.map(|seen| seen.and_then(|()| saw_absent(w, client, number)))
        }
        12 => {
            // A writer of this table, if there is one.
            let writer = w.history.current(at).content.map_or(id, |c| c.0);
            let all = client.tx.get_by(t, "by_writer", &[Value::Int(writer as i64)]);
            all.map(|rows| saw_all(w, client, number, &rows, |c| c.0 == writer))
        }
        13..=14 => {
            let all = client.tx.get_by(t, "by_tag", &[row[2]]);
            all.map(|rows| saw_all(w, client, number, &rows, |c| c.2 == tag))
        }
        _ => {
            let bounds = [row[2]]..;
            match client.tx.range(t, "by_tag", bounds).and_then(|c| c.collect::<mmdb::Result<Vec<Row>>>()) {
                // A hash index has no order.
                Err(Error::Operation { .. }) => return Ok(true),
                all => all.map(|rows| {
                    if !rows.is_sorted_by_key(|r| content(r).2) {
                        return Err(format!("a range is out of order: {rows:?}"));
                    }
                    saw_all(w, client, number, &rows, |c| c.2 >= tag)
                }),
            }
        }
    };
    match done {
        Ok(checked) => checked.map(|()| true),
        Err(Error::DuplicateKey { constraint, .. }) if constraint == "by_tag" => match holder(w, client) {
            // Only the tag was read: the row may go on changing as long as it keeps it.
            Some(_) => Ok(true),
            None => Err(format!("{at:?} refused for tag {tag}, which no row has")),
        },
        Err(Error::DuplicateKey { .. }) => {
            // To be refused is to have read the row.
            if expect(w, client, at)?.is_none() {
                return Err(format!("insert of {at:?} refused, but nothing is there"));
            }
            Ok(true)
        }
        Err(Error::Deadlock { .. }) => Ok(false),
        Err(e) => w.excuse("operation", &e).map(|()| false),
    }
}

/// A row as the transaction must see it: its own write, or the last committed version.
fn view(w: &World, c: &Client<'_>, key: Key) -> Content {
    c.log.writes.get(&key).copied().unwrap_or_else(|| w.history.current(key).content)
}

/// What the transaction must see: its own write, or the last committed version, which is noted as
/// read.
fn expect(w: &World, c: &mut Client<'_>, key: Key) -> Result<Content, String> {
    if let Some(own) = c.log.writes.get(&key) {
        return Ok(*own);
    }
    let now = w.history.current(key);
    let read = *c.log.reads.entry(key).or_insert(now.writer);
    if read != now.writer {
        return Err(format!("{} read {key:?} from {read}, now it is from {}", c.log.id, now.writer));
    }
    Ok(now.content)
}

fn saw(w: &World, c: &mut Client<'_>, key: Key, got: Content) -> Result<(), String> {
    let want = expect(w, c, key)?;
    if got != want {
        return Err(format!("{} sees {got:?} in {key:?}, expected {want:?}", c.log.id));
    }
    Ok(())
}

/// Of the rows of a table, those that are `wanted` must have come, and no others.
fn saw_all(
    w: &World,
    c: &mut Client<'_>,
    number: usize,
    rows: &[Row],
    wanted: impl Fn((u64, usize, u8)) -> bool,
) -> Result<(), String> {
    let got: Rows = rows.iter().map(|r| (key(r), content(r))).collect();
    if got.len() != rows.len() {
        return Err(format!("{} sees a row twice: {rows:?}", c.log.id));
    }
    for k in (0..KEYS as u8).chain(CROWD) {
        match (view(w, c, (number, k)).filter(|&c| wanted(c)), got.get(&k)) {
            (None, None) => {}
            (_, row) => saw(w, c, (number, k), row.copied())?,
        }
    }
    Ok(())
}

/// After a scan of all rows: who adds one later comes after this transaction.
fn saw_absent(w: &World, c: &mut Client<'_>, number: usize) -> Result<(), String> {
    (0..KEYS as u8).try_for_each(|k| match view(w, c, (number, k)) {
        None => expect(w, c, (number, k)).map(drop),
        Some(_) => Ok(()),
    })
}

fn commit(
    w: &mut World,
    mut c: Client<'_>,
    durability: Durability,
    tickets: &mut Vec<(u64, Ticket)>,
) -> Result<(), String> {
    let ticket = match c.tx.commit_with(durability) {
        Ok(t) => t,
        Err(e) => return w.excuse("commit", &e),
    };
    c.log.gsn = ticket.gsn();
    let id = c.log.id;
    trace!(w, "tx {id} is commit {}", c.log.gsn);
    w.history.commit(c.log);
    match w.rng.below(3) {
        0 if durability == Durability::Durable && ticket.wait_durable().is_ok() => w.history.acknowledge(id),
        1 => tickets.push((id, ticket)),
        _ => {}
    }
    Ok(())
}
