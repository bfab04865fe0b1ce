//! Address over time as a static SVG: what the page's canvas shows before anybody zooms, for print.

use fathom_lab::store::{Results, StoreError, TraceSource};
use fathom_stack::attribution::Cause;
use fathom_stack::blocks::BlockOp;

use super::picture::{dots_of, trace_of};
use super::thin::Dot;
use super::{CAUSE_COLOURS, cause_name};
use crate::canvas::{Canvas, INK, MUTED, RULE, WIDTH, document};
use crate::number;

/// Rectangles of one figure: some 50 bytes each.
const DOTS: usize = 12_000;

const LEFT: f64 = 78.0;
const RIGHT: f64 = 10.0;
const HEIGHT: f64 = 220.0;
/// The row of flushes below the plot.
const TICKS: f64 = 12.0;
/// Most stretches that the axis is cut into, as in the page.
const STRETCHES: usize = 7;

const BAND: &str = "#f3f4f6";

/// The name of a cell's figure.
pub fn id_of(cell: i64) -> String {
    format!("address-{cell}")
}

/// The figures that there are: name and title.
pub fn list(results: &Results) -> Vec<(String, String)> {
    let traced = results.cells.iter().filter(|cell| trace_of(results, cell.id).is_some());
    traced.map(|cell| (id_of(cell.id), title(results, cell.id))).collect()
}

fn title(results: &Results, cell: i64) -> String {
    let label = results.cell(cell).map_or("", |cell| cell.label.as_str());
    format!("Address over time: {label}")
}

/// The figure called `id`; none where there is none.
pub fn draw(results: &Results, id: &str) -> Result<Option<String>, StoreError> {
    let cell = results.cells.iter().find(|cell| id_of(cell.id) == id);
    let Some((cell, trace)) = cell.and_then(|cell| Some((cell.id, trace_of(results, cell.id)?))) else {
        return Ok(None);
    };
    let (requests, dots) = dots_of(results, trace.run, DOTS)?;
    let stretches = Stretches::of(&dots);
    let span_ns = trace.span_ns.max(1) as f64;
    let plot = WIDTH - LEFT - RIGHT;
    let x = |ns: u64| LEFT + ns as f64 / span_ns * plot;
    let mut canvas = Canvas::default();
    let title = title(results, cell);
    canvas.text(0.0, 20.0, &title, "start", INK, 15, true);
    let thinned = dots.len() as u64 != requests;
    let drawn =
        if thinned { format!(", drawn as {}", number::plain(dots.len() as f64)) } else { String::new() };
    let place = if trace.source == TraceSource::Device { "of the device" } else { "within the files" };
    let count = number::plain(requests as f64);
    let about = format!("{count} requests{drawn}; address {place}, untouched stretches cut out");
    canvas.text(0.0, 36.0, &about, "start", MUTED, 11, false);
    let mut at = 0.0;
    for cause in causes_of(&dots) {
        let (colour, name) = (CAUSE_COLOURS[cause.number() as usize].light, cause_name(cause));
        canvas.area(at, 46.0, 10.0, 10.0, colour);
        canvas.text(at + 14.0, 55.0, name, "start", INK, 11, false);
        at += 26.0 + 6.2 * name.len() as f64;
    }
    let top = 80.0;
    let bottom = top + HEIGHT;
    let y = |place: f64| bottom - place * HEIGHT;
    // Phases as bands with their names where there is room.
    for window in &trace.windows {
        let (from, to) = (x(window.start_ns), x(window.end_ns.min(trace.span_ns)));
        canvas.area(from, top, (to - from).max(0.5), HEIGHT + TICKS, BAND);
        if to - from > 6.5 * window.phase.chars().count() as f64 {
            canvas.text((from + to) / 2.0, top - 5.0, &window.phase, "middle", MUTED, 11, false);
        }
    }
    let mut last = f64::INFINITY;
    for stretch in &stretches.0 {
        for (place, address) in [(stretch.at, stretch.from), (stretch.at + stretch.size, stretch.to)] {
            let at = y(place);
            canvas.line(LEFT, at, WIDTH - RIGHT, at, RULE, 1.0);
            if last - at >= 12.0 {
                last = at;
                let bytes = number::bytes(address as f64);
                canvas.text(LEFT - 6.0, at + 3.0, &bytes, "end", MUTED, 10, false);
            }
        }
    }
    // Reads first, so that writes lie over them.
    let mut kinds: Vec<u8> = dots.iter().map(|dot| dot.kind).collect();
    kinds.sort_unstable_by_key(|kind| (kind >> 4, kind & 15));
    kinds.dedup();
    for kind in kinds {
        let colour = CAUSE_COLOURS.get(usize::from(kind & 15)).map_or(MUTED, |cause| cause.light);
        let opacity = if kind >> 4 == BlockOp::Read.number() { 0.45 } else { 1.0 };
        let of_kind = dots.iter().filter(|dot| dot.kind == kind);
        let marks = of_kind.map(|dot| {
            let left = x(dot.at_ns.min(trace.span_ns));
            if kind >> 4 == BlockOp::Flush.number() {
                return [left, bottom + 3.0, 1.0, TICKS - 3.0];
            }
            let (low, high) = (stretches.place(dot.offset), stretches.place(dot.offset + dot.bytes));
            let height = ((high - low) * HEIGHT).max(1.2);
            [left, (y(low) - height).max(top), 1.0, height]
        });
        canvas.dots(colour, opacity, marks);
    }
    let floor = bottom + TICKS;
    canvas.outline(LEFT, top, plot, HEIGHT + TICKS, RULE);
    let flushes = if trace.source == TraceSource::Device { "flushes" } else { "syncs" };
    canvas.text(LEFT - 6.0, bottom + TICKS - 2.0, flushes, "end", MUTED, 10, false);
    let rough = span_ns / 7.0;
    let power = 10_f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|step| step * power)
        .find(|step| *step >= rough)
        .unwrap_or(rough);
    let mut moment = 0.0;
    while moment <= span_ns {
        let at = LEFT + moment / span_ns * plot;
        let text = if moment == 0.0 { "0".into() } else { number::time(moment) };
        canvas.line(at, floor, at, floor + 4.0, MUTED, 1.0);
        let anchor = if at > WIDTH - 30.0 { "end" } else { "middle" };
        canvas.text(at, floor + 15.0, &text, anchor, MUTED, 10, false);
        moment += step;
    }
    Ok(Some(document(&title, &about, floor + 22.0, &canvas)))
}

fn causes_of(dots: &[Dot]) -> Vec<Cause> {
    let any = |cause: &Cause| dots.iter().any(|dot| dot.kind & 15 == cause.number());
    Cause::ALL.into_iter().filter(any).collect()
}

/// A part of the device that was touched, and its place on the axis, from 0 to 1.
#[derive(Clone, Debug, PartialEq)]
struct Stretch {
    from: u64,
    to: u64,
    at: f64,
    size: f64,
}

#[derive(Clone, Debug, PartialEq)]
struct Stretches(Vec<Stretch>);

impl Stretches {
    /// As the page does it: gaps are cut out, from 64 KiB on and from as much on as leaves no more
    /// than a few stretches.
    fn of(dots: &[Dot]) -> Stretches {
        let mut ranges: Vec<(u64, u64)> = dots
            .iter()
            .filter(|dot| dot.kind >> 4 != BlockOp::Flush.number())
            .map(|dot| (dot.offset, dot.offset + dot.bytes))
            .collect();
        ranges.sort_unstable();
        let mut gap = 64 << 10;
        let merged = loop {
            let mut merged: Vec<(u64, u64)> = Vec::new();
            for &(from, to) in &ranges {
                match merged.last_mut() {
                    Some(last) if from.saturating_sub(last.1) <= gap => last.1 = last.1.max(to),
                    _ => merged.push((from, to)),
                }
            }
            if merged.len() <= STRETCHES {
                break merged;
            }
            gap *= 2;
        };
        let sum: f64 = merged.iter().map(|(from, to)| (to - from) as f64).sum();
        // A stretch of one block between two large ones must stay visible.
        let mut at = 0.0;
        let mut all: Vec<Stretch> = merged
            .into_iter()
            .map(|(from, to)| {
                let size = ((to - from) as f64).max(sum / 14.0);
                let stretch = Stretch { from, to, at, size };
                at += size + sum / 40.0;
                stretch
            })
            .collect();
        let end = all.last().map_or(1.0, |stretch| stretch.at + stretch.size).max(f64::MIN_POSITIVE);
        for stretch in &mut all {
            (stretch.at, stretch.size) = (stretch.at / end, stretch.size / end);
        }
        Stretches(all)
    }

    /// The place of an address.
    fn place(&self, address: u64) -> f64 {
        let Some(stretch) = self.0.iter().rfind(|stretch| stretch.from <= address).or(self.0.first()) else {
            return 0.0;
        };
        let within = address.clamp(stretch.from, stretch.to) - stretch.from;
        stretch.at + within as f64 / ((stretch.to - stretch.from).max(1) as f64) * stretch.size
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn untouched_stretches_are_cut_out_and_places_keep_their_order() {
        let dot = |offset, bytes| Dot { at_ns: 0, offset, bytes, kind: 1 << 4 };
        let dots: Vec<Dot> =
            (0..40).map(|number| dot(number * (10 << 20), 4096)).chain([dot(5 << 40, 1 << 20)]).collect();
        let stretches = Stretches::of(&dots);
        assert!(stretches.0.len() <= STRETCHES && stretches.0.len() > 1, "{stretches:?}");
        let places: Vec<f64> = dots.iter().map(|dot| stretches.place(dot.offset)).collect();
        assert!(places.windows(2).all(|pair| pair[0] < pair[1]), "{places:?}");
        assert!((stretches.place((5 << 40) + (1 << 20)) - 1.0).abs() < 1e-9);
        assert_eq!(Stretches::of(&[]).place(5), 0.0);
    }
}
