//! PostgreSQL's settings: those that matter for storage, by their own names.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use crate::engine::EngineError;
use crate::params::{Kind, Parameter, Params, Preset, memory_bytes};
use crate::spec::Durability;

const fn setting(name: &'static str, kind: Kind, unit: &'static str, description: &'static str) -> Parameter {
    Parameter { name, kind, default: Preset::Unset, unit, description }
}

pub(super) const SETTINGS: &[Parameter] = &[
    setting(
        "bin_directory",
        Kind::Text,
        "path",
        "where `initdb` and `postgres` are, when not at a usual place",
    ),
    setting("data_checksums", Kind::Boolean, "", "whether the cluster is made with page checksums"),
    setting("fsync", Kind::Boolean, "", "whether the server ever waits for the device"),
    setting(
        "synchronous_commit",
        Kind::TextOf(&["on", "local", "off"]),
        "",
        "whether a commit is acknowledged only after its log is on the device",
    ),
    setting(
        "wal_sync_method",
        Kind::TextOf(&["fdatasync", "fsync", "open_datasync", "open_sync"]),
        "",
        "the call that forces the log to the device",
    ),
    setting(
        "full_page_writes",
        Kind::Boolean,
        "",
        "whether a page's first change after a checkpoint logs the whole page",
    ),
    setting("shared_buffers", Kind::Memory, "", "size of the server's page cache"),
    setting("wal_buffers", Kind::Memory, "", "memory for log not yet written"),
    setting("wal_level", Kind::TextOf(&["minimal", "replica", "logical"]), "", "how much is logged"),
    setting(
        "wal_compression",
        Kind::TextOf(&["off", "on", "pglz", "lz4", "zstd"]),
        "",
        "whether whole pages in the log are compressed",
    ),
    setting("max_wal_size", Kind::Memory, "", "size of the log at which a checkpoint begins"),
    setting("min_wal_size", Kind::Memory, "", "size below which log files are reused instead of removed"),
    setting(
        "checkpoint_timeout",
        Kind::Integer { min: 30, max: 86_400 },
        "s",
        "longest time between two checkpoints",
    ),
    setting(
        "checkpoint_completion_target",
        Kind::Number { min: 0.0, max: 1.0 },
        "",
        "share of that time over which a checkpoint's writes are spread",
    ),
    setting(
        "commit_delay",
        Kind::Integer { min: 0, max: 100_000 },
        "µs",
        "wait before the log is forced, to gather commits",
    ),
    setting(
        "commit_siblings",
        Kind::Integer { min: 0, max: 1000 },
        "transactions",
        "open transactions that commit_delay asks for",
    ),
    setting(
        "effective_io_concurrency",
        Kind::Integer { min: 0, max: 1000 },
        "reads",
        "reads asked of the device at once",
    ),
    setting("work_mem", Kind::Memory, "", "memory for one sort or hash before it goes to a file"),
    setting("maintenance_work_mem", Kind::Memory, "", "memory for making an index or a vacuum"),
    setting("autovacuum", Kind::Boolean, "", "whether dead rows are cleaned away in the background"),
    setting("jit", Kind::Boolean, "", "whether costly queries are compiled"),
];

/// The settings that say where the server is and how its cluster is made; all others are options of
/// the server.
const NOT_OPTIONS: &[&str] = &["bin_directory", "data_checksums"];

/// `name=value` for each setting that the server is started with, after those that every private
/// server has: as many connections as a workload may have threads, and no replication (which
/// `wal_level=minimal` would not allow).
pub(super) fn server_options(settings: &Params) -> Vec<String> {
    let always = ["max_connections=120", "max_wal_senders=0", "cluster_name=fathom"].map(str::to_owned);
    let given = settings.all().iter().filter(|(name, _)| !NOT_OPTIONS.contains(&name.as_str()));
    always.into_iter().chain(given.map(|(name, value)| format!("{name}={}", plain(value)))).collect()
}

fn plain(value: &Json) -> String {
    match value {
        Json::String(text) => text.clone(),
        Json::Bool(true) => "on".into(),
        Json::Bool(false) => "off".into(),
        other => other.to_string(),
    }
}

/// What the server says a setting is.
pub(super) struct Answer {
    /// In the setting's own base unit.
    pub raw: String,
    /// As SHOW writes it.
    pub shown: String,
}

/// Compares what was asked with what the server says, and gives all storage settings as the server
/// shows them.
///
/// # Errors
/// The first setting that the server has otherwise, or does not know.
pub(super) fn verify(
    settings: &Params,
    answers: &BTreeMap<String, Answer>,
) -> Result<BTreeMap<String, String>, EngineError> {
    for parameter in SETTINGS.iter().filter(|parameter| parameter.name != "bin_directory") {
        let Some(asked) = settings.all().get(parameter.name) else { continue };
        let answer = answers.get(parameter.name);
        let same = answer.is_some_and(|answer| match parameter.kind {
            Kind::Memory => memory_bytes(&plain(asked)) == memory_bytes(&answer.shown),
            Kind::Integer { .. } | Kind::Number { .. } => asked.as_f64() == answer.raw.parse().ok(),
            // `on` is the older name of the first compression.
            _ => {
                plain(asked) == answer.shown || (plain(asked), answer.shown.as_str()) == ("on".into(), "pglz")
            }
        });
        if !same {
            let shown = answer.map_or("nothing".to_owned(), |answer| format!("`{}`", answer.shown));
            return Err(EngineError {
                subject: format!("setting {}={}", parameter.name, plain(asked)),
                message: format!("did not take: PostgreSQL reads it back as {shown}"),
                code: 0,
            });
        }
    }
    let shown = SETTINGS.iter().filter_map(|parameter| {
        answers.get(parameter.name).map(|answer| (parameter.name.to_owned(), answer.shown.clone()))
    });
    Ok(shown.collect())
}

/// What the settings promise, by <https://www.postgresql.org/docs/current/runtime-config-wal.html>.
/// The device is taken to honour syncs.
///
/// - `fsync=off`: "unrecoverable data corruption in the event of a power failure or system crash".
/// - `full_page_writes=off`: "might lead to either unrecoverable data corruption, or silent data
///   corruption, after a system failure", unless the file system writes whole pages, which is not
///   known here.
/// - `synchronous_commit=off`: the latest commits can be lost (also by a crash of the server
///   alone), the database is intact.
pub(super) fn durability(settings: &Params) -> Durability {
    let off = |name: &str| settings.is_set(name) && !settings.boolean(name);
    if off("fsync") || off("full_page_writes") {
        Durability::ProcessCrash
    } else if settings.optional_text("synchronous_commit") == Some("off") {
        Durability::PowerCutPrefix
    } else {
        Durability::PowerCut
    }
}
