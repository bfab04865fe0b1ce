//! The recording of a run: all that its model time on another device is made from.
//!
//! What a modelled device served, the marks of the run's threads, and when its executions were: the
//! same three records that [`model_time`](crate::model_time) makes the run's own model time from,
//! with the places of the operations. [`simulate`](crate::simulate) replays them on other models.
//! The statements that were executed are kept beside them, without the values in them, for
//! [`anatomy`](crate::anatomy).
//!
//! A run keeps one with `[instruments] operations = true`. It lies in results.db, one row a run
//! (`recording`), under the run's checksum: a recording belongs to its cell, settings and engine,
//! and damage shows like that of any number. `codec` has the bytes, some 18 for an operation.

mod codec;

use std::collections::BTreeMap;

use fathom_device::{RequestTimes, SERVED_MAX};
use fathom_probe::{Mark, Marks, Split, StatementExecution, Statements};
use fathom_workload::sample::{LaneSpan, Sample, Window};

pub use codec::CodecError;

/// An execution within a [`Recording`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Execution {
    /// Number of its window.
    pub window: u32,
    /// The lane that executed it, as in [`Sample::thread`].
    pub lane: u32,
    /// Its begin, CLOCK_MONOTONIC, ns.
    pub start_ns: u64,
    /// How long it took, ns.
    pub wall_ns: u64,
}

impl Execution {
    /// Its end, CLOCK_MONOTONIC, ns.
    #[must_use]
    pub fn end_ns(&self) -> u64 {
        self.start_ns + self.wall_ns
    }

    /// As the execution of its window that model time is made of: when it was, and nothing else.
    pub(crate) fn sample(&self, window: &Window, seq: u64) -> Sample {
        Sample {
            phase: window.phase.clone(),
            x: window.x,
            seq,
            thread: self.lane,
            rows: 0,
            split: Split { wall_ns: self.wall_ns, ..Split::default() },
            database: None,
            start_ns: self.start_ns,
        }
    }
}

/// A run as it was recorded. Times are CLOCK_MONOTONIC of the machine it ran on, ns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recording {
    /// When its phases were.
    pub windows: Vec<Window>,
    /// Executions, by window and in order of their begin; those whose begin is not known are not
    /// here.
    pub executions: Vec<Execution>,
    /// Marks by thread, in order of time; none where the threads that work are not seen.
    pub threads: BTreeMap<u32, Vec<Mark>>,
    /// What each device of the stack served, in order of arrival.
    pub served: Vec<Vec<RequestTimes>>,
    /// Statements of its phases, those of one thread in order of time; none where the engine did
    /// not tell of them.
    pub statements: Statements,
}

impl Recording {
    /// Of a run that has just ended. None where a device served more than it keeps.
    #[must_use]
    pub fn of_run(
        windows: &[Window],
        samples: &[Sample],
        marks: Option<&Marks>,
        statements: &Statements,
        served: &[Vec<RequestTimes>],
    ) -> Option<Recording> {
        if served.iter().any(|of_device| of_device.len() >= SERVED_MAX) {
            return None;
        }
        let window_of = |sample: &Sample| {
            let is_of = |window: &Window| window.phase == sample.phase && window.x == sample.x;
            windows.iter().position(is_of).and_then(|number| u32::try_from(number).ok())
        };
        let told = samples.iter().filter(|sample| sample.start_ns > 0);
        let mut executions: Vec<Execution> = told
            .filter_map(|sample| {
                let window = window_of(sample)?;
                let (start_ns, wall_ns) = (sample.start_ns, sample.split.wall_ns);
                Some(Execution { window, lane: sample.thread, start_ns, wall_ns })
            })
            .collect();
        executions.sort_by_key(|execution| (execution.window, execution.start_ns));
        let mut threads: BTreeMap<u32, Vec<Mark>> = BTreeMap::new();
        // Threads whose marks are not all there cannot be told.
        let marks = marks.filter(|marks| marks.lost == 0 && marks.knows_queue);
        for mark in marks.map(|marks| marks.marks.as_slice()).unwrap_or_default() {
            threads.entry(mark.thread).or_default().push(*mark);
        }
        let mut served = served.to_vec();
        for of_device in &mut served {
            of_device.sort_by_key(|operation| operation.arrival_ns);
        }
        let statements = of_phases(statements, windows);
        Some(Recording { windows: windows.to_vec(), executions, threads, served, statements })
    }

    /// The same run by its device alone, where the threads that work are not seen and executions
    /// came one after the other: as if one thread had been in a call from the begin of each
    /// execution to its end, and had been kept from its processor between. A phase goes from its
    /// first execution to the end of its last: what this machine took before and after is not the
    /// device's. None where several lanes executed, or the begins of executions are not known.
    pub(crate) fn by_the_device(&self) -> Option<Recording> {
        const THREAD: u32 = 0;
        let lane = self.executions.first()?.lane;
        let has_one = |window: &Window| window.lanes.len() <= 1;
        if !self.windows.iter().all(has_one) || self.executions.iter().any(|other| other.lane != lane) {
            return None;
        }
        let mut executions: Vec<&Execution> = self.executions.iter().collect();
        executions.sort_by_key(|execution| execution.start_ns);
        let mut marks: Vec<Mark> = Vec::with_capacity(executions.len() * 2);
        for execution in executions {
            let (start_ns, end_ns) = (execution.start_ns, execution.end_ns());
            let last = marks.last().copied().unwrap_or(Mark { at_ns: start_ns, ..Mark::default() });
            if start_ns < last.at_ns {
                return None;
            }
            let queue_ns = last.queue_ns + (start_ns - last.at_ns);
            marks.push(Mark { thread: THREAD, at_ns: start_ns, call_ns: 0, cpu_ns: 0, queue_ns, call: None });
            let call_ns = execution.wall_ns;
            marks.push(Mark { thread: THREAD, at_ns: end_ns, call_ns, cpu_ns: 0, queue_ns, call: None });
        }
        let windows = self.windows.iter().enumerate().map(|(number, window)| {
            let is_of = |execution: &&Execution| execution.window as usize == number;
            let begins = self.executions.iter().filter(is_of).map(|execution| execution.start_ns);
            let ends = self.executions.iter().filter(is_of).map(Execution::end_ns);
            let start_ns = begins.min().unwrap_or(window.start_ns);
            let end_ns = ends.max().unwrap_or(start_ns);
            let lanes = vec![LaneSpan { thread: lane, marked: vec![THREAD], start_ns, end_ns }];
            Window { lanes, ..window.clone() }
        });
        Some(Recording {
            windows: windows.collect(),
            threads: BTreeMap::from([(THREAD, marks)]),
            ..self.clone()
        })
    }

    /// Operations of all devices.
    #[must_use]
    pub fn operations(&self) -> usize {
        self.served.iter().map(Vec::len).sum()
    }
}

/// The statements that began within a phase, with the texts of these alone.
fn of_phases(all: &Statements, windows: &[Window]) -> Statements {
    let is_within = |execution: &&StatementExecution| {
        let at = execution.start_ns;
        windows.iter().any(|window| window.start_ns <= at && at < window.end_ns)
    };
    let mut kept = Statements::default();
    let mut places: BTreeMap<u32, u32> = BTreeMap::new();
    for execution in all.executions.iter().filter(is_within) {
        let Some(text) = all.texts.get(execution.text as usize) else { continue };
        let next = places.len() as u32;
        let place = *places.entry(execution.text).or_insert(next);
        if place == next {
            kept.texts.push(text.clone());
        }
        kept.executions.push(StatementExecution { text: place, ..*execution });
    }
    kept.executions.sort_by_key(|execution| (execution.thread, execution.start_ns));
    kept
}

#[cfg(test)]
mod tests;
