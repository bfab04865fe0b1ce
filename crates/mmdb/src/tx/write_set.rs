//! What a transaction will change: private until its commit.

use super::own_order::OwnOrder;
use super::own_rows::{OwnRow, OwnRows};
use crate::container::Rid;
use crate::key::{self, KeyBuf};
use crate::lock::{Bounds, within};
use crate::table::TableInner;
use hashbrown::HashTable;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Index, Range};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Insert,
    Update,
    Delete,
    /// Inserted and deleted again: only its slot is left to give back.
    Dead,
}

/// One changed slot.
#[derive(Clone, Debug)]
pub(super) struct Write {
    pub(super) table: u32,
    pub(super) rid: Rid,
    pub(super) class: u8,
    pub(super) change: Change,
    /// Hash of the row's primary key, which no change of a row changes.
    pub(super) hash: u64,
    /// The row after the change, in the arena.
    pub(super) after: Range<usize>,
    /// The slot was allocated by this transaction.
    pub(super) fresh: bool,
    /// In a table without locking: a row that has got this primary key meanwhile is no duplicate,
    /// but what this was to replace.
    pub(super) replaces: bool,
}

impl Write {
    fn is_live(&self) -> bool {
        matches!(self.change, Change::Insert | Change::Update)
    }
}

/// Searching a list is faster than keeping maps up to this many writes.
const SMALL: usize = 16;

/// In the place of a place: there are several. No transaction has so many changes, for none of 2^32
/// fits into a frame.
const SEVERAL: u32 = u32::MAX;

/// Places of writes in the list, by the hash of what they are looked for. All rows of a transaction
/// may have one key of an index that is not unique. So a hash is in the table once: one that comes
/// again would be put behind all that are like it.
#[derive(Default)]
struct Map {
    ones: HashTable<(u64, u32)>,
    several: BTreeMap<u64, BTreeSet<u32>>,
    /// Places in `several`.
    count: usize,
}

impl Map {
    fn add(&mut self, hash: u64, at: usize) {
        let at = at as u32;
        match self.ones.find_mut(hash, |entry| entry.0 == hash) {
            None => {
                self.ones.insert_unique(hash, (hash, at), |entry| entry.0);
            }
            Some(entry) => {
                let all = self.several.entry(hash).or_default();
                if entry.1 != SEVERAL {
                    self.count += usize::from(all.insert(entry.1));
                    entry.1 = SEVERAL;
                }
                self.count += usize::from(all.insert(at));
            }
        }
    }

    fn remove(&mut self, hash: u64, at: usize) {
        let at = at as u32;
        let Ok(entry) = self.ones.find_entry(hash, |entry| entry.0 == hash) else { return };
        let is_last = match self.several.get_mut(&hash) {
            None => entry.get().1 == at,
            Some(all) => {
                self.count -= usize::from(all.remove(&at));
                all.is_empty()
            }
        };
        if is_last {
            self.several.remove(&hash);
            entry.remove();
        }
    }

    /// What was added under this hash, in no particular order.
    fn of(&self, hash: u64) -> impl Iterator<Item = usize> + '_ {
        let one = self.ones.find(hash, |entry| entry.0 == hash).map(|entry| entry.1);
        let several = self.several.get(&hash).filter(|_| one == Some(SEVERAL));
        let one = one.filter(|at| *at != SEVERAL);
        one.into_iter().chain(several.into_iter().flatten().copied()).map(|at| at as usize)
    }

    fn clear(&mut self) {
        self.ones.clear();
        self.several.clear();
        self.count = 0;
    }

    fn bytes(&self) -> usize {
        self.ones.capacity() * 20 + self.several.len() * 96 + self.count * 10
    }
}

fn rid_hash(table: u32, rid: Rid) -> u64 {
    key::mix(table.into(), rid.0)
}

fn key_hash(table: u32, ix: usize, hash: u64) -> u64 {
    key::mix(u64::from(table) << 16 | ix as u64, hash)
}

#[derive(Default)]
pub(super) struct WriteSet {
    list: Vec<Write>,
    /// Whether the maps hold what the list holds.
    mapped: bool,
    rids: Map,
    keys: Map,
    /// Of the indexes in whose order rows have been read since there are maps.
    orders: Vec<OwnOrder>,
    buf: Vec<u8>,
}

impl Index<usize> for WriteSet {
    type Output = Write;
    fn index(&self, i: usize) -> &Write {
        &self.list[i]
    }
}

impl WriteSet {
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// Bytes of the list and the maps.
    pub(super) fn bytes(&self) -> u64 {
        let orders: usize = self.orders.iter().map(OwnOrder::bytes).sum();
        (self.list.capacity() * size_of::<Write>() + self.rids.bytes() + self.keys.bytes() + orders) as u64
    }

    pub(super) fn clear(&mut self) {
        self.list.clear();
        if std::mem::take(&mut self.mapped) {
            self.rids.clear();
            self.keys.clear();
            self.orders.clear();
        }
    }

    /// Bytes of all rows that are written.
    pub(super) fn row_bytes(&self) -> usize {
        self.list.iter().filter(|w| w.is_live()).map(|w| w.after.len()).sum()
    }

    /// Copies the rows that are written from one arena to another one.
    pub(super) fn move_rows(&mut self, from: &[u8], to: &mut Vec<u8>) {
        for w in &mut self.list {
            let start = to.len();
            if w.is_live() {
                to.extend_from_slice(&from[w.after.clone()]);
                w.after = start..to.len();
            } else {
                w.after = 0..0;
            }
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Write> {
        self.list.iter()
    }

    /// The write of this transaction to the slot, unless it is dead.
    pub(super) fn by_rid(&self, table: u32, rid: Rid) -> Option<usize> {
        let same = |w: &Write| w.rid == rid && w.table == table && w.change != Change::Dead;
        if self.mapped {
            return self.rids.of(rid_hash(table, rid)).find(|&i| same(&self.list[i]));
        }
        self.list.iter().position(same)
    }

    /// Rows written by this transaction that have this key, whose hash is `hash`, in index `ix`, in
    /// no particular order.
    fn with_key<'a>(
        &'a self,
        t: &'a TableInner,
        ix: usize,
        key: &'a [u8],
        hash: u64,
        arena: &'a [u8],
    ) -> impl Iterator<Item = usize> + 'a {
        let mapped = self.mapped.then(|| self.keys.of(key_hash(t.id, ix, hash)));
        let all = (!self.mapped).then_some(0..self.list.len());
        let mut k = Vec::new();
        mapped.into_iter().flatten().chain(all.into_iter().flatten()).filter(move |&i| {
            let w = &self.list[i];
            // Rows with another primary key are told by its hash; keys are encoded only for the
            // rest.
            if w.table != t.id || !w.is_live() || (ix == 0 && w.hash != hash) {
                return false;
            }
            k.clear();
            t.layout.row_key(&arena[w.after.clone()], &t.indexes[ix].def.columns, &mut k);
            k == key
        })
    }

    /// A row written by this transaction that has this key, whose hash is `hash`, in index `ix`.
    pub(super) fn by_key(
        &self,
        t: &TableInner,
        ix: usize,
        key: &[u8],
        hash: u64,
        arena: &[u8],
    ) -> Option<usize> {
        if self.list.is_empty() { None } else { self.with_key(t, ix, key, hash, arena).next() }
    }

    /// All such rows, in order of writing.
    pub(super) fn all_by_key(
        &self,
        t: &TableInner,
        ix: usize,
        key: &[u8],
        hash: u64,
        arena: &[u8],
    ) -> Vec<usize> {
        let mut all: Vec<usize> = self.with_key(t, ix, key, hash, arena).collect();
        all.sort_unstable();
        all
    }

    fn index_keys(&mut self, t: &TableInner, i: usize, arena: &[u8], add: bool) {
        if !self.mapped {
            return;
        }
        let w = &self.list[i];
        for (ix, index) in t.indexes.iter().enumerate() {
            let mut hash = w.hash;
            if ix > 0 {
                self.buf.clear();
                t.layout.row_key(&arena[w.after.clone()], &index.def.columns, &mut self.buf);
                hash = key::hash(&self.buf);
            }
            let name = key_hash(t.id, ix, hash);
            if add {
                self.keys.add(name, i);
            } else {
                self.keys.remove(name, i);
            }
        }
        for order in self.orders.iter_mut().filter(|order| order.table == t.id) {
            let key = entry_of(t, order.ix, w, arena, &mut self.buf);
            if add {
                order.add(key, i);
            } else {
                order.remove(key, i);
            }
        }
    }

    /// Adds a write. Once there are many, maps are built; writes of other tables are in them from
    /// then on.
    pub(super) fn push(&mut self, t: &TableInner, w: Write, arena: &[u8]) {
        let live = w.is_live();
        let at = self.list.len();
        let name = rid_hash(w.table, w.rid);
        self.list.push(w);
        if self.mapped {
            self.rids.add(name, at);
            if live {
                self.index_keys(t, at, arena, true);
            }
        }
    }

    /// True if the next lookups should go through maps; the caller then calls
    /// [`WriteSet::build_maps`].
    pub(super) fn wants_maps(&self) -> bool {
        !self.mapped && self.list.len() > SMALL
    }

    pub(super) fn build_maps<'a>(&mut self, table: impl Fn(u32) -> Option<&'a TableInner>, arena: &[u8]) {
        self.mapped = true;
        for i in 0..self.list.len() {
            let w = &self.list[i];
            if w.change == Change::Dead {
                continue;
            }
            let (name, live, t) = (rid_hash(w.table, w.rid), w.is_live(), table(w.table));
            self.rids.add(name, i);
            if let (true, Some(t)) = (live, t) {
                self.index_keys(t, i, arena, true);
            }
        }
    }

    pub(super) fn set_after(&mut self, t: &TableInner, i: usize, after: Range<usize>, arena: &[u8]) {
        self.index_keys(t, i, arena, false);
        self.list[i].after = after;
        self.index_keys(t, i, arena, true);
    }

    pub(super) fn make_delete(&mut self, t: &TableInner, i: usize, arena: &[u8]) {
        self.index_keys(t, i, arena, false);
        self.list[i].change = Change::Delete;
        self.list[i].after = 0..0;
    }

    /// Makes a delete a change.
    pub(super) fn bring_back(&mut self, t: &TableInner, i: usize, after: Range<usize>, arena: &[u8]) {
        assert!(self.list[i].change == Change::Delete, "what comes back was deleted");
        self.list[i].change = Change::Update;
        self.list[i].after = after;
        self.index_keys(t, i, arena, true);
    }

    pub(super) fn kill(&mut self, t: &TableInner, i: usize, arena: &[u8]) {
        self.index_keys(t, i, arena, false);
        let name = rid_hash(self.list[i].table, self.list[i].rid);
        self.list[i].change = Change::Dead;
        if self.mapped {
            self.rids.remove(name, i);
        }
    }

    /// The rows written to a table by their entries in index `ix`, those within bounds.
    pub(super) fn rows_within(
        &mut self,
        t: &TableInner,
        ix: usize,
        bounds: &Bounds,
        arena: &[u8],
    ) -> OwnRows {
        if !self.mapped {
            let mut all = own_rows(self, t, ix, arena);
            all.retain(|own| within(&own.key, bounds));
            return OwnRows::these(all);
        }
        if self.order(t.id, ix).is_none() {
            self.begin_order(t, ix, arena);
        }
        OwnRows::within(ix, bounds.clone(), self.list.len())
    }

    fn order(&self, table: u32, ix: usize) -> Option<&OwnOrder> {
        self.orders.iter().find(|order| (order.table, order.ix) == (table, ix))
    }

    /// The first `most` rows within bounds in the order of an index that is kept, or the last ones
    /// in reverse order.
    pub(super) fn ordered_part(
        &self,
        table: u32,
        ix: usize,
        bounds: &Bounds,
        most: usize,
        reverse: bool,
    ) -> Vec<OwnRow> {
        let found = self.order(table, ix).map(|order| order.within(bounds, most, reverse));
        let own = |(key, at): (KeyBuf, usize)| OwnRow { key, at, row: self.list[at].after.clone() };
        found.unwrap_or_default().into_iter().map(own).collect()
    }

    /// Puts the rows written to a table in the order of index `ix`, to be kept up from now on.
    fn begin_order(&mut self, t: &TableInner, ix: usize, arena: &[u8]) {
        let mut order = OwnOrder::new(t.id, ix);
        for (i, w) in self.list.iter().enumerate().filter(|(_, w)| w.table == t.id && w.is_live()) {
            order.add(entry_of(t, ix, w, arena, &mut self.buf), i);
        }
        self.orders.push(order);
    }
}

/// The entry of index `ix` for a row that is written; `k` is a buffer.
fn entry_of(t: &TableInner, ix: usize, w: &Write, arena: &[u8], k: &mut Vec<u8>) -> KeyBuf {
    let index = &t.indexes[ix];
    k.clear();
    t.layout.row_key(&arena[w.after.clone()], &index.def.columns, k);
    if !index.distinct {
        k.extend_from_slice(&w.rid.0.to_be_bytes());
    }
    KeyBuf::new(k)
}

/// The rows written to a table in the order of their entries in index `ix`.
pub(super) fn own_rows(set: &WriteSet, t: &TableInner, ix: usize, arena: &[u8]) -> Vec<OwnRow> {
    let mut k = Vec::new();
    let live = set.list.iter().enumerate().filter(|(_, w)| w.table == t.id && w.is_live());
    let own = live.map(|(at, w)| OwnRow { key: entry_of(t, ix, w, arena, &mut k), at, row: w.after.clone() });
    let mut all: Vec<OwnRow> = own.collect();
    all.sort_by(|a, b| a.key.cmp(&b.key));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_map_has_what_was_added_and_not_removed(
            steps in proptest::collection::vec((any::<bool>(), 0u64..4, 0usize..6), 0..80),
        ) {
            let (mut map, mut model) = (Map::default(), BTreeSet::new());
            for (comes, hash, at) in steps {
                // Each place comes once before it goes.
                if comes && model.insert((hash, at)) {
                    map.add(hash, at);
                } else if !comes {
                    model.remove(&(hash, at));
                    map.remove(hash, at);
                }
                for hash in 0..4 {
                    let found: BTreeSet<(u64, usize)> = map.of(hash).map(|at| (hash, at)).collect();
                    let want: BTreeSet<_> = model.iter().copied().filter(|there| there.0 == hash).collect();
                    prop_assert_eq!(found.len(), map.of(hash).count());
                    prop_assert_eq!(found, want);
                }
            }
            prop_assert_eq!(map.count, map.several.values().map(BTreeSet::len).sum::<usize>());
            map.clear();
            prop_assert!((0..4).all(|hash| map.of(hash).next().is_none()) && map.count == 0);
        }
    }

    /// A transaction that inserted a million rows with one key in an index that is not unique took
    /// minutes: each came behind all that were like it.
    #[test]
    fn a_million_rows_of_one_key_are_entered_in_no_time() {
        let mut map = Map::default();
        (0..1_000_000).for_each(|at| map.add(7, at));
        assert_eq!(map.of(7).count(), 1_000_000);
        (0..1_000_000).for_each(|at| map.remove(7, at));
        assert_eq!((map.of(7).count(), map.count, map.ones.len()), (0, 0, 0));
    }
}
