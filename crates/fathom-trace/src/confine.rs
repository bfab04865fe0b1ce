//! What SQL of strangers may do: a trace, a log or a script is other people's data, and replaying
//! it must not reach anything but the replay's own files.
//!
//! A [`Guard`] is asked by SQLite about everything that a statement is prepared for
//! (`sqlite3_set_authorizer`). It refuses what names a file: ATTACH (of any file but the one that
//! the replay itself attaches at that moment), VACUUM INTO (which attaches its target), functions
//! and tables that read or write files, modules that are not SQLite's own, and PRAGMAs that move
//! temporary files or concern the whole process. [`LIMITS`] and [`SWITCHES`] are set beside it. The
//! guard sees what SQL says; where the statements of a replay run, the VFS underneath refuses every
//! file outside the directory as well (`fathom_probe::Probe::confined`). What is written may not
//! fill a disk ([`mod@crate::room`]).

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ops::Deref;
use std::path::Path;
use std::ptr;

use libsqlite3_sys as ffi;
use rusqlite::{Connection, OpenFlags};

use crate::room;

/// `sqlite3_db_config` options and what they are set to. An option that a library does not know is
/// refused by it, which does no harm.
pub const SWITCHES: [(c_int, c_int); 4] = [
    (ffi::SQLITE_DBCONFIG_ENABLE_FTS3_TOKENIZER, 0),
    (ffi::SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0),
    TRUSTED_SCHEMA,
    // Last: it keeps `journal_mode` from being set to off, which a cell may want.
    DEFENSIVE,
];

/// Triggers and views may use what is harmless alone. What the guard refuses it refuses of them
/// without this, too.
pub const TRUSTED_SCHEMA: (c_int, c_int) = (ffi::SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0);

/// No statement may change the schema table, shadow tables or pages by themselves.
pub const DEFENSIVE: (c_int, c_int) = (ffi::SQLITE_DBCONFIG_DEFENSIVE, 1);

/// Options of `sqlite3_db_config` that say what a statement means: foreign keys, triggers, views,
/// ALTER TABLE of old, and whether `"…"` may be a text. They are set as the application did.
pub const MEANING: [u32; 6] = [1002, 1003, 1012, 1013, 1014, 1015];

/// `sqlite3_limit` categories and SQLite's own defaults, which a build may have raised: they are
/// lowered to these, never raised.
pub const LIMITS: [(c_int, c_int); 6] = [
    (ffi::SQLITE_LIMIT_LENGTH, 1_000_000_000),
    (ffi::SQLITE_LIMIT_SQL_LENGTH, 1_000_000_000),
    (ffi::SQLITE_LIMIT_EXPR_DEPTH, 1000),
    (ffi::SQLITE_LIMIT_TRIGGER_DEPTH, 1000),
    (ffi::SQLITE_LIMIT_VDBE_OP, 250_000_000),
    (ffi::SQLITE_LIMIT_WORKER_THREADS, 8),
];

/// The most bytes that SQLite may have allocated at a time in a process that executes SQL of
/// strangers: half of the machine's memory, and 4 GiB at most. Each value may have a gigabyte, and
/// a row many of them.
#[must_use]
pub fn memory_max() -> i64 {
    const MOST: u64 = 4 << 30;
    // SAFETY: sysconf takes no pointers.
    let (pages, page) = unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    let count = |value: libc::c_long| u64::try_from(value).ok();
    let bytes = count(pages).zip(count(page)).and_then(|(pages, page)| pages.checked_mul(page));
    let half = bytes.map_or(MOST, |bytes| bytes / 2);
    i64::try_from(half.min(MOST)).unwrap_or(i64::MAX)
}

/// Limits what a library of SQLite may have allocated to [`memory_max`], by its
/// `sqlite3_hard_heap_limit64`. It is the whole process's, and a lower one of somebody else stays.
pub fn limit_memory(hard_heap_limit64: impl Fn(i64) -> i64) {
    // Below zero it only tells.
    let (most, before) = (memory_max(), hard_heap_limit64(-1));
    if before == 0 || before > most {
        hard_heap_limit64(most);
    }
}

/// Functions that load code, or read or write files, of SQLite itself and of the extensions that
/// its shell has.
const FUNCTIONS: [&str; 6] = ["load_extension", "readfile", "writefile", "edit", "fts3_tokenizer", "zipfile"];

/// Table-valued functions that read files.
const TABLES: [&str; 2] = ["fsdir", "zipfile"];

/// Modules of virtual tables that store in the database and nowhere else: SQLite's own.
const MODULES: [&str; 14] = [
    "fts1",
    "fts2",
    "fts3",
    "fts4",
    "fts5",
    "fts3tokenize",
    "fts4aux",
    "fts5vocab",
    "rtree",
    "rtree_i32",
    "geopoly",
    "dbstat",
    "bytecode",
    "sqlite_stmt",
];

/// PRAGMAs whose value a replay leaves as it is: they move files, or are of the whole process, or
/// undo what is set here.
pub const PRAGMAS: [&str; 7] = [
    "temp_store_directory",
    "data_store_directory",
    "lock_proxy_file",
    "activate_extensions",
    "trusted_schema",
    "soft_heap_limit",
    "hard_heap_limit",
];

/// Steps of SQLite's virtual machine between two looks at how many were taken: rarely enough to
/// cost nothing, often enough that a statement ends soon after its limit.
const STEPS_BETWEEN: u32 = 1000;

/// Answers SQLite's question whether a statement may be, and may go on.
#[derive(Debug, Default)]
pub struct Guard {
    /// The one file that may be attached now.
    allowed: Option<Vec<u8>>,
    refused: Option<String>,
    /// Steps that the statement may still take.
    steps_left: u64,
}

impl Guard {
    /// The file that may be attached from now on, or none.
    pub fn allow(&mut self, file: Option<&[u8]>) {
        self.allowed = file.map(<[u8]>::to_vec);
    }

    /// What was refused last, for the message: SQLite itself says no more than "not authorized".
    pub fn take_refusal(&mut self) -> Option<String> {
        self.refused.take()
    }

    /// SQLite's answer (`SQLITE_OK`, `SQLITE_DENY`) to an action with its first two arguments.
    pub fn judge(&mut self, action: c_int, first: Option<&CStr>, second: Option<&CStr>) -> c_int {
        let shown = |text: Option<&CStr>| text.unwrap_or_default().to_string_lossy().into_owned();
        let is_one_of = |text: Option<&CStr>, names: &[&str]| {
            text.is_some_and(|text| {
                names.iter().any(|name| text.to_bytes().eq_ignore_ascii_case(name.as_bytes()))
            })
        };
        let problem = match action {
            ffi::SQLITE_ATTACH => match first.map(CStr::to_bytes) {
                // Nameless databases: temporary ones, as VACUUM attaches one, and those in memory.
                Some(b"" | b":memory:") => None,
                Some(file) if self.allowed.as_deref() == Some(file) => None,
                Some(_) => Some(format!("the file '{}' is not the replay's", shown(first))),
                None => Some("the name of a file is an expression or a parameter".into()),
            },
            ffi::SQLITE_FUNCTION if is_one_of(second, &FUNCTIONS) => {
                Some(format!("function {}() reads, writes or loads files", shown(second)))
            }
            ffi::SQLITE_READ if is_one_of(first, &TABLES) => {
                Some(format!("table {} reads files", shown(first)))
            }
            ffi::SQLITE_CREATE_VTABLE if !is_one_of(second, &MODULES) => Some(format!(
                "module {} is not known to keep to its database (an extension that brings it changes nothing of that)",
                shown(second)
            )),
            ffi::SQLITE_PRAGMA if second.is_some() && is_one_of(first, &PRAGMAS) => {
                Some(format!("PRAGMA {} reaches beyond the connection", shown(first).to_lowercase()))
            }
            _ => None,
        };
        match problem {
            None => ffi::SQLITE_OK,
            Some(problem) => {
                self.refused = Some(problem);
                ffi::SQLITE_DENY
            }
        }
    }
}

/// The callback for `sqlite3_set_authorizer`.
///
/// # Safety
/// `guard` must point to a live [`Guard`] that nothing else uses during the call; the texts are
/// null or end in NUL.
pub unsafe extern "C" fn authorize(
    guard: *mut c_void,
    action: c_int,
    first: *const c_char,
    second: *const c_char,
    _: *const c_char,
    _: *const c_char,
) -> c_int {
    // SAFETY: by the caller's promise.
    let text = |pointer: *const c_char| (!pointer.is_null()).then(|| unsafe { CStr::from_ptr(pointer) });
    // SAFETY: by the caller's promise; SQLite asks within a call on the connection, which has it
    // for itself.
    let guard = unsafe { &mut *guard.cast::<Guard>() };
    guard.judge(action, text(first), text(second))
}

/// The callback for `sqlite3_progress_handler`: ends the statement (`SQLITE_INTERRUPT`) that has
/// taken its steps.
///
/// # Safety
/// `guard` must point to a live [`Guard`] that nothing else uses during the call.
unsafe extern "C" fn count_steps(guard: *mut c_void) -> c_int {
    // SAFETY: by the caller's promise; SQLite does not ask the authorizer meanwhile.
    let guard = unsafe { &mut *guard.cast::<Guard>() };
    guard.steps_left = guard.steps_left.saturating_sub(u64::from(STEPS_BETWEEN));
    c_int::from(guard.steps_left == 0)
}

/// A connection of the bundled SQLite that other people's SQL may run on.
pub struct ConfinedConnection {
    connection: Option<Connection>,
    guard: *mut Guard,
    /// Steps of SQLite's virtual machine that each statement may take; none: as many as it wants.
    steps_max: Option<u64>,
}

impl std::fmt::Debug for ConfinedConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Confined").finish_non_exhaustive()
    }
}

impl ConfinedConnection {
    /// Opens the database file at `path`, which is created where it is missing. Its name is no URI.
    ///
    /// # Errors
    /// SQLite's.
    pub fn open(path: &Path) -> rusqlite::Result<ConfinedConnection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        Ok(ConfinedConnection::over(Connection::open_with_flags(path, flags)?))
    }

    /// Puts a guard before an open connection.
    #[must_use]
    pub fn over(connection: Connection) -> ConfinedConnection {
        let guard: *mut Guard = Box::into_raw(Box::default());
        // SAFETY: the handle is open, and stays so until `drop`, which frees the guard after it;
        // options and limits take one number, and where a result is wanted a null pointer says that
        // it is not.
        unsafe {
            let db = connection.handle();
            for (option, value) in SWITCHES {
                ffi::sqlite3_db_config(db, option, value, ptr::null_mut::<c_int>());
            }
            // The SQLite in this program is compiled with foreign keys on; everybody else's has
            // them off until the application asks for them, and so has a replay.
            ffi::sqlite3_db_config(db, ffi::SQLITE_DBCONFIG_ENABLE_FKEY, 0, ptr::null_mut::<c_int>());
            for (limit, most) in LIMITS {
                if ffi::sqlite3_limit(db, limit, -1) > most {
                    ffi::sqlite3_limit(db, limit, most);
                }
            }
            ffi::sqlite3_set_authorizer(db, Some(authorize), guard.cast());
            limit_memory(|bytes| ffi::sqlite3_hard_heap_limit64(bytes));
        }
        room::install_bundled();
        room::keep_temporary();
        ConfinedConnection { connection: Some(connection), guard, steps_max: None }
    }

    /// Lets each statement take at most so many steps of SQLite's virtual machine, its compilation
    /// included: what takes more ends with `SQLITE_INTERRUPT`. Steps, because the same statement on
    /// the same rows takes the same number anywhere. [`Self::begin_statement`] begins to count.
    #[must_use]
    pub fn limit_steps(mut self, most: u64) -> ConfinedConnection {
        self.steps_max = Some(most);
        self.begin_statement();
        // SAFETY: the handle is open, and the guard outlives it.
        unsafe {
            let between = STEPS_BETWEEN as c_int;
            ffi::sqlite3_progress_handler(self.handle(), between, Some(count_steps), self.guard.cast());
        }
        self
    }

    /// Before a statement is compiled: it may take all its steps.
    pub fn begin_statement(&self) {
        if let Some(most) = self.steps_max {
            // The count is taken down by whole looks, and is never 0 before the first.
            self.with_guard(|guard| guard.steps_left = most.saturating_add(1));
        }
    }

    /// How many steps a statement may take, where the one that began last has taken them.
    #[must_use]
    pub fn steps_exceeded(&self) -> Option<u64> {
        self.steps_max.filter(|_| self.with_guard(|guard| guard.steps_left == 0))
    }

    /// Attaches the file of this name (or URI, where the connection takes them), which no statement
    /// may.
    ///
    /// # Errors
    /// SQLite's.
    pub fn attach(&self, file: &str, schema: &str) -> rusqlite::Result<()> {
        let (name, schema) = (file.replace('\'', "''"), schema.replace('"', "\"\""));
        self.allowing(file, || self.execute_batch(&format!("ATTACH '{name}' AS \"{schema}\"")))
    }

    /// Does something during which this file may be attached.
    pub(crate) fn allowing<T>(&self, file: &str, work: impl FnOnce() -> T) -> T {
        self.with_guard(|guard| guard.allow(Some(file.as_bytes())));
        let done = work();
        self.with_guard(|guard| guard.allow(None));
        done
    }

    fn with_guard<T>(&self, work: impl FnOnce(&mut Guard) -> T) -> T {
        // SAFETY: it lives as long as the connection; SQLite uses it only within calls, of which
        // none is going on, and `work` has no other way to it.
        work(unsafe { &mut *self.guard })
    }

    /// What was refused last.
    #[must_use]
    pub fn take_refusal(&self) -> Option<String> {
        self.with_guard(Guard::take_refusal)
    }
}

impl Deref for ConfinedConnection {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.connection.as_ref().unwrap_or_else(|| unreachable!("it is taken only when this is dropped"))
    }
}

impl Drop for ConfinedConnection {
    fn drop(&mut self) {
        // Closing a connection prepares nothing, and one that could not be closed is leaked by
        // rusqlite: then the guard must stay, too.
        if let Some(Ok(())) = self
            .connection
            .take()
            .map(|connection| connection.close().map_err(|(connection, _)| std::mem::forget(connection)))
        {
            // SAFETY: made by `Box::into_raw`, freed once, after the connection that could ask it
            // is closed.
            drop(unsafe { Box::from_raw(self.guard) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened: a script of 120 bytes, `SELECT randomblob(700000000), randomblob(700000000), …`,
    /// had `trace import` take 0.7 GB for each of them, 2.7 GB for four.
    #[test]
    fn what_sql_of_strangers_takes_of_the_memory_is_limited() {
        let _confined = ConfinedConnection::over(Connection::open_in_memory().expect("opens"));
        // SAFETY: it takes a number, and below zero only tells.
        let most = unsafe { ffi::sqlite3_hard_heap_limit64(-1) };
        assert!(most > 0 && most <= memory_max() && memory_max() <= 4 << 30, "{most} of {}", memory_max());
    }

    /// A replay ran `ATTACH` and `VACUUM INTO` on the paths that the trace named: replaying one's
    /// own application's log emptied the live database. Whatever the statement looks like, the file
    /// outside stays as it is.
    #[test]
    fn no_statement_reaches_a_file_that_is_not_the_databases_own() {
        let place = tempfile::tempdir().expect("a directory");
        let (own, precious) = (place.path().join("own.db"), place.path().join("precious.db"));
        let open = Connection::open(&precious).expect("opens");
        open.execute_batch("CREATE TABLE t(a); INSERT INTO t VALUES (1), (2)").expect("made");
        drop(open);
        let before = std::fs::read(&precious).expect("read");
        let other = place.path().join("other.db");
        let (precious_text, other_text) = (precious.display().to_string(), other.display().to_string());
        let confined = ConfinedConnection::open(&own).expect("opens");
        confined.execute_batch("CREATE TABLE mine(a)").expect("its own tables are its own");
        for sql in [
            "ATTACH 'PRECIOUS' AS p; DELETE FROM p.t",
            "ATTACH DATABASE \"PRECIOUS\" AS p",
            "ATTACH 'PREC' || 'IOUS' AS p",
            "ATTACH (SELECT 'PRECIOUS') AS p",
            "ATTACH 'file:PRECIOUS?vfs=unix' AS p",
            "ATTACH 'file:PRECIOUS?vfs=unix&nolock=1' AS p",
            "ATTACH x'2f' AS p",
            "EXPLAIN ATTACH 'PRECIOUS' AS p",
            "VACUUM INTO 'OTHER'",
            "VACUUM main INTO 'OT' || 'HER'",
            "SELECT load_extension('PRECIOUS')",
            "SELECT LOAD_EXTENSION('PRECIOUS', 'x')",
            "PRAGMA temp_store_directory = '/'",
            "PRAGMA Temp_Store_Directory('/')",
            "PRAGMA trusted_schema = ON",
            "CREATE VIRTUAL TABLE v USING csv(filename = 'PRECIOUS')",
            "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = 'x'",
            "CREATE TEMP TRIGGER g AFTER INSERT ON mine BEGIN SELECT load_extension('PRECIOUS'); END; INSERT INTO mine VALUES (1)",
            "CREATE VIEW w AS SELECT load_extension('PRECIOUS'); SELECT * FROM w",
        ] {
            let sql = sql
                .replace("PRECIOUS", &precious_text)
                .replace("OTHER", &other_text)
                .replace("PREC' || 'IOUS", &precious_text.replace("precious", "prec' || 'ious"))
                .replace("OT' || 'HER", &other_text.replace("other", "ot' || 'her"));
            let done = confined.execute_batch(&sql);
            assert!(done.is_err(), "{sql}");
            assert!(!other.exists(), "{sql}");
            assert_eq!(std::fs::read(&precious).expect("read"), before, "{sql}");
        }
        let bound = confined.execute("ATTACH ? AS p", [&precious_text]);
        assert!(bound.is_err(), "a bound name is not seen by the guard, so it is refused as it is prepared");
        assert!(confined.take_refusal().is_some_and(|refusal| refusal.contains("parameter")));
        for sql in [
            "VACUUM",
            "ATTACH ':memory:' AS m; CREATE TABLE m.t(a); DETACH m",
            "ATTACH '' AS m; DETACH m",
            "CREATE VIRTUAL TABLE f USING fts5(a); INSERT INTO f VALUES ('word')",
            "PRAGMA temp_store_directory",
        ] {
            confined.execute_batch(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
        }
    }
}
