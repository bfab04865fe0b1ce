//! The files that an answer goes into.

use std::path::{Path, PathBuf};

use fathom_output::shown_path;
use fathom_report::HTML_MARK;

use crate::cli::Advise;
use crate::commands;
use crate::outcome::Error;

/// Where the page goes, and whether that is its whole name: in a directory it has the trace's.
pub(super) fn report_file(asked: &Advise, title: &str) -> Option<(PathBuf, bool)> {
    let given = asked.html.as_ref()?;
    if given.is_dir() {
        return Some((given.join(format!("{title}-advice.html")), false));
    }
    Some((given.clone(), true))
}

pub(super) fn check_outputs(asked: &Advise, inputs: &[&Path]) -> Result<(), Error> {
    // In a directory the report's name is known when the trace's is.
    let html = asked.html.as_deref().filter(|file| !file.is_dir());
    let files = [("--out", asked.out.as_deref()), ("--html", html)];
    commands::check_outputs(&files, asked.json.then_some("--json"), inputs)?;
    asked.out.as_deref().map_or(Ok(()), commands::check_kept)
}

/// As [`check_outputs`], of the name that the report has in a directory.
pub(super) fn check_report_in_directory(asked: &Advise, title: &str) -> Result<(), Error> {
    let Some((file, false)) = report_file(asked, title) else { return Ok(()) };
    commands::check_unnamed("--html", &file, &[&asked.input], HTML_MARK)?;
    match &asked.out {
        Some(out) if fathom_output::is_same_file(out, &file) => {
            Err(Error::usage(format!("--out and --html: both would write {}", shown_path(&file))))
        }
        _ => Ok(()),
    }
}
