//! Where a sweep over all queues goes on.

/// Where a sweep goes on: a place in the order of all queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    pub(super) station: i64,
    pub(super) rank: i64,
    pub(super) msg_id: i64,
}

impl Place {
    /// Before every queue.
    pub const BEGIN: Place = Place { station: i64::MIN, rank: 0, msg_id: 0 };
}
