//! Makes the figures that an experiment defines from its measures.

use fathom_lab::analysis::{Analysis, Clock, Measure};
use fathom_lab::experiment::{Figure as Definition, FigureKind as Kind, Metric};
use fathom_lab::naming::{abscissa_name, value_in_sentence};
use fathom_lab::store::{CellRow, Results, StoreError};

use crate::axis::Axis;
use crate::decimate::decimate;
use crate::ecdf;
use crate::executions;
use crate::figure::{
    Figure, Line, Mark, Panel, PanelOf, PlaceOfCell, Series, abscissas, mean_over_sizes, plural,
    shown_parts_ns, value_text,
};
use crate::marks;
use crate::number;
use crate::palette;
use crate::words::{common_unit, distinct, joined};

/// Points that one figure draws at most; more would only be slower, not clearer.
const POINTS_PER_FIGURE: usize = 24_000;

/// Points that one line draws at most.
const POINTS_PER_LINE: usize = 4_000;

/// Series of single executions that are told apart in one panel; more stand in panels of their own.
const LINES_TOGETHER: usize = 4;

/// What the parts of a split in model time rest on.
const DIVIDED: &str = "CPU, device and other time are the model's. The device's part is divided among reads, writes and syncs as \
                       the time measured in such calls was.";

/// Makes the figure that `definition` describes.
///
/// # Errors
/// Samples that cannot be read (kind `series`).
pub fn figure(
    definition: &Definition,
    results: &Results,
    axes: &[Axis],
    analysis: &Analysis,
) -> Result<Figure, StoreError> {
    let by = definition.by.as_deref().and_then(|key| axes.iter().find(|axis| axis.key == key));
    let facet = definition.facet.as_deref().and_then(|key| axes.iter().find(|axis| axis.key == key));
    let phases = phases_of(definition, analysis);
    // Bars and splits put phases side by side; where the abscissa is a number, each phase has a
    // panel of its own.
    let phase_panels = matches!(definition.kind, Kind::Range | Kind::Series | Kind::Ecdf) && phases.len() > 1;
    let facet_values: Vec<&str> =
        facet.map_or_else(Vec::new, |f| f.shown.iter().map(String::as_str).collect());
    let panels = panels(&facet_values, if phase_panels { &phases } else { &[] });
    // An axis on which all cells of this figure agree tells nothing apart.
    let cells: Vec<_> = results.cells.iter().filter(|cell| passes(definition, cell)).collect();
    let cell_of_figure = cells.first().copied();
    let varying: Vec<&Axis> = axes
        .iter()
        .filter(|axis| cells.iter().any(|cell| cell.axes.get(&axis.key) != cells[0].axes.get(&axis.key)))
        .collect();
    let (series, of_cells) = marks::series(&cells, by, facet, &varying);
    let place_in_facet = |cell: &CellRow| {
        let facet = facet?;
        facet.position(cell.axes.get(&facet.key)?)
    };
    let series_of_cell: Vec<(i64, usize, Option<usize>)> =
        cells.iter().zip(of_cells).map(|(cell, series)| (cell.id, series, place_in_facet(cell))).collect();
    let place = |cell: i64| series_of_cell.iter().find(|(id, ..)| *id == cell).copied();
    let is_apart = definition.kind == Kind::Series && series.len() > LINES_TOGETHER;
    let panels = if is_apart { one_for_each(&panels, &series) } else { panels };
    let panel_of = |cell_facet: Option<usize>, phase: usize, series_index: usize| {
        let facet = cell_facet.unwrap_or(0);
        let panel = if phase_panels { facet * phases.len() + phase } else { facet };
        if is_apart { panel * series.len() + series_index } else { panel }
    };

    let mut figure = Figure {
        id: definition.id.clone(),
        kind: definition.kind,
        title: definition.title.clone(),
        see: definition.see.clone(),
        metric: if definition.kind == Kind::Split { Metric::Time } else { definition.metric },
        quantity: String::new(),
        abscissa: String::new(),
        by: by.map(|axis| axis.key.clone()),
        panels,
        series: series.clone(),
        groups: phases.clone(),
        marks: Vec::new(),
        lines: Vec::new(),
        log_y: false,
        log_x: false,
        note: String::new(),
        description: String::new(),
    };
    let mut units: Vec<&str> = Vec::new();
    let mut clocks: Vec<Clock> = Vec::new();
    for summary in &analysis.measures {
        let Some(group) = phases.iter().position(|phase| *phase == summary.phase) else { continue };
        let Some((_, series, facet)) = place(summary.cell) else { continue };
        units.push(&summary.unit);
        if matches!(definition.kind, Kind::Series | Kind::Ecdf)
            || (definition.kind == Kind::Range && summary.x.is_none())
        {
            continue;
        }
        let over_all_x = definition.kind != Kind::Range && summary.x.is_some();
        if over_all_x && figure.marks.iter().any(|m| m.cell == summary.cell && m.group == group) {
            continue;
        }
        let curve: Vec<&Measure> =
            if over_all_x { analysis.curve(summary.cell, &summary.phase).collect() } else { vec![summary] };
        let is_measured = curve.iter().any(|curve| curve.clock == Clock::Wall);
        let clock = if is_measured { Clock::Wall } else { Clock::Model };
        if !clocks.contains(&clock) {
            clocks.push(clock);
        }
        let Some(value) = mean_over_sizes(&curve, figure.metric, clock) else { continue };
        figure.marks.push(Mark {
            cell: summary.cell,
            panel: panel_of(facet, group, series),
            series,
            group,
            x: summary.x.filter(|_| !over_all_x),
            mid: value.mid,
            low: value.low,
            high: value.high,
            runs: value.n,
            parts: (definition.kind == Kind::Split).then(|| {
                let n = curve.len() as f64;
                curve.iter().fold([0.0; 5], |sum, m| {
                    let parts = shown_parts_ns(m, clock);
                    [0, 1, 2, 3, 4].map(|i| sum[i] + parts[i] / n)
                })
            }),
        });
    }
    let unit = common_unit(units.into_iter());
    if matches!(definition.kind, Kind::Series | Kind::Ecdf) {
        let cells = series_of_cell.iter().map(|known| known.0);
        let clock = executions::clock(results, cells, &phases)?;
        clocks.push(clock);
        match definition.kind {
            Kind::Series => read_lines(&mut figure, results, &phases, &place, &panel_of, clock)?,
            _ => ecdf::read(&mut figure, results, &phases, &place, &panel_of, clock)?,
        }
    }
    figure.quantity = match figure.metric {
        _ if figure.kind == Kind::Ecdf => format!("share of {}", plural(unit)),
        Metric::Rate => format!("{} per second", plural(unit)),
        Metric::Time => format!("time of one {unit}"),
        Metric::Bytes => format!("bytes written by one {unit}"),
    };
    if figure.kind != Kind::Range
        && figure.marks.iter().any(|m| {
            analysis
                .measures
                .iter()
                .any(|s| s.x.is_some() && s.cell == m.cell && s.phase == figure.groups[m.group])
        })
    {
        let counted = cell_of_figure.map_or("size", abscissa_name);
        figure.quantity += &format!(", mean over all {}", abscissas(counted));
    }
    let shown = |summary: &&Measure| phases.contains(&summary.phase) && place(summary.cell).is_some();
    let has_model = analysis.measures.iter().filter(shown).any(|measure| measure.clock == Clock::Model);
    figure.quantity += match clocks.as_slice() {
        _ if !has_model || figure.kind == Kind::Ecdf => "",
        [Clock::Model] => ", model time",
        [_, _] => ", model time where a device was modelled",
        _ => ", wall time",
    };
    figure.abscissa = match definition.kind {
        Kind::Range => cell_of_figure.map_or("size", abscissa_name).into(),
        Kind::Series => format!("{unit} number"),
        Kind::Ecdf if clocks == [Clock::Model] => format!("time of one {unit}, model time"),
        Kind::Ecdf if has_model => format!("time of one {unit}, wall time"),
        Kind::Ecdf => format!("time of one {unit}"),
        Kind::Bars | Kind::Split => String::new(),
    };
    choose_scales(&mut figure);
    if let Some(log) = definition.log {
        figure.log_y = log && !matches!(figure.kind, Kind::Split | Kind::Ecdf);
        figure.log_x = log && matches!(figure.kind, Kind::Range | Kind::Ecdf);
    }
    if figure.kind == Kind::Split && clocks.contains(&Clock::Model) {
        figure.note = DIVIDED.into();
    }
    for more in [marks::alike_note(&figure), only_of(definition, results, analysis, &phases)] {
        let own = std::mem::take(&mut figure.note);
        figure.note = format!("{own} {more}").trim().to_owned();
    }
    figure.description = describe(&figure);
    Ok(figure)
}

/// The phases that the figure asks for and the results have; all of them where it asks for none.
fn phases_of(definition: &Definition, analysis: &Analysis) -> Vec<String> {
    if !definition.phases.is_empty() {
        return definition.phases.clone();
    }
    analysis.phases()
}

fn panels(facets: &[&str], phases: &[String]) -> Vec<Panel> {
    let mut titles: Vec<String> = facets.iter().map(|f| f.to_string()).collect();
    if titles.is_empty() {
        titles.push(String::new());
    }
    if !phases.is_empty() {
        titles = titles
            .iter()
            .flat_map(|facet| {
                phases
                    .iter()
                    .map(move |p| if facet.is_empty() { p.clone() } else { format!("{facet} · {p}") })
            })
            .collect();
    }
    titles.into_iter().map(|title| Panel { title }).collect()
}

/// A panel for each series within each panel: what is a mass of lines in one is read in several
/// that have the same axes.
fn one_for_each(panels: &[Panel], series: &[Series]) -> Vec<Panel> {
    let of_series = |panel: &Panel, series: &Series| match panel.title.as_str() {
        "" => series.name.clone(),
        title => format!("{title} · {}", series.name),
    };
    panels
        .iter()
        .flat_map(|panel| series.iter().map(move |series| Panel { title: of_series(panel, series) }))
        .collect()
}

/// Whether the figure's `where` lets the cell in.
fn passes(definition: &Definition, cell: &CellRow) -> bool {
    definition
        .filter
        .iter()
        .all(|(axis, allowed)| cell.axes.get(axis).is_some_and(|value| allowed.contains(value)))
}

/// `Of ext4 alone.`: what the figure's `where` chooses on axes that the figure does not show, where
/// others were measured in its phases; else nothing.
fn only_of(definition: &Definition, results: &Results, analysis: &Analysis, phases: &[String]) -> String {
    let is_measured = |cell: &CellRow| {
        analysis.measures.iter().any(|measure| measure.cell == cell.id && phases.contains(&measure.phase))
    };
    let shown = [&definition.by, &definition.facet].map(|axis| axis.as_deref());
    let of_axes: Vec<String> = definition
        .filter
        .iter()
        .filter(|(axis, _)| !shown.contains(&Some(axis.as_str())))
        .filter(|(axis, values)| {
            let is_other = |cell: &CellRow| cell.axes.get(*axis).is_some_and(|value| !values.contains(value));
            results.cells.iter().any(|cell| is_other(cell) && is_measured(cell))
        })
        .map(|(axis, _)| {
            let cells = results.cells.iter().filter(|cell| passes(definition, cell) && is_measured(cell));
            joined(&distinct(cells.filter_map(|cell| value_in_sentence(cell, axis))))
        })
        .filter(|values| !values.is_empty())
        .collect();
    if of_axes.is_empty() { String::new() } else { format!("Of {} alone.", of_axes.join(" with ")) }
}

fn read_lines(
    figure: &mut Figure,
    results: &Results,
    phases: &[String],
    place: PlaceOfCell<'_>,
    panel_of: PanelOf<'_>,
    clock: Clock,
) -> Result<(), StoreError> {
    let cells = results.cells.iter().filter(|cell| results.good_runs(cell.id).next().is_some()).count();
    let limit = (POINTS_PER_FIGURE / (cells * phases.len()).max(1)).clamp(200, POINTS_PER_LINE);
    let (mut drawn, mut total) = (0, 0);
    for cell in &results.cells {
        let Some((_, series, facet)) = place(cell.id) else { continue };
        // One run is shown as it was: a median over runs would smooth away the spikes that a series
        // is there to show.
        let Some(run) = results.good_runs(cell.id).next() else { continue };
        for (group, phase) in phases.iter().enumerate() {
            let mut times = executions::times(results, run.id, phase, clock)?;
            if times.is_empty() {
                continue;
            }
            let points: Vec<(f64, f64)> =
                times.iter().enumerate().map(|(i, ns)| (i as f64 + 1.0, *ns)).collect();
            times.sort_by(f64::total_cmp);
            let at = |q: f64| times[((times.len() - 1) as f64 * q).round() as usize];
            let kept = decimate(&points, limit);
            drawn += kept.len();
            total += points.len();
            figure.lines.push(Line {
                cell: cell.id,
                panel: panel_of(facet, group, series),
                series,
                run: run.block + 1,
                total: points.len(),
                percentiles: [at(0.5), at(0.99), at(1.0)],
                points: kept,
            });
        }
    }
    figure.note = if drawn < total {
        format!(
            "Drawn with {} of {} executions: each stretch keeps its lowest and its highest. First run of each cell.",
            number::plain(drawn as f64),
            number::plain(total as f64)
        )
    } else if total > 0 {
        "Every execution of the first run of each cell.".into()
    } else {
        String::new()
    };
    Ok(())
}

/// Logarithmic where a linear axis would hide the small values: lines over a number from a factor
/// of 30, bars from a factor of 60, series where the highest point is more than 30 times the
/// median.
fn choose_scales(figure: &mut Figure) {
    let spread = |values: &mut dyn Iterator<Item = f64>| {
        let (mut low, mut high) = (f64::INFINITY, 0.0f64);
        for v in values.filter(|v| *v > 0.0) {
            low = low.min(v);
            high = high.max(v);
        }
        if high > 0.0 { high / low } else { 1.0 }
    };
    let marks = spread(&mut figure.marks.iter().map(|m| m.mid));
    match figure.kind {
        Kind::Range => {
            figure.log_x = spread(&mut figure.marks.iter().filter_map(|m| m.x)) >= 30.0;
            figure.log_y = figure.log_x || marks >= 30.0;
        }
        Kind::Bars => figure.log_y = marks >= 60.0,
        Kind::Split => {}
        // From what is served from memory to what waits for a device there are powers of ten.
        Kind::Ecdf => figure.log_x = true,
        Kind::Series => {
            figure.log_y = figure.lines.iter().any(|l| l.percentiles[2] > 30.0 * l.percentiles[0])
                || spread(&mut figure.lines.iter().map(|l| l.percentiles[0])) >= 30.0;
        }
    }
}

fn describe(figure: &Figure) -> String {
    let kind = match figure.kind {
        Kind::Bars => "Bar chart",
        Kind::Split => "Stacked bar chart",
        Kind::Range => "Line chart",
        Kind::Series => "Line chart of single executions",
        Kind::Ecdf => "Empirical distribution of single executions",
    };
    let mut text = format!("{kind}: {}. {}", figure.title.trim_end_matches('.'), figure.quantity);
    // Those of what was not measured are not drawn.
    let is_drawn = |panel: &usize| {
        figure.marks.iter().any(|mark| mark.panel == *panel)
            || figure.lines.iter().any(|line| line.panel == *panel)
    };
    let panels = (0..figure.panels.len()).filter(is_drawn).count();
    if panels > 1 {
        text += &format!(", {panels} panels");
    }
    text += ". ";
    let name = |m: &Mark| {
        let panel = &figure.panels[m.panel].title;
        let group = &figure.groups[m.group];
        let mut words = vec![figure.series[m.series].name.as_str()];
        if !panel.is_empty() {
            words.push(panel);
        }
        if figure.groups.len() > 1 && !panel.contains(group.as_str()) {
            words.push(group);
        }
        words.join(", ")
    };
    let extreme = |greatest: bool| {
        figure
            .marks
            .iter()
            .max_by(|a, b| if greatest { a.mid.total_cmp(&b.mid) } else { b.mid.total_cmp(&a.mid) })
    };
    if let (Some(high), Some(low)) = (extreme(true), extreme(false)) {
        text += &format!(
            "Highest: {} at {}. Lowest: {} at {}.",
            name(high),
            value_text(figure.metric, high.mid),
            name(low),
            value_text(figure.metric, low.mid)
        );
    }
    if figure.kind == Kind::Split {
        let share = |m: &Mark| m.parts.map_or(0.0, |p| p[palette::FSYNC] / p.iter().sum::<f64>().max(1.0));
        if let Some(most) = figure.marks.iter().max_by(|a, b| share(a).total_cmp(&share(b))) {
            text += &format!(" Largest share of fsync: {}, {}.", name(most), number::percent(share(most)));
        }
    }
    for line in figure.lines.iter().take(8) {
        text += &format!(
            "{}: median {}, 99th percentile {}, maximum {}. ",
            figure.series[line.series].name,
            number::time(line.percentiles[0]),
            number::time(line.percentiles[1]),
            number::time(line.percentiles[2])
        );
    }
    text += " The table under the figure holds every value.";
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened: of three file systems one could not be measured, and whoever does not see the
    /// figure was told of three panels.
    #[test]
    fn panels_of_what_was_not_measured_are_not_told_of() {
        let panel = |title: &str| Panel { title: title.into() };
        let series = Series { name: "WAL".into(), value: None, colour: 0, pattern: 0, dash: 0 };
        let mark = |panel: usize, mid: f64| Mark {
            cell: 1,
            panel,
            series: 0,
            group: 0,
            x: None,
            mid,
            low: mid,
            high: mid,
            runs: 1,
            parts: None,
        };
        let figure = |marks: Vec<Mark>| Figure {
            id: "rate".into(),
            kind: Kind::Bars,
            title: "Rates".into(),
            see: String::new(),
            metric: Metric::Rate,
            quantity: "transactions per second".into(),
            abscissa: String::new(),
            by: None,
            panels: vec![panel("ext4"), panel("xfs"), panel("f2fs")],
            series: vec![series.clone()],
            groups: vec!["insert".into()],
            marks,
            lines: Vec::new(),
            log_y: false,
            log_x: false,
            note: String::new(),
            description: String::new(),
        };
        assert!(describe(&figure(vec![mark(0, 1.0), mark(2, 2.0)])).contains(", 2 panels."));
        assert!(!describe(&figure(vec![mark(0, 1.0)])).contains("panels"));
    }
}
