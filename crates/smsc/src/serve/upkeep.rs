//! Timers and the Flusher: threads that wait for their sessions, beside the tasks that serve.

use super::front::Front;
use super::log::Level;
use crate::centre::{Archive, Operation, Outcome, Place, write_csv};
use crate::file_identity::FileIdentity;
use crate::housekeeping::flush;
use crate::store::{Acknowledge, StoreError, WatchedSession};
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// Rows that one transaction of a timer handles.
const BATCH: usize = 256;
/// Messages that one transaction of the Flusher handles.
const FLUSH_BATCH: usize = 1024;
/// How often the queues are swept for what has expired, a stretch at a time, µs.
const SWEEP_US: i64 = 250_000;
/// How often leases are looked at, and receipts of peers that are overdue, µs.
const LEASES_US: i64 = 1_000_000;
/// A round that begins so long after the one before: this process stood still, µs.
const STOOD_US: i64 = 5_000_000;
/// Claims are given up so much later then, µs: what has been answered meanwhile has to be heard
/// first, and what was sent has its whole time for an answer, 45 s at most, which does not go on
/// while the machine is suspended.
const STOOD_WAIT_US: i64 = 50_000_000;
/// How often timers and the Flusher look, when nothing was due.
const TICK: Duration = Duration::from_millis(20);
/// How often the store's directory is looked for.
const LOOK: Duration = Duration::from_millis(200);

/// Does something where its thread ends in a panic.
struct OnPanic<F: Fn()>(F);

impl<F: Fn()> Drop for OnPanic<F> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            (self.0)();
        }
    }
}

/// Fails the server where this thread panics: it is not to go on without it.
fn failing(front: &Arc<Front>) -> OnPanic<impl Fn()> {
    let front = Arc::clone(front);
    OnPanic(move || front.fail("a thread of the server has panicked"))
}

/// The threads.
pub(super) struct Upkeep(Vec<JoinHandle<()>>);

impl Upkeep {
    /// Waits until they have ended.
    pub fn join(self) {
        for thread in self.0 {
            // One that panicked has told so, and has failed the server.
            let _ = thread.join();
        }
    }
}

/// Starts the threads; `directory` of a store that has one, `archive` for one whose final messages
/// leave it.
pub(super) fn start(
    front: &Arc<Front>,
    directory: Option<FileIdentity>,
    archive: Option<Archive>,
) -> std::io::Result<Upkeep> {
    let named = |name: &str| std::thread::Builder::new().name(name.into());
    let of_timers = Arc::clone(front);
    let mut threads = vec![named("smsc-timers").spawn(move || {
        let _failing = failing(&of_timers);
        if let Err(error) = timers(&of_timers) {
            of_timers.fail(error);
        }
    })?];
    if let Some(directory) = directory {
        let front = Arc::clone(front);
        threads.push(named("smsc-directory").spawn(move || {
            let _failing = failing(&front);
            if let Err(error) = require(&front, &directory) {
                front.fail(error);
            }
        })?);
    }
    if let Some(mut archive) = archive {
        let front = Arc::clone(front);
        threads.push(named("smsc-flusher").spawn(move || {
            let _failing = failing(&front);
            if let Err(error) = flusher(&front, &mut archive) {
                front.fail(error);
            }
        })?);
    }
    Ok(Upkeep(threads))
}

fn count(session: &mut WatchedSession<'_>, operation: Operation) -> Result<usize, StoreError> {
    match session.call(operation)? {
        Outcome::Count(count) => Ok(count),
        _ => Err(StoreError::protocol("a timer gives a count")),
    }
}

/// Looks whether the store's directory is there, until the server ends: mmdb and SQLite see at each
/// commit that their files are, and the server of a private store may not for a minute, or at all.
/// By itself, as all that asks the store waits if its server has ended for want of a file.
fn require(front: &Front, directory: &FileIdentity) -> Result<(), StoreError> {
    while !front.has_ended() {
        directory.require()?;
        std::thread::sleep(LOOK);
    }
    Ok(())
}

/// When leases are looked at.
struct Leases {
    /// Not before this.
    due_us: i64,
    /// When the round before began, and whether that was late.
    round: (i64, bool),
}

impl Leases {
    fn new(now_us: i64) -> Leases {
        Leases { due_us: i64::MIN, round: (now_us, false) }
    }

    /// Whether they are to be looked at in the round that begins now. Rounds that are late one
    /// after the other are those of a slow store, which puts nothing off.
    fn are_due(&mut self, now_us: i64) -> bool {
        let (before_us, was_late) = self.round;
        let is_late = now_us.saturating_sub(before_us) >= STOOD_US;
        if is_late && !was_late {
            self.due_us = self.due_us.max(now_us.saturating_add(STOOD_WAIT_US));
        }
        self.round = (now_us, is_late);
        now_us >= self.due_us
    }
}

/// Scheduled Message Timer, Retry, expiry and leases, until the server ends.
fn timers(front: &Front) -> Result<(), StoreError> {
    let mut session = front.store.watched_session(Acknowledge::Early)?;
    let (mut place, mut sweep_us) = (Place::BEGIN, i64::MIN);
    let mut leases = Leases::new(front.clock.now_us());
    while !front.has_ended() {
        let now_us = front.clock.now_us();
        let leases_are_due = leases.are_due(now_us);
        let mut usual = count(&mut session, Operation::ReleaseScheduled { now_us, max: BATCH })?;
        let woken = count(&mut session, Operation::WakeDue { now_us, max: BATCH })?;
        let mut freed = 0;
        if now_us >= sweep_us {
            let expire = Operation::Expire { from: place, now_us, max: BATCH };
            let Outcome::Swept { count, next, .. } = session.call(expire)? else {
                return Err(StoreError::protocol("a sweep tells where it ended"));
            };
            front.metrics.expired.add(count as u64);
            place = next.unwrap_or(Place::BEGIN);
            sweep_us = if count > 0 { now_us } else { now_us + SWEEP_US };
            usual += count;
        }
        if leases_are_due {
            freed = count(&mut session, Operation::FreeLeases { now_us, until_us: now_us, max: BATCH })?;
            let overdue = count(&mut session, Operation::Overdue { now_us, max: BATCH })?;
            leases.due_us = if freed + overdue == 0 { now_us + LEASES_US } else { now_us };
            usual += overdue;
        }
        match (freed, usual, woken) {
            (0, 0, 0) => std::thread::sleep(TICK),
            (0, 0, _) => front.look_again(),
            (0, ..) => {
                // What was woken is known, and is not to wait for the look at all.
                front.look_again();
                front.look_soon();
            }
            _ => front.look_everywhere(),
        }
    }
    Ok(())
}

/// The Flusher, until the server has ended and all is archived.
fn flusher(front: &Arc<Front>, archive: &mut Archive) -> Result<(), crate::centre::ArchiveError> {
    let mut session = front.store.store().session(Acknowledge::Durable)?;
    // Closed files as CSV are made beside, one after the other: a long one takes seconds.
    let mut csv: Option<JoinHandle<()>> = None;
    let mut csv_is_due = archive.has_csv();
    loop {
        let last = front.has_ended();
        if archive.rotate(front.clock.now_us())? {
            front.log.at(Level::Info, "archive_rotated");
            csv_is_due = archive.has_csv();
        }
        if csv_is_due && !last && csv.as_ref().is_none_or(JoinHandle::is_finished) {
            (csv, csv_is_due) = (write_csv_beside(front, archive.directory())?, false);
        }
        let flushed = flush(&mut *session, archive, FLUSH_BATCH)?;
        front.metrics.archived.add(flushed as u64);
        if flushed == 0 {
            if last {
                if let Some(csv) = csv {
                    // One that panicked has told so; the next start makes what is missing.
                    let _ = csv.join();
                }
                return Ok(());
            }
            std::thread::sleep(TICK);
        }
    }
}

/// Makes the CSV of closed files in a thread. That it fails does not end the centre: the archive
/// itself is there.
fn write_csv_beside(front: &Arc<Front>, directory: &Path) -> Result<Option<JoinHandle<()>>, StoreError> {
    let (front, place) = (Arc::clone(front), directory.to_owned());
    let run = move || {
        if let Err(error) = write_csv(&place) {
            front.log.at(Level::Error, "csv_failed").text("message", &error.to_string());
        }
    };
    let started = std::thread::Builder::new().name("smsc-csv".into()).spawn(run);
    started.map(Some).map_err(StoreError::io(directory))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    /// A process that stood still for longer than a claim holds gave up all that it had in flight
    /// before it had read the answers: all of it was delivered once more.
    #[test]
    fn who_stood_still_gives_no_claim_up_at_once() {
        const S: i64 = 1_000_000;
        let mut leases = Leases::new(1000 * S);
        assert!(leases.are_due(1000 * S) && leases.are_due(1001 * S));
        assert!(!leases.are_due(1100 * S), "it stood still");
        assert!((1101..1150).all(|s| !leases.are_due(s * S)));
        assert!(leases.are_due(1150 * S));
        // A store that takes long for each round keeps claims from being given up once.
        assert!((1156..=1204).step_by(6).all(|s| !leases.are_due(s * S)));
        assert!(leases.are_due(1210 * S) && leases.are_due(1216 * S));
    }

    /// What happened: a thread of timers that had panicked was to have failed the server, and had
    /// not: the centre went on without timers.
    #[test]
    fn a_panic_is_told_and_an_end_is_not() {
        for panics in [true, false] {
            let told = Arc::new(AtomicBool::new(false));
            let of_thread = Arc::clone(&told);
            let thread = std::thread::spawn(move || {
                let _told = OnPanic(|| of_thread.store(true, Relaxed));
                assert!(!panics, "as it was told to");
            });
            assert_eq!(thread.join().is_err(), panics);
            assert_eq!(told.load(Relaxed), panics);
        }
    }
}
