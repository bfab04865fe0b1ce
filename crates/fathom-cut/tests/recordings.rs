//! Recordings of power cuts that somebody else has made: `fathom cut --replay` does as root what
//! they say.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;

use fathom_cut::{
    AcknowledgedContents, Behaviour, Checker, CutError, DeviceLog, FileSystem, History, Judge, Keeps,
    RecordedRun, Script, State, States, Subject, Verdict,
};
use fathom_device::{End, Log, Mark, Operation, OperationLog, Outcome, Record};
use fathom_ground::command::find_program;
use rusqlite::Connection;
use serde_json::{Value, json};

/// A recording as `cut.json` has it, with one key changed.
fn recorded(pointer: &str, value: Value) -> RecordedRun {
    let mut json = json!({
        "filesystem": { "driver": "ext4", "options": "data=ordered,noatime", "sector_bytes": 512 },
        "database": "work/cut.db", "device_bytes": 64 << 20, "operations": 3, "commits": 3, "seed": 1,
        "behaviour": { "keeps": "flushed", "tear_bytes": 512 },
        "settings": { "journal_mode": "delete" }, "promise": "power-cut",
        "script": { "steps": ["CREATE TABLE t(a)"] }
    });
    *json.pointer_mut(pointer).unwrap() = value;
    serde_json::from_value(json).unwrap()
}

/// A directory of recordings may be another's, and root replays it. What happened: the mount
/// options that it names were given to the kernel as they stand, `errors=panic` too, which
/// stops the machine at the first damage of a state, and states are damaged on purpose; its
/// numbers of commits and bytes were believed, and ended the program.
#[test]
fn a_recording_that_asks_for_what_none_does_is_refused() {
    assert!(recorded("/seed", json!(2)).check().is_ok());
    for (pointer, value, word) in [
        ("/filesystem/options", json!("errors=panic"), "stops the whole machine"),
        ("/filesystem/options", json!("noatime,fatal_errors=panic"), "stops the whole machine"),
        ("/filesystem/options", json!("logdev=/dev/sda"), "names a path"),
        ("/filesystem/options", json!("remount"), "remount"),
        ("/filesystem/options", json!("noatime errors=panic"), "white space"),
        ("/filesystem/driver", json!("../x"), "driver"),
        ("/filesystem/driver", json!(""), "driver"),
        // Root would mount the machine's own, and open and read what is in it.
        ("/filesystem/driver", json!("proc"), "driver"),
        ("/filesystem/driver", json!("debugfs"), "driver"),
        ("/filesystem/driver", json!("tmpfs"), "driver"),
        ("/behaviour/tear_bytes", json!(0), "never torn"),
        ("/database", json!("work/\0x.db"), "database"),
        ("/database", json!("../../etc/x.db"), "database"),
        ("/database", json!("/etc/x.db"), "database"),
        ("/database", json!(""), "database"),
        ("/device_bytes", json!(1_u64 << 60), "size of the device"),
        ("/commits", json!(1_u64 << 60), "commits"),
    ] {
        let changed = recorded(pointer, value);
        let refused = changed.check().unwrap_err();
        assert!(matches!(&refused, CutError::Usage(_)) && refused.to_string().contains(word), "{refused}");
        let read = changed.history(Path::new("/nowhere/operations")).unwrap_err();
        assert_eq!(read.to_string(), refused.to_string(), "it is refused before the log is read");
    }
}

/// The SQL of a recording is in its `cut.json`, and a directory of recordings may be another's.
/// What happened: `fathom cut --replay` did it on a database without a guard, and ATTACH in it
/// emptied a live database and made files, wherever the SQL said.
#[test]
fn sql_of_a_recording_reaches_no_file() {
    let place = tempfile::tempdir().unwrap();
    let (precious, new) = (place.path().join("precious.db"), place.path().join("new.db"));
    let open = Connection::open(&precious).unwrap();
    open.execute_batch("CREATE TABLE t(a); INSERT INTO t VALUES (1), (2)").unwrap();
    for sql in [
        format!("ATTACH '{}' AS v; DELETE FROM v.t; DETACH v", precious.display()),
        format!("ATTACH 'file:{}?mode=rwc' AS v; CREATE TABLE v.t(a)", new.display()),
        format!("CREATE TABLE t(a); VACUUM INTO '{}'", new.display()),
        "SELECT load_extension('x')".into(),
        format!("PRAGMA temp_store_directory = '{}'", place.path().display()),
    ] {
        let refused = AcknowledgedContents::of(&Script::of_steps(vec![sql.clone()])).unwrap_err();
        assert!(refused.to_string().contains("step 1"), "{sql}: {refused}");
    }
    let rows: i64 = open.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).unwrap();
    assert_eq!(rows, 2, "the database that was named is as it was");
    assert!(!new.exists());
    // What a recording needs is done.
    let harmless = "CREATE TABLE t(a); BEGIN; INSERT INTO t VALUES (1); COMMIT; SELECT * FROM t; -- end\n;";
    assert!(AcknowledgedContents::of(&Script::of_steps(vec![harmless.into()])).is_ok());
}

/// An operation that was done: a write's data is the first of the data.
fn record(operation: Operation, bytes: u32, after: u64) -> Record {
    Record {
        operation,
        outcome: Outcome::Done,
        sequential: false,
        stalled: false,
        offset: 0,
        bytes,
        arrival_ns: 0,
        asked_ns: 0,
        given_ns: 0,
        data_at: (operation == Operation::Write).then_some(0),
        after: Some(after),
    }
}

/// What a device logged that was given an image in one write, and flushed.
fn history_of(image: Vec<u8>) -> History {
    let length = u32::try_from(image.len()).unwrap();
    let records = vec![record(Operation::Write, length, 0), record(Operation::Flush, 0, 1)];
    let log = Log { records, places: vec![0, 1], marks: Vec::new(), end: End::Complete };
    let bytes = image.len() as u64;
    History::new(DeviceLog { log, data: image, bytes }, None).unwrap()
}

/// What a recording's last state is found to be.
fn last_state(history: &History, options: &str, script: &Script) -> Result<Verdict, CutError> {
    let behaviour = Behaviour { keeps: Keeps::Flushed, tear_bytes: 4096 };
    let states = States::of(history, behaviour, 1, 0, None);
    let state = State { epoch: states.epochs.len() - 1, present: Vec::new(), torn: None };
    let acknowledged = AcknowledgedContents::of(script).unwrap();
    let filesystem = FileSystem {
        driver: "ext4".into(),
        options: options.into(),
        sector_bytes: 512,
        log_sector_bytes: None,
        guest: false,
    };
    let database = Path::new("work/cut.db");
    let mut checker = Checker::new(history, &acknowledged, &filesystem, database, &Subject::Sqlite)?;
    checker.judge(states.epochs.last().unwrap(), &state)
}

/// The image of a recording may be another's, too. What happened: a symbolic link in it led to this
/// machine's own files, in which root had SQLite, mmdb or PostgreSQL recover what lay there: of a
/// cluster that was running `postmaster.pid` was removed and a second server started. An option
/// that the driver does not have was a verdict: no state could be mounted.
#[test]
fn a_link_in_a_recording_leads_nowhere_and_an_unknown_option_is_no_verdict() {
    let place = tempfile::tempdir().unwrap();
    let (root, own) = (place.path().join("root"), place.path().join("own"));
    std::fs::create_dir(&own).unwrap();
    std::fs::create_dir_all(root.join("work")).unwrap();
    let sql = "CREATE TABLE t(a); INSERT INTO t VALUES(1)";
    for database in [own.join("cut.db"), root.join("work/cut.db")] {
        Connection::open(database).unwrap().execute_batch(sql).unwrap();
    }
    let image = |name: &str| {
        let image = place.path().join(name);
        let made = Command::new(find_program("mke2fs")?)
            .args(["-q", "-t", "ext4", "-d"])
            .args([&root, &image])
            .arg("8M")
            .status()
            .is_ok_and(|status| status.success());
        made.then(|| history_of(std::fs::read(&image).unwrap()))
    };
    let Some(plain) = image("plain.img").filter(|_| fathom_ground::system::is_root()) else {
        println!("SKIP: needs root, and mke2fs with -d");
        return;
    };
    let script = Script::of_steps(vec![sql.into()]);
    assert_eq!(last_state(&plain, "noatime,exec", &script).unwrap(), Verdict::Kept);
    let refused = last_state(&plain, "no-such-option", &script).unwrap_err().to_string();
    assert!(refused.contains("mount option no-such-option"), "{refused}");
    std::fs::remove_dir_all(root.join("work")).unwrap();
    std::os::unix::fs::symlink(&own, root.join("work")).unwrap();
    let found = last_state(&image("link.img").unwrap(), "", &script).unwrap();
    assert!(matches!(found, Verdict::CannotBeOpened(_)), "{found}");
}

/// A recording has a checksum, so that damage is no verdict. What happened: it was that of the data
/// alone. A bit of the log that fell over, in a place or in the kind of an operation, was a page
/// elsewhere or a flush less, and what the states lost by it was said of the settings.
#[test]
fn damage_to_the_operations_of_a_recording_is_no_verdict() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("operations");
    let mut log = OperationLog::create(&path, true).unwrap();
    assert_eq!(log.keep(&[7; 4096]), Some(0));
    log.add(&record(Operation::Write, 4096, 0), 0);
    log.add(&record(Operation::Flush, 0, 1), 1);
    log.mark(&Mark { number: 1, at_ns: 0, after: 2 });
    log.close();
    let history = History::read(&path, 64 << 20, None).unwrap();
    let with = |checksum: String| RecordedRun { checksum, ..recorded("/operations", json!(2)) };
    let whole = with(history.checksum());
    assert!(whole.history(&path).is_ok());
    assert!(with(history.checksum_of_data()).history(&path).is_ok(), "as recordings of before have it");
    let bytes = std::fs::read(&path).unwrap();
    // Behind the head of 16 bytes: where the write lies, how much of it there is, what the flush
    // is.
    for (at, bit) in [(16 + 9, 0x40), (16 + 5, 0x10), (16 + 56, 0x02)] {
        let mut damaged = bytes.clone();
        damaged[at] ^= bit;
        std::fs::write(&path, &damaged).unwrap();
        let error = whole.history(&path).unwrap_err().to_string();
        assert!(error.contains("the recording is damaged"), "byte {at}: {error}");
    }
}

/// What happened: where a FIFO lay in the place of a recording's operations, a replay waited for a
/// writer for ever, and SIGTERM did not end it.
#[test]
fn a_fifo_in_a_recording_is_not_waited_for() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("operations");
    let fifo = |path: &Path| assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    let refused = || History::read(&log, 64 << 20, None).unwrap_err().to_string();
    fifo(&log);
    assert!(refused().contains("operations: it is no file"), "{}", refused());
    std::fs::remove_file(&log).unwrap();
    std::fs::write(&log, "").unwrap();
    fifo(&fathom_device::data_of(&log));
    assert!(refused().contains("operations.data: it is no file"), "{}", refused());
}

/// What happened: a discard was taken for as many blocks as it said, each with a place in memory.
/// Of a log of a megabyte that says nothing else that were terabytes.
#[test]
fn discards_of_a_recording_take_no_more_memory_than_its_data() {
    let largest = u32::MAX / 4096 * 4096;
    let mut records = vec![record(Operation::Write, 4096, 0)];
    records.extend((1..20_000).map(|after| record(Operation::Discard, largest, after)));
    let places = (0..20_000).collect();
    let log = Log { records, places, marks: Vec::new(), end: End::Complete };
    let history = History::new(DeviceLog { log, data: vec![7; 4096], bytes: 8 << 30 }, None).unwrap();
    let states = States::of(&history, Behaviour { keeps: Keeps::Flushed, tear_bytes: 4096 }, 1, 0, None);
    let epoch = states.epochs.last().unwrap();
    let present = |present: Vec<u32>| State { epoch: states.epochs.len() - 1, present, torn: None };
    assert_eq!(history.block(0, epoch.safe, &present(vec![0])).as_deref(), Some(&[7; 4096][..]));
    assert_eq!(history.block(0, epoch.safe, &present(vec![0, 9])), None, "a discard took it");
    assert_eq!(history.block(5, epoch.safe, &present(vec![9])), None);
}

/// What happened: writes might name the same data, each of them all of it, so that a log of a
/// megabyte and as much data were five million blocks.
#[test]
fn writes_of_a_recording_do_not_share_their_data() {
    let of = |writes: u64| {
        let records = (0..writes).map(|after| record(Operation::Write, 8192, after)).collect();
        let places = (0..writes).collect();
        let log = Log { records, places, marks: Vec::new(), end: End::Complete };
        History::new(DeviceLog { log, data: vec![7; 8192], bytes: 1 << 20 }, None)
            .map(|history| history.answers)
    };
    assert_eq!(of(1), Ok(1));
    assert!(of(2).unwrap_err().contains("longer than their data"));
}

/// What happened: of 128 blocks in flight some subsets were chosen, 354 states, of which the table
/// said "156 of all 354".
#[test]
fn chosen_states_are_not_all_that_a_power_cut_can_leave() {
    let are_all = |writes: u64, tear_bytes| {
        let records = (0..writes).map(|after| record(Operation::Write, 4096, after)).collect();
        let places = (0..writes).collect();
        let log = Log { records, places, marks: Vec::new(), end: End::Complete };
        let data = vec![7; 4096 * writes as usize];
        let history = History::new(DeviceLog { log, data, bytes: 1 << 20 }, None).unwrap();
        States::of(&history, Behaviour { keeps: Keeps::Flushed, tear_bytes }, 1, 0, None).are_all()
    };
    assert!(are_all(8, 4096), "every subset is a state");
    assert!(!are_all(9, 4096), "some of 512 subsets are");
    assert!(!are_all(1, 512), "and of the sectors of a torn block some are drawn");
}
