//! Claims: entries that this process owns, and what it has made for them.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use fathom_device::server::Server;
use fathom_ground::sidecar::Sidecar;
use rustix::fs::FlockOperation;

use super::entry::{
    Entry, abandoned, device_points, homes, inode, let_go, lock_state, mount_point, open_lock, pid_namespace,
    stacks_in,
};
use super::error::StackError;
use super::guard::Guard;
use super::haste::Haste;
use super::teardown::{BusyMount, UNMOUNT_LIMIT, undo};
use crate::ground::machine_mark::MachineMark;
use crate::ground::process::Process;
use crate::ground::tag::{clean, tag_of};
use crate::ground::watchdog::Watchdog;
use crate::guest::{self, Guest};
use crate::spec::StackSpec;

/// An entry on disk that this process owns.
#[derive(Debug)]
pub(crate) struct Claim {
    /// Directory of the entry.
    pub home: PathBuf,
    /// What it says.
    pub entry: Entry,
    /// Undoes the stack should this process die.
    pub guard: Option<Guard>,
    /// Serve the stack's modelled devices: the file system's, then its external log's.
    pub servers: Vec<Server>,
    /// Texts of their models.
    pub models: Vec<String>,
    /// Has the stack's file system mounted.
    pub guest: Option<Guest>,
    /// Has the guest whose file system is mounted here as well.
    pub keeper: Option<Sidecar>,
    /// Looks after the servers while the stack is made.
    pub watchdog: Option<Watchdog>,
    /// Have the devices hurry once the user wants to stop.
    pub haste: Vec<Haste>,
    /// Held locked while this process lives.
    owner: File,
}

impl Claim {
    /// Writes an entry down and locks it. A named stack's directory is its name, so that a name is
    /// taken once.
    ///
    /// # Errors
    /// The state directory cannot be written, or the name is taken.
    pub fn new(state: &Path, label: &str, name: Option<&str>, spec: &StackSpec) -> Result<Claim, StackError> {
        let label = clean(label);
        let owner_pid = std::process::id();
        let tag = tag_of(&if name.is_some() { format!("named-{label}") } else { label.clone() });
        let directory = absolute(spec.directory.as_deref())?;
        let work = spec.place.is_directory().then(|| directory.join(&tag));
        let created_ms =
            SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64);
        let spec = StackSpec { directory: Some(directory.clone()), ..spec.clone() };
        let entry = Entry {
            label,
            name: name.map(str::to_owned),
            kept: false,
            record: None,
            owner_pid,
            directory,
            work,
            created_ms,
            servers: Vec::new(),
            keep_inode: spec.keep.as_deref().and_then(inode),
            pid_namespace: pid_namespace(),
            machine: Some(MachineMark::here()),
            spec,
            tag,
        };

        let _lock = lock_state(state)?;
        if name.is_some() {
            check_logs(state, &entry.spec)?;
        }
        let home =
            stacks_in(state).join(name.map_or_else(|| entry.tag.clone(), |name| format!("named-{name}")));
        if name.is_some() {
            outwait_removal(&home);
        }
        match DirBuilder::new().mode(0o700).create(&home) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && name.is_some() => {
                let name = name.unwrap_or_default().to_owned();
                // Its lock is held while somebody makes it or takes it down.
                match abandoned(&home) {
                    None => return Err(StackError::InProgress { name }),
                    Some(owner) => let_go(&owner),
                }
                let path = Entry::read(&home).ok().and_then(|e| e.work).unwrap_or_else(|| mount_point(&home));
                return Err(StackError::NameTaken { name, path });
            }
            other => other.map_err(StackError::io("make", &home))?,
        }
        let owner = Claim::furnished(&home, &entry).inspect_err(|_| {
            // Nothing else was made yet. What cannot be removed either is found by the next sweep.
            let _ = undo(&home, &entry, BusyMount { wait: Duration::ZERO, lazy: false });
        })?;
        Ok(Claim {
            home,
            entry,
            guard: None,
            servers: Vec::new(),
            models: Vec::new(),
            guest: None,
            keeper: None,
            watchdog: None,
            haste: Vec::new(),
            owner,
        })
    }

    /// Makes what is in an entry's directory; the lock, held.
    fn furnished(home: &Path, entry: &Entry) -> Result<File, StackError> {
        // Whatever umask says. What is mounted below it may keep no owners, so nobody else may get
        // there; a named stack is for the user's own use, who may let in whom he likes. See
        // `Stack::let_enter`.
        let entered = if entry.name.is_some() { 0o711 } else { 0o700 };
        let set = |path: &Path, mode: u32| {
            fs::create_dir_all(path)
                .and_then(|()| fs::set_permissions(path, fs::Permissions::from_mode(mode)))
                .map_err(StackError::io("make", path))
        };
        set(home, entered)?;
        set(&mount_point(home), 0o755)?;
        device_points(home, entry).iter().try_for_each(|point| set(point, 0o755))?;
        let path = home.join("owner");
        let owner = open_lock(&path).map_err(StackError::io("make", &path))?;
        rustix::fs::flock(&owner, FlockOperation::NonBlockingLockExclusive)
            .map_err(io::Error::from)
            .map_err(StackError::io("lock", &path))?;
        entry.write(home)?;
        Ok(owner)
    }

    /// Starts the guard, with a part in the lock.
    ///
    /// # Errors
    /// There is no such program; else see [`Guard::start`].
    pub fn guarded(&self, program: Option<&Path>) -> io::Result<Guard> {
        let none = || io::Error::other("stacks are guarded by the program `fathom`, which this is not");
        Guard::start(program.ok_or_else(none)?, &self.home, &self.owner)
    }

    /// Takes a server in, and writes down whom to look for when the stack is undone.
    ///
    /// # Errors
    /// The entry cannot be written.
    pub fn add_server(&mut self, server: Server) -> Result<(), StackError> {
        self.entry.servers.extend(Process::of(server.pid()));
        self.servers.push(server);
        self.watchdog = Some(Watchdog::over(&self.entry.servers));
        self.entry.write(&self.home)
    }

    /// Has the devices take no more time: nobody wants what is measured on them.
    pub fn hurry(&self) {
        for mut spur in self.servers.iter().filter_map(Server::spur) {
            spur.hurry();
        }
    }

    /// Where it is (to be) mounted.
    pub fn mount_point(&self) -> PathBuf {
        mount_point(&self.home)
    }

    /// Takes everything down and forgets the entry.
    ///
    /// # Errors
    /// See [`undo`]. The guard then goes on trying for a while.
    pub fn down(&mut self, busy: BusyMount) -> Result<(), StackError> {
        let watchdog = Watchdog::over(&self.entry.servers);
        // Its disk is wanted no more, so a guest that cannot unmount is only told of.
        let off = self.guest.take().map(|guest| guest.off(Path::new(guest::POINT), UNMOUNT_LIMIT));
        let stood_still = watchdog.killed();
        undo(&self.home, &self.entry, busy)?;
        if let Some(keeper) = self.keeper.take() {
            keeper.end();
        }
        self.servers.drain(..).for_each(Server::end);
        if let Some(guard) = self.guard.take() {
            guard.dismiss();
        }
        off.unwrap_or(Ok(()))
            .map_err(|error| if stood_still { StackError::StoodStill } else { StackError::Guest(error) })
    }

    /// Lets the stack outlive this process: a named stack is complete.
    ///
    /// # Errors
    /// The entry cannot be written.
    pub fn keep(mut self) -> Result<Entry, StackError> {
        self.entry.kept = true;
        self.entry.write(&self.home)?;
        self.servers.drain(..).for_each(Server::keep);
        if let Some(keeper) = self.keeper.take() {
            keeper.keep();
        }
        if let Some(guard) = self.guard.take() {
            guard.dismiss();
        }
        let_go(&self.owner);
        Ok(self.entry)
    }
}

/// How long the last steps of a removal may take.
const LAST_STEPS: Duration = Duration::from_secs(5);

/// Waits until a directory is gone whose entry is gone already. Call with the state locked: entries
/// are made so, and one that is not written is then on the last steps of its removal.
fn outwait_removal(home: &Path) {
    let begin = Instant::now();
    let is_going = || home.is_dir() && home.join("entry.json").symlink_metadata().is_err();
    while is_going() && begin.elapsed() < LAST_STEPS {
        // Its remover may have died.
        if let Some(owner) = abandoned(home) {
            let_go(&owner);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Refuses a log of operations that another stack is just making, or has made since it was looked
/// for: one of the two would fail, and what it takes with it is the other's. Call with the state
/// locked.
fn check_logs(state: &Path, spec: &StackSpec) -> Result<(), StackError> {
    let logs = spec.logs();
    let unfinished = |home: PathBuf| Entry::read(&home).map(|entry| entry.unfinished()).unwrap_or_default();
    let of_others: Vec<PathBuf> = match logs.is_empty() {
        true => Vec::new(),
        false => homes(state).into_iter().flat_map(unfinished).collect(),
    };
    let taken = logs.iter().find(|log| log.symlink_metadata().is_ok() || of_others.contains(log));
    taken.map_or(Ok(()), |log| {
        let problem = format!("{} is another stack's: name another file", log.display());
        Err(StackError::Spec { field: "operations", problem })
    })
}

/// The directory as an absolute path without links; none is the current one.
fn absolute(directory: Option<&Path>) -> Result<PathBuf, StackError> {
    let directory = directory.unwrap_or(Path::new("."));
    let refused = |problem: String| StackError::Directory { path: directory.to_path_buf(), problem };
    let path = directory.canonicalize().map_err(|e| {
        refused(match e.kind() {
            io::ErrorKind::NotFound => format!("does not exist; `mkdir -p {}` makes it", directory.display()),
            _ => e.to_string(),
        })
    })?;
    if path.is_dir() {
        Ok(path)
    } else {
        Err(refused("is not a directory; give the directory it lies in".into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ground::process::start_time;
    use crate::ground::tag::owner_in;
    use crate::stacks::entry::is_disbelief;
    use crate::stacks::teardown::undo;

    #[test]
    fn a_claim_is_written_locked_and_gone_after_down() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        let spec = StackSpec { directory: Some(dir.path().into()), ..StackSpec::default() };
        let mut claim = Claim::new(&state, "ext4 wal/full", None, &spec).unwrap();
        assert_eq!(Entry::read(&claim.home).unwrap(), claim.entry);
        assert_eq!(claim.entry.label, "ext4-wal-full");
        assert!(abandoned(&claim.home).is_none(), "its owner lives");
        assert_eq!(owner_in(&claim.entry.tag).unwrap(), (std::process::id(), start_time("self").unwrap()));
        claim.down(BusyMount { wait: Duration::ZERO, lazy: false }).unwrap();
        assert_eq!(homes(&state), Vec::<PathBuf>::new());
    }

    /// What happened: whatever directory an entry named as its own was removed with all its
    /// contents by the next run's sweep, and whatever file as its image or log. The mend:
    /// [`Entry::check`], before anything of the entry is touched.
    #[test]
    fn an_entry_removes_only_what_it_can_prove_to_be_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let (state, docs, thesis) =
            (dir.path().join("state"), dir.path().join("docs"), dir.path().join("docs/thesis.txt"));
        fs::create_dir(&docs).unwrap();
        fs::write(&thesis, "years of work").unwrap();
        let spec = StackSpec { directory: Some(dir.path().into()), ..StackSpec::default() };
        let claim = Claim::new(&state, "lab", Some("lab"), &spec).unwrap();
        let (home, entry) = (claim.home.clone(), claim.entry.clone());
        drop(claim);
        let work = entry.work.clone().unwrap();
        fs::create_dir(&work).unwrap();
        let named = |spec: StackSpec| Entry { spec, ..entry.clone() };
        let with = |keep: Option<PathBuf>, operations: Option<PathBuf>| {
            named(StackSpec { keep, operations, capture: true, ..entry.spec.clone() })
        };
        let busy = BusyMount { wait: Duration::ZERO, lazy: true };
        for (damaged, why) in [
            (Entry { work: Some(docs.clone()), ..entry.clone() }, "which Fathom has not made"),
            (Entry { work: Some(work.join("../docs")), ..entry.clone() }, "which Fathom has not made"),
            (Entry { directory: docs.clone(), ..entry.clone() }, "which Fathom has not made"),
            (Entry { directory: "docs".into(), ..entry.clone() }, "no whole path"),
            (Entry { tag: "docs".into(), ..entry.clone() }, "not of this place"),
            (Entry { tag: format!("{}/../docs", entry.tag), ..entry.clone() }, "not of this place"),
            (Entry { name: Some("other".into()), ..entry.clone() }, "not of this place"),
            (Entry { name: None, ..entry.clone() }, "not of this place"),
            (with(Some(thesis.clone()), None), "another than was made for it"),
            (with(None, Some(thesis.clone())), "another than was made for it"),
            (with(Some(docs.clone()), None), "another than was made for it"),
        ] {
            damaged.write(&home).unwrap();
            let error = Entry::read_trusted(&home).unwrap_err();
            assert!(is_disbelief(&error) && error.to_string().contains(why), "{why}: {error}");
            let error = undo(&home, &damaged, busy).unwrap_err().to_string();
            assert!(error.contains(why) && error.contains("rm -r"), "{why}: {error}");
            assert!(thesis.exists() && work.exists() && home.join("entry.json").exists(), "{why}");
        }
        // What lies there now is another directory than was made.
        fs::remove_dir(&work).unwrap();
        std::os::unix::fs::symlink(&docs, &work).unwrap();
        assert!(undo(&home, &entry, busy).is_err());
        fs::remove_file(&work).unwrap();
        // What was made is removed, and nothing that a link in it leads to.
        let (image, log) = (dir.path().join("image"), dir.path().join("log"));
        fs::write(&image, "an image").unwrap();
        fathom_device::OperationLog::create(&log, true).unwrap();
        fs::create_dir(&work).unwrap();
        std::os::unix::fs::symlink(&docs, work.join("link")).unwrap();
        let whole = Entry { keep_inode: inode(&image), ..with(Some(image.clone()), Some(log.clone())) };
        whole.write(&home).unwrap();
        undo(&home, &Entry::read_trusted(&home).unwrap(), busy).unwrap();
        for gone in [&image, &log, &fathom_device::data_of(&log), &work, &home] {
            assert!(gone.symlink_metadata().is_err(), "{gone:?}");
        }
        assert_eq!(fs::read_to_string(thesis).unwrap(), "years of work");
    }

    /// What happened: of a stack that a command was just making, or that was being taken down
    /// behind one that Ctrl-C had ended, a second one was told that it is up already and that
    /// `stack down` removes it; `stack list` showed none, and `stack down` refused.
    #[test]
    fn a_name_is_taken_once() {
        let dir = tempfile::tempdir().unwrap();
        let spec = StackSpec { directory: Some(dir.path().into()), ..StackSpec::default() };
        let refused = || Claim::new(dir.path(), "x", Some("mine"), &spec).unwrap_err().to_string();
        let first = Claim::new(dir.path(), "x", Some("mine"), &spec).unwrap();
        assert!(refused().contains("\"mine\" is just being brought up or taken down"), "{}", refused());
        first.keep().unwrap();
        assert!(refused().contains("\"mine\" is already up"), "{}", refused());
    }

    /// What happened: the same command, given again as the guard of the stopped one was done but
    /// for the directory, was told that another one is at it.
    #[test]
    fn the_last_steps_of_a_removal_are_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let spec = StackSpec { directory: Some(dir.path().into()), ..StackSpec::default() };
        let first = Claim::new(dir.path(), "x", Some("mine"), &spec).unwrap();
        let home = first.home.clone();
        // As `undo` does it, with time between the steps.
        fs::remove_file(home.join("entry.json")).unwrap();
        let second = std::thread::scope(|scope| {
            let second = scope.spawn(|| Claim::new(dir.path(), "x", Some("mine"), &spec));
            std::thread::sleep(Duration::from_millis(50));
            fs::remove_file(home.join("owner")).unwrap();
            second.join().unwrap()
        });
        assert_eq!(Entry::read(&second.unwrap().home).unwrap().name.as_deref(), Some("mine"));
    }

    /// What happened: below a link, as in FATHOM_STATE_DIR=/var/run/fathom, and where that was no
    /// whole path, no mount was known by its point: "mount reported success, but nothing is
    /// mounted", and it stayed, with its loop device.
    #[test]
    fn an_entry_lies_where_the_kernel_names_it() {
        let dir = tempfile::tempdir().unwrap();
        let whole = dir.path().canonicalize().unwrap();
        fs::create_dir(whole.join("run")).unwrap();
        std::os::unix::fs::symlink("run", whole.join("link")).unwrap();
        let spec = StackSpec { directory: Some(whole.clone()), ..StackSpec::default() };
        let state = whole.join("link/fathom");
        let claim = Claim::new(&state, "x", Some("mine"), &spec).unwrap();
        assert!(claim.home.starts_with(whole.join("run/fathom/stacks")), "{}", claim.home.display());
        assert_eq!(homes(&state), std::slice::from_ref(&claim.home));
    }

    /// What happened: of two that were brought up at once with one `--operations FILE` both had
    /// found that it is not there. The second could not make it, and when it was undone, it took
    /// the first one's log with it, whose stack went on and was taken down without a word.
    #[test]
    fn a_log_is_of_one_stack_alone() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("card.operations");
        let of = |operations: &Path| StackSpec {
            directory: Some(dir.path().into()),
            operations: Some(operations.into()),
            capture: true,
            ..StackSpec::default()
        };
        let up = |name: &str, operations: &Path| Claim::new(dir.path(), name, Some(name), &of(operations));
        let first = up("first", &log).unwrap();
        let refused = |name: &str, operations: &Path| {
            let error = up(name, operations).unwrap_err().to_string();
            assert!(error.contains("is another stack's: name another file"), "{error}");
            assert!(!stacks_in(dir.path()).join(format!("named-{name}")).exists(), "nothing was made");
        };
        refused("second", &log);
        refused("third", &fathom_device::data_of(&log));
        up("fourth", &dir.path().join("other.operations")).unwrap();
        // Made and complete: it is its user's, who may have it elsewhere by now.
        fathom_device::OperationLog::create(&log, true).unwrap();
        first.keep().unwrap();
        refused("fifth", &log);
        assert!(log.exists());
        fs::rename(&log, dir.path().join("moved")).unwrap();
        fs::remove_file(fathom_device::data_of(&log)).unwrap();
        up("sixth", &log).unwrap();
    }

    #[test]
    fn directories_that_cannot_be_used_say_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        for (directory, part) in [(dir.path().join("missing"), "mkdir -p"), (file, "is not a directory")] {
            let error = absolute(Some(&directory)).unwrap_err().to_string();
            assert!(error.contains(part) && error.contains(directory.to_str().unwrap()), "{error}");
        }
    }
}
