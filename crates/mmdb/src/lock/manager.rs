//! The lock table: named locks, sharded, with wait-die.

use super::Mode;
use super::queue::{Answer, ConflictPolicy, Grant, LockFailure, Queue, Signal};
use super::table::TableLock;
use crate::cache_line::CacheLine;
use crate::memory::{Budget, Gauge, block};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering};
use hashbrown::HashTable;
use std::sync::Arc;
use std::time::Duration;

const SHARDS: usize = 128;
/// Locks that a shard without locks has room for at most.
const KEPT: usize = 512;

struct Lock {
    name: u64,
    table: u32,
    queue: Queue,
}

/// All locks of a database but those of whole tables.
pub(crate) struct LockManager {
    shards: Box<[CacheLine<Mutex<HashTable<Lock>>>]>,
    /// With false every conflict is refused at once: for deterministic tests on one thread.
    may_wait: bool,
    /// Longest wait for one lock.
    timeout: Duration,
    gauge: Gauge,
    pub(crate) waits: AtomicU64,
    pub(crate) deaths: AtomicU64,
}

impl LockManager {
    pub(crate) fn new(may_wait: bool, timeout: Duration) -> Self {
        LockManager {
            shards: (0..SHARDS).map(|_| CacheLine(Mutex::new(HashTable::new()))).collect(),
            may_wait,
            timeout,
            gauge: Gauge::default(),
            waits: AtomicU64::new(0),
            deaths: AtomicU64::new(0),
        }
    }

    /// Has its memory counted there.
    pub(crate) fn counted_in(mut self, budget: &Arc<Budget>) -> Self {
        self.gauge = Gauge::new(budget, SHARDS * size_of::<CacheLine<Mutex<HashTable<Lock>>>>());
        self
    }

    #[inline]
    fn shard(&self, name: u64) -> &Mutex<HashTable<Lock>> {
        &self.shards[(name >> 48) as usize % SHARDS]
    }

    fn conflict_policy(&self, usual: ConflictPolicy) -> ConflictPolicy {
        if self.may_wait { usual } else { ConflictPolicy::Never }
    }

    /// Counts a refusal after which the transaction has to run again.
    fn counted<T>(&self, done: Result<T, LockFailure>) -> Result<T, LockFailure> {
        if done.is_err() {
            self.deaths.fetch_add(1, Ordering::Relaxed);
        }
        done
    }

    /// Sleeps if need be; no latch may be held. `withdraw` takes a request back that was not
    /// granted in time, `give_back` one that was granted for the first time and is of no use any
    /// more.
    fn settle(
        &self,
        answer: Answer,
        withdraw: impl FnOnce(&Arc<Signal>),
        give_back: impl FnOnce(),
    ) -> Result<Grant, LockFailure> {
        match answer {
            Answer::Granted(held) => Ok(held),
            Answer::LockFailure => Err(LockFailure::Died),
            Answer::Wait(signal, held) => {
                self.waits.fetch_add(1, Ordering::Relaxed);
                if let Err(why) = signal.wait(self.timeout) {
                    withdraw(&signal);
                    // It may have been granted before the latch was taken that withdrawing needs.
                    if !signal.is_granted() {
                        return Err(why);
                    }
                    // What ends a wait says so once.
                    if why == LockFailure::Interrupted {
                        if held == Grant::New {
                            give_back();
                        }
                        return Err(why);
                    }
                }
                Ok(held)
            }
        }
    }

    /// Whether asking for `name` now would be refused because somebody older has it or waits for
    /// it.
    pub(crate) fn refuses(&self, name: u64, mode: Mode, age: u64) -> bool {
        let shard = self.shard(name).lock();
        shard.find(name, |l| l.name == name).is_some_and(|l| l.queue.refuses(age, mode))
    }

    /// The same of a whole table, or of a part of it while somebody wants it whole.
    pub(crate) fn refuses_table(&self, table: &TableLock, mode: Mode, age: u64) -> bool {
        if table.wanted() != 0 {
            return table.gate.lock().queue.refuses(age, mode);
        }
        // Nobody who holds a part has announced that.
        mode.is_whole()
            && self.shards.iter().any(|shard| {
                let shard = shard.lock();
                let mut held =
                    shard.iter().filter(|l| l.table == table.table).flat_map(|l| l.queue.holders());
                held.any(|h| h.age < age && !h.mode.intent().compatible(mode))
            })
    }

    /// Takes `name`, a part of `table`, in `mode`, waiting as wait-die allows.
    pub(crate) fn acquire(
        &self,
        table: &TableLock,
        name: u64,
        mode: Mode,
        age: u64,
    ) -> Result<Grant, LockFailure> {
        self.counted(self.acquire_as(table, name, mode, age, ConflictPolicy::WaitDie))
    }

    /// As [`LockManager::acquire`], but `None` if somebody else has the part. Who has or wants the
    /// whole table is waited for.
    pub(crate) fn acquire_free(
        &self,
        table: &TableLock,
        name: u64,
        mode: Mode,
        age: u64,
    ) -> Result<Option<Grant>, LockFailure> {
        match self.take(table.table, name, mode, age, ConflictPolicy::Never, || table.wanted() != 0) {
            Ok(taken) => {
                let announced = self.announced(table, name, mode, age, taken, ConflictPolicy::WaitDie);
                self.counted(announced).map(Some)
            }
            Err(_) => Ok(None),
        }
    }

    /// As [`LockManager::acquire`], but never waits: refused if it would have to.
    pub(crate) fn try_acquire(
        &self,
        table: &TableLock,
        name: u64,
        mode: Mode,
        age: u64,
    ) -> Result<Grant, LockFailure> {
        self.acquire_as(table, name, mode, age, ConflictPolicy::Never)
    }

    fn acquire_as(
        &self,
        table: &TableLock,
        name: u64,
        mode: Mode,
        age: u64,
        usual: ConflictPolicy,
    ) -> Result<Grant, LockFailure> {
        let taken = self.take(table.table, name, mode, age, usual, || table.wanted() != 0)?;
        self.announced(table, name, mode, age, taken, usual)
    }

    /// Tells who wants the table whole of a part that was just taken, or gives that back.
    #[inline]
    fn announced(
        &self,
        table: &TableLock,
        name: u64,
        mode: Mode,
        age: u64,
        (held, mut wanted): (Grant, bool),
        usual: ConflictPolicy,
    ) -> Result<Grant, LockFailure> {
        // After a wait the answer is of before it.
        wanted |= table.wanted() != 0;
        if wanted && let Err(refused) = self.announce(table, mode.intent(), age, usual) {
            if held == Grant::New {
                self.release(name, age);
            }
            return Err(refused);
        }
        Ok(held)
    }

    /// Takes `name` exclusively and waits whoever holds it. Deadlock-free only if all callers take
    /// names in rising order, hold them for a moment, and take no other locks meanwhile. No whole
    /// table is looked at.
    pub(crate) fn acquire_in_order(&self, name: u64, age: u64) -> Result<Grant, LockFailure> {
        let held = self.take(u32::MAX, name, Mode::Exclusive, age, ConflictPolicy::Always, || false);
        self.counted(held.map(|(held, _)| held))
    }

    /// `wanted` is asked inside the critical section in which the lock is taken.
    #[inline]
    fn take(
        &self,
        table: u32,
        name: u64,
        mode: Mode,
        age: u64,
        usual: ConflictPolicy,
        wanted: impl FnOnce() -> bool,
    ) -> Result<(Grant, bool), LockFailure> {
        let (answer, wanted) = {
            let mut shard = self.shard(name).lock();
            let answer = match shard.find_mut(name, |l| l.name == name) {
                Some(lock) => lock.queue.ask(age, mode, self.conflict_policy(usual)),
                None => {
                    let lock = Lock { name, table, queue: Queue::held_by(age, mode) };
                    if shard.len() == shard.capacity() {
                        let before = block(shard.allocation_size());
                        shard.reserve(1, |l| l.name);
                        self.gauge.add(block(shard.allocation_size()) as i64 - before as i64);
                    }
                    shard.insert_unique(name, lock, |l| l.name);
                    Answer::Granted(Grant::New)
                }
            };
            (answer, wanted())
        };
        let withdraw = |signal: &Arc<Signal>| {
            let mut shard = self.shard(name).lock();
            let Ok(mut entry) = shard.find_entry(name, |l| l.name == name) else { return };
            entry.get_mut().queue.withdraw(signal);
            if entry.get().queue.is_free() {
                entry.remove();
            }
        };
        self.settle(answer, withdraw, || self.release(name, age)).map(|held| (held, wanted))
    }

    /// Tells those who want the table whole that a part of it is held. Does nothing if nobody does.
    #[cold]
    fn announce(
        &self,
        table: &TableLock,
        intent: Mode,
        age: u64,
        usual: ConflictPolicy,
    ) -> Result<(), LockFailure> {
        let answer = {
            let mut gate = table.gate.lock();
            if table.wanted() == 0 {
                return Ok(());
            }
            gate.queue.ask(age, intent, self.conflict_policy(usual))
        };
        let withdraw = |signal: &Arc<Signal>| table.gate.lock().queue.withdraw(signal);
        self.settle(answer, withdraw, || _ = table.gate.lock().queue.clear(age)).map(|_| ())
    }

    /// Takes the whole table in `mode`. `again` if this transaction has it whole already, in a
    /// weaker mode.
    pub(crate) fn acquire_whole(
        &self,
        table: &TableLock,
        mode: Mode,
        age: u64,
        again: bool,
    ) -> Result<(), LockFailure> {
        if !again {
            table.come();
        }
        {
            let _alone = table.look.lock();
            if !table.gate.lock().complete {
                self.announce_all(table);
                table.gate.lock().complete = true;
            }
        }
        let answer = table.gate.lock().queue.ask(age, mode, self.conflict_policy(ConflictPolicy::WaitDie));
        let withdraw = |signal: &Arc<Signal>| table.gate.lock().queue.withdraw(signal);
        let held = self.settle(answer, withdraw, || _ = table.gate.lock().queue.clear(age));
        if held.is_err() && !again {
            table.go(&mut table.gate.lock());
        }
        self.counted(held.map(|_| ()))
    }

    /// Announces everybody who holds a part of the table. Whoever takes one behind this look
    /// announces himself.
    fn announce_all(&self, table: &TableLock) {
        for shard in &self.shards {
            let shard = shard.lock();
            for lock in shard.iter().filter(|l| l.table == table.table) {
                // Under the shard's latch, so that nobody gives his lock back before he is
                // announced.
                let mut gate = table.gate.lock();
                for holder in lock.queue.holders() {
                    gate.queue.set(holder.age, holder.mode.intent());
                }
            }
        }
    }

    /// Gives `name` back and wakes who can go on.
    pub(crate) fn release(&self, name: u64, age: u64) {
        let mut shard = self.shard(name).lock();
        let Ok(mut entry) = shard.find_entry(name, |l| l.name == name) else {
            unreachable!("a lock that is given back is held: nobody holds {name:#x}")
        };
        let queue = &mut entry.get_mut().queue;
        let held = queue.clear(age);
        assert!(held, "a lock that is given back is held: {name:#x} by transaction {age}");
        if queue.is_free() {
            entry.remove();
            // One large transaction must not keep its memory for good.
            if shard.is_empty() && shard.capacity() > KEPT {
                let before = block(shard.allocation_size());
                *shard = HashTable::new();
                self.gauge.add(-(before as i64));
            }
        }
    }

    /// Whether `age` holds `name` in `mode` or a stronger one.
    pub(crate) fn holds(&self, name: u64, mode: Mode, age: u64) -> bool {
        let shard = self.shard(name).lock();
        shard.find(name, |l| l.name == name).is_some_and(|l| l.queue.holds(age, mode))
    }

    /// Leaves a table of which nothing is held any more; `whole` if all of it was.
    pub(crate) fn leave(&self, table: &TableLock, whole: bool, age: u64) {
        if whole || table.wanted() != 0 {
            let mut gate = table.gate.lock();
            gate.queue.clear(age);
            if whole {
                table.go(&mut gate);
            }
        }
    }

    /// Locks held or waited for now, those of whole tables not counted.
    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|s| s.lock().len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    const LONG: Duration = Duration::from_secs(600);

    /// Whoever waits for an idle holder used to wait for good. Taking the request back must also
    /// let those go on who stand in line behind it, and leave no lock behind that nobody has.
    #[test]
    fn who_waits_in_vain_is_told_and_is_in_nobodys_way_any_more() {
        let m = LockManager::new(true, Duration::from_millis(5));
        let (t, other) = (TableLock::new(0), TableLock::new(1));
        assert_eq!(m.acquire(&t, 1, Mode::Shared, 10), Ok(Grant::New));
        assert_eq!(m.acquire(&t, 1, Mode::Exclusive, 5), Err(LockFailure::TimedOut));
        assert_eq!(m.acquire(&t, 1, Mode::Shared, 11), Ok(Grant::New), "nobody waits before it");
        assert!(m.refuses(1, Mode::Exclusive, 12) && !m.refuses(1, Mode::Exclusive, 5));
        assert!(!m.refuses(1, Mode::Shared, 12) && !m.refuses(2, Mode::Exclusive, 12));
        assert_eq!(m.acquire_whole(&t, Mode::Exclusive, 4, false), Err(LockFailure::TimedOut));
        assert!(m.refuses_table(&t, Mode::Exclusive, 12) && !m.refuses_table(&other, Mode::Exclusive, 12));
        m.release(1, 10);
        m.release(1, 11);
        assert!(!m.refuses(1, Mode::Exclusive, 12) && !m.refuses_table(&t, Mode::Exclusive, 12));
        assert_eq!((m.len(), t.len()), (0, 0));
    }

    #[test]
    fn the_younger_dies_and_the_older_waits() {
        let m = Arc::new(LockManager::new(true, LONG));
        let t = Arc::new(TableLock::new(0));
        assert_eq!(m.acquire(&t, 1, Mode::Exclusive, 10), Ok(Grant::New));
        assert_eq!(m.acquire(&t, 1, Mode::Shared, 11), Err(LockFailure::Died));
        let (m2, t2) = (m.clone(), t.clone());
        let older = std::thread::spawn(move || m2.acquire(&t2, 1, Mode::Exclusive, 5));
        while m.waits.load(Ordering::Relaxed) == 0 {
            std::thread::yield_now();
        }
        // 7 is older than the holder, yet younger than the waiter.
        assert_eq!(m.acquire(&t, 1, Mode::Exclusive, 7), Err(LockFailure::Died));
        m.release(1, 10);
        assert_eq!(older.join().unwrap(), Ok(Grant::New));
        m.release(1, 5);
        assert_eq!(m.len(), 0);
    }

    #[test]
    fn modes_join_and_exclude_as_the_matrix_says() {
        use Mode::*;
        assert_eq!(Shared.join(IntentExclusive), SharedIntent);
        assert!(IntentExclusive.compatible(IntentExclusive));
        assert!(!IntentExclusive.compatible(Shared));
        let m = LockManager::new(false, LONG);
        let t = TableLock::new(0);
        assert_eq!(m.acquire(&t, 9, Shared, 1), Ok(Grant::New));
        assert_eq!(m.acquire(&t, 9, Shared, 2), Ok(Grant::New));
        assert_eq!(m.acquire(&t, 9, Exclusive, 1), Err(LockFailure::Died));
        m.release(9, 2);
        assert_eq!(m.acquire(&t, 9, Exclusive, 1), Ok(Grant::Already));
        assert_eq!(m.acquire(&t, 9, IntentShared, 2), Err(LockFailure::Died));
    }

    /// Threads take random pairs of locks in random order; a deadlock would hang the test, a broken
    /// lock lose a count.
    #[test]
    fn random_orders_neither_deadlock_nor_overlap() {
        let m = Arc::new(LockManager::new(true, LONG));
        let table = Arc::new(TableLock::new(0));
        let inside: Arc<Vec<AtomicU32>> = Arc::new((0..4).map(|_| AtomicU32::new(0)).collect());
        let ages = Arc::new(AtomicU64::new(1));
        let done: u64 = (0..6u64)
            .map(|n| {
                let (m, t, inside, ages) = (m.clone(), table.clone(), inside.clone(), ages.clone());
                std::thread::spawn(move || {
                    let mut x = n + 1;
                    let mut done = 0;
                    while done < 2000 {
                        let age = ages.fetch_add(1, Ordering::Relaxed);
                        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        let pair = [(x >> 33) % 4, (x >> 40) % 4];
                        loop {
                            let mut held = Vec::new();
                            let whole = pair.iter().all(|&n| match m.acquire(&t, n, Mode::Exclusive, age) {
                                Ok(Grant::New) => {
                                    held.push(n);
                                    assert_eq!(inside[n as usize].fetch_add(1, Ordering::SeqCst), 0);
                                    true
                                }
                                Ok(Grant::Already) => true,
                                Err(_) => false,
                            });
                            if whole {
                                std::thread::yield_now();
                            }
                            for n in held {
                                inside[n as usize].fetch_sub(1, Ordering::SeqCst);
                                m.release(n, age);
                            }
                            if whole {
                                break;
                            }
                            std::thread::yield_now();
                        }
                        done += 1;
                    }
                    done
                })
            })
            .collect::<Vec<_>>()
            .into_iter()
            .map(|t| t.join().unwrap())
            .sum();
        assert_eq!(done, 12_000);
        assert_eq!(m.len(), 0);
    }

    /// What is held in part keeps the whole away and the other way round, whether it was announced
    /// or not.
    #[test]
    fn a_table_is_whole_or_in_parts() {
        use Mode::*;
        let m = LockManager::new(false, LONG);
        let (t, other) = (TableLock::new(0), TableLock::new(1));
        assert_eq!(m.acquire(&t, 1, Exclusive, 1), Ok(Grant::New));
        assert_eq!(m.acquire(&other, 2, Exclusive, 1), Ok(Grant::New));
        assert_eq!(m.acquire_whole(&t, Shared, 2, false), Err(LockFailure::Died), "1 writes in it");
        assert_eq!(m.acquire_whole(&t, Shared, 1, false), Ok(()), "its own writes are in nobody's way");
        assert_eq!(m.acquire_whole(&t, Shared, 2, false), Err(LockFailure::Died));
        assert_eq!(m.acquire_whole(&t, Exclusive, 1, true), Ok(()));
        m.release(1, 1);
        m.leave(&t, true, 1);
        assert_eq!(m.acquire_whole(&t, Shared, 2, false), Ok(()), "the one who wrote has left");
        assert_eq!(m.acquire(&t, 3, Shared, 3), Ok(Grant::New), "both read");
        assert_eq!(m.acquire(&t, 4, Exclusive, 3), Err(LockFailure::Died), "and nobody writes");
        assert_eq!(m.acquire(&other, 4, Exclusive, 3), Ok(Grant::New));
        assert_eq!((m.len(), t.len()), (3, 2));
        m.leave(&t, true, 2);
        assert_eq!(m.acquire(&t, 3, Exclusive, 3), Ok(Grant::Already));
        assert_eq!(m.acquire_whole(&t, Shared, 4, false), Err(LockFailure::Died));
        for name in [3, 4, 2] {
            m.release(name, if name == 2 { 1 } else { 3 });
        }
        m.leave(&t, false, 3);
        assert_eq!(m.acquire_whole(&t, Exclusive, 4, false), Ok(()));
        m.leave(&t, true, 4);
        assert_eq!((m.len(), t.len()), (0, 0));
    }
}
