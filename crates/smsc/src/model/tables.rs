//! The list of tables.

use super::table::{Record, Table};

/// All tables.
pub static TABLES: [&Table; 10] = [
    super::Message::TABLE,
    super::EncodedPart::TABLE,
    super::Queued::TABLE,
    super::Scheduled::TABLE,
    super::Station::TABLE,
    super::RetryTimer::TABLE,
    super::Sent::TABLE,
    super::IdBlock::TABLE,
    super::Account::TABLE,
    super::Forwarded::TABLE,
];

/// Tables that every store has, from the first on. A store that was made by an earlier version
/// lacks the others, and gets them when it is opened.
pub(crate) const FIRST_TABLES: usize = 9;

// The numbers of the tables are their places in the list.
const _: () = {
    let mut at = 0;
    while at < TABLES.len() {
        assert!(TABLES[at].number == at);
        at += 1;
    }
};
