//! Which descriptors each process of a recording has.

use std::cell::Cell;
use std::collections::HashMap;
use std::rc::Rc;

/// A descriptor of a file.
#[derive(Clone, Debug)]
pub struct Descriptor {
    pub file: u32,
    /// Where it stands; its copies stand there, too, also those of other processes.
    pub offset: Rc<Cell<u64>>,
    pub appends: bool,
    /// Whether it is closed where its process begins another program.
    pub closes_at_exec: bool,
}

impl Descriptor {
    /// One at the start of a file.
    pub fn new(file: u32) -> Descriptor {
        Descriptor { file, offset: Rc::default(), appends: false, closes_at_exec: false }
    }
}

/// Descriptors by process. The threads of which no line says who began them are taken for one
/// process: all that `mobigen` recorded, for one.
pub struct Descriptors {
    /// None of a descriptor that is no file's.
    tables: Vec<HashMap<i64, Option<Descriptor>>>,
    table_of: HashMap<u32, usize>,
    /// Who began a thread, and whether it has the same descriptors or a copy of them.
    begun: HashMap<u32, (u32, bool)>,
    /// Of the thread whose call it is. It is never beyond the tables, of which none is removed.
    current: usize,
}

impl Descriptors {
    /// Before the first call, with what the recording says of threads.
    pub fn new(begun: HashMap<u32, (u32, bool)>) -> Descriptors {
        Descriptors { tables: vec![HashMap::new()], table_of: HashMap::new(), begun, current: 0 }
    }

    /// From now on the calls are this thread's.
    pub fn enter(&mut self, thread: u32) {
        self.current = match self.table_of.get(&thread) {
            Some(table) => *table,
            None => {
                let table = self.begin_with(thread);
                self.table_of.insert(thread, table);
                table
            }
        };
    }

    /// The present thread begins another one, which may have made calls before that was logged.
    pub fn begin(&mut self, child: u32) {
        let current = self.current;
        self.enter(child);
        self.current = current;
    }

    fn begin_with(&mut self, thread: u32) -> usize {
        let Some((parent, shares)) = self.begun.get(&thread).copied() else { return 0 };
        let of_parent = self.table_of.get(&parent).copied().unwrap_or(0);
        if shares {
            return of_parent;
        }
        let copy = self.tables[of_parent].clone();
        self.tables.push(copy);
        self.tables.len() - 1
    }

    /// This thread, whose call it is, begins another program, which has what stays open. Of which
    /// no line says who began it, that may have the descriptors of others, who keep them.
    pub fn exec(&mut self, thread: u32) {
        let Some((_, shares)) = self.begun.get_mut(&thread) else { return };
        // The others of its process end.
        if std::mem::take(shares) {
            self.tables.push(self.tables[self.current].clone());
            self.current = self.tables.len() - 1;
            self.table_of.insert(thread, self.current);
        }
        let stays = |known: &Descriptor| !known.closes_at_exec;
        self.tables[self.current].retain(|_, known| known.as_ref().is_none_or(stays));
    }

    /// Number of the table that the present thread's calls are on.
    pub fn table(&self) -> usize {
        self.current
    }

    /// A descriptor of a file.
    pub fn file(&mut self, descriptor: i64) -> Option<&mut Descriptor> {
        self.tables[self.current].get_mut(&descriptor)?.as_mut()
    }

    /// Whether it is open, as a file or not.
    pub fn is_open(&self, descriptor: i64) -> bool {
        self.tables[self.current].contains_key(&descriptor)
    }

    /// What it is from now on; none: no file.
    pub fn set(&mut self, descriptor: i64, known: Option<Descriptor>) {
        self.tables[self.current].insert(descriptor, known);
    }

    /// Closes all from one number up to another one.
    pub fn remove_range(&mut self, from: i64, to: i64) {
        self.tables[self.current].retain(|descriptor, _| !(from..=to).contains(descriptor));
    }

    /// Closes it.
    pub fn remove(&mut self, descriptor: i64) -> Option<Descriptor> {
        self.tables[self.current].remove(&descriptor).flatten()
    }
}
