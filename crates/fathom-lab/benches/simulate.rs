//! How many operations a second are replayed: `cargo bench -p fathom-lab --bench simulate`.
//!
//! A recording of 200,000 commits of five operations each is replayed on presets: *replay* is the
//! closed loop in virtual time alone, *whole* with the model time that is made of it, as `fathom
//! simulate` does it. The bar is 1,000,000 operations a second.

#![allow(clippy::unwrap_used, reason = "a benchmark that cannot do its work has nothing to say")]

use std::collections::BTreeMap;
use std::time::Instant;

use fathom_device::{RequestTimes, preset};
use fathom_lab::recording::{Execution, Recording};
use fathom_lab::simulate::{Program, replay_only, simulate};
use fathom_probe::Mark;
use fathom_workload::sample::{LaneSpan, Window};

const COMMITS: u64 = 200_000;

fn recording() -> Recording {
    let (mut marks, mut served, mut executions) = (Vec::new(), Vec::new(), Vec::new());
    let (mut at_ns, mut cpu_ns) = (1_000_000_u64, 0);
    marks.push(Mark { thread: 0, at_ns, call_ns: 0, cpu_ns, queue_ns: 0, call: None });
    for commit in 0..COMMITS {
        let start_ns = at_ns;
        let call_ns = at_ns + 60_000;
        // Two writes at once, a flush, a write, a flush: a journal's commit.
        for (number, (kind, after_ns)) in
            [(1, 20_000), (1, 30_000), (2, 160_000), (1, 290_000), (2, 420_000)].into_iter().enumerate()
        {
            let arrival_ns = call_ns + after_ns;
            let done_ns = arrival_ns + 100_000;
            let offset = (commit * 5 + number as u64) * 4096;
            served.push(RequestTimes {
                kind,
                bytes: 4096,
                arrival_ns,
                asked_ns: done_ns,
                given_ns: done_ns,
                early_ns: 0,
                offset,
            });
        }
        at_ns = call_ns + 530_000;
        cpu_ns += 70_000;
        marks.push(Mark { thread: 0, at_ns, call_ns: 530_000, cpu_ns, queue_ns: 0, call: None });
        executions.push(Execution { window: 0, lane: 0, start_ns, wall_ns: at_ns - start_ns });
    }
    let lane = LaneSpan { thread: 0, marked: vec![0], start_ns: 1_000_000, end_ns: at_ns };
    let window = Window {
        phase: "insert".into(),
        x: None,
        start_ns: 1_000_000,
        end_ns: at_ns,
        count: COMMITS,
        changed_bytes: 0,
        lanes: vec![lane],
        excluded: Vec::new(),
    };
    let threads = BTreeMap::from([(0, marks)]);
    Recording {
        windows: vec![window],
        executions,
        threads,
        served: vec![served],
        statements: Default::default(),
    }
}

fn main() {
    let recording = recording();
    let operations = recording.operations() as f64;
    let timed = |what: &str, work: &dyn Fn()| {
        let mut best = f64::INFINITY;
        for _ in 0..5 {
            let began = Instant::now();
            work();
            best = best.min(began.elapsed().as_secs_f64());
        }
        println!("{what:28} {:6.2} million operations a second", operations / best / 1e6);
    };
    let bytes = recording.encode();
    println!("{operations} operations, {:.1} bytes each as they are kept", bytes.len() as f64 / operations);
    timed("read", &|| drop(Recording::decode(&bytes).unwrap()));
    timed("made a loop", &|| drop(Program::of(&recording).unwrap()));
    let program = Program::of(&recording).unwrap();
    for name in ["sd-slow", "emmc-51", "ufs-fresh"] {
        let model = preset(name).unwrap();
        timed(&format!("replay, {name}"), &|| {
            std::hint::black_box(replay_only(&program, &recording, model, 1));
        });
        timed(&format!("whole, {name}"), &|| drop(simulate(&program, &recording, model, 1)));
    }
}
