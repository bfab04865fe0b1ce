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

/// Settings that the second and the third round try together, as a rule, and those of the last
/// round of which an answer needs the fewest runs.
const SEARCHED: u32 = 16;
const NEEDED: u32 = 4;

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
    /// To record one run: what every run takes besides its device.
    #[must_use]
    pub fn of_run(&self) -> Duration {
        self.recorded / self.runs.max(1)
    }

    /// To record one run of a setting, and to simulate it on all devices.
    #[must_use]
    pub fn of_setting(&self) -> Duration {
        (self.recorded + self.simulated) / self.runs.max(1)
    }

    /// What the rounds after the first will take at the least, about: `parts` settings of the
    /// search at a time, then `repeats` runs of those that are left.
    #[must_use]
    pub fn rest(&self, parts: usize, repeats: u32) -> Duration {
        let of_setting = self.of_setting();
        of_setting * SEARCHED / (parts.max(1) as u32) + of_setting * NEEDED * repeats
    }

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

    /// Settings of which the fewest runs fit into `left`.
    #[must_use]
    pub fn settings(&self, left: Duration) -> usize {
        let of_run = |all: Duration| all.as_secs_f64() / f64::from(self.runs.max(1));
        let (recorded_s, simulated_s) = (of_run(self.recorded), of_run(self.simulated));
        let runs = f64::from(*REPEATS.start());
        let setting_s = (recorded_s + simulated_s) * runs + simulated_s * f64::from(SIMULATED_BESIDES);
        (left.as_secs_f64() / setting_s.max(1e-3)) as usize
    }

    /// Of `left` the part in which runs of `settings` settings can be recorded, so that there is
    /// time to simulate them afterwards.
    #[must_use]
    pub fn recording(&self, settings: usize, left: Duration) -> Duration {
        let runs = f64::from(self.runs.max(1));
        let (recorded, simulated) = (self.recorded.as_secs_f64() / runs, self.simulated.as_secs_f64() / runs);
        let besides_s = simulated * f64::from(SIMULATED_BESIDES) * settings.max(1) as f64;
        let share = recorded / (recorded + simulated).max(1e-9);
        let room_s = (left.as_secs_f64() - besides_s).max(0.0);
        Duration::from_secs_f64(room_s * if self.runs == 0 { 1.0 } else { share })
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
    fn so_many_settings_are_recorded_as_there_is_time_for() {
        assert_eq!(effort(1000, 0).settings(LEFT), 13);
        assert_eq!(effort(1000, 250).settings(LEFT), 8, "a setting takes 3.75 s and 1.25 s");
        assert_eq!(effort(1000, 0).settings(Duration::ZERO), 0);
    }

    #[test]
    fn a_setting_takes_its_recording_and_its_simulation() {
        assert_eq!(effort(300, 100).of_setting(), Duration::from_millis(400));
        assert_eq!(Effort::default().of_setting(), Duration::ZERO);
    }

    /// What happened: a trace of 10,000 commits, of which a recording takes half a minute, was in
    /// its first round after 88 s, and nothing had said that it would not be a minute.
    #[test]
    fn the_rest_is_what_the_search_and_the_last_round_take() {
        assert_eq!(effort(30_000, 0).rest(2, 3), Duration::from_secs(8 * 30 + 12 * 30));
        assert_eq!(effort(300, 100).rest(1, 1), Duration::from_millis(20 * 400));
        assert_eq!(Effort::default().rest(0, 3), Duration::ZERO);
    }

    #[test]
    fn what_recordings_may_take_leaves_time_to_simulate_them() {
        let of = |run_ms, simulated_ms| effort(run_ms, simulated_ms).recording(8, LEFT).as_secs();
        assert_eq!(of(500, 0), 40);
        assert_eq!(of(300, 100), 27, "3 of 4 parts of what 4 s of simulation leave");
        assert_eq!(of(500, 2000), 0);
        assert_eq!(Effort::default().recording(8, LEFT), LEFT);
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
