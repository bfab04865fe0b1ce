//! `fathom trace part`: a shorter trace of one.

use fathom_output::{shown, shown_path, tell};
use fathom_trace::part::{PartRequest, part};

use crate::cli::TracePart;
use crate::outcome::{Error, Outcome};

/// Writes the part and says what it holds.
pub fn run(asked: &TracePart) -> super::super::Result {
    if asked.transactions.is_none() && !asked.skip_own {
        return Err(Error::usage("say what to take: --transactions N, --skip-own, or both"));
    }
    super::super::tidy_up_on_signals()?;
    super::super::check_trace_output(&asked.out, &[asked.file.as_path()])?;
    let request = PartRequest {
        path: asked.file.clone(),
        out: asked.out.clone(),
        transactions: asked.transactions,
        skip_own: asked.skip_own,
    };
    let made = part(&request).map_err(Error::of_trace)?;
    let transactions =
        made.transactions.map_or_else(String::new, |count| format!(", {count} transactions that write"));
    tell!("fathom: {}: {} events{transactions}", shown_path(&asked.out), made.totals.events);
    if let (Some(count), Some(wanted)) = (made.transactions, asked.transactions)
        && count < wanted
    {
        tell!("note: the trace has no more than {count} transactions that write");
    }
    if asked.skip_own {
        let names = shown(&made.functions.join(", "));
        match made.functions.len() {
            0 => tell!("note: the trace tells of no function of the application's own"),
            _ => tell!(
                "note: {} executions of queries that call functions of the application's own ({names}) are left out",
                made.left_out
            ),
        }
    }
    if made.kept > 0 {
        tell!(
            "warning: {} executions that write call them, too, and stay, for what they write is not known without \
             them: a replay ends there",
            made.kept
        );
    }
    Ok(Outcome::Good)
}
