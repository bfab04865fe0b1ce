//! `fathom compare A.db B.db`: what changed, with intervals; `~` where nothing is proven.

use fathom_lab::analysis::{Analysis, changes};
use fathom_lab::experiment::Metric;

use crate::cli::Compare;
use crate::outcome::{Error, Outcome};

/// Prints the comparison.
pub fn run(asked: &Compare) -> super::Result {
    let a = super::load(&asked.a)?;
    let b = super::load(&asked.b)?;
    let (of_a, of_b) = (Analysis::of(&a).map_err(Error::failed)?, Analysis::of(&b).map_err(Error::failed)?);
    let changes = changes((&a, &of_a), (&b, &of_b), Metric::Rate);
    if changes.changes.is_empty() {
        return Err(Error::failed(format!(
            "{} and {} have no cell in common; compare results of the same experiment",
            asked.a.display(),
            asked.b.display()
        )));
    }
    if asked.json {
        return super::print_json(&changes);
    }
    fathom_output::raw(&fathom_report::compare_terminal(&a, &b, &super::style()).map_err(Error::failed)?);
    Ok(Outcome::Good)
}
