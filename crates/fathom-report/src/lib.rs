//! Tables, figures, the HTML report and the exports of Fathom.
//!
//! Everything starts from a [`Results`] file that the lab has read. [`terminal`] gives what a
//! person reads after a run, [`html`] the self-contained page, [`figure_svg`] a figure for print,
//! [`csv`] and [`json`] what other programs read, [`Comparison`] what changed between two files,
//! and what a gate says of it. [`write_whole`] puts any of them into a file that appears whole or
//! not at all, and never over what it was read from. The same model feeds all of them, so no two
//! can disagree.

mod advice;
mod anatomy;
mod answer;
mod assumptions;
mod axis;
mod blocks;
mod canvas;
mod caution;
mod cells;
mod checks;
mod chosen;
mod commits;
mod compare;
mod conditions;
mod csv;
mod cuts;
mod decimate;
mod devices;
mod document;
mod ecdf;
mod executions;
mod export;
mod figure;
mod html;
mod legend;
mod marks;
pub mod number;
mod page;
mod palette;
mod papers;
mod plotting;
mod power_cut;
mod ranking;
mod reach;
mod recommend;
mod simulation;
mod style;
mod svg;
mod terminal;
mod title;
mod whole;
mod words;

use std::io::Write;

use fathom_lab::analysis::{Analysis, Question, Side, changes};
use fathom_lab::store::{Results, StoreError};
use fathom_output::OutputError;

use document::Document;

pub use advice::{Advice, MeasuredCut};
pub use anatomy::{anatomy_json, anatomy_svg, anatomy_terminal, anatomy_trace_events};
pub use compare::{Comparison, Verdict};
pub use cuts::{Cut, Cuts};
pub use papers::{
    Dataset, Papers, PapersError, PrintedFinding, PrintedPage, SimulatedExports, Verdict as FindingVerdict,
};
pub use simulation::Simulation;
pub use style::Style;
pub use title::subject;
pub use whole::{write_excerpt, write_whole};

/// What shows in its first 4 KiB that a file is a report of [`html`].
pub const HTML_MARK: &str = "<meta name=\"generator\" content=\"Fathom ";

/// What shows that a file is a figure of [`figure_svg`]: the typefaces, which earlier versions gave
/// in this way, too.
pub const SVG_MARK: &str =
    "font-family=\"Helvetica Neue, Helvetica, Arial, Liberation Sans, DejaVu Sans, sans-serif\">";

/// What can go wrong while a report is made.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The results cannot be read.
    #[error(transparent)]
    Results(#[from] StoreError),
    /// The stream that was given cannot be written.
    #[error("the report cannot be written: {0}")]
    Io(#[from] std::io::Error),
    /// The file cannot be written, or must not be.
    #[error(transparent)]
    File(#[from] OutputError),
    /// There is no figure of this name.
    #[error("no figure {asked:?} in these results; there are: {}", known.join(", "))]
    NoSuchFigure {
        /// What was asked for.
        asked: String,
        /// What there is.
        known: Vec<String>,
    },
}

/// Writes the whole report as one HTML page that needs no server and no network.
///
/// # Errors
/// Samples that cannot be read; what `out` says.
pub fn html(results: &Results, out: &mut dyn Write) -> Result<(), ReportError> {
    Ok(html::write(&Document::new(results)?, out)?)
}

/// The tables, the findings and the warnings for a terminal.
///
/// # Errors
/// Samples that cannot be read.
pub fn terminal(results: &Results, style: &Style) -> Result<String, ReportError> {
    Ok(terminal::text(&Document::new(results)?, style))
}

/// Writes every cell, phase and size as CSV; `docs` of the columns are in `README.md`.
///
/// # Errors
/// Samples that cannot be read; what `out` says.
pub fn csv(results: &Results, out: &mut dyn Write) -> Result<(), ReportError> {
    Ok(export::csv(&Document::new(results)?, out)?)
}

/// Writes experiment, environment, findings and every cell as JSON; with `samples` every single
/// execution too.
///
/// # Errors
/// Samples that cannot be read; what `out` says.
pub fn json(results: &Results, samples: bool, out: &mut dyn Write) -> Result<(), ReportError> {
    export::json(&Document::new(results)?, samples, out)
}

/// Writes what the block traces say of every cell and phase as CSV: the write ladder, volume by
/// cause, the pattern.
///
/// # Errors
/// Requests that cannot be read; what `out` says.
pub fn blocks_csv(results: &Results, out: &mut dyn Write) -> Result<(), ReportError> {
    Ok(blocks::studies_csv(&Document::new(results)?, out)?)
}

/// Writes every request of every block trace as CSV.
///
/// # Errors
/// Requests that cannot be read; what `out` says.
pub fn requests_csv(results: &Results, out: &mut dyn Write) -> Result<(), ReportError> {
    blocks::requests_csv(results, out)
}

/// Writes every request of every block trace as JSON, one request a line.
///
/// # Errors
/// Requests that cannot be read; what `out` says.
pub fn requests_json(results: &Results, out: &mut dyn Write) -> Result<(), ReportError> {
    blocks::requests_json(results, out)
}

/// The names of the figures, in the order of the report, each with its title.
///
/// # Errors
/// Samples that cannot be read.
pub fn figures(results: &Results) -> Result<Vec<(String, String)>, ReportError> {
    let document = Document::new(results)?;
    let mut all: Vec<_> = document.figures.into_iter().map(|f| (f.id, f.title)).collect();
    all.extend(document.ranking.map(|ranking| (ranking::ID.to_owned(), ranking.title)));
    all.extend(blocks::svg::list(results));
    Ok(all)
}

/// One figure as a static SVG for print, on white, without a browser.
///
/// # Errors
/// A name that no figure has; samples that cannot be read.
pub fn figure_svg(results: &Results, id: &str) -> Result<String, ReportError> {
    if let Some(address) = blocks::svg::draw(results, id)? {
        return Ok(address);
    }
    let document = Document::new(results)?;
    if let Some(ranking) = document.ranking.as_ref().filter(|_| id == ranking::ID) {
        return Ok(ranking::svg::draw(ranking));
    }
    match document.figures.iter().find(|figure| figure.id == id) {
        Some(figure) => Ok(svg::draw(figure)),
        None => {
            let known = document.figures.into_iter().map(|figure| figure.id);
            let known = known.chain(document.ranking.map(|_| ranking::ID.into()));
            let addresses = blocks::svg::list(results).into_iter().map(|(id, _)| id);
            Err(ReportError::NoSuchFigure { asked: id.into(), known: known.chain(addresses).collect() })
        }
    }
}

/// What changed from `a` to `b`: means with intervals, `~` where nothing is proven.
///
/// # Errors
/// Samples that cannot be read.
pub fn compare_terminal(a: &Results, b: &Results, style: &Style) -> Result<String, ReportError> {
    let side = |results: &Results| Ok::<_, StoreError>(Side::of(results, &Analysis::of(results)?));
    let sides = [side(a)?, side(b)?];
    let names = [a, b].map(|results| results.path().display().to_string());
    let changes = changes(&sides[0], &sides[1], &Question::default()).unwrap_or_default();
    Ok(Comparison { names, sides, changes, allowed: None }.terminal(style))
}
