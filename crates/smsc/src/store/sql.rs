//! Statements that both SQL stores use, made from the tables of the model.

use crate::model::{Index, Table};

/// Names of columns by number, as a list.
pub(super) fn names(table: &Table, columns: impl IntoIterator<Item = usize>) -> String {
    columns.into_iter().map(|at| table.columns[at].name).collect::<Vec<_>>().join(", ")
}

/// An insert that updates the row that has the key; `REPLACE` would write every index again.
pub(super) fn upsert(table: &Table, places: &str) -> String {
    let key = table.indexes[0].columns;
    let sets: Vec<String> = (0..table.columns.len())
        .filter(|at| !key.contains(at))
        .map(|at| format!("{0} = excluded.{0}", table.columns[at].name))
        .collect();
    let then = if sets.is_empty() { "NOTHING".into() } else { format!("UPDATE SET {}", sets.join(", ")) };
    let key = names(table, key.iter().copied());
    format!("INSERT INTO {} VALUES ({places}) ON CONFLICT({key}) DO {then}", table.name)
}

/// The text of an update of some columns of the row with a key; `place` writes the n-th
/// placeholder, from 0: columns, then key.
pub(super) fn update_sql(
    table: &Table,
    columns: impl Iterator<Item = usize>,
    place: impl Fn(usize) -> String,
) -> String {
    let key = table.indexes[0].columns;
    let columns: Vec<usize> = columns.collect();
    let assign = |(at, column): (usize, &usize)| format!("{} = {}", table.columns[*column].name, place(at));
    let sets: Vec<String> = columns.iter().enumerate().map(assign).collect();
    let keys: Vec<String> =
        key.iter().enumerate().map(|(at, column)| assign((columns.len() + at, column))).collect();
    format!("UPDATE {} SET {} WHERE {}", table.name, sets.join(", "), keys.join(" AND "))
}

/// The text of an ordered read; `place` writes the n-th placeholder, from 0.
pub(super) fn range_sql(
    table: &Table,
    index: &Index,
    (from, to): (usize, usize),
    place: impl Fn(usize) -> String,
) -> String {
    let tuple = |count: usize, first: usize| {
        let columns = names(table, index.columns[..count].iter().copied());
        let places: Vec<String> = (first..first + count).map(&place).collect();
        (columns, places.join(", "))
    };
    let (from_columns, from_places) = tuple(from, 0);
    let (to_columns, to_places) = tuple(to, from);
    format!(
        "SELECT {} FROM {} WHERE ({from_columns}) >= ({from_places}) AND ({to_columns}) <= ({to_places}) ORDER BY {} LIMIT {}",
        names(table, 0..table.columns.len()),
        table.name,
        names(table, index.columns.iter().copied()),
        place(from + to),
    )
}
