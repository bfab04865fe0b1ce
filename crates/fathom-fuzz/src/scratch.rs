//! A directory in memory, for what wants files.

use std::path::{Path, PathBuf};

/// A directory that goes when it is dropped; on a file system in memory where there is one, so that
/// a case costs microseconds.
///
/// It is the directory `inside` of another one, whose other names are checked by
/// [`Scratch::outside_is_untouched`].
#[derive(Debug)]
pub struct Scratch {
    outside: tempfile::TempDir,
    inside: PathBuf,
}

impl Scratch {
    /// A fresh one.
    ///
    /// # Errors
    /// No directory can be made, in memory or elsewhere.
    pub fn new() -> std::io::Result<Scratch> {
        let memory = Path::new("/dev/shm");
        let named = || tempfile::Builder::new().prefix(".fathom-fuzz-").to_owned();
        let outside = named().tempdir_in(memory).or_else(|_| named().tempdir())?;
        let inside = outside.path().join("inside");
        std::fs::create_dir(&inside)?;
        Ok(Scratch { outside, inside })
    }

    /// The directory that a target may use.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.inside
    }

    /// The directory around it, in which nothing may change.
    #[must_use]
    pub fn outside(&self) -> &Path {
        self.outside.path()
    }

    /// Whether the directory around holds what a test put there, `names` and the directory itself,
    /// and nothing else.
    ///
    /// # Errors
    /// A sentence that names what has come or gone.
    pub fn outside_is_untouched(&self, names: &[&str]) -> Result<(), String> {
        let mut found: Vec<String> = std::fs::read_dir(self.outside())
            .map_err(|error| error.to_string())?
            .filter_map(|entry| Some(entry.ok()?.file_name().to_string_lossy().into_owned()))
            .filter(|name| name != "inside")
            .collect();
        found.sort();
        if found == names {
            Ok(())
        } else {
            Err(format!("outside of the directory there is now {found:?}, not {names:?}"))
        }
    }

    /// Removes everything inside.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn clear(&self) -> std::io::Result<()> {
        for entry in std::fs::read_dir(&self.inside)? {
            let path = entry?.path();
            if path.is_dir() { std::fs::remove_dir_all(&path)? } else { std::fs::remove_file(&path)? }
        }
        Ok(())
    }
}
