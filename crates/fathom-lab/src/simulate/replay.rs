//! Lets the closed loop go on a device, in virtual time.
//!
//! Events are the arrivals of operations, in order of virtual time: the [`Timeline`] says at once
//! when one is done, and so when what waited for it goes on. A thread that was woken by another
//! waits until it is known when that one gets to the same place. That is as soon as it begins, goes
//! on, or knows when it makes its call, and so before virtual time is there: an event never lies in
//! the past, where the device would be busy with what comes later.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

use fathom_device::{Model, Operation, RequestTimes, Timeline};
use fathom_probe::{Mark, Marks};
use fathom_workload::sample::{LaneSpan, Sample, Window};

use super::program::{Program, Wake};
use crate::recording::{Execution, Recording};

/// Virtual time begins here, ns: 0 would mean that nothing is known.
const ORIGIN_NS: u64 = 1_000_000_000;

/// A run in virtual time: what model time is made from.
pub struct Virtually {
    pub windows: Vec<Window>,
    pub samples: Vec<Sample>,
    pub marks: Marks,
    pub served: Vec<Vec<RequestTimes>>,
}

/// A chain of bursts that is under way.
#[derive(Clone, Debug, Default)]
struct Chain {
    /// Bursts that are still to come.
    left: Range<usize>,
    /// Operations of the burst that have not come yet.
    under_way: usize,
    /// When those that have come are done.
    done_ns: u64,
    /// The same of those that the step waits for.
    waited_ns: u64,
    /// Those of the whole chain that the step waits for and that have not come yet.
    waited_left: usize,
}

impl Chain {
    fn is_over(&self) -> bool {
        self.under_way == 0 && self.left.is_empty()
    }
}

/// What an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum EventKind {
    /// The thread begins its next step.
    Step,
    /// The call of its step begins.
    Call,
    /// This operation comes, of the chain with this number.
    Comes { op: usize, chain: usize },
}

/// Moments as recorded and as they are virtually.
#[derive(Clone, Debug, Default)]
struct Places(Vec<(u64, u64)>);

impl Places {
    fn push(&mut self, recorded_ns: u64, virtual_ns: u64) {
        self.0.push((recorded_ns, virtual_ns));
    }

    /// A moment between two places is as far after the first as it was, and not beyond the second.
    fn at(&self, recorded_ns: u64) -> Option<u64> {
        let next = self.0.partition_point(|place| place.0 <= recorded_ns);
        let from = self.0.get(next.checked_sub(1)?)?;
        let at = from.1 + (recorded_ns - from.0);
        Some(self.0.get(next).map_or(at, |to| at.min(to.1)))
    }

    /// Whether the thread has got there.
    fn has(&self, recorded_ns: u64) -> bool {
        self.0.last().is_some_and(|last| last.0 >= recorded_ns)
    }
}

struct Running {
    step: usize,
    /// When the part of the step that is under way began, and when it ends at the earliest.
    since_ns: u64,
    until_ns: u64,
    /// What was waited for before it was woken is done then, ns.
    not_before_ns: u64,
    is_in_call: bool,
    /// The number of the chain that is waited for, if any.
    chain: Option<usize>,
    places: Places,
    ended: bool,
    /// Those who wait until it gets to a place: thread, the place, their own earliest moment.
    waiters: Vec<(usize, u64, u64)>,
}

struct Loop<'a> {
    program: &'a Program,
    devices: Vec<Timeline>,
    running: Vec<Running>,
    /// Chains that are under way, with their threads; places of ended ones are used again.
    chains: Vec<(usize, Chain)>,
    free: Vec<usize>,
    events: BinaryHeap<Reverse<(u64, u64, usize, EventKind)>>,
    number: u64,
    /// The event that is dealt with lies here, ns.
    now_ns: u64,
    served: Vec<Vec<RequestTimes>>,
    marks: Vec<Mark>,
}

pub fn replay(program: &Program, recording: &Recording, model: &Model, seed: u64) -> Virtually {
    let devices = (0..program.devices() as u64)
        .map(|device| Timeline::new(model.clone(), seed.wrapping_add(device << 32)))
        .collect();
    let running = program.threads.iter().map(|thread| Running {
        step: 0,
        since_ns: 0,
        until_ns: 0,
        not_before_ns: 0,
        is_in_call: false,
        chain: None,
        places: Places(Vec::with_capacity(thread.steps.len() * 3 + 1)),
        ended: false,
        waiters: Vec::new(),
    });
    let mut all = Loop {
        program,
        devices,
        running: running.collect(),
        chains: Vec::new(),
        free: Vec::new(),
        events: BinaryHeap::new(),
        number: 0,
        now_ns: ORIGIN_NS,
        served: recording.served.iter().map(|value| Vec::with_capacity(value.len())).collect(),
        marks: Vec::with_capacity(program.threads.iter().map(|thread| thread.steps.len() + 1).sum()),
    };
    all.go();
    all.told(recording)
}

impl Loop<'_> {
    fn go(&mut self) {
        let program = self.program;
        let first_ns = program.threads.iter().map(|thread| thread.first.at_ns).min().unwrap_or(0);
        for (thread, steps) in program.threads.iter().enumerate() {
            match steps.wake {
                Some(wake) => self.wait(thread, wake, ORIGIN_NS),
                None => self.event(ORIGIN_NS + (steps.first.at_ns - first_ns), thread, EventKind::Step),
            }
        }
        loop {
            while let Some(Reverse((now_ns, _, thread, what))) = self.events.pop() {
                self.now_ns = now_ns;
                match what {
                    EventKind::Step => self.begin_step(thread, now_ns),
                    EventKind::Call => self.begin_call(thread, now_ns),
                    EventKind::Comes { op, chain } => self.comes(op, chain, now_ns),
                }
            }
            // Threads that seem to have woken each other at the same moment would wait for ever.
            let first = |of: &Running| of.waiters.iter().copied().min_by_key(|pair| pair.1);
            let all = self.running.iter().enumerate().filter_map(|(of, value)| Some((of, first(value)?)));
            let Some((of, waiter)) = all.min_by_key(|pair| pair.1.1) else { return };
            self.running[of].waiters.retain(|pair| pair.0 != waiter.0);
            self.woken(waiter.0, waiter.2.max(self.now_ns));
        }
    }

    fn event(&mut self, at_ns: u64, thread: usize, what: EventKind) {
        self.number += 1;
        self.events.push(Reverse((at_ns, self.number, thread, what)));
    }

    /// Has a thread go on when another has got to where it was when it woke this one.
    fn wait(&mut self, thread: usize, wake: Wake, earliest_ns: u64) {
        let other = &mut self.running[wake.thread];
        if other.ended || other.places.has(wake.at_ns) {
            // It is known only now where it waited for operations before its call.
            let least_ns = earliest_ns.max(self.now_ns);
            let woken_ns = other.places.at(wake.at_ns).unwrap_or(0).max(least_ns);
            self.woken(thread, woken_ns);
        } else {
            other.waiters.push((thread, wake.at_ns, earliest_ns));
        }
    }

    /// The thread has got further: those that waited for it go on.
    fn got_further(&mut self, thread: usize) {
        if self.running[thread].waiters.is_empty() {
            return;
        }
        let waiting = std::mem::take(&mut self.running[thread].waiters);
        for (who, at_ns, earliest_ns) in waiting {
            self.wait(who, Wake { thread, at_ns }, earliest_ns);
        }
    }

    /// A thread begins, or has slept enough.
    fn woken(&mut self, thread: usize, now_ns: u64) {
        let step = &self.program.threads[thread].steps[self.running[thread].step];
        let of = &mut self.running[thread];
        if of.places.0.is_empty() {
            self.event(now_ns, thread, EventKind::Step);
            return;
        }
        of.places.push(step.recorded[1], now_ns);
        of.places.push(step.recorded[2], now_ns);
        of.until_ns = of.not_before_ns.max(now_ns + step.run_ns);
        if of.chain.is_none() {
            let until_ns = of.until_ns;
            self.will_call(thread, until_ns);
        }
        self.got_further(thread);
    }

    /// When the call of its step begins is known.
    fn will_call(&mut self, thread: usize, call_ns: u64) {
        let of = &mut self.running[thread];
        of.places.push(self.program.threads[thread].steps[of.step].recorded[3], call_ns);
        self.event(call_ns, thread, EventKind::Call);
    }

    fn begin_step(&mut self, thread: usize, now_ns: u64) {
        let program = self.program;
        let of_thread = &program.threads[thread];
        let of = &mut self.running[thread];
        if of.places.0.is_empty() {
            of.places.push(of_thread.first.at_ns, now_ns);
            let first = &of_thread.first;
            self.marks.push(Mark {
                thread: of_thread.number,
                at_ns: now_ns,
                call_ns: 0,
                cpu_ns: first.cpu_ns,
                queue_ns: 0,
                call: None,
            });
            // Others may have begun because this one had, and it may soon wait for them.
            self.got_further(thread);
        }
        let of = &mut self.running[thread];
        let Some(step) = of_thread.steps.get(of.step) else {
            of.ended = true;
            self.got_further(thread);
            return;
        };
        (of.since_ns, of.is_in_call, of.chain) = (now_ns, false, None);
        // Nothing before the wake-up ends the step.
        (of.until_ns, of.not_before_ns) = (u64::MAX, 0);
        if !step.before.is_empty() {
            let chain = self.chain(thread, step.before.clone(), now_ns);
            self.running[thread].chain = Some(chain).filter(|_| step.waits_before);
        }
        let slept_ns = step.recorded[1] - step.recorded[0];
        match step.wake {
            Some(wake) => self.wait(thread, wake, now_ns),
            None => self.woken(thread, now_ns + slept_ns),
        }
    }

    fn begin_call(&mut self, thread: usize, now_ns: u64) {
        let step = &self.program.threads[thread].steps[self.running[thread].step];
        let of = &mut self.running[thread];
        (of.since_ns, of.until_ns, of.is_in_call) = (now_ns, now_ns + step.call_cpu_ns, true);
        of.chain = None;
        if !step.call.is_empty() {
            let chain = self.chain(thread, step.call.clone(), now_ns);
            self.running[thread].chain = Some(chain).filter(|number| self.chains[*number].1.waited_left > 0);
        }
        if self.running[thread].chain.is_none() {
            let until_ns = self.running[thread].until_ns;
            self.end_step(thread, until_ns);
        }
    }

    fn end_step(&mut self, thread: usize, end_ns: u64) {
        let of_thread = &self.program.threads[thread];
        let of = &mut self.running[thread];
        let step = &of_thread.steps[of.step];
        of.places.push(step.recorded[4], end_ns);
        self.marks.push(Mark {
            thread: of_thread.number,
            at_ns: end_ns,
            call_ns: if step.has_call() { end_ns - of.since_ns } else { 0 },
            cpu_ns: step.cpu_ns,
            queue_ns: 0,
            call: None,
        });
        of.step += 1;
        of.chain = None;
        self.event(end_ns, thread, EventKind::Step);
        self.got_further(thread);
    }

    /// Begins a chain of bursts; gives its number.
    fn chain(&mut self, thread: usize, bursts: Range<usize>, now_ns: u64) -> usize {
        let program = self.program;
        let ops = program.bursts[bursts.clone()].iter().flat_map(|burst| &program.ops[burst.ops.clone()]);
        let waited_left = ops.filter(|op| op.is_waited).count();
        let chain = Chain { left: bursts, under_way: 0, done_ns: now_ns, waited_ns: now_ns, waited_left };
        let number = match self.free.pop() {
            Some(number) => {
                self.chains[number] = (thread, chain);
                number
            }
            None => {
                self.chains.push((thread, chain));
                self.chains.len() - 1
            }
        };
        self.next_burst(number);
        number
    }

    fn next_burst(&mut self, number: usize) {
        let (thread, chain) = &mut self.chains[number];
        let Some(burst) = chain.left.next() else { return };
        let (thread, burst) = (*thread, &self.program.bursts[burst]);
        let start_ns = chain.done_ns + burst.after_ns;
        chain.under_way = burst.ops.len();
        for op in burst.ops.clone() {
            let at_ns = start_ns + self.program.ops[op].since_ns;
            self.event(at_ns, thread, EventKind::Comes { op, chain: number });
        }
    }

    fn comes(&mut self, op: usize, number: usize, now_ns: u64) {
        let op = &self.program.ops[op];
        let bytes = u64::from(op.bytes);
        let finish_ns = self.devices[op.device].submit(now_ns, op.operation, op.offset, bytes).finish_ns;
        self.served[op.device].push(RequestTimes {
            kind: match op.operation {
                Operation::Read => 0,
                Operation::Write => 1,
                Operation::Flush => 2,
                Operation::Discard => 3,
            },
            bytes: op.bytes,
            arrival_ns: now_ns,
            asked_ns: finish_ns,
            given_ns: finish_ns,
            early_ns: 0,
            offset: op.offset,
        });
        let (thread, chain) = &mut self.chains[number];
        chain.done_ns = chain.done_ns.max(finish_ns);
        if op.is_waited {
            chain.waited_ns = chain.waited_ns.max(finish_ns);
            chain.waited_left -= 1;
        }
        chain.under_way -= 1;
        // Who waits goes on after the last of these, and not after what comes later of the chain:
        // that would be known too late.
        let goes_on = op.is_waited && chain.waited_left == 0;
        let (thread, waited_ns, under_way) = (*thread, chain.waited_ns, chain.under_way);
        if under_way == 0 {
            self.next_burst(number);
            if self.chains[number].1.is_over() {
                self.free.push(number);
            }
        }
        let of = &mut self.running[thread];
        if !goes_on || of.chain != Some(number) {
            return;
        }
        // The thread has waited for it; it may have to run, or to be woken, all the same.
        of.chain = None;
        if of.is_in_call {
            let end_ns = of.until_ns.max(waited_ns);
            self.end_step(thread, end_ns);
        } else if of.until_ns < u64::MAX {
            let call_ns = of.until_ns.max(waited_ns);
            self.will_call(thread, call_ns);
            self.got_further(thread);
        } else {
            of.not_before_ns = waited_ns;
        }
    }

    /// Everything in virtual time.
    fn told(mut self, recording: &Recording) -> Virtually {
        let place = |threads: &[u32], at_ns: u64| -> Option<u64> {
            let of = |number: &u32| {
                let thread = self.program.threads.iter().position(|thread| thread.number == *number)?;
                let places = &self.running[thread].places;
                Some((places.has(at_ns), places.at(at_ns)?))
            };
            let mut found: Vec<(bool, u64)> = threads.iter().filter_map(of).collect();
            // One that was there at the moment, rather than one that had ended before.
            found.sort_by_key(|pair| !pair.0);
            found.first().map(|pair| pair.1)
        };
        let mut windows = Vec::with_capacity(recording.windows.len());
        for window in &recording.windows {
            let of_lane = |lane: &LaneSpan| {
                let at = |ns| place(&lane.marked, ns).unwrap_or(ORIGIN_NS);
                LaneSpan { start_ns: at(lane.start_ns), end_ns: at(lane.end_ns), ..lane.clone() }
            };
            let lanes: Vec<LaneSpan> = window.lanes.iter().map(of_lane).collect();
            let start_ns = lanes.iter().map(|lane| lane.start_ns).min().unwrap_or(ORIGIN_NS);
            let end_ns = lanes.iter().map(|lane| lane.end_ns).max().unwrap_or(start_ns);
            // Between executions, on the thread of the first lane or on one that is none.
            let threads: Vec<u32> = window.lanes.iter().flat_map(|lane| lane.marked.clone()).collect();
            let excluded = window.excluded.iter();
            let excluded = excluded
                .filter_map(|excluded| Some((place(&threads, excluded.0)?, place(&threads, excluded.1)?)))
                .collect();
            windows.push(Window { start_ns, end_ns, lanes, excluded, ..window.clone() });
        }
        let mut samples = Vec::with_capacity(recording.executions.len());
        for execution in &recording.executions {
            let Some(window) = recording.windows.get(execution.window as usize) else { continue };
            let Some(lane) = window.lanes.iter().find(|lane| lane.thread == execution.lane) else { continue };
            let at = |ns| place(&lane.marked, ns);
            let (Some(start_ns), Some(end_ns)) = (at(execution.start_ns), at(execution.end_ns())) else {
                continue;
            };
            let replayed = Execution { start_ns, wall_ns: end_ns.saturating_sub(start_ns), ..*execution };
            samples.push(replayed.sample(window, samples.len() as u64));
        }
        let marks = Marks { marks: std::mem::take(&mut self.marks), lost: 0, knows_queue: true };
        Virtually { windows, samples, marks, served: self.served }
    }
}
