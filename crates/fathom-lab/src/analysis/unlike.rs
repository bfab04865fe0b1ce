//! Runs that are not of the same thing.
//!
//! A cell names files by their paths, which is all that it is compared by when an experiment is
//! gone on with, and it does not name the disk. So what the runs were made of may have been
//! replaced between two of them, also within one session: by an editor, by another process.

use std::collections::{BTreeMap, BTreeSet};

use fathom_workload::workload::CONTENT;

use crate::store::{Results, RunRow, RunStatus};

/// What images are called.
const IMAGES: &str = "images";

/// What was replaced between runs.
#[derive(Debug, Default)]
pub(super) struct UnlikeRuns {
    /// The cells with such runs.
    pub cells: BTreeSet<i64>,
    /// What the runs were of, in words.
    pub between: BTreeSet<String>,
}

impl UnlikeRuns {
    /// Of all good runs: those of one cell are compared with its first one, and what several cells
    /// name with the first run that was made of it.
    pub fn of(results: &Results) -> UnlikeRuns {
        let mut unlike = UnlikeRuns::default();
        for cell in &results.cells {
            let mut good = results.good_runs(cell.id);
            let Some(first) = good.next() else { continue };
            for told in good.filter_map(|run| difference(first, run)) {
                unlike.cells.insert(cell.id);
                unlike.between.insert(told);
            }
        }
        let mut first: BTreeMap<(&str, String), &str> = BTreeMap::new();
        for run in results.runs.iter().filter(|run| run.status == RunStatus::Done) {
            for (what, name, state) in files_of(results, run) {
                let told = format!("two {what} called {name}");
                if *first.entry((what, name)).or_insert(state) == state {
                    continue;
                }
                // Two models or files in one cell are told already.
                if unlike.cells.insert(run.cell) || what == IMAGES {
                    unlike.between.insert(told);
                }
            }
        }
        unlike
    }
}

/// The files that a run was made of, as they are named, and how they were then: images, models of
/// devices, and what it did again. Of what earlier versions did not keep there is nothing.
fn files_of<'a>(results: &'a Results, run: &'a RunRow) -> Vec<(&'static str, String, &'a str)> {
    let Some(cell) = results.cell(run.cell) else { return Vec::new() };
    let (spec, record) = (&cell.spec.stack, &run.stack);
    let mut files = Vec::new();
    if let Some(path) = &spec.image {
        files.push((IMAGES, path.display().to_string(), record.image.as_str()));
    }
    for (device, model) in spec.device.iter().chain(&spec.log_device).zip(&record.models) {
        files.push(("models", device.clone(), model.as_str()));
    }
    for (key, hash) in &run.parameters {
        let named = key.strip_suffix(CONTENT).and_then(|named| run.parameters.get(named)?.as_str());
        if let (Some(path), Some(hash)) = (named, hash.as_str()) {
            files.push(("files", path.to_owned(), hash));
        }
    }
    files.retain(|(_, _, state)| !state.is_empty());
    files
}

/// What two runs of a cell have not in common and must.
fn difference(one: &RunRow, other: &RunRow) -> Option<String> {
    if let (Some(one), Some(other)) = (&one.engine, &other.engine) {
        if (&one.name, &one.version) != (&other.name, &other.version) {
            return Some(format!("{} {} and {} {}", one.name, one.version, other.name, other.version));
        }
        if one.build != other.build {
            return Some(format!("two builds of {} {}", one.name, one.version));
        }
    }
    if (&one.stack.filesystem, &one.stack.device) != (&other.stack.filesystem, &other.stack.device) {
        let [one, other] =
            [one, other].map(|run| format!("{} on {}", run.stack.filesystem, run.stack.device));
        return Some(format!("{one} and {other}"));
    }
    let another = one.stack.ran_on.iter().find_map(|(name, of_one)| {
        let of_other = other.stack.ran_on.get(name).filter(|of_other| *of_other != of_one)?;
        // Of images it is told by their names.
        (!name.starts_with("image ")).then(|| format!("two disks ({name}: {of_one} and {of_other})"))
    });
    if another.is_some() {
        return another;
    }
    if one.stack.models != other.stack.models {
        return Some(format!("two models of {}", one.stack.device));
    }
    one.parameters.iter().find_map(|(key, value)| {
        let others = other.parameters.get(key).filter(|others| *others != value)?;
        let of_file = key.strip_suffix(CONTENT).and_then(|named| one.parameters.get(named));
        Some(match of_file {
            Some(path) => format!("two files called {path}"),
            None => format!("{key} {value} and {others}"),
        })
    })
}
