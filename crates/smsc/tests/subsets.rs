//! Selective logging, table by table: whatever is left out of the log is there again after a
//! restart.
#![allow(clippy::unwrap_used)]

mod steps;

use proptest::test_runner::{Config, TestRunner};
use smsc::check::check;
use smsc::housekeeping::recover;
use smsc::model::{
    Account, EncodedPart, Forwarded, IdBlock, Message, Queued, Record, RetryTimer, Scheduled, Sent, State,
    Station, StationState, Table, UnloggedTables,
};
use smsc::store::{MmdbOptions, Row, Store, StoreError, StoreKind};
use std::cell::RefCell;
use std::path::Path;
use steps::{Run, Step, steps};

fn open(dir: &Path, unlogged: UnloggedTables) -> Result<Box<dyn Store>, StoreError> {
    let options = MmdbOptions { unlogged, segment_mib: 1, ..MmdbOptions::default() };
    StoreKind::Mmdb.open(dir, &options, StoreKind::Mmdb.rules())
}

/// Every row but the block of numbers, of which a restart takes a new one; those of a table beside
/// each other.
fn rows(store: &dyn Store) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut add = |row| {
        if !matches!(row, Row::IdBlock(_)) {
            rows.push(row);
        }
        Ok(())
    };
    store.scan(&mut add).unwrap();
    rows.sort_by_key(|row| format!("{row:?}"));
    rows
}

/// What a restart at `now_us` makes of these rows.
fn restarted(before: Vec<Row>, unlogged: UnloggedTables, now_us: i64) -> Vec<Row> {
    let lost = |table: &'static Table| unlogged.contains(table);
    let (no_stations, no_timers) = (lost(Station::TABLE), lost(RetryTimer::TABLE));
    let messages = before
        .iter()
        .filter_map(|row| if let Row::Message(message) = row { Some(message.clone()) } else { None });
    let messages: Vec<Message> = messages.collect();
    let again = |row| match row {
        // Nothing tells any more which stations waited.
        Row::RetryTimer(_) if no_stations && no_timers => None,
        Row::Station(station) if no_stations => {
            let is_queued =
                |message: &&Message| message.dst_key == station.dst_key && message.state == State::Enroute;
            let queue = || messages.iter().filter(is_queued);
            // Nobody needs the row of a station that has nothing to do.
            let first = queue().min_by_key(|message| (message.rank(), message.msg_id))?;
            let waits = matches!(station.state, StationState::Wait | StationState::Absent) && !no_timers;
            Some(Row::Station(Station {
                state: if waits { StationState::Wait } else { StationState::Ready },
                ready_us: if waits {
                    station.ready_us
                } else {
                    queue().map(|message| message.submit_us).min()?
                },
                epoch: if waits { station.epoch } else { 0 },
                current: 0,
                alerted: false,
                attempts: first.attempts,
                last_error: first.last_error,
                ..station
            }))
        }
        Row::Station(station) if station.state == StationState::Busy => Some(Row::Station(Station {
            state: StationState::Ready,
            ready_us: now_us,
            current: 0,
            alerted: false,
            ..station
        })),
        row => Some(row),
    };
    let mut rows: Vec<Row> = before.into_iter().filter_map(again).collect();
    rows.sort_by_key(|row| format!("{row:?}"));
    rows
}

/// The table of a row.
fn table(row: &Row) -> &'static Table {
    match row {
        Row::Message(_) => Message::TABLE,
        Row::EncodedPart(_) => EncodedPart::TABLE,
        Row::Queued(_) => Queued::TABLE,
        Row::Scheduled(_) => Scheduled::TABLE,
        Row::Station(_) => Station::TABLE,
        Row::RetryTimer(_) => RetryTimer::TABLE,
        Row::Sent(_) => Sent::TABLE,
        Row::IdBlock(_) => IdBlock::TABLE,
        Row::Account(_) => Account::TABLE,
        Row::Forwarded(_) => Forwarded::TABLE,
    }
}

/// How much of what matters there was.
#[derive(Debug, Default)]
struct Seen {
    queued: usize,
    scheduled: usize,
    sent: usize,
    timers: usize,
    busy: usize,
}

impl Seen {
    fn add(&mut self, rows: &[Row]) {
        for row in rows {
            match row {
                Row::Queued(_) => self.queued += 1,
                Row::Scheduled(_) => self.scheduled += 1,
                Row::Sent(_) => self.sent += 1,
                Row::RetryTimer(_) => self.timers += 1,
                Row::Station(station) if station.state == StationState::Busy => self.busy += 1,
                _ => {}
            }
        }
    }
}

/// One life: steps, a checkpoint in their middle or none, an end; and what is there when the store
/// is opened again.
fn live_and_restart(
    dir: &Path,
    unlogged: UnloggedTables,
    run: Run<'static>,
    steps: &[Step],
    checkpoint: bool,
) -> (Run<'static>, Vec<Row>) {
    let store = open(dir, unlogged).unwrap();
    recover(&*store, run.now_us).unwrap();
    let mut live = Run { stores: vec![&*store], landed: Vec::new(), flights: Vec::new(), ..run };
    for (at, step) in steps.iter().enumerate() {
        if checkpoint && at == steps.len() / 2 {
            store.checkpoint().unwrap();
        }
        // `Restart` would free claims before the end.
        if !matches!(step, Step::Restart) {
            live.step(step);
        }
    }
    let before = rows(&*store);
    let mut run = Run { stores: Vec::new(), ..live };
    drop(store);
    run.now_us += 1;
    let store = open(dir, unlogged).unwrap();
    let recovered = recover(&*store, run.now_us).unwrap();
    let wanted = restarted(before.clone(), unlogged, run.now_us);
    let found = rows(&*store);
    for (found, wanted) in found.iter().zip(&wanted) {
        assert_eq!(found, wanted, "without a log of {unlogged}");
    }
    assert_eq!(found.len(), wanted.len(), "without a log of {unlogged}: {found:#?} {wanted:#?}");
    let made = found.iter().filter(|row| unlogged.contains(table(row))).count();
    assert_eq!(recovered.rebuilt, made, "without a log of {unlogged}");
    let report = check(&*store, dir, &run.accepted).unwrap();
    assert!(report.holds(), "without a log of {unlogged}: {report:#?}");
    (run, before)
}

#[test]
fn all_64_choices_of_tables_come_back_after_a_restart() {
    // By whether stations and timers are lost.
    let seen: [RefCell<Seen>; 4] = Default::default();
    for unlogged in UnloggedTables::every() {
        let config = Config { cases: 1, max_shrink_iters: 0, failure_persistence: None, ..Config::default() };
        // What was made again must be worth working on, so there is more than one life.
        let lives = (steps(), steps(), steps());
        let outcome = TestRunner::new(config).run(&lives, |(first, second, third)| {
            let dir = tempfile::tempdir().unwrap();
            let mut run = Run::new(Vec::new());
            for (life, steps) in [first, second, third].iter().enumerate() {
                let (next, before) = live_and_restart(dir.path(), unlogged, run, steps, life == 1);
                let class = usize::from(unlogged.contains(Station::TABLE))
                    + 2 * usize::from(unlogged.contains(RetryTimer::TABLE));
                seen[class].borrow_mut().add(&before);
                run = next;
            }
            Ok(())
        });
        outcome.unwrap();
    }
    for seen in seen.map(RefCell::into_inner) {
        let Seen { queued, scheduled, sent, timers, busy } = seen;
        let least = [queued, scheduled, sent, timers, busy].into_iter().min();
        assert!(least > Some(3), "too little happened: {seen:?}");
    }
}

/// What a station knows of its failures is not that of any of its messages here.
#[test]
fn a_station_waits_as_its_timer_tells_whatever_its_messages_tell() {
    let receive = |priority| Step::Receive {
        station: 1,
        priority,
        registered: 0,
        letters: 10,
        scheduled: false,
        valid: 50,
    };
    // Every shard is looked at.
    let claim = Step::Claim { shard: 0, max: 3 };
    let complete = |fate| Step::Complete { which: 0, fate, again: false };
    let (absent, busy) = (complete(5), complete(9));
    let histories = [
        // The first fails as busy; one of a higher priority comes and is absent.
        vec![
            receive(0),
            claim.clone(),
            busy,
            Step::Pass { seconds: 3 },
            Step::Timers,
            receive(3),
            claim.clone(),
            absent.clone(),
        ],
        // What failed is cancelled, and the station goes on waiting, for the other.
        vec![receive(0), receive(0), claim, absent, Step::Cancel { which: 0 }],
    ];
    for (history, unlogged) in
        histories.iter().flat_map(|history| UnloggedTables::every().map(move |set| (history, set)))
    {
        let dir = tempfile::tempdir().unwrap();
        let (_, before) = live_and_restart(dir.path(), unlogged, Run::new(Vec::new()), history, false);
        let absent =
            |row: &Row| matches!(row, Row::Station(station) if station.state == StationState::Absent);
        assert!(before.iter().any(absent), "{before:#?}");
    }
}

#[test]
fn a_store_keeps_to_what_it_was_made_with() {
    let dir = tempfile::tempdir().unwrap();
    let some: UnloggedTables = "sent,ms_state".parse().unwrap();
    drop(open(dir.path(), some).unwrap());
    drop(open(dir.path(), UnloggedTables::NONE).unwrap());
    let error = open(dir.path(), UnloggedTables::ALL).err().unwrap();
    assert!(matches!(error, StoreError::Logs { .. }), "{error}");
    assert!(
        error.to_string().contains("leaves out of its log ms_state, sent (asked for: encoded_msg, "),
        "{error}"
    );
    drop(open(dir.path(), some).unwrap());

    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path(), UnloggedTables::NONE).unwrap());
    let error = open(dir.path(), some).err().unwrap().to_string();
    assert!(error.contains("leaves out of its log nothing (asked for: ms_state, sent)"), "{error}");
}
