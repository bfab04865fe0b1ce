//! What a process does for the store besides its work: it says that it is there, gives back what
//! those had in flight that do not say so any more, and takes away what is final for too long.

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

/// The thread.
pub(super) struct Keeper {
    thread: JoinHandle<()>,
    stops: Arc<AtomicBool>,
}

impl Keeper {
    pub fn start(shared: &Arc<Shared>) -> Result<Keeper, StoreError> {
        // Before anything is claimed by this process.
        let mut links = Links::new(&shared.cluster);
        beat(shared, &mut links)?;
        let shared = Arc::clone(shared);
        let stops = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stops);
        let run = move || {
            let mut next = Instant::now() + BEAT;
            let mut shard = 0;
            while !shared.cluster.abandoned.load(Relaxed) && !stopped.load(Relaxed) {
                if Instant::now() < next {
                    std::thread::sleep(LOOK);
                    continue;
                }
                next = Instant::now() + BEAT;
                // What fails is tried again a second later; the sessions tell what is wrong.
                let _ = keep(&shared, &mut links, &mut shard);
            }
        };
        let named = std::thread::Builder::new().name("smsc-redis".into());
        let thread = named.spawn(run).map_err(StoreError::io(Path::new("a thread")))?;
        Ok(Keeper { thread, stops })
    }

    pub fn join(self) {
        self.stops.store(true, Relaxed);
        // One that panicked has told so.
        let _ = self.thread.join();
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

fn keep(shared: &Shared, links: &mut Links, shard: &mut u16) -> Result<(), StoreError> {
    for process in beat(shared, links)? {
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
    let keep_us = i64::try_from(shared.cluster.url.keep_s).unwrap_or(i64::MAX).saturating_mul(1_000_000);
    if keep_us > 0 {
        // A sixteenth of the shards a second.
        let now_us = now_us();
        let calls: Vec<Call> = (0..(shared.cluster.shards / 16).max(1))
            .map(|_| {
                *shard = (*shard + 1) % shared.cluster.shards;
                let call = Call::write("purge", *shard).number(now_us - keep_us).number(PURGE_MAX);
                call.number(now_us - keep_us + AGAIN_US)
            })
            .collect();
        links.run(&calls)?;
    }
    Ok(())
}
