//! What the captured processes were and loaded, as the capture library noted it (`capture/seen.h`).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Each path once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CaptureNotes {
    /// Programs into which the capture library was loaded.
    pub programs: BTreeSet<PathBuf>,
    /// Libraries of processes that called no SQLite.
    pub libraries: BTreeSet<PathBuf>,
    /// Libraries that were opened in a name space of their own (`dlmopen`).
    pub apart: BTreeSet<PathBuf>,
}

impl CaptureNotes {
    /// Reads the notes in a spool's directory. They serve a message only: what cannot be read is
    /// left out.
    pub fn read(directory: &Path) -> CaptureNotes {
        use std::os::unix::ffi::OsStrExt;
        let mut all = CaptureNotes::default();
        let notes = std::fs::read(directory.join("seen")).unwrap_or_default();
        for line in notes.split(|byte| *byte == b'\n') {
            let Some(tab) = line.iter().position(|byte| *byte == b'\t') else { continue };
            let path = PathBuf::from(std::ffi::OsStr::from_bytes(&line[tab + 1..]));
            match &line[..tab] {
                b"program" => all.programs.insert(path),
                b"library" => all.libraries.insert(path),
                b"apart" => all.apart.insert(path),
                _ => false,
            };
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notes_of_several_processes_are_each_path_once() {
        let directory = tempfile::tempdir().expect("a directory");
        assert_eq!(CaptureNotes::read(directory.path()), CaptureNotes::default());
        let notes = "program\t/bin/a\nlibrary\t/lib/x y.so\nprogram\t/bin/a\napart\tz.so\nother\tq\nno tab\n";
        std::fs::write(directory.path().join("seen"), notes).expect("written");
        let set = |path: &str| BTreeSet::from([PathBuf::from(path)]);
        let expected =
            CaptureNotes { programs: set("/bin/a"), libraries: set("/lib/x y.so"), apart: set("z.so") };
        assert_eq!(CaptureNotes::read(directory.path()), expected);
    }
}
