//! How many messages a sender keeps in flight: as many as it is asked to, unless the store is so
//! slow that claims would end before their completions are there. Then another sender would deliver
//! the same messages again.

/// Messages in flight of all senders together, before anything is known of the store. In a claim's
/// usual minute even a store that completes a hundred in a second has done with them.
const FIRST: usize = 4096;
/// And of one sender.
const FIRST_OF_ONE: usize = 64;

/// The flights that one sender may have.
pub(super) struct Flights {
    /// As many as it was asked for.
    most: usize,
    allowed: usize,
    /// How long a flight may wait besides its time in the air, µs.
    wait_us: i64,
    /// Flights of this round that have come to their end, and the longest wait among them.
    round: (usize, i64),
    /// When the round began: flights of before had other numbers beside them.
    since_us: i64,
    slow: bool,
}

impl Flights {
    /// For one of `senders` senders with this window, where a claim ends after `lease_us`, and an
    /// attempt may be in the air for `longest_us`.
    pub fn new(window: usize, senders: usize, lease_us: i64, longest_us: u64) -> Flights {
        let first = (FIRST / senders.max(1)).clamp(1, FIRST_OF_ONE);
        // What the air leaves of a claim, and of that a quarter: stores have slow moments.
        let wait_us = lease_us.saturating_sub_unsigned(longest_us).max(0) / 4;
        Flights {
            most: window,
            allowed: window.min(first),
            wait_us,
            round: (0, 0),
            since_us: i64::MIN,
            slow: false,
        }
    }

    /// So many may be in flight now.
    pub fn allowed(&self) -> usize {
        self.allowed
    }

    /// So many, where the store was too slow for those that were asked for.
    pub fn held(&self) -> Option<usize> {
        (self.slow && self.allowed < self.most).then_some(self.allowed)
    }

    /// A flight has come to its end: claimed, out of the air, and its completion acknowledged at
    /// these times. Twice as many are allowed after as many flights as are allowed now, if none of
    /// them had to wait for long; half as many as soon as one had.
    pub fn ended(&mut self, claim_us: i64, landed_us: i64, now_us: i64) {
        if claim_us < self.since_us {
            return;
        }
        let waited_us = now_us - landed_us.max(claim_us);
        self.round = (self.round.0 + 1, self.round.1.max(waited_us));
        let allowed = if waited_us > self.wait_us / 2 {
            self.slow = true;
            (self.allowed / 2).max(1)
        } else if self.round.0 < self.allowed {
            return;
        } else if self.round.1 > self.wait_us / 8 {
            self.slow = true;
            self.allowed
        } else {
            self.allowed.saturating_mul(2).min(self.most)
        };
        (self.allowed, self.round, self.since_us) = (allowed, (0, 0), now_us);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A store that completes a flight in `each_us`, one after another; the longest wait, and the
    /// flights in the end.
    fn flown(mut flights: Flights, each_us: impl Fn(usize) -> i64) -> (i64, Flights) {
        let (mut now_us, mut longest_us) = (0, 0);
        for round in 0..200 {
            let claim_us = now_us;
            for _ in 0..flights.allowed() {
                now_us += each_us(round);
                longest_us = longest_us.max(now_us - claim_us);
                flights.ended(claim_us, claim_us, now_us);
            }
        }
        (longest_us, flights)
    }

    #[test]
    fn a_store_that_is_fast_enough_gets_the_whole_window() {
        let (_, flights) = flown(Flights::new(65_536, 4, 60_000_000, 0), |_| 10);
        assert_eq!((flights.allowed(), flights.held()), (65_536, None));
        // A window is never exceeded.
        let (_, flights) = flown(Flights::new(3, 4, 60_000_000, 0), |_| 10);
        assert_eq!((flights.allowed(), flights.held()), (3, None));
    }

    #[test]
    fn no_flight_comes_near_the_end_of_its_claim_on_a_slow_store() {
        for (each_us, senders) in [(1_000, 1), (13_000, 128), (100_000, 16), (3_000_000, 1024)] {
            let (longest_us, flights) = flown(Flights::new(65_536, senders, 60_000_000, 0), |_| each_us);
            assert!(longest_us < 15_000_000, "{each_us} µs each: one waited {longest_us} µs");
            assert_eq!(flights.held(), Some(flights.allowed()), "{each_us} µs each");
            let round_us = flights.allowed() as i64 * each_us;
            assert!(flights.allowed() == 1 || round_us > 900_000, "{each_us} µs each: {}", flights.allowed());
        }
        // One that becomes ten times as slow in the middle.
        let slower = |round| if round < 100 { 1000 } else { 10_000 };
        let (longest_us, _) = flown(Flights::new(65_536, 4, 60_000_000, 0), slower);
        assert!(longest_us < 30_000_000, "{longest_us}");
        // What the air takes of a claim, a completion cannot have.
        let (longest_us, _) = flown(Flights::new(65_536, 4, 60_000_000, 56_000_000), |_| 1000);
        assert!(longest_us < 1_000_000, "{longest_us}");
    }
}
