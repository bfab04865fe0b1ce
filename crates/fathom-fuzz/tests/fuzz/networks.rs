//! Files of simulated networks, which `smsc bench --network` reads.

use fathom_fuzz::{Fuzz, mutate};
use smsc::network::NetworkProfile;

const EXAMPLE: &str = include_str!("../../../smsc/docs/network.toml");

const WORDS: &[&str] = &[
    "absent",
    "busy",
    "memory_full",
    "unknown",
    "later",
    "delivered",
    "mean_s",
    "absent_s",
    "busy_s",
    "[outcomes]",
    "[latency_ms]",
    "[absence]",
    "[retry]",
    "[prefixes]",
    "49170",
    "\"absent\"",
];

#[test]
fn networks_are_read_or_refused() {
    Fuzz::new("networks::networks_are_read_or_refused", 10_000).memory(1 << 20, 400).run(
        |random| {
            let times = 1 + random.below(4);
            let text = mutate::text(random, EXAMPLE, times, WORDS, &[EXAMPLE]);
            let length = text.len();
            (text, length)
        },
        |text| match NetworkProfile::parse("mine.toml", text) {
            Ok((profile, _)) if profile.absent + profile.busy + profile.memory_full > 10_000 => {
                Err(format!("more than all of them fail: {profile:?}"))
            }
            Ok(_) => Ok(()),
            Err(error) if error.line == 0 || error.message.is_empty() => {
                Err(format!("no line or no reason: {error:?}"))
            }
            Err(_) => Ok(()),
        },
    );
}
