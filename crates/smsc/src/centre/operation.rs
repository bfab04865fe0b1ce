//! An operation: one whole transaction of the centre, with all that it needs.

use super::account;
use super::claim::{self, Channel};
use super::complete::{self, Completion};
use super::due;
use super::forward::{self, Forward, PutBack, Settlement};
use super::manage::{self, Replacement};
use super::outcome::Outcome;
use super::place::Place;
use super::receive::{self, Submission};
use super::rules::Rules;
use super::view::{self, RunPlace};
use super::{lease, sent, timer};
use crate::model::{Account, StationKey};
use crate::transaction::{StoreError, Transaction};

/// One transaction. Times are µs since 1970; the centre has no clock of its own.
#[derive(Clone, Debug)]
pub enum Operation {
    /// Accepts a message.
    Receive(Box<Submission>),
    /// Puts messages of ready stations in flight.
    Claim {
        /// Whose.
        channel: Channel,
        /// Where to begin among the ready: senders with different numbers do not meet.
        spread: usize,
        /// The most messages.
        max: usize,
        /// Now.
        now_us: i64,
    },
    /// Ends a message's flight.
    Complete(Box<Completion>),
    /// Ends the flight of a message that a peer has accepted: its receipt is waited for.
    Forward(Box<Forward>),
    /// Ends a flight that was none: the message waits again, as if it had not been claimed.
    PutBack(PutBack),
    /// What a peer's receipt tells.
    Settle(Box<Settlement>),
    /// Gives up waiting for receipts of peers that are overdue.
    Overdue {
        /// Now.
        now_us: i64,
        /// The most messages.
        max: usize,
    },
    /// A station is there again.
    Alert {
        /// The station.
        station: StationKey,
        /// Now.
        now_us: i64,
    },
    /// Makes scheduled messages deliverable whose time has come.
    ReleaseScheduled {
        /// Now.
        now_us: i64,
        /// The most messages.
        max: usize,
    },
    /// Makes stations ready whose retry timer is due.
    WakeDue {
        /// Now.
        now_us: i64,
        /// The most stations.
        max: usize,
    },
    /// Ends messages whose validity has ended, in a stretch of the queues.
    Expire {
        /// Where the stretch begins: [`Place::BEGIN`], or where the last one ended.
        from: Place,
        /// Now.
        now_us: i64,
        /// The most messages.
        max: usize,
    },
    /// Frees stations whose claim has a lease until `until_us` or earlier.
    FreeLeases {
        /// Now.
        now_us: i64,
        /// `i64::MAX` after a restart: no claim is alive.
        until_us: i64,
        /// The most stations.
        max: usize,
    },
    /// A message's state.
    Query {
        /// Whose it must be.
        account: u32,
        /// Which.
        msg_id: i64,
    },
    /// An account's messages between two addresses that are not final: what cancel_sm without a
    /// number and replace_if_present are about.
    Find {
        /// Whose they must be.
        account: u32,
        /// Source address.
        src: String,
        /// Their service_type; none for any.
        service_type: Option<String>,
        /// Destination.
        station: StationKey,
        /// The most messages.
        max: usize,
    },
    /// Takes a message back.
    Cancel {
        /// Whose it must be.
        account: u32,
        /// Which.
        msg_id: i64,
        /// Now.
        now_us: i64,
    },
    /// Gives a message another body.
    Replace(Box<Replacement>),
    /// Opens an account or changes its limits; what it has submitted remains counted.
    PutAccount(Box<Account>),
    /// An account.
    Account(u32),
    /// The oldest messages in `sent`.
    NextSent {
        /// The most messages.
        max: usize,
    },
    /// Deletes archived messages: their `done_us` and number.
    DropSent(Vec<(i64, i64)>),
    /// What is to be done next, whether it is due or not.
    NextDue,
    /// Stations that have something queued, in the order of the run queue.
    Stations {
        /// Where to begin.
        from: RunPlace,
        /// The most stations.
        max: usize,
    },
    /// A message, whosever it is.
    Show(i64),
    /// What waits for a station.
    Waiting {
        /// The station.
        station: StationKey,
        /// The most messages.
        max: usize,
    },
}

impl Operation {
    /// Runs it in `tx`. May be run again in another transaction if this one cannot commit.
    ///
    /// # Errors
    /// The store's; [`StoreError::Inconsistent`] if the tables contradict each other.
    pub fn apply(&mut self, tx: &mut impl Transaction, rules: &Rules) -> Result<Outcome, StoreError> {
        match self {
            Operation::Receive(submission) => receive::receive(tx, rules, submission),
            Operation::Claim { channel, spread, max, now_us } => {
                claim::claim(tx, rules, (channel, *spread), *max, *now_us).map(Outcome::Claimed)
            }
            Operation::Complete(completion) => {
                complete::complete(tx, rules, completion).map(Outcome::Completed)
            }
            Operation::Forward(forward) => forward::forward(tx, forward).map(Outcome::Count),
            Operation::PutBack(back) => forward::put_back(tx, back).map(Outcome::Count),
            Operation::Settle(settlement) => forward::settle(tx, rules, settlement),
            Operation::Overdue { now_us, max } => {
                forward::overdue(tx, rules, *now_us, *max).map(Outcome::Count)
            }
            Operation::Alert { station, now_us } => timer::alert(tx, *station, *now_us).map(Outcome::Count),
            Operation::ReleaseScheduled { now_us, max } => {
                timer::release_scheduled(tx, *now_us, *max).map(Outcome::Count)
            }
            Operation::WakeDue { now_us, max } => timer::wake_due(tx, *now_us, *max).map(Outcome::Count),
            Operation::Expire { from, now_us, max } => timer::expire(tx, rules, *from, *now_us, *max),
            Operation::FreeLeases { now_us, until_us, max } => {
                lease::free_leases(tx, *now_us, *until_us, *max).map(Outcome::Count)
            }
            Operation::Query { account, msg_id } => manage::query(tx, *account, *msg_id),
            Operation::Find { account, src, service_type, station, max } => {
                let named = (src.as_str(), service_type.as_deref());
                manage::find(tx, *account, named, *station, *max).map(Outcome::Found)
            }
            Operation::Cancel { account, msg_id, now_us } => {
                manage::cancel(tx, rules, *account, *msg_id, *now_us)
            }
            Operation::Replace(replacement) => manage::replace(tx, replacement),
            Operation::PutAccount(account) => account::put(tx, account),
            Operation::Account(account) => account::find(tx, *account).map(Outcome::Account),
            Operation::NextSent { max } => sent::next_sent(tx, *max).map(Outcome::Sent),
            Operation::DropSent(keys) => sent::drop_sent(tx, keys).map(Outcome::Count),
            Operation::NextDue => due::next_due(tx).map(Outcome::Due),
            Operation::Stations { from, max } => view::stations(tx, *from, *max).map(Outcome::Stations),
            Operation::Show(msg_id) => view::show(tx, *msg_id).map(Outcome::Message),
            Operation::Waiting { station, max } => view::waiting(tx, *station, *max).map(Outcome::Waiting),
        }
    }
}
