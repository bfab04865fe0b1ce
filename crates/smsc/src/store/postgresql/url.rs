//! A store in a database of a server that is there already, by its URL.

use super::PostgresqlForm;
use crate::store::StoreKind;
use postgresql_server::connection::settings::{Settings, UrlError, is_url};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The schema where none is named.
const SCHEMA: &str = "smsc";
/// Octets of a name at most, NAMEDATALEN - 1: the server would cut off the rest.
const NAME_MAX: usize = 63;
/// How long a server may owe an answer, where nothing else is said.
const TIMEOUT: Duration = Duration::from_secs(15);
/// The longest that it can be given, s: a day.
const TIMEOUT_MAX_S: u32 = 86_400;

/// Where a store is: a server, a database, a schema of it.
#[derive(Clone)]
pub struct PostgresqlUrl {
    /// How the server is reached.
    pub(super) settings: Arc<Settings>,
    /// The store's own schema.
    pub(super) schema: String,
    /// How operations become statements.
    pub(super) form: PostgresqlForm,
    /// A server that a power cut may damage will do.
    pub(super) unsafe_server: bool,
    /// How long the server may owe an answer; then it is given up.
    pub(super) timeout: Option<Duration>,
    /// As it was written, to be compared.
    text: String,
}

impl PostgresqlUrl {
    /// Whether a text is meant as a URL.
    #[must_use]
    pub fn is_meant(text: &str) -> bool {
        is_url(text)
    }

    /// Reads a URL of libpq, with four parameters more: `schema`, `form` (`calls`, `grouped`,
    /// `batched`, `statements`), `timeout` and `durability=process-crash`, for a server whose
    /// settings do not keep its data through a power cut.
    ///
    /// # Errors
    /// It is wrong; the words have nothing of its password.
    pub fn parse(text: &str) -> Result<PostgresqlUrl, UrlError> {
        let wrong = |problem: String| Err(UrlError(problem));
        let (settings, own) = Settings::parse(text)?;
        if settings.options.as_deref().is_some_and(|options| options.contains("search_path")) {
            return wrong("options: the store is in the schema of schema=NAME, not of search_path".into());
        }
        let (mut schema, mut form, mut unsafe_server) = (SCHEMA.to_owned(), PostgresqlForm::Batched, false);
        let mut timeout = None;
        for (name, value) in own {
            match (name.as_str(), value.as_str()) {
                ("schema", name) if is_name(name) => schema = name.to_owned(),
                ("schema", name) if name.starts_with("pg_") || name == "information_schema" => {
                    return wrong(format!("schema={name}: that name is the server's own"));
                }
                ("schema", _) => {
                    return wrong(format!("schema: a name has 1 to {NAME_MAX} letters, digits or _"));
                }
                ("form", word) => {
                    form = match PostgresqlForm::ALL.into_iter().find(|form| form.word() == word) {
                        Some(form) => form,
                        None => return wrong("form: known are calls, grouped, batched, statements".into()),
                    }
                }
                ("timeout", seconds) => {
                    let seconds = seconds.parse().ok().and_then(PostgresqlUrl::timeout_of);
                    if seconds.is_none() {
                        return wrong(format!("timeout: seconds, from 1 to {TIMEOUT_MAX_S}"));
                    }
                    timeout = seconds;
                }
                ("durability", "process-crash") => unsafe_server = true,
                ("durability", "power-cut") => unsafe_server = false,
                ("durability", _) => return wrong("durability: known are power-cut, process-crash".into()),
                (name, _) => {
                    let known = Settings::known();
                    // What stands there may be of a password that was not encoded.
                    let name = if is_name(name) { format!("{name:?}") } else { "one of them".into() };
                    return wrong(format!(
                        "there is no parameter {name}; known are {known}, schema, form, timeout, durability"
                    ));
                }
            }
        }
        let (settings, text) = (Arc::new(settings), text.to_owned());
        Ok(PostgresqlUrl { settings, schema, form, unsafe_server, timeout, text })
    }

    /// So many seconds as a timeout, if they can be one.
    fn timeout_of(seconds: u32) -> Option<Duration> {
        (1..=TIMEOUT_MAX_S).contains(&seconds).then(|| Duration::from_secs(seconds.into()))
    }

    /// The same with a timeout in seconds, where the URL has none of its own.
    ///
    /// # Errors
    /// The URL has one; it is none.
    pub fn with_timeout(mut self, seconds: u32) -> Result<PostgresqlUrl, String> {
        if self.timeout.is_some() {
            return Err("the url has a timeout already: leave one of them out".into());
        }
        self.timeout = PostgresqlUrl::timeout_of(seconds);
        match self.timeout {
            Some(_) => Ok(self),
            None => Err(format!("{seconds} is not from 1 to {TIMEOUT_MAX_S} seconds")),
        }
    }

    /// How long its server may owe an answer.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.timeout.unwrap_or(TIMEOUT)
    }

    /// The kind of the store.
    #[must_use]
    pub fn kind(&self) -> StoreKind {
        match self.form {
            PostgresqlForm::Calls => StoreKind::Postgresql,
            PostgresqlForm::Grouped => StoreKind::PostgresqlGrouped,
            PostgresqlForm::Batched => StoreKind::PostgresqlBatched,
            PostgresqlForm::Statements => StoreKind::PostgresqlStatements,
        }
    }

    /// The password that it has, which others must not see.
    #[must_use]
    pub fn secret(&self) -> Option<&str> {
        self.settings.password.as_ref().map(|password| password.secret())
    }

    /// Whether a server that a power cut may damage will do (`durability=process-crash`).
    #[must_use]
    pub fn takes_less(&self) -> bool {
        self.unsafe_server
    }

    /// As it was written, with all that is secret in it.
    #[must_use]
    pub fn written(&self) -> &str {
        &self.text
    }
}

/// Whether a name needs no more than quotes to be a schema's.
fn is_name(name: &str) -> bool {
    (1..=NAME_MAX).contains(&name.len())
        && name.chars().all(|letter| letter.is_alphanumeric() || "_-.".contains(letter))
        && !name.starts_with("pg_")
        && name != "information_schema"
}

/// Without its password.
impl fmt::Display for PostgresqlUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}?schema={}", self.settings, self.schema)
    }
}

impl fmt::Debug for PostgresqlUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PostgresqlUrl({self})")
    }
}

impl PartialEq for PostgresqlUrl {
    fn eq(&self, other: &Self) -> bool {
        (&self.text, self.timeout) == (&other.text, other.timeout)
    }
}

impl Eq for PostgresqlUrl {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_server_database_and_schema() {
        let url = PostgresqlUrl::parse("postgresql://u:p@h/d?form=calls&schema=sms_2").unwrap();
        assert_eq!(url.kind(), StoreKind::Postgresql);
        assert_eq!(format!("{url} {url:?}").matches("postgresql://u@h:5432/d?schema=sms_2").count(), 2);
        assert_eq!(url.secret(), Some("p"));
        for (text, words) in [
            ("postgresql://u@h/?schema=pg_toast", "the server's own"),
            ("postgresql://u@h/?schema=a%22b", "1 to 63"),
            ("postgresql://u@h/?schema=", "1 to 63"),
            ("postgresql://u@h/?form=x", "known are calls"),
            ("postgresql://u@h/?durability=none", "known are power-cut"),
            ("postgresql://u@h/?timeout=0", "from 1 to 86400"),
            ("postgresql://u@h/?timeout=1s", "from 1 to 86400"),
            ("postgresql://u@h/?gssencmode=require", "no parameter \"gssencmode\""),
            ("postgresql://u@h/?options=-csearch_path%3Dx", "schema=NAME"),
        ] {
            let error = PostgresqlUrl::parse(text).unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
