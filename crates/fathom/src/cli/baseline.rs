//! The words of `fathom baseline`.

use std::path::PathBuf;

use clap::Args;

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
