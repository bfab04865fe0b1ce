//! `fathom trace synthesise`: a trace made up by a profile.

use fathom_output::{shown_path, tell};
use fathom_trace::synthesise::{self, NOTE};

use crate::cli::TraceSynthesise;
use crate::outcome::{Error, Outcome};

/// Makes the trace and says what it is, and is not.
pub fn run(asked: &TraceSynthesise) -> super::super::Result {
    let profile = synthesise::profile(&asked.profile).map_err(Error::of_trace)?;
    super::super::tidy_up_on_signals()?;
    super::super::check_trace_output(&asked.out, &[])?;
    let totals =
        synthesise::synthesise(profile, asked.seed, asked.scale, &asked.out).map_err(Error::of_trace)?;
    tell!("fathom: {}: {} events of {}", shown_path(&asked.out), totals.events, profile.identity());
    tell!("note: {NOTE}");
    // What goes to standard output has no name by which it could be asked for.
    if asked.out.as_os_str() != "-" {
        tell!(
            "Next:  fathom trace info {}      fathom list profiles",
            super::super::quoted(&shown_path(&asked.out))
        );
    }
    Ok(Outcome::Good)
}
