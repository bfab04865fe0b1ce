//! How much of the time inside I/O calls the thread was on the CPU.
//!
//! The CPU time outside I/O calls is the thread's CPU time less what it spent inside them. Reading
//! the thread's CPU clock around every call would cost more than most calls do, so three rules give
//! the CPU time inside:
//!
//! 1. A call shorter than [`LONG_NS`] is CPU time all through: no device answers that fast, so it
//!    was served from memory.
//! 2. A longer call is measured exactly when chance (one in four) and the budget allow. The budget
//!    is 1/1024 of the time spent inside I/O calls. The choice is random because the calls of a
//!    statement come in a pattern (journal sync, database sync) with which a regular sample could
//!    fall in step.
//! 3. A longer call that was not measured counts with what is typical of the last measured ones of
//!    its kind: same file class, same operation, and a duration of the same order (within a factor
//!    of four). So a bulk load's huge sync says nothing about the small ones after it. Typical is
//!    the plain mean of the last sixteen: what counts is the sum over many calls, and the CPU time
//!    of a call is so skewed (a journal commit now and then) that a median or a trimmed mean takes
//!    too little out, by 2 to 3 % of the wall time of inserts with a rollback journal.
//!
//! No call counts with more CPU time than it took. The uncertainty of an estimate is the mean
//! distance of the sixteen from the typical value, and at least a quarter of that value: sixteen
//! calls may agree by chance while the load of the machine, and with it the CPU time of a sync,
//! changes from one second to the next. Uncertainties are added, not their squares, because what
//! the typical value has wrong it has wrong for all calls alike.

use crate::kind::{FileClass, Op};

/// Calls shorter than this waited for no device, ns.
pub const LONG_NS: u64 = 15_000;
/// What measuring one call costs, ns: two readings of the thread's CPU clock, each half a
/// microsecond when it is done over and over, and about two when the caches are cold, as they are
/// when a thread has slept in a sync.
const COST_NS: u64 = 4_000;
/// The share of the time in I/O calls that may be spent on measuring CPU: 1/2^10.
const BUDGET_SHIFT: u32 = 10;
/// The budget saved up for later, at most, ns: enough for a statement's first few calls.
const MAX_CREDIT_NS: u64 = 8 * COST_NS;
/// How many measured calls of a kind and size are remembered.
const MEMORY: usize = 16;
/// Orders of duration: below 60 µs, 240 µs, 1 ms, 4 ms, 15 ms, and above.
const SIZES: usize = 6;

/// The CPU time (ns) of the last measured calls of one kind and order of duration.
#[derive(Clone, Copy)]
#[repr(align(64))]
struct LongCalls {
    last_ns: [u32; MEMORY],
    /// How many of `last_ns` are filled.
    known: u8,
    next: u8,
    typical_ns: u32,
    spread_ns: u32,
}

impl LongCalls {
    const UNKNOWN: Self = Self { last_ns: [0; MEMORY], known: 0, next: 0, typical_ns: 0, spread_ns: 0 };

    fn learn(&mut self, cpu_ns: u64) {
        let next = usize::from(self.next) % MEMORY;
        self.last_ns[next] = u32::try_from(cpu_ns).unwrap_or(u32::MAX);
        self.next = ((next + 1) % MEMORY) as u8;
        self.known = (self.known + 1).min(MEMORY as u8);
        let last = &self.last_ns[..usize::from(self.known)];
        let mean = |values: &mut dyn ExactSizeIterator<Item = u32>| {
            let number = values.len().max(1) as u64;
            (values.map(u64::from).sum::<u64>() / number) as u32
        };
        let typical_ns = mean(&mut last.iter().copied());
        self.typical_ns = typical_ns;
        // One measured call tells nothing about the spread.
        self.spread_ns = match last.len() {
            1 => typical_ns,
            _ => mean(&mut last.iter().map(|ns| ns.abs_diff(typical_ns))).max(typical_ns / 4),
        };
    }
}

/// The order of a long call's duration.
fn size(ns: u64) -> usize {
    let fours = (ns / LONG_NS).max(1).ilog2() / 2;
    (fours as usize).min(SIZES - 1)
}

/// What one thread knows about the CPU time of its long calls, and its budget for finding out.
pub struct Sampler {
    credit_ns: u64,
    random: u64,
    /// One bit for each operation of each class: the last call was long, so the next may be. Kept
    /// apart from `kinds` so that a short call touches few cache lines.
    expected: [u16; FileClass::COUNT],
    kinds: [[[LongCalls; SIZES]; Op::COUNT]; FileClass::COUNT],
}

/// CPU time inside one call: the best estimate and its uncertainty, ns.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CpuInCall {
    pub ns: f64,
    pub doubt_ns: f64,
}

impl CpuInCall {
    fn exactly(ns: u64) -> Self {
        Self { ns: ns as f64, doubt_ns: 0.0 }
    }
}

fn bit(op: Op) -> u16 {
    const { assert!(Op::COUNT <= 16) };
    1 << op as u16
}

impl Sampler {
    /// A sampler that knows nothing but that syncs are long.
    pub fn new(seed: u64) -> Self {
        Self {
            credit_ns: MAX_CREDIT_NS,
            random: seed | 1,
            expected: [bit(Op::Sync); FileClass::COUNT],
            kinds: [[[LongCalls::UNKNOWN; SIZES]; Op::COUNT]; FileClass::COUNT],
        }
    }

    /// Whether the next call of this kind is to be measured.
    #[inline]
    pub fn wants(&mut self, class: FileClass, op: Op) -> bool {
        if self.expected[class as usize] & bit(op) == 0 || self.credit_ns < COST_NS {
            return false;
        }
        // xorshift64 (Marsaglia 2003).
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        // One in four; while the budget is untouched, as at the beginning, every one.
        let take = self.random >> 62 == 0 || self.credit_ns >= MAX_CREDIT_NS / 2;
        if take {
            self.credit_ns -= COST_NS;
        }
        take
    }

    /// Accounts for a call that took `ns`, of which `measured` on the CPU if that was measured.
    #[inline]
    pub fn account(&mut self, class: FileClass, op: Op, ns: u64, measured: Option<u64>) -> CpuInCall {
        self.credit_ns = (self.credit_ns + (ns >> BUDGET_SHIFT)).min(MAX_CREDIT_NS);
        if ns < LONG_NS {
            self.expected[class as usize] &= !bit(op);
            CpuInCall::exactly(measured.unwrap_or(ns).min(ns))
        } else {
            self.expected[class as usize] |= bit(op);
            self.account_long(class, op, ns, measured)
        }
    }

    fn account_long(&mut self, class: FileClass, op: Op, ns: u64, measured: Option<u64>) -> CpuInCall {
        let sizes = &mut self.kinds[class as usize][op as usize];
        let size = size(ns);
        if let Some(cpu_ns) = measured {
            let cpu_ns = cpu_ns.min(ns);
            sizes[size].learn(cpu_ns);
            return CpuInCall::exactly(cpu_ns);
        }
        let nearest =
            (0..SIZES).filter(|other| sizes[*other].known > 0).min_by_key(|other| other.abs_diff(size));
        match nearest {
            Some(near) => {
                let calls = &sizes[near];
                let cpu_ns = f64::from(calls.typical_ns).min(ns as f64);
                // What another size tells is a guess.
                let doubt_ns = if near == size { f64::from(calls.spread_ns) } else { cpu_ns };
                CpuInCall { ns: cpu_ns, doubt_ns }
            }
            // Nothing is known: half a short call and wide doubt.
            None => CpuInCall { ns: LONG_NS as f64 / 2.0, doubt_ns: LONG_NS as f64 / 2.0 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAL_SYNC: (FileClass, Op) = (FileClass::Wal, Op::Sync);

    #[test]
    fn short_calls_are_cpu_time() {
        let mut sampler = Sampler::new(7);
        assert!(!sampler.wants(FileClass::Database, Op::Read));
        assert_eq!(sampler.account(FileClass::Database, Op::Read, 900, None), CpuInCall::exactly(900));
        sampler.account(FileClass::Database, Op::Read, 90_000, None);
        assert!(sampler.wants(FileClass::Database, Op::Read), "after a long read the next may be long");
        assert!(!sampler.wants(FileClass::Wal, Op::Read));
    }

    #[test]
    fn sizes_are_factors_of_four() {
        let sizes = [15, 59, 61, 239, 241, 959, 961, 3_839, 3_841, 15_359, 15_361, 9_999_999];
        assert_eq!(sizes.map(|us| size(us * 1000)), [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]);
    }

    #[test]
    fn unmeasured_long_calls_take_what_is_typical_of_measured_ones() {
        let mut sampler = Sampler::new(7);
        let mut measured = 0;
        let (class, op) = WAL_SYNC;
        for call in 0..10_000_u64 {
            let cpu = 10_000 + call % 3 * 1000;
            let sample = sampler.wants(class, op).then_some(cpu);
            measured += u64::from(sample.is_some());
            let estimate = sampler.account(class, op, 100_000, sample);
            if call > 1000 {
                assert!((estimate.ns - 11_000.0).abs() <= 1000.0, "call {call}: {estimate:?}");
                assert!(sample.is_none() || estimate.doubt_ns == 0.0);
            }
        }
        // 100 µs a call earn 97 ns; one measurement costs 4000 ns.
        assert!((200..300).contains(&measured), "{measured} of 10000 calls were measured");
    }

    #[test]
    fn a_huge_call_says_nothing_about_small_ones() {
        let mut sampler = Sampler::new(7);
        let (class, op) = WAL_SYNC;
        for _ in 0..8 {
            sampler.account(class, op, 100_000, Some(12_000));
        }
        for _ in 0..8 {
            sampler.account(class, op, 20_000_000, Some(9_000_000));
        }
        assert_eq!(sampler.account(class, op, 100_000, None).ns, 12_000.0);
        assert_eq!(sampler.account(class, op, 20_000_000, None).ns, 9_000_000.0);
        // The nearest size is better than nothing, and never more than the call itself.
        assert_eq!(sampler.account(class, op, 30_000, None), CpuInCall { ns: 12_000.0, doubt_ns: 12_000.0 });
        assert_eq!(sampler.account(class, op, 8_000_000, None).ns, 8_000_000.0);
    }

    #[test]
    fn what_is_typical_keeps_the_sum() {
        let mut calls = LongCalls::UNKNOWN;
        // Skewed, as journal commits are: the sum of many estimates is the sum of the calls.
        for call in 0..MEMORY as u64 {
            calls.learn(if call % 8 == 0 { 90_000 } else { 10_000 });
        }
        assert_eq!((calls.typical_ns, calls.spread_ns), (20_000, 17_500));
        for call in 0..MEMORY as u64 {
            calls.learn(10_000 + call % 2 * 20_000);
        }
        assert_eq!((calls.typical_ns, calls.spread_ns), (20_000, 10_000));
    }

    #[test]
    fn sixteen_equal_calls_leave_a_doubt() {
        let mut calls = LongCalls::UNKNOWN;
        for _ in 0..MEMORY {
            calls.learn(80_000);
        }
        assert_eq!((calls.typical_ns, calls.spread_ns), (80_000, 20_000));
    }

    #[test]
    fn estimates_over_many_skewed_calls_are_unbiased() {
        // A rollback-journal commit: the journal's sync, then the database's; now and then one of
        // them pays for a commit of the file system's journal. What is not measured must count in
        // the sum as if it had been.
        let mut sampler = Sampler::new(0x5EED);
        let mut random = 99_u64;
        let (mut estimated, mut true_sum, mut unmeasured) = (0.0, 0.0, 0);
        for _ in 0..200_000 {
            for (class, usual_ns) in [(FileClass::RollbackJournal, 11_000), (FileClass::Database, 17_000)] {
                random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let cpu_ns = if random >> 61 == 0 { 7 * usual_ns } else { usual_ns + (random >> 52) };
                let sample = sampler.wants(class, Op::Sync).then_some(cpu_ns);
                unmeasured += u32::from(sample.is_none());
                estimated += sampler.account(class, Op::Sync, 200_000, sample).ns;
                true_sum += cpu_ns as f64;
            }
        }
        assert!(unmeasured > 350_000, "{unmeasured}");
        let error = estimated / true_sum - 1.0;
        assert!(error.abs() < 0.02, "{error}");
    }

    #[test]
    fn slow_devices_get_measured_most_often() {
        let mut sampler = Sampler::new(7);
        let (class, op) = WAL_SYNC;
        let measured = (0..1000)
            .filter(|_| {
                let sample = sampler.wants(class, op);
                sampler.account(class, op, 10_000_000, sample.then_some(20_000));
                sample
            })
            .count();
        assert_eq!(measured, 1000, "four microseconds in ten milliseconds");
    }
}
