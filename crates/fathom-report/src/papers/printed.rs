//! What the page says of a finding.

use super::verdict::Verdict;

/// What was said of a finding.
#[derive(Debug)]
pub struct PrintedFinding {
    /// The name of its table.
    pub table: String,
    /// The finding.
    pub finding: String,
    /// The data set that it is of, where it is of one.
    pub data: Option<String>,
    /// What was measured.
    pub measured: String,
    /// The verdict.
    pub verdict: Verdict,
}
