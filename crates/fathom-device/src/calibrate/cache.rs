//! A volatile cache, in the times of single writes: flat up to its size, and a rise behind it at
//! which it empties.

use super::sorted::median;
use crate::model::MOST_MB_PER_S;

/// A cache found in the times of single writes by size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct CacheEstimate {
    /// Its size.
    pub bytes: usize,
    /// A write that fits.
    pub write_ns: f64,
    /// How fast it empties.
    pub drain_bytes_per_ns: f64,
}

/// A cache, if the times are flat up to a size and rise from there, and a straight line from 4 KiB
/// is clearly worse.
pub(super) fn cache_in(times: &[(usize, f64)]) -> Option<CacheEstimate> {
    let (&(least, first), &(most, last)) = (times.first()?, times.last()?);
    let off = |predicted: &dyn Fn(f64) -> f64| -> f64 {
        let each = |&(bytes, ns): &(usize, f64)| (ns / predicted(bytes as f64).max(1.0)).ln().abs();
        times.iter().map(each).sum::<f64>() / times.len() as f64
    };
    let line = |from: f64, base: f64| {
        let slope = (last - base) / (most as f64 - from);
        move |bytes: f64| base + (bytes - from).max(0.0) * slope
    };
    let straight = off(&line(least as f64, first));
    let candidate = |&(bytes, _): &(usize, f64)| {
        let flat = median(times.iter().filter(|time| time.0 <= bytes).map(|time| time.1).collect());
        (off(&line(bytes as f64, flat)), bytes, flat)
    };
    let inner = times.get(1..times.len() - 1)?;
    let (error, bytes, flat) = inner.iter().map(candidate).min_by(|a, b| a.0.total_cmp(&b.0))?;
    // Three times as long in the end: less is no wait for a cache.
    let real = straight > 0.15 && error < 0.5 * straight && last > 3.0 * flat;
    real.then(|| CacheEstimate {
        bytes,
        write_ns: flat,
        drain_bytes_per_ns: ((most - bytes) as f64 / (last - flat).max(1.0)).min(MOST_MB_PER_S / 1e3),
    })
}

#[cfg(test)]
mod tests {
    use super::super::sizes::SIZES;
    use super::*;

    #[test]
    fn a_cache_is_found_where_there_is_one_only() {
        let times = |of: &dyn Fn(f64) -> f64| SIZES.map(|bytes| (bytes, of(bytes as f64)));
        let cached = cache_in(&times(&|bytes| 50e3 + (bytes - 65536.0).max(0.0) / 0.053)).unwrap();
        assert_eq!((cached.bytes, cached.write_ns), (65536, 50e3));
        assert!((cached.drain_bytes_per_ns / 0.053 - 1.0).abs() < 0.01, "{cached:?}");
        for bytes_per_ns in [0.008, 0.02, 0.06, 0.2, 1.0, 4.0] {
            for base in [40e3, 800e3, 2000e3] {
                assert_eq!(
                    cache_in(&times(&|bytes| base + (bytes - 4096.0) / bytes_per_ns)),
                    None,
                    "{bytes_per_ns} {base}"
                );
            }
        }
    }
}
