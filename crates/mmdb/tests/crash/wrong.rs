//! Openings that must be refused: the directories of the log are forgotten, others than they were,
//! exchanged, doubled, another database's, or not mounted. A refused opening changes nothing.

use super::engine::medium::{CrashMedium, Medium};
use super::engine::{Database, Options};
use super::rng::Rng;
use std::path::{Path, PathBuf};

/// Where a database's log is.
pub fn dirs(path: &str, options: &Options) -> Vec<PathBuf> {
    let default = |i: usize| Path::new(path).join(format!("log-{i}"));
    (0..options.streams).map(|i| options.stream_dirs.get(i).cloned().unwrap_or_else(|| default(i))).collect()
}

/// Makes another database, whose log is taken for that of the first later.
pub fn make_other(options: &Options) -> Result<(), String> {
    let options = Options { stream_dirs: Vec::new(), ..options.clone() };
    Database::open("/other", options).and_then(Database::close).map_err(|e| e.to_string())
}

/// Tries one wrong opening of the database at `/db`, which was opened before; `other` if
/// [`make_other`] was called.
pub fn attempt(rng: &mut Rng, options: &Options, disk: &CrashMedium, other: bool) -> Result<(), String> {
    let right = dirs("/db", options);
    let with = |stream_dirs| Options { stream_dirs, ..options.clone() };
    let (what, path, wrong) = match rng.below(7) {
        0 if !options.stream_dirs.is_empty() => ("forgotten", "/db", with(Vec::new())),
        1 => ("others", "/db", with((0..options.streams).map(|i| format!("/new-{i}").into()).collect())),
        2 if options.streams > 1 => ("exchanged", "/db", with(right.iter().rev().cloned().collect())),
        3 if options.streams > 1 => ("doubled", "/db", with(vec![right[0].clone(); options.streams])),
        4 if other => ("another's", "/db", with(dirs("/other", &with(Vec::new())))),
        5 if other => ("given to another", "/other", with(right)),
        _ => {
            disk.unmount(&right[rng.below(right.len() as u64) as usize]);
            ("not mounted", "/db", options.clone())
        }
    };
    let before = disk.fingerprint();
    let opened = Database::open(path, wrong).map(drop);
    let after = disk.fingerprint();
    disk.mount();
    match opened {
        Ok(()) => Err(format!("opened although the directories of its log are {what}")),
        Err(e) if after != before => {
            Err(format!("the directories are {what}, refused ({e}), but files changed"))
        }
        Err(_) => Ok(()),
    }
}

/// A byte of the last frame of some stream: the last one in its newest segment that is not zero.
pub fn end_of_log(rng: &mut Rng, options: &Options, disk: &CrashMedium) -> Option<(PathBuf, u64)> {
    let dirs = dirs("/db", options);
    let dir = &dirs[rng.below(dirs.len() as u64) as usize];
    let segments = disk.list(dir).unwrap_or_default();
    let mut segments: Vec<_> = segments.into_iter().filter(|n| n.starts_with("segment-")).collect();
    segments.sort();
    segments.iter().rev().find_map(|name| {
        let (path, mut bytes) = (dir.join(name), vec![0; 1 << 16]);
        let n = disk.open(&path).ok()?.read_at(0, &mut bytes).ok()?;
        let at = bytes[..n].iter().rposition(|&b| b != 0)?;
        (at >= 4096).then_some((path, at as u64))
    })
}
