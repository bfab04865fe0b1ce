//! Messages as people send them.

use crate::centre::{Submission, SubmissionError};
use crate::model::Message;
use crate::text::encode_septets;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rand_distr::{Distribution, LogNormal, Zipf};

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
    /// Every body has exactly so many octets of the default alphabet; 0 for bodies as people write them.
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
        let mut rng = generator(profile, u64::MAX);
        Bodies((0..POOL).map(|_| body(profile, &mut rng)).collect())
    }
}

/// Random numbers of client `number`.
fn generator(profile: &LoadProfile, number: u64) -> SmallRng {
    SmallRng::seed_from_u64(profile.seed.wrapping_mul(0x9e37_79b9).wrapping_add(number))
}

/// Makes the messages of one client.
pub struct Messages<'a> {
    profile: LoadProfile,
    rng: SmallRng,
    zipf: Option<Zipf<f64>>,
    bodies: &'a Bodies,
}

impl<'a> Messages<'a> {
    /// The messages of client `number`.
    #[must_use]
    pub fn new(profile: &LoadProfile, bodies: &'a Bodies, number: u64) -> Messages<'a> {
        let zipf =
            if profile.zipf > 0.0 { Zipf::new(profile.stations as f64, profile.zipf).ok() } else { None };
        Messages { profile: profile.clone(), rng: generator(profile, number), zipf, bodies }
    }

    /// The next message, submitted at `now_us`.
    ///
    /// # Errors
    /// None: every message is one that a centre accepts.
    pub fn next(&mut self, now_us: i64) -> Result<Submission, SubmissionError> {
        let p = &self.profile;
        let station = match &self.zipf {
            Some(zipf) => zipf.sample(&mut self.rng) as u64 - 1,
            None => self.rng.random_range(0..p.stations),
        };
        let (data_coding, body) = &self.bodies.0[self.rng.random_range(0..POOL)];
        let account = self.rng.random_range(0..p.accounts);
        let scheduled = self.rng.random_range(0..1000) < p.scheduled_permille;
        let wants_receipt = self.rng.random_range(0..100) < p.receipt_percent;
        let src = format!("49{:05}", 10_000 + account % 90_000);
        let dst = format!("49170{station:07}");
        Submission::new(Message {
            account,
            priority: u8::from(self.rng.random_range(0..20) == 0),
            registered_delivery: u8::from(wants_receipt),
            data_coding: *data_coding,
            schedule_us: if scheduled { now_us + SCHEDULED_US } else { 0 },
            ..Message::plain(src, dst, body.clone(), now_us, now_us + p.validity_us)
        })
    }
}

/// A body: log-normal around 40 characters (sigma 0.6), or long enough for several parts.
fn body(profile: &LoadProfile, rng: &mut SmallRng) -> (u8, Vec<u8>) {
    const WORDS: [&str; 8] =
        ["ok", "see you", "tomorrow", "at 7", "{code}", "the train is late", "where?", "call me"];
    const FAR: [&str; 4] = ["завтра", "поезд", "где", "хорошо"];
    if profile.body_octets > 0 {
        return (0, (0..profile.body_octets).map(|_| rng.random_range(b'a'..=b'z')).collect());
    }
    let ucs2 = rng.random_range(0..100) < profile.ucs2_percent;
    let one_part = if ucs2 { 70 } else { 160 };
    let letters = if rng.random_range(0..100) < profile.long_percent {
        rng.random_range(one_part + 1..4 * one_part)
    } else {
        // The parameters are finite, so the distribution exists; without it every text has 40 letters.
        let normal = LogNormal::new(40f64.ln(), 0.6).map_or(40.0, |it| it.sample(rng));
        (normal.round() as usize).clamp(1, one_part - 8)
    };
    let mut text = String::new();
    while text.chars().count() < letters {
        text.push_str(if ucs2 {
            FAR[rng.random_range(0..FAR.len())]
        } else {
            WORDS[rng.random_range(0..WORDS.len())]
        });
        text.push(' ');
    }
    let text: String = text.chars().take(letters).collect();
    if ucs2 {
        return (8, text.encode_utf16().flat_map(u16::to_be_bytes).collect());
    }
    // Every word is in the alphabet.
    (0, encode_septets(&text).unwrap_or_default())
}
