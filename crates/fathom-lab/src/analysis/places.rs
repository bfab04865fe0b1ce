//! Which cells of two sides are the same one.

use std::collections::BTreeMap;

use super::side::CellValues;
use crate::experiment::{MACHINE_AXIS, spelled_label};

/// A cell's value on each axis.
type Axes = BTreeMap<String, String>;

/// The cells of a side by their values on all axes.
pub(super) struct Places<'a> {
    written: BTreeMap<&'a Axes, &'a CellValues>,
    spelled: BTreeMap<Axes, &'a CellValues>,
    on_machines: BTreeMap<Axes, &'a CellValues>,
}

impl<'a> Places<'a> {
    /// Of these cells.
    pub fn of(cells: &'a [CellValues]) -> Places<'a> {
        let (mut written, mut by_value) = (BTreeMap::new(), BTreeMap::new());
        let mut on_machines = BTreeMap::new();
        for cell in cells {
            written.entry(&cell.axes).or_insert(cell);
            by_value.entry(spelled(&cell.axes)).or_insert(cell);
            on_machines.entry(on_machine(cell)).or_insert(cell);
        }
        Places { written, spelled: by_value, on_machines }
    }

    /// The cell with another one's values, first as they are written, then however they are: an
    /// axis of `--set` alone has its user's words, `4KiB` or `4096`. Where only one of the two
    /// files has several machines, it is the cell of the machine that the other was made on.
    pub fn find(&self, cell: &CellValues) -> Option<&'a CellValues> {
        let found = self.written.get(&cell.axes).or_else(|| self.spelled.get(&spelled(&cell.axes)));
        found.or_else(|| self.on_machines.get(&on_machine(cell))).copied()
    }
}

fn spelled(axes: &Axes) -> Axes {
    axes.iter().map(|(axis, label)| (axis.clone(), spelled_label(axis, label))).collect()
}

/// The values with the machine among them, also where its file has only one.
fn on_machine(cell: &CellValues) -> Axes {
    let mut axes = spelled(&cell.axes);
    axes.entry(MACHINE_AXIS.to_owned()).or_insert_with(|| cell.machine().to_owned());
    axes
}
