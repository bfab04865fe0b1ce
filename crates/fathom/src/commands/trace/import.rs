//! `fathom trace import`: a trace out of a log, scripts, or the spools of a broken capture.

use std::path::{Path, PathBuf};

use fathom_output::tell;
use fathom_trace::import::{Format, Request, import};

use crate::cli::{TraceFormat, TraceImport};
use crate::outcome::Outcome;

/// Reads the input and says what was found in it.
pub fn run(asked: &TraceImport) -> super::super::Result {
    let inputs: Vec<&Path> = asked.start.iter().chain([&asked.path]).map(PathBuf::as_path).collect();
    super::super::check_output("--out", &asked.out, &inputs)?;
    let format = asked.format.map(|format| match format {
        TraceFormat::Android => Format::Android,
        TraceFormat::Sql if asked.path.is_dir() => Format::Folder,
        TraceFormat::Sql => Format::Script,
        TraceFormat::Expanded => Format::Expanded,
        TraceFormat::Spool => Format::Spool,
    });
    let request =
        Request { path: asked.path.clone(), format, out: asked.out.clone(), starts: asked.start.clone() };
    let imported = import(&request).map_err(super::asked_or_failed)?;
    for warning in &imported.warnings {
        tell!("warning: {warning}");
    }
    tell!(
        "fathom: {}: {} events of {} connections",
        asked.out.display(),
        imported.totals.events,
        imported.connections
    );
    tell!("Next:  fathom trace info {}", asked.out.display());
    Ok(Outcome::Good)
}
