//! The small tables: parts, queues, timers, what was sent, numbers, accounts, what peers have.

use super::StationKey;
use super::message::MessageState;
use super::table::{Columns, Index, Kind, Record, Table, Value, columns};
use crate::transaction::StoreError;

impl Scheduled {
    /// Index by station. Few messages are scheduled, and those that wait are found by their station
    /// in `to_delivery`.
    pub const BY_STATION: &'static Index = &Self::TABLE.indexes[1];
}

/// A table of the model: its row type, columns by field, and keys.
macro_rules! record {
    ($(#[$doc:meta])* $row:ident, $number:literal, $name:literal, derivable $derivable:literal, [$($index:expr),*],
     { $($(#[$field_doc:meta])* $field:ident: $type:ty = $column:literal $kind:expr, $to:expr, $from:expr;)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $row { $($(#[$field_doc])* pub $field: $type,)* }

        impl Record for $row {
            const TABLE: &'static Table = &Table {
                number: $number,
                name: $name,
                columns: columns![$($column $kind),*],
                indexes: &[$($index),*],
                derivable: $derivable,
            };

            fn with_values<T>(&self, to: impl FnOnce(&[Value<'_>]) -> T) -> T {
                to(&[$($to(&self.$field)),*])
            }

            fn read(row: &impl Columns) -> Result<Self, StoreError> {
                let mut at = 0..;
                // The range has no end.
                $(let $field = ($from)(row, at.next().unwrap_or_default())?;)*
                Ok($row { $($field),* })
            }
        }
    };
}

fn number(value: &i64) -> Value<'_> {
    Value::Int(*value)
}

fn octet(value: &u8) -> Value<'_> {
    Value::Int((*value).into())
}

fn flag(value: &bool) -> Value<'_> {
    Value::Int((*value).into())
}

fn word(value: &u32) -> Value<'_> {
    Value::Int((*value).into())
}

fn station(value: &StationKey) -> Value<'_> {
    Value::Int(value.0)
}

fn state(value: &MessageState) -> Value<'_> {
    Value::Int(*value as i64)
}

fn octets(value: &[u8]) -> Value<'_> {
    Value::Bytes(value)
}

fn to_station(row: &impl Columns, at: usize) -> Result<StationKey, StoreError> {
    Ok(StationKey(row.int(at)?))
}

fn to_state(row: &impl Columns, at: usize) -> Result<MessageState, StoreError> {
    MessageState::of(row.int(at)?).ok_or_else(|| StoreError::row(at, "message state"))
}

fn to_small<N: TryFrom<i64>>(row: &impl Columns, at: usize) -> Result<N, StoreError> {
    row.small(at)
}

fn to_flag(row: &impl Columns, at: usize) -> Result<bool, StoreError> {
    Ok(row.int(at)? != 0)
}

fn to_octets(row: &impl Columns, at: usize) -> Result<Vec<u8>, StoreError> {
    Ok(row.bytes(at)?.to_vec())
}

fn words(value: &str) -> Value<'_> {
    Value::Text(value)
}

fn to_words(row: &impl Columns, at: usize) -> Result<String, StoreError> {
    row.text(at)
}

fn to_number(row: &impl Columns, at: usize) -> Result<i64, StoreError> {
    row.int(at)
}

record! {
    /// A part as it goes over the air: `encoded_msg`.
    EncodedPart, 1, "encoded_msg", derivable true,
    [Index { name: "primary", columns: &[0, 1], ordered: false }],
    {
        /// The message.
        msg_id: i64 = "msg_id" Kind::Int64, number, to_number;
        /// Number of the part, from 1.
        part: u8 = "part" Kind::Int16, octet, to_small;
        /// TP-DCS bits 2 and 3.
        alphabet: u8 = "alphabet" Kind::Int16, octet, to_small;
        /// TP-UDHI.
        has_header: bool = "has_header" Kind::Int16, flag, to_flag;
        /// TP-UDL.
        user_data_length: u8 = "user_data_length" Kind::Int16, octet, to_small;
        /// TP-UD.
        octets: Vec<u8> = "octets" Kind::Bytes(140), octets, to_octets;
    }
}

record! {
    /// A place in the queue of a station: `to_delivery`.
    Queued, 2, "to_delivery", derivable true,
    [Index { name: "primary", columns: &[0, 1, 2], ordered: true }],
    {
        /// The station.
        dst_key: StationKey = "dst_key" Kind::Int64, station, to_station;
        /// 3 − priority.
        rank: u8 = "rank" Kind::Int16, octet, to_small;
        /// The message.
        msg_id: i64 = "msg_id" Kind::Int64, number, to_number;
        /// End of its validity, µs.
        expire_us: i64 = "expire_us" Kind::Time, number, to_number;
    }
}

record! {
    /// A message that waits for its time: `scheduled_msg`.
    Scheduled, 3, "scheduled_msg", derivable true,
    [
        Index { name: "primary", columns: &[0, 1], ordered: true },
        Index { name: "scheduled_msg_by_station", columns: &[2], ordered: false }
    ],
    {
        /// When it becomes deliverable, µs.
        due_us: i64 = "due_us" Kind::Time, number, to_number;
        /// The message.
        msg_id: i64 = "msg_id" Kind::Int64, number, to_number;
        /// Its station.
        dst_key: StationKey = "dst_key" Kind::Int64, station, to_station;
    }
}

record! {
    /// A station that waits: `retry_timer`.
    RetryTimer, 5, "retry_timer", derivable true,
    [Index { name: "primary", columns: &[0, 1], ordered: true }],
    {
        /// When it becomes ready, µs.
        due_us: i64 = "due_us" Kind::Time, number, to_number;
        /// The station.
        dst_key: StationKey = "dst_key" Kind::Int64, station, to_station;
        /// The claim that failed.
        epoch: i64 = "epoch" Kind::Int64, number, to_number;
    }
}

record! {
    /// A message with its final state that has not been archived: `sent`.
    ///
    /// Its key is time and number, so that the Flusher needs no second index.
    Sent, 6, "sent", derivable true,
    [Index { name: "primary", columns: &[0, 1], ordered: true }],
    {
        /// When it became final, µs.
        done_us: i64 = "done_us" Kind::Time, number, to_number;
        /// The message.
        msg_id: i64 = "msg_id" Kind::Int64, number, to_number;
        /// Its final state.
        state: MessageState = "state" Kind::Int16, state, to_state;
        /// Error of the last attempt.
        error: u32 = "error" Kind::Int32, word, to_small;
        /// Attempts.
        attempts: u32 = "attempts" Kind::Int32, word, to_small;
        /// Parts.
        parts: u8 = "parts" Kind::Int16, octet, to_small;
    }
}

record! {
    /// Numbers given to a node: `id_block`. mmdb keeps its identity in a row of it, too.
    IdBlock, 7, "id_block", derivable false,
    [Index { name: "primary", columns: &[0], ordered: false }],
    {
        /// The node.
        node: u32 = "node" Kind::Int32, word, to_small;
        /// The first number that no node was given.
        next: i64 = "next_id" Kind::Int64, number, to_number;
    }
}

/// Octets of the longest hash of a password.
pub(crate) const PASSWORD_HASH_MAX: u64 = 128;

record! {
    /// What an application may do, and has done: `account`.
    Account, 8, "account", derivable false,
    [Index { name: "primary", columns: &[0], ordered: false }],
    {
        /// Its number.
        account: u32 = "account" Kind::Int64, word, to_small;
        /// Of its password, as the front of the centre makes it.
        password_hash: Vec<u8> = "password_hash" Kind::Bytes(PASSWORD_HASH_MAX as u16), octets, to_octets;
        /// Sessions at a time; 0 for no limit. The front counts them.
        binds_max: u32 = "binds_max" Kind::Int32, word, to_small;
        /// Messages under way in a session; 0 for no limit. The front counts them.
        window_max: u32 = "window_max" Kind::Int32, word, to_small;
        /// Messages in a second of the clock; 0 for no limit.
        rate_max: u32 = "rate_max" Kind::Int32, word, to_small;
        /// Messages altogether; 0 for no limit.
        quota: i64 = "quota" Kind::Int64, number, to_number;
        /// Messages submitted.
        submitted: i64 = "submitted" Kind::Int64, number, to_number;
        /// The second of the last one, µs.
        second_us: i64 = "second_us" Kind::Time, number, to_number;
        /// Messages submitted in that second.
        in_second: u32 = "in_second" Kind::Int32, word, to_small;
    }
}

impl Forwarded {
    /// Index by the peer and its number of the message.
    pub const BY_PEER_ID: &'static Index = &Self::TABLE.indexes[1];
    /// Index by the time at which nobody waits for the receipt any more.
    pub const BY_DUE: &'static Index = &Self::TABLE.indexes[2];
}

record! {
    /// A message that a peer has accepted and whose receipt has not come: `forwarded`.
    ///
    /// The peer's number of it is no key: some peers begin again with the same numbers.
    Forwarded, 9, "forwarded", derivable false,
    [
        Index { name: "primary", columns: &[0], ordered: false },
        Index { name: "forwarded_by_peer_id", columns: &[1, 2], ordered: false },
        Index { name: "forwarded_by_due", columns: &[3, 0], ordered: true }
    ],
    {
        /// The message.
        msg_id: i64 = "msg_id" Kind::Int64, number, to_number;
        /// The peer.
        peer: u32 = "peer" Kind::Int32, word, to_small;
        /// The peer's number of the message, as its receipts are compared with it.
        peer_id: String = "peer_id" Kind::Text(PEER_ID_MAX as u16), words, to_words;
        /// When its receipt is waited for no longer, µs.
        due_us: i64 = "due_us" Kind::Time, number, to_number;
    }
}

/// Octets of the longest message_id of SMPP.
pub const PEER_ID_MAX: usize = 64;

impl Account {
    /// An account without limits.
    #[must_use]
    pub fn unlimited(account: u32) -> Account {
        Account {
            account,
            password_hash: Vec::new(),
            binds_max: 0,
            window_max: 0,
            rate_max: 0,
            quota: 0,
            submitted: 0,
            second_us: 0,
            in_second: 0,
        }
    }

    /// The columns that a message changes, with their values.
    pub(crate) fn counters(&self) -> [(usize, Value<'static>); 3] {
        [
            (6, Value::Int(self.submitted)),
            (7, Value::Int(self.second_us)),
            (8, Value::Int(self.in_second.into())),
        ]
    }
}
