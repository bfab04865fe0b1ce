//! Flusher: final messages go to the archive on disk and leave memory.

use crate::centre::{Archive, ArchiveError, Operation, Outcome};
use crate::store::{Session, StoreError};

/// Archives the oldest final messages, at most `max`, and deletes them from the store once the
/// archive is synced. How many.
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
