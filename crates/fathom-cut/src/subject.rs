//! Whose data lies on the device, and who recovers it.

use std::collections::BTreeMap;

use fathom_workload::spec::EngineSpec;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use crate::centre_store;
use crate::engines::{MMDB, POSTGRESQL, SMSC};

/// Whose data lies on the device, and who recovers it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "engine")]
pub enum Subject {
    /// A database of SQLite's, which SQLite recovers as it is built in.
    #[default]
    Sqlite,
    /// A database of mmdb's, a directory.
    Mmdb {
        /// How it is opened.
        settings: BTreeMap<String, Json>,
    },
    /// A cluster of PostgreSQL's, in a directory that a private server is given.
    Postgresql {
        /// Of its server.
        settings: BTreeMap<String, Json>,
    },
    /// A store of the SMS centre's, a directory.
    Smsc {
        /// Which store.
        settings: BTreeMap<String, Json>,
    },
}

impl Subject {
    /// Whose data a run of this engine leaves.
    pub(crate) fn of(engine: &EngineSpec) -> Subject {
        let settings = || engine.settings.clone();
        match engine.name.as_str() {
            MMDB => Subject::Mmdb { settings: settings() },
            POSTGRESQL => Subject::Postgresql { settings: settings() },
            SMSC => Subject::Smsc { settings: settings() },
            _ => Subject::Sqlite,
        }
    }

    /// Whether a server of its own recovers it.
    pub(crate) fn has_server(&self) -> bool {
        match self {
            Subject::Sqlite | Subject::Mmdb { .. } => false,
            Subject::Postgresql { .. } => true,
            Subject::Smsc { settings } => centre_store::has_server(settings),
        }
    }
}

/// Whether an engine with these settings has a server of its own.
#[must_use]
pub fn has_server(engine: &str, settings: &BTreeMap<String, Json>) -> bool {
    Subject::of(&EngineSpec { name: engine.to_owned(), settings: settings.clone() }).has_server()
}
