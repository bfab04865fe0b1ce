//! The files that the host's kernel knows of, each held by a descriptor: it stays the same file
//! whatever its name becomes.
//!
//! A file's number on the host is its number on the file system, so `ls -i` tells the same in and
//! outside. Number 1 is the root on the host; a file that has that number here, or lies on another
//! volume of the same file system, gets one from the upper half.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The root's number on the host.
pub(super) const ROOT: u64 = 1;
/// Where numbers begin that are not the file system's own.
const OWN: u64 = 1 << 63;

/// What makes a file the same file: its volume, and its number there.
pub(super) type Key = (u64, u64);

#[derive(Debug)]
struct Node {
    file: Arc<OwnedFd>,
    key: Key,
    /// How often the host's kernel was told of it, less how often it forgot.
    known: u64,
}

#[derive(Debug)]
struct Table {
    by_number: HashMap<u64, Node>,
    numbers: HashMap<Key, u64>,
    next_own: u64,
}

/// All of them.
#[derive(Debug)]
pub(super) struct Nodes {
    volume: u64,
    table: Mutex<Table>,
}

impl Nodes {
    /// Only the root is known.
    pub fn new(root: OwnedFd, key: Key) -> Nodes {
        let node = Node { file: Arc::new(root), key, known: 1 };
        let table = Table {
            by_number: HashMap::from([(ROOT, node)]),
            numbers: HashMap::from([(key, ROOT)]),
            next_own: OWN,
        };
        Nodes { volume: key.0, table: Mutex::new(table) }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The descriptor of a number, if the host's kernel may know it.
    pub fn get(&self, number: u64) -> Option<Arc<OwnedFd>> {
        self.table().by_number.get(&number).map(|node| node.file.clone())
    }

    /// The host's kernel is being told of a file: its number.
    pub fn number_of(&self, file: OwnedFd, key: Key) -> u64 {
        let mut table = self.table();
        let table = &mut *table;
        if let Some(number) = table.numbers.get(&key) {
            if let Some(node) = table.by_number.get_mut(number) {
                node.known += 1;
            }
            return *number;
        }
        let mut number = key.1;
        if key.0 != self.volume || number <= ROOT || number >= OWN {
            number = table.next_own;
            table.next_own += 1;
        }
        table.numbers.insert(key, number);
        table.by_number.insert(number, Node { file: Arc::new(file), key, known: 1 });
        number
    }

    /// The host's kernel forgets a file as often as it was told of it.
    pub fn forget(&self, number: u64, times: u64) {
        let mut table = self.table();
        let Some(node) = table.by_number.get_mut(&number).filter(|_| number != ROOT) else { return };
        node.known = node.known.saturating_sub(times);
        if node.known == 0 {
            let key = node.key;
            table.numbers.remove(&key);
            table.by_number.remove(&number);
        }
    }

    /// The number that a directory's entry shows.
    pub fn shown(&self, inode: u64) -> u64 {
        self.table().numbers.get(&(self.volume, inode)).copied().unwrap_or(inode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> OwnedFd {
        tempfile::tempfile().unwrap().into()
    }

    #[test]
    fn a_file_is_known_until_it_is_forgotten_as_often_as_it_was_told() {
        let nodes = Nodes::new(file(), (7, 2));
        assert_eq!(nodes.number_of(file(), (7, 12)), 12);
        assert_eq!(nodes.number_of(file(), (7, 12)), 12);
        nodes.forget(12, 1);
        assert!(nodes.get(12).is_some());
        nodes.forget(12, 1);
        assert!(nodes.get(12).is_none());
        nodes.forget(ROOT, 100);
        assert!(nodes.get(ROOT).is_some(), "the root is never forgotten");
        assert_eq!(nodes.number_of(file(), (7, 2)), ROOT, "nor is it any other file");
    }

    #[test]
    fn no_two_files_have_one_number() {
        let nodes = Nodes::new(file(), (7, 2));
        let all = [(7, 1), (7, 12), (8, 12), (8, 13), (7, OWN), (7, 0)];
        let mut numbers: Vec<u64> = all.into_iter().map(|key| nodes.number_of(file(), key)).collect();
        numbers.push(ROOT);
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 7, "{numbers:?}");
        assert_eq!(nodes.shown(2), ROOT);
        assert_eq!(nodes.shown(12), 12);
    }
}
