//! What engines accept as settings, and the check of what was written against it.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use super::{postgresql, sqlite};
use crate::params::{Parameter, ParameterError, Params};
use fathom_stack::suggest::nearest;

/// What is wrong with an engine's setting: key, problem and suggestion.
pub type SettingError = ParameterError;

/// An engine as it is known by name.
#[derive(Debug)]
pub struct EngineKind {
    /// Name in an experiment file.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// What it accepts.
    pub settings: &'static [Parameter],
}

/// All engines, in the order in which they are shown.
static ENGINES: &[&EngineKind] = &[&sqlite::KIND, &postgresql::KIND];

/// All engines, in the order in which they are shown.
#[must_use]
pub fn engines() -> &'static [&'static EngineKind] {
    ENGINES
}

/// The settings of the engine called `name` with their types, allowed values and defaults; none for an unknown engine.
#[must_use]
pub fn settings_of(name: &str) -> Option<&'static [Parameter]> {
    ENGINES.iter().find(|kind| kind.name == name).map(|kind| kind.settings)
}

/// Checks settings without starting anything.
///
/// # Errors
/// The first setting that is unknown, of the wrong type or out of range; an unknown engine is reported under the key `name`.
pub fn check_settings(name: &str, settings: &BTreeMap<String, Json>) -> Result<(), SettingError> {
    read_settings(name, settings).map(|_| ())
}

/// Checks settings and fills in Fathom's defaults.
pub(super) fn read_settings(name: &str, settings: &BTreeMap<String, Json>) -> Result<Params, SettingError> {
    let Some(accepted) = settings_of(name) else {
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
    Params::read(accepted, settings)
}
