//! `fathom stack up|down|list`: a file system of a chosen kind, mounted, for the user's own
//! program.

use fathom_output::{say, shown_path, tell};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use fathom_device::data_of;
use fathom_lab::schedule::Interrupt;
use fathom_stack::guest::{Build, Kernel};
use fathom_stack::named_stack::{self, NamedStack};
use fathom_stack::{Leftover, Report, StackError, StackSpec, Stacks};

use crate::cli::{Stack, StackAction, StackUp};
use crate::outcome::{Error, Outcome};
use crate::progress::Steps;

/// Does what was asked.
pub fn run(asked: &Stack) -> super::Result {
    match &asked.action {
        StackAction::Up(asked) => up(asked),
        StackAction::Down { name: Some(name), .. } => {
            let stack = named_stack::list().into_iter().find(|stack| stack.name == *name);
            let what = match stack.as_ref().is_some_and(|stack| stack.spec.place.is_directory()) {
                true => "directory",
                false => "image",
            };
            let kept = stack.and_then(|stack| stack.spec.keep);
            take_down(name).map_err(Error::of_stack)?;
            match kept {
                None => say!("{name} is down; its {what} is gone."),
                Some(path) if path.exists() => say!("{name} is down; its image is {}", path.display()),
                Some(path) => {
                    say!("{name} is down; its image {} is not there any more.", path.display());
                }
            }
            Ok(Outcome::Good)
        }
        StackAction::Down { name: None, leftovers, .. } => down_all(*leftovers),
        StackAction::Kernel { remove: true, .. } => remove_kernel(),
        StackAction::Kernel { recipe: true, .. } => {
            say!("{}", Kernel::recipe());
            Ok(Outcome::Good)
        }
        StackAction::Kernel { source, sha256, jobs, .. } => {
            kernel(source.clone(), sha256.clone(), jobs.and_then(|job| usize::try_from(job).ok()))
        }
        StackAction::Age(asked) => super::age::run(asked),
        StackAction::Calibrate(asked) => super::calibrate::run(asked),
        StackAction::Status(asked) => super::status::run(asked),
        StackAction::Operations { file, json, blktrace: None } => super::operations::run(file, *json),
        StackAction::Operations { file, blktrace: Some(name), .. } => {
            super::operations::as_blktrace(file, name)
        }
        StackAction::Path { name } => path_of(name),
        StackAction::List { json } => list(*json),
    }
}

/// How long a stack may take to go until a word is said of it.
const SILENT: Duration = Duration::from_secs(20);

/// Takes a named stack down, and says why where that takes long.
fn take_down(name: &str) -> Result<(), StackError> {
    thread::scope(|scope| {
        let (over, waited) = channel::<()>();
        scope.spawn(move || {
            if waited.recv_timeout(SILENT) == Err(RecvTimeoutError::Timeout) {
                tell!("{name} is being unmounted: what is dirty is written at its device's own pace …");
            }
        });
        let done = named_stack::down(name);
        drop(over);
        done
    })
}

/// Prints where a named stack is mounted; an error where it cannot be used.
fn path_of(name: &str) -> super::Result {
    let stacks = named_stack::list();
    let Some(stack) = stacks.iter().find(|stack| stack.name == name) else {
        let up = stacks.into_iter().map(|stack| stack.name).collect();
        return Err(Error::of_stack(StackError::NoSuchName { name: name.to_owned(), up }));
    };
    if !stack.up {
        let why = stack.problem.clone().unwrap_or_else(|| "it is not mounted any more".into());
        return Err(Error::failed(format!("{name}: {why}. `fathom stack down {name}` removes what is left")));
    }
    // Not `shown_path`: a script takes it as it is.
    fathom_output::raw(&format!("{}\n", super::text_path("the stack's path", &stack.path)?));
    Ok(Outcome::Good)
}

fn up(asked: &StackUp) -> super::Result {
    // Who gives a command again that was stopped means files that are just being removed, which
    // "are another stack's" until then.
    Stacks::here().wait_for_guards_of(&|leftover| leftover.name.is_some(), ENDING, &mut tell_of_ending);
    let absolute = |option: &str, path: &Path| {
        let path = std::path::absolute(path).map_err(|error| Error::usage(format!("{option}: {error}")))?;
        super::text_path(option, &path).map(drop)?;
        Ok(path)
    };
    let file =
        |option: &str, path: &Option<PathBuf>| path.as_deref().map(|path| absolute(option, path)).transpose();
    let image = file("--image", &asked.image)?;
    let filesystem = match (&asked.fs, &image) {
        (Some(name), _) => name.clone(),
        (None, None) => "ext4".into(),
        (None, Some(path)) => {
            fathom_stack::filesystem_in(path).map_err(|problem| in_options(problem.into()))?
        }
    };
    let name = asked.name.as_deref().unwrap_or(&filesystem);
    let spec = &StackSpec {
        place: filesystem.as_str().into(),
        mkfs: asked.mkfs.clone(),
        mount: given(asked.mount.as_deref()),
        size_mib: asked.size.unwrap_or(StackSpec::default().size_mib),
        log_mib: asked.log,
        directory: Some(absolute("--dir", &asked.dir)?),
        image,
        keep: file("--keep", &asked.keep)?,
        device: given(asked.device.as_deref()),
        log_device: given(asked.log_device.as_deref()),
        faults: asked.fault.clone(),
        operations: file("--operations", &asked.operations)?,
        capture: asked.capture,
        device_seed: 0,
        guest: asked.guest,
    };
    if spec.place.is_directory() && asked.size.is_some() {
        return Err(Error::usage(
            "--size: a directory has as much space as the disk that it lies on: name a file system such as ext4, or leave \
             it out",
        ));
    }
    if let (Some(keep), Some(operations)) = (&asked.keep, &asked.operations)
        && fathom_output::is_same_file(keep, operations)
    {
        return Err(Error::usage("--keep and --operations name the same file"));
    }
    if let (Some(keep), Some(operations)) = (&asked.keep, &asked.operations)
        && asked.capture
        && fathom_output::is_same_file(keep, &data_of(operations))
    {
        return Err(Error::usage("--keep and --capture, which makes FILE.data, both would write one file"));
    }
    let interrupt = Interrupt::new();
    // It ends at once, and says what became of the stack.
    interrupt.on_signals_unsaid().map_err(|error| Error::failed(format!("signals: {error}")))?;
    // Who is first decides: the stack stays, or this process ends, whose guard then undoes what
    // there is. A stack that was looked for and was not up yet could be complete a moment later,
    // and stayed although it was said to be removed.
    let is_decided = AtomicBool::new(false);
    let is_first = &|| !is_decided.swap(true, Ordering::SeqCst);
    let made = thread::scope(|scope| {
        let (over, waited) = channel::<()>();
        scope.spawn(move || {
            while waited.recv_timeout(Duration::from_millis(20)) == Err(RecvTimeoutError::Timeout) {
                if interrupt.is_raised() && is_first() {
                    tell!("Stopped: what there was of {name} is being removed.");
                    if let Some(signal) = interrupt.signal() {
                        crate::ending::as_the_signal(signal);
                    }
                    std::process::exit(1);
                }
            }
        });
        let made = named_stack::up_if(name, spec, is_first);
        drop(over);
        made
    });
    let Some(made) = made.map_err(in_options)? else { return Ok(Outcome::Failed) };
    say!("{}", made.path.display());
    tell!("{name}: {} on {}, mounted {}", made.record.filesystem, made.record.device, made.record.mount);
    for warning in &made.record.warnings {
        tell!("warning: {warning}");
    }
    if spec.device.is_some() {
        tell!("Watch the device with:  fathom stack status {name} --watch");
    }
    tell!("Take it down with:  fathom stack down {name}");
    Ok(Outcome::Good)
}

/// An option's text; none where it was left out, or says nothing.
fn given(text: Option<&str>) -> Option<String> {
    text.map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned)
}

/// How long the last processes of a leftover may take to end: its guard gives up after a minute,
/// and nobody is left after that.
const ENDING: Duration = Duration::from_secs(75);
/// How long a leftover without a guard may be busy before it is detached lazily: its last process
/// may be just ending.
const BUSY: Duration = Duration::from_secs(20);

fn tell_of_ending(leftover: &Leftover) {
    tell!(
        "waiting for {}, whose owner (process {}) has ended and whose guard is taking it down …",
        leftover.name.as_ref().unwrap_or(&leftover.label),
        leftover.owner_pid
    );
}

/// Named stacks first, unless only leftovers are to go, then what killed runs left; stacks of runs
/// that go on now are left alone.
fn down_all(leftovers: bool) -> super::Result {
    let named = if leftovers { Report::default() } else { named_stack::down_all() };
    let stacks = Stacks::here().with_busy_limit(BUSY);
    let ending = stacks.wait_for_guards(ENDING, &mut tell_of_ending);
    let mut dead = stacks.down_all(true);
    for entry in ending {
        let label = entry.name.unwrap_or(entry.label);
        dead.failed.push(format!(
            "{label}: its guard has been taking it down for more than {} s: see who uses {} (`fuser -vm`), end them, and give the command again",
            ENDING.as_secs(),
            entry.path.display()
        ));
    }
    let (recordings, unremoved) = super::record::remove_abandoned(&std::env::temp_dir());
    dead.removed.extend(recordings.iter().map(|path| format!("a recording, {}", shown_path(path))));
    dead.failed.extend(unremoved);
    for label in named.removed.iter().chain(&dead.removed) {
        say!("removed {label}");
    }
    let failed: Vec<_> = named.failed.iter().chain(&dead.failed).collect();
    for reason in &failed {
        tell!("error: {reason}");
    }
    if !failed.is_empty() {
        return Ok(Outcome::Failed);
    }
    if named.removed.is_empty() && dead.removed.is_empty() {
        say!(
            "{}",
            if leftovers {
                "Nothing was left behind."
            } else {
                "Nothing was up, and nothing was left behind."
            }
        );
    }
    Ok(Outcome::Good)
}

/// Builds the guest kernel and says what it is.
fn kernel(source: Option<PathBuf>, sha256: Option<String>, jobs: Option<usize>) -> super::Result {
    let agent = fathom_ground::program::own_program().map_err(super::no_own_path)?;
    let steps = Steps::new();
    let is_unchecked = source.is_some() && sha256.is_none();
    let built = Build { source, sha256, jobs, agent }.run(&mut |step| steps.show(step));
    steps.clear();
    let kernel = built.map_err(Error::failed)?;
    say!("{}: {}", kernel.title(), kernel.path.display());
    say!("  from {} (SHA-256 {})", kernel.source, kernel.source_sha256);
    if is_unchecked {
        tell!("warning: that sum was compared with nothing: see what the source's authors say it is");
    }
    say!("  it has {}", kernel.filesystems.join(", "));
    say!("Next:  fathom run journal-modes --quick --set stack.filesystem=f2fs,vfat");
    Ok(Outcome::Good)
}

fn remove_kernel() -> super::Result {
    match Kernel::remove().map_err(Error::failed)? {
        Some(path) => say!("removed {}", path.display()),
        None => say!("There is no guest kernel."),
    }
    Ok(Outcome::Good)
}

fn list(json: bool) -> super::Result {
    let stacks = named_stack::list();
    if json {
        return super::print_json(&stacks);
    }
    if stacks.is_empty() {
        say!("No stack is up.  fathom stack up --fs ext4 --name lab");
    }
    let state = |stack: &NamedStack| match (&stack.problem, stack.up) {
        (Some(_), _) => "broken".to_owned(),
        (None, true) => stack.record.filesystem.clone(),
        (None, false) => "not mounted".to_owned(),
    };
    let widest = |of: &dyn Fn(&NamedStack) -> usize, least| stacks.iter().map(of).fold(least, usize::max);
    let (names, states) = (widest(&|stack| stack.name.len(), 12), widest(&|stack| state(stack).len(), 8));
    for stack in &stacks {
        say!(
            "  {:names$}  {:states$}  {:6} MiB  {}",
            stack.name,
            state(stack),
            stack.spec.size_mib,
            stack.path.display()
        );
        if let Some(problem) = &stack.problem {
            say!("      {problem}\n      remove it with:  fathom stack down {}", stack.name);
        }
    }
    for left in fathom_stack::leftovers().into_iter().filter(|left| left.dead && left.elsewhere.is_none()) {
        say!("  left behind by process {}: {} ({})", left.owner_pid, left.label, left.path.display());
        // Not `--all`, which takes everybody's stacks.
        let what = left.name.as_deref().unwrap_or("--leftovers");
        say!("      remove it with:  fathom stack down {what}");
    }
    Ok(Outcome::Good)
}

/// An error of what `stack up` was asked for: what experiments call a key is an option here.
fn in_options(error: StackError) -> Error {
    const OPTIONS: [(&str, &str); 9] = [
        ("filesystem", "--fs"),
        ("size_mib", "--size"),
        ("log_mib", "--log"),
        ("log_device", "--log-device"),
        ("faults", "--fault"),
        ("device", "--device"),
        ("operations", "--operations"),
        ("mount", "--mount"),
        ("image", "--image"),
    ];
    let in_words = |text: String| {
        let in_words = |text: String, (key, option): &(&str, &str)| text.replace(&format!("`{key}`"), option);
        OPTIONS.iter().fold(text, in_words).replace("filesystem = \"dir\"", "--fs dir")
    };
    match error {
        StackError::Spec { field, problem } => {
            let option = OPTIONS.iter().find(|options| options.0 == field);
            let option = option.map_or_else(|| format!("--{field}"), |option| option.1.to_owned());
            Error::usage(format!("{option}: {}", in_words(problem)))
        }
        other => match Error::of_stack(other) {
            Error::Usage(text) => Error::Usage(in_words(text)),
            Error::Failed(text) => Error::Failed(in_words(text)),
        },
    }
}
