//! Rates of the last minutes: the counters, once a second.

use super::front::Front;
use super::metrics::{Metrics, Snapshot};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Samples that are kept: five minutes.
const SAMPLES: usize = 301;
/// Samples over which quantiles are taken: the last minute.
const MINUTE: usize = 60;

/// A counter, and its name.
type Counted = (&'static str, fn(&Metrics) -> u64);

/// What is counted in a second.
const COUNTED: [Counted; 5] = [
    ("accepted", |metrics| metrics.accepted.get()),
    ("delivered", |metrics| metrics.delivered.get()),
    ("deliver_sm", |metrics| metrics.deliver_sm.get()),
    ("refused", |metrics| metrics.refused.get()),
    ("again", |metrics| metrics.again.get()),
];

struct Sample {
    at: Instant,
    counts: [u64; COUNTED.len()],
    submit: Snapshot,
    delivery: Snapshot,
}

/// The samples.
#[derive(Default)]
pub(super) struct Rates(Mutex<VecDeque<Sample>>);

/// A rate in each second, the oldest first.
pub(super) struct Series {
    pub name: &'static str,
    pub per_s: Vec<f64>,
}

impl Rates {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Sample>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, metrics: &Metrics) {
        let sample = Sample {
            at: Instant::now(),
            counts: COUNTED.map(|counted| counted.1(metrics)),
            submit: metrics.submit.snapshot(),
            delivery: metrics.delivery.snapshot(),
        };
        let mut samples = self.lock();
        if samples.len() == SAMPLES {
            samples.pop_front();
        }
        samples.push_back(sample);
    }

    /// Rates of the last `seconds`.
    pub fn series(&self, seconds: usize) -> Vec<Series> {
        let samples = self.lock();
        let first = samples.len().saturating_sub(seconds + 1);
        let of = |(at, counted): (usize, &Counted)| {
            let rate = |pair: (&Sample, &Sample)| {
                let seconds = pair.1.at.duration_since(pair.0.at).as_secs_f64().max(1e-3);
                (pair.1.counts[at] - pair.0.counts[at]) as f64 / seconds
            };
            let per_s = samples.range(first..).zip(samples.range(first..).skip(1)).map(rate).collect();
            Series { name: counted.0, per_s }
        };
        COUNTED.iter().enumerate().map(of).collect()
    }

    /// Latencies of the last minute, µs: of submit_sm's answer and from acceptance to delivery, at
    /// these quantiles; none where nothing happened.
    pub fn quantiles_us(&self, quantiles: &[f64]) -> [Vec<Option<u64>>; 2] {
        let samples = self.lock();
        let (Some(last), first) = (samples.back(), samples.len().saturating_sub(MINUTE + 1)) else {
            return [vec![None; quantiles.len()], vec![None; quantiles.len()]];
        };
        let of = |of: fn(&Sample) -> &Snapshot| {
            let since = of(last).since(of(&samples[first]));
            quantiles.iter().map(|&quantile| since.quantile_us(quantile)).collect()
        };
        [of(|sample| &sample.submit), of(|sample| &sample.delivery)]
    }
}

/// Samples until the server ends.
pub(super) async fn run(front: Arc<Front>) {
    let mut tick = tokio::time::interval(Duration::from_secs(1));
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    while !front.has_ended() {
        tick.tick().await;
        front.rates.add(&front.metrics);
        front.log.tell_left_out();
    }
}
