//! A transaction and the cursor that is open in it.

use crate::failure::{Failure, Result, misuse};
use crate::handle::enter;
use mmdb::{Cursor, Database, Transaction};
use std::ptr::NonNull;
use std::sync::Mutex;

/// A transaction, shared by its handle and its cursors' handles: whichever is freed first, the
/// others find that it has ended.
pub(crate) struct Cell(pub(crate) Mutex<State>);

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
    pub(crate) fn enter(&self) -> Result<std::sync::MutexGuard<'_, State>> {
        enter(&self.0, "mmdb_transaction")
    }
}
