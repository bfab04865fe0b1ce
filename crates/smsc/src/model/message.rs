//! The table `message`.

use super::StationKey;
use super::table::{Columns, Index, Kind, Record, Table, Value, columns};
use crate::text::BODY_OCTETS_MAX;
use crate::transaction::StoreError;

/// A message's state, by SMPP's message_state (SMPP 3.4 §5.2.28); [`MessageState::Scheduled`] is
/// SMPP 5.0's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum MessageState {
    /// Waits for its time.
    Scheduled = 0,
    /// Waits for its station or is in flight.
    Enroute = 1,
    /// Final: its station has it.
    Delivered = 2,
    /// Final: its validity ended before.
    Expired = 3,
    /// Final: cancelled.
    Deleted = 4,
    /// Final: refused for good.
    Undeliverable = 5,
    /// Final: a peer has accepted it, and never told what became of it.
    Unknown = 7,
    /// Final: a peer has refused it.
    Rejected = 8,
    /// A peer has accepted it, and its receipt is waited for. Not a state of SMPP: an application
    /// hears that it is on its way.
    Forwarded = 16,
}

/// Short for [`MessageState`].
pub type State = MessageState;

impl MessageState {
    /// The state of this number.
    #[must_use]
    pub fn of(number: i64) -> Option<MessageState> {
        [
            State::Scheduled,
            State::Enroute,
            State::Delivered,
            State::Expired,
            State::Deleted,
            State::Undeliverable,
            State::Unknown,
            State::Rejected,
            State::Forwarded,
        ]
        .into_iter()
        .find(|state| *state as i64 == number)
    }

    /// Whether nothing changes it any more.
    #[must_use]
    pub fn is_final(self) -> bool {
        !matches!(self, State::Scheduled | State::Enroute | State::Forwarded)
    }

    /// As SMPP numbers it (message_state of SMPP 3.4 §5.2.28): what waits or is with a peer is
    /// ENROUTE.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            State::Scheduled | State::Forwarded => State::Enroute as u8,
            state => state as u8,
        }
    }

    /// As a receipt spells it (`stat:`), SMPP 3.4 appendix B.
    #[must_use]
    pub fn receipt_word(self) -> &'static str {
        match self {
            State::Scheduled | State::Enroute | State::Forwarded => "ENROUTE",
            State::Delivered => "DELIVRD",
            State::Expired => "EXPIRED",
            State::Deleted => "DELETED",
            State::Undeliverable => "UNDELIV",
            State::Unknown => "UNKNOWN",
            State::Rejected => "REJECTD",
        }
    }
}

/// What `registered_delivery` asks for (bits 0 and 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receipting {
    /// No receipt.
    None,
    /// A receipt of the final state.
    Always,
    /// A receipt if the message is not delivered.
    Failure,
    /// A receipt if it is delivered.
    Success,
}

/// One message, whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its number, unique and rising for each station in the order of acceptance.
    pub msg_id: i64,
    /// Its state.
    pub state: MessageState,
    /// Account of the sender; of a receipt, of the one who gets it.
    pub account: u32,
    /// Source address.
    pub src: String,
    /// Its type of number.
    pub src_ton: u8,
    /// Its numbering plan.
    pub src_npi: u8,
    /// The station.
    pub dst_key: StationKey,
    /// Destination address.
    pub dst: String,
    /// Its type of number.
    pub dst_ton: u8,
    /// Its numbering plan.
    pub dst_npi: u8,
    /// service_type.
    pub service_type: String,
    /// esm_class.
    pub esm_class: u8,
    /// protocol_id.
    pub protocol_id: u8,
    /// priority_flag, 0 to 3.
    pub priority: u8,
    /// registered_delivery.
    pub registered_delivery: u8,
    /// data_coding.
    pub data_coding: u8,
    /// When it was accepted, µs.
    pub submit_us: i64,
    /// When it may be delivered; 0 for at once, µs.
    pub schedule_us: i64,
    /// When its validity ends, µs.
    pub expire_us: i64,
    /// When it became final; 0 before, µs.
    pub done_us: i64,
    /// Attempts of delivery that ended.
    pub attempts: u32,
    /// Error of the last attempt; 0 for none.
    pub last_error: u32,
    /// The message that this one is the receipt of; 0 for none. Negative: the message on whose way
    /// this one is an intermediate notification.
    pub receipt_of: i64,
    /// Rows of `encoded_msg`; 0 for a station that is no mobile, and for what went through a peer.
    pub parts: u8,
    /// Optional parameters (TLVs), as they came.
    pub tlvs: Vec<u8>,
    /// The body, as `data_coding` says.
    pub body: Vec<u8>,
}

/// The most octets of a body. 39,015: the cast is exact.
const BODY_MAX: u16 = BODY_OCTETS_MAX as u16;

impl Message {
    /// A message to be submitted: between international numbers, in the default alphabet, with
    /// nothing else asked for.
    #[must_use]
    pub fn plain(src: String, dst: String, body: Vec<u8>, submit_us: i64, expire_us: i64) -> Message {
        Message {
            msg_id: 0,
            state: State::Enroute,
            account: 1,
            src,
            src_ton: 1,
            src_npi: 1,
            dst_key: StationKey(0),
            dst,
            dst_ton: 1,
            dst_npi: 1,
            service_type: String::new(),
            esm_class: 0,
            protocol_id: 0,
            priority: 0,
            registered_delivery: 0,
            data_coding: 0,
            submit_us,
            schedule_us: 0,
            expire_us,
            done_us: 0,
            attempts: 0,
            last_error: 0,
            receipt_of: 0,
            parts: 0,
            tlvs: Vec::new(),
            body,
        }
    }

    /// Number of the column `parts`.
    pub(crate) const PARTS: usize = 23;

    /// Order among the messages of a station: the smallest first.
    #[must_use]
    pub fn rank(&self) -> u8 {
        3 - self.priority.min(3)
    }

    /// The columns that an attempt or an end changes, with their values.
    pub(crate) fn outcome(&self) -> [(usize, Value<'static>); 4] {
        [
            (1, Value::Int(self.state as i64)),
            (19, Value::Int(self.done_us)),
            (20, Value::Int(self.attempts.into())),
            (21, Value::Int(self.last_error.into())),
        ]
    }

    /// What the sender wants to hear.
    #[must_use]
    pub fn receipting(&self) -> Receipting {
        match self.registered_delivery & 3 {
            1 => Receipting::Always,
            2 => Receipting::Failure,
            3 => Receipting::Success,
            _ => Receipting::None,
        }
    }

    /// Whether the sender wants to hear of a first attempt in vain (registered_delivery bit 4).
    #[must_use]
    pub fn wants_notification(&self) -> bool {
        self.registered_delivery & 0x10 != 0 && self.receipt_of == 0
    }

    /// Whether a final state of this message is told in a receipt.
    #[must_use]
    pub fn wants_receipt(&self, state: MessageState) -> bool {
        match self.receipting() {
            Receipting::None => false,
            Receipting::Always => true,
            Receipting::Failure => state != State::Delivered,
            Receipting::Success => state == State::Delivered,
        }
    }
}

impl Record for Message {
    const TABLE: &'static Table = &Table {
        number: 0,
        name: "message",
        columns: columns![
            "msg_id" Kind::Int64,
            "state" Kind::Int16,
            "account" Kind::Int64,
            "src" Kind::Text(21),
            "src_ton" Kind::Int16,
            "src_npi" Kind::Int16,
            "dst_key" Kind::Int64,
            "dst" Kind::Text(21),
            "dst_ton" Kind::Int16,
            "dst_npi" Kind::Int16,
            "service_type" Kind::Text(6),
            "esm_class" Kind::Int16,
            "protocol_id" Kind::Int16,
            "priority" Kind::Int16,
            "registered_delivery" Kind::Int16,
            "data_coding" Kind::Int16,
            "submit_us" Kind::Time,
            "schedule_us" Kind::Time,
            "expire_us" Kind::Time,
            "done_us" Kind::Time,
            "attempts" Kind::Int32,
            "last_error" Kind::Int32,
            "receipt_of" Kind::Int64,
            "parts" Kind::Int16,
            "tlvs" Kind::Bytes(4096),
            "body" Kind::Bytes(BODY_MAX),
        ],
        indexes: &[Index { name: "primary", columns: &[0], ordered: false }],
        derivable: false,
    };

    fn with_values<T>(&self, to: impl FnOnce(&[Value<'_>]) -> T) -> T {
        use Value::{Bytes, Int, Text};
        to(&[
            Int(self.msg_id),
            Int(self.state as i64),
            Int(self.account.into()),
            Text(&self.src),
            Int(self.src_ton.into()),
            Int(self.src_npi.into()),
            Int(self.dst_key.0),
            Text(&self.dst),
            Int(self.dst_ton.into()),
            Int(self.dst_npi.into()),
            Text(&self.service_type),
            Int(self.esm_class.into()),
            Int(self.protocol_id.into()),
            Int(self.priority.into()),
            Int(self.registered_delivery.into()),
            Int(self.data_coding.into()),
            Int(self.submit_us),
            Int(self.schedule_us),
            Int(self.expire_us),
            Int(self.done_us),
            Int(self.attempts.into()),
            Int(self.last_error.into()),
            Int(self.receipt_of),
            Int(self.parts.into()),
            Bytes(&self.tlvs),
            Bytes(&self.body),
        ])
    }

    fn read(row: &impl Columns) -> Result<Self, StoreError> {
        Ok(Message {
            msg_id: row.int(0)?,
            state: MessageState::of(row.int(1)?).ok_or_else(|| StoreError::row(1, "message state"))?,
            account: row.small(2)?,
            src: row.text(3)?,
            src_ton: row.small(4)?,
            src_npi: row.small(5)?,
            dst_key: StationKey(row.int(6)?),
            dst: row.text(7)?,
            dst_ton: row.small(8)?,
            dst_npi: row.small(9)?,
            service_type: row.text(10)?,
            esm_class: row.small(11)?,
            protocol_id: row.small(12)?,
            priority: row.small(13)?,
            registered_delivery: row.small(14)?,
            data_coding: row.small(15)?,
            submit_us: row.int(16)?,
            schedule_us: row.int(17)?,
            expire_us: row.int(18)?,
            done_us: row.int(19)?,
            attempts: row.small(20)?,
            last_error: row.small(21)?,
            receipt_of: row.int(22)?,
            parts: row.small(23)?,
            tlvs: row.bytes(24)?.to_vec(),
            body: row.bytes(25)?.to_vec(),
        })
    }
}
