//! Primary keys that are looked up together, so that their misses of the caches overlap.
//!
//! A read of one row waits for memory twice, one after the other: for the line of the index that
//! says where it is, and for the row. Rows of a table that is much larger than the caches cost that
//! and little else. Here all keys of a batch go one step before any goes the next, so that a
//! processor has the loads of many under way at once. What is found is not believed: the read that
//! follows looks whether a row is there, and has the key.

use crate::container::Rid;
use crate::error::Result;
use crate::index::{BATCH, Probe};
use crate::key;
use crate::table::TableInner;
use crate::value::Value;

/// Keys of one table, encoded, and what the index says of them.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    keys: Vec<u8>,
    probes: Vec<Probe>,
}

impl Batch {
    /// Encodes keys of a table's primary key in place of those before.
    ///
    /// # Errors
    /// Those of a key that does not fit.
    pub(crate) fn encode<'v, K: AsRef<[Value<'v>]>>(&mut self, t: &TableInner, keys: &[K]) -> Result<()> {
        assert!(keys.len() <= BATCH, "{} keys are too many to be looked up together", keys.len());
        self.keys.clear();
        self.probes.clear();
        for key in keys {
            let start = self.keys.len();
            t.layout.user_key(key.as_ref(), &t.indexes[0].def.columns, false, &mut self.keys)?;
            let range = start..self.keys.len();
            let hash = key::hash(&self.keys[range.clone()]);
            self.probes.push(Probe { key: range, hash, rid: None });
        }
        Ok(())
    }

    /// Looks all of them up, and brings the rows into the caches; with `again` also what it takes to
    /// look them up once more.
    pub(crate) fn look_up(&mut self, t: &TableInner, again: bool) {
        t.indexes[0].likely_many(&self.keys, &mut self.probes, again);
        let rids = self.probes.iter().filter_map(|probe| probe.rid);
        rids.clone().for_each(|rid| t.prefetch_container(rid));
        rids.for_each(|rid| t.prefetch(rid));
    }

    /// Key number `n`, and where its row is if the row there has it.
    #[inline]
    pub(crate) fn key(&self, n: usize) -> (&[u8], Option<Rid>) {
        let probe = &self.probes[n];
        (&self.keys[probe.key.clone()], probe.rid)
    }

    /// Brings all that reads of these keys will need into the caches, `again` as above. Whether the
    /// keys fit is for those to say.
    pub(crate) fn warm<'v, K: AsRef<[Value<'v>]>>(&mut self, t: &TableInner, keys: &[K], again: bool) {
        if self.encode(t, keys).is_ok() {
            self.look_up(t, again);
        }
    }
}
