//! One commit of each cell on one time line, in the page: of runs that kept what is needed for it.

use fathom_lab::anatomy::{Wanted, anatomy};
use fathom_lab::store::Results;

use crate::anatomy::{anatomy_svg, sentence};
use crate::html::escape;

/// Cells that are shown; `fathom anatomy` shows any.
const MOST: usize = 6;

/// The section; empty where no run has kept its calls and the device's operations.
pub fn section(results: &Results) -> String {
    let recorded =
        |cell: &&fathom_lab::store::CellRow| cell.skipped.is_none() && cell.spec.instruments.operations;
    let of_cell = |cell: &fathom_lab::store::CellRow| {
        // One that failed, or whose executions nobody told of, has none.
        anatomy(results, &Wanted { cell: Some(cell.label.clone()), ..Wanted::default() }).ok()
    };
    let found: Vec<_> = results.cells.iter().filter(recorded).filter_map(of_cell).take(MOST).collect();
    if found.is_empty() {
        return String::new();
    }
    let mut text = String::from(
        "<section aria-labelledby=\"h-commits\"><h2 id=\"h-commits\">What one commit waits for</h2>\n\
         <p>The execution of median time of each cell: its calls on files, what reached the device \
         meanwhile, and whose each block was. Times are as measured. <code>fathom anatomy</code> shows any \
         other, and writes it for Perfetto.</p>\n",
    );
    for (number, of_cell) in found.iter().enumerate() {
        let open = if number == 0 { " open" } else { "" };
        text += &format!(
            "<details class=\"more\"{open}><summary>{}, {}: {}</summary><div class=\"scroll\">{}</div></details>\n",
            escape(&of_cell.label),
            escape(&of_cell.phase),
            escape(&sentence(of_cell)),
            anatomy_svg(of_cell)
        );
    }
    text + "</section>\n"
}
