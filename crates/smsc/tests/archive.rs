//! Messages that the Flusher has moved are found in the archive, while it goes on, after a restart,
//! and by nobody else's account. They are there once, whatever crashes, fails or is torn meanwhile.
#![allow(clippy::unwrap_used)]

mod common;

use common::{ACCOUNT, NOW_US, message, receive};
use proptest::prelude::*;
use smsc::centre::{Archive, Operation, Outcome, Refusal, Rotation, Rules, read_archive};
use smsc::check::check;
use smsc::housekeeping::{flush, recover, status};
use smsc::load::{Clock, Figures, LoadProfile, Plan, Side, run};
use smsc::model::{Message, State};
use smsc::network::NetworkProfile;
use smsc::store::{Acknowledge, MmdbOptions, MmdbStore, Row, Session, Store, StoreError};
use std::path::Path;
use std::process::Command;
use std::time::Instant;

const ACCOUNTS: u32 = 3;

fn open(dir: &Path) -> MmdbStore {
    MmdbStore::open(dir, &MmdbOptions { segment_mib: 1, ..MmdbOptions::default() }, Rules::default()).unwrap()
}

/// The owner of each message: whose query finds it.
fn check_all(store: &dyn Store, archive: &Archive, accepted: &[i64]) -> Vec<State> {
    let reader = archive.reader().unwrap();
    let mut session = store.session(Acknowledge::Durable).unwrap();
    let mut states = Vec::new();
    for &id in accepted {
        let mut found = Vec::new();
        for account in 0..ACCOUNTS {
            match status(&mut *session, Some(&reader), account, id).unwrap() {
                Ok(record) => found.push(record),
                Err(refusal) => assert_eq!(refusal, Refusal::NoSuchMessage),
            }
        }
        assert_eq!(found.len(), 1, "message {id} belongs to one account");
        assert!(found[0].done_us > 0, "{found:?}");
        states.push(found[0].state);
    }
    states
}

/// The centre kept its reader behind a lock: a search by address, which reads 128 MiB of the
/// archive, held up all queries of archived messages.
#[test]
fn one_reader_serves_any_number_of_threads() {
    let dir = tempfile::tempdir().unwrap();
    let mut archive = Archive::open(dir.path()).unwrap();
    let message = Message { state: State::Delivered, msg_id: 1, done_us: NOW_US, ..message(1, b"x") };
    archive.append(std::slice::from_ref(&message)).unwrap();
    let reader = &archive.reader().unwrap();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(move || assert_eq!(reader.find(1).unwrap().unwrap().msg_id, 1));
        }
    });
}

/// A crash between an index and the new name of its file cost the file its number: a check then
/// said that a closed file had been moved away, and left out what could be in it.
#[test]
fn a_rotation_that_was_cut_short_leaves_no_gap() {
    let dir = tempfile::tempdir().unwrap();
    let archive = || {
        let rotation = Rotation { octets: 1, ..Rotation::NEVER };
        Archive::open_with(dir.path(), rotation, None).unwrap()
    };
    let message = Message { state: State::Delivered, msg_id: 1, done_us: NOW_US, ..message(1, b"x") };
    let mut own = archive();
    own.append(std::slice::from_ref(&message)).unwrap();
    assert!(own.rotate(NOW_US).unwrap());
    own.append(&[Message { msg_id: 2, ..message }]).unwrap();
    drop(own);
    let is_there = |name: &str| dir.path().join(name).exists();
    std::fs::write(dir.path().join("archive-000002.index"), "{\"index\":1").unwrap();
    let mut own = archive();
    assert!(own.rotate(NOW_US).unwrap());
    assert!(is_there("archive-000002.jsonl") && !is_there("archive-000003.jsonl"));
    drop(own);
    assert_eq!(archive().count(), 2);
    // One whose file was moved away keeps its number from being given again.
    std::fs::remove_file(dir.path().join("archive-000002.jsonl")).unwrap();
    let mut own = archive();
    own.append(&[Message { msg_id: 3, ..common::message(1, b"x") }]).unwrap();
    assert!(own.rotate(NOW_US).unwrap() && is_there("archive-000003.jsonl"));
}

/// Messages of two stores have the same numbers: an archive that lies beside another store, as
/// after a restore of the wrong directory, gave one application another's messages.
#[test]
fn an_archive_of_another_store_is_refused() {
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let rotation = Rotation { octets: 1, ..Rotation::NEVER };
    let archive =
        |at: usize, store: &MmdbStore| Archive::open_with(dirs[at].path(), rotation, store.identity());
    let names = dirs.each_ref().map(|dir| {
        let store = open(dir.path());
        let mut own = Archive::open_with(dir.path(), rotation, store.identity()).unwrap();
        let message = Message { state: State::Delivered, msg_id: 1, done_us: NOW_US, ..message(1, b"x") };
        own.append(std::slice::from_ref(&message)).unwrap();
        assert!(own.rotate(NOW_US).unwrap());
        own.append(&[Message { msg_id: 2, ..message }]).unwrap();
        store.identity().unwrap()
    });
    assert_ne!(names[0], names[1]);
    // The same store keeps its name, and takes its own.
    let store = open(dirs[0].path());
    assert_eq!(store.identity().as_ref(), Some(&names[0]));
    assert_eq!(archive(0, &store).unwrap().count(), 2);
    for name in ["archive.jsonl", "archive-000001.jsonl"] {
        let kept = std::fs::read(dirs[0].path().join(name)).unwrap();
        std::fs::copy(dirs[1].path().join(name), dirs[0].path().join(name)).unwrap();
        let error = archive(0, &store).err().unwrap().to_string();
        assert!(error.contains(name) && error.contains(&names[1]), "{error}");
        std::fs::write(dirs[0].path().join(name), kept).unwrap();
    }
    // One that was written before there were names is taken.
    let nameless = b"{\"archive\":2}\n";
    std::fs::write(dirs[0].path().join("archive.jsonl"), nameless).unwrap();
    archive(0, &store).unwrap();
}

/// Closed files may be moved away. After a restart the next ones got their names again: moved to
/// the same place, they overwrote the others' records, and a CSV that had been left was not made.
#[test]
fn the_number_of_a_file_that_was_moved_away_does_not_come_again() {
    let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let rotation = Rotation { octets: 1, ..Rotation::NEVER };
    let names = |dir: &Path| {
        let entries = std::fs::read_dir(dir).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.retain(|name| name.starts_with("archive-"));
        names.sort();
        names
    };
    for id in 1..=3 {
        let mut archive = Archive::open_with(dir.path(), rotation, Some("own".into())).unwrap();
        let one = Message { state: State::Delivered, msg_id: id, done_us: NOW_US, ..message(1, b"x") };
        archive.append(&[one]).unwrap();
        assert!(archive.rotate(NOW_US).unwrap());
        // Once with what is beside it; once the CSV is left.
        for name in names(dir.path()).iter().filter(|name| name.starts_with("archive-00")) {
            if name.ends_with(".csv") {
                continue;
            }
            assert!(!elsewhere.path().join(name).exists(), "{name}");
            std::fs::rename(dir.path().join(name), elsewhere.path().join(name)).unwrap();
        }
        if id == 2 {
            // One of an earlier version, whose first line does not tell its number.
            std::fs::write(dir.path().join("archive.jsonl"), "{\"archive\":2}\n").unwrap();
            std::fs::write(dir.path().join("archive-000002.csv"), "msg_id\n").unwrap();
            // And one that is the operator's own.
            std::fs::write(dir.path().join("archive-20261127.tar.gz"), "x").unwrap();
        }
    }
    let files = ["archive-000001.jsonl", "archive-000002.jsonl", "archive-000003.jsonl"];
    assert!(files.iter().all(|file| names(elsewhere.path()).iter().any(|name| name == file)));
}

/// Closed files may be moved away. A receipt that was archived after its message's file was closed
/// was then a violation: the receipt of a message that does not exist.
#[test]
fn what_was_moved_away_is_no_violation() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let rotation = Rotation { octets: 1, ..Rotation::NEVER };
    let mut archive = Archive::open_with(dir.path(), rotation, store.identity()).unwrap();
    let told = Message {
        state: State::Delivered,
        msg_id: 1,
        done_us: NOW_US,
        registered_delivery: 1,
        ..message(1, b"x")
    };
    let receipt = Message { msg_id: 2, registered_delivery: 0, receipt_of: 1, ..told.clone() };
    for message in [told, receipt] {
        archive.append(&[message]).unwrap();
        assert!(archive.rotate(NOW_US).unwrap());
    }
    drop(archive);
    let whole = check(&store, dir.path(), &[1]).unwrap();
    assert!(whole.holds() && whole.checked().contains(&"I5"), "{whole:?}");
    // The message is away; then the receipt is, too.
    for name in ["archive-000001.jsonl", "archive-000002.jsonl"] {
        std::fs::remove_file(dir.path().join(name)).unwrap();
        let rest = check(&store, dir.path(), &[1]).unwrap();
        assert!(rest.holds(), "{:?}", rest.violations);
        let left_out: Vec<&str> = rest.not_checked().iter().map(|(name, _)| *name).collect();
        assert_eq!(left_out, ["I5", "I6", "I7"]);
    }
}

#[test]
fn a_message_that_was_archived_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    recover(&store, Clock::default().now_us()).unwrap();
    let mut archive = Archive::open(dir.path()).unwrap();
    let plan = Plan {
        side: Side::Both,
        receivers: 2,
        senders: 2,
        window: 16,
        // More than one stretch of the archive.
        messages: 3000,
        load: LoadProfile {
            stations: 700,
            accounts: ACCOUNTS,
            receipt_percent: 20,
            ..LoadProfile::default()
        },
        network: NetworkProfile { unknown: 1000, ..NetworkProfile::perfect(1) },
        keep_accepted: true,
        ..Plan::default()
    };
    let ran = run(&store, &plan, &Figures::default(), Some(&mut archive), &mut |_| true).unwrap();
    // What the Flusher has left.
    let mut session = store.session(Acknowledge::Durable).unwrap();
    while flush(&mut *session, &mut archive, 100).unwrap() > 0 {}
    let mut left = 0;
    store
        .scan(&mut |row| {
            left += usize::from(matches!(row, Row::Message(_)));
            Ok(())
        })
        .unwrap();
    assert_eq!(left, 0, "every message is archived");
    let query = Operation::Query { account: 0, msg_id: ran.accepted[0] };
    assert_eq!(
        session.call(query).unwrap(),
        Outcome::Refused(Refusal::NoSuchMessage),
        "the store has it no more"
    );
    let states = check_all(&store, &archive, &ran.accepted);
    assert!(states.contains(&State::Delivered) && states.contains(&State::Undeliverable));
    let reader = archive.reader().unwrap();
    assert_eq!(status(&mut *session, Some(&reader), 0, i64::MAX).unwrap(), Err(Refusal::NoSuchMessage));
    let of_receipt = |id: &i64| reader.find(*id).unwrap().is_some_and(|record| record.receipt_of != 0);
    let receipt = (1..10_000).find(of_receipt).unwrap();
    for account in 0..ACCOUNTS {
        let status = status(&mut *session, Some(&reader), account, receipt).unwrap();
        assert_eq!(status, Err(Refusal::NoSuchMessage), "a receipt is nobody's message");
    }
    drop(session);
    drop(store);
    let store = open(dir.path());
    assert_eq!(
        check_all(&store, &Archive::open(dir.path()).unwrap(), &ran.accepted),
        states,
        "after a restart"
    );
}

/// What the archive in `dir` has, in its order.
fn archived(dir: &Path) -> Vec<i64> {
    let mut ids = Vec::new();
    read_archive(dir, &mut |record| ids.push(record.msg_id)).unwrap();
    ids
}

/// Numbers of `count` messages that became final one after the other.
fn finish(store: &dyn Store, count: i64) -> Vec<i64> {
    let mut session = store.session(Acknowledge::Early).unwrap();
    let cancelled = |step| {
        let msg_id = receive(&mut *session, message(1, b"hello"));
        let cancel = Operation::Cancel { account: ACCOUNT, msg_id, now_us: NOW_US + step };
        assert_eq!(session.call(cancel).unwrap(), Outcome::Count(1));
        msg_id
    };
    (1..=count).map(cancelled).collect()
}

/// A session whose `DropSent` fails: nothing is deleted, or nobody hears that it was.
struct Unheard<'a> {
    session: Box<dyn Session + 'a>,
    deletes: bool,
}

impl Session for Unheard<'_> {
    fn submit(&mut self, operation: Operation) -> Result<(), StoreError> {
        if !matches!(operation, Operation::DropSent(_)) {
            return self.session.submit(operation);
        }
        if self.deletes {
            self.session.call(operation)?;
        }
        Err(StoreError::Group { message: "as the test asks for".into(), is_full_disk: false })
    }

    fn settle(&mut self, outcomes: &mut Vec<Outcome>) -> Result<(), StoreError> {
        self.session.settle(outcomes)
    }

    fn settle_until(&mut self, outcomes: &mut Vec<Outcome>, until: Instant) -> Result<(), StoreError> {
        self.session.settle_until(outcomes, until)
    }
}

/// What was archived before a crash was forgotten with the first batch after it, although later
/// batches brought the rest: that was archived twice.
#[test]
fn what_a_crash_left_in_the_store_is_archived_once_in_however_many_batches_it_comes() {
    for appended in [300, 170, 100, 99, 1, 0] {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path());
        let expected = finish(&store, 300);
        let mut session = store.session(Acknowledge::Durable).unwrap();
        let Outcome::Sent(messages) = session.call(Operation::NextSent { max: appended }).unwrap() else {
            panic!("messages")
        };
        // Appended, and the process ended before they were deleted.
        Archive::open(dir.path()).unwrap().append(&messages).unwrap();
        assert_eq!(archived(dir.path()), expected[..appended]);
        let mut archive = Archive::open(dir.path()).unwrap();
        while flush(&mut *session, &mut archive, 100).unwrap() > 0 {}
        assert_eq!(archived(dir.path()), expected, "{appended} were appended");
        assert_eq!(archive.count(), 300);
        let report = check(&store, dir.path(), &expected).unwrap();
        assert!(report.holds(), "{report:#?}");
    }
}

/// The same archive goes on when the store did not answer, and knows what it has.
#[test]
fn what_the_store_did_not_acknowledge_is_archived_once() {
    for deletes in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path());
        let mut expected = finish(&store, 250);
        let mut archive = Archive::open(dir.path()).unwrap();
        for max in [100, 30, 200] {
            let session = store.session(Acknowledge::Durable).unwrap();
            let mut session = Unheard { session, deletes };
            flush(&mut session, &mut archive, max).unwrap_err();
        }
        let mut session = store.session(Acknowledge::Durable).unwrap();
        while flush(&mut *session, &mut archive, 60).unwrap() > 0 {}
        expected.extend(finish(&store, 50));
        while flush(&mut *session, &mut archive, 60).unwrap() > 0 {}
        let mut found = archived(dir.path());
        found.sort_unstable();
        assert_eq!(found, expected, "deletes: {deletes}");
    }
}

/// An archive of batches of so many messages, and the file's length after each.
fn archive_of(dir: &Path, batches: &[usize]) -> Vec<u64> {
    let mut archive = Archive::open(dir).unwrap();
    let mut next = 1..;
    let mut append = |&count: &usize| {
        let messages: Vec<Message> = (0..count).zip(&mut next).map(|(_, id)| numbered(id)).collect();
        archive.append(&messages).unwrap();
        std::fs::metadata(dir.join("archive.jsonl")).unwrap().len()
    };
    batches.iter().map(&mut append).collect()
}

fn numbered(msg_id: i64) -> Message {
    Message { msg_id, state: State::Delivered, done_us: NOW_US + msg_id, ..message(1, b"hello") }
}

proptest! {
    /// A power cut leaves any blocks of the last batch and zeros for the others, and the file as
    /// long as it likes.
    #[test]
    fn a_batch_that_was_torn_in_any_way_is_cut_off(
        written in prop::collection::vec(any::<bool>(), 30), length in 0.0..=1.0, before in 0..3usize, block in 1..1000usize
    ) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("archive.jsonl");
        let lengths = archive_of(dir.path(), &[&[5, 1][..before.min(2)], &[20]].concat());
        let header = std::fs::read(&path).unwrap().iter().position(|&octet| octet == b'\n').unwrap() + 1;
        let sealed = before.checked_sub(1).map_or(header, |at| lengths[at] as usize);
        let whole = std::fs::read(&path).unwrap();
        let mut torn = whole.clone();
        torn.truncate(sealed + ((whole.len() - sealed) as f64 * length) as usize);
        for (block, written) in torn[sealed..].chunks_mut(block).zip(written.iter().cycle()) {
            if !written {
                block.fill(0);
            }
        }
        prop_assume!(torn != whole);
        std::fs::write(&path, &torn).unwrap();
        let expected: Vec<i64> = (1..=[0, 5, 6][before]).collect();
        prop_assert_eq!(archived(dir.path()), expected.clone());
        let mut archive = Archive::open(dir.path()).unwrap();
        prop_assert_eq!(archive.count() as usize, expected.len());
        prop_assert_eq!(std::fs::read(&path).unwrap(), &whole[..sealed]);
        archive.append(&[numbered(99)]).unwrap();
        prop_assert_eq!(archived(dir.path()), [&expected[..], &[99]].concat());
    }

    /// What was sealed and has a sealed batch behind it was synced: whatever is wrong with it is no
    /// crash's work.
    #[test]
    fn damage_to_what_was_synced_is_told_with_its_place(at in 0.0..1.0, to: u8) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("archive.jsonl");
        let lengths = archive_of(dir.path(), &[5, 3, 1]);
        let mut damaged = std::fs::read(&path).unwrap();
        let at = (lengths[1] as f64 * at) as usize;
        prop_assume!(damaged[at] != to);
        damaged[at] = to;
        std::fs::write(&path, &damaged).unwrap();
        let said = Archive::open(dir.path()).err().unwrap().to_string();
        let told = said.contains("archive.jsonl, line ") && said.ends_with("the archive was changed or is damaged");
        prop_assert!(told || said.contains("is an archive of format"), "{}", said);
        prop_assert_eq!(std::fs::read(&path).unwrap(), damaged, "left as it is");
    }
}

#[test]
fn an_archive_of_the_first_format_is_sealed_and_a_later_one_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("archive.jsonl");
    archive_of(dir.path(), &[6]);
    let lines = std::fs::read_to_string(&path).unwrap();
    let records: Vec<&str> = lines.lines().filter(|line| line.starts_with("{\"msg_id\"")).collect();
    let old = records.join("\n") + "\n";
    // Whole; with half a line that was never synced; with zeros for a last line; empty, as one was
    // that nothing was flushed to.
    for (more, kept) in [("", 6), ("{\"msg_id\":7,\"st", 6), ("\0\0\0\n", 6), ("", 0)] {
        std::fs::write(&path, if kept == 0 { String::new() } else { old.clone() + more }).unwrap();
        let mut expected: Vec<i64> = (1..=kept).collect();
        assert_eq!(archived(dir.path()), expected);
        let mut archive = Archive::open(dir.path()).unwrap();
        assert_eq!(archive.count() as i64, kept);
        archive.append(&[numbered(3), numbered(99)]).unwrap();
        expected.extend(if kept == 0 { vec![3, 99] } else { vec![99] });
        assert_eq!(archived(dir.path()), expected);
        let sealed = std::fs::read_to_string(&path).unwrap();
        drop(archive);
        assert_eq!(Archive::open(dir.path()).unwrap().count() as usize, expected.len());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), sealed, "sealed once");
    }
    std::fs::write(&path, old.replace("\"state\":2", "\"state\":\"x\"")).unwrap();
    let said = Archive::open(dir.path()).err().unwrap().to_string();
    assert!(said.contains("archive.jsonl, line 1: no call detail record"), "{said}");
    std::fs::write(&path, "{\"archive\":3}\n").unwrap();
    let said = Archive::open(dir.path()).err().unwrap().to_string();
    assert!(
        said.ends_with("archive of format 3, and formats 1 to 2 are known; take the smsc that wrote it"),
        "{said}"
    );
}

/// The half of a batch that fitted a full disk stayed, and the next batch was written behind it.
#[test]
fn a_batch_that_does_not_fit_leaves_nothing_behind() {
    const TEST: &str = "a_batch_that_does_not_fit_leaves_nothing_behind";
    let Ok(dir) = std::env::var("SMSC_ARCHIVE_CHILD") else {
        // A limit to the length of files takes as much of a write as fits, as a full disk does;
        // without the signal it is an error.
        let dir = tempfile::tempdir().unwrap();
        let limited =
            format!("trap '' XFSZ; ulimit -f 64; exec {} --exact {TEST} --nocapture", test_program());
        let mut command = Command::new("sh");
        let child = command.args(["-c", &limited]).env("SMSC_ARCHIVE_CHILD", dir.path()).output().unwrap();
        assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
        assert_eq!(archived(dir.path()), (1..=20).chain([99]).collect::<Vec<i64>>());
        return;
    };
    let dir = Path::new(&dir);
    let path = dir.join("archive.jsonl");
    let mut archive = Archive::open(dir).unwrap();
    let batch = |ids: std::ops::RangeInclusive<i64>| ids.map(numbered).collect::<Vec<Message>>();
    archive.append(&batch(1..=20)).unwrap();
    let length = std::fs::metadata(&path).unwrap().len();
    for _ in 0..2 {
        let error = archive.append(&batch(21..=500)).unwrap_err();
        assert!(error.to_string().contains("archive.jsonl: File too large"), "{error}");
        assert_eq!(std::fs::metadata(&path).unwrap().len(), length, "nothing stays");
    }
    assert_eq!(archive.count(), 20);
    archive.append(&batch(99..=99)).unwrap();
    let reader = archive.reader().unwrap();
    assert!(reader.find(99).unwrap().is_some() && reader.find(21).unwrap().is_none());
}

fn test_program() -> String {
    std::env::current_exe().unwrap().display().to_string()
}

/// A file that happens to have the archive's name was replaced by an empty archive without a word.
#[test]
fn a_file_that_is_no_archive_is_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("archive.jsonl");
    for foreign in ["important\n", "important", "[1]", "\n\n"] {
        std::fs::write(&path, foreign).unwrap();
        let error = Archive::open(dir.path()).err().unwrap().to_string();
        assert!(error.contains("archive.jsonl, line 1"), "{foreign:?}: {error}");
        assert_eq!(std::fs::read_to_string(&path).unwrap(), foreign);
    }
    let target = dir.path().join("target");
    std::fs::write(&target, "").unwrap();
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink(&target, &path).unwrap();
    assert!(Archive::open(dir.path()).is_err());
    assert!(path.is_symlink());
    // What a kill left of a beginning is an archive's.
    std::fs::remove_file(&path).unwrap();
    for begun in ["", "{", "{\"arch", "\0\0\0\0"] {
        std::fs::write(&path, begun).unwrap();
        Archive::open(dir.path()).unwrap();
        std::fs::remove_file(&path).unwrap();
    }
}
