//! A recording of file calls (`fathom trace import` of what `mobigen` or `strace` wrote), done
//! again: `calls = FILE`.
//!
//! Each file of the recording is one in the directory under test, whatever its name was: nothing
//! outside is touched. All calls are made by one thread, in the order of their times and without
//! the pauses between them, so a run has one outcome. Before the timed window each file gets the
//! bytes that the recording reads before it writes them, and caches are emptied where `cold` holds.
//!
//! A byte's value depends on its file and place (a random mebibyte, repeated and shifted for each
//! file), so every byte can be checked afterwards: what was written or there before is right, what
//! was not is zero, and each file has its length.

use std::collections::{BTreeMap, HashMap};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use fathom_probe::{PlainFile, Split, mark_call};
use fathom_stack::ColdMethod;
use fathom_trace::file_calls::{Call, FileCalls};

use super::error::{refused, wrong};
use crate::clock::now_ns;
use crate::params::Params;
use crate::recorder::{Phase, Unit};
use crate::sample::{IoRow, Sink, WarningKind};
use crate::workload::{Context, Workload, WorkloadError, tell_content};
use fathom_random::Random;

/// Length of the repeated bytes.
const PATTERN_BYTES: usize = 1 << 20;

/// Calls that become samples.
pub(super) const SAMPLES_MAX: usize = 1 << 18;

/// The workload, its parameters checked.
pub struct RecordedCalls {
    pub params: Params,
    pub file: PathBuf,
    pub cold: bool,
}

impl Workload for RecordedCalls {
    fn run(&self, context: &Context<'_>, sink: &mut dyn Sink) -> Result<(), WorkloadError> {
        let recording = FileCalls::read(&self.file).map_err(|error| refused("calls", error.to_string()))?;
        if recording.calls.is_empty() {
            return Err(refused("calls", format!("{}: holds no calls", self.file.display())));
        }
        let mut files = Files::prepare(&recording, context)?;
        sink.progress(0.2);
        if self.cold {
            match fathom_stack::cold(context.directory) {
                ColdMethod::Failed(why) => {
                    sink.warning_of(WarningKind::WarmCaches, format!("caches were not cold: {why}"));
                }
                method => sink.verified(format!("cold caches: {method}")),
            }
        }
        let mut phase = Phase::begin("replay", None, Unit::Operation);
        let mut lane = phase.lane_of_any_length(0, recording.calls.len(), SAMPLES_MAX);
        let mut sum = Split::default();
        lane.enter();
        let is_watched = PlainFile::is_wanted();
        let mut end_ns = now_ns();
        for made in &recording.calls {
            if is_watched {
                // Between two calls, in the time of neither.
                files.look_before(made.file, made.call);
                end_ns = now_ns();
            }
            let start_ns = end_ns;
            let call_ns = now_ns();
            let mut split = files.call(made.file, made.call)?;
            end_ns = now_ns();
            let took_ns = end_ns - call_ns;
            mark_call(None, took_ns);
            match made.call {
                Call::Write { .. } => split.write_ns = took_ns,
                Call::Read { .. } => split.read_ns = took_ns,
                Call::Fsync | Call::Fdatasync | Call::SyncDirectory => split.sync_ns = took_ns,
                _ => split.other_ns = took_ns,
            }
            split.wall_ns = end_ns - start_ns;
            split.cpu_ns = call_ns - start_ns;
            sum.add(&split);
            lane.record(start_ns, 1, split);
            if is_watched {
                files.look_after(made.file, made.call);
            }
        }
        let rows = [
            ("read", sum.read_calls, sum.read_bytes, sum.read_ns),
            ("write", sum.write_calls, sum.write_bytes, sum.write_ns),
            ("sync", sum.sync_calls, 0, sum.sync_ns),
        ];
        for (op, calls, bytes, ns) in rows {
            if calls > 0 {
                phase.add_io(IoRow {
                    phase: String::new(),
                    class: "file".into(),
                    op: op.into(),
                    calls,
                    bytes,
                    ns,
                });
            }
        }
        phase.end(vec![lane], sink);
        sink.progress(0.8);
        files.check(sink)?;
        sink.progress(1.0);
        Ok(())
    }

    fn parameters(&self) -> BTreeMap<String, serde_json::Value> {
        let mut all = self.params.all().clone();
        // So that runs of another recording by the same path can be told from these.
        tell_content("calls", &self.file, &mut all);
        all
    }
}

/// The files of a run, and what each must hold.
struct Files {
    directory: PathBuf,
    /// The pattern twice, so that each place of it has a whole one behind it.
    pattern: Vec<u8>,
    buffer: Vec<u8>,
    open: HashMap<u32, File>,
    /// For the block trace: where files lie that were written.
    watched: HashMap<u32, PlainFile>,
    /// By file: its length, and its bytes that are not zero, from and to.
    held: HashMap<u32, FileRanges>,
}

#[derive(Default)]
struct FileRanges {
    bytes: u64,
    ranges: BTreeMap<u64, u64>,
}

impl FileRanges {
    /// Bytes from here to there were written.
    fn add(&mut self, mut from: u64, mut to: u64) {
        self.bytes = self.bytes.max(to);
        let touching: Vec<(u64, u64)> = self
            .ranges
            .range(..=to)
            .rev()
            .take_while(|(_, end)| **end >= from)
            .map(|(a, b)| (*a, *b))
            .collect();
        for (begin, end) in touching {
            self.ranges.remove(&begin);
            (from, to) = (from.min(begin), to.max(end));
        }
        self.ranges.insert(from, to);
    }

    fn truncate(&mut self, bytes: u64) {
        self.bytes = bytes;
        self.ranges.split_off(&bytes);
        if let Some(mut last) = self.ranges.last_entry() {
            *last.get_mut() = bytes.min(*last.get());
        }
    }
}

impl Files {
    fn prepare(recording: &FileCalls, context: &Context<'_>) -> Result<Files, WorkloadError> {
        let mut pattern = vec![0; PATTERN_BYTES];
        Random::stream(context.seed, "file calls", 0).fill(&mut pattern);
        // Zero is what was never written.
        pattern.iter_mut().filter(|byte| **byte == 0).for_each(|byte| *byte = 1);
        pattern.extend_from_within(..);
        let mut files = Files {
            directory: context.directory.to_owned(),
            pattern,
            buffer: vec![0; PATTERN_BYTES],
            open: HashMap::new(),
            watched: HashMap::new(),
            held: HashMap::new(),
        };
        for (number, file) in (0..).zip(&recording.files) {
            if file.start_bytes > 0 {
                files.call(number, Call::Write { offset: 0, bytes: file.start_bytes })?;
                files.call(number, Call::Fsync)?;
                files.look_after(number, Call::Write { offset: 0, bytes: file.start_bytes });
                files.look_after(number, Call::Fsync);
            }
        }
        files.open.clear();
        Ok(files)
    }

    fn path(&self, file: u32) -> PathBuf {
        self.directory.join(format!("file-calls.{file}"))
    }

    /// The open file; it is opened where the recording began later than the program, or closed one
    /// descriptor of several.
    fn file(&mut self, number: u32) -> Result<&File, WorkloadError> {
        let path = self.path(number);
        match self.open.entry(number) {
            std::collections::hash_map::Entry::Occupied(known) => Ok(known.into_mut()),
            std::collections::hash_map::Entry::Vacant(new) => {
                let opened =
                    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
                self.held.entry(number).or_default();
                Ok(new.insert(opened.map_err(failed(&path))?))
            }
        }
    }

    /// Where a file lies that is about to be cut or deleted.
    fn look_before(&mut self, number: u32, call: Call) {
        match (call, self.watched.get_mut(&number)) {
            (Call::Truncate { bytes }, Some(watched)) => watched.truncating(bytes),
            (Call::Unlink, Some(watched)) => {
                watched.settle();
                self.watched.remove(&number);
                PlainFile::deleting(&self.path(number));
            }
            _ => {}
        }
    }

    /// What was written, and at a sync where it lies.
    fn look_after(&mut self, number: u32, call: Call) {
        if !PlainFile::is_wanted() {
            return;
        }
        let path = self.path(number);
        let watched = self.watched.entry(number);
        match call {
            Call::Write { offset, bytes } => {
                watched.or_insert_with(|| PlainFile::open(&path)).written(offset, bytes);
            }
            Call::Fsync | Call::Fdatasync => {
                watched.and_modify(PlainFile::settle);
            }
            _ => {}
        }
    }

    /// Makes a call; gives its bytes and numbers of calls.
    fn call(&mut self, number: u32, call: Call) -> Result<Split, WorkloadError> {
        let path = self.path(number);
        let mut split = Split::default();
        match call {
            Call::Write { offset, bytes } => {
                self.file(number)?;
                let file = &self.open[&number];
                let mut at = offset;
                while at < offset + bytes {
                    let slice = slice_of(&self.pattern, number, at, offset + bytes - at);
                    file.write_all_at(slice, at).map_err(failed(&path))?;
                    at += slice.len() as u64;
                    split.write_calls += 1;
                }
                split.write_bytes = bytes;
                // As the system has it: a write of nothing makes no file longer.
                if bytes > 0 {
                    self.held.entry(number).or_default().add(offset, offset + bytes);
                }
            }
            Call::Read { offset, bytes } => {
                self.file(number)?;
                let file = &self.open[&number];
                let mut at = offset;
                while at < offset + bytes {
                    let length = self.buffer.len().min((offset + bytes - at) as usize);
                    let got = file.read_at(&mut self.buffer[..length], at).map_err(failed(&path))?;
                    split.read_calls += 1;
                    split.read_bytes += got as u64;
                    if got == 0 {
                        break;
                    }
                    at += got as u64;
                }
            }
            Call::Fsync => {
                self.file(number)?.sync_all().map_err(failed(&path))?;
                split.sync_calls = 1;
            }
            Call::Fdatasync => {
                self.file(number)?.sync_data().map_err(failed(&path))?;
                split.sync_calls = 1;
            }
            Call::SyncDirectory => {
                // All files are in one.
                let directory = File::open(&self.directory).and_then(|directory| directory.sync_all());
                directory.map_err(failed(&self.directory))?;
                split.sync_calls = 1;
            }
            Call::Truncate { bytes } => {
                self.file(number)?.set_len(bytes).map_err(failed(&path))?;
                self.held.entry(number).or_default().truncate(bytes);
            }
            Call::Open => {
                self.open.remove(&number);
                self.file(number)?;
            }
            Call::Close => drop(self.open.remove(&number)),
            Call::Stat => {
                self.file(number)?.metadata().map_err(failed(&path))?;
            }
            Call::Unlink => {
                self.open.remove(&number);
                match std::fs::remove_file(&path) {
                    Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                        return Err(failed(&path)(error));
                    }
                    _ => drop(self.held.remove(&number)),
                }
            }
        }
        split.other_calls = u64::from(split.read_calls + split.write_calls + split.sync_calls == 0);
        Ok(split)
    }

    /// Reads all back.
    fn check(&mut self, sink: &mut dyn Sink) -> Result<(), WorkloadError> {
        self.open.clear();
        let mut all_bytes = 0;
        let mut numbers: Vec<u32> = self.held.keys().copied().collect();
        numbers.sort_unstable();
        for number in &numbers {
            let (path, held) = (self.path(*number), &self.held[number]);
            let file = File::open(&path).map_err(failed(&path))?;
            let length = file.metadata().map_err(failed(&path))?.len();
            let wrong = |problem: String| wrong(format!("{}: {problem}", path.display()));
            if length != held.bytes {
                return Err(wrong(format!("has {length} bytes, not {}", held.bytes)));
            }
            for (from, to) in &held.ranges {
                let mut at = *from;
                while at < *to {
                    let must = slice_of(&self.pattern, *number, at, to - at);
                    let is = &mut self.buffer[..must.len()];
                    file.read_exact_at(is, at).map_err(failed(&path))?;
                    if let Some(place) = is.iter().zip(must).position(|(is, must)| is != must) {
                        return Err(wrong(format!("byte {} is not what was written", at + place as u64)));
                    }
                    at += must.len() as u64;
                }
                all_bytes += to - from;
            }
        }
        sink.verified(format!("{} files read back, {all_bytes} written bytes right", numbers.len()));
        Ok(())
    }
}

/// What stands at this place of a file, at most so many bytes of it.
fn slice_of(pattern: &[u8], file: u32, at: u64, bytes: u64) -> &[u8] {
    // A prime, so that no two files near each other are alike.
    let from = (at.wrapping_add(u64::from(file) * 524_287) % PATTERN_BYTES as u64) as usize;
    &pattern[from..from + bytes.min(PATTERN_BYTES as u64) as usize]
}

fn failed(path: &Path) -> impl Fn(std::io::Error) -> WorkloadError + '_ {
    |source| WorkloadError::Io { path: path.display().to_string(), source }
}
