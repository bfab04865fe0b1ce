//! One schedule: a few lives of a database, each with interleaved transactions and a violent end.

use crate::history::{Content, History, Key, Tx};
use crate::rng::Rng;
use crate::table::{check_recovered, content, schema};
use mmdb::medium::{CrashKind, CrashMedium, Faults};
use mmdb::{
    Database, Durability, Error, Locking, LogKind, Options, Row, Sabotage, Stepwise, Table, Ticket,
    Transaction, Value,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const KEYS: u64 = 6;

struct Client<'a> {
    tx: Transaction<'a>,
    log: Tx,
}

/// What the harness knows that outlives a crash.
struct World {
    rng: Rng,
    history: History,
    next_id: u64,
    trace: bool,
}

macro_rules! trace {
    ($w:expr, $($arg:tt)*) => { if $w.trace { eprintln!($($arg)*); } };
}

pub fn run(seed: u64, sabotage: Sabotage, trace: bool) -> Result<(), String> {
    let mut w = World { rng: Rng(seed), history: History::default(), next_id: 1, trace };
    let medium = CrashMedium::new(seed ^ 0xabcd);
    let locking = [Locking::Record, Locking::Page, Locking::Container][w.rng.below(3) as usize];
    let ordered = w.rng.one_in(2);
    let options = Options {
        medium: Arc::new(medium.clone()),
        streams: 1 + w.rng.below(3) as usize,
        log_kind: if w.rng.one_in(4) { LogKind::AfterImage } else { LogKind::Differential },
        scrub: w.rng.one_in(4),
        segment_bytes: 16384 + 4096 * w.rng.below(3),
        container_bytes: 4096,
        background: false,
        recovery_threads: if w.rng.one_in(16) { 2 } else { 1 },
        sabotage,
        ..Options::in_memory()
    };
    trace!(w, "{options:?} {locking:?}");
    let mut created: BTreeSet<&str> = BTreeSet::new();
    let lives = 2 + w.rng.below(3);
    for life in 0..lives {
        let last = life + 1 == lives;
        // The last life only looks.
        if !last {
            let start = medium.calls();
            let mut faults = Faults::default();
            match w.rng.below(10) {
                0 => faults.sync_error_at = Some(start + 1 + w.rng.below(60)),
                1 => faults.write_error_at = Some(start + 1 + w.rng.below(60)),
                2 => faults.capacity = Some(60_000 + w.rng.below(150_000)),
                _ => {
                    let within = if w.rng.one_in(3) { 20 } else { 120 };
                    faults.crash_at = Some(start + 1 + w.rng.below(within));
                }
            }
            trace!(w, "life {life}: {faults:?}");
            medium.set_faults(faults);
        }
        let faulty = |e: &Error| {
            medium.is_dead()
                || (!last && matches!(e, Error::Io { .. } | Error::LogFull { .. } | Error::Poisoned { .. }))
        };
        match Database::open("/db", options.clone()) {
            Err(e) if faulty(&e) => trace!(w, "open failed: {e}"),
            Err(e) => return Err(format!("life {life}: cannot open: {e}")),
            Ok(db) => {
                let done = (|| {
                    trace!(w, "recovered {:?}", db.recovery());
                    check_recovered(&db, &mut w.history, |name| created.contains(name))?;
                    if last {
                        return Ok(());
                    }
                    for name in ["a", "b"] {
                        if db.table(name).is_ok() {
                            continue;
                        }
                        match db.create_table(schema(name, locking, ordered)) {
                            Ok(_) => drop(created.insert(name)),
                            Err(e) if faulty(&e) => return Ok(()),
                            Err(e) => return Err(format!("create table: {e}")),
                        }
                    }
                    live(&db, &mut w, &medium, options.streams)
                })();
                done.map_err(|e: String| format!("life {life}: {e}"))?;
            }
        }
        let kind = if w.rng.one_in(3) { CrashKind::Kill } else { CrashKind::Power };
        trace!(w, "{kind:?}");
        medium.crash(kind);
    }
    w.history.check_serializable()
}

fn live(db: &Database, w: &mut World, medium: &CrashMedium, streams: usize) -> Result<(), String> {
    let tables = [db.table("a").unwrap(), db.table("b").unwrap()];
    let mut clients: Vec<Option<Client<'_>>> = (0..3).map(|_| None).collect();
    let mut tickets: Vec<(u64, Ticket)> = Vec::new();
    let mut checkpoint: Option<Stepwise<'_>> = None;
    let steps = 20 + w.rng.below(180);
    for _ in 0..steps {
        if medium.is_dead() {
            return Ok(());
        }
        match w.rng.below(40) {
            0 if checkpoint.is_none() => checkpoint = db.checkpoint_stepwise().ok(),
            0..=3 => {
                if let Some(c) = &mut checkpoint {
                    match c.step() {
                        Ok(true) => {}
                        Ok(false) => {
                            trace!(w, "publish");
                            let done = checkpoint.take().map(Stepwise::finish);
                            trace!(w, "checkpoint {done:?}");
                        }
                        Err(_) => checkpoint = None,
                    }
                }
            }
            4..=6 => {
                let s = w.rng.below(streams as u64) as usize;
                trace!(w, "flush stream {s}");
                // A failure shows in the tickets.
                let _ = db.flush_stream(s);
            }
            7..=8 if !tickets.is_empty() => {
                let i = w.rng.below(tickets.len() as u64) as usize;
                let (id, t) = tickets.swap_remove(i);
                if t.wait_durable().is_ok() {
                    trace!(w, "acknowledged {id}");
                    w.history.acknowledge(id);
                }
            }
            _ => {
                let c = w.rng.below(clients.len() as u64) as usize;
                step(db, w, &tables, &mut clients[c], &mut tickets)?;
            }
        }
        // What a poll or another wait has made durable counts as well.
        let horizon = db.horizon();
        for t in w.history.committed.iter_mut().filter(|t| t.gsn <= horizon) {
            t.acknowledged = true;
        }
    }
    Ok(())
}

fn step<'a>(
    db: &'a Database,
    w: &mut World,
    tables: &[Table; 2],
    slot: &mut Option<Client<'a>>,
    tickets: &mut Vec<(u64, Ticket)>,
) -> Result<(), String> {
    let Some(client) = slot else {
        if let Ok(tx) = db.begin() {
            w.next_id += 1;
            *slot = Some(Client { tx, log: Tx { id: w.next_id, ..Tx::default() } });
        }
        return Ok(());
    };
    let table = w.rng.below(2) as usize;
    let k = w.rng.below(KEYS) as u8;
    let (key, value) = ((table, k), [Value::Int(k.into())]);
    let id = client.log.id;
    let pad = vec![id as u8; [3, 10, 200][w.rng.below(3) as usize]];
    let row = [value[0], Value::Int(id as i64), Value::Bytes(&pad)];
    let t = &tables[table];
    let written: Content = Some((id, pad.len()));
    let what = w.rng.below(16);
    trace!(w, "tx {id}: {what} on {key:?}");
    let done = match what {
        0..=3 => client.tx.get(t, &value).map(|r| saw(w, client, key, r.as_ref().map(content))),
        4..=7 => client.tx.upsert(t, &row).map(|was| {
            let there = expect(w, client, key)?.is_some();
            wrote(client, key, written);
            if was == there { Ok(()) } else { Err(format!("upsert of {key:?} says {was}")) }
        }),
        8 => client.tx.insert(t, &row).map(|()| {
            let there = expect(w, client, key)?.is_some();
            wrote(client, key, written);
            if there { Err(format!("insert over {key:?}")) } else { Ok(()) }
        }),
        9..=10 => client.tx.delete(t, &value).map(|was| {
            let there = expect(w, client, key)?.is_some();
            if was {
                wrote(client, key, None);
            }
            if was == there { Ok(()) } else { Err(format!("delete of {key:?} says {was}")) }
        }),
        11 => {
            let all = client.tx.scan(t).and_then(|c| c.collect::<mmdb::Result<Vec<Row>>>());
            all.map(|rows| {
                let rows: BTreeMap<u8, (u64, usize)> =
                    rows.iter().map(|r| (r.at(0).as_int().unwrap() as u8, content(r))).collect();
                (0..KEYS as u8).try_for_each(|k| saw(w, client, (table, k), rows.get(&k).copied()))
            })
        }
        12..=14 => {
            let Some(client) = slot.take() else { return Ok(()) };
            return commit(w, client, tickets);
        }
        _ => {
            *slot = None;
            return Ok(());
        }
    };
    match done {
        Ok(checked) => checked,
        Err(Error::DuplicateKey { .. }) => {
            // To be refused is to have read the row.
            if expect(w, client, key)?.is_none() {
                return Err(format!("insert of {key:?} refused, but nothing is there"));
            }
            Ok(())
        }
        Err(Error::Deadlock { .. } | Error::Poisoned { .. } | Error::Io { .. } | Error::LogFull { .. }) => {
            *slot = None;
            Ok(())
        }
        Err(e) => Err(e.to_string()),
    }
}

/// What the transaction must see: its own write, or the last committed version, which is noted as read.
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

fn wrote(c: &mut Client<'_>, key: Key, content: Content) {
    c.log.writes.insert(key, content);
}

fn commit(w: &mut World, mut c: Client<'_>, tickets: &mut Vec<(u64, Ticket)>) -> Result<(), String> {
    let lazy = w.rng.one_in(4);
    let durability = if lazy { Durability::Lazy } else { Durability::Durable };
    let ticket = match c.tx.commit_with(durability) {
        Ok(t) => t,
        Err(Error::Poisoned { .. } | Error::Io { .. } | Error::LogFull { .. }) => return Ok(()),
        Err(e) => return Err(format!("commit: {e}")),
    };
    c.log.gsn = ticket.gsn();
    let id = c.log.id;
    trace!(w, "tx {id} is commit {}", c.log.gsn);
    w.history.commit(c.log);
    match w.rng.below(3) {
        0 if ticket.wait_durable().is_ok() => w.history.acknowledge(id),
        1 => tickets.push((id, ticket)),
        _ => {}
    }
    Ok(())
}
