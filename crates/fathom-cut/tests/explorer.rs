//! The explorer on a modelled disk: every state is one that the definition of a power cut allows,
//! and none that it allows is missing; a store that is right loses nothing. The explorer is broken
//! as well, and then both tests find it. `FATHOM_CUT_STATES=1_000_000` has so many states of a
//! right store judged (else 60,000).

#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

mod model;

use std::collections::{BTreeSet, HashMap, HashSet};

use fathom_cut::{
    BLOCK_BYTES, Behaviour, Class, EXHAUSTIVE, Exploration, Fingerprints, History, Keeps, Limits, Side,
    State, States, explore,
};
use model::{
    Recovery, any_history, any_history_of_two, right_store, right_store_of_two, there, truth, wrong,
};
use proptest::prelude::*;

const FLUSHED: Behaviour = Behaviour { keeps: Keeps::Flushed, tear_bytes: 512 };
const NO_LIMIT: Limits = Limits { from: 0, states: usize::MAX, time: None };

fn explored(
    history: &History,
    behaviour: Behaviour,
    seed: u64,
    limits: Limits,
    threads: usize,
) -> Exploration {
    let states = States::of(history, behaviour, seed, 0, None);
    let mut judges: Vec<Recovery> = (0..threads).map(|_| Recovery(history)).collect();
    explore(&states, &mut judges, limits, &|| false, &|_, _| {}).unwrap()
}

/// The first state that the definition does not allow, of the explorer's for one history judged by
/// another.
fn first_wrong(broken: &History, right: &History, seed: u64) -> Option<String> {
    let states = States::of(broken, FLUSHED, seed, 0, None);
    (0..states.len()).find_map(|number| wrong(right, &states, &states.get(number).unwrap()))
}

/// The whole medium with some units on it, one after the other.
fn applied(history: &History, there: &BTreeSet<u32>, state: &State) -> Vec<u8> {
    let mut medium = vec![0; history.bytes as usize];
    for number in there {
        let unit = &history.units[*number as usize];
        let content = history.content_of(unit);
        for at in 0..unit.bytes {
            let place = unit.offset + at;
            let sector = place % BLOCK_BYTES / 512;
            if state.torn.is_none_or(|(torn, sectors)| torn != *number || sectors >> sector & 1 == 1) {
                medium[place as usize] = content.map_or(0, |bytes| bytes[at as usize]);
            }
        }
    }
    medium
}

/// A flush that the explorer does not count: what it made safe may be missing.
fn dropping_what_was_flushed(seed: u64, make: fn(u64) -> History) -> History {
    let mut broken = make(seed);
    let mut number = 0;
    broken.flushes.retain(|_| {
        number += 1;
        number % 3 != 0
    });
    broken
}

/// Operations that come a moment before they do: they may be there too early.
fn applying_what_never_came(seed: u64, make: fn(u64) -> History) -> History {
    let mut broken = make(seed);
    for unit in &mut broken.units {
        unit.came = unit.came.saturating_sub(12);
    }
    broken
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, max_global_rejects: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn every_state_is_one_that_a_cut_may_leave(seed: u64, operations in 5u64..60) {
        let history = any_history(seed, operations);
        prop_assert_eq!(first_wrong(&history, &history, seed), None);
    }

    /// The order of answers across a file system's device and its external log's.
    #[test]
    fn every_state_of_two_devices_is_one_that_a_cut_may_leave(seed: u64, operations in 5u64..60) {
        let history = any_history_of_two(seed, operations);
        prop_assert_eq!(first_wrong(&history, &history, seed), None);
    }

    #[test]
    fn a_block_holds_what_is_there_and_nothing_else(seed: u64, operations in 5u64..60) {
        let history = any_history(seed, operations);
        let states = States::of(&history, FLUSHED, seed, 0, None);
        for number in (0..states.len()).step_by(3) {
            let state = states.get(number).unwrap();
            let medium = applied(&history, &there(&history, &states, &state), &state);
            for block in 0..history.blocks() {
                let found = history.block(block, states.epochs[state.epoch].safe, &state);
                let wanted = &medium[(block * BLOCK_BYTES) as usize..][..BLOCK_BYTES as usize];
                match found {
                    Some(found) => prop_assert!(*found == *wanted, "state {} block {}", number, block),
                    None => prop_assert!(wanted.iter().all(|&byte| byte == 0), "state {} block {}", number, block),
                }
            }
        }
    }

    /// What was found of one image is said of every other with its fingerprint.
    #[test]
    fn a_fingerprint_is_equal_where_the_medium_is_and_nowhere_else(seed: u64, operations in 5u64..50) {
        let history = if seed % 2 == 0 { any_history(seed, operations) } else { any_history_of_two(seed, operations) };
        let states = States::of(&history, FLUSHED, seed, 0, None);
        let fingerprints = Fingerprints::of(&history, &states);
        let (mut by_medium, mut by_number) = (HashMap::new(), HashMap::new());
        for number in (0..states.len()).step_by(2) {
            let state = states.get(number).unwrap();
            let medium = applied(&history, &there(&history, &states, &state), &state);
            let found = fingerprints.get(&states.epochs[state.epoch], &state).unwrap();
            prop_assert_eq!(*by_medium.entry(medium.clone()).or_insert(found), found, "state {}", number);
            prop_assert!(*by_number.entry(found).or_insert_with(|| medium.clone()) == medium, "state {}", number);
        }
    }

    #[test]
    fn no_state_that_a_cut_may_leave_is_missing(seed: u64) {
        // What one device flushes leaves the other's in flight: more of it, after fewer operations.
        let history = if seed % 2 == 0 { any_history(seed, 24) } else { any_history_of_two(seed, 12) };
        let states = States::of(&history, Behaviour { tear_bytes: 4096, ..FLUSHED }, seed, 0, None);
        prop_assume!(states.epochs.iter().all(|epoch| epoch.in_flight.len() <= EXHAUSTIVE));
        let mut found: HashSet<(BTreeSet<u32>, u64)> = HashSet::new();
        for number in 0..states.len() {
            let state = states.get(number).unwrap();
            found.insert((there(&history, &states, &state), states.epochs[state.epoch].acknowledged));
        }
        for answers in 0..=history.answers {
            let (must, may, acknowledged) = truth(&history, answers);
            let free: Vec<u32> = may.difference(&must).copied().collect();
            for mask in 0..1u32 << free.len() {
                let chosen = free.iter().enumerate().filter(|free| mask >> free.0 & 1 == 1).map(|mask| *mask.1);
                let set: BTreeSet<u32> = must.iter().copied().chain(chosen).collect();
                // As strictly or more.
                let is_there = (acknowledged..=acknowledged + 24).any(|acknowledged| found.contains(&(set.clone(), acknowledged)));
                prop_assert!(is_there, "after {} answers: {:?}", answers, set);
            }
        }
    }

    #[test]
    fn a_protected_device_has_all_that_it_answered(seed: u64, operations in 5u64..60) {
        let history = any_history(seed, operations);
        let behaviour = Behaviour { keeps: Keeps::Answered, tear_bytes: 512 };
        let states = States::of(&history, behaviour, seed, 0, None);
        for number in 0..states.len() {
            let state = states.get(number).unwrap();
            let epoch = &states.epochs[state.epoch];
            let there = there(&history, &states, &state);
            for (number, unit) in (0u32..).zip(&history.units) {
                prop_assert!(unit.answer >= epoch.answers || there.contains(&number));
                prop_assert!(unit.came <= epoch.answers || !there.contains(&number));
            }
        }
    }
}

#[test]
fn an_explorer_that_drops_what_was_flushed_is_found() {
    let make = |seed| any_history(seed, 60);
    let found = |seed: &u64| first_wrong(&dropping_what_was_flushed(*seed, make), &make(*seed), 1);
    let seen: Vec<String> = (0..20).filter_map(|seed| found(&seed)).collect();
    assert!(
        seen.len() > 10 && seen.iter().any(|problem| problem.contains("was flushed and is missing")),
        "{seen:?}"
    );
    // And the right store loses by it.
    let broken = dropping_what_was_flushed(1, |seed| right_store(seed, 60));
    let tally = explored(&broken, FLUSHED, 1, NO_LIMIT, 2).tally;
    assert!(tally.not_kept() > 20, "{tally:?}");
    assert!(tally.first.contains_key(&Class::LostLast), "{tally:?}");
}

#[test]
fn an_explorer_that_applies_what_never_came_is_found() {
    let make = |seed| any_history(seed, 60);
    let found = |seed: &u64| first_wrong(&applying_what_never_came(*seed, make), &make(*seed), 1);
    let seen: Vec<String> = (0..20).filter_map(|seed| found(&seed)).collect();
    assert!(
        seen.len() > 10 && seen.iter().any(|problem| problem.contains("never came and is there")),
        "{seen:?}"
    );
    let broken = applying_what_never_came(1, |seed| right_store(seed, 60));
    let tally = explored(&broken, FLUSHED, 1, NO_LIMIT, 2).tally;
    assert!(tally.not_kept() > 20, "{tally:?}");
    assert!(tally.first.contains_key(&Class::Corrupt), "{tally:?}");
}

#[test]
fn a_store_that_is_right_never_loses() {
    let wanted =
        std::env::var("FATHOM_CUT_STATES").map_or(60_000, |text| text.replace('_', "").parse().unwrap());
    let mut judged = 0;
    for seed in 0.. {
        if judged >= wanted {
            break;
        }
        let history = right_store(seed, 2_000);
        let tally = explored(&history, FLUSHED, seed, NO_LIMIT, 2).tally;
        assert_eq!(tally.not_kept(), 0, "seed {seed}: {:?}", tally.worst);
        judged += tally.states as usize;
    }
    println!("{judged} states of a store that is right: none lost");
}

/// A flush of one device taken for one of the other.
fn flushing_the_wrong_device(mut history: History) -> History {
    for flush in &mut history.flushes {
        flush.side = if flush.side == Side::Main { Side::Log } else { Side::Main };
    }
    history
}

/// Which of the devices a flush was of, and the order of answers on both, is what such a store
/// relies on.
#[test]
fn a_store_on_two_devices_never_loses_and_an_explorer_that_takes_one_for_the_other_is_found() {
    let mut judged = 0;
    for seed in 0..8 {
        let history = right_store_of_two(seed, 400);
        let tally = explored(&history, FLUSHED, seed, NO_LIMIT, 2).tally;
        assert_eq!(tally.not_kept(), 0, "seed {seed}: {:?}", tally.worst);
        judged += tally.states;
    }
    assert!(judged > 20_000, "{judged}");
    let broken = flushing_the_wrong_device(right_store_of_two(1, 60));
    let tally = explored(&broken, FLUSHED, 1, NO_LIMIT, 2).tally;
    assert!(tally.not_kept() > 20, "{tally:?}");
    let seen = (0..20).filter(|&seed| {
        let right = any_history_of_two(seed, 60);
        first_wrong(&flushing_the_wrong_device(any_history_of_two(seed, 60)), &right, 1).is_some()
    });
    assert!(seen.count() > 10);
    let broken = dropping_what_was_flushed(1, |seed| right_store_of_two(seed, 60));
    assert!(explored(&broken, FLUSHED, 1, NO_LIMIT, 2).tally.not_kept() > 20);
}

#[test]
fn a_store_loses_on_a_device_that_lies_and_nothing_on_a_protected_one() {
    let history = right_store(3, 120);
    let lying = Behaviour { keeps: Keeps::Lies, tear_bytes: 512 };
    let tally = explored(&history, lying, 1, Limits { from: 0, states: 4000, time: None }, 2).tally;
    assert!(tally.first.contains_key(&Class::LostSeveral), "{tally:?}");
    // What is said of damage counts no state that has only lost something.
    let of = |class| tally.classes.get(&class).copied().unwrap_or(0);
    let losses = of(Class::LostLast) + of(Class::LostSeveral);
    let damaged = tally.not_kept() - losses;
    assert_eq!(
        (tally.worse_than(Class::Kept), tally.worse_than(Class::LostSeveral)),
        (losses + damaged, damaged)
    );
    let protected = Behaviour { keeps: Keeps::Answered, tear_bytes: 512 };
    assert_eq!(explored(&history, protected, 1, NO_LIMIT, 2).tally.not_kept(), 0);
}

#[test]
fn a_seed_and_a_number_repeat_a_state_whoever_asks() {
    let history = any_history(11, 400);
    let states = |seed| States::of(&history, FLUSHED, seed, 0, None);
    let (first, again, other) = (states(5), states(5), states(6));
    assert!(first.len() > 500);
    assert!((0..first.len()).all(|number| first.get(number) == again.get(number)));
    assert!((0..first.len().min(other.len())).any(|number| first.get(number) != other.get(number)));
    assert_eq!(first.get(first.len()), None);
    // The tally does not depend on how many judge.
    let history = dropping_what_was_flushed(2, |seed| right_store(seed, 40));
    let one = explored(&history, FLUSHED, 2, NO_LIMIT, 1).tally;
    assert_eq!(one, explored(&history, FLUSHED, 2, NO_LIMIT, 3).tally);
    assert!(one.worst.is_some());
}

#[test]
fn the_first_states_of_a_number_are_spread_over_the_whole_run() {
    let history = right_store(1, 500);
    let states = States::of(&history, FLUSHED, 1, 0, None);
    let epochs: HashSet<usize> =
        (0..states.epochs.len()).map(|state| states.get(state).unwrap().epoch).collect();
    assert_eq!(epochs.len(), states.epochs.len());
}

/// What happened: states were judged by their numbers. Of a run of 150 commits, with 906 moments to
/// cut at, 324 were, all of which had nothing of what was in flight: not one other subset and not
/// one torn block was tried, and "kept in all" was said.
#[test]
fn the_first_states_that_are_judged_are_of_all_kinds_and_of_the_whole_run() {
    let history = right_store(1, 500);
    let states = States::of(&history, FLUSHED, 1, 0, None);
    let moments = states.epochs.len();
    let turns = states.turns(moments);
    let kinds = |kind: fn(&State, usize) -> bool| {
        let is_of = |number: &&usize| {
            let state = states.get(**number).unwrap();
            kind(&state, states.epochs[state.epoch].in_flight.len())
        };
        turns.iter().filter(is_of).count()
    };
    assert!(kinds(|state, _| state.present.is_empty() && state.torn.is_none()) > moments / 3);
    assert!(kinds(|state, _| state.torn.is_some()) > moments / 40, "torn blocks");
    assert!(kinds(|state, all| (1..all).contains(&state.present.len())) > moments / 10, "subsets");
    let epochs: HashSet<usize> = turns.iter().map(|turn| states.get(*turn).unwrap().epoch).collect();
    assert!(epochs.len() > moments * 3 / 4, "{} of {moments}", epochs.len());
    // Each has one turn, and pieces are parts of one whole.
    let all = states.turns(usize::MAX);
    assert_eq!(all[..moments], turns);
    assert_eq!(all.iter().collect::<HashSet<_>>().len(), states.len());
    assert_eq!(all.len(), states.len());
}
