//! Running a program with the capture library before its SQLite.
//!
//! The library and the loadable extension are inside this program and are written into the spool's
//! directory, which is made beside the trace and removed when the trace is written. Every process
//! of the program finds both by its environment.

mod library;
mod notes;
mod program;
mod wait;

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use crate::error::TraceError;
use crate::format::Writer;
use crate::model::Origin;
use crate::spool::{MergeReport, merge};

pub use library::write_extension;

/// Environment variable that names the directory of the spools.
pub const SPOOL_VARIABLE: &str = "FATHOM_TRACE_SPOOL";

/// Environment variable that names the loadable extension, for a program that must load it itself.
pub const EXTENSION_VARIABLE: &str = "FATHOM_TRACE_EXTENSION";

/// What is captured, and where to.
#[derive(Clone, Debug)]
pub struct Request {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// The trace.
    pub out: PathBuf,
    /// Directory in which the spool's directory is made; none: that of the trace.
    pub spool: Option<PathBuf>,
}

/// How it ended.
#[derive(Debug)]
pub struct CaptureResult {
    /// How the program ended.
    pub status: ExitStatus,
    /// What the trace holds.
    pub merged: MergeReport,
    /// Where no call was seen: why that may be. No trace was written.
    pub unseen: Option<String>,
    /// Processes of the program that were still running when the capture was ended.
    pub left: usize,
}

/// Runs the program to its end, and that of its processes in the background, and writes the trace.
///
/// # Errors
/// A program that cannot be started; a directory that cannot be written. What was captured is kept
/// in the spool's directory when the trace cannot be written, and the error names it.
pub fn capture(request: &Request, say: &mut dyn FnMut(&str)) -> Result<CaptureResult, TraceError> {
    let inputs = named_files(&request.command);
    let inputs: Vec<&Path> = inputs.iter().map(PathBuf::as_path).collect();
    // Before the program does what cannot be done twice.
    crate::output::check(&request.out, &inputs)?;
    if fathom_output::is_standard_output(&request.out) {
        let what = request.out.display();
        return Err(TraceError::refused(what, "the program writes to standard output itself: name a file"));
    }
    let beside =
        request.out.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let parent =
        std::path::absolute(request.spool.as_deref().unwrap_or(beside)).map_err(TraceError::io(beside))?;
    let spool = crate::private::directory(".fathom-spool-", &parent)?;
    let preload = library::write_preload(spool.path())?;
    let extension = spool.path().join(library::EXTENSION_NAME);
    write_extension(&extension)?;
    let (program, arguments) = request.command.split_first().ok_or_else(|| {
        TraceError::refused("capture", "no program; as in: fathom trace capture --out app.trace -- ./app")
    })?;
    let mut command = Command::new(program);
    command.args(arguments).env(SPOOL_VARIABLE, spool.path()).env(EXTENSION_VARIABLE, &extension);
    command.env("LD_PRELOAD", with_earlier(&preload, std::env::var_os("LD_PRELOAD")));
    let (status, left) = wait::run(command, say)?;
    let what = request.command.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
    let origin = Origin { how: "capture".into(), what, unix_s: 0, anonymised: false };
    // What was free to be written when the program began may be taken by now.
    let written = Writer::create_beside(&request.out, &inputs)
        .and_then(|mut writer| merge(spool.path(), origin, &mut writer).map(|merged| (merged, writer)));
    let merged = match written {
        Ok((merged, _)) if merged.events == 0 => {
            let unseen = Some(match merged.cut {
                0 => program::why_unseen(program, &notes::CaptureNotes::read(spool.path())),
                _ => "the disk was full before the first one, or the program may write no file (ulimit -f); give --spool DIR on \
                      a larger disk, or a larger limit"
                    .into(),
            });
            return Ok(CaptureResult { status, merged, unseen, left });
        }
        Ok((merged, writer)) => writer.finish().map(|_| merged),
        Err(error) => Err(error),
    };
    match merged {
        Ok(merged) => Ok(CaptureResult { status, merged, unseen: None, left }),
        Err(error) => {
            let kept = spool.keep();
            let problem = format!(
                "{error}; what was captured is kept:  fathom trace import {} --out FILE",
                kept.display()
            );
            Err(TraceError::refused("the trace could not be written", problem))
        }
    }
}

/// Files that the command line names: the program, and what it is told to work on. A trace must not
/// replace them.
fn named_files(command: &[OsString]) -> Vec<PathBuf> {
    command.iter().map(PathBuf::from).filter(|word| word.is_file()).collect()
}

/// Ours first, then what the user preloads.
fn with_earlier(own: &Path, earlier: Option<OsString>) -> OsString {
    let mut value = own.as_os_str().to_owned();
    if let Some(earlier) = earlier.filter(|earlier| !earlier.is_empty()) {
        value.push(":");
        value.push(earlier);
    }
    value
}
