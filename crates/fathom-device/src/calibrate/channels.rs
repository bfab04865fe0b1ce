//! How much a device does at once: operations, and streams that it recognises.

use std::fs;
use std::time::Instant;

use super::sizes::DEPTHS;
use super::sorted::{SortedTimes, median};

/// Where the kernel tells how long processes have waited for a processor.
const PRESSURE: &str = "/proc/pressure/cpu";
/// Up to this share of the time that something waited for a processor, a mean is the device's.
const LITTLE: f64 = 0.1;

/// How many operations a device has under way when it does as many as it can.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ChannelCount {
    /// The number for the model.
    pub likely: usize,
    /// The least and the most that what was measured leaves open, before they are rounded.
    pub range: [f64; 2],
    /// The largest share of the time of its measuring in which something waited for a processor;
    /// none where nobody tells.
    pub waited: Option<f64>,
}

impl ChannelCount {
    /// By Little's law: the best rate of 1, 2, 4 … threads, of which there are several rounds, a
    /// second, times the mean time of a single operation. The mean comes from thousands of
    /// operations: that of the few which one thread makes in a round is anything where a few take a
    /// hundred times as long as the others.
    ///
    /// A machine that is at other work makes single operations longer, and hardly the rate of many
    /// threads, whose delays overlap: of 4 channels 8 were made. What a read waited for a processor
    /// is no part of the device's time. It is not known read by read, so there are bounds: the mean
    /// less all that anything waited meanwhile, and not less than the lower quartile, for a mean is
    /// above that and a delay only adds. The rate is bounded alike, and by its best round.
    pub fn of(rates: &[(usize, Vec<f64>)], single: &SortedTimes, waited: [Option<f64>; 2]) -> ChannelCount {
        let medians = rates.iter().map(|(_, rounds)| (median(rounds.clone()), rounds));
        let best = medians.max_by(|a, b| a.0.total_cmp(&b.0));
        let (rate, rounds) = best.map_or((0.0, &[] as &[f64]), |(rate, rounds)| (rate, rounds.as_slice()));
        let fastest = rounds.iter().copied().fold(rate, f64::max);
        let [by_one, by_many] = waited.map(|share| share.unwrap_or(1.0).clamp(0.0, 1.0));
        let mean = single.mean();
        let least_ns = single.at(25.0).max(mean * (1.0 - by_one)).min(mean);
        let most = if by_many < 1.0 { fastest.min(rate / (1.0 - by_many)) } else { fastest };
        let range = [rate * least_ns / 1e9, most * mean / 1e9];
        let likely = if by_one <= LITTLE { rate * mean / 1e9 } else { range[0] };
        let waited = waited[0].zip(waited[1]).map(|(one, many)| one.max(many));
        ChannelCount { likely: whole(likely), range, waited }
    }

    /// Whether all that was measured comes to the same number.
    pub fn is_sure(&self) -> bool {
        self.range.iter().all(|bound| whole(*bound) == self.likely)
    }

    /// What the model assumes of it, in words; none where it is sure.
    pub fn assumption(&self) -> Option<String> {
        let [least, most] = self.range.map(whole);
        let why = match self.waited {
            Some(share) => {
                format!("something waited for a processor up to {:.0} % of the time", share * 100.0)
            }
            None => "this kernel does not tell how long processes waited for a processor".into(),
        };
        (!self.is_sure()).then(|| {
            format!(
                "channels is a guess, {least} to {most} by what was measured ({why}): measure again when the machine has nothing else to do"
            )
        })
    }
}

/// The largest number of threads bounds what can be seen.
fn whole(channels: f64) -> usize {
    (channels.round() as usize).clamp(1, DEPTHS[DEPTHS.len() - 1])
}

/// Tells in which share of a time something waited for a processor.
pub(super) struct WaitMeter {
    begin: Instant,
    waited_us: Option<u64>,
}

impl WaitMeter {
    pub fn start() -> WaitMeter {
        WaitMeter { begin: Instant::now(), waited_us: waited_us() }
    }

    /// The share since; none where the kernel does not tell.
    pub fn share(&self) -> Option<f64> {
        let waited = waited_us()?.saturating_sub(self.waited_us?);
        Some((waited as f64 / 1e6 / self.begin.elapsed().as_secs_f64().max(1e-9)).min(1.0))
    }
}

fn waited_us() -> Option<u64> {
    total_in(&fs::read_to_string(PRESSURE).ok()?)
}

/// `total` of the line `some`, µs.
fn total_in(pressure: &str) -> Option<u64> {
    let some = pressure.lines().find(|line| line.starts_with("some "))?;
    some.split_whitespace().find_map(|word| word.strip_prefix("total="))?.parse().ok()
}

/// The most streams whose reads are still nearer to those of one stream than to random ones.
pub(super) fn streams(times: &[(usize, f64)], random: f64) -> usize {
    let Some(&(_, one)) = times.first() else { return 1 };
    if one > 0.8 * random {
        return 1;
    }
    let limit = (one * random).sqrt();
    times.iter().take_while(|time| time.1 < limit).map(|time| time.0).last().unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds of a device of so many channels, of which each operation takes `ns`, and which other
    /// work of the machine slows down.
    fn rounds(channels: usize, ns: f64, slowed: &mut dyn FnMut() -> f64) -> Vec<(usize, Vec<f64>)> {
        let mut of = |depth: usize| {
            let rate = depth.min(channels) as f64 * 1e9 / ns;
            (depth, (0..5).map(|_| rate / slowed()).collect::<Vec<f64>>())
        };
        DEPTHS.map(&mut of).to_vec()
    }

    #[test]
    fn a_quiet_machine_tells_the_channels_of_even_and_of_uneven_devices() {
        let even = SortedTimes::of(vec![333_000; 100]);
        // One read in ten takes fifty times as long.
        let uneven: Vec<u64> =
            (0..1000).map(|number| if number % 10 == 0 { 5_000_000 } else { 100_000 }).collect();
        let uneven = SortedTimes::of(uneven);
        for channels in [1, 2, 4, 6, 8, 32] {
            for single in [&even, &uneven] {
                let rates = rounds(channels, single.mean(), &mut || 1.0);
                let found = ChannelCount::of(&rates, single, [Some(0.01), Some(0.01)]);
                assert_eq!((found.likely, found.is_sure()), (channels, true), "{found:?}");
                assert_eq!(found.assumption(), None);
            }
            // Without a word of the kernel's, what is even is told, and of the other a range.
            let untold = |single: &SortedTimes| {
                ChannelCount::of(&rounds(channels, single.mean(), &mut || 1.0), single, [None; 2])
            };
            assert_eq!((untold(&even).likely, untold(&even).is_sure()), (channels, true));
            let found = untold(&uneven);
            assert!(!found.is_sure() || found.likely == channels, "{found:?}");
        }
    }

    /// What happened: on a busy machine a modelled device of 4 channels was said to have 8, for the
    /// mean of single reads had what they waited for a processor, and the best rate had not.
    #[test]
    fn a_busy_machine_tells_the_right_number_or_says_that_it_does_not_know() {
        let (mut told, mut untold) = (0, 0);
        for (channels, seed) in
            [1_usize, 2, 4, 8].into_iter().flat_map(|channels| (0..50_u64).map(move |seed| (channels, seed)))
        {
            let mut random = fathom_random::Random::new(seed * 100 + channels as u64);
            // From a machine with a little to do to one on which half of all reads wait.
            let share = seed as f64 / 100.0;
            let mut of_device = 0.0;
            let times: Vec<u64> = (0..2000)
                .map(|_| {
                    let own = 300e3 * (1.0 + 0.04 * (random.unit() - 0.5));
                    let late = if random.unit() < share { 3e6 * random.unit() } else { 0.0 };
                    of_device += own;
                    (own + late) as u64
                })
                .collect();
            let single = SortedTimes::of(times);
            let all = single.0.iter().sum::<u64>() as f64;
            let waited = 1.0 - of_device / all;
            let rates = rounds(channels, 300e3, &mut || 1.0 + 0.04 * random.unit());
            for waited in [[Some(waited); 2], [None; 2]] {
                let found = ChannelCount::of(&rates, &single, waited);
                let is_told = found.is_sure();
                assert!(!is_told || found.likely == channels, "{channels}, {share}: {found:?}");
                assert_eq!(found.assumption().is_none(), is_told);
                *if is_told { &mut told } else { &mut untold } += 1;
            }
            let earlier = whole(median(rates[5].1.clone()) * single.mean() / 1e9);
            assert!(share < 0.3 || earlier > channels, "{channels} were {earlier}");
        }
        assert!(told >= 20 && untold >= 20, "{told} {untold}");
    }

    #[test]
    fn what_the_kernel_tells_of_waiting_is_read() {
        let text = "some avg10=0.00 avg60=1.25 avg300=0.80 total=123456\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=7\n";
        assert_eq!(total_in(text), Some(123_456));
        assert_eq!((total_in(""), total_in("some total=x")), (None, None));
        assert!(WaitMeter::start().share().is_none_or(|share| (0.0..=1.0).contains(&share)));
    }

    #[test]
    fn streams_by_what_they_give() {
        assert_eq!(streams(&[(1, 100.0), (2, 105.0), (4, 110.0), (8, 300.0)], 300.0), 4);
        assert_eq!(streams(&[(1, 290.0), (2, 290.0)], 300.0), 1);
    }
}
