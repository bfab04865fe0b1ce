//! What a process does for the store besides its work, in two threads: it says that it is there,
//! and gives back what those had in flight that do not say so any more; and it takes away what is
//! final for too long.

use super::cluster::{Call, Links};
use super::shared::{SILENT, Shared};
use crate::store::StoreError;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How often.
const BEAT: Duration = Duration::from_secs(1);
/// How often it looks whether the store is closed.
const LOOK: Duration = Duration::from_millis(50);
/// Messages that are taken away from one shard at once, for which its node does nothing else.
const PURGE_MAX: i64 = 250;
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
        let said = beat(shared, &mut links)?;
        let mut beats = Beats::default();
        // Nobody has been silent for long yet.
        let _ = beats.silent(&said, Instant::now());
        let stops = Arc::new(AtomicBool::new(false));
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

/// What processes have said.
#[derive(Default)]
struct Beats {
    /// When this one has said that it is there.
    last: Option<Instant>,
    /// What each other one said last, by whatever clock, and since when that is known here.
    others: HashMap<i64, (i64, Instant)>,
}

impl Beats {
    /// This process has just said that it is there, and heard what others said last. Those that
    /// have said nothing new for too long, although they could.
    fn silent(&mut self, said: &[(i64, i64)], now: Instant) -> Vec<i64> {
        if self.last.is_some_and(|last| now.saturating_duration_since(last) > GAP) {
            self.others.clear();
        }
        self.last = Some(now);
        self.others.retain(|process, _| said.iter().any(|other| other.0 == *process));
        let mut silent = Vec::new();
        for &(process, time) in said {
            let known = self.others.entry(process).or_insert((time, now));
            if known.0 != time {
                *known = (time, now);
            }
            if now.saturating_duration_since(known.1) > SILENT {
                silent.push(process);
            }
        }
        silent
    }
}

/// The time of day, µs.
pub(super) fn now_us() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_micros()).unwrap_or(i64::MAX)
}

/// Says that this process is there; what the others said last.
fn beat(shared: &Shared, links: &mut Links) -> Result<Vec<(i64, i64)>, StoreError> {
    let reply = links.one(Call::write("beat", 0).number(shared.process.into()))?;
    let said = reply.array().chunks_exact(2).filter_map(|pair| Some((pair[0].int()?, pair[1].int()?)));
    Ok(said.collect())
}

fn keep(shared: &Shared, links: &mut Links, beats: &mut Beats) -> Result<(), StoreError> {
    let said = beat(shared, links)?;
    for process in beats.silent(&said, Instant::now()) {
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
    let (begin, now_us) = (Instant::now(), now_us());
    let shards = (0..(shared.cluster.shards / 16).max(1)).map(|_| {
        *shard = (*shard + 1) % shared.cluster.shards;
        *shard
    });
    let goes_on = || begin.elapsed() < BEAT && !shared.cluster.abandoned.load(Relaxed);
    take_all(shards.collect(), goes_on, |shards| {
        let call = |&shard: &u16| {
            let call = Call::write("purge", shard).number(now_us - keep_us).number(PURGE_MAX);
            call.number(now_us - keep_us + AGAIN_US)
        };
        let calls: Vec<Call> = shards.iter().map(call).collect();
        Ok(links.run(&calls)?.iter().map(|reply| reply.int().unwrap_or(0)).collect())
    })
}

/// Takes from shards, from each as long as it gives something, until it is time for other things. A
/// fixed number in each round was less than what came, and the memory of the nodes grew.
fn take_all(
    mut shards: Vec<u16>,
    goes_on: impl Fn() -> bool,
    mut take: impl FnMut(&[u16]) -> Result<Vec<i64>, StoreError>,
) -> Result<(), StoreError> {
    while !shards.is_empty() && goes_on() {
        let mut gone = take(&shards)?.into_iter();
        shards.retain(|_| gone.next().is_some_and(|gone| gone > 0));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of 64 shards, 4 a second had 1000 messages each taken away: a centre that took more than
    /// 4,000 a second filled the memory of its nodes, however short `keep` was.
    #[test]
    fn what_is_too_old_is_taken_away_as_fast_as_it_comes() {
        let (mut left, mut asked) = ([(3, 2_i64), (4, 0), (5, 1)], Vec::new());
        take_all(
            vec![3, 4, 5],
            || true,
            |shards| {
                asked.push(shards.to_vec());
                let take = |&shard: &u16| {
                    let of_shard = left.iter_mut().find(|of_shard| of_shard.0 == shard).unwrap();
                    of_shard.1 -= 1;
                    of_shard.1 + 1
                };
                Ok(shards.iter().map(take).collect())
            },
        )
        .unwrap();
        assert_eq!(asked, [vec![3, 4, 5], vec![3, 5], vec![3]]);
        take_all(vec![1], || false, |_| panic!("there is no time")).unwrap();
    }

    /// What happened: where the master that keeps who is there had been silent for longer than a
    /// process may be, the first that said again that it was there took all others for dead, and
    /// what they had in flight came twice. And so it was where the clock of that master was set.
    #[test]
    fn who_is_dead_says_nothing_new_while_it_could() {
        let (mut beats, begin) = (Beats::default(), Instant::now());
        let mut silent = |s: u64, said: &[(i64, i64)]| beats.silent(said, begin + Duration::from_secs(s));
        let nobody = Vec::<i64>::new();
        // 7 says something new each time, with a clock that is set; 8 does not.
        for (s, time) in [(0, 10), (1, 11), (2, 1000), (3, 14), (4, 15), (5, 16)] {
            assert_eq!(silent(s, &[(7, time), (8, 5)]), nobody, "{s}");
        }
        assert_eq!(silent(6, &[(7, 17), (8, 5)]), [8]);
        assert_eq!(silent(7, &[(7, 18)]), nobody, "8 is buried");
        // Nobody could say anything for a while: it begins anew.
        for s in 15..=20 {
            assert_eq!(silent(s, &[(7, 18)]), nobody, "{s}");
        }
        assert_eq!(silent(21, &[(7, 18)]), [7]);
    }
}
