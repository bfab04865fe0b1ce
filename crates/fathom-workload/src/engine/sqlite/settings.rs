//! SQLite's settings: every PRAGMA that matters for storage.
//!
//! Where Fathom gives a default it is SQLite's own documented one, set all the same, because distributions build SQLite
//! with other defaults. A setting without default is left to the library. All are read back and recorded.

use crate::params::{Kind, Parameter, Preset};

/// Bytes: the largest mmap_size that SQLite's default build allows (SQLITE_MAX_MMAP_SIZE, 2 GiB less 64 KiB).
const MMAP_SIZE_MAX: i64 = 0x7fff_0000;

pub(super) const SETTINGS: &[Parameter] = &[
    Parameter {
        name: "library",
        kind: Kind::Text,
        default: Preset::Unset,
        unit: "path",
        description: "a libsqlite3.so to use instead of the bundled release, so that versions can be compared",
    },
    Parameter {
        name: "journal_mode",
        kind: Kind::TextOf(&["delete", "truncate", "persist", "memory", "wal", "off"]),
        default: Preset::Text("delete"),
        unit: "",
        description: "how a transaction can be undone: a rollback journal (deleted, truncated or kept after commit, or in memory), a write-ahead log, or not at all",
    },
    Parameter {
        name: "synchronous",
        kind: Kind::TextOf(&["off", "normal", "full", "extra"]),
        default: Preset::Text("full"),
        unit: "",
        description: "how often SQLite waits for the device: never, at critical moments, at every commit, or there and for the directory too",
    },
    Parameter {
        name: "page_size",
        kind: Kind::IntegerOf(&[512, 1024, 2048, 4096, 8192, 16384, 32768, 65536]),
        default: Preset::Integer(4096),
        unit: "bytes",
        description: "size of a database page",
    },
    Parameter {
        name: "cache_size",
        kind: Kind::Integer { min: i32::MIN as i64 + 1, max: i32::MAX as i64 },
        default: Preset::Unset,
        unit: "pages, or KiB when negative",
        description: "size of a connection's page cache",
    },
    Parameter {
        name: "mmap_size",
        kind: Kind::Integer { min: 0, max: MMAP_SIZE_MAX },
        default: Preset::Unset,
        unit: "bytes",
        description: "how much of the database is read through a memory map; 0 = none",
    },
    Parameter {
        name: "wal_autocheckpoint",
        kind: Kind::Integer { min: 0, max: i32::MAX as i64 },
        default: Preset::Unset,
        unit: "pages",
        description: "length of the write-ahead log at which a commit also checkpoints; 0 = never",
    },
    Parameter {
        name: "locking_mode",
        kind: Kind::TextOf(&["normal", "exclusive"]),
        default: Preset::Unset,
        unit: "",
        description: "whether file locks are released after each transaction or kept; exclusive allows one connection only",
    },
    Parameter {
        name: "auto_vacuum",
        kind: Kind::TextOf(&["none", "full", "incremental"]),
        default: Preset::Unset,
        unit: "",
        description: "whether free pages leave the file: never, at every commit, or when asked",
    },
    Parameter {
        name: "temp_store",
        kind: Kind::TextOf(&["default", "file", "memory"]),
        default: Preset::Unset,
        unit: "",
        description: "where temporary tables and indexes live",
    },
    Parameter {
        name: "fullfsync",
        kind: Kind::Boolean,
        default: Preset::Unset,
        unit: "",
        description: "use F_FULLFSYNC where the system has it (macOS); elsewhere without effect",
    },
    Parameter {
        name: "checkpoint_fullfsync",
        kind: Kind::Boolean,
        default: Preset::Unset,
        unit: "",
        description: "use F_FULLFSYNC for checkpoints where the system has it (macOS); elsewhere without effect",
    },
    Parameter {
        name: "journal_size_limit",
        kind: Kind::Integer { min: -1, max: i64::MAX },
        default: Preset::Unset,
        unit: "bytes",
        description: "size to which a kept journal or log is cut back; -1 = no limit",
    },
    Parameter {
        name: "secure_delete",
        kind: Kind::TextOf(&["off", "on", "fast"]),
        default: Preset::Unset,
        unit: "",
        description: "whether deleted content is overwritten with zeros",
    },
    Parameter {
        name: "busy_timeout",
        kind: Kind::Integer { min: 0, max: 3_600_000 },
        default: Preset::Integer(10_000),
        unit: "ms",
        description: "how long a statement waits for a lock that another connection holds",
    },
    Parameter {
        name: "foreign_keys",
        kind: Kind::Boolean,
        default: Preset::Unset,
        unit: "",
        description: "whether foreign keys are enforced",
    },
];
