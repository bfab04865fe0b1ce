//! The SMS centre's stores on the device: a run of the centre's own transactions, the recovery of
//! the store, and the centre's invariants.
//!
//! Each step is one operation of the centre: a message is received, messages are claimed, a flight
//! ends (with its receipt), timers run, a message is taken back. What the rows are after each step
//! comes from the same operations on a store of another kind, which shares no code with the one
//! that is tried below the centre's transactions.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use fathom_random::Random;
use fathom_workload::spec::Durability;
use serde_json::Value as Json;
use smsc::centre::{
    ArchiveError, Channel, Completion, Delivery, Operation, Outcome, Rules, Submission, Verdict as Fate,
    receipt,
};
use smsc::check::check;
use smsc::model::{Account, Message, MessageState, SHARDS};
use smsc::store::{
    Acknowledge, MmdbOptions, Opening, Row, Session, SqliteStore, Store, StoreError, StoreKind,
};

use crate::acknowledged::AcknowledgedContents;
use crate::content::Hasher;
use crate::error::CutError;
use crate::inspection::Inspection;
use crate::postgresql_store::switched_on;
use crate::random::stream;
use crate::scratch::Scratch;
use crate::verdict::Verdict;
use crate::vfs;

/// Bytes of mmdb's log after which a checkpoint begins, so that some hundred commits see some.
const CHECKPOINT_BYTES: u64 = 96 << 10;
/// Whoever submits.
const ACCOUNT: u32 = 3;
/// Mobiles that are written to.
const STATIONS: u64 = 6;
const SECOND_US: i64 = 1_000_000;
/// When the work begins, µs since 1970.
const BEGIN_US: i64 = 1_800_000_000 * SECOND_US;

/// The store that a cell's settings name.
///
/// # Errors
/// A setting that there is not.
pub fn store_kind(settings: &BTreeMap<String, Json>) -> Result<StoreKind, CutError> {
    let names = || StoreKind::ALL.map(StoreKind::name).join("|");
    let mut kind = StoreKind::Mmdb;
    for (key, value) in settings {
        match (key.as_str(), value.as_str().and_then(StoreKind::named)) {
            ("store", Some(named)) => kind = named,
            _ => return Err(CutError::Usage(format!("smsc: {key}={value}: it takes store={}", names()))),
        }
    }
    Ok(kind)
}

/// Whether a cell's store has a server of its own; false where the settings name none.
pub(crate) fn has_server(settings: &BTreeMap<String, Json>) -> bool {
    store_kind(settings).is_ok_and(StoreKind::has_server)
}

/// The store whose rows say what the one that is tried must hold.
fn model_of(kind: StoreKind) -> StoreKind {
    match kind {
        StoreKind::Mmdb => StoreKind::SqliteNaive,
        _ => StoreKind::Mmdb,
    }
}

/// The rules of the centre that does the work, and of the one that recovers it.
fn rules(kind: StoreKind) -> Rules {
    Rules { accounts: true, ..kind.rules() }
}

fn open(
    kind: StoreKind,
    directory: &Path,
    opening: Opening,
    checkpoint_log_bytes: u64,
) -> Result<Box<dyn Store>, StoreError> {
    let mmdb = MmdbOptions { segment_mib: 1, checkpoint_log_bytes, ..MmdbOptions::default() };
    kind.open_with(directory, &mmdb, rules(kind), 4, opening)
}

fn failed(error: &StoreError) -> CutError {
    CutError::Database { what: "smsc".into(), problem: error.to_string() }
}

/// What was done so far, which the next operation depends on.
#[derive(Default)]
struct Work {
    accepted: Vec<i64>,
    flights: Vec<Delivery>,
}

impl Work {
    fn next(&mut self, number: u64, seed: u64) -> Result<Operation, CutError> {
        let random = &mut stream(&[seed, number, 23]);
        let now_us = BEGIN_US + number.cast_signed() * 2 * SECOND_US;
        Ok(match random.below(20) {
            0..8 => Operation::Receive(Box::new(submission(random, now_us)?)),
            8..12 => Operation::Claim {
                channel: Channel::All(random.below(SHARDS.into()) as u16),
                spread: 0,
                max: 1 + random.below(3) as usize,
                now_us,
            },
            12..17 if !self.flights.is_empty() => {
                let flight = self.flights.swap_remove(random.below(self.flights.len() as u64) as usize);
                Operation::Complete(Box::new(completion(random, flight, now_us)))
            }
            17 => Operation::WakeDue { now_us, max: 100 },
            18 => Operation::ReleaseScheduled { now_us, max: 100 },
            19 if !self.accepted.is_empty() => {
                let which = random.below(self.accepted.len() as u64) as usize;
                Operation::Cancel { account: ACCOUNT, msg_id: self.accepted[which], now_us }
            }
            _ => Operation::Receive(Box::new(submission(random, now_us)?)),
        })
    }

    fn heed(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Received(number) => self.accepted.push(number),
            Outcome::Claimed(flights) => self.flights.extend(flights),
            _ => {}
        }
    }
}

/// A message of one to three parts; most ask for a receipt, some are for later.
fn submission(random: &mut Random, now_us: i64) -> Result<Submission, CutError> {
    let letters = 1 + random.below(400);
    let body = (0..letters).map(|_| b'a' + random.below(26) as u8).collect();
    let station = format!("4917000000{:02}", random.below(STATIONS));
    let plain = Message::plain("4900".into(), station, body, now_us, now_us + 600 * SECOND_US);
    let message = Message {
        account: ACCOUNT,
        priority: random.below(4) as u8,
        registered_delivery: u8::from(random.below(4) > 0),
        schedule_us: if random.below(8) == 0 { now_us + 30 * SECOND_US } else { 0 },
        ..plain
    };
    Submission::new(message)
        .map_err(|error| CutError::Database { what: "smsc".into(), problem: error.to_string() })
}

fn completion(random: &mut Random, flight: Delivery, now_us: i64) -> Completion {
    let verdict = match random.below(10) {
        0..6 => Fate::Final { state: MessageState::Delivered, error: 0 },
        6 => Fate::Final { state: MessageState::Undeliverable, error: 1 },
        _ => Fate::Temporary { error: 27, absent: true, retry_us: now_us + 8 * SECOND_US },
    };
    let receipt = match verdict {
        Fate::Final { state, error } => receipt(&flight.message, state, error, now_us),
        Fate::Temporary { .. } => None,
    };
    let Delivery { station, epoch, message, .. } = flight;
    Completion { station, epoch, message, verdict, receipt, now_us }
}

/// Does the work on a store; `after` is told of each step once it is acknowledged as durable.
fn run(
    session: &mut dyn Session,
    commits: u64,
    seed: u64,
    after: &mut dyn FnMut(u64) -> Result<bool, CutError>,
) -> Result<(), CutError> {
    let account = Operation::PutAccount(Box::new(Account::unlimited(ACCOUNT)));
    session.call(account).map_err(|error| failed(&error))?;
    let mut work = Work::default();
    for number in 0..=commits {
        if number > 0 {
            let operation = work.next(number, seed)?;
            work.heed(session.call(operation).map_err(|error| failed(&error))?);
        }
        if !after(number + 1)? {
            break;
        }
    }
    Ok(())
}

/// Does the work in a directory; `acknowledged` is told of each step once it is durable.
///
/// # Errors
/// The store's.
pub(crate) fn work(
    directory: &Path,
    settings: &BTreeMap<String, Json>,
    commits: u64,
    seed: u64,
    acknowledged: &mut dyn FnMut(u64) -> Result<bool, CutError>,
) -> Result<Durability, CutError> {
    let store = open(store_kind(settings)?, directory, Opening::OrCreate, CHECKPOINT_BYTES)
        .map_err(|error| failed(&error))?;
    let promise = match store.durability() {
        smsc::store::Durability::PowerCut => Durability::PowerCut,
        smsc::store::Durability::PowerCutPrefix => Durability::PowerCutPrefix,
        // No cluster is cut off power here.
        smsc::store::Durability::OneNode | smsc::store::Durability::ProcessCrash => Durability::ProcessCrash,
    };
    let mut session = store.session(Acknowledge::Durable).map_err(|error| failed(&error))?;
    run(&mut *session, commits, seed, acknowledged)?;
    drop(session);
    Ok(promise)
}

/// What the rows are after each step, by a store of another kind.
///
/// # Errors
/// That store's.
pub(crate) fn acknowledged(
    settings: &BTreeMap<String, Json>,
    commits: u64,
    seed: u64,
) -> Result<AcknowledgedContents, CutError> {
    let directory = Scratch::new("cut-model")?;
    let store = open(model_of(store_kind(settings)?), directory.path(), Opening::OrCreate, 0)
        .map_err(|error| failed(&error))?;
    let mut all = vec![content(&*store).map_err(|error| failed(&error))?];
    let mut session = store.session(Acknowledge::Durable).map_err(|error| failed(&error))?;
    run(&mut *session, commits, seed, &mut |_| {
        all.push(content(&*store).map_err(|error| failed(&error))?);
        Ok(true)
    })?;
    drop(session);
    Ok(AcknowledgedContents::of_contents(&all))
}

/// All rows but those that stores keep for themselves, in one order.
fn content(store: &dyn Store) -> Result<u128, StoreError> {
    let mut rows = BTreeSet::new();
    store.scan(&mut |row| {
        if !matches!(row, Row::IdBlock(_) | Row::Sent(_)) {
            rows.insert(format!("{row:?}"));
        }
        Ok(())
    })?;
    let mut hasher = Hasher::new();
    rows.iter().for_each(|row| hasher.add(row.as_bytes()));
    Ok(hasher.end())
}

/// Opens a store that a cut left, checks the centre's invariants, and reads it.
pub(crate) fn recover(directory: &Path, settings: &BTreeMap<String, Json>) -> Inspection {
    if has_server(settings)
        && let Err(problem) = switched_on(directory)
    {
        return Inspection::Bad(Verdict::CannotBeOpened(problem));
    }
    let opened = store_kind(settings).map(|kind| match kind {
        StoreKind::Mmdb => open(kind, directory, Opening::Existing, 0),
        _ if kind.has_server() => open(kind, directory, Opening::Existing, 0),
        // What is mounted nowhere is reached by a VFS of its own.
        _ => {
            let opened = SqliteStore::open_by(directory, kind == StoreKind::Sqlite, rules(kind), vfs::NAME);
            opened.map(|store| Box::new(store) as Box<dyn Store>)
        }
    });
    let store = match opened {
        Ok(Ok(store)) => store,
        Ok(Err(error)) => return found_by(&error, Verdict::CannotBeOpened),
        Err(error) => return Inspection::Unseen(error.to_string()),
    };
    match check(&*store, directory, &[]) {
        Ok(report) if report.holds() => {}
        Ok(report) => return Inspection::Bad(Verdict::Corrupt(report.violations.join("; "))),
        Err(ArchiveError::Store(error)) => return found_by(&error, Verdict::Corrupt),
        Err(error) => return Inspection::Bad(Verdict::Corrupt(error.to_string())),
    }
    match content(&*store) {
        Ok(content) => Inspection::Content(content),
        Err(error) => found_by(&error, Verdict::Corrupt),
    }
}

/// What an error says of a store: nothing, where it is the machine's.
fn found_by(error: &StoreError, verdict: fn(String) -> Verdict) -> Inspection {
    match error.is_of_the_machine() {
        true => Inspection::Unseen(error.to_string()),
        false => Inspection::Bad(verdict(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The model is another store; were it the same one, a fault of both would not be seen.
    #[test]
    fn the_model_is_what_each_store_holds_after_each_step() {
        let has_postgresql = fathom_workload::engine::postgresql_programs(None).is_ok();
        for kind in StoreKind::ALL.into_iter().filter(|kind| has_postgresql || !kind.has_server()) {
            let settings = BTreeMap::from([("store".to_owned(), Json::from(kind.name()))]);
            // PostgreSQL's server is another user's.
            let directory = tempfile::tempdir_in("/var/tmp").unwrap();
            let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(directory.path(), mode).unwrap();
            let place = directory.path().join("cut");
            let model = acknowledged(&settings, 60, 5).unwrap();
            let mut steps = 0;
            let mut count = |step| {
                steps = step;
                Ok(true)
            };
            assert_eq!(work(&place, &settings, 60, 5, &mut count).unwrap(), Durability::PowerCut);
            assert_eq!(steps, 61);
            vfs::register().unwrap();
            let Inspection::Content(content) = recover(&place, &settings) else {
                panic!("it cannot be read")
            };
            assert!(model.ends_with(content), "{}", kind.name());
            assert_eq!(model.judge(content, 61), Verdict::Kept);
            assert!(matches!(model.judge(content, 63), Verdict::Lost(_)));
        }
    }

    /// What happened: a server that did not answer in time, and a store that somebody else had
    /// open, were verdicts on what a power cut leaves.
    #[test]
    fn what_keeps_a_store_from_being_opened_is_told_from_what_is_in_it() {
        let busy = StoreError::Busy { path: "/x".into() };
        assert!(matches!(found_by(&busy, Verdict::CannotBeOpened), Inspection::Unseen(_)));
        let silent = StoreError::Silent { place: "/x".into(), seconds: 9.0 };
        assert!(matches!(found_by(&silent, Verdict::Corrupt), Inspection::Unseen(_)));
        let none = StoreError::NoStore { path: "/x".into(), what: "nothing" };
        let found = found_by(&none, Verdict::CannotBeOpened);
        assert!(matches!(found, Inspection::Bad(Verdict::CannotBeOpened(_))));
    }

    #[test]
    fn a_store_has_a_name() {
        let of = |key: &str, value: &str| store_kind(&BTreeMap::from([(key.to_owned(), Json::from(value))]));
        assert_eq!(of("store", "sqlite").unwrap(), StoreKind::Sqlite);
        assert_eq!(of("store", "postgresql-grouped").unwrap(), StoreKind::PostgresqlGrouped);
        for (key, value) in [("store", "oracle"), ("journal_mode", "wal")] {
            let error = of(key, value).unwrap_err().to_string();
            assert!(error.contains("it takes store=mmdb|sqlite|"), "{error}");
        }
    }
}
