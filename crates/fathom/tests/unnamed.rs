//! What nobody named: files that a command makes up a name for, and what stays of it when something
//! outside ends it.
//!
//! What happened: `fathom run x.toml --out index.db` put its report over `index.html`, the user's
//! own page, without a word, and followed a link of that name to another one; `report --svg DIR`
//! did the same to figures. `--out app.db-journal` was taken for results, and one statement of
//! SQLite's on `app.db` deleted them. Ctrl-C of `trace anonymise` left the databases that were not
//! yet anonymous in the directory for temporary files, and other commands left a hidden half of
//! their output. A limit on the size of files (`ulimit -f`) ended runs and reports without a word;
//! a closed standard output lost what was written and was a success.

#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

mod place;

use std::fs;
use std::os::unix::fs::symlink;
use std::process::{Command, Output, Stdio};

use place::Place;

const EXPERIMENT: &str = r#"name = "mine"
repeats = 1
[workload]
name = "mobibench-sql"
transactions = 5
tables = 1
[engine]
name = "sqlite"
[[figure]]
id = "rate"
kind = "bars"
phases = ["insert"]
"#;

fn planned() -> Place {
    let place = Place::new();
    place.write("mine.toml", EXPERIMENT);
    place
}

/// Calls `fathom` as a line of shell says it, where `fathom` is the program.
fn in_a_shell(place: &Place, line: &str) -> Output {
    Command::new("sh")
        .args(["-c", &line.replace("fathom ", &format!("{} ", env!("CARGO_BIN_EXE_fathom")))])
        .current_dir(place.path(""))
        .env("FATHOM_STATE_DIR", place.path("state"))
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn said(output: &Output) -> String {
    format!("{:?}: {}", output.status, String::from_utf8_lossy(&output.stderr))
}

#[test]
fn a_report_replaces_no_page_that_fathom_did_not_make() {
    let place = planned();
    place.write("index.html", "<h1>my site</h1>");
    place.write("page2.html", "<h1>page two</h1>");
    symlink("page2.html", place.path("three.html")).unwrap();
    symlink("nowhere.html", place.path("four.html")).unwrap();
    let before = place.files();
    for out in ["index.db", "three.db", "four.db"] {
        place.fathom(&["run", "mine.toml", "--quiet", "--out", out]).exits(2).says("was not made by Fathom");
    }
    assert_eq!(place.files(), before, "nothing was run, and nothing is there");
    assert_eq!(place.read("index.html"), b"<h1>my site</h1>");
    assert_eq!(place.read("page2.html"), b"<h1>page two</h1>");
    // One of ours is replaced, as before.
    place.fathom(&["run", "mine.toml", "--quiet", "--out", "r.db"]).exits(0);
    fs::remove_file(place.path("r.db")).unwrap();
    place.fathom(&["run", "mine.toml", "--quiet", "--out", "r.db"]).exits(0);
    // A name that was given is the user's wish.
    place.fathom(&["report", "r.db", "--html", "index.html"]).exits(0);
}

#[test]
fn figures_replace_no_picture_that_fathom_did_not_make() {
    let place = planned();
    place.fathom(&["run", "mine.toml", "--quiet", "--out", "r.db"]).exits(0);
    place.fathom(&["report", "r.db", "--svg", "figures"]).exits(0);
    place.fathom(&["report", "r.db", "--svg", "figures"]).exits(0);
    place.write("figures/rate.svg", "<svg>my own</svg>");
    place.fathom(&["report", "r.db", "--svg", "figures"]).exits(2).says("was not made by Fathom");
    assert_eq!(place.read("figures/rate.svg"), b"<svg>my own</svg>");
}

#[test]
fn results_have_no_name_that_sqlite_takes_for_a_part_of_a_database() {
    let place = planned();
    place.sql("app.db", "CREATE TABLE t(a)");
    let before = place.files();
    for out in ["app.db-journal", "app.db-wal", "app.db-shm", "nothing-yet.db-wal"] {
        place.fathom(&["run", "mine.toml", "--quiet", "--out", out]).exits(2).says("a part of a database");
    }
    assert_eq!(place.files(), before);
    // The other way round: what would be taken for a part of the results, and is of another
    // database.
    place.write("moved.db-wal", "commits");
    place.fathom(&["run", "mine.toml", "--quiet", "--out", "moved.db"]).exits(2).says("moved.db-wal");
    assert_eq!(place.read("moved.db-wal"), b"commits");
    assert!(!place.path("moved.db").exists());
}

/// A trace of a database with 40,000 rows, which takes long enough to be interrupted.
fn of_a_large_database(place: &Place) {
    place.sql(
        "app.db",
        "CREATE TABLE people(name TEXT, note TEXT);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40000)
         INSERT INTO people SELECT 'Kunigunde ' || i, hex(randomblob(40)) || ' secret ' || i FROM n",
    );
    place.write("app.sql", "SELECT count(*) FROM people;\n");
    place.fathom(&["trace", "import", "app.sql", "--start", "app.db", "--out", "app.trace"]).exits(0);
}

#[test]
fn a_signal_leaves_nothing_of_what_was_not_yet_anonymous() {
    let place = Place::new();
    of_a_large_database(&place);
    place.write("long.sql", &"SELECT sum(length(note)) FROM people;\n".repeat(3000));
    fs::create_dir(place.path("tmp")).unwrap();
    let before = place.files();
    hear_hangups();
    let anonymise = ["trace", "anonymise", "app.trace", "--out", "a.trace"];
    let import = ["trace", "import", "long.sql", "--start", "app.db", "--out=a.trace"];
    for (words, signal) in [
        (&anonymise[..], libc::SIGINT),
        (&anonymise, libc::SIGTERM),
        (&anonymise, libc::SIGHUP),
        (&import, libc::SIGINT),
    ] {
        let temporary = place.path("tmp");
        let holds = || fs::read_dir(&temporary).unwrap().count() > 0;
        // What happened: on a busy machine the signal came when all was done. Who is so late begins
        // again.
        let in_time = || {
            let running = place.start_with(words, &[("TMPDIR", temporary.to_str().unwrap())]);
            running.holds_before_its_end(holds);
            running.signal(signal);
            let end = running.end();
            let is_late = end.code == Some(0);
            if is_late {
                fs::remove_file(place.path("a.trace")).unwrap();
            }
            (!is_late).then_some(end)
        };
        let end = (0..20).find_map(|_| in_time()).expect("it was done each time");
        assert_eq!(end.code, None, "a signal has ended it: {end}");
        assert!(!holds(), "signal {signal}: {end}");
        assert_eq!(place.files(), before, "signal {signal}");
    }
}

#[test]
fn nothing_stays_of_an_output_that_was_begun_also_after_kill_9() {
    let place = Place::new();
    if !has_nameless_files(&place) {
        println!("SKIP: this file system has no files without a name");
        return;
    }
    place.write("s.trace", "what was there");
    hear_hangups();
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGKILL] {
        let words = ["trace", "synthesise", "facebook", "--scale", "10000", "--out", "s.trace"];
        let running = place.start(&words);
        let process = running.process();
        let is_writing = || {
            let files = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
            let below = place.path("").canonicalize().unwrap();
            let mut links = files.filter_map(|file| fs::read_link(file.path()).ok());
            links.any(|link| link.starts_with(&below))
        };
        running.wait_until_soon(is_writing);
        running.signal(signal);
        let end = running.end();
        assert_eq!(end.code, None, "a signal has ended it: {end}");
        assert_eq!(place.files(), ["s.trace"], "signal {signal}");
        assert_eq!(place.read("s.trace"), b"what was there");
    }
}

/// Under nohup a hangup is ignored, and a child inherits that.
fn hear_hangups() {
    // SAFETY: no handler of ours is installed.
    unsafe { libc::signal(libc::SIGHUP, libc::SIG_DFL) };
}

fn has_nameless_files(place: &Place) -> bool {
    use std::os::unix::fs::OpenOptionsExt;
    let opened =
        fs::OpenOptions::new().write(true).custom_flags(libc::O_TMPFILE).mode(0o600).open(place.path(""));
    opened.is_ok()
}

/// The results of a run that the limit ends go as those of a full disk; a report leaves the old
/// one.
#[test]
fn a_limit_on_the_size_of_files_is_told_and_leaves_nothing() {
    let place = planned();
    let run = in_a_shell(&place, "ulimit -f 8; fathom run mine.toml --quiet --out r.db");
    assert_eq!(run.status.code(), Some(1), "{}", said(&run));
    assert!(said(&run).contains("ulimit -f"), "{}", said(&run));
    let hidden = |place: &Place| place.files().iter().any(|file| file.starts_with('.'));
    assert!(!place.path("r.db").exists() && !hidden(&place), "{:?}", place.files());
    place.fathom(&["run", "mine.toml", "--quiet", "--out", "r.db"]).exits(0);
    let before = place.read("r.html");
    let report = in_a_shell(&place, "ulimit -f 8; fathom report r.db --html r.html");
    assert_eq!(report.status.code(), Some(1), "{}", said(&report));
    assert!(said(&report).contains("ulimit -f"), "{}", said(&report));
    assert!(place.read("r.html") == before && !hidden(&place), "{:?}", place.files());
}

#[test]
fn what_is_written_to_a_closed_or_full_standard_output_is_not_lost_silently() {
    let place = planned();
    place.fathom(&["run", "mine.toml", "--quiet", "--out", "r.db"]).exits(0);
    place.write("s.sql", "CREATE TABLE t(a);\n");
    place.fathom(&["trace", "import", "s.sql", "--out", "s.trace"]).exits(0);
    let words = [
        "report r.db",
        "report r.db --csv",
        "report r.db --json",
        "trace import s.sql --out -",
        "trace replay --dir . s.trace",
        "--help",
        "list",
    ];
    for words in words {
        let closed = in_a_shell(&place, &format!("exec fathom {words} >&-"));
        assert_eq!(closed.status.code(), Some(1), "{words}: {}", said(&closed));
        assert!(said(&closed).contains("is closed"), "{words}: {}", said(&closed));
        let full = in_a_shell(&place, &format!("exec fathom {words} >/dev/full"));
        assert_eq!(full.status.code(), Some(1), "{words}: {}", said(&full));
        // What is asked to go nowhere goes there.
        let nowhere = in_a_shell(&place, &format!("exec fathom {words} >/dev/null"));
        assert_eq!(nowhere.status.code(), Some(0), "{words}: {}", said(&nowhere));
    }
}

/// What happened: a gate whose text had no room on a full disk ended with 1, which says that
/// something is slower.
#[test]
fn a_gate_that_cannot_print_what_it_found_does_not_say_slower() {
    let place = Place::new();
    let numbers = "[1000.0, 1001.0, 999.0]";
    place.write(
        "b.toml",
        &format!(
            "format = \"fathom-baseline\"\nversion = 1\nexperiment = \"e\"\nfathom = \"0.1.0\"\nstarted_ms = 0\n\
             [environment]\n[[cell]]\nlabel = \"wal\"\nsettings = \"0\"\naxes = {{ variants = \"wal\" }}\n\
             [[cell.phase]]\nname = \"update\"\nunit = \"transaction\"\nwall_rate_per_s = {numbers}\n\
             wall_time_ns = {numbers}\n"
        ),
    );
    for (words, to, code) in [
        ("--fail-if-slower 50%", ">/dev/null", 0),
        ("--fail-if-slower 50%", ">/dev/full", 2),
        ("--fail-if-slower 50%", ">&-", 2),
        ("", ">/dev/full", 1),
    ] {
        let done = in_a_shell(&place, &format!("exec fathom compare b.toml b.toml {words} {to}"));
        assert_eq!(done.status.code(), Some(code), "{words} {to}: {}", said(&done));
    }
}

/// A line break in a name of a trace, an experiment or a file pretended to be a line of Fathom's.
#[test]
fn a_line_break_in_a_name_forges_no_line() {
    let place = planned();
    place.write(
        "s.sql",
        "ATTACH 'b\nchecked: forged\nwarning: forged.db' AS o;\nCREATE TABLE o.t(a);\nINSERT INTO o.t VALUES (1);\n",
    );
    let forged = |text: &str| {
        text.lines().any(|line| line.starts_with("checked: forged") || line.starts_with("warning: forged"))
    };
    let import = place.fathom(&["trace", "import", "s.sql", "--out", "s.trace"]);
    assert!(!forged(&import.exits(0).stderr), "{import}");
    let replay = place.fathom(&["trace", "replay", "--dir", ".", "s.trace"]);
    assert!(!forged(&replay.stdout) && !forged(&replay.stderr), "{replay}");
    assert!(replay.stdout.contains("\\nchecked: forged"), "{replay}");
    let run = place.fathom(&["run", "mine.toml", "--quiet", "--out", "new\nwarning: forged.db"]);
    assert!(!forged(&run.exits(0).stdout) && !forged(&run.stderr), "{run}");
    assert!(run.stdout.contains("new\\nwarning: forged.html"), "{run}");
}

#[test]
fn a_folder_of_scripts_is_not_left_by_a_link() {
    let place = Place::new();
    place.write("secret", "password;\n");
    fs::create_dir(place.path("scripts")).unwrap();
    place.write("scripts/a.sql", "SELECT 1;\n");
    symlink("../secret", place.path("scripts/b.sql")).unwrap();
    let words = ["trace", "import", "scripts", "--skip-bad", "--out", "s.trace"];
    place.fathom(&words).exits(2).says("is a link");
    assert!(!place.path("s.trace").exists());
    fs::remove_file(place.path("scripts/b.sql")).unwrap();
    place.fathom(&words).exits(0);
}
