//! One step of a load: a rate, and what became of it.

/// What became of one step.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Step {
    /// Messages to be submitted in a second.
    pub rate: f64,
    /// Messages that were to be submitted.
    pub offered: u64,
    /// Of these, accepted.
    pub accepted: u64,
    /// Refused.
    pub refused: u64,
    /// Of these, with ESME_RTHROTTLED or ESME_RMSGQFUL.
    pub throttled: u64,
    /// Neither, when the step ended, or not submitted, as nothing was answered any more.
    pub unanswered: u64,
    /// Receipts that came in.
    pub receipts: u64,
    /// Of these, the ones that were not late.
    pub receipts_in_time: u64,
    /// Receipts that were asked for, of accepted messages.
    pub receipts_due: u64,
    /// How long it took, the wait for the last receipts included, s.
    pub seconds: f64,
    /// Accepted in a second, from the beginning to the last of them, or to the end of the arrivals
    /// if that was later.
    pub accepted_per_s: f64,
    /// From the intended submission to the answer: p50, p99, p99.9, the longest, ms.
    pub latency_ms: [f64; 4],
    /// Why a session broke before the step's end; none where none did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broke: Option<String>,
}

impl Step {
    /// Whether the centre kept up: nearly all accepted, 99 of 100 within `limit_ms`, and nearly all
    /// receipts in time.
    #[must_use]
    pub fn keeps_up(&self, limit_ms: f64) -> bool {
        let nearly_all = |those: u64, all: u64| those as f64 >= 0.99 * all as f64;
        self.broke.is_none()
            && nearly_all(self.accepted, self.offered)
            && self.latency_ms[1] <= limit_ms
            && nearly_all(self.receipts_in_time, self.receipts_due)
    }

    /// Whether what was refused with ESME_RTHROTTLED or ESME_RMSGQFUL is more than may be refused.
    /// That is how limits of an account and of a queue look, whatever else the centre could do.
    #[must_use]
    pub fn is_limited(&self) -> bool {
        self.throttled as f64 > 0.01 * self.offered as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A ramp called a rate kept up with whose receipts had not come: 34,000 a second, of which the
    /// centre delivered 26,000.
    #[test]
    fn a_centre_whose_receipts_are_late_does_not_keep_up() {
        let step = |receipts_in_time, receipts_due| Step {
            rate: 1000.0,
            offered: 5000,
            accepted: 5000,
            refused: 0,
            throttled: 0,
            unanswered: 0,
            receipts: 5000,
            receipts_in_time,
            receipts_due,
            seconds: 7.0,
            accepted_per_s: 1000.0,
            latency_ms: [1.0, 2.0, 3.0, 4.0],
            broke: None,
        };
        assert!(step(4950, 5000).keeps_up(2.0) && !step(4949, 5000).keeps_up(2.0));
        // Nothing was over a limit.
        assert!(!step(0, 0).is_limited() && !Step { throttled: 50, ..step(0, 0) }.is_limited());
        assert!(Step { throttled: 51, ..step(0, 0) }.is_limited());
        // Who asks for none waits for none.
        assert!(step(0, 0).keeps_up(2.0) && !step(0, 0).keeps_up(1.9));
    }
}
