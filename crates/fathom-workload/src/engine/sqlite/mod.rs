//! SQLite: the bundled library, or any `libsqlite3.so` by its path.

mod settings;

use super::settings::EngineKind;

/// SQLite as it is known by name.
pub(super) static KIND: EngineKind = EngineKind {
    name: "sqlite",
    summary: "SQLite in this process: the bundled release, or the libsqlite3.so at setting `library`",
    settings: settings::SETTINGS,
};
