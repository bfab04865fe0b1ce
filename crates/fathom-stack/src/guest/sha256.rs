//! The SHA-256 of a file, by the program that every Linux has for it.

use std::path::Path;
use std::time::Duration;

use fathom_ground::command::{CommandError, CommandLine};

/// Long enough for the archive of a kernel's source on a busy machine.
const LIMIT: Duration = Duration::from_secs(600);

/// As 64 hex digits.
///
/// # Errors
/// `sha256sum` is not there, cannot read the file, or takes too long.
pub(super) fn sha256(file: &Path) -> Result<String, CommandError> {
    let output =
        CommandLine::new("sha256sum", ["--binary".as_ref(), "--".as_ref(), file.as_os_str()]).run(LIMIT)?;
    // A name with a backslash or a line's end is marked by a backslash before the sum.
    Ok(output.stdout.trim_start_matches('\\').split_whitespace().next().unwrap_or_default().to_owned())
}
