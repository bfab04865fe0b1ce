//! What transactions did, and whether a serial order explains it.

use std::collections::{BTreeMap, HashMap};

/// Keys of a table, at most.
pub const MAX_KEYS: u8 = 90;

/// A table's number, which no other table has, not even a later one of the same name; and the row's
/// key.
pub type Key = (usize, u8);
/// A row's content: who wrote it, how many bytes of padding follow, and its tag.
pub type Content = Option<(u64, usize, u8)>;

/// A version of a key: written by a transaction, or (0) the initial absence.
#[derive(Clone, Copy, Debug)]
pub struct Version {
    pub writer: u64,
    pub content: Content,
}

#[derive(Clone, Debug, Default)]
pub struct Tx {
    pub id: u64,
    pub gsn: u64,
    /// Key and the writer of the version read, first read of each.
    pub reads: BTreeMap<Key, u64>,
    pub writes: BTreeMap<Key, Content>,
    pub acknowledged: bool,
}

#[derive(Clone, Debug, Default)]
pub struct History {
    pub committed: Vec<Tx>,
    versions: BTreeMap<Key, Vec<Version>>,
    /// Everything up to here is marked as acknowledged.
    horizon: u64,
}

impl History {
    pub fn current(&self, key: Key) -> Version {
        let v = self.versions.get(&key).and_then(|v| v.last());
        v.copied().unwrap_or(Version { writer: 0, content: None })
    }

    pub fn commit(&mut self, tx: Tx) {
        for (key, content) in &tx.writes {
            let v = Version { writer: tx.id, content: *content };
            self.versions.entry(*key).or_default().push(v);
        }
        // A transaction that only read has the number of an earlier commit.
        self.horizon = self.horizon.min(tx.gsn.saturating_sub(1));
        self.committed.push(tx);
    }

    pub fn acknowledge(&mut self, id: u64) {
        if let Some(t) = self.committed.iter_mut().rev().find(|t| t.id == id) {
            t.acknowledged = true;
        }
    }

    pub fn acknowledge_all(&mut self) {
        self.acknowledge_up_to(u64::MAX);
    }

    /// The horizon is at `gsn`.
    pub fn acknowledge_up_to(&mut self, gsn: u64) {
        if gsn != self.horizon {
            self.committed.iter_mut().filter(|t| t.gsn <= gsn).for_each(|t| t.acknowledged = true);
            self.horizon = gsn;
        }
    }

    /// Numbers of the commits that were acknowledged, rising.
    pub fn acknowledged(&self) -> Vec<u64> {
        let mut all: Vec<u64> = self.committed.iter().filter(|t| t.acknowledged).map(|t| t.gsn).collect();
        all.sort_unstable();
        all
    }

    /// The number of the last commit.
    pub fn last(&self) -> u64 {
        self.committed.iter().map(|t| t.gsn).max().unwrap_or(0)
    }

    /// After a crash: what is behind `cut` is gone. An error if that takes back anything
    /// acknowledged.
    pub fn truncate(&mut self, cut: u64) -> Result<(), String> {
        let mut gone = Vec::new();
        for t in &self.committed {
            if t.gsn > cut {
                if t.acknowledged {
                    return Err(format!(
                        "transaction {} (commit {}) was acknowledged, the cut is {cut}",
                        t.id, t.gsn
                    ));
                }
                gone.push(t.id);
            }
        }
        self.committed.retain(|t| t.gsn <= cut);
        for v in self.versions.values_mut() {
            v.retain(|v| !gone.contains(&v.writer));
        }
        for t in &self.committed {
            if let Some((k, w)) = t.reads.iter().find(|(_, w)| gone.contains(w)) {
                return Err(format!("transaction {} survives but read {k:?} from {w}, which is gone", t.id));
            }
        }
        Ok(())
    }

    /// The rows of a table.
    pub fn rows(&self, table: usize) -> BTreeMap<u8, (u64, usize, u8)> {
        (0..MAX_KEYS).filter_map(|k| self.current((table, k)).content.map(|c| (k, c))).collect()
    }

    /// The rows of a table after commit number `gsn`.
    pub fn rows_at(&self, table: usize, gsn: u64) -> BTreeMap<u8, (u64, usize, u8)> {
        let mut rows = BTreeMap::new();
        for t in self.committed.iter().filter(|t| t.gsn <= gsn) {
            for ((_, k), content) in t.writes.iter().filter(|((number, _), _)| *number == table) {
                match content {
                    Some(c) => rows.insert(*k, *c),
                    None => rows.remove(k),
                };
            }
        }
        rows
    }

    /// Builds the dependency graph (write-write, write-read, read-write) and looks for a cycle.
    pub fn check_serializable(&self) -> Result<(), String> {
        let at: HashMap<u64, usize> = self.committed.iter().enumerate().map(|(i, t)| (t.id, i)).collect();
        let mut edges: Vec<Vec<usize>> = vec![Vec::new(); self.committed.len()];
        for versions in self.versions.values() {
            for w in versions.windows(2) {
                edges[at[&w[0].writer]].push(at[&w[1].writer]);
            }
        }
        for (i, t) in self.committed.iter().enumerate() {
            for (key, &read) in &t.reads {
                let versions = self.versions.get(key).map_or(&[][..], |v| v);
                let next = if read == 0 {
                    versions.first()
                } else {
                    edges[at[&read]].push(i);
                    let p = versions.iter().position(|v| v.writer == read);
                    let p = p.ok_or_else(|| format!("{} read a version of {key:?} that never was", t.id))?;
                    versions.get(p + 1)
                };
                if let Some(n) = next {
                    edges[i].push(at[&n.writer]);
                }
            }
        }
        // Depth-first search: 1 is on the path, 2 is done.
        let mut state = vec![0u8; edges.len()];
        for root in 0..edges.len() {
            let mut stack = vec![(root, 0)];
            while let Some((n, e)) = stack.pop() {
                if e == 0 {
                    if state[n] == 2 {
                        continue;
                    }
                    state[n] = 1;
                }
                match edges[n].get(e) {
                    Some(&m) => {
                        stack.push((n, e + 1));
                        if m != n && state[m] == 1 {
                            return Err(format!("a cycle through transaction {}", self.committed[m].id));
                        }
                        if state[m] == 0 {
                            stack.push((m, 0));
                        }
                    }
                    None => state[n] = 2,
                }
            }
        }
        Ok(())
    }
}

#[test]
fn the_checker_finds_write_skew_and_passes_a_serial_history() {
    let tx = |id, reads: &[(u8, u64)], writes: &[u8]| Tx {
        id,
        gsn: id,
        reads: reads.iter().map(|(k, w)| ((0, *k), *w)).collect(),
        writes: writes.iter().map(|k| ((0, *k), Some((id, 0, 0)))).collect(),
        acknowledged: true,
    };
    let mut h = History::default();
    h.commit(tx(1, &[], &[1, 2]));
    h.commit(tx(2, &[(1, 1), (2, 1)], &[1]));
    let mut skew = h.clone();
    h.commit(tx(3, &[(1, 2), (2, 1)], &[2]));
    h.check_serializable().unwrap();
    skew.commit(tx(3, &[(1, 1), (2, 1)], &[2]));
    assert!(skew.check_serializable().is_err());
}
