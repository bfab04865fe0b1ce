//! `fathom advise --live`: the best settings run on the modelled device itself, in paired blocks,
//! beside what the application has now.

use std::time::Duration;

use fathom_device::Model;
use fathom_lab::advise::{DeviceAdvice, LiveAdvice, Trial, leaders};
use fathom_lab::analysis::Analysis;
use fathom_output::{shown, tell};
use fathom_workload::spec::Durability;

use super::super::record::{self, Purpose, RecordingRequest};
use super::failure::Failure;
use super::rounds::{PHASE, Rounds, unfinished};
use crate::outcome::Error;

/// Runs of each setting where nobody says how many.
const RUNS: u32 = 5;

/// What is found of each device, and what must be known of it.
#[derive(Default)]
pub struct Live {
    pub devices: Vec<LiveAdvice>,
    pub notes: Vec<String>,
}

/// The words by which models were asked for, in their order: a file by its whole path, for runs are
/// asked for as an experiment's file asks, from wherever that lies.
pub fn words(devices: &[String]) -> Vec<String> {
    let all = devices.iter().flat_map(|word| word.split(',')).map(str::trim);
    let whole = |word: &str| match std::path::absolute(word) {
        Ok(path) if path.is_file() && word.contains(['/', '.']) => path.to_string_lossy().into_owned(),
        _ => word.to_owned(),
    };
    all.map(whole).collect()
}

impl Rounds<'_> {
    /// Runs the leaders of each device live. What was found before an error or a signal stays in
    /// `found`.
    pub(super) fn live(
        &mut self,
        models: &[Model],
        advised: &[DeviceAdvice],
        must: Durability,
        found: &mut Live,
    ) -> Result<(), Error> {
        let words = words(&self.asked.device);
        let runs = self.asked.repeat.unwrap_or(RUNS);
        for (number, ((model, word), device)) in models.iter().zip(words).zip(advised).enumerate() {
            let places = leaders(device, must);
            if places.len() < 2 {
                found.notes.push(format!("live on {}: there is nothing to compare", model.name));
                continue;
            }
            let mut what = RecordingRequest {
                purpose: Purpose::Live,
                devices: vec![word],
                repeat: runs,
                more: None,
                variants: Vec::new(),
                ..self.what.clone()
            };
            let trials: Vec<&Trial> = places.iter().map(|place| &device.tried[*place]).collect();
            what.filesystems.clear();
            what.variants = variants(&trials);
            let run_ns: f64 = trials.iter().map(|trial| trial.ns() * trial.count as f64).sum();
            let cells = what.variants.len();
            let device_time = Duration::try_from_secs_f64(run_ns / places.len() as f64 / 1e9);
            let each = device_time.unwrap_or_default().saturating_add(self.effort.of_run());
            let all = runs.saturating_mul(u32::try_from(cells).unwrap_or(u32::MAX));
            tell!(
                "{}: live on {}, {cells} settings x {runs} runs one after the other: {}",
                shown(&what.title),
                shown(&model.name),
                about(each.saturating_mul(all))
            );
            let place = record::Place {
                directory: &self.directory,
                command: self.command,
                interrupt: self.interrupt,
            };
            let file = self.kept.file.with_file_name(format!("live-{number}.db"));
            let (results, summary) =
                record::record_side_by_side(&what, &[file], &place, self.there.as_mut())?
                    .pop()
                    .ok_or_else(|| Error::failed("nothing was run live"))?;
            if summary.interrupted {
                let why = unfinished("run live", &[&summary], self.interrupt.is_raised());
                return Err(Error::failed(why));
            }
            self.stopped()?;
            let analysis = Analysis::of(&results).map_err(Error::failed)?;
            let of_device = LiveAdvice::of(device, &places, &results, &analysis, PHASE, runs);
            let failures = Failure::of(&results).into_iter();
            found.notes.extend(failures.map(|failure| format!("live on {}: {}", model.name, failure.told())));
            found.devices.push(of_device);
        }
        Ok(())
    }
}

/// Each trial as a variant with its own file system: of several file systems each setting is run on
/// the one that it was named on, and not on all of them.
fn variants(trials: &[&Trial]) -> Vec<(String, Vec<(String, String)>)> {
    let has_several = trials.iter().any(|trial| trial.filesystem != trials[0].filesystem);
    let of = |trial: &&Trial| {
        let key = trial.candidate.key();
        let name = if has_several { format!("{key} {}", trial.filesystem) } else { key };
        let mut settings = trial.candidate.settings();
        settings.push(("stack.filesystem".to_owned(), trial.filesystem.clone()));
        (name, settings)
    };
    trials.iter().map(of).collect()
}

/// `about 40 s`, `about 12 min`.
fn about(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..=90 => format!("about {} s", seconds.max(1)),
        seconds => format!("about {} min", seconds.div_ceil(60)),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use fathom_lab::advise::Candidate;
    use fathom_lab::experiment::{Experiment, Selection, TraceChoice, Vocabulary};
    use fathom_lab::stats::Interval;

    use super::*;

    /// A trial of which nothing but its setting counts.
    pub fn trial_of(candidate: Candidate, filesystem: &str) -> Trial {
        Trial {
            filesystem: filesystem.into(),
            label: candidate.journal_mode.clone(),
            candidate,
            durability: None,
            runs: Vec::new(),
            time_ns: Interval { low: 1.0, mid: 1.0, high: 1.0, n: 1, coverage: 0.0 },
            cpu_ns: 0.0,
            count: 1,
            p99_ns: None,
            flushes: 0.0,
            written_bytes: 0.0,
            writing: None,
            loss: None,
            is_log_felt: None,
            is_apart: false,
        }
    }

    #[test]
    fn times_are_told_in_the_unit_that_fits() {
        for (seconds, told) in
            [(0, "about 1 s"), (90, "about 90 s"), (91, "about 2 min"), (600, "about 10 min")]
        {
            assert_eq!(about(Duration::from_secs(seconds)), told);
        }
    }

    /// What happened: with `--fs ext4,xfs` every setting was run live on both file systems, twice
    /// the time that was needed, for numbers that nobody was shown.
    #[test]
    fn each_setting_is_run_live_on_its_own_file_system() {
        let trial = |journal: &str, filesystem| trial_of(Candidate::new(journal, "full"), filesystem);
        let all = [trial("delete", "ext4"), trial("wal", "xfs"), trial("wal", "ext4")];
        let what = RecordingRequest {
            purpose: Purpose::Live,
            trace: TraceChoice { label: "gmail".into(), parameter: "profile", value: "gmail".into() },
            filesystems: Vec::new(),
            devices: vec!["sd-slow".into()],
            variants: variants(&all.iter().collect::<Vec<_>>()),
            repeat: 2,
            more: None,
            sets: Vec::new(),
            title: "gmail".into(),
            seed: 1,
            machines: Vec::new(),
            hash: None,
        };
        let experiment = Experiment::parse("live", &what.source()).unwrap();
        let selection = Selection { traces: vec![what.trace.clone()], ..Selection::default() };
        let cells = experiment.cells(&selection, &Vocabulary::here()).unwrap().cells;
        let found: Vec<(String, String)> = cells
            .iter()
            .map(|(_, cell)| {
                let candidate = Candidate::of(cell.engine.as_ref().unwrap()).unwrap();
                (candidate.journal_mode, cell.stack.place.name().to_owned())
            })
            .collect();
        let wanted = [("delete", "ext4"), ("wal", "xfs"), ("wal", "ext4")];
        assert_eq!(found, wanted.map(|(journal, place)| (journal.to_owned(), place.to_owned())));
        // One file system goes without saying.
        assert_eq!(variants(&[&all[0]])[0].0, all[0].candidate.key());
    }

    #[test]
    fn a_models_file_is_named_by_its_whole_path_and_a_preset_by_its_name() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("mine.toml");
        std::fs::write(&file, "").unwrap();
        let file = file.to_string_lossy().into_owned();
        let given = [format!("sd-slow, {file}"), "emmc-51".to_owned()];
        assert_eq!(words(&given), ["sd-slow", &file, "emmc-51"]);
    }
}
