//! What `sync.rs` gives, for unit tests: inside [`explore`] every step that another thread could
//! see or disturb is a point at which a seeded scheduler chooses who goes on; outside, the real
//! thing.
//!
//! Each lock is a real one behind a gate of the scheduler's. The scheduler runs one thread at a
//! time, so behind the gate nobody ever waits. It gives every atomic access sequential consistency,
//! so it finds wrong conditions and wrong order of steps, not orderings that are too weak. Time
//! does not pass: a wait that ends only by its time limit is reported as a deadlock, which makes
//! lost wake-ups visible that a time limit would hide.

use shuttle::sync as gate;
use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};

fn explored() -> bool {
    shuttle::current::try_get_current_task().is_some()
}

/// A point at which another thread may go on.
fn step() {
    if explored() {
        shuttle::thread::sleep(Duration::ZERO);
    }
}

/// Runs `f` under `schedules` schedules from seed `seed` on, panics if `f` does in any of them. The
/// odd seeds' scheduler throws dice at every step; the even seeds' gives threads priorities and
/// changes them at a few points (PCT, Burckhardt et al., ASPLOS 2010), so that one thread stands
/// still while another goes a long way.
pub(crate) fn explore(seed: u64, schedules: usize, f: impl Fn() + Send + Sync + 'static) {
    use shuttle::scheduler::{PctScheduler, RandomScheduler};
    let mut config = shuttle::Config::new();
    config.stack_size = 1 << 20;
    config.silence_warnings = true;
    config.failure_persistence = shuttle::FailurePersistence::None;
    if seed % 2 == 1 {
        shuttle::Runner::new(RandomScheduler::new_from_seed(seed, schedules), config).run(f);
    } else {
        shuttle::Runner::new(PctScheduler::new_from_seed(seed, 3, schedules), config).run(f);
    }
}

/// A guard of the real lock, given back before the gate opens.
#[derive(Debug)]
pub(crate) struct Guard<V, G> {
    value: V,
    gate: Option<G>,
}

impl<V: Deref, G> Deref for Guard<V, G> {
    type Target = V::Target;

    fn deref(&self) -> &V::Target {
        &self.value
    }
}

impl<V: DerefMut, G> DerefMut for Guard<V, G> {
    fn deref_mut(&mut self) -> &mut V::Target {
        &mut self.value
    }
}

pub(crate) type MutexGuard<'a, T> = Guard<parking_lot::MutexGuard<'a, T>, gate::MutexGuard<'a, ()>>;
pub(crate) type RwLockReadGuard<'a, T> =
    Guard<parking_lot::RwLockReadGuard<'a, T>, gate::RwLockReadGuard<'a, ()>>;
pub(crate) type RwLockWriteGuard<'a, T> =
    Guard<parking_lot::RwLockWriteGuard<'a, T>, gate::RwLockWriteGuard<'a, ()>>;

/// A thread that fails ends the schedule, so nobody can meet a lock that it held.
fn passed<G>(gate: std::sync::LockResult<G>) -> G {
    gate.unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[derive(Debug, Default)]
pub(crate) struct Mutex<T> {
    gate: gate::Mutex<()>,
    value: parking_lot::Mutex<T>,
}

impl<T> Mutex<T> {
    pub(crate) const fn new(value: T) -> Self {
        Mutex { gate: gate::Mutex::new(()), value: parking_lot::Mutex::new(value) }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        let gate = explored().then(|| passed(self.gate.lock()));
        Guard { value: self.value.lock(), gate }
    }

    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        let gate = if explored() { Some(self.gate.try_lock().ok()?) } else { None };
        Some(Guard { value: self.value.try_lock()?, gate })
    }
}

#[derive(Debug, Default)]
pub(crate) struct RwLock<T> {
    gate: gate::RwLock<()>,
    value: parking_lot::RwLock<T>,
}

impl<T> RwLock<T> {
    pub(crate) const fn new(value: T) -> Self {
        RwLock { gate: gate::RwLock::new(()), value: parking_lot::RwLock::new(value) }
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, T> {
        let gate = explored().then(|| passed(self.gate.read()));
        Guard { value: self.value.read(), gate }
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
        let gate = explored().then(|| passed(self.gate.write()));
        Guard { value: self.value.write(), gate }
    }

    pub(crate) fn get_mut(&mut self) -> &mut T {
        self.value.get_mut()
    }
}

#[derive(Debug, Default)]
pub(crate) struct Condvar {
    gate: gate::Condvar,
    real: parking_lot::Condvar,
}

impl Condvar {
    pub(crate) const fn new() -> Self {
        Condvar { gate: gate::Condvar::new(), real: parking_lot::Condvar::new() }
    }

    pub(crate) fn wait_for<'a, T>(&self, guard: MutexGuard<'a, T>, at_most: Duration) -> MutexGuard<'a, T> {
        let Guard { mut value, gate } = guard;
        match gate {
            None => {
                self.real.wait_for(&mut value, at_most);
                Guard { value, gate: None }
            }
            Some(gate) => {
                let mutex = parking_lot::MutexGuard::mutex(&value);
                drop(value);
                let gate = passed(self.gate.wait(gate));
                Guard { value: mutex.lock(), gate: Some(gate) }
            }
        }
    }

    pub(crate) fn notify_one(&self) {
        if explored() {
            self.gate.notify_one();
        }
        self.real.notify_one();
    }

    pub(crate) fn notify_all(&self) {
        if explored() {
            self.gate.notify_all();
        }
        self.real.notify_all();
    }
}

pub(crate) mod atomic {
    use super::step;
    pub(crate) use std::sync::atomic::Ordering;

    macro_rules! atomic {
        ($name:ident, $t:ty, $($op:ident)*) => {
            #[derive(Debug, Default)]
            pub(crate) struct $name(std::sync::atomic::$name);

            // Not every type has a user for every operation.
            #[allow(dead_code)]
            impl $name {
                pub(crate) const fn new(value: $t) -> Self {
                    $name(std::sync::atomic::$name::new(value))
                }

                pub(crate) fn load(&self, order: Ordering) -> $t {
                    step();
                    self.0.load(order)
                }

                pub(crate) fn store(&self, value: $t, order: Ordering) {
                    step();
                    self.0.store(value, order);
                }

                $(pub(crate) fn $op(&self, value: $t, order: Ordering) -> $t {
                    step();
                    self.0.$op(value, order)
                })*
            }
        };
    }

    impl AtomicU64 {
        pub(crate) fn compare_exchange(
            &self,
            current: u64,
            new: u64,
            success: Ordering,
            failure: Ordering,
        ) -> Result<u64, u64> {
            step();
            self.0.compare_exchange(current, new, success, failure)
        }
    }

    atomic!(AtomicBool, bool, swap);
    atomic!(AtomicU32, u32, swap fetch_add fetch_sub fetch_max);
    atomic!(AtomicU64, u64, swap fetch_add fetch_sub fetch_max);
    atomic!(AtomicUsize, usize, swap fetch_add fetch_sub fetch_max);
}

/// The word is checked and the sleep begun in one step, as the kernel does it.
#[derive(Debug)]
pub(crate) struct Futex {
    /// The word, and how many sleep.
    state: Mutex<(u32, u64)>,
    sleepers: Condvar,
}

impl Futex {
    pub(crate) const fn new(value: u32) -> Self {
        Futex { state: Mutex::new((value, 0)), sleepers: Condvar::new() }
    }

    pub(crate) fn load(&self, _: atomic::Ordering) -> u32 {
        self.state.lock().0
    }

    pub(crate) fn bump(&self) {
        let mut state = self.state.lock();
        state.0 = state.0.wrapping_add(1);
    }

    pub(crate) fn wait(&self, value: u32, at_most: Option<Duration>) {
        let mut state = self.state.lock();
        if state.0 == value {
            state.1 += 1;
            drop(self.sleepers.wait_for(state, at_most.unwrap_or(Duration::from_secs(1))));
        }
    }

    pub(crate) fn wake_all(&self) -> u64 {
        let mut state = self.state.lock();
        self.sleepers.notify_all();
        std::mem::take(&mut state.1)
    }
}

/// Whether it is the thread that this runs on.
pub(crate) fn is_current(t: &thread::Thread) -> bool {
    match t {
        thread::Thread::Explored(t) => explored() && t.id() == shuttle::thread::current().id(),
        thread::Thread::Real(t) => t.id() == std::thread::current().id(),
    }
}

pub(crate) mod thread {
    use super::{Duration, explored};

    #[derive(Clone, Debug)]
    pub(crate) enum Thread {
        Explored(shuttle::thread::Thread),
        Real(std::thread::Thread),
    }

    impl Thread {
        pub(crate) fn unpark(&self) {
            match self {
                Thread::Explored(t) => t.unpark(),
                Thread::Real(t) => t.unpark(),
            }
        }
    }

    #[derive(Debug)]
    pub(crate) enum JoinHandle<T> {
        Explored(shuttle::thread::JoinHandle<T>, Thread),
        Real(std::thread::JoinHandle<T>, Thread),
    }

    impl<T> JoinHandle<T> {
        pub(crate) fn thread(&self) -> &Thread {
            match self {
                JoinHandle::Explored(_, t) | JoinHandle::Real(_, t) => t,
            }
        }

        pub(crate) fn join(self) -> std::thread::Result<T> {
            match self {
                JoinHandle::Explored(t, _) => t.join(),
                JoinHandle::Real(t, _) => t.join(),
            }
        }
    }

    #[derive(Default)]
    pub(crate) struct Builder(String);

    impl Builder {
        pub(crate) fn new() -> Self {
            Self::default()
        }

        pub(crate) fn name(self, name: String) -> Self {
            Builder(name)
        }

        pub(crate) fn spawn<T: Send + 'static>(
            self,
            f: impl FnOnce() -> T + Send + 'static,
        ) -> std::io::Result<JoinHandle<T>> {
            if explored() {
                let t = shuttle::thread::Builder::new().name(self.0).spawn(f)?;
                let thread = Thread::Explored(t.thread().clone());
                return Ok(JoinHandle::Explored(t, thread));
            }
            let t = std::thread::Builder::new().name(self.0).spawn(f)?;
            let thread = Thread::Real(t.thread().clone());
            Ok(JoinHandle::Real(t, thread))
        }
    }

    /// Starts a thread for a test.
    pub(crate) fn spawn<T: Send + 'static>(f: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
        Builder::new().spawn(f).expect("a thread can be started")
    }

    pub(crate) fn current() -> Thread {
        if explored() {
            Thread::Explored(shuttle::thread::current())
        } else {
            Thread::Real(std::thread::current())
        }
    }

    pub(crate) fn park_timeout(at_most: Duration) {
        if explored() { shuttle::thread::park() } else { std::thread::park_timeout(at_most) }
    }

    pub(crate) fn yield_now() {
        if explored() { shuttle::thread::yield_now() } else { std::thread::yield_now() }
    }

    pub(crate) fn sleep(at_least: Duration) {
        if explored() { shuttle::thread::yield_now() } else { std::thread::sleep(at_least) }
    }
}

/// Whether it is so long since then. Within a schedule, where no time passes, nobody need wait.
pub(crate) fn has_passed(since: Instant, time: Duration) -> bool {
    explored() || since.elapsed() >= time
}

/// Whether what runs has the storage of its thread for itself.
pub(crate) fn has_own_storage() -> bool {
    !explored()
}

/// A stand-in for the processor: the thread's number.
pub(crate) fn processor() -> usize {
    thread_number()
}

/// A small number for this thread: within a schedule, the same in every run of it.
pub(crate) fn thread_number() -> usize {
    match shuttle::current::try_get_current_task() {
        Some(task) => task.into(),
        None => {
            static NEXT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
            thread_local!(static MINE: usize = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
            MINE.with(|m| *m)
        }
    }
}
