//! Names of cells and of the values of axes, as they are told to people.

use fathom_workload::engine::engine_named;
use fathom_workload::registry::workload_named;

use crate::store::CellRow;

/// An engine as its makers write it.
#[must_use]
pub fn engine_name(name: &str) -> &str {
    engine_named(name).map_or(name, |kind| kind.title)
}

/// What the abscissa of the cell's phases counts: `rows`, `threads`; `size` for a workload that this Fathom does not know.
#[must_use]
pub fn abscissa_name(cell: &CellRow) -> &'static str {
    match workload_named(&cell.spec.workload.name) {
        Some(kind) if !kind.abscissa.is_empty() => kind.abscissa,
        _ => "size",
    }
}

/// `text` (a label, a value of an axis, the name of a variant) with the cell's engine, journal mode and synchronous setting
/// spelled as their documentation spells them: `sqlite ext4 wal/full` becomes `SQLite ext4 WAL/FULL`. Only words that are the
/// cell's own settings are touched, so a variant or a phase that happens to be called `delete` stays as it is; and no word of a
/// path that is a setting.
#[must_use]
pub fn spelled(cell: &CellRow, text: &str) -> String {
    let Some(engine) = &cell.spec.engine else { return text.to_owned() };
    let mut paths = engine.settings.values().filter_map(|it| it.as_str()).filter(|it| it.contains('/'));
    if let Some((path, at)) = paths.find_map(|it| Some((it, text.find(it)?))) {
        let (before, after) = (&text[..at], &text[at + path.len()..]);
        return spelled(cell, before) + path + &spelled(cell, after);
    }
    let capitals = engine_named(&engine.name).map_or(&[][..], |kind| kind.capitals);
    let own: Vec<&str> = capitals.iter().filter_map(|key| engine.settings.get(*key)?.as_str()).collect();
    let mut spelled = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let in_word = |c: char| c.is_alphanumeric() || c == '_';
        let (word, after) = rest.split_at(rest.find(|c| !in_word(c)).unwrap_or(rest.len()));
        if own.iter().any(|setting| setting.eq_ignore_ascii_case(word)) {
            spelled.push_str(&word.to_ascii_uppercase());
        } else if word == engine.name {
            spelled.push_str(engine_name(word));
        } else {
            spelled.push_str(word);
        }
        let (between, next) = after.split_at(after.find(in_word).unwrap_or(after.len()));
        spelled.push_str(between);
        rest = next;
    }
    spelled
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use fathom_stack::StackSpec;
    use fathom_workload::spec::{EngineSpec, WorkloadSpec};
    use serde_json::json;

    use super::*;
    use crate::cell::Cell;

    fn cell(engine: &str, settings: &[(&str, &str)]) -> CellRow {
        let settings = settings.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
        CellRow {
            id: 1,
            label: String::new(),
            axes: BTreeMap::new(),
            spec: Cell {
                workload: WorkloadSpec { name: "update".into(), params: BTreeMap::new() },
                engine: Some(EngineSpec { name: engine.into(), settings }),
                stack: StackSpec::default(),
                instruments: crate::cell::Instruments::default(),
                on: String::new(),
                axes: BTreeMap::new(),
            },
            durability: None,
            skipped: None,
        }
    }

    #[test]
    fn an_abscissa_is_called_what_its_workload_counts() {
        let of = |workload: &str| {
            let mut row = cell("sqlite", &[]);
            row.spec.workload.name = workload.into();
            abscissa_name(&row)
        };
        assert_eq!([of("sms"), of("update"), of("chat")], ["threads", "rows", "columns"]);
        // Without an abscissa of its own, or from a Fathom that knows other workloads.
        assert_eq!([of("mobibench-sql"), of("no-such")], ["size", "size"]);
    }

    #[test]
    fn the_cells_own_settings_are_in_capitals_and_nothing_else() {
        let wal = cell("sqlite", &[("journal_mode", "wal"), ("synchronous", "off"), ("page_size", "x")]);
        assert_eq!(spelled(&wal, "ext4 wal/off"), "ext4 WAL/OFF");
        assert_eq!(spelled(&wal, "· wal ·"), "· WAL ·");
        assert_eq!(spelled(&wal, "select walrus delete x off_peak"), "select walrus delete x off_peak");
        assert_eq!(spelled(&wal, ""), "");
        assert_eq!(spelled(&cell("sqlite", &[]), "delete"), "delete");
        let library = cell("sqlite", &[("library", "./sqlite-wal/sqlite.so"), ("journal_mode", "wal")]);
        let label = "sqlite wal ./sqlite-wal/sqlite.so wal";
        assert_eq!(spelled(&library, label), "SQLite WAL ./sqlite-wal/sqlite.so WAL");
        let postgresql = cell("postgresql", &[("synchronous", "off")]);
        assert_eq!(spelled(&postgresql, "postgresql off, sqlite"), "PostgreSQL off, sqlite");
    }
}
