//! Selective logging, table by table: whatever is left out of the log is there again after a restart.
#![allow(clippy::unwrap_used)]

mod steps;

use proptest::test_runner::{Config, TestRunner};
use smsc::centre::{Rules, recover};
use smsc::check::check;
use smsc::model::{
    Message, Queued, Record, RetryTimer, Scheduled, Sent, Station, StationState, Table, Unlogged,
};
use smsc::store::{MmdbOptions, Row, Store, StoreError, StoreKind};
use std::cell::RefCell;
use std::path::Path;
use steps::{Run, Step, steps};

fn open(dir: &Path, unlogged: Unlogged) -> Result<Box<dyn Store>, StoreError> {
    let options = MmdbOptions { unlogged, segment_mib: 1, ..MmdbOptions::default() };
    StoreKind::Mmdb.open(dir, &options, Rules { accounts: false, ..StoreKind::Mmdb.rules() })
}

/// Every row but the block of numbers, of which a restart takes a new one; those of a table beside each other.
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
fn restarted(before: Vec<Row>, unlogged: Unlogged, now_us: i64) -> Vec<Row> {
    let lost = |table: &'static Table| unlogged.contains(table);
    let (no_stations, no_timers) = (lost(Station::TABLE), lost(RetryTimer::TABLE));
    let messages: Vec<Message> = before
        .iter()
        .filter_map(|row| if let Row::Message(message) = row { Some(message.clone()) } else { None })
        .collect();
    let again = |row| match row {
        // Nothing tells any more which stations waited.
        Row::RetryTimer(_) if no_stations && no_timers => None,
        Row::Station(station) if no_stations => {
            let queue = messages
                .iter()
                .filter(|it| it.dst_key == station.dst_key && it.state == smsc::model::State::Enroute);
            let queue: Vec<&Message> = queue.collect();
            // Nobody needs the row of a station that has nothing to do.
            let first = queue.iter().map(|it| it.submit_us).min()?;
            let waits = matches!(station.state, StationState::Wait | StationState::Absent) && !no_timers;
            let state = if waits { station.state } else { StationState::Ready };
            let ready_us = if waits { station.ready_us } else { first };
            Some(Row::Station(Station {
                state,
                ready_us,
                epoch: if waits { station.epoch } else { 0 },
                current: 0,
                alerted: false,
                attempts: queue.iter().map(|it| it.attempts).max()?,
                last_error: queue.iter().map(|it| it.last_error).max()?,
                ..station
            }))
        }
        Row::Station(station) if station.state == StationState::Busy => {
            let freed = Station {
                state: StationState::Ready,
                ready_us: now_us,
                current: 0,
                alerted: false,
                ..station
            };
            Some(Row::Station(freed))
        }
        row => Some(row),
    };
    let mut rows: Vec<Row> = before.into_iter().filter_map(again).collect();
    rows.sort_by_key(|row| format!("{row:?}"));
    rows
}

/// How much of what matters there was.
#[derive(Debug, Default)]
struct Seen {
    queued: usize,
    scheduled: usize,
    sent: usize,
    timers: usize,
    absent: usize,
    busy: usize,
}

impl Seen {
    fn add(&mut self, rows: &[Row]) {
        for row in rows {
            match row {
                Row::Queued(Queued { .. }) => self.queued += 1,
                Row::Scheduled(Scheduled { .. }) => self.scheduled += 1,
                Row::Sent(Sent { .. }) => self.sent += 1,
                Row::RetryTimer(_) => self.timers += 1,
                Row::Station(it) if it.state == StationState::Busy => self.busy += 1,
                Row::Station(it) if it.state == StationState::Absent => self.absent += 1,
                _ => {}
            }
        }
    }
}

#[test]
fn all_64_choices_of_tables_come_back_after_a_restart() {
    let seen = RefCell::new(Seen::default());
    for unlogged in Unlogged::every() {
        let config = Config { cases: 1, max_shrink_iters: 0, failure_persistence: None, ..Config::default() };
        // Three lives: what was made again must also be worth working on.
        let lives = (steps(), steps(), steps());
        let outcome = TestRunner::new(config).run(&lives, |(first, second, third)| {
            let dir = tempfile::tempdir().unwrap();
            let mut run = Run::new(Vec::new());
            for steps in [first, second, third] {
                let store = open(dir.path(), unlogged).unwrap();
                recover(&*store, run.now_us).unwrap();
                let mut live = Run { stores: vec![&*store], landed: Vec::new(), flights: Vec::new(), ..run };
                // What frees claims in the middle of a life.
                steps.iter().filter(|step| !matches!(step, Step::Restart)).for_each(|step| live.step(step));
                let before = rows(&*store);
                seen.borrow_mut().add(&before);
                run = Run { stores: Vec::new(), ..live };
                drop(store);
                run.now_us += 1;
                let store = open(dir.path(), unlogged).unwrap();
                recover(&*store, run.now_us).unwrap();
                let wanted = restarted(before, unlogged, run.now_us);
                let found = rows(&*store);
                for (found, wanted) in found.iter().zip(&wanted) {
                    assert_eq!(found, wanted, "without a log of {unlogged}");
                }
                assert_eq!(found.len(), wanted.len(), "without a log of {unlogged}: {found:#?} {wanted:#?}");
                let report = check(&*store, dir.path(), &run.accepted).unwrap();
                assert!(report.holds(), "without a log of {unlogged}: {report:#?}");
            }
            Ok(())
        });
        outcome.unwrap();
    }
    let seen = seen.into_inner();
    let Seen { queued, scheduled, sent, timers, absent, busy } = seen;
    let least = [queued, scheduled, sent, timers, absent, busy].into_iter().min();
    assert!(least > Some(20), "too little happened: {seen:?}");
}

#[test]
fn a_store_keeps_to_what_it_was_made_with() {
    let dir = tempfile::tempdir().unwrap();
    let some: Unlogged = "sent,ms_state".parse().unwrap();
    drop(open(dir.path(), some).unwrap());
    drop(open(dir.path(), Unlogged::NONE).unwrap());
    let error = open(dir.path(), Unlogged::ALL).err().unwrap();
    assert!(matches!(error, StoreError::Logs { .. }), "{error}");
    assert!(error.to_string().contains("leave ms_state, sent out of its log"), "{error}");
    drop(open(dir.path(), some).unwrap());

    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path(), Unlogged::NONE).unwrap());
    let error = open(dir.path(), some).err().unwrap().to_string();
    assert!(error.contains("leave nothing out of its log, not ms_state, sent"), "{error}");
}
