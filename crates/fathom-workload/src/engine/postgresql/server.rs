//! The private server, with its conversations and errors as an engine has them.

use std::path::{Path, PathBuf};

use postgresql_server::{ServerError, USER};

use super::wire::{Wire, failed};
use crate::engine::{DISK_FULL, EngineError, MACHINE};

/// A running server. Dropping it stops it.
pub(super) struct Server(postgresql_server::Server);

impl Server {
    /// Makes a cluster in `directory` and starts its server with `options` (each `name=value`).
    ///
    /// # Errors
    /// PostgreSQL is not installed; the directory's file system cannot hold a cluster; the server
    /// refuses an option.
    pub fn start(
        programs: Option<&str>,
        directory: &Path,
        checksums: Option<bool>,
        options: Vec<String>,
    ) -> Result<Self, EngineError> {
        let answers =
            |socket: &Path| Wire::open(socket, USER, "postgres").map(drop).map_err(|error| error.to_string());
        Ok(Server(postgresql_server::Server::start(programs, directory, checksums, options, answers)?))
    }

    /// Starts the server on the cluster and waits until it answers.
    pub fn run(&mut self) -> Result<(), EngineError> {
        Ok(self.0.run()?)
    }

    /// A new connection to a database of the cluster.
    pub fn connect(&self, database: &str) -> Result<Wire, EngineError> {
        let opened = self.0.with_socket(|socket| Wire::open(socket, USER, database))?;
        opened.map_err(|error| {
            let subject = format!("database {database} of the server in {}", self.data().display());
            failed(subject, &error)
        })
    }

    /// Where the cluster is.
    pub fn data(&self) -> &Path {
        self.0.data()
    }

    /// Stops the server in order.
    pub fn stop(&mut self) {
        self.0.stop();
    }
}

impl From<ServerError> for EngineError {
    fn from(error: ServerError) -> Self {
        let code = match (error.is_full_disk, error.is_of_the_machine) {
            (_, true) => MACHINE,
            (true, false) => DISK_FULL,
            (false, false) => 0,
        };
        EngineError { subject: error.subject, message: error.message, code }
    }
}

/// The directory that has `initdb` and `postgres`: the one given, or on the PATH, or the newest at
/// a usual place.
///
/// # Errors
/// There is none; the message says how to install it.
pub fn find_programs(given: Option<&str>) -> Result<PathBuf, EngineError> {
    Ok(postgresql_server::find_programs(given)?)
}
