//! The work of a run, here or in a guest.

use std::path::{Path, PathBuf};

use fathom_workload::engine::{EngineInfo, start_engine};
use fathom_workload::spec::{Durability, EngineSpec};
use rusqlite::{Connection, OpenFlags};
use serde::{Deserialize, Serialize};

use crate::content::content_of;
use crate::engines::{MMDB, POSTGRESQL, has_own_work};
use crate::error::CutError;
use crate::{centre_store, mmdb_store, postgresql_store, write_back};

/// Name of the database, without its end.
pub(crate) const DATABASE: &str = "cut";

/// What is to be done.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct RunRequest {
    pub engine: EngineSpec,
    pub steps: Vec<String>,
    /// As in [`crate::Script`].
    pub prepared: u64,
    pub seed: u64,
    pub confined: bool,
    /// Whether the file system is synced beside it.
    pub write_back: bool,
    /// On the stack, as the guest names it.
    pub directory: PathBuf,
    /// The host's, where a file of each number that was marked is made.
    pub marked: PathBuf,
}

/// What the program says in the end.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    pub engine: EngineInfo,
    pub promise: Durability,
    pub interrupted: bool,
    pub content: Option<u128>,
}

/// Does the script, step by step; `told` is called with the number of each that was acknowledged,
/// and says whether to go on.
pub(crate) fn work(
    order: &RunRequest,
    told: &dyn Fn(u64) -> Result<bool, CutError>,
) -> Result<Report, CutError> {
    match order.write_back {
        true => write_back::beside(&order.directory, order.seed, || work_alone(order, told)),
        false => work_alone(order, told),
    }
}

fn work_alone(order: &RunRequest, told: &dyn Fn(u64) -> Result<bool, CutError>) -> Result<Report, CutError> {
    let failed = |error: fathom_workload::engine::EngineError| CutError::Database {
        what: error.subject.clone(),
        problem: error.message,
    };
    let mut interrupted = false;
    if has_own_work(&order.engine.name) {
        let mut tell = |number| {
            interrupted = !told(number)?;
            Ok(!interrupted)
        };
        let commits = (order.steps.len() as u64).saturating_sub(1);
        let place = order.directory.join(DATABASE);
        let (settings, seed) = (&order.engine.settings, order.seed);
        if order.engine.name == POSTGRESQL {
            std::fs::create_dir(&place).map_err(CutError::io("make the cluster's directory"))?;
            let (engine, promise, content) =
                postgresql_store::work(&place, settings, &order.steps, &mut tell)?;
            return Ok(Report { engine, promise, interrupted, content });
        }
        let promise = if order.engine.name == MMDB {
            mmdb_store::work(&place, settings, commits, seed, &mut tell)?;
            Durability::PowerCut
        } else {
            centre_store::work(&place, settings, commits, seed, &mut tell)?
        };
        let settings = order.engine.settings.iter().map(|(key, value)| (key.clone(), value.to_string()));
        let engine = EngineInfo {
            name: order.engine.name.clone(),
            version: env!("CARGO_PKG_VERSION").into(),
            build: Vec::new(),
            settings: settings.collect(),
        };
        return Ok(Report { engine, promise, interrupted, content: None });
    }
    let engine = start_engine(&order.engine, &order.directory).map_err(failed)?;
    let mut connection = engine.connect(DATABASE).map_err(failed)?;
    if order.confined {
        connection.confine().map_err(failed)?;
    }
    for (number, step) in (1..).zip(&order.steps) {
        connection.execute_script(step).map_err(failed)?;
        // The first of several that prepare may hold many commits, between which no state is told
        // from another: it is to be there as a whole.
        if number == 1 && order.prepared > 1 {
            let root = std::fs::File::open(&order.directory);
            let root = root.map_err(CutError::io("open the stack's directory"))?;
            rustix::fs::syncfs(&root).map_err(|error| CutError::io("sync the file system")(error.into()))?;
        }
        if !told(number)? {
            interrupted = true;
            break;
        }
    }
    connection.close().map_err(failed)?;
    let content = if interrupted { None } else { Some(left_in(&order.directory)?) };
    Ok(Report { engine: engine.info(), promise: engine.durability(), interrupted, content })
}

/// What the database holds, read by SQLite as it is built in.
fn left_in(directory: &Path) -> Result<u128, CutError> {
    let path = directory.join(format!("{DATABASE}.db"));
    let opened = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY);
    opened
        .and_then(|database| content_of(&database))
        .map_err(CutError::database("the database that was made"))
}
