//! A simulated mobile network: any number of stations, which cost nothing, because what a station
//! does is a function of the seed, the station, the message and the attempt.
//!
//! It also watches: a station that is given a second message while one is in flight is an error of
//! the centre, counted.

mod file;

pub use fathom_diagnostic::Diagnostic;

use crate::centre::{Delivery, Failure};
use crate::model::StationKey;
use fathom_random::Random;
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Median times of an attempt by its outcome, µs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Times {
    /// Delivered.
    pub delivered_us: u64,
    /// The station is absent.
    pub absent_us: u64,
    /// It is busy.
    pub busy_us: u64,
    /// Its memory is full.
    pub memory_full_us: u64,
    /// It does not exist.
    pub unknown_us: u64,
}

impl Times {
    /// As usual: so long where a station answers, ten times as long where none does.
    #[must_use]
    pub fn usual(answer_us: u64) -> Times {
        Times {
            delivered_us: answer_us,
            absent_us: 10 * answer_us,
            busy_us: answer_us,
            memory_full_us: answer_us,
            unknown_us: answer_us,
        }
    }

    fn of(&self, result: Result<(), Failure>) -> u64 {
        match result {
            Ok(()) => self.delivered_us,
            Err(Failure::Absent) => self.absent_us,
            Err(Failure::Busy) => self.busy_us,
            Err(Failure::MemoryFull) => self.memory_full_us,
            Err(Failure::Unknown) => self.unknown_us,
        }
    }
}

/// How mobiles behave. Shares are out of 10,000; what is left of a first attempt is delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkProfile {
    /// Same seed, same behaviour.
    pub seed: u64,
    /// First attempts that find the station absent.
    pub absent: u32,
    /// First attempts that find it busy.
    pub busy: u32,
    /// First attempts that find its memory full.
    pub memory_full: u32,
    /// Stations that do not exist.
    pub unknown: u32,
    /// Later attempts fail so many thousandths as often: most come after an alert.
    pub later_permille: u32,
    /// How long attempts take; 0: the answer comes at once.
    pub latency: Times,
    /// Mean time until an absent or full station is there again, µs.
    pub absence_us: u64,
    /// Every time above is divided by this.
    pub time_factor: u64,
    /// Numbers that begin with these digits always behave so; `None` is delivered. The first that
    /// fits counts.
    pub prefixes: Vec<(String, Option<Failure>)>,
}

impl Default for NetworkProfile {
    /// First attempts: 90 % delivered, 7 % absent, 2 % busy, 1 % unknown; a short message takes 3
    /// s.
    fn default() -> Self {
        NetworkProfile {
            seed: 1,
            absent: 700,
            busy: 200,
            memory_full: 0,
            unknown: 100,
            later_permille: 250,
            latency: Times::usual(3_000_000),
            absence_us: 1_800_000_000,
            time_factor: 1,
            prefixes: Vec::new(),
        }
    }
}

impl NetworkProfile {
    /// Every station answers at once and takes everything.
    #[must_use]
    pub fn perfect(seed: u64) -> NetworkProfile {
        NetworkProfile {
            seed,
            absent: 0,
            busy: 0,
            memory_full: 0,
            unknown: 0,
            latency: Times::default(),
            absence_us: 0,
            ..NetworkProfile::default()
        }
    }

    /// The longest time that an attempt may take, µs.
    #[must_use]
    pub fn longest_attempt_us(&self) -> u64 {
        let Times { delivered_us, absent_us, busy_us, memory_full_us, unknown_us } = self.latency;
        let longest = [delivered_us, absent_us, busy_us, memory_full_us, unknown_us].into_iter().max();
        spread(longest.unwrap_or(0), 1023) / self.time_factor.max(1)
    }
}

/// A latency between half and one and a half of its median, by 10 bits of chance.
fn spread(median_us: u64, chance: u64) -> u64 {
    median_us * (512 + chance) / 1024
}

/// The network.
pub struct Network {
    profile: NetworkProfile,
    in_flight: Vec<Mutex<HashSet<StationKey>>>,
    doubled: AtomicU64,
}

/// What an attempt will give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Delivered, or why not.
    pub result: Result<(), Failure>,
    /// When it is known, µs.
    pub done_us: i64,
    /// When the network will alert the centre, µs.
    pub alert_us: Option<i64>,
}

impl Network {
    /// A network.
    #[must_use]
    pub fn new(profile: NetworkProfile) -> Network {
        let in_flight = (0..64).map(|_| Mutex::default()).collect();
        Network { profile, in_flight, doubled: AtomicU64::new(0) }
    }

    /// Begins an attempt.
    pub fn begin(&self, delivery: &Delivery, now_us: i64) -> Attempt {
        if !self.flight(delivery.station).insert(delivery.station) {
            self.doubled.fetch_add(1, Ordering::Relaxed);
        }
        // An application takes its receipts at once; whether it is bound is the business of its
        // session.
        if delivery.station.account().is_some() {
            return Attempt { result: Ok(()), done_us: now_us, alert_us: None };
        }
        let p = &self.profile;
        let station = mix(p.seed ^ mix(delivery.station.0 as u64));
        let attempt = delivery.message.attempts;
        let word = mix(station ^ mix(delivery.message.msg_id as u64) ^ u64::from(attempt) << 56);
        let result = self.result(delivery, station, word, attempt);
        let latency = spread(p.latency.of(result), (word >> 20) % 1024) / p.time_factor.max(1);
        let done_us = now_us + latency as i64;
        let alerts = matches!(result, Err(failure) if failure.alerts());
        // An exponential distribution by its quantile; the word's upper bits are uniform.
        let uniform = ((word >> 40) as f64 + 0.5) / (1u64 << 24) as f64;
        let absence = p.absence_us as f64 * -uniform.ln() / p.time_factor.max(1) as f64;
        let alert_us = alerts.then_some(done_us.saturating_add(absence as i64));
        Attempt { result, done_us, alert_us }
    }

    fn result(&self, delivery: &Delivery, station: u64, word: u64, attempt: u32) -> Result<(), Failure> {
        let p = &self.profile;
        let number = delivery.message.dst.trim_start_matches('+');
        if let Some((_, always)) = p.prefixes.iter().find(|prefix| number.starts_with(&prefix.0)) {
            return always.map_or(Ok(()), Err);
        }
        if (station % 10_000) < u64::from(p.unknown) {
            return Err(Failure::Unknown);
        }
        let permille = if attempt == 0 { 1000 } else { u64::from(p.later_permille) };
        let share = word % 10_000 * 1000;
        let below = |fail: u32| share < u64::from(fail) * permille;
        if below(p.absent) {
            Err(Failure::Absent)
        } else if below(p.absent + p.busy) {
            Err(Failure::Busy)
        } else if below(p.absent + p.busy + p.memory_full) {
            Err(Failure::MemoryFull)
        } else {
            Ok(())
        }
    }

    /// Ends an attempt; before its result is told to the centre.
    pub fn end(&self, station: StationKey) {
        self.flight(station).remove(&station);
    }

    /// Times that a station was given a message while one was in flight.
    #[must_use]
    pub fn doubled(&self) -> u64 {
        self.doubled.load(Ordering::Relaxed)
    }

    fn flight(&self, station: StationKey) -> std::sync::MutexGuard<'_, HashSet<StationKey>> {
        let shard = mix(station.0 as u64) as usize % self.in_flight.len();
        self.in_flight[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A well-mixed word for each word.
fn mix(word: u64) -> u64 {
    Random::new(word).bits()
}
