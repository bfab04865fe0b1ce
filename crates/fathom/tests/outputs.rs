//! What a command is told to write to, through the binary as a user calls it.
//!
//! What happened: `--out`, `--html` and `--svg` renamed a new file over whatever the name led to:
//! the machine's null device, FIFOs, links, the results that were just measured
//! (`run x.toml --out r.html`, `report r.db --html r.db`), the input
//! (`trace import s.sql --out s.sql`); a figure called `../x` was written elsewhere; a full disk
//! under standard output was a panic; names in traces told the terminal what to do. The rules are
//! in the documentation of `fathom-output`, and each is tested there; here it is that every command
//! follows them.

#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

mod place;

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use place::Place;

const EXPERIMENT: &str = r#"name = "mine"
repeats = 1
[workload]
name = "mobibench-sql"
transactions = 5
tables = 1
[engine]
name = "sqlite"
[matrix]
"engine.journal_mode" = ["wal", "off"]
[[figure]]
id = "rate"
kind = "bars"
phases = ["insert"]
"#;

fn measured() -> Place {
    let place = Place::new();
    place.write("mine.toml", EXPERIMENT);
    place.fathom(&["run", "mine.toml", "--quiet", "--out", "r.db"]).exits(0);
    place
}

fn make_fifo(path: &Path) {
    let name = std::ffi::CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: the name ends with a zero byte and outlives the call.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
}

#[test]
fn results_are_never_replaced_by_what_is_made_of_them() {
    let place = measured();
    let before = place.read("r.db");
    symlink("r.db", place.path("soft")).unwrap();
    fs::hard_link(place.path("r.db"), place.path("hard")).unwrap();
    for name in ["r.db", "soft", "hard", "./r.db"] {
        place.fathom(&["report", "r.db", "--html", name]).exits(2).says("is the input itself");
        place
            .fathom(&["report", "r.db", "--figure", "rate", "--svg", name])
            .exits(2)
            .says("is the input itself");
        for words in [
            &["trace", "synthesise", "gmail", "--scale", "2", "--out", name][..],
            &["trace", "capture", "--out", name, "--", "true"],
            &["trace", "extension", name],
            &["stack", "calibrate", ".", "--quick", "--size", "16", "--out", name],
        ] {
            place.fathom(words).exits(2).says("holds results of Fathom");
        }
    }
    place.fathom(&["report", "r.db", "--svg", "r.db"]).exits(2).says("no directory");
    place.fathom(&["report", "r.db", "--html", "r.db-wal"]).exits(2).says("a part of");
    assert_eq!(place.read("r.db"), before);
    // The report of a run has the results' name but for its end.
    place.fathom(&["run", "mine.toml", "--out", "s.html"]).exits(2).says("the report would have this name");
    place.fathom(&["run", "mine.toml", "--out", "-"]).exits(2).says("kept in a file");
    place.write("page.html", EXPERIMENT);
    place.fathom(&["run", "page.html", "--quiet", "--out", "page.db"]).exits(2).says("is the input itself");
    assert_eq!(place.read("page.html"), EXPERIMENT.as_bytes());
    // Two outputs of one command are two.
    place.fathom(&["report", "r.db", "--html", "one", "--figure", "rate", "--svg", "one"]).exits(2);
    // What happened: the figure and the CSV stood behind each other in one file.
    for rest in
        [&["--html", "-", "--csv"][..], &["--figure", "rate", "--csv"], &["--figure", "rate", "--html", "-"]]
    {
        let arguments: Vec<&str> = ["report", "r.db"].iter().chain(rest).copied().collect();
        place.fathom(&arguments).exits(2).says("both would go to standard output");
    }
    // What happened: it was a CSV without single executions, and no word of it.
    place.fathom(&["report", "r.db", "--csv", "--samples"]).exits(2);
}

#[test]
fn every_output_goes_to_standard_output_through_a_link_and_into_a_fifo() {
    let place = measured();
    let page = place.fathom(&["report", "r.db", "--html", "-"]);
    assert!(page.exits(0).stdout.starts_with("<!"), "{page}");
    let figure = place.fathom(&["report", "r.db", "--figure", "rate", "--svg", "/dev/stdout"]);
    assert!(figure.exits(0).stdout.starts_with("<svg"), "{figure}");
    // What happened: the comparison in words stood behind the page, which it was then a part of.
    let page = place.fathom(&["compare", "r.db", "r.db", "--html", "-"]);
    assert!(page.exits(0).stdout.trim_end().ends_with("</html>"), "{page}");
    place.write("target", "old");
    symlink("target", place.path("link")).unwrap();
    place.fathom(&["report", "r.db", "--html", "link"]).exits(0);
    assert!(fs::symlink_metadata(place.path("link")).unwrap().is_symlink());
    assert!(place.read("target").starts_with(b"<!"));
    make_fifo(&place.path("pipe"));
    let reader = std::thread::spawn({
        let path = place.path("pipe");
        move || fs::read(path).unwrap()
    });
    place.fathom(&["trace", "synthesise", "gmail", "--scale", "2", "--out", "pipe"]).exits(0);
    place.fathom(&["trace", "synthesise", "gmail", "--scale", "2", "--out", "file"]).exits(0);
    assert_eq!(reader.join().unwrap(), place.read("file"));
    assert!(fs::symlink_metadata(place.path("pipe")).unwrap().file_type().is_fifo());
    place.fathom(&["report", "pipe"]).exits(1).says("no regular file");
    place.fathom(&["trace", "capture", "--out", "-", "--", "true"]).exits(2).says("standard output itself");
    // What happened: `fathom trace info -` was said to be next, which looks for a file of this name.
    let end = place.fathom(&["trace", "synthesise", "gmail", "--scale", "2", "--out", "-"]);
    assert!(!end.exits(0).stderr.contains("trace info"), "{end}");
}

#[test]
fn a_device_node_is_written_to_by_every_command_that_writes_and_never_replaced() {
    let place = measured();
    let name = std::ffi::CString::new(place.path("null").as_os_str().as_bytes()).unwrap();
    // The kernel's null device under a name of our own.
    // SAFETY: the name ends with a zero byte and outlives the call.
    if unsafe { libc::mknod(name.as_ptr(), libc::S_IFCHR | 0o600, libc::makedev(1, 3)) } != 0 {
        return println!("skipped: device nodes need root");
    }
    place.write("s.sql", "CREATE TABLE t (a); INSERT INTO t VALUES (1);");
    place.fathom(&["trace", "import", "s.sql", "--out", "s.trace"]).exits(0);
    for words in [
        &["trace", "synthesise", "gmail", "--scale", "2", "--out", "null"][..],
        &["trace", "import", "s.sql", "--out", "null"],
        &["trace", "anonymise", "s.trace", "--out", "null"],
        &["trace", "extension", "null"],
        &["report", "r.db", "--html", "null"],
        &["report", "r.db", "--figure", "rate", "--svg", "null"],
    ] {
        let end = place.fathom(words);
        // Where the directory is mounted `nodev`, it cannot be opened, which is as well.
        assert!(matches!(end.code, Some(0 | 1)), "{end}");
        assert!(fs::symlink_metadata(place.path("null")).unwrap().file_type().is_char_device(), "{end}");
    }
}

#[test]
fn an_input_is_never_replaced() {
    let place = Place::new();
    let text = "CREATE TABLE t (a); INSERT INTO t VALUES (1);";
    place.write("s.sql", text);
    fs::hard_link(place.path("s.sql"), place.path("hard")).unwrap();
    for name in ["s.sql", "hard", "./s.sql"] {
        place.fathom(&["trace", "import", "s.sql", "--out", name]).exits(2).says("is the input itself");
    }
    fs::create_dir(place.path("w")).unwrap();
    place.write("w/load.sql", text);
    place.fathom(&["trace", "import", "w", "--out", "w/load.sql"]).exits(2).says("is the input itself");
    place.write("app.sh", "exit 0");
    place
        .fathom(&["trace", "capture", "--out", "app.sh", "--", "sh", "app.sh"])
        .exits(2)
        .says("is the input itself");
    assert_eq!(place.read("s.sql"), text.as_bytes());
    assert_eq!(place.read("w/load.sql"), text.as_bytes());
    assert_eq!(place.read("app.sh"), b"exit 0");
}

#[test]
fn a_figure_and_an_experiment_whose_name_is_a_path_are_refused_with_the_line() {
    let place = Place::new();
    place.write("id.toml", &EXPERIMENT.replace("id = \"rate\"", "id = \"../x\""));
    place.fathom(&["run", "id.toml", "--plan"]).exits(2).says("id.toml:12: \"../x\" cannot be an id");
    place.write("name.toml", &EXPERIMENT.replace("\"mine\"", "\"..\""));
    place.fathom(&["run", "name.toml", "--plan"]).exits(2).says("name.toml:1: \"..\" cannot be a name");
    assert_eq!(place.files(), ["id.toml", "name.toml"]);
    // From results that somebody else has made.
    let place = measured();
    fs::create_dir(place.path("figures")).unwrap();
    place.sql(
        "r.db",
        "UPDATE experiment SET source = replace(source, 'id = \"rate\"', 'id = \"../x\"');
         DROP TABLE checksum; DROP TABLE phase_model; DROP TABLE recording; DROP TABLE power_cut; PRAGMA user_version = 5;",
    );
    place.fathom(&["report", "r.db", "--svg", "figures"]).exits(0);
    assert!(!place.path("x.svg").exists(), "{:?}", place.files());
}

#[test]
fn words_for_mkfs_and_mount_that_name_a_device_are_refused_at_the_plan_and_at_stack_up() {
    let place = Place::new();
    for (key, word) in
        [("mkfs", "[\"/dev/loop2\"]"), ("mkfs", "[\"-J\", \"device=sdb\"]"), ("mount", "\"loop\"")]
    {
        place.write(
            "m.toml",
            &EXPERIMENT
                .replace("[matrix]", &format!("[stack]\nfilesystem = \"ext4\"\n{key} = {word}\n[matrix]")),
        );
        place.fathom(&["run", "m.toml", "--plan"]).exits(2).says("m.toml:11: ");
    }
    let up = |words: &[&str]| {
        place.fathom(&[&["stack", "up", "--fs", "ext4", "--name", "words-of-a-test"], words].concat())
    };
    up(&["--mkfs", "/dev/loop2"]).exits(2).says("names a path");
    up(&["--mkfs", "loop2"]).exits(2).says("is no option");
    up(&["--mount", "logdev=/dev/loop2"]).exits(2).says("names a path");
    up(&["--mount", "loop"]).exits(2).says("no part of the stack");
}

#[test]
fn a_full_or_closed_standard_output_is_an_error_and_no_panic() {
    let place = measured();
    place.fathom(&["trace", "synthesise", "gmail", "--scale", "2", "--out", "g.trace"]).exits(0);
    for words in [
        &["doctor"][..],
        &["doctor", "--json"],
        &["list"],
        &["list", "profiles"],
        &["list", "--json"],
        &["list", "--show", "first-look"],
        &["run", "mine.toml", "--plan"],
        &["report", "r.db"],
        &["report", "r.db", "--csv"],
        &["report", "r.db", "--json"],
        &["report", "r.db", "--html", "-"],
        &["report", "r.db", "--figure", "rate"],
        &["compare", "r.db", "r.db"],
        &["compare", "r.db", "r.db", "--json"],
        &["trace", "info", "g.trace"],
        &["trace", "info", "g.trace", "--json"],
        &["trace", "replay", "g.trace", "--dir", "."],
        &["trace", "synthesise", "gmail", "--scale", "2", "--out", "-"],
        &["stack", "list", "--json"],
    ] {
        let command = |stdout: Stdio, stderr: Stdio| {
            Command::new(env!("CARGO_BIN_EXE_fathom"))
                .args(words)
                .current_dir(place.path(""))
                .env("FATHOM_STATE_DIR", place.path("state"))
                .stdin(Stdio::null())
                .stdout(stdout)
                .stderr(stderr)
                .spawn()
                .unwrap()
        };
        let full = || Stdio::from(fs::OpenOptions::new().write(true).open("/dev/full").unwrap());
        let end = command(full(), Stdio::piped()).wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&end.stderr);
        assert!(!said.contains("panicked") && said.contains("No space left"), "{words:?}: {said}");
        assert_eq!(end.status.code(), Some(1), "{words:?}: {said}");
        // Nobody can be told of anything.
        assert_eq!(command(full(), full()).wait().unwrap().code(), Some(1), "{words:?}");
        // Whoever read has gone.
        let mut child = command(Stdio::piped(), Stdio::piped());
        drop(child.stdout.take());
        let end = child.wait_with_output().unwrap();
        assert!(!String::from_utf8_lossy(&end.stderr).contains("panicked"), "{words:?}");
    }
}

#[test]
fn what_a_trace_or_an_experiment_says_is_shown_and_not_obeyed() {
    let place = Place::new();
    place.write(
        "evil\x1b]0;owned\x07.sql",
        "CREATE TABLE \"t\x1b[2J\" (a); INSERT INTO \"t\x1b[2J\" VALUES (1);",
    );
    place.fathom(&["trace", "import", "evil\x1b]0;owned\x07.sql", "--out", "e.trace"]).exits(0);
    place.write(
        "e.toml",
        &EXPERIMENT
            .replace("\"insert\"", "\"\u{9b}2J\x7f\"")
            .replace("[matrix]", "[matrix]\n\"x\u{202e}\" = 1"),
    );
    for words in [&["trace", "info", "e.trace"][..], &["run", "e.toml", "--plan"]] {
        let end = place.fathom(words);
        for text in [&end.stdout, &end.stderr] {
            assert!(!text.chars().any(|c| c.is_control() && !"\n\t".contains(c) || c == '\u{202e}'), "{end}");
        }
    }
    let info = place.fathom(&["trace", "info", "e.trace"]);
    assert!(info.stdout.contains("evil\\u{1b}]0;owned\\u{7}.sql"), "{info}");
}

#[test]
fn the_directory_of_the_results_is_made_with_and_without_a_directory_under_test() {
    let place = Place::new();
    place.write("mine.toml", EXPERIMENT);
    fs::create_dir(place.path("disk")).unwrap();
    place.fathom(&["run", "mine.toml", "--quiet", "--dir", "disk", "--out", "new/r.db"]).exits(0);
    assert!(place.path("new/r.html").exists());
}

#[test]
fn a_directory_whose_name_is_no_text_is_refused_before_the_plan() {
    let place = Place::new();
    place.write("mine.toml", EXPERIMENT);
    let name = std::ffi::OsStr::from_bytes(b"d\xff");
    fs::create_dir(place.path("").join(name)).unwrap();
    for (words, option) in [(&["run", "mine.toml", "--plan"][..], "--dir"), (&["stack", "up"], "--dir")] {
        let end = Command::new(env!("CARGO_BIN_EXE_fathom"))
            .args(words)
            .arg(option)
            .arg(name)
            .current_dir(place.path(""))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&end.stderr);
        assert!(end.status.code() == Some(2) && said.contains("not text (UTF-8)"), "{words:?}: {said}");
        assert!(end.stdout.is_empty(), "nothing is planned");
    }
}

#[test]
fn two_runs_never_go_on_with_the_same_results_at_once() {
    let place = Place::new();
    place.write("long.toml", &EXPERIMENT.replace("transactions = 5", "transactions = 200000"));
    let running = place.start(&["run", "long.toml", "--quiet", "--out", "r.db"]);
    running.wait_until(|| !place.rows_or_empty("r.db", "SELECT name FROM experiment").is_empty());
    place
        .fathom(&["run", "long.toml", "--quiet", "--resume", "--out", "r.db"])
        .exits(1)
        .says("is writing to these results; wait for it");
    // Reading goes on.
    place.fathom(&["report", "r.db"]).exits(0);
    running.kill();
    // It has its lock until it has ended, which a disk that is slow makes it wait for.
    running.end();
    // Nothing is left of a killed run's lock.
    place.write("long.toml", &EXPERIMENT.replace("transactions = 5", "transactions = 200000"));
    let second = place.start(&["run", "long.toml", "--quiet", "--resume", "--out", "r.db"]);
    second.wait_for_child("worker");
    second.interrupt();
    assert!(!second.end().stderr.contains("is writing"), "the lock was stale");
}

/// The guard of the rule: whoever writes a file in another way than by `fathom_output` in a
/// command, or in a library that makes the outputs of one, must say here why.
#[test]
fn no_command_writes_a_file_in_a_way_of_its_own() {
    const ALLOWED: [(&str, &str); 8] = [
        ("fathom/src/commands/run/results_file.rs", "moves earlier results aside, to a name that is free"),
        ("fathom/src/commands/cut/recordings.rs", "the list of its own recordings, which no output replaces"),
        ("fathom/src/commands/record/file.rs", "the lock of its own hidden directory"),
        ("fathom-trace/src/start.rs", "the databases of a replay, in its own directory"),
        ("fathom-trace/src/anonymise/mod.rs", "databases, in a temporary directory"),
        ("fathom-trace/src/import/private.rs", "databases, in a temporary directory"),
        ("fathom-trace/src/capture/library.rs", "the capture library, in the spool's directory"),
        ("fathom-trace/src/spool/file.rs", "opens for reading alone, without following links"),
    ];
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut found = Vec::new();
    for room in ["fathom/src", "fathom-report/src", "fathom-trace/src"] {
        let mut directories = vec![crates.join(room)];
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    directories.push(path);
                    continue;
                }
                let name = path.strip_prefix(crates).unwrap().to_str().unwrap().to_owned();
                if !name.ends_with(".rs")
                    || name.ends_with("tests.rs")
                    || ALLOWED.iter().any(|(value, _)| *value == name)
                {
                    continue;
                }
                let text = fs::read_to_string(&path).unwrap();
                let code = text.split("#[cfg(test)]").next().unwrap_or_default();
                let ways = [
                    "File::create",
                    "fs::write",
                    "fs::rename",
                    "fs::copy",
                    "OpenOptions",
                    ".persist(",
                    "File::options",
                ];
                found.extend(
                    ways.iter().filter(|way| code.contains(**way)).map(|way| format!("{name}: {way}")),
                );
            }
        }
    }
    assert!(found.is_empty(), "write it by fathom_output: {found:#?}");
}
