//! The words of the command line.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use fathom_lab::remote::Target;
use fathom_workload::spec::Durability;

/// Fathom, a performance laboratory for embedded and mobile databases.
///
/// Tells what an application's SQL does on any combination of engine, settings, file system and
/// device: how fast, where the time goes (CPU, read, write, fsync), and how sure the numbers are.
#[derive(Debug, Parser)]
#[command(
    name = "fathom",
    version,
    max_term_width = 110,
    after_help = "First time?  fathom run first-look      What can this machine do?  fathom doctor\n\
                  Settings for your own application?  fathom trace capture, then fathom advise\n\
                  Exit codes: 0 = all good, 1 = it ran and something failed, 2 = asked wrongly."
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// What this machine can run, and the command that brings the rest
    #[command(
        after_help = "Example:\n  fathom doctor\n  fathom doctor --json | jq '.[] | select(.present | not) | .remedy'"
    )]
    Doctor(Doctor),
    /// Experiments, workloads, engines and file systems
    #[command(
        after_help = "Examples:\n  fathom list\n  fathom list workloads\n  fathom list --show journal-modes > mine.toml"
    )]
    List(List),
    /// Which settings your application should use on the devices that it runs on: PRAGMAs to paste
    #[command(after_help = "Examples:\n  fathom advise app.trace --device sd-slow\n  \
                      fathom advise app.trace --device emmc-51,ufs-fresh --must keep=all --html advice.html\n  \
                      fathom advise gmail --fs ext4,xfs --device ./my-card.toml\n  \
                      fathom advise app.trace --device sd-slow --live --cut\n\n\
                      Devices: `fathom list devices`, or a model of your own card: `fathom stack calibrate`.\n\
                      A trace: `fathom trace capture --out app.trace -- ./app`.")]
    Advise(Advise),
    /// Run an experiment: a built-in one by name, or your own file
    #[command(after_help = "Examples:\n  fathom run first-look\n  fathom run journal-modes --quick\n  \
                      fathom run update-cost --set stack.filesystem=ext4,xfs --repeat 10\n  \
                      fathom run journal-modes --trace mine.trace --trace gmail\n  fathom run mine.toml --resume\n  \
                      fathom run first-look --until 5% --budget 10m\n  \
                      fathom run first-look --on local,ssh:pi@board:/mnt/card\n  \
                      fathom run first-look --sqlite /usr/lib/x86_64-linux-gnu/libsqlite3.so.0,bundled")]
    Run(Run),
    /// Tables, the HTML report, figures and exports of results
    #[command(after_help = "Examples:\n  fathom report fathom-out/first-look/results.db\n  \
                      fathom report results.db --html report.html\n  fathom report results.db --figure P4-T3 --svg table3.svg\n  \
                      fathom report results.db --csv > results.csv")]
    Report(Report),
    /// The page of the papers: each finding, the paper's number, ours and the verdict, printed from
    /// published data
    #[command(after_help = "Examples, in the repository:\n  fathom papers --out docs/papers.md\n  \
                      fathom papers --check docs/papers.md\n  \
                      fathom papers --list                               the data and the commands that measured them\n  \
                      fathom papers --with p4-cards=new.db             do the verdicts come out again?")]
    Papers(PapersArgs),
    /// What changed between two results, with intervals; ~ where nothing is proven
    #[command(after_help = "Examples:\n  fathom compare before/results.db after/results.db\n  \
                      fathom compare fathom-baseline.toml new.db --fail-if-slower 10%\n  \
                      fathom compare a.db b.db --fail-if-slower 5% --metric flushes,bytes --junit gate.xml\n\n\
                      As a gate it exits with 0 (fine), 1 (slower than allowed) or 2 (asked wrongly, or it cannot be told).")]
    Compare(Compare),
    /// One commit on a time line: its calls on files, what reached the device, and whose that was
    #[command(
        after_help = "Examples:\n  fathom run first-look --quick --repeat 1 --set variants=wal/full --set filesystem=ext4 \\\n    \
                      --set device=sd-sandisk-extreme --set instruments.operations=true --set instruments.blocks=true --out a.db\n  \
                      fathom anatomy a.db --svg commit.svg\n  \
                      fathom anatomy a.db --phase update --execution 7 --perfetto commit.json"
    )]
    Anatomy(Anatomy),
    /// A measurement as a text for your repository, which `fathom compare` takes in the place of
    /// A.db
    #[command(after_help = "Examples:\n  fathom baseline results.db --out fathom-baseline.toml\n  \
                            fathom compare fathom-baseline.toml new.db --fail-if-slower 10%")]
    Baseline(Baseline),
    /// An application on devices that you do not have: recorded runs, or a trace, replayed on
    /// models in virtual time
    #[command(after_help = "Examples:\n  fathom simulate app.trace\n  \
                      fathom simulate gmail --set journal_mode=wal --device sd-slow,ufs-fresh --html gmail.html\n  \
                      fathom run journal-modes --set filesystem=ext4 --set device=recorder --set instruments.operations=true --out r.db\n  \
                      fathom simulate r.db --csv")]
    Simulate(Simulate),
    /// What a power cut leaves of a database, by journal mode, synchronous setting and file system:
    /// tried, not promised (needs root)
    #[command(
        after_help = "Examples:\n  fathom cut                     first-look's eight settings on ext4, two minutes\n  \
                      fathom cut --set filesystem=ext4,xfs --set journal_mode=delete,wal --set synchronous=full,normal\n  \
                      fathom cut --trace app.trace --set journal_mode=delete,wal --set synchronous=full\n  \
                      fathom cut --set journal_mode=delete --record cuts\n  \
                      fathom cut --replay cuts --state 1/17 --image after-the-cut.img\n\n\
                      It exits with 1 where a power cut takes more than the settings promise, or not everything could be\n\
                      tried. Ctrl-C ends it as it ends any program (130), after what was found until then is shown."
    )]
    Cut(CutArgs),
    /// A file system of a chosen kind, mounted, for your own use (needs root or a guest kernel)
    #[command(
        after_help = "Examples:\n  fathom stack up --fs xfs --name lab\n  fathom stack list\n  fathom stack down lab\n  \
                      fathom stack down --leftovers  what a killed run left behind, and nothing else\n  \
                      fathom stack down --all        both that and every stack that is up"
    )]
    Stack(Stack),
    /// SQL traces of applications: capture, import, make up, look at, replay
    #[command(
        after_help = "Examples:\n  fathom trace capture --out app.trace -- ./app --its-own options\n  \
                      fathom trace info app.trace\n  fathom trace import logcat.txt --out phone.trace\n  \
                      fathom trace synthesise gmail --out gmail.trace"
    )]
    Trace(Trace),
    /// Completions for a shell, to standard output
    #[command(
        after_help = "Examples:\n  fathom completions bash > ~/.local/share/bash-completion/completions/fathom\n  \
                            fathom completions zsh > ~/.zfunc/_fathom      with fpath+=~/.zfunc before compinit\n  \
                            fathom completions fish > ~/.config/fish/completions/fathom.fish"
    )]
    Completions {
        /// For which
        #[arg(value_enum)]
        shell: clap_complete::Shell,
    },
    /// The manual page, or with --out a page for each command
    #[command(after_help = "Examples:\n  fathom man | man -l -\n  fathom man --out ~/.local/share/man/man1")]
    Man {
        /// A directory that is there: fathom.1, fathom-run.1 and so on are written into it
        #[arg(long, value_name = "DIR")]
        out: Option<PathBuf>,
    },
    /// Execute one cell: takes an order as JSON on stdin and writes one event per line (used by
    /// `fathom run`)
    #[command(hide = true)]
    Worker,
    /// Do what a `fathom run --on` asks over standard input and output (internal)
    #[command(hide = true)]
    Agent {
        /// The directory under test
        #[arg(long, value_name = "DIR")]
        dir: PathBuf,
    },
    /// Serve a modelled device (internal)
    #[command(hide = true)]
    DeviceServer,
    /// Hold a guest whose file system is mounted here (internal)
    #[command(hide = true)]
    GuestKeeper,
    /// Take a stack down when its owner has ended (internal)
    #[command(hide = true)]
    StackGuard {
        /// The stack's entry in the state directory
        home: PathBuf,
    },
    /// Be the first process of a guest kernel (internal)
    #[command(hide = true)]
    GuestAgent,
    /// Look at states of a power cut in a guest kernel (internal)
    #[command(hide = true)]
    CutGuest,
}

/// `fathom doctor`
#[derive(Debug, Args)]
pub struct Doctor {
    /// Of another machine: `ssh:[USER@]HOST` or adb:SERIAL
    #[arg(long, value_name = "MACHINE", value_parser = str::parse::<Target>)]
    pub on: Option<Target>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// What `fathom list` lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Built-in experiments
    Experiments,
    /// Workloads with their parameters
    Workloads,
    /// Engines with their settings
    Engines,
    /// File systems that this machine can make
    Filesystems,
    /// Modelled devices: SD cards, eMMC, UFS, NVMe, a disk
    Devices,
    /// Applications whose traces can be made up, with sources and assumptions
    Profiles,
}

/// `fathom list`
#[derive(Debug, Args)]
pub struct List {
    /// Only this kind, in detail
    pub kind: Option<Kind>,
    /// Print the file of a built-in experiment, modelled device or profile, to read or to start
    /// your own from
    #[arg(long, value_name = "NAME", conflicts_with = "kind")]
    pub show: Option<String>,
    /// Print JSON
    #[arg(long, conflicts_with = "show")]
    pub json: bool,
}

/// `fathom run`
#[derive(Debug, Args)]
pub struct Run {
    /// A built-in experiment (`fathom list`) or the path of an experiment file
    #[arg(value_name = "NAME|FILE.toml")]
    pub experiment: String,
    /// Fewer repeats and smaller data, as the experiment's quick table says: a look, not a result
    #[arg(long)]
    pub quick: bool,
    /// Runs of every cell
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeat: Option<u32>,
    /// Seed of the order of runs and of all data [default: the experiment's, or 1]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    pub seed: Option<u64>,
    /// Change a key of the experiment, e.g. engine.page_size=8192; several values separated by
    /// commas make an axis
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Replay this instead of the experiment's workloads: a trace file, or a profile such as gmail,
    /// which makes one up (`fathom list profiles`); may be given several times
    #[arg(long, value_name = "FILE|PROFILE")]
    pub trace: Vec<String>,
    /// Run there: `ssh:[USER@]HOST[:/DIR]`, `adb:SERIAL[:/DIR]`, or local for this machine; several
    /// are compared
    #[arg(long, value_name = "MACHINE", value_delimiter = ',', value_parser = str::parse::<Target>)]
    pub on: Vec<Target>,
    /// Where databases and images are put: the disk under test [default: the output directory]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// The results file; the report is written beside it [default: fathom-out/NAME/results.db]
    #[arg(long, value_name = "RESULTS.db")]
    pub out: Option<PathBuf>,
    /// Go on with an interrupted run in the same results file
    #[arg(long)]
    pub resume: bool,
    /// Mount every file system in a guest kernel, also those of this machine's kernel
    /// (`fathom stack kernel`)
    #[arg(long)]
    pub guest: bool,
    /// Print the plan, what would be skipped and how long it takes, and run nothing
    #[arg(long)]
    pub plan: bool,
    /// Make more runs, until every value is known to within this: at least as many as the
    /// experiment asks for, at most --repeat [default: ten times as many]
    #[arg(long, value_name = "PERCENT", value_parser = precision)]
    pub until: Option<f64>,
    /// Begin no block of runs that would not be over within this time, e.g. 90s, 2m or 1h30m
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub budget: Option<Duration>,
    /// Compare SQLite libraries: their paths, or `bundled` for the one that is built in, with
    /// commas
    #[arg(long, value_name = "LIBRARY,LIBRARY", value_delimiter = ',')]
    pub sqlite: Vec<String>,
    /// A single run that takes longer than this many seconds has failed [default: the experiment's
    /// timeout_s]
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..))]
    pub time_limit: Option<u64>,
    /// No progress, no table: only warnings and the report's path
    #[arg(long, short)]
    pub quiet: bool,
}

/// `fathom report`
#[derive(Debug, Args)]
pub struct Report {
    /// A results file that `fathom run` wrote
    #[arg(value_name = "RESULTS.db")]
    pub results: PathBuf,
    /// Write the HTML report (one file, works offline)
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print every cell and phase as CSV
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
    /// Print everything as JSON
    #[arg(long)]
    pub json: bool,
    /// With --json: every single execution as well
    #[arg(long, requires = "json")]
    pub samples: bool,
    /// Print what the block traces say of every cell and phase as CSV
    #[arg(long, conflicts_with_all = ["json", "csv"])]
    pub blocks: bool,
    /// Print every request of the block traces as CSV, with --json as JSON
    #[arg(long, conflicts_with_all = ["csv", "blocks", "samples"])]
    pub requests: bool,
    /// Write an excerpt: every run with its phases, without single executions, block traces and
    /// recordings; a few KiB to publish, which `fathom report` reads as it reads RESULTS.db
    #[arg(long, value_name = "FILE.db.zst")]
    pub excerpt: Option<PathBuf>,
    /// The figure to draw (without --svg: print its SVG)
    #[arg(long, value_name = "ID")]
    pub figure: Option<String>,
    /// Write the figure, or without --figure every figure into this directory, as SVG
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
}

/// `fathom papers`
#[derive(Debug, Args)]
pub struct PapersArgs {
    /// The page's sources: `page.md`, findings and data sets in `*.toml`
    #[arg(value_name = "DIR", default_value = "docs/papers")]
    pub source: PathBuf,
    /// Write the page, and its figures into `figures/` beside it, instead of printing the page
    #[arg(long, value_name = "FILE.md", conflicts_with_all = ["check", "list", "with"])]
    pub out: Option<PathBuf>,
    /// Say where this page, or a figure of it, is not what the data print (exit code 1)
    #[arg(long, value_name = "FILE.md", conflicts_with_all = ["list", "with"])]
    pub check: Option<PathBuf>,
    /// List the data sets with the commands that measured them
    #[arg(long, conflicts_with = "with")]
    pub list: bool,
    /// Judge with these new results in the place of a data set's, and say which verdicts change
    /// (exit code 1); may be given several times
    #[arg(long, value_name = "NAME=RESULTS.db")]
    pub with: Vec<String>,
}

/// `fathom compare`
#[derive(Debug, Args)]
pub struct Compare {
    /// The baseline: results, or what `fathom baseline` made of them
    #[arg(value_name = "A.db")]
    pub a: PathBuf,
    /// What is compared with it
    #[arg(value_name = "B.db")]
    pub b: PathBuf,
    /// Exit with 1 where B is slower than A by more than this, with 2 where that cannot be told
    #[arg(long, value_name = "PERCENT", value_parser = percent, allow_hyphen_values = true)]
    pub fail_if_slower: Option<f64>,
    /// Compare this (more of them with commas) [default: model,flushes,bytes where both are of a
    /// modelled device, else the rate or the time]
    #[arg(long, value_name = "WHAT", value_delimiter = ',', value_parser = ["model", "rate", "time", "flushes", "bytes"])]
    pub metric: Vec<String>,
    /// Compare this phase only
    #[arg(long)]
    pub phase: Option<String>,
    /// Compare this cell only, by its label or as tables call it
    #[arg(long, value_name = "LABEL")]
    pub cell: Option<String>,
    /// Print JSON
    #[arg(long, conflicts_with = "markdown")]
    pub json: bool,
    /// Print Markdown, for a comment of a pull request
    #[arg(long)]
    pub markdown: bool,
    /// Write the comparison as a page, too: a picture of every ratio with its interval, and the
    /// table (one file, works offline)
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write the gate's verdicts as a JUnit test suite, too
    #[arg(long, value_name = "FILE", requires = "fail_if_slower")]
    pub junit: Option<PathBuf>,
}

/// `10%` or `10`: a share that is allowed.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim_end();
    match number.parse::<f64>() {
        Ok(percent) if (0.0..=10_000.0).contains(&percent) => Ok(percent / 100.0),
        _ => Err("give percent from 0 to 10000, as 10% or 2.5".into()),
    }
}

/// `5%` or `5`: how narrow intervals are to be.
fn precision(text: &str) -> Result<f64, String> {
    match percent(text) {
        Ok(share) if (0.0001..=1.0).contains(&share) => Ok(share),
        _ => Err("give percent from 0.01 to 100, as 5% or 2.5".into()),
    }
}

/// `90s`, `2m`, `1h30m`; a number alone is seconds.
fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || "give a time such as 90s, 2m or 1h30m, a year at most".to_owned();
    let (mut rest, mut seconds) = (text.trim(), 0.0_f64);
    if rest.is_empty() {
        return Err(wrong());
    }
    while !rest.is_empty() {
        let end = rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(rest.len());
        let number: f64 = rest[..end].parse().map_err(|_| wrong())?;
        rest = rest[end..].trim_start();
        let letters = rest.find(|letter: char| !letter.is_ascii_alphabetic()).unwrap_or(rest.len());
        let unit = match &rest[..letters] {
            "" | "s" => 1.0,
            "m" | "min" => 60.0,
            "h" => 3600.0,
            _ => return Err(wrong()),
        };
        seconds += number * unit;
        rest = rest[letters..].trim_start();
    }
    match Duration::try_from_secs_f64(seconds) {
        Ok(time) if (1.0..=366.0 * 86_400.0).contains(&seconds) => Ok(time),
        _ => Err(wrong()),
    }
}

/// `fathom anatomy`
#[derive(Debug, Args)]
pub struct Anatomy {
    /// Results of runs with `instruments.operations=true`, and with `instruments.blocks=true` for
    /// the owners of blocks
    #[arg(value_name = "RESULTS.db")]
    pub results: PathBuf,
    /// Of this cell, by its label [default: the first that was recorded]
    #[arg(long, value_name = "LABEL")]
    pub cell: Option<String>,
    /// Of this phase [default: the first]
    #[arg(long)]
    pub phase: Option<String>,
    /// This execution, from 1 [default: the one of median time of those that
    /// flushed the device]
    #[arg(long, value_name = "N")]
    pub execution: Option<usize>,
    /// Write the picture
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Write trace events, which Perfetto opens (ui.perfetto.dev)
    #[arg(long, value_name = "FILE.json")]
    pub perfetto: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `fathom baseline`
#[derive(Debug, Args)]
pub struct Baseline {
    /// The measurement
    #[arg(value_name = "RESULTS.db")]
    pub results: PathBuf,
    /// Where it is written [default: to the terminal]
    #[arg(long, value_name = "FILE.toml")]
    pub out: Option<PathBuf>,
}

/// `fathom simulate`
#[derive(Debug, Args)]
pub struct Simulate {
    /// Results of runs with `instruments.operations=true`; or a trace, or a profile such as gmail,
    /// which are recorded first (needs root)
    #[arg(value_name = "RESULTS.db|TRACE|PROFILE")]
    pub input: PathBuf,
    /// A device, several with commas or by giving it again: a preset (`fathom list devices`) or a
    /// model's file [default: all presets]
    #[arg(long, value_name = "NAME|FILE.toml")]
    pub device: Vec<String>,
    /// Of a trace: the file system that it is recorded on, several with commas or by giving it
    /// again [default: ext4]
    #[arg(long, value_name = "FS")]
    pub fs: Vec<String>,
    /// Of a trace: a setting, e.g. journal_mode=wal; several values with commas make an axis
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Of a trace: runs that are recorded of every cell [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub repeat: Option<u32>,
    /// Of a trace: where the image is put that it is recorded on [default: where you are]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Of a trace: keep the recording, when it is complete, in this new file, to simulate from it
    /// again
    #[arg(long, value_name = "RESULTS.db")]
    pub out: Option<PathBuf>,
    /// Replay every run by its device alone, without CPU time, as one whose threads are not seen
    /// (of a guest) always is: to compare the two
    #[arg(long)]
    pub device_alone: bool,
    /// This phase only
    #[arg(long)]
    pub phase: Option<String>,
    /// This cell only, by its label
    #[arg(long, value_name = "LABEL")]
    pub cell: Option<String>,
    /// Print every cell, phase and device as CSV
    #[arg(long, conflicts_with = "json")]
    pub csv: bool,
    /// Print everything as JSON
    #[arg(long)]
    pub json: bool,
    /// Write the figure "your app on N devices" as SVG
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Write figure and table as one HTML page
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// What a device keeps at a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum KeepsArg {
    /// What it had answered before a flush that was done; of the rest any part
    Flushed,
    /// It lies about flushes: of all that it had answered any part
    Lying,
    /// All that it had answered (power-loss protection)
    Protected,
}

/// `fathom cut`
#[derive(Debug, Args)]
pub struct CutArgs {
    /// filesystem=NAME or a setting of SQLite's, e.g. journal_mode=wal; several values with commas
    /// make an axis [default: filesystem=ext4, and first-look's journal modes and synchronous
    /// settings]
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Cut what an application did instead: a trace file, or a profile such as gmail, which makes
    /// one up
    #[arg(long, value_name = "FILE|PROFILE", conflicts_with = "workload")]
    pub trace: Option<String>,
    /// Cut this workload instead (`fathom list workloads`); its parameters by --set
    /// workload.NAME=VALUE
    #[arg(long, value_name = "NAME")]
    pub workload: Option<String>,
    /// Whose data is cut: of SQLite, of PostgreSQL (its settings by --set), of mmdb, or of the SMS
    /// centre (--set store=mmdb|sqlite|sqlite-naive|postgresql)
    #[arg(long, value_name = "NAME", default_value = "sqlite", value_parser = ["sqlite", "postgresql", "mmdb", "smsc"])]
    pub engine: String,
    /// Commits of each run; of a trace or workload the first ones after its preparation
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=fathom_cut::COMMITS_MAX))]
    pub commits: u64,
    /// States that are judged of each run at most
    #[arg(long, value_name = "N", default_value_t = 2000, value_parser = clap::value_parser!(u64).range(1..))]
    pub states: u64,
    /// The first state that is judged: with --replay all states of a recording are judged in pieces
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub from: u64,
    /// Seconds for all runs together; 0: as long as it takes
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    pub time: u64,
    /// The modelled device that runs are made on: a preset (`fathom list devices`) or a model's
    /// file
    #[arg(long, value_name = "NAME|FILE.toml", default_value = "none")]
    pub device: String,
    /// What the device keeps [default: flushed; protected where its model is]
    #[arg(long, value_enum)]
    pub keeps: Option<KeepsArg>,
    /// Bytes that the device never tears: 512 or 4096 [default: as its model says]
    #[arg(long, value_name = "BYTES")]
    pub tear: Option<u32>,
    /// Size of the image in MiB [default: 64 (256 with PostgreSQL), or the file system's smallest]
    #[arg(long, value_name = "MIB")]
    pub size: Option<u64>,
    /// An external log device of this size in MiB (XFS logdev, ext4 journal device): states are
    /// those of both devices
    #[arg(long, value_name = "MIB")]
    pub log: Option<u64>,
    /// Mount options, e.g. data=journal
    #[arg(long, value_name = "OPTIONS")]
    pub mount: Option<String>,
    /// A further word for mkfs (may be given several times)
    #[arg(long, value_name = "WORD", allow_hyphen_values = true)]
    pub mkfs: Vec<String>,
    /// Mount in a guest kernel even where this machine's own has the file system
    #[arg(long)]
    pub guest: bool,
    /// Seed of the data and of the states: with the same recording and seed a number names a state
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Where the image is put that runs are made on [default: where you are]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Keep the recordings in this new directory, to look at states again; it goes again where none
    /// can be kept
    #[arg(long, value_name = "DIR", conflicts_with = "replay")]
    pub record: Option<PathBuf>,
    /// Judge kept recordings again: all states from --from on, or with --state one, which is
    /// explained
    #[arg(long, value_name = "DIR", conflicts_with_all = ["set", "trace", "workload", "engine", "commits", "device", "keeps", "tear", "size", "log", "mount", "mkfs", "guest", "seed", "dir"])]
    pub replay: Option<PathBuf>,
    /// Print one table in Markdown, settings by file systems, of files that --json has written
    #[arg(long, value_name = "FILE", num_args = 1.., exclusive = true)]
    pub table: Vec<PathBuf>,
    /// With --replay: which state, as the table names it
    #[arg(long, value_name = "CELL/STATE", conflicts_with_all = ["from", "states", "time"])]
    pub state: Option<String>,
    /// With --replay: write the state's image into this new file, as it was before anything was
    /// mounted; that of an external log into FILE.log
    #[arg(long, value_name = "FILE")]
    pub image: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `fathom advise`
#[derive(Clone, Debug, Args)]
pub struct Advise {
    /// The application's trace, or a profile such as gmail (recorded here, which needs root); or
    /// what `--out` has kept
    #[arg(value_name = "TRACE|PROFILE|RESULTS.db")]
    pub input: PathBuf,
    /// A device that it runs on, several with commas or by giving it again: a preset (`fathom list
    /// devices`) or a model's file [default: all presets]
    #[arg(long, value_name = "NAME|FILE.toml")]
    pub device: Vec<String>,
    /// A file system that it may lie on, several with commas or by giving it again; of several the
    /// best is named [default: ext4]
    #[arg(long, value_name = "FS")]
    pub fs: Vec<String>,
    /// What a power cut must leave of what was committed: keep=all, keep=all-but-last or
    /// keep=prefix (`keep=` may be left out) [default: what the application's own settings promise]
    #[arg(long, value_name = "keep=WHAT", value_parser = must)]
    pub must: Option<Durability>,
    /// What the application has now, where the trace does not tell: journal_mode=wal,
    /// synchronous=normal and the like, with commas or given again [default: what the trace sets,
    /// else SQLite's defaults]
    #[arg(long, value_name = "SETTING=VALUE", value_delimiter = ',')]
    pub now: Vec<String>,
    /// Runs of each setting of the last round, and of --live [default: 3, and up to 20 while a
    /// minute is not over; of --live 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub repeat: Option<u32>,
    /// Run the best three of each --device live beside what the application has now, in paired
    /// blocks on the modelled device, and say where that disagrees with the simulation; how long it
    /// takes is said first
    #[arg(long)]
    pub live: bool,
    /// Explore what power cuts leave with the settings that are named, and with what the
    /// application has now (30 s each), and say that beside what they promise; exit code 1 where
    /// one of them takes more than they promise, or could not be tried
    #[arg(long, conflicts_with = "on")]
    pub cut: bool,
    /// Record or measure there: `ssh:[USER@]HOST[:/DIR]` or `adb:SERIAL[:/DIR]`
    #[arg(long, value_name = "MACHINE", conflicts_with = "dir", value_parser = str::parse::<Target>)]
    pub on: Option<Target>,
    /// Where the image is put that it is recorded on [default: where you are]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Keep the last round's recordings, when they are complete, in this new file, to ask again of
    /// other devices
    #[arg(long, value_name = "RESULTS.db")]
    pub out: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Write the advice as one HTML page in the place of FILE, whatever it holds; in a directory it
    /// is named after the trace, and only an earlier report is replaced
    #[arg(long, value_name = "FILE|DIR")]
    pub html: Option<PathBuf>,
}

/// Words of `--must`, and what they mean.
const MUST: [(&str, Durability); 3] = [
    ("all", Durability::PowerCut),
    ("all-but-last", Durability::PowerCutAllButLast),
    ("prefix", Durability::PowerCutPrefix),
];

/// `keep=all`: what a power cut must leave.
fn must(text: &str) -> Result<Durability, String> {
    let word = text.strip_prefix("keep=").unwrap_or(text).trim();
    let found = MUST.iter().find(|pair| pair.0.eq_ignore_ascii_case(word));
    found.map(|pair| pair.1).ok_or_else(|| {
        "give keep=all (every commit), keep=all-but-last (all but at most the last) or keep=prefix (the last commits may go, \
         never the database)"
            .into()
    })
}

/// `fathom stack`
#[derive(Debug, Args)]
pub struct Stack {
    /// What to do with stacks.
    #[command(subcommand)]
    pub action: StackAction,
}

/// What `fathom stack up` brings up.
#[derive(Debug, Args)]
pub struct StackUp {
    /// File system: ext4, xfs, btrfs, ntfs … (`fathom list filesystems`) [default: ext4, or what
    /// --image holds]
    #[arg(long, value_name = "FS")]
    pub fs: Option<String>,
    /// Its name [default: the file system's]
    #[arg(long)]
    pub name: Option<String>,
    /// Size of the image in MiB
    #[arg(long, value_name = "MIB", default_value_t = 2048)]
    pub size: u64,
    /// An external log device of this size in MiB (XFS logdev, ext4 journal device)
    #[arg(long, value_name = "MIB")]
    pub log: Option<u64>,
    /// Mount options, e.g. data=journal
    #[arg(long, value_name = "OPTIONS")]
    pub mount: Option<String>,
    /// A further word for mkfs (may be given several times)
    #[arg(long, value_name = "WORD", allow_hyphen_values = true)]
    pub mkfs: Vec<String>,
    /// Where the image is put
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
    /// Begin with a copy of this image, e.g. of a card, instead of a file system that is made;
    /// nobody may have it mounted
    #[arg(long, value_name = "FILE", conflicts_with = "size")]
    pub image: Option<PathBuf>,
    /// Keep the image: in this new file, which stays when the stack is taken down or its processes
    /// are killed (not with --log)
    #[arg(long, value_name = "FILE")]
    pub keep: Option<PathBuf>,
    /// A modelled device under it, e.g. sd-sandisk-extreme (`fathom list devices`), or a model's
    /// file
    #[arg(long, value_name = "NAME|FILE.toml")]
    pub device: Option<String>,
    /// The modelled device of the external log (with --log and --device) [default: another one like
    /// --device]
    #[arg(long, value_name = "NAME|FILE.toml")]
    pub log_device: Option<String>,
    /// What fails on the modelled device of the file system (not of an external log), counted from
    /// the mount on: read-error, write-error, flush-error, lying-flush or gone, with @N from the
    /// Nth operation on and xN so many times, or full@KIB (may be given several times)
    #[arg(long, value_name = "FAULT")]
    pub fault: Vec<String>,
    /// Log every operation on the modelled device of the file system to this new file, and those on
    /// that of an external log to FILE.log (`fathom stack operations FILE` prints it)
    #[arg(long, value_name = "FILE")]
    pub operations: Option<PathBuf>,
    /// With --operations: keep the data of these writes as well, in FILE.data and FILE.log.data
    #[arg(long, requires = "operations")]
    pub capture: bool,
    /// Mount it in a guest kernel even where this machine's own has the file system
    #[arg(long)]
    pub guest: bool,
}

/// What `fathom stack age` does.
#[derive(Debug, Args)]
pub struct Age {
    /// The stack's name; its files stay, and its space goes
    pub name: String,
    /// How much of its space is used in the end, percent
    #[arg(long, value_name = "PERCENT", default_value_t = 80, value_parser = clap::value_parser!(u8).range(10..=95))]
    pub used: u8,
    /// How often it is filled and emptied
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: u32,
    /// Seed of the files' sizes and of which go
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Print what was made as JSON
    #[arg(long)]
    pub json: bool,
}

/// The actions of `fathom stack`.
#[derive(Debug, Subcommand)]
pub enum StackAction {
    /// Make an image, its file system and a mount, and print where
    Up(Box<StackUp>),
    /// Unmount and remove
    Down {
        /// The stack's name
        #[arg(required_unless_present_any = ["all", "leftovers"])]
        name: Option<String>,
        /// Every stack, and whatever a killed run left behind
        #[arg(long, conflicts_with = "name")]
        all: bool,
        /// Only what a killed run or command left behind; whatever is up stays, and what another
        /// state directory ($FATHOM_STATE_DIR) knows
        #[arg(long, conflicts_with_all = ["name", "all"])]
        leftovers: bool,
    },
    /// Build the guest kernel, for file systems that this machine's kernel lacks (once, some
    /// minutes; no root)
    #[command(
        after_help = "Examples:\n  fathom stack kernel\n  fathom stack kernel --source linux-6.12.117.tar.xz      a source of your own\n  \
                      fathom stack kernel --remove"
    )]
    Kernel {
        /// A kernel's source of your own, Linux 6.12: .tar.xz, or Debian's .deb of one [default:
        /// the pinned one, by apt-get]
        #[arg(long, value_name = "FILE")]
        source: Option<PathBuf>,
        /// Compilers at once [default: one for each CPU]
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1024))]
        jobs: Option<u64>,
        /// Remove it, and what a build that was stopped has left
        #[arg(long, conflicts_with_all = ["source", "jobs"])]
        remove: bool,
    },
    /// Age a stack's file system: fill it and delete files, round by round, until its free space is
    /// in pieces
    #[command(
        after_help = "Examples:\n  fathom stack up --fs ext4 --size 512 --keep aged.img --name old\n  fathom stack age old --used 80\n  \
                      fathom stack down old\n  fathom run aged-file-system --set variants=fresh,aged"
    )]
    Age(Age),
    /// Measure a card, disk or file system and write the model of it, for `--device` (past the page
    /// cache; a minute or two)
    #[command(
        after_help = "Examples:\n  fathom stack calibrate /mnt/card --out my-card.toml      in a file of its own, which goes again\n  \
                      fathom stack calibrate /dev/mmcblk0 --destroy --out my-card.toml      the card alone; overwrites what is on it\n  \
                      fathom stack up --fs ext4 --device ./my-card.toml"
    )]
    Calibrate(Calibrate),
    /// What the modelled devices under named stacks have done since they were made, mkfs included:
    /// operations, bytes, queue, latencies
    #[command(
        after_help = "Examples:\n  fathom stack status card\n  fathom stack status card --watch      a line a second, until Ctrl-C\n  \
                      fathom stack status --json"
    )]
    Status(Status),
    /// Print what reached a modelled device, one operation a line, from the file of
    /// `up --operations`
    #[command(
        after_help = "Columns: arrival_us, asked_us (when the model has it done) and given_us (when it was answered), us since the device began;\n\
                      operation (read, write, flush, discard, mark: a number that a program wrote to the file `mark` beside\n\
                      the device, in the column offset); offset and bytes; outcome (done, error, full, lied); sequential and stalled\n\
                      (the model paused), 0 or 1; data_at, where its data begins in FILE.data.\n\n\
                      Example:\n  fathom stack operations card.operations > card.csv"
    )]
    Operations {
        /// The log
        file: PathBuf,
        /// A line of JSON for each instead of CSV
        #[arg(long)]
        json: bool,
    },
    /// Print where a stack is mounted, for scripts
    #[command(after_help = "Example:\n  cd \"$(fathom stack path lab)\"")]
    Path {
        /// The stack's name
        name: String,
    },
    /// What is up
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// `fathom stack calibrate`
#[derive(Debug, Args)]
pub struct Calibrate {
    /// A directory on what is to be measured, or with --destroy a block device or a file; it must
    /// exist
    #[arg(value_name = "PATH")]
    pub path: PathBuf,
    /// The model; replaced when it is there [default: print it]
    #[arg(long, value_name = "FILE.toml")]
    pub out: Option<PathBuf>,
    /// How much of it is used, MiB: more than the device's own cache, and 16 at the least
    #[arg(long, value_name = "MIB", default_value_t = 256)]
    pub size: u64,
    /// Some seconds instead of a minute or two: fewer operations, coarser tails
    #[arg(long)]
    pub quick: bool,
    /// The model's name: small letters, digits and dashes
    #[arg(long, default_value = "measured")]
    pub name: String,
    /// Overwrite what is on the block device, or in the file
    #[arg(long)]
    pub destroy: bool,
}

/// `fathom stack status`
#[derive(Debug, Args)]
pub struct Status {
    /// The stack's name [default: all with a modelled device]
    pub name: Option<String>,
    /// Go on with what happens every so many seconds
    #[arg(long, value_name = "S", num_args = 0..=1, default_missing_value = "1", requires = "name")]
    pub watch: Option<f64>,
    /// With --watch: end after so many
    #[arg(long, value_name = "N", requires = "watch", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Print JSON, one object for each stack or moment
    #[arg(long)]
    pub json: bool,
}

/// `fathom trace`
#[derive(Debug, Args)]
pub struct Trace {
    /// What to do with traces.
    #[command(subcommand)]
    pub action: TraceAction,
}

/// The actions of `fathom trace`.
#[derive(Debug, Subcommand)]
pub enum TraceAction {
    /// Run a program and keep every call that it makes of the shared libsqlite3, in all of its
    /// processes and threads
    #[command(after_help = "Examples:\n  fathom trace capture --out feeds.trace -- newsboat -x reload\n  \
                      fathom trace capture --out py.trace -- python3 app.py\n\n\
                      A trace holds what the application's databases hold. `fathom trace anonymise` makes one to pass on.\n\
                      A program with an SQLite of its own loads $FATHOM_TRACE_EXTENSION: see docs/traces.md.")]
    Capture(TraceCapture),
    /// Make a trace of Android's SQLiteStatements log, of .sql files, or of a log of expanded SQL
    #[command(
        after_help = "Examples:\n  fathom trace import logcat.txt --out phone.trace --start mailstore.db\n  \
                      fathom trace import workload/ --out load.trace      load.sql, and one .sql file for each stream\n  \
                      fathom trace import app/ --order round-robin --out app.trace      loading.sql, benchset/0.sql, 1.sql …\n  \
                      fathom trace import sqlite-trace.log --format expanded --out app.trace\n\n\
                      Statements end with a semicolon, or with their line. Each is compiled, and those of .sql files are executed on a\n\
                      private database, so the trace tells their rows, changes and errors.\n\n\
                      Android:  adb shell setprop log.tag.SQLiteStatements VERBOSE;  restart the app;  adb logcat -v threadtime"
    )]
    Import(TraceImport),
    /// Make up a trace as an application might leave one: androbench, gmail, kakaotalk, facebook,
    /// browser, media-scan
    #[command(after_help = "Examples:\n  fathom trace synthesise gmail --out gmail.trace\n  \
                      fathom trace synthesise browser --seed 7 --scale 10 --out small.trace\n  \
                      fathom run journal-modes --trace gmail        no file needed\n\n\
                      The traces that the papers replayed were never published. These stand in for them: schemas, statements and\n\
                      transactions are made up from published descriptions, and `fathom list profiles` gives the sources of each\n\
                      and what is assumed. The same profile, seed and scale give the same file, byte by byte. A trace's durations\n\
                      are nominal; its rows and changes are those of SQLite, and a replay checks them.")]
    Synthesise(TraceSynthesise),
    /// What a trace does: statements, transactions, reads and writes, think times, bytes, tables
    #[command(
        after_help = "Example:\n  fathom trace info app.trace\n  fathom trace info app.trace --json | jq .transactions"
    )]
    Info(TraceInfo),
    /// Do again what a trace holds, on databases of its own, and check that it does the same
    #[command(after_help = "Examples:\n  fathom trace replay app.trace --dir /mnt/card\n  \
                      fathom trace replay app.trace --dir . --timing x10 --set journal_mode=wal\n\n\
                      In an experiment:  [workload] name = \"trace\", file = \"app.trace\"")]
    Replay(TraceReplay),
    /// Make a trace to pass on: nothing of its texts and blobs remains, plans and page counts stay
    #[command(after_help = "Example:\n  fathom trace anonymise app.trace --out public.trace\n\n\
                      Numbers, and the names of tables and columns, stay as they are.")]
    Anonymise(TraceAnonymise),
    /// Write the loadable extension that captures a program with an SQLite of its own
    #[command(after_help = "Example:\n  fathom trace extension ./libfathomtrace.so")]
    Extension {
        /// Where to; SQLite derives the entry point from the name libfathomtrace.so
        #[arg(value_name = "FILE.so")]
        file: PathBuf,
    },
}

/// `fathom trace capture`
#[derive(Debug, Args)]
pub struct TraceCapture {
    /// The trace; replaced when it is there
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// Where processes write while they run; about 50 bytes and the values of each call [default:
    /// beside the trace]
    #[arg(long, value_name = "DIR")]
    pub spool: Option<PathBuf>,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub command: Vec<std::ffi::OsString>,
}

/// What `fathom trace import` reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TraceFormat {
    /// logcat with the tags SQLiteStatements and SQLiteTime
    Android,
    /// A .sql file, or a folder of a loading script (load*.sql, schema*.sql …) and one file for
    /// each stream
    Sql,
    /// What callbacks of sqlite3_trace or sqlite3_expanded_sql wrote, with anything before each
    /// statement
    Expanded,
    /// PocketData's log (JSON objects, one a line, with SQL and times), or a workload of its
    /// benchmark (.json)
    #[value(name = "pocketdata")]
    PocketData,
    /// File calls as Mobibench's mobigen or strace wrote them; becomes a recording of file calls,
    /// which is no trace of SQL
    FileCalls,
    /// The directory that a capture which was killed left behind
    Spool,
}

/// `fathom trace import`
#[derive(Debug, Args)]
pub struct TraceImport {
    /// File or folder
    pub path: PathBuf,
    /// The trace; replaced when it is there
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// What it is [default: found out from its name and first lines]
    #[arg(long, value_enum)]
    pub format: Option<TraceFormat>,
    /// A database file as it was at the start, for the database of the same file name (may be given
    /// several times)
    #[arg(long, value_name = "DATABASE")]
    pub start: Vec<PathBuf>,
    /// Order in which the streams of a folder take their turns, by whole transactions [default:
    /// transaction]
    #[arg(long, value_enum, value_name = "ORDER")]
    pub order: Option<TraceOrder>,
    /// Seed of the order: the same seed gives the same trace [default: 1]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Leave out, list and count what does not compile, instead of refusing the input
    #[arg(long)]
    pub skip_bad: bool,
    /// Steps of SQLite's virtual machine after which a statement counts as one that does not
    /// compile [default: 1000000000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub max_steps: Option<u64>,
}

/// In which order streams take their turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TraceOrder {
    /// Each turn is drawn by the seed, in proportion to what is left of each stream
    Transaction,
    /// One turn each
    RoundRobin,
    /// One stream after the other
    Sequential,
}

/// `fathom trace synthesise`
#[derive(Debug, Args)]
pub struct TraceSynthesise {
    /// Which application (`fathom list profiles`)
    #[arg(value_name = "PROFILE")]
    pub profile: String,
    /// The same seed gives the same trace
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Rows at the start and activities, percent of the profile's: 1 to 10000
    #[arg(long, value_name = "P", default_value_t = 100)]
    pub scale: u32,
    /// The trace; replaced when it is there
    #[arg(long, short, value_name = "FILE")]
    pub out: PathBuf,
}

/// `fathom trace info`
#[derive(Debug, Args)]
pub struct TraceInfo {
    /// A trace
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// `fathom trace anonymise`
#[derive(Debug, Args)]
pub struct TraceAnonymise {
    /// A trace
    #[arg(value_name = "IN")]
    pub file: PathBuf,
    /// The anonymous trace; replaced when it is there
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// The same seed gives the same trace; who knows it and the original can tell which word became
    /// which [default: random]
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Replace whole numbers as well, in their order: ids name people. Those stay that something is
    /// calculated from, and those below 1000
    #[arg(long)]
    pub numbers: bool,
    /// Write it although statements return or change other rows than in the original, and tell
    /// which
    #[arg(long)]
    pub allow_differences: bool,
}

/// `fathom trace replay`
#[derive(Debug, Args)]
pub struct TraceReplay {
    /// A trace
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Directory on the disk under test; the databases are put into a directory of their own there,
    /// which is removed
    #[arg(
        long,
        value_name = "DIR",
        required_unless_present = "on",
        default_value = ".",
        hide_default_value = true
    )]
    pub dir: PathBuf,
    /// Replay there: `ssh:[USER@]HOST[:/DIR]` or `adb:SERIAL[:/DIR]`
    #[arg(long, value_name = "MACHINE", conflicts_with_all = ["dir", "keep"], value_parser = str::parse::<Target>)]
    pub on: Option<Target>,
    /// Do not remove the databases, to look at what they hold
    #[arg(long)]
    pub keep: bool,
    /// as-fast, original, or xN: N times faster than captured
    #[arg(long, default_value = "as-fast")]
    pub timing: String,
    /// A setting of the engine, e.g. journal_mode=wal (may be given several times;
    /// `fathom list engines`)
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
    /// Replay in this directory, which is there and stays: for the process that this command starts
    /// to do the work
    #[arg(long, hide = true, value_name = "DIR")]
    pub within: Option<PathBuf>,
}
