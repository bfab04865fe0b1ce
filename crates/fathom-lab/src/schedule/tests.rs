//! Schedules that are gone on with.

use super::*;
use crate::analysis::Analysis;
use crate::experiment::{Experiment, Selection, Vocabulary};
use crate::plan::Machine;
use crate::sim::{KIND, Noise, VirtualLab, experiment_row};
use crate::store::Results;

/// Two cells, at most twelve runs of each.
fn plan() -> Plan {
    let source = "name = \"again\"\nrepeats = 12\n[workload]\nname = \"sim\"\ntransactions = 3\n[matrix]\n\
                  \"workload.copy\" = [1, 2]";
    let vocabulary =
        Vocabulary { workloads: vec![&KIND], engines: Vec::new(), machine: fathom_stack::Machine::here() };
    let experiment = Experiment::parse("again.toml", source).unwrap();
    let cells = experiment.cells(&Selection::default(), &vocabulary).unwrap();
    Plan::new(&experiment, &cells, false, 5, &Machine::default())
}

fn until(share: f64) -> Limits {
    let ending = Ending { until: Some(share), budget: None, least: 4, firm: 0 };
    Limits { run: Duration::from_secs(60), ending, look: None }
}

/// What happened: with `--until` the file's number of runs became that of the block that was made
/// last. A run that had failed in the second block of six was made again, everything was precise
/// enough, and the file said two runs of each cell, of which it had six; who went on with what was
/// precise already was told "Ended after 0 runs of each cell".
#[test]
fn a_failed_run_that_is_made_again_takes_no_later_block_away() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("results.db");
    let plan = plan();
    let mut writer = Writer::create(&path, &experiment_row(&plan), &BTreeMap::new(), &plan.rows()).unwrap();
    let mut lab = VirtualLab::new(1, Noise::default());
    lab.breaks.insert(2, WorkError::Failed("the worker was killed".into()));
    lab.stop_before = Some(12);
    let limits = until(0.000_001);
    let made = carry_out(&plan, &plan.turns(), limits, &mut lab, &mut writer, &mut |_| {}).unwrap();
    writer.close(None).unwrap();
    assert_eq!((made.done, made.failed.len(), made.blocks, made.interrupted), (11, 1, 6, true));
    for done in [1, 0] {
        let results = Results::load(&path).unwrap();
        assert_eq!(results.experiment.repeats, 6);
        let mut precision = Precision::default();
        precision.add_analysis(&Analysis::of(&results).unwrap());
        let turns = plan.lacking(&results);
        let mut writer = Writer::resume(results).unwrap();
        let mut lab = VirtualLab::new(1, Noise::default());
        let made = go_on(&plan, &turns, until(9.0), precision, &mut lab, &mut writer, &mut |_| {}).unwrap();
        writer.close(None).unwrap();
        assert_eq!((made.done, made.blocks), (done, 6));
        assert!(matches!(made.ended, Some(EarlyEnd::Precise { .. })), "{made:?}");
    }
    assert_eq!(Results::load(&path).unwrap().experiment.repeats, 6);
}

/// What happened: a run's device drew its times by the number of stacks that the process had made.
/// Who went on with `--resume` began at 1 again, so that runs of one cell, each made by a command of
/// its own, all had the same times: their interval was next to nothing.
#[test]
fn each_run_has_a_devices_times_of_its_own_whichever_process_makes_it() {
    let mut plan = plan();
    let turns = plan.turns();
    let seed = |planned: &PlannedCell, turn: &PlannedRun| stack_of(planned, turn).device_seed;
    assert!(turns.iter().all(|turn| seed(&plan.cells[0], turn) == 0), "there is no device");
    for planned in &mut plan.cells {
        planned.cell.stack.device = Some("sd-slow".into());
    }
    let seeds = || -> Vec<u64> {
        let of = |turn: &PlannedRun| plan.cells.iter().find(|cell| cell.id == turn.cell).unwrap();
        turns.iter().map(|turn| seed(of(turn), turn)).collect()
    };
    let different: std::collections::BTreeSet<u64> = seeds().into_iter().collect();
    assert_eq!((different.len(), different.contains(&0)), (24, false));
    assert_eq!(seeds(), seeds(), "and the same ones again");
    plan.cells[0].cell.stack.device_seed = 7;
    assert_eq!(seed(&plan.cells[0], &turns[0]), 7, "as it was asked");
}

/// A virtual lab that notes what it is asked about a run.
struct Asked {
    lab: VirtualLab,
    questions: Vec<&'static str>,
}

impl World for Asked {
    fn now_ns(&mut self) -> u64 {
        self.lab.now_ns()
    }

    fn now_ms(&mut self) -> i64 {
        self.lab.now_ms()
    }

    fn up(&mut self, spec: &StackSpec, label: &str) -> Result<MountedStack, StackFailure> {
        self.lab.up(spec, label)
    }

    fn floor_ns(&mut self) -> Result<Option<u64>, StackFailure> {
        self.lab.floor_ns()
    }

    fn cpus(&mut self, cell: &PlannedCell) -> Vec<usize> {
        self.lab.cpus(cell)
    }

    fn work(
        &mut self,
        order: &WorkerRequest,
        limit: Duration,
        on_event: &mut dyn FnMut(Event),
    ) -> Result<(), WorkError> {
        self.questions.push("work");
        self.lab.work(order, limit, on_event)
    }

    fn devices(&mut self) -> Result<Vec<Statistics>, String> {
        self.questions.push("devices");
        Ok(Vec::new())
    }

    fn condition(&mut self) -> (MachineState, Vec<Warning>) {
        self.questions.push("condition");
        self.lab.condition()
    }

    fn down(&mut self) -> Result<(), String> {
        self.lab.down()
    }

    fn machine_load(&mut self) -> MachineLoad {
        self.lab.machine_load()
    }

    fn interrupted(&mut self) -> bool {
        self.lab.interrupted()
    }
}

/// What happened: the machine was asked for its temperature and battery, which takes a phone a
/// second, between a run's end and the second look at what its device has done: what the file
/// system wrote meanwhile counted as the run's.
#[test]
fn a_device_is_looked_at_as_soon_as_the_run_has_ended() {
    let plan = plan();
    let turn = plan.turns().remove(0);
    let planned = plan.cells.iter().find(|cell| cell.id == turn.cell).unwrap();
    let mut world = Asked { lab: VirtualLab::new(1, Noise::default()), questions: Vec::new() };
    let mut collector = Collector::new(&turn, 0);
    one_run(planned, &turn, until(0.5), &mut world, &mut collector, &mut |_, _| {}).unwrap();
    assert_eq!(world.questions, ["devices", "work", "devices", "condition"]);
}
