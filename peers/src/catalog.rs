//! The peers by name.

use crate::batcher::Batcher;
use crate::cell::CellSpec;
use crate::floor::Floor;
use crate::peer::{AsIs, Engine, Peer};
use crate::{fjall_store, lmdb, mmdb_store, postgres, redb_store, redis, rocks, sqlite, tarantool};
use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// How clients wait.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, Debug)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Each client has one transaction under way.
    Blocking,
    /// Each client has a window of transactions under way.
    Asynchronous,
}

/// One row of the comparison.
pub struct Entry {
    /// Name, as `--only` takes it.
    pub name: &'static str,
    /// In which modes it runs.
    pub modes: &'static [Mode],
    /// The program without which it cannot run, for the servers.
    pub needs: Option<&'static str>,
    /// Whether it takes part in the mix: its clients read and scan.
    pub reads: bool,
}

const BOTH: &[Mode] = &[Mode::Blocking, Mode::Asynchronous];
const BLOCKING: &[Mode] = &[Mode::Blocking];

/// All of them.
pub const PEERS: &[Entry] = &[
    Entry { name: "floor", modes: BOTH, needs: None, reads: false },
    Entry { name: "mmdb", modes: BOTH, needs: None, reads: true },
    Entry { name: "tarantool", modes: BOTH, needs: Some("tarantool"), reads: false },
    Entry { name: "rocksdb", modes: BLOCKING, needs: None, reads: true },
    Entry { name: "rocksdb-pipelined", modes: BLOCKING, needs: None, reads: true },
    Entry { name: "rocksdb-batched", modes: BOTH, needs: None, reads: true },
    Entry { name: "fjall", modes: BLOCKING, needs: None, reads: true },
    Entry { name: "fjall-batched", modes: BOTH, needs: None, reads: true },
    Entry { name: "lmdb", modes: BLOCKING, needs: None, reads: true },
    Entry { name: "lmdb-batched", modes: BOTH, needs: None, reads: true },
    Entry { name: "redb", modes: BLOCKING, needs: None, reads: true },
    Entry { name: "redb-batched", modes: BOTH, needs: None, reads: true },
    Entry { name: "sqlite", modes: BLOCKING, needs: None, reads: true },
    Entry { name: "sqlite-batched", modes: BOTH, needs: None, reads: true },
    Entry { name: "redis", modes: BOTH, needs: Some("redis-server"), reads: false },
    Entry { name: "postgres", modes: BOTH, needs: Some("initdb"), reads: false },
    Entry { name: "postgres-batched", modes: &[Mode::Asynchronous], needs: Some("initdb"), reads: false },
];

/// Opens a peer in its directory, recovering what is there.
pub fn open(spec: &CellSpec) -> Result<Box<dyn Peer>> {
    let (dir, sustained) = (&spec.dir, spec.sustained);
    std::fs::create_dir_all(dir)?;
    Ok(match spec.peer.as_str() {
        "floor" => {
            // Room for more than any disk here takes: 250 MB/s while asynchronous, 80 MB/s while
            // blocking.
            let rate = if spec.mode == Mode::Asynchronous { 250e6 } else { 80e6 };
            Box::new(Floor::open(dir, (rate * (spec.receive_s + spec.deliver_s + spec.mix_s)) as u64)?)
        }
        "mmdb" => Box::new(mmdb_store::Mmdb::open(dir, sustained)?),
        "tarantool" => Box::new(tarantool::Tarantool::open(dir)?),
        "redis" => Box::new(redis::Redis::open(dir)?),
        "postgres" => Box::new(postgres::Postgres::open(dir, false)?),
        "postgres-batched" => Box::new(postgres::Postgres::open(dir, true)?),
        name => match name.strip_suffix("-batched").unwrap_or(name) {
            "rocksdb" => engine(name, dir, |dir| rocks::Rocks::open(dir, sustained, false))?,
            "rocksdb-pipelined" => engine(name, dir, |dir| rocks::Rocks::open(dir, sustained, true))?,
            "fjall" => engine(name, dir, |dir| fjall_store::Fjall::open(dir, sustained))?,
            "lmdb" => engine(name, dir, lmdb::Lmdb::open)?,
            "redb" => engine(name, dir, redb_store::Redb::open)?,
            "sqlite" => engine(name, dir, sqlite::Sqlite::open)?,
            _ => bail!("no peer is called {name}"),
        },
    })
}

/// An engine as is, or behind the batching writer if the name says so.
fn engine<E: Engine + 'static>(
    name: &str,
    dir: &Path,
    open: impl Fn(&Path) -> Result<E>,
) -> Result<Box<dyn Peer>> {
    let engine = open(dir)?;
    Ok(if name.ends_with("-batched") { Box::new(Batcher::new(engine)) } else { Box::new(AsIs(engine)) })
}
