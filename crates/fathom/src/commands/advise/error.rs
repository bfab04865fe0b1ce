//! What ends the command before there is an answer.

use fathom_lab::schedule::Interrupt;

use crate::outcome::Error;

pub(super) fn stopped(interrupt: &Interrupt) -> Result<(), Error> {
    if interrupt.is_raised() { Err(Error::failed("stopped by a signal")) } else { Ok(()) }
}

pub(super) fn study_error(error: fathom_lab::simulate::StudyError) -> Error {
    use fathom_lab::simulate::StudyError;
    match error {
        StudyError::NoRecording(_) | StudyError::NoSuch { .. } => Error::usage(error),
        StudyError::Nothing(..) | StudyError::Store(_) => Error::failed(error),
    }
}
