//! `smsc serve`: the centre as a server of SMPP.

use super::place::place;
use super::stop::SAME_WISH;
use super::wrong::Wrong;
use clap::Args;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use smsc::centre::RetryPolicy;
use smsc::network::NetworkProfile;
use smsc::serve::{Config, ConfigError, Event, Level, Log, Serve as Server, Wish, serve};
use smsc::store::{MmdbOptions, Place, StoreKind};
use std::error::Error;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Timeout;

/// Serve SMPP 3.4 until SIGTERM or Ctrl-C; SIGHUP reads the configuration again.
#[derive(Args)]
pub struct Serve {
    /// The configuration: docs/smsc.toml is one, with every key explained.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Directory of the store, made if need be; what is in it is gone on with. Or
    /// postgresql://USER@HOST/DATABASE?schema=smsc&sslmode=verify-full&sslrootcert=system, a schema of a server that is
    /// there already; its password is better in PGPASSWORD or ~/.pgpass than here. Or
    /// redis-cluster://HOST:PORT,HOST:PORT/?prefix=smsc, which several centres may use at once.
    /// Instead of the configuration's.
    #[arg(long, value_name = "DIR|URL")]
    store: Option<OsString>,
    /// Engine of a store that is not there yet: mmdb, sqlite, postgresql, redis-cluster …
    /// [default: mmdb; where there is a store, its own].
    #[arg(long, value_parser = kind)]
    engine: Option<StoreKind>,
    /// mmdb: size of a log segment, MiB; each is filled with zeros before it is used [default: 64].
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1024))]
    segment_mib: Option<u64>,
    /// The mobiles, which are simulated: perfect, field, or the file of a network
    /// (docs/network.toml).
    #[arg(long, default_value = "perfect", value_name = "NETWORK")]
    network: PathBuf,
    /// Let a crash write a core dump: it has passwords, keys and messages in it. A store that is
    /// given by its URL on the command line is never dumped.
    #[arg(long)]
    core_dumps: bool,
    /// Only look whether the configuration is right.
    #[arg(long)]
    check: bool,
}

/// How long the files of a configuration may take to be read again: a file system that hangs must
/// not keep the centre from hearing that it is to end.
const READING: Duration = Duration::from_secs(10);

/// How long the orderly end may take. What is not done by then is what kill -9 leaves, too.
const END: Duration = Duration::from_secs(45);

/// A configuration that is being read, in a thread of its own.
type Reading = Pin<Box<Timeout<JoinHandle<Result<Config, ConfigError>>>>>;

fn begin_reading(path: &Path) -> Reading {
    let path = path.to_owned();
    Box::pin(tokio::time::timeout(READING, tokio::task::spawn_blocking(move || Config::read(&path))))
}

/// What was read, or why not; never, while nothing is.
async fn what_was_read(reading: &mut Option<Reading>) -> Result<Config, String> {
    let Some(reading) = reading else { return std::future::pending().await };
    match reading.await {
        Ok(Ok(read)) => read.map_err(|error| error.to_string()),
        Ok(Err(failed)) => Err(failed.to_string()),
        Err(_) => Err(format!("its files were not read in {} s", READING.as_secs())),
    }
}

/// Wishes for another configuration, unless the end was wished for.
fn reload(wish: &mut Wish, config: Config) -> bool {
    let goes_on = !matches!(wish, Wish::Stop);
    if goes_on {
        *wish = Wish::Reload(Arc::new(config));
    }
    goes_on
}

/// Hears that the centre is to end, in a thread of its own: whatever all others wait for, as a disk
/// or a server that does not answer, the end comes.
fn hear_stops(to: Arc<watch::Sender<Wish>>, log: Arc<Log>) -> std::io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let end_at_once = move |code: i32, why: &str| {
        let message = format!("{why}what was accepted is in the store");
        log.at(Level::Warn, "ended_at_once").text("message", &message);
        log.flush();
        std::process::exit(code)
    };
    let (told, tells) = mpsc::channel();
    std::thread::Builder::new().name("smsc-signals".into()).spawn(move || {
        for _ in signals.forever() {
            // When it came, however late it is heard of. Nobody listens once the second has come.
            let _ = told.send(Instant::now());
        }
    })?;
    std::thread::Builder::new().name("smsc-end".into()).spawn(move || {
        let Ok(begin) = tells.recv() else { return };
        let _ = to.send(Wish::Stop);
        loop {
            match tells.recv_timeout(END.saturating_sub(begin.elapsed())) {
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    end_at_once(1, &format!("the orderly end was not done in {} s; ", END.as_secs()))
                }
                // One more of the same wish.
                Ok(at) if at.saturating_duration_since(begin) < SAME_WISH => {}
                _ => end_at_once(130, ""),
            }
        }
    })?;
    Ok(())
}

/// Whether a store has such a file. A store that has lost its first one, or was killed before it
/// had one, has others: of it the engine says what is wrong.
fn is_of_a_store(name: &str) -> bool {
    let of_stream = |number: &str| !number.is_empty() && number.bytes().all(|octet| octet.is_ascii_digit());
    let of_postgresql = ["postgresql", "postgresql.new", "postgresql.log"].contains(&name);
    matches!(name, "LOCK" | "images-a" | "images-b" | "redis-cluster")
        || of_postgresql
        || ["MANIFEST", "smsc.db", "archive.jsonl", "archive-"].iter().any(|own| name.starts_with(own))
        || name.strip_prefix("log-").is_some_and(of_stream)
}

/// Whether a store may be made in a directory: it is empty, or it is not there and what it is to be
/// in is. One with other things in it was not meant; and what a missing mount point leaves behind
/// is no place to begin another store in.
fn check_room(directory: &Path) -> Result<(), Wrong> {
    let name = directory.display();
    let entries = match std::fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let parent = directory.parent().filter(|parent| !parent.as_os_str().is_empty());
            let parent = parent.unwrap_or(Path::new("."));
            if parent.is_dir() {
                return Ok(());
            }
            let parent = parent.display();
            return Err(Wrong(format!(
                "--store {name}: {parent} is not there: make it, or mount what it is on"
            )));
        }
        Err(error) => return Err(Wrong(format!("--store {name}: {error}"))),
    };
    let names: Vec<_> = entries.filter_map(Result::ok).map(|entry| entry.file_name()).collect();
    match names.iter().find(|name| *name != "lost+found" && !is_of_a_store(&name.to_string_lossy())) {
        None => Ok(()),
        Some(other) => Err(Wrong(format!(
            "--store {name}: {other:?} is in it, and no store: take a directory that is empty, or \
             that of a store; nothing was written"
        ))),
    }
}

fn kind(word: &str) -> Result<StoreKind, String> {
    let names: Vec<&str> = StoreKind::known().map(StoreKind::name).collect();
    StoreKind::named(word).ok_or_else(|| format!("there is no such engine; known are {}", names.join(", ")))
}

impl Serve {
    /// Serves until told to stop.
    pub fn run(&self) -> Result<bool, Box<dyn Error>> {
        let config = Config::read(&self.config).map_err(|error| Wrong(error.to_string()))?;
        let (network, retry) = self.network()?;
        if self.check {
            for (name, address) in config.listeners() {
                if let Err(error) = std::net::TcpListener::bind(address) {
                    let whose = "where this centre serves already, that is right";
                    tell!("{}: {name} {address}: {error}; {whose}", self.config.display());
                }
            }
            let count = config.accounts.len();
            let accounts = if count == 1 { "account" } else { "accounts" };
            tell!("{}: {count} {accounts}, no mistake", self.config.display());
            return Ok(true);
        }
        let place = match &self.store {
            Some(word) => Some(place(word, "--store")?),
            None => config.store.clone(),
        };
        let place = place.ok_or_else(|| {
            Wrong("--store DIR: say where the messages are to be kept, or `store = \"DIR\"` in the configuration".into())
        })?;
        if !self.core_dumps {
            super::dump::forbid();
        }
        let kind = match &place {
            Place::Directory(directory) => self.kind(directory)?,
            Place::Server(url) => {
                self.allows_server(url.kind())?;
                url.kind()
            }
            Place::Cluster(_) => {
                self.allows_server(StoreKind::RedisCluster)?;
                StoreKind::RedisCluster
            }
        };
        let mmdb = MmdbOptions {
            segment_mib: self.segment_mib.unwrap_or(MmdbOptions::default().segment_mib),
            ..MmdbOptions::default()
        };
        let log = Log::new(config.log)?;
        let server = Server { config, place, kind, mmdb, network, retry, log: Arc::clone(&log) };
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let done = runtime.block_on(self.until_stopped(server, &log));
        // Sessions of a store may still be in a call that nobody waits for.
        runtime.shutdown_timeout(Duration::from_secs(2));
        // Not before: they hold the store, and who reads this opens it next.
        if done.is_ok() {
            log.at(Level::Info, "stopped");
        }
        log.flush();
        done
    }

    async fn until_stopped(&self, server: Server, log: &Arc<Log>) -> Result<bool, Box<dyn Error>> {
        let (to, wishes) = watch::channel(Wish::None);
        let to = Arc::new(to);
        hear_stops(Arc::clone(&to), Arc::clone(log))?;
        let mut hang_up = signal(SignalKind::hangup())?;
        let (path, of_signals) = (self.config.clone(), Arc::clone(log));
        let signals = tokio::spawn(async move {
            let (mut reading, mut again) = (None, false);
            loop {
                tokio::select! {
                    _ = hang_up.recv() => {
                        // One that comes while files are read counts for what they say afterwards.
                        again = reading.is_some();
                        reading.get_or_insert_with(|| begin_reading(&path));
                    }
                    read = what_was_read(&mut reading) => {
                        match read {
                            Ok(config) => _ = to.send_if_modified(|wish| reload(wish, config)),
                            Err(problem) => {
                                let message = format!("{problem}; the old configuration holds");
                                of_signals.at(Level::Error, "not_reloaded").text("message", &message);
                            }
                        }
                        reading = std::mem::take(&mut again).then(|| begin_reading(&path));
                    }
                }
            }
        });
        let served = serve(server, wishes, |event| match event {
            Event::Listens { smpp, tls, http, api, admin, freed } => {
                if freed > 0 {
                    let message = "were in flight when the store was closed, and are delivered again";
                    log.at(Level::Warn, "recovered").text("message", &format!("{freed} messages {message}"));
                }
                let at = |event, address: Option<std::net::SocketAddr>, path| {
                    if let Some(address) = address {
                        log.at(Level::Info, event).text("address", &format!("http://{address}{path}"));
                    }
                };
                at("metrics", http, "/metrics");
                at("api", api, "/");
                at("admin", admin, "/");
                if let Some(tls) = tls {
                    log.at(Level::Info, "listening_tls").text("address", &tls.to_string());
                }
                log.at(Level::Info, "listening").text("address", &smpp.to_string());
            }
            Event::Stops => drop(log.at(Level::Info, "stopping")),
            Event::Reloads(Ok(())) => drop(log.at(Level::Info, "reloaded")),
            Event::Reloads(Err(problem)) => {
                drop(log.at(Level::Error, "not_reloaded").text("message", problem))
            }
        });
        served.await?;
        signals.abort();
        Ok(true)
    }

    /// Refuses what is of a directory's store.
    fn allows_server(&self, of_url: StoreKind) -> Result<(), Wrong> {
        if self.segment_mib.is_some() {
            return Err(Wrong("--segment-mib is mmdb's, and the store is a URL: leave it out".into()));
        }
        match self.engine {
            Some(kind) if kind != of_url => Err(Wrong(format!(
                "--engine {}: the store is a URL: leave the option out; the URL says what it is",
                kind.name()
            ))),
            _ => Ok(()),
        }
    }

    /// The engine of the store that is there, or the one asked for.
    fn kind(&self, directory: &std::path::Path) -> Result<StoreKind, Box<dyn Error>> {
        let found = StoreKind::found_in(directory)?;
        match (self.engine, found.as_slice()) {
            (wanted, []) => {
                check_room(directory)?;
                Ok(wanted.unwrap_or(StoreKind::Mmdb))
            }
            (None, [found, ..]) => Ok(*found),
            (Some(wanted), found) if found.iter().any(|kind| kind.is_like(wanted)) => Ok(wanted),
            (Some(wanted), [found, ..]) => {
                let (path, found, wanted) = (directory.display(), found.name(), wanted.name());
                Err(Wrong(format!("--engine {wanted}: the store in {path} is one of {found}; leave the option out, or take another directory")).into())
            }
        }
    }

    fn network(&self) -> Result<(NetworkProfile, RetryPolicy), Wrong> {
        let (profile, retry) = match self.network.to_str() {
            Some("perfect") => (NetworkProfile::perfect(1), RetryPolicy::accelerated(1)),
            Some("field") => (NetworkProfile::default(), RetryPolicy::accelerated(1)),
            _ => NetworkProfile::read(&self.network).map_err(|error| {
                let hint = if error.line == 0 { "; give perfect, field or the name of a file" } else { "" };
                Wrong(format!("--network {error}{hint}"))
            })?,
        };
        let (longest_us, lease_us) =
            (profile.longest_attempt_us(), StoreKind::Mmdb.rules().lease_us.unsigned_abs());
        if longest_us >= lease_us {
            return Err(Wrong(format!(
                "--network {}: an attempt may take {} s, and a claim ends after {} s; take shorter latencies",
                self.network.display(),
                longest_us / 1_000_000,
                lease_us / 1_000_000
            )));
        }
        Ok((profile, retry))
    }
}
