//! Judges states, several at once, and counts what became of them.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::error::CutError;
use crate::states::{Epoch, State, States};
use crate::verdict::{Class, Verdict};

/// Whoever tells what a state is worth.
pub trait Judge {
    /// The verdict on a state of an epoch.
    ///
    /// # Errors
    /// The state could not be made: no verdict on anything but the machine.
    fn judge(&mut self, epoch: &Epoch, state: &State) -> Result<Verdict, CutError>;
}

/// What states a power cut leaves, judged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tally {
    /// How many were judged.
    pub states: u64,
    /// How many of each class.
    pub classes: BTreeMap<Class, u64>,
    /// The worst, with the number of the first state that has it.
    pub worst: Option<(usize, Verdict)>,
    /// The first state of each class.
    pub first: BTreeMap<Class, usize>,
    /// The run from its begin to its end, in parts of as many moments: of each part how many states
    /// have which class. Empty where the moments were not told.
    pub along: Vec<BTreeMap<Class, u64>>,
}

/// Parts of a run in [`Tally::along`] at most.
pub const PARTS: usize = 120;

impl Tally {
    /// Counts a verdict.
    pub fn add(&mut self, number: usize, verdict: Verdict) {
        let class = verdict.class();
        self.states += 1;
        *self.classes.entry(class).or_default() += 1;
        self.keep_first(class, number);
        self.keep_worst(number, verdict);
    }

    /// The same, of a state of the `moment`th of so many moments of the run.
    pub fn add_at(&mut self, number: usize, verdict: Verdict, moment: usize, moments: usize) {
        let parts = moments.clamp(1, PARTS);
        self.along.resize(parts.max(self.along.len()), BTreeMap::new());
        if let Some(part) = self.along.get_mut(moment * parts / moments.max(1)) {
            *part.entry(verdict.class()).or_default() += 1;
        }
        self.add(number, verdict);
    }

    fn join(&mut self, other: Tally) {
        self.along.resize(other.along.len().max(self.along.len()), BTreeMap::new());
        for (part, more) in self.along.iter_mut().zip(&other.along) {
            for (class, states) in more {
                *part.entry(*class).or_default() += states;
            }
        }
        self.states += other.states;
        for (class, states) in other.classes {
            *self.classes.entry(class).or_default() += states;
        }
        for (class, number) in other.first {
            self.keep_first(class, number);
        }
        if let Some((number, verdict)) = other.worst {
            self.keep_worst(number, verdict);
        }
    }

    fn keep_first(&mut self, class: Class, number: usize) {
        let first = self.first.entry(class).or_insert(number);
        *first = number.min(*first);
    }

    /// Of verdicts that are equally bad the first state's.
    fn keep_worst(&mut self, number: usize, verdict: Verdict) {
        let is_worse = self
            .worst
            .as_ref()
            .is_none_or(|(of, worst)| rank(&verdict).cmp(&rank(worst)).then(of.cmp(&number)).is_gt());
        if is_worse {
            self.worst = Some((number, verdict));
        }
    }

    /// How many states are worse than a class.
    #[must_use]
    pub fn worse_than(&self, allowed: Class) -> u64 {
        self.classes.iter().filter(|class| *class.0 > allowed).map(|class| class.1).sum()
    }

    /// How many states are not kept as they were acknowledged.
    #[must_use]
    pub fn not_kept(&self) -> u64 {
        self.states - self.classes.get(&Class::Kept).copied().unwrap_or(0)
    }
}

/// How bad a verdict is: what the words say does not count.
fn rank(verdict: &Verdict) -> (Class, u64) {
    let commits = if let Verdict::Lost(commits) = verdict { *commits } else { 0 };
    (verdict.class(), commits)
}

/// What limits an exploration.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Only states that have this turn or a later one.
    pub from: usize,
    /// Only so many turns, those before `from` included.
    pub states: usize,
    /// No further state is begun after so long.
    pub time: Option<Duration>,
}

/// How an exploration ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exploration {
    /// What was found.
    pub tally: Tally,
    /// Time on the clock, ns.
    pub wall_ns: u64,
    /// Whether it was stopped from outside.
    pub interrupted: bool,
}

/// Judges the states that have the first turns ([`States::turns`]), one judge a thread. What is
/// found depends on neither the number of threads nor their speed, as long as no limit of time ends
/// it. Where none does, states of one moment are judged one after the other: their images differ
/// least.
///
/// # Errors
/// The first judge's that could not make a state.
pub fn explore<J: Judge + Send>(
    states: &States,
    judges: &mut [J],
    limits: Limits,
    stop: &(dyn Fn() -> bool + Sync),
    on_progress: &(dyn Fn(usize, usize) + Sync),
) -> Result<Exploration, CutError> {
    let begin = Instant::now();
    let end = states.len().min(limits.states);
    let mut order = states.turns(end);
    order.drain(..limits.from.min(order.len()));
    if limits.time.is_none() {
        order.sort_by_key(|&number| states.epoch_of(number));
    }
    let next = AtomicUsize::new(0);
    let failed: Mutex<Option<CutError>> = Mutex::new(None);
    let is_over = || {
        stop()
            || limits.time.is_some_and(|time| begin.elapsed() >= time)
            || failed.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    };
    let work = |judge: &mut J| {
        let mut tally = Tally::default();
        while !is_over() {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(&number) = order.get(place) else { break };
            let Some(state) = states.get(number) else { break };
            let Some(epoch) = states.epochs.get(state.epoch) else { break };
            match judge.judge(epoch, &state) {
                Ok(verdict) => tally.add_at(number, verdict, state.epoch, states.epochs.len()),
                Err(error) => {
                    let error = at_state(error, number);
                    failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                }
            }
            on_progress(limits.from + place + 1, end);
        }
        tally
    };
    let tallies: Vec<Tally> = std::thread::scope(|scope| {
        let threads: Vec<_> = judges.iter_mut().map(|judge| scope.spawn(|| work(judge))).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    let ended = tallies.len();
    let mut tally = Tally::default();
    tallies.into_iter().for_each(|for_each| tally.join(for_each));
    if let Some(error) = failed.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(with_worst(error, &tally));
    }
    if ended < judges.len() {
        return Err(CutError::Usage(
            "a thread that judged states has panicked: this is a bug of Fathom's".into(),
        ));
    }
    Ok(Exploration { tally, wall_ns: begin.elapsed().as_nanos() as u64, interrupted: stop() })
}

/// The machine's failure, with the state at which it was: where it is always that one, it may be no
/// failure of the machine's.
fn at_state(error: CutError, number: usize) -> CutError {
    match error {
        CutError::Machine { problem, before } => {
            CutError::Machine { problem: format!("state {number}: {problem}"), before }
        }
        error => error,
    }
}

/// The machine's failure, with the worst of what was judged before it: a verdict is one still.
fn with_worst(error: CutError, tally: &Tally) -> CutError {
    match (error, &tally.worst) {
        (CutError::Machine { problem, .. }, Some((_, verdict))) if verdict.class() > Class::Kept => {
            let states = tally.states;
            let before = format!(", but that the worst of {states} states that were judged is: {verdict}");
            CutError::Machine { problem, before }
        }
        (error, _) => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened: of a cell whose database could not be opened after a cut nothing was said
    /// where memory ran short at a later state.
    #[test]
    fn what_was_found_before_the_machine_failed_is_said() {
        let failure = || CutError::Machine { problem: "out of memory".into(), before: String::new() };
        assert!(at_state(failure(), 17).to_string().starts_with("state 17: out of memory: "));
        let mut tally = Tally::default();
        tally.add(3, Verdict::Kept);
        let told = with_worst(failure(), &tally).to_string();
        assert!(told.contains("a power cut leaves; give the command again"), "{told}");
        tally.add(4, Verdict::Lost(7));
        let told = with_worst(failure(), &tally).to_string();
        assert!(told.contains("leaves, but that the worst of 2 states that were judged is: "), "{told}");
        assert!(told.contains(&Verdict::Lost(7).to_string()), "{told}");
        let other = with_worst(CutError::Usage("wrong".into()), &tally).to_string();
        assert_eq!(other, "wrong");
    }
}
