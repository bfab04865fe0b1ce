//! `fathom advise --cut`: what power cuts really leave with the settings that are named, and with
//! those that the application has now.

use fathom_lab::advise::{Candidate, DeviceAdvice, Trial, common};
use fathom_output::{shown, tell};
use fathom_report::MeasuredCut;
use fathom_workload::spec::Durability;

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
    pub(super) fn cuts(
        &self,
        advised: &[DeviceAdvice],
        must: Durability,
        all: &mut Vec<MeasuredCut>,
    ) -> Result<(), Error> {
        let words = words(&self.asked.device);
        // Without a name all presets are advised on: the first of those is as good as any.
        let word_of = |number: usize| {
            let of_model = || self.devices.get(number).map(|model| model.name.clone());
            words.get(number).cloned().or_else(of_model).unwrap_or_else(|| "none".into())
        };
        let wanted = wanted(advised, must);
        tell!(
            "{}: power cuts of {} settings, at most {SECONDS} s each",
            shown(&self.what.title),
            wanted.len()
        );
        for (candidate, filesystem, number) in wanted {
            let device = word_of(number);
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

/// The settings that are explored, each with its file system and the number of the first device
/// that it is of: what the application has now, what is named for each device, and where these are
/// several, the one for all of them.
fn wanted(advised: &[DeviceAdvice], must: Durability) -> Vec<(Candidate, String, usize)> {
    let mut all: Vec<(Candidate, String, usize)> = Vec::new();
    let mut add = |candidate: &Candidate, filesystem: &String, number: usize| {
        if !all.iter().any(|known| known.0 == *candidate && known.1 == *filesystem) {
            all.push((candidate.clone(), filesystem.clone(), number));
        }
    };
    for (number, device) in advised.iter().enumerate() {
        for place in device.baseline.into_iter().chain(device.best) {
            let trial = &device.tried[place];
            add(&trial.candidate, &trial.filesystem, number);
        }
    }
    let mut named = advised.iter().filter_map(DeviceAdvice::best_trial);
    let first = named.next();
    let is_other = |trial: &Trial| {
        first.is_some_and(|first| first.candidate != trial.candidate || first.filesystem != trial.filesystem)
    };
    if named.any(is_other)
        && let Some(found) = common(advised, must)
    {
        add(&found.candidate, &found.filesystem, 0);
    }
    all
}

#[cfg(test)]
mod tests {
    use fathom_lab::stats::Interval;

    use super::super::live::tests::trial_of;
    use super::*;

    /// What happened: of three devices with three settings the one for all of them, which is pasted
    /// first, was the one whose power cuts were not explored.
    #[test]
    fn the_setting_for_all_devices_is_explored_too() {
        let trial = |pages: u32, ns: f64| Trial {
            label: pages.to_string(),
            durability: Some(Durability::PowerCut),
            runs: vec![(0, ns), (1, ns * 1.001), (2, ns * 0.999)],
            time_ns: Interval { low: ns, mid: ns, high: ns, n: 3, coverage: 0.95 },
            ..trial_of(Candidate { page_size: pages, ..Candidate::new("wal", "full") }, "ext4")
        };
        let must = Durability::PowerCut;
        let device = |times: [f64; 4]| {
            let pages = [512, 1024, 8192, 16384];
            let tried: Vec<Trial> = pages.into_iter().zip(times).map(|(of, ns)| trial(of, ns)).collect();
            let now = tried[3].candidate.clone();
            DeviceAdvice::of(Some("d".into()), String::new(), tried, &now, must)
        };
        let explored = |devices: &[DeviceAdvice]| -> Vec<(u32, usize)> {
            wanted(devices, must).iter().map(|of| (of.0.page_size, of.2)).collect()
        };
        let (one, other) = (device([40.0, 44.0, 60.0, 200.0]), device([60.0, 44.0, 40.0, 200.0]));
        assert_eq!(explored(&[one.clone(), other]), [(16384, 0), (512, 0), (8192, 1), (1024, 0)]);
        assert_eq!(explored(&[one.clone(), one]), [(16384, 0), (512, 0)]);
    }
}
