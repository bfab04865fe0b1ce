//! Reads results.db.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::experiment::Experiment;
use crate::failure::FailureKind;
use crate::machine_state::Conditions;
use crate::model_time::PhaseModel;
use crate::naming::entitle;
use crate::recording::Recording;
use crate::remote::LOCAL;
use fathom_device::DeviceUse;
use fathom_probe::Split;
use fathom_stack::attribution::Cause;
use fathom_stack::blocks::BlockOp;
use fathom_workload::critical::CriticalPath;
use fathom_workload::sample::{IoRow, PhaseSummary, Sample, WarningKind, Window};
use rusqlite::{Connection, OpenFlags, OptionalExtension, Row};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::rows::{
    BlockRow, CellRow, CutFinding, CutRow, ExperimentRow, IoOfRun, ModelOfRun, PhaseOfRun, RunRow, RunStatus,
    TraceOfRun, VerifiedRow, WarningRow,
};
use super::{APPLICATION_ID, StoreError, VERSION, checksum, excerpt, shape};

/// A results file, read: everything but the samples, which are read when asked for.
#[derive(Debug)]
pub struct Results {
    path: PathBuf,
    db: Connection,
    /// Format version of the file.
    pub(super) version: i64,
    /// The experiment.
    pub experiment: ExperimentRow,
    /// Kernel, CPU, memory, clock, governor, SQLite version …
    pub environment: BTreeMap<String, String>,
    /// The cells in the order of the plan, skipped ones too.
    pub cells: Vec<CellRow>,
    /// The runs in the order in which they were executed, failed ones too.
    pub runs: Vec<RunRow>,
    /// The phases in the order of the runs.
    pub phases: Vec<PhaseOfRun>,
    /// The phases by the models of their devices, in the order of the runs; files of versions
    /// before 7 have none.
    pub models: Vec<ModelOfRun>,
    /// VFS calls in the order of the runs.
    pub io: Vec<IoOfRun>,
    /// Block traces, in the order of the runs.
    pub traces: Vec<TraceOfRun>,
    /// What power cuts leave, in the order of the cells; files of versions before 11 have none.
    pub cuts: Vec<CutRow>,
    /// Checks that passed.
    pub verified: Vec<VerifiedRow>,
    /// Warnings, those of the whole experiment first.
    pub warnings: Vec<WarningRow>,
}

impl Results {
    /// Opens and reads a results file, or an excerpt of one; nothing is written to it.
    ///
    /// # Errors
    /// A file that is missing, is no database, is not Fathom's, is newer than this Fathom, or is
    /// damaged.
    pub fn load(path: &Path) -> Result<Results, StoreError> {
        let fail = |error| StoreError::of_reading(path, error);
        let db = if excerpt::is_packed(path) {
            let (db, header) = excerpt::open(path)?;
            check_application(path, &header)?;
            db
        } else {
            check_header(path)?;
            open_to_read(path)?
        };
        let number = |pragma: &str| -> Result<i64, StoreError> {
            db.pragma_query_value(None, pragma, |row| row.get(0)).map_err(fail)
        };
        let found = number("user_version")?;
        if found > VERSION {
            return Err(StoreError::Newer { path: path.to_path_buf(), found, known: VERSION });
        }
        if found < 1 {
            return Err(StoreError::Foreign {
                path: path.to_path_buf(),
                detail: "its format version is 0: Fathom was stopped while it made the file".into(),
            });
        }
        db.pragma_update(None, "ignore_check_constraints", true).map_err(fail)?;
        // All that follows is of one moment, also where a run goes on and adds to the file.
        db.execute_batch("BEGIN").map_err(fail)?;
        if let Some(problem) = shape::problem(&db).map_err(fail)? {
            let detail = format!("{problem}, which no results have");
            return Err(StoreError::Corrupt { path: path.to_path_buf(), detail });
        }
        // Not quick_check: samples are found by an index, and only this one compares it with what
        // it leads to.
        let health: String = db.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0)).map_err(fail)?;
        if health != "ok" {
            return Err(StoreError::Corrupt { path: path.to_path_buf(), detail: health });
        }
        check_sums(path, &db, found)?;
        let experiment = read_experiment(&db).map_err(fail)?;
        let environment = read_all(&db, "SELECT key, value FROM environment", |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, String>(1)?))
        })
        .map_err(fail)?
        .into_iter()
        .collect();
        let mut cells = read_all(&db, "SELECT * FROM cell ORDER BY id", cell_row).map_err(fail)?;
        // Results outlive versions: a file that this one cannot read names no axes.
        let file = Experiment::parse(&experiment.source_name, &experiment.source);
        entitle(&mut cells, file.as_ref().ok());
        let runs = read_all(&db, "SELECT * FROM run ORDER BY block, position, id", run_row).map_err(fail)?;
        let phases = read_all(
            &db,
            "SELECT phase.* FROM phase JOIN run ON run.id = phase.run ORDER BY block, position, phase.rowid",
            phase_row,
        )
        .map_err(fail)?;
        let models = if found < MODELS {
            Vec::new()
        } else {
            read_all(
                &db,
                "SELECT phase_model.* FROM phase_model JOIN run ON run.id = phase_model.run
                 ORDER BY block, position, phase_model.rowid",
                model_row,
            )
            .map_err(fail)?
        };
        let io = read_all(
            &db,
            "SELECT io.* FROM io JOIN run ON run.id = io.run ORDER BY block, position, io.rowid",
            io_row,
        )
        .map_err(fail)?;
        let traces = if found < 3 { Vec::new() } else { read_traces(&db).map_err(fail)? };
        let cuts = if found < CUTS {
            Vec::new()
        } else {
            read_all(&db, "SELECT cell, problem, outcome FROM power_cut ORDER BY cell", cut_row)
                .map_err(fail)?
        };
        let verified = read_all(&db, "SELECT run, text FROM verified ORDER BY rowid", |row| {
            Ok(VerifiedRow { run: row.get(0)?, text: row.get(1)? })
        })
        .map_err(fail)?;
        let warnings = read_all(&db, "SELECT * FROM warning ORDER BY run IS NOT NULL, rowid", warning_row)
            .map_err(fail)?;
        db.execute_batch("COMMIT").map_err(fail)?;
        if !crate::experiment::is_name(&experiment.name) {
            let detail = format!("{:?} is no name of an experiment", experiment.name);
            return Err(StoreError::Corrupt { path: path.to_path_buf(), detail });
        }
        Ok(Results {
            path: path.to_path_buf(),
            db,
            version: found,
            experiment,
            environment,
            cells,
            runs,
            phases,
            models,
            io,
            traces,
            cuts,
            verified,
            warnings,
        })
    }

    /// Whether the file tells by checksums that it is as it was written; files of versions before 6
    /// cannot.
    #[must_use]
    pub fn has_checksums(&self) -> bool {
        self.version >= CHECKSUMS
    }

    /// Whether the file can hold phases by the models of their devices; files of versions before 7
    /// cannot.
    #[must_use]
    pub fn has_models(&self) -> bool {
        self.version >= MODELS
    }

    /// The open file.
    pub(super) fn connection(&self) -> &Connection {
        &self.db
    }

    /// Where the file is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The samples of one phase of one run, all abscissas, in time order.
    ///
    /// # Errors
    /// A file that was damaged after it was opened.
    pub fn samples(&self, run: i64, phase: &str) -> Result<Vec<Sample>, StoreError> {
        let read = || {
            let mut select =
                self.db.prepare_cached("SELECT * FROM sample WHERE run = ? AND phase = ? ORDER BY x, seq")?;
            let rows = select.query_map((run, phase), sample_row)?;
            rows.collect::<rusqlite::Result<Vec<Sample>>>()
        };
        read().map_err(|error| StoreError::of_reading(&self.path, error))
    }

    /// The model times of [`Results::samples`], in the same order; none of those that are not known.
    ///
    /// # Errors
    /// A file that was damaged after it was opened.
    pub fn model_times(&self, run: i64, phase: &str) -> Result<Vec<Option<u64>>, StoreError> {
        if self.version < SAMPLE_MODELS {
            return Ok(self.samples(run, phase)?.iter().map(|_| None).collect());
        }
        let read = || {
            let mut select = self
                .db
                .prepare_cached("SELECT model_ns FROM sample WHERE run = ? AND phase = ? ORDER BY x, seq")?;
            let rows = select.query_map((run, phase), |row| optional_count(row, "model_ns"))?;
            rows.collect::<rusqlite::Result<Vec<Option<u64>>>>()
        };
        read().map_err(|error| StoreError::of_reading(&self.path, error))
    }

    /// The block trace of a run, if there is one.
    #[must_use]
    pub fn trace(&self, run: i64) -> Option<&TraceOfRun> {
        self.traces.iter().find(|trace| trace.run == run)
    }

    /// The requests of a run's block trace, in order of issue, handed to `each`.
    ///
    /// # Errors
    /// A file that was damaged after it was opened.
    pub fn blocks(&self, run: i64, mut each: impl FnMut(BlockRow)) -> Result<(), StoreError> {
        let mut read = || {
            let mut select = self
                .db
                .prepare_cached("SELECT * FROM block_request WHERE run = ? ORDER BY request, piece")?;
            let mut rows = select.query([run])?;
            while let Some(row) = rows.next()? {
                each(block_row(row)?);
            }
            Ok(())
        };
        read().map_err(|error| StoreError::of_reading(&self.path, error))
    }

    /// What a run recorded to be replayed on other models; none where it was not asked to.
    ///
    /// # Errors
    /// A recording that is damaged or of a later Fathom's.
    pub fn recording(&self, run: i64) -> Result<Option<Recording>, StoreError> {
        if self.version < RECORDINGS {
            return Ok(None);
        }
        let mut select = self
            .db
            .prepare_cached("SELECT data FROM recording WHERE run = ?")
            .map_err(|error| StoreError::of_reading(&self.path, error))?;
        let data: Option<Vec<u8>> = select
            .query_row([run], |row| row.get(0))
            .optional()
            .map_err(|error| StoreError::of_reading(&self.path, error))?;
        let recording = data.map(|data| Recording::decode(&data)).transpose();
        recording.map_err(|error| StoreError::Corrupt {
            path: self.path.clone(),
            detail: format!("run {run}: {error}"),
        })
    }

    /// The number of samples in the file.
    ///
    /// # Errors
    /// A file that was damaged after it was opened.
    pub fn sample_count(&self) -> Result<u64, StoreError> {
        self.db
            .query_row("SELECT count(*) FROM sample", [], |row| count(row, 0))
            .map_err(|error| StoreError::of_reading(&self.path, error))
    }

    /// The good runs of a cell, in block order.
    pub fn good_runs(&self, cell: i64) -> impl Iterator<Item = &RunRow> {
        self.runs.iter().filter(move |run| run.cell == cell && run.status == RunStatus::Done)
    }

    /// The runs that failed.
    pub fn failed_runs(&self) -> impl Iterator<Item = &RunRow> {
        self.runs.iter().filter(|run| run.status == RunStatus::Failed)
    }

    /// The file system of a run as the experiment names it (`ntfs`, where the kernel says
    /// `fuseblk`); of a directory, the one that it lies on.
    #[must_use]
    pub fn filesystem<'a>(&'a self, run: &'a RunRow) -> &'a str {
        let of_image = self.cell(run.cell).and_then(|cell| cell.spec.stack.place.filesystem());
        of_image.unwrap_or(&run.stack.filesystem)
    }

    /// What a run's databases lay on, in words. Of several machines the one is named, too: what
    /// each of two boards calls ext4 on /dev/mmcblk0p2 is a card of its own.
    #[must_use]
    pub fn stack_of(&self, run: &RunRow) -> String {
        let stack = format!("{} on {}", self.filesystem(run), run.stack.device);
        match self.cell(run.cell).map(machine_of) {
            Some(own) if self.cells.iter().any(|cell| machine_of(cell) != own) => {
                format!("{stack} of {own}")
            }
            _ => stack,
        }
    }

    /// The machine that a run was made on.
    #[must_use]
    pub fn machine(&self, run: &RunRow) -> &str {
        self.cell(run.cell).map_or(LOCAL, machine_of)
    }

    /// What power cuts leave of a cell; none where they were not tried.
    #[must_use]
    pub fn cut(&self, cell: i64) -> Option<&CutFinding> {
        self.cuts.iter().find(|cut| cut.cell == cell)?.finding.as_ref().ok()
    }

    /// The cell with this number.
    #[must_use]
    pub fn cell(&self, id: i64) -> Option<&CellRow> {
        self.cells.iter().find(|cell| cell.id == id)
    }
}

/// The machine that a cell's runs are made on.
fn machine_of(cell: &CellRow) -> &str {
    if cell.spec.on.is_empty() { LOCAL } else { &cell.spec.on }
}

/// The first version with phases by the model.
const MODELS: i64 = 7;

/// The first version with recordings.
const RECORDINGS: i64 = 9;

/// The first version with model times of single executions, and kinds of failures and warnings.
const SAMPLE_MODELS: i64 = 12;

/// The first version with power cuts.
const CUTS: i64 = 11;

/// The first version with checksums.
const CHECKSUMS: i64 = 6;

/// Refuses a file whose runs are not as they were written.
fn check_sums(path: &Path, db: &Connection, version: i64) -> Result<(), StoreError> {
    let fail = |error| StoreError::of_reading(path, error);
    let has_table = checksum::has(db, "checksum").map_err(fail)?;
    let has_models = checksum::has(db, "phase_model").map_err(fail)?;
    // A damaged version number must not switch the check off, nor hide what was measured.
    if has_models != (version >= MODELS) {
        let detail = match (has_models, has_table == (version >= CHECKSUMS)) {
            (true, true) => {
                format!("it has phases by the model, and files of its version {version} have none")
            }
            (false, true) => "its phases by the model are gone".to_owned(),
            (_, false) if has_table => {
                format!("it has checksums, and files of its version {version} have none")
            }
            (_, false) => "its checksums are gone".to_owned(),
        };
        return Err(StoreError::Corrupt { path: path.to_path_buf(), detail });
    }
    let has_recordings = checksum::has(db, "recording").map_err(fail)?;
    if has_recordings != (version >= RECORDINGS) {
        let detail = match has_recordings {
            true => format!("it has recordings, and files of its version {version} have none"),
            false => "its recordings are gone".to_owned(),
        };
        return Err(StoreError::Corrupt { path: path.to_path_buf(), detail });
    }
    let has_cuts = checksum::has(db, "power_cut").map_err(fail)?;
    if has_cuts != (version >= CUTS) {
        let detail = match has_cuts {
            true => format!("it has power cuts, and files of its version {version} have none"),
            false => "its power cuts are gone".to_owned(),
        };
        return Err(StoreError::Corrupt { path: path.to_path_buf(), detail });
    }
    if has_table != (version >= CHECKSUMS) {
        let detail = match has_table {
            true => format!("it has checksums, and files of its version {version} have none"),
            false => "its checksums are gone".to_owned(),
        };
        return Err(StoreError::Corrupt { path: path.to_path_buf(), detail });
    }
    if !has_table {
        return Ok(());
    }
    let differing = checksum::differing(db).map_err(fail)?;
    if differing.is_empty() {
        return Ok(());
    }
    let mut what: Vec<String> = differing.iter().take(NAMED).map(|run| name_of(db, *run)).collect();
    if differing.len() > NAMED {
        what.push(format!("and {} more", differing.len() - NAMED));
    }
    what.push(if differing.len() > 1 { "are".into() } else { "is".into() });
    Err(StoreError::Altered { path: path.to_path_buf(), what })
}

/// So many damaged runs are named.
const NAMED: usize = 5;

/// A run in words, as far as the file still tells.
fn name_of(db: &Connection, run: i64) -> String {
    if run == checksum::HEAD {
        return "the description of experiment, machine and cells".into();
    }
    let sql = "SELECT label, block FROM run JOIN cell ON cell.id = run.cell WHERE run.id = ?";
    let found = db.query_row(sql, [run], |row| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?)));
    match found {
        Ok((label, block)) => format!("run {run} (cell \"{label}\", repeat {})", block.saturating_add(1)),
        Err(_) => format!("run {run}"),
    }
}

/// Says in words what SQLite would say in a code, before SQLite touches the file.
fn check_header(path: &Path) -> Result<(), StoreError> {
    // Asked before it is opened: the other end of a FIFO would be waited for.
    if let Ok(kind) = std::fs::metadata(path).map(|metadata| metadata.file_type())
        && !kind.is_file()
        && !kind.is_dir()
    {
        let detail = "it is no regular file".into();
        return Err(StoreError::NotADatabase { path: path.to_path_buf(), detail });
    }
    let mut file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(StoreError::Missing { path: path.to_path_buf() });
        }
        Err(error) => {
            return Err(StoreError::Other { path: path.to_path_buf(), detail: error.to_string() });
        }
    };
    let not = |detail: &str| StoreError::NotADatabase { path: path.to_path_buf(), detail: detail.into() };
    if file.metadata().is_ok_and(|metadata| metadata.is_dir()) {
        return Err(not("it is a directory"));
    }
    let mut header = [0_u8; 100];
    match file.read_exact(&mut header) {
        Ok(()) if header.starts_with(b"SQLite format 3\0") => {}
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            return Err(not("it is empty or shorter than a database's header"));
        }
        Err(error) => {
            return Err(StoreError::Other { path: path.to_path_buf(), detail: error.to_string() });
        }
        Ok(()) => return Err(not("it does not begin as a SQLite database does")),
    }
    check_application(path, &header)
}

/// Refuses a database that is not Fathom's by its first 100 bytes.
fn check_application(path: &Path, header: &[u8]) -> Result<(), StoreError> {
    // The application id, big-endian at offset 68 (<https://www.sqlite.org/fileformat2.html>, the
    // database header).
    let application = i64::from(i32::from_be_bytes([header[68], header[69], header[70], header[71]]));
    if application != APPLICATION_ID {
        return Err(StoreError::Foreign {
            path: path.to_path_buf(),
            detail: format!("its application_id is {application:#x}, Fathom's is {APPLICATION_ID:#x}"),
        });
    }
    Ok(())
}

fn open_to_read(path: &Path) -> Result<Connection, StoreError> {
    let fail = |error| StoreError::of_reading(path, error);
    // Read-write where it may be, so that the last reader removes the WAL's files again;
    // `query_only` keeps us from writing.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(path, flags).map_err(fail)?;
    db.busy_timeout(Duration::from_secs(10)).map_err(fail)?;
    db.pragma_update(None, "query_only", true).map_err(fail)?;
    let Err(error) = db.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(())) else {
        return Ok(db);
    };
    // A WAL database in a directory that cannot be written: SQLite wants to make the shared-memory
    // file there. Without a WAL the file alone is the whole database, and nobody can be writing to
    // it: it may be read as it is.
    let mut wal = path.as_os_str().to_owned();
    wal.push("-wal");
    let cannot_open = matches!(
        error.sqlite_error_code(),
        Some(rusqlite::ErrorCode::CannotOpen | rusqlite::ErrorCode::ReadOnly)
    );
    if !cannot_open || Path::new(&wal).exists() {
        return Err(fail(error));
    }
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    let uri = format!("file:{}?immutable=1", percent_encoded(&absolute));
    let flags =
        OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    Connection::open_with_flags(uri, flags).map_err(fail)
}

/// A path as SQLite's URIs want it (<https://www.sqlite.org/uri.html>).
fn percent_encoded(path: &Path) -> String {
    use std::os::unix::ffi::OsStrExt;
    let mut encoded = String::new();
    for &byte in path.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

fn read_all<T>(
    db: &Connection,
    sql: &str,
    each: impl FnMut(&Row<'_>) -> rusqlite::Result<T>,
) -> rusqlite::Result<Vec<T>> {
    let mut select = db.prepare(sql)?;
    let rows = select.query_map([], each)?;
    rows.collect()
}

fn count(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let value: i64 = row.get(column)?;
    u64::try_from(value).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, value))
}

fn optional_count(row: &Row<'_>, column: &str) -> rusqlite::Result<Option<u64>> {
    let value: Option<i64> = row.get(column)?;
    value
        .map(|number| u64::try_from(number).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(0, number)))
        .transpose()
}

fn from_json<T: DeserializeOwned>(column: usize, text: &str) -> rusqlite::Result<T> {
    serde_json::from_str(text).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, Box::new(error))
    })
}

/// The column `device`: an array since version 5.
#[derive(Deserialize)]
#[serde(untagged)]
enum Devices {
    All(Vec<DeviceUse>),
    One(Box<DeviceUse>),
}

impl Devices {
    fn all(self) -> Vec<DeviceUse> {
        match self {
            Devices::All(all) => all,
            Devices::One(one) => vec![*one],
        }
    }
}

fn from_optional_json<T: DeserializeOwned>(row: &Row<'_>, column: &str) -> rusqlite::Result<Option<T>> {
    let text: Option<String> = row.get(column)?;
    text.map(|text| from_json(0, &text)).transpose()
}

fn read_experiment(db: &Connection) -> rusqlite::Result<ExperimentRow> {
    db.query_row("SELECT * FROM experiment", [], |row| {
        Ok(ExperimentRow {
            name: row.get("name")?,
            title: row.get("title")?,
            source: row.get("source")?,
            source_name: row.get("source_name")?,
            command: row.get("command")?,
            seed: row.get::<_, i64>("seed")?.cast_unsigned(),
            repeats: row.get("repeats")?,
            quick: row.get("quick")?,
            fathom_version: row.get("fathom_version")?,
            started_ms: row.get("started_ms")?,
            finished_ms: row.get("finished_ms")?,
        })
    })
}

fn cell_row(row: &Row<'_>) -> rusqlite::Result<CellRow> {
    let durability: Option<String> = row.get("durability")?;
    Ok(CellRow {
        id: row.get("id")?,
        label: row.get("label")?,
        title: String::new(),
        axes: from_json(2, &row.get::<_, String>("axes")?)?,
        spec: from_json(3, &row.get::<_, String>("spec")?)?,
        durability: durability.map(|durability| from_json(4, &format!("\"{durability}\""))).transpose()?,
        skipped: row.get("skipped")?,
    })
}

/// A word of a column that files of before version 12 do not have.
fn optional_word(row: &Row<'_>, column: &str) -> rusqlite::Result<Option<String>> {
    match row.as_ref().column_index(column) {
        Ok(at) => row.get(at),
        Err(_) => Ok(None),
    }
}

fn warning_row(row: &Row<'_>) -> rusqlite::Result<WarningRow> {
    let text: String = row.get("text")?;
    let kind = match optional_word(row, "kind")? {
        Some(word) => from_json(2, &format!("\"{word}\""))?,
        None => WarningKind::of_text(&text),
    };
    Ok(WarningRow { run: row.get("run")?, text, kind })
}

/// Whose fault a failed run is.
fn failure(row: &Row<'_>) -> rusqlite::Result<Option<FailureKind>> {
    let message: Option<String> = row.get("message")?;
    match (optional_word(row, "failure")?, row.get::<_, String>("status")? == "failed") {
        (_, false) => Ok(None),
        (Some(word), true) => {
            let kind: FailureKind = from_json(17, &format!("\"{word}\""))?;
            let by_words = FailureKind::of_message(&message.unwrap_or_default());
            // A full disk had no kind of its own at first, and was one that failed.
            let was_full = (kind, by_words) == (FailureKind::Storage, FailureKind::Full);
            Ok(Some(if was_full { by_words } else { kind }))
        }
        (None, true) => Ok(Some(FailureKind::of_message(&message.unwrap_or_default()))),
    }
}

fn run_row(row: &Row<'_>) -> rusqlite::Result<RunRow> {
    Ok(RunRow {
        failure: failure(row)?,
        id: row.get("id")?,
        cell: row.get("cell")?,
        block: row.get("block")?,
        position: row.get("position")?,
        seed: row.get::<_, i64>("seed")?.cast_unsigned(),
        status: from_json(5, &format!("\"{}\"", row.get::<_, String>("status")?))?,
        message: row.get("message")?,
        started_ms: row.get("started_ms")?,
        elapsed_ns: optional_count(row, "elapsed_ns")?.unwrap_or(0),
        engine: from_optional_json(row, "engine")?,
        parameters: from_optional_json(row, "parameters")?.unwrap_or_default(),
        stack: from_json(12, &row.get::<_, String>("stack")?)?,
        floor_ns: optional_count(row, "floor_ns")?,
        max_rss_bytes: optional_count(row, "max_rss_bytes")?,
        involuntary_switches: optional_count(row, "involuntary_switches")?,
        steal_share: row.get("steal_share")?,
        load: row.get("load")?,
        devices: match row.as_ref().column_index("device") {
            Ok(_) => from_optional_json(row, "device")?.map_or_else(Vec::new, Devices::all),
            // Until version 3 there was no such column.
            Err(_) => Vec::new(),
        },
        conditions: match row.as_ref().column_index("conditions") {
            Ok(_) => from_optional_json(row, "conditions")?.unwrap_or_default(),
            // Until version 12 there was no such column.
            Err(_) => Conditions::default(),
        },
    })
}

/// The twelve columns of a split from `first` on.
fn split(row: &Row<'_>, first: usize) -> rusqlite::Result<Split> {
    Ok(Split {
        wall_ns: count(row, first)?,
        cpu_ns: count(row, first + 1)?,
        read_ns: count(row, first + 2)?,
        write_ns: count(row, first + 3)?,
        sync_ns: count(row, first + 4)?,
        other_ns: count(row, first + 5)?,
        read_bytes: count(row, first + 6)?,
        write_bytes: count(row, first + 7)?,
        read_calls: count(row, first + 8)?,
        write_calls: count(row, first + 9)?,
        sync_calls: count(row, first + 10)?,
        other_calls: count(row, first + 11)?,
    })
}

fn phase_row(row: &Row<'_>) -> rusqlite::Result<PhaseOfRun> {
    Ok(PhaseOfRun {
        run: row.get(0)?,
        summary: PhaseSummary {
            phase: row.get(1)?,
            x: row.get(2)?,
            unit: row.get(3)?,
            count: count(row, 4)?,
            wall_ns: count(row, 5)?,
            latency_ns: [
                count(row, 6)?,
                count(row, 7)?,
                count(row, 8)?,
                count(row, 9)?,
                count(row, 10)?,
                count(row, 11)?,
            ],
            split: split(row, 12)?,
            lock_waits: optional_count(row, "lock_waits")?,
            lock_wait_ns: optional_count(row, "lock_wait_ns")?,
            critical_path: critical_path(row)?,
        },
    })
}

fn model_row(row: &Row<'_>) -> rusqlite::Result<ModelOfRun> {
    let number = |column: &str| optional_count(row, column).map(Option::unwrap_or_default);
    let word: String = row.get("basis")?;
    Ok(ModelOfRun {
        run: row.get("run")?,
        model: PhaseModel {
            phase: row.get("phase")?,
            x: row.get("x")?,
            basis: from_json(3, &format!("{word:?}"))?,
            wall_ns: number("wall_ns")?,
            model_ns: number("model_ns")?,
            cpu_ns: number("cpu_ns")?,
            device_ns: number("device_ns")?,
            other_ns: number("other_ns")?,
            each_ns: row.get("each_ns")?,
            latency_ns: [
                number("min_ns")?,
                number("p50_ns")?,
                number("p90_ns")?,
                number("p99_ns")?,
                number("p999_ns")?,
                number("max_ns")?,
            ],
            operations: [number("reads")?, number("writes")?, number("flushes")?, number("discards")?],
            bytes: [number("read_bytes")?, number("written_bytes")?, 0, number("discarded_bytes")?],
            busy_model_ns: number("busy_model_ns")?,
            busy_measured_ns: number("busy_measured_ns")?,
        },
    })
}

/// Until version 9 there were no such columns; they are NULL where no threads were followed.
fn critical_path(row: &Row<'_>) -> rusqlite::Result<Option<CriticalPath>> {
    if row.as_ref().column_index("path_cpu_ns").is_err() {
        return Ok(None);
    }
    let part = |name: &str| optional_count(row, name);
    let Some(cpu_ns) = part("path_cpu_ns")? else { return Ok(None) };
    Ok(Some(CriticalPath {
        cpu_ns,
        read_ns: part("path_read_ns")?.unwrap_or(0),
        write_ns: part("path_write_ns")?.unwrap_or(0),
        sync_ns: part("path_sync_ns")?.unwrap_or(0),
        lock_ns: part("path_lock_ns")?.unwrap_or(0),
        other_ns: part("path_other_ns")?.unwrap_or(0),
    }))
}

fn sample_row(row: &Row<'_>) -> rusqlite::Result<Sample> {
    Ok(Sample {
        phase: row.get(1)?,
        x: row.get(2)?,
        seq: count(row, 3)?,
        thread: row.get(4)?,
        rows: count(row, 5)?,
        split: split(row, 6)?,
        database: match row.as_ref().column_index("database") {
            Ok(column) => row.get(column)?,
            Err(_) => None,
        },
        start_ns: 0,
    })
}

fn read_traces(db: &Connection) -> rusqlite::Result<Vec<TraceOfRun>> {
    let mut traces = read_all(
        db,
        "SELECT trace.* FROM trace JOIN run ON run.id = trace.run ORDER BY block, position",
        |row| {
            Ok(TraceOfRun {
                run: row.get(0)?,
                source: from_json(1, &format!("\"{}\"", row.get::<_, String>(1)?))?,
                span_ns: count(row, 2)?,
                lost_events: count(row, 3)?,
                unfinished: count(row, 4)?,
                remarks: from_json(5, &row.get::<_, String>(5)?)?,
                windows: Vec::new(),
            })
        },
    )?;
    let mut select = db.prepare(
        "SELECT phase, x, start_ns, end_ns, count, changed_bytes FROM phase_window WHERE run = ? ORDER BY number",
    )?;
    for trace in &mut traces {
        let windows = select.query_map([trace.run], |row| {
            Ok(Window {
                phase: row.get(0)?,
                x: row.get(1)?,
                start_ns: count(row, 2)?,
                end_ns: count(row, 3)?,
                count: count(row, 4)?,
                changed_bytes: count(row, 5)?,
                lanes: Vec::new(),
                excluded: Vec::new(),
            })
        })?;
        trace.windows = windows.collect::<rusqlite::Result<_>>()?;
    }
    Ok(traces)
}

fn block_row(row: &Row<'_>) -> rusqlite::Result<BlockRow> {
    let numbered = |column: usize| row.get::<_, u8>(column).map(usize::from);
    let beyond = |column| rusqlite::Error::IntegralValueOutOfRange(column, 0);
    let flags: u8 = row.get(6)?;
    Ok(BlockRow {
        request: row.get(1)?,
        piece: row.get(2)?,
        device: row.get(3)?,
        op: BlockOp::ALL.get(numbered(4)?).copied().ok_or_else(|| beyond(4))?,
        cause: Cause::ALL.get(numbered(5)?).copied().ok_or_else(|| beyond(5))?,
        window: row.get(7)?,
        submit_ns: count(row, 8)?,
        issue_ns: count(row, 9)?,
        complete_ns: count(row, 10)?,
        offset: count(row, 11)?,
        bytes: count(row, 12)?,
        fua: flags & 1 != 0,
        sync: flags & 2 != 0,
        meta: flags & 4 != 0,
    })
}

fn cut_row(row: &Row<'_>) -> rusqlite::Result<CutRow> {
    let problem: Option<String> = row.get(1)?;
    let found = from_optional_json(row, "outcome")?;
    let finding = match (found, problem) {
        (Some(found), None) => Ok(found),
        (_, problem) => Err(problem.unwrap_or_default()),
    };
    Ok(CutRow { cell: row.get(0)?, finding })
}

fn io_row(row: &Row<'_>) -> rusqlite::Result<IoOfRun> {
    Ok(IoOfRun {
        run: row.get(0)?,
        row: IoRow {
            phase: row.get(1)?,
            class: row.get(2)?,
            op: row.get(3)?,
            calls: count(row, 4)?,
            bytes: count(row, 5)?,
            ns: count(row, 6)?,
        },
    })
}
