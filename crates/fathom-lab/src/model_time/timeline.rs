//! The states of a thread, and what they make of a moment.
//!
//! Between two marks of a thread lies its time outside of calls (the *gap*) and at most one call on
//! a file, which ended at the second mark. The CPU time between them is the gap's as far as it has
//! room, the rest the call's: what a call computes, it mostly does before the device has its first
//! request. What the gap is longer than its CPU time, the thread was ready to run, up to the
//! scheduler's count of that, and asleep beyond. Within a gap it is taken to have slept first, then
//! waited for a processor, then run, as a thread does that was woken; within a call to have run
//! first. With several threads that order plays a part.
//!
//! It does for single executions, too, where a gap holds several of them (commits that sync
//! nothing, reads that memory serves): whose the waiting for a processor was nobody tells. A thread
//! that is kept from its processor is so for a while at once, so it was in those that took longest:
//! of one lane it is taken off these, until the longest of what is left are alike. All together
//! have the same time either way.

use std::collections::BTreeMap;

use fathom_probe::Mark;
use fathom_workload::sample::LaneSpan;

use super::interval::{Interval, merged, without};
use super::served::Operations;

/// What a gap may be longer than its CPU time without a reason being looked for, ns: what marks
/// themselves take.
pub const SLACK_NS: u64 = 10_000;

/// What a thread does at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It is on a processor.
    Run,
    /// It waits in a call on a file, and the device works by the model.
    Device,
    /// It waits in a call on a file, and the device has nothing to do by the model.
    Late,
    /// It could run and has no processor.
    Ready,
    /// It waits outside of calls on files.
    Asleep,
}

/// What a moment is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// A thread runs.
    Cpu,
    /// None runs, and one waits for the device.
    Device,
    /// All sleep, or none is there.
    Other,
    /// This machine holds the run up.
    Held,
}

/// A lane's time.
#[derive(Debug, Default)]
pub struct Lane {
    /// Its states from its begin to its end, in order, without gaps.
    pub states: Vec<(u64, u64, State)>,
    /// Calls that were shorter than the model has them: their begin, and by how much, ns.
    pub short: Vec<(u64, u64)>,
}

/// What a lane's thread did. `executions` are the lane's own, in order and one after the other;
/// none where several lanes work.
pub fn of_lane(
    lane: &LaneSpan,
    threads: &BTreeMap<u32, Vec<Mark>>,
    operations: &Operations,
    executions: &[Interval],
) -> Lane {
    let (mut states, mut short) = (Vec::new(), Vec::new());
    let mut at = lane.start_ns;
    let mut push = |from: u64, to: u64, state: State, at: &mut u64| {
        let (from, to) = (from.max(*at), to.min(lane.end_ns));
        if from < to {
            // Where no marks are it was at work.
            if *at < from {
                states.push((*at, from, State::Run));
            }
            states.push((from, to, state));
            *at = to;
        }
    };
    let mut pairs: Vec<(&Mark, &Mark)> = lane
        .marked
        .iter()
        .filter_map(|thread| threads.get(thread))
        .flat_map(|marks| marks.iter().zip(marks.iter().skip(1)))
        .filter(|(first, second)| second.at_ns > lane.start_ns && first.at_ns < lane.end_ns)
        .collect();
    pairs.sort_by_key(|(first, _)| first.at_ns);
    for (first, second) in pairs {
        let second = cut_off(first, second, lane.end_ns);
        let short_ns = between(first, &second, operations, executions, &mut |from, to, state| {
            push(from, to, state, &mut at);
        });
        let call_ns = second.at_ns.saturating_sub(second.call_ns);
        if short_ns > 0 && call_ns >= lane.start_ns {
            short.push((call_ns, short_ns));
        }
    }
    if at < lane.end_ns {
        states.push((at, lane.end_ns, State::Run));
    }
    Lane { states, short }
}

/// The second of two marks, where the lane has ended before it: moved to that end. What lies beyond
/// is taken to be waiting for a processor first, which is what keeps a mark from being made right
/// after the last execution.
fn cut_off(first: &Mark, second: &Mark, end_ns: u64) -> Mark {
    let gap_end_ns = second.at_ns.saturating_sub(second.call_ns);
    let beyond_ns = gap_end_ns.saturating_sub(end_ns);
    if beyond_ns == 0 {
        return *second;
    }
    let queue_ns = second.queue_ns.saturating_sub(beyond_ns).max(first.queue_ns);
    Mark { at_ns: end_ns.max(first.at_ns), call_ns: 0, queue_ns, ..*second }
}

/// The states of a thread between two of its marks; gives by how much the call was shorter than the
/// model has it, ns.
fn between(
    first: &Mark,
    second: &Mark,
    operations: &Operations,
    executions: &[Interval],
    push: &mut impl FnMut(u64, u64, State),
) -> u64 {
    let call = (second.at_ns.saturating_sub(second.call_ns).max(first.at_ns), second.at_ns);
    let gap_ns = call.0 - first.at_ns;
    let cpu_ns = second.cpu_ns.saturating_sub(first.cpu_ns);
    let waited_ns = gap_ns.saturating_sub(cpu_ns);
    if waited_ns > SLACK_NS {
        let ready_ns = second.queue_ns.saturating_sub(first.queue_ns).min(waited_ns);
        let gap = (first.at_ns, call.0);
        let mut asleep_ns = waited_ns - ready_ns;
        let mut at_ns = gap.0;
        let waits = kept_waiting(gap, asleep_ns, ready_ns, executions);
        for (from, to) in waits.into_iter().chain([(gap.1, gap.1)]) {
            let woken_ns = from.min(at_ns + asleep_ns);
            asleep_ns -= woken_ns - at_ns;
            push(at_ns, woken_ns, State::Asleep);
            push(woken_ns, from, State::Run);
            push(from, to, State::Ready);
            at_ns = to;
        }
    } else {
        push(first.at_ns, call.0, State::Run);
    }
    if call.0 == call.1 {
        return 0;
    }
    let ran_until = call.1.min(call.0 + cpu_ns.saturating_sub(gap_ns));
    push(call.0, ran_until, State::Run);
    let waited = [(ran_until, call.1)];
    let (device, short_ns) = operations.during_call(call);
    let late = without(&waited, &device);
    let mut parts: Vec<(Interval, State)> = late.into_iter().map(|late| (late, State::Late)).collect();
    parts.extend(
        super::interval::intersection(&waited, &device)
            .into_iter()
            .map(|intersection| (intersection, State::Device)),
    );
    parts.sort_unstable_by_key(|(interval, _)| *interval);
    for ((from, to), state) in parts {
        push(from, to, state);
    }
    short_ns
}

/// When in a gap its thread had no processor, `ready_ns` in all, in order: behind its sleep, or in
/// what took longest where the gap holds more than one execution.
fn kept_waiting(gap: Interval, asleep_ns: u64, ready_ns: u64, executions: &[Interval]) -> Vec<Interval> {
    if ready_ns == 0 {
        return Vec::new();
    }
    let pieces = pieces(gap, executions);
    if pieces.len() < 2 {
        let woken_ns = gap.0 + asleep_ns;
        return vec![(woken_ns, woken_ns + ready_ns)];
    }
    let level_ns = level_ns(&pieces, ready_ns);
    let mut left_ns = ready_ns;
    let mut waits = Vec::new();
    for (from, to) in pieces {
        let wait_ns = (to - from).saturating_sub(level_ns).min(left_ns);
        left_ns -= wait_ns;
        if wait_ns > 0 {
            waits.push((from, from + wait_ns));
        }
    }
    waits
}

/// A gap cut where executions begin and end.
fn pieces((from, to): Interval, executions: &[Interval]) -> Vec<Interval> {
    let first = executions.partition_point(|execution| execution.1 <= from);
    let within = executions[first..].iter().take_while(|execution| execution.0 < to);
    let cuts = within.flat_map(|&(begin, end)| [begin, end]).filter(|&cut| from < cut && cut < to);
    let (mut found, mut at) = (Vec::new(), from);
    for cut in cuts.chain([to]) {
        if at < cut {
            found.push((at, cut));
            at = cut;
        }
    }
    found
}

/// What the longest pieces are cut to, so that `ready_ns` goes, ns.
fn level_ns(pieces: &[Interval], ready_ns: u64) -> u64 {
    let mut lengths: Vec<u64> = pieces.iter().map(|(from, to)| to - from).collect();
    lengths.sort_unstable_by(|a, b| b.cmp(a));
    let mut sum_ns = 0_u64;
    for (count, (place, length)) in (1_u64..).zip(lengths.iter().enumerate()) {
        sum_ns += length;
        let Some(rest_ns) = sum_ns.checked_sub(ready_ns) else { continue };
        let level_ns = rest_ns / count;
        // Those that follow are no longer than that, and stay whole.
        if lengths.get(place + 1).is_none_or(|next| *next <= level_ns) {
            return level_ns;
        }
    }
    0
}

/// The moments of all classes.
#[derive(Debug, Default)]
pub struct Classes {
    /// Cpu, Device, Other, Held.
    sets: [Vec<Interval>; 4],
}

impl Classes {
    pub fn of(&self, class: Class) -> Vec<Interval> {
        merged(self.sets[class as usize].clone())
    }
}

/// What the states of all lanes make of the moments from the first begin to the last end.
pub fn classes<'a>(lanes: impl Iterator<Item = &'a [(u64, u64, State)]>) -> Classes {
    let mut changes: Vec<(u64, State, i32)> = Vec::new();
    for &(from, to, state) in lanes.flatten() {
        changes.extend([(from, state, 1), (to, state, -1)]);
    }
    changes.sort_unstable_by_key(|change| change.0);
    let (mut found, mut now, mut at) = (Classes::default(), [0_i32; 5], None);
    for (moment, state, by) in changes {
        if let Some(from) = at.filter(|from| *from < moment) {
            let [run, device, late, ready, _] = now;
            let class = match () {
                () if run > 0 => Class::Cpu,
                () if device > 0 => Class::Device,
                () if late + ready > 0 => Class::Held,
                () => Class::Other,
            };
            found.sets[class as usize].push((from, moment));
        }
        now[state as usize] += by;
        at = Some(moment);
    }
    found
}
