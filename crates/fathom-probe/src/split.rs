//! Where the time of one statement (or of many, summed) went.

use serde::{Deserialize, Serialize};

/// Wall time of a statement and its disjoint parts, all in nanoseconds, with the bytes and calls
/// behind them.
///
/// `wall_ns = cpu_ns + read_ns + write_ns + sync_ns + other_ns` up to the clocks' resolution.
/// `read`, `write` and `sync` are the wall time inside the VFS's calls of that kind; `cpu` is
/// thread CPU time *outside* them; `other` is everything else: open, delete, truncate, locks,
/// shared memory, and time in which the thread waited without a call of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Split {
    /// Elapsed time, monotonic clock.
    pub wall_ns: u64,
    /// Thread CPU time outside the I/O calls.
    pub cpu_ns: u64,
    /// Time in reads (xRead).
    pub read_ns: u64,
    /// Time in writes (xWrite).
    pub write_ns: u64,
    /// Time in syncs (xSync).
    pub sync_ns: u64,
    /// The rest of the wall time.
    pub other_ns: u64,
    /// Bytes asked of reads.
    pub read_bytes: u64,
    /// Bytes given to writes.
    pub write_bytes: u64,
    /// Number of reads.
    pub read_calls: u64,
    /// Number of writes.
    pub write_calls: u64,
    /// Number of syncs.
    pub sync_calls: u64,
    /// Number of other VFS calls (open, delete, truncate, lock, shared memory …).
    pub other_calls: u64,
}

impl Split {
    /// Adds `more` to `self`, field by field.
    pub fn add(&mut self, more: &Split) {
        self.wall_ns += more.wall_ns;
        self.cpu_ns += more.cpu_ns;
        self.read_ns += more.read_ns;
        self.write_ns += more.write_ns;
        self.sync_ns += more.sync_ns;
        self.other_ns += more.other_ns;
        self.read_bytes += more.read_bytes;
        self.write_bytes += more.write_bytes;
        self.read_calls += more.read_calls;
        self.write_calls += more.write_calls;
        self.sync_calls += more.sync_calls;
        self.other_calls += more.other_calls;
    }
}
