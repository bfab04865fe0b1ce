//! What goes wrong in this workload.

use crate::workload::WorkloadError;

/// Its name in an experiment file.
pub const NAME: &str = "update";

/// A parameter that cannot be.
pub fn refused(parameter: &str, problem: String) -> WorkloadError {
    WorkloadError::refused(NAME, parameter, problem)
}

/// A check that did not pass.
pub fn wrong(problem: String) -> WorkloadError {
    WorkloadError::wrong(NAME, &problem)
}
