//! Why two sides have no cell in common.

use std::collections::BTreeSet;

use super::places::Places;
use super::side::{CellValues, Side};
use crate::experiment::MACHINE_AXIS;
use crate::naming::{axis_label, joined};

/// So many values are named.
const NAMED: usize = 4;

/// Why two sides have no cell in common and what to do about it, in words that follow a colon; none
/// where they have one.
#[must_use]
pub fn apart(a: &Side, b: &Side) -> Option<String> {
    let in_a = Places::of(&a.cells);
    if b.cells.iter().any(|cell| in_a.find(cell).is_some()) {
        return None;
    }
    for (side, which) in [(a, "A"), (b, "B")] {
        if side.cells.is_empty() {
            return Some(format!("{which} has no cell with a good run"));
        }
    }
    let [of_a, of_b] = [a, b].map(|side| values(side, CellValues::machine));
    if a.has_several_machines() != b.has_several_machines() && of_a.is_disjoint(&of_b) {
        return Some(format!(
            "A was measured on {}, and B on {}. Beside a file of several machines the other has to name one of them, in the same words \
             of --on; files of one machine each are compared whatever their machines are",
            list(of_a),
            list(of_b)
        ));
    }
    let [of_a, of_b] = [a, b].map(axes);
    if of_a != of_b {
        return Some(format!(
            "the same cell has the same value on every axis, and A's axes are {}, B's {}. Measure both with the same experiment, and \
             with `--set` of several values of the same keys",
            list(of_a),
            list(of_b)
        ));
    }
    for axis in of_a {
        let [of_a, of_b] = [a, b].map(|side| values(side, |cell| value(cell, axis)));
        if of_a.is_disjoint(&of_b) {
            return Some(format!(
                "by {} A has {}, and B has {}. Measure both with the same values",
                axis_label(axis),
                list(of_a),
                list(of_b)
            ));
        }
    }
    Some("each value on an axis is in both, but never the same ones together".to_owned())
}

/// The axes that tell cells apart, but that of machines where one side has only one.
fn axes(side: &Side) -> BTreeSet<&str> {
    let all = side.cells.iter().flat_map(|cell| cell.axes.keys());
    all.map(String::as_str).filter(|axis| *axis != MACHINE_AXIS).collect()
}

fn values<'a>(side: &'a Side, of: impl Fn(&'a CellValues) -> &'a str) -> BTreeSet<&'a str> {
    side.cells.iter().map(of).collect()
}

fn value<'a>(cell: &'a CellValues, axis: &str) -> &'a str {
    cell.axes.get(axis).map_or("", String::as_str)
}

/// `none`, `a`, `a and b`, `a, b, c, d and 3 more`.
fn list(words: BTreeSet<&str>) -> String {
    let more = words.len().saturating_sub(NAMED);
    let mut shown: Vec<String> = words.into_iter().take(NAMED).map(str::to_owned).collect();
    if more > 0 {
        shown.push(format!("{more} more"));
    }
    if shown.is_empty() { "none".to_owned() } else { joined(&shown) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn side(cells: &[&[(&str, &str)]]) -> Side {
        let cell = |axes: &&[(&str, &str)]| CellValues {
            label: String::new(),
            title: String::new(),
            durability: None,
            settings: String::new(),
            whole: String::new(),
            elsewhere: String::new(),
            replayed: None,
            models: None,
            ran_on: BTreeMap::new(),
            on: String::new(),
            axes: axes.iter().map(|(axis, value)| ((*axis).to_owned(), (*value).to_owned())).collect(),
            failed: 0,
            phase: Vec::new(),
        };
        Side {
            experiment: "e".into(),
            started_ms: 0,
            environment: BTreeMap::new(),
            cells: cells.iter().map(cell).collect(),
            empty: Vec::new(),
            is_rounded: false,
        }
    }

    /// What happened: "compare results of the same experiment" was said of the same experiment, run
    /// on other machines or with an axis more.
    #[test]
    fn what_keeps_two_files_apart_is_named() {
        let plain = side(&[&[("variants", "wal")]]);
        let other = side(&[&[("variants", "delete")]]);
        let boards =
            side(&[&[("variants", "wal"), ("on", "ssh:a")], &[("variants", "wal"), ("on", "ssh:b")]]);
        let sizes = side(&[&[("variants", "wal"), ("engine.page_size", "4096")]]);
        let crossed = side(&[
            &[("variants", "wal"), ("engine.page_size", "1024")],
            &[("variants", "delete"), ("engine.page_size", "4096")],
        ]);
        for (a, b, says) in [
            (&plain, &other, "by variant A has wal, and B has delete"),
            (&boards, &plain, "A was measured on ssh:a and ssh:b, and B on local"),
            (&plain, &boards, "A was measured on local, and B on ssh:a and ssh:b"),
            (&plain, &sizes, "A's axes are variants, B's engine.page_size and variants"),
            (&sizes, &crossed, "never the same ones together"),
            (&side(&[]), &plain, "A has no cell with a good run"),
            (&side(&[&[]]), &plain, "A's axes are none, B's variants"),
        ] {
            let told = apart(a, b).unwrap();
            assert!(told.contains(says), "{told}");
        }
        assert_eq!(apart(&plain, &plain), None);
        let mut on_one = plain.clone();
        on_one.cells[0].on = "ssh:b".into();
        assert_eq!((apart(&boards, &on_one), apart(&on_one, &boards)), (None, None));
    }
}
