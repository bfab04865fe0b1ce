//! The table of what earlier calls have found.

use std::io::Read;
use std::path::{Path, PathBuf};

use fathom_output::shown_path;
use fathom_report::Cuts;

use super::recordings::is_index;
use crate::commands;
use crate::outcome::{Error, Outcome};

/// Octets of the largest file that is read: those of all file systems together have some 100 KiB.
const LARGEST: u64 = 64 << 20;

/// The table of what was printed as JSON.
pub(super) fn table(files: &[PathBuf]) -> commands::Result {
    let mut all = Cuts::default();
    for file in files {
        let wrong =
            |error: &dyn std::fmt::Display| Error::usage(format!("--table {}: {error}", shown_path(file)));
        let wanted = "what `fathom cut --json` has printed";
        let mut text = String::new();
        let read =
            std::fs::File::open(file).and_then(|file| file.take(LARGEST + 1).read_to_string(&mut text));
        read.map_err(|error| wrong(&format!("{error}; give a file of {wanted}")))?;
        if text.len() as u64 > LARGEST {
            return Err(wrong(&format!("it has more than {} MiB, and so is not {wanted}", LARGEST >> 20)));
        }
        let read: Cuts = serde_json::from_str(&text).map_err(|error| {
            if !is_index(&text) {
                return wrong(&format!("it is not {wanted}: {error}"));
            }
            let above = file.parent().filter(|above| !above.as_os_str().is_empty());
            let directory = shown_path(above.unwrap_or(Path::new(".")));
            wrong(&format!(
                "it says what recordings are of, and not what became of them: give {wanted}, of these recordings \
                 with --replay {directory}"
            ))
        })?;
        all.cells.extend(read.cells);
    }
    commands::open_stdout()?;
    fathom_output::raw(&all.markdown());
    Ok(Outcome::Good)
}
