//! Rows as the shards keep them.
//!
//! A message: token (12 octets), the number of the message that it is the receipt of (8), then its
//! columns in the order of the table; numbers as zigzag varints, texts behind their length.

use crate::model::{
    Account, Columns, Message, MessageState, Record, Station, StationKey, StationState, Value,
};
use crate::store::StoreError;

/// Octets before the columns.
const HEAD: usize = 20;
/// Octets of what identifies a submission.
pub(super) const TOKEN: usize = 12;

/// A number so that octets sort as numbers do.
pub(super) fn be(number: i64) -> [u8; 8] {
    number.max(0).to_be_bytes()
}

pub(super) fn key(station: StationKey) -> [u8; 8] {
    ((station.0 as u64) ^ (1 << 63)).to_be_bytes()
}

pub(super) fn station_of(key: &[u8]) -> Result<StationKey, StoreError> {
    let octets: [u8; 8] = key.try_into().map_err(|_| StoreError::row(0, "key of a station"))?;
    Ok(StationKey((u64::from_be_bytes(octets) ^ (1 << 63)) as i64))
}

pub(super) fn number_of(octets: &[u8]) -> Result<i64, StoreError> {
    let octets: [u8; 8] = octets.try_into().map_err(|_| StoreError::row(0, "number of 8 octets"))?;
    i64::try_from(u64::from_be_bytes(octets)).map_err(|_| StoreError::row(0, "number in range"))
}

fn varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// A message without its own number.
pub(super) fn written(message: &Message, token: &[u8; TOKEN]) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEAD + 96 + message.body.len() + message.tlvs.len());
    out.extend_from_slice(token);
    out.extend_from_slice(&be(message.receipt_of));
    message.with_values(|values| {
        for (at, value) in values.iter().enumerate() {
            match *value {
                Value::Int(_) if at == 0 => varint(&mut out, 0),
                Value::Int(number) => varint(&mut out, ((number << 1) ^ (number >> 63)) as u64),
                Value::Text(text) => {
                    varint(&mut out, text.len() as u64);
                    out.extend_from_slice(text.as_bytes());
                }
                Value::Bytes(octets) => {
                    varint(&mut out, octets.len() as u64);
                    out.extend_from_slice(octets);
                }
            }
        }
    });
    out
}

enum Cell<'a> {
    Int(i64),
    Bytes(&'a [u8]),
}

struct Cells<'a>(Vec<Cell<'a>>);

impl Columns for Cells<'_> {
    fn int(&self, at: usize) -> Result<i64, StoreError> {
        match self.0.get(at) {
            Some(Cell::Int(number)) => Ok(*number),
            _ => Err(StoreError::row(at, "number")),
        }
    }

    fn bytes(&self, at: usize) -> Result<&[u8], StoreError> {
        match self.0.get(at) {
            Some(Cell::Bytes(octets)) => Ok(octets),
            _ => Err(StoreError::row(at, "octets")),
        }
    }
}

fn next_varint(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (&octet, after) = rest.split_first()?;
        *rest = after;
        number |= u64::from(octet & 0x7f) << shift;
        if octet & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

/// What has changed of a message since it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct View {
    pub state: MessageState,
    attempts: u32,
    error: u32,
    done_us: i64,
    was_forwarded: bool,
}

/// Octets of a view: `<BI4I4ddB`.
const VIEW: usize = 26;

fn double(octets: &[u8]) -> i64 {
    octets.try_into().map_or(0, |octets| f64::from_le_bytes(octets) as i64)
}

fn word(octets: &[u8]) -> u32 {
    octets.try_into().map_or(0, u32::from_le_bytes)
}

impl View {
    pub fn read(raw: &[u8]) -> Result<View, StoreError> {
        if raw.len() != VIEW {
            return Err(StoreError::row(1, "view of a message"));
        }
        Ok(View {
            state: MessageState::of(raw[0].into()).ok_or_else(|| StoreError::row(1, "message state"))?,
            attempts: word(&raw[1..5]),
            error: word(&raw[5..9]),
            done_us: double(&raw[9..17]),
            was_forwarded: raw[25] != 0,
        })
    }
}

/// A message from its number, as it was written, and its view, if there is one.
pub(super) fn message(msg_id: i64, raw: &[u8], view: &[u8]) -> Result<Message, StoreError> {
    let mut rest = raw.get(HEAD..).ok_or_else(|| StoreError::row(0, "message"))?;
    let mut cells = Cells(Vec::with_capacity(Message::TABLE.columns.len()));
    for (at, column) in Message::TABLE.columns.iter().enumerate() {
        let number = next_varint(&mut rest).ok_or_else(|| StoreError::row(at, "number"))?;
        cells.0.push(match column.kind {
            crate::model::Kind::Text(_) | crate::model::Kind::Bytes(_) => {
                let length = usize::try_from(number).ok().filter(|&length| length <= rest.len());
                let (octets, after) = rest.split_at(length.ok_or_else(|| StoreError::row(at, "octets"))?);
                rest = after;
                Cell::Bytes(octets)
            }
            _ => Cell::Int(((number >> 1) as i64) ^ -((number & 1) as i64)),
        });
    }
    let mut message = Message::read(&cells)?;
    message.msg_id = msg_id;
    if !view.is_empty() {
        let view = View::read(view)?;
        (message.state, message.attempts, message.last_error) = (view.state, view.attempts, view.error);
        message.done_us = view.done_us;
        if view.was_forwarded {
            message.parts = 0;
        }
    }
    Ok(message)
}

/// Octets of a station: `<HBdddI4I4I4Bd`.
const ROW: usize = 48;

pub(super) fn station(key: StationKey, raw: &[u8]) -> Result<Station, StoreError> {
    if raw.len() != ROW {
        return Err(StoreError::row(1, "station"));
    }
    Ok(Station {
        dst_key: key,
        shard: u16::from_le_bytes([raw[0], raw[1]]),
        state: StationState::from_code(raw[2].into()).ok_or_else(|| StoreError::row(2, "station state"))?,
        ready_us: double(&raw[3..11]),
        epoch: double(&raw[11..19]),
        current: double(&raw[19..27]),
        queue: word(&raw[27..31]),
        attempts: word(&raw[31..35]),
        last_error: word(&raw[35..39]),
        alerted: raw[39] != 0,
    })
}

/// An account without its password's hash: `<I4I4I4dddI4`.
pub(super) fn account_row(account: &Account) -> Vec<u8> {
    let mut out = Vec::with_capacity(40);
    for number in [account.binds_max, account.window_max, account.rate_max] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    for number in [account.quota, 0, 0] {
        out.extend_from_slice(&(number as f64).to_le_bytes());
    }
    out.extend_from_slice(&0_u32.to_le_bytes());
    out
}

pub(super) fn account(number: u32, raw: &[u8]) -> Result<Account, StoreError> {
    if raw.len() < 40 {
        return Err(StoreError::row(0, "account"));
    }
    Ok(Account {
        account: number,
        binds_max: word(&raw[0..4]),
        window_max: word(&raw[4..8]),
        rate_max: word(&raw[8..12]),
        quota: double(&raw[12..20]),
        submitted: double(&raw[20..28]),
        second_us: double(&raw[28..36]),
        in_second: word(&raw[36..40]),
        password_hash: raw[40..].to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_read_as_it_was_written() {
        let plain = Message {
            dst_key: StationKey(-769),
            receipt_of: -7,
            tlvs: vec![0, 255],
            ..Message::plain("49".into(), "491".into(), vec![b'x'; 300], 1_800_000_000_000_001, i64::MAX >> 1)
        };
        let raw = written(&plain, &[7; TOKEN]);
        assert_eq!(message(5, &raw, b"").unwrap(), Message { msg_id: 5, ..plain });
        // Whatever is cut off or changed is an error or another message, and no panic.
        for length in 0..raw.len() {
            assert!(message(5, &raw[..length], b"").is_err(), "{length}");
            let mut changed = raw.clone();
            changed[length] ^= 0xff;
            let _ = message(5, &changed, b"");
        }
        assert!(message(5, &raw, b"x").is_err());
    }

    #[test]
    fn keys_sort_as_numbers_do() {
        let keys = [i64::MIN, -769, -1, 0, 1_491, i64::MAX].map(|number| key(StationKey(number)));
        assert!(keys.is_sorted());
        assert_eq!(station_of(&keys[1]).unwrap(), StationKey(-769));
    }
}
