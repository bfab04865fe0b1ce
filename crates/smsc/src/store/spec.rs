//! Stores by name.

use super::postgresql::SESSIONS_MAX;
use super::{
    MmdbOptions, MmdbStore, PostgresqlForm, PostgresqlStore, PostgresqlUrl, RedisClusterStore,
    RedisClusterUrl, SqliteStore, Store, StoreError,
};
use crate::centre::Rules;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Sessions that a store is opened for where nothing else is said.
pub const SESSIONS: usize = 600;
/// Files that a process has open besides its sessions.
const FILES: usize = 64;

/// What opening a store does where there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// Makes it.
    OrCreate,
    /// Fails, and makes nothing.
    Existing,
}

/// Where a store is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In a directory.
    Directory(PathBuf),
    /// In a database of a server that is there already.
    Server(PostgresqlUrl),
    /// On a Redis Cluster that is there already.
    Cluster(RedisClusterUrl),
}

impl Place {
    /// The place that a word of the command line names.
    ///
    /// # Errors
    /// It is a URL, and wrong; the words have nothing of its password.
    pub fn parse(word: &OsStr) -> Result<Place, String> {
        let Some(text) = word.to_str() else { return Ok(Place::Directory(word.into())) };
        if text.is_empty() {
            // As a script writes whose variable is not set.
            return Err("it is empty; name a directory, or a URL".into());
        }
        let means_a_server = ["postgresql:", "postgres:", "host=", "dbname=", "user=", "service="];
        if !text.contains("://") && means_a_server.iter().any(|begin| text.starts_with(begin)) {
            // What follows may have a password.
            return Err("a server is named by postgresql://USER@HOST/DATABASE, and a directory of such a \
                        name by ./ in front"
                .into());
        }
        if !text.contains("://") {
            return Ok(Place::Directory(word.into()));
        }
        match text.split_once("://") {
            Some(("postgresql" | "postgres", _)) => {
                PostgresqlUrl::parse(text).map(Place::Server).map_err(|error| error.to_string())
            }
            Some((RedisClusterUrl::SCHEME, _)) => {
                RedisClusterUrl::parse(text).map(Place::Cluster).map_err(|error| error.to_string())
            }
            // What follows may have a password.
            Some((scheme, _)) => Err(format!(
                "there is no store behind {scheme}://; known are postgresql:// and redis-cluster://"
            )),
            None => Ok(Place::Directory(word.into())),
        }
    }
}

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
    /// PostgreSQL, those of a client that wait in one call for each sort of transaction.
    PostgresqlBatched,
    /// PostgreSQL, statement by statement.
    PostgresqlStatements,
    /// A Redis Cluster: of six nodes on this machine, or by its URL.
    RedisCluster,
}

impl StoreKind {
    /// All kinds of which one node has everything, so that numbers of messages rise one by one.
    pub const ALL: [StoreKind; 7] = [
        StoreKind::Mmdb,
        StoreKind::Sqlite,
        StoreKind::SqliteNaive,
        StoreKind::Postgresql,
        StoreKind::PostgresqlGrouped,
        StoreKind::PostgresqlBatched,
        StoreKind::PostgresqlStatements,
    ];

    /// All kinds that have a name: those, and the cluster.
    pub fn known() -> impl Iterator<Item = StoreKind> {
        StoreKind::ALL.into_iter().chain([StoreKind::RedisCluster])
    }

    /// Its name, as in `--store`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            StoreKind::Mmdb => "mmdb",
            StoreKind::Sqlite => "sqlite",
            StoreKind::SqliteNaive => "sqlite-naive",
            StoreKind::Postgresql => "postgresql",
            StoreKind::PostgresqlGrouped => "postgresql-grouped",
            StoreKind::PostgresqlBatched => "postgresql-batched",
            StoreKind::PostgresqlStatements => "postgresql-statements",
            StoreKind::RedisCluster => "redis-cluster",
        }
    }

    /// The kind of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<StoreKind> {
        StoreKind::known().find(|kind| kind.name() == name)
    }

    /// The rules of a centre on it, where nothing else is said.
    #[must_use]
    pub fn rules(self) -> Rules {
        Rules { has_flusher: self == StoreKind::Mmdb, ..Rules::default() }
    }

    /// Whether a server of its own writes the store's files.
    #[must_use]
    pub fn has_server(self) -> bool {
        self.is_like(StoreKind::Postgresql)
    }

    /// Whether the store can have so many sessions; before anything is made for them.
    ///
    /// # Errors
    /// [`StoreError::TooManySessions`]
    pub fn allows(self, sessions: usize) -> Result<(), StoreError> {
        // PostgreSQL is a server with a limited number of sessions.
        if !self.has_server() {
            return Ok(());
        }
        let refused = |most| {
            let for_each = "one session for each client, two for each sender";
            Err(StoreError::TooManySessions { store: self.name(), asked: sessions, most, for_each })
        };
        if sessions > SESSIONS_MAX {
            return refused(format!("its server is made for {SESSIONS_MAX} at most"));
        }
        match open_files_max() {
            Some(files) if sessions + FILES > files => {
                refused(format!("this process may have {files} files open (ulimit -n), a session is one"))
            }
            _ => Ok(()),
        }
    }

    /// Opens the store in `directory`, which is made if need be, for [`SESSIONS`] sessions. A
    /// server is started with it and stopped when it is dropped.
    ///
    /// # Errors
    /// The store's.
    pub fn open(
        self,
        directory: &Path,
        mmdb: &MmdbOptions,
        rules: Rules,
    ) -> Result<Box<dyn Store>, StoreError> {
        self.open_with(directory, mmdb, rules, SESSIONS, Opening::OrCreate)
    }

    /// As [`StoreKind::open`], for so many sessions, and with a choice whether to make it.
    ///
    /// # Errors
    /// The store's; [`StoreError::TooManySessions`]; [`StoreError::NoStore`].
    pub fn open_with(
        self,
        directory: &Path,
        mmdb: &MmdbOptions,
        rules: Rules,
        sessions: usize,
        opening: Opening,
    ) -> Result<Box<dyn Store>, StoreError> {
        self.allows(sessions)?;
        if opening == Opening::Existing
            && !StoreKind::found_in(directory)?.iter().any(|kind| kind.is_like(self))
        {
            let what = "there is no store of this kind";
            return Err(StoreError::NoStore { path: directory.display().to_string(), what });
        }
        let rules = Rules { has_flusher: self == StoreKind::Mmdb, ..rules };
        std::fs::create_dir_all(directory).map_err(StoreError::io(directory))?;
        let postgresql = |form| {
            Ok(Box::new(PostgresqlStore::open(directory, form, rules, sessions, opening)?) as Box<dyn Store>)
        };
        match self {
            StoreKind::Mmdb => Ok(Box::new(MmdbStore::open_as(directory, mmdb, rules, opening)?)),
            StoreKind::Sqlite => Ok(Box::new(SqliteStore::open_as(directory, true, rules, opening)?)),
            StoreKind::SqliteNaive => Ok(Box::new(SqliteStore::open_as(directory, false, rules, opening)?)),
            StoreKind::Postgresql => postgresql(PostgresqlForm::Calls),
            StoreKind::PostgresqlGrouped => postgresql(PostgresqlForm::Grouped),
            StoreKind::PostgresqlBatched => postgresql(PostgresqlForm::Batched),
            StoreKind::PostgresqlStatements => postgresql(PostgresqlForm::Statements),
            StoreKind::RedisCluster => Ok(Box::new(RedisClusterStore::open(directory, rules, opening)?)),
        }
    }
}

/// Files that this process may have open: getrlimit(2), as proc_pid_limits(5) tells it.
fn open_files_max() -> Option<usize> {
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    // "unlimited" is no number, and no limit.
    line.split_whitespace().next()?.parse().ok()
}
