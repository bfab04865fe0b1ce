//! Schedules of a primary and a standby, each on a crash medium of its own: power cuts, kills and
//! failed calls of either disk at any moment, interleaved by a seed with transactions, changes of
//! definitions, checkpoints and frames. What the standby has acknowledged is there after every
//! crash of its own; what a crash of the primary takes back never got to the standby.
//! `MMDB_CRASH_SCHEDULES` sets how many seeds are tried (a tenth of it; 150 by default).
#![allow(clippy::unwrap_used)]

#[allow(dead_code)]
#[path = "crash/rng.rs"]
mod rng;

use mmdb::medium::{CrashKind, CrashMedium, Faults};
use mmdb::{
    Column, ColumnType, Database, Durability, Error, Frames, NewIndex, Options, Sabotage, Schema, Standby,
    Table, Tail, Value,
};
use rng::Rng;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;

fn options(disk: &CrashMedium, streams: usize, sabotage: Sabotage) -> Options {
    Options {
        sabotage,
        medium: Arc::new(disk.clone()),
        streams,
        segment_bytes: 16 << 10,
        container_bytes: 4096,
        max_log_bytes: 2 << 30,
        background: false,
        recovery_threads: 1,
        ..Options::default()
    }
}

fn dump(tables: &[Table], snapshot: &mmdb::Snapshot<'_>) -> String {
    let mut out = String::new();
    for t in tables {
        let s = t.schema();
        writeln!(out, "{}: {:?} {:?}", s.name, s.columns, s.indexes).unwrap();
        let rows: BTreeSet<String> = snapshot.scan(t).unwrap().map(|row| row.unwrap().to_json()).collect();
        rows.iter().for_each(|row| writeln!(out, "  {row}").unwrap());
    }
    out
}

struct World {
    rng: Rng,
    streams: usize,
    /// What the standby leaves out.
    sabotage: Sabotage,
    disks: [CrashMedium; 2],
    primary: Option<Database>,
    standby: Option<Standby>,
    tail: Option<Tail>,
    /// What the primary was at each commit.
    seen: BTreeMap<u64, BTreeSet<String>>,
    /// What the standby has acknowledged.
    acknowledged: u64,
    made: u32,
    crashes: [u32; 2],
}

impl World {
    fn new(seed: u64, sabotage: Sabotage) -> World {
        let mut rng = Rng(seed);
        let streams = 1 + rng.below(3) as usize;
        let disks = [CrashMedium::new(rng.next()), CrashMedium::new(rng.next())];
        let db = Database::open("/db", options(&disks[0], streams, Sabotage::None)).unwrap();
        let schema = Schema::new("t0").column("id", ColumnType::Int64).column("n", ColumnType::Int64);
        db.create_table(schema.column("text", ColumnType::VarText(99)).primary_key(&["id"])).unwrap();
        let mut w = World {
            rng,
            streams,
            sabotage,
            disks,
            primary: Some(db),
            standby: None,
            tail: None,
            seen: BTreeMap::new(),
            acknowledged: 0,
            made: 0,
            crashes: [0; 2],
        };
        w.begin_standby();
        w.note();
        w
    }

    fn db(&self) -> &Database {
        self.primary.as_ref().unwrap()
    }

    fn note(&mut self) {
        let Ok(snapshot) = self.db().snapshot() else { return };
        let (gsn, now) = (snapshot.gsn(), dump(&self.db().tables(), &snapshot));
        drop(snapshot);
        self.seen.entry(gsn).or_default().insert(now);
    }

    /// A new copy on the primary's disk, brought to the standby's.
    fn begin_standby(&mut self) {
        self.made += 1;
        self.standby = None;
        let to = format!("/seed-{}", self.made);
        if self.db().backup_for_standby(&to).is_err() {
            return;
        }
        let bring = |from: &Path, to: &Path| self.disks[1].put(to, &self.disks[0].copy_of(from));
        bring(Path::new(&to), Path::new("/standby"));
        for i in 0..self.streams {
            let log = format!("log-{i}");
            bring(&Path::new(&to).join(&log), &Path::new("/standby").join(&log));
        }
        self.acknowledged = 0;
        self.open_standby();
    }

    fn open_standby(&mut self) {
        if let Ok(standby) = Standby::open("/standby", options(&self.disks[1], self.streams, self.sabotage)) {
            assert!(standby.position().gsn() >= self.acknowledged, "what was acknowledged is lost");
            standby.verify().unwrap();
            self.standby = Some(standby);
        } else {
            // Only where the disk failed.
            let disk = &self.disks[1];
            assert!(disk.is_dead() || disk.failed_calls() > 0, "a standby does not open");
            self.crash(1);
        }
    }

    /// The machine of the primary (0) or of the standby (1) ends, and comes again.
    fn crash(&mut self, which: usize) {
        self.crashes[which] += 1;
        let disk = self.disks[which].clone();
        disk.set_faults(Faults { crash_at: Some(disk.calls()), ..Faults::default() });
        if which == 0 {
            self.tail = None;
            self.primary = None;
        } else {
            self.standby = None;
        }
        disk.crash(if self.rng.one_in(3) { CrashKind::Kill } else { CrashKind::Power });
        disk.set_faults(Faults::default());
        if which == 1 {
            return self.open_standby();
        }
        let db = Database::open("/db", options(&disk, self.streams, Sabotage::None)).unwrap();
        let cut = db.horizon();
        assert!(cut >= self.acknowledged, "the standby has commit {} of {cut}", self.acknowledged);
        self.seen.retain(|gsn, _| *gsn <= cut);
        self.primary = Some(db);
        self.note();
    }

    /// Some call to come fails, or the last one comes.
    fn fault(&mut self, which: usize) {
        let disk = &self.disks[which];
        let at = Some(disk.calls() + self.rng.below(60));
        let faults = Faults::default();
        disk.set_faults(match self.rng.below(4) {
            0 => Faults { sync_error_at: at, ..faults },
            1 => Faults { write_error_at: at, ..faults },
            2 => Faults { error_at: at, ..faults },
            _ => Faults { crash_at: at, ..faults },
        });
    }

    fn transaction(&mut self) {
        let db = self.primary.as_ref().unwrap();
        let Ok(mut tx) = db.begin() else { return };
        let tables = db.tables();
        let t = &tables[self.rng.below(tables.len() as u64) as usize];
        for _ in 0..1 + self.rng.below(4) {
            let (id, n) = (self.rng.below(30) as i64, self.rng.below(100) as usize);
            let text = "x".repeat(n);
            let columns = &t.schema().columns;
            let row: Vec<Value<'_>> = columns
                .iter()
                .map(|c| if c.name == "text" { text.as_str().into() } else { Value::Int(id) })
                .collect();
            if self.rng.one_in(4) { tx.delete(t, &[id.into()]) } else { tx.upsert(t, &row) }.unwrap();
        }
        let durability = if self.rng.one_in(2) { Durability::Lazy } else { Durability::Durable };
        if let Ok(ticket) = tx.commit_with(durability) {
            self.note();
            let _ = ticket.wait();
        }
    }

    fn change(&mut self) {
        self.made += 1;
        let name = format!("c{}", self.made);
        let db = self.primary.as_ref().unwrap();
        let tables = db.tables();
        let t = &tables[self.rng.below(tables.len() as u64) as usize];
        let columns = &t.schema().columns;
        let extra = columns.iter().find(|c| c.name.starts_with('c')).map(|c| c.name.clone());
        // Each is there whole or not at all.
        let _ = match self.rng.below(6) {
            0 if tables.len() < 4 => {
                let schema =
                    Schema::new(&name).column("id", ColumnType::Int64).column("n", ColumnType::Int64);
                let schema = schema.column("text", ColumnType::VarText(99)).primary_key(&["id"]);
                db.create_table(schema).map(drop)
            }
            1 if tables.len() > 1 => db.drop_table(t),
            2 => {
                let column = Column { name, kind: ColumnType::Int64, nullable: false };
                db.add_column(t, column, Value::Int(7)).map(drop)
            }
            3 => extra.map_or(Ok(()), |extra| db.drop_column(t, &extra).map(drop)),
            4 if t.schema().indexes.len() < 3 => db.create_index(t, NewIndex::ordered(&name, &["text"])),
            _ => db.rename_table(t, &name),
        };
        self.note();
    }

    /// Brings a few batches to the standby.
    fn follow(&mut self) {
        let Some(standby) = &self.standby else { return self.open_standby() };
        if self.tail.is_none() {
            match self.db().tail(&standby.position()) {
                Ok(tail) => self.tail = Some(tail.batch_bytes(1 + self.rng.below(2000) as usize)),
                Err(Error::TailLost { .. }) => return self.begin_standby(),
                Err(e) => {
                    assert!(self.disks[0].is_dead() || self.disks[0].failed_calls() > 0, "{e}");
                    return self.crash(0);
                }
            }
        }
        for _ in 0..1 + self.rng.below(5) {
            let (tail, standby) = (self.tail.as_mut().unwrap(), self.standby.as_ref().unwrap());
            let Ok(Some(frames)) = tail.try_next() else { return };
            let frames = Frames::from_bytes(frames.as_bytes().to_vec()).unwrap();
            match standby.apply(&frames) {
                Ok(position) => {
                    self.acknowledged = position.gsn();
                    let now = dump(&standby.tables(), &standby.snapshot().unwrap());
                    let seen = &self.seen[&position.gsn()];
                    assert!(seen.contains(&now), "at {position}:\n{now}\nof {seen:#?}");
                }
                Err(Error::FramesGap { .. }) | Err(Error::FramesForeign { .. }) => {
                    panic!("{:?}", standby.apply(&frames))
                }
                Err(_) => {
                    let disk = &self.disks[1];
                    assert!(disk.is_dead() || disk.failed_calls() > 0, "{:?}", standby.apply(&frames));
                    self.tail = None;
                    return self.crash(1);
                }
            }
        }
    }

    fn step(&mut self) {
        match self.rng.below(20) {
            0..=8 => self.transaction(),
            9 | 10 => self.change(),
            11 => drop(self.db().flush()),
            12..=15 => self.follow(),
            16 => drop(self.db().checkpoint()),
            17 => drop(self.standby.as_ref().map(Standby::checkpoint)),
            18 => {
                let which = self.rng.below(2) as usize;
                self.fault(which);
            }
            _ => {
                let which = self.rng.below(2) as usize;
                self.tail = None;
                self.crash(which);
            }
        }
        // Nothing goes on after a failure.
        if self.disks[0].is_dead() || self.db().stats().poisoned {
            self.crash(0);
        }
        if self.disks[1].is_dead() || self.standby.as_ref().is_some_and(|s| s.stats().poisoned) {
            self.tail = None;
            self.crash(1);
        }
    }

    /// Without failures the standby comes to be what the primary is, and takes over.
    fn end(mut self) -> [u32; 2] {
        self.disks.iter().for_each(|disk| disk.set_faults(Faults::default()));
        self.tail = None;
        self.crash(0);
        self.crash(1);
        let mut last = None;
        while last != Some(self.acknowledged) || self.acknowledged < self.db().horizon() {
            last = Some(self.acknowledged);
            self.follow();
            self.acknowledged = self.standby.as_ref().map_or(0, |s| s.position().gsn());
        }
        let standby = self.standby.take().unwrap();
        let now = dump(&standby.tables(), &standby.snapshot().unwrap());
        assert_eq!(now, dump(&self.db().tables(), &self.db().snapshot().unwrap()));
        standby.verify().unwrap();
        let new = standby.promote(2).unwrap();
        let t = new.tables().swap_remove(0);
        let row: Vec<Value<'_>> = (t.schema().columns.iter())
            .map(|c| if c.name == "text" { "new".into() } else { Value::Int(1000) })
            .collect();
        new.run(|tx| tx.insert(&t, &row)).unwrap();
        new.verify().unwrap();
        let now = dump(&new.tables(), &new.snapshot().unwrap());
        let disk = self.disks[1].clone();
        disk.set_faults(Faults { crash_at: Some(disk.calls()), ..Faults::default() });
        drop((t, new));
        disk.crash(CrashKind::Power);
        disk.set_faults(Faults::default());
        let new = Database::open("/standby", options(&disk, self.streams, Sabotage::None)).unwrap();
        assert_eq!(dump(&new.tables(), &new.snapshot().unwrap()), now);
        assert_eq!(new.position().unwrap().epoch(), 2);
        self.crashes
    }
}

/// One history to its end; an error if something was noticed in it.
fn history(seed: u64, sabotage: Sabotage) -> std::thread::Result<[u32; 2]> {
    std::panic::catch_unwind(|| {
        let mut w = World::new(seed, sabotage);
        for _ in 0..60 {
            w.step();
        }
        w.end()
    })
}

/// What a standby leaves out is noticed, or the histories prove nothing.
fn is_caught(sabotage: Sabotage) {
    let caught = (0..300).find(|&seed| history(seed, sabotage).is_err());
    assert!(caught.is_some(), "300 histories did not notice {sabotage:?}");
}

#[test]
fn acknowledging_what_is_not_durable_is_caught() {
    is_caught(Sabotage::AcknowledgesUndurable);
}

#[test]
fn stating_a_change_before_the_commits_that_came_before_it_is_caught() {
    is_caught(Sabotage::StatesChangeEarly);
}

#[test]
fn promoting_without_a_manifest_is_caught() {
    is_caught(Sabotage::PromotesWithoutManifest);
}

#[test]
fn an_old_key_in_an_index_of_a_standby_is_caught() {
    is_caught(Sabotage::AppliesStaleIndex);
}

#[test]
fn a_standby_keeps_what_it_acknowledged_through_every_crash() {
    let wanted = std::env::var("MMDB_CRASH_SCHEDULES").ok().and_then(|v| v.parse::<u64>().ok());
    let first = std::env::var("MMDB_STANDBY_SEED").ok().and_then(|v| v.parse::<u64>().ok());
    let seeds = first.map_or(0..wanted.map_or(150, |n| (n / 10).max(1)), |seed| seed..seed + 1);
    let mut crashes = [0; 2];
    for seed in seeds {
        let done = history(seed, Sabotage::None);
        let Ok(done) = done else { panic!("seed {seed}: run it alone with MMDB_STANDBY_SEED={seed}") };
        crashes.iter_mut().zip(done).for_each(|(all, n)| *all += n);
    }
    assert!(crashes.iter().all(|&n| n > 0), "{crashes:?}");
}
