//! The command as a user calls it.
#![allow(clippy::unwrap_used)]

use smsc::centre::Rules;
use smsc::model::UnloggedTables;
use smsc::store::{MmdbOptions, StoreKind};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn smsc(dir: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_smsc")).args(arguments).current_dir(dir).output().unwrap()
}

/// As [`smsc`], but ended after `seconds`.
fn smsc_within(seconds: u64, dir: &Path, arguments: &[&str]) -> Output {
    let command = format!("timeout {seconds} {} \"$@\"", env!("CARGO_BIN_EXE_smsc"));
    Command::new("sh").args(["-c", &command, "smsc"]).args(arguments).current_dir(dir).output().unwrap()
}

fn text(octets: &[u8]) -> String {
    String::from_utf8_lossy(octets).into_owned()
}

#[test]
fn the_readmes_commands_run() {
    let dir = tempfile::tempdir().unwrap();
    let readme = include_str!("../README.md");
    std::fs::write(dir.path().join("network.toml"), include_str!("../docs/network.toml")).unwrap();
    let commands: Vec<&str> = readme.lines().filter_map(|line| line.strip_prefix("$ smsc ")).collect();
    assert!(commands.len() >= 5);
    for command in commands {
        let words: Vec<&str> = command.split('#').next().unwrap().split_whitespace().collect();
        let output = smsc(dir.path(), &words);
        assert!(output.status.success(), "smsc {command}: {}", text(&output.stderr));
        assert!(!output.stdout.is_empty(), "smsc {command} says nothing");
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "stores are left behind");
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
    let check = ["check", &store];
    let good = smsc(dir.path(), &check);
    let said = text(&good.stdout);
    assert!(good.status.success() && said.contains("ok, these hold: I1, I2, I3, I4, I5\n"), "{said}");
    assert!(
        said.contains("not checked: I6: which messages were accepted was not said (--accepted FILE)"),
        "{said}"
    );
    assert!(said.contains("not checked: I7: "), "{said}");
    // With the numbers that the bench has left.
    let accepted = format!("{store}/accepted");
    let with = [&check[..], &["--store", "sqlite-naive", "--accepted", &accepted]].concat();
    let said = text(&smsc(dir.path(), &with).stdout);
    assert!(said.contains("ok, these hold: I1, I2, I3, I4, I5, I6\n") && !said.contains("I6:"), "{said}");

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
    assert!(seconds >= 0.3 && (1..200_000).contains(&finished), "{seconds} s, {finished}");
    assert!(!said.contains("empty"), "{said}");
    let (seconds, finished, said) = bench("600", "500");
    assert!(seconds < 600.0 && finished == 500 && said.contains("the queue was empty after"), "{said}");
}

#[test]
fn a_bench_that_does_not_wait_for_flushes_promises_less() {
    let dir = tempfile::tempdir().unwrap();
    for store in ["mmdb", "sqlite", "sqlite-naive"] {
        for (early, class) in [(&["--early"][..], "power-cut-prefix"), (&[], "power-cut")] {
            let bench = ["bench", "--store", store, "--threads", "2", "--messages", "200", "--json"];
            let output = smsc(dir.path(), &[&bench[..], early].concat());
            assert!(output.status.success(), "{}", text(&output.stderr));
            let row: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!((&row["durability"], &row["figures"]["finished"]), (&class.into(), &200.into()));
        }
    }
}

/// Two examples of the help stood in one line, as one command that nobody can give.
#[test]
fn each_example_of_the_help_is_a_line() {
    let said = text(&smsc(Path::new("."), &["check", "--help"]).stdout);
    assert!(said.lines().any(|line| line.trim_end() == "  smsc check /var/lib/smsc"), "{said}");
}

#[test]
fn wrong_questions_are_told_what_would_be_right() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("bad.toml"), "[outcomes]\nabsent = 101\n").unwrap();
    std::fs::write(dir.path().join("slow.toml"), "[latency_ms]\nbusy = 40_050\n").unwrap();
    for (arguments, code, said) in [
        (
            &["bench", "--store", "sqlit"][..],
            2,
            "of this name (did you mean sqlite?); known are mmdb, sqlite,",
        ),
        (&["bench", "--store", "oracle"], 2, "there is no store of this name; known are mmdb, sqlite,"),
        (&["bench", "--threads", "0"], 2, "1..=1024"),
        (&["bench", "--rate", "10"], 2, "--seconds"),
        (
            &["bench", "--side", "sender", "--stations", "1", "--messages", "10100", "--threads", "1"],
            1,
            "100 of 10100 messages were refused before the senders' start",
        ),
        (
            &["bench", "--network", "feild"],
            2,
            "feild: No such file or directory (os error 2); give perfect, field or",
        ),
        (
            &["bench", "--network", "bad.toml"],
            2,
            "--network bad.toml:2: 101 is out of range: from 0 to 100\n    2 | absent = 101",
        ),
        (
            &["bench", "--network", "slow.toml", "--time-factor", "1"],
            2,
            "an attempt may take 60 s, and a claim ends after 60 s",
        ),
        (&["bench", "--ucs2", "101"], 2, "0..=100"),
        (
            &["bench", "--rate", "1e9", "--seconds", "1"],
            2,
            "--rate 1000000000: 10000000 messages in a second at most",
        ),
        (
            &["bench", "--side", "sender", "--rate", "9", "--seconds", "1", "--messages", "9"],
            2,
            "--rate: senders alone have no clients",
        ),
        (&["bench", "--stream-dir", "nowhere"], 2, "--stream-dir nowhere: "),
        (&["bench", "--repeat", "0"], 2, "0 is not in 1.."),
        (&["bench", "--messages", "0"], 2, "0 is not in 1.."),
        (
            &["bench", "--seconds", "1e13", "--rate", "1e-13"],
            2,
            "--seconds 10000000000000: 31536000 at most, a year",
        ),
        (
            &["bench", "--seconds", "1", "--rate", "1000", "--burst", "1e300"],
            2,
            ": 10000000 messages in a second at most, also in the burst",
        ),
        (&["bench", "--seconds", "inf"], 2, "--seconds inf: must be a number above 0, and finite"),
        (
            &["bench", "--streams", "4", "--store", "sqlite"],
            2,
            "--streams is an axis of mmdb, and the store is sqlite: leave it out",
        ),
        (&["bench", "--store", "postgresql", "--locking", "none"], 2, "--locking is an axis of mmdb"),
        (&["bench", "--store", "sqlite-naive", "--selective"], 2, "--selective is an axis of mmdb"),
        (&["bench", "--selective=message"], 2, "a restart would lose it: take all, or some of encoded_msg"),
        (&["bench", "--selective=sent,send"], 2, "\"send\" is no table that can be left out"),
        (
            &["bench", "--stream-dir", ".", "--stream-dir", "."],
            2,
            "--stream-dir: given 2 times, and there are 1 --streams",
        ),
        (&["bench", "--validity", "0"], 2, "--validity 0: must be 0.000001 s to 315360000 s"),
        (
            &["bench", "--network", "field", "--validity", "20", "--scheduled", "1"],
            2,
            "--validity 20, divided by --time-factor 1000: must be 0.020001 s to",
        ),
        (&["bench", "--zipf", "9"], 2, "must be 0 to 5"),
        (&["bench", "--side", "sender", "--seconds", "1"], 2, "give --messages"),
        (&["bench", "--side", "receiver", "--seconds", "1", "--messages", "9"], 2, "leave the other out"),
        (&["bench", "--locking", "row"], 2, "known are none, record, page, container"),
        (&["bench", "--dir", "nowhere"], 2, "nowhere"),
        (
            &["bench", "--store", "postgresql", "--threads", "1,1024"],
            2,
            "3075 sessions are needed, but its server is made for 1500 at most; take fewer --threads",
        ),
        (&["check", "nowhere"], 2, "nowhere is no directory"),
    ] {
        let output = smsc(dir.path(), arguments);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", text(&output.stderr));
        assert!(text(&output.stderr).contains(said), "{arguments:?}: {}", text(&output.stderr));
    }
}

#[test]
fn a_server_needs_a_file_for_each_session() {
    let dir = tempfile::tempdir().unwrap();
    let bench =
        format!("ulimit -n 256; exec {} bench --store postgresql --threads 100", env!("CARGO_BIN_EXE_smsc"));
    let output = Command::new("sh").args(["-c", &bench]).current_dir(dir.path()).output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(
        said.contains("303 sessions are needed") && said.contains("256 files open (ulimit -n)"),
        "{said}"
    );
    // A check has few; it asked for as many as a bench may need, and for fewer of --threads, which
    // it does not have.
    let cluster = dir.path().join("store/postgresql");
    std::fs::create_dir_all(&cluster).unwrap();
    std::fs::write(cluster.join("PG_VERSION"), "15\n").unwrap();
    let check = format!("ulimit -n 256; exec {} check store --store postgresql", env!("CARGO_BIN_EXE_smsc"));
    let output = Command::new("sh").args(["-c", &check]).current_dir(dir.path()).output().unwrap();
    let said = text(&output.stderr);
    assert!(!said.contains("sessions are needed") && !said.contains("no store"), "{said}");
}

/// A message for a station that is always absent was valid for a day, whatever the time factor: so
/// long the bench went on.
#[test]
fn what_can_never_be_delivered_expires_as_fast_as_the_networks_times_pass() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("prefix.toml"), "[prefixes]\n49 = \"absent\"\n").unwrap();
    std::fs::write(dir.path().join("share.toml"), "[outcomes]\nabsent = 100\nlater = 1\n").unwrap();
    for more in [
        &["--network", "prefix.toml", "--time-factor", "100000"][..],
        &["--network", "share.toml", "--time-factor", "100000", "--store", "sqlite"],
        &["--network", "prefix.toml", "--validity", "500", "--receipts", "50"],
        // No times of a network: not divided.
        &["--network", "perfect", "--time-factor", "1000000", "--scheduled", "1000", "--validity", "30"],
    ] {
        let bench = ["bench", "--threads", "2", "--window", "8", "--messages", "300", "--json"];
        let output = smsc_within(100, dir.path(), &[&bench[..], more].concat());
        assert!(output.status.success(), "{more:?}: {} {}", output.status, text(&output.stderr));
        let row: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let (ended, other) =
            if more[1] == "perfect" { ("delivered", "expired") } else { ("expired", "delivered") };
        assert_eq!((&row["figures"][ended], &row["figures"][other]), (&300.into(), &0.into()), "{row}");
    }
}

/// All that was seen of such a run was that nothing is delivered.
#[test]
fn a_bench_that_only_waits_says_what_for() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("net.toml"), "[prefixes]\n49 = \"absent\"\n").unwrap();
    let bench =
        ["bench", "--network", "net.toml", "--validity", "9000", "--threads", "1", "--messages", "20"];
    let output = smsc_within(100, dir.path(), &bench);
    let said = text(&output.stderr);
    // Who is tried again at this very moment does not wait.
    assert!(
        output.status.success() && said.matches("20 in the queue, ").count() == 1,
        "{} {said}",
        output.status
    );
    let wanted = " wait for absent or busy stations: they are tried again until their validity ends, 9.0 s after submission \
                  (--validity, --time-factor)";
    assert!(said.contains(wanted), "{said}");
}

/// The numbers of accepted messages were written when a bench had ended well: after a crash, the
/// case they are for, there were none.
#[test]
fn what_was_accepted_before_a_kill_can_be_checked() {
    for store in ["mmdb", "sqlite"] {
        let dir = tempfile::tempdir().unwrap();
        let bench = [
            "bench",
            "--store",
            store,
            "--side",
            "both",
            "--threads",
            "2",
            "--window",
            "8",
            "--seconds",
            "100",
        ];
        let mut process = Command::new(env!("CARGO_BIN_EXE_smsc"))
            .args([&bench[..], &["--keep", "--no-check"]].concat())
            .current_dir(dir.path())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Where it is, is said before anything can happen.
        let mut said = String::new();
        BufReader::new(process.stderr.take().unwrap()).read_line(&mut said).unwrap();
        let kept = said.trim().strip_prefix("kept: ").unwrap();
        let accepted = dir.path().join(kept).join("accepted");
        let begin = Instant::now();
        while begin.elapsed() < Duration::from_secs(300)
            && std::fs::metadata(&accepted).map_or(0, |file| file.len()) < 8000
        {
            std::thread::sleep(Duration::from_millis(1));
        }
        process.kill().unwrap();
        process.wait().unwrap();
        let numbers = std::fs::read_to_string(&accepted).unwrap();
        assert!(numbers.lines().count() >= 500 && numbers.lines().all(|line| line.len() == 15), "{numbers}");
        let checked = smsc(dir.path(), &["check", kept, "--accepted", &format!("{kept}/accepted")]);
        let found = text(&checked.stdout);
        assert!(
            checked.status.success() && found.contains("I4, I5, I6\n"),
            "{store}: {found} {}",
            text(&checked.stderr)
        );
    }
}

/// What a store leaves out of its log was decided when it was made.
#[test]
fn a_store_that_leaves_tables_out_is_checked_as_it_was_made() {
    let dir = tempfile::tempdir().unwrap();
    let bench = ["bench", "--threads", "2", "--messages", "60", "--segment-mib", "1", "--keep"];
    let output =
        smsc(dir.path(), &[&bench[..], &["--selective=sent,ms_state", "--side", "receiver"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let said = text(&output.stderr);
    let kept = said.lines().find_map(|line| line.strip_prefix("kept: ")).unwrap();
    for more in [&[][..], &["--selective=ms_state,sent"]] {
        let output = smsc(dir.path(), &[&["check", kept, "--json"], more].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        let found: serde_json::Value = serde_json::from_str(&text(&output.stdout)).unwrap();
        assert_eq!((&found["holds"], &found["live"]), (&true.into(), &60.into()), "{found}");
        // Nothing was sent, so of both tables only stations have rows.
        assert_eq!(found["rebuilt"], found["stations"], "{found}");
    }
    let output = smsc(dir.path(), &["check", kept, "--selective"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("leaves out of its log ms_state, sent (asked for: encoded_msg, "), "{said}");
    let help = text(&smsc(dir.path(), &["bench", "--help"]).stdout);
    for table in UnloggedTables::ALL.tables() {
        assert!(help.contains(table.name), "the help does not name {}", table.name);
    }
}

/// Rows of JSON had six numbers without a name, and did not tell with what they were measured.
#[test]
fn a_row_of_json_says_what_it_is_and_what_was_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let rows = |more: &[&str]| {
        let bench = ["bench", "--threads", "2", "--messages", "50", "--json"];
        let output = smsc(dir.path(), &[&bench[..], more].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        let said = text(&output.stdout);
        said.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<serde_json::Value>>()
    };
    let axes = [
        "--selective=sent,ms_state",
        "--after-images",
        "--streams",
        "2",
        "--segment-mib",
        "1",
        "--locking",
        "record",
    ];
    let network =
        ["--network", "field", "--time-factor", "2000", "--seed", "7", "--repeat", "2", "--zipf", "0.5"];
    let rows_of_mmdb = rows(&[&axes[..], &network].concat());
    assert_eq!(rows_of_mmdb.len(), 2);
    for (seed, row) in (7..).zip(&rows_of_mmdb) {
        let asked = ["seed", "messages", "network", "time_factor", "validity_s", "zipf", "stations", "rate"];
        let asked: Vec<&serde_json::Value> = asked.iter().map(|&name| &row[name]).collect();
        let wanted = serde_json::json!([seed, 50, "field", 2000, 43.2, 0.5, 1_000_000, null]);
        assert_eq!(serde_json::json!(asked), wanted, "{row}");
        let axes = serde_json::json!({
            "selective": true, "unlogged": ["ms_state", "sent"], "after_images": true, "group_commit": true,
            "streams": 2, "stream_dirs": [], "segment_mib": 1, "locking": "record",
        });
        assert_eq!(row["mmdb"], axes);
        assert_eq!(row["quantiles"], serde_json::json!(["min", "p50", "p90", "p99", "p99.9", "max"]));
        assert_eq!(row["accept_ms"].as_array().unwrap().len(), 6);
        assert!(
            row["final_per_s"].as_f64().unwrap() > 0.0 && row["final_per_s"] == row["finished_per_s"],
            "{row}"
        );
        // Less than a step of 10 ms, and no multiple of one.
        let cpu_us = row["cpu_us_per_message"].as_f64().unwrap() * 50.0;
        assert!(cpu_us > 1.0 && (cpu_us / 10_000.0).fract() > 1e-6, "{row}");
    }
    assert_eq!(rows(&["--store", "sqlite"])[0]["mmdb"], serde_json::Value::Null);
    for (store, side, flusher) in
        [("mmdb", "both", true), ("mmdb", "receiver", false), ("sqlite", "both", false)]
    {
        let row = &rows(&["--store", store, "--side", side])[0];
        let archived = row["figures"]["archived"].as_u64().unwrap() > 0;
        assert_eq!((&row["flusher"], archived), (&flusher.into(), flusher), "{row}");
    }
}

/// A pipe to `head` ended with "Broken pipe" and exit code 1, as a failed row does.
#[test]
fn a_reader_that_goes_away_is_no_error() {
    let dir = tempfile::tempdir().unwrap();
    for more in [&[][..], &["--json"]] {
        let mut process = Command::new(env!("CARGO_BIN_EXE_smsc"))
            .args([&["bench", "--threads", "1", "--messages", "20", "--segment-mib", "1"][..], more].concat())
            .current_dir(dir.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(process.stdout.take());
        let output = process.wait_with_output().unwrap();
        assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(141), ""));
        assert_eq!(files(dir.path()), Vec::<PathBuf>::new(), "something is left behind");
    }
}

/// It was `LOCK: Resource temporarily unavailable (os error 11)`.
#[test]
fn a_store_that_is_in_use_is_told_as_such() {
    let dir = tempfile::tempdir().unwrap();
    let options = MmdbOptions { segment_mib: 1, ..MmdbOptions::default() };
    let store = StoreKind::Mmdb.open(&dir.path().join("store"), &options, Rules::default()).unwrap();
    let checked = smsc(dir.path(), &["check", "store", "--segment-mib", "1"]);
    drop(store);
    let said = text(&checked.stderr);
    assert!(said.contains("store: another process has this store open; wait until"), "{said}");
    assert_eq!(checked.status.code(), Some(1));
    assert!(smsc(dir.path(), &["check", "store", "--segment-mib", "1"]).status.success());

    // SQLite's own words were "database is locked".
    for kind in [StoreKind::Sqlite, StoreKind::SqliteNaive] {
        let path = dir.path().join(kind.name());
        let store = kind.open(&path, &options, Rules::default()).unwrap();
        let checked = smsc(dir.path(), &["check", kind.name()]);
        drop(store);
        let said = text(&checked.stderr);
        assert!(said.contains(": another process has this store open; wait until"), "{said}");
        assert!(smsc(dir.path(), &["check", kind.name()]).status.success());
    }
}

/// The log streams of the first row stayed where they were, and the second row found a log that was
/// not its own.
#[test]
fn log_streams_elsewhere_are_fresh_for_each_row_and_deleted() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["one", "two"] {
        std::fs::create_dir(dir.path().join(name)).unwrap();
    }
    let bench = ["bench", "--streams", "2", "--segment-mib", "1", "--messages", "200", "--json"];
    let streams = ["--stream-dir", "one", "--stream-dir", "two"];
    let output = smsc(dir.path(), &[&bench[..], &streams, &["--threads", "1,2", "--repeat", "2"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout).lines().count(), 4);
    assert_eq!(files(dir.path()), Vec::<PathBuf>::new(), "something is left behind");

    let kept = smsc(dir.path(), &[&bench[..], &streams, &["--threads", "1", "--keep"]].concat());
    let said = text(&kept.stderr);
    let paths: Vec<&str> = said.lines().map(|line| line.rsplit_once(": ").unwrap().1).collect();
    let [store, first, second] = paths[..] else { panic!("{said}") };
    assert!(
        first.contains("/one/") && second.contains("/two/") && said.contains("kept: log stream 1: "),
        "{said}"
    );
    let check = ["check", store, "--streams", "2", "--segment-mib", "1"];
    let checked = smsc(dir.path(), &[&check[..], &["--stream-dir", first, "--stream-dir", second]].concat());
    assert!(checked.status.success(), "{} {}", text(&checked.stdout), text(&checked.stderr));
}

/// An open loop told only of what it had come to submit: 3,316 messages of 120,000, with latencies
/// of at most the run's length.
#[test]
fn an_open_loop_that_does_not_keep_up_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let bench = |rate: &str, more: &[&str]| {
        let open = ["bench", "--side", "receiver", "--seconds", "0.5", "--threads", "1", "--rate", rate];
        let output = smsc(dir.path(), &[&open[..], more].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        (text(&output.stdout), text(&output.stderr))
    };
    for (rate, burst) in [(5_000_000.0, 1.0), (1_000_000.0, 3.0), (40.0, 1.0)] {
        let (row, said) = bench(&rate.to_string(), &["--burst", &burst.to_string(), "--json"]);
        let row: serde_json::Value = serde_json::from_str(&row).unwrap();
        assert_eq!((&row["rate"], &row["burst"]), (&rate.into(), &burst.into()), "{row}");
        let number = |name: &str| row["figures"][name].as_u64().unwrap() as f64;
        let (accepted, due) = (number("accepted"), number("accepted") + number("not_submitted"));
        let offered = row["offered_per_s"].as_f64().unwrap() * row["seconds"].as_f64().unwrap();
        assert!((offered - due).abs() < 0.5, "{row}");
        // What happened: a client of a loaded machine began late, and what was due before counted
        // for nothing.
        let wanted = rate * 0.5 * (0.9 + 0.1 * burst);
        assert!(rate < 1e6 || (0.98..1.02).contains(&(due / wanted)), "{due} of {wanted}");
        assert!(rate < 1e6 || accepted < due * 0.99, "{row}");
        assert_eq!(said.contains("overload: "), accepted < due * 0.99, "{said} {row}");
        let share = format!("overload: {accepted} of {due} messages that were due were accepted (");
        assert!(!said.contains("overload: ") || said.contains(&share), "{said} {row}");
    }
    let (table, said) = bench("5000000", &[]);
    let (head, row) = table.trim_end().split_once('\n').unwrap();
    let at = head.find("offered/s").unwrap();
    let offered: f64 = row[at - 2..at + "offered/s".len()].trim().parse().unwrap();
    // Not what was accepted. What happened: that all that were due are counted was a part of the
    // run's time, so that this was too low, and accepted/s with it.
    assert!(offered > 1_000_000.0 && said.contains("overload"), "{table}");
}

/// A closed loop showed a rate, and nothing told that two thirds of its messages had been refused.
#[test]
fn a_closed_loop_whose_messages_are_refused_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let bench = |stations: &str| {
        let bench = ["bench", "--side", "receiver", "--threads", "1", "--window", "64", "--segment-mib", "1"];
        let load = ["--messages", "10100", "--stations", stations];
        let output = smsc(dir.path(), &[&bench[..], &load].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stderr)
    };
    let said = bench("1");
    assert!(said.contains("refused: 100 of 10100 messages (1.0 %), as 10000 were queued"), "{said}");
    assert_eq!(bench("1000"), "");
}

/// All files below a directory.
fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<PathBuf> =
        entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect();
    all.sort();
    all
}

/// `smsc check` on a wrong directory made a new store there, found no violation in it, and said so.
#[test]
fn a_directory_without_a_store_is_refused_and_left_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    for name in ["empty", "foreign", "zero", "other-sqlite", "other-mmdb"] {
        std::fs::create_dir(at(name)).unwrap();
    }
    std::fs::write(at("foreign/letter.txt"), "Dear Sir").unwrap();
    std::fs::write(at("foreign/MANIFEST"), "of a ship").unwrap();
    std::fs::write(at("zero/smsc.db"), "").unwrap();
    let database = rusqlite::Connection::open(at("other-sqlite/smsc.db")).unwrap();
    database.execute_batch("CREATE TABLE message(text)").unwrap();
    drop(database);
    drop(mmdb::Database::open(at("other-mmdb"), mmdb::Options::default()).unwrap());
    for (name, said) in [
        ("empty", "empty has no store in it: it is empty; give the directory"),
        ("foreign", "foreign has no store in it, only MANIFEST, letter.txt; give"),
        ("zero", "zero has no store in it, only smsc.db"),
        ("other-sqlite", "other-sqlite: the database there has no tables of messages"),
        ("other-mmdb", "other-mmdb: the database there has no tables of messages"),
    ] {
        let before = files(dir.path());
        for more in [&[][..], &["--json"]] {
            let output = smsc(dir.path(), &[&["check", name], more].concat());
            let heard = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{name}: {heard}");
            assert!(heard.contains(said) && output.stdout.is_empty(), "{name}: {heard}");
        }
        if name != "other-mmdb" {
            assert_eq!(files(dir.path()), before, "{name}: something was made");
        }
    }
    let empty = smsc(dir.path(), &["check", "empty", "--store", "postgresql"]);
    assert_eq!((empty.status.code(), files(&at("empty")).len()), (Some(2), 0), "{}", text(&empty.stderr));
    let database = rusqlite::Connection::open(at("other-sqlite/smsc.db")).unwrap();
    let tables: i64 = database.query_row("SELECT count(*) FROM sqlite_master", [], |row| row.get(0)).unwrap();
    assert_eq!(tables, 1);
}

/// A file or directory, what the system says of it, and what is in it.
type FileState = (PathBuf, [i64; 6], Vec<u8>);

/// All that is below a directory: path, length, mode, time of change of the data and of the rest,
/// and the data.
fn state(directory: &Path) -> Vec<FileState> {
    use std::os::unix::fs::MetadataExt;
    let mut all = Vec::new();
    let mut todo = vec![directory.to_owned()];
    while let Some(path) = todo.pop() {
        let metadata = path.symlink_metadata().unwrap();
        let data = if metadata.is_file() { std::fs::read(&path).unwrap() } else { Vec::new() };
        if metadata.is_dir() {
            todo.extend(std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        }
        let times = [metadata.mtime(), metadata.mtime_nsec(), metadata.ctime(), metadata.ctime_nsec()];
        let numbers =
            [metadata.len().cast_signed(), metadata.mode().into(), times[0], times[1], times[2], times[3]];
        all.push((path, numbers, data));
    }
    all.sort();
    all
}

/// The store was opened, and so recovered: `smsc check` cut logs, gave claims back and wrote files
/// anew, in a store that was the only evidence of what a crash had left. A copy is checked now, and
/// the store stays as it is, to the time of its files.
#[test]
fn a_check_changes_nothing_in_any_store_closed_or_crashed() {
    let server = postgresql_server::find_programs(None).is_ok();
    if !server {
        println!("SKIP: the same of PostgreSQL: it is not installed");
    }
    let stores = ["mmdb", "sqlite", "sqlite-naive", "postgresql"];
    for store in stores.into_iter().take(if server { 4 } else { 3 }) {
        for crashed in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let anybody = std::os::unix::fs::PermissionsExt::from_mode(0o755);
            std::fs::set_permissions(dir.path(), anybody).unwrap();
            let (own, temporary) = (dir.path().join("stores"), dir.path().join("tmp"));
            for directory in [&own, &temporary] {
                std::fs::create_dir(directory).unwrap();
            }
            let mut words = vec!["bench", "--store", store, "--threads", "2", "--keep"];
            if store == "mmdb" {
                std::fs::create_dir(own.join("log")).unwrap();
                words.extend(["--stream-dir", "log", "--segment-mib", "1"]);
            }
            words.extend(if crashed { ["--seconds", "600"] } else { ["--messages", "200"] });
            let mut bench = Command::new(env!("CARGO_BIN_EXE_smsc"))
                .args(&words)
                .current_dir(&own)
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap();
            let mut kept = BufReader::new(bench.stderr.take().unwrap()).lines();
            let mut named = || kept.next().unwrap().unwrap().strip_prefix("kept: ").unwrap().to_owned();
            let first = named();
            let paths: Vec<PathBuf> = first.split(", ").map(|name| own.join(name.trim())).collect();
            if crashed {
                let accepted = paths[0].join("accepted");
                let begin = Instant::now();
                while std::fs::metadata(&accepted).map_or(0, |file| file.len()) < 200 {
                    assert!(begin.elapsed() < Duration::from_secs(120), "{store}: nothing is accepted");
                    std::thread::sleep(Duration::from_millis(20));
                }
                bench.kill().unwrap();
            }
            bench.wait().unwrap();
            if store == "postgresql" && crashed {
                // Its server ends by itself a moment after its process.
                let find = || Command::new("find").arg(&own).args(["-name", "postmaster.pid"]).output();
                let begin = Instant::now();
                while !find().unwrap().stdout.is_empty() && begin.elapsed() < Duration::from_secs(180) {
                    std::thread::sleep(Duration::from_millis(50));
                }
            }
            let log = std::fs::read_dir(own.join("log")).into_iter().flatten().flatten().next();
            let log = log.map(|entry| entry.path().display().to_string());
            let before = state(&own);
            let mut check = vec!["check", paths[0].to_str().unwrap(), "--json"];
            if let Some(log) = &log {
                check.extend(["--stream-dir", log]);
            }
            for _ in 0..2 {
                let checked = Command::new(env!("CARGO_BIN_EXE_smsc"))
                    .args(&check)
                    .current_dir(&own)
                    .env("TMPDIR", &temporary)
                    .output()
                    .unwrap();
                let said = text(&checked.stderr);
                assert!(
                    checked.status.success(),
                    "{store}, crashed {crashed}: {said}{}",
                    text(&checked.stdout)
                );
                let differs = |(was, is): (&FileState, &FileState)| {
                    (was != is)
                        .then(|| format!("{} {:?} -> {} {:?}", was.0.display(), was.1, is.0.display(), is.1))
                };
                let after = state(&own);
                let changed: Vec<String> = before.iter().zip(&after).filter_map(differs).collect();
                assert!(
                    before.len() == after.len() && changed.is_empty(),
                    "{store}, crashed {crashed}: {changed:?}"
                );
                assert_eq!(std::fs::read_dir(&temporary).unwrap().count(), 0, "{store}: the copy is gone");
            }
        }
    }
}

/// `--network /dev/zero` filled the memory and never ended.
#[test]
fn a_file_that_never_ends_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    for (words, says, code) in [
        (&["bench", "--network", "/dev/zero", "--messages", "10"][..], "more than 1024 KiB", 2),
        (&["bench", "--network", "/", "--messages", "10"], "directory", 2),
        (&["bench", "--network", "/dev/null", "--messages", "10", "--threads", "1"], "", 0),
        (&["check", "store", "--accepted", "/dev/zero"], "is no number of a message", 1),
    ] {
        if words[0] == "check" {
            drop(
                StoreKind::Mmdb
                    .open(&dir.path().join("store"), &MmdbOptions::default(), Rules::default())
                    .unwrap(),
            );
        }
        let end = smsc_within(100, dir.path(), words);
        let said = text(&end.stderr);
        assert!(end.status.code() == Some(code) && said.contains(says), "{words:?}: {} {said}", end.status);
    }
}

#[test]
fn the_store_in_a_directory_is_recognised() {
    let dir = tempfile::tempdir().unwrap();
    let stores = ["mmdb", "sqlite-naive", "postgresql-grouped"];
    let server = postgresql_server::find_programs(None).is_ok();
    for (number, store) in stores.into_iter().enumerate().take(if server { 3 } else { 2 }) {
        // Senders alone: what was queued before them counts as accepted.
        let bench = ["bench", "--store", store, "--side", "sender", "--threads", "2", "--messages", "50"];
        let kept = smsc(dir.path(), &[&bench[..], &["--keep", "--json"]].concat());
        assert!(kept.status.success(), "{}", text(&kept.stderr));
        let row: serde_json::Value = serde_json::from_slice(&kept.stdout).unwrap();
        assert_eq!(row["checked"], serde_json::json!(["I1", "I2", "I3", "I4", "I5", "I6"]), "{row}");
        let path = text(&kept.stderr).trim().strip_prefix("kept: ").unwrap().to_owned();
        let accepted = format!("{path}/accepted");
        let checked = smsc(dir.path(), &["check", &path, "--accepted", &accepted, "--json"]);
        let report: serde_json::Value = serde_json::from_slice(&checked.stdout).unwrap();
        let recognised = ["mmdb", "sqlite", "postgresql"][number];
        assert_eq!((&report["store"], &report["accepted"]), (&recognised.into(), &50.into()), "{report}");
        assert_eq!((&report["holds"], &report["not_checked"]["I6"]), (&true.into(), &().into()), "{report}");
        assert!(report["not_checked"]["I7"].is_string(), "{report}");
        let other = if store == "mmdb" { "sqlite" } else { "mmdb" };
        let wrong = smsc(dir.path(), &["check", &path, "--store", other]);
        let said = text(&wrong.stderr);
        assert!(said.contains(&format!("has {recognised} in it, not {other}; leave --store out")), "{said}");
        assert_eq!(wrong.status.code(), Some(2));
    }
}

/// "sent/s" counted what was undeliverable, too.
#[test]
fn a_network_of_ones_own_decides_what_is_delivered() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("net.toml"), "[prefixes]\n49 = \"unknown\"\n491700000 = \"delivered\"\n")
        .unwrap();
    // 2000 stations, of which those below 1000 have the longer prefix: 49170 0000 000 to 999.
    let load = ["--stations", "2000", "--threads", "2", "--messages", "1000", "--json"];
    let bench = smsc(dir.path(), &[&["bench", "--network", "net.toml"][..], &load].concat());
    let row: serde_json::Value =
        serde_json::from_slice(&bench.stdout).unwrap_or_else(|_| panic!("{}", text(&bench.stderr)));
    let delivered = row["figures"]["delivered"].as_u64().unwrap();
    assert!((400..600).contains(&delivered) && row["figures"]["finished"] == 1000, "{row}");
    let (per_s, final_per_s) =
        (row["delivered_per_s"].as_f64().unwrap(), row["finished_per_s"].as_f64().unwrap());
    assert!((per_s / final_per_s - delivered as f64 / 1000.0).abs() < 0.001, "{row}");
}

/// `eprintln!` panics where standard error is full, which in the middle of a bench would leave
/// stores and servers behind.
#[test]
fn a_full_output_is_an_error_and_no_panic() {
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let bench = ["bench", "--store", "sqlite", "--side", "receiver", "--threads", "1", "--messages", "50"];
    for (words, code) in [
        (&bench[..], 1),
        (&[&bench[..], &["--json"]].concat(), 1),
        (&["check", "nowhere"], 2),
        (&["bench", "--seconds", "-1"], 2),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let command = |words: &[&str]| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_smsc"));
            command.args(words).current_dir(dir.path()).stdout(full());
            command
        };
        let end = command(words).stderr(Stdio::piped()).output().unwrap();
        assert_eq!(end.status.code(), Some(code), "{words:?}: {}", text(&end.stderr));
        assert!(!text(&end.stderr).contains("panicked"), "{words:?}: {}", text(&end.stderr));
        assert_eq!(command(words).stderr(full()).status().unwrap().code(), Some(code), "{words:?}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "{words:?}: stores are left behind");
    }
}

/// A private store was copied into directories and files that everybody could read, and a kill left
/// them there. A TMPDIR in the store had the copy copied into itself, level by level, and changed
/// what was only to be looked at.
#[test]
fn the_copy_of_a_check_is_nobody_elses_and_not_in_the_store() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let dir = tempfile::tempdir().unwrap();
    let made =
        smsc(dir.path(), &["bench", "--store", "sqlite", "--messages", "2000", "--threads", "2", "--keep"]);
    assert!(made.status.success(), "{}", text(&made.stderr));
    let said = text(&made.stderr);
    let name = said.lines().find_map(|line| line.strip_prefix("kept: ")).unwrap().trim();
    let store = dir.path().join(name);
    std::fs::set_permissions(&store, PermissionsExt::from_mode(0o700)).unwrap();
    let temporary = dir.path().join("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let mut seen = false;
    for _ in 0..20 {
        let mut check = Command::new(env!("CARGO_BIN_EXE_smsc"))
            .args(["check", name])
            .current_dir(dir.path())
            .env("TMPDIR", &temporary)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let begin = Instant::now();
        while !seen && check.try_wait().unwrap().is_none() && begin.elapsed() < Duration::from_secs(60) {
            let copy = std::fs::read_dir(&temporary).unwrap().flatten().next();
            // It may be gone since.
            let Some(about) = copy.and_then(|file| file.metadata().ok()) else { continue };
            assert_eq!(about.mode() & 0o777, 0o700);
            seen = true;
        }
        assert!(check.wait().unwrap().success());
        if seen {
            break;
        }
    }
    assert!(seen, "a check makes a copy");
    let below = store.join("tmp");
    std::fs::create_dir(&below).unwrap();
    let before = state(&store);
    for place in [&store, &below] {
        let check = Command::new(env!("CARGO_BIN_EXE_smsc"))
            .args(["check", name])
            .current_dir(dir.path())
            .env("TMPDIR", place)
            .output()
            .unwrap();
        assert!(!check.status.success());
        assert!(text(&check.stderr).contains("lies in"), "{}", text(&check.stderr));
    }
    let paths = |all: Vec<FileState>| {
        all.into_iter().map(|state| (state.0, state.1[2..].to_vec())).collect::<Vec<_>>()
    };
    assert_eq!(paths(state(&store)), paths(before));
}
