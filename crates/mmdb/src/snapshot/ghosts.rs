//! Entries that an index has lost, while a snapshot may look for the rows they led to.
//!
//! An index shows what is there now. A row of a snapshot that has gone since, or has another key,
//! is found through the ghost of its entry. A ghost proves nothing: whoever follows it, or an entry
//! of today, looks whether the row that the snapshot sees there has the key.

use super::versions::Open;
use crate::container::Rid;
use crate::key::KeyBuf;
use crate::sync::RwLock;
use crate::sync::atomic::{AtomicU64, Ordering};
use std::collections::BTreeMap;
use std::ops::Bound;

/// What a ghost costs beside a long key, bytes.
const ENTRY: i64 = 64;
/// Ghosts are read and pruned in pieces of so many, so that nobody waits for all of them.
const PIECE: usize = 256;

type Map = BTreeMap<(KeyBuf, Rid), u64>;

/// The ghosts of one index: by key and place, with the last snapshot that may need them.
#[derive(Debug, Default)]
pub(crate) struct Ghosts {
    map: RwLock<Map>,
    /// The last snapshot for which one was kept.
    newest: AtomicU64,
    /// The oldest snapshot that was open when all were last looked at.
    oldest: AtomicU64,
}

fn bytes(key: &KeyBuf) -> i64 {
    ENTRY + KeyBuf::heap(key.as_slice().len())
}

/// Whether a snapshot may be open that needs a ghost kept for those up to `newest`.
fn is_needed(newest: u64, open: &Open) -> bool {
    newest > open.last || open.numbers.first().is_some_and(|&oldest| newest >= oldest)
}

impl Ghosts {
    /// Before an entry is removed: keeps it for the snapshots up to `newest`. Returns the bytes
    /// that it takes.
    pub(crate) fn keep(&self, key: KeyBuf, rid: Rid, newest: u64) -> i64 {
        let taken = bytes(&key);
        // Before the ghost: who prunes and does not see this has closed its snapshot, so whoever
        // keeps the ghost finds that out and prunes it.
        self.newest.fetch_max(newest, Ordering::SeqCst);
        let before = self.map.write().insert((key, rid), newest);
        // Numbers only fall when a snapshot is closed, and then nobody needs the higher one.
        if before.is_some() { 0 } else { taken }
    }

    /// Places that a key led to.
    pub(crate) fn of(&self, key: &[u8], found: &mut Vec<Rid>) {
        let map = self.map.read();
        if map.is_empty() {
            return;
        }
        let key = KeyBuf::new(key);
        let all = map.range((key.clone(), Rid(0))..=(key, Rid(u64::MAX)));
        found.extend(all.map(|((_, rid), _)| *rid));
    }

    /// Appends entries within bounds, from the first on, or with `reverse` from the last. Only so
    /// many at once that whoever loses an entry meanwhile does not wait for long: then the key up
    /// to which all are found is returned.
    pub(crate) fn within(
        &self,
        from: &Bound<KeyBuf>,
        to: &Bound<KeyBuf>,
        reverse: bool,
        found: &mut Vec<(KeyBuf, Rid)>,
    ) -> Option<KeyBuf> {
        let from = match from {
            Bound::Included(key) => Bound::Included((key.clone(), Rid(0))),
            Bound::Excluded(key) => Bound::Excluded((key.clone(), Rid(u64::MAX))),
            Bound::Unbounded => Bound::Unbounded,
        };
        let to = match to {
            Bound::Included(key) => Bound::Included((key.clone(), Rid(u64::MAX))),
            Bound::Excluded(key) => Bound::Excluded((key.clone(), Rid(0))),
            Bound::Unbounded => Bound::Unbounded,
        };
        // Bounds that exclude each other are no range to the map.
        let empty = match (&from, &to) {
            (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) => a >= b,
            _ => false,
        };
        if empty {
            return None;
        }
        let map = self.map.read();
        let mut all = map.range((from, to));
        let mut left = PIECE;
        loop {
            let ((key, rid), _) = if reverse { all.next_back() } else { all.next() }?;
            // A key is found with all its places.
            if left == 0 && found.last().is_some_and(|(last, _)| last != key) {
                return found.last().map(|(last, _)| last.clone());
            }
            found.push((key.clone(), *rid));
            left = left.saturating_sub(1);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.map.read().is_empty()
    }

    /// Forgets one if no open snapshot can need it. Returns the bytes that this gives back.
    pub(crate) fn prune_one(&self, key: KeyBuf, rid: Rid, open: &Open) -> i64 {
        let mut map = self.map.write();
        let entry = (key, rid);
        match map.get(&entry) {
            Some(&newest) if !is_needed(newest, open) => {
                map.remove(&entry);
                bytes(&entry.0)
            }
            _ => 0,
        }
    }

    /// Forgets what no open snapshot can need, if one was kept for a snapshot from `since` on. Returns
    /// the bytes that this gives back.
    pub(crate) fn prune(&self, open: &Open, since: u64) -> i64 {
        if self.newest.load(Ordering::SeqCst) < since {
            return 0;
        }
        // As long as the oldest snapshot stays, it needs all that was left for it and all that came
        // since: else each one that is closed meanwhile would cost as much as all that it needs.
        let oldest = open.numbers.first().copied();
        if oldest.is_some_and(|oldest| oldest == self.oldest.load(Ordering::SeqCst)) {
            return 0;
        }
        let mut from = Bound::Unbounded;
        let mut given = 0;
        loop {
            let mut map = self.map.write();
            let piece = map.range((from, Bound::Unbounded)).take(PIECE);
            let piece: Vec<_> = piece.map(|(entry, newest)| (entry.clone(), *newest)).collect();
            for (entry, newest) in &piece {
                if !is_needed(*newest, open) {
                    map.remove(entry);
                    given += bytes(&entry.0);
                }
            }
            match piece.into_iter().next_back() {
                Some((last, _)) => from = Bound::Excluded(last),
                None => break,
            }
        }
        // Of two who look at once, one may know of later closings.
        self.oldest.fetch_max(oldest.unwrap_or(0), Ordering::SeqCst);
        given
    }

    /// Forgets all of them. Returns the bytes that this gives back.
    pub(crate) fn clear(&self) -> i64 {
        let map = std::mem::take(&mut *self.map.write());
        map.keys().map(|(key, _)| bytes(key)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keep(ghosts: &Ghosts, n: u32, newest: u64) -> i64 {
        ghosts.keep(KeyBuf::new(&n.to_be_bytes()), Rid(n.into()), newest)
    }

    fn open(numbers: &[u64], last: u64) -> Open {
        Open { numbers: numbers.to_vec(), last }
    }

    /// While a snapshot stayed open for long, each other one that was closed looked at all entries
    /// that the indexes had lost since, of which none could go: a backup of minutes made the end of
    /// every short snapshot take longer and longer.
    #[test]
    fn what_the_oldest_snapshot_needs_is_looked_at_once() {
        let ghosts = Ghosts::default();
        let taken: i64 = (0..20_000).map(|n| keep(&ghosts, n, u64::from(n) % 2 + 1)).sum();
        assert_eq!(ghosts.prune(&open(&[2, 9], 9), 1) * 2, taken, "those for the first one go");
        // Each of these was as much work as the first.
        for last in 10..20_000 {
            assert_eq!(ghosts.prune(&open(&[2, last], last), last - 1), 0);
            keep(&ghosts, 1, last);
        }
        assert_eq!(ghosts.map.read().len(), 10_000);
        // The oldest one goes, and with it what it alone needed.
        assert_eq!(ghosts.prune(&open(&[9], 20_000), 2) * 2 + 2 * ENTRY, taken);
        assert_eq!(ghosts.map.read().len(), 1, "that was lost again later");
        assert_eq!(ghosts.prune(&open(&[], 20_000), 0), ENTRY);
        assert!(ghosts.is_empty());
        // Others come, with later numbers.
        keep(&ghosts, 7, 20_001);
        assert_eq!(ghosts.prune(&open(&[20_001], 20_001), 0), 0);
        assert_eq!(ghosts.prune(&open(&[20_002], 20_002), 0), ENTRY);
    }
}
