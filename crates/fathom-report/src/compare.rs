//! What changed between two results files, for the terminal.

use fathom_lab::analysis::{Analysis, Change, abscissa_name, changes, times};
use fathom_lab::experiment::{Experiment, Metric};
use fathom_lab::store::Results;

use crate::ReportError;
use crate::number;
use crate::style::{Align, Style, Table, tame};

/// The table of changes with a summary first; `~` where nothing is proven.
pub fn text(a: &Results, b: &Results, style: &Style) -> Result<String, ReportError> {
    let (analysis_a, analysis_b) = (Analysis::of(a)?, Analysis::of(b)?);
    let found = changes((a, &analysis_a), (b, &analysis_b), metric_of(a));
    let mut out = String::new();
    let name = |results: &Results| {
        let path = tame(&results.path().display().to_string());
        format!(
            "{path} ({}, {})",
            tame(&results.experiment.name),
            number::moment(results.experiment.started_ms)
        )
    };
    out += &style.paragraph("  ", &format!("A  {}", name(a)));
    out += &style.paragraph("  ", &format!("B  {}", name(b)));
    out.push('\n');
    if found.changes.is_empty() {
        out += "  The files have no cell with a good run in common, so there is nothing to compare.\n";
    } else {
        let faster = found.changes.iter().filter(|c| c.faster.proven && c.faster.ratio > 1.0).count();
        let slower = found.changes.iter().filter(|c| c.faster.proven && c.faster.ratio < 1.0).count();
        out += &style.paragraph(
            "  ",
            &style.bold(&format!(
                "B against A: {faster} faster, {slower} slower, {} not proven different (~), of {}.",
                found.changes.len() - faster - slower,
                found.changes.len()
            )),
        );
        out += &table(&found.changes, abscissa_of(a), found.metric, style);
    }
    for (cells, which) in [(&found.only_a, "A"), (&found.only_b, "B")] {
        if !cells.is_empty() {
            out += &style.paragraph("  ", &format!("Only in {which}: {}.", tame(&cells.join(", "))));
        }
    }
    for caution in &found.cautions {
        out += &style.paragraph("  ! ", &tame(caution));
    }
    Ok(out)
}

/// What A's experiment compares; time where it says nothing.
fn metric_of(results: &Results) -> Metric {
    let experiment = Experiment::parse(&results.experiment.source_name, &results.experiment.source);
    experiment.ok().and_then(|e| e.headlines.first().map(|h| h.metric)).unwrap_or(Metric::Time)
}

/// What the abscissas of the results count.
fn abscissa_of(results: &Results) -> &'static str {
    results.cells.first().map_or("size", abscissa_name)
}

fn table(changes: &[Change], abscissa: &str, metric: Metric, style: &Style) -> String {
    let has_x = changes.iter().any(|change| change.x.is_some());
    let mut table = Table::default();
    table.column("cell", Align::Left);
    table.column("phase", Align::Left);
    if has_x {
        table.column(abscissa, Align::Right);
    }
    for head in ["A", "[95 %]", "B", "[95 %]"] {
        table.column(head, if head.starts_with('[') { Align::Left } else { Align::Right });
    }
    table.column("B is", Align::Left);
    for change in changes {
        let mut fields = vec![tame(&change.label), tame(&change.phase)];
        if has_x {
            fields.push(change.x.map_or_else(String::new, number::plain));
        }
        for value in [&change.a, &change.b] {
            let (mid, interval) = match metric {
                Metric::Rate => (number::plain(value.median), number::interval(value.low, value.high)),
                Metric::Time => {
                    (number::time(value.median), number::time_interval(value.median, value.low, value.high))
                }
            };
            fields.push(mid);
            fields.push(style.dim(&interval));
        }
        let mut verdict = match change.faster {
            faster if !faster.proven => format!("~ {}", times(&faster)),
            faster if faster.ratio > 1.0 => style.bold(&format!("{} faster", times(&faster))),
            faster => style.bold(&format!("{} slower", times(&faster.inverse()))),
        };
        if !change.same_durability {
            verdict += " (not the same promise)";
        }
        fields.push(verdict);
        table.row(fields);
    }
    table.text(style)
}
