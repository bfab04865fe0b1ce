//! What a flush costs: a part for what is dirty, and a part of its own.

use super::sorted::{SortedTimes, median};

/// What a flush costs.
pub(super) struct Flushes {
    /// For each KiB that is dirty.
    pub per_kib_ns: f64,
    /// Whatever is dirty.
    pub base: SortedTimes,
    /// What was measured, by what was dirty, bytes.
    pub medians: Vec<(usize, f64)>,
}

/// Slope by Theil and Sen over the lower quartiles of the amounts, and what remains of each flush.
/// The quartiles differ by what is dirty as the medians do, and a tail of slow flushes moves them
/// less.
pub(super) fn flush_cost(points: &[(usize, u64)]) -> Flushes {
    let mut amounts: Vec<usize> = points.iter().map(|point| point.0).collect();
    amounts.sort_unstable();
    amounts.dedup();
    let of = |amount| points.iter().filter(|point| point.0 == amount).map(|point| point.1).collect();
    let all: Vec<(usize, SortedTimes)> =
        amounts.into_iter().map(|amount| (amount, SortedTimes::of(of(amount)))).collect();
    let quartiles: Vec<(usize, f64)> = all.iter().map(|(amount, times)| (*amount, times.at(25.0))).collect();
    let medians = all.iter().map(|(amount, times)| (*amount, times.median())).collect();
    let mut slopes = Vec::new();
    for (number, (bytes, ns)) in quartiles.iter().enumerate() {
        for (more, longer) in &quartiles[number + 1..] {
            // Small amounts differ by less than the noise.
            if *more >= 16 * bytes {
                slopes.push((longer - ns) / ((more - bytes) as f64 / 1024.0));
            }
        }
    }
    let per_kib_ns = median(slopes).max(0.0);
    let rest = |&(bytes, ns): &(usize, u64)| (ns as f64 - per_kib_ns * bytes as f64 / 1024.0).max(0.0) as u64;
    Flushes { per_kib_ns, base: SortedTimes::of(points.iter().map(rest).collect()), medians }
}

#[cfg(test)]
mod tests {
    use super::super::sizes::DIRTY;
    use super::*;

    #[test]
    fn a_flush_is_told_apart_from_what_is_dirty() {
        let mut points = Vec::new();
        for round in 0..20u64 {
            for bytes in DIRTY {
                // 2 ms, 4 µs for each KiB, and now and then something else.
                let noise = if round % 7 == 3 { 30_000_000 } else { round * 1000 };
                points.push((bytes, 2_000_000 + bytes as u64 / 1024 * 4000 + noise));
            }
        }
        let found = flush_cost(&points);
        assert!((found.per_kib_ns - 4000.0).abs() < 50.0, "{}", found.per_kib_ns);
        assert!((found.base.median() / 2_000_000.0 - 1.0).abs() < 0.02, "{}", found.base.median());
        assert_eq!(flush_cost(&[]).per_kib_ns, 0.0);
    }

    #[test]
    fn a_heavy_tail_does_not_hide_what_is_dirty() {
        // As the fragmented UFS part of the presets: half of the flushes at 500 us, the other half
        // up to 200 times as long.
        let mut random = fathom_random::Random::new(7);
        let mut points = Vec::new();
        for _ in 0..41 {
            for bytes in DIRTY {
                let share = (random.bits() % 1000) as f64 / 1000.0;
                let base = 500e3 * 200f64.powf((2.0 * share - 1.0).max(0.0));
                points.push((bytes, (base + bytes as f64 / 1024.0 * 2000.0) as u64));
            }
        }
        let found = flush_cost(&points);
        assert!((found.per_kib_ns / 2000.0 - 1.0).abs() < 0.05, "{}", found.per_kib_ns);
    }
}
