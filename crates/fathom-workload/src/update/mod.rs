//! `update`: what INSERT, UPDATE and DELETE cost by number of rows (P1, Choi 2020).
//!
//! | the paper | here | why |
//! |---|---|---|
//! | one table of 1,000,000 records of 88 bytes, 8 fields, typical business data: a key, random strings and numbers | the same; see [`record`] for the fields and for how 88 is counted | `rows` scales it |
//! | no value of a non-key field in more than 20 % of the rows | the same, by construction, tested as a property | |
//! | INSERT of one record, 100 times (F1) | phase `insert`, `points` executions, keys after the last | every execution is a sample, so the spikes can be drawn |
//! | UPDATE and DELETE of one record by key, per execution (F2, F4) | phases `update-point`, `delete-point`: `points` different keys drawn evenly | a key deleted twice would delete nothing |
//! | UPDATE and DELETE of ranges of 100 to 750,000 rows from a random start, and of all 1,000,000 (F3, F6) | phases `update-range`, `delete-range`, x = rows: `WHERE id BETWEEN a AND b`; all rows is the range of all rows | DELETE without WHERE is another algorithm in SQLite: it drops the pages unread |
//! | what an UPDATE sets is not said | `salary = salary + 1` | a number that never changes its stored length, so a range costs its rows and no page splits |
//! | each statement by itself | the same: it commits by itself, as durable as the cell's settings make it | |
//! | how the table is refilled after a DELETE is not said | untimed, the same bytes as before: see below | every range works on the full table |
//! | caches not mentioned | the system's cache holds the database, the engine's own is empty (a new connection before each range); with `cold` the system's is empty, too, before each range and each phase of points | every range starts alike |
//!
//! **Ranges beyond `rows`** are left out, and the full table closes the list in their place, so a
//! scaled-down run still has a range of all rows.
//!
//! **Putting the table back.** SQLite: a copy of the loaded file is kept beside it. After deletes
//! the connection is closed and every 64 KiB of the database that differ are rewritten *in place*
//! from the copy, then synced. The file keeps its blocks and its place on the device; nothing is
//! re-inserted, and neither file system nor SQLite sees a new file. (A copy by the system's own
//! call could share blocks on Btrfs and XFS and change what the next write costs.) PostgreSQL: the
//! table is dropped, made anew from a copy in the same order, its key rebuilt, vacuumed, and a
//! checkpoint taken; also before each range UPDATE, because the old versions of rows stay in the
//! table there and a later range would work on a larger one.
//!
//! **What a WAL costs.** A commit that finds more than `wal_autocheckpoint` pages in the WAL moves
//! them into the database within its own timed window, as it does in an application. What is left
//! in the WAL when the connection closes is moved untimed.
//!
//! **Checks, untimed.** Rows changed by each statement; number of rows and sums of three columns
//! after each range; every field of every row after the point updates, after the range updates and
//! at the end; `integrity_check` after the updates, after each range DELETE and at the end
//! (SQLite).

pub mod record;

mod error;
mod expected;
mod phases;
mod restore;
mod table;

use std::collections::BTreeMap;

use crate::params::{Kind, Parameter, Params, Preset};
use crate::sample::Sink;
use crate::workload::{Context, Workload, WorkloadError, WorkloadKind};
use error::{NAME, refused};
use phases::Update;

/// The workload's entry in the registry.
pub static KIND: WorkloadKind = WorkloadKind {
    name: NAME,
    summary: "INSERT, UPDATE and DELETE of points, ranges and a whole table of 88-byte records (P1)",
    parameters: PARAMETERS,
    needs_engine: true,
    needs: |_| None,
    abscissa: "rows",
    one_thread: |_| true,
    samples: |params| {
        // All rows may close the list of ranges.
        let ranges = params.integers("ranges").len() as u64 + 1;
        let points = params.count("points").saturating_mul(3);
        points.saturating_add(params.count("range_repeats").saturating_mul(ranges * 2))
    },
    idle: |_| None,
    create,
};

/// The ranges of the paper, and with them all rows.
const PAPER_RANGES: &[i64] = &[100, 500, 1_000, 5_000, 10_000, 50_000, 100_000, 500_000, 750_000, 1_000_000];

/// The phases, in the order in which they run.
const PHASES: &[&str] = &["insert", "update-point", "update-range", "delete-point", "delete-range"];

static PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "rows",
        kind: Kind::Integer { min: 100, max: 100_000_000 },
        default: Preset::Integer(1_000_000),
        unit: "rows",
        description: "Records in the table.",
    },
    Parameter {
        name: "points",
        kind: Kind::Integer { min: 1, max: 1_000_000 },
        default: Preset::Integer(100),
        unit: "executions",
        description: "Executions of the INSERT and of the UPDATE and DELETE by key.",
    },
    Parameter {
        name: "ranges",
        kind: Kind::Integers { min: 1, max: 1_000_000_000 },
        default: Preset::Integers(PAPER_RANGES),
        unit: "rows",
        description: "Sizes of the ranges; those beyond `rows` give way to one of all rows.",
    },
    Parameter {
        name: "range_repeats",
        kind: Kind::Integer { min: 1, max: 1_000 },
        default: Preset::Integer(1),
        unit: "executions",
        description: "Executions of each range, each from another random start.",
    },
    Parameter {
        name: "cold",
        kind: Kind::Boolean,
        default: Preset::Boolean(false),
        unit: "",
        description: "Whether all caches are emptied before each range, and before each phase of points.",
    },
    Parameter {
        name: "phases",
        kind: Kind::TextsOf(PHASES),
        default: Preset::Texts(PHASES),
        unit: "",
        description: "Which parts run; always in the order of this list's default.",
    },
];

fn create(params: Params) -> Result<Box<dyn Workload>, WorkloadError> {
    let (rows, points) = (params.integer("rows"), params.count("points"));
    if points > rows.unsigned_abs() {
        return Err(refused("points", format!("{points} is more than `rows` = {rows}")));
    }
    Ok(Box::new(Update {
        rows,
        points,
        ranges: ranges_within(&params.integers("ranges"), rows),
        range_repeats: params.count("range_repeats"),
        is_cold: params.boolean("cold"),
        phases: params.texts("phases"),
        params,
    }))
}

/// The ranges that fit into the table; where some did not, the whole table closes the list.
fn ranges_within(ranges: &[i64], rows: i64) -> Vec<i64> {
    let mut fitting: Vec<i64> = ranges.iter().copied().filter(|&range| range <= rows).collect();
    if fitting.len() < ranges.len() && !fitting.contains(&rows) {
        fitting.push(rows);
    }
    fitting
}

impl Workload for Update {
    fn run(&self, context: &Context<'_>, sink: &mut dyn Sink) -> Result<(), WorkloadError> {
        let engine = context
            .engine
            .ok_or_else(|| refused("engine", "this workload needs one, e.g. name = \"sqlite\"".into()))?;
        phases::run(self, engine, context.seed, sink)
    }

    fn parameters(&self) -> BTreeMap<String, serde_json::Value> {
        let mut all = self.params.all().clone();
        // What really runs, so that a reader of the record need not know the rule.
        all.insert("ranges".into(), self.ranges.clone().into());
        all
    }
}

#[cfg(test)]
mod tests;
