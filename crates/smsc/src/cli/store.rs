//! The options that choose a store.

use super::place::place;
use super::wrong::Wrong;
use clap::Args;
use mmdb::{Locking, LogKind};
use serde::Serialize;
use smsc::model::UnloggedTables;
use smsc::store::{MmdbOptions, Place, StoreKind};
use std::ffi::OsString;
use std::path::PathBuf;

/// Which store, and mmdb's axes.
#[derive(Args)]
pub struct StoreArgs {
    /// Where messages live: mmdb, sqlite, sqlite-naive, postgresql, postgresql-grouped,
    /// postgresql-batched, postgresql-statements, redis-cluster (six nodes on this machine)
    /// [default: mmdb; where there is a store, that one]. Only mmdb has the Flusher, which moves
    /// final messages to an archive meanwhile.
    /// A bench also takes postgresql://USER@HOST/DATABASE?schema=NAME, a schema of a server that is
    /// there already, with form=calls, grouped, batched or statements [default: batched]: it has to
    /// be empty or not there, and is as before afterwards. Or
    /// redis-cluster://HOST:PORT,HOST:PORT/?prefix=NAME, in the same way.
    #[arg(long, value_parser = word)]
    pub store: Option<StoreWord>,
    /// mmdb: leave tables out of the log, which are made again from others at the start (selective
    /// logging): some of encoded_msg, to_delivery, scheduled_msg, ms_state, retry_timer, sent, as
    /// in --selective=ms_state,sent, or all of them. A store that is there keeps to what it was
    /// made with.
    #[arg(long, value_name = "TABLES", help_heading = "Axes of mmdb", num_args = 0..=1, require_equals = true,
          default_missing_value = "all")]
    selective: Option<UnloggedTables>,
    /// mmdb: log whole rows instead of differences.
    #[arg(long, help_heading = "Axes of mmdb")]
    after_images: bool,
    /// mmdb: one flush for each commit instead of one for all that wait.
    #[arg(long, help_heading = "Axes of mmdb")]
    no_group_commit: bool,
    /// mmdb: log streams (parallel logging) [default: 1].
    #[arg(long, help_heading = "Axes of mmdb", value_parser = clap::value_parser!(u16).range(1..=256))]
    streams: Option<u16>,
    /// mmdb: where a log stream is to be, if elsewhere: the first is for stream 0, the next for
    /// stream 1, and so on; several pay with several devices. A bench makes a directory of its own
    /// there for each row and deletes it afterwards; a check wants the directory that the log
    /// itself is in.
    #[arg(long, value_name = "DIR", help_heading = "Axes of mmdb")]
    pub stream_dir: Vec<PathBuf>,
    /// mmdb: size of a log segment, MiB; small ones on slow disks, which take long to fill one with
    /// zeros beforehand [default: 64].
    #[arg(long, help_heading = "Axes of mmdb", value_parser = clap::value_parser!(u64).range(1..=1024))]
    segment_mib: Option<u64>,
    /// mmdb: what is locked besides stations [none, record, page, container; default: none].
    #[arg(long, value_parser = locking, help_heading = "Axes of mmdb")]
    locking: Option<Locking>,
}

/// What `--store` names.
#[derive(Clone)]
pub enum StoreWord {
    /// A kind of store.
    Kind(StoreKind),
    /// A URL, read later: what clap says of a wrong value repeats it, with its password.
    Url(OsString),
}

fn word(word: &str) -> Result<StoreWord, String> {
    if word.contains("://") {
        return Ok(StoreWord::Url(word.into()));
    }
    kind(word).map(StoreWord::Kind)
}

fn kind(word: &str) -> Result<StoreKind, String> {
    let names = || StoreKind::known().map(StoreKind::name);
    StoreKind::named(word).ok_or_else(|| {
        let near = names().max_by(|a, b| strsim::jaro(word, a).total_cmp(&strsim::jaro(word, b)));
        let near = near
            .filter(|name| strsim::jaro(word, name) > 0.7)
            .map_or(String::new(), |name| format!(" (did you mean {name}?)"));
        format!("there is no store of this name{near}; known are {}", names().collect::<Vec<_>>().join(", "))
    })
}

fn locking(word: &str) -> Result<Locking, String> {
    match word {
        "none" => Ok(Locking::None),
        "record" => Ok(Locking::Record),
        "page" => Ok(Locking::Page),
        "container" => Ok(Locking::Container),
        _ => Err("known are none, record, page, container".into()),
    }
}

/// mmdb's axes in a row of JSON.
#[derive(Serialize)]
pub struct Axes {
    selective: bool,
    unlogged: Vec<&'static str>,
    after_images: bool,
    group_commit: bool,
    streams: usize,
    stream_dirs: Vec<String>,
    segment_mib: u64,
    locking: &'static str,
}

impl StoreArgs {
    /// The kind that was asked for, if one was.
    pub fn kind(&self) -> Option<StoreKind> {
        match self.store.as_ref()? {
            StoreWord::Kind(kind) => Some(*kind),
            // A URL that is wrong is refused before anything else is done.
            StoreWord::Url(word) => match Place::parse(word) {
                Ok(Place::Server(url)) => Some(url.kind()),
                Ok(Place::Cluster(_)) => Some(StoreKind::RedisCluster),
                _ => None,
            },
        }
    }

    /// The URL that was given, if one was.
    pub fn url(&self) -> Result<Option<Place>, Wrong> {
        let Some(StoreWord::Url(word)) = &self.store else { return Ok(None) };
        match place(word, "--store")? {
            Place::Directory(_) => Ok(None),
            place => Ok(Some(place)),
        }
    }

    /// Refuses mmdb's axes for another store, where they would change nothing.
    pub fn allows_axes(&self, kind: StoreKind) -> Result<(), Wrong> {
        let given = [
            ("selective", self.selective.is_some()),
            ("after-images", self.after_images),
            ("no-group-commit", self.no_group_commit),
            ("streams", self.streams.is_some()),
            ("stream-dir", !self.stream_dir.is_empty()),
            ("segment-mib", self.segment_mib.is_some()),
            ("locking", self.locking.is_some()),
        ];
        if kind != StoreKind::Mmdb
            && let Some((axis, _)) = given.iter().find(|axis| axis.1)
        {
            let what = format!("--{axis} is an axis of mmdb, and the store is {}: leave it out", kind.name());
            return Err(Wrong(what));
        }
        let (dirs, streams) = (self.stream_dir.len(), usize::from(self.streams.unwrap_or(1)));
        if dirs > streams {
            return Err(Wrong(format!(
                "--stream-dir: given {dirs} times, and there are {streams} --streams"
            )));
        }
        Ok(())
    }

    /// mmdb's axes, as they were asked for.
    pub fn axes(&self) -> Axes {
        let options = self.mmdb();
        Axes {
            selective: !options.unlogged.is_empty(),
            unlogged: options.unlogged.tables().map(|table| table.name).collect(),
            after_images: options.log_kind == LogKind::AfterImage,
            group_commit: options.group_commit,
            streams: options.streams,
            stream_dirs: options.stream_dirs.iter().map(|dir| dir.display().to_string()).collect(),
            segment_mib: options.segment_mib,
            locking: match options.locking {
                Locking::None => "none",
                Locking::Record => "record",
                Locking::Page => "page",
                Locking::Container => "container",
            },
        }
    }

    /// mmdb's options.
    pub fn mmdb(&self) -> MmdbOptions {
        let usual = MmdbOptions::default();
        MmdbOptions {
            streams: self.streams.unwrap_or(1).into(),
            stream_dirs: self.stream_dir.clone(),
            segment_mib: self.segment_mib.unwrap_or(usual.segment_mib),
            log_kind: if self.after_images { LogKind::AfterImage } else { LogKind::Differential },
            group_commit: !self.no_group_commit,
            unlogged: self.selective.unwrap_or_default(),
            locking: self.locking.unwrap_or(Locking::None),
            ..usual
        }
    }
}
