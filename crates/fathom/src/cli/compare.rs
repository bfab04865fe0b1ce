//! The words of `fathom compare`.

use std::path::PathBuf;

use clap::Args;

use super::values::percent;

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
