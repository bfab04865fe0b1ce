//! `fathom cut` through the binary: what it finds of settings that are known to lose and of those
//! that must not, what it says of the worst, what it refuses, and that nothing stays when it is
//! stopped. Needs root, mkfs.ext4 and /dev/fuse. With `FATHOM_LONG=1` the states of 1,000 commits
//! are judged, on every file system that this machine can make.

#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

mod place;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use place::{Place, can_serve, named};
use serde_json::Value;

fn cells(place: &Place, words: &[&str], code: i32) -> Vec<Value> {
    let end = place.fathom(&[&["cut", "--json", "--time", "0"], words].concat());
    assert_eq!(end.code, Some(code), "{end}");
    let json: Value = serde_json::from_str(&end.stdout).unwrap_or_else(|error| panic!("{error}: {end}"));
    json["cells"].as_array().unwrap().clone()
}

fn lost(cell: &Value) -> u64 {
    let classes = cell["classes"].as_object().unwrap();
    classes.iter().filter(|class| class.0 != "kept").map(|class| class.1.as_u64().unwrap()).sum()
}

/// Why a call tried nothing, in one line of words.
fn not_tried(place: &Place, words: &[&str]) -> String {
    let end = place.fathom(words);
    end.exits(1);
    end.stdout.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn why(explanation: &Value) -> String {
    let lines = explanation["lines"].as_array().unwrap();
    lines.iter().map(|line| line.as_str().unwrap()).collect::<Vec<_>>().join("\n")
}

#[test]
fn what_cannot_be_cut_is_said_and_nothing_is_made() {
    let place = Place::new();
    place.write("file", "something");
    place.write("index.json", r#"{ "version": 1, "cells": {} }"#);
    let before = place.files();
    for (words, says) in [
        (&["--set", "filesystem=ext5"][..], "did you mean"),
        (&["--set", "filesystem=dir"], "no device of its own"),
        (&["--set", "journal_mode=wall"], "journal_mode"),
        (&["--set", "jurnal_mode=wal"], "journal_mode"),
        (&["--set", "journal_mode"], "KEY=VALUE"),
        (&["--set", "journal_mode=wal", "--set", "journal_mode=delete"], "given twice"),
        (&["--set", "journal_mode=wal,wal"], "wal is given twice"),
        (&["--device", "sd-slwo"], "did you mean"),
        (&["--tear", "100"], "512 or 4096"),
        (&["--commits", "0"], "1..=100000"),
        (&["--states", "0"], "0"),
        (&["--keeps", "nothing"], "lying"),
        (&["--state", "1/2"], "--replay"),
        (&["--image", "x.img"], "--replay"),
        (&["--replay", "no-such", "--state", "1/2"], "no-such"),
        (&["--replay", "file", "--state", "1/2"], "file"),
        (&["--replay", "."], "cut.json"),
        (&["--replay", ".", "--image", "x.img"], "--state"),
        (&["--replay", ".", "--state", "17"], "1/17"),
        (&["--replay", ".", "--record", "x"], "--record"),
        (&["--replay", ".", "--state", "1/2", "--seed", "3"], "--seed"),
        (&["--replay", ".", "--write-back"], "--write-back"),
        (&["--replay", ".", "--state", "1/2", "--from", "3"], "--from"),
        (&["--replay", ".", "--state", "1/2", "--states", "3"], "--states"),
        (&["--replay", ".", "--state", "1/2", "--time", "3"], "--time"),
        (&["--table", "no-such.json"], "no-such.json"),
        (&["--table", "file"], "it is not what `fathom cut --json` has printed"),
        (&["--table", "no-such.json"], "give a file of what `fathom cut --json` has printed"),
        (&["--table", "index.json"], "--replay ."),
        (&["--table", "/dev/zero"], "more than 64 MiB"),
        (
            &["--replay", "no-such"],
            "no-such/cut.json: is not there; give the directory that `fathom cut --record",
        ),
        (&["--replay", "file"], "give the directory that `fathom cut --record"),
        (&["--table", "file", "--json"], "--table"),
    ] {
        place.fathom(&[&["cut"], words].concat()).exits(2).says(says);
    }
    assert_eq!(place.files(), before);
    if !can_serve(&place) {
        return;
    }
    for (directory, says) in [("file", "file: is there already"), ("no-such/rec", "is not there: make it")] {
        place.fathom(&["cut", "--record", directory]).exits(2).says(says);
    }
    place.fathom(&["cut", "--dir", "no-such"]).exits(2).says("no-such");
    place.fathom(&["cut", "--size", "1"]).exits(2).says("size_mib");
    // What no kernel mounts was said to be broken by every cut.
    for filesystem in ["ntfs", "exfat-fuse"] {
        let set = format!("filesystem={filesystem}");
        let words = ["cut", "--set", &set, "--set", "journal_mode=wal", "--commits", "2"];
        let said = not_tried(&place, &words);
        assert!(said.contains("whose driver is a program"), "{said}");
    }
    assert_eq!(place.files(), before);
}

#[test]
fn a_rollback_journal_that_is_not_synced_away_brings_the_last_commit_back() {
    let place = Place::new();
    if !can_serve(&place) {
        return;
    }
    let delete = ["--set", "journal_mode=delete", "--set", "synchronous=full,extra"];
    let more = ["--commits", "25", "--states", "200", "--record", "cuts"];
    let found = cells(&place, &[&delete[..], &more[..]].concat(), 0);
    let [full, extra] = &found[..] else { panic!("{found:?}") };
    assert!(full["classes"]["lost-last"].as_u64().unwrap() > 0, "{full}");
    assert_eq!(lost(full), full["classes"]["lost-last"].as_u64().unwrap(), "never more: {full}");
    assert_eq!(lost(extra), 0, "{extra}");
    assert!(extra["classes"]["kept"].as_u64().unwrap() >= 200);
    let said = why(&full["explanation"]);
    assert!(said.contains("directory entry of work/cut.db-journal is still in work"), "{said}");
    assert!(said.contains("hot journal"), "{said}");

    // One seed and number repeat a verdict, and its image is that state's.
    let number = full["worst"][0].as_u64().unwrap();
    let state = format!("1/{number}");
    let replay = ["cut", "--replay", "cuts", "--state", &state];
    let again = place.fathom(&[&replay[..], &["--json", "--image", "after.img"]].concat());
    again.exits(0);
    let explanation: Value = serde_json::from_str(&again.stdout).unwrap();
    assert_eq!(explanation, full["explanation"]);
    let kept = place.fathom(&["cut", "--replay", "cuts", "--state", "2/0"]);
    kept.exits(0);
    assert!(kept.stdout.contains("2/0: kept"), "{kept}");
    place.fathom(&[&replay[..], &["--image", "after.img"]].concat()).exits(2).says("after.img");
    place.fathom(&[&replay[..], &["--image", "-"]].concat()).exits(2).says("name a file");
    place.fathom(&["cut", "--replay", "cuts", "--state", "1/9999999"]).exits(2).says("no state 9999999");
    place.fathom(&["cut", "--replay", "cuts", "--state", "3/0"]).exits(2).says("no cell 3");
    assert_eq!(place.read("after.img").len(), 64 << 20);
    let name = named("after-a-cut");
    let up = place.fathom(&["stack", "up", "--image", "after.img", "--name", &name, "--dir", "."]);
    up.exits(0);
    let work = PathBuf::from(up.stdout.trim());
    let journal = fs::metadata(work.join("cut.db-journal")).map(|metadata| metadata.len());
    place.fathom(&["stack", "down", &name]).exits(0);
    assert!(journal.unwrap() > 0, "the journal that came back");

    // Where no state is judged, nothing is said to be kept.
    let none = ["cut", "--replay", "cuts", "--from", "99999998", "--states", "99999999"];
    place.fathom(&none).exits(1).says("no state was judged");
    // One byte of the data that is another.
    let data = place.path("cuts/1/operations.data");
    let bytes = fs::read(&data).unwrap();
    let mut damaged = bytes.clone();
    damaged[bytes.len() / 2] ^= 1;
    fs::write(&data, &damaged).unwrap();
    place.fathom(&replay).exits(2).says("the recording is damaged");
    // What happened: one damaged cell took what had been found of all the others with it.
    let rest = place.fathom(&["cut", "--replay", "cuts", "--states", "20"]);
    rest.exits(1);
    assert!(rest.stdout.contains("EXTRA") && rest.stdout.contains("not tried"), "{rest}");
    fs::write(&data, &bytes).unwrap();
    // A log that was cut off is none, between two records (of 56 bytes, behind 16) or within one.
    let log = place.path("cuts/1/operations");
    let text = fs::read(&log).unwrap();
    let half = 16 + (text.len() - 16) / 56 / 2 * 56;
    for (length, says) in [(half, "were recorded"), (half + 1, "its last record is cut off")] {
        fs::write(&log, &text[..length]).unwrap();
        place.fathom(&replay).exits(2).says(says);
    }
    fs::write(&log, b"FATHDEV9").unwrap();
    place.fathom(&replay).fails();
    for (text, says) in [
        ("{}", "cut.json"),
        (r#"{ "version": 2, "cells": {} }"#, "version 2"),
        (r#"{ "version": 1, "cells": {} }"#, "nothing was recorded"),
    ] {
        place.write("cuts/cut.json", text);
        place.fathom(&replay).exits(2).says(says);
    }
}

/// That the last commit is lost is the directory's: where the file system syncs it by itself
/// (`dirsync`), the same settings lose nothing, on no device that tells the truth. What a
/// power-loss protected device loses without it was never sent to it.
#[test]
fn a_directory_that_is_synced_keeps_the_last_commit() {
    let place = Place::new();
    if !can_serve(&place) {
        return;
    }
    let full = ["--set", "journal_mode=delete", "--set", "synchronous=full", "--commits", "15"];
    let synced = [&full[..], &["--mount", "dirsync", "--states", "200"]].concat();
    for keeps in ["flushed", "protected"] {
        let found = &cells(&place, &[&synced[..], &["--keeps", keeps]].concat(), 0)[0];
        assert_eq!((lost(found), &found["states"]), (0, &200.into()), "{found}");
    }
    let found = &cells(&place, &[&full[..], &["--keeps", "protected", "--states", "60"]].concat(), 0)[0];
    assert!(lost(found) > 0, "{found}");
    assert_eq!(found["explanation"]["missing"], Value::from(Vec::<u64>::new()), "all is there: {found}");
    assert!(why(&found["explanation"]).contains("what is lost had not been sent"), "{found}");
}

/// A trace of statements, each a commit of its own.
fn imported(place: &Place, name: &str, sql: &str) -> String {
    place.write(&format!("{name}.sql"), sql);
    let file = format!("{name}.trace");
    place.fathom(&["trace", "import", &format!("{name}.sql"), "--out", &file]).exits(0);
    file
}

/// What happened: a trace with two DELETEs that find no row was said to lose "last 3 commits (!)"
/// with DELETE/FULL, and SQLite to break its promise. And what is lost beside such is still found.
#[test]
fn commits_that_change_nothing_are_not_lost_and_those_beside_them_are() {
    let place = Place::new();
    if !can_serve(&place) {
        return;
    }
    let nothing = "DELETE FROM t WHERE a = -1;\nUPDATE t SET b = 'y' WHERE a = -2;\n";
    let row = |id: i32| format!("INSERT INTO t VALUES({id}, '{}');\n", "x".repeat(200));
    let (first, rest): (String, String) = ((1..=10).map(row).collect(), (11..=20).map(row).collect());
    let table = "CREATE TABLE t(a INTEGER PRIMARY KEY, b TEXT);\n";
    let file = imported(&place, "nothing", &format!("{table}{nothing}{first}{nothing}{rest}{nothing}"));
    let words = ["--trace", &file, "--commits", "30", "--states", "600", "--set"];
    let of = |mode: &str, synchronous: &str| {
        cells(&place, &[&words[..], &[mode, "--set", synchronous]].concat(), 0).remove(0)
    };
    let delete = of("journal_mode=delete", "synchronous=full");
    assert_eq!((&delete["breaks_promise"], &delete["acknowledged"]), (&false.into(), &27.into()));
    assert!(lost(&delete) > 0, "what is lost is found: {delete}");
    assert_eq!(lost(&delete), delete["classes"]["lost-last"].as_u64().unwrap(), "never more: {delete}");
    let wal = of("journal_mode=wal", "synchronous=full");
    assert_eq!(lost(&wal), 0, "{wal}");
    // Of a log that is never synced all may be lost: of 27 commits the 21 that changed something.
    let normal = of("journal_mode=wal", "synchronous=normal");
    assert_eq!((&normal["worst"][1]["lost"], &normal["acknowledged"]), (&21.into(), &27.into()), "{normal}");
}

/// What happened: of what an application prepares, one table after the other, a cut just behind it
/// took the last, as DELETE/FULL may; "corrupt (!)" was said of that.
#[test]
fn the_last_commit_of_what_is_prepared_may_be_lost_as_any_other() {
    let place = Place::new();
    if !can_serve(&place) {
        return;
    }
    let words = ["--trace", "gmail", "--set", "workload.scale=3", "--set", "journal_mode=delete,wal"];
    let more = ["--set", "synchronous=full,normal", "--commits", "5", "--states", "300"];
    for cell in cells(&place, &[&words[..], &more].concat(), 0) {
        assert_eq!(cell["breaks_promise"], false, "{cell}");
        let classes = cell["classes"].as_object().unwrap();
        assert!(!classes.contains_key("corrupt"), "{cell}");
    }
}

/// What happened: the commits of a shell that was called anew for each were done on one connection
/// that stayed open, and "last 21 commits lost" was said of WAL/NORMAL. Each end of a shell
/// checkpoints the log, and syncs it and the database.
#[test]
fn a_program_that_ends_after_each_commit_loses_the_last_one_at_most() {
    let place = Place::new();
    if !can_serve(&place) {
        return;
    }
    if Command::new("sqlite3").arg("--version").output().is_err() {
        println!("SKIP: needs the sqlite3 shell (apt-get install sqlite3)");
        return;
    }
    let script = "sqlite3 d.db 'CREATE TABLE t(a, b)'; for i in 1 2 3 4 5 6 7 8; do \
                  sqlite3 d.db \"INSERT INTO t VALUES($i, 'some text')\"; done";
    place.fathom(&["trace", "capture", "--out", "shell.trace", "--", "sh", "-c", script]).exits(0);
    let words = ["--trace", "shell.trace", "--commits", "8", "--states", "300"];
    let wal = ["--set", "journal_mode=wal", "--set", "synchronous=normal"];
    let cell = &cells(&place, &[&words[..], &wal].concat(), 0)[0];
    let classes = cell["classes"].as_object().unwrap();
    assert!(classes.keys().all(|key| ["kept", "lost-last"].contains(&key.as_str())), "{cell}");
}

/// A small disk in memory, to be full soon.
struct Small(PathBuf);

impl Small {
    fn new(at: PathBuf) -> Small {
        fs::create_dir(&at).unwrap();
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", "size=600k", "none"]).arg(&at).status();
        assert!(mount.unwrap().success());
        Small(at)
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

/// What happened: on a full disk `--record` left its directory with half of a log, so that the next
/// try was refused; and where the log lay in TMPDIR, a command was recommended to look into it,
/// which was gone.
#[test]
fn recordings_that_cannot_be_kept_go_again_and_the_error_says_what_to_do() {
    let place = Place::new();
    if !can_serve(&place) {
        return;
    }
    let small = Small::new(place.path("small"));
    let words = ["cut", "--set", "journal_mode=wal", "--set", "synchronous=full", "--commits", "10"];
    let words = [&words[..], &["--states", "10"]].concat();
    // Twice: nothing is in the way of the second try.
    for _ in 0..2 {
        let end = place.fathom(&[&words[..], &["--record", "small/rec"]].concat());
        end.exits(1).says("no run was recorded, so the directory is removed");
        let said = end.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains("No space left") && said.contains("or give another place"), "{end}");
        assert!(!said.contains("stack operations"), "{end}");
        assert_eq!(fs::read_dir(&small.0).unwrap().count(), 0, "{end}");
    }
    let small_tmp = small.0.to_str().unwrap().to_owned();
    let end = place.fathom_with(&words, &[("TMPDIR", &small_tmp)]);
    end.exits(1);
    let said = end.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("or give another place (TMPDIR"), "{end}");
    assert!(!said.contains("stack operations"), "{end}");
    // What was done before a signal came stays, and can be replayed; what was not goes.
    let slow = ["cut", "--set", "journal_mode=delete", "--set", "synchronous=full", "--commits", "60"];
    let slow = [&slow[..], &["--states", "1000000", "--time", "0", "--record", "cuts"]].concat();
    let running = place.start(&slow);
    running.wait_until(|| place.path("cuts/1/operations").exists());
    running.interrupt();
    running.end().ends_by(libc::SIGINT).says("stopped before everything was tried");
    let left = place.path("cuts").exists();
    assert!(!left || place.path("cuts/cut.json").exists(), "{:?}", place.files());
}

/// A log that is never checkpointed is half of what WAL does: with few pages the database is
/// written and the log begins again, many times in a run.
#[test]
fn checkpoints_are_cut_too() {
    let place = Place::new();
    if !can_serve(&place) {
        return;
    }
    let words = ["--set", "journal_mode=wal", "--set", "synchronous=full,normal", "--commits", "30"];
    let words = [&words[..], &["--set", "wal_autocheckpoint=20", "--states", "300"]].concat();
    let found = cells(&place, &words, 0);
    let [full, normal] = &found[..] else { panic!("{found:?}") };
    assert_eq!(lost(full), 0, "{full}");
    // Flushes of checkpoints, where without them there is one moment.
    assert!(normal["moments"].as_u64().unwrap() > 10, "{normal}");
    assert_eq!(normal["breaks_promise"], false, "{normal}");
}

/// `--time` and a signal end a workload that takes longer than both; what happened was that all of
/// it was done first, whoever asked it to stop.
#[test]
fn a_workload_that_takes_too_long_is_stopped() {
    let place = Place::new();
    if !can_serve(&place) {
        return;
    }
    let words = ["cut", "--workload", "chat", "--set", "workload.rows=100000000"];
    let words = [&words[..], &["--set", "journal_mode=wal", "--set", "synchronous=full"]].concat();
    let said = not_tried(&place, &[&words[..], &["--time", "2"]].concat());
    assert!(said.contains("was stopped before it was done"), "{said}");
    let running = place.start(&[&words[..], &["--time", "0"]].concat());
    // Before that a signal ends it without a word.
    running.wait_until(|| running.listens());
    std::thread::sleep(Duration::from_secs(2));
    running.signal(libc::SIGTERM);
    running.end().ends_by(libc::SIGTERM).says("stopped before everything was tried");
    let said = not_tried(&place, &[&["cut", "--commits", "60000", "--time", "2"], &words[5..]].concat());
    assert!(said.contains("not done within --time"), "{said}");
}

#[test]
fn a_device_that_lies_loses_in_every_mode_and_a_protected_one_in_none() {
    let place = Place::new();
    if !can_serve(&place) {
        return;
    }
    let modes = ["--set", "journal_mode=delete,truncate,persist,wal", "--set", "synchronous=extra"];
    let few = ["--commits", "15", "--states", "60"];
    // That no promise is broken by a lie is the promise's own words.
    for cell in cells(&place, &[&modes[..], &few, &["--keeps", "lying"]].concat(), 0) {
        assert!(lost(&cell) > 0, "{cell}");
        assert_eq!(cell["breaks_promise"], false);
    }
    for cell in cells(&place, &[&modes[..], &few, &["--device", "nvme-protected"]].concat(), 0) {
        assert_eq!(lost(&cell), 0, "{cell}");
        assert_eq!(cell["behaviour"]["keeps"], "answered");
    }
}

/// A commit's fate is decided on both devices: the data's flush on one comes before the log's on
/// the other.
#[test]
fn a_file_system_with_its_log_on_another_device_is_cut_on_both() {
    let place = Place::new();
    place.fathom(&["cut", "--replay", ".", "--log", "64"]).exits(2).says("--log");
    if !can_serve(&place) {
        return;
    }
    place.fathom(&["cut", "--log", "1"]).exits(2).says("log_mib");
    // Before the first cell has taken its time.
    let words = ["cut", "--set", "filesystem=xfs,btrfs", "--log", "64", "--record", "none"];
    place.fathom(&words).exits(2).says("external log");
    assert!(!place.path("none").exists());
    let settings = ["--set", "journal_mode=delete,wal", "--set", "synchronous=full", "--log", "64"];
    let few = ["--commits", "15", "--states", "120"];
    for filesystem in ["xfs", "ext4"] {
        let set = format!("filesystem={filesystem}");
        let words = [&["--set", &set][..], &settings, &few].concat();
        let found = cells(&place, &[&words[..], &["--record", filesystem]].concat(), 0);
        let [delete, wal] = &found[..] else { panic!("{found:?}") };
        assert_eq!((lost(wal), &wal["states"]), (0, &120.into()), "{wal}");
        assert!(lost(delete) > 0, "{delete}");
        assert_eq!(lost(delete), delete["classes"]["lost-last"].as_u64().unwrap(), "never more: {delete}");
        assert_eq!(delete["label"], format!("{filesystem}+log delete/full"));
        for cell in cells(&place, &[&words[..], &["--keeps", "lying"]].concat(), 0) {
            assert!(lost(&cell) > 0, "{cell}");
        }
        let protected = cells(&place, &[&words[..], &["--keeps", "protected"]].concat(), 0);
        assert_eq!(lost(&protected[1]), 0, "{protected:?}");
    }
    // One state again, with the images of both.
    let state = ["cut", "--replay", "xfs", "--state", "2/3"];
    place.fathom(&[&state[..], &["--image", "after.img"]].concat()).exits(0);
    assert_eq!(place.read("after.img.log").len(), 64 << 20);
    place.fathom(&[&state[..], &["--image", "after.img"]].concat()).exits(2).says("after.img");
    // A log is none without the other's answers.
    let log = place.path("xfs/2/operations.log");
    let text = fs::read(&log).unwrap();
    fs::write(&log, &text[..text.len() - 56]).unwrap();
    place.fathom(&state).exits(2).says("do not belong together");
    fs::remove_file(&log).unwrap();
    place.fathom(&state).exits(2).says("operations.log");
}

/// What a guest mounts needs no root.
#[test]
fn an_ordinary_user_cuts_in_a_guest() {
    let place = Place::new();
    let has = |program: &str| std::process::Command::new(program).arg("--version").output().is_ok();
    if !can_serve(&place) || !can_guest("f2fs") || !has("setpriv") || !has("fusermount3") {
        return;
    }
    if fs::metadata("/dev/fuse").unwrap().permissions().mode() & 0o6 != 0o6 {
        println!("SKIP: /dev/fuse is root's alone; sudo chmod 666 /dev/fuse");
        return;
    }
    place.give_to_nobody(&fathom_stack::guest::Kernel::cached().unwrap().path);
    let words = "TMPDIR=. ./fathom cut --set filesystem=ext4,f2fs --set journal_mode=wal \
                 --set synchronous=full --commits 10 --states 40 --tear 4096 --time 0 --json";
    let end = place.as_nobody(words);
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(end.status.success(), "{}{}", said(&end.stderr), said(&end.stdout));
    let json: Value = serde_json::from_slice(&end.stdout).unwrap();
    for cell in json["cells"].as_array().unwrap() {
        assert_eq!((lost(cell), &cell["states"]), (0, &40.into()), "{cell}");
        assert_eq!(cell["filesystem"]["guest"], true);
    }
    assert_eq!(json["cells"].as_array().unwrap().len(), 2, "{json}");
}

/// XFS of before checksums, which this machine's kernel may not have any more.
#[test]
fn the_guest_has_the_fourth_version_of_xfs() {
    let place = Place::new();
    if !can_serve(&place) || !can_guest("xfs") {
        return;
    }
    let words = ["--set", "filesystem=xfs", "--set", "journal_mode=wal", "--set", "synchronous=full"];
    let more = ["--mkfs=-m", "--mkfs=crc=0", "--guest", "--commits", "10", "--states", "40"];
    let found = &cells(&place, &[&words[..], &more].concat(), 0)[0];
    assert_eq!((lost(found), &found["states"]), (0, &40.into()), "{found}");
    assert_eq!(found["filesystem"]["guest"], true);
}

#[test]
fn a_log_that_is_synced_keeps_everything_and_one_that_is_not_loses_a_tail() {
    let place = Place::new();
    if !can_serve(&place) {
        return;
    }
    let wal = ["--set", "journal_mode=wal", "--set", "synchronous=full,normal"];
    let found = cells(&place, &[&wal[..], &["--commits", "40", "--states", "250"]].concat(), 0);
    let [full, normal] = &found[..] else { panic!("{found:?}") };
    assert_eq!(lost(full), 0, "{full}");
    let classes = normal["classes"].as_object().unwrap();
    assert!(
        classes.keys().all(|key| ["kept", "lost-last", "lost-several"].contains(&key.as_str())),
        "{normal}"
    );
    assert!(lost(normal) > 0, "{normal}");
}

/// What happened: of `DELETE/OFF` "last 101 commits lost" was said, in all of its states, and never
/// damage, for nothing of a commit reached the device by itself. Beside another program that called
/// sync(2), a quarter of the states were damaged.
#[test]
fn what_the_kernel_writes_back_damages_what_is_not_synced_and_breaks_no_promise() {
    let place = Place::new();
    if !can_serve(&place) {
        return;
    }
    let words = |mode: &'static str, synchronous: &'static str| {
        ["--set", mode, "--set", synchronous, "--commits", "60", "--states", "300"]
    };
    let off = words("journal_mode=delete", "synchronous=off");
    let beside = ["--write-back", "--record", "cuts"];
    let alone = &cells(&place, &off, 0)[0];
    let found = &cells(&place, &[&off[..], &beside].concat(), 0)[0];
    assert_eq!(found["label"], "ext4 delete/off beside write-back");
    assert!(found["moments"].as_u64() > alone["moments"].as_u64(), "{found} {alone}");
    let of = |class: &str| found["classes"][class].as_u64().unwrap_or(0);
    assert!(of("corrupt") + of("cannot-be-opened") > 0, "{found}");
    // A recording says of what it is.
    let again = &cells(&place, &["--replay", "cuts", "--states", "300"], 0)[0];
    assert_eq!((&again["label"], &again["classes"]), (&found["label"], &found["classes"]));
    // What is promised holds whatever is written back.
    let full = words("journal_mode=delete,wal", "synchronous=full");
    let kept = cells(&place, &[&full[..], &["--write-back"]].concat(), 0);
    let [delete, wal] = &kept[..] else { panic!("{kept:?}") };
    assert_eq!(lost(delete), delete["classes"]["lost-last"].as_u64().unwrap_or(0), "{delete}");
    assert_eq!(lost(wal), 0, "{wal}");
}

#[test]
fn what_an_application_or_a_workload_did_is_cut_as_the_built_in_work_is() {
    let place = Place::new();
    for (words, says) in [
        (&["--workload", "mobibench-sq"][..], "did you mean"),
        (&["--workload", "mobibench-file"], "asks no engine"),
        (&["--trace", "no-such"], "no-such"),
        (&["--set", "workload.transactions=3"], "--workload"),
        (&["--workload", "update", "--trace", "gmail"], "--trace"),
        (&["--engine", "mmdb", "--trace", "gmail"], "work of its own"),
        (&["--engine", "mmdb", "--set", "journal_mode=wal"], "log_kind"),
        (&["--engine", "smsc", "--workload", "update"], "work of its own"),
        (&["--engine", "smsc", "--set", "store=oracle"], "it takes store="),
        (&["--engine", "postgresql", "--trace", "gmail"], "work of its own"),
        (&["--engine", "postgresql", "--set", "journal_mode=wal"], "journal_mode"),
        (&["--from", "30", "--states", "30"], "--from"),
    ] {
        place.fathom(&[&["cut"], words].concat()).exits(2).says(says);
    }
    if !can_serve(&place) {
        return;
    }
    let full = ["--set", "journal_mode=delete", "--set", "synchronous=full"];
    let few = ["--commits", "12", "--states", "120"];
    let workload = ["--workload", "mobibench-sql", "--set", "workload.transactions=20"];
    let found = &cells(&place, &[&workload[..], &full, &few, &["--record", "work"]].concat(), 0)[0];
    assert_eq!(found["acknowledged"], 13, "{found}");
    assert!(lost(found) > 0, "{found}");
    assert_eq!(lost(found), found["classes"]["lost-last"].as_u64().unwrap(), "never more: {found}");
    // One state of it again: what was done is kept with the log.
    let state = format!("1/{}", found["worst"][0]);
    let again = place.fathom(&["cut", "--replay", "work", "--state", &state, "--json"]);
    again.exits(0);
    let explanation: Value = serde_json::from_str(&again.stdout).unwrap();
    assert_eq!(explanation, found["explanation"]);
    let extra = ["--set", "journal_mode=wal", "--set", "synchronous=full"];
    let found =
        &cells(&place, &[&["--trace", "gmail", "--set", "workload.scale=10"][..], &extra, &few].concat(), 0)
            [0];
    assert_eq!((lost(found), &found["acknowledged"]), (0, &Value::from(13)), "{found}");
    assert!(found["states"].as_u64().unwrap() >= 60, "{found}");
    // Pieces of a recording are parts of the whole.
    let piece = |from: &str, states: &str| {
        let words = ["--replay", "work", "--from", from, "--states", states];
        let found = &cells(&place, &words, 0)[0];
        (found["states"].as_u64().unwrap(), lost(found))
    };
    let (first, second, whole) = (piece("0", "50"), piece("50", "110"), piece("0", "110"));
    assert_eq!((first.0 + second.0, first.1 + second.1), whole);
    assert!(whole.1 > 0);
}

#[test]
fn mmdb_keeps_every_commit_unless_its_device_lies() {
    let place = Place::new();
    if !can_serve(&place) {
        return;
    }
    let words = ["--engine", "mmdb", "--commits", "60", "--states", "250"];
    let found = &cells(&place, &words, 0)[0];
    assert_eq!((lost(found), &found["states"]), (0, &Value::from(250)), "{found}");
    let found = &cells(&place, &[&words[..], &["--keeps", "lying"]].concat(), 0)[0];
    assert!(lost(found) > 0, "{found}");
}

/// Each store is judged by the rows of another one, and by the centre's invariants.
#[test]
fn the_centre_keeps_every_operation_unless_its_device_lies() {
    let place = Place::new();
    if !can_serve(&place) {
        return;
    }
    let words = ["--engine", "smsc", "--set", "store=mmdb,sqlite,sqlite-naive", "--commits", "40"];
    let words = [&words[..], &["--states", "80"]].concat();
    for found in cells(&place, &words, 0) {
        assert_eq!((lost(&found), &found["states"]), (0, &Value::from(80)), "{found}");
    }
    for found in cells(&place, &[&words[..], &["--keeps", "lying"]].concat(), 0) {
        assert!(lost(&found) > 0, "{found}");
    }
}

/// Whether PostgreSQL is here, whose server is recovered from every state.
fn has_postgresql() -> bool {
    let here = fathom_workload::engine::postgresql_programs(None);
    if here.is_err() {
        println!("SKIP: needs PostgreSQL (apt-get install postgresql)");
    }
    here.is_ok()
}

#[test]
fn postgresql_keeps_every_commit_unless_it_or_its_device_does_not_sync() {
    let place = Place::new();
    if !can_serve(&place) || !has_postgresql() {
        return;
    }
    let words = ["--engine", "postgresql", "--commits", "25", "--states", "12"];
    let found = &cells(&place, &words, 0)[0];
    assert_eq!((lost(found), &found["states"], &found["acknowledged"]), (0, &12.into(), &26.into()));
    let found = &cells(&place, &[&words[..], &["--keeps", "lying"]].concat(), 0)[0];
    assert!(lost(found) > 0, "{found}");
    // What is not synced is lost, and never more than it says.
    let asynchronous = [&words[..], &["--set", "synchronous_commit=off"]].concat();
    let found = &cells(&place, &asynchronous, 0)[0];
    assert_eq!((&found["promise"], &found["breaks_promise"]), (&"power-cut-prefix".into(), &false.into()));
}

/// PostgreSQL's stores of the centre: recovered by their own server, checked as the others are.
#[test]
fn the_centre_keeps_every_operation_on_postgresql() {
    let place = Place::new();
    if !can_serve(&place) || !has_postgresql() {
        return;
    }
    let words = ["--engine", "smsc", "--set", "store=postgresql", "--commits", "20", "--states", "12"];
    let found = &cells(&place, &words, 0)[0];
    assert_eq!((lost(found), &found["states"], &found["acknowledged"]), (0, &12.into(), &21.into()));
}

/// Whether a guest kernel mounts a file system that this machine's kernel may lack.
fn can_guest(filesystem: &str) -> bool {
    if fathom_stack::guest::Kernel::cached().is_none() {
        println!("SKIP: there is no guest kernel (fathom stack kernel builds it)");
        return false;
    }
    let tool = format!("mkfs.{filesystem}");
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let is_here = std::env::split_paths(&paths).any(|directory| directory.join(&tool).is_file());
    if !is_here {
        println!("SKIP: needs {tool}");
    }
    is_here
}

/// The guest's own drivers judge; one boot for each thread, whatever the number of states.
#[test]
fn file_systems_of_the_guest_are_cut_as_those_of_this_kernel_are() {
    let place = Place::new();
    if !can_serve(&place) {
        return;
    }
    for filesystem in ["f2fs", "vfat"].into_iter().filter(|name| can_guest(name)) {
        let set = format!("filesystem={filesystem}");
        let words = ["--set", &set, "--set", "journal_mode=wal", "--set", "synchronous=full"];
        let few = ["--commits", "20", "--states", "120", "--tear", "4096"];
        // FAT keeps no order between a file's clusters and its entry: some states cannot be opened.
        let end = place.fathom(
            &[&["cut", "--json", "--time", "0"][..], &words, &few, &["--record", filesystem]].concat(),
        );
        let json: Value = serde_json::from_str(&end.stdout).unwrap();
        let found = &json["cells"][0];
        assert_eq!((&found["states"], &found["filesystem"]["guest"]), (&120.into(), &true.into()), "{found}");
        if filesystem == "f2fs" {
            end.exits(0);
            assert_eq!(lost(found), 0, "{found}");
        }
        let lying = &cells(&place, &[&words[..], &few, &["--keeps", "lying"]].concat(), 0)[0];
        assert!(lost(lying) > 0, "{lying}");
        // The same again from the recording, one state alone.
        let again = place.fathom(&["cut", "--replay", filesystem, "--state", "1/5"]);
        again.exits(0);
        assert!(again.stdout.contains("1/5: kept"), "{again}");
    }
}

#[test]
fn an_experiment_says_what_was_measured_where_else_it_says_what_is_documented() {
    let place = Place::new();
    if !can_serve(&place) {
        return;
    }
    let words = ["run", "first-look", "--quick", "--repeat", "1", "--out", "look.db"];
    let sets = [
        "instruments.power_cut=true",
        "instruments.power_cut_states=80",
        "instruments.power_cut_seconds=600",
        "variants=delete/full,wal/full",
    ];
    let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", set]).collect();
    let end = place.fathom(&[&words[..], &sets].concat());
    end.exits(0);
    let said = end.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("last commit lost (80)") && said.contains("kept (80)"), "{end}");
    assert!(said.contains("At a power cut, measured"), "{end}");
    let json: Value = serde_json::from_str(&place.fathom(&["report", "look.db", "--json"]).stdout).unwrap();
    for (cell, worst) in json["cells"].as_array().unwrap().iter().zip([1, 0]) {
        let found = &cell["power_cut"]["outcome"];
        let lost = found["classes"].as_object().unwrap().contains_key("lost-last");
        assert_eq!((lost, &found["states"]), (worst == 1, &Value::from(80)), "{cell}");
    }
    // An engine that is not tried says so, and the documentation's promise stays.
    let words =
        ["run", "first-look", "--quick", "--repeat", "1", "--out", "other.db", "--set", "filesystem=ext4"];
    let sets =
        ["instruments.power_cut=true", "variants=wal/full", "stack.size_mib=64", "workload.databases=2"];
    let sets: Vec<&str> = sets.iter().flat_map(|set| ["--set", set]).collect();
    let end = place.fathom(&[&words[..], &sets].concat());
    end.exits(0);
    let said = end.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("documented, not measured, here"), "{end}");
}

/// Loop devices that lie on a process' images of power cuts.
fn attached(process: i32) -> Vec<String> {
    let own = format!("memfd:fathom-cut-{process} ");
    let devices = fs::read_dir("/sys/block").unwrap().flatten();
    let backing =
        devices.filter_map(|device| fs::read_to_string(device.path().join("loop/backing_file")).ok());
    backing.filter(|backing| backing.contains(&own)).collect()
}

/// Directories for the time of the work, with the log of a device in them: once, each that was
/// killed left one.
fn scratch(process: i32) -> Vec<String> {
    let own = format!("-{process}-");
    let names = fs::read_dir(std::env::temp_dir()).unwrap().flatten();
    let names = names.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| name.starts_with("fathom-cut-") && name.contains(&own)).collect()
}

/// Starts a cut, sends it a signal once it holds something that `held` finds, and waits until that
/// is gone.
fn goes_with_its_process(place: &Place, words: &[&str], signal: i32, held: fn(i32) -> Vec<String>) {
    let running = place.start(words);
    let process = running.process();
    let begin = std::time::Instant::now();
    while held(process).is_empty() {
        assert!(begin.elapsed() < Duration::from_secs(180), "no state was judged");
        std::thread::sleep(Duration::from_millis(20));
    }
    running.signal(signal);
    running.end().ends_by(signal);
    let begin = std::time::Instant::now();
    while !held(process).is_empty() {
        assert!(begin.elapsed() < Duration::from_secs(60), "{:?} stay", held(process));
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn nothing_stays_when_it_is_stopped_or_killed() {
    let place = Place::new();
    if !can_serve(&place) {
        return;
    }
    let before = place.files();
    let words = ["cut", "--set", "journal_mode=delete", "--set", "synchronous=full", "--commits", "60"];
    let words = [&words[..], &["--states", "1000000", "--time", "0"]].concat();
    for end in [libc::SIGINT, libc::SIGTERM, libc::SIGKILL] {
        goes_with_its_process(&place, &words, end, attached);
        goes_with_its_process(&place, &words, end, scratch);
    }
    assert_eq!(place.files(), before);
    let listed = place.fathom(&["stack", "list"]);
    assert!(!["fathom cut", "cut-"].iter().any(|own| listed.stdout.contains(own)), "{listed}");
}

/// Processes of this name that a process has started, and that see other mounts than this one.
fn apart(parent: i32, name: &str) -> Vec<PathBuf> {
    let here = fs::read_link("/proc/self/ns/mnt").unwrap();
    let processes = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let is_one = |process: &PathBuf| {
        let status = fs::read_to_string(process.join("status")).unwrap_or_default();
        let says = |line: String| status.lines().any(|found| found == line);
        let namespace = fs::read_link(process.join("ns/mnt"));
        says(format!("Name:\t{name}"))
            && says(format!("PPid:\t{parent}"))
            && namespace.is_ok_and(|there| there != here)
    };
    processes.filter(is_one).collect()
}

/// A server that recovers a state lives in a namespace of its own, and so does the mount.
#[test]
fn no_server_and_no_mount_of_its_own_stay_when_it_is_stopped_or_killed() {
    let place = Place::new();
    if !can_serve(&place) || !has_postgresql() {
        return;
    }
    let words = ["cut", "--engine", "postgresql", "--commits", "10", "--states", "1000000", "--time", "0"];
    for signal in [libc::SIGINT, libc::SIGKILL] {
        let running = place.start(&words);
        let process = running.process();
        let begin = std::time::Instant::now();
        let servers = loop {
            let found = apart(process, "postgres");
            if !found.is_empty() {
                break found;
            }
            assert!(begin.elapsed() < Duration::from_secs(180), "no state was judged");
            std::thread::sleep(Duration::from_millis(5));
        };
        running.signal(signal);
        running.end().ends_by(signal);
        let begin = std::time::Instant::now();
        while servers.iter().any(|server| server.exists()) || !attached(process).is_empty() {
            assert!(
                begin.elapsed() < Duration::from_secs(60),
                "{servers:?} stay, or {:?}",
                attached(process)
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Guests whose disk is a process' image of a power cut.
fn guests(process: i32) -> Vec<String> {
    let own = format!("/proc/{process}/fd/");
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    let lines = lines.map(|line| String::from_utf8_lossy(&line).into_owned());
    lines.filter(|line| line.contains("ubd0dct=") && line.contains(&own)).collect()
}

#[test]
fn no_guest_stays_when_it_is_stopped_or_killed() {
    let place = Place::new();
    if !can_serve(&place) || !can_guest("f2fs") {
        return;
    }
    let words = ["cut", "--set", "filesystem=f2fs", "--commits", "10", "--states", "1000000", "--time", "0"];
    for end in [libc::SIGINT, libc::SIGKILL] {
        goes_with_its_process(&place, &words, end, guests);
    }
}

/// The table of the README is what the measured data print.
#[test]
fn the_table_of_the_readme_is_that_of_its_data() {
    let place = Place::new();
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..");
    let names = ["ext4", "xfs", "btrfs", "f2fs", "vfat", "exfat", "ntfs3"];
    let files = names.map(|name| root.join(format!("docs/results/power-cut/{name}.json")));
    let files: Vec<&str> = files.iter().map(|file| file.to_str().unwrap()).collect();
    let end = place.fathom(&[&["cut", "--table"], &files[..]].concat());
    end.exits(0);
    for page in ["README.md", "README.ko.md", "docs/power-cut.md"] {
        let text = fs::read_to_string(root.join(page)).unwrap();
        assert!(text.contains(&end.stdout), "{page} has another table than:\n{}", end.stdout);
    }
    let others = ["ext2", "ext3", "nilfs2", "jfs", "udf", "minix"];
    let with_msdos = [&others[..], &["msdos"]].concat();
    let text = fs::read_to_string(root.join("docs/power-cut.md")).unwrap();
    for (directory, names) in
        [("others", &with_msdos[..]), ("checkpoints", &names[..]), ("checkpoints", &others[..])]
    {
        let file = |name: &&str| root.join(format!("docs/results/power-cut/{directory}/{name}.json"));
        let files: Vec<PathBuf> = names.iter().map(file).collect();
        let files: Vec<&str> = files.iter().map(|file| file.to_str().unwrap()).collect();
        let end = place.fathom(&[&["cut", "--table"], &files[..]].concat());
        end.exits(0);
        assert!(text.contains(&end.stdout), "the page has another table than:\n{}", end.stdout);
    }
}

/// SQLite's source as the build has it; none without a compiler or the registry.
fn sqlite_source() -> Option<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")))?;
    let registries = fs::read_dir(home.join("registry/src")).ok()?.flatten();
    let crates = registries.filter_map(|registry| fs::read_dir(registry.path()).ok()).flatten().flatten();
    let sources = crates.filter(|entry| entry.file_name().to_string_lossy().starts_with("libsqlite3-sys-"));
    sources.map(|source| source.path().join("sqlite3/sqlite3.c")).find(|join| join.is_file())
}

/// SQLite's syncs of which each is left out once: the name of the library without it, and the
/// statement. Those of the write-ahead log, of a commit's and of a checkpoint's, that of the
/// database when the log has been copied to it, and that of the rollback journal.
const SYNCS: [(&str, &str); 4] = [
    ("commit", "rc = sqlite3OsSync(w.pFd, WAL_SYNC_FLAGS(sync_flags))"),
    ("checkpoint", "rc = sqlite3OsSync(pWal->pDbFd, CKPT_SYNC_FLAGS(sync_flags))"),
    ("log", "rc = sqlite3OsSync(pWal->pWalFd, CKPT_SYNC_FLAGS(sync_flags))"),
    ("journal", "rc = sqlite3OsSync(pPager->jfd, pPager->syncFlags"),
];

/// SQLite that leaves out the sync after which its library's file is called, so that it is built
/// once (eight seconds); false without a compiler.
fn build_broken_sqlites(place: &Place, text: &str) -> bool {
    let mut source = String::from(
        "#define _GNU_SOURCE 1\n#include <dlfcn.h>\n#include <string.h>\nstatic int is_without(const char *sync) {\n  Dl_info self;\n  return dladdr((void *)is_without, &self) && strstr(self.dli_fname, sync);\n}\n",
    ) + text;
    for (name, synced) in SYNCS {
        assert!(text.contains(synced), "SQLite's source is another one: {synced}");
        let without = synced.replace("rc = ", &format!("rc = is_without(\"/{name}.so\") ? 0 : "));
        source = source.replace(synced, &without);
    }
    place.write("broken.c", &source);
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-O0", "-w", "-DSQLITE_OMIT_LOAD_EXTENSION", "-o"])
        .args([place.path("broken.so"), place.path("broken.c")])
        .arg("-ldl")
        .status();
    if !built.is_ok_and(|built| built.success()) {
        println!("SKIP: no C compiler (cc) that builds SQLite");
        return false;
    }
    for (name, _) in SYNCS {
        fs::copy(place.path("broken.so"), place.path(&format!("{name}.so"))).unwrap();
    }
    true
}

#[test]
fn a_sqlite_that_does_not_sync_its_log_its_checkpoints_or_its_journal_is_found() {
    let place = Place::new();
    if !can_serve(&place) {
        return;
    }
    let Some(source) = sqlite_source() else {
        println!("SKIP: SQLite's source is in no registry of Cargo's here (cargo fetch)");
        return;
    };
    if !build_broken_sqlites(&place, &fs::read_to_string(source).unwrap()) {
        return;
    }
    let cell = |name: &str, words: &[&str], breaks: i32| {
        let library = format!("library={}", place.path(&format!("{name}.so")).display());
        let mut found = cells(&place, &[words, &["--set", &library]].concat(), breaks);
        found.remove(0)
    };
    for (name, synchronous) in [("commit", "full"), ("checkpoint", "full"), ("log", "normal")] {
        let settings = format!("synchronous={synchronous}");
        let words = ["--set", "journal_mode=wal", "--set", &settings, "--set", "wal_autocheckpoint=20"];
        let found = cell(name, &[&words[..], &["--commits", "40", "--states", "800"]].concat(), 1);
        assert_eq!(found["breaks_promise"], true, "{name}: {found:?}");
    }
    let words = ["--set", "journal_mode=delete", "--set", "synchronous=extra"];
    let words = [&words[..], &["--commits", "25", "--states", "600"]].concat();
    let found = cell("journal", &words, 1);
    assert_eq!(found["breaks_promise"], true, "{found:?}");
    assert!(found["classes"]["corrupt"].as_u64().is_some_and(|number| number > 0), "{found:?}");
    // What is found is the sync that is missing, and not the library.
    let whole = cell("broken", &words, 0);
    assert_eq!(whole["breaks_promise"], false, "{whole:?}");
}

#[test]
fn settings_that_promise_everything_keep_it_in_all_states_of_a_thousand_commits() {
    let place = Place::new();
    if std::env::var_os("FATHOM_LONG").is_none() {
        println!("SKIP: takes a quarter of an hour; FATHOM_LONG=1 runs it");
        return;
    }
    if !can_serve(&place) {
        return;
    }
    for settings in [["delete", "extra"], ["wal", "full"]] {
        let [mode, synchronous] = settings.map(str::to_owned);
        let words =
            ["--set", &format!("journal_mode={mode}"), "--set", &format!("synchronous={synchronous}")];
        let found = cells(&place, &[&words[..], &["--commits", "1000", "--states", "100000000"]].concat(), 0);
        let (states, possible) = (&found[0]["states"], &found[0]["states_possible"]);
        println!("ext4 {mode}/{synchronous}: {states} states, {} a second", found[0]["states_per_s"]);
        assert_eq!((lost(&found[0]), states), (0, possible));
        assert!(states.as_u64().unwrap() >= 60_000, "{states}");
    }
}
