//! How much a device does at once: operations, and streams that it recognises.

use super::sizes::DEPTHS;

/// The number of channels: how many operations are under way in the device when it does as many as
/// it can (Little's law), by the rates of 1, 2, 4 … threads, a second, and the mean time of a
/// single one, ns. The mean comes from thousands of operations: that of the few which one thread
/// makes in a round is anything where a few take a hundred times as long as the others.
pub(super) fn channels(rates: &[(usize, f64)], mean_ns: f64) -> usize {
    let best = rates.iter().map(|rate| rate.1).fold(0.0, f64::max);
    // The largest number of threads bounds what can be seen.
    ((best * mean_ns / 1e9).round() as usize).clamp(1, DEPTHS[DEPTHS.len() - 1])
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

    #[test]
    fn channels_and_streams_by_what_they_give() {
        assert_eq!(
            channels(&[(1, 3000.0), (2, 5900.0), (4, 11_800.0), (8, 12_100.0), (16, 12_000.0)], 333e3),
            4
        );
        assert_eq!(channels(&[(1, 3000.0), (2, 3000.0), (32, 2900.0)], 333e3), 1);
        assert_eq!(streams(&[(1, 100.0), (2, 105.0), (4, 110.0), (8, 300.0)], 300.0), 4);
        assert_eq!(streams(&[(1, 290.0), (2, 290.0)], 300.0), 1);
    }
}
