//! From calls on descriptors and paths to calls on files: which file a descriptor is, and at which
//! offset it stands.

use std::collections::HashMap;

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
    },
    /// A descriptor for what is no file.
    NoFile {
        descriptor: i64,
    },
    /// A copy of a descriptor.
    Copy {
        of: i64,
        descriptor: i64,
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
}

/// A descriptor.
#[derive(Clone, Copy, Debug)]
struct Descriptor {
    file: u32,
    offset: u64,
    appends: bool,
}

/// What is known at the moment.
#[derive(Default)]
pub struct Recorder {
    /// All calls, to be put into the order of their times: mobigen writes thread after thread.
    recorded: Vec<(u64, u32, RawCall)>,
}

impl Recorder {
    /// Takes a call of a thread, at a time in µs.
    pub fn add(&mut self, at_us: u64, thread: u32, recorded: RawCall) {
        self.recorded.push((at_us, thread, recorded));
    }

    /// All calls on files.
    pub fn finish(self) -> ImportedCalls {
        let mut recorded = self.recorded;
        recorded.sort_by_key(|(at_us, ..)| *at_us);
        let zero_us = recorded.first().map_or(0, |(at_us, ..)| *at_us);
        let mut files = Files::default();
        for (at_us, thread, recorded) in recorded {
            let at_us = at_us - zero_us;
            if let Some((file, call)) = files.call(recorded) {
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
        ImportedCalls { recording: files.recording, warnings }
    }
}

#[derive(Default)]
struct Files {
    recording: FileCalls,
    /// Length of each file, and how far it was written.
    lengths: Vec<u64>,
    by_path: HashMap<String, u32>,
    descriptors: HashMap<i64, Option<Descriptor>>,
    unknown: u64,
}

impl Files {
    fn new_file(&mut self, name: &str) -> u32 {
        let number = self.recording.files.len() as u32;
        self.recording.files.push(CalledFile { name: name.to_owned(), start_bytes: 0 });
        self.lengths.push(0);
        number
    }

    /// A descriptor that is used without having been opened: what a program had open when the
    /// recording began.
    fn descriptor(&mut self, descriptor: i64, is_file: bool) -> Option<&mut Descriptor> {
        if !self.descriptors.contains_key(&descriptor) && is_file {
            let file = self.new_file(&format!("descriptor {descriptor}, opened before"));
            self.descriptors.insert(descriptor, Some(Descriptor { file, offset: 0, appends: false }));
        }
        match self.descriptors.get_mut(&descriptor) {
            Some(Some(known)) => Some(known),
            _ => {
                self.unknown += 1;
                None
            }
        }
    }

    /// What a recorded call is on files; none where it is on none.
    fn call(&mut self, recorded: RawCall) -> Option<(u32, Call)> {
        match recorded {
            RawCall::Open { path, descriptor, appends, truncates } => {
                let known = path.as_ref().and_then(|path| self.by_path.get(path)).copied();
                let file = known.unwrap_or_else(|| self.new_file(path.as_deref().unwrap_or("unnamed")));
                if let Some(path) = path {
                    self.by_path.insert(path, file);
                }
                self.descriptors.insert(descriptor, Some(Descriptor { file, offset: 0, appends }));
                if truncates && self.lengths[file as usize] > 0 {
                    self.lengths[file as usize] = 0;
                    return Some((file, Call::Truncate { bytes: 0 }));
                }
                Some((file, Call::Open))
            }
            RawCall::NoFile { descriptor } => {
                self.descriptors.insert(descriptor, None);
                None
            }
            RawCall::Copy { of, descriptor } => {
                let known = self.descriptors.get(&of).copied().flatten();
                self.descriptors.insert(descriptor, known);
                None
            }
            RawCall::Close { descriptor } => {
                Some((self.descriptors.remove(&descriptor).flatten()?.file, Call::Close))
            }
            RawCall::Write { descriptor, at, bytes } => {
                let known = *self.descriptor(descriptor, at.is_some())?;
                let place = known.file as usize;
                let offset = at.unwrap_or(if known.appends { self.lengths[place] } else { known.offset });
                let end = offset.checked_add(bytes).filter(|end| *end <= i64::MAX as u64)?;
                self.move_to(descriptor, at, end);
                self.lengths[place] = self.lengths[place].max(end);
                Some((known.file, Call::Write { offset, bytes }))
            }
            RawCall::Read { descriptor, at, bytes } => {
                let known = *self.descriptor(descriptor, at.is_some())?;
                let offset = at.unwrap_or(known.offset);
                let end = offset.checked_add(bytes).filter(|end| *end <= i64::MAX as u64)?;
                self.move_to(descriptor, at, end);
                let place = known.file as usize;
                if end > self.lengths[place] {
                    // It was there before the recording.
                    let start = &mut self.recording.files[place].start_bytes;
                    *start = (*start).max(end);
                    self.lengths[place] = end;
                }
                Some((known.file, Call::Read { offset, bytes }))
            }
            RawCall::Seek { descriptor, to } => {
                self.descriptor(descriptor, true)?.offset = to;
                None
            }
            RawCall::Truncate { descriptor, bytes } => {
                let file = self.descriptor(descriptor, true)?.file;
                self.lengths[file as usize] = bytes;
                Some((file, Call::Truncate { bytes }))
            }
            RawCall::Sync { descriptor, is_data } => {
                let file = self.descriptor(descriptor, true)?.file;
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
            RawCall::Unlink { path } => match self.by_path.remove(&path) {
                Some(file) => Some((file, Call::Unlink)),
                None => {
                    self.unknown += 1;
                    None
                }
            },
            RawCall::Rename { from, to } => {
                let file = self.by_path.remove(&from)?;
                self.by_path.insert(to, file);
                None
            }
        }
    }

    fn move_to(&mut self, descriptor: i64, at: Option<u64>, end: u64) {
        if at.is_none()
            && let Some(Some(known)) = self.descriptors.get_mut(&descriptor)
        {
            known.offset = end;
        }
    }
}
