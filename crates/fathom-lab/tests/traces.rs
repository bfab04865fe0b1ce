//! Traces as an axis of experiments: chosen variants, `--trace`, and whose parameters hold for
//! which workload.

#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

use fathom_lab::experiment::{
    Cells, Diagnostic, Experiment, Selection, TraceChoice, Vocabulary, builtin_named,
};
use serde_json::json;

fn cells(name: &str, sets: &[&str], traces: &[(&str, &'static str, &str)]) -> Result<Cells, Diagnostic> {
    let experiment = Experiment::parse(name, builtin_named(name).unwrap().source).unwrap();
    of(&experiment, sets, traces)
}

fn of(
    experiment: &Experiment,
    sets: &[&str],
    traces: &[(&str, &'static str, &str)],
) -> Result<Cells, Diagnostic> {
    let selection = Selection {
        sets: sets.iter().map(|text| (*text).to_owned()).collect(),
        traces: traces
            .iter()
            .map(|(label, parameter, value)| TraceChoice {
                label: (*label).into(),
                parameter,
                value: (*value).into(),
            })
            .collect(),
        ..Selection::default()
    };
    experiment.cells(&selection, &Vocabulary::here())
}

fn labels(cells: &Cells) -> Vec<&str> {
    cells.cells.iter().map(|(label, _)| label.as_str()).collect()
}

#[test]
fn optional_variants_are_left_out_unless_they_are_named() {
    let default = cells("journal-modes", &[], &[]).unwrap();
    assert_eq!(default.cells.len(), 20);
    assert_eq!(labels(&default)[0], "ext2 delete", "the only variant goes without saying");
    assert!(default.cells.iter().all(|(_, cell)| cell.workload.name == "mobibench-sql"));
    let sets = ["variants=gmail,mobibench", "filesystem=ext4", "journal_mode=delete,wal"];
    let chosen = cells("journal-modes", &sets, &[]).unwrap();
    assert_eq!(
        labels(&chosen),
        ["ext4 delete gmail", "ext4 delete mobibench", "ext4 wal gmail", "ext4 wal mobibench"]
    );
    let gmail = &chosen.cells[0].1.workload;
    assert_eq!(gmail.name, "trace");
    assert_eq!(json!(gmail.params), json!({"profile": "gmail"}), "none of Mobibench's parameters");
    assert_eq!(chosen.cells[1].1.workload.params["transactions"], 1000);
    assert_eq!(chosen.cells[0].1.axes["variants"], "gmail");
    let systems = cells("file-systems", &[], &[]).unwrap();
    assert!(systems.cells.iter().all(|(_, cell)| cell.workload.name != "trace"));
}

/// What other variants set was refused if it came before the choice, and taken if it came after.
#[test]
fn variants_are_chosen_before_anything_else_is_set() {
    let sets = ["variants=mmdb,sqlite grouped", "phases=both", "threads=4"];
    let first = cells("sms-centre", &sets, &[]).unwrap();
    assert_eq!(labels(&first), ["mmdb", "sqlite grouped"]);
    let reversed: Vec<&str> = sets.iter().rev().copied().collect();
    let last = cells("sms-centre", &reversed, &[]).unwrap();
    for cells in [&first, &last] {
        for (label, cell) in &cells.cells {
            assert_eq!(cell.workload.params["phases"], json!("both"), "{label}");
            assert_eq!(cell.workload.params["threads"], json!(4), "{label}");
        }
    }
    assert_eq!(labels(&last), labels(&first));
    let error = cells("sms-centre", &["phases=both"], &[]).unwrap_err().to_string();
    assert!(error.contains("variants set `workload.phases` themselves"), "{error}");
}

#[test]
fn a_set_parameter_is_for_the_workloads_that_have_it() {
    let sets = ["variants=gmail,mobibench", "filesystem=ext4", "journal_mode=wal"];
    let both = [&sets[..], &["workload.scale=7", "workload.transactions=9"]].concat();
    let made = cells("journal-modes", &both, &[]).unwrap();
    assert_eq!(json!(made.cells[0].1.workload.params), json!({"profile": "gmail", "scale": 7}));
    assert_eq!(made.cells[1].1.workload.params["transactions"], 9);
    assert!(!made.cells[1].1.workload.params.contains_key("scale"));
    // What happened: of several values each made the other workloads' cells once more, which were
    // then compared with each other.
    let several = [&sets[..], &["workload.transactions=9,10"]].concat();
    let error = cells("journal-modes", &several, &[]).unwrap_err().to_string();
    assert!(error.contains("the workload trace has no `workload.transactions`"), "{error}");
    for wrong in ["workload.nonsense=5", "workload.scale=0"] {
        let all = [&sets[..], &[wrong]].concat();
        assert!(cells("journal-modes", &all, &[]).is_err(), "{wrong}");
    }
    // Of no cell that is run: Mobibench's, where only a trace is chosen.
    let error =
        cells("journal-modes", &["variants=gmail", "workload.tables=2"], &[]).unwrap_err().to_string();
    assert!(error.contains("the workload trace has no parameter `tables`"), "{error}");
}

#[test]
fn traces_of_the_command_line_take_the_place_of_workloads() {
    let place = tempfile::tempdir().unwrap();
    let [a, b] = ["a", "b"].map(|name| {
        let path = place.path().join(name);
        fathom_trace::Writer::create(&path).unwrap().finish().unwrap();
        path.to_str().unwrap().to_owned()
    });
    let traces = [("mine", "file", &*a), ("mine", "file", &*b), ("gmail", "profile", "gmail")];
    let made = cells("journal-modes", &["filesystem=ext4", "journal_mode=wal"], &traces).unwrap();
    assert_eq!(labels(&made), ["ext4 wal mine", "ext4 wal mine (2)", "ext4 wal gmail"]);
    assert_eq!(json!(made.cells[1].1.workload.params), json!({"file": b}));
    // Variants of settings stay, and traces are an axis of their own.
    let first_look = cells("first-look", &[], &[]).unwrap();
    let made = cells("first-look", &[], &traces[2..]).unwrap();
    assert_eq!(made.cells.len(), first_look.cells.len());
    assert!(
        made.cells.iter().all(|(_, cell)| cell.workload.name == "trace" && cell.axes["trace"] == "gmail")
    );
    // An experiment whose workload is a trace already keeps nothing of it.
    let source = "name='x'\n[workload]\nname='trace'\nfile='/c.trace'\n[engine]\nname='sqlite'";
    let own = Experiment::parse("own.toml", source).unwrap();
    let made = of(&own, &["workload.timing=original"], &traces[2..]).unwrap();
    assert_eq!(json!(made.cells[0].1.workload.params), json!({"profile": "gmail", "timing": "original"}));
    // What happened: where the workload was an axis, traces in its place were given the file's
    // parameters, and refused ("the workload trace has no parameter `transactions`").
    let source = "name='x'\n[workload]\ntransactions=5\n[engine]\nname='sqlite'\n[matrix]\n\
                  \"workload.name\" = ['mobibench-sql']";
    let axis = Experiment::parse("axis.toml", source).unwrap();
    assert_eq!(of(&axis, &[], &[]).unwrap().cells[0].1.workload.params["transactions"], 5);
    let made = of(&axis, &[], &traces[2..]).unwrap();
    assert_eq!(json!(made.cells[0].1.workload.params), json!({"profile": "gmail"}));
    let error = of(&own, &[], &[("x", "profile", "nobody")]).unwrap_err().to_string();
    assert!(error.contains("--trace") && error.contains("nobody"), "{error}");
}

/// What happened: a trace that was given twice was two values of its axis, "mine" and "mine (2)":
/// its runs were compared with themselves as if they were of something else.
#[test]
fn a_trace_is_given_once() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("a.trace");
    fathom_trace::Writer::create(&path).unwrap().finish().unwrap();
    let detour = place.path().join(".").join("a.trace");
    let [path, detour] = [path, detour].map(|path| path.to_str().unwrap().to_owned());
    for twice in [
        [("a", "file", &*path), ("a", "file", &*detour)],
        [("gmail", "profile", "gmail"), ("gmail", "profile", "gmail")],
    ] {
        let error = cells("first-look", &[], &twice).unwrap_err().to_string();
        assert!(error.contains("--trace") && error.contains("given twice"), "{error}");
    }
}

/// What happened: exclusions were compared with the text of a value, so that `--set page_size=4KiB`
/// made the cells that leave 4096 out; headlines and figures lost such a value, too.
#[test]
fn a_value_of_the_command_line_is_that_of_the_file_however_it_is_spelled() {
    let source = "name='x'\n[workload]\nname='mobibench-sql'\n[engine]\nname='sqlite'\n[matrix]\n\
                  \"engine.page_size\" = [4096, 8192]\n\"engine.journal_mode\" = ['WAL', 'delete']\n\
                  [[exclude]]\n\"engine.page_size\" = 4096\n\"engine.journal_mode\" = 'WAL'";
    let experiment = Experiment::parse("own.toml", source).unwrap();
    let made = |sets: &[&str]| of(&experiment, sets, &[]).unwrap();
    assert_eq!(labels(&made(&[])), ["4096 delete", "8192 WAL", "8192 delete"]);
    let sizes = made(&["page_size=4KiB,8 KiB,16KiB"]);
    assert_eq!(labels(&sizes), ["4096 delete", "8192 WAL", "8192 delete", "16KiB WAL", "16KiB delete"]);
    assert_eq!(sizes.cells[0].1, made(&[]).cells[0].1, "the same cell as without --set");
    assert_eq!(labels(&made(&["journal_mode=wal"])), ["8192 WAL"]);
    let twice = of(&experiment, &["page_size=8192,8KiB"], &[]).unwrap_err().to_string();
    assert!(twice.contains("8KiB and 8192 are the same value"), "{twice}");
}

/// What happened: an `[[exclude]]` with `'wal'` of an axis with `'WAL'`, or with `'4 KiB'` of one
/// with 4096, was refused ("is no value of the axis"), and so were headlines and figures.
#[test]
fn what_a_file_names_of_its_axes_may_be_spelled_otherwise() {
    let source = "name='x'\n[workload]\nname='mobibench-sql'\n[engine]\nname='sqlite'\n[matrix]\n\
                  \"engine.page_size\" = [4096, '8 KiB']\n\"engine.journal_mode\" = ['WAL', 'delete']\n\
                  [[exclude]]\n\"engine.page_size\" = '4 KiB'\n\"engine.journal_mode\" = 'wal'\n\
                  [[exclude]]\n\"engine.page_size\" = 8192\n\"engine.journal_mode\" = ['DELETE']\n\
                  [[headline]]\nphase='insert'\naxis='engine.journal_mode'\nbaseline='wal'\nagainst=['Delete']\n\
                  where={ \"engine.page_size\" = 4096.0 }";
    let experiment = Experiment::parse("own.toml", source).unwrap();
    assert_eq!(labels(&of(&experiment, &[], &[]).unwrap()), ["4096 delete", "8 KiB WAL"]);
    let headline = &experiment.headlines[0];
    assert_eq!(headline.baseline.as_deref(), Some("WAL"));
    assert_eq!(headline.against, ["delete"]);
    assert_eq!(headline.filter["engine.page_size"], ["4096"]);
    // A variant's name is its author's, in whichever case.
    let source = "name='x'\n[workload]\nname='mobibench-sql'\n[engine]\nname='sqlite'\n\
                  [[matrix.variants]]\nname='wal/full'\n\"engine.journal_mode\"='wal'\n\
                  [[matrix.variants]]\nname='delete/full'\n\"engine.journal_mode\"='delete'\n\
                  [[exclude]]\nvariants='WAL/FULL'";
    let experiment = Experiment::parse("own.toml", source).unwrap();
    assert_eq!(labels(&of(&experiment, &[], &[]).unwrap()), ["delete/full"]);
    let other = source.replace("'WAL/FULL'", "'WAL/EXTRA'");
    let error = Experiment::parse("own.toml", &other).unwrap_err().to_string();
    assert!(error.contains("\"WAL/EXTRA\" is no value of the axis `variants`"), "{error}");
}
