//! What stands where, before anything is written: the manifest, and the directory of every stream.
//!
//! A log directory is data like any other, and the options can name the wrong one: forgotten, not
//! mounted, another database's, in another order, twice. All of that is found out here, under the
//! locks of all directories, from the manifest and the marks in the directories. The rules are
//! numbered in `docs/recovery.md`.

use crate::error::{Error, Result};
use crate::identity::Life;
use crate::log::mark::{self, Mark};
use crate::log::segment;
use crate::manifest::{self, Inventory, Manifest};
use crate::medium::{Entry, Medium};
use crate::options::Options;
use crate::recovery::scan;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// Name of the file that is locked while a directory is in use.
pub(crate) const LOCK: &str = "LOCK";

/// For what a database is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// To be opened with as many streams as the options say.
    Open,
    /// To be read as it is.
    Read,
}

/// The directory of a stream.
#[derive(Debug)]
pub(crate) struct Home {
    pub(crate) dir: PathBuf,
    /// What its mark says; `None` if it has none yet.
    pub(crate) mark: Option<Mark>,
    /// Segments in it, rising.
    pub(crate) numbers: Vec<u64>,
    /// Why it must not be used, or what is missing in it.
    pub(crate) problems: Vec<Error>,
    /// Its segments are this stream's.
    pub(crate) is_ours: bool,
}

/// The locks of all directories of a database, by their files.
#[derive(Default)]
pub(crate) struct Locks(BTreeMap<PathBuf, Box<dyn Send + Sync>>);

impl Locks {
    /// Locks a directory as far as that writes nothing: itself, and the file if it is there.
    fn take_existing(&mut self, medium: &dyn Medium, dir: &Path) -> Result<()> {
        self.take_dir(medium, dir)?;
        let file = dir.join(LOCK);
        if !self.0.contains_key(&file)
            && let Some(lock) = medium.lock_existing(&file).map_err(|e| refusal(medium, &file, e))?
        {
            self.0.insert(file, lock);
        }
        Ok(())
    }

    /// Locks the directory itself, for a file can be removed and made again while its lock is held:
    /// then there were two.
    fn take_dir(&mut self, medium: &dyn Medium, dir: &Path) -> Result<()> {
        if !self.0.contains_key(dir)
            && let Some(lock) = medium.lock_dir(dir).map_err(|e| refusal(medium, dir, e))?
        {
            self.0.insert(dir.to_path_buf(), lock);
        }
        Ok(())
    }

    /// Locks a directory. False if it was locked before.
    pub(crate) fn take(&mut self, medium: &dyn Medium, dir: &Path) -> Result<bool> {
        self.take_dir(medium, dir)?;
        let file = dir.join(LOCK);
        if self.0.contains_key(&file) {
            return Ok(false);
        }
        let lock = medium.lock(&file).map_err(|e| refusal(medium, &file, e))?;
        self.0.insert(file, lock);
        Ok(true)
    }
}

fn refusal(medium: &dyn Medium, file: &Path, e: io::Error) -> Error {
    let what = match (e.kind(), medium.entry(file)) {
        (io::ErrorKind::WouldBlock, Ok(Some(Entry::File { names }))) if names > 1 => shared(names),
        (io::ErrorKind::WouldBlock, _) => {
            "the directory is in use by a database that is open, or was given twice".to_owned()
        }
        _ => return Error::io("lock", file)(e),
    };
    Error::io("lock", file)(io::Error::new(e.kind(), what))
}

/// Why a file with so many names must not be written to.
fn shared(names: u64) -> String {
    format!(
        "the file has {names} names (hard links, as `cp -al` makes): whoever opens one copy overwrites the other. Make a copy of its own \
         (`cp -a`, without -l) and open that, or delete the other names"
    )
}

/// Refuses a file that is written in place and has other names, in copies that were meant to stay
/// as they are, and a link, which may lead anywhere.
fn require_own(medium: &dyn Medium, path: &Path) -> Result<()> {
    match medium.entry(path).map_err(Error::io("look at", path))? {
        Some(Entry::File { names }) if names > 1 => Err(Error::file(path, shared(names))),
        Some(Entry::Symlink) => {
            let what = "this is a symbolic link, and images must be files of their own: what it leads to would be overwritten. Move the file \
                        itself back here, or delete the link if the database is to make a new file";
            Err(Error::file(path, what))
        }
        Some(Entry::Other) => {
            Err(Error::file(path, "this is no file, and images must be files: move it away"))
        }
        _ => Ok(()),
    }
}

/// A database as it stands on the disk.
pub(crate) struct Survey {
    /// `None` if there is no database.
    pub(crate) manifest: Option<Manifest>,
    pub(crate) homes: Vec<Home>,
}

impl Survey {
    /// Looks at the database in `path` and takes the locks that are there, writing nothing. An
    /// error is about the whole of it; those about one stream are in the homes.
    pub(crate) fn take(
        path: &Path,
        options: &Options,
        purpose: Purpose,
        locks: &mut Locks,
    ) -> Result<Survey> {
        let medium = &*options.medium;
        locks.take_existing(medium, path)?;
        let manifest = Manifest::load(medium, path)?;
        let stated = manifest.as_ref().map_or(0, |m| m.logs.len());
        // Before the first opening was done, as many as are asked for now.
        let born = if manifest.as_ref().is_some_and(|m| m.life().is_some()) { stated } else { 0 };
        let count = match purpose {
            Purpose::Open => options.streams.max(born),
            Purpose::Read => stated,
        };
        check_places(path, options, count, manifest.is_some() || purpose == Purpose::Open)?;
        if manifest.is_none() {
            let images = [manifest::image_name(0), manifest::image_name(1)];
            let names = medium.list(path).map_err(Error::io("list", path))?;
            if let Some(name) = names.iter().find(|n| images.contains(&n.as_str())) {
                return Err(Error::corrupt(
                    &path.join(name),
                    0,
                    "there are images of a checkpoint but no MANIFEST: it is lost, or this is a backup that was \
                     broken off",
                ));
            }
            if purpose == Purpose::Open && names.iter().any(|n| n == mark::NAME) {
                let what = "the log of a database lies here (there is a STREAM file), and no database does: open the \
                            directory of that database, or make a new one in another directory";
                return Err(Error::directory(path, what));
            }
        }
        if purpose == Purpose::Open {
            (0..2).try_for_each(|side| require_own(medium, &path.join(manifest::image_name(side))))?;
        }
        let mut homes = Vec::new();
        // Who looks for a database that is not there should learn of a log that is.
        for i in 0..if manifest.is_none() { options.streams } else { count } {
            let dir = options.stream_dir(path, i);
            locks.take_existing(medium, &dir)?;
            let mut home =
                Home { dir, mark: None, numbers: Vec::new(), problems: Vec::new(), is_ours: false };
            let examined = match &manifest {
                Some(m) if i < born => home.examine(medium, m, i, &m.logs[i]),
                Some(m) => home.is_vacant(medium, Some(m), i, path),
                None => home.is_vacant(medium, None, i, path),
            };
            if let Err(e) = examined {
                home.problems.insert(0, e);
                home.is_ours = false;
            }
            home.look_at_files(medium, purpose)?;
            homes.push(home);
        }
        Ok(Survey { manifest, homes })
    }

    /// The first problem of a stream as an error.
    pub(crate) fn require_whole(&mut self) -> Result<()> {
        match self.homes.iter_mut().find(|h| !h.problems.is_empty()) {
            Some(h) => Err(h.problems.swap_remove(0)),
            None => Ok(()),
        }
    }
}

impl Home {
    /// The directory of stream `i` of a database that has it: everything in the manifest must be
    /// there.
    fn examine(&mut self, medium: &dyn Medium, m: &Manifest, i: usize, log: &Inventory) -> Result<()> {
        self.numbers = scan::numbers(medium, &self.dir)?;
        self.mark = Mark::load(medium, &self.dir)?;
        let refuse = |reason: String| Err(Error::directory(&self.dir, reason));
        let Some(mark) = self.mark else {
            return refuse(format!(
                "this is where the log of stream {i} should be, and there is no STREAM file. Is its disk mounted? If the log lies \
                 elsewhere, name its directory in `stream_dirs` (mmdb: --stream)"
            ));
        };
        if mark.identity != m.identity {
            return refuse(format!(
                "the log here belongs to another database ({}), not to this one ({}), whose stream {i} was looked for",
                mark.identity, m.identity
            ));
        }
        if mark.stream as usize != i {
            return refuse(format!(
                "the log of stream {} of this database is here, where stream {i} was looked for: give the directories in the order \
                 in which they were made",
                mark.stream
            ));
        }
        let (now, number) = (m.life(), |life: Option<Life>| life.map_or(0, |l| l.number));
        // An opening that was cut off leaves marks of the life before.
        let is_first = now.is_some_and(|l| l.number == 1);
        let lags = mark.life == m.before && (m.before.is_some() || is_first);
        if mark.life != now && !lags {
            let (here, there) = (number(mark.life), number(now));
            let what = if here < there {
                "this is an older copy of the log"
            } else {
                "MANIFEST is an older copy, or another one, of the database that uses this log"
            };
            return refuse(format!(
                "the log of stream {i} was last used by life {here} of the database, a later or other one than belongs to MANIFEST, \
                 which is of life {there}: {what}"
            ));
        }
        self.is_ours = true;
        let missing = |n: u64, why: &str| {
            let path = self.dir.join(segment::name(n));
            let what = match medium.entry(&path) {
                Ok(Some(_)) => format!("the segment of stream {i} is no file: {why}"),
                _ => format!("the segment of stream {i} is missing: {why}"),
            };
            Error::corrupt(&path, 0, what)
        };
        let named = log.segments.iter().filter(|n| self.numbers.binary_search(n).is_err());
        let mut problems: Vec<Error> = named.map(|&n| missing(n, "MANIFEST names it")).collect();
        // Those made since come without a gap.
        let mut next = log.next;
        for &n in self.numbers.iter().filter(|&&n| n >= log.next) {
            if n != next {
                problems.push(missing(next, "later ones are there"));
            }
            next = n + 1;
        }
        self.problems.append(&mut problems);
        Ok(())
    }

    /// Whether the segments are files that only this database has: those that are opened are
    /// overwritten and renamed.
    fn look_at_files(&mut self, medium: &dyn Medium, purpose: Purpose) -> Result<()> {
        for n in &self.numbers {
            let path = self.dir.join(segment::name(*n));
            match medium.entry(&path).map_err(Error::io("look at", &path))? {
                Some(Entry::Symlink) => {
                    let what = "this is a symbolic link, and a segment must be a file: its name is made durable with its directory, renamed and \
                                removed. Move the file itself back here, or move the whole directory and name its new place in \
                                `stream_dirs` (mmdb: --stream)";
                    self.problems.push(Error::file(&path, what));
                }
                Some(Entry::File { names }) if names > 1 && purpose == Purpose::Open => {
                    self.problems.push(Error::file(&path, shared(names)));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The directory of a stream that is to be made: nobody else's log may be there.
    fn is_vacant(&mut self, medium: &dyn Medium, m: Option<&Manifest>, i: usize, path: &Path) -> Result<()> {
        self.numbers = scan::numbers(medium, &self.dir)?;
        self.mark = Mark::load(medium, &self.dir)?;
        match (self.mark, m) {
            // An opening that made the stream was cut off, or one that gave it up.
            (Some(mark), Some(m)) if mark.identity == m.identity && mark.stream as usize == i => {
                self.is_ours = true;
                return Ok(());
            }
            (Some(mark), Some(m)) if mark.identity == m.identity => {
                let what = format!(
                    "the log of stream {} of this database was here; stream {i} is to be made",
                    mark.stream
                );
                return Err(Error::directory(&self.dir, what));
            }
            // Where a log is by default, it is this database's.
            (Some(_), None) if self.dir.starts_with(path) => {
                return Err(Error::corrupt(&self.dir.join(mark::NAME), 0, "there is a log but no MANIFEST"));
            }
            (Some(mark), _) => {
                let what = format!(
                    "the log here belongs to another database ({}), or to this one if it has lost its MANIFEST; stream {i} of {} is \
                     to be made in an empty directory",
                    mark.identity,
                    path.display()
                );
                return Err(Error::directory(&self.dir, what));
            }
            (None, _) => {}
        }
        let manifest = self.dir.join(manifest::NAME);
        if medium.entry(&manifest).map_err(Error::io("look at", &manifest))?.is_some() {
            let what = format!(
                "a database lies here (there is a MANIFEST); stream {i} of {} is to be made in an empty directory",
                path.display()
            );
            return Err(Error::directory(&self.dir, what));
        }
        if let Some(&n) = self.numbers.first() {
            let what = match m {
                None => "there is a log but no MANIFEST",
                Some(_) => "a new stream is to be made here, and there is a log that MANIFEST does not know",
            };
            return Err(Error::corrupt(&self.dir.join(segment::name(n)), 0, what));
        }
        Ok(())
    }
}

/// Refuses directories that contradict each other, whatever is in them.
pub(crate) fn check_places(path: &Path, options: &Options, count: usize, is_exact: bool) -> Result<()> {
    if options.stream_dirs.len() > count && is_exact {
        let what = format!(
            "`stream_dirs` (mmdb: --stream) names {} directories for {count} streams; this is the first without a stream",
            options.stream_dirs.len()
        );
        return Err(Error::directory(&options.stream_dirs[count], what));
    }
    let medium = &*options.medium;
    let base = medium.resolve(path);
    let dirs: Vec<PathBuf> = (0..count).map(|i| options.stream_dir(path, i)).collect();
    let resolved: Vec<PathBuf> = dirs.iter().map(|d| medium.resolve(d)).collect();
    for (i, real) in resolved.iter().enumerate() {
        let refuse = |what: String| Err(Error::directory(&dirs[i], what));
        if *real == base {
            return refuse(format!("stream {i} cannot be in the directory of the database itself"));
        }
        if let Some(j) = resolved[..i].iter().position(|other| other == real) {
            return refuse(format!("streams {j} and {i} cannot share one directory"));
        }
        let in_one_of_ours = real.parent().is_some_and(|p| p == base || resolved.iter().any(|r| r == p));
        let name = real.file_name().map_or(String::new(), |n| n.to_string_lossy().into_owned());
        if in_one_of_ours && is_reserved(&name) {
            return refuse(format!("stream {i} cannot be there: the database has a file of that name"));
        }
    }
    Ok(())
}

/// Refuses a directory that is to be made where a database has files, under a name of theirs: that
/// one could not make its file there, and not be opened any more.
pub(crate) fn check_name(medium: &dyn Medium, dir: &Path) -> Result<()> {
    let real = medium.resolve(dir);
    let (Some(parent), Some(name)) = (real.parent(), real.file_name()) else { return Ok(()) };
    if !is_reserved(&name.to_string_lossy()) {
        return Ok(());
    }
    for file in [manifest::NAME, mark::NAME].map(|name| parent.join(name)) {
        if medium.entry(&file).map_err(Error::io("look at", &file))?.is_some() {
            let what = format!(
                "it cannot be there: the database in {} gives this name to one of its files; choose another place",
                parent.display()
            );
            return Err(Error::directory(dir, what));
        }
    }
    Ok(())
}

/// Names that the database gives to its files.
pub(crate) fn is_reserved(name: &str) -> bool {
    let stem = name.strip_suffix(".tmp").unwrap_or(name);
    let images = [manifest::image_name(0), manifest::image_name(1)];
    [LOCK, manifest::NAME, mark::NAME].contains(&stem)
        || images.contains(&stem)
        || segment::number_of(stem).is_some()
}
