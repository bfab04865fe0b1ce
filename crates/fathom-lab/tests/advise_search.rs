//! The search for settings finds the best of a whole grid of them, from a dozen recordings.

#![allow(clippy::unwrap_used, reason = "a test's helpers fail by panicking, as tests do")]

use fathom_lab::advise::{AppUse, Candidate, ENOUGH, Recorder, Trial, choose, search};
use fathom_lab::stats::mean_interval;
use fathom_workload::spec::Durability;
use proptest::prelude::*;

const PROMISES: [Durability; 3] =
    [Durability::PowerCutPrefix, Durability::PowerCutAllButLast, Durability::PowerCut];

fn tried_in(candidate: &Candidate, ms: f64) -> Trial {
    let ns = [ms * 1e6, ms * 1.001e6, ms * 0.999e6];
    let durability = match (&*candidate.journal_mode, &*candidate.synchronous) {
        ("wal", "normal") => Durability::PowerCutPrefix,
        ("delete", "full") => Durability::PowerCutAllButLast,
        _ => Durability::PowerCut,
    };
    Trial {
        filesystem: "ext4".into(),
        label: candidate.key(),
        candidate: candidate.clone(),
        durability: Some(durability),
        runs: (0..).zip(ns).collect(),
        time_ns: mean_interval(&ns).unwrap(),
        cpu_ns: 0.0,
        count: 1000,
        p99_ns: None,
        flushes: 1.0,
        written_bytes: 4096.0,
        writing: None,
        loss: None,
        is_log_felt: None,
        is_apart: false,
    }
}

const PAGES: [u32; 6] = [512, 1024, 2048, 4096, 8192, 16_384];
const LOGS: [&str; 3] = ["100", "300", "4000"];

/// An application whose times are a product: of the journal mode, the pages, the log, the locking.
struct Product {
    modes: [f64; 6],
    pages: [f64; 6],
    /// Of the lengths in [`LOGS`].
    logs: [f64; 3],
    locking: f64,
    recorded: usize,
}

impl Product {
    fn ms(&self, candidate: &Candidate) -> f64 {
        let place =
            ["delete/full", "delete/extra", "truncate/full", "persist/full", "wal/full", "wal/normal"];
        let mode = format!("{}/{}", candidate.journal_mode, candidate.synchronous);
        let of_mode = self.modes[place.iter().position(|known| *known == mode).unwrap()];
        let of_page = self.pages[PAGES.iter().position(|size| *size == candidate.page_size).unwrap()];
        let of_log = candidate.more.get("wal_autocheckpoint").map_or(1.0, |length| {
            let own = self.logs[LOGS.iter().position(|known| known == length).unwrap()];
            // Where commits do not flush, a short log makes checkpoints only.
            if candidate.synchronous == "normal" && length != "4000" { own.max(1.0) } else { own }
        });
        let of_locking = if candidate.more.contains_key("locking_mode") { self.locking } else { 1.0 };
        of_mode * of_page * of_log * of_locking
    }

    fn tried(&self, candidate: &Candidate) -> Trial {
        tried_in(candidate, self.ms(candidate))
    }

    /// The fastest of all that there is with the promise, ms.
    fn best(&self, must: Durability) -> f64 {
        let mut best = f64::INFINITY;
        for (journal, synchronous) in [
            ("delete", "full"),
            ("delete", "extra"),
            ("truncate", "full"),
            ("persist", "full"),
            ("wal", "full"),
            ("wal", "normal"),
        ] {
            for page in PAGES.map(|size| size.to_string()) {
                let plain = Candidate::new(journal, synchronous).with("page_size", &page);
                let logs = LOGS.iter().filter(|_| journal == "wal");
                let mut all = vec![plain.clone()];
                all.extend(logs.map(|length| plain.with("wal_autocheckpoint", length)));
                let alone: Vec<_> = all.iter().map(|plain| plain.with("locking_mode", "exclusive")).collect();
                all.extend(alone);
                for candidate in &all {
                    let tried = self.tried(candidate);
                    if tried.durability >= Some(must) {
                        best = best.min(tried.ns() / 1e6);
                    }
                }
            }
        }
        best
    }
}

impl Recorder for Product {
    type Error = std::convert::Infallible;

    fn record(&mut self, _: u32, candidates: Vec<Candidate>) -> Result<Vec<Vec<Trial>>, Self::Error> {
        self.recorded += candidates.len();
        Ok(vec![candidates.iter().map(|candidate| self.tried(candidate)).collect()])
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(2000) })]

    /// What happened: the search left out what the traces needed. A longer log, where nothing had
    /// been written to the device yet, and EXCLUSIVE together with other pages, were never
    /// recorded, and 21 of 360 simulated cells (6 applications, 12 devices, 3 promises) named a
    /// setting that was up to 36 % behind. The mend: what helps by itself is tried together. Later:
    /// no log shorter than SQLite's own was recorded, by which WAL/FULL is up to 1.8 times as fast
    /// in sessions of some hundred commits. Where settings multiply, and pages have one best size,
    /// the best of all is found with at most 46 recordings.
    #[test]
    fn the_search_finds_the_best_of_the_grid_where_settings_multiply(
        modes in prop::array::uniform6(1.0..10.0_f64),
        (best, falls) in (0..6_usize, prop::array::uniform6(1.03..2.0_f64)),
        (logs, locking) in (prop::array::uniform3(0.5..1.5_f64), 0.5..1.5_f64),
        must in 0..3_usize,
    ) {
        // EXTRA does all that DELETE/FULL does.
        let mut modes = modes;
        modes[1] = modes[0] * (1.0 + (modes[1] - 1.0) / 9.0);
        let mut pages = [1.0; 6];
        for place in (0..best).rev() {
            pages[place] = pages[place + 1] * falls[place];
        }
        for place in best + 1..6 {
            pages[place] = pages[place - 1] * falls[place];
        }
        let must = PROMISES[must];
        // A journal that leads by its log alone is not found (docs/advise.md, "Where it cannot be
        // right").
        let places = [(0, 1), (1, 2), (2, 2), (3, 2), (4, 2), (5, 0)];
        let allowed = places.iter().filter(|place| PROMISES[place.1] >= must).map(|place| place.0);
        let shortest = logs.into_iter().fold(1.0, f64::min);
        let tuned = |mode: &usize| match mode {
            4 => modes[4] * shortest,
            5 => modes[5] * logs[2].min(1.0),
            plain => modes[*plain],
        };
        let seen = |mode: &usize| if *mode == 4 { modes[4] * logs[0].min(1.0) } else { modes[*mode] };
        let lead = allowed.clone().min_by(|a, b| seen(a).total_cmp(&seen(b))).unwrap();
        prop_assume!(allowed.clone().all(|mode| tuned(&mode) >= tuned(&lead)));
        let mut product = Product { modes, pages, logs, locking, recorded: 0 };
        let app = AppUse { has_one_connection: true, reads_most: false, over_files: false };
        let found = search(&Candidate::default(), app, &|_| must, &mut product);
        let Ok((_, last)) = found;
        prop_assert!(product.recorded <= 46, "{}", product.recorded);
        let tried: Vec<Trial> = last.all.iter().map(|candidate| product.tried(candidate)).collect();
        let named = choose(&tried, must, Some(0));
        prop_assert!(named.is_some_and(|place| tried[place].durability >= Some(must)));
        let behind = tried[named.unwrap()].ns() / 1e6 / product.best(must);
        prop_assert!(behind <= ENOUGH, "{behind} {last:?}");
    }
}

/// An application with WAL whose best log is a short one with its own pages, and with smaller ones
/// that of another length.
struct Shifted;

impl Shifted {
    fn ms(candidate: &Candidate) -> f64 {
        if candidate.journal_mode != "wal" {
            return 20.0;
        }
        let of_page = match candidate.page_size {
            512 => 1.3,
            1024 => 1.0,
            2048 => 1.4,
            4096 => 2.0,
            _ => 3.0,
        };
        let is_small = candidate.page_size < 4096;
        let of_log = match candidate.more.get("wal_autocheckpoint").map(String::as_str) {
            None => 1.0,
            Some("100") if is_small => 1.1,
            Some("300") if is_small => 0.6,
            Some("100") => 0.8,
            Some("300") => 0.9,
            Some(_) => 1.3,
        };
        // EXCLUSIVE brings something, too.
        let of_locking = if candidate.more.contains_key("locking_mode") { 0.9 } else { 1.0 };
        of_page * of_log * of_locking
    }
}

impl Recorder for Shifted {
    type Error = std::convert::Infallible;

    fn record(&mut self, _: u32, candidates: Vec<Candidate>) -> Result<Vec<Vec<Trial>>, Self::Error> {
        Ok(vec![candidates.iter().map(|candidate| tried_in(candidate, Shifted::ms(candidate))).collect()])
    }
}

/// What happened: the length of the log that was best with the pages that it was tried with was the
/// only one that was tried with others.
#[test]
fn a_log_is_found_that_is_best_with_other_pages_only() {
    let app = AppUse { has_one_connection: true, reads_most: false, over_files: false };
    let must = Durability::PowerCut;
    let Ok((_, last)) = search(&Candidate::default(), app, &|_| must, &mut Shifted);
    let best = Candidate::new("wal", "full").with("page_size", "1024").with("wal_autocheckpoint", "300");
    let alone = best.with("locking_mode", "exclusive");
    // Both are compared in pairs: what locks others out has to be proven to be faster.
    assert!(last.all[..last.needed].contains(&best) && last.all[..last.needed].contains(&alone), "{last:?}");
    let tried: Vec<Trial> =
        last.all.iter().map(|candidate| tried_in(candidate, Shifted::ms(candidate))).collect();
    let named = choose(&tried, must, Some(0)).unwrap();
    assert_eq!(tried[named].candidate, alone);
}
