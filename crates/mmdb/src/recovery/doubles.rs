//! Rows of a damaged database that share a unique key.
//!
//! The images of a checkpoint are of different moments, and the log behind it joins them. Where
//! that log is lost, a row that moved meanwhile is in two images, and a key that went from one row
//! to another is with both. An opening refuses that; a salvage keeps one of them.

use crate::container::Rid;
use crate::key::KeyBuf;
use crate::table::TableInner;
use std::collections::{BTreeSet, HashSet};

/// What the indexes of a table are filled with: for each its keys and where their rows are.
pub(super) type Entries = Vec<Vec<(KeyBuf, Rid)>>;

/// Leaves out each row that has a unique key which a row before it has, in order of place: its slot
/// and its entries, which some threads have collected for each index. Says which they were.
pub(super) fn leave_out(t: &TableInner, parts: &mut [Entries], problems: &mut Vec<String>) {
    let mut doubles = BTreeSet::new();
    for i in (0..t.indexes.len()).filter(|&i| t.indexes[i].def.unique) {
        let mut entries: Vec<_> = parts.iter().flat_map(|part| &part[i]).collect();
        // What another key has left out already gives its keys to nobody.
        entries.retain(|(_, rid)| !doubles.contains(rid));
        entries.sort_unstable_by_key(|(_, rid)| *rid);
        let mut keys = HashSet::new();
        for (key, rid) in entries {
            if !keys.insert(key.as_slice()) {
                problems.push(left_out(t, i, *rid));
                doubles.insert(*rid);
            }
        }
    }
    if doubles.is_empty() {
        return;
    }
    parts.iter_mut().flatten().for_each(|list| list.retain(|(_, rid)| !doubles.contains(rid)));
    for rid in doubles {
        if let Some(c) = t.containers.get(rid.container()) {
            c.bytes.write()[c.range(rid.slot())].fill(0);
        }
    }
}

/// What is said of a row whose key of index `i` another one has.
fn left_out(t: &TableInner, i: usize, rid: Rid) -> String {
    let mut row = Vec::new();
    // A row whose key was read can be read.
    let _ = t.read(rid, &mut row);
    let def = &t.indexes[i].def;
    format!(
        "table {}: two rows share key {} of index {}; the one in container {}, slot {} is left out",
        t.schema.name,
        t.layout.key_text(&row, &def.columns),
        def.name,
        rid.container(),
        rid.slot()
    )
}
