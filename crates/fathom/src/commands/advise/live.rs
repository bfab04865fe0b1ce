//! `fathom advise --live`: the best settings run on the modelled device itself, in paired blocks,
//! beside what the application has now.

use std::time::Duration;

use fathom_device::Model;
use fathom_lab::advise::{DeviceAdvice, LiveAdvice, leaders};
use fathom_lab::analysis::Analysis;
use fathom_output::{shown, tell};
use fathom_workload::spec::Durability;

use super::super::record::{self, Purpose, RecordingRequest};
use super::failure::Failure;
use super::rounds::{PHASE, Rounds};
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
            what.filesystems.clear();
            let mut run_ns = 0.0;
            for trial in places.iter().map(|place| &device.tried[*place]) {
                let variant = (trial.candidate.key(), trial.candidate.settings());
                if !what.variants.contains(&variant) {
                    what.variants.push(variant);
                }
                if !what.filesystems.contains(&trial.filesystem) {
                    what.filesystems.push(trial.filesystem.clone());
                }
                run_ns += trial.ns() * trial.count as f64;
            }
            let cells = what.variants.len() * what.filesystems.len();
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
                return Err(Error::failed("stopped before everything was run live"));
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

/// `about 40 s`, `about 12 min`.
fn about(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..=90 => format!("about {} s", seconds.max(1)),
        seconds => format!("about {} min", seconds.div_ceil(60)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_in_the_unit_that_fits() {
        for (seconds, told) in
            [(0, "about 1 s"), (90, "about 90 s"), (91, "about 2 min"), (600, "about 10 min")]
        {
            assert_eq!(about(Duration::from_secs(seconds)), told);
        }
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
