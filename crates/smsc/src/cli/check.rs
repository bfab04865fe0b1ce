//! `smsc check`

use super::copy::Copy;
use super::place::place;
use super::stop::Stop;
use super::store::{StoreArgs, StoreWord};
use super::wrong::Wrong;
use clap::Args;
use smsc::check::{AcceptedMessages, Report, check_while};
use smsc::housekeeping::recover;
use smsc::load::Clock;
use smsc::store::{Opening, Place, PostgresqlSnapshot, RedisClusterStore, Store, StoreError, StoreKind};
use std::collections::BTreeMap;
use std::error::Error;
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Sessions that a check has: recovery and reading, one at a time, and room.
const SESSIONS: usize = 4;

/// Longest line with a number, octets; a number has 20 at most.
const LINE_MAX: u64 = 64;

/// Checks the invariants I1 to I6 over a store that nobody is using, and says which it could not
/// check.
///
/// The store itself stays as it is: it is copied, and the copy is opened, so it recovers first, and
/// claims that died with their process are given back there. The copy is in $TMPDIR, which needs
/// room for it, and goes afterwards. Nothing is made where there is no store. Examples; the second
/// is of what `smsc bench --keep` has left:
///
///   smsc check /var/lib/smsc
///   smsc check smsc-bench-AbCdEf --accepted smsc-bench-AbCdEf/accepted
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct Check {
    /// The store's directory; or postgresql://USER@HOST/DATABASE?schema=NAME, a store of a server
    /// that is there already. That one is looked at as it is at one moment, by a transaction that
    /// only reads: whoever serves it goes on. Or redis-cluster://HOST:PORT,HOST:PORT/, of which each
    /// shard is looked at as it is at one moment.
    #[arg(value_name = "DIRECTORY|URL")]
    directory: OsString,
    #[command(flatten)]
    store: StoreArgs,
    /// A file with numbers of accepted messages, one in a line: each must be in the store or the
    /// archive (I6).
    #[arg(long)]
    accepted: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// How a store was opened.
struct Start {
    seconds: f64,
    /// Claims that were given back.
    freed: usize,
    /// Rows that were made again.
    rebuilt: usize,
}

impl Check {
    /// Whether everything holds.
    pub fn run(&self) -> Result<bool, Box<dyn Error>> {
        let place = place(&self.directory, "smsc check")?;
        if let Some(StoreWord::Url(_)) = &self.store.store {
            return Err(Wrong("--store: give the URL in the place of the directory".into()).into());
        }
        let directory = match &place {
            Place::Directory(directory) => directory,
            Place::Server(url) => return self.run_at(url.kind(), || PostgresqlSnapshot::open(url)),
            Place::Cluster(url) => {
                return self.run_at(StoreKind::RedisCluster, || RedisClusterStore::look(url));
            }
        };
        if !directory.is_dir() {
            let what = format!("{} is no directory; give the one that the store is in", directory.display());
            return Err(Wrong(what).into());
        }
        let kind = self.kind(directory)?;
        self.store.allows_axes(kind)?;
        if kind == StoreKind::RedisCluster {
            let what = format!(
                "{}: a cluster is checked while its nodes run: give its URL, which `smsc serve` logs",
                directory.display()
            );
            return Err(Wrong(what).into());
        }
        let accepted = self.accepted()?;
        let (mut options, rules) = (self.store.mmdb(), kind.rules());
        let stop = Stop::listen()?;
        let goes_on = || !stop.is_asked();
        let stopped = || {
            tell!("smsc: stopped: nothing was found out, and the store is as it was");
            Ok(false)
        };
        let mut copy = Copy::new(kind, directory, &options.stream_dirs).map_err(|error| {
            format!("no place for a copy of the store ({error}); TMPDIR names a directory for it")
        })?;
        stop.made(vec![copy.path().to_owned()], kind.has_server());
        if !copy.fill(kind, &goes_on)? {
            return stopped();
        }
        options.stream_dirs = copy.streams();
        let begin = Instant::now();
        let store = match kind.open_with(copy.store(), &options, rules, SESSIONS, Opening::Existing) {
            Err(error @ (StoreError::NoStore { .. } | StoreError::Logs { .. })) => {
                return Err(Wrong(copy.of_store(&error)).into());
            }
            opened => opened.map_err(|error| copy.of_store(&error))?,
        };
        let recovered = recover(&*store, Clock::default().now_us()).map_err(|error| copy.of_store(&error))?;
        let opened_s = begin.elapsed().as_secs_f64();
        // A file that a kill has cut off lacks what was acknowledged last.
        let known = accepted.as_deref().map_or(AcceptedMessages::Unknown, AcceptedMessages::AtLeast);
        // The archive is only read, and so where it is.
        let checked = check_while(&*store, directory, known, &mut || goes_on());
        let Some(report) = checked.map_err(|error| copy.of_store(&error))? else { return stopped() };
        drop(store);
        let opened = Start { seconds: opened_s, freed: recovered.freed, rebuilt: recovered.rebuilt };
        self.tell(kind, &report, &opened)?;
        Ok(report.holds())
    }

    /// Checks the store of a server, as it is now.
    fn run_at<S: Store>(
        &self,
        kind: StoreKind,
        open: impl FnOnce() -> Result<S, StoreError>,
    ) -> Result<bool, Box<dyn Error>> {
        self.store.allows_axes(kind)?;
        if let Some(asked) = self.store.kind() {
            let what = format!("--store {}: the store is a URL: leave it out", asked.name());
            return Err(Wrong(what).into());
        }
        let accepted = self.accepted()?;
        let stop = Stop::listen()?;
        let begin = Instant::now();
        let store = match open() {
            Err(error @ StoreError::NoStore { .. }) => return Err(Wrong(error.to_string()).into()),
            opened => opened?,
        };
        let opened = Start { seconds: begin.elapsed().as_secs_f64(), freed: 0, rebuilt: 0 };
        let known = accepted.as_deref().map_or(AcceptedMessages::Unknown, AcceptedMessages::AtLeast);
        // It has no archive: nothing is found in a directory that has nothing.
        let nothing = tempfile::tempdir()?;
        let Some(report) = check_while(&store, nothing.path(), known, &mut || !stop.is_asked())? else {
            tell!("smsc: stopped: nothing was found out, and the store is as it was");
            return Ok(false);
        };
        self.tell(kind, &report, &opened)?;
        Ok(report.holds())
    }

    /// Prints what was found.
    fn tell(&self, kind: StoreKind, report: &Report, opened: &Start) -> Result<(), Box<dyn Error>> {
        let Start { seconds, freed, rebuilt } = *opened;
        if self.json {
            writeln!(
                std::io::stdout(),
                "{}",
                serde_json::json!({
                    "store": kind.name(),
                    "holds": report.holds(), "violations": report.count, "described": report.violations,
                    "checked": report.checked(), "not_checked": BTreeMap::from_iter(report.not_checked()),
                    "live": report.live, "final": report.finished, "archived": report.archived,
                    "receipts": report.receipts,
                    "stations": report.stations, "accepted": report.accepted.unwrap_or(0),
                    "opened_s": seconds, "claims_given_back": freed, "rebuilt": rebuilt,
                })
            )?;
        } else {
            writeln!(
                std::io::stdout(),
                "{} opened in {seconds:.2} s; {} live, {} final, {} archived messages, and {} receipts; {} stations; {} claims given back",
                kind.name(),
                report.live,
                report.finished,
                report.archived,
                report.receipts,
                report.stations,
                freed
            )?;
            for violation in &report.violations {
                writeln!(std::io::stdout(), "{violation}")?;
            }
            let more = report.count - report.violations.len() as u64;
            if more > 0 {
                writeln!(std::io::stdout(), "… and {more} more")?;
            }
            let checked = report.checked().join(", ");
            let word = if report.holds() { "ok, these hold" } else { "violated, of these" };
            writeln!(std::io::stdout(), "{word}: {checked}")?;
            for (name, why) in report.not_checked() {
                let is_missing = name == "I6" && report.accepted.is_none();
                let help = if is_missing { " (--accepted FILE)" } else { "" };
                writeln!(std::io::stdout(), "not checked: {name}: {why}{help}")?;
            }
        }
        Ok(())
    }

    /// The kind of the store that is there, and that is meant.
    fn kind(&self, path: &Path) -> Result<StoreKind, Box<dyn Error>> {
        let directory = path.display();
        let found = StoreKind::found_in(path)?;
        let names = || found.iter().map(|kind| kind.name()).collect::<Vec<_>>().join(" and ");
        let wrong = match (self.store.kind(), &found[..]) {
            (_, []) => format!(
                "{directory} has no store in it{}; give the directory that a store was made in, such as `smsc bench --keep` names",
                what_is_in(path)?
            ),
            (None, [one]) => return Ok(*one),
            (None, _) => format!("{directory} has {} in it; choose one with --store", names()),
            (Some(kind), found) if found.iter().any(|other| other.is_like(kind)) => return Ok(kind),
            (Some(kind), _) => {
                format!("{directory} has {} in it, not {}; leave --store out", names(), kind.name())
            }
        };
        Err(Wrong(wrong).into())
    }

    fn accepted(&self) -> Result<Option<Vec<i64>>, Box<dyn Error>> {
        let Some(path) = &self.accepted else { return Ok(None) };
        let failed = |error: std::io::Error| format!("{}: {error}", path.display());
        let mut file = BufReader::new(File::open(path).map_err(failed)?);
        let (mut numbers, mut line) = (Vec::new(), Vec::new());
        loop {
            line.clear();
            // A file of one endless line (a device) is no list of numbers, either.
            if file.by_ref().take(LINE_MAX).read_until(b'\n', &mut line).map_err(failed)? == 0 {
                return Ok(Some(numbers));
            }
            let text = String::from_utf8_lossy(&line);
            let number = text.trim_end_matches(['\n', '\r']);
            numbers.push(number.trim().parse().map_err(|_| {
                format!(
                    "{}, line {}: {number:?} is no number of a message",
                    path.display(),
                    numbers.len() + 1
                )
            })?);
        }
    }
}

/// A few names, so that the reader sees where he is.
fn what_is_in(directory: &Path) -> Result<String, Box<dyn Error>> {
    let read = std::fs::read_dir(directory).and_then(|entries| {
        entries
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect::<Result<Vec<_>, _>>()
    });
    let mut names = read.map_err(|error| format!("{}: {error}", directory.display()))?;
    names.sort_unstable();
    Ok(match names.len() {
        0 => ": it is empty".into(),
        1..=3 => format!(", only {}", names.join(", ")),
        more => format!(", but {} and {} others", names[..2].join(", "), more - 2),
    })
}
