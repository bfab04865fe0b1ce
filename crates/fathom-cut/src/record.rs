//! Records a run: an engine does a script on a file system on a modelled device, which logs every
//! operation with its data, and is told of each commit that was acknowledged.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

use fathom_stack::{Stack, StackSpec};
use fathom_workload::engine::{EngineInfo, start_engine};
use fathom_workload::spec::{Durability, EngineSpec};
use rusqlite::{Connection, OpenFlags};
use serde_json::Value as Json;

use crate::acknowledged::{AcknowledgedContents, Script};
use crate::centre_store;
use crate::check::Subject;
use crate::content::content_of;
use crate::error::CutError;
use crate::guest::{self, Report, RunRequest};
use crate::history::History;
use crate::medium::FileSystem;
use crate::mmdb_store;
use crate::postgresql_store;

/// Name of the database, without its end.
const DATABASE: &str = "cut";

/// Names of what has work of its own. mmdb is none of fathom-workload's engines.
pub const MMDB: &str = "mmdb";
/// PostgreSQL, which does the built-in script.
pub const POSTGRESQL: &str = "postgresql";
/// The SMS centre on one of its stores.
pub const SMSC: &str = "smsc";

/// Whether an engine does work of its own, by which only it can be judged.
#[must_use]
pub fn has_own_work(engine: &str) -> bool {
    [MMDB, POSTGRESQL, SMSC].contains(&engine)
}

/// Whether an engine with these settings has a server of its own.
#[must_use]
pub fn has_server(engine: &str, settings: &BTreeMap<String, Json>) -> bool {
    subject(&EngineSpec { name: engine.to_owned(), settings: settings.clone() }).has_server()
}

/// What is recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// What is asked of the engine.
    pub script: Script,
    /// SQLite or PostgreSQL, with settings; or mmdb or the SMS centre, which do
    /// `script.steps.len() - 1` commits of their own work.
    pub engine: EngineSpec,
    /// Seed of their work.
    pub seed: u64,
    /// Whether the script is somebody else's: then no statement reaches a file that is not the
    /// database's.
    pub confined: bool,
    /// The stack, with a modelled device; where its operations are logged is this function's
    /// affair.
    pub stack: StackSpec,
}

/// A recorded run.
#[derive(Debug)]
pub struct Recording {
    /// What reached the device.
    pub history: History,
    /// How it is mounted again.
    pub filesystem: FileSystem,
    /// The database's path below the root of the file system.
    pub database: PathBuf,
    /// Whose data it is.
    pub subject: Subject,
    /// The engine that ran, with its settings as read back.
    pub engine: EngineInfo,
    /// What those settings promise.
    pub promise: Durability,
    /// What the run was made on.
    pub stack: fathom_stack::StackRecord,
    /// What the database held when all was done and closed; none where it was stopped before.
    pub content: Option<u128>,
    /// Whether it was stopped before its end.
    pub interrupted: bool,
}

impl Recording {
    /// Whether the run did what its script does in memory, without which nothing can be said of a
    /// state.
    ///
    /// # Errors
    /// It did not.
    pub fn check(&self, acknowledged: &AcknowledgedContents) -> Result<(), CutError> {
        if self.content.is_none_or(|content| acknowledged.ends_with(content)) {
            return Ok(());
        }
        Err(CutError::Usage(
            "the statements left other rows on the device than in memory, so that what each commit left is not known".into(),
        ))
    }
}

/// Makes the run. Its log is `log`, a new file, with the data beside it; both stay.
///
/// Mark 0 says that the database is about to be opened, mark n that step n was acknowledged.
///
/// # Errors
/// A stack that cannot be made, a step that fails, a log that cannot be read again.
pub fn record(run: &Run, log: &Path, stop: &dyn Fn() -> bool) -> Result<Recording, CutError> {
    let spec = StackSpec { operations: Some(log.to_owned()), capture: true, ..run.stack.clone() };
    if spec.log_mib.is_some() {
        return Err(CutError::Usage("a power cut is tried on one device: not with an external log".into()));
    }
    let subject = subject(&run.engine);
    let mut stack = Stack::up(&spec, "fathom cut")?;
    if stack.guest().is_some() && subject.has_server() {
        let problem = "PostgreSQL's server is not started in a guest, which this file system needs here";
        return Err(CutError::Usage(problem.into()));
    }
    if subject.has_server() {
        // Its server is another user's.
        stack.let_enter().map_err(CutError::io("let the server's user into the stack's directory"))?;
    }
    let marks = stack.marks().ok_or_else(|| {
        CutError::Usage(format!("a power cut takes a modelled device, which {} has not", spec.place.name()))
    })?;
    let directory = stack.path().to_path_buf();
    let marks = Marks::open(&marks)?;
    let marked = tempfile::Builder::new().prefix("fathom-cut-").tempdir();
    let marked = marked.map_err(CutError::io("make a directory for a guest"))?;
    let order = RunRequest {
        engine: run.engine.clone(),
        steps: run.script.steps.clone(),
        seed: run.seed,
        confined: run.confined,
        directory: directory.clone(),
        marked: marked.path().to_owned(),
    };
    let is_guest = stack.guest().is_some();
    let report = if is_guest {
        guest::record(&mut stack, &order, &marks, stop)?
    } else {
        // What mkfs and the stack have done is safe before anything begins.
        let root = File::open(&directory).map_err(CutError::io("open the stack's directory"))?;
        rustix::fs::syncfs(&root).map_err(|error| CutError::io("sync the file system")(error.into()))?;
        drop(root);
        marks.tell(0)?;
        work(&order, &|number| marks.tell(number).map(|()| !stop()))?
    };
    drop(marks);
    let record = stack.record();
    stack.down()?;
    let bytes = spec.size_mib << 20;
    let history = History::read(log, bytes)?;
    let name = directory.file_name().unwrap_or_default();
    Ok(Recording {
        history,
        filesystem: FileSystem {
            driver: record.filesystem.clone(),
            options: spec.mount.clone().unwrap_or_default(),
            sector_bytes: sector_bytes(&spec)?,
            guest: is_guest,
        },
        database: Path::new(name).join(match subject {
            Subject::Sqlite => format!("{DATABASE}.db"),
            Subject::Mmdb { .. } | Subject::Smsc { .. } | Subject::Postgresql { .. } => DATABASE.to_owned(),
        }),
        subject,
        engine: report.engine,
        promise: report.promise,
        stack: record,
        content: report.content,
        interrupted: report.interrupted,
    })
}

/// Whose data a run of this engine leaves.
fn subject(engine: &EngineSpec) -> Subject {
    let settings = || engine.settings.clone();
    match engine.name.as_str() {
        MMDB => Subject::Mmdb { settings: settings() },
        POSTGRESQL => Subject::Postgresql { settings: settings() },
        SMSC => Subject::Smsc { settings: settings() },
        _ => Subject::Sqlite,
    }
}

/// Sectors of the device that was recorded on, bytes.
fn sector_bytes(spec: &StackSpec) -> Result<u32, CutError> {
    let device = spec.device.as_deref().unwrap_or_default();
    fathom_device::device_model(device).map(|model| model.sector_bytes).map_err(CutError::Usage)
}

/// Does the script, step by step; `told` is called with the number of each that was acknowledged,
/// and says whether to go on.
pub(crate) fn work(
    order: &RunRequest,
    told: &dyn Fn(u64) -> Result<bool, CutError>,
) -> Result<Report, CutError> {
    let failed = |error: fathom_workload::engine::EngineError| CutError::Database {
        what: error.subject.clone(),
        problem: error.message,
    };
    let mut interrupted = false;
    if has_own_work(&order.engine.name) {
        let mut tell = |number| {
            interrupted = !told(number)?;
            Ok(!interrupted)
        };
        let commits = (order.steps.len() as u64).saturating_sub(1);
        let place = order.directory.join(DATABASE);
        let (settings, seed) = (&order.engine.settings, order.seed);
        if order.engine.name == POSTGRESQL {
            std::fs::create_dir(&place).map_err(CutError::io("make the cluster's directory"))?;
            let (engine, promise, content) =
                postgresql_store::work(&place, settings, &order.steps, &mut tell)?;
            return Ok(Report { engine, promise, interrupted, content });
        }
        let promise = if order.engine.name == MMDB {
            mmdb_store::work(&place, settings, commits, seed, &mut tell)?;
            Durability::PowerCut
        } else {
            centre_store::work(&place, settings, commits, seed, &mut tell)?
        };
        let settings = order.engine.settings.iter().map(|(key, value)| (key.clone(), value.to_string()));
        let engine = EngineInfo {
            name: order.engine.name.clone(),
            version: env!("CARGO_PKG_VERSION").into(),
            build: Vec::new(),
            settings: settings.collect(),
        };
        return Ok(Report { engine, promise, interrupted, content: None });
    }
    let engine = start_engine(&order.engine, &order.directory).map_err(failed)?;
    let mut connection = engine.connect(DATABASE).map_err(failed)?;
    if order.confined {
        connection.confine().map_err(failed)?;
    }
    for (number, step) in (1..).zip(&order.steps) {
        connection.execute_script(step).map_err(failed)?;
        if !told(number)? {
            interrupted = true;
            break;
        }
    }
    connection.close().map_err(failed)?;
    let content = if interrupted { None } else { Some(left_in(&order.directory)?) };
    Ok(Report { engine: engine.info(), promise: engine.durability(), interrupted, content })
}

/// What the database holds, read by SQLite as it is built in.
fn left_in(directory: &Path) -> Result<u128, CutError> {
    let path = directory.join(format!("{DATABASE}.db"));
    let opened = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY);
    opened
        .and_then(|database| content_of(&database))
        .map_err(CutError::database("the database that was made"))
}

/// The file that takes marks.
pub(crate) struct Marks(File);

impl Marks {
    fn open(path: &Path) -> Result<Marks, CutError> {
        let file = OpenOptions::new().write(true).open(path);
        file.map(Marks).map_err(CutError::io("open the device's file for marks"))
    }

    /// Tells the device a number; once this returns it stands in the log.
    pub fn tell(&self, number: u64) -> Result<(), CutError> {
        use std::os::unix::fs::FileExt;
        let text = number.to_string();
        self.0.write_all_at(text.as_bytes(), 0).map_err(CutError::io("mark a commit"))
    }
}
