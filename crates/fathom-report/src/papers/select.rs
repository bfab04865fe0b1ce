//! Chooses cells by their axes, and what is said of them.

use fathom_lab::analysis::{Clock, Measure, ModelShare, OfRun};
use fathom_lab::experiment::Metric;
use fathom_lab::stats::{Comparison, Interval, mean_interval, paired_ratio, range_ratio};
use fathom_lab::store::CellRow;
use serde::Deserialize;

use super::dataset::ends;
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
    /// How many times as fast; executions a second. A processor that is slowed slows it, too.
    #[default]
    Faster,
    /// How many times as slow; the time of one execution.
    Slower,
    /// Flushes that came to the device, for each execution.
    Flushes,
    /// Bytes that were written to the device, for each execution.
    Written,
    /// Bytes that were read from the device, for each execution.
    Read,
    /// Requests that wrote to the device, for each execution.
    Requests,
    /// The part of the time that fsync takes, as measured.
    Sync,
    /// The part of the time that the processor takes, as measured.
    Cpu,
    /// How many times as slow by the clock on the wall, where [`Show::Slower`] is of model time.
    Elapsed,
    /// Time at the device by its model that somebody waited for, for each execution.
    Device,
    /// The processor's time, for each execution.
    Processor,
    /// The part of the model time in which the device was waited for.
    DeviceShare,
    /// The part of the model time that the processor takes.
    CpuShare,
    /// The time of the fastest execution of a run: what it takes where it waits least for a
    /// processor that others use.
    Fastest,
    /// The time that half of the executions took at most: of each run, and of these the median.
    P50,
    /// The time that 999 of 1000 executions took at most: likewise.
    P999,
}

impl Show {
    pub fn parse(text: &str) -> Result<Show, String> {
        match text {
            "faster" => Ok(Show::Faster),
            "slower" => Ok(Show::Slower),
            "flushes" => Ok(Show::Flushes),
            "written" => Ok(Show::Written),
            "read" => Ok(Show::Read),
            "requests" => Ok(Show::Requests),
            "sync" => Ok(Show::Sync),
            "cpu" => Ok(Show::Cpu),
            "elapsed" => Ok(Show::Elapsed),
            "device" => Ok(Show::Device),
            "processor" => Ok(Show::Processor),
            "device-share" => Ok(Show::DeviceShare),
            "cpu-share" => Ok(Show::CpuShare),
            "fastest" => Ok(Show::Fastest),
            "p50" => Ok(Show::P50),
            "p999" => Ok(Show::P999),
            other => Err(format!(
                "{other:?} is none of faster, slower, flushes, written, read, requests, sync, cpu, elapsed, \
                 device, processor, device-share, cpu-share, fastest, p50, p999"
            )),
        }
    }

    /// What is judged is the value itself, not how it compares with another cell's.
    pub fn is_share(self) -> bool {
        matches!(self, Show::Sync | Show::Cpu | Show::DeviceShare | Show::CpuShare)
    }

    /// Its value in one run by the model of the device, with a processor that is `slowed` times as
    /// slow as this machine's; none of what is not told for single runs.
    fn of_model(self, slowed: f64) -> Option<impl Fn(&ModelShare) -> f64> {
        let is_told = match self {
            Show::Flushes | Show::Written | Show::Read | Show::Requests => true,
            Show::Device | Show::Processor | Show::DeviceShare | Show::CpuShare | Show::Fastest => true,
            Show::Faster | Show::Slower => slowed != 1.0,
            Show::Sync | Show::Cpu | Show::Elapsed | Show::P50 | Show::P999 => false,
        };
        is_told.then_some(move |share: &ModelShare| {
            let cpu = share.cpu_ns * slowed;
            let whole = cpu + share.device_ns + share.other_ns;
            match self {
                Show::Flushes => share.flushes,
                Show::Written => share.written_bytes,
                Show::Read => share.read_bytes,
                Show::Requests => share.write_requests,
                Show::Device => share.device_ns,
                Show::Processor => cpu,
                Show::Fastest => share.fastest_ns,
                Show::DeviceShare => share.device_ns / whole,
                Show::CpuShare => cpu / whole,
                Show::Faster => 1e9 / whole,
                _ => whole,
            }
        })
    }

    /// Its value in each run, by the model of the device; none where one run has none.
    fn values(self, measure: &Measure, slowed: f64) -> Option<Vec<f64>> {
        let pick = self.of_model(slowed)?;
        measure.runs.iter().map(|run| run.model.as_ref().map(&pick)).collect()
    }

    /// How one compares with another; none where nothing can be compared.
    pub fn ratio(self, of: &Measure, over: &Measure, slowed: f64) -> Option<Comparison> {
        match self {
            Show::Faster if slowed == 1.0 => of.faster_than(over, Metric::Rate),
            Show::Slower if slowed == 1.0 => {
                of.faster_than(over, Metric::Time).map(|faster| faster.inverse())
            }
            Show::Elapsed => of.faster_by(over, Metric::Time, Clock::Wall).map(|faster| faster.inverse()),
            Show::Sync | Show::Cpu | Show::DeviceShare | Show::CpuShare => None,
            // A percentile over the runs has no value in each block.
            Show::P50 | Show::P999 => None,
            Show::Flushes | Show::Written | Show::Read | Show::Requests => {
                range_ratio(&self.values(of, slowed)?, &self.values(over, slowed)?)
            }
            Show::Faster | Show::Slower | Show::Device | Show::Processor | Show::Fastest => {
                let pairs = self.pairs_of(of, over, slowed)?;
                paired_ratio(&pairs.into_iter().map(|(_, of, over)| (of, over)).collect::<Vec<_>>())
            }
        }
    }

    /// Block, value and value compared with, of the runs of one block, by the model of the device.
    fn pairs_of(self, of: &Measure, over: &Measure, slowed: f64) -> Option<Vec<(u32, f64, f64)>> {
        let pick = self.of_model(slowed)?;
        let value = |run: &OfRun| run.model.as_ref().map(&pick);
        let pair = |run: &OfRun| {
            let other = over.runs.iter().find(|other| other.block == run.block)?;
            Some((run.block, value(run)?, value(other)?))
        };
        Some(of.runs.iter().filter_map(pair).collect())
    }

    /// The same of what adds up over abscissas; none of what does not.
    pub fn pairs(self, of: &Measure, over: &Measure) -> Option<Vec<(u32, f64, f64)>> {
        match self.is_share() {
            true => None,
            false => self.pairs_of(of, over, 1.0),
        }
    }

    /// A value over the runs, as a picture shows it; none where it is not told for single runs.
    pub fn interval(self, measure: &Measure, slowed: f64) -> Option<Interval> {
        match self {
            Show::Faster if slowed == 1.0 => Some(measure.rate),
            Show::Slower if slowed == 1.0 => Some(measure.time_ns),
            Show::Elapsed => Some(measure.wall_time_ns),
            _ => mean_interval(&self.values(measure, slowed)?),
        }
    }

    /// A number of it in words.
    pub fn words(self, value: f64) -> String {
        match self {
            Show::Slower | Show::Elapsed | Show::Device | Show::Processor | Show::Fastest => {
                number::time(value)
            }
            Show::Written | Show::Read => number::bytes(value),
            _ if self.is_share() => number::percent(value),
            _ => number::plain(value),
        }
    }

    /// A share over the runs with its interval, as what is judged against a band; none where it is
    /// not told for single runs.
    pub fn share(self, measure: &Measure, slowed: f64) -> Option<Comparison> {
        let interval = mean_interval(&self.values(measure, slowed)?)?;
        let Interval { low, mid, high, n, .. } = interval;
        let (low, high) = if n < 3 { (0.0, f64::INFINITY) } else { (low, high) };
        Some(Comparison { ratio: mid, low, high, proven: false, n })
    }

    /// The smallest and the largest of single runs, in words.
    pub fn spread(self, measure: &Measure, slowed: f64) -> Option<String> {
        let (low, high) = ends(&self.values(measure, slowed)?);
        Some(format!("{} to {}", self.words(low), self.words(high)))
    }

    /// A single value in words, with its interval where it has one.
    pub fn value(self, measure: &Measure, slowed: f64) -> Option<String> {
        let with = |mid: String, interval: Interval, bounds: String| match interval.n {
            0 | 1 => mid,
            _ => format!("{mid} {bounds}"),
        };
        let time = |time: Interval| {
            let bounds = number::time_interval(time.mid, time.low, time.high);
            with(number::time(time.mid), time, bounds)
        };
        let rate =
            |rate: Interval| with(number::plain(rate.mid), rate, number::interval(rate.low, rate.high));
        match self {
            Show::Faster if slowed == 1.0 => Some(rate(measure.rate)),
            Show::Slower if slowed == 1.0 => Some(time(measure.time_ns)),
            Show::Elapsed => Some(time(measure.wall_time_ns)),
            Show::Faster => Some(rate(mean_interval(&self.values(measure, slowed)?)?)),
            Show::Slower | Show::Device | Show::Processor | Show::Fastest => {
                Some(time(mean_interval(&self.values(measure, slowed)?)?))
            }
            Show::P50 => Some(number::time(measure.model_latency_ns.unwrap_or(measure.latency_ns)[1])),
            Show::P999 => Some(number::time(measure.model_latency_ns.unwrap_or(measure.latency_ns)[4])),
            Show::Sync => Some(number::percent(measure.shares.sync)),
            Show::Cpu => Some(number::percent(measure.shares.cpu)),
            Show::DeviceShare | Show::CpuShare => Some(share_text(&self.share(measure, slowed)?)),
            Show::Flushes | Show::Written | Show::Read | Show::Requests => {
                let values = self.values(measure, slowed)?;
                let mean = values.iter().sum::<f64>() / values.len() as f64;
                // Counts of nothing have no logarithm, and no geometric mean.
                let mid = mean_interval(&values).map_or(mean, |interval| interval.mid);
                Some(match self {
                    Show::Written | Show::Read => number::bytes(mid),
                    _ => number::plain(mid),
                })
            }
        }
    }
}

impl Dataset {
    /// The one cell that a choice takes.
    pub(super) fn cell(&self, choice: &Choice) -> Result<&CellRow, PapersError> {
        let cells: Vec<&CellRow> =
            self.results.cells.iter().filter(|cell| cell.skipped.is_none() && choice.takes(cell)).collect();
        let [cell] = cells[..] else {
            let labels = |cells: &[&CellRow]| -> String {
                cells.iter().take(6).map(|cell| cell.label.as_str()).collect::<Vec<_>>().join(" · ")
            };
            let all: Vec<&CellRow> = self.results.cells.iter().collect();
            let problem = match cells.len() {
                0 => format!("{choice} chooses no cell; there are: {}", labels(&all)),
                n => format!("{choice} chooses {n} cells, where one is wanted: {}", labels(&cells)),
            };
            return Err(PapersError::Choice { name: self.name().into(), problem });
        };
        Ok(cell)
    }

    /// The one measure of a choice of cells in a phase, at an abscissa where the phase has some.
    pub(super) fn measure(
        &self,
        choice: &Choice,
        phase: &str,
        x: Option<f64>,
    ) -> Result<&Measure, PapersError> {
        let fail = |problem: String| PapersError::Choice { name: self.name().into(), problem };
        let cell = self.cell(choice)?;
        self.analysis.get(cell.id, phase, x).ok_or_else(|| {
            let found: Vec<String> = self
                .analysis
                .curve(cell.id, phase)
                .map(|measure| measure.x.map_or("no abscissa".into(), |x| format!("x={x}")))
                .collect();
            fail(match (found.is_empty(), x) {
                (true, _) => {
                    let phases = self.analysis.phases().join(", ");
                    format!("{} was not measured in phase {phase:?}; there are: {phases}", cell.label)
                }
                (false, None) => format!(
                    "{} was measured in phase {phase:?} by abscissa; name one: {}",
                    cell.label,
                    found.join(", ")
                ),
                (false, Some(x)) => format!(
                    "{} was not measured in phase {phase:?} at x={x}; there are: {}",
                    cell.label,
                    found.join(", ")
                ),
            })
        })
    }

    /// The abscissas of a phase, of the cells that a choice takes, ascending.
    pub(super) fn abscissas(&self, phase: &str, choice: &Choice) -> Vec<f64> {
        let cells = self.results.cells.iter().filter(|cell| choice.takes(cell));
        let mut found: Vec<f64> = cells
            .flat_map(|cell| self.analysis.curve(cell.id, phase).filter_map(|measure| measure.x))
            .collect();
        found.sort_by(f64::total_cmp);
        found.dedup();
        found
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

/// A share in words: `91 % [89 %, 93 %]`.
pub(super) fn share_text(share: &Comparison) -> String {
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    if share.high.is_finite() {
        format!("{} [{}, {}]", percent(share.ratio), percent(share.low), percent(share.high))
    } else {
        format!("{} (too few runs for an interval)", percent(share.ratio))
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
