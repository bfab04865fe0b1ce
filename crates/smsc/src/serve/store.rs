//! `store` of the configuration: a directory, or `[store]` with the URL of a server.

use super::config::Problem;
use crate::store::Place;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::ffi::OsStr;
use std::fmt;
use toml::Spanned;

/// As it is written.
#[derive(Clone)]
pub(super) enum WrittenStore {
    /// `store = "…"`
    Word(String),
    /// `[store]`
    Table(Table),
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    url: Spanned<String>,
    timeout_s: Option<Spanned<u32>>,
}

impl<'de> Deserialize<'de> for WrittenStore {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StoreVisitor)
    }
}

struct StoreVisitor;

impl<'de> Visitor<'de> for StoreVisitor {
    type Value = WrittenStore;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a directory, a URL, or a table [store] with a url")
    }

    fn visit_str<E: Error>(self, word: &str) -> Result<WrittenStore, E> {
        Ok(WrittenStore::Word(word.to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<WrittenStore, A::Error> {
        Table::deserialize(MapAccessDeserializer::new(map)).map(WrittenStore::Table)
    }
}

impl WrittenStore {
    pub fn checked(written: Spanned<WrittenStore>) -> Result<Place, Problem> {
        let span = written.span();
        match written.into_inner() {
            WrittenStore::Word(word) => {
                Place::parse(OsStr::new(&word)).map_err(|problem| (span, format!("store: {problem}")))
            }
            WrittenStore::Table(Table { url, timeout_s }) => {
                let wrong = |problem| (url.span(), format!("[store] url: {problem}"));
                match Place::parse(OsStr::new(url.get_ref())) {
                    Ok(Place::Directory(_)) => Err(wrong(
                        "it begins with postgresql:// or redis-cluster://; a directory is `store = \"DIR\"`"
                            .into(),
                    )),
                    Ok(Place::Server(url)) => match timeout_s {
                        None => Ok(Place::Server(url)),
                        Some(seconds) => {
                            let wrong = |problem| (seconds.span(), format!("[store] timeout_s: {problem}"));
                            url.with_timeout(*seconds.get_ref()).map(Place::Server).map_err(wrong)
                        }
                    },
                    Ok(Place::Cluster(url)) => match timeout_s {
                        None => Ok(Place::Cluster(url)),
                        Some(seconds) => Err((
                            seconds.span(),
                            "[store] timeout_s: it is PostgreSQL's; a Redis Cluster is waited for as long as a failover takes"
                                .into(),
                        )),
                    },
                    Err(problem) => Err(wrong(problem)),
                }
            }
        }
    }
}
