//! PostgreSQL's settings: those that matter for storage, by their own names.

use crate::params::{Kind, Parameter, Preset};

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
