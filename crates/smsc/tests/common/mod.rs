//! Messages that tests submit.
#![allow(clippy::unwrap_used, dead_code)]

use smsc::centre::{Operation, Outcome, Submission};
use smsc::model::Message;
use smsc::store::Session;

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
