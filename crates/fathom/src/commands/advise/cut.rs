//! `fathom advise --cut`: what power cuts really leave with the settings that are named, and with
//! those that the application has now.

use fathom_lab::advise::{Candidate, DeviceAdvice};
use fathom_output::{shown, tell};
use fathom_report::MeasuredCut;

use super::super::record::{self, Purpose, RecordingRequest};
use super::live::words;
use super::rounds::Rounds;
use crate::outcome::Error;

/// Seconds for each setting.
const SECONDS: u64 = 30;

impl Rounds<'_> {
    /// Explores the power cuts of each setting once, on the first device that it is named for: what
    /// a device does at a cut is the same for all that keep what they have flushed.
    /// What was found before an error or a signal stays in `all`.
    pub(super) fn cuts(&self, advised: &[DeviceAdvice], all: &mut Vec<MeasuredCut>) -> Result<(), Error> {
        let words = words(&self.asked.device);
        // Without a name all presets are advised on: the first of those is as good as any.
        let word_of = |number: usize| {
            let of_model = || self.devices.get(number).map(|model| model.name.clone());
            words.get(number).cloned().or_else(of_model).unwrap_or_else(|| "none".into())
        };
        let mut wanted: Vec<(Candidate, String, String)> = Vec::new();
        for (number, device) in advised.iter().enumerate() {
            for place in device.baseline.into_iter().chain(device.best) {
                let trial = &device.tried[place];
                let is_known =
                    wanted.iter().any(|known| known.0 == trial.candidate && known.1 == trial.filesystem);
                if !is_known {
                    wanted.push((trial.candidate.clone(), trial.filesystem.clone(), word_of(number)));
                }
            }
        }
        tell!(
            "{}: power cuts of {} settings, at most {SECONDS} s each",
            shown(&self.what.title),
            wanted.len()
        );
        for (candidate, filesystem, device) in wanted {
            let what = RecordingRequest {
                purpose: Purpose::PowerCuts(SECONDS),
                filesystems: vec![filesystem.clone()],
                devices: vec![device],
                variants: vec![(candidate.key(), candidate.settings())],
                repeat: 1,
                more: None,
                ..self.what.clone()
            };
            let place = record::Place {
                directory: &self.directory,
                command: self.command,
                interrupt: self.interrupt,
            };
            tell!("{}: {}", shown(&self.what.title), shown(&candidate.name()));
            for finding in record::power_cuts(&what, &place)? {
                let (candidate, filesystem) = (candidate.clone(), filesystem.clone());
                all.push(MeasuredCut { candidate, filesystem, finding });
            }
            self.stopped()?;
        }
        Ok(())
    }
}
