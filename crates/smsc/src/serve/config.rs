//! The server's configuration: a file of TOML, every mistake of which is told with its line.

use super::outbind::OutbindConfig;
use super::password::is_hash;
use super::peer::{PeerConfig, WrittenPeer};
use super::route::{Routes, WrittenRoute};
use super::sections::{
    AdminConfig, ApiConfig, ArchiveConfig, LogConfig, WrittenAdmin, WrittenApi, WrittenArchive, WrittenLog,
    checked_tokens,
};
use super::store::WrittenStore;
use super::tls::{TlsConfig, WrittenTls};
use super::{peer, route};
use crate::model::ESME_LANES;
use crate::store::Place;
use serde::Deserialize;
use std::collections::HashMap;
use std::fmt;
use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;
use toml::Spanned;

/// What is wrong with a configuration, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError {
    /// The file.
    pub file: String,
    /// Line, from 1; 0 if the file cannot be read.
    pub line: usize,
    /// What is wrong, and what would be right.
    pub problem: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.file, fathom_diagnostic::abridged(&self.problem)),
            line => write!(f, "{}:{line}: {}", self.file, fathom_diagnostic::abridged(&self.problem)),
        }
    }
}

/// How long things may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timers {
    /// From a connection to its bind.
    pub session_init: Duration,
    /// Silence before the centre asks whether anybody is there.
    pub enquire_link: Duration,
    /// Silence before a session is ended.
    pub inactivity: Duration,
    /// Until a deliver_sm is answered; then it is sent again.
    pub response: Duration,
}

/// An application that may bind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccountConfig {
    /// Its number, which the store's messages carry: never to be changed.
    pub number: u32,
    /// system_id.
    pub system_id: String,
    /// Argon2 hash of its password, as `smsc password` makes it.
    pub password: String,
    /// Sessions at a time.
    pub sessions: u32,
    /// Messages under way in a session, each way.
    pub window: u32,
    /// Messages in a second; 0 for no limit.
    pub rate: u32,
    /// Numbers whose messages go to this application.
    pub numbers: Vec<String>,
    /// Receipts and messages that may wait for it.
    pub receipts: u32,
    /// Hashes of its tokens for the HTTP API, as `smsc token` makes them.
    pub tokens: Vec<String>,
    /// Where it takes calls, if it does.
    pub outbind: Option<OutbindConfig>,
}

/// The whole configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Where SMPP is spoken.
    pub listen: SocketAddr,
    /// Where metrics are.
    pub http: Option<SocketAddr>,
    /// The centre's name in the answers to binds.
    pub system_id: String,
    /// Sessions bound at a time.
    pub connections: usize,
    /// Connections at a time that are not bound.
    pub unbound: usize,
    /// How long a message without a validity period is valid.
    pub validity: Duration,
    /// Messages that may be queued for one station.
    pub queue: u32,
    /// Timers.
    pub timers: Timers,
    /// Where the store is, if the command line says nothing.
    pub store: Option<Place>,
    /// Applications.
    pub accounts: Vec<AccountConfig>,
    /// The HTTP API.
    pub api: Option<ApiConfig>,
    /// The admin page.
    pub admin: Option<AdminConfig>,
    /// What is logged, and how.
    pub log: LogConfig,
    /// Files of the archive.
    pub archive: ArchiveConfig,
    /// TLS of the listener.
    pub tls: Option<TlsConfig>,
    /// Centres to which this one binds.
    pub peers: Vec<PeerConfig>,
    /// Which way messages go.
    pub routes: Routes,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    listen: Option<Spanned<String>>,
    http: Option<Spanned<String>>,
    system_id: Option<Spanned<String>>,
    connections: Option<Spanned<u32>>,
    unbound: Option<Spanned<u32>>,
    validity_s: Option<Spanned<u32>>,
    queue: Option<Spanned<u32>>,
    store: Option<Spanned<WrittenStore>>,
    #[serde(default)]
    timers: WrittenTimers,
    #[serde(default)]
    account: Vec<Spanned<WrittenAccount>>,
    api: Option<WrittenApi>,
    admin: Option<Spanned<WrittenAdmin>>,
    log: Option<WrittenLog>,
    archive: Option<WrittenArchive>,
    tls: Option<WrittenTls>,
    #[serde(default)]
    peer: Vec<Spanned<WrittenPeer>>,
    #[serde(default)]
    route: Vec<Spanned<WrittenRoute>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenTimers {
    session_init_s: Option<Spanned<f64>>,
    enquire_link_s: Option<Spanned<f64>>,
    inactivity_s: Option<Spanned<f64>>,
    response_s: Option<Spanned<f64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenAccount {
    number: Spanned<u32>,
    system_id: Spanned<String>,
    password: Spanned<String>,
    sessions: Option<Spanned<u32>>,
    window: Option<Spanned<u32>>,
    rate: Option<Spanned<u32>>,
    #[serde(default)]
    numbers: Vec<Spanned<String>>,
    receipts: Option<Spanned<u32>>,
    #[serde(default)]
    tokens: Vec<Spanned<String>>,
    outbind: Option<Spanned<String>>,
    outbind_password: Option<Spanned<String>>,
}

/// A place in the text, and what is wrong there.
pub(super) type Problem = (Range<usize>, String);

/// Octets of a configuration, a certificate or a password file at most.
const FILE_OCTETS_MAX: u64 = 64 << 20;
/// Numbers of accounts: a store keeps them, times the lanes of each.
const NUMBER_MAX: u32 = 0x7fff_ffff;
/// The longest timer: claims hold a minute, within which a delivery must have ended.
const RESPONSE_MAX_S: f64 = 45.0;

impl Config {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, or is wrong.
    pub fn read(path: &Path) -> Result<Config, ConfigError> {
        let file = path.display().to_string();
        let text = read_file(path).map_err(|error| ConfigError {
            file: file.clone(),
            line: 0,
            problem: error.to_string(),
        })?;
        Config::parse(&file, &text)
    }

    /// Reads the text of the file `file`.
    ///
    /// # Errors
    /// It is wrong.
    pub fn parse(file: &str, text: &str) -> Result<Config, ConfigError> {
        let told = |(span, problem): Problem| {
            let line = text[..span.start.min(text.len())].matches('\n').count() + 1;
            ConfigError { file: file.to_owned(), line, problem }
        };
        let written: Written = toml::from_str(text)
            .map_err(|error| told((error.span().unwrap_or(0..0), error.message().replace('\n', "; "))))?;
        written.checked().map_err(told)
    }
}

/// Reads a text that a running centre reads again at SIGHUP: a pipe or a device might never end,
/// and the whole centre would wait for it.
pub(super) fn read_file(path: &Path) -> std::io::Result<String> {
    let octets = read_octets(path)?;
    String::from_utf8(octets).map_err(|_| std::io::Error::other("it is no text in UTF-8"))
}

/// As [`read_file`], of what need not be text.
pub(super) fn read_octets(path: &Path) -> std::io::Result<Vec<u8>> {
    // Nobody is waited for at the other end of a pipe, and what is looked at is what was opened:
    // the name may lead elsewhere by then.
    let file = std::fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(std::io::Error::other("it is no regular file"));
    }
    let mut octets = Vec::new();
    file.take(FILE_OCTETS_MAX + 1).read_to_end(&mut octets)?;
    if octets.len() as u64 > FILE_OCTETS_MAX {
        let problem = format!("it has more than {} MiB", FILE_OCTETS_MAX >> 20);
        return Err(std::io::Error::other(problem));
    }
    Ok(octets)
}

/// A number within limits, or what holds if none is written.
pub(super) fn within<N: PartialOrd + Copy + fmt::Display>(
    written: Option<&Spanned<N>>,
    otherwise: N,
    limits: std::ops::RangeInclusive<N>,
) -> Result<N, Problem> {
    let Some(written) = written else { return Ok(otherwise) };
    let value = *written.get_ref();
    if limits.contains(&value) {
        return Ok(value);
    }
    let (from, to) = limits.into_inner();
    Err((written.span(), format!("{value} is out of range: from {from} to {to}")))
}

pub(super) fn address(written: Option<&Spanned<String>>) -> Result<Option<SocketAddr>, Problem> {
    let Some(written) = written else { return Ok(None) };
    let text = written.get_ref();
    let wrong = |_| (written.span(), format!("{text:?} is no address: give one such as 127.0.0.1:2775"));
    text.parse().map(Some).map_err(wrong)
}

/// A name that fits SMPP's system_id.
pub(super) fn system_id(written: &Spanned<String>) -> Result<String, Problem> {
    let text = written.get_ref();
    if (1..=15).contains(&text.len()) && text.bytes().all(|octet| octet.is_ascii_graphic()) {
        return Ok(text.clone());
    }
    Err((written.span(), format!("{text:?}: a system_id has 1 to 15 letters, digits or signs of ASCII")))
}

impl Written {
    fn checked(self) -> Result<Config, Problem> {
        let seconds = |written: &Option<Spanned<f64>>, otherwise, most| {
            within(written.as_ref(), otherwise, 0.1..=most).map(Duration::from_secs_f64)
        };
        let inactivity = seconds(&self.timers.inactivity_s, 300.0, 86_400.0)?;
        // Who is silent is asked before its session ends.
        let enquire_link = match &self.timers.enquire_link_s {
            None => Duration::from_secs(60).min(inactivity / 2),
            written => seconds(written, 60.0, 86_400.0)?,
        };
        if let Some(written) = self.timers.enquire_link_s.as_ref().filter(|_| enquire_link >= inactivity) {
            let (asked, ended) = (enquire_link.as_secs_f64(), inactivity.as_secs_f64());
            let problem = format!(
                "enquire_link_s = {asked}: with inactivity_s = {ended} sessions would be ended before anybody \
                 is asked; give less than that"
            );
            return Err((written.span(), problem));
        }
        let timers = Timers {
            session_init: seconds(&self.timers.session_init_s, 30.0, 3600.0)?,
            enquire_link,
            inactivity,
            response: seconds(&self.timers.response_s, 10.0, RESPONSE_MAX_S)?,
        };
        let mut accounts: Vec<AccountConfig> = Vec::new();
        let mut numbers: HashMap<String, String> = HashMap::new();
        for written in &self.account {
            let account = written.get_ref().checked()?;
            let twice = |what: &str, span| Err((span, format!("{what} belongs to another account already")));
            if accounts.iter().any(|other| other.number == account.number) {
                return twice(&format!("number {}", account.number), written.get_ref().number.span());
            }
            if accounts.iter().any(|other| other.system_id == account.system_id) {
                return twice(
                    &format!("system_id {:?}", account.system_id),
                    written.get_ref().system_id.span(),
                );
            }
            for number in &written.get_ref().numbers {
                if numbers.insert(number.get_ref().clone(), account.system_id.clone()).is_some() {
                    return twice(&format!("the number {}", number.get_ref()), number.span());
                }
            }
            for token in &written.get_ref().tokens {
                if accounts.iter().any(|other| other.tokens.contains(token.get_ref())) {
                    return twice("this token", token.span());
                }
            }
            accounts.push(account);
        }
        if accounts.is_empty() {
            return Err((0..0, "there is no [[account]]: nobody could bind".into()));
        }
        let otherwise = SocketAddr::from(([127, 0, 0, 1], 2775));
        let name = self.system_id.as_ref().map(system_id).transpose()?;
        let peers = peer::checked(&self.peer)?;
        let peer_named = |name: &str| {
            let named = peers.iter().find(|peer| peer.name == name);
            named.map(|peer| (peer.number, peer.binds.iter().any(|kind| kind.submits())))
        };
        let account_named =
            |name: &str| accounts.iter().find(|account| account.system_id == name).map(|other| other.number);
        let routes = route::checked(&self.route, peer_named, account_named)?;
        let config = Config {
            listen: address(self.listen.as_ref())?.unwrap_or(otherwise),
            http: address(self.http.as_ref())?,
            system_id: name.unwrap_or_else(|| "smsc".into()),
            connections: within(self.connections.as_ref(), 10_000, 1..=1_000_000)? as usize,
            unbound: within(self.unbound.as_ref(), 1000, 1..=1_000_000)? as usize,
            validity: Duration::from_secs(within(self.validity_s.as_ref(), 86_400, 1..=315_360_000)?.into()),
            queue: within(self.queue.as_ref(), 10_000, 1..=10_000_000)?,
            timers,
            store: self.store.map(WrittenStore::checked).transpose()?,
            tls: self.tls.as_ref().map(WrittenTls::checked).transpose()?,
            accounts,
            api: self.api.map(WrittenApi::checked).transpose()?,
            admin: self.admin.map(|admin| WrittenAdmin::checked(&admin)).transpose()?,
            log: self.log.map(WrittenLog::checked).transpose()?.unwrap_or_default(),
            archive: self.archive.map(WrittenArchive::checked).transpose()?.unwrap_or_default(),
            peers,
            routes,
        };
        config.without_clashes(&self.peer)
    }
}

impl Config {
    /// What is listened at, by the name in the file.
    fn written_listeners(&self) -> [(&'static str, Option<SocketAddr>); 5] {
        [
            ("listen", Some(self.listen)),
            ("http", self.http),
            ("[api] listen", self.api.as_ref().map(|api| api.listen)),
            ("[admin] listen", self.admin.as_ref().map(|admin| admin.listen)),
            ("[tls] listen", self.tls.as_ref().map(|tls| tls.listen)),
        ]
    }

    /// Addresses with a port of their own that are listened at, by the name in the file.
    pub fn listeners(&self) -> impl Iterator<Item = (&'static str, SocketAddr)> {
        let written = self.written_listeners().into_iter();
        written.filter_map(|(name, at)| Some((name, at.filter(|address| address.port() > 0)?)))
    }

    /// Refuses what would only be seen when the centre starts, or never: two listeners at one
    /// address, and a peer that is this centre, to which a message would go round and round.
    fn without_clashes(self, peers: &[Spanned<WrittenPeer>]) -> Result<Config, Problem> {
        let listeners = self.written_listeners();
        let listeners = listeners.map(|(name, address)| (name, address.filter(|address| address.port() > 0)));
        for (at, (name, address)) in listeners.iter().enumerate() {
            let same = listeners[..at].iter().find(|other| address.is_some() && other.1 == *address);
            if let (Some((other, _)), Some(address)) = (same, address) {
                return Err((0..0, format!("{other} and {name} are the same address, {address}")));
            }
        }
        for (peer, written) in self.peers.iter().zip(peers) {
            let mut listeners = [Some(self.listen), self.tls.as_ref().map(|tls| tls.listen)].into_iter();
            if listeners.any(|listener| listener.is_some_and(|listener| is_at(&peer.address, listener))) {
                let problem =
                    format!("the peer {} is this centre: it listens at {}", peer.name, peer.address);
                return Err((written.span(), problem));
            }
        }
        Ok(self)
    }
}

/// Whether who connects to this host and port comes to a listener of this machine.
fn is_at(address: &str, listener: SocketAddr) -> bool {
    let Some((host, port)) = address.rsplit_once(':') else { return false };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let host = if host.eq_ignore_ascii_case("localhost") { "127.0.0.1" } else { host };
    let Ok(host) = host.parse::<IpAddr>() else { return false };
    let reaches = || {
        // An address that can be taken is one of this machine's.
        listener.ip().is_unspecified() && std::net::UdpSocket::bind((host, 0)).is_ok()
    };
    listener.port() > 0 && port.parse() == Ok(listener.port()) && (host == listener.ip() || reaches())
}

impl WrittenAccount {
    fn checked(&self) -> Result<AccountConfig, Problem> {
        let password = self.password.get_ref();
        if !is_hash(password) {
            let problem = "the password is no Argon2 hash: `smsc password` makes one, so that no password is \
                           written down";
            return Err((self.password.span(), problem.into()));
        }
        let mut numbers = Vec::with_capacity(self.numbers.len());
        for number in &self.numbers {
            let digits = number.get_ref();
            if !(1..=17).contains(&digits.len()) || !digits.bytes().all(|octet| octet.is_ascii_digit()) {
                return Err((number.span(), format!("{digits:?} is no number of 1 to 17 digits")));
            }
            numbers.push(digits.clone());
        }
        Ok(AccountConfig {
            number: within(Some(&self.number), 0, 1..=NUMBER_MAX)?,
            system_id: system_id(&self.system_id)?,
            password: password.clone(),
            sessions: within(self.sessions.as_ref(), 10, 1..=100_000)?,
            window: within(self.window.as_ref(), 100, 1..=10_000)?,
            rate: within(self.rate.as_ref(), 0, 0..=10_000_000)?,
            numbers,
            receipts: within(self.receipts.as_ref(), 100_000, 1..=100_000_000)?,
            tokens: checked_tokens(&self.tokens)?,
            outbind: self.outbind()?,
        })
    }

    fn outbind(&self) -> Result<Option<OutbindConfig>, Problem> {
        let Some(written) = &self.outbind else {
            return match &self.outbind_password {
                Some(password) => Err((password.span(), "outbind_password without outbind".into())),
                None => Ok(None),
            };
        };
        let address = written.get_ref().clone();
        let is_address = address
            .rsplit_once(':')
            .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0));
        if !is_address {
            let problem = format!("{address:?} is no address: give a host and a port");
            return Err((written.span(), problem));
        }
        let password = match &self.outbind_password {
            None => String::new(),
            Some(password) if password.get_ref().len() <= super::PASSWORD_OCTETS_MAX => {
                password.get_ref().clone()
            }
            Some(password) => {
                return Err((password.span(), "a password of SMPP has at most 8 letters".into()));
            }
        };
        Ok(Some(OutbindConfig { address, password }))
    }
}

/// Deliveries that an account may have under way in all its sessions.
pub(super) const DELIVERIES_MAX: usize = ESME_LANES as usize;

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "$argon2id$v=19$m=19456,t=2,p=1$c29tZXNhbHRzb21lc2FsdA$\
                        BpyEGkrP2wzSMoa0VSE4sd9W1Rr6sNUFxBCUuL9d0wY";

    fn example() -> String {
        format!(
            "listen = \"127.0.0.1:2775\"\nsystem_id = \"smsc\"\n[timers]\nresponse_s = 10\n\
             [[account]]\nnumber = 1\nsystem_id = \"app\"\npassword = \"{HASH}\"\nwindow = 10\nnumbers = [\"1234\"]\n\
             [[account]]\nnumber = 2\nsystem_id = \"other\"\npassword = \"{HASH}\"\n"
        )
    }

    /// The example explains every key, and its password is the one that it says.
    #[test]
    fn the_example_is_right() {
        let config = Config::parse("smsc.toml", include_str!("../../docs/smsc.toml")).unwrap();
        assert!(crate::serve::is_password(&config.accounts[0].password, "secret"));
        let explained =
            include_str!("../../docs/smsc.toml").replace("# http =", "http =").replace("# store", "store");
        let every = Config::parse("smsc.toml", &explained).unwrap();
        assert!(every.http.is_some() && every.store.is_some());
    }

    #[test]
    fn what_is_left_out_has_a_value() {
        let config = Config::parse("x", &example()).unwrap();
        assert_eq!(config.accounts.len(), 2);
        assert_eq!((config.accounts[0].window, config.accounts[1].window), (10, 100));
        assert_eq!(config.timers.inactivity, Duration::from_secs(300));
        assert_eq!(config.http, None);
    }

    /// What happened: with an inactivity_s of less than a minute sessions that were silent were
    /// ended without a question, as the one of 60 s came too late.
    #[test]
    fn who_is_silent_is_asked_before_the_end() {
        for (inactivity_s, enquire_link_s) in [(4, 2), (100, 50), (121, 60), (600, 60)] {
            let text = example().replacen("[timers]", &format!("[timers]\ninactivity_s = {inactivity_s}"), 1);
            let timers = Config::parse("x", &text).unwrap().timers;
            assert_eq!(timers.inactivity, Duration::from_secs(inactivity_s));
            assert_eq!(timers.enquire_link, Duration::from_secs(enquire_link_s));
        }
    }

    /// The example put wrong in a way of its own, with the line at which the message must point and
    /// words of it.
    #[test]
    fn mistakes_are_told_with_their_line() {
        for (from, to, line, words) in [
            ("[timers]", "store = \"postgresql://u@h:0/\"\n[timers]", 3, "port of host 1"),
            ("[timers]", "store = \"mysql://h/\"\n[timers]", 3, "known are postgresql"),
            ("[timers]", "store = \"\"\n[timers]", 3, "it is empty"),
            ("[timers]", "store = 7\n[timers]", 3, "a directory, a URL"),
            (
                "[timers]",
                "[store]\nurl = \"postgresql://u@h/?schma=x\"\n[timers]",
                4,
                "no parameter \"schma\"",
            ),
            ("[timers]", "[store]\nurl = \"messages\"\n[timers]", 4, "postgresql://"),
            ("[timers]", "[store]\nulr = \"x\"\n[timers]", 4, "unknown field `ulr`"),
            ("[timers]", "[store]\n[timers]", 3, "missing field `url`"),
            (
                "[timers]",
                "[store]\nurl = \"postgresql://u@h/\"\ntimeout_s = 0\n[timers]",
                5,
                "timeout_s: 0 is not from 1",
            ),
            (
                "[timers]",
                "[store]\nurl = \"postgresql://u@h/?timeout=9\"\ntimeout_s = 5\n[timers]",
                5,
                "has a timeout already",
            ),
            ("[timers]", "[store]\nurl = \"postgresql://u@h/?timeout=x\"\n[timers]", 4, "timeout: seconds"),
            ("127.0.0.1:2775", "127.0.0.1", 1, "is no address"),
            ("listen", "lisen", 1, "unknown field `lisen`"),
            ("\"smsc\"", "\"a name that is too long\"", 2, "1 to 15"),
            ("response_s = 10", "response_s = 60", 4, "from 0.1 to 45"),
            ("response_s = 10", "response_s = \"x\"", 4, "string"),
            ("response_s = 10", "inactivity_s = 9\nenquire_link_s = 9", 5, "before anybody is asked"),
            ("response_s = 10", "enquire_link_s = 301", 4, "inactivity_s = 300"),
            ("number = 1\n", "number = 0\n", 6, "from 1 to"),
            ("number = 2\n", "number = 1\n", 12, "belongs to another account"),
            ("\"app\"", "\"\"", 7, "1 to 15"),
            ("\"other\"", "\"app\"", 13, "belongs to another account"),
            (HASH, "secret", 8, "no Argon2 hash"),
            ("window = 10", "window = 0", 9, "from 1 to 10000"),
            ("\"1234\"", "\"12a4\"", 10, "no number"),
            ("\"1234\"", "\"1234\", \"1234\"", 10, "belongs to another account"),
            ("[timers]", "[timers", 3, ""),
        ] {
            let text = example().replacen(from, to, 1);
            let error = Config::parse("smsc.toml", &text).unwrap_err();
            assert_eq!(error.line, line, "{to}: {error}");
            assert!(error.problem.contains(words), "{to}: {error}");
            assert!(error.to_string().starts_with(&format!("smsc.toml:{line}: ")), "{error}");
        }
        let error = Config::parse("x", "").unwrap_err();
        assert!(error.problem.contains("nobody could bind"), "{error}");
    }

    #[test]
    fn a_store_is_a_directory_or_a_url() {
        let store = |text: &str| {
            let text = example().replacen("[timers]", &format!("{text}\n[timers]"), 1);
            Config::parse("x", &text).unwrap().store.unwrap()
        };
        assert_eq!(store("store = \"messages\""), Place::Directory("messages".into()));
        for text in ["store = \"postgresql://u:pw@h/d\"", "[store]\nurl = \"postgresql://u:pw@h/d\""] {
            let place = store(text);
            assert!(matches!(place, Place::Server(_)) && !format!("{place:?}").contains("pw"), "{place:?}");
        }
        let timeout = |text: &str| match store(text) {
            Place::Server(url) => url.timeout().as_secs(),
            place => panic!("{place:?}"),
        };
        assert_eq!(timeout("[store]\nurl = \"postgresql://u@h/\""), 15);
        assert_eq!(timeout("[store]\nurl = \"postgresql://u@h/\"\ntimeout_s = 5"), 5);
        assert_eq!(timeout("store = \"postgresql://u@h/?timeout=9\""), 9);
    }
}
