//! The directory under test.

use std::path::{Path, PathBuf};

use fathom_ground::system::may_write;
use fathom_lab::schedule::disk_of;
use fathom_lab::store::Results;

use crate::cli::Run;
use crate::outcome::Error;

/// Refuses a `--dir` in which nothing can be made, before the plan.
pub(super) fn check_directory(directory: &Path) -> Result<(), Error> {
    let refused =
        |problem: String| Error::usage(format!("--dir {}: {problem}", fathom_output::shown_path(directory)));
    let kind = std::fs::metadata(directory)
        .map_err(|error| refused(format!("{error}; it must be a directory on the disk under test")))?;
    if !kind.is_dir() {
        return Err(refused("not a directory".into()));
    }
    match may_write(directory).map_err(|error| error.raw_os_error()) {
        Err(Some(libc::EROFS)) => {
            Err(refused("it is on a file system that is mounted read-only; give another directory".into()))
        }
        Err(Some(libc::EACCES)) => {
            Err(refused("you may not write there; give a directory of your own".into()))
        }
        // What else there is to say is said when something is made there.
        _ => Ok(()),
    }
}

/// Refuses to go on, where no directory is named, with results whose runs were made on another
/// disk: the runs of both would be taken together.
pub(super) fn check_same_disk(asked: &Run, file: &Path, earlier: &Results) -> Result<(), Error> {
    if asked.dir.is_some() || !asked.on.is_empty() {
        return Ok(());
    }
    let (Some(then), Some(now)) = (earlier.environment.get("disk"), disk_of(directory_of(file))) else {
        return Ok(());
    };
    if *then == now {
        return Ok(());
    }
    Err(Error::usage(format!(
        "{}: its runs were made on another disk ({}) than the one that it lies on ({}). Name their directory again, with \
         --dir; if the disk is the same under another name, that is --dir {}",
        fathom_output::shown_path(file),
        fathom_output::shown(then),
        fathom_output::shown(&now),
        fathom_output::shown_path(directory_of(file)),
    )))
}

/// Where a file lies, as the user called it.
fn directory_of(file: &Path) -> &Path {
    file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The disk under test: `--dir`, or where the results are. The directory of the results is made.
pub(super) fn working_directory(asked: &Run, file: &Path) -> Result<PathBuf, Error> {
    let parent = directory_of(file);
    let directory = match &asked.dir {
        Some(directory) => directory.clone(),
        None => parent.to_path_buf(),
    };
    std::fs::create_dir_all(parent).map_err(|error| {
        Error::failed(format!(
            "{}: {error}; choose another place with --out",
            fathom_output::shown_path(parent)
        ))
    })?;
    std::path::absolute(&directory)
        .map_err(|error| Error::failed(format!("{}: {error}", fathom_output::shown_path(&directory))))
}
