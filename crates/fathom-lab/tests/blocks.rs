//! The block trace through real workers: what is attributed, on which file systems, and what is drawn without a device.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail by panicking, as tests do")]

use std::collections::BTreeMap;

use fathom_lab::conduct::{Request, prepare, run};
use fathom_lab::experiment::Selection;
use fathom_lab::schedule::{Interrupt, Local};
use fathom_lab::store::{BlockRow, Results, TraceSource};
use fathom_stack::attribution::Cause;
use fathom_stack::blocks::BlockOp;

const WORKER: &str = env!("CARGO_BIN_EXE_fathom-worker");

/// Runs Mobibench's SQL work with the block trace on each value of the axes; images of 300 MiB on the disk.
fn traced(matrix: &str) -> (tempfile::TempDir, Results) {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let disk = directory.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    let source = format!(
        r#"
name = "traced"
repeats = 1
[workload]
name = "mobibench-sql"
transactions = 60
tables = 1
[engine]
name = "sqlite"
synchronous = "full"
[stack]
size_mib = 300
[instruments]
blocks = true
[matrix]
{matrix}
"#
    );
    let request = Request {
        source_name: "traced.toml".into(),
        source,
        selection: Selection::default(),
        directory: disk,
        out: directory.path().join("results.db"),
        command: "fathom run traced.toml".into(),
        ..Request::default()
    };
    let mut world =
        Local::with_worker(request.directory.clone(), Interrupt::new(), vec![WORKER.to_owned().into()]);
    let summary = run(&request, prepare(&request).unwrap(), &mut world, &mut |_| {}).unwrap();
    assert_eq!(summary.failed, [], "every run is good");
    let results = Results::load(&request.out).unwrap();
    (directory, results)
}

fn rows(results: &Results, run: i64) -> Vec<BlockRow> {
    let mut rows = Vec::new();
    results.blocks(run, |row| rows.push(row)).unwrap();
    rows
}

fn written(rows: &[BlockRow]) -> BTreeMap<Cause, u64> {
    let mut bytes = BTreeMap::new();
    for row in rows.iter().filter(|it| it.op == BlockOp::Write) {
        *bytes.entry(row.cause).or_insert(0) += row.bytes;
    }
    bytes
}

fn can_trace(filesystem: &str) -> bool {
    let found = fathom_stack::available_filesystems().into_iter().find(|it| it.filesystem == filesystem);
    let tracefs = fathom_stack::blocks::tracing().is_ok();
    match found {
        Some(found) if found.present && tracefs => true,
        Some(found) => {
            println!("skipped {filesystem}: {}, tracefs {tracefs}", found.detail);
            false
        }
        None => false,
    }
}

/// The proof of the attribution: with each rollback journal on ext4, and with WAL, at least 99 % of the bytes written have
/// an owner, and each owner is there.
#[test]
fn nearly_every_byte_on_ext4_has_an_owner() {
    if !can_trace("ext4") {
        return;
    }
    let (_place, results) = traced(
        "\"stack.filesystem\" = [\"ext4\"]\n\"engine.journal_mode\" = [\"delete\", \"truncate\", \"persist\", \"wal\"]",
    );
    for run in &results.runs {
        let label = &results.cell(run.cell).unwrap().label;
        let trace = results.trace(run.id).unwrap();
        assert_eq!(
            (trace.source, trace.lost_events, trace.unfinished),
            (TraceSource::Device, 0, 0),
            "{label}"
        );
        assert!(trace.windows.len() >= 3, "insert, update, delete: {:?}", trace.windows);
        let rows = rows(&results, run.id);
        let bytes = written(&rows);
        let all: u64 = bytes.values().sum();
        let unknown = bytes.get(&Cause::Unattributed).copied().unwrap_or(0);
        println!("{label}: {bytes:?}");
        assert!(unknown * 100 <= all, "{label}: {unknown} of {all} bytes are unattributed");
        let wal = label.ends_with("wal");
        let journal = if wal { Cause::Wal } else { Cause::RollbackJournal };
        let other = if wal { Cause::RollbackJournal } else { Cause::Wal };
        for cause in [Cause::Database, journal, Cause::FileSystemJournal] {
            assert!(bytes.get(&cause).is_some_and(|it| *it > 0), "{label}: {cause:?} in {bytes:?}");
        }
        // (A database becomes one with a WAL through a rollback journal, before the phases.)
        assert!(!rows.iter().any(|it| it.cause == other && it.window.is_some()), "{label}: {bytes:?}");
        // Each of the 180 transactions writes a page of the journal and one of the database at least; the database only
        // at checkpoints in WAL mode.
        assert!(bytes[&journal] >= 180 * 4096, "{label}: {bytes:?}");
        assert!(wal || bytes[&Cause::Database] >= 180 * 4096, "{label}: {bytes:?}");
        // A rollback journal is synced, then the database: a flush each at least.
        let flushes = rows.iter().filter(|it| it.op == BlockOp::Flush && it.window.is_some()).count();
        assert!(flushes >= if wal { 180 } else { 360 }, "{label}: {flushes} flushes");
        assert!(rows.iter().all(|it| it.submit_ns <= it.issue_ns && it.issue_ns <= it.complete_ns));
        let changed: u64 = trace.windows.iter().map(|it| it.changed_bytes).sum();
        assert!((60 * 200..200_000).contains(&changed), "{label}: {changed} bytes changed");
    }
}

/// Other file systems: the database and its journal are found through their extents wherever FIEMAP answers.
#[test]
fn files_are_found_on_every_file_system_with_an_extent_map() {
    let present: Vec<&str> = ["ext2", "ext3", "xfs", "btrfs", "ntfs"]
        .into_iter()
        .filter(|filesystem| can_trace(filesystem))
        .collect();
    if present.is_empty() {
        return;
    }
    let list = present.iter().map(|it| format!("\"{it}\"")).collect::<Vec<_>>().join(", ");
    let (_place, results) = traced(&format!("\"stack.filesystem\" = [{list}]"));
    for run in &results.runs {
        let label = &results.cell(run.cell).unwrap().label;
        let bytes = written(&rows(&results, run.id));
        println!("{label}: {bytes:?} {:?}", results.trace(run.id).unwrap().remarks);
        for cause in [Cause::Database, Cause::RollbackJournal] {
            assert!(bytes.get(&cause).is_some_and(|it| *it >= 180 * 4096), "{label}: {cause:?} in {bytes:?}");
        }
        let all: u64 = bytes.values().sum();
        let unknown = bytes.get(&Cause::Unattributed).copied().unwrap_or(0);
        // NTFS-3G's metadata is known by its place at the end; a place given back meanwhile is not.
        let allowed = if label.starts_with("ntfs") { 5 } else { 1 };
        assert!(unknown * 100 <= all * allowed, "{label}: {unknown} of {all} bytes are unattributed");
    }
}

/// In a directory there is no device of one's own: the pattern within the files is kept, and says so.
#[test]
fn without_a_device_the_calls_are_kept_and_labelled() {
    let (_place, results) = traced("\"stack.filesystem\" = [\"dir\"]");
    let run = &results.runs[0];
    let trace = results.trace(run.id).unwrap();
    assert_eq!(trace.source, TraceSource::Files);
    assert!(trace.remarks[0].contains("pattern within the files"), "{:?}", trace.remarks);
    let rows = rows(&results, run.id);
    let bytes = written(&rows);
    assert!(bytes[&Cause::Database] >= 180 * 4096 && bytes[&Cause::RollbackJournal] > 0, "{bytes:?}");
    assert!(rows.iter().any(|it| it.op == BlockOp::Flush && it.window.is_some()));
}
