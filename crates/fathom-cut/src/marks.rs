//! Marks in the device's own order.

use std::fs::{File, OpenOptions};
use std::path::Path;

use crate::error::CutError;

/// The file that takes marks.
pub(crate) struct Marks(File);

impl Marks {
    pub fn open(path: &Path) -> Result<Marks, CutError> {
        let file = OpenOptions::new().write(true).open(path);
        file.map(Marks).map_err(CutError::io("open the device's file for marks"))
    }

    /// Tells the device a number; once this returns it stands in the log.
    pub fn tell(&self, number: u64) -> Result<(), CutError> {
        use std::os::unix::fs::FileExt;
        let text = number.to_string();
        self.0.write_all_at(text.as_bytes(), 0).map_err(CutError::io("mark a commit"))
    }
}
