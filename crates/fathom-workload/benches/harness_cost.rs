//! What Fathom's harness costs: `mobibench-sql` against a bare C loop over the same SQLite,
//! settings and file system.
//!
//! The C program (`bare_loop.c`, some 60 lines) is compiled here and linked with the very library
//! that this program uses. Both run in fresh processes on fresh directories of the same file
//! system, kept to the same CPU; both insert the same number of transactions of three rows of 100
//! random letters, as one text by `sqlite3_exec` or with prepared statements. A round is one run of
//! Fathom and two of the bare loop, in random order; the figure is the median over rounds of the
//! ratio of transactions per second (to the geometric mean of the two), with a bootstrap interval
//! of 95 % (percentile method, 4000 resamples of whole rounds). The two bare runs of a round give
//! the same ratio of the bare loop to itself: what lies within its interval is the disk's doing.
//! The bar is 0.98, for durable commits.
//!
//! Statements `replay`: workload `trace` on a trace of the same statements, against the bare loop
//! with values that were made before its clock runs, as a replay's are read before. Its bar is
//! 0.97.
//!
//! Statements `streamed`: the same with 1 MiB read ahead, so nearly all of the trace is read while
//! it is replayed.
//!
//! `cargo bench -p fathom-workload --bench harness_cost [-- ROUNDS [DIRECTORY [CASE]]]`, where CASE
//! is part of a case's name, such as `wal full`: exit code 1 if an interval lies below the bar.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{SystemTime, UNIX_EPOCH};

use fathom_random::Random;
use fathom_trace::model::{Action, Origin, Outcome, Start, Value};
use fathom_trace::{Assembler, Execution, Writer};
use fathom_workload::sample::{IoRow, PhaseSummary, Sample, Sink};
use fathom_workload::spec::{EngineSpec, WorkloadSpec};
use fathom_workload::workload::Context;
use serde_json::json;

const BAR: f64 = 0.98;
const ROUNDS: usize = 60;

/// Settings, kind of statements, transactions of a run (some 100 to 250 ms), and whether the bar
/// holds. It is set for work that waits for the device at every commit, as Mobibench's does. Where
/// nothing waits, a transaction takes some 25 µs, and measuring it (two readings of the thread's
/// CPU clock, two of the wall clock around every VFS call) shows: the last column says by how much.
const CASES: &[(&str, &str, &str, u32, bool)] = &[
    ("delete", "full", "text", 300, true),
    ("delete", "full", "prepared", 300, true),
    ("wal", "full", "text", 600, true),
    ("wal", "full", "prepared", 600, true),
    ("wal", "normal", "text", 4000, false),
    ("wal", "normal", "prepared", 4000, false),
    ("delete", "full", "replay", 300, true),
    ("wal", "full", "replay", 600, true),
    ("wal", "normal", "replay", 4000, false),
    ("wal", "full", "streamed", 3000, true),
    ("wal", "normal", "streamed", 40_000, false),
];

/// What is asked of a replay.
const REPLAY_BAR: f64 = 0.97;

/// The runs of a round; the number is the place of the rate.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Run {
    Fathom,
    Bare,
    BareAgain,
}

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

/// Keeps this process, and those it starts, to the last CPU it may use, as the lab keeps its
/// workers to theirs. Where the kernel is free to choose, it places a process that sleeps in a sync
/// on this CPU or that, by what ran there last: 600 transactions then differed by 8 % between two
/// programs that made the same system calls.
fn keep_to_one_cpu() -> Result<(), Failure> {
    let usable = rustix::thread::sched_getaffinity(None)?;
    let last = (0..rustix::thread::CpuSet::MAX_CPU).rfind(|&cpu| usable.is_set(cpu)).unwrap_or(0);
    let mut one = rustix::thread::CpuSet::new();
    one.set(last);
    Ok(rustix::thread::sched_setaffinity(None, &one)?)
}

fn compare(arguments: &[String]) -> Result<bool, Failure> {
    keep_to_one_cpu()?;
    let rounds_wanted: usize = arguments.first().map_or(Ok(ROUNDS), |rounds| rounds.parse())?;
    let directory = arguments.get(1).map_or(PathBuf::from(env!("CARGO_TARGET_TMPDIR")), PathBuf::from);
    let bare = compile_bare_loop(&directory)?;
    let seed = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let mut random = Random::new(seed);
    println!(
        "mobibench-sql insert, and its replay, against a bare C loop over the same SQLite; {rounds_wanted} rounds, seed {seed}, in {}",
        directory.display()
    );
    println!(
        "{:<22}{:>12}{:>14}{:>26}{:>26}{:>12}",
        "settings", "bare tx/s", "fathom tx/s", "fathom / bare [95 %]", "bare / bare [95 %]", "µs per tx"
    );
    let mut all_above = true;
    for &(journal_mode, synchronous, statements, transactions, durable) in CASES {
        let name = format!("{journal_mode} {synchronous} {statements}");
        if arguments.get(2).is_some_and(|part| !name.contains(part.as_str())) {
            continue;
        }
        let transactions_text = transactions.to_string();
        let settings = [journal_mode, synchronous, &transactions_text, statements];
        // A replay's statements were prepared, and its values read, before.
        let is_replay = ["replay", "streamed"].contains(&statements);
        let bare_statements = if is_replay { "ready" } else { statements };
        let bar = if is_replay { REPLAY_BAR } else { BAR };
        let bare_settings = [journal_mode, synchronous, &transactions_text, bare_statements];
        // Not in the database's directory: on ext4 without a journal a sync of the directory writes
        // the block of the inode table that the directory is in, unless the sync of SQLite's
        // journal just before it wrote the same one. Two files more in the directory moved the
        // journal's inode into the next block in six runs of ten, and each of these transactions
        // took 37 us more.
        let beside = Scratch::new(&directory, "trace")?;
        let trace = if is_replay {
            write_trace(&beside.0, transactions, journal_mode == "wal")?
        } else {
            PathBuf::new()
        };
        let one = |fathom: bool| -> Result<f64, Failure> {
            let scratch = Scratch::new(&directory, "database")?;
            let mut command = if fathom {
                let mut command = Command::new(std::env::current_exe()?);
                command.arg("worker").arg(&scratch.0).arg(&trace);
                command
            } else {
                let mut command = Command::new(&bare);
                command.arg(scratch.0.join("bare.db"));
                command
            };
            let output = command.args(if fathom { settings } else { bare_settings }).output()?;
            if !output.status.success() {
                return Err(String::from_utf8_lossy(&output.stderr).into());
            }
            let ns: f64 = String::from_utf8_lossy(&output.stdout).trim().parse()?;
            Ok(f64::from(transactions) / (ns * 1e-9))
        };
        let mut rounds = Vec::new();
        one(true)?; // both programs into the page cache
        one(false)?;
        for _ in 0..rounds_wanted {
            let mut rates = [0.0; 3];
            let mut order = [Run::Fathom, Run::Bare, Run::BareAgain];
            random.shuffle(&mut order);
            for run in order {
                rates[run as usize] = one(run == Run::Fathom)?;
            }
            rounds.push(rates);
        }
        let of = |value: fn(&[f64; 3]) -> f64| rounds.iter().map(value).collect::<Vec<f64>>();
        let ratios = of(|&[fathom, bare, again]| fathom / (bare * again).sqrt());
        let control = of(|&[_, bare, again]| again / bare);
        let [low, high] = interval(&ratios, &mut random);
        let [control_low, control_high] = interval(&control, &mut random);
        let ratio = median(&ratios);
        let verdict = match durable {
            true if ratio >= bar => format!("at least {bar}"),
            true if high >= bar => "not decided".into(),
            true => format!("BELOW {bar}"),
            false => String::new(),
        };
        all_above &= !durable || high >= bar;
        let figure = format!("{ratio:.3} [{low:.3}, {high:.3}]");
        let control = format!("{:.3} [{control_low:.3}, {control_high:.3}]", median(&control));
        let (bare, fathom) = (median(&of(|rates| rates[1])), median(&of(|rates| rates[0])));
        let extra = median(&of(|&[fathom, bare, again]| 1e6 / fathom - 5e5 / bare - 5e5 / again));
        println!("{name:<22}{bare:>12.0}{fathom:>14.0}{figure:>26}{control:>26}{extra:>12.1}   {verdict}");
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
    fn new(parent: &Path, of: &str) -> std::io::Result<Self> {
        let path = parent.join(format!("harness-cost-{of}-{}", std::process::id()));
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
    let [directory, trace, journal_mode, synchronous, transactions, statements] = arguments else {
        return Err("worker DIRECTORY TRACE JOURNAL_MODE SYNCHRONOUS TRANSACTIONS STATEMENTS".into());
    };
    let directory = Path::new(directory);
    let settings = BTreeMap::from([
        ("journal_mode".into(), json!(journal_mode)),
        ("synchronous".into(), json!(synchronous)),
    ]);
    let engine = fathom_workload::start_engine(&EngineSpec { name: "sqlite".into(), settings }, directory)?;
    let transactions: u32 = transactions.parse()?;
    let (name, params) = if ["replay", "streamed"].contains(&statements.as_str()) {
        let ahead = if statements == "replay" { 1024 } else { 1 };
        ("trace", BTreeMap::from([("file".into(), json!(trace)), ("ahead".into(), json!(ahead))]))
    } else {
        let params = [
            ("transactions".into(), json!(transactions)),
            ("statements".into(), json!(statements)),
            ("phases".into(), json!(["insert"])),
        ];
        ("mobibench-sql", BTreeMap::from(params))
    };
    let workload = fathom_workload::create(&WorkloadSpec { name: name.into(), params })?;
    let mut wall = Wall::default();
    workload.run(&Context { directory, engine: Some(engine.as_ref()), seed: 1 }, &mut wall)?;
    println!("{}", wall.0);
    Ok(())
}

/// A trace of what the bare loop does between its two readings of the clock.
fn write_trace(directory: &Path, transactions: u32, has_wal: bool) -> Result<PathBuf, Failure> {
    const TABLES: u32 = 3;
    let (path, script) = (directory.join("bare.trace"), directory.join("bare.sql"));
    let tables = (0..TABLES).map(|table| {
        format!("CREATE TABLE tblMyList{table} (id INTEGER PRIMARY KEY, Value TEXT not null, creation_date long);\n")
    });
    std::fs::write(&script, tables.collect::<String>())?;
    let file = std::fs::File::open(&script)?;
    let start = Start::Script { bytes: file.metadata()?.len() };
    let mut assembler = Assembler::new(Writer::create(&path)?, Origin::default())?;
    let thread = assembler.thread(1, 1, "bare_loop")?;
    let database = assembler.database(b"bare.db", start, Some((&script, file)))?;
    let connection = assembler.open(thread, database, 0)?;
    let mut execute = |sql: &str, values: &[Value], changes| {
        let counts = Some((0, changes));
        assembler
            .execute(connection, &Execution { sql, values, start_ns: 0, duration_ns: 0, keep: true, counts })
    };
    let mut random = Random::new(1);
    let letters: Vec<u8> = (b'A'..=b'Z').chain(b'a'..=b'z').chain(b'0'..=b'9').collect();
    for number in 0..i64::from(transactions) {
        execute("BEGIN", &[], 0)?;
        for table in 0..TABLES {
            let text = (0..100).map(|_| *random.pick(&letters)).collect();
            let values = [Value::Integer(number), Value::Text(text)];
            execute(&format!("INSERT INTO tblMyList{table}(id,Value) VALUES($1,$2)"), &values, 1)?;
        }
        execute("COMMIT", &[], 0)?;
    }
    if has_wal {
        let checkpoint = Action::Checkpoint { schema: String::new(), mode: 0, outcome: Outcome::of(0) };
        assembler.event(connection, 0, 0, checkpoint)?;
    }
    assembler.finish()?;
    Ok(path)
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
