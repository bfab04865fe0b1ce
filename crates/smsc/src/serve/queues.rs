//! How much is queued, by account and by route. A task walks through the run queue, which has every
//! station that something waits for, a stretch at a time, and rests in between, so that it takes a
//! twentieth of a processor at most: a long queue is counted less often. So no transaction of a
//! message has a counter to change.

use super::front::Front;
use crate::centre::{Operation, Outcome, RunPlace};
use crate::model::{MOBILE_SHARDS, SHARDS, Station, StationState, shard_of_peer};
use crate::store::{Acknowledge, StoreError};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Stations that are read in one transaction.
const STRETCH: usize = 512;
/// The time between two walks, where they are short.
const PAUSE: Duration = Duration::from_secs(1);
/// So many times as long as a stretch took the task rests.
const REST: u32 = 20;

/// The route to the simulated mobiles.
pub(super) const MOBILES: &str = "mobiles";

/// What is queued for some stations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Depth {
    /// Messages, those in flight included.
    pub messages: u64,
    /// Stations with a message that may be delivered.
    pub ready: u64,
    /// Stations with a message in flight.
    pub busy: u64,
    /// Stations that wait for another attempt.
    pub waiting: u64,
}

impl Depth {
    fn add(&mut self, station: &Station) {
        self.messages += u64::from(station.queue);
        match station.state {
            StationState::Idle => {}
            StationState::Ready => self.ready += 1,
            StationState::Busy => self.busy += 1,
            StationState::Wait | StationState::Absent => self.waiting += 1,
        }
    }
}

/// What was counted last.
#[derive(Clone, Debug, Default)]
pub struct Depths {
    /// For each account that something waits for.
    pub accounts: BTreeMap<u32, Depth>,
    /// For each route.
    pub routes: BTreeMap<String, Depth>,
    /// When the routes were counted; none before the first time.
    pub counted: Option<Instant>,
}

/// The counts, shared.
#[derive(Default)]
pub struct Queues(Mutex<Arc<Depths>>);

impl Queues {
    fn lock(&self) -> MutexGuard<'_, Arc<Depths>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was counted last.
    #[must_use]
    pub fn depths(&self) -> Arc<Depths> {
        Arc::clone(&self.lock())
    }

    fn change(&self, change: impl FnOnce(&mut Depths)) {
        change(Arc::make_mut(&mut self.lock()));
    }
}

/// Counts until the server ends.
pub(super) async fn run(front: Arc<Front>) {
    // Applications, whose limits depend on it, are counted often; mobiles may be millions.
    tokio::join!(walks(&front, MOBILE_SHARDS..SHARDS), walks(&front, 0..MOBILE_SHARDS));
}

async fn walks(front: &Front, shards: Range<u16>) {
    let is_mobiles = shards.start == 0;
    while !front.has_ended() {
        let (mut accounts, mut routes) = (BTreeMap::<u32, Depth>::new(), BTreeMap::<String, Depth>::new());
        // What goes through a peer waits in a shard of the peer's.
        let config = front.config();
        let peers = config.peers.iter().filter(|_| is_mobiles);
        let peers = peers.map(|peer| (shard_of_peer(peer.number), peer.name.as_str()));
        for (shard, route) in shards.clone().map(|shard| (shard, MOBILES)).chain(peers) {
            if is_mobiles {
                routes.entry(route.into()).or_default();
            }
            let mut count = |station: &Station| match station.dst_key.account() {
                Some(account) => accounts.entry(account).or_default().add(station),
                None => routes.entry(route.into()).or_default().add(station),
            };
            match walk(front, shard, &mut count).await {
                Ok(true) => {}
                // The store fails others, too, who end the server; this must not be the first.
                Ok(false) | Err(_) => return,
            }
        }
        if is_mobiles {
            front.queues.change(|depths| (depths.routes, depths.counted) = (routes, Some(Instant::now())));
        } else {
            front.count_waiting(&accounts);
            front.queues.change(|depths| depths.accounts = accounts);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Goes through a shard; false if the server ends meanwhile.
async fn walk(front: &Front, shard: u16, each: &mut impl FnMut(&Station)) -> Result<bool, StoreError> {
    let mut from = RunPlace::begin(shard);
    while !front.has_ended() {
        let begin = Instant::now();
        let started = front.store.start(Operation::Stations { from, max: STRETCH }, Acknowledge::Early);
        let Outcome::Stations(stations) = started.await? else {
            return Err(StoreError::protocol("a walk gives stations"));
        };
        stations.iter().for_each(&mut *each);
        match stations.last() {
            Some(last) if stations.len() == STRETCH => from = RunPlace::after(last),
            _ => return Ok(true),
        }
        tokio::time::sleep(begin.elapsed() * REST).await;
    }
    Ok(false)
}
