//! What goes wrong on a connection.

use super::host::Host;
use std::io;
use std::time::Duration;

/// A request that failed.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    /// The server refused it. What follows is thrown away by the server until the next
    /// synchronisation.
    #[error("{message} (SQLSTATE {sqlstate}){}", .hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default())]
    Refused {
        /// Five characters that name the kind of error.
        sqlstate: String,
        /// In the server's words.
        message: String,
        /// The server's detail and advice.
        hint: Option<String>,
    },
    /// The connection broke.
    #[error("the connection to the server broke: {0}")]
    Broken(#[from] io::Error),
    /// The server owes an answer, and its connection is open, but it says nothing: it was stopped,
    /// its machine was cut off, or somebody has locked what it wants.
    #[error("the server has not answered for {} s", .0.as_secs_f32())]
    Silent(Duration),
    /// The server said something that the protocol does not allow here.
    #[error("the server sent an unexpected message: {0}")]
    Unexpected(String),
    /// The request cannot be sent.
    #[error("the request cannot be sent: {0}")]
    Request(String),
    /// Nobody listens there, or it did not answer in time.
    #[error("cannot be reached: {0}")]
    NotConnected(io::Error),
    /// TLS is not to be had, or not as it was asked for.
    #[error("TLS: {0}")]
    Tls(String),
    /// Nobody is let in.
    #[error("login: {0}")]
    Login(String),
    /// It takes no changes, and one that does was asked for.
    #[error("it is a standby or read-only, and target_session_attrs=read-write")]
    ReadOnly,
    /// None of several hosts will do; in words.
    #[error("{0}")]
    Unreachable(String),
    /// The caller does not want it any more.
    #[error("given up")]
    GivenUp,
}

impl ConnectionError {
    /// Whether the server is there, and does not let this one in.
    pub(super) fn is_of_login(&self) -> bool {
        match self {
            ConnectionError::Login(_) => true,
            // Invalid authorization; invalid password.
            ConnectionError::Refused { sqlstate, .. } => sqlstate.starts_with("28"),
            _ => false,
        }
    }

    /// The same, with the host that it is about.
    pub(super) fn at(self, host: &Host) -> ConnectionError {
        match self {
            ConnectionError::NotConnected(error) => {
                ConnectionError::NotConnected(io::Error::new(error.kind(), format!("{host}: {error}")))
            }
            ConnectionError::Tls(problem) => ConnectionError::Tls(format!("{host}: {problem}")),
            ConnectionError::Login(problem) => ConnectionError::Login(format!("{host}: {problem}")),
            ConnectionError::Unexpected(problem) => ConnectionError::Unexpected(format!("{host}: {problem}")),
            other => other,
        }
    }
}
