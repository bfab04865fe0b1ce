//! Which tables a store leaves out of its log: selective logging, table by table.

use super::table::Table;
use super::tables::TABLES;
use std::fmt;
use std::str::FromStr;

/// Some of the tables that follow from others ([`Table::derivable`]), so that a restart can make
/// them again without a log.
///
/// Most follow from `message` alone. A timer follows from its station, so it is there again as it
/// was; a station follows from its messages and its timer, so it waits until the same time, but has
/// forgotten how often it failed in a row. Who logs neither stations nor timers tries at once after
/// a restart what waited for its retry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct UnloggedTables(u16);

/// A name that cannot be in the set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnloggedError {
    /// There is no such table that can be left out.
    #[error("{0:?} is no table that can be left out of the log: take all, or some of {known}", known = UnloggedTables::ALL)]
    Unknown(String),
    /// The table follows from no other.
    #[error(
        "{0} follows from no other table, so without its log a restart would lose it: take all, or some of {known}",
        known = UnloggedTables::ALL
    )]
    Needed(&'static str),
}

impl UnloggedTables {
    /// Every table is logged.
    pub const NONE: UnloggedTables = UnloggedTables(0);
    /// No table is logged that follows from others.
    pub const ALL: UnloggedTables = {
        let (mut set, mut at) = (0, 0);
        while at < TABLES.len() {
            if TABLES[at].derivable {
                set |= 1 << at;
            }
            at += 1;
        }
        UnloggedTables(set)
    };

    /// The tables of these names; `all` stands for all that can be.
    ///
    /// # Errors
    /// [`UnloggedError`]
    pub fn named<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<UnloggedTables, UnloggedError> {
        let mut set = UnloggedTables::NONE;
        for name in names {
            if name == "all" {
                set = UnloggedTables::ALL;
                continue;
            }
            let Some(table) = TABLES.into_iter().find(|table| table.name == name) else {
                return Err(UnloggedError::Unknown(name.to_owned()));
            };
            if !table.derivable {
                return Err(UnloggedError::Needed(table.name));
            }
            set.0 |= 1 << table.number;
        }
        Ok(set)
    }

    /// The derivable ones among these tables.
    pub(crate) fn of(tables: impl IntoIterator<Item = &'static Table>) -> UnloggedTables {
        let bits = tables.into_iter().fold(0, |bits, table| bits | 1 << table.number);
        UnloggedTables(bits & UnloggedTables::ALL.0)
    }

    /// Whether this table is left out of the log.
    #[must_use]
    pub const fn contains(self, table: &Table) -> bool {
        self.0 & (1 << table.number) != 0
    }

    /// Whether every table is logged.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The tables, in the order of the model.
    pub fn tables(self) -> impl Iterator<Item = &'static Table> {
        TABLES.into_iter().filter(move |table| self.contains(table))
    }

    /// Every such set, for tests.
    #[doc(hidden)]
    pub fn every() -> impl Iterator<Item = UnloggedTables> {
        (0..=UnloggedTables::ALL.0).filter(|set| set & !UnloggedTables::ALL.0 == 0).map(UnloggedTables)
    }
}

impl FromStr for UnloggedTables {
    type Err = UnloggedError;

    /// Names between commas.
    fn from_str(words: &str) -> Result<UnloggedTables, UnloggedError> {
        UnloggedTables::named(words.split(',').map(str::trim))
    }
}

impl fmt::Display for UnloggedTables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.tables().map(|table| table.name).collect();
        f.write_str(&names.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Message, Record, RetryTimer, Sent, Station};

    #[test]
    fn names_are_read_and_written() {
        let some: UnloggedTables = "sent, ms_state,sent".parse().unwrap();
        assert_eq!(some, UnloggedTables::of([Station::TABLE, Sent::TABLE]));
        assert_eq!(some.to_string(), "ms_state, sent");
        assert_eq!(some.to_string().parse(), Ok(some));
        assert_eq!("all".parse(), Ok(UnloggedTables::ALL));
        assert_eq!("sent,all".parse(), Ok(UnloggedTables::ALL));
        let all = "encoded_msg, to_delivery, scheduled_msg, ms_state, retry_timer, sent";
        assert_eq!(UnloggedTables::ALL.to_string(), all);
        assert!(some.contains(Sent::TABLE) && !some.contains(RetryTimer::TABLE));
        assert_eq!(UnloggedTables::named([]), Ok(UnloggedTables::NONE));
    }

    #[test]
    fn what_cannot_be_left_out_is_said() {
        let all = UnloggedTables::ALL;
        let said = |words: &str| words.parse::<UnloggedTables>().unwrap_err().to_string();
        assert_eq!(
            said("sent,send"),
            format!("\"send\" is no table that can be left out of the log: take all, or some of {all}")
        );
        assert!(said("sent,").starts_with("\"\" is no table"));
        for table in ["message", "id_block", "account"] {
            assert!(said(table).starts_with(&format!("{table} follows from no other table")));
        }
        assert_eq!(UnloggedTables::of([Message::TABLE]), UnloggedTables::NONE);
    }

    #[test]
    fn there_are_64_sets_all_different() {
        let every: std::collections::HashSet<UnloggedTables> = UnloggedTables::every().collect();
        assert_eq!(every.len(), 64);
        assert!(every.contains(&UnloggedTables::NONE) && every.contains(&UnloggedTables::ALL));
        assert!(every.iter().all(|set| UnloggedTables::of(set.tables()) == *set));
    }
}
