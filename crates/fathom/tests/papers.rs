//! `docs/papers.md` is printed, not written: what stands there is what its data print.

#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn papers(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_fathom"))
        .arg("papers")
        .args(arguments)
        .current_dir(root())
        .output()
        .unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn the_page_and_its_figures_are_what_their_data_print() {
    let output = papers(&["--check", "docs/papers.md"]);
    assert!(output.status.success(), "{}", said(&output));
}

/// Each line of data says with which commit it was measured, or before which: no data set did.
#[test]
fn every_data_set_names_a_commit() {
    let page = std::fs::read_to_string(root().join("docs/papers.md")).unwrap();
    let lines: Vec<&str> = page.lines().filter(|line| line.contains(" Data: [results/")).collect();
    assert!(lines.len() > 30, "{}", lines.len());
    for line in lines {
        let is_bounded = line.contains("(commit not recorded; published in `");
        assert!(is_bounded || !line.contains("commit not recorded"), "{line}");
    }
}

/// What is prepared and not measured yet has an experiment, and a table that will show it. Those of
/// p5-reasons had none: the page would have been refused after hours of measuring.
#[test]
fn what_is_prepared_has_an_experiment_and_a_table() {
    let papers = root().join("docs/papers");
    let Ok(entries) = std::fs::read_dir(papers.join("planned")) else { return };
    let paths = entries.map(|entry| entry.unwrap().path());
    for path in paths.filter(|path| path.extension().is_some_and(|extension| extension == "toml")) {
        let blocks = std::fs::read_to_string(papers.join("planned/page.md")).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let of = |key: &'static str| {
            text.lines().filter_map(move |line| line.strip_prefix(key)?.strip_suffix('"'))
        };
        for table in of("table = \"") {
            let shown = format!("{{{{findings {table}}}}}");
            assert!(blocks.contains(&shown), "{}: planned/page.md has no {shown}", path.display());
        }
        for data in of("data = \"") {
            assert!(text.contains(&format!("[data.{data}]")), "{}: no data {data}", path.display());
            assert!(papers.join(format!("experiments/{data}.toml")).exists(), "no experiment {data}");
        }
    }
}

/// A number that was changed by hand is found, with its line.
#[test]
fn a_page_that_says_another_number_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("papers.md");
    let output = papers(&["--out", page.to_str().unwrap()]);
    assert!(output.status.success(), "{}", said(&output));
    let printed = std::fs::read_to_string(&page).unwrap();
    assert_eq!(printed, std::fs::read_to_string(root().join("docs/papers.md")).unwrap());
    let checked = papers(&["--check", page.to_str().unwrap()]);
    assert!(checked.status.success(), "{}", said(&checked));
    let line = 1 + printed.lines().position(|line| line.contains("x [")).unwrap();
    std::fs::write(&page, printed.replacen("x [", "y [", 1)).unwrap();
    let checked = papers(&["--check", page.to_str().unwrap()]);
    assert_eq!(checked.status.code(), Some(1));
    assert!(said(&checked).contains(&format!("papers.md:{line}:")), "{}", said(&checked));
    let figure = std::fs::read_dir(directory.path().join("figures")).unwrap().next().unwrap().unwrap().path();
    std::fs::write(&page, printed).unwrap();
    std::fs::write(&figure, "<svg/>").unwrap();
    let checked = papers(&["--check", page.to_str().unwrap()]);
    assert_eq!(checked.status.code(), Some(1), "{}", said(&checked));
}

/// Tables of the guide that are marked so stand in the printed page, line by line.
#[test]
fn tables_of_the_guide_are_those_of_the_page() {
    const MARK: &str = "<!-- from papers.md -->\n";
    let docs = root().join("docs");
    let page = std::fs::read_to_string(docs.join("papers.md")).unwrap();
    let mut tables = 0;
    for entry in std::fs::read_dir(&docs).unwrap() {
        let path = entry.unwrap().path();
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        for table in text.split(MARK).skip(1) {
            let table = table.split("\n\n").next().unwrap();
            assert!(table.starts_with('|') && page.contains(table), "{}:\n{table}", path.display());
            tables += 1;
        }
    }
    assert!(tables >= 4, "{tables}");
}

/// A ratio that is in its band by what a card's flush takes says so in its row: on the page seven
/// such rows of P1 were called reproduced, where Linux sends an SD card no flush.
#[test]
fn rows_that_rest_on_the_flush_of_a_card_say_so() {
    let docs = root().join("docs");
    let page = std::fs::read_to_string(docs.join("papers.md")).unwrap();
    let sheet = std::fs::read_to_string(docs.join("results/without-flushes.csv")).unwrap();
    // As its script writes them: commas part columns.
    let finding_of =
        |row: &str| row.split(" | ").nth(1).map(|words| words.replace(", ", "; ").replace(',', ""));
    let is_told =
        |row: &str| row.contains("(What a card's flush decides)") || row.contains("**by construction**");
    let told: Vec<String> =
        page.lines().filter(|row| row.starts_with("| ") && is_told(row)).filter_map(finding_of).collect();
    let mut rows = 0;
    for line in sheet.lines() {
        let fields: Vec<&str> = line.split(',').collect();
        if fields[4] == "out" {
            assert!(told.iter().any(|finding| finding == fields[1]), "{line}");
            rows += 1;
        }
    }
    assert!(rows > 10, "{rows}");
}

/// Published data in the place of their own come to their own verdicts.
#[test]
fn the_same_data_give_the_same_verdicts() {
    let list = papers(&["--list"]);
    let list = String::from_utf8(list.stdout).unwrap();
    let mut lines = list.lines();
    let (name, file) = (lines.next().unwrap(), lines.next().unwrap().trim());
    let pair = format!("{name}={}", root().join("docs/papers").join(file).display());
    // Nothing is judged by the first of the list, one finding by the other: which is told.
    let flush = format!("p4-flush={}", root().join("docs/results/p4-flush.db.zst").display());
    let output = papers(&["--with", &pair, "--with", &flush]);
    assert!(output.status.success(), "{}", said(&output));
    let end = " verdicts, 1 of them by the new results; 0 of them another than the published (!), and of 0 findings the number";
    let listed = String::from_utf8_lossy(&output.stdout);
    assert!(listed.contains(end), "{}", said(&output));
    // With the numbers of both, which stood nowhere: how far off a row was took another command.
    let numbers: Vec<&str> = listed.lines().filter(|line| line.starts_with("    ")).collect();
    let [only] = &numbers[..] else { panic!("{numbers:?}") };
    let (new, old) = only.trim().strip_suffix(')').unwrap().split_once("  (published: ").unwrap();
    assert!(new == old && new.contains("x ["), "{only}");
    let output = papers(&["--with", "no-such=x.db"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("there are: "), "{}", said(&output));
}

/// A number that is written by hand into a sentence of the page's sources, or of a remark, is
/// refused with its place.
#[test]
fn a_number_that_no_data_print_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let sources = directory.path().join("docs/papers");
    std::fs::create_dir_all(&sources).unwrap();
    for beside in ["results", "figures"] {
        std::os::unix::fs::symlink(
            root().join("docs").join(beside),
            directory.path().join("docs").join(beside),
        )
        .unwrap();
    }
    std::os::unix::fs::symlink(root().join("crates"), directory.path().join("crates")).unwrap();
    for entry in std::fs::read_dir(root().join("docs/papers")).unwrap() {
        let entry = entry.unwrap();
        let copy = sources.join(entry.file_name());
        if entry.file_type().unwrap().is_file() {
            std::fs::copy(entry.path(), copy).unwrap();
        } else {
            std::os::unix::fs::symlink(entry.path(), copy).unwrap();
        }
    }
    let page = sources.join("page.md");
    let text = std::fs::read_to_string(&page).unwrap();
    let prints = || papers(&[sources.to_str().unwrap()]);
    let output = prints();
    assert!(output.status.success(), "{}", said(&output));

    std::fs::write(&page, format!("{text}\nIt takes 84.8 KiB.\n")).unwrap();
    let output = prints();
    assert_eq!(output.status.code(), Some(2));
    let place = format!("page.md:{}", text.lines().count() + 2);
    assert!(said(&output).contains(&place) && said(&output).contains("84.8"), "{}", said(&output));

    // In words as well.
    std::fs::write(&page, format!("{text}\nIt takes twice as long.\n")).unwrap();
    let output = prints();
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains(&place) && said(&output).contains("twice"), "{}", said(&output));

    std::fs::write(&page, text).unwrap();
    let findings = sources.join("p5.toml");
    let text = std::fs::read_to_string(&findings).unwrap();
    assert!(text.contains("remark = \""));
    std::fs::write(&findings, text.replacen("remark = \"", "remark = \"5.01 flushes. ", 1)).unwrap();
    let output = prints();
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("5.01"), "{}", said(&output));
}
