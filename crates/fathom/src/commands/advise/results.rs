//! Advice from runs that were recorded before.

use fathom_lab::advise::{self, Candidate};
use fathom_lab::analysis::Analysis;
use fathom_lab::remote::LOCAL;
use fathom_lab::store::{CellRow, Results};
use fathom_output::{shown, shown_path, tell};
use fathom_report::Advice;

use super::durability::{NO_WAL_NOW, is_whole, must};
use super::error::study_error;
use super::failure::Failure;
use super::judgement::{doubts, judged};
use super::origin::Origin;
use super::outputs::check_outputs;
use super::partial::not_compared;
use super::question::{Answer, Question};
use super::recorded::{promise_of, recorded};
use super::rounds::whole;
use super::trace::of_trace;
use super::{hints, settings};
use crate::cli::Advise;
use crate::commands;
use crate::outcome::Error;

/// What recordings do not tell, where they have several files.
const FILES_UNKNOWN: &str = "the recordings are of several database files, and do not tell whether a transaction was over \
                             more than one (ATTACH): with WAL a power cut may leave such a transaction in some of them \
                             and not in the others (https://sqlite.org/lang_attach.html). The trace itself tells that";

/// From runs that were recorded before. Those of `fathom advise` hold the settings that led for what
/// was asked then: for what is asked now others may lead, which are recorded where that can be, and
/// else are named.
pub(super) fn of_results(question: &Question<'_>) -> Result<Answer, Error> {
    let Question { asked, devices, interrupt, .. } = *question;
    let of_traces = [
        ("--fs", !asked.fs.is_empty()),
        ("--dir", asked.dir.is_some()),
        ("--on", asked.on.is_some()),
        ("--out", asked.out.is_some()),
        ("--repeat", asked.repeat.is_some()),
        ("--live", asked.live),
        ("--cut", asked.cut),
    ];
    if let Some((option, _)) = of_traces.iter().find(|pair| pair.1) {
        return Err(Error::usage(format!(
            "{option} is for traces, which are recorded first: {} holds runs that were made",
            shown_path(&asked.input)
        )));
    }
    let results = commands::load(&asked.input)?;
    let named = commands::named_inputs(&results);
    check_outputs(asked, &commands::all_inputs(&[&asked.input], &named))?;
    let analysis = Analysis::of(&results).map_err(Error::failed)?;
    let phase = the_phase(asked, &results, &analysis)?;
    let origin = Origin::of(&results);
    let (mut baseline, mut source) = recorded_baseline(&results, origin.as_ref())?;
    if !question.now.is_empty() {
        settings::take_over(&mut baseline, question.now);
        source = "as --now says".to_owned();
    }
    let must = must(asked, promise_of(&results, &baseline));
    let over_files = origin.as_ref().and_then(Origin::over_files);
    let has_several = results.cells.iter().any(|cell| advise::has_several_files(&results, cell.id));
    let is_otherwise =
        |origin: &Origin| over_files.unwrap_or(has_several) && origin.is_asked_otherwise(asked);
    let why_not = match &origin {
        Some(origin) if !is_otherwise(origin) && origin.answers(&results, must, &baseline, devices) => None,
        Some(origin) => match origin.trace() {
            Ok(trace) => {
                tell!(
                    "{}: was recorded for {}, and holds what led there: what is missing is recorded now, from {}",
                    shown_path(&asked.input),
                    origin.words(&results),
                    shown_path(trace)
                );
                let asked = origin.again(asked, trace);
                let now = settings::now(&asked.now)?;
                let answer = of_trace(&Question { asked: &asked, now: &now, ..*question })?;
                return Ok(Answer { named, ..answer });
            }
            Err(why) => Some(Some(why)),
        },
        None => Some(None),
    };
    if recorded(&results).all(|known| known.0 != baseline) {
        return Err(Error::usage(format!(
            "--now: {} has no recording of {}; give the trace itself",
            shown_path(&asked.input),
            baseline.name()
        )));
    }
    let (mut devices_tried, mut notes) =
        advise::trials(&results, devices, &phase, None).map_err(study_error)?;
    let is_each_file = asked.each_file || origin.as_ref().is_some_and(|origin| origin.asked.each_file);
    if !is_each_file && is_whole(asked, over_files == Some(true)) {
        devices_tried = whole(devices_tried);
        notes.extend((baseline.journal_mode == "wal").then(|| NO_WAL_NOW.to_owned()));
    }
    if over_files.is_none() && has_several {
        notes.push(FILES_UNKNOWN.into());
    }
    let partial = why_not.map(|why| {
        let origin = origin.as_ref().zip(why);
        not_compared(asked, (&results, &devices_tried), origin, &baseline, must)
    });
    let advised = judged(&results, devices, devices_tried, &phase, &baseline, must, interrupt)?;
    notes.extend(Failure::of(&results).iter().map(Failure::told));
    notes.extend(doubts(&results, &analysis, &advised));
    let advice = Advice {
        title: results.experiment.title.clone(),
        must,
        over_files: over_files == Some(true),
        hints: hints::of_settings(&baseline, &advised),
        baseline,
        baseline_source: source,
        pace_s: None,
        devices: advised,
        notes,
        missing: Vec::new(),
        partial,
        live: Vec::new(),
        cuts: Vec::new(),
        command: question.command.to_owned(),
    };
    Ok(Answer { advice, named, problems: Vec::new() })
}

/// The one phase of results, which are of one application.
fn the_phase(asked: &Advise, results: &Results, analysis: &Analysis) -> Result<String, Error> {
    let phases = analysis.phases();
    let [phase] = phases.as_slice() else {
        return Err(Error::usage(format!(
            "{}: it holds {} phases ({}): advice is for one application's transactions. Give its trace, or results of one",
            shown_path(&asked.input),
            phases.len(),
            phases.join(", ")
        )));
    };
    let mut cells = results.cells.iter().filter(|cell| cell.skipped.is_none());
    let first = cells.next();
    if cells.any(|cell| first.is_some_and(|first| first.spec.workload != cell.spec.workload)) {
        return Err(Error::usage(format!(
            "{}: it holds several workloads: advice is for one application",
            shown_path(&asked.input)
        )));
    }
    let machines = machines(results.cells.iter().filter(|cell| cell.skipped.is_none()));
    if machines.len() > 1 {
        return Err(Error::usage(format!(
            "{}: it holds runs of several machines ({}), whose processors are not the same: advice is for \
             one. Give results of one",
            shown_path(&asked.input),
            shown(&machines.join(", "))
        )));
    }
    Ok(phase.clone())
}

/// The machines that the cells' runs are made on, each once.
fn machines<'a>(cells: impl Iterator<Item = &'a CellRow>) -> Vec<&'a str> {
    let mut all: Vec<&str> = Vec::new();
    for cell in cells {
        let own = if cell.spec.on.is_empty() { LOCAL } else { cell.spec.on.as_str() };
        if !all.contains(&own) {
            all.push(own);
        }
    }
    all
}

/// What the application has, as far as recordings tell, and where that is known from.
fn recorded_baseline(results: &Results, origin: Option<&Origin>) -> Result<(Candidate, String), Error> {
    let default = Candidate::default();
    match (origin, recorded(results).next()) {
        (_, None) => Err(Error::failed("no cell of these results is SQLite's")),
        (Some(origin), _) => Ok((origin.baseline.clone(), "as it was when it was recorded".to_owned())),
        _ if recorded(results).any(|known| known.0 == default) => {
            Ok((default, "SQLite's default".to_owned()))
        }
        (None, Some((first, _))) => Ok((first, "the first of the results".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    /// What happened: settings on a board were compared with what the application has on another
    /// machine, so that what its processor is faster was a gain of the settings.
    #[test]
    fn runs_of_several_machines_are_told_from_those_of_one() {
        let on = |machine: &str| CellRow {
            id: 1,
            label: String::new(),
            title: String::new(),
            axes: BTreeMap::new(),
            spec: serde_json::from_value(json!({
                "workload": { "name": "trace" },
                "engine": { "name": "sqlite" },
                "stack": fathom_stack::StackSpec::default(),
                "axes": {},
                "on": machine
            }))
            .unwrap(),
            durability: None,
            skipped: None,
        };
        let cells = ["", "local", "ssh:board", "ssh:board"].map(on);
        assert_eq!(machines(cells.iter()), ["local", "ssh:board"]);
        assert_eq!(machines(cells[2..].iter()), ["ssh:board"]);
    }
}
