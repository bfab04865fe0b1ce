//! What Fathom's harness costs: `mobibench-sql` against a bare C loop over the same SQLite, settings and file system.
//!
//! The C program (`bare_loop.c`, at most 60 lines) is compiled here and linked with the very library that this program
//! uses. Both run in fresh processes on fresh directories of the same file system; both insert the same number of
//! transactions of three rows of 100 random letters, as one text by `sqlite3_exec` or with prepared statements. A pair is
//! one run of each, in random order; the figure is the median over pairs of the ratio of transactions per second, with a
//! bootstrap interval of 95 % (percentile method, 4000 resamples of whole pairs). The bar is 0.98, for durable commits.
//!
//! `cargo bench -p fathom-workload --bench harness_cost [-- PAIRS [DIRECTORY]]`: exit code 1 if a ratio is below the bar.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{SystemTime, UNIX_EPOCH};

use fathom_workload::random::Random;
use fathom_workload::sample::{IoRow, PhaseSummary, Sample, Sink};
use fathom_workload::spec::{EngineSpec, WorkloadSpec};
use fathom_workload::workload::Context;
use serde_json::json;

const BAR: f64 = 0.98;
const PAIRS: usize = 25;

/// Settings, kind of statements, transactions of a run (some 100 to 250 ms), and whether the bar holds. It is set for work
/// that waits for the device at every commit, as Mobibench's does. Where nothing waits, a transaction takes some 25 µs, and
/// measuring it (two readings of the thread's CPU clock, two of the wall clock around every VFS call) shows: the last
/// column says by how much.
const CASES: &[(&str, &str, &str, u32, bool)] = &[
    ("delete", "full", "text", 300, true),
    ("delete", "full", "prepared", 300, true),
    ("wal", "full", "text", 1000, true),
    ("wal", "full", "prepared", 1000, true),
    ("wal", "normal", "text", 4000, false),
    ("wal", "normal", "prepared", 4000, false),
];

/// Why a measurement could not be made.
type Failure = Box<dyn std::error::Error>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let result = match arguments.first().map(String::as_str) {
        Some("worker") => worker(&arguments[1..]).map(|()| true),
        // `cargo test --benches` runs benchmarks too: nothing to test.
        Some("--test") => Ok(true),
        _ => compare(&arguments),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("harness_cost: {error}");
            ExitCode::FAILURE
        }
    }
}

fn compare(arguments: &[String]) -> Result<bool, Failure> {
    let pairs = arguments.first().map_or(Ok(PAIRS), |pairs| pairs.parse())?;
    let directory = arguments.get(1).map_or(PathBuf::from(env!("CARGO_TARGET_TMPDIR")), PathBuf::from);
    let bare = compile_bare_loop(&directory)?;
    let seed = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let mut random = Random::new(seed);
    println!(
        "mobibench-sql insert against a bare C loop over the same SQLite; {pairs} pairs, seed {seed}, in {}",
        directory.display()
    );
    let heads = ["settings", "bare tx/s", "fathom tx/s", "fathom / bare [95 %]", "µs per tx"];
    println!("{:<22}{:>12}{:>14}{:>26}{:>12}", heads[0], heads[1], heads[2], heads[3], heads[4]);
    let mut all_above = true;
    for &(journal_mode, synchronous, statements, transactions, durable) in CASES {
        let transactions_text = transactions.to_string();
        let settings = [journal_mode, synchronous, &transactions_text, statements];
        let one = |fathom: bool| -> Result<f64, Failure> {
            let scratch = Scratch::new(&directory)?;
            let mut command = if fathom {
                let mut command = Command::new(std::env::current_exe()?);
                command.arg("worker").arg(&scratch.0);
                command
            } else {
                let mut command = Command::new(&bare);
                command.arg(scratch.0.join("bare.db"));
                command
            };
            let output = command.args(settings).output()?;
            if !output.status.success() {
                return Err(String::from_utf8_lossy(&output.stderr).into());
            }
            let ns: f64 = String::from_utf8_lossy(&output.stdout).trim().parse()?;
            Ok(f64::from(transactions) / (ns * 1e-9))
        };
        let (mut bare_rates, mut fathom_rates, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        one(true)?; // both programs into the page cache
        one(false)?;
        for _ in 0..pairs {
            let fathom_first = random.below(2) == 0;
            let first = one(fathom_first)?;
            let second = one(!fathom_first)?;
            let (fathom, bare) = if fathom_first { (first, second) } else { (second, first) };
            bare_rates.push(bare);
            fathom_rates.push(fathom);
            ratios.push(fathom / bare);
        }
        let [low, high] = interval(&ratios, &mut random);
        let ratio = median(&ratios);
        let below = durable && ratio < BAR;
        all_above &= !below;
        let verdict = match (durable, below) {
            (true, false) => "at least 0.98",
            (true, true) => "BELOW 0.98",
            (false, _) => "",
        };
        let extra: Vec<f64> =
            bare_rates.iter().zip(&fathom_rates).map(|(bare, fathom)| 1e6 / fathom - 1e6 / bare).collect();
        let name = format!("{journal_mode} {synchronous} {statements}");
        let figure = format!("{ratio:.3} [{low:.3}, {high:.3}]");
        let (bare, fathom, extra) = (median(&bare_rates), median(&fathom_rates), median(&extra));
        println!("{name:<22}{bare:>12.0}{fathom:>14.0}{figure:>26}{extra:>12.1}   {verdict}");
    }
    Ok(all_above)
}

/// Compiles `bare_loop.c` with the bundled SQLite's static library.
fn compile_bare_loop(directory: &Path) -> Result<PathBuf, Failure> {
    let (library, include) = (env!("FATHOM_SQLITE_LIBRARY"), env!("FATHOM_SQLITE_INCLUDE"));
    let program = directory.join("bare_loop");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/bare_loop.c");
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let status = Command::new(&compiler)
        .args(["-O2", "-Wall", "-Werror", "-I", include, "-o"])
        .arg(&program)
        .arg(source)
        .arg(Path::new(library).join("libsqlite3.a"))
        .args(["-lpthread", "-ldl", "-lm"])
        .status()
        .map_err(|error| format!("{compiler} did not start: {error}; `apt-get install gcc` brings it"))?;
    if status.success() { Ok(program) } else { Err(format!("{compiler} failed: {status}").into()) }
}

/// A fresh directory, removed again.
struct Scratch(PathBuf);

impl Scratch {
    fn new(parent: &Path) -> std::io::Result<Self> {
        let path = parent.join(format!("harness-cost-{}", std::process::id()));
        std::fs::create_dir(&path)?;
        Ok(Scratch(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            eprintln!("harness_cost: {} is left: {error}", self.0.display());
        }
    }
}

/// One run of the workload, as the lab's worker runs it; prints its wall time in ns.
fn worker(arguments: &[String]) -> Result<(), Failure> {
    let [directory, journal_mode, synchronous, transactions, statements] = arguments else {
        return Err("worker DIRECTORY JOURNAL_MODE SYNCHRONOUS TRANSACTIONS STATEMENTS".into());
    };
    let directory = Path::new(directory);
    let settings = BTreeMap::from([
        ("journal_mode".into(), json!(journal_mode)),
        ("synchronous".into(), json!(synchronous)),
    ]);
    let engine = fathom_workload::start_engine(&EngineSpec { name: "sqlite".into(), settings }, directory)?;
    let params = BTreeMap::from([
        ("transactions".into(), json!(transactions.parse::<u32>()?)),
        ("statements".into(), json!(statements)),
        ("phases".into(), json!(["insert"])),
    ]);
    let workload = fathom_workload::create(&WorkloadSpec { name: "mobibench-sql".into(), params })?;
    let mut wall = Wall::default();
    workload.run(&Context { directory, engine: Some(engine.as_ref()), seed: 1 }, &mut wall)?;
    println!("{}", wall.0);
    Ok(())
}

/// Keeps the phase's wall time (ns).
#[derive(Default)]
struct Wall(u64);

impl Sink for Wall {
    fn sample(&mut self, _: Sample) {}
    fn phase(&mut self, summary: PhaseSummary) {
        self.0 = summary.wall_ns;
    }
    fn io(&mut self, _: IoRow) {}
    fn progress(&mut self, _: f64) {}
    fn warning(&mut self, text: String) {
        eprintln!("harness_cost: {text}");
    }
    fn verified(&mut self, _: String) {}
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => f64::NAN,
        length if length % 2 == 1 => sorted[middle],
        _ => (sorted[middle - 1] + sorted[middle]) / 2.0,
    }
}

/// The bootstrap interval of the median.
fn interval(values: &[f64], random: &mut Random) -> [f64; 2] {
    const RESAMPLES: usize = 4000;
    let mut medians: Vec<f64> = (0..RESAMPLES)
        .map(|_| median(&values.iter().map(|_| *random.pick(values)).collect::<Vec<_>>()))
        .collect();
    medians.sort_by(f64::total_cmp);
    [medians[RESAMPLES / 40], medians[RESAMPLES - 1 - RESAMPLES / 40]]
}
