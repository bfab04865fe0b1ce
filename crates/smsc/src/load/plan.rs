//! What a run of load does.

use super::profile::LoadProfile;
use crate::centre::{ArchiveError, RetryPolicy, Rules, SubmissionError};
use crate::network::NetworkProfile;
use crate::store::{Acknowledge, Durability, Store, StoreError};
use std::sync::Arc;
use std::time::Duration;

/// When messages are submitted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// As fast as they are acknowledged, with a window of messages under way for each client.
    Closed,
    /// Poisson arrivals of all clients together, messages/s, whatever the centre does. Latency
    /// counts from the time at which a message should have been submitted, so that a centre that
    /// falls behind cannot hide it: that time is the message's submission time, so delivery counts
    /// from there, too.
    Open {
        /// Arrivals in a second.
        rate: f64,
        /// The middle tenth of the run brings so many times as many.
        burst: f64,
    },
}

/// Which half of the centre works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Clients submit; nothing is sent.
    Receiver,
    /// What is queued is sent; nothing is submitted.
    Sender,
    /// Both.
    Both,
}

/// Who is told that a run stands still.
pub type OnStuck = Arc<dyn Fn(&LoadError) + Send + Sync>;

/// Who is told of accepted messages, by several threads.
pub type OnAccepted = Arc<dyn Fn(&[i64]) + Send + Sync>;

/// What a run does.
pub struct Plan {
    /// Which half.
    pub side: Side,
    /// Clients.
    pub receivers: usize,
    /// Senders.
    pub senders: usize,
    /// Messages under way for each client and sender at most; 1 waits for each. A sender keeps
    /// fewer in flight where the store is so slow that their claims could end before their
    /// completions are there.
    pub window: usize,
    /// Messages altogether; 0: as many as the time allows. For a Sender, how many are queued.
    pub messages: u64,
    /// Length, where no number of messages ends it, s. A Sender ends with the time, if one is
    /// given, or with the queue.
    pub seconds: f64,
    /// Closed or open loop.
    pub pace: Pace,
    /// What is sent.
    pub load: LoadProfile,
    /// How the network behaves.
    pub network: NetworkProfile,
    /// When to try again.
    pub retry: RetryPolicy,
    /// How long a claim holds: [`Rules::lease_us`] of the store.
    pub lease_us: i64,
    /// Whether clients and senders wait for commits to be durable. Without, what flushes cost is
    /// left out.
    pub acknowledge: Acknowledge,
    /// Whether timers and Flusher run.
    pub housekeeping: bool,
    /// Whether the run goes on until everything queued is final.
    pub drain: bool,
    /// How long something may be due while nothing happens, before the run ends as stuck.
    pub stuck_timeout: Duration,
    /// Called with [`LoadError::Stuck`] when the run is found to stand still, before the store is
    /// given up and the threads are waited for: that takes for ever where a disk does not answer.
    pub on_stuck: Option<OnStuck>,
    /// Whether the numbers of accepted messages are kept.
    pub keep_accepted: bool,
    /// Called with numbers of accepted messages, after their acknowledgement.
    pub on_accepted: Option<OnAccepted>,
    /// Called with a message's number when its station has taken it, before the centre is told.
    pub on_delivered: Option<Box<dyn Fn(i64) + Send + Sync>>,
}

impl Default for Plan {
    fn default() -> Self {
        Plan {
            side: Side::Both,
            receivers: 1,
            senders: 1,
            window: 1,
            messages: 30_000,
            seconds: 0.0,
            pace: Pace::Closed,
            load: LoadProfile::default(),
            network: NetworkProfile::perfect(1),
            retry: RetryPolicy::accelerated(1000),
            lease_us: Rules::default().lease_us,
            acknowledge: Acknowledge::Durable,
            housekeeping: true,
            drain: true,
            stuck_timeout: Duration::from_secs(60),
            on_stuck: None,
            keep_accepted: false,
            on_accepted: None,
            on_delivered: None,
        }
    }
}

impl Plan {
    /// Clients of a run.
    pub(super) fn clients(&self) -> usize {
        if self.side == Side::Sender { 0 } else { self.receivers }
    }

    /// Senders of a run.
    pub(super) fn sending(&self) -> usize {
        if self.side == Side::Receiver { 0 } else { self.senders }
    }

    /// What of acknowledged messages survives: less than the store promises, if nobody waits for
    /// it.
    #[must_use]
    pub fn durability(&self, store: &dyn Store) -> Durability {
        match self.acknowledge {
            Acknowledge::Durable => store.durability(),
            Acknowledge::Early => Durability::PowerCutPrefix,
        }
    }

    /// Sessions that a run opens at most: one for each client, two for each sender, one each for
    /// the timers, the Flusher, and to ask what is due.
    #[must_use]
    pub fn sessions(&self) -> usize {
        self.clients() + 2 * self.sending() + 3
    }
}

/// What ends a run.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The archive failed.
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    /// A generated message is none.
    #[error(transparent)]
    Submission(#[from] SubmissionError),
    /// A store does not keep to its interface.
    #[error("internal: {0}")]
    Unexpected(&'static str),
    /// A thread panicked.
    #[error("a thread of the load panicked")]
    Panicked,
    /// A session could not be opened.
    #[error("{who} cannot open a session: {source}")]
    Session {
        /// Whose it was to be.
        who: String,
        /// Why not.
        source: StoreError,
    },
    /// Something is due, and nothing happens.
    #[error(
        "stuck: nothing was attempted or accepted for {seconds} s, although {condition}; {left} messages are left; see `smsc check`"
    )]
    Stuck {
        /// How long.
        seconds: f64,
        /// What is due, in words.
        condition: String,
        /// How many are left.
        left: u64,
    },
}
