//! The block trace in the terminal: one row a cell.

use fathom_lab::analysis::{BlockStudy, ratio};
use fathom_lab::store::TraceSource;

use super::{each, factor, files, of_all_phases};
use crate::document::Document;
use crate::number;
use crate::style::{Align, Style, Table, tame};

/// The table, or nothing where nothing was traced. A narrow terminal gets fewer columns; the report
/// has all.
pub fn table(document: &Document<'_>, style: &Style) -> String {
    let studies: Vec<&BlockStudy> = of_all_phases(&document.blocks).collect();
    if studies.is_empty() {
        return String::new();
    }
    let device = studies.iter().any(|study| study.source == TraceSource::Device);
    let least = studies.iter().filter_map(|study| study.attributed()).fold(1.0, f64::min);
    let heading = if device && least < 0.99 {
        format!(
            "What reached the device, for each transaction (all phases); up to {} has no known owner",
            number::percent(1.0 - least)
        )
    } else if device {
        "What reached the device, for each transaction (all phases)".into()
    } else {
        "The pattern within the files, for each transaction (no device could be traced)".into()
    };
    let columns = columns(device);
    let mut text = String::new();
    for kept in (3..=columns.len()).rev() {
        let table = laid_out(document, &studies, &columns, kept);
        text = table.text(style);
        if table.width() <= style.width {
            break;
        }
    }
    style.paragraph("  ", &style.bold(&heading)) + &text + "\n"
}

/// A column: its heading, its importance (1 is kept longest), and what it says of a study.
type Column = (&'static str, usize, fn(&BlockStudy) -> String);

fn columns(device: bool) -> Vec<Column> {
    fn bytes(study: &BlockStudy, value: Option<f64>) -> String {
        value.map_or_else(|| "?".into(), |value| number::bytes(each(study, value)))
    }
    fn share(value: Option<f64>) -> String {
        value.map_or_else(|| "?".into(), number::percent)
    }
    let flushes: fn(&BlockStudy) -> String =
        |study| study.flushes_each.map_or_else(|| "?".into(), number::plain);
    let mut all: Vec<Column> = vec![
        ("SQL", 4, |study| bytes(study, study.ladder.changed)),
        ("SQLite", 5, |study| bytes(study, study.ladder.pages)),
    ];
    if device {
        all.extend([
            (
                "files",
                6,
                (|study| files(study, bytes(study, study.ladder.files))) as fn(&BlockStudy) -> String,
            ),
            ("unattributed", 7, |study| bytes(study, study.ladder.unattributed)),
            ("device", 1, |study| bytes(study, study.ladder.device)),
            ("SQL→device", 2, |study| factor(study.ladder.factor())),
            ("flushes", 3, flushes),
            ("sequential", 8, |study| share(study.sequential)),
            ("attributed", 9, |study| share(study.attributed())),
        ]);
    } else {
        all.extend([
            (
                "SQL→SQLite",
                1,
                (|study| factor(ratio(study.ladder.pages, study.ladder.changed)))
                    as fn(&BlockStudy) -> String,
            ),
            ("syncs", 2, flushes),
            ("sequential", 3, |study| share(study.sequential)),
        ]);
    }
    all
}

fn laid_out(document: &Document<'_>, studies: &[&BlockStudy], columns: &[Column], kept: usize) -> Table {
    let columns: Vec<&Column> = columns.iter().filter(|column| column.1 <= kept).collect();
    let mut table = Table::default();
    table.column("cell", Align::Left);
    for (name, ..) in &columns {
        table.column(*name, Align::Right);
    }
    for study in studies {
        let cell = document.results.cell(study.cell);
        let label = cell.map_or_else(String::new, |cell| tame(&cell.title));
        let fields = columns.iter().map(|(.., says)| says(study));
        table.row(std::iter::once(label).chain(fields).collect());
    }
    table
}
