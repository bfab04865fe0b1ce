//! How a server that is there already is reached: what a URL and its parameters say, with the
//! meaning that they have for libpq.

use super::host::socket_directory;
pub use super::host::{Host, Place};
use super::password::Password;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The port where none is given.
pub const PORT: u16 = 5432;
/// How long a connection may take to be opened, where nothing else is said.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

/// Whether TLS is spoken, and what a server's certificate must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SslMode {
    /// Never.
    Disable,
    /// If the server speaks it.
    Prefer,
    /// Always, with whoever answers; with a file of CAs as `VerifyCa`.
    Require,
    /// Always, with a certificate of a CA that is trusted.
    VerifyCa,
    /// That, and the certificate is of the host that is meant.
    VerifyFull,
}

/// Whether a password's proof is bound to the TLS connection (SCRAM-SHA-256-PLUS).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChannelBinding {
    /// Never.
    Disable,
    /// Where both sides can.
    Prefer,
    /// Always.
    Require,
}

/// Ways to show who one is, that a server may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Methods {
    /// The password itself.
    pub password: bool,
    /// Its MD5 hash.
    pub md5: bool,
    /// A proof of it.
    pub scram: bool,
    /// Nothing: the server knows already, by a socket's user or a certificate, or trusts anybody.
    pub none: bool,
}

/// Which servers of several will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionAttributes {
    /// Any.
    Any,
    /// One that can be written to.
    ReadWrite,
}

/// How a server is reached.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The servers that are tried, in this order.
    pub hosts: Vec<Host>,
    /// The role.
    pub user: String,
    /// The database.
    pub database: String,
    /// Its password, from the URL.
    pub password: Option<Password>,
    /// The password file, if not the usual one.
    pub passfile: Option<PathBuf>,
    /// Whether TLS is spoken.
    pub sslmode: SslMode,
    /// The file of trusted CAs (PEM), or `system`.
    pub sslrootcert: Option<PathBuf>,
    /// The certificate that is shown to the server, and its key (PEM).
    pub sslcert: Option<(PathBuf, PathBuf)>,
    /// Whether proofs are bound to the connection.
    pub channel_binding: ChannelBinding,
    /// What the server may ask for; where nothing is said, all but MD5.
    pub methods: Option<Methods>,
    /// How long opening a connection may take, for each host.
    pub connect_timeout: Duration,
    /// What the server shows as the name of the client.
    pub application_name: Option<String>,
    /// Command-line options of the server's process.
    pub options: Option<String>,
    /// Which servers will do.
    pub target: SessionAttributes,
}

/// What is wrong with a URL, in words that have nothing of a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct UrlError(pub String);

fn wrong<T>(problem: impl Into<String>) -> Result<T, UrlError> {
    Err(UrlError(problem.into()))
}

/// Parameters of a URL that are known here.
const KNOWN: &str = "host, port, dbname, user, password, passfile, sslmode, sslrootcert, sslcert, sslkey, \
                     channel_binding, require_auth, connect_timeout, application_name, options, \
                     target_session_attrs";

/// Whether a text is meant as a URL of PostgreSQL.
#[must_use]
pub fn is_url(text: &str) -> bool {
    text.starts_with("postgresql://") || text.starts_with("postgres://")
}

/// Advice that does not repeat what was written, as that may be a password.
const ENCODE: &str =
    "in a user or password, each of @ : / ? # % [ ] is written as % and two digits (@ is %40)";

impl Settings {
    /// Reads a URL: `postgresql://[user[:password]@][host[:port][,…]][/database][?name=value[&…]]`.
    /// Parameters that are not known here are given back for whoever knows them.
    ///
    /// # Errors
    /// It is wrong.
    pub fn parse(url: &str) -> Result<(Settings, Vec<(String, String)>), UrlError> {
        let Some(rest) = url.strip_prefix("postgresql://").or_else(|| url.strip_prefix("postgres://")) else {
            return wrong("a URL of PostgreSQL begins with postgresql://");
        };
        if rest.contains('\0') {
            return wrong("a URL has no NUL");
        }
        let (rest, query) = rest.split_once('?').map_or((rest, ""), |(rest, query)| (rest, query));
        let (authority, database) = rest.split_once('/').unwrap_or((rest, ""));
        // Whatever stands before an @ may be of a password.
        if database.contains('@') || query_has_authority(query, authority) {
            return wrong(ENCODE);
        }
        let (user, hosts) = match authority.split_once('@') {
            Some((_, hosts)) if hosts.contains('@') => return wrong(ENCODE),
            Some((user, hosts)) => (user, hosts),
            None => ("", authority),
        };
        let (user, password) = user.split_once(':').map_or((user, None), |(user, word)| (user, Some(word)));
        let mut written = Written {
            user: decoded(user, "user")?,
            password: password.map(|password| decoded(password, "password")).transpose()?,
            database: decoded(database, "database")?,
            ..Written::default()
        };
        for host in hosts.split(',').filter(|_| !hosts.is_empty()) {
            let (name, port) = host_and_port(host)?;
            written.hosts.push(decoded(name, "host")?);
            written.ports.push(port.to_owned());
        }
        let mut others = Vec::new();
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let Some((name, value)) = pair.split_once('=') else {
                return wrong("a parameter of a URL is name=value");
            };
            let (name, value) = (decoded(name, "parameter")?, decoded(value, "parameter's value")?);
            match name.as_str() {
                "host" => written.hosts = value.split(',').map(str::to_owned).collect(),
                "port" => written.ports = value.split(',').map(str::to_owned).collect(),
                "dbname" => written.database = value,
                "user" => written.user = value,
                "password" => written.password = Some(value),
                // What JDBC writes.
                "ssl" if value == "true" => written.set("sslmode", "require".into()),
                _ if KNOWN.split(", ").any(|known| known == name.trim()) => written.set(&name, value),
                _ => others.push((name, value)),
            }
        }
        Ok((written.checked()?, others))
    }

    /// The parameters that [`Settings::parse`] knows, for messages.
    #[must_use]
    pub fn known() -> &'static str {
        KNOWN
    }
}

/// Whether a ? stood in a password: what comes before it is no host, and an @ comes later.
fn query_has_authority(query: &str, authority: &str) -> bool {
    query.split(['&', '=']).any(|part| part.contains('@') && part.contains('/')) && !authority.contains('@')
}

/// The shown form: who, where, which database; no password and no parameters.
impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hosts: Vec<String> = self
            .hosts
            .iter()
            .map(|host| match &host.place {
                Place::Socket(directory) => {
                    let directory = directory.display().to_string();
                    format!("{}:{}", directory.replace('%', "%25").replace('/', "%2F"), host.port)
                }
                Place::Name(_) => host.to_string(),
            })
            .collect();
        write!(f, "postgresql://{}@{}/{}", self.user, hosts.join(","), self.database)
    }
}

/// A URL's parts, not looked at.
#[derive(Default)]
struct Written {
    hosts: Vec<String>,
    ports: Vec<String>,
    user: String,
    password: Option<String>,
    database: String,
    parameters: Vec<(String, String)>,
}

impl Written {
    /// What comes last holds.
    fn set(&mut self, name: &str, value: String) {
        self.parameters.retain(|(other, _)| other != name);
        self.parameters.push((name.to_owned(), value));
    }

    fn take(&self, name: &str) -> Option<&str> {
        let pair = self.parameters.iter().find(|(other, _)| other == name)?;
        Some(pair.1.as_str()).filter(|value| !value.is_empty())
    }

    /// The word of a parameter that has few.
    fn word<T: Copy>(&self, name: &str, otherwise: T, words: &[(&str, T)]) -> Result<T, UrlError> {
        let Some(value) = self.take(name) else { return Ok(otherwise) };
        let found = words.iter().find(|word| word.0 == value).map(|word| word.1);
        found.ok_or_else(|| {
            let known: Vec<&str> = words.iter().map(|word| word.0).collect();
            UrlError(format!("{name}={value}: known are {}", known.join(", ")))
        })
    }

    fn hosts(&self) -> Result<Vec<Host>, UrlError> {
        let none = [String::new()];
        let hosts = if self.hosts.is_empty() { &none[..] } else { &self.hosts[..] };
        if self.ports.len() > 1 && self.ports.len() != hosts.len() {
            return wrong(format!("{} ports for {} hosts", self.ports.len(), hosts.len()));
        }
        let port_at = |at: usize| -> Result<u16, UrlError> {
            let text = self.ports.get(at).or(self.ports.first()).map_or("", String::as_str);
            match text.parse() {
                _ if text.is_empty() => Ok(PORT),
                Ok(port) if port > 0 => Ok(port),
                // It may be what follows a : in a password.
                _ => wrong(format!("the port of host {} is no number from 1 to 65535; {ENCODE}", at + 1)),
            }
        };
        let host = |(at, name): (usize, &String)| {
            let place = match name.as_str() {
                "" => Place::Socket(socket_directory()),
                // An @ is a name in the abstract namespace, which has no owner.
                name if name.starts_with('/') => Place::Socket(name.into()),
                name if name.contains('@') => return wrong(ENCODE),
                name => Place::Name(name.to_owned()),
            };
            Ok(Host { place, port: port_at(at)? })
        };
        hosts.iter().enumerate().map(host).collect()
    }

    fn methods(&self) -> Result<Option<Methods>, UrlError> {
        let Some(value) = self.take("require_auth") else { return Ok(None) };
        let all = |on| Methods { password: on, md5: on, scram: on, none: on };
        let negated = value.split(',').filter(|word| word.starts_with('!')).count();
        if negated != 0 && negated != value.split(',').count() {
            return wrong("require_auth: either each method has a ! or none");
        }
        let mut methods = all(negated != 0);
        for word in value.split(',') {
            let method = match word.trim_start_matches('!') {
                "password" => &mut methods.password,
                "md5" => &mut methods.md5,
                "scram-sha-256" => &mut methods.scram,
                "none" => &mut methods.none,
                _ => return wrong("require_auth: known are password, md5, scram-sha-256, none"),
            };
            *method = negated == 0;
        }
        Ok(Some(methods))
    }

    fn checked(self) -> Result<Settings, UrlError> {
        let hosts = self.hosts()?;
        let user = match self.user.is_empty() {
            false => self.user.clone(),
            true => os_user().ok_or_else(|| UrlError("the URL has no user".into()))?,
        };
        let timeout = match self.take("connect_timeout").map(str::parse::<u32>) {
            None => CONNECT_TIMEOUT,
            Some(Ok(0)) => Duration::from_secs(86_400),
            // As libpq does: less than two seconds is less than a name server takes.
            Some(Ok(seconds)) => Duration::from_secs(seconds.max(2).into()),
            Some(Err(_)) => return wrong("connect_timeout is a number of seconds"),
        };
        let path = |name| self.take(name).map(PathBuf::from);
        let sslmode = self.word(
            "sslmode",
            SslMode::Prefer,
            &[
                ("disable", SslMode::Disable),
                ("prefer", SslMode::Prefer),
                ("require", SslMode::Require),
                ("verify-ca", SslMode::VerifyCa),
                ("verify-full", SslMode::VerifyFull),
            ],
        )?;
        let sslrootcert = path("sslrootcert");
        if sslrootcert.as_deref() == Some(Path::new("system")) && sslmode != SslMode::VerifyFull {
            return wrong("sslrootcert=system wants sslmode=verify-full: anybody can have a certificate");
        }
        let sslcert = match (path("sslcert"), path("sslkey")) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => return wrong("give sslcert and sslkey, or neither"),
        };
        let channel_binding = self.word(
            "channel_binding",
            ChannelBinding::Prefer,
            &[
                ("disable", ChannelBinding::Disable),
                ("prefer", ChannelBinding::Prefer),
                ("require", ChannelBinding::Require),
            ],
        )?;
        if channel_binding == ChannelBinding::Require && sslmode == SslMode::Disable {
            return wrong("channel_binding=require wants TLS, and sslmode=disable has none");
        }
        let any = ("any", SessionAttributes::Any);
        let write = SessionAttributes::ReadWrite;
        let target = self.word(
            "target_session_attrs",
            SessionAttributes::Any,
            &[any, ("read-write", write), ("primary", write)],
        )?;
        Ok(Settings {
            hosts,
            database: if self.database.is_empty() { user.clone() } else { self.database.clone() },
            user,
            passfile: path("passfile"),
            sslmode,
            sslrootcert,
            sslcert,
            channel_binding,
            methods: self.methods()?,
            connect_timeout: timeout,
            application_name: self.take("application_name").map(str::to_owned),
            options: self.take("options").map(str::to_owned),
            target,
            password: self.password.map(Password::new),
        })
    }
}

/// The name of the user that runs this.
fn os_user() -> Option<String> {
    let own = rustix::process::geteuid().as_raw();
    let table = std::fs::read_to_string("/etc/passwd").ok()?;
    let of = |line: &str| {
        let mut fields = line.split(':');
        let (name, id) = (fields.next()?, fields.nth(1)?);
        (id.parse() == Ok(own)).then(|| name.to_owned())
    };
    table.lines().find_map(of)
}

/// Splits a host of a URL: a name, or a number of IPv6 in brackets; its port, if any.
fn host_and_port(host: &str) -> Result<(&str, &str), UrlError> {
    if let Some(rest) = host.strip_prefix('[') {
        let Some((number, rest)) = rest.split_once(']') else { return wrong("a [ of a host has no ]") };
        return match (rest, rest.strip_prefix(':')) {
            ("", _) => Ok((number, "")),
            (_, Some(port)) => Ok((number, port)),
            _ => wrong("after the ] of a host comes a : and its port, or nothing"),
        };
    }
    Ok(host.split_once(':').unwrap_or((host, "")))
}

/// What percent signs and digits mean; `what` it is of, as the text itself may be a password.
fn decoded(text: &str, what: &str) -> Result<String, UrlError> {
    let mut octets = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(octet) = rest.next() {
        if octet != b'%' {
            octets.push(octet);
            continue;
        }
        let mut digit = || rest.next().and_then(|digit| char::from(digit).to_digit(16));
        let (Some(high), Some(low)) = (digit(), digit()) else {
            return wrong(format!("{what}: a % is followed by two digits of base 16 (% itself is %25)"));
        };
        octets.push((high * 16 + low) as u8);
    }
    match String::from_utf8(octets) {
        Ok(text) if !text.contains('\0') => Ok(text),
        _ => wrong(format!("{what}: no text in UTF-8")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(url: &str) -> Settings {
        Settings::parse(url).unwrap_or_else(|error| panic!("{url}: {error}")).0
    }

    #[test]
    fn a_url_has_the_meaning_that_it_has_for_libpq() {
        let settings =
            parsed("postgresql://u%40x:p%3Aw@h:6000,[::1],k:7/d%20b?connect_timeout=1&sslmode=verify-full");
        assert_eq!((settings.user.as_str(), settings.database.as_str()), ("u@x", "d b"));
        assert_eq!(settings.password.as_ref().map(Password::secret), Some("p:w"));
        let hosts: Vec<String> = settings.hosts.iter().map(Host::to_string).collect();
        assert_eq!(hosts, ["h:6000", "[::1]:5432", "k:7"]);
        assert_eq!(
            (settings.connect_timeout, settings.sslmode),
            (Duration::from_secs(2), SslMode::VerifyFull)
        );
        assert_eq!(settings.to_string(), "postgresql://u@x@h:6000,[::1]:5432,k:7/d b");
        let settings = parsed("postgres://%2Frun%2Fpg:5433/d?user=v&target_session_attrs=read-write");
        assert_eq!(settings.hosts, [Host { place: Place::Socket("/run/pg".into()), port: 5433 }]);
        assert_eq!((settings.user.as_str(), settings.target), ("v", SessionAttributes::ReadWrite));
        let settings = parsed("postgresql://u@/?host=/run/a,b&port=1,2&dbname=x");
        assert_eq!(
            settings.hosts.iter().map(Host::to_string).collect::<Vec<_>>(),
            ["/run/a/.s.PGSQL.1", "b:2"]
        );
        let settings = parsed("postgresql://u@h");
        assert_eq!(
            (settings.database.as_str(), settings.hosts[0].port, settings.sslmode),
            ("u", 5432, SslMode::Prefer)
        );
        let (_, others) = Settings::parse("postgresql://u@h/?schema=a%26b&sslmode=disable").unwrap();
        assert_eq!(others, [("schema".to_owned(), "a&b".to_owned())]);
    }

    /// A password that was not encoded lands in host, port, database or parameters, and each was
    /// told with what stood there.
    #[test]
    fn no_mistake_shows_a_password() {
        for url in [
            "postgresql://u:se@cret@h/d",
            "postgresql://u:se/cret@h/d",
            "postgresql://u:se?cret@h/d",
            "postgresql://u:12/cret@h/d",
            "postgresql://u:12?cret@h/d",
            "postgresql://u:se%cret@h/d",
            "postgresql://u:cret%zz@h/d",
            "postgresql://u:cret%ff@h/d",
            "postgresql://u:[cret@h/d?sslmode=no",
            "postgresql://u:cret@h:x/d",
            "postgresql://u:cret@h/d?port=cret",
        ] {
            let error = Settings::parse(url).err().unwrap_or_else(|| panic!("{url}")).to_string();
            assert!(
                !error.contains("cret") && !error.contains("se"[..].repeat(2).as_str()),
                "{url}: {error}"
            );
        }
        let settings = parsed("postgresql://u:secret@h/d?password=secret");
        assert!(!format!("{settings:?} {settings}").contains("secret"));
    }

    #[test]
    fn what_is_wrong_is_told() {
        for (url, words) in [
            ("mysql://h", "begins with postgresql://"),
            ("postgresql://u@h:0/", "port of host 1"),
            ("postgresql://u@h:70000/", "port of host 1"),
            ("postgresql://u@a,b/?port=1,2,3", "3 ports for 2 hosts"),
            ("postgresql://u@[::1/", "has no ]"),
            ("postgresql://u@[::1]5/", "after the ]"),
            ("postgresql://u@h/?sslmode=allow", "known are disable, prefer"),
            ("postgresql://u@h/?sslmode", "name=value"),
            ("postgresql://u@h/?sslcert=a", "sslcert and sslkey"),
            ("postgresql://u@h/?connect_timeout=x", "number of seconds"),
            ("postgresql://u@h/?require_auth=md5,!none", "either each"),
            ("postgresql://u@h/?require_auth=gss", "known are password"),
            ("postgresql://u@h/?sslrootcert=system", "verify-full"),
            ("postgresql://u@h/?channel_binding=require&sslmode=disable", "wants TLS"),
        ] {
            let error = Settings::parse(url).err().unwrap_or_else(|| panic!("{url}")).to_string();
            assert!(error.contains(words), "{url}: {error}");
        }
        let methods = parsed("postgresql://u@h/?require_auth=!password").methods.unwrap();
        assert_eq!(methods, Methods { password: false, md5: true, scram: true, none: true });
    }

    mod any_text {
        use super::*;
        use proptest::prelude::*;

        proptest! {
            /// Whatever is written is read or refused.
            #[test]
            fn a_url_is_read_or_refused(text in "[a-z0-9%@:/?&=,\\[\\]._é-]{0,60}") {
                if let Ok((settings, _)) = Settings::parse(&format!("postgresql://{text}")) {
                    prop_assert!(!settings.hosts.is_empty() && !settings.user.is_empty());
                    let _ = settings.to_string();
                }
            }
        }
    }
}
