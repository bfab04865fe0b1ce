//! Advice: the settings that an application is to use on a device.
//!
//! 1. [`Candidate`] is a setting that is tried. [`search`] has rounds of them recorded: [`first`]
//!    gives the journal modes; [`second`] and [`third`] tune those that lead (page size,
//!    checkpoints, locking, cache); [`finalists`] are recorded several times, in paired blocks.
//!    Each round is chosen from what the one before has shown, so that a dozen recordings stand for
//!    a grid of hundreds.
//! 2. [`trials`] takes the candidates of a results file on one device, from the simulation of its
//!    recordings ([`crate::simulate`]); [`trials_here`] those that were measured on this disk.
//! 3. [`choose`] names one: the fastest of those whose promise is allowed. What a setting promises
//!    is the engine's own word ([`Durability`], read back from the run); nothing is judged again, but
//!    where explored power cuts took databases all the same ([`is_losing`]) a promise keeps nothing.
//! 4. [`sways`] asks the same of devices whose flushes and writes take half or twice as long, and
//!    of a slower processor: what the advice rests on.
//! 5. [`common`] names one setting for several devices.
//!
//! 6. [`leaders`] are those that `--live` runs on the modelled device itself, in paired blocks;
//!    [`LiveAdvice`] sets that beside what was simulated.
//!
//! The last round alone makes the numbers that are shown: who was fastest among many by luck is
//! measured once more, as often as there is time for ([`Effort`]).

mod candidate;
mod choice;
mod common;
mod effort;
mod known;
mod live;
mod logs;
mod loss;
mod rounds;
mod scatter;
mod search;
mod sway;
mod trial;
mod values;

pub use candidate::Candidate;
pub use choice::{ENOUGH, FEW, Gain, OFF_BY, choose, gain, weaker, with_same_pages};
pub use common::{Common, common};
pub use effort::{ANSWER_WITHIN, Effort, PRECISE, REPEATS};
pub use known::{is_losing, kept_on, losing_filesystem};
pub use live::{Agreement, LEADERS, LiveAdvice, LiveTrial, Verdict, leaders, meet};
pub use loss::{Loss, Writing, has_several_files};
pub use rounds::{AppUse, Finalists, finalists, first, second, third};
pub use scatter::scatter;
pub use search::{ROUNDS, Recorder, search};
pub use sway::{CPU_FACTOR, Sensitivity, sways};
pub use trial::{Trial, trials, trials_here};

use fathom_workload::spec::Durability;
use serde::Serialize;

/// The advice for one device.
#[derive(Clone, Debug, Serialize)]
pub struct DeviceAdvice {
    /// The model's name; none where it is the disk of this machine.
    pub device: Option<String>,
    /// What it is, in words.
    pub title: String,
    /// What was tried, in the order of the plan.
    pub tried: Vec<Trial>,
    /// Place in `tried` of what the application has now.
    pub baseline: Option<usize>,
    /// Place of what is advised; none where nothing keeps the promise.
    pub best: Option<usize>,
    /// How much faster than the baseline that is.
    pub gain: Option<Gain>,
    /// Place of the fastest with a weaker promise that is worth a sentence, and how much faster
    /// than the advised one it is.
    pub weaker: Option<(usize, Gain)>,
    /// Where the advised one has other pages than the baseline: place of the best that has the
    /// same, and how much faster than the baseline it is.
    pub same_pages: Option<(usize, Gain)>,
    /// What else would be best if numbers of the model, or of this machine, were others.
    pub sways: Vec<Sensitivity>,
    /// Numbers of the model that nobody has published.
    pub assumptions: Vec<String>,
}

impl DeviceAdvice {
    /// The advice from what was tried.
    #[must_use]
    pub fn of(
        device: Option<String>,
        title: String,
        tried: Vec<Trial>,
        baseline: &Candidate,
        must: Durability,
    ) -> DeviceAdvice {
        let baseline = tried.iter().position(|tried| tried.candidate == *baseline);
        let best = choose(&tried, must, baseline);
        let gain = best.zip(baseline).and_then(|(best, base)| gain(&tried[best], &tried[base]));
        let weaker = best.and_then(|best| weaker(&tried, best, must));
        let same_pages =
            best.zip(baseline).and_then(|(best, base)| with_same_pages(&tried, best, base, must));
        DeviceAdvice {
            device,
            title,
            tried,
            baseline,
            best,
            gain,
            weaker,
            same_pages,
            sways: Vec::new(),
            assumptions: Vec::new(),
        }
    }

    /// Whether the advice falls with most of the other assumptions.
    #[must_use]
    pub fn is_unsure(&self) -> bool {
        self.sways.iter().filter(|sway| sway.stands).count() * 2 < self.sways.len()
    }

    /// The advised one.
    #[must_use]
    pub fn best_trial(&self) -> Option<&Trial> {
        self.tried.get(self.best?)
    }
}

#[cfg(test)]
mod tests;
