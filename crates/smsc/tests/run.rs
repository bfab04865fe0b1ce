//! What a run tells when its store is slow, fails or stands still.
#![allow(clippy::unwrap_used)]

use smsc::bench::{BenchError, Live, Stage, measure};
use smsc::centre::{Archive, Failure, Operation, Outcome, RetryPolicy, Rules};
use smsc::housekeeping::recover;
use smsc::load::{Clock, Figures, LiveLine, LoadError, LoadProfile, Pace, Plan, Ran, Side, run};
use smsc::network::{NetworkProfile, Times};
use smsc::store::{
    Acknowledge, Durability, EachRow, MmdbOptions, MmdbStore, Session, Store, StoreError, StoreKind,
};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;
use std::time::{Duration, Instant};

/// What a store has.
enum Fault {
    /// Every message takes so long before it is received.
    SlowReceive(Duration),
    /// The session of this number, from 0, is refused.
    NoSession(usize),
    /// A session panics when it is opened: of the thread that runs the plan, or of all others.
    Panics { in_caller: bool },
    /// No claim finds a ready station.
    NothingReady,
    /// Every message is acknowledged so long after it was submitted, however many are under way.
    LateAcknowledgement(Duration),
    /// Every completion takes so long, and none begins before its outcome is waited for.
    SlowComplete(Duration),
    /// No such operation is ever answered, until the store is given up.
    Silent(fn(&Operation) -> bool),
    /// None.
    None,
}

/// mmdb with a fault.
struct Faulty {
    store: MmdbStore,
    fault: Fault,
    sessions: AtomicUsize,
    abandoned: AtomicBool,
    /// The thread that runs the plan.
    caller: ThreadId,
}

impl Store for Faulty {
    fn name(&self) -> &str {
        "faulty"
    }

    fn durability(&self) -> Durability {
        self.store.durability()
    }

    fn has_flusher(&self) -> bool {
        self.store.has_flusher()
    }

    fn session(&self, acknowledge: Acknowledge) -> Result<Box<dyn Session + '_>, StoreError> {
        let number = self.sessions.fetch_add(1, Ordering::Relaxed);
        match self.fault {
            Fault::NoSession(which) if which == number => {
                let (sqlstate, message) = ("53300".into(), "too many clients".into());
                return Err(StoreError::Postgresql { sqlstate, message });
            }
            Fault::Panics { in_caller } => {
                let here = std::thread::current().id() == self.caller;
                assert_ne!(here, in_caller, "as the test asks for");
            }
            _ => {}
        }
        let (session, fault) = (self.store.session(acknowledge)?, &self.fault);
        Ok(Box::new(FaultySession {
            session,
            fault,
            abandoned: &self.abandoned,
            late: VecDeque::new(),
            waiting: VecDeque::new(),
        }))
    }

    fn abandon(&self) {
        self.abandoned.store(true, Ordering::Relaxed);
        self.store.abandon();
    }

    fn scan(&self, each: EachRow<'_>) -> Result<(), StoreError> {
        self.store.scan(each)
    }
}

struct FaultySession<'a> {
    session: Box<dyn Session + 'a>,
    fault: &'a Fault,
    abandoned: &'a AtomicBool,
    /// Outcomes that are held back, and until when.
    late: VecDeque<(Instant, Outcome)>,
    /// Operations that are begun when they are waited for.
    waiting: VecDeque<Operation>,
}

impl Session for FaultySession<'_> {
    fn submit(&mut self, mut operation: Operation) -> Result<(), StoreError> {
        match (self.fault, &mut operation) {
            (Fault::SlowReceive(time), Operation::Receive(_)) => std::thread::sleep(*time),
            (Fault::SlowComplete(_), Operation::Complete(_)) => {
                self.waiting.push_back(operation);
                return Ok(());
            }
            (Fault::NothingReady, Operation::Claim { now_us, .. }) => *now_us = 0,
            (Fault::Silent(is_meant), operation) if is_meant(operation) => {
                while !self.abandoned.load(Ordering::Relaxed) {
                    std::thread::sleep(Duration::from_millis(1));
                }
                return Err(StoreError::Abandoned);
            }
            _ => {}
        }
        if let (Fault::LateAcknowledgement(time), Operation::Receive(_)) = (self.fault, &operation) {
            self.late.push_back((Instant::now() + *time, self.session.call(operation)?));
            return Ok(());
        }
        self.session.submit(operation)
    }

    fn settle(&mut self, outcomes: &mut Vec<Outcome>) -> Result<(), StoreError> {
        if let Some((until, outcome)) = self.late.pop_front() {
            std::thread::sleep(until.saturating_duration_since(Instant::now()));
            outcomes.push(outcome);
            return Ok(());
        }
        if let (Fault::SlowComplete(time), Some(operation)) = (self.fault, self.waiting.pop_front()) {
            std::thread::sleep(*time);
            outcomes.push(self.session.call(operation)?);
            return Ok(());
        }
        self.session.settle(outcomes)
    }

    fn settle_until(&mut self, outcomes: &mut Vec<Outcome>, deadline: Instant) -> Result<(), StoreError> {
        match self.late.front() {
            Some((until, _)) if *until <= deadline => self.settle(outcomes),
            Some(_) => {
                std::thread::sleep(deadline.saturating_duration_since(Instant::now()));
                Ok(())
            }
            None => self.session.settle_until(outcomes, deadline),
        }
    }
}

fn options() -> MmdbOptions {
    // Filling segments of the usual size with zeros would take longer than the runs.
    MmdbOptions { segment_mib: 1, ..MmdbOptions::default() }
}

fn run_with(fault: Fault, plan: &Plan) -> (Result<Ran, LoadError>, Figures) {
    let dir = tempfile::tempdir().unwrap();
    let rules = Rules { lease_us: plan.lease_us, ..Rules::default() };
    let store = MmdbStore::open(dir.path(), &options(), rules).unwrap();
    recover(&store, Clock::default().now_us()).unwrap();
    let mut archive = Archive::open(dir.path()).unwrap();
    let (sessions, abandoned) = (AtomicUsize::new(0), AtomicBool::new(false));
    let store = Faulty { store, fault, sessions, abandoned, caller: std::thread::current().id() };
    let figures = Figures::default();
    let begin = Instant::now();
    let ran = run(&store, plan, &figures, Some(&mut archive), &mut |_| true);
    // Who waits for what never comes is found out after the plan's patience at the earliest.
    let is_at_once = begin.elapsed() < plan.stuck_timeout;
    assert!(is_at_once || !matches!(ran, Err(LoadError::Session { .. })), "{:?}", begin.elapsed());
    assert!(store.sessions.into_inner() <= plan.sessions(), "a plan knows how many sessions it takes");
    (ran, figures)
}

/// Runs with short patience: a loaded machine may keep a thread or a sync from going on for longer
/// than that. Then the same is tried with all times longer; what a run does wrong by itself, it
/// does at any pace.
fn at_some_pace<T>(run: impl Fn(u32) -> Result<T, LoadError>) -> T {
    let mut failures = Vec::new();
    for slower in [1, 4, 16] {
        match run(slower) {
            Ok(outcome) => return outcome,
            Err(error) => failures.push(error.to_string()),
        }
    }
    panic!("{failures:#?}");
}

/// A message of an open loop that its client submits late used to be measured from that moment to
/// its delivery, so that the slower the centre received, the less of it was seen in "delivered
/// after". Both latencies count from the intended submission.
#[test]
fn an_open_loop_counts_delivery_from_the_intended_submission() {
    let plan =
        Plan { messages: 0, seconds: 0.5, pace: Pace::Open { rate: 400.0, burst: 1.0 }, ..Plan::default() };
    let (ran, figures) = run_with(Fault::SlowReceive(Duration::from_millis(10)), &plan);
    ran.unwrap();
    let messages = figures.snapshot().delivered as f64;
    assert!(messages > 150.0, "about 200: {messages}");
    // However fast or slow the machine: the n-th message was meant to be submitted within the 0.5
    // s, and is received 10 ms after the one before it at the earliest.
    for (name, latencies) in [("accept", &figures.accept), ("deliver", &figures.deliver)] {
        for quantile in [0.5, 0.9, 0.99] {
            let (ms, least_ms) = (latencies.ms_at(quantile), quantile * messages * 10.0 - 500.0);
            assert!(ms >= least_ms, "{name}, quantile {quantile}: {ms} ms, at least {least_ms}");
        }
    }
}

/// A run counted until its last message: of an open loop of 2 a second for 2 s that came to six a
/// second where the last one was due after 0.3 s, and the bench said that the queue was empty.
#[test]
fn an_open_loop_lasts_its_time_whenever_its_last_message_is_due() {
    let plan = Plan {
        side: Side::Receiver,
        messages: 0,
        seconds: 0.5,
        // One in 100 s: most likely none.
        pace: Pace::Open { rate: 0.01, burst: 1.0 },
        ..Plan::default()
    };
    let (ran, figures) = run_with(Fault::None, &plan);
    assert!(ran.unwrap().seconds >= 0.5);
    assert!(figures.snapshot().accepted < 3);
}

/// A client that waited for an acknowledgement submitted what had become due meanwhile only then:
/// of a store that took its time, an open loop made clumps, although there was room for more under
/// way.
#[test]
fn an_open_loop_submits_what_is_due_while_it_waits_for_acknowledgements() {
    at_some_pace(|slower| {
        let takes = Duration::from_millis(300) * slower;
        let pace = Pace::Open { rate: 100.0, burst: 1.0 };
        let plan = Plan {
            side: Side::Receiver,
            messages: 0,
            seconds: 1.5 * f64::from(slower),
            window: 65_536,
            pace,
            ..Plan::default()
        };
        let (ran, figures) = run_with(Fault::LateAcknowledgement(takes), &plan);
        ran?;
        let takes_ms = takes.as_secs_f64() * 1000.0;
        assert!(figures.snapshot().accepted > 50 && figures.accept.ms_at(0.0) >= takes_ms * 0.99);
        // In clumps, the median would be half of what the store takes.
        match figures.late.ms_at(0.9) {
            late_ms if late_ms < takes_ms / 4.0 => Ok(()),
            _ => Err(LoadError::Unexpected("messages are submitted late")),
        }
    });
}

/// Sessions were opened before a barrier that all threads had to reach: one that failed left all
/// others there for ever.
#[test]
fn a_session_that_cannot_be_opened_ends_the_run_at_once() {
    for side in [Side::Receiver, Side::Both] {
        let plan = Plan { side, receivers: 3, senders: 2, messages: u64::MAX, ..Plan::default() };
        // Clients, senders, timers, Flusher, and who asks what is due: whoever comes first.
        let sessions = if side == Side::Receiver { 3 } else { plan.sessions() };
        for number in 0..sessions {
            let error = run_with(Fault::NoSession(number), &plan).0.unwrap_err();
            let said = error.to_string();
            assert!(matches!(error, LoadError::Session { .. }), "session {number}: {said}");
            assert!(said.contains("cannot open a session: PostgreSQL: too many clients"), "{said}");
        }
    }
}

/// A panic of one of its threads is the run's error; one of the caller's own thread goes on there,
/// when all others have ended.
#[test]
fn a_session_that_panics_ends_the_run_at_once() {
    for side in [Side::Receiver, Side::Both] {
        let plan = Plan { side, receivers: 3, senders: 2, messages: u64::MAX, ..Plan::default() };
        let error = run_with(Fault::Panics { in_caller: false }, &plan).0.unwrap_err();
        assert!(matches!(error, LoadError::Panicked), "{error}");
    }
    let panic = std::panic::catch_unwind(|| {
        let plan = Plan { receivers: 3, senders: 2, messages: u64::MAX, ..Plan::default() };
        run_with(Fault::Panics { in_caller: true }, &plan).0
    });
    assert!(panic.is_err(), "who asks what is due has a session of its own");
}

/// Every station is absent once; the network's alert comes never, the retry after `retry_us`.
fn absent_at_first(retry_us: i64, patience: Duration) -> Plan {
    Plan {
        messages: 20,
        window: 4,
        load: LoadProfile { stations: 5, ..LoadProfile::default() },
        network: NetworkProfile {
            prefixes: vec![("4917".into(), Some(Failure::Absent))],
            absence_us: i64::MAX as u64 / 100,
            ..NetworkProfile::perfect(1)
        },
        retry: RetryPolicy { absent_us: vec![retry_us], busy_us: vec![retry_us] },
        stuck_timeout: patience,
        ..Plan::default()
    }
}

/// A retry that is due in minutes was taken for a standstill after one.
#[test]
fn waiting_for_a_retry_is_no_standstill() {
    at_some_pace(|slower| {
        let patience = Duration::from_millis(200) * slower;
        // The messages expire after two rounds: until then nothing happens four times as long as
        // the run is patient.
        let mut plan = absent_at_first(800_000 * i64::from(slower), patience);
        plan.load.validity_us = 1_500_000 * i64::from(slower);
        let (ran, figures) = run_with(Fault::None, &plan);
        assert!(ran?.seconds > 1.4 * f64::from(slower), "the retries were waited for");
        assert_eq!(figures.snapshot().expired, 20, "{:?}", figures.snapshot());
        Ok(())
    });
    at_some_pace(|slower| {
        // As long a wait for the next arrival, one in half a second and more.
        let patience = Duration::from_millis(200) * slower;
        let pace = Pace::Open { rate: 2.0 / f64::from(slower), burst: 1.0 };
        let plan = Plan {
            messages: 0,
            seconds: 3.0 * f64::from(slower),
            pace,
            stuck_timeout: patience,
            ..Plan::default()
        };
        run_with(Fault::None, &plan).0
    });
}

#[test]
fn a_standstill_names_what_is_due() {
    let names = |begin: &str, end: &str, fault: fn() -> Fault, plan: fn(Duration) -> Plan| {
        at_some_pace(|slower| match run_with(fault(), &plan(Duration::from_millis(300) * slower)).0 {
            Err(LoadError::Stuck { condition, left: 20, .. })
                if condition.starts_with(begin) && condition.contains(end) =>
            {
                Ok(())
            }
            Err(error) => Err(error),
            Ok(ran) => panic!("{begin} {end}: {ran:?}"),
        });
    };
    names(
        "station 49170",
        "has been ready for",
        || Fault::NothingReady,
        |patience| absent_at_first(1, patience),
    );
    // Nobody looks after the timers.
    names(
        "the retry timer of station 49170",
        "has been due for",
        || Fault::None,
        |patience| Plan { housekeeping: false, ..absent_at_first(100_000, patience) },
    );
    names(
        "the scheduled message ",
        "has been due for",
        || Fault::None,
        |patience| Plan {
            housekeeping: false,
            stuck_timeout: patience,
            messages: 20,
            load: LoadProfile { scheduled_permille: 1000, ..LoadProfile::default() },
            ..Plan::default()
        },
    );
}

/// A run joined its threads before it told that it stood still, and they waited for the store. Nor
/// was it noticed at all where it was the one who watched that the store did not answer.
#[test]
fn a_store_that_does_not_answer_is_told_and_given_up() {
    let receives = |operation: &Operation| matches!(operation, Operation::Receive(_));
    let watches = |operation: &Operation| matches!(operation, Operation::NextDue | Operation::Claim { .. });
    for (side, silent, what) in [
        (Side::Receiver, receives as fn(&Operation) -> bool, "client 0 has messages to submit or waits for"),
        (Side::Both, watches, "the store does not answer what is due next"),
    ] {
        at_some_pace(|slower| {
            let told = Arc::new(Mutex::new(Vec::new()));
            let of_run = Arc::clone(&told);
            let plan = Plan {
                side,
                messages: 20,
                window: 4,
                stuck_timeout: Duration::from_millis(300) * slower,
                on_stuck: Some(Arc::new(move |error| of_run.lock().unwrap().push(error.to_string()))),
                ..Plan::default()
            };
            let error = run_with(Fault::Silent(silent), &plan).0.unwrap_err();
            let said = error.to_string();
            assert!(told.lock().unwrap().iter().eq([&said]), "{said}");
            if said.contains(what) { Ok(()) } else { Err(error) }
        });
    }
}

/// Who was tried in vain waits until he is claimed again or has expired; a message of a station
/// that answers never waits.
#[test]
fn what_waits_for_absent_stations_is_counted() {
    let seen = at_some_pace(|slower| {
        let dir = tempfile::tempdir().unwrap();
        let mut plan = absent_at_first(100_000 * i64::from(slower), Duration::from_secs(60));
        plan.network.prefixes = vec![("491700000000".into(), None), ("4917".into(), Some(Failure::Absent))];
        plan.load.stations = 10;
        plan.load.validity_us = 1_500_000 * i64::from(slower);
        plan.messages = 200;
        let mut seen = Vec::new();
        let mut watch = |live: &Live<'_>| {
            seen.push((live.moment.left, live.moment.waiting));
            true
        };
        let kind = StoreKind::Mmdb;
        match measure(dir.path(), kind, &options(), &plan, true, &mut watch) {
            // One of each of nine stations waits, and others behind it.
            Ok(_) if seen.iter().any(|&(left, waiting)| waiting >= 9 && left > 18) => Ok(seen),
            // Who stood still while they waited has not seen them.
            Ok(_) => Err(LoadError::Unexpected("nobody was seen waiting")),
            Err(BenchError::Load(error)) => Err(error),
            Err(error) => panic!("{error}"),
        }
    });
    // One message of each of the nine stations and two priorities is tried, the others are behind
    // it.
    assert!(seen.iter().all(|step| step.1 <= 18), "{seen:?}");
}

/// The live line of senders showed an empty queue, and no latency before each had sent 4096
/// messages.
#[test]
fn the_live_line_of_senders_tells_what_is_left() {
    at_some_pace(|slower| {
        let dir = tempfile::tempdir().unwrap();
        let latency = Times::usual(200_000 * u64::from(slower));
        let plan = Plan {
            side: Side::Sender,
            senders: 2,
            window: 200,
            messages: 3000,
            network: NetworkProfile { latency, ..NetworkProfile::perfect(1) },
            ..Plan::default()
        };
        let (mut line, mut left, mut lines) = (LiveLine::default(), Vec::new(), Vec::new());
        let mut finished = 0;
        let mut watch = |live: &Live<'_>| {
            // It takes long enough to be looked at on a slow machine to fill the queue, too.
            if live.stage != Stage::Running {
                return true;
            }
            let before = std::mem::replace(&mut finished, live.figures.snapshot().finished);
            assert!((3000 - finished..=3000 - before).contains(&live.moment.left), "{:?}", live.moment);
            left.push(live.moment.left);
            lines.push(line.next(live.side, live.figures, live.moment));
            true
        };
        measure(dir.path(), StoreKind::Mmdb, &options(), &plan, true, &mut watch).unwrap();
        assert!(left.iter().is_sorted_by(|a, b| a >= b), "{left:?}");
        assert!(lines.iter().all(|line| line.contains("from claim to completion")), "{lines:?}");
        let tells = |line: &String| !line.contains("  0 delivered/s") && !line.contains("p99 0.0 ms");
        // Who stood still has not looked before the queue was empty.
        let looked = left.len() >= 2 && left[0] > 0 && lines.iter().any(tells);
        if looked { Ok(()) } else { Err(LoadError::Unexpected("the line told nothing of the queue")) }
    });
}

/// A sender claimed a whole window before it completed the first of it. Where that took longer than
/// a claim holds, others claimed the same messages, and delivered them again.
#[test]
fn a_slow_store_gets_fewer_flights_so_that_no_claim_ends_before_its_completion() {
    at_some_pace(|slower| {
        // All 800 messages one after another take 1.6 claims.
        let plan = Plan {
            messages: 800,
            senders: 2,
            window: 4096,
            lease_us: 1_000_000 * i64::from(slower),
            ..Plan::default()
        };
        let each = Duration::from_millis(4) * slower;
        let (ran, figures) = run_with(Fault::SlowComplete(each), &plan);
        let (held, counted) = (ran?.held, figures.snapshot());
        assert_eq!(counted.finished, 800);
        assert!(held.is_some_and(|flights| flights < 64), "{held:?}");
        // A machine that stood still meanwhile may have had a claim end.
        if counted.fenced > 0 { Err(LoadError::Unexpected("completions were fenced off")) } else { Ok(()) }
    });
    let (ran, figures) = run_with(Fault::None, &Plan { messages: 2000, window: 256, ..Plan::default() });
    assert_eq!((ran.unwrap().held, figures.snapshot().fenced), (None, 0));
}

/// Ends what is asked `after` times whether it goes on.
fn ended(stage: Stage, after: usize, plan: &Plan) -> usize {
    let dir = tempfile::tempdir().unwrap();
    let mut asked = 0;
    let mut watch = |live: &Live<'_>| {
        asked += usize::from(live.stage == stage);
        asked < after
    };
    let measured =
        measure(dir.path(), StoreKind::Mmdb, &options(), plan, stage == Stage::Checking, &mut watch);
    assert!(matches!(measured, Err(BenchError::Interrupted)), "{stage:?}: {measured:?}");
    asked
}

/// Nobody was asked while a queue was filled, and nobody while the invariants were checked.
#[test]
fn a_measurement_can_be_ended_in_each_of_its_stages() {
    let without_end = Plan { side: Side::Sender, messages: u64::MAX, ..Plan::default() };
    assert_eq!(ended(Stage::Filling, 2, &without_end), 2);
    let without_end = Plan { messages: u64::MAX, load: LoadProfile::default(), ..Plan::default() };
    assert_eq!(ended(Stage::Running, 1, &without_end), 1);
    assert_eq!(ended(Stage::Checking, 1, &Plan { messages: 3000, window: 64, ..Plan::default() }), 1);
}

/// A store that broke the rules was deleted, and with it whatever could tell how.
#[test]
fn what_went_wrong_in_a_store_is_worth_keeping_and_what_went_wrong_beside_it_is_not() {
    let stuck = || LoadError::Stuck { seconds: 1.0, condition: String::new(), left: 1 };
    let full = || StoreError::Postgresql { sqlstate: "53100".into(), message: "disk full".into() };
    for (error, wanted) in [
        (BenchError::Violated(Box::default()), true),
        (BenchError::Doubled(1), true),
        (stuck().into(), true),
        (LoadError::Store(StoreError::Inconsistent(String::new())).into(), true),
        (LoadError::Store(full()).into(), false),
        (LoadError::Session { who: String::new(), source: full() }.into(), false),
        (BenchError::NotFilled { refused: 1, messages: 1 }, false),
        (BenchError::Interrupted, false),
    ] {
        assert_eq!(error.leaves_a_trace(), wanted, "{error:?}");
        // One had ten spaces in its middle.
        assert!(!error.to_string().contains("  "), "{error}");
    }
}
