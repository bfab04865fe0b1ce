//! What was found, as it is shown.

use std::path::Path;

use fathom_lab::schedule::Interrupt;
use fathom_output::{shown_path, tell};
use fathom_report::Cuts;

use crate::cli::CutArgs;
use crate::commands;
use crate::outcome::{Error, Outcome};

/// Prints what was found, and says whether it is as promised; `kept`: the directory of the
/// recordings.
pub(super) fn show(
    asked: &CutArgs,
    cuts: &Cuts,
    interrupt: &Interrupt,
    kept: Option<&Path>,
) -> commands::Result {
    if asked.json {
        commands::print_json(cuts)?;
    } else if !cuts.cells.is_empty() || !cuts.without.is_empty() {
        fathom_output::raw(&cuts.terminal(&commands::style(), kept));
    }
    if interrupt.is_raised() {
        let kept = asked.record.as_ref().and(kept);
        let kept = kept.map_or_else(String::new, |kept| {
            format!("; the runs that were done are kept in {}", shown_path(kept))
        });
        let said = "stopped before everything was tried: what was begun is removed";
        return Err(Error::failed(format!("{said}{kept}")));
    }
    let untried = cuts.cells.iter().find(|cell| cell.outcome.tally.states == 0);
    let failed =
        cuts.breaks_promise() || cuts.cells.is_empty() || !cuts.without.is_empty() || untried.is_some();
    if cuts.breaks_promise() {
        tell!("error: a power cut takes more than the settings promise (!)");
    } else if let Some(cell) = untried {
        let possible = cell.outcome.states_possible;
        tell!(
            "error: {}: no state was judged: it has {possible}, from 0 on, and --from is {}",
            fathom_output::shown(&cell.title()),
            asked.from
        );
    } else if failed {
        tell!("error: not everything could be tried");
    }
    Ok(if failed { Outcome::Failed } else { Outcome::Good })
}
