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
            Err(before) => {
                let distance = before.duration();
                -us(distance) - i64::from(!distance.subsec_nanos().is_multiple_of(1000))
            }
        };
        match self {
            TimeUnit::Seconds => us.div_euclid(1_000_000),
            TimeUnit::Milliseconds => us.div_euclid(1000),
            TimeUnit::Microseconds => us,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A moment before 1970 that is no whole microsecond counted as the next one, in which rows
    /// were not due yet.
    #[test]
    fn a_moment_is_in_the_last_unit_that_has_begun() {
        let (before, after) =
            (|ns| UNIX_EPOCH - Duration::from_nanos(ns), |ns| UNIX_EPOCH + Duration::from_nanos(ns));
        let of = |moment| {
            [TimeUnit::Microseconds, TimeUnit::Milliseconds, TimeUnit::Seconds].map(|unit| unit.of(moment))
        };
        assert_eq!(of(after(999)), [0, 0, 0]);
        assert_eq!(of(after(1_000_001_001)), [1_000_001, 1000, 1]);
        assert_eq!(of(before(1)), [-1, -1, -1]);
        assert_eq!(of(before(1000)), [-1, -1, -1]);
        assert_eq!(of(before(1001)), [-2, -1, -1]);
        assert_eq!(of(before(1_000_000_000)), [-1_000_000, -1000, -1]);
        let ages = Duration::from_secs(1 << 60);
        let far = [UNIX_EPOCH.checked_sub(ages), UNIX_EPOCH.checked_add(ages)];
        let far = far.map(|moment| moment.map(|moment| TimeUnit::Microseconds.of(moment)));
        assert_eq!(far, [Some(-i64::MAX), Some(i64::MAX)]);
    }
}
