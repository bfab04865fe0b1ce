//! Does the lab find what is there, and nothing else? The whole way — experiment file, plan,
//! schedule, results file, analysis — on a virtual clock and device, where the truth is known.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail by panicking, as tests do")]

use std::path::Path;
use std::time::Duration;

use fathom_lab::analysis::{Analysis, cautions, headlines};
use fathom_lab::experiment::{Experiment, Metric, Selection, Vocabulary};
use fathom_lab::plan::{Machine, Plan};
use fathom_lab::schedule::{Ending, Limits, carry_out};
use fathom_lab::sim::{KIND, Noise, VirtualLab};
use fathom_lab::stats::Comparison;
use fathom_lab::store::{ExperimentRow, Results, Writer};
use fathom_random::derive_seed;

const NEVER_EARLY: Ending = Ending { until: None, budget: None, least: 0, firm: 0 };
const LIMITS: Limits = Limits { run: Duration::from_secs(60), ending: NEVER_EARLY, look: None };

fn vocabulary() -> Vocabulary {
    Vocabulary { workloads: vec![&KIND], engines: Vec::new(), machine: fathom_stack::Machine::here() }
}

/// Runs an experiment on a virtual lab and gives its results.
fn run(source: &str, seed: u64, directory: &Path) -> Results {
    let experiment = Experiment::parse("test.toml", source).unwrap();
    let cells = experiment.cells(&Selection::default(), &vocabulary()).unwrap();
    let plan = Plan::new(&experiment, &cells, false, seed, &Machine::default());
    let path = directory.join(format!("{seed}.db"));
    let row = ExperimentRow {
        name: experiment.name.clone(),
        title: experiment.title.clone(),
        source: source.into(),
        source_name: "test.toml".into(),
        command: "fathom run test.toml".into(),
        seed,
        repeats: plan.repeats,
        quick: false,
        fathom_version: "0".into(),
        started_ms: 0,
        finished_ms: None,
    };
    let mut writer = Writer::create(&path, &row, &Default::default(), &plan.rows()).unwrap();
    let mut lab = VirtualLab::new(derive_seed(seed, &[99]), Noise::default());
    let summary = carry_out(&plan, &plan.turns(), LIMITS, &mut lab, &mut writer, &mut |_| {}).unwrap();
    assert!(summary.failed.is_empty(), "{:?}", summary.failed);
    writer.close(Some(1)).unwrap();
    let results = Results::load(&path).unwrap();
    // Open, it can be read still; hundreds of them would fill a small /dev/shm.
    std::fs::remove_file(path).unwrap();
    results
}

/// The first cell against the second.
fn comparison(results: &Results, metric: Metric) -> Comparison {
    let analysis = Analysis::of(results).unwrap();
    let measure = |cell| analysis.get(cell, "insert", None).unwrap();
    measure(1).faster_than(measure(2), metric).unwrap()
}

const TWICE_THE_SAME: &str = r#"
name = "a-a"
repeats = 5
workload = { name = "sim", transactions = 200 }
matrix = { "workload.copy" = [1, 2] }
"#;

/// In memory where there is a tmpfs: thousands of results files are not what the disk is for.
fn scratch() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// The A/A check: the same cell twice, forty seeded repetitions, and that twenty-five times over,
/// because at an error rate of exactly 5 % forty repetitions alone bring anything from none to five
/// alarms (they do here: see what is printed). Seeds are 1 to 1000, not chosen.
#[test]
fn equal_cells_look_different_in_at_most_five_percent() {
    let directory = scratch();
    let alarms: Vec<u64> = (1..=1000)
        .filter(|&seed| comparison(&run(TWICE_THE_SAME, seed, directory.path()), Metric::Rate).proven)
        .collect();
    let mut groups: Vec<usize> =
        (0..25).map(|group| alarms.iter().filter(|&&alarm| (alarm - 1) / 40 == group).count()).collect();
    groups.sort_unstable();
    println!(
        "A/A: {} false alarms in 1000 seeded repetitions ({:.1} %); in groups of forty {groups:?}, median {}",
        alarms.len(),
        alarms.len() as f64 / 10.0,
        groups[12]
    );
    assert!(alarms.len() <= 50, "{} of 1000", alarms.len());
    assert!(groups[12] <= 2, "{groups:?}");
}

/// The power check: a true difference is found in most repetitions, with the right sign and size.
#[test]
fn a_true_difference_of_ten_percent_is_found() {
    let directory = scratch();
    for (percent, repeats, at_least) in [(10.0, 5, 160), (5.0, 10, 120)] {
        let source = format!(
            r#"
            name = "power-{percent}"
            repeats = {repeats}
            workload = {{ name = "sim", transactions = 200 }}
            matrix = {{ "workload.slower_percent" = [0.0, {percent:.1}] }}
            "#
        );
        let place = directory.path().join(percent.to_string());
        std::fs::create_dir(&place).unwrap();
        let found: Vec<Comparison> =
            (1..=200).map(|seed| comparison(&run(&source, seed, &place), Metric::Rate)).collect();
        let right = found.iter().filter(|comparison| comparison.proven && comparison.ratio > 1.0).count();
        let wrong = found.iter().filter(|comparison| comparison.proven && comparison.ratio < 1.0).count();
        let truth = 1.0 + percent / 100.0;
        let holds = found.iter().filter(|interval| interval.low <= truth && truth <= interval.high).count();
        println!(
            "power: a true {percent} % with {repeats} repeats is found in {right} of 200, the interval holds it in {holds}"
        );
        assert!(right >= at_least && wrong == 0, "{right} right, {wrong} wrong");
        // 190 expected, standard error 3.
        assert!(holds >= 181, "the interval holds the true ratio in only {holds} of 200");
    }
}

/// Without pairing by block, the lab's drift would drown what pairing finds: the reason for blocks.
#[test]
fn pairing_by_block_cancels_drift() {
    let directory = scratch();
    let source =
        TWICE_THE_SAME.replace("\"workload.copy\" = [1, 2]", "\"workload.slower_percent\" = [0.0, 10.0]");
    let (mut paired, mut unpaired) = (0, 0);
    for seed in 1..=40 {
        let results = run(&source, seed, directory.path());
        let analysis = Analysis::of(&results).unwrap();
        let rates = |cell| {
            let measure = analysis.get(cell, "insert", None).unwrap();
            measure.runs.iter().map(|run| run.rate).collect::<Vec<f64>>()
        };
        paired += i32::from(comparison(&results, Metric::Rate).proven);
        unpaired += i32::from(fathom_lab::stats::unpaired_ratio(&rates(1), &rates(2)).unwrap().proven);
    }
    println!("a true 10 % is found in {paired} of 40 with pairing by block, in {unpaired} without");
    assert!(paired >= 2 * unpaired);
}

#[test]
fn the_same_seed_gives_the_same_results_and_another_seed_others() {
    let directory = scratch();
    let elsewhere = scratch();
    let one = run(TWICE_THE_SAME, 7, directory.path());
    let again = run(TWICE_THE_SAME, 7, elsewhere.path());
    let other = run(TWICE_THE_SAME, 8, directory.path());
    assert_eq!((&one.runs, &one.phases), (&again.runs, &again.phases));
    assert_ne!(one.phases, other.phases);
}

/// A lying flush does not make a run fail: nothing but the caution tells that its numbers are a
/// broken device's.
#[test]
fn cells_on_a_device_that_was_told_to_fail_are_cautioned_of() {
    let directory = scratch();
    let mut results = run(TWICE_THE_SAME, 7, directory.path());
    let said = |results: &Results| cautions(results, &Analysis::of(results).unwrap());
    assert!(!said(&results).iter().any(|caution| caution.text.contains("faulty device")));
    results.cells[1].spec.stack.faults = vec!["lying-flush@20".into()];
    let told = said(&results);
    assert!(
        told.iter().any(|caution| caution.weight == fathom_lab::analysis::Weight::Answer
            && caution.text.contains("faulty device: in 1 of 2 cells")
            && caution.text.contains("lying-flush@20")),
        "{told:?}"
    );
}

#[test]
fn a_headline_says_it_in_words() {
    let directory = scratch();
    let source = r#"
        name = "words"
        repeats = 8
        workload = { name = "sim", transactions = 200 }
        matrix = { "workload.slower_percent" = [0, 110], "workload.copy" = [1, 2] }
        [[headline]]
        phase = "insert"
        axis = "workload.slower_percent"
        baseline = 110
        against = [0]
        each = "workload.copy"
        [[headline]]
        phase = "insert"
        axis = "workload.copy"
        baseline = 1
        where = { "workload.slower_percent" = 0 }
        [[headline]]
        phase = "insert"
        against_phase = "insert"
        each = "workload.copy"
    "#;
    let results = run(source, 3, directory.path());
    let analysis = Analysis::of(&results).unwrap();
    let experiment = Experiment::parse("test.toml", &results.experiment.source).unwrap();
    let found = headlines(&results, &analysis, &experiment.headlines);
    let sentences: Vec<&str> = found.iter().map(|finding| finding.sentence.as_str()).collect();
    assert_eq!(sentences.len(), 7, "{sentences:#?}");
    // "2 commits 2.9x slower than 1 on delete": a number alone does not say of what.
    let first = sentences[0];
    assert!(first.starts_with("slower percent 0 commits 2.") && first.contains("x [2."), "{first}");
    assert!(first.contains("] faster than slower percent 110 on copy 1 (insert); 6"), "{first}");
    assert!(first.ends_with(" % of slower percent 110's time is fsync."), "{first}");
    let third = sentences[2];
    // What a `where` chooses is said, too: the others may differ.
    let of_one = "copy 2 and copy 1 show no proven difference in insert with slower percent 0: ~ ";
    assert!(third.starts_with(of_one), "{third}");
    // Two phases of one cell: the cell is named by all that tells it from the others.
    let places: Vec<&str> = sentences[3..]
        .iter()
        .filter_map(|sentence| sentence.split(" on ").nth(1)?.split(':').next())
        .collect();
    let expected = [("1", "0"), ("2", "0"), ("1", "110"), ("2", "110")];
    let expected = expected.map(|(copy, percent)| format!("copy {copy} with slower percent {percent}"));
    assert_eq!(places, expected, "{sentences:#?}");
    assert!(!cautions(&results, &analysis).iter().any(|caution| caution.text.contains("too few repeats")));
}

/// What happened: "page size 1024 commits 2.1x faster than page size 4096" stood below a table in
/// which it was 1.7 times as many a second: the checkpoint at a phase's end is in no single commit.
#[test]
fn a_time_whose_rate_says_another_thing_has_it_beside_it() {
    let directory = scratch();
    let headline = r#"
        [[headline]]
        phase = "insert"
        metric = "time"
        axis = "workload.copy"
        baseline = 1
    "#;
    let mut results = run(&format!("{TWICE_THE_SAME}{headline}"), 3, directory.path());
    let experiment = Experiment::parse("test.toml", &results.experiment.source).unwrap();
    let sentence = |results: &Results| {
        let analysis = Analysis::of(results).unwrap();
        headlines(results, &analysis, &experiment.headlines).remove(0).sentence
    };
    let alike = sentence(&results);
    assert!(alike.contains("copy 2") && !alike.contains("rate of the phase"), "{alike}");
    let first = results.cells[0].id;
    let of_first: Vec<i64> = results.good_runs(first).map(|run| run.id).collect();
    for phase in results.phases.iter_mut().filter(|phase| of_first.contains(&phase.run)) {
        phase.summary.wall_ns *= 2;
    }
    let apart = sentence(&results);
    assert!(apart.contains("; by the rate of the phase 2.0x ["), "{apart}");
}

/// What happened: a run was stopped in its last block, and beside a proven difference of cells with
/// three runs stood that with two no difference can be proven.
#[test]
fn what_holds_of_cells_with_few_runs_is_not_said_of_the_others() {
    let directory = scratch();
    let source = TWICE_THE_SAME.replace("repeats = 5", "repeats = 3");
    let mut results = run(&source, 3, directory.path());
    let told = |results: &Results| -> Vec<String> {
        let all = cautions(results, &Analysis::of(results).unwrap());
        all.into_iter()
            .map(|caution| caution.text)
            .filter(|text| text.starts_with("too few repeats"))
            .collect()
    };
    let all = told(&results);
    assert!(
        all.len() == 1 && all[0].starts_with("too few repeats: with 3 runs intervals are 2.0"),
        "{all:?}"
    );
    let first = results.cells[0].id;
    for (runs, words) in [
        (2, "too few repeats in 1 of 2 cells: with 2 runs intervals are 7.2"),
        (
            1,
            "too few repeats in 1 of 2 cells: with one run there is no interval, and nothing is proven there.",
        ),
    ] {
        results.runs.retain(|run| run.cell != first || run.block < runs);
        let some = told(&results);
        assert!(some.len() == 1 && some[0].starts_with(words), "{some:?}");
        assert!(runs == 1 || some[0].contains(", and no difference can be proven there. Use"), "{some:?}");
    }
}
