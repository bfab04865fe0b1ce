//! The agent: the first process of a guest, which does what Fathom asks from outside.
//!
//! It is this same program, run by the guest's kernel as init with the word `guest-agent`. The root
//! is the host's files, read-only; `/dev` is the guest's own, and the file system under test is
//! mounted in it, where no file of the user's can be hidden by it. Asked and answered is over the
//! first serial line (the pipes that the kernel was started with); complaints go to the console.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use rustix::mount::MountFlags;
use rustix::termios::{OptionalActions, tcgetattr, tcsetattr};

use super::protocol::{Answer, Ask, Ending, FileNotes};
use super::relay::{self, Terms};
use crate::attribution::Attribution;
use crate::blocks::{BUFFER_KIB, BlockTrace, Recording};
use crate::instruments::floor::floor_probe;
use fathom_ground::command::CommandLine;
use fathom_ground::lines;
use fathom_ground::system::now_ns;

/// The line to Fathom.
const TALK: &str = "/dev/ttyS0";
/// Where complaints go.
const COMPLAIN: &str = "/dev/console";
/// What is kept of what a program says on stderr.
const COMPLAINTS_KEPT: usize = 4096;
/// Requests in one answer: a line of it stays far below the longest that is read.
const REQUESTS_IN_ONE: usize = 1000;
/// How long an umount may take: it writes out everything that is dirty.
const UNMOUNT_LIMIT: Duration = Duration::from_secs(120);

/// The whole of `fathom guest-agent`: serves, and turns the guest off.
#[must_use]
pub fn main() -> ExitCode {
    if std::process::id() != 1 {
        eprintln!("fathom guest-agent is the first process of a guest; `fathom run --guest` starts it");
        return ExitCode::from(2);
    }
    if let Err(problem) = prepare().and_then(|()| serve()) {
        complain(&problem);
    }
    off()
}

/// Turns the guest off: its process on the host ends.
fn off() -> ! {
    rustix::fs::sync();
    loop {
        if let Err(error) = rustix::system::reboot(rustix::system::RebootCommand::PowerOff) {
            complain(&format!("power off: {error}"));
        }
        std::thread::sleep(Duration::from_secs(1));
    }
}

fn complain(text: &str) {
    // Nobody is left to tell of a complaint that cannot be made.
    let _ = OpenOptions::new()
        .write(true)
        .open(COMPLAIN)
        .and_then(|mut console| writeln!(console, "agent: {text}"));
}

/// Mounts what programs expect. What is there already stays.
fn prepare() -> Result<(), String> {
    let wanted = [
        ("devtmpfs", "/dev", ""),
        ("proc", "/proc", ""),
        ("sysfs", "/sys", ""),
        ("tracefs", "/sys/kernel/tracing", ""),
        ("tmpfs", "/dev/shm", "mode=1777"),
    ];
    for (kind, at, data) in wanted {
        let path = Path::new(at);
        if at.starts_with("/dev/") {
            // The directory's parent is in memory.
            let _ = fs::create_dir(path);
        }
        let data = std::ffi::CString::new(data).unwrap_or_default();
        match rustix::mount::mount(kind, path, kind, MountFlags::empty(), data.as_c_str()) {
            // The kernel has mounted devtmpfs itself.
            Ok(()) | Err(rustix::io::Errno::BUSY) => {}
            Err(error) => return Err(format!("mounting {kind} at {at}: {error}")),
        }
    }
    fs::create_dir_all(super::layout::POINT)
        .map_err(|error| format!("making {}: {error}", super::layout::POINT))
}

/// Answers until the line ends or the guest is to be turned off.
fn serve() -> Result<(), String> {
    let wrong = |what: &'static str| move |error: io::Error| format!("{what} {TALK}: {error}");
    let line = OpenOptions::new().read(true).write(true).open(TALK).map_err(wrong("open"))?;
    let mut raw = tcgetattr(&line).map_err(|e| wrong("look at")(e.into()))?;
    raw.make_raw();
    tcsetattr(&line, OptionalActions::Now, &raw).map_err(|e| wrong("set up")(e.into()))?;
    let mut out = line.try_clone().map_err(wrong("open"))?;
    // What is written to a line that nobody has open yet is not noticed, or is echoed.
    say(&mut out, &Answer::Done)?;
    let mut asked = BufReader::new(line);
    let mut trace = None;
    loop {
        let mut text = String::new();
        match asked.read_line(&mut text) {
            // Whoever started the guest is gone.
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(error) => return Err(wrong("read")(error)),
        }
        let answer = match serde_json::from_str::<Ask>(&text) {
            Err(error) => Answer::Refused { problem: format!("not understood: {error}") },
            Ok(Ask::Off { point }) => {
                let answer = done(unmount(&point));
                say(&mut out, &answer)?;
                if matches!(answer, Answer::Done) {
                    return Ok(());
                }
                continue;
            }
            Ok(ask) => answer(ask, &mut out, &mut trace),
        };
        say(&mut out, &answer)?;
    }
}

fn say(out: &mut File, answer: &Answer) -> Result<(), String> {
    lines::send(out, answer).map_err(|error| format!("write {TALK}: {error}"))
}

fn done(result: Result<(), String>) -> Answer {
    match result {
        Ok(()) => Answer::Done,
        Err(problem) => Answer::Refused { problem },
    }
}

fn answer(ask: Ask, out: &mut File, trace: &mut Option<BlockTrace>) -> Answer {
    match ask {
        Ask::Command { line, limit_ms } => {
            Answer::Command(Ending::of(line.run(Duration::from_millis(limit_ms))))
        }
        Ask::Read { path } => match fs::read_to_string(&path) {
            Ok(text) => Answer::Text { text },
            Err(error) => Answer::Refused { problem: format!("{}: {error}", path.display()) },
        },
        Ask::MakeDirectory { path } => {
            // An image that was kept may have it.
            done(
                crate::ground::image::make_private(&path)
                    .map_err(|error| format!("{}: {error}", path.display())),
            )
        }
        Ask::Clock => Answer::Clock { now_ns: now_ns() },
        Ask::Floor { directory, writes } => match floor_probe(&directory, writes) {
            Ok(floor) => Answer::Floor(floor),
            Err(error) => Answer::Refused { problem: error.to_string() },
        },
        Ask::Trace { devices, tag } => done(begin_trace(&devices, &tag).map(|begun| *trace = Some(begun))),
        Ask::Traced { filesystem, device, directory, known } => match trace.take() {
            None => Answer::Refused { problem: "no trace was begun".into() },
            Some(trace) => traced(trace, (&filesystem, &device, &directory), &known, out)
                .unwrap_or_else(|problem| Answer::Refused { problem }),
        },
        Ask::Run { line, directory, input } => {
            run(&line, &directory, &input, out).unwrap_or_else(|problem| Answer::Refused { problem })
        }
        Ask::Serve { point, case_folds, root_is } => {
            let mut told = |answer: &Answer| say(out, answer);
            match relay::serve(&point, Terms { case_folds, root_is }, &mut told) {
                Ok(()) => Answer::Unmounted,
                Err(problem) => Answer::Refused { problem },
            }
        }
        Ask::Off { .. } => Answer::Done,
    }
}

fn begin_trace(devices: &[PathBuf], tag: &str) -> Result<BlockTrace, String> {
    let number = |path: &PathBuf| {
        let device = fs::metadata(path).map_err(|error| format!("{}: {error}", path.display()))?.rdev();
        Ok((rustix::fs::major(device), rustix::fs::minor(device)))
    };
    let numbers = devices.iter().map(number).collect::<Result<Vec<_>, String>>()?;
    BlockTrace::start_tagged(&numbers, tag, BUFFER_KIB).map_err(|error| error.to_string())
}

/// Ends a trace and tells what was traced, with whose it was.
fn traced(
    trace: BlockTrace,
    (filesystem, device, directory): (&str, &Path, &Path),
    known: &Path,
    out: &mut File,
) -> Result<Answer, String> {
    let text = fs::read(known).map_err(|error| format!("{}: {error}", known.display()))?;
    let known: FileNotes = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
    // What the file system still holds back belongs to the run.
    File::open(directory)
        .and_then(|file| Ok(rustix::fs::syncfs(file)?))
        .map_err(|error| format!("syncing {}: {error}", directory.display()))?;
    let recording = trace.stop().map_err(|error| error.to_string())?;
    let whose = Attribution::gather(filesystem, Some(device), directory, &known.notes, &known.causes);
    for some in recording.requests.chunks(REQUESTS_IN_ONE) {
        let requests = some.iter().map(|request| (request.clone(), whose.pieces(request))).collect();
        say(out, &Answer::Requests { requests })?;
    }
    let Recording { lost_events, unfinished, span_ns, .. } = recording;
    Ok(Answer::Traced { lost_events, unfinished, span_ns, remarks: whose.remarks })
}

/// Runs a program to its end and passes on what it writes.
fn run(line: &CommandLine, directory: &Path, input: &str, out: &mut File) -> Result<Answer, String> {
    let wrong = |error: io::Error| format!("{}: {error}", line.program.display());
    let mut command = Command::new(&line.program);
    command.args(&line.words).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // The root cannot be written: files for a while go into memory.
    command.env("SQLITE_TMPDIR", "/dev/shm").env("TMPDIR", "/dev/shm");
    if directory.is_dir() {
        command.current_dir(directory);
    }
    let mut child = command.spawn().map_err(wrong)?;
    let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(mut stdin), Some(stdout), Some(stderr)) = pipes else {
        return Err("a program without pipes".into());
    };
    let complaints = std::thread::spawn(move || last_words(stderr));
    // A program that ends before it has read its input is judged by how it ended.
    let _ = fathom_ground::pipe::write_all(&mut stdin, input.as_bytes());
    drop(stdin);
    let mut written = BufReader::with_capacity(1 << 16, stdout);
    let mut text = vec![lines::RAW];
    loop {
        text.truncate(1);
        match written.read_until(b'\n', &mut text) {
            Ok(0) => break,
            Ok(_) => {
                if text.last() != Some(&b'\n') {
                    text.push(b'\n');
                }
                out.write_all(&text).map_err(|error| format!("write {TALK}: {error}"))?;
            }
            Err(error) => return Err(wrong(error)),
        }
    }
    let status = child.wait().map_err(wrong)?;
    let complaints = complaints.join().unwrap_or_default();
    Ok(Answer::Ended { status: std::os::unix::process::ExitStatusExt::into_raw(status), complaints })
}

/// The end of what was written to stderr.
fn last_words(mut stderr: impl Read) -> String {
    let mut kept: Vec<u8> = Vec::new();
    let mut buffer = [0_u8; 1024];
    while let Ok(n @ 1..) = stderr.read(&mut buffer) {
        kept.extend_from_slice(buffer.get(..n).unwrap_or_default());
        kept.drain(..kept.len().saturating_sub(COMPLAINTS_KEPT));
    }
    String::from_utf8_lossy(&kept).trim().to_owned()
}

/// Unmounts what was tested, which writes out what is dirty; what is not mounted is fine.
fn unmount(point: &Path) -> Result<(), String> {
    let begin = Instant::now();
    loop {
        match rustix::mount::unmount(point, rustix::mount::UnmountFlags::empty()) {
            Ok(()) | Err(rustix::io::Errno::INVAL) => return Ok(()),
            Err(rustix::io::Errno::BUSY) if begin.elapsed() < UNMOUNT_LIMIT => {
                std::thread::sleep(Duration::from_millis(20));
            }
            Err(error) => return Err(format!("unmounting {}: {error}", point.display())),
        }
    }
}
