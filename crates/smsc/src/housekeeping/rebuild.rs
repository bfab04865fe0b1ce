//! Makes the rows again of tables that a store does not log.

use crate::centre::{encode, queued, scheduled, sent_row};
use crate::model::{
    EncodedPart, Queued, Record, RetryTimer, Scheduled, Sent, State, Station, StationKey, StationState,
    UnloggedTables, shard_of,
};
use crate::store::{Rebuild, Row, StoreError};
use std::collections::HashMap;

/// What a queued message tells of its station. Sorted, they are in the order of stations, those of
/// each in the order of its queue.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Sign {
    station: StationKey,
    rank: u8,
    msg_id: i64,
    submit_us: i64,
    attempts: u32,
    last_error: u32,
}

/// Retry timers by station, which has one at most.
type Timers = HashMap<StationKey, RetryTimer>;

/// Makes the rows of the lost tables; how many. As many threads as there are processors read what
/// is there, each its part, and make what follows from one row; what follows from all messages of a
/// station is gathered, and made by one of them for each station.
pub(super) fn rebuild(tables: Box<dyn Rebuild + '_>, has_flusher: bool) -> Result<usize, StoreError> {
    let parts = std::thread::available_parallelism().map_or(2, usize::from);
    let panicked = |_| StoreError::protocol("a thread of recovery panicked");
    let rows = std::thread::scope(|scope| -> Result<usize, StoreError> {
        let tables = &*tables;
        let read = |part| {
            scope.spawn(move || {
                let mut gathered = Gathered::new(parts);
                gathered.messages(tables, part, has_flusher)?;
                gathered.timers(tables, part)?;
                Ok::<Gathered, StoreError>(gathered)
            })
        };
        let readers: Vec<_> = (0..parts).map(read).collect();
        let mut all = Gathered::new(parts);
        for reader in readers {
            all.add(reader.join().map_err(panicked)??);
        }
        let of_each = all.signs.into_iter().zip(all.timers);
        let make = |(signs, timers)| scope.spawn(move || rows_of_stations(tables, signs, &timers));
        let makers: Vec<_> = of_each.map(make).collect();
        makers.into_iter().try_fold(all.rows, |rows, maker| Ok(rows + maker.join().map_err(panicked)??))
    })?;
    tables.finish()?;
    Ok(rows)
}

/// Rows that were made, and what one part of the rows tells of stations, which another part tells
/// of, too: in lists by station.
struct Gathered {
    rows: usize,
    signs: Vec<Vec<Sign>>,
    timers: Vec<Timers>,
}

impl Gathered {
    fn new(lists: usize) -> Gathered {
        Gathered { rows: 0, signs: vec![Vec::new(); lists], timers: vec![Timers::new(); lists] }
    }

    fn add(&mut self, mut other: Gathered) {
        self.rows += other.rows;
        self.signs.iter_mut().zip(&mut other.signs).for_each(|(all, found)| all.append(found));
        self.timers.iter_mut().zip(other.timers).for_each(|(all, found)| all.extend(found));
    }

    /// The list of a station.
    fn list(&self, station: StationKey) -> usize {
        usize::from(shard_of(station)) % self.signs.len()
    }

    /// Makes what follows from each message of one part.
    fn messages(&mut self, tables: &dyn Rebuild, part: usize, has_flusher: bool) -> Result<(), StoreError> {
        let lost = tables.lost();
        // The only table that follows from no message.
        if lost == UnloggedTables::of([RetryTimer::TABLE]) {
            return Ok(());
        }
        let mut write = tables.writer();
        tables.messages((part, self.signs.len()), &mut |message| {
            let mut put = |row| {
                self.rows += 1;
                write(row)
            };
            match message.state {
                State::Scheduled if lost.contains(Scheduled::TABLE) => {
                    put(Row::Scheduled(scheduled(&message)))?;
                }
                State::Enroute if lost.contains(Queued::TABLE) => put(Row::Queued(queued(&message)))?,
                state if state.is_final() && has_flusher && lost.contains(Sent::TABLE) => {
                    put(Row::Sent(sent_row(&message)))?;
                }
                _ => {}
            }
            if matches!(message.state, State::Scheduled | State::Enroute) && lost.contains(EncodedPart::TABLE)
            {
                let parts = encode(&message).map_err(|error| {
                    StoreError::inconsistent(format!("message {} cannot be encoded: {error}", message.msg_id))
                })?;
                parts.into_iter().try_for_each(|part| put(Row::EncodedPart(part)))?;
            }
            if message.state == State::Enroute && lost.contains(Station::TABLE) {
                let list = self.list(message.dst_key);
                self.signs[list].push(Sign {
                    station: message.dst_key,
                    rank: message.rank(),
                    msg_id: message.msg_id,
                    submit_us: message.submit_us,
                    attempts: message.attempts,
                    last_error: message.last_error,
                });
            }
            Ok(())
        })
    }

    /// Makes timers from stations that wait, or gathers timers for stations, whichever of both are
    /// lost. Where both are, nothing tells any more which stations waited for what.
    fn timers(&mut self, tables: &dyn Rebuild, part: usize) -> Result<(), StoreError> {
        let part = (part, self.signs.len());
        let lost = tables.lost();
        match (lost.contains(Station::TABLE), lost.contains(RetryTimer::TABLE)) {
            (false, true) => {
                let mut put = tables.writer();
                tables.stations(part, &mut |station| match station.state {
                    StationState::Wait | StationState::Absent => {
                        let Station { dst_key, ready_us: due_us, epoch, .. } = station;
                        self.rows += 1;
                        put(Row::RetryTimer(RetryTimer { due_us, dst_key, epoch }))
                    }
                    _ => Ok(()),
                })
            }
            (true, false) => tables.timers(part, &mut |timer| {
                let list = self.list(timer.dst_key);
                self.timers[list].insert(timer.dst_key, timer);
                Ok(())
            }),
            _ => Ok(()),
        }
    }
}

/// Makes the stations of which there are signs; how many. One with a timer waits for it, or for an
/// alert: that ends either way of waiting, so which of both it was need not be known. Any other is
/// ready since its oldest message was submitted. How often its first message has failed, and how,
/// stands for what the station knew of its last failures.
fn rows_of_stations(
    tables: &dyn Rebuild,
    mut signs: Vec<Sign>,
    timers: &Timers,
) -> Result<usize, StoreError> {
    signs.sort_unstable();
    let mut put = tables.writer();
    let mut rows = 0;
    for of_one in signs.chunk_by(|a, b| a.station == b.station) {
        let Some(first) = of_one.first() else { continue };
        let timer = timers.get(&first.station);
        let oldest_us = of_one.iter().fold(first.submit_us, |oldest, sign| oldest.min(sign.submit_us));
        put(Row::Station(Station {
            state: if timer.is_some() { StationState::Wait } else { StationState::Ready },
            ready_us: timer.map_or(oldest_us, |timer| timer.due_us),
            epoch: timer.map_or(0, |timer| timer.epoch),
            queue: u32::try_from(of_one.len()).unwrap_or(u32::MAX),
            attempts: first.attempts,
            last_error: first.last_error,
            ..Station::idle(first.station)
        }))?;
        rows += 1;
    }
    Ok(rows)
}
