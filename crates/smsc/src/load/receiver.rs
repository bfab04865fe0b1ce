//! Clients that submit messages: in a closed loop (the next when one is acknowledged) or at their
//! own pace.

use super::figures::{histogram, is_to_hand_over};
use super::plan::{LoadError, Pace, Plan};
use super::state::RunState;
use super::{LoadProfile, Messages};
use crate::centre::{Operation, Outcome};
use crate::store::Session;
use fathom_random::Random;
use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

/// The part of an open loop that is its burst.
const BURST: [f64; 2] = [0.45, 0.55];

/// When the messages of one client of an open loop are due, µs after its beginning.
struct Arrivals {
    random: Random,
    /// Messages of this client in a second, outside the burst.
    rate: f64,
    burst: f64,
    length_us: f64,
    due_us: f64,
}

impl Arrivals {
    fn of_client(plan: &Plan, number: usize, rate: f64, burst: f64) -> Arrivals {
        let random = Random::stream(plan.load.seed, "smsc arrivals", number as u64);
        let rate = rate / plan.receivers as f64;
        Arrivals { random, rate, burst, length_us: plan.seconds * 1e6, due_us: 0.0 }
    }

    /// Messages in a second at the time of the last arrival, and until when, µs.
    fn rate(&self) -> (f64, f64) {
        let [begin_us, end_us] = BURST.map(|end| end * self.length_us);
        if self.due_us < begin_us {
            (self.rate, begin_us)
        } else if self.due_us < end_us {
            (self.rate * self.burst, end_us)
        } else {
            (self.rate, f64::INFINITY)
        }
    }
}

impl Iterator for Arrivals {
    type Item = i64;

    /// A gap that reaches beyond a change of the rate ends there, and another begins with the new
    /// rate. An exponential gap has no memory: how long it still takes does not depend on how long
    /// it has taken, so these are the arrivals of a Poisson process whose rate changes at that
    /// moment. A gap that kept the rate of its beginning would jump over a burst that is shorter.
    fn next(&mut self) -> Option<i64> {
        loop {
            let (rate, until_us) = self.rate();
            let due_us = self.due_us - (1.0 - self.random.unit()).ln() / rate * 1e6;
            if due_us < until_us {
                self.due_us = due_us;
                // The length is bounded where it is asked for, so this is a number of µs that fits.
                return (due_us <= self.length_us).then_some(due_us as i64);
            }
            if until_us == f64::INFINITY {
                return None;
            }
            self.due_us = until_us;
        }
    }
}

/// One client's loop.
pub(super) fn run(
    shared: &RunState<'_>,
    number: usize,
    profile: &LoadProfile,
    window: usize,
) -> Result<(), LoadError> {
    let mut client = Client {
        shared,
        session: shared.session(shared.plan.acknowledge, || format!("client {number}"))?,
        messages: Messages::new(profile, &shared.bodies, number as u64),
        under_way: VecDeque::with_capacity(window),
        outcomes: Vec::with_capacity(window),
        latency: histogram(),
        late: histogram(),
        told_us: 0,
        fresh: Vec::new(),
        accepted: Vec::new(),
    };
    if !shared.wait_for_start() {
        return Ok(());
    }
    let done = match shared.plan.pace {
        Pace::Closed => client.closed(window),
        Pace::Open { rate, burst } => client.open(window, number, rate, burst),
    };
    shared.submits_next(number, i64::MAX);
    shared.figures.accept.take(&mut client.latency);
    shared.figures.late.take(&mut client.late);
    shared.keep_accepted(client.accepted);
    done
}

struct Client<'a> {
    shared: &'a RunState<'a>,
    session: Box<dyn Session + 'a>,
    messages: Messages<'a>,
    /// When each message under way was (to be) submitted, µs.
    under_way: VecDeque<i64>,
    outcomes: Vec<Outcome>,
    latency: hdrhistogram::Histogram<u64>,
    /// How late messages of an open loop were submitted.
    late: hdrhistogram::Histogram<u64>,
    /// When the latencies were told last, µs.
    told_us: i64,
    /// Numbers of messages that were accepted just now, and of all, if they are kept.
    fresh: Vec<i64>,
    accepted: Vec<i64>,
}

impl Client<'_> {
    fn closed(&mut self, window: usize) -> Result<(), LoadError> {
        loop {
            while self.under_way.len() < window && self.shared.take_message() {
                let now_us = self.shared.clock.now_us();
                self.submit(now_us)?;
            }
            if self.under_way.is_empty() {
                return Ok(());
            }
            self.settle(None)?;
        }
    }

    fn open(&mut self, window: usize, number: usize, rate: f64, burst: f64) -> Result<(), LoadError> {
        let mut arrivals = Arrivals::of_client(self.shared.plan, number, rate, burst);
        // From the start that all have, however late this thread comes to it: what is due meanwhile
        // is late.
        let late = self.shared.start.began().map_or(Duration::ZERO, |began| began.elapsed());
        let begin_us = self.shared.clock.now_us() - late.as_micros() as i64;
        while let Some(due_us) = arrivals.next() {
            if self.shared.is_stopped() {
                // Others that are due by now, and would have been submitted had their client kept
                // up.
                let until_us = self.shared.clock.now_us() - begin_us;
                let due = std::iter::once(due_us)
                    .chain(arrivals)
                    .take_while(move |&arrival_us| arrival_us <= until_us);
                self.shared.count_later(Box::new(move || due.count() as u64));
                break;
            }
            let intended_us = begin_us + due_us;
            let mut waits = false;
            loop {
                let ahead_us = intended_us - self.shared.clock.now_us();
                let has_room = self.under_way.len() < window;
                if ahead_us <= 0 && has_room {
                    break;
                }
                if !self.under_way.is_empty() {
                    // What is due while others are under way is submitted when it is due, not when
                    // one of them has ended: only a full window waits for that.
                    let deadline = Instant::now() + Duration::from_micros(ahead_us.max(0).unsigned_abs());
                    self.settle(has_room.then_some(deadline))?;
                } else {
                    if self.shared.is_stopped() {
                        return Ok(());
                    }
                    if !std::mem::replace(&mut waits, true) {
                        self.shared.submits_next(number, intended_us);
                    }
                    std::thread::sleep(Duration::from_micros(ahead_us.clamp(1, 1000) as u64));
                }
            }
            if waits {
                self.shared.submits_next(number, 0);
            }
            self.late.saturating_record((self.shared.clock.now_us() - intended_us).max(1) as u64);
            self.submit(intended_us)?;
            // On its way now, and what has ended meanwhile is told now, however many are due
            // already.
            self.settle(Some(Instant::now()))?;
        }
        while !self.under_way.is_empty() {
            self.settle(None)?;
        }
        Ok(())
    }

    /// Submits the next message as one of the time at which it should be submitted: it carries that
    /// time to the sender, which may be another thread and know the message before its client knows
    /// its number.
    fn submit(&mut self, intended_us: i64) -> Result<(), LoadError> {
        let submission = self.messages.next(intended_us)?;
        self.session.submit(Operation::Receive(Box::new(submission)))?;
        self.under_way.push_back(intended_us);
        Ok(())
    }

    /// Takes what was acknowledged: waits for the first, until the deadline if there is one.
    fn settle(&mut self, deadline: Option<Instant>) -> Result<(), LoadError> {
        match deadline {
            Some(deadline) => self.session.settle_until(&mut self.outcomes, deadline)?,
            None => self.session.settle(&mut self.outcomes)?,
        }
        if self.outcomes.is_empty() {
            return Ok(());
        }
        let now_us = self.shared.clock.now_us();
        let figures = &self.shared.figures;
        self.fresh.clear();
        for outcome in self.outcomes.drain(..) {
            let since_us = self.under_way.pop_front().unwrap_or(now_us);
            match outcome {
                Outcome::Received(msg_id) => {
                    self.latency.saturating_record((now_us - since_us).max(1) as u64);
                    self.fresh.push(msg_id);
                }
                _ => {
                    figures.refused.fetch_add(1, Relaxed);
                }
            }
        }
        if let Some(report) = &self.shared.plan.on_accepted {
            report(&self.fresh);
        }
        if self.shared.plan.keep_accepted {
            self.accepted.extend_from_slice(&self.fresh);
        }
        figures.accepted.fetch_add(self.fresh.len() as u64, Relaxed);
        if is_to_hand_over(&self.latency, &mut self.told_us, now_us) {
            figures.accept.take(&mut self.latency);
            figures.late.take(&mut self.late);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Messages that are due before, in and after the burst, of all clients.
    fn due(plan: &Plan, rate: f64, burst: f64) -> [u64; 3] {
        let [begin_us, end_us] = BURST.map(|end| end * plan.seconds * 1e6);
        let mut counts = [0; 3];
        for number in 0..plan.receivers {
            let due: Vec<i64> = Arrivals::of_client(plan, number, rate, burst).collect();
            assert!(
                due.is_sorted()
                    && due.iter().all(|&arrival_us| (0..=(plan.seconds * 1e6) as i64).contains(&arrival_us))
            );
            for arrival_us in due {
                counts[usize::from(arrival_us as f64 >= begin_us)
                    + usize::from(arrival_us as f64 >= end_us)] += 1;
            }
        }
        counts
    }

    proptest! {
        /// Of 2,000 messages of a burst, 64 clients brought 1,420: a client's gap that had begun
        /// before the burst and was longer than it jumped over it.
        #[test]
        fn a_burst_brings_what_it_promises_however_many_clients_share_it(
            seed in any::<u64>(),
            clients in 1..200_usize,
            rate in 1.0..2000.0,
            burst in prop_oneof![Just(1.0), 0.1..40.0],
            seconds in 0.1..20.0,
        ) {
            let load = LoadProfile { seed, ..LoadProfile::default() };
            let plan = Plan { receivers: clients, seconds, load, ..Plan::default() };
            let means = [0.45, 0.1 * burst, 0.45].map(|share| share * rate * seconds);
            for (count, mean) in due(&plan, rate, burst).into_iter().zip(means) {
                // Six standard deviations of a Poisson distribution, and a little where it is skew.
                let far = 6.0 * f64::sqrt(mean) + 12.0;
                prop_assert!((count as f64 - mean).abs() < far, "{count}, {mean} expected");
            }
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_arrivals_and_another_one_others() {
        let due = |seed, number| {
            let load = LoadProfile { seed, ..LoadProfile::default() };
            let plan = Plan { receivers: 2, seconds: 1.0, load, ..Plan::default() };
            Arrivals::of_client(&plan, number, 200.0, 3.0).collect::<Vec<_>>()
        };
        assert_eq!(due(7, 1), due(7, 1));
        assert!(due(7, 1) != due(8, 1) && due(7, 1) != due(7, 0));
    }
}
