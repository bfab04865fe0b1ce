//! The directory of a replay, and the process that works in it.
//!
//! The directory holds what an application's users wrote, so only the user may look into it, and it
//! goes when the replay ends, however it ends. It is a stack as others are (`filesystem = "dir"`):
//! written down with a lock of its owner before it is made, watched by a guard that removes it when
//! this process is killed, and found by `fathom stack down --all` should the guard be killed, too.

use fathom_output::{shown_path, tell};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use fathom_lab::remote::{Remote, Target};
use fathom_lab::schedule::Interrupt;
use fathom_stack::{Stack, StackSpec};

use crate::cli::TraceReplay;
use crate::outcome::{Error, Outcome};

/// How often is looked whether the work has ended, or is to end.
const GLANCE: Duration = Duration::from_millis(10);

/// Where a replay puts its databases.
enum Place {
    /// Removed in the end.
    Own(Box<Stack>),
    /// The user wants to look at it.
    Kept(PathBuf),
}

impl Place {
    fn new(asked: &TraceReplay) -> Result<Place, Error> {
        if asked.keep {
            let place = fathom_trace::work_directory(&asked.dir).map_err(Error::of_trace)?.keep();
            // Before the work: when that fails people want to look.
            tell!("Databases: {}", shown_path(&place));
            return Ok(Place::Kept(place));
        }
        // Asked first, so that an error names the directory that was meant, and not the one that
        // would have been made in it.
        std::fs::read_dir(&asked.dir)
            .map_err(|error| Error::usage(format!("{}: {error}", fathom_output::shown_path(&asked.dir))))?;
        let directory = std::path::absolute(&asked.dir).map_err(Error::usage)?;
        let spec = StackSpec { directory: Some(directory), ..StackSpec::default() };
        let stack = Stack::up(&spec, "replay").map_err(Error::of_stack)?;
        Ok(Place::Own(Box::new(stack)))
    }

    fn path(&self) -> &Path {
        match self {
            Place::Own(stack) => stack.path(),
            Place::Kept(path) => path,
        }
    }

    fn end(self) -> Result<(), Error> {
        match self {
            Place::Own(stack) => stack.down().map_err(Error::failed),
            Place::Kept(_) => Ok(()),
        }
    }
}

/// Makes the directory, lets another process replay the trace in it, and removes it.
pub fn run(asked: &TraceReplay, file: &Path) -> super::super::Result {
    // The process that does the work cannot see that.
    super::super::open_stdout()?;
    let interrupt = Interrupt::new();
    interrupt.on_signals().map_err(|error| Error::failed(format!("signals: {error}")))?;
    let place = Place::new(asked)?;
    let program = fathom_ground::program::own_program().map_err(super::super::no_own_path)?;
    let mut command = Command::new(fathom_ground::program::executable(&program));
    command.args(["trace", "replay", "--dir", "."]);
    command.arg(format!("--timing={}", asked.timing));
    command.args(asked.set.iter().map(|word| format!("--set={word}")));
    command.args(asked.json.then_some("--json")).arg("--within").arg(place.path());
    // Last, since its name may begin with a dash.
    command.arg("--").arg(file);
    let mut worker =
        command.spawn().map_err(|error| Error::failed(format!("the replay cannot be started: {error}")))?;
    let status = wait(&mut worker, &interrupt);
    let kept = matches!(place, Place::Kept(_));
    place.end()?;
    match status.map_err(|error| Error::failed(format!("the replay cannot be waited for: {error}")))? {
        None if kept => Err(Error::failed("stopped by a signal; the databases are where they were")),
        None => Err(Error::failed("stopped by a signal; the databases of the replay are removed")),
        Some(status) => outcome(status),
    }
}

/// Lets the agent of another machine do it all there, and shows what it says.
pub fn run_on(machine: &Target, asked: &TraceReplay, file: &Path) -> super::super::Result {
    super::super::open_stdout()?;
    let interrupt = Interrupt::new();
    interrupt.on_signals().map_err(|error| Error::failed(format!("signals: {error}")))?;
    let connected = Remote::connect(machine, interrupt.clone(), &mut super::super::tell_note);
    let mut remote = connected.map_err(Error::failed)?;
    let mut words = vec![format!("--timing={}", asked.timing)];
    words.extend(asked.set.iter().map(|word| format!("--set={word}")));
    words.extend(asked.json.then(|| "--json".to_owned()));
    let (code, said) = remote
        .replay(words, file, &mut |line| {
            fathom_output::raw(&fathom_output::lines(&String::from_utf8_lossy(line)))
        })
        .map_err(Error::failed)?;
    for line in said.lines() {
        tell!("{}", fathom_output::shown(line));
    }
    match code {
        _ if interrupt.is_raised() => {
            Err(Error::failed("stopped by a signal; the databases of the replay are removed"))
        }
        Some(0) => Ok(Outcome::Good),
        Some(2) => Ok(Outcome::Usage),
        Some(_) => Ok(Outcome::Failed),
        None => Err(Error::failed(format!("{machine}: the replay was ended by a signal there"))),
    }
}

/// How the work ended; none where a signal to this process has ended it.
fn wait(worker: &mut Child, interrupt: &Interrupt) -> std::io::Result<Option<ExitStatus>> {
    loop {
        if let Some(status) = worker.try_wait()? {
            // Ctrl-C reaches both.
            return Ok((!interrupt.is_raised()).then_some(status));
        }
        if interrupt.is_raised() {
            // Nothing of what it does is wanted any more. An error means that it has ended.
            let _ = worker.kill();
            worker.wait()?;
            return Ok(None);
        }
        std::thread::sleep(GLANCE);
    }
}

fn outcome(status: ExitStatus) -> super::super::Result {
    match (status.code(), status.signal()) {
        (Some(0), _) => Ok(Outcome::Good),
        // It has said why.
        (Some(2), _) => Ok(Outcome::Usage),
        (Some(_), _) => Ok(Outcome::Failed),
        // Who reads what it prints has seen enough.
        (None, Some(libc::SIGPIPE)) => Ok(Outcome::Failed),
        (None, Some(9)) => Err(Error::failed(
            "the replay was killed (signal 9): by hand, or by the kernel because memory ran out (`dmesg` shows that)",
        )),
        (None, signal) => Err(Error::failed(format!(
            "the replay crashed (signal {}); was a library given with --set library=…?",
            signal.unwrap_or_default()
        ))),
    }
}

/// In the process that does the work: it ends with the one that started it, and what it writes only
/// the user may read.
pub fn settle_in() {
    // SAFETY: both take numbers only and change nothing but this process.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        libc::umask(0o077);
    }
}
