//! Counters by file class and operation, at rest.

use crate::kind::{FileClass, Op};

/// Calls of one kind on one class of file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoCell {
    /// Number of calls.
    pub calls: u64,
    /// Bytes asked for, given or mapped.
    pub bytes: u64,
    /// Time inside the calls, ns.
    pub ns: u64,
}

/// Calls of all kinds on all classes of files: what a thread or the process has done so far, or
/// between two moments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoTable {
    pub(crate) cells: [[IoCell; Op::COUNT]; FileClass::COUNT],
}

impl IoTable {
    /// The counters of one operation on one class of file.
    #[must_use]
    pub fn get(&self, class: FileClass, op: Op) -> IoCell {
        self.cells[class as usize][op as usize]
    }

    /// What happened between `earlier` and `self`, two snapshots of the same counters.
    #[must_use]
    pub fn since(&self, earlier: &IoTable) -> IoTable {
        let mut difference = *self;
        for (row, row_before) in difference.cells.iter_mut().zip(&earlier.cells) {
            for (cell, before) in row.iter_mut().zip(row_before) {
                cell.calls = cell.calls.saturating_sub(before.calls);
                cell.bytes = cell.bytes.saturating_sub(before.bytes);
                cell.ns = cell.ns.saturating_sub(before.ns);
            }
        }
        difference
    }

    /// Adds `more`, cell by cell: several threads, or several phases.
    pub fn add(&mut self, more: &IoTable) {
        for (row, row_more) in self.cells.iter_mut().zip(&more.cells) {
            for (cell, more) in row.iter_mut().zip(row_more) {
                cell.calls += more.calls;
                cell.bytes += more.bytes;
                cell.ns += more.ns;
            }
        }
    }

    /// The cells with at least one call, by class and then by operation.
    pub fn iter(&self) -> impl Iterator<Item = (FileClass, Op, IoCell)> + '_ {
        FileClass::ALL
            .into_iter()
            .flat_map(move |class| Op::ALL.into_iter().map(move |op| (class, op, self.get(class, op))))
            .filter(|(_, _, cell)| cell.calls > 0)
    }

    /// The sum of one operation over all classes of files.
    #[must_use]
    pub fn of_op(&self, op: Op) -> IoCell {
        let mut sum = IoCell::default();
        for class in FileClass::ALL {
            let cell = self.get(class, op);
            sum.calls += cell.calls;
            sum.bytes += cell.bytes;
            sum.ns += cell.ns;
        }
        sum
    }

    /// Waiting for locks that other connections held, as far as the VFS sees it: (refused attempts,
    /// ns in them and in the sleeps between them). The sleeps of a busy handler of the
    /// application's own are not seen.
    #[must_use]
    pub fn lock_waits(&self) -> (u64, u64) {
        let busy = self.of_op(Op::Busy);
        (busy.calls, busy.ns + self.of_op(Op::Sleep).ns)
    }
}
