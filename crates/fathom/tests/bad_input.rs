//! Bad input through the binary as a user calls it: a clear error on stderr, the right exit code,
//! nothing lost, nothing left.

#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

mod place;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use place::Place;

/// An experiment file with one thing wrong, what the error must say, and on which line.
struct BadFile {
    what: &'static str,
    text: &'static str,
    line: u32,
    says: &'static [&'static str],
}

/// Each of these was read until the memory was full, or for ever.
#[test]
fn what_never_ends_is_no_input() {
    let place = Place::new();
    std::fs::create_dir(place.path("directory")).unwrap();
    for (words, says) in [
        (&["run", "/dev/zero", "--plan"][..], "more than 4 MiB"),
        (&["run", "./directory", "--plan"], "directory"),
        (&["run", "first-look", "--plan", "--trace", "/dev/zero"], "no file"),
        (&["run", "first-look", "--plan", "--resume", "--out", "/dev/zero"], "not a results file"),
        (&["trace", "info", "/dev/zero"], "not a Fathom trace"),
        (&["trace", "import", "/dev/zero", "--out", "t.trace"], "say it with --format"),
        (&["trace", "import", "/dev/zero", "--format", "sql", "--out", "t.trace"], "more than 256 MiB"),
        (&["report", "/dev/zero"], "not a results file"),
        (&["stack", "up", "--device", "/dev/zero"], "no model"),
        (&["stack", "up", "--image", "/dev/zero"], "no file"),
        (&["stack", "operations", "/dev/zero"], "no log"),
    ] {
        place.fathom(words).fails().says(says);
    }
    assert_eq!(place.files(), ["directory"]);
}

/// The plan was printed as if all was well, and every run of it failed then.
#[test]
fn a_directory_that_takes_nothing_is_refused_at_the_plan() {
    let place = Place::new();
    std::fs::write(place.path("file"), "").unwrap();
    std::fs::create_dir(place.path("full")).unwrap();
    let look = |directory: &str| place.fathom(&["run", "first-look", "--plan", "--dir", directory]);
    look("nowhere").exits(2).says("--dir nowhere").says("No such file");
    look("file").exits(2).says("--dir file: not a directory");
    look("full").exits(0);
    if fathom_ground::system::is_root() {
        // Root may write wherever the file system takes it.
        let full = place.path("full");
        let mounted = Command::new("mount").args(["-t", "tmpfs", "-o", "ro", "none"]).arg(&full).status();
        if !mounted.is_ok_and(|status| status.success()) {
            println!("skipped: mount -t tmpfs is refused here");
            return;
        }
        let end = look("full");
        assert!(Command::new("umount").arg(&full).status().unwrap().success());
        end.exits(2).says("--dir full: it is on a file system that is mounted read-only");
    } else {
        std::fs::set_permissions(place.path("full"), Permissions::from_mode(0o555)).unwrap();
        look("full").exits(2).says("--dir full: you may not write there");
    }
}

const GOOD: &str = r#"name = "mine"
title = "Mine"
repeats = 3

[workload]
name = "mobibench-sql"
transactions = 5
tables = 1

[engine]
name = "sqlite"
journal_mode = "wal"

[stack]
filesystem = "dir"
"#;

const BAD_FILES: &[BadFile] = &[
    BadFile { what: "TOML that is none", text: "name = \"mine\"\ntitle = \n", line: 2, says: &[] },
    BadFile {
        what: "an unknown table",
        text: "GOOD\n[stak]\nfilesystem = \"dir\"\n",
        line: 17,
        says: &["stak", "stack"],
    },
    BadFile { what: "an unknown key", text: "GOODrepeat = 4\n", line: 16, says: &["repeat"] },
    BadFile {
        what: "an unknown workload",
        text: "s/mobibench-sql/mobibensh-sql/",
        line: 6,
        says: &["mobibensh-sql", "mobibench-sql"],
    },
    BadFile {
        what: "an unknown parameter",
        text: "s/transactions/transactoins/",
        line: 7,
        says: &["transactoins", "transactions"],
    },
    BadFile {
        what: "a parameter of the wrong type",
        text: "s/= 5/= \"many\"/",
        line: 7,
        says: &["transactions", "whole number"],
    },
    BadFile { what: "a parameter out of range", text: "s/= 5/= 0/", line: 7, says: &["transactions", "1"] },
    BadFile {
        what: "an unknown engine",
        text: "s/\"sqlite\"/\"sqlight\"/",
        line: 11,
        says: &["sqlight", "sqlite"],
    },
    BadFile {
        what: "an unknown setting",
        text: "s/journal_mode/jurnal_mode/",
        line: 12,
        says: &["jurnal_mode", "journal_mode"],
    },
    BadFile { what: "a setting's bad value", text: "s/\"wal\"/\"wall\"/", line: 12, says: &["wall", "wal"] },
    BadFile {
        what: "an unknown file system",
        text: "s/\"dir\"/\"ext5\"/",
        line: 15,
        says: &["ext5", "ext4", "fathom list filesystems"],
    },
    BadFile { what: "a bad unit", text: "GOODsize_mib = \"10 parsecs\"\n", line: 16, says: &["parsecs"] },
    BadFile { what: "no repeats", text: "s/repeats = 3/repeats = 0/", line: 3, says: &["repeats"] },
    BadFile {
        what: "an empty axis",
        text: "GOOD[matrix]\n\"engine.page_size\" = []\n",
        line: 17,
        says: &["engine.page_size"],
    },
    BadFile {
        what: "an axis over nothing known",
        text: "GOOD[matrix]\n\"engine.pagesize\" = [1024]\n",
        line: 17,
        says: &["page_size"],
    },
    BadFile {
        what: "a figure of an unknown kind",
        text: "GOOD[[figure]]\nid = \"a\"\nkind = \"pie\"\ntitle = \"t\"\nsee = \"s\"\nphases = [\"insert\"]\n",
        line: 18,
        says: &["pie", "bars"],
    },
    BadFile {
        what: "a headline over an unknown axis",
        text: "GOOD[[headline]]\nphase = \"insert\"\nmetric = \"rate\"\naxis = \"engine.colour\"\nbaseline = \"red\"\n",
        line: 19,
        says: &["engine.colour"],
    },
    BadFile {
        what: "mkfs words for a directory",
        text: "GOODmkfs = [\"-O\", \"x\"]\n",
        line: 16,
        says: &["mkfs", "dir"],
    },
];

fn text_of(bad: &BadFile) -> String {
    if let Some(rest) = bad.text.strip_prefix("GOOD") {
        return format!("{GOOD}{rest}");
    }
    match bad
        .text
        .strip_prefix("s/")
        .and_then(|text| text.strip_suffix('/'))
        .and_then(|suffix| suffix.split_once('/'))
    {
        Some((old, new)) => {
            assert!(GOOD.contains(old), "{}: the good file holds {old}", bad.what);
            GOOD.replacen(old, new, 1)
        }
        None => bad.text.to_owned(),
    }
}

#[test]
fn the_good_file_is_good() {
    let place = Place::new();
    place.write("mine.toml", GOOD);
    place.fathom(&["run", "mine.toml", "--plan"]).exits(0);
}

#[test]
fn every_bad_experiment_file_is_refused_with_its_line_and_runs_nothing() {
    for bad in BAD_FILES {
        let place = Place::new();
        place.write("mine.toml", &text_of(bad));
        let end = place.fathom(&["run", "mine.toml"]);
        end.exits(2).says(&format!("mine.toml:{}", bad.line));
        for words in bad.says {
            end.says(words);
        }
        assert_eq!(place.files(), ["mine.toml"], "{}: nothing else was written", bad.what);
    }
}

#[test]
fn words_that_mean_nothing_are_refused() {
    let place = Place::new();
    place.write("mine.toml", GOOD);
    let cases: &[(&[&str], i32, &[&str])] = &[
        (&[], 2, &["Usage"]),
        (&["reprot", "r.db"], 2, &["report"]),
        (&["run"], 2, &["NAME"]),
        (&["run", "jurnal-modes"], 2, &["jurnal-modes", "journal-modes"]),
        (&["run", "nothing.toml"], 2, &["nothing.toml"]),
        (&["run", "mine.toml", "--repeat", "0"], 2, &["--repeat"]),
        (&["run", "mine.toml", "--repeat", "many"], 2, &["--repeat"]),
        (&["run", "mine.toml", "--seed", "-1"], 2, &["--seed"]),
        (&["run", "mine.toml", "--set", "engine.page_size"], 2, &["--set"]),
        (&["run", "mine.toml", "--set", "engine.pagesize=4096"], 2, &["page_size"]),
        (&["run", "mine.toml", "--set", "engine.page_size=4095"], 2, &["4095", "4096"]),
        (&["run", "mine.toml", "--dir", "no/such/place"], 2, &["no/such/place"]),
        (&["run", "mine.toml", "--dir", "mine.toml"], 2, &["mine.toml", "directory"]),
        (&["run", "mine.toml", "--out", "."], 2, &["--out"]),
        (&["run", "mine.toml", "--out", "mine.toml"], 2, &["--out", "not a results file", "another file"]),
        (&["run", "mine.toml", "--resume"], 2, &["--resume"]),
        // What happened: a limit beyond what a clock can hold was planned with, and the run
        // panicked when its device stood already.
        (&["run", "mine.toml", "--plan", "--time-limit", "18446744073709551615"], 2, &["--time-limit"]),
        (&["run", "mine.toml", "--plan", "--time-limit", "2592001"], 2, &["--time-limit", "2592000"]),
        (&["list", "nothing"], 2, &["experiments"]),
        (&["list", "--show", "journal"], 2, &["journal"]),
        (&["report", "nothing.db"], 2, &["nothing.db", "no such"]),
        (&["compare", "nothing.db", "nothing.db"], 2, &["nothing.db"]),
        (&["stack", "down"], 2, &["NAME"]),
        (&["stack", "down", "no-such-stack"], 2, &["no-such-stack"]),
    ];
    for (words, code, says) in cases {
        let end = place.fathom(words);
        end.exits(*code);
        for word in *says {
            end.says(word);
        }
        assert_eq!(place.files(), ["mine.toml"], "{words:?}: nothing was written");
    }
}

#[test]
fn files_of_the_wrong_kind_are_refused_and_left_alone() {
    let place = Place::new();
    place.write("mine.toml", GOOD);
    place.fathom(&["run", "mine.toml", "--quiet", "--out", "good.db"]).exits(0);

    place.write_bytes("noise.toml", &[0xff, 0xfe, 0, 1]);
    place.fathom(&["run", "noise.toml"]).exits(2).says("noise.toml");
    place.fathom(&["run", "."]).exits(2);

    let good = place.read("good.db");
    let mut cut = good.clone();
    cut.truncate(good.len() / 2);
    let mut corrupt = good.clone();
    for byte in &mut corrupt[4096..8192] {
        *byte ^= 0x5a;
    }
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("empty.db", Vec::new()),
        ("text.db", b"hello, this is no database at all, and long enough for a header of one hundred bytes ..............".to_vec()),
        ("cut.db", cut),
        ("corrupt.db", corrupt),
    ];
    for (name, bytes) in &cases {
        place.write_bytes(name, bytes);
        place.fathom(&["report", name]).exits(1).says(name);
        place.fathom(&["run", "mine.toml", "--out", name, "--resume"]).fails().says(name);
        place.fathom(&["run", "mine.toml", "--out", name]).fails().says(name);
        assert_eq!(&place.read(name), bytes, "{name} was left as it was");
    }
    // A database of somebody else, and results of a later Fathom.
    place.sql("foreign.db", "CREATE TABLE t(x); INSERT INTO t VALUES (1)");
    place.fathom(&["report", "foreign.db"]).exits(1).says("foreign.db");
    place.write_bytes("later.db", &good);
    place.sql("later.db", "PRAGMA user_version = 99");
    place.fathom(&["report", "later.db"]).exits(1).says("99");

    place.fathom(&["report", "no.db"]).exits(2).says("no such results file");
    place.fathom(&["compare", "good.db", "no.db"]).exits(2).says("no such results file");
    // A gate that was given one file twice let it pass without a word.
    let twice = place.fathom(&["compare", "good.db", "./good.db"]);
    assert!(twice.exits(0).stdout.contains("A and B are the same file"), "{twice}");
    place.fathom(&["report", "good.db", "--figure", "F99"]).exits(2).says("F99");
    place.fathom(&["report", "good.db", "--blocks"]).exits(2).says("hold no block trace");
    // As with `--out` of traces: a place that is not there was asked for wrongly, and is told
    // before anything is written.
    place
        .fathom(&["report", "good.db", "--html", "no/such/place/report.html"])
        .exits(2)
        .says("no/such/place");
    place.fathom(&["report", "good.db", "--csv", "--json"]).exits(2);
    place.fathom(&["run", "mine.toml", "--out", "good.db"]).exits(2).says("--resume");
    place
        .fathom(&["run", "mine.toml", "--out", "good.db", "--resume", "--set", "workload.transactions=6"])
        .exits(2);
    assert_eq!(place.rows("good.db", "SELECT count(*) FROM run WHERE status = 'done'"), "3");
}

/// What happened: the size of an image was taken with a directory, and passed over: whoever had
/// asked for a small one filled his disk.
#[test]
fn a_directory_has_no_size() {
    let place = Place::new();
    place.fathom(&["stack", "up", "--fs", "dir", "--size", "64"]).exits(2).says("--size: a directory has");
    place.write("mine.toml", GOOD);
    let plan = place.fathom(&["run", "mine.toml", "--plan", "--set", "size_mib=64"]);
    plan.exits(0).says("size_mib changes nothing");
}

/// What happened: whoever forgot `--dir` when he went on had half of each cell's runs on the card
/// and half on the disk of the results, in one mean and without a word.
#[test]
fn results_of_one_disk_are_not_gone_on_with_on_another() {
    let place = Place::new();
    let (here, memory) = (place.path("."), std::path::Path::new("/dev/shm"));
    if !memory.is_dir() || fathom_lab::schedule::disk_of(&here) == fathom_lab::schedule::disk_of(memory) {
        println!("skipped: there is one disk");
        return;
    }
    place.write("mine.toml", GOOD);
    let run = ["run", "mine.toml", "--out", "r.db", "--quiet"];
    place.fathom(&[&run[..], &["--dir", "/dev/shm"]].concat()).exits(0);
    let resume = [&run[..], &["--resume", "--plan"]].concat();
    place.fathom(&resume).exits(2).says("another disk").says("--dir");
    for directory in ["/dev/shm", "."] {
        place.fathom(&[&resume[..], &["--dir", directory]].concat()).exits(0);
    }
}

#[test]
fn a_library_that_is_not_sqlite_fails_the_cell_and_says_so() {
    let place = Place::new();
    place.write("mine.toml", GOOD);
    place.write("libnot.so", "no library");
    let library = place.path("libnot.so");
    place
        .fathom(&[
            "run",
            "mine.toml",
            "--out",
            "r.db",
            "--set",
            &format!("engine.library={}", library.display()),
        ])
        .fails()
        .says("libnot.so");
}

#[test]
fn a_worker_refuses_what_is_no_order() {
    let place = Place::new();
    for order in ["", "{", "{\"protocol\": 99}", "[]"] {
        let end = place.fathom_with_input(&["worker"], order);
        end.fails();
        assert!(end.stdout.contains("\"failed\""), "the worker says so as an event: {}", end.stdout);
    }
}

#[test]
fn a_killed_worker_fails_its_run_and_the_others_go_on() {
    let place = Place::new();
    // Without syncs a run takes as long on any disk: long enough to be found and stopped. What
    // happened: one that was found had ended before it was killed, and no run failed.
    let text = GOOD.replace("transactions = 5", "transactions = 10000").replace("repeats = 3", "repeats = 6");
    place.write("mine.toml", &text.replace("\"wal\"\n", "\"wal\"\nsynchronous = \"off\"\n"));
    let running = place.start(&["run", "mine.toml", "--out", "r.db"]);
    let worker = running.stop_child("worker");
    // SAFETY: kill only takes numbers; the process is a child of the one just started.
    unsafe { libc::kill(worker, libc::SIGKILL) };
    let end = running.end();
    end.exits(1).says("killed");
    assert_eq!(place.rows("r.db", "SELECT count(*) FROM run WHERE status = 'failed'"), "1");
    assert_eq!(place.rows("r.db", "SELECT count(*) FROM run WHERE status = 'done'"), "5");
    // What failed is made again by --resume, and nothing else is.
    place.fathom(&["run", "mine.toml", "--out", "r.db", "--resume"]).exits(0);
    assert_eq!(place.rows("r.db", "SELECT count(*) FROM run WHERE status = 'done'"), "6");
}

#[test]
fn ctrl_c_keeps_what_is_finished_and_resume_goes_on() {
    let place = Place::new();
    place.write(
        "mine.toml",
        &GOOD.replace("transactions = 5", "transactions = 300").replace("repeats = 3", "repeats = 30"),
    );
    // Who is so late, on a busy machine, that all runs are made begins again.
    let in_time = || {
        let running = place.start(&["run", "mine.toml", "--out", "r.db"]);
        running.holds_before_its_end(|| place.rows_or_empty("r.db", "SELECT count(*) >= 2 FROM run") == "1");
        running.interrupt();
        let end = running.end();
        let is_late = end.code == Some(0);
        if is_late {
            std::fs::remove_file(place.path("r.db")).unwrap();
        }
        (!is_late).then_some(end)
    };
    let end = (0..10).find_map(|_| in_time()).expect("all runs were made each time");
    end.ends_by(libc::SIGINT).says("Stopping: ").says("--resume");
    let finished: u32 = place.rows("r.db", "SELECT count(*) FROM run WHERE status = 'done'").parse().unwrap();
    assert!((2..30).contains(&finished), "{finished} runs were kept");
    assert_eq!(place.leftover_work(), Vec::<String>::new(), "working directories are gone");
    place.fathom(&["run", "mine.toml", "--out", "r.db", "--resume", "--quiet"]).exits(0);
    assert_eq!(place.rows("r.db", "SELECT count(*) FROM run WHERE status = 'done'"), "30");
}
