//! Leftovers: stacks whose owner is gone, and the sweep that undoes them.
//!
//! Loop devices, mounts and trace instances are the machine's, whoever has made them, so a look at
//! them finds those of every state directory. What another state directory has an entry of is that
//! one's affair: it has a guard at work perhaps, and an owner who can find it. Only what no state
//! directory knows any more, because its own was removed, is anybody's to remove.

use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use fathom_ground::mountinfo::{Mount, mounts};
use serde::{Deserialize, Serialize};

use super::config::Stacks;
use super::entry::{self, Entry, abandoned, homes, let_go, lock_state, mount_point};
use super::error::StackError;
use super::teardown::{BusyMount, undo, undo_abandoned, unmount};
use super::trust;
use crate::blocks;
use crate::ground::loop_device;
use crate::ground::process::start_time;
use crate::ground::tag::{owner_in, tag_in};

/// A stack that is there now, or what is left of one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leftover {
    /// The owner's label, e.g. the cell's.
    pub label: String,
    /// Name of a stack for the user's own use.
    pub name: Option<String>,
    /// As the specification names it.
    pub filesystem: String,
    /// Mount point, or the directory of a `dir` stack.
    pub path: PathBuf,
    /// Process that made it.
    pub owner_pid: u32,
    /// Whether that process is gone. A named stack is nobody's leftover and never counts as dead.
    pub dead: bool,
    /// When it was made, ms since 1970; 0 when unknown.
    pub created_ms: u64,
    /// Loop devices that belong to it.
    pub loops: Vec<PathBuf>,
    /// The state directory that knows it, where that is another one: it is left alone.
    #[serde(default)]
    pub elsewhere: Option<PathBuf>,
}

/// What a sweep did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Labels of the stacks taken down.
    pub removed: Vec<String>,
    /// Stacks that could not be taken down, with the reason in words.
    pub failed: Vec<String>,
}

/// One thing found: an entry, or an image of Fathom's on a loop device or a trace instance that no
/// entry knows.
enum Found {
    Entry {
        home: PathBuf,
        entry: Box<Entry>,
        lock: Option<Lock>,
    },
    Loop {
        number: u32,
        tag: String,
        elsewhere: Option<PathBuf>,
    },
    Trace {
        path: PathBuf,
        tag: String,
        elsewhere: Option<PathBuf>,
    },
    /// An entry, or the whole list, that is not believed.
    Disbelieved(StackError),
}

/// How long is waited for what no entry knows to go by itself: the guard of an owner that has just
/// ended may be at it.
const GOES_BY_ITSELF: Duration = Duration::from_secs(5);

/// The lock of a dead owner's entry, kept from others until it is dropped, and then free at once
/// (see [`let_go`]): what was only looked at, or could not be taken down, is found dead again.
struct Lock(std::fs::File);

impl Drop for Lock {
    fn drop(&mut self) {
        let_go(&self.0);
    }
}

impl Stacks {
    /// Every stack of this state directory, and every loop device with an image of Fathom's and
    /// every trace instance of Fathom's that no entry of it knows: its state directory was removed,
    /// or is another one ([`Leftover::elsewhere`]). An entry whose maker was killed before it had
    /// written it is not among them: nothing but its directory is there, which the next stack
    /// removes.
    #[must_use]
    pub fn leftovers(&self) -> Vec<Leftover> {
        let is_written = |found: &&Found| match found {
            Found::Entry { entry, .. } => !entry.is_placeholder(),
            _ => true,
        };
        self.found().iter().filter(is_written).filter_map(described).collect()
    }

    /// Takes stacks down: those of dead owners, or with `only_dead = false` all, named and running
    /// ones too. What another state directory knows stays, and so does what a process that lives
    /// is just bringing up or taking down.
    ///
    /// A busy mount of a dead owner is detached lazily after [`Stacks`]' patience, and the report
    /// says so.
    pub fn down_all(&self, only_dead: bool) -> Report {
        self.take_down(self.found(), only_dead)
    }

    /// What each new stack does first: dead entries of this state directory only. A loop device
    /// that no entry knows might belong to an owner in another process namespace, whose id means
    /// nothing here; that is for the user to decide.
    pub fn sweep(&self) -> Report {
        let mut found = self.found();
        found.retain(|f| matches!(f, Found::Entry { .. } | Found::Disbelieved(_)));
        self.take_down(found, true)
    }

    /// Waits, for `limit` at most, for stacks of this state directory whose owner has ended and
    /// whose guard is at work: their last processes are just ending. `told` is called once with
    /// each that is not gone at once. Gives those that are still there.
    pub fn wait_for_guards(&self, limit: Duration, told: &mut dyn FnMut(&Leftover)) -> Vec<Leftover> {
        self.wait_for_guards_of(&|_| true, limit, told)
    }

    /// As [`Stacks::wait_for_guards`], for those of which this holds.
    pub fn wait_for_guards_of(
        &self,
        is_asked: &dyn Fn(&Leftover) -> bool,
        limit: Duration,
        told: &mut dyn FnMut(&Leftover),
    ) -> Vec<Leftover> {
        let begin = Instant::now();
        let mut known: Vec<PathBuf> = Vec::new();
        loop {
            let found = self.found().into_iter();
            let described = found.filter(Found::is_ending).filter_map(|found| described(&found));
            let ending: Vec<Leftover> = described.filter(is_asked).collect();
            let waited = begin.elapsed();
            // Before the limit is looked at: what is there still when it has passed was told, also
            // where this thread stood still until then.
            if waited >= AT_ONCE {
                for leftover in ending.iter().filter(|leftover| !known.contains(&leftover.path)) {
                    told(leftover);
                }
                known.extend(ending.iter().map(|leftover| leftover.path.clone()));
            }
            if ending.is_empty() || waited >= limit {
                return ending;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn take_down(&self, found: Vec<Found>, only_dead: bool) -> Report {
        let mut report = Report::default();
        for found in found {
            let leftover = match (described(&found), &found) {
                (Some(leftover), _) => leftover,
                (None, Found::Disbelieved(error)) => {
                    report.failed.push(error.to_string());
                    continue;
                }
                (None, _) => continue,
            };
            if (only_dead && !leftover.dead) || leftover.elsewhere.is_some() {
                continue;
            }
            // Gone by itself; nobody has removed it here.
            if matches!(found, Found::Loop { .. } | Found::Trace { .. })
                && (found.goes_by_itself() || self.is_in_work(&found))
            {
                continue;
            }
            let outcome = match &found {
                Found::Entry { home, entry, .. } => {
                    let undo = if leftover.dead { undo_abandoned } else { undo };
                    undo(home, entry, BusyMount { wait: self.busy_limit, lazy: leftover.dead || !only_dead })
                }
                Found::Loop { number, tag, .. } => release(*number, tag, self.busy_limit),
                Found::Trace { path, .. } => {
                    blocks::remove_instance(path).map_err(StackError::io("remove", path))
                }
                Found::Disbelieved(_) => continue,
            };
            let label = leftover.name.unwrap_or(leftover.label);
            match outcome {
                Ok(()) => report.removed.push(label),
                Err(error) => report.failed.push(format!("{label}: {error}")),
            }
        }
        report
    }

    /// Whether a process that lives is at it: it has a loop device that is not mounted yet, or was
    /// mounted after the mounts had been looked at, or it records a trace.
    fn is_in_work(&self, found: &Found) -> bool {
        let is_known = |tag: &String| {
            let is_it = |home: PathBuf| Entry::read(&home).is_ok_and(|entry| entry.tag == *tag);
            self.others().iter().any(|other| other.tag.as_ref() == Some(tag))
                || homes(&self.state).into_iter().any(is_it)
        };
        match found {
            Found::Entry { .. } | Found::Disbelieved(_) => false,
            Found::Trace { tag, .. } => owner_of(tag).1,
            Found::Loop { number, tag, .. } => {
                owner_of(tag).1 && (mounted_at(*number).is_empty() || is_known(tag))
            }
        }
    }

    /// Looks with the state locked, so that no entry is half made; the locks of dead entries are
    /// kept until the caller is done with them, so that two sweeps do not meet.
    fn found(&self) -> Vec<Found> {
        let mut all = Vec::new();
        // Before loop devices and traces are looked for: a guard removes those first, and the mount
        // and its entry after them, so that what is found below was known here, if anybody knows
        // it.
        let others = self.others();
        // Without a state directory there are no entries; loops are looked at all the same.
        let state = match self.state.exists().then(|| lock_state(&self.state)).transpose() {
            Ok(state) => state,
            Err(error) => {
                all.push(Found::Disbelieved(error));
                None
            }
        };
        for home in if state.is_some() { homes(&self.state) } else { Vec::new() } {
            let disbelieved =
                |problem: String| Found::Disbelieved(StackError::Disbelieved { path: home.clone(), problem });
            match trust::home(&home) {
                Err(error) if entry::is_disbelief(&error) => {
                    all.push(disbelieved(error.to_string()));
                    continue;
                }
                // Just gone, or another user's own.
                Err(_) => continue,
                Ok(()) => {}
            }
            let lock = abandoned(&home).map(Lock);
            let entry = match Entry::read_trusted(&home) {
                Ok(entry) => entry,
                Err(error) if entry::is_disbelief(&error) => {
                    all.push(disbelieved(error.to_string()));
                    continue;
                }
                // Whole, but of another version of Fathom, which knows what belongs to it.
                Err(error) if error.kind() == io::ErrorKind::InvalidData => continue,
                Err(_) if lock.is_some() => Entry::placeholder(&home),
                Err(_) => continue,
            };
            // A kept stack has no owner, and its lock is for whoever takes it down. That of another
            // machine may be held there and free here.
            let lock = lock.filter(|_| !entry.kept && !entry.is_of_another_machine());
            all.push(Found::Entry { home, entry: Box::new(entry), lock });
        }
        drop(state);
        for (number, backing) in loop_device::attached() {
            let Some(tag) = tag_in(&backing) else { continue };
            let known = all.iter().any(|f| matches!(f, Found::Entry { entry, .. } if entry.tag == tag));
            if !known {
                let source = format!("/dev/loop{number}");
                let is_it = |other: &&Other| other.tag.as_deref() == Some(tag) || other.source == source;
                let elsewhere = others.iter().find(is_it).map(|other| other.state.clone());
                all.push(Found::Loop { number, tag: tag.to_owned(), elsewhere });
            }
        }
        for (tag, path) in blocks::tagged_instances() {
            let known = all.iter().any(|f| match f {
                Found::Entry { entry, .. } => entry.tag == tag,
                Found::Loop { .. } | Found::Trace { .. } | Found::Disbelieved(_) => false,
            });
            if !known {
                let is_it = |other: &&Other| other.tag.as_ref() == Some(&tag);
                let elsewhere = others.iter().find(is_it).map(|other| other.state.clone());
                all.push(Found::Trace { path, tag, elsewhere });
            }
        }
        all
    }

    /// What other state directories know, by what is mounted: `STATE/stacks/ID/mnt`.
    fn others(&self) -> Vec<Other> {
        let own = self.state.canonicalize().unwrap_or_else(|_| self.state.clone());
        let other = |mount: Mount| {
            let home = mount.point.parent().filter(|_| mount.point.ends_with("mnt"))?;
            let state = home
                .parent()
                .filter(|directory| directory.ends_with("stacks"))?
                .parent()
                .filter(|directory| *directory != own)?;
            let tag = match Entry::read(home) {
                Ok(entry) => Some(entry.tag),
                // Of another version of Fathom, or of another user: it is somebody's all the same.
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::InvalidData | io::ErrorKind::PermissionDenied
                    ) =>
                {
                    None
                }
                Err(_) => return None,
            };
            Some(Other { tag, source: mount.source.clone(), state: state.to_path_buf() })
        };
        mounts().unwrap_or_default().into_iter().filter_map(other).collect()
    }
}

/// A stack that is mounted, and known to another state directory.
struct Other {
    tag: Option<String>,
    source: String,
    state: PathBuf,
}

/// What is gone sooner is not worth a word.
const AT_ONCE: Duration = Duration::from_millis(500);

impl Found {
    /// Whether its owner has ended and its guard has not.
    fn is_ending(&self) -> bool {
        match self {
            Found::Entry { entry, lock: None, .. } => {
                // From another process namespace, or machine, nobody sees whether its owner lives.
                let is_seen = entry.is_of_this_namespace() && !entry.is_of_another_machine();
                !entry.kept && is_seen && !owner_of(&entry.tag).1
            }
            _ => false,
        }
    }

    /// Waits a moment for a loop device that nothing is mounted of any more, or a trace, to go;
    /// whether it is gone.
    fn goes_by_itself(&self) -> bool {
        let begin = Instant::now();
        let gone = || match self {
            Found::Entry { .. } | Found::Disbelieved(_) => false,
            Found::Loop { number, tag, .. } => {
                loop_device::backing_file(*number).is_none_or(|backing| tag_in(&backing) != Some(tag))
            }
            Found::Trace { path, .. } => !path.exists(),
        };
        let used = || matches!(self, Found::Loop { number, .. } if !mounted_at(*number).is_empty());
        while !gone() {
            if used() || begin.elapsed() >= GOES_BY_ITSELF {
                return false;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        true
    }
}

/// See [`Stacks::leftovers`], for this user's state directory.
#[must_use]
pub fn leftovers() -> Vec<Leftover> {
    Stacks::here().leftovers()
}

/// See [`Stacks::sweep`], for this user's state directory.
pub fn sweep() -> Report {
    Stacks::here().sweep()
}

/// See [`Stacks::down_all`], for this user's state directory.
pub fn down_all(only_dead: bool) -> Report {
    Stacks::here().down_all(only_dead)
}

fn described(found: &Found) -> Option<Leftover> {
    let device = |number: u32| PathBuf::from(format!("/dev/loop{number}"));
    Some(match found {
        Found::Entry { home, entry, lock } => Leftover {
            label: entry.label.clone(),
            name: entry.name.clone(),
            filesystem: entry.spec.place.name().to_owned(),
            path: entry.work.clone().unwrap_or_else(|| mount_point(home)),
            owner_pid: entry.owner_pid,
            dead: lock.is_some(),
            created_ms: entry.created_ms,
            loops: loop_device::attached()
                .into_iter()
                .filter(|(_, backing)| tag_in(backing) == Some(&entry.tag))
                .map(|(number, _)| device(number))
                .collect(),
            elsewhere: None,
        },
        Found::Loop { number, tag, elsewhere } => {
            let (owner_pid, alive) = owner_of(tag);
            Leftover {
                label: tag.clone(),
                name: None,
                filesystem: String::new(),
                path: mounted_at(*number).into_iter().next().unwrap_or_else(|| device(*number)),
                owner_pid,
                // A named stack of another state directory outlives its maker: it is somebody's.
                dead: !alive && !tag.starts_with("fathom-named-"),
                created_ms: 0,
                loops: vec![device(*number)],
                elsewhere: elsewhere.clone(),
            }
        }
        Found::Trace { path, tag, elsewhere } => {
            let (owner_pid, alive) = owner_of(tag);
            Leftover {
                label: tag.clone(),
                name: None,
                filesystem: String::new(),
                path: path.clone(),
                owner_pid,
                dead: !alive,
                created_ms: 0,
                loops: Vec::new(),
                elsewhere: elsewhere.clone(),
            }
        }
        Found::Disbelieved(_) => return None,
    })
}

/// Process id in a tag, and whether that very process lives. Where nobody tells (there is no
/// `/proc`), it is not called dead.
fn owner_of(tag: &str) -> (u32, bool) {
    let (owner_pid, start) = owner_in(tag).unwrap_or((0, 0));
    let lives = start_time(&owner_pid.to_string()) == Some(start);
    (owner_pid, lives || start_time("self").is_none())
}

fn mounted_at(number: u32) -> Vec<PathBuf> {
    let source = format!("/dev/loop{number}");
    mounts().unwrap_or_default().into_iter().filter(|m| m.source == source).map(|m| m.point).collect()
}

/// Unmounts and detaches a loop device that no entry knows, unless its number is another's by now.
/// Who uses it is waited for: it may be just ending.
fn release(number: u32, tag: &str, wait: Duration) -> Result<(), StackError> {
    let (image, path) = (format!("/.{tag}."), format!("/dev/loop{number}"));
    let held = loop_device::hold(number, &image).map_err(StackError::io("open", &path))?;
    // While it is held here, its mounts are those of this image.
    let Some(held) = held else { return Ok(()) };
    for point in mounted_at(number).into_iter().rev() {
        unmount(&point, BusyMount { wait, lazy: false })?;
    }
    drop(held);
    if !loop_device::wait_detached(number, Some(tag), Duration::from_millis(500)) {
        loop_device::detach(number, &image).map_err(StackError::io("detach", &path))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ground::machine_mark::MachineMark;

    /// A child that another thread was just starting kept the lock of an entry that was looked at,
    /// which then seemed to have an owner.
    #[test]
    fn an_entry_that_was_looked_at_is_free_again_whoever_has_a_copy_of_the_lock() {
        let state = tempfile::tempdir().unwrap();
        let dead = state.path().join("stacks/fathom-dead-1-2-3");
        std::fs::create_dir_all(&dead).unwrap();
        std::fs::write(dead.join("owner"), "").unwrap();
        let found = Stacks::at(state.path()).found();
        let lock = found.iter().find_map(|found| match found {
            Found::Entry { home, lock, .. } if *home == dead => lock.as_ref(),
            _ => None,
        });
        // As a child has one until its exec.
        let copy = lock.unwrap().0.try_clone().unwrap();
        assert!(abandoned(&dead).is_none(), "it is locked while it is judged");
        drop(found);
        assert!(abandoned(&dead).is_some());
        drop(copy);
    }

    /// What happened: from another process namespace (a container that shares the state directory)
    /// `stack list` and `stack down` said of live runs that their owner "has ended", for no process
    /// there has that number. The mend: an entry says in which namespace its owner's number holds;
    /// elsewhere its lock alone tells.
    #[test]
    fn an_owner_of_another_process_namespace_is_not_said_to_have_ended() {
        let place = tempfile::tempdir().unwrap();
        let stacks = Stacks::at(place.path().join("state"));
        let spec = crate::StackSpec { directory: Some(place.path().into()), ..crate::StackSpec::default() };
        let mut claim = crate::stacks::claim::Claim::new(&stacks.state, "lives", None, &spec).unwrap();
        // No process of this number began then; the lock is held.
        let (home, tag) = (claim.home.clone(), "fathom-lives-4000000-1-0".to_owned());
        let moved = home.with_file_name(&tag);
        let work = Some(claim.entry.directory.join(&tag));
        let entry = Entry { tag, work, ..claim.entry.clone() };
        std::fs::rename(&home, &moved).unwrap();
        let ending = |namespace: Option<u64>| {
            Entry { pid_namespace: namespace, ..entry.clone() }.write(&moved).unwrap();
            stacks.wait_for_guards(Duration::ZERO, &mut |_| ()).len()
        };
        assert_eq!(ending(entry.pid_namespace), 1, "of this namespace: its guard is at it");
        // What happened: one that first looked again when the limit had passed, for it had got no
        // processor until then, gave what is there still and had told nobody of it.
        let mut told = 0;
        let left = stacks.wait_for_guards(AT_ONCE, &mut |_| told += 1);
        assert_eq!((left.len(), told), (1, 1));
        if entry.pid_namespace.is_some() {
            assert_eq!(ending(Some(u64::MAX)), 0, "of another one: nobody here knows");
        }
        std::fs::rename(&moved, &home).unwrap();
        claim.entry.write(&home).unwrap();
        claim.down(BusyMount { wait: Duration::ZERO, lazy: false }).unwrap();
    }

    /// What happened: a machine and a virtual one in it, or two boards, with one home on a file
    /// system that tells neither of the other's locks, took each other's stacks for those of killed
    /// runs: as one began, it removed the directory that the other was at work in.
    #[test]
    fn what_another_machine_with_this_home_is_at_is_left_to_it() {
        let place = tempfile::tempdir().unwrap();
        let stacks = Stacks::at(place.path().join("state"));
        let spec = crate::StackSpec { directory: Some(place.path().into()), ..crate::StackSpec::default() };
        let mut claim = crate::stacks::claim::Claim::new(&stacks.state, "there", None, &spec).unwrap();
        let (home, entry) = (claim.home.clone(), claim.entry.clone());
        claim.down(BusyMount { wait: Duration::ZERO, lazy: false }).unwrap();
        let there: MachineMark = serde_json::from_str(r#"{"kernel":1,"system":2}"#).unwrap();
        if !there.is_elsewhere(MachineMark::here()) {
            println!("SKIP: needs /etc/machine-id (systemd-machine-id-setup makes it)");
            return;
        }
        let work = entry.work.clone().unwrap();
        let swept = |machine: Option<MachineMark>| {
            std::fs::create_dir_all(home.join("mnt")).unwrap();
            std::fs::create_dir_all(&work).unwrap();
            let own = std::os::unix::fs::PermissionsExt::from_mode(0o700);
            std::fs::set_permissions(&home, own).unwrap();
            std::fs::write(home.join("owner"), "").unwrap();
            Entry { machine, ..entry.clone() }.write(&home).unwrap();
            let report = stacks.sweep();
            assert_eq!(report.failed, Vec::<String>::new());
            assert!(stacks.wait_for_guards(Duration::ZERO, &mut |_| ()).is_empty());
            (report.removed.len(), work.exists())
        };
        assert_eq!(swept(Some(there)), (0, true));
        assert_eq!(swept(entry.machine), (1, false));
        assert_eq!(swept(None), (1, false), "of an earlier version");
    }

    /// What happened: a run that could open no more files left the directory of an entry that was
    /// never written, and the next one said "Removed what a killed run had left: " with no name.
    /// The mend: it is called as its directory is.
    #[test]
    fn what_was_never_written_down_has_a_name_all_the_same() {
        for (directory, name) in
            [("fathom-ext4-wal-1-2-3", "ext4-wal"), ("named-lab", "lab"), ("something", "something")]
        {
            let state = tempfile::tempdir().unwrap();
            let home = state.path().join("stacks").join(directory);
            std::fs::create_dir_all(home.join("mnt")).unwrap();
            std::fs::write(home.join("owner"), "").unwrap();
            // What happened: a cut that was killed as it made its first stack had "left behind by
            // process 0" a file system that was never made. The mend: nobody is told to remove it.
            assert!(Stacks::at(state.path()).leftovers().iter().all(|left| left.path != mount_point(&home)));
            let report = Stacks::at(state.path()).sweep();
            assert_eq!((report.removed, report.failed), (vec![name.to_owned()], Vec::new()));
            assert!(!home.exists());
        }
    }
}
