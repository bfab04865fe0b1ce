//! The engines by name: what they are, and the settings that a cell may give them.

use std::collections::BTreeMap;
use std::path::Path;

use fathom_diagnostic::suggest::nearest;
use serde_json::Value as Json;

use super::{Dialect, ENGINES, Engine, EngineError};
use crate::params::{Parameter, ParameterError, Params};

/// A setting that is unknown or wrong, by its key.
pub type SettingError = ParameterError;

/// Starts an engine with checked settings in a directory.
pub type Start = fn(Params, &Path) -> Result<Box<dyn Engine>, EngineError>;

/// An engine as it is known by name, before anything of it runs. A new engine is a folder beside
/// this file and a line in the list of engines.
#[derive(Debug)]
pub struct EngineKind {
    /// Name in an experiment file.
    pub name: &'static str,
    /// Name as its makers write it.
    pub title: &'static str,
    /// One line.
    pub summary: &'static str,
    /// What it accepts.
    pub settings: &'static [Parameter],
    /// The SQL that it takes.
    pub dialect: Dialect,
    /// Whether it runs in the worker's own process. A server has processes of its own, and none is
    /// started in a guest kernel.
    pub is_embedded: bool,
    /// What the machine must have for it with the settings that a cell gives, by the name of the
    /// capability in `fathom doctor`; none where it is built in, or where a setting names the
    /// library or program itself.
    pub needs: fn(&BTreeMap<String, Json>) -> Option<&'static str>,
    /// Settings whose values its documentation writes in capitals.
    pub capitals: &'static [&'static str],
    /// Looks at the files that settings name, without starting anything: what a plan can know is
    /// known before the run.
    ///
    /// # Errors
    /// The setting whose file is not there, or not what the setting says.
    pub files: fn(&Params) -> Result<(), SettingError>,
    /// What a reader must know of the settings that a cell gives: those without effect, by the
    /// others. The first argument are those that were given, the second all of them.
    pub remarks: fn(&BTreeMap<String, Json>, &Params) -> Vec<String>,
    /// Starts it in a directory.
    ///
    /// # Errors
    /// A library that cannot be loaded, a server that is missing or does not start, a setting that
    /// does not take.
    pub start: Start,
}

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
pub(super) fn read_settings(
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
