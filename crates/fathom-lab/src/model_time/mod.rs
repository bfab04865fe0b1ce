//! Model time: how long a run's phases take on a machine that never keeps them waiting.
//!
//! On a modelled device the wall time of a run has two sources of error that are this machine's and
//! not the device's: answers that come later than the model has them, and threads that are ready to
//! run while others have the processor. Model time leaves both out. It is made from three records
//! that know nothing of each other: what the device served ([`RequestTimes`]: when each operation
//! came, when the model has it done, when it was answered), the marks of the run's threads
//! ([`Mark`]: which calls may have waited for the device; how long the thread ran, and was ready to
//! run, between them), and when the workload's lanes worked ([`Window`]).
//!
//! **A thread** is at every moment in one of five states (`State`). *Run*: on a processor.
//! *Device*: in a call on a file, while an operation is under way by the model. *Late*: in such a
//! call while none is: the answer is late, or is on its way through this machine. *Ready*: it could
//! run and has no processor. *Asleep*: it waits outside of calls on files, for a lock, another
//! thread or a timer.
//!
//! **A moment** of a phase counts where any of its threads is in Run or Device. Where none is, and
//! one is Late or Ready, this machine holds the run up, and the moment does not count. Where all
//! sleep, it counts: that is the application's own waiting. So
//!
//! ```text
//! model time = own CPU time + device time by the model + other waiting,   wall time = model time + held up
//! ```
//! each moment once: what the device does while a thread runs is in CPU time, what it does while
//! nobody waits for it is in none, and two requests under way at once, or two threads that wait for
//! one flush, are one moment.
//!
//! `docs/method.md` says what this leaves open and how large that is; `timeline` has the rules
//! for a thread.

mod interval;
mod served;
mod timeline;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use fathom_device::RequestTimes;
use fathom_probe::{Mark, Marks};
use fathom_workload::sample::{LaneSpan, Sample, Window};
use serde::{Deserialize, Serialize};

use interval::{Interval, SpanLengths, intersection, length, merged, within, without};
use served::Operations;
pub(crate) use timeline::SLACK_NS;
use timeline::{Class, Lane, State, classes, of_lane};

/// What a phase's model time rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// The states of all its threads: waiting for a processor is left out, too.
    Threads,
    /// The device alone, where the threads that work are not seen (a server, a store with I/O of
    /// its own): only what its answers were late is left out.
    Device,
}

/// A phase of a run by the model. Times are ns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PhaseModel {
    /// As in [`Sample::phase`].
    pub phase: String,
    /// As in [`Sample::x`].
    pub x: Option<f64>,
    /// What it rests on.
    pub basis: Basis,
    /// From the first start to the last end as measured, what is excluded left out.
    pub wall_ns: u64,
    /// The same by the model: the next three together.
    pub model_ns: u64,
    /// A thread ran. By the device alone: everything but the device.
    pub cpu_ns: u64,
    /// None ran, and one waited for the device while it worked by the model.
    pub device_ns: u64,
    /// All waited for something else.
    pub other_ns: u64,
    /// Mean time of one execution by the model.
    pub each_ns: f64,
    /// Of single executions by the model: minimum, p50, p90, p99, p99.9, maximum.
    pub latency_ns: [u64; 6],
    /// Reads, writes, flushes, discards that came to the devices in the phase.
    pub operations: [u64; 4],
    /// Bytes read, written, (0), discarded.
    pub bytes: [u64; 4],
    /// How long the devices had something to do by the model, whoever waited for it.
    pub busy_model_ns: u64,
    /// The same as measured.
    pub busy_measured_ns: u64,
}

impl PhaseModel {
    /// How long this machine held the run up, ns.
    #[must_use]
    pub fn held_ns(&self) -> u64 {
        self.wall_ns.saturating_sub(self.model_ns)
    }
}

/// The phases by the model. `marks` are those of the threads that did all the work; none where
/// those are not seen. `served` has one list for each device.
#[must_use]
pub fn phase_models(
    windows: &[Window],
    samples: &[Sample],
    marks: Option<&Marks>,
    served: &[Vec<RequestTimes>],
) -> Vec<PhaseModel> {
    models_of_run(windows, samples, marks, served).0
}

/// As [`phase_models`], and the model time of each sample, ns; none of one that is of no window.
#[must_use]
pub(crate) fn models_of_run(
    windows: &[Window],
    samples: &[Sample],
    marks: Option<&Marks>,
    served: &[Vec<RequestTimes>],
) -> (Vec<PhaseModel>, Vec<Option<u64>>) {
    let operations = Operations::of(served);
    let mut threads: BTreeMap<u32, Vec<Mark>> = BTreeMap::new();
    // A thread whose marks are not all there cannot be told.
    let marks = marks.filter(|marks| marks.lost == 0 && marks.knows_queue);
    for mark in marks.map(|marks| marks.marks.as_slice()).unwrap_or_default() {
        threads.entry(mark.thread).or_default().push(*mark);
    }
    let mut of_samples = vec![None; samples.len()];
    let mut of = |window: &Window| {
        let is_of = |sample: &Sample| sample.phase == window.phase && sample.x == window.x;
        let places: Vec<usize> = (0..samples.len()).filter(|place| is_of(&samples[*place])).collect();
        let own: Vec<&Sample> = places.iter().map(|place| &samples[*place]).collect();
        let (model, each_ns) = of_phase(window, &own, &threads, &operations);
        for (place, ns) in places.into_iter().zip(each_ns) {
            // Of a sample whose begin is not told nothing is known.
            of_samples[place] = (samples[place].start_ns > 0).then_some(ns);
        }
        model
    };
    let models = windows.iter().map(&mut of).collect();
    (models, of_samples)
}

fn of_phase(
    window: &Window,
    samples: &[&Sample],
    threads: &BTreeMap<u32, Vec<Mark>>,
    operations: &Operations,
) -> (PhaseModel, Vec<u64>) {
    let span = (window.start_ns, window.end_ns);
    let excluded = within(&merged(window.excluded.clone()), span);
    let inside = without(&[span], &excluded);
    let is_seen = |lane: &LaneSpan| {
        !lane.marked.is_empty() && lane.marked.iter().all(|thread| threads.contains_key(thread))
    };
    let (model, measured) = operations.busy(span);
    let (model, measured) = (intersection(&model, &inside), intersection(&measured, &inside));
    let basis = if !window.lanes.is_empty() && window.lanes.iter().all(is_seen) {
        Basis::Threads
    } else {
        Basis::Device
    };
    let [cpu, device, other];
    // Answers that were given too early: the model has so much more.
    let mut short: Vec<(u64, u64)> = Vec::new();
    // What counts of the executions of each lane.
    let mut of_lanes: BTreeMap<u32, SpanLengths> = BTreeMap::new();
    match basis {
        Basis::Threads => {
            let executions = if window.lanes.len() == 1 { in_a_row(samples) } else { Vec::new() };
            let states = |lane: &LaneSpan| of_lane(lane, threads, operations, &executions);
            let lanes: Vec<_> = window.lanes.iter().map(|lane| (lane.thread, states(lane))).collect();
            let classes = classes(lanes.iter().map(|(_, lane)| lane.states.as_slice()));
            // Of several threads that wait for one answer each would have it once more.
            if let [(_, lane)] = lanes.as_slice() {
                short = lane.short.clone();
            }
            let all = |class: Class| intersection(&classes.of(class), &inside);
            (cpu, device, other) = (all(Class::Cpu), all(Class::Device), all(Class::Other));
            let counts = merged([cpu.clone(), device.clone(), other.clone()].concat());
            for (thread, Lane { states, .. }) in lanes {
                let own = |state: State| -> Vec<_> {
                    states.iter().filter(|other| other.2 == state).map(|state| (state.0, state.1)).collect()
                };
                // Who sleeps while this machine holds up whom it waits for, is held up.
                let waits = intersection(&merged(own(State::Asleep)), &counts);
                let works = intersection(&merged([own(State::Run), own(State::Device)].concat()), &inside);
                of_lanes.insert(thread, SpanLengths::of(merged([works, waits].concat())));
            }
        }
        Basis::Device => {
            let late = without(&measured, &model);
            let counts = without(&inside, &late);
            (cpu, device, other) = (without(&counts, &model), model.clone(), Vec::new());
            let counts = SpanLengths::of(counts);
            for sample in samples {
                of_lanes.entry(sample.thread).or_insert_with(|| counts.clone());
            }
        }
    }
    let own_ns = |sample: &&Sample| {
        let of_lane = of_lanes.get(&sample.thread);
        let end_ns = sample.start_ns + sample.split.wall_ns;
        let counted_ns = of_lane.map_or(sample.split.wall_ns, |lane| lane.between(sample.start_ns, end_ns));
        let first = short.partition_point(|pair| pair.0 < sample.start_ns);
        let shorter = short[first..].iter().take_while(|pair| pair.0 < end_ns);
        counted_ns + shorter.map(|pair| pair.1).sum::<u64>()
    };
    let in_order: Vec<u64> = samples.iter().map(own_ns).collect();
    let mut each = in_order.clone();
    each.sort_unstable();
    let mean = each.iter().sum::<u64>() as f64 / each.len().max(1) as f64;
    let rank = |share: f64| {
        let place = (each.len() as f64 * share).ceil() as usize;
        each.get(place.clamp(1, each.len().max(1)) - 1).copied().unwrap_or(0)
    };
    let short_ns: u64 = short.iter().map(|pair| pair.1).sum();
    let (cpu_ns, device_ns, other_ns) = (length(&cpu), length(&device) + short_ns, length(&other));
    let (operations, bytes) = operations.totals(span);
    let by_model = PhaseModel {
        phase: window.phase.clone(),
        x: window.x,
        basis,
        wall_ns: length(&inside),
        model_ns: cpu_ns + device_ns + other_ns,
        cpu_ns,
        device_ns,
        other_ns,
        each_ns: mean,
        latency_ns: [0.0, 0.5, 0.9, 0.99, 0.999, 1.0].map(rank),
        operations,
        bytes,
        busy_model_ns: length(&model),
        busy_measured_ns: length(&measured),
    };
    (by_model, in_order)
}

/// When the executions were that lie in no other one, in order.
fn in_a_row(samples: &[&Sample]) -> Vec<Interval> {
    let known = samples.iter().filter(|sample| sample.start_ns > 0);
    let mut spans: Vec<Interval> =
        known.map(|sample| (sample.start_ns, sample.start_ns.saturating_add(sample.split.wall_ns))).collect();
    spans.sort_unstable_by_key(|&(from, to)| (from, Reverse(to)));
    let mut end_ns = 0;
    spans.retain(|&(from, to)| {
        let follows = from >= end_ns;
        if follows {
            end_ns = to;
        }
        follows
    });
    spans
}

#[cfg(test)]
mod tests;
