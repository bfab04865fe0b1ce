//! How much is tried, and of what.

use std::time::Duration;

/// What operations past the page cache are made of, bytes.
pub(super) const BLOCK: usize = 4096;
/// The largest operation, bytes.
pub(super) const LARGEST: usize = 1 << 20;
/// Sizes of single operations.
pub(super) const SIZES: [usize; 6] = [BLOCK, 16 << 10, 64 << 10, 128 << 10, 256 << 10, LARGEST];
/// What is written before a flush.
pub(super) const DIRTY: [usize; 6] = [BLOCK, 16 << 10, 64 << 10, 256 << 10, LARGEST, 4 << 20];
/// Threads that read at once.
pub(super) const DEPTHS: [usize; 6] = [1, 2, 4, 8, 16, 32];
/// Streams read in turn.
pub(super) const STREAMS: [usize; 4] = [1, 2, 4, 8];
/// Rounds of reads by so many threads.
pub(super) const ROUNDS: usize = 5;
/// Rest before a write that an empty cache is to take.
pub(super) const REST: Duration = Duration::from_millis(20);
/// Least room in which places are random, MiB.
pub(super) const SMALLEST_MIB: u64 = 16;

/// Something for each number of threads, streams or bytes.
pub(super) type By = Vec<(usize, f64)>;
