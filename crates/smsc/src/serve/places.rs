//! Places of strangers: connections of whoever has not shown yet who it is.
//!
//! They are counted apart from those of applications, so that they take none of theirs. Where all
//! are taken, the oldest of the source that has most of them goes for the next that comes: whoever
//! fills them drives out its own, and a client from elsewhere always gets in.

use super::source::Source;
use std::collections::{BTreeMap, HashMap};
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
    /// Of one source at most.
    of_source: usize,
    table: Mutex<Table>,
}

impl Places {
    /// So many places, of which one source has half at most.
    pub fn new(most: usize) -> Arc<Places> {
        let free = Arc::new(Semaphore::new(most));
        Arc::new(Places { free, of_source: most.div_ceil(2), table: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a connection from there. Where all are taken somebody is driven out; none if
    /// nobody can be, or does not go in time.
    pub async fn enter(self: &Arc<Self>, source: Source) -> Option<Stranger> {
        {
            let mut table = self.lock();
            if table.by_source.get(&source).is_some_and(|those| those.len() >= self.of_source) {
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
        Some(Stranger { places: Arc::clone(self), source, number, driven_out, _permit: permit })
    }
}

/// The place of a stranger, until it is dropped.
pub(super) struct Stranger {
    places: Arc<Places>,
    source: Source,
    number: u64,
    /// Told when it has to go.
    pub driven_out: Arc<Notify>,
    _permit: OwnedSemaphorePermit,
}

impl Stranger {
    /// It has shown who it is, and is not driven out any more; false if it was just before. It
    /// keeps its place.
    pub fn settle(&self) -> bool {
        self.places.lock().remove(self.source, self.number)
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        self.places.lock().remove(self.source, self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(last: u8) -> Source {
        Source::of([192, 0, 2, last].into())
    }

    async fn is_driven_out(stranger: &Stranger) -> bool {
        tokio::time::timeout(Duration::ZERO, stranger.driven_out.notified()).await.is_ok()
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
        // Who is settled stays, and who was driven out cannot settle.
        assert!(of_three.settle() && !of_three.settle());
    }

    #[tokio::test]
    async fn nobody_gets_in_where_all_are_settled() {
        let places = Places::new(1);
        let only = places.enter(source(1)).await.unwrap();
        assert!(only.settle());
        assert!(places.enter(source(2)).await.is_none());
        drop(only);
        assert!(places.enter(source(2)).await.is_some());
    }
}
