//! The words of `fathom anatomy`.

use std::path::PathBuf;

use clap::Args;

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
