//! Tables, figures, the HTML report and the exports of Fathom.

mod answer;
mod axis;
mod decimate;
mod document;
mod figure;
mod html;
mod number;
mod palette;

use std::io::Write;

use fathom_lab::store::{Results, StoreError};

/// What can go wrong while a report is made.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The results cannot be read.
    #[error(transparent)]
    Results(#[from] StoreError),
    /// The report cannot be written.
    #[error("the report cannot be written: {0}")]
    Io(#[from] std::io::Error),
}

/// Writes the whole report as one HTML page.
///
/// # Errors
/// Samples that cannot be read; what `out` says.
pub fn html(results: &Results, out: &mut dyn Write) -> Result<(), ReportError> {
    let document = document::Document::new(results)?;
    Ok(html::write(&document, out)?)
}
