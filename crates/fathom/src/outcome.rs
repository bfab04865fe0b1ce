//! How a command ends: exit code 0, 1 (it ran and something failed) or 2 (asked wrongly), and the
//! error that says what to do next. One that a signal has stopped ends by that signal
//! ([`crate::ending`]).

use fathom_output::tell;
use fathom_stack::StackError;
use fathom_trace::TraceError;
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

    /// What it says.
    pub fn message(&self) -> &str {
        match self {
            Error::Usage(message) | Error::Failed(message) => message,
        }
    }

    /// A stack that no machine could make is asked wrongly; all else has failed here.
    pub fn of_stack(error: StackError) -> Error {
        match error {
            StackError::Spec { .. }
            | StackError::NameTaken { .. }
            | StackError::NoSuchName { .. }
            | StackError::BadName { .. } => Error::usage(error),
            _ => Error::failed(error),
        }
    }

    /// A file that is not there or is no trace was asked for wrongly; all else has failed here.
    pub fn of_trace(error: TraceError) -> Error {
        match &error {
            TraceError::NotATrace { .. } | TraceError::Refused { .. } | TraceError::Parts { .. } => {
                Error::usage(error)
            }
            TraceError::Io { source, .. } if source.kind() == std::io::ErrorKind::NotFound => {
                Error::usage(error)
            }
            _ => Error::failed(error),
        }
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
