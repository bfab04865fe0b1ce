//! Which file it was that was opened: whoever has it open can write to it after it was deleted, and
//! what is written then is lost.

use crate::transaction::StoreError;
use std::io::{Error, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A path, and the file or directory that was there.
pub(crate) struct FileIdentity {
    path: PathBuf,
    device: u64,
    inode: u64,
}

impl FileIdentity {
    /// What is there now.
    ///
    /// # Errors
    /// I/O; there is nothing.
    pub fn of(path: &Path) -> Result<FileIdentity, StoreError> {
        let there = std::fs::metadata(path).map_err(StoreError::io(path))?;
        Ok(FileIdentity { path: path.to_owned(), device: there.dev(), inode: there.ino() })
    }

    /// Refuses to go on if that is not there any more.
    ///
    /// # Errors
    /// [`StoreError::Gone`]; I/O.
    pub fn require(&self) -> Result<(), StoreError> {
        let gone = || StoreError::Gone { path: self.path.display().to_string() };
        let missing = |error: &Error| matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory);
        match std::fs::metadata(&self.path) {
            Ok(there) if (there.dev(), there.ino()) == (self.device, self.inode) => Ok(()),
            Ok(_) => Err(gone()),
            Err(error) if missing(&error) => Err(gone()),
            Err(error) => Err(StoreError::io(&self.path)(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_deleted_moved_or_replaced_is_known() {
        let dir = tempfile::tempdir().unwrap();
        let (path, away) = (dir.path().join("file"), dir.path().join("away"));
        std::fs::write(&path, "1").unwrap();
        let file = FileIdentity::of(&path).unwrap();
        std::fs::write(&path, "2").unwrap();
        file.require().unwrap();
        std::fs::rename(&path, &away).unwrap();
        assert!(matches!(file.require(), Err(StoreError::Gone { .. })));
        std::fs::write(&path, "3").unwrap();
        assert!(matches!(file.require(), Err(StoreError::Gone { .. })));
        std::fs::rename(&away, &path).unwrap();
        file.require().unwrap();
        assert!(FileIdentity::of(&away).is_err());
    }
}
