//! Final messages that wait for the archive.

use super::rows::{message, primary};
use crate::model::{Message, Sent, Value};
use crate::transaction::{StoreError, Transaction};

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
