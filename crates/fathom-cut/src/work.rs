//! The work of a run, here or in a guest.

use std::collections::BTreeSet;
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
    /// As in [`crate::Script`].
    pub closes: BTreeSet<u64>,
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
        true => write_back::beside(&order.directory, order.seed, |syncs| {
            let part = (order.steps.len() as u64).div_ceil(write_back::PARTS).max(1);
            let told_and_kept_up = |number: u64| {
                let goes_on = told(number)?;
                if number.is_multiple_of(part) {
                    syncs.keep_up();
                }
                Ok(goes_on)
            };
            work_alone(order, &told_and_kept_up)
        }),
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
    let connect = || {
        let mut connection = engine.connect(DATABASE).map_err(failed)?;
        if order.confined {
            connection.confine().map_err(failed)?;
        }
        Ok::<_, CutError>(connection)
    };
    let mut connection = connect()?;
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
        // Nobody is told of what closing does. Behind the last step it is closed anyway.
        if order.closes.contains(&number) && number < order.steps.len() as u64 {
            connection.close().map_err(failed)?;
            connection = connect()?;
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

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::BTreeMap;

    use super::*;

    /// What happened: an application that opens its database anew for each commit was done on one
    /// connection, so that its log was never copied into the database as it is where it closes.
    #[test]
    fn behind_a_step_that_closes_the_log_begins_anew() {
        let of = |closes: BTreeSet<u64>| {
            let place = tempfile::tempdir().unwrap();
            let settings = BTreeMap::from([("journal_mode".to_owned(), serde_json::Value::from("wal"))]);
            let steps = ["CREATE TABLE t(a)", "INSERT INTO t VALUES(1)", "INSERT INTO t VALUES(2)"];
            let order = RunRequest {
                engine: EngineSpec { name: "sqlite".into(), settings },
                steps: steps.map(str::to_owned).to_vec(),
                prepared: 1,
                closes,
                seed: 1,
                confined: true,
                write_back: false,
                directory: place.path().to_owned(),
                marked: place.path().to_owned(),
            };
            let bytes = RefCell::new(Vec::new());
            let told = |_: u64| -> Result<bool, CutError> {
                let log = std::fs::metadata(place.path().join("cut.db-wal")).unwrap();
                bytes.borrow_mut().push(log.len());
                Ok(true)
            };
            assert!(work(&order, &told).unwrap().content.is_some());
            bytes.into_inner()
        };
        let (open, closed) = (of(BTreeSet::new()), of(BTreeSet::from([2, 3])));
        assert_eq!(open[..2], closed[..2]);
        assert!(open[1] < open[2] && closed[2] < closed[1], "{open:?} {closed:?}");
    }
}
