//! Flusher: final messages go to the archive on disk and leave memory.

use super::archive::{Archive, ArchiveError};
use super::operation::{Operation, Outcome};
use super::receive::{message, primary};
use crate::model::{Message, Sent, Value};
use crate::store::{Session, StoreError, Transaction};

pub(super) fn next_sent(tx: &mut impl Transaction, max: usize) -> Result<Vec<Message>, StoreError> {
    let rows = tx.range::<Sent>(primary::<Sent>(), &[Value::Int(i64::MIN)], &[Value::Int(i64::MAX)], max)?;
    let mut messages = Vec::with_capacity(rows.len());
    for row in rows {
        messages.push(message(tx, row.msg_id)?.ok_or_else(|| {
            StoreError::inconsistent(format!("message {} is in `sent` and does not exist", row.msg_id))
        })?);
    }
    Ok(messages)
}

pub(super) fn drop_sent(tx: &mut impl Transaction, keys: &[(i64, i64)]) -> Result<usize, StoreError> {
    // A final message is changed by nobody, so no station needs to be locked.
    for &(done_us, msg_id) in keys {
        tx.delete::<Sent>(&[Value::Int(done_us), Value::Int(msg_id)])?;
        tx.delete::<Message>(&[Value::Int(msg_id)])?;
    }
    Ok(keys.len())
}

/// Archives the oldest final messages, at most `max`, and deletes them from the store once the archive is synced. How many.
///
/// # Errors
/// The store's or the archive's; then nothing that is not in the archive has left the store.
pub fn flush(session: &mut dyn Session, archive: &mut Archive, max: usize) -> Result<usize, ArchiveError> {
    let Outcome::Sent(messages) = session.call(Operation::NextSent { max })? else {
        return Err(StoreError::protocol("NextSent gives messages").into());
    };
    if messages.is_empty() {
        return Ok(0);
    }
    archive.append(&messages)?;
    let keys = messages.iter().map(|message| (message.done_us, message.msg_id)).collect();
    session.call(Operation::DropSent(keys))?;
    archive.left_store(&messages, messages.len() < max);
    Ok(messages.len())
}
