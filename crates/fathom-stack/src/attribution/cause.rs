//! What made a request.

use fathom_probe::FileClass;
use serde::{Deserialize, Serialize};

/// What made a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cause {
    /// The database file.
    Database,
    /// The rollback journal, and the super-journal of several databases.
    RollbackJournal,
    /// The write-ahead log, whole: its frames are not told apart by transaction, table or page.
    Wal,
    /// Any other file: the WAL's index, temporary files, what is no database's.
    OtherFile,
    /// The file system's metadata.
    Metadata,
    /// The file system's own journal.
    FileSystemJournal,
    /// Not known.
    Unattributed,
    /// A flush: it concerns all that was written before.
    Flush,
}

impl Cause {
    /// All, in order of [`Cause::number`].
    pub const ALL: [Cause; 8] = [
        Cause::Database,
        Cause::RollbackJournal,
        Cause::Wal,
        Cause::OtherFile,
        Cause::Metadata,
        Cause::FileSystemJournal,
        Cause::Unattributed,
        Cause::Flush,
    ];

    /// As tables and exports call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Cause::Database => "database",
            Cause::RollbackJournal => "rollback-journal",
            Cause::Wal => "wal",
            Cause::OtherFile => "other-file",
            Cause::Metadata => "metadata",
            Cause::FileSystemJournal => "file-system-journal",
            Cause::Unattributed => "unattributed",
            Cause::Flush => "flush",
        }
    }

    /// Its number in results files.
    #[must_use]
    pub fn number(self) -> u8 {
        self as u8
    }

    /// Whether its bytes are bytes of files.
    #[must_use]
    pub fn is_file(self) -> bool {
        matches!(self, Cause::Database | Cause::RollbackJournal | Cause::Wal | Cause::OtherFile)
    }

    /// What a file of SQLite's counts as.
    #[must_use]
    pub fn of_class(class: FileClass) -> Cause {
        match class {
            FileClass::Database => Cause::Database,
            FileClass::RollbackJournal | FileClass::SuperJournal => Cause::RollbackJournal,
            FileClass::Wal => Cause::Wal,
            FileClass::WalIndex | FileClass::Temporary => Cause::OtherFile,
        }
    }
}
