//! When a message that could not be delivered is tried again.

/// Why a mobile did not take a message; numbers are those of the MAP errors (3GPP TS 29.002
/// §17.6.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    /// Nobody has this number: for good.
    Unknown,
    /// Switched off or out of reach; the network will alert the centre.
    Absent,
    /// Another message is being delivered to it.
    Busy,
    /// Its memory is full; the network will alert the centre.
    MemoryFull,
}

impl Failure {
    /// Its number.
    #[must_use]
    pub fn error(self) -> u32 {
        match self {
            Failure::Unknown => 1,
            Failure::Absent => 27,
            Failure::Busy => 31,
            Failure::MemoryFull => 32,
        }
    }

    /// Whether the network tells when trying again makes sense.
    #[must_use]
    pub fn alerts(self) -> bool {
        matches!(self, Failure::Absent | Failure::MemoryFull)
    }
}

/// Delays before the next attempt by class of failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// After "absent" and "memory full", µs; the last holds for all that follow.
    pub absent_us: Vec<i64>,
    /// After "busy", µs.
    pub busy_us: Vec<i64>,
}

impl RetryPolicy {
    /// The usual delays, divided by `factor`.
    #[must_use]
    pub fn accelerated(factor: i64) -> RetryPolicy {
        let minutes = |list: &[i64]| list.iter().map(|m| m * 60_000_000).collect();
        let usual =
            RetryPolicy { absent_us: minutes(&[5, 10, 30, 60, 180, 360]), busy_us: minutes(&[1, 2, 5, 15]) };
        usual.divided(factor)
    }

    /// These delays, divided by `factor`.
    #[must_use]
    pub fn divided(self, factor: i64) -> RetryPolicy {
        let divided = |list: Vec<i64>| list.into_iter().map(|us| (us / factor.max(1)).max(1)).collect();
        RetryPolicy { absent_us: divided(self.absent_us), busy_us: divided(self.busy_us) }
    }

    /// When to try again after the station's `attempts`-th failure (from 0) in a row; `None` for
    /// never.
    #[must_use]
    pub fn retry_us(&self, failure: Failure, attempts: u32, now_us: i64) -> Option<i64> {
        let delays = match failure {
            Failure::Unknown => return None,
            Failure::Absent | Failure::MemoryFull => &self.absent_us,
            Failure::Busy => &self.busy_us,
        };
        let delay = delays.get(attempts as usize).or(delays.last())?;
        Some(now_us + delay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE_US: i64 = 60_000_000;

    #[test]
    fn delays_grow_with_the_failures_in_a_row() {
        let usual = RetryPolicy::accelerated(1);
        let now_us = 1_800_000_000_000_000;
        let minutes = |failure| {
            let due = |attempts| {
                usual.retry_us(failure, attempts, now_us).map(|due_us| (due_us - now_us) / MINUTE_US)
            };
            (0..8).map(due).collect::<Option<Vec<i64>>>()
        };
        let absent = vec![5, 10, 30, 60, 180, 360, 360, 360];
        assert_eq!(minutes(Failure::Absent), Some(absent.clone()));
        assert_eq!(minutes(Failure::MemoryFull), Some(absent));
        assert_eq!(minutes(Failure::Busy), Some(vec![1, 2, 5, 15, 15, 15, 15, 15]));
        assert_eq!(minutes(Failure::Unknown), None, "for good");
    }

    #[test]
    fn delays_are_divided_but_never_nothing() {
        let policy = RetryPolicy { absent_us: vec![10, 1000], busy_us: vec![7] };
        let divided = policy.clone().divided(100);
        assert_eq!(divided, RetryPolicy { absent_us: vec![1, 10], busy_us: vec![1] });
        assert_eq!(policy.clone().divided(0), policy);
        assert_eq!(RetryPolicy::accelerated(1000).absent_us[0], 5 * MINUTE_US / 1000);
        let none = RetryPolicy { absent_us: Vec::new(), busy_us: Vec::new() };
        assert_eq!(none.retry_us(Failure::Busy, 0, 5), None);
    }
}
