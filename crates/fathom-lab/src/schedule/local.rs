//! The real world: this machine's clocks, stacks and processes.

mod condition;
mod guest;
mod interrupt;
mod machine;
mod pace;
mod process;
mod programs;
mod state;
mod sysfs;

use std::collections::BTreeMap;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use fathom_device::{RequestTimes, Statistics};
use fathom_ground::program::executable;
use fathom_ground::system::now_ns;
use fathom_probe::Watch;
use fathom_stack::blocks::{BlockTrace, TraceError};
use fathom_stack::{Capability, Stack, StackSpec, Stacks};
use fathom_workload::engine::engine_named;
use fathom_workload::is_one_thread;
use fathom_workload::sample::WarningKind;

pub use interrupt::{Interrupt, stopped_by};
pub use machine::{disk_of, environment};

use super::counted::{self, DeviceCounts};
use super::{MachineLoad, MountedStack, Observations, StackFailure, WorkError, World};
use crate::cell::Cell;
use crate::event::{Event, WorkerRequest};
use crate::machine_state::MachineState;
use crate::plan::{Machine, Needs, PlannedCell};
use crate::store::{CutFinding, TraceRecord, Warning};

/// Writes of one floor probe: enough for a steady median, and two seconds on a device that needs 20
/// ms for one.
const FLOOR_WRITES: u32 = 100;

/// This machine.
#[derive(Debug)]
pub struct Local {
    origin: Instant,
    /// Where stacks whose specification names no directory are made.
    directory: PathBuf,
    worker: Vec<std::ffi::OsString>,
    interrupt: Interrupt,
    stack: Option<Stack>,
    trace: Option<Tracing>,
    /// What the modelled devices had counted when the trace began.
    counted: DeviceCounts,
    /// What it was like when its state was asked last: just before a worker is started.
    begin: Option<MachineState>,
    cpus: Vec<usize>,
}

/// What is being traced.
#[derive(Debug)]
enum Tracing {
    /// The stack's device.
    Device(BlockTrace),
    /// The guest's disk, in the guest.
    Guest,
    /// The calls on files, since a moment (CLOCK_MONOTONIC, ns), because the device cannot be.
    Files { started_ns: u64, reason: String },
}

impl Local {
    /// This machine, with stacks in `directory` and this program's own `worker` command as worker.
    ///
    /// # Errors
    /// The system does not tell this program's own path.
    pub fn new(directory: PathBuf, interrupt: Interrupt) -> std::io::Result<Local> {
        let program = fathom_ground::program::own_program()?;
        Ok(Local::with_worker(directory, interrupt, vec![program.into(), "worker".into()]))
    }

    /// As [`Local::new`], with another worker: program and arguments.
    #[must_use]
    pub fn with_worker(directory: PathBuf, interrupt: Interrupt, worker: Vec<std::ffi::OsString>) -> Local {
        let cpus = machine::usable_cpus();
        Local {
            origin: Instant::now(),
            directory,
            worker,
            interrupt,
            stack: None,
            trace: None,
            counted: DeviceCounts::default(),
            begin: None,
            cpus,
        }
    }
}

impl Local {
    /// Makes stacks whose specification names no directory in this one from now on.
    pub fn work_in(&mut self, directory: PathBuf) {
        self.directory = directory;
    }

    /// The same beside `others` that work at the same time: its workers are kept on a processor of
    /// their own, where there are enough.
    #[must_use]
    pub fn beside(mut self, others: usize) -> Local {
        let cpus = self.cpus.len().max(1);
        self.cpus.rotate_right(others % cpus);
        self
    }

    /// What a run came to, unless the user wanted to stop before it was over: its device may have
    /// answered at once since then.
    fn unhurried(&self, worked: Result<(), WorkError>) -> Result<(), WorkError> {
        if self.interrupt.is_raised() { worked.and(Err(WorkError::Interrupted)) } else { worked }
    }

    /// A server that is started by root runs as another user, who has to get to its own directory
    /// through the one that is worked in.
    fn let_server_in(&self, cell: &Cell) -> Result<(), WorkError> {
        match &self.stack {
            Some(stack) if fathom_ground::system::is_root() && !is_embedded(cell) => stack
                .let_enter()
                .map_err(|error| WorkError::Failed(format!("{}: {error}", stack.path().display()))),
            _ => Ok(()),
        }
    }
}

/// Whether everything that works on the stack is the worker's own process.
fn is_embedded(cell: &Cell) -> bool {
    // The SMS centre brings stores of its own, one of which is a server; its messages are made up.
    cell.workload.name != "sms"
        && cell
            .engine
            .as_ref()
            .and_then(|engine| engine_named(&engine.name))
            .is_none_or(|kind| kind.is_embedded)
}

impl World for Local {
    fn now_ns(&mut self) -> u64 {
        u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn now_ms(&mut self) -> i64 {
        crate::now_ms()
    }

    fn capabilities(&mut self, machine: &str, needs: Needs) -> Result<Vec<Capability>, String> {
        self.choose(machine).map(|()| Machine::capabilities_here(needs))
    }

    fn environment(&mut self) -> Result<BTreeMap<String, String>, String> {
        Ok(environment(&self.directory))
    }

    fn up(&mut self, spec: &StackSpec, label: &str) -> Result<MountedStack, StackFailure> {
        let mut spec = spec.clone();
        if spec.directory.is_none() {
            spec.directory = Some(self.directory.clone());
        }
        // What is made when the user stops is not waited for at the pace of its device.
        let stacks = Stacks::here().with_stop(self.interrupt.flag());
        let stack = stacks.up(&spec, label)?;
        let mounted = MountedStack { directory: stack.path().to_path_buf(), record: stack.record() };
        self.stack = Some(stack);
        Ok(mounted)
    }

    fn floor_ns(&mut self) -> Result<Option<u64>, StackFailure> {
        let Some(stack) = &mut self.stack else { return Ok(None) };
        // What a device for recordings costs says nothing of a disk.
        if stack.is_for_recordings() {
            return Ok(None);
        }
        Ok(Some(stack.floor(FLOOR_WRITES)?.median_ns))
    }

    fn cpus(&mut self, cell: &PlannedCell) -> Vec<usize> {
        // A guest has one, and is kept on one of the host's itself.
        if self.stack.as_mut().and_then(Stack::guest).is_some() {
            return Vec::new();
        }
        cpus_of(&cell.cell, &self.cpus)
    }

    fn work(
        &mut self,
        order: &WorkerRequest,
        limit: Duration,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<(), WorkError> {
        let Some((program, arguments)) = self.worker.split_first() else {
            return Err(WorkError::Failed("there is no worker to start".into()));
        };
        if let Some(guest) = self.stack.as_mut().and_then(Stack::guest) {
            let here: Vec<usize> =
                self.cpus.iter().copied().filter(|cpu| Some(*cpu) != guest.cpu()).collect();
            machine::keep_to(&here);
            let worked =
                guest::run(guest, (Path::new(program), arguments), order, limit, &self.interrupt, on_event);
            // A worker that failed by itself leaves a guest that is well, and goes when the stack
            // is taken down.
            let hangs = worked.is_err() && guest.hangs();
            machine::keep_to(&self.cpus);
            // It waits for its disk, whose server stands still.
            if hangs && self.stack.as_ref().is_some_and(Stack::kill_devices) {
                return worked.map_err(|error| error.because(process::DEVICE_STOOD_STILL));
            }
            return self.unhurried(worked);
        }
        self.let_server_in(&order.cell)?;
        // Its file may be gone by now: an update ends no run.
        let mut command = Command::new(executable(program.as_ref()));
        command.arg0(program);
        command.args(arguments);
        // This thread reads events while the worker works: not on the worker's CPU.
        let here: Vec<usize> = match (order.cpus.as_slice(), self.cpus.len()) {
            ([one], 2..) => self.cpus.iter().copied().filter(|cpu| cpu != one).collect(),
            _ => Vec::new(),
        };
        machine::keep_to(&here);
        let free = || self.stack.as_ref().is_some_and(Stack::kill_devices);
        let worked = process::run(command, order, limit, &self.interrupt, &free, on_event);
        machine::keep_to(&self.cpus);
        self.unhurried(worked)
    }

    fn trace(&mut self) -> Result<Option<Watch>, String> {
        let Some(stack) = &mut self.stack else { return Ok(None) };
        self.counted.before = stack.device_statistics()?;
        if stack.guest().is_some() {
            stack.trace_in_guest().map_err(|error| format!("block trace: {error}"))?;
            self.trace = Some(Tracing::Guest);
            self.counted.after = stack.device_statistics()?;
            return Ok(Some(Watch::Extents));
        }
        let (tracing, watch) = match stack.trace_blocks() {
            Ok(trace) => (Tracing::Device(trace), Watch::Extents),
            Err(error @ (TraceError::NeedsRoot | TraceError::NoTracefs(_) | TraceError::Shared { .. })) => (
                Tracing::Files {
                    started_ns: now_ns(),
                    reason: format!("this is the pattern within the files, not the device's: {error}"),
                },
                Watch::Calls,
            ),
            Err(error) => return Err(format!("block trace: {error}")),
        };
        self.counted.after = stack.device_statistics()?;
        self.trace = Some(tracing);
        Ok(Some(watch))
    }

    fn traced(&mut self, watched: Observations) -> Result<Option<TraceRecord>, String> {
        let (Some(stack), Some(tracing)) = (&mut self.stack, self.trace.take()) else { return Ok(None) };
        match tracing {
            Tracing::Guest => {
                let before = stack.device_statistics()?;
                let trace = stack.traced_in_guest(&watched.notes, &watched.causes);
                let mut trace = trace.map_err(|error| format!("block trace: {error}"))?;
                let ended = DeviceCounts { before, after: stack.device_statistics()? };
                let remarks =
                    counted::remarks(trace.requests.iter().map(|request| &request.0), &self.counted, &ended);
                trace.remarks.extend(remarks);
                Ok(Some(watched.of_guest(trace)))
            }
            Tracing::Files { started_ns, reason } => Ok(Some(watched.of_files(started_ns, now_ns(), reason))),
            Tracing::Device(trace) => {
                // What the file system still holds back belongs to the run, outside of its phases.
                let watchdog = stack.watchdog();
                let synced = std::fs::File::open(stack.path())
                    .and_then(|directory| Ok(rustix::fs::syncfs(directory)?));
                watchdog
                    .explained(synced.map_err(|error| {
                        format!("block trace: syncing {}: {error}", stack.path().display())
                    }))?;
                let before = stack.device_statistics()?;
                let recording = trace.stop().map_err(|error| format!("block trace: {error}"))?;
                let ended = DeviceCounts { before, after: stack.device_statistics()? };
                let remarks = counted::remarks(recording.requests.iter(), &self.counted, &ended);
                let mut record = watched.of_device(stack, recording);
                record.remarks.extend(remarks);
                Ok(Some(record))
            }
        }
    }

    fn devices(&mut self) -> Result<Vec<Statistics>, String> {
        self.stack.as_mut().map_or(Ok(Vec::new()), Stack::device_statistics)
    }

    fn keep_served(&mut self) -> Result<bool, String> {
        let Some(stack) = &mut self.stack else { return Ok(false) };
        if stack.device_server_pid().is_none() {
            return Ok(false);
        }
        stack.keep_served()?;
        Ok(true)
    }

    fn served(&mut self) -> Result<Vec<Vec<RequestTimes>>, String> {
        let Some(stack) = &mut self.stack else { return Ok(Vec::new()) };
        let mut served = stack.served()?;
        // A worker in a guest has told its times by the guest's clock.
        if let Some(guest) = stack.guest() {
            let difference_ns = guest.clock_difference_ns().map_err(|error| error.to_string())?;
            for operation in served.iter_mut().flatten() {
                *operation = operation.by_clock(difference_ns);
            }
        }
        Ok(served)
    }

    fn power_cut(&mut self, cell: &Cell, seed: u64) -> Result<Option<CutFinding>, WorkError> {
        super::cut::power_cut(cell, seed, &self.directory, &self.interrupt).map(Some)
    }

    fn down(&mut self) -> Result<(), String> {
        // A run that failed leaves its trace behind.
        self.trace = None;
        self.stack.take().map_or(Ok(()), |stack| stack.down().map_err(|error| error.to_string()))
    }

    fn machine_load(&mut self) -> MachineLoad {
        machine::machine_load(self.cpus.len())
    }

    fn state(&mut self) -> MachineState {
        let state = state::here();
        self.begin = Some(state.clone());
        state
    }

    fn condition(&mut self) -> (MachineState, Vec<Warning>) {
        let found = condition::Condition::here();
        let mut remarks = found.remarks();
        let slower = self.begin.take().and_then(|begin| pace::slower(&begin, &found.state));
        remarks.extend(slower.map(|text| Warning { kind: WarningKind::Noise, text }));
        (found.state, remarks)
    }

    fn interrupted(&mut self) -> bool {
        self.interrupt.is_raised()
    }
}

/// The CPUs of `all` that a worker of this cell is kept on: one, where one thread does everything.
fn cpus_of(cell: &Cell, all: &[usize]) -> Vec<usize> {
    // A server engine has processes of its own, which inherit the worker's CPUs.
    let embedded = is_embedded(cell);
    match all {
        // The last CPU: interrupts and this process are more often on the first.
        [_, .., last] if embedded && is_one_thread(&cell.workload) => vec![*last],
        all => all.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Experiment, Selection, Vocabulary, builtin_named};

    /// The CPUs of two that the first cell of an experiment gets.
    fn cpus(name: &str, sets: &[&str]) -> Vec<usize> {
        let experiment = Experiment::parse(name, builtin_named(name).unwrap().source).unwrap();
        let sets = sets.iter().map(|text| (*text).to_owned()).collect();
        let selection = Selection { sets, ..Selection::default() };
        let cells = experiment.cells(&selection, &Vocabulary::here()).unwrap();
        cpus_of(&cells.cells[0].1, &[0, 1])
    }

    /// The SMS centre's list of numbers of threads was taken for one thread: a hundred clients,
    /// their store and PostgreSQL's server were measured on one processor.
    #[test]
    fn only_what_one_thread_does_is_kept_on_one_processor() {
        for sets in [&[][..], &["threads=96"], &["threads=1"], &["threads=1,96", "variants=postgresql calls"]]
        {
            assert_eq!(cpus("sms-centre", sets), [0, 1], "{sets:?}");
        }
        assert_eq!(cpus("journal-modes", &[]), [1]);
        assert_eq!(cpus("journal-modes", &["workload.threads=2"]), [0, 1]);
        assert_eq!(cpus("update-cost", &[]), [1]);
        assert_eq!(cpus("update-cost-server", &["variants=postgresql"]), [0, 1]);
    }
}
