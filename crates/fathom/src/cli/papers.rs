//! The words of `fathom papers`.

use std::path::PathBuf;

use clap::Args;

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
