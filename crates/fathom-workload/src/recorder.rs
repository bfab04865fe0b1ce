//! Recording a phase: each execution timed and kept in memory, then handed to the sink as samples,
//! summary and I/O rows.
//!
//! ```
//! # use fathom_workload::recorder::{Phase, Unit};
//! # fn run(sink: &mut dyn fathom_workload::sample::Sink) -> Result<(), std::io::Error> {
//! let mut phase = Phase::begin("insert", None, Unit::Transaction);
//! let mut lane = phase.lane(0, 1000);
//! for _ in 0..1000 {
//!     lane.time(|| { /* the work */ Ok::<u64, std::io::Error>(1) })?; // the number of rows, or the error
//!     phase.excluded(|| { /* a check, dropping caches: in no figure */ });
//! }
//! phase.end(vec![lane], sink);
//! # Ok(()) }
//! ```

use fathom_probe::{IoTable, Split, mark, mark_again, process_io};
use hdrhistogram::Histogram;

use crate::changed::changed_bytes;
use crate::clock::{Stopwatch, now_ns, origin_ns};
use crate::critical::CriticalPath;
use crate::sample::{IoRow, LaneSpan, PhaseSummary, Sample, Sink, Window};

/// What a phase counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// `transaction`.
    Transaction,
    /// `query`.
    Query,
    /// `operation` on a file.
    Operation,
    /// `call` of an application on SQLite.
    Call,
}

impl Unit {
    /// As in [`PhaseSummary::unit`].
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Unit::Transaction => "transaction",
            Unit::Query => "query",
            Unit::Operation => "operation",
            Unit::Call => "call",
        }
    }
}

/// One phase of a run, from its first execution to its last. Only one may be open at a time in a
/// process, because the probe's counters of calls are the process's.
pub struct Phase {
    name: String,
    x: Option<f64>,
    unit: Unit,
    /// Intervals that count for nothing, on the scale of [`now_ns`].
    excluded: Vec<(u64, u64)>,
    /// The process's VFS calls when the phase began.
    io_before: IoTable,
    /// VFS calls that count for nothing.
    io_excluded: IoTable,
    io: Vec<IoRow>,
    /// Number and ns; none as soon as one connection could not say.
    lock_waits: Option<(u64, u64)>,
    /// The parts of its critical path, where threads were followed.
    critical_path: Option<CriticalPath>,
    /// [`changed_bytes`] when the phase began.
    changed_before: u64,
}

/// The executions of one thread in a phase, in time order.
pub struct Lane {
    thread: u32,
    /// Those that become samples.
    executions: Vec<Execution>,
    /// At most so many become samples.
    kept_max: usize,
    /// Of so many executions one is kept.
    one_of: u64,
    /// All executions, as soon as not all are kept.
    sum: Option<Sum>,
    /// Work inside the phase that belongs to no execution.
    auxiliary: Sum,
    /// The numbers that marks give the threads that executed it.
    marked: Vec<u32>,
    /// Whether an execution, or work besides, has ended on it.
    has_ended: bool,
}

/// A thread that has not been marked for so long is marked again after an execution, ns.
const MARK_AGAIN_NS: u64 = 1_000_000;

struct Execution {
    start_ns: u64,
    rows: u64,
    split: Split,
    database: Option<u32>,
}

/// Executions summed up.
#[derive(Default)]
struct Sum {
    count: u64,
    span_ns: Option<(u64, u64)>,
    split: Split,
    latencies: Latencies,
}

impl Sum {
    /// Adds time that is no execution's.
    fn add_time(&mut self, start_ns: u64, split: &Split) {
        self.widen(start_ns, start_ns + split.wall_ns);
        self.split.add(split);
    }

    fn add_execution(&mut self, execution: &Execution) {
        self.add_time(execution.start_ns, &execution.split);
        self.count += 1;
        self.latencies.add(execution.split.wall_ns);
    }

    fn add(&mut self, other: &Sum) {
        if let Some((first_ns, last_ns)) = other.span_ns {
            self.widen(first_ns, last_ns);
        }
        self.split.add(&other.split);
        self.count += other.count;
        self.latencies.add_all(&other.latencies);
    }

    fn widen(&mut self, start_ns: u64, end_ns: u64) {
        let (first_ns, last_ns) = self.span_ns.unwrap_or((start_ns, end_ns));
        self.span_ns = Some((first_ns.min(start_ns), last_ns.max(end_ns)));
    }
}

impl Lane {
    /// Marks the calling thread, where marks are kept. Whoever calls [`Lane::record`] for what it
    /// timed itself calls this before, on each thread; the rest of this type does so by itself.
    pub fn enter(&mut self) {
        self.marked_as(mark());
    }

    fn begin(&mut self) {
        if self.marked.is_empty() {
            self.enter();
        }
    }

    /// Marks the calling thread after an execution, if its last mark is old; after the first one at
    /// any rate: what a thread did is known between two marks, also of one that ends sooner.
    fn mark_again(&mut self) {
        let age_ns = if std::mem::replace(&mut self.has_ended, true) { MARK_AGAIN_NS } else { 0 };
        self.marked_as(mark_again(age_ns));
    }

    fn marked_as(&mut self, thread: Option<u32>) {
        self.marked.extend(thread.filter(|thread| !self.marked.contains(thread)));
    }

    /// Starts an execution, or work besides, on the calling thread, where which of them it is shows
    /// only at its end.
    #[must_use]
    pub fn start(&mut self) -> Stopwatch {
        self.begin();
        Stopwatch::start()
    }

    /// An execution that succeeded has ended.
    pub fn end(&mut self, watch: Stopwatch, rows: u64) {
        self.end_on(watch, rows, None);
    }

    /// As [`Lane::end`], of one that worked on this database alone, where that is known.
    pub fn end_on(&mut self, watch: Stopwatch, rows: u64, database: Option<u32>) {
        let start_ns = watch.start_ns();
        self.keep(Execution { start_ns, rows, split: watch.stop(), database });
    }

    /// Auxiliary work has ended (see [`Lane::time_auxiliary`]).
    pub fn end_auxiliary(&mut self, watch: Stopwatch) {
        let start_ns = watch.start_ns();
        self.record_auxiliary(start_ns, watch.stop());
    }

    /// Times one execution on the calling thread; `work` gives the number of rows. A failed one is
    /// not recorded.
    ///
    /// # Errors
    /// That of `work`.
    pub fn time<E>(&mut self, work: impl FnOnce() -> Result<u64, E>) -> Result<u64, E> {
        self.begin();
        let watch = Stopwatch::start();
        let start_ns = watch.start_ns();
        let result = work();
        let split = watch.stop();
        if let Ok(rows) = result {
            self.record(start_ns, rows, split);
        }
        result
    }

    /// Records an execution that the caller timed itself, e.g. one that knows its reads, writes and
    /// syncs without the probe. `start_ns` is what [`now_ns`] gave before it.
    pub fn record(&mut self, start_ns: u64, rows: u64, split: Split) {
        self.keep(Execution { start_ns, rows, split, database: None });
    }

    fn keep(&mut self, execution: Execution) {
        self.mark_again();
        if self.executions.len() == self.kept_max {
            self.thin_out();
        }
        if let Some(sum) = &mut self.sum {
            let number = sum.count;
            sum.add_execution(&execution);
            if !number.is_multiple_of(self.one_of) {
                return;
            }
        }
        self.executions.push(execution);
    }

    /// Sums up, and keeps every second one of those that are kept.
    #[cold]
    fn thin_out(&mut self) {
        if self.sum.is_none() {
            let mut sum = Sum::default();
            self.executions.iter().for_each(|execution| sum.add_execution(execution));
            self.sum = Some(sum);
        }
        let mut number = 0;
        self.executions.retain(|_| {
            number += 1;
            number % 2 == 1
        });
        self.one_of *= 2;
    }

    /// Times work that is part of the phase but no execution of its own, e.g. a checkpoint: it
    /// counts in the phase's wall time and split, not in its executions or their latencies.
    ///
    /// # Errors
    /// That of `work`.
    pub fn time_auxiliary<T, E>(&mut self, work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        self.begin();
        let watch = Stopwatch::start();
        let start_ns = watch.start_ns();
        let result = work();
        self.record_auxiliary(start_ns, watch.stop());
        result
    }

    /// As [`Lane::time_auxiliary`], for work that the caller timed itself.
    pub fn record_auxiliary(&mut self, start_ns: u64, split: Split) {
        self.mark_again();
        self.auxiliary.add_time(start_ns, &split);
    }

    /// Number of executions recorded.
    #[must_use]
    pub fn len(&self) -> usize {
        self.sum
            .as_ref()
            .map_or(self.executions.len(), |sum| usize::try_from(sum.count).unwrap_or(usize::MAX))
    }

    /// Whether nothing was recorded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.executions.is_empty()
    }

    /// Of so many executions one becomes a sample.
    #[must_use]
    pub fn one_of(&self) -> u64 {
        self.one_of
    }
}

impl Phase {
    /// Opens a phase. `x` is the abscissa where its figure has one.
    #[must_use]
    pub fn begin(name: &str, x: Option<f64>, unit: Unit) -> Self {
        Phase {
            name: name.to_owned(),
            x,
            unit,
            excluded: Vec::new(),
            io_before: process_io(),
            io_excluded: IoTable::default(),
            io: Vec::new(),
            lock_waits: Some((0, 0)),
            critical_path: None,
            changed_before: changed_bytes(),
        }
    }

    /// A lane for thread number `thread`, with memory for `capacity` executions taken beforehand.
    #[must_use]
    pub fn lane(&self, thread: u32, capacity: usize) -> Lane {
        Lane {
            thread,
            executions: Vec::with_capacity(capacity),
            kept_max: usize::MAX,
            one_of: 1,
            sum: None,
            auxiliary: Sum::default(),
            marked: Vec::new(),
            has_ended: false,
        }
    }

    /// As [`Phase::lane`], where nobody knows how many executions there will be: at most `kept_max`
    /// (at least two) become samples, and of more than that every second, fourth … one. The phase's
    /// count, times and latencies are of all of them.
    #[must_use]
    pub fn lane_of_any_length(&self, thread: u32, capacity: usize, kept_max: usize) -> Lane {
        let kept_max = kept_max.max(2);
        Lane { kept_max, ..self.lane(thread, capacity.min(kept_max)) }
    }

    /// Runs work that counts for nothing (a check, dropping caches) while no lane is timing.
    pub fn excluded<T>(&mut self, work: impl FnOnce() -> T) -> T {
        let (start_ns, io_before) = (now_ns(), process_io());
        let result = work();
        self.io_excluded.add(&process_io().since(&io_before));
        self.excluded.push((start_ns, now_ns()));
        result
    }

    /// Adds a connection's [`lock_waits`](crate::engine::Connection::lock_waits): once, at its end.
    /// Where one is not measured, the phase's are not.
    pub fn add_lock_waits(&mut self, of_connection: Option<(u64, u64)>) {
        let sum = self.lock_waits.zip(of_connection);
        self.lock_waits = sum.map(|((waits, ns), (more, more_ns))| (waits + more, ns + more_ns));
    }

    /// The critical path of its threads.
    pub fn set_critical_path(&mut self, path: CriticalPath) {
        self.critical_path = Some(path);
    }

    /// Adds a row of calls that the probe does not see, e.g. those of a workload on plain files.
    /// Its phase is filled in.
    pub fn add_io(&mut self, row: IoRow) {
        self.io.push(IoRow { phase: self.name.clone(), ..row });
    }

    /// Closes the phase and hands everything to the sink. Executions of all lanes are numbered in
    /// order of their start. A phase without executions gives nothing.
    pub fn end(self, lanes: Vec<Lane>, sink: &mut dyn Sink) {
        let changed_bytes = changed_bytes().saturating_sub(self.changed_before);
        let io = process_io().since(&self.io_before).since(&self.io_excluded);
        let mut sum = Sum::default();
        let mut all: Vec<(u32, Execution)> =
            Vec::with_capacity(lanes.iter().map(|lane| lane.executions.len()).sum());
        let origin_ns = origin_ns();
        let mut spans = Vec::with_capacity(lanes.len());
        for lane in lanes {
            let mut of_lane = lane.sum.unwrap_or_else(|| {
                let mut sum = Sum::default();
                lane.executions.iter().for_each(|execution| sum.add_execution(execution));
                sum
            });
            of_lane.add(&lane.auxiliary);
            if let Some((first_ns, last_ns)) = of_lane.span_ns {
                let (start_ns, end_ns) = (origin_ns + first_ns, origin_ns + last_ns);
                spans.push(LaneSpan { thread: lane.thread, marked: lane.marked, start_ns, end_ns });
            }
            sum.add(&of_lane);
            all.extend(lane.executions.into_iter().map(|execution| (lane.thread, execution)));
        }
        let Some((first_ns, last_ns)) = sum.span_ns.filter(|_| sum.count > 0) else { return };
        all.sort_by_key(|(_, execution)| execution.start_ns);
        let excluded_ns: u64 = self
            .excluded
            .iter()
            .map(|&(start, end)| end.min(last_ns).saturating_sub(start.max(first_ns)))
            .sum();
        let summary = PhaseSummary {
            phase: self.name.clone(),
            x: self.x,
            unit: self.unit.name().to_owned(),
            count: sum.count,
            wall_ns: (last_ns - first_ns).saturating_sub(excluded_ns),
            latency_ns: sum.latencies.summary(),
            split: sum.split,
            lock_wait_ns: self.lock_waits.map(|(_, ns)| ns),
            lock_waits: self.lock_waits.map(|(waits, _)| waits),
            critical_path: None,
        };
        let critical_path = self.critical_path.map(|path| path.of_elapsed(summary.wall_ns));
        let summary = PhaseSummary { critical_path, ..summary };
        for (seq, (thread, execution)) in all.into_iter().enumerate() {
            sink.sample(Sample {
                phase: self.name.clone(),
                x: self.x,
                seq: seq as u64,
                thread,
                rows: execution.rows,
                split: execution.split,
                database: execution.database,
                start_ns: origin_ns + execution.start_ns,
            });
        }
        sink.window(Window {
            phase: self.name.clone(),
            x: self.x,
            start_ns: origin_ns + first_ns,
            end_ns: origin_ns + last_ns,
            count: summary.count,
            changed_bytes,
            lanes: spans,
            excluded: self.excluded.iter().map(|(from, to)| (origin_ns + from, origin_ns + to)).collect(),
        });
        sink.phase(summary);
        let probed = io.iter().map(|(class, op, cell)| IoRow {
            phase: self.name.clone(),
            class: class.name().to_owned(),
            op: op.name().to_owned(),
            calls: cell.calls,
            bytes: cell.bytes,
            ns: cell.ns,
        });
        for row in probed.chain(self.io) {
            sink.io(row);
        }
    }
}

/// Latencies in a histogram of three significant digits (relative error at most 0.1 %), smallest
/// and largest kept exactly.
struct Latencies {
    histogram: Histogram<u64>,
    min_ns: u64,
    max_ns: u64,
}

impl Default for Latencies {
    fn default() -> Self {
        let histogram =
            Histogram::new(3).expect("three significant digits are within the histogram's 0 to 5");
        Latencies { histogram, min_ns: u64::MAX, max_ns: 0 }
    }
}

impl Latencies {
    fn add(&mut self, latency_ns: u64) {
        self.min_ns = self.min_ns.min(latency_ns);
        self.max_ns = self.max_ns.max(latency_ns);
        // `new` made a histogram that grows by itself, so this fails only without memory; then the
        // value goes to its end.
        if self.histogram.record(latency_ns).is_err() {
            self.histogram.saturating_record(latency_ns);
        }
    }

    fn add_all(&mut self, other: &Latencies) {
        // As above.
        let _ = self.histogram.add(&other.histogram);
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// Minimum, p50, p90, p99, p99.9, maximum; percentiles are values that occurred (no
    /// interpolation), within 0.1 %.
    fn summary(&self) -> [u64; 6] {
        let at = |quantile| self.histogram.value_at_quantile(quantile).clamp(self.min_ns, self.max_ns);
        [self.min_ns, at(0.5), at(0.9), at(0.99), at(0.999), self.max_ns]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::tests::MemorySink;
    use proptest::prelude::*;

    fn split(wall_ns: u64) -> Split {
        Split { wall_ns, cpu_ns: wall_ns, ..Split::default() }
    }

    #[test]
    fn lanes_are_merged_in_time_order_and_excluded_time_counts_for_nothing() {
        let mut phase = Phase::begin("insert", Some(3.0), Unit::Transaction);
        let mut first = phase.lane(0, 2);
        let mut second = phase.lane(1, 2);
        first.record(1_000, 1, split(500));
        second.record(1_200, 2, split(100));
        first.record(9_000, 3, split(1_000));
        first.record_auxiliary(10_000, split(2_000));
        phase.excluded.push((2_000, 7_000));
        phase.excluded.push((11_500, 99_000)); // ends after the phase: only 500 of it lie within
        phase.add_lock_waits(Some((2, 50)));
        phase.add_lock_waits(Some((0, 20)));
        let mut kept = MemorySink::default();
        phase.end(vec![first, second], &mut kept);
        assert_eq!(
            kept.samples.iter().map(|s| (s.seq, s.thread, s.rows)).collect::<Vec<_>>(),
            [(0, 0, 1), (1, 1, 2), (2, 0, 3)]
        );
        let summary = &kept.phases[0];
        assert_eq!(summary.count, 3);
        assert_eq!(summary.wall_ns, 12_000 - 1_000 - 5_000 - 500);
        assert_eq!(summary.split.wall_ns, 500 + 100 + 1_000 + 2_000);
        assert_eq!((summary.latency_ns[0], summary.latency_ns[5]), (100, 1_000));
        assert_eq!((summary.lock_waits, summary.lock_wait_ns), (Some(2), Some(70)));
    }

    /// What happened: a thread whose statements were few and found all in memory made one mark, at
    /// its begin. What it did was not known then, and no recording of the whole application could
    /// be replayed on another device.
    #[test]
    fn a_lane_that_ends_soon_is_marked_at_both_ends_of_its_first_execution() {
        fathom_probe::keep_marks(1 << 20);
        let phase = Phase::begin("replay", None, Unit::Transaction);
        let mut lane = phase.lane(0, 2);
        for _ in 0..2 {
            let watch = lane.start();
            lane.end(watch, 1);
        }
        let own = lane.marked.clone();
        phase.end(vec![lane], &mut MemorySink::default());
        let marks = fathom_probe::take_marks().marks;
        assert_eq!(own.len(), 1, "one thread executed it");
        assert!(marks.iter().filter(|mark| own.contains(&mark.thread)).count() >= 2, "{marks:?}");
    }

    #[test]
    fn a_lane_of_any_length_keeps_a_part_of_its_executions_and_counts_all() {
        let phase = || Phase::begin("replay", None, Unit::Transaction);
        let (whole, thinned) = (phase(), phase());
        let mut lanes = (whole.lane(0, 0), thinned.lane_of_any_length(0, 1_000_000, 100));
        for number in 0..1000_u64 {
            lanes.0.record(number * 50, number, split(number + 1));
            lanes.1.record(number * 50, number, split(number + 1));
        }
        assert_eq!((lanes.1.len(), lanes.1.one_of()), (1000, 16));
        let (mut all, mut some) = (MemorySink::default(), MemorySink::default());
        whole.end(vec![lanes.0], &mut all);
        thinned.end(vec![lanes.1], &mut some);
        assert_eq!(all.phases, some.phases);
        let rows: Vec<u64> = some.samples.iter().map(|sample| sample.rows).collect();
        assert!((50..=100).contains(&rows.len()), "{}", rows.len());
        assert!(rows.windows(2).all(|pair| pair[1] - pair[0] == 16), "{rows:?}");
    }

    #[test]
    fn waits_that_one_connection_cannot_tell_are_unknown_and_not_zero() {
        let mut phase = Phase::begin("insert", None, Unit::Transaction);
        let mut lane = phase.lane(0, 1);
        lane.record(0, 1, split(1));
        for waits in [Some((2, 50)), None, Some((1, 1))] {
            phase.add_lock_waits(waits);
        }
        let mut kept = MemorySink::default();
        phase.end(vec![lane], &mut kept);
        assert_eq!((kept.phases[0].lock_waits, kept.phases[0].lock_wait_ns), (None, None));
    }

    #[test]
    fn a_failed_execution_is_not_counted() {
        let phase = Phase::begin("insert", None, Unit::Transaction);
        let mut lane = phase.lane(0, 2);
        assert_eq!(lane.time(|| Ok::<u64, &str>(4)), Ok(4));
        assert_eq!(lane.time(|| Err("disk full")), Err("disk full"));
        let mut kept = MemorySink::default();
        phase.end(vec![lane], &mut kept);
        assert_eq!((kept.samples.len(), kept.phases[0].count), (1, 1));
    }

    #[test]
    fn a_phase_of_nothing_gives_nothing() {
        let phase = Phase::begin("insert", None, Unit::Transaction);
        let mut kept = MemorySink::default();
        let lane = phase.lane(0, 0);
        phase.end(vec![lane], &mut kept);
        assert!(kept.samples.is_empty() && kept.phases.is_empty() && kept.rows.is_empty());
    }

    proptest! {
        #[test]
        fn percentiles_are_within_one_percent(mut latencies in prop::collection::vec(1_u64..10_000_000_000, 1..500)) {
            let mut histogram = Latencies::default();
            latencies.iter().for_each(|&latency| histogram.add(latency));
            latencies.sort_unstable();
            let summary = histogram.summary();
            prop_assert_eq!(summary[0], latencies[0]);
            prop_assert_eq!(summary[5], latencies[latencies.len() - 1]);
            for (found, quantile) in summary[1..5].iter().zip([0.5, 0.9, 0.99, 0.999]) {
                // The nearest-rank definition: the smallest value with at least this share at or
                // below it.
                let rank = (quantile * latencies.len() as f64).ceil() as usize;
                let exact = latencies[rank.clamp(1, latencies.len()) - 1];
                prop_assert!(found.abs_diff(exact) as f64 <= 0.01 * exact as f64, "{found} for {exact}");
            }
        }
    }
}
