//! An answer that compares some settings only: which, and what there is to do.

use fathom_lab::advise::{self, Candidate, Trial};
use fathom_lab::store::Results;
use fathom_output::shown_path;
use fathom_workload::spec::Durability;

use super::origin::Origin;
use crate::cli::Advise;

/// Settings that are named in a sentence; more are counted.
const NAMED: usize = 6;

/// What was compared, and what was not, where settings are missing and cannot be recorded; `origin`
/// with the reason for that.
pub(super) fn not_compared(
    asked: &Advise,
    (results, tried): (&Results, &[Vec<Trial>]),
    origin: Option<(&Origin, String)>,
    baseline: &Candidate,
    must: Durability,
) -> String {
    let held = distinct(tried.iter().flatten().map(|trial| trial.candidate.name()));
    let mut others = advise::first(baseline);
    others.extend(advise::second(tried, must, advise::AppUse::default()));
    others.extend(advise::third(tried, must, usize::MAX));
    let missing = distinct(others.iter().map(Candidate::name).filter(|name| !held.contains(name)));
    let list = |names: &[String]| {
        let more = names.len().saturating_sub(NAMED);
        let shown = names[..names.len() - more].join("; ");
        if more == 0 { shown } else { format!("{shown}; and {more} more") }
    };
    let file = shown_path(&asked.input);
    let mut text = format!(
        "Compared are only the {} settings that {file} holds ({}), so the fastest of these is named, and not the best that there is",
        held.len(),
        list(&held)
    );
    if let Some((origin, _)) = &origin {
        text += &format!(". They are those that led for {}", origin.words(results));
    }
    if !missing.is_empty() {
        text += &format!(". Not compared, for they were not recorded: {}", list(&missing));
    }
    text += &match origin {
        Some((origin, why)) => {
            format!(". To compare all: `{}` as root ({why}).", origin.command(asked))
        }
        None => ". To compare all, give `fathom advise` the trace itself.".to_owned(),
    };
    text
}

/// Each name once, where it comes first.
fn distinct(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for name in names {
        if !all.contains(&name) {
            all.push(name);
        }
    }
    all
}
