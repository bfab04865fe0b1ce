//! The sessions that are there now: what an operator sees of them, and how one is ended.

use super::front::Account;
use super::log::{Level, Log};
use super::metrics::Counter;
use crate::smpp::BindKind;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;
use tokio::sync::Notify;

/// As whom a session is bound.
pub(super) struct BoundAs {
    pub account: Arc<Account>,
    pub system_id: String,
    pub kind: BindKind,
}

/// A connection, bound or not.
pub(super) struct Entry {
    pub number: u64,
    pub peer: String,
    pub since: Instant,
    pub bound: OnceLock<BoundAs>,
    /// Messages that it has submitted, whatever became of them.
    pub submitted: Counter,
    /// Of these, answered with a number.
    pub accepted: Counter,
    /// Of these, answered with an error.
    pub refused: Counter,
    /// Submissions without an answer.
    pub window: Arc<AtomicUsize>,
    /// Deliveries without an answer.
    pub deliveries: Arc<AtomicUsize>,
    /// Ends it.
    pub kick: Notify,
}

/// All connections by their number.
#[derive(Default)]
pub(super) struct Sessions(Mutex<BTreeMap<u64, Arc<Entry>>>);

impl Sessions {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<Entry>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All, or those of one account, by number.
    pub fn all(&self) -> Vec<Arc<Entry>> {
        self.lock().values().cloned().collect()
    }

    /// Ends a session with unbind; false if there is none of this number.
    pub fn kick(&self, number: u64) -> bool {
        let entry = self.lock().get(&number).cloned();
        entry.inspect(|entry| entry.kick.notify_one()).is_some()
    }
}

/// The place of a connection among all, until it ends.
pub(super) struct Place {
    pub entry: Arc<Entry>,
    sessions: Arc<Sessions>,
    log: Arc<Log>,
}

impl Place {
    pub fn new(
        (sessions, log): (&Arc<Sessions>, &Arc<Log>),
        number: u64,
        peer: Option<SocketAddr>,
        (window, deliveries): (&Arc<AtomicUsize>, &Arc<AtomicUsize>),
    ) -> Place {
        let peer = peer.map(|peer| peer.to_string()).unwrap_or_default();
        log.at(Level::Debug, "connected").number("session", number as i64).text("peer", &peer);
        let entry = Arc::new(Entry {
            number,
            peer,
            since: Instant::now(),
            bound: OnceLock::new(),
            submitted: Counter::default(),
            accepted: Counter::default(),
            refused: Counter::default(),
            window: Arc::clone(window),
            deliveries: Arc::clone(deliveries),
            kick: Notify::new(),
        });
        sessions.lock().insert(number, Arc::clone(&entry));
        Place { entry, sessions: Arc::clone(sessions), log: Arc::clone(log) }
    }

    /// It is bound.
    pub fn bind(&self, account: &Arc<Account>, kind: BindKind) {
        let system_id = account.config().system_id;
        self.line(Level::Info, "bind").text("system_id", &system_id).text("as", kind_name(kind));
        // A session is bound once.
        let _ = self.entry.bound.set(BoundAs { account: Arc::clone(account), system_id, kind });
    }

    /// Its bind was refused.
    pub fn refuse(&self, system_id: &str, status: &'static str) {
        let line = self.log.of_stranger(Level::Warn, "bind_refused");
        let line = line.number("session", self.entry.number as i64).text("peer", &self.entry.peer);
        line.text("system_id", system_id).text("status", status);
    }

    fn line(&self, level: Level, event: &'static str) -> super::log::Line<'_> {
        self.log.at(level, event).number("session", self.entry.number as i64).text("peer", &self.entry.peer)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.sessions.lock().remove(&self.entry.number);
        let seconds = self.entry.since.elapsed().as_secs() as i64;
        match self.entry.bound.get() {
            Some(bound) => drop(
                self.line(Level::Info, "session_end")
                    .text("system_id", &bound.system_id)
                    .number("seconds", seconds)
                    .number("submitted", self.entry.submitted.get() as i64)
                    .number("accepted", self.entry.accepted.get() as i64)
                    .number("refused", self.entry.refused.get() as i64)
                    .number("unanswered", self.entry.deliveries.load(Relaxed) as i64),
            ),
            None => drop(self.line(Level::Debug, "disconnected").number("seconds", seconds)),
        }
    }
}

/// As what a session is bound, in a word.
pub(super) fn kind_name(kind: BindKind) -> &'static str {
    match kind {
        BindKind::Transmitter => "transmitter",
        BindKind::Receiver => "receiver",
        BindKind::Transceiver => "transceiver",
    }
}
