//! What commands write to: looked at, all of it together, before anything is made.

use std::ffi::OsStr;
use std::io::Write;
use std::path::{Path, PathBuf};

use fathom_lab::store::Results;
use fathom_output::{Access, OutputError};
use fathom_report::ReportError;

use crate::outcome::Error;

/// Says what is wrong with an output before anything is made; `inputs` is all that the command
/// reads.
pub fn check_output(option: &str, file: &Path, inputs: &[&Path]) -> Result<(), Error> {
    let access = if option == EXCERPT { Access::Excerpt } else { Access::Public };
    fathom_output::check_access(file, inputs, access).map_err(|error| refused_or_failed(option, error))
}

/// The option of an excerpt, which alone may replace an earlier one.
const EXCERPT: &str = "--excerpt";

/// As [`check_output`], of a trace: it may replace another one that is no capture.
pub fn check_trace_output(file: &Path, inputs: &[&Path]) -> Result<(), Error> {
    fathom_trace::output::check(file, inputs).map_err(|error| match Error::of_trace(error) {
        Error::Usage(problem) => Error::usage(format!("--out {problem}")),
        Error::Failed(problem) => Error::failed(format!("--out {problem}")),
    })
}

/// As [`check_output`], of all outputs of a command: the options that name files, with these where
/// they were given, and the option by which it prints what goes to standard output. No two of them
/// may lead to the same place: the answer would be lost after hours.
pub fn check_outputs(
    files: &[(&str, Option<&Path>)],
    printed: Option<&str>,
    inputs: &[&Path],
) -> Result<(), Error> {
    let given: Vec<(&str, &Path)> =
        files.iter().filter_map(|(option, file)| Some((*option, (*file)?))).collect();
    let to_stdout = given.iter().filter(|(_, file)| fathom_output::is_standard_output(file));
    let to_stdout: Vec<&str> = printed.into_iter().chain(to_stdout.map(|(option, _)| *option)).collect();
    if to_stdout.len() > 1 {
        return Err(Error::usage(format!(
            "{}: both would go to standard output; name a file for one",
            to_stdout.join(" and ")
        )));
    }
    for (option, file) in &given {
        check_output(option, file, inputs)?;
    }
    for (number, (option, file)) in given.iter().enumerate() {
        if let Some((other, _)) =
            given.iter().take(number).find(|pair| fathom_output::is_same_file(pair.1, file))
        {
            let problem = "name the same file, or SQLite takes one for a part of the other: name two files";
            return Err(Error::usage(format!("{other} and {option} {problem}")));
        }
    }
    Ok(())
}

/// Whether one of these outputs goes to standard output. What people read is not printed then: it
/// would stand behind the file that is written there, and be a part of it.
pub fn takes_stdout(files: &[Option<&Path>]) -> bool {
    files.iter().flatten().any(|file| fathom_output::is_standard_output(file))
}

/// As [`check_output`], of a name that the user did not give: only an earlier output, which `mark`
/// shows, is replaced.
pub fn check_unnamed(what: &str, file: &Path, inputs: &[&Path], mark: &str) -> Result<(), Error> {
    fathom_output::check_unnamed(file, inputs, mark).map_err(|error| refused_or_failed(what, error))
}

/// A file into which recordings are kept: a new one, that can become a results file.
pub fn check_kept(out: &Path) -> Result<(), Error> {
    let refused =
        |problem: &str| Error::usage(format!("--out {}: {problem}", fathom_output::shown_path(out)));
    if out.as_os_str() == OsStr::new("-") {
        return Err(refused("recordings are kept in a file: name one"));
    }
    if out.exists() {
        return Err(refused("is there already: name another file"));
    }
    fathom_lab::store::check_new(out).map_err(|error| Error::usage(format!("--out {error}")))
}

/// The files that results name as their work: traces and recordings of file calls. A command that
/// reads such results may read them, too, and nobody can make them again.
pub fn named_inputs(results: &Results) -> Vec<PathBuf> {
    let params = results.cells.iter().map(|cell| &cell.spec.workload.params);
    let named =
        params.flat_map(|params| ["file", "calls"].into_iter().filter_map(|key| params.get(key)?.as_str()));
    let mut files: Vec<PathBuf> = Vec::new();
    for file in named.map(PathBuf::from) {
        if !files.contains(&file) {
            files.push(file);
        }
    }
    files
}

/// All that a command reads: what it was given, and what results name.
pub fn all_inputs<'a>(given: &[&'a Path], named: &'a [PathBuf]) -> Vec<&'a Path> {
    given.iter().copied().chain(named.iter().map(PathBuf::as_path)).collect()
}

/// Writes the HTML report; a reader never sees half of it.
pub fn write_html(option: &str, results: &Results, file: &Path, inputs: &[&Path]) -> Result<(), Error> {
    write(option, file, inputs, |out| fathom_report::html(results, out))
}

/// Writes an excerpt of results; a reader never sees half of it.
pub fn write_excerpt(option: &str, results: &Results, file: &Path, inputs: &[&Path]) -> Result<(), Error> {
    let written = fathom_report::write_excerpt(file, inputs, |out| Ok(results.excerpt(out)?));
    written.map_err(|error| in_words(option, error))
}

/// Writes a text as a file.
pub fn write_text(option: &str, file: &Path, inputs: &[&Path], text: &str) -> Result<(), Error> {
    write(option, file, inputs, |out| Ok(out.write_all(text.as_bytes())?))
}

/// Writes what `fill` makes as a file.
pub fn write_filled(
    option: &str,
    file: &Path,
    inputs: &[&Path],
    fill: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
) -> Result<(), Error> {
    write(option, file, inputs, |out| Ok(fill(out)?))
}

/// Writes a copy of a file.
pub fn write_copy(option: &str, file: &Path, inputs: &[&Path], of: &Path) -> Result<(), Error> {
    let mut from = std::fs::File::open(of)
        .map_err(|error| Error::failed(format!("{}: {error}", fathom_output::shown_path(of))))?;
    write(option, file, inputs, |out| Ok(std::io::copy(&mut from, out).map(drop)?))
}

fn write(
    option: &str,
    file: &Path,
    inputs: &[&Path],
    fill: impl FnOnce(&mut dyn Write) -> Result<(), ReportError>,
) -> Result<(), Error> {
    fathom_report::write_whole(file, inputs, fill).map_err(|error| in_words(option, error))
}

fn in_words(option: &str, error: ReportError) -> Error {
    match error {
        ReportError::File(error) => refused_or_failed(option, error),
        other => Error::failed(other),
    }
}

/// What there is to do where there is no space for a file that an option names.
const NAME_ANOTHER: &str = "name a file on another disk";
/// The same of the report of `fathom run`, which has its place beside the results.
const WRITE_ELSEWHERE: &str = "write it elsewhere: `fathom report RESULTS.db --html FILE`";

/// A name that must not be written to was asked for wrongly; all else has failed here.
pub fn refused_or_failed(option: &str, error: OutputError) -> Error {
    match error {
        OutputError::Refused { .. } => Error::usage(format!("{option} {error}")),
        OutputError::Io { source, path } if fathom_ground::system::is_full_disk(&source) => {
            Error::failed(format!(
                "{option} {}: {source}. Nothing was written there: free some space, or {}",
                fathom_output::shown_path(&path),
                if option.starts_with("--") { NAME_ANOTHER } else { WRITE_ELSEWHERE }
            ))
        }
        OutputError::Io { .. } => Error::failed(format!("{option} {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened: whoever had no space for the report of `fathom run` was told to name another
    /// file for it, for which that has no option.
    #[test]
    fn what_there_is_no_space_for_has_the_remedy_of_its_own_option() {
        let told = |option: &str| {
            let source = std::io::Error::from(std::io::ErrorKind::StorageFull);
            let error = OutputError::Io { path: "r.html".into(), source };
            refused_or_failed(option, error).message().to_owned()
        };
        assert!(told("--html").ends_with(NAME_ANOTHER), "{}", told("--html"));
        assert!(told("the report").contains("fathom report RESULTS.db --html"), "{}", told("the report"));
    }
}
