//! In what columns count time.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// In what a column counts time since 1970-01-01 00:00 UTC.
///
/// ```
/// use mmdb::{ColumnType, Schema, TimeUnit};
/// let s = Schema::new("session").column("id", ColumnType::Int64).column("until", ColumnType::UInt32);
/// let s = s.primary_key(&["id"]).ordered_index("by_until", &["until"]).expire_by("until", TimeUnit::Seconds);
/// assert_eq!(s.expiry.map(|e| (e.column, e.unit)), Some((1, TimeUnit::Seconds)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeUnit {
    /// Seconds.
    Seconds,
    /// Milliseconds.
    Milliseconds,
    /// Microseconds: what columns of [`crate::ColumnType::Time`] have.
    Microseconds,
}

impl TimeUnit {
    pub(crate) fn code(self) -> u8 {
        match self {
            TimeUnit::Seconds => 0,
            TimeUnit::Milliseconds => 1,
            TimeUnit::Microseconds => 2,
        }
    }

    pub(crate) fn from_code(code: u8) -> Option<TimeUnit> {
        [TimeUnit::Seconds, TimeUnit::Milliseconds, TimeUnit::Microseconds]
            .into_iter()
            .find(|u| u.code() == code)
    }

    /// The last whole unit up to this moment. Moments of which 64 bits do not hold the microseconds
    /// are as good as the last that they do.
    pub(crate) fn of(self, moment: SystemTime) -> i64 {
        let us = |d: Duration| i64::try_from(d.as_micros()).unwrap_or(i64::MAX);
        let us = match moment.duration_since(UNIX_EPOCH) {
            Ok(after) => us(after),
            Err(before) => -us(before.duration()),
        };
        match self {
            TimeUnit::Seconds => us.div_euclid(1_000_000),
            TimeUnit::Milliseconds => us.div_euclid(1000),
            TimeUnit::Microseconds => us,
        }
    }
}
