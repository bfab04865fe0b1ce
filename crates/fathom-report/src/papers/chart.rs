//! A picture of a table: a line for each row, a mark with its interval for each column.

use fathom_lab::stats::Interval;

use super::select::Show;
use crate::canvas::{Canvas, INK, MUTED, RULE, WIDTH, document};

const LEFT: f64 = 170.0;
const RIGHT: f64 = 30.0;
const STEP: f64 = 26.0;
const COLOURS: [&str; 6] = ["#0b5a9c", "#12a07a", "#c27c0e", "#8a1f5c", "#59616b", "#d1495b"];
/// How far apart the marks of a row are drawn, which may have the same value.
const APART: f64 = 5.0;
/// Values that lie further apart are drawn on a logarithmic axis.
const WIDE: f64 = 8.0;

/// A row of the table.
pub(super) struct ChartRow {
    pub name: String,
    /// One for each column; none where there is no value.
    pub values: Vec<Option<Interval>>,
}

/// What is drawn.
pub(super) struct Chart<'a> {
    pub title: &'a str,
    /// What the axis is.
    pub about: &'a str,
    pub show: Show,
    /// The columns.
    pub series: Vec<String>,
    pub rows: Vec<ChartRow>,
}

/// From values to places.
struct Axis {
    low: f64,
    high: f64,
    is_logarithmic: bool,
}

impl Axis {
    fn of(values: &[f64]) -> Axis {
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(0.0, f64::max);
        match low > 0.0 && high / low > WIDE {
            true => Axis { low: low / 1.3, high: high * 1.1, is_logarithmic: true },
            false => Axis { low: 0.0, high: high * 1.05, is_logarithmic: false },
        }
    }

    fn place(&self, value: f64) -> f64 {
        let part = match self.is_logarithmic {
            true => (value / self.low).ln() / (self.high / self.low).ln(),
            false => value / self.high,
        };
        LEFT + part * (WIDTH - LEFT - RIGHT)
    }

    /// Where lines are drawn: round numbers, of bytes those of two.
    fn ticks(&self, is_bytes: bool) -> Vec<f64> {
        let is_inside = |tick: &f64| self.low < *tick && *tick < self.high;
        if self.is_logarithmic {
            let (base, factors): (f64, &[f64]) = match (is_bytes, self.high / self.low < 100.0) {
                (true, true) => (2.0, &[1.0]),
                (true, false) => (4.0, &[1.0]),
                (false, true) => (10.0, &[1.0, 2.0, 5.0]),
                (false, false) => (10.0, &[1.0]),
            };
            let ticks = (0..40).flat_map(|power| factors.iter().map(move |factor| factor * base.powi(power)));
            return ticks.filter(is_inside).collect();
        }
        let begin = if is_bytes { 1.0 } else { 10f64.powf(self.high.log10().floor() - 2.0) };
        let mut steps = (0..40).flat_map(|power| {
            let factors = if is_bytes { [1.0, 2.0, 4.0] } else { [1.0, 2.0, 5.0] };
            let base: f64 = if is_bytes { 8.0 } else { 10.0 };
            factors.map(|factor| begin * factor * base.powi(power))
        });
        let step = steps.find(|step| self.high / step < 7.0).unwrap_or(self.high);
        (0..8).map(|number| f64::from(number) * step).filter(|tick| *tick < self.high).collect()
    }
}

impl Chart<'_> {
    /// SVG.
    pub fn draw(&self) -> Result<String, String> {
        let all = self.rows.iter().flat_map(|row| row.values.iter().flatten());
        let ends_of = |value: &Interval| match value.n > 1 {
            true => [value.low, value.high],
            false => [value.mid, value.mid],
        };
        let ends: Vec<f64> = all.flat_map(ends_of).collect();
        if ends.is_empty() {
            return Err("nothing that could be drawn".to_owned());
        }
        let axis = Axis::of(&ends);
        let scale = if axis.is_logarithmic { "logarithmic; " } else { "" };
        let about = format!("{}; {scale}95 % intervals", self.about);
        let (mut body, mut y) = (Canvas::default(), 22.0);
        body.text(0.0, y, self.title, "start", INK, 16, true);
        y += 18.0;
        body.text(0.0, y, &about, "start", MUTED, 11, false);
        y += 20.0;
        let mut x = LEFT;
        for (index, name) in self.series.iter().enumerate() {
            body.symbol(index, x, y - 4.0, COLOURS[index % COLOURS.len()]);
            body.text(x + 9.0, y, name, "start", INK, 11, false);
            x += 30.0 + crate::canvas::text_width(name, 11.0);
        }
        let (top, bottom) = (y + 10.0, y + STEP * (self.rows.len() as f64 + 0.6));
        let is_bytes = matches!(self.show, Show::Written | Show::Read);
        for tick in axis.ticks(is_bytes) {
            let x = axis.place(tick);
            body.line(x, top, x, bottom, RULE, 1.0);
            let words = if tick == 0.0 { "0".to_owned() } else { self.show.words(tick) };
            body.text(x, bottom + 12.0, &words, "middle", MUTED, 11, false);
        }
        for row in &self.rows {
            y += STEP;
            body.text(LEFT - 12.0, y + 4.0, &row.name, "end", INK, 12, false);
            for (index, value) in row.values.iter().enumerate() {
                let Some(value) = value else { continue };
                let colour = COLOURS[index % COLOURS.len()];
                let at = y + APART * (index as f64 - (row.values.len() as f64 - 1.0) / 2.0);
                if value.n > 1 {
                    body.line(axis.place(value.low), at, axis.place(value.high), at, colour, 1.5);
                }
                body.symbol(index, axis.place(value.mid), at, colour);
            }
        }
        Ok(document(self.title, &about, y + 40.0, &body))
    }
}

#[cfg(test)]
mod tests {
    use fathom_lab::stats::mean_interval;

    use super::*;

    fn chart(values: &[f64]) -> String {
        let row =
            |value: f64| ChartRow { name: format!("row {value}"), values: vec![mean_interval(&[value])] };
        let rows = values.iter().map(|value| row(*value)).collect();
        let series = vec!["ext4".to_owned()];
        let title = "Bytes";
        Chart { title, about: "bytes of one", show: Show::Written, series, rows }.draw().unwrap()
    }

    #[test]
    fn what_lies_far_apart_is_logarithmic() {
        let near = chart(&[2048.0, 4096.0]);
        assert!(near.contains(">0<") && near.contains("KiB") && !near.contains("logarithmic"), "{near}");
        let far = chart(&[2048.0, 409_600.0]);
        assert!(far.contains("logarithmic") && !far.contains(">0<"), "{far}");
        let none = Chart { title: "", about: "", show: Show::Device, series: vec![], rows: vec![] };
        assert!(none.draw().is_err());
    }
}
