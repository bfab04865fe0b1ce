//! One record as bytes. Times are kept as differences, so encoder and decoder carry the time of the
//! last event.

use crate::model::*;
use crate::wire::{Put, Take, WireError};

/// Tags of records. An event's tag is [`EVENT`] plus its action's number.
mod tag {
    pub const ORIGIN: u8 = 1;
    pub const PROCESS: u8 = 2;
    pub const THREAD: u8 = 3;
    pub const DATABASE: u8 = 4;
    pub const STATEMENT: u8 = 5;
    pub const EXIT: u8 = 6;
    pub const LOSS: u8 = 7;
    pub const LOCK: u8 = 8;
    pub const EVENT: u8 = 32;
}

/// Numbers of actions.
mod action {
    pub const OPEN: u8 = 0;
    pub const PREPARE: u8 = 1;
    pub const BIND: u8 = 2;
    pub const CLEAR_BINDINGS: u8 = 3;
    pub const STEP: u8 = 4;
    pub const RESET: u8 = 5;
    pub const FINALIZE: u8 = 6;
    pub const CLOSE: u8 = 7;
    pub const SETTING: u8 = 8;
    pub const CHECKPOINT: u8 = 9;
    pub const ATTACH: u8 = 10;
    pub const FOREIGN: u8 = 11;
    pub const BLOB: u8 = 16;
}

/// The time of the last event, from which the next one's is told.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock {
    /// ns since time 0 at which the last event returned.
    pub end_ns: u64,
}

/// Appends a record. Content has chunks of its own and is not accepted.
pub fn put(out: &mut Vec<u8>, clock: &mut Clock, record: &Record) {
    match record {
        Record::Origin(origin) => {
            out.push(tag::ORIGIN);
            out.put_bytes(origin.how.as_bytes());
            out.put_bytes(origin.what.as_bytes());
            out.put_u64(origin.unix_s);
            out.push(u8::from(origin.anonymised));
        }
        Record::Process(process) => {
            out.push(tag::PROCESS);
            out.put_u64(process.id.into());
            out.put_u64(process.pid.into());
            put_option(out, process.parent);
            out.put_bytes(process.program.as_bytes());
            out.put_bytes(process.sqlite.as_bytes());
        }
        Record::Thread(thread) => {
            out.push(tag::THREAD);
            out.put_u64(thread.id.into());
            out.put_u64(thread.process.into());
            out.put_u64(thread.tid.into());
        }
        Record::Database(database) => {
            out.push(tag::DATABASE);
            out.put_u64(database.id.into());
            out.put_bytes(&database.path);
            put_start(out, &database.start);
        }
        Record::Statement(statement) => {
            out.push(tag::STATEMENT);
            out.put_u64(statement.id.into());
            out.put_bytes(statement.sql.as_bytes());
        }
        Record::Exit(exit) => {
            out.push(tag::EXIT);
            out.put_u64(exit.process.into());
            out.put_u64(exit.at_ns);
            out.push(u8::from(exit.clean));
        }
        Record::Loss(loss) => {
            out.push(tag::LOSS);
            put_option(out, loss.process);
            out.put_u64(loss.at_ns);
        }
        Record::Event(event) => put_event(out, clock, event),
        Record::Lock(lock) => put_lock(out, clock, lock),
        Record::Content(_) => unreachable!("the writer gives content a chunk of its own"),
    }
}

/// A number that may be missing: 0, else one more.
fn put_option(out: &mut Vec<u8>, number: Option<u32>) {
    out.put_u64(number.map_or(0, |number| u64::from(number) + 1));
}

fn take_option(from: &mut Take<'_>) -> Result<Option<u32>, WireError> {
    match from.u64()? {
        0 => Ok(None),
        number => Ok(Some(u32::try_from(number - 1).map_err(|_| WireError::TooLarge)?)),
    }
}

/// A lock's time is told from the last event's, and is not what the next one's is told from.
fn put_lock(out: &mut Vec<u8>, clock: &Clock, lock: &Lock) {
    out.push(tag::LOCK);
    out.put_u64(lock.thread.into());
    out.put_u64(lock.connection.into());
    out.put_u64(lock.database.into());
    out.put_i64(lock.at_ns.wrapping_sub(clock.end_ns) as i64);
    let (number, has_commits) = match lock.change {
        LockChange::Read => (0, true),
        LockChange::Write => (1, false),
        LockChange::Exclusive => (2, false),
        LockChange::WriteEnd { is_commit: false } => (3, false),
        LockChange::WriteEnd { is_commit: true } => (4, true),
        LockChange::ReadEnd => (5, false),
    };
    out.push(number);
    if has_commits {
        out.put_u64(lock.commits);
    }
}

fn take_lock(from: &mut Take<'_>, clock: &Clock) -> Result<Lock, WireError> {
    let (thread, connection, database) = (from.u32()?, from.u32()?, from.u32()?);
    let at_ns = clock.end_ns.wrapping_add(from.i64()? as u64);
    let (change, has_commits) = match from.u8()? {
        0 => (LockChange::Read, true),
        1 => (LockChange::Write, false),
        2 => (LockChange::Exclusive, false),
        3 => (LockChange::WriteEnd { is_commit: false }, false),
        4 => (LockChange::WriteEnd { is_commit: true }, true),
        5 => (LockChange::ReadEnd, false),
        other => return Err(WireError::Tag(other)),
    };
    let commits = if has_commits { from.u64()? } else { 0 };
    Ok(Lock { thread, connection, database, at_ns, change, commits })
}

fn put_start(out: &mut Vec<u8>, start: &Start) {
    match start {
        Start::Empty => out.push(0),
        Start::Memory => out.push(1),
        Start::Image { bytes } => {
            out.push(2);
            out.put_u64(*bytes);
        }
        Start::Script { bytes } => {
            out.push(3);
            out.put_u64(*bytes);
        }
        Start::Generator { profile, seed, scale_percent } => {
            out.push(4);
            out.put_bytes(profile.as_bytes());
            out.put_u64(*seed);
            out.put_u64((*scale_percent).into());
        }
        Start::Unknown { reason } => {
            out.push(5);
            out.put_bytes(reason.as_bytes());
        }
    }
}

fn put_event(out: &mut Vec<u8>, clock: &mut Clock, event: &Event) {
    let number = match &event.action {
        Action::Open { .. } => action::OPEN,
        Action::Prepare { .. } => action::PREPARE,
        Action::Bind { .. } => action::BIND,
        Action::ClearBindings { .. } => action::CLEAR_BINDINGS,
        Action::Step(_) => action::STEP,
        Action::Reset { .. } => action::RESET,
        Action::Finalize { .. } => action::FINALIZE,
        Action::Close { .. } => action::CLOSE,
        Action::Setting { .. } => action::SETTING,
        Action::Checkpoint { .. } => action::CHECKPOINT,
        Action::Attach { .. } => action::ATTACH,
        Action::Foreign(_) => action::FOREIGN,
        Action::Blob(_) => action::BLOB,
    };
    out.push(tag::EVENT + number);
    out.put_u64(event.thread.into());
    out.put_u64(event.connection.into());
    let end_ns = event.start_ns.wrapping_add(event.duration_ns);
    out.put_i64(end_ns.wrapping_sub(clock.end_ns) as i64);
    out.put_u64(event.duration_ns);
    clock.end_ns = end_ns;
    match &event.action {
        Action::Open { database, flags, vfs, outcome } => {
            out.put_u64((*database).into());
            out.put_u64((*flags).into());
            out.put_bytes(vfs.as_bytes());
            put_outcome(out, outcome);
        }
        Action::Prepare { handle, statement, outcome } => {
            out.put_u64((*handle).into());
            out.put_u64((*statement).into());
            put_outcome(out, outcome);
        }
        Action::Bind { handle, index, value } => {
            out.put_u64((*handle).into());
            out.put_u64((*index).into());
            put_value(out, value);
        }
        Action::ClearBindings { handle } | Action::Reset { handle } | Action::Finalize { handle } => {
            out.put_u64((*handle).into());
        }
        Action::Step(step) => {
            out.put_u64(step.handle.into());
            out.push(
                u8::from(step.begins) | u8::from(step.in_transaction) << 1 | u8::from(step.is_counted) << 2,
            );
            out.put_u64(step.rows);
            out.put_u64(step.changes);
            put_outcome(out, &step.outcome);
        }
        Action::Close { outcome } => put_outcome(out, outcome),
        Action::Setting { setting, value } => {
            match setting {
                Setting::BusyTimeout => out.push(0),
                Setting::WalAutocheckpoint => out.push(1),
                Setting::DbConfig(number) => {
                    out.push(2);
                    out.put_u64((*number).into());
                }
            }
            out.put_i64(*value);
        }
        Action::Checkpoint { schema, mode, outcome } => {
            out.put_bytes(schema.as_bytes());
            out.put_u64((*mode).into());
            put_outcome(out, outcome);
        }
        Action::Attach { schema, database } => {
            out.put_bytes(schema.as_bytes());
            out.put_u64((*database).into());
        }
        Action::Foreign(foreign) => {
            out.push(foreign.kind as u8);
            out.put_bytes(foreign.name.as_bytes());
        }
        Action::Blob(blob) => put_blob(out, blob),
    }
}

fn put_blob(out: &mut Vec<u8>, blob: &Blob) {
    out.put_u64(blob.blob.into());
    match &blob.call {
        BlobCall::Open { schema, table, column, row, writes, bytes } => {
            out.push(0);
            for name in [schema, table, column] {
                out.put_bytes(name.as_bytes());
            }
            out.put_i64(*row);
            out.push(u8::from(*writes));
            out.put_u64(*bytes);
        }
        BlobCall::Read { offset, bytes } => {
            out.push(1);
            out.put_i64(*offset);
            out.put_i64(*bytes);
        }
        BlobCall::Write { offset, data } => {
            out.push(2);
            out.put_i64(*offset);
            out.put_bytes(data);
        }
        BlobCall::Reopen { row, bytes } => {
            out.push(3);
            out.put_i64(*row);
            out.put_u64(*bytes);
        }
        BlobCall::Close => out.push(4),
    }
    out.push(u8::from(blob.in_transaction));
    put_outcome(out, &blob.outcome);
}

fn put_outcome(out: &mut Vec<u8>, outcome: &Outcome) {
    out.put_i64(outcome.code.into());
    if outcome.is_error() {
        out.put_bytes(outcome.message.as_bytes());
    }
}

fn put_value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => out.push(0),
        Value::Integer(number) => {
            out.push(1);
            out.put_i64(*number);
        }
        Value::Real(number) => {
            out.push(2);
            out.put_f64(*number);
        }
        Value::Text(bytes) => {
            out.push(3);
            out.put_bytes(bytes);
        }
        Value::Blob(bytes) => {
            out.push(4);
            out.put_bytes(bytes);
        }
        Value::ZeroBlob(bytes) => {
            out.push(5);
            out.put_u64(*bytes);
        }
    }
}

/// Takes the next record.
pub fn take(from: &mut Take<'_>, clock: &mut Clock) -> Result<Record, WireError> {
    Ok(match from.u8()? {
        tag::ORIGIN => Record::Origin(Origin {
            how: from.text()?,
            what: from.text()?,
            unix_s: from.u64()?,
            anonymised: from.u8()? != 0,
        }),
        tag::PROCESS => Record::Process(Process {
            id: from.u32()?,
            pid: from.u32()?,
            parent: take_option(from)?,
            program: from.text()?,
            sqlite: from.text()?,
        }),
        tag::THREAD => Record::Thread(Thread { id: from.u32()?, process: from.u32()?, tid: from.u32()? }),
        tag::DATABASE => Record::Database(Database {
            id: from.u32()?,
            path: from.bytes()?.to_vec(),
            start: take_start(from)?,
        }),
        tag::STATEMENT => Record::Statement(Statement { id: from.u32()?, sql: from.text()? }),
        tag::EXIT => Record::Exit(Exit { process: from.u32()?, at_ns: from.u64()?, clean: from.u8()? != 0 }),
        tag::LOSS => Record::Loss(Loss { process: take_option(from)?, at_ns: from.u64()? }),
        tag::LOCK => Record::Lock(take_lock(from, clock)?),
        event if event >= tag::EVENT => Record::Event(take_event(from, clock, event - tag::EVENT)?),
        other => return Err(WireError::Tag(other)),
    })
}

fn take_start(from: &mut Take<'_>) -> Result<Start, WireError> {
    Ok(match from.u8()? {
        0 => Start::Empty,
        1 => Start::Memory,
        2 => Start::Image { bytes: from.u64()? },
        3 => Start::Script { bytes: from.u64()? },
        4 => Start::Generator { profile: from.text()?, seed: from.u64()?, scale_percent: from.u32()? },
        5 => Start::Unknown { reason: from.text()? },
        other => return Err(WireError::Tag(other)),
    })
}

fn take_event(from: &mut Take<'_>, clock: &mut Clock, number: u8) -> Result<Event, WireError> {
    let (thread, connection) = (from.u32()?, from.u32()?);
    let end_ns = clock.end_ns.wrapping_add(from.i64()? as u64);
    let duration_ns = from.u64()?;
    clock.end_ns = end_ns;
    let action = match number {
        action::OPEN => Action::Open {
            database: from.u32()?,
            flags: from.u32()?,
            vfs: from.text()?,
            outcome: take_outcome(from)?,
        },
        action::PREPARE => {
            Action::Prepare { handle: from.u32()?, statement: from.u32()?, outcome: take_outcome(from)? }
        }
        action::BIND => Action::Bind { handle: from.u32()?, index: from.u32()?, value: take_value(from)? },
        action::CLEAR_BINDINGS => Action::ClearBindings { handle: from.u32()? },
        action::STEP => {
            let handle = from.u32()?;
            let bits = from.u8()?;
            Action::Step(Step {
                handle,
                begins: bits & 1 != 0,
                in_transaction: bits & 2 != 0,
                is_counted: bits & 4 != 0,
                rows: from.u64()?,
                changes: from.u64()?,
                outcome: take_outcome(from)?,
            })
        }
        action::RESET => Action::Reset { handle: from.u32()? },
        action::FINALIZE => Action::Finalize { handle: from.u32()? },
        action::CLOSE => Action::Close { outcome: take_outcome(from)? },
        action::SETTING => Action::Setting {
            setting: match from.u8()? {
                0 => Setting::BusyTimeout,
                1 => Setting::WalAutocheckpoint,
                2 => Setting::DbConfig(from.u32()?),
                other => return Err(WireError::Tag(other)),
            },
            value: from.i64()?,
        },
        action::CHECKPOINT => {
            Action::Checkpoint { schema: from.text()?, mode: from.u32()?, outcome: take_outcome(from)? }
        }
        action::ATTACH => Action::Attach { schema: from.text()?, database: from.u32()? },
        action::FOREIGN => Action::Foreign(Foreign {
            kind: match from.u8()? {
                0 => ForeignKind::Function,
                1 => ForeignKind::Collation,
                2 => ForeignKind::Module,
                3 => ForeignKind::Extension,
                4 => ForeignKind::Encryption,
                5 => ForeignKind::Call,
                other => return Err(WireError::Tag(other)),
            },
            name: from.text()?,
        }),
        action::BLOB => Action::Blob(take_blob(from)?),
        other => return Err(WireError::Tag(other.wrapping_add(tag::EVENT))),
    };
    Ok(Event { thread, connection, start_ns: end_ns.wrapping_sub(duration_ns), duration_ns, action })
}

fn take_blob(from: &mut Take<'_>) -> Result<Blob, WireError> {
    let blob = from.u32()?;
    let call = match from.u8()? {
        0 => BlobCall::Open {
            schema: from.text()?,
            table: from.text()?,
            column: from.text()?,
            row: from.i64()?,
            writes: from.u8()? != 0,
            bytes: from.u64()?,
        },
        1 => BlobCall::Read { offset: from.i64()?, bytes: from.i64()? },
        2 => BlobCall::Write { offset: from.i64()?, data: from.bytes()?.to_vec() },
        3 => BlobCall::Reopen { row: from.i64()?, bytes: from.u64()? },
        4 => BlobCall::Close,
        other => return Err(WireError::Tag(other)),
    };
    Ok(Blob { blob, call, in_transaction: from.u8()? != 0, outcome: take_outcome(from)? })
}

fn take_outcome(from: &mut Take<'_>) -> Result<Outcome, WireError> {
    let mut outcome = Outcome::of(from.i32()?);
    if outcome.is_error() {
        outcome.message = from.text()?;
    }
    Ok(outcome)
}

fn take_value(from: &mut Take<'_>) -> Result<Value, WireError> {
    Ok(match from.u8()? {
        0 => Value::Null,
        1 => Value::Integer(from.i64()?),
        2 => Value::Real(from.f64()?),
        3 => Value::Text(from.bytes()?.to_vec()),
        4 => Value::Blob(from.bytes()?.to_vec()),
        5 => Value::ZeroBlob(from.u64()?),
        other => return Err(WireError::Tag(other)),
    })
}
