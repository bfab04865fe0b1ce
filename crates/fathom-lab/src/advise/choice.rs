//! Which of the settings that were tried is named.

use std::cmp::Reverse;

use fathom_workload::spec::Durability;

use super::Trial;
use crate::stats::{Comparison, paired_ratio};

/// How many times as fast one is as another, with its 95 % interval.
pub type Gain = Comparison;

/// Settings that are so near to the fastest are as good: then the one that promises more, changes
/// less, and has the more usual pages is named.
pub(super) const SAME: f64 = 1.02;

/// What is not proven, and less than this, is no reason to change anything; and advice that is so
/// near to the best stands. Where commits may be lost, so much speed is given for fewer of them.
pub const ENOUGH: f64 = 1.05;

/// What is not proven to be faster, and by less than this, is no reason to change more.
const UNPROVEN: f64 = 1.1;

/// With fewer transactions that write what is done once weighs as much as they do: of two near
/// settings the one that is faster may be so by chance.
pub const FEW: u64 = 100;

/// A simulation may be off by so much (docs/simulate.md): what brings less is told to be within
/// that. Two simulations of one trace are nearer to each other: what one has before the other was
/// live the same to 1 to 2 %.
pub const OFF_BY: f64 = 1.1;

/// What other pages, which take a VACUUM, have to bring of few transactions. It leaves what is
/// named within [`ENOUGH`] of the best, by what a live ratio may be other than a simulated one.
const WORTH_A_VACUUM: f64 = 1.04;

/// Losses that differ by less are the same: how many commits lie between two checkpoints differs.
const SAME_LOSS: f64 = 1.1;

/// Bytes of a page by SQLite's default.
const USUAL_PAGE: u32 = 4096;

/// What a weaker promise must bring to be worth a sentence.
const WORTH: f64 = 1.1;

/// What a setting asks of whoever takes it, from the most: another file system than now, that it
/// locks others out, settings that are other than now, and how far its pages are from the usual
/// size.
pub(super) fn effort_of(trial: &Trial, now: Option<&Trial>) -> (bool, bool, usize, u32) {
    let candidate = &trial.candidate;
    let moves = now.is_some_and(|now| now.filesystem != trial.filesystem);
    let changes = now.map_or_else(|| candidate.changes(), |now| candidate.changes_from(&now.candidate));
    let pages = candidate.page_size.max(1).ilog2().abs_diff(USUAL_PAGE.ilog2());
    (moves, locks_out(trial, now), changes, pages)
}

/// Whether others cannot open the database any more, who can now.
fn locks_out(trial: &Trial, now: Option<&Trial>) -> bool {
    let is_exclusive = |trial: &Trial| {
        let mode = trial.candidate.more.get("locking_mode");
        mode.is_some_and(|mode| mode.eq_ignore_ascii_case("exclusive"))
    };
    is_exclusive(trial) && !now.is_some_and(is_exclusive)
}

fn fastest<'a>(trials: &[(usize, &'a Trial)]) -> Option<(usize, &'a Trial)> {
    trials.iter().copied().min_by(|a, b| a.1.ns().total_cmp(&b.1.ns()))
}

/// Whether it has other pages than now, by a trace that is short.
fn changes_pages_for_little(trial: &Trial, now: Option<&Trial>) -> bool {
    let own = now.map_or(USUAL_PAGE, |now| now.candidate.page_size);
    trial.candidate.page_size != own && trial.writing.is_some_and(|writing| writing < FEW)
}

/// Those that may be named at all: their promise is allowed (one that is not known is none), what
/// they set can have an effect, and what locks others out is proven to be faster than all that does
/// not; of a short trace what has other pages, too, and by [`WORTH_A_VACUUM`].
pub(super) fn allowed<'a>(
    tried: &'a [Trial],
    must: Durability,
    now: Option<&Trial>,
) -> Vec<(usize, &'a Trial)> {
    let all: Vec<(usize, &Trial)> = tried.iter().enumerate().filter(|(_, trial)| trial.keeps(must)).collect();
    let felt: Vec<(usize, &Trial)> = all
        .iter()
        .copied()
        .filter(|(_, trial)| !trial.is_idle(tried) || now.is_some_and(|now| now.candidate == trial.candidate))
        .collect();
    let all = if felt.is_empty() { all } else { felt };
    let (out, open): (Vec<_>, Vec<_>) = all.iter().copied().partition(|(_, trial)| locks_out(trial, now));
    let worth = |less: Vec<(usize, &'a Trial)>, more: Vec<(usize, &'a Trial)>, least: f64| {
        let Some((_, best)) = fastest(&less) else { return more };
        let is_worth =
            |trial: &Trial| gain(trial, best).is_some_and(|gain| gain.proven && gain.ratio >= least);
        less.into_iter().chain(more.into_iter().filter(|(_, trial)| is_worth(trial))).collect::<Vec<_>>()
    };
    let all = worth(open, out, SAME);
    let (other, own): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|(_, trial)| changes_pages_for_little(trial, now));
    worth(own, other, WORTH_A_VACUUM)
}

/// The fastest whose promise is allowed, or one that is as good and asks less; none where none is
/// allowed.
#[must_use]
pub fn choose(tried: &[Trial], must: Durability, baseline: Option<usize>) -> Option<usize> {
    let now = baseline.map(|base| &tried[base]);
    let allowed = allowed(tried, must, now);
    let fastest_ns = fastest(&allowed)?.1.ns();
    let (best, _) = as_good(&allowed, now)?;
    // What they have stays where nothing is proven to be worth a change.
    let Some(base) = baseline.filter(|base| allowed.iter().any(|trial| trial.0 == *base)) else {
        return Some(best);
    };
    if tried[base].ns() > fastest_ns * ENOUGH {
        return Some(best);
    }
    let gain = gain(&tried[best], &tried[base]);
    let is_worth = gain.is_some_and(|gain| gain.proven && gain.ratio >= SAME);
    // What loses fewer commits is worth a change that is not slower.
    let is_safer =
        lost(&tried[best]) < lost(&tried[base]) / SAME_LOSS && tried[best].ns() <= tried[base].ns();
    Some(if is_worth || is_safer { best } else { base })
}

/// Commits that a power cut may take.
pub(super) fn lost(trial: &Trial) -> f64 {
    match (trial.kept(), trial.loss) {
        (Some(Durability::PowerCut), _) => 0.0,
        (Some(Durability::PowerCutAllButLast), _) => 1.0,
        (_, Some(loss)) => loss.commits as f64,
        (_, None) => f64::INFINITY,
    }
}

/// Whether a power cut takes no more of its commits than so many, or hardly more.
pub(super) fn loses_no_more(trial: &Trial, commits: f64) -> bool {
    lost(trial) <= commits.max(1.0) * SAME_LOSS
}

/// The fastest, and the one that settings have to be as good as: where the fastest may lose
/// commits, a little speed is given for fewer of them.
fn leading<'a>(all: &[(usize, &'a Trial)]) -> Option<[(usize, &'a Trial); 2]> {
    let first = fastest(all)?;
    if first.1.kept() != Some(Durability::PowerCutPrefix) {
        return Some([first; 2]);
    }
    let near: Vec<(usize, &Trial)> =
        all.iter().copied().filter(|(_, trial)| trial.ns() <= first.1.ns() * ENOUGH).collect();
    let least = near.iter().map(|(_, trial)| lost(trial)).fold(f64::INFINITY, f64::min);
    let safer: Vec<(usize, &Trial)> =
        near.into_iter().filter(|(_, trial)| loses_no_more(trial, least)).collect();
    Some([first, fastest(&safer)?])
}

/// Of those that are as good as what leads, the one that promises more, loses less, and asks less.
/// What nothing is proven to be better than is as good, if it promises more or asks less: of pages
/// of two other sizes neither does, and more usual ones are no reason to be slower.
fn as_good<'a>(all: &[(usize, &'a Trial)], now: Option<&Trial>) -> Option<(usize, &'a Trial)> {
    let [(_, first), (place, best)] = leading(all)?;
    let own_pages = now.map_or(USUAL_PAGE, |now| now.candidate.page_size);
    let asked = |trial: &Trial| {
        let (moves, locks_out, changes, _) = effort_of(trial, now);
        (Reverse(trial.kept()), moves, locks_out, changes, trial.candidate.page_size != own_pages)
    };
    let most = asked(best);
    let is_unproven = |trial: &Trial| gain(first, trial).is_none_or(|gain| !gain.proven);
    let is_as_good = |trial: &Trial| {
        let is_near = trial.ns() <= best.ns() * SAME && trial.ns() <= first.ns() * ENOUGH;
        loses_no_more(trial, lost(best))
            && (is_near || (asked(trial) < most && trial.ns() <= first.ns() * UNPROVEN && is_unproven(trial)))
    };
    let near = all.iter().copied().filter(|(_, trial)| is_as_good(trial));
    Some(least_effort(near, now).unwrap_or((place, best)))
}

/// The one that promises more, then the one that asks less, then the faster.
fn least_effort<'a>(
    all: impl Iterator<Item = (usize, &'a Trial)>,
    now: Option<&Trial>,
) -> Option<(usize, &'a Trial)> {
    let rank = |trial: &Trial| (Reverse(trial.kept()), effort_of(trial, now));
    all.min_by(|(_, a), (_, b)| rank(a).cmp(&rank(b)).then(a.ns().total_cmp(&b.ns())))
}

/// What leads of single runs, which prove nothing: what [`choose`] would name of them if they did.
#[must_use]
pub(super) fn lead(tried: &[Trial], must: Durability) -> Option<usize> {
    let keeps = |trial: &Trial| trial.keeps(must) && !trial.is_idle(tried);
    let all: Vec<(usize, &Trial)> = tried.iter().enumerate().filter(|(_, trial)| keeps(trial)).collect();
    let [_, (_, best)] = leading(&all)?;
    let is_near = |trial: &Trial| trial.ns() <= best.ns() * SAME && loses_no_more(trial, lost(best));
    least_effort(all.iter().copied().filter(|(_, trial)| is_near(trial)), None).map(|pair| pair.0)
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
    let sound = |trial: &Trial| {
        let is_sound = |own: Durability| own < must && own >= Durability::PowerCutPrefix;
        trial.kept().is_some_and(is_sound) && !trial.is_idle(tried)
    };
    let all: Vec<(usize, &Trial)> = tried.iter().enumerate().filter(|(_, tried)| sound(tried)).collect();
    let [_, (place, found)] = leading(&all)?;
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
