//! What cannot be made again stays, and what could not both be written is refused at once.
//!
//! What happened: `--html`, `--svg`, `--perfetto`, `--junit`, `--out` and `--excerpt` wrote over
//! traces, once the very trace that the command was reading (`advise r.db --must prefix --html
//! r.trace` recorded from r.trace, which r.db names, and then wrote its report over it). And
//! `--out X --html ./X` was refused only after minutes, with the answer lost.

#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

mod place;

use std::os::unix::fs::symlink;

use place::Place;

/// Results of an imported trace, which they name.
fn measured() -> Place {
    let place = Place::new();
    place.write("s.sql", "CREATE TABLE t (a); INSERT INTO t VALUES (1); INSERT INTO t VALUES (2);");
    place.fathom(&["trace", "import", "s.sql", "--out", "app.trace"]).exits(0);
    let run = ["run", "first-look", "--trace", "app.trace", "--repeat", "1", "--quiet", "--dir", "."];
    place.fathom(&[&run[..], &["--set", "variants=wal/full", "--out", "r.db"]].concat()).exits(0);
    place
}

/// Every command that writes, each of its outputs put into the place of `name`.
fn writers(name: &str) -> Vec<Vec<&str>> {
    vec![
        vec!["report", "r.db", "--html", name],
        vec!["report", "r.db", "--excerpt", name],
        vec!["report", "r.db", "--figure", "rate", "--svg", name],
        vec!["compare", "r.db", "r.db", "--html", name],
        vec!["compare", "r.db", "r.db", "--fail-if-slower", "50", "--junit", name],
        vec!["anatomy", "r.db", "--svg", name],
        vec!["anatomy", "r.db", "--perfetto", name],
        vec!["baseline", "r.db", "--out", name],
        vec!["simulate", "r.db", "--html", name],
        vec!["simulate", "r.db", "--svg", name],
        vec!["simulate", "app.trace", "--out", name],
        vec!["advise", "r.db", "--html", name],
        vec!["advise", "app.trace", "--out", name],
        vec!["trace", "extension", name],
        vec!["stack", "calibrate", ".", "--quick", "--size", "16", "--out", name],
    ]
}

#[test]
fn no_output_of_any_command_replaces_a_trace_or_a_spool() {
    let place = measured();
    symlink("app.trace", place.path("link")).unwrap();
    place.fathom(&["trace", "synthesise", "gmail", "--scale", "2", "--out", "other.trace"]).exits(0);
    place.write("spool", "FSPOOL1\nand what an application did");
    let kept = ["app.trace", "other.trace", "spool"].map(|name| (name, place.read(name)));
    for name in ["app.trace", "link", "other.trace", "spool"] {
        for words in writers(name) {
            place.fathom(&words).exits(2).says("name another file");
        }
    }
    // What is asked for as a trace may be one, and is never a spool.
    place.fathom(&["trace", "import", "s.sql", "--out", "spool"]).exits(2).says("a spool of");
    for (name, bytes) in kept {
        assert_eq!(place.read(name), bytes, "{name}");
    }
    place.fathom(&["trace", "import", "s.sql", "--out", "other.trace"]).exits(0);
}

/// The file that results name is an input, whatever is in it now.
#[test]
fn what_results_name_is_an_input_of_whoever_reads_them() {
    let place = measured();
    place.write("app.trace", "notes that took the trace's place");
    for words in [
        &["report", "r.db", "--html", "app.trace"][..],
        &["report", "r.db", "--excerpt", "./app.trace"],
        &["compare", "r.db", "r.db", "--fail-if-slower", "50", "--junit", "app.trace"],
        &["anatomy", "r.db", "--perfetto", "app.trace"],
        &["baseline", "r.db", "--out", "app.trace"],
        &["simulate", "r.db", "--svg", "app.trace"],
        &["advise", "r.db", "--html", "app.trace"],
    ] {
        place.fathom(words).exits(2).says("is the input itself");
    }
    assert_eq!(place.read("app.trace"), b"notes that took the trace's place");
}

/// What happened: `fathom baseline r.db --out mine.toml` wrote over the experiment of that name.
#[test]
fn a_baseline_replaces_a_baseline_and_nothing_else() {
    let place = measured();
    let own = "name = \"mine\"\n# compared with fathom-baseline.toml\n";
    place.write("mine.toml", own);
    place.write("main.c", "int main(void) { return 0; }\n");
    for name in ["mine.toml", "main.c"] {
        place
            .fathom(&["baseline", "r.db", "--out", name])
            .exits(2)
            .says("is no baseline, and would be replaced");
    }
    assert_eq!(place.read("mine.toml"), own.as_bytes());
    // One is replaced also where a merge has spoilt it, and so is what is empty.
    place.write("spoilt.toml", "<<<<<<< ours\nformat = \"fathom-baseline\"\n=======\n");
    place.write("empty.toml", "");
    for name in ["new.toml", "new.toml", "spoilt.toml", "empty.toml"] {
        place.fathom(&["baseline", "r.db", "--out", name]).exits(0);
    }
    assert_eq!(place.read("new.toml"), place.read("spoilt.toml"));
}

/// A capture is of a program's own run, which is over.
#[test]
fn a_capture_is_not_replaced_by_another_trace() {
    let place = measured();
    let script = "import sqlite3; c = sqlite3.connect('a.db'); c.execute('CREATE TABLE t(a)')";
    let capture = ["trace", "capture", "--out", "own.trace", "--", "python3", "-c", script];
    if place.fathom(&capture).code != Some(0) {
        return println!("SKIP: python3 with SQLite is needed");
    }
    let kept = place.read("own.trace");
    for words in [
        &capture[..],
        &["trace", "import", "s.sql", "--out", "own.trace"],
        &["trace", "synthesise", "gmail", "--scale", "2", "--out", "own.trace"],
    ] {
        place.fathom(words).exits(2).says("is a capture");
    }
    assert_eq!(place.read("own.trace"), kept);
}

#[test]
fn two_outputs_in_one_place_are_refused_before_anything_is_done() {
    let place = measured();
    let before = place.files();
    for words in [
        &["advise", "app.trace", "--out", "x.db", "--html", "x.db"][..],
        &["advise", "app.trace", "--out", "x.db", "--html", "./x.db"],
        &["advise", "app.trace", "--out", "x.db", "--html", "x.db-wal"],
        &["advise", "app.trace", "--out", "app-advice.html", "--html", "."],
        &["simulate", "app.trace", "--out", "x", "--html", "./x"],
        &["simulate", "app.trace", "--out", "x", "--svg", "x"],
        &["simulate", "r.db", "--svg", "./x", "--html", "x"],
        &["anatomy", "r.db", "--svg", "x", "--perfetto", "./x"],
        &["compare", "r.db", "r.db", "--fail-if-slower", "50", "--html", "x", "--junit", "././x"],
        &["report", "r.db", "--html", "./x", "--excerpt", "x"],
        &["report", "r.db", "--html", "./x", "--figure", "rate", "--svg", "x"],
        &["stack", "up", "--fs", "ext4", "--keep", "x", "--operations", "./x"],
        // "x.data is another stack's" was said of it.
        &["stack", "up", "--device", "none", "--keep", "x.data", "--operations", "./x", "--capture"],
    ] {
        let end = place.fathom(words);
        end.exits(2);
        let told = ["name the same file", "both would write"].iter().any(|text| end.stderr.contains(text));
        assert!(told, "{end}");
    }
    place.fathom(&["simulate", "app.trace", "--out", "-"]).exits(2).says("kept in a file");
    assert_eq!(place.files(), before);
}

/// What happened: `report r.db --html x.html --figure nope` wrote the page, replacing an earlier
/// one, and then said that it had been asked wrongly.
#[test]
fn a_report_that_is_asked_wrongly_writes_nothing() {
    let place = measured();
    let before = place.files();
    for (words, says) in [
        (&["--figure", "nope"][..], "no figure"),
        (&["--blocks"], "no block trace"),
        (&["--requests", "--json"], "no block trace"),
    ] {
        let words = [&["report", "r.db", "--html", "x.html", "--excerpt", "x.db.zst"], words].concat();
        place.fathom(&words).exits(2).says(says);
        assert_eq!(place.files(), before, "{words:?}");
    }
}

/// What happened: `error: the recording:18: unknown file system "ext4,xfs"`, of a line that nobody
/// had written; and of `--fs` and `--set filesystem` one was ignored without a word.
#[test]
fn file_systems_are_named_as_for_advice_and_once() {
    let place = measured();
    for (words, says) in [
        (&["--fs", "ext4,ext4"][..], "--fs: ext4 is given twice"),
        (&["--fs", "ext4", "--fs", "ext4"], "--fs: ext4 is given twice"),
        (&["--fs", "ext4,"], "a name is missing before or after a comma"),
        (&["--fs", "ext4,nosuch"], "\"nosuch\": `fathom list filesystems` shows them"),
        (&["--fs", "ext5"], "did you mean `ext4`? `fathom list filesystems`"),
        (&["--fs", "ext4", "--set", "filesystem=xfs"], "both name the file system"),
        (&["--fs", "ext4", "--set", "stack.filesystem=xfs"], "both name the file system"),
    ] {
        let end = place.fathom(&[&["simulate", "app.trace"], words].concat());
        // SAFETY: geteuid has no preconditions and cannot fail.
        if unsafe { libc::geteuid() } != 0 {
            return println!("SKIP: recording needs root");
        }
        end.exits(2).says(says);
    }
}
