//! Finding messages: in the store, then in the archive.

use super::front::Front;
use crate::centre::{ArchivedMessage, Operation, Outcome};
use crate::model::{Message, StationKey};
use crate::smpp::Status;
use crate::store::Acknowledge;

/// A message where it was found.
pub(super) enum FoundMessage {
    /// In the store, with its body.
    Live(Box<Message>),
    /// In the archive.
    Archived(Box<ArchivedMessage>),
}

/// Octets of the archive that a search by address reads, from its end.
const SEARCH_OCTETS: u64 = 128 << 20;

async fn run(front: &Front, operation: Operation) -> Result<Outcome, Status> {
    front.store.start(operation, Acknowledge::Early).await.map_err(|error| {
        front.fail(error);
        Status::SystemError
    })
}

/// The message of this number.
pub(super) async fn message(front: &Front, msg_id: i64) -> Result<Option<FoundMessage>, Status> {
    let Outcome::Message(live) = run(front, Operation::Show(msg_id)).await? else {
        return Err(Status::SystemError);
    };
    if let Some(live) = live {
        return Ok(Some(FoundMessage::Live(live)));
    }
    let Some(archive) = &front.archive else { return Ok(None) };
    // The file is read in this thread, whose other tasks go elsewhere meanwhile.
    let found = tokio::task::block_in_place(|| archive.find(msg_id).map_err(|_| Status::SystemError))?;
    Ok(found.map(|record| FoundMessage::Archived(Box::new(record))))
}

/// Messages to a number: those that wait, then the latest of the archive; `max` at most.
pub(super) async fn to_number(front: &Front, number: &str, max: usize) -> Result<Vec<FoundMessage>, Status> {
    let digits = number.trim_start_matches('+');
    let station = StationKey::of_address(digits).map_err(|_| Status::DestinationAddress)?;
    let Outcome::Waiting(waiting) = run(front, Operation::Waiting { station, max }).await? else {
        return Err(Status::SystemError);
    };
    let mut found: Vec<FoundMessage> =
        waiting.into_iter().map(|message| FoundMessage::Live(Box::new(message))).collect();
    if let (Some(archive), true) = (&front.archive, found.len() < max) {
        let left = max - found.len();
        // Beside whoever else reads it: this may take a second.
        let archived = tokio::task::block_in_place(|| {
            archive.find_to(digits, left, SEARCH_OCTETS).map_err(|_| Status::SystemError)
        })?;
        found.extend(archived.into_iter().map(|record| FoundMessage::Archived(Box::new(record))));
    }
    Ok(found)
}
