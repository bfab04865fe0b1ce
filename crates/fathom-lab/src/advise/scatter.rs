//! How far the recordings of one setting differ, by what is made of them.

use super::DeviceAdvice;
use crate::stats::coefficient_of_variation;

/// Runs of one setting that scatter by more than this are worth a sentence.
const WIDE: f64 = 0.15;

/// Where the runs of a setting differ by much on a device: the worst, as a sentence tells it. It is
/// of the times that are shown; the device that recordings are made on takes others.
#[must_use]
pub fn scatter(advised: &[DeviceAdvice]) -> Option<String> {
    let (mut wide, mut all) = (0, 0);
    let mut worst: Option<(f64, String)> = None;
    for device in advised {
        for trial in &device.tried {
            let times: Vec<f64> = trial.runs.iter().map(|run| run.1).collect();
            let Some(variation) = coefficient_of_variation(&times) else { continue };
            all += 1;
            if variation > WIDE {
                wide += 1;
                if worst.as_ref().is_none_or(|worst| variation > worst.0) {
                    let place = device.device.as_deref().unwrap_or(&device.title);
                    worst = Some((variation, format!("{} on {place}", trial.candidate.name())));
                }
            }
        }
    }
    let (variation, place) = worst?;
    Some(format!(
        "noisy recordings: {wide} of {all} simulated times differ by more than {:.0} % from one recording to the next (coefficient \
         of variation, at worst {:.0} %: {place}). A quieter machine or more recordings (--repeat) narrow the intervals",
        WIDE * 100.0,
        variation * 100.0
    ))
}
