//! Clients that run at the same time, blocking each other and waiting for the disk, until the disk dies under them.
//!
//! The same clients run on threads of the operating system (`threads.rs`) and under the scheduler of the unit tests
//! (`src/interleavings.rs`), which is why they name the engine and the threads through their parent.

use super::engine::medium::{CrashKind, CrashMedium, Faults};
use super::engine::{
    Database, Durability, Error, Locking, LogKind, Options, Result, Row, Table, Transaction, Value,
};
use super::history::{Content, History, Key, Tx};
use super::rng::Rng;
use super::spawn;
use super::table::{check_recovered, content, schema};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

const KEYS: u64 = 5;

/// What a seed decides about one schedule.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub clients: u64,
    pub transactions: u64,
    pub lives: u64,
    pub options: Options,
    locking: Locking,
    ordered: bool,
}

impl Plan {
    pub fn new(seed: u64, clients: u64, transactions: u64, disk: &CrashMedium, base: Options) -> Plan {
        let mut rng = Rng(seed);
        let options = Options {
            medium: Arc::new(disk.clone()),
            streams: 1 + rng.below(3) as usize,
            log_kind: if rng.one_in(4) { LogKind::AfterImage } else { LogKind::Differential },
            scrub: rng.one_in(4),
            segment_bytes: 16384 + 4096 * rng.below(3),
            container_bytes: 4096,
            recovery_threads: 1,
            checkpoint_log_bytes: 0,
            ..base
        };
        let locking = [Locking::Record, Locking::Page, Locking::Container][rng.below(3) as usize];
        Plan { seed, clients, transactions, lives: 2, options, locking, ordered: rng.one_in(2) }
    }
}

/// A transaction as its client saw it: what it read, not from whom.
#[derive(Clone, Debug, Default)]
struct Seen {
    tx: Tx,
    reads: BTreeMap<Key, Content>,
}

/// Runs a schedule: lives with concurrent clients, each ended by a crash, and a last one that only looks. How many
/// commits the crashes took back, or what was wrong.
pub fn run(plan: &Plan, disk: &CrashMedium) -> std::result::Result<u64, String> {
    let mut rng = Rng(plan.seed ^ 0x5eed);
    let mut history = History::default();
    let mut created = false;
    let mut lost = 0;
    for life in 0..=plan.lives {
        let last = life == plan.lives;
        if !last {
            let now = disk.calls();
            let mut faults = Faults { crash_at: Some(now + 1 + rng.below(150)), ..Faults::default() };
            if rng.one_in(8) {
                faults.sync_error_at = Some(now + 1 + rng.below(60));
            }
            disk.set_faults(faults);
        }
        match Database::open("/db", plan.options.clone()) {
            Err(e) if last => return Err(format!("life {life}: cannot open: {e}")),
            Err(Error::Corrupt { file, offset, what }) => {
                return Err(format!("life {life}: {} at {offset}: {what}", file.display()));
            }
            Err(_) => {}
            Ok(db) => {
                let before = history.committed.len();
                check_recovered(&db, &mut history, |_| created).map_err(|e| format!("life {life}: {e}"))?;
                lost += (before - history.committed.len()) as u64;
                if !last && tables(&db, plan, &mut created).is_some() {
                    let seen = live(&db, plan, life);
                    explain(&mut history, seen)
                        .map_err(|e| format!("life {life}, {:?} locks: {e}", plan.locking))?;
                }
            }
        }
        disk.crash(if rng.one_in(3) { CrashKind::Kill } else { CrashKind::Power });
    }
    Ok(lost)
}

fn tables(db: &Database, plan: &Plan, created: &mut bool) -> Option<Vec<Table>> {
    let all =
        ["a", "b"].map(|n| db.table(n).or_else(|_| db.create_table(schema(n, plan.locking, plan.ordered))));
    let all: Option<Vec<Table>> = all.into_iter().map(Result::ok).collect();
    *created |= all.is_some();
    all
}

/// One life: clients and a checkpointer at the same time, until they are through or the disk is dead.
fn live(db: &Database, plan: &Plan, life: u64) -> Vec<Seen> {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let mut threads = Vec::new();
    for c in 0..plan.clients {
        let (db, plan, seen) = (db.clone(), plan.clone(), seen.clone());
        threads.push(spawn(move || client(&db, &plan, life, c, &seen)));
    }
    let checkpoints = db.clone();
    threads.push(spawn(
        move || {
            while checkpoints.checkpoint().is_ok() && checkpoints.stats().checkpoints < 3 {}
        },
    ));
    for t in threads {
        t.join().unwrap();
    }
    std::mem::take(&mut seen.lock().unwrap())
}

fn client(db: &Database, plan: &Plan, life: u64, number: u64, seen: &Mutex<Vec<Seen>>) {
    let Some(tables) = tables(db, plan, &mut false) else { return };
    let mut rng = Rng(plan.seed ^ (life << 40) ^ (number << 32));
    for i in 0..plan.transactions {
        let id = 1 + (life * plan.clients + number) * plan.transactions + i;
        let durability = if rng.one_in(4) { Durability::Lazy } else { Durability::Durable };
        let script = rng.next();
        let mut last = Seen::default();
        let done = db.run_with(durability, |tx| {
            last = Seen { tx: Tx { id, ..Tx::default() }, ..Seen::default() };
            let mut rng = Rng(script);
            (0..1 + rng.below(4)).try_for_each(|_| act(tx, &tables, &mut rng, &mut last))
        });
        let Ok(((), ticket)) = done else { return };
        last.tx.gsn = ticket.gsn();
        let wanted = rng.below(3);
        // In line before it is durable: others may have read it already.
        let place = {
            let mut seen = seen.lock().unwrap();
            seen.push(last);
            seen.len() - 1
        };
        let durable = match wanted {
            0 => ticket.wait_durable().is_ok(),
            1 => durability == Durability::Durable && ticket.poll().is_ok_and(|d| d),
            _ => durability == Durability::Durable && ticket.wait().is_ok(),
        };
        seen.lock().unwrap()[place].tx.acknowledged = durable;
    }
}

fn act(tx: &mut Transaction<'_>, tables: &[Table], rng: &mut Rng, seen: &mut Seen) -> Result<()> {
    let table = rng.below(2) as usize;
    let (t, k) = (&tables[table], rng.below(KEYS) as u8);
    let (key, id) = ((table, k), seen.tx.id);
    let at = [Value::Int(k.into())];
    let pad = vec![id as u8; [3, 10, 200][rng.below(3) as usize]];
    match rng.below(8) {
        0..=2 => {
            let row = tx.get(t, &at)?;
            seen.saw(key, row.as_ref().map(content));
        }
        3..=5 => {
            let row = tx.get(t, &at)?;
            seen.saw(key, row.as_ref().map(content));
            tx.upsert(t, &[at[0], Value::Int(id as i64), Value::Bytes(&pad)])?;
            seen.tx.writes.insert(key, Some((id, pad.len())));
        }
        6 => {
            let row = tx.get(t, &at)?;
            seen.saw(key, row.as_ref().map(content));
            let absent = seen.reads.get(&key) == Some(&None);
            if tx.delete(t, &at)? && absent {
                // Its own row: nothing has happened.
                seen.tx.writes.remove(&key);
            } else if row.is_some() {
                seen.tx.writes.insert(key, None);
            }
        }
        _ => {
            let rows = tx.scan(t)?.collect::<Result<Vec<Row>>>()?;
            let rows: BTreeMap<u8, _> =
                rows.iter().map(|r| (r.at(0).as_int().unwrap() as u8, content(r))).collect();
            (0..KEYS as u8).for_each(|k| seen.saw((table, k), rows.get(&k).copied()));
        }
    }
    Ok(())
}

impl Seen {
    /// Notes the first read of a key; own writes are not reads of others.
    fn saw(&mut self, key: Key, got: Content) {
        if !self.tx.writes.contains_key(&key) {
            self.reads.entry(key).or_insert(got);
        }
    }
}

/// Puts a life's transactions into the history in the order of their numbers. What each one read must be what stood there
/// at its number, which names the version read; then the graph of their dependencies must have no cycle.
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
        history.commit(s.tx);
    }
    history.check_serializable()
}
