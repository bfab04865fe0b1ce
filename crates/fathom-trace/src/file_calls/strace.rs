//! Lines of `strace -f` (with `-t`, `-tt`, `-ttt`, `-r` or no times; `-y`, `-Y`, `-n`, `-i` or
//! not): `[PID] [TIME] CALL(ARGUMENTS) = RESULT`. A call that another thread's line interrupted
//! (`<unfinished ...>`) is put together with its end (`<... CALL resumed>`).

use std::collections::HashMap;

use super::head::head;
use super::recording::{RawCall, Recorder};

/// Whether a line is one of a call on files.
#[must_use]
pub fn is_line(line: &str) -> bool {
    // A signal or an end (`--- SIGCHLD {…} ---`) is no call, and other logs have such lines, too.
    let (_, _, call) = head(line);
    let is_call = call.contains('(') && !call.starts_with("---") && !call.starts_with("+++");
    is_call && Strace::default().line(line, &mut Recorder::default())
}

/// Whether a line is a whole call that a recording has or counts: nothing else has such lines,
/// while `count(x) = 5` of a statement may be a call that is not known.
#[must_use]
pub fn is_file_call(line: &str) -> bool {
    let (_, _, call) = head(line);
    matches!(recorded(call.trim_end()), StraceLine::Call(..) | StraceLine::Otherwise(_))
}

/// What was not finished, by process.
#[derive(Default)]
pub struct Strace {
    unfinished: HashMap<u32, (u64, String)>,
    /// The beginning of a call within whose line strace said that a process had begun, and the
    /// thread that makes it.
    cut: Option<(u32, String)>,
    last_us: u64,
    /// µs of the days that have passed where times are of the day.
    days_us: u64,
}

impl Strace {
    /// Takes a line; false where it is none.
    pub fn line(&mut self, line: &str, recorder: &mut Recorder) -> bool {
        let (mut thread, at, call) = head(line);
        let joined;
        let call = match self.cut.take() {
            Some((of, begin)) if call.starts_with([',', ')']) || call.starts_with("<unfinished") => {
                thread = of;
                joined = format!("{begin}{call}");
                joined.as_str()
            }
            _ => call,
        };
        if let Some(begin) = before_a_process(call) {
            self.cut = (!begin.is_empty()).then(|| (thread, begin.to_owned()));
            return true;
        }
        if call.starts_with("+++") || call.starts_with("---") {
            return true;
        }
        let at_us = match at {
            // Of `-r`: since the line before.
            Some((at_us, false)) if at_us < EPOCH_US => self.last_us.saturating_add(at_us),
            Some((at_us, _)) => {
                // Past midnight, and not only a line that is a little late.
                if at_us + self.days_us + HALF_A_DAY_US < self.last_us {
                    self.days_us += 2 * HALF_A_DAY_US;
                }
                at_us + self.days_us
            }
            None => self.last_us.saturating_add(1),
        };
        self.last_us = self.last_us.max(at_us);
        // `) = ?` follows where the process ended within the call. What is read or written may be
        // such a text.
        if let Some((begin, end)) = call.rsplit_once("<unfinished ...>")
            && (end.trim().is_empty() || end.starts_with(") "))
            && !end.contains('"')
        {
            self.unfinished.insert(thread, (at_us, begin.trim_end().to_owned()));
            return true;
        }
        if let Some(resumed) = call.strip_prefix("<... ") {
            let Some((name, end)) = resumed.split_once(" resumed>") else { return false };
            let begun = self.unfinished.remove(&thread).or_else(|| self.of_the_only(name));
            let Some((_, begin)) = begun else { return true };
            // Done when it returned.
            return take(&format!("{begin}{end}"), thread, at_us, recorder);
        }
        take(call, thread, at_us, recorder)
    }

    /// A call of this name that began while there was one thread, which strace does not name on a
    /// terminal before there are two: the call that began the second one, for one.
    fn of_the_only(&mut self, name: &str) -> Option<(u64, String)> {
        let (_, begin) = self.unfinished.get(&0)?;
        if !begin.strip_prefix(name)?.starts_with('(') {
            return None;
        }
        self.unfinished.remove(&0)
    }
}

/// What stands before `strace: Process 101 attached`, which strace says on a terminal as soon as it
/// is so, also within the line of the call that began the process.
fn before_a_process(line: &str) -> Option<&str> {
    // Of one that ran before (`-p`): `attached with 3 threads`.
    let line = match line.rsplit_once(" with ") {
        Some((attached, threads)) if threads.ends_with(" threads") => attached,
        _ => line,
    };
    let (begin, number) = line.strip_suffix(" attached")?.rsplit_once("Process ")?;
    number.parse::<u32>().ok()?;
    let begin = begin.strip_suffix("strace: ").unwrap_or(begin);
    (begin.is_empty() || begin.contains('(')).then_some(begin)
}

const HALF_A_DAY_US: u64 = 43_200_000_000;

/// Seconds since 1970 are more by now, and no two lines are so far apart: three years, µs.
const EPOCH_US: u64 = 100_000_000_000_000;

fn take(call: &str, thread: u32, at_us: u64, recorder: &mut Recorder) -> bool {
    match recorded(call) {
        StraceLine::Call(recorded, path, other) => {
            if matches!(recorded, RawCall::Open { .. }) && writes_through(call) {
                recorder.leave_out("O_SYNC, O_DSYNC or O_DIRECT of an open");
            }
            if matches!(recorded, RawCall::Open { .. }) && has_raw_flags(call) {
                recorder.leave_out("flags of an open as numbers (`-X raw`)");
            }
            if matches!(recorded, RawCall::Rename { .. }) {
                recorder.leave_out("rename");
            }
            if matches!(recorded, RawCall::Write { .. }) && is_synced(call) {
                recorder.leave_out("RWF_SYNC or RWF_DSYNC of a pwritev2");
            }
            // Nothing may have told that what had this number before was closed.
            if let Some(descriptor) = other {
                recorder.add(at_us, thread, RawCall::NoFile { descriptor, directory: None });
            }
            recorder.add_with_path(at_us, thread, path, recorded);
        }
        StraceLine::Otherwise(name) => recorder.leave_out(name),
        StraceLine::Nothing => {}
        StraceLine::NoLine => return false,
    }
    true
}

/// Whether a file is opened so that what is written to it does not stay in memory.
fn writes_through(open: &str) -> bool {
    let mut flags = open.split(['|', ',', ' ', ')', '}', '=']);
    flags.any(|flag| matches!(flag, "O_SYNC" | "O_DSYNC" | "O_DIRECT"))
}

/// Whether the flags of an open are a number, which says what on one kind of machine alone.
fn has_raw_flags(open: &str) -> bool {
    open.split(',').any(|argument| argument.trim_start().starts_with("0x"))
}

/// Whether a write is durable when it returns. Its flags stand behind the list of what it writes.
fn is_synced(write: &str) -> bool {
    let flags = write.rsplit(']').next().unwrap_or_default();
    write.starts_with("pwritev2(") && (flags.contains("RWF_SYNC") || flags.contains("RWF_DSYNC"))
}

/// Calls that write or sync files, and of which a recording has nothing.
const OTHERWISE: [&str; 14] = [
    "copy_file_range",
    "fallocate",
    "io_submit",
    "io_uring_enter",
    "msync",
    "sendfile",
    "sendfile64",
    "splice",
    "sync",
    "sync_file_range",
    "sync_file_range2",
    "syncfs",
    "truncate",
    "truncate64",
];

/// Calls of which all is lost where their descriptors, bytes and offsets are not told.
const ON_DESCRIPTORS: [&str; 10] = [
    "fdatasync",
    "fsync",
    "ftruncate",
    "ftruncate64",
    "pwrite",
    "pwrite64",
    "pwritev",
    "pwritev2",
    "write",
    "writev",
];

enum StraceLine<'a> {
    /// A call, the path that `-y` tells of its descriptor, and the descriptor where it tells that
    /// it is none of a file.
    Call(RawCall, Option<&'a str>, Option<i64>),
    /// One of [`OTHERWISE`].
    Otherwise(&'static str),
    /// A call that failed, or is on no file.
    Nothing,
    NoLine,
}

/// What a call was.
fn recorded(call: &str) -> StraceLine<'_> {
    let Some((name, rest)) = call.split_once('(') else { return StraceLine::NoLine };
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_') {
        return StraceLine::NoLine;
    }
    let (arguments, after) = arguments(rest);
    let Some(given) = after.trim_start().strip_prefix('=') else { return StraceLine::NoLine };
    let given = given.trim_start();
    let end = given.find(|letter: char| !(letter.is_ascii_digit() || letter == '-')).unwrap_or(given.len());
    let Ok(result) = given[..end].parse::<i64>() else { return StraceLine::Nothing };
    let result = known_by_strace(given).unwrap_or(result);
    let is_raw = arguments.first().is_some_and(|first| first.starts_with("0x"));
    if is_raw && result >= 0 && ON_DESCRIPTORS.contains(&name) {
        return StraceLine::Otherwise("calls with raw arguments (`-e raw`)");
    }
    match of(name, &arguments, result) {
        Some(recorded) if result >= 0 => {
            let opens = matches!(recorded, RawCall::Open { .. });
            let descriptor = arguments.first().copied().filter(|_| !opens);
            let path = if opens { shown(given) } else { descriptor.and_then(shown) };
            let other = descriptor.filter(|descriptor| is_shown_as_no_file(descriptor)).and_then(leading);
            StraceLine::Call(recorded, path, other)
        }
        _ => match OTHERWISE.iter().copied().find(|other| *other == name) {
            Some(other) if result >= 0 => StraceLine::Otherwise(other),
            _ => StraceLine::Nothing,
        },
    }
}

/// A process by the number that its lines have, where it has another one among its own:
/// `2 /* 102 in strace's PID NS */`.
fn known_by_strace(given: &str) -> Option<i64> {
    let (_, note) = given.split_once(" /* ")?;
    note.split_once(" in strace's PID NS")?.0.parse().ok()
}

/// The path that `-y` tells of a descriptor, `3</tmp/a.db>`, where it is one of a file that still
/// has it.
fn shown(descriptor: &str) -> Option<&str> {
    let behind = descriptor.trim_start_matches(|letter: char| letter.is_ascii_digit());
    let (path, after) = behind.strip_prefix('<')?.split_once('>')?;
    let is_gone = path.ends_with(" (deleted)") || after.starts_with("(deleted)");
    let is_path = path.starts_with('/') && !path.contains('<') && !is_no_file(path);
    (is_path && !is_gone).then_some(path)
}

/// Whether `-y` tells of a descriptor that it is none of a file: `4<pipe:[1]>`, `5</dev/null>`.
fn is_shown_as_no_file(descriptor: &str) -> bool {
    let behind = descriptor.trim_start_matches(|letter: char| letter.is_ascii_digit());
    let Some(shown) = behind.strip_prefix('<').filter(|_| behind.len() < descriptor.len()) else {
        return false;
    };
    let is_kind = |word: &str| {
        !word.is_empty()
            && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    is_no_file(shown) || shown.split_once(':').is_some_and(|(kind, _)| is_kind(kind))
}

/// Whether a path is none of a file that keeps what is written.
fn is_no_file(path: &str) -> bool {
    ["/dev/", "/proc/", "/sys/"].iter().any(|place| path.starts_with(place))
}

fn of(name: &str, arguments: &[&str], result: i64) -> Option<RawCall> {
    let number = |at: usize| leading(arguments.get(at)?);
    let size = |at: usize| number(at).and_then(|number| u64::try_from(number).ok());
    let path = |at: usize| Some(arguments.get(at)?.strip_prefix('"')?.strip_suffix('"')?.to_owned());
    let bytes = u64::try_from(result).ok().filter(|bytes| *bytes > 0);
    let open = |path: Option<String>, flags: &str| {
        let path = path?;
        if is_no_file(&path) {
            return Some(RawCall::NoFile { descriptor: result, directory: None });
        }
        if flags.contains("O_DIRECTORY") {
            return Some(RawCall::NoFile { descriptor: result, directory: Some(path) });
        }
        Some(RawCall::Open {
            // Each file without a name is one of its own: the path is its directory's.
            path: Some(path).filter(|_| !flags.contains("O_TMPFILE")),
            descriptor: result,
            appends: flags.contains("O_APPEND"),
            truncates: flags.contains("O_TRUNC"),
            closes_at_exec: flags.contains("O_CLOEXEC"),
        })
    };
    Some(match name {
        "open" => open(path(0), arguments.get(1)?)?,
        // The flags are a structure in `openat2`: `{flags=O_RDWR|O_CREAT, mode=0600, resolve=0}`.
        "openat" | "openat2" => open(path(1), arguments.get(2)?)?,
        "creat" => open(path(0), "O_TRUNC")?,
        "socket" | "accept" | "accept4" | "epoll_create" | "epoll_create1" | "eventfd" | "eventfd2"
        | "timerfd_create" | "memfd_create" | "inotify_init1" | "signalfd4" => {
            RawCall::NoFile { descriptor: result, directory: None }
        }
        "dup" | "dup2" | "dup3" => RawCall::Copy {
            of: number(0)?,
            descriptor: result,
            closes_at_exec: arguments.get(2).is_some_and(|flags| flags.contains("O_CLOEXEC")),
        },
        "fcntl" | "fcntl64" if matches!(*arguments.get(1)?, "F_DUPFD" | "F_DUPFD_CLOEXEC") => RawCall::Copy {
            of: number(0)?,
            descriptor: result,
            closes_at_exec: arguments.get(1)?.contains("CLOEXEC"),
        },
        "execve" | "execveat" => RawCall::Exec,
        "clone" | "clone3" | "fork" | "vfork" => RawCall::Begin {
            thread: u32::try_from(result).ok()?,
            shares: arguments.iter().any(|argument| argument.contains("CLONE_FILES")),
        },
        "close_range" if arguments.get(2).is_none_or(|flags| !flags.contains("CLOEXEC")) => {
            RawCall::CloseRange { from: number(0)?, to: number(1).unwrap_or(i64::MAX) }
        }
        "close" => RawCall::Close { descriptor: number(0)? },
        "write" | "writev" => RawCall::Write { descriptor: number(0)?, at: None, bytes: bytes? },
        "read" | "readv" => RawCall::Read { descriptor: number(0)?, at: None, bytes: bytes? },
        // At the descriptor's own offset.
        "pwritev2" if number(3) == Some(-1) => {
            RawCall::Write { descriptor: number(0)?, at: None, bytes: bytes? }
        }
        "preadv2" if number(3) == Some(-1) => {
            RawCall::Read { descriptor: number(0)?, at: None, bytes: bytes? }
        }
        "pwrite64" | "pwrite" | "pwritev" | "pwritev2" => {
            RawCall::Write { descriptor: number(0)?, at: Some(size(3)?), bytes: bytes? }
        }
        "pread64" | "pread" | "preadv" | "preadv2" => {
            RawCall::Read { descriptor: number(0)?, at: Some(size(3)?), bytes: bytes? }
        }
        "lseek" => RawCall::Seek { descriptor: number(0)?, to: u64::try_from(result).ok()? },
        // Of 32 bits: it gives 0, and the offset in its third argument, `[4096]`.
        "_llseek" => {
            let to = arguments.get(2)?.strip_prefix('[')?.strip_suffix(']')?.parse().ok()?;
            RawCall::Seek { descriptor: number(0)?, to }
        }
        "ftruncate" | "ftruncate64" => RawCall::Truncate { descriptor: number(0)?, bytes: size(1)? },
        "fsync" => RawCall::Sync { descriptor: number(0)?, is_data: false },
        "fdatasync" => RawCall::Sync { descriptor: number(0)?, is_data: true },
        "fstat" | "fstat64" => RawCall::Stat { descriptor: number(0)? },
        "newfstatat" | "fstatat64" | "statx" if arguments.get(1) == Some(&"\"\"") => {
            RawCall::Stat { descriptor: number(0)? }
        }
        "stat" | "stat64" | "lstat" | "lstat64" | "access" => RawCall::StatPath { path: path(0)? },
        "newfstatat" | "fstatat64" | "statx" | "faccessat" | "faccessat2" => {
            RawCall::StatPath { path: path(1)? }
        }
        "unlink" => RawCall::Unlink { path: path(0)? },
        "unlinkat" => RawCall::Unlink { path: path(1)? },
        "rename" => RawCall::Rename { from: path(0)?, to: path(1)? },
        "renameat" | "renameat2" => RawCall::Rename { from: path(1)?, to: path(3)? },
        _ => return None,
    })
}

/// The number at the beginning of an argument; with `-y` the descriptor's path follows it. None of
/// a raw one, `0x3`.
fn leading(argument: &str) -> Option<i64> {
    let end =
        argument.find(|letter: char| !(letter.is_ascii_digit() || letter == '-')).unwrap_or(argument.len());
    let (number, behind) = argument.split_at(end);
    number.parse().ok().filter(|_| !behind.starts_with('x'))
}

/// Whether what was read ends with a descriptor: a number, or AT_FDCWD.
fn is_descriptor(before: &[u8]) -> bool {
    before.last().is_some_and(u8::is_ascii_digit) || before.ends_with(b"AT_FDCWD")
}

/// Arguments up to the bracket that closes them, and what stands behind it. Commas in texts,
/// structures and lists separate nothing.
fn arguments(rest: &str) -> (Vec<&str>, &str) {
    let bytes = rest.as_bytes();
    let (mut all, mut begin, mut at, mut depth) = (Vec::new(), 0, 0, 0_u32);
    let mut in_text = false;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' if in_text => at += 1,
            b'"' => in_text = !in_text,
            _ if in_text => {}
            // The path of a descriptor, `3</tmp/a (1), b.db>`, in which `>` is written as a number.
            b'<' if is_descriptor(&bytes[..at]) && bytes[at + 1..].starts_with(b"/") => {
                at += bytes[at..].iter().position(|byte| *byte == b'>').unwrap_or(0);
            }
            b'(' | b'[' | b'{' => depth += 1,
            b')' if depth == 0 => {
                all.push(rest[begin..at].trim());
                return (all, &rest[at + 1..]);
            }
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                all.push(rest[begin..at].trim());
                begin = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    (all, "")
}
