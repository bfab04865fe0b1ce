//! Messages as people send them.

use super::zipf::Zipf;
use crate::centre::{Submission, SubmissionError};
use crate::model::Message;
use crate::text::encode_septets;
use fathom_random::Random;

/// How much later than its submission a scheduled message is due, µs.
pub const SCHEDULED_US: i64 = 20_000;

/// What is sent to whom.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadProfile {
    /// Same seed, same messages.
    pub seed: u64,
    /// Stations.
    pub stations: u64,
    /// Exponent of the Zipf distribution over stations; 0 for uniform.
    pub zipf: f64,
    /// Every body has exactly so many octets of the default alphabet; 0 for bodies as people write
    /// them.
    pub body_octets: usize,
    /// Messages out of 100 in UCS2.
    pub ucs2_percent: u32,
    /// Messages out of 100 that take several parts.
    pub long_percent: u32,
    /// Messages out of 100 that ask for a receipt.
    pub receipt_percent: u32,
    /// Messages out of 1000 that are scheduled for a little later.
    pub scheduled_permille: u32,
    /// Accounts.
    pub accounts: u32,
    /// How long messages are valid, µs.
    pub validity_us: i64,
}

impl Default for LoadProfile {
    fn default() -> Self {
        LoadProfile {
            seed: 1,
            stations: 1_000_000,
            zipf: 0.0,
            body_octets: 0,
            ucs2_percent: 15,
            long_percent: 12,
            receipt_percent: 0,
            scheduled_permille: 0,
            accounts: 100,
            validity_us: 86_400_000_000,
        }
    }
}

/// Bodies that are ready to be sent, so that making messages costs little in a run.
const POOL: usize = 1024;

/// The bodies that all clients of a run send.
pub struct Bodies(Vec<(u8, Vec<u8>)>);

impl Bodies {
    /// Bodies as `profile` says.
    #[must_use]
    pub fn new(profile: &LoadProfile) -> Bodies {
        let mut random = generator(profile, u64::MAX);
        Bodies((0..POOL).map(|_| body(profile, &mut random)).collect())
    }
}

/// Random numbers of client `number`.
fn generator(profile: &LoadProfile, number: u64) -> Random {
    Random::stream(profile.seed, "smsc messages", number)
}

/// Makes the messages of one client.
pub struct Messages<'a> {
    profile: LoadProfile,
    random: Random,
    zipf: Option<Zipf>,
    bodies: &'a Bodies,
}

impl<'a> Messages<'a> {
    /// The messages of client `number`.
    #[must_use]
    pub fn new(profile: &LoadProfile, bodies: &'a Bodies, number: u64) -> Messages<'a> {
        let zipf = (profile.zipf > 0.0).then(|| Zipf::new(profile.stations, profile.zipf));
        Messages { profile: profile.clone(), random: generator(profile, number), zipf, bodies }
    }

    /// The next message, submitted at `now_us`.
    ///
    /// # Errors
    /// None: every message is one that a centre accepts.
    pub fn next(&mut self, now_us: i64) -> Result<Submission, SubmissionError> {
        let (p, random) = (&self.profile, &mut self.random);
        let station = match &self.zipf {
            Some(zipf) => zipf.draw(random) - 1,
            None => random.below(p.stations),
        };
        let (data_coding, body) = random.pick(&self.bodies.0);
        let account = random.below(p.accounts.into());
        let scheduled = random.below(1000) < p.scheduled_permille.into();
        let wants_receipt = random.below(100) < p.receipt_percent.into();
        let is_urgent = random.below(20) == 0;
        let src = format!("49{:05}", 10_000 + account % 90_000);
        let dst = format!("49170{station:07}");
        Submission::new(Message {
            // Below the number of accounts, which has 32 bits.
            account: account as u32,
            priority: u8::from(is_urgent),
            registered_delivery: u8::from(wants_receipt),
            data_coding: *data_coding,
            schedule_us: if scheduled { now_us + SCHEDULED_US } else { 0 },
            ..Message::plain(src, dst, body.clone(), now_us, now_us + p.validity_us)
        })
    }
}

/// A body: log-normal around 40 characters (sigma 0.6), or long enough for several parts.
fn body(profile: &LoadProfile, random: &mut Random) -> (u8, Vec<u8>) {
    const WORDS: [&str; 8] =
        ["ok", "see you", "tomorrow", "at 7", "{code}", "the train is late", "where?", "call me"];
    const FAR: [&str; 4] = ["завтра", "поезд", "где", "хорошо"];
    if profile.body_octets > 0 {
        return (0, (0..profile.body_octets).map(|_| b'a' + random.below(26) as u8).collect());
    }
    let ucs2 = random.below(100) < profile.ucs2_percent.into();
    let one_part = if ucs2 { 70 } else { 160 };
    let letters = if random.below(100) < profile.long_percent.into() {
        one_part + 1 + random.below(3 * one_part - 1)
    } else {
        let letters = (40f64.ln() + 0.6 * random.normal()).exp();
        (letters.round() as u64).clamp(1, one_part - 8)
    };
    let letters = letters as usize;
    let mut text = String::new();
    while text.chars().count() < letters {
        text.push_str(if ucs2 { random.pick::<&str>(&FAR) } else { random.pick::<&str>(&WORDS) });
        text.push(' ');
    }
    let text: String = text.chars().take(letters).collect();
    if ucs2 {
        return (8, text.encode_utf16().flat_map(u16::to_be_bytes).collect());
    }
    // Every word is in the alphabet.
    (0, encode_septets(&text).unwrap_or_default())
}
