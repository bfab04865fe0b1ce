//! `fathom trace anonymise`: a trace in which nothing of its users' texts remains.

use fathom_output::{shown, shown_path, tell};
use std::hash::{BuildHasher, RandomState};

use fathom_trace::anonymise::{Wish, anonymise};

use crate::cli::TraceAnonymise;
use crate::outcome::{Error, Outcome};

/// Writes the anonymous trace.
pub fn run(asked: &TraceAnonymise) -> super::super::Result {
    super::super::tidy_up_on_signals()?;
    super::super::check_trace_output(&asked.out, &[&asked.file])?;
    // The operating system's random numbers, of which the standard library makes the keys of its
    // hash tables.
    let seed = asked.seed.unwrap_or_else(|| RandomState::new().hash_one(std::process::id()));
    let wish = Wish { seed, numbers: asked.numbers, allow_differences: asked.allow_differences };
    let done = anonymise(&asked.file, &asked.out, &wish).map_err(Error::of_trace)?;
    tell!("fathom: {}: {} events", shown_path(&asked.out), done.events);
    if done.disordered > 0 {
        tell!(
            "warning: {} words gave up their order among their nearest neighbours, because all words of their kind occur",
            done.disordered
        );
    }
    if !done.suspects.is_empty() {
        let lines: Vec<String> = done.suspects.iter().map(|line| format!("\n  {}", shown(line))).collect();
        tell!(
            "warning: {} statements found something else with other words, so what follows is as it was, and may tell who somebody is (telephone numbers, dates, ids); look before you pass it on:{}",
            done.suspects.len(),
            lines.concat()
        );
    }
    if done.different > 0 {
        tell!(
            "warning: it does not do what the original does: {} calls or databases differ:{}",
            done.different,
            done.differences.iter().map(|line| format!("\n  {}", shown(line))).collect::<String>()
        );
    }
    if asked.numbers {
        tell!(
            "The names of tables and columns, and numbers that something is calculated from, are as they were: look whether they tell anything."
        );
    } else {
        tell!(
            "Numbers and the names of tables and columns are as they were: look whether they tell anything."
        );
    }
    Ok(Outcome::Good)
}
