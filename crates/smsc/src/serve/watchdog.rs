//! Looks whether the store answers: a server that was stopped, or is cut off, says nothing, and a
//! disk that hangs neither. While it is silent nothing new is taken, and who asks is told.

use super::front::Front;
use super::log::Level;
use std::sync::Arc;
use std::time::Duration;

/// Silence that is told, where the store is not given up sooner than in twice that time.
const SILENCE: Duration = Duration::from_secs(3);
/// How often it is looked.
const LOOK: Duration = Duration::from_millis(100);

/// Looks until the server ends; `timeout` is when the store is given up, if it is.
pub(super) async fn run(front: Arc<Front>, timeout: Option<Duration>) {
    let silence = timeout.map_or(SILENCE, |timeout| SILENCE.min(timeout / 2));
    let mut longest = Duration::ZERO;
    while !front.has_ended() {
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
