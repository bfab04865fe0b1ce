//! The file of a run's results, the report beside it, and what becomes of earlier ones.

use std::path::{Path, PathBuf};

use fathom_lab::conduct;
use fathom_lab::store::{self, Lock, Results, StoreError};

use crate::cli::Run;
use crate::outcome::Error;

/// Where the results go: `--out`, or `fathom-out/NAME/results.db` where the user stands.
pub(super) fn results_file(asked: &Run, name: &str) -> Result<PathBuf, Error> {
    let file = match &asked.out {
        Some(file) => file.clone(),
        None => conduct::default_out(name),
    };
    let refused =
        |problem: &str| Err(Error::usage(format!("--out {}: {problem}", fathom_output::shown_path(&file))));
    if file.is_dir() || file.as_os_str().as_encoded_bytes().ends_with(b"/") {
        return refused("a directory; name a file in it");
    }
    if file.as_os_str() == "-" || file.file_name().is_none() {
        return refused("results are kept in a file: name one");
    }
    if asked.out.is_some() && report_file(asked, &file) == file {
        return refused("the report would have this name: end that of the results in .db");
    }
    if !file.exists() {
        store::check_new(&file).map_err(|error| Error::usage(format!("--out {error}")))?;
    }
    if asked.out.is_some() && !asked.resume && file.exists() {
        // What is no results file cannot be gone on with either.
        Results::load(&file).map_err(|error| Error::usage(format!("--out {error}; name another file")))?;
        return Err(Error::usage(StoreError::Exists { path: file }));
    }
    Ok(file)
}

/// Where the report goes: beside the results.
pub(super) fn report_file(asked: &Run, file: &Path) -> PathBuf {
    if asked.out.is_none() {
        return file.with_file_name("report.html");
    }
    let mut name = file.file_stem().unwrap_or_default().to_owned();
    name.push(".html");
    file.with_file_name(name)
}

/// Renames results (with their report and write-ahead log) to the first free number:
/// `results.1.db`.
pub(super) fn move_aside(file: &Path) -> Result<PathBuf, Error> {
    // Never from under another run: SQLite's files of both would be mixed up.
    let _lock = Lock::take(file).map_err(Error::failed)?;
    let numbered = |number: u32| file.with_file_name(format!("results.{number}.db"));
    let its_report = |number: u32| file.with_file_name(format!("report.{number}.html"));
    let is_free = |path: PathBuf| path.symlink_metadata().is_err();
    let number =
        (1..).find(|number| is_free(numbered(*number)) && is_free(its_report(*number))).unwrap_or(u32::MAX);
    let aside = numbered(number);
    let beside = |path: &Path, end: &str| {
        let mut name = path.as_os_str().to_owned();
        name.push(end);
        PathBuf::from(name)
    };
    for end in ["-wal", "-shm"] {
        if beside(file, end).exists() {
            rename(&beside(file, end), &beside(&aside, end))?;
        }
    }
    let report = file.with_file_name("report.html");
    if report.exists() {
        rename(&report, &its_report(number))?;
    }
    rename(file, &aside)?;
    Ok(aside)
}

fn rename(from: &Path, to: &Path) -> Result<(), Error> {
    std::fs::rename(from, to).map_err(|error| {
        Error::failed(format!(
            "{} → {}: {error}",
            fathom_output::shown_path(from),
            fathom_output::shown_path(to)
        ))
    })
}
