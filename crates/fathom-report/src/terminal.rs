//! What a person reads in the terminal after a run: a table that answers, the findings, what to be
//! careful about.

use fathom_lab::analysis::{Analysis, Clock, Measure};
use fathom_lab::experiment::Metric;
use fathom_lab::naming::{abscissa_name, engines_of, value_name};
use fathom_lab::store::{CellRow, Results};
use fathom_workload::spec::Durability;

use crate::blocks;
use crate::devices;
use crate::document::{ANSWERS, Document};
use crate::number;
use crate::power_cut;
use crate::recommend;
use crate::style::{Align, Style, Table, tame};
use crate::words::{are_commits, common_unit, joined, more_comparisons};

/// Where there is no good run.
const NOTHING_DONE: &str = "No run was completed, so there is nothing to show.";

/// Where there are good runs, and nothing in them that took a time.
const NOTHING_EXECUTED: &str = "The runs were completed and executed nothing, so there are no times to show.";

/// The tables, findings and warnings of the results.
pub fn text(document: &Document<'_>, style: &Style) -> String {
    let results = document.results;
    let mut out = String::new();
    let phases = shown_phases(document);
    for phase in &phases {
        let curves = document.analysis.measures.iter().any(|m| m.phase == *phase && m.x.is_some());
        out += &style
            .paragraph("  ", &style.bold(&heading(results, &document.analysis, phase, phases.len() > 1)));
        out += &if curves { pivot(document, phase, style) } else { table(document, phase, style) };
        out.push('\n');
    }
    if phases.is_empty() {
        let is_any_done = results.cells.iter().any(|cell| results.good_runs(cell.id).next().is_some());
        out += &style.paragraph("  ", if is_any_done { NOTHING_EXECUTED } else { NOTHING_DONE });
        out.push('\n');
    }
    out += &devices::terminal(document, style);
    out += &blocks::table(document, style);
    for finding in document.findings.iter().take(ANSWERS) {
        out += &style.paragraph("  ", &tame(finding));
    }
    for promise in &document.promises {
        out += &style.paragraph("  ", &tame(promise));
    }
    if document.findings.len() > ANSWERS {
        let more = more_comparisons(document.findings.len() - ANSWERS);
        out += &style.dim(&format!("  … and {more} in the report."));
        out.push('\n');
    }
    out += &power_cut::page::terminal(document, style);
    for note in last_commit_notes(results) {
        out += &style.paragraph("  ", &note);
    }
    if !document.cautions.is_empty() {
        out.push('\n');
        out += &style.bold("  Be careful:");
        out.push('\n');
        for caution in document.cautions.iter().take(6) {
            let text = tame(&format!("{} {}", caution.about, caution.text));
            let lines = style.paragraph("    ", &text);
            out += &format!("  - {}", lines.trim_start());
        }
        if document.cautions.len() > 6 {
            out += &style.dim(&format!("  … and {} more in the report.\n", document.cautions.len() - 6));
        }
    }
    out
}

/// Why the last commit of some cells may be lost at a power cut.
fn last_commit_notes(results: &Results) -> Vec<String> {
    let lost = || results.cells.iter().filter(|cell| cell.durability == Some(Durability::PowerCutAllButLast));
    let truncates = |cell: &CellRow| {
        let engine = cell.spec.engine.as_ref();
        engine
            .is_some_and(|engine| engine.settings.get("journal_mode").is_some_and(|mode| mode == "truncate"))
    };
    let mut notes = Vec::new();
    if lost().any(|cell| !truncates(cell)) {
        notes.push(
            "* DELETE with FULL does not sync the directory after removing the journal, so a power cut can bring the \
             journal back and undo the last commit: synchronous=EXTRA does."
                .to_owned(),
        );
    }
    if lost().any(truncates) {
        notes.push(
            "* TRUNCATE does not sync the journal after cutting it in SQLite before 3.8.7.1, so a power cut can bring the \
             journal back and undo the last commit: PERSIST does, and so do newer versions."
                .to_owned(),
        );
    }
    notes
}

/// The phases that the experiment compares; all where it compares none, or where none of those was
/// measured.
fn shown_phases(document: &Document<'_>) -> Vec<String> {
    let mut measured: Vec<String> = Vec::new();
    for measure in &document.analysis.measures {
        if !measured.contains(&measure.phase) {
            measured.push(measure.phase.clone());
        }
    }
    let compared: Vec<String> =
        measured.iter().filter(|phase| document.compared_phases.contains(phase)).cloned().collect();
    if compared.is_empty() { measured } else { compared }
}

/// `insert: transactions of SQLite 3.54.1, page size 4096`.
fn heading(results: &Results, analysis: &Analysis, phase: &str, several: bool) -> String {
    let engines: Vec<String> =
        engines_of(results, &results.cells).iter().map(|engine| tame(engine)).collect();
    let measures = analysis.measures.iter().filter(|measure| measure.phase == phase);
    let unit = common_unit(measures.map(|measure| measure.unit.as_str()));
    let mut words = vec![match unit {
        "message" => format!("{}: messages per second", tame(phase)),
        "transaction" if !several => {
            let what = if are_commits(results, analysis, phase) { "Commits" } else { "Transactions" };
            format!("{what} per second ({})", tame(phase))
        }
        _ => format!("{}: one {}", tame(phase), tame(unit)),
    }];
    words.extend((!engines.is_empty()).then(|| joined(&engines)));
    let runs = results.cells.iter().filter_map(|cell| results.good_runs(cell.id).next());
    let pages = runs.filter_map(|run| run.engine.as_ref()?.settings.get("page_size"));
    if let Some(page) = only(pages).filter(|_| engines.len() == 1) {
        words.push(format!("page {}", tame(page)));
    }
    if analysis.measures.iter().any(|m| m.phase == phase && m.clock == Clock::Model) {
        words.push("in model time".into());
    }
    words.join(", ")
}

/// What all of them are; none where they differ, or there are none.
fn only<T: PartialEq>(mut all: impl Iterator<Item = T>) -> Option<T> {
    let first = all.next()?;
    all.all(|other| other == first).then_some(first)
}

/// What a naming column says of a cell.
type Naming = Box<dyn Fn(&CellRow) -> String>;

/// The columns that name a cell: journal mode and synchronous setting where those are what it is
/// about, else the axes.
fn naming(document: &Document<'_>) -> Vec<(String, Naming)> {
    if recommend::applies(document.results) {
        let part = |second: bool| {
            move |cell: &CellRow| {
                recommend::setting(cell)
                    .map_or_else(String::new, |s| if second { s.1 } else { s.0 }.to_uppercase())
            }
        };
        return vec![("journal".into(), Box::new(part(false))), ("sync".into(), Box::new(part(true)))];
    }
    let varying: Vec<_> = document.axes.iter().filter(|axis| axis.values.len() > 1).collect();
    if varying.is_empty() {
        return vec![("cell".into(), Box::new(|cell: &CellRow| cell.title.clone()))];
    }
    varying
        .into_iter()
        .map(|axis| {
            let key = axis.key.clone();
            let value = move |cell: &CellRow| value_name(cell, &key).unwrap_or_default();
            (axis.label.clone(), Box::new(value) as Naming)
        })
        .collect()
}

/// What a table leaves out where the terminal is narrow, in this order.
const SHORTENINGS: usize = 5;

/// The table of a phase, with as much detail as the width holds.
fn table(document: &Document<'_>, phase: &str, style: &Style) -> String {
    let tables = (0..=SHORTENINGS).filter_map(|shortened| laid_out(document, phase, style, shortened));
    let mut narrowest = String::new();
    for table in tables {
        if table.width() <= style.width {
            return table.text(style);
        }
        narrowest = table.text(style);
    }
    narrowest
}

/// The table with `shortened` of these: no bars, shorter headings, no p99, "mode" left out of
/// names, no wall time beside model time. None without rows.
fn laid_out(document: &Document<'_>, phase: &str, style: &Style, shortened: usize) -> Option<Table> {
    let [bars, headings, percentile, whole_names, wall] = [1, 2, 3, 4, 5].map(|level| shortened < level);
    let rows: Vec<(&CellRow, &Measure)> = document
        .results
        .cells
        .iter()
        .filter_map(|cell| Some((cell, document.analysis.get(cell.id, phase, None)?)))
        .collect();
    let (_, first) = rows.first()?;
    let metric = first.main_metric();
    let names = naming(document);
    let is_cut = rows.iter().any(|(cell, _)| document.results.cut(cell.id).is_some());
    let is_marked = |cell: &CellRow| !power_cut::mark(document.results, cell).is_empty();
    let mixed =
        is_cut || rows.iter().any(|(cell, _)| cell.durability != rows[0].0.durability || is_marked(cell));
    let mut table = Table::default();
    for (head, _) in &names {
        let head = if whole_names { head.as_str() } else { head.trim_end_matches(" mode") };
        table.column(head, Align::Left);
    }
    let has_model = rows.iter().any(|(_, measure)| measure.clock == Clock::Model);
    let head = if metric == Metric::Rate { "per s" } else { "time" };
    table.column(if has_model { format!("{head}, model") } else { head.into() }, Align::Right);
    table.column("[95 %]", Align::Left);
    if has_model && wall {
        table.column("wall", Align::Right);
    }
    if percentile {
        table.column("p99", Align::Right);
    }
    table.column(if bars { "where the time goes" } else { "time in" }, Align::Left);
    // No table mixes promises silently.
    if mixed {
        table.column(if headings { "power cut keeps" } else { "power cut" }, Align::Left);
        table.column(if headings { "crash keeps" } else { "crash" }, Align::Left);
    }
    for (cell, measure) in rows {
        let value = measure.interval(metric);
        let mut fields: Vec<String> = names.iter().map(|(_, name)| tame(&name(cell))).collect();
        fields.push(match metric {
            Metric::Rate => number::plain(value.mid),
            Metric::Time => number::time(value.mid),
            Metric::Bytes => number::bytes(value.mid),
        });
        fields.push(style.dim(&match metric {
            Metric::Rate => number::interval_of(&value),
            Metric::Time => number::time_interval_of(&value),
            Metric::Bytes => number::bytes_interval(value.low, value.high),
        }));
        if document.is_late(cell.id)
            && measure.clock == Clock::Wall
            && let Some(interval) = fields.last_mut()
        {
            interval.push_str(" !");
        }
        if has_model && wall {
            let value = measure.interval_of(metric, Clock::Wall);
            let mark = if document.is_late(cell.id) { " !" } else { "" };
            fields.push(style.dim(&match (measure.clock, metric) {
                (Clock::Wall, _) => "the same".to_owned(),
                (_, Metric::Rate) => number::plain(value.mid) + mark,
                (_, Metric::Time) => number::time(value.mid) + mark,
                (_, Metric::Bytes) => number::bytes(value.mid) + mark,
            }));
        }
        if percentile {
            let (latency_ns, is_wall) = measure.shown_latency_ns();
            fields.push(number::time(latency_ns[3]) + if is_wall { " wall" } else { "" });
        }
        let (share, name) = told_part(measure);
        let told = format!("{:>4} {name}", number::percent(share));
        fields.push(if bars { format!("{} {told}", style.bar(share)) } else { told });
        if mixed {
            let shown = |keeps: &str| if headings { keeps.to_owned() } else { keeps.replace(" sure", "") };
            let measured = power_cut::measured(document.results, cell.id);
            let measured = measured.map(|said| match headings {
                true => said,
                false => said.trim_start_matches("measured: ").to_owned(),
            });
            let mark = power_cut::mark(document.results, cell);
            fields.push(measured.unwrap_or_else(|| shown(power_cut_keeps(cell.durability)) + mark));
            fields.push(shown(crash_keeps(cell.durability)));
        }
        table.row(fields);
    }
    Some(table)
}

/// The part that the bar shows: fsync, or where a cell never syncs, its largest part.
fn told_part(measure: &Measure) -> (f64, &'static str) {
    let s = measure.shares_in(measure.clock);
    if measure.split.sync_calls > 0 {
        return (s.sync, "fsync");
    }
    [(s.cpu, "CPU"), (s.read, "read"), (s.write, "write"), (s.lock, "locks"), (s.other, "other")]
        .into_iter()
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .unwrap_or((0.0, "fsync"))
}

fn power_cut_keeps(durability: Option<Durability>) -> &'static str {
    match durability {
        None => "not known",
        Some(Durability::None | Durability::ProcessCrash) => "nothing sure",
        Some(Durability::PowerCutPrefix) => "a prefix",
        Some(Durability::PowerCutAllButLast) => "all but 1*",
        Some(Durability::PowerCut) => "all",
        Some(Durability::OneNode) => "all, and a node",
    }
}

fn crash_keeps(durability: Option<Durability>) -> &'static str {
    match durability {
        None => "not known",
        Some(Durability::None) => "nothing sure",
        Some(_) => "all",
    }
}

/// A phase with an abscissa: one row per size, one column per cell; as many tables as the width
/// asks for.
fn pivot(document: &Document<'_>, phase: &str, style: &Style) -> String {
    let mut sizes: Vec<f64> =
        document.analysis.measures.iter().filter(|m| m.phase == phase).filter_map(|m| m.x).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    let cells: Vec<&CellRow> = document
        .results
        .cells
        .iter()
        .filter(|cell| document.analysis.curve(cell.id, phase).next().is_some())
        .collect();
    let widest = cells.iter().map(|cell| cell.label.chars().count()).max().unwrap_or(8).clamp(8, 30) + 2;
    let columns = (style.width.saturating_sub(14) / widest).max(1);
    let mut out = String::new();
    for chunk in cells.chunks(columns) {
        let mut table = Table::default();
        table.column(cells.first().map_or("size", |cell| abscissa_name(cell)), Align::Right);
        for cell in chunk {
            table.column(tame(&cell.title), Align::Right);
        }
        for &size in &sizes {
            let mut fields = vec![number::plain(size)];
            fields.extend(chunk.iter().map(|cell| {
                let found = document.analysis.get(cell.id, phase, Some(size));
                found.map_or_else(String::new, |m| match m.main_metric() {
                    Metric::Rate => number::plain(m.rate.mid),
                    Metric::Time | Metric::Bytes => number::time(m.time_ns.mid),
                })
            }));
            table.row(fields);
        }
        out += &table.text(style);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened: cells of several page sizes stood below "page 1024", that of the first.
    #[test]
    fn a_heading_says_of_pages_what_holds_for_all_of_them() {
        assert_eq!(only(["1024", "1024"].into_iter()), Some("1024"));
        assert_eq!(only(["1024", "4096"].into_iter()), None);
        assert_eq!(only(std::iter::empty::<&str>()), None);
    }
}
