//! A client: pipelined calls, and for all else statements.

use super::PostgresqlForm;
use super::statements::{Prepared, retryable, run};
use super::wire::{Answer, Parameter, Row, Wire, oid};
use crate::centre::{
    Completed, Completion, Delivery, Operation, Outcome, Refusal, Rules, Submission, Verdict,
};
use crate::model::{Columns, EncodedPart, Message, Record, StationKey, Value, shard_of};
use crate::store::{Session, StoreError};
use std::collections::VecDeque;
use std::time::Instant;

/// Calls of one group at most: each holds the lock of a station or two until the group commits.
const GROUP_MAX: usize = 256;

/// A call that was asked for.
struct Call {
    operation: Operation,
    rows: Vec<Row>,
}

pub(super) struct PostgresqlSession {
    wire: Wire,
    prepared: Prepared,
    form: PostgresqlForm,
    rules: Rules,
    /// Calls that were asked for, oldest first, and where groups end: the number of calls behind each asked synchronisation.
    calls: VecDeque<Call>,
    groups: VecDeque<usize>,
    /// Calls since the last synchronisation.
    open: usize,
    /// Calls at the front of `calls` that the server has done, not yet committed.
    done: usize,
    /// Why the group whose calls are being answered was rolled back, if it was.
    failure: Option<StoreError>,
    /// Outcomes to hand out.
    outcomes: VecDeque<Outcome>,
}

const INT: u32 = oid::INT8;
const TEXT: u32 = oid::TEXT;

const RECEIVE: [u32; 25] = [
    INT,
    INT,
    INT,
    INT,
    TEXT,
    INT,
    INT,
    INT,
    INT,
    TEXT,
    INT,
    INT,
    TEXT,
    INT,
    INT,
    INT,
    INT,
    INT,
    INT,
    INT,
    INT,
    oid::BYTEA,
    oid::BYTEA,
    INT,
    oid::BYTEA_ARRAY,
];
const COMPLETE: [u32; 22] = [
    INT,
    INT,
    INT,
    INT,
    INT,
    INT,
    INT,
    INT,
    INT,
    INT,
    INT,
    INT,
    INT,
    TEXT,
    INT,
    INT,
    TEXT,
    INT,
    INT,
    INT,
    INT,
    oid::BYTEA,
];

impl PostgresqlSession {
    pub fn new(mut wire: Wire, form: PostgresqlForm, rules: Rules) -> Result<Self, StoreError> {
        let call = |name: &str, parameters: usize| {
            let places: Vec<String> = (1..=parameters).map(|at| format!("${at}")).collect();
            format!("{name}({})", places.join(","))
        };
        let kinds = Message::TABLE.columns.iter().map(|column| {
            use crate::model::Kind;
            let kind = match column.kind {
                Kind::Int16 => "smallint",
                Kind::Int32 => "integer",
                Kind::Int64 | Kind::Time => "bigint",
                Kind::Text(_) => "text",
                Kind::Bytes(_) => "bytea",
            };
            format!("{} {kind}", column.name)
        });
        let kinds: Vec<String> = kinds.collect();
        let claim = format!(
            "SELECT * FROM {} AS t(station bigint, claim bigint, failures integer, part_list bytea[], {})",
            call("smsc_claim", 4),
            kinds.join(", ")
        );
        wire.prepare("receive", &format!("SELECT {}", call("smsc_receive", RECEIVE.len())), &RECEIVE);
        wire.prepare("claim", &claim, &[INT; 4]);
        wire.prepare(
            "complete",
            &format!("SELECT * FROM {}", call("smsc_complete", COMPLETE.len())),
            &COMPLETE,
        );
        wire.sync();
        wire.until_ready(&mut |_| Ok(()))?;
        Ok(PostgresqlSession {
            wire,
            prepared: Prepared::default(),
            form,
            rules,
            calls: VecDeque::new(),
            groups: VecDeque::new(),
            open: 0,
            done: 0,
            failure: None,
            outcomes: VecDeque::new(),
        })
    }

    /// Asks for a call of the operation, if it has a function.
    fn ask(&mut self, operation: Operation) -> Result<(), Operation> {
        match &operation {
            Operation::Receive(submission) => receive(&mut self.wire, submission, &self.rules),
            Operation::Claim { shard, max, now_us, .. } => {
                let numbers = [i64::from(*shard), *max as i64, *now_us, self.rules.lease_us];
                self.wire.execute("claim", &numbers.map(|it| Parameter::Value(Value::Int(it))));
            }
            Operation::Complete(completion) => complete(&mut self.wire, completion),
            _ => return Err(operation),
        }
        self.calls.push_back(Call { operation, rows: Vec::new() });
        self.open += 1;
        Ok(())
    }

    fn close_group(&mut self) {
        if self.open > 0 {
            self.wire.sync();
            self.groups.push_back(std::mem::take(&mut self.open));
        }
    }

    /// Takes one answer.
    fn take(&mut self, answer: Answer) -> Result<(), StoreError> {
        match answer {
            Answer::Row(row) => {
                let call =
                    self.calls.get_mut(self.done).ok_or_else(|| StoreError::protocol("a row of no call"))?;
                call.rows.push(row);
            }
            Answer::Done => self.done += 1,
            Answer::Refused { sqlstate, message } => {
                self.failure = Some(StoreError::Postgresql { sqlstate, message });
            }
            Answer::Ready => {
                let group =
                    self.groups.pop_front().ok_or_else(|| StoreError::protocol("ready for nothing"))?;
                let calls: Vec<Call> = self.calls.drain(..group).collect();
                self.done = 0;
                match self.failure.take() {
                    None => {
                        for call in calls {
                            self.outcomes.push_back(outcome(&call.operation, call.rows)?);
                        }
                    }
                    Some(error) if retryable(&error) => self.again(calls)?,
                    Some(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Runs calls of a group that was rolled back, each by itself. Answers to later groups wait: the pipeline is drained
    /// first, so that outcomes keep their order.
    fn again(&mut self, calls: Vec<Call>) -> Result<(), StoreError> {
        let before = self.outcomes.len();
        self.drain()?;
        let later: Vec<Outcome> = self.outcomes.drain(before..).collect();
        for call in calls {
            let mut operation = call.operation;
            let outcome = run(&mut self.wire, &mut self.prepared, &mut operation, &self.rules)?;
            self.outcomes.push_back(outcome);
        }
        self.outcomes.extend(later);
        Ok(())
    }

    /// Waits for everything that was asked for.
    fn drain(&mut self) -> Result<(), StoreError> {
        self.close_group();
        while !self.groups.is_empty() {
            let answer = self.wire.answer()?;
            self.take(answer)?;
        }
        Ok(())
    }
}

impl Session for PostgresqlSession {
    fn submit(&mut self, operation: Operation) -> Result<(), StoreError> {
        self.wire.go_on()?;
        let operation =
            if self.form == PostgresqlForm::Statements { Err(operation) } else { self.ask(operation) };
        match operation {
            Ok(()) => {
                if self.form == PostgresqlForm::Calls || self.open >= GROUP_MAX {
                    self.close_group();
                }
            }
            Err(mut other) => {
                self.drain()?;
                let outcome = run(&mut self.wire, &mut self.prepared, &mut other, &self.rules)?;
                self.outcomes.push_back(outcome);
            }
        }
        Ok(())
    }

    fn settle(&mut self, outcomes: &mut Vec<Outcome>) -> Result<(), StoreError> {
        self.close_group();
        while self.outcomes.is_empty() {
            let answer = self.wire.answer()?;
            self.take(answer)?;
        }
        while let Some(answer) = self.wire.answer_here()? {
            self.take(answer)?;
        }
        outcomes.extend(self.outcomes.drain(..));
        Ok(())
    }

    fn settle_until(&mut self, outcomes: &mut Vec<Outcome>, deadline: Instant) -> Result<(), StoreError> {
        // Calls that come while a group is under way share the next one, as those of a client that waits for it would.
        if self.form != PostgresqlForm::Grouped || self.groups.is_empty() {
            self.close_group();
        }
        while self.outcomes.is_empty() {
            let Some(answer) = self.wire.answer_until(deadline)? else { return Ok(()) };
            self.take(answer)?;
        }
        while let Some(answer) = self.wire.answer_here()? {
            self.take(answer)?;
        }
        outcomes.extend(self.outcomes.drain(..));
        Ok(())
    }
}

fn int(number: impl Into<i64>) -> Parameter<'static> {
    Parameter::Value(Value::Int(number.into()))
}

fn text(text: &str) -> Parameter<'_> {
    Parameter::Value(Value::Text(text))
}

fn receive(wire: &mut Wire, submission: &Submission, rules: &Rules) {
    let Submission { message: m, parts } = submission;
    let packed: Vec<Vec<u8>> = parts
        .iter()
        .map(|it| {
            let mut octets = vec![it.alphabet, it.has_header.into(), it.user_data_length];
            octets.extend_from_slice(&it.octets);
            octets
        })
        .collect();
    let parameters: [Parameter<'_>; RECEIVE.len()] = [
        int(rules.queue_max),
        int(if rules.accounts { StationKey::lock_of_account(m.account).0 } else { 0 }),
        int(m.state as i64),
        int(m.account),
        text(&m.src),
        int(m.src_ton),
        int(m.src_npi),
        int(m.dst_key.0),
        int(shard_of(m.dst_key)),
        text(&m.dst),
        int(m.dst_ton),
        int(m.dst_npi),
        text(&m.service_type),
        int(m.esm_class),
        int(m.protocol_id),
        int(m.priority),
        int(m.registered_delivery),
        int(m.data_coding),
        int(m.submit_us),
        int(m.schedule_us),
        int(m.expire_us),
        Parameter::Value(Value::Bytes(&m.tlvs)),
        Parameter::Value(Value::Bytes(&m.body)),
        int(m.rank()),
        Parameter::Array(&packed),
    ];
    wire.execute("receive", &parameters);
}

fn complete(wire: &mut Wire, completion: &Completion) {
    let Completion { station, epoch, message, verdict, receipt, now_us } = completion;
    let (is_final, state, error, absent, retry_us) = match *verdict {
        Verdict::Final { state, error } => (1, state as i64, error, false, 0),
        Verdict::Temporary { error, absent, retry_us } => (0, 0, error, absent, retry_us),
    };
    let receipt = receipt.as_deref().filter(|_| is_final == 1);
    let key = receipt.map_or(StationKey(0), |it| it.dst_key);
    let number = |of: fn(&Message) -> i64| int(receipt.map_or(0, of));
    let words = |of: fn(&Message) -> &str| text(receipt.map_or("", of));
    let parameters: [Parameter<'_>; COMPLETE.len()] = [
        int(station.0),
        int(*epoch),
        int(message.msg_id),
        int(is_final),
        int(state),
        int(error),
        int(absent),
        int(retry_us),
        int(*now_us),
        int(receipt.is_some()),
        int(key.0),
        int(shard_of(key)),
        number(|it| it.account.into()),
        words(|it| &it.src),
        number(|it| it.src_ton.into()),
        number(|it| it.src_npi.into()),
        words(|it| &it.dst),
        number(|it| it.dst_ton.into()),
        number(|it| it.dst_npi.into()),
        number(|it| it.esm_class.into()),
        number(|it| it.expire_us),
        Parameter::Value(Value::Bytes(receipt.map_or(&[], |it| &it.body))),
    ];
    wire.execute("complete", &parameters);
}

/// The outcome that the rows of a call tell.
fn outcome(operation: &Operation, rows: Vec<Row>) -> Result<Outcome, StoreError> {
    let one = |rows: &[Row]| match rows {
        [_] => Ok(()),
        _ => Err(StoreError::protocol(format!("a call gave {} rows instead of one", rows.len()))),
    };
    Ok(match operation {
        Operation::Receive(_) => {
            one(&rows)?;
            match rows[0].int(0)? {
                0 => Outcome::Refused(Refusal::QueueFull),
                -1 => Outcome::Refused(Refusal::NoSuchAccount),
                -2 => Outcome::Refused(Refusal::QuotaExceeded),
                -3 => Outcome::Refused(Refusal::Throttled),
                id => Outcome::Received(id),
            }
        }
        Operation::Claim { .. } => {
            Outcome::Claimed(rows.into_iter().map(delivery).collect::<Result<_, _>>()?)
        }
        _ => {
            one(&rows)?;
            let value = rows[0].int(1)?;
            Outcome::Completed(match rows[0].int(0)? {
                0 => Completed::Final(value),
                1 => Completed::Again(value),
                _ => Completed::Fenced,
            })
        }
    })
}

/// Station, claim, attempts, parts; then the message.
fn delivery(row: Row) -> Result<Delivery, StoreError> {
    let (station, epoch, attempts) = (StationKey(row.int(0)?), row.int(1)?, row.small(2)?);
    let packed = row.array(3, <[u8]>::to_vec)?;
    let message = Message::read(&row.seen_from(4))?;
    let part = |(number, packed): (u8, Vec<u8>)| match packed[..] {
        [alphabet, has_header, user_data_length, ref octets @ ..] => Ok(EncodedPart {
            msg_id: message.msg_id,
            part: number,
            alphabet,
            has_header: has_header != 0,
            user_data_length,
            octets: octets.to_vec(),
        }),
        _ => Err(StoreError::row(3, "part")),
    };
    let parts = (1..=u8::MAX).zip(packed).map(part).collect::<Result<_, _>>()?;
    Ok(Delivery { station, epoch, attempts, message: Box::new(message), parts })
}
