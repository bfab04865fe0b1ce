//! What a forked child does on its parent's connections.
//!
//! SQLite allows nothing of it, and yet it happens whenever a child ends in order: it finalizes
//! statements and closes connections that lie in its memory as well. The parent's are open all the
//! same, and so are their locks. Of what a child ends there counts what it has begun itself.

use std::collections::HashSet;

use super::record::{Raw, tag};

/// What a child has begun on connections that it has inherited.
#[derive(Debug, Default)]
pub(super) struct Inherited {
    /// Statements that it has prepared, and those that it executes: connection and handle.
    prepared: HashSet<(u32, u32)>,
    executed: HashSet<(u32, u32)>,
    /// Locks that it has got, of readers and of writers: connection and database.
    reads: HashSet<(u32, u32)>,
    writes: HashSet<(u32, u32)>,
}

impl Inherited {
    /// Whether a record of such a connection counts.
    pub fn counts(&mut self, raw: &Raw) -> bool {
        // The number of a handle, or of a lock's database.
        let place = (raw.connection, raw.number(0));
        match (raw.tag, raw.word(1) & 0xff) {
            (tag::CLOSE, _) => false,
            (tag::PREPARE, _) => {
                self.prepared.insert(place);
                true
            }
            (tag::BEGIN_STEP, _) => {
                self.executed.insert(place);
                true
            }
            (tag::STEP, _) => self.executed.contains(&place),
            (tag::RESET, _) => self.executed.remove(&place) || self.prepared.contains(&place),
            (tag::FINALIZE, _) => {
                self.executed.remove(&place);
                self.prepared.remove(&place)
            }
            (tag::LOCK, 0) => {
                self.reads.insert(place);
                true
            }
            (tag::LOCK, 1 | 2) => {
                self.writes.insert(place);
                true
            }
            (tag::LOCK, 3) => self.writes.remove(&place),
            (tag::LOCK, 4) => self.reads.remove(&place),
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_ends_what_it_has_begun() {
        let mut child = Inherited::default();
        let mut counts = |tag: u8, words: &[u64]| {
            let words = words.to_vec();
            child.counts(&Raw {
                tag,
                tid: 1,
                connection: 0,
                start_ns: 0,
                end_ns: 0,
                words,
                texts: Vec::new(),
            })
        };
        // As a child ends that has done nothing: rows that its parent has read, a lock, a
        // statement.
        for (tag, words) in [(8, vec![2, 0, 5]), (17, vec![0, 4]), (9, vec![2]), (10, vec![2]), (11, vec![0])]
        {
            assert!(!counts(tag, &words), "{tag}");
        }
        // One that executes a statement of its own.
        for (tag, words) in [
            (1, vec![0]),
            (4, vec![3, 0, 0]),
            (7, vec![3]),
            (17, vec![0, 0]),
            (17, vec![0, 1]),
            (17, vec![0, 3 | 1 << 8]),
            (17, vec![0, 4]),
            (8, vec![3, 1, 0]),
            (9, vec![3]),
            (10, vec![3]),
        ] {
            assert!(counts(tag, &words), "{tag} {words:?}");
        }
        assert!(!counts(10, &[3]) && !counts(17, &[0, 4]), "once");
    }
}
