//! The block trace through real workers: what is attributed, on which file systems, and what is
//! drawn without a device.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail by panicking, as tests do")]

use std::collections::BTreeMap;

use fathom_lab::conduct::{Request, prepare, run};
use fathom_lab::experiment::Selection;
use fathom_lab::schedule::{Interrupt, Local};
use fathom_lab::store::{BlockRow, Results, TraceSource};
use fathom_stack::attribution::Cause;
use fathom_stack::blocks::BlockOp;

const WORKER: &str = env!("CARGO_BIN_EXE_fathom-worker");

/// Runs Mobibench's SQL work with the block trace on each value of the axes.
fn traced(matrix: &str) -> (tempfile::TempDir, Results) {
    traced_work(
        "[workload]\nname = \"mobibench-sql\"\ntransactions = 60\ntables = 1\n\
         [engine]\nname = \"sqlite\"\nsynchronous = \"full\"\n",
        matrix,
    )
}

/// Runs a workload with the block trace on each value of the axes; images of 300 MiB on the disk.
fn traced_work(workload: &str, matrix: &str) -> (tempfile::TempDir, Results) {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let disk = directory.path().join("disk");
    std::fs::create_dir(&disk).unwrap();
    let source = format!(
        r#"
name = "traced"
repeats = 1
{workload}
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
    for row in rows.iter().filter(|row| row.op == BlockOp::Write) {
        *bytes.entry(row.cause).or_insert(0) += row.bytes;
    }
    bytes
}

fn can_trace(filesystem: &str) -> bool {
    let found =
        fathom_stack::available_filesystems().into_iter().find(|other| other.filesystem == filesystem);
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

/// The proof of the attribution: with each rollback journal on ext4, and with WAL, at least 99 % of
/// the bytes written have an owner, and each owner is there.
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
            assert!(bytes.get(&cause).is_some_and(|byte| *byte > 0), "{label}: {cause:?} in {bytes:?}");
        }
        // (A database becomes one with a WAL through a rollback journal, before the phases.)
        assert!(!rows.iter().any(|row| row.cause == other && row.window.is_some()), "{label}: {bytes:?}");
        // Each of the 180 transactions writes a page of the journal and one of the database at
        // least; the database only at checkpoints in WAL mode.
        assert!(bytes[&journal] >= 180 * 4096, "{label}: {bytes:?}");
        assert!(wal || bytes[&Cause::Database] >= 180 * 4096, "{label}: {bytes:?}");
        // A rollback journal is synced, then the database: a flush each at least.
        let flushes = rows.iter().filter(|row| row.op == BlockOp::Flush && row.window.is_some()).count();
        assert!(flushes >= if wal { 180 } else { 360 }, "{label}: {flushes} flushes");
        assert!(rows.iter().all(|row| row.submit_ns <= row.issue_ns && row.issue_ns <= row.complete_ns));
        let changed: u64 = trace.windows.iter().map(|window| window.changed_bytes).sum();
        assert!((60 * 200..200_000).contains(&changed), "{label}: {changed} bytes changed");
    }
}

/// Other file systems: the database and its journal are found through their extents wherever FIEMAP
/// answers.
#[test]
fn files_are_found_on_every_file_system_with_an_extent_map() {
    let present: Vec<&str> = ["ext2", "ext3", "xfs", "btrfs", "ntfs"]
        .into_iter()
        .filter(|filesystem| can_trace(filesystem))
        .collect();
    if present.is_empty() {
        return;
    }
    let list = present.iter().map(|value| format!("\"{value}\"")).collect::<Vec<_>>().join(", ");
    let (_place, results) = traced(&format!("\"stack.filesystem\" = [{list}]"));
    for run in &results.runs {
        let label = &results.cell(run.cell).unwrap().label;
        let bytes = written(&rows(&results, run.id));
        println!("{label}: {bytes:?} {:?}", results.trace(run.id).unwrap().remarks);
        for cause in [Cause::Database, Cause::RollbackJournal] {
            assert!(
                bytes.get(&cause).is_some_and(|byte| *byte >= 180 * 4096),
                "{label}: {cause:?} in {bytes:?}"
            );
        }
        let all: u64 = bytes.values().sum();
        let unknown = bytes.get(&Cause::Unattributed).copied().unwrap_or(0);
        // NTFS-3G's metadata is known by its place at the end; a place given back meanwhile is not.
        let allowed = if label.starts_with("ntfs") { 5 } else { 1 };
        assert!(unknown * 100 <= all * allowed, "{label}: {unknown} of {all} bytes are unattributed");
    }
}

/// Plain files whose blocks are known to be written: each of 3 passes writes 64 records of 4 KiB.
///
/// `append` begins with a new file: the one before it is deleted, and with it went the owner of all
/// that the passes before had written. 128 of 300 writes had none, and the ladder told "2.29 KiB of
/// files" under 4 KiB written. On Btrfs every write moves its block, and only the last place of
/// each was known.
#[test]
fn plain_files_have_an_owner_also_after_they_are_deleted_or_moved() {
    const PASSES: u64 = 3;
    const PASS_BYTES: u64 = 64 * 4096;
    let present: Vec<&str> = ["ext4", "ext3", "ext2", "xfs", "btrfs", "ntfs", "f2fs", "vfat"]
        .into_iter()
        .filter(|filesystem| can_trace(filesystem))
        .collect();
    if present.is_empty() {
        return;
    }
    let list = present.iter().map(|value| format!("\"{value}\"")).collect::<Vec<_>>().join(", ");
    let (_place, results) = traced_work(
        "[workload]\nname = \"mobibench-file\"\nfile_kib = 256\nsync = \"fsync\"\n\
         accesses = [\"write\", \"random-write\", \"append\"]\n",
        &format!(
            "\"stack.filesystem\" = [{list}]\n\"workload.sync\" = [\"fsync\", \"o_direct+o_sync\", \"none\"]"
        ),
    );
    for run in &results.runs {
        let label = &results.cell(run.cell).unwrap().label;
        let all_rows = rows(&results, run.id);
        let in_phases: Vec<BlockRow> = all_rows.iter().filter(|row| row.window.is_some()).copied().collect();
        let bytes = written(&in_phases);
        println!("{label}: {bytes:?}");
        let of_files = bytes.get(&Cause::OtherFile).copied().unwrap_or(0);
        let trace = results.trace(run.id).unwrap();
        assert_eq!((trace.lost_events, trace.unfinished), (0, 0), "{label}");
        assert_eq!(of_files, PASSES * PASS_BYTES, "{label}: {bytes:?}");
        // What is prepared before the phases has an owner, too.
        for bytes in [bytes, written(&all_rows)] {
            let all: u64 = bytes.values().sum();
            let unknown = bytes.get(&Cause::Unattributed).copied().unwrap_or(0);
            let allowed = if label.starts_with("ntfs") { 5 } else { 1 };
            assert!(unknown * 100 <= all * allowed, "{label}: {unknown} of {all} bytes are unattributed");
        }
    }
    let studies = fathom_lab::analysis::block_studies(&results).unwrap();
    for study in studies.iter().filter(|study| study.phase == fathom_lab::analysis::ALL_PHASES) {
        let known: f64 = study.written.iter().sum::<f64>() - study.ladder.unattributed.unwrap();
        assert_eq!(Some(known + study.ladder.unattributed.unwrap()), study.ladder.device);
    }
}

/// A recording of file calls as phones make them: a rollback journal is made, synced and deleted
/// for each write of the database, and its blocks are soon another journal's.
#[test]
fn recorded_journals_that_are_deleted_keep_their_owner() {
    const TRANSACTIONS: u64 = 40;
    if !can_trace("ext4") {
        return;
    }
    let mut raw = String::from("1 1 open a.db O_RDWR|O_CREAT 7\n");
    for number in 0..TRANSACTIONS {
        let (at, page) = (10 * number + 2, number % 9 * 4096);
        raw += &format!(
            "1 {at} open a.db-journal O_RDWR|O_CREAT 8\n1 {} pwrite 8 0 8192\n1 {} fsync 8 0\n\
             1 {} pwrite 7 {page} 4096\n1 {} fsync 7 0\n1 {} close 8 0\n1 {} unlink a.db-journal 0\n",
            at + 1,
            at + 2,
            at + 3,
            at + 4,
            at + 5,
            at + 6
        );
    }
    let place = tempfile::tempdir().unwrap();
    let (input, calls) = (place.path().join("mobigen.out"), place.path().join("calls"));
    std::fs::write(&input, raw).unwrap();
    fathom_trace::file_calls::import(&input).unwrap().recording.write(&calls, &[]).unwrap();
    let (_place, results) = traced_work(
        &format!("[workload]\nname = \"mobibench-file\"\ncalls = \"{}\"\n", calls.display()),
        "\"stack.filesystem\" = [\"ext4\"]\n",
    );
    let all_rows = rows(&results, results.runs[0].id);
    let in_phases: Vec<BlockRow> = all_rows.iter().filter(|row| row.window.is_some()).copied().collect();
    let bytes = written(&in_phases);
    println!("{bytes:?}");
    assert_eq!(bytes.get(&Cause::OtherFile), Some(&(TRANSACTIONS * (8192 + 4096))), "{bytes:?}");
    assert_eq!(bytes.get(&Cause::Unattributed), None, "{bytes:?}");
}

/// In a directory there is no device of one's own: the pattern within the files is kept, and says
/// so.
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
    assert!(rows.iter().any(|row| row.op == BlockOp::Flush && row.window.is_some()));
}
