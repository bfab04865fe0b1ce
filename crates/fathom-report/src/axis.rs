//! The axes of an experiment's matrix, as the report shows them.

use std::collections::BTreeMap;

use fathom_lab::naming::{axis_label, value_name};
use fathom_lab::store::CellRow;

use crate::palette;

/// One axis with its values in the order of the plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Axis {
    /// As in the experiment file: `engine.journal_mode`.
    pub key: String,
    /// For people: `journal mode`.
    pub label: String,
    /// Every value that a cell has.
    pub values: Vec<String>,
    /// The values as people read them.
    pub shown: Vec<String>,
    /// Index of each value's colour in [`palette::VALUE_COLOURS`].
    pub colours: Vec<usize>,
}

impl Axis {
    /// Place of `value` among the values.
    pub fn position(&self, value: &str) -> Option<usize> {
        self.values.iter().position(|v| v == value)
    }
}

/// The axes of these cells, those in `order` first.
pub fn axes_of(cells: &[CellRow], order: &[String]) -> Vec<Axis> {
    let mut values: BTreeMap<&str, (Vec<String>, Vec<String>)> = BTreeMap::new();
    for cell in cells {
        for (axis, value) in &cell.axes {
            let (known, shown) = values.entry(axis).or_default();
            if !known.contains(value) {
                known.push(value.clone());
                shown.push(value_name(cell, axis).unwrap_or_default());
            }
        }
    }
    let mut values: Vec<_> = values.into_iter().collect();
    values.sort_by_key(|(key, _)| order.iter().position(|axis| axis == key).unwrap_or(order.len()));
    values
        .into_iter()
        .map(|(key, (values, shown))| Axis {
            key: key.to_string(),
            label: axis_label(key),
            colours: palette::value_colours(&values),
            values,
            shown,
        })
        .collect()
}
