//! The engine seam: what a workload may ask of a database engine, and the engines by name.

pub mod calls;
mod error;
mod interface;
mod postgresql;
mod settings;
mod shared_object;
mod sqlcipher;
mod sqlite;
mod statement_text;

use std::collections::BTreeMap;
use std::path::Path;

use fathom_diagnostic::suggest::nearest;
use serde_json::Value as Json;

use crate::params::{Parameter, Params};
use crate::spec::EngineSpec;
pub use error::{DISK_FULL, EngineError, MACHINE};
pub(crate) use interface::abridged;
pub use interface::{Connection, Dialect, Engine, EngineInfo, Statement, Value};
pub use postgresql::postgresql_programs;
pub use settings::{EngineKind, SettingError, Start};

/// All engines, in the order in which they are shown.
static ENGINES: &[&EngineKind] = &[&sqlite::KIND, &sqlcipher::KIND, &postgresql::KIND];

/// All engines, in the order in which they are shown.
#[must_use]
pub fn engines() -> &'static [&'static EngineKind] {
    ENGINES
}

/// The engine called `name`.
#[must_use]
pub fn engine_named(name: &str) -> Option<&'static EngineKind> {
    ENGINES.iter().find(|kind| kind.name == name).copied()
}

/// The settings of the engine called `name` with their types, allowed values and defaults; none for
/// an unknown engine.
#[must_use]
pub fn settings_of(name: &str) -> Option<&'static [Parameter]> {
    engine_named(name).map(|kind| kind.settings)
}

/// Checks settings without starting anything.
///
/// # Errors
/// The first setting that is unknown, of the wrong type or out of range; an unknown engine is
/// reported under the key `name`.
pub fn check_settings(name: &str, settings: &BTreeMap<String, Json>) -> Result<(), SettingError> {
    read_settings(name, settings).map(|_| ())
}

/// Checks settings and fills in Fathom's defaults.
fn read_settings(
    name: &str,
    settings: &BTreeMap<String, Json>,
) -> Result<(&'static EngineKind, Params), SettingError> {
    let Some(kind) = engine_named(name) else {
        let names = ENGINES.iter().map(|kind| kind.name);
        return Err(SettingError {
            key: "name".into(),
            problem: format!(
                "there is no engine called {name}; known are {}",
                names.clone().collect::<Vec<_>>().join(", ")
            ),
            suggestion: nearest(name, names).map(str::to_owned),
        });
    };
    Params::read(kind.settings, settings).map(|params| (kind, params))
}

/// Starts the engine of a cell in `directory`, its settings checked.
///
/// # Errors
/// A setting that is unknown or wrong, a library that cannot be loaded, a server that is missing or
/// does not start.
pub fn start_engine(spec: &EngineSpec, directory: &Path) -> Result<Box<dyn Engine>, EngineError> {
    let (kind, params) = read_settings(&spec.name, &spec.settings).map_err(|error| EngineError {
        subject: format!("engine {}", spec.name),
        message: error.to_string(),
        code: 0,
    })?;
    (kind.start)(params, directory)
}
