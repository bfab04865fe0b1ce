//! The simulated network: its stations behave as often as the profile says, and the same seed gives
//! the same network.
#![allow(clippy::unwrap_used)]

use smsc::centre::{Delivery, Failure};
use smsc::load::{Bodies, LoadProfile, Messages};
use smsc::model::Message;
use smsc::network::{Attempt, Network, NetworkProfile, Times};

/// Messages that a centre could deliver, numbered from 1; `stations` decides how many stations they
/// go to.
fn deliveries(seed: u64, stations: u64, count: i64) -> Vec<Delivery> {
    let profile = LoadProfile { seed, stations, ..LoadProfile::default() };
    let bodies = Bodies::new(&profile);
    let mut messages = Messages::new(&profile, &bodies, 0);
    let delivery = |msg_id| {
        let message = Message { msg_id, ..messages.next(1_000_000).unwrap().message };
        Delivery {
            station: message.dst_key,
            epoch: 1,
            attempts: 0,
            message: Box::new(message),
            parts: vec![],
        }
    };
    (1..=count).map(delivery).collect()
}

/// One attempt of each, the `attempt`-th of its message.
fn attempts(network: &Network, deliveries: &[Delivery], attempt: u32) -> Vec<Attempt> {
    let one = |delivery: &Delivery| {
        let mut delivery = delivery.clone();
        delivery.message.attempts = attempt;
        let attempt = network.begin(&delivery, 0);
        network.end(delivery.station);
        attempt
    };
    deliveries.iter().map(one).collect()
}

fn share(attempts: &[Attempt], result: Result<(), Failure>) -> f64 {
    attempts.iter().filter(|attempt| attempt.result == result).count() as f64 / attempts.len() as f64
}

/// Every class of outcome, at shares that no other has.
fn mixed(seed: u64) -> NetworkProfile {
    NetworkProfile {
        seed,
        absent: 1600,
        busy: 800,
        memory_full: 400,
        unknown: 200,
        later_permille: 250,
        latency: Times {
            delivered_us: 1000,
            absent_us: 2000,
            busy_us: 4000,
            memory_full_us: 8000,
            unknown_us: 16_000,
        },
        absence_us: 1_000_000,
        ..NetworkProfile::default()
    }
}

#[test]
fn outcomes_come_as_often_as_the_profile_says() {
    const COUNT: i64 = 100_000;
    // Nearly every message goes to a station of its own, so that the shares of stations are those
    // of messages.
    let deliveries = deliveries(3, 10_000_000, COUNT);
    let p = mixed(5);
    let network = Network::new(p.clone());
    for (attempt, part) in [(0, 1.0), (1, f64::from(p.later_permille) / 1000.0)] {
        let attempts = attempts(&network, &deliveries, attempt);
        let exists = 1.0 - f64::from(p.unknown) / 10_000.0;
        let of = |shares: u32| f64::from(shares) / 10_000.0 * part * exists;
        let failing = of(p.absent + p.busy + p.memory_full);
        for (result, wanted) in [
            (Ok(()), exists - failing),
            (Err(Failure::Absent), of(p.absent)),
            (Err(Failure::Busy), of(p.busy)),
            (Err(Failure::MemoryFull), of(p.memory_full)),
            // Who does not exist does not exist later either.
            (Err(Failure::Unknown), 1.0 - exists),
        ] {
            let found = share(&attempts, result);
            let far = 5.0 * (wanted * (1.0 - wanted) / COUNT as f64).sqrt();
            assert!(
                (found - wanted).abs() < far,
                "attempt {attempt}, {result:?}: {found}, {wanted} expected"
            );
        }
    }
    assert_eq!(network.doubled(), 0);
}

#[test]
fn times_are_those_of_the_outcome() {
    let p = mixed(5);
    let attempts = attempts(&Network::new(p.clone()), &deliveries(3, 10_000_000, 100_000), 0);
    for (result, median_us) in [
        (Ok(()), 1000),
        (Err(Failure::Absent), 2000),
        (Err(Failure::Busy), 4000),
        (Err(Failure::MemoryFull), 8000),
        (Err(Failure::Unknown), 16_000),
    ] {
        let mut times: Vec<i64> = attempts
            .iter()
            .filter(|attempt| attempt.result == result)
            .map(|attempt| attempt.done_us)
            .collect();
        times.sort_unstable();
        let (first, middle, last) = (times[0], times[times.len() / 2], times[times.len() - 1]);
        assert!(first >= median_us / 2 && last < median_us * 3 / 2, "{result:?}: {first} to {last}");
        assert!((middle - median_us).abs() < median_us / 20, "{result:?}: {middle}");
    }
    // An alert follows where somebody comes back, after the mean absence.
    let alerts: Vec<f64> =
        attempts.iter().filter_map(|attempt| Some((attempt.alert_us? - attempt.done_us) as f64)).collect();
    let comes_back =
        |attempt: &&Attempt| matches!(attempt.result, Err(Failure::Absent | Failure::MemoryFull));
    assert_eq!(alerts.len(), attempts.iter().filter(comes_back).count());
    let mean_us = alerts.iter().sum::<f64>() / alerts.len() as f64;
    assert!((mean_us / 1e6 - 1.0).abs() < 5.0 / (alerts.len() as f64).sqrt(), "{mean_us}");
}

#[test]
fn the_same_seed_gives_the_same_network_and_another_one_another() {
    // Few stations: the next message of one need not have the fate of the last.
    let deliveries = deliveries(3, 100, 5000);
    let of = |seed| {
        let network = Network::new(mixed(seed));
        (0..3).map(|attempt| attempts(&network, &deliveries, attempt)).collect::<Vec<_>>()
    };
    assert_eq!(of(5), of(5));
    assert_ne!(of(5), of(6));
    let first = &of(5)[0];
    let of_one: Vec<_> =
        deliveries.iter().zip(first).filter(|pair| pair.0.station == deliveries[0].station).collect();
    assert!(of_one.len() > 10 && of_one.iter().any(|pair| pair.1 != of_one[0].1), "all alike");
}

#[test]
fn the_same_seed_gives_the_same_messages_and_another_one_others() {
    let of = |seed| deliveries(seed, 1000, 500);
    assert_eq!(of(3), of(3));
    assert_ne!(of(3), of(4));
    let profile = LoadProfile::default();
    let bodies = Bodies::new(&profile);
    let [mut one, mut two] = [0, 1].map(|client| Messages::new(&profile, &bodies, client));
    assert_ne!(one.next(0).unwrap(), two.next(0).unwrap(), "clients send the same");
}
