//! Each rule of standbys is left out, and what is to notice it does. The rules that only crashes
//! show are left out in `standby_crash.rs`.
#![allow(clippy::unwrap_used)]

use mmdb::medium::{CrashKind, CrashMedium, Faults, Medium, MemoryMedium};
use mmdb::{ColumnType, Database, Error, Frames, Logging, NewIndex, Options};
use mmdb::{Sabotage, Schema, Standby, Table, Tail};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

fn options(medium: Arc<dyn Medium>, sabotage: Sabotage) -> Options {
    Options {
        medium,
        segment_bytes: 16 << 10,
        container_bytes: 4096,
        background: false,
        sabotage,
        ..Options::default()
    }
}

/// A primary with a table, and a standby of it.
fn pair(options: &Options) -> (Database, Table, Standby) {
    let primary = Database::open("/primary", options.clone()).unwrap();
    let schema = Schema::new("t").column("id", ColumnType::Int64).column("n", ColumnType::Int64);
    let schema = schema.column("text", ColumnType::VarText(900)).primary_key(&["id"]);
    let t = primary.create_table(schema.ordered_index("by_n", &["n"])).unwrap();
    primary.backup_for_standby("/standby").unwrap();
    let standby = Standby::open("/standby", options.clone()).unwrap();
    (primary, t, standby)
}

fn put(db: &Database, t: &Table, id: i64, n: i64) -> mmdb::Result<()> {
    db.run(|tx| tx.upsert(t, &[id.into(), n.into(), "text".into()]).map(drop))
}

fn next(tail: &mut Tail) -> Frames {
    tail.try_next().unwrap().unwrap()
}

/// Frames that begin behind what the standby has are refused.
fn gaps(options: &Options) {
    let (primary, t, standby) = pair(options);
    let mut tail = primary.tail(&standby.position()).unwrap().batch_bytes(1);
    (1..=2).for_each(|id| put(&primary, &t, id, 0).unwrap());
    drop(next(&mut tail));
    let second = next(&mut tail);
    assert!(matches!(standby.apply(&second), Err(Error::FramesGap { gsn: 2, needed: 1 })));
}

/// A standby that was fenced takes nothing more of the epochs before.
fn fenced(options: &Options) {
    let (primary, t, standby) = pair(options);
    let mut tail = primary.tail(&standby.position()).unwrap();
    put(&primary, &t, 1, 0).unwrap();
    let frames = next(&mut tail);
    standby.fence(2).unwrap();
    assert!(matches!(standby.apply(&frames), Err(Error::FramesOutdated { epoch: 1, least: 2 })));
}

/// Frames of a primary that has gone another way are refused.
fn foreign(options: &Options) {
    let (primary, t, standby) = pair(options);
    primary.backup_for_standby("/second").unwrap();
    let second = Standby::open("/second", options.clone()).unwrap();
    // Both are promoted to one epoch.
    let (first, second) = (standby.promote(2).unwrap(), second.promote(2).unwrap());
    first.backup_for_standby("/of-first").unwrap();
    let follower = Standby::open("/of-first", options.clone()).unwrap();
    put(&second, &second.table("t").unwrap(), 1, 0).unwrap();
    let from = primary.position().unwrap();
    let frames = next(&mut second.tail(&from).unwrap());
    drop(t);
    assert!(matches!(follower.apply(&frames), Err(Error::FramesForeign { .. })));
}

/// Rows of a standby are found by their keys of today only.
fn indexes(options: &Options) {
    let (primary, t, standby) = pair(options);
    let mut tail = primary.tail(&standby.position()).unwrap();
    put(&primary, &t, 1, 1).unwrap();
    put(&primary, &t, 1, 2).unwrap();
    standby.apply(&next(&mut tail)).unwrap();
    standby.verify().unwrap();
}

/// A fence is kept through a crash.
fn fence_that_stays(options: &Options, disk: &CrashMedium) {
    let (primary, t, standby) = pair(options);
    let mut tail = primary.tail(&standby.position()).unwrap();
    put(&primary, &t, 1, 0).unwrap();
    let frames = next(&mut tail);
    standby.fence(2).unwrap();
    disk.set_faults(Faults { crash_at: Some(disk.calls()), ..Faults::default() });
    drop((tail, t, primary, standby));
    disk.crash(CrashKind::Power);
    disk.set_faults(Faults::default());
    let standby = Standby::open("/standby", options.clone()).unwrap();
    assert!(matches!(standby.apply(&frames), Err(Error::FramesOutdated { epoch: 1, least: 2 })));
}

/// A primary that hears of a later epoch acknowledges nothing more, and is not opened as one.
fn deposed(options: &Options) {
    let (primary, t, standby) = pair(options);
    let position = standby.fence(2).unwrap();
    assert!(matches!(primary.acknowledge("s", &position), Err(Error::Deposed { epoch: 1, by: 2 })));
    assert!(put(&primary, &t, 1, 0).is_err());
    drop((t, primary));
    assert!(matches!(Database::open("/primary", options.clone()), Err(Error::Directory { .. })));
}

/// Where the disk does not take it that a primary is deposed, whoever told it hears of that.
fn deposed_on_a_broken_disk(options: &Options, disk: &CrashMedium) {
    let (primary, t, standby) = pair(options);
    let position = standby.fence(2).unwrap();
    disk.set_faults(Faults { error_at: Some(disk.calls() + 2), ..Faults::default() });
    let refused = primary.acknowledge("s", &position);
    assert!(matches!(refused, Err(Error::Io { .. })), "{refused:?}");
    assert!(matches!(put(&primary, &t, 1, 0), Err(Error::Deposed { epoch: 1, by: 2 })));
    disk.set_faults(Faults::default());
    // And it can be told again.
    primary.depose(2).unwrap();
    drop((t, primary));
    assert!(matches!(Database::open("/primary", options.clone()), Err(Error::Directory { .. })));
}

/// What waits for a standby counts those of its own history that have it, and no others.
fn acknowledgements(options: &Options) {
    let (primary, t, standby) = pair(options);
    let before = standby.position();
    let done =
        primary.run_with(mmdb::Durability::Durable, |tx| tx.insert(&t, &[1.into(), 1.into(), "text".into()]));
    let ticket = done.unwrap().1;
    primary.acknowledge("behind", &before).unwrap();
    let other = Database::open("/other", options.clone()).unwrap();
    let o =
        other.create_table(Schema::new("o").column("id", ColumnType::Int64).primary_key(&["id"])).unwrap();
    (0..9i64).for_each(|id| other.run(|tx| tx.insert(&o, &[id.into()])).unwrap());
    let foreign = primary.acknowledge("foreign", &other.position().unwrap());
    assert!(matches!(foreign, Err(Error::FramesForeign { .. })), "{foreign:?}");
    let alone = ticket.wait_standbys(1, Duration::ZERO);
    assert!(matches!(alone, Err(Error::StandbysMissing { standbys: 0, wanted: 1, .. })), "{alone:?}");
}

/// A standby that is behind finds the log that it needs, through checkpoints.
fn kept(options: &Options) {
    let (primary, t, standby) = pair(options);
    primary.acknowledge("s", &standby.position()).unwrap();
    for id in 0..200 {
        primary.run(|tx| tx.insert(&t, &[id.into(), id.into(), "x".repeat(900).as_str().into()])).unwrap();
    }
    for _ in 0..3 {
        primary.checkpoint().unwrap();
    }
    let mut tail = primary.tail(&standby.position()).unwrap();
    while standby.position().gsn() < 200 {
        standby.apply(&next(&mut tail)).unwrap();
    }
}

/// Rows of a table that is only checkpointed stay as they were copied. A unique index that the
/// primary made later was built over those: `apply` returned `DuplicateKey` for good, and no commit
/// of any table came any more. Now they are given up with that change.
fn contradicted(options: &Options) {
    let primary = Database::open("/primary", options.clone()).unwrap();
    let schema = Schema::new("t").column("id", ColumnType::Int64).column("k", ColumnType::Int64);
    let t = primary.create_table(schema.primary_key(&["id"]).logging(Logging::Checkpointed)).unwrap();
    let logged = Schema::new("logged").column("id", ColumnType::Int64).primary_key(&["id"]);
    let logged = primary.create_table(logged).unwrap();
    (1..=2i64).for_each(|id| primary.run(|tx| tx.insert(&t, &[id.into(), 7.into()])).unwrap());
    primary.backup_for_standby("/standby").unwrap();
    let mut standby = Standby::open("/standby", options.clone()).unwrap();
    {
        let (before, there) = (standby.snapshot().unwrap(), standby.table("t").unwrap());
        assert_eq!(before.scan(&there).unwrap().count(), 2);
        primary.run(|tx| tx.update(&t, &[2.into()], &[("k", 8.into())])).unwrap();
        primary.create_index(&t, NewIndex::hash("k", &["k"]).unique()).unwrap();
        primary.run(|tx| tx.insert(&logged, &[1.into()])).unwrap();
        let mut tail = primary.tail(&standby.position()).unwrap();
        while let Some(frames) = tail.try_next().unwrap() {
            standby.apply(&frames).expect("a commit of another table comes behind");
        }
        // What the snapshot shows is not there any more, and it says so, whichever handle it gets.
        for handle in [&there, &standby.table("t").unwrap()] {
            assert!(matches!(before.scan(handle), Err(Error::NoSuchTable { .. })));
        }
    }
    for checkpoint in [false, true] {
        let rows = |name| {
            let now = standby.snapshot().unwrap();
            now.scan(&standby.table(name).unwrap()).unwrap().count()
        };
        assert_eq!((rows("t"), rows("logged")), (0, 1), "{checkpoint}");
        assert_eq!(standby.table("t").unwrap().schema().indexes.len(), 2);
        if checkpoint {
            standby.checkpoint().unwrap();
        }
        standby.close().unwrap();
        standby = Standby::open("/standby", options.clone()).unwrap();
    }
    let new = standby.promote(2).unwrap();
    let t = new.table("t").unwrap();
    new.run(|tx| tx.insert(&t, &[1.into(), 7.into()])).unwrap();
    let doubled = new.run(|tx| tx.insert(&t, &[2.into(), 7.into()]));
    assert!(matches!(doubled, Err(Error::DuplicateKey { .. })), "{doubled:?}");
    new.checkpoint().unwrap();
    new.verify().unwrap();
}

/// The rule holds, and where it is left out `check` fails.
fn is_caught(defects: &[Sabotage], check: impl Fn(&Options, &CrashMedium)) {
    for defect in [Sabotage::None].iter().chain(defects) {
        let disk = CrashMedium::new(7);
        let options = options(Arc::new(disk.clone()), *defect);
        let done = catch_unwind(AssertUnwindSafe(|| check(&options, &disk)));
        // Also at the end of what was left: a defect is no reason to abort.
        assert_eq!(done.is_ok(), *defect == Sabotage::None, "{defect:?}");
    }
}

macro_rules! caught {
    ($($name:ident: $check:expr, $($defect:ident)|+;)*) => {
        $(#[test]
        fn $name() {
            is_caught(&[$(Sabotage::$defect),+], $check);
        })*
    };
}

caught! {
    applying_behind_a_gap_is_caught: |o, _| gaps(o), AppliesGaps;
    following_a_primary_that_was_fenced_off_is_caught: |o, _| fenced(o), FollowsDeposed;
    following_another_history_is_caught: |o, _| foreign(o), FollowsForeign;
    an_old_key_in_an_index_of_a_standby_is_caught: |o, _| indexes(o), AppliesStaleIndex;
    a_fence_that_is_not_stated_is_caught: fence_that_stays, FencesWithoutManifest;
    a_deposed_primary_that_goes_on_is_caught: |o, _| deposed(o), DeposedGoesOn | DeposesWithoutManifest;
    a_write_error_that_a_deposed_primary_conceals_is_caught: deposed_on_a_broken_disk, DeposesWithoutManifest;
    counting_standbys_that_have_it_not_is_caught: |o, _| acknowledgements(o), CountsForeign | CountsBehind;
    rows_that_contradict_a_change_and_come_back_are_caught: |o, _| contradicted(o), KeepsContradictingRows;
    releasing_log_that_a_standby_needs_is_caught: |o, _| kept(o), ForgetsTails;
}

/// Wherever the power is cut while rows are given up: the standby opens again, and goes on.
#[test]
fn rows_that_contradict_a_change_go_with_it_or_not_at_all() {
    let disk = CrashMedium::new(3);
    let options = options(Arc::new(disk.clone()), Sabotage::None);
    let primary = Database::open("/primary", options.clone()).unwrap();
    let schema = Schema::new("t").column("id", ColumnType::Int64).column("k", ColumnType::Int64);
    let t = primary.create_table(schema.primary_key(&["id"]).logging(Logging::Checkpointed)).unwrap();
    (1..=2i64).for_each(|id| primary.run(|tx| tx.insert(&t, &[id.into(), 7.into()])).unwrap());
    primary.backup_for_standby("/standby").unwrap();
    let position = Standby::open("/standby", options.clone()).unwrap().position();
    primary.run(|tx| tx.update(&t, &[2.into()], &[("k", 8.into())])).unwrap();
    primary.create_index(&t, NewIndex::hash("k", &["k"]).unique()).unwrap();
    let mut tail = primary.tail(&position).unwrap();
    let frames = next(&mut tail);
    let mut seen = [false; 2];
    for call in 1.. {
        let disk = disk.fork();
        let options = Options { medium: Arc::new(disk.clone()), ..options.clone() };
        let standby = Standby::open("/standby", options.clone()).unwrap();
        disk.set_faults(Faults { crash_at: Some(disk.calls() + call), ..Faults::default() });
        let done = standby.apply(&frames).is_ok();
        drop(standby);
        if !disk.is_dead() {
            assert!(done && seen == [true; 2], "both were met: {seen:?}");
            return;
        }
        disk.set_faults(Faults::default());
        disk.crash(CrashKind::Power);
        let standby = Standby::open("/standby", options).unwrap();
        let there = standby.table("t").unwrap();
        let rows = standby.snapshot().unwrap().scan(&there).unwrap().count();
        let is_changed = there.schema().indexes.len() == 2;
        assert_eq!(rows, if is_changed { 0 } else { 2 }, "call {call}");
        seen[usize::from(is_changed)] = true;
        standby.apply(&frames).unwrap();
        assert_eq!(standby.table("t").unwrap().schema().indexes.len(), 2);
        standby.promote(2).unwrap().verify().unwrap();
    }
}

/// A medium in memory does for what no crash is needed for.
#[test]
fn the_rules_hold_in_memory_too() {
    for check in [gaps, fenced, foreign, indexes, deposed, acknowledgements, contradicted, kept] {
        check(&options(Arc::new(MemoryMedium::new()), Sabotage::None));
    }
}
