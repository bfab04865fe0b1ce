//! Stores by name.

use super::{MmdbOptions, MmdbStore, PostgresqlForm, PostgresqlStore, SqliteStore, Store, StoreError};
use crate::centre::Rules;
use std::path::Path;

/// A kind of store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StoreKind {
    /// mmdb in the process.
    Mmdb,
    /// SQLite behind one writer with group commit.
    Sqlite,
    /// SQLite, one commit for each operation.
    SqliteNaive,
    /// PostgreSQL, one call of a function for each operation.
    Postgresql,
    /// PostgreSQL, calls in groups: one commit for those of a client that wait.
    PostgresqlGrouped,
    /// PostgreSQL, statement by statement.
    PostgresqlStatements,
}

impl StoreKind {
    /// All kinds.
    pub const ALL: [StoreKind; 6] = [
        StoreKind::Mmdb,
        StoreKind::Sqlite,
        StoreKind::SqliteNaive,
        StoreKind::Postgresql,
        StoreKind::PostgresqlGrouped,
        StoreKind::PostgresqlStatements,
    ];

    /// Its name, as in `--store`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            StoreKind::Mmdb => "mmdb",
            StoreKind::Sqlite => "sqlite",
            StoreKind::SqliteNaive => "sqlite-naive",
            StoreKind::Postgresql => "postgresql",
            StoreKind::PostgresqlGrouped => "postgresql-grouped",
            StoreKind::PostgresqlStatements => "postgresql-statements",
        }
    }

    /// The kind of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<StoreKind> {
        StoreKind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The rules of a centre on it, where nothing else is said.
    #[must_use]
    pub fn rules(self) -> Rules {
        Rules { has_flusher: self == StoreKind::Mmdb, ..Rules::default() }
    }

    /// Opens the store in `directory`, which is made if need be. A server is started with it and stopped when it is dropped.
    ///
    /// # Errors
    /// The store's.
    pub fn open(
        self,
        directory: &Path,
        mmdb: &MmdbOptions,
        rules: Rules,
    ) -> Result<Box<dyn Store>, StoreError> {
        let rules = Rules { has_flusher: self == StoreKind::Mmdb, ..rules };
        std::fs::create_dir_all(directory).map_err(StoreError::io(directory))?;
        let postgresql =
            |form| Ok(Box::new(PostgresqlStore::open(directory, form, rules)?) as Box<dyn Store>);
        match self {
            StoreKind::Mmdb => Ok(Box::new(MmdbStore::open(directory, mmdb, rules)?)),
            StoreKind::Sqlite => Ok(Box::new(SqliteStore::open(directory, true, rules)?)),
            StoreKind::SqliteNaive => Ok(Box::new(SqliteStore::open(directory, false, rules)?)),
            StoreKind::Postgresql => postgresql(PostgresqlForm::Calls),
            StoreKind::PostgresqlGrouped => postgresql(PostgresqlForm::Grouped),
            StoreKind::PostgresqlStatements => postgresql(PostgresqlForm::Statements),
        }
    }
}
