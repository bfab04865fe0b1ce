//! The plan: the same seed is the same plan, every block holds every cell, and what is broken off
//! can be gone on with.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail by panicking, as tests do")]

use std::collections::BTreeSet;
use std::time::Duration;

use fathom_lab::experiment::{Cells, Experiment, Selection, Vocabulary, builtin, builtin_named};
use fathom_lab::failure::FailureKind;
use fathom_lab::plan::{Machine, Needs, Plan, PlannedRun};
use fathom_lab::schedule::{
    EarlyEnd, Ending, Limits, Progress, StackFailure, Summary, WorkError, World, carry_out,
};
use fathom_lab::sim::{KIND, Noise, VirtualLab, experiment_row};
use fathom_lab::store::{Results, RunStatus, Writer};
use fathom_stack::Capability;
use fathom_workload::spec::EngineSpec;
use proptest::prelude::*;
use serde_json::json;

const NEVER_EARLY: Ending = Ending { until: None, budget: None, least: 0, firm: 0 };
const LIMITS: Limits = Limits { run: Duration::from_secs(60), ending: NEVER_EARLY, look: None };

fn experiment(cells: usize, repeats: u32) -> (Experiment, Cells) {
    let copies: Vec<String> = (0..cells).map(|copy| copy.to_string()).collect();
    let source = format!(
        "name = \"planned\"\nrepeats = {repeats}\n[workload]\nname = \"sim\"\ntransactions = 3\n[matrix]\n\"workload.copy\" = [{}]",
        copies.join(", ")
    );
    let vocabulary =
        Vocabulary { workloads: vec![&KIND], engines: Vec::new(), machine: fathom_stack::Machine::here() };
    let experiment = Experiment::parse("planned.toml", &source).unwrap();
    let cells = experiment.cells(&Selection::default(), &vocabulary).unwrap();
    (experiment, cells)
}

fn plan(cells: usize, repeats: u32, seed: u64) -> Plan {
    let (experiment, cells) = experiment(cells, repeats);
    Plan::new(&experiment, &cells, false, seed, &Machine::default())
}

/// What happened: an experiment file of a few hundred bytes, two axes of 100 values and 10,000
/// repeats, took 4.7 GB and 22 s of `--plan`, and where memory is limited the process aborted. The
/// mend: cells times repeats are bounded, whoever asks for them, before any memory is taken for
/// each.
#[test]
fn a_small_file_asks_for_no_more_runs_than_a_plan_may_have() {
    let values = |prefix: &str, n: usize| {
        (0..n).map(|number| format!("{prefix}{number}")).collect::<Vec<_>>().join(", ")
    };
    let source = |repeats: u32, n: usize| {
        format!(
            "name = \"many\"\nrepeats = {repeats}\n[workload]\nname = \"sim\"\ntransactions = 3\n[matrix]\n\"workload.copy\" = [{}]",
            values("", n)
        )
    };
    let vocabulary =
        Vocabulary { workloads: vec![&KIND], engines: Vec::new(), machine: fathom_stack::Machine::here() };
    let planned = |repeats: u32, n: usize, selection: &Selection| {
        let experiment = Experiment::parse("many.toml", &source(repeats, n)).unwrap();
        experiment.cells(selection, &vocabulary).map_err(|error| error.to_string())
    };
    let plain = Selection::default();
    assert_eq!(planned(1_000, 100, &plain).unwrap().cells.len(), 100, "100,000 runs are the most");
    for (repeats, selection) in [
        (1_001, plain.clone()),
        (10_000, plain.clone()),
        (1, Selection { repeat: Some(1_001), ..plain.clone() }),
    ] {
        let error = planned(repeats, 100, &selection).unwrap_err();
        for part in ["many.toml:7", "of each of 100 cells are", "100,000 is the most", "--repeat"] {
            assert!(error.contains(part), "{part}: {error}");
        }
    }
    // The command line asks for more cells than a file may.
    let sets = vec![format!("workload.transactions=[{}]", values("", 200).replace("0, ", "200, "))];
    let error = planned(1, 100, &Selection { sets, ..plain }).unwrap_err();
    assert!(error.contains("cells") && error.contains("10,000 is the most"), "{error}");
}

/// On FAT without long names `x.db-wal` and `x.db-shm` are one file, `x.db-`: a run on it would
/// measure a broken database.
#[test]
fn wal_on_a_file_system_without_long_names_is_left_out_with_the_reason() {
    let source = "name = \"short\"\nrepeats = 1\n[workload]\nname = \"mobibench-sql\"\n[engine]\nname = \"sqlite\"\n\
                  [matrix]\n\"stack.filesystem\" = [\"msdos\", \"vfat\"]\n\"engine.journal_mode\" = [\"delete\", \"wal\"]";
    let experiment = Experiment::parse("short.toml", source).unwrap();
    let cells = experiment.cells(&Selection::default(), &Vocabulary::here()).unwrap();
    let here = |name: &str| Capability {
        name: name.into(),
        present: true,
        detail: String::new(),
        remedy: String::new(),
    };
    let plan = Plan::new(&experiment, &cells, false, 1, &Machine::of(vec![here("msdos"), here("vfat")]));
    let skipped: Vec<&str> = plan.cells.iter().filter_map(|cell| cell.skipped.as_deref()).collect();
    assert_eq!((plan.cells.len(), skipped.len()), (4, 1), "{skipped:?}");
    assert!(skipped[0].contains("one file") && skipped[0].contains("vfat"), "{skipped:?}");
}

proptest! {
    #[test]
    fn every_block_holds_every_cell_once_and_the_seed_decides(
        cells in 1..9_usize, repeats in 1..8_u32, seed in any::<u64>(),
    ) {
        let one = plan(cells, repeats, seed);
        let turns = one.turns();
        prop_assert_eq!(&turns, &plan(cells, repeats, seed).turns());
        prop_assert_eq!(turns.len(), cells * repeats as usize);
        for (block, turns) in (0..).zip(turns.chunks(cells)) {
            let ids: BTreeSet<i64> = turns.iter().map(|turn| turn.cell).collect();
            prop_assert_eq!(ids.len(), cells);
            prop_assert!(turns.iter().all(|turn| turn.block == block));
            prop_assert!(turns.iter().enumerate().all(|(place, turn)| turn.position as usize == place));
            // One data seed a block, another in every block.
            prop_assert!(turns.iter().all(|turn| turn.seed == turns[0].seed));
        }
        let seeds: BTreeSet<u64> = turns.iter().map(|turn| turn.seed).collect();
        prop_assert_eq!(seeds.len(), repeats as usize);
    }

    #[test]
    fn a_longer_plan_begins_as_the_shorter_one(cells in 1..9_usize, repeats in 1..6_u32, seed in any::<u64>()) {
        let (short, long) = (plan(cells, repeats, seed).turns(), plan(cells, repeats + 2, seed).turns());
        prop_assert_eq!(&short[..], &long[..short.len()]);
    }

    #[test]
    fn a_skipped_cell_does_not_change_the_order_of_the_rest(cells in 2..9_usize, seed in any::<u64>()) {
        let whole = plan(cells, 3, seed);
        let mut less = whole.clone();
        less.cells[0].skipped = Some("not here".into());
        let order = |plan: &Plan| -> Vec<(u32, i64)> {
            plan.turns().iter().filter(|turn| turn.cell != 1).map(|turn| (turn.block, turn.cell)).collect()
        };
        prop_assert_eq!(order(&whole), order(&less));
        prop_assert!(less.turns().iter().all(|turn| turn.cell != 1));
    }
}

#[test]
fn seeds_give_different_orders() {
    let orders: BTreeSet<Vec<i64>> =
        (0..50).map(|seed| plan(5, 1, seed).turns().iter().map(|turn| turn.cell).collect()).collect();
    // 120 orders of five: fifty draws give about forty different ones.
    assert!(orders.len() > 30, "{}", orders.len());
}

#[test]
fn a_cell_that_cannot_run_says_why_and_what_brings_it() {
    let (experiment, mut cells) = experiment(2, 1);
    cells.cells[1].1.stack.place = "ext4".into();
    let absent = Capability {
        name: "ext4".into(),
        present: false,
        detail: "mkfs.ext4 is not installed.".into(),
        remedy: "apt install e2fsprogs".into(),
    };
    let skipped = |capabilities| {
        Plan::new(&experiment, &cells, false, 1, &Machine::of(capabilities)).cells[1].skipped.clone()
    };
    assert_eq!(
        skipped(vec![absent.clone()]).as_deref(),
        Some("ext4 is not here: mkfs.ext4 is not installed. `apt install e2fsprogs` brings it.")
    );
    assert_eq!(skipped(vec![]).as_deref(), Some("ext4 is not here: this machine knows nothing of it."));
    assert_eq!(skipped(vec![Capability { present: true, ..absent }]), None);
}

/// What happened: of a board that was named without root, cells were skipped with "ext4 is not here
/// … `run fathom with sudo` brings it", which would be done here, and brings the board nothing.
#[test]
fn what_another_machine_lacks_is_told_of_it_and_brought_there() {
    let (experiment, mut cells) = experiment(2, 1);
    cells.cells[1].1.stack.place = "ext4".into();
    let mut skipped = |on: &str, remedy: &str| {
        cells.cells[1].1.on = on.into();
        let absent =
            Capability { name: "ext4".into(), present: false, detail: "no".into(), remedy: remedy.into() };
        let machine = Machine::default().with(on, vec![absent]);
        Plan::new(&experiment, &cells, false, 1, &machine).cells[1].skipped.clone().unwrap()
    };
    for (on, remedy, told) in [
        ("ssh:pi@board:/x", "run fathom with sudo", "no. Its root can: --on ssh:root@board."),
        ("adb:1", "run fathom with sudo", "no. `adb root` brings it."),
        (
            "ssh:board",
            "sudo apt-get install x",
            "no. On that machine itself `sudo apt-get install x` brings it.",
        ),
        ("ssh:board", "", "no."),
    ] {
        assert_eq!(skipped(on, remedy), format!("ext4 is not on {on}: {told}"));
    }
    assert!(skipped("local", "run fathom with sudo").contains("is not here: no. `run fathom with sudo`"));
}

/// What happened: a `directory` that is not there passed the plan, and every run failed of it.
#[test]
fn a_directory_that_is_not_there_is_told_at_the_plan() {
    let (experiment, mut cells) = experiment(2, 1);
    let mut skipped = |directory: &str, on: &str| {
        cells.cells[1].1.stack.directory = Some(directory.into());
        cells.cells[1].1.on = on.into();
        Plan::new(&experiment, &cells, false, 1, &Machine::default()).cells[1].skipped.clone()
    };
    let told = skipped("/no/such/place", "").unwrap();
    assert!(told.starts_with("/no/such/place is no directory here."), "{told}");
    assert!(skipped("/dev/null", "local").is_some());
    assert_eq!(skipped("/", ""), None);
    assert_eq!(skipped("/no/such/place", "ssh:board"), None, "it may be there");
}

/// What happened: `--set engine=sqlcipher --set library=./libsqlcipher.so` was skipped as "sqlcipher
/// is not here" on a machine where none is installed, and PostgreSQL with `bin_directory` likewise:
/// the plan asked for the engine's capability, whatever its settings said. The mend: the engine
/// says what it needs with these settings.
#[test]
fn a_library_that_a_setting_names_need_not_be_installed() {
    let (experiment, mut cells) = experiment(2, 1);
    let mut skipped = |name: &str, settings: serde_json::Value| {
        let settings = serde_json::from_value(settings).unwrap();
        cells.cells[1].1.engine = Some(EngineSpec { name: name.into(), settings });
        let plan = Plan::new(&experiment, &cells, false, 1, &Machine::default());
        (Needs::of(&cells).companions, plan.cells[1].skipped.clone())
    };
    for (name, setting) in [("sqlcipher", "library"), ("postgresql", "bin_directory")] {
        let (asked, why) = skipped(name, json!({}));
        let told = format!("{name} is not here: this machine knows nothing of it.");
        assert_eq!((asked, why), (true, Some(told)));
        assert_eq!(skipped(name, json!({ setting: "/opt/there" })), (false, None), "{name}");
    }
    assert_eq!(skipped("sqlite", json!({})), (false, None));
}

struct Bench {
    _directory: tempfile::TempDir,
    path: std::path::PathBuf,
    plan: Plan,
}

fn bench(plan: Plan) -> (Bench, Writer) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("results.db");
    let writer = Writer::create(&path, &experiment_row(&plan), &Default::default(), &plan.rows()).unwrap();
    (Bench { _directory: directory, path, plan }, writer)
}

impl Bench {
    fn go(&self, writer: Writer, turns: &[PlannedRun], lab: VirtualLab) -> (Summary, Vec<Progress>) {
        self.go_until(writer, turns, lab, NEVER_EARLY)
    }

    fn go_until(
        &self,
        mut writer: Writer,
        turns: &[PlannedRun],
        mut lab: VirtualLab,
        ending: Ending,
    ) -> (Summary, Vec<Progress>) {
        let mut seen = Vec::new();
        let limits = Limits { ending, ..LIMITS };
        let summary = carry_out(&self.plan, turns, limits, &mut lab, &mut writer, &mut |progress| {
            seen.push(progress.clone())
        })
        .unwrap();
        writer.close(None).unwrap();
        (summary, seen)
    }
}

/// What a machine was like was kept of the begin and the end of the whole only.
#[test]
fn each_run_keeps_what_its_machine_was_like_before_and_after_it() {
    let (bench, writer) = bench(plan(2, 2, 5));
    let mut lab = VirtualLab::new(1, Noise::default());
    lab.state.temperature_mc = Some(40_000);
    lab.breaks.insert(2, WorkError::Failed("the worker was killed".into()));
    bench.go(writer, &bench.plan.turns(), lab);
    let results = Results::load(&bench.path).unwrap();
    let told: Vec<_> = results
        .runs
        .iter()
        .map(|run| (run.conditions.begin.temperature_mc, run.conditions.end.temperature_mc))
        .collect();
    let degrees = |before, after: Option<i64>| (Some(before), after);
    assert_eq!(
        told,
        [
            degrees(40_000, Some(41_000)),
            degrees(41_000, Some(42_000)),
            // Nothing is asked of a machine on which a run has failed.
            degrees(42_000, None),
            degrees(42_000, Some(43_000))
        ]
    );
    // Of a machine that tells nothing there is nothing.
    let (silent, writer) = self::bench(plan(2, 1, 5));
    silent.go(writer, &silent.plan.turns(), VirtualLab::new(1, Noise::default()));
    let results = Results::load(&silent.path).unwrap();
    assert_eq!(results.runs.iter().filter(|run| run.conditions.is_known()).count(), 0);
}

#[test]
fn a_failed_run_does_not_stop_the_rest_and_resume_repeats_it() {
    let (bench, writer) = bench(plan(3, 3, 5));
    let mut lab = VirtualLab::new(1, Noise::default());
    lab.breaks.insert(4, WorkError::Failed("the worker was killed".into()));
    let (summary, seen) = bench.go(writer, &bench.plan.turns(), lab);
    assert_eq!((summary.done, summary.missing, summary.interrupted), (8, 0, false));
    let label =
        bench.plan.cells.iter().find(|cell| cell.id == bench.plan.turns()[4].cell).unwrap().label.clone();
    assert_eq!(summary.failed, [(label, "the worker was killed".to_owned())]);
    // Progress counts up, and knows the time that is left after the first run.
    assert!(seen.windows(2).all(|pair| pair[0].done <= pair[1].done));
    assert_eq!((seen[0].left, seen.last().unwrap().total), (None, 9));
    assert!(seen.iter().filter(|progress| progress.done > 0).all(|progress| progress.left.is_some()));

    let results = Results::load(&bench.path).unwrap();
    assert_eq!(results.failed_runs().count(), 1);
    let missing = bench.plan.missing(&results).unwrap();
    assert_eq!(missing, [bench.plan.turns()[4]]);
    let writer = Writer::resume(results).unwrap();
    let (summary, _) = bench.go(writer, &missing, VirtualLab::new(1, Noise::default()));
    assert_eq!((summary.done, summary.failed.len()), (1, 0));
    let results = Results::load(&bench.path).unwrap();
    assert!(results.runs.iter().all(|run| run.status == RunStatus::Done));
    assert_eq!(bench.plan.missing(&results).unwrap(), []);
}

#[test]
fn stopping_keeps_finished_runs_and_resume_makes_the_others() {
    let (bench, writer) = bench(plan(3, 3, 5));
    let mut lab = VirtualLab::new(1, Noise::default());
    lab.breaks.insert(5, WorkError::Interrupted);
    let (summary, _) = bench.go(writer, &bench.plan.turns(), lab);
    assert_eq!((summary.done, summary.missing, summary.interrupted), (5, 4, true));
    assert_eq!(summary.failed, []);
    let results = Results::load(&bench.path).unwrap();
    let missing = bench.plan.missing(&results).unwrap();
    assert_eq!(missing, bench.plan.turns()[5..]);
    let writer = Writer::resume(results).unwrap();
    let (summary, seen) = bench.go(writer, &missing, VirtualLab::new(1, Noise::default()));
    assert_eq!((summary.done, summary.missing, summary.interrupted), (4, 0, false));
    assert_eq!((seen[0].done, seen[0].total), (5, 9));
}

#[test]
fn stopping_between_runs_makes_no_further_one() {
    let (bench, writer) = bench(plan(2, 2, 5));
    let mut lab = VirtualLab::new(1, Noise::default());
    lab.stop_before = Some(1);
    let (summary, _) = bench.go(writer, &bench.plan.turns(), lab);
    assert_eq!((summary.done, summary.missing, summary.interrupted), (1, 3, true));
}

/// What happened: Ctrl-C while a stack was made was heard only when its floor was measured and a
/// worker had begun, which takes seconds on a slow card.
#[test]
fn stopping_while_a_stack_is_made_measures_nothing_on_it() {
    let (bench, writer) = bench(plan(2, 2, 5));
    let mut lab = VirtualLab::new(1, Noise::default());
    lab.stops_while_made = true;
    let (summary, seen) = bench.go(writer, &bench.plan.turns(), lab);
    assert_eq!((summary.done, summary.missing, summary.interrupted), (0, 4, true));
    assert_eq!(summary.failed, []);
    assert!(seen.iter().all(|progress| progress.floor_ns.is_none()), "{seen:?}");
}

/// What happened: Ctrl-C while a stack was made on another machine ended the connection, and the
/// run was written down as one that had failed ("stopped by a signal").
#[test]
fn stopping_while_a_stack_cannot_be_made_is_no_failed_run() {
    for (stops, is_full_disk, failed) in [(true, false, 0), (false, false, 4), (false, true, 4)] {
        let (bench, writer) = bench(plan(2, 2, 5));
        let mut lab = VirtualLab::new(1, Noise::default());
        (lab.stops_while_made, lab.makes_nothing) =
            (stops, Some(StackFailure { problem: "no".into(), is_full_disk }));
        let (summary, _) = bench.go(writer, &bench.plan.turns(), lab);
        assert_eq!((summary.done, summary.failed.len(), summary.interrupted), (0, failed, stops));
        let runs = Results::load(&bench.path).unwrap().runs;
        assert_eq!(runs.len(), failed);
        // It was told by words that an image did not fit.
        let kind = if is_full_disk { FailureKind::NoRoom } else { FailureKind::Machine };
        assert!(runs.iter().all(|run| run.failure == Some(kind)), "{runs:?}");
    }
}

#[test]
fn another_plan_is_refused_and_the_difference_told() {
    let (bench, writer) = bench(plan(2, 2, 5));
    writer.close(None).unwrap();
    let results = Results::load(&bench.path).unwrap();
    let told = |plan: Plan| plan.missing(&results).unwrap_err().difference;
    assert_eq!(told(plan(2, 2, 6)), "they were made with --seed 5, not 6");
    assert_eq!(told(plan(2, 3, 5)), "they have 2 runs of each cell, not 3");
    assert_eq!(told(plan(3, 2, 5)), "they have 2 cells, not 3");
    let changed = |change: &dyn Fn(&mut Plan)| {
        let mut plan = plan(2, 2, 5);
        change(&mut plan);
        told(plan)
    };
    assert_eq!(changed(&|plan| plan.quick = true), "they were begun without --quick, this is with");
    assert_eq!(
        changed(&|plan| plan.experiment = "other".into()),
        "they are of the experiment planned, not other"
    );
    assert_eq!(changed(&|plan| plan.cells[1].label = "7".into()), "cell 2 is \"1\" there and \"7\" here");
    assert_eq!(
        changed(&|plan| plan.cells[0].cell.stack.mount = Some("noatime".into())),
        "the settings of the cell \"0\" differ"
    );
    let text = plan(2, 3, 5).missing(&results).unwrap_err().to_string();
    assert!(text.ends_with("Give the same experiment and options, or another `--out`"), "{text}");
}

/// What happened: an experiment was gone on with after its card's model had been measured anew, or
/// the image that each run begins with had been written to, and the runs of both were one mean.
#[test]
fn what_runs_are_made_of_is_the_same_when_they_are_gone_on_with() {
    let (bench, writer) = bench(plan(2, 2, 5));
    bench.go(writer, &bench.plan.turns(), VirtualLab::new(1, Noise::default()));
    let mut results = Results::load(&bench.path).unwrap();
    let replaced = |results: &Results, change: &dyn Fn(&mut Plan)| {
        let mut plan = bench.plan.clone();
        change(&mut plan);
        plan.replaced(results)
    };
    assert_eq!(replaced(&results, &|_| ()), None);
    let on_card = |plan: &mut Plan| plan.cells[1].cell.stack.device = Some("sd-slow".into());
    assert_eq!(replaced(&results, &on_card), None, "earlier versions did not keep it");
    for run in &mut results.runs {
        run.stack.models = vec![fathom_device::text_of("sd-slow").unwrap().to_owned()];
    }
    assert_eq!(replaced(&results, &on_card), None);
    for run in &mut results.runs {
        run.stack.models = vec!["name = \"sd-slow\"".into()];
    }
    let told = replaced(&results, &on_card).unwrap();
    assert!(told.contains("the model of sd-slow is another one now"), "{told}");
    let image = bench.path.with_extension("img");
    std::fs::write(&image, "x").unwrap();
    let with_image = |plan: &mut Plan| plan.cells[0].cell.stack.image = Some(image.clone());
    // The virtual clock begins in 1970 or so.
    results.experiment.started_ms = 1;
    assert!(replaced(&results, &with_image).unwrap().contains("was changed after their runs had begun"));
    results.experiment.started_ms = i64::MAX;
    assert_eq!(replaced(&results, &with_image), None);
    // Written to while the experiment ran, and before it was gone on with.
    for (state, is_told) in [(fathom_stack::image_state(&image), false), ("0 bytes".into(), true)] {
        for run in &mut results.runs {
            run.stack.image = state.clone();
        }
        assert_eq!(replaced(&results, &with_image).is_some(), is_told, "{state}");
    }
    // A trace by what it holds.
    let traced = |plan: &mut Plan| {
        plan.cells[0].cell.workload.params.insert("file".into(), json!(image.to_str().unwrap()));
    };
    for run in &mut results.runs {
        run.parameters.insert("file_sha3_256".into(), json!("1f"));
    }
    assert!(replaced(&results, &traced).unwrap().contains("another file now"));
}

#[test]
fn a_schedule_ends_when_every_value_is_known_well_enough() {
    let noise = Noise { block: 0.04, drift_per_hour: 0.0, ..Noise::default() };
    let ended_after = |until| {
        let (bench, writer) = bench(plan(3, 40, 5));
        let ending = Ending { until: Some(until), budget: None, least: 4, firm: 0 };
        let (summary, seen) = bench.go_until(writer, &bench.plan.turns(), VirtualLab::new(1, noise), ending);
        let results = Results::load(&bench.path).unwrap();
        assert_eq!(results.experiment.repeats, summary.blocks, "the file says how many there are");
        assert_eq!((summary.done, summary.missing), (3 * summary.blocks as usize, 0));
        assert!(seen.iter().all(|progress| progress.may_end_early));
        let analysis = fathom_lab::analysis::Analysis::of(&results).unwrap();
        let widths = analysis.measures.iter().map(|measure| {
            let measure = measure.interval(measure.main_metric());
            (measure.high / measure.low).sqrt() - 1.0
        });
        let widest = widths.fold(0.0, f64::max);
        if let Some(EarlyEnd::Precise { widest: told }) = summary.ended {
            assert!(widest <= until && (told - widest).abs() < 1e-9, "{told} {widest}");
        }
        (summary.blocks, summary.ended.is_some(), widest)
    };
    let (rough, is_early, _) = ended_after(0.3);
    assert_eq!((rough, is_early), (4, true), "the least is made in any case");
    let (all, is_early, widest) = ended_after(0.0001);
    assert!(all == 40 && !is_early && widest > 0.0001, "{all}");
    // Half as wide again as forty blocks make it: some blocks more than the least, and not all.
    let (fine, is_early, _) = ended_after(widest * 1.5);
    assert!((5..40).contains(&fine) && is_early, "{fine}");
}

#[test]
fn a_budget_begins_no_block_that_would_not_be_over_within_it() {
    let (bench_all, writer) = bench(plan(3, 10, 5));
    let lab = VirtualLab::new(1, Noise { drift_per_hour: 0.0, ..Noise::default() });
    bench_all.go(writer, &bench_all.plan.turns(), lab.clone());
    // Making a stack takes longer than the runs, and counts.
    let runs = Results::load(&bench_all.path).unwrap().runs;
    let begins = runs.iter().map(|run| run.started_ms);
    let apart = begins.clone().max().unwrap() - begins.min().unwrap();
    let whole = apart.unsigned_abs() * 1_000_000 * 30 / 29;
    // Twice as many runs take about twice as long.
    let longer = plan(3, 20, 5);
    let earlier = Results::load(&bench_all.path).unwrap();
    let told = fathom_lab::estimate::estimate(&longer, &longer.turns(), &earlier).unwrap();
    assert_eq!((told.known, told.cells), (3, 3));
    let ratio = told.time.as_nanos() as f64 / whole as f64;
    assert!((1.99..2.01).contains(&ratio), "{ratio}");
    let mut other = plan(3, 20, 5);
    other.cells.iter_mut().for_each(|cell| cell.cell.stack.mount = Some("noatime".into()));
    assert_eq!(fathom_lab::estimate::estimate(&other, &other.turns(), &earlier), None);
    let budget = Duration::from_nanos(whole * 45 / 100);
    let (bench, writer) = bench(plan(3, 10, 5));
    let ending = Ending { until: None, budget: Some(budget), least: 10, firm: 0 };
    let (summary, _) = bench.go_until(writer, &bench.plan.turns(), lab, ending);
    assert_eq!((summary.ended, summary.missing), (Some(EarlyEnd::OutOfTime), 0));
    assert_eq!(summary.blocks, 4, "of 4.5 that would fit");
    assert_eq!(summary.done, 3 * summary.blocks as usize, "whole blocks");
    let results = Results::load(&bench.path).unwrap();
    assert_eq!(results.experiment.repeats, summary.blocks);
    let longer = bench.plan.lacking(&results);
    assert_eq!(longer, bench.plan.turns()[summary.done..], "what is left can be made later");
}

#[test]
fn a_budget_that_ends_within_the_first_block_keeps_its_runs_and_tells_the_missing_ones() {
    let (bench, writer) = bench(plan(4, 3, 5));
    let ending = Ending { until: None, budget: Some(Duration::from_nanos(1)), least: 3, firm: 0 };
    let lab = VirtualLab::new(1, Noise::default());
    let (summary, _) = bench.go_until(writer, &bench.plan.turns(), lab, ending);
    assert_eq!((summary.done, summary.missing, summary.blocks), (1, 3, 1));
    assert_eq!(summary.ended, Some(EarlyEnd::OutOfTime));
}

#[test]
fn firm_blocks_are_made_whatever_the_budget() {
    let (bench, writer) = bench(plan(4, 9, 5));
    let ending = Ending { until: None, budget: Some(Duration::from_nanos(1)), least: 3, firm: 3 };
    let lab = VirtualLab::new(1, Noise::default());
    let (summary, _) = bench.go_until(writer, &bench.plan.turns(), lab, ending);
    assert_eq!((summary.done, summary.missing, summary.blocks), (12, 0, 3), "whole blocks, and no more");
    assert_eq!(summary.ended, Some(EarlyEnd::OutOfTime));
}

/// What happened: `fathom run sms-centre --quick` was to be over in two minutes on two cores;
/// beside other work 9 of its 34 runs were made in five, in an order of luck, and a user who
/// stopped it had no number of what the experiment is about. The mend: a look measures what its
/// experiment names first, and ends by what its runs have taken.
#[test]
fn a_look_ends_in_time_and_has_measured_what_is_named_first() {
    let quiet = Noise { drift_per_hour: 0.0, ..Noise::default() };
    let look_of = |look: Duration| {
        let (experiment, cells) = experiment(6, 3);
        let (bench, mut writer) = bench(Plan::new(&experiment, &cells, true, 5, &Machine::default()));
        let turns = bench.plan.turns();
        let mut lab = VirtualLab::new(1, quiet);
        let limits = Limits { look: Some(look), ..LIMITS };
        let summary = carry_out(&bench.plan, &turns, limits, &mut lab, &mut writer, &mut |_| {}).unwrap();
        writer.close(None).unwrap();
        let results = Results::load(&bench.path).unwrap();
        assert_eq!(summary.done + summary.missing, 18, "{summary:?}");
        assert_eq!(results.experiment.repeats, 3, "what is missing can be made later");
        assert_eq!(bench.plan.missing(&results).unwrap().len(), summary.missing);
        assert!(
            results.runs.iter().all(|run| run.status == RunStatus::Done),
            "what is cut off has not failed"
        );
        let order: Vec<i64> = results.runs.iter().map(|run| run.cell).collect();
        (summary, order, lab.now_ns())
    };
    let (all, order, whole_ns) = look_of(Duration::from_secs(3600));
    assert_eq!((all.ended, all.missing), (None, 0));
    assert_eq!(order[..6], [1, 2, 3, 4, 5, 6], "the first block in the experiment's order");
    // 3.5 of 18 runs fit: it is over in time, and has the first ones.
    let look = Duration::from_nanos(whole_ns * 7 / 36);
    let (cut, order, took_ns) = look_of(look);
    assert_eq!((cut.ended, order), (Some(EarlyEnd::OutOfTime), vec![1, 2, 3]));
    assert!(took_ns <= look.as_nanos() as u64, "{took_ns} {look:?}");
    // Nobody knows how long the first run takes: it is cut off.
    let (none, order, _) = look_of(Duration::from_nanos(1000));
    assert_eq!((none.done, none.ended, order), (0, Some(EarlyEnd::OutOfTime), Vec::new()));
}

/// Two minutes are for the runs that a look has: many variants times many sizes are no look.
/// Measured with a load of 20 on two cores a run took 4 to 12 s, so that some of them are left for
/// `--resume` there; on a quiet machine, where one takes a second or two, all are made.
#[test]
fn the_look_of_every_built_in_experiment_has_few_runs_and_begins_with_its_headline() {
    for builtin in builtin() {
        let experiment = Experiment::parse(builtin.name, builtin.source).unwrap();
        let selection = Selection { quick: true, ..Selection::default() };
        let cells = experiment.cells(&selection, &Vocabulary::here()).unwrap();
        let plan = Plan::new(&experiment, &cells, true, 1, &Machine::here(&cells));
        println!(
            "{}: {} cells, {} runs",
            builtin.name,
            plan.cells.len(),
            plan.cells.len() as u32 * plan.repeats
        );
        assert!(plan.cells.len() as u32 * plan.repeats <= 90, "{}", builtin.name);
        let first: Vec<i64> =
            plan.turns().iter().filter(|turn| turn.block == 0).map(|turn| turn.cell).collect();
        assert!(first.is_sorted(), "{}: {first:?}", builtin.name);
    }
    // Who names variants gets those, and not the look's.
    let experiment = Experiment::parse("sms-centre", builtin_named("sms-centre").unwrap().source).unwrap();
    let cells = |sets: &[&str]| {
        let sets = sets.iter().map(|set| (*set).to_owned()).collect();
        let selection = Selection { quick: true, sets, ..Selection::default() };
        experiment.cells(&selection, &Vocabulary::here()).unwrap().cells.len()
    };
    assert_eq!((cells(&[]), cells(&["variants=mmdb early,mmdb pipelined,sqlite pipelined"])), (5, 3));
}
