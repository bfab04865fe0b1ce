//! What the series of a figure are drawn with, so that no two look alike.
//!
//! The axis that the figure compares gives the colour. Where another axis varies, too (`--set
//! filesystem=ext4,xfs`), its value gives the pattern of bars and the dash of lines: one colour is
//! one setting, one pattern one file system. Where none does, the dashes go with the colours, which
//! not everybody sees.

use fathom_lab::experiment::FigureKind as Kind;
use fathom_lab::naming::value_name;
use fathom_lab::store::CellRow;

use crate::axis::Axis;
use crate::figure::{Figure, Series};
use crate::palette::{DASHES, PATTERNS, VALUE_COLOURS};

/// The series of these cells in the order of their first cells, and the index of each cell's.
pub fn series(
    cells: &[&CellRow],
    by: Option<&Axis>,
    facet: Option<&Axis>,
    varying: &[&Axis],
) -> (Vec<Series>, Vec<usize>) {
    let mut all: Vec<Series> = Vec::new();
    // What the axes that nothing else shows say of each series.
    let mut besides: Vec<String> = Vec::new();
    let mut of_cells = Vec::new();
    for cell in cells {
        let (made, other) = series_of(cell, by, facet, varying);
        let index = all.iter().position(|known| known.name == made.name).unwrap_or_else(|| {
            all.push(made);
            besides.push(other);
            all.len() - 1
        });
        of_cells.push(index);
    }
    tell_apart(&mut all, &besides);
    (all, of_cells)
}

/// A series named by its cell's value on `by` and its values on axes that neither `by` nor `facet`
/// shows; and the latter alone.
fn series_of(cell: &CellRow, by: Option<&Axis>, facet: Option<&Axis>, varying: &[&Axis]) -> (Series, String) {
    let value = by.and_then(|axis| cell.axes.get(&axis.key));
    let is_shown = |axis: &Axis| [by, facet].into_iter().flatten().any(|shown| shown.key == axis.key);
    let others: Vec<String> = varying
        .iter()
        .filter(|axis| !is_shown(axis))
        .filter_map(|axis| value_name(cell, &axis.key))
        .collect();
    let mut words: Vec<String> = by.and_then(|axis| value_name(cell, &axis.key)).into_iter().collect();
    words.extend(others.iter().cloned());
    let colour = by.zip(value).and_then(|(axis, value)| Some(axis.colours[axis.position(value)?]));
    let made = Series {
        name: if words.is_empty() { cell.title.clone() } else { words.join(" · ") },
        value: value.cloned(),
        // Without an axis that tells them apart, cells take the colours in turn.
        colour: colour.unwrap_or((cell.id.max(1) - 1) as usize % VALUE_COLOURS.len()),
        pattern: 0,
        dash: 0,
    };
    let other = if by.is_some() { others.join(" · ") } else { String::new() };
    (made, other)
}

/// Gives patterns and dashes: by what the series are besides their colour, and where two would
/// still look alike, the next that is free.
fn tell_apart(all: &mut [Series], besides: &[String]) {
    let mut known: Vec<&String> = Vec::new();
    for other in besides {
        if !known.contains(&other) {
            known.push(other);
        }
    }
    for index in 0..all.len() {
        let place = known.iter().position(|other| **other == besides[index]).unwrap_or(0);
        let colour = all[index].colour;
        let is_taken = |place: usize| {
            all[..index].iter().any(|before| before.colour == colour && before.pattern == place % PATTERNS)
        };
        let place = (place..place + PATTERNS).find(|place| !is_taken(*place)).unwrap_or(place);
        all[index].pattern = place % PATTERNS;
        all[index].dash = if known.len() > 1 { place % DASHES.len() } else { index % DASHES.len() };
    }
}

/// How many of the series that a figure draws look as an earlier one of them does.
fn alike(figure: &Figure) -> usize {
    let look = |series: &Series| match figure.has_lines() {
        true => (series.colour, series.dash),
        false => (series.colour, series.pattern),
    };
    let drawn = figure.series.iter().enumerate().filter(|(index, _)| figure.draws(*index));
    let mut looks: Vec<(usize, usize)> = drawn.map(|(_, series)| look(series)).collect();
    let all = looks.len();
    looks.sort_unstable();
    looks.dedup();
    all - looks.len()
}

/// What a figure says where its legend tells not all of its series apart; empty where it does.
/// Single executions in order have panels of their own, and the parts of a split colours of theirs.
pub fn alike_note(figure: &Figure) -> String {
    let alike = if matches!(figure.kind, Kind::Series | Kind::Split) { 0 } else { alike(figure) };
    if alike == 0 {
        return String::new();
    }
    let series = (0..figure.series.len()).filter(|index| figure.draws(*index)).count();
    let (marks, order) = match figure.has_lines() {
        true => ("dashes", ""),
        false => ("fillings", " Bars stand in the order of the legend."),
    };
    format!(
        "{alike} of {series} series look like another one, for colours and {marks} are too few for so \
         many.{order} The pointer on one shows its name, and \"Show data\" and the CSV name all."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(marks: &[(usize, &str)]) -> Vec<Series> {
        let of = |(colour, other): &(usize, &str)| Series {
            name: format!("{colour} · {other}"),
            value: None,
            colour: *colour,
            pattern: 0,
            dash: 0,
        };
        let mut all: Vec<Series> = marks.iter().map(of).collect();
        let besides: Vec<String> = marks.iter().map(|mark| mark.1.to_owned()).collect();
        tell_apart(&mut all, &besides);
        all
    }

    /// What happened: of `--set filesystem=ext4,xfs` both file systems of a setting had one swatch,
    /// and nobody could tell their bars apart.
    #[test]
    fn one_colour_is_one_setting_and_one_pattern_one_file_system() {
        let all = made(&[(0, "ext4"), (1, "ext4"), (0, "xfs"), (1, "xfs"), (2, "xfs")]);
        let marks: Vec<_> = all.iter().map(|series| (series.colour, series.pattern, series.dash)).collect();
        assert_eq!(marks, [(0, 0, 0), (1, 0, 0), (0, 1, 1), (1, 1, 1), (2, 1, 1)]);
    }

    #[test]
    fn of_one_file_system_bars_are_filled_and_each_line_has_its_dash() {
        let all = made(&[(0, ""), (1, ""), (2, "")]);
        assert!(all.iter().all(|series| series.pattern == 0));
        assert_eq!(all.iter().map(|series| series.dash).collect::<Vec<_>>(), [0, 1, 2]);
    }

    /// What happened: the legend of a figure of 200 cells had the same 32 fillings again and again,
    /// and nothing said so.
    #[test]
    fn a_figure_of_more_series_than_looks_says_so() {
        let figure = |kind, number: usize| {
            let marks: Vec<(usize, &str)> = (0..number).map(|number| (number % 8, "")).collect();
            let mark = |series| crate::figure::Mark {
                cell: 1,
                panel: 0,
                series,
                group: 0,
                x: None,
                mid: 1.0,
                low: 1.0,
                high: 1.0,
                runs: 1,
                parts: None,
            };
            Figure {
                id: "rate".into(),
                kind,
                title: "Rates".into(),
                see: String::new(),
                metric: fathom_lab::experiment::Metric::Rate,
                quantity: String::new(),
                abscissa: String::new(),
                by: None,
                panels: Vec::new(),
                series: made(&marks),
                groups: Vec::new(),
                marks: (0..number).map(mark).collect(),
                lines: Vec::new(),
                log_y: false,
                log_x: false,
                note: String::new(),
                description: String::new(),
            }
        };
        assert_eq!(alike_note(&figure(Kind::Bars, 32)), "");
        assert!(alike_note(&figure(Kind::Bars, 200)).starts_with("168 of 200 series look like another one"));
        assert!(alike_note(&figure(Kind::Range, 25)).starts_with("1 of 25 series"), "24 lines differ");
        assert_eq!(alike_note(&figure(Kind::Split, 200)), "", "its colours are those of the parts");
        let mut hidden = figure(Kind::Bars, 200);
        hidden.marks.truncate(32);
        assert_eq!(alike_note(&hidden), "", "what is not drawn is not in the legend");
    }

    #[test]
    fn more_values_than_colours_do_not_look_alike() {
        let marks: Vec<(usize, &str)> = (0..20).map(|number| (number % 8, "")).collect();
        let all = made(&marks);
        for (index, series) in all.iter().enumerate() {
            let is_like = |other: &&Series| (other.colour, other.pattern) == (series.colour, series.pattern);
            assert!(!all[..index].iter().any(|other| is_like(&other)), "{}", series.name);
        }
    }
}
