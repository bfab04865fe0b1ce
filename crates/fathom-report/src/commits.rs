//! One commit of each cell on one time line, in the page: of runs that kept what is needed for it.

use fathom_lab::anatomy::{Selection, anatomy};
use fathom_lab::store::{CellRow, Results};
use maud::{Markup, PreEscaped, html};

use crate::anatomy::{in_page, sentence};

/// Cells that are shown; `fathom anatomy` shows any.
const MOST: usize = 6;

/// The section; empty where no run has kept its calls and the device's operations.
pub fn section(results: &Results) -> Markup {
    let is_recorded = |cell: &&CellRow| cell.skipped.is_none() && cell.spec.instruments.operations;
    let of_cell = |cell: &CellRow| {
        // One that failed, or whose executions nobody told of, has none.
        anatomy(results, &Selection { cell: Some(cell.label.clone()), ..Selection::default() }).ok()
    };
    let found: Vec<_> = results.cells.iter().filter(is_recorded).filter_map(of_cell).take(MOST).collect();
    html! {
        @if !found.is_empty() {
            section aria-labelledby="h-commits" {
                h2 id="h-commits" { "What one commit waits for" }
                p {
                    "Of each cell the execution of median time of one run, of those that the device was flushed in \
                     if there are any: its calls on files, what reached the device meanwhile, and whose each \
                     block was. How long it and its calls took is model time where a device was modelled; \
                     places on the time line are as measured. "
                    code { "fathom anatomy" }
                    " shows any other, and writes it for Perfetto."
                }
                @for (number, finding) in found.iter().enumerate() {
                    details.more open[number == 0] {
                        summary { (finding.title) ", " (finding.phase) ": " (sentence(finding)) }
                        div.scroll { (PreEscaped(in_page(finding))) }
                    }
                }
            }
        }
    }
}
