//! What an answer tells of its settings besides how fast they are: where they hold, what a power
//! cut may take, how long the longest waits are, and what the trace is too short for.

use fathom_lab::advise::{DeviceAdvice, FEW, Loss, OFF_BY, Trial, kept_on};
use fathom_lab::stats::Interval;
use fathom_workload::spec::Durability;

use super::{Advice, Group, has_interval, place};
use crate::number;
use crate::words::{but, durability_text};

/// So many are enough for most.
const MANY: u64 = 200;

/// Fewer runs prove nothing, as of a gain.
const PROVING: usize = 3;

/// Waits that are so many times as long are told.
const LONGER: f64 = 1.5;

impl Advice {
    /// The file systems that it was asked for, as a sentence; none where it is a directory of this
    /// machine.
    pub(super) fn filesystems_told(&self) -> String {
        let mut names: Vec<&str> = Vec::new();
        for trial in self.devices.iter().flat_map(|device| &device.tried) {
            let name = trial.filesystem.as_str();
            if name != "dir" && !names.contains(&name) {
                names.push(name);
            }
        }
        match names.as_slice() {
            [] => String::new(),
            [one] => format!(" File system: {one}."),
            all => format!(" File systems: {}.", all.join(", ")),
        }
    }

    /// What a power cut may take with a setting, as the end of a sentence; nothing where it takes
    /// the last commit at the most.
    pub(super) fn loss_told(&self, trial: &Trial) -> String {
        let Some(loss) = trial.loss else { return String::new() };
        let count = |commits: u64| number::plain(commits as f64);
        let up_to = if loss.is_least { "at least" } else { "up to" };
        let text = match trial.writing.filter(|_| loss.is_all) {
            Some(all) if loss.commits > all => {
                format!(
                    "all {} commits of the trace, {up_to} {} of a longer one",
                    count(all),
                    count(loss.commits)
                )
            }
            Some(all) => format!("all {} commits of the trace, and of a longer one, too", count(all)),
            None => format!("{up_to} {} commits", count(loss.commits)),
        };
        let pace = self.pace_s.map(|of_one| of_one * loss.commits as f64);
        let pace = pace.map_or_else(String::new, |all| {
            format!(" ({} at the trace's own pace)", number::time(all * 1e9))
        });
        let several = match loss.is_least {
            true => ", for the application has several databases, and a checkpoint of one is taken for all",
            false => "",
        };
        format!(": {text}{pace}{several}")
    }

    /// What a power cut does to a transaction over several files, as the end of a sentence.
    pub(super) fn apart(&self, trial: &Trial) -> &'static str {
        match self.keeps_apart(trial) {
            true => "; but one over several files may be left in some of them and not in the others",
            false => "",
        }
    }

    /// The promise of a setting as tables have it.
    pub(super) fn keeps_told(&self, trial: &Trial) -> String {
        let apart = if self.keeps_apart(trial) { ", of each file by itself" } else { "" };
        format!("{}{apart}", durability_text(trial.durability))
    }

    fn keeps_apart(&self, trial: &Trial) -> bool {
        self.over_files && trial.candidate.journal_mode == "wal"
    }

    /// Whether anything that is named may lose more than the last commit.
    pub(super) fn has_losses(&self) -> bool {
        self.devices.iter().filter_map(DeviceAdvice::best_trial).any(|named| named.loss.is_some())
    }

    /// File systems that are known to break what settings promise, and what is named there.
    pub(super) fn broken_by_file_systems(&self) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        for trial in self.devices.iter().flat_map(|device| &device.tried) {
            let Some(kept) = kept_on(&trial.filesystem) else { continue };
            let text = format!(
                "On {} no journal mode{} is named: explored power cuts left databases that cannot be opened with the \
                 others, whatever these promise, or a file system that cannot be mounted (docs/power-cut.md); --cut tries \
                 it with this trace.",
                trial.filesystem,
                but(kept)
            );
            if !all.contains(&text) {
                all.push(text);
            }
        }
        all
    }

    /// Where waits are longer with what is advised.
    pub(super) fn waits(&self) -> Vec<String> {
        let of_device = |device: &DeviceAdvice| {
            let best = device.best?;
            let own = device.tried[best].p99_ns?;
            let keeps = |other: &Trial| other.keeps(self.must);
            let others = || device.tried.iter().enumerate().filter(|(other, _)| *other != best);
            let next = others()
                .filter(|(_, other)| keeps(other) && !other.is_idle(&device.tried))
                .min_by(|a, b| a.1.ns().total_cmp(&b.1.ns()));
            let now = others().find(|(other, _)| device.baseline == Some(*other));
            let shorter = now.into_iter().chain(next).find_map(|(number, other)| {
                let p99 = other.p99_ns.filter(|p99| own.mid > p99.mid * LONGER)?;
                let is_now = if device.baseline == Some(number) { " (now)" } else { "" };
                let is_proven = p99.n.min(own.n) >= PROVING && p99.high < own.low;
                let unproven = if is_proven { "" } else { ", not proven" };
                Some(format!("{} with {}{is_now}{unproven}", time_told(&p99), self.name(other)))
            })?;
            Some(format!("Longer waits on {} (p99): {} against {shorter}.", place(device), time_told(&own)))
        };
        self.devices.iter().filter_map(of_device).collect()
    }

    /// Where the trace says little.
    pub(super) fn too_short(&self) -> Option<String> {
        let writing = self.transactions()?.0;
        (writing < FEW).then(|| {
            format!(
                "The trace is short for advice: {writing} of its transactions write, so which of two near settings is named may \
                 be chance. {MANY} that write are enough for most: use the application for longer, and ask again."
            )
        })
    }

    /// Gains that are no more than a simulation may be off by, where live runs do not tell them.
    pub(super) fn within_error(&self) -> Vec<String> {
        let is_little = |device: &&DeviceAdvice| {
            let is_simulated = device.device.is_some() && !self.is_gain_told_live(device);
            let gain = device.gain.filter(|_| is_simulated && device.best != device.baseline);
            gain.is_some_and(|gain| (1.0..OFF_BY).contains(&gain.ratio))
        };
        let of_group = |group: Group<'_>| {
            let devices: Vec<&DeviceAdvice> = group.devices.into_iter().filter(is_little).collect();
            let has_other_pages = group.named.candidate.page_size != self.baseline.page_size;
            let vacuum = if has_other_pages { ", and other pages take a VACUUM" } else { "" };
            (!devices.is_empty()).then(|| {
                format!(
                    "What {} brings on {} is less than the {:.0} % by which a simulation may be off{vacuum}: \
                     `fathom advise TRACE --live` measures it.",
                    self.name(group.named),
                    self.places(&devices),
                    (OFF_BY - 1.0) * 100.0
                )
            })
        };
        self.groups().into_iter().filter_map(of_group).collect()
    }

    /// Where gains are of too few runs for an interval.
    pub(super) fn without_interval(&self) -> Option<String> {
        let is_told = |device: &&DeviceAdvice| device.best != device.baseline;
        let gains = self.devices.iter().filter(is_told).flat_map(|device| {
            let others = [device.weaker, device.same_pages].into_iter().flatten().map(|other| other.1);
            device.gain.into_iter().chain(others)
        });
        let mut bare = gains.filter(|gain| !has_interval(gain));
        bare.next().map(|_| {
            "A gain without [brackets] has too few runs for an interval, which takes three of each setting: how near it is to the \
             truth is not known."
                .to_owned()
        })
    }

    /// Transactions that write, and all.
    pub(super) fn transactions(&self) -> Option<(u64, u64)> {
        self.devices
            .iter()
            .flat_map(|device| &device.tried)
            .find_map(|trial| Some((trial.writing?, trial.count)))
    }
}

/// A time with its interval, where it has one.
fn time_told(value: &Interval) -> String {
    let time = number::time(value.mid);
    if value.n < 2 { time } else { format!("{time} {}", number::time_interval_of(value)) }
}

/// Whether the advice stands, for a table.
pub(super) fn stands(device: &DeviceAdvice) -> String {
    let falls: Vec<&str> =
        device.sways.iter().filter(|sway| !sway.stands).map(|sway| sway.what.as_str()).collect();
    match falls.as_slice() {
        _ if device.sways.is_empty() => "not asked".to_owned(),
        [] => "yes".to_owned(),
        all if device.is_unsure() => format!("unsure: not with {}", all.join(", ")),
        all => format!("not with {}", all.join(", ")),
    }
}

/// The interval of a setting's transactions per second.
pub(super) fn rate_interval(trial: &Trial) -> String {
    let Interval { low, high, .. } = trial.time_ns;
    match trial.time_ns.n {
        0 | 1 => number::ONE_RUN.to_owned(),
        _ => number::interval(1e9 / high, 1e9 / low),
    }
}

/// What a power cut may take, for a table.
pub(super) fn loss_short(trial: &Trial) -> String {
    let count = |commits: u64| number::plain(commits as f64);
    match (trial.loss, trial.kept()) {
        (Some(Loss { commits, is_all: true, is_least: false }), _) => {
            format!("all, {} at most", count(commits))
        }
        (Some(Loss { commits, is_all: true, .. }), _) => format!("all, {} or more", count(commits)),
        (Some(Loss { commits, is_least: true, .. }), _) => format!("{} or more commits", count(commits)),
        (Some(Loss { commits, .. }), _) => format!("{} commits", count(commits)),
        (None, Some(Durability::PowerCutPrefix)) if trial.is_apart => "1 commit, in part".to_owned(),
        (None, Some(Durability::PowerCut)) => "none".to_owned(),
        (None, Some(Durability::PowerCutAllButLast)) => "1 commit".to_owned(),
        _ => "not known".to_owned(),
    }
}
