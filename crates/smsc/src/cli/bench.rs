//! `smsc bench`

use super::leftovers::{self, Claim};
use super::remarks::remarks;
use super::stop::Stop;
use super::store::{Axes, StoreArgs};
use super::wrong::Wrong;
use clap::{Args, ValueEnum};
use serde::Serialize;
use smsc::bench::{BenchError, Live, Measurement, Stage, measure, measure_on, sessions};
use smsc::centre::RetryPolicy;
use smsc::load::{LiveLine, LoadError, LoadProfile, Moment, OnStuck, Pace, Plan, SCHEDULED_US, Side};
use smsc::network::NetworkProfile;
use smsc::store::{
    Acknowledge, Opening, Place, PostgresqlStore, RedisClusterStore, Store, StoreError, StoreKind,
};
use std::error::Error;
use std::fs::{File, OpenOptions};
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Measures the centre on a store: messages received and sent in a second, latencies, log bytes,
/// CPU.
///
/// Every row is a fresh store, and after every row the invariants are checked. Examples:
///
///   smsc bench --side receiver --threads 1,4,16,96            the paper's figure 3 on mmdb
///   smsc bench --store postgresql --side sender --window 64   pipelined senders on PostgreSQL
///   smsc bench --rate 20000 --burst 10 --seconds 60           open loop, with a burst
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct Bench {
    #[command(flatten)]
    store: StoreArgs,
    /// Which half works.
    #[arg(long, value_enum, default_value = "both")]
    side: SideArg,
    /// Numbers of clients and senders, a row for each.
    #[arg(long, value_delimiter = ',', default_value = "1,4,16,96", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Vec<u16>,
    /// Messages under way for each client and sender: 1 waits for each. A sender keeps fewer in
    /// flight where the store is so slow that claims could end, after a minute, before their
    /// completions are there; then the bench says so.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=65536))]
    window: u32,
    /// Messages of a row [default: 30000; with --seconds no end but the time]. For senders alone,
    /// how many are queued before they start.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    messages: Option<u64>,
    /// Steady state: so many seconds instead of a number of messages. Senders alone need a queue
    /// that lasts: --messages as well.
    #[arg(long)]
    seconds: Option<f64>,
    /// Open loop: Poisson arrivals of so many messages in a second; latency counts from the
    /// intended submission. What was due and not submitted before the end is counted; where less
    /// than 99 % of what was due is accepted, the bench says so.
    #[arg(long, requires = "seconds")]
    rate: Option<f64>,
    /// Open loop: the middle tenth of the time brings so many times as many.
    #[arg(long, default_value_t = 1.0, requires = "rate")]
    burst: f64,
    /// Do not wait for commits to be durable: what is left is processing, without flushes. A power
    /// cut, or a crash of the process that has the store, may take the last messages back.
    #[arg(long)]
    early: bool,
    /// Rounds; rows of one round follow each other, so that drift hits all alike.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    repeat: u32,
    /// Seed of messages and network.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Stations.
    #[arg(long, default_value_t = 1_000_000, help_heading = "Load")]
    stations: u64,
    /// Exponent of the Zipf distribution over stations; 0 for uniform.
    #[arg(long, default_value_t = 0.0, help_heading = "Load")]
    zipf: f64,
    /// Octets of each body; 0: log-normal around 40 characters, 15 % UCS2, 12 % in several parts.
    #[arg(long, default_value_t = 0, help_heading = "Load")]
    body: usize,
    /// Messages out of 100 that ask for a receipt.
    #[arg(long, default_value_t = 0, help_heading = "Load", value_parser = clap::value_parser!(u32).range(0..=100))]
    receipts: u32,
    /// Messages out of 100 in UCS2, unless --body.
    #[arg(long, default_value_t = 15, help_heading = "Load", value_parser = clap::value_parser!(u32).range(0..=100))]
    ucs2: u32,
    /// Messages out of 100 that take several parts, unless --body.
    #[arg(long, default_value_t = 12, help_heading = "Load", value_parser = clap::value_parser!(u32).range(0..=100))]
    long: u32,
    /// Messages out of 1000 that are scheduled, for 20 ms later.
    #[arg(long, default_value_t = 0, help_heading = "Load", value_parser = clap::value_parser!(u32).range(0..=1000))]
    scheduled: u32,
    /// Mobiles: perfect ones take everything at once; field: 90 % delivered, 7 % absent, 2 % busy,
    /// 1 % unknown; or a TOML file with shares, latencies, retries and prefixes
    /// (crates/smsc/docs/network.toml has all of it).
    #[arg(long, default_value = "perfect", value_name = "perfect|field|FILE", help_heading = "Network")]
    network: PathBuf,
    /// The times of the field or the file (seconds, minutes), and --validity with them, are divided
    /// by this.
    #[arg(long, default_value_t = 1000, help_heading = "Network", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    time_factor: u64,
    /// Seconds that a message is valid: what is not delivered by then expires, such as messages for
    /// a station that is always absent. Divided by --time-factor, unless the network is perfect.
    /// Take more where a queue lasts longer than that.
    #[arg(long, default_value_t = 86_400.0, value_name = "SECONDS", help_heading = "Network")]
    validity: f64,
    /// Seconds that something may be due while nothing happens, before a row ends as stuck.
    #[arg(long, default_value_t = 60.0, value_name = "SECONDS")]
    patience: f64,
    /// Where the stores are made; they are deleted afterwards, unless one violates the invariants
    /// or stands still. What a bench that was killed has left there goes first.
    #[arg(long, default_value = ".")]
    dir: PathBuf,
    /// Keep the stores, and log streams that are elsewhere, and say where they are, before they are
    /// used. Beside each lies `accepted`, the numbers of the messages that were accepted, for smsc
    /// check --accepted; it is written as they are accepted, so that it tells them also after a
    /// crash or a kill of the bench.
    #[arg(long)]
    keep: bool,
    /// With a URL: take away the messages that are in the store before the first row. Without this
    /// word, a store that has any is refused.
    #[arg(long)]
    discard_messages: bool,
    /// Leave the check of the invariants out.
    #[arg(long)]
    no_check: bool,
    /// One JSON object for each row: what was measured and what was asked for. The six numbers of a
    /// latency are min, p50, p90, p99, p99.9 and max; crates/smsc/README.md explains the fields.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum SideArg {
    Receiver,
    Sender,
    Both,
}

impl Bench {
    /// Whether all rows were measured.
    pub fn run(&self) -> Result<bool, Box<dyn Error>> {
        let url = self.store.url()?;
        self.store.allows_axes(self.kind())?;
        self.allows_server(url.as_ref())?;
        // Before hours of other rows.
        for &threads in &self.threads {
            let sessions = self.plan(threads.into(), 0)?.sessions();
            self.kind().allows(sessions).map_err(|error| Wrong(error.to_string()))?;
        }
        let stop = Stop::listen()?;
        for left in leftovers::sweep(&self.dir) {
            tell!("removed, left by a bench that was killed: {}", left.display());
        }
        if !self.json {
            writeln!(std::io::stdout(), "{}", HEAD)?;
        }
        for round in 0..self.repeat {
            for &threads in &self.threads {
                let scratch = tempfile::Builder::new()
                    .prefix(leftovers::PREFIX)
                    .disable_cleanup(self.keep)
                    .tempdir_in(&self.dir);
                let mut scratch =
                    scratch.map_err(|error| Wrong(format!("--dir {}: {error}", self.dir.display())))?;
                let mut plan = self.plan(threads.into(), u64::from(round))?;
                let kind = self.kind();
                let mut streams = self.streams()?;
                let made = Made::of(&scratch, &streams);
                // Without it all goes as well, but for what a kill leaves.
                let _claim = (!self.keep).then(|| Claim::take(scratch.path(), &made.0[1..]).ok()).flatten();
                if !self.keep {
                    stop.made(made.0.clone(), kind.has_server());
                }
                let mut mmdb = self.store.mmdb();
                mmdb.stream_dirs = streams.iter().map(|stream| stream.path().to_owned()).collect();
                // Now, as a kill leaves no time later.
                let accepted = if self.keep {
                    made.tell_kept();
                    let accepted = Arc::new(AcceptedFile::create(scratch.path().join(ACCEPTED))?);
                    let writer = Arc::clone(&accepted);
                    plan.on_accepted = Some(Arc::new(move |numbers| writer.add(numbers)));
                    Some(accepted)
                } else {
                    None
                };
                let told = Arc::new(AtomicBool::new(false));
                plan.on_stuck = Some(self.on_stuck(&told, made.clone(), plan.stuck_timeout));
                let mut shown = Shown::default();
                let mut waits = Waits::default();
                let mut watch = |live: &Live<'_>| {
                    if std::io::stderr().is_terminal() {
                        shown.show(live);
                    } else {
                        waits.tell(live, plan.load.validity_us);
                    }
                    !stop.is_asked()
                };
                let (measured, is_as_before) = match &url {
                    None => (measure(scratch.path(), kind, &mmdb, &plan, !self.no_check, &mut watch), true),
                    Some(url) => self.measure_at(url, scratch.path(), &plan, (round, threads), &mut watch)?,
                };
                if std::io::stderr().is_terminal() {
                    rewrite("");
                }
                let measured = match measured {
                    Ok(measured) => measured,
                    Err(BenchError::Interrupted) => return Ok(false),
                    Err(error) => {
                        if error.leaves_a_trace() && !self.keep {
                            scratch.disable_cleanup(true);
                            streams.iter_mut().for_each(|stream| stream.disable_cleanup(true));
                            if !told.load(Relaxed) {
                                made.tell_kept();
                            }
                        }
                        return if told.load(Relaxed) { Ok(false) } else { Err(error.into()) };
                    }
                };
                if let Some(accepted) = accepted {
                    accepted.well()?;
                }
                for remark in remarks(&measured, self.seconds, &kind.rules()) {
                    tell!("{remark}");
                }
                if self.json {
                    let row = Row { measured: &measured, options: self.options(&plan, kind) };
                    writeln!(std::io::stdout(), "{}", serde_json::to_string(&row)?)?;
                } else {
                    writeln!(std::io::stdout(), "{}", row(&measured))?;
                }
                if stop.is_asked() || !is_as_before {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Refuses what cannot go with the store of a server.
    fn allows_server(&self, url: Option<&Place>) -> Result<(), Wrong> {
        let refused = |what: &str| Err(Wrong(what.into()));
        match url {
            None if self.discard_messages => refused(
                "--discard-messages: every row of a store that is no URL is a fresh one: leave it out",
            ),
            _ if self.early && self.kind() == StoreKind::RedisCluster => refused(
                "--early: a Redis Cluster acknowledges nothing early: leave it out, or take a URL with \
                 durability=process-crash",
            ),
            Some(_) if self.keep && self.threads.len() * self.repeat as usize > 1 => refused(
                "--keep: the rows of a URL are in one schema, one after the other: give one number of --threads \
                 and no --repeat",
            ),
            Some(place) if self.early && takes_less(place) => {
                refused("--early and durability=process-crash: what is left then has no name: leave one out")
            }
            _ => Ok(()),
        }
    }

    /// One row on the store of a server, which has nothing in it before and afterwards; and whether
    /// that is so, of a row that was measured.
    fn measure_at(
        &self,
        place: &Place,
        scratch: &Path,
        plan: &Plan,
        (round, threads): (u32, u16),
        watch: &mut dyn FnMut(&Live<'_>) -> bool,
    ) -> Result<(Result<Measurement, BenchError>, bool), Box<dyn Error>> {
        let kind = self.kind();
        let (store, url) = GivenStore::open(place, kind, sessions(plan))?;
        for remark in store.store().remarks() {
            tell!("{remark}");
        }
        let is_first = round == 0 && Some(&threads) == self.threads.first();
        if is_first && store.is_used_by_others()? {
            let what = format!(
                "--store {url}: somebody else uses it, as a centre does, and a row takes all messages away: take \
                 another prefix="
            );
            return Err(Wrong(what).into());
        }
        if !store.is_empty()? {
            if !self.discard_messages || !is_first {
                let what = format!(
                    "--store {url}: there are messages or accounts in it, and a row begins with an empty store: take \
                     another schema= or prefix=, or --discard-messages, which takes them away"
                );
                return Err(Wrong(what).into());
            }
            store.clear()?;
        }
        if self.keep {
            tell!("kept: {url}");
        }
        let measured = measure_on(store.store(), kind, scratch, plan, !self.no_check, watch);
        let mut is_as_before = true;
        match &measured {
            _ if self.keep => {}
            Err(error) if error.leaves_a_trace() => tell!("kept: {url}"),
            // What has failed is told, and what was measured; that the rest of it is still there,
            // too.
            _ => {
                if let Err(error) = store.clear() {
                    tell!("left behind: {url}: {error}");
                    is_as_before = false;
                }
            }
        }
        Ok((measured, is_as_before))
    }

    /// Tells of a row that stands still, and sees to it that the process ends: what the row has
    /// under way may never answer.
    fn on_stuck(&self, told: &Arc<AtomicBool>, made: Made, patience: Duration) -> OnStuck {
        let (told, keep) = (Arc::clone(told), self.keep);
        Arc::new(move |error: &LoadError| {
            told.store(true, Relaxed);
            // Behind the line that is written over, if there is one.
            if std::io::stderr().is_terminal() {
                tell!();
            }
            if !keep {
                made.tell_kept();
            }
            tell!("smsc: {error}");
            let last = patience.min(LAST_WAIT);
            std::thread::spawn(move || {
                std::thread::sleep(last);
                // Not even what an orderly end has to do is waited for. A server is ended by the
                // kernel.
                signal_hook::low_level::exit(1);
            });
        })
    }

    /// What a row was asked for, besides what it was measured with.
    fn options(&self, plan: &Plan, kind: StoreKind) -> RowOptions {
        RowOptions {
            seed: plan.load.seed,
            messages: plan.messages,
            network: self.network.display().to_string(),
            time_factor: self.time_factor,
            validity_s: plan.load.validity_us as f64 / 1e6,
            stations: plan.load.stations,
            zipf: plan.load.zipf,
            body: plan.load.body_octets,
            receipts: plan.load.receipt_percent,
            ucs2: plan.load.ucs2_percent,
            long: plan.load.long_percent,
            scheduled: plan.load.scheduled_permille,
            mmdb: (kind == StoreKind::Mmdb).then(|| self.store.axes()),
        }
    }

    fn kind(&self) -> StoreKind {
        self.store.kind().unwrap_or(StoreKind::Mmdb)
    }

    /// Fresh directories for the log streams of one row that are to be elsewhere.
    fn streams(&self) -> Result<Vec<tempfile::TempDir>, Wrong> {
        let within = |dir: &PathBuf| {
            let made = tempfile::Builder::new()
                .prefix(leftovers::LOG_PREFIX)
                .disable_cleanup(self.keep)
                .tempdir_in(dir);
            made.map_err(|error| Wrong(format!("--stream-dir {}: {error}", dir.display())))
        };
        self.store.stream_dir.iter().map(within).collect()
    }

    /// How mobiles behave, and when the centre tries again: both shortened by the same factor.
    fn network(&self, seed: u64) -> Result<(NetworkProfile, RetryPolicy), Wrong> {
        let (profile, retry) = match self.network.to_str() {
            Some("perfect") => (NetworkProfile::perfect(seed), RetryPolicy::accelerated(1)),
            Some("field") => (NetworkProfile::default(), RetryPolicy::accelerated(1)),
            _ => NetworkProfile::read(&self.network).map_err(|error| {
                let hint = if error.line == 0 { "; give perfect, field or the name of a file" } else { "" };
                Wrong(format!("--network {error}{hint}"))
            })?,
        };
        let profile = NetworkProfile { seed, time_factor: self.time_factor, ..profile };
        let lease_us = self.kind().rules().lease_us.unsigned_abs();
        let longest_us = profile.longest_attempt_us();
        if longest_us >= lease_us {
            return Err(Wrong(format!(
                "--time-factor {}: an attempt may take {:.0} s, and a claim ends after {:.0} s; take a greater one or shorter latencies",
                self.time_factor,
                longest_us as f64 / 1e6,
                lease_us as f64 / 1e6
            )));
        }
        Ok((profile, retry.divided(i64::try_from(self.time_factor).unwrap_or(i64::MAX))))
    }

    /// How long messages are valid in this run, µs. A network that answers at once has no times
    /// that could be shortened.
    fn validity_us(&self) -> Result<i64, Wrong> {
        let factor = if self.network.as_os_str() == "perfect" { 1 } else { self.time_factor };
        let us = self.validity * 1e6 / factor as f64;
        let least_us = if self.scheduled > 0 { SCHEDULED_US + 1 } else { 1 };
        if (least_us as f64..=VALIDITY_MAX_S * 1e6).contains(&us) {
            return Ok(us as i64);
        }
        let divided = if factor > 1 { format!(", divided by --time-factor {factor}") } else { String::new() };
        Err(Wrong(format!(
            "--validity {}{divided}: must be {} s to {VALIDITY_MAX_S} s",
            self.validity,
            least_us as f64 / 1e6
        )))
    }

    fn plan(&self, threads: usize, round: u64) -> Result<Plan, Wrong> {
        let seed = self.seed.wrapping_add(round);
        let side = match self.side {
            SideArg::Receiver => Side::Receiver,
            SideArg::Sender => Side::Sender,
            SideArg::Both => Side::Both,
        };
        match (self.messages, self.seconds) {
            (None, Some(_)) if side == Side::Sender => {
                return Err(Wrong(
                    "--seconds: senders alone need a queue that lasts so long: give --messages too, about 1 KB of memory each \
                     (smsc bench --side sender --messages 100000 --threads 16 --window 64 says how many are sent in a second)"
                        .into(),
                ));
            }
            (Some(_), Some(_)) if side != Side::Sender => {
                return Err(Wrong(
                    "--messages and --seconds: a run with clients ends by one of them, leave the other out"
                        .into(),
                ));
            }
            _ => {}
        }
        let positive = |name: &str, value: f64| {
            if value.is_finite() && value > 0.0 {
                Ok(())
            } else {
                Err(Wrong(format!("--{name} {value}: must be a number above 0, and finite")))
            }
        };
        if let Some(seconds) = self.seconds {
            positive("seconds", seconds)?;
            if seconds > SECONDS_MAX {
                return Err(Wrong(format!("--seconds {seconds}: {SECONDS_MAX} at most, a year")));
            }
        }
        if let Some(rate) = self.rate {
            positive("rate", rate)?;
            if rate > RATE_MAX {
                return Err(Wrong(format!("--rate {rate}: {RATE_MAX} messages in a second at most")));
            }
            if side == Side::Sender {
                return Err(Wrong(
                    "--rate: senders alone have no clients, leave --side or --rate out".into(),
                ));
            }
        }
        positive("burst", self.burst)?;
        positive("patience", self.patience)?;
        if self.patience > SECONDS_MAX {
            return Err(Wrong(format!("--patience {}: {SECONDS_MAX} at most, a year", self.patience)));
        }
        if self.rate.is_some_and(|rate| rate * self.burst > RATE_MAX) {
            return Err(Wrong(format!(
                "--burst {}: {RATE_MAX} messages in a second at most, also in the burst",
                self.burst
            )));
        }
        if !(0.0..=5.0).contains(&self.zipf) {
            return Err(Wrong(format!("--zipf {}: must be 0 to 5", self.zipf)));
        }
        if self.stations == 0 || self.stations > 10_000_000 {
            return Err(Wrong(format!("--stations {}: must be 1 to 10000000", self.stations)));
        }
        if self.body > 34_000 {
            return Err(Wrong(format!("--body {}: 255 parts hold 34000", self.body)));
        }
        let validity_us = self.validity_us()?;
        let (network, retry) = self.network(seed)?;
        Ok(Plan {
            side,
            receivers: threads,
            senders: threads,
            window: self.window as usize,
            messages: self.messages.unwrap_or(if self.seconds.is_some() { 0 } else { 30_000 }),
            seconds: self.seconds.unwrap_or(0.0),
            pace: self.rate.map_or(Pace::Closed, |rate| Pace::Open { rate, burst: self.burst }),
            load: LoadProfile {
                seed,
                stations: self.stations,
                zipf: self.zipf,
                body_octets: self.body,
                receipt_percent: self.receipts,
                ucs2_percent: self.ucs2,
                long_percent: self.long,
                scheduled_permille: self.scheduled,
                validity_us,
                ..LoadProfile::default()
            },
            network,
            retry,
            lease_us: self.kind().rules().lease_us,
            stuck_timeout: Duration::from_secs_f64(self.patience),
            acknowledge: if self.early { Acknowledge::Early } else { Acknowledge::Durable },
            drain: self.seconds.is_none(),
            keep_accepted: !self.no_check,
            ..Plan::default()
        })
    }
}

/// Whether the URL asks for less than the usual durability.
fn takes_less(place: &Place) -> bool {
    match place {
        Place::Directory(_) => false,
        Place::Server(url) => url.takes_less(),
        Place::Cluster(url) => url.takes_less(),
    }
}

/// A store that is there already.
enum GivenStore {
    Postgresql(Box<PostgresqlStore>),
    RedisCluster(Box<RedisClusterStore>),
}

impl GivenStore {
    /// Opens it; and its URL, without a password.
    fn open(place: &Place, kind: StoreKind, sessions: usize) -> Result<(GivenStore, String), StoreError> {
        let opening = Opening::OrCreate;
        match place {
            Place::Cluster(url) => {
                let store = RedisClusterStore::at(url, kind.rules(), opening)?;
                Ok((GivenStore::RedisCluster(Box::new(store)), url.to_string()))
            }
            Place::Server(url) => {
                let store = PostgresqlStore::at(url, kind.rules(), sessions, opening)?;
                Ok((GivenStore::Postgresql(Box::new(store)), url.to_string()))
            }
            Place::Directory(directory) => {
                let what = "a directory is no URL";
                Err(StoreError::NoStore { path: directory.display().to_string(), what })
            }
        }
    }

    fn store(&self) -> &dyn Store {
        match self {
            GivenStore::Postgresql(store) => &**store,
            GivenStore::RedisCluster(store) => &**store,
        }
    }

    fn is_empty(&self) -> Result<bool, StoreError> {
        match self {
            GivenStore::Postgresql(store) => store.is_empty(),
            GivenStore::RedisCluster(store) => store.is_empty(),
        }
    }

    /// Whether another process has it open. That of PostgreSQL is of one alone.
    fn is_used_by_others(&self) -> Result<bool, StoreError> {
        match self {
            GivenStore::Postgresql(_) => Ok(false),
            GivenStore::RedisCluster(store) => store.is_used_by_others(),
        }
    }

    fn clear(&self) -> Result<(), StoreError> {
        match self {
            GivenStore::Postgresql(store) => store.clear(),
            GivenStore::RedisCluster(store) => store.clear(),
        }
    }
}

/// The most arrivals of an open loop in a second: those that come too late to be submitted are
/// counted one by one.
const RATE_MAX: f64 = 10_000_000.0;
/// The longest run, s: its µs and those of the time of day together fit a number.
const SECONDS_MAX: f64 = 31_536_000.0;
/// How long a row that stands still may take to end in order; less if the patience is less.
const LAST_WAIT: Duration = Duration::from_secs(10);

/// The directories of a row: the store's, and those of log streams that are elsewhere.
#[derive(Clone)]
struct Made(Vec<PathBuf>);

impl Made {
    fn of(scratch: &tempfile::TempDir, streams: &[tempfile::TempDir]) -> Made {
        Made(std::iter::once(scratch).chain(streams).map(|dir| dir.path().to_owned()).collect())
    }

    /// Says where they are, and that no later bench takes them away.
    fn tell_kept(&self) {
        self.0.iter().take(1).for_each(|directory| leftovers::keep(directory));
        for (number, path) in self.0.iter().enumerate() {
            let path: &Path = path;
            match number {
                0 => tell!("kept: {}", path.display()),
                _ => tell!("kept: log stream {}: {}", number - 1, path.display()),
            }
        }
    }
}

/// The longest validity: ten years, s.
const VALIDITY_MAX_S: f64 = 315_360_000.0;

/// Says once, where no line is written over, why a run goes on although nothing becomes final.
#[derive(Default)]
struct Waits {
    /// Messages that were accepted or have become final.
    seen: u64,
    since_s: f64,
    told: bool,
    told_of_filling: bool,
}

impl Waits {
    /// How long nothing must have happened before it is said, s.
    const PATIENCE_S: f64 = 5.0;

    fn tell(&mut self, live: &Live<'_>, validity_us: i64) {
        let Moment { elapsed_s, left, waiting } = live.moment;
        if live.stage != Stage::Running {
            if live.stage == Stage::Filling && elapsed_s >= Self::PATIENCE_S && !self.told_of_filling {
                self.told_of_filling = true;
                tell!("filling the senders' queue: {left} messages after {elapsed_s:.0} s");
            }
            return;
        }
        let now = live.figures.snapshot();
        let seen = now.accepted + now.finished + now.expired;
        if seen != self.seen || waiting == 0 {
            (self.seen, self.since_s) = (seen, elapsed_s);
        } else if elapsed_s - self.since_s >= Self::PATIENCE_S && !self.told {
            self.told = true;
            tell!(
                "{elapsed_s:.0} s: {left} in the queue, {waiting} wait for absent or busy stations: they are tried again until their \
                 validity ends, {:.1} s after submission (--validity, --time-factor)",
                validity_us as f64 / 1e6
            );
        }
    }
}

/// A row as JSON.
#[derive(Serialize)]
struct Row<'a> {
    #[serde(flatten)]
    measured: &'a Measurement,
    #[serde(flatten)]
    options: RowOptions,
}

/// Options of a row, as they are called.
#[derive(Serialize)]
struct RowOptions {
    /// Rounds have one each.
    seed: u64,
    /// 0: as many as the time allows.
    messages: u64,
    network: String,
    time_factor: u64,
    /// In real time.
    validity_s: f64,
    stations: u64,
    zipf: f64,
    body: usize,
    receipts: u32,
    ucs2: u32,
    long: u32,
    scheduled: u32,
    /// None for other stores.
    mmdb: Option<Axes>,
}

/// One line that is written over.
#[derive(Default)]
struct Shown {
    stage: Option<Stage>,
    line: LiveLine,
}

impl Shown {
    fn show(&mut self, live: &Live<'_>) {
        if self.stage.replace(live.stage) != Some(live.stage) {
            self.line = LiveLine::default();
        }
        let line = match live.stage {
            Stage::Filling => {
                format!("filling the queue{}", self.line.next(live.side, live.figures, live.moment))
            }
            Stage::Running => self.line.next(live.side, live.figures, live.moment),
            Stage::Checking => format!("{:5.1} s  checking the invariants", live.moment.elapsed_s),
        };
        rewrite(&line);
    }
}

/// Writes over the line of the terminal. One that is gone is noticed elsewhere.
fn rewrite(line: &str) {
    let _ = write!(std::io::stderr(), "\r\x1b[K{line}").and_then(|()| std::io::stderr().flush());
}

/// The file beside a kept store with the numbers of the accepted messages.
const ACCEPTED: &str = "accepted";

/// That file while messages are accepted.
///
/// A line is written when its message is durable in the store, so a store that lost one of them is
/// at fault. All lines are equally long, a power of two: a kill cuts a write off at the end of a
/// page at the earliest, and that is the end of a line.
struct AcceptedFile {
    path: PathBuf,
    file: File,
    /// The first that could not be written, if any: whoever writes is in the middle of a run.
    failed: Mutex<Option<std::io::Error>>,
}

impl AcceptedFile {
    /// An empty one.
    fn create(path: PathBuf) -> Result<AcceptedFile, String> {
        // Each write goes to the end, whatever others write.
        let file = OpenOptions::new().append(true).create_new(true).open(&path);
        let file = file.map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(AcceptedFile { path, file, failed: Mutex::default() })
    }

    fn add(&self, numbers: &[i64]) {
        let lines: String = numbers.iter().map(|number| format!("{number:>15}\n")).collect();
        if let Err(error) = (&self.file).write_all(lines.as_bytes()) {
            self.failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
    }

    /// An error if a line is missing.
    fn well(&self) -> Result<(), String> {
        match self.failed.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(error) => {
                Err(format!("{}: {error}; not all accepted messages are in it", self.path.display()))
            }
            None => Ok(()),
        }
    }
}

const HEAD: &str = "store                  durability       side      threads window   offered/s  accepted/s delivered/s     final/s  receipts/s  \
                    late p99 ms  accept p50/p99/p99.9 ms  send p50/p99 ms    deliver p50/99  log B/msg  CPU us/msg";

fn row(measurement: &Measurement) -> String {
    let optional = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.0}"));
    let latency = |ms: Option<[f64; 6]>, digits: usize| match ms {
        Some(ms) => ms.map(|ms| format!("{ms:.digits$}")),
        None => std::array::from_fn(|_| "-".to_owned()),
    };
    let [_, p50, _, p99, p999, _] = latency(measurement.accept_ms, 2);
    let [_, send_50, _, send_99, ..] = latency(measurement.send_ms, 2);
    let [_, deliver_50, _, deliver_99, ..] = latency(measurement.deliver_ms, 1);
    format!(
        "{:<22} {:<16} {:<9} {:>7} {:>6} {:>11} {:>11.0} {:>11.0} {:>11.0} {:>11.0}  {:>11}  {:>23}  {:>15}  {:>17} {:>10} {:>11}",
        measurement.store,
        measurement.durability,
        measurement.side,
        measurement.threads,
        measurement.window,
        optional(measurement.offered_per_s),
        measurement.accepted_per_s,
        measurement.delivered_per_s,
        measurement.finished_per_s,
        measurement.receipts_per_s,
        measurement.late_ms.map_or("-".to_owned(), |[_, _, _, p99, ..]| format!("{p99:.2}")),
        format!("{p50} / {p99} / {p999}"),
        format!("{send_50} / {send_99}"),
        format!("{deliver_50} / {deliver_99}"),
        optional(measurement.log_bytes_per_message),
        measurement.cpu_us_per_message.map_or("-".to_owned(), |us| format!("{us:.1}")),
    )
}
