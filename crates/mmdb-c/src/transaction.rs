//! Transactions.

use crate::argument::{place, put, text};
use crate::cursor::{CursorContent, Source, give_cursor, mmdb_cursor};
use crate::database::{database, mmdb_database};
use crate::failure::{Failure, Result, guard, misuse};
use crate::handle::{content, give, take};
use crate::range::{RangeBits, bounds, mmdb_bound, range_bits};
use crate::row::{give_found, mmdb_row};
use crate::status::mmdb_status;
use crate::table::{mmdb_table, table};
use crate::ticket::{give_ticket, mmdb_ticket};
use crate::transaction_state::{Cell, Pointer, State, ended};
use crate::value::{assignments, mmdb_assignment, mmdb_value, values};
use mmdb::{Cursor, Durability, Transaction};
use std::ffi::{c_char, c_int, c_void};
use std::ptr::NonNull;
use std::sync::Arc;

/// A transaction. One thread at a time may use it.
pub struct mmdb_transaction {
    _private: [u8; 0],
}

crate::handle::kind!(mmdb_transaction, Arc<Cell>, b"mmdbTX \x01");

/// Does something in the transaction that a caller holds.
///
/// # Safety
/// `p` is NULL or a handle, which nobody frees meanwhile.
pub(crate) unsafe fn within<T>(
    p: *const mmdb_transaction,
    f: impl FnOnce(&mut Transaction<'static>) -> Result<T>,
) -> Result<T> {
    // SAFETY: says the caller.
    let cell = unsafe { content(p)? };
    f(cell.enter()?.transaction()?)
}

/// How long a commit is waited for.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum mmdb_durability {
    /// Until it is durable.
    Durable = 0,
    /// Not at all: it becomes durable within `lazy_interval_ms`.
    Lazy = 1,
}

fn durability(number: u32) -> Result<Durability> {
    match number {
        n if n == mmdb_durability::Durable as u32 => Ok(Durability::Durable),
        n if n == mmdb_durability::Lazy as u32 => Ok(Durability::Lazy),
        other => Err(misuse(format!("{other} is no mmdb_durability"))),
    }
}

/// Begins a serializable transaction. It ends with mmdb_commit or mmdb_abort, which free it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_begin(db: *const mmdb_database, tx: *mut *mut mmdb_transaction) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        let place = place(tx, "tx")?;
        let db = database(db)?.clone();
        let begun = Box::new(db.begin()?);
        // The transaction refers to what is behind the database, which stays where it is as long
        // as there is a clone of it: the pointer has one, and drops it last.
        let at = NonNull::from(Box::leak(begun)).cast::<Transaction<'static>>();
        put(place, give(Arc::new(Cell::of(Pointer { at, owned: Some(db) }))));
        Ok(())
    })
}

/// Commits and frees the transaction, whatever this returns but MMDB_STATUS_MISUSE; after any other
/// error nothing of it was done, but after MMDB_STATUS_INDETERMINATE. Its cursors end. With
/// `ticket` NULL this waits until the commit is durable (a lazy one it does not wait for), and
/// where mmdb_set_wait_check ends that it is MMDB_STATUS_INDETERMINATE, too, for the commit is
/// done; otherwise it does not wait, and `ticket` becomes one, to be freed with mmdb_ticket_free.
/// `mode` is an mmdb_durability.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_commit(
    tx: *mut mmdb_transaction,
    mode: u32,
    ticket: *mut *mut mmdb_ticket,
) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        let mode = durability(mode)?;
        let pointer = {
            let mut state = content(tx)?.enter()?;
            require_owned(&state)?;
            state.end().ok_or_else(ended)?
        };
        take(tx)?;
        let mut pointer = std::mem::ManuallyDrop::new(pointer);
        // SAFETY: it was made of a box, and is not freed by the pointer any more.
        let transaction = *Box::from_raw(pointer.at.as_ptr());
        // Until the ticket is there: who waits for it needs no database.
        let _db = pointer.owned.take();
        let made = transaction.commit_with(mode)?;
        if ticket.is_null() {
            made.settle()?;
        } else {
            put(ticket, give_ticket(made));
        }
        Ok(())
    })
}

fn require_owned(state: &State) -> Result<()> {
    match &state.transaction {
        None => Err(ended()),
        Some(Pointer { owned: None, .. }) => {
            Err(misuse("the transaction belongs to mmdb_run, which ends it when the callback returns"))
        }
        Some(_) => Ok(()),
    }
}

/// Undoes and frees the transaction. Its cursors end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_abort(tx: *mut mmdb_transaction) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        if tx.is_null() {
            return Ok(());
        }
        let pointer = match content(tx)?.state.try_lock() {
            Ok(mut state) => {
                require_owned(&state)?;
                state.end()
            }
            // A call broke off in it; it can be undone all the same.
            Err(std::sync::TryLockError::Poisoned(state)) => state.into_inner().end(),
            Err(std::sync::TryLockError::WouldBlock) => {
                return Err(misuse("another call uses this mmdb_transaction now"));
            }
        };
        take(tx)?;
        drop(pointer);
        Ok(())
    })
}

/// What mmdb_run calls: returns 1 to commit, and 0 to undo. It must not end the transaction, nor
/// keep it, nor leave by longjmp or an exception.
pub type mmdb_callback =
    Option<unsafe extern "C" fn(tx: *mut mmdb_transaction, context: *mut c_void) -> c_int>;

enum Stop {
    Engine(mmdb::Error),
    Caller,
}

impl From<mmdb::Error> for Stop {
    fn from(e: mmdb::Error) -> Stop {
        Stop::Engine(e)
    }
}

/// Runs a transaction until it commits. If another one was in the way (a call returned
/// MMDB_STATUS_DEADLOCK or MMDB_STATUS_CONFLICT), the callback runs again once that has gone,
/// whatever it returned; so it may run many times. MMDB_STATUS_ABORTED: the callback did not want
/// it to commit. `mode` and `ticket` as in mmdb_commit.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_run(
    db: *const mmdb_database,
    mode: u32,
    callback: mmdb_callback,
    context: *mut c_void,
    ticket: *mut *mut mmdb_ticket,
) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        let callback = callback.ok_or_else(|| misuse("NULL is given for the callback"))?;
        run(db, mode, ticket, |handle| callback(handle, context) != 0)
    })
}

/// As mmdb_run, for languages whose callbacks may break off and leave their result undefined: what
/// `decision` holds when the callback returns is in the place of that result. It is 0 before each
/// call.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_run_decided(
    db: *const mmdb_database,
    mode: u32,
    callback: mmdb_callback,
    context: *mut c_void,
    decision: *mut c_int,
    ticket: *mut *mut mmdb_ticket,
) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        let callback = callback.ok_or_else(|| misuse("NULL is given for the callback"))?;
        if decision.is_null() {
            return Err(misuse("NULL is given for the decision"));
        }
        run(db, mode, ticket, |handle| {
            decision.write(0);
            callback(handle, context);
            decision.read() != 0
        })
    })
}

/// Runs a transaction that commits where `decide` says so.
///
/// # Safety
/// The pointers are as mmdb.h wants them.
unsafe fn run(
    db: *const mmdb_database,
    mode: u32,
    ticket: *mut *mut mmdb_ticket,
    mut decide: impl FnMut(*mut mmdb_transaction) -> bool,
) -> Result<()> {
    // SAFETY: the caller's.
    unsafe {
        let mode = durability(mode)?;
        // The callback may close the handle.
        let db = database(db)?.clone();
        let done = db.run_with(mode, |tx| {
            let at = NonNull::from(tx).cast::<Transaction<'static>>();
            let cell = Arc::new(Cell::of(Pointer { at, owned: None }));
            let handle = give::<mmdb_transaction>(cell.clone());
            let is_wanted = decide(handle);
            drop(take(handle));
            // Handles of cursors may still be there: they find that it has ended.
            match cell.state.lock() {
                Ok(mut state) => drop(state.end()),
                Err(state) => drop(state.into_inner().end()),
            }
            if is_wanted { Ok(()) } else { Err(Stop::Caller) }
        });
        match done {
            Ok(((), made)) if ticket.is_null() => Ok(made.settle().map(drop)?),
            Ok(((), made)) => {
                put(ticket, give_ticket(made));
                Ok(())
            }
            Err(Stop::Engine(e)) => Err(e.into()),
            Err(Stop::Caller) => Err(Failure {
                status: mmdb_status::Aborted,
                message: "the callback did not want the transaction to commit".into(),
            }),
        }
    }
}

/// Inserts a row: one value for each column that the table's handle knows.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_insert(
    tx: *mut mmdb_transaction,
    into: *const mmdb_table,
    row: *const mmdb_value,
    count: usize,
) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        let (table, row) = (table(into)?, values(row, count)?);
        within(tx, |tx| Ok(tx.insert(table, &row)?))
    })
}

/// Inserts a row, or puts it in the place of the one that has its primary key. `replaced`, which
/// may be NULL, becomes whether there was one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_upsert(
    tx: *mut mmdb_transaction,
    into: *const mmdb_table,
    row: *const mmdb_value,
    count: usize,
    replaced: *mut bool,
) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        let (table, row) = (table(into)?, values(row, count)?);
        put(replaced, within(tx, |tx| Ok(tx.upsert(table, &row)?))?);
        Ok(())
    })
}

/// Changes columns of the row with a primary key. `found`, which may be NULL, becomes whether there
/// is one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_update(
    tx: *mut mmdb_transaction,
    of: *const mmdb_table,
    key: *const mmdb_value,
    key_count: usize,
    set: *const mmdb_assignment,
    set_count: usize,
    found: *mut bool,
) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        let (table, key) = (table(of)?, values(key, key_count)?);
        let set = assignments(set, set_count)?;
        put(found, within(tx, |tx| Ok(tx.update(table, &key, &set)?))?);
        Ok(())
    })
}

/// Deletes the row with a primary key. `found`, which may be NULL, becomes whether there was one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_delete(
    tx: *mut mmdb_transaction,
    of: *const mmdb_table,
    key: *const mmdb_value,
    count: usize,
    found: *mut bool,
) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        let (table, key) = (table(of)?, values(key, count)?);
        put(found, within(tx, |tx| Ok(tx.delete(table, &key)?))?);
        Ok(())
    })
}

/// Reads the row with a primary key. `row` becomes NULL if there is none; free it with
/// mmdb_row_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_get(
    tx: *mut mmdb_transaction,
    of: *const mmdb_table,
    key: *const mmdb_value,
    count: usize,
    row: *mut *mut mmdb_row,
) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        let place = place(row, "row")?;
        let (table, key) = (table(of)?, values(key, count)?);
        put(place, give_found(within(tx, |tx| Ok(tx.get(table, &key)?))?));
        Ok(())
    })
}

/// Locks a primary key for a change, whether there is a row or not.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_lock_key(
    tx: *mut mmdb_transaction,
    of: *const mmdb_table,
    key: *const mmdb_value,
    count: usize,
) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        let (table, key) = (table(of)?, values(key, count)?);
        within(tx, |tx| Ok(tx.lock_key(table, &key)?))
    })
}

/// Reads the rows that have a key in an index. They are read at once: the cursor leaves the
/// transaction free, and cannot change them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_get_by(
    tx: *mut mmdb_transaction,
    of: *const mmdb_table,
    index: *const c_char,
    key: *const mmdb_value,
    count: usize,
    cursor: *mut *mut mmdb_cursor,
) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        let place = place(cursor, "cursor")?;
        let (table, key, index) = (table(of)?, values(key, count)?, text(index, "the name of an index")?);
        let rows = within(tx, |tx| Ok(tx.get_by(table, index, &key)?))?;
        put(place, give_cursor(CursorContent::new(Source::Rows(rows.into_iter()))));
        Ok(())
    })
}

/// Opens a cursor over a range of an ordered index. NULL is no bound. `flags`: MMDB_RANGE_REVERSE,
/// MMDB_RANGE_FOR_UPDATE, MMDB_RANGE_SKIP_LOCKED. Until the cursor is at its end or freed, the
/// transaction can only be ended. Free it with mmdb_cursor_free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_range(
    tx: *mut mmdb_transaction,
    of: *const mmdb_table,
    index: *const c_char,
    lower: *const mmdb_bound,
    upper: *const mmdb_bound,
    flags: u32,
    cursor: *mut *mut mmdb_cursor,
) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        let place = place(cursor, "cursor")?;
        let (table, index) = (table(of)?, text(index, "the name of an index")?);
        let (bounds, bits) = (bounds(lower, upper)?, range_bits(flags)?);
        let cell = content(tx)?;
        let number = cell.enter()?.open(|tx| Ok(directed(tx.range(table, index, bounds)?, bits)))?;
        put(place, give_cursor(CursorContent::new(Source::Transaction(cell.clone(), number))));
        Ok(())
    })
}

/// Opens a cursor over all rows, in the order of the primary key if that is ordered. As mmdb_range.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_scan(
    tx: *mut mmdb_transaction,
    of: *const mmdb_table,
    flags: u32,
    cursor: *mut *mut mmdb_cursor,
) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        let place = place(cursor, "cursor")?;
        let (table, bits) = (table(of)?, range_bits(flags)?);
        let cell = content(tx)?;
        let number = cell.enter()?.open(|tx| Ok(directed(tx.scan(table)?, bits)))?;
        put(place, give_cursor(CursorContent::new(Source::Transaction(cell.clone(), number))));
        Ok(())
    })
}

fn directed<'a, 'db>(cursor: Cursor<'a, 'db>, bits: RangeBits) -> Cursor<'a, 'db> {
    let cursor = if bits.reverse { cursor.rev() } else { cursor };
    let cursor = if bits.for_update { cursor.for_update() } else { cursor };
    if bits.skip_locked { cursor.skip_locked() } else { cursor }
}

/// Deletes the rows of a range of an ordered index. `deleted`, which may be NULL, becomes their
/// number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_delete_range(
    tx: *mut mmdb_transaction,
    of: *const mmdb_table,
    index: *const c_char,
    lower: *const mmdb_bound,
    upper: *const mmdb_bound,
    deleted: *mut u64,
) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        let (table, index) = (table(of)?, text(index, "the name of an index")?);
        let bounds = bounds(lower, upper)?;
        put(deleted, within(tx, |tx| Ok(tx.delete_range(table, index, bounds)?))?);
        Ok(())
    })
}
