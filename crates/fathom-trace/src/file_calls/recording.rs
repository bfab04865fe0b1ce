//! From calls on descriptors and paths to calls on files: which file a descriptor is, and at which
//! offset it stands.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::descriptors::{Descriptor, Descriptors};
use super::{Call, CalledFile, FileCalls, ImportedCalls, RecordedCall};

/// A call as it is recorded; only such as succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RawCall {
    /// A descriptor for a path; without a path, for a file of its own.
    Open {
        path: Option<String>,
        descriptor: i64,
        appends: bool,
        truncates: bool,
        closes_at_exec: bool,
    },
    /// A descriptor for what is no file; of a directory that is opened as one, its path.
    NoFile {
        descriptor: i64,
        directory: Option<String>,
    },
    /// A copy of a descriptor.
    Copy {
        of: i64,
        descriptor: i64,
        closes_at_exec: bool,
    },
    Close {
        descriptor: i64,
    },
    /// At the descriptor's offset, or at this one.
    Write {
        descriptor: i64,
        at: Option<u64>,
        bytes: u64,
    },
    Read {
        descriptor: i64,
        at: Option<u64>,
        bytes: u64,
    },
    Seek {
        descriptor: i64,
        to: u64,
    },
    Truncate {
        descriptor: i64,
        bytes: u64,
    },
    Sync {
        descriptor: i64,
        is_data: bool,
    },
    Stat {
        descriptor: i64,
    },
    StatPath {
        path: String,
    },
    Unlink {
        path: String,
    },
    Rename {
        from: String,
        to: String,
    },
    /// Another thread begins, with the same descriptors, or as a process with a copy of them.
    Begin {
        thread: u32,
        shares: bool,
    },
    /// The process begins another program.
    Exec,
    /// Closes the descriptors with these numbers: what a process does before that.
    CloseRange {
        from: i64,
        to: i64,
    },
}

impl RawCall {
    /// The descriptor that it is on, and whether nothing but a file has such calls.
    fn on(&self) -> Option<(i64, bool)> {
        match self {
            RawCall::Write { descriptor, at, .. } | RawCall::Read { descriptor, at, .. } => {
                Some((*descriptor, at.is_some()))
            }
            RawCall::Seek { descriptor, .. }
            | RawCall::Truncate { descriptor, .. }
            | RawCall::Sync { descriptor, .. } => Some((*descriptor, true)),
            RawCall::Stat { descriptor } | RawCall::Close { descriptor } => Some((*descriptor, false)),
            RawCall::Copy { of, .. } => Some((*of, false)),
            _ => None,
        }
    }

    /// The paths that it names.
    fn paths(&self) -> impl Iterator<Item = &str> {
        let (one, other) = match self {
            RawCall::Open { path, .. } => (path.as_deref(), None),
            RawCall::StatPath { path } | RawCall::Unlink { path } => (Some(path.as_str()), None),
            RawCall::Rename { from, to } => (Some(from.as_str()), Some(to.as_str())),
            _ => (None, None),
        };
        one.into_iter().chain(other)
    }
}

/// A call, with its time in µs, its thread, and the number of the path that its line tells.
struct ReadCall {
    at_us: u64,
    thread: u32,
    path: Option<u32>,
    call: RawCall,
}

/// What is known at the moment.
#[derive(Default)]
pub struct Recorder {
    /// All calls, to be put into the order of their times: mobigen writes thread after thread.
    recorded: Vec<ReadCall>,
    /// Paths of descriptors, and their numbers.
    paths: Vec<String>,
    number_of: HashMap<String, u32>,
    begun: HashMap<u32, (u32, bool)>,
    /// Calls that write or sync files in another way, by name.
    otherwise: BTreeMap<&'static str, u64>,
}

impl Recorder {
    /// Counts a call that writes or syncs files in a way that a recording does not have.
    pub fn leave_out(&mut self, name: &'static str) {
        *self.otherwise.entry(name).or_default() += 1;
    }

    /// Takes a call of a thread, at a time in µs.
    pub fn add(&mut self, at_us: u64, thread: u32, recorded: RawCall) {
        self.add_with_path(at_us, thread, None, recorded);
    }

    /// The same of which the line tells the path of the descriptor that it is on, or opens.
    pub fn add_with_path(&mut self, at_us: u64, thread: u32, path: Option<&str>, call: RawCall) {
        if let RawCall::Begin { thread: child, shares } = call {
            self.begun.insert(child, (thread, shares));
        }
        let path = path.map(|path| match self.number_of.get(path) {
            Some(number) => *number,
            None => {
                let number = self.paths.len() as u32;
                self.paths.push(path.to_owned());
                self.number_of.insert(path.to_owned(), number);
                number
            }
        });
        self.recorded.push(ReadCall { at_us, thread, path, call });
    }

    /// All calls on files.
    pub fn finish(self) -> ImportedCalls {
        let mut recorded = self.recorded;
        recorded.sort_by_key(|read| read.at_us);
        let zero_us = recorded.first().map_or(0, |read| read.at_us);
        let named = recorded.iter().flat_map(|read| read.call.paths());
        let all = named.chain(self.paths.iter().map(String::as_str));
        let parents = all.filter_map(|path| path.rsplit_once('/')).map(|(parent, _)| parent);
        let mut files = Files::new(self.begun, parents.map(str::to_owned).collect());
        for ReadCall { at_us, thread, path, call } in recorded {
            let at_us = at_us - zero_us;
            let path = path.and_then(|number| self.paths.get(number as usize));
            files.descriptors.enter(thread);
            if call == RawCall::Exec {
                files.descriptors.exec(thread);
            }
            if let Some((file, call)) = files.call_on(path.map(String::as_str), call) {
                files.recording.calls.push(RecordedCall { thread, at_us, file, call });
            }
        }
        let mut warnings = Vec::new();
        if files.unknown > 0 {
            warnings.push(format!(
                "left out: {} calls on descriptors or paths that are no files, or whose opening was not recorded",
                files.unknown
            ));
        }
        if !self.otherwise.is_empty() {
            let counted: Vec<String> =
                self.otherwise.iter().map(|(name, count)| format!("{count} × {name}")).collect();
            warnings.push(format!(
                "left out: calls that write or sync files in ways that a recording does not have: {}",
                counted.join(", ")
            ));
        }
        ImportedCalls { recording: files.recording, warnings }
    }
}

struct Files {
    recording: FileCalls,
    /// Length of each file, and how far it was written.
    lengths: Vec<u64>,
    /// A file may have several: as it was opened, and as its descriptor is shown.
    by_path: HashMap<String, u32>,
    descriptors: Descriptors,
    /// What has files in it.
    directories: HashSet<String>,
    /// Those that are open like files, by number.
    open_directories: HashSet<u32>,
    /// Paths of directories that were opened as such, by table and descriptor.
    listed: HashMap<(usize, i64), String>,
    unknown: u64,
}

impl Files {
    fn new(begun: HashMap<u32, (u32, bool)>, directories: HashSet<String>) -> Files {
        Files {
            directories,
            open_directories: HashSet::new(),
            listed: HashMap::new(),
            recording: FileCalls::default(),
            lengths: Vec::new(),
            by_path: HashMap::new(),
            descriptors: Descriptors::new(begun),
            unknown: 0,
        }
    }

    fn new_file(&mut self, name: &str) -> u32 {
        let number = self.recording.files.len() as u32;
        self.recording.files.push(CalledFile { name: name.to_owned(), start_bytes: 0 });
        self.lengths.push(0);
        if self.directories.contains(name) {
            self.open_directories.insert(number);
        }
        number
    }

    /// A descriptor that is used without having been opened: what a program had open when the
    /// recording began.
    fn descriptor(&mut self, descriptor: i64, is_file: bool) -> Option<&mut Descriptor> {
        if !self.descriptors.is_open(descriptor) && is_file {
            let file = self.new_file(&format!("descriptor {descriptor}, opened before"));
            self.descriptors.set(descriptor, Some(Descriptor::new(file)));
        }
        let known = self.descriptors.file(descriptor);
        if known.is_none() {
            self.unknown += 1;
        }
        known
    }

    /// A descriptor whose path a line tells is that file's, whatever was known of it: nothing may
    /// have been recorded of its opening, or of the process that has it.
    fn follow(&mut self, descriptor: i64, is_file: bool, path: &str) {
        let named = self.by_path.get(path).copied();
        let known = self.descriptors.file(descriptor).map(|known| known.file);
        // A directory that was opened as one stays that; what else was no file is closed by now.
        let is_no_file = known.is_none() && self.descriptors.is_open(descriptor);
        let is_listed = is_no_file && self.listed.contains_key(&(self.descriptors.table(), descriptor));
        if is_listed || (known.is_some() && known == named) {
            return;
        }
        if named.is_none()
            && let Some(file) = known
            && self.is_relative_of(file, path)
        {
            self.by_path.insert(path.to_owned(), file);
            return;
        }
        let file = match named {
            Some(file) => file,
            None if is_file => {
                let file = self.new_file(path);
                self.by_path.insert(path.to_owned(), file);
                file
            }
            None => {
                self.descriptors.remove(descriptor);
                return;
            }
        };
        self.descriptors.set(descriptor, Some(Descriptor::new(file)));
    }

    /// The file that stands for a directory which was opened as one: most are only listed, and none
    /// is there before it is synced.
    fn listed_directory(&mut self, descriptor: i64) -> Option<u32> {
        if self.descriptors.file(descriptor).is_some() || !self.descriptors.is_open(descriptor) {
            return None;
        }
        let path = self.listed.get(&(self.descriptors.table(), descriptor))?.clone();
        let known = self.by_path.get(&path).copied();
        let file = known.unwrap_or_else(|| self.new_file(&path));
        self.by_path.insert(path, file);
        self.open_directories.insert(file);
        Some(file)
    }

    /// Whether all that is known of a file is a relative path that this one may be: it was renamed
    /// by one.
    fn is_relative_of(&self, file: u32, path: &str) -> bool {
        let mut names = self.by_path.iter().filter(|(_, known)| **known == file).map(|(name, _)| name);
        let is_end =
            |name: &String| path.strip_suffix(name.as_str()).is_some_and(|before| before.ends_with('/'));
        names.clone().any(is_end) && names.all(|name| !name.starts_with('/'))
    }

    /// What a recorded call is on files, where its line tells the path of its descriptor or does
    /// not; none where it is on none.
    fn call_on(&mut self, path: Option<&str>, recorded: RawCall) -> Option<(u32, Call)> {
        if let (Some(path), Some((descriptor, is_file))) = (path, recorded.on()) {
            self.follow(descriptor, is_file, path);
        }
        if let (Some(shown), RawCall::Open { path: Some(path), .. }) = (path, &recorded) {
            // Of two directories the same relative path is two files.
            match self.by_path.get(shown).copied() {
                Some(file) => self.by_path.insert(path.clone(), file),
                None => self.by_path.remove(path),
            };
        }
        let made = self.call(recorded);
        if let (Some(shown), Some((file, Call::Open | Call::Truncate { .. }))) = (path, made) {
            self.by_path.insert(shown.to_owned(), file);
        }
        made
    }

    /// The same without a path.
    fn call(&mut self, recorded: RawCall) -> Option<(u32, Call)> {
        match recorded {
            RawCall::Open { path, descriptor, appends, truncates, closes_at_exec } => {
                let known = path.as_ref().and_then(|path| self.by_path.get(path)).copied();
                let file = known.unwrap_or_else(|| self.new_file(path.as_deref().unwrap_or("unnamed")));
                if let Some(path) = path {
                    self.by_path.insert(path, file);
                }
                let opened = Descriptor { appends, closes_at_exec, ..Descriptor::new(file) };
                self.descriptors.set(descriptor, Some(opened));
                if truncates && self.lengths[file as usize] > 0 {
                    self.lengths[file as usize] = 0;
                    return Some((file, Call::Truncate { bytes: 0 }));
                }
                Some((file, Call::Open))
            }
            RawCall::NoFile { descriptor, directory } => {
                let place = (self.descriptors.table(), descriptor);
                match directory {
                    Some(path) => drop(self.listed.insert(place, path)),
                    None => drop(self.listed.remove(&place)),
                }
                self.descriptors.set(descriptor, None);
                None
            }
            RawCall::Copy { of, descriptor, closes_at_exec } => {
                let known = self.descriptors.file(of).cloned();
                let known = known.map(|known| Descriptor { closes_at_exec, ..known });
                if known.is_some() || self.descriptors.is_open(of) {
                    self.descriptors.set(descriptor, known);
                } else {
                    self.descriptors.remove(descriptor);
                }
                None
            }
            RawCall::Close { descriptor } => Some((self.descriptors.remove(descriptor)?.file, Call::Close)),
            RawCall::Begin { thread, .. } => {
                self.descriptors.begin(thread);
                None
            }
            RawCall::Exec => None,
            RawCall::CloseRange { from, to } => {
                self.descriptors.remove_range(from, to);
                None
            }
            RawCall::Write { descriptor, at, bytes } => {
                let known = self.descriptor(descriptor, at.is_some())?.clone();
                let place = known.file as usize;
                // Linux appends, whatever offset a call names.
                let wanted = at.unwrap_or(known.offset.get());
                let offset = if known.appends { self.lengths[place] } else { wanted };
                let end = offset.checked_add(bytes).filter(|end| *end <= i64::MAX as u64)?;
                if at.is_none() {
                    known.offset.set(end);
                }
                // What writes nothing makes no file longer.
                if bytes > 0 {
                    self.lengths[place] = self.lengths[place].max(end);
                }
                Some((known.file, Call::Write { offset, bytes }))
            }
            RawCall::Read { descriptor, at, bytes } => {
                let known = self.descriptor(descriptor, at.is_some())?.clone();
                let offset = at.unwrap_or(known.offset.get());
                let end = offset.checked_add(bytes).filter(|end| *end <= i64::MAX as u64)?;
                if at.is_none() {
                    known.offset.set(end);
                }
                let place = known.file as usize;
                // A read that got nothing was at or behind the end.
                if bytes > 0 && end > self.lengths[place] {
                    // It was there before the recording.
                    let start = &mut self.recording.files[place].start_bytes;
                    *start = (*start).max(end);
                    self.lengths[place] = end;
                }
                Some((known.file, Call::Read { offset, bytes }))
            }
            RawCall::Seek { descriptor, to } => {
                self.descriptor(descriptor, true)?.offset.set(to);
                None
            }
            RawCall::Truncate { descriptor, bytes } => {
                let file = self.descriptor(descriptor, true)?.file;
                self.lengths[file as usize] = bytes;
                Some((file, Call::Truncate { bytes }))
            }
            RawCall::Sync { descriptor, is_data } => {
                if let Some(directory) = self.listed_directory(descriptor) {
                    return Some((directory, Call::SyncDirectory));
                }
                let file = self.descriptor(descriptor, true)?.file;
                if self.open_directories.contains(&file) {
                    return Some((file, Call::SyncDirectory));
                }
                Some((file, if is_data { Call::Fdatasync } else { Call::Fsync }))
            }
            RawCall::Stat { descriptor } => Some((self.descriptor(descriptor, false)?.file, Call::Stat)),
            RawCall::StatPath { path } => match self.by_path.get(&path) {
                Some(file) => Some((*file, Call::Stat)),
                None => {
                    self.unknown += 1;
                    None
                }
            },
            RawCall::Unlink { path } => match self.by_path.get(&path).copied() {
                Some(file) => {
                    self.by_path.retain(|_, known| *known != file);
                    Some((file, Call::Unlink))
                }
                None => {
                    self.unknown += 1;
                    None
                }
            },
            RawCall::Rename { from, to } => {
                let file = self.by_path.get(&from).copied();
                let replaced = self.by_path.get(&to).copied().filter(|known| Some(*known) != file);
                self.by_path.retain(|_, known| Some(*known) != file && Some(*known) != replaced);
                if let Some(file) = file {
                    self.by_path.insert(to, file);
                }
                // What had the name is gone.
                replaced.map(|replaced| (replaced, Call::Unlink))
            }
        }
    }
}
