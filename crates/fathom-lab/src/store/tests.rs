//! Tests of the results file: round trip, and everything that can be wrong with one.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fathom_cut::{Explanation, Outcome, Tally, Verdict};
use fathom_device::DeviceUse;
use fathom_probe::Split;
use fathom_stack::attribution::Cause;
use fathom_stack::blocks::BlockOp;
use fathom_stack::{StackRecord, StackSpec};
use fathom_workload::critical::CriticalPath;
use fathom_workload::engine::EngineInfo;
use fathom_workload::sample::{IoRow, PhaseSummary, Sample, WarningKind, Window};
use fathom_workload::spec::{Durability, EngineSpec, WorkloadSpec};

use super::*;
use crate::cell::Cell;
use crate::failure::FailureKind;
use crate::machine_state::{Conditions, MachineState, ProcessorClocks};
use crate::model_time::{Basis, PhaseModel};
use crate::recording::Recording;

fn experiment() -> ExperimentRow {
    ExperimentRow {
        name: "unit".into(),
        title: "A test".into(),
        source: "name = \"unit\"".into(),
        source_name: "built-in".into(),
        command: "fathom run unit --seed 7".into(),
        seed: u64::MAX - 3,
        repeats: 2,
        quick: true,
        fathom_version: "0.1.0".into(),
        started_ms: 1_700_000_000_000,
        finished_ms: None,
    }
}

fn cell(id: i64, mode: &str) -> CellRow {
    let axes = BTreeMap::from([("engine.journal_mode".to_owned(), mode.to_owned())]);
    CellRow {
        id,
        label: mode.into(),
        title: mode.to_ascii_uppercase(),
        axes: axes.clone(),
        spec: Cell {
            workload: WorkloadSpec {
                name: "mobibench-sql".into(),
                params: BTreeMap::from([("transactions".to_owned(), serde_json::json!(10))]),
            },
            engine: Some(EngineSpec {
                name: "sqlite".into(),
                settings: BTreeMap::from([("journal_mode".to_owned(), serde_json::json!(mode))]),
            }),
            stack: StackSpec::default(),
            instruments: crate::cell::Instruments::default(),
            on: String::new(),
            axes,
        },
        durability: None,
        skipped: (mode == "off").then(|| "no reason".to_owned()),
    }
}

fn split(base: u64) -> Split {
    Split {
        wall_ns: base,
        cpu_ns: 1,
        read_ns: 2,
        write_ns: 3,
        sync_ns: 4,
        other_ns: 5,
        read_bytes: 6,
        write_bytes: 7,
        read_calls: 8,
        write_calls: 9,
        sync_calls: 10,
        other_calls: 11,
    }
}

/// A request of two causes, and a flush.
fn trace() -> TraceRecord {
    let row = BlockRow {
        request: 0,
        piece: 0,
        device: 1,
        op: BlockOp::Write,
        cause: Cause::RollbackJournal,
        window: Some(0),
        submit_ns: 10,
        issue_ns: 11,
        complete_ns: 12,
        offset: 1 << 40,
        bytes: 4096,
        fua: true,
        sync: false,
        meta: true,
    };
    TraceRecord {
        source: TraceSource::Device,
        span_ns: 100,
        lost_events: 3,
        unfinished: 1,
        remarks: vec!["a \"remark\"".into()],
        windows: vec![Window {
            phase: "insert".into(),
            x: Some(1.5),
            start_ns: 5,
            end_ns: 50,
            count: 7,
            changed_bytes: 700,
            lanes: Vec::new(),
            excluded: Vec::new(),
        }],
        rows: vec![
            row,
            BlockRow { piece: 1, cause: Cause::Database, offset: (1 << 40) + 4096, ..row },
            BlockRow { request: 1, op: BlockOp::Flush, cause: Cause::Flush, window: None, bytes: 0, ..row },
        ],
    }
}

/// A phone that is charged, and got warm.
fn conditions() -> Conditions {
    let at = |temperature_mc, limit_khz| MachineState {
        battery_percent: Some(80),
        is_on_battery: Some(false),
        zone: Some("soc".into()),
        temperature_mc: Some(temperature_mc),
        clocks: vec![ProcessorClocks {
            cpus: vec![0, 7],
            governor: Some("schedutil".into()),
            limit_khz: Some(limit_khz),
            now_khz: Some((300_000, limit_khz)),
        }],
        ..MachineState::default()
    };
    Conditions { begin: at(38_500, 2_841_600), end: at(61_200, 1_900_800) }
}

fn record(cell: i64, block: u32, status: RunStatus) -> RunRecord {
    RunRecord {
        row: RunRow {
            id: 0,
            cell,
            block,
            position: 1,
            seed: 99,
            status,
            message: (status == RunStatus::Failed).then(|| "worker was killed".to_owned()),
            started_ms: 5,
            elapsed_ns: 6,
            engine: Some(EngineInfo {
                name: "sqlite".into(),
                version: "3.54.1".into(),
                build: vec!["THREADSAFE=1".into()],
                settings: BTreeMap::from([("journal_mode".to_owned(), "wal".to_owned())]),
            }),
            parameters: BTreeMap::from([("transactions".to_owned(), serde_json::json!(10))]),
            stack: StackRecord { filesystem: "ext4".into(), ..StackRecord::default() },
            floor_ns: Some(81_000),
            max_rss_bytes: Some(1 << 20),
            involuntary_switches: Some(3),
            steal_share: Some(0.01),
            failure: (status == RunStatus::Failed).then_some(FailureKind::Locked),
            load: Some(0.5),
            devices: vec![
                DeviceUse { timed: 7, late: 1, model_ns: 1000, measured_ns: 1100, ..DeviceUse::default() },
                DeviceUse { timed: 3, ..DeviceUse::default() },
            ],
            conditions: conditions(),
        },
        durability: Some(Durability::PowerCutAllButLast),
        phases: vec![PhaseSummary {
            phase: "insert".into(),
            x: Some(1.5),
            unit: "transaction".into(),
            count: 10,
            wall_ns: 1000,
            latency_ns: [1, 2, 3, 4, 5, 6],
            split: split(900),
            lock_wait_ns: Some(12),
            lock_waits: None,
            critical_path: Some(CriticalPath {
                cpu_ns: 100,
                read_ns: 200,
                write_ns: 300,
                sync_ns: 250,
                lock_ns: 50,
                other_ns: 100,
            }),
        }],
        samples: (0..3)
            .map(|seq| Sample {
                phase: "insert".into(),
                x: None,
                seq,
                thread: 1,
                rows: 2,
                split: split(seq),
                database: (seq > 0).then_some(7),
                start_ns: 0,
            })
            .collect(),
        io: vec![IoRow {
            phase: "insert".into(),
            class: "wal".into(),
            op: "sync".into(),
            calls: 1,
            bytes: 2,
            ns: 3,
        }],
        verified: vec!["rows 10".into()],
        warnings: vec![Warning { kind: WarningKind::NoDevice, text: "slow".into() }],
        trace: (status == RunStatus::Done).then(trace),
        models: vec![PhaseModel {
            phase: "insert".into(),
            x: Some(1.5),
            basis: Basis::Threads,
            wall_ns: 1000,
            model_ns: 700,
            cpu_ns: 100,
            device_ns: 550,
            other_ns: 50,
            each_ns: 70.25,
            latency_ns: [1, 2, 3, 4, 5, 7],
            operations: [3, 4, 5, 6],
            bytes: [300, 400, 0, 600],
            busy_model_ns: 560,
            busy_measured_ns: 800,
        }],
        sample_models: vec![Some(41), Some(42)],
        recording: (status == RunStatus::Done).then(|| Recording::default().encode()),
    }
}

struct Place {
    _directory: tempfile::TempDir,
    file: PathBuf,
}

fn place() -> Place {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("results.db");
    Place { _directory: directory, file }
}

/// What power cuts left of a cell: two of seven states lost the last commit.
fn cut(cell: i64) -> CutRow {
    let mut tally = Tally::default();
    for state in 0..7 {
        let verdict = if state % 3 == 1 { Verdict::Lost(1) } else { Verdict::Kept };
        tally.add_at(state, verdict, state, 7);
    }
    let lines = vec!["missing: the superblock".to_owned()];
    let outcome = Outcome {
        acknowledged: 40,
        moments: 7,
        in_flight_max: 9,
        exhaustive: 6,
        states_possible: 900,
        states_are_all: Some(false),
        mounted: 5,
        tally,
        wall_ns: 70_000_000,
        explanation: Some(Explanation { verdict: Verdict::Lost(1), missing: vec![4096], torn: None, lines }),
        breaks_promise: true,
        interrupted: false,
    };
    let (filesystem, device) = ("ext4".to_owned(), "keeps what was flushed".to_owned());
    let found = CutFinding { filesystem, device, promise: Durability::PowerCut, outcome };
    CutRow { cell, finding: if cell == 1 { Ok(found) } else { Err("needs root".into()) } }
}

fn filled(place: &Place) -> Results {
    let environment = BTreeMap::from([("kernel".to_owned(), "6.18".to_owned())]);
    let cells = [cell(1, "wal"), cell(2, "off")];
    let mut writer = Writer::create(&place.file, &experiment(), &environment, &cells).unwrap();
    writer.record(&record(1, 0, RunStatus::Done)).unwrap();
    writer.record(&record(1, 1, RunStatus::Failed)).unwrap();
    writer.warn(&["noisy".into(), "noisy".into()]).unwrap();
    for cell in [2, 1, 1] {
        writer.cut(&cut(cell)).unwrap();
    }
    writer.close(Some(77)).unwrap();
    Results::load(&place.file).unwrap()
}

/// What happened: of WAL in a directory on FAT `fathom simulate` said nothing of the databases that
/// explored power cuts took there, for it went by the file system that was asked for, `dir`.
#[test]
fn the_file_system_that_breaks_a_promise_is_that_of_the_run() {
    let place = place();
    let mut results = filled(&place);
    results.cells[0].durability = Some(Durability::PowerCut);
    let losing =
        |results: &Results| crate::advise::losing_filesystem(results, &results.cells[0]).map(str::to_owned);
    assert_eq!((results.cells[0].spec.stack.place.name(), losing(&results)), ("dir", None));
    results.runs[0].stack.filesystem = "vfat".into();
    assert_eq!(losing(&results).as_deref(), Some("vfat"));
}

/// What happened: of a cell without recordings, among others with some, `fathom anatomy` said that
/// no run has one, and how to make one.
#[test]
fn a_cell_without_recordings_is_told_from_results_without() {
    use crate::anatomy::{Selection, anatomy};
    let place = place();
    let mut results = filled(&place);
    let said = |results: &Results, cell: Option<&str>| {
        let wanted = Selection { cell: cell.map(str::to_owned), ..Selection::default() };
        anatomy(results, &wanted).unwrap_err().to_string()
    };
    assert_eq!(
        said(&results, Some("OFF")),
        "no run of \"OFF\" has a recording; there are recordings of: wal"
    );
    results.runs.clear();
    assert!(said(&results, Some("off")).starts_with("no run has a recording. Make one"));
}

/// The schema went on to say version 4 when 5 was written, to everybody who reads results by it.
#[test]
fn the_schema_names_the_version_that_is_written() {
    let words = format!("Version {VERSION} (PRAGMA user_version = {VERSION})");
    assert!(SCHEMA.contains(&words), "schema.sql does not say: {words}");
    assert!(SCHEMA.contains("0x4641544D") && APPLICATION_ID == 0x4641_544D);
}

#[test]
fn what_is_written_is_read() {
    let place = place();
    let results = filled(&place);
    assert_eq!(results.experiment, ExperimentRow { finished_ms: Some(77), ..experiment() });
    assert_eq!(results.environment["kernel"], "6.18");
    let expected = CellRow { durability: Some(Durability::PowerCutAllButLast), ..cell(1, "wal") };
    assert_eq!(results.cells, [expected, cell(2, "off")]);
    let wrote = record(1, 0, RunStatus::Done);
    assert_eq!(results.runs.len(), 2);
    assert_eq!(results.runs[0], RunRow { id: 1, ..wrote.row });
    assert_eq!(results.phases[0].summary, wrote.phases[0]);
    assert_eq!((results.models[0].run, &results.models[0].model), (1, &wrote.models[0]));
    assert_eq!(results.io[0].row, wrote.io[0]);
    assert_eq!(results.cuts, [cut(1), cut(2)]);
    assert_eq!(results.cut(1), cut(1).finding.ok().as_ref());
    assert_eq!(results.cut(2), None);
    let db = rusqlite::Connection::open(&place.file).unwrap();
    let columns = "SELECT worst || ' ' || worst_state || ' ' || not_kept || ' of ' || states || ' of ' || states_possible";
    let said: String =
        db.query_row(&format!("{columns} FROM power_cut WHERE cell = 1"), [], |row| row.get(0)).unwrap();
    assert_eq!(said, "lost-last 1 2 of 7 of 900");
    drop(db);
    assert_eq!(results.recording(1).unwrap(), Some(Recording::default()));
    assert_eq!(results.recording(2).unwrap(), None, "a failed run keeps none");
    assert_eq!(results.samples(1, "insert").unwrap(), wrote.samples);
    // Of one of three executions it is not known.
    assert_eq!(results.model_times(1, "insert").unwrap(), [Some(41), Some(42), None]);
    assert_eq!(results.sample_count().unwrap(), 6);
    let wrote_trace = wrote.trace.unwrap();
    let found = results.trace(1).unwrap();
    assert_eq!(
        (found.source, found.span_ns, found.lost_events, found.unfinished),
        (TraceSource::Device, 100, 3, 1)
    );
    assert_eq!((&found.remarks, &found.windows), (&wrote_trace.remarks, &wrote_trace.windows));
    let mut rows = Vec::new();
    results.blocks(1, |row| rows.push(row)).unwrap();
    assert_eq!(rows, wrote_trace.rows);
    assert!(results.trace(2).is_none());
    // For people's own questions there are names in a view.
    let db = rusqlite::Connection::open(&place.file).unwrap();
    let named: Vec<String> = db
        .prepare("SELECT op || ' ' || cause || ' ' || ifnull(phase, '-') || ' ' || latency_ns || fua || sync || meta FROM block")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(
        named,
        ["write rollback-journal insert 2101", "write database insert 2101", "flush flush - 2101"]
    );
    assert_eq!(results.verified.len(), 2);
    assert_eq!(results.warnings[0], WarningRow { run: None, text: "noisy".into(), kind: WarningKind::Other });
    assert_eq!(
        (results.warnings[1].text.as_str(), results.warnings[1].kind),
        ("slow", WarningKind::NoDevice)
    );
    assert_eq!((results.runs[0].failure, results.runs[1].failure), (None, Some(FailureKind::Locked)));
    assert_eq!(results.warnings.len(), 3);
    assert_eq!((results.good_runs(1).count(), results.failed_runs().count()), (1, 1));
}

#[test]
fn one_file_is_all_after_closing() {
    let place = place();
    filled(&place);
    assert!(!place.file.with_extension("db-wal").exists());
}

#[test]
fn resuming_replaces_a_failed_run_and_never_a_good_one() {
    let place = place();
    filled(&place);
    let mut writer = Writer::resume(Results::load(&place.file).unwrap()).unwrap();
    writer.record(&record(1, 1, RunStatus::Done)).unwrap();
    assert!(writer.record(&record(1, 0, RunStatus::Done)).is_err());
    writer.close(None).unwrap();
    let results = Results::load(&place.file).unwrap();
    assert_eq!((results.good_runs(1).count(), results.failed_runs().count()), (2, 0));
    assert_eq!((results.phases.len(), results.sample_count().unwrap()), (2, 6));
    assert_eq!(results.experiment.finished_ms, None);
}

#[test]
fn creating_never_overwrites() {
    let place = place();
    std::fs::write(&place.file, "precious").unwrap();
    let error = Writer::create(&place.file, &experiment(), &BTreeMap::new(), &[]).unwrap_err();
    assert!(matches!(error, StoreError::Exists { .. }), "{error}");
    assert_eq!(std::fs::read(&place.file).unwrap(), b"precious");
}

#[test]
fn a_place_that_cannot_be_written_is_named() {
    let error =
        Writer::create("/proc/no/results.db".as_ref(), &experiment(), &BTreeMap::new(), &[]).unwrap_err();
    assert!(error.to_string().starts_with("/proc/no/results.db: cannot be written: "), "{error}");
}

/// Opens `bytes` as results, and proves that they were left as they were.
fn refusal(bytes: &[u8]) -> String {
    let place = place();
    std::fs::write(&place.file, bytes).unwrap();
    let error = Results::load(&place.file).unwrap_err().to_string();
    assert_eq!(std::fs::read(&place.file).unwrap(), bytes, "the file was changed");
    error.replace(&place.file.display().to_string(), "R")
}

fn good_bytes() -> Vec<u8> {
    let place = place();
    drop(filled(&place));
    std::fs::read(&place.file).unwrap()
}

#[test]
fn files_that_are_not_results_are_refused_and_left_alone() {
    assert_eq!(
        refusal(b""),
        "R: not a results file: it is empty or shorter than a database's header. It was left as it is"
    );
    assert_eq!(
        refusal(&b"name = 'journal-modes' # a TOML file".repeat(9)),
        "R: not a results file: it does not begin as a SQLite database does. It was left as it is"
    );
    let missing = Results::load("/nowhere/results.db".as_ref()).unwrap_err().to_string();
    assert_eq!(missing, "/nowhere/results.db: there is no such results file");
    let directory = tempfile::tempdir().unwrap();
    let error = Results::load(directory.path()).unwrap_err().to_string();
    assert!(error.contains("it is a directory"), "{error}");
}

#[test]
fn a_foreign_database_is_refused() {
    let place = place();
    let db = rusqlite::Connection::open(&place.file).unwrap();
    db.execute_batch("CREATE TABLE notes (text)").unwrap();
    drop(db);
    let error = refusal(&std::fs::read(&place.file).unwrap());
    assert!(
        error.starts_with("R: a SQLite database, but not Fathom's results: its application_id is 0x0"),
        "{error}"
    );
}

#[test]
fn results_of_an_earlier_version_are_read_but_not_gone_on_with() {
    let place = place();
    drop(filled(&place));
    rusqlite::Connection::open(&place.file)
        .unwrap()
        .execute_batch(
            "DROP TABLE checksum; DROP TABLE phase_model; DROP TABLE recording; DROP TABLE power_cut; PRAGMA user_version = 1",
        )
        .unwrap();
    let results = Results::load(&place.file).unwrap();
    assert_eq!(results.runs.len(), 2);
    let error = Writer::resume(results).unwrap_err().to_string();
    assert!(error.contains("format version 1") && error.contains("begin anew"), "{error}");
}

#[test]
fn a_newer_version_is_refused() {
    let place = place();
    drop(filled(&place));
    let db = rusqlite::Connection::open(&place.file).unwrap();
    db.execute_batch("PRAGMA user_version = 15; PRAGMA journal_mode = DELETE").unwrap();
    drop(db);
    let error = refusal(&std::fs::read(&place.file).unwrap());
    assert_eq!(
        error,
        "R: results of format version 15; this Fathom reads up to version 14. Use the Fathom that wrote it, or a newer one"
    );
}

#[test]
fn truncated_and_damaged_files_are_called_damaged() {
    let good = good_bytes();
    let short = refusal(&good[..good.len() / 2]);
    assert!(short.starts_with("R: the results file is damaged: "), "{short}");
    assert!(short.contains("sqlite3 R .recover"), "{short}");
    // Any page after the first overwritten with rubbish: found by quick_check or by reading, and
    // never a panic.
    let pages = good.len() / 4096;
    for page in 1..pages {
        let mut bytes = good.clone();
        bytes[page * 4096..(page + 1) * 4096].fill(0xA5);
        let error = refusal(&bytes);
        assert!(error.contains("damaged"), "page {page}: {error}");
    }
}

#[test]
fn a_wrong_value_in_a_column_is_called_damaged() {
    let place = place();
    drop(filled(&place));
    let db = rusqlite::Connection::open(&place.file).unwrap();
    db.execute_batch("UPDATE cell SET spec = '{' ; PRAGMA journal_mode = DELETE").unwrap();
    drop(db);
    let error = refusal(&std::fs::read(&place.file).unwrap());
    assert!(error.starts_with("R: the results file is damaged: "), "{error}");
}

#[test]
fn a_full_disk_keeps_what_was_finished() {
    let place = place();
    drop(filled(&place));
    let mut writer = Writer::resume(Results::load(&place.file).unwrap()).unwrap();
    // SQLite says "full" at this page count just as it does when the disk has no block left.
    writer.limit_pages(1);
    let mut big = record(1, 1, RunStatus::Done);
    big.samples = (0..50_000)
        .map(|seq| Sample {
            phase: "p".into(),
            x: None,
            seq,
            thread: 0,
            rows: 0,
            split: split(1),
            database: None,
            start_ns: 0,
        })
        .collect();
    let error = writer.record(&big).unwrap_err();
    assert!(matches!(error, StoreError::Full { .. }), "{error}");
    assert!(error.to_string().contains("`--resume`"), "{error}");
    drop(writer);
    let results = Results::load(&place.file).unwrap();
    assert_eq!((results.good_runs(1).count(), results.failed_runs().count()), (1, 1));
}

/// A results file was replaced by another database while runs were added to it: the run went on,
/// with its write-ahead log beside a file that was not its own, and SQLite would have put the one
/// into the other.
#[test]
fn what_takes_the_place_of_the_results_gets_none_of_their_pages() {
    let place = place();
    drop(filled(&place));
    let aside = place.file.with_file_name("aside.db");
    let foreign = place.file.with_file_name("foreign.db");
    rusqlite::Connection::open(&foreign)
        .unwrap()
        .execute_batch(
            "PRAGMA journal_mode = wal; CREATE TABLE mine(a); INSERT INTO mine VALUES ('precious')",
        )
        .unwrap();
    let bytes = std::fs::read(&foreign).unwrap();
    let log = beside(&place.file, "-wal");
    let mut writer = Writer::resume(Results::load(&place.file).unwrap()).unwrap();
    writer.warn(&["before".into()]).unwrap();
    assert_eq!(std::fs::metadata(&log).unwrap().len(), 0, "nothing of the results is beside their file");
    std::fs::rename(&place.file, &aside).unwrap();
    std::fs::rename(&foreign, &place.file).unwrap();
    let moved = |result: Result<(), StoreError>| matches!(result, Err(StoreError::Moved { .. }));
    assert!(moved(writer.record(&record(1, 1, RunStatus::Done)).map(drop)));
    assert!(moved(writer.warn(&["after".into()])));
    assert!(moved(writer.close(None)));
    assert_eq!(std::fs::read(&place.file).unwrap(), bytes);
    let there = rusqlite::Connection::open(&place.file).unwrap();
    let value: String = there.query_row("SELECT a FROM mine", [], |row| row.get(0)).unwrap();
    assert_eq!(value, "precious");
    let results = Results::load(&aside).unwrap();
    assert!(results.warnings.iter().any(|warning| warning.text == "before"));
    assert_eq!(results.good_runs(1).count(), 1);
}

#[test]
fn results_in_a_read_only_directory_can_be_read() {
    use std::os::unix::fs::PermissionsExt;
    let place = place();
    drop(filled(&place));
    let directory = place.file.parent().unwrap();
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o555)).unwrap();
    let loaded = Results::load(&place.file);
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(loaded.unwrap().runs.len(), 2);
}

/// What happened: two `fathom run --resume` on one results file ran at the same time, disturbed
/// each other's measurements, and the second one's runs failed one by one on rows that were there
/// already. The mend: whoever adds runs holds a lock of the kernel on the file, which ends with the
/// process, whatever ends that.
#[test]
fn one_at_a_time_adds_runs_and_the_others_are_told_who_it_is() {
    let place = place();
    drop(filled(&place));
    let writer = Writer::resume(Results::load(&place.file).unwrap()).unwrap();
    let error = Writer::resume(Results::load(&place.file).unwrap()).unwrap_err().to_string();
    assert!(error.contains(&format!("(process {})", std::process::id())), "{error}");
    assert!(error.contains("is writing to these results; wait for it"), "{error}");
    assert!(Lock::take(&place.file).is_err());
    // Reports may be read meanwhile.
    assert_eq!(Results::load(&place.file).unwrap().runs.len(), 2);
    writer.close(None).unwrap();
    Writer::resume(Results::load(&place.file).unwrap()).unwrap().close(None).unwrap();
    // A new file is locked from its first moment on, and one that was dropped is free.
    let other = place.file.with_file_name("other.db");
    let writer = Writer::create(&other, &experiment(), &BTreeMap::new(), &[cell(1, "wal")]).unwrap();
    assert!(matches!(Lock::take(&other), Err(StoreError::Busy { .. })));
    drop(writer);
    Lock::take(&other).unwrap();
}

#[test]
fn results_that_another_run_has_added_to_since_they_were_read_are_not_gone_on_with() {
    let place = place();
    drop(filled(&place));
    let read_before = Results::load(&place.file).unwrap();
    let mut first = Writer::resume(Results::load(&place.file).unwrap()).unwrap();
    first.record(&record(1, 1, RunStatus::Done)).unwrap();
    first.close(None).unwrap();
    let error = Writer::resume(read_before).unwrap_err();
    assert!(matches!(error, StoreError::Busy { .. }), "{error}");
}

/// What happened: of 220 results files with one flipped bit, 12 gave another CSV without a word:
/// SQLite's check sees that numbers are where they belong, not that they are the ones that were
/// measured. The harm is a wrong result that looks like every other. The mend: a checksum for each
/// run over all its rows, asked at every reading.
#[test]
fn a_row_that_is_not_as_it_was_written_is_told_with_its_run() {
    for (change, says) in [
        (
            "UPDATE sample SET wall_ns = wall_ns + 1 WHERE run = 1 AND seq = 2",
            "run 1 (cell \"wal\", repeat 1) is not as written",
        ),
        ("UPDATE phase SET p50_ns = 4 WHERE run = 2", "run 2 (cell \"wal\", repeat 2) is not as written"),
        ("UPDATE block_request SET bytes = 1 WHERE request = 1", "run 1 "),
        ("DELETE FROM verified WHERE run = 1", "run 1 "),
        (
            "UPDATE cell SET label = 'delete' WHERE id = 1",
            "the description of experiment, machine and cells is not",
        ),
        ("UPDATE environment SET value = '6.17'", "the description"),
        ("UPDATE checksum SET sum = sum + 1 WHERE run = 2", "run 2 "),
        ("DELETE FROM checksum WHERE run = 2", "run 2 "),
        (
            "UPDATE run SET floor_ns = 80000",
            "run 1 (cell \"wal\", repeat 1), run 2 (cell \"wal\", repeat 2) are not",
        ),
        ("PRAGMA user_version = 5", "it has checksums"),
        ("UPDATE phase_model SET model_ns = model_ns - 1 WHERE run = 1", "run 1 "),
        ("PRAGMA user_version = 6", "it has phases by the model"),
        ("UPDATE recording SET data = x'01' || substr(data, 2) || x'00' WHERE run = 1", "run 1 "),
        ("PRAGMA user_version = 8", "it has recordings"),
        ("DROP TABLE recording", "its recordings are gone"),
        ("PRAGMA user_version = 10", "it has power cuts"),
        ("DROP TABLE power_cut", "its power cuts are gone"),
        ("UPDATE power_cut SET outcome = replace(outcome, 'kept', 'lost')", "the description of experiment"),
        ("DROP TABLE checksum", "its checksums are gone"),
    ] {
        let place = place();
        drop(filled(&place));
        rusqlite::Connection::open(&place.file).unwrap().execute_batch(change).unwrap();
        let error = Results::load(&place.file).unwrap_err().to_string();
        assert!(error.contains("the results file is damaged: ") && error.contains(says), "{change}: {error}");
    }
}

/// What happened: a results file of 70 KB from elsewhere kept `fathom report` busy for hours, and
/// one of 3 KB filled 2 GB of memory: SQLite's check executes what a table's CHECK says. A view in
/// the place of a table, or a table whose name differs by a capital, was read and had no checksum.
/// The mend: only tables and indexes over columns are read, and no CHECK is asked.
#[test]
fn a_file_that_would_have_something_executed_is_not_read() {
    for (change, says) in [
        ("DROP TABLE io; CREATE VIEW io AS SELECT 1 AS run", "io is a view"),
        ("DROP TABLE io; CREATE VIEW IO AS SELECT 1 AS run", "IO is a view"),
        ("ALTER TABLE sample RENAME TO s; ALTER TABLE s RENAME TO Sample", "a table is called Sample"),
        ("CREATE TABLE own(a, b AS (hex(zeroblob(a))))", "column b of table own is computed"),
        ("CREATE TABLE own(a, b AS (a + 1) STORED)", "column b of table own is computed"),
        ("CREATE INDEX own ON run (hex(seed))", "index own is over an expression"),
        ("CREATE INDEX own ON run (id) WHERE length(seed) > 1", "index own has a condition"),
        ("CREATE TRIGGER own AFTER INSERT ON run BEGIN DELETE FROM run; END", "there is a trigger, own"),
        ("CREATE VIRTUAL TABLE own USING fts5(a)", "table own is a virtual one"),
    ] {
        let place = place();
        drop(filled(&place));
        rusqlite::Connection::open(&place.file).unwrap().execute_batch(change).unwrap();
        let error = Results::load(&place.file).unwrap_err().to_string();
        assert!(error.contains("the results file is damaged: ") && error.contains(says), "{change}: {error}");
    }
    let place = place();
    drop(filled(&place));
    let change = "CREATE TABLE own(a CHECK (length(hex(zeroblob(a))) > 10)); \
                  PRAGMA ignore_check_constraints = ON; INSERT INTO own VALUES (1)";
    rusqlite::Connection::open(&place.file).unwrap().execute_batch(change).unwrap();
    assert_eq!(Results::load(&place.file).unwrap().runs.len(), 2, "what it says was not asked");
}

#[test]
fn an_earlier_file_without_checksums_says_so_and_a_vacuumed_one_is_as_good() {
    let place = place();
    assert!(filled(&place).has_checksums());
    let db = rusqlite::Connection::open(&place.file).unwrap();
    db.execute_batch("VACUUM").unwrap();
    assert_eq!(Results::load(&place.file).unwrap().runs.len(), 2);
    db.execute_batch(
        "DROP TABLE checksum; DROP TABLE phase_model; DROP TABLE recording; DROP TABLE power_cut; PRAGMA user_version = 5",
    )
    .unwrap();
    assert!(!Results::load(&place.file).unwrap().has_checksums());
}

/// Version 6 had all but the phases by the model: such a file is read as it was written, and says
/// what it lacks.
#[test]
fn results_of_version_6_are_read_with_their_checksums_and_without_model_time() {
    let place = place();
    assert!(filled(&place).has_models());
    let db = rusqlite::Connection::open(&place.file).unwrap();
    db.execute_batch(
        "DELETE FROM phase_model; DROP TABLE phase_model; DROP TABLE recording; DROP TABLE power_cut",
    )
    .unwrap();
    for run in [1, 2] {
        super::checksum::store_run(&db, run).unwrap();
    }
    super::checksum::store_head(&db).unwrap();
    db.execute_batch("PRAGMA user_version = 6").unwrap();
    drop(db);
    let results = Results::load(&place.file).unwrap();
    assert!(results.has_checksums() && !results.has_models() && results.models.is_empty());
    let analysis = crate::analysis::Analysis::of(&results).unwrap();
    assert_eq!(analysis.measures[0].clock, crate::analysis::Clock::Wall);
    let cautions = crate::analysis::cautions(&results, &analysis);
    assert!(
        cautions.iter().any(|caution| caution.text.contains("no model time: 1 of 2 cells")
            && caution.text.contains("before 7")),
        "{cautions:?}"
    );
    let error = Writer::resume(results).unwrap_err();
    assert!(matches!(error, StoreError::Older { .. }), "{error}");
}

/// The cautions that come of remarks on noise.
fn said_of_noise(file: &Path) -> Vec<String> {
    use crate::analysis::{Analysis, CautionKind, cautions};
    let results = Results::load(file).unwrap();
    let found = cautions(&results, &Analysis::of(&results).unwrap()).into_iter();
    let of_noise = found.filter(|caution| caution.kind == CautionKind::Warning(WarningKind::Noise));
    of_noise.map(|caution| caution.text).collect()
}

/// What happened: a phone that ran from its battery had a caution for each run, with another charge
/// in each.
#[test]
fn remarks_that_differ_in_their_numbers_only_are_one_caution() {
    let place = place();
    let cells = [cell(1, "wal")];
    let mut writer = Writer::create(&place.file, &experiment(), &BTreeMap::new(), &cells).unwrap();
    for (block, percent) in [(0, 17), (1, 16)] {
        let mut run = record(1, block, RunStatus::Done);
        let text = format!("the battery is at {percent} % and discharging");
        run.warnings = vec![Warning { kind: WarningKind::Noise, text }];
        writer.record(&run).unwrap();
    }
    writer.close(Some(77)).unwrap();
    assert_eq!(said_of_noise(&place.file), ["the battery is at 16–17 % and discharging"]);
}

/// What happened: of two phones "the battery is at 17–90 %", and of two machines "load average
/// above 1.4–2.8 on 2–4 CPUs", as if one had moved.
#[test]
fn numbers_of_two_machines_are_no_range_of_one() {
    let place = place();
    let mut cells = [cell(1, "wal"), cell(2, "delete")];
    for (cell, machine) in cells.iter_mut().zip(["adb:a", "adb:b"]) {
        cell.spec.on = machine.into();
    }
    let mut writer = Writer::create(&place.file, &experiment(), &BTreeMap::new(), &cells).unwrap();
    for (cell, block, percent) in [(1, 0, 17), (2, 0, 90), (1, 1, 16), (2, 1, 90)] {
        let mut run = record(cell, block, RunStatus::Done);
        let of_battery = format!("the battery is at {percent} % and discharging");
        let texts = [of_battery, "it is the same on both, 5 of 5".to_owned()];
        run.warnings = texts.map(|text| Warning { kind: WarningKind::Noise, text }).into();
        writer.record(&run).unwrap();
    }
    writer.close(Some(77)).unwrap();
    assert_eq!(
        said_of_noise(&place.file),
        [
            "on adb:a: the battery is at 16–17 % and discharging",
            "on adb:b: the battery is at 90 % and discharging",
            "it is the same on both, 5 of 5"
        ]
    );
}

/// What happened: the floors of two boards, whose cards are both /dev/mmcblk0p2 with ext4, were
/// taken for one card's: "noisy device", with both of them as its least and its most, and one mean
/// of the two in the report.
#[test]
fn disks_of_two_machines_that_have_one_name_are_two() {
    use crate::analysis::{Analysis, CautionKind, cautions};
    let place = place();
    let mut cells = [cell(1, "wal"), cell(2, "delete")];
    for (cell, machine) in cells.iter_mut().zip(["ssh:pi4", "ssh:pi5"]) {
        cell.spec.on = machine.into();
    }
    let mut writer = Writer::create(&place.file, &experiment(), &BTreeMap::new(), &cells).unwrap();
    for block in [0, 1] {
        for (cell, floor_ns) in [(1, 300_000), (2, 9_000_000)] {
            let mut run = record(cell, block, RunStatus::Done);
            run.row.devices.clear();
            run.row.stack.device = "/dev/mmcblk0p2".into();
            run.row.floor_ns = Some(floor_ns);
            writer.record(&run).unwrap();
        }
    }
    writer.close(Some(77)).unwrap();
    let results = Results::load(&place.file).unwrap();
    let found = cautions(&results, &Analysis::of(&results).unwrap());
    assert!(!found.iter().any(|caution| caution.kind == CautionKind::NoisyDevice), "{found:?}");
    let names: Vec<String> = results.runs.iter().take(2).map(|run| results.stack_of(run)).collect();
    assert_eq!(names, ["ext4 on /dev/mmcblk0p2 of ssh:pi4", "ext4 on /dev/mmcblk0p2 of ssh:pi5"]);
}

/// What happened: "the hypervisor took CPU time away in 2 of 4 runs" of a board, which has none,
/// and a virtual machine, in all of whose runs it did. So it was of machines that were too busy for
/// their modelled devices.
#[test]
fn stolen_and_late_time_is_that_of_its_machine() {
    use crate::analysis::{Analysis, CautionKind, cautions};
    let told = |machines: [&str; 2], kind: CautionKind| {
        let place = place();
        let mut cells = [cell(1, "wal"), cell(2, "delete")];
        for (cell, machine) in cells.iter_mut().zip(machines) {
            cell.spec.on = machine.into();
        }
        let mut writer = Writer::create(&place.file, &experiment(), &BTreeMap::new(), &cells).unwrap();
        for block in [0, 1] {
            for (cell, share) in [(1, 0.2), (2, 0.0)] {
                let mut run = record(cell, block, RunStatus::Done);
                run.row.steal_share = Some(share);
                if share == 0.0 {
                    run.row.devices.iter_mut().for_each(|used| (used.late, used.measured_ns) = (0, 0));
                }
                writer.record(&run).unwrap();
            }
        }
        writer.close(Some(77)).unwrap();
        let results = Results::load(&place.file).unwrap();
        let found = cautions(&results, &Analysis::of(&results).unwrap()).into_iter();
        found.filter(|caution| caution.kind == kind).map(|caution| caution.text).collect::<Vec<String>>()
    };
    for (kind, began) in [
        (CautionKind::NoisyMachine, "noisy machine: the hypervisor took CPU time away in 2 of"),
        (CautionKind::LateDevice, "late device: in 2 of"),
    ] {
        let of_several = told(["local", "ssh:board"], kind);
        let first = format!("on local: {began} 2 runs");
        assert!(of_several.len() == 1 && of_several[0].starts_with(&first), "{of_several:?}");
        let of_one = told(["", ""], kind);
        assert!(of_one.len() == 1 && of_one[0].starts_with(&format!("{began} 4 runs")), "{of_one:?}");
    }
}

/// What happened: an experiment was gone on with after its engine's library or its trace had been
/// replaced by another of the same path, and the runs of both went into one mean without a word.
#[test]
fn runs_of_a_cell_that_are_not_of_the_same_thing_are_told() {
    use crate::analysis::{Analysis, CautionKind, Weight, cautions};
    let told = |change: fn(&mut RunRow)| {
        let place = place();
        let cells = [cell(1, "wal")];
        let mut writer = Writer::create(&place.file, &experiment(), &BTreeMap::new(), &cells).unwrap();
        let of_trace = |block| {
            let mut record = record(1, block, RunStatus::Done);
            for (key, value) in [("file", "a.trace"), ("file_sha3_256", "a")] {
                record.row.parameters.insert(key.to_owned(), value.into());
            }
            record
        };
        writer.record(&of_trace(0)).unwrap();
        let mut later = of_trace(1);
        change(&mut later.row);
        writer.record(&later).unwrap();
        writer.close(Some(77)).unwrap();
        let results = Results::load(&place.file).unwrap();
        let found = cautions(&results, &Analysis::of(&results).unwrap());
        found.into_iter().find(|caution| caution.kind == CautionKind::UnlikeRuns)
    };
    assert_eq!(told(|_| ()), None);
    // What only the later one tells may be the same.
    assert_eq!(told(|row| drop(row.parameters.insert("new".into(), 1.into()))), None);
    type Change = fn(&mut RunRow);
    let changes: [(Change, &str); 6] = [
        // Gone on with without --dir: half of the runs were of the card, half of the disk.
        (|row| row.stack.device = "/dev/sda1".into(), "ext4 on  and ext4 on /dev/sda1"),
        (|row| row.stack.models = vec!["name = \"x\"".into()], "two models of "),
        (|row| row.engine.as_mut().unwrap().version = "3.55.0".into(), "sqlite 3.54.1 and sqlite 3.55.0"),
        (|row| row.engine.as_mut().unwrap().build.clear(), "two builds of sqlite 3.54.1"),
        (|row| drop(row.parameters.insert("transactions".into(), 11.into())), "transactions 10 and 11"),
        // Of one length: they were taken for the same one.
        (
            |row| drop(row.parameters.insert("file_sha3_256".into(), "b".into())),
            "two files called \"a.trace\"",
        ),
    ];
    for (change, says) in changes {
        let caution = told(change).unwrap();
        assert!(caution.text.contains(says), "{}", caution.text);
        assert_eq!(caution.weight, Weight::Answer);
    }
}

/// What happened: an image or a device's model that was replaced while an experiment ran was
/// noticed only by whoever went on with it, and of cells that were run once each never.
#[test]
fn files_that_are_replaced_between_runs_are_told_also_of_two_cells() {
    use crate::analysis::{Analysis, CautionKind, cautions};
    let told = |repeats: u32, change: fn(&mut RunRow)| {
        let place = place();
        let mut cells = [cell(1, "wal"), cell(2, "delete")];
        for cell in &mut cells {
            cell.spec.stack.image = Some("card.img".into());
            cell.spec.stack.device = Some("own.toml".into());
        }
        let mut writer = Writer::create(&place.file, &experiment(), &BTreeMap::new(), &cells).unwrap();
        let mut runs: Vec<_> =
            (0..repeats).flat_map(|block| [1, 2].map(|cell| record(cell, block, RunStatus::Done))).collect();
        for run in &mut runs {
            run.row.stack.image = "9 bytes, written at 7 s".into();
            run.row.stack.models = vec!["name = \"x\"".into()];
            run.row.stack.ran_on.insert("disk serial".into(), "1".into());
            for (key, value) in [("file", "a.trace"), ("file_sha3_256", "a")] {
                run.row.parameters.insert(key.to_owned(), value.into());
            }
        }
        change(&mut runs.last_mut().unwrap().row);
        for run in &runs {
            writer.record(run).unwrap();
        }
        writer.close(Some(77)).unwrap();
        let results = Results::load(&place.file).unwrap();
        let found = cautions(&results, &Analysis::of(&results).unwrap());
        let unlike = found.into_iter().find(|caution| caution.kind == CautionKind::UnlikeRuns);
        unlike.map(|caution| caution.text)
    };
    type Change = fn(&mut RunRow);
    let image: Change = |row| row.stack.image = "9 bytes, written at 8 s".into();
    let model: Change = |row| row.stack.models = vec!["name = \"y\"".into()];
    let disk: Change = |row| drop(row.stack.ran_on.insert("disk serial".into(), "2".into()));
    let trace: Change = |row| drop(row.parameters.insert("file_sha3_256".into(), "b".into()));
    let earlier: Change = |row| row.stack.image.clear();
    for repeats in [1, 2] {
        let text = told(repeats, image).unwrap();
        assert!(text.contains("in 1 of 2 cells") && text.contains("(two images called card.img)"), "{text}");
        assert_eq!((told(repeats, |_| ()), told(repeats, earlier)), (None, None));
    }
    assert!(told(1, model).unwrap().contains("(two models called own.toml)"));
    assert!(told(2, model).unwrap().contains("(two models of "));
    assert!(told(2, disk).unwrap().contains("(two disks (disk serial: 1 and 2))"));
    assert!(told(1, trace).unwrap().contains("(two files called a.trace)"));
    assert!(told(2, trace).unwrap().contains("(two files called \"a.trace\")"));
}

/// What happened: a full disk was told by the words of a message, which a schema may have as well.
/// In results from before it had a kind of its own it was one that failed.
#[test]
fn a_full_disk_of_earlier_results_is_told_from_one_that_failed() {
    let place = place();
    drop(filled(&place));
    for (message, kind) in [
        ("`COMMIT` on w.db: database or disk is full (code 13)", FailureKind::Full),
        ("`COMMIT` on w.db: disk I/O error (code 10)", FailureKind::Storage),
    ] {
        let db = rusqlite::Connection::open(&place.file).unwrap();
        db.execute("UPDATE run SET failure = 'storage', message = ? WHERE id = 2", [message]).unwrap();
        super::checksum::store_run(&db, 2).unwrap();
        drop(db);
        let results = Results::load(&place.file).unwrap();
        assert_eq!(results.runs[1].failure, Some(kind), "{message}");
    }
}

/// Gives a file that was altered the checksums of what is in it, as the version that had it so did.
fn seal(db: rusqlite::Connection) {
    for run in [1, 2] {
        super::checksum::store_run(&db, run).unwrap();
    }
    super::checksum::store_head(&db).unwrap();
}

/// The excerpt of results, read again.
fn excerpt(place: &Place, results: &Results) -> Results {
    let mut excerpt = Vec::new();
    results.excerpt(&mut excerpt).unwrap();
    let file = place.file.with_extension("zst");
    std::fs::write(&file, excerpt).unwrap();
    Results::load(&file).unwrap()
}

/// Version 13 had all but the databases of executions.
#[test]
fn results_of_version_13_are_read_without_databases() {
    let place = place();
    let databases = |results: &Results| -> Vec<Option<u32>> {
        let samples = results.samples(1, "insert").unwrap();
        samples.iter().map(|sample| sample.database).collect()
    };
    assert_eq!(databases(&filled(&place)), [None, Some(7), Some(7)]);
    let db = rusqlite::Connection::open(&place.file).unwrap();
    db.execute_batch("ALTER TABLE sample DROP COLUMN database; PRAGMA user_version = 13").unwrap();
    seal(db);
    let results = Results::load(&place.file).unwrap();
    assert_eq!(databases(&results), [None; 3]);
    let error = Writer::resume(results).unwrap_err();
    assert!(matches!(error, StoreError::Older { found: 13, .. }), "{error}");
}

/// Version 12 had all but the state of the machine: its runs know nothing of that, also in its
/// excerpt, and nothing is wrong with them.
#[test]
fn results_of_version_12_are_read_without_the_state_of_the_machine() {
    let place = place();
    assert!(filled(&place).runs.iter().all(|run| run.conditions == conditions()));
    let db = rusqlite::Connection::open(&place.file).unwrap();
    db.execute_batch("ALTER TABLE run DROP COLUMN conditions; PRAGMA user_version = 12").unwrap();
    let altered = Results::load(&place.file).unwrap_err();
    assert!(matches!(altered, StoreError::Altered { .. }), "{altered}");
    seal(db);
    let results = Results::load(&place.file).unwrap();
    assert!(results.runs.iter().all(|run| !run.conditions.is_known()));
    let small = excerpt(&place, &results);
    assert_eq!((small.version, small.runs.len()), (VERSION, 2));
    assert!(small.runs.iter().all(|run| !run.conditions.is_known()));
    let error = Writer::resume(results).unwrap_err();
    assert!(matches!(error, StoreError::Older { found: 12, .. }), "{error}");
}

/// Version 11 had all but the kinds of failures and warnings: they are found by the words, also of
/// its excerpt.
#[test]
fn results_of_version_11_are_read_with_kinds_by_their_words() {
    let place = place();
    drop(filled(&place));
    let db = rusqlite::Connection::open(&place.file).unwrap();
    db.execute_batch(
        "ALTER TABLE run DROP COLUMN failure; ALTER TABLE run DROP COLUMN conditions; ALTER TABLE warning DROP COLUMN kind;
         UPDATE run SET message = 'engine sqlite: COMMIT: disk I/O error' WHERE id = 2;
         UPDATE warning SET text = 'caches were not cold: no' WHERE run = 1; PRAGMA user_version = 11",
    )
    .unwrap();
    seal(db);
    let check = |results: &Results| {
        let warning = &results.warnings[1];
        assert_eq!((warning.run, warning.kind), (Some(1), WarningKind::WarmCaches));
        let failures: Vec<_> = results.runs.iter().map(|run| run.failure).collect();
        assert_eq!(failures, [None, Some(FailureKind::Storage)]);
    };
    let results = Results::load(&place.file).unwrap();
    check(&results);
    check(&excerpt(&place, &results));
}

/// Version 9 had all but the critical paths: such a file is read as it was written, and its shares
/// are those of the sums.
#[test]
fn results_of_version_9_are_read_with_their_checksums_and_without_critical_paths() {
    let place = place();
    let path = |results: &Results| results.phases[0].summary.critical_path;
    assert_eq!(path(&filled(&place)).map(|path| path.lock_ns), Some(50));
    let db = rusqlite::Connection::open(&place.file).unwrap();
    for part in ["cpu", "read", "write", "sync", "lock", "other"] {
        db.execute_batch(&format!("ALTER TABLE phase DROP COLUMN path_{part}_ns")).unwrap();
    }
    db.execute_batch("DROP TABLE power_cut; PRAGMA user_version = 9").unwrap();
    let altered = Results::load(&place.file).unwrap_err();
    assert!(matches!(altered, StoreError::Altered { .. }), "{altered}");
    seal(db);
    let results = Results::load(&place.file).unwrap();
    assert!(results.has_checksums() && results.has_models() && path(&results).is_none());
    let analysis = crate::analysis::Analysis::of(&results).unwrap();
    assert_eq!(analysis.measures[0].shares.lock, 0.0);
    let error = Writer::resume(results).unwrap_err();
    assert!(matches!(error, StoreError::Older { found: 9, .. }), "{error}");
}

#[test]
fn a_name_that_is_a_path_is_refused_also_where_it_comes_from_results() {
    use crate::experiment::{Experiment, is_name};
    for name in ["", ".", "..", "../x", "a/b", ".hidden", "-x", "a b", "a\u{1b}[2J"] {
        assert!(!is_name(name), "{name:?}");
    }
    assert!(["P4-T3", "first-look", "points", "a.b_c", "_x"].into_iter().all(is_name));
    let file = |name: &str, id: &str| {
        let rest = "[workload]\nname = \"mobibench-sql\"\n[[figure]]\nkind = \"bars\"\nphases = [\"insert\"]";
        Experiment::parse("mine.toml", &format!("name = \"{name}\"\n{rest}\nid = \"{id}\"\n"))
    };
    file("mine", "rate").unwrap();
    assert!(file("..", "rate").unwrap_err().to_string().starts_with("mine.toml:1: \"..\" cannot be a name"));
    let error = file("mine", "../x").unwrap_err().to_string();
    assert!(error.starts_with("mine.toml:7: \"../x\" cannot be an id: it also names a file"), "{error}");
    // The name in the file itself, with a checksum that is right.
    let place = place();
    let row = ExperimentRow { name: "../x".into(), ..experiment() };
    Writer::create(&place.file, &row, &BTreeMap::new(), &[cell(1, "wal")]).unwrap().close(None).unwrap();
    let error = Results::load(&place.file).unwrap_err().to_string();
    assert!(error.contains("\"../x\" is no name of an experiment"), "{error}");
}

#[test]
fn a_fifo_is_not_waited_for() {
    let place = place();
    let name = std::ffi::CString::new(place.file.to_str().unwrap()).unwrap();
    // SAFETY: the name ends with a zero byte and outlives the call.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    assert!(Results::load(&place.file).unwrap_err().to_string().contains("it is no regular file"));
}
