//! The whole workload on a directory, and what happens when its data is broken or its parameters
//! are wrong.

use super::*;
use crate::spec::WorkloadSpec;
use crate::testing::KeepingSink;
use serde_json::json;

fn workload(params: serde_json::Value) -> Result<Box<dyn Workload>, WorkloadError> {
    let params = params.as_object().expect("an object").clone().into_iter().collect();
    crate::create(&WorkloadSpec { name: "mobibench-file".into(), params })
}

fn run(
    params: serde_json::Value,
    seed: u64,
    kept: &mut KeepingSink,
    directory: &std::path::Path,
) -> Result<(), WorkloadError> {
    workload(params)?.run(&Context { directory, engine: None, seed }, kept)
}

#[test]
fn all_accesses_in_all_modes_give_right_counts_bytes_and_splits() {
    for &sync in SyncMode::NAMES {
        let directory = tempfile::tempdir().expect("a directory");
        let mut kept = KeepingSink::default();
        let outcome = run(
            json!({"file_kib": 256, "sync": sync, "threads": 2, "cold": false}),
            1,
            &mut kept,
            directory.path(),
        );
        if let Err(WorkloadError::Io { source, .. }) = &outcome
            && sync.starts_with("o_direct")
        {
            println!("SKIP {sync}: {source}");
            continue;
        }
        outcome.expect("runs");
        let names: Vec<&str> = kept.phases.iter().map(|phase| phase.phase.as_str()).collect();
        assert_eq!(names, Access::NAMES);
        for phase in &kept.phases {
            let (all, split) = (256 * 1024, &phase.split);
            assert_eq!(phase.count, 64);
            assert_eq!(phase.unit, "operation");
            if phase.phase.ends_with("read") {
                assert_eq!((split.read_bytes, split.write_bytes, split.sync_calls), (all, 0, 0), "{sync}");
            } else {
                let each = matches!(sync, "fsync" | "fdatasync" | "mmap+async" | "mmap+sync");
                let syncs = if each { 64 + 2 } else { 2 };
                assert_eq!(
                    (split.read_bytes, split.write_bytes, split.sync_calls),
                    (0, all, syncs),
                    "{sync}"
                );
            }
            for thread in [0, 1] {
                // Operations of a thread follow each other without a gap, so the phase is at least
                // as long.
                let mine = kept.samples.iter().filter(|s| s.phase == phase.phase && s.thread == thread);
                assert!(phase.wall_ns >= mine.map(|s| s.split.wall_ns).sum());
            }
        }
        for sample in &kept.samples {
            let s = &sample.split;
            assert_eq!(s.wall_ns, s.cpu_ns + s.read_ns + s.write_ns + s.sync_ns + s.other_ns);
            assert_eq!(sample.rows, 1);
        }
        assert_eq!(kept.samples.len(), 5 * 64);
        let written: u64 =
            kept.io.iter().filter(|row| row.class == "file" && row.op == "write").map(|row| row.bytes).sum();
        assert_eq!(written, 3 * 256 * 1024);
        assert_eq!(kept.verified.len(), 5 + 2, "{:?}", kept.verified);
    }
}

#[test]
fn more_data_than_memory_for_it_is_run_in_parts() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut kept = KeepingSink::default();
    let params = json!({"file_kib": 81_920, "record_kib": 1024, "sync": "none", "accesses": ["random-write", "random-read"]});
    run(params, 3, &mut kept, directory.path()).expect("runs");
    assert_eq!(kept.phases.iter().map(|phase| phase.count).collect::<Vec<_>>(), [80, 80]);
}

#[test]
fn overlapping_writes_leave_some_records_alone_and_all_are_right() {
    let directory = tempfile::tempdir().expect("a directory");
    let mut kept = KeepingSink::default();
    let params =
        json!({"file_kib": 400, "sync": "none", "overlap_percent": 40, "accesses": ["random-write", "read"]});
    run(params, 3, &mut kept, directory.path()).expect("runs");
}

#[test]
fn a_byte_changed_after_the_pass_fails_the_run() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("mobibench-file.0");
    let mut kept = KeepingSink {
        at_phase: Some((
            "write",
            Box::new(move || {
                let file = std::fs::OpenOptions::new().write(true).open(&path).expect("opens");
                std::os::unix::fs::FileExt::write_all_at(&file, b"!", 9000).expect("writes");
            }),
        )),
        ..KeepingSink::default()
    };
    let error = run(json!({"file_kib": 64}), 1, &mut kept, directory.path()).expect_err("the data is wrong");
    let text = error.to_string();
    assert!(matches!(error, WorkloadError::Verification(_)), "{text}");
    assert!(text.contains("offset 8192: damaged") && text.contains("number 808 of 4096"), "{text}");
}

#[test]
fn a_read_of_wrong_data_fails_the_run() {
    // The file is swapped for one of another seed after it was checked and before it is read: only
    // the check of the records as they were read can see it.
    let (directory, other) =
        (tempfile::tempdir().expect("a directory"), tempfile::tempdir().expect("a directory"));
    let other_params = json!({"file_kib": 64, "sync": "none", "accesses": ["write"]});
    run(other_params, 2, &mut KeepingSink::default(), other.path()).expect("runs");
    let (from, to) = (other.path().join("mobibench-file.0"), directory.path().join("mobibench-file.0"));
    let mut kept = KeepingSink {
        at_progress: Some(Box::new(move || {
            std::fs::copy(&from, &to).expect("copied");
        })),
        ..KeepingSink::default()
    };
    let made =
        workload(json!({"file_kib": 64, "sync": "none", "accesses": ["write", "read"]})).expect("made");
    let context = Context { directory: directory.path(), engine: None, seed: 1 };
    let error = made.run(&context, &mut kept).expect_err("the data is wrong");
    assert!(error.to_string().contains("of another seed"), "{error}");
}

#[test]
fn same_seed_same_bytes_and_other_seed_other_bytes() {
    let bytes = |seed| {
        let directory = tempfile::tempdir().expect("a directory");
        let params =
            json!({"file_kib": 64, "sync": "none", "accesses": ["random-write"], "overlap_percent": 30});
        run(params, seed, &mut KeepingSink::default(), directory.path()).expect("runs");
        std::fs::read(directory.path().join("mobibench-file.0")).expect("readable")
    };
    let first = bytes(1);
    assert_eq!(first, bytes(1));
    assert_ne!(first, bytes(2));
}

#[test]
fn wrong_parameters_are_errors_that_name_them() {
    for (params, words) in [
        (json!({"file_kib": 0}), "file_kib"),
        (json!({"file_kib": 3}), "at least threads x record_kib = 4 KiB"),
        (json!({"file_kib": 40, "threads": 11}), "44 KiB"),
        (json!({"sync": "o_dsync"}), "o_sync"),
        (json!({"accesses": []}), "accesses"),
        (json!({"accesses": ["rewrite"]}), "accesses"),
        (json!({"overlap_percent": 100}), "overlap_percent"),
        (json!({"threads": 101}), "threads"),
        (json!({"cold": "yes"}), "cold"),
        (json!({"recordkib": 4}), "record_kib"),
    ] {
        let error = workload(params.clone()).err().unwrap_or_else(|| panic!("{params} was accepted"));
        assert!(error.to_string().contains(words), "{params}: {error}");
    }
}

/// Mobibench's recorded system calls could not be done: only its made-up accesses were. A recording
/// is work of this workload now, on files of its own.
#[test]
fn a_recording_of_file_calls_is_done_again_and_every_byte_checked() {
    let directory = tempfile::tempdir().expect("a directory");
    let place = directory.path().join("work");
    std::fs::create_dir(&place).expect("made");
    let recording = "2 10 open \"/etc/passwd\" O_RDONLY 5\n2 11 pread 5 5000 100\n1 12 open data/data O_RDWR|O_CREAT 7\n1 13 pwrite 7 4096 3000000\n\
        1 14 pwrite 7 100 200\n1 15 write 7 10\n1 16 fsync 7 0\n2 17 unlink \"/etc/passwd\" 0\n1 18 fdatasync 7 0\n1 19 close 7 0\n";
    let (raw, calls) = (directory.path().join("mobigen.out"), directory.path().join("calls"));
    std::fs::write(&raw, recording).expect("written");
    fathom_trace::file_calls::import(&raw).expect("imported").recording.write(&calls, &[]).expect("written");
    let made = workload(json!({"calls": calls})).expect("made").parameters();
    assert_eq!(made["calls_bytes"], std::fs::metadata(&calls).expect("there").len());
    assert_eq!(made["calls_sha3_256"].as_str().map(str::len), Some(64));
    let mut kept = KeepingSink::default();
    run(json!({"calls": calls, "cold": false}), 1, &mut kept, &place).expect("runs");
    let split = &kept.phases[0].split;
    assert_eq!(
        (kept.phases[0].count, split.write_bytes, split.read_bytes, split.sync_calls),
        (10, 3_000_210, 100, 2)
    );
    assert!(
        kept.verified[0].contains("1 files read back, 3000210 written bytes right"),
        "{:?}",
        kept.verified
    );
    assert_eq!(std::fs::metadata(place.join("file-calls.1")).expect("there").len(), 3_004_096);
    assert!(!place.join("file-calls.0").exists() && std::path::Path::new("/etc/passwd").exists());
    let spoiled = place.join("file-calls.1");
    let mut kept = KeepingSink {
        at_phase: Some((
            "replay",
            Box::new(move || {
                let file = std::fs::OpenOptions::new().write(true).open(&spoiled).expect("opens");
                std::os::unix::fs::FileExt::write_all_at(&file, &[0], 150).expect("writes");
            }),
        )),
        ..KeepingSink::default()
    };
    std::fs::remove_dir_all(&place).and_then(|()| std::fs::create_dir(&place)).expect("made");
    let error = run(json!({"calls": calls, "cold": false}), 1, &mut kept, &place).expect_err("spoiled");
    assert!(error.to_string().contains("byte 150 is not what was written"), "{error}");
    let error = run(json!({"calls": raw}), 1, &mut KeepingSink::default(), &place).expect_err("no recording");
    assert!(error.to_string().contains("fathom trace import"), "{error}");
}

/// What happened: with a recording all other parameters were taken and did nothing, so that an axis
/// over `sync` compared a cell with itself under several names; and a recording that was not there
/// was found out by every run instead of by the plan.
#[test]
fn what_does_not_go_with_a_recording_is_refused_before_any_run() {
    let directory = tempfile::tempdir().expect("a directory");
    let calls = directory.path().join("calls");
    std::fs::write(&calls, "fathom-file-calls 1\nfile 0 0 a\n0 0 write 0 0 4\n").expect("written");
    workload(json!({"calls": calls, "cold": false, "sync": "fsync"}))
        .expect("what does nothing is as it was");
    for (params, words) in [
        (json!({"calls": calls, "sync": "none"}), "sync"),
        (json!({"calls": calls, "threads": 2}), "threads"),
        (json!({"calls": calls, "accesses": ["append"]}), "accesses"),
        (json!({"calls": directory.path().join("nowhere")}), "nowhere"),
        (json!({"calls": "/dev/zero"}), "is no file"),
    ] {
        let error = workload(params.clone()).err().unwrap_or_else(|| panic!("{params} was accepted"));
        assert!(error.to_string().contains(words), "{params}: {error}");
    }
}

/// What happened: a recorded write of no bytes behind a file's end was held to have made the file
/// longer, and the run failed of a length that no program had given it.
#[test]
fn a_write_of_nothing_makes_no_file_longer() {
    let directory = tempfile::tempdir().expect("a directory");
    let place = directory.path().join("work");
    std::fs::create_dir(&place).expect("made");
    let recording = "100 12:00:01.000000 openat(AT_FDCWD, \"/tmp/a\", O_RDWR|O_CREAT, 0644) = 3\n\
        100 12:00:01.000010 pwrite64(3, \"abcd\", 4, 0) = 4\n\
        100 12:00:01.000020 pwrite64(3, \"\", 0, 8192) = 0\n";
    let (raw, calls) = (directory.path().join("strace.out"), directory.path().join("calls"));
    std::fs::write(&raw, recording).expect("written");
    fathom_trace::file_calls::import(&raw).expect("imported").recording.write(&calls, &[]).expect("written");
    let mut kept = KeepingSink::default();
    run(json!({"calls": calls, "cold": false}), 1, &mut kept, &place).expect("runs");
    assert!(kept.verified[0].contains("1 files read back, 4 written bytes right"), "{:?}", kept.verified);
    assert_eq!(std::fs::metadata(place.join("file-calls.0")).expect("there").len(), 4);
}
