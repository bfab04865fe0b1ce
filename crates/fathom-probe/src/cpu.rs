//! How much of the time inside I/O calls the thread was on the CPU.
//!
//! The CPU time outside I/O calls is the thread's CPU time less what it spent inside them. Reading the thread's CPU clock
//! around every call would cost more than most calls do, so three rules give the CPU time inside:
//!
//! 1. A call shorter than [`LONG_NS`] is CPU time all through: no device answers that fast, so it was served from memory.
//! 2. A longer call is measured exactly when the budget allows. The budget is 1/512 of the time spent inside I/O calls, so
//!    slow devices get every call measured and fast ones a random sample. The choice is random because the calls of a
//!    statement come in a pattern (journal sync, database sync) with which a regular sample could fall in step.
//! 3. A longer call that was not measured counts with the mean of the measured ones of its kind (file class and operation),
//!    and its uncertainty is their variance. Variances of calls are added: covariance assumed 0.

/// Calls shorter than this waited for no device, ns.
pub const LONG_NS: u64 = 15_000;
/// What measuring one call costs: two readings of the thread's CPU clock, ns.
const COST_NS: u64 = 1_050;
/// The share of the time in I/O calls that may be spent on measuring CPU: 1/2^9.
const BUDGET_SHIFT: u32 = 9;
/// The budget saved up for later, at most, ns: enough for a statement's first few calls.
const MAX_CREDIT_NS: u64 = 16 * COST_NS;
/// The mean follows about this many of the last measured calls.
const MEMORY: f64 = 64.0;

/// What is known about the CPU time of long calls of one kind.
#[derive(Clone, Copy, Default)]
pub struct LongCalls {
    /// The last call of this kind was long, so the next may be.
    expected: bool,
    measured: f64,
    mean_ns: f64,
    variance_ns2: f64,
}

impl LongCalls {
    /// The first call of a kind that always goes to the device is expected to be long.
    pub const fn expected() -> Self {
        Self { expected: true, measured: 0.0, mean_ns: 0.0, variance_ns2: 0.0 }
    }

    fn learn(&mut self, cpu_ns: f64) {
        self.measured = (self.measured + 1.0).min(MEMORY);
        let difference = cpu_ns - self.mean_ns;
        let weight = 1.0 / self.measured;
        self.mean_ns += weight * difference;
        self.variance_ns2 = (1.0 - weight) * (self.variance_ns2 + weight * difference * difference);
    }
}

/// The budget for exact measurements of one thread, and its source of random choices.
pub struct Sampler {
    credit_ns: u64,
    random: u64,
}

/// CPU time inside one call: the best estimate (ns) and its variance (ns²).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CpuInCall {
    pub ns: f64,
    pub variance_ns2: f64,
}

impl Sampler {
    pub fn new(seed: u64) -> Self {
        Self { credit_ns: MAX_CREDIT_NS, random: seed | 1 }
    }

    /// Whether the next call of this kind is to be measured.
    #[inline]
    pub fn wants(&mut self, kind: &LongCalls) -> bool {
        if !kind.expected || self.credit_ns < COST_NS {
            return false;
        }
        // xorshift64 (Marsaglia 2003); a well-known kind is measured every other time, an unknown one always.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let take = kind.measured < 2.0 || self.random >> 63 == 0;
        if take {
            self.credit_ns -= COST_NS;
        }
        take
    }

    /// Accounts for a call that took `ns`, of which `measured` on the CPU if that was measured.
    #[inline]
    pub fn account(&mut self, kind: &mut LongCalls, ns: u64, measured: Option<u64>) -> CpuInCall {
        self.credit_ns = (self.credit_ns + (ns >> BUDGET_SHIFT)).min(MAX_CREDIT_NS);
        kind.expected = ns >= LONG_NS;
        let wall = ns as f64;
        if let Some(cpu_ns) = measured {
            let cpu = (cpu_ns as f64).min(wall);
            if kind.expected {
                kind.learn(cpu);
            }
            CpuInCall { ns: cpu, variance_ns2: 0.0 }
        } else if !kind.expected {
            CpuInCall { ns: wall, variance_ns2: 0.0 }
        } else if kind.measured < 1.0 {
            // Nothing is known: the cost of a short call and wide doubt.
            let guess = LONG_NS as f64 / 2.0;
            CpuInCall { ns: guess, variance_ns2: guess * guess }
        } else {
            // The mean is itself uncertain by variance / measured; one sample tells nothing about the variance.
            let variance = if kind.measured < 2.0 {
                kind.mean_ns * kind.mean_ns
            } else {
                kind.variance_ns2 * (1.0 + 1.0 / kind.measured)
            };
            CpuInCall { ns: kind.mean_ns.min(wall), variance_ns2: variance }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_calls_are_cpu_time() {
        let mut sampler = Sampler::new(7);
        let mut kind = LongCalls::default();
        assert!(!sampler.wants(&kind));
        assert_eq!(sampler.account(&mut kind, 900, None), CpuInCall { ns: 900.0, variance_ns2: 0.0 });
    }

    #[test]
    fn unmeasured_long_calls_take_the_mean_of_measured_ones() {
        let mut sampler = Sampler::new(7);
        let mut kind = LongCalls::expected();
        let mut measured = 0;
        for call in 0..10_000_u64 {
            let cpu = 10_000 + call % 3 * 1000;
            let sample = sampler.wants(&kind).then_some(cpu);
            measured += u64::from(sample.is_some());
            let estimate = sampler.account(&mut kind, 100_000, sample);
            if call > 100 {
                assert!((estimate.ns - 11_000.0).abs() <= 1000.0, "call {call}: {estimate:?}");
                assert!(sample.is_some() == (estimate.variance_ns2 == 0.0));
            }
        }
        // 100 µs a call earn 195 ns; one measurement costs 1050 ns.
        assert!((1500..2200).contains(&measured), "{measured} of 10000 calls were measured");
    }

    #[test]
    fn slow_devices_get_every_other_call_measured_at_least() {
        let mut sampler = Sampler::new(7);
        let mut kind = LongCalls::expected();
        let measured = (0..1000)
            .filter(|_| {
                let sample = sampler.wants(&kind);
                sampler.account(&mut kind, 5_000_000, sample.then_some(20_000));
                sample
            })
            .count();
        assert!(measured > 400, "{measured}");
    }
}
