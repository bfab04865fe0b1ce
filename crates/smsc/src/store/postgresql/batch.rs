//! Operations of one sort that go to the server as one call: a statement for each table.

use super::part;
use super::wire::{Parameter, Wire, oid};
use crate::centre::{Completion, Operation, Rules, Submission, Verdict};
use crate::model::{Message, shard_of};
use crate::store::StoreError;
use std::collections::{HashMap, HashSet};

const INTS: u32 = oid::INT8_ARRAY;
const TEXTS: u32 = oid::TEXT_ARRAY;
const OCTETS: u32 = oid::BYTEA_ARRAY;

/// Types of the parameters of `smsc_receive_batch`.
pub(super) const RECEIVE: [u32; 31] = [
    oid::INT8,
    INTS,
    INTS,
    INTS,
    INTS,
    INTS,
    INTS,
    TEXTS,
    INTS,
    INTS,
    INTS,
    INTS,
    TEXTS,
    INTS,
    INTS,
    TEXTS,
    INTS,
    INTS,
    INTS,
    INTS,
    INTS,
    INTS,
    INTS,
    INTS,
    OCTETS,
    OCTETS,
    INTS,
    INTS,
    INTS,
    INTS,
    OCTETS,
];

/// Types of the parameters of `smsc_complete_batch`.
pub(super) const COMPLETE: [u32; 22] = [
    INTS, INTS, INTS, INTS, INTS, INTS, INTS, INTS, INTS, INTS, INTS, INTS, INTS, TEXTS, INTS, INTS, TEXTS,
    INTS, INTS, INTS, INTS, OCTETS,
];

/// Operations that are one call, each with its place in the group.
pub(super) enum Batch {
    /// Messages to receive.
    Receive(Vec<(usize, Operation)>),
    /// Flights to end.
    Complete(Vec<(usize, Operation)>),
    /// One that is a call of its own.
    Single(usize, Operation),
}

/// Operations that are being gathered, and whom they change.
#[derive(Default)]
struct Gathered {
    receives: Vec<(usize, Operation)>,
    completes: Vec<(usize, Operation)>,
    received: HashSet<i64>,
    completed: HashSet<i64>,
    reported: HashSet<i64>,
}

impl Gathered {
    fn end(&mut self, batches: &mut Vec<Batch>) {
        let Gathered { receives, completes, .. } = std::mem::take(self);
        if !receives.is_empty() {
            batches.push(Batch::Receive(receives));
        }
        if !completes.is_empty() {
            batches.push(Batch::Complete(completes));
        }
    }
}

/// The calls that do what `operations` do one after the other. In one call every station is changed
/// in one way only, so that it does not matter which of them comes first; and so are those of two
/// calls that change places.
pub(super) fn batches(operations: impl Iterator<Item = Operation>) -> Vec<Batch> {
    let mut batches = Vec::new();
    let mut gathered = Gathered::default();
    for (place, operation) in operations.enumerate() {
        match &operation {
            Operation::Receive(submission) => {
                let station = submission.message.dst_key.0;
                if gathered.completed.contains(&station) || gathered.reported.contains(&station) {
                    gathered.end(&mut batches);
                }
                gathered.received.insert(station);
                gathered.receives.push((place, operation));
            }
            Operation::Complete(completion) => {
                let station = completion.station.0;
                let lane = receipt(completion).map(|receipt| receipt.dst_key.0);
                let is_changed = |key| gathered.received.contains(&key);
                if is_changed(station)
                    || lane.is_some_and(is_changed)
                    || gathered.reported.contains(&station)
                    || lane.is_some_and(|lane| gathered.completed.contains(&lane))
                    || lane == Some(station)
                {
                    gathered.end(&mut batches);
                }
                gathered.completed.insert(station);
                gathered.reported.extend(lane);
                gathered.completes.push((place, operation));
                // Its own lane's receipt is queued by the call that ends its flight.
                if lane == Some(station) {
                    gathered.end(&mut batches);
                }
            }
            // A claim takes what all that came before has made ready.
            _ => {
                gathered.end(&mut batches);
                batches.push(Batch::Single(place, operation));
            }
        }
    }
    gathered.end(&mut batches);
    batches
}

/// The receipt of a final outcome.
pub(super) fn receipt(completion: &Completion) -> Option<&Message> {
    let is_final = matches!(completion.verdict, Verdict::Final { .. });
    completion.receipt.as_deref().filter(|_| is_final)
}

/// The different ones among `keys`, and each one's place among them, from 1.
fn distinct(keys: impl Iterator<Item = i64>) -> (Vec<i64>, Vec<i64>) {
    let (mut different, mut seen) = (Vec::new(), HashMap::new());
    let places = keys.map(|key| {
        *seen.entry(key).or_insert_with(|| {
            different.push(key);
            different.len() as i64
        })
    });
    let places = places.collect();
    (different, places)
}

/// Requests the reception of all.
pub(super) fn receive<'a>(
    wire: &mut Wire,
    submissions: impl Iterator<Item = &'a Submission>,
    rules: &Rules,
) -> Result<(), StoreError> {
    let all: Vec<&Submission> = submissions.collect();
    let ints = |of: fn(&Message) -> i64| -> Vec<i64> {
        all.iter().map(|submission| of(&submission.message)).collect()
    };
    let texts = |of: fn(&Message) -> &str| -> Vec<&str> {
        all.iter().map(|submission| of(&submission.message)).collect()
    };
    let octets = |of: fn(&Message) -> &[u8]| -> Vec<&[u8]> {
        all.iter().map(|submission| of(&submission.message)).collect()
    };
    let (stations, of_station) = distinct(all.iter().map(|submission| submission.message.dst_key.0));
    let (accounts, of_account) = match rules.accounts {
        true => distinct(all.iter().map(|submission| submission.message.account.into())),
        false => Default::default(),
    };
    let shards: Vec<i64> = all.iter().map(|submission| submission.shard.into()).collect();
    let counts: Vec<i64> = all.iter().map(|submission| submission.parts.len() as i64).collect();
    let parts = || {
        (1_i64..)
            .zip(&all)
            .flat_map(|(place, submission)| submission.parts.iter().map(move |part| (place, part)))
    };
    let part_of: Vec<i64> = parts().map(|(place, _)| place).collect();
    let numbers: Vec<i64> = parts().map(|(_, part)| part.part.into()).collect();
    let packed: Vec<Vec<u8>> = parts().map(|(_, part)| part::packed(part)).collect();
    let packed: Vec<&[u8]> = packed.iter().map(Vec::as_slice).collect();
    let parameters: [Parameter<'_>; RECEIVE.len()] = [
        Parameter::Int8(rules.queue_max.into()),
        Parameter::Int8Array(&stations),
        Parameter::Int8Array(&of_station),
        Parameter::Int8Array(&accounts),
        Parameter::Int8Array(&of_account),
        Parameter::Int8Array(&ints(|m| m.state as i64)),
        Parameter::Int8Array(&ints(|m| m.account.into())),
        Parameter::TextArray(&texts(|m| &m.src)),
        Parameter::Int8Array(&ints(|m| m.src_ton.into())),
        Parameter::Int8Array(&ints(|m| m.src_npi.into())),
        Parameter::Int8Array(&ints(|m| m.dst_key.0)),
        Parameter::Int8Array(&shards),
        Parameter::TextArray(&texts(|m| &m.dst)),
        Parameter::Int8Array(&ints(|m| m.dst_ton.into())),
        Parameter::Int8Array(&ints(|m| m.dst_npi.into())),
        Parameter::TextArray(&texts(|m| &m.service_type)),
        Parameter::Int8Array(&ints(|m| m.esm_class.into())),
        Parameter::Int8Array(&ints(|m| m.protocol_id.into())),
        Parameter::Int8Array(&ints(|m| m.priority.into())),
        Parameter::Int8Array(&ints(|m| m.registered_delivery.into())),
        Parameter::Int8Array(&ints(|m| m.data_coding.into())),
        Parameter::Int8Array(&ints(|m| m.submit_us)),
        Parameter::Int8Array(&ints(|m| m.schedule_us)),
        Parameter::Int8Array(&ints(|m| m.expire_us)),
        Parameter::BytesArray(&octets(|m| &m.tlvs)),
        Parameter::BytesArray(&octets(|m| &m.body)),
        Parameter::Int8Array(&ints(|m| m.rank().into())),
        Parameter::Int8Array(&counts),
        Parameter::Int8Array(&part_of),
        Parameter::Int8Array(&numbers),
        Parameter::BytesArray(&packed),
    ];
    wire.execute("receive", &parameters)
}

/// Requests the end of all flights.
pub(super) fn complete<'a>(
    wire: &mut Wire,
    completions: impl Iterator<Item = &'a Completion>,
) -> Result<(), StoreError> {
    let all: Vec<&Completion> = completions.collect();
    let ints =
        |of: fn(&Completion) -> i64| -> Vec<i64> { all.iter().map(|completion| of(completion)).collect() };
    let receipts: Vec<(i64, &Message)> =
        (1..).zip(&all).filter_map(|(place, completion)| Some((place, receipt(completion)?))).collect();
    let receipt_of: Vec<i64> = receipts.iter().map(|receipt| receipt.0).collect();
    let numbers =
        |of: fn(&Message) -> i64| -> Vec<i64> { receipts.iter().map(|receipt| of(receipt.1)).collect() };
    let texts =
        |of: fn(&Message) -> &str| -> Vec<&str> { receipts.iter().map(|receipt| of(receipt.1)).collect() };
    let bodies: Vec<&[u8]> = receipts.iter().map(|receipt| receipt.1.body.as_slice()).collect();
    let parameters: [Parameter<'_>; COMPLETE.len()] = [
        Parameter::Int8Array(&ints(|completion| completion.station.0)),
        Parameter::Int8Array(&ints(|completion| completion.epoch)),
        Parameter::Int8Array(&ints(|completion| completion.message.msg_id)),
        Parameter::Int8Array(&ints(|completion| matches!(completion.verdict, Verdict::Final { .. }).into())),
        Parameter::Int8Array(&ints(|completion| match completion.verdict {
            Verdict::Final { state, .. } => state as i64,
            Verdict::Temporary { .. } => 0,
        })),
        Parameter::Int8Array(&ints(|completion| completion.verdict.error().into())),
        Parameter::Int8Array(&ints(|completion| {
            matches!(completion.verdict, Verdict::Temporary { absent: true, .. }).into()
        })),
        Parameter::Int8Array(&ints(|completion| match completion.verdict {
            Verdict::Final { .. } => 0,
            Verdict::Temporary { retry_us, .. } => retry_us,
        })),
        Parameter::Int8Array(&ints(|completion| completion.now_us)),
        Parameter::Int8Array(&receipt_of),
        Parameter::Int8Array(&numbers(|m| m.dst_key.0)),
        Parameter::Int8Array(&numbers(|m| shard_of(m.dst_key).into())),
        Parameter::Int8Array(&numbers(|m| m.account.into())),
        Parameter::TextArray(&texts(|m| &m.src)),
        Parameter::Int8Array(&numbers(|m| m.src_ton.into())),
        Parameter::Int8Array(&numbers(|m| m.src_npi.into())),
        Parameter::TextArray(&texts(|m| &m.dst)),
        Parameter::Int8Array(&numbers(|m| m.dst_ton.into())),
        Parameter::Int8Array(&numbers(|m| m.dst_npi.into())),
        Parameter::Int8Array(&numbers(|m| m.esm_class.into())),
        Parameter::Int8Array(&numbers(|m| m.expire_us)),
        Parameter::BytesArray(&bodies),
    ];
    wire.execute("complete", &parameters)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{MessageState, StationKey};

    fn received(station: i64) -> Operation {
        let mut message = Message::plain("1".into(), "2".into(), Vec::new(), 1, 2);
        message.dst_key = StationKey(station);
        Operation::Receive(Box::new(Submission { message, parts: Vec::new(), shard: 0 }))
    }

    fn completed(station: i64, lane: Option<i64>) -> Operation {
        let message = Message::plain("1".into(), "2".into(), Vec::new(), 1, 2);
        let receipt = lane.map(|lane| Box::new(Message { dst_key: StationKey(lane), ..message.clone() }));
        let verdict = Verdict::Final { state: MessageState::Delivered, error: 0 };
        let (station, message) = (StationKey(station), Box::new(message));
        Operation::Complete(Box::new(Completion { station, epoch: 1, message, verdict, receipt, now_us: 3 }))
    }

    /// Batches as letters with the places of their operations.
    fn shown(operations: Vec<Operation>) -> Vec<String> {
        let places = |letter: char, of: &[(usize, Operation)]| {
            of.iter().fold(letter.to_string(), |shown, (place, _)| format!("{shown} {place}"))
        };
        let shown = |batch: &Batch| match batch {
            Batch::Receive(of) => places('r', of),
            Batch::Complete(of) => places('c', of),
            Batch::Single(place, _) => format!("s {place}"),
        };
        batches(operations.into_iter()).iter().map(shown).collect()
    }

    #[test]
    fn what_does_not_meet_shares_a_call() {
        let operations =
            vec![received(1), completed(5, Some(-9)), received(1), completed(6, Some(-9)), received(2)];
        assert_eq!(shown(operations), ["r 0 2 4", "c 1 3"]);
    }

    #[test]
    fn what_meets_keeps_its_order() {
        // A message for a station whose flight ends before, and after.
        assert_eq!(shown(vec![completed(1, None), received(1)]), ["c 0", "r 1"]);
        assert_eq!(shown(vec![received(1), completed(1, None)]), ["r 0", "c 1"]);
        // A receipt for a lane whose flight ends before, and after, and for itself.
        assert_eq!(shown(vec![completed(-3, None), completed(1, Some(-3))]), ["c 0", "c 1"]);
        assert_eq!(shown(vec![completed(1, Some(-3)), completed(-3, None)]), ["c 0", "c 1"]);
        assert_eq!(
            shown(vec![completed(2, None), completed(-3, Some(-3)), completed(4, None)]),
            ["c 0", "c 1", "c 2"]
        );
        // A message for a lane that a receipt is for.
        assert_eq!(shown(vec![completed(1, Some(-3)), received(-3)]), ["c 0", "r 1"]);
        assert_eq!(shown(vec![received(-3), completed(1, Some(-3))]), ["r 0", "c 1"]);
    }
}
