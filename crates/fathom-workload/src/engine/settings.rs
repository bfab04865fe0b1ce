//! The engines by name: what they are, and the settings that a cell may give them.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value as Json;

use super::error::EngineError;
use super::interface::{Dialect, Engine};
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
