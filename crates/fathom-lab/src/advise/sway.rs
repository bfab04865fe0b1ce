//! What the advice rests on: the same question of devices whose numbers are others.

use fathom_device::{Cache, Model, Side};
use fathom_workload::spec::Durability;
use serde::Serialize;

use super::choice::{ENOUGH, lead};
use super::{DeviceAdvice, Trial, trials};
use crate::simulate::StudyError;
use crate::store::Results;

/// How many times as long a slow processor (a phone's, a board's) takes as this machine's.
pub const CPU_FACTOR: f64 = 4.0;

/// What would be best under another assumption.
#[derive(Clone, Debug, Serialize)]
pub struct Sensitivity {
    /// What is other: `flushes x2`.
    pub what: String,
    /// What would be best then: place in the tried ones.
    pub best: usize,
    /// How many times as long the advised one takes then as that.
    pub behind: f64,
    /// Whether the advice stands: it is within 5 % of the best.
    pub stands: bool,
}

/// A device whose flushes, or writes, take so many times as long; each is called after that.
fn variations(model: &Model) -> Vec<(String, Model)> {
    let flushes = [0.5, 2.0].map(|factor| (format!("flushes x{factor}"), model.with_flushes(factor)));
    let writes = [0.5, 2.0].map(|factor| (format!("writes x{factor}"), with_writes(model, factor)));
    let all = flushes.into_iter().chain(writes);
    all.map(|(what, other)| {
        let name = format!("{} with {what}", model.name);
        (what, Model { name, ..other })
    })
    .collect()
}

/// The same device, whose writes take so many times as long, into its cache and out of it, too.
fn with_writes(model: &Model, factor: f64) -> Model {
    let write = Side {
        random: model.write.random.times(factor),
        sequential: model.write.sequential.times(factor),
        ns_per_byte: model.write.ns_per_byte * factor,
    };
    let cache = model.cache.map(|cache| Cache {
        write_ns: cache.write_ns * factor,
        drain_bytes_per_ns: cache.drain_bytes_per_ns / factor,
        ..cache
    });
    Model { write, cache, ..model.clone() }
}

/// What would be best on variations of each device, and with a slow processor; `advised` is what
/// was tried on the devices as they are, in the same order. From one run of each: the variations
/// see the same run. A device without advice has none.
///
/// # Errors
/// As [`trials`](super::trials).
pub fn sways(
    results: &Results,
    models: &[Model],
    phase: &str,
    advised: &[DeviceAdvice],
    must: Durability,
) -> Result<Vec<Vec<Sensitivity>>, StudyError> {
    // All at once, so that each recording is read once.
    let of_each: Vec<Vec<(String, Model)>> = models.iter().map(variations).collect();
    let others: Vec<Model> = of_each.iter().flatten().map(|other| other.1.clone()).collect();
    let (mut tried, _) = trials(results, &others, phase, Some(1))?;
    let mut all = Vec::new();
    for (variations, device) in of_each.iter().zip(advised) {
        let mut of_device: Vec<Vec<Trial>> = tried.drain(..variations.len().min(tried.len())).collect();
        for trial in of_device.iter_mut().flatten() {
            // What must be kept whole must be so on each of them.
            trial.is_apart = device.tried.iter().any(|known| known.is_apart && known.label == trial.label);
        }
        let Some(best) = device.best else {
            all.push(Vec::new());
            continue;
        };
        let base = (&*device.tried, best);
        let mut found: Vec<Sensitivity> = Vec::new();
        for ((what, _), tried) in variations.iter().zip(&of_device) {
            found.extend(sway(what.clone(), tried, base, must));
        }
        let slower: Vec<Trial> = device.tried.iter().map(on_slow_processor).collect();
        found.extend(sway(format!("a processor {CPU_FACTOR} times as slow"), &slower, base, must));
        all.push(found);
    }
    Ok(all)
}

/// The same where the processor takes longer: its parts are disjoint, so that this adds to one.
fn on_slow_processor(trial: &Trial) -> Trial {
    let more = trial.cpu_ns * (CPU_FACTOR - 1.0);
    let mut slower = trial.clone();
    slower.time_ns.mid += more;
    slower.runs.iter_mut().for_each(|run| run.1 += more);
    slower
}

fn sway(
    what: String,
    tried: &[Trial],
    (base, best): (&[Trial], usize),
    must: Durability,
) -> Option<Sensitivity> {
    let place = |label: &str| base.iter().position(|cell| cell.label == label);
    let fastest = &tried[lead(tried, must)?];
    let named = tried.iter().find(|tried| tried.label == base[best].label)?;
    let behind = named.ns() / fastest.ns();
    Some(Sensitivity { what, best: place(&fastest.label)?, behind, stands: behind <= ENOUGH })
}
