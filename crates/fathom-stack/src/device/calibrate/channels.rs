//! How much a device does at once: operations, and streams that it recognises.

use super::DEPTHS;

/// The number of channels, by what 1, 2, 4 … threads get done as shares of what one does.
pub(super) fn channels(shares: &[(usize, f64)]) -> usize {
    let best = shares.iter().map(|it| it.1).fold(1.0, f64::max);
    // The largest number of threads bounds what can be seen.
    (best.round() as usize).clamp(1, DEPTHS[DEPTHS.len() - 1])
}

/// The most streams whose reads are still nearer to those of one stream than to random ones.
pub(super) fn streams(times: &[(usize, f64)], random: f64) -> usize {
    let Some(&(_, one)) = times.first() else { return 1 };
    if one > 0.8 * random {
        return 1;
    }
    let limit = (one * random).sqrt();
    times.iter().take_while(|it| it.1 < limit).map(|it| it.0).last().unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_and_streams_by_what_they_give() {
        assert_eq!(channels(&[(1, 1.0), (2, 1.97), (4, 3.93), (8, 4.03), (16, 4.0)]), 4);
        assert_eq!(channels(&[(1, 1.0), (2, 1.0), (32, 0.97)]), 1);
        assert_eq!(streams(&[(1, 100.0), (2, 105.0), (4, 110.0), (8, 300.0)], 300.0), 4);
        assert_eq!(streams(&[(1, 290.0), (2, 290.0)], 300.0), 1);
    }
}
