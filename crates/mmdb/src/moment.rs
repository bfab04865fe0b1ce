//! One moment of all tables that are checkpointed but not logged, for images that are copied later.
//!
//! Without a log nothing joins images of different moments: a row that moves from a container that
//! is not copied yet to one that is would be in neither image, one that moves the other way in
//! both, and so would the unique keys that two rows exchange.

use crate::engine::Engine;
use crate::sabotage::has_defect;
use crate::schema::Logging;
use crate::table::TableInner;
use std::sync::Arc;

/// The containers of those tables. Until this is dropped, whoever changes one first keeps a copy.
#[derive(Debug)]
pub(crate) struct Moment(Vec<(Arc<TableInner>, u32)>);

impl Engine {
    /// A commit number such that everything up to it is applied, and the state after it. The caller
    /// holds the administration's lock, so that there is one such moment at a time.
    pub(crate) fn begin_moment(&self) -> (u64, Moment) {
        let wanted = !has_defect!(self.options.defect(), NoMoment);
        self.quiesced(|| {
            let mut containers = Vec::new();
            for t in self.live_tables().into_iter().filter(|t| t.logging == Logging::Checkpointed) {
                for (n, c) in t.containers.iter() {
                    if wanted {
                        c.want_before();
                    }
                    containers.push((t.clone(), n));
                }
            }
            (self.log.last(), Moment(containers))
        })
    }
}

impl Moment {
    /// The containers, each with its table.
    pub(crate) fn work(&self) -> Vec<(Arc<TableInner>, u32)> {
        self.0.clone()
    }
}

impl Drop for Moment {
    fn drop(&mut self) {
        for c in self.0.iter().filter_map(|(t, n)| t.containers.get(*n)) {
            let _latched = c.bytes.read();
            c.take_before();
        }
    }
}
