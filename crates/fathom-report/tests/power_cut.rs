//! What a power cut leaves: where it was measured, table, page and exports say so, and where the
//! measurement contradicts the documentation's promise, that is the first sentence. Where it could
//! not be measured the promise stays, with the reason.

#![allow(clippy::unwrap_used)]

mod fixture;

use fathom_cut::{Explanation, Outcome, Tally, Verdict};
use fathom_lab::store::{CutFinding, CutRow, Results, Writer};
use fathom_report::Style;
use fathom_workload::spec::Durability;

/// What was found of a cell: `lost` of a hundred states lost the last commit.
fn found(promise: Durability, lost: usize, breaks_promise: bool) -> CutFinding {
    let mut tally = Tally::default();
    for state in 0..100 {
        let verdict = if state < lost { Verdict::Lost(1) } else { Verdict::Kept };
        tally.add_at(state, verdict, state, 100);
    }
    let lines = vec!["missing: the directory <work>".to_owned()];
    let explanation = (lost > 0).then_some(Explanation {
        verdict: Verdict::Lost(1),
        missing: vec![8192],
        torn: None,
        lines,
    });
    let outcome = Outcome {
        acknowledged: 50,
        moments: 100,
        in_flight_max: 12,
        exhaustive: 90,
        states_possible: 5000,
        states_are_all: Some(false),
        tally,
        mounted: 1000,
        wall_ns: 1_000_000_000,
        explanation,
        breaks_promise,
        interrupted: false,
    };
    CutFinding { filesystem: "ext4".into(), device: "keeps what was flushed".into(), promise, outcome }
}

/// First-look's results with what power cuts left of its first cells: delete/full, delete/extra,
/// truncate/full (which is made to break its promise), persist/full (not tried).
fn results() -> (tempfile::TempDir, Results) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("results.db");
    fixture::first_look(&path);
    let mut writer = Writer::resume(Results::load(&path).unwrap()).unwrap();
    for (cell, finding) in [
        (1, Ok(found(Durability::PowerCutAllButLast, 20, false))),
        (2, Ok(found(Durability::PowerCut, 0, false))),
        (3, Ok(found(Durability::PowerCut, 3, true))),
        (4, Err("each state is mounted, which needs root".to_owned())),
    ] {
        writer.cut(&CutRow { cell, finding }).unwrap();
    }
    writer.close(Some(1)).unwrap();
    (directory, Results::load(&path).unwrap())
}

#[test]
fn measured_stands_where_documented_stood_and_a_broken_promise_is_the_headline() {
    let (_directory, results) = results();
    let style = Style { width: 130, unicode: true, colour: false };
    let text = fathom_report::terminal(&results, &style).unwrap();
    let line =
        |start: &str| text.lines().find(|line| line.trim_start().starts_with(start)).unwrap().to_owned();
    assert!(line("DELETE    FULL").contains("measured: last commit lost (100)"), "{text}");
    assert!(line("DELETE    EXTRA").contains("measured: kept (100)"), "{text}");
    assert!(line("TRUNCATE  FULL").contains("measured: last commit lost (!) (100)"), "{text}");
    assert!(!line("PERSIST   FULL").contains("measured"), "{text}");
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let headline = "TRUNCATE/FULL: a power cut takes more than its settings promise (power cut, all): 3 of 100 states on ext4 break it, \
                    the worst: last commit lost (state 0).";
    let answer = words.find(headline).unwrap_or_else(|| panic!("{words}"));
    assert!(answer < words.find("Use WAL with FULL").unwrap(), "{words}");
    assert!(
        words.contains("documented, not measured, for 1 cell: each state is mounted, which needs root"),
        "{words}"
    );
    assert!(words.contains("Not all states were judged"), "{words}");
    for width in [80, 100] {
        let narrow = fathom_report::terminal(&results, &Style { width, ..style }).unwrap();
        let table = narrow.split("\n\n").next().unwrap();
        assert!(table.contains("last commit lost (100)"), "{narrow}");
    }

    let mut page = Vec::new();
    fathom_report::html(&results, &mut page).unwrap();
    let page = String::from_utf8(page).unwrap();
    let section = page.split_once("id=\"h-power-cut\"").unwrap().1.split_once("</section>").unwrap().0;
    assert_eq!(section.matches("class=\"cut-strip\"").count(), 3, "{section}");
    assert_eq!(section.matches("class=\"cut\"").count(), 300, "one bar for each part of the run");
    assert!(section.contains("missing: the directory &lt;work&gt;"), "{section}");
    assert!(page.contains("<td class=\"words\">measured: kept (100)</td>"));
}

/// What happened: "WAL/FULL: a power cut takes more than its settings promise" stood above "Use WAL
/// with FULL … with a stronger promise".
#[test]
fn what_was_measured_to_break_its_promise_is_not_advised() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("results.db");
    fixture::first_look(&path);
    let before = Results::load(&path).unwrap();
    let wal = before.cells.iter().find(|cell| cell.label == "wal/full").unwrap().id;
    let mut writer = Writer::resume(before).unwrap();
    writer.cut(&CutRow { cell: wal, finding: Ok(found(Durability::PowerCut, 3, true)) }).unwrap();
    writer.close(Some(1)).unwrap();
    let results = Results::load(&path).unwrap();
    let text = fathom_report::terminal(&results, &Style::PLAIN).unwrap();
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("WAL/FULL: a power cut takes more than its settings promise"), "{words}");
    assert!(!words.contains("Use WAL"), "{words}");
}

#[test]
fn exports_have_what_was_measured_and_files_without_power_cuts_are_as_they_were() {
    let (_directory, results) = results();
    let mut csv = Vec::new();
    fathom_report::csv(&results, &mut csv).unwrap();
    let csv = String::from_utf8(csv).unwrap();
    let mut lines = csv.lines();
    let head: Vec<&str> = lines.next().unwrap().split(',').collect();
    let at = head.iter().position(|column| *column == "power_cut_worst").unwrap();
    let of = |line: &str| line.split(',').skip(at).take(4).collect::<Vec<_>>().join(" ");
    let first = lines.find(|line| line.contains(",truncate/full,")).unwrap();
    assert_eq!(of(first), "lost-last 100 3 1");
    assert_eq!(of(lines.find(|line| line.contains(",persist/full,")).unwrap()), "   ");
    let mut json = Vec::new();
    fathom_report::json(&results, false, &mut json).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    let cut = |cell: usize| &json["cells"][cell]["power_cut"];
    assert_eq!(cut(1)["outcome"]["classes"]["kept"], 100);
    assert_eq!(cut(0)["outcome"]["along"].as_array().unwrap().len(), 100);
    assert_eq!(cut(3)["problem"], "each state is mounted, which needs root");
    assert!(cut(5).is_null());

    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("results.db");
    fixture::first_look(&path);
    let results = Results::load(&path).unwrap();
    let (mut csv, mut page) = (Vec::new(), Vec::new());
    fathom_report::csv(&results, &mut csv).unwrap();
    fathom_report::html(&results, &mut page).unwrap();
    assert!(!String::from_utf8(csv).unwrap().contains("power_cut"));
    assert!(!String::from_utf8(page).unwrap().contains("h-power-cut"));
    let text = fathom_report::terminal(&results, &Style::PLAIN).unwrap();
    assert!(!text.contains("measured:"), "{text}");
}

/// What happened: where explored power cuts left databases that cannot be opened, the column had
/// the promise and not a word on that.
#[test]
fn a_promise_that_a_file_system_is_known_not_to_keep_is_marked_everywhere() {
    let (_directory, results) = fixture::results(fixture::on_ext2);
    let text = fathom_report::terminal(&results, &Style::PLAIN).unwrap();
    let line =
        |start: &str| text.lines().find(|line| line.trim_start().starts_with(start)).unwrap().to_owned();
    assert!(line("DELETE").contains("all but 1*") && line("WAL      FULL").contains("all (?)"), "{text}");
    assert!(
        !line("DELETE").contains("(?)")
            && !line("PERSIST").contains("(?)")
            && !line("WAL      OFF").contains("(?)"),
        "{text}"
    );
    let known = "(?): on ext2 explored power cuts left databases that cannot be opened, or a file system that cannot be \
                 mounted, with every journal mode but DELETE, TRUNCATE and PERSIST, whatever the settings promise (docs/power-cut.md).";
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(words.matches(known).count(), 1, "{text}");

    let page = fixture::page(&results);
    assert!(page.contains("power cut, all (?)</td>") && page.contains("power cut, all</td>"), "{page}");
    assert_eq!(page.matches(known).count(), 2, "below the cells, and of the bars");

    let (mut csv, mut json) = (Vec::new(), Vec::new());
    fathom_report::csv(&results, &mut csv).unwrap();
    fathom_report::json(&results, false, &mut json).unwrap();
    let csv = String::from_utf8(csv).unwrap();
    let rows: Vec<Vec<&str>> = csv.split("\r\n").map(|row| row.split(',').collect()).collect();
    let column = |name: &str| rows[0].iter().position(|head| *head == name).unwrap();
    let of = |cell: usize| {
        let row = rows.iter().find(|row| row.get(1) == Some(&cell.to_string().as_str())).unwrap();
        (row[column("durability")], row[column("power_cut_known_loss")])
    };
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    let known = |cell: usize| &json["cells"][cell - 1]["power_cut_known_loss"];
    assert_eq!((of(3), known(3).as_str()), (("power-cut", "ext2"), Some("ext2")), "WAL/FULL");
    assert_eq!((of(2), known(2).as_str()), (("power-cut", ""), None), "PERSIST/FULL");

    // Where nothing of the kind is known there is no column.
    let (_directory, results) = fixture::results(fixture::first_look);
    let mut csv = Vec::new();
    fathom_report::csv(&results, &mut csv).unwrap();
    assert!(!String::from_utf8(csv).unwrap().contains("power_cut_known_loss"));
    assert!(!fathom_report::terminal(&results, &Style::PLAIN).unwrap().contains("(?)"));
}
