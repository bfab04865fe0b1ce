//! Messages that tests submit, and stores to submit them to.
#![allow(clippy::unwrap_used, dead_code)]

use smsc::centre::{Operation, Outcome, Rules, Submission};
use smsc::model::Message;
use smsc::store::{MmdbOptions, MmdbStore, Session, SqliteStore, Store};

pub const NOW_US: i64 = 1_800_000_000_000_000;
pub const SECOND_US: i64 = 1_000_000;
/// Whose messages they are.
pub const ACCOUNT: u32 = 7;

/// The number of station `station`.
pub fn address(station: usize) -> String {
    format!("49170{station:07}")
}

/// A message in the default alphabet, valid for a day.
pub fn message(station: usize, body: &[u8]) -> Message {
    let expire_us = NOW_US + 86_400 * SECOND_US;
    let plain = Message::plain("4900".into(), address(station), body.to_vec(), NOW_US, expire_us);
    Message { account: ACCOUNT, ..plain }
}

/// Its number, once it is accepted.
pub fn receive(session: &mut dyn Session, message: Message) -> i64 {
    match session.call(Operation::Receive(Box::new(Submission::new(message).unwrap()))).unwrap() {
        Outcome::Received(id) => id,
        other => panic!("{other:?}"),
    }
}

/// A store of each kind that needs no server, one after the other, with its directory.
pub fn stores(with: &dyn Fn(&dyn Store, &std::path::Path)) {
    let dir = tempfile::tempdir().unwrap();
    let options = MmdbOptions { segment_mib: 1, ..MmdbOptions::default() };
    with(&MmdbStore::open(dir.path(), &options, Rules::default()).unwrap(), dir.path());
    let dir = tempfile::tempdir().unwrap();
    let rules = Rules { has_flusher: false, ..Rules::default() };
    with(&SqliteStore::open(dir.path(), true, rules).unwrap(), dir.path());
}
