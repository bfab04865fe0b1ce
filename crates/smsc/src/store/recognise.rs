//! Which store lies in a directory, told from its files, of which none is changed.

use super::{StoreError, StoreKind};
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

/// A file that every store of a family has, and how it begins.
const SIGNS: [(StoreKind, &str, &[u8]); 4] = [
    (StoreKind::Mmdb, "MANIFEST", b"MMDBMAN1"),
    (StoreKind::Sqlite, "smsc.db", b"SQLite format 3\0"),
    // A cluster's version is a number.
    (StoreKind::Postgresql, "postgresql/PG_VERSION", b""),
    // Ports are numbers, too.
    (StoreKind::RedisCluster, "redis-cluster/ports", b""),
];

impl StoreKind {
    /// The stores in `directory`, one kind for each family: forms of SQLite and of PostgreSQL have
    /// the same files. None if there is no store.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn found_in(directory: &Path) -> Result<Vec<StoreKind>, StoreError> {
        let mut found = Vec::new();
        for (kind, name, beginning) in SIGNS {
            let path = directory.join(name);
            match begins_with(&path, beginning) {
                Ok(true) => found.push(kind),
                Ok(false) => {}
                Err(error) => return Err(StoreError::io(&path)(error)),
            }
        }
        Ok(found)
    }

    /// Whether stores of both kinds have the same files.
    #[must_use]
    pub fn is_like(self, other: StoreKind) -> bool {
        self.family() == other.family()
    }

    /// The kind that stands for all with the same files.
    fn family(self) -> StoreKind {
        match self {
            StoreKind::Mmdb => StoreKind::Mmdb,
            StoreKind::Sqlite | StoreKind::SqliteNaive => StoreKind::Sqlite,
            StoreKind::Postgresql
            | StoreKind::PostgresqlGrouped
            | StoreKind::PostgresqlBatched
            | StoreKind::PostgresqlStatements => StoreKind::Postgresql,
            StoreKind::RedisCluster => StoreKind::RedisCluster,
        }
    }
}

fn begins_with(path: &Path, beginning: &[u8]) -> std::io::Result<bool> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            return Ok(false);
        }
        Err(error) => return Err(error),
    };
    let mut octets = vec![0; beginning.len()];
    match file.read_exact(&mut octets) {
        Ok(()) => Ok(octets == beginning),
        Err(error) if matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::IsADirectory) => Ok(false),
        Err(error) => Err(error),
    }
}
