//! SQLite's settings: every PRAGMA that matters for storage.
//!
//! Where Fathom gives a default it is SQLite's own documented one, set all the same, because
//! distributions build SQLite with other defaults. A setting without default is left to the
//! library. All are read back and recorded.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use crate::engine::EngineError;
use crate::params::{Kind, Parameter, Params, Preset};
use crate::spec::Durability;

/// Bytes: the largest mmap_size that SQLite's default build allows (SQLITE_MAX_MMAP_SIZE, 2 GiB
/// less 64 KiB).
const MMAP_SIZE_MAX: i64 = 0x7fff_0000;

pub(in crate::engine) const SETTINGS: &[Parameter] = &[
    Parameter {
        name: "library",
        kind: Kind::Text,
        default: Preset::Unset,
        unit: "path",
        description: "a libsqlite3.so to use instead of the release that is built in (`bundled`), so that versions can be compared; remote:PATH is one that the machine of --on has",
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
        default: Preset::Boolean(false),
        unit: "",
        description: "whether foreign keys are enforced",
    },
    Parameter {
        name: "extension",
        kind: Kind::Text,
        default: Preset::Unset,
        unit: "path",
        description: "a loadable extension of SQLite for each connection, with the functions (those that give tables, too) and collations that a trace's application brought itself, but no CREATE VIRTUAL TABLE; its code is run",
    },
];

/// What a reader must know of settings that have no effect, by the others.
pub(in crate::engine) fn remarks(given: &BTreeMap<String, Json>, all: &Params) -> Vec<String> {
    let mode = all.text("journal_mode");
    if mode == "wal" || !given.contains_key("wal_autocheckpoint") {
        return Vec::new();
    }
    vec![format!(
        "wal_autocheckpoint has no effect in cells with journal_mode={mode}: only WAL is checkpointed"
    )]
}

/// What PRAGMAs are asked of.
pub(super) trait Pragmas {
    /// The one value of the first row of a PRAGMA, as text; none when there is no row.
    fn ask(&mut self, sql: &str) -> Result<Option<String>, EngineError>;

    /// The error that says why a setting cannot be, and of which database.
    fn refuse(&self, setting: &str, message: String) -> EngineError;
}

/// Gives the key before anything is read, where there is one (SQLCipher), and the page size that
/// goes with it: the library encrypts by pages, and takes their size from nobody else.
///
/// # Errors
/// What the library says.
pub(super) fn unlock(connection: &mut impl Pragmas, settings: &Params) -> Result<(), EngineError> {
    let Some(key) = settings.all().get("key").and_then(Json::as_str) else { return Ok(()) };
    connection.ask(&format!("PRAGMA key = \"{}\"", key.replace('"', "\"\"")))?;
    encrypted_pages(connection, settings, "main")
}

/// What an ATTACH says besides, where there is a key: the library would take the connection's own
/// only if it has used it already.
pub(super) fn attached_key(settings: &Params) -> String {
    let key = settings.all().get("key").and_then(Json::as_str);
    key.map_or_else(String::new, |key| format!(" KEY '{}'", key.replace('\'', "''")))
}

/// The size of the pages that are encrypted, where there is a key, for the database attached as
/// `schema`.
pub(super) fn encrypted_pages(
    connection: &mut impl Pragmas,
    settings: &Params,
    schema: &str,
) -> Result<(), EngineError> {
    match settings.all().get("page_size") {
        Some(size) if settings.all().contains_key("key") => {
            let schema = schema.replace('"', "\"\"");
            connection.ask(&format!("PRAGMA \"{schema}\".cipher_page_size = {size}")).map(drop)
        }
        _ => Ok(()),
    }
}

/// Settings as read back, by name.
pub(super) type EffectiveSettings = BTreeMap<String, String>;

/// A PRAGMA: how it is applied and how its answer is read.
struct Pragma {
    name: &'static str,
    /// Words for the numbers 0, 1, 2 … that SQLite answers; empty where it answers with the value
    /// itself.
    words: &'static [&'static str],
    /// Whether it belongs to one database (else to the connection, and is not repeated for attached
    /// ones).
    per_database: bool,
}

/// In the order in which they are applied. Page size and auto_vacuum hold only for a database
/// without content, so they come before `journal_mode=wal`, which writes the first page.
/// `locking_mode` comes before `journal_mode`, because a write-ahead log that is opened in
/// exclusive mode needs no shared memory.
const PRAGMAS: &[Pragma] = &[
    Pragma { name: "page_size", words: &[], per_database: true },
    Pragma { name: "auto_vacuum", words: &["none", "full", "incremental"], per_database: true },
    Pragma { name: "cache_size", words: &[], per_database: true },
    Pragma { name: "mmap_size", words: &[], per_database: true },
    Pragma { name: "temp_store", words: &["default", "file", "memory"], per_database: false },
    Pragma { name: "secure_delete", words: &["off", "on", "fast"], per_database: true },
    Pragma { name: "fullfsync", words: &["false", "true"], per_database: false },
    Pragma { name: "checkpoint_fullfsync", words: &["false", "true"], per_database: false },
    Pragma { name: "foreign_keys", words: &["false", "true"], per_database: false },
    Pragma { name: "locking_mode", words: &[], per_database: true },
    Pragma { name: "journal_mode", words: &[], per_database: true },
    Pragma { name: "synchronous", words: &["off", "normal", "full", "extra"], per_database: true },
    Pragma { name: "wal_autocheckpoint", words: &[], per_database: false },
    Pragma { name: "journal_size_limit", words: &[], per_database: true },
];

/// Applies the settings to the database attached as `schema` (`main` for the connection's own), and
/// reads back all of them, also those left to the library.
///
/// # Errors
/// A setting that reads back as something else.
pub(super) fn apply(
    connection: &mut impl Pragmas,
    settings: &Params,
    schema: &str,
) -> Result<EffectiveSettings, EngineError> {
    let mut applied = EffectiveSettings::new();
    let schema_name = schema.replace('"', "\"\"");
    for pragma in PRAGMAS.iter().filter(|pragma| pragma.per_database || schema == "main") {
        let name = pragma.name;
        let asked = settings.all().get(name).map(|value| match value {
            Json::String(word) => word.clone(),
            other => other.to_string(),
        });
        if let Some(value) = &asked {
            connection.ask(&format!("PRAGMA \"{schema_name}\".{name}={value}"))?;
        }
        let answer = connection.ask(&format!("PRAGMA \"{schema_name}\".{name}"))?;
        let answer = answer.map(|answer| match answer.parse::<usize>() {
            Ok(number) => pragma.words.get(number).map_or(answer, |&word| word.to_owned()),
            Err(_) => answer,
        });
        if let Some(value) = asked
            && answer.as_ref() != Some(&value)
        {
            let answer = answer.map_or("nothing".to_owned(), |answer| format!("`{answer}`"));
            let message = format!("did not take: SQLite reads it back as {answer}{}", why(name, &value));
            return Err(connection.refuse(&format!("setting {name}={value}"), message));
        }
        if let Some(answer) = answer {
            applied.insert(name.to_owned(), answer);
        }
    }
    if schema == "main" {
        if settings.all().contains_key("key")
            && let Some(version) = connection.ask("PRAGMA cipher_version")?
        {
            applied.insert("cipher_version".into(), version);
        }
        applied.insert("busy_timeout".into(), settings.count("busy_timeout").to_string());
    }
    Ok(applied)
}

/// The likely cause and what to do, where one is known.
fn why(name: &str, value: &str) -> &'static str {
    match (name, value) {
        ("journal_mode", "wal") => {
            "; a write-ahead log needs a file, and shared memory on its file system or locking_mode=exclusive"
        }
        ("journal_mode", _) => "; a database that others have open in WAL mode keeps it",
        ("page_size" | "auto_vacuum", _) => "; it can only be chosen while the database has no content",
        ("mmap_size", _) => "; the library may be built with a smaller SQLITE_MAX_MMAP_SIZE",
        ("synchronous", "extra") => "; SQLite has it since version 3.12",
        ("secure_delete", "fast") => "; SQLite has it since version 3.20",
        _ => "",
    }
}

/// What the settings promise, by <https://sqlite.org/pragma.html#pragma_synchronous>,
/// <https://sqlite.org/pragma.html#pragma_journal_mode> and SQLite's `pager.c`. The device is taken to honour syncs.
///
/// - `journal_mode` off or memory: "if the application crashes in the middle of a transaction … the
///   database file will very likely go corrupt", so nothing is promised.
/// - `synchronous=off`: commits survive a crash of the application; "the database might become
///   corrupted if the operating system crashes or the computer loses power".
/// - `synchronous=normal` with a rollback journal: "a very small (though non-zero) chance that a
///   power failure at just the wrong time could corrupt the database" (the journal's header and
///   content are synced at once, so a device may keep the header without the content). That is no
///   promise, so it counts as process crash, although it nearly always holds.
/// - `synchronous=normal` with WAL: consistent, but commits since the last checkpoint can roll
///   back.
/// - `full` with `delete`: the directory is not synced after the journal was removed, so the
///   journal can come back at a power cut and undo the last commit; `extra` syncs it. `truncate`
///   and `persist` sync the journal after cutting or zeroing it (`zeroJournalHdr` and
///   `pager_end_transaction`), so nothing can come back; `truncate` only since version 3.8.7.1
///   (<https://sqlite.org/releaselog/3_8_7_1.html>), before which the journal's old length can come
///   back as well. With `locking_mode=exclusive` the journal of `delete` stays, too: since 3.7.0,
///   the oldest version that is loaded, `pager_end_transaction` zeroes and syncs it as that of
///   `persist`. (A transaction over several files ends with the removal of their super-journal,
///   whose directory is synced; but not every transaction of an application is one.)
pub(super) fn durability(settings: &Params, version: &str) -> Durability {
    match (settings.text("journal_mode"), settings.text("synchronous")) {
        ("off" | "memory", _) => Durability::None,
        (_, "off") => Durability::ProcessCrash,
        ("wal", "normal") => Durability::PowerCutPrefix,
        (_, "normal") => Durability::ProcessCrash,
        ("delete", "full") if settings.optional_text("locking_mode") == Some("exclusive") => {
            Durability::PowerCut
        }
        ("delete", "full") => Durability::PowerCutAllButLast,
        ("truncate", _) if !syncs_what_it_cut(version) => Durability::PowerCutAllButLast,
        _ => Durability::PowerCut,
    }
}

/// Whether this version (`3.8.7.1`) syncs the journal after cutting it.
fn syncs_what_it_cut(version: &str) -> bool {
    let parts: Vec<u32> = version.split('.').map_while(|part| part.parse().ok()).collect();
    parts >= vec![3, 8, 7, 1]
}
