//! What a centre has to do next, and when: whether nothing happens because nothing is due.

use super::rows::primary;
use crate::model::{RetryTimer, SHARDS_ALL, Scheduled, Station, StationKey, StationState, Value};
use crate::transaction::{StoreError, Transaction};

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// A sender is to claim the first message of a station that is ready.
    Claim(StationKey),
    /// The claim of a station is to be completed; at its time its lease ends.
    Complete(StationKey),
    /// The retry timer of a station is to wake it.
    Retry(StationKey),
    /// A scheduled message is to be released.
    Release(i64),
}

/// The next task of a centre.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// When it is due, µs.
    pub due_us: i64,
    /// What is to be done.
    pub task: Task,
}

impl Due {
    /// The condition that holds at `now_us`, in words.
    #[must_use]
    pub fn condition(&self, now_us: i64) -> String {
        let Due { due_us, task } = self;
        let seconds = now_us.abs_diff(*due_us) as f64 / 1e6;
        let past = *due_us <= now_us;
        let when = if past { format!("for {seconds:.1} s") } else { format!("in {seconds:.1} s") };
        let was = if past { "has been" } else { "will be" };
        match task {
            Task::Claim(station) => format!("station {station} {was} ready {when}"),
            Task::Complete(station) => format!("the lease of station {station}'s claim {was} over {when}"),
            Task::Retry(station) => format!("the retry timer of station {station} {was} due {when}"),
            Task::Release(msg_id) => format!("the scheduled message {msg_id} {was} due {when}"),
        }
    }
}

/// The earliest task; `None` if nothing will ever be due.
pub(super) fn next_due(tx: &mut impl Transaction) -> Result<Option<Due>, StoreError> {
    let mut earliest: Option<Due> = None;
    let mut add = |due_us, task| {
        if earliest.is_none_or(|due| due_us < due.due_us) {
            earliest = Some(Due { due_us, task });
        }
    };
    for shard in 0..SHARDS_ALL {
        for state in [StationState::Ready, StationState::Busy] {
            let key = [Value::Int(shard.into()), Value::Int(state as i64)];
            for station in tx.range::<Station>(Station::RUN_QUEUE, &key, &key, 1)? {
                let task = if state == StationState::Ready { Task::Claim } else { Task::Complete };
                add(station.ready_us, task(station.dst_key));
            }
        }
    }
    let (first, last) = ([Value::Int(i64::MIN)], [Value::Int(i64::MAX)]);
    for timer in tx.range::<RetryTimer>(primary::<RetryTimer>(), &first, &last, 1)? {
        add(timer.due_us, Task::Retry(timer.dst_key));
    }
    for scheduled in tx.range::<Scheduled>(primary::<Scheduled>(), &first, &last, 1)? {
        add(scheduled.due_us, Task::Release(scheduled.msg_id));
    }
    Ok(earliest)
}
