//! What the workloads' tests share: a sink that keeps everything, and an engine that spoils the
//! data under the workload.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::engine::{Connection, Dialect, Engine, EngineError, EngineInfo};
use crate::sample::{IoRow, PhaseSummary, Sample, Sink};
use crate::spec::{Durability, EngineSpec};
use crate::start_engine;

/// Parameters or settings as an experiment file would give them.
pub fn map(json: serde_json::Value) -> BTreeMap<String, serde_json::Value> {
    json.as_object().expect("an object").clone().into_iter().collect()
}

/// The bundled SQLite with these settings.
pub fn sqlite(settings: serde_json::Value, directory: &Path) -> Box<dyn Engine> {
    start_engine(&EngineSpec { name: "sqlite".into(), settings: map(settings) }, directory).expect("starts")
}

/// Something a test does at a certain moment.
pub type Action = Box<dyn FnMut()>;

/// Keeps what a run hands out.
#[derive(Default)]
pub struct KeepingSink {
    pub samples: Vec<Sample>,
    pub phases: Vec<PhaseSummary>,
    pub io: Vec<IoRow>,
    pub progress: Vec<f64>,
    pub warnings: Vec<String>,
    pub verified: Vec<String>,
    /// Done when this phase ends.
    pub at_phase: Option<(&'static str, Action)>,
    /// Done at each report of progress.
    pub at_progress: Option<Action>,
}

impl Sink for KeepingSink {
    fn sample(&mut self, sample: Sample) {
        self.samples.push(sample);
    }
    fn phase(&mut self, summary: PhaseSummary) {
        if let Some((name, action)) = &mut self.at_phase
            && *name == summary.phase
        {
            action();
        }
        self.phases.push(summary);
    }
    fn io(&mut self, row: IoRow) {
        self.io.push(row);
    }
    fn progress(&mut self, done: f64) {
        if let Some(action) = &mut self.at_progress {
            action();
        }
        self.progress.push(done);
    }
    fn warning(&mut self, text: String) {
        self.warnings.push(text);
    }
    fn verified(&mut self, check: String) {
        self.verified.push(check);
    }
}

impl KeepingSink {
    /// The phases as (name, x, number of executions).
    pub fn outline(&self) -> Vec<(&str, Option<f64>, u64)> {
        self.phases.iter().map(|phase| (phase.phase.as_str(), phase.x, phase.count)).collect()
    }

    /// Progress that starts above 0, never runs back and ends at 1.
    pub fn progress_is_sound(&self) -> bool {
        let grows = self.progress.windows(2).all(|pair| pair[0] <= pair[1]);
        grows && self.progress.first().is_some_and(|&first| first > 0.0) && self.progress.last() == Some(&1.0)
    }
}

/// An engine that runs a statement of its own on the connection with a certain number, before the
/// workload gets it.
pub struct Saboteur {
    inner: Box<dyn Engine>,
    sql: &'static str,
    at: u32,
    connections: AtomicU32,
}

impl Saboteur {
    /// Spoils the connection number `at`, from 1; 0 spoils none.
    pub fn new(inner: Box<dyn Engine>, at: u32, sql: &'static str) -> Self {
        Saboteur { inner, sql, at, connections: AtomicU32::new(0) }
    }

    /// Number of connections made.
    pub fn connections(&self) -> u32 {
        self.connections.load(Ordering::SeqCst)
    }
}

impl Engine for Saboteur {
    fn connect(&self, name: &str) -> Result<Box<dyn Connection>, EngineError> {
        let mut connection = self.inner.connect(name)?;
        if self.connections.fetch_add(1, Ordering::SeqCst) + 1 == self.at {
            connection.execute_script(self.sql)?;
        }
        Ok(connection)
    }
    fn info(&self) -> EngineInfo {
        self.inner.info()
    }
    fn dialect(&self) -> Dialect {
        self.inner.dialect()
    }
    fn durability(&self) -> Durability {
        self.inner.durability()
    }
    fn directory(&self) -> &Path {
        self.inner.directory()
    }
    fn forget_caches(&self) -> Result<(), EngineError> {
        self.inner.forget_caches()
    }
}
