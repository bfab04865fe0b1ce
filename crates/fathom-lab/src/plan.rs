//! What is run, in which order, and what is left out.
//!
//! Runs go in blocks: each block holds one run of every cell, in an order of its own, so that slow
//! drift of the machine (heat, a filling disk, a neighbour) hits all cells alike and cancels in the
//! ratio of a block. The order and the data come from the seed alone: the same experiment with the
//! same seed is the same plan, on every machine.

use std::collections::{BTreeMap, HashSet};

use fathom_stack::Capability;
use fathom_workload::engine::{EngineKind, engine_named};
use fathom_workload::workload_named;
use serde::{Deserialize, Serialize};

use crate::cell::Cell;
use crate::experiment::{Cells, Experiment};
use crate::naming::title_of_label;
use crate::remote::{LOCAL, Target};
use crate::store::{CellRow, Results, RunStatus};
use fathom_random::{Random, derive_seed};

/// What the plan's seeds are for; part of their derivation.
const ORDER: u64 = 1;
const DATA: u64 = 2;

/// What this machine can do, for deciding which cells can run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Machine {
    capabilities: Vec<Capability>,
    /// Those of other machines, as [`Cell::on`] names them.
    others: BTreeMap<String, Vec<Capability>>,
}

/// What of a machine's capabilities cells ask for that takes time to find out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Needs {
    /// What a guest kernel there can mount.
    pub guests: bool,
    /// Programs and libraries of engines that are not built in.
    pub companions: bool,
}

impl Needs {
    /// What these cells ask for.
    #[must_use]
    pub fn of(cells: &Cells) -> Needs {
        Needs {
            guests: cells.cells.iter().any(|(_, cell)| cell.stack.guest),
            companions: cells.cells.iter().any(|(_, cell)| !needed_by(cell).is_empty()),
        }
    }
}

impl Machine {
    /// A machine with these capabilities: those of `fathom doctor` and one per file system. Where a
    /// name comes twice the first holds.
    #[must_use]
    pub fn of(capabilities: Vec<Capability>) -> Machine {
        Machine { capabilities, others: BTreeMap::new() }
    }

    /// With another machine's, as [`Cell::on`] names it.
    #[must_use]
    pub fn with(mut self, name: &str, capabilities: Vec<Capability>) -> Machine {
        self.others.insert(name.to_owned(), capabilities);
        self
    }

    /// This machine, as far as `cells` need it. Nothing is mounted or tried, and programs are asked
    /// for their version only where a cell needs an engine that is not built in: planning must not
    /// take time.
    #[must_use]
    pub fn here(cells: &Cells) -> Machine {
        Machine::of(Machine::capabilities_here(Needs::of(cells)))
    }

    /// This machine's capabilities: file systems, and what of the rest is asked for.
    #[must_use]
    pub fn capabilities_here(needs: Needs) -> Vec<Capability> {
        let mut capabilities: Vec<Capability> = fathom_stack::available_filesystems()
            .into_iter()
            .map(|filesystem| Capability {
                name: filesystem.filesystem,
                present: filesystem.present,
                detail: filesystem.detail,
                remedy: filesystem.remedy,
            })
            .collect();
        if needs.guests {
            capabilities.extend(fathom_stack::filesystems_in_guest().into_iter().map(|guest| Capability {
                name: in_guest(&guest.filesystem),
                present: guest.present,
                detail: guest.detail,
                remedy: guest.remedy,
            }));
        }
        if needs.companions {
            capabilities.extend(fathom_stack::companions());
        }
        capabilities
    }

    /// Why a cell cannot run here, and what to do; none where it can.
    #[must_use]
    pub fn why_not(&self, cell: &Cell) -> Option<String> {
        let engine = engine_of(cell);
        let mut needed = Vec::new();
        let guests = in_guest(cell.stack.place.name());
        if cell.stack.guest {
            needed.push(guests.as_str());
        } else if let Some(filesystem) = cell.stack.place.filesystem() {
            needed.push(filesystem);
        }
        if let Some(server) = engine.filter(|engine| cell.stack.guest && !engine.is_embedded) {
            return Some(format!(
                "{} is not here: its server is not started in a guest kernel. Leave `guest` out.",
                server.name
            ));
        }
        if cell.stack.place.filesystem() == Some(SHORT_NAMES) && is_wal(cell) {
            return Some(format!(
                "WAL is not possible on {SHORT_NAMES}: it cuts names to eight letters and three, so that the log and its \
                 index would be one file, and the rows wrong. Take vfat, or another journal mode."
            ));
        }
        // On another machine it is that machine's.
        let directory = cell.stack.directory.as_ref().filter(|_| [LOCAL, ""].contains(&cell.on.as_str()));
        if let Some(directory) = directory.filter(|directory| !directory.is_dir()) {
            return Some(format!(
                "{} is no directory here. Make it, or name another one with `directory`.",
                directory.display()
            ));
        }
        needed.extend(needed_by(cell));
        let elsewhere = Some(cell.on.as_str()).filter(|on| ![LOCAL, ""].contains(on));
        let place = elsewhere.map_or_else(|| "here".to_owned(), |on| format!("on {on}"));
        for name in needed {
            let capabilities = self.others.get(&cell.on).unwrap_or(&self.capabilities);
            match capabilities.iter().find(|capability| capability.name == name) {
                Some(found) if found.present => {}
                Some(absent) => {
                    let remedy = remedy_told(&absent.remedy, elsewhere);
                    let detail = absent.detail.trim_end_matches('.');
                    return Some(format!("{name} is not {place}: {detail}.{remedy}"));
                }
                None => {
                    let which = elsewhere.map_or("this", |_| "that");
                    return Some(format!("{name} is not {place}: {which} machine knows nothing of it."));
                }
            }
        }
        None
    }
}

/// What to do about what a machine lacks, of what it says itself, as a sentence. On another machine
/// it is not typed here, and its root is another one to name.
fn remedy_told(remedy: &str, elsewhere: Option<&str>) -> String {
    let is_root = remedy.contains("sudo") && remedy.contains("fathom");
    match elsewhere {
        _ if remedy.is_empty() => String::new(),
        None => format!(" `{remedy}` brings it."),
        Some(on) if is_root => match on.parse::<Target>() {
            Ok(Target::Ssh { destination, .. }) => {
                let host = destination.rsplit_once('@').map_or(destination.as_str(), |(_, host)| host);
                format!(" Its root can: --on ssh:root@{host}.")
            }
            _ => " `adb root` brings it.".to_owned(),
        },
        Some(_) => format!(" On that machine itself `{remedy}` brings it."),
    }
}

/// FAT without long names: of `x.db-wal` and `x.db-shm` it makes `x.db-` each.
const SHORT_NAMES: &str = "msdos";

/// Whether the cell's database has a log and an index of it, in files of their own.
fn is_wal(cell: &Cell) -> bool {
    let mode = cell.engine.as_ref().and_then(|engine| engine.settings.get("journal_mode"));
    mode.and_then(serde_json::Value::as_str).is_some_and(|mode| mode.eq_ignore_ascii_case("wal"))
}

/// What the cell's engine is, if it has one.
fn engine_of(cell: &Cell) -> Option<&'static EngineKind> {
    engine_named(&cell.engine.as_ref()?.name)
}

/// The capabilities that the cell's engine and its workload ask of the machine, if any.
fn needed_by(cell: &Cell) -> Vec<&'static str> {
    let of_engine = cell.engine.as_ref().and_then(|spec| (engine_of(cell)?.needs)(&spec.settings));
    let workload = workload_named(&cell.workload.name);
    let of_workload = workload.and_then(|kind| (kind.needs)(&cell.workload.params));
    of_engine.into_iter().chain(of_workload).collect()
}

/// Name of the capability of a file system in a guest.
fn in_guest(filesystem: &str) -> String {
    format!("{filesystem} in a guest")
}

/// One cell of a plan.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedCell {
    /// Its number, from 1, in the order of the matrix.
    pub id: i64,
    /// `ext4 wal`.
    pub label: String,
    /// What is run.
    pub cell: Cell,
    /// Why it is left out here, with the remedy.
    pub skipped: Option<String>,
}

impl PlannedCell {
    /// Its label as the tables write it: `ext4 WAL`.
    #[must_use]
    pub fn title(&self) -> String {
        title_of_label(&self.label, &self.cell.axes)
    }
}

/// One run of one cell, to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedRun {
    /// [`PlannedCell::id`].
    pub cell: i64,
    /// Block, from 0.
    pub block: u32,
    /// Place within the block, from 0.
    pub position: u32,
    /// Seed of the run's data: the same for all cells of a block, so that a block compares the same
    /// work.
    pub seed: u64,
}

/// What is run and in which order.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The experiment's name.
    pub experiment: String,
    /// Seed of order and data.
    pub seed: u64,
    /// Blocks.
    pub repeats: u32,
    /// `--quick`.
    pub quick: bool,
    /// All cells, skipped ones too.
    pub cells: Vec<PlannedCell>,
}

/// Why results cannot be gone on with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "these results are of another plan, so they cannot be gone on with: {difference}. \
     Give the same experiment and options, or another `--out`"
)]
pub struct PlanDiffers {
    /// What differs.
    pub difference: String,
}

impl Plan {
    /// Makes the plan of an experiment's cells on a machine.
    #[must_use]
    pub fn new(experiment: &Experiment, cells: &Cells, quick: bool, seed: u64, machine: &Machine) -> Plan {
        let planned = (1..).zip(&cells.cells).map(|(id, (label, cell))| PlannedCell {
            id,
            label: label.clone(),
            skipped: machine.why_not(cell),
            cell: cell.clone(),
        });
        Plan {
            experiment: experiment.name.clone(),
            seed,
            repeats: cells.repeats,
            quick,
            cells: planned.collect(),
        }
    }

    /// How many runs the plan has.
    #[must_use]
    pub fn runs(&self) -> usize {
        let runnable = self.cells.iter().filter(|cell| cell.skipped.is_none()).count();
        runnable.saturating_mul(self.repeats as usize)
    }

    /// Every run of the plan in the order in which it is made.
    #[must_use]
    pub fn turns(&self) -> Vec<PlannedRun> {
        let mut turns = Vec::with_capacity(self.runs());
        for block in 0..self.repeats {
            // Over all cells, skipped ones too: what can run must not change the order of the rest.
            let mut order: Vec<&PlannedCell> = self.cells.iter().collect();
            // A look may end within its first block: what the experiment names first is measured
            // first.
            if !(self.quick && block == 0) {
                Random::new(derive_seed(self.seed, &[ORDER, u64::from(block)])).shuffle(&mut order);
            }
            let seed = derive_seed(self.seed, &[DATA, u64::from(block)]);
            let runnable = order.into_iter().filter(|cell| cell.skipped.is_none());
            turns.extend((0..).zip(runnable).map(|(position, cell)| PlannedRun {
                cell: cell.id,
                block,
                position,
                seed,
            }));
        }
        turns
    }

    /// The runs that `results` lack: those never made and those that failed.
    ///
    /// # Errors
    /// Results of another plan, with the first difference.
    pub fn missing(&self, results: &Results) -> Result<Vec<PlannedRun>, PlanDiffers> {
        if let Some(difference) = self.difference(results) {
            return Err(PlanDiffers { difference });
        }
        Ok(self.lacking(results))
    }

    /// The runs of the plan that results of the same cells lack.
    #[must_use]
    pub fn lacking(&self, results: &Results) -> Vec<PlannedRun> {
        let done: HashSet<(i64, u32)> = results
            .runs
            .iter()
            .filter(|run| run.status == RunStatus::Done)
            .map(|run| (run.cell, run.block))
            .collect();
        self.turns().into_iter().filter(|turn| !done.contains(&(turn.cell, turn.block))).collect()
    }

    fn difference(&self, results: &Results) -> Option<String> {
        let there = &results.experiment;
        if there.name != self.experiment {
            return Some(format!("they are of the experiment {}, not {}", there.name, self.experiment));
        }
        if there.seed != self.seed {
            return Some(format!("they were made with --seed {}, not {}", there.seed, self.seed));
        }
        if there.quick != self.quick {
            let (was, is) = if there.quick { ("with", "without") } else { ("without", "with") };
            return Some(format!("they were begun {was} --quick, this is {is}"));
        }
        if there.repeats != self.repeats {
            return Some(format!("they have {} runs of each cell, not {}", there.repeats, self.repeats));
        }
        if results.cells.len() != self.cells.len() {
            return Some(format!("they have {} cells, not {}", results.cells.len(), self.cells.len()));
        }
        let differing = results.cells.iter().zip(&self.cells).find(|(there, here)| {
            there.id != here.id || there.label != here.label || there.spec != here.cell
        });
        differing.map(|(there, here)| {
            if there.label == here.label {
                format!("the settings of the cell \"{}\" differ", here.label)
            } else {
                format!("cell {} is \"{}\" there and \"{}\" here", here.id, there.label, here.label)
            }
        })
    }

    /// The cells as rows of a results file.
    #[must_use]
    pub fn rows(&self) -> Vec<CellRow> {
        self.cells
            .iter()
            .map(|planned| CellRow {
                id: planned.id,
                label: planned.label.clone(),
                title: String::new(),
                axes: planned.cell.axes.clone(),
                spec: planned.cell.clone(),
                durability: None,
                skipped: planned.skipped.clone(),
            })
            .collect()
    }
}
