//! Bytes of hours of use: what a replay wrote as fast as it could, at the pace of the trace.

use std::path::Path;

use fathom_lab::analysis::Measure;
use fathom_lab::stats::{Interval, mean_interval};

use super::Dataset;
use crate::number;

/// How long the traces of single runs took their users, which depends on the run's seed.
pub(super) struct Pace {
    /// Profile, seed, seconds.
    lines: Vec<(String, u64, f64)>,
    /// Hours of use that bytes are of.
    hours: f64,
}

impl Pace {
    /// Reads a CSV with the columns `profile`, `seed` and `seconds`.
    pub fn read(path: &Path, hours: f64) -> Result<Pace, String> {
        let name = path.display();
        let text = std::fs::read_to_string(path).map_err(|error| format!("{name}: {error}"))?;
        let mut rows = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
        let head = rows.next().unwrap_or_default();
        let place = |column: &str| {
            let at = head.iter().position(|known| *known == column);
            at.ok_or_else(|| format!("{name}: no column {column:?}"))
        };
        let [profile, seed, seconds] = [place("profile")?, place("seed")?, place("seconds")?];
        let line = |row: Vec<&str>| {
            let field = |at: usize| row.get(at).copied().unwrap_or_default();
            let time = field(seconds).parse().ok().filter(|time: &f64| *time > 0.0)?;
            Some((field(profile).to_owned(), field(seed).parse().ok()?, time))
        };
        let lines = rows.map(|row| line(row).ok_or_else(|| format!("{name}: a line that is not understood")));
        Ok(Pace { lines: lines.collect::<Result<_, String>>()?, hours })
    }

    /// Bytes over the runs; none of a profile without a pace.
    pub fn bytes(&self, dataset: &Dataset, measure: &Measure) -> Result<Option<Interval>, String> {
        let results = &dataset.results;
        let profile = results.cell(measure.cell).and_then(|cell| super::select::axis_of(cell, "profile"));
        let profile = profile.ok_or("a pace is one of profiles, and there is no such axis")?;
        if !self.lines.iter().any(|(known, ..)| known == profile) {
            return Ok(None);
        }
        let of_run = |run: &fathom_lab::analysis::OfRun| {
            let seed = results.runs.iter().find(|row| row.id == run.run)?.seed;
            let of = |phase: &&fathom_lab::store::PhaseOfRun| {
                phase.run == run.run && phase.summary.phase == measure.phase
            };
            let count = results.phases.iter().find(of)?.summary.count;
            let is_it = |line: &&(String, u64, f64)| line.0 == profile && line.1 == seed;
            let (.., seconds) = self.lines.iter().find(is_it)?;
            Some(run.model.as_ref()?.written_bytes * count as f64 * self.hours * 3600.0 / seconds)
        };
        let bytes: Option<Vec<f64>> = measure.runs.iter().map(of_run).collect();
        let bytes = bytes.ok_or_else(|| format!("{profile}: a run of the data has no pace"))?;
        Ok(mean_interval(&bytes))
    }

    /// The same in words, MB of 10^6 bytes as makers of flash count.
    pub fn value(&self, dataset: &Dataset, measure: &Measure) -> Result<String, String> {
        let mega = |bytes: f64| number::plain(bytes / 1e6);
        Ok(self
            .bytes(dataset, measure)?
            .map_or("no pace".to_owned(), |Interval { low, mid, high, .. }| {
                format!("{} MB [{}, {}]", mega(mid), mega(low), mega(high))
            }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pace_has_three_columns() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("pace.csv");
        let read = |text: &str| {
            std::fs::write(&path, text).unwrap();
            Pace::read(&path, 2.0)
        };
        let pace = read("profile,seed,seconds\ngmail,7,34.1\n").unwrap();
        assert_eq!(pace.lines, [("gmail".to_owned(), 7, 34.1)]);
        assert!(read("profile,seed\n").err().unwrap().contains("no column \"seconds\""));
        assert!(read("profile,seed,seconds\ngmail,7,0\n").is_err());
    }
}
