//! RocksDB, through the C interface of the system's library (Debian `librocksdb-dev`).
//!
//! Durability: `WriteOptions.sync = true`, so that a write returns after `fdatasync` of the
//! write-ahead log. RocksDB groups the log writes of waiting threads by itself. One `WriteBatch`
//! for each transaction, three column families. Settings beyond the defaults, all from its tuning
//! guide: write buffers of 128 MiB, a recycled log (an overwritten log needs no metadata at each
//! sync), two background jobs for two cores. Deletes are blind, as an LSM tree has them.
//! `rocksdb-pipelined` has `enable_pipelined_write` on, too.

use crate::message::{Digest, Message, TABLES, Table, queue_bounds};
use crate::peer::{Engine, Transaction};
use anyhow::{Context, Result, bail};
use std::ffi::{CStr, CString, c_char, c_int, c_uchar};
use std::path::Path;
use std::ptr;

/// The declarations used, as in `rocksdb/c.h` of RocksDB 7.
mod sys {
    use super::{c_char, c_int, c_uchar};
    macro_rules! opaque { ($($name:ident)*) => { $(#[repr(C)] pub struct $name { _private: [u8; 0] })* } }
    opaque!(Db Options WriteOptions ReadOptions WriteBatch Family Iterator Pinned);
    #[link(name = "rocksdb")]
    unsafe extern "C" {
        pub fn rocksdb_options_create() -> *mut Options;
        pub fn rocksdb_options_set_create_if_missing(options: *mut Options, on: c_uchar);
        pub fn rocksdb_options_set_create_missing_column_families(options: *mut Options, on: c_uchar);
        pub fn rocksdb_options_set_write_buffer_size(options: *mut Options, bytes: usize);
        pub fn rocksdb_options_set_enable_pipelined_write(options: *mut Options, on: c_uchar);
        pub fn rocksdb_options_set_recycle_log_file_num(options: *mut Options, count: usize);
        pub fn rocksdb_options_set_max_background_jobs(options: *mut Options, jobs: c_int);
        pub fn rocksdb_open_column_families(
            options: *const Options,
            name: *const c_char,
            count: c_int,
            names: *const *const c_char,
            family_options: *const *const Options,
            families: *mut *mut Family,
            error: *mut *mut c_char,
        ) -> *mut Db;
        pub fn rocksdb_writeoptions_create() -> *mut WriteOptions;
        pub fn rocksdb_writeoptions_set_sync(options: *mut WriteOptions, on: c_uchar);
        pub fn rocksdb_readoptions_create() -> *mut ReadOptions;
        pub fn rocksdb_readoptions_destroy(options: *mut ReadOptions);
        pub fn rocksdb_writebatch_create() -> *mut WriteBatch;
        pub fn rocksdb_writebatch_destroy(batch: *mut WriteBatch);
        pub fn rocksdb_writebatch_put_cf(
            batch: *mut WriteBatch,
            family: *mut Family,
            key: *const c_char,
            key_len: usize,
            value: *const c_char,
            value_len: usize,
        );
        pub fn rocksdb_writebatch_delete_cf(
            batch: *mut WriteBatch,
            family: *mut Family,
            key: *const c_char,
            key_len: usize,
        );
        pub fn rocksdb_write(
            db: *mut Db,
            options: *const WriteOptions,
            batch: *mut WriteBatch,
            error: *mut *mut c_char,
        );
        pub fn rocksdb_get_pinned_cf(
            db: *mut Db,
            options: *const ReadOptions,
            family: *mut Family,
            key: *const c_char,
            key_len: usize,
            error: *mut *mut c_char,
        ) -> *mut Pinned;
        pub fn rocksdb_pinnableslice_value(value: *const Pinned, len: *mut usize) -> *const c_char;
        pub fn rocksdb_pinnableslice_destroy(value: *mut Pinned);
        pub fn rocksdb_iter_seek(iterator: *mut Iterator, key: *const c_char, key_len: usize);
        pub fn rocksdb_create_iterator_cf(
            db: *mut Db,
            options: *const ReadOptions,
            family: *mut Family,
        ) -> *mut Iterator;
        pub fn rocksdb_iter_seek_to_first(iterator: *mut Iterator);
        pub fn rocksdb_iter_valid(iterator: *const Iterator) -> c_uchar;
        pub fn rocksdb_iter_next(iterator: *mut Iterator);
        pub fn rocksdb_iter_key(iterator: *const Iterator, len: *mut usize) -> *const c_char;
        pub fn rocksdb_iter_value(iterator: *const Iterator, len: *mut usize) -> *const c_char;
        pub fn rocksdb_iter_get_error(iterator: *const Iterator, error: *mut *mut c_char);
        pub fn rocksdb_iter_destroy(iterator: *mut Iterator);
        pub fn rocksdb_free(memory: *mut std::ffi::c_void);
    }
}

/// An open database. It lives until the process ends: every run ends by killing the process.
pub struct Rocks {
    db: *mut sys::Db,
    families: [*mut sys::Family; 3],
    synced: *mut sys::WriteOptions,
    reading: *mut sys::ReadOptions,
}

// SAFETY: RocksDB's `DB` and its column family handles may be used from several threads without
// synchronization (its header `db.h`), and the options are only read after `open`.
unsafe impl Send for Rocks {}
// SAFETY: as above.
unsafe impl Sync for Rocks {}

/// The error that a call left, as ours.
fn check(error: *mut c_char) -> Result<()> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: a non-null error is a C string that RocksDB allocated and handed over.
    let text = unsafe { CStr::from_ptr(error) }.to_string_lossy().into_owned();
    // SAFETY: it came from RocksDB's allocator and is not used after this.
    unsafe { sys::rocksdb_free(error.cast()) };
    bail!("RocksDB: {text}")
}

impl Rocks {
    /// Opens or creates the database in `dir`. `sustained`: with write buffers of the default size, so
    /// that they are flushed and compacted during a run. `pipelined`: the memory tables are written
    /// while the next group writes the log (`enable_pipelined_write`).
    pub fn open(dir: &Path, sustained: bool, pipelined: bool) -> Result<Rocks> {
        let path = CString::new(dir.as_os_str().as_encoded_bytes())?;
        let names: [&CStr; 3] = [c"default", c"to_delivery", c"ms_state"];
        let names = names.map(CStr::as_ptr);
        let mut families = [ptr::null_mut(); 3];
        let mut error = ptr::null_mut();
        // SAFETY: the options are created here and set before use; the three arrays have the three
        // entries that the count says; name and path end with NUL and live through the call. The
        // options are kept for good, as the database may refer to them.
        let (db, synced, reading) = unsafe {
            let options = sys::rocksdb_options_create();
            sys::rocksdb_options_set_create_if_missing(options, 1);
            sys::rocksdb_options_set_create_missing_column_families(options, 1);
            sys::rocksdb_options_set_write_buffer_size(options, if sustained { 64 << 20 } else { 128 << 20 });
            sys::rocksdb_options_set_enable_pipelined_write(options, pipelined.into());
            sys::rocksdb_options_set_recycle_log_file_num(options, 4);
            sys::rocksdb_options_set_max_background_jobs(options, 2);
            let family_options = [options.cast_const(); 3];
            let db = sys::rocksdb_open_column_families(
                options,
                path.as_ptr(),
                3,
                names.as_ptr(),
                family_options.as_ptr(),
                families.as_mut_ptr(),
                &mut error,
            );
            let synced = sys::rocksdb_writeoptions_create();
            sys::rocksdb_writeoptions_set_sync(synced, 1);
            (db, synced, sys::rocksdb_readoptions_create())
        };
        check(error).with_context(|| format!("opening {}", dir.display()))?;
        Ok(Rocks { db, families, synced, reading })
    }

    fn put(&self, batch: *mut sys::WriteBatch, table: Table, key: &[u8], value: &[u8]) {
        let (family, key, key_len) = (self.families[table as usize], key.as_ptr().cast(), key.len());
        // SAFETY: batch and family are live; RocksDB copies both slices before it returns.
        unsafe {
            sys::rocksdb_writebatch_put_cf(batch, family, key, key_len, value.as_ptr().cast(), value.len());
        }
    }

    fn delete(&self, batch: *mut sys::WriteBatch, table: Table, key: &[u8]) {
        // SAFETY: as in `put`.
        unsafe {
            sys::rocksdb_writebatch_delete_cf(
                batch,
                self.families[table as usize],
                key.as_ptr().cast(),
                key.len(),
            );
        }
    }
}

impl Engine for Rocks {
    fn apply(&self, transactions: &[(Transaction, Message)]) -> Result<()> {
        // SAFETY: creation has no preconditions; the batch is destroyed below on the only way out.
        let batch = unsafe { sys::rocksdb_writebatch_create() };
        let mut value = Vec::with_capacity(256);
        for (transaction, message) in transactions {
            match transaction {
                Transaction::Receive => {
                    value.clear();
                    message.message_value(&mut value);
                    self.put(batch, Table::Message, &message.message_key(), &value);
                    self.put(batch, Table::Queue, &message.queue_key(), &message.queue_value());
                }
                Transaction::Deliver => {
                    self.delete(batch, Table::Queue, &message.queue_key());
                    self.delete(batch, Table::Message, &message.message_key());
                    let state = message.state();
                    self.put(batch, Table::State, &state.key(), &state.value());
                }
            }
        }
        let mut error = ptr::null_mut();
        // SAFETY: database, options and batch are live; the batch is not used after it is
        // destroyed.
        unsafe {
            sys::rocksdb_write(self.db, self.synced, batch, &mut error);
            sys::rocksdb_writebatch_destroy(batch);
        }
        check(error)
    }

    fn read(&self, msg_id: u64, out: &mut Vec<u8>) -> Result<bool> {
        let (key, mut error, mut len) = (msg_id.to_be_bytes(), ptr::null_mut(), 0);
        let family = self.families[Table::Message as usize];
        // SAFETY: database, options and family are live; a value that is not null is copied before
        // it is given back.
        let there = unsafe {
            let value = sys::rocksdb_get_pinned_cf(
                self.db,
                self.reading,
                family,
                key.as_ptr().cast(),
                key.len(),
                &mut error,
            );
            if !value.is_null() {
                let bytes = sys::rocksdb_pinnableslice_value(value, &mut len);
                out.extend_from_slice(std::slice::from_raw_parts(bytes.cast(), len));
                sys::rocksdb_pinnableslice_destroy(value);
            }
            !value.is_null()
        };
        check(error).map(|()| there)
    }

    fn head(&self, dst_key: u64, most: usize) -> Result<usize> {
        let ([from, to], mut error, mut count) = (queue_bounds(dst_key), ptr::null_mut(), 0);
        // SAFETY: as in `scan`.
        unsafe {
            let family = self.families[Table::Queue as usize];
            let iterator = sys::rocksdb_create_iterator_cf(self.db, self.reading, family);
            sys::rocksdb_iter_seek(iterator, from.as_ptr().cast(), from.len());
            while count < most && sys::rocksdb_iter_valid(iterator) != 0 {
                let mut len = 0;
                let key = sys::rocksdb_iter_key(iterator, &mut len);
                if std::slice::from_raw_parts(key.cast::<u8>(), len) >= &to[..] {
                    break;
                }
                count += 1;
                sys::rocksdb_iter_next(iterator);
            }
            sys::rocksdb_iter_get_error(iterator, &mut error);
            sys::rocksdb_iter_destroy(iterator);
        }
        check(error).map(|()| count)
    }

    fn scan(&self, digest: &mut Digest) -> Result<()> {
        for table in TABLES {
            let mut error = ptr::null_mut();
            // SAFETY: the iterator is created, used while valid and destroyed here; its slices are
            // read before it moves on.
            unsafe {
                let options = sys::rocksdb_readoptions_create();
                let iterator =
                    sys::rocksdb_create_iterator_cf(self.db, options, self.families[table as usize]);
                sys::rocksdb_iter_seek_to_first(iterator);
                while sys::rocksdb_iter_valid(iterator) != 0 {
                    let (mut key_len, mut value_len) = (0, 0);
                    let key = sys::rocksdb_iter_key(iterator, &mut key_len);
                    let value = sys::rocksdb_iter_value(iterator, &mut value_len);
                    digest.row(
                        table,
                        std::slice::from_raw_parts(key.cast(), key_len),
                        std::slice::from_raw_parts(value.cast(), value_len),
                    );
                    sys::rocksdb_iter_next(iterator);
                }
                sys::rocksdb_iter_get_error(iterator, &mut error);
                sys::rocksdb_iter_destroy(iterator);
                sys::rocksdb_readoptions_destroy(options);
            }
            check(error)?;
        }
        Ok(())
    }
}
