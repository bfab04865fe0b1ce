//! `smsc check`

use super::Wrong;
use super::store::StoreArgs;
use clap::Args;
use smsc::centre::recover;
use smsc::check::check;
use smsc::load::Clock;
use std::error::Error;
use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

/// Checks the invariants I1 to I7 over a store that nobody is using.
///
/// The store is opened, so it recovers first, and claims that died with their process are given back. Example:
///
///   smsc check --store mmdb /var/lib/smsc
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct Check {
    /// The store's directory.
    directory: PathBuf,
    #[command(flatten)]
    store: StoreArgs,
    /// A file with numbers of accepted messages, one in a line: each must be in the store or the archive.
    #[arg(long)]
    accepted: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

impl Check {
    /// Whether everything holds.
    pub fn run(&self) -> Result<bool, Box<dyn Error>> {
        let directory = &self.directory;
        if !directory.is_dir() {
            let what = format!("{} is no directory; give the one that the store is in", directory.display());
            return Err(Wrong(what).into());
        }
        let accepted = self.accepted()?;
        let kind = self.store.store;
        let begin = Instant::now();
        let store = kind.open(directory, &self.store.mmdb(), kind.rules())?;
        let recovered = recover(&*store, Clock::default().now_us())?;
        let opened_s = begin.elapsed().as_secs_f64();
        let report = check(&*store, directory, &accepted)?;
        if self.json {
            writeln!(
                std::io::stdout(),
                "{}",
                serde_json::json!({
                    "holds": report.holds(), "violations": report.count, "described": report.violations,
                    "live": report.live, "final": report.finished, "archived": report.archived,
                    "stations": report.stations, "accepted": report.accepted,
                    "opened_s": opened_s, "claims_given_back": recovered.freed, "rebuilt": recovered.rebuilt,
                })
            )?;
        } else {
            writeln!(
                std::io::stdout(),
                "opened in {opened_s:.2} s; {} live, {} final, {} archived messages; {} stations; {} claims given back",
                report.live,
                report.finished,
                report.archived,
                report.stations,
                recovered.freed
            )?;
            for violation in &report.violations {
                writeln!(std::io::stdout(), "{violation}")?;
            }
            let more = report.count - report.violations.len() as u64;
            if more > 0 {
                writeln!(std::io::stdout(), "… and {more} more")?;
            }
            writeln!(
                std::io::stdout(),
                "{}",
                if report.holds() { "ok: I1 to I7 hold" } else { "the invariants do not hold" }
            )?;
        }
        Ok(report.holds())
    }

    fn accepted(&self) -> Result<Vec<i64>, Box<dyn Error>> {
        let Some(path) = &self.accepted else { return Ok(Vec::new()) };
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let number = |(at, line): (usize, &str)| {
            line.trim().parse().map_err(|_| {
                format!("{}, line {}: {line:?} is no number of a message", path.display(), at + 1).into()
            })
        };
        text.lines().enumerate().map(number).collect()
    }
}
