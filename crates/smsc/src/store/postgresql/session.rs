//! A client: pipelined calls, and for all else statements.

use super::PostgresqlForm;
use super::batch::{self, Batch};
use super::part;
use super::statements::{PreparedStatements, retryable, run};
use super::wire::{Answer, Parameter, Row, Wire, oid};
use crate::centre::{
    Channel, Completion, CompletionResult, Delivery, Operation, Outcome, Refusal, Rules, Submission, Verdict,
};
use crate::model::{Columns, Message, Record, StationKey, shard_of};
use crate::store::{Session, StoreError};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Calls of one group at most: each holds the lock of a station or two until the group commits.
pub(super) const GROUP_MAX: usize = 256;

/// A call that was sent.
struct Call {
    /// What it does, each with its place in the group; none for the call that begins a group.
    operations: Vec<(usize, Operation)>,
    rows: Vec<Row>,
}

pub(super) struct PostgresqlSession {
    wire: Wire,
    prepared: PreparedStatements,
    form: PostgresqlForm,
    rules: Rules,
    /// Calls of one group at most, on this server.
    group_max: usize,
    /// Operations of the group that is still open; they are sent when it is closed, as its locks
    /// come first.
    open: Vec<Operation>,
    /// Calls that were sent, oldest first, and where groups end: the number of calls before each
    /// synchronisation.
    calls: VecDeque<Call>,
    groups: VecDeque<usize>,
    /// Calls at the front of `calls` that the server has done, not yet committed.
    done: usize,
    /// Why the group whose calls are being answered was rolled back, if it was.
    failure: Option<StoreError>,
    /// Numbers of the last group that was sent and of the last that has committed, where groups
    /// begin with a call.
    sent: i64,
    committed: i64,
    /// Outcomes to hand out, and among them what was rolled back and is to run again.
    outcomes: VecDeque<Result<Outcome, Operation>>,
    /// Of the store: calls that ran again.
    again: Arc<AtomicU64>,
}

/// A batch is short and the tables are long, which the planner does not know of arrays, nor of
/// tables that were empty when it planned: every row is found by its key.
const PLANS: &str = "SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off;
    SET plan_cache_mode = force_generic_plan";

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
    pub fn new(
        mut wire: Wire,
        form: PostgresqlForm,
        rules: Rules,
        group_max: usize,
        again: Arc<AtomicU64>,
    ) -> Result<Self, StoreError> {
        wire.script("SET smsc.last_group = 0")?;
        let names = match form {
            PostgresqlForm::Batched => ["smsc_receive_batch", "smsc_claim_batch", "smsc_complete_batch"],
            _ => ["smsc_receive", "smsc_claim", "smsc_complete"],
        };
        if form == PostgresqlForm::Batched {
            wire.script(PLANS)?;
        }
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
            call(names[1], 5),
            kinds.join(", ")
        );
        wire.prepare("begin", &format!("SELECT {}", call("smsc_begin", 2)), &[INT, oid::INT8_ARRAY])?;
        let batched = form == PostgresqlForm::Batched;
        let of_receive: &[u32] = if batched { &batch::RECEIVE } else { &RECEIVE };
        let of_complete: &[u32] = if batched { &batch::COMPLETE } else { &COMPLETE };
        wire.prepare("receive", &format!("SELECT {}", call(names[0], of_receive.len())), of_receive)?;
        for (name, table) in [("schedule_due", "scheduled_msg"), ("retry_due", "retry_timer")] {
            wire.prepare(name, &format!("SELECT 1 FROM {table} WHERE due_us <= $1 LIMIT 1"), &[INT])?;
        }
        wire.prepare("claim", &claim, &[INT; 5])?;
        wire.prepare(
            "complete",
            &format!("SELECT * FROM {}", call(names[2], of_complete.len())),
            of_complete,
        )?;
        wire.sync();
        wire.until_ready(&mut |_| Ok(()))?;
        Ok(PostgresqlSession {
            wire,
            prepared: PreparedStatements::default(),
            form,
            rules,
            group_max,
            open: Vec::new(),
            calls: VecDeque::new(),
            groups: VecDeque::new(),
            done: 0,
            failure: None,
            sent: 0,
            committed: 0,
            outcomes: VecDeque::new(),
            again,
        })
    }

    /// Asks for a call of an operation that has a function.
    fn ask(&mut self, operation: Operation) -> Result<(), StoreError> {
        self.open.push(operation);
        if !self.form.has_groups() || self.open.len() >= self.group_max {
            self.close_group()?;
        }
        Ok(())
    }

    /// Sends the open group, its locks first.
    fn close_group(&mut self) -> Result<(), StoreError> {
        if self.open.is_empty() {
            return Ok(());
        }
        let before = self.calls.len();
        if self.form.has_groups() {
            self.sent += 1;
            let keys = keys(&self.open, &self.rules);
            self.wire.execute("begin", &[int(self.sent), Parameter::Int8Array(&keys)])?;
            self.calls.push_back(Call { operations: Vec::new(), rows: Vec::new() });
        }
        let open = std::mem::take(&mut self.open).into_iter();
        let batches = match self.form {
            PostgresqlForm::Batched => batch::batches(open),
            _ => open.enumerate().map(|(place, operation)| Batch::Single(place, operation)).collect(),
        };
        for batch in batches {
            let operations = match batch {
                Batch::Single(place, operation) => {
                    self.call(&operation)?;
                    vec![(place, operation)]
                }
                Batch::Receive(operations) => {
                    let submissions = operations.iter().filter_map(|(_, operation)| match operation {
                        Operation::Receive(submission) => Some(&**submission),
                        _ => None,
                    });
                    batch::receive(&mut self.wire, submissions, &self.rules)?;
                    operations
                }
                Batch::Complete(operations) => {
                    let completions = operations.iter().filter_map(|(_, operation)| match operation {
                        Operation::Complete(completion) => Some(&**completion),
                        _ => None,
                    });
                    batch::complete(&mut self.wire, completions)?;
                    operations
                }
            };
            self.calls.push_back(Call { operations, rows: Vec::new() });
        }
        self.wire.sync();
        self.groups.push_back(self.calls.len() - before);
        Ok(())
    }

    /// Requests one operation that has a function (`has_function`).
    fn call(&mut self, operation: &Operation) -> Result<(), StoreError> {
        match operation {
            Operation::Receive(submission) => receive(&mut self.wire, submission, &self.rules),
            Operation::Claim { channel, max, now_us, .. } => {
                let (first, shards) = channel.shards();
                let numbers = [first.into(), shards.into(), *max as i64, *now_us, self.rules.lease_us];
                self.wire.execute("claim", &numbers.map(Parameter::Int8))
            }
            Operation::Complete(completion) => complete(&mut self.wire, completion),
            other => Err(StoreError::protocol(format!("there is no function for {other:?}"))),
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
            Answer::Refused(error) => self.failure = Some(error),
            Answer::Ready => {
                let group =
                    self.groups.pop_front().ok_or_else(|| StoreError::protocol("ready for nothing"))?;
                self.done = 0;
                let failure = self.failure.take();
                self.committed += i64::from(failure.is_none());
                match failure {
                    Some(error) if !retryable(&error) => return Err(error),
                    _ => {}
                }
                let mut done = Vec::with_capacity(group);
                for Call { operations, rows } in self.calls.drain(..group) {
                    if failure.is_some() {
                        self.again.fetch_add(operations.len() as u64, Ordering::Relaxed);
                        done.extend(operations.into_iter().map(|(place, operation)| (place, Err(operation))));
                    } else {
                        outcomes(operations, rows, &mut done)?;
                    }
                }
                // Calls of one group need not be in the order in which they were asked for.
                done.sort_unstable_by_key(|(place, _)| *place);
                self.outcomes.extend(done.into_iter().map(|(_, outcome)| outcome));
            }
        }
        Ok(())
    }

    /// Runs what was rolled back again, once nothing is under way, until all has its outcome. What
    /// comes later in a grouped session was rolled back, too (`smsc_begin`), so that all runs in
    /// the order in which it was submitted.
    fn run_again(&mut self) -> Result<(), StoreError> {
        while let Some(first) = self.outcomes.iter().position(Result::is_err) {
            self.await_groups()?;
            let from_first = self.outcomes.split_off(first);
            self.sent = self.committed;
            for message in from_first {
                match message {
                    Err(operation) if self.form.has_groups() => self.ask(operation)?,
                    Ok(_) if self.form.has_groups() => {
                        return Err(StoreError::protocol("a group committed after one that was rolled back"));
                    }
                    Err(mut operation) => {
                        let outcome = run(&mut self.wire, &mut self.prepared, &mut operation, &self.rules)?;
                        self.outcomes.push_back(Ok(outcome));
                    }
                    done => self.outcomes.push_back(done),
                }
            }
            self.await_groups()?;
        }
        Ok(())
    }

    /// Waits for the answers to all groups, whatever they are.
    fn await_groups(&mut self) -> Result<(), StoreError> {
        self.close_group()?;
        while !self.groups.is_empty() {
            let answer = self.wire.answer()?;
            self.take(answer)?;
        }
        Ok(())
    }

    /// Whether a timer has nothing to do, by one round trip instead of the three of a transaction
    /// that finds nothing: timers look 200 times in a second. Not in the form that asks statement
    /// by statement.
    fn nothing_is_due(&mut self, operation: &Operation) -> Result<bool, StoreError> {
        let (name, now_us) = match operation {
            _ if self.form == PostgresqlForm::Statements => return Ok(false),
            Operation::ReleaseScheduled { now_us, .. } => ("schedule_due", *now_us),
            Operation::WakeDue { now_us, .. } => ("retry_due", *now_us),
            _ => return Ok(false),
        };
        let mut nothing = true;
        self.wire.execute(name, &[int(now_us)])?;
        self.wire.sync();
        self.wire.until_ready(&mut |_| {
            nothing = false;
            Ok(())
        })?;
        Ok(nothing)
    }

    /// Hands out what has its outcome, and what is here already besides.
    fn hand_out(&mut self, outcomes: &mut Vec<Outcome>) -> Result<(), StoreError> {
        while let Some(answer) = self.wire.answer_here()? {
            self.take(answer)?;
        }
        self.run_again()?;
        outcomes.extend(self.outcomes.drain(..).flatten());
        Ok(())
    }

    /// Waits for everything that was asked for.
    fn drain(&mut self) -> Result<(), StoreError> {
        self.await_groups()?;
        self.run_again()
    }
}

/// Whether an operation is one call of a function.
fn has_function(operation: &Operation) -> bool {
    match operation {
        Operation::Receive(_) => true,
        // The function writes no intermediate notification.
        Operation::Complete(completion) => {
            completion.receipt.is_none() || matches!(completion.verdict, Verdict::Final { .. })
        }
        Operation::Claim { channel, .. } => !matches!(channel, Channel::Peer(_) | Channel::Stations(_)),
        _ => false,
    }
}

/// What the calls of a group lock, in the order in which all groups take their locks, so that none
/// waits for one that waits for it: as in a single call mobiles (positive) come before lanes and
/// accounts (negative). A claim waits for no lock.
fn keys(operations: &[Operation], rules: &Rules) -> Vec<i64> {
    let mut keys = Vec::with_capacity(operations.len() + 1);
    for operation in operations {
        match operation {
            Operation::Receive(submission) => {
                keys.push(submission.message.dst_key.0);
                if rules.accounts {
                    keys.push(StationKey::lock_of_account(submission.message.account).0);
                }
            }
            Operation::Complete(completion) => {
                keys.push(completion.station.0);
                keys.extend(batch::receipt(completion).map(|receipt| receipt.dst_key.0));
            }
            _ => {}
        }
    }
    keys.sort_unstable_by_key(|&key| std::cmp::Reverse(key));
    keys.dedup();
    keys
}

impl Session for PostgresqlSession {
    fn submit(&mut self, mut operation: Operation) -> Result<(), StoreError> {
        self.wire.go_on()?;
        if self.form != PostgresqlForm::Statements && has_function(&operation) {
            self.ask(operation)?;
        } else {
            self.drain()?;
            if self.nothing_is_due(&operation)? {
                self.outcomes.push_back(Ok(Outcome::Count(0)));
                return Ok(());
            }
            let outcome = run(&mut self.wire, &mut self.prepared, &mut operation, &self.rules)?;
            self.outcomes.push_back(Ok(outcome));
        }
        Ok(())
    }

    fn settle(&mut self, outcomes: &mut Vec<Outcome>) -> Result<(), StoreError> {
        self.close_group()?;
        while self.outcomes.is_empty() {
            let answer = self.wire.answer()?;
            self.take(answer)?;
        }
        self.hand_out(outcomes)
    }

    fn settle_until(&mut self, outcomes: &mut Vec<Outcome>, deadline: Instant) -> Result<(), StoreError> {
        // Calls that come while a group is under way share the next one, as those of a client that
        // waits for it would.
        if !self.form.has_groups() || self.groups.is_empty() {
            self.close_group()?;
        }
        while self.outcomes.is_empty() {
            let Some(answer) = self.wire.answer_until(deadline)? else { return Ok(()) };
            self.take(answer)?;
        }
        // What is to run again is rare, and then waited for whatever the deadline: it comes before
        // what is still under way.
        self.hand_out(outcomes)
    }
}

fn int(number: impl Into<i64>) -> Parameter<'static> {
    Parameter::Int8(number.into())
}

fn text(text: &str) -> Parameter<'_> {
    Parameter::Text(text)
}

fn receive(wire: &mut Wire, submission: &Submission, rules: &Rules) -> Result<(), StoreError> {
    let Submission { message: m, parts, shard } = submission;
    let packed: Vec<Vec<u8>> = parts.iter().map(part::packed).collect();
    let packed: Vec<&[u8]> = packed.iter().map(Vec::as_slice).collect();
    let parameters: [Parameter<'_>; RECEIVE.len()] = [
        int(rules.queue_max),
        int(if rules.accounts { StationKey::lock_of_account(m.account).0 } else { 0 }),
        int(m.state as i64),
        int(m.account),
        text(&m.src),
        int(m.src_ton),
        int(m.src_npi),
        int(m.dst_key.0),
        int(*shard),
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
        Parameter::Bytes(&m.tlvs),
        Parameter::Bytes(&m.body),
        int(m.rank()),
        Parameter::BytesArray(&packed),
    ];
    wire.execute("receive", &parameters)
}

fn complete(wire: &mut Wire, completion: &Completion) -> Result<(), StoreError> {
    let Completion { station, epoch, message, verdict, now_us, .. } = completion;
    let (is_final, state, error, absent, retry_us) = match *verdict {
        Verdict::Final { state, error } => (1, state as i64, error, false, 0),
        Verdict::Temporary { error, absent, retry_us } => (0, 0, error, absent, retry_us),
    };
    let receipt = batch::receipt(completion);
    let key = receipt.map_or(StationKey(0), |receipt| receipt.dst_key);
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
        number(|receipt| receipt.account.into()),
        words(|receipt| &receipt.src),
        number(|receipt| receipt.src_ton.into()),
        number(|receipt| receipt.src_npi.into()),
        words(|receipt| &receipt.dst),
        number(|receipt| receipt.dst_ton.into()),
        number(|receipt| receipt.dst_npi.into()),
        number(|receipt| receipt.esm_class.into()),
        number(|receipt| receipt.expire_us),
        Parameter::Bytes(receipt.map_or(&[], |receipt| &receipt.body)),
    ];
    wire.execute("complete", &parameters)
}

/// Appends the outcomes that the rows of a call tell: a row for each operation, but for a claim.
fn outcomes(
    operations: Vec<(usize, Operation)>,
    rows: Vec<Row>,
    done: &mut Vec<(usize, Result<Outcome, Operation>)>,
) -> Result<(), StoreError> {
    if let [(place, Operation::Claim { .. })] = operations[..] {
        let claimed = rows.into_iter().map(delivery).collect::<Result<_, _>>()?;
        done.push((place, Ok(Outcome::Claimed(claimed))));
        return Ok(());
    }
    // That which begins a group has a row, and no operation.
    if rows.len() != operations.len().max(1) {
        let what = format!("a call of {} operations gave {} rows", operations.len(), rows.len());
        return Err(StoreError::protocol(what));
    }
    for ((place, operation), row) in operations.iter().zip(&rows) {
        done.push((*place, Ok(outcome(operation, row)?)));
    }
    Ok(())
}

/// The outcome that a row tells.
fn outcome(operation: &Operation, row: &Row) -> Result<Outcome, StoreError> {
    if matches!(operation, Operation::Receive(_)) {
        return Ok(match row.int(0)? {
            0 => Outcome::Refused(Refusal::QueueFull),
            -1 => Outcome::Refused(Refusal::NoSuchAccount),
            -2 => Outcome::Refused(Refusal::QuotaExceeded),
            -3 => Outcome::Refused(Refusal::Throttled),
            id => Outcome::Received(id),
        });
    }
    let value = row.int(1)?;
    Ok(Outcome::Completed(match row.int(0)? {
        0 => CompletionResult::Final(value),
        1 => CompletionResult::Again(value),
        _ => CompletionResult::Fenced,
    }))
}

/// Station, claim, attempts, parts; then the message.
fn delivery(row: Row) -> Result<Delivery, StoreError> {
    let (station, epoch, attempts) = (StationKey(row.int(0)?), row.int(1)?, row.small(2)?);
    let packed = row.octets_array(3)?;
    let message = Message::read(&row.seen_from(4))?;
    let part = |(number, packed): (u8, Vec<u8>)| part::unpacked(message.msg_id, number, &packed);
    let parts = (1..=u8::MAX).zip(packed).map(part).collect::<Result<_, _>>()?;
    Ok(Delivery { station, epoch, attempts, message: Box::new(message), parts })
}
