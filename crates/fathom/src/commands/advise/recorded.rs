//! The settings that results hold, and what those promise.

use fathom_lab::advise::Candidate;
use fathom_lab::store::Results;
use fathom_workload::spec::Durability;

/// The settings that results hold, with what they promise.
pub(super) fn recorded(results: &Results) -> impl Iterator<Item = (Candidate, Option<Durability>)> {
    let cells = results.cells.iter().filter(|cell| cell.skipped.is_none());
    cells.filter_map(|cell| Some((Candidate::of(cell.spec.engine.as_ref()?)?, cell.durability)))
}

/// What settings promise, as their runs have said.
pub(super) fn promise_of(results: &Results, baseline: &Candidate) -> Option<Durability> {
    recorded(results).find(|known| known.0 == *baseline)?.1
}
