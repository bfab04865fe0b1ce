//! `fathom trace import`: a trace out of a log, scripts, or the spools of a broken capture.

use std::path::{Path, PathBuf};

use fathom_output::{shown, shown_path, tell};
use fathom_trace::import::{Format, Order, Request, import};

use crate::cli::{TraceFormat, TraceImport, TraceOrder};
use crate::outcome::{Error, Outcome};

/// Reads the input and says what was found in it.
pub fn run(asked: &TraceImport) -> super::super::Result {
    super::super::tidy_up_on_signals()?;
    let inputs: Vec<&Path> = asked.start.iter().chain([&asked.path]).map(PathBuf::as_path).collect();
    super::super::check_trace_output(&asked.out, &inputs)?;
    let format = asked.format.map(|format| match format {
        TraceFormat::Android => Format::Android,
        TraceFormat::Sql if asked.path.is_dir() => Format::Folder,
        TraceFormat::Sql => Format::Script,
        TraceFormat::Expanded => Format::Expanded,
        TraceFormat::PocketData if asked.path.extension().is_some_and(|extension| extension == "json") => {
            Format::PocketWorkload
        }
        TraceFormat::PocketData => Format::PocketData,
        TraceFormat::FileCalls => Format::FileCalls,
        TraceFormat::Spool => Format::Spool,
    });
    let order = asked.order.map(|order| match order {
        TraceOrder::Transaction => Order::Transaction,
        TraceOrder::RoundRobin => Order::RoundRobin,
        TraceOrder::Sequential => Order::Sequential,
    });
    let request = Request {
        path: asked.path.clone(),
        format,
        out: asked.out.clone(),
        starts: asked.start.clone(),
        order,
        seed: asked.seed,
        skip_bad: asked.skip_bad,
        max_steps: asked.max_steps,
    };
    let imported = import(&request).map_err(Error::of_trace)?;
    for warning in &imported.warnings {
        tell!("warning: {}", shown(warning));
    }
    for line in &imported.left_out {
        tell!("  {}", shown(line));
    }
    if imported.connections == 0 {
        tell!("fathom: {}: {} file calls", shown_path(&asked.out), imported.totals.events);
        return Ok(Outcome::Good);
    }
    tell!(
        "fathom: {}: {} events of {} connections",
        shown_path(&asked.out),
        imported.totals.events,
        imported.connections
    );
    // What goes to standard output has no name by which it could be asked for.
    if asked.out.as_os_str() != "-" {
        tell!("Next:  fathom trace info {}", super::super::quoted(&shown_path(&asked.out)));
    }
    Ok(Outcome::Good)
}
