//! Rows of a damaged database that share a unique key.
//!
//! The images of a checkpoint are of different moments, and the log behind it joins them. Where
//! that log is lost, a row that moved meanwhile is in two images, and a key that went from one row
//! to another is with both. An opening refuses that; a salvage keeps what can be kept, and says of
//! each row that it leaves out where it is and what is in it.

use crate::container::Rid;
use crate::key::KeyBuf;
use crate::row::Row;
use crate::table::TableInner;
use std::collections::{BTreeMap, HashMap, HashSet};

/// What the indexes of a table are filled with: for each its keys and where their rows are. All of
/// them have the rows in one order.
pub(super) type Entries = Vec<Vec<(KeyBuf, Rid)>>;

/// Rows that are left out are shown up to so many bytes of text for each table: damage must not
/// cost memory without end.
const SHOWN: usize = 16 << 20;

/// Why a row is left out: it shares its key of this index with the row at this place, which is
/// kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Double {
    index: usize,
    kept: Rid,
}

/// Leaves out each row that has a unique key which a row before it has, in order of place: its slot
/// and its entries, which some threads have collected for each index. Says which they were.
pub(super) fn leave_out(t: &TableInner, parts: &mut [Entries], problems: &mut Vec<String>) {
    let unique: Vec<usize> = (0..t.indexes.len()).filter(|&i| t.indexes[i].def.unique).collect();
    let doubles = choose(&unique, parts);
    if doubles.is_empty() {
        return;
    }
    let mut told: Vec<(Double, Rid)> = doubles.iter().map(|(rid, double)| (*double, *rid)).collect();
    told.sort_unstable_by_key(|(double, rid)| (double.index, *rid));
    let mut room = SHOWN;
    problems.extend(told.iter().map(|(double, rid)| left_out(t, *rid, *double, &mut room)));
    parts.iter_mut().flatten().for_each(|list| list.retain(|(_, rid)| !doubles.contains_key(rid)));
    for rid in doubles.keys() {
        if let Some(c) = t.containers.get(rid.container()) {
            c.bytes.write()[c.range(rid.slot())].fill(0);
        }
    }
}

/// The rows that are left out: each shares a key of one of the indexes `unique` with a row that is
/// kept. One that shares its keys with rows that are left out themselves is kept.
fn choose(unique: &[usize], parts: &[Entries]) -> BTreeMap<Rid, Double> {
    let twice: Vec<HashSet<&[u8]>> = unique.iter().map(|&i| doubled(parts, i)).collect();
    let mut rows: Vec<(Rid, Vec<&[u8]>)> = Vec::new();
    for part in parts {
        let Some(first) = unique.first().map(|&i| &part[i]) else { continue };
        for (n, (_, rid)) in first.iter().enumerate() {
            let keys: Vec<&[u8]> = unique.iter().map(|&i| part[i][n].0.as_slice()).collect();
            // What is not doubled stands in nobody's way.
            if keys.iter().zip(&twice).any(|(key, twice)| twice.contains(key)) {
                rows.push((*rid, keys));
            }
        }
    }
    rows.sort_unstable_by_key(|(rid, _)| *rid);
    let mut owners: Vec<HashMap<&[u8], Rid>> = unique.iter().map(|_| HashMap::new()).collect();
    let mut left_out = BTreeMap::new();
    for (rid, keys) in rows {
        let owned = keys.iter().zip(&owners).position(|(key, owner)| owner.contains_key(key));
        if let Some(at) = owned {
            left_out.insert(rid, Double { index: unique[at], kept: owners[at][keys[at]] });
            continue;
        }
        for (key, owner) in keys.into_iter().zip(&mut owners) {
            owner.insert(key, rid);
        }
    }
    left_out
}

/// The keys of index `i` that more than one row has.
fn doubled(parts: &[Entries], i: usize) -> HashSet<&[u8]> {
    let (mut once, mut twice) = (HashSet::new(), HashSet::new());
    for (key, _) in parts.iter().flat_map(|part| &part[i]) {
        if !once.insert(key.as_slice()) {
            twice.insert(key.as_slice());
        }
    }
    twice
}

/// What is said of a row that is left out. It is shown as far as there is `room`.
fn left_out(t: &TableInner, rid: Rid, double: Double, room: &mut usize) -> String {
    let read = |rid| {
        let mut row = Vec::new();
        // A row whose key was read can be read.
        let _ = t.read(rid, &mut row);
        row
    };
    let (row, kept) = (read(rid), read(double.kept));
    let (def, primary) = (&t.indexes[double.index].def, &t.indexes[0].def.columns);
    let place = |rid: Rid, row: &[u8]| {
        let key = t.layout.key_text(row, primary);
        format!("row {key} in container {}, slot {}", rid.container(), rid.slot())
    };
    let mut text = format!(
        "table {}: two rows share key {} of index {}; {} is kept, {} is left out",
        t.schema.name,
        t.layout.key_text(&row, &def.columns),
        def.name,
        place(double.kept, &kept),
        place(rid, &row)
    );
    let shown = Row { bytes: row.into(), layout: t.layout.clone() }.to_json();
    if shown.len() <= *room {
        *room -= shown.len();
        text = text + ": " + &shown;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows were left out index by index. One that shared a key with a row that another index left
    /// out later was given up for nothing.
    #[test]
    fn a_row_is_kept_if_those_that_share_its_keys_are_not() {
        let entry = |key: u8, slot| (KeyBuf::new(&[key]), Rid::new(0, slot));
        // The second row shares its second key with the first, the third its first with the second.
        let one: Entries =
            vec![vec![entry(1, 0), entry(2, 1), entry(2, 2)], vec![entry(9, 0), entry(9, 1), entry(8, 2)]];
        let double = |index, slot| Double { index, kept: Rid::new(0, slot) };
        let want = BTreeMap::from([(Rid::new(0, 1), double(1, 0))]);
        assert_eq!(choose(&[0, 1], std::slice::from_ref(&one)), want);
        // Whoever has collected them, and with an index between that is not unique.
        let part = |slot: usize| -> Entries {
            vec![vec![one[0][slot].clone()], vec![entry(7, slot as u16)], vec![one[1][slot].clone()]]
        };
        let want = BTreeMap::from([(Rid::new(0, 1), double(2, 0))]);
        assert_eq!(choose(&[0, 2], &[part(2), part(0), part(1)]), want);
        assert!(choose(&[0, 2], &[part(0), part(2)]).is_empty());
    }
}
