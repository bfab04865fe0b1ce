//! What a report opens with: the answer and one picture, under the user's own title.
//!
//! All three figures of `first-look --trace gmail`, the README's own example, were empty, and no
//! sentence compared anything: the experiment's file asks about the phases of its own workload, and
//! a replay has others. `--set filesystem=ext4,f2fs` measured file systems and said nothing of
//! them. Cautions that change the answer stood among those that do not, after everything else.

#![allow(clippy::unwrap_used)]

mod fixture;

use fixture::{page, results};

use fathom_lab::store::{CellRow, Results};
use fathom_report::Style;

/// What the terminal says, whatever its lines.
fn words(results: &Results) -> String {
    let text = fathom_report::terminal(results, &Style::PLAIN).unwrap();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The text between two marks of the page.
fn part<'a>(page: &'a str, from: &str, to: &str) -> &'a str {
    page.split_once(from).unwrap().1.split_once(to).unwrap().0
}

/// What happened: of `--on local,ssh:board` no setting was advised, for each stood twice among
/// those of the same stack; no kernel and no processor was named; and two machines' disks of one
/// name were one device.
#[test]
fn each_of_two_machines_has_its_advice_and_its_name() {
    let (_directory, mut results) = results(fixture::on_two_machines);
    let of_machines = [
        ("cpu (local)", "here"),
        ("cpu (ssh:board)", "there"),
        ("cpus (local)", "2"),
        ("kernel (local)", "Linux 6.18"),
        ("kernel (ssh:board)", "5.10"),
    ];
    results.environment = of_machines.map(|(key, value)| (key.to_owned(), value.to_owned())).into();
    let page = page(&results);
    for machine in ["local", "ssh:board"] {
        assert!(page.contains(&format!("{machine}: Use WAL with FULL.")), "{machine}");
    }
    assert!(page.contains(", by machine</h1>"), "and not \"by on\"");
    let rests = part(&page, "class=\"rests\">", "</p>");
    let named = "; Linux 6.18 (local); Linux 5.10 (ssh:board); here (local); there (ssh:board)";
    assert!(rests.contains(named) && !rests.contains("(loop (direct I/O)"), "{rests}");
}

/// What happened: a phone was told that Ctrl and the wheel zoom.
#[test]
fn what_takes_a_wheel_is_not_said_to_fingers() {
    let (_directory, results) = results(|path| fixture::update_cost(path, 100));
    let page = page(&results);
    let told = "<span class=\"of-a-wheel\"> Ctrl and the wheel zooms";
    assert!(page.contains(told) && page.contains("@media (pointer: coarse) { .of-a-wheel"));
    assert_eq!(page.matches("Ctrl and the wheel zooms").count(), page.matches(told).count());
}

#[test]
fn no_figure_of_a_replayed_trace_is_empty_and_its_settings_are_compared() {
    let (_directory, results) = results(fixture::traced);
    let figures = fathom_report::figures(&results).unwrap();
    let ids: Vec<&str> = figures.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!(ids, ["rate", "split", "series", "latencies", "ranking"]);
    for id in ids {
        let svg = fathom_report::figure_svg(&results, id).unwrap();
        assert!(!svg.contains("Nothing was measured"), "{id}: {svg}");
        assert!(svg.contains("WAL/NORMAL"), "{id}: {svg}");
    }
    let page = page(&results);
    assert!(
        page.contains("<h1>gmail on ext4: journal mode and synchronous setting</h1>"),
        "{}",
        &page[..3000]
    );
    assert!(!page.contains("one-row commits where you are</h1>"));
    let words = words(&results);
    // "Commits per second" was said of a browser's trace, most of whose transactions only read.
    assert!(words.contains("Use WAL with FULL. Here it executes transactions 3."), "{words}");
    assert!(words.contains("WAL/FULL executes transactions 3.") && words.contains("(replay)"), "{words}");
    assert!(words.contains("Transactions per second (replay)") && !words.contains(" commits 3."), "{words}");
    assert!(page.contains("Transactions per second (replay)"), "{}", &page[..3000]);
    let figures = fathom_report::figures(&results).unwrap();
    assert!(figures.iter().all(|(_, title)| !title.contains("Commits")), "{figures:?}");
}

#[test]
fn bars_are_ranked_within_what_a_power_cut_keeps_each_with_its_number() {
    let (_directory, results) = results(fixture::first_look);
    let page = page(&results);
    let opening = part(&page, "<section class=\"opening\">", "<nav");
    let answer = opening.find("Use WAL with FULL").unwrap();
    assert!(answer < opening.find("id=\"ranking\"").unwrap(), "the answer, then its picture");
    let groups: Vec<&str> = opening.split("<section class=\"promise-group\"").skip(1).collect();
    let headings: Vec<&str> = groups.iter().map(|group| part(group, "</span>", "</h5>")).collect();
    assert_eq!(
        headings,
        [
            "A power cut keeps every commit",
            "A power cut keeps every commit but at most the last",
            "A power cut may take the last commits, never the database",
            "A power cut may take the database, a crash of the process takes nothing",
        ]
    );
    let names = |group: &str| {
        group
            .split("<span class=\"name\"><bdi>")
            .skip(1)
            .map(|part| part.split('<').next().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(names(groups[0])[0], "WAL/FULL", "the fastest of a promise comes first");
    assert_eq!(names(groups[2]), ["WAL/NORMAL"]);
    // From the figure's heading to these a level was left out, by which some readers go.
    assert_eq!(opening.matches("<h5 aria-level=\"4\">").count(), groups.len(), "{opening}");
    // Each bar's number stands beside it, and no group is ever out of order.
    for group in &groups {
        let values: Vec<f64> = group
            .split("<span class=\"value\">")
            .skip(1)
            .map(|part| part.split(' ').next().unwrap().replace(',', "").parse().unwrap())
            .collect();
        assert!(!values.is_empty() && values.windows(2).all(|pair| pair[0] >= pair[1]), "{values:?}");
    }
    // What gives up durability is many times as fast: its bar is cut, and says so.
    assert!(groups[3].contains("class=\"open\""), "{}", groups[3]);
    assert!(opening.contains("longer than the scale"), "{opening}");
}

#[test]
fn an_axis_that_the_user_set_has_its_sentence_and_what_was_not_measured_is_said() {
    let (_directory, results) = results(fixture::with_file_systems);
    let page = page(&results);
    let findings: Vec<&str> = page.split("<p class=\"finding\">").skip(1).collect();
    assert!(findings[0].starts_with("xfs was not measured"), "{}", findings[0]);
    let sentence = findings[1].split("</p>").next().unwrap();
    assert!(sentence.starts_with("f2fs against ext4 (insert): faster with DELETE/FULL 1."), "{sentence}");
    assert!(sentence.contains("WAL/FULL 1.") && sentence.contains("WAL/OFF"), "{sentence}");
    assert!(page.contains(", by file system</h1>"), "{}", &page[..3000]);
    // The experiment's own question is answered for each file system.
    let words = words(&results);
    assert!(words.contains("ext4: Use WAL with FULL."), "{words}");
}

/// What happened: of a file of one's own that says nothing of comparisons the answer was "No
/// comparison could be made from these runs", above a picture of two file systems.
#[test]
fn what_a_file_of_ones_own_measures_is_compared() {
    let (_directory, results) = results(fixture::own_file);
    let page = page(&results);
    assert!(!page.contains("No comparison could be made"), "{}", &page[..3000]);
    let sentence = page.split("<p class=\"finding\">f2fs commits 1.").nth(1).unwrap();
    assert!(sentence.split('<').next().unwrap().contains("] faster than ext4 (insert)."), "{sentence}");
    assert!(page.contains("<h1>Mine</h1>"), "it has its own title");
    // "The answer stands" was said where the only sentence was what had not been measured.
    let (_directory, alone) = self::results(|path| fixture::own_file_without(path, "f2fs"));
    let page = self::page(&alone);
    assert!(page.contains("f2fs was not measured"), "{}", &page[..3000]);
    assert!(page.contains("There is no comparison whose answer could stand or fall."));
}

/// What happened: with barriers off "Use WAL with OFF. Here it commits 195x faster, with the same
/// promise", which was none.
#[test]
fn what_promises_nothing_is_not_advised() {
    let (_directory, results) = results(fixture::without_promises);
    let words = words(&results);
    assert!(words.contains("Nothing measured here keeps the database at a power cut"), "{words}");
    assert!(!words.contains("Use MEMORY") && !words.contains("Keep MEMORY"), "{words}");
}

/// What happened: where explored power cuts left databases that cannot be opened with it "Use WAL
/// with FULL" was said.
#[test]
fn what_is_known_to_lose_databases_is_not_advised() {
    let (_directory, results) = results(fixture::on_ext2);
    let words = words(&results);
    assert!(!words.contains("Use WAL") && words.contains("PERSIST with FULL"), "{words}");
    assert!(words.contains("then a power cut can lose or corrupt the database"), "{words}");
}

/// What happened: who chose an axis was told that WAL/NORMAL commits so many times as fast as
/// DELETE/FULL, without a word on what a power cut takes.
#[test]
fn values_of_an_axis_that_promise_another_thing_are_not_compared_without_a_word() {
    let (_directory, results) = results(fixture::modelled_wide);
    let page = page(&results);
    let sentence = page.split("WAL/NORMAL against DELETE/FULL (").nth(1).unwrap();
    let sentence = sentence.split('<').next().unwrap();
    assert!(sentence.contains(" Not the same promise: WAL/NORMAL"), "{sentence}");
    // File systems promise the same.
    let sentence = page.split("f2fs against ext4 (").nth(1).unwrap();
    assert!(!sentence.split('<').next().unwrap().contains("promise"), "{sentence}");
}

/// An experiment that compares and draws two variants on one of two file systems.
const OF_ONE_FILE_SYSTEM: &str = r#"
name = "mine"
title = "Mine"
workload = { name = "mobibench-sql" }
engine = { name = "sqlite" }
matrix = { "stack.filesystem" = ["ext4", "f2fs"], "engine.journal_mode" = ["delete", "truncate", "wal"] }

[[headline]]
phase = "insert"
axis = "engine.journal_mode"
baseline = "delete"
against = ["wal"]
where = { "stack.filesystem" = ["ext4"] }

[[figure]]
id = "rate"
kind = "bars"
title = "Rates"
phases = ["insert"]
by = "engine.journal_mode"
where = { "stack.filesystem" = ["ext4"] }
"#;

/// What happened: "WAL commits 2.0x faster than DELETE on androbench", and the figure of that, were
/// of ext4 alone. With another file system, which was measured as well, it is five times.
#[test]
fn what_a_where_leaves_out_is_said() {
    let (_directory, mut results) = results(fixture::modelled_wide);
    for cell in &mut results.cells {
        let mode = cell.axes.remove("variants").unwrap().split('/').next().unwrap().to_owned();
        cell.axes.insert("engine.journal_mode".into(), mode);
    }
    results.experiment.source = OF_ONE_FILE_SYSTEM.into();
    let one = page(&results);
    assert!(one.contains(" than DELETE with ext4 (insert)"), "{}", &one[..3000]);
    assert!(one.contains("Of ext4 alone."));
    results.experiment.source =
        OF_ONE_FILE_SYSTEM.replace("where = { \"stack.filesystem\" = [\"ext4\"] }", "");
    assert!(!page(&results).contains("Of ext4"), "both are shown");
}

/// What happened: "Not the same promise: TRUNCATE keeps every commit at a power cut …" was said of
/// three libraries, with one of which it keeps no more than DELETE.
#[test]
fn with_what_two_values_promise_another_thing_is_said() {
    let (_directory, mut results) = results(fixture::modelled_wide);
    let is_of = |cell: &CellRow, value: &str| cell.axes.values().any(|other| other == value);
    let base = results.cells.iter().find(|cell| is_of(cell, "delete/full")).unwrap().durability;
    let place = |cell: &CellRow| is_of(cell, "wal/normal") && is_of(cell, "f2fs");
    results.cells.iter_mut().find(|cell| place(cell)).unwrap().durability = base;
    let page = page(&results);
    let sentence = page.split("WAL/NORMAL against DELETE/FULL (").nth(1).unwrap();
    let sentence = sentence.split('<').next().unwrap();
    assert!(sentence.contains(" Not the same promise with ext4: WAL/NORMAL"), "{sentence}");
}

/// What happened: `--set variants=WAL/FULL,delete/full` was told of the same two cells twice, by
/// the sentence of the experiment ("WAL/FULL commits 4.8x faster than DELETE/FULL") and by that of
/// the axis ("DELETE/FULL commits 4.8x slower than WAL/FULL").
#[test]
fn two_cells_that_the_experiment_compares_are_compared_once() {
    let (_directory, results) = results(|path| fixture::modelled(path, 1.0, 2.0));
    assert!(results.experiment.command.contains("--set variants="), "the axis is chosen");
    let words = words(&results);
    let told = ["faster than DELETE/FULL", "slower than WAL/FULL", "faster than WAL/FULL"];
    let count: usize = told.iter().map(|sentence| words.matches(sentence).count()).sum();
    assert_eq!(count, 1, "{words}");
    assert!(words.contains("of DELETE/FULL's time is fsync"), "{words}");
    // Who chose variants with one synchronous setting was given no sentence that recommends one.
    assert!(words.contains("Use WAL with FULL. Here it commits"), "{words}");
    // In which of the two times that is was not said.
    assert!(words.contains("faster than DELETE with FULL, in model time, with"), "{words}");
    // The title was "… on sd-slow, by variant".
    assert!(page(&results).contains("by journal mode</h1>"), "{}", &page(&results)[..3000]);
}

#[test]
fn an_assumed_number_that_decides_stands_beside_the_answer() {
    let (_directory, results) = results(|path| fixture::modelled(path, 1.0, 2.0));
    let page = page(&results);
    let answer = part(&page, "id=\"answer\"", "id=\"ranking\"");
    assert!(
        answer.contains("sd-sandisk-extreme: flush 2 ms + 4 us per dirty KiB: not published."),
        "{answer}"
    );
    assert!(answer.contains("% of the model time of a commit is for flushes"), "{answer}");
    let (_directory, measured) = self::results(fixture::first_look);
    assert!(!self::page(&measured).contains("class=\"assumed\""), "nothing is assumed of a real disk");
}

#[test]
fn what_changes_the_answer_stands_beside_it_and_everything_else_is_folded_each_once() {
    let (_directory, mut sound) = results(fixture::first_look);
    sound.runs[0].steal_share = Some(0.1);
    let sound = page(&sound);
    let basis = part(&sound, "<div class=\"basis\">", "<nav");
    assert!(basis.contains("The answer stands: nothing was noticed that would change it."), "{basis}");
    // What is proven in spite of noise is not doubted because of it.
    assert!(!basis.contains("the hypervisor took"), "{basis}");
    assert!(part(&sound, "<section class=\"careful\"", "</section>").contains("the hypervisor took"));
    let (_directory, mut few) = results(fixture::first_look);
    few.runs[0].steal_share = Some(0.1);
    few.runs.retain(|run| run.block < 2);
    few.phases.retain(|phase| few.runs.iter().any(|run| run.id == phase.run));
    few.experiment.quick = true;
    let few = page(&few);
    let basis = part(&few, "<div class=\"basis\">", "<nav");
    assert!(basis.contains("The answer may change for") && basis.contains("Too few repeats"), "{basis}");
    assert!(basis.contains("the hypervisor took"), "two runs prove nothing: {basis}");
    assert!(!basis.contains("Made with --quick"), "{basis}");
    let careful = part(&few, "<section class=\"careful\"", "</section>");
    assert!(careful.contains("<details") && careful.contains("Made with --quick"), "{careful}");
    assert_eq!(few.matches("Too few repeats").count(), 1, "each once");
    assert_eq!(few.matches("Made with --quick").count(), 1, "each once");
}
