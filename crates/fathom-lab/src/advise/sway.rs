//! What the advice rests on: the same question of devices whose numbers are others.

use fathom_device::{Cache, Model, Side};
use fathom_workload::spec::Durability;
use serde::Serialize;

use super::choice::ENOUGH;
use super::{Trial, choose, trials};
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

/// A device whose flushes, or writes, take so many times as long.
fn variations(model: &Model) -> Vec<(String, Model)> {
    let flushes = [0.5, 2.0].map(|factor| (format!("flushes x{factor}"), model.with_flushes(factor)));
    let writes = [0.5, 2.0].map(|factor| (format!("writes x{factor}"), with_writes(model, factor)));
    flushes.into_iter().chain(writes).collect()
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

/// What would be best on variations of the device, and with a slow processor; `base` is what was
/// tried on the device as it is, and `best` the one of it that is advised. From one run of each:
/// the variations see the same run.
///
/// # Errors
/// As [`trials`](super::trials).
pub fn sways(
    results: &Results,
    model: &Model,
    phase: &str,
    (base, best): (&[Trial], usize),
    must: Durability,
) -> Result<Vec<Sensitivity>, StudyError> {
    let mut all = Vec::new();
    for (what, other) in variations(model) {
        let (devices, _) = trials(results, &[other], phase, Some(1))?;
        all.extend(devices.first().and_then(|tried| sway(what, tried, base, best, must)));
    }
    let slower: Vec<Trial> = base
        .iter()
        .map(|model| {
            // Its parts are disjoint, so that a slower processor adds to one of them.
            let more = model.cpu_ns * (CPU_FACTOR - 1.0);
            let mut slower = model.clone();
            slower.time_ns.mid += more;
            slower.runs.iter_mut().for_each(|run| run.1 += more);
            slower
        })
        .collect();
    all.extend(sway(format!("a processor {CPU_FACTOR} times as slow"), &slower, base, best, must));
    Ok(all)
}

fn sway(what: String, tried: &[Trial], base: &[Trial], best: usize, must: Durability) -> Option<Sensitivity> {
    let place = |label: &str| base.iter().position(|cell| cell.label == label);
    let fastest = &tried[choose(tried, must, None)?];
    let named = tried.iter().find(|tried| tried.label == base[best].label)?;
    let behind = named.ns() / fastest.ns();
    Some(Sensitivity { what, best: place(&fastest.label)?, behind, stands: behind <= ENOUGH })
}
