//! `fathom anatomy`: one commit on one time line.

use std::path::Path;

use fathom_lab::anatomy::{AnatomyError, Selection, anatomy};
use fathom_output::{say, shown_path};

use crate::cli::Anatomy;
use crate::outcome::{Error, Outcome};

/// Prints what one execution waited for; with `--svg` a picture, with `--perfetto` trace events.
pub fn run(asked: &Anatomy) -> super::Result {
    let inputs: [&Path; 1] = [&asked.results];
    let outputs = [("--svg", asked.svg.as_deref()), ("--perfetto", asked.perfetto.as_deref())];
    let printed = asked.json.then_some("--json");
    super::check_outputs(&outputs, printed, &inputs)?;
    let results = super::load(&asked.results)?;
    let named = super::named_inputs(&results);
    let inputs = super::all_inputs(&inputs, &named);
    super::check_outputs(&outputs, printed, &inputs)?;
    let wanted =
        Selection { cell: asked.cell.clone(), phase: asked.phase.clone(), execution: asked.execution };
    let found = anatomy(&results, &wanted).map_err(|error| match error {
        AnatomyError::Absent(text) => Error::usage(text),
        AnatomyError::Results(error) => Error::failed(error),
    })?;
    if let Some(file) = &asked.svg {
        super::write_text("--svg", file, &inputs, &fathom_report::anatomy_svg(&found))?;
    }
    if let Some(file) = &asked.perfetto {
        let events = fathom_report::anatomy_trace_events(&found).to_string();
        super::write_text("--perfetto", file, &inputs, &(events + "\n"))?;
    }
    if asked.json {
        return super::print_json(&fathom_report::anatomy_json(&found));
    }
    if super::takes_stdout(&[asked.svg.as_deref(), asked.perfetto.as_deref()]) {
        return Ok(Outcome::Good);
    }
    fathom_output::raw(&fathom_report::anatomy_terminal(&found, &super::style()));
    if let Some(file) = &asked.perfetto {
        say!("\n  {}: open it at https://ui.perfetto.dev, which keeps it in your browser", shown_path(file));
    }
    Ok(Outcome::Good)
}
