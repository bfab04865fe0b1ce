//! Fewer points, same picture: what a figure draws of a long series.

/// Thins `points` (in order of their abscissa) to at most `limit`, keeping what the eye would see
/// of all of them.
///
/// The series is cut into buckets of equal length; each keeps its lowest and its highest point, in
/// their order, so every spike and every dip stays where and as high as it was. First and last
/// point stay. A series that is short enough is returned as it is. `limit` below 4 counts as 4.
pub fn decimate(points: &[(f64, f64)], limit: usize) -> Vec<(f64, f64)> {
    let limit = limit.max(4);
    if points.len() <= limit {
        return points.to_vec();
    }
    let inner = &points[1..points.len() - 1];
    let buckets = (limit - 2) / 2;
    let mut kept = Vec::with_capacity(limit);
    kept.push(points[0]);
    for bucket in 0..buckets {
        let from = inner.len() * bucket / buckets;
        let to = inner.len() * (bucket + 1) / buckets;
        let mut lowest = from;
        let mut highest = from;
        for i in from..to {
            if inner[i].1 < inner[lowest].1 {
                lowest = i;
            }
            if inner[i].1 > inner[highest].1 {
                highest = i;
            }
        }
        kept.push(inner[lowest.min(highest)]);
        if lowest != highest {
            kept.push(inner[lowest.max(highest)]);
        }
    }
    kept.push(points[points.len() - 1]);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn extremes_order_and_limit_hold(values in prop::collection::vec(0.0f64..1e9, 1..5000), limit in 4usize..600) {
            let points: Vec<(f64, f64)> = values.iter().enumerate().map(|(i, v)| (i as f64, *v)).collect();
            let kept = decimate(&points, limit);
            prop_assert!(kept.len() <= limit.max(4));
            prop_assert!(kept.windows(2).all(|w| w[0].0 < w[1].0));
            prop_assert!(kept.iter().all(|p| points.contains(p)));
            let top = |ps: &[(f64, f64)]| ps.iter().map(|p| p.1).fold(f64::MIN, f64::max);
            let bottom = |ps: &[(f64, f64)]| ps.iter().map(|p| p.1).fold(f64::MAX, f64::min);
            prop_assert_eq!(top(&kept), top(&points));
            prop_assert_eq!(bottom(&kept), bottom(&points));
            prop_assert_eq!((kept[0], kept[kept.len() - 1]), (points[0], points[points.len() - 1]));
        }
    }
}
