//! The words of `fathom report`.

use std::path::PathBuf;

use clap::Args;

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
    #[arg(long, requires = "json", conflicts_with_all = ["csv", "blocks"])]
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
