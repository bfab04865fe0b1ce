//! Messages that tests submit.
#![allow(clippy::unwrap_used, dead_code)]

use smsc::centre::{Operation, Outcome, Submission};
use smsc::model::{Message, State, StationKey};
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
    Message {
        msg_id: 0,
        state: State::Enroute,
        account: ACCOUNT,
        src: "4900".into(),
        src_ton: 1,
        src_npi: 1,
        dst_key: StationKey(0),
        dst: address(station),
        dst_ton: 1,
        dst_npi: 1,
        service_type: String::new(),
        esm_class: 0,
        protocol_id: 0,
        priority: 0,
        registered_delivery: 0,
        data_coding: 0,
        submit_us: NOW_US,
        schedule_us: 0,
        expire_us: NOW_US + 86_400 * SECOND_US,
        done_us: 0,
        attempts: 0,
        last_error: 0,
        receipt_of: 0,
        parts: 0,
        tlvs: Vec::new(),
        body: body.to_vec(),
    }
}

/// Its number, once it is accepted.
pub fn receive(session: &mut dyn Session, message: Message) -> i64 {
    match session.call(Operation::Receive(Box::new(Submission::new(message).unwrap()))).unwrap() {
        Outcome::Received(id) => id,
        other => panic!("{other:?}"),
    }
}
