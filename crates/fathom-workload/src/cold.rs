//! Emptied caches: how, and how often.

use fathom_stack::ColdMethod;

use crate::engine::Engine;
use crate::sample::{Sink, WarningKind};
use crate::workload::WorkloadError;

/// How caches were emptied before executions, and how often.
#[derive(Default)]
pub(crate) struct ColdCaches {
    counts: Vec<(String, bool, u64)>,
}

impl ColdCaches {
    /// Empties the engine's caches and the system's.
    pub fn empty(&mut self, engine: &dyn Engine) -> Result<(), WorkloadError> {
        engine.forget_caches()?;
        self.add(&fathom_stack::cold(engine.directory()));
        Ok(())
    }

    fn add(&mut self, method: &ColdMethod) {
        let is_failure = matches!(method, ColdMethod::Failed(_));
        let text = method.to_string();
        match self.counts.iter_mut().find(|(known, ..)| *known == text) {
            Some((.., count)) => *count += 1,
            None => self.counts.push((text, is_failure, 1)),
        }
    }

    /// Says it of the executions called `what`, `select: … queries`.
    pub fn report(&self, phase: &str, what: &str, sink: &mut dyn Sink) {
        for (text, is_failure, count) in &self.counts {
            if *is_failure {
                let text = format!("{phase}: caches before {count} {what}: {text}");
                sink.warning_of(WarningKind::WarmCaches, text);
            } else {
                sink.verified(format!("{phase}: cold caches before {count} {what}: {text}"));
            }
        }
    }
}
