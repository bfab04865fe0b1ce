//! Which cells of two sides are the same one.

use std::collections::BTreeMap;

use super::side::CellValues;
use crate::experiment::spelled_label;

/// A cell's value on each axis.
type Axes = BTreeMap<String, String>;

/// The cells of a side by their values on all axes.
pub(super) struct Places<'a> {
    written: BTreeMap<&'a Axes, &'a CellValues>,
    spelled: BTreeMap<Axes, &'a CellValues>,
}

impl<'a> Places<'a> {
    /// Of these cells.
    pub fn of(cells: &'a [CellValues]) -> Places<'a> {
        let (mut written, mut by_value) = (BTreeMap::new(), BTreeMap::new());
        for cell in cells {
            written.entry(&cell.axes).or_insert(cell);
            by_value.entry(spelled(&cell.axes)).or_insert(cell);
        }
        Places { written, spelled: by_value }
    }

    /// The cell with these values, first as they are written, then however they are: an axis of
    /// `--set` alone has its user's words, `4KiB` or `4096`.
    pub fn find(&self, axes: &Axes) -> Option<&'a CellValues> {
        self.written.get(axes).or_else(|| self.spelled.get(&spelled(axes))).copied()
    }
}

fn spelled(axes: &Axes) -> Axes {
    axes.iter().map(|(axis, label)| (axis.clone(), spelled_label(axis, label))).collect()
}
