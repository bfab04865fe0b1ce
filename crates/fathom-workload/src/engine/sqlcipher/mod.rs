//! SQLCipher: SQLite that encrypts every page. It is SQLite's interface in a library of its own, so
//! it is SQLite's engine with another library and a key that is given before anything is read.

#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

use super::settings::{EngineKind, SettingError};
use super::{Dialect, Engine, EngineError, shared_object, sqlite};
use crate::params::{Kind, Parameter, Params, Preset};

/// SQLCipher as it is known by name.
pub(super) static KIND: EngineKind = EngineKind {
    name: "sqlcipher",
    title: "SQLCipher",
    summary: "SQLite with encrypted pages: the libsqlcipher.so of this machine, or the one at setting `library`",
    settings: SETTINGS,
    dialect: Dialect::Sqlite,
    is_embedded: true,
    needs: |given| (!given.contains_key("library")).then_some("sqlcipher"),
    capitals: sqlite::KIND.capitals,
    files,
    remarks: sqlite::KIND.remarks,
    start,
};

/// Its own settings, then SQLite's.
const SETTINGS: &[Parameter] = &{
    const OWN: [Parameter; 2] = [
        Parameter {
            name: "library",
            kind: Kind::Text,
            default: Preset::Unset,
            unit: "path",
            description: "a libsqlcipher.so to use instead of the one that is installed",
        },
        Parameter {
            name: "key",
            kind: Kind::Text,
            default: Preset::Text("fathom"),
            unit: "",
            description: "the key, as PRAGMA key takes it (it stands in the results: give none of your own); of a passphrase each connection derives a key first, of x'64 hex digits' not",
        },
    ];
    // SQLite's own begin with `library`, which is described anew here.
    const SQLITE: &[Parameter] = sqlite::SETTINGS;
    let mut all = [OWN[0]; SQLITE.len() + 1];
    all[1] = OWN[1];
    let mut at = 1;
    while at < SQLITE.len() {
        all[at + 1] = SQLITE[at];
        at += 1;
    }
    all
};

fn start(settings: Params, directory: &Path) -> Result<Box<dyn Engine>, EngineError> {
    let library = library(&settings).map_err(|error| EngineError {
        subject: format!("engine {}", KIND.name),
        message: error.problem,
        code: 0,
    })?;
    Ok(Box::new(sqlite::SqliteEngine::start(&KIND, Some(&library), settings, directory)?))
}

/// As SQLite's; without `library` there has to be one on this machine.
fn files(settings: &Params) -> Result<(), SettingError> {
    (sqlite::KIND.files)(settings)?;
    match settings.optional_text("library") {
        // Another machine looks at its own itself; none is built in here, whatever the name says.
        Some(path) if path != sqlite::BUNDLED => Ok(()),
        _ => library(settings).map(drop),
    }
}

/// The library of the settings, or the one that this machine has.
fn library(settings: &Params) -> Result<PathBuf, SettingError> {
    if let Some(path) = settings.optional_text("library") {
        return shared_object::checked("library", Path::new(path));
    }
    fathom_stack::sqlcipher_library().ok_or_else(|| SettingError {
        key: "library".into(),
        problem: "there is no libsqlcipher.so on this machine (`fathom doctor` says what brings it)".into(),
        suggestion: None,
    })
}
