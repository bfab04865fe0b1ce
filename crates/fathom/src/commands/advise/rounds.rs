//! Recordings, round by round.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use fathom_device::Model;
use fathom_lab::advise::{self, Candidate, Effort, Finalists, Trial};
use fathom_lab::analysis::Analysis;
use fathom_lab::remote::Remote;
use fathom_lab::schedule::{Interrupt, Summary};
use fathom_lab::store::Results;
use fathom_output::{shown, tell};
use fathom_report::number;

use super::super::record::{self, MoreRuns, RecordingFile, RecordingRequest};
use super::error::{stopped, study_error};
use super::failure::Failure;
use super::hints::nothing_written;
use crate::cli::Advise;
use crate::outcome::Error;

/// The phase of a trace's replay.
pub(super) const PHASE: &str = "replay";

/// What was tried, by device, and what must be known of the numbers.
type Tried = (Vec<Vec<Trial>>, Vec<String>);

/// Recordings, round by round.
pub(super) struct Rounds<'a> {
    pub(super) asked: &'a Advise,
    pub(super) command: &'a str,
    pub(super) what: RecordingRequest,
    pub(super) kept: RecordingFile,
    pub(super) directory: PathBuf,
    /// Another machine that it is recorded on.
    pub(super) there: Option<Remote>,
    pub(super) interrupt: &'a Interrupt,
    pub(super) devices: &'a [Model],
    pub(super) is_modelled: bool,
    /// Recordings that are made at the same time.
    pub(super) parts: usize,
    /// Settings with which the application fails, and why.
    pub(super) broken: Vec<Failure>,
    /// When all of it began.
    pub(super) begun: Instant,
    /// What the rounds so far have taken.
    pub(super) effort: Effort,
    /// Whether a transaction over several files must be kept whole.
    pub(super) is_whole: bool,
}

impl advise::Recorder for Rounds<'_> {
    type Error = Error;

    fn record(&mut self, round: u32, candidates: Vec<Candidate>) -> Result<Vec<Vec<Trial>>, Error> {
        let beside = |part: usize| self.kept.file.with_file_name(format!("round-{round}-{part}.db"));
        let files: Vec<PathBuf> = (0..self.parts).map(beside).collect();
        let recording = Instant::now();
        let all = self.make(round, candidates, (1, None), &files)?;
        let simulating = Instant::now();
        // Side by side: one after the other takes that much longer at most.
        self.effort.recorded += (simulating - recording) * all.len() as u32;
        self.effort.runs += all.iter().map(|(_, summary)| summary.done as u32).sum::<u32>();
        let mut tried: Vec<Vec<Trial>> = Vec::new();
        for (results, summary) in &all {
            if summary.done == 0 {
                continue;
            }
            let (of_part, _) = self.tried(results)?;
            if tried.is_empty() {
                tried = of_part;
            } else {
                tried.iter_mut().zip(of_part).for_each(|(all, more)| all.extend(more));
            }
        }
        self.effort.simulated += simulating.elapsed();
        // Where the first of them could not be made at all, nobody waits for the others.
        if round == 1 && tried.iter().all(Vec::is_empty) {
            let why = self.broken.first().map_or_else(|| "no run was made".into(), Failure::reason);
            return Err(Error::failed(format!("nothing could be recorded: {}", shown(&why))));
        }
        // What wrote to temporary tables alone, or was rolled back, is seen when it was recorded.
        if round == 1 && tried.iter().flatten().all(|trial| trial.writing == Some(0)) {
            return Err(nothing_written(&shown(&self.what.title)));
        }
        if tried.is_empty() {
            tried = vec![Vec::new(); if self.is_modelled { self.devices.len() } else { 1 }];
        }
        self.stopped()?;
        if round == 1 {
            self.tell_if_long();
        }
        Ok(tried)
    }

    /// An eighth of what is left of the minute: the round itself and the last one need the rest.
    fn room(&self) -> usize {
        let of_setting = self.effort.of_setting() * self.what.filesystems.len().max(1) as u32;
        ((self.left() / 8).as_secs_f64() / of_setting.as_secs_f64().max(1e-3)) as usize
    }
}

impl Rounds<'_> {
    /// Where the last round's recordings lie.
    pub(super) fn last_file(&self) -> PathBuf {
        self.kept.file.with_file_name("last.db")
    }

    /// The last round, in one file, which `--out` keeps.
    pub(super) fn finals(&mut self, finalists: Finalists) -> Result<(Results, Tried), Error> {
        let Finalists { all: mut candidates, mut needed, leaders } = finalists;
        if self.asked.live {
            // What is run live stands beside what the last round has simulated of it.
            let (first, rest) = candidates.split_at(needed.min(candidates.len()));
            let mut all = first.to_vec();
            all.extend(leaders);
            let mut seen = Vec::new();
            all.retain(|candidate| {
                let is_new = !seen.contains(candidate);
                seen.push(candidate.clone());
                is_new
            });
            needed = all.len();
            all.extend(rest.iter().filter(|candidate| !seen.contains(candidate)).cloned());
            candidates = all;
        }
        if self.asked.repeat.is_none() {
            let filesystems = self.what.filesystems.len().max(1);
            candidates.truncate((self.effort.settings(self.left()) / filesystems).max(needed));
        }
        let repeats = self.repeats(candidates.len() * self.what.filesystems.len());
        let mut all = self.make(advise::ROUNDS, candidates, repeats, &[self.last_file()])?;
        let made = all.pop().filter(|made| made.1.done > 0);
        let (results, _) = made.ok_or_else(|| {
            let why = self.broken.last().map_or_else(|| "no run was made".into(), Failure::reason);
            Error::failed(format!("nothing could be recorded: {}", shown(&why)))
        })?;
        let tried = self.tried(&results)?;
        self.stopped()?;
        Ok((results, tried))
    }

    /// Runs of each of so many settings of the last round: as many as asked, else as many as there
    /// is time for. What is estimated may be wrong, so the time itself ends it, too.
    fn repeats(&self, settings: usize) -> (u32, Option<MoreRuns>) {
        if let Some(repeat) = self.asked.repeat {
            return (repeat, None);
        }
        let left = self.left();
        let most = self.effort.repeats(settings, left);
        let least = *advise::REPEATS.start();
        let budget = self.effort.recording(settings, left);
        (least, (most > least).then_some(MoreRuns { most, until: advise::PRECISE, budget }))
    }

    /// Says that the answer will not be there within the minute, before the user waits for it.
    fn tell_if_long(&self) {
        let repeats = self.asked.repeat.unwrap_or(*advise::REPEATS.start());
        let filesystems = self.what.filesystems.len().max(1) as u32;
        let rest = self.effort.rest(self.parts, repeats) * filesystems;
        if rest > advise::ANSWER_WITHIN {
            let title = shown(&self.what.title);
            tell!("{title}: {}", long_told(self.effort.of_run(), self.asked.repeat, rest));
        }
    }

    /// Until the answer is to be there.
    fn left(&self) -> Duration {
        advise::ANSWER_WITHIN.saturating_sub(self.begun.elapsed())
    }

    /// Makes the runs of a round, and notes which settings break the application.
    fn make(
        &mut self,
        round: u32,
        candidates: Vec<Candidate>,
        (repeat, more): (u32, Option<MoreRuns>),
        files: &[PathBuf],
    ) -> Result<Vec<(Results, Summary)>, Error> {
        let mut what = self.what.clone();
        (what.repeat, what.more) = (repeat, more);
        what.variants = candidates.iter().map(|candidate| (candidate.key(), candidate.settings())).collect();
        let cells = candidates.len() * what.filesystems.len();
        let runs = match more {
            Some(more) => format!("up to {} runs", cells * more.most as usize),
            None => format!("{} runs", cells * repeat as usize),
        };
        tell!(
            "{}: round {round} of {}, {runs} on {}",
            shown(&what.title),
            advise::ROUNDS,
            what.filesystems.join(", ")
        );
        let place =
            record::Place { directory: &self.directory, command: self.command, interrupt: self.interrupt };
        let all = record::record_side_by_side(&what, files, &place, self.there.as_mut())?;
        if all.iter().any(|part| part.1.interrupted) {
            let summaries: Vec<&Summary> = all.iter().map(|part| &part.1).collect();
            return Err(Error::failed(unfinished("recorded", &summaries, self.interrupt.is_raised())));
        }
        for failure in all.iter().flat_map(|part| Failure::of(&part.0)) {
            if !self.broken.iter().any(|known| known.name == failure.name) {
                self.broken.push(failure);
            }
        }
        Ok(all)
    }

    /// What the settings take, by device.
    fn tried(&self, results: &Results) -> Result<Tried, Error> {
        let (tried, notes) = if self.is_modelled {
            advise::trials(results, self.devices, PHASE, None).map_err(study_error)?
        } else {
            let analysis = Analysis::of(results).map_err(Error::failed)?;
            let here = advise::trials_here(results, &analysis, PHASE).map_err(Error::failed)?;
            (vec![here], Vec::new())
        };
        Ok((if self.is_whole { whole(tried) } else { tried }, notes))
    }

    pub(super) fn stopped(&self) -> Result<(), Error> {
        stopped(self.interrupt)
    }
}

/// What was tried, of an application whose transactions over several files must be kept whole.
pub(super) fn whole(tried: Vec<Vec<Trial>>) -> Vec<Vec<Trial>> {
    let of_device = |tried: Vec<Trial>| tried.into_iter().map(Trial::of_whole_transactions).collect();
    tried.into_iter().map(of_device).collect()
}

/// That the answer takes `rest` more, and what takes so long: one run, or the many that were asked
/// for (`repeat`).
fn long_told(of_run: Duration, repeat: Option<u32>, rest: Duration) -> String {
    let takes = number::time(of_run.as_nanos() as f64);
    let minutes = rest.as_secs().div_ceil(60);
    let (runs, sooner) = match repeat.filter(|repeat| repeat > advise::REPEATS.start()) {
        Some(repeat) => {
            (format!(", and --repeat {repeat} asks for as many of each setting"), "a smaller one")
        }
        None => (
            String::new(),
            "200 that write are enough for most, and a part of the trace (`fathom trace part --transactions 200`)",
        ),
    };
    format!(
        "one recording takes {takes}{runs}, so that the answer takes some {minutes} minutes more; {sooner} is answered sooner"
    )
}

/// Why not everything was `done`. Where nobody wanted to stop, a machine is gone, and the last run
/// that failed says why.
pub(super) fn unfinished(done: &str, summaries: &[&Summary], is_stopped: bool) -> String {
    let words = format!("stopped before everything was {done}");
    let last = summaries.iter().filter_map(|summary| summary.failed.last()).next_back();
    match last.filter(|_| !is_stopped) {
        Some((_, reason)) => format!("{words}: {}", shown(reason)),
        None => words,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened: `--repeat 100` of recordings that take 160 ms was told that "one recording
    /// takes 0 s", and to take a trace of fewer transactions.
    #[test]
    fn what_takes_long_is_told_of_many_short_runs_as_of_few_long_ones() {
        let told = long_told(Duration::from_millis(160), Some(100), Duration::from_secs(65));
        assert!(told.starts_with("one recording takes 160 ms, and --repeat 100 asks"), "{told}");
        assert!(told.contains("some 2 minutes more") && !told.contains("transactions"), "{told}");
        let told = long_told(Duration::from_secs(30), None, Duration::from_secs(600));
        assert!(told.starts_with("one recording takes 30 s, so that the answer takes some 10 min"), "{told}");
        assert!(told.ends_with("trace part --transactions 200`) is answered sooner"), "{told}");
    }

    /// Whoever had pulled out the board's cable was told that it was stopped, and not by what.
    #[test]
    fn a_machine_that_is_gone_is_named_as_the_reason() {
        let failed = ["it crashed", "the connection to ssh:board was lost: it was closed"];
        let failed = failed.map(|reason| ("wal full".to_owned(), reason.to_owned())).to_vec();
        let gone = Summary { failed, interrupted: true, ..Summary::default() };
        assert_eq!(
            unfinished("recorded", &[&gone], false),
            "stopped before everything was recorded: the connection to ssh:board was lost: it was closed"
        );
        assert_eq!(unfinished("run live", &[&gone], true), "stopped before everything was run live");
        let unknown = unfinished("recorded", &[&Summary::default()], false);
        assert_eq!(unknown, "stopped before everything was recorded");
    }
}
