//! Simulation: a recorded run on any modelled device, in virtual time.
//!
//! A run's [`Recording`] says what its threads computed, which operations they made in which order,
//! and what they waited for. That is a *closed loop*: a thread computes, asks, waits, and only then
//! goes on. So on another device the same work takes what it computed, and what that device's
//! [`Timeline`](fathom_device::Timeline) takes for the same operations, which come when the
//! loop has got there. Nothing sleeps; a million operations take less than a second.
//!
//! 1. [`Program`] makes the loop from the recording once: for each thread its *steps* (what it
//!    computed, slept, and the call on files that followed), for each step its operations in
//!    *bursts*. Operations that were under way together are a burst; one that came when all before
//!    it were done waited for them. A call waits for what was answered within it (an fsync for its
//!    writes and its flush). What nobody waited for (write-back) keeps its distance to the call or
//!    the pause that it came in, and is waited for by nobody.
//! 2. `replay` lets the loop go on a model: virtual times of every operation, mark and window.
//! 3. [`phase_models`] makes model time of these by the definition of docs/method.md, the same code
//!    as for a run that was measured, so that the two are the same number by the same rules.
//!
//! **What it cannot know** is told for each run ([`Program::notes`]): in which order several
//! threads would meet on a slower device, what a cache in memory or a timer (a journal's commit
//! every five seconds, write-back) would do in a run that takes longer, and what threads that are
//! not seen did.

mod program;
mod replay;
mod slowest;
mod study;

use fathom_device::Model;

use crate::model_time::{PhaseModel, phase_models};
use crate::recording::{Execution, Recording};

pub use program::{MEET, Program, ReplayError};
pub use slowest::{OperationCounts, Slowest};
pub use study::{ByTheDevice, DRAWS, EACH_FILE, Question, Row, SimulatedRun, Study, StudyError, study};

/// The phases of a recorded run on a device. The same seed gives the same times.
#[must_use]
pub fn simulate(program: &Program, recording: &Recording, model: &Model, seed: u64) -> Vec<PhaseModel> {
    let virtually = replay::replay(program, recording, model, seed);
    let replay::Virtually { windows, samples, marks, served } = virtually;
    phase_models(&windows, &samples, Some(&marks), &served)
}

/// As [`simulate`], and of each phase what its slowest executions did.
fn simulate_with_slowest(
    program: &Program,
    recording: &Recording,
    model: &Model,
    seed: u64,
) -> Vec<(PhaseModel, Option<Slowest>)> {
    let virtually = replay::replay(program, recording, model, seed);
    let replay::Virtually { windows, samples, marks, served } = virtually;
    let models = phase_models(&windows, &samples, Some(&marks), &served);
    // Where all executions are replayed, they are in the recording's order.
    let are_all = samples.len() == recording.executions.len();
    let replayed = recording.executions.iter().zip(&samples);
    let of_phase = |number: usize| {
        let is_of = |execution: &Execution| execution.window as usize == number;
        let executions: Vec<(Execution, u64)> = replayed
            .clone()
            .filter(|(execution, _)| is_of(execution))
            .map(|(execution, sample)| (*execution, sample.split.wall_ns))
            .collect();
        are_all.then(|| slowest::slowest(&executions, &recording.served)).flatten()
    };
    let numbered = models.into_iter().enumerate();
    numbered.map(|(number, model)| (model, of_phase(number))).collect()
}

/// As [`simulate`] without making model time of it: the virtual moment at which the run ends, ns.
/// For measuring the replay itself.
#[must_use]
pub fn replay_only(program: &Program, recording: &Recording, model: &Model, seed: u64) -> u64 {
    let virtually = replay::replay(program, recording, model, seed);
    virtually.served.iter().flatten().map(|operation| operation.asked_ns).max().unwrap_or(0)
}

#[cfg(test)]
mod tests;
