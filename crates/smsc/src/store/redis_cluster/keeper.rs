//! What a process does for the store besides its work, in two threads: it says that it is there,
//! and gives back what those had in flight that do not say so any more; and it takes away what is
//! final for too long.

use super::cluster::{Call, Links};
use super::shared::{SILENT, Shared};
use crate::store::StoreError;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How often.
const BEAT: Duration = Duration::from_secs(1);
/// How often it looks whether the store is closed.
const LOOK: Duration = Duration::from_millis(50);
/// Messages that are taken away from one shard at once.
const PURGE_MAX: i64 = 1000;
/// When a message is looked at again whose receipt has not arrived, µs.
const AGAIN_US: i64 = 600_000_000;
/// A process that could not say for so long that it is there knows nothing of others: they may not
/// have been able to either.
const GAP: Duration = Duration::from_secs(3);

/// The threads.
pub(super) struct Keeper {
    threads: [JoinHandle<()>; 2],
    stops: Arc<AtomicBool>,
}

impl Keeper {
    pub fn start(shared: &Arc<Shared>) -> Result<Keeper, StoreError> {
        // Before anything is claimed by this process.
        let mut links = Links::new(&shared.cluster);
        beat(shared, &mut links)?;
        let stops = Arc::new(AtomicBool::new(false));
        let mut beats = Beats { last: Some(Instant::now()), ..Beats::default() };
        let keep = move |shared: &Shared| keep(shared, &mut links, &mut beats);
        let (mut links, mut shard) = (Links::new(&shared.cluster), 0);
        let purge = move |shared: &Shared| purge(shared, &mut links, &mut shard);
        // Beside each other: a master that is gone keeps a purge waiting until there is another,
        // and who does not say meanwhile that it is there is taken for dead.
        let kept = every_beat(shared, &stops, "smsc-redis", keep)?;
        let purged = every_beat(shared, &stops, "smsc-purge", purge);
        let purged = purged.inspect_err(|_| stops.store(true, Relaxed))?;
        Ok(Keeper { threads: [kept, purged], stops })
    }

    pub fn join(self) {
        self.stops.store(true, Relaxed);
        for thread in self.threads {
            // One that panicked has told so.
            let _ = thread.join();
        }
    }
}

/// A thread that does something every [`BEAT`] until the store is closed.
fn every_beat(
    shared: &Arc<Shared>,
    stops: &Arc<AtomicBool>,
    name: &str,
    mut work: impl FnMut(&Shared) -> Result<(), StoreError> + Send + 'static,
) -> Result<JoinHandle<()>, StoreError> {
    let (shared, stops) = (Arc::clone(shared), Arc::clone(stops));
    let run = move || {
        let mut next = Instant::now() + BEAT;
        while !shared.cluster.abandoned.load(Relaxed) && !stops.load(Relaxed) {
            if Instant::now() < next {
                std::thread::sleep(LOOK);
                continue;
            }
            next = Instant::now() + BEAT;
            // What fails is tried again a second later; the sessions tell what is wrong.
            let _ = work(&shared);
        }
    };
    let named = std::thread::Builder::new().name(name.into());
    named.spawn(run).map_err(StoreError::io(Path::new("a thread")))
}

/// When this process has said that it is there.
#[derive(Default)]
struct Beats {
    last: Option<Instant>,
    /// When it could again, after a [`GAP`].
    again: Option<Instant>,
}

impl Beats {
    /// It has just said so. Whether it may take others for dead: they have had the time.
    fn say(&mut self, now: Instant) -> bool {
        if self.last.is_some_and(|last| now.saturating_duration_since(last) > GAP) {
            self.again = Some(now);
        }
        self.last = Some(now);
        self.again.is_none_or(|again| now.saturating_duration_since(again) > SILENT)
    }
}

/// The time of day, µs.
pub(super) fn now_us() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_micros()).unwrap_or(i64::MAX)
}

/// Says that this process is there; who has not for too long.
fn beat(shared: &Shared, links: &mut Links) -> Result<Vec<i64>, StoreError> {
    let call = Call::write("beat", 0).number(shared.process.into()).number(SILENT.as_micros() as i64);
    Ok(links.one(call)?.array().iter().filter_map(super::connection::Reply::int).collect())
}

fn keep(shared: &Shared, links: &mut Links, beats: &mut Beats) -> Result<(), StoreError> {
    let silent = beat(shared, links)?;
    if !beats.say(Instant::now()) {
        return Ok(());
    }
    for process in silent {
        let calls: Vec<Call> = (0..shared.cluster.shards)
            .map(|shard| {
                let call = Call::write("free", shard).number(now_us()).arg(b"");
                call.number(i64::from(i32::MAX)).number(process)
            })
            .collect();
        for (reply, call) in links.run(&calls)?.iter().zip(&calls) {
            if reply.int().unwrap_or(0) > 0 {
                shared.hint(call.shard, u64::MAX);
            }
        }
        links.one(Call::write("bury", 0).number(process))?;
    }
    Ok(())
}

/// Takes away what is final for too long, in a sixteenth of the shards.
fn purge(shared: &Shared, links: &mut Links, shard: &mut u16) -> Result<(), StoreError> {
    let keep_us = i64::try_from(shared.cluster.url.keep_s).unwrap_or(i64::MAX).saturating_mul(1_000_000);
    if keep_us == 0 {
        return Ok(());
    }
    let now_us = now_us();
    let calls: Vec<Call> = (0..(shared.cluster.shards / 16).max(1))
        .map(|_| {
            *shard = (*shard + 1) % shared.cluster.shards;
            let call = Call::write("purge", *shard).number(now_us - keep_us).number(PURGE_MAX);
            call.number(now_us - keep_us + AGAIN_US)
        })
        .collect();
    links.run(&calls)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened: where the master that keeps who is there had been silent for longer than a
    /// process may be, the first that said again that it was there took all others for dead, and
    /// what they had in flight came twice.
    #[test]
    fn who_could_not_say_that_it_is_there_takes_nobody_for_dead() {
        let (mut beats, begin) = (Beats::default(), Instant::now());
        let mut say = |s: f64| beats.say(begin + Duration::from_secs_f64(s));
        assert!(say(0.0) && say(1.0) && say(2.2), "in time");
        assert!((8..=13).all(|s| !say(f64::from(s))), "the others have had no time");
        assert!(say(14.0) && say(15.0));
    }
}
