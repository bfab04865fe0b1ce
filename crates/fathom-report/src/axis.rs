//! The axes of an experiment's matrix, as the report shows them.

use std::collections::BTreeMap;

use fathom_lab::naming::value_name;
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
            label: label_of(key),
            colours: palette::value_colours(&values),
            values,
            shown,
        })
        .collect()
}

/// `engine.journal_mode` → `journal mode`, `stack.filesystem` → `file system`.
pub fn label_of(key: &str) -> String {
    match key {
        "stack.filesystem" => "file system".into(),
        "variants" => "variant".into(),
        _ => key.rsplit('.').next().unwrap_or(key).replace('_', " "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_become_words() {
        assert_eq!(label_of("engine.journal_mode"), "journal mode");
        assert_eq!(label_of("stack.filesystem"), "file system");
        assert_eq!(label_of("threads"), "threads");
    }
}
