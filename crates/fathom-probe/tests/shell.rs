//! The loadable extension in the stock `sqlite3` shell.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs the shell on a script; none, with the reason printed, where there is no shell that loads
/// extensions.
fn shell(database: &Path, script: &str) -> Option<String> {
    let library = std::env::current_exe().unwrap().with_file_name("libfathom_probe");
    let child = Command::new("sqlite3")
        .arg(database)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(error) => {
            println!("skipped: no sqlite3 shell ({error}); apt-get install sqlite3");
            return None;
        }
    };
    let script = script.replace("LIBRARY", library.to_str().unwrap());
    child.stdin.take().unwrap().write_all(script.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(errors.is_empty() && output.status.success(), "{errors}");
    Some(String::from_utf8(output.stdout).unwrap())
}

const COUNTS: &str =
    "SELECT class, op, calls FROM fathom_io WHERE op IN ('write', 'sync', 'delete') ORDER BY 1, 2;\n";

#[test]
fn the_open_database_is_measured_after_load() {
    let directory = tempfile::tempdir().unwrap();
    let script = format!(
        "CREATE TABLE t(a);\n.load LIBRARY\nINSERT INTO t VALUES (1);\n{COUNTS}
         UPDATE fathom_io SET calls = 0;\nSELECT count(*) FROM fathom_io WHERE op = 'write';\n.vfsname\n"
    );
    let Some(output) = shell(&directory.path().join("a.db"), &script) else { return };
    assert_eq!(
        output,
        "database|sync|1\ndatabase|write|2\nrollback-journal|delete|1\nrollback-journal|sync|2\n\
         rollback-journal|write|8\n0\nfathom/unix\n"
    );
}

#[test]
fn an_open_wal_is_measured_after_load() {
    let directory = tempfile::tempdir().unwrap();
    let script = format!(
        "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; CREATE TABLE t(a);\n.load LIBRARY\n.load LIBRARY\n\
         INSERT INTO t VALUES (1);\n{COUNTS}"
    );
    let Some(output) = shell(&directory.path().join("a.db"), &script) else { return };
    assert_eq!(output, "wal\nwal|sync|1\nwal|write|2\n");
}

#[test]
fn a_database_opened_after_load_is_measured() {
    let directory = tempfile::tempdir().unwrap();
    let other = directory.path().join("b.db");
    let script = format!(
        ".load LIBRARY\n.open {}\nCREATE TABLE t(a);\nUPDATE fathom_io SET calls = 0;\n\
         INSERT INTO t VALUES (1);\n{COUNTS}.vfsname\n",
        other.display()
    );
    let Some(output) = shell(&directory.path().join("a.db"), &script) else { return };
    assert!(output.contains("rollback-journal|delete|1\n") && output.ends_with("fathom/unix\n"), "{output}");
}
