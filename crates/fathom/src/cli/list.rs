//! The words of `fathom list`.

use clap::{Args, ValueEnum};

/// What `fathom list` lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Built-in experiments
    Experiments,
    /// Workloads with their parameters
    Workloads,
    /// Engines with their settings
    Engines,
    /// File systems that this machine can make
    Filesystems,
    /// Modelled devices: SD cards, eMMC, UFS, NVMe, a disk
    Devices,
    /// Applications whose traces can be made up, with sources and assumptions
    Profiles,
}

/// `fathom list`
#[derive(Debug, Args)]
pub struct List {
    /// Only this kind, in detail
    pub kind: Option<Kind>,
    /// Print the file of a built-in experiment, modelled device or profile, to read or to start
    /// your own from
    #[arg(long, value_name = "NAME", conflicts_with = "kind")]
    pub show: Option<String>,
    /// Print JSON
    #[arg(long, conflicts_with = "show")]
    pub json: bool,
}
