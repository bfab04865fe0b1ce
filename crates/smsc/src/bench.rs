//! One measurement: a fresh store, a load, figures, and the invariants.

use crate::centre::{Archive, ArchiveError};
use crate::check::{AcceptedMessages, Report, check_while};
use crate::housekeeping::recover;
use crate::load::{Clock, Figures, LoadError, Moment, Pace, Plan, Ran, Side, Snapshot, run};
use crate::store::{MmdbOptions, Opening, Store, StoreError, StoreKind};
use serde::Serialize;
use std::path::Path;
use std::time::{Duration, Instant};

/// Clients, and messages under way for each, that fill a store before a Sender is measured.
const FILL: (usize, usize) = (4, 256);

/// The quantiles of latencies, by name.
const QUANTILES: [(&str, f64); 6] =
    [("min", 0.0), ("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)];

/// What was measured. Rates are per second of the run, latencies in milliseconds.
#[derive(Clone, Debug, Serialize)]
pub struct Measurement {
    /// Store, by name.
    pub store: &'static str,
    /// What survives of acknowledged messages.
    pub durability: &'static str,
    /// Whether final messages went to the archive meanwhile, and left the store.
    pub flusher: bool,
    /// `receiver`, `sender` or `both`.
    pub side: &'static str,
    /// Clients, senders, or of each.
    pub threads: usize,
    /// Messages under way for each at most.
    pub window: usize,
    /// Messages that a sender kept in flight in the end, where the store was too slow for the
    /// window; none otherwise.
    pub held: Option<usize>,
    /// Length, s.
    pub seconds: f64,
    /// Open loop: arrivals in a second that were asked for.
    pub rate: Option<f64>,
    /// Open loop: times as many in the middle tenth.
    pub burst: Option<f64>,
    /// Open loop: messages that were due in a second, whether they were submitted or not.
    pub offered_per_s: Option<f64>,
    /// Messages accepted in a second.
    pub accepted_per_s: f64,
    /// Messages that were delivered in a second.
    pub delivered_per_s: f64,
    /// Messages that became final in a second: delivered, undeliverable or expired.
    pub finished_per_s: f64,
    /// The same, by the name that the table has.
    pub final_per_s: f64,
    /// Receipts that reached their application in a second.
    pub receipts_per_s: f64,
    /// Open loop: from the intended submission to the submission: the same six as of the latencies
    /// below.
    pub late_ms: Option<[f64; 6]>,
    /// From the intended submission to the acknowledgement, of accepted messages: least, median,
    /// 90, 99, 99.9 %, most, ms; none where there were none.
    pub accept_ms: Option<[f64; 6]>,
    /// From the intended submission to durable delivery: the same.
    pub deliver_ms: Option<[f64; 6]>,
    /// From claim to durable completion: the same.
    pub send_ms: Option<[f64; 6]>,
    /// What the six numbers of each latency are.
    pub quantiles: [&'static str; 6],
    /// Counters.
    pub figures: Snapshot,
    /// Bytes of log for each message; none where the store does not count.
    pub log_bytes_per_message: Option<f64>,
    /// CPU of this process and the store's server, µs for each message.
    pub cpu_us_per_message: Option<f64>,
    /// Transactions that could have been a deadlock, were rolled back and ran again; none where the
    /// store has no such thing.
    pub ran_again: Option<u64>,
    /// Memory of rows and indexes at the end, bytes.
    pub memory_bytes: Option<u64>,
    /// Violations of the invariants; none if they were not checked.
    pub violations: Option<u64>,
    /// The invariants that were checked.
    pub checked: Vec<&'static str>,
    /// Numbers of the messages that were accepted, before a Sender's start or during the run, if
    /// the plan keeps them.
    #[serde(skip)]
    pub accepted: Vec<i64>,
}

/// What ends a measurement.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The load or the store failed.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The invariants do not hold.
    #[error("the invariants do not hold ({} violations): {}", .0.count, .0.violations.join("; "))]
    Violated(Box<Report>),
    /// A Sender's queue could not be filled.
    #[error(
        "{refused} of {messages} messages were refused before the senders' start: a station's queue is full; take more --stations or \
         fewer --messages"
    )]
    NotFilled {
        /// Refused.
        refused: u64,
        /// Asked for.
        messages: u64,
    },
    /// The caller has ended it.
    #[error("ended before its end")]
    Interrupted,
    /// A station had two messages in flight.
    #[error("{0} times a station was given a message while one was in flight")]
    Doubled(u64),
}

impl BenchError {
    /// Whether a disk had no space left for the store, or a quota was used up.
    #[must_use]
    pub fn is_full_disk(&self) -> bool {
        match self {
            BenchError::Load(
                LoadError::Store(error)
                | LoadError::Session { source: error, .. }
                | LoadError::Archive(ArchiveError::Store(error)),
            ) => error.is_full_disk(),
            _ => false,
        }
    }

    /// Whether what is in the store may tell what went wrong, so that it is worth being kept.
    #[must_use]
    pub fn leaves_a_trace(&self) -> bool {
        match self {
            BenchError::Violated(_) | BenchError::Doubled(_) => true,
            BenchError::Load(error) => match error {
                LoadError::Stuck { .. } | LoadError::Panicked | LoadError::Unexpected(_) => true,
                LoadError::Store(error) => matches!(
                    error,
                    StoreError::Inconsistent(_) | StoreError::Row { .. } | StoreError::Protocol(_)
                ),
                LoadError::Archive(error) => {
                    matches!(error, ArchiveError::Line { .. } | ArchiveError::Record { .. })
                }
                LoadError::Submission(_) | LoadError::Session { .. } => false,
            },
            BenchError::NotFilled { .. } | BenchError::Interrupted => false,
        }
    }
}

/// What a measurement is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// A Sender's queue is filled.
    Filling,
    /// It is measured.
    Running,
    /// The invariants are checked.
    Checking,
}

/// What the caller of [`measure`] sees four times a second.
pub struct Live<'a> {
    /// What it is at. Counters and time begin anew with each stage but the last, which has those of
    /// the run.
    pub stage: Stage,
    /// Counters so far.
    pub figures: &'a Figures,
    /// Which half works in this stage.
    pub side: Side,
    /// Time, and what is left.
    pub moment: Moment,
}

/// Measures `plan` on a fresh store in `directory`, which must be empty. `watch` ends it early by
/// giving false, in whatever stage: then nothing was measured.
///
/// # Errors
/// [`BenchError`]
pub fn measure(
    directory: &Path,
    kind: StoreKind,
    mmdb: &MmdbOptions,
    plan: &Plan,
    verify: bool,
    watch: &mut dyn FnMut(&Live<'_>) -> bool,
) -> Result<Measurement, BenchError> {
    let opening = Opening::OrCreate;
    let store =
        kind.open_with(directory, mmdb, kind.rules(), sessions(plan), opening).map_err(LoadError::from)?;
    measure_on(&*store, kind, directory, plan, verify, watch)
}

/// Sessions that a measurement takes of its store.
#[must_use]
pub fn sessions(plan: &Plan) -> usize {
    // Filling takes its own clients, before the others.
    plan.sessions().max(FILL.0 + 3)
}

/// As [`measure`], on a store of this kind that is open and has nothing in it; the archive, if it has
/// one, is made in `directory`.
///
/// # Errors
/// [`BenchError`]
pub fn measure_on(
    store: &dyn Store,
    kind: StoreKind,
    directory: &Path,
    plan: &Plan,
    verify: bool,
    watch: &mut dyn FnMut(&Live<'_>) -> bool,
) -> Result<Measurement, BenchError> {
    recover(store, Clock::default().now_us()).map_err(LoadError::from)?;
    // What a Sender sends was accepted before, and must not be lost either.
    let mut accepted = if plan.side == Side::Sender { fill(store, plan, watch)? } else { Vec::new() };
    let mut archive = Archive::open(directory).map_err(LoadError::from)?;
    let figures = Figures::default();
    let counters = || (cpu_us(store), store.log_bytes(), store.ran_again());
    let before = counters();
    let ran = run_watched(store, plan, &figures, Some(&mut archive), Stage::Running, watch)?;
    let after = counters();
    let counted = figures.snapshot();
    let messages = if plan.side == Side::Sender { counted.finished } else { counted.accepted };
    let each = |pair: (Option<u64>, Option<u64>)| {
        let (before, after) = (pair.0?, pair.1?);
        Some(after.saturating_sub(before) as f64 / messages.max(1) as f64)
    };
    let memory_bytes = store.memory_bytes();
    accepted.extend(ran.accepted);
    let report = if verify {
        let mut goes_on = on_time(|elapsed_s| {
            let moment = Moment { elapsed_s, left: 0, waiting: 0 };
            watch(&Live { stage: Stage::Checking, figures: &figures, side: plan.side, moment })
        });
        // Every client has heard of all that it submitted.
        let known =
            if plan.keep_accepted { AcceptedMessages::Exactly(&accepted) } else { AcceptedMessages::Unknown };
        let report = check_while(store, directory, known, &mut goes_on).map_err(LoadError::from)?;
        Some(report.ok_or(BenchError::Interrupted)?)
    } else {
        None
    };
    if let Some(report) = report.as_ref().filter(|report| !report.holds()) {
        return Err(BenchError::Violated(Box::new(report.clone())));
    }
    if ran.doubled > 0 {
        return Err(BenchError::Doubled(ran.doubled));
    }
    let quantiles = |of: &crate::load::Latencies| {
        (!of.is_empty()).then(|| QUANTILES.map(|(_, quantile)| of.ms_at(quantile)))
    };
    let open = match plan.pace {
        Pace::Open { rate, burst } => Some((rate, burst)),
        Pace::Closed => None,
    };
    let final_per_s = (counted.finished + counted.expired) as f64 / ran.seconds;
    Ok(Measurement {
        store: kind.name(),
        durability: plan.durability(store).name(),
        flusher: store.has_flusher() && plan.side != Side::Receiver && plan.housekeeping,
        side: match plan.side {
            Side::Receiver => "receiver",
            Side::Sender => "sender",
            Side::Both => "both",
        },
        threads: if plan.side == Side::Receiver { plan.receivers } else { plan.senders },
        window: plan.window,
        held: ran.held,
        seconds: ran.seconds,
        rate: open.map(|pace| pace.0),
        burst: open.map(|pace| pace.1),
        offered_per_s: open.map(|_| counted.offered() as f64 / ran.seconds),
        accepted_per_s: counted.accepted as f64 / ran.seconds,
        delivered_per_s: counted.delivered as f64 / ran.seconds,
        finished_per_s: final_per_s,
        final_per_s,
        receipts_per_s: counted.receipts as f64 / ran.seconds,
        late_ms: open.and_then(|_| quantiles(&figures.late)),
        accept_ms: quantiles(&figures.accept),
        deliver_ms: quantiles(&figures.deliver),
        send_ms: quantiles(&figures.send),
        quantiles: QUANTILES.map(|quantile| quantile.0),
        figures: counted,
        log_bytes_per_message: each((before.1, after.1)),
        cpu_us_per_message: each((before.0, after.0)),
        ran_again: after.2.zip(before.2).map(|(after, before)| after - before),
        memory_bytes,
        violations: report.as_ref().map(|report| report.count),
        checked: report.map(|report| report.checked()).unwrap_or_default(),
        accepted,
    })
}

/// Runs a plan that `watch` may end.
fn run_watched(
    store: &dyn Store,
    plan: &Plan,
    figures: &Figures,
    archive: Option<&mut Archive>,
    stage: Stage,
    watch: &mut dyn FnMut(&Live<'_>) -> bool,
) -> Result<Ran, BenchError> {
    let mut ended = false;
    let ran = run(store, plan, figures, archive, &mut |moment| {
        ended |= !watch(&Live { stage, figures, side: plan.side, moment });
        !ended
    })?;
    if ended { Err(BenchError::Interrupted) } else { Ok(ran) }
}

/// Whoever is asked whether to go on, four times a second at most and with the time since the
/// beginning, s; what he said last otherwise.
fn on_time(mut goes_on: impl FnMut(f64) -> bool) -> impl FnMut() -> bool {
    let begin = Instant::now();
    let (mut next, mut said) = (begin, true);
    move || {
        if said && Instant::now() >= next {
            next = Instant::now() + Duration::from_millis(250);
            said = goes_on(begin.elapsed().as_secs_f64());
        }
        said
    }
}

/// Queues what a Sender is going to send; the numbers of the messages, if the plan keeps them.
fn fill(
    store: &dyn Store,
    plan: &Plan,
    watch: &mut dyn FnMut(&Live<'_>) -> bool,
) -> Result<Vec<i64>, BenchError> {
    let filling = Plan {
        side: Side::Receiver,
        receivers: FILL.0,
        window: FILL.1,
        messages: plan.messages,
        pace: Pace::Closed,
        load: plan.load.clone(),
        stuck_timeout: plan.stuck_timeout,
        on_stuck: plan.on_stuck.clone(),
        keep_accepted: plan.keep_accepted,
        on_accepted: plan.on_accepted.clone(),
        ..Plan::default()
    };
    let figures = Figures::default();
    let ran = run_watched(store, &filling, &figures, None, Stage::Filling, watch)?;
    match figures.snapshot().refused {
        0 => Ok(ran.accepted),
        refused => Err(BenchError::NotFilled { refused, messages: plan.messages }),
    }
}

/// CPU time of this process and its children, which the nodes of a private cluster are, and, where
/// there is one, of the store's server and its children, µs. A server's is in steps of 10 ms.
fn cpu_us(store: &dyn Store) -> Option<u64> {
    let mut sum = usage_us(libc::RUSAGE_SELF)? + usage_us(libc::RUSAGE_CHILDREN)?;
    let server = store.server_process();
    for entry in std::fs::read_dir("/proc").ok()?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.bytes().all(|byte| byte.is_ascii_digit())
            && let Some((us, parent)) = process_cpu_us(&name)
            && (parent == std::process::id()
                || server.is_some_and(|server| parent == server || name == server.to_string()))
        {
            sum += us;
        }
    }
    Some(sum)
}

/// CPU time of this process with all its threads, or of its children that have ended, µs:
/// getrusage(2).
fn usage_us(of: libc::c_int) -> Option<u64> {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::uninit();
    // SAFETY: the pointer is to a structure that the call fills in, and does before it gives 0.
    let usage = unsafe {
        if libc::getrusage(of, usage.as_mut_ptr()) != 0 {
            return None;
        }
        usage.assume_init()
    };
    let us = |time: libc::timeval| time.tv_sec as u64 * 1_000_000 + time.tv_usec as u64;
    Some(us(usage.ru_utime) + us(usage.ru_stime))
}

/// CPU time (µs) and parent of a process: proc_pid_stat(5). Clock ticks are 10 ms on every Linux
/// that this runs on.
fn process_cpu_us(process: &str) -> Option<(u64, u32)> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The program's name may hold anything; fields are counted behind it.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    // User and system, and those of children that have ended: a server's sessions.
    let ticks = number(11)? + number(12)? + number(13)? + number(14)?;
    Some((ticks * 10_000, fields.get(1)?.parse().ok()?))
}
