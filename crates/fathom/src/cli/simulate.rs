//! The words of `fathom simulate`.

use std::path::PathBuf;

use clap::Args;

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
