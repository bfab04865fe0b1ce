//! What holds for every operation of a centre.

/// What holds for every operation of a centre.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rules {
    /// How long a claim holds if nobody completes it, µs.
    pub lease_us: i64,
    /// Messages that may be queued for one station.
    pub queue_max: u32,
    /// Whether final messages go through `sent`.
    pub has_flusher: bool,
    /// Whether the limits of accounts hold: a message of an account that does not exist is refused
    /// then.
    pub accounts: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Rules { lease_us: 60_000_000, queue_max: 10_000, has_flusher: true, accounts: false }
    }
}
