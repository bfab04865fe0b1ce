//! The data model: tables, rows, addresses. The same on every store.

mod address;
mod message;
mod station;
mod table;
mod tables;
mod timers;
mod unlogged;

pub use address::{AddressError, ESME_LANES, StationKey};
pub use message::{Message, MessageState, Receipting, State};
pub use station::{
    MOBILE_SHARDS, PEERS_MAX, SHARDS, SHARDS_ALL, Station, StationState, shard_of, shard_of_peer,
};
pub use table::{Column, Columns, Index, Kind, Record, Table, Value};
pub(crate) use tables::FIRST_TABLES;
pub use tables::TABLES;
pub(crate) use timers::PASSWORD_HASH_MAX;
pub use timers::PEER_ID_MAX;
pub use timers::{Account, EncodedPart, Forwarded, IdBlock, Queued, RetryTimer, Scheduled, Sent};
pub use unlogged::{UnloggedError, UnloggedTables};
