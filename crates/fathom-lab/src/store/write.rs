//! Makes and fills results.db.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fathom_probe::Split;
use fathom_workload::critical::CriticalPath;
use fathom_workload::sample::WarningKind;
use rusqlite::{Connection, OpenFlags, Statement, ToSql, Transaction, params, params_from_iter};

use super::json::{json, unquote};
use super::rows::{CellRow, CutRow, ExperimentRow, RunRecord, RunStatus, TraceRecord};
use super::{APPLICATION_ID, Lock, Results, SCHEMA, StoreError, VERSION, checksum};
use crate::model_time::PhaseModel;

/// The one writer of a results file.
#[derive(Debug)]
pub struct Writer {
    // Fields are dropped in this order, and the lock's file must be closed last: see `Lock`.
    db: Connection,
    path: PathBuf,
    lock: Lock,
}

/// SQLite integers are signed; a count beyond 2^63 ns (292 years) cannot be measured, so saturating
/// loses nothing.
fn int(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// What SQLite puts beside a database.
const PARTS: [&str; 3] = ["-wal", "-shm", "-journal"];

pub(super) fn beside(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

/// Whether a new results file may have a name. To be asked before anything is made, too.
///
/// # Errors
/// SQLite takes the name for a part of another database; what it would take for a part of the
/// results is there already, and was not put there by them.
pub fn check_new(path: &Path) -> Result<(), StoreError> {
    check_name(path)?;
    let stray = PARTS.iter().map(|end| beside(path, end)).find(|path| path.symlink_metadata().is_ok());
    stray.map_or(Ok(()), |path| Err(StoreError::Stray { path }))
}

fn check_name(path: &Path) -> Result<(), StoreError> {
    match fathom_output::is_journal(path) {
        true => Err(StoreError::PartsName { path: path.to_path_buf() }),
        false => Ok(()),
    }
}

impl Writer {
    /// Makes a new results file with its experiment, environment and cells, in one transaction.
    ///
    /// # Errors
    /// [`StoreError::Exists`] where there is a file already (of any kind: nothing is overwritten);
    /// a directory that cannot be written; a full disk; a name that [`check_new`] refuses.
    pub fn create(
        path: &Path,
        experiment: &ExperimentRow,
        environment: &BTreeMap<String, String>,
        cells: &[CellRow],
    ) -> Result<Writer, StoreError> {
        if path.symlink_metadata().is_err() {
            check_new(path)?;
        }
        // `create_new` decides between two processes that start at once; SQLite takes an empty file
        // for a new database.
        let lock = match std::fs::OpenOptions::new().write(true).create_new(true).open(path) {
            Ok(file) => Lock::of(path, file)?,
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                return Err(StoreError::Exists { path: path.to_path_buf() });
            }
            Err(error) if error.kind() == std::io::ErrorKind::StorageFull => {
                return Err(StoreError::NoRoom { path: path.to_path_buf() });
            }
            Err(error) => {
                return Err(StoreError::ReadOnly { path: path.to_path_buf(), detail: error.to_string() });
            }
        };
        let made = Self::fill(path, lock, experiment, environment, cells).map_err(StoreError::of_making);
        if made.is_err() {
            // The file is ours, seconds old and holds nothing: a next attempt must not find it in
            // its way.
            for end in [""].iter().chain(&PARTS) {
                let _ = std::fs::remove_file(beside(path, end));
            }
        }
        made
    }

    fn fill(
        path: &Path,
        lock: Lock,
        experiment: &ExperimentRow,
        environment: &BTreeMap<String, String>,
        cells: &[CellRow],
    ) -> Result<Writer, StoreError> {
        let fail = |error| StoreError::from_sqlite(path, error);
        // Before WAL: the mark must be in the file itself, where a reader looks before it lets
        // SQLite open anything.
        Connection::open(path)
            .and_then(|db| db.pragma_update(None, "application_id", APPLICATION_ID))
            .map_err(fail)?;
        let mut writer = Self::connect(path, lock)?;
        let db = &mut writer.db;
        let transaction = db.transaction().map_err(fail)?;
        transaction.execute_batch(SCHEMA).map_err(fail)?;
        transaction
            .execute(
                "INSERT INTO experiment VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                params![
                    experiment.name,
                    experiment.title,
                    experiment.source,
                    experiment.source_name,
                    experiment.command,
                    experiment.seed.cast_signed(),
                    experiment.repeats,
                    experiment.quick,
                    experiment.fathom_version,
                    experiment.started_ms,
                    experiment.finished_ms,
                ],
            )
            .map_err(fail)?;
        for (key, value) in environment {
            transaction
                .execute("INSERT INTO environment VALUES (?, ?)", params![key, value])
                .map_err(fail)?;
        }
        for cell in cells {
            transaction
                .execute(
                    "INSERT INTO cell VALUES (?, ?, ?, ?, ?, ?)",
                    params![
                        cell.id,
                        cell.label,
                        json(&cell.axes),
                        json(&cell.spec),
                        cell.durability.map(|durability| word(&durability)),
                        cell.skipped
                    ],
                )
                .map_err(fail)?;
        }
        checksum::store_head(&transaction).map_err(fail)?;
        transaction.pragma_update(None, "user_version", VERSION).map_err(fail)?;
        transaction.commit().map_err(fail)?;
        Ok(writer)
    }

    /// Opens a results file that was read, and so checked, to go on with it (`--resume`).
    ///
    /// # Errors
    /// A file that cannot be written, or was begun in an earlier format; one that another process
    /// writes to, or has written to since it was read.
    pub fn resume(results: Results) -> Result<Writer, StoreError> {
        let path = results.path().to_path_buf();
        check_name(&path)?;
        if results.is_excerpt() {
            return Err(StoreError::Excerpt { path });
        }
        if results.version < VERSION {
            return Err(StoreError::Older { path, found: results.version, written: VERSION });
        }
        // Its connection closes first: the last one to close removes the write-ahead log.
        let seen: Vec<(i64, RunStatus)> = results.runs.iter().map(|run| (run.id, run.status)).collect();
        drop(results);
        let lock = Lock::take(&path)?;
        // Between reading and locking another one may have begun and ended.
        let now = Results::load(&path)?;
        if now.runs.iter().map(|run| (run.id, run.status)).ne(seen) {
            let holder = "another process (which has ended just now)".to_owned();
            return Err(StoreError::Busy { path, holder });
        }
        drop(now);
        Self::connect(&path, lock)
    }

    fn connect(path: &Path, lock: Lock) -> Result<Writer, StoreError> {
        let fail = |error| StoreError::from_sqlite(path, error);
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(path, flags).map_err(fail)?;
        db.busy_timeout(Duration::from_secs(10)).map_err(fail)?;
        let mode: String = db.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0)).map_err(fail)?;
        if mode != "wal" {
            return Err(StoreError::Other {
                path: path.to_path_buf(),
                detail: format!(
                    "results are kept in WAL mode, but SQLite answered `{mode}`: this file system may not support \
                     shared memory. Choose another place with `--out FILE.db`"
                ),
            });
        }
        db.pragma_update(None, "foreign_keys", true).map_err(fail)?;
        db.pragma_update(None, "synchronous", "full").map_err(fail)?;
        Ok(Writer { db, path: path.to_path_buf(), lock })
    }

    /// Where the file is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Lets the file grow no further, as a full disk would.
    #[cfg(test)]
    pub(super) fn limit_pages(&self, pages: u32) {
        self.db.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(())).unwrap();
    }

    /// Writes a run, whole, in one transaction, and gives its number. A failed run of the same cell
    /// and block is replaced (that is what `--resume` repeats); a good one never is.
    ///
    /// # Errors
    /// A full disk; a (cell, block) that has a good run already.
    pub fn record(&mut self, record: &RunRecord) -> Result<i64, StoreError> {
        self.at_its_place(|writer| writer.try_record(record))
    }

    /// Writes in one transaction, which ends with the checksum of all that is of no single run.
    fn write_head(
        &mut self,
        write: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<()>,
    ) -> Result<(), StoreError> {
        self.at_its_place(|writer| {
            let transaction = writer.db.transaction()?;
            write(&transaction)?;
            checksum::store_head(&transaction)?;
            transaction.commit()
        })
    }

    /// Writes, if the file still has its name. Another file of that name would get our write-ahead
    /// log, which SQLite would take for its own.
    fn at_its_place<T>(
        &mut self,
        write: impl FnOnce(&mut Writer) -> rusqlite::Result<T>,
    ) -> Result<T, StoreError> {
        if !self.lock.is_of(&self.path) {
            return Err(StoreError::Moved { path: self.path.clone() });
        }
        let written = write(self).map_err(|error| StoreError::from_sqlite(&self.path, error))?;
        // All of it is in the file after every write, so that a file which is moved has it, and one
        // that takes its place has an empty log beside it. Where a reader is at work, or the disk
        // is full, it is there with a later one.
        let _ = self.db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        Ok(written)
    }

    fn try_record(&mut self, record: &RunRecord) -> rusqlite::Result<i64> {
        let transaction = self.db.transaction()?;
        let row = &record.row;
        for table in [
            "block_request",
            "phase_window",
            "trace",
            "phase",
            "phase_model",
            "recording",
            "sample",
            "io",
            "verified",
            "warning",
        ] {
            transaction.execute(
                &format!(
                    "DELETE FROM {table} WHERE run IN \
                     (SELECT id FROM run WHERE cell = ? AND block = ? AND status = 'failed')"
                ),
                params![row.cell, row.block],
            )?;
        }
        transaction.execute(
            "DELETE FROM checksum WHERE run IN (SELECT id FROM run WHERE cell = ? AND block = ? AND status = 'failed')",
            params![row.cell, row.block],
        )?;
        transaction.execute(
            "DELETE FROM run WHERE cell = ? AND block = ? AND status = 'failed'",
            params![row.cell, row.block],
        )?;
        transaction.execute(
            "INSERT INTO run (cell, block, position, seed, status, message, started_ms, elapsed_ns, engine, parameters,
               stack, floor_ns, max_rss_bytes, involuntary_switches, steal_share, load, device, failure, conditions)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            params![
                row.cell,
                row.block,
                row.position,
                row.seed.cast_signed(),
                match row.status {
                    RunStatus::Done => "done",
                    RunStatus::Failed => "failed",
                },
                row.message,
                row.started_ms,
                int(row.elapsed_ns),
                row.engine.as_ref().map(json),
                json(&row.parameters),
                json(&row.stack),
                row.floor_ns.map(int),
                row.max_rss_bytes.map(int),
                row.involuntary_switches.map(int),
                row.steal_share,
                row.load,
                (!row.devices.is_empty()).then(|| json(&row.devices)),
                row.failure.map(|failure| word(&failure)),
                row.conditions.is_known().then(|| json(&row.conditions)),
            ],
        )?;
        let run = transaction.last_insert_rowid();
        {
            let mut insert = transaction.prepare(
                "INSERT INTO phase VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            )?;
            for phase in &record.phases {
                let [min, p50, p90, p99, p999, max] = phase.latency_ns.map(int);
                let (count, wall_ns) = (int(phase.count), int(phase.wall_ns));
                let part =
                    |pick: fn(&CriticalPath) -> u64| phase.critical_path.as_ref().map(|path| int(pick(path)));
                insert_with_split(
                    &mut insert,
                    params![
                        run,
                        phase.phase,
                        phase.x,
                        phase.unit,
                        count,
                        wall_ns,
                        min,
                        p50,
                        p90,
                        p99,
                        p999,
                        max
                    ],
                    &phase.split,
                    params![
                        phase.lock_waits.map(int),
                        phase.lock_wait_ns.map(int),
                        part(|path| path.cpu_ns),
                        part(|path| path.read_ns),
                        part(|path| path.write_ns),
                        part(|path| path.sync_ns),
                        part(|path| path.lock_ns),
                        part(|path| path.other_ns)
                    ],
                )?;
            }
            let mut insert = transaction.prepare(
                "INSERT INTO sample VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            )?;
            let models = record.sample_models.iter().copied().chain(std::iter::repeat(None));
            for (sample, model_ns) in record.samples.iter().zip(models) {
                let (seq, rows) = (int(sample.seq), int(sample.rows));
                insert_with_split(
                    &mut insert,
                    params![run, sample.phase, sample.x, seq, sample.thread, rows],
                    &sample.split,
                    params![model_ns.map(int), sample.database],
                )?;
            }
            let mut insert = transaction.prepare("INSERT INTO io VALUES (?, ?, ?, ?, ?, ?, ?)")?;
            for io in &record.io {
                insert.execute(params![
                    run,
                    io.phase,
                    io.class,
                    io.op,
                    int(io.calls),
                    int(io.bytes),
                    int(io.ns),
                ])?;
            }
        }
        insert_models(&transaction, run, &record.models)?;
        if let Some(data) = &record.recording {
            transaction.execute("INSERT INTO recording VALUES (?, ?)", params![run, data])?;
        }
        if let Some(trace) = &record.trace {
            insert_trace(&transaction, run, trace)?;
        }
        for text in &record.verified {
            transaction.execute("INSERT INTO verified VALUES (?, ?)", params![run, text])?;
        }
        for warning in &record.warnings {
            let kind = word(&warning.kind);
            transaction.execute("INSERT INTO warning VALUES (?, ?, ?)", params![run, warning.text, kind])?;
        }
        if let Some(durability) = record.durability {
            transaction.execute(
                "UPDATE cell SET durability = ? WHERE id = ?",
                params![word(&durability), row.cell],
            )?;
        }
        checksum::store_run(&transaction, run)?;
        checksum::store_head(&transaction)?;
        transaction.commit()?;
        Ok(run)
    }

    /// Brings the cells' reasons for being skipped up to date: what was missing may have been
    /// installed since.
    ///
    /// # Errors
    /// A full disk.
    pub fn skips(&mut self, cells: &[CellRow]) -> Result<(), StoreError> {
        self.write_head(|transaction| {
            for cell in cells {
                transaction
                    .execute("UPDATE cell SET skipped = ? WHERE id = ?", params![cell.skipped, cell.id])?;
            }
            Ok(())
        })
    }

    /// Writes what a power cut leaves of a cell; what was written of it before is replaced.
    ///
    /// # Errors
    /// A full disk.
    pub fn cut(&mut self, row: &CutRow) -> Result<(), StoreError> {
        self.write_head(|transaction| {
            let found = row.finding.as_ref().ok();
            let tally = found.map(|found| &found.outcome.tally);
            let worst = tally.and_then(|tally| tally.worst.as_ref());
            transaction.execute(
                "INSERT OR REPLACE INTO power_cut VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                params![
                    row.cell,
                    row.finding.as_ref().err(),
                    found.map(|found| &found.filesystem),
                    found.map(|found| int(found.outcome.acknowledged)),
                    tally.map(|tally| int(tally.states)),
                    found.map(|found| int(found.outcome.states_possible as u64)),
                    tally.map(|tally| int(tally.not_kept())),
                    worst.map(|worst| word(&worst.1.class())),
                    worst.map(|worst| int(worst.0 as u64)),
                    found.map(|found| found.outcome.breaks_promise),
                    found.map(json),
                ],
            )?;
            Ok(())
        })
    }

    /// Adds warnings about the whole experiment; one that is there already is not repeated.
    ///
    /// # Errors
    /// A full disk.
    pub fn warn(&mut self, texts: &[String]) -> Result<(), StoreError> {
        self.write_head(|transaction| {
            for text in texts {
                transaction.execute(
                    "INSERT INTO warning SELECT NULL, ?1, ?2
                     WHERE NOT EXISTS (SELECT 1 FROM warning WHERE run IS NULL AND text = ?1)",
                    params![text, word(&WarningKind::of_text(text))],
                )?;
            }
            Ok(())
        })
    }

    /// Sets or replaces one line of the environment.
    ///
    /// # Errors
    /// A full disk.
    pub fn environment(&mut self, key: &str, value: &str) -> Result<(), StoreError> {
        self.write_head(|transaction| {
            transaction.execute("INSERT OR REPLACE INTO environment VALUES (?, ?)", params![key, value])?;
            Ok(())
        })
    }

    /// Sets how many runs of each cell there are to be: a schedule that may end early does not know
    /// it before.
    ///
    /// # Errors
    /// A full disk.
    pub fn repeats(&mut self, repeats: u32) -> Result<(), StoreError> {
        self.write_head(|transaction| {
            transaction.execute("UPDATE experiment SET repeats = ?", params![repeats])?;
            Ok(())
        })
    }

    /// Marks the experiment as complete at `finished_ms` (none: runs are missing), brings the WAL
    /// back into the file so that the one file is all, and closes it.
    ///
    /// # Errors
    /// A full disk.
    pub fn close(mut self, finished_ms: Option<i64>) -> Result<(), StoreError> {
        self.write_head(|transaction| {
            transaction.execute("UPDATE experiment SET finished_ms = ?", params![finished_ms])?;
            Ok(())
        })?;
        // The lock is dropped when the connection is closed.
        let Writer { db, path, lock: _lock } = self;
        let fail = |error| StoreError::from_sqlite(&path, error);
        db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).map_err(fail)?;
        db.close().map_err(|(_, error)| fail(error))
    }
}

fn insert_models(db: &Connection, run: i64, models: &[PhaseModel]) -> rusqlite::Result<()> {
    let marks = vec!["?"; 25].join(", ");
    let mut insert = db.prepare(&format!("INSERT INTO phase_model VALUES ({marks})"))?;
    for model in models {
        let [min, p50, p90, p99, p999, max] = model.latency_ns.map(int);
        let [reads, writes, flushes, discards] = model.operations.map(int);
        let [read, written, _, discarded] = model.bytes.map(int);
        insert.execute(params![
            run,
            model.phase,
            model.x,
            word(&model.basis),
            int(model.wall_ns),
            int(model.model_ns),
            int(model.cpu_ns),
            int(model.device_ns),
            int(model.other_ns),
            model.each_ns,
            min,
            p50,
            p90,
            p99,
            p999,
            max,
            reads,
            writes,
            flushes,
            discards,
            read,
            written,
            discarded,
            int(model.busy_model_ns),
            int(model.busy_measured_ns),
        ])?;
    }
    Ok(())
}

fn insert_trace(db: &Connection, run: i64, trace: &TraceRecord) -> rusqlite::Result<()> {
    db.execute(
        "INSERT INTO trace VALUES (?, ?, ?, ?, ?, ?)",
        params![
            run,
            word(&trace.source),
            int(trace.span_ns),
            int(trace.lost_events),
            int(trace.unfinished),
            json(&trace.remarks)
        ],
    )?;
    let mut insert = db.prepare("INSERT INTO phase_window VALUES (?, ?, ?, ?, ?, ?, ?, ?)")?;
    for (number, window) in (0_i64..).zip(&trace.windows) {
        let (start_ns, end_ns) = (int(window.start_ns), int(window.end_ns));
        let (count, changed) = (int(window.count), int(window.changed_bytes));
        insert.execute(params![run, number, window.phase, window.x, start_ns, end_ns, count, changed])?;
    }
    let mut insert =
        db.prepare("INSERT INTO block_request VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")?;
    for row in &trace.rows {
        insert.execute(params![
            run,
            row.request,
            row.piece,
            row.device,
            row.op.number(),
            row.cause.number(),
            u8::from(row.fua) | u8::from(row.sync) << 1 | u8::from(row.meta) << 2,
            row.window,
            int(row.submit_ns),
            int(row.issue_ns),
            int(row.complete_ns),
            int(row.offset),
            int(row.bytes),
        ])?;
    }
    Ok(())
}

/// Inserts a row whose columns are `before`, the twelve of a split, and `after`; [`read`] has their
/// inverse.
fn insert_with_split(
    insert: &mut Statement<'_>,
    before: &[&dyn ToSql],
    split: &Split,
    after: &[&dyn ToSql],
) -> rusqlite::Result<()> {
    let split = [
        split.wall_ns,
        split.cpu_ns,
        split.read_ns,
        split.write_ns,
        split.sync_ns,
        split.other_ns,
        split.read_bytes,
        split.write_bytes,
        split.read_calls,
        split.write_calls,
        split.sync_calls,
        split.other_calls,
    ]
    .map(int);
    let split = split.iter().map(|column| column as &dyn ToSql);
    let row = before.iter().copied().chain(split).chain(after.iter().copied());
    insert.execute(params_from_iter(row)).map(drop)
}

/// The kebab-case word of a unit variant.
fn word<T: serde::Serialize>(value: &T) -> String {
    unquote(&json(value))
}
