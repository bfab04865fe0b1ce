//! `fathom doctor`: what this machine can run, and the command that brings the rest.

use crate::cli::Doctor;
use crate::outcome::Outcome;
use fathom_output::say;

/// Prints every capability. Exit code 0: an absent capability is information, not a failure.
pub fn run(asked: &Doctor) -> super::Result {
    let capabilities = fathom_stack::doctor();
    if asked.json {
        return super::print_json(&capabilities);
    }
    let width = capabilities.iter().map(|one| one.name.len()).max().unwrap_or(0);
    for one in &capabilities {
        let mark = if one.present { "yes" } else { "no " };
        say!("  {mark}  {:width$}  {}", one.name, one.detail);
        if !one.present && !one.remedy.is_empty() {
            say!("       {:width$}  to get it:  {}", "", one.remedy);
        }
    }
    let absent = capabilities.iter().filter(|one| !one.present).count();
    say!();
    if absent == 0 {
        say!("Everything Fathom can use is here.");
    } else {
        say!(
            "{absent} of {} are missing; cells that need them are skipped with the reason.",
            capabilities.len()
        );
    }
    if let Some(line) = fathom_stack::packages(&capabilities) {
        say!("All that packages bring, in one line:  {line}");
    }
    say!("Next:  fathom run first-look");
    Ok(Outcome::Good)
}
