//! Crash schedules: random concurrent histories on a disk that drops, reorders, tears and fails, checked after every
//! restart.
//!
//! One schedule is one seed, and repeats exactly: all clients run on one thread, whose next step the seed chooses.
//! `MMDB_CRASH_SCHEDULES` sets how many are run (5,000 by default); `MMDB_CRASH_SEED` runs one and prints its steps.
//! A tenth as many run with clients on threads of their own, which repeat only roughly; `src/interleavings.rs` runs the same
//! clients under a scheduler that repeats them exactly.
#![allow(clippy::unwrap_used)]

mod clients;
mod history;
mod rng;
mod schedule;
mod table;

use mmdb as engine;
use mmdb::medium::CrashMedium;
use mmdb::{Options, Sabotage};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::spawn;

/// Clients on threads of their own, which wait for locks and for the disk as an application's do.
fn threaded(seed: u64, sabotage: Sabotage) -> Result<(), String> {
    let disk = CrashMedium::new(seed ^ 0xabcd);
    let base = Options { sabotage, ..Options::in_memory() };
    clients::run(&clients::Plan::new(seed, 4, 12, &disk, base), &disk).map(|_| ())
}

fn many(
    from: u64,
    count: u64,
    sabotage: Sabotage,
    run: impl Fn(u64) -> Result<(), String> + Sync + std::panic::RefUnwindSafe,
) -> Vec<(u64, String)> {
    let next = AtomicU64::new(from);
    let failures = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|s| {
        for _ in 0..2 {
            s.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    // A sabotaged engine has failed its test once it is caught.
                    let enough = sabotage != Sabotage::None && !failures.lock().unwrap().is_empty();
                    if seed >= from + count || enough {
                        return;
                    }
                    let done = std::panic::catch_unwind(|| run(seed));
                    let failure = match done {
                        Ok(Ok(())) => continue,
                        Ok(Err(e)) => e,
                        Err(_) => "panicked".to_owned(),
                    };
                    failures.lock().unwrap().push((seed, failure));
                }
            });
        }
    });
    failures.into_inner().unwrap()
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn what_is_acknowledged_survives_every_crash() {
    if let Some(seed) = number("MMDB_CRASH_SEED") {
        schedule::run(seed, Sabotage::None, true).unwrap();
        return;
    }
    let count = number("MMDB_CRASH_SCHEDULES").unwrap_or(5000);
    let from = number("MMDB_CRASH_FROM").unwrap_or(1);
    none_fails(count, many(from, count, Sabotage::None, |seed| schedule::run(seed, Sabotage::None, false)));
}

fn none_fails(count: u64, failures: Vec<(u64, String)>) {
    for (seed, e) in failures.iter().take(5) {
        eprintln!("seed {seed}: {e}");
    }
    assert!(failures.is_empty(), "{} of {count} schedules failed", failures.len());
}

#[test]
fn what_concurrent_clients_were_told_survives_every_crash() {
    let count = number("MMDB_CRASH_SCHEDULES").unwrap_or(5000) / 10;
    none_fails(count, many(1, count, Sabotage::None, |seed| threaded(seed, Sabotage::None)));
}

/// The schedules must notice each defect, or they prove nothing.
fn is_caught(sabotage: Sabotage) {
    let failures = many(1, 5000, sabotage, |seed| schedule::run(seed, sabotage, false));
    assert!(!failures.is_empty(), "5000 schedules did not notice {sabotage:?}");
    eprintln!("{sabotage:?}: seed {}: {}", failures[0].0, failures[0].1);
}

#[test]
fn recovery_without_the_version_filter_is_caught() {
    is_caught(Sabotage::NoVersionFilter);
}

#[test]
fn recovery_without_the_gap_free_cut_is_caught() {
    is_caught(Sabotage::NoGapFreeCut);
}

#[test]
fn a_checkpoint_published_before_it_is_durable_is_caught() {
    is_caught(Sabotage::NoPublishRule);
}

#[test]
fn acknowledging_before_the_sync_is_caught() {
    is_caught(Sabotage::NoSync);
    let failures = many(1, 5000, Sabotage::NoSync, |seed| threaded(seed, Sabotage::NoSync));
    assert!(!failures.is_empty(), "5000 schedules with threads did not notice");
}

#[test]
fn keeping_the_salt_of_the_last_life_is_caught() {
    is_caught(Sabotage::NoNewSalt);
}

#[test]
fn building_on_frames_that_are_only_in_the_page_cache_is_caught() {
    is_caught(Sabotage::NoRecoverySync);
}
