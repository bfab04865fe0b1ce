//! A B-tree from key to place. A non-unique key is followed by its row's place, so that entries are unique.

use crate::container::Rid;
use crate::key::KeyBuf;
use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::ops::Bound;

pub(super) struct OrderedIndex {
    unique: bool,
    map: RwLock<BTreeMap<KeyBuf, Rid>>,
}

impl std::fmt::Debug for OrderedIndex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "OrderedIndex({} entries)", self.len())
    }
}

impl OrderedIndex {
    pub(super) fn new(unique: bool) -> Self {
        OrderedIndex { unique, map: RwLock::new(BTreeMap::new()) }
    }

    fn stored(&self, key: &[u8], rid: Rid) -> KeyBuf {
        if self.unique {
            return KeyBuf::new(key);
        }
        let mut k = Vec::with_capacity(key.len() + 8);
        k.extend_from_slice(key);
        k.extend_from_slice(&rid.0.to_be_bytes());
        KeyBuf::new(&k)
    }

    pub(super) fn insert(&self, key: &[u8], rid: Rid) {
        let k = self.stored(key, rid);
        self.map.write().insert(k, rid);
    }

    pub(super) fn remove(&self, key: &[u8], rid: Rid) {
        let k = self.stored(key, rid);
        let mut map = self.map.write();
        if map.get(k.as_slice()) == Some(&rid) {
            map.remove(k.as_slice());
        }
    }

    pub(super) fn find(&self, key: &[u8]) -> Option<Rid> {
        let map = self.map.read();
        if self.unique {
            return map.get(key).copied();
        }
        let bounds = (Bound::Included(key), Bound::Unbounded);
        let (k, r) = map.range::<[u8], _>(bounds).next()?;
        is_key(k.as_slice(), key).then_some(*r)
    }

    pub(super) fn find_all(&self, key: &[u8], out: &mut Vec<Rid>) {
        if self.unique {
            out.extend(self.find(key));
            return;
        }
        let map = self.map.read();
        let bounds = (Bound::Included(key), Bound::Unbounded);
        let hits = map.range::<[u8], _>(bounds).take_while(|(k, _)| is_key(k.as_slice(), key));
        out.extend(hits.map(|(_, r)| *r));
    }

    pub(super) fn scan(
        &self,
        from: Bound<&[u8]>,
        to: Bound<&[u8]>,
        limit: usize,
        reverse: bool,
    ) -> Vec<(KeyBuf, Rid)> {
        // BTreeMap::range panics on inverted bounds; an inverted range is just empty.
        if let (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) = (from, to)
            && (a > b || (a == b && !matches!((from, to), (Bound::Included(_), Bound::Included(_)))))
        {
            return Vec::new();
        }
        let map = self.map.read();
        let range = map.range::<[u8], _>((from, to));
        if reverse {
            range.rev().take(limit).map(|(k, r)| (k.clone(), *r)).collect()
        } else {
            range.take(limit).map(|(k, r)| (k.clone(), *r)).collect()
        }
    }

    pub(super) fn len(&self) -> usize {
        self.map.read().len()
    }

    pub(super) fn build(&self, mut entries: Vec<(KeyBuf, Rid)>) -> bool {
        if !self.unique {
            for (k, r) in &mut entries {
                *k = self.stored(k.as_slice(), *r);
            }
        }
        entries.sort_unstable();
        let n = entries.len();
        // From sorted entries the tree is built bottom-up.
        let map: BTreeMap<KeyBuf, Rid> = entries.into_iter().collect();
        let whole = map.len() == n;
        *self.map.write() = map;
        whole
    }
}

/// True if the stored key `k` is `key` followed by a place. Encoded keys are prefix-free, so length decides nothing else.
fn is_key(k: &[u8], key: &[u8]) -> bool {
    k.len() == key.len() + 8 && k.starts_with(key)
}
