//! What is asked, and what is answered.

use std::path::PathBuf;

use fathom_device::Model;
use fathom_lab::schedule::Interrupt;
use fathom_report::Advice;

use crate::cli::Advise;
use crate::outcome::Error;

/// What is asked, by whom, and of which devices.
#[derive(Clone, Copy)]
pub(super) struct Question<'a> {
    pub(super) asked: &'a Advise,
    /// What the application has now, where the user says it.
    pub(super) now: &'a [(String, String)],
    pub(super) command: &'a str,
    pub(super) devices: &'a [Model],
    pub(super) interrupt: &'a Interrupt,
}

/// An answer, with what failed besides.
pub(super) struct Answer {
    pub(super) advice: Advice,
    /// What results name, and the command may have read.
    pub(super) named: Vec<PathBuf>,
    pub(super) problems: Vec<Error>,
}
