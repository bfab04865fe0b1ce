//! `fathom baseline RESULTS.db`: a measurement as a text for a repository.

use std::path::Path;

use fathom_lab::analysis::{Analysis, Side, says_baseline};
use fathom_output::tell;

use crate::cli::Baseline;
use crate::outcome::{Error, Outcome};

/// Prints the baseline, or writes it into a file.
pub fn run(asked: &Baseline) -> super::Result {
    let inputs = [&*asked.results];
    if let Some(file) = &asked.out {
        super::check_output("--out", file, &inputs)?;
    }
    let results = super::load(&asked.results)?;
    let named = super::named_inputs(&results);
    let inputs = super::all_inputs(&inputs, &named);
    if let Some(file) = &asked.out {
        super::check_output("--out", file, &inputs)?;
        spare_others(file)?;
    }
    let analysis = Analysis::of(&results).map_err(Error::failed)?;
    let side = Side::of(&results, &analysis);
    if side.cells.is_empty() {
        return Err(Error::failed(format!(
            "{}: no cell has a good run, so there is nothing to compare with",
            asked.results.display()
        )));
    }
    if !side.empty.is_empty() {
        tell!("note: without a good run, and not in the baseline: {}", side.empty.join(", "));
    }
    let text = side.to_baseline().map_err(Error::failed)?;
    match &asked.out {
        Some(file) => {
            super::write_text("--out", file, &inputs, &text)?;
            tell!("Baseline: {}", file.display());
        }
        None => fathom_output::raw(&text),
    }
    Ok(Outcome::Good)
}

/// A baseline replaces an earlier one and nothing else: an experiment's file has the same ending,
/// and was written by hand.
fn spare_others(file: &Path) -> Result<(), Error> {
    let is_there = std::fs::metadata(file).is_ok_and(|found| found.is_file() && found.len() > 0);
    if !is_there || fathom_output::is_standard_output(file) || says_baseline(file) {
        return Ok(());
    }
    let shown = fathom_output::shown_path(file);
    Err(Error::usage(format!("--out {shown}: is no baseline, and would be replaced: name another file")))
}
