//! The plan of a run, as it is told: cells, runs, and how long they take.

use std::path::Path;

use fathom_lab::conduct::{self, Preparation};
use fathom_lab::estimate::estimate;
use fathom_lab::plan::Plan;
use fathom_lab::store::Results;
use fathom_output::{say, shown_path, tell};

use crate::progress::clock;

pub(super) fn say_skipped(plan: &Plan) {
    let total = plan.cells.len();
    let mut reasons: Vec<(&str, usize)> = Vec::new();
    for reason in plan.cells.iter().filter_map(|cell| cell.skipped.as_deref()) {
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, count)) => *count += 1,
            None => reasons.push((reason, 1)),
        }
    }
    for (reason, count) in reasons {
        tell!("skipped {count} of {total} cells: {reason}");
    }
}

pub(super) fn print_plan(prepared: &Preparation, out: &Path) {
    let (plan, to_make) = (&prepared.plan, prepared.turns.len());
    let is_early = prepared.ending.is_early();
    let most = if is_early { " at most" } else { "" };
    say!("{}: {} runs of each cell{most}, seed {}", plan.experiment, plan.repeats, plan.seed);
    for cell in &plan.cells {
        match &cell.skipped {
            None => say!("  {:4}  {}", cell.id, cell.title()),
            Some(reason) => say!("  {:4}  {}  skipped: {reason}", cell.id, cell.title()),
        }
    }
    let planned = plan.turns().len();
    if to_make == planned {
        say!("{planned} runs in all{most}");
    } else {
        say!("{to_make} runs to make of {planned} in all{most}; the others are there already");
    }
    say!("{}", time_of(prepared, out));
    if prepared.is_look {
        let most = conduct::LOOK.as_secs();
        say!(
            "--quick begins nothing that would not be over after {most} s; --budget or --repeat ask for more"
        );
    }
}

/// How long the plan takes, as far as earlier results tell: those that are gone on with, those in
/// the file that is named, or those of the same experiment in its usual place.
fn time_of(prepared: &Preparation, out: &Path) -> String {
    let plan = &prepared.plan;
    let usual = conduct::default_out(&plan.experiment);
    let of = |file: &Path| {
        let results = Results::load(file).ok()?;
        Some((estimate(plan, &prepared.turns, &results)?, file.to_path_buf()))
    };
    let found = match &prepared.earlier {
        Some(results) => {
            estimate(plan, &prepared.turns, results).map(|estimate| (estimate, out.to_path_buf()))
        }
        None => of(out).or_else(|| of(&usual)),
    };
    let Some((found, file)) = found else {
        return "Time: not known, for no run of these cells is kept here; --budget 2m would bound it".into();
    };
    let most = if prepared.ending.is_early() { "at most " } else { "" };
    let others = match found.cells - found.known {
        0 => String::new(),
        others => format!("; {others} of {} cells were not measured there", found.cells),
    };
    let time = clock(found.time.as_secs_f64().ceil() as u64);
    format!("Time: {most}about {time} as in {}{others}", shown_path(&file))
}
