//! The words of `fathom trace`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use fathom_lab::remote::Target;

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
                      Statements end with a semicolon, or with their line. Each is compiled, and those of .sql files and of\n\
                      expanded SQL are executed on a private database, so the trace tells their rows, changes and errors.\n\n\
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
    /// Make a shorter trace of one: its first transactions, or without what nobody but the
    /// application can do again
    #[command(
        after_help = "Examples:\n  fathom trace part app.trace --transactions 500 --out short.trace\n  \
                      fathom trace part app.trace --skip-own --out plain.trace"
    )]
    Part(TracePart),
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

/// `fathom trace part`
#[derive(Debug, Args)]
pub struct TracePart {
    /// A trace
    #[arg(value_name = "IN")]
    pub file: PathBuf,
    /// The part; replaced when it is there
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// Take the first N transactions that write, and what follows up to where none is open and no
    /// call overlaps
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub transactions: Option<u64>,
    /// Leave out and count queries that call functions which the application brought itself
    #[arg(long)]
    pub skip_own: bool,
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
