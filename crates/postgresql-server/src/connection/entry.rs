//! The way to a server that is there already: which of its hosts, with TLS or without, as whom.

use super::conversation::{Answer, Connection};
use super::error::ConnectionError;
use super::greeting::{self, Credentials};
use super::host::{Host, Place};
use super::password::{self, Lookup};
use super::settings::{SessionAttributes, Settings, SslMode};
use super::socket::{Address, Socket};
use super::tls::Tls;
use postgres_protocol::message::frontend;
use std::sync::Arc;
use std::time::Instant;

/// Told of each socket before anything is waited for on it, so that whoever waits can be freed; an
/// error ends the attempt.
pub type OnSocket<'a> = &'a mut dyn FnMut(&Arc<Socket>) -> Result<(), ConnectionError>;

impl Settings {
    /// Logs in to the first host that will do, with these parameters of the session besides those
    /// of the URL.
    ///
    /// # Errors
    /// No host will do: why not, of each.
    pub fn connect(
        &self,
        parameters: &[(&str, &str)],
        on_socket: OnSocket<'_>,
    ) -> Result<Connection, ConnectionError> {
        let mut problems = Vec::new();
        for host in &self.hosts {
            match self.connect_to(host, parameters, on_socket) {
                Ok(mut connection) => {
                    connection.host = Some(host.to_string());
                    return Ok(connection);
                }
                Err(error @ (ConnectionError::GivenUp | ConnectionError::Request(_))) => return Err(error),
                // As libpq: one that is there and lets nobody in is the one that was meant.
                Err(error) if error.is_of_login() => {
                    problems.push((host, error));
                    break;
                }
                Err(error) => problems.push((host, error)),
            }
        }
        match self.hosts.len() {
            1 => Err(problems.pop().map_or(ConnectionError::GivenUp, |(host, error)| error.at(host))),
            _ => {
                let told: Vec<String> =
                    problems.iter().map(|(host, error)| format!("{host}: {error}")).collect();
                Err(ConnectionError::Unreachable(told.join("; ")))
            }
        }
    }

    fn connect_to(
        &self,
        host: &Host,
        parameters: &[(&str, &str)],
        on_socket: OnSocket<'_>,
    ) -> Result<Connection, ConnectionError> {
        let with_tls = self.sslmode != SslMode::Disable && matches!(host.place, Place::Name(_));
        let done = self.attempt(host, parameters, on_socket, with_tls);
        let mut connection = match done {
            // As libpq: who prefers TLS and cannot have it goes without.
            Err(ConnectionError::Tls(_)) if self.sslmode == SslMode::Prefer => {
                self.attempt(host, parameters, on_socket, false)?
            }
            done => done?,
        };
        if self.target == SessionAttributes::ReadWrite && !connection.is_writable()? {
            return Err(ConnectionError::ReadOnly);
        }
        Ok(connection)
    }

    /// Connects to one host once.
    fn attempt(
        &self,
        host: &Host,
        parameters: &[(&str, &str)],
        on_socket: OnSocket<'_>,
        with_tls: bool,
    ) -> Result<Connection, ConnectionError> {
        let deadline = Instant::now() + self.connect_timeout;
        let socket = match &host.place {
            Place::Socket(directory) => {
                Socket::connect(Address::Unix(&directory.join(format!(".s.PGSQL.{}", host.port))))
            }
            Place::Name(name) => Socket::connect_by(name, host.port, deadline),
        };
        let socket = Arc::new(socket.map_err(ConnectionError::NotConnected)?);
        on_socket(&socket)?;
        let mut connection = Connection::on(socket);
        connection.limit(Some(deadline));
        if with_tls {
            connection.ask_for_tls(host, self)?;
        }
        let mut startup = vec![("user", self.user.as_str()), ("database", self.database.as_str())];
        startup.extend(self.application_name.as_deref().map(|name| ("application_name", name)));
        startup.extend(self.options.as_deref().map(|options| ("options", options)));
        startup.extend(
            parameters
                .iter()
                .filter(|parameter| parameter.0 != "application_name" || self.application_name.is_none()),
        );
        connection.write(|out| frontend::startup_message(startup, out))?;
        let (password, note) = self.password_for(host);
        let credentials = Credentials {
            user: &self.user,
            password: password.as_ref().map(password::Password::secret),
            note,
            binding: self.channel_binding,
            methods: self.methods,
            // Nobody reads along on a socket of this machine.
            local: matches!(host.place, Place::Socket(_)),
        };
        greeting::authenticate(&mut connection, &credentials)?;
        connection.until_ready(&mut |_| Ok::<_, ConnectionError>(()))?;
        connection.limit(None);
        Ok(connection)
    }

    /// The password for a host: from the URL, the environment, or a file; and why there is none.
    fn password_for(&self, host: &Host) -> (Option<password::Password>, Option<String>) {
        if let Some(password) = &self.password {
            return (Some(password.clone()), None);
        }
        if let Ok(password) = std::env::var("PGPASSWORD")
            && !password.is_empty()
        {
            return (Some(password::Password::new(password)), None);
        }
        let Some(file) = self.passfile.clone().or_else(password::usual_file) else { return (None, None) };
        match password::look_up(&file, host, &self.database, &self.user) {
            Lookup::Password(password) => (Some(password), None),
            Lookup::Ignored(why) => (None, Some(why)),
            Lookup::Nothing => (None, None),
        }
    }
}

impl Connection {
    /// Logs in over a socket that was just opened, as `user` with `database`, and waits until the
    /// server is ready.
    ///
    /// # Errors
    /// The server refuses, or wants a password and `password` is none or wrong.
    pub fn open(
        socket: Arc<Socket>,
        user: &str,
        password: Option<&str>,
        database: &str,
        application: &str,
    ) -> Result<Connection, ConnectionError> {
        let mut connection = Connection::on(socket);
        let parameters = [("user", user), ("database", database), ("application_name", application)];
        connection.write(|out| frontend::startup_message(parameters, out))?;
        greeting::authenticate(&mut connection, &greeting::private(user, password))?;
        connection.until_ready(&mut |_| Ok::<_, ConnectionError>(()))?;
        connection.limit(None);
        Ok(connection)
    }

    /// Asks the server for TLS, and shakes hands.
    fn ask_for_tls(&mut self, host: &Host, settings: &Settings) -> Result<(), ConnectionError> {
        let tls = Tls::begin(host, settings)?;
        self.write(|out| {
            frontend::ssl_request(out);
            Ok(())
        })?;
        // One octet and no more: what comes behind it is TLS's, or of somebody between.
        let answer = self.one_octet()?;
        match answer {
            b'S' => {}
            b'N' if settings.sslmode == SslMode::Prefer => return Ok(()),
            b'N' => {
                let problem = "the server does not speak TLS (its setting `ssl`), and sslmode wants it";
                return Err(ConnectionError::Tls(problem.into()));
            }
            // In clear, from whoever: its words are not shown.
            _ => return Err(ConnectionError::Tls("it answers the request for TLS with an error".into())),
        }
        self.secure(tls)
    }

    /// Whether what is written here is kept: not on a server that follows another.
    fn is_writable(&mut self) -> Result<bool, ConnectionError> {
        let mut read_only = false;
        for setting in ["in_hot_standby", "default_transaction_read_only"] {
            let sql = format!("SELECT current_setting('{setting}', true)");
            let sql = if setting == "in_hot_standby" { "SELECT pg_is_in_recovery()" } else { &sql };
            self.script(sql)?;
            self.until_ready(&mut |answer| {
                if let Answer::Row(row) = answer {
                    read_only |= matches!(row.columns().next(), Some(Some(b"t" | b"on")));
                }
                Ok::<_, ConnectionError>(())
            })?;
        }
        Ok(!read_only)
    }
}
