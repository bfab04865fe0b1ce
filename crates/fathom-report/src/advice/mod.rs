//! The advice of `fathom advise`, as text, JSON and a page.

mod common;
mod facts;
mod html;
mod measured;
mod terminal;

pub use measured::MeasuredCut;

use fathom_lab::advise::{Candidate, DeviceAdvice, ENOUGH, Gain, LiveAdvice, Trial};
use fathom_lab::analysis;
use fathom_workload::spec::Durability;
use serde::Serialize;

use crate::caution::sentence;
use crate::number;
use crate::ranking::keeps;
use crate::words::joined;

/// Devices that are named in a sentence; more are counted.
const NAMED: usize = 4;

/// What an application is advised, ready to be shown.
#[derive(Debug, Serialize)]
pub struct Advice {
    /// The application's name: its trace's.
    pub title: String,
    /// What a power cut must keep.
    pub must: Durability,
    /// Whether a transaction may be over several files, which WAL does not keep together.
    pub over_files: bool,
    /// What it has now.
    pub baseline: Candidate,
    /// Where that is known from, as the end of a sentence.
    pub baseline_source: String,
    /// Seconds from one writing transaction to the next, as the trace has them; none where its
    /// times are not an application's.
    pub pace_s: Option<f64>,
    /// For each device.
    pub devices: Vec<DeviceAdvice>,
    /// What it might do besides.
    pub hints: Vec<String>,
    /// What must be known of the numbers.
    pub notes: Vec<String>,
    /// What was asked for and could not be answered, and what would bring it.
    pub missing: Vec<String>,
    /// Where not all that a search would try was compared: what was, and what was not.
    pub partial: Option<String>,
    /// What was run live, by device; empty where nobody asked.
    pub live: Vec<LiveAdvice>,
    /// What power cuts left with what is named, and with what the application has; empty where
    /// nobody asked.
    pub cuts: Vec<MeasuredCut>,
    /// The command that gives it again.
    pub command: String,
}

/// Whether that is no gain that matters, and no loss that does.
fn brings_little(gain: &Gain) -> bool {
    gain.high < ENOUGH && gain.ratio > 1.0 / ENOUGH
}

/// Devices with the same advice.
struct Group<'a> {
    named: &'a Trial,
    devices: Vec<&'a DeviceAdvice>,
}

impl Advice {
    /// Everything, as a value to be written as JSON.
    #[must_use]
    pub fn json(&self) -> impl Serialize {
        let of = |tried: &Trial| tried.candidate.pragmas();
        let named: Vec<_> = self
            .devices
            .iter()
            .map(|device| {
                serde_json::json!({
                    "device": device.device,
                    "advised": device.best_trial().map(|named| named.candidate.key()),
                    "filesystem": device.best_trial().map(|named| &named.filesystem),
                    "keeps": device.best_trial().and_then(|named| named.durability),
                    "pragmas": device.best_trial().map(of),
                    "times_as_fast": device.gain,
                    "may_lose": device.best_trial().and_then(|named| named.loss),
                    "flushes_of_writing": device.best_trial().map(|named| named.of_writing(named.flushes)),
                    "written_of_writing":
                        device.best_trial().map(|named| named.of_writing(named.written_bytes)),
                })
            })
            .collect();
        serde_json::json!({ "advised": named, "one_setting": self.for_all_json(), "advice": self })
    }

    /// Whether several file systems were tried, so that each is said.
    fn has_filesystems(&self) -> bool {
        let mut all = self.devices.iter().flat_map(|device| &device.tried).map(|tried| &tried.filesystem);
        all.next().is_some_and(|first| all.any(|value| value != first))
    }

    fn name(&self, tried: &Trial) -> String {
        self.name_on(&tried.candidate, &tried.filesystem)
    }

    /// A setting, with its file system where several were tried.
    fn name_on(&self, candidate: &Candidate, filesystem: &str) -> String {
        let name = candidate.name();
        if self.has_filesystems() { format!("{name} on {filesystem}") } else { name }
    }

    /// What the application has now, as [`Advice::name`].
    fn now(&self) -> String {
        let of_devices = self.devices.iter().find_map(|device| device.tried.get(device.baseline?));
        of_devices.map_or_else(|| self.baseline.name(), |trial| self.name(trial))
    }

    /// The same advice once, that of most devices first.
    fn groups(&self) -> Vec<Group<'_>> {
        let mut groups: Vec<Group<'_>> = Vec::new();
        for device in &self.devices {
            let Some(named) = device.best_trial() else { continue };
            let is_same = |group: &&mut Group<'_>| {
                group.named.candidate == named.candidate && group.named.filesystem == named.filesystem
            };
            match groups.iter_mut().find(is_same) {
                Some(group) => group.devices.push(device),
                None => groups.push(Group { named, devices: vec![device] }),
            }
        }
        groups.sort_by_key(|group| std::cmp::Reverse(group.devices.len()));
        groups
    }

    /// `sd-slow and emmc-51`, `all 12 devices`, `7 devices`.
    fn places(&self, devices: &[&DeviceAdvice]) -> String {
        let names: Vec<String> = devices.iter().map(|device| place(device).to_owned()).collect();
        match names.len() {
            1..=NAMED => joined(&names),
            all if all == self.devices.len() => format!("all {all} devices"),
            some => format!("{some} devices ({}, …)", names[..2].join(", ")),
        }
    }

    /// The advice in sentences: one for each setting that is named.
    fn findings(&self) -> Vec<String> {
        let mut all = Vec::from_iter(self.for_all_told());
        for group in self.groups() {
            let on = self.places(&group.devices);
            // What is best of a few is not the best.
            let on = match &self.partial {
                Some(_) => format!("{on}, of what was recorded,"),
                None => on,
            };
            let is_kept = group.devices.iter().all(|device| device.best == device.baseline);
            let mut gains: Vec<_> = group.devices.iter().filter_map(|device| device.gain).collect();
            gains.sort_by(|a, b| a.ratio.total_cmp(&b.ratio));
            let faster = match gains.as_slice() {
                [one] => times(one),
                [least, .., most] => format!("{} to {}", times(least), times(most)),
                [] => String::new(),
            };
            let name = self.name(group.named);
            all.push(if is_kept {
                format!(
                    "On {on} keep {name}: nothing that was tried is proven to be worth a change and keeps as much."
                )
            } else if faster.is_empty() && self.partial.is_none() {
                format!(
                    "On {on} use {name}. How that compares with {}, which the application has now, is not known: \"To be known\" \
                     says why.",
                    self.now()
                )
            } else if faster.is_empty() {
                format!("On {on} use {name}.")
            } else {
                let unproven = unproven(&gains);
                let now = group.devices.first().and_then(|device| device.tried.get(device.baseline?));
                let breaks = now.is_some_and(|trial| !trial.keeps(self.must));
                let why = if breaks { ", which does not keep what must be kept" } else { "" };
                format!("On {on} use {name}: {faster} as fast as {}{why}{unproven}.", self.now())
            });
        }
        all.extend(self.contradictions());
        all.extend(self.broken_by_file_systems());
        all.extend(self.within_error());
        all.extend(self.too_short());
        all.extend(self.without_interval());
        all.extend(self.without_vacuum());
        let unsure: Vec<&DeviceAdvice> = self.devices.iter().filter(|device| device.is_unsure()).collect();
        if !unsure.is_empty() {
            all.push(format!(
                "Unsure on {}: with most of the other assumptions something else is best (\"What it rests on\"). A model of the device \
                 itself decides: `fathom stack calibrate DIRECTORY --out mine.toml`, then `--device ./mine.toml`.",
                self.places(&unsure)
            ));
        }
        let none: Vec<&DeviceAdvice> = self.devices.iter().filter(|device| device.best.is_none()).collect();
        if !none.is_empty() {
            all.push(format!(
                "On {} nothing that was tried keeps what a power cut must not take ({}).",
                self.places(&none),
                lower(keeps(Some(self.must)).0)
            ));
        }
        all
    }

    /// Where other pages are named: what can be had without them.
    fn without_vacuum(&self) -> Vec<String> {
        let all = gathered(self.devices.iter().filter_map(|device| {
            let (place, gain) = device.same_pages?;
            Some((self.name(&device.tried[place]), (gain, device)))
        }));
        let is_now = |device: &DeviceAdvice| {
            device.baseline.is_some() && device.same_pages.map(|other| other.0) == device.baseline
        };
        let of_setting = |(name, mut gains): (String, Vec<(Gain, &DeviceAdvice)>)| {
            gains.sort_by(|a, b| a.0.ratio.total_cmp(&b.0.ratio));
            let devices: Vec<&DeviceAdvice> = gains.iter().map(|gain| gain.1).collect();
            let mut is_gain = true;
            let faster = match gains.as_slice() {
                all if all.iter().all(|gain| is_now(gain.1)) => {
                    is_gain = false;
                    "nothing that was tried is worth a change".to_owned()
                }
                all if all.iter().all(|gain| brings_little(&gain.0)) => {
                    is_gain = false;
                    format!("{name} brings less than 5 %")
                }
                [one] => format!("{name} is {} as fast", times(&one.0)),
                [least, .., most] => format!("{name} is {} to {} as fast", times(&least.0), times(&most.0)),
                [] => String::new(),
            };
            let of_all: Vec<Gain> = gains.iter().map(|gain| gain.0).collect();
            format!(
                "Without changing the page size, which takes a VACUUM of a database that exists: {faster} on {}{}.",
                self.places(&devices),
                if is_gain { unproven(&of_all) } else { "" }
            )
        };
        all.into_iter().map(of_setting).collect()
    }

    /// What the setting is that is named: of a few, not the best that there is.
    fn leader(&self) -> &'static str {
        if self.partial.is_some() { "fastest of these" } else { "best" }
    }

    /// What the columns of the table mean.
    fn columns(&self) -> String {
        let what = match self.devices.iter().any(|device| device.device.is_some()) {
            true => "flushes and written",
            false => "flushes (calls of fsync) and written",
        };
        let best = self.leader();
        let stands = match self.devices.iter().any(|device| !device.sways.is_empty()) {
            true => format!(
                "; stands: whether it is within 5 % of the {best} still with five other assumptions (\"What it rests on\")"
            ),
            false => String::new(),
        };
        let (of, each) = match self.transactions() {
            Some((writing, all)) => {
                (format!(", of which {writing} of {all} write"), "transaction that writes")
            }
            None => (String::new(), "transaction"),
        };
        let lost = match self.has_losses() {
            true => {
                "; may lose: commits that a power cut may take, by the longest run of them without a sync"
            }
            false => "",
        };
        format!(
            "per second: transactions{of}; p99: the time within which 99 of 100 transactions are done, over the runs; {what}: of one \
             {each}{lost}{stands}."
        )
    }

    /// What the advice promises, what that is worth, and what less would bring.
    fn promises(&self) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        let for_all = self.for_all();
        let first = for_all.and_then(|found| self.devices.first()?.tried.get(found.of_each.first()?.0));
        for named in first.into_iter().chain(self.groups().iter().map(|group| group.named)) {
            let lost = self.loss_told(named);
            let apart = self.apart(named);
            let text = format!("{}: {}{lost}{apart}.", self.name(named), lower(keeps(named.durability).0));
            if !all.contains(&text) {
                all.push(text);
            }
        }
        let mut weaker: Vec<(String, String, Vec<_>)> = Vec::new();
        for device in &self.devices {
            let Some((place, gain)) = device.weaker else { continue };
            let other = &device.tried[place];
            match weaker.iter_mut().find(|pair| pair.0 == self.name(other)) {
                Some(known) => known.2.push((gain, device)),
                None => {
                    let keeps = lower(keeps(other.durability).0) + &self.loss_told(other) + self.apart(other);
                    weaker.push((self.name(other), keeps, vec![(gain, device)]));
                }
            }
        }
        for (name, keeps, mut gains) in weaker {
            gains.sort_by(|a, b| a.0.ratio.total_cmp(&b.0.ratio));
            let devices: Vec<&DeviceAdvice> = gains.iter().map(|gain| gain.1).collect();
            let faster = match gains.as_slice() {
                [one] => times(&one.0),
                [least, .., most] => format!("{} to {}", times(&least.0), times(&most.0)),
                [] => continue,
            };
            let of_all: Vec<Gain> = gains.iter().map(|gain| gain.0).collect();
            all.push(format!(
                "{name} would be {faster} as fast as that on {}{}, but then: {}.",
                self.places(&devices),
                unproven(&of_all),
                keeps
            ));
        }
        all
    }

    /// Bytes and flushes of a transaction that writes, now and as advised: what wears a card.
    fn lifetime(&self) -> Vec<String> {
        let of_group = |group: Group<'_>| {
            let device = group.devices.first()?;
            let base = device.baseline.map(|place| &device.tried[place]);
            let written = |trial: &Trial| number::bytes(trial.of_writing(trial.written_bytes));
            let (bytes, flushes) = (written(group.named), group.named.of_writing(group.named.flushes));
            let what = if device.device.is_some() { "flushes" } else { "calls of fsync" };
            let named = group.named;
            let is_other =
                |base: &&Trial| base.candidate != named.candidate || base.filesystem != named.filesystem;
            let now = base.filter(is_other).map(|base| {
                format!("; {}: {} and {:.2}", self.name(base), written(base), base.of_writing(base.flushes))
            });
            let each = group.named.writing.map_or("transaction", |_| "transaction that writes");
            Some(format!(
                "{}: {bytes} written and {flushes:.2} {what} a {each}{}.",
                self.name(group.named),
                now.unwrap_or_default()
            ))
        };
        self.groups().into_iter().filter_map(of_group).collect()
    }

    /// What the advice rests on: whether it stands where numbers are others.
    fn rests_on(&self) -> Vec<String> {
        let mut all = Vec::new();
        let tested: Vec<&DeviceAdvice> =
            self.devices.iter().filter(|device| !device.sways.is_empty()).collect();
        if tested.is_empty() {
            return all;
        }
        let (stand, fall): (Vec<&DeviceAdvice>, Vec<&DeviceAdvice>) =
            tested.iter().partition(|device| device.sways.iter().all(|sway| sway.stands));
        if !stand.is_empty() {
            let what: Vec<String> = stand[0].sways.iter().map(|sway| sway.what.clone()).collect();
            // Nothing else is recorded for them: what only they would make lead is not among these.
            let of = match self.partial {
                Some(_) => "fastest of these",
                None => "best of what was recorded last",
            };
            all.push(format!(
                "On {} the advice stays within 5 % of the {of} with {}.",
                self.places(&stand),
                what.join(", ")
            ));
        }
        for device in fall {
            for sway in device.sways.iter().filter(|sway| !sway.stands) {
                all.push(format!(
                    "On {} with {}, {} would be best: {:.2} times as fast as the advised one.",
                    place(device),
                    sway.what,
                    self.name(&device.tried[sway.best]),
                    sway.behind
                ));
            }
        }
        all.push(
            "What other flushes and writes would change is of one run of each setting, without an interval: near those 5 % it may be \
             either way."
                .to_owned(),
        );
        // Of many devices a line for all that assume the same.
        let with_some = tested.iter().filter(|device| !device.assumptions.is_empty());
        let assumed = gathered(with_some.map(|device| {
            let of_device = device.assumptions.iter().map(|assumption| assumption.trim_end_matches('.'));
            (of_device.collect::<Vec<_>>().join("; "), place(device).to_owned())
        }));
        if assumed.len() > NAMED {
            let short =
                |(text, devices): &(String, Vec<String>)| format!("{}: {}", joined(devices), abridged(text));
            all.push(format!(
                "Assumed, for nobody has published it (whole: `fathom list --show DEVICE`). {}.",
                assumed.iter().map(short).collect::<Vec<_>>().join(". ")
            ));
        } else {
            all.extend(assumed.iter().map(|(text, devices)| {
                format!("Assumed of {}, for nobody has published it: {text}.", joined(devices))
            }));
        }
        all
    }

    /// The statements to paste for each setting that is named: devices, and the lines.
    fn to_paste(&self) -> Vec<(String, Vec<String>)> {
        let filesystems = self.has_filesystems();
        let of_group = |group: Group<'_>| {
            let mut lines = Vec::new();
            if filesystems {
                lines.push(on_filesystem(&group.named.filesystem));
            }
            lines.extend(self.lines_of(&group.named.candidate));
            (self.places(&group.devices), lines)
        };
        self.groups().into_iter().map(of_group).collect()
    }

    /// The statements of the one setting for all devices.
    fn to_paste_for_all(&self) -> Option<Vec<String>> {
        let found = self.for_all()?;
        let mut lines = Vec::new();
        if self.has_filesystems() {
            lines.push(on_filesystem(&found.filesystem));
        }
        lines.extend(self.lines_of(&found.candidate));
        Some(lines)
    }

    fn lines_of(&self, candidate: &Candidate) -> Vec<String> {
        match self.over_files {
            true => candidate.to_paste_with_attached(&self.baseline),
            false => candidate.to_paste(&self.baseline),
        }
    }

    /// What must be known of the numbers, each as a sentence.
    fn known(&self) -> Vec<String> {
        self.notes.iter().map(|note| sentence(note)).collect()
    }

    fn heading(&self) -> String {
        format!("{}: which settings", self.title)
    }

    fn asked(&self) -> String {
        let mut text = format!(
            "To be kept: {}. Now: {} ({}).{}",
            lower(keeps(Some(self.must)).0),
            self.now(),
            self.baseline_source,
            self.filesystems_told()
        );
        // What the answer is not, before it is believed.
        let is_simulated = self.devices.iter().any(|device| device.device.is_some());
        if let Some(measured) = self.devices.first().filter(|_| !is_simulated) {
            text += &format!(" Measured on {}, in wall time.", place(measured));
        }
        let simulated: Vec<&DeviceAdvice> = self
            .devices
            .iter()
            .filter(|device| device.device.is_some() && !self.has_live_runs(device))
            .collect();
        text += &match simulated.as_slice() {
            [] => String::new(),
            _ if self.live.is_empty() => " Simulated, and not run live (--live)".to_owned(),
            some => format!(" Simulated, and not run live on {}", self.places(some)),
        };
        text += match (simulated.is_empty(), self.cuts.is_empty()) {
            (false, true) => {
                "; what a power cut takes is what the settings promise, and was not measured (--cut)."
            }
            (false, false) => ".",
            (true, true) => {
                " What a power cut takes is what the settings promise, and was not measured (--cut)."
            }
            (true, false) => "",
        };
        text
    }
}

/// How to come to a file system, as a comment of SQL. What mounts it may have another name than
/// what makes it.
fn on_filesystem(name: &str) -> String {
    let made = match name {
        "ntfs3" => "ntfs",
        "exfat-fuse" => "exfat",
        other => other,
    };
    format!("-- on {name}: mkfs -t {made} DEVICE; mount -t {name} DEVICE DIRECTORY")
}

/// The device's name, or what it is.
fn place(device: &DeviceAdvice) -> &str {
    device.device.as_deref().unwrap_or(&device.title)
}

/// How many times as fast, with the interval where there is one: that there is none is said once
/// ([`Advice::without_interval`]).
fn times(gain: &Gain) -> String {
    if has_interval(gain) { analysis::times(gain) } else { analysis::figure(gain.ratio) }
}

/// What is said behind gains of which not all are proven.
fn unproven(gains: &[Gain]) -> &'static str {
    match gains.iter().filter(|gain| gain.proven).count() {
        proven if proven == gains.len() => "",
        0 => ", not proven",
        _ => ", not proven everywhere",
    }
}

/// As [`times`] for a table, where a `~` says that it is not proven, of which there is an interval.
fn times_in_table(gain: &Gain) -> String {
    let unproven = if gain.proven || !has_interval(gain) { "" } else { "~ " };
    format!("{unproven}{}", times(gain))
}

/// How many times as fast as what the application has now, for a table. Where that could not be
/// recorded, as what breaks the application, nobody knows.
fn gain_in_table(device: &DeviceAdvice) -> String {
    match &device.gain {
        _ if device.best == device.baseline => "as it is".to_owned(),
        Some(gain) => times_in_table(gain),
        None => "not known".to_owned(),
    }
}

fn has_interval(gain: &Gain) -> bool {
    gain.high.is_finite() || gain.low > 0.0
}

/// What has the same name together, in the order in which the names come first.
fn gathered<T>(pairs: impl Iterator<Item = (String, T)>) -> Vec<(String, Vec<T>)> {
    let mut all: Vec<(String, Vec<T>)> = Vec::new();
    for (name, thing) in pairs {
        match all.iter_mut().find(|known| known.0 == name) {
            Some(known) => known.1.push(thing),
            None => all.push((name, vec![thing])),
        }
    }
    all
}

/// The beginning of each assumption, up to where its reason begins.
fn abridged(assumptions: &str) -> String {
    let of = |text: &str| text.split([':', ',']).next().unwrap_or(text).trim().to_owned();
    assumptions.split("; ").map(of).collect::<Vec<_>>().join("; ")
}

/// A heading within a sentence.
fn lower(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map(|first| first.to_lowercase().collect::<String>() + chars.as_str()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
