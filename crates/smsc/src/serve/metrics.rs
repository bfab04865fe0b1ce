//! What a server counts.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds to it.
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Relaxed);
    }

    /// The number now.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Upper ends of the boxes of a histogram of latencies, µs: four to a factor of ten, from 0.1 ms
/// to 100 s, so that a quantile is right within a factor of 1.8.
const ENDS_US: [u64; 25] = [
    100,
    180,
    320,
    560,
    1000,
    1800,
    3200,
    5600,
    10_000,
    18_000,
    32_000,
    56_000,
    100_000,
    180_000,
    320_000,
    560_000,
    1_000_000,
    1_800_000,
    3_200_000,
    5_600_000,
    10_000_000,
    18_000_000,
    32_000_000,
    56_000_000,
    100_000_000,
];

/// A histogram of latencies.
#[derive(Debug, Default)]
pub struct Histogram {
    boxes: [Counter; ENDS_US.len()],
    count: Counter,
    sum_us: Counter,
}

impl Histogram {
    /// Adds a latency.
    pub fn add(&self, us: u64) {
        if let Some(place) = ENDS_US.iter().position(|&end| us <= end) {
            self.boxes[place].add(1);
        }
        self.count.add(1);
        self.sum_us.add(us);
    }

    /// What it has counted until now.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot { boxes: std::array::from_fn(|place| self.boxes[place].get()), count: self.count.get() }
    }

    fn write(&self, name: &str, out: &mut String) {
        let mut below = 0;
        for (end, boxed) in ENDS_US.iter().zip(&self.boxes) {
            below += boxed.get();
            // Writing to a string cannot fail, here and below.
            let _ = writeln!(out, "{name}_bucket{{le=\"{}\"}} {below}", *end as f64 / 1e6);
        }
        // One that is being added just now may be in its box and not in the count.
        let count = self.count.get().max(below);
        let _ = writeln!(out, "{name}_bucket{{le=\"+Inf\"}} {count}");
        let _ = writeln!(out, "{name}_sum {}", self.sum_us.get() as f64 / 1e6);
        let _ = writeln!(out, "{name}_count {count}");
    }
}

/// What a histogram had counted at a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    boxes: [u64; ENDS_US.len()],
    count: u64,
}

impl Snapshot {
    /// What was counted since an earlier one.
    #[must_use]
    pub fn since(&self, earlier: &Snapshot) -> Snapshot {
        Snapshot {
            boxes: std::array::from_fn(|place| self.boxes[place].saturating_sub(earlier.boxes[place])),
            count: self.count.saturating_sub(earlier.count),
        }
    }

    /// A quantile, µs, from 0 to 1: within its box in proportion, as Prometheus'
    /// `histogram_quantile` does it; beyond the last box, its end. None if nothing was counted.
    #[must_use]
    pub fn quantile_us(&self, quantile: f64) -> Option<u64> {
        if self.count == 0 {
            return None;
        }
        let rank = quantile * self.count as f64;
        let (mut below, mut begin) = (0, 0);
        for (&end, &boxed) in ENDS_US.iter().zip(&self.boxes) {
            if boxed > 0 && (below + boxed) as f64 >= rank {
                let part = (rank - below as f64) / boxed as f64;
                return Some(begin + ((end - begin) as f64 * part) as u64);
            }
            (below, begin) = (below + boxed, end);
        }
        Some(begin)
    }
}

/// Counters of a server since its start.
#[derive(Debug, Default)]
pub struct Metrics {
    /// Messages accepted, durably.
    pub accepted: Counter,
    /// Messages refused.
    pub refused: Counter,
    /// Of these, because of an account's rate or window.
    pub throttled: Counter,
    /// Messages refused while the store did not answer.
    pub store_silent: Counter,
    /// Messages delivered to mobiles.
    pub delivered: Counter,
    /// Messages that a mobile or an application refused for good.
    pub undeliverable: Counter,
    /// Attempts that are to be made again.
    pub again: Counter,
    /// Receipts and messages delivered to applications.
    pub deliver_sm: Counter,
    /// deliver_sm without an answer in time.
    pub unanswered: Counter,
    /// Messages whose validity ended.
    pub expired: Counter,
    /// Messages moved to the archive.
    pub archived: Counter,
    /// Binds that succeeded.
    pub binds: Counter,
    /// Binds that were refused.
    pub binds_refused: Counter,
    /// Passwords that were not looked at, after too many wrong ones.
    pub guesses_braked: Counter,
    /// Passwords that were not looked at, as too many waited.
    pub passwords_busy: Counter,
    /// Connections made.
    pub connections: Counter,
    /// Connections ended.
    pub connections_ended: Counter,
    /// Connections refused, as there were too many.
    pub connections_refused: Counter,
    /// Connections ended before they were bound, as others wanted their places.
    pub driven_out: Counter,
    /// PDUs answered with an error of their form.
    pub malformed: Counter,
    /// TLS handshakes that failed, or took too long.
    pub tls_failed: Counter,
    /// Applications called (outbind).
    pub outbinds: Counter,
    /// alert_notification sent.
    pub alerts: Counter,
    /// Binds to peers that succeeded.
    pub peer_binds: Counter,
    /// Messages submitted to peers.
    pub peer_submits: Counter,
    /// Of these, accepted.
    pub forwarded: Counter,
    /// Times that a peer wanted less.
    pub peer_throttled: Counter,
    /// Receipts and notifications of peers.
    pub peer_receipts: Counter,
    /// Of these, about a message that nobody waits for.
    pub peer_receipts_unmatched: Counter,
    /// Messages that came back, and were not sent on again.
    pub loops: Counter,
    /// Messages of peers for applications.
    pub from_peers: Counter,
    /// From the arrival of a submit_sm to its answer.
    pub submit: Histogram,
    /// From a message's acceptance, or its time, to its delivery.
    pub delivery: Histogram,
    /// Sessions that an operator ended.
    pub kicked: Counter,
    /// Messages refused, as too much waits for the application that would get their receipts.
    pub receipts_full: Counter,
    /// Requests of the HTTP API.
    pub api_requests: Counter,
    /// Of these, refused for a wrong password or token.
    pub api_unauthorized: Counter,
    /// Signing in to the admin page that failed.
    pub admin_unauthorized: Counter,
}

impl Metrics {
    /// In the text format of Prometheus.
    #[must_use]
    pub fn text(&self, bound: &[(String, usize)]) -> String {
        let mut out = String::new();
        for (name, help, counter) in [
            ("accepted_total", "Messages accepted, durably", &self.accepted),
            ("refused_total", "Messages refused", &self.refused),
            ("throttled_total", "Messages refused for rate or window", &self.throttled),
            ("delivered_total", "Messages delivered to mobiles", &self.delivered),
            ("undeliverable_total", "Messages refused for good by whom they were for", &self.undeliverable),
            ("attempts_again_total", "Attempts to be made again", &self.again),
            ("deliver_sm_total", "Receipts and messages delivered to applications", &self.deliver_sm),
            ("deliver_sm_unanswered_total", "deliver_sm without an answer in time", &self.unanswered),
            ("expired_total", "Messages whose validity ended", &self.expired),
            ("archived_total", "Messages moved to the archive", &self.archived),
            ("binds_total", "Binds that succeeded", &self.binds),
            ("binds_refused_total", "Binds that were refused", &self.binds_refused),
            ("guesses_braked_total", "Passwords not looked at after wrong ones", &self.guesses_braked),
            ("passwords_busy_total", "Passwords not looked at as many waited", &self.passwords_busy),
            ("connections_total", "Connections made", &self.connections),
            ("connections_refused_total", "Connections beyond the limit", &self.connections_refused),
            ("store_silent_total", "Messages refused while the store did not answer", &self.store_silent),
            ("connections_driven_out_total", "Unbound connections that made room", &self.driven_out),
            ("tls_failed_total", "TLS handshakes that failed", &self.tls_failed),
            ("outbinds_total", "Applications called with outbind", &self.outbinds),
            ("alerts_total", "alert_notification sent", &self.alerts),
            ("peer_binds_total", "Binds to peers that succeeded", &self.peer_binds),
            ("peer_submits_total", "Messages submitted to peers", &self.peer_submits),
            ("forwarded_total", "Messages accepted by peers", &self.forwarded),
            ("peer_throttled_total", "Times that a peer wanted less", &self.peer_throttled),
            ("peer_receipts_total", "Receipts of peers", &self.peer_receipts),
            ("peer_receipts_unmatched_total", "Receipts of no message", &self.peer_receipts_unmatched),
            ("loops_total", "Messages that came back, and were not sent on", &self.loops),
            ("from_peers_total", "Messages of peers for applications", &self.from_peers),
            ("malformed_total", "PDUs answered with an error of their form", &self.malformed),
            ("sessions_kicked_total", "Sessions that an operator ended", &self.kicked),
            ("receipts_full_total", "Messages refused as too many receipts wait", &self.receipts_full),
            ("api_requests_total", "Requests of the HTTP API", &self.api_requests),
            ("api_unauthorized_total", "Of these, with a wrong password or token", &self.api_unauthorized),
            (
                "admin_unauthorized_total",
                "Wrong passwords or tokens at the admin page",
                &self.admin_unauthorized,
            ),
        ] {
            let _ = writeln!(out, "# HELP smsc_{name} {help}.\n# TYPE smsc_{name} counter");
            let _ = writeln!(out, "smsc_{name} {}", counter.get());
        }
        let open = self.connections.get().saturating_sub(self.connections_ended.get());
        let _ = writeln!(out, "# HELP smsc_connections Connections now.\n# TYPE smsc_connections gauge");
        let _ = writeln!(out, "smsc_connections {open}");
        let _ = writeln!(out, "# HELP smsc_sessions Sessions bound now.\n# TYPE smsc_sessions gauge");
        for (system_id, sessions) in bound {
            let label = system_id.replace('\\', "\\\\").replace('"', "\\\"");
            let _ = writeln!(out, "smsc_sessions{{system_id=\"{label}\"}} {sessions}");
        }
        let name = "smsc_submit_seconds";
        let _ = writeln!(out, "# HELP {name} From the arrival of a submit_sm to its answer.");
        let _ = writeln!(out, "# TYPE {name} histogram");
        self.submit.write(name, &mut out);
        let name = "smsc_delivery_seconds";
        let _ = writeln!(out, "# HELP {name} From a message's acceptance, or its time, to its delivery.");
        let _ = writeln!(out, "# TYPE {name} histogram");
        self.delivery.write(name, &mut out);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_count_what_is_below_their_end() {
        let metrics = Metrics::default();
        for us in [1, 560, 561, 18_000, 160_000_000] {
            metrics.submit.add(us);
        }
        metrics.accepted.add(5);
        let text = metrics.text(&[("a\"b".into(), 2)]);
        for line in [
            "smsc_accepted_total 5",
            "smsc_submit_seconds_bucket{le=\"0.00056\"} 2",
            "smsc_submit_seconds_bucket{le=\"0.001\"} 3",
            "smsc_submit_seconds_bucket{le=\"100\"} 4",
            "smsc_submit_seconds_bucket{le=\"+Inf\"} 5",
            "smsc_submit_seconds_count 5",
            "smsc_sessions{system_id=\"a\\\"b\"} 2",
        ] {
            assert!(text.lines().any(|other| other == line), "{line} in {text}");
        }
    }

    /// The last box had one more than all of them, where another thread was just adding it.
    #[test]
    fn no_box_has_more_than_all() {
        let metrics = Metrics::default();
        metrics.submit.boxes[3].add(1);
        let text = metrics.text(&[]);
        assert!(text.contains("smsc_submit_seconds_bucket{le=\"100\"} 1\n"), "{text}");
        assert!(text.contains("smsc_submit_seconds_bucket{le=\"+Inf\"} 1\n"), "{text}");
        assert!(text.contains("smsc_submit_seconds_count 1\n"), "{text}");
    }

    /// Of 100 latencies of 1.5 ms the box is 1 to 1.8 ms; a later snapshot counts only what came
    /// since.
    #[test]
    fn quantiles_lie_in_their_box() {
        let histogram = Histogram::default();
        assert_eq!(histogram.snapshot().quantile_us(0.5), None);
        (0..100).for_each(|_| histogram.add(1500));
        let first = histogram.snapshot();
        assert_eq!(first.quantile_us(0.5), Some(1400));
        assert_eq!(first.quantile_us(1.0), Some(1800));
        histogram.add(200_000_000);
        assert_eq!(histogram.snapshot().since(&first).quantile_us(0.99), Some(100_000_000));
        (0..98).for_each(|_| histogram.add(50));
        assert_eq!(histogram.snapshot().since(&first).quantile_us(0.5), Some(50));
    }
}
