//! Whether it pays to give the processor away before a flush.

use std::time::Duration;

/// The fewest and the most flushes that nobody is waited for after it did not pay.
const FEWEST: u32 = 64;
const MOST: u32 = 8192;

/// What a stream's thread has learnt about letting others go first.
///
/// Whoever gives the processor away on a machine that is at other work gets it back when that has
/// had its turn, and the scheduler counts the whole turn as given: milliseconds for each flush, all
/// clients waiting. Beside one busy loop for each of two processors 4 clients made 2,139 commits a
/// second so and 19,316 without, 16 made 5,761 and 48,460, 96 made 31,649 and 93,254 (Linux 6.18);
/// on the same machine alone 16 made 1.08 of what they made without, and 4 and 96 as many.
#[derive(Default)]
pub(super) struct Patience {
    /// Flushes for which nobody is waited for after the next time that it does not pay, at least.
    pause: u32,
    /// Flushes still to come without.
    left: u32,
    /// How often in a row it paid since.
    paid: u32,
}

impl Patience {
    /// Whether those who were woken shall be waited for. To be asked once a flush.
    pub(super) fn is_there(&mut self) -> bool {
        let is_over = self.left == 0;
        self.left = self.left.saturating_sub(1);
        is_over
    }

    /// `came` commits came in the time that was given away. More than those take was somebody
    /// else's. That it paid once is luck beside other work, so it must do so as often as it was
    /// left out before that is forgotten.
    pub(super) fn learn(&mut self, given: Duration, came: u64) {
        let of_commits = Duration::from_micros(20).saturating_mul(u32::try_from(came).unwrap_or(u32::MAX));
        if given > Duration::from_micros(100) + of_commits {
            self.pause = (self.pause * 2).clamp(FEWEST, MOST);
            self.left = self.pause;
            self.paid = 0;
        } else if self.pause > 0 {
            self.paid += 1;
            if self.paid >= self.pause {
                *self = Patience::default();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A flush after which each time that is given away takes `given`; whether any was.
    fn flush(patience: &mut Patience, given: Duration) -> bool {
        let is_there = patience.is_there();
        if is_there {
            patience.learn(given, 3);
        }
        is_there
    }

    /// Beside other work a thread gave away a turn of 3 ms after every flush.
    #[test]
    fn turns_that_others_take_are_given_ever_less_often() {
        let mut patience = Patience::default();
        let turns = (0..100_000).filter(|_| flush(&mut patience, Duration::from_millis(3))).count();
        assert!((10..30).contains(&turns), "{turns} turns");
        // Luck now and then changes nothing.
        let turns = |n: u32| if n.is_multiple_of(2) { Duration::from_millis(3) } else { Duration::ZERO };
        let given = (0..100_000).filter(|&n| flush(&mut patience, turns(n))).count();
        assert!(given < 60, "{given} turns");
    }

    #[test]
    fn what_pays_is_done_each_time_and_again_once_the_machine_is_quiet() {
        let mut patience = Patience::default();
        assert!((0..1000).all(|_| flush(&mut patience, Duration::from_micros(150))));
        flush(&mut patience, Duration::from_millis(3));
        let idle = (0..1000).take_while(|_| !flush(&mut patience, Duration::from_micros(9))).count();
        assert_eq!(idle, FEWEST as usize);
        assert!((0..1000).all(|_| flush(&mut patience, Duration::from_micros(9))));
        assert_eq!(patience.pause, 0, "it is forgotten");
    }
}
