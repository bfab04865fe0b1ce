//! The counters of each thread, and their sums over the process.
//!
//! VFS calls run on the thread that executes the statement, so counters belong to threads: a call
//! touches memory of its own thread only. The shared half of a thread's counters is atomic (one
//! writer, plain loads and stores), so that any thread can add them all up; the private half serves
//! the statement's clock.

use std::cell::{Cell, UnsafeCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::clocks::{Moment, calibrate, thread_cpu_ns};
use crate::cpu::Sampler;
use crate::histogram::{Counts, Histogram};
use crate::kind::{FileClass, Op};
use crate::marks::{CallKind, mark_call};
use crate::table::{IoCell, IoTable};

/// Whether durations are kept for percentiles. Only `fathom_io` shows them, so they are kept once
/// it is there: they cost a cache line or two for each call.
static DURATIONS: AtomicBool = AtomicBool::new(false);

/// Keeps durations from now on.
pub fn keep_durations() {
    DURATIONS.store(true, Ordering::Relaxed);
}

/// Counters of one kind of call on one class of file, written by one thread.
#[derive(Default)]
struct SharedCell {
    calls: AtomicU64,
    bytes: AtomicU64,
    ns: AtomicU64,
    durations: AtomicPtr<Histogram>,
}

fn increase(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
}

impl SharedCell {
    #[inline]
    fn count(&self, bytes: u64, ns: u64) {
        increase(&self.calls, 1);
        increase(&self.bytes, bytes);
        increase(&self.ns, ns);
        if DURATIONS.load(Ordering::Relaxed) {
            self.count_duration(ns);
        }
    }

    fn count_duration(&self, ns: u64) {
        let durations = self.durations.load(Ordering::Relaxed);
        if durations.is_null() {
            self.first(ns);
        } else {
            // SAFETY: set once by `first` from a leaked box and freed only in `drop`.
            unsafe { (*durations).count(ns) };
        }
    }

    #[cold]
    fn first(&self, ns: u64) {
        if let Some(histogram) = Histogram::boxed() {
            histogram.count(ns);
            // Release: a reader that sees the pointer sees the zeroed buckets.
            self.durations.store(Box::into_raw(histogram), Ordering::Release);
        }
    }

    fn load(&self) -> IoCell {
        IoCell {
            calls: self.calls.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            ns: self.ns.load(Ordering::Relaxed),
        }
    }

    fn add_durations(&self, sums: &mut Counts) {
        let durations = self.durations.load(Ordering::Acquire);
        if !durations.is_null() {
            // SAFETY: as in `count`; `self` is borrowed, so it has not been dropped.
            unsafe { (*durations).add_to(sums) };
        }
    }
}

impl Drop for SharedCell {
    fn drop(&mut self) {
        let durations = *self.durations.get_mut();
        if !durations.is_null() {
            // SAFETY: it came from `Box::into_raw` in `first`, and nobody else holds it: `self` is
            // borrowed mutably.
            drop(unsafe { Box::from_raw(durations) });
        }
    }
}

/// The half of a thread's counters that other threads may read.
#[derive(Default)]
struct Shared([[SharedCell; Op::COUNT]; FileClass::COUNT]);

impl Shared {
    fn table(&self) -> IoTable {
        let mut table = IoTable::default();
        for (row, shared) in table.cells.iter_mut().zip(&self.0) {
            for (cell, shared) in row.iter_mut().zip(shared) {
                *cell = shared.load();
            }
        }
        table
    }
}

/// Running sums of one thread over all files, from which a statement's clock takes differences.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals {
    pub read: IoCell,
    pub write: IoCell,
    pub sync: IoCell,
    pub other: IoCell,
    /// Estimated CPU time inside the calls, ns, and the uncertainty of that estimate, ns.
    pub cpu_ns: f64,
    pub cpu_doubt_ns: f64,
}

impl Totals {
    /// Time in calls of any kind, ns.
    pub fn calls_ns(&self) -> u64 {
        self.read.ns + self.write.ns + self.sync.ns + self.other.ns
    }
}

/// Both clocks of a thread at (almost) the same moment.
#[derive(Clone, Copy)]
pub struct Reading {
    pub at: Moment,
    pub cpu_ns: u64,
    /// Time in calls so far, ns ([`Totals::calls_ns`]), and the estimated CPU time in them, ns.
    pub calls_ns: u64,
    pub calls_cpu_ns: f64,
}

/// What a thread's clocks know from the statements before.
#[derive(Clone, Copy, Default)]
pub struct History {
    /// The last time both clocks were read.
    pub last: Option<Reading>,
    /// How many statements to go for which the CPU clock will be read, because one lately needed
    /// it.
    pub alert: u8,
}

struct Private {
    totals: Totals,
    sampler: Sampler,
    thread_io_base: IoTable,
    history: History,
    check: Option<CpuCheck>,
}

/// CPU time inside VFS calls, as estimated from a sample and as measured for every call of the same
/// calls.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CpuCheck {
    /// What the statement clocks take for it, ns.
    pub estimated_ns: f64,
    /// The uncertainty that they allow for it, ns.
    pub doubt_ns: f64,
    /// The sum over all calls, each between two readings of the thread's CPU clock, ns.
    pub measured_ns: f64,
}

/// Checks the estimate of the CPU time inside VFS calls: while `work` runs, *every* call of this
/// thread is measured, and the estimate is made as ever, from the sampled ones alone. It costs 1 to
/// 4 µs for each call.
pub fn check_cpu_in_calls<R>(work: impl FnOnce() -> R) -> (R, CpuCheck) {
    let set = |check| meter().and_then(|meter| meter.set_check(check));
    set(Some(CpuCheck::default()));
    let result = work();
    (result, set(None).unwrap_or_default())
}

/// By how much a pair of CPU readings around a pair of wall readings exceeds it when nothing lies
/// between, ns. The lower quartile of several: what disturbs a reading makes it longer.
fn bias_ns() -> u64 {
    let mut biases = [0_u64; 32];
    for bias in &mut biases {
        let cpu = thread_cpu_ns();
        let wall = Moment::now();
        let wall = Moment::now().ns_since(wall);
        *bias = thread_cpu_ns().saturating_sub(cpu).saturating_sub(wall);
    }
    biases.sort_unstable();
    biases[biases.len() / 4]
}

/// All counters of one thread.
pub struct Meter {
    shared: Arc<Shared>,
    private: UnsafeCell<Private>,
    /// A call is being timed; calls that it makes itself are part of it.
    inside: Cell<bool>,
    /// Every call is measured, see [`check_cpu_in_calls`].
    checking: Cell<bool>,
    /// See [`bias_ns`].
    bias_ns: Cell<u64>,
}

impl Meter {
    fn new() -> Self {
        calibrate();
        let shared = Arc::new(Shared::default());
        process().live.push(Arc::clone(&shared));
        let seed = thread_cpu_ns() ^ (Arc::as_ptr(&shared) as u64).rotate_left(32);
        Self {
            shared,
            private: UnsafeCell::new(Private {
                totals: Totals::default(),
                sampler: Sampler::new(seed),
                thread_io_base: IoTable::default(),
                history: History::default(),
                check: None,
            }),
            checking: Cell::new(false),
            inside: Cell::new(false),
            bias_ns: Cell::new(bias_ns()),
        }
    }

    /// The private half.
    ///
    /// # Safety
    /// The reference must be gone before anything else asks for it: no foreign code may run while
    /// it lives.
    #[allow(clippy::mut_from_ref)]
    #[inline]
    unsafe fn private(&self) -> &mut Private {
        // SAFETY: a meter is only reachable from its own thread, and the caller keeps the
        // references apart.
        unsafe { &mut *self.private.get() }
    }

    pub fn bias_ns(&self) -> u64 {
        self.bias_ns.get()
    }

    pub fn totals(&self) -> Totals {
        // SAFETY: copied out at once.
        unsafe { self.private() }.totals
    }

    pub fn history(&self) -> History {
        // SAFETY: copied out at once.
        unsafe { self.private() }.history
    }

    pub fn set_history(&self, history: History) {
        // SAFETY: written at once.
        unsafe { self.private() }.history = history;
    }

    fn set_check(&self, check: Option<CpuCheck>) -> Option<CpuCheck> {
        self.checking.set(check.is_some());
        if check.is_some() {
            // It is taken from every call now, and the machine's speed may have changed since the
            // thread began.
            self.bias_ns.set(bias_ns());
        }
        // SAFETY: exchanged at once.
        std::mem::replace(unsafe { &mut self.private().check }, check)
    }

    /// What two readings of the CPU clock around a call add to the call's CPU time, ns: the rest of
    /// the first, whose cost is always about the same, and the beginning of the second, which took
    /// `second_ns`: longer after a sleep in the call, when the caches are cold.
    fn bias_of_call_ns(&self, second_ns: u64) -> u64 {
        // More than that is not a cold cache, but somebody else's turn on the processor.
        const COLD_NS: u64 = 6_000;
        let bias_ns = self.bias_ns.get();
        (bias_ns + second_ns.min(COLD_NS).max(bias_ns)) / 2
    }

    /// A statement has gone by that did not need the CPU clock.
    #[inline]
    pub fn calm(&self) {
        // SAFETY: used up at once.
        let history = unsafe { &mut self.private().history };
        history.alert = history.alert.saturating_sub(1);
    }

    pub fn thread_io(&self) -> IoTable {
        // SAFETY: borrowed for the subtraction only.
        self.shared.table().since(unsafe { &self.private().thread_io_base })
    }

    pub fn reset_thread_io(&self) {
        let now = self.shared.table();
        // SAFETY: written at once.
        unsafe { self.private() }.thread_io_base = now;
    }

    #[inline]
    fn wants_cpu(&self, class: FileClass, op: Op) -> bool {
        // SAFETY: used up in this function.
        unsafe { self.private() }.sampler.wants(class, op)
    }

    #[inline]
    fn record(&self, class: FileClass, op: Op, bytes: u64, ns: u64, cpu_ns: Option<u64>, sampled: bool) {
        self.shared.0[class as usize][op as usize].count(bytes, ns);
        // SAFETY: used up in this function, which calls nothing foreign.
        let private = unsafe { self.private() };
        let cpu = private.sampler.account(class, op, ns, cpu_ns.filter(|_| sampled));
        if let (Some(check), Some(cpu_ns)) = (&mut private.check, cpu_ns) {
            check.estimated_ns += cpu.ns;
            check.doubt_ns += cpu.doubt_ns;
            check.measured_ns += cpu_ns.min(ns) as f64;
        }
        let totals = &mut private.totals;
        totals.cpu_ns += cpu.ns;
        totals.cpu_doubt_ns += cpu.doubt_ns;
        let sum = match op {
            Op::Read => &mut totals.read,
            Op::Write => &mut totals.write,
            Op::Sync => &mut totals.sync,
            _ => &mut totals.other,
        };
        sum.calls = sum.calls.wrapping_add(1);
        sum.bytes = sum.bytes.wrapping_add(bytes);
        sum.ns = sum.ns.wrapping_add(ns);
    }
}

thread_local! {
    /// The thread's meter: null before its first call, [`ENDED`] after its last.
    static METER: Cell<*const Meter> = const { Cell::new(ptr::null()) };
    /// Owns what `METER` points to and hands its sums over when the thread ends.
    static OWNER: Owner = const { Owner(Cell::new(None)) };
}

/// Marks a thread that is being torn down: SQLite may still close files in it, uncounted.
const ENDED: *const Meter = ptr::without_provenance(usize::MAX);

struct Owner(Cell<Option<Box<Meter>>>);

impl Drop for Owner {
    fn drop(&mut self) {
        METER.set(ENDED);
        if let Some(meter) = self.0.take() {
            let mut process = process();
            process.retired.add(&meter.shared);
            process.live.retain(|shared| !Arc::ptr_eq(shared, &meter.shared));
        }
    }
}

#[cold]
fn new_meter() -> *const Meter {
    let made = catch_unwind(|| {
        let meter = Box::new(Meter::new());
        let pointer: *const Meter = &raw const *meter;
        // The box is moved, what it holds is not.
        OWNER.try_with(|owner| owner.0.set(Some(meter))).map(|()| pointer)
    });
    let pointer = match made {
        Ok(Ok(pointer)) => pointer,
        _ => ENDED,
    };
    METER.set(pointer);
    pointer
}

/// The calling thread's meter; none while the thread is being torn down.
#[inline]
pub fn meter() -> Option<&'static Meter> {
    let mut pointer = METER.get();
    if pointer.is_null() {
        pointer = new_meter();
    }
    if pointer == ENDED {
        return None;
    }
    // SAFETY: it points into the box held by this thread's `OWNER`, whose destructor sets `METER`
    // to `ENDED` first. The callers use the reference for the time of one call and never send it
    // away (`Meter` is not `Sync`).
    Some(unsafe { &*pointer })
}

/// A VFS call on its way.
#[derive(Clone, Copy)]
struct Started {
    meter: &'static Meter,
    begin: Moment,
    cpu_ns: Option<u64>,
    /// Whether `cpu_ns` is for the estimate, or only to check it.
    sampled: bool,
}

// `begin` and `end` are not inlined: one copy of their code stays warm in the instruction cache,
// where a copy for each method of a file would have to be fetched anew after each sync.

#[inline(never)]
fn begin(class: FileClass, op: Op) -> Option<Started> {
    // A call that is made by another is part of it.
    let meter = meter().filter(|meter| !meter.inside.replace(true))?;
    let sampled = meter.wants_cpu(class, op);
    let cpu_ns = (sampled || meter.checking.get()).then(thread_cpu_ns);
    Some(Started { meter, begin: Moment::now(), cpu_ns, sampled })
}

#[inline(never)]
fn end(started: Started, class: FileClass, op: Op, bytes: u64) {
    let done = Moment::now();
    let ns = done.ns_since(started.begin);
    let meter = started.meter;
    let cpu_ns = started.cpu_ns.map(|before| {
        let after = thread_cpu_ns();
        let bias_ns = meter.bias_of_call_ns(Moment::now().ns_since(done));
        after.saturating_sub(before).saturating_sub(bias_ns)
    });
    meter.inside.set(false);
    // Nothing in here can panic by design; if it ever does, it must not reach SQLite.
    _ = catch_unwind(AssertUnwindSafe(|| {
        meter.record(class, op, bytes, ns, cpu_ns, started.sampled);
        // SQLite's sleep between two attempts to get a lock is no wait for a device.
        if op != Op::Sleep {
            mark_call(Some(CallKind { class, op }), ns);
        }
    }));
}

/// Makes a VFS call and counts it. `outcome` tells from the result what the call turned out to be,
/// and its bytes; `op` is what it is expected to be.
#[inline]
pub fn timed_as<R>(
    class: FileClass,
    op: Op,
    call: impl FnOnce() -> R,
    outcome: impl FnOnce(&R) -> (Op, u64),
) -> R {
    let started = begin(class, op);
    let result = call();
    if let Some(started) = started {
        let (op, bytes) = outcome(&result);
        end(started, class, op, bytes);
    }
    result
}

/// Makes a VFS call and counts it.
#[inline]
pub fn timed<R>(class: FileClass, op: Op, bytes: u64, call: impl FnOnce() -> R) -> R {
    timed_as(class, op, call, |_| (op, bytes))
}

/// Sums over threads, with the durations.
struct Sums {
    table: IoTable,
    durations: Vec<Counts>,
}

fn flat(class: FileClass, op: Op) -> usize {
    class as usize * Op::COUNT + op as usize
}

impl Sums {
    const fn new() -> Self {
        Self {
            table: IoTable { cells: [[IoCell { calls: 0, bytes: 0, ns: 0 }; Op::COUNT]; FileClass::COUNT] },
            durations: Vec::new(),
        }
    }

    fn add(&mut self, shared: &Shared) {
        self.table.add(&shared.table());
        self.durations.resize(FileClass::COUNT * Op::COUNT, Counts::default());
        for (sum, cell) in self.durations.iter_mut().zip(shared.0.iter().flatten()) {
            cell.add_durations(sum);
        }
    }
}

struct Process {
    live: Vec<Arc<Shared>>,
    retired: Sums,
    /// What had been counted when a row was last reset.
    base: Sums,
}

static PROCESS: Mutex<Process> =
    Mutex::new(Process { live: Vec::new(), retired: Sums::new(), base: Sums::new() });

fn process() -> MutexGuard<'static, Process> {
    // The sums stay usable after a panic: they are only ever added to.
    PROCESS.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Process {
    fn sums(&self) -> Sums {
        let mut sums = Sums { table: self.retired.table, durations: self.retired.durations.clone() };
        for shared in &self.live {
            sums.add(shared);
        }
        sums
    }
}

/// One row of the process-wide table.
#[derive(Clone, Copy, Debug)]
pub struct ProcessRow {
    pub class: FileClass,
    pub op: Op,
    pub cell: IoCell,
    pub p50_ns: Option<u64>,
    pub p99_ns: Option<u64>,
}

/// What all threads together have done since each row was last reset; rows without calls are left
/// out.
pub fn process_rows() -> Vec<ProcessRow> {
    let process = process();
    let mut sums = process.sums();
    sums.table = sums.table.since(&process.base.table);
    for (counts, base) in sums.durations.iter_mut().zip(&process.base.durations) {
        counts.subtract(base);
    }
    sums.table
        .iter()
        .map(|(class, op, cell)| {
            let durations = sums.durations.get(flat(class, op));
            let quantile = |share| durations.and_then(|counts| counts.quantile_ns(share));
            ProcessRow { class, op, cell, p50_ns: quantile(0.5), p99_ns: quantile(0.99) }
        })
        .collect()
}

/// Starts one row of the process-wide table at zero again. The threads' own counters are not
/// touched.
pub fn reset_process_row(class: FileClass, op: Op) {
    let mut process = process();
    let mut sums = process.sums();
    let base = &mut process.base;
    base.table.cells[class as usize][op as usize] = sums.table.get(class, op);
    base.durations.resize(FileClass::COUNT * Op::COUNT, Counts::default());
    if let (Some(to), Some(from)) =
        (base.durations.get_mut(flat(class, op)), sums.durations.get_mut(flat(class, op)))
    {
        *to = std::mem::take(from);
    }
}

/// What all threads of the process together have done, in all SQLite libraries that carry the
/// probe, since the start or the last reset of each row.
#[must_use]
pub fn process_io() -> IoTable {
    let process = process();
    process.sums().table.since(&process.base.table)
}

/// What the calling thread has done since it began or since [`reset_thread_io`]. Take one snapshot
/// before and one after and subtract them ([`IoTable::since`]).
#[must_use]
pub fn thread_io() -> IoTable {
    meter().map(Meter::thread_io).unwrap_or_default()
}

/// Starts [`thread_io`] of the calling thread at zero again. Statement clocks and the process-wide
/// table are not touched.
pub fn reset_thread_io() {
    if let Some(meter) = meter() {
        meter.reset_thread_io();
    }
}
