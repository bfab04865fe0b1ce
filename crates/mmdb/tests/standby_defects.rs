//! Each rule of standbys is left out, and what is to notice it does. The rules that only crashes
//! show are left out in `standby_crash.rs`.
#![allow(clippy::unwrap_used)]

use mmdb::medium::{CrashKind, CrashMedium, Faults, Medium, MemoryMedium};
use mmdb::{ColumnType, Database, Error, Frames, Options, Sabotage, Schema, Standby, Table, Tail};
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
    releasing_log_that_a_standby_needs_is_caught: |o, _| kept(o), ForgetsTails;
}

/// A medium in memory does for what no crash is needed for.
#[test]
fn the_rules_hold_in_memory_too() {
    for check in [gaps, fenced, foreign, indexes, deposed, acknowledgements, kept] {
        check(&options(Arc::new(MemoryMedium::new()), Sabotage::None));
    }
}
