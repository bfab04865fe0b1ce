//! A transaction and the cursor that is open in it.

use crate::failure::{Failure, Result, misuse};
use crate::handle::enter;
use mmdb::{Cursor, Database, Transaction};
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// A transaction, shared by its handle and its cursors' handles: whichever is freed first, the
/// others find that it has ended.
pub(crate) struct Cell {
    pub(crate) state: Mutex<State>,
    /// The number of a cursor whose handle was freed while another call used the transaction: that
    /// call does not wait for whoever frees, nor he for it.
    freed: AtomicU64,
}

pub(crate) struct State {
    /// The cursor that is open, and its number. While it is, nothing else uses the transaction.
    cursor: Option<(u64, Cursor<'static, 'static>)>,
    /// None once it has ended.
    pub(crate) transaction: Option<Pointer>,
    /// Cursors are numbered, so that the handle of one is not taken for the next one's.
    cursors: u64,
}

/// Where a transaction is. The database is behind it, so that it goes last.
pub(crate) struct Pointer {
    pub(crate) at: NonNull<Transaction<'static>>,
    /// The database that it belongs to, or None if `mmdb_run` owns it.
    pub(crate) owned: Option<Database>,
}

// SAFETY: a transaction may go from thread to thread: that is checked here. `run` waits for the
// callback, whose thread is its own.
unsafe impl Send for Pointer {}

const _: () = {
    const fn may_be_sent<T: Send>() {}
    may_be_sent::<Transaction<'static>>();
    may_be_sent::<Cursor<'static, 'static>>();
};

impl Drop for Pointer {
    fn drop(&mut self) {
        if self.owned.is_some() {
            // SAFETY: `begin` made it of a box, and nobody else frees it.
            drop(unsafe { Box::from_raw(self.at.as_ptr()) });
        }
    }
}

pub(crate) fn ended() -> Failure {
    misuse("the transaction has ended")
}

impl State {
    pub(crate) fn of(pointer: Pointer) -> State {
        State { cursor: None, transaction: Some(pointer), cursors: 0 }
    }

    /// Ends the cursor, then gives the transaction away.
    pub(crate) fn end(&mut self) -> Option<Pointer> {
        self.cursor = None;
        self.transaction.take()
    }

    /// The transaction, for an operation.
    pub(crate) fn transaction(&mut self) -> Result<&mut Transaction<'static>> {
        if self.cursor.is_some() {
            return Err(misuse(
                "a cursor of the transaction is open: read it to its end or free it first; \
                 mmdb_cursor_update and mmdb_cursor_delete change the row that it stands on",
            ));
        }
        let pointer = self.transaction.as_mut().ok_or_else(ended)?;
        // SAFETY: it is there until the pointer goes, and nothing else uses it: no cursor is open,
        // and the state is locked.
        Ok(unsafe { pointer.at.as_mut() })
    }

    pub(crate) fn open(
        &mut self,
        make: impl FnOnce(&'static mut Transaction<'static>) -> mmdb::Result<Cursor<'static, 'static>>,
    ) -> Result<u64> {
        let transaction: *mut Transaction<'static> = self.transaction()?;
        // SAFETY: the cursor goes before the transaction does (`end`, and the order of the fields),
        // and until then nothing else uses it (`transaction`).
        let cursor = make(unsafe { &mut *transaction })?;
        self.cursors += 1;
        self.cursor = Some((self.cursors, cursor));
        Ok(self.cursors)
    }

    /// The cursor with this number.
    pub(crate) fn cursor(&mut self, number: u64) -> Result<&mut Cursor<'static, 'static>> {
        match &mut self.cursor {
            Some((n, cursor)) if *n == number => Ok(cursor),
            _ => Err(misuse("the cursor is at its end, or its transaction has ended")),
        }
    }

    /// Ends the cursor with this number, if it is open.
    pub(crate) fn close(&mut self, number: u64) {
        if self.cursor.as_ref().is_some_and(|(n, _)| *n == number) {
            self.cursor = None;
        }
    }
}

impl Cell {
    pub(crate) fn of(pointer: Pointer) -> Cell {
        Cell { state: Mutex::new(State::of(pointer)), freed: AtomicU64::new(0) }
    }

    pub(crate) fn enter(&self) -> Result<std::sync::MutexGuard<'_, State>> {
        let mut state = enter(&self.state, "mmdb_transaction")?;
        state.close(self.freed.load(Ordering::SeqCst));
        Ok(state)
    }

    /// Ends the cursor with this number, whose handle is freed: at once, or before the next call
    /// does anything.
    pub(crate) fn free(&self, number: u64) {
        // Of two the later one is open, if any is.
        self.freed.fetch_max(number, Ordering::SeqCst);
        // What this finds it closes.
        drop(self.enter());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The handle of a cursor was freed by another thread, as a collector of garbage does it, while
    /// a call used the transaction: the cursor stayed open, and with its handle gone nobody could
    /// close it, so that every later call was refused.
    #[test]
    fn a_cursor_that_is_freed_while_a_call_uses_the_transaction_does_not_stay_open() {
        let db = Database::in_memory().unwrap();
        let schema = mmdb::Schema::new("t").column("id", mmdb::ColumnType::Int64).primary_key(&["id"]);
        let t = db.create_table(schema).unwrap();
        let begun = Box::new(db.begin().unwrap());
        let at = NonNull::from(Box::leak(begun)).cast::<Transaction<'static>>();
        let cell = Cell::of(Pointer { at, owned: Some(db.clone()) });
        let first = cell.enter().unwrap().open(|tx| tx.scan(&t)).unwrap();
        assert!(cell.enter().unwrap().transaction().is_err(), "a cursor is open");
        let in_use = cell.enter().unwrap();
        cell.free(first);
        drop(in_use);
        assert!(cell.enter().unwrap().transaction().is_ok());
        // One that is opened later is another one.
        let second = cell.enter().unwrap().open(|tx| tx.scan(&t)).unwrap();
        cell.free(first);
        assert!(cell.enter().unwrap().cursor(second).is_ok());
        cell.free(second);
        assert!(cell.enter().unwrap().cursor(second).is_err());
    }
}
