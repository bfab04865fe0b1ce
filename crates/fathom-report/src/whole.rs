//! Files that appear whole or not at all.

use std::io::Write;
use std::path::Path;

use fathom_output::{Access, OutputError};

use crate::ReportError;

/// Writes `path` by the rules of [`fathom_output`]: a reader never sees half a report, an old
/// report stays until the new one is there, and what is no file, or holds results, is not replaced.
/// `inputs` is all that the command reads.
///
/// # Errors
/// What `fill` says; a place that cannot or must not be written.
pub fn write_whole(
    path: &Path,
    inputs: &[&Path],
    fill: impl FnOnce(&mut dyn Write) -> Result<(), ReportError>,
) -> Result<(), ReportError> {
    write_as(path, inputs, Access::Public, fill)
}

/// As [`write_whole`], of an excerpt of results, which may replace an earlier one.
///
/// # Errors
/// As [`write_whole`].
pub fn write_excerpt(
    path: &Path,
    inputs: &[&Path],
    fill: impl FnOnce(&mut dyn Write) -> Result<(), ReportError>,
) -> Result<(), ReportError> {
    write_as(path, inputs, Access::Excerpt, fill)
}

fn write_as(
    path: &Path,
    inputs: &[&Path],
    access: Access,
    fill: impl FnOnce(&mut dyn Write) -> Result<(), ReportError>,
) -> Result<(), ReportError> {
    fathom_output::write(path, inputs, access, |out| {
        fill(out).map_err(|error| match error {
            ReportError::Io(source) => OutputError::Io { path: path.to_owned(), source }.into(),
            other => other,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_report_leaves_the_old_one_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("report.html");
        write_whole(&path, &[], |out| Ok(out.write_all(b"old")?)).unwrap();
        let failed = write_whole(&path, &[], |out| {
            out.write_all(b"half of the new")?;
            Err(ReportError::Io(std::io::Error::other("disk full")))
        });
        assert!(failed.unwrap_err().to_string().contains("report.html"));
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
        let nowhere = write_whole(&directory.path().join("no/report.html"), &[], |_| Ok(()));
        assert!(nowhere.unwrap_err().to_string().contains("no/report.html"));
    }
}
