//! Where a database's threads come from.
//!
//! A thread may be refused: a process and a user have only so many (`RLIMIT_NPROC`, systemd's
//! `TasksMax`, a container's `pids.max`), and each takes memory. Work that is shared out goes on
//! with fewer threads; the threads that a database lives by are an error where they are missing.
//! [`Spawner::failing`] refuses threads by their number, for tests.

use crate::sync::thread::{Builder, JoinHandle};
use std::io;
use std::ops::RangeBounds;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Scope, ScopedJoinHandle};

/// Starts threads. Clones count together.
///
/// ```
/// use mmdb::{Database, Options, Spawner};
/// let spawner = Spawner::failing(2..);                       // the first one can be started, no other
/// let refused = Database::open("/db", Options { spawner, ..Options::in_memory() });
/// assert!(refused.unwrap_err().to_string().contains("start a thread"));
/// ```
#[derive(Clone, Debug, Default)]
#[doc(hidden)]
pub struct Spawner(Option<Arc<Refusals>>);

#[derive(Debug)]
struct Refusals {
    /// The numbers of the threads that are refused, from 1.
    first: usize,
    last: usize,
    /// Threads asked for so far.
    asked: AtomicUsize,
}

impl Spawner {
    /// Refuses the threads with these numbers, counted from 1 as they are asked for.
    #[must_use]
    pub fn failing(numbers: impl RangeBounds<usize>) -> Spawner {
        use std::ops::Bound::{Excluded, Included, Unbounded};
        let first = match numbers.start_bound() {
            Included(n) => *n,
            Excluded(n) => n.saturating_add(1),
            Unbounded => 1,
        };
        let last = match numbers.end_bound() {
            Included(n) => *n,
            Excluded(n) => n.saturating_sub(1),
            Unbounded => usize::MAX,
        };
        Spawner(Some(Arc::new(Refusals { first, last, asked: AtomicUsize::new(0) })))
    }

    /// How many threads were asked for, of a spawner that may refuse; 0 of any other.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.0.as_ref().map_or(0, |r| r.asked.load(Ordering::Relaxed))
    }

    fn ask(&self) -> io::Result<()> {
        let Some(r) = &self.0 else { return Ok(()) };
        let number = r.asked.fetch_add(1, Ordering::Relaxed) + 1;
        if (r.first..=r.last).contains(&number) { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(()) }
    }

    /// Starts a thread that the database lives by.
    pub(crate) fn spawn(
        &self,
        name: String,
        run: impl FnOnce() + Send + 'static,
    ) -> io::Result<JoinHandle<()>> {
        let done = self.ask().and_then(|()| Builder::new().name(name.clone()).spawn(run));
        done.map_err(|e| {
            let what = format!(
                "{e} ({name}): the process, its user or its service may have no more threads, or there is no memory for one; \
                 raise RLIMIT_NPROC, TasksMax or pids.max, or ask for fewer streams"
            );
            io::Error::new(e.kind(), what)
        })
    }

    /// Starts a thread that others can do without.
    pub(crate) fn spawn_scoped<'scope, T: Send + 'scope>(
        &self,
        scope: &'scope Scope<'scope, '_>,
        run: impl FnOnce() -> T + Send + 'scope,
    ) -> io::Result<ScopedJoinHandle<'scope, T>> {
        self.ask()?;
        std::thread::Builder::new().name("mmdb-recovery".into()).spawn_scoped(scope, run)
    }

    /// Does parts 0 to `parts` - 1 of a piece of work, each on a thread of its own as far as there
    /// are threads: this one takes its share, and what others cannot take. What each part gave, in
    /// order.
    pub(crate) fn share<T: Send>(&self, parts: usize, part: impl Fn(usize) -> T + Sync) -> Vec<T> {
        let next = AtomicUsize::new(0);
        let done = Mutex::new((0..parts).map(|_| None).collect::<Vec<Option<T>>>());
        let work = || {
            loop {
                let i = next.fetch_add(1, Ordering::Relaxed);
                if i >= parts {
                    return;
                }
                let gave = part(i);
                done.lock().unwrap_or_else(PoisonError::into_inner)[i] = Some(gave);
            }
        };
        std::thread::scope(|scope| {
            let mut others = Vec::new();
            for _ in 1..parts {
                match self.spawn_scoped(scope, work) {
                    Ok(other) => others.push(other),
                    // One more will hardly be granted now.
                    Err(_) => break,
                }
            }
            work();
            for other in others {
                // What is missing would be missing in the database.
                other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            }
        });
        done.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_done_once_whichever_threads_are_refused() {
        for first in 1..6 {
            for numbers in [first..=first, first..=usize::MAX] {
                let s = Spawner::failing(numbers);
                let done: Vec<usize> = s.share(5, |i| i * i);
                assert_eq!(done, [0, 1, 4, 9, 16]);
                assert_eq!(s.requests(), first.min(4));
            }
        }
        assert!(Spawner::default().share(0, |i| i).is_empty());
        assert!(Spawner::failing(..).spawn("x".into(), || ()).is_err());
    }
}
