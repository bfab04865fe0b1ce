//! The servers that are tried: where each listens.

use std::fmt;
use std::path::{Path, PathBuf};

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// The directory of its Unix socket.
    Socket(PathBuf),
    /// Name or number of its machine.
    Name(String),
}

/// One of the servers that are tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Where.
    pub place: Place,
    /// Its port, which a socket's name has, too.
    pub port: u16,
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Place::Socket(directory) => write!(f, "{}/.s.PGSQL.{}", directory.display(), self.port),
            Place::Name(name) if name.contains(':') => write!(f, "[{name}]:{}", self.port),
            Place::Name(name) => write!(f, "{name}:{}", self.port),
        }
    }
}

/// Where a server of this machine has its socket.
pub(super) fn socket_directory() -> PathBuf {
    let usual = Path::new("/var/run/postgresql");
    if usual.is_dir() { usual.into() } else { "/tmp".into() }
}
