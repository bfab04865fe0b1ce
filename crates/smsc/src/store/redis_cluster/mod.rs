//! A Redis Cluster: shards on several machines, each a transaction's whole world.
//!
//! A store has 64 to 256 shards; a station belongs to one, and all that belongs to it is there, in
//! two keys with one hash tag (`functions.lua`). A message's number names its shard (number modulo
//! shards), and the lane of its receipt is that number modulo 256, so **a message and its receipt
//! are in one shard**: no transaction crosses slots, and every invariant holds in each shard alone.
//! That is why there are no more shards than an account has lanes.
//!
//! A session sends what waits to all nodes at once and a `WAIT` behind it to each: nothing is
//! acknowledged, and no claim handed out, before as many replicas as a master has (one at least)
//! have it on their disks as the master has (`appendfsync always`; a replica answers after its
//! sync).
//!
//! Several processes may use one store. Each says every second that it is there (`keeper`); what
//! one had in flight that another has heard nothing new of for `shared::SILENT` is given back. Its
//! completions are fenced off by their claims' numbers, should it have been asleep.

mod cluster;
mod connection;
mod keeper;
mod private;
mod rows;
mod session;
mod shared;
mod start;
mod url;

pub use private::PrivateCluster;
pub use url::{RedisClusterUrl, RedisClusterUrlError};

use super::{Acknowledge, Durability, EachRow, Opening, Row, Session, Store, StoreError};
use crate::centre::{Rules, encode};
use crate::model::{Forwarded, MessageState, Queued, RetryTimer, Scheduled, StationKey, StationState};
use cluster::{Call, Links};
use connection::Reply;
use keeper::Keeper;
use session::RedisClusterSession;
use shared::{SILENT, Shared};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The store.
pub struct RedisClusterStore {
    shared: Arc<Shared>,
    identity: String,
    remarks: Vec<String>,
    keeper: Mutex<Option<Keeper>>,
    /// Whether it was made when it was opened.
    is_new: bool,
    /// When it was opened; none for one who only looks, and does not know how old messages are.
    opened: Option<Instant>,
    /// The store's own nodes; they end after all else.
    private: Option<PrivateCluster>,
}

impl RedisClusterStore {
    /// Opens the store on a cluster that is there already; it is made if there is none and
    /// `opening` says so, where nothing has its prefix.
    ///
    /// # Errors
    /// The cluster cannot be reached, would lose what it acknowledges, or lets nobody in; what is
    /// under the prefix is somebody else's.
    pub fn at(
        url: &RedisClusterUrl,
        rules: Rules,
        opening: Opening,
    ) -> Result<RedisClusterStore, StoreError> {
        let rules = Rules { has_flusher: false, ..rules };
        let started = start::start(url, opening)?;
        let mut links = Links::new(&Arc::new(started.cluster));
        let process = links.one(Call::write("enlist", 0))?;
        let process = process.int().and_then(|number| u32::try_from(number).ok());
        let process = process.ok_or_else(|| StoreError::protocol("a process has no number"))?;
        let cluster =
            Arc::into_inner(links.cluster).ok_or_else(|| StoreError::protocol("the cluster is shared"))?;
        let shared = Arc::new(Shared::new(cluster, rules, process));
        let keeper = Mutex::new(Some(Keeper::start(&shared)?));
        let (identity, remarks, is_new) = (started.identity, started.remarks, started.is_new);
        let opened = Some(Instant::now());
        Ok(RedisClusterStore { shared, identity, remarks, keeper, is_new, opened, private: None })
    }

    /// Opens the store as it is, to be looked at while others use it: each shard is read at one
    /// moment, and nothing is written.
    ///
    /// # Errors
    /// As [`RedisClusterStore::at`]; there is no store.
    pub fn look(url: &RedisClusterUrl) -> Result<RedisClusterStore, StoreError> {
        let started = start::look(url)?;
        let shared =
            Arc::new(Shared::new(started.cluster, Rules { has_flusher: false, ..Rules::default() }, 0));
        let (identity, remarks) = (started.identity, started.remarks);
        Ok(RedisClusterStore {
            shared,
            identity,
            remarks,
            keeper: Mutex::default(),
            is_new: false,
            opened: None,
            private: None,
        })
    }

    /// Starts three masters and three replicas on this machine for the store in `dir`.
    ///
    /// # Errors
    /// Redis is not installed, or does not start.
    pub fn open(dir: &Path, rules: Rules, opening: Opening) -> Result<RedisClusterStore, StoreError> {
        let private = PrivateCluster::open(&dir.join("redis-cluster"), 3)?;
        let url = private.url("keep=0");
        let url = RedisClusterUrl::parse(&url).map_err(|error| StoreError::protocol(error.to_string()))?;
        let mut store = RedisClusterStore::at(&url, rules, opening)?;
        store.private = Some(private);
        Ok(store)
    }

    /// Takes all messages away, and the store itself if it was made when it was opened. Nobody may
    /// be using it.
    ///
    /// # Errors
    /// The cluster's.
    pub fn clear(&self) -> Result<(), StoreError> {
        // Nobody writes meanwhile.
        self.stop_keeper();
        start::clear(&self.shared.cluster)?;
        if !self.is_new {
            start::make_again(&self.shared.cluster, &self.identity)?;
            *self.keeper.lock().unwrap_or_else(PoisonError::into_inner) = Some(Keeper::start(&self.shared)?);
        }
        Ok(())
    }

    fn stop_keeper(&self) {
        if let Some(keeper) = self.keeper.lock().unwrap_or_else(PoisonError::into_inner).take() {
            keeper.join();
        }
    }

    /// Whether there is no message and no account in it.
    ///
    /// # Errors
    /// The cluster's.
    pub fn is_empty(&self) -> Result<bool, StoreError> {
        let mut empty = true;
        let told = self.scan(&mut |row| {
            if matches!(row, Row::Message(_) | Row::Account(_)) {
                empty = false;
                return Err(StoreError::protocol("that is enough"));
            }
            Ok(())
        });
        if empty { told.map(|()| true) } else { Ok(false) }
    }

    /// Whether another process uses it, too. One that has closed it, or has died, is waited for:
    /// the others forget it when it has been silent for some seconds.
    ///
    /// # Errors
    /// The cluster's.
    pub fn is_used_by_others(&self) -> Result<bool, StoreError> {
        let (begin, own) = (Instant::now(), self.shared.process.to_be_bytes());
        let mut links = Links::new(&self.shared.cluster);
        loop {
            let dump = links.one(Call::read("dump", 0))?;
            let [_, members] = dump.array() else {
                return Err(StoreError::protocol("a shard has two parts"));
            };
            let is_other =
                |member: &[u8]| member.first() == Some(&b'o') && member.get(1..5) != Some(&own[..]);
            if !members.array().iter().filter_map(Reply::bulk).any(is_other) {
                return Ok(false);
            }
            if begin.elapsed() > 4 * SILENT {
                return Ok(true);
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Calls that had to be repeated since it was opened.
    #[must_use]
    pub fn repeated(&self) -> usize {
        self.shared.cluster.repeated.load(Relaxed)
    }

    /// All rows of one shard, of one moment: messages go to `each`, what else there is to `rest`.
    fn scan_shard(
        &self,
        (links, shard): (&mut Links, u16),
        each: EachRow<'_>,
        rest: &mut Rest,
    ) -> Result<(), StoreError> {
        let dump = links.one(Call::read("dump", shard))?;
        let [fields, members] = dump.array() else {
            return Err(StoreError::protocol("a shard has two parts"));
        };
        let mut messages: BTreeMap<i64, (&[u8], &[u8])> = BTreeMap::new();
        for pair in fields.array().chunks(2) {
            let [field, value] = pair else { break };
            let (field, value) = (field.bulk().unwrap_or_default(), value.bulk().unwrap_or_default());
            let Some((&kind, name)) = field.split_first() else { continue };
            match kind {
                b'm' => messages.entry(rows::number_of(name)?).or_default().0 = value,
                b'v' => messages.entry(rows::number_of(name)?).or_default().1 = value,
                b's' => {
                    let station = rows::station(rows::station_of(name)?, value)?;
                    if matches!(station.state, StationState::Wait | StationState::Absent) {
                        rest.waits.insert(station.dst_key, station.epoch);
                    }
                    rest.stations.push(Row::Station(station));
                }
                b'f' if value.len() >= 12 => rest.forwarded.push(Row::Forwarded(Forwarded {
                    msg_id: rows::number_of(name)?,
                    peer: u32::from_be_bytes([value[0], value[1], value[2], value[3]]),
                    due_us: rows::number_of(&value[4..12])?,
                    peer_id: String::from_utf8_lossy(&value[12..]).into_owned(),
                })),
                b'a' if name.len() == 4 => {
                    let number = u32::from_be_bytes([name[0], name[1], name[2], name[3]]);
                    rest.accounts.push(Row::Account(rows::account(number, value)?));
                }
                _ => {}
            }
        }
        for (id, (raw, view)) in messages {
            let message = rows::message(id, raw, view)?;
            if matches!(message.state, MessageState::Scheduled | MessageState::Enroute) && message.parts > 0 {
                let parts = encode(&message);
                let parts = parts.map_err(|error| {
                    StoreError::inconsistent(format!("message {id} cannot be encoded: {error}"))
                })?;
                rest.parts.extend(parts.into_iter().map(Row::EncodedPart));
            }
            each(Row::Message(message))?;
        }
        members.array().iter().filter_map(Reply::bulk).try_for_each(|member| rest.member(member))
    }
}

/// Rows but for messages, which come first.
#[derive(Default)]
struct Rest {
    parts: Vec<Row>,
    queued: Vec<Row>,
    scheduled: Vec<Row>,
    stations: Vec<Row>,
    timers: Vec<Row>,
    forwarded: Vec<Row>,
    accounts: Vec<Row>,
    /// Claims of the stations that wait.
    waits: BTreeMap<StationKey, i64>,
}

impl Rest {
    /// A member of a shard's sorted set.
    fn member(&mut self, member: &[u8]) -> Result<(), StoreError> {
        let part = |begin: usize, end: usize| {
            member.get(begin..end).ok_or_else(|| StoreError::row(begin, "part of a list's entry"))
        };
        match member.first() {
            Some(b'q') => self.queued.push(Row::Queued(Queued {
                dst_key: rows::station_of(part(1, 9)?)?,
                rank: part(9, 10)?[0],
                msg_id: rows::number_of(part(10, 18)?)?,
                expire_us: rows::number_of(part(18, 26)?)?,
            })),
            Some(b's') => self.scheduled.push(Row::Scheduled(Scheduled {
                due_us: rows::number_of(part(1, 9)?)?,
                msg_id: rows::number_of(part(9, 17)?)?,
                dst_key: rows::station_of(part(17, 25)?)?,
            })),
            Some(b'w') => {
                let dst_key = rows::station_of(part(9, 17)?)?;
                let due_us = rows::number_of(part(1, 9)?)?;
                // One whose station does not wait is a row that contradicts it.
                let epoch = self.waits.get(&dst_key).copied().unwrap_or(-1);
                self.timers.push(Row::RetryTimer(RetryTimer { due_us, dst_key, epoch }));
            }
            _ => {}
        }
        Ok(())
    }
}

impl Store for RedisClusterStore {
    fn name(&self) -> &str {
        "redis-cluster"
    }

    fn durability(&self) -> Durability {
        if self.shared.cluster.url.takes_less() { Durability::ProcessCrash } else { Durability::OneNode }
    }

    fn remarks(&self) -> Vec<String> {
        self.remarks.clone()
    }

    fn identity(&self) -> Option<String> {
        Some(self.identity.clone())
    }

    fn has_flusher(&self) -> bool {
        false
    }

    fn is_shared(&self) -> bool {
        true
    }

    fn may_have_forgotten(&self) -> bool {
        let kept = Duration::from_secs(self.shared.cluster.url.keep_s);
        !kept.is_zero() && self.opened.is_none_or(|opened| opened.elapsed() >= kept)
    }

    fn session(&self, _: Acknowledge) -> Result<Box<dyn Session + '_>, StoreError> {
        if self.shared.cluster.abandoned.load(Relaxed) {
            return Err(StoreError::Abandoned);
        }
        Ok(Box::new(RedisClusterSession::new(&self.shared)))
    }

    fn abandon(&self) {
        self.shared.cluster.abandoned.store(true, Relaxed);
    }

    fn scan(&self, each: EachRow<'_>) -> Result<(), StoreError> {
        let mut links = Links::new(&self.shared.cluster);
        let mut rest = Rest::default();
        for shard in 0..self.shared.cluster.shards {
            self.scan_shard((&mut links, shard), each, &mut rest)?;
        }
        let Rest { parts, queued, scheduled, stations, timers, forwarded, accounts, .. } = rest;
        [parts, queued, scheduled, stations, timers, accounts, forwarded]
            .into_iter()
            .flatten()
            .try_for_each(each)
    }

    fn ran_again(&self) -> Option<u64> {
        Some(self.repeated() as u64)
    }

    /// One round to the nodes is one for many shards.
    fn claim_max(&self) -> usize {
        256
    }

    /// The same: all lanes of an application at once.
    fn named_claim_max(&self) -> usize {
        256
    }
}

impl Drop for RedisClusterStore {
    fn drop(&mut self) {
        self.shared.cluster.abandoned.store(true, Relaxed);
        self.stop_keeper();
    }
}
