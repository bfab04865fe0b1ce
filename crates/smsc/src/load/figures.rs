//! What a run counts and how long things took.

use hdrhistogram::Histogram;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// Counters of a run; each only grows.
#[derive(Debug, Default)]
pub struct Figures {
    /// Messages accepted, durably.
    pub accepted: AtomicU64,
    /// Messages that the centre refused.
    pub refused: AtomicU64,
    /// Attempts of delivery that ended, receipts not counted.
    pub attempts: AtomicU64,
    /// Messages that became final by delivery or refusal, durably; receipts not counted.
    pub finished: AtomicU64,
    /// Of these, delivered.
    pub delivered: AtomicU64,
    /// Receipts delivered to their applications.
    pub receipts: AtomicU64,
    /// Completions that were fenced off.
    pub fenced: AtomicU64,
    /// Stations that an alert made ready.
    pub alerts: AtomicU64,
    /// Messages that expired.
    pub expired: AtomicU64,
    /// Messages archived.
    pub archived: AtomicU64,
    /// From the (intended) submission to the acknowledgement.
    pub accept: Latencies,
    /// From the submission to the durable delivery.
    pub deliver: Latencies,
    /// From the claim to the durable completion of an attempt, its time in the air included.
    pub send: Latencies,
}

/// Counters at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[expect(missing_docs, reason = "as in `Figures`")]
pub struct Snapshot {
    pub accepted: u64,
    pub refused: u64,
    pub attempts: u64,
    pub finished: u64,
    pub delivered: u64,
    pub receipts: u64,
    pub fenced: u64,
    pub alerts: u64,
    pub expired: u64,
    pub archived: u64,
}

impl Figures {
    /// The counters now.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            accepted: self.accepted.load(Relaxed),
            refused: self.refused.load(Relaxed),
            attempts: self.attempts.load(Relaxed),
            finished: self.finished.load(Relaxed),
            delivered: self.delivered.load(Relaxed),
            receipts: self.receipts.load(Relaxed),
            fenced: self.fenced.load(Relaxed),
            alerts: self.alerts.load(Relaxed),
            expired: self.expired.load(Relaxed),
            archived: self.archived.load(Relaxed),
        }
    }
}

/// A histogram of microseconds, three digits, up to an hour.
#[derive(Debug)]
pub struct Latencies(Mutex<Histogram<u64>>);

/// Three significant digits; the bounds are valid, so making it cannot fail.
pub(super) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 3_600_000_000, 3).unwrap_or_else(|_| unreachable!("the bounds are valid"))
}

impl Default for Latencies {
    fn default() -> Self {
        Latencies(Mutex::new(histogram()))
    }
}

impl Latencies {
    /// Adds what one thread has measured, and empties it.
    pub(super) fn take(&self, from: &mut Histogram<u64>) {
        // Both have the same bounds, so adding cannot fail.
        let _ = self.0.lock().unwrap_or_else(PoisonError::into_inner).add(&*from);
        from.reset();
    }

    /// At this quantile (0 to 1), ms; 0 if nothing was measured.
    #[must_use]
    pub fn ms_at(&self, quantile: f64) -> f64 {
        let histogram = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if histogram.is_empty() { 0.0 } else { histogram.value_at_quantile(quantile) as f64 / 1000.0 }
    }
}
