//! A statement that a caller numbered, and the values that are bound to it.

use std::ffi::c_int;
use std::path::PathBuf;

use libsqlite3_sys::SQLITE_TRANSIENT;

use super::library::{Destructor, sqlite3_stmt};

/// A statement that a caller numbered.
pub(super) struct NumberedStatement {
    pub handle: *mut sqlite3_stmt,
    pub columns: c_int,
    pub changes_rows: bool,
    /// Whether no step was made since it was prepared or reset.
    pub is_at_rest: bool,
    /// Texts and blobs that are bound, by parameter. SQLite uses them in place.
    pub kept: Vec<Vec<u8>>,
    /// The number of its text, where statements are kept.
    pub number: Option<u32>,
    /// The file that a VACUUM INTO of a confined connection writes.
    pub vacuum_into: Option<PathBuf>,
}

/// Longer values are left to SQLite to copy: memory for them is not kept.
const KEPT_BYTES_MAX: usize = 64 << 10;

/// So are those of parameters beyond this one.
const KEPT_MAX: usize = 1 << 10;

impl NumberedStatement {
    /// A copy of a value that lives until its parameter is bound again, and what SQLite is to be
    /// told of it: in place (a null destructor is `SQLITE_STATIC`), or to be copied where the
    /// statement may be using what was bound before. Memory that is used again takes less time than
    /// SQLite's copy, which is allocated for each value.
    pub fn keep(&mut self, index: u32, bytes: &[u8]) -> (*const u8, Destructor) {
        let place = (index as usize).wrapping_sub(1);
        if !self.is_at_rest || place >= KEPT_MAX || bytes.len() > KEPT_BYTES_MAX {
            return (bytes.as_ptr(), SQLITE_TRANSIENT());
        }
        if self.kept.len() <= place {
            self.kept.resize_with(place + 1, Vec::new);
        }
        let kept = &mut self.kept[place];
        kept.clear();
        kept.extend_from_slice(bytes);
        (kept.as_ptr(), None)
    }
}
