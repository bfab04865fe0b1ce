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
/// a power cut, by each way that there is, but for [`MORE_CAREFUL`].
const MODES: [(&str, &str); 5] =
    [("delete", "full"), ("truncate", "full"), ("persist", "full"), ("wal", "full"), ("wal", "normal")];

/// This one does all that DELETE/FULL does, and syncs the directory once more: it is worth a
/// recording only where DELETE/FULL itself leads.
const MORE_CAREFUL: (&str, &str) = ("delete", "extra");

/// Page sizes that are tried besides the application's own.
const PAGES: [u32; 3] = [1024, 4096, 8192];

/// This size is tried where 8 KiB are no slower than what is smaller.
const LARGE_PAGE: u32 = 16_384;

/// A longer log, pages.
const LONG_LOG: u64 = 4000;

/// SQLite's own, pages.
const USUAL_LOG: u64 = 1000;

/// Journal modes that are tuned further, at most.
const LEADERS: usize = 3;

/// Those that are so near to the fastest may be it: single recordings scatter by some percent.
const NEAR: f64 = 1.04;

/// By no more than this two recordings of the same differ.
const SLOWER: f64 = 1.01;

/// So much of the CPU time of a single recording may be the neighbours' on a busy machine.
const CPU_DOUBT: f64 = 0.25;

/// Settings of the last round for each device, at most, beside the baseline.
const NEAREST: usize = 3;

/// The baseline first, then all modes with its other settings.
#[must_use]
pub fn first(baseline: &Candidate) -> Vec<Candidate> {
    let mut all = vec![baseline.clone()];
    for mode in MODES {
        push(&mut all, in_mode(baseline, mode));
    }
    all
}

/// The same in another mode: what is of WAL alone is left out elsewhere.
fn in_mode(candidate: &Candidate, (journal_mode, synchronous): (&str, &str)) -> Candidate {
    let mut other = candidate.with("journal_mode", journal_mode).with("synchronous", synchronous);
    if journal_mode != "wal" {
        other.more.remove("wal_autocheckpoint");
    }
    other
}

/// The leaders of the first round (what was tried, by device) tuned further.
#[must_use]
pub fn second(devices: &[Vec<Trial>], must: Durability, app: AppUse) -> Vec<Candidate> {
    let promise = must.min(Durability::PowerCutAllButLast);
    let mut lead = devices.iter().filter_map(|tried| fastest(tried, &|own| own >= promise));
    let plain =
        lead.find(|trial| (&*trial.candidate.journal_mode, &*trial.candidate.synchronous) == MODES[0]);
    let careful = plain.map(|trial| in_mode(&trial.candidate, MORE_CAREFUL));
    let mut leaders = leaders(devices, must);
    let mut all = Vec::new();
    if let Some(careful) = careful {
        // Where DELETE/FULL itself is not enough, this is what leads.
        if must > promise {
            leaders.insert(0, careful.clone());
        }
        push(&mut all, careful);
    }
    for (place, leader) in leaders.iter().enumerate() {
        for size in PAGES {
            push(&mut all, leader.with("page_size", &size.to_string()));
        }
        push_long_log(&mut all, leader);
        // With several connections the replay shows whether the application breaks: once is enough.
        if place == 0 || app.has_one_connection {
            push(&mut all, leader.with("locking_mode", "exclusive"));
        }
        if place == 0 && app.reads_most {
            push(&mut all, leader.with("cache_size", "-16000"));
            push(&mut all, leader.with("mmap_size", "268435456"));
        }
    }
    all.retain(|candidate| !is_tried(devices, candidate));
    all
}

/// What the second round points to: larger pages where they go on getting better, what helped by
/// itself together, and a longer log.
#[must_use]
pub fn third(devices: &[Vec<Trial>], must: Durability) -> Vec<Candidate> {
    let mut all = Vec::new();
    for leader in leaders(devices, must) {
        for tried in devices {
            let sizes = sizes(&in_mode_of(tried, &leader));
            let of = |size: u32| sizes.iter().find(|trial| trial.candidate.page_size == size);
            let smaller =
                sizes.iter().filter(|trial| trial.candidate.page_size < 8192).map(|trial| trial.ns());
            let smaller = smaller.min_by(f64::total_cmp);
            if let (Some(eight), Some(smaller)) = (of(8192), smaller)
                && eight.ns() <= smaller * SLOWER
            {
                push(&mut all, Candidate { page_size: LARGE_PAGE, ..eight.candidate.clone() });
            }
        }
        push_long_log(&mut all, &leader);
    }
    for tried in devices {
        if let Some(fastest) = fastest(tried, &|own| own >= must) {
            push(&mut all, together(&fastest.candidate, tried));
        }
    }
    all.retain(|candidate| !is_tried(devices, candidate));
    all
}

/// The fastest of each device with the promise; and with a weaker one that leaves a sound database,
/// where that is another journal: it is told, so it is to be at its best. In the same journal, what
/// the leader's tuning brings holds for it, too.
fn leaders(devices: &[Vec<Trial>], must: Durability) -> Vec<Candidate> {
    let mut leaders: Vec<Candidate> = Vec::new();
    for tried in devices {
        if let Some(best) = fastest(tried, &|own| own >= must) {
            push(&mut leaders, best.candidate.clone());
        }
    }
    for tried in devices {
        let weaker = fastest(tried, &|own| is_sound_and_weaker(own, must));
        if let Some(weaker) = weaker
            && !leaders.iter().any(|candidate| candidate.journal_mode == weaker.candidate.journal_mode)
        {
            push(&mut leaders, weaker.candidate.clone());
        }
    }
    leaders.truncate(LEADERS);
    leaders
}

/// What is recorded several times: the baseline, of each device the nearest to the fastest, the
/// fastest with a weaker promise, and for each of these what the best page size and the best other
/// setting make together. A device for which one that is there already is as good adds none.
#[must_use]
pub fn finalists(baseline: &Candidate, devices: &[Vec<Trial>], must: Durability) -> Vec<Candidate> {
    let mut all = vec![baseline.clone()];
    for tried in devices {
        let mut allowed: Vec<&Trial> =
            tried.iter().filter(|tried| tried.durability.is_some_and(|own| own >= must)).collect();
        allowed.sort_by(|a, b| a.ns().total_cmp(&b.ns()));
        let Some(fastest) = allowed.first().copied() else { continue };
        let is_there = |trial: &&Trial| all.contains(&trial.candidate) && trial.ns() <= fastest.ns() * SLOWER;
        if !allowed.iter().copied().any(|trial| is_there(&trial)) {
            let near = |trial: &&&Trial| trial.ns() - trial.cpu_ns * CPU_DOUBT <= fastest.ns() * NEAR;
            for near in allowed.iter().filter(near).take(NEAREST) {
                push(&mut all, near.candidate.clone());
            }
        }
        push(&mut all, together(&fastest.candidate, tried));
        if let Some(weaker) = self::fastest(tried, &|own| is_sound_and_weaker(own, must)) {
            push(&mut all, tuned_as(&weaker.candidate, &fastest.candidate));
        }
    }
    all
}

/// A weaker one with the tuning of the fastest, where both have the same journal.
fn tuned_as(weaker: &Candidate, fastest: &Candidate) -> Candidate {
    if weaker.journal_mode != fastest.journal_mode {
        return weaker.clone();
    }
    fastest.with("synchronous", &weaker.synchronous)
}

fn fastest<'a>(tried: &'a [Trial], is_asked: &dyn Fn(Durability) -> bool) -> Option<&'a Trial> {
    let asked = tried.iter().filter(|trial| trial.durability.is_some_and(is_asked));
    asked.min_by(|a, b| a.ns().total_cmp(&b.ns()))
}

fn is_sound_and_weaker(own: Durability, must: Durability) -> bool {
    own < must && own >= Durability::PowerCutPrefix
}

fn is_tried(devices: &[Vec<Trial>], candidate: &Candidate) -> bool {
    devices.iter().flatten().any(|trial| trial.candidate == *candidate)
}

/// A WAL's with a longer log, of which small pages need more.
fn push_long_log(all: &mut Vec<Candidate>, leader: &Candidate) {
    let own = leader.more.get("wal_autocheckpoint").map_or(Some(USUAL_LOG), |frames| frames.parse().ok());
    if leader.journal_mode == "wal" && own.is_some_and(|frames| frames > 0 && frames < LONG_LOG) {
        push(all, leader.with("wal_autocheckpoint", &LONG_LOG.to_string()));
    }
}

/// Of the journal mode of the fastest: the best pages, with each other setting that made the mode
/// faster by itself.
fn together(fastest: &Candidate, tried: &[Trial]) -> Candidate {
    let of_mode = in_mode_of(tried, fastest);
    let Some(plain) = plainest(&of_mode) else { return fastest.clone() };
    // The fastest may have something that was tried with it and does not help.
    let mut found = plain.candidate.clone();
    if let Some(best) = sizes(&of_mode).into_iter().min_by(|a, b| a.ns().total_cmp(&b.ns())) {
        found.page_size = best.candidate.page_size;
    }
    let alone = |trial: &&&Trial| {
        trial.candidate.page_size == plain.candidate.page_size
            && trial.candidate.more.len() == plain.candidate.more.len() + 1
    };
    for other in of_mode.iter().filter(alone).filter(|trial| trial.ns() < plain.ns() * 0.99) {
        for (key, value) in &other.candidate.more {
            if !plain.candidate.more.contains_key(key) {
                found.set(key, value);
            }
        }
    }
    found
}

/// What was tried in the journal mode of a candidate, on the file system that is best for it.
fn in_mode_of<'a>(tried: &'a [Trial], candidate: &Candidate) -> Vec<&'a Trial> {
    let is_in_mode = |trial: &&Trial| {
        (&trial.candidate.journal_mode, &trial.candidate.synchronous)
            == (&candidate.journal_mode, &candidate.synchronous)
    };
    let of_mode = || tried.iter().filter(is_in_mode);
    let best = of_mode().min_by(|a, b| a.ns().total_cmp(&b.ns()));
    of_mode().filter(|trial| best.is_some_and(|best| trial.filesystem == best.filesystem)).collect()
}

/// Of a journal mode what was tried first, in the first round.
fn plainest<'a>(of_mode: &[&'a Trial]) -> Option<&'a Trial> {
    of_mode.iter().copied().min_by_key(|trial| trial.candidate.more.len())
}

/// Of a journal mode those that differ in their pages alone.
fn sizes<'a>(of_mode: &[&'a Trial]) -> Vec<&'a Trial> {
    let Some(plain) = plainest(of_mode) else { return Vec::new() };
    of_mode.iter().copied().filter(|trial| trial.candidate.more == plain.candidate.more).collect()
}

fn push(all: &mut Vec<Candidate>, candidate: Candidate) {
    if !all.contains(&candidate) {
        all.push(candidate);
    }
}
