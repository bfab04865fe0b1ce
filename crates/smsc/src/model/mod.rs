//! The data model: tables, rows, addresses. The same on every store.

mod address;
mod message;
mod station;
mod table;
mod timers;
mod unlogged;

pub use address::{AddressError, ESME_LANES, StationKey};
pub use message::{Message, MessageState, Receipting, State};
pub use station::{MOBILE_SHARDS, SHARDS, Station, StationState, shard_of};
pub use table::{Column, Columns, Index, Kind, Record, TABLES, Table, Value};
pub(crate) use timers::PASSWORD_HASH_MAX;
pub use timers::{Account, EncodedPart, IdBlock, Queued, RetryTimer, Scheduled, Sent};
pub use unlogged::{Unlogged, UnloggedError};
