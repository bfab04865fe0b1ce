//! The words of `fathom advise`.

use std::path::PathBuf;

use clap::Args;
use fathom_lab::remote::Target;
use fathom_workload::spec::Durability;

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
    /// Try WAL also where a connection has several files (ATTACH), and name it whatever `--must`
    /// says: a power cut may then leave a transaction over them in some of them and not in the
    /// others
    #[arg(long)]
    pub each_file: bool,
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
