//! mmdb on the device: a run of its own work, its recovery and its own check.
//!
//! The work is that of the built-in script in mmdb's terms: each commit adds a row of some hundred
//! bytes, changes four of forty others, and from the thirtieth on removes one. The log's segments
//! are small and checkpoints frequent, so that some hundred commits see segments that are recycled
//! and images of all containers.

use std::collections::BTreeMap;
use std::path::Path;

use mmdb::{ColumnType, Database, Error, LogKind, Options, Schema, Table, Value};
use serde_json::Value as Json;
use smsc::store::StoreError;

use crate::acknowledged::{ACCOUNTS, AcknowledgedContents, CHANGED, text};
use crate::content::Hasher;
use crate::error::CutError;
use crate::inspection::Inspection;
use crate::random::stream;
use crate::verdict::Verdict;

/// Bytes of a log segment.
const SEGMENT_BYTES: u64 = 256 << 10;
/// Bytes of the log after which a checkpoint begins.
const CHECKPOINT_BYTES: u64 = 96 << 10;
/// Rows of one table by their key, as JSON.
type Rows = BTreeMap<i64, String>;

/// What a commit does.
struct Commit {
    number: i64,
    body: String,
    accounts: Vec<i64>,
    removed: Option<i64>,
}

impl Commit {
    fn of(number: u64, seed: u64) -> Commit {
        let random = &mut stream(&[seed, number, 7]);
        let bytes = 40 + random.below(600);
        let body = text(random, bytes);
        let accounts = (0..CHANGED).map(|_| random.below(ACCOUNTS).cast_signed()).collect();
        let number = number.cast_signed();
        Commit { number, body, accounts, removed: (number > 30).then_some(number - 30) }
    }
}

/// How it is opened, by the settings of a cell.
///
/// # Errors
/// A setting that it does not have.
pub fn options(settings: &BTreeMap<String, Json>) -> Result<Options, CutError> {
    let mut options = Options {
        segment_bytes: SEGMENT_BYTES,
        max_log_bytes: 64 << 20,
        checkpoint_log_bytes: CHECKPOINT_BYTES,
        container_bytes: 4 << 10,
        recovery_threads: 1,
        ..Options::default()
    };
    for (key, value) in settings {
        let wrong = || {
            CutError::Usage(format!(
                "mmdb: {key}={value}: it takes streams=1..8, log_kind=differential|after-image"
            ))
        };
        match (key.as_str(), value) {
            ("streams", value) => {
                options.streams =
                    value.as_u64().filter(|streams| (1..=8).contains(streams)).ok_or_else(wrong)? as usize;
            }
            ("log_kind", Json::String(kind)) if kind == "differential" => {
                options.log_kind = LogKind::Differential;
            }
            ("log_kind", Json::String(kind)) if kind == "after-image" => {
                options.log_kind = LogKind::AfterImage
            }
            _ => return Err(wrong()),
        }
    }
    Ok(options)
}

fn accounts() -> Schema {
    Schema::new("account")
        .column("id", ColumnType::Int64)
        .column("changed", ColumnType::Int64)
        .column("name", ColumnType::VarText(300))
        .primary_key(&["id"])
}

fn entries() -> Schema {
    Schema::new("entry")
        .column("id", ColumnType::Int64)
        .column("body", ColumnType::VarText(640))
        .primary_key(&["id"])
        .hash_index("by_body", &["body"])
}

fn first(database: &Database, seed: u64) -> Result<(Table, Table), Error> {
    let (account, entry) = (database.create_table(accounts())?, database.create_table(entries())?);
    database.run(|tx| {
        (0..ACCOUNTS).try_for_each(|number| {
            let name = text(&mut stream(&[seed, number]), 300);
            tx.insert(&account, &[number.cast_signed().into(), 0.into(), name.as_str().into()])
        })
    })?;
    Ok((account, entry))
}

fn commit(database: &Database, (account, entry): (&Table, &Table), commit: &Commit) -> Result<(), Error> {
    database.run(|tx| {
        tx.insert(entry, &[commit.number.into(), commit.body.as_str().into()])?;
        for id in &commit.accounts {
            tx.update(account, &[(*id).into()], &[("changed", commit.number.into())])?;
        }
        if let Some(removed) = commit.removed {
            tx.delete(entry, &[removed.into()])?;
        }
        Ok::<(), Error>(())
    })
}

/// Does the work in a directory; `acknowledged` is told of each step once it is durable.
///
/// # Errors
/// mmdb's.
pub(crate) fn work(
    directory: &Path,
    settings: &BTreeMap<String, Json>,
    commits: u64,
    seed: u64,
    acknowledged: &mut dyn FnMut(u64) -> Result<bool, CutError>,
) -> Result<(), CutError> {
    let failed = |error: Error| CutError::Database { what: "mmdb".into(), problem: error.to_string() };
    let database = Database::open(directory, options(settings)?).map_err(failed)?;
    let (account, entry) = first(&database, seed).map_err(failed)?;
    // Tables are in the manifest, which a commit's flush does not wait for.
    database.flush().map_err(failed)?;
    if acknowledged(1)? {
        for number in 1..=commits {
            commit(&database, (&account, &entry), &Commit::of(number, seed)).map_err(failed)?;
            if !acknowledged(number + 1)? {
                break;
            }
        }
    }
    drop((account, entry));
    database.close().map_err(failed)
}

/// What the tables hold after each step, by a model of them.
pub(crate) fn acknowledged(commits: u64, seed: u64) -> AcknowledgedContents {
    let row = |values: &[Value<'_>]| values.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    let account = |id: i64, changed: i64, name: &str| row(&[id.into(), changed.into(), name.into()]);
    let (mut tables, mut names) = ([Rows::new(), Rows::new()], Vec::new());
    let mut all = vec![hash(&tables)];
    for number in 0..ACCOUNTS {
        let name = text(&mut stream(&[seed, number]), 300);
        tables[0].insert(number.cast_signed(), account(number.cast_signed(), 0, &name));
        names.push(name);
    }
    all.push(hash(&tables));
    for number in 1..=commits {
        let commit = Commit::of(number, seed);
        tables[1].insert(commit.number, row(&[commit.number.into(), commit.body.as_str().into()]));
        for id in commit.accounts {
            tables[0].insert(id, account(id, commit.number, &names[id as usize]));
        }
        if let Some(removed) = commit.removed {
            tables[1].remove(&removed);
        }
        all.push(hash(&tables));
    }
    AcknowledgedContents::of_contents(&all)
}

fn hash(tables: &[Rows]) -> u128 {
    let mut hasher = Hasher::new();
    for table in tables {
        hasher.add(b"table");
        table.values().for_each(|row| hasher.add(row.as_bytes()));
    }
    hasher.end()
}

/// Has mmdb recover a database, check its indexes, and reads it.
pub(crate) fn recover(directory: &Path, settings: &BTreeMap<String, Json>) -> Inspection {
    let options = match options(settings) {
        Ok(options) => Options { checkpoint_log_bytes: 0, ..options },
        Err(error) => return Inspection::Unseen(error.to_string()),
    };
    let database = match Database::open(directory, options) {
        Ok(database) => database,
        Err(error) => return found_by(error, Verdict::CannotBeOpened),
    };
    let read = || -> Result<u128, Error> {
        database.verify()?;
        let mut tables = Vec::new();
        for name in ["account", "entry"] {
            let mut rows = Rows::new();
            if let Some(table) = database.tables().into_iter().find(|table| table.name() == name) {
                let mut tx = database.begin()?;
                for row in tx.scan(&table)? {
                    let row = row?;
                    let text = row.values().iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
                    rows.insert(row.at(0).as_int().unwrap_or(i64::MIN), text);
                }
            }
            tables.push(rows);
        }
        Ok(hash(&tables))
    };
    match read() {
        Ok(content) => Inspection::Content(content),
        Err(error) => found_by(error, Verdict::Corrupt),
    }
}

/// What an error says of a database: nothing, where it is the machine's.
fn found_by(error: Error, verdict: fn(String) -> Verdict) -> Inspection {
    let problem = error.to_string();
    // The centre's stores are told by the same rule.
    match StoreError::from(error).is_of_the_machine() {
        true => Inspection::Unseen(problem),
        false => Inspection::Bad(verdict(problem)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What happened: a database for which no file could be opened any more was said to be one that
    /// cannot be opened after a power cut.
    #[test]
    fn want_of_files_is_no_verdict() {
        let error = |code| {
            let source = std::sync::Arc::new(std::io::Error::from_raw_os_error(code));
            Error::Io { op: "open", file: "/x/MANIFEST".into(), source }
        };
        let of = |code| found_by(error(code), Verdict::CannotBeOpened);
        assert!(matches!(of(libc::EMFILE), Inspection::Unseen(said) if said.contains("MANIFEST")));
        assert!(matches!(of(libc::EIO), Inspection::Bad(Verdict::CannotBeOpened(_))));
    }

    #[test]
    fn the_model_is_what_mmdb_holds_after_each_commit() {
        let settings = BTreeMap::new();
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().join("db");
        let model = acknowledged(70, 5);
        let mut steps = 0;
        work(&place, &settings, 70, 5, &mut |step| {
            steps = step;
            Ok(true)
        })
        .unwrap();
        assert_eq!(steps, 71);
        let Inspection::Content(content) = recover(&place, &settings) else { panic!("it cannot be read") };
        assert!(model.ends_with(content));
        assert_eq!(model.judge(content, 71), Verdict::Kept);
        assert_eq!(model.judge(content, 72), Verdict::Lost(1));
    }
}
