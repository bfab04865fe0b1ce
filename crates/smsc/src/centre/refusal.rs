//! Why an operation did nothing.

use crate::text::TextError;

/// Why nothing was done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// SMPP: ESME_RMSGQFUL.
    #[error("the queue of the station is full")]
    QueueFull,
    /// SMPP: ESME_RINVSYSID.
    #[error("there is no such account")]
    NoSuchAccount,
    /// SMPP: ESME_RSUBMITFAIL.
    #[error("the account has submitted as many messages as it may")]
    QuotaExceeded,
    /// SMPP: ESME_RTHROTTLED.
    #[error("the account has submitted as many messages in this second as it may")]
    Throttled,
    /// SMPP: ESME_RQUERYFAIL, ESME_RCANCELFAIL, ESME_RREPLACEFAIL.
    #[error("this account has no such message, or it is archived")]
    NoSuchMessage,
    /// The same.
    #[error("the message is being delivered just now")]
    InFlight,
    /// The same.
    #[error("the message has its final state")]
    Final,
    /// SMPP: ESME_RINVEXPIRY.
    #[error("the new validity ends before the message is to be delivered")]
    Expired,
    /// The new body cannot be sent.
    #[error(transparent)]
    Text(#[from] TextError),
    /// A field of an account is greater than a store can keep.
    #[error("{field} of the account: {value}; at most {max}")]
    TooGreat {
        /// What.
        field: &'static str,
        /// How great.
        value: u64,
        /// The greatest.
        max: u64,
    },
}
