//! A line of the archive: the call detail record of one message.

use crate::centre::status::Status;
use crate::model::Message;
use serde::{Deserialize, Serialize};

/// A call detail record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArchivedMessage {
    /// The message.
    pub msg_id: i64,
    /// Its final state, by SMPP's number.
    pub state: u8,
    /// Account.
    pub account: u32,
    /// Source address.
    pub src: String,
    /// Destination address.
    pub dst: String,
    /// Its station's key.
    pub station: i64,
    /// 3 − priority.
    pub rank: u8,
    /// When it was accepted, µs.
    pub submit_us: i64,
    /// When it was to be delivered; 0 for at once, µs.
    pub schedule_us: i64,
    /// When it became final, µs.
    pub done_us: i64,
    /// Attempts.
    pub attempts: u32,
    /// Error of the last one.
    pub error: u32,
    /// Parts.
    pub parts: u8,
    /// The message that it was the receipt of; 0 for none.
    pub receipt_of: i64,
    /// registered_delivery.
    pub registered_delivery: u8,
    /// data_coding.
    pub data_coding: u8,
    /// Octets of its body.
    pub octets: usize,
    /// Whether a receipt was due for it.
    pub receipt_due: bool,
}

impl ArchivedMessage {
    /// The record of a message.
    #[must_use]
    pub fn of(message: &Message) -> ArchivedMessage {
        ArchivedMessage {
            msg_id: message.msg_id,
            state: message.state as u8,
            account: message.account,
            src: message.src.clone(),
            dst: message.dst.clone(),
            station: message.dst_key.0,
            rank: message.rank(),
            submit_us: message.submit_us,
            schedule_us: message.schedule_us,
            done_us: message.done_us,
            attempts: message.attempts,
            error: message.last_error,
            parts: message.parts,
            receipt_of: message.receipt_of,
            registered_delivery: message.registered_delivery,
            data_coding: message.data_coding,
            octets: message.body.len(),
            receipt_due: message.wants_receipt(message.state),
        }
    }

    /// Whether it was delivered.
    #[must_use]
    pub fn delivered(&self) -> bool {
        self.state == crate::model::State::Delivered as u8
    }

    /// What a query tells of it; none if its state is unknown.
    pub(crate) fn status(&self) -> Option<Status> {
        let state = crate::model::MessageState::of(self.state.into())?;
        Some(Status { state, done_us: self.done_us, error: self.error })
    }

    /// Whether it had to wait for its time.
    #[must_use]
    pub fn scheduled(&self) -> bool {
        self.schedule_us > self.submit_us
    }
}
