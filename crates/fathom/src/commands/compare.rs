//! `fathom compare A.db B.db`: what changed, with intervals; `~` where nothing is proven.

use fathom_lab::store::Results;

use crate::cli::Compare;
use crate::outcome::{Error, Outcome};

/// Prints the comparison.
pub fn run(asked: &Compare) -> super::Result {
    let a = Results::load(&asked.a).map_err(Error::failed)?;
    let b = Results::load(&asked.b).map_err(Error::failed)?;
    let comparison = fathom_lab::analysis::compare(&a, &b).map_err(Error::asked)?;
    if asked.json {
        return super::print_json(&comparison);
    }
    print!("{}", fathom_report::compare_terminal(&comparison, &super::terminal()));
    Ok(Outcome::Good)
}
