//! One setting for several devices.

use fathom_workload::spec::Durability;
use serde::Serialize;

use super::choice::{ENOUGH, SAME, allowed, effort_of, loses_no_more, lost};
use super::{Candidate, DeviceAdvice, Trial};

/// The setting that is nowhere far behind the best.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Common {
    /// The settings.
    pub candidate: Candidate,
    /// The file system.
    pub filesystem: String,
    /// How many times as long a transaction takes with it where that is the most, as with what is
    /// best there.
    pub worst: f64,
    /// For each device: its place in what was tried there, and the same there.
    pub of_each: Vec<(usize, f64)>,
}

/// Of the settings that were tried on all devices and may be named on each of them, the one that is
/// the least behind where it is furthest behind; of those within 2 % of that, the one that changes
/// less than what the application has. Where commits may be lost, of those within 5 % the one that
/// loses the fewest. None for a single device, and where one has no advice.
#[must_use]
pub fn common(devices: &[DeviceAdvice], must: Durability) -> Option<Common> {
    let first = devices.first().filter(|_| devices.len() > 1)?;
    let best: Vec<f64> =
        devices.iter().map(|device| device.best_trial().map(Trial::ns)).collect::<Option<_>>()?;
    let now = first.baseline.map(|place| &first.tried[place]);
    // What locks others out has to be proven to be faster on each.
    let places: Vec<Vec<usize>> = devices
        .iter()
        .map(|device| {
            let now = device.baseline.map(|place| &device.tried[place]);
            allowed(&device.tried, must, now).into_iter().map(|pair| pair.0).collect()
        })
        .collect();
    let mut all: Vec<(&Trial, Common)> = Vec::new();
    for trial in &first.tried {
        if !trial.keeps(must) || trial.is_idle(&first.tried) {
            continue;
        }
        let is_same =
            |other: &Trial| other.candidate == trial.candidate && other.filesystem == trial.filesystem;
        let of_each: Option<Vec<(usize, f64)>> = devices
            .iter()
            .zip(best.iter().zip(&places))
            .map(|(device, (best, allowed))| {
                let place = device.tried.iter().position(is_same).filter(|place| allowed.contains(place))?;
                Some((place, device.tried[place].ns() / best))
            })
            .collect();
        let Some(of_each) = of_each else { continue };
        let worst = of_each.iter().map(|of| of.1).fold(0.0, f64::max);
        let (candidate, filesystem) = (trial.candidate.clone(), trial.filesystem.clone());
        all.push((trial, Common { candidate, filesystem, worst, of_each }));
    }
    let first = all.iter().min_by(|a, b| a.1.worst.total_cmp(&b.1.worst))?;
    let (nearest, may_lose) = (first.1.worst, first.0.kept() == Some(Durability::PowerCutPrefix));
    // Where commits may be lost, a little speed is given for fewer of them, as on a single device.
    if may_lose {
        let near = all.iter().filter(|pair| pair.1.worst <= nearest * ENOUGH);
        let fewest = near.map(|pair| lost(pair.0)).fold(f64::INFINITY, f64::min);
        all.retain(|pair| loses_no_more(pair.0, fewest));
    }
    let least = all.iter().map(|pair| pair.1.worst).min_by(f64::total_cmp)?;
    let near = all.into_iter().filter(|pair| pair.1.worst <= least * SAME);
    let order = |one: &(&Trial, Common)| effort_of(one.0, now);
    near.min_by(|a, b| order(a).cmp(&order(b)).then(a.1.worst.total_cmp(&b.1.worst))).map(|pair| pair.1)
}
