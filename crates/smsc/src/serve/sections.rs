//! Sections of the configuration that are about running the centre: the HTTP API, the admin page,
//! the log, the files of the archive.

use super::config::{Problem, address, within};
use super::log::{Format, Level};
use super::password::is_hash;
use super::token::is_token_hash;
use crate::centre::Rotation;
use serde::Deserialize;
use std::net::SocketAddr;
use std::time::Duration;
use toml::Spanned;

/// The HTTP API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiConfig {
    /// Where it is.
    pub listen: SocketAddr,
}

/// The admin page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdminConfig {
    /// Where it is.
    pub listen: SocketAddr,
    /// Argon2 hash of the password that a person signs in with.
    pub password: Option<String>,
    /// Hash of the token that a program comes with.
    pub token: Option<String>,
    /// Whether it shows what messages say.
    pub text: bool,
}

/// What is logged, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogConfig {
    /// How a line looks.
    pub format: Format,
    /// The least important that is logged.
    pub level: Level,
    /// Whether the log may have what messages say.
    pub text: bool,
}

/// Files of the archive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArchiveConfig {
    /// When a file is closed and another begun.
    pub rotation: Rotation,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenApi {
    listen: Option<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenAdmin {
    listen: Option<Spanned<String>>,
    password: Option<Spanned<String>>,
    token: Option<Spanned<String>>,
    #[serde(default)]
    text: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenLog {
    format: Option<Spanned<String>>,
    level: Option<Spanned<String>>,
    #[serde(default)]
    text: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenArchive {
    rotate_mib: Option<Spanned<u32>>,
    rotate_s: Option<Spanned<u32>>,
    format: Option<Spanned<String>>,
}

/// An address of loopback, with this port.
fn loopback(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

/// One of a few words.
fn word<T>(
    written: Option<&Spanned<String>>,
    otherwise: T,
    words: &str,
    of: fn(&str) -> Option<T>,
) -> Result<T, Problem> {
    let Some(written) = written else { return Ok(otherwise) };
    of(written.get_ref())
        .ok_or_else(|| (written.span(), format!("{:?} is none of {words}", written.get_ref())))
}

impl WrittenApi {
    pub fn checked(self) -> Result<ApiConfig, Problem> {
        Ok(ApiConfig { listen: address(self.listen.as_ref())?.unwrap_or(loopback(9276)) })
    }
}

impl WrittenAdmin {
    pub fn checked(written: &Spanned<WrittenAdmin>) -> Result<AdminConfig, Problem> {
        let WrittenAdmin { listen, password, token, text } = written.get_ref();
        if let Some(password) = password.as_ref().filter(|password| !is_hash(password.get_ref())) {
            let problem = "the password is no Argon2 hash: `smsc password --admin` makes one";
            return Err((password.span(), problem.into()));
        }
        if let Some(token) = token.as_ref().filter(|token| !is_token_hash(token.get_ref())) {
            return Err((token.span(), "this is no hash of a token: `smsc token` makes both".into()));
        }
        if password.is_none() && token.is_none() {
            let problem = "[admin] has neither password nor token: whoever reaches the page could end sessions. \
                           `smsc password --admin` and `smsc token` make them";
            return Err((written.span(), problem.into()));
        }
        Ok(AdminConfig {
            listen: address(listen.as_ref())?.unwrap_or(loopback(9277)),
            password: password.as_ref().map(|password| password.get_ref().clone()),
            token: token.as_ref().map(|token| token.get_ref().clone()),
            text: *text,
        })
    }
}

impl WrittenLog {
    pub fn checked(self) -> Result<LogConfig, Problem> {
        let WrittenLog { format, level, text } = self;
        Ok(LogConfig {
            format: word(format.as_ref(), Format::default(), "text, logfmt, json", Format::named)?,
            level: word(level.as_ref(), Level::default(), "error, warn, info, debug", Level::named)?,
            text,
        })
    }
}

impl WrittenArchive {
    pub fn checked(self) -> Result<ArchiveConfig, Problem> {
        let usual = Rotation::default();
        let mib = within(self.rotate_mib.as_ref(), (usual.octets >> 20) as u32, 0..=1 << 20)?;
        let seconds = within(self.rotate_s.as_ref(), 0, 0..=315_360_000)?;
        let csv = word(self.format.as_ref(), false, "jsonl, csv", |format| match format {
            "jsonl" => Some(false),
            "csv" => Some(true),
            _ => None,
        })?;
        let age = (seconds > 0).then(|| Duration::from_secs(seconds.into()));
        Ok(ArchiveConfig { rotation: Rotation { octets: u64::from(mib) << 20, age, csv } })
    }
}

/// Hashes of tokens of an account.
pub(super) fn checked_tokens(written: &[Spanned<String>]) -> Result<Vec<String>, Problem> {
    let checked = |token: &Spanned<String>| {
        if is_token_hash(token.get_ref()) {
            Ok(token.get_ref().clone())
        } else {
            let problem = "this is no hash of a token (sha256:…): `smsc token` makes both";
            Err((token.span(), problem.to_owned()))
        }
    };
    written.iter().map(checked).collect()
}
