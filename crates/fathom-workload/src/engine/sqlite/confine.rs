//! SQL that is not the user's own: kept to the engine's directory.
//!
//! The guard sees what a statement names ([`fathom_trace::confine`]), and the VFS what is opened at
//! last: also a name that was bound to a parameter, or stands in a journal
//! (`fathom_probe::Probe::confined`).

use std::ffi::c_int;
use std::path::PathBuf;
use std::ptr;

use fathom_trace::confine::{DEFENSIVE, Guard, LIMITS, SWITCHES, TRUSTED_SCHEMA, authorize, limit_memory};
use fathom_trace::room;
use fathom_trace::sql::{target_of_vacuum, vacuum_into};

use super::connection::SqliteConnection;
use crate::engine::EngineError;

/// From this version on FTS5 is harmless by its own word (`SQLITE_VTAB_INNOCUOUS`). Before, no
/// trigger could write into a full-text table, as applications' triggers do, where the schema is
/// not trusted.
const FTS5_IS_HARMLESS: c_int = 3_044_000;

impl SqliteConnection {
    /// Puts the guard before the connection. It comes after the cell's settings.
    pub(super) fn set_guard(&mut self) {
        let functions = &self.library.functions;
        // SAFETY: it takes nothing and tells a number.
        let version = unsafe { (functions.sqlite3_libversion_number)() };
        for (option, value) in SWITCHES {
            if option != TRUSTED_SCHEMA.0 || version >= FTS5_IS_HARMLESS {
                self.switch(option, value);
            }
        }
        if self.guard.is_null() {
            self.guard = Box::into_raw(Box::default());
        }
        // SAFETY: the handle is open; the guard lives until the connection is dropped, and the
        // library until the process ends.
        unsafe {
            for (limit, most) in LIMITS {
                // Below zero it only tells; a library that does not know the limit answers the
                // same.
                if (functions.sqlite3_limit)(self.db, limit, -1) > most {
                    (functions.sqlite3_limit)(self.db, limit, most);
                }
            }
            (functions.sqlite3_set_authorizer)(self.db, Some(authorize), self.guard.cast());
            if let Some(limit_heap) = functions.sqlite3_hard_heap_limit64 {
                limit_memory(|bytes| limit_heap(bytes));
            }
            if let Some(find) = functions.sqlite3_vfs_find {
                room::install(find(ptr::null()));
            }
        }
        room::keep_temporary();
    }

    pub(super) fn switch(&self, option: c_int, value: c_int) {
        if let Some(db_config) = self.library.functions.sqlite3_db_config {
            // SAFETY: the handle is open; these options take a number and a place for the result,
            // which may be null. A library that does not know one refuses it.
            unsafe { db_config(self.db, option, value, ptr::null_mut::<c_int>()) };
        }
    }

    /// Does something of the engine's own on a connection that may be confined: `file` may be
    /// attached meanwhile, and any journal mode set.
    pub(super) fn unconfined(
        &mut self,
        file: &str,
        work: impl FnOnce(&mut Self) -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        if self.guard.is_null() {
            return work(self);
        }
        self.allow(Some(file));
        self.switch(DEFENSIVE.0, 0);
        let done = work(self);
        self.switch(DEFENSIVE.0, DEFENSIVE.1);
        self.allow(None);
        done
    }

    /// The file that may be attached from now on.
    pub(super) fn allow(&mut self, file: Option<&str>) {
        if let Some(guard) = self.guard() {
            guard.allow(file.map(str::as_bytes));
        }
    }

    #[expect(clippy::mut_from_ref, reason = "a box of its own behind a raw pointer, used for a moment")]
    fn guard(&self) -> Option<&mut Guard> {
        // SAFETY: null, or made by `Box::into_raw` and freed only on drop; SQLite uses it only
        // within calls on the connection, of which none is going on, and no reference is kept.
        unsafe { self.guard.as_mut() }
    }

    /// Why the guard refused something, for the end of a message.
    pub(super) fn refusal(&self) -> String {
        match self.guard().and_then(Guard::take_refusal) {
            Some(why) => format!("; what a trace says is kept to the replay's own directory: {why}"),
            None => String::new(),
        }
    }

    /// Of `VACUUM INTO`, the statement that writes into the engine's directory instead, and the
    /// file; none of any other statement. The captured file is named by an expression, which may
    /// have parameters.
    pub(super) fn vacuum_into(&self, sql: &str, handle: u32) -> Option<(String, PathBuf)> {
        if self.guard.is_null() {
            return None;
        }
        let at = target_of_vacuum(sql)?;
        let own = self.path().file_stem().unwrap_or_default().to_string_lossy().into_owned();
        // A connection is known by its address: several may be open on a database.
        let file = self.path().with_file_name(format!("{own}-vacuum-{:x}-{handle}.db", self.db.addr()));
        let statement = vacuum_into(sql, at, &file.display().to_string());
        Some((statement, file))
    }
}
