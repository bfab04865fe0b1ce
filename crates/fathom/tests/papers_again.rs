//! `scripts/papers-again.sh`, with a program in the place of Fathom that only notes what it is
//! asked: nothing is measured, and nothing mounted.

#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Two data sets are on its page. A run writes its results; that of p4-flush fails afterwards.
const PROGRAM: &str = r#"#!/usr/bin/env bash
echo "$*" >>"$(dirname "$0")/asked"
case "$1 $2" in
  "papers --list") printf 'p1-card\n  ../results/p1-card.db.zst\nlifetime\n  ../results/lifetime.db.zst\n' ;;
  "trace import") cp "$3" "$5" ;;
  run\ *)
    while [ "$1" != --out ]; do shift; done
    : >"$2"
    [ "$2" != p4-flush.db ] || exit 1
    ;;
esac
"#;

struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    fn new() -> Place {
        let directory = tempfile::tempdir().unwrap();
        let (text, program) = (directory.path().join("text"), directory.path().join("fathom"));
        std::fs::write(&text, PROGRAM).unwrap();
        // By a process of its own: what this one has open for writing is, for a moment, open in
        // what another test starts, and is not executed meanwhile ("Text file busy").
        assert!(Command::new("cp").arg(&text).arg(&program).status().unwrap().success());
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        // So that none is compiled.
        std::fs::create_dir(directory.path().join("out")).unwrap();
        std::fs::write(directory.path().join("out/sqlite-fdatasync.so"), "").unwrap();
        Place { directory }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn again(&self, names: &[&str]) -> Output {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/papers-again.sh");
        Command::new(script)
            .args(names)
            .env("FATHOM", self.path("fathom"))
            .env("OUT", self.path("out"))
            .env("MOBIBENCH", self.path("mobibench"))
            .env("SQLITE", self.path("sqlite"))
            .env_remove("SEED")
            .output()
            .unwrap()
    }

    /// What the program was asked since this was called.
    fn asked(&self) -> String {
        let asked = std::fs::read_to_string(self.path("asked")).unwrap_or_default();
        drop(std::fs::remove_file(self.path("asked")));
        asked
    }
}

/// Results lay in a directory that went with the script: whoever stopped it after hours began anew.
#[test]
fn who_stopped_it_goes_on() {
    let place = Place::new();
    let output = place.again(&["all"]);
    assert!(output.status.success(), "{output:?}");
    let asked = place.asked();
    assert!(
        asked.contains("run p1-card.toml --seed 2") && asked.contains("run lifetime --seed 2"),
        "{asked}"
    );
    assert!(!asked.contains("--resume"), "{asked}");
    let judged = "papers --with p1-card=";
    assert!(asked.contains(judged) && asked.contains(" --with lifetime="), "{asked}");
    assert!(place.again(&["all"]).status.success());
    assert_eq!(place.asked().matches(" --resume").count(), 2);
}

/// A data set that is not on the page was measured for an hour, and its results went with the
/// refusal to judge them.
#[test]
fn what_is_not_on_the_page_is_kept() {
    let place = Place::new();
    let output = place.again(&["p1-sizes"]);
    assert!(output.status.success(), "{output:?}");
    let asked = place.asked();
    assert!(asked.contains("run p1-sizes.toml") && asked.contains("p1-sizes.db.zst"), "{asked}");
    assert!(!asked.contains("--with"), "{asked}");
    assert!(place.path("out/p1-sizes.db").exists());
}

#[test]
fn a_name_that_is_none_is_refused_before_anything_is_measured() {
    let place = Place::new();
    let output = place.again(&["p1-card", "p9"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("p9: no such data set; there are: all p1-card"));
    assert!(!place.asked().contains("run"));
}

/// One failed run ended it, and nothing of the others was judged.
#[test]
fn what_failed_is_told_and_the_others_are_measured() {
    let place = Place::new();
    let output = place.again(&["p4-flush", "p1-card"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("not measured whole: p4-flush"), "{output:?}");
    assert!(place.asked().contains("papers --with p1-card="));
}

/// A release of SQLite that nobody carries any more but its own repository, on a machine without a
/// way there, ended it: what came behind was not measured, and what came before not judged.
#[test]
fn what_cannot_be_made_keeps_nobody_else_from_being_measured() {
    let place = Place::new();
    std::fs::create_dir_all(place.path("sqlite/3.7.11")).unwrap();
    std::fs::write(place.path("sqlite/3.7.11/sqlite3.c"), "#define SQLITE_VERSION \"3.7.8\"\n").unwrap();
    let output = place.again(&["lifetime", "p2-limit", "p1-card"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("SQLite 3.7.11: ") && told.contains("not measured whole: p2-limit;"), "{told}");
    let asked = place.asked();
    assert!(asked.contains("run p1-card.toml") && !asked.contains("run p2-limit.toml"), "{asked}");
    let judged = asked.lines().find(|line| line.starts_with("papers --with ")).unwrap();
    assert!(judged.contains("lifetime=") && judged.contains("p1-card="), "{asked}");
}

/// Recorded calls are imported as they are, and for another experiment with other syncs.
#[test]
fn recorded_calls_are_imported_with_the_syncs_that_are_asked_for() {
    let place = Place::new();
    std::fs::create_dir_all(place.path("mobibench/shell")).unwrap();
    for application in ["facebook", "twitter"] {
        let calls = place.path(&format!("mobibench/shell/mobigen.out.{application}"));
        std::fs::write(calls, "7 82472 fsync 89 0\n").unwrap();
    }
    let output = place.again(&["p3-recorded", "p3-recorded-fdatasync"]);
    assert!(output.status.success(), "{output:?}");
    let imported = |name: &str| std::fs::read_to_string(place.path(&format!("out/mobibench-{name}.calls")));
    assert_eq!(imported("facebook").unwrap(), "7 82472 fsync 89 0\n");
    assert_eq!(imported("twitter-fdatasync").unwrap(), "7 82472 fdatasync 89 0\n");
}
