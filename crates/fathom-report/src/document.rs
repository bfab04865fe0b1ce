//! Everything the report says, worked out once from the results; the page, the terminal and the exports only lay it out.

use fathom_lab::analysis::{
    Analysis, BlockStudy, Carries, DeviceStudy, Finding, block_studies, device_studies, engine_name, spelled,
    unattributed,
};
use fathom_lab::stats::mean_interval;
use fathom_lab::store::{CellRow, Results, StoreError};
use fathom_workload::spec::Durability;

use crate::answer::asked;
use crate::axis::{Axis, axes_of};
use crate::blocks::{Picture, pictures};
use crate::figure::{Figure, figure};
use crate::number;
use crate::recommend::advice;

/// A report, ready to be laid out.
pub struct Document<'a> {
    /// Where it all comes from.
    pub results: &'a Results,
    /// The axes of the matrix.
    pub axes: Vec<Axis>,
    /// What the experiment asks.
    pub question: Option<String>,
    /// Cells × phases × abscissas.
    pub analysis: Analysis,
    /// The figures of the experiment.
    pub figures: Vec<Figure>,
    /// The advice, where the experiment asks for one, then its comparisons in words; the first three are the answer.
    pub findings: Vec<String>,
    /// What the block traces say of each cell and phase.
    pub blocks: Vec<BlockStudy>,
    /// How well modelled devices kept their models' times, by cell.
    pub devices: Vec<DeviceStudy>,
    /// Address over time of each cell that was traced.
    pub pictures: Vec<Picture>,
    /// What the compared cells promise, where that is not the same.
    pub promises: Vec<String>,
    /// The phases that are compared.
    pub compared_phases: Vec<String>,
    /// What the answer rests on, one sentence.
    pub rests_on: String,
    /// What to be careful about.
    pub cautions: Vec<Caution>,
}

/// Something to be careful about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caution {
    /// In bold before the text, or empty.
    pub about: String,
    /// In words a reader can act on.
    pub text: String,
}

impl<'a> Document<'a> {
    /// Works everything out.
    ///
    /// # Errors
    /// Results that cannot be read.
    pub fn new(results: &'a Results) -> Result<Document<'a>, StoreError> {
        let analysis = Analysis::of(results)?;
        let asked = asked(results, &analysis);
        let axes = axes_of(&results.cells, &asked.axes);
        let mut figures = Vec::new();
        // A figure of phases that these cells do not have says nothing: that of traces where none was replayed.
        let is_measured = |phase: &String| analysis.measures.iter().any(|measure| measure.phase == *phase);
        let has_content = |phases: &[String]| phases.is_empty() || phases.iter().any(is_measured);
        let all_empty = !asked.figures.iter().any(|definition| has_content(&definition.phases));
        for definition in asked.figures.iter().filter(|d| all_empty || has_content(&d.phases)) {
            let mut made = figure(definition, results, &axes, &analysis)?;
            // Two figures of one name could not be told apart by `--figure` or in a file name.
            while figures.iter().any(|f: &Figure| f.id == made.id) {
                made.id.push('\'');
            }
            figures.push(made);
        }
        let mut compared_phases: Vec<String> = Vec::new();
        for finding in &asked.findings {
            for phase in [&finding.phase, &finding.baseline_phase] {
                if !compared_phases.contains(phase) {
                    compared_phases.push(phase.clone());
                }
            }
        }
        let main = compared_phases.first().or(analysis.measures.first().map(|m| &m.phase));
        let mut findings = main.map(|phase| advice(results, &analysis, phase)).unwrap_or_default();
        let (compared, mut promises) = told(asked.findings);
        // The advice says itself what each setting promises.
        if !findings.is_empty() {
            promises.clear();
        }
        findings.extend(compared);
        let blocks = block_studies(results)?;
        let mut cautions = cautions(results, &analysis, asked.trouble.as_deref());
        let unowned = unattributed(&blocks);
        cautions.extend(unowned.map(|text| Caution { about: String::new(), text }));
        Ok(Document {
            question: asked.question,
            findings,
            promises,
            compared_phases,
            blocks,
            devices: device_studies(results),
            pictures: pictures(results)?,
            rests_on: rests_on(results),
            cautions,
            results,
            axes,
            analysis,
            figures,
        })
    }
}

impl Document<'_> {
    /// How a cell's modelled device, that which carries this, kept its model's times; none without one.
    pub fn device(&self, cell: i64, carries: Carries) -> Option<&DeviceStudy> {
        self.devices.iter().find(|study| study.cell == cell && study.carries == carries)
    }

    /// Whether some of a cell's runs are marked: the machine was too busy for its device's model.
    pub fn is_late(&self, cell: i64) -> bool {
        self.devices.iter().any(|study| study.cell == cell && study.marked() > 0)
    }
}

/// The findings as sentences, one of each kind of comparison before the second of any, so that the first three answer as much
/// as they can; and what they say of promises, once instead of after each.
fn told(findings: Vec<Finding>) -> (Vec<String>, Vec<String>) {
    let mut kinds: Vec<(String, String, usize)> = Vec::new();
    let mut ranked: Vec<(usize, usize, Finding)> = Vec::new();
    for (order, finding) in findings.into_iter().enumerate() {
        let kind = kinds.iter().position(|k| k.0 == finding.phase && k.1 == finding.baseline_phase);
        let kind = kind.unwrap_or_else(|| {
            kinds.push((finding.phase.clone(), finding.baseline_phase.clone(), 0));
            kinds.len() - 1
        });
        ranked.push((kinds[kind].2, order, finding));
        kinds[kind].2 += 1;
    }
    ranked.sort_by_key(|(rank, order, _)| (*rank, *order));
    let mut sentences = Vec::new();
    let mut promises = Vec::new();
    for (_, _, finding) in ranked {
        match finding.sentence.split_once(" They do not promise the same: ") {
            Some((compared, promise)) if !finding.same_durability => {
                sentences.push(compared.to_string());
                let promise = format!("Not the same promise: {promise}");
                if !promises.contains(&promise) {
                    promises.push(promise);
                }
            }
            _ => sentences.push(finding.sentence),
        }
    }
    (sentences, promises)
}

/// What a durability class promises, in the words of all tables.
pub fn promise(durability: Option<Durability>) -> &'static str {
    match durability {
        None => "not known",
        Some(Durability::None) => "nothing",
        Some(Durability::ProcessCrash) => "process crash only",
        Some(Durability::PowerCutPrefix) => "power cut, a prefix",
        Some(Durability::PowerCutAllButLast) => "power cut, all but the last",
        Some(Durability::PowerCut) => "power cut, all",
    }
}

/// How many comparisons there are besides those that are shown.
pub fn more_comparisons(number: usize) -> String {
    format!("{number} more {}", if number == 1 { "comparison" } else { "comparisons" })
}

/// Joins words as a sentence does: `a, b and c`.
pub fn joined(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

fn distinct(words: impl Iterator<Item = String>) -> Vec<String> {
    let mut all = Vec::new();
    for word in words {
        if !word.is_empty() && !all.contains(&word) {
            all.push(word);
        }
    }
    all
}

fn rests_on(results: &Results) -> String {
    let good: Vec<_> = results.cells.iter().flat_map(|cell| results.good_runs(cell.id)).collect();
    let cells = results.cells.iter().filter(|cell| results.good_runs(cell.id).next().is_some()).count();
    let mut parts = vec![format!(
        "{} {} of {cells} {}",
        good.len(),
        if good.len() == 1 { "run" } else { "runs" },
        if cells == 1 { "cell" } else { "cells" }
    )];
    let engines = distinct(
        good.iter()
            .filter_map(|run| run.engine.as_ref())
            .map(|e| format!("{} {}", engine_name(&e.name), e.version)),
    );
    let stacks = distinct(good.iter().map(|run| results.filesystem(run).to_owned()));
    let devices = distinct(good.iter().map(|run| run.stack.device.clone()));
    if !engines.is_empty() {
        parts.push(joined(&engines));
    }
    if !stacks.is_empty() {
        parts.push(format!("on {}", joined(&stacks)));
    }
    if let [device] = devices.as_slice() {
        parts.push(format!("({device})"));
    }
    let mut text = parts.join(", ").replace(", on ", " on ").replace(", (", " (");
    for key in ["kernel", "cpu", "cpu_model"] {
        if let Some(value) = results.environment.get(key) {
            // A release alone does not say whose.
            let system = if value.starts_with(|c: char| c.is_ascii_digit()) { "Linux " } else { "" };
            text += &format!("; {system}{value}");
        }
    }
    let guests = distinct(good.iter().map(|run| run.stack.guest.clone()).filter(|it| !it.is_empty()));
    if !guests.is_empty() {
        let all = good.iter().all(|run| !run.stack.guest.is_empty());
        text += &format!("; {} mounted in a guest: {}", if all { "all" } else { "some" }, joined(&guests));
    }
    text.push('.');
    let floors: Vec<f64> = good.iter().filter_map(|run| run.floor_ns).map(|ns| ns as f64).collect();
    if let Some(floor) = mean_interval(&floors) {
        text += &format!(
            " Floor: one 4 KiB write with fdatasync takes {} {}.",
            number::time(floor.mid),
            number::time_interval(floor.mid, floor.low, floor.high)
        );
    }
    let promises = distinct(
        results.cells.iter().filter(|c| c.durability.is_some()).map(|c| promise(c.durability).into()),
    );
    match promises.as_slice() {
        [] => {}
        [one] => text += &format!(" All cells keep their commits at: {one}."),
        many => {
            text += &format!(
                " The cells do not promise the same ({}): compare within a promise.",
                many.join("; ")
            )
        }
    }
    text
}

fn cautions(results: &Results, analysis: &Analysis, trouble: Option<&str>) -> Vec<Caution> {
    let caution = |about: String, text: &str| Caution { about, text: text.into() };
    let mut all: Vec<Caution> = Vec::new();
    if results.experiment.quick {
        all.push(caution(
            "Quick.".into(),
            "Made with --quick: less work and fewer runs than the experiment asks for.",
        ));
    }
    let said = fathom_lab::analysis::cautions(results, analysis);
    all.extend(said.iter().map(|text| caution(String::new(), &sentence(text))));
    // What the stack said of itself, unless the worker's warnings said it already.
    let made = distinct(results.runs.iter().flat_map(|run| run.stack.warnings.iter().cloned()));
    all.extend(
        made.iter()
            .filter(|w| !said.iter().any(|s| s.contains(*w)))
            .map(|w| caution(String::new(), &sentence(w))),
    );
    for run in results.failed_runs() {
        let label = results.cell(run.cell).map_or_else(String::new, |cell| spelled(cell, &cell.label));
        let message = run.message.as_deref().unwrap_or("no message");
        all.push(caution(format!("{label}, run {} failed:", run.block + 1), &sentence(message)));
    }
    let reason = |cell: &CellRow| cell.skipped.clone().unwrap_or_default();
    for why in distinct(results.cells.iter().map(reason)) {
        let names: Vec<String> = results
            .cells
            .iter()
            .filter(|cell| reason(cell) == why)
            .map(|cell| spelled(cell, &cell.label))
            .collect();
        all.push(caution(format!("Skipped: {}:", joined(&names)), &why));
    }
    if let Some(trouble) = trouble {
        all.push(caution(
            "The experiment file stored in the results cannot be read by this version,".into(),
            &format!("so the figures are general ones and no comparison is made: {trouble}"),
        ));
    }
    all
}

/// The text with a capital and a full stop.
fn sentence(text: &str) -> String {
    let mut chars = text.trim_end().chars();
    let mut out: String = chars.next().map(|c| c.to_uppercase().collect::<String>()).unwrap_or_default();
    out.push_str(chars.as_str());
    if !out.ends_with(['.', '!', '?', ')', ':']) {
        out.push('.');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_comparison_more_is_no_plural() {
        assert_eq!([1, 2].map(more_comparisons), ["1 more comparison", "2 more comparisons"]);
    }
}
