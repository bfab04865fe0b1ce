//! Passwords are looked at by threads of their own: each look takes some milliseconds of a
//! processor and 19 MiB, which tasks that serve must not wait for, and of which a flood must not
//! have many.
//!
//! What waits is bounded, and taken in turn by source, one of each at a time: a flood from one
//! source delays nobody else, and each guess finds all before it counted. Whoever has gone
//! meanwhile costs nothing. A password that was right is remembered by its digest, so that clients
//! that come back by the hundred are let in at once.

use super::brake::{Brake, Owner};
use super::password::is_password;
use super::source::Source;
use super::token::{hash_token, new_token};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// Attempts that wait at most.
const WAITING: usize = 512;
/// Passwords that are looked at at a time, at most.
const THREADS: usize = 4;
/// How long a password that was right is not looked at again.
const REMEMBERED: Duration = Duration::from_secs(600);
/// Passwords that are remembered at most.
const MANY: usize = 1024;

/// Somebody says who it is.
pub(super) struct Attempt {
    /// From where.
    pub source: Source,
    /// Whose password it is said to be.
    pub owner: Owner,
    /// The hash of the right one.
    pub hash: String,
    /// What is given.
    pub password: String,
}

/// What comes of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Right,
    Wrong,
    /// Too many were wrong before: try again after so long.
    Braked(Duration),
    /// Too many wait.
    Busy,
}

struct Job {
    attempt: Attempt,
    digest: String,
    /// Whether somebody of its source was right before.
    is_known: bool,
    to: oneshot::Sender<Verdict>,
}

/// What waits, by source.
#[derive(Default)]
struct Queue {
    /// Sources of which none is looked at now, in turn.
    turns: VecDeque<Source>,
    waiting: HashMap<Source, VecDeque<Job>>,
    count: usize,
    /// Sources of which one is looked at now.
    busy: HashSet<Source>,
    has_ended: bool,
}

/// Who makes room where too many wait: sources that are not known, then those that have most.
fn weight(jobs: &VecDeque<Job>) -> (bool, usize) {
    (jobs.back().is_some_and(|job| !job.is_known), jobs.len())
}

impl Queue {
    /// Adds a job. Where too many wait, the last of the source that has most of them is refused.
    fn push(&mut self, job: Job) {
        let source = job.attempt.source;
        let of_source = self.waiting.entry(source).or_default();
        if of_source.is_empty() && !self.busy.contains(&source) {
            if job.is_known {
                self.turns.push_front(source);
            } else {
                self.turns.push_back(source);
            }
        }
        of_source.push_back(job);
        self.count += 1;
        if self.count > WAITING
            && let Some(heaviest) = self.waiting.values_mut().max_by_key(|jobs| weight(jobs))
            && let Some(last) = heaviest.pop_back()
        {
            self.count -= 1;
            // Who has gone need not be told.
            let _ = last.to.send(Verdict::Busy);
        }
    }

    /// The next job; its source is busy until [`Queue::done`].
    fn next(&mut self) -> Option<Job> {
        while let Some(source) = self.turns.pop_front() {
            let Some(jobs) = self.waiting.get_mut(&source) else { continue };
            while let Some(job) = jobs.pop_front() {
                self.count -= 1;
                if !job.to.is_closed() {
                    self.busy.insert(source);
                    return Some(job);
                }
            }
            self.waiting.remove(&source);
        }
        None
    }

    fn done(&mut self, source: Source) {
        self.busy.remove(&source);
        match self.waiting.get(&source) {
            Some(jobs) if !jobs.is_empty() => self.turns.push_back(source),
            _ => _ = self.waiting.remove(&source),
        }
    }
}

/// What a password was when it was right.
struct Right {
    hash: String,
    until: Instant,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    filled: Condvar,
    /// By the digest of owner and password, with a key of this process.
    right: Mutex<HashMap<String, Right>>,
    brake: Brake,
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn right(&self) -> MutexGuard<'_, HashMap<String, Right>> {
        self.right.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of an attempt without a look.
    fn known(&self, attempt: &Attempt, digest: &str, now: Instant) -> Option<Verdict> {
        // The brake is first: what is remembered must not tell a guesser more quickly.
        if let Some(wait) = self.brake.wait(attempt.source, Some(attempt.owner), now) {
            return Some(Verdict::Braked(wait));
        }
        let right = self.right();
        let is_right = right.get(digest).is_some_and(|right| right.hash == attempt.hash && now < right.until);
        is_right.then_some(Verdict::Right)
    }

    fn remember(&self, digest: String, hash: String, now: Instant) {
        let mut right = self.right();
        if right.len() >= MANY {
            right.retain(|_, right| now < right.until);
        }
        if right.len() < MANY {
            right.insert(digest, Right { hash, until: now + REMEMBERED });
        }
    }

    /// Looks at what waits, until the end.
    fn run(&self) {
        let mut queue = self.queue();
        while !queue.has_ended {
            let Some(Job { attempt, digest, to, .. }) = queue.next() else {
                queue = self.filled.wait(queue).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(queue);
            let source = attempt.source;
            let verdict = self.known(&attempt, &digest, Instant::now());
            let verdict = verdict.unwrap_or_else(|| self.look(attempt, digest));
            let _ = to.send(verdict);
            queue = self.queue();
            queue.done(source);
            self.filled.notify_one();
        }
    }

    fn look(&self, attempt: Attempt, digest: String) -> Verdict {
        let Attempt { source, owner, hash, password } = attempt;
        let is_right = is_password(&hash, &password);
        let now = Instant::now();
        if is_right {
            self.brake.right(source, owner, now);
            self.remember(digest, hash, now);
            Verdict::Right
        } else {
            self.brake.wrong(source, Some(owner), now);
            Verdict::Wrong
        }
    }
}

/// Looks at passwords.
pub(super) struct Authenticator {
    shared: Arc<Shared>,
    key: String,
}

impl Authenticator {
    /// Starts its threads: half as many as there are processors, so that others serve meanwhile.
    ///
    /// # Errors
    /// A thread cannot be started; the system gives no random octets.
    pub fn start() -> std::io::Result<Authenticator> {
        let key = new_token().map_err(std::io::Error::other)?;
        let shared = Arc::new(Shared::default());
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        for _ in 0..(processors / 2).clamp(1, THREADS) {
            let shared = Arc::clone(&shared);
            let named = std::thread::Builder::new().name("smsc-password".into());
            // It ends with the authenticator.
            drop(named.spawn(move || shared.run())?);
        }
        Ok(Authenticator { shared, key })
    }

    /// Whether a password is right.
    pub async fn verdict(&self, attempt: Attempt) -> Verdict {
        let digest = hash_token(&format!("{}:{:?}:{}", self.key, attempt.owner, attempt.password));
        if let Some(known) = self.shared.known(&attempt, &digest, Instant::now()) {
            if known == Verdict::Right {
                self.shared.brake.right(attempt.source, attempt.owner, Instant::now());
            }
            return known;
        }
        let (to, verdict) = oneshot::channel();
        let is_known = self.shared.brake.is_known(attempt.source);
        self.shared.queue().push(Job { attempt, digest, is_known, to });
        self.shared.filled.notify_one();
        verdict.await.unwrap_or(Verdict::Busy)
    }

    /// An attempt with a name that nobody has, or with a wrong token: counted, or how long it
    /// should have waited.
    pub fn stranger(&self, source: Source) -> Verdict {
        let now = Instant::now();
        match self.shared.brake.wait(source, None, now) {
            Some(wait) => Verdict::Braked(wait),
            None => {
                self.shared.brake.wrong(source, None, now);
                Verdict::Wrong
            }
        }
    }
}

impl Drop for Authenticator {
    fn drop(&mut self) {
        self.shared.queue().has_ended = true;
        self.shared.filled.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(last: u8, password: &str) -> (Job, oneshot::Receiver<Verdict>) {
        let (to, verdict) = oneshot::channel();
        let source = Source::of([192, 0, 2, last].into());
        let (owner, hash) = (Owner::Account(1), String::new());
        let attempt = Attempt { source, owner, hash, password: password.into() };
        (Job { attempt, digest: String::new(), is_known: last == 3, to }, verdict)
    }

    /// A flood of one source: another is next but one, and of each one is looked at at a time.
    #[test]
    fn sources_take_turns_and_a_flood_is_cut() {
        let mut queue = Queue::default();
        let mut flood: Vec<_> = (0..WAITING)
            .map(|_| {
                let (job, verdict) = job(1, "guess");
                queue.push(job);
                verdict
            })
            .collect();
        let (other, mut verdict) = job(2, "right");
        queue.push(other);
        assert_eq!(flood.last_mut().unwrap().try_recv(), Ok(Verdict::Busy));
        let (known, _verdict) = job(3, "known");
        queue.push(known);
        assert!(verdict.try_recv().is_err(), "it waits");
        assert_eq!(queue.next().unwrap().attempt.password, "known");
        assert_eq!(queue.next().unwrap().attempt.password, "guess");
        assert_eq!(queue.next().unwrap().attempt.password, "right");
        assert!(queue.next().is_none(), "one of each source");
        queue.done(Source::of([192, 0, 2, 1].into()));
        // Whoever has gone costs nothing.
        flood.truncate(1);
        assert!(queue.next().is_none());
        assert_eq!(queue.count, 0);
    }
}
