//! How a command ends: exit code 0, 1 (it ran and something failed) or 2 (asked wrongly), and the
//! error that says what to do next.

use fathom_output::tell;
use std::fmt::Display;
use std::process::ExitCode;

/// The end of a command that could speak for itself.
#[derive(Debug)]
pub enum Outcome {
    /// All good.
    Good,
    /// It ran and something failed; what failed has been printed.
    Failed,
    /// Asked wrongly; what would be right has been printed.
    Usage,
}

/// The end of a command that could not go on.
#[derive(Debug)]
pub enum Error {
    /// It was asked for something that does not exist or cannot be.
    Usage(String),
    /// It was asked rightly and could not be done.
    Failed(String),
}

impl Error {
    /// Asked wrongly: exit code 2.
    pub fn usage(message: impl Display) -> Error {
        Error::Usage(message.to_string())
    }

    /// Something failed: exit code 1.
    pub fn failed(message: impl Display) -> Error {
        Error::Failed(message.to_string())
    }
}

impl From<Error> for Outcome {
    fn from(error: Error) -> Outcome {
        match error {
            Error::Usage(message) => {
                tell!("error: {message}");
                Outcome::Usage
            }
            Error::Failed(message) => {
                tell!("error: {message}");
                Outcome::Failed
            }
        }
    }
}

impl Outcome {
    /// What came of it where even that could not be printed.
    pub fn or_failed(self) -> Outcome {
        match self {
            Outcome::Good => Outcome::Failed,
            other => other,
        }
    }

    /// The exit code.
    pub fn exit(self) -> ExitCode {
        match self {
            Outcome::Good => ExitCode::SUCCESS,
            Outcome::Failed => ExitCode::from(1),
            Outcome::Usage => ExitCode::from(2),
        }
    }
}
