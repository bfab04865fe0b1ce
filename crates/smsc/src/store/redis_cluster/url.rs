//! A store on a Redis Cluster, by its URL.

use std::fmt;

/// The prefix of all keys where none is named.
const PREFIX: &str = "smsc";
/// Octets of a prefix at most: every key has it.
const PREFIX_MAX: usize = 32;
/// Shards where no number is named.
const SHARDS: u16 = 256;
/// How long final messages are kept where nothing is said, s: a day.
const KEEP_S: u64 = 86_400;
/// Ten years, s.
const KEEP_MAX_S: u64 = 315_360_000;
/// The port where none is named.
const PORT: u16 = 6379;

/// A URL that is wrong. Its words have nothing of a password.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct RedisClusterUrlError(String);

/// How connections are protected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    /// Not at all.
    Plain,
    /// By TLS; the file of the CAs that sign certificates of nodes, or the system's.
    Tls(Option<String>),
}

/// Where a store is: nodes of a cluster through which it is entered, and what its keys begin with.
#[derive(Clone)]
pub struct RedisClusterUrl {
    /// Hosts and ports.
    pub(super) entries: Vec<(String, u16)>,
    pub(super) user: Option<String>,
    pub(super) password: Option<String>,
    pub(super) prefix: String,
    /// Shards of a store that is made.
    pub(super) shards: u16,
    /// Whether a number of shards was asked for.
    pub(super) says_shards: bool,
    pub(super) transport: Transport,
    /// Acknowledged by a master alone.
    pub(super) without_replicas: bool,
    /// How long final messages are kept, s; 0 for ever.
    pub(super) keep_s: u64,
    /// As it was written, to be compared.
    text: String,
}

impl RedisClusterUrl {
    /// Its scheme.
    pub const SCHEME: &'static str = "redis-cluster";

    /// Whether a text is meant as such a URL.
    #[must_use]
    pub fn is_meant(text: &str) -> bool {
        text.strip_prefix(Self::SCHEME).is_some_and(|rest| rest.starts_with("://"))
    }

    /// Reads `redis-cluster://[USER[:PASSWORD]@]HOST[:PORT][,HOST[:PORT]…]/[?NAME=VALUE&…]`. Names:
    /// `prefix`, `shards`, `tls` (`yes`, `no`), `tlsrootcert` (a file, `system`), `durability`
    /// (`one-node`, `process-crash`), `keep` (seconds that final messages are kept, 0 for ever).
    /// Without a password in it, that of `REDISCLI_AUTH` counts, as for redis-cli.
    ///
    /// # Errors
    /// It is wrong; the words have nothing of its password.
    pub fn parse(text: &str) -> Result<RedisClusterUrl, RedisClusterUrlError> {
        let wrong = |problem: String| RedisClusterUrlError(problem);
        let rest = text.strip_prefix("redis-cluster://").ok_or_else(|| {
            wrong("a Redis Cluster is named by redis-cluster://HOST:PORT,HOST:PORT/".into())
        })?;
        let (place, query) = rest.split_once('?').unwrap_or((rest, ""));
        let (credentials, place) = match place.rsplit_once('@') {
            Some((credentials, place)) => (Some(credentials), place),
            None => (None, place),
        };
        let (hosts, path) = place.split_once('/').unwrap_or((place, ""));
        if !path.is_empty() {
            return Err(wrong(
                "a Redis Cluster has no databases: nothing stands behind the /; prefix=NAME tells stores apart".into(),
            ));
        }
        let (mut user, mut password) = (None, None);
        if let Some(credentials) = credentials {
            let (name, secret) = credentials.split_once(':').unwrap_or((credentials, ""));
            user = Some(decoded(name)?).filter(|name| !name.is_empty());
            password = Some(decoded(secret)?).filter(|secret| !secret.is_empty());
        }
        password = password.or_else(|| std::env::var("REDISCLI_AUTH").ok().filter(|word| !word.is_empty()));
        let entries = hosts.split(',').map(entry).collect::<Result<Vec<_>, _>>()?;
        let is_local = entries.iter().all(|(host, _)| is_loopback(host));
        let mut url = RedisClusterUrl {
            entries,
            user,
            password,
            prefix: PREFIX.into(),
            shards: SHARDS,
            says_shards: false,
            transport: Transport::Plain,
            without_replicas: false,
            keep_s: KEEP_S,
            text: text.to_owned(),
        };
        let (mut tls, mut roots) = (None, None);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let value = decoded(value)?;
            match (name, value.as_str()) {
                ("prefix", name) if is_name(name) => url.prefix = value,
                ("prefix", _) => {
                    return Err(wrong(format!(
                        "prefix: 1 to {PREFIX_MAX} letters of ASCII, digits, _, - or ."
                    )));
                }
                ("shards", number) => {
                    // A message and its receipt share a shard because these divide the lanes of an
                    // account; 1 is for tests.
                    url.shards = match number {
                        "1" => 1,
                        "64" => 64,
                        "128" => 128,
                        "256" => 256,
                        _ => return Err(wrong("shards: known are 64, 128, 256".into())),
                    };
                    url.says_shards = true;
                }
                ("tls", "yes") => tls = Some(true),
                ("tls", "no") => tls = Some(false),
                ("tls", _) => return Err(wrong("tls: yes or no".into())),
                ("tlsrootcert", "") => return Err(wrong("tlsrootcert: a file, or system".into())),
                ("tlsrootcert", file) => roots = Some(file.to_owned()),
                ("durability", "one-node") => url.without_replicas = false,
                ("durability", "process-crash") => url.without_replicas = true,
                ("durability", _) => {
                    return Err(wrong("durability: known are one-node, process-crash".into()));
                }
                ("keep", number) => {
                    url.keep_s = match number.parse() {
                        Ok(seconds) if seconds <= KEEP_MAX_S => seconds,
                        _ => return Err(wrong(format!("keep: seconds, 0 (for ever) to {KEEP_MAX_S}"))),
                    }
                }
                _ => {
                    // What stands there may be of a password that was not encoded.
                    let name =
                        if is_name(name) { format!("{name:?}") } else { "of one of these names".into() };
                    return Err(wrong(format!(
                        "there is no parameter {name}; known are prefix, shards, tls, tlsrootcert, durability, keep"
                    )));
                }
            }
        }
        url.transport = match (tls, roots) {
            (Some(true), roots) => Transport::Tls(roots.filter(|file| file != "system")),
            (_, Some(_)) => return Err(wrong("tlsrootcert goes with tls=yes".into())),
            (Some(false), None) => Transport::Plain,
            (None, None) if is_local => Transport::Plain,
            (None, None) => {
                return Err(wrong(
                    "say tls=yes, or tls=no where others cannot listen: the nodes are not on this machine"
                        .into(),
                ));
            }
        };
        Ok(url)
    }

    /// The password that it has, which others must not see.
    #[must_use]
    pub fn secret(&self) -> Option<&str> {
        self.password.as_deref()
    }

    /// Whether that password is in the URL itself.
    #[must_use]
    pub fn has_secret_in_it(&self) -> bool {
        let place = self.text.split('?').next().unwrap_or_default();
        let credentials = place.rsplit_once('@').map(|parts| parts.0.trim_start_matches("redis-cluster://"));
        credentials.and_then(|words| words.split_once(':')).is_some_and(|(_, secret)| !secret.is_empty())
    }

    /// Whether a master alone acknowledges (`durability=process-crash`).
    #[must_use]
    pub fn takes_less(&self) -> bool {
        self.without_replicas
    }

    /// As it was written, with all that is secret in it.
    #[must_use]
    pub fn written(&self) -> &str {
        &self.text
    }
}

fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Host and port; an address of IPv6 stands in brackets.
fn entry(text: &str) -> Result<(String, u16), RedisClusterUrlError> {
    let wrong = || {
        RedisClusterUrlError("a node is HOST:PORT, several are parted by commas; what is special in a password is written as %XX".into())
    };
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or_else(wrong)?;
            (host, port.strip_prefix(':'))
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let is_host = |letter: char| letter.is_ascii_alphanumeric() || "-._:".contains(letter);
    if host.is_empty() || !host.chars().all(is_host) {
        return Err(wrong());
    }
    let port = match port {
        None => PORT,
        Some(port) => port.parse().ok().filter(|&port| port > 0).ok_or_else(wrong)?,
    };
    Ok((host.to_owned(), port))
}

/// Without `%XX`.
fn decoded(text: &str) -> Result<String, RedisClusterUrlError> {
    let wrong =
        || RedisClusterUrlError("a % is followed by two hexadecimal digits; a % itself is %25".into());
    let (mut octets, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let Some((&octet, after)) = rest.split_first() {
        if octet != b'%' {
            octets.push(octet);
            rest = after;
            continue;
        }
        // A sign is no digit, though it may stand before a number.
        let digits = after.get(..2).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let digits = digits.and_then(|digits| std::str::from_utf8(digits).ok()).ok_or_else(wrong)?;
        octets.push(u8::from_str_radix(digits, 16).map_err(|_| wrong())?);
        rest = &after[2..];
    }
    String::from_utf8(octets).map_err(|_| wrong())
}

fn is_name(name: &str) -> bool {
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "_-.".contains(letter);
    (1..=PREFIX_MAX).contains(&name.len()) && name.chars().all(is_letter)
}

/// Without its password.
impl fmt::Display for RedisClusterUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes = self.entries.iter().map(|(host, port)| match host.contains(':') {
            true => format!("[{host}]:{port}"),
            false => format!("{host}:{port}"),
        });
        let nodes = nodes.collect::<Vec<_>>().join(",");
        let user = self.user.as_ref().map_or(String::new(), |user| format!("{user}@"));
        write!(f, "redis-cluster://{user}{nodes}/?prefix={}", self.prefix)
    }
}

impl fmt::Debug for RedisClusterUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisClusterUrl({self})")
    }
}

impl PartialEq for RedisClusterUrl {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for RedisClusterUrl {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_nodes_and_a_prefix() {
        let url = RedisClusterUrl::parse(
            "redis-cluster://u:p%40s@a.example:7000,[::1]:7001/?prefix=sms_2&tls=yes&keep=0",
        );
        let url = url.unwrap();
        assert_eq!(url.entries, [("a.example".to_owned(), 7000), ("::1".to_owned(), 7001)]);
        assert_eq!((url.secret(), url.keep_s, url.shards), (Some("p@s"), 0, 256));
        let shown = "redis-cluster://u@a.example:7000,[::1]:7001/?prefix=sms_2";
        assert_eq!(format!("{url} {url:?}").matches(shown).count(), 2);
        for (text, words) in [
            ("redis-cluster://a:1/", "say tls=yes, or tls=no"),
            ("redis-cluster://localhost:1/3", "no databases"),
            ("redis-cluster://", "a node is HOST:PORT"),
            ("redis-cluster://localhost:0/", "a node is HOST:PORT"),
            ("redis-cluster://localhost:x/", "a node is HOST:PORT"),
            ("redis-cluster://localhost,/", "a node is HOST:PORT"),
            ("redis-cluster://u:p#w@x y/", "a node is HOST:PORT"),
            ("redis-cluster://u:p%4@localhost/", "two hexadecimal digits"),
            // It was read as one octet, and the node told that the password was wrong.
            ("redis-cluster://u:p%+1@localhost/", "two hexadecimal digits"),
            ("redis-cluster://u:%ff@localhost/", "two hexadecimal digits"),
            ("redis-cluster://localhost/?prefix=a{b", "letters of ASCII"),
            ("redis-cluster://localhost/?prefix=", "letters of ASCII"),
            ("redis-cluster://localhost/?shards=100", "64, 128, 256"),
            ("redis-cluster://localhost/?tls=maybe", "yes or no"),
            ("redis-cluster://localhost/?tlsrootcert=x", "goes with tls=yes"),
            ("redis-cluster://localhost/?durability=power-cut", "known are one-node"),
            ("redis-cluster://localhost/?keep=-1", "seconds, 0"),
            ("redis-cluster://localhost/?perfix=x", "no parameter \"perfix\""),
            ("redis-cluster://localhost/?p@ss=secret", "no parameter of one of these names"),
        ] {
            let error = RedisClusterUrl::parse(text).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains(words) && !error.contains("secret"), "{text}: {error}");
        }
    }
}
