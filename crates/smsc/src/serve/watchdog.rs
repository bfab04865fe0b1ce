//! Looks whether the store answers: a server that was stopped, or is cut off, says nothing, and a
//! disk that hangs neither. While it is silent nothing new is taken, and who asks is told.
//!
//! And whether the time of day is still that of the centre's clock.

use super::front::Front;
use super::log::Level;
use crate::load::Clock;
use std::sync::Arc;
use std::time::Duration;

/// Silence that is told, where the store is not given up sooner than in twice that time.
const SILENCE: Duration = Duration::from_secs(3);
/// How often it is looked.
const LOOK: Duration = Duration::from_millis(100);

/// How far the time of day may be from the centre's clock until that is told, µs.
const APART_US: u64 = 5_000_000;

/// What is to be said of a time of day that is so far ahead of the centre's clock, or behind it:
/// once, until they agree again.
fn apart(ahead_us: i64, told: &mut bool) -> Option<String> {
    let is_apart = ahead_us.unsigned_abs() > APART_US;
    let tells = is_apart && !*told;
    *told = is_apart;
    let (seconds, side) =
        (ahead_us.unsigned_abs() as f64 / 1e6, if ahead_us > 0 { "ahead of" } else { "behind" });
    tells.then(|| {
        format!(
            "the time of day is {seconds:.1} s {side} the centre's clock, which goes on without steps: it was \
             set, or the machine stood still; the centre keeps to its own until it is started again"
        )
    })
}

/// Looks until the server ends; `timeout` is when the store is given up, if it is.
pub(super) async fn run(front: Arc<Front>, timeout: Option<Duration>) {
    let silence = timeout.map_or(SILENCE, |timeout| SILENCE.min(timeout / 2));
    let (mut longest, mut is_apart) = (Duration::ZERO, false);
    while !front.has_ended() {
        let ahead_us = Clock::default().now_us() - front.clock.now_us();
        if let Some(message) = apart(ahead_us, &mut is_apart) {
            front.log.at(Level::Warn, "clock_apart").text("message", &message);
        }
        let waited = front.store.silence();
        let is_silent = waited >= silence;
        front.set_silence(is_silent.then_some(waited));
        if is_silent && longest.is_zero() {
            let then = timeout.map_or_else(String::new, |timeout| {
                format!("; it is given up after {} s", timeout.as_secs_f32())
            });
            let message = format!(
                "no answer for {:.1} s: nothing new is taken until there is one{then}",
                waited.as_secs_f32()
            );
            front.log.at(Level::Warn, "store_silent").text("message", &message);
        }
        // Whoever has given it up does not wait for it any more.
        if !is_silent && !longest.is_zero() && !front.has_failed() {
            let message = format!("it answers again, after {:.1} s", longest.as_secs_f32());
            front.log.at(Level::Info, "store_answers").text("message", &message);
            // What was said to come has come by now.
            front.look_everywhere();
        }
        longest = if is_silent { waited } else { Duration::ZERO };
        tokio::time::sleep(LOOK).await;
    }
}

/// Ends when the store has been silent for a while, and not before `earliest`.
pub(super) async fn silent(front: &Front, earliest: tokio::time::Instant) {
    tokio::time::sleep_until(earliest).await;
    while front.store.silence() < SILENCE {
        tokio::time::sleep(LOOK).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A virtual machine that was suspended for two hours went on with a clock that was two hours
    /// late: what was scheduled came so late, and nothing said why.
    #[test]
    fn a_clock_that_is_late_is_told_once() {
        let mut told = false;
        let said = [0, 4_000_000, 7_200_000_000, 7_200_000_001, 0, -6_000_000]
            .map(|ahead_us| apart(ahead_us, &mut told).is_some());
        assert_eq!(said, [false, false, true, false, false, true]);
        let message = apart(-6_000_000, &mut false).unwrap();
        assert!(message.starts_with("the time of day is 6.0 s behind the centre's clock"), "{message}");
    }
}
