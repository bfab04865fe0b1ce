//! What a transaction will change: private until its commit.

use crate::container::Rid;
use crate::key::{self, KeyBuf};
use crate::table::TableInner;
use hashbrown::HashTable;
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

/// Places of writes in the list, by the hash of what they are looked for.
#[derive(Default)]
struct Map(HashTable<(u64, u32)>);

impl Map {
    fn add(&mut self, hash: u64, at: usize) {
        // A transaction of 2^32 changes does not fit into a frame.
        self.0.insert_unique(hash, (hash, at as u32), |entry| entry.0);
    }

    fn remove(&mut self, hash: u64, at: usize) {
        if let Ok(entry) = self.0.find_entry(hash, |entry| *entry == (hash, at as u32)) {
            entry.remove();
        }
    }

    /// What was added under this hash, in no particular order.
    fn of(&self, hash: u64) -> impl Iterator<Item = usize> + '_ {
        self.0.iter_hash(hash).filter(move |entry| entry.0 == hash).map(|entry| entry.1 as usize)
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
        (self.list.capacity() * size_of::<Write>() + (self.rids.0.capacity() + self.keys.0.capacity()) * 20)
            as u64
    }

    pub(super) fn clear(&mut self) {
        self.list.clear();
        if std::mem::take(&mut self.mapped) {
            self.rids.0.clear();
            self.keys.0.clear();
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

    pub(super) fn kill(&mut self, t: &TableInner, i: usize, arena: &[u8]) {
        self.index_keys(t, i, arena, false);
        let name = rid_hash(self.list[i].table, self.list[i].rid);
        self.list[i].change = Change::Dead;
        if self.mapped {
            self.rids.remove(name, i);
        }
    }

    /// Live writes to a table, in order of writing.
    pub(super) fn live<'a>(&'a self, table: u32) -> impl Iterator<Item = &'a Write> + 'a {
        self.list.iter().filter(move |w| w.table == table && w.is_live())
    }
}

/// Kept for indexes of cursors.
pub(super) fn own_entries(
    set: &WriteSet,
    t: &TableInner,
    ix: usize,
    arena: &[u8],
) -> Vec<(KeyBuf, Range<usize>)> {
    let index = &t.indexes[ix];
    let mut v = Vec::new();
    let mut k = Vec::new();
    for w in set.live(t.id) {
        k.clear();
        t.layout.row_key(&arena[w.after.clone()], &index.def.columns, &mut k);
        if !index.distinct {
            k.extend_from_slice(&w.rid.0.to_be_bytes());
        }
        v.push((KeyBuf::new(&k), w.after.clone()));
    }
    v.sort_by(|a, b| a.0.cmp(&b.0));
    v
}
