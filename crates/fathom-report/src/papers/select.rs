//! Chooses cells by their axes, and what is said of them.

use fathom_lab::analysis::{Measure, ModelShare};
use fathom_lab::experiment::Metric;
use fathom_lab::stats::{Comparison, Interval, mean_interval, range_ratio};
use fathom_lab::store::CellRow;
use serde::Deserialize;

use super::{Dataset, PapersError};
use crate::number;

/// `filesystem:ext4,journal_mode:wal`: a value for some of the axes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Choice(pub Vec<(String, String)>);

impl Choice {
    /// Reads `axis:value,axis:value`; an axis may be named by the last part of its key.
    pub fn parse(text: &str) -> Result<Choice, String> {
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        let pairs = parts.map(|part| {
            part.split_once(':')
                .map(|(axis, value)| (axis.trim().to_owned(), value.trim().to_owned()))
                .ok_or_else(|| format!("{part:?} is no `axis:value`"))
        });
        Ok(Choice(pairs.collect::<Result<_, _>>()?))
    }

    /// Both together.
    pub fn and(&self, other: &Choice) -> Choice {
        Choice(self.0.iter().chain(&other.0).cloned().collect())
    }

    fn takes(&self, cell: &CellRow) -> bool {
        self.0.iter().all(|(axis, value)| axis_of(cell, axis).is_some_and(|found| found == value))
    }
}

impl std::fmt::Display for Choice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let pairs: Vec<String> = self.0.iter().map(|(axis, value)| format!("{axis}:{value}")).collect();
        f.write_str(if pairs.is_empty() { "(no choice)" } else { "" })?;
        f.write_str(&pairs.join(","))
    }
}

impl<'de> Deserialize<'de> for Choice {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Choice, D::Error> {
        Choice::parse(&String::deserialize(from)?).map_err(serde::de::Error::custom)
    }
}

/// A cell's value on an axis that is named by its key or the last part of it.
pub(super) fn axis_of<'a>(cell: &'a CellRow, axis: &str) -> Option<&'a str> {
    let is_named = |key: &str| key == axis || key.rsplit('.').next() == Some(axis);
    cell.axes.iter().find(|(key, _)| is_named(key)).map(|(_, value)| value.as_str())
}

/// What is compared or shown of a measure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Show {
    /// How many times as fast; executions a second.
    #[default]
    Faster,
    /// How many times as slow; the time of one execution.
    Slower,
    /// Flushes that came to the device, for each execution.
    Flushes,
    /// Bytes that were written to the device, for each execution.
    Written,
    /// The part of the time that fsync takes.
    Sync,
    /// The part of the time that the processor takes.
    Cpu,
}

impl Show {
    pub fn parse(text: &str) -> Result<Show, String> {
        match text {
            "faster" => Ok(Show::Faster),
            "slower" => Ok(Show::Slower),
            "flushes" => Ok(Show::Flushes),
            "written" => Ok(Show::Written),
            "sync" => Ok(Show::Sync),
            "cpu" => Ok(Show::Cpu),
            other => Err(format!("{other:?} is none of faster, slower, flushes, written, sync, cpu")),
        }
    }

    fn of_model(self) -> Option<fn(&ModelShare) -> f64> {
        match self {
            Show::Flushes => Some(|share| share.flushes),
            Show::Written => Some(|share| share.written_bytes),
            _ => None,
        }
    }

    /// How one compares with another; none where nothing can be compared.
    pub fn ratio(self, of: &Measure, over: &Measure) -> Option<Comparison> {
        match self {
            Show::Faster => of.faster_than(over, Metric::Rate),
            Show::Slower => of.faster_than(over, Metric::Time).map(|faster| faster.inverse()),
            Show::Sync | Show::Cpu => None,
            Show::Flushes | Show::Written => {
                let pick = self.of_model()?;
                let values = |measure: &Measure| -> Option<Vec<f64>> {
                    measure.runs.iter().map(|run| run.model.as_ref().map(pick)).collect()
                };
                range_ratio(&values(of)?, &values(over)?)
            }
        }
    }

    /// A single value in words, with its interval where it has one.
    pub fn value(self, measure: &Measure) -> Option<String> {
        let with = |mid: String, interval: Interval, bounds: String| match interval.n {
            0 | 1 => mid,
            _ => format!("{mid} {bounds}"),
        };
        match self {
            Show::Faster => {
                let rate = measure.rate;
                Some(with(number::plain(rate.mid), rate, number::interval(rate.low, rate.high)))
            }
            Show::Slower => {
                let time = measure.time_ns;
                let bounds = number::time_interval(time.mid, time.low, time.high);
                Some(with(number::time(time.mid), time, bounds))
            }
            Show::Sync => Some(number::percent(measure.shares.sync)),
            Show::Cpu => Some(number::percent(measure.shares.cpu)),
            Show::Flushes | Show::Written => {
                let pick = self.of_model()?;
                let values: Option<Vec<f64>> =
                    measure.runs.iter().map(|run| run.model.as_ref().map(pick)).collect();
                let values = values?;
                let mean = values.iter().sum::<f64>() / values.len() as f64;
                // Counts of nothing have no logarithm, and no geometric mean.
                let mid = mean_interval(&values).map_or(mean, |interval| interval.mid);
                Some(match self {
                    Show::Written => number::bytes(mid),
                    _ => number::plain(mid),
                })
            }
        }
    }
}

impl Dataset {
    /// The one measure of a choice of cells in a phase.
    pub(super) fn measure(&self, choice: &Choice, phase: &str) -> Result<&Measure, PapersError> {
        let fail = |problem: String| PapersError::Choice { name: self.name().into(), problem };
        let cells: Vec<&CellRow> =
            self.results.cells.iter().filter(|cell| cell.skipped.is_none() && choice.takes(cell)).collect();
        let [cell] = cells[..] else {
            let labels = |cells: &[&CellRow]| -> String {
                cells.iter().take(6).map(|cell| cell.label.as_str()).collect::<Vec<_>>().join(" · ")
            };
            let all: Vec<&CellRow> = self.results.cells.iter().collect();
            return Err(fail(match cells.len() {
                0 => format!("{choice} chooses no cell; there are: {}", labels(&all)),
                n => format!("{choice} chooses {n} cells, where one is wanted: {}", labels(&cells)),
            }));
        };
        self.analysis.get(cell.id, phase, None).ok_or_else(|| {
            let phases = self.analysis.phases().join(", ");
            fail(format!("{} was not measured in phase {phase:?}; there are: {phases}", cell.label))
        })
    }

    /// The values of an axis in the order of the plan, of the cells that a choice takes.
    pub(super) fn values(&self, axis: &str, choice: &Choice) -> Vec<String> {
        let mut values: Vec<String> = Vec::new();
        for cell in self.results.cells.iter().filter(|cell| cell.skipped.is_none() && choice.takes(cell)) {
            if let Some(value) =
                axis_of(cell, axis).filter(|value| !values.iter().any(|known| known == value))
            {
                values.push(value.to_owned());
            }
        }
        values
    }
}

/// A ratio in words: `2.11x [2.05, 2.16]`.
pub(super) fn ratio_text(ratio: &Comparison) -> String {
    if ratio.high.is_finite() {
        format!("{:.2}x [{:.2}, {:.2}]", ratio.ratio, ratio.low, ratio.high)
    } else {
        format!("{:.2}x (too few runs for an interval)", ratio.ratio)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_pairs() {
        let choice = Choice::parse("filesystem:ext4, journal_mode:wal").unwrap();
        assert_eq!(choice.to_string(), "filesystem:ext4,journal_mode:wal");
        assert_eq!(choice.and(&Choice::parse("x:y").unwrap()).0.len(), 3);
        assert!(Choice::parse("ext4").unwrap_err().contains("no `axis:value`"));
        assert_eq!(Choice::parse("").unwrap(), Choice::default());
    }
}
