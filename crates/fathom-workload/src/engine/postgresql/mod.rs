//! PostgreSQL: a private server in the run's directory.

mod settings;

use super::settings::EngineKind;

/// PostgreSQL as it is known by name.
pub(super) static KIND: EngineKind = EngineKind {
    name: "postgresql",
    summary: "PostgreSQL: a private server in the run's directory, on a socket, stopped after the run",
    settings: settings::SETTINGS,
};
