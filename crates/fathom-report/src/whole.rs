//! Files that appear whole or not at all.

use std::io::{BufWriter, Write};
use std::path::Path;

use crate::ReportError;

/// Writes `path` through a temporary file in the same directory that is renamed when it is complete and on the device: a
/// reader never sees half a report, and an old report stays until the new one is there.
///
/// # Errors
/// What `fill` says; a directory that cannot be written.
pub fn write_whole(
    path: &Path,
    fill: impl FnOnce(&mut dyn Write) -> Result<(), ReportError>,
) -> Result<(), ReportError> {
    let directory = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let wrong = |source: std::io::Error| ReportError::File { path: path.to_path_buf(), source };
    let mut builder = tempfile::Builder::new();
    builder.prefix(".fathom-report-");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        // As a plain `create` would make it; the umask still takes its share.
        builder.permissions(std::fs::Permissions::from_mode(0o666));
    }
    let file = builder.tempfile_in(directory).map_err(wrong)?;
    let mut out = BufWriter::with_capacity(1 << 16, file);
    fill(&mut out).map_err(|error| match error {
        ReportError::Io(source) => wrong(source),
        other => other,
    })?;
    let file = out.into_inner().map_err(|e| wrong(e.into_error()))?;
    file.as_file().sync_all().map_err(wrong)?;
    file.persist(path).map_err(|e| wrong(e.error))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_report_leaves_the_old_one_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("report.html");
        write_whole(&path, |out| Ok(out.write_all(b"old")?)).unwrap();
        let failed = write_whole(&path, |out| {
            out.write_all(b"half of the new")?;
            Err(ReportError::Io(std::io::Error::other("disk full")))
        });
        assert!(failed.unwrap_err().to_string().contains("report.html"));
        assert_eq!(std::fs::read(&path).unwrap(), b"old");
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
        let nowhere = write_whole(&directory.path().join("no/report.html"), |_| Ok(()));
        assert!(nowhere.unwrap_err().to_string().contains("no/report.html"));
    }
}
