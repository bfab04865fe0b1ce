//! Files that runs are made of, and that are others by the time their experiment is gone on with.
//!
//! A cell names them by their paths, so to the plan nothing has changed; and the runs of both would
//! be taken together.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::UNIX_EPOCH;

use fathom_device::model_text;
use fathom_stack::image_state;
use fathom_workload::trace::sha3_of_file;
use fathom_workload::workload::CONTENT;

use crate::plan::Plan;
use crate::store::Results;

impl Plan {
    /// The first file that holds something else than when the runs of `results` were made: a trace,
    /// a recording of file calls, a model of a device, an image. Of what earlier versions did not
    /// keep nothing is known.
    #[must_use]
    pub fn replaced(&self, results: &Results) -> Option<String> {
        self.replaced_work(results).or_else(|| self.replaced_stack(results))
    }

    fn replaced_work(&self, results: &Results) -> Option<String> {
        let mut hashes: BTreeMap<&str, Option<String>> = BTreeMap::new();
        for planned in &self.cells {
            for (name, value) in &planned.cell.workload.params {
                let content = format!("{name}{CONTENT}");
                let mut runs = results.good_runs(planned.id);
                let then = runs.find_map(|run| run.parameters.get(&content)?.as_str().map(str::to_owned));
                let (Some(then), Some(path)) = (then, value.as_str()) else { continue };
                let now = hashes.entry(path).or_insert_with(|| sha3_of_file(Path::new(path)).ok());
                if now.as_ref().is_some_and(|now| *now != then) {
                    return Some(format!("{path} is another file now than when their runs were made"));
                }
            }
        }
        None
    }

    fn replaced_stack(&self, results: &Results) -> Option<String> {
        for planned in &self.cells {
            let stack = &planned.cell.stack;
            let Some(run) = results.good_runs(planned.id).next() else { continue };
            for (device, then) in stack.device.iter().chain(&stack.log_device).zip(&run.stack.models) {
                if model_text(device).is_ok_and(|(_, now)| now != *then) {
                    return Some(format!("the model of {device} is another one now than in their runs"));
                }
            }
            if let Some(image) = &stack.image
                && is_other(image, &run.stack.image, results.experiment.started_ms)
            {
                return Some(format!("{} was changed after their runs had begun", image.display()));
            }
        }
        None
    }
}

/// Whether an image is another one now. Earlier versions did not keep how it was.
fn is_other(image: &Path, then: &str, started_ms: i64) -> bool {
    if then.is_empty() {
        return changed_ms(image).is_some_and(|at| at > started_ms);
    }
    let now = image_state(image);
    !now.is_empty() && now != then
}

/// When a file was last written, ms since 1970 UTC; none where that is not told.
fn changed_ms(file: &Path) -> Option<i64> {
    let at = std::fs::metadata(file).ok()?.modified().ok()?;
    i64::try_from(at.duration_since(UNIX_EPOCH).ok()?.as_millis()).ok()
}
