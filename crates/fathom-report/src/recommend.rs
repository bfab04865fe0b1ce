//! "Which setting should I use here?", answered from the data.
//!
//! Applies where SQLite's journal mode and synchronous setting are what the cells differ in, or one
//! of the two where the user chose so. The answer is built from three comparisons, each paired by
//! block with its interval: the fastest cell that promises at least what SQLite's default (DELETE,
//! FULL) promises, against that default (the first cell of the plan where that was not measured);
//! what the next weaker promise would add; what giving up power cuts would add. A difference that
//! is not proven is said to be none.

use fathom_cut::Class;
use fathom_lab::advise::losing_filesystem;
use fathom_lab::analysis::{Analysis, Clock, Measure, times};
use fathom_lab::experiment::Metric;
use fathom_lab::naming::{transacts, value_name};
use fathom_lab::stats::Comparison;
use fathom_lab::store::{CellRow, Results};
use fathom_workload::engine::{Dialect, engine_named};
use fathom_workload::spec::Durability;

use crate::chosen::ChosenAxis;

/// SQLite's journal mode and synchronous setting of a cell, lower case.
pub fn setting(cell: &CellRow) -> Option<(String, String)> {
    let engine = cell.spec.engine.as_ref()?;
    engine_named(&engine.name).filter(|kind| kind.dialect == Dialect::Sqlite)?;
    let read = |key: &str, default: &str| {
        engine.settings.get(key).and_then(|v| v.as_str()).unwrap_or(default).to_lowercase()
    };
    Some((read("journal_mode", "delete"), read("synchronous", "full")))
}

/// What variants differ in where that is SQLite's journal mode, its synchronous setting or both,
/// and each variant has another one: `journal mode and synchronous setting`.
pub fn differing(results: &Results) -> Option<String> {
    let mut all: Vec<(&String, (String, String))> = Vec::new();
    for cell in &results.cells {
        let (variant, own) = (cell.axes.get("variants")?, setting(cell)?);
        match all.iter().find(|(name, other)| *name == variant || *other == own) {
            Some((name, other)) if *name != variant || *other != own => return None,
            Some(_) => {}
            None => all.push((variant, own)),
        }
    }
    let (_, first) = all.first()?;
    let modes = all.iter().any(|(_, own)| own.0 != first.0).then_some("journal mode");
    let syncs = all.iter().any(|(_, own)| own.1 != first.1).then_some("synchronous setting");
    let parts: Vec<String> = modes.into_iter().chain(syncs).map(str::to_owned).collect();
    (!parts.is_empty()).then(|| crate::words::joined(&parts))
}

/// Cells among which the question arises.
pub struct Group<'a> {
    /// What they have in common and others have not: `ext4`; empty where these are all.
    pub name: String,
    /// The cells, in the order of the plan.
    pub cells: Vec<&'a CellRow>,
}

/// The cells by what else they differ in, each group with every journal mode and synchronous
/// setting once; none where the cells of some group differ in something that no axis tells, or not
/// in those two.
pub fn groups(results: &Results) -> Vec<Group<'_>> {
    grouped(results, |modes, syncs| modes && syncs)
}

/// As [`groups`], where `differ` says of each group whether its journal modes and its synchronous
/// settings differ enough.
fn grouped(results: &Results, differ: impl Fn(bool, bool) -> bool) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for cell in &results.cells {
        let alike = |other: &CellRow| {
            other.spec.on == cell.spec.on
                && other.spec.stack == cell.spec.stack
                && other.spec.workload == cell.spec.workload
                && others_of(other) == others_of(cell)
        };
        match groups.iter_mut().find(|group| alike(group.cells[0])) {
            Some(group) => group.cells.push(cell),
            None => groups.push(Group { name: String::new(), cells: vec![cell] }),
        }
    }
    let is_one = |group: &Group<'_>| {
        let settings: Vec<_> = group.cells.iter().filter_map(|cell| setting(cell)).collect();
        let is_new = |(i, own): (usize, &(String, String))| !settings[..i].contains(own);
        settings.len() == group.cells.len()
            && settings.iter().enumerate().all(is_new)
            && differ(
                settings.iter().any(|s| s.0 != settings[0].0),
                settings.iter().any(|s| s.1 != settings[0].1),
            )
    };
    if !groups.iter().all(is_one) {
        return Vec::new();
    }
    let tells =
        |key: &str, value: &String| results.cells.iter().any(|cell| cell.axes.get(key) != Some(value));
    for group in &mut groups {
        let first = group.cells[0];
        let common = |key: &str| group.cells.iter().all(|cell| cell.axes.get(key) == first.axes.get(key));
        let words = first.axes.iter().filter(|(key, value)| common(key) && tells(key, value));
        group.name = words.filter_map(|(axis, _)| value_name(first, axis)).collect::<Vec<_>>().join(" ");
    }
    groups
}

/// The engine's other settings.
fn others_of(cell: &CellRow) -> Vec<(&String, &serde_json::Value)> {
    let settings = cell.spec.engine.iter().flat_map(|engine| &engine.settings);
    settings.filter(|(key, _)| *key != "journal_mode" && *key != "synchronous").collect()
}

/// Whether the cells differ in journal mode and synchronous setting and in nothing else.
pub fn applies(results: &Results) -> bool {
    groups(results).len() == 1
}

/// Where no setting promises that a power cut leaves the database.
const NONE_KEEPS: &str = "Nothing measured here keeps the database at a power cut, so none of it is advised.";

/// A gain that is less than this for sure is none for which to give up durability.
const WORTH: f64 = 1.1;

struct Candidate<'a> {
    cell: &'a CellRow,
    measure: &'a Measure,
    durability: Durability,
    name: String,
}

/// Axes on which the user chooses among such settings.
const AXES: [&str; 3] = ["variants", "engine.journal_mode", "engine.synchronous"];

/// The advice in one to three sentences, or in one for each group of cells; none where the question
/// does not arise. Who chose settings that differ in one of the two (`chosen`) asks it too: an
/// experiment's own file may ask something else of them.
pub fn advice(results: &Results, analysis: &Analysis, phase: &str, chosen: &[ChosenAxis]) -> Vec<String> {
    let mut groups = groups(results);
    if groups.is_empty() && chosen.iter().any(|axis| AXES.contains(&axis.key.as_str())) {
        groups = grouped(results, |modes, syncs| modes || syncs);
    }
    if let [only] = groups.as_slice() {
        return of_group(results, only, analysis, phase);
    }
    let first = |group: &Group<'_>| {
        Some(format!("{}: {}", group.name, of_group(results, group, analysis, phase).first()?))
    };
    groups.iter().filter_map(first).collect()
}

/// What a power cut leaves of a cell's commits: what its settings promise, but on a file system
/// that is known to lose databases with them, and but where a measured power cut took more.
fn kept(results: &Results, cell: &CellRow) -> Option<Durability> {
    let own = cell.durability?;
    let broken = results.cut(cell.id).filter(|found| found.outcome.breaks_promise);
    let worst = broken.and_then(|found| found.outcome.tally.worst.as_ref()).map(|worst| worst.1.class());
    let most = match worst {
        _ if losing_filesystem(results, cell).is_some() => Durability::ProcessCrash,
        None => return Some(own),
        Some(class) if class <= Class::LostSeveral => Durability::PowerCutPrefix,
        Some(_) => Durability::ProcessCrash,
    };
    Some(own.min(most))
}

fn of_group(results: &Results, group: &Group<'_>, analysis: &Analysis, phase: &str) -> Vec<String> {
    let candidates: Vec<Candidate<'_>> = group
        .cells
        .iter()
        .filter_map(|cell| {
            let (journal, synchronous) = setting(cell)?;
            Some(Candidate {
                cell,
                measure: analysis.get(cell.id, phase, None)?,
                durability: kept(results, cell)?,
                name: format!("{} with {}", journal.to_uppercase(), synchronous.to_uppercase()),
            })
        })
        .collect();
    let default = candidates.iter().find(|c| c.name == "DELETE with FULL").or(candidates.first());
    // One alone is not the best of anything.
    let Some(default) = default.filter(|_| candidates.len() > 1) else { return Vec::new() };
    let fastest = |allowed: &dyn Fn(Durability) -> bool| {
        candidates
            .iter()
            .filter(|c| allowed(c.durability))
            .max_by(|a, b| a.measure.rate.mid.total_cmp(&b.measure.rate.mid))
    };
    // What may lose the database at a power cut is never advised, whatever the default promises:
    // with barriers off nothing promises anything, and "Use WAL with OFF" was said.
    // What the default breaks is no reason to ask for less, where something keeps it.
    let promised = default.cell.durability.unwrap_or(default.durability);
    let is_kept = candidates.iter().any(|c| c.durability >= promised);
    let least = if is_kept { promised } else { default.durability }.max(Durability::PowerCutPrefix);
    let keeping: Vec<&Candidate<'_>> = candidates.iter().filter(|c| c.durability >= least).collect();
    let is_faster = |c: &Candidate<'_>| {
        let faster = c.measure.faster_than(default.measure, Metric::Rate);
        faster.is_some_and(|faster| faster.proven && faster.ratio > 1.0)
    };
    let rates: Vec<(f64, bool)> = keeping.iter().map(|c| (c.measure.rate.mid, is_faster(c))).collect();
    let Some(best) = named(&rates).map(|place| keeping[place]) else { return vec![NONE_KEEPS.into()] };
    let mut sentences = vec![best_of_its_promise(best, default)];
    for (promise, price) in weaker_than(best.durability) {
        sentences.extend(fastest(&|own| own == promise).and_then(|weaker| more(weaker, best, price)));
    }
    sentences
}

/// Weaker promises than one, with what each may cost.
fn weaker_than(best: Durability) -> impl Iterator<Item = (Durability, &'static str)> {
    let all = [
        (Durability::PowerCutPrefix, "may lose the last commits at a power cut, never the database"),
        (Durability::ProcessCrash, "then a power cut can lose or corrupt the database"),
    ];
    all.into_iter().filter(move |promise| promise.0 < best)
}

/// Place of the one that is named, by the rates and by whether each is proven to be faster than the
/// default: the fastest of those that are, and the fastest of all where none is.
fn named(rates: &[(f64, bool)]) -> Option<usize> {
    let by_proof_and_rate = |a: &usize, b: &usize| {
        let ((a, a_proven), (b, b_proven)) = (rates[*a], rates[*b]);
        a_proven.cmp(&b_proven).then(a.total_cmp(&b))
    };
    (0..rates.len()).max_by(by_proof_and_rate)
}

fn best_of_its_promise(best: &Candidate<'_>, default: &Candidate<'_>) -> String {
    let promise =
        if best.durability > default.durability { "a stronger promise" } else { "the same promise" };
    // Wall time, which the tables have beside it, may say another thing.
    let clock = match best.measure.common_clock(default.measure) {
        Clock::Model => ", in model time",
        Clock::Wall => "",
    };
    match best.measure.faster_than(default.measure, Metric::Rate) {
        _ if best.cell.id == default.cell.id => {
            format!(
                "Keep {}: nothing measured here that promises as much is proven to be faster.",
                default.name
            )
        }
        Some(faster) if faster.proven && faster.ratio > 1.0 => format!(
            "Use {}. Here it {} {} faster than {}{clock}, with {promise}.",
            best.name,
            transacts(best.cell),
            times(&faster),
            default.name
        ),
        Some(faster) => format!(
            "Nothing measured here that promises as much is proven to be faster than {}: {}, with {promise}, comes nearest, ~ {}{clock}.",
            default.name,
            best.name,
            times(&faster)
        ),
        None => {
            format!("{} was never measured in one block with {}: nothing is proven.", best.name, default.name)
        }
    }
}

fn more(weaker: &Candidate<'_>, best: &Candidate<'_>, price: &str) -> Option<String> {
    let faster = weaker.measure.faster_than(best.measure, Metric::Rate)?;
    Some(more_told(&weaker.name, transacts(weaker.cell), &faster, price))
}

/// What a weaker promise brings, and its price.
fn more_told(name: &str, verb: &str, faster: &Comparison, price: &str) -> String {
    if faster.proven && faster.ratio > 1.0 {
        format!("{name} {verb} {} faster still, and {price}.", times(faster))
    } else if faster.proven {
        format!("{name} {verb} {} slower than that, and {price}.", times(&faster.inverse()))
    } else {
        // Not proven is not proven not to be.
        let so = if faster.high < WORTH {
            "it buys less than 10 % here"
        } else {
            "more runs would tell whether it buys anything"
        };
        format!("{name} is not proven faster than that (~ {}), and {price}: {so}.", times(faster))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened: what is proven to be slower was "not proven faster (~ 0.50x)", and a gain of
    /// up to 10 % was "nothing".
    #[test]
    fn what_a_weaker_promise_brings_is_told_as_far_as_it_is_proven() {
        let told = |ratio: f64, low: f64, high: f64| {
            let proven = low > 1.0 || high < 1.0;
            let faster = Comparison { ratio, low, high, proven, n: 5 };
            more_told("WAL with NORMAL", "commits", &faster, "may lose some")
        };
        assert_eq!(
            told(2.0, 1.9, 2.1),
            "WAL with NORMAL commits 2.0x [1.9, 2.1] faster still, and may lose some."
        );
        assert!(told(0.5, 0.4, 0.6).contains("commits 2.0x [1.7, 2.5] slower than that"));
        assert!(
            told(1.02, 0.98, 1.06).contains("(~ 1.02x [0.98, 1.06])")
                && told(1.02, 0.98, 1.06).contains("less than 10 %")
        );
        assert!(told(1.1, 0.8, 1.5).contains("more runs would tell"));
    }

    /// What happened: where only WAL/NORMAL and weaker ones ran, it was compared with itself: "not
    /// proven faster than that (~ 1.00x), and may lose the last commits".
    #[test]
    fn only_a_weaker_promise_has_a_price() {
        let weaker = |best| weaker_than(best).map(|promise| promise.0).collect::<Vec<_>>();
        assert_eq!(weaker(Durability::PowerCut), [Durability::PowerCutPrefix, Durability::ProcessCrash]);
        assert_eq!(weaker(Durability::PowerCutPrefix), [Durability::ProcessCrash]);
        assert!(weaker(Durability::ProcessCrash).is_empty());
    }

    /// What happened: one bad run made the fastest of all unproven, and "no setting is proven to
    /// commit faster" was said where another one was, by half.
    #[test]
    fn what_is_proven_to_be_faster_is_named_before_what_may_be() {
        assert_eq!(named(&[(100.0, false), (150.0, true), (155.0, false)]), Some(1));
        assert_eq!(named(&[(100.0, false), (150.0, true), (155.0, true)]), Some(2));
        assert_eq!(named(&[(100.0, false), (155.0, false), (150.0, false)]), Some(1));
        assert_eq!(named(&[]), None);
    }
}
