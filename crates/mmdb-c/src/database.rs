//! The handle on an open database.

use crate::argument::{place, put, text};
use crate::failure::{Result, guard, misuse};
use crate::handle::{content, give, take};
use crate::options::{given, mmdb_options};
use crate::status::mmdb_status;
use mmdb::Database;
use std::ffi::c_char;
use std::time::{Duration, SystemTime};

/// An open database. Any number of threads may use it at once.
pub struct mmdb_database {
    _private: [u8; 0],
}

crate::handle::kind!(mmdb_database, Database, b"mmdbDB \x01");

/// The database that a caller holds.
///
/// # Safety
/// `p` is NULL or a handle, which nobody closes meanwhile.
pub(crate) unsafe fn database<'a>(p: *const mmdb_database) -> Result<&'a Database> {
    // SAFETY: says the caller.
    unsafe { content(p) }
}

/// Opens the database in the directory `path`, creating it if there is none, and recovers what was
/// acknowledged. `options` may be NULL. Close it with mmdb_close.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_open(
    path: *const c_char,
    options: *const mmdb_options,
    db: *mut *mut mmdb_database,
) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        let place = place(db, "db")?;
        put(place, give(Database::open(text(path, "the path of a database")?, given(options)?)?));
        Ok(())
    })
}

/// Flushes, closes, and frees the handle, whatever it returns but MMDB_STATUS_MISUSE. Transactions
/// and snapshots that are still there keep the database open until they are freed; then this
/// only flushes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_close(db: *mut mmdb_database) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe { if db.is_null() { Ok(()) } else { Ok(take(db)?.close()?) } })
}

/// Makes all commits so far durable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_flush(db: *const mmdb_database) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe { Ok(database(db)?.flush()?) })
}

/// Number of the last commit such that it and all before it are durable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_horizon(db: *const mmdb_database, gsn: *mut u64) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        put(place(gsn, "gsn")?, database(db)?.horizon());
        Ok(())
    })
}

/// What a checkpoint did.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mmdb_checkpoint_stats {
    /// The last commit when it began.
    pub first_gsn: u64,
    /// The last commit when all was copied.
    pub last_gsn: u64,
    /// Containers that were copied.
    pub containers: u64,
    /// Segments of the log that it made superfluous.
    pub segments: u64,
}

/// Takes a checkpoint while transactions go on. `stats` may be NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_checkpoint(
    db: *const mmdb_database,
    stats: *mut mmdb_checkpoint_stats,
) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        let done = database(db)?.checkpoint()?;
        put(
            stats,
            mmdb_checkpoint_stats {
                first_gsn: done.g0,
                last_gsn: done.g1,
                containers: done.containers,
                segments: done.segments,
            },
        );
        Ok(())
    })
}

/// Copies the database into the empty directory `to` while transactions go on. `gsn`, which may be
/// NULL, becomes the number of the last commit in the copy. The copy can be opened as it is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_backup(
    db: *const mmdb_database,
    to: *const c_char,
    gsn: *mut u64,
) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        let done = database(db)?.backup(text(to, "the path of a backup")?)?;
        put(gsn, done.gsn);
        Ok(())
    })
}

/// Makes another database of a backup, in the directory `to`, with an identity of its own.
/// `options`, which may be NULL, says where its streams live.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_restore(
    from: *const c_char,
    to: *const c_char,
    options: *const mmdb_options,
) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        let (from, to) = (text(from, "the path of a backup")?, text(to, "the path of a database")?);
        Ok(mmdb::restore(from, to, &given(options)?)?)
    })
}

/// Deletes the rows that expire up to `now`, microseconds since 1970-01-01 UTC. `rows`, which may
/// be NULL, becomes their number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_expire(db: *const mmdb_database, now: i64, rows: *mut u64) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        let distance = Duration::from_micros(now.unsigned_abs());
        let begin = SystemTime::UNIX_EPOCH;
        let time = if now < 0 { begin.checked_sub(distance) } else { begin.checked_add(distance) };
        let time = time.ok_or_else(|| misuse(format!("{now} is no time of this system")))?;
        put(rows, database(db)?.expire(time)?);
        Ok(())
    })
}
