//! The tables `a` and `b` that all crash schedules work on, and what must be in them after a restart.

use super::engine::{ColumnType, Database, Locking, Row, Schema};
use super::history::History;
use std::collections::BTreeMap;

pub fn schema(name: &str, locking: Locking, ordered: bool) -> Schema {
    let s = Schema::new(name)
        .column("id", ColumnType::Int16)
        .column("writer", ColumnType::Int64)
        .column("pad", ColumnType::VarBytes(400));
    let s = if ordered { s.ordered_primary_key(&["id"]) } else { s.primary_key(&["id"]) };
    s.ordered_index("by_writer", &["writer"]).locking(locking)
}

pub fn content(r: &Row) -> (u64, usize) {
    (r.at(1).as_int().unwrap() as u64, r.at(2).as_bytes().unwrap().len())
}

/// After opening: the state is that of a prefix of the commits which has everything acknowledged. A table that is `created`
/// for sure must be there.
pub fn check_recovered(
    db: &Database,
    history: &mut History,
    created: impl Fn(&str) -> bool,
) -> std::result::Result<(), String> {
    let cut = db.recovery().cut;
    history.truncate(cut)?;
    let mut state = BTreeMap::new();
    for (i, name) in ["a", "b"].iter().enumerate() {
        match db.table(name) {
            Ok(t) => {
                let mut tx = db.begin().map_err(|e| e.to_string())?;
                for row in tx.scan(&t).map_err(|e| e.to_string())? {
                    let row = row.map_err(|e| e.to_string())?;
                    state.insert((i, row.at(0).as_int().unwrap() as u8), content(&row));
                }
            }
            Err(e) if created(name) => return Err(e.to_string()),
            Err(_) => {}
        }
    }
    let want = history.state();
    if state != want {
        return Err(format!("recovered {state:?}, expected {want:?} at cut {cut}"));
    }
    db.verify().map_err(|e| e.to_string())
}
