//! The answer in words, and the experiment file behind it.
//!
//! A file asks about the phases of its own workload. With `--trace` another workload runs, whose
//! phases have other names; what the file asks is then asked of those, so that no figure is empty
//! and no comparison is missing because of a name.

use fathom_lab::analysis::{Analysis, Finding, headlines};
use fathom_lab::experiment::{Experiment, Figure, FigureKind, Headline, Metric};
use fathom_lab::store::Results;

use crate::chosen::{self, ChosenAxis};

/// What the stored experiment file asks and wants to be shown.
pub struct Questions {
    /// The question, where the file has one.
    pub question: Option<String>,
    /// Its figures.
    pub figures: Vec<Figure>,
    /// Its comparisons, made.
    pub findings: Vec<Finding>,
    /// What the first of its comparisons is in.
    pub metric: Option<Metric>,
    /// The axes that the user set, which the file does not ask about.
    pub chosen: Vec<ChosenAxis>,
    /// The axes that get a sentence each.
    pub told: Vec<ChosenAxis>,
    /// The names of its axes in the order of the file.
    pub axes: Vec<String>,
    /// Why the file could not be read, where it could not.
    pub trouble: Option<String>,
}

/// Reads the experiment file that the results carry.
///
/// A file without figures, or one that this version cannot read (results outlive versions), gets
/// the two figures that fit every experiment, so that no results are ever without a picture.
pub fn questions(results: &Results, analysis: &Analysis) -> Questions {
    let row = &results.experiment;
    let measured = analysis.phases();
    let mut asked = match Experiment::parse(&row.source_name, &row.source) {
        Ok(experiment) => Questions {
            findings: headlines(results, analysis, &headlines_of(&experiment.headlines, &measured)),
            metric: experiment.headlines.first().map(|headline| headline.metric),
            chosen: chosen::axes(results, &experiment),
            told: chosen::told(results, &experiment),
            axes: experiment.axes.iter().map(|axis| axis.name.clone()).collect(),
            question: experiment.question,
            figures: figures_of(experiment.figures, &measured),
            trouble: None,
        },
        Err(problem) => Questions {
            question: None,
            figures: Vec::new(),
            findings: Vec::new(),
            metric: None,
            chosen: Vec::new(),
            told: Vec::new(),
            axes: Vec::new(),
            trouble: Some(problem.to_string()),
        },
    };
    if asked.figures.is_empty() {
        asked.figures = general();
    }
    asked
}

/// The figures with the phases that were measured. One of other phases says nothing: that of traces
/// where none was replayed. Where all are of other phases, another workload ran, and they show its
/// phases.
fn figures_of(mut figures: Vec<Figure>, measured: &[String]) -> Vec<Figure> {
    let has_content = |figure: &Figure| {
        figure.phases.is_empty() || figure.phases.iter().any(|phase| measured.contains(phase))
    };
    if figures.iter().any(has_content) {
        figures.retain(has_content);
    } else {
        for figure in &mut figures {
            figure.phases.clear();
            // Of a trace transactions may only read.
            figure.title = figure.title.replace("Commits per second", "Transactions per second");
            figure.see = figure.see.replace("commits per second", "transactions per second");
        }
    }
    for figure in &mut figures {
        figure.phases.retain(|phase| measured.contains(phase));
    }
    figures
}

/// The comparisons of settings, of the phases that were measured; where none of theirs was, of the
/// first that was. Two phases of another workload cannot be told to be the two that are compared.
fn headlines_of(headlines: &[Headline], measured: &[String]) -> Vec<Headline> {
    let Some(first) = measured.first() else { return Vec::new() };
    if headlines.iter().any(|headline| measured.contains(&headline.phase)) {
        return headlines.to_vec();
    }
    let mut moved: Vec<Headline> = Vec::new();
    for headline in headlines.iter().filter(|headline| headline.against_phase.is_none()) {
        let headline = Headline { phase: first.clone(), x: None, ..headline.clone() };
        if !moved.contains(&headline) {
            moved.push(headline);
        }
    }
    moved
}

/// What fits every experiment.
pub fn general() -> Vec<Figure> {
    vec![fallback("rate", FigureKind::Bars), fallback("split", FigureKind::Split)]
}

fn fallback(id: &str, kind: FigureKind) -> Figure {
    Figure {
        id: id.into(),
        kind,
        title: if kind == FigureKind::Bars { "Executions per second" } else { "Where the time goes" }.into(),
        see: String::new(),
        phases: Vec::new(),
        metric: Metric::Rate,
        by: None,
        facet: None,
        filter: Default::default(),
        log: None,
    }
}
