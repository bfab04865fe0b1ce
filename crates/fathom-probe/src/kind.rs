//! What is counted: kinds of files and kinds of calls.

use std::ffi::{CStr, c_char, c_int};

use crate::abi::open;

/// What SQLite uses a file for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FileClass {
    /// The database file itself; also what belongs to no file, such as sleeping for a lock.
    Database,
    /// The rollback journal (`-journal`).
    RollbackJournal,
    /// The write-ahead log (`-wal`).
    Wal,
    /// The WAL's index in shared memory (`-shm`).
    WalIndex,
    /// The super-journal (`-mj…`) of a transaction over several databases.
    SuperJournal,
    /// Temporary databases and journals, sorter spills, statement journals.
    Temporary,
}

impl FileClass {
    /// Number of classes.
    pub const COUNT: usize = 6;
    /// All classes, in order of their numbers.
    pub const ALL: [FileClass; Self::COUNT] = [
        FileClass::Database,
        FileClass::RollbackJournal,
        FileClass::Wal,
        FileClass::WalIndex,
        FileClass::SuperJournal,
        FileClass::Temporary,
    ];

    /// The name used in tables and results files, e.g. `rollback-journal`.
    pub fn name(self) -> &'static str {
        match self {
            FileClass::Database => "database",
            FileClass::RollbackJournal => "rollback-journal",
            FileClass::Wal => "wal",
            FileClass::WalIndex => "wal-index",
            FileClass::SuperJournal => "super-journal",
            FileClass::Temporary => "temporary",
        }
    }

    /// The class of a file from the flags of its `xOpen`. A file without a name is temporary
    /// whatever its flags say.
    pub(crate) fn of_open(name: *const c_char, flags: c_int) -> Self {
        const TEMPORARY: c_int = open::TEMP_DB | open::TRANSIENT_DB | open::TEMP_JOURNAL | open::SUBJOURNAL;
        if name.is_null() || flags & TEMPORARY != 0 {
            FileClass::Temporary
        } else if flags & open::MAIN_JOURNAL != 0 {
            FileClass::RollbackJournal
        } else if flags & open::WAL != 0 {
            FileClass::Wal
        } else if flags & open::SUPER_JOURNAL != 0 {
            FileClass::SuperJournal
        } else {
            FileClass::Database
        }
    }

    /// The class of a file from its name alone, which is all that `xDelete` and `xAccess` are
    /// given.
    ///
    /// # Safety
    /// `name` must be null or end in NUL.
    pub(crate) unsafe fn of_name(name: *const c_char) -> Self {
        if name.is_null() {
            return FileClass::Temporary;
        }
        // SAFETY: not null, and NUL-terminated by the caller's promise.
        let name = unsafe { CStr::from_ptr(name) }.to_bytes();
        if name.ends_with(b"-journal") {
            FileClass::RollbackJournal
        } else if name.ends_with(b"-wal") {
            FileClass::Wal
        } else if name.ends_with(b"-shm") {
            FileClass::WalIndex
        } else if is_super_journal(name) {
            FileClass::SuperJournal
        } else {
            FileClass::Database
        }
    }
}

/// Super-journals are named `<database>-mjXXXXXX9XX` with upper-case hexadecimal X (`vdbeCommit` in
/// SQLite's `vdbeaux.c`).
fn is_super_journal(name: &[u8]) -> bool {
    let Some(start) = name.len().checked_sub(12) else { return false };
    let tail = &name[start..];
    tail.starts_with(b"-mj") && tail[9] == b'9' && tail[3..].iter().all(u8::is_ascii_hexdigit)
}

/// What SQLite asks of a file or of the VFS.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Op {
    /// `xOpen`.
    Open,
    /// `xClose`.
    Close,
    /// `xRead`; bytes asked for.
    Read,
    /// `xWrite`; bytes given.
    Write,
    /// `xTruncate`.
    Truncate,
    /// `xSync`, which includes the directory's sync after a journal was created.
    Sync,
    /// `xDelete`, which includes the directory's sync where SQLite asks for it.
    Delete,
    /// `xAccess`.
    Access,
    /// `xFileSize`.
    Size,
    /// `xLock` that was granted.
    Lock,
    /// `xUnlock` and `xCheckReservedLock`.
    Unlock,
    /// `xLock` or `xShmLock` that was refused because another connection held the lock.
    Busy,
    /// `xSleep`: what SQLite's own busy handler does between two attempts to get a lock.
    Sleep,
    /// Shared memory: `xShmMap` (bytes mapped), `xShmUnmap` and granted `xShmLock`.
    Shm,
    /// Memory-mapped pages: `xFetch`; bytes handed out. The page faults happen later and outside
    /// the call.
    Fetch,
    /// `xFileControl` operations that touch the disk: size hints, atomic batches, moved-file
    /// checks.
    Control,
}

impl Op {
    /// Number of operations.
    pub const COUNT: usize = 16;
    /// All operations, in order of their numbers.
    pub const ALL: [Op; Self::COUNT] = [
        Op::Open,
        Op::Close,
        Op::Read,
        Op::Write,
        Op::Truncate,
        Op::Sync,
        Op::Delete,
        Op::Access,
        Op::Size,
        Op::Lock,
        Op::Unlock,
        Op::Busy,
        Op::Sleep,
        Op::Shm,
        Op::Fetch,
        Op::Control,
    ];

    /// The name used in tables and results files, e.g. `read`.
    pub fn name(self) -> &'static str {
        match self {
            Op::Open => "open",
            Op::Close => "close",
            Op::Read => "read",
            Op::Write => "write",
            Op::Truncate => "truncate",
            Op::Sync => "sync",
            Op::Delete => "delete",
            Op::Access => "access",
            Op::Size => "size",
            Op::Lock => "lock",
            Op::Unlock => "unlock",
            Op::Busy => "busy",
            Op::Sleep => "sleep",
            Op::Shm => "shm",
            Op::Fetch => "fetch",
            Op::Control => "control",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &CStr) -> FileClass {
        // SAFETY: a CStr ends in NUL.
        unsafe { FileClass::of_name(name.as_ptr()) }
    }

    #[test]
    fn names_tell_the_class() {
        assert_eq!(of(c"/a/b.db"), FileClass::Database);
        assert_eq!(of(c"/a/b.db-journal"), FileClass::RollbackJournal);
        assert_eq!(of(c"/a/b.db-wal"), FileClass::Wal);
        assert_eq!(of(c"/a/b.db-shm"), FileClass::WalIndex);
        assert_eq!(of(c"/a/b.db-mj0A1B2C9D4"), FileClass::SuperJournal);
        assert_eq!(of(c"/a/b.db-mj0A1B2C8D4"), FileClass::Database);
        assert_eq!(of(c"-mj"), FileClass::Database);
        assert_eq!(of(c""), FileClass::Database);
    }

    #[test]
    fn numbers_follow_the_order() {
        for (i, class) in FileClass::ALL.into_iter().enumerate() {
            assert_eq!(class as usize, i);
        }
        for (i, op) in Op::ALL.into_iter().enumerate() {
            assert_eq!(op as usize, i);
        }
    }
}
