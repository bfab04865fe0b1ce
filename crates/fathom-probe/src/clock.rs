//! The clock of a statement, or of a whole phase: how long it took and where the time went.
//!
//! Reading the thread's CPU clock is a system call and costs 0.5 to 2 µs, too much for every short
//! statement. It is needed for one thing only: to tell waiting outside of VFS calls from computing.
//! So it is left out where there is little to tell: where the time outside of calls is below
//! [`trusted_ns`] it counts as CPU time. A statement that turns out to have spent more needs the
//! clock at its start, too. It is read there when a statement lately needed it or the last reading
//! is old; else the clock at the start is reckoned from that last reading, as if nothing had waited
//! since.

use std::marker::PhantomData;

use crate::clocks::{Moment, thread_cpu_ns};
use crate::meter::{History, Meter, Reading, Totals, meter};
use crate::split::Split;

/// If a statement starts within this time after a reading, the CPU clock at its start is known from
/// it: a thread is not switched out and back in so short a time (ns).
const SAME_SLICE_NS: u64 = 2_000;
/// A reading older than this is renewed at the start of a statement (ns): 2 µs in 10 ms.
const OLD_NS: u64 = 10_000_000;
/// A reckoned start serves statements that spend at least so many times the age of the reading
/// outside of calls, so that what was waited before the statement is at most that part of the
/// result.
const LONGER_THAN_AGE: u64 = 16;
/// After a statement that needed the CPU clock, so many statements start with a reading.
const ALERT: u8 = 8;

/// How long a statement may be outside of VFS calls without the CPU clock being asked whether it
/// waited there (ns): an eighth of the statement, between 25 and 100 µs.
fn trusted_ns(wall_ns: u64) -> u64 {
    (wall_ns / 8).clamp(25_000, 100_000)
}

/// A running clock of the calling thread. Clocks may be nested: one over a phase, one over each of
/// its statements.
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
    at: Moment,
    cpu: CpuAtStart,
    before: Totals,
    /// A thread's clock belongs to the thread.
    not_send: PhantomData<*const ()>,
}

/// What is known of the thread's CPU clock at the start.
#[derive(Clone, Copy, Debug)]
struct CpuAtStart {
    cpu_ns: u64,
    /// What the reading adds of its own to a difference (ns).
    bias_ns: u64,
    /// Age of the reading from which it was reckoned (ns); 0 if it is as good as read.
    age_ns: u64,
}

impl CpuAtStart {
    /// The clock now, if only VFS calls waited since the last reading.
    fn reckoned(last: &Reading, age_ns: u64, now: &Totals) -> Self {
        let in_calls_ns = now.calls_ns().saturating_sub(last.calls_ns);
        let cpu_in_calls_ns = (now.cpu_ns - last.calls_cpu_ns).max(0.0) as u64;
        let cpu_ns = last.cpu_ns + age_ns.saturating_sub(in_calls_ns) + cpu_in_calls_ns;
        Self { cpu_ns, bias_ns: 0, age_ns: if age_ns <= SAME_SLICE_NS { 0 } else { age_ns } }
    }
}

/// A statement's [`Split`] with what it was made from, to check that nothing is missing or counted
/// twice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Account {
    /// The result.
    pub split: Split,
    /// Time inside VFS calls other than read, write and sync, ns: part of `split.other_ns`.
    pub other_calls_ns: u64,
    /// Thread CPU time outside the VFS calls by the CPU clock, before anything is made of it, ns;
    /// none where the clock was not read.
    pub cpu_measured_ns: Option<f64>,
    /// Uncertainty of `cpu_measured_ns` from not measuring every call, ns.
    pub cpu_doubt_ns: f64,
}

impl Account {
    /// What the independently measured parts leave of the wall time, ns: waiting outside of calls
    /// (the scheduler gave the CPU to others, a page fault on mapped memory went to the device)
    /// where positive, something counted twice where negative. None where the CPU clock was not
    /// read.
    #[must_use]
    pub fn unexplained_ns(&self) -> Option<f64> {
        let split = &self.split;
        let calls = split.read_ns + split.write_ns + split.sync_ns + self.other_calls_ns;
        self.cpu_measured_ns.map(|cpu| split.wall_ns as f64 - calls as f64 - cpu)
    }
}

impl StatementClock {
    /// Starts the clock.
    #[inline]
    pub fn start() -> Self {
        let Some(meter) = meter() else {
            let cpu = CpuAtStart { cpu_ns: thread_cpu_ns(), bias_ns: 0, age_ns: 0 };
            return Self { at: Moment::now(), cpu, before: Totals::default(), not_send: PhantomData };
        };
        let before = meter.totals();
        let history = meter.history();
        let at = Moment::now();
        if let Some(last) = history.last {
            let age_ns = at.ns_since(last.at);
            if age_ns <= SAME_SLICE_NS || age_ns <= OLD_NS && history.alert == 0 {
                let cpu = CpuAtStart::reckoned(&last, age_ns, &before);
                return Self { at, cpu, before, not_send: PhantomData };
            }
        }
        Self::start_reading(meter, before, history)
    }

    #[cold]
    fn start_reading(meter: &Meter, before: Totals, history: History) -> Self {
        let cpu_ns = thread_cpu_ns();
        let at = Moment::now();
        let last = Some(Reading { at, cpu_ns, calls_ns: before.calls_ns(), calls_cpu_ns: before.cpu_ns });
        meter.set_history(History { last, ..history });
        let cpu = CpuAtStart { cpu_ns, bias_ns: meter.bias_ns(), age_ns: 0 };
        Self { at, cpu, before, not_send: PhantomData }
    }

    /// Stops the clock: where the time went.
    #[inline]
    pub fn stop(self) -> Split {
        self.stop_account(false).split
    }

    /// Stops the clock and gives the parts as measured beside the result. With `always` the CPU
    /// clock is read even if the statement is so short that it tells little.
    pub fn stop_account(self, always: bool) -> Account {
        let end = Moment::now();
        let meter = meter();
        let after = meter.map_or(self.before, Meter::totals);
        let parts = Parts::between(end.ns_since(self.at), &self.before, &after);
        let needed = always || parts.outside_ns > trusted_ns(parts.wall_ns);
        let mut thread_cpu = None;
        if needed {
            let cpu_ns = thread_cpu_ns();
            if self.cpu.age_ns.saturating_mul(LONGER_THAN_AGE) <= parts.outside_ns {
                thread_cpu = Some(cpu_ns.saturating_sub(self.cpu.cpu_ns).saturating_sub(self.cpu.bias_ns));
            }
            if let Some(meter) = meter {
                let (calls_ns, calls_cpu_ns) = (after.calls_ns(), after.cpu_ns);
                let last = Some(Reading { at: end, cpu_ns, calls_ns, calls_cpu_ns });
                meter.set_history(History { last, alert: ALERT });
            }
        } else if let Some(meter) = meter {
            meter.calm();
        }
        parts.account(thread_cpu, &self.before, &after)
    }
}

/// The wall time of a statement and what was measured of it.
struct Parts {
    wall_ns: u64,
    read_ns: u64,
    write_ns: u64,
    sync_ns: u64,
    other_calls_ns: u64,
    /// Wall time outside of VFS calls.
    outside_ns: u64,
}

fn since(after: u64, before: u64) -> u64 {
    after.saturating_sub(before)
}

impl Parts {
    fn between(wall_ns: u64, before: &Totals, after: &Totals) -> Self {
        let read_ns = since(after.read.ns, before.read.ns);
        let write_ns = since(after.write.ns, before.write.ns);
        let sync_ns = since(after.sync.ns, before.sync.ns);
        let other_calls_ns = since(after.other.ns, before.other.ns);
        let outside_ns = wall_ns.saturating_sub(read_ns + write_ns + sync_ns + other_calls_ns);
        Self { wall_ns, read_ns, write_ns, sync_ns, other_calls_ns, outside_ns }
    }

    /// Divides the wall time. `thread_cpu_ns` is all CPU time of the thread, inside calls and
    /// outside, where known.
    ///
    /// Outside of VFS calls a thread computes; it waits there only if the scheduler takes the CPU
    /// away or mapped memory is not there. So the time outside counts as CPU unless the CPU clock
    /// proves otherwise: unless the clock falls short by more than twice the uncertainty of what
    /// was estimated instead of measured, and by more than the clocks' own slack. A clock that
    /// leaves less than nothing for the time outside proves only that the estimate was too high.
    fn account(&self, thread_cpu_ns: Option<u64>, before: &Totals, after: &Totals) -> Account {
        let cpu_measured_ns = thread_cpu_ns.map(|ns| ns as f64 - (after.cpu_ns - before.cpu_ns));
        let cpu_doubt_ns = (after.cpu_doubt_ns - before.cpu_doubt_ns).max(0.0);
        let slack_ns = 500.0 + self.outside_ns as f64 / 256.0;
        let cpu_ns = match cpu_measured_ns {
            // The difference is positive here, so that `cpu` is less than `outside_ns`.
            Some(cpu) if cpu > 0.0 && self.outside_ns as f64 - cpu > 2.0 * cpu_doubt_ns + slack_ns => {
                cpu as u64
            }
            _ => self.outside_ns,
        };
        let calls_ns = self.read_ns + self.write_ns + self.sync_ns;
        let split = Split {
            wall_ns: self.wall_ns,
            cpu_ns,
            read_ns: self.read_ns,
            write_ns: self.write_ns,
            sync_ns: self.sync_ns,
            other_ns: self.wall_ns.saturating_sub(cpu_ns + calls_ns),
            read_bytes: since(after.read.bytes, before.read.bytes),
            write_bytes: since(after.write.bytes, before.write.bytes),
            read_calls: since(after.read.calls, before.read.calls),
            write_calls: since(after.write.calls, before.write.calls),
            sync_calls: since(after.sync.calls, before.sync.calls),
            other_calls: since(after.other.calls, before.other.calls),
        };
        Account { split, other_calls_ns: self.other_calls_ns, cpu_measured_ns, cpu_doubt_ns }
    }
}
