//! What was measured beside the simulation: live runs, and power cuts.

use fathom_cut::{Outcome, allowed};
use fathom_lab::advise::{Agreement, Candidate, DeviceAdvice, Gain, LiveAdvice, LiveTrial, meet};
use fathom_lab::store::CutFinding;
use serde::{Serialize, Serializer};

use super::{Advice, times};
use crate::number;
use crate::power_cut::worst;
use crate::words::durability_text;

/// What power cuts left of the application with some settings.
#[derive(Clone, Debug, Serialize)]
pub struct MeasuredCut {
    /// The settings.
    pub candidate: Candidate,
    /// The file system that was asked for.
    pub filesystem: String,
    /// What was found, or why nothing could be tried.
    #[serde(serialize_with = "found_or_problem")]
    pub finding: Result<CutFinding, String>,
}

fn found_or_problem<S: Serializer>(
    finding: &Result<CutFinding, String>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match finding {
        Ok(found) => found.serialize(serializer),
        Err(problem) => serde_json::json!({ "problem": problem }).serialize(serializer),
    }
}

impl MeasuredCut {
    /// The outcome, if it takes more than the settings promise.
    fn broken(&self) -> Option<(&CutFinding, &Outcome)> {
        let found = self.finding.as_ref().ok()?;
        found.outcome.breaks_promise.then_some((found, &found.outcome))
    }

    /// Whether any of its states was judged.
    fn is_tried(&self) -> bool {
        self.finding.as_ref().is_ok_and(|found| found.outcome.tally.states > 0)
    }

    fn sentence(&self) -> String {
        let name = self.candidate.name();
        let found = match &self.finding {
            Ok(found) if found.outcome.tally.states > 0 => found,
            Ok(_) => return format!("{name}: no state was judged in the time that there was."),
            Err(problem) => {
                return format!(
                    "{name}: could not be tried, so what stands above is the promise: {problem}."
                );
            }
        };
        let outcome = &found.outcome;
        let states = outcome.tally.states;
        let of = match outcome.states_possible as u64 {
            _ if outcome.judged_all() => format!("all {} states", number::plain(states as f64)),
            all if all == states => format!("{} chosen states", number::plain(states as f64)),
            all => format!("{} of {} states", number::plain(states as f64), number::plain(all as f64)),
        };
        let lost = match outcome.tally.worse_than(allowed(found.promise)) {
            0 => "none of them breaks the promise".to_owned(),
            broken => format!("{} of them break the promise (!)", number::plain(broken as f64)),
        };
        format!(
            "{name}: in {of} after {} commits on {}, on a device that {}, the worst is: {}; {lost}.",
            number::plain(outcome.acknowledged as f64),
            found.filesystem,
            found.device,
            worst(outcome)
        )
    }
}

/// `4.8 % faster`, of one gain beside another.
fn apart(live: &Gain, simulated: &Gain) -> String {
    let ratio = live.ratio / simulated.ratio.max(1e-9);
    let (share, word) = if ratio < 1.0 { (1.0 - ratio, "slower") } else { (ratio - 1.0, "faster") };
    let places = usize::from(share < 0.1);
    format!("{:.places$} % {word}", share * 100.0)
}

/// Two gains with as many digits as tell them apart, where their intervals do not meet.
fn told_apart(live: &Gain, simulated: &Gain) -> [String; 2] {
    let is_told = live.high.is_finite() && simulated.high.is_finite() && !meet(live, simulated);
    let with = |gain: &Gain, places: usize| {
        format!("{:.places$}x [{:.places$}, {:.places$}]", gain.ratio, gain.low, gain.high)
    };
    let (upper, lower) = if live.low > simulated.high { (live, simulated) } else { (simulated, live) };
    let usual = if lower.ratio < 1.2 { 2 } else { usize::from(lower.ratio < 10.0) };
    let shows = |places: usize| format!("{:.places$}", lower.high) != format!("{:.places$}", upper.low);
    match (usual..usual + 3).find(|places| shows(*places)).filter(|_| is_told) {
        Some(places) if places > usual => [with(live, places), with(simulated, places)],
        _ => [times(live), times(simulated)],
    }
}

impl Advice {
    /// Where what was measured speaks against what is advised, each in a sentence.
    pub(super) fn contradictions(&self) -> Vec<String> {
        let mut all = Vec::new();
        let for_all = self.for_all();
        for cut in &self.cuts {
            let of_devices = self.devices.iter().filter_map(|device| device.best_trial());
            let named = of_devices.map(|named| (&named.candidate, &named.filesystem));
            let of_all = for_all.as_ref().map(|found| (&found.candidate, &found.filesystem));
            let is_named = named.chain(of_all).any(|named| named == (&cut.candidate, &cut.filesystem));
            if let (true, Some((found, outcome))) = (is_named, cut.broken()) {
                all.push(format!(
                    "But {} takes more at a measured power cut than it promises ({}): {}.",
                    cut.candidate.name(),
                    durability_text(Some(found.promise)),
                    worst(outcome)
                ));
            }
        }
        for live in &self.live {
            let Some(advised) = self.advised_place(live) else { continue };
            let name = |place: usize| {
                let trial = &live.trials[place];
                self.name_on(&trial.candidate, &trial.filesystem)
            };
            if let Some(faster) = live.faster_than(advised) {
                all.push(format!(
                    "But live runs on {} disagree: there {} is faster than {}. Go by the live runs.",
                    live.device,
                    name(faster),
                    name(advised)
                ));
            } else if live.trials[advised].agreement() == Agreement::Disagrees {
                all.push(format!(
                    "But live runs on {} disagree on how much {} brings (\"Live, beside what was simulated\"). Go by \
                     the live runs.",
                    live.device,
                    name(advised)
                ));
            }
        }
        all
    }

    /// Place in the live trials of what is advised for that device.
    fn advised_place(&self, live: &LiveAdvice) -> Option<usize> {
        let device =
            self.devices.iter().find(|device| device.device.as_deref() == Some(live.device.as_str()))?;
        let named = device.best_trial()?;
        let is_named =
            |trial: &LiveTrial| trial.candidate == named.candidate && trial.filesystem == named.filesystem;
        live.trials.iter().position(is_named)
    }

    /// Whether live runs were made on that device.
    pub(super) fn has_live_runs(&self, device: &DeviceAdvice) -> bool {
        self.live.iter().any(|live| device.device.as_deref() == Some(live.device.as_str()))
    }

    /// Whether live runs tell how much the advised setting brings there: stopped before its end,
    /// `--live` has made none on some devices, and a few may tell nothing.
    pub(super) fn is_gain_told_live(&self, device: &DeviceAdvice) -> bool {
        let of_device = |live: &&LiveAdvice| device.device.as_deref() == Some(live.device.as_str());
        let live = self.live.iter().find(of_device);
        let advised = live.and_then(|live| live.trials.get(self.advised_place(live)?));
        advised.is_some_and(|trial| trial.agreement() != Agreement::Unknown)
    }

    /// Live gains beside simulated ones, each in a sentence.
    pub(super) fn live_told(&self) -> Vec<String> {
        let mut all = Vec::new();
        for live in &self.live {
            let now = self.now();
            for trial in &live.trials {
                let name = trial.candidate.name();
                let place = format!("{}, {}", live.device, trial.filesystem);
                let took = trial.live_ns.map(|live_ns| {
                    let intervals = number::time_interval_of(&live_ns);
                    format!(
                        "{} {intervals} live, {} simulated",
                        number::time(live_ns.mid),
                        number::time(trial.simulated_ns)
                    )
                });
                let Some(took) = took else {
                    all.push(format!("{place}: {name} was not run live."));
                    continue;
                };
                let (Some(live_gain), Some(simulated)) = (trial.live, trial.simulated) else {
                    // Without a run of what they have now there is nothing to compare it with.
                    let is_now = if trial.simulated.is_none() { " (now)" } else { "" };
                    all.push(format!("{place}: {name}{is_now}: one transaction takes {took}."));
                    continue;
                };
                let apart = apart(&live_gain, &simulated);
                let says = match trial.agreement() {
                    Agreement::Unknown => {
                        "too few runs, or too much scatter, to tell whether they agree".to_owned()
                    }
                    _ if meet(&live_gain, &simulated) => "they agree".to_owned(),
                    Agreement::Agrees => format!("live is {apart} than simulated, too little to matter"),
                    Agreement::Disagrees => format!("they disagree, live is {apart} than simulated"),
                };
                let [told_live, told_simulated] = told_apart(&live_gain, &simulated);
                let wall = trial
                    .live_wall
                    .map_or_else(String::new, |wall| format!(" (in wall time {})", times(&wall)));
                all.push(format!(
                    "{place}: {name} is {told_live} as fast as {now} live{wall}, {told_simulated} simulated: {says}. One \
                     transaction takes {took}."
                ));
            }
            all.push(format!(
                "{}: {} paired blocks, one run of each setting in each, in seeded order; gains are of model time.",
                live.device, live.runs
            ));
        }
        all
    }

    /// Why power cuts that were asked for let the command fail, as `fathom cut` does of the same
    /// settings: one takes more than some promise, the application's own too, or some could not be
    /// tried. None where neither is so.
    #[must_use]
    pub fn cut_problem(&self) -> Option<String> {
        let names = |is_meant: fn(&MeasuredCut) -> bool| {
            let mut names: Vec<String> = Vec::new();
            for name in self.cuts.iter().filter(|cut| is_meant(cut)).map(|cut| cut.candidate.name()) {
                // On another file system they have the same name.
                if !names.contains(&name) {
                    names.push(name);
                }
            }
            (!names.is_empty()).then(|| names.join(" and "))
        };
        if let Some(names) = names(|cut| cut.broken().is_some()) {
            return Some(format!("a power cut takes more than the settings promise (!): {names}"));
        }
        names(|cut| !cut.is_tried()).map(|names| format!("the power cuts of {names} could not be tried"))
    }

    /// What power cuts left, each setting in a sentence.
    pub(super) fn cuts_told(&self) -> Vec<String> {
        self.cuts.iter().map(MeasuredCut::sentence).collect()
    }
}
