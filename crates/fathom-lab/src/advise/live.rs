//! What was measured live of the settings that a simulation names: runs on the modelled device
//! itself, in paired blocks, beside what the application has now.

use fathom_workload::spec::Durability;
use serde::Serialize;

use super::{Candidate, DeviceAdvice, ENOUGH, Gain, Trial};
use crate::analysis::{Analysis, Clock};
use crate::experiment::Metric;
use crate::stats::Interval;
use crate::store::Results;

/// Settings that are run beside what the application has now.
pub const LEADERS: usize = 3;

/// Gains that are nearer to each other are no reason to doubt a choice.
const APART: f64 = 1.1;

/// Whether simulation and live runs say the same of a gain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Agreement {
    /// Their intervals meet, or they are within 10 % of each other.
    Agrees,
    /// Neither.
    Disagrees,
    /// There is no live run of both, too few for an interval, or one that is so wide that it holds
    /// what was simulated and that nothing is gained.
    Unknown,
}

/// What live runs of a device say of its advice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The advised setting leads live, too, by as much.
    Confirmed,
    /// It leads, but what it brings is another number.
    OtherGain,
    /// Another setting is proven to be faster live.
    OtherSetting,
    /// There is no live run of it, or what there is tells nothing ([`Agreement::Unknown`]).
    Unknown,
}

/// A setting on one device, simulated and live.
#[derive(Clone, Debug, Serialize)]
pub struct LiveTrial {
    /// The settings.
    pub candidate: Candidate,
    /// The file system.
    pub filesystem: String,
    /// Time of one transaction, simulated, ns.
    pub simulated_ns: f64,
    /// The same live, model time, ns; none where no run was made.
    pub live_ns: Option<Interval>,
    /// How many times as fast as what the application has now, simulated; none of that itself.
    pub simulated: Option<Gain>,
    /// The same live, in model time.
    pub live: Option<Gain>,
    /// The same live, in wall time.
    pub live_wall: Option<Gain>,
}

impl LiveTrial {
    /// Whether both say the same.
    #[must_use]
    pub fn agreement(&self) -> Agreement {
        match (&self.simulated, &self.live) {
            (Some(simulated), Some(live)) => agreement(simulated, live),
            _ => Agreement::Unknown,
        }
    }

    /// How many times as fast it is live as what the application has now, at the least and at the
    /// most; of that itself once. None where that is not known.
    fn live_range(&self) -> Option<[f64; 2]> {
        self.live_ns?;
        match (&self.live, &self.simulated) {
            (Some(live), _) => Some([live.low, live.high]),
            (None, None) => Some([1.0, 1.0]),
            (None, Some(_)) => None,
        }
    }
}

/// Whether two measurements of one gain agree.
fn agreement(simulated: &Gain, live: &Gain) -> Agreement {
    if live.high.is_infinite() {
        return Agreement::Unknown;
    }
    // An interval of hardly any width leaves out what is as good as the same.
    let apart = live.ratio.max(simulated.ratio) / live.ratio.min(simulated.ratio).max(1e-9);
    // It holds what was simulated, that nothing is gained, and much else.
    let is_wide = simulated.proven && !live.proven && live.high > live.low * APART.powi(2);
    match meet(simulated, live) {
        true if is_wide => Agreement::Unknown,
        false if apart > APART => Agreement::Disagrees,
        _ => Agreement::Agrees,
    }
}

/// Whether the intervals of two gains meet.
#[must_use]
pub fn meet(a: &Gain, b: &Gain) -> bool {
    a.low <= b.high && b.low <= a.high
}

/// One device.
#[derive(Clone, Debug, Serialize)]
pub struct LiveAdvice {
    /// The model's name.
    pub device: String,
    /// Runs of each setting that were asked for.
    pub runs: u32,
    /// What that says of the advice.
    pub verdict: Verdict,
    /// What the application has now first, then the advised one and those that come next.
    pub trials: Vec<LiveTrial>,
}

impl LiveAdvice {
    /// With what that says of the one at `advised`.
    #[must_use]
    pub fn judged(device: String, runs: u32, trials: Vec<LiveTrial>, advised: Option<usize>) -> LiveAdvice {
        let mut all = LiveAdvice { device, runs, verdict: Verdict::Unknown, trials };
        let Some(advised) = advised.filter(|place| *place < all.trials.len()) else { return all };
        let own = &all.trials[advised];
        all.verdict = match own.agreement() {
            _ if all.faster_than(advised).is_some() => Verdict::OtherSetting,
            // What they have now is advised, and nothing is faster, as far as enough runs tell.
            Agreement::Unknown if own.simulated.is_none() && all.is_told() => Verdict::Confirmed,
            Agreement::Unknown => Verdict::Unknown,
            Agreement::Agrees => Verdict::Confirmed,
            Agreement::Disagrees => Verdict::OtherGain,
        };
        all
    }

    /// Whether the others' gains have intervals.
    fn is_told(&self) -> bool {
        let mut gains = self.trials.iter().filter_map(|trial| trial.live).peekable();
        gains.peek().is_some() && gains.all(|gain| gain.high.is_finite())
    }

    /// From live runs of `places` ([`leaders`]) of a device that was advised on.
    #[must_use]
    pub fn of(
        advised: &DeviceAdvice,
        places: &[usize],
        results: &Results,
        analysis: &Analysis,
        phase: &str,
        runs: u32,
    ) -> LiveAdvice {
        let measure_of = |trial: &Trial| {
            let cell = results.cells.iter().find(|cell| {
                let own = cell.spec.engine.as_ref().and_then(Candidate::of);
                own.as_ref() == Some(&trial.candidate) && cell.spec.stack.place.name() == trial.filesystem
            })?;
            analysis.get(cell.id, phase, None)
        };
        let baseline = advised.baseline.map(|place| &advised.tried[place]);
        let base_measure = baseline.and_then(measure_of);
        let of_place = |place: &usize| {
            let trial = &advised.tried[*place];
            let measure = measure_of(trial);
            let is_baseline = advised.baseline == Some(*place);
            let other = base_measure.filter(|_| !is_baseline);
            let by = |clock: Clock| measure?.faster_by(other?, Metric::Rate, clock);
            // On a modelled device both have model time, but for a kernel that does not tell it.
            let clock = measure.zip(other).map_or(Clock::Wall, |(own, other)| own.common_clock(other));
            LiveTrial {
                candidate: trial.candidate.clone(),
                filesystem: trial.filesystem.clone(),
                simulated_ns: trial.ns(),
                live_ns: measure.map(|measure| time_of(&measure.rate)),
                simulated: baseline.filter(|_| !is_baseline).and_then(|base| super::gain(trial, base)),
                live: by(clock),
                live_wall: by(Clock::Wall),
            }
        };
        let device = advised.device.clone().unwrap_or_default();
        let named = places.iter().position(|place| advised.best == Some(*place));
        LiveAdvice::judged(device, runs, places.iter().map(of_place).collect(), named)
    }

    /// The place of the one that is fastest live and proven to be faster than `place`. What was not
    /// run live, or in no block with what the application has now, is neither.
    #[must_use]
    pub fn faster_than(&self, place: usize) -> Option<usize> {
        let own = self.trials.get(place)?.live_range()?;
        let others = self.trials.iter().enumerate().filter_map(|(other, trial)| {
            let [low, _] = trial.live_range().filter(|_| other != place)?;
            (low > own[1] * ENOUGH).then_some((other, low))
        });
        others.max_by(|a, b| a.1.total_cmp(&b.1)).map(|other| other.0)
    }
}

/// The time of one transaction at so many a second, ns.
fn time_of(rate: &Interval) -> Interval {
    let of = |rate: f64| 1e9 / rate;
    Interval { low: of(rate.high), mid: of(rate.mid), high: of(rate.low), ..*rate }
}

/// Places in `tried` of what is run live: what the application has now, then the advised one and
/// the fastest of the others whose promise is allowed.
#[must_use]
pub fn leaders(device: &DeviceAdvice, must: Durability) -> Vec<usize> {
    let allowed = |place: &usize| {
        let trial = &device.tried[*place];
        !trial.is_idle(&device.tried) && trial.keeps(must)
    };
    let mut others: Vec<usize> = (0..device.tried.len()).filter(allowed).collect();
    others.sort_by(|a, b| device.tried[*a].ns().total_cmp(&device.tried[*b].ns()));
    let mut places: Vec<usize> = device.best.into_iter().chain(others).collect();
    let mut seen = Vec::new();
    places.retain(|place| {
        let is_new = device.baseline != Some(*place) && !seen.contains(place);
        seen.push(*place);
        is_new
    });
    places.truncate(LEADERS);
    device.baseline.into_iter().chain(places).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gain(ratio: f64, width: f64) -> Gain {
        Gain { ratio, low: ratio - width, high: ratio + width, proven: true, n: 5 }
    }

    #[test]
    fn gains_agree_where_their_intervals_meet_or_hardly_differ() {
        for (simulated, live, said) in [
            (gain(2.0, 0.1), gain(2.15, 0.1), Agreement::Agrees),
            (gain(2.0, 0.001), gain(2.09, 0.001), Agreement::Agrees),
            // "34x [34, 35] live, 33x [32, 34] simulated: THEY DISAGREE" was said of 4.8 %.
            (gain(32.9, 0.4), gain(34.5, 0.4), Agreement::Agrees),
            (gain(20.0, 0.4), gain(22.5, 0.4), Agreement::Disagrees),
            (gain(2.0, 0.01), gain(1.6, 0.01), Agreement::Disagrees),
            (gain(1.0, 0.01), gain(1.6, 0.5), Agreement::Disagrees),
            // "They agree", and "confirmed", was said of runs that held anything.
            (gain(2.0, 0.1), Gain { proven: false, ..gain(1.4, 1.2) }, Agreement::Unknown),
            (gain(2.0, 0.1), Gain { proven: false, ..gain(1.9, 1.2) }, Agreement::Unknown),
            (gain(1.03, 0.01), Gain { proven: false, ..gain(1.02, 0.03) }, Agreement::Agrees),
            (gain(2.0, 0.01), Gain { low: 0.0, high: f64::INFINITY, ..gain(1.0, 0.0) }, Agreement::Unknown),
        ] {
            assert_eq!(agreement(&simulated, &live), said, "{simulated:?} {live:?}");
        }
    }

    #[test]
    fn what_is_proven_to_be_faster_live_is_told() {
        let trial = |live: Option<Gain>| LiveTrial {
            candidate: Candidate::default(),
            filesystem: "ext4".into(),
            simulated_ns: 1.0,
            live_ns: Some(Interval { low: 1.0, mid: 1.0, high: 1.0, n: 5, coverage: 0.95 }),
            simulated: live,
            live,
            live_wall: live,
        };
        let of = |gains: [Option<Gain>; 3]| {
            LiveAdvice::judged("d".into(), 5, gains.into_iter().map(trial).collect(), Some(1))
        };
        let found = of([None, Some(gain(2.0, 0.1)), Some(gain(3.0, 0.1))]);
        assert_eq!((found.faster_than(1), found.faster_than(2)), (Some(2), None));
        assert_eq!(found.verdict, Verdict::OtherSetting);
        let led = of([None, Some(gain(3.0, 0.1)), Some(gain(2.0, 0.1))]);
        assert_eq!(led.verdict, Verdict::Confirmed);
        // What they have now is the fastest.
        assert_eq!(of([None, Some(gain(0.5, 0.1)), Some(gain(0.6, 0.2))]).faster_than(1), Some(0));
        assert_eq!(of([None, Some(gain(2.0, 0.1)), Some(gain(2.1, 0.1))]).faster_than(1), None);
        // What is advised failed live, and "another setting is faster than it" was said.
        let failed = LiveTrial { live_ns: None, live: None, ..trial(Some(gain(3.0, 0.1))) };
        let others = [trial(None), failed, trial(Some(gain(2.0, 0.1)))];
        let unmeasured = LiveAdvice::judged("d".into(), 5, others.into(), Some(1));
        assert_eq!((unmeasured.faster_than(1), unmeasured.verdict), (None, Verdict::Unknown));
        // One run of each proves nothing, and what they have now was "confirmed" by it.
        let kept = |other: Gain| {
            let gains = [None, Some(other)];
            LiveAdvice::judged("d".into(), 1, gains.into_iter().map(trial).collect(), Some(0)).verdict
        };
        let bare = Gain { low: 0.0, high: f64::INFINITY, proven: false, ..gain(0.9, 0.0) };
        assert_eq!(kept(bare), Verdict::Unknown);
        assert_eq!(kept(gain(0.9, 0.01)), Verdict::Confirmed);
    }
}
