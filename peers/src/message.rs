//! The rows of the workload, and the digest that tells whether a store holds exactly the right
//! ones.
//!
//! Three tables, a cut of the SMS centre's: `message` (key `msg_id`), `to_delivery` (key
//! `dst_key, rank, msg_id`: the queue of one station) and `ms_state` (key `dst_key`). Every message
//! is a function of (client, sequence number), so a process that did not write the store can still
//! say what it must hold.

use fathom_random::Random;
use std::collections::HashMap;

/// Longest body, in octets.
pub const BODY_MAX: usize = 160;
/// Digits of a source address.
pub const SOURCE_LEN: usize = 12;
/// Stations (destinations) altogether; each belongs to one client, so that the order of updates of
/// a station is known.
pub const STATIONS: u64 = 96 * 1000;

/// One message, with all columns of the table `message`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message {
    /// Primary key: client number in the upper bits, sequence number in the lower 40.
    pub msg_id: u64,
    /// Account of the sender.
    pub account: u32,
    /// Source address, ASCII digits.
    pub source: [u8; SOURCE_LEN],
    /// Station that it goes to.
    pub dst_key: u64,
    /// Time of submission, µs.
    pub submit_us: i64,
    /// End of validity, µs.
    pub expire_us: i64,
    /// 3 − priority: the order within the queue of a station.
    pub rank: u8,
    /// SMPP data_coding.
    pub coding: u8,
    body_len: u8,
    body: [u8; BODY_MAX],
}

/// A row of `ms_state` after a delivery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct State {
    /// Station.
    pub dst_key: u64,
    /// 1 = ready.
    pub state: u8,
    /// Time from which the station is ready, µs.
    pub ready_us: i64,
    /// Message delivered last.
    pub last_msg: u64,
}

/// A well-mixed word for each word.
fn mix(word: u64) -> u64 {
    Random::new(word).bits()
}

/// Lengths of bodies: 256 equal slices of a log-normal distribution (median 40 octets, σ = 0.6),
/// cut at 160.
fn body_lengths() -> [u8; 256] {
    let mut lengths = [0u8; 256];
    for (i, length) in lengths.iter_mut().enumerate() {
        let p = (i as f64 + 0.5) / 256.0;
        // Quantile of the normal distribution by Tukey's lambda approximation; accurate to 0.05 in
        // the body of the distribution, which is enough for a length.
        let z = 4.91 * (p.powf(0.14) - (1.0 - p).powf(0.14));
        *length = (40.0 * (0.6 * z).exp()).round().clamp(1.0, BODY_MAX as f64) as u8;
    }
    lengths
}

/// Makes the messages of a run.
#[derive(Clone)]
pub struct Messages {
    clients: u64,
    lengths: [u8; 256],
}

impl Messages {
    /// The messages of a run with `clients` clients.
    pub fn new(clients: usize) -> Self {
        Messages { clients: clients as u64, lengths: body_lengths() }
    }

    /// Message number `sequence` of client `client`.
    pub fn message(&self, client: usize, sequence: u64) -> Message {
        let msg_id = ((client as u64 + 1) << 40) | sequence;
        let mut word = mix(msg_id);
        let station = word % (STATIONS / self.clients);
        let mut source = *b"490000000000";
        let mut digits = word >> 17;
        for digit in &mut source[2..] {
            *digit = b'0' + (digits % 10) as u8;
            digits /= 10;
        }
        let submit_us = 1_800_000_000_000_000 + sequence as i64 * 37;
        let body_len = self.lengths[(word >> 56) as usize];
        let mut message = Message {
            msg_id,
            account: (word >> 24) as u32 % 1000,
            source,
            dst_key: station * self.clients + client as u64,
            submit_us,
            expire_us: submit_us + 86_400_000_000,
            rank: (word >> 40) as u8 % 4,
            coding: if word.is_multiple_of(7) { 8 } else { 0 },
            body_len,
            body: [0; BODY_MAX],
        };
        for chunk in message.body[..usize::from(body_len)].chunks_mut(8) {
            word = mix(word);
            // Printable ASCII: six bits of the word for each character.
            let text = (word & 0x3f3f_3f3f_3f3f_3f3f) + 0x2020_2020_2020_2020;
            chunk.copy_from_slice(&text.to_le_bytes()[..chunk.len()]);
        }
        message
    }
}

impl Message {
    /// A message from its columns, as a peer gives them back.
    #[expect(clippy::too_many_arguments, reason = "they are the columns of the table")]
    pub fn from_columns(
        msg_id: u64,
        account: u32,
        source: &[u8],
        dst_key: u64,
        submit_us: i64,
        expire_us: i64,
        rank: u8,
        coding: u8,
        body: &[u8],
    ) -> anyhow::Result<Self> {
        let mut message = Message {
            msg_id,
            account,
            source: source.try_into()?,
            dst_key,
            submit_us,
            expire_us,
            rank,
            coding,
            body_len: body.len() as u8,
            body: [0; BODY_MAX],
        };
        anyhow::ensure!(body.len() <= BODY_MAX, "message {msg_id}: body of {} octets", body.len());
        message.body[..body.len()].copy_from_slice(body);
        Ok(message)
    }

    /// The text.
    pub fn body(&self) -> &[u8] {
        &self.body[..usize::from(self.body_len)]
    }

    /// Key in `message`: big-endian, so that byte order is numeric order.
    pub fn message_key(&self) -> [u8; 8] {
        self.msg_id.to_be_bytes()
    }

    /// The other columns of `message`, appended to `out`.
    pub fn message_value(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.account.to_le_bytes());
        out.extend_from_slice(&self.source);
        out.extend_from_slice(&self.dst_key.to_le_bytes());
        out.extend_from_slice(&self.submit_us.to_le_bytes());
        out.extend_from_slice(&self.expire_us.to_le_bytes());
        out.extend_from_slice(&[self.rank, self.coding]);
        out.extend_from_slice(self.body());
    }

    /// Key in `to_delivery`.
    pub fn queue_key(&self) -> [u8; 17] {
        queue_key(self.dst_key, self.rank, self.msg_id)
    }

    /// The other column of `to_delivery`: `expire_us`.
    pub fn queue_value(&self) -> [u8; 8] {
        self.expire_us.to_le_bytes()
    }

    /// The state of the station once this message is delivered.
    pub fn state(&self) -> State {
        State { dst_key: self.dst_key, state: 1, ready_us: self.submit_us + 1_000_000, last_msg: self.msg_id }
    }
}

/// Key in `to_delivery`.
pub fn queue_key(dst_key: u64, rank: u8, msg_id: u64) -> [u8; 17] {
    let mut key = [0; 17];
    key[..8].copy_from_slice(&dst_key.to_be_bytes());
    key[8] = rank;
    key[9..].copy_from_slice(&msg_id.to_be_bytes());
    key
}

/// The least key in `to_delivery` of a station, and the least behind all of them.
pub fn queue_bounds(dst_key: u64) -> [[u8; 17]; 2] {
    [queue_key(dst_key, 0, 0), queue_key(dst_key + 1, 0, 0)]
}

impl State {
    /// Key in `ms_state`.
    pub fn key(&self) -> [u8; 8] {
        self.dst_key.to_be_bytes()
    }

    /// The other columns of `ms_state`.
    pub fn value(&self) -> [u8; 17] {
        let mut value = [0; 17];
        value[0] = self.state;
        value[1..9].copy_from_slice(&self.ready_us.to_le_bytes());
        value[9..].copy_from_slice(&self.last_msg.to_le_bytes());
        value
    }
}

/// The tables, as the digest and the key-value peers number them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Table {
    /// `message`
    Message = 0,
    /// `to_delivery`
    Queue = 1,
    /// `ms_state`
    State = 2,
}

/// All tables.
pub const TABLES: [Table; 3] = [Table::Message, Table::Queue, Table::State];

/// Rows and an order-free checksum of each table. Two stores with equal digests hold the same rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, serde::Serialize, serde::Deserialize)]
pub struct Digest {
    /// Rows of `message`, `to_delivery` and `ms_state`.
    pub rows: [u64; 3],
    /// Sum, modulo 2^64, of a hash of every row.
    pub sums: [u64; 3],
}

impl Digest {
    /// Adds one row, given as the key-value peers hold it.
    pub fn row(&mut self, table: Table, key: &[u8], value: &[u8]) {
        use std::hash::{BuildHasher, Hasher};
        let mut hasher = foldhash::quality::FixedState::with_seed(table as u64 + 1).build_hasher();
        hasher.write(key);
        hasher.write(value);
        self.rows[table as usize] += 1;
        self.sums[table as usize] = self.sums[table as usize].wrapping_add(hasher.finish());
    }

    /// Adds a row of `message`.
    pub fn message(&mut self, message: &Message) {
        let mut value = Vec::with_capacity(256);
        message.message_value(&mut value);
        self.row(Table::Message, &message.message_key(), &value);
    }

    /// Adds a row of `to_delivery`.
    pub fn queue(&mut self, dst_key: u64, rank: u8, msg_id: u64, expire_us: i64) {
        self.row(Table::Queue, &queue_key(dst_key, rank, msg_id), &expire_us.to_le_bytes());
    }

    /// Adds a row of `ms_state`.
    pub fn state(&mut self, state: &State) {
        self.row(Table::State, &state.key(), &state.value());
    }

    /// What a store must hold once client `i` has received `received[i]` messages and delivered the
    /// first `delivered[i]` of them.
    pub fn expected(received: &[u64], delivered: &[u64]) -> Digest {
        let messages = Messages::new(received.len());
        let mut digest = Digest::default();
        let mut states = HashMap::new();
        for (client, (&received, &delivered)) in received.iter().zip(delivered).enumerate() {
            for sequence in 0..received {
                let message = messages.message(client, sequence);
                if sequence < delivered {
                    states.insert(message.dst_key, message.state());
                } else {
                    digest.message(&message);
                    digest.queue(message.dst_key, message.rank, message.msg_id, message.expire_us);
                }
            }
        }
        for state in states.values() {
            digest.state(state);
        }
        digest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn body_lengths_have_the_stated_median_and_limits() {
        let lengths = body_lengths();
        assert!((39..=41).contains(&lengths[128]), "median {}", lengths[128]);
        assert!(lengths.is_sorted() && lengths[0] >= 1 && lengths[255] <= 160);
    }

    #[test]
    fn a_digest_tells_a_lost_a_doubled_and_a_changed_row() {
        let right = Digest::expected(&[10, 10], &[3, 0]);
        assert_eq!(right.rows, [17, 17, 3]);
        assert_ne!(right, Digest::expected(&[10, 9], &[3, 0]));
        assert_ne!(right, Digest::expected(&[10, 10], &[4, 0]));
        let mut changed = Messages::new(2).message(1, 5);
        let (mut a, mut b) = (Digest::default(), Digest::default());
        a.message(&changed);
        changed.expire_us += 1;
        b.message(&changed);
        assert_ne!(a, b);
    }

    #[test]
    fn clients_share_no_station() {
        let messages = Messages::new(16);
        for client in 0..16 {
            for sequence in 0..1000 {
                assert_eq!(messages.message(client, sequence).dst_key % 16, client as u64);
            }
        }
    }
}
