//! Records a run: an engine does a script on a file system on a modelled device, which logs every operation with its data, and is
//! told of each commit that was acknowledged.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

use fathom_stack::{Stack, StackSpec};
use fathom_workload::engine::{EngineInfo, start_engine};
use fathom_workload::spec::{Durability, EngineSpec};

use crate::acknowledged::Script;
use crate::error::CutError;
use crate::history::History;
use crate::medium::FileSystem;

/// Name of the database, without its end.
const DATABASE: &str = "cut";

/// What is recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    /// What is asked of the engine.
    pub script: Script,
    /// SQLite, with settings.
    pub engine: EngineSpec,
    /// The stack, with a modelled device; where its operations are logged is this function's affair.
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
    /// The engine that ran, with its settings as read back.
    pub engine: EngineInfo,
    /// What those settings promise.
    pub promise: Durability,
    /// What the run was made on.
    pub stack: fathom_stack::StackRecord,
    /// Whether it was stopped before its end.
    pub interrupted: bool,
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
        return Err(CutError::Asked("a power cut is tried on one device: not with an external log".into()));
    }
    let stack = Stack::up(&spec, "fathom cut")?;
    let marks = stack.marks().ok_or_else(|| {
        CutError::Asked(format!("a power cut takes a modelled device, which {} has not", spec.place.name()))
    })?;
    let directory = stack.path().to_path_buf();
    let marks = Marks::open(&marks)?;
    // What mkfs and the stack have done is safe before anything begins.
    let root = File::open(&directory).map_err(CutError::io("open the stack's directory"))?;
    rustix::fs::syncfs(&root).map_err(|error| CutError::io("sync the file system")(error.into()))?;
    drop(root);
    marks.tell(0)?;
    let (engine, promise, interrupted) = work(run, &directory, &marks, stop)?;
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
        },
        database: Path::new(name).join(format!("{DATABASE}.db")),
        engine,
        promise,
        stack: record,
        interrupted,
    })
}

/// Sectors of the device that was recorded on, bytes.
fn sector_bytes(spec: &StackSpec) -> Result<u32, CutError> {
    let device = spec.device.as_deref().unwrap_or_default();
    fathom_device::device_model(device).map(|model| model.sector_bytes).map_err(CutError::Asked)
}

/// Does the script, step by step.
fn work(
    run: &Run,
    directory: &Path,
    marks: &Marks,
    stop: &dyn Fn() -> bool,
) -> Result<(EngineInfo, Durability, bool), CutError> {
    let failed = |error: fathom_workload::engine::EngineError| CutError::Database {
        what: error.what.clone(),
        problem: error.message,
    };
    let engine = start_engine(&run.engine, directory).map_err(failed)?;
    let mut connection = engine.connect(DATABASE).map_err(failed)?;
    let mut interrupted = false;
    for (number, step) in (1..).zip(&run.script.steps) {
        if stop() {
            interrupted = true;
            break;
        }
        connection.execute_script(step).map_err(failed)?;
        marks.tell(number)?;
    }
    connection.close().map_err(failed)?;
    Ok((engine.info(), engine.durability(), interrupted))
}

/// The file that takes marks.
struct Marks(File);

impl Marks {
    fn open(path: &Path) -> Result<Marks, CutError> {
        let file = OpenOptions::new().write(true).open(path);
        file.map(Marks).map_err(CutError::io("open the device's file for marks"))
    }

    /// Tells the device a number; once this returns it stands in the log.
    fn tell(&self, number: u64) -> Result<(), CutError> {
        use std::os::unix::fs::FileExt;
        let text = number.to_string();
        self.0.write_all_at(text.as_bytes(), 0).map_err(CutError::io("mark a commit"))
    }
}
