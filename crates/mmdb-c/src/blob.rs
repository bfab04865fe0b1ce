//! Blobs: binary values of up to 16 MiB.

use crate::argument::{array, place, put, text};
use crate::database::{database, mmdb_database};
use crate::failure::{Result, guard, misuse};
use crate::handle::{content, give, take};
use crate::snapshot::{mmdb_snapshot, snapshot};
use crate::status::mmdb_status;
use crate::table::{mmdb_table, table};
use crate::transaction::{mmdb_transaction, within};
use mmdb::{Blobs, Value};
use std::ffi::{c_char, c_void};

/// A table of blobs: binary values of up to 16 MiB, each with a number that the caller chooses,
/// such as the primary key of the row that it belongs to. Any number of threads may use it at once.
pub struct mmdb_blobs {
    _private: [u8; 0],
}

crate::handle::kind!(mmdb_blobs, Blobs, b"mmdbBLO\x01");

/// The bytes that a caller gives, or the place for them.
///
/// # Safety
/// `p` is NULL or has as many bytes, which stay for `'a`.
unsafe fn room<'a>(p: *mut c_void, size: usize) -> Result<&'a mut [u8]> {
    if size == 0 {
        return Ok(&mut []);
    }
    if p.is_null() || size > isize::MAX as usize {
        return Err(misuse(format!("there is no place for {size} bytes")));
    }
    // SAFETY: says the caller, whose memory is bytes to us, whatever is in them.
    Ok(unsafe { std::slice::from_raw_parts_mut(p.cast(), size) })
}

/// Finds the table of blobs with a name, or creates it. Free the handle with mmdb_blobs_free; the
/// blobs stay. As a table (mmdb_table_open) it can be renamed and dropped, and has statistics.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_blobs_open(
    db: *const mmdb_database,
    name: *const c_char,
    blobs: *mut *mut mmdb_blobs,
) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        let place = place(blobs, "blobs")?;
        put(place, give(database(db)?.blobs(text(name, "the name of a table")?)?));
        Ok(())
    })
}

/// From now on, until the database is closed, whoever deletes a row of `owner` deletes the blob
/// with its primary key, which is one column of MMDB_TYPE_UINT64 or MMDB_TYPE_INT64.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_blobs_belong_to(
    blobs: *const mmdb_blobs,
    owner: *const mmdb_table,
) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe { Ok(content(blobs)?.belong_to(table(owner)?)?) })
}

/// Makes `size` bytes the whole of a blob, whether it is there or not. Is it refused half way, the
/// transaction can only end.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_blob_put(
    tx: *mut mmdb_transaction,
    blobs: *const mmdb_blobs,
    id: u64,
    data: *const c_void,
    size: usize,
) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        let (blobs, data) = (content(blobs)?, array(data.cast::<u8>(), size, "data")?);
        within(tx, |tx| Ok(blobs.put(tx, id, data)?))
    })
}

/// Puts bytes over those from byte `at` on, and behind the end; one that is not there is made by a
/// write at 0. As mmdb_blob_put.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_blob_write(
    tx: *mut mmdb_transaction,
    blobs: *const mmdb_blobs,
    id: u64,
    at: u64,
    data: *const c_void,
    size: usize,
) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        let (blobs, data) = (content(blobs)?, array(data.cast::<u8>(), size, "data")?);
        within(tx, |tx| Ok(blobs.write(tx, id, at, data)?))
    })
}

/// Cuts a blob to its first `length` bytes. `found`, which may be NULL, becomes whether there is
/// one. As mmdb_blob_put.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_blob_truncate(
    tx: *mut mmdb_transaction,
    blobs: *const mmdb_blobs,
    id: u64,
    length: u64,
    found: *mut bool,
) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        let blobs = content(blobs)?;
        put(found, within(tx, |tx| Ok(blobs.truncate(tx, id, length)?))?);
        Ok(())
    })
}

/// Deletes a blob. `found`, which may be NULL, becomes whether there was one. As mmdb_blob_put.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_blob_delete(
    tx: *mut mmdb_transaction,
    blobs: *const mmdb_blobs,
    id: u64,
    found: *mut bool,
) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        let blobs = content(blobs)?;
        put(found, within(tx, |tx| Ok(blobs.delete(tx, id)?))?);
        Ok(())
    })
}

/// The bytes of a blob. `found` becomes whether there is one; `length` is 0 otherwise.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_blob_length(
    tx: *mut mmdb_transaction,
    blobs: *const mmdb_blobs,
    id: u64,
    length: *mut u64,
    found: *mut bool,
) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        let (blobs, place) = (content(blobs)?, place(length, "length")?);
        let there = within(tx, |tx| Ok(blobs.length(tx, id)?))?;
        put(place, there.unwrap_or(0));
        put(found, there.is_some());
        Ok(())
    })
}

/// Reads from byte `at` as much as there is, up to `size` bytes, into `out`. `count` becomes how
/// much that was, and `found`, which may be NULL, whether there is such a blob.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_blob_read(
    tx: *mut mmdb_transaction,
    blobs: *const mmdb_blobs,
    id: u64,
    at: u64,
    out: *mut c_void,
    size: usize,
    count: *mut usize,
    found: *mut bool,
) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        let (blobs, out, place) = (content(blobs)?, room(out, size)?, place(count, "count")?);
        let read = within(tx, |tx| Ok(blobs.read_at(tx, id, at, out)?))?;
        put(place, read.unwrap_or(0));
        put(found, read.is_some());
        Ok(())
    })
}

/// As mmdb_blob_length, of a snapshot.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_snapshot_blob_length(
    of: *const mmdb_snapshot,
    blobs: *const mmdb_blobs,
    id: u64,
    length: *mut u64,
    found: *mut bool,
) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        let (blobs, place) = (content(blobs)?, place(length, "length")?);
        let there = blobs.at(snapshot(of)?).length(id)?;
        put(place, there.unwrap_or(0));
        put(found, there.is_some());
        Ok(())
    })
}

/// As mmdb_blob_read, of a snapshot.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_snapshot_blob_read(
    of: *const mmdb_snapshot,
    blobs: *const mmdb_blobs,
    id: u64,
    at: u64,
    out: *mut c_void,
    size: usize,
    count: *mut usize,
    found: *mut bool,
) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        let (blobs, out, place) = (content(blobs)?, room(out, size)?, place(count, "count")?);
        let read = blobs.at(snapshot(of)?).read_at(id, at, out)?;
        put(place, read.unwrap_or(0));
        put(found, read.is_some());
        Ok(())
    })
}

/// The least number of a blob that is `from` or above, in a snapshot. `found` becomes whether there
/// is one; `id` is 0 otherwise.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_snapshot_next_blob(
    of: *const mmdb_snapshot,
    blobs: *const mmdb_blobs,
    from: u64,
    id: *mut u64,
    found: *mut bool,
) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe {
        let (blobs, snapshot, id) = (content(blobs)?, snapshot(of)?, place(id, "id")?);
        let place = place(found, "found")?;
        let mut cursor = snapshot.range(blobs.table(), "primary", [Value::UInt(from)]..)?;
        let next = cursor.next_with(|row| row.at(0).as_uint())?.flatten();
        put(id, next.unwrap_or(0));
        put(place, next.is_some());
        Ok(())
    })
}

/// Frees the handle. The blobs stay.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mmdb_blobs_free(blobs: *mut mmdb_blobs) -> mmdb_status {
    // SAFETY: the caller keeps the rules of mmdb.h.
    guard(|| unsafe { if blobs.is_null() { Ok(()) } else { take(blobs).map(drop) } })
}
