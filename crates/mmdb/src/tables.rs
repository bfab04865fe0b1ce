//! The tables of an open database, as commits find them.
//!
//! A transaction remembers tables by their numbers. Its operations have the caller's handle, which
//! keeps the table; its commit, and what undoes it, look the number up in the gate that they pass
//! anyway: each gate has the list, so that processors do not meet there, and whoever changes the
//! list closes one gate after the other. So a table that is dropped is freed as soon as its last
//! handle is.

use crate::error::{Error, Result};
use crate::table::TableInner;
use std::sync::Arc;

/// All tables that exist, by their numbers.
#[derive(Debug, Default)]
pub(crate) struct Tables(Vec<Arc<TableInner>>);

impl Tables {
    /// The table with this number.
    ///
    /// # Errors
    /// [`Error::NoSuchTable`] if it was dropped.
    #[inline]
    pub(crate) fn get(&self, id: u32) -> Result<&TableInner> {
        let at = self.0.binary_search_by_key(&id, |t| t.id);
        at.map(|at| &*self.0[at]).map_err(|_| Error::NoSuchTable { table: format!("number {id}, dropped") })
    }

    /// Numbers rise, but tables may be entered in any order.
    pub(crate) fn put(&mut self, table: &Arc<TableInner>) {
        if let Err(at) = self.0.binary_search_by_key(&table.id, |t| t.id) {
            self.0.insert(at, table.clone());
        }
    }

    pub(crate) fn remove(&mut self, id: u32) {
        self.0.retain(|t| t.id != id);
    }
}
