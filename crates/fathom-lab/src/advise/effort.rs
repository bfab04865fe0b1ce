//! How often the settings of the last round are recorded: as often as a minute has room for.
//!
//! Two settings are as near to each other as their paired runs scatter, and three pairs say little:
//! Student's interval of three is four times as wide as that of twelve. A short recording scatters
//! most, by the processor's part of it, and costs least; so what a long trace has no time for, a
//! short one gets.

use std::ops::RangeInclusive;
use std::time::Duration;

/// An answer is to be there after so long.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// Runs of each setting of the last round. Beyond the most of them nothing gets much narrower.
pub const REPEATS: RangeInclusive<u32> = 3..=20;

/// Where every setting's time is known so well, nothing is recorded any more: 0.01 is 1 %.
pub const PRECISE: f64 = 0.01;

/// The last round simulates one run of each setting so many times more, for what the advice rests
/// on.
const SIMULATED_BESIDES: u32 = 5;

/// What the rounds so far have taken.
#[derive(Clone, Copy, Debug, Default)]
pub struct Effort {
    /// Runs that were recorded.
    pub runs: u32,
    /// To record all of them, one after the other, where nothing else is known.
    pub recorded: Duration,
    /// To simulate all of them on all devices.
    pub simulated: Duration,
}

impl Effort {
    /// Runs of each of `settings` settings for which `left` has room.
    #[must_use]
    pub fn repeats(&self, settings: usize, left: Duration) -> u32 {
        let settings = settings.max(1) as f64;
        let of_run = |all: Duration| all.as_secs_f64() / f64::from(self.runs.max(1));
        let besides_s = of_run(self.simulated) * f64::from(SIMULATED_BESIDES) * settings;
        let block_s = (of_run(self.recorded) + of_run(self.simulated)) * settings;
        let room = (left.as_secs_f64() - besides_s) / block_s.max(1e-3);
        // A negative or endless number goes to the nearest that there is.
        (room as u32).clamp(*REPEATS.start(), *REPEATS.end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEFT: Duration = Duration::from_secs(40);

    fn effort(run_ms: u64, simulated_ms: u64) -> Effort {
        let of = |ms| Duration::from_millis(ms) * 10;
        Effort { runs: 10, recorded: of(run_ms), simulated: of(simulated_ms) }
    }

    #[test]
    fn a_short_recording_is_made_more_often_and_a_long_one_three_times() {
        assert_eq!(effort(500, 0).repeats(8, LEFT), 10);
        assert_eq!(effort(400, 100).repeats(8, LEFT), 9, "36 of 40 seconds are left");
        assert_eq!(effort(10, 0).repeats(8, LEFT), 20);
        assert_eq!(effort(5000, 300).repeats(8, LEFT), 3);
        assert_eq!(effort(500, 2000).repeats(8, LEFT), 3, "simulating takes all the time");
        assert_eq!(effort(500, 0).repeats(8, Duration::ZERO), 3);
        assert_eq!(Effort::default().repeats(0, LEFT), 20);
    }
}
