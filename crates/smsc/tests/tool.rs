//! The command as a user calls it.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::{Command, Output};

fn smsc(dir: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_smsc")).args(arguments).current_dir(dir).output().unwrap()
}

fn text(octets: &[u8]) -> String {
    String::from_utf8_lossy(octets).into_owned()
}

#[test]
fn the_readmes_commands_run() {
    let dir = tempfile::tempdir().unwrap();
    let readme = include_str!("../README.md");
    let commands: Vec<&str> = readme.lines().filter_map(|line| line.strip_prefix("$ smsc ")).collect();
    assert!(commands.len() >= 5);
    for command in commands {
        let words: Vec<&str> = command.split('#').next().unwrap().split_whitespace().collect();
        let output = smsc(dir.path(), &words);
        assert!(output.status.success(), "smsc {command}: {}", text(&output.stderr));
        assert!(!output.stdout.is_empty(), "smsc {command} says nothing");
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "stores are left behind");
}

#[test]
fn what_a_bench_leaves_can_be_checked_and_damage_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let bench = ["bench", "--store", "sqlite", "--side", "receiver", "--threads", "2", "--messages", "200"];
    let kept = smsc(dir.path(), &[&bench[..], &["--keep", "--json"]].concat());
    assert!(kept.status.success(), "{}", text(&kept.stderr));
    let row: serde_json::Value = serde_json::from_slice(&kept.stdout).unwrap();
    assert_eq!((&row["figures"]["accepted"], &row["durability"]), (&200.into(), &"power-cut".into()));
    let store = text(&kept.stderr).trim().strip_prefix("kept: ").unwrap().to_owned();
    let check = ["check", "--store", "sqlite", &store];
    let good = smsc(dir.path(), &check);
    assert!(
        good.status.success() && text(&good.stdout).contains("ok: I1 to I7 hold"),
        "{}",
        text(&good.stdout)
    );

    // A message that was never accepted, and one whose queue row is gone.
    std::fs::write(dir.path().join("accepted"), "1\n999999\n").unwrap();
    let lost = smsc(dir.path(), &[&check[..], &["--accepted", "accepted"]].concat());
    assert_eq!(lost.status.code(), Some(1));
    assert!(
        text(&lost.stdout).contains("I6: message 999999 was accepted and is gone"),
        "{}",
        text(&lost.stdout)
    );
    let database = rusqlite::Connection::open(Path::new(&store).join("smsc.db")).unwrap();
    database.execute("DELETE FROM to_delivery WHERE msg_id = 1", []).unwrap();
    drop(database);
    let damaged = smsc(dir.path(), &check);
    assert_eq!(damaged.status.code(), Some(1));
    let said = text(&damaged.stdout);
    assert!(
        said.contains("I1: message 1 is Enroute and has 0 rows in to_delivery") && said.contains("I4"),
        "{said}"
    );
}

#[test]
fn senders_alone_end_with_their_time_or_their_queue() {
    let dir = tempfile::tempdir().unwrap();
    let bench = |seconds: &str, messages: &str| {
        let more =
            ["--seconds", seconds, "--messages", messages, "--window", "8", "--threads", "2", "--json"];
        let output = smsc(dir.path(), &[&["bench", "--side", "sender"][..], &more].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        let measured: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let finished = measured["figures"]["finished"].as_u64().unwrap();
        (measured["seconds"].as_f64().unwrap(), finished, text(&output.stderr).to_owned())
    };
    let (seconds, finished, said) = bench("0.3", "200000");
    assert!((0.3..3.0).contains(&seconds) && (1..200_000).contains(&finished), "{seconds} s, {finished}");
    assert!(!said.contains("empty"), "{said}");
    let (seconds, finished, said) = bench("600", "500");
    assert!(seconds < 600.0 && finished == 500 && said.contains("the queue was empty after"), "{said}");
}

#[test]
fn wrong_questions_are_told_what_would_be_right() {
    let dir = tempfile::tempdir().unwrap();
    for (arguments, code, said) in [
        (&["bench", "--store", "sqlit"][..], 2, "did you mean sqlite?"),
        (&["bench", "--threads", "0"], 2, "1..=1024"),
        (&["bench", "--rate", "10"], 2, "--seconds"),
        (&["bench", "--zipf", "9"], 2, "must be 0 to 5"),
        (&["bench", "--side", "sender", "--seconds", "1"], 2, "give --messages"),
        (&["bench", "--side", "receiver", "--seconds", "1", "--messages", "9"], 2, "leave the other out"),
        (&["bench", "--locking", "row"], 2, "known are none, record, page, container"),
        (&["bench", "--dir", "nowhere"], 2, "nowhere"),
        (&["check", "nowhere"], 2, "nowhere is no directory"),
    ] {
        let output = smsc(dir.path(), arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(said), "{arguments:?}: {}", text(&output.stderr));
    }
}
