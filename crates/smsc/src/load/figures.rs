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
    /// Messages of an open loop that were due before its end, and that its clients had not come to
    /// submit by then.
    pub not_submitted: AtomicU64,
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
    /// From the intended submission to the submission, in an open loop.
    pub late: Latencies,
    /// From the (intended) submission to the acknowledgement.
    pub accept: Latencies,
    /// From the (intended) submission to the durable delivery.
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
    pub not_submitted: u64,
    pub attempts: u64,
    pub finished: u64,
    pub delivered: u64,
    pub receipts: u64,
    pub fenced: u64,
    pub alerts: u64,
    pub expired: u64,
    pub archived: u64,
}

impl Snapshot {
    /// Messages that were to be submitted, whether they were or not.
    #[must_use]
    pub fn offered(&self) -> u64 {
        self.accepted + self.refused + self.not_submitted
    }
}

impl Figures {
    /// Grows whenever anything happens to a message.
    pub(super) fn progress(&self) -> u64 {
        let counters = [&self.accepted, &self.refused, &self.attempts, &self.receipts, &self.expired];
        counters.iter().map(|counter| counter.load(Relaxed)).sum()
    }

    /// The counters now.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot {
            accepted: self.accepted.load(Relaxed),
            refused: self.refused.load(Relaxed),
            not_submitted: self.not_submitted.load(Relaxed),
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

/// Histograms of microseconds, three digits, up to an hour.
#[derive(Debug)]
pub struct Latencies(Mutex<Histograms>);

/// All that was measured is in one of both.
#[derive(Debug)]
struct Histograms {
    all: Histogram<u64>,
    /// What nobody has looked at yet.
    recent: Histogram<u64>,
}

impl Histograms {
    fn unite(&mut self) {
        // Both have the same bounds, so adding cannot fail.
        let _ = self.all.add(&self.recent);
        self.recent.reset();
    }
}

/// When a thread hands over what it has measured: when it is so much, or so long ago that somebody
/// may be looking, µs.
const HANDED_OVER: (u64, i64) = (4096, 1_000_000);

/// Whether a thread that has measured so much should hand it over, having done so last at
/// `last_us`.
pub(super) fn is_to_hand_over(measured: &Histogram<u64>, last_us: &mut i64, now_us: i64) -> bool {
    let due = measured.len() >= HANDED_OVER.0 || now_us - *last_us >= HANDED_OVER.1;
    if due {
        *last_us = now_us;
    }
    due
}

/// Three significant digits; the bounds are valid, so making it cannot fail.
pub(crate) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 3_600_000_000, 3).unwrap_or_else(|_| unreachable!("the bounds are valid"))
}

impl Default for Latencies {
    fn default() -> Self {
        Latencies(Mutex::new(Histograms { all: histogram(), recent: histogram() }))
    }
}

impl Latencies {
    /// Adds what one thread has measured, and empties it.
    pub(super) fn take(&self, from: &mut Histogram<u64>) {
        // Both have the same bounds, so adding cannot fail.
        let _ = self.lock().recent.add(&*from);
        from.reset();
    }

    /// Whether nothing was measured.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        let mut histograms = self.lock();
        histograms.unite();
        histograms.all.is_empty()
    }

    /// At this quantile (0 to 1), ms; 0 if nothing was measured.
    #[must_use]
    pub fn ms_at(&self, quantile: f64) -> f64 {
        let mut histograms = self.lock();
        histograms.unite();
        let all = &histograms.all;
        if all.is_empty() { 0.0 } else { all.value_at_quantile(quantile) as f64 / 1000.0 }
    }

    /// At this quantile of what was measured since anybody asked last, ms; none if nothing was.
    #[must_use]
    pub fn recent_ms_at(&self, quantile: f64) -> Option<f64> {
        let mut histograms = self.lock();
        let recent = &histograms.recent;
        let ms = (!recent.is_empty()).then(|| recent.value_at_quantile(quantile) as f64 / 1000.0);
        histograms.unite();
        ms
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Histograms> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
