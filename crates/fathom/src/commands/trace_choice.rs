//! The trace that a word of the command line names.

use std::path::Path;

use fathom_diagnostic::suggest::{did_you_mean, nearest};
use fathom_lab::experiment::TraceChoice;
use fathom_output::shown_path;
use fathom_trace::synthesise::{NAMES, profile};

use crate::outcome::Error;

/// The trace that `--trace` names: a file, or a profile.
pub(super) fn trace(word: &str) -> Result<TraceChoice, Error> {
    trace_of("--trace ", word)
}

/// The trace that a word names: a file, or a profile. `before` is what errors put before the word.
pub(super) fn trace_of(before: &str, word: &str) -> Result<TraceChoice, Error> {
    let path = Path::new(word);
    if path.is_file() {
        // Says at once what is wrong with it, before anything is made.
        fathom_trace::Reader::open(path).map_err(|error| Error::usage(format!("{before}{error}")))?;
        let stem =
            path.file_stem().map_or_else(|| word.to_owned(), |name| name.to_string_lossy().into_owned());
        let value = std::path::absolute(path).map_err(Error::usage)?;
        let value = value.to_str().ok_or_else(|| {
            Error::usage(format!("{before}{word}: its path is not text (UTF-8); move or rename it"))
        })?;
        return Ok(TraceChoice { label: stem, parameter: "file", value: value.to_owned() });
    }
    if profile(word).is_ok() {
        return Ok(TraceChoice { label: word.to_owned(), parameter: "profile", value: word.to_owned() });
    }
    if path.is_dir() {
        let shown = shown_path(path);
        return Err(Error::usage(format!(
            "{before}{shown}: it is a directory and no trace; what an application's scripts in it do becomes one by \
             `fathom trace import {} --out app.trace`",
            super::quoted(&shown)
        )));
    }
    if path.exists() {
        return Err(Error::usage(format!("{before}{}: it is no file, and so no trace", shown_path(path))));
    }
    let hint = did_you_mean(nearest(word, NAMES));
    Err(Error::usage(format!(
        "{before}{word}: there is no such file, and no profile of this name{hint}\n`fathom list profiles` shows what can be made up"
    )))
}
