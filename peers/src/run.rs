//! A run: blocks, and in each block every cell once, in an order of its own.

use crate::catalog::{Mode, PEERS};
use crate::cell::{self, CellSpec, Measurement, Reopened};
use crate::{report, server};
use anyhow::{Context, Result, bail, ensure};
use fathom_random::Random;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

const HELP: &str = "\
peers/run [OPTION…]     compares mmdb with its rivals; prints tables and writes OUT/cells.jsonl, summary.json, table.md
  --quick               a smoke run of about a minute: one block, 16 clients, short phases
  --only NAME,…         only these peers (the floor always runs)
  --blocks N            blocks; each runs every cell once, in random order (5)
  --clients N,…         numbers of clients (1,16,96)
  --mode NAME           only blocking or only asynchronous clients
  --seconds S           length of a phase (0.6)
  --mix S               a mix of transactions, reads and scans of S seconds in the place of both phases (blocking)
  --sustained           with checkpoints, flushes and compaction on: for runs of a minute, as `--mix 60 --sustained`
  --recovery-seconds S  length of the load before a timed recovery; 0 leaves recovery out (2)
  --in-flight N         transactions that all asynchronous clients together have under way (4096)
  --seed N              seed of the orders (1)
  --scratch DIR         where the stores live while they run; choose the disk with it (target/scratch)
  --out DIR             where results go (out)
  --continue            add blocks to the results that are in OUT already
peers/run table FILE    prints the tables of a cells.jsonl again
";

/// Either process of a cell takes this long at most.
const CELL_LIMIT: Duration = Duration::from_secs(240);

struct Options {
    only: Option<Vec<String>>,
    blocks: u64,
    clients: Vec<usize>,
    mode: Option<Mode>,
    seconds: f64,
    recovery_s: f64,
    mix_s: f64,
    sustained: bool,
    in_flight: usize,
    seed: u64,
    scratch: PathBuf,
    out: PathBuf,
    add: bool,
}

/// One line of `cells.jsonl`.
#[derive(Clone, Serialize, Deserialize, Debug)]
pub struct CellLine {
    /// Block, from 1.
    pub block: u64,
    /// Place in the order of its block, from 1.
    pub place: usize,
    /// True for a cell that was run for its recovery.
    pub recovery: bool,
    /// What was run.
    pub spec: CellSpec,
    /// What came of it.
    pub outcome: Outcome,
}

/// What came of a cell.
#[derive(Clone, Serialize, Deserialize, Debug)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It ran, and the reopened store held exactly the acknowledged rows.
    Done {
        /// Of the first process.
        measured: Measurement,
        /// Of the second process.
        reopened: Reopened,
    },
    /// It did not; why.
    Failed(String),
}

/// Runs as the options say.
pub fn run(arguments: &[&str]) -> Result<()> {
    let Some(options) = parse(arguments)? else {
        print!("{HELP}");
        return Ok(());
    };
    let cells = plan(&options)?;
    fs::create_dir_all(&options.out).with_context(|| options.out.display().to_string())?;
    let path = options.out.join("cells.jsonl");
    let mut done = 0;
    if options.add && path.exists() {
        done = report::read(&path)?.iter().map(|line| line.block).max().unwrap_or(0);
    }
    let mut file = fs::File::options()
        .create(true)
        .append(options.add)
        .truncate(!options.add)
        .write(true)
        .open(&path)
        .with_context(|| path.display().to_string())?;
    let scratch = Scratch::new(&options.scratch)?;
    let mut failures = 0;
    for block in done + 1..=done + options.blocks {
        let mut order = cells.clone();
        shuffle(&mut order, options.seed.wrapping_mul(1_000_003).wrapping_add(block));
        let total = order.len();
        for (place, (mut spec, recovery)) in order.into_iter().enumerate() {
            spec.dir = scratch.cell()?;
            let outcome = run_cell(&spec);
            let line = CellLine { block, place: place + 1, recovery, spec, outcome };
            progress(&line, total);
            failures += usize::from(matches!(line.outcome, Outcome::Failed(_)));
            serde_json::to_writer(&mut file, &line)?;
            file.write_all(b"\n")?;
        }
    }
    drop(file);
    report::write_all(&path, &options.out)?;
    ensure!(failures == 0, "{failures} cells failed; their reasons are above and in {}", path.display());
    Ok(())
}

fn parse(arguments: &[&str]) -> Result<Option<Options>> {
    let mut options = Options {
        only: None,
        blocks: 5,
        clients: vec![1, 16, 96],
        mode: None,
        seconds: 0.6,
        recovery_s: 2.0,
        mix_s: 0.0,
        sustained: false,
        in_flight: 4096,
        seed: 1,
        scratch: PathBuf::from("target/scratch"),
        out: PathBuf::from("out"),
        add: false,
    };
    let mut rest = arguments.iter();
    while let Some(&option) = rest.next() {
        let mut value = || rest.next().copied().with_context(|| format!("{option} needs a value"));
        match option {
            "--quick" => {
                (options.blocks, options.clients, options.seconds, options.recovery_s) =
                    (1, vec![16], 0.3, 0.5);
            }
            "--only" => options.only = Some(value()?.split(',').map(str::to_owned).collect()),
            "--blocks" => options.blocks = value()?.parse().context("--blocks")?,
            "--clients" => {
                options.clients =
                    value()?.split(',').map(str::parse).collect::<Result<_, _>>().context("--clients")?;
                let limits = 1..=crate::message::STATIONS as usize / 1000;
                ensure!(options.clients.iter().all(|c| limits.contains(c)), "--clients takes {limits:?}");
            }
            "--mode" => {
                options.mode = Some(match value()? {
                    "blocking" => Mode::Blocking,
                    "asynchronous" => Mode::Asynchronous,
                    other => bail!("--mode takes blocking or asynchronous, not {other}"),
                });
            }
            "--seconds" => options.seconds = value()?.parse().context("--seconds")?,
            "--recovery-seconds" => options.recovery_s = value()?.parse().context("--recovery-seconds")?,
            "--mix" => {
                options.mix_s = value()?.parse().context("--mix")?;
                ensure!(options.mix_s > 0.0, "--mix takes seconds");
            }
            "--sustained" => options.sustained = true,
            "--in-flight" => options.in_flight = value()?.parse().context("--in-flight")?,
            "--seed" => options.seed = value()?.parse().context("--seed")?,
            "--scratch" => options.scratch = value()?.into(),
            "--out" => options.out = value()?.into(),
            "--continue" => options.add = true,
            "--help" | "-h" => return Ok(None),
            other => bail!("no option {other}\n{HELP}"),
        }
    }
    ensure!(options.seconds > 0.0 && options.recovery_s >= 0.0, "a phase takes time");
    Ok(Some(options))
}

/// The cells of one block; with each, whether it is there for its recovery.
fn plan(options: &Options) -> Result<Vec<(CellSpec, bool)>> {
    let known: BTreeSet<&str> = PEERS.iter().map(|entry| entry.name).collect();
    let mixes = options.mix_s > 0.0;
    let wanted = |name: &str| {
        options.only.as_ref().is_none_or(|only| {
            (name == "floor" && !mixes)
                || only.iter().any(|o| o == name || name.strip_suffix("-batched") == Some(o))
        })
    };
    for name in options.only.iter().flatten() {
        ensure!(known.contains(name.as_str()), "no peer is called {name}; there are: {known:?}");
    }
    let mut cells = Vec::new();
    for entry in PEERS.iter().filter(|entry| wanted(entry.name) && (entry.reads || !mixes)) {
        if let Some(program) = entry.needs.filter(|program| server::find(program).is_none()) {
            eprintln!("left out: {} ({program} is not installed)", entry.name);
            continue;
        }
        let spec = |mode, clients: usize, receive_s, deliver_s| CellSpec {
            peer: entry.name.to_owned(),
            mode,
            clients,
            window: if mode == Mode::Asynchronous { (options.in_flight / clients).max(1) } else { 1 },
            receive_s,
            deliver_s,
            mix_s: options.mix_s,
            sustained: options.sustained,
            dir: PathBuf::new(),
        };
        let is_wanted =
            |mode: Mode| options.mode.is_none_or(|only| only == mode) && (mode == Mode::Blocking || !mixes);
        for &mode in entry.modes.iter().filter(|mode| is_wanted(**mode)) {
            for &clients in &options.clients {
                cells.push((spec(mode, clients, options.seconds, options.seconds), false));
            }
        }
        // Recovery is measured on what the peer's fastest mode has written.
        let batched_too = PEERS.iter().any(|other| other.name.strip_suffix("-batched") == Some(entry.name));
        let fastest = entry.modes.contains(&Mode::Asynchronous) && (!batched_too || entry.needs.is_some());
        if options.recovery_s > 0.0
            && !mixes
            && fastest
            && entry.name != "floor"
            && entry.name != "postgres-batched"
        {
            cells.push((spec(Mode::Asynchronous, 16, options.recovery_s, 0.0), true));
        }
    }
    Ok(cells)
}

/// Both processes of a cell, and the comparison of what was acknowledged with what is there.
fn run_cell(spec: &CellSpec) -> Outcome {
    let both = || -> Result<Outcome> {
        let measured: Measurement = child("measure", spec)?;
        let reopened: Reopened = child("reopen", spec)?;
        cell::check(&reopened.digest, &measured)?;
        Ok(Outcome::Done { measured, reopened })
    };
    both().unwrap_or_else(|error| Outcome::Failed(format!("{error:#}")))
}

/// Runs this program as `verb` for the cell and reads its report.
fn child<T: for<'de> Deserialize<'de>>(verb: &str, spec: &CellSpec) -> Result<T> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(verb).arg(serde_json::to_string(spec)?).stdin(Stdio::null()).stdout(Stdio::piped());
    server::die_with_parent(&mut command, libc::SIGKILL);
    let mut child = command.spawn().context("starting the process of a cell")?;
    let mut stdout = child.stdout.take().context("the child's output")?;
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut text = String::new();
        let read = stdout.read_to_string(&mut text).map(|_| text);
        // If nobody listens any more, the limit has passed and the child is killed already.
        let _ = sender.send(read);
    });
    let Ok(text) = receiver.recv_timeout(CELL_LIMIT) else {
        child.kill()?;
        child.wait()?;
        bail!("{verb}: not finished after {} s", CELL_LIMIT.as_secs());
    };
    let status = child.wait()?;
    let text = text?;
    ensure!(!text.trim().is_empty(), "{verb}: no report ({status}); see its message above");
    serde_json::from_str(text.trim()).with_context(|| format!("{verb}: reading the report"))
}

fn progress(line: &CellLine, total: usize) {
    let CellLine { block, place, spec, .. } = line;
    let what = format!("block {block} {place}/{total}  {} {:?} x{}", spec.peer, spec.mode, spec.clients);
    match &line.outcome {
        Outcome::Failed(why) => eprintln!("{what}: FAILED: {why}"),
        Outcome::Done { measured, reopened } => {
            let rates: Vec<String> =
                measured.phases.iter().map(|p| format!("{:.0}/s", p.count as f64 / p.seconds)).collect();
            let rates = measured.mix.as_ref().map_or(rates, |mix| vec![format!("{:.0}/s", mix.rate())]);
            eprintln!("{what}: {}, reopened in {:.3} s", rates.join(" "), reopened.recovery_s);
        }
    }
}

/// Fisher-Yates.
fn shuffle<T>(items: &mut [T], seed: u64) {
    let mut random = Random::new(seed);
    for i in (1..items.len()).rev() {
        items.swap(i, (random.bits() % (i as u64 + 1)) as usize);
    }
}

/// The directory where stores live while they run; empty again afterwards.
struct Scratch(PathBuf);

impl Scratch {
    fn new(base: &Path) -> Result<Scratch> {
        fs::create_dir_all(base).with_context(|| base.display().to_string())?;
        let base = fs::canonicalize(base)?;
        // What a killed run left behind.
        for old in fs::read_dir(&base)?.flatten() {
            let alive = Path::new("/proc").join(old.file_name()).exists();
            if !alive && old.file_name().to_string_lossy().parse::<u32>().is_ok() {
                fs::remove_dir_all(old.path()).with_context(|| old.path().display().to_string())?;
            }
        }
        Ok(Scratch(base.join(std::process::id().to_string())))
    }

    /// An empty directory for the next cell.
    fn cell(&self) -> Result<PathBuf> {
        if self.0.exists() {
            fs::remove_dir_all(&self.0).with_context(|| self.0.display().to_string())?;
        }
        fs::create_dir_all(&self.0)?;
        Ok(self.0.join("cell"))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // The next run removes it otherwise.
        let _ = fs::remove_dir_all(&self.0);
    }
}
