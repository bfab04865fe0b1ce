//! Log directories that are older copies of themselves, from the same life, or that lack their last
//! segments. Nothing in them contradicts anything else in them: only the manifest can know what
//! they lack.
//!
//! What must be refused: every loss of an acknowledged commit in a segment that the copy does not
//! have, or that was only ready when the copy was made. What may be taken: a copy that has begun
//! all segments in which something is lost, because the manifest states the horizon only now and
//! then. Every attempt is made on a disk of its own, because one that succeeds begins a new life.

use super::engine::medium::{CrashMedium, Medium};
use super::engine::{Database, LogFrame, Options, read_log};
use super::rng::Rng;
use super::wrong;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// A copy of one stream's directory.
pub struct Older {
    dir: PathBuf,
    files: BTreeMap<String, Vec<u8>>,
}

/// How a medium is shown to the engine.
type Wrap<'a> = &'a dyn Fn(CrashMedium) -> Arc<dyn Medium>;

/// Copies the directory of one stream as it is at this moment.
pub fn copy(rng: &mut Rng, options: &Options, disk: &CrashMedium) -> Older {
    let dirs = wrong::dirs("/db", options);
    let dir = dirs[rng.below(dirs.len() as u64) as usize].clone();
    Older { files: disk.copy_of(&dir), dir }
}

/// After a crash: puts an older copy in the place of the directory, and opens. `excused` if the
/// disk has kept the engine from storing what it knew.
pub fn exchange(
    older: &Older,
    options: &Options,
    disk: &CrashMedium,
    wrap: Wrap<'_>,
    acknowledged: &[u64],
    excused: bool,
) -> Result<(), String> {
    let is_begun = |name: &str| older.files.get(name).is_some_and(|b| b.starts_with(b"MMDBSEG1"));
    let lost = attempt(older, options, disk, wrap, acknowledged)?;
    match lost.iter().find(|(name, _)| !is_begun(name)) {
        Some((name, gsn)) if !excused => Err(format!(
            "{} was exchanged for an older copy, and commit {gsn} in {name} is lost without a word",
            older.dir.display()
        )),
        _ => Ok(()),
    }
}

/// After a crash: takes the last segments of a stream away, from any on, and opens.
pub fn shorten(
    rng: &mut Rng,
    options: &Options,
    disk: &CrashMedium,
    wrap: Wrap<'_>,
    acknowledged: &[u64],
) -> Result<(), String> {
    let mut short = copy(rng, options, disk);
    let segments: Vec<String> = short.files.keys().filter(|n| n.starts_with("segment-")).cloned().collect();
    if segments.is_empty() {
        return Ok(());
    }
    // Names sort as their numbers do.
    let first = &segments[rng.below(segments.len() as u64) as usize];
    short.files.retain(|name, _| !name.starts_with("segment-") || name < first);
    match attempt(&short, options, disk, wrap, acknowledged)?.first() {
        Some((name, gsn)) => Err(format!(
            "{first} and later ones are missing, and commit {gsn} in {name} is lost without a word"
        )),
        None => Ok(()),
    }
}

/// Opens a copy of the disk that has the directory as it is here. If that is taken: the
/// acknowledged commits of this stream that are lost, with the names of their segments.
fn attempt(
    now: &Older,
    options: &Options,
    disk: &CrashMedium,
    wrap: Wrap<'_>,
    acknowledged: &[u64],
) -> Result<Vec<(String, u64)>, String> {
    let mut held = Vec::new();
    let whole = Options { medium: wrap(disk.fork()), ..options.clone() };
    let note = |f: &LogFrame| {
        if f.file.parent() == Some(now.dir.as_path()) && acknowledged.binary_search(&f.gsn).is_ok() {
            let name = f.file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            held.push((name, f.gsn));
        }
    };
    read_log("/db", &whole, note).map_err(|e| format!("cannot read the log: {e}"))?;
    let fork = disk.fork();
    fork.put(&now.dir, &now.files);
    let before = fork.fingerprint();
    let opened = Database::open("/db", Options { medium: wrap(fork.clone()), ..options.clone() });
    match opened {
        Ok(db) => {
            let cut = db.recovery().cut;
            held.retain(|(_, gsn)| *gsn > cut);
            Ok(held)
        }
        Err(e) if fork.fingerprint() != before => Err(format!("refused ({e}), but files changed")),
        Err(_) => Ok(Vec::new()),
    }
}
