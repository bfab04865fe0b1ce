//! `chat`: where a query's time goes in a messenger's database (P2; Shin, Jang, Lee, Lee, Park).
//!
//! | the paper | here | why |
//! |---|---|---|
//! | KakaoTalk's table `chat_logs`, 12 columns, five indexes | the same, word for word ([`schema`]) | |
//! | a phone's own data | generated ([`message`]): chats by Zipf's law, Korean and English text, attachments as JSON, times in bursts; `rows` (100,000), seeded | nobody's messages, and the same for everybody |
//! | how the table was filled is not said | row by row with all indexes in place, in one transaction | so table and index pages lie mixed in the file, as in an application's |
//! | `SELECT * FROM chat_logs`, and the same `ORDER BY rowid DESC` (F2) | phases `select-asc`, `select-desc`, `queries` executions each | |
//! | `SELECT` of 1 to 12 columns `… ORDER BY rowid DESC` (F2) | phase `select-columns`, x = number of columns, the table's first x; `queries` executions each | which columns is not said |
//! | page cache dropped before each query | the connection is closed, the engine forgets, the page cache is emptied; then a new connection prepares the statement (which reads the schema's page), and the clock starts | as root the machine's cache, else these files' pages: the result says which, and warns where it failed |
//! | 20 runs, highest and lowest dropped, mean of the rest | every run is a sample; the trimmed mean is the analysis's | nothing is thrown away |
//! | UPDATE of 1000 rows at random rowids between min and max, `SET col = col + 10`, col = `chat_id` (four indexes) or `is_temp` (none) (F3) | phases `update-chat_id`, `update-is_temp`, `writes` executions each, on the same rowids | the pair differs in the column only |
//! | whether `chat_id + 10` can break UNIQUE (chat_id, id) is not said | it cannot: the generator gives every row another `id` | a failed statement would fail the run |
//! | INSERT of 1000 rows, DELETE of 1000 rows (F4) | phases `insert`, `delete`; different random rowids are deleted | a rowid deleted twice would delete nothing |
//! | each statement by itself; journal DELETE and WAL | each commits by itself; the journal is the engine's setting | |
//! | caches before writes are not mentioned | warm: one connection for each phase, the system's cache as the phase before left it | |
//!
//! `phases` chooses among `select`, `update`, `insert` and `delete`; they run in this order on one
//! table.
//!
//! **Checks, untimed.** Rows of every query; rows changed by every statement; at the end every
//! column of every row, and `integrity_check`.

pub mod message;
pub mod schema;
pub mod text;
pub mod zipf;

mod error;
mod expected;
mod select;
mod table;
mod write;

use std::collections::BTreeMap;

use crate::engine::{Dialect, Engine};
use crate::params::{Kind, Parameter, Params, Preset};
use crate::sample::Sink;
use crate::workload::{Context, Workload, WorkloadError, WorkloadKind};
use error::{NAME, refused};
use expected::ExpectedTable;
use message::Messages;

/// The workload's entry in the registry.
pub static KIND: WorkloadKind = WorkloadKind {
    name: NAME,
    summary: "Scans with cold caches and single-row writes on KakaoTalk's chat_logs (P2)",
    parameters: PARAMETERS,
    needs_engine: true,
    needs: |_| None,
    abscissa: "columns",
    one_thread: |_| true,
    samples: |params| {
        let (selects, writes) = (message::COLUMN_NAMES.len() as u64 + 2, 4);
        let queries = params.count("queries").saturating_mul(selects);
        queries.saturating_add(params.count("writes").saturating_mul(writes))
    },
    idle: |_| None,
    create,
};

/// The groups of phases, in the order in which they run.
const PHASES: &[&str] = &["select", "update", "insert", "delete"];

static PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "rows",
        kind: Kind::Integer { min: 10, max: 100_000_000 },
        default: Preset::Integer(100_000),
        unit: "rows",
        description: "Messages in the table.",
    },
    Parameter {
        name: "chats",
        kind: Kind::Integer { min: 1, max: 1_000_000 },
        default: Preset::Integer(300),
        unit: "",
        description: "Chats that the messages belong to.",
    },
    Parameter {
        name: "zipf",
        kind: Kind::Number { min: 0.0, max: 4.0 },
        default: Preset::Number(1.0),
        unit: "",
        description: "Exponent of the chats' activity: 0 = all alike, 1 = as people do.",
    },
    Parameter {
        name: "queries",
        kind: Kind::Integer { min: 1, max: 10_000 },
        default: Preset::Integer(20),
        unit: "executions",
        description: "Executions of each SELECT, each with cold caches.",
    },
    Parameter {
        name: "writes",
        kind: Kind::Integer { min: 1, max: 1_000_000 },
        default: Preset::Integer(1_000),
        unit: "executions",
        description: "Executions of each UPDATE, of the INSERT and of the DELETE.",
    },
    Parameter {
        name: "phases",
        kind: Kind::TextsOf(PHASES),
        default: Preset::Texts(PHASES),
        unit: "",
        description: "Which groups of statements run; always in the order of this list's default.",
    },
];

/// The workload, its parameters checked.
struct Chat {
    params: Params,
    rows: u64,
    queries: u64,
    writes: u64,
    phases: Vec<String>,
}

fn create(params: Params) -> Result<Box<dyn Workload>, WorkloadError> {
    let (rows, writes, phases) = (params.count("rows"), params.count("writes"), params.texts("phases"));
    if phases.iter().any(|phase| phase == "delete") && writes > rows {
        return Err(refused("writes", format!("{writes} rows cannot be deleted from `rows` = {rows}")));
    }
    Ok(Box::new(Chat { rows, queries: params.count("queries"), writes, phases, params }))
}

impl Workload for Chat {
    fn run(&self, context: &Context<'_>, sink: &mut dyn Sink) -> Result<(), WorkloadError> {
        let engine = self.engine(context)?;
        let messages =
            Messages::new(context.seed, self.params.count("chats") as usize, self.params.number("zipf"));
        let mut expected = ExpectedTable::new(messages);
        table::load(engine, self.rows, &mut expected)?;
        let steps = self.phases.len() as f64 + 1.0;
        let mut done = 0.5;
        sink.progress(done / steps);
        for &phase in PHASES {
            if !self.phases.iter().any(|wanted| wanted == phase) {
                continue;
            }
            match phase {
                "select" => select::run(engine, self.rows, self.queries, sink, done / steps, 1.0 / steps)?,
                "update" => write::updates(engine, self.writes, context.seed, &mut expected, sink)?,
                "insert" => write::inserts(engine, self.writes, &mut expected, sink)?,
                _ => write::deletes(engine, self.writes, context.seed, &mut expected, sink)?,
            }
            done += 1.0;
            sink.progress(done / steps);
        }
        table::check(engine, &expected, sink)?;
        sink.progress(1.0);
        Ok(())
    }

    fn parameters(&self) -> BTreeMap<String, serde_json::Value> {
        self.params.all().clone()
    }
}

impl Chat {
    fn engine<'a>(&self, context: &Context<'a>) -> Result<&'a dyn Engine, WorkloadError> {
        match context.engine {
            Some(engine) if engine.dialect() == Dialect::Sqlite => Ok(engine),
            _ => Err(refused("engine", "must be sqlite: the paper's statements use SQLite's rowid".into())),
        }
    }
}

#[cfg(test)]
mod tests;
