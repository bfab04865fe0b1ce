//! What is said when the runs are made: table, report, and what to do next.

use std::path::Path;

use fathom_lab::conduct;
use fathom_lab::remote::Target;
use fathom_lab::schedule::{EarlyEnd, Summary};
use fathom_lab::store::Results;
use fathom_output::{say, shown, shown_path, tell};

use crate::cli::Run;
use crate::commands;
use crate::outcome::{Error, Outcome};

/// Prints the table, writes the report, and says what to do next; `command` is what was asked, as
/// [`NOT_REPEATED`](super::NOT_REPEATED) has it.
pub(super) fn finish(
    asked: &Run,
    name: &str,
    file: &Path,
    (report, inputs): (&Path, &[&Path]),
    command: &str,
    summary: &Summary,
) -> commands::Result {
    for (label, reason) in &summary.failed {
        tell!("failed: {}: {reason}", shown(label));
    }
    let results = Results::load(file).map_err(Error::failed)?;
    if summary.done > 0 {
        if !asked.quiet {
            let text = fathom_report::terminal(&results, &commands::style()).map_err(Error::failed)?;
            fathom_output::raw(&(text + "\n"));
        }
        // Hours may have gone by since it was asked first.
        commands::check_unnamed("the report", report, inputs, fathom_report::HTML_MARK)?;
        commands::write_html("the report", &results, report, inputs)?;
        say!("Report: {}      Again: {}", shown_path(report), shown(&results.experiment.command));
    }
    say_ended(asked, summary);
    if is_look_over(asked, summary) {
        say_look(&results, summary);
        return Ok(if summary.done > 0 && summary.failed.is_empty() {
            Outcome::Good
        } else {
            Outcome::Failed
        });
    }
    if summary.interrupted || summary.missing > 0 {
        tell!("{}", stopped(command, summary));
        return Ok(Outcome::Failed);
    }
    if !summary.failed.is_empty() {
        tell!(
            "error: {} of {} runs failed; their numbers are not used. {}",
            summary.failed.len(),
            summary.failed.len() + summary.done,
            super::super::full::what_to_do(asked, file, &results)
        );
        return Ok(Outcome::Failed);
    }
    if !asked.quiet && name == "first-look" {
        say!("Next:   {}      fathom list", next_command(&asked.on));
    }
    Ok(Outcome::Good)
}

/// How to go on. A command without `--resume`, or that of the first time, would begin anew.
fn stopped(command: &str, summary: &Summary) -> String {
    let Summary { done, missing, .. } = summary;
    format!("Stopped: {done} runs are kept, {missing} are missing. Go on with:  {command} --resume")
}

/// What to run after a first look, on the same machines.
fn next_command(machines: &[Target]) -> String {
    let names: Vec<String> = machines.iter().map(Target::to_string).collect();
    let is_here_alone = machines.iter().all(|machine| *machine == Target::Local);
    let (on, place) = match is_here_alone {
        true => (String::new(), ""),
        false => (format!(" --on {}", shown(&commands::quoted(&names.join(",")))), " there"),
    };
    format!("fathom run journal-modes --quick{on}      (file systems; needs root{place})")
}

/// Whether `--quick` has ended it: nothing else that was asked for could.
fn is_look_over(asked: &Run, summary: &Summary) -> bool {
    summary.ended == Some(EarlyEnd::OutOfTime) && asked.budget.is_none()
}

/// Says what a look has not come to.
fn say_look(results: &Results, summary: &Summary) {
    let cells = || results.cells.iter().filter(|cell| cell.skipped.is_none());
    let lacking: Vec<&str> = cells()
        .filter(|cell| results.good_runs(cell.id).next().is_none())
        .map(|cell| cell.title.as_str())
        .collect();
    let without = match lacking.len() {
        0 => String::new(),
        number => {
            format!(" {number} of {} cells have none: {}.", cells().count(), shown(&lacking.join(", ")))
        }
    };
    tell!(
        "Ended early, for --quick is a look of {} s at most: {} runs, {} are missing.{without} The rest: the same \
         command with --resume; longer at once: --budget 10m",
        conduct::LOOK.as_secs(),
        summary.done,
        summary.missing
    );
}

/// Says why there are fewer runs, or more, than the experiment asks for.
fn say_ended(asked: &Run, summary: &Summary) {
    let percent = |share: f64| format!("{:.2}", share * 100.0);
    match (summary.ended, asked.until, summary.widest) {
        (Some(EarlyEnd::Precise { widest }), _, _) => tell!(
            "Ended after {} runs of each cell: every value is known to within {} %.",
            summary.blocks,
            percent(widest)
        ),
        (Some(EarlyEnd::OutOfTime), _, widest) if !is_look_over(asked, summary) => {
            let known = widest.filter(|_| asked.until.is_some()).map_or_else(String::new, |share| {
                format!(" The widest interval is {} % so far.", percent(share))
            });
            tell!("Ended after {} runs of each cell: --budget.{known}", summary.blocks);
        }
        (None, Some(until), Some(widest)) if !summary.interrupted && widest > until => tell!(
            "Not as precise as asked: after {} runs of each cell the widest interval is {} %. A larger \
             --repeat allows more.",
            summary.blocks,
            percent(widest)
        ),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened: who had gone on with `--resume` and was stopped again was told a command
    /// without it, which put the results aside and began anew.
    #[test]
    fn a_run_that_is_stopped_is_gone_on_with() {
        let summary = Summary { done: 3, missing: 2, ..Summary::default() };
        assert_eq!(
            stopped("fathom run mine.toml --seed 7", &summary),
            "Stopped: 3 runs are kept, 2 are missing. Go on with:  fathom run mine.toml --seed 7 --resume"
        );
    }
}
