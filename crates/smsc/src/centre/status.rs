//! State of a message.

use crate::model::MessageState;

/// State of a message, as query_sm_resp tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// State.
    pub state: MessageState,
    /// When it became final; 0 before, µs.
    pub done_us: i64,
    /// Error of the last attempt.
    pub error: u32,
}
