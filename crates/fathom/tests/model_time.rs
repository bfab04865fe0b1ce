//! Model time through the binary: live runs on models whose request times dominate, so that the
//! answer is known by hand, and the gate on top of them. Needs root, mkfs.ext4 and /dev/fuse. With
//! `FATHOM_LONG=1` also the A/A check and the check of a regression of 5 %, on a machine that is
//! kept busy on purpose.

#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

mod place;

use std::process::{Child, Command, Stdio};

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
sequential_us = 1
mb_per_s = 10000
[write]
random_us = 1
sequential_us = 1
mb_per_s = 10000
[flush]
base_us = 20000
"#;

/// Runs WAL and DELETE with FULL on a device and gives the measures by label and phase.
fn measured(
    place: &Place,
    device: &str,
    transactions: u32,
    out: &str,
    more: &[&str],
) -> Vec<(String, Value)> {
    let transactions = format!("workload.transactions={transactions}");
    let device = format!("device={device}");
    let words = [
        "run",
        "first-look",
        "--set",
        "variants=wal/full,delete/full",
        "--set",
        "filesystem=ext4",
        "--set",
        &device,
        "--set",
        &transactions,
        "--out",
        out,
        "--dir",
        ".",
    ];
    place.fathom(&[&words[..], more].concat()).exits(0);
    let end = place.fathom(&["report", out, "--json"]);
    end.exits(0);
    let json: Value = serde_json::from_str(&end.stdout).unwrap();
    let of_cell = |cell: &Value| -> Vec<(String, Value)> {
        let label = cell["label"].as_str().unwrap().to_owned();
        let measures = cell["measures"].as_array().unwrap().iter();
        measures
            .map(|measure| (format!("{label} {}", measure["phase"].as_str().unwrap()), measure.clone()))
            .collect()
    };
    json["cells"].as_array().unwrap().iter().flat_map(of_cell).collect()
}

fn number(measure: &Value, name: &str) -> f64 {
    measure[name].as_f64().unwrap_or_else(|| panic!("{name} in {measure}"))
}

/// Flushes that the file system makes by itself, in each execution at most: its own commit comes
/// after five seconds without another, so in a run that is held up for seconds. It may be under way
/// when a phase begins or ends: counted and not waited for, or the other way round.
fn own_flushes(measure: &Value) -> f64 {
    let executions = number(measure, "executions");
    let seconds = |name: &str| measure[name].as_f64().unwrap_or(0.0) * executions / 1e9;
    if seconds("model_held_ns") < 1.0 {
        return 0.0;
    }
    2.0 * (1.0 + seconds("wall_time_ns") / 5.0) / executions
}

#[test]
fn where_flushes_take_all_the_time_model_time_is_their_number_times_theirs() {
    let place = Place::new();
    if !can_serve(&place) {
        return;
    }
    place.write("flushes.toml", FLUSHES_ONLY);
    let all = measured(&place, "./flushes.toml", 30, "r.db", &["--repeat", "1"]);
    assert_eq!(all.len(), 4);
    for (name, cell) in &all {
        let of = |what: &str| number(cell, what) / 1e6;
        println!(
            "{name}: {} flushes; model {:.3} ms = cpu {:.3} + device {:.3} + other {:.3}; wall {:.3}, held up {:.3}",
            cell["device_flushes"],
            of("model_ns"),
            of("model_cpu_ns"),
            of("model_device_ns"),
            of("model_other_ns"),
            of("wall_time_ns"),
            of("model_held_ns")
        );
        assert_eq!(cell["clock"], "model", "{name}");
        // A write before a flush takes 1 us and may add to what is waited for; nobody flushes but
        // for a commit.
        let by_hand = number(cell, "device_flushes") * 20.0;
        assert!(number(cell, "device_flushes") >= 1.0, "{name}: {cell}");
        assert!(
            (of("model_device_ns") - by_hand).abs() < by_hand * 0.01 + own_flushes(cell) * 20.0,
            "{name}: {} ms, by hand {by_hand}",
            of("model_device_ns")
        );
        // What is left is the program's own, whatever else this machine does.
        assert!(of("model_ns") < by_hand * 1.15, "{name}: {cell}");
        let parts = of("model_cpu_ns") + of("model_device_ns") + of("model_other_ns");
        assert!((parts / of("model_ns") - 1.0).abs() < 0.001, "{name}: {cell}");
        assert!(of("model_ns") <= of("wall_time_ns") * 1.02, "{name}: {cell}");
        assert!((number(cell, "rate_per_s") * of("model_ns") / 1000.0 - 1.0).abs() < 0.001, "{name}: {cell}");
    }
    // WAL flushes once, and once more while its file grows; DELETE does so four times.
    let flushes = |name: &str| number(&all.iter().find(|pair| pair.0 == name).unwrap().1, "device_flushes");
    assert!(flushes("delete/full update") > 1.5 * flushes("wal/full update"), "{all:?}");
    // As a gate: the same results are fine, and a count needs no more than one run.
    let gate = ["compare", "r.db", "r.db", "--fail-if-slower", "1%", "--metric", "flushes,bytes"];
    assert!(place.fathom(&gate).exits(0).stdout.contains("Fine: none of 8 is slower by more than 1 %."));
    place.fathom(&["compare", "r.db", "r.db", "--fail-if-slower", "1%"]).exits(2).says("Cannot tell: ");
}

/// A guest's worker tells its times by the guest's clock, which begins with its boot: what the
/// device served is laid over them all the same.
#[test]
fn flushes_take_their_time_in_the_guests_phases() {
    let place = Place::new();
    if fathom_stack::guest::Kernel::cached().is_none() || !can_serve(&place) {
        eprintln!("skipped: no guest kernel, or no device can be served");
        return;
    }
    place.write("flushes.toml", FLUSHES_ONLY);
    let all = measured(&place, "./flushes.toml", 30, "r.db", &["--repeat", "1", "--guest"]);
    assert_eq!(all.len(), 4);
    for (name, cell) in &all {
        assert_eq!(cell["clock"], "model", "{name}");
        let (flushes, device_ns) = (number(cell, "device_flushes"), number(cell, "model_device_ns"));
        assert!(flushes >= 1.0, "{name}: {cell}");
        let by_hand_ns = flushes * 20e6;
        let off_ns = (device_ns - by_hand_ns).abs();
        assert!(
            off_ns < by_hand_ns * 0.01 + own_flushes(cell) * 20e6,
            "{name}: {device_ns} ns, by hand {by_hand_ns}"
        );
        assert!(number(cell, "model_ns") <= number(cell, "wall_time_ns") * 1.02, "{name}: {cell}");
    }
}

#[test]
fn a_gate_is_told_by_its_exit_code_and_its_files() {
    let place = Place::new();
    if !can_serve(&place) {
        return;
    }
    place.write("flushes.toml", FLUSHES_ONLY);
    // The same cell with a checkpoint after every commit: more flushes.
    let more = ["--repeat", "3", "--set", "variants=wal/full"];
    measured(&place, "./flushes.toml", 20, "a.db", &more);
    measured(
        &place,
        "./flushes.toml",
        20,
        "b.db",
        &[&more[..], &["--set", "engine.wal_autocheckpoint=1"]].concat(),
    );
    place.fathom(&["baseline", "a.db", "--out", "base.toml"]).exits(0);
    let gate = ["compare", "base.toml", "b.db", "--fail-if-slower", "10%", "--phase", "update"];
    let end = place.fathom(&[&gate[..], &["--cell", "WAL/FULL", "--junit", "gate.xml"]].concat());
    end.exits(1).says("Slower: WAL/FULL, update: flushes of one transaction are ");
    assert!(end.stdout.contains("more") && !end.stderr.contains("insert"), "{end}");
    let junit = std::fs::read_to_string(place.path("gate.xml")).unwrap();
    assert!(junit.contains("failures=\"2\"") || junit.contains("failures=\"3\""), "{junit}");
    let back = ["compare", "b.db", "base.toml", "--fail-if-slower", "10%", "--metric"];
    let exchanged = place.fathom(&[&back[..], &["model,flushes"]].concat());
    // A gate with its files in the wrong places passed whatever had become slower, without a word.
    assert!(exchanged.exits(0).stdout.contains("A was measured after B"), "{exchanged}");
    // The other way round nothing is slower; what is not there cannot be told, whatever it is.
    for (words, says) in [
        (&["compare", "base.toml", "none.db", "--fail-if-slower", "10%"][..], "none.db"),
        (&["compare", "base.toml", "gate.xml", "--fail-if-slower", "10%"], "gate.xml"),
        (
            &["compare", "base.toml", "b.db", "--fail-if-slower", "10%", "--cell", "x"],
            "no cell is called \"x\"",
        ),
        (&["compare", "base.toml", "b.db", "--fail-if-slower", "ten"], "10%"),
        (&["compare", "base.toml", "b.db", "--metric", "speed"], "flushes"),
        (&["compare", "base.toml", "b.db", "--junit", "x.xml"], "--fail-if-slower"),
        (&["compare", "base.toml", "b.db", "--fail-if-slower", "1%", "--junit", "b.db"], "b.db"),
    ] {
        place.fathom(words).exits(2).says(says);
    }
    assert!(!place.path("x.xml").exists());
}

/// Programs that do nothing but take processors.
struct Busy(Vec<Child>);

impl Busy {
    fn new(number: usize) -> Busy {
        let spin = || {
            let mut shell = Command::new("sh");
            shell.args(["-c", "while :; do :; done"]).stdin(Stdio::null()).spawn().unwrap()
        };
        Busy((0..number).map(|_| spin()).collect())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Ten spinning programs beside the run: the geometric means of the same thing, measured again and
/// again, lie within 2 % of each other in model time, and 5 % more flushes are seen each time.
#[test]
fn on_a_busy_machine_the_same_is_the_same_and_five_percent_of_flushes_are_seen() {
    let place = Place::new();
    if std::env::var_os("FATHOM_LONG").is_none() || !can_serve(&place) {
        println!("SKIP: takes minutes (FATHOM_LONG=1), root, mkfs.ext4 and /dev/fuse");
        return;
    }
    let _busy = Busy::new(10);
    let device = std::env::var("FATHOM_DEVICE").unwrap_or_else(|_| "sd-sandisk-extreme".into());
    let with = |pages: &'static str| ["--repeat", "3", "--set", "variants=wal/full", "--set", pages];
    // While the log grows each commit flushes twice, for the file's length is the file system's
    // journal's; 20 % later it ends to grow.
    let (plain, later) = (with("engine.wal_autocheckpoint=60"), with("engine.wal_autocheckpoint=72"));
    let mut means = Vec::new();
    for turn in 0..5 {
        let base = format!("a{turn}.db");
        let of =
            |all: Vec<(String, Value)>| all.into_iter().find(|pair| pair.0 == "wal/full update").unwrap().1;
        let measure = of(measured(&place, &device, 150, &base, &plain));
        println!("{turn}: model {} /s, wall {} /s", measure["rate_per_s"], measure["wall_rate_per_s"]);
        means.push((number(&measure, "rate_per_s"), number(&measure, "wall_rate_per_s")));
        let worse = format!("b{turn}.db");
        let more = of(measured(&place, &device, 150, &worse, &later));
        let flushes = number(&more, "device_flushes") / number(&measure, "device_flushes");
        println!("   later checkpoints: model {} /s, flushes x {flushes:.3}", more["rate_per_s"]);
        assert!((1.03..1.08).contains(&flushes), "{flushes}");
        for metric in ["flushes", "model,flushes,bytes"] {
            let gate =
                ["compare", &base, &worse, "--fail-if-slower", "2%", "--phase", "update", "--metric", metric];
            let end = place.fathom(&gate);
            println!("{end}");
            end.exits(1).says("Slower: WAL/FULL, update: flushes");
        }
    }
    let spread = |pick: fn(&(f64, f64)) -> f64| {
        let (low, high) = means
            .iter()
            .map(pick)
            .fold((f64::INFINITY, 0.0_f64), |(l, h), value| (l.min(value), h.max(value)));
        high / low - 1.0
    };
    println!(
        "spread: model {:.2} %, wall {:.1} %",
        spread(|pair| pair.0) * 100.0,
        spread(|pair| pair.1) * 100.0
    );
    assert!(spread(|pair| pair.0) <= 0.02, "{means:?}");
}
