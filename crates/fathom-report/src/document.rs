//! Everything the report says, worked out once from the results; the page, the terminal and the
//! exports only lay it out.

use std::collections::BTreeMap;

use fathom_lab::analysis::{
    Analysis, BlockStudy, DeviceRole, DeviceStudy, Finding, block_studies, device_studies, unattributed,
};
use fathom_lab::naming::engines_of;
use fathom_lab::stats::{Interval, mean_interval};
use fathom_lab::store::{Results, StoreError};

use crate::answer::{general, questions};
use crate::assumptions::deciding;
use crate::axis::{Axis, axes_of};
use crate::blocks::{Picture, pictures};
use crate::caution::{Caution, cautions, verdict};
use crate::chosen::{self, ChosenAxis};
use crate::ecdf;
use crate::figure::Figure;
use crate::number;
use crate::plotting::figure;
use crate::power_cut;
use crate::ranking::Ranking;
use crate::recommend::advice;
use crate::title::title;
use crate::words::{distinct, durability_text, joined};

/// A report, ready to be laid out.
pub struct Document<'a> {
    /// Where it all comes from.
    pub results: &'a Results,
    /// What the reader brought: trace, device; or the experiment's title.
    pub title: String,
    /// The axes of the matrix.
    pub axes: Vec<Axis>,
    /// What the experiment asks.
    pub question: Option<String>,
    /// Cells × phases × abscissas.
    pub analysis: Analysis,
    /// The figures of the experiment.
    pub figures: Vec<Figure>,
    /// What is said of the axes that the user set, the advice where the experiment asks for one,
    /// then its comparisons in words; the first three are the answer.
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
    /// The picture with which the report opens; none where nothing was measured.
    pub ranking: Option<Ranking>,
    /// Numbers of device models that nobody published and that decide.
    pub assumed: Vec<String>,
    /// Whether the answer stands.
    pub verdict: String,
    /// What to be careful about, the gravest first.
    pub cautions: Vec<Caution>,
}

impl<'a> Document<'a> {
    /// Works everything out.
    ///
    /// # Errors
    /// Results that cannot be read.
    pub fn new(results: &'a Results) -> Result<Document<'a>, StoreError> {
        let analysis = Analysis::of(results)?;
        let asked = questions(results, &analysis);
        let axes = axes_of(&results.cells, &asked.axes);
        let mut definitions = asked.figures.clone();
        let measured = analysis.phases();
        let about = asked.findings.first().map(|finding| &finding.phase).or(measured.first());
        definitions.extend(about.and_then(|phase| ecdf::added(&asked.figures, phase)));
        let mut figures = made(&definitions, results, &axes, &analysis)?;
        // All of them empty: what fits every experiment is not, where anything was measured.
        if figures.is_empty() {
            figures = made(&general(), results, &axes, &analysis)?;
        }
        let mut compared_phases: Vec<String> = Vec::new();
        for finding in &asked.findings {
            for phase in [&finding.phase, &finding.baseline_phase] {
                if !compared_phases.contains(phase) {
                    compared_phases.push(phase.clone());
                }
            }
        }
        let main = compared_phases.first().or(measured.first()).cloned().unwrap_or_default();
        let phases = if compared_phases.is_empty() { &measured[..] } else { &compared_phases };
        let mut findings = Vec::new();
        // What was not measured is no answer that could stand.
        let mut no_answers = 0;
        for axis in &asked.told {
            let missing = unmeasured(results, axis);
            no_answers += usize::from(missing.is_some());
            findings.extend(missing);
            let of_phase =
                |phase: &String| chosen::sentences(results, &analysis, axis, phase, &asked.findings);
            findings.extend(phases.iter().flat_map(of_phase));
        }
        let advised = advice(results, &analysis, &main, &asked.chosen);
        let title = title(results, &axes, &asked.chosen);
        let blocks = block_studies(results)?;
        let cautions =
            cautions(results, &analysis, &asked.findings, asked.trouble.as_deref(), unattributed(&blocks));
        let (compared, mut promises) = told(asked.findings);
        // The advice says itself what each setting promises.
        if !advised.is_empty() {
            promises.clear();
        }
        findings.splice(0..0, power_cut::headlines(results));
        findings.extend(advised);
        findings.extend(compared);
        let assumed = deciding(results, &analysis, &main);
        Ok(Document {
            title,
            ranking: Ranking::of(results, &axes, &analysis, &main, asked.metric),
            verdict: verdict(&cautions, findings.len() > no_answers, !assumed.is_empty()),
            assumed,
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

/// The figures that show something, each of a name of its own.
fn made(
    definitions: &[fathom_lab::experiment::Figure],
    results: &Results,
    axes: &[Axis],
    analysis: &Analysis,
) -> Result<Vec<Figure>, StoreError> {
    let mut figures: Vec<Figure> = Vec::new();
    for definition in definitions {
        let mut made = figure(definition, results, axes, analysis)?;
        if made.marks.is_empty() && made.lines.is_empty() {
            continue;
        }
        // Two figures of one name could not be told apart by `--figure` or in a file name.
        while figures.iter().any(|figure| figure.id == made.id) {
            made.id.push('\'');
        }
        figures.push(made);
    }
    Ok(figures)
}

/// Values that the user asked for and that could not be measured, in one sentence.
fn unmeasured(results: &Results, axis: &ChosenAxis) -> Option<String> {
    let of_value = |value: &String| {
        results.cells.iter().filter(move |cell| cell.axes.get(&axis.key) == Some(value)).collect::<Vec<_>>()
    };
    let missing: Vec<String> = axis
        .values
        .iter()
        .filter(|value| of_value(value).iter().all(|cell| results.good_runs(cell.id).next().is_none()))
        .cloned()
        .collect();
    let were = if missing.len() == 1 { "was" } else { "were" };
    (!missing.is_empty())
        .then(|| format!("{} {were} not measured: see what to be careful about.", joined(&missing)))
}

impl Document<'_> {
    /// How a cell's modelled device, that which carries this, kept its model's times; none without
    /// one.
    pub fn device(&self, cell: i64, carries: DeviceRole) -> Option<&DeviceStudy> {
        self.devices.iter().find(|study| study.cell == cell && study.carries == carries)
    }

    /// Whether some of a cell's runs are marked: the machine was too busy for its device's model.
    pub fn is_late(&self, cell: i64) -> bool {
        self.devices.iter().any(|study| study.cell == cell && study.marked() > 0)
    }
}

/// How many comparisons the page and the terminal tell before the others.
pub const ANSWERS: usize = 3;

/// The findings as sentences, and what they say of promises, once instead of after each.
///
/// Few are told in the order of the file. Of more than [`ANSWERS`] the first ones have to answer as
/// much as they can: one of each kind of comparison before the second of any, of each kind what
/// makes the largest difference, and another pair of cells than the sentence before it had: what
/// holds for inserts is mostly said of updates, too.
fn told(findings: Vec<Finding>) -> (Vec<String>, Vec<String>) {
    let all_fit = findings.len() <= ANSWERS;
    let mut kinds: Vec<Vec<Finding>> = Vec::new();
    for finding in findings {
        let of_kind = |kind: &&mut Vec<Finding>| {
            kind.first().is_some_and(|first| {
                first.phase == finding.phase && first.baseline_phase == finding.baseline_phase
            })
        };
        match kinds.iter_mut().find(of_kind) {
            Some(kind) => kind.push(finding),
            None => kinds.push(vec![finding]),
        }
    }
    if !all_fit {
        for kind in &mut kinds {
            kind.sort_by(|a, b| effect(b).total_cmp(&effect(a)));
        }
    }
    let mut pairs = Vec::new();
    let mut sentences = Vec::new();
    let mut promises: Vec<String> = Vec::new();
    while kinds.iter().any(|kind| !kind.is_empty()) {
        for kind in kinds.iter_mut().filter(|kind| !kind.is_empty()) {
            let is_new = |finding: &Finding| all_fit || !pairs.contains(&(finding.cell, finding.baseline));
            let finding = kind.remove(kind.iter().position(is_new).unwrap_or(0));
            pairs.push((finding.cell, finding.baseline));
            sentences.push(finding.sentence);
            promises.extend(finding.promises.map(|words| format!("Not the same promise: {words}")));
        }
    }
    (sentences, distinct(promises.into_iter()))
}

/// How large a difference is, as a factor's logarithm; nothing where none is proven.
fn effect(finding: &Finding) -> f64 {
    if finding.faster.proven { finding.faster.ratio.ln().abs() } else { 0.0 }
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
    let engines = engines_of(results, &results.cells);
    let stacks = distinct(good.iter().map(|run| results.filesystem(run).to_owned()));
    let devices = distinct(good.iter().map(|run| run.stack.device.clone()));
    if !engines.is_empty() {
        parts.push(joined(&engines));
    }
    if !stacks.is_empty() {
        parts.push(format!("on {}", joined(&stacks)));
    }
    // What each of two boards calls /dev/mmcblk0p2 is a card of its own; a model is the same one.
    let is_one_machine = results.cells.windows(2).all(|pair| pair[0].spec.on == pair[1].spec.on);
    let is_one_device = is_one_machine || good.iter().all(|run| !run.devices.is_empty());
    if let [device] = devices.as_slice()
        && is_one_device
    {
        parts.push(format!("({device})"));
    }
    let mut text = parts.join(", ").replace(", on ", " on ").replace(", (", " (");
    for key in ["kernel", "cpu", "cpu_model"] {
        // Behind the key of one of several machines stands its name: `kernel (local)`.
        let of_machine = |own: &str| own.strip_prefix(key).map(str::to_owned);
        let named = results.environment.iter().filter_map(|(own, value)| Some((of_machine(own)?, value)));
        for (machine, value) in named.filter(|(name, _)| name.is_empty() || name.starts_with(" (")) {
            // A release alone does not say whose.
            let system = if value.starts_with(|c: char| c.is_ascii_digit()) { "Linux " } else { "" };
            text += &format!("; {system}{value}{machine}");
        }
    }
    let guests = distinct(good.iter().map(|run| run.stack.guest.clone()).filter(|guest| !guest.is_empty()));
    if !guests.is_empty() {
        let all = good.iter().all(|run| !run.stack.guest.is_empty());
        text += &format!("; {} mounted in a guest: {}", if all { "all" } else { "some" }, joined(&guests));
    }
    text.push('.');
    let floors = good.iter().filter_map(|run| Some((results.stack_of(run), run.floor_ns? as f64)));
    text += &floor_told(floors);
    let promises = distinct(
        results.cells.iter().filter(|c| c.durability.is_some()).map(|c| durability_text(c.durability).into()),
    );
    match promises.as_slice() {
        [] => {}
        [one] if power_cut::known_losses(results).is_empty() => {
            text += &format!(" All cells keep their commits at: {one}.");
        }
        [one] => text += &format!(" All cells promise to keep their commits at: {one}; not all do."),
        _ => text += " The settings do not promise the same: compare within a promise.",
    }
    text
}

/// The floor of the stacks, by the runs' own: with its interval where there is one stack. Those of
/// several are no measurements of one thing.
fn floor_told(floors: impl Iterator<Item = (String, f64)>) -> String {
    let mut stacks: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for (stack, ns) in floors {
        stacks.entry(stack).or_default().push(ns);
    }
    let all: Vec<Interval> = stacks.values().filter_map(|floors| mean_interval(floors)).collect();
    let mids = || all.iter().map(|floor| floor.mid);
    let (least, most) = (mids().fold(f64::INFINITY, f64::min), mids().fold(0.0, f64::max));
    let told = match all.as_slice() {
        [] => return String::new(),
        [one] if one.n < 2 => format!("{} ({})", number::time(one.mid), number::ONE_RUN),
        [one] => format!("{} {}", number::time(one.mid), number::time_interval_of(one)),
        _ => format!("{} to {}, by the stack", number::time(least), number::time(most)),
    };
    format!(" Floor: one 4 KiB write with fdatasync takes {told}.")
}

#[cfg(test)]
mod tests {
    use fathom_lab::analysis::Clock;
    use fathom_lab::stats::Comparison;

    use super::*;

    fn finding(cell: i64, phase: &str, ratio: f64, proven: bool) -> Finding {
        Finding {
            cell,
            baseline: 0,
            phase: phase.into(),
            baseline_phase: phase.into(),
            x: None,
            faster: Comparison { ratio, low: ratio, high: ratio, proven, n: 5 },
            clock: Clock::Model,
            wall_faster: None,
            baseline_sync_share: 0.9,
            sentence: format!("{cell} {phase}"),
            promises: None,
        }
    }

    /// What happened: of twenty comparisons the report of `journal-of-journal` opened with one of
    /// 1.12x, with the same of updates, and with another one of 1.12x; the journal that costs half
    /// of the commits, and the log without one that is 1.65 times as fast, were behind the fold.
    #[test]
    fn the_largest_differences_are_told_first_and_of_different_cells() {
        let many = ["insert", "update"].into_iter().flat_map(|phase| {
            [(1, 1.12, true), (2, 1.12, true), (3, 0.5, true), (4, 1.6, true), (5, 9.0, false)]
                .map(|(cell, ratio, proven)| finding(cell, phase, ratio, proven))
        });
        let (sentences, _) = told(many.collect());
        assert_eq!(sentences[..3], ["3 insert", "4 update", "1 insert"]);
        assert_eq!(sentences.len(), 10);
        assert_eq!(sentences.last().map(String::as_str), Some("5 update"));
        let few = vec![finding(1, "insert", 1.1, true), finding(2, "insert", 3.0, true)];
        assert_eq!(told(few).0, ["1 insert", "2 insert"]);
    }

    /// What happened: the floors of a card and of an NVMe drive were averaged, "640 µs [210,
    /// 1,950]", as if one stack had been measured so badly; and a single run had an interval.
    #[test]
    fn floors_of_several_stacks_are_not_averaged() {
        let told =
            |floors: &[(&str, f64)]| floor_told(floors.iter().map(|(stack, ns)| ((*stack).to_owned(), *ns)));
        assert_eq!(told(&[]), "");
        let one = told(&[("ext4 on a", 81_300.0)]);
        assert_eq!(one, " Floor: one 4 KiB write with fdatasync takes 81.3 µs (one run).");
        let same = told(&[("ext4 on a", 2.0e6), ("ext4 on a", 2.0e6)]);
        assert_eq!(same, " Floor: one 4 KiB write with fdatasync takes 2 ms [2, 2].");
        let several = told(&[("ext4 on a", 2.0e7), ("ext4 on b", 2.0e4), ("ext4 on a", 2.0e7)]);
        assert_eq!(several, " Floor: one 4 KiB write with fdatasync takes 20 µs to 20 ms, by the stack.");
    }
}
