//! How a directive of the page fails.

use super::PapersError;

/// How a directive fails: in words that want a line, or already complete.
pub(super) enum Failure {
    Words(String),
    Whole(PapersError),
}

impl From<String> for Failure {
    fn from(words: String) -> Failure {
        Failure::Words(words)
    }
}

impl From<PapersError> for Failure {
    fn from(error: PapersError) -> Failure {
        Failure::Whole(error)
    }
}

impl Failure {
    pub(super) fn words(self) -> String {
        match self {
            Failure::Words(message) => message,
            Failure::Whole(error) => error.to_string(),
        }
    }
}
