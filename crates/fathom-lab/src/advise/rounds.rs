//! Which settings are recorded, round by round.

use fathom_workload::spec::Durability;

use super::{Candidate, Trial};

/// What decides which settings make sense.
#[derive(Clone, Copy, Debug, Default)]
pub struct AppUse {
    /// Whether never more than one connection was open, so that it may keep the file to itself.
    pub has_one_connection: bool,
    /// Whether most of its statements read.
    pub reads_most: bool,
}

/// Journal modes with the settings that go with them: every promise that leaves a sound database at
/// a power cut, by each way that there is.
const MODES: [(&str, &str); 6] = [
    ("delete", "full"),
    ("delete", "extra"),
    ("truncate", "full"),
    ("persist", "full"),
    ("wal", "full"),
    ("wal", "normal"),
];

/// Page sizes besides the application's own.
const PAGES: [&str; 3] = ["1024", "8192", "16384"];

/// Journal modes that are tuned further, at most.
const LEADERS: usize = 3;

/// Those that are so near to the fastest of the first rounds are measured again.
const NEAR: f64 = 1.08;

/// Settings of the last round for each device, at most, beside the baseline.
const NEAREST: usize = 2;

/// The baseline first, then all modes with its other settings.
#[must_use]
pub fn first(baseline: &Candidate) -> Vec<Candidate> {
    let mut all = vec![baseline.clone()];
    for (journal_mode, synchronous) in MODES {
        let mut other = baseline.with("journal_mode", journal_mode).with("synchronous", synchronous);
        if journal_mode != "wal" {
            other.more.remove("wal_autocheckpoint");
        }
        push(&mut all, other);
    }
    all
}

/// The leaders of the first round (what was tried, by device) tuned further.
#[must_use]
pub fn second(devices: &[Vec<Trial>], must: Durability, app: AppUse) -> Vec<Candidate> {
    let mut leaders: Vec<Candidate> = Vec::new();
    let leads = |is_asked: &dyn Fn(Durability) -> bool, leaders: &mut Vec<Candidate>| {
        for tried in devices {
            let asked = tried.iter().filter(|tried| tried.durability.is_some_and(is_asked));
            if let Some(best) = asked.min_by(|a, b| a.ns().total_cmp(&b.ns())) {
                push(leaders, best.candidate.clone());
            }
        }
    };
    leads(&|own| own >= must, &mut leaders);
    // What a weaker promise would bring is told, so it is to be at its best, too.
    leads(&|own| own < must && own >= Durability::PowerCutPrefix, &mut leaders);
    leaders.truncate(LEADERS);
    let mut all = Vec::new();
    for (place, leader) in leaders.iter().enumerate() {
        for size in PAGES {
            push(&mut all, leader.with("page_size", size));
        }
        if leader.journal_mode == "wal" {
            push(&mut all, leader.with("wal_autocheckpoint", "4000"));
        }
        if place == 0 && app.has_one_connection {
            push(&mut all, leader.with("locking_mode", "exclusive"));
        }
        if place == 0 && app.reads_most {
            push(&mut all, leader.with("cache_size", "-16000"));
            push(&mut all, leader.with("mmap_size", "268435456"));
        }
    }
    all.retain(|candidate| !leaders.contains(candidate));
    all
}

/// What is recorded several times: the baseline, of each device the nearest to the fastest, the
/// fastest with a weaker promise, and for each of these what the best page size and the best other
/// setting make together.
#[must_use]
pub fn finalists(baseline: &Candidate, devices: &[Vec<Trial>], must: Durability) -> Vec<Candidate> {
    let mut all = vec![baseline.clone()];
    for tried in devices {
        let mut allowed: Vec<&Trial> =
            tried.iter().filter(|tried| tried.durability.is_some_and(|own| own >= must)).collect();
        allowed.sort_by(|a, b| a.ns().total_cmp(&b.ns()));
        let Some(fastest) = allowed.first().copied() else { continue };
        for near in allowed.iter().take(NEAREST).filter(|tried| tried.ns() <= fastest.ns() * NEAR) {
            push(&mut all, near.candidate.clone());
        }
        push(&mut all, together(&fastest.candidate, &allowed));
        let sound = |own: Durability| own < must && own >= Durability::PowerCutPrefix;
        let weaker = tried.iter().filter(|tried| tried.durability.is_some_and(sound));
        if let Some(weaker) = weaker.min_by(|a, b| a.ns().total_cmp(&b.ns())) {
            push(&mut all, weaker.candidate.clone());
        }
    }
    all
}

/// The best of a journal mode, with each other setting that made the mode faster by itself.
fn together(fastest: &Candidate, allowed: &[&Trial]) -> Candidate {
    let of_mode = |tried: &&&Trial| {
        tried.candidate.journal_mode == fastest.journal_mode
            && tried.candidate.synchronous == fastest.synchronous
    };
    // The plainest of the mode is what the first round has tried.
    let plain = allowed.iter().filter(of_mode).min_by_key(|tried| tried.candidate.changes());
    let Some(plain) = plain else { return fastest.clone() };
    let mut found = fastest.clone();
    for other in allowed.iter().filter(of_mode).filter(|tried| tried.ns() < plain.ns() * 0.99) {
        for (key, value) in &other.candidate.more {
            if !plain.candidate.more.contains_key(key) {
                found.set(key, value);
            }
        }
    }
    found
}

fn push(all: &mut Vec<Candidate>, one: Candidate) {
    if !all.contains(&one) {
        all.push(one);
    }
}
