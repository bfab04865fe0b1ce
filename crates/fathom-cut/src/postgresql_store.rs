//! PostgreSQL on the device: a private server's directory, its recovery by the real server, and its
//! own checks.
//!
//! The work is the built-in script, which PostgreSQL takes as SQLite does, and a checkpoint after
//! every twenty commits, so that some hundred commits see whole pages in the log, pages of the
//! tables and log files that are used again. What the tables hold after each commit is found by
//! SQLite in memory: no code of the server that is tried judges it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use fathom_workload::engine::{Connection, EngineError, EngineInfo, MACHINE, Value, start_engine};
use fathom_workload::spec::{Durability, EngineSpec};
use rusqlite::OptionalExtension;
use serde_json::Value as Json;

use crate::acknowledged::{AcknowledgedContents, Script, confined, execute};
use crate::content::Hasher;
use crate::engines::POSTGRESQL;
use crate::error::CutError;
use crate::inspection::Inspection;
use crate::verdict::Verdict;

/// Name of the database in the cluster.
const DATABASE: &str = "cut";
/// Below the directory that a server is given.
const CLUSTER: &str = "postgresql";
/// A checkpoint after so many commits.
const CHECKPOINT: u64 = 20;
/// The tables of the built-in script, and how a table's rows are read.
const TABLES: [(&str, &str); 2] = [
    ("account", "SELECT id, changed, name FROM account ORDER BY id"),
    ("entry", "SELECT id, body FROM entry ORDER BY id"),
];

fn failed(error: EngineError) -> CutError {
    CutError::Database { what: error.subject, problem: error.message }
}

/// Does the script in a directory; `acknowledged` is told of each step once it is durable.
///
/// # Errors
/// PostgreSQL is not installed, or what it said.
pub(crate) fn work(
    directory: &Path,
    settings: &BTreeMap<String, Json>,
    steps: &[String],
    acknowledged: &mut dyn FnMut(u64) -> Result<bool, CutError>,
) -> Result<(EngineInfo, Durability, Option<u128>), CutError> {
    let spec = EngineSpec { name: POSTGRESQL.into(), settings: settings.clone() };
    let engine = start_engine(&spec, directory).map_err(failed)?;
    let mut connection = engine.connect(DATABASE).map_err(failed)?;
    let mut execute = |sql: &str| connection.execute_script(sql).map_err(failed);
    let goes_on = done(steps, &mut execute, acknowledged)?;
    let content = if goes_on { Some(content(&mut *connection).map_err(failed)?) } else { None };
    connection.close().map_err(failed)?;
    Ok((engine.info(), engine.durability(), content))
}

/// Does the steps, with a checkpoint after every so many of them; gives whether to go on behind the
/// last. A step is acknowledged before its checkpoint begins: what a cut takes during that is lost.
fn done(
    steps: &[String],
    execute: &mut dyn FnMut(&str) -> Result<(), CutError>,
    acknowledged: &mut dyn FnMut(u64) -> Result<bool, CutError>,
) -> Result<bool, CutError> {
    for (number, step) in (1..).zip(steps) {
        execute(step)?;
        if !acknowledged(number)? {
            return Ok(false);
        }
        if number % CHECKPOINT == 0 {
            execute("CHECKPOINT")?;
        }
    }
    Ok(true)
}

/// What the tables hold after each step, by SQLite in memory.
///
/// # Errors
/// SQLite's.
pub(crate) fn acknowledged(script: &Script) -> Result<AcknowledgedContents, CutError> {
    let failed = || CutError::database("a database in memory");
    let database = confined().map_err(failed())?;
    let content = || -> rusqlite::Result<u128> {
        let mut hasher = Hasher::new();
        for (table, rows) in TABLES {
            let there = "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?1";
            if database.query_row(there, [table], |_| Ok(())).optional()?.is_none() {
                continue;
            }
            hasher.add(table.as_bytes());
            let mut rows = database.prepare(rows)?;
            let columns = rows.column_count();
            let mut rows = rows.query([])?;
            while let Some(row) = rows.next()? {
                for column in 0..columns {
                    let text = match row.get_ref(column)? {
                        rusqlite::types::ValueRef::Integer(number) => number.to_string(),
                        other => String::from_utf8_lossy(other.as_bytes()?).into_owned(),
                    };
                    hasher.add(text.as_bytes());
                }
            }
        }
        Ok(hasher.end())
    };
    let mut all = vec![content().map_err(failed())?];
    for step in &script.steps {
        execute(&database, step).map_err(failed())?;
        all.push(content().map_err(failed())?);
    }
    Ok(AcknowledgedContents::of_contents(&all))
}

/// What the server's tables hold.
fn content(connection: &mut dyn Connection) -> Result<u128, EngineError> {
    let mut hasher = Hasher::new();
    for (table, rows) in TABLES {
        let there = connection.prepare(&format!("SELECT to_regclass('{table}') IS NOT NULL"))?;
        let mut is_there = false;
        connection.query(there, &[], &mut |row| is_there = row == [Value::Integer(1)])?;
        if !is_there {
            continue;
        }
        hasher.add(table.as_bytes());
        let rows = connection.prepare(rows)?;
        connection.query(rows, &[], &mut |row| {
            for column in row {
                let text = match column {
                    Value::Integer(number) => number.to_string(),
                    Value::Text(text) => text.clone(),
                    other => format!("{other:?}"),
                };
                hasher.add(text.as_bytes());
            }
        })?;
    }
    Ok(hasher.end())
}

/// A cluster as a machine finds it that was switched on again: the processes that its files name
/// are gone, whoever has their numbers now. A server that found no cluster would make one.
///
/// # Errors
/// In words: it is none.
pub(crate) fn switched_on(directory: &Path) -> Result<(), String> {
    let cluster: PathBuf = directory.join(CLUSTER);
    let version = cluster.join("PG_VERSION");
    if !version.is_file() {
        return Err("there is no PG_VERSION in the cluster".into());
    }
    match std::fs::remove_file(cluster.join("postmaster.pid")) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("postmaster.pid cannot be removed: {error}"))
        }
        _ => Ok(()),
    }
}

/// Has the server recover a cluster, checks tables and indexes (`amcheck`, where it is installed),
/// and reads it.
pub(crate) fn recover(directory: &Path, settings: &BTreeMap<String, Json>) -> Inspection {
    if let Err(problem) = switched_on(directory) {
        return Inspection::Bad(Verdict::CannotBeOpened(problem));
    }
    // What is recovered here need not outlive a second cut.
    let mut own: BTreeMap<String, Json> =
        [("fsync", false), ("autovacuum", false)].map(|(key, value)| (key.to_owned(), value.into())).into();
    own.extend(settings.get("bin_directory").map(|place| ("bin_directory".to_owned(), place.clone())));
    let spec = EngineSpec { name: POSTGRESQL.into(), settings: own };
    let opened = start_engine(&spec, directory).and_then(|engine| Ok((engine.connect(DATABASE)?, engine)));
    let (mut connection, engine) = match opened {
        Ok(opened) => opened,
        Err(error) => return found_by(error, Verdict::CannotBeOpened),
    };
    let read = amcheck(&mut *connection).and_then(|()| content(&mut *connection));
    let found = match read {
        Ok(content) => Inspection::Content(content),
        Err(error) => found_by(error, Verdict::Corrupt),
    };
    // It is read; how the conversation ends says nothing of what was found.
    let _ = connection.close();
    drop(engine);
    found
}

/// What an error says of a cluster: nothing, where it is the machine's.
fn found_by(error: EngineError, verdict: fn(String) -> Verdict) -> Inspection {
    match error.code {
        MACHINE => Inspection::Unseen(format!("{}: {}", error.subject, error.message)),
        _ => Inspection::Bad(verdict(error.message)),
    }
}

/// Checks the tables of the script and their indexes, each entry of a table against the index too.
fn amcheck(connection: &mut dyn Connection) -> Result<(), EngineError> {
    let known = connection.prepare("SELECT 1 FROM pg_available_extensions WHERE name = 'amcheck'")?;
    if connection.query(known, &[], &mut |_| ())? == 0 {
        return Ok(());
    }
    connection.execute_script("SET client_min_messages = warning; CREATE EXTENSION IF NOT EXISTS amcheck")?;
    let indexes = "SELECT bt_index_check(index.oid::regclass, true) FROM pg_class index \
                   JOIN pg_am am ON am.oid = index.relam WHERE am.amname = 'btree' AND index.relkind = 'i' \
                   AND index.relnamespace = 'public'::regnamespace";
    connection.execute_script(indexes)?;
    let tables = "SELECT found.msg FROM pg_class t, verify_heapam(t.oid::regclass) found \
                  WHERE t.relkind = 'r' AND t.relnamespace = 'public'::regnamespace LIMIT 1";
    let tables = connection.prepare(tables)?;
    let mut problem = None;
    connection.query(tables, &[], &mut |row| problem = row.first().map(|text| format!("{text:?}")))?;
    match problem {
        Some(message) => Err(EngineError { subject: "verify_heapam".into(), message, code: 0 }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use fathom_workload::engine::postgresql_programs;

    /// What happened: a machine without PostgreSQL, to which a recording was carried, said of every
    /// state that its database cannot be opened.
    #[test]
    fn a_server_that_is_not_there_says_nothing_of_a_cluster() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join(CLUSTER)).unwrap();
        std::fs::write(directory.path().join(CLUSTER).join("PG_VERSION"), "17\n").unwrap();
        let settings = BTreeMap::from([("bin_directory".to_owned(), Json::from("/nonexistent"))]);
        let found = recover(directory.path(), &settings);
        assert!(matches!(&found, Inspection::Unseen(said) if said.contains("/nonexistent")), "{found:?}");
        let error = |code| EngineError { subject: "x".into(), message: "y".into(), code };
        assert!(matches!(found_by(error(MACHINE), Verdict::Corrupt), Inspection::Unseen(_)));
        assert!(matches!(found_by(error(0), Verdict::Corrupt), Inspection::Bad(Verdict::Corrupt(_))));
    }

    /// What happened: the twentieth commit was acknowledged after the checkpoint behind it, so that
    /// in all states of the checkpoint, in which the log's files are used again, it might be
    /// missing and was *kept* all the same.
    #[test]
    fn a_commit_is_acknowledged_before_its_checkpoint() {
        let steps: Vec<String> = (1..=21).map(|step| format!("step {step}")).collect();
        let seen = std::cell::RefCell::new(Vec::new());
        let goes_on = |until: u64| {
            let mut execute = |sql: &str| {
                seen.borrow_mut().push(sql.to_owned());
                Ok(())
            };
            let mut acknowledged = |step: u64| {
                seen.borrow_mut().push(format!("acknowledged {step}"));
                Ok(step < until)
            };
            done(&steps, &mut execute, &mut acknowledged).unwrap()
        };
        assert!(goes_on(99));
        let last = ["step 20", "acknowledged 20", "CHECKPOINT", "step 21", "acknowledged 21"];
        assert_eq!(seen.borrow()[38..], last);
        seen.borrow_mut().clear();
        assert!(!goes_on(2));
        assert_eq!(*seen.borrow(), ["step 1", "acknowledged 1", "step 2", "acknowledged 2"]);
    }

    /// SQLite says what PostgreSQL must hold: they read the script alike.
    #[test]
    fn the_model_is_what_the_server_holds_after_each_step() {
        if postgresql_programs(None).is_err() {
            println!("SKIP: needs PostgreSQL (apt-get install postgresql)");
            return;
        }
        let script = Script::built_in(35, 5);
        let model = acknowledged(&script).unwrap();
        let directory = tempfile::tempdir_in("/var/tmp").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(directory.path(), mode).unwrap();
        let settings = BTreeMap::from([("fsync".to_owned(), Json::from(false))]);
        let mut steps = 0;
        let (_, promise, content) = work(directory.path(), &settings, &script.steps, &mut |step| {
            steps = step;
            Ok(true)
        })
        .unwrap();
        assert_eq!((steps, promise), (36, Durability::ProcessCrash));
        assert!(model.ends_with(content.unwrap()));
        let Inspection::Content(content) = recover(directory.path(), &BTreeMap::new()) else {
            panic!("unread")
        };
        assert_eq!((model.judge(content, 36), model.judge(content, 37)), (Verdict::Kept, Verdict::Lost(1)));
        std::fs::remove_file(directory.path().join("postgresql/PG_VERSION")).unwrap();
        let found = recover(directory.path(), &BTreeMap::new());
        assert!(
            matches!(&found, Inspection::Bad(Verdict::CannotBeOpened(said)) if said.contains("PG_VERSION"))
        );
    }
}
