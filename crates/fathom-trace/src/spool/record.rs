//! One record of a spool, and what it means.

use crate::model::{Blob, BlobCall, Outcome, Value};

/// A record as it stands in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Raw {
    /// What it is.
    pub tag: u8,
    /// The thread that wrote it.
    pub tid: u32,
    /// The process's number of the connection.
    pub connection: u32,
    /// When the call began, ns on the machine's monotonic clock.
    pub start_ns: u64,
    /// When it returned.
    pub end_ns: u64,
    /// Numbers.
    pub words: Vec<u64>,
    /// Texts.
    pub texts: Vec<Vec<u8>>,
}

/// Tags, as in `capture/spool.h`.
pub mod tag {
    pub const STATEMENT: u8 = 1;
    pub const DATABASE: u8 = 2;
    pub const OPEN: u8 = 3;
    pub const PREPARE: u8 = 4;
    pub const BIND: u8 = 5;
    pub const CLEAR: u8 = 6;
    pub const BEGIN_STEP: u8 = 7;
    pub const STEP: u8 = 8;
    pub const RESET: u8 = 9;
    pub const FINALIZE: u8 = 10;
    pub const CLOSE: u8 = 11;
    pub const SETTING: u8 = 12;
    pub const CHECKPOINT: u8 = 13;
    pub const ATTACH: u8 = 14;
    pub const FOREIGN: u8 = 15;
    pub const EXPANDED: u8 = 16;
    pub const BLOB: u8 = 32;
    pub const LOCK: u8 = 17;
}

impl Raw {
    /// Word number `at`; 0 where it is missing.
    pub fn word(&self, at: usize) -> u64 {
        self.words.get(at).copied().unwrap_or(0)
    }

    /// The same as a number of 32 bits.
    pub fn number(&self, at: usize) -> u32 {
        self.word(at) as u32
    }

    /// Text number `at` as text; what is no UTF-8 becomes U+FFFD.
    pub fn text(&self, at: usize) -> String {
        self.texts.get(at).map_or_else(String::new, |text| String::from_utf8_lossy(text).into_owned())
    }

    /// The outcome whose code is word `code` and whose message is text `message`.
    pub fn outcome(&self, code: usize, message: usize) -> Outcome {
        let mut outcome = Outcome::of(self.word(code) as i32);
        if outcome.is_error() {
            outcome.message = self.text(message);
        }
        outcome
    }

    /// A call on a blob; none for one that this version does not know.
    pub fn blob(&mut self) -> Option<Blob> {
        let (bits, place, bytes) = (self.word(1), self.word(2) as i64, self.word(3));
        let call = match self.word(0) >> 32 {
            0 => BlobCall::Open {
                schema: self.text(1),
                table: self.text(2),
                column: self.text(3),
                row: place,
                writes: bits & 1 != 0,
                bytes,
            },
            1 => BlobCall::Read { offset: place, bytes: bytes as i64 },
            2 => {
                let data = if self.texts.len() > 1 { self.texts.swap_remove(1) } else { Vec::new() };
                BlobCall::Write { offset: place, data }
            }
            3 => BlobCall::Reopen { row: place, bytes },
            4 => BlobCall::Close,
            _ => return None,
        };
        Some(Blob { blob: self.number(0), call, in_transaction: bits & 2 != 0, outcome: self.outcome(4, 0) })
    }

    /// The value of a bind; none for a type that this version does not know.
    pub fn value(&mut self) -> Option<Value> {
        let bytes = |raw: &mut Raw| raw.texts.pop().unwrap_or_default();
        Some(match self.word(1) {
            1 => Value::Integer(self.word(2) as i64),
            2 => Value::Real(f64::from_bits(self.word(2))),
            3 => Value::Text(bytes(self)),
            4 => Value::Blob(bytes(self)),
            5 => Value::Null,
            6 => Value::ZeroBlob(self.word(2)),
            _ => return None,
        })
    }
}
