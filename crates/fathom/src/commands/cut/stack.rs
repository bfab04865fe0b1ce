//! What a cell is recorded on, and how its device behaves at a cut.

use std::path::Path;

use fathom_cut::{Behaviour, Keeps, has_server};
use fathom_device::{Kind, Model};
use fathom_stack::{Machine, StackSpec};

use super::cells::Cell;
use crate::cli::{CutArgs, KeepsArg};
use crate::outcome::Error;

/// Smallest image that every file system of a kind takes, beyond its own smallest, MiB.
const SIZE_MIB: u64 = 64;
/// The same where a cluster of PostgreSQL's lies on it, which has 40 MiB and as much log.
const CLUSTER_MIB: u64 = 256;

/// What a cell is recorded on.
pub(super) fn stack(asked: &CutArgs, cell: &Cell, machine: &Machine, directory: &Path) -> StackSpec {
    let smallest = machine.filesystem(&cell.filesystem).map_or(0, |filesystem| filesystem.min_mib);
    let usual = if has_server(&asked.engine, &cell.settings) { CLUSTER_MIB } else { SIZE_MIB };
    StackSpec {
        place: cell.filesystem.as_str().into(),
        mkfs: asked.mkfs.clone(),
        mount: asked.mount.clone(),
        size_mib: asked.size.unwrap_or(usual.max(smallest)),
        log_mib: asked.log,
        directory: Some(directory.to_owned()),
        device: Some(asked.device.clone()),
        device_seed: asked.seed,
        guest: asked.guest,
        ..StackSpec::default()
    }
}

/// How the device behaves at a cut: as told, else as its model says.
pub(super) fn behaviour(asked: &CutArgs, model: &Model) -> Result<Behaviour, Error> {
    let keeps = match asked.keeps {
        Some(KeepsArg::Flushed) => Keeps::Flushed,
        Some(KeepsArg::Lying) => Keeps::Lies,
        Some(KeepsArg::Protected) => Keeps::Answered,
        None if model.kind == Kind::Protected => Keeps::Answered,
        None => Keeps::Flushed,
    };
    let tear_bytes = match asked.tear {
        None => model.tear_bytes,
        Some(bytes @ (512 | 4096)) => bytes,
        Some(bytes) => return Err(Error::usage(format!("--tear {bytes}: it is 512 or 4096 bytes"))),
    };
    Ok(Behaviour { keeps, tear_bytes })
}
