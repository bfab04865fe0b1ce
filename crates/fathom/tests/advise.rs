//! `fathom advise` through the binary: what is refused, what is promised and printed, and what
//! stays of it. What is recorded needs root, mkfs.ext4 and /dev/fuse. `advise_grid.rs` compares the
//! advice with a full grid that is measured live.

#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

mod place;

use place::{Place, can_serve};
use serde_json::Value;

/// A trace that is short: some seconds of recordings.
fn small(place: &Place, profile: &str, file: &str) {
    place.fathom(&["trace", "synthesise", profile, "--scale", "3", "--out", file]).exits(0);
}

/// A trace of SQL statements.
fn imported(place: &Place, name: &str, sql: &str) {
    place.write(&format!("{name}.sql"), sql);
    let file = format!("{name}.trace");
    place.fathom(&["trace", "import", &format!("{name}.sql"), "--out", &file]).exits(0);
}

fn json(end: &place::End) -> Value {
    serde_json::from_str(&end.exits(0).stdout).unwrap_or_else(|error| panic!("{error}: {end}"))
}

const INSERTS: &str =
    "INSERT INTO t VALUES (1, 'a');\nINSERT INTO t VALUES (2, 'b');\nUPDATE t SET b = 'c' WHERE a = 1;\n";

#[test]
fn what_cannot_be_advised_is_said_and_nothing_is_made() {
    let place = Place::new();
    small(&place, "gmail", "app.trace");
    place.write("text.db", "this is no database, and no trace either");
    imported(&place, "reads", "SELECT 1;\nSELECT 2;\n");
    std::fs::create_dir(place.path("scripts of it")).unwrap();
    let quick = ["run", "first-look", "--quick", "--repeat", "1", "--set", "variants=wal/full"];
    let small_run = ["--set", "workload.transactions=5", "--out", "plain.db", "--dir", "."];
    place.fathom(&[&quick[..], &small_run].concat()).exits(0);
    let before = place.files();
    for (words, says) in [
        (&["advise"][..], "TRACE|PROFILE|RESULTS.db"),
        (&["advise", "gmial"], "gmail"),
        (&["advise", "no-such.trace"], "no-such.trace"),
        (&["advise", "text.db"], "text.db"),
        (&["advise", "reads.trace"], "no transaction that writes"),
        (&["advise", "app.trace", "--must", "keep=everything"], "keep=all-but-last"),
        (&["advise", "app.trace", "--must", ""], "keep=all"),
        (&["advise", "app.trace", "--device", "sd-slwo"], "did you mean"),
        (&["advise", "app.trace", "--device", "sd-slow,sd-slow"], "sd-slow is given twice"),
        (&["advise", "app.trace", "--device", "./no.toml"], "no.toml"),
        (
            &["advise", "app.trace", "--device", "sd-slow,,emmc-51"],
            "a name is missing before or after a comma",
        ),
        (&["advise", "app.trace", "--device", ""], "a name is missing"),
        (&["advise", "app.trace", "--fs", "ext4,"], "a name is missing"),
        (&["advise", "app.trace", "--now", "journal_mode"], "SETTING=VALUE"),
        (&["advise", "app.trace", "--now", "journal_mode=wla"], "delete, truncate"),
        (&["advise", "scripts of it"], "trace import 'scripts of it' --out app.trace"),
        (&["advise", "/dev/null"], "it is no file"),
        (&["advise", "app.trace", "--fs", "ext5"], "did you mean `ext4`"),
        (&["advise", "app.trace", "--fs", "ext4,ext4"], "ext4 is given twice"),
        (&["advise", "app.trace", "--fs", "dir"], "no file system"),
        (&["advise", "app.trace", "--dir", "no-such"], "no-such"),
        (&["advise", "app.trace", "--html", "app.trace"], "app.trace"),
        (&["advise", "app.trace", "--html", "plain.db"], "plain.db"),
        (&["advise", "app.trace", "--out", "plain.db"], "name another file"),
        (&["advise", "app.trace", "--json", "--html", "-"], "both would go to standard output"),
        (&["advise", "app.trace", "--live"], "name the devices with --device"),
        (&["advise", "plain.db", "--device", "sd-slow", "--live"], "--live is for traces"),
        (&["advise", "plain.db", "--cut"], "--cut is for traces"),
        (&["advise", "app.trace", "--cut", "--on", "ssh:board"], "cannot be used with"),
        (&["advise", "plain.db", "--fs", "ext4"], "--fs is for traces"),
        (&["advise", "plain.db"], "phases"),
    ] {
        place.fathom(words).exits(2).says(says);
    }
    assert_eq!(place.files(), before);
}

/// What happened: an application that writes to temporary tables alone was advised on a journal
/// mode and on pages, after a minute, and "0 of its transactions write" stood beside that.
#[test]
fn what_writes_to_no_file_is_not_advised() {
    let place = Place::new();
    if !can_serve(&place) {
        return;
    }
    let sql = format!("CREATE TEMP TABLE t(a);\n{}", "INSERT INTO t VALUES (1);\n".repeat(30));
    imported(&place, "temporary", &sql);
    let end = place.fathom(&["advise", "temporary.trace", "--device", "sd-slow", "--repeat", "1"]);
    end.exits(2).says("no transaction that writes to a file");
}

#[test]
fn the_answer_for_a_trace_can_be_pasted_and_a_kept_recording_gives_it_again() {
    let place = Place::new();
    if !can_serve(&place) {
        return;
    }
    small(&place, "gmail", "mail.trace");
    let words = ["advise", "mail.trace", "--device", "sd-slow,emmc-51", "--out", "kept.db", "--repeat", "2"];
    let end = place.fathom(&[&words[..], &["--html", "."]].concat());
    end.exits(0);
    for says in [
        "mail: which settings",
        "PRAGMA journal_mode = WAL;",
        "every commit",
        "2 threads",
        "flushes a transaction",
        "locking_mode exclusive breaks the application",
    ] {
        assert!(end.stdout.contains(says), "{says}: {end}");
    }
    let page = String::from_utf8(place.read("mail-advice.html")).unwrap();
    assert!(page.contains("<h1>mail: which settings</h1>") && page.contains("sd-slow"), "{page}");
    // For less than it was recorded for others may be faster: these are recorded now.
    let more = place.fathom(&["advise", "kept.db", "--device", "sd-slow", "--must", "prefix", "--json"]);
    assert!(more.stderr.contains("what is missing is recorded now"), "{more}");
    let more = json(&more);
    assert!(more["advice"]["partial"].is_null(), "{more}");
    assert_eq!(more["advised"][0]["keeps"], "power-cut-prefix", "{more}");
    // The same question is answered from what there is.
    let same = place.fathom(&["advise", "kept.db", "--device", "sd-slow", "--json"]);
    assert!(!same.stderr.contains("recorded now") && json(&same)["advice"]["partial"].is_null(), "{same}");
    // Without the trace it says what it has not compared, and the fastest of few is not the best.
    std::fs::remove_file(place.path("mail.trace")).unwrap();
    let few = place.fathom(&["advise", "kept.db", "--device", "nvme", "--must", "prefix"]);
    few.exits(0);
    let words = few.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    for says in ["Compared are only the", "Not compared", "its trace is not at", "of what was recorded, use"]
    {
        assert!(words.contains(says), "{says}: {few}");
    }
    assert!(!words.contains("of the best with"), "{few}");
    // The same from the recording, on other devices too, as often as it is asked.
    let again = ["advise", "kept.db", "--device", "sd-slow,nvme", "--json"];
    let first = place.fathom(&again);
    let advised = json(&first)["advised"].as_array().unwrap().clone();
    assert_eq!(place.fathom(&again).stdout, first.stdout, "the same recording gives the same advice");
    assert_eq!(advised.len(), 2);
    assert_eq!(advised[0]["advised"].as_str().unwrap().split('/').next(), Some("wal"), "{}", advised[0]);
    assert!(
        advised[0]["pragmas"].as_array().unwrap().iter().any(|pragma| pragma == "PRAGMA journal_mode = WAL;")
    );
    // A promise that must not be broken, whatever is faster.
    for (must, allowed) in [
        ("keep=all", &["power-cut"][..]),
        ("keep=all-but-last", &["power-cut", "power-cut-all-but-last"]),
        ("keep=prefix", &["power-cut", "power-cut-all-but-last", "power-cut-prefix"]),
    ] {
        let all = json(&place.fathom(&["advise", "kept.db", "--must", must, "--json"]));
        let advised = all["advised"].as_array().unwrap();
        // Nobody named a device: all presets.
        assert!(advised.len() > 10, "{advised:?}");
        for device in advised {
            let keeps = device["keeps"].as_str().unwrap();
            assert!(allowed.contains(&keeps), "{must}: {device}");
        }
    }
}

/// "Confirms the best three live" and "what a power cut takes" were simulated and promised.
#[test]
fn the_best_are_run_live_and_their_power_cuts_explored_where_that_is_asked() {
    let place = Place::new();
    if !can_serve(&place) {
        return;
    }
    let rows: String = (0..30).map(|id| format!("INSERT INTO t VALUES ({id}, 'x');\n")).collect();
    imported(&place, "app", &format!("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT);\n{rows}"));
    let words = ["advise", "app.trace", "--device", "emmc-51", "--repeat", "2", "--live", "--cut", "--json"];
    let end = place.fathom(&words);
    // How long it takes is said first.
    assert!(
        end.stderr.contains("runs one after the other: about ") && end.stderr.contains("live on emmc-51"),
        "{end}"
    );
    assert!(end.stderr.contains("at most 30 s each"), "{end}");
    let found = json(&end);
    let live = &found["advice"]["live"][0];
    assert_eq!((&live["device"], &live["runs"]), (&"emmc-51".into(), &2.into()), "{live}");
    let trials = live["trials"].as_array().unwrap();
    // What they have now first, then the best three.
    assert_eq!(trials.len(), 4, "{live}");
    assert_eq!(trials[0]["candidate"]["journal_mode"], "delete", "{live}");
    assert!(trials[0]["live"].is_null() && trials[0]["live_ns"]["mid"].as_f64().unwrap() > 0.0, "{live}");
    for trial in &trials[1..] {
        let gain = |of: &str| trial[of]["ratio"].as_f64().unwrap_or_else(|| panic!("{of}: {trial}"));
        assert!(gain("live") > 1.0 && gain("simulated") > 1.0 && gain("live_wall") > 0.0, "{trial}");
        assert_eq!(trial["live"]["n"], 2, "{trial}");
    }
    let cuts = found["advice"]["cuts"].as_array().unwrap();
    assert_eq!(cuts.len(), 2, "what they have now, and what is advised: {cuts:?}");
    assert_eq!(cuts[0]["candidate"]["journal_mode"], "delete", "{cuts:?}");
    for cut in cuts {
        assert!(cut["finding"]["outcome"]["states"].as_u64().unwrap() > 0, "{cut}");
        assert_eq!(cut["finding"]["outcome"]["breaks_promise"], false, "{cut}");
    }
}

/// What happened: with `--cut` the exit code was 0 where a setting's power cuts could not be tried.
#[test]
fn power_cuts_that_were_asked_for_and_not_tried_are_no_success() {
    let place = Place::new();
    if !can_serve(&place) {
        return;
    }
    let rows: String = (0..10).map(|id| format!("INSERT INTO t VALUES ({id}, random());\n")).collect();
    imported(&place, "app", &format!("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT);\n{rows}"));
    let words = ["advise", "app.trace", "--device", "emmc-51", "--repeat", "1"];
    place.fathom(&words).exits(0);
    let end = place.fathom(&[&words[..], &["--cut"]].concat());
    end.exits(1).says("error: the power cuts of DELETE/FULL and ").says("could not be tried");
    assert!(end.stdout.contains("PRAGMA journal_mode = WAL"), "the advice is there: {end}");
}

/// A statement's text is in no anatomy without its values taken out: they are the users'.
#[test]
fn an_anatomy_has_its_statements_and_no_value_of_them() {
    let place = Place::new();
    if !can_serve(&place) {
        return;
    }
    let rows: String = (0..8).map(|id| format!("INSERT INTO people VALUES ({id}, 'Jane Doe');\n")).collect();
    imported(&place, "app", &format!("CREATE TABLE people (a INTEGER PRIMARY KEY, b TEXT);\n{rows}"));
    let of = ["run", "first-look", "--trace", "app.trace", "--repeat", "1", "--set", "variants=wal/full"];
    let on = ["--set", "filesystem=ext4", "--set", "device=recorder", "--set", "stack.size_mib=64"];
    let more = ["--set", "instruments.operations=true", "--dir", ".", "--out", "r.db"];
    place.fathom(&[&of[..], &on, &more].concat()).exits(0);
    let end = place.fathom(&["anatomy", "r.db", "--svg", "c.svg", "--perfetto", "c.json"]);
    end.exits(0);
    for words in ["INSERT INTO people VALUES (?, ?)", "sync WAL"] {
        assert!(end.stdout.contains(words), "{words}: {end}");
    }
    let events = String::from_utf8(place.read("c.json")).unwrap();
    assert!(events.contains("\"sql\":\"INSERT INTO people VALUES (?, ?)\""), "{events}");
    for (name, file) in
        [("r.db", place.read("r.db")), ("c.svg", place.read("c.svg")), ("c.json", events.into_bytes())]
    {
        let has = file.windows(4).any(|window| window == b"Jane");
        assert!(!has, "{name} holds a value");
    }
}

#[test]
fn what_an_application_sets_itself_is_what_its_gain_is_told_of() {
    let place = Place::new();
    if !can_serve(&place) {
        return;
    }
    let own = "PRAGMA journal_mode=WAL;\nPRAGMA synchronous=NORMAL;\nCREATE TABLE t(a, b);\n";
    imported(&place, "own", &format!("{own}{}", INSERTS.repeat(20)));
    let words = ["advise", "own.trace", "--device", "sd-slow", "--repeat", "1", "--json"];
    let all = json(&place.fathom(&words));
    let (baseline, must) = (&all["advice"]["baseline"], &all["advice"]["must"]);
    assert_eq!(
        (&baseline["journal_mode"], &baseline["synchronous"]),
        (&"wal".into(), &"normal".into()),
        "{all}"
    );
    // What it has promises no more than that, and so no more is asked.
    assert_eq!(must, "power-cut-prefix");
    assert!(all["advice"]["baseline_source"].as_str().unwrap().contains("journal_mode"));
    assert!(
        all["advice"]["hints"][0].as_str().unwrap().contains("single statements"),
        "{}",
        all["advice"]["hints"]
    );
    // Who says less in the trace says it beside it.
    imported(&place, "silent", &format!("CREATE TABLE t(a, b);\n{}", INSERTS.repeat(20)));
    let silent = ["advise", "silent.trace", "--device", "sd-slow", "--repeat", "1", "--json"];
    let end = place.fathom(&[&silent[..], &["--now", "journal_mode=WAL"]].concat());
    assert!(end.stderr.contains("which synchronous the application has"), "{end}");
    let all = json(&end);
    assert_eq!(all["advice"]["baseline"]["journal_mode"], "wal");
    assert!(all["advice"]["baseline_source"].as_str().unwrap().contains("--now"), "{all}");
    // Nobody else opens it: it may keep the file to itself, which is tried.
    let stronger = json(&place.fathom(&[&words[..], &["--must", "keep=all"]].concat()));
    assert_eq!(stronger["advised"][0]["keeps"], "power-cut", "{stronger}");
}

#[test]
fn several_databases_and_threads_are_said() {
    let place = Place::new();
    if !can_serve(&place) {
        return;
    }
    small(&place, "facebook", "news.trace");
    let end = place.fathom(&["advise", "news.trace", "--device", "ufs-fresh", "--repeat", "1"]);
    end.exits(0);
    assert!(end.stdout.contains("several databases") && end.stdout.contains("threads: they meet"), "{end}");
}

/// Without root no device can be modelled: the answer is for the disk, and says what is missing.
#[test]
fn without_root_this_disk_is_answered_and_the_rest_is_said() {
    let place = Place::new();
    // SAFETY: geteuid has no preconditions and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        println!("SKIP: becomes another user, which needs root");
        return;
    }
    imported(&place, "app", &format!("CREATE TABLE t(a, b);\n{}", INSERTS.repeat(5)));
    place.copy_program("fathom");
    let given =
        std::process::Command::new("chown").args(["-R", "65534", "."]).current_dir(place.path("")).status();
    assert!(given.unwrap().success());
    let output = place.as_nobody("TMPDIR=. ./fathom advise app.trace --repeat 1 --json");
    let (text, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{text}{said}");
    let all: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(all["advised"].as_array().unwrap().len(), 1, "{all}");
    assert!(
        all["advised"][0]["device"].is_null() && all["advised"][0]["keeps"] != "power-cut-prefix",
        "{all}"
    );
    let missing = all["advice"]["missing"].to_string();
    assert!(missing.contains("root") && missing.contains("devices"), "{missing}");
    // Who names a device gets no answer for it, and the end says so.
    let named = place.as_nobody("TMPDIR=. ./fathom advise app.trace --repeat 1 --device sd-slow");
    let text = String::from_utf8_lossy(&named.stdout);
    assert_eq!(named.status.code(), Some(1), "{text}");
    assert!(text.contains("Not answered") && text.contains("sd-slow") && text.contains("PRAGMA"), "{text}");
}

#[test]
fn a_signal_leaves_nothing_and_what_a_kill_leaves_is_found() {
    let place = Place::new();
    if !can_serve(&place) {
        return;
    }
    small(&place, "gmail", "mail.trace");
    let temporary = place.path("temporary");
    std::fs::create_dir(&temporary).unwrap();
    let variable = [("TMPDIR", temporary.to_str().unwrap())];
    let left = || std::fs::read_dir(&temporary).unwrap().count();
    let before = place.files();
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let running = place.start_with(&["advise", "mail.trace", "--device", "sd-slow"], &variable);
        running.wait_until(|| left() > 0 && running.listens());
        running.signal(signal);
        let end = running.end();
        // By the signal, as other commands that have no result: 130 and 143 in a shell.
        assert!(end.code.is_none() && end.stderr.contains("there is no advice"), "{end}");
        assert_eq!(left(), 0, "{end}");
        assert_eq!(place.files(), before);
    }
    let killed = place.start_with(&["advise", "mail.trace", "--device", "sd-slow"], &variable);
    // With a lock in it, by which it is known.
    let locked = || {
        let all = std::fs::read_dir(&temporary).unwrap().flatten();
        all.filter(|entry| entry.path().join("lock").exists()).count()
    };
    killed.wait_until(|| locked() > 0);
    let alive = place.start_with(&["advise", "mail.trace", "--device", "sd-slow"], &variable);
    alive.wait_until(|| locked() > 1 && alive.listens());
    // It lives until it has been looked at, however long that takes.
    alive.signal(libc::SIGSTOP);
    killed.kill();
    killed.end();
    assert_eq!(left(), 2);
    let end = place.fathom_with(&["stack", "down", "--leftovers"], &variable);
    assert!(end.stdout.contains("a recording"), "{end}");
    assert_eq!(left(), 1, "that of a process which lives stays");
    alive.interrupt();
    alive.signal(libc::SIGCONT);
    alive.end();
    assert_eq!(left(), 0);
}
