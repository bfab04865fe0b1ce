//! What a modelled device has done, and how well it kept the times of its model.
//!
//! An answer is *late* by what passes between the moment at which the model has the operation done
//! and the moment at which it is answered (the answer's own way to the program, measured at the
//! start, is part of it). It counts as late when that is more than 5 % of the operation's time and
//! more than 20 µs, which is what a wake-up takes on a quiet machine.
//!
//! *Model time* is how long the device had something to do by the model; *measured time* is how
//! long it really had. Both count a moment once, however many operations are under way. So a run
//! would have taken its own time less the difference on a machine that keeps the model's times.

use serde::{Deserialize, Serialize};

use super::timeline::Operation;

/// Share of an operation's time beyond which its answer counts as late, and of a run's device time
/// beyond which it is marked.
pub const LATE_SHARE: f64 = 0.05;
/// Lateness below this never counts, ns.
pub const LATE_NS: u64 = 20_000;
/// Shortest time that is one, ns. Of two operations that come at the same moment the one that was
/// seen first may wait for the other's clock: some ns, also on a device without times.
const TIMED_FROM_NS: u64 = 1000;
/// Share of late answers beyond which a run is marked.
const LATE_ANSWERS: f64 = 0.1;
/// The self-test judges delays from here on, ns.
pub const TESTED_FROM_NS: u64 = 200_000;

/// A power of two is cut into this many equal buckets: a bucket's middle is within 1.6 % of all in
/// it.
const SUB_BITS: u32 = 5;
const SUB: u64 = 1 << SUB_BITS;

/// Times in logarithmic buckets: number of the bucket and how many, in rising order, nothing for
/// empty ones.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Times(Vec<(u32, u64)>);

fn bucket(ns: u64) -> u32 {
    let magnitude = 63 - (ns | 1).leading_zeros();
    let shift = magnitude.saturating_sub(SUB_BITS);
    // Below 32 · 59 + 64: fits easily.
    SUB as u32 * shift + (ns >> shift) as u32
}

fn middle(bucket: u32) -> u64 {
    let shift = (u64::from(bucket) / SUB).saturating_sub(1);
    // Counts from elsewhere may hold any number; the largest shift of ours is 58.
    let shift = shift.min(58);
    let low = u64::from(bucket).saturating_sub(SUB * shift) << shift;
    low.saturating_add((1 << shift) >> 1)
}

impl Times {
    /// Counts one.
    pub fn count(&mut self, ns: u64) {
        let bucket = bucket(ns);
        match self.0.binary_search_by_key(&bucket, |entry| entry.0) {
            Ok(at) => self.0[at].1 += 1,
            Err(at) => self.0.insert(at, (bucket, 1)),
        }
    }

    /// How many there are.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().map(|entry| entry.1).sum()
    }

    /// The time that the share `quantile` (0 to 1) of them does not exceed, ns; none of none.
    #[must_use]
    pub fn quantile_ns(&self, quantile: f64) -> Option<u64> {
        let total = self.total();
        let rank = ((total as f64 * quantile).ceil() as u64).clamp(1, total.max(1));
        let mut seen = 0;
        self.0.iter().find_map(|&(bucket, count)| {
            seen += count;
            (seen >= rank).then(|| middle(bucket))
        })
    }

    fn since(&self, before: &Times) -> Times {
        let earlier = |bucket: u32| {
            before.0.binary_search_by_key(&bucket, |entry| entry.0).map_or(0, |at| before.0[at].1)
        };
        let rest = self.0.iter().map(|&(bucket, count)| (bucket, count.saturating_sub(earlier(bucket))));
        Times(rest.filter(|entry| entry.1 > 0).collect())
    }
}

/// One step of the self-test: operations of 4 KiB, each asked to take the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SelfTestStep {
    /// What each was to take, ns.
    pub asked_ns: u64,
    /// What a program saw (median, ns): read, write, flush.
    pub given_ns: [u64; 3],
}

impl SelfTestStep {
    /// How far the worst of the three was off, as a share of what was asked: 0.02 is 2 %.
    #[must_use]
    pub fn error(&self) -> f64 {
        let asked = self.asked_ns.max(1) as f64;
        self.given_ns.iter().map(|&given| (given as f64 / asked - 1.0).abs()).fold(0.0, f64::max)
    }
}

/// What a device has done since it began, or in a part of its time ([`Statistics::since`]).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statistics {
    /// How long it has been there, or the part's length, ns.
    pub span_ns: u64,
    /// Reads, writes, flushes, discards.
    pub operations: [u64; 4],
    /// Bytes read, written, (0), discarded.
    pub bytes: [u64; 4],
    /// Reads and writes that continued a stream.
    pub sequential: [u64; 2],
    /// Operations that failed, as a fault told them to.
    pub failed: u64,
    /// Answers to which the model gives a time at all.
    pub timed: u64,
    /// Of them, answers that came late.
    pub late: u64,
    /// How much later than the model all of them came together, ns.
    pub late_ns: u64,
    /// Time of the operations by the model, from arrival to completion, added up, ns.
    pub model_ns: u64,
    /// The same as measured, ns; over `span_ns` it is the mean depth of the queue.
    pub measured_ns: u64,
    /// Model time, ns.
    pub model_busy_ns: u64,
    /// Measured time, ns.
    pub measured_busy_ns: u64,
    /// How long the thread that serves was ready to run while others had the processor, ns: while
    /// it was to take a request, or to answer one. The former no other number here shows.
    #[serde(default)]
    pub waited_ns: u64,
    /// Operations under way just now.
    pub under_way: u32,
    /// Times of reads, writes and flushes as measured.
    pub latency: [Times; 3],
    /// How late the timed answers were.
    pub lateness: Times,
    /// What the self-test at the start found.
    pub self_test: Vec<SelfTestStep>,
    /// What the log of operations lacks, and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_problem: Option<String>,
}

impl Statistics {
    /// What happened after `before`, which is of the same device.
    #[must_use]
    pub fn since(&self, before: &Statistics) -> Statistics {
        let less = |now: u64, then: u64| now.saturating_sub(then);
        Statistics {
            span_ns: less(self.span_ns, before.span_ns),
            operations: std::array::from_fn(|i| less(self.operations[i], before.operations[i])),
            bytes: std::array::from_fn(|i| less(self.bytes[i], before.bytes[i])),
            sequential: std::array::from_fn(|i| less(self.sequential[i], before.sequential[i])),
            failed: less(self.failed, before.failed),
            timed: less(self.timed, before.timed),
            late: less(self.late, before.late),
            late_ns: less(self.late_ns, before.late_ns),
            model_ns: less(self.model_ns, before.model_ns),
            measured_ns: less(self.measured_ns, before.measured_ns),
            model_busy_ns: less(self.model_busy_ns, before.model_busy_ns),
            measured_busy_ns: less(self.measured_busy_ns, before.measured_busy_ns),
            waited_ns: less(self.waited_ns, before.waited_ns),
            under_way: self.under_way,
            latency: std::array::from_fn(|i| self.latency[i].since(&before.latency[i])),
            lateness: self.lateness.since(&before.lateness),
            self_test: self.self_test.clone(),
            log_problem: self.log_problem.clone(),
        }
    }

    /// What a run's record keeps of its part.
    #[must_use]
    pub fn use_of(&self) -> DeviceUse {
        let late = |quantile| self.lateness.quantile_ns(quantile).unwrap_or(0);
        DeviceUse {
            self_test: self.self_test.clone(),
            operations: self.operations,
            bytes: self.bytes,
            timed: self.timed,
            late: self.late,
            late_p50_ns: late(0.5),
            late_p99_ns: late(0.99),
            late_max_ns: late(1.0),
            model_ns: self.model_busy_ns,
            measured_ns: self.measured_busy_ns,
            // What it waited when it was to answer has made answers late.
            kept_waiting_ns: self.waited_ns.saturating_sub(self.late_ns),
        }
    }
}

/// How a run used its modelled device, and how well the device kept its model's times: goes into
/// the results with the run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeviceUse {
    /// The self-test before it: asked against given.
    pub self_test: Vec<SelfTestStep>,
    /// Reads, writes, flushes, discards.
    pub operations: [u64; 4],
    /// Bytes read, written, (0), discarded.
    pub bytes: [u64; 4],
    /// Answers to which the model gives a time.
    pub timed: u64,
    /// Of them, answers later than the model by more than 5 % of the operation's time and 20 µs.
    pub late: u64,
    /// Median lateness, ns.
    pub late_p50_ns: u64,
    /// 99th percentile, ns.
    pub late_p99_ns: u64,
    /// Largest, ns.
    pub late_max_ns: u64,
    /// How long the device had something to do by the model, ns.
    pub model_ns: u64,
    /// How long it had as measured, ns.
    pub measured_ns: u64,
    /// How long requests at least waited for the device's server to get a processor, ns: before the
    /// measured time, which begins when it takes them.
    #[serde(default)]
    pub kept_waiting_ns: u64,
}

impl DeviceUse {
    /// Share of late answers, 0 to 1.
    #[must_use]
    pub fn late_share(&self) -> f64 {
        if self.timed == 0 { 0.0 } else { self.late as f64 / self.timed as f64 }
    }

    /// Measured over model time: 1.03 is 3 % slower than the model.
    #[must_use]
    pub fn slowness(&self) -> f64 {
        if self.model_ns == 0 { 1.0 } else { self.measured_ns as f64 / self.model_ns as f64 }
    }

    /// How much longer requests waited for the server than a wake-up each, as a share of the
    /// model's time.
    #[must_use]
    pub fn waiting_share(&self) -> f64 {
        let wakes_ns = self.operations.iter().sum::<u64>() * LATE_NS;
        self.kept_waiting_ns.saturating_sub(wakes_ns) as f64 / self.model_ns.max(1) as f64
    }

    /// Whether the model's times were kept: not more than a tenth of the answers late, on the whole
    /// not 5 % too slow, and no request kept waiting for as much before it was taken.
    #[must_use]
    pub fn is_on_time(&self) -> bool {
        // Where the model gives no times there are none to be kept.
        self.timed == 0
            || (self.late_share() <= LATE_ANSWERS
                && self.slowness() <= 1.0 + LATE_SHARE
                && self.waiting_share() <= LATE_SHARE)
    }

    /// What a span that held this use would have been with the model's times, ns.
    #[must_use]
    pub fn by_model_ns(&self, measured_ns: u64) -> u64 {
        measured_ns.saturating_sub(self.measured_ns.saturating_sub(self.model_ns))
    }

    /// Largest error of the self-test, of the delays that it judges; none where none was made.
    #[must_use]
    pub fn self_test_error(&self) -> Option<f64> {
        let judged = self.self_test.iter().filter(|tried| tried.asked_ns >= TESTED_FROM_NS);
        judged.map(SelfTestStep::error).reduce(f64::max)
    }
}

/// Adds up what happens on a device.
#[derive(Debug, Default)]
pub(super) struct Tally {
    all: Statistics,
    /// The model has everything done that came before.
    model_until_ns: u64,
    /// Since when something has been under way without a pause.
    busy_since_ns: u64,
    /// The last answer.
    answered_ns: u64,
}

pub(super) fn index(operation: Operation) -> usize {
    match operation {
        Operation::Read => 0,
        Operation::Write => 1,
        Operation::Flush => 2,
        Operation::Discard => 3,
    }
}

impl Tally {
    /// An operation has arrived, and the model has it done at `asked_ns`.
    pub fn arrived(
        &mut self,
        operation: Operation,
        bytes: u64,
        arrival_ns: u64,
        asked_ns: u64,
        sequential: bool,
    ) {
        let kind = index(operation);
        let all = &mut self.all;
        all.operations[kind] += 1;
        all.bytes[kind] += bytes;
        if sequential && let Some(count) = all.sequential.get_mut(kind) {
            *count += 1;
        }
        all.model_ns += asked_ns.saturating_sub(arrival_ns);
        all.model_busy_ns += asked_ns.saturating_sub(arrival_ns.max(self.model_until_ns));
        self.model_until_ns = self.model_until_ns.max(asked_ns);
        if all.under_way == 0 {
            // An answer is on its way for a moment, in which the next operation may come already.
            self.busy_since_ns = arrival_ns.max(self.answered_ns);
        }
        all.under_way += 1;
    }

    /// It was answered.
    pub fn answered(
        &mut self,
        operation: Operation,
        failed: bool,
        arrival_ns: u64,
        asked_ns: u64,
        given_ns: u64,
    ) {
        let all = &mut self.all;
        let (took_ns, late_ns) = (asked_ns.saturating_sub(arrival_ns), given_ns.saturating_sub(asked_ns));
        all.failed += u64::from(failed);
        all.measured_ns += given_ns.saturating_sub(arrival_ns);
        if let Some(times) = all.latency.get_mut(index(operation)) {
            times.count(given_ns.saturating_sub(arrival_ns));
        }
        if took_ns >= TIMED_FROM_NS {
            all.timed += 1;
            all.late_ns += late_ns;
            all.lateness.count(late_ns);
            let much = (took_ns as f64 * LATE_SHARE) as u64;
            all.late += u64::from(late_ns > much.max(LATE_NS));
        }
        all.under_way = all.under_way.saturating_sub(1);
        self.answered_ns = self.answered_ns.max(given_ns);
        if all.under_way == 0 {
            all.measured_busy_ns += self.answered_ns.saturating_sub(self.busy_since_ns);
        }
    }

    /// Keeps what the self-test found.
    pub fn add_self_test(&mut self, tried: Vec<SelfTestStep>) {
        self.all.self_test = tried;
    }

    /// All so far, at `now_ns`.
    pub fn statistics(&self, now_ns: u64) -> Statistics {
        let mut all = self.all.clone();
        all.span_ns = now_ns;
        // What the model has still before it is not over yet.
        all.model_busy_ns -= self.model_until_ns.saturating_sub(now_ns).min(all.model_busy_ns);
        if all.under_way > 0 {
            all.measured_busy_ns += now_ns.saturating_sub(self.busy_since_ns);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Operation::{Flush, Read, Write};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_bucket_is_near_what_is_in_it(ns: u64) {
            prop_assert!(middle(bucket(ns)).abs_diff(ns) <= ns / 62 + 1, "{ns}: {}", middle(bucket(ns)));
        }

        #[test]
        fn a_part_is_what_was_added(first in proptest::collection::vec(0u64..1 << 50, 0..50), then in proptest::collection::vec(0u64..1 << 50, 0..50)) {
            let (mut all, mut part) = (Times::default(), Times::default());
            first.iter().for_each(|&ns| all.count(ns));
            let before = all.clone();
            then.iter().for_each(|&ns| { all.count(ns); part.count(ns) });
            prop_assert_eq!(all.since(&before), part);
        }
    }

    #[test]
    fn lateness_is_counted_and_time_is_not_counted_twice() {
        let mut tally = Tally::default();
        // Two at once: the model has them done at 1 and 2 ms; they are answered at 1.01 and 2.5.
        tally.arrived(Write, 4096, 0, 1_000_000, false);
        tally.arrived(Write, 4096, 0, 2_000_000, true);
        tally.answered(Write, false, 0, 1_000_000, 1_010_000);
        tally.answered(Write, false, 0, 2_000_000, 2_500_000);
        // A pause, and a flush that is on time.
        tally.arrived(Flush, 0, 5_000_000, 9_000_000, false);
        tally.answered(Flush, false, 5_000_000, 9_000_000, 9_000_000);
        // What has no time cannot be late.
        tally.arrived(Read, 512, 9_500_000, 9_500_000, false);
        tally.answered(Read, true, 9_500_000, 9_500_000, 9_600_000);
        let all = tally.statistics(10_000_000);
        assert_eq!((all.operations, all.bytes), ([1, 2, 1, 0], [512, 8192, 0, 0]));
        assert_eq!((all.sequential, all.failed, all.under_way), ([0, 1], 1, 0));
        assert_eq!((all.timed, all.late, all.late_ns), (3, 1, 510_000));
        assert_eq!((all.model_busy_ns, all.measured_busy_ns), (6_000_000, 6_600_000));
        let run = all.use_of();
        assert!(!run.is_on_time(), "a third of the answers was late");
        assert_eq!(run.by_model_ns(10_000_000), 9_400_000);
        assert_eq!(all.since(&all).use_of(), DeviceUse { self_test: Vec::new(), ..DeviceUse::default() });
    }

    #[test]
    fn an_answer_without_a_time_of_its_own_cannot_be_late() {
        let mut tally = Tally::default();
        for (begin_ns, took_ns) in [(0, 0), (1_000_000, 40), (2_000_000, 200_000)] {
            tally.arrived(Write, 4096, begin_ns, begin_ns + took_ns, false);
            tally.answered(Write, false, begin_ns, begin_ns + took_ns, begin_ns + took_ns + 90_000);
        }
        let all = tally.statistics(4_000_000);
        assert_eq!((all.operations[1], all.timed, all.late), (3, 1, 1));
    }

    #[test]
    fn a_run_is_marked_by_its_late_answers_or_its_time() {
        let quiet =
            DeviceUse { timed: 100, late: 10, model_ns: 1000, measured_ns: 1050, ..DeviceUse::default() };
        assert!(quiet.is_on_time());
        assert!(!DeviceUse { late: 11, ..quiet.clone() }.is_on_time());
        assert!(!DeviceUse { measured_ns: 1051, ..quiet.clone() }.is_on_time());
        // A wake-up for each of 100 operations is in the model's time; what is waited beyond that
        // is not.
        let busy = |kept_waiting_ns| DeviceUse {
            operations: [50, 40, 10, 0],
            model_ns: 1_000_000,
            measured_ns: 1_000_000,
            kept_waiting_ns,
            ..quiet.clone()
        };
        assert!(busy(2_000_000 + 50_000).is_on_time());
        assert!(!busy(2_000_000 + 50_001).is_on_time());
        assert!(DeviceUse { timed: 0, late: 0, model_ns: 0, ..quiet }.is_on_time(), "no times, none to keep");
    }

    #[test]
    fn the_self_test_tells_the_worst_of_its_kinds() {
        let tried = |asked_ns, given_ns| SelfTestStep { asked_ns, given_ns };
        let short = tried(100_000, [200_000; 3]);
        let run = DeviceUse {
            self_test: vec![
                short,
                tried(200_000, [201_000, 196_000, 200_000]),
                tried(1_000_000, [1_010_000; 3]),
            ],
            ..DeviceUse::default()
        };
        assert!((run.self_test_error().unwrap() - 0.02).abs() < 1e-9, "{:?}", run.self_test_error());
        assert_eq!(DeviceUse::default().self_test_error(), None);
    }
}
