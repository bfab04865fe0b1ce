//! The options that choose a store.

use clap::Args;
use mmdb::{Locking, LogKind};
use serde::Serialize;
use smsc::store::{MmdbOptions, StoreKind};
use std::path::PathBuf;

/// Which store, and mmdb's axes.
#[derive(Args)]
pub struct StoreArgs {
    /// Where messages live: mmdb, sqlite, sqlite-naive, postgresql, postgresql-grouped, postgresql-statements [default: mmdb; where
    /// there is a store, that one].
    #[arg(long, value_parser = kind)]
    pub store: Option<StoreKind>,
    /// mmdb: leave tables out of the log that can be made again from others (selective logging).
    #[arg(long, help_heading = "Axes of mmdb")]
    selective: bool,
    /// mmdb: log whole rows instead of differences.
    #[arg(long, help_heading = "Axes of mmdb")]
    after_images: bool,
    /// mmdb: one flush for each commit instead of one for all that wait.
    #[arg(long, help_heading = "Axes of mmdb")]
    no_group_commit: bool,
    /// mmdb: log streams (parallel logging).
    #[arg(long, default_value_t = 1, help_heading = "Axes of mmdb", value_parser = clap::value_parser!(u16).range(1..=256))]
    streams: u16,
    /// mmdb: where a log stream is to be, if elsewhere: the first is for stream 0, the next for stream 1, and so on; several pay with
    /// several devices. A bench makes a directory of its own there for each row and deletes it afterwards; a check wants the
    /// directory that the log itself is in.
    #[arg(long, value_name = "DIR", help_heading = "Axes of mmdb")]
    pub stream_dir: Vec<PathBuf>,
    /// mmdb: size of a log segment, MiB; small ones on slow disks, which take long to fill one with zeros beforehand.
    #[arg(long, default_value_t = 64, help_heading = "Axes of mmdb", value_parser = clap::value_parser!(u64).range(1..=1024))]
    segment_mib: u64,
    /// mmdb: what is locked besides stations [none, record, page, container].
    #[arg(long, default_value = "none", value_parser = locking, help_heading = "Axes of mmdb")]
    locking: Locking,
}

fn kind(word: &str) -> Result<StoreKind, String> {
    let names = || StoreKind::ALL.into_iter().map(StoreKind::name);
    StoreKind::named(word).ok_or_else(|| {
        let near = names().max_by(|a, b| strsim::jaro(word, a).total_cmp(&strsim::jaro(word, b)));
        let near = near
            .filter(|it| strsim::jaro(word, it) > 0.7)
            .map_or(String::new(), |it| format!("; did you mean {it}?"));
        format!("there is no store of this name{near} Known are {}", names().collect::<Vec<_>>().join(", "))
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
    after_images: bool,
    group_commit: bool,
    streams: usize,
    stream_dirs: Vec<String>,
    segment_mib: u64,
    locking: &'static str,
}

impl StoreArgs {
    /// mmdb's axes, as they were asked for.
    pub fn axes(&self) -> Axes {
        let options = self.mmdb();
        Axes {
            selective: options.selective,
            after_images: options.log_kind == LogKind::AfterImage,
            group_commit: options.group_commit,
            streams: options.streams,
            stream_dirs: options.stream_dirs.iter().map(|it| it.display().to_string()).collect(),
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
        MmdbOptions {
            streams: self.streams.into(),
            stream_dirs: self.stream_dir.clone(),
            segment_mib: self.segment_mib,
            log_kind: if self.after_images { LogKind::AfterImage } else { LogKind::Differential },
            group_commit: !self.no_group_commit,
            selective: self.selective,
            locking: self.locking,
            ..MmdbOptions::default()
        }
    }
}
