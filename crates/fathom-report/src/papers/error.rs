//! What can be wrong with the sources of the page.

use std::ops::Range;
use std::path::{Path, PathBuf};

use fathom_diagnostic::Diagnostic;
use fathom_lab::store::StoreError;

/// What is wrong with the sources of the page, and where.
#[derive(Debug, thiserror::Error)]
pub enum PapersError {
    /// A file that is not there or cannot be read.
    #[error("{}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// A place of a file that is not understood.
    #[error("{0}")]
    Place(Box<Diagnostic>),
    /// Two data sets of one name.
    #[error("{}: there are two data sets called {name:?}: give one another name", path.display())]
    Twice {
        /// The file with the second one.
        path: PathBuf,
        /// The name.
        name: String,
    },
    /// There is no data set of this name.
    #[error("no data set {name:?}; there are: {}", known.join(", "))]
    NoSuchData {
        /// What was asked for.
        name: String,
        /// What there is.
        known: Vec<String>,
    },
    /// A data set's results cannot be read.
    #[error("data set {name:?}: {source}")]
    Data {
        /// The data set.
        name: String,
        /// What is wrong with its file.
        source: StoreError,
    },
    /// Something chooses no cell, several cells, or a phase that was not measured.
    #[error("data set {name:?}: {problem}")]
    Choice {
        /// The data set.
        name: String,
        /// What was chosen, and what there is.
        problem: String,
    },
    /// A finding without a place, or a place without a finding.
    #[error("{}: {problem}", path.display())]
    Unused {
        /// The file.
        path: PathBuf,
        /// What is not used.
        problem: String,
    },
}

impl PapersError {
    /// As the reader of TOML says it, with the line.
    pub(super) fn of_toml(path: &Path, source: &str, error: &toml::de::Error) -> PapersError {
        let place = error.span().unwrap_or(0..0);
        PapersError::at(path, source, place, error.message().to_owned())
    }

    /// At a place of a file, bytes.
    pub(super) fn at(path: &Path, source: &str, place: Range<usize>, message: String) -> PapersError {
        let name = path.display().to_string();
        PapersError::Place(Box::new(Diagnostic::at(&name, source, place, message, String::new())))
    }
}
