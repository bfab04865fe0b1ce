//! Records a run: an engine does a script on a file system on a modelled device, which logs every
//! operation with its data, and is told of each commit that was acknowledged.

use std::fs::File;
use std::path::{Path, PathBuf};

use fathom_stack::{Stack, StackRecord, StackSpec};
use fathom_workload::engine::EngineInfo;
use fathom_workload::spec::{Durability, EngineSpec};

use crate::acknowledged::{AcknowledgedContents, Script};
use crate::error::CutError;
use crate::guest;
use crate::history::History;
use crate::marks::Marks;
use crate::medium::{FileSystem, is_mountable};
use crate::scratch::Scratch;
use crate::states::Keeps;
use crate::subject::Subject;
use crate::work::{DATABASE, RunRequest, work};

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
    /// Whether the file system is synced beside it at seeded moments, so that a part of a commit
    /// reaches the device that nobody has synced.
    pub write_back: bool,
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
    /// What those settings promise, on a stack that can keep it.
    pub promise: Durability,
    /// Whether the file system was synced beside the run.
    pub write_back: bool,
    /// What the run was made on.
    pub stack: StackRecord,
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
    if !is_mountable(run.stack.place.name()) {
        return Err(CutError::Usage(format!(
            "no kernel mounts {}, whose driver is a program (FUSE): power cuts are tried of file systems of this kernel or of the guest's",
            run.stack.place.name()
        )));
    }
    let spec = StackSpec { operations: Some(log.to_owned()), capture: true, ..run.stack.clone() };
    let subject = Subject::of(&run.engine);
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
    let marked = Scratch::new("cut-marks")?;
    let order = RunRequest {
        engine: run.engine.clone(),
        steps: run.script.steps.clone(),
        prepared: run.script.prepared,
        closes: run.script.closes.clone(),
        seed: run.seed,
        confined: run.confined,
        write_back: run.write_back,
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
    stack.down().map_err(CutError::taken_down)?;
    let history = History::read(log, spec.size_mib << 20, spec.log_mib.map(|mib| mib << 20))?;
    let log_device = spec.log_device.as_deref().or(spec.device.as_deref());
    let name = directory.file_name().unwrap_or_default();
    Ok(Recording {
        history,
        filesystem: FileSystem {
            driver: record.filesystem.clone(),
            options: spec.mount.clone().unwrap_or_default(),
            sector_bytes: sector_bytes(spec.device.as_deref())?,
            log_sector_bytes: spec.log_mib.map(|_| sector_bytes(log_device)).transpose()?,
            guest: is_guest,
        },
        database: Path::new(name).join(match subject {
            Subject::Sqlite => format!("{DATABASE}.db"),
            Subject::Mmdb { .. } | Subject::Smsc { .. } | Subject::Postgresql { .. } => DATABASE.to_owned(),
        }),
        subject,
        engine: report.engine,
        promise: report.promise,
        write_back: run.write_back,
        stack: record,
        content: report.content,
        interrupted: report.interrupted,
    })
}

/// What settings promise on a stack: no more than that can keep.
#[must_use]
pub fn kept_promise(settings: Durability, stack: &StackRecord) -> Durability {
    match stack.volatile() {
        Some(_) => settings.min(Durability::ProcessCrash),
        None => settings,
    }
}

/// The same on a stack whose device so behaves at a cut, whatever its model says.
pub(crate) fn promise_where(keeps: Keeps, settings: Durability, stack: &StackRecord) -> Durability {
    match keeps {
        // There is nothing to flush.
        Keeps::Answered => settings,
        Keeps::Flushed | Keeps::Lies => {
            kept_promise(settings, &StackRecord { models: Vec::new(), ..stack.clone() })
        }
    }
}

/// Sectors of a device that was recorded on, bytes.
fn sector_bytes(device: Option<&str>) -> Result<u32, CutError> {
    fathom_device::device_model(device.unwrap_or_default())
        .map(|model| model.sector_bytes)
        .map_err(CutError::Usage)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened: without barriers a run's settings were said to promise nothing at a power
    /// cut, and of the same cell a power cut to take "more than its settings promise".
    #[test]
    fn without_barriers_a_power_cut_breaks_no_promise() {
        let on = |mount: &str, promise| {
            let stack =
                StackRecord { filesystem: "ext4".into(), mount: mount.into(), ..StackRecord::default() };
            kept_promise(promise, &stack)
        };
        assert_eq!(on("rw,relatime", Durability::PowerCut), Durability::PowerCut);
        assert_eq!(on("rw,nobarrier", Durability::PowerCut), Durability::ProcessCrash);
        assert_eq!(on("rw,nobarrier", Durability::None), Durability::None);
    }

    /// What happened: with `--keeps protected` and barriers off, which such a device is made for,
    /// nothing was promised, and whatever was lost broke no promise.
    #[test]
    fn a_device_that_keeps_what_it_answered_keeps_the_promise_without_barriers() {
        let models = vec![fathom_device::text_of("nvme-protected").unwrap().to_owned()];
        let stack =
            StackRecord { filesystem: "ext4".into(), mount: "rw,nobarrier".into(), ..StackRecord::default() };
        let (protected, all) = (StackRecord { models, ..stack.clone() }, Durability::PowerCut);
        assert_eq!(promise_where(Keeps::Answered, all, &stack), all);
        // As `--keeps` says, and not the model.
        for keeps in [Keeps::Flushed, Keeps::Lies] {
            assert_eq!(promise_where(keeps, all, &protected), Durability::ProcessCrash);
        }
    }
}
