//! The cells of `--set`: a file system and settings of the engine.

use std::collections::BTreeMap;

use fathom_cut::{MMDB, POSTGRESQL, RecordedRun, SMSC, Subject, has_own_work, store_kind};
use fathom_diagnostic::suggest::{did_you_mean_hint, nearest};
use fathom_lab::experiment::{Experiment, Selection, Vocabulary, builtin_named};
use fathom_stack::Machine;
use fathom_workload::engine::check_settings;
use serde_json::Value as Json;

use crate::cli::CutArgs;
use crate::outcome::Error;

/// Settings of a cell.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    pub(super) filesystem: String,
    pub(super) settings: BTreeMap<String, Json>,
    pub(super) label: String,
}

/// The cells of `--set`, each setting checked.
pub(super) fn cells(asked: &CutArgs) -> Result<Vec<Cell>, Error> {
    let mut axes: Vec<(String, Vec<String>)> = Vec::new();
    for word in asked.set.iter().filter(|word| !word.starts_with("workload.")) {
        let Some((key, values)) = word.split_once('=') else {
            return Err(Error::usage(format!("--set {word}: write KEY=VALUE, e.g. journal_mode=wal")));
        };
        let key = key.trim();
        let key = key.strip_prefix("engine.").or(key.strip_prefix("stack.")).unwrap_or(key).to_owned();
        if axes.iter().any(|axis| axis.0 == key) {
            return Err(Error::usage(format!(
                "--set {key}: it is given twice; several values stand with commas"
            )));
        }
        // A path may hold a comma.
        let split = |values: &str| values.split(',').map(|part| part.trim().to_owned()).collect();
        let is_path = ["library", "bin_directory"].contains(&&*key);
        let values: Vec<String> = if is_path { vec![values.to_owned()] } else { split(values) };
        if let Some(twice) = values.iter().enumerate().find(|names| values[..names.0].contains(names.1)) {
            return Err(Error::usage(format!("--set {key}: {} is given twice", twice.1)));
        }
        axes.push((key, values));
    }
    let machine = Machine::here();
    let is_said = |axes: &[(String, Vec<String>)], key: &str| axes.iter().any(|axis| axis.0 == key);
    if !is_said(&axes, "filesystem") {
        axes.insert(0, ("filesystem".into(), vec!["ext4".into()]));
    }
    let has_own_work = has_own_work(&asked.engine);
    let first_look = !has_own_work && !is_said(&axes, "journal_mode") && !is_said(&axes, "synchronous");
    for (key, default) in [("journal_mode", "delete,wal"), ("synchronous", "full")] {
        if !has_own_work && !first_look && !is_said(&axes, key) {
            axes.push((key.into(), default.split(',').map(Into::into).collect()));
        }
    }
    for name in axes.iter().filter(|axis| axis.0 == "filesystem").flat_map(|axis| &axis.1) {
        if name == "dir" {
            return Err(Error::usage(
                "--set filesystem=dir: a directory has no device of its own whose power could be cut",
            ));
        }
        if machine.filesystem(name).is_none() {
            let near = nearest(name, machine.filesystems().iter().map(|filesystem| &*filesystem.name));
            return Err(Error::usage(format!(
                "--set filesystem={name}: there is none of this name{}",
                did_you_mean_hint(near)
            )));
        }
    }
    let mut cells: Vec<BTreeMap<String, String>> = vec![BTreeMap::new()];
    for (key, values) in &axes {
        let with = |cell: &BTreeMap<String, String>, value: &String| {
            let mut cell = cell.clone();
            cell.insert(key.clone(), value.clone());
            cell
        };
        cells = cells.iter().flat_map(|cell| values.iter().map(move |value| with(cell, value))).collect();
    }
    if first_look {
        let modes = first_look_settings()?;
        let with = |cell: &BTreeMap<String, String>| {
            let merged = |mode: &BTreeMap<String, String>| {
                let mut merged = mode.clone();
                merged.extend(cell.clone());
                merged
            };
            modes.iter().map(merged).collect::<Vec<_>>()
        };
        cells = cells.iter().flat_map(with).collect();
    }
    let several: Vec<&str> =
        axes.iter().filter(|axis| axis.1.len() > 1).map(|axis| axis.0.as_str()).collect();
    let beside = beside(asked.write_back);
    let labelled = |cell: Cell| Cell { label: cell.label + beside, ..cell };
    cells.into_iter().map(|cell| checked(asked, cell, &several).map(labelled)).collect()
}

/// What is tried where nothing is said: journal mode and synchronous setting of first-look's cells.
fn first_look_settings() -> Result<Vec<BTreeMap<String, String>>, Error> {
    let failed = |problem: &dyn std::fmt::Display| Error::failed(format!("first-look: {problem}"));
    let builtin = builtin_named("first-look").ok_or_else(|| failed(&"it is not built in"))?;
    let experiment = Experiment::parse("built-in", builtin.source).map_err(|error| failed(&error))?;
    let cells = experiment.cells(&Selection::default(), &Vocabulary::here());
    let settings = |cell: &fathom_lab::cell::Cell| {
        let engine = cell.engine.iter().flat_map(|engine| &engine.settings);
        engine
            .filter(|(key, _)| ["journal_mode", "synchronous"].contains(&key.as_str()))
            .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
            .collect()
    };
    Ok(cells.map_err(|error| failed(&error))?.cells.iter().map(|(_, cell)| settings(cell)).collect())
}

/// A file system in a label: one word, as tables know it.
fn word_of(filesystem: &str, has_log: bool) -> String {
    format!("{filesystem}{}", if has_log { "+log" } else { "" })
}

/// What a label says of a run beside which the file system is synced.
fn beside(write_back: bool) -> &'static str {
    if write_back { " beside write-back" } else { "" }
}

/// A cell with its settings as the engine takes them.
fn checked(asked: &CutArgs, mut words: BTreeMap<String, String>, several: &[&str]) -> Result<Cell, Error> {
    let engine = asked.engine.as_str();
    let filesystem = words.remove("filesystem").unwrap_or_default();
    let place = word_of(&filesystem, asked.log.is_some());
    let settings: BTreeMap<String, Json> =
        words.iter().map(|(key, value)| (key.clone(), typed(value))).collect();
    let of = |key: &str| words.get(key).map_or("", String::as_str);
    let mut label = if engine == SMSC {
        let kind = store_kind(&settings).map_err(|error| Error::usage(format!("--set: {error}")))?;
        return Ok(Cell { label: format!("{place} {SMSC}/{}", kind.name()), filesystem, settings });
    } else if engine == MMDB {
        fathom_cut::mmdb_options(&settings).map_err(|error| Error::usage(format!("--set: {error}")))?;
        format!("{place} {MMDB}")
    } else if engine == POSTGRESQL {
        check_settings(engine, &settings).map_err(|error| Error::usage(format!("--set: {error}")))?;
        format!("{place} {POSTGRESQL}")
    } else {
        check_settings("sqlite", &settings).map_err(|error| Error::usage(format!("--set: {error}")))?;
        format!("{place} {}/{}", of("journal_mode"), of("synchronous"))
    };
    for key in several.iter().filter(|key| !["filesystem", "journal_mode", "synchronous"].contains(key)) {
        label += &format!(" {key}={}", of(key));
    }
    Ok(Cell { filesystem, settings, label })
}

/// What a recorded cell is called: as when it was recorded, with the settings in which it differs
/// from the others of its directory.
pub(super) fn label_again(recorded: &RecordedRun, all: &BTreeMap<usize, RecordedRun>) -> String {
    let of = |key: &str| recorded.settings.get(key).map_or("", String::as_str);
    let place = word_of(&recorded.filesystem.driver, recorded.log_bytes.is_some());
    let mut label = match &recorded.subject {
        Subject::Sqlite if of("journal_mode").is_empty() => place,
        Subject::Sqlite => format!("{place} {}/{}", of("journal_mode"), of("synchronous")),
        Subject::Mmdb { .. } => format!("{place} {MMDB}"),
        Subject::Postgresql { .. } => format!("{place} {POSTGRESQL}"),
        Subject::Smsc { settings } => match store_kind(settings) {
            Ok(kind) => format!("{place} {SMSC}/{}", kind.name()),
            Err(_) => format!("{place} {SMSC}"),
        },
    };
    // Of the centre's store everything is in its kind.
    let is_told = |key: &String| {
        !["journal_mode", "synchronous"].contains(&key.as_str())
            && !matches!(recorded.subject, Subject::Smsc { .. })
    };
    for (key, value) in recorded.settings.iter().filter(|setting| is_told(setting.0)) {
        if all.values().any(|other| other.settings.get(key) != Some(value)) {
            // mmdb's are kept as JSON, where words have quotes.
            label += &format!(" {key}={}", value.trim_matches('"'));
        }
    }
    label + beside(recorded.write_back)
}

/// A value as it is meant: number, truth or word.
pub(super) fn typed(value: &str) -> Json {
    match (value.parse::<i64>(), value.parse::<f64>(), value.parse::<bool>()) {
        (Ok(number), _, _) => Json::from(number),
        (_, Ok(number), _) => Json::from(number),
        (_, _, Ok(truth)) => Json::from(truth),
        _ => Json::from(value),
    }
}

#[cfg(test)]
mod tests {
    use super::super::recordings::recorded_run;
    use super::*;

    /// What happened: `--replay` called each cell of PostgreSQL's and of mmdb's by its file system
    /// alone, and cells of several page sizes all the same.
    #[test]
    fn recorded_cells_are_called_as_they_were() {
        let with = |subject: Subject, settings: &[(&str, &str)]| {
            let settings = settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
            RecordedRun { subject, settings: settings.collect(), ..recorded_run() }
        };
        let labels = |cells: Vec<RecordedRun>| {
            let all: BTreeMap<usize, RecordedRun> = (1..).zip(cells).collect();
            all.values().map(|cell| label_again(cell, &all)).collect::<Vec<_>>()
        };
        let sqlite = |mode, page_size| {
            let settings = [("journal_mode", mode), ("page_size", page_size), ("synchronous", "full")];
            with(Subject::Sqlite, &settings)
        };
        assert_eq!(labels(vec![sqlite("wal", "4096")]), ["ext4 wal/full"]);
        assert_eq!(
            labels(vec![sqlite("wal", "4096"), sqlite("delete", "4096")]),
            ["ext4 wal/full", "ext4 delete/full"]
        );
        assert_eq!(
            labels(vec![sqlite("wal", "4096"), sqlite("wal", "8192")]),
            ["ext4 wal/full page_size=4096", "ext4 wal/full page_size=8192"]
        );
        let server = || Subject::Postgresql { settings: BTreeMap::new() };
        let fsync = |value| with(server(), &[("fsync", value), ("synchronous_commit", "on")]);
        assert_eq!(
            labels(vec![fsync("true"), fsync("false")]),
            ["ext4 postgresql fsync=true", "ext4 postgresql fsync=false"]
        );
        let mmdb = with(Subject::Mmdb { settings: BTreeMap::new() }, &[("log_kind", "\"differential\"")]);
        assert_eq!(labels(vec![mmdb]), ["ext4 mmdb"]);
        let store = BTreeMap::from([("store".to_owned(), Json::from("sqlite"))]);
        assert_eq!(labels(vec![with(Subject::Smsc { settings: store }, &[])]), ["ext4 smsc/sqlite"]);
        // Of a recording of before engines were told.
        let older = with(Subject::Sqlite, &[]);
        assert_eq!(labels(vec![RecordedRun { write_back: true, ..older }]), ["ext4 beside write-back"]);
    }
}
