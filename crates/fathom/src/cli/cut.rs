//! The words of `fathom cut`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

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
    /// Leave out so many of these: with --replay all states of a recording are judged in pieces
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
    /// Sync the file system beside each run at seeded moments: what the kernel writes back of its
    /// own accord, of commits that are under way too, is cut as well
    #[arg(long)]
    pub write_back: bool,
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
    #[arg(long, value_name = "DIR", conflicts_with_all = ["set", "trace", "workload", "engine", "commits", "device", "keeps", "tear", "write_back", "size", "log", "mount", "mkfs", "guest", "seed", "dir"])]
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
