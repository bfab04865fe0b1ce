//! Which of the settings that were tried is named.

use std::cmp::Reverse;

use fathom_workload::spec::Durability;

use super::Trial;
use crate::stats::{Comparison, paired_ratio};

/// How many times as fast one is as another, with its 95 % interval.
pub type Gain = Comparison;

/// Settings that are so near to the fastest are as good: then the one that promises more, changes
/// less, and has the more usual pages is named.
const SAME: f64 = 1.02;

/// What is not proven, and less than this, is no reason to change anything; and advice that is so
/// near to the best stands.
pub const ENOUGH: f64 = 1.05;

/// Bytes of a page by SQLite's default.
const USUAL_PAGE: u32 = 4096;

/// What a weaker promise must bring to be worth a sentence.
const WORTH: f64 = 1.1;

/// The fastest whose promise is allowed; none where none is. A promise that is not known is none.
#[must_use]
pub fn choose(tried: &[Trial], must: Durability, baseline: Option<usize>) -> Option<usize> {
    let allowed = |tried: &&Trial| tried.durability.is_some_and(|own| own >= must);
    let fastest = tried.iter().filter(allowed).map(Trial::ns).min_by(f64::total_cmp)?;
    let near = tried.iter().enumerate().filter(|(_, tried)| allowed(tried) && tried.ns() <= fastest * SAME);
    let best = near.min_by(|(_, a), (_, b)| {
        let rank = |tried: &Trial| {
            let candidate = &tried.candidate;
            (
                Reverse(tried.durability),
                candidate.changes(),
                candidate.page_size.max(1).ilog2().abs_diff(USUAL_PAGE.ilog2()),
            )
        };
        rank(a).cmp(&rank(b)).then(a.ns().total_cmp(&b.ns()))
    });
    let best = best?.0;
    // What they have stays where nothing is proven to be worth a change.
    match baseline {
        Some(base) if allowed(&&tried[base]) && tried[base].ns() <= fastest * ENOUGH => {
            let gain = gain(&tried[best], &tried[base]);
            let is_worth = gain.is_some_and(|gain| gain.proven && gain.ratio >= SAME);
            Some(if is_worth { best } else { base })
        }
        _ => Some(best),
    }
}

/// How many times as fast `a` is as `b`: the blocks that both have, paired.
#[must_use]
pub fn gain(a: &Trial, b: &Trial) -> Option<Gain> {
    let pairs: Vec<(f64, f64)> = b
        .runs
        .iter()
        .filter_map(|(block, of_b)| Some((*of_b, a.runs.iter().find(|run| run.0 == *block)?.1)))
        .collect();
    paired_ratio(&pairs)
}

/// The fastest whose promise is not allowed, but leaves a sound database at a power cut, where it
/// is proven to be worth a thought.
#[must_use]
pub fn weaker(tried: &[Trial], best: usize, must: Durability) -> Option<(usize, Gain)> {
    let sound =
        |tried: &Trial| tried.durability.is_some_and(|own| own < must && own >= Durability::PowerCutPrefix);
    let (place, found) = tried
        .iter()
        .enumerate()
        .filter(|(_, tried)| sound(tried))
        .min_by(|(_, a), (_, b)| a.ns().total_cmp(&b.ns()))?;
    let gain = gain(found, &tried[best])?;
    (gain.ratio >= WORTH).then_some((place, gain))
}

/// Where what is advised has other pages than the baseline, which takes a VACUUM of a database that
/// exists: what is best without, and how much faster than the baseline that is.
#[must_use]
pub fn with_same_pages(
    tried: &[Trial],
    best: usize,
    baseline: usize,
    must: Durability,
) -> Option<(usize, Gain)> {
    let own = tried[baseline].candidate.page_size;
    if tried[best].candidate.page_size == own {
        return None;
    }
    let has_own_pages = |place: &usize| tried[*place].candidate.page_size == own;
    let places: Vec<usize> = (0..tried.len()).filter(has_own_pages).collect();
    // The baseline alone says nothing of what else there is.
    if places.len() < 2 {
        return None;
    }
    let of_own: Vec<Trial> = places.iter().map(|place| tried[*place].clone()).collect();
    let own_baseline = places.iter().position(|place| *place == baseline);
    let place = places[choose(&of_own, must, own_baseline)?];
    Some((place, gain(&tried[place], &tried[baseline])?))
}
