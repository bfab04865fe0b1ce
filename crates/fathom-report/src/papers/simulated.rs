//! What `fathom simulate --json` printed, as tables, ratios and a figure: recordings themselves are
//! too large to be published.

use std::path::Path;

use fathom_lab::simulate::SimulatedRun;
use fathom_lab::stats::{mean_interval, paired_ratio};
use serde::Deserialize;

use super::select::ratio_text;
use crate::canvas::{Canvas, INK, MUTED, RULE, WIDTH, document};
use crate::number;

/// Exports, one after the other.
#[derive(Debug)]
pub(super) struct Simulated {
    rows: Vec<SimulatedRow>,
}

/// A cell in a phase on a device.
#[derive(Debug, Deserialize)]
struct SimulatedRow {
    label: String,
    device: String,
    count: u64,
    flushes: f64,
    written_bytes: f64,
    each_run: Vec<SimulatedRun>,
}

impl SimulatedRow {
    /// Takes over the runs of the same cell in another export, in blocks that come after its own.
    /// Bytes and flushes stay those of the first.
    fn take(&mut self, other: SimulatedRow) {
        let next = self.each_run.iter().map(|run| run.block + 1).max().unwrap_or(0);
        let later = |run: SimulatedRun| SimulatedRun { block: run.block + next, ..run };
        self.each_run.extend(other.each_run.into_iter().map(later));
    }
}

/// What `fathom simulate --json` prints.
#[derive(Deserialize)]
struct Export {
    simulation: Exported,
}

#[derive(Deserialize)]
struct Exported {
    rows: Vec<SimulatedRow>,
}

/// What is shown of a row.
#[derive(Clone, Copy)]
pub(super) enum Quantity {
    Mean,
    P50,
    P99,
    P999,
    Max,
    /// Model time of all runs together.
    Total,
    Flushes,
    Written,
}

impl Quantity {
    /// The word of `show=`.
    pub fn parse(word: &str) -> Result<Quantity, String> {
        Ok(match word {
            "slower" => Quantity::Mean,
            "p50" => Quantity::P50,
            "p99" => Quantity::P99,
            "p999" => Quantity::P999,
            "max" => Quantity::Max,
            "total" => Quantity::Total,
            "flushes" => Quantity::Flushes,
            "written" => Quantity::Written,
            other => {
                return Err(format!(
                    "show={other}: of simulated runs there are slower, p50, p99, p999, max, total, flushes and \
                     written"
                ));
            }
        })
    }

    fn of_run(self, run: &SimulatedRun) -> f64 {
        match self {
            Quantity::P50 => run.p50_ns,
            Quantity::P99 => run.p99_ns,
            Quantity::P999 => run.p999_ns,
            Quantity::Max => run.max_ns,
            Quantity::Mean | Quantity::Total | Quantity::Flushes | Quantity::Written => run.model_ns,
        }
    }
}

impl Simulated {
    /// Reads exports.
    pub fn read(paths: &[impl AsRef<Path>]) -> Result<Simulated, String> {
        let mut rows: Vec<SimulatedRow> = Vec::new();
        for path in paths {
            let name = path.as_ref().display();
            let text = std::fs::read_to_string(path).map_err(|error| format!("{name}: {error}"))?;
            let export: Export = serde_json::from_str(&text)
                .map_err(|error| format!("{name}: is it of `fathom simulate --json`? {error}"))?;
            for row in export.simulation.rows {
                let is_strange = |run: &SimulatedRun| {
                    [run.model_ns, run.p50_ns, run.p99_ns, run.p999_ns, run.max_ns]
                        .iter()
                        .any(|value| !value.is_finite() || *value <= 0.0)
                };
                if row.each_run.is_empty() || row.each_run.iter().any(is_strange) {
                    return Err(format!("{name}: {} has no times of single executions", row.label));
                }
                let is_same =
                    |other: &&mut SimulatedRow| other.label == row.label && other.device == row.device;
                if let Some(known) = rows.iter_mut().find(is_same) {
                    known.take(row);
                    continue;
                }
                rows.push(row);
            }
        }
        match rows.is_empty() {
            true => Err("simulated of what?".to_owned()),
            false => Ok(Simulated { rows }),
        }
    }

    fn row(&self, label: &str, device: &str) -> Result<&SimulatedRow, String> {
        let is_it = |row: &&SimulatedRow| row.label == label && row.device == device;
        self.rows.iter().find(is_it).ok_or_else(|| {
            let known: Vec<String> =
                self.rows.iter().map(|row| format!("{} on {}", row.label, row.device)).collect();
            format!("no {label:?} on {device:?}; there are: {}", known.join(", "))
        })
    }

    /// Values in the order of the files, none twice.
    fn distinct(&self, of: impl Fn(&SimulatedRow) -> &str) -> Vec<&str> {
        let mut found = Vec::new();
        for value in self.rows.iter().map(of) {
            if !found.contains(&value) {
                found.push(value);
            }
        }
        found
    }

    /// A row for each cell whose label begins so, a column for each device.
    pub fn table(&self, quantity: Quantity, begin: &str) -> Result<String, String> {
        let devices = self.distinct(|row| &row.device);
        let mut table = format!("| | {} |\n|---|{}", devices.join(" | "), "---|".repeat(devices.len()));
        let labels = self.distinct(|row| &row.label).into_iter().filter(|label| label.starts_with(begin));
        let labels: Vec<&str> = labels.collect();
        if labels.is_empty() {
            return Err(format!("no cell is called {begin:?} or begins so"));
        }
        for label in labels {
            let values: Vec<String> = devices
                .iter()
                .map(|device| self.value(label, device, quantity))
                .collect::<Result<_, String>>()?;
            table += &format!("\n| {label} | {} |", values.join(" | "));
        }
        Ok(table)
    }

    /// A value with its interval over the runs.
    pub fn value(&self, label: &str, device: &str, quantity: Quantity) -> Result<String, String> {
        let row = self.row(label, device)?;
        let values: Vec<f64> = row.each_run.iter().map(|run| quantity.of_run(run)).collect();
        Ok(match quantity {
            Quantity::Flushes => number::plain(row.flushes),
            Quantity::Written => number::bytes(row.written_bytes),
            Quantity::Total => number::time(values.iter().sum::<f64>() * row.count as f64),
            _ => match mean_interval(&values) {
                Some(time) if time.n > 1 => {
                    let bounds = number::time_interval(time.mid, time.low, time.high);
                    format!("{} {bounds}", number::time(time.mid))
                }
                Some(time) => number::time(time.mid),
                None => String::new(),
            },
        })
    }

    /// How one cell's runs compare with another's, block by block.
    pub fn ratio(&self, of: &str, over: &str, device: &str, quantity: Quantity) -> Result<String, String> {
        let (of, over) = (self.row(of, device)?, self.row(over, device)?);
        let pairs: Vec<(f64, f64)> = of
            .each_run
            .iter()
            .filter_map(|run| {
                let other = over.each_run.iter().find(|other| other.block == run.block)?;
                Some((quantity.of_run(run), quantity.of_run(other)))
            })
            .collect();
        let ratio = paired_ratio(&pairs).ok_or_else(|| "the two share no block".to_owned())?;
        Ok(ratio_text(&ratio))
    }

    /// Median, 99th percentile, one in a thousand and the longest of each cell on a device, on a
    /// logarithmic axis.
    pub fn figure(&self, device: &str, title: &str) -> Result<String, String> {
        const LEFT: f64 = 170.0;
        const RIGHT: f64 = 90.0;
        const STEP: f64 = 26.0;
        const MARKS: [(Quantity, &str); 4] = [
            (Quantity::P50, "median"),
            (Quantity::P99, "p99"),
            (Quantity::P999, "p99.9"),
            (Quantity::Max, "longest"),
        ];
        const COLOURS: [&str; 4] = ["#0b5a9c", "#12a07a", "#c27c0e", "#8a1f5c"];
        let rows: Vec<&SimulatedRow> = self.rows.iter().filter(|row| row.device == device).collect();
        if rows.is_empty() {
            return Err(format!("nothing was simulated on {device:?}"));
        }
        let mid = |row: &SimulatedRow, quantity: Quantity| {
            let values: Vec<f64> = row.each_run.iter().map(|run| quantity.of_run(run)).collect();
            mean_interval(&values).map_or(1.0, |interval| interval.mid)
        };
        let of_all = |quantity| rows.iter().map(move |row| mid(row, quantity));
        let low = of_all(Quantity::P50).fold(f64::INFINITY, f64::min) / 1.3;
        let high = of_all(Quantity::Max).fold(0.0, f64::max) * 1.1;
        let place = |ns: f64| LEFT + (ns / low).ln() / (high / low).ln() * (WIDTH - LEFT - RIGHT);
        let about = "model time of single commits, logarithmic; simulated".to_owned();
        let (mut body, mut y) = (Canvas::default(), 22.0);
        body.text(0.0, y, title, "start", INK, 16, true);
        y += 18.0;
        body.text(0.0, y, &about, "start", MUTED, 11, false);
        y += 20.0;
        let mut x = LEFT;
        for (index, (_, name)) in MARKS.iter().enumerate() {
            body.symbol(index, x, y - 4.0, COLOURS[index]);
            body.text(x + 9.0, y, name, "start", INK, 11, false);
            x += 90.0;
        }
        for row in rows {
            y += STEP;
            body.text(LEFT - 12.0, y + 4.0, &row.label, "end", INK, 12, false);
            body.line(LEFT, y, WIDTH - RIGHT, y, RULE, 1.0);
            for (index, (quantity, _)) in MARKS.iter().enumerate() {
                body.symbol(index, place(mid(row, *quantity)), y, COLOURS[index]);
            }
            let longest = number::time(mid(row, Quantity::Max));
            body.text(WIDTH - RIGHT + 12.0, y + 4.0, &longest, "start", MUTED, 11, false);
        }
        Ok(document(title, &about, y + 24.0, &body))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An export of one cell on one device; of each run its median and its p99.9, ms.
    fn export(label: &str, runs: &[[f64; 2]]) -> String {
        let each: Vec<serde_json::Value> = (0..)
            .zip(runs)
            .map(|(block, [p50, p999])| {
                let ns = |ms: f64| ms * 1e6;
                serde_json::json!({
                    "block": block, "model_ns": ns(*p50), "p50_ns": ns(*p50), "p99_ns": ns(*p999),
                    "p999_ns": ns(*p999), "max_ns": ns(*p999 * 2.0)
                })
            })
            .collect();
        let row = serde_json::json!({
            "label": label, "device": "card", "count": 1000, "flushes": 4.0, "written_bytes": 4096.0,
            "each_run": each
        });
        serde_json::json!({ "simulation": { "rows": [row] } }).to_string()
    }

    fn read(texts: &[String]) -> Result<Simulated, String> {
        let directory = tempfile::tempdir().unwrap();
        let mut paths = Vec::new();
        for (number, text) in texts.iter().enumerate() {
            paths.push(directory.path().join(format!("{number}.json")));
            std::fs::write(&paths[number], text).unwrap();
        }
        Simulated::read(&paths)
    }

    #[test]
    fn values_ratios_and_the_sum_are_those_of_the_runs() {
        let fresh = export("wal fresh", &[[10.0, 20.0], [10.0, 20.0], [10.0, 20.0]]);
        let aged = export("wal aged", &[[10.0, 40.0], [10.0, 40.0], [10.0, 40.0]]);
        let found = read(&[fresh, aged]).unwrap();
        assert_eq!(
            found.ratio("wal aged", "wal fresh", "card", Quantity::P999).unwrap(),
            "2.00x [2.00, 2.00]"
        );
        assert_eq!(found.value("wal aged", "card", Quantity::Total).unwrap(), "30.0 s");
        let table = found.table(Quantity::P999, "wal").unwrap();
        assert!(table.starts_with("| | card |\n|---|---|\n| wal fresh | 20.0 ms"), "{table}");
        assert!(table.contains("| wal aged | 40.0 ms"), "{table}");
        assert!(found.table(Quantity::P50, "delete").unwrap_err().contains("delete"));
        let svg = found.figure("card", "Commits").unwrap();
        assert!(svg.contains("wal aged") && svg.contains("p99.9"), "{svg}");
    }

    #[test]
    fn runs_of_several_exports_are_blocks_of_their_own() {
        let halves: Vec<String> = [("a", 1.0), ("b", 2.0), ("a", 3.0), ("b", 6.0)]
            .map(|(label, ms)| export(label, &[[ms, ms], [ms, ms]]))
            .into();
        let found = read(&halves).unwrap();
        assert_eq!(found.rows[0].each_run.iter().map(|run| run.block).collect::<Vec<_>>(), [0, 1, 2, 3]);
        assert_eq!(found.ratio("b", "a", "card", Quantity::P50).unwrap(), "2.00x [2.00, 2.00]");
    }

    #[test]
    fn what_is_no_export_is_refused() {
        let refused = |texts: &[String]| read(texts).unwrap_err();
        assert!(refused(&["{}".into()]).contains("fathom simulate --json"));
        assert!(refused(&[]).contains("of what"));
        assert!(refused(&[export("a", &[])]).contains("no times"));
        assert!(refused(&[export("a", &[[0.0, 1.0]])]).contains("no times"));
        let found = read(&[export("a", &[[1.0, 2.0]])]).unwrap();
        assert!(found.value("b", "card", Quantity::Max).unwrap_err().contains("a on card"));
        assert!(found.figure("disk", "t").is_err() && Quantity::parse("p42").is_err());
    }
}
