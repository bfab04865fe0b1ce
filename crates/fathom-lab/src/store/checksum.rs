//! What tells that a results file is as it was written.
//!
//! Every run has a checksum over all its rows, and what belongs to no run (experiment, environment,
//! cells, general warnings) has one under the number 0. SQLite's own check sees that pages, records
//! and indexes fit together; a flipped bit within a number fits as well as the right one did, and
//! would be reported as a measurement.
//!
//! A checksum is the sum, modulo 2^64, of the FNV-1a hashes (64 bits,
//! <http://www.isthe.com/chongo/tech/comp/fnv/>) of the rows. A row is hashed as its table's name
//! and its columns, each with its type and, for texts, its length. One changed bit changes its
//! row's hash with certainty, for every step of FNV-1a can be undone; more of them go unnoticed
//! once in 2^64. The order of the rows plays no part, so that a file may be checked in the order in
//! which it lies on the disk, and vacuumed.

use std::collections::BTreeMap;

use fathom_ground::fnv::{EMPTY, fnv1a};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, Row, params};

/// Under this number is the checksum of what belongs to no run.
pub(super) const HEAD: i64 = 0;

/// Tables whose first column is the number of a run, and that column's name; those that a file's
/// version has.
const OF_RUNS: [(&str, &str); 11] = [
    ("run", "id"),
    ("phase", "run"),
    ("sample", "run"),
    ("io", "run"),
    ("trace", "run"),
    ("phase_window", "run"),
    ("block_request", "run"),
    ("verified", "run"),
    ("warning", "run"),
    // Since version 7.
    ("phase_model", "run"),
    // Since version 9.
    ("recording", "run"),
];
/// Tables that belong to no run; those that a file's version has.
const OF_ALL: [&str; 4] = [
    "experiment",
    "environment",
    "cell",
    // Since version 11.
    "power_cut",
];

/// All tables that checksums are of: those of the head first.
pub(super) fn tables() -> impl Iterator<Item = &'static str> {
    OF_ALL.into_iter().chain(OF_RUNS.map(|(table, _)| table))
}

struct Fnv(u64);

impl Fnv {
    fn add(&mut self, bytes: &[u8]) {
        self.0 = fnv1a(self.0, bytes);
    }
}

fn hash(table: &str, row: &Row<'_>, columns: usize) -> rusqlite::Result<u64> {
    let mut fnv = Fnv(EMPTY);
    fnv.add(table.as_bytes());
    for column in 0..columns {
        match row.get_ref(column)? {
            ValueRef::Null => fnv.add(&[0]),
            ValueRef::Integer(value) => {
                fnv.add(&[1]);
                fnv.add(&value.to_le_bytes());
            }
            ValueRef::Real(value) => {
                fnv.add(&[2]);
                fnv.add(&value.to_bits().to_le_bytes());
            }
            ValueRef::Text(bytes) => {
                fnv.add(&[3]);
                fnv.add(&(bytes.len() as u64).to_le_bytes());
                fnv.add(bytes);
            }
            ValueRef::Blob(bytes) => {
                fnv.add(&[4]);
                fnv.add(&(bytes.len() as u64).to_le_bytes());
                fnv.add(bytes);
            }
        }
    }
    Ok(fnv.0)
}

/// Adds the rows that `condition` chooses to the checksums of their runs, or of the head.
fn add(
    db: &Connection,
    table: &str,
    is_of_runs: bool,
    condition: &str,
    sums: &mut BTreeMap<i64, u64>,
) -> rusqlite::Result<()> {
    let mut select = db.prepare_cached(&format!("SELECT * FROM {table} {condition}"))?;
    let columns = select.column_count();
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let run = if is_of_runs { row.get::<_, Option<i64>>(0)?.unwrap_or(HEAD) } else { HEAD };
        let sum = sums.entry(run).or_default();
        *sum = sum.wrapping_add(hash(table, row, columns)?);
    }
    Ok(())
}

/// Writes the checksum of a run as it lies in the file now.
pub(super) fn store_run(db: &Connection, run: i64) -> rusqlite::Result<()> {
    let mut sums = BTreeMap::from([(run, 0)]);
    for (table, column) in OF_RUNS {
        if !has(db, table)? {
            continue;
        }
        add(db, table, true, &format!("WHERE {column} = {run}"), &mut sums)?;
    }
    store(db, run, sums[&run])
}

/// Writes the checksum of what belongs to no run.
pub(super) fn store_head(db: &Connection) -> rusqlite::Result<()> {
    let mut sums = BTreeMap::from([(HEAD, 0)]);
    for table in OF_ALL {
        if !has(db, table)? {
            continue;
        }
        add(db, table, false, "", &mut sums)?;
    }
    add(db, "warning", true, "WHERE run IS NULL", &mut sums)?;
    store(db, HEAD, sums[&HEAD])
}

/// Whether the file has a table: earlier versions have not all of them.
pub(super) fn has(db: &Connection, table: &str) -> rusqlite::Result<bool> {
    let sql = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = ?";
    db.query_row(sql, [table], |row| row.get(0))
}

fn store(db: &Connection, run: i64, sum: u64) -> rusqlite::Result<()> {
    db.execute("INSERT OR REPLACE INTO checksum VALUES (?, ?)", params![run, sum.cast_signed()]).map(drop)
}

/// The runs (and [`HEAD`]) that are not as they were written, are gone, or were never written by
/// Fathom; one pass over the file.
pub(super) fn differing(db: &Connection) -> rusqlite::Result<Vec<i64>> {
    let mut found = BTreeMap::from([(HEAD, 0)]);
    for table in OF_ALL {
        if !has(db, table)? {
            continue;
        }
        add(db, table, false, "", &mut found)?;
    }
    for (table, _) in OF_RUNS {
        if has(db, table)? {
            add(db, table, true, "NOT INDEXED", &mut found)?;
        }
    }
    let mut written = BTreeMap::new();
    let mut select = db.prepare("SELECT run, sum FROM checksum")?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        written.insert(row.get::<_, i64>(0)?, row.get::<_, i64>(1)?.cast_unsigned());
    }
    let mut all: Vec<i64> = found.keys().chain(written.keys()).copied().collect();
    all.sort_unstable();
    all.dedup();
    all.retain(|run| found.get(run) != written.get(run));
    Ok(all)
}
