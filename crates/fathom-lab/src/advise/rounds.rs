//! Which settings are recorded, round by round.

use fathom_workload::spec::Durability;

use super::values::{
    LOG, LONG_LOG, LONGER_LOG, LONGEST_LOG_BYTES, OTHER_LOGS, SHORT_LOGS, USUAL_LOG, frames, neighbours,
    other_logs, push, push_logs,
};
use super::{Candidate, Trial};

/// What decides which settings make sense.
#[derive(Clone, Copy, Debug, Default)]
pub struct AppUse {
    /// Whether never more than one connection was open, so that it may keep the file to itself.
    pub has_one_connection: bool,
    /// Whether most of its statements read.
    pub reads_most: bool,
    /// Whether a transaction may be over several files, which WAL does not keep together at a power
    /// cut, and nobody has allowed that.
    pub over_files: bool,
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

/// The setting of a connection's page cache.
const CACHE: &str = "cache_size";

/// The setting of how much is read through a memory map.
const MAP: &str = "mmap_size";

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

/// The baseline first, then all modes with its other settings, and WAL/FULL with a short log: it
/// can be what makes that mode lead.
#[must_use]
pub fn first(baseline: &Candidate) -> Vec<Candidate> {
    let mut all = vec![baseline.clone()];
    for mode in MODES {
        let plain = in_mode(baseline, mode);
        push(&mut all, plain.clone());
        push_logs(&mut all, &plain, &SHORT_LOGS[..1]);
    }
    all
}

/// The same in another mode: what is of WAL alone is left out elsewhere.
fn in_mode(candidate: &Candidate, (journal_mode, synchronous): (&str, &str)) -> Candidate {
    let mut other = candidate.with("journal_mode", journal_mode).with("synchronous", synchronous);
    if journal_mode != "wal" {
        other.more.remove(LOG);
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
        push_logs(&mut all, leader, &SHORT_LOGS);
        push_logs(&mut all, leader, &[LONG_LOG]);
        // With several connections the replay shows whether the application breaks: once is enough.
        if place == 0 || app.has_one_connection {
            push(&mut all, leader.with("locking_mode", "exclusive"));
        }
        if place == 0 && (app.reads_most || reads_most(devices)) {
            push(&mut all, leader.with(CACHE, "-16000"));
            push(&mut all, leader.with(MAP, "268435456"));
        }
    }
    all.retain(|candidate| !is_tried(devices, candidate));
    all
}

/// Whether most transactions of the recordings only read. The statements of a trace do not tell
/// that: what fills a database in one transaction may have more of them than all that reads it
/// later.
fn reads_most(devices: &[Vec<Trial>]) -> bool {
    devices.iter().flatten().any(|trial| trial.writing.is_some_and(|writing| writing * 2 < trial.count))
}

/// What the second round points to: the neighbours of the best page sizes, what helped by itself
/// together, also with the neighbours of its pages, a longer log, one that is longer still where
/// that has helped, and with other pages logs of each length, at most `room` of these.
#[must_use]
pub fn third(devices: &[Vec<Trial>], must: Durability, room: usize) -> Vec<Candidate> {
    let (mut all, mut leaders, mut combined) = (Vec::new(), leaders(devices, must), Vec::new());
    let mut tuned: Vec<[Candidate; 2]> = Vec::new();
    for tried in devices {
        let Some(fastest) = fastest(tried, &|own| own >= must) else { continue };
        for candidate in combinations(fastest, tried, must) {
            let plain = plain_of(tried, &candidate);
            push(&mut leaders, plain.clone());
            tuned.push([plain, candidate.clone()]);
            push(&mut combined, open(&candidate));
            push(&mut combined, candidate);
        }
    }
    for leader in leaders {
        for tried in devices {
            let sizes = sizes(&in_mode_of(tried, &leader));
            let best = sizes.iter().map(|trial| trial.ns()).min_by(f64::total_cmp);
            // Of single recordings the best may be another one, by what its CPU time is in doubt.
            let may_be_best =
                |trial: &&&Trial| best.is_some_and(|ns| trial.ns() - trial.cpu_ns * CPU_DOUBT <= ns * SLOWER);
            for trial in sizes.iter().filter(may_be_best) {
                for size in neighbours(trial.candidate.page_size) {
                    push(&mut all, Candidate { page_size: size, ..trial.candidate.clone() });
                }
            }
        }
        push_logs(&mut all, &leader, &[LONG_LOG]);
        if has_use_of_longer(devices, &leader) {
            push(&mut all, leader.with(LOG, &LONGER_LOG.to_string()));
        }
    }
    // Other pages may be the best with the rest than without it: a short log of small pages ends to
    // grow sooner still.
    for candidate in combined {
        push(&mut all, candidate.clone());
        if candidate.more.is_empty() {
            continue;
        }
        for size in neighbours(candidate.page_size) {
            push(&mut all, Candidate { page_size: size, ..candidate.clone() });
        }
    }
    all.retain(|candidate| !is_tried(devices, candidate));
    let mut others = other_logs(&tuned);
    others.retain(|candidate| !is_tried(devices, candidate) && !all.contains(candidate));
    all.extend(others.into_iter().take(OTHER_LOGS.min(room)));
    all
}

/// Whether a log may help that is longer still: the long one was faster on a device, and a log of
/// such pages does not take too much room.
fn has_use_of_longer(devices: &[Vec<Trial>], leader: &Candidate) -> bool {
    let long = leader.with(LOG, &LONG_LOG.to_string());
    let has_helped = |tried: &Vec<Trial>| {
        let of = |candidate: &Candidate| tried.iter().find(|trial| trial.candidate == *candidate);
        let both = of(leader).zip(of(&long));
        both.is_some_and(|(usual, long)| long.is_log_felt == Some(true) && long.ns() * SLOWER < usual.ns())
    };
    LONGER_LOG * u64::from(leader.page_size) <= LONGEST_LOG_BYTES && devices.iter().any(has_helped)
}

/// The fastest of each device with the promise; and with a weaker one that leaves a sound database,
/// where that is another journal: it is told, so it is to be at its best. In the same journal, what
/// the leader's tuning brings holds for it, too.
fn leaders(devices: &[Vec<Trial>], must: Durability) -> Vec<Candidate> {
    let mut leaders: Vec<Candidate> = Vec::new();
    for tried in devices {
        if let Some(best) = fastest(tried, &|own| own >= must) {
            push(&mut leaders, plain_of(tried, &best.candidate));
        }
    }
    for tried in devices {
        let weaker = fastest(tried, &|own| is_sound_and_weaker(own, must));
        if let Some(weaker) = weaker
            && !leaders.iter().any(|candidate| candidate.journal_mode == weaker.candidate.journal_mode)
        {
            push(&mut leaders, plain_of(tried, &weaker.candidate));
        }
    }
    leaders.truncate(LEADERS);
    leaders
}

/// What is recorded several times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finalists {
    /// The most important first: the baseline, the fastest of each device, and the fastest with the
    /// baseline's pages.
    pub all: Vec<Candidate>,
    /// So many of them an answer needs; the others make it a surer one, where there is time.
    pub needed: usize,
    /// The fastest of each device so far, [`super::LEADERS`] of each: what is run live is simulated
    /// in the same round.
    pub leaders: Vec<Candidate>,
}

/// The baseline, of each device the nearest to the fastest, the fastest with the baseline's pages,
/// what the best page size and the best other setting make together, and the fastest with a weaker
/// promise. A device for which one that is there already is as good adds none.
#[must_use]
pub fn finalists(baseline: &Candidate, devices: &[Vec<Trial>], must: Durability) -> Finalists {
    let mut all = vec![baseline.clone()];
    let allowed = |tried: &[Trial]| -> Vec<Trial> {
        let keeps = |trial: &&Trial| {
            let is_told = !trial.is_idle(tried) || trial.candidate == *baseline;
            is_told && trial.keeps(must)
        };
        let mut allowed: Vec<Trial> = tried.iter().filter(keeps).cloned().collect();
        allowed.sort_by(|a, b| a.ns().total_cmp(&b.ns()));
        allowed
    };
    let of_devices: Vec<(Vec<Trial>, &[Trial])> =
        devices.iter().map(|tried| (allowed(tried), &**tried)).collect();
    let mut adding: Vec<&[Trial]> = Vec::new();
    for (allowed, _) in &of_devices {
        let Some(fastest) = allowed.first() else { continue };
        let is_there = |trial: &Trial| all.contains(&trial.candidate) && trial.ns() <= fastest.ns() * SLOWER;
        if !allowed.iter().any(is_there) {
            push(&mut all, fastest.candidate.clone());
            adding.push(allowed);
        }
    }
    for (allowed, tried) in &of_devices {
        // What locks others out, changes more, or loses more commits has to be proven to be faster
        // than what does not.
        let Some(fastest) = allowed.first() else { continue };
        let is_open = |trial: &&Trial| open(&trial.candidate) == trial.candidate;
        if let Some(open) = allowed.iter().find(is_open) {
            push(&mut all, open.candidate.clone());
        }
        push(&mut all, open(&fastest.candidate));
        for plain in plainer(&fastest.candidate, baseline) {
            push(&mut all, plain);
        }
        push(&mut all, plain_of(tried, &fastest.candidate));
        let near = allowed.iter().filter(|trial| trial.ns() <= fastest.ns() * super::ENOUGH);
        let losing = near.filter_map(|trial| Some((trial.loss?.commits, trial)));
        if let Some((_, safer)) = losing.min_by_key(|trial| trial.0) {
            push(&mut all, safer.candidate.clone());
        }
    }
    for (allowed, _) in &of_devices {
        // Other pages take a VACUUM of a database that exists: what can be had without is told.
        let has_own_pages = |trial: &&Trial| trial.candidate.page_size == baseline.page_size;
        if let Some(plain) = allowed.iter().find(has_own_pages) {
            push(&mut all, plain.candidate.clone());
        }
    }
    let needed = all.len();
    for (allowed, tried) in &of_devices {
        let Some(fastest) = allowed.first() else { continue };
        for candidate in combinations(fastest, tried, must) {
            push(&mut all, candidate.clone());
            push(&mut all, open(&candidate));
            for plain in plainer(&candidate, baseline) {
                push(&mut all, plain);
            }
        }
    }
    for allowed in adding {
        let near = |trial: &&Trial| trial.ns() - trial.cpu_ns * CPU_DOUBT <= allowed[0].ns() * NEAR;
        for near in allowed.iter().filter(near).take(NEAREST) {
            push(&mut all, near.candidate.clone());
        }
    }
    for (allowed, tried) in &of_devices {
        let Some(fastest) = allowed.first() else { continue };
        if let Some(weaker) = self::fastest(tried, &|own| is_sound_and_weaker(own, must)) {
            push(&mut all, tuned_as(&weaker.candidate, &fastest.candidate));
        }
    }
    let first = |allowed: &[Trial]| -> Vec<Candidate> {
        allowed.iter().take(super::LEADERS).map(|trial| trial.candidate.clone()).collect()
    };
    let leaders = of_devices.iter().flat_map(|(allowed, _)| first(allowed)).collect();
    Finalists { all, needed, leaders }
}

/// The same without what locks others out.
fn open(candidate: &Candidate) -> Candidate {
    let mut open = candidate.clone();
    open.more.retain(|key, value| key != "locking_mode" || value != "exclusive");
    open
}

/// The same with what the application has now of the memory map, and of the cache as well, where it
/// has others. Both save calls that read, and nothing but CPU time: a single recording, by which
/// they came in, scatters by more than they may bring.
fn plainer(candidate: &Candidate, baseline: &Candidate) -> Vec<Candidate> {
    let (mut all, mut plain) = (Vec::new(), candidate.clone());
    for key in [MAP, CACHE] {
        match baseline.more.get(key) {
            Some(own) => plain.set(key, own),
            None => drop(plain.more.remove(key)),
        }
        if plain != *candidate {
            push(&mut all, plain.clone());
        }
    }
    all
}

/// A weaker one with the tuning of the fastest, where both have the same journal, but for a short
/// log, which is good for FULL alone.
fn tuned_as(weaker: &Candidate, fastest: &Candidate) -> Candidate {
    if weaker.journal_mode != fastest.journal_mode {
        return weaker.clone();
    }
    let mut tuned = fastest.with("synchronous", &weaker.synchronous);
    if frames(&tuned).is_some_and(|frames| frames < USUAL_LOG) {
        match weaker.more.get(LOG) {
            Some(own) => tuned.set(LOG, own),
            None => drop(tuned.more.remove(LOG)),
        }
    }
    tuned
}

fn fastest<'a>(tried: &'a [Trial], is_asked: &dyn Fn(Durability) -> bool) -> Option<&'a Trial> {
    let asked = tried.iter().filter(|trial| trial.kept().is_some_and(is_asked));
    asked.min_by(|a, b| a.ns().total_cmp(&b.ns()))
}

fn is_sound_and_weaker(own: Durability, must: Durability) -> bool {
    own < must && own >= Durability::PowerCutPrefix
}

fn is_tried(devices: &[Vec<Trial>], candidate: &Candidate) -> bool {
    devices.iter().flatten().any(|trial| trial.candidate == *candidate)
}

/// What helped by itself together: in the journal mode of the fastest, and in each other with the
/// promise that it should bring before that.
fn combinations(fastest: &Trial, tried: &[Trial], must: Durability) -> Vec<Candidate> {
    let mut all = vec![together(&fastest.candidate, tried).0];
    for trial in tried.iter().filter(|trial| trial.keeps(must)) {
        let (candidate, expected_ns) = together(&trial.candidate, tried);
        if expected_ns < fastest.ns() {
            push(&mut all, candidate);
        }
    }
    all
}

/// Of the journal mode of a candidate: the best pages, with each other setting that made the mode
/// faster by itself; and what it takes where these multiply, ns.
fn together(candidate: &Candidate, tried: &[Trial]) -> (Candidate, f64) {
    let of_mode = in_mode_of(tried, candidate);
    let Some(plain) = plainest(&of_mode) else { return (candidate.clone(), f64::INFINITY) };
    // The fastest may have something that was tried with it and does not help.
    let (mut found, mut expected_ns) = (plain.candidate.clone(), plain.ns());
    if let Some(best) = sizes(&of_mode).into_iter().min_by(|a, b| a.ns().total_cmp(&b.ns())) {
        found.page_size = best.candidate.page_size;
        expected_ns = best.ns();
    }
    let mut alone: Vec<&Trial> = of_mode
        .iter()
        .copied()
        .filter(|trial| !trial.is_idle(tried) && trial.ns() < plain.ns() * 0.99)
        .collect();
    alone.sort_by(|a, b| a.ns().total_cmp(&b.ns()));
    let mut keys = Vec::new();
    for trial in alone {
        // Of several values of a setting the fastest.
        if let Some((key, value)) = only_other(plain, trial).filter(|(key, _)| !keys.contains(key)) {
            keys.push(key);
            found.set(key, value);
            expected_ns *= trial.ns() / plain.ns();
        }
    }
    (found, expected_ns)
}

/// The one setting in which a candidate differs from the plain one, its pages being the same.
fn only_other<'a>(plain: &Trial, tried: &'a Trial) -> Option<(&'a str, &'a str)> {
    let (plain, tried) = (&plain.candidate, &tried.candidate);
    let has_all = plain.more.keys().all(|key| tried.more.contains_key(key));
    let mut others = tried.more.iter().filter(|(key, value)| plain.more.get(*key) != Some(value));
    let (key, value) = others.next()?;
    let is_alone = has_all && plain.page_size == tried.page_size && others.next().is_none();
    is_alone.then_some((key, value))
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

/// What was tried first in the journal mode of a candidate: what it is tuned from.
fn plain_of(tried: &[Trial], candidate: &Candidate) -> Candidate {
    let plain = plainest(&in_mode_of(tried, candidate));
    plain.map_or_else(|| candidate.clone(), |plain| plain.candidate.clone())
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
