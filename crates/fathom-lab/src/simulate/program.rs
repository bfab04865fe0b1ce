//! From a recording to the closed loop that it was.

use std::ops::Range;

use fathom_device::{Operation, RequestTimes};
use fathom_probe::Mark;
use fathom_workload::sample::LaneSpan;

use crate::model_time::SLACK_NS;
use crate::recording::Recording;

/// Of [`RequestTimes::kind`].
pub(super) const READ: u8 = 0;
pub(super) const WRITE: u8 = 1;
pub(super) const FLUSH: u8 = 2;

/// An operation that comes within so long after all before it were answered was on its way already,
/// ns: who waits for an answer needs longer to wake up and ask again.
const ON_ITS_WAY_NS: u64 = 10_000;

/// Between an answer and the next operation of a call nothing counts as model time, so what this
/// machine took there matters to caches that drain alone: no more than this is taken over, ns.
const BETWEEN_NS: u64 = 100_000;

/// What [`Program::notes`] says of threads that were at work at the same time.
pub const MEET: &str = "they meet in the order of the recording";

/// The most lanes that were at work at the same time, each from its first execution to its last:
/// those of processes that follow each other never meet.
fn at_once(lanes: &[LaneSpan]) -> usize {
    let mut moments: Vec<(u64, bool)> =
        lanes.iter().flat_map(|lane| [(lane.start_ns, true), (lane.end_ns, false)]).collect();
    // Who ends when another one begins has not met it.
    moments.sort_unstable();
    let (mut now, mut most) = (0_usize, 0);
    for (_, is_begin) in moments {
        now = if is_begin { now + 1 } else { now.saturating_sub(1) };
        most = most.max(now);
    }
    most
}

/// Why a recording cannot be replayed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReplayError {
    /// The threads that do the work are not seen.
    #[error(
        "what its threads did is not known: a server, a store with I/O of its own, a kernel without schedstat, or too many \
         calls to be kept"
    )]
    Threads,
    /// It has no phase.
    #[error("it holds no phase")]
    Empty,
    /// By its device alone, and its executions did not come one after the other.
    #[error(
        "what its threads did is not known or not asked for, and by the device alone one execution after the other is \
         replayed: here several were under way at once, or their begins were not told"
    )]
    NotOneByOne,
}

/// An operation of a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Op {
    pub device: usize,
    pub operation: Operation,
    pub offset: u64,
    pub bytes: u32,
    /// Since the burst's begin, ns.
    pub since_ns: u64,
    /// Whether the step waits for it.
    pub is_waited: bool,
}

/// Operations that were under way together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Burst {
    pub ops: Range<usize>,
    /// From the end of the burst before it, or from the begin of what it belongs to, ns.
    pub after_ns: u64,
}

/// What another thread had got to when a thread was woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wake {
    /// Place of the thread in [`Program::threads`].
    pub thread: usize,
    /// The moment, as recorded, ns.
    pub at_ns: u64,
}

/// What a thread did from one mark to the next: it slept, ran, and made at most one call on files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// As recorded: its begin, the end of its sleep, when it ran again, the call's begin, its end,
    /// ns.
    pub recorded: [u64; 5],
    /// Who woke it; a timer where nobody did.
    pub wake: Option<Wake>,
    /// How long it ran before the call, ns.
    pub run_ns: u64,
    /// How long it ran in the call, ns.
    pub call_cpu_ns: u64,
    /// Bursts that came before the call.
    pub before: Range<usize>,
    /// Whether the call begins after those only: outside of phases, where calls are not all seen.
    pub waits_before: bool,
    /// Bursts that came in the call.
    pub call: Range<usize>,
    /// CPU time of the thread at the end, as recorded, ns.
    pub cpu_ns: u64,
}

impl Step {
    pub fn has_call(&self) -> bool {
        self.recorded[4] > self.recorded[3]
    }
}

/// A thread's steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// As marks number it.
    pub number: u32,
    /// What the thread that was at work when it began had got to.
    pub wake: Option<Wake>,
    /// Its first mark.
    pub first: Mark,
    pub steps: Vec<Step>,
}

/// The closed loop of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    pub(super) threads: Vec<Thread>,
    pub(super) bursts: Vec<Burst>,
    pub(super) ops: Vec<Op>,
    devices: usize,
    /// The most threads that were at work in a phase at the same time.
    at_once: usize,
    /// Operations within the phases, and those of them that nobody waited for.
    in_phases: [u64; 2],
}

/// Operations of one step, on their way to bursts.
#[derive(Default)]
struct Loose {
    before: Vec<(usize, RequestTimes, bool)>,
    call: Vec<(usize, RequestTimes, bool)>,
}

impl Program {
    /// Makes the loop.
    ///
    /// # Errors
    /// [`ReplayError`].
    pub fn of(recording: &Recording) -> Result<Program, ReplayError> {
        if recording.windows.is_empty() {
            return Err(ReplayError::Empty);
        }
        if !are_threads_seen(recording) {
            return Err(ReplayError::Threads);
        }
        let mut threads: Vec<Thread> = Vec::new();
        for (number, marks) in &recording.threads {
            let Some(first) = marks.first().filter(|_| marks.len() > 1) else { continue };
            let steps = marks.windows(2).map(|pair| step(&pair[0], &pair[1])).collect();
            threads.push(Thread { number: *number, wake: None, first: *first, steps });
        }
        wakes(&mut threads);
        let mut program = Program {
            threads,
            bursts: Vec::new(),
            ops: Vec::new(),
            devices: recording.served.len(),
            at_once: recording.windows.iter().map(|window| at_once(&window.lanes)).max().unwrap_or(0),
            in_phases: [0; 2],
        };
        program.take_operations(recording);
        Ok(program)
    }

    /// As [`Program::of`], of a run by its device alone, with the recording that it is of then:
    /// between its executions lies nothing, however short that was.
    ///
    /// # Errors
    /// [`ReplayError`].
    pub fn of_the_device(recording: &Recording) -> Result<(Recording, Program), ReplayError> {
        let alone = recording.by_the_device().ok_or(ReplayError::NotOneByOne)?;
        let mut program = Program::of(&alone)?;
        program.threads.iter_mut().flat_map(|thread| &mut thread.steps).for_each(|step| step.run_ns = 0);
        Ok((alone, program))
    }

    /// Operations that are replayed.
    #[must_use]
    pub fn operations(&self) -> usize {
        self.ops.len()
    }

    /// Modelled devices of the stack.
    #[must_use]
    pub fn devices(&self) -> usize {
        self.devices
    }

    /// Where a simulation of it cannot be right, each in a sentence.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.at_once > 1 {
            notes.push(format!("{} threads: {MEET}, and on another device they might not", self.at_once));
        }
        let [all, background] = self.in_phases;
        if background * 20 > all {
            notes.push(format!(
                "{:.0} % of the operations are ones that nobody waited for: they keep their distance to the calls that they came \
                 beside, and a run that takes longer would have more of them. So rates on slow devices come out a little too high, \
                 for each setting alike; which one is faster rests on the others",
                background as f64 * 100.0 / all as f64
            ));
        }
        notes
    }

    /// Gives each operation to the step that it came in.
    fn take_operations(&mut self, recording: &Recording) {
        let mut loose: Vec<Vec<Loose>> = self
            .threads
            .iter()
            .map(|thread| thread.steps.iter().map(|_| Loose::default()).collect())
            .collect();
        let phases: Vec<(u64, u64)> =
            recording.windows.iter().map(|window| (window.start_ns, window.end_ns)).collect();
        let in_phase = |at: u64| phases.iter().any(|phase| phase.0 <= at && at <= phase.1);
        for (device, served) in recording.served.iter().enumerate() {
            for request in served {
                let Some((thread, step)) = self.step_of(request) else { continue };
                let recorded = self.threads[thread].steps[step].recorded;
                let is_in_call = request.arrival_ns >= recorded[3] && recorded[4] > recorded[3];
                let is_waited = if is_in_call {
                    request.begun_ns() <= recorded[4]
                } else {
                    !in_phase(request.arrival_ns)
                };
                if in_phase(request.arrival_ns) {
                    self.in_phases[0] += 1;
                    self.in_phases[1] += u64::from(!is_waited);
                }
                let of_step = &mut loose[thread][step];
                let list = if is_in_call { &mut of_step.call } else { &mut of_step.before };
                list.push((device, *request, is_waited));
            }
        }
        for (thread, of_thread) in loose.into_iter().enumerate() {
            for (number, Loose { mut before, mut call }) in of_thread.into_iter().enumerate() {
                let [first_ns, _, _, call_ns, _] = self.threads[thread].steps[number].recorded;
                before.sort_by_key(|pair| pair.1.arrival_ns);
                call.sort_by_key(|call| call.1.arrival_ns);
                let call_cpu_ns = self.threads[thread].steps[number].call_cpu_ns;
                let before = self.add_bursts(&before, first_ns, u64::MAX);
                // What comes later than the thread computed in the call comes from another's hand.
                let call = self.add_bursts(&call, call_ns, call_cpu_ns.max(SLACK_NS));
                let step = &mut self.threads[thread].steps[number];
                step.waits_before = before
                    .clone()
                    .any(|burst| self.ops[self.bursts[burst].ops.clone()].iter().any(|op| op.is_waited));
                (step.before, step.call) = (before, call);
            }
        }
    }

    /// The step in which an operation came: the call that it was answered in, of several the one
    /// that began last; else a call that it came in; else the pause of the thread that is first.
    fn step_of(&self, request: &RequestTimes) -> Option<(usize, usize)> {
        let mut best: Option<((u8, u64), (usize, usize))> = None;
        for (number, thread) in self.threads.iter().enumerate() {
            let step = thread.steps.partition_point(|step| step.recorded[4] < request.arrival_ns);
            let Some(of_thread) =
                thread.steps.get(step).filter(|step| step.recorded[0] <= request.arrival_ns)
            else {
                continue;
            };
            let [_, _, _, call_ns, end_ns] = of_thread.recorded;
            let rank = match () {
                () if end_ns > call_ns && request.arrival_ns >= call_ns && request.begun_ns() <= end_ns => {
                    (2, call_ns)
                }
                () if end_ns > call_ns && request.arrival_ns >= call_ns => (1, call_ns),
                () => (0, u64::MAX - number as u64),
            };
            if best.is_none_or(|(known, _)| rank > known) {
                best = Some((rank, (number, step)));
            }
        }
        best.map(|(_, found)| found)
    }

    /// Makes bursts of operations in order of arrival; the first comes at most `most_ns` after
    /// `from_ns`.
    fn add_bursts(
        &mut self,
        all: &[(usize, RequestTimes, bool)],
        from_ns: u64,
        most_ns: u64,
    ) -> Range<usize> {
        let first = self.bursts.len();
        // When all so far had their answers, and when the burst began.
        let (mut begun_ns, mut given_ns, mut start_ns) = (0, from_ns, from_ns);
        for &(device, ref request, is_waited) in all {
            let is_first = self.bursts.len() == first;
            if is_first || request.arrival_ns >= begun_ns + ON_ITS_WAY_NS {
                let after_ns = request.arrival_ns.saturating_sub(given_ns);
                let after_ns = after_ns.min(if is_first { most_ns } else { BETWEEN_NS });
                self.bursts.push(Burst { ops: self.ops.len()..self.ops.len(), after_ns });
                start_ns = request.arrival_ns;
            }
            begun_ns = request.begun_ns().max(begun_ns);
            given_ns = request.given_ns.max(given_ns);
            let since_ns = request.arrival_ns - start_ns;
            let operation = operation(request.kind);
            self.ops.push(Op {
                device,
                operation,
                offset: request.offset,
                bytes: request.bytes,
                since_ns,
                is_waited,
            });
            if let Some(burst) = self.bursts.last_mut() {
                burst.ops.end = self.ops.len();
            }
        }
        first..self.bursts.len()
    }
}

/// Whether there are marks of every thread that worked in a phase.
pub(super) fn are_threads_seen(recording: &Recording) -> bool {
    let is_seen = |thread: &u32| recording.threads.get(thread).is_some_and(|marks| marks.len() > 1);
    recording.windows.iter().all(|window| {
        let is_lane_seen = |lane: &LaneSpan| !lane.marked.is_empty() && lane.marked.iter().all(is_seen);
        !window.lanes.is_empty() && window.lanes.iter().all(is_lane_seen)
    })
}

fn operation(kind: u8) -> Operation {
    match kind {
        READ => Operation::Read,
        WRITE => Operation::Write,
        FLUSH => Operation::Flush,
        _ => Operation::Discard,
    }
}

/// What lies between two marks: as `model_time::timeline` has it.
fn step(first: &Mark, second: &Mark) -> Step {
    let call_from = second.at_ns.saturating_sub(second.call_ns).max(first.at_ns);
    let gap_ns = call_from - first.at_ns;
    let cpu_ns = second.cpu_ns.saturating_sub(first.cpu_ns);
    let waited_ns = gap_ns.saturating_sub(cpu_ns);
    let (woken, runs, run_ns) = if waited_ns > SLACK_NS {
        let ready_ns = second.queue_ns.saturating_sub(first.queue_ns).min(waited_ns);
        let woken = first.at_ns + (waited_ns - ready_ns);
        (woken, woken + ready_ns, gap_ns - waited_ns)
    } else {
        (first.at_ns, first.at_ns, gap_ns)
    };
    Step {
        recorded: [first.at_ns, woken, runs, call_from, second.at_ns.max(call_from)],
        wake: None,
        run_ns,
        call_cpu_ns: cpu_ns.saturating_sub(gap_ns).min(second.at_ns.saturating_sub(call_from)),
        before: 0..0,
        waits_before: false,
        call: 0..0,
        cpu_ns: second.cpu_ns,
    }
}

/// Finds out who woke whom: of the other threads, the one that was at work last before a sleep
/// ended, where that was after the sleep began.
fn wakes(threads: &mut [Thread]) {
    let cause = |thread: &Thread, at_ns: u64| -> Option<u64> {
        let step = thread.steps.partition_point(|step| step.recorded[4] <= at_ns);
        let Some(of_step) = thread.steps.get(step) else {
            return thread.steps.last().map(|last| last.recorded[4]);
        };
        let [first, _, runs, call, _] = of_step.recorded;
        match () {
            () if at_ns < first => None,
            () if at_ns >= call => Some(call),
            () if at_ns >= runs => Some(at_ns),
            () => Some(first),
        }
    };
    let waker = |own: usize, since_ns: u64, at_ns: u64| {
        let others = threads.iter().enumerate().filter(|(number, _)| *number != own);
        let causes = others.filter_map(|(thread, value)| Some(Wake { thread, at_ns: cause(value, at_ns)? }));
        causes.filter(|wake| wake.at_ns >= since_ns).max_by_key(|wake| wake.at_ns)
    };
    if threads.len() < 2 {
        return;
    }
    let mut found = Vec::new();
    for (number, thread) in threads.iter().enumerate() {
        found.push((number, None, waker(number, 0, thread.first.at_ns)));
        for (at, step) in thread.steps.iter().enumerate() {
            let [first, woken, ..] = step.recorded;
            if woken > first {
                found.push((number, Some(at), waker(number, first, woken)));
            }
        }
    }
    for (thread, step, wake) in found {
        match step {
            None => threads[thread].wake = wake,
            Some(step) => threads[thread].steps[step].wake = wake,
        }
    }
}
