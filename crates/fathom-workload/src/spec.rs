//! What a cell asks for: a workload with its parameters and an engine with its settings, as written
//! in an experiment file.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// A workload by name, with its parameters (numbers, strings, booleans, lists) as JSON values.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkloadSpec {
    /// `update`, `chat`, `mobibench-sql`, `mobibench-file` …
    pub name: String,
    /// Parameters by name; the workload checks names, types and ranges.
    #[serde(flatten)]
    pub params: BTreeMap<String, serde_json::Value>,
}

/// An engine by name, with its settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EngineSpec {
    /// `sqlite` (bundled, or the library at setting `library`) or `postgresql`.
    pub name: String,
    /// Settings by their own names (`journal_mode`, `synchronous`, `page_size` …; `library` = path
    /// of a libsqlite3.so).
    #[serde(flatten)]
    pub settings: BTreeMap<String, serde_json::Value>,
}

/// What survives of acknowledged commits. The worst that the settings promise, by the engine's
/// documentation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Durability {
    /// Nothing is promised, not even an intact database after a process crash (`journal_mode=off`).
    None,
    /// All commits survive a crash of the process; a power cut can lose or corrupt the database
    /// (`synchronous=off`).
    ProcessCrash,
    /// A power cut keeps the database intact and a prefix of the commits (WAL with
    /// `synchronous=normal`).
    PowerCutPrefix,
    /// A power cut keeps all but at most the last commit (DELETE with `synchronous=full`: the
    /// directory is not synced).
    PowerCutAllButLast,
    /// A power cut keeps every acknowledged commit.
    PowerCut,
    /// As that, and each acknowledged commit is on two nodes at least: one of them, and its disk,
    /// may be lost. On one machine all nodes share both.
    OneNode,
}
