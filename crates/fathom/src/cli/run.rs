//! The words of `fathom run`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use fathom_lab::experiment::REPEATS_MAX;
use fathom_lab::remote::Target;

use super::values::{duration, precision};

/// `fathom run`
#[derive(Debug, Args)]
pub struct Run {
    /// A built-in experiment (`fathom list`) or the path of an experiment file
    #[arg(value_name = "NAME|FILE.toml")]
    pub experiment: String,
    /// Fewer repeats and smaller data, as the experiment's quick table says: a look, not a result
    #[arg(long)]
    pub quick: bool,
    /// Runs of every cell
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(REPEATS_MAX)))]
    pub repeat: Option<u32>,
    /// Seed of the order of runs and of all data [default: the experiment's, or 1]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(..=i64::MAX as u64))]
    pub seed: Option<u64>,
    /// Change a key of the experiment, e.g. engine.page_size=8192; several values separated by
    /// commas make an axis
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Replay this instead of the experiment's workloads: a trace file, or a profile such as gmail,
    /// which makes one up (`fathom list profiles`); may be given several times
    #[arg(long, value_name = "FILE|PROFILE")]
    pub trace: Vec<String>,
    /// Run there: `ssh:[USER@]HOST[:/DIR]`, `adb:SERIAL[:/DIR]`, or local for this machine; several
    /// are compared
    #[arg(long, value_name = "MACHINE", value_delimiter = ',', value_parser = str::parse::<Target>)]
    pub on: Vec<Target>,
    /// Where databases and images are put: the disk under test [default: the output directory]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// The results file; the report is written beside it [default: fathom-out/NAME/results.db]
    #[arg(long, value_name = "RESULTS.db")]
    pub out: Option<PathBuf>,
    /// Go on with an interrupted run in the same results file
    #[arg(long)]
    pub resume: bool,
    /// Mount every file system in a guest kernel, also those of this machine's kernel
    /// (`fathom stack kernel`)
    #[arg(long)]
    pub guest: bool,
    /// Print the plan, what would be skipped and how long it takes, and run nothing
    #[arg(long)]
    pub plan: bool,
    /// Make more runs, until every value is known to within this: at least as many as the
    /// experiment asks for, at most --repeat [default: ten times as many]
    #[arg(long, value_name = "PERCENT", value_parser = precision)]
    pub until: Option<f64>,
    /// Begin no block of runs that would not be over within this time, e.g. 90s, 2m or 1h30m
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub budget: Option<Duration>,
    /// Compare SQLite libraries: their paths, or `bundled` for the one that is built in, with
    /// commas
    #[arg(long, value_name = "LIBRARY,LIBRARY", value_delimiter = ',')]
    pub sqlite: Vec<String>,
    /// A single run that takes longer than this many seconds, 30 days at most, has failed [default:
    /// the experiment's timeout_s]
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u64).range(1..=30 * 86_400))]
    pub time_limit: Option<u64>,
    /// No progress, no table: only warnings and the report's path
    #[arg(long, short)]
    pub quiet: bool,
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::Cli;

    /// What happened: a file's `repeats` took 10,000, and `--repeat` no more than 1,000.
    #[test]
    fn as_many_runs_may_be_asked_for_as_a_file_names() {
        let takes = |number: u32| {
            let number = number.to_string();
            Cli::try_parse_from(["fathom", "run", "first-look", "--repeat", number.as_str()]).is_ok()
        };
        assert!(takes(1) && takes(REPEATS_MAX));
        assert!(!takes(0) && !takes(REPEATS_MAX + 1));
    }
}
