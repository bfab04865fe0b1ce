//! What a power cut leaves of a cell, beside its runs: what the cell's workload does is recorded
//! once more, on a modelled device that takes no time, and states in which a power cut could have
//! left it are judged (`fathom_cut`).

use std::path::Path;
use std::time::{Duration, Instant};

use fathom_cut::{
    AcknowledgedContents, Behaviour, CutError, Keeps, Limits, RecordedRun, Run, Scratch, Script, judge,
    record,
};
use fathom_device::{Kind, Model};
use fathom_stack::guest::Kernel;
use fathom_stack::{Machine, Place, StackSpec};

use super::{Interrupt, WorkError};
use crate::cell::{Cell, SECONDS, STATES};
use crate::store::CutFinding;

/// Commits that are recorded of a workload, after what it prepares.
const COMMITS: usize = 150;
/// Image for a cell that runs in a directory, MiB.
const SIZE_MIB: u64 = 64;
/// File systems that a directory may lie on and that are made for it, by what statfs(2) calls them
/// (<linux/magic.h>).
const HOSTS: [(i64, &str); 3] = [(0xef53, "ext4"), (0x5846_5342, "xfs"), (0x9123_683e, "btrfs")];

/// Tries it; `directory` is where images are made.
///
/// # Errors
/// Why it could not be tried.
pub(super) fn power_cut(
    cell: &Cell,
    seed: u64,
    directory: &Path,
    interrupt: &Interrupt,
) -> Result<CutFinding, WorkError> {
    let engine = match &cell.engine {
        Some(engine) if engine.name == "sqlite" => engine,
        Some(engine) => return Err(not_tried(format!("it is tried of SQLite, not of {}", engine.name))),
        None => return Err(not_tried("its workload has no engine".into())),
    };
    if !fathom_ground::system::is_root() && Kernel::cached().is_none() {
        let problem = "each state is mounted, which needs root or the guest kernel (fathom stack kernel)";
        return Err(not_tried(problem.into()));
    }
    let (stack, behaviour) = stack(cell, directory)?;
    let begin = Instant::now();
    let time = Duration::from_secs(cell.instruments.power_cut_seconds.unwrap_or(SECONDS));
    let stop = || interrupt.is_raised();
    let is_over = || stop() || begin.elapsed() >= time;
    let script = Script::of_workload(&cell.workload, &engine.settings, seed, COMMITS, &is_over);
    if stop() {
        return Err(WorkError::Interrupted);
    }
    let script = script.map_err(failed)?;
    let acknowledged = AcknowledgedContents::of(&script).map_err(failed)?;
    let logs = Scratch::new("cut-logs").map_err(|error| not_tried(error.to_string()))?;
    let filesystem = stack.place.name().to_owned();
    let engine = engine.clone();
    let run = Run { script, engine, seed, confined: true, write_back: false, stack };
    let recording = record(&run, &logs.path().join("operations"), &stop).map_err(failed)?;
    if recording.interrupted {
        return Err(WorkError::Interrupted);
    }
    recording.check(&acknowledged).map_err(failed)?;
    let commits = (run.script.steps.len() as u64).saturating_sub(run.script.prepared);
    let recorded = RecordedRun::of(&recording, commits, seed, Some(run.script), behaviour);
    let limits = Limits {
        from: 0,
        states: usize::try_from(cell.instruments.power_cut_states.unwrap_or(STATES)).unwrap_or(usize::MAX),
        time: Some(time.saturating_sub(begin.elapsed()).max(Duration::from_secs(1))),
    };
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let outcome = judge(&recorded, &recording.history, threads, limits, &stop, &|_, _| {}).map_err(failed)?;
    if outcome.interrupted {
        return Err(WorkError::Interrupted);
    }
    let device = match behaviour.keeps {
        Keeps::Flushed => "keeps what was flushed",
        Keeps::Lies => "lies about flushes",
        Keeps::Answered => "keeps what it answered",
    };
    let device = format!("{device}, tears at {} bytes", behaviour.tear_bytes);
    Ok(CutFinding { filesystem, device, promise: recorded.promise, outcome })
}

/// The stack that is recorded on, and what its device does at a cut.
fn stack(cell: &Cell, directory: &Path) -> Result<(StackSpec, Behaviour), WorkError> {
    let given = &cell.stack;
    if given.image.is_some() {
        return Err(not_tried("its stack is a copy of an image, and a cut begins with mkfs".into()));
    }
    sound(&given.faults)?;
    let model = given.device.as_deref().unwrap_or("none");
    let model = fathom_device::device_model(model).map_err(not_tried)?;
    let none = fathom_device::device_model("none").map_err(not_tried)?;
    let mut stack = StackSpec { device_seed: 1, ..given.clone() };
    let log_model = stack.log_device.as_deref().map(fathom_device::device_model).transpose();
    let log_model = log_model.map_err(not_tried)?;
    let behaviour = behaviour(&model, log_model.as_ref())?;
    // The log tells the order of operations, whatever time they took; the size of a sector is part
    // of the file system, and of its external log.
    let log_bytes = log_model.map_or(model.sector_bytes, |log| log.sector_bytes);
    if stack.log_mib.is_some() && log_bytes == none.sector_bytes {
        stack.log_device = Some("none".into());
    }
    if stack.device.is_none() || model.sector_bytes == none.sector_bytes {
        stack.device = Some("none".into());
    }
    if stack.directory.is_none() {
        stack.directory = Some(directory.to_owned());
    }
    if stack.place.is_directory() {
        let filesystem = host(directory);
        stack.place = Place::from(filesystem);
        let machine = Machine::here();
        let smallest = machine.filesystem(filesystem).map_or(0, |known| known.min_mib);
        stack.size_mib = SIZE_MIB.max(smallest);
    }
    Ok((stack, behaviour))
}

/// A device that is told to fail may keep less than it says, and the one that is cut does not.
fn sound(faults: &[String]) -> Result<(), WorkError> {
    match faults {
        [] => Ok(()),
        faults => Err(not_tried(format!(
            "its device is told to fail ({}), and a cut is tried on a sound one",
            faults.join(", ")
        ))),
    }
}

/// What a cell's device does at a cut, and that of its external log: both alike.
fn behaviour(model: &Model, log: Option<&Model>) -> Result<Behaviour, WorkError> {
    let of = |model: &Model| {
        let keeps = if model.kind == Kind::Protected { Keeps::Answered } else { Keeps::Flushed };
        Behaviour { keeps, tear_bytes: model.tear_bytes }
    };
    if let Some(log) = log.filter(|log| of(log) != of(model)) {
        return Err(not_tried(format!(
            "what {} and {} keep at a power cut, or tear, is not the same, and both are cut alike: name one model for the file system \
             and its external log",
            model.name, log.name
        )));
    }
    Ok(of(model))
}

/// The file system that a directory lies on, where one can be made; else ext4.
fn host(directory: &Path) -> &'static str {
    #[allow(clippy::unnecessary_cast, reason = "the type differs by processor and C library")]
    let magic = rustix::fs::statfs(directory).map_or(0, |found| found.f_type as i64);
    let known = HOSTS.iter().find(|host| host.0 == magic).map_or("ext4", |host| host.1);
    let present = fathom_stack::available_filesystems();
    if present.iter().any(|here| here.filesystem == known && here.present) { known } else { "ext4" }
}

fn not_tried(reason: String) -> WorkError {
    WorkError::Failed(reason)
}

fn failed(error: CutError) -> WorkError {
    not_tried(match error {
        // Here nothing but TMPDIR decides where that lies.
        CutError::Unlogged { path, problem } => format!(
            "{}: {problem}; the run is not used. All that a run writes is logged there: where there was no room for it, free \
             some, or name a directory on a larger disk with TMPDIR=DIR",
            path.display()
        ),
        error => error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened: only the file system's device was asked what it keeps. With an external log
    /// on a card beside a device with power-loss protection nothing of the card's was ever missing,
    /// and *kept* was said to be measured.
    #[test]
    fn two_devices_that_keep_different_things_are_not_cut_as_one() {
        let model = |name: &str| fathom_device::device_model(name).unwrap();
        let of = |device: &str, log: Option<&str>| behaviour(&model(device), log.map(model).as_ref());
        let (protected, plain, card) = ("nvme-protected", "nvme", "sd-slow");
        let keeps = |device: &str, log| of(device, log).map(|found| found.keeps).ok();
        assert_eq!(keeps(protected, None), Some(Keeps::Answered));
        assert_eq!(keeps(protected, Some(protected)), Some(Keeps::Answered));
        assert_eq!(keeps(card, Some(card)), Some(Keeps::Flushed));
        for (device, log) in [(protected, card), (card, protected), (protected, plain), (plain, card)] {
            let Err(WorkError::Failed(told)) = of(device, Some(log)) else { panic!("{device}, {log}") };
            assert!(told.contains(device) && told.contains(log), "{told}");
        }
    }

    /// What happened: of a cell whose device lied about its flushes, "measured: kept" was said, for
    /// it was cut on a device that does not.
    #[test]
    fn a_device_that_is_told_to_fail_is_not_cut_as_a_sound_one() {
        assert!(sound(&[]).is_ok());
        let Err(WorkError::Failed(told)) = sound(&["lying-flush@20".into()]) else { panic!("it is sound") };
        assert!(told.contains("lying-flush@20") && told.contains("a sound one"), "{told}");
    }

    /// What happened: `fathom run` and `fathom advise --cut` recommended `fathom cut --record`,
    /// which neither of them has.
    #[test]
    fn a_log_that_had_no_room_has_the_remedy_that_there_is_here() {
        let error = CutError::Unlogged { path: "/tmp/log".into(), problem: "No space left".into() };
        let WorkError::Failed(told) = failed(error) else { panic!("it failed") };
        assert!(told.contains("TMPDIR=DIR") && !told.contains("--record"), "{told}");
    }
}
