//! What a reader of these results must be careful about, in words that say what to do.

use std::collections::{BTreeMap, BTreeSet};

use fathom_device::{LATE_SHARE, TESTED_FROM_NS};
use fathom_workload::sample::WarningKind;
use fathom_workload::trace::MADE_UP;
use serde::Serialize;

use super::alike::{AlikeTexts, alike};
use super::conditions::differences;
use super::devices::{DeviceRun, device_studies};
use super::unlike::UnlikeRuns;
use super::{Analysis, Clock, Measure};
use crate::model_time::{Basis, PhaseModel};
use crate::stats::{coefficient_of_variation, spread, t_quantile_975};
use crate::store::{Results, RunRow, RunStatus};

/// How much a caution weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Weight {
    /// The answer may be wrong, or not be one: runs are missing or too few, or the numbers are not
    /// those of the device.
    Answer,
    /// Small differences drown: only what is proven all the same stands.
    Noise,
    /// To be known, and no reason to doubt the answer.
    Note,
}

/// What a caution is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CautionKind {
    /// Runs that failed.
    FailedRuns,
    /// Runs that are missing, for the experiment was stopped.
    MissingRuns,
    /// Cells that were skipped.
    SkippedCells,
    /// Runs of one cell that are not of the same thing.
    UnlikeRuns,
    /// Too few runs of a cell.
    FewRepeats,
    /// Traces that are made up.
    MadeUp,
    /// The hypervisor took CPU time away.
    NoisyMachine,
    /// The machine's clock, battery or temperature was another from run to run.
    MachineMoved,
    /// The floor of a device moved.
    NoisyDevice,
    /// Runs of a cell differ among themselves.
    NoisyRuns,
    /// A modelled device that was late.
    LateDevice,
    /// A modelled device whose self-test was off.
    SelfTest,
    /// No model time on a modelled device.
    NoModelTime,
    /// Model time by the device alone.
    DeviceAlone,
    /// Somebody else read from the device.
    OthersOnDevice,
    /// A device that was told to fail.
    Faults,
    /// Cells of different durability.
    MixedDurability,
    /// Said while it was measured.
    Warning(WarningKind),
}

/// Something that a reader of the results must be careful about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Caution {
    /// What it is about.
    pub kind: CautionKind,
    /// How much.
    pub weight: Weight,
    /// In words that say what to do.
    pub text: String,
}

/// What was found, each with the weight of the function that found it.
#[derive(Default)]
struct Found(Vec<Caution>);

impl Found {
    fn push(&mut self, weight: Weight, kind: CautionKind, text: String) {
        if !self.0.iter().any(|caution| caution.text == text) {
            self.0.push(Caution { kind, weight, text });
        }
    }
}

/// Warnings that apply to these results: those recorded while they were measured, and those that
/// only the whole shows (noise, too few repeats, failed and missing runs, mixed durability). Each
/// once, the gravest first.
#[must_use]
pub fn cautions(results: &Results, analysis: &Analysis) -> Vec<Caution> {
    let mut found = Found::default();
    failures(results, &mut found);
    unlike_runs(results, &mut found);
    repeats(results, &mut found);
    made_up(results, &mut found);
    noise(results, analysis, &mut found);
    conditions(results, &mut found);
    late_devices(results, analysis, &mut found);
    without_model_time(results, analysis, &mut found);
    others_on_the_device(results, &mut found);
    faults(results, &mut found);
    durability(results, &mut found);
    recorded(results, &mut found);
    let mut all = found.0;
    all.sort_by_key(|caution| caution.weight);
    all
}

/// What was said, and of which runs.
type Told<'a> = BTreeMap<&'a str, (WarningKind, BTreeSet<i64>)>;

/// What was said while it was measured: each thing once, also where its numbers differ from run to
/// run.
fn recorded(results: &Results, found: &mut Found) {
    let mut told = Told::new();
    let mut order: Vec<&str> = Vec::new();
    for warning in results.warnings.iter().filter(|warning| warning.kind != WarningKind::MadeUp) {
        let text = warning.text.as_str();
        if !told.contains_key(text) {
            order.push(text);
        }
        told.entry(text).or_insert_with(|| (warning.kind, BTreeSet::new())).1.extend(warning.run);
    }
    for said in alike(order) {
        let is_of = |text: &str, machine: &str| {
            let runs = told.get(text).map(|of_text| &of_text.1);
            let mut own = results.runs.iter().filter(|run| results.machine(run) == machine);
            runs.is_some_and(|runs| own.any(|run| runs.contains(&run.id)))
        };
        let machines: BTreeSet<&str> = results.runs.iter().map(|run| results.machine(run)).collect();
        let of_machine = |machine: &&str| said.texts.iter().any(|text| is_of(text, machine));
        let machines: Vec<&str> = machines.into_iter().filter(of_machine).collect();
        let are_of_runs = said.texts.iter().all(|text| machines.iter().any(|machine| is_of(text, machine)));
        if said.texts.len() == 1 || machines.len() < 2 || !are_of_runs {
            tell(results, &told, &said, None, found);
            continue;
        }
        // From the charge of one phone to that of another is no range of anything.
        for machine in machines {
            let own = said.texts.iter().copied().filter(|text| is_of(text, machine));
            for said in alike(own) {
                tell(results, &told, &said, Some(machine), found);
            }
        }
    }
}

/// One thing that was said; of one machine what was said of its runs.
fn tell(results: &Results, told: &Told<'_>, said: &AlikeTexts<'_>, machine: Option<&str>, found: &mut Found) {
    let all: Vec<&(WarningKind, BTreeSet<i64>)> =
        said.texts.iter().filter_map(|text| told.get(text)).collect();
    let kind = all.first().map_or(WarningKind::Other, |first| first.0);
    let weight = match kind {
        WarningKind::NoDevice | WarningKind::WarmCaches => Weight::Answer,
        WarningKind::Noise => Weight::Noise,
        WarningKind::MadeUp | WarningKind::Other => Weight::Note,
    };
    let is_own = |run: &&RunRow| machine.is_none_or(|machine| results.machine(run) == machine);
    let of_all = results.runs.iter().filter(is_own).count();
    let is_meant = |run: &&RunRow| all.iter().any(|of_text| of_text.1.contains(&run.id));
    let runs: Vec<&RunRow> = results.runs.iter().filter(is_own).filter(is_meant).collect();
    let on = machine.map_or_else(String::new, |machine| format!("on {machine}: "));
    let text = on + &said.text();
    let text = if runs.is_empty() || runs.len() == of_all {
        text
    } else {
        let cells: BTreeSet<&str> =
            runs.iter().filter_map(|run| results.cell(run.cell)).map(|cell| cell.label.as_str()).collect();
        let cells: Vec<&str> = cells.into_iter().collect();
        let shown = if cells.len() > 4 {
            format!("{} and {} more", cells[..3].join(", "), cells.len() - 3)
        } else {
            cells.join(", ")
        };
        format!("{text} ({shown})")
    };
    found.push(weight, CautionKind::Warning(kind), text);
}

fn failures(results: &Results, found: &mut Found) {
    let failed: Vec<_> = results.failed_runs().collect();
    if let Some(first) = failed.first() {
        let label = results.cell(first.cell).map_or("?", |cell| cell.label.as_str());
        // Whoever said it may have ended the sentence.
        let message = first.message.as_deref().unwrap_or("no message").trim_end_matches('.');
        found.push(Weight::Answer, CautionKind::FailedRuns, format!(
            "{} of {} runs failed and are left out, the first in {label}: {message}. `fathom run … --resume` tries them again",
            failed.len(),
            results.runs.len()
        ));
    }
    let running = results.cells.iter().filter(|cell| cell.skipped.is_none()).count();
    let planned = running * results.experiment.repeats as usize;
    let made = results.runs.len();
    if results.experiment.finished_ms.is_none() && made < planned {
        found.push(Weight::Answer, CautionKind::MissingRuns, format!(
            "{made} of {planned} runs were made: the experiment was stopped. `fathom run … --resume` goes on"
        ));
    }
    let skipped = results.cells.len() - running;
    if skipped > 0 {
        found.push(
            Weight::Note,
            CautionKind::SkippedCells,
            format!("{skipped} of {} cells were skipped; each says why", results.cells.len()),
        );
    }
}

/// Runs that are taken together or compared although what they were made of was replaced between
/// them.
fn unlike_runs(results: &Results, found: &mut Found) {
    let UnlikeRuns { cells, between } = UnlikeRuns::of(results);
    if !cells.is_empty() {
        let between: Vec<String> = between.into_iter().take(4).collect();
        found.push(Weight::Answer, CautionKind::UnlikeRuns, format!(
            "unlike runs: in {} of {} cells runs are taken together that were not of the same thing ({}). A library, a trace, a disk, an \
             image, a device's model or Fathom was replaced between them, and their means are of neither: begin anew, without --resume",
            cells.len(),
            results.cells.len(),
            between.join("; ")
        ));
    }
}

/// The name of the trace that a workload has called made up; all of it where it says it in other
/// words.
fn made_up_trace(text: &str) -> &str {
    let name = text.strip_prefix("the trace ").and_then(|rest| rest.strip_suffix(MADE_UP));
    name.and_then(|name| name.strip_suffix(" is ")).unwrap_or(text)
}

/// What no reader of a made-up trace's numbers may miss, for all of them at once.
fn made_up(results: &Results, found: &mut Found) {
    let told = results.warnings.iter().filter(|warning| warning.kind == WarningKind::MadeUp);
    let names: BTreeSet<&str> = told.map(|warning| made_up_trace(&warning.text)).collect();
    if !names.is_empty() {
        let names: Vec<&str> = names.into_iter().collect();
        found.push(
            Weight::Note,
            CautionKind::MadeUp,
            format!("each trace of {} is {MADE_UP} (`fathom list profiles`)", names.join(", ")),
        );
    }
}

fn repeats(results: &Results, found: &mut Found) {
    let runs = results.cells.iter().map(|cell| results.good_runs(cell.id).count());
    let runs: Vec<usize> = runs.filter(|&runs| runs > 0).collect();
    let Some(&fewest) = runs.iter().min() else { return };
    let few = runs.iter().filter(|&&runs| runs == fewest).count();
    // What holds of some cells is not said of the others: a run that was stopped has both.
    let (whose, there) = if few == runs.len() {
        (String::new(), "")
    } else {
        (format!(" in {few} of {} cells", runs.len()), " there")
    };
    let text = match fewest {
        1 => format!(
            "too few repeats{whose}: with one run there is no interval, and nothing is proven{there}. Use --repeat 5 or \
             more"
        ),
        2..=4 => format!(
            "too few repeats{whose}: with {fewest} runs intervals are {:.1} times as wide as with 5{}. Use --repeat 5 or \
             more",
            width_of(fewest) / width_of(5),
            if fewest == 2 { format!(", and no difference can be proven{there}") } else { String::new() }
        ),
        _ => return,
    };
    found.push(Weight::Answer, CautionKind::FewRepeats, text);
}

/// Half the width of an interval of so many runs, in standard deviations of a run.
fn width_of(runs: usize) -> f64 {
    t_quantile_975(runs as f64 - 1.0) / (runs as f64).sqrt()
}

/// Above this share of stolen CPU time a run was not alone on its machine.
const STEAL_SHARE: f64 = 0.02;
/// Coefficient of variation of a cell's rate between runs above which small differences drown.
const VARIATION: f64 = 0.15;
/// Movement of the floor between blocks, (largest - smallest) / median, above which the device was
/// not the same device.
const FLOOR_SPREAD: f64 = 0.5;

/// The machines of the runs, each with the words before what is told of it alone: none where it is
/// the only one.
fn machines(results: &Results) -> Vec<(&str, String)> {
    let all: BTreeSet<&str> = results.runs.iter().map(|run| results.machine(run)).collect();
    let is_one = all.len() < 2;
    all.into_iter()
        .map(|machine| (machine, if is_one { String::new() } else { format!("on {machine}: ") }))
        .collect()
}

fn noise(results: &Results, analysis: &Analysis, found: &mut Found) {
    let good = || results.runs.iter().filter(|run| run.status == RunStatus::Done);
    for (machine, on) in machines(results) {
        let own = || good().filter(|run| results.machine(run) == machine);
        let stolen: Vec<f64> =
            own().filter_map(|run| run.steal_share).filter(|share| *share > STEAL_SHARE).collect();
        if let Some(worst) = stolen.iter().copied().reduce(f64::max) {
            found.push(Weight::Noise, CautionKind::NoisyMachine, format!(
                "{on}noisy machine: the hypervisor took CPU time away in {} of {} runs, up to {:.0} %. Repeat on a quieter host or \
                 at a quieter time",
                stolen.len(),
                own().count(),
                worst * 100.0
            ));
        }
    }
    // The floor of one stack over its blocks.
    let mut floors: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for run in good() {
        // On a modelled device that is how busy this machine is, which model time leaves out.
        if let Some(floor) = run.floor_ns.filter(|_| run.devices.is_empty()) {
            floors.entry(results.stack_of(run)).or_default().push(floor as f64);
        }
    }
    for (stack, floors) in floors {
        if let Some(moved) = spread(&floors).filter(|share| *share > FLOOR_SPREAD) {
            let min = floors.iter().copied().fold(f64::INFINITY, f64::min) / 1e3;
            let max = floors.iter().copied().fold(0.0, f64::max) / 1e3;
            found.push(Weight::Noise, CautionKind::NoisyDevice, format!(
                "noisy device: the floor (4 KiB write + fdatasync) of {stack} moved between {min:.0} and {max:.0} µs, \
                 {:.0} % of its median, from run to run. Stop what else uses the disk, and repeat",
                moved * 100.0
            ));
        }
    }
    let mut wild = BTreeSet::new();
    let mut worst = 0.0_f64;
    for measure in &analysis.measures {
        let rates: Vec<f64> = measure.runs.iter().map(|run| run.rate).collect();
        if let Some(variation) = coefficient_of_variation(&rates).filter(|variation| *variation > VARIATION) {
            wild.insert(measure.cell);
            worst = worst.max(variation);
        }
    }
    if !wild.is_empty() {
        found.push(Weight::Noise, CautionKind::NoisyRuns, format!(
            "noisy runs: in {} of {} cells the runs differ among themselves by more than 15 % (coefficient of variation, \
             up to {:.0} %). More repeats narrow the intervals; a quieter machine does it better",
            wild.len(),
            results.cells.len(),
            worst * 100.0
        ));
    }
}

/// Clocks, batteries and temperatures that were others from run to run.
fn conditions(results: &Results, found: &mut Found) {
    let differences = differences(results);
    for text in differences.noise {
        found.push(Weight::Noise, CautionKind::MachineMoved, text);
    }
    for text in differences.notes {
        found.push(Weight::Note, CautionKind::MachineMoved, text);
    }
}

/// Modelled devices that this machine could not keep to their models' times.
fn late_devices(results: &Results, analysis: &Analysis, found: &mut Found) {
    let studies = device_studies(results);
    // Model time leaves it out; wall time has it in.
    let has_model = analysis.measures.iter().any(|measure| measure.clock == Clock::Model);
    for (machine, on) in machines(results) {
        let is_own = |run: &&RunRow| results.machine(run) == machine;
        let own: BTreeSet<i64> = results.runs.iter().filter(is_own).map(|run| run.id).collect();
        let all = studies.iter().flat_map(|study| &study.runs).filter(|run| own.contains(&run.run));
        late_on(&on, &all.collect::<Vec<_>>(), has_model, found);
    }
}

/// The same of the runs of one machine; `on` names it.
fn late_on(on: &str, all: &[&DeviceRun], has_model: bool, found: &mut Found) {
    let runs = || all.iter().copied();
    // A run on two devices is one run.
    let of_runs = |all: &[&DeviceRun]| all.iter().map(|run| run.run).collect::<BTreeSet<_>>().len();
    let marked: Vec<_> = runs().filter(|run| !run.kept).collect();
    if !marked.is_empty() {
        let worst = |of: fn(&DeviceRun) -> f64| marked.iter().map(|run| of(run)).fold(0.0, f64::max);
        let weight = if has_model { Weight::Note } else { Weight::Answer };
        found.push(weight, CautionKind::LateDevice, format!(
            "{on}late device: in {} of {} runs on a modelled device the machine was too busy to keep the model's times (up to {:.0} % of \
             the answers late, device time up to {:.2} of the model's, up to {:.0} % more before requests were taken). They are marked. {}",
            of_runs(&marked),
            of_runs(all),
            worst(|run| run.late_share) * 100.0,
            worst(|run| run.used.slowness()),
            worst(|run| run.used.waiting_share()) * 100.0,
            if has_model {
                "Model time leaves that out; wall time has it in, and is slower than the device is"
            } else {
                "Their wall times are slower than the device is: go by the model time of the whole run in the table of modelled \
                 devices, or repeat at a quieter time"
            },
        ));
    }
    let errors: Vec<f64> =
        runs().filter_map(|run| run.used.self_test_error()).filter(|error| *error > LATE_SHARE).collect();
    if let Some(worst) = errors.iter().copied().reduce(f64::max) {
        found.push(Weight::Note, CautionKind::SelfTest, format!(
            "{on}modelled device: {} of {} self-tests before the runs found delays of {} µs and more off by more than 5 % (median of each \
             kind, up to {:.0} %): the machine was busy, or is too slow for such delays",
            errors.len(),
            all.len(),
            TESTED_FROM_NS / 1000,
            worst * 100.0,
        ));
    }
}

/// Runs on modelled devices whose primary numbers are wall times all the same, or rest on the
/// device alone.
fn without_model_time(results: &Results, analysis: &Analysis, found: &mut Found) {
    let is_modelled = |cell: i64| results.good_runs(cell).any(|run| !run.devices.is_empty());
    let of = |is: &dyn Fn(&Measure) -> bool| -> BTreeSet<i64> {
        let all = analysis.measures.iter().filter(|measure| is_modelled(measure.cell) && is(measure));
        all.map(|finding| finding.cell).collect()
    };
    let by_wall = of(&|measure| measure.clock == Clock::Wall);
    if !by_wall.is_empty() {
        let why = if !results.has_models() {
            "this file is of a format (before 7) that does not keep it. Run again to have it"
        } else {
            "it was not recorded in each of their runs"
        };
        found.push(Weight::Answer, CautionKind::NoModelTime, format!(
            "no model time: {} of {} cells ran on a modelled device, and their numbers are wall times all the same, because {why}. What \
             this machine was late is in them",
            by_wall.len(),
            results.cells.len()
        ));
    }
    let by_device = of(&|measure| {
        measure.clock == Clock::Model
            && measure.runs.iter().any(|run| run.model.is_some_and(|model| model.basis == Basis::Device))
    });
    if !by_device.is_empty() {
        found.push(Weight::Note, CautionKind::DeviceAlone, format!(
            "model time by the device alone: in {} of {} cells not all threads that work are seen (a server, a store with I/O of its \
             own, a guest kernel), so time in which they waited for a processor is in it",
            by_device.len(),
            results.cells.len()
        ));
    }
}

/// Bytes that a phase may read more in one run than in another without somebody else being
/// suspected.
const READ_MORE: u64 = 64 << 10;

/// Runs of one cell in which different amounts were read from a modelled device while the same was
/// written: what scans block devices (udev, blkid, another program's look at all of them) has read
/// from it, and it worked for them, too.
fn others_on_the_device(results: &Results, found: &mut Found) {
    let mut by_phase: BTreeMap<(i64, &str, Option<u64>), Vec<&PhaseModel>> = BTreeMap::new();
    for of_run in &results.models {
        let run = results.runs.iter().find(|run| run.id == of_run.run && run.status == RunStatus::Done);
        if let Some(run) = run {
            let key = (run.cell, of_run.model.phase.as_str(), of_run.model.x.map(f64::to_bits));
            by_phase.entry(key).or_default().push(&of_run.model);
        }
    }
    let mut cells = BTreeSet::new();
    for ((cell, ..), models) in by_phase {
        let read = |model: &&&PhaseModel| model.bytes[0];
        let (Some(least), Some(most)) = (models.iter().min_by_key(read), models.iter().max_by_key(read))
        else {
            continue;
        };
        let is_written_alike = least.bytes[1].abs_diff(most.bytes[1]) <= most.bytes[1] / 50;
        if most.bytes[0] > least.bytes[0] * 2 + READ_MORE && is_written_alike {
            cells.insert(cell);
        }
    }
    if !cells.is_empty() {
        found.push(Weight::Noise, CautionKind::OthersOnDevice, format!(
            "others on the device: in {} of {} cells some runs read much more from the modelled device than others that wrote the same. Something \
             that looks at all block devices (udev, blkid, lsblk) read from it, and model time has what the run waited for that",
            cells.len(),
            results.cells.len()
        ));
    }
}

/// Cells whose device was told to fail, which the numbers do not show: a lying flush only makes
/// them fast.
fn faults(results: &Results, found: &mut Found) {
    let running = || results.cells.iter().filter(|cell| cell.skipped.is_none());
    let faulty = || running().filter(|cell| !cell.spec.stack.faults.is_empty());
    let asked: BTreeSet<&str> =
        faulty().flat_map(|cell| &cell.spec.stack.faults).map(String::as_str).collect();
    if !asked.is_empty() {
        found.push(Weight::Answer, CautionKind::Faults, format!(
            "faulty device: in {} of {} cells the modelled device was told to fail ({}). Their numbers are not those of a sound device, \
             and the durability given for them is only what their settings promise on one",
            faulty().count(),
            running().count(),
            asked.into_iter().collect::<Vec<_>>().join(", ")
        ));
    }
}

fn durability(results: &Results, found: &mut Found) {
    let classes: BTreeSet<_> = results.cells.iter().filter_map(|cell| cell.durability).collect();
    if classes.len() > 1 {
        found.push(Weight::Note, CautionKind::MixedDurability,
            "cells of different durability stand side by side: compare speeds only where a power cut and a crash keep the same"
                .into(),
        );
    }
}
