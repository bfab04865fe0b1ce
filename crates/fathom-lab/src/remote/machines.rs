//! Several machines as one [`World`]: each run is made on its cell's.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use fathom_device::{RequestTimes, Statistics};
use fathom_probe::Watch;
use fathom_stack::{Capability, StackSpec};

use super::target::Target;
use super::world::Remote;
use crate::cell::Cell;
use crate::event::{Event, WorkerRequest};
use crate::machine_state::MachineState;
use crate::plan::{Needs, PlannedCell};
use crate::schedule::{
    Interrupt, Local, MachineLoad, MountedStack, Observations, StackFailure, WorkError, World,
};
use crate::store::{CutFinding, TraceRecord, Warning};

/// One machine.
#[derive(Debug)]
enum Kind {
    Local(Box<Local>),
    Remote(Box<Remote>),
}

impl Kind {
    fn world(&mut self) -> &mut dyn World {
        match self {
            Kind::Local(local) => &mut **local,
            Kind::Remote(remote) => &mut **remote,
        }
    }
}

/// The machines that `--on` names.
#[derive(Debug)]
pub struct Machines {
    origin: Instant,
    all: Vec<(String, Kind)>,
    /// The one that the run under way is made on.
    at: usize,
    interrupt: Interrupt,
}

impl Machines {
    /// Connects to each of them; what the user is to know meanwhile goes to `tell`.
    ///
    /// # Errors
    /// In words: which one is not there, and why.
    pub fn connect(
        targets: &[Target],
        interrupt: &Interrupt,
        tell: &mut dyn FnMut(&str),
    ) -> Result<Machines, String> {
        let mut all = Vec::new();
        for target in targets {
            let kind = match target {
                Target::Local => {
                    let local = Local::new(PathBuf::new(), interrupt.clone());
                    Kind::Local(Box::new(local.map_err(|error| format!("this program's own path: {error}"))?))
                }
                other => Kind::Remote(Box::new(Remote::connect(other, interrupt.clone(), tell)?)),
            };
            all.push((target.to_string(), kind));
        }
        Ok(Machines { origin: Instant::now(), all, at: 0, interrupt: interrupt.clone() })
    }

    /// Where this machine's stacks are made, where it is among them.
    pub fn work_in(&mut self, directory: PathBuf) {
        for (_, kind) in &mut self.all {
            if let Kind::Local(local) = kind {
                local.work_in(directory.clone());
            }
        }
    }

    fn now(&mut self) -> Result<&mut dyn World, String> {
        match self.all.get_mut(self.at) {
            Some((_, kind)) => Ok(kind.world()),
            None => Err("there is no machine to run on".into()),
        }
    }
}

impl World for Machines {
    fn now_ns(&mut self) -> u64 {
        u64::try_from(self.origin.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn now_ms(&mut self) -> i64 {
        crate::now_ms()
    }

    fn choose(&mut self, machine: &str) -> Result<(), String> {
        self.at = self
            .all
            .iter()
            .position(|(name, _)| name == machine)
            .ok_or_else(|| format!("{machine:?} is not among the machines of --on"))?;
        self.now()?.choose(machine)
    }

    fn capabilities(&mut self, machine: &str, needs: Needs) -> Result<Vec<Capability>, String> {
        self.choose(machine)?;
        self.now()?.capabilities(machine, needs)
    }

    fn environment(&mut self) -> Result<BTreeMap<String, String>, String> {
        let is_one = self.all.len() == 1;
        let mut values = BTreeMap::new();
        for (name, kind) in &mut self.all {
            let own = kind.world().environment()?;
            values.extend(own.into_iter().map(|(key, value)| match is_one {
                true => (key, value),
                false => (format!("{key} ({name})"), value),
            }));
        }
        Ok(values)
    }

    fn up(&mut self, spec: &StackSpec, label: &str) -> Result<MountedStack, StackFailure> {
        self.now()?.up(spec, label)
    }

    fn floor_ns(&mut self) -> Result<Option<u64>, StackFailure> {
        self.now()?.floor_ns()
    }

    fn cpus(&mut self, cell: &PlannedCell) -> Vec<usize> {
        self.now().map_or_else(|_| Vec::new(), |world| world.cpus(cell))
    }

    fn work(
        &mut self,
        order: &WorkerRequest,
        limit: Duration,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<(), WorkError> {
        self.now().map_err(WorkError::Failed)?.work(order, limit, on_event)
    }

    fn trace(&mut self) -> Result<Option<Watch>, String> {
        self.now()?.trace()
    }

    fn traced(&mut self, watched: Observations) -> Result<Option<TraceRecord>, String> {
        self.now()?.traced(watched)
    }

    fn devices(&mut self) -> Result<Vec<Statistics>, String> {
        self.now()?.devices()
    }

    fn keep_served(&mut self) -> Result<bool, String> {
        self.now()?.keep_served()
    }

    fn served(&mut self) -> Result<Vec<Vec<RequestTimes>>, String> {
        self.now()?.served()
    }

    fn power_cut(&mut self, cell: &Cell, seed: u64) -> Result<Option<CutFinding>, WorkError> {
        self.choose(&cell.on).map_err(WorkError::Failed)?;
        self.now().map_err(WorkError::Failed)?.power_cut(cell, seed)
    }

    fn down(&mut self) -> Result<(), String> {
        self.now()?.down()
    }

    fn machine_load(&mut self) -> MachineLoad {
        self.now().map_or_else(|_| MachineLoad::default(), |world| world.machine_load())
    }

    fn state(&mut self) -> MachineState {
        self.now().map_or_else(|_| MachineState::default(), |world| world.state())
    }

    fn condition(&mut self) -> (MachineState, Vec<Warning>) {
        self.now().map_or_else(|_| (MachineState::default(), Vec::new()), |world| world.condition())
    }

    fn notes(&mut self) -> Vec<String> {
        self.all.iter_mut().flat_map(|(_, kind)| kind.world().notes()).collect()
    }

    fn interrupted(&mut self) -> bool {
        self.interrupt.is_raised() || self.all.iter_mut().any(|(_, kind)| kind.world().interrupted())
    }

    fn is_stopped(&mut self) -> bool {
        self.interrupt.is_raised()
    }
}
