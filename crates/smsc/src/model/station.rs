//! The table `ms_state`: one row for each station that ever had a message; where it is not logged,
//! a restart makes only those again that have one queued.

use super::StationKey;
use super::table::{Columns, Index, Kind, Record, Table, Value, columns};
use crate::transaction::StoreError;

/// Shards of the run queue that mobiles have. A sender begins at its own shard, so that senders do
/// not meet at one end of one queue; a distributed store gives shards to nodes.
pub const MOBILE_SHARDS: u16 = 16;

/// Shards of the run queue. Those behind the mobiles' are for applications: one that is not there
/// must not stand in the way of mobiles.
pub const SHARDS: u16 = 32;

/// Peers that a centre has at most. Each has one shard of the run queue behind all others, so that
/// one that is not there costs those that are nothing.
pub const PEERS_MAX: u16 = 32;

/// All shards, those of peers included.
pub const SHARDS_ALL: u16 = SHARDS + PEERS_MAX;

/// The shard of what is to be delivered through a peer, by its number from 1.
#[must_use]
pub const fn shard_of_peer(number: u16) -> u16 {
    assert!(number >= 1 && number <= PEERS_MAX, "peers are numbered from 1 to 32");
    SHARDS + number - 1
}

/// The shard of a station, unless what waits for it goes through a peer.
#[must_use]
pub fn shard_of(key: StationKey) -> u16 {
    // Fibonacci hashing: neighbouring numbers go to different shards.
    let hash = ((key.0 as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60) as u16 % MOBILE_SHARDS;
    if key.0 < 0 { MOBILE_SHARDS + hash } else { hash }
}

/// What a station is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum StationState {
    /// Nothing is queued.
    Idle = 0,
    /// Its next message may be delivered.
    Ready = 1,
    /// A message is in flight.
    Busy = 2,
    /// Waits for its retry timer.
    Wait = 3,
    /// Waits for its retry timer or an alert.
    Absent = 4,
}

impl StationState {
    /// The state that stores keep under this number.
    pub(crate) fn from_code(code: i64) -> Option<StationState> {
        Some(match code {
            0 => StationState::Idle,
            1 => StationState::Ready,
            2 => StationState::Busy,
            3 => StationState::Wait,
            4 => StationState::Absent,
            _ => return None,
        })
    }
}

/// A station.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Station {
    /// Key.
    pub dst_key: StationKey,
    /// Its shard of the run queue: that of its key ([`shard_of`]), or of the peer through which its
    /// first message goes. A hint: whoever claims a message that is not his puts it back elsewhere.
    pub shard: u16,
    /// State.
    pub state: StationState,
    /// Ready: since when. Busy: when the claim's lease ends. Wait and absent: when the retry timer
    /// is due. µs.
    pub ready_us: i64,
    /// Number of the last claim: whoever completes an earlier one is fenced off.
    pub epoch: i64,
    /// The message in flight; 0 for none.
    pub current: i64,
    /// Messages queued, the one in flight included.
    pub queue: u32,
    /// Temporary failures since the last message went.
    pub attempts: u32,
    /// Error of the last attempt; 0 for none.
    pub last_error: u32,
    /// An alert came while a message was in flight.
    pub alerted: bool,
}

impl Station {
    /// Index of the run queue: shard, state, time.
    pub const RUN_QUEUE: &'static Index = &Self::TABLE.indexes[1];

    /// A station that has nothing queued.
    #[must_use]
    pub fn idle(dst_key: StationKey) -> Station {
        Station {
            dst_key,
            shard: shard_of(dst_key),
            state: StationState::Idle,
            ready_us: 0,
            epoch: 0,
            current: 0,
            queue: 0,
            attempts: 0,
            last_error: 0,
            alerted: false,
        }
    }
}

impl Record for Station {
    const TABLE: &'static Table = &Table {
        number: 4,
        name: "ms_state",
        columns: columns![
            "dst_key" Kind::Int64,
            "shard" Kind::Int16,
            "state" Kind::Int16,
            "ready_us" Kind::Time,
            "epoch" Kind::Int64,
            "current_msg" Kind::Int64,
            "queue" Kind::Int32,
            "attempts" Kind::Int32,
            "last_error" Kind::Int32,
            "alerted" Kind::Int16,
        ],
        indexes: &[
            Index { name: "primary", columns: &[0], ordered: false },
            Index { name: "ms_state_run_queue", columns: &[1, 2, 3, 0], ordered: true },
        ],
        derivable: true,
    };

    fn with_values<T>(&self, to: impl FnOnce(&[Value<'_>]) -> T) -> T {
        use Value::Int;
        to(&[
            Int(self.dst_key.0),
            Int(self.shard.into()),
            Int(self.state as i64),
            Int(self.ready_us),
            Int(self.epoch),
            Int(self.current),
            Int(self.queue.into()),
            Int(self.attempts.into()),
            Int(self.last_error.into()),
            Int(self.alerted.into()),
        ])
    }

    fn read(row: &impl Columns) -> Result<Self, StoreError> {
        Ok(Station {
            dst_key: StationKey(row.int(0)?),
            shard: row.small(1)?,
            state: StationState::from_code(row.int(2)?).ok_or_else(|| StoreError::row(2, "station state"))?,
            ready_us: row.int(3)?,
            epoch: row.int(4)?,
            current: row.int(5)?,
            queue: row.small(6)?,
            attempts: row.small(7)?,
            last_error: row.small(8)?,
            alerted: row.int(9)? != 0,
        })
    }
}
