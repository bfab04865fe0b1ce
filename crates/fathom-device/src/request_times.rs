//! An operation as a modelled device served it: what a run's model time is made from.

use serde::{Deserialize, Serialize};

/// One operation. Times are CLOCK_MONOTONIC of the machine that serves the device, ns.
///
/// A device begins an answer earlier than the model asks for, by what the way to the program takes
/// (see `overhead`). So the program has it at about `given_ns` where nothing is late, and the
/// device's own thread was done with it `early_ns` before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Row", into = "Row")]
pub struct RequestTimes {
    /// 0 read, 1 write, 2 flush, 3 discard.
    pub kind: u8,
    /// Its length.
    pub bytes: u32,
    /// When it came.
    pub arrival_ns: u64,
    /// When the model has it done.
    pub asked_ns: u64,
    /// When it was answered, `early_ns` included.
    pub given_ns: u64,
    /// How much earlier than `given_ns` the answer was begun.
    pub early_ns: u64,
    /// Where it begins on the device, bytes.
    pub offset: u64,
}

impl RequestTimes {
    /// As a clock shows it that shows so much more.
    #[must_use]
    pub fn by_clock(self, difference_ns: i64) -> RequestTimes {
        let shown = |ns: u64| ns.saturating_add_signed(difference_ns);
        let (arrival_ns, asked_ns) = (shown(self.arrival_ns), shown(self.asked_ns));
        RequestTimes { arrival_ns, asked_ns, given_ns: shown(self.given_ns), ..self }
    }
}

/// As it is sent: kind, bytes, arrival, the other times from there on, offset.
type Row = (u8, u32, u64, u64, u64, u64, u64);

impl From<Row> for RequestTimes {
    fn from((kind, bytes, arrival_ns, asked_ns, given_ns, early_ns, offset): Row) -> RequestTimes {
        let since = |ns: u64| arrival_ns.saturating_add(ns);
        let (asked_ns, given_ns) = (since(asked_ns), since(given_ns));
        RequestTimes { kind, bytes, arrival_ns, asked_ns, given_ns, early_ns, offset }
    }
}

impl From<RequestTimes> for Row {
    fn from(served: RequestTimes) -> Row {
        let since = |ns: u64| ns.saturating_sub(served.arrival_ns);
        (
            served.kind,
            served.bytes,
            served.arrival_ns,
            since(served.asked_ns),
            since(served.given_ns),
            served.early_ns,
            served.offset,
        )
    }
}

impl RequestTimes {
    /// When its answer was begun, ns: whoever waited for it had it a wake-up later.
    #[must_use]
    pub fn begun_ns(&self) -> u64 {
        self.given_ns.saturating_sub(self.early_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_comes_back() {
        let served = RequestTimes {
            kind: 2,
            bytes: 4096,
            arrival_ns: 7_000,
            asked_ns: 9_000,
            given_ns: 9_500,
            early_ns: 60,
            offset: 8192,
        };
        let text = serde_json::to_string(&served).unwrap();
        assert_eq!(text, "[2,4096,7000,2000,2500,60,8192]");
        assert_eq!(serde_json::from_str::<RequestTimes>(&text).unwrap(), served);
        assert_eq!(served.begun_ns(), 9_440);
    }
}
