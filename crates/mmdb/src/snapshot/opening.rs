//! How snapshots are opened and closed, and who forgets what was kept for them.

use super::registry::{Fate, OpenSnapshot, Snapshots};
use super::versions::Open;
use crate::engine::Engine;
use crate::sync::atomic::Ordering;
use crate::table::TableInner;
use std::collections::HashMap;
use std::sync::Arc;

impl Snapshots {
    /// Forgets what no open snapshot needs.
    fn sweep(&self, engine: &Engine) {
        while self.keeps.swap(false, Ordering::SeqCst) {
            let (open, closings, since) = self.begin_pruning();
            if self.prune(engine, &open, since) {
                self.keeps.store(true, Ordering::SeqCst);
            }
            let mut state = self.state.lock();
            state.allowance = 0;
            // Who closed one since then may have come while this had taken all there was to prune.
            if state.closings == closings {
                return;
            }
            // What that was closed for may be in the part that this has looked at: whoever prunes
            // next looks at everything.
            state.unpruned = Some(0);
        }
    }

    /// Forgets what none of these snapshots needs, of what was kept for those from `since` on, too;
    /// whether anything is left.
    fn prune(&self, engine: &Engine, open: &Open, since: u64) -> bool {
        let tables: HashMap<u32, Arc<TableInner>> =
            engine.names.read().values().map(|t| (t.id, t.clone())).collect();
        let changed = std::mem::take(&mut *self.changed.lock());
        let mut is_left = false;
        for (table, number) in changed {
            // A table that was dropped has forgotten its versions with its rows.
            let Some(c) = tables.get(&table).and_then(|t| t.containers.get(number)) else { continue };
            let mut versions = c.versions.lock();
            let given = if versions.newest() < since { 0 } else { versions.prune(open) };
            if versions.is_empty() {
                versions.listed = false;
            } else {
                is_left = true;
                self.changed.lock().push((table, number));
            }
            drop(versions);
            self.gauge.add(-given);
        }
        for index in tables.values().flat_map(|t| &t.indexes) {
            self.gauge.add(-index.prune_ghosts(open, since));
            is_left |= index.has_ghosts();
        }
        is_left
    }
}

impl Engine {
    pub(super) fn open_snapshot(&self) -> OpenSnapshot {
        let snapshots = self.snapshots();
        // What was given up and never closed is forgotten by whoever comes next.
        if snapshots.bytes() > snapshots.limit() {
            snapshots.sweep(self);
        }
        self.quiesced(|| {
            let mut state = snapshots.state.lock();
            state.last += 1;
            let (number, fate) = (state.last, Arc::<Fate>::default());
            assert!(number > snapshots.newest(), "snapshots are numbered in order");
            state.open.insert(number, fate.clone());
            snapshots.newest.store(number, Ordering::SeqCst);
            drop(state);
            let live = self.live_tables();
            let tables = live.iter().filter_map(|t| t.life.now().map(|span| (t.id, span))).collect();
            OpenSnapshot { number, gsn: self.log.last(), tables, fate }
        })
    }

    pub(super) fn close_snapshot(&self, number: u64) {
        let mut state = self.snapshots().state.lock();
        self.snapshots().remove(&mut state, number);
        drop(state);
        self.snapshots().sweep(self);
    }
}
