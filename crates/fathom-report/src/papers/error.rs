//! What can be wrong with the sources of the page.

use std::path::{Path, PathBuf};

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
    /// A line of a file that is not understood.
    #[error("{}:{line}: {problem}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Its line, from 1.
        line: usize,
        /// What is wrong there.
        problem: String,
    },
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
        let begin = error.span().map_or(0, |span| span.start).min(source.len());
        let line = source.as_bytes()[..begin].iter().filter(|byte| **byte == b'\n').count() + 1;
        PapersError::Line { path: path.to_path_buf(), line, problem: error.message().to_owned() }
    }
}
