//! What is to be known of a row besides its figures.

use smsc::bench::Measurement;
use smsc::centre::Rules;

/// Less than this of what was due is accepted: overload; less of what was accepted is final at the
/// end: a queue.
const KEPT_UP: f64 = 0.99;

/// What is to be said of a row, on a store with these rules; `seconds` were asked for.
pub fn remarks(measurement: &Measurement, seconds: Option<f64>, rules: &Rules) -> Vec<String> {
    let short = seconds.filter(|asked| measurement.seconds < asked * 0.99).map(|asked| {
        format!("the queue was empty after {:.1} s of {asked}: give more --messages", measurement.seconds)
    });
    let figures = &measurement.figures;
    let refused = (measurement.rate.is_none() && figures.refused > 0)
        .then(|| refused(figures.refused, figures.offered(), rules.queue_max));
    let held = measurement.held.map(|held| held_back(held, measurement.window, rules.lease_us));
    let fenced = (figures.fenced > 0).then(|| fenced(figures.fenced, rules.lease_us));
    // Of both halves; whoever waits until all is final has nothing left.
    let left = figures.accepted.saturating_sub(figures.finished + figures.expired);
    let queued = (measurement.side == "both" && is_much(left, figures.accepted))
        .then(|| queued(left, figures.accepted));
    [short, overload(measurement), queued, refused, held, fenced].into_iter().flatten().collect()
}

/// Of an open loop that did not keep up.
fn overload(measurement: &Measurement) -> Option<String> {
    let (rate, offered, accepted) =
        (measurement.rate?, measurement.figures.offered(), measurement.figures.accepted);
    let share = accepted as f64 / offered.max(1) as f64;
    (offered > 0 && share < KEPT_UP).then(|| {
        format!(
            "overload: {accepted} of {offered} messages that were due were accepted ({:.1} %), {} were not submitted before the end, \
             {} were refused; the latencies are those of accepted ones, the others' would be longer; take less than --rate {rate}, or \
             more --threads or --window",
            share * 100.0,
            measurement.figures.not_submitted,
            measurement.figures.refused
        )
    })
}

/// Whether so many of all are more than may be left out without a word.
fn is_much(left: u64, all: u64) -> bool {
    left as f64 > (1.0 - KEPT_UP) * all as f64
}

/// Of a run that ended with its time: what is delivered late is not delivered by then, so its
/// latencies look the better the worse it kept up.
fn queued(left: u64, accepted: u64) -> String {
    format!(
        "queue: {left} of {accepted} accepted messages ({:.1} %) were not delivered when the time was over; the latencies of delivery are \
         those of the others, theirs would be longer",
        left as f64 * 100.0 / accepted.max(1) as f64
    )
}

/// Of a closed loop: to refuse a message takes less than to accept it, and is no part of
/// accepted/s.
fn refused(refused: u64, offered: u64, queue_max: u32) -> String {
    format!(
        "refused: {refused} of {offered} messages ({:.1} %), as {queue_max} were queued for their stations; accepted/s counts the others, and \
         the time is that of both; take more --stations or fewer --messages",
        refused as f64 * 100.0 / offered.max(1) as f64
    )
}

fn held_back(held: usize, window: usize, lease_us: i64) -> String {
    format!(
        "senders kept {held} messages in flight each instead of --window {window}: the store is so slow that claims could have ended, \
         after {} s, before their completions were there",
        lease_us / 1_000_000
    )
}

fn fenced(fenced: u64, lease_us: i64) -> String {
    format!(
        "fenced off: {fenced} completions came later than {} s after their claims, when others had claimed their messages: these were delivered \
         twice; take fewer --threads or a smaller --window",
        lease_us / 1_000_000
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_in_the_words() {
        for (said, words) in [
            (refused(20_000, 30_000, 10_000), "20000 of 30000 messages (66.7 %), as 10000 were queued"),
            (queued(70_960, 360_000), "70960 of 360000 accepted messages (19.7 %) were not delivered"),
            (held_back(64, 4096, 60_000_000), "64 messages in flight each instead of --window 4096"),
            (fenced(3, 60_000_000), "3 completions came later than 60 s after"),
        ] {
            assert!(said.contains(words), "{said}");
        }
        assert!(!is_much(0, 0) && !is_much(1, 100) && is_much(2, 100));
    }
}
