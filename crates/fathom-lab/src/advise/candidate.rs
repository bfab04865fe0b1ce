//! A setting that is tried.

use std::collections::BTreeMap;

use fathom_workload::engine::{Dialect, engine_named};
use fathom_workload::spec::EngineSpec;
use serde::Serialize;

/// Bytes of a page where nobody asks for others.
const USUAL_PAGE: u32 = 4096;

/// What of the engine's other settings is a PRAGMA. A library, an extension and a key are none, or
/// not one to be pasted.
const PRAGMAS: [&str; 12] = [
    "auto_vacuum",
    "busy_timeout",
    "cache_size",
    "checkpoint_fullfsync",
    "foreign_keys",
    "fullfsync",
    "journal_size_limit",
    "locking_mode",
    "mmap_size",
    "secure_delete",
    "temp_store",
    "wal_autocheckpoint",
];

/// What a connection says of one file alone: one that is attached later begins with SQLite's
/// defaults of these, whatever the connection's own file has. The others hold for all.
const OF_ONE_FILE: [&str; 6] =
    ["auto_vacuum", "cache_size", "journal_mode", "journal_size_limit", "page_size", "synchronous"];

/// Settings that name a file.
const FILES: [&str; 2] = ["extension", "library"];

/// SQLite's settings that are advised on; the others stay as the application has them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Candidate {
    /// `delete`, `wal` …
    pub journal_mode: String,
    /// `full`, `normal` …
    pub synchronous: String,
    /// Bytes.
    pub page_size: u32,
    /// Other settings by name: `wal_autocheckpoint`, `locking_mode` …
    pub more: BTreeMap<String, String>,
}

impl Default for Candidate {
    /// SQLite's own defaults.
    fn default() -> Candidate {
        Candidate::new("delete", "full")
    }
}

impl Candidate {
    /// With 4 KiB pages.
    #[must_use]
    pub fn new(journal_mode: &str, synchronous: &str) -> Candidate {
        let (journal_mode, synchronous) = (journal_mode.to_owned(), synchronous.to_owned());
        Candidate { journal_mode, synchronous, page_size: 4096, more: BTreeMap::new() }
    }

    /// Of a cell that ran; none of another engine's.
    #[must_use]
    pub fn of(engine: &EngineSpec) -> Option<Candidate> {
        engine_named(&engine.name).filter(|kind| kind.dialect == Dialect::Sqlite)?;
        let mut found = Candidate::default();
        // An advice is passed on, and a key is not.
        for (key, value) in engine.settings.iter().filter(|setting| setting.0.as_str() != "key") {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            // Words of SQLite have no case, and the names of files have one.
            let is_file = FILES.contains(&key.as_str());
            found.set(key, &if is_file { text } else { text.to_lowercase() });
        }
        Some(found)
    }

    /// Takes a setting over. What is no number where there must be one changes nothing.
    pub fn set(&mut self, key: &str, value: &str) {
        match key {
            "journal_mode" => self.journal_mode = value.to_owned(),
            "synchronous" => self.synchronous = value.to_owned(),
            "page_size" => self.page_size = value.parse().unwrap_or(self.page_size),
            _ => drop(self.more.insert(key.to_owned(), value.to_owned())),
        }
    }

    /// The same with another setting.
    #[must_use]
    pub fn with(&self, key: &str, value: &str) -> Candidate {
        let mut other = self.clone();
        other.set(key, value);
        other
    }

    /// As an experiment file has it.
    #[must_use]
    pub fn settings(&self) -> Vec<(String, String)> {
        let own = [
            ("journal_mode".to_owned(), self.journal_mode.clone()),
            ("synchronous".to_owned(), self.synchronous.clone()),
            ("page_size".to_owned(), self.page_size.to_string()),
        ];
        own.into_iter().chain(self.more.clone()).collect()
    }

    /// `wal/full/4096/wal_autocheckpoint=4000`: no two candidates have the same.
    #[must_use]
    pub fn key(&self) -> String {
        let mut key = format!("{}/{}/{}", self.journal_mode, self.synchronous, self.page_size);
        for (name, value) in &self.more {
            key += &format!("/{name}={value}");
        }
        key
    }

    /// `WAL/FULL, 1 KiB pages, wal_autocheckpoint 4000`, what is SQLite's default left out.
    #[must_use]
    pub fn name(&self) -> String {
        let mut name = format!("{}/{}", self.journal_mode.to_uppercase(), self.synchronous.to_uppercase());
        match self.page_size {
            4096 => {}
            small @ ..1024 => name += &format!(", {small} byte pages"),
            size => name += &format!(", {} KiB pages", size / 1024),
        }
        for (key, value) in &self.more {
            name += &format!(", {key} {value}");
        }
        name
    }

    /// How many settings are not SQLite's default.
    #[must_use]
    pub fn changes(&self) -> usize {
        self.changes_from(&Candidate::default())
    }

    /// How many settings are not those of another.
    #[must_use]
    pub fn changes_from(&self, other: &Candidate) -> usize {
        let has_not = |of: &Candidate, key: &String| !of.more.contains_key(key);
        usize::from(self.journal_mode != other.journal_mode)
            + usize::from(self.synchronous != other.synchronous)
            + usize::from(self.page_size != other.page_size)
            + self.more.iter().filter(|(key, value)| other.more.get(*key) != Some(*value)).count()
            + other.more.keys().filter(|key| has_not(self, key)).count()
    }

    /// The statements that bring it about, in the order in which they have to be given.
    #[must_use]
    pub fn pragmas(&self) -> Vec<String> {
        self.statements(USUAL_PAGE).concat()
    }

    /// Those that a new database alone takes, before anything is in it; those that are given once,
    /// for they stay with the database; and those of each connection. `now` is how large the pages
    /// of a new database are without a word.
    fn statements(&self, now: u32) -> [Vec<String>; 3] {
        let mode = format!("PRAGMA journal_mode = {};", self.journal_mode.to_uppercase());
        // In WAL mode something is in the database, and the mode is kept in it.
        let (once, mode) = if self.journal_mode == "wal" { (Some(mode), None) } else { (None, Some(mode)) };
        let pages = format!("PRAGMA page_size = {};", self.page_size);
        let pages = Some(pages).filter(|_| self.page_size != USUAL_PAGE || self.page_size != now);
        let more = |is_wanted: fn(&str) -> bool| {
            let pragmas = self.more.iter().filter(|(key, _)| PRAGMAS.contains(&key.as_str()));
            let wanted = pragmas.filter(move |(key, _)| is_wanted(key));
            wanted.map(|(key, value)| match key.as_str() {
                "locking_mode" => format!("PRAGMA {key} = {};", value.to_uppercase()),
                _ => format!("PRAGMA {key} = {value};"),
            })
        };
        let made = pages.into_iter().chain(more(|key| key == "auto_vacuum"));
        // Before the first access in WAL mode, so that it has no index in shared memory.
        let locking = more(|key| key == "locking_mode");
        let synchronous = format!("PRAGMA synchronous = {};", self.synchronous.to_uppercase());
        let rest = more(|key| !["auto_vacuum", "locking_mode"].contains(&key));
        let each = locking.chain(mode).chain([synchronous]).chain(rest);
        [made.collect(), once.into_iter().collect(), each.collect()]
    }

    /// The lines to paste, with comments of SQL that say where; `now` is what a database has that
    /// exists.
    #[must_use]
    pub fn to_paste(&self, now: &Candidate) -> Vec<String> {
        self.lines(now, false)
    }

    /// The same for a connection that attaches files, each of which has to be told by its own name:
    /// as comments, for that name is the application's.
    #[must_use]
    pub fn to_paste_with_attached(&self, now: &Candidate) -> Vec<String> {
        self.lines(now, true)
    }

    fn lines(&self, now: &Candidate, attaches: bool) -> Vec<String> {
        let [made, once, each] = self.statements(now.page_size);
        let of_attached = of_attached(&[&made, &once, &each]);
        let mut lines = Vec::new();
        if !(made.is_empty() && once.is_empty()) {
            let when = match made.is_empty() {
                true => "once; it stays with the database",
                false => "a new database, once, before its first table",
            };
            lines.push(format!("-- {when}:"));
            lines.extend(made.into_iter().chain(once));
        }
        lines.push("-- each connection, when it is opened:".to_owned());
        lines.extend(each);
        if attaches {
            lines.push(
                "-- each file that it attaches (ATTACH … AS NAME), for SQLite gives that its defaults:"
                    .to_owned(),
            );
            lines.extend(of_attached);
        }
        if self.page_size != now.page_size {
            lines.push(
                "-- NOT for the program: run once, by hand, on a database that exists and nobody has open:"
                    .to_owned(),
            );
            // In WAL mode VACUUM keeps the size of the pages.
            lines.push("PRAGMA journal_mode = DELETE;".to_owned());
            lines.push(format!("PRAGMA page_size = {};", self.page_size));
            lines.push("VACUUM;".to_owned());
            if self.journal_mode == "wal" {
                lines.push("PRAGMA journal_mode = WAL;".to_owned());
            }
        }
        lines
    }
}

/// What of these statements has to be said of an attached file, too.
fn of_attached(statements: &[&Vec<String>]) -> Vec<String> {
    let of_statement = |statement: &String| {
        let setting = statement.strip_prefix("PRAGMA ")?;
        let name = setting.split(' ').next()?;
        OF_ONE_FILE.contains(&name).then(|| format!("-- PRAGMA NAME.{setting}"))
    };
    statements.iter().flat_map(|all| all.iter()).filter_map(of_statement).collect()
}
