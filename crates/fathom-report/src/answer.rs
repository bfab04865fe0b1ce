//! The answer in words, and the experiment file behind it.

use fathom_lab::analysis::{Analysis, Finding, headlines};
use fathom_lab::experiment::{Experiment, Figure, FigureKind, Metric};
use fathom_lab::store::Results;

/// What the stored experiment file asks and wants to be shown.
pub struct Asked {
    /// The question, where the file has one.
    pub question: Option<String>,
    /// Its figures.
    pub figures: Vec<Figure>,
    /// Its comparisons, made.
    pub findings: Vec<Finding>,
    /// The names of its axes in the order of the file.
    pub axes: Vec<String>,
    /// Why the file could not be read, where it could not.
    pub trouble: Option<String>,
}

/// Reads the experiment file that the results carry.
///
/// A file without figures, or one that this version cannot read (results outlive versions), gets the two figures that fit
/// every experiment, so that no results are ever without a picture.
pub fn asked(results: &Results, analysis: &Analysis) -> Asked {
    let row = &results.experiment;
    let mut asked = match Experiment::parse(&row.source_name, &row.source) {
        Ok(experiment) => Asked {
            findings: headlines(results, analysis, &experiment.headlines),
            axes: experiment.axes.iter().map(|axis| axis.name.clone()).collect(),
            question: experiment.question,
            figures: experiment.figures,
            trouble: None,
        },
        Err(problem) => Asked {
            question: None,
            figures: Vec::new(),
            findings: Vec::new(),
            axes: Vec::new(),
            trouble: Some(problem.to_string()),
        },
    };
    if asked.figures.is_empty() {
        asked.figures = vec![fallback("rate", FigureKind::Bars), fallback("split", FigureKind::Split)];
    }
    asked
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
