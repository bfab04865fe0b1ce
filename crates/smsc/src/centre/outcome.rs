//! What operations give.

use super::claim::Delivery;
use super::complete::CompletionResult;
use super::due::Due;
use super::place::Place;
use super::refusal::Refusal;
use super::status::Status;
use crate::model::{Account, Message, Station, StationKey};

/// What an operation gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Accepted under this number.
    Received(i64),
    /// Nothing was changed.
    Refused(Refusal),
    /// Messages in flight now.
    Claimed(Vec<Delivery>),
    /// The flight has ended.
    Completed(CompletionResult),
    /// The receipt was that of a message: the lane that has one of its own now, if any.
    Settled(Option<StationKey>),
    /// Rows that something was done to.
    Count(usize),
    /// Messages that were ended, and where the next stretch begins; none if the last queue was
    /// reached.
    Swept {
        /// How many.
        count: usize,
        /// How many of them had been tried in vain.
        tried: usize,
        /// Where to go on.
        next: Option<Place>,
    },
    /// Numbers of messages, rising.
    Found(Vec<i64>),
    /// State of a message.
    Status(Status),
    /// The account, if there is one.
    Account(Option<Account>),
    /// Final messages, the oldest first.
    Sent(Vec<Message>),
    /// The earliest task; none if nothing will ever be due.
    Due(Option<Due>),
    /// Stations.
    Stations(Vec<Station>),
    /// The message, if there is one.
    Message(Option<Box<Message>>),
    /// Messages, in the order of delivery.
    Waiting(Vec<Message>),
}
