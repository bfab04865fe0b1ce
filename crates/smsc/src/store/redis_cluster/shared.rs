//! What all sessions of a store share: numbers that identify what this process does, and what it
//! knows of where there is something to do.

use super::cluster::Cluster;
use super::rows::TOKEN;
use crate::centre::Rules;
use crate::model::{ESME_LANES, StationKey};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

/// After how long of silence a process is taken for dead.
pub(super) const SILENT: Duration = Duration::from_secs(5);

/// What all sessions of a store share.
pub(super) struct Shared {
    pub cluster: Arc<Cluster>,
    pub rules: Rules,
    /// The number of this process.
    pub process: u32,
    /// Submissions and claims so far.
    pub tokens: AtomicU64,
    pub claims: AtomicU64,
    /// Shards of the run queue that probably have something, of each shard.
    pub hints: Vec<AtomicU64>,
    /// The greatest sequence number that was given out, of each shard.
    pub seen: Vec<AtomicI64>,
    /// Where the next look begins: at what may be claimed, timers, schedules, validities.
    pub turn: AtomicUsize,
    pub peeked: AtomicUsize,
    pub woken: AtomicUsize,
    pub released: AtomicUsize,
    pub swept: AtomicUsize,
}

impl Shared {
    pub fn new(cluster: Cluster, rules: Rules, process: u32) -> Shared {
        let shards = usize::from(cluster.shards);
        Shared {
            cluster: Arc::new(cluster),
            rules,
            process,
            tokens: AtomicU64::new(0),
            claims: AtomicU64::new(0),
            hints: std::iter::repeat_with(|| AtomicU64::new(0)).take(shards).collect(),
            seen: std::iter::repeat_with(|| AtomicI64::new(0)).take(shards).collect(),
            turn: AtomicUsize::new(0),
            peeked: AtomicUsize::new(0),
            woken: AtomicUsize::new(0),
            released: AtomicUsize::new(0),
            swept: AtomicUsize::new(0),
        }
    }

    /// The shard of a station.
    pub fn shard(&self, station: StationKey) -> u16 {
        let shards = self.cluster.shards;
        if station.0 < 0 {
            return ((-(station.0 + 1)) % i64::from(ESME_LANES) % i64::from(shards)) as u16;
        }
        // The first bits of the hash whose first four choose the shard of the run queue.
        let hash = (station.0 as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        match shards.trailing_zeros() {
            0 => 0,
            bits => (hash >> (64 - bits)) as u16,
        }
    }

    /// What identifies a submission.
    pub fn token(&self) -> [u8; TOKEN] {
        let mut token = [0; TOKEN];
        token[..4].copy_from_slice(&self.process.to_be_bytes());
        token[4..].copy_from_slice(&self.tokens.fetch_add(1, Relaxed).to_be_bytes());
        token
    }

    /// What identifies a claim: process, and a number.
    pub fn claim(&self) -> i64 {
        let number = self.claims.fetch_add(1, Relaxed) as u32;
        (i64::from(self.process) << 32) | i64::from(number)
    }

    pub fn saw(&self, shard: u16, msg_id: i64) {
        if let Some(seen) = self.seen.get(usize::from(shard)) {
            seen.fetch_max(msg_id / i64::from(self.cluster.shards), Relaxed);
        }
    }

    pub fn seen(&self, shard: u16) -> i64 {
        self.seen.get(usize::from(shard)).map_or(0, |seen| seen.load(Relaxed))
    }

    pub fn hint(&self, shard: u16, runs: u64) {
        if let Some(hints) = self.hints.get(usize::from(shard)) {
            hints.fetch_or(runs, Relaxed);
        }
    }

    pub fn unhint(&self, shard: u16, runs: u64) {
        if let Some(hints) = self.hints.get(usize::from(shard)) {
            hints.fetch_and(!runs, Relaxed);
        }
    }

    pub fn is_hinted(&self, shard: u16, runs: u64) -> bool {
        self.hints.get(usize::from(shard)).is_some_and(|hints| hints.load(Relaxed) & runs != 0)
    }
}
