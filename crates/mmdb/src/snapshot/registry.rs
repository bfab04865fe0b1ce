//! The snapshots that are open, and what is kept for them.
//!
//! A snapshot gets its number while no commit is half applied. From then on the first change of
//! each slot keeps the row that was there, and whatever leaves an index leaves a ghost: both with
//! the number of the newest snapshot, which is the last that needs them. While no snapshot is open,
//! commits read one word and keep nothing.
//!
//! Who closes a snapshot prunes, on its own thread. A commit that kept something while the snapshot
//! was closed prunes what it kept: the closing first changes [`Snapshots::newest`] and then looks
//! whether anything is kept, the commit first says that it has and then reads `newest`. Of those
//! who close at once, one prunes again if a snapshot that it kept something for was closed since it
//! began: that one's closer may have found nothing to prune. What was kept before the snapshots
//! that were closed is left alone: it is for others, which may stay open for long and need much of
//! it.
//!
//! Memory is bounded without making a writer wait: above `limit` the oldest snapshot is given up,
//! and its reads are refused; above twice of it all are.

use super::versions::Open;
use crate::cache_line::CacheLine;
use crate::container::{Container, Rid, Slot};
use crate::life::Span;
use crate::memory::{Budget, Gauge};
use crate::row::Layout;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Whether a snapshot was given up.
#[derive(Debug, Default)]
pub(super) struct Fate(AtomicBool);

impl Fate {
    pub(super) fn is_given_up(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

#[derive(Debug, Default)]
pub(super) struct State {
    /// The last number given.
    pub(super) last: u64,
    pub(super) open: BTreeMap<u64, Arc<Fate>>,
    /// How many were taken off the list.
    pub(super) closings: u64,
    /// The least number that was taken off since somebody last began to prune.
    pub(super) unpruned: Option<u64>,
    /// Above so many bytes the next snapshot is given up; 0 for the limit itself.
    pub(super) allowance: u64,
}

impl State {
    fn listed(&self) -> Open {
        Open { numbers: self.open.keys().copied().collect(), last: self.last }
    }
}

#[derive(Debug)]
pub(crate) struct Snapshots {
    /// The newest snapshot that is open; 0 for none. It rises only while no commit is inside the
    /// gates.
    pub(super) newest: CacheLine<AtomicU64>,
    pub(super) state: Mutex<State>,
    /// Containers that have versions: table and number.
    pub(super) changed: Mutex<Vec<(u32, u32)>>,
    /// Whether something may be kept that nobody is pruning.
    pub(super) keeps: AtomicBool,
    limit: u64,
    /// Bytes of versions and ghosts.
    pub(super) gauge: Gauge,
    expiries: AtomicU64,
}

/// What a snapshot is of.
pub(super) struct OpenSnapshot {
    pub(super) number: u64,
    pub(super) gsn: u64,
    /// The tables that were there, by number, and the life each was in.
    pub(super) tables: Vec<(u32, Span)>,
    pub(super) fate: Arc<Fate>,
}

impl Snapshots {
    pub(crate) fn new(budget: &Arc<Budget>, limit: u64) -> Snapshots {
        Snapshots {
            newest: CacheLine(AtomicU64::new(0)),
            state: Mutex::default(),
            changed: Mutex::default(),
            keeps: AtomicBool::new(false),
            limit,
            gauge: Gauge::new(budget, 0),
            expiries: AtomicU64::new(0),
        }
    }

    /// The newest snapshot for which a commit has to keep what it changes; 0 for none.
    #[inline]
    pub(crate) fn newest(&self) -> u64 {
        self.newest.load(Ordering::SeqCst)
    }

    /// Snapshots that are open, and not given up.
    pub(crate) fn count(&self) -> u64 {
        self.state.lock().open.len() as u64
    }

    /// Bytes of versions and ghosts.
    pub(crate) fn bytes(&self) -> u64 {
        self.gauge.bytes()
    }

    /// Snapshots that were given up.
    pub(crate) fn expiries(&self) -> u64 {
        self.expiries.load(Ordering::Relaxed)
    }

    /// The most bytes before a snapshot is given up.
    pub(super) fn limit(&self) -> u64 {
        self.limit
    }

    /// The snapshots that are open.
    fn open(&self) -> Open {
        self.state.lock().listed()
    }

    /// The snapshots that are open, how many were taken off the list before, and the first number
    /// for which something may have been kept that nobody needs any more.
    pub(super) fn begin_pruning(&self) -> (Open, u64, u64) {
        let mut state = self.state.lock();
        let (open, since) = (state.listed(), state.unpruned.take().unwrap_or(0));
        (open, state.closings, if state.open.is_empty() { 0 } else { since })
    }

    /// Takes a snapshot off the list, whether it was closed or given up, and states the newest
    /// left.
    pub(super) fn remove(&self, state: &mut State, number: u64) -> Option<Arc<Fate>> {
        let fate = state.open.remove(&number);
        state.closings += 1;
        state.unpruned = Some(state.unpruned.map_or(number, |least| least.min(number)));
        let newest = state.open.last_key_value().map_or(0, |(number, _)| *number);
        self.newest.store(newest, Ordering::SeqCst);
        fate
    }

    /// Before a change of a slot in container `c` of a table, which the caller has latched: keeps
    /// its row, if a snapshot needs it.
    #[cold]
    pub(crate) fn keep_row(&self, table: u32, layout: &Layout, c: &Container, rid: Rid, slot: Slot<'_>) {
        let newest = self.newest();
        // A container that was made since holds nothing that a snapshot could see.
        if newest == 0 || c.born >= newest {
            return;
        }
        let mut versions = c.versions.lock();
        let mut taken = versions.keep(rid.slot(), newest, layout.row_of(slot).as_deref());
        if taken == 0 {
            return;
        }
        if !std::mem::replace(&mut versions.listed, true) {
            self.changed.lock().push((table, rid.container()));
        }
        self.keeps.store(true, Ordering::SeqCst);
        if self.newest() < newest {
            // Closed meanwhile, and perhaps pruned before this was in the list.
            taken -= versions.prune(&self.open());
        }
        drop(versions);
        self.charge(taken);
    }

    /// Before an entry leaves an index: keeps it as a ghost, if a snapshot needs it. The caller is
    /// inside the gate.
    #[cold]
    pub(crate) fn keep_entry(&self, index: &crate::index::Index, key: &[u8], rid: Rid) {
        let newest = self.newest();
        if newest == 0 {
            return;
        }
        let mut taken = index.keep_ghost(key, rid, newest);
        self.keeps.store(true, Ordering::SeqCst);
        if self.newest() < newest {
            // As above.
            taken -= index.prune_ghost(key, rid, &self.open());
        }
        self.charge(taken);
    }

    /// Counts memory, and gives the oldest snapshot up if that is too much.
    fn charge(&self, bytes: i64) {
        self.gauge.add(bytes);
        let now = self.gauge.bytes();
        if now <= self.limit {
            return;
        }
        let mut state = self.state.lock();
        let all = now > self.limit.saturating_mul(2);
        while now > state.allowance.max(self.limit) || all {
            let Some((&oldest, _)) = state.open.first_key_value() else { return };
            if let Some(fate) = self.remove(&mut state, oldest) {
                // Before anything that it needs is forgotten.
                fate.0.store(true, Ordering::SeqCst);
                self.expiries.fetch_add(1, Ordering::Relaxed);
            }
            // The next one has to wait until somebody has pruned, or this comes to nothing.
            state.allowance = now.saturating_add(self.limit / 4);
        }
    }

    /// A table's versions and ghosts are gone.
    pub(crate) fn give_back(&self, bytes: i64) {
        self.gauge.add(-bytes);
    }
}
