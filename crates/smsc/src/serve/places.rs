//! Places of strangers: connections of whoever has not shown yet who it is.
//!
//! They are counted apart from those of applications, so that they take none of theirs. Where all
//! are taken, the oldest of the source that has most of them goes for the next that comes: whoever
//! fills them drives out its own, and a client from elsewhere always gets in.

use super::source::Source;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// How long a newcomer waits for the place of one that was driven out.
const EMPTYING: Duration = Duration::from_millis(250);

/// The strangers that may be driven out, by source and by the order in which they came.
#[derive(Default)]
struct Table {
    next: u64,
    by_source: HashMap<Source, BTreeMap<u64, Arc<Notify>>>,
    /// How many are settled.
    settled: usize,
}

impl Table {
    fn insert(&mut self, source: Source, driven_out: &Arc<Notify>) -> u64 {
        self.next += 1;
        self.by_source.entry(source).or_default().insert(self.next, Arc::clone(driven_out));
        self.next
    }

    /// Takes one out of the table; false if it is not there any more.
    fn remove(&mut self, source: Source, number: u64) -> bool {
        let Some(those) = self.by_source.get_mut(&source) else { return false };
        let was_there = those.remove(&number).is_some();
        if those.is_empty() {
            self.by_source.remove(&source);
        }
        was_there
    }

    /// Drives out the oldest of a source.
    fn drive_out(&mut self, source: Source) {
        let oldest = self.by_source.get(&source).and_then(|those| those.iter().next());
        if let Some((number, driven_out)) = oldest.map(|oldest| (*oldest.0, Arc::clone(oldest.1))) {
            driven_out.notify_one();
            self.remove(source, number);
        }
    }

    /// The source that has most; of several the one whose oldest came first.
    fn heaviest(&self) -> Option<Source> {
        let oldest = |those: &BTreeMap<u64, _>| those.keys().next().copied().unwrap_or(u64::MAX);
        let by_weight =
            self.by_source.iter().max_by_key(|(_, those)| (those.len(), u64::MAX - oldest(those)));
        by_weight.map(|heaviest| *heaviest.0)
    }
}

/// Places for strangers.
pub(super) struct Places {
    free: Arc<Semaphore>,
    /// Of one source, and settled, at most.
    half: usize,
    table: Mutex<Table>,
}

impl Places {
    /// So many places, of which one source has half at most.
    pub fn new(most: usize) -> Arc<Places> {
        let free = Arc::new(Semaphore::new(most));
        Arc::new(Places { free, half: most.div_ceil(2), table: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a connection from there. Where all are taken somebody is driven out; none if
    /// nobody can be, or does not go in time.
    pub async fn enter(self: &Arc<Self>, source: Source) -> Option<UnboundConnection> {
        {
            let mut table = self.lock();
            if table.by_source.get(&source).is_some_and(|those| those.len() >= self.half) {
                table.drive_out(source);
            }
        }
        let permit = match Arc::clone(&self.free).try_acquire_owned() {
            Ok(permit) => permit,
            Err(_) => {
                {
                    let mut table = self.lock();
                    let heaviest = table.heaviest()?;
                    table.drive_out(heaviest);
                }
                let acquired = Arc::clone(&self.free).acquire_owned();
                tokio::time::timeout(EMPTYING, acquired).await.ok()?.ok()?
            }
        };
        let driven_out = Arc::new(Notify::new());
        let number = self.lock().insert(source, &driven_out);
        let (places, is_settled) = (Arc::clone(self), AtomicBool::new(false));
        Some(UnboundConnection { places, source, number, driven_out, is_settled, _permit: permit })
    }
}

/// The place of a stranger, until it is dropped.
pub(super) struct UnboundConnection {
    places: Arc<Places>,
    source: Source,
    number: u64,
    /// Told when it has to go.
    pub driven_out: Arc<Notify>,
    is_settled: AtomicBool,
    _permit: OwnedSemaphorePermit,
}

impl UnboundConnection {
    /// It has shown who it is and goes to another place: it is not driven out any more; false if it
    /// was just before.
    pub fn leave(&self) -> bool {
        self.places.lock().remove(self.source, self.number)
    }

    /// It has shown who it is, and keeps this place, from which it is not driven out any more. Half
    /// of the places can be settled, so that there is always room for who comes.
    pub fn settle(&self) {
        let mut table = self.places.lock();
        if table.settled < self.places.half && table.remove(self.source, self.number) {
            table.settled += 1;
            self.is_settled.store(true, Relaxed);
        }
    }
}

impl Drop for UnboundConnection {
    fn drop(&mut self) {
        let mut table = self.places.lock();
        table.remove(self.source, self.number);
        table.settled -= usize::from(self.is_settled.load(Relaxed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(last: u8) -> Source {
        Source::of([192, 0, 2, last].into())
    }

    async fn is_driven_out(unbound: &UnboundConnection) -> bool {
        tokio::time::timeout(Duration::ZERO, unbound.driven_out.notified()).await.is_ok()
    }

    #[tokio::test]
    async fn who_fills_the_places_drives_out_its_own() {
        let places = Places::new(4);
        let mut of_one = Vec::new();
        for _ in 0..2 {
            of_one.push(places.enter(source(1)).await.unwrap());
        }
        // A third of the same: its first goes, though two places are free.
        let third = places.enter(source(1)).await.unwrap();
        assert!(is_driven_out(&of_one[0]).await && !is_driven_out(&of_one[1]).await);
        drop(of_one.remove(0));
        let of_two = places.enter(source(2)).await.unwrap();
        let of_three = places.enter(source(3)).await.unwrap();
        // All four are taken: the oldest of the one that has two goes, and its place is taken as
        // soon as it has gone.
        let waits = tokio::spawn({
            let places = Arc::clone(&places);
            async move { places.enter(source(4)).await.is_some() }
        });
        of_one[0].driven_out.notified().await;
        of_one.clear();
        assert!(waits.await.unwrap());
        assert!(!is_driven_out(&third).await && !is_driven_out(&of_two).await);
        // Who was driven out cannot leave for another place.
        assert!(of_three.leave() && !of_three.leave());
    }

    #[tokio::test]
    async fn half_of_the_places_can_be_settled() {
        let places = Places::new(2);
        let first = places.enter(source(1)).await.unwrap();
        first.settle();
        let second = places.enter(source(1)).await.unwrap();
        second.settle();
        assert!(!is_driven_out(&first).await && !is_driven_out(&second).await);
        // The second could not: it goes for the next.
        assert!(places.enter(source(2)).await.is_none(), "nobody has gone yet");
        assert!(!is_driven_out(&first).await && is_driven_out(&second).await);
        drop((first, second));
        assert_eq!(places.lock().settled, 0);
        assert!(places.enter(source(2)).await.is_some());
    }
}
