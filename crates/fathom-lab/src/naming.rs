//! Names of cells, rendered from the pairs (axis, value) that make them.
//!
//! A cell's label is for programs: the values as the experiment file writes them, unique in a
//! results file, compared and never read. Its title is for people: the same pairs with engines,
//! journal modes and synchronous settings written as their documentation writes them.

use std::collections::{BTreeMap, BTreeSet};

use fathom_workload::engine::engine_named;
use fathom_workload::registry::workload_named;

use crate::experiment::{Axis, Experiment, MACHINE_AXIS, TRACE_AXIS, VARIANTS_AXIS};
use crate::store::{CellRow, Results};

/// An engine as its makers write it.
#[must_use]
pub fn engine_name(name: &str) -> &str {
    engine_named(name).map_or(name, |kind| kind.title)
}

/// The axis of libraries that are SQLite, each by its path.
const LIBRARY_AXIS: &str = "engine.library";

/// The engines of the cells' good runs with their versions, each once: `SQLite 3.54.1`. Of
/// libraries that an axis tells apart each has its value there: `SQLite 3.40.1 (./libsqlite3.so)`.
#[must_use]
pub fn engines_of<'a>(results: &'a Results, cells: impl IntoIterator<Item = &'a CellRow>) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for cell in cells {
        let library = cell.axes.get(LIBRARY_AXIS).map_or_else(String::new, |library| format!(" ({library})"));
        for engine in results.good_runs(cell.id).filter_map(|run| run.engine.as_ref()) {
            let name = format!("{} {}{library}", engine_name(&engine.name), engine.version);
            if !all.contains(&name) {
                all.push(name);
            }
        }
    }
    all
}

/// What the abscissa of the cell's phases counts: `rows`, `threads`; `size` for a workload that
/// this Fathom does not know.
#[must_use]
pub fn abscissa_name(cell: &CellRow) -> &'static str {
    match workload_named(&cell.spec.workload.name) {
        Some(kind) if !kind.abscissa.is_empty() => kind.abscissa,
        _ => "size",
    }
}

/// Joins words as a sentence does: `a, b and c`.
#[must_use]
pub fn joined(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

/// Whether the cell's transactions are commits. Those of a trace may only read, as a single SELECT
/// does.
#[must_use]
pub fn are_commits(cell: &CellRow) -> bool {
    cell.spec.workload.name != "trace"
}

/// What the cell does with transactions, as a verb.
#[must_use]
pub fn transacts(cell: &CellRow) -> &'static str {
    if are_commits(cell) { "commits" } else { "executes transactions" }
}

/// The cell's value on an axis as people read it: `WAL` on `engine.journal_mode`, `SQLite` on
/// `engine.name`. A variant is written as its author wrote it, unless it is named after settings
/// of the cell: `wal/full` is then `WAL/FULL`. None where the cell has no value on this axis.
#[must_use]
pub fn value_name(cell: &CellRow, axis: &str) -> Option<String> {
    let value = cell.axes.get(axis)?;
    let Some(engine) = &cell.spec.engine else { return Some(value.clone()) };
    let capitals = engine_named(&engine.name).map_or(&[][..], |kind| kind.capitals);
    if axis == "engine.name" {
        return Some(engine_name(value).to_owned());
    }
    if axis != VARIANTS_AXIS {
        let is_word = value.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let is_capital = is_word && axis.strip_prefix("engine.").is_some_and(|key| capitals.contains(&key));
        return Some(if is_capital { value.to_ascii_uppercase() } else { value.clone() });
    }
    let settings = capitals.iter().filter_map(|key| engine.settings.get(*key)?.as_str());
    let mut pairs = vec![(engine.name.as_str(), engine_name(&engine.name).to_owned())];
    pairs.extend(settings.map(|setting| (setting, setting.to_ascii_uppercase())));
    Some(composed(value, &pairs).unwrap_or_else(|| value.clone()))
}

/// An axis in words: `journal mode` of `engine.journal_mode`.
#[must_use]
pub fn axis_label(key: &str) -> String {
    match key {
        "stack.filesystem" => "file system".into(),
        "variants" => "variant".into(),
        // "by on" says nothing.
        MACHINE_AXIS => "machine".into(),
        _ => key.rsplit('.').next().unwrap_or(key).replace('_', " "),
    }
}

/// The cell's value on an axis as a sentence tells it. A number alone would not say of what, nor
/// would `on`: `files 2`. None where the cell has no value on this axis.
#[must_use]
pub fn value_in_sentence(cell: &CellRow, axis: &str) -> Option<String> {
    let value = cell.axes.get(axis)?;
    if value.parse::<f64>().is_ok() || matches!(value.as_str(), "true" | "false" | "on" | "off") {
        return Some(format!("{} {value}", axis_label(axis)));
    }
    value_name(cell, axis)
}

/// The name that some of these pairs make, in their order, joined by a space or a slash, if their
/// plain words make `name`.
fn composed(name: &str, pairs: &[(&str, String)]) -> Option<String> {
    pairs.iter().enumerate().find_map(|(place, (plain, shown))| {
        let rest = strip_prefix(name, plain)?;
        if rest.is_empty() {
            return Some(shown.clone());
        }
        let between = rest.chars().next().filter(|c| matches!(c, ' ' | '/'))?;
        let after = composed(&rest[between.len_utf8()..], &pairs[place + 1..])?;
        Some(format!("{shown}{between}{after}"))
    })
}

/// What follows `prefix`, in whichever case it is written.
fn strip_prefix<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let (head, rest) = text.split_at_checked(prefix.len())?;
    head.eq_ignore_ascii_case(prefix).then_some(rest)
}

/// The words of a cell that has these values on the axes that tell cells apart: `ext4 wal`;
/// `otherwise` where there is no such axis.
pub(crate) fn joined_values<'a>(values: impl Iterator<Item = &'a str>, otherwise: &str) -> String {
    let words: Vec<&str> = values.collect();
    if words.is_empty() { otherwise.to_owned() } else { words.join(" ") }
}

/// Tells names apart that are alike: two axes with words such as "a b" and "b" make two.
pub(crate) fn make_unique<'a>(names: impl Iterator<Item = &'a mut String>) {
    let mut seen = BTreeSet::new();
    for name in names {
        let mut number = 2;
        let plain = name.clone();
        while !seen.insert(name.clone()) {
            *name = format!("{plain} ({number})");
            number += 1;
        }
    }
}

/// The axes that tell cells of a results file apart.
struct Order<'a> {
    /// The axes of the experiment file, in its order.
    file_axes: &'a [Axis],
    /// Whether the variant of all cells goes without saying: the only one that is not optional.
    has_unsaid_variant: bool,
}

impl<'a> Order<'a> {
    fn new(cells: &[CellRow], experiment: Option<&'a Experiment>) -> Order<'a> {
        let file_axes = experiment.map_or(&[][..], |experiment| experiment.axes.as_slice());
        let required = file_axes.iter().find_map(Axis::only_required);
        let is_required =
            |cell: &CellRow| cell.axes.get(VARIANTS_AXIS).is_none_or(|axis| Some(axis.as_str()) == required);
        Order { file_axes, has_unsaid_variant: required.is_some() && cells.iter().all(is_required) }
    }

    /// The axes of a cell in the order of the file, after that of traces and before those that a
    /// `--set` has added.
    fn of<'c>(&self, cell: &'c CellRow) -> Vec<&'c str> {
        let is_said = |key: &&str| !(self.has_unsaid_variant && *key == VARIANTS_AXIS);
        let mut keys: Vec<&str> = cell.axes.keys().map(String::as_str).filter(is_said).collect();
        keys.sort_by_key(|key| match self.file_axes.iter().position(|axis| axis.name == *key) {
            _ if *key == TRACE_AXIS => 0,
            Some(place) => place + 1,
            None => self.file_axes.len() + 1,
        });
        keys
    }
}

/// Gives every cell its title.
pub(crate) fn entitle(cells: &mut [CellRow], experiment: Option<&Experiment>) {
    let order = Order::new(cells, experiment);
    for cell in cells.iter_mut() {
        let names: Vec<String> = order.of(cell).iter().filter_map(|axis| value_name(cell, axis)).collect();
        cell.title = joined_values(names.iter().map(String::as_str), &cell.spec.workload.name);
    }
    make_unique(cells.iter_mut().map(|cell| &mut cell.title));
}

/// The cells' titles without their values on one axis; a cell that has no other is called by its
/// title. Cells that are told apart by that axis are called alike.
pub(crate) fn titles_without(results: &Results, axis: &str) -> Vec<String> {
    names_without(results, axis, value_name, |cell| &cell.title)
}

/// As [`titles_without`], the cells' labels.
pub(crate) fn labels_without(results: &Results, axis: &str) -> Vec<String> {
    names_without(results, axis, |cell, key| cell.axes.get(key).cloned(), |cell| &cell.label)
}

fn names_without(
    results: &Results,
    axis: &str,
    value: fn(&CellRow, &str) -> Option<String>,
    whole: fn(&CellRow) -> &String,
) -> Vec<String> {
    let row = &results.experiment;
    let experiment = Experiment::parse(&row.source_name, &row.source).ok();
    let order = Order::new(&results.cells, experiment.as_ref());
    let name = |cell: &CellRow| {
        let others = order.of(cell).into_iter().filter(|key| *key != axis);
        let names: Vec<String> = others.filter_map(|key| value(cell, key)).collect();
        joined_values(names.iter().map(String::as_str), whole(cell))
    };
    results.cells.iter().map(name).collect()
}

/// The title of a cell of which nothing is known but its label and its values on axes, as of one in
/// a baseline: what SQLite's documentation writes in capitals is.
pub(crate) fn title_of_label(label: &str, axes: &BTreeMap<String, String>) -> String {
    let capitals = ["engine.journal_mode", "engine.synchronous", VARIANTS_AXIS];
    let of_axes: Vec<&str> = capitals.iter().filter_map(|key| axes.get(*key)).map(String::as_str).collect();
    // A variant is several words where its author wrote it so: all of them are named, or none is.
    let named = of_axes.iter().filter_map(|value| {
        let words: Option<Vec<String>> = value.split(' ').map(setting_name).collect();
        Some((*value, words?.join(" ")))
    });
    let mut title = format!(" {label} ");
    for (value, name) in named {
        title = title.replacen(&format!(" {value} "), &format!(" {name} "), 1);
    }
    title.trim().to_owned()
}

/// A label of which nothing else is known: settings of SQLite that are written with a slash between
/// (`ext4 wal/full`) as the tables write them (`ext4 WAL/FULL`).
#[must_use]
pub fn title_of_words(label: &str) -> String {
    let word = |word: &str| match word.contains('/') {
        true => setting_name(word).unwrap_or_else(|| word.to_owned()),
        false => word.to_owned(),
    };
    label.split(' ').map(word).collect::<Vec<String>>().join(" ")
}

/// `WAL/FULL` of `wal/full`, `SQLite` of `sqlite`; none of what is neither.
fn setting_name(word: &str) -> Option<String> {
    const SETTINGS: [&str; 9] =
        ["delete", "truncate", "persist", "memory", "wal", "off", "normal", "full", "extra"];
    let is_setting = |part: &str| SETTINGS.iter().any(|setting| setting.eq_ignore_ascii_case(part));
    match engine_named(&word.to_ascii_lowercase()) {
        Some(kind) => Some(kind.title.to_owned()),
        None => word.split('/').all(is_setting).then(|| word.to_ascii_uppercase()),
    }
}

#[cfg(test)]
mod tests {
    use fathom_stack::StackSpec;
    use fathom_workload::spec::{EngineSpec, WorkloadSpec};
    use serde_json::json;

    use super::*;
    use crate::cell::Cell;

    fn cell(engine: &str, settings: &[(&str, &str)], axes: &[(&str, &str)]) -> CellRow {
        let settings = settings.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
        let axes: BTreeMap<String, String> =
            axes.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        CellRow {
            id: 1,
            label: String::new(),
            title: String::new(),
            axes: axes.clone(),
            spec: Cell {
                workload: WorkloadSpec { name: "update".into(), params: BTreeMap::new() },
                engine: Some(EngineSpec { name: engine.into(), settings }),
                stack: StackSpec::default(),
                instruments: crate::cell::Instruments::default(),
                on: String::new(),
                axes,
            },
            durability: None,
            skipped: None,
        }
    }

    #[test]
    fn keys_become_words() {
        assert_eq!(axis_label("engine.journal_mode"), "journal mode");
        assert_eq!(axis_label("stack.filesystem"), "file system");
        assert_eq!(axis_label("threads"), "threads");
        // The title of a report of two machines ended in ", by on".
        assert_eq!(axis_label(MACHINE_AXIS), "machine");
    }

    /// What happened: "2 commits 2.9x slower than 1 on delete (insert)", of transactions over two
    /// files and over one.
    #[test]
    fn a_sentence_says_what_a_number_is_of() {
        let axes = [("workload.files", "2"), ("engine.journal_mode", "wal")];
        let cell = cell("sqlite", &[("journal_mode", "wal")], &axes);
        assert_eq!(value_in_sentence(&cell, "workload.files").as_deref(), Some("files 2"));
        assert_eq!(value_in_sentence(&cell, "engine.journal_mode").as_deref(), Some("WAL"));
        assert_eq!(value_in_sentence(&cell, "threads"), None);
    }

    #[test]
    fn an_abscissa_is_called_what_its_workload_counts() {
        let of = |workload: &str| {
            let mut row = cell("sqlite", &[], &[]);
            row.spec.workload.name = workload.into();
            abscissa_name(&row)
        };
        assert_eq!([of("sms"), of("update"), of("chat")], ["threads", "rows", "columns"]);
        // Without an abscissa of its own, or from a Fathom that knows other workloads.
        assert_eq!([of("mobibench-sql"), of("no-such")], ["size", "size"]);
    }

    #[test]
    fn a_value_is_written_as_the_documentation_of_its_axis_writes_it() {
        let axes = [
            ("engine.name", "sqlite"),
            ("engine.journal_mode", "wal"),
            ("engine.library", "./sqlite-wal/wal"),
            ("stack.filesystem", "wal"),
            ("workload.mode", "off"),
        ];
        let row = cell("sqlite", &[("journal_mode", "wal"), ("synchronous", "off")], &axes);
        let of = |axis: &str| value_name(&row, axis);
        assert_eq!(of("engine.name").as_deref(), Some("SQLite"));
        assert_eq!(of("engine.journal_mode").as_deref(), Some("WAL"));
        assert_eq!(of("engine.library").as_deref(), Some("./sqlite-wal/wal"));
        assert_eq!(of("stack.filesystem").as_deref(), Some("wal"));
        assert_eq!(of("workload.mode").as_deref(), Some("off"));
        assert_eq!(of("engine.page_size"), None);
        let server = cell("postgresql", &[("synchronous", "off")], &[("engine.synchronous", "off")]);
        assert_eq!(value_name(&server, "engine.synchronous").as_deref(), Some("off"));
    }

    #[test]
    fn a_variant_is_named_by_its_author_or_after_its_settings() {
        let settings = [("journal_mode", "wal"), ("synchronous", "full"), ("page_size", "x")];
        let of = |variant: &str| value_name(&cell("sqlite", &settings, &[("variants", variant)]), "variants");
        for (variant, expected) in [
            ("wal/full", "WAL/FULL"),
            ("WAL/full", "WAL/FULL"),
            ("sqlite wal", "SQLite WAL"),
            ("sqlite wal/full", "SQLite WAL/FULL"),
            ("full", "FULL"),
            ("full wal", "full wal"),
            ("select", "select"),
            ("walrus", "walrus"),
            ("wal/full!", "wal/full!"),
            ("wal x", "wal x"),
            ("wal/", "wal/"),
            ("é", "é"),
            ("", ""),
        ] {
            assert_eq!(of(variant).as_deref(), Some(expected));
        }
    }

    /// A baseline has no settings: `compare` showed its cells as the file writes them, and those of
    /// results as tables do.
    #[test]
    fn settings_with_a_slash_are_known_without_their_axes() {
        for (label, title) in [
            ("ext4 wal/full", "ext4 WAL/FULL"),
            ("xfs+log delete/extra page_size=1024", "xfs+log DELETE/EXTRA page_size=1024"),
            ("memory off", "memory off"),
            ("ext4 smsc/sqlite", "ext4 smsc/sqlite"),
            ("./wal/full", "./wal/full"),
        ] {
            assert_eq!(title_of_words(label), title);
        }
    }

    #[test]
    fn a_cell_of_a_baseline_is_written_as_one_of_results() {
        let of = |label: &str, axes: &[(&str, &str)]| {
            let axes = axes.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
            title_of_label(label, &axes)
        };
        assert_eq!(
            of("ext4 wal/full", &[("stack.filesystem", "ext4"), ("variants", "wal/full")]),
            "ext4 WAL/FULL"
        );
        assert_eq!(of("sqlite wal", &[("variants", "sqlite wal")]), "SQLite WAL");
        assert_eq!(of("wal off", &[("engine.journal_mode", "wal"), ("workload.mode", "off")]), "WAL off");
        assert_eq!(of("walrus", &[("variants", "walrus")]), "walrus");
        assert_eq!(of("wal/full!", &[("variants", "wal/full!")]), "wal/full!");
        assert_eq!(of("update", &[]), "update");
    }

    /// A label was once taken apart to be written with capitals, so that a file system called like
    /// a journal mode, or a part of a path, came out in capitals as well.
    #[test]
    fn titles_are_made_of_axes_in_the_order_of_the_file_and_tell_cells_apart() {
        let source = "name = \"t\"\ntitle = \"t\"\n[workload]\nname = \"update\"\n[engine]\nname = \"sqlite\"\n\
                      [matrix]\n\"stack.filesystem\" = [\"dir\"]\n\"engine.journal_mode\" = [\"wal\"]\n";
        let experiment = Experiment::parse("t.toml", source).unwrap();
        let settings = [("journal_mode", "wal")];
        let row = |filesystem: &str, cache: &str, trace: &str| {
            let axes = [
                ("engine.cache_kib", cache),
                ("engine.journal_mode", "wal"),
                ("stack.filesystem", filesystem),
                ("trace", trace),
            ];
            cell("sqlite", &settings, &axes)
        };
        let mut cells = [row("wal", "100", "wal"), row("dir", "9", "a"), row("dir", "9", "a")];
        cells[1].id = 2;
        cells[2].id = 3;
        entitle(&mut cells, Some(&experiment));
        let titles: Vec<&str> = cells.iter().map(|cell| cell.title.as_str()).collect();
        assert_eq!(titles, ["wal wal WAL 100", "a dir WAL 9", "a dir WAL 9 (2)"]);
        // Without a file that can be read, in the order of their keys.
        entitle(&mut cells, None);
        assert_eq!(cells[0].title, "wal 100 WAL wal");
        let mut lonely = [cell("sqlite", &[], &[])];
        entitle(&mut lonely, None);
        assert_eq!(lonely[0].title, "update");
    }
}
