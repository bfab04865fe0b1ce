//! `mobibench-sql`: the SQLite half of Mobibench (P4): inserts, updates and deletes in small
//! transactions.
//!
//! The facts about the original are those of ESOS-Lab's Mobibench (its help text and its main
//! loop); the code is our own.
//!
//! | the original | here | why |
//! |---|---|---|
//! | `-n` transactions (10), divided by the threads | `transactions` (1000, as P4), the same; a remainder is not lost | |
//! | `-T` tables (3, at most 20), all written in each transaction | `tables`, the same | |
//! | `-D` databases (1, at most 20), attached to one connection and all written in each transaction | `databases`, at most 11: SQLite's own limit on attached databases | |
//! | `-t` threads (1, at most 100), each with files of its own | `threads`, the same; `shared` (false) puts all on one file | several connections on one file wait for each other: waits are reported |
//! | `-d` 0 insert, 1 update, 2 delete: one a program run | `phases`, a list, always in this order; each is a phase of that name, on a new connection | one run gives the whole table |
//! | `-R` ids inserted in random order | `random_insert` | |
//! | until 2017 one table, `AUTOINCREMENT` and autocommit | `tables = 1`, `autoincrement` (false); one statement is one transaction with or without `BEGIN` | P4 (2015) used that one; SQLite keeps the greatest id of such tables in one of its own and writes that too |
//! | `-i` pause after each transaction, ms | `interval_ms`: in the phase's wall time, as in the original, in no transaction's | |
//! | `-j` journal mode (truncate), `-s` synchronous (full), page size 4096 | the engine's `journal_mode`, `synchronous`, `page_size` | settings are the engine's, and read back |
//! | one transaction = the text `BEGIN;` a statement per table `COMMIT;` by one `sqlite3_exec` | `statements = "text"`, the same; `"prepared"` binds values to statements prepared before | |
//! | `INSERT (id, Value)`, ids 0, 1, 2 …; Value is one constant of 100 letters | the same with random values, another one each time; `value_bytes` (100) | a device or file system that compresses or deduplicates must not win |
//! | `UPDATE … SET Value WHERE id =` another random id for each table; id 0 is never hit, one id too many is | the same, always an id that exists | an update of nothing is cheaper |
//! | `DELETE … WHERE id =` one random id for all tables, none twice | the same | |
//! | before update and delete, tables are filled up to `-n` rows | `rows` (as many as transactions) | |
//! | with WAL, one passive checkpoint at the end, inside the timed window | the same (`checkpoint`, true): in the phase's wall time and split, not a transaction of its own | |
//! | results of statements are not looked at; failed transactions count | a failed statement fails the run; prepared statements must change one row each; after each phase every row is compared with what it must hold, and at the end `integrity_check` runs, all outside the timed window | |
//! | `-g` replay of a MobiGen script | not here: traces have their own workload | |
//!
//! On PostgreSQL the same statements run with `bigint` for `long`, and the checkpoint is the
//! server's `CHECKPOINT`.
//!
//! **Results.** Transactions per second are the summary's `count` over `wall_ns`. Making the text
//! of a transaction happens between transactions and so is in the phase's wall time, as in the
//! original, but in no transaction's.

mod content;
mod phase;
mod plan;
mod sql;
#[cfg(test)]
mod tests;
mod verify;

use std::collections::BTreeMap;

use crate::params::{Kind, Parameter, Params, Preset};
use crate::sample::Sink;
use crate::workload::{Context, Workload, WorkloadError, WorkloadKind};
use content::Content;
use plan::{Operation, Plan};

/// The workload's entry in the registry.
pub static KIND: WorkloadKind = WorkloadKind {
    name: NAME,
    summary: "Mobibench's SQLite work (P4): insert, update and delete in transactions of one row per table",
    parameters: PARAMETERS,
    needs_engine: true,
    needs: |_| None,
    abscissa: "",
    one_thread: |params| params.count("threads") == 1,
    samples: |params| params.count("transactions").saturating_mul(Operation::NAMES.len() as u64),
    idle: |_| None,
    create,
};

const NAME: &str = "mobibench-sql";

static PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "transactions",
        kind: Kind::Integer { min: 1, max: 10_000_000 },
        default: Preset::Integer(1000),
        unit: "",
        description: "Transactions of each phase, all threads together.",
    },
    Parameter {
        name: "tables",
        kind: Kind::Integer { min: 1, max: 20 },
        default: Preset::Integer(3),
        unit: "",
        description: "Tables of each database; a transaction writes one row of each.",
    },
    Parameter {
        name: "databases",
        kind: Kind::Integer { min: 1, max: 11 },
        default: Preset::Integer(1),
        unit: "",
        description: "Databases that each transaction writes, attached to one connection.",
    },
    Parameter {
        name: "threads",
        kind: Kind::Integer { min: 1, max: 100 },
        default: Preset::Integer(1),
        unit: "",
        description: "Threads, each with a connection and, unless `shared`, databases of its own.",
    },
    Parameter {
        name: "shared",
        kind: Kind::Boolean,
        default: Preset::Boolean(false),
        unit: "",
        description: "Whether all threads work on the same databases, in rows of their own.",
    },
    Parameter {
        name: "phases",
        kind: Kind::TextsOf(Operation::NAMES),
        default: Preset::Texts(Operation::NAMES),
        unit: "",
        description: "What is measured; always in the order insert, update, delete.",
    },
    Parameter {
        name: "rows",
        kind: Kind::Integer { min: 1, max: 100_000_000 },
        default: Preset::Unset,
        unit: "rows",
        description: "Rows of each table before update and delete, all threads together; as many as transactions when not given.",
    },
    Parameter {
        name: "value_bytes",
        kind: Kind::Integer { min: 1, max: 1_000_000 },
        default: Preset::Integer(100),
        unit: "bytes",
        description: "Length of the random text in each row.",
    },
    Parameter {
        name: "random_insert",
        kind: Kind::Boolean,
        default: Preset::Boolean(false),
        unit: "",
        description: "Whether ids are inserted in random order instead of ascending.",
    },
    Parameter {
        name: "autoincrement",
        kind: Kind::Boolean,
        default: Preset::Boolean(false),
        unit: "",
        description: "Whether ids are never used again (AUTOINCREMENT), as in Mobibench until 2017.",
    },
    Parameter {
        name: "statements",
        kind: Kind::TextOf(&["text", "prepared"]),
        default: Preset::Text("text"),
        unit: "",
        description: "Whether a transaction is one text of SQL, as in the original, or prepared statements.",
    },
    Parameter {
        name: "interval_ms",
        kind: Kind::Integer { min: 0, max: 10_000 },
        default: Preset::Integer(0),
        unit: "ms",
        description: "Pause after each transaction; it counts in the rate.",
    },
    Parameter {
        name: "checkpoint",
        kind: Kind::Boolean,
        default: Preset::Boolean(true),
        unit: "",
        description: "Whether a phase ends with a checkpoint of the write-ahead log, inside the timed window.",
    },
];

/// The workload, its parameters checked.
struct MobibenchSql {
    params: Params,
    plan: Plan,
    operations: Vec<Operation>,
}

fn create(params: Params) -> Result<Box<dyn Workload>, WorkloadError> {
    let transactions = params.count("transactions");
    let rows = params.optional_integer("rows").map_or(transactions, i64::unsigned_abs);
    if rows < transactions {
        let problem =
            format!("must be at least as many as transactions ({transactions}): each deletes another row");
        return Err(refused("rows", problem));
    }
    let threads = params.count("threads");
    if transactions < threads {
        return Err(refused("threads", format!("must be at most as many as transactions ({transactions})")));
    }
    let listed = params.texts("phases");
    let operations =
        Operation::ALL.into_iter().filter(|operation| listed.iter().any(|name| name == operation.name()));
    let plan = Plan {
        transactions,
        rows,
        tables: params.count("tables"),
        databases: params.count("databases"),
        threads,
        shared: params.boolean("shared"),
        value_bytes: usize::try_from(params.count("value_bytes")).unwrap_or(usize::MAX),
        random_insert: params.boolean("random_insert"),
        autoincrement: params.boolean("autoincrement"),
        prepared: params.text("statements") == "prepared",
        interval: std::time::Duration::from_millis(params.count("interval_ms")),
        checkpoint: params.boolean("checkpoint"),
    };
    Ok(Box::new(MobibenchSql { operations: operations.collect(), plan, params }))
}

fn refused(parameter: &str, problem: String) -> WorkloadError {
    WorkloadError::refused(NAME, parameter, problem)
}

impl Workload for MobibenchSql {
    fn run(&self, context: &Context<'_>, sink: &mut dyn Sink) -> Result<(), WorkloadError> {
        let engine = context.engine.ok_or_else(|| refused("engine", "this workload needs one".into()))?;
        let plan = &self.plan;
        let mut contents: Vec<Content> =
            (0..plan.threads).map(|thread| Content::new(plan, context.seed, thread)).collect();
        for (done, &operation) in self.operations.iter().enumerate() {
            phase::run(plan, engine, operation, &mut contents, sink)?;
            verify::contents(plan, engine, operation.name(), &contents, sink)?;
            sink.progress((done + 1) as f64 / self.operations.len() as f64);
        }
        verify::integrity(plan, engine, sink)
    }

    fn parameters(&self) -> BTreeMap<String, serde_json::Value> {
        self.params.all().clone()
    }
}
