//! The words of `fathom doctor`.

use clap::Args;
use fathom_lab::remote::Target;

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
