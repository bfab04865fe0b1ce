//! Guesses of passwords: each one that was wrong makes the next wait longer.
//!
//! They are counted for each source, and for each account at each source. Nothing is counted for an
//! account alone, so that nobody locks its owner out from elsewhere. An account that was right at a
//! source is not held up there by guesses at others of the same source, behind a proxy for example.

use super::source::Source;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Wrong guesses at an account, from a source, before the first wait.
const FREE: u32 = 5;
/// Wrong guesses of a source, at whatever, before the first wait.
const FREE_OF_SOURCE: u32 = 20;
/// The first wait, and the longest that it grows to, by doubling.
const WAIT: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(300));
/// So long after the last of them guesses are forgotten.
const FORGOTTEN: Duration = Duration::from_secs(900);
/// Entries of each table at most; the oldest makes room for a new one.
const MANY: usize = 4096;

/// Whose password is guessed at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Owner {
    /// The account of this number.
    Account(u32),
    /// Who operates the centre.
    Operator,
}

/// Wrong guesses.
#[derive(Clone, Copy)]
struct Guesses {
    wrong: u32,
    last: Instant,
}

impl Guesses {
    /// How long the next one has to wait.
    fn wait(self, free: u32, now: Instant) -> Duration {
        let since = now.saturating_duration_since(self.last);
        if self.wrong < free || since >= FORGOTTEN {
            return Duration::ZERO;
        }
        let doubled = WAIT.0.saturating_mul(1 << (self.wrong - free).min(16));
        doubled.min(WAIT.1).saturating_sub(since)
    }
}

#[derive(Default)]
struct Table {
    at: HashMap<(Source, Owner), Guesses>,
    of: HashMap<Source, Guesses>,
    /// When an account was last right at a source.
    right: HashMap<(Source, Owner), Instant>,
    /// When any was.
    known: HashMap<Source, Instant>,
}

/// Makes room for a new key.
fn make_room<K: Copy + Eq + Hash, V>(map: &mut HashMap<K, V>, key: &K, age: impl Fn(&V) -> Instant) {
    if map.len() < MANY || map.contains_key(key) {
        return;
    }
    if let Some(oldest) = map.iter().min_by_key(|entry| age(entry.1)).map(|entry| *entry.0) {
        map.remove(&oldest);
    }
}

fn count<K: Copy + Eq + Hash>(map: &mut HashMap<K, Guesses>, key: K, now: Instant) {
    make_room(map, &key, |guesses| guesses.last);
    let guesses = map.entry(key).or_insert(Guesses { wrong: 0, last: now });
    if now.saturating_duration_since(guesses.last) >= FORGOTTEN {
        guesses.wrong = 0;
    }
    *guesses = Guesses { wrong: guesses.wrong.saturating_add(1), last: now };
}

/// What is known of guesses.
#[derive(Default)]
pub(super) struct Brake(Mutex<Table>);

impl Brake {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How long an attempt has to wait; none if it need not. `owner` is none for a name that nobody
    /// has.
    pub fn wait(&self, source: Source, owner: Option<Owner>, now: Instant) -> Option<Duration> {
        let table = self.lock();
        let key = owner.map(|owner| (source, owner));
        let at = key.and_then(|key| table.at.get(&key)).map_or(Duration::ZERO, |at| at.wait(FREE, now));
        let is_known = key.is_some_and(|key| table.right.contains_key(&key));
        let of = table.of.get(&source).filter(|_| !is_known);
        let of = of.map_or(Duration::ZERO, |of| of.wait(FREE_OF_SOURCE, now));
        Some(at.max(of)).filter(|wait| !wait.is_zero())
    }

    /// Whether anybody was right at a source.
    pub fn is_known(&self, source: Source) -> bool {
        self.lock().known.contains_key(&source)
    }

    /// An attempt was wrong.
    pub fn wrong(&self, source: Source, owner: Option<Owner>, now: Instant) {
        let mut table = self.lock();
        count(&mut table.of, source, now);
        if let Some(owner) = owner {
            count(&mut table.at, (source, owner), now);
        }
    }

    /// An attempt was right.
    pub fn right(&self, source: Source, owner: Owner, now: Instant) {
        let mut table = self.lock();
        let key = (source, owner);
        table.at.remove(&key);
        make_room(&mut table.right, &key, |last| *last);
        table.right.insert(key, now);
        make_room(&mut table.known, &source, |last| *last);
        table.known.insert(source, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(last: u8) -> Source {
        Source::of([192, 0, 2, last].into())
    }

    #[test]
    fn waits_grow_and_are_the_guessers_alone() {
        let (brake, now, owner) = (Brake::default(), Instant::now(), Some(Owner::Account(1)));
        let mut waits = Vec::new();
        for _ in 0..20 {
            waits.push(brake.wait(source(1), owner, now).map_or(0, |wait| wait.as_secs()));
            brake.wrong(source(1), owner, now);
        }
        assert_eq!(waits[..9], [0, 0, 0, 0, 0, 1, 2, 4, 8]);
        assert_eq!(waits[19], 300);
        // Its owner elsewhere, and another account there, which was right before.
        assert_eq!(brake.wait(source(2), owner, now), None);
        let other = Owner::Account(2);
        assert!(brake.wait(source(1), Some(other), now).is_some(), "twenty of one source");
        assert!(brake.wait(source(1), None, now).is_some());
        brake.right(source(1), other, now);
        assert_eq!(brake.wait(source(1), Some(other), now), None);
        // A wait ends, and all is forgotten in the end.
        assert_eq!(brake.wait(source(1), owner, now + WAIT.1), None);
        brake.wrong(source(1), owner, now + FORGOTTEN);
        assert_eq!(brake.wait(source(1), owner, now + FORGOTTEN), None);
    }

    #[test]
    fn the_tables_are_bounded() {
        let (brake, begin) = (Brake::default(), Instant::now());
        for number in 0..2 * MANY as u32 {
            let source = Source::of(std::net::Ipv4Addr::from(number).into());
            let now = begin + Duration::from_millis(number.into());
            brake.wrong(source, Some(Owner::Operator), now);
            brake.right(source, Owner::Account(number), now);
        }
        let table = brake.lock();
        assert!(table.of.len() <= MANY && table.at.len() <= MANY && table.right.len() <= MANY);
        assert!(!table.of.contains_key(&source(0)) && table.of.len() == MANY);
    }
}
