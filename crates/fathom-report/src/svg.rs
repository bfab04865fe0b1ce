//! A figure as a static SVG: for papers, for machines without a browser, for
//! `fathom report --figure ID --svg FILE`.
//!
//! Axes start at zero unless they are logarithmic, and then say so.

use fathom_lab::experiment::{FigureKind as Kind, Metric};

use crate::canvas::{Canvas, INK, MUTED, RULE, WIDTH, document, name_lines, shortened, text_width};
use crate::ecdf::WHOLE;
use crate::figure::{Figure, Line, Mark, Series};
use crate::number;
use crate::palette::{DASHES, FSYNC, PART_COLOURS, PARTS, VALUE_COLOURS};
use crate::reach::Reach;

/// Lines of a name under a bar: what there is room for.
const NAME_LINES: usize = 3;

/// Draws the figure.
pub fn draw(figure: &Figure) -> String {
    let mut body = Canvas::default();
    let panels: Vec<usize> = (0..figure.panels.len())
        .filter(|p| figure.marks.iter().any(|m| m.panel == *p) || figure.lines.iter().any(|l| l.panel == *p))
        .collect();
    let mut y = 20.0;
    y = body.paragraph(y, &figure.title, INK, 15, true);
    y = legend(figure, &mut body, y + 12.0);
    let log = if figure.log_y { ", logarithmic axis" } else { "" };
    let cut = if Reach::of(figure).cuts_any(figure) {
        "; an interval without a bar at its end reaches beyond what is drawn"
    } else {
        ""
    };
    y = body.paragraph(y + 14.0, &format!("{}{log}{cut}", figure.quantity), MUTED, 11, false) + 10.0;
    if panels.is_empty() {
        body.text(0.0, y + 20.0, "Nothing was measured for this figure.", "start", MUTED, 12, false);
        y += 40.0;
    }
    let wide = !matches!(figure.kind, Kind::Bars);
    let columns = panels.len().clamp(1, if wide { 2 } else { 3 });
    let gap = 18.0;
    let width = (WIDTH - gap * (columns as f64 - 1.0)) / columns as f64;
    let rows: Vec<Vec<(usize, usize)>> = panels.iter().map(|p| rows_of(figure, *p)).collect();
    let tallest = rows.iter().map(Vec::len).max().unwrap_or(1) as f64;
    let height = match figure.kind {
        Kind::Split => tallest * 24.0 + 6.0,
        Kind::Series if panels.len() > 4 => 110.0,
        _ => 170.0,
    };
    let heading = if panels.iter().any(|p| !figure.panels[*p].title.is_empty()) { 20.0 } else { 4.0 };
    // Names under bars take up to NAME_LINES lines.
    let below = match figure.kind {
        Kind::Bars => 46.0,
        _ if figure.abscissa.is_empty() => 26.0,
        _ => 40.0,
    };
    let ruler = Ruler::of_values(figure);
    for (k, panel) in panels.iter().enumerate() {
        let left = (k % columns) as f64 * (width + gap);
        let top = y + (k / columns) as f64 * (heading + height + below);
        let frame = Frame { left, top: top + heading, width, height };
        // Bold is wider, and beside it stands another one, behind a gap.
        let title = shortened(&figure.panels[*panel].title, 12.0, width);
        body.text(left, top + 12.0, &title, "start", INK, 12, true);
        match figure.kind {
            Kind::Split => split(figure, *panel, &rows[k], &frame, &ruler, &mut body),
            Kind::Bars => bars(figure, *panel, &frame, &ruler, &mut body),
            Kind::Range | Kind::Series | Kind::Ecdf => curves(figure, *panel, &frame, &ruler, &mut body),
        }
    }
    let total = y + panels.len().div_ceil(columns) as f64 * (heading + height + below) + 4.0;
    document(&figure.title, &figure.description, total, &body)
}

/// Where a panel is.
struct Frame {
    left: f64,
    top: f64,
    width: f64,
    height: f64,
}

/// An axis of numbers: its range, its ticks, and where a number lies on it (0 to 1).
struct Ruler {
    log: bool,
    low: f64,
    high: f64,
    ticks: Vec<f64>,
}

impl Ruler {
    fn of_values(figure: &Figure) -> Ruler {
        if figure.kind == Kind::Ecdf {
            let ticks = [0.0, 0.25, 0.5, 0.75, 1.0].map(|share| share * WHOLE).into();
            return Ruler { log: false, low: 0.0, high: WHOLE, ticks };
        }
        let parts = |m: &Mark| m.parts.map_or(m.high, |p| p.iter().sum());
        let reach = Reach::of(figure);
        let marks = figure.marks.iter().flat_map(|m| match figure.kind {
            Kind::Split => [m.low, parts(m)],
            _ => [m.low, m.high].map(|end| reach.within(end)),
        });
        let lines = figure.lines.iter().flat_map(|l| l.points.iter().map(|p| p.1));
        Ruler::new(figure.log_y, marks.chain(lines), 4.0)
    }

    fn new(log: bool, values: impl Iterator<Item = f64>, steps: f64) -> Ruler {
        let (mut low, mut high) = (f64::INFINITY, 0.0f64);
        for value in values.filter(|v| v.is_finite() && *v > 0.0) {
            low = low.min(value);
            high = high.max(value);
        }
        if high <= 0.0 {
            (low, high) = (1.0, 1.0);
        }
        if log {
            let (from, to) = (low.log10().floor(), high.log10().ceil().max(low.log10().floor() + 1.0));
            let ticks = (from as i32..=to as i32).map(|p| 10f64.powi(p)).collect();
            return Ruler { log, low: 10f64.powf(from), high: 10f64.powf(to), ticks };
        }
        let rough = high / steps;
        let power = 10f64.powf(rough.log10().floor());
        let step =
            [1.0, 2.0, 2.5, 5.0, 10.0].map(|m| m * power).into_iter().find(|s| *s >= rough * 0.999_999);
        let step = step.unwrap_or(rough);
        let count = (high / step - 1e-9).ceil().max(1.0);
        Ruler {
            log,
            low: 0.0,
            high: step * count,
            ticks: (0..=count as usize).map(|i| i as f64 * step).collect(),
        }
    }

    fn at(&self, value: f64) -> f64 {
        if self.log {
            (value.max(self.low).log10() - self.low.log10()) / (self.high.log10() - self.low.log10())
        } else {
            (value - self.low) / (self.high - self.low)
        }
    }
}

fn tick(metric: Metric, value: f64) -> String {
    match metric {
        _ if value == 0.0 => "0".into(),
        Metric::Time => number::time(value).replace(".00 ", " ").replace(".0 ", " "),
        Metric::Rate => short(value),
        Metric::Bytes => number::bytes(value),
    }
}

/// `1k`, `2.5M`.
fn short(value: f64) -> String {
    let trim = |v: f64| format!("{v:.1}").trim_end_matches(".0").to_string();
    match value {
        v if v >= 1e6 => format!("{}M", trim(v / 1e6)),
        v if v >= 1e4 => format!("{}k", trim(v / 1e3)),
        v => number::plain(v),
    }
}

/// Names with their colours, in lines; gives the y below them.
fn legend(figure: &Figure, canvas: &mut Canvas, top: f64) -> f64 {
    let entries: Vec<(&str, &str, Option<&Series>)> = if figure.kind == Kind::Split {
        PARTS.iter().zip(&PART_COLOURS).map(|(name, c)| (*name, c.light, None)).collect()
    } else {
        let drawn = figure.series.iter().enumerate().filter(|(index, _)| figure.draws(*index));
        drawn.map(|(_, s)| (s.name.as_str(), VALUE_COLOURS[s.colour].light, Some(s))).collect()
    };
    let has_lines = figure.has_lines();
    let mark = if has_lines { 26.0 } else { 10.0 };
    let (mut x, mut y) = (0.0, top + 10.0);
    for (name, colour, series) in entries {
        let name = &shortened(name, 11.0, WIDTH * 0.8);
        let width = mark + 20.0 + text_width(name, 11.0);
        if x > 0.0 && x + width > WIDTH {
            (x, y) = (0.0, y + 18.0);
        }
        match series {
            Some(series) if has_lines => {
                let ends = [(x, y - 4.0), (x + mark, y - 4.0)];
                canvas.polyline(ends.into_iter(), colour, 2.0, dashes_of(figure, series));
            }
            Some(series) => canvas.bar(x, y - 9.0, 10.0, 10.0, colour, series.pattern),
            None => canvas.rect(x, y - 9.0, 10.0, 10.0, colour),
        }
        canvas.text(x + mark + 4.0, y, name, "start", INK, 11, false);
        x += width;
    }
    y + 4.0
}

/// The dashes of a series' lines. Of single executions in order the spikes would be lost in them.
fn dashes_of(figure: &Figure, series: &Series) -> Option<&'static str> {
    if figure.kind == Kind::Series { None } else { Some(DASHES[series.dash]).filter(|dash| !dash.is_empty()) }
}

/// The (group, series) pairs that a panel of a split has, in order.
fn rows_of(figure: &Figure, panel: usize) -> Vec<(usize, usize)> {
    let mut rows: Vec<(usize, usize)> =
        figure.marks.iter().filter(|m| m.panel == panel).map(|m| (m.group, m.series)).collect();
    rows.sort_unstable();
    rows.dedup();
    rows
}

fn split(
    figure: &Figure,
    panel: usize,
    rows: &[(usize, usize)],
    frame: &Frame,
    ruler: &Ruler,
    canvas: &mut Canvas,
) {
    let several = figure.marks.iter().any(|m| m.group != figure.marks[0].group);
    let name = |group: usize, series: usize| match (several, figure.series.len() > 1) {
        (true, true) => format!("{}, {}", figure.series[series].name, figure.groups[group]),
        (true, false) => figure.groups[group].clone(),
        _ => figure.series[series].name.clone(),
    };
    // Some faces are wider than `text_width` has them.
    let longest = rows.iter().map(|(g, s)| text_width(&name(*g, *s), 11.0) * 1.1).fold(0.0, f64::max);
    let left = (longest + 8.0).clamp(40.0, frame.width * 0.42);
    let width = frame.width - left - 100.0;
    let bottom = frame.top + frame.height;
    let mut last = f64::NEG_INFINITY;
    for value in &ruler.ticks {
        let x = frame.left + left + ruler.at(*value) * width;
        canvas.line(x, frame.top, x, bottom, RULE, 1.0);
        // A label that would touch the one before it is left out; its rule stays.
        if x - last > 44.0 {
            canvas.text(x, bottom + 14.0, &tick(Metric::Time, *value), "middle", MUTED, 10, false);
            last = x;
        }
    }
    for (i, (group, series)) in rows.iter().enumerate() {
        let find = |m: &&Mark| m.panel == panel && m.group == *group && m.series == *series;
        let Some(parts) = figure.marks.iter().find(find).and_then(|m| m.parts) else { continue };
        let middle = frame.top + 3.0 + (i as f64 + 0.5) * 24.0;
        let words = shortened(&name(*group, *series), 11.0, (left - 7.0) / 1.1);
        canvas.text(frame.left + left - 6.0, middle + 4.0, &words, "end", INK, 11, false);
        let mut x = frame.left + left;
        for (part, colour) in parts.iter().zip(&PART_COLOURS) {
            let length = ruler.at(*part) * width;
            if *part > 0.0 {
                canvas.rect(x, middle - 8.0, length, 16.0, colour.light);
            }
            x += length;
        }
        let total: f64 = parts.iter().sum();
        let told =
            if figure.marks.iter().any(|m| m.parts.is_some_and(|p| p[FSYNC] > 0.005 * p.iter().sum::<f64>()))
            {
                FSYNC
            } else {
                (0..5).max_by(|a, b| parts[*a].total_cmp(&parts[*b])).unwrap_or(FSYNC)
            };
        let label = format!(
            "{}, {} {}",
            number::time(total),
            number::percent(parts[told] / total.max(1.0)),
            PARTS[told]
        );
        canvas.text(x + 5.0, middle + 4.0, &label, "start", INK, 10, false);
    }
    canvas.line(frame.left + left, frame.top, frame.left + left, bottom, MUTED, 1.0);
}

/// The horizontal rules of an axis of values; gives the left edge of what is drawn.
fn values_axis(figure: &Figure, frame: &Frame, ruler: &Ruler, canvas: &mut Canvas) -> f64 {
    let left = frame.left + 46.0;
    for value in &ruler.ticks {
        let y = frame.top + (1.0 - ruler.at(*value)) * frame.height;
        canvas.line(left, y, frame.left + frame.width, y, RULE, 1.0);
        let told = match figure.kind {
            Kind::Ecdf => number::percent(value / WHOLE),
            _ => tick(figure.metric, *value),
        };
        canvas.text(left - 5.0, y + 3.5, &told, "end", MUTED, 10, false);
    }
    left
}

fn bars(figure: &Figure, panel: usize, frame: &Frame, ruler: &Ruler, canvas: &mut Canvas) {
    let left = values_axis(figure, frame, ruler, canvas);
    let width = frame.left + frame.width - left;
    let reach = Reach::of(figure);
    let mine: Vec<&Mark> = figure.marks.iter().filter(|m| m.panel == panel).collect();
    let used = |of: &dyn Fn(&Mark) -> usize| {
        let mut all: Vec<usize> = figure.marks.iter().map(of).collect();
        all.sort_unstable();
        all.dedup();
        all
    };
    let (groups, series) = (used(&|m| m.group), used(&|m| m.series));
    let single = groups.len() == 1;
    let places = if single { &series } else { &groups };
    let band = width / places.len().max(1) as f64;
    let side = if single { 1.0 } else { series.len() as f64 };
    let breadth = (band * 0.8 / side).min(30.0);
    let y = |value: f64| frame.top + (1.0 - ruler.at(value)) * frame.height;
    let bottom = frame.top + frame.height;
    for mark in mine {
        let place =
            places.iter().position(|p| *p == if single { mark.series } else { mark.group }).unwrap_or(0);
        let offset = if single {
            0.0
        } else {
            series.iter().position(|s| *s == mark.series).unwrap_or(0) as f64 - (side - 1.0) / 2.0
        };
        let x = left + (place as f64 + 0.5) * band + offset * breadth;
        let Series { colour, pattern, .. } = figure.series[mark.series];
        let (colour, top) = (VALUE_COLOURS[colour].light, y(mark.mid));
        if figure.log_y {
            canvas.symbol(pattern, x, top, colour);
        } else {
            canvas.bar(x - breadth / 2.0 + 0.5, top, breadth - 1.0, bottom - top, colour, pattern);
        }
        let ink = if figure.log_y { colour } else { INK };
        let ends = reach.ends(mark).map(|(end, is_cut)| (y(end), is_cut));
        canvas.whisker(x, ends, (breadth / 4.0).min(4.0), ink);
    }
    canvas.line(left, bottom, frame.left + frame.width, bottom, MUTED, 1.0);
    for (i, place) in places.iter().enumerate() {
        let name = if single { &figure.series[*place].name } else { &figure.groups[*place] };
        let middle = left + (i as f64 + 0.5) * band;
        let mut lines = name_lines(name, 10.0, band - 4.0);
        if lines.len() > NAME_LINES {
            lines.truncate(NAME_LINES);
            if let Some(last) = lines.last_mut() {
                last.push('…');
            }
        }
        for (line, words) in lines.iter().enumerate() {
            let y = bottom + 14.0 + line as f64 * 11.0;
            // Beside a shorter one a word may have a little more than its bar.
            let words = shortened(words.trim_end(), 10.0, band * 1.3);
            canvas.text(middle, y, &words, "middle", INK, 10, false);
        }
    }
}

fn curves(figure: &Figure, panel: usize, frame: &Frame, ruler: &Ruler, canvas: &mut Canvas) {
    let left = values_axis(figure, frame, ruler, canvas);
    // The last number stands below the end of the axis, half of it beyond.
    let width = frame.left + frame.width - left - 20.0;
    let bottom = frame.top + frame.height;
    let is_ecdf = figure.kind == Kind::Ecdf;
    let reach = Reach::of(figure);
    // Of model time an execution may have nothing, which has no place on a logarithmic axis.
    let first_of = |l: &Line| l.points.iter().map(|point| point.0).find(|x| *x > 0.0);
    let of_line = |l: &Line| match (is_ecdf, first_of(l), l.points.last()) {
        (true, Some(first), Some(last)) => vec![first, last.0],
        _ => vec![l.total as f64],
    };
    let numbers = figure.marks.iter().filter_map(|m| m.x).chain(figure.lines.iter().flat_map(of_line));
    let across = Ruler::new(figure.log_x, numbers, 5.0);
    let x = |value: f64| left + across.at(value) * width;
    let y = |value: f64| frame.top + (1.0 - ruler.at(value)) * frame.height;
    canvas.line(left, bottom, frame.left + frame.width, bottom, MUTED, 1.0);
    for value in &across.ticks {
        let told = if is_ecdf { tick(Metric::Time, *value) } else { short(*value) };
        canvas.text(x(*value), bottom + 14.0, &told, "middle", MUTED, 10, false);
    }
    let log = if figure.log_x { ", logarithmic axis" } else { "" };
    let abscissa = format!("{}{log}", figure.abscissa);
    canvas.text(left + width / 2.0, bottom + 29.0, &abscissa, "middle", MUTED, 11, false);
    for (index, series) in figure.series.iter().enumerate() {
        let colour = VALUE_COLOURS[series.colour].light;
        let dashes = dashes_of(figure, series);
        let mut own: Vec<(f64, &Mark)> = figure
            .marks
            .iter()
            .filter(|m| m.panel == panel && m.series == index)
            .filter_map(|m| m.x.map(|x| (x, m)))
            .collect();
        own.sort_by(|a, b| a.0.total_cmp(&b.0));
        if !own.is_empty() {
            canvas.polyline(own.iter().map(|(at, mark)| (x(*at), y(mark.mid))), colour, 1.4, dashes);
        }
        for (at, mark) in own {
            let ends = reach.ends(mark).map(|(end, is_cut)| (y(end), is_cut));
            canvas.whisker(x(at), ends, 3.0, colour);
            canvas.symbol(index, x(at), y(mark.mid), colour);
        }
        for line in figure.lines.iter().filter(|l| l.panel == panel && l.series == index) {
            let width = if is_ecdf { 1.4 } else { 0.9 };
            canvas.polyline(line.points.iter().map(|(px, py)| (x(*px), y(*py))), colour, width, dashes);
        }
    }
}
