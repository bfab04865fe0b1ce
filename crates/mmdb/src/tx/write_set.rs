//! What a transaction will change: private until its commit.

use crate::container::Rid;
use crate::key::KeyBuf;
use crate::table::TableInner;
use std::collections::HashMap;
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
    /// The row after the change, in the arena.
    pub(super) after: Range<usize>,
    /// The slot was allocated by this transaction.
    pub(super) fresh: bool,
}

impl Write {
    fn is_live(&self) -> bool {
        matches!(self.change, Change::Insert | Change::Update)
    }
}

/// Searching a list is faster than keeping maps up to this many writes.
const SMALL: usize = 16;

#[derive(Default)]
struct Maps {
    rids: HashMap<(u32, Rid), usize>,
    keys: HashMap<(u32, usize, KeyHash), Vec<usize>>,
}

/// The hash of a key: candidates are compared in full.
type KeyHash = u64;

#[derive(Default)]
pub(super) struct WriteSet {
    list: Vec<Write>,
    maps: Option<Box<Maps>>,
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

    pub(super) fn clear(&mut self) {
        self.list.clear();
        self.maps = None;
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Write> {
        self.list.iter()
    }

    /// The write of this transaction to the slot, unless it is dead.
    pub(super) fn by_rid(&self, table: u32, rid: Rid) -> Option<usize> {
        if let Some(m) = &self.maps {
            return m.rids.get(&(table, rid)).copied();
        }
        self.list.iter().position(|w| w.rid == rid && w.table == table && w.change != Change::Dead)
    }

    /// A row written by this transaction that has this key in index `ix`.
    pub(super) fn by_key(&self, t: &TableInner, ix: usize, key: &[u8], arena: &[u8]) -> Option<usize> {
        if self.list.is_empty() {
            return None;
        }
        self.all_by_key(t, ix, key, arena).first().copied()
    }

    pub(super) fn all_by_key(&self, t: &TableInner, ix: usize, key: &[u8], arena: &[u8]) -> Vec<usize> {
        let columns = &t.indexes[ix].def.columns;
        let mut k: Vec<u8> = Vec::new();
        let mut same = |w: &Write| {
            k.clear();
            t.layout.row_key(&arena[w.after.clone()], columns, &mut k);
            k == key
        };
        if let Some(m) = &self.maps {
            let candidates = m.keys.get(&(t.id, ix, crate::key::hash(key)));
            return candidates.into_iter().flatten().copied().filter(|&i| same(&self.list[i])).collect();
        }
        let mut hits = Vec::new();
        for (i, w) in self.list.iter().enumerate() {
            if w.table == t.id && w.is_live() && same(w) {
                hits.push(i);
            }
        }
        hits
    }

    fn index_keys(&mut self, t: &TableInner, i: usize, arena: &[u8], add: bool) {
        let Some(m) = &mut self.maps else { return };
        let w = &self.list[i];
        for (ix, index) in t.indexes.iter().enumerate() {
            self.buf.clear();
            t.layout.row_key(&arena[w.after.clone()], &index.def.columns, &mut self.buf);
            let name = (t.id, ix, crate::key::hash(&self.buf));
            if add {
                m.keys.entry(name).or_default().push(i);
            } else if let Some(list) = m.keys.get_mut(&name) {
                list.retain(|&x| x != i);
            }
        }
    }

    /// Adds a write. Once there are many, maps are built; writes of other tables are in them from then on.
    pub(super) fn push(&mut self, t: &TableInner, w: Write, arena: &[u8]) {
        let live = w.is_live();
        let at = self.list.len();
        let name = (w.table, w.rid);
        self.list.push(w);
        if let Some(m) = &mut self.maps {
            m.rids.insert(name, at);
            if live {
                self.index_keys(t, at, arena, true);
            }
        }
    }

    /// True if the next lookups should go through maps; the caller then calls [`WriteSet::build_maps`].
    pub(super) fn wants_maps(&self) -> bool {
        self.maps.is_none() && self.list.len() > SMALL
    }

    pub(super) fn build_maps<'a>(&mut self, table: impl Fn(u32) -> Option<&'a TableInner>, arena: &[u8]) {
        self.maps = Some(Box::default());
        for i in 0..self.list.len() {
            let w = &self.list[i];
            if w.change == Change::Dead {
                continue;
            }
            let (name, live, t) = ((w.table, w.rid), w.is_live(), table(w.table));
            if let Some(m) = &mut self.maps {
                m.rids.insert(name, i);
            }
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
        let name = (self.list[i].table, self.list[i].rid);
        self.list[i].change = Change::Dead;
        if let Some(m) = &mut self.maps {
            m.rids.remove(&name);
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
    let def = &t.indexes[ix].def;
    let mut v = Vec::new();
    for w in set.live(t.id) {
        let mut k = Vec::new();
        t.layout.row_key(&arena[w.after.clone()], &def.columns, &mut k);
        if !def.unique {
            k.extend_from_slice(&w.rid.0.to_be_bytes());
        }
        v.push((KeyBuf::new(&k), w.after.clone()));
    }
    v.sort_by(|a, b| a.0.cmp(&b.0));
    v
}
