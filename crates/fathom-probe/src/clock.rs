//! The clock of a statement, or of a whole phase: how long it took and where the time went.

use std::marker::PhantomData;

use crate::clocks::{monotonic_ns, thread_cpu_ns};
use crate::meter::{Reading, Totals, meter};
use crate::split::Split;

/// If a statement starts within this time after the one before stopped, with no I/O between, its CPU clock goes on from
/// there: a thread cannot have been switched out and back in so short a time (ns).
const SAME_SLICE_NS: u64 = 2_000;

/// A running clock of the calling thread. Clocks may be nested: one over a phase, one over each of its statements.
///
/// ```
/// # fn execute() {}
/// let clock = fathom_probe::StatementClock::start();
/// execute(); // on this thread
/// let split = clock.stop();
/// assert_eq!(split.wall_ns, split.cpu_ns + split.read_ns + split.write_ns + split.sync_ns + split.other_ns);
/// ```
#[derive(Debug)]
#[must_use = "a clock that is not stopped measures nothing"]
pub struct StatementClock {
    wall_ns: u64,
    cpu_ns: u64,
    /// What the CPU clock's two readings add of their own, ns.
    bias_ns: u64,
    before: Totals,
    /// A thread's clock belongs to the thread.
    not_send: PhantomData<*const ()>,
}

/// A statement's [`Split`] with what it was made from, to check that nothing is missing or counted twice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Account {
    /// The result.
    pub split: Split,
    /// Time inside VFS calls other than read, write and sync, ns: part of `split.other_ns`.
    pub other_calls_ns: u64,
    /// Thread CPU time outside the VFS calls as measured, before anything is made of it, ns.
    pub cpu_measured_ns: f64,
    /// Standard deviation of `cpu_measured_ns` from not measuring every call, ns.
    pub cpu_doubt_ns: f64,
}

impl Account {
    /// What the independently measured parts leave of the wall time, ns: waiting outside of calls (the scheduler gave the CPU
    /// to others, a page fault on mapped memory went to the device) where positive, something counted twice where negative.
    #[must_use]
    pub fn unexplained_ns(&self) -> f64 {
        let split = &self.split;
        let calls = split.read_ns + split.write_ns + split.sync_ns + self.other_calls_ns;
        split.wall_ns as f64 - calls as f64 - self.cpu_measured_ns
    }
}

impl StatementClock {
    /// Starts the clock.
    #[inline]
    pub fn start() -> Self {
        let Some(meter) = meter() else {
            let cpu_ns = thread_cpu_ns();
            let before = Totals::default();
            return Self { wall_ns: monotonic_ns(), cpu_ns, bias_ns: 0, before, not_send: PhantomData };
        };
        let before = meter.totals();
        let wall_ns = monotonic_ns();
        if let Some(last) = meter.last_reading() {
            let since_ns = wall_ns.saturating_sub(last.wall_ns);
            if since_ns <= SAME_SLICE_NS && last.calls == before.calls() {
                let cpu_ns = last.cpu_ns + since_ns;
                return Self { wall_ns, cpu_ns, bias_ns: 0, before, not_send: PhantomData };
            }
        }
        let cpu_ns = thread_cpu_ns();
        Self { wall_ns: monotonic_ns(), cpu_ns, bias_ns: meter.bias_ns(), before, not_send: PhantomData }
    }

    /// Stops the clock: where the time went.
    #[inline]
    pub fn stop(self) -> Split {
        self.stop_account().split
    }

    /// Stops the clock and gives the parts as measured beside the result.
    pub fn stop_account(self) -> Account {
        let end_ns = monotonic_ns();
        let cpu_end_ns = thread_cpu_ns();
        let after = match meter() {
            Some(meter) => {
                let totals = meter.totals();
                let calls = totals.calls();
                meter.set_last_reading(Reading { wall_ns: end_ns, cpu_ns: cpu_end_ns, calls });
                totals
            }
            None => self.before,
        };
        let wall_ns = end_ns.saturating_sub(self.wall_ns);
        let cpu_ns = cpu_end_ns.saturating_sub(self.cpu_ns).saturating_sub(self.bias_ns);
        account(wall_ns, cpu_ns, &self.before, &after)
    }
}

/// Divides the wall time. `thread_cpu_ns` is all CPU time of the thread, inside calls and outside.
///
/// Outside of VFS calls a thread computes; it waits there only if the scheduler takes the CPU away or mapped memory is not
/// there. So the time outside counts as CPU unless the CPU clock proves otherwise: unless the clock falls short by more
/// than twice the standard deviation of what was estimated instead of measured, and by more than the clocks' own slack.
fn account(wall_ns: u64, thread_cpu_ns: u64, before: &Totals, after: &Totals) -> Account {
    let ns = |after: u64, before: u64| after.saturating_sub(before);
    let read_ns = ns(after.read.ns, before.read.ns);
    let write_ns = ns(after.write.ns, before.write.ns);
    let sync_ns = ns(after.sync.ns, before.sync.ns);
    let other_calls_ns = ns(after.other.ns, before.other.ns);
    let outside_ns = wall_ns.saturating_sub(read_ns + write_ns + sync_ns + other_calls_ns);

    let cpu_measured_ns = thread_cpu_ns as f64 - (after.cpu_ns - before.cpu_ns);
    let cpu_doubt_ns = (after.cpu_variance_ns2 - before.cpu_variance_ns2).max(0.0).sqrt();
    let slack_ns = 500.0 + outside_ns as f64 / 256.0;
    let short_ns = outside_ns as f64 - cpu_measured_ns;
    let cpu_ns = if short_ns <= 2.0 * cpu_doubt_ns + slack_ns {
        outside_ns
    } else {
        // At least 0, and less than `outside_ns` because `short_ns` is positive.
        cpu_measured_ns.max(0.0) as u64
    };
    let split = Split {
        wall_ns,
        cpu_ns,
        read_ns,
        write_ns,
        sync_ns,
        other_ns: wall_ns.saturating_sub(cpu_ns + read_ns + write_ns + sync_ns),
        read_bytes: ns(after.read.bytes, before.read.bytes),
        write_bytes: ns(after.write.bytes, before.write.bytes),
        read_calls: ns(after.read.calls, before.read.calls),
        write_calls: ns(after.write.calls, before.write.calls),
        sync_calls: ns(after.sync.calls, before.sync.calls),
        other_calls: ns(after.other.calls, before.other.calls),
    };
    Account { split, other_calls_ns, cpu_measured_ns, cpu_doubt_ns }
}
