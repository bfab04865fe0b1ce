//! The tables of an open database, as commits find them.
//!
//! A transaction remembers tables by their numbers. Its operations have the caller's handle, which
//! keeps the table; its commit, and what undoes it, look the number up in the gate that they pass
//! anyway: each gate has the list, so that processors do not meet there, and whoever changes the
//! list closes one gate after the other. So a table that is dropped is freed as soon as its last
//! handle is.

use crate::table::TableInner;
use std::sync::Arc;

/// All tables that exist, by their numbers.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    /// Rising; beside the tables, so that looking for one reads no other.
    numbers: Vec<u32>,
    tables: Vec<Arc<TableInner>>,
}

impl Tables {
    /// The table with this number; `None` if it was dropped.
    #[inline]
    pub(crate) fn get(&self, id: u32) -> Option<&TableInner> {
        // Mostly no table was ever dropped, and each stands where its number says.
        let first = self.numbers.first().map_or(0, |&first| first);
        let at = id.wrapping_sub(first) as usize;
        if self.numbers.get(at) == Some(&id)
            && let Some(table) = self.tables.get(at)
        {
            return Some(table);
        }
        self.search(id)
    }

    fn search(&self, id: u32) -> Option<&TableInner> {
        let found = self.numbers.binary_search(&id).ok().and_then(|at| self.tables.get(at));
        found.map(|t| &**t)
    }

    /// Numbers rise, but tables may be entered in any order.
    pub(crate) fn put(&mut self, table: &Arc<TableInner>) {
        if let Err(at) = self.numbers.binary_search(&table.id) {
            self.numbers.insert(at, table.id);
            self.tables.insert(at, table.clone());
        }
        assert_eq!(self.numbers.len(), self.tables.len(), "each table has its number beside it");
    }

    /// Puts a table in the place of the one with its number.
    pub(crate) fn replace(&mut self, table: &Arc<TableInner>) {
        let at = self.numbers.binary_search(&table.id);
        if let Some(place) = at.ok().and_then(|at| self.tables.get_mut(at)) {
            *place = table.clone();
        }
    }

    pub(crate) fn remove(&mut self, id: u32) {
        if let Ok(at) = self.numbers.binary_search(&id) {
            self.numbers.remove(at);
            let gone = self.tables.remove(at);
            assert_eq!(gone.id, id, "each table has its number beside it");
        }
    }
}
