//! The state of a message wherever it is: in the store, or archived.

use crate::centre::{ArchiveError, ArchiveReader, Operation, Outcome, Refusal, Status};
use crate::store::{Session, StoreError};

/// What query_sm asks for: the state of the account's message of this number. `archive` is that of
/// the store; a store without a Flusher has none.
///
/// # Errors
/// The store's or the archive's.
pub fn status(
    session: &mut dyn Session,
    archive: Option<&ArchiveReader>,
    account: u32,
    msg_id: i64,
) -> Result<Result<Status, Refusal>, ArchiveError> {
    // A message is in the archive before it leaves the store, so looking in this order never misses
    // it.
    match session.call(Operation::Query { account, msg_id })? {
        Outcome::Status(status) => return Ok(Ok(status)),
        Outcome::Refused(Refusal::NoSuchMessage) => {}
        Outcome::Refused(refusal) => return Ok(Err(refusal)),
        _ => return Err(StoreError::protocol("Query gives a state").into()),
    }
    let found = archive.map(|archive| archive.find(msg_id)).transpose()?.flatten();
    let own = found.filter(|record| record.account == account && record.receipt_of == 0);
    Ok(own.and_then(|record| record.status()).ok_or(Refusal::NoSuchMessage))
}
