//! Watching files for the block trace: where on the device their bytes lie, or, where nobody can
//! trace the device, which bytes of which file were read and written.
//!
//! **Extents.** A request to a device names sectors; whose they are only the file system knows, and
//! only as long as the file is there: a rollback journal lives for one transaction. So the probe
//! asks for the extents of what was written, at the moments at which they are settled and still
//! there: after a sync, and before a file is closed, truncated or deleted. Only changes are kept. A
//! file that is truncated or deleted gives its extents back, which is kept, too.
//!
//! The database file is asked through a descriptor of the probe's own, which is never closed:
//! closing any descriptor of a file lets go of all POSIX locks of the process on it (`unixClose` in
//! SQLite's `os_unix.c` tells the story). Journals and WAL carry no locks; theirs is closed with
//! SQLite's.
//!
//! **Calls.** Every read, write, sync and truncation with its place in the file, its begin and its
//! end.
//!
//! Nothing is watched unless [`watch`] says so; then it happens outside of the calls' measured time
//! but inside that of the statements, so an instrumented run must be compared with instrumented
//! runs.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{CStr, CString, OsStr, c_char};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use crate::extents::{Extent, extents};
use crate::kind::{FileClass, Op};

/// What is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Watch {
    /// Where files lie on their device.
    Extents,
    /// The calls themselves.
    Calls,
}

/// A file that was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedFile {
    /// Its full path.
    pub path: PathBuf,
    /// What SQLite uses it for.
    pub class: FileClass,
}

/// Something learned of a file's extents. Times are CLOCK_MONOTONIC, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Note {
    /// From now on (and for a while before) these bytes of the file lie here on the device.
    Mapped {
        /// When this was seen.
        at_ns: u64,
        /// Number of the file.
        file: u32,
        /// Offset on the device, bytes.
        physical: u64,
        /// Length, bytes.
        length: u64,
    },
    /// The file gave back everything from an offset on, and with it the extents that were noted for
    /// it.
    Freed {
        /// When it was about to.
        at_ns: u64,
        /// Number of the file.
        file: u32,
        /// Offset on the device, bytes, of what was given back.
        physical: u64,
        /// Length, bytes.
        length: u64,
    },
}

/// A call on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Number of the file.
    pub file: u32,
    /// Read, write, sync, truncate or delete.
    pub op: Op,
    /// Offset in the file, bytes; the new size of a truncation.
    pub offset: u64,
    /// Bytes.
    pub bytes: u64,
    /// When it began and ended, CLOCK_MONOTONIC, ns.
    pub begin_ns: u64,
    /// As above.
    pub end_ns: u64,
}

/// All that was watched.
#[derive(Debug, Default)]
pub struct FileActivity {
    /// The files, by their number.
    pub files: Vec<WatchedFile>,
    /// In order of time.
    pub notes: Vec<Note>,
    /// In order of their end.
    pub calls: Vec<Call>,
    /// Why extents could not be read, where they could not: once for each kind of error.
    pub problems: Vec<String>,
}

const OFF: u8 = 0;
const EXTENTS: u8 = 1;
const CALLS: u8 = 2;
static MODE: AtomicU8 = AtomicU8::new(OFF);

#[derive(Default)]
struct State {
    watched: FileActivity,
    by_path: HashMap<PathBuf, u32>,
    /// What is noted of each file: extents by their offset in the file.
    known: Vec<BTreeMap<u64, Extent>>,
    /// Descriptors of database files by device and inode; never closed.
    databases: HashMap<(u64, u64), Arc<File>>,
}

static STATE: Mutex<Option<State>> = Mutex::new(None);

fn state() -> MutexGuard<'static, Option<State>> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Begins to watch the files that are opened from now on through any probe of this process.
pub fn watch(what: Watch) {
    *state() = Some(State::default());
    MODE.store(if what == Watch::Extents { EXTENTS } else { CALLS }, Ordering::Release);
}

/// Ends watching and gives what was seen.
#[must_use]
pub fn take_watched() -> FileActivity {
    MODE.store(OFF, Ordering::Release);
    let mut state = state();
    let Some(State { watched, databases, .. }) = state.take() else { return FileActivity::default() };
    // Other connections may still hold locks through these files.
    databases.into_values().for_each(std::mem::forget);
    watched
}

/// CLOCK_MONOTONIC, ns.
pub(crate) fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is valid and writable; this clock exists on every Linux.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    // The clock counts from boot and is never negative.
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// What is watched of one open file.
#[derive(Debug)]
pub struct TrackedFile {
    number: u32,
    mode: u8,
    file: Option<Arc<File>>,
    /// Written since the extents were last asked for: begin and end by begin.
    dirty: BTreeMap<u64, u64>,
}

/// Written ranges with no more than this between them are asked for as one.
const NEAR_BYTES: u64 = 1 << 20;

impl TrackedFile {
    /// Watches a file that was just opened, if files are watched and this one has a name.
    ///
    /// # Safety
    /// `name` must be null or end in NUL.
    pub unsafe fn open(name: *const c_char, class: FileClass) -> Option<Box<TrackedFile>> {
        let mode = MODE.load(Ordering::Acquire);
        if mode == OFF || name.is_null() {
            return None;
        }
        // SAFETY: not null, and NUL-terminated by the caller's promise.
        let path = Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(name) }.to_bytes()));
        let mut state = state();
        let state = state.as_mut()?;
        let number = state.number(path, class);
        let file = if mode == EXTENTS { state.descriptor(path, class) } else { None };
        Some(Box::new(TrackedFile { number, mode, file, dirty: BTreeMap::new() }))
    }

    /// Bytes were written.
    pub fn written(&mut self, offset: u64, bytes: u64) {
        if self.mode != EXTENTS || self.file.is_none() {
            return;
        }
        let (mut begin, mut end) = (offset, offset.saturating_add(bytes));
        // Whatever touches the new range, or lies near it, is merged into it.
        while let Some((&other, &other_end)) = self.dirty.range(..=end.saturating_add(NEAR_BYTES)).next_back()
        {
            if other_end.saturating_add(NEAR_BYTES) < begin {
                break;
            }
            self.dirty.remove(&other);
            begin = begin.min(other);
            end = end.max(other_end);
        }
        self.dirty.insert(begin, end);
    }

    /// Notes where everything written lies now: after a sync, and before the file goes.
    pub fn settle(&mut self) {
        let Some(file) = self.file.as_ref().filter(|_| !self.dirty.is_empty()) else { return };
        let dirty = std::mem::take(&mut self.dirty);
        let mut state = state();
        let Some(state) = state.as_mut() else { return };
        for (begin, end) in dirty {
            match extents(&**file, begin, end - begin) {
                Ok(found) => state.mapped(self.number, &found),
                Err(error) => {
                    state.problem(&error);
                    return;
                }
            }
        }
    }

    /// The file is about to be cut to `size` bytes.
    pub fn truncating(&mut self, size: u64) {
        self.settle();
        if self.mode == EXTENTS
            && let Some(state) = state().as_mut()
        {
            state.freed(self.number, size);
        }
    }

    /// Makes a call and keeps it, where calls are watched.
    #[inline]
    pub fn call<R>(
        tracked: *const TrackedFile,
        op: Op,
        offset: i64,
        bytes: u64,
        call: impl FnOnce() -> R,
    ) -> R {
        // SAFETY: null, or a box that lives as long as the file is open.
        let Some(tracked) = (unsafe { tracked.as_ref() }).filter(|file| file.mode == CALLS) else {
            return call();
        };
        let begin_ns = now_ns();
        let result = call();
        let end_ns = now_ns();
        if let Some(state) = state().as_mut() {
            let offset = u64::try_from(offset).unwrap_or(0);
            let call = Call { file: tracked.number, op, offset, bytes, begin_ns, end_ns };
            state.watched.calls.push(call);
        }
        result
    }
}

/// A file that a program reads and writes by itself, without SQLite, watched as SQLite's files are.
/// It counts as a temporary file, that is, as none of a database. Nothing is done where nothing is
/// watched.
#[derive(Debug, Default)]
pub struct PlainFile(Option<Box<TrackedFile>>);

impl PlainFile {
    /// A file that was just opened or made.
    #[must_use]
    pub fn open(path: &Path) -> PlainFile {
        let Ok(name) = CString::new(path.as_os_str().as_bytes()) else { return PlainFile(None) };
        // SAFETY: the name ends in NUL.
        PlainFile(unsafe { TrackedFile::open(name.as_ptr(), FileClass::Temporary) })
    }

    /// Whether files that are opened now are asked for their extents.
    #[must_use]
    pub fn is_wanted() -> bool {
        MODE.load(Ordering::Acquire) == EXTENTS
    }

    /// Whether its extents are watched.
    #[must_use]
    pub fn is_watched(&self) -> bool {
        self.0.as_ref().is_some_and(|file| file.mode == EXTENTS)
    }

    /// Bytes were written.
    pub fn written(&mut self, offset: u64, bytes: u64) {
        if let Some(tracked) = &mut self.0 {
            tracked.written(offset, bytes);
        }
    }

    /// Notes where everything written lies now: after a sync, and before the file goes.
    pub fn settle(&mut self) {
        if let Some(tracked) = &mut self.0 {
            tracked.settle();
        }
    }

    /// The file is about to be cut to `size` bytes.
    pub fn truncating(&mut self, size: u64) {
        if let Some(tracked) = &mut self.0 {
            tracked.truncating(size);
        }
    }

    /// The file at `path` is about to be deleted: what it held is given back.
    pub fn deleting(path: &Path) {
        if let Ok(name) = CString::new(path.as_os_str().as_bytes()) {
            // SAFETY: the name ends in NUL.
            unsafe { deleting(name.as_ptr()) };
        }
    }
}

/// A file is about to be deleted.
///
/// # Safety
/// `name` must be null or end in NUL.
pub unsafe fn deleting(name: *const c_char) {
    if MODE.load(Ordering::Relaxed) != EXTENTS || name.is_null() {
        return;
    }
    // SAFETY: not null, and NUL-terminated by the caller's promise.
    let path = Path::new(OsStr::from_bytes(unsafe { CStr::from_ptr(name) }.to_bytes()));
    if let Some(state) = state().as_mut()
        && let Some(&number) = state.by_path.get(path)
    {
        state.freed(number, 0);
    }
}

impl State {
    fn number(&mut self, path: &Path, class: FileClass) -> u32 {
        if let Some(&number) = self.by_path.get(path) {
            return number;
        }
        let number = u32::try_from(self.watched.files.len()).unwrap_or(u32::MAX);
        self.watched.files.push(WatchedFile { path: path.to_owned(), class });
        self.known.push(BTreeMap::new());
        self.by_path.insert(path.to_owned(), number);
        number
    }

    /// A descriptor to ask for extents: one for all time of a database, a new one of any other
    /// file.
    fn descriptor(&mut self, path: &Path, class: FileClass) -> Option<Arc<File>> {
        let found = if class == FileClass::Database {
            std::fs::metadata(path).and_then(|meta| {
                let key = (meta.dev(), meta.ino());
                if let Some(file) = self.databases.get(&key) {
                    return Ok(Arc::clone(file));
                }
                let file = Arc::new(File::open(path)?);
                self.databases.insert(key, Arc::clone(&file));
                Ok(file)
            })
        } else {
            File::open(path).map(Arc::new)
        };
        // A temporary file has lost its name already.
        found
            .map_err(|error| {
                if error.kind() != io::ErrorKind::NotFound {
                    self.problem(&error)
                }
            })
            .ok()
    }

    fn problem(&mut self, error: &io::Error) {
        let text = error.to_string();
        if !self.watched.problems.contains(&text) {
            self.watched.problems.push(text);
        }
    }

    fn mapped(&mut self, number: u32, found: &[Extent]) {
        let at_ns = now_ns();
        let Some(known) = self.known.get_mut(number as usize) else { return };
        for extent in found {
            let end = extent.offset + extent.length;
            let overlapping: Vec<Extent> = known
                .range(..end)
                .rev()
                .take_while(|(_, older)| older.offset + older.length > extent.offset)
                .map(|(_, older)| *older)
                .collect();
            let same = |older: &Extent| {
                older.physical.wrapping_sub(older.offset) == extent.physical.wrapping_sub(extent.offset)
            };
            // The commonest case: nothing has changed.
            if let [one] = overlapping[..]
                && same(&one)
                && one.offset <= extent.offset
                && one.offset + one.length >= end
            {
                continue;
            }
            let mut whole = *extent;
            for old in overlapping {
                known.remove(&old.offset);
                let old_end = old.offset + old.length;
                if same(&old) {
                    let begin = whole.offset.min(old.offset);
                    let length = old_end.max(whole.offset + whole.length) - begin;
                    whole =
                        Extent { offset: begin, physical: whole.physical - (whole.offset - begin), length };
                    continue;
                }
                // Copy-on-write: these bytes of the file have moved, and their old place is given
                // back.
                let part = |begin: u64, end: u64| Extent {
                    offset: begin,
                    physical: old.physical + (begin - old.offset),
                    length: end.saturating_sub(begin),
                };
                let moved = part(old.offset.max(extent.offset), old_end.min(end));
                let (physical, length) = (moved.physical, moved.length);
                self.watched.notes.push(Note::Freed { at_ns, file: number, physical, length });
                // What lies before and behind stays.
                if old.offset < extent.offset {
                    known.insert(old.offset, part(old.offset, extent.offset));
                }
                if old_end > end {
                    known.insert(end, part(end, old_end));
                }
            }
            known.insert(whole.offset, whole);
            let (physical, length) = (extent.physical, extent.length);
            self.watched.notes.push(Note::Mapped { at_ns, file: number, physical, length });
        }
    }

    fn freed(&mut self, number: u32, size: u64) {
        let at_ns = now_ns();
        let Some(known) = self.known.get_mut(number as usize) else { return };
        while let Some((&offset, &extent)) = known.last_key_value() {
            if offset + extent.length <= size {
                break;
            }
            known.remove(&offset);
            let kept = size.saturating_sub(offset);
            if kept > 0 {
                known.insert(offset, Extent { length: kept, ..extent });
            }
            let (physical, length) = (extent.physical + kept, extent.length - kept);
            self.watched.notes.push(Note::Freed { at_ns, file: number, physical, length });
            if kept > 0 {
                break;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    /// Whose each block is, when all notes are followed.
    fn owners(notes: &[Note]) -> BTreeSet<u64> {
        let mut owned = BTreeSet::new();
        for note in notes {
            match *note {
                Note::Mapped { physical, length, .. } => owned.extend(physical..physical + length),
                Note::Freed { physical, length, .. } => {
                    (physical..physical + length)
                        .for_each(|number| assert!(owned.remove(&number), "{number} was not owned"));
                }
            }
        }
        owned
    }

    proptest! {
        /// A file whose blocks are written in place, moved and cut, at random: the notes say at
        /// each moment what it owns.
        #[test]
        fn notes_tell_what_a_file_owns(
            steps in prop::collection::vec((0_u8..4, 0_u64..40, 1_u64..12), 1..60),
        ) {
            let mut state = State::default();
            let number = state.number(Path::new("/a"), FileClass::Database);
            let mut model: Vec<Option<u64>> = Vec::new();
            let mut next = 1000;
            for (kind, offset, length) in steps {
                if kind == 0 {
                    model.truncate(offset as usize);
                    state.freed(number, offset);
                } else {
                    // Kind 1 moves what is there, as copy-on-write does; the others fill what is
                    // missing.
                    let range = offset as usize..(offset + length) as usize;
                    model.resize(model.len().max(range.end), None);
                    for block in &mut model[range.clone()] {
                        if kind == 1 || block.is_none() {
                            *block = Some(next);
                            next += 1;
                        }
                    }
                    next += 7;
                    let mut found: Vec<Extent> = Vec::new();
                    for at in range {
                        let physical = model[at].unwrap();
                        match found.last_mut() {
                            Some(last) if last.physical + last.length == physical => last.length += 1,
                            _ => found.push(Extent { offset: at as u64, physical, length: 1 }),
                        }
                    }
                    state.mapped(number, &found);
                }
                let expected: BTreeSet<u64> = model.iter().flatten().copied().collect();
                prop_assert_eq!(owners(&state.watched.notes), expected);
            }
        }
    }

    #[test]
    fn near_ranges_are_asked_for_as_one() {
        let file = Some(Arc::new(File::open("/dev/null").unwrap()));
        let mut tracked = TrackedFile { number: 0, mode: EXTENTS, file, dirty: BTreeMap::new() };
        for (offset, bytes) in [(0, 4096), (8192, 4096), (64 << 20, 4096), (512 << 10, 4096), (0, 100)] {
            tracked.written(offset, bytes);
        }
        let ranges: Vec<_> = tracked.dirty.into_iter().collect();
        assert_eq!(ranges, [(0, (512 << 10) + 4096), (64 << 20, (64 << 20) + 4096)]);
    }
}
