//! Directories for what applications' users wrote.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use fathom_output::TemporaryPath;
use tempfile::TempDir;

use crate::error::TraceError;

/// A directory that goes when it is dropped, and when a signal ends the program.
pub(crate) struct Directory {
    // Dropped in this order: it is held until it is gone.
    made: TempDir,
    _held: TemporaryPath,
}

impl Directory {
    pub(crate) fn path(&self) -> &Path {
        self.made.path()
    }

    /// Lets it stay.
    pub(crate) fn keep(self) -> PathBuf {
        self.made.keep()
    }
}

/// A fresh directory in `parent` that only the user may enter, removed when it is dropped. The
/// files in it may have any mode: SQLite makes its own as the umask says, which lets everybody read
/// them.
///
/// # Errors
/// No such directory; one that cannot be written.
pub(crate) fn directory(prefix: &str, parent: &Path) -> Result<Directory, TraceError> {
    let make = || {
        tempfile::Builder::new()
            .prefix(prefix)
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(parent)
            .map_err(TraceError::io(parent))
    };
    let (made, held) = fathom_output::hold(make, TempDir::path)?;
    Ok(Directory { made, _held: held })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The spool of a capture, with the application's databases as they were, and the databases
    /// that `trace anonymise` unpacks into the machine's directory for temporary files stood in
    /// directories of mode 0755 under the usual umask: for as long as that took, any user of the
    /// machine could read what the trace itself (0600) keeps to its owner.
    #[test]
    fn nobody_else_may_enter_where_a_traces_databases_are_unpacked() {
        let parent = tempfile::tempdir().unwrap();
        let made = directory(".fathom-spool-", parent.path()).unwrap();
        let mode = std::fs::metadata(made.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
    }
}
