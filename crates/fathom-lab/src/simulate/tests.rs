//! Recordings whose time on another device is known by hand. Times are µs in the helpers, so that a
//! case can be read; the recorder takes 100 for every operation, however many are under way.

use std::collections::BTreeMap;

use fathom_device::{RequestTimes, preset};
use fathom_probe::Mark;
use fathom_workload::sample::{LaneSpan, Window};
use proptest::prelude::*;

use super::program::{FLUSH, READ, WRITE};
use super::*;
use crate::recording::Execution;

const US: u64 = 1000;
const RECORDER_US: u64 = 100;

/// A device on which a read takes 300, a write 1000 and a flush 4000, whatever came before.
fn slow(channels: usize) -> Model {
    let text = format!(
        "name = \"t\"\ntitle = \"t\"\nkind = \"sd\"\nsources = [\"test\"]\nchannels = {channels}\n\
         [read]\nrandom_us = 300\nmb_per_s = 1e6\n[write]\nrandom_us = 1000\nmb_per_s = 1e6\n[flush]\nbase_us = 4000\n"
    );
    Model::parse("test", &text).unwrap()
}

/// A run in the making: what its threads did on the recorder.
#[derive(Default)]
struct Run {
    threads: BTreeMap<u32, Vec<Mark>>,
    served: Vec<RequestTimes>,
    place: u64,
    executions: Vec<Execution>,
}

impl Run {
    /// A thread begins at a moment.
    fn begins(&mut self, thread: u32, at: u64) {
        let mark = Mark { thread, at_ns: at * US, call_ns: 0, cpu_ns: 5, queue_ns: 9, call: None };
        self.threads.entry(thread).or_default().push(mark);
    }

    /// A mark of a thread: since the one before it slept, was kept from its processor, ran, and
    /// then was in a call for so long, in which it ran for so long.
    fn step(&mut self, thread: u32, [slept, ready, ran]: [u64; 3], [call, call_cpu]: [u64; 2]) -> u64 {
        let marks = self.threads.get_mut(&thread).unwrap();
        let last = *marks.last().unwrap();
        let call_at = last.at_ns + (slept + ready + ran) * US;
        marks.push(Mark {
            thread,
            at_ns: call_at + call * US,
            call_ns: call * US,
            cpu_ns: last.cpu_ns + (ran + call_cpu) * US,
            queue_ns: last.queue_ns + ready * US,
            call: None,
        });
        call_at / US
    }

    /// An operation came.
    fn op(&mut self, at: u64, kind: u8) {
        // Never where the one before ended: no stream.
        self.place += 1 << 20;
        let done_ns = (at + RECORDER_US) * US;
        self.served.push(RequestTimes {
            kind,
            bytes: 4096,
            arrival_ns: at * US,
            asked_ns: done_ns,
            given_ns: done_ns,
            early_ns: 0,
            offset: self.place,
        });
    }

    fn now(&self, thread: u32) -> u64 {
        self.threads[&thread].last().unwrap().at_ns / US
    }

    fn recording(&self, from: u64, to: u64, lanes: &[u32]) -> Recording {
        let of_lane = |&thread: &u32| LaneSpan {
            thread,
            marked: vec![thread],
            start_ns: from.max(self.threads[&thread][0].at_ns / US) * US,
            end_ns: to.min(self.now(thread)) * US,
        };
        let window = Window {
            phase: "insert".into(),
            x: None,
            start_ns: from * US,
            end_ns: to * US,
            count: 1,
            changed_bytes: 0,
            lanes: lanes.iter().map(of_lane).collect(),
            excluded: Vec::new(),
        };
        let mut served = self.served.clone();
        served.sort_by_key(|operation| operation.arrival_ns);
        let (threads, executions) = (self.threads.clone(), self.executions.clone());
        Recording { windows: vec![window], executions, threads, served: vec![served], ..Recording::default() }
    }
}

/// The first phase on a device.
fn on(recording: &Recording, model: &Model) -> PhaseModel {
    let program = Program::of(recording).unwrap();
    simulate(&program, recording, model, 1).remove(0)
}

/// Model time, CPU, device, other, µs.
fn parts(model: &PhaseModel) -> [u64; 4] {
    [model.model_ns, model.cpu_ns, model.device_ns, model.other_ns].map(|ns| ns / US)
}

#[test]
fn a_commit_takes_what_it_computed_and_what_the_device_takes() {
    let mut run = Run::default();
    run.begins(0, 1000);
    // It computes 50 and syncs: two writes at once, and when they are done a flush.
    let call = run.step(0, [0, 0, 50], [260, 0]);
    run.op(call + 5, WRITE);
    run.op(call + 20, WRITE);
    run.op(call + 150, FLUSH);
    run.executions.push(Execution { window: 0, lane: 0, start_ns: 1000 * US, wall_ns: 310 * US });
    let recording = run.recording(1000, run.now(0), &[0]);
    // One channel serves the writes one after the other, two at once, 15 apart.
    let found = on(&recording, &slow(1));
    assert_eq!(parts(&found), [50 + 6000, 50, 6000, 0]);
    assert_eq!((found.each_ns / 1e3, found.operations), (6055.0 + 30.0 - 35.0, [0, 2, 1, 0]));
    assert_eq!(parts(&on(&recording, &slow(2))), [50 + 1015 + 4000, 50, 5015, 0]);
    assert_eq!(parts(&on(&recording, preset("none").unwrap())), [50, 50, 0, 0]);
    // Where nothing was late, on the device that it was recorded on it takes what it took.
    let itself = on(&recording, preset("recorder").unwrap());
    assert_eq!(parts(&itself), [50 + 115 + 100, 50, 215, 0]);
}

#[test]
fn what_came_when_all_before_was_done_waited_for_it_however_many_channels_there_are() {
    let mut run = Run::default();
    run.begins(0, 0);
    let call = run.step(0, [0, 0, 10], [400, 10]);
    for number in 0..3 {
        run.op(call + 10 + number * 130, READ);
    }
    let recording = run.recording(0, run.now(0), &[0]);
    for channels in [1, 8] {
        assert_eq!(parts(&on(&recording, &slow(channels))), [20 + 900, 20, 900, 0]);
    }
}

#[test]
fn what_nobody_waits_for_is_in_no_time_but_takes_the_device() {
    let mut run = Run::default();
    run.begins(0, 0);
    // Write-back comes while the thread computes 500 ...
    run.step(0, [0, 0, 200], [0, 0]);
    run.op(50, WRITE);
    let call = run.step(0, [0, 0, 300], [110, 0]);
    // ... and a read of 300 comes afterwards: the write of 1000 is in its way on one channel.
    run.op(call, READ);
    let recording = run.recording(0, run.now(0), &[0]);
    assert_eq!(parts(&on(&recording, &slow(2))), [500 + 300, 500, 300, 0]);
    assert_eq!(parts(&on(&recording, &slow(1))), [500 + 850, 500, 850, 0]);
    let program = Program::of(&recording).unwrap();
    assert!(program.notes()[0].contains("50 % of the operations"), "{:?}", program.notes());
}

#[test]
fn what_held_the_recording_up_is_in_no_simulation() {
    let mut run = Run::default();
    run.begins(0, 0);
    // Kept from its processor for 5000; then the answer was 3000 late.
    let call = run.step(0, [0, 5000, 40], [3100, 0]);
    run.op(call, FLUSH);
    let recording = run.recording(0, run.now(0), &[0]);
    assert_eq!(parts(&on(&recording, &slow(1))), [4040, 40, 4000, 0]);
    // A timer's sleep is the application's own.
    let mut run = Run::default();
    run.begins(0, 0);
    run.step(0, [700, 0, 40], [0, 0]);
    let recording = run.recording(0, run.now(0), &[0]);
    assert_eq!(parts(&on(&recording, &slow(1))), [740, 40, 0, 700]);
}

#[test]
fn who_waited_for_another_thread_waits_for_it_on_a_slower_device_too() {
    // They take turns: while one makes a commit of 110, the other sleeps.
    let mut run = Run::default();
    run.begins(0, 0);
    run.begins(1, 0);
    for _ in 0..10 {
        for thread in [0, 1] {
            let now = run.now(0).max(run.now(1));
            let slept = now - run.now(thread);
            let call = run.step(thread, [slept, 0, 20], [110, 0]);
            run.op(call + 5, FLUSH);
        }
    }
    let end = run.now(1);
    let recording = run.recording(0, end, &[0, 1]);
    // Each of the twenty computes 20 and flushes for 4000, and none overlaps another.
    assert_eq!(parts(&on(&recording, &slow(1))), [20 * 4020, 400, 80_000, 0]);
    let notes = Program::of(&recording).unwrap().notes();
    assert!(notes[0].starts_with("2 threads: they meet in the order of the recording"), "{notes:?}");
}

/// What happened: four processes that followed each other were "4 threads: they meet …".
#[test]
fn threads_that_follow_each_other_do_not_meet() {
    let notes = |second_begins: u64| {
        let mut run = Run::default();
        for (thread, begin) in [(0, 0), (1, second_begins)] {
            run.begins(thread, begin);
            for _ in 0..3 {
                let call = run.step(thread, [0, 0, 20], [110, 0]);
                run.op(call + 5, FLUSH);
            }
        }
        let recording = run.recording(0, run.now(1), &[0, 1]);
        Program::of(&recording).unwrap().notes()
    };
    // The first is at work for 390.
    assert_eq!(notes(390), [""; 0]);
    assert_eq!(notes(500), [""; 0]);
    let met = notes(389);
    assert!(met[0].starts_with("2 threads: they meet"), "{met:?}");
}

#[test]
fn threads_that_did_not_wait_for_each_other_share_the_device() {
    let mut run = Run::default();
    for thread in [0, 1] {
        run.begins(thread, u64::from(thread) * 7);
        for _ in 0..5 {
            let call = run.step(thread, [0, 0, 30], [100, 0]);
            run.op(call, READ);
        }
    }
    let recording = run.recording(0, run.now(1), &[0, 1]);
    // Two channels: both at once, 7 apart, as recorded. One: ten reads of 300 after the first 30.
    assert_eq!(parts(&on(&recording, &slow(2)))[0], 5 * 330 + 7);
    assert_eq!(parts(&on(&recording, &slow(1)))[0], 30 + 3000);
}

/// What happened: `fathom simulate` of an application with two threads (the profile `notes`) told
/// of 92 µs of device time a transaction on a device that takes none. The second thread began while
/// the first one, which had just begun, was asleep until the second had got to a place. The second
/// was not let go when the first one began, so that each waited for the other, until nothing else
/// was left to do; then both went on as of the run's beginning, on a device that was busy up to its
/// end. And so `fathom advise` named a setting that was 1.8 times as slow as the best.
#[test]
fn a_thread_that_began_because_another_had_begun_begins_when_that_one_does() {
    let mut run = Run::default();
    // The application's first thread makes a commit of 10,000, and has two others begin.
    run.begins(0, 0);
    let call = run.step(0, [0, 0, 100], [9900, 0]);
    run.op(call, FLUSH);
    let from = run.now(0);
    run.begins(1, from);
    run.begins(2, from + 50);
    // The later one flushes first; while it does, the other one wakes up.
    let call = run.step(2, [0, 0, 100], [110, 0]);
    run.op(call, FLUSH);
    let slept = call + 50 - from;
    let call = run.step(1, [slept, 0, 30], [140, 0]);
    run.op(call, FLUSH);
    let end = run.now(1);
    run.step(0, [end - from, 0, 1], [0, 0]);
    let recording = run.recording(from, end, &[1, 2]);
    assert_eq!(parts(&on(&recording, preset("none").unwrap())), [130, 130, 0, 0]);
    assert_eq!(parts(&on(&recording, &slow(1))), [100 + 8000, 130, 7970, 0]);
}

/// As above; here the one that it began after computes for long, and the later one was let go only
/// at the end of that. What it asked for came too early by so much, when the device knew of later
/// requests of a third one.
#[test]
fn a_thread_that_began_while_another_computed_asks_the_device_before_later_ones() {
    let mut run = Run::default();
    run.begins(0, 0);
    run.begins(1, 5);
    run.begins(2, 400);
    for (thread, ran) in [(0, 1000), (1, 5000), (2, 20)] {
        let call = run.step(thread, [0, 0, ran], [110, 0]);
        run.op(call, FLUSH);
    }
    let recording = run.recording(400, run.now(2), &[2]);
    assert_eq!(parts(&on(&recording, preset("none").unwrap())), [20, 20, 0, 0]);
    assert_eq!(parts(&on(&recording, &slow(1))), [4020, 20, 4000, 0]);
}

/// A call went on only when all had come that came in it, even what nobody waited for; by then the
/// device had that before what the thread asked for next, which had come earlier.
#[test]
fn a_call_ends_with_what_it_waits_for_and_not_with_what_comes_later() {
    let mut run = Run::default();
    run.begins(0, 0);
    // The flush is answered in the call; the write comes in it and is answered after it.
    let call = run.step(0, [0, 0, 10], [260, 0]);
    run.op(call, FLUSH);
    run.op(call + 190, WRITE);
    let call = run.step(0, [0, 0, 20], [110, 0]);
    run.op(call, READ);
    let recording = run.recording(0, run.now(0), &[0]);
    // The read comes at 4030, the write at 4100.
    assert_eq!(parts(&on(&recording, &slow(1))), [30 + 4300, 30, 4300, 0]);
}

#[test]
fn what_comes_before_a_phase_is_done_when_it_begins_and_in_none_of_its_numbers() {
    let mut run = Run::default();
    run.begins(0, 0);
    // Outside of calls that are seen (a whole file system is synced), before the phase.
    for number in 0..5 {
        run.op(10 + number * 3, WRITE);
    }
    run.step(0, [200, 0, 10], [0, 0]);
    let from = run.now(0);
    let call = run.step(0, [0, 0, 20], [110, 0]);
    run.op(call, FLUSH);
    let recording = run.recording(from, run.now(0), &[0]);
    let found = on(&recording, &slow(1));
    assert_eq!((parts(&found), found.operations), ([4020, 20, 4000, 0], [0, 0, 1, 0]));
}

#[test]
fn what_is_not_seen_is_not_simulated() {
    let mut run = Run::default();
    run.begins(0, 0);
    run.step(0, [0, 0, 10], [0, 0]);
    let seen = run.recording(0, 10, &[0]);
    let unmarked = Recording { threads: BTreeMap::new(), ..seen.clone() };
    assert_eq!(Program::of(&unmarked), Err(ReplayError::Threads));
    let mut no_lanes = seen.clone();
    no_lanes.windows[0].lanes.clear();
    assert_eq!(Program::of(&no_lanes), Err(ReplayError::Threads));
    assert_eq!(Program::of(&Recording { windows: Vec::new(), ..seen }), Err(ReplayError::Empty));
}

/// A run of one thread, by random steps: what it computes, and bursts of operations that follow one
/// another in the call.
fn any_run() -> impl Strategy<Value = Recording> {
    let burst = prop::collection::vec((0_u8..3, 0_u64..40), 1..4);
    let step = (1_u64..400, 0_u64..30, prop::collection::vec(burst, 0..4));
    prop::collection::vec(step, 1..12).prop_map(|steps| {
        let mut run = Run::default();
        run.begins(0, 5000);
        for (ran, call_cpu, bursts) in steps {
            let call_at = run.now(0) + ran;
            let mut at = call_at + call_cpu;
            for burst in bursts {
                for (kind, later) in burst {
                    at += later;
                    run.op(at, kind);
                }
                at += RECORDER_US + 20;
            }
            run.step(0, [0, 0, ran], [at - call_at, call_cpu]);
        }
        run.recording(5000, run.now(0), &[0])
    })
}

/// A turn of a random run of several threads: whose it is, what it computes before and in the call,
/// its bursts, and whether the next one begins when the call does, rather than when it is over.
/// Then who begins so much of the way (0 to 100) from the turn before to this one, unless it has
/// begun.
type Turn = (u32, u64, u64, Vec<Vec<(u8, u64)>>, bool, Vec<(u32, u64)>);

fn any_turn() -> impl Strategy<Value = Turn> {
    let burst = prop::collection::vec((0_u8..3, 0_u64..40), 1..4);
    let bursts = prop::collection::vec(burst, 0..3);
    let begin = prop::collection::vec((0_u32..5, 0_u64..=100), 0..4);
    (0_u32..5, 1_u64..3000, 0_u64..30, bursts, any::<bool>(), begin)
}

/// A run of several threads that take turns; each sleeps until its turn comes. Gives the largest
/// CPU time of a turn, µs.
fn taking_turns(turns: &[Turn]) -> (Recording, u64) {
    let mut run = Run::default();
    // The turn before this one began, and was over.
    let (mut before, mut now, mut most) = (1000, 1000, 0);
    for (thread, ran, call_cpu, bursts, overlaps, begin) in turns {
        for (thread, share) in begin.iter().chain([&(*thread, 100)]) {
            // One of which nothing more is known is none.
            let has_turn = turns.iter().any(|turn| turn.0 == *thread);
            if has_turn && !run.threads.contains_key(thread) {
                run.begins(*thread, before + (now - before) * share / 100);
            }
        }
        let from = now.max(run.now(*thread));
        let slept = from - run.now(*thread);
        // After a sleep what a call computes cannot be told from what came before it.
        let call_cpu = if slept > 0 { 0 } else { *call_cpu };
        let call_at = from + ran;
        let mut at = call_at + call_cpu;
        for burst in bursts {
            for (kind, later) in burst {
                at += later;
                run.op(at, *kind);
            }
            at += RECORDER_US + 20;
        }
        run.step(*thread, [slept, 0, *ran], [at - call_at, call_cpu]);
        let (start_ns, wall_ns) = (from * US, (at - from) * US);
        run.executions.push(Execution { window: 0, lane: *thread, start_ns, wall_ns });
        (before, now, most) = (from, if *overlaps { call_at } else { at }, most.max(ran + call_cpu));
    }
    let lanes: Vec<u32> = run.threads.keys().copied().collect();
    let end = lanes.iter().map(|thread| run.now(*thread)).max().unwrap_or(1000);
    (run.recording(1000, end, &lanes), most)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    /// Where the device costs nothing, nobody waits for it, whoever woke whom: no request takes any
    /// time, no execution longer than what was computed in it, and the run no longer than what all
    /// threads computed.
    #[test]
    fn on_a_device_that_costs_nothing_nothing_takes_longer_than_was_computed(
        turns in prop::collection::vec(any_turn(), 1..25)
    ) {
        let (recording, most) = taking_turns(&turns);
        let program = Program::of(&recording).unwrap();
        let none = preset("none").unwrap();
        let virtually = replay::replay(&program, &recording, none, 1);
        prop_assert_eq!(virtually.served[0].len(), recording.served[0].len());
        for request in &virtually.served[0] {
            prop_assert_eq!(request.given_ns, request.arrival_ns);
        }
        let in_order = virtually.served[0].is_sorted_by_key(|request| request.arrival_ns);
        prop_assert!(in_order, "virtual time goes on");
        prop_assert_eq!(virtually.samples.len(), turns.len());
        let found = on(&recording, none);
        // A gap that is no longer than this is taken to be computing.
        let slack = crate::model_time::SLACK_NS / US;
        let computed: u64 = turns.iter().map(|turn| turn.1 + turn.2 + slack).sum();
        let (model, slowest) = (found.model_ns / US, found.latency_ns[5] / US);
        prop_assert!(model <= computed && found.device_ns == 0, "{} {:?}", computed, parts(&found));
        prop_assert!(slowest <= most + slack, "{} of {}", slowest, most);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// A run that was simulated on one device and is recorded there tells of any third device what
    /// the first recording tells of it: nothing is made of the device that it came from.
    #[test]
    fn the_device_of_the_recording_is_not_in_the_answer(recording in any_run(), channels in 1_usize..4) {
        let program = Program::of(&recording).unwrap();
        let replay::Virtually { windows, marks, served, .. } =
            replay::replay(&program, &recording, preset("recorder").unwrap(), 3);
        let mut threads: BTreeMap<u32, Vec<Mark>> = BTreeMap::new();
        marks.marks.iter().for_each(|mark| threads.entry(mark.thread).or_default().push(*mark));
        let again = Recording { windows, executions: Vec::new(), threads, served, ..Recording::default() };
        let (first, second) = (on(&recording, &slow(channels)), on(&again, &slow(channels)));
        prop_assert_eq!(first.operations, second.operations);
        prop_assert_eq!(parts(&first), parts(&second));
    }

    /// A device that takes longer for everything never makes the run shorter, and one channel never
    /// shorter than two.
    #[test]
    fn a_slower_device_takes_no_less(recording in any_run()) {
        let none = on(&recording, preset("none").unwrap()).model_ns;
        let [one, two] = [1, 2].map(|channels| on(&recording, &slow(channels)).model_ns);
        let flushes = on(&recording, &slow(2).with_flushes(2.0)).model_ns;
        prop_assert!(none <= two && two <= one && two <= flushes, "{} {} {} {}", none, two, one, flushes);
    }
}

#[test]
fn a_run_whose_threads_are_not_seen_is_replayed_by_its_device() {
    let mut run = Run::default();
    for at in [1000, 2000] {
        run.op(at + 10, WRITE);
        run.op(at + 120, FLUSH);
        run.executions.push(Execution { window: 0, lane: 0, start_ns: at * US, wall_ns: 300 * US });
    }
    let on_device = |recording: &Recording| {
        let (alone, program) = Program::of_the_device(recording).unwrap();
        simulate(&program, &alone, &slow(1), 1).remove(0)
    };
    let recording = run.recording(1000, 2300, &[]);
    assert_eq!(Program::of(&recording), Err(ReplayError::Threads));
    let model = on_device(&recording);
    // A write and a flush each; what the machine took between them and between executions is not
    // the device's.
    assert_eq!(parts(&model), [10_000, 0, 10_000, 0]);
    assert_eq!(model.latency_ns.map(|ns| ns / US), [5000; 6]);
    // Nor what it took before the first and after the last, nor a moment that is too short to be
    // told from computing.
    run.executions[1].start_ns = 1305 * US;
    run.executions[1].wall_ns = 995 * US;
    assert_eq!(parts(&on_device(&run.recording(400, 3700, &[]))), [10_000, 0, 10_000, 0]);
    run.executions[1].start_ns = 2000 * US;

    run.executions[1].lane = 1;
    let refused = |run: &Run| Program::of_the_device(&run.recording(1000, 2300, &[])).err();
    assert_eq!(refused(&run), Some(ReplayError::NotOneByOne), "two lanes meet somehow");
    run.executions.clear();
    assert_eq!(refused(&run), Some(ReplayError::NotOneByOne), "no begins");
}
