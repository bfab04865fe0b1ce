//! What `fathom simulate --json` printed, as tables, ratios and a figure: recordings themselves are
//! too large to be published.

use std::path::Path;

use fathom_lab::simulate::{OperationCounts, SimulatedRun, Slowest};
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
    /// Executions of all runs.
    Executions,
    Flushes,
    Written,
    /// Of the slowest executions, or of the others: a count of one execution, or a share.
    Counts(Whose, fn(&OperationCounts) -> f64),
    Share(Whose, fn(&OperationCounts) -> f64),
}

/// Of which executions operations are counted.
#[derive(Clone, Copy)]
pub(super) enum Whose {
    Slowest,
    Others,
}

impl Whose {
    fn of(self, slowest: &Slowest) -> &OperationCounts {
        match self {
            Whose::Slowest => &slowest.slowest,
            Whose::Others => &slowest.others,
        }
    }
}

/// The words of `show=`, and how a column of theirs is headed.
const QUANTITIES: &[(&str, &str, Quantity)] = &[
    ("slower", "mean", Quantity::Mean),
    ("p50", "median", Quantity::P50),
    ("p99", "p99", Quantity::P99),
    ("p999", "p99.9", Quantity::P999),
    ("max", "longest", Quantity::Max),
    ("total", "all runs", Quantity::Total),
    ("executions", "executions", Quantity::Executions),
    ("flushes", "flushes", Quantity::Flushes),
    ("written", "written", Quantity::Written),
    ("slowest-reads", "reads of the slowest", Quantity::Counts(Whose::Slowest, |counts| counts.reads)),
    ("slowest-writes", "writes of the slowest", Quantity::Counts(Whose::Slowest, |counts| counts.writes)),
    ("slowest-flushes", "flushes of the slowest", Quantity::Counts(Whose::Slowest, |counts| counts.flushes)),
    (
        "slowest-more-flushes",
        "of the slowest, more flushes than usual",
        Quantity::Share(Whose::Slowest, |counts| counts.more_flushes),
    ),
    (
        "slowest-after-writes",
        "of the slowest, after nobody's writes",
        Quantity::Share(Whose::Slowest, |counts| counts.after_writes),
    ),
    ("others-reads", "reads of the others", Quantity::Counts(Whose::Others, |counts| counts.reads)),
    ("others-writes", "writes of the others", Quantity::Counts(Whose::Others, |counts| counts.writes)),
    ("others-flushes", "flushes of the others", Quantity::Counts(Whose::Others, |counts| counts.flushes)),
    (
        "others-more-flushes",
        "of the others, more flushes than usual",
        Quantity::Share(Whose::Others, |counts| counts.more_flushes),
    ),
    (
        "others-after-writes",
        "of the others, after nobody's writes",
        Quantity::Share(Whose::Others, |counts| counts.after_writes),
    ),
];

impl Quantity {
    /// A word of `show=`, and the head of its column.
    pub fn parse(word: &str) -> Result<(Quantity, &'static str), String> {
        let known = QUANTITIES.iter().find(|(name, ..)| *name == word);
        known.map(|(_, head, quantity)| (*quantity, *head)).ok_or_else(|| {
            let names: Vec<&str> = QUANTITIES.iter().map(|(name, ..)| *name).collect();
            format!("show={word}: of simulated runs there are {}", names.join(", "))
        })
    }

    /// What it is of a run, ns; of what is no time of one execution the mean.
    fn of_run(self, run: &SimulatedRun) -> f64 {
        match self {
            Quantity::P50 => run.p50_ns,
            Quantity::P99 => run.p99_ns,
            Quantity::P999 => run.p999_ns,
            Quantity::Max => run.max_ns,
            _ => Some(run.model_ns),
        }
        // Nothing is read that has none.
        .unwrap_or(f64::NAN)
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
                    [Some(run.model_ns), run.p50_ns, run.p99_ns, run.p999_ns, run.max_ns]
                        .iter()
                        .any(|value| value.is_none_or(|ns| !ns.is_finite() || ns <= 0.0))
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

    /// The cells whose labels begin so.
    fn labels(&self, begin: &str) -> Result<Vec<&str>, String> {
        let mut labels = self.distinct(|row| &row.label);
        labels.retain(|label| label.starts_with(begin));
        match labels.is_empty() {
            true => Err(format!("no cell is called {begin:?} or begins so")),
            false => Ok(labels),
        }
    }

    /// A row for each cell whose label begins so, a column for each device.
    pub fn table(&self, quantity: Quantity, begin: &str) -> Result<String, String> {
        let devices = self.distinct(|row| &row.device);
        markdown("", &devices, &self.labels(begin)?, |label, at| self.value(label, devices[at], quantity))
    }

    /// A row for each cell whose label begins so, a column for each quantity, on one device.
    pub fn table_of(
        &self,
        device: &str,
        quantities: &[(Quantity, &'static str)],
        begin: &str,
    ) -> Result<String, String> {
        let value = |label: &str, at: usize| self.value(label, device, quantities[at].0);
        markdown(device, &heads(quantities), &self.labels(begin)?, value)
    }

    /// A value with its interval over the runs; counts of operations without one.
    pub fn value(&self, label: &str, device: &str, quantity: Quantity) -> Result<String, String> {
        let row = self.row(label, device)?;
        let values: Vec<f64> = row.each_run.iter().map(|run| quantity.of_run(run)).collect();
        let counted = |whose: Whose, of: fn(&OperationCounts) -> f64| {
            let counts: Option<Vec<f64>> =
                row.each_run.iter().map(|run| Some(of(whose.of(run.slowest.as_ref()?)))).collect();
            let counts = counts.ok_or_else(|| format!("{label}: what its slowest did is not there"))?;
            Ok::<f64, String>(counts.iter().sum::<f64>() / counts.len().max(1) as f64)
        };
        Ok(match quantity {
            Quantity::Flushes => number::plain(row.flushes),
            Quantity::Written => number::bytes(row.written_bytes),
            Quantity::Total => number::time(values.iter().sum::<f64>() * row.count as f64),
            Quantity::Executions => number::plain((row.count * row.each_run.len() as u64) as f64),
            Quantity::Counts(whose, of) => number::plain(counted(whose, of)?),
            Quantity::Share(whose, of) => number::percent(counted(whose, of)?),
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

    /// How each cell whose label ends so compares with the one that ends otherwise, block by block:
    /// a row for each, a column for each quantity.
    pub fn ratios(
        &self,
        of: &str,
        over: &str,
        device: &str,
        quantities: &[(Quantity, &'static str)],
    ) -> Result<String, String> {
        let names: Vec<&str> = self
            .distinct(|row| &row.label)
            .into_iter()
            .filter_map(|label| Some(label.strip_suffix(of)?.trim_end()))
            .collect();
        if names.is_empty() {
            return Err(format!("no cell's label ends with {of:?}"));
        }
        let value = |name: &str, at: usize| {
            let label = |end: &str| format!("{name} {end}").trim_start().to_owned();
            self.ratio(&label(of), &label(over), device, quantities[at].0)
        };
        markdown(&format!("{of} against {over}, {device}"), &heads(quantities), &names, value)
    }

    /// How one cell's runs compare with another's, block by block.
    fn ratio(&self, of: &str, over: &str, device: &str, quantity: Quantity) -> Result<String, String> {
        let (of, over) = (self.row(of, device)?, self.row(over, device)?);
        let of_block = |block: u32| over.each_run.iter().find(|other| other.block == block);
        let pairs: Vec<(f64, f64)> = of
            .each_run
            .iter()
            .filter_map(|run| Some((quantity.of_run(run), quantity.of_run(of_block(run.block)?))))
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
        let (top, bottom) = (y + 10.0, y + STEP * (rows.len() as f64 + 0.6));
        for tick in (3..12).map(|power| 10f64.powi(power)).filter(|tick| low < *tick && *tick < high) {
            body.line(place(tick), top, place(tick), bottom, RULE, 1.0);
            body.text(place(tick), bottom + 12.0, &number::time(tick), "middle", MUTED, 11, false);
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
        Ok(document(title, &about, y + 40.0, &body))
    }
}

/// How columns of these quantities are headed.
fn heads(quantities: &[(Quantity, &'static str)]) -> Vec<&'static str> {
    quantities.iter().map(|(_, head)| *head).collect()
}

/// A table: a row for each of `names`, a column for each of `heads`, whose place `value` is given.
fn markdown(
    corner: &str,
    heads: &[&str],
    names: &[&str],
    value: impl Fn(&str, usize) -> Result<String, String>,
) -> Result<String, String> {
    let corner = if corner.is_empty() { String::new() } else { format!("{corner} ") };
    let mut table = format!("| {corner}| {} |\n|---|{}", heads.join(" | "), "---|".repeat(heads.len()));
    for name in names {
        let values: Vec<String> =
            (0..heads.len()).map(|at| value(name, at)).collect::<Result<_, String>>()?;
        table += &format!("\n| {name} | {} |", values.join(" | "));
    }
    Ok(table)
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
        let quantities = ["p50", "p999"].map(|word| Quantity::parse(word).unwrap());
        assert_eq!(
            found.ratios("aged", "fresh", "card", &quantities).unwrap(),
            "| aged against fresh, card | median | p99.9 |\n|---|---|---|\n\
             | wal | 1.00x [1.00, 1.00] | 2.00x [2.00, 2.00] |"
        );
        assert!(found.ratios("new", "fresh", "card", &quantities).unwrap_err().contains("\"new\""));
        assert!(found.ratios("aged", "old", "card", &quantities).unwrap_err().contains("wal old"));
        assert_eq!(found.value("wal aged", "card", Quantity::Total).unwrap(), "30 s");
        let table = found.table(Quantity::P999, "wal").unwrap();
        assert!(table.starts_with("| | card |\n|---|---|\n| wal fresh | 20 ms"), "{table}");
        assert!(table.contains("| wal aged | 40 ms"), "{table}");
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
        let slowest = Quantity::parse("slowest-writes").unwrap().0;
        assert!(found.value("a", "card", slowest).unwrap_err().contains("not there"));
    }

    #[test]
    fn what_the_slowest_did_is_a_mean_over_the_runs() {
        let mut value: serde_json::Value =
            serde_json::from_str(&export("a", &[[10.0, 20.0], [10.0, 20.0]])).unwrap();
        for (run, writes) in [(0, 3.0), (1, 5.0)] {
            let counts = |writes: f64, share: f64| {
                serde_json::json!({
                    "executions": 1, "reads": 0.0, "writes": writes, "flushes": 1.0, "more_flushes": share,
                    "after_writes": 0.0
                })
            };
            value["simulation"]["rows"][0]["each_run"][run]["slowest"] =
                serde_json::json!({ "slowest": counts(writes, 0.5), "others": counts(1.0, 0.0) });
        }
        let found = read(&[value.to_string()]).unwrap();
        let quantities: Vec<_> =
            ["slowest-writes", "others-writes", "slowest-more-flushes", "p50", "executions"]
                .map(|word| Quantity::parse(word).unwrap())
                .into();
        let table = found.table_of("card", &quantities, "").unwrap();
        assert_eq!(
            table,
            "| card | writes of the slowest | writes of the others | of the slowest, more flushes than usual | \
             median | executions |\n|---|---|---|---|---|---|\n\
             | a | 4 | 1 | 50 % | 10 ms [10, 10] | 2,000 |"
        );
        assert!(found.table_of("card", &quantities, "b").is_err());
        assert!(found.table_of("disk", &quantities, "").unwrap_err().contains("a on card"));
    }
}
