//! Tables and pictures of a data set: a row and a column for each value of two axes.

use fathom_lab::analysis::Measure;
use fathom_lab::stats::Interval;

use super::chart::{Chart, ChartRow};
use super::directive::Directive;
use super::failure::Failure;
use super::pace::Pace;
use super::select::{Choice, Show};
use super::{Dataset, PapersError};
use crate::power_cut;

/// A table of values.
pub(super) struct Table<'a> {
    pub dataset: &'a Dataset,
    pub directive: &'a Directive,
    pub at: Choice,
    pub show: Show,
    pub x: Option<f64>,
    pub slowed: f64,
    /// Bytes are those of hours of use, at a pace.
    pub pace: Option<Pace>,
}

/// Where a cell of a table is: what a row's or a column's value chooses.
#[derive(Clone, Debug, Default)]
struct Place {
    pairs: Vec<(String, String)>,
    phase: Option<String>,
    x: Option<f64>,
}

/// Places by their names.
type Places = Vec<(String, Place)>;

impl Table<'_> {
    pub fn print(&self) -> Result<String, Failure> {
        let phases = self.phases()?;
        self.markdown(&phases, |row, column| self.value(row, column, &phases))
    }

    /// What a power cut leaves of each cell: a table whose cells tell the states that were judged.
    pub fn print_cuts(&self) -> Result<String, Failure> {
        self.markdown(&[], |row, column| {
            let choice = self.choice(row, column);
            let cell = self.dataset.cell(&choice)?;
            let found = self.dataset.results.cut(cell.id);
            let found = found.ok_or_else(|| format!("{}: no power cut was tried", cell.label))?;
            Ok(power_cut::judged(&found.outcome))
        })
    }

    /// The same as a picture, on one axis.
    pub fn draw(&self, title: &str) -> Result<String, Failure> {
        let phases = self.phases()?;
        let across = self.places(self.directive.wanted("columns")?, &phases)?;
        let mut rows = Vec::new();
        for (name, row) in self.places(self.directive.wanted("rows")?, &phases)? {
            let value = |(_, column): &(String, Place)| self.interval(&row, column, &phases);
            let values = across.iter().map(value).collect::<Result<_, Failure>>()?;
            rows.push(ChartRow { name, values });
        }
        let series = across.into_iter().map(|(name, _)| name).collect();
        Ok(Chart { title, about: self.directive.wanted("about")?, show: self.show, series, rows }.draw()?)
    }

    fn phases(&self) -> Result<Vec<String>, String> {
        Ok(match self.directive.options.get("phases") {
            Some(several) => several.split(',').map(str::to_owned).collect(),
            None => vec![self.directive.wanted("phase")?.to_owned()],
        })
    }

    fn markdown(
        &self,
        phases: &[String],
        value: impl Fn(&Place, &Place) -> Result<String, Failure>,
    ) -> Result<String, Failure> {
        let (rows, columns) = (self.directive.wanted("rows")?, self.directive.wanted("columns")?);
        let across = self.places(columns, phases)?;
        let names: Vec<&str> = across.iter().map(|(name, _)| name.as_str()).collect();
        let head = rows.rsplit('.').next().unwrap_or(rows);
        let mut table = format!("| {head} | {} |\n|---|", names.join(" | "));
        table += &"---|".repeat(names.len());
        for (name, row) in self.places(rows, phases)? {
            let mut cells = vec![name];
            for (_, column) in &across {
                cells.push(value(&row, column)?);
            }
            table += &format!("\n| {} |", cells.join(" | "));
        }
        Ok(table)
    }

    /// The values of an axis, of the abscissa `x` or of the phases.
    fn places(&self, axis: &str, phases: &[String]) -> Result<Places, Failure> {
        let places: Places = match axis {
            "phase" => phases
                .iter()
                .map(|phase| (phase.clone(), Place { phase: Some(phase.clone()), ..Place::default() }))
                .collect(),
            "x" => {
                let phase = phases.first().map_or("", String::as_str);
                let abscissas = self.dataset.abscissas(phase, &self.at).into_iter();
                abscissas
                    .map(|x| (crate::number::plain(x), Place { x: Some(x), ..Place::default() }))
                    .collect()
            }
            axis => {
                let place = |value: String| {
                    let pairs = vec![(axis.to_owned(), value.clone())];
                    (value, Place { pairs, ..Place::default() })
                };
                self.dataset.values(axis, &self.at).into_iter().map(place).collect()
            }
        };
        match places.is_empty() {
            true => Err(format!("no cell has a value on the axis {axis:?}").into()),
            false => Ok(places),
        }
    }

    fn choice(&self, row: &Place, column: &Place) -> Choice {
        self.at.and(&Choice(row.pairs.iter().chain(&column.pairs).cloned().collect()))
    }

    fn measure(&self, row: &Place, column: &Place, phases: &[String]) -> Result<&Measure, PapersError> {
        let phase = row.phase.as_ref().or(column.phase.as_ref()).or(phases.first());
        let phase = phase.map_or("", String::as_str);
        self.dataset.measure(&self.choice(row, column), phase, row.x.or(column.x).or(self.x))
    }

    fn value(&self, row: &Place, column: &Place, phases: &[String]) -> Result<String, Failure> {
        let measure = self.measure(row, column, phases)?;
        match &self.pace {
            None => Ok(self.show.value(measure, self.slowed).unwrap_or_else(|| "not measured".into())),
            Some(pace) => Ok(pace.value(self.dataset, measure)?),
        }
    }

    fn interval(&self, row: &Place, column: &Place, phases: &[String]) -> Result<Option<Interval>, Failure> {
        let measure = self.measure(row, column, phases)?;
        match &self.pace {
            None => Ok(self.show.interval(measure, self.slowed)),
            Some(pace) => Ok(pace.bytes(self.dataset, measure)?),
        }
    }
}
