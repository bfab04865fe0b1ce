//! States of file systems that only the guest kernel has.
//!
//! One guest is booted for each thread that judges; its disk is the image in memory, whose content
//! the host changes between two checks. Its first process is this same program
//! (`fathom cut-guest`), which for each request forgets what it has of the disk, mounts it, has the
//! database recovered, takes the mount away and answers. Nothing of it outlives the process that
//! booted it.
//!
//! The run itself is recorded in the guest of a stack (`fathom_stack`): `run` there, and the
//! host marks each step that it says.

mod agent;
mod host;
mod run;

pub use agent::main;
pub(crate) use host::Guest;
pub(crate) use run::record;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::found_file::FoundFile;
use crate::inspection::Inspection;
use crate::subject::Subject;

/// The disks of a guest: the file system's, and its external log's.
pub(crate) const DISK: &str = "/dev/ubda";
pub(crate) const LOG_DISK: &str = "/dev/ubdb";

/// The word with which `fathom` is this.
pub(crate) const COMMAND: &str = "cut-guest";

/// What a guest is asked: to mount its disk and look at it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Request {
    pub driver: String,
    /// Words of the driver's own, with commas.
    pub options: String,
    /// Below the root of the file system.
    pub database: PathBuf,
    pub subject: Subject,
    /// Whether states whose files hold the same are looked at once.
    pub is_told_by_files: bool,
    /// Only the files are asked for.
    pub files: bool,
}

/// What it answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Answer {
    /// It is up.
    Ready,
    /// What the database holds.
    Found(Inspection),
    /// The files; or why they cannot be read.
    Files(Result<Vec<FoundFile>, String>),
    /// The disk cannot be mounted.
    Unmountable(String),
    /// The guest itself cannot go on.
    Broken(String),
}
