//! `fathom simulate` through the binary: recordings of runs, what is refused, and how near the
//! simulated numbers are to measured ones. What is recorded needs root, mkfs.ext4 and /dev/fuse.
//! With `FATHOM_LONG=1` traces × settings × presets are measured live and compared
//! (`FATHOM_TRACES`, `FATHOM_PRESETS`: others than the usual).

#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

mod place;

use place::{Place, can_serve};
use serde_json::Value;

/// A flush takes 20 ms, all else next to nothing.
const FLUSHES_ONLY: &str = r#"
name = "flushes-only"
title = "a flush takes 20 ms"
kind = "sd"
sources = ["made up for a test"]
[read]
random_us = 1
mb_per_s = 10000
[write]
random_us = 1
mb_per_s = 10000
[flush]
base_us = 20000
"#;

fn rows(json: &str) -> Vec<Value> {
    let json: Value = serde_json::from_str(json).unwrap();
    json["simulation"]["rows"].as_array().unwrap().clone()
}

fn number(row: &Value, name: &str) -> f64 {
    row[name].as_f64().unwrap_or_else(|| panic!("{name} in {row}"))
}

#[test]
fn what_cannot_be_simulated_is_said_and_nothing_is_made() {
    let place = Place::new();
    place.write("text.db", "this is no database, and no trace either");
    let quick = ["run", "first-look", "--quick", "--repeat", "1", "--set", "variants=wal/full"];
    let small = ["--set", "workload.transactions=5", "--out", "plain.db", "--dir", "."];
    place.fathom(&[&quick[..], &small].concat()).exits(0);
    let before = place.files();
    for (words, says) in [
        (&["simulate", "plain.db"][..], "no run has a recording"),
        (&["simulate", "plain.db"], "instruments.operations=true"),
        (&["simulate", "plain.db", "--device", "sd-slwo"], "did you mean"),
        (
            &["simulate", "plain.db", "--device", "sd-slow", "--device", "emmc-51,sd-slow"],
            "sd-slow is given twice",
        ),
        (&["simulate", "plain.db", "--device", "./no.toml"], "no.toml"),
        (&["simulate", "plain.db", "--fs", "ext4"], "--fs is for traces"),
        (&["simulate", "plain.db", "--set", "journal_mode=wal"], "--set is for traces"),
        (&["simulate", "plain.db", "--html", "plain.db"], "plain.db"),
        (&["simulate", "plain.db", "--json", "--csv"], "--csv"),
        (&["simulate", "plain.db", "--json", "--svg", "-"], "both would go to standard output"),
        (&["simulate", "plain.db", "--html", "x", "--svg", "x"], "the same file"),
        (&["simulate", "no-such.db"], "no-such.db"),
        (&["simulate", "gmial"], "gmail"),
    ] {
        place.fathom(words).exits(2).says(says);
    }
    place.fathom(&["simulate", "text.db"]).fails();
    assert_eq!(place.files(), before);
}

#[test]
fn a_run_that_was_recorded_is_replayed_on_any_device() {
    let place = Place::new();
    if !can_serve(&place) {
        return;
    }
    place.write("flushes.toml", FLUSHES_ONLY);
    let run = |device: &str, out: &str, more: &[&str]| {
        let device = format!("device={device}");
        let words =
            ["run", "first-look", "--set", "variants=wal/full,delete/full", "--set", "filesystem=ext4"];
        let more =
            [&["--set", &device, "--set", "workload.transactions=30", "--repeat", "1", "--dir", "."], more];
        place.fathom(&[&words[..], &more.concat(), &["--out", out]].concat()).exits(0);
    };
    run("recorder", "recorded.db", &["--set", "instruments.operations=true"]);
    run("./flushes.toml", "live.db", &[]);
    let words = ["simulate", "recorded.db", "--device", "./flushes.toml,emmc-51,ufs-fresh", "--json"];
    let first = place.fathom(&words);
    let rows_found = rows(&first.exits(0).stdout);
    // Two settings, two phases, three devices.
    assert_eq!(rows_found.len(), 12, "{first}");
    assert_eq!(place.fathom(&words).stdout, first.stdout, "the same recording gives the same numbers");
    let live: Value =
        serde_json::from_str(&place.fathom(&["report", "live.db", "--json"]).exits(0).stdout).unwrap();
    for cell in live["cells"].as_array().unwrap() {
        for measure in cell["measures"].as_array().unwrap() {
            let setting = &cell["axes"]["variants"].as_str().unwrap();
            let is_same = |row: &&Value| {
                row["label"].as_str().unwrap().contains(setting)
                    && row["phase"] == measure["phase"]
                    && row["device"] == "flushes-only"
            };
            let row = rows_found.iter().find(is_same).unwrap();
            let (ours, theirs) = (number(row, "device_ns"), number(measure, "model_device_ns"));
            println!("{setting} {}: device {ours} simulated, {theirs} live", measure["phase"]);
            // The file system's own commit comes every five seconds, so more often in a run that is
            // held up. Its two flushes may be under way when a phase begins or ends: counted and
            // not waited for, or the other way round.
            let executions = number(measure, "executions");
            let own_commits = 1.0 + executions / number(measure, "wall_rate_per_s") / 5.0;
            let of_own_commits = 2.0 * own_commits / executions;
            // Flushes are a count, and take all the time: no machine is too busy for this.
            let (ours_flushed, flushed) = (number(row, "flushes"), number(measure, "device_flushes"));
            let apart = (ours_flushed - flushed).abs();
            assert!(apart < flushed * 0.05 + of_own_commits, "{row}\n{measure}");
            let one = 20e6 / executions;
            assert!((ours - ours_flushed * 20e6).abs() < one * 2.5, "{row}");
            assert!((theirs - flushed * 20e6).abs() < 20e6 * of_own_commits + one * 0.5, "{measure}");
        }
    }
    // By the device alone: the same operations next to without CPU time, and each run by itself.
    let alone = rows(&place.fathom(&[&words[..], &["--device-alone"]].concat()).exits(0).stdout);
    for (row, other) in alone.iter().zip(&rows_found) {
        assert_eq!(number(row, "cpu_ns"), 0.0, "{row}\n{other}");
        // A commit before the first execution is no execution's.
        let apart = (number(row, "flushes") - number(other, "flushes")).abs() * number(row, "count");
        assert!(apart < 4.5, "{row}\n{other}");
        let run = &row["each_run"][0];
        assert!(number(run, "p999_ns") >= number(run, "p50_ns") && number(run, "p50_ns") > 0.0, "{row}");
        assert_eq!(number(&run["slowest"]["slowest"], "executions"), 1.0, "{row}");
    }
    let said = place.fathom(&["simulate", "recorded.db", "--device-alone"]);
    assert!(said.exits(0).stdout.contains("by its device alone"), "{said}");
    // The phase and the cell that are asked for, as pictures and lines.
    let some =
        ["simulate", "recorded.db", "--phase", "update", "--svg", "a.svg", "--html", "a.html", "--csv"];
    let csv = place.fathom(&some).exits(0).stdout.clone();
    assert_eq!(csv.lines().count(), 1 + 2 * 12, "{csv}");
    let svg = String::from_utf8(place.read("a.svg")).unwrap();
    assert!(svg.contains("on 12 devices") && svg.contains("emmc-51"), "{svg}");
    assert!(place.read("a.html").starts_with(b"<!doctype html>"));
    place.fathom(&["simulate", "recorded.db", "--phase", "upate"]).exits(2).says("no phase is called");
    place.fathom(&["simulate", "recorded.db", "--cell", "x"]).exits(2).says("no cell is called");
    // A byte of a recording that changed on the disk.
    let db = rusqlite::Connection::open(place.path("recorded.db")).unwrap();
    db.execute_batch("UPDATE recording SET data = data || x'00' WHERE run = 1").unwrap();
    drop(db);
    place.fathom(&["simulate", "recorded.db"]).exits(1).says("damaged");
}

#[test]
fn a_trace_is_recorded_and_simulated_in_one_command_that_leaves_nothing() {
    let place = Place::new();
    if !can_serve(&place) {
        return;
    }
    place.fathom(&["trace", "synthesise", "facebook", "--scale", "5", "--out", "news.trace"]).exits(0);
    let before = place.files();
    let words = ["simulate", "news.trace", "--set", "journal_mode=delete,wal", "--device", "sd-slow,emmc-51"];
    let end = place.fathom(&words);
    end.exits(0);
    // The device that it was recorded on is none that it is shown on.
    assert!(!end.stdout.contains("recorder"), "{end}");
    assert!(end.stdout.contains("news on 2 devices") && end.stdout.contains("2 threads: they meet"), "{end}");
    assert_eq!(place.files(), before);
    let kept = [&words[..], &["--out", "kept.db", "--json"]].concat();
    let rows_found = rows(&place.fathom(&kept).exits(0).stdout);
    assert_eq!(rows_found.len(), 4);
    place.fathom(&kept).exits(2).says("name another file");
    place.fathom(&["simulate", "kept.db"]).exits(0);
    let device = |name: &'static str| rows_found.iter().filter(move |row| row["device"] == name);
    for (slow, fast) in device("sd-slow").zip(device("emmc-51")) {
        assert!(number(slow, "device_ns") > number(fast, "device_ns") * 3.0, "{slow} {fast}");
        // What nobody waits for (the journal's commit by its timer, where the machine is busy) may
        // be under way when the replay ends, on one device and not on the other: they were once 65
        // and 64 flushes.
        let apart = (number(slow, "flushes") - number(fast, "flushes")).abs() * number(slow, "count");
        assert!(apart < 1.5, "{slow} {fast}");
    }
}

/// Traces × settings × presets: the model time that is simulated from one recording, over the one
/// that is measured live, both on this machine.
#[test]
fn what_is_simulated_is_what_is_measured() {
    let place = Place::new();
    if std::env::var_os("FATHOM_LONG").is_none() || !can_serve(&place) {
        println!("SKIP: takes minutes (FATHOM_LONG=1), root, mkfs.ext4 and /dev/fuse");
        return;
    }
    let wanted = |name: &str, usual: &str| std::env::var(name).unwrap_or_else(|_| usual.into());
    let traces = wanted("FATHOM_TRACES", "gmail,facebook,kakaotalk");
    let usual =
        "emmc-51,nvme,nvme-protected,sd-sandisk-extreme,sd-samsung-32,sd-slow,ufs-fresh,ufs-fragmented";
    let presets = wanted("FATHOM_PRESETS", usual);
    let mut ratios: Vec<(f64, String)> = Vec::new();
    for trace in traces.split(',') {
        let file = format!("{trace}.trace");
        place.fathom(&["trace", "synthesise", trace, "--scale", "25", "--out", &file]).exits(0);
        for set in ["journal_mode=delete", "journal_mode=wal", "journal_mode=wal synchronous=normal"] {
            let sets: Vec<&str> = set.split(' ').flat_map(|part| ["--set", part]).collect();
            let simulated =
                place.fathom(&[&["simulate", &file, "--device", &presets, "--json"], &sets[..]].concat());
            for row in rows(&simulated.exits(0).stdout) {
                let device = row["device"].as_str().unwrap();
                let out = format!("{trace}-{device}-{}.db", set.replace([' ', '='], "-"));
                let on = format!("device={device}");
                // Its variants choose workloads only, for which the trace stands in.
                let words =
                    ["run", "journal-modes", "--trace", &file, "--set", "filesystem=ext4", "--set", &on];
                let more = ["--repeat", "3", "--out", &out, "--dir", ".", "--quiet"];
                place.fathom(&[&words[..], &sets, &more].concat()).exits(0);
                let live = place.fathom(&["report", &out, "--json"]);
                let live: Value = serde_json::from_str(&live.exits(0).stdout).unwrap();
                let measure = &live["cells"][0]["measures"][0];
                let ratio = number(&row["model_ns"], "mid") / number(measure, "model_ns");
                let what = format!("{trace} {set} {device}");
                println!("{ratio:.3} {what}");
                ratios.push((ratio, what));
            }
        }
    }
    let mut off: Vec<f64> = ratios.iter().map(|ratio| (ratio.0 - 1.0).abs()).collect();
    off.sort_by(f64::total_cmp);
    let within = off.iter().filter(|value| **value <= 0.1).count();
    println!(
        "{within} of {} within 10 %; median {:.3}, largest {:.3}",
        off.len(),
        off[off.len() / 2],
        off[off.len() - 1]
    );
    assert!(within * 10 >= off.len() * 8, "{ratios:?}");
}
