//! Sets of moments as sorted, disjoint intervals (begin, end), ns.

pub type Interval = (u64, u64);

/// The union of intervals in any order.
pub fn merged(mut all: Vec<Interval>) -> Vec<Interval> {
    all.retain(|(from, to)| from < to);
    all.sort_unstable();
    let mut union: Vec<Interval> = Vec::with_capacity(all.len());
    for (from, to) in all {
        match union.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => union.push((from, to)),
        }
    }
    union
}

/// What two sets have in common.
pub fn intersection(a: &[Interval], b: &[Interval]) -> Vec<Interval> {
    let (mut common, mut i, mut j) = (Vec::new(), 0, 0);
    while let (Some(one), Some(other)) = (a.get(i), b.get(j)) {
        let (from, to) = (one.0.max(other.0), one.1.min(other.1));
        if from < to {
            common.push((from, to));
        }
        if one.1 < other.1 { i += 1 } else { j += 1 }
    }
    common
}

/// What a set has in a span.
pub fn within(set: &[Interval], span: Interval) -> Vec<Interval> {
    intersection(set, &[span])
}

/// What `a` has and `b` has not.
pub fn without(a: &[Interval], b: &[Interval]) -> Vec<Interval> {
    let (mut rest, mut j) = (Vec::new(), 0);
    for &(mut from, to) in a {
        while b.get(j).is_some_and(|pair| pair.1 <= from) {
            j += 1;
        }
        let mut k = j;
        while let Some(&(cut, end)) = b.get(k).filter(|pair| pair.0 < to) {
            if from < cut {
                rest.push((from, cut));
            }
            from = from.max(end);
            k += 1;
        }
        if from < to {
            rest.push((from, to));
        }
    }
    rest
}

/// How long a set is, ns.
pub fn length(set: &[Interval]) -> u64 {
    set.iter().map(|(from, to)| to - from).sum()
}

/// A set of moments that can be asked how much of it lies between two of them.
#[derive(Clone, Debug, Default)]
pub struct SpanLengths {
    set: Vec<Interval>,
    /// Length of the set before each interval.
    before: Vec<u64>,
}

impl SpanLengths {
    /// Of a sorted set.
    pub fn of(set: Vec<Interval>) -> SpanLengths {
        let mut sum = 0;
        let before = set
            .iter()
            .map(|(from, to)| {
                sum += to - from;
                sum - (to - from)
            })
            .collect();
        SpanLengths { set, before }
    }

    fn until(&self, at: u64) -> u64 {
        match self.set.partition_point(|pair| pair.0 < at).checked_sub(1) {
            None => 0,
            Some(last) => self.before[last] + at.min(self.set[last].1) - self.set[last].0,
        }
    }

    /// How much of the set lies from `from` to `to`, ns.
    pub fn between(&self, from: u64, to: u64) -> u64 {
        self.until(to).saturating_sub(self.until(from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn set() -> impl Strategy<Value = Vec<Interval>> {
        prop::collection::vec((0u64..60, 0u64..12), 0..12)
            .prop_map(|all| merged(all.into_iter().map(|(from, long)| (from, from + long)).collect()))
    }

    fn has(set: &[Interval], moment: u64) -> bool {
        set.iter().any(|pair| pair.0 <= moment && moment < pair.1)
    }

    proptest! {
        #[test]
        fn sets_hold_the_moments_that_they_should(a in set(), b in set()) {
            let (both, rest) = (intersection(&a, &b), without(&a, &b));
            let counted = SpanLengths::of(a.clone());
            for moment in 0..80 {
                prop_assert_eq!(has(&both, moment), has(&a, moment) && has(&b, moment));
                prop_assert_eq!(has(&rest, moment), has(&a, moment) && !has(&b, moment));
                prop_assert_eq!(counted.between(moment, moment + 7), length(&within(&a, (moment, moment + 7))));
            }
            prop_assert_eq!(length(&both) + length(&rest), length(&a));
        }
    }
}
