//! Peers: centres to which this one binds as an application does.
//!
//! ```text
//!   store ──claim──▶ session ──submit_sm──▶ peer
//!     ▲                 │                    │
//!     ├──Forward────────┘◀──submit_sm_resp───┤
//!     └──Settle, Receive────◀──deliver_sm────┘
//! ```
//!
//! A message that a peer has accepted is stored under the peer's number for it, in the table
//! `forwarded`, and its receipt is looked up there: nothing of it is kept in memory. A deliver_sm
//! is answered once what it says is stored.

mod config;
mod session;

pub use config::{MessageIds, PeerConfig};
pub(super) use config::{WrittenPeer, checked};

use super::front::Front;
use super::log::Level;
use super::route::Target;
use crate::centre::{Channel, Operation, Outcome, PutBack};
use crate::model::{PEERS_MAX, StationKey, shard_of, shard_of_peer};
use crate::smpp::BindKind;
use crate::store::Acknowledge;
use fathom_random::Random;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, watch};

/// Accounts of what came from peers are these and the peer's number: beyond those of applications.
pub(super) const ACCOUNT_OF_PEER: u32 = 0x8000_0000;

/// A session that has lasted for so long was one: the next attempt comes soon.
const LASTED: Duration = Duration::from_secs(10);
/// How often messages are looked for whose peer is away.
const DETOUR: Duration = Duration::from_millis(500);
/// Messages that one claim of a detour takes.
const DETOUR_MAX: usize = 64;
/// When a message without a detour is looked at again, µs.
const DETOUR_AGAIN_US: i64 = 10_000_000;

/// A peer, while the server runs.
pub struct Peer {
    /// What the configuration says.
    pub config: PeerConfig,
    /// Sessions that submit, bound now.
    bound: AtomicUsize,
    /// Since when none is.
    away: Mutex<Instant>,
    /// Something for it has been queued.
    wake: Notify,
    closed: watch::Sender<bool>,
}

impl Peer {
    fn new(config: PeerConfig) -> Arc<Peer> {
        Arc::new(Peer {
            config,
            bound: AtomicUsize::new(0),
            away: Mutex::new(Instant::now()),
            wake: Notify::new(),
            closed: watch::Sender::new(false),
        })
    }

    /// Sessions that submit, bound now.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.bound.load(Relaxed)
    }

    /// Whether messages may go through it: it is there, or has not been away for long.
    pub(super) fn is_there(&self) -> bool {
        self.bound.load(Relaxed) > 0 || {
            let since = *self.away.lock().unwrap_or_else(PoisonError::into_inner);
            since.elapsed() < self.config.failover
        }
    }

    fn enter(&self) {
        self.bound.fetch_add(1, Relaxed);
    }

    fn leave(&self) {
        *self.away.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.bound.fetch_sub(1, Relaxed);
    }
}

/// The peers, by number.
#[derive(Default)]
pub(super) struct Peers(RwLock<HashMap<u16, Arc<Peer>>>);

impl Peers {
    pub fn get(&self, number: u16) -> Option<Arc<Peer>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).get(&number).cloned()
    }

    /// Names of the peers and how many sessions that submit each has.
    pub fn bound(&self) -> Vec<(String, usize)> {
        let peers = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let mut bound: Vec<_> =
            peers.values().map(|peer| (peer.config.name.clone(), peer.sessions())).collect();
        bound.sort();
        bound
    }

    /// Makes the peers those of `configs`. One whose configuration is another begins again.
    pub fn set(&self, front: &Arc<Front>, configs: &[PeerConfig]) {
        let mut peers = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let mut now = HashMap::new();
        for config in configs {
            let same = peers.get(&config.number).filter(|peer| peer.config == *config);
            let peer = same.cloned().unwrap_or_else(|| {
                let peer = Peer::new(config.clone());
                for &kind in &config.binds {
                    tokio::spawn(keep(Arc::clone(front), Arc::clone(&peer), kind));
                }
                peer
            });
            now.insert(config.number, peer);
        }
        for (number, peer) in peers.iter() {
            if !now.get(number).is_some_and(|other| Arc::ptr_eq(other, peer)) {
                peer.closed.send_replace(true);
            }
        }
        *peers = now;
    }

    /// Wakes one session of a peer.
    pub fn wake(&self, number: u16) {
        if let Some(peer) = self.get(number) {
            peer.wake.notify_one();
        }
    }

    pub fn wake_all(&self) {
        let peers = self.0.read().unwrap_or_else(PoisonError::into_inner);
        peers.values().for_each(|peer| peer.wake.notify_one());
    }
}

/// Keeps one session with a peer, until the server ends or the peer is in the configuration no
/// more. One that ends is begun again, later each time.
async fn keep(front: Arc<Front>, peer: Arc<Peer>, kind: BindKind) {
    let (first, most) = peer.config.reconnect;
    let (mut wait, mut closed, mut stopping) = (first, peer.closed.subscribe(), front.stopping());
    let mut random = Random::new(u64::from(std::process::id()) << 16 | u64::from(peer.config.number));
    let name = peer.config.name.as_str();
    let mut said = String::new();
    while !*closed.borrow() && !*stopping.borrow() {
        let begin = Instant::now();
        let end = session::run(&front, &peer, kind).await;
        if *closed.borrow() || *stopping.borrow() {
            break;
        }
        if begin.elapsed() >= LASTED {
            wait = first;
            said.clear();
        }
        // What goes on in the same way is said once.
        let why = end.to_string();
        if why != said {
            front.log.at(Level::Warn, "peer_away").text("peer", name).text("message", &why);
            said = why;
        }
        // Half to all of it, so that many do not come at once.
        let spread = wait.mul_f64(0.5 + 0.5 * (random.below(1000) as f64 / 1000.0));
        tokio::select! {
            () = tokio::time::sleep(spread) => {}
            () = async { _ = closed.wait_for(|closed| *closed).await } => break,
            () = async { _ = stopping.wait_for(|stops| *stops).await } => break,
        }
        wait = (wait * 2).min(most);
    }
}

impl Front {
    /// Names of the peers and how many sessions that submit each has.
    #[must_use]
    pub fn peers_bound(&self) -> Vec<(String, usize)> {
        self.peers.bound()
    }

    /// The targets of a message, the first choice first.
    fn targets(&self, account: u32, to: &str) -> Vec<Target> {
        let config = self.config();
        config.routes.targets(account, to.trim_start_matches('+')).collect()
    }

    fn is_there(&self, target: Target) -> bool {
        match target {
            Target::Network => true,
            Target::Peer(number) => self.peers.get(number).is_some_and(|peer| peer.is_there()),
        }
    }

    /// Where a message goes now: the first choice that is there, or else the first.
    pub(super) fn target(&self, account: u32, to: &str) -> Target {
        if self.config().routes.is_empty() {
            return Target::Network;
        }
        let targets = self.targets(account, to);
        let there = targets.iter().copied().find(|&target| self.is_there(target));
        there.or(targets.first().copied()).unwrap_or(Target::Network)
    }

    /// Whether a message may go through a peer.
    fn goes_through(&self, peer: u16, account: u32, to: &str) -> bool {
        self.targets(account, to).contains(&Target::Peer(peer))
    }

    /// Wakes whoever delivers what waits in a shard.
    pub(super) fn wake_target(&self, target: Target) {
        match target {
            Target::Network => self.mobiles.notify_one(),
            Target::Peer(number) => self.peers.wake(number),
        }
    }
}

/// The shard in which a mobile waits that is reached in this way.
pub(super) fn shard_of_target(target: Target, station: StationKey) -> u16 {
    match target {
        Target::Network => shard_of(station),
        Target::Peer(number) => shard_of_peer(number),
    }
}

/// Sends messages another way whose peer is away or in the configuration no more, until the server
/// ends.
pub(super) async fn detour(front: Arc<Front>) {
    let mut round = 0_u64;
    let mut tick = tokio::time::interval(DETOUR);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    while !front.has_ended() {
        tick.tick().await;
        round += 1;
        for number in 1..=PEERS_MAX {
            let is_away = match front.peers.get(number) {
                Some(peer) => !peer.is_there() && front.config().routes.has_alternative(number),
                // Few look for what a peer has left behind that is configured no more.
                None => round % 10 == 1,
            };
            if is_away && let Err(problem) = divert(&front, number).await {
                return front.fail(problem);
            }
        }
    }
}

async fn divert(front: &Front, number: u16) -> Result<(), String> {
    loop {
        if *front.stopping().borrow() {
            return Ok(());
        }
        let now_us = front.clock.now_us();
        let claim = Operation::Claim { channel: Channel::Peer(number), spread: 0, max: DETOUR_MAX, now_us };
        let claimed = match front.store.start(claim, Acknowledge::Early).await {
            Ok(Outcome::Claimed(deliveries)) => deliveries,
            Ok(_) => return Err("a claim gives messages".into()),
            Err(error) => return Err(error.to_string()),
        };
        let (count, mut started) = (claimed.len(), Vec::new());
        for delivery in claimed {
            let message = &delivery.message;
            let target = front.target(message.account, &message.dst);
            let ready_us = if target == Target::Peer(number) { now_us + DETOUR_AGAIN_US } else { now_us };
            let back = PutBack {
                station: delivery.station,
                epoch: delivery.epoch,
                msg_id: message.msg_id,
                shard: shard_of_target(target, delivery.station),
                ready_us,
            };
            started.push((target, front.store.start(Operation::PutBack(back), Acknowledge::Early)));
        }
        // Together, as each may take a server's round.
        for (target, put) in started {
            put.await.map_err(|error| error.to_string())?;
            front.wake_target(target);
        }
        if count < DETOUR_MAX {
            return Ok(());
        }
    }
}
