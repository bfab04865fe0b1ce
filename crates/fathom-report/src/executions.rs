//! The times of single executions: by the model where all that are shown have it, as measured
//! elsewhere. Two clocks in one figure would compare a device with a machine.

use fathom_lab::analysis::Clock;
use fathom_lab::store::{Results, StoreError};

/// What single executions of these cells can be shown in.
///
/// # Errors
/// Samples that cannot be read.
pub fn clock(
    results: &Results,
    cells: impl Iterator<Item = i64>,
    phases: &[String],
) -> Result<Clock, StoreError> {
    let mut has_any = false;
    for cell in cells {
        for run in results.good_runs(cell) {
            for phase in phases {
                let times = results.model_times(run.id, phase)?;
                if times.iter().any(Option::is_none) {
                    return Ok(Clock::Wall);
                }
                has_any |= !times.is_empty();
            }
        }
    }
    Ok(if has_any { Clock::Model } else { Clock::Wall })
}

/// The times of a run in a phase, ns, in time order.
///
/// # Errors
/// Samples that cannot be read.
pub fn times(results: &Results, run: i64, phase: &str, clock: Clock) -> Result<Vec<f64>, StoreError> {
    if clock == Clock::Model {
        let times = results.model_times(run, phase)?;
        return Ok(times.into_iter().flatten().map(|ns| ns as f64).collect());
    }
    let samples = results.samples(run, phase)?;
    Ok(samples.iter().map(|sample| sample.split.wall_ns as f64).collect())
}
