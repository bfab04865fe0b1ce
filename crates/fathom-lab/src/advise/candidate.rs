//! A setting that is tried.

use std::collections::BTreeMap;

use fathom_workload::engine::{Dialect, engine_named};
use fathom_workload::spec::EngineSpec;
use serde::Serialize;

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
        for (key, value) in &engine.settings {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_lowercase);
            found.set(key, &value);
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
        let default = Candidate::default();
        usize::from(self.journal_mode != default.journal_mode)
            + usize::from(self.synchronous != default.synchronous)
            + usize::from(self.page_size != default.page_size)
            + self.more.len()
    }

    /// The statements that bring it about, each with what must be known of it, in the order in
    /// which they have to be given.
    #[must_use]
    pub fn pragmas(&self) -> Vec<(String, &'static str)> {
        let mut all = Vec::new();
        if self.page_size != 4096 {
            let of_new =
                "before the first table; a database that exists needs journal_mode = DELETE, this, VACUUM";
            all.push((format!("PRAGMA page_size = {};", self.page_size), of_new));
        }
        let of_connection = "each connection, when it is opened";
        let (first, rest): (Vec<_>, Vec<_>) = self.more.iter().partition(|pair| pair.0 == "locking_mode");
        for (key, value) in first {
            all.push((format!("PRAGMA {key} = {};", value.to_uppercase()), of_connection));
        }
        let of_mode = match self.journal_mode.as_str() {
            "wal" => "once; it stays with the database",
            _ => of_connection,
        };
        all.push((format!("PRAGMA journal_mode = {};", self.journal_mode.to_uppercase()), of_mode));
        all.push((format!("PRAGMA synchronous = {};", self.synchronous.to_uppercase()), of_connection));
        for (key, value) in rest {
            all.push((format!("PRAGMA {key} = {value};"), of_connection));
        }
        all
    }
}
