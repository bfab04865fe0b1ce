//! The line that is written over while a run goes on: how fast it is now, what is left, how long
//! things take.

use super::figures::{Figures, Snapshot};
use super::plan::Side;
use super::run::Moment;
use std::collections::VecDeque;

/// Moments that the rates look back, at four in a second.
const BACK: usize = 4;

/// Remembers what rates of the last second need.
#[derive(Debug, Default)]
pub struct LiveLine {
    past: VecDeque<(f64, Snapshot)>,
    p99_ms: f64,
}

impl LiveLine {
    /// The line at one moment of a run. Rates are those of the last second; p99 is that of what was
    /// measured since the last line, or before, if nothing was.
    pub fn next(&mut self, side: Side, figures: &Figures, moment: Moment) -> String {
        let now = figures.snapshot();
        let (then_s, then) = self.past.front().copied().unwrap_or_default();
        self.past.push_back((moment.elapsed_s, now));
        if self.past.len() > BACK {
            self.past.pop_front();
        }
        let rate = |of: fn(&Snapshot) -> u64, what: &str| {
            let per_s = (of(&now) - of(&then)) as f64 / (moment.elapsed_s - then_s).max(0.001);
            format!("  {per_s:>9.0} {what}/s")
        };
        let accepted = || rate(|snapshot| snapshot.accepted, "accepted");
        let delivered = || rate(|snapshot| snapshot.delivered, "delivered");
        let (rates, latencies, measured) = match side {
            Side::Receiver => (accepted(), &figures.accept, "until accepted"),
            Side::Sender => (delivered(), &figures.send, "from claim to completion"),
            Side::Both => (accepted() + &delivered(), &figures.deliver, "until delivered"),
        };
        if let Some(ms) = latencies.recent_ms_at(0.99) {
            self.p99_ms = ms;
        }
        let Moment { elapsed_s, left, waiting } = moment;
        let wait =
            if waiting > 0 { format!(", {waiting} wait for absent or busy stations") } else { String::new() };
        format!("{elapsed_s:5.1} s{rates}  queue {left:>8}{wait}  p99 {:.1} ms {measured}", self.p99_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::super::figures::histogram;
    use super::*;
    use std::sync::atomic::Ordering::Relaxed;

    #[test]
    fn each_side_sees_its_own_rates_of_the_last_second() {
        for (side, said) in [
            (Side::Receiver, "  2.0 s        400 accepted/s  queue        7  p99 10.0 ms until accepted"),
            (
                Side::Sender,
                "  2.0 s        100 delivered/s  queue        7  p99 30.0 ms from claim to completion",
            ),
            (
                Side::Both,
                "  2.0 s        400 accepted/s        100 delivered/s  queue        7, 3 wait for absent or busy stations  p99 20.0 ms until delivered",
            ),
        ] {
            let figures = Figures::default();
            let mut line = LiveLine::default();
            let mut last = String::new();
            let waiting = if side == Side::Both { 3 } else { 0 };
            for quarter in 1..=8 {
                // Ten times as much in the first second, and slower.
                let (times, latency) = if quarter <= 4 { (10, 5) } else { (1, 1) };
                figures.accepted.fetch_add(100 * times, Relaxed);
                figures.delivered.fetch_add(25 * times, Relaxed);
                // Undeliverable messages are final, and not delivered.
                figures.finished.fetch_add(50 * times, Relaxed);
                for (of, us) in
                    [(&figures.accept, 10_000), (&figures.deliver, 20_000), (&figures.send, 30_000)]
                {
                    let mut measured = histogram();
                    measured.saturating_record(us * latency);
                    // The last line sees nothing new.
                    if quarter < 8 {
                        of.take(&mut measured);
                    }
                }
                let moment = Moment { elapsed_s: f64::from(quarter) / 4.0, left: 7, waiting };
                last = line.next(side, &figures, moment);
            }
            assert_eq!(last, said);
            // All of it is in the end's figures.
            assert_eq!(figures.accept.ms_at(1.0).round(), 50.0);
        }
    }
}
