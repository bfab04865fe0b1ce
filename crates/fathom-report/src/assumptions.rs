//! Numbers of device models that nobody has published and that decide the answer.
//!
//! A model says what was assumed (`assumptions`). Of a commit's model time so much is flushes, so
//! much writes, so much reads; an assumption about what takes a fifth of it or more decides what is
//! fastest, and stands beside the answer. All others stand with the device.

use fathom_device::Model;
use fathom_lab::analysis::{Analysis, Measure};
use fathom_lab::store::Results;

use crate::number;
use crate::words::{are_commits, common_unit};

/// The share of a commit's model time from which what it rests on decides.
const DECIDES: f64 = 0.2;

/// Assumptions that are told beside the answer, at most.
const TOLD: usize = 3;

/// Pages of random reads and writes are taken to have this size, bytes.
const REQUEST_BYTES: f64 = 4096.0;

/// The largest shares of one execution's model time among the cells on a device; estimates from
/// counts: what a flush takes for each dirty KiB, and waiting for a full cache, is counted with the
/// writes.
#[derive(Clone, Copy, Default)]
struct Shares {
    read: f64,
    write: f64,
    flush: f64,
    device: f64,
}

impl Shares {
    fn of(measure: &Measure, model: &Model) -> Option<Shares> {
        let runs: Vec<_> = measure.runs.iter().filter_map(|run| run.model).collect();
        let first = runs.first()?;
        if first.model_ns <= 0.0 {
            return None;
        }
        let of_whole = |ns: f64| (ns / first.model_ns).clamp(0.0, 1.0);
        let device = of_whole(first.device_ns);
        let flush = of_whole(first.flushes * model.flush.base.mean_ns()).min(device);
        let read =
            of_whole(first.read_bytes / REQUEST_BYTES * model.read.random.mean_ns()).min(device - flush);
        Some(Shares { read, write: (device - flush - read).max(0.0), flush, device })
    }

    fn max(self, other: Shares) -> Shares {
        Shares {
            read: self.read.max(other.read),
            write: self.write.max(other.write),
            flush: self.flush.max(other.flush),
            device: self.device.max(other.device),
        }
    }

    /// What the assumption is about, and how much of the time that is.
    fn of_assumption(self, text: &str) -> (&'static str, f64) {
        let text = text.to_lowercase();
        let about = |words: &[&str]| words.iter().any(|word| text.contains(word));
        if about(&["every number"]) {
            return ("the device's", self.device);
        }
        let named = [
            ("for flushes", about(&["flush"]), self.flush),
            ("for writes", about(&["write", "sequential"]), self.write),
            ("for reads", about(&["read"]), self.read),
        ];
        let most = named.into_iter().filter(|pair| pair.1).max_by(|a, b| a.2.total_cmp(&b.2));
        most.map_or(("", 0.0), |(what, _, share)| (what, share))
    }
}

/// The models of the devices that the cells ran on, each once.
pub fn models(results: &Results) -> Vec<Model> {
    let mut models: Vec<Model> = Vec::new();
    for run in results.cells.iter().flat_map(|cell| results.good_runs(cell.id)) {
        for text in &run.stack.models {
            let Ok(model) = Model::parse("results", text) else { continue };
            if !models.iter().any(|known| known.name == model.name) {
                models.push(model);
            }
        }
    }
    models
}

/// What a phase's executions are called in a sentence, by whether its transactions are commits.
fn one_of(unit: &str, are_commits: bool) -> String {
    if unit == "transaction" && are_commits { "a commit".to_owned() } else { format!("one {unit}") }
}

/// The assumptions that decide, as sentences; empty where no device was modelled.
pub fn deciding(results: &Results, analysis: &Analysis, phase: &str) -> Vec<String> {
    let mut told: Vec<(f64, String)> = Vec::new();
    let of_phase = |measure: &&Measure| measure.phase == phase;
    let units = analysis.measures.iter().filter(of_phase).map(|measure| measure.unit.as_str());
    let one = one_of(common_unit(units), are_commits(results, analysis, phase));
    for model in models(results) {
        let is_on = |cell: i64| {
            let text_is_of =
                |text: &String| Model::parse("results", text).is_ok_and(|known| known.name == model.name);
            results.good_runs(cell).next().is_some_and(|run| run.stack.models.iter().any(text_is_of))
        };
        let shares = analysis
            .measures
            .iter()
            .filter(|measure| of_phase(measure) && is_on(measure.cell))
            .filter_map(|measure| Shares::of(measure, &model))
            .fold(Shares::default(), Shares::max);
        for text in &model.assumptions {
            let (what, share) = shares.of_assumption(text);
            if share >= DECIDES {
                let text = text.trim_end_matches('.');
                told.push((
                    share,
                    format!(
                        "Assumed, and it decides: {}: {text}. Up to about {} of the model time of {one} is {what}.",
                        model.name,
                        number::percent(share)
                    ),
                ));
            }
        }
    }
    told.sort_by(|a, b| b.0.total_cmp(&a.0));
    told.truncate(TOLD);
    told.into_iter().map(|(_, text)| text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened: of a chat's queries it was "63 % of the model time of a commit is for reads",
    /// and so of a trace's transactions, of which many only read.
    #[test]
    fn a_query_is_no_commit() {
        let told = [("transaction", true), ("query", true), ("transaction", false)];
        let told = told.map(|(unit, are_commits)| one_of(unit, are_commits));
        assert_eq!(told, ["a commit", "one query", "one transaction"]);
    }
}
