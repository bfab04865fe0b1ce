//! Standbys: what a primary's tail gives and a standby makes of it. The standby is compared with
//! the primary at each commit, through changes of definitions, restarts and broken transports.
//! `MMDB_STANDBY_CASES` sets how many histories are tried (48 by default).
#![allow(clippy::unwrap_used)]

use mmdb::medium::MemoryMedium;
use mmdb::{
    Column, ColumnType, Database, Durability, Error, Frames, LogKind, Logging, NewIndex, Options, Position,
    Schema, Snapshot, Standby, Table, Tail, Value,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn options() -> Options {
    Options {
        medium: Arc::new(MemoryMedium::new()),
        segment_bytes: 64 << 10,
        container_bytes: 4096,
        background: false,
        ..Options::default()
    }
}

fn numbers(name: &str) -> Schema {
    Schema::new(name)
        .column("id", ColumnType::Int64)
        .column("n", ColumnType::Int64)
        .column("text", ColumnType::VarText(200))
        .primary_key(&["id"])
        .ordered_index("by_n", &["n", "id"])
}

/// All definitions and rows that are logged, as text. Each row is found by the ordered index too.
fn dump(tables: &[Table], snapshot: &Snapshot<'_>) -> String {
    let mut out = String::new();
    for t in tables.iter().filter(|t| t.schema().logging == Logging::Logged) {
        let s = t.schema();
        writeln!(out, "{}: {:?} {:?}", s.name, s.columns, s.indexes).unwrap();
        let rows: BTreeSet<String> = snapshot.scan(t).unwrap().map(|row| row.unwrap().to_json()).collect();
        rows.iter().for_each(|row| writeln!(out, "  {row}").unwrap());
        if s.indexes.iter().any(|index| index.name == "by_n") {
            assert_eq!(snapshot.range::<[Value<'_>; 1]>(t, "by_n", ..).unwrap().count(), rows.len());
        }
    }
    out
}

fn of_primary(db: &Database) -> String {
    dump(&db.tables(), &db.snapshot().unwrap())
}

fn of_standby(standby: &Standby) -> String {
    dump(&standby.tables(), &standby.snapshot().unwrap())
}

/// Through bytes, as any transport brings them.
fn sent(frames: &Frames) -> Frames {
    Frames::from_bytes(frames.as_bytes().to_vec()).unwrap()
}

/// Brings everything that is durable to the standby.
fn pump(tail: &mut Tail, standby: &Standby) {
    while let Some(frames) = tail.try_next().unwrap() {
        standby.apply(&sent(&frames)).unwrap();
    }
}

/// A primary with one table, and its standby.
fn pair(options: &Options) -> (Database, Table, Standby) {
    let db = Database::open("/primary", options.clone()).unwrap();
    let t = db.create_table(numbers("t")).unwrap();
    db.run(|tx| tx.insert(&t, &[1.into(), 1.into(), "one".into()])).unwrap();
    db.backup_for_standby("/standby").unwrap();
    let standby = Standby::open("/standby", options.clone()).unwrap();
    (db, t, standby)
}

fn put(db: &Database, t: &Table, id: i64) -> u64 {
    db.run_with(Durability::Durable, |tx| tx.upsert(t, &[id.into(), (-1 - id).into(), "x".into()]))
        .and_then(|(_, ticket)| ticket.wait())
        .unwrap()
}

/// One history: a primary on which anything happens, a standby that follows.
struct History {
    options: Options,
    primary: Option<Database>,
    standby: Option<Standby>,
    tail: Option<Tail>,
    /// What the primary was after each commit, before and after changes of definitions.
    seen: BTreeMap<u64, BTreeSet<String>>,
    made: u32,
    /// Where the standby is.
    place: String,
}

impl History {
    fn new(streams: usize, kind: LogKind) -> History {
        let options = Options { streams, log_kind: kind, ..options() };
        let db = Database::open("/primary", options.clone()).unwrap();
        db.create_table(numbers("t0")).unwrap();
        db.create_table(numbers("kept").logging(Logging::Checkpointed)).unwrap();
        let mut h = History {
            options,
            primary: Some(db),
            standby: None,
            tail: None,
            seen: BTreeMap::new(),
            made: 1,
            place: String::new(),
        };
        (0..20).for_each(|n| h.transaction(n, n * 7));
        h.begin_standby();
        h.note();
        h
    }

    fn begin_standby(&mut self) {
        self.made += 1;
        self.standby = None;
        self.place = format!("/standby-{}", self.made);
        self.db().backup_for_standby(&self.place).unwrap();
    }

    fn db(&self) -> &Database {
        self.primary.as_ref().unwrap()
    }

    fn note(&mut self) {
        let (gsn, now) = (self.db().stats().last_gsn, of_primary(self.db()));
        self.seen.entry(gsn).or_default().insert(now);
    }

    fn standby(&mut self) -> &Standby {
        let (options, place) = (&self.options, &self.place);
        self.standby.get_or_insert_with(|| Standby::open(place, options.clone()).unwrap())
    }

    fn table(&self, n: u8) -> Option<Table> {
        let mut tables = self.db().tables();
        tables.retain(|t| t.schema().logging == Logging::Logged);
        let count = tables.len();
        (count > 0).then(|| tables.swap_remove(usize::from(n) % count))
    }

    fn transaction(&mut self, a: u8, b: u8) {
        let Some(t) = self.table(a) else { return };
        let db = self.db();
        let kept = db.table("kept").unwrap();
        let columns = t.schema().columns.clone();
        let mut tx = db.begin().unwrap();
        for i in 0..1 + i64::from(a % 4) {
            let id = (i64::from(b) + i * 3) % 40;
            let text = "x".repeat(usize::from(b) % 90 + i as usize);
            let row: Vec<Value<'_>> = columns
                .iter()
                .map(|c| match c.kind {
                    ColumnType::VarText(_) => Value::from(text.as_str()),
                    _ if c.name == "id" => id.into(),
                    // A unique index may be over it.
                    _ if c.name == "n" => (id * 1000 + i64::from(a)).into(),
                    _ => i64::from(b).into(),
                })
                .collect();
            let done = match (a ^ b) % 3 {
                0 => tx.delete(&t, &[id.into()]),
                _ => tx.upsert(&t, &row),
            };
            done.unwrap();
        }
        // What is not logged does not reach the standby.
        tx.upsert(&kept, &[i64::from(a).into(), 0.into(), "".into()]).unwrap();
        drop(tx.commit_with(Durability::Lazy).unwrap());
        self.note();
    }

    fn change(&mut self, a: u8, b: u8) {
        let name = format!("t{}", self.made);
        let db = self.db();
        if a.is_multiple_of(8) && db.tables().len() < 5 {
            db.create_table(numbers(&name)).unwrap();
        } else if let Some(t) = self.table(b) {
            let columns = &t.schema().columns;
            let extra = columns.iter().find(|c| c.name.starts_with('t') && c.name != "text");
            let extra = extra.map(|c| c.name.clone());
            match a % 8 {
                1 if db.tables().len() > 3 => db.drop_table(&t).unwrap(),
                2 => {
                    let column = Column { name, kind: ColumnType::Int64, nullable: b.is_multiple_of(2) };
                    db.add_column(&t, column, Value::Int(7)).unwrap();
                }
                3 => drop(extra.map(|extra| db.drop_column(&t, &extra).unwrap())),
                4 => drop(extra.map(|extra| db.rename_column(&t, &extra, &name).unwrap())),
                5 => db.rename_table(&t, &name).unwrap(),
                6 if t.schema().indexes.len() < 4 => {
                    let index = match b % 3 {
                        0 => NewIndex::ordered(&name, &["text"]),
                        1 => NewIndex::hash(&name, &["text"]),
                        _ => NewIndex::hash(&name, &["n"]).unique(),
                    };
                    db.create_index(&t, index).unwrap();
                }
                7 if t.schema().indexes.len() > 2 => {
                    let last = t.schema().indexes.last().unwrap().name.clone();
                    db.drop_index(&t, &last).unwrap();
                }
                _ => {}
            }
        }
        self.made += 1;
        self.note();
    }

    /// Brings `steps` batches, some of them damaged first, some twice.
    fn follow(&mut self, steps: u8, how: u8) {
        let from = self.standby().position();
        if self.tail.is_none() {
            let tail = self.db().tail(&from);
            if matches!(tail, Err(Error::TailLost { .. })) {
                // A checkpoint has released what nobody had asked for.
                self.begin_standby();
                return;
            }
            self.tail = Some(tail.unwrap().batch_bytes(usize::from(how) % 3 * 400));
        }
        for step in 0..steps {
            let Some(frames) = self.tail.as_mut().unwrap().try_next().unwrap() else { return };
            let standby = self.standby();
            let bytes = frames.as_bytes();
            let cut = usize::from(how) * 251 % bytes.len();
            let refused = Frames::from_bytes(bytes[..cut].to_vec());
            assert!(matches!(refused, Err(Error::FramesDamaged { .. })));
            let position = standby.apply(&sent(&frames)).unwrap();
            if step % 2 == 0 {
                assert_eq!(standby.apply(&sent(&frames)).unwrap(), position, "twice is once");
            }
            assert_eq!(position.gsn(), frames.last_gsn());
            let now = of_standby(standby);
            let seen = &self.seen[&position.gsn()];
            assert!(seen.contains(&now), "at {position} the standby is\n{now}\nof {seen:#?}");
            self.db().acknowledge("s", &position).unwrap();
        }
    }

    fn step(&mut self, (kind, a, b): (u8, u8, u8)) {
        match kind {
            0..=5 => self.transaction(a, b),
            6 | 7 => self.change(a, b),
            8 => self.db().flush_stream(usize::from(a)).unwrap(),
            9 => drop(self.db().flush()),
            10 | 11 => self.follow(a % 8, b),
            12 => drop(self.db().checkpoint().unwrap()),
            13 => drop(self.standby().checkpoint().unwrap()),
            14 => {
                self.tail = None;
                self.standby = None;
            }
            _ => {
                self.tail = None;
                // Nothing is lost by a closing, and the horizon is the last commit.
                self.primary = None;
                // The number of streams may change, and then the log of before is gone.
                self.options.streams = 1 + usize::from(a) % 3;
                self.primary = Some(Database::open("/primary", self.options.clone()).unwrap());
                self.note();
            }
        }
    }
}

fn cases() -> u32 {
    std::env::var("MMDB_STANDBY_CASES").ok().and_then(|v| v.parse().ok()).unwrap_or(48)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_standby_is_what_its_primary_was_at_every_commit(
        streams in 1usize..4,
        images: bool,
        steps in proptest::collection::vec((0u8..16, any::<u8>(), any::<u8>()), 1..120),
    ) {
        let kind = if images { LogKind::AfterImage } else { LogKind::Differential };
        let mut h = History::new(streams, kind);
        for step in steps {
            h.step(step);
        }
        h.db().flush().unwrap();
        (0..9).for_each(|_| h.follow(255, 0));
        prop_assert_eq!(of_standby(h.standby()), of_primary(h.db()));
        h.standby().verify().unwrap();
        // It goes on as a primary, where the other one stood.
        h.tail = None;
        let last = h.standby().position().gsn();
        h.standby = None;
        let before = of_primary(h.db());
        let new = Standby::open(&h.place, h.options.clone()).unwrap().promote(2).unwrap();
        prop_assert_eq!(of_primary(&new), before);
        let next = new.create_table(numbers("after")).unwrap();
        for t in new.tables().iter().filter(|t| t.schema().columns.len() == 3) {
            for id in 100..200 {
                prop_assert!(put(&new, t, id) >= last);
            }
        }
        new.drop_table(&next).unwrap();
        new.verify().unwrap();
        let now = of_primary(&new);
        drop((next, new));
        prop_assert_eq!(of_primary(&Database::open(&h.place, h.options.clone()).unwrap()), now);
    }
}

#[test]
fn a_snapshot_of_a_standby_shows_one_moment_while_frames_come() {
    let options = options();
    let (db, t, standby) = pair(&options);
    (2..50).for_each(|id| assert!(put(&db, &t, id) > 0));
    let mut tail = db.tail(&standby.position()).unwrap();
    pump(&mut tail, &standby);
    let before = standby.snapshot().unwrap();
    let was = dump(&standby.tables(), &before);
    // Rows that move between keys of a unique index, go, and come.
    let unique = NewIndex::hash("only_n", &["n"]).unique();
    db.run(|tx| {
        (2..50i64).try_for_each(|id| {
            tx.update(
                &t,
                &[id.into()],
                &[("n", (id * 1000).into()), ("text", "y".repeat(150).as_str().into())],
            )
            .map(drop)
        })?;
        tx.delete(&t, &[1.into()]).map(drop)
    })
    .unwrap();
    pump(&mut tail, &standby);
    assert_eq!(dump(&standby.tables(), &before), was);
    assert_eq!(before.range(&standby.table("t").unwrap(), "by_n", [Value::Int(1000)]..).unwrap().count(), 0);
    db.create_index(&t, unique).unwrap();
    pump(&mut tail, &standby);
    let read = before.get_by(&standby.table("t").unwrap(), "only_n", &[2000.into()]);
    assert!(matches!(read, Err(Error::Operation { .. })), "{read:?}");
    drop(before);
    assert_eq!(of_standby(&standby), of_primary(&db));
    assert_eq!(standby.stats().snapshot_bytes, 0, "nothing is kept for nobody");
}

#[test]
fn a_deposed_primary_acknowledges_nothing() {
    let options = options();
    let (db, t, standby) = pair(&options);
    let mut tail = db.tail(&standby.position()).unwrap();
    pump(&mut tail, &standby);
    let late = {
        put(&db, &t, 2);
        tail.try_next().unwrap().unwrap()
    };
    // What it commits from here on never gets to anybody.
    let new = standby.promote(2).unwrap();
    assert_eq!(new.position().unwrap().epoch(), 2);
    let ticket = db.run_with(Durability::Durable, |tx| tx.delete(&t, &[1.into()])).unwrap().1;
    let alone = ticket.wait_standbys(1, Duration::ZERO).unwrap_err();
    assert!(matches!(alone, Error::StandbysMissing { standbys: 0, wanted: 1, .. }), "{alone}");
    // The transport brings it the position of somebody who follows the new primary.
    let news = new.position().unwrap();
    let deposed = |e: &Error| matches!(e, Error::Deposed { epoch: 1, by: 2 });
    assert!(deposed(&db.acknowledge("s", &news).unwrap_err()));
    assert!(deposed(&db.begin().unwrap_err()));
    assert!(deposed(&ticket.wait_standbys(1, Duration::from_secs(9)).unwrap_err()));
    assert!(deposed(&db.tail(&news).unwrap_err()));
    assert!(deposed(&tail.try_next().unwrap_err()));
    assert!(db.checkpoint().is_err() && db.create_table(numbers("u")).is_err());
    drop((tail, t, ticket, db));
    let again = Database::open("/primary", options.clone()).unwrap_err();
    assert!(again.to_string().contains("deposed by the primary of epoch 2"), "{again}");
    let standby = Standby::open("/primary", options.clone()).unwrap_err();
    assert!(standby.to_string().contains("deposed"), "{standby}");
    // What it has can be had, as a database of its own.
    mmdb::restore("/primary", "/own", &options).unwrap();
    let own = Database::open("/own", options.clone()).unwrap();
    assert_eq!(own.begin().unwrap().scan(&own.table("t").unwrap()).unwrap().count(), 1);
    assert!(own.position().unwrap() != news);
    // Its late frames are of no use to the new primary's standbys.
    new.backup_for_standby("/second").unwrap();
    let second = Standby::open("/second", options).unwrap();
    let refused = second.apply(&late).unwrap_err();
    assert!(matches!(refused, Error::FramesOutdated { epoch: 1, least: 2 }), "{refused}");
}

/// A standby's directory that is restored is a standby of the same primary, and counts as another
/// one under another name.
#[test]
fn what_is_restored_of_a_standby_is_another_one() {
    let options = options();
    let (db, t, standby) = pair(&options);
    put(&db, &t, 2);
    pump(&mut db.tail(&standby.position()).unwrap(), &standby);
    standby.close().unwrap();
    mmdb::restore("/standby", "/other", &options).unwrap();
    let refused = Database::open("/other", options.clone()).unwrap_err();
    assert!(refused.to_string().contains("standby"), "{refused}");
    let last = put(&db, &t, 3);
    for dir in ["/standby", "/other"] {
        let standby = Standby::open(dir, options.clone()).unwrap();
        pump(&mut db.tail(&standby.position()).unwrap(), &standby);
        assert_eq!(of_standby(&standby), of_primary(&db), "{dir}");
        db.acknowledge(dir, &standby.position()).unwrap();
    }
    assert_eq!(db.stats().standbys, ["/other", "/standby"].map(|name| (name.to_owned(), last)));
}

#[test]
fn a_primary_that_hears_of_a_later_epoch_lets_its_waiters_go() {
    let options = Options { background: true, ..options() };
    let (db, t, _standby) = pair(&options);
    std::thread::scope(|scope| {
        let waiters: Vec<_> = (0..4)
            .map(|id| {
                let ticket = db.run_with(Durability::Durable, |tx| {
                    tx.insert(&t, &[(10 + id).into(), 0.into(), "".into()])
                });
                let ticket = ticket.unwrap().1;
                scope.spawn(move || ticket.wait_standbys(1, Duration::from_secs(600)))
            })
            .collect();
        db.depose(7).unwrap();
        for waiter in waiters {
            let told = waiter.join().unwrap();
            assert!(matches!(told, Err(Error::Deposed { epoch: 1, by: 7 })), "{told:?}");
        }
    });
    assert!(matches!(db.depose(1), Err(Error::FramesOutdated { epoch: 1, least: 2 })));
}

/// News of an earlier epoch that came after those of a later one was an assertion that failed, in
/// the thread of who brought them.
#[test]
fn a_primary_may_hear_of_several_epochs_in_any_order() {
    let options = options();
    let (db, t, _standby) = pair(&options);
    db.depose(5).unwrap();
    db.depose(3).unwrap();
    db.depose(7).unwrap();
    assert!(matches!(db.begin(), Err(Error::Deposed { epoch: 1, by: 5 })), "the first one did it");
    drop((t, db));
    let again = Database::open("/primary", options).unwrap_err();
    assert!(again.to_string().contains("deposed by the primary of epoch 7"), "{again}");
}

#[test]
fn fenced_standbys_keep_what_waited_for_one_of_them() {
    let options = options();
    let (db, t, first) = pair(&options);
    db.backup_for_standby("/other").unwrap();
    let other = Standby::open("/other", options.clone()).unwrap();
    let mut tail = db.tail(&first.position()).unwrap();
    put(&db, &t, 2);
    pump(&mut tail, &first);
    // Each commit waits for one of two: so both are fenced, and the one that is further is
    // promoted.
    let (a, b) = (first.fence(2).unwrap(), other.fence(2).unwrap());
    assert!(a.gsn() > b.gsn() && b.fenced() == 2);
    assert_eq!(first.fence(2).unwrap(), a, "a promise can be repeated");
    assert!(matches!(first.fence(1), Err(Error::FramesOutdated { epoch: 1, least: 2 })));
    put(&db, &t, 3);
    let frames = tail.try_next().unwrap().unwrap();
    for standby in [&first, &other] {
        assert!(matches!(standby.apply(&frames), Err(Error::FramesOutdated { epoch: 1, least: 2 })));
    }
    // The promise survives.
    drop((first, other));
    let other = Standby::open("/other", options.clone()).unwrap();
    assert!(matches!(other.apply(&frames), Err(Error::FramesOutdated { .. })));
    let new = Standby::open("/standby", options.clone()).unwrap().promote(2).unwrap();
    let mut tail = new.tail(&other.position()).unwrap();
    put(&new, &new.table("t").unwrap(), 9);
    pump(&mut tail, &other);
    assert_eq!(of_standby(&other), of_primary(&new));
    assert_eq!(other.position().epoch(), 2);
}

/// The first frames of a new primary tell a standby of its epoch, before the standby has all that
/// came before that. If the new primary is lost by then and the standby promoted, its own epoch
/// begins with an earlier commit than the one that it has heard of. Both were stated: that was out
/// of order, and the promoted database could not be opened again, nor its frames be read.
#[test]
fn a_standby_that_is_behind_the_epoch_it_has_heard_of_can_be_promoted() {
    let options = options();
    let (db, t, first) = pair(&options);
    db.backup_for_standby("/behind").unwrap();
    db.backup_for_standby("/third").unwrap();
    let behind = Standby::open("/behind", options.clone()).unwrap();
    (2..10).for_each(|id| assert!(put(&db, &t, id) > 0));
    pump(&mut db.tail(&first.position()).unwrap(), &first);
    let second = first.promote(2).unwrap();
    let mut tail = second.tail(&behind.position()).unwrap().batch_bytes(1);
    let position = behind.apply(&sent(&tail.try_next().unwrap().unwrap())).unwrap();
    assert_eq!((position.gsn(), position.epoch()), (2, 2), "there are 9 commits before epoch 2");
    drop((tail, second));
    let new = behind.promote(3).unwrap();
    assert_eq!(put(&new, &new.table("t").unwrap(), 20), 3);
    let now = of_primary(&new);
    drop(new);
    let new = Database::open("/behind", options.clone()).unwrap();
    assert_eq!((of_primary(&new), new.position().unwrap().epoch()), (now, 3));
    // Who is in no later epoch than the first, and has no more of it, follows.
    let third = Standby::open("/third", options.clone()).unwrap();
    pump(&mut new.tail(&third.position()).unwrap(), &third);
    assert_eq!(of_standby(&third), of_primary(&new));
    // Who has more of it does not.
    assert!(matches!(new.tail(&db.position().unwrap()), Err(Error::FramesForeign { .. })));
}

/// Rows of a table that is only checkpointed stay on a standby as they were copied. A column came
/// for which one of them had no room, since the primary had that row no more: the standby did not
/// show it, and could not be opened again. Now they are given up.
#[test]
fn rows_of_a_copy_that_have_no_room_for_a_column_are_given_up() {
    let options = Options { container_bytes: 64 << 10, segment_bytes: 256 << 10, ..options() };
    let db = Database::open("/primary", options.clone()).unwrap();
    let t = db.create_table(numbers("t")).unwrap();
    let kept = Schema::new("kept").column("id", ColumnType::Int64);
    let kept = kept.column("text", ColumnType::VarText(u16::MAX)).primary_key(&["id"]);
    let kept = db.create_table(kept.logging(Logging::Checkpointed)).unwrap();
    let long = "x".repeat(65_490);
    db.run(|tx| tx.insert(&kept, &[1.into(), long.as_str().into()])).unwrap();
    db.backup_for_standby("/standby").unwrap();
    let mut standby = Standby::open("/standby", options.clone()).unwrap();
    let rows = |standby: &Standby, name| {
        standby.snapshot().unwrap().scan(&standby.table(name).unwrap()).unwrap().count()
    };
    assert_eq!((rows(&standby, "t"), rows(&standby, "kept")), (0, 1));
    db.run(|tx| tx.delete(&kept, &[1.into()])).unwrap();
    let more = Column { name: "more".into(), kind: ColumnType::VarText(100), nullable: false };
    let kept = db.add_column(&kept, more, "y".repeat(100).as_str().into()).unwrap();
    put(&db, &t, 1);
    pump(&mut db.tail(&standby.position()).unwrap(), &standby);
    for _ in 0..2 {
        assert_eq!(standby.table("kept").unwrap().schema(), kept.schema());
        assert_eq!((rows(&standby, "t"), rows(&standby, "kept")), (1, 0));
        standby.checkpoint().unwrap();
        standby.close().unwrap();
        standby = Standby::open("/standby", options.clone()).unwrap();
    }
    let new = standby.promote(2).unwrap();
    let kept = new.table("kept").unwrap();
    new.run(|tx| tx.insert(&kept, &[1.into(), "x".into(), "y".into()])).unwrap();
    new.verify().unwrap();
}

#[test]
fn frames_of_another_history_are_refused() {
    let options = options();
    let (db, t, standby) = pair(&options);
    let (foreign, foreign_t) = {
        let db = Database::open("/foreign", options.clone()).unwrap();
        let t = db.create_table(numbers("t")).unwrap();
        (db, t)
    };
    put(&foreign, &foreign_t, 1);
    let refused = |e: Error, words: &str| {
        let text = e.to_string();
        assert!(matches!(e, Error::FramesForeign { .. }) && text.contains(words), "{text}");
        assert!(text.contains("begin the standby again"), "{text}");
    };
    let strange = foreign.tail(&foreign.position().unwrap()).unwrap().try_next().unwrap().unwrap();
    refused(standby.apply(&strange).unwrap_err(), "lineage");
    refused(foreign.tail(&standby.position()).unwrap_err(), "lineage");
    refused(foreign.acknowledge("s", &standby.position()).unwrap_err(), "lineage");
    // A backup is a database of its own, and so is what is restored.
    db.backup("/copy").unwrap();
    let copy = Database::open("/copy", options.clone()).unwrap();
    refused(copy.tail(&standby.position()).unwrap_err(), "lineage");
    // One that has more of an epoch than the next one took over.
    db.backup_for_standby("/behind").unwrap();
    put(&db, &t, 2);
    let mut tail = db.tail(&standby.position()).unwrap();
    pump(&mut tail, &standby);
    let new = Standby::open("/behind", options.clone()).unwrap().promote(2).unwrap();
    refused(new.tail(&standby.position()).unwrap_err(), "which ended with commit 1");
    let news = new.tail(&new.position().unwrap()).unwrap().try_next().unwrap().unwrap();
    refused(standby.apply(&news).unwrap_err(), "commits up to 2 of epoch 1, which ended with commit 1");
    // Two promotions to one epoch.
    db.backup_for_standby("/third").unwrap();
    let twin = standby.promote(2).unwrap();
    let third = Standby::open("/third", options).unwrap();
    let mut tail = twin.tail(&third.position()).unwrap();
    pump(&mut tail, &third);
    refused(new.acknowledge("third", &third.position()).unwrap_err(), "begun elsewhere");
    refused(third.apply(&news).unwrap_err(), "did not come after epoch 2");
}

#[test]
fn a_standby_that_is_ahead_of_its_primary_is_refused() {
    let options = Options { medium: Arc::new(MemoryMedium::new()), ..options() };
    let (db, t, standby) = pair(&options);
    let ahead = {
        put(&db, &t, 2);
        pump(&mut db.tail(&standby.position()).unwrap(), &standby);
        standby.position()
    };
    // The position of a commit that is never made: as if the primary had come back from a copy.
    db.backup_for_standby("/old").unwrap();
    let old = Standby::open("/old", options).unwrap();
    assert_eq!(old.position(), ahead);
    let mut bytes = ahead.to_bytes();
    assert!(Position::from_bytes(&bytes).is_ok());
    bytes[60] ^= 1;
    assert!(matches!(Position::from_bytes(&bytes), Err(Error::FramesDamaged { .. })));
}

/// Checkpoints released the log behind a copy that was on its way, and whoever made another one, as
/// the error said, was refused again.
#[test]
fn a_tail_keeps_the_log_for_a_copy_that_is_on_its_way() {
    let options = Options { segment_bytes: 16 << 10, ..options() };
    let (db, t, _) = pair(&options);
    let fill = || {
        (0..20).for_each(|id| assert!(put(&db, &t, id) > 0));
        db.checkpoint().unwrap();
    };
    db.backup_for_standby("/late").unwrap();
    fill();
    let late = Standby::open("/late", options.clone()).unwrap();
    let lost = db.tail(&late.position()).unwrap_err();
    assert!(matches!(lost, Error::TailLost { .. }), "{lost}");
    assert!(lost.to_string().contains("open from before the copy"), "{lost}");
    let kept = db.tail(&db.position().unwrap()).unwrap();
    db.backup_for_standby("/in-time").unwrap();
    fill();
    let standby = Standby::open("/in-time", options.clone()).unwrap();
    let mut tail = db.tail(&standby.position()).unwrap();
    drop(kept);
    fill();
    pump(&mut tail, &standby);
    assert_eq!(of_standby(&standby), of_primary(&db));
}

#[test]
fn log_is_kept_for_who_is_behind_up_to_a_limit() {
    let options = Options {
        segment_bytes: 16 << 10,
        tail_log_bytes: 64 << 10,
        max_log_bytes: 1 << 20,
        checkpoint_log_bytes: 1 << 19,
        ..options()
    };
    let (db, t, standby) = pair(&options);
    let fill = |count: i64| {
        (0..count).for_each(|id| assert!(put(&db, &t, id) > 0));
        db.checkpoint().unwrap();
    };
    // Nobody asks: nothing is kept, and who comes later is told.
    fill(20);
    assert_eq!(db.stats().tail_log_bytes, 0);
    let lost = db.tail(&standby.position()).unwrap_err();
    assert!(matches!(lost, Error::TailLost { gsn: 2, oldest } if oldest > 2), "{lost}");
    assert!(lost.to_string().contains("begin the standby again from Database::backup_for_standby"));
    db.backup_for_standby("/second").unwrap();
    let standby = Standby::open("/second", options.clone()).unwrap();
    let mut tail = db.tail(&standby.position()).unwrap();
    fill(10);
    let kept = db.stats().tail_log_bytes;
    assert!(kept > 0 && kept <= 64 << 10, "{kept}");
    assert_eq!(db.stats().tails, 1);
    pump(&mut tail, &standby);
    assert_eq!(of_standby(&standby), of_primary(&db));
    // An acknowledgement keeps it too, after the tail is gone.
    db.acknowledge("s", &standby.position()).unwrap();
    drop(tail);
    fill(10);
    pump(&mut db.tail(&standby.position()).unwrap(), &standby);
    // Until the standby is forgotten, or there is too much.
    let mut behind = db.tail(&standby.position()).unwrap();
    fill(100);
    assert_eq!(db.stats().tail_log_bytes, 64 << 10);
    let lost = behind.try_next().and_then(|_| behind.try_next()).unwrap_err();
    assert!(matches!(lost, Error::TailLost { .. }), "{lost}");
    drop(behind);
    assert!(db.forget_standby("s"));
    fill(10);
    assert_eq!(db.stats().tail_log_bytes, 0);
}

#[test]
fn a_standby_refuses_what_its_options_cannot_hold_and_goes_on_with_others() {
    let options = options();
    let (db, t, standby) = pair(&options);
    drop(standby);
    let text = "x".repeat(190);
    let row = |id: i64| [id.into(), id.into(), text.as_str().into()];
    db.run(|tx| (0..200i64).try_for_each(|id| tx.upsert(&t, &row(id)).map(drop))).unwrap();
    let images = Options { log_kind: LogKind::AfterImage, ..options.clone() };
    let small = Options { segment_bytes: 16 << 10, max_log_bytes: 2 << 30, ..options.clone() };
    for (other, words) in [(images, "LogKind::Differential"), (small, "raise Options::segment_bytes")] {
        let standby = Standby::open("/standby", other).unwrap();
        let mut tail = db.tail(&standby.position()).unwrap();
        let frames = tail.try_next().unwrap().unwrap();
        let refused = standby.apply(&frames).unwrap_err();
        assert!(refused.to_string().contains(words), "{refused}");
        assert_eq!(standby.position().gsn(), 1);
    }
    let more = Options { streams: 3, ..options };
    let standby = Standby::open("/standby", more).unwrap();
    pump(&mut db.tail(&standby.position()).unwrap(), &standby);
    assert_eq!(of_standby(&standby), of_primary(&db));
}

#[test]
fn tasks_and_threads_are_woken_by_what_comes() {
    use std::task::{Context, Poll, Wake, Waker};
    #[derive(Default)]
    struct Flag(AtomicBool);
    impl Wake for Flag {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    let options = Options { background: true, ..options() };
    let (db, t, standby) = pair(&options);
    let flag = Arc::<Flag>::default();
    let (waker, mut tail) = (Waker::from(flag.clone()), db.tail(&standby.position()).unwrap());
    let mut task = Context::from_waker(&waker);
    assert!(tail.poll_next(&mut task).is_ready(), "it introduces the primary");
    assert!(tail.poll_next(&mut task).is_pending());
    put(&db, &t, 5);
    let await_flag = || {
        let began = Instant::now();
        while !flag.0.swap(false, Ordering::SeqCst) {
            assert!(began.elapsed() < Duration::from_secs(60), "nobody wakes it");
            std::thread::yield_now();
        }
    };
    await_flag();
    let Poll::Ready(Ok(frames)) = tail.poll_next(&mut task) else { panic!("it was woken for nothing") };
    standby.apply(&frames).unwrap();
    // A change alone wakes, too.
    assert!(tail.poll_next(&mut task).is_pending());
    db.create_table(numbers("u")).unwrap();
    // A thread that has flushed may have taken the waker just before, and wake by it later.
    await_flag();
    let Poll::Ready(Ok(frames)) = tail.poll_next(&mut task) else { panic!("it was woken for nothing") };
    standby.apply(&frames).unwrap();
    assert_eq!(of_standby(&standby), of_primary(&db));
    // A thread that carries frames, and one whose commit waits for them.
    let ticket = db.run_with(Durability::Durable, |tx| tx.delete(&t, &[5.into()])).unwrap().1;
    std::thread::scope(|scope| {
        let (db, standby) = (&db, &standby);
        scope.spawn(move || {
            for frames in tail {
                let position = standby.apply(&frames.unwrap()).unwrap();
                db.acknowledge("s", &position).unwrap();
                if position.gsn() >= 3 {
                    return;
                }
            }
        });
        assert_eq!(ticket.wait_standbys(1, Duration::from_secs(600)).unwrap(), 3);
    });
    assert!(standby.position().gsn() >= 3);
}

#[test]
fn a_tail_ends_with_its_database() {
    let options = Options { background: true, ..options() };
    let (db, t, standby) = pair(&options);
    let tail = db.tail(&standby.position()).unwrap();
    std::thread::scope(|scope| {
        let reader = scope.spawn(move || tail.map(|frames| frames.unwrap().last_gsn()).last());
        (2..100).for_each(|id| assert!(put(&db, &t, id) > 0));
        drop((t, db));
        assert_eq!(reader.join().unwrap(), Some(99));
    });
}
