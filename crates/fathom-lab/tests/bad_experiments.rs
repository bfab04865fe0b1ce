//! Experiment files and `--set`s that are wrong, each with the exact text of its error:
//! `bad-experiments.txt` beside this file.
//!
//! A case is `### name`, the file, `--- ` with the command line's part (or nothing), and the
//! expected text. With `BLESS=1` the test writes what it found instead; read the difference before
//! committing it.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail by panicking, as tests do")]

use std::path::Path;

use fathom_lab::experiment::{Experiment, Selection, Vocabulary};
use fathom_stack::Machine;
use fathom_workload::engine::engines;
use fathom_workload::registry::workloads;

/// The real workloads and engines; the file systems are the table's, so that no text depends on the
/// machine.
fn vocabulary() -> Vocabulary {
    Vocabulary { workloads: workloads().to_vec(), engines: engines().to_vec(), machine: Machine::unknown() }
}

/// Checks a file as `fathom run` does: itself, its cells, and its cells with --quick.
fn verdict(source: &str, sets: &[String]) -> String {
    let selection = |quick| Selection { quick, sets: sets.to_vec(), ..Selection::default() };
    let checked = Experiment::parse("mine.toml", source).and_then(|experiment| {
        let cells = experiment.cells(&selection(false), &vocabulary())?;
        experiment.cells(&selection(true), &vocabulary())?;
        Ok(cells)
    });
    match checked {
        Ok(cells) => {
            let warnings: String =
                cells.warnings.iter().map(|warning| format!("\nwarning: {warning}")).collect();
            format!("good: {} cells{warnings}", cells.cells.len())
        }
        Err(error) => format!("error: {error}"),
    }
}

#[test]
fn every_mistake_is_told_with_its_place_and_its_remedy() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bad-experiments.txt");
    let text = std::fs::read_to_string(&path).unwrap();
    let mut written = String::new();
    let mut wrong = Vec::new();
    let mut cases = 0;
    let mut blocks = text.split("### ");
    written.push_str(blocks.next().unwrap());
    for block in blocks {
        let (name, rest) = block.split_once('\n').unwrap();
        let (source, rest) = rest.split_once("\n---").unwrap_or_else(|| panic!("{name}: no ---"));
        let (arguments, expected) = rest.split_once('\n').unwrap_or((rest, ""));
        let sets: Vec<String> =
            arguments.split("--set ").skip(1).map(|part| part.trim().trim_matches('\'').to_owned()).collect();
        let found = verdict(&format!("{source}\n"), &sets);
        cases += 1;
        if found.trim_end() != expected.trim_end() {
            wrong.push(format!("### {name}\nexpected:\n{}\nfound:\n{found}\n", expected.trim_end()));
        }
        written.push_str(&format!("### {name}\n{source}\n---{arguments}\n{found}\n\n"));
    }
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, written.trim_end().to_owned() + "\n").unwrap();
        return;
    }
    assert!(cases >= 40, "only {cases} cases");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What happened: of a table where a list of values belongs it was said "write [a table]".
#[test]
fn what_is_described_in_words_is_no_hint_of_what_to_write() {
    let head = "name = \"mine\"\n[workload]\nname = \"update\"\n[matrix]\n\"workload.rows\" = ";
    for (value, is) in [("{ few = 1, many = 2 }", "a table"), ("2026-01-01", "the date 2026-01-01")] {
        let found = verdict(&format!("{head}{value}\n"), &[]);
        assert!(found.contains(&format!("is a list of values, not {is}")), "{found}");
        assert!(found.contains("in brackets, such as [1, 2]") && !found.contains("write [a"), "{found}");
        assert!(!found.contains("write [the"), "{found}");
    }
    assert!(verdict(&format!("{head}100\n"), &[]).contains("write [100], or move it"), "what can be written");
}
