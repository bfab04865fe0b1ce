//! From cells to tables.
//!
//! The figure of a row is the median over blocks; its interval is the 95 % percentile bootstrap of
//! that median (2000 resamples of the blocks, fixed seed). A ratio is taken within each block,
//! where both cells had the same hour of the machine, and then treated the same way.

use crate::catalog::{Mode, PEERS};
use crate::cell::Phase;
use crate::mix::{Mix, Operation, Part};
use crate::peer::Transaction;
use crate::run::{CellLine, Outcome};
use anyhow::{Context, Result};
use fathom_random::Random;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// A median with its interval.
#[derive(Clone, Copy, Serialize, Debug, PartialEq)]
pub struct Estimate {
    /// Median over blocks.
    pub median: f64,
    /// Lower end of the 95 % interval.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// Blocks.
    pub blocks: usize,
}

fn median(sorted: &[f64]) -> f64 {
    let middle = sorted.len() / 2;
    if sorted.len().is_multiple_of(2) { (sorted[middle - 1] + sorted[middle]) / 2.0 } else { sorted[middle] }
}

/// The estimate of some values; `None` of none.
pub fn estimate(values: &[f64]) -> Option<Estimate> {
    if values.is_empty() {
        return None;
    }
    let sorted = |mut v: Vec<f64>| {
        v.sort_by(f64::total_cmp);
        v
    };
    let mut random = Random::new(42);
    let medians = (0..2000)
        .map(|_| {
            let resample = values
                .iter()
                .map(|_| values[(random.bits() % values.len() as u64) as usize])
                .collect();
            median(&sorted(resample))
        })
        .collect();
    let medians = sorted(medians);
    Some(Estimate {
        median: median(&sorted(values.to_vec())),
        low: medians[49],
        high: medians[1949],
        blocks: values.len(),
    })
}

/// Reads a `cells.jsonl`.
pub fn read(path: &Path) -> Result<Vec<CellLine>> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    text.lines()
        .enumerate()
        .map(|(at, line)| {
            serde_json::from_str(line).with_context(|| format!("{} line {}", path.display(), at + 1))
        })
        .collect()
}

/// What is compared: peer, mode, clients, transaction.
type Key = (usize, Mode, usize, bool);

/// All phases by key and block.
struct Data {
    phases: BTreeMap<Key, BTreeMap<u64, Phase>>,
    /// By peer: block, seconds, records recovered, bytes on disk per record.
    recoveries: BTreeMap<usize, Vec<(f64, f64)>>,
    /// By peer and clients: of each block.
    mixes: BTreeMap<(usize, usize), Vec<Mix>>,
    clients: Vec<usize>,
}

/// One row of the mix in `summary.json`.
#[derive(Serialize)]
struct MixSummary {
    peer: &'static str,
    clients: usize,
    operation: Operation,
    per_s: Estimate,
    p50_us: Estimate,
    p99_us: Estimate,
    p999_us: Estimate,
    max_us: Estimate,
}

/// One row of `summary.json`.
#[derive(Serialize)]
struct Summary {
    peer: &'static str,
    mode: Mode,
    clients: usize,
    transaction: Transaction,
    per_s: Estimate,
    share_of_floor: Option<Estimate>,
    p50_us: Estimate,
    p99_us: Estimate,
    p999_us: Estimate,
    log_bytes: Estimate,
    disk_bytes: Option<Estimate>,
    cpu_us: Estimate,
}

fn number_of(name: &str) -> Option<usize> {
    PEERS.iter().position(|entry| entry.name == name)
}

fn rate(phase: &Phase) -> f64 {
    phase.count as f64 / phase.seconds
}

impl Data {
    fn new(lines: &[CellLine]) -> Data {
        let mut data = Data {
            phases: BTreeMap::new(),
            recoveries: BTreeMap::new(),
            mixes: BTreeMap::new(),
            clients: Vec::new(),
        };
        for line in lines {
            let (Outcome::Done { measured, reopened }, Some(peer)) =
                (&line.outcome, number_of(&line.spec.peer))
            else {
                continue;
            };
            if line.recovery {
                // A receive writes two rows: those are the records.
                let records = 2.0 * measured.received.iter().sum::<u64>() as f64;
                data.recoveries.entry(peer).or_default().push((reopened.recovery_s, records));
                continue;
            }
            if let Some(mix) = &measured.mix {
                data.mixes.entry((peer, line.spec.clients)).or_default().push(mix.clone());
                continue;
            }
            for phase in &measured.phases {
                let key =
                    (peer, line.spec.mode, line.spec.clients, phase.transaction == Transaction::Deliver);
                data.phases.entry(key).or_default().insert(line.block, phase.clone());
            }
            if !data.clients.contains(&line.spec.clients) {
                data.clients.push(line.spec.clients);
            }
        }
        data.clients.sort_unstable();
        data
    }

    fn of(&self, key: Key, figure: impl Fn(&Phase) -> f64) -> Option<Estimate> {
        estimate(&self.phases.get(&key)?.values().map(figure).collect::<Vec<_>>())
    }

    fn disk_bytes(&self, key: Key) -> Option<Estimate> {
        estimate(&self.phases.get(&key)?.values().filter_map(|phase| phase.disk_bytes).collect::<Vec<_>>())
    }

    /// Ratio of rates, paired by block.
    fn ratio(&self, key: Key, to: Key) -> Option<Estimate> {
        let (mine, other) = (self.phases.get(&key)?, self.phases.get(&to)?);
        let ratios: Vec<f64> =
            mine.iter().filter_map(|(block, phase)| Some(rate(phase) / rate(other.get(block)?))).collect();
        estimate(&ratios)
    }

    /// Peers and modes that have figures, in the order of the catalog.
    fn rows(&self, deliver: bool) -> Vec<(usize, Mode)> {
        let mut rows: Vec<_> =
            self.phases.keys().filter(|key| key.3 == deliver).map(|key| (key.0, key.1)).collect();
        rows.sort_unstable_by_key(|&(peer, mode)| (mode, peer));
        rows.dedup();
        rows
    }

    fn table(&self, out: &mut String, title: &str, deliver: bool, cell: impl Fn(Key) -> Option<String>) {
        let _ = writeln!(out, "\n{title}\n");
        let heads: Vec<String> =
            self.clients.iter().map(|c| format!("{c} client{}", if *c == 1 { "" } else { "s" })).collect();
        let _ = writeln!(out, "| peer | waits | {} |", heads.join(" | "));
        let _ = writeln!(out, "|---|---|{}", "---:|".repeat(heads.len()));
        for (peer, mode) in self.rows(deliver) {
            let cells: Vec<String> = self
                .clients
                .iter()
                .map(|&clients| cell((peer, mode, clients, deliver)).unwrap_or_else(|| "–".into()))
                .collect();
            let mode = if mode == Mode::Blocking { "blocking" } else { "async" };
            let _ = writeln!(out, "| {} | {mode} | {} |", PEERS[peer].name, cells.join(" | "));
        }
    }

    /// What a figure of one kind of operation is over the blocks of a mix.
    fn mixed(mixes: &[Mix], operation: Operation, figure: impl Fn(&Part, f64) -> f64) -> Option<Estimate> {
        let of = |mix: &Mix| Some(figure(mix.part(operation)?, mix.seconds));
        estimate(&mixes.iter().filter_map(of).collect::<Vec<_>>())
    }

    fn mix_table(&self) -> String {
        let mut out = String::from(
            "\n**Mix: operations/s, and latency p50 / p99 / p99.9 / greatest, ms**\n\n\
             | peer | clients | operations/s | writes | reads | scans | processor µs |\n\
             |---|---:|---:|---:|---:|---:|---:|\n",
        );
        for (&(peer, clients), mixes) in &self.mixes {
            let all = estimate(&mixes.iter().map(Mix::rate).collect::<Vec<_>>());
            let cpu = estimate(&mixes.iter().map(|mix| mix.cpu_us).collect::<Vec<_>>());
            let (Some(all), Some(cpu)) = (all, cpu) else { continue };
            let cell = |operation| {
                let figures: [fn(&Part, f64) -> f64; 4] =
                    [|p, _| p.p50_us, |p, _| p.p99_us, |p, _| p.p999_us, |p, _| p.max_us];
                let ms = figures.map(|figure| {
                    let us = Self::mixed(mixes, operation, figure);
                    us.map_or_else(|| "?".into(), |us| format!("{:.3}", us.median / 1000.0))
                });
                ms.join(" / ")
            };
            let parts = [Operation::Write, Operation::Read, Operation::Scan].map(cell);
            let _ = writeln!(
                out,
                "| {} | {clients} | {} [{}–{}] | {} | {:.1} |",
                PEERS[peer].name,
                thousands(all.median),
                thousands(all.low),
                thousands(all.high),
                parts.join(" | "),
                cpu.median
            );
        }
        out
    }

    fn mix_summaries(&self) -> Vec<MixSummary> {
        let mut rows = Vec::new();
        for (&(peer, clients), mixes) in &self.mixes {
            for operation in [Operation::Write, Operation::Read, Operation::Scan] {
                let of = |figure: fn(&Part, f64) -> f64| Self::mixed(mixes, operation, figure);
                let row = || {
                    Some(MixSummary {
                        peer: PEERS[peer].name,
                        clients,
                        operation,
                        per_s: of(|p, seconds| p.count as f64 / seconds)?,
                        p50_us: of(|p, _| p.p50_us)?,
                        p99_us: of(|p, _| p.p99_us)?,
                        p999_us: of(|p, _| p.p999_us)?,
                        max_us: of(|p, _| p.max_us)?,
                    })
                };
                rows.extend(row());
            }
        }
        rows
    }

    fn tables(&self) -> String {
        if self.phases.is_empty() && !self.mixes.is_empty() {
            return self.mix_table();
        }
        let mut out = String::new();
        let floor = number_of("floor").unwrap_or(0);
        for (name, deliver) in [("Receive", false), ("Deliver", true)] {
            let title = format!(
                "**{name}: durable transactions/s** — median [95 % interval] · share of the floor of the same block"
            );
            self.table(&mut out, &title, deliver, |key| {
                let rate = self.of(key, rate)?;
                let share = self.ratio(key, (floor, key.1, key.2, key.3))?;
                Some(format!(
                    "{} [{}–{}] · {:.2}",
                    thousands(rate.median),
                    thousands(rate.low),
                    thousands(rate.high),
                    share.median
                ))
            });
        }
        for (name, deliver) in [("Receive", false), ("Deliver", true)] {
            let title = format!("**{name}: latency, p50 / p99 / p99.9, ms**");
            self.table(&mut out, &title, deliver, |key| {
                let ms = |us: Estimate| us.median / 1000.0;
                let (p50, p99) = (self.of(key, |p| p.p50_us)?, self.of(key, |p| p.p99_us)?);
                let p999 = self.of(key, |p| p.p999_us)?;
                Some(format!("{:.2} / {:.2} / {:.2}", ms(p50), ms(p99), ms(p999)))
            });
        }
        for (name, deliver) in [("Receive", false), ("Deliver", true)] {
            let title = format!("**{name}: log bytes / disk bytes / processor µs, for one transaction**");
            self.table(&mut out, &title, deliver, |key| {
                Some(format!(
                    "{:.0} / {} / {:.1}",
                    self.of(key, |p| p.log_bytes)?.median,
                    self.disk_bytes(key).map_or_else(|| "?".into(), |bytes| format!("{:.0}", bytes.median)),
                    self.of(key, |p| p.cpu_us)?.median
                ))
            });
        }
        if let Some(mmdb) = number_of("mmdb") {
            let title = "**mmdb's rate over each peer's, same mode, receive · deliver**";
            self.table(&mut out, title, false, |key| {
                let ratio = |deliver| {
                    let ratio = self.ratio((mmdb, key.1, key.2, deliver), (key.0, key.1, key.2, deliver))?;
                    Some(format!("{:.2} [{:.2}–{:.2}]", ratio.median, ratio.low, ratio.high))
                };
                Some(format!("{} · {}", ratio(false)?, ratio(true)?))
            });
        }
        if !self.recoveries.is_empty() {
            let _ =
                writeln!(out, "\n**Recovery after a kill** (page cache warm; records are rows of the log)\n");
            let _ = writeln!(out, "| peer | records | open, s | million records/s |\n|---|---:|---:|---:|");
            for (&peer, runs) in &self.recoveries {
                let figure =
                    |f: &dyn Fn(&(f64, f64)) -> f64| estimate(&runs.iter().map(f).collect::<Vec<_>>());
                let (Some(seconds), Some(records), Some(rate)) =
                    (figure(&|r| r.0), figure(&|r| r.1), figure(&|r| r.1 / r.0 / 1e6))
                else {
                    continue;
                };
                let _ = writeln!(
                    out,
                    "| {} | {} | {:.3} [{:.3}–{:.3}] | {} |",
                    PEERS[peer].name,
                    thousands(records.median),
                    seconds.median,
                    seconds.low,
                    seconds.high,
                    // Nothing is replayed by a store that opens at once: its "rate" would say
                    // nothing.
                    if seconds.median < 0.002 {
                        "–".to_owned()
                    } else {
                        format!("{:.2} [{:.2}–{:.2}]", rate.median, rate.low, rate.high)
                    }
                );
            }
        }
        out
    }

    fn summaries(&self) -> Vec<Summary> {
        let floor = number_of("floor").unwrap_or(0);
        self.phases
            .keys()
            .filter_map(|&key| {
                Some(Summary {
                    peer: PEERS[key.0].name,
                    mode: key.1,
                    clients: key.2,
                    transaction: if key.3 { Transaction::Deliver } else { Transaction::Receive },
                    per_s: self.of(key, rate)?,
                    share_of_floor: self.ratio(key, (floor, key.1, key.2, key.3)),
                    p50_us: self.of(key, |p| p.p50_us)?,
                    p99_us: self.of(key, |p| p.p99_us)?,
                    p999_us: self.of(key, |p| p.p999_us)?,
                    log_bytes: self.of(key, |p| p.log_bytes)?,
                    disk_bytes: self.disk_bytes(key),
                    cpu_us: self.of(key, |p| p.cpu_us)?,
                })
            })
            .collect()
    }
}

/// `12,345`.
fn thousands(x: f64) -> String {
    let digits = format!("{x:.0}");
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Where it ran: what a reader must know to place the figures.
fn machine() -> String {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cpu = read("/proc/cpuinfo");
    let model = cpu.lines().find_map(|l| l.strip_prefix("model name")?.split_once(": ").map(|p| p.1));
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    format!("{} x {cores}, Linux {}", model.unwrap_or("processor"), read("/proc/sys/kernel/osrelease").trim())
}

/// Prints the tables of a `cells.jsonl`.
pub fn print_file(path: &Path) -> Result<()> {
    print!("{}", Data::new(&read(path)?).tables());
    Ok(())
}

/// Prints the tables, and writes them and their figures beside the cells.
pub fn write_all(cells: &Path, out: &Path) -> Result<()> {
    let lines = read(cells)?;
    let data = Data::new(&lines);
    let blocks = lines.iter().map(|line| line.block).max().unwrap_or(0);
    let text = format!("{}; {blocks} block(s).\n{}", machine(), data.tables());
    print!("{text}");
    fs::write(out.join("table.md"), &text)?;
    let (rows, mix) = (data.summaries(), data.mix_summaries());
    let summary = serde_json::json!({ "machine": machine(), "blocks": blocks, "rows": rows, "mix": mix });
    fs::write(out.join("summary.json"), serde_json::to_string_pretty(&summary)?)?;
    println!("\nWritten: {}/table.md, summary.json, cells.jsonl", out.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_holds_its_median_and_widens_with_the_spread() {
        let tight = estimate(&[10.0, 10.1, 9.9, 10.0, 10.05]).expect("values");
        let wide = estimate(&[10.0, 15.0, 5.0, 10.0, 12.0]).expect("values");
        assert_eq!(tight.median, 10.0);
        assert!(tight.low >= 9.9 && tight.high <= 10.1);
        assert!(wide.high - wide.low > tight.high - tight.low);
        assert_eq!(estimate(&[]), None);
    }

    #[test]
    fn thousands_are_grouped() {
        assert_eq!(thousands(1_234_567.0), "1,234,567");
        assert_eq!(thousands(12.0), "12");
    }
}
