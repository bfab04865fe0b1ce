//! The workload seam: what the worker asks of a workload.

use std::collections::BTreeMap;
use std::path::Path;

use fathom_diagnostic::suggest::did_you_mean;
use serde_json::Value as Json;

use crate::engine::{Engine, EngineError};
use crate::params::{Parameter, Params};
use crate::sample::Sink;

/// A workload as it is known by name.
#[derive(Debug)]
pub struct WorkloadKind {
    /// Name in an experiment file.
    pub name: &'static str,
    /// One line: what it does and whose it is.
    pub summary: &'static str,
    /// What it accepts.
    pub parameters: &'static [Parameter],
    /// Whether it works on an engine (`[engine]` is then needed; without, it is refused).
    pub needs_engine: bool,
    /// The capability of the machine that it asks for with these parameters, if any: a server that
    /// is not built in.
    pub needs: fn(&BTreeMap<String, Json>) -> Option<&'static str>,
    /// What a phase's abscissa counts, where its phases have one: `rows`; else empty.
    pub abscissa: &'static str,
    /// Whether one thread does all its work, one piece after the other, so that it can be kept on
    /// one processor. Not so where a store of its own has threads or a server.
    pub one_thread: fn(&Params) -> bool,
    /// At most so many executions become samples with these parameters: more are not believed of
    /// another machine.
    pub samples: fn(&Params) -> u64,
    /// The parameters that change nothing with these ones, and whose they are instead, as in "is of
    /// another store"; none where each has its effect.
    pub idle: fn(&Params) -> Option<IdleParameters>,
    /// Makes it from checked parameters. An error here is about values that do not go together.
    pub create: fn(Params) -> Result<Box<dyn Workload>, WorkloadError>,
}

/// Parameters that change nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IdleParameters {
    /// Their names.
    pub parameters: &'static [&'static str],
    /// Why, after the name of one of them: "is an option of mmdb, and the store is another".
    pub why: &'static str,
}

/// Where and how a workload runs.
pub struct Context<'a> {
    /// Directory on the stack under test; empty at the start, the workload's to fill.
    pub directory: &'a Path,
    /// The engine, or none for a workload that asks for none (`mobibench-file`).
    pub engine: Option<&'a dyn Engine>,
    /// Seed of this run: same seed, same data and same order.
    pub seed: u64,
}

/// What ended a run.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// A parameter is unknown, of the wrong type or out of range.
    #[error("workload {workload}: parameter {parameter}: {problem}{}", did_you_mean(.suggestion.as_deref()))]
    Parameter {
        /// Workload's name.
        workload: String,
        /// Parameter's name.
        parameter: String,
        /// What is wrong and what would be right.
        problem: String,
        /// The known name or value that was probably meant.
        suggestion: Option<String>,
    },
    /// No workload has this name.
    #[error("there is no workload called {name}{}; known are {known}", did_you_mean(.suggestion.as_deref()))]
    Unknown {
        /// The name as it was written.
        name: String,
        /// All names.
        known: String,
        /// The name that was probably meant.
        suggestion: Option<String>,
    },
    /// The engine refused a statement.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// The work was done but its result is wrong: row counts, checksums, integrity.
    #[error("verification failed: {0}")]
    Verification(String),
    /// A file operation failed.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: String,
        /// The operating system's error.
        source: std::io::Error,
    },
}

impl WorkloadError {
    /// A parameter, or what stands in for one such as the engine, that this workload does not take.
    #[must_use]
    pub fn refused(workload: &str, parameter: &str, problem: String) -> Self {
        WorkloadError::Parameter {
            workload: workload.into(),
            parameter: parameter.into(),
            problem,
            suggestion: None,
        }
    }

    /// A check of this workload that did not pass.
    #[must_use]
    pub fn wrong(workload: &str, problem: &str) -> Self {
        WorkloadError::Verification(format!("{workload}: {problem}"))
    }
}

/// What the name of a parameter that names a file has behind it, where a run tells the SHA3-256 of
/// what it read there.
pub const CONTENT: &str = "_sha3_256";

/// Tells, for the record, what the file of a parameter holds, by its length and its hash. Earlier
/// runs told the length alone.
pub(crate) fn tell_content(parameter: &str, file: &Path, all: &mut BTreeMap<String, Json>) {
    if let Ok(about) = std::fs::metadata(file) {
        all.insert(format!("{parameter}_bytes"), about.len().into());
    }
    if let Ok(hash) = fathom_trace::content::sha3_of_file(file) {
        all.insert(format!("{parameter}{CONTENT}"), hash.into());
    }
}

/// A workload with its parameters, checked.
pub trait Workload: Send + Sync {
    /// Prepares (untimed), runs (timed), verifies (untimed), all into `sink`.
    ///
    /// # Errors
    /// See [`WorkloadError`]; a failed statement or check fails the run.
    fn run(&self, context: &Context<'_>, sink: &mut dyn Sink) -> Result<(), WorkloadError>;
    /// All parameters with the values that hold (defaults filled in), for the record.
    fn parameters(&self) -> std::collections::BTreeMap<String, serde_json::Value>;
    /// What survives of acknowledged commits, for a workload that brings its own store instead of
    /// an engine.
    fn durability(&self) -> Option<crate::spec::Durability> {
        None
    }
}
