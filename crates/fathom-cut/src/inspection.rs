//! What is found in the files of a state.

use serde::{Deserialize, Serialize};

use crate::verdict::Verdict;

/// What SQLite found in the files of a state, whoever acknowledged what.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Inspection {
    Content(u128),
    Bad(Verdict),
    /// The machine kept it from being looked at, which says nothing of the state: no memory, no
    /// program, no answer in time.
    Unseen(String),
}
