//! Claims: what a stack makes is written down before it is made, so that it can always be found and undone.
//!
//! The state directory holds one directory a stack:
//! ```text
//! STATE/stacks/ID/entry.json   what the stack consists of (Entry)
//! STATE/stacks/ID/owner        locked (flock) by the owner as long as it lives; the kernel lets go whatever happens
//! STATE/stacks/ID/mnt/         mount point
//! STATE/stacks/ID/state/       what a guest kernel keeps while it runs, and what companions have to say
//! STATE/stacks/ID/TAG.device/  where a modelled device is served, if the stack has one
//! STATE/stacks/ID/TAG.log-device/  and that of its external log
//! STATE/lock                   taken to make an entry or to judge one
//! ```
//! An entry whose `owner` can be locked belongs to nobody any more, unless it is a named stack that was completed: those
//! outlive the command that made them. [`undo`] takes any entry down, from whatever state it was left in; success,
//! failure, drop and the sweep of leftovers all end there.
//!
//! What an entry says is removed with all its contents, so it is believed in what it can prove only
//! ([`Entry::check`]): the list must be this user's or root's own ([`trust`]), and each path must
//! be what Fathom itself would have made.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use crate::blocks;
use crate::command::{CommandLine, find_program, fusermount};
use crate::device::server::Server;
use crate::device::{End, external_of, is_log, log_end};
use crate::error::StackError;
use crate::guard::Guard;
use crate::guest::{self, Guest, Keeper};
use crate::loop_device;
use crate::mountinfo::{Holder, holders, is_mounted};
use crate::process::{Process, Rescue};
use crate::spec::{StackRecord, StackSpec};
use crate::trust;

/// How long one umount may take: it writes out everything that is dirty.
const UNMOUNT_LIMIT: Duration = Duration::from_secs(120);
/// How long a server may take to write its log out once nothing is mounted any more.
const SERVER_END: Duration = Duration::from_secs(30);

/// Largest entry, bytes; those of stacks have some KiB.
const LARGEST_ENTRY: u64 = 1 << 20;

/// What a stack consists of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// What the caller called it.
    pub label: String,
    /// Name of a stack for the user's own use.
    pub name: Option<String>,
    /// A named stack is complete and outlives its maker.
    pub kept: bool,
    /// What was asked for.
    pub spec: StackSpec,
    /// What was made, once it is.
    pub record: Option<StackRecord>,
    /// Process that made it.
    pub owner_pid: u32,
    /// Names of image files and `dir` directories begin with this; it holds label, process id and start time.
    pub tag: String,
    /// Directory of images, or of the `dir` directory.
    pub directory: PathBuf,
    /// The directory of a `dir` stack, to be removed with all its contents.
    pub work: Option<PathBuf>,
    /// When it was made, ms since 1970.
    pub created_ms: u64,
    /// Serve its modelled devices.
    #[serde(default)]
    pub servers: Vec<Process>,
    /// Number of the new file that is to keep the file system, by which it is known again.
    #[serde(default)]
    pub keep_inode: Option<u64>,
    /// The process namespace of [`Entry::owner_pid`], where it is known: in another one the number
    /// is another's, or nobody's.
    #[serde(default)]
    pub pid_namespace: Option<u64>,
}

/// How an entry is taken down when it is in use.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// How long a busy mount is tried again.
    pub wait: Duration,
    /// Whether it is then detached lazily.
    pub lazy: bool,
}

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
    pub keeper: Option<Keeper>,
    /// Looks after the servers while the stack is made.
    pub rescue: Option<Rescue>,
    /// Held locked while this process lives.
    owner: File,
}

impl Claim {
    /// Writes an entry down and locks it. A named stack's directory is its name, so that a name is taken once.
    ///
    /// # Errors
    /// The state directory cannot be written, or the name is taken.
    pub fn new(state: &Path, label: &str, name: Option<&str>, spec: &StackSpec) -> Result<Claim, StackError> {
        let label = clean(label);
        let owner_pid = std::process::id();
        let tag = tag_of(&if name.is_some() { format!("named-{label}") } else { label.clone() });
        let directory = absolute(&spec.directory)?;
        let work = (spec.filesystem == "dir").then(|| directory.join(&tag));
        let created_ms =
            SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64);
        let spec = StackSpec { directory: directory.clone(), ..spec.clone() };
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
            spec,
            tag,
        };

        let _lock = lock_state(state)?;
        let home =
            stacks_in(state).join(name.map_or_else(|| entry.tag.clone(), |name| format!("named-{name}")));
        match DirBuilder::new().mode(0o700).create(&home) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists && name.is_some() => {
                let path = Entry::read(&home).ok().and_then(|e| e.work).unwrap_or_else(|| mount_point(&home));
                return Err(StackError::NameTaken { name: name.unwrap_or_default().to_owned(), path });
            }
            other => other.map_err(StackError::io("make", &home))?,
        }
        let owner = Claim::furnished(&home, &entry).inspect_err(|_| {
            // Nothing else was made yet. What cannot be removed either is found by the next sweep.
            let _ = undo(&home, &entry, Patience { wait: Duration::ZERO, lazy: false });
        })?;
        Ok(Claim {
            home,
            entry,
            guard: None,
            servers: Vec::new(),
            models: Vec::new(),
            guest: None,
            keeper: None,
            rescue: None,
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
    /// See [`Guard::start`].
    pub fn guarded(&self) -> io::Result<Guard> {
        Guard::start(&self.home, &self.entry, &self.owner)
    }

    /// Takes a server in, and writes down whom to look for when the stack is undone.
    ///
    /// # Errors
    /// The entry cannot be written.
    pub fn served_by(&mut self, server: Server) -> Result<(), StackError> {
        self.entry.servers.extend(Process::of(server.pid()));
        self.servers.push(server);
        self.rescue = Some(Rescue::from(&self.entry.servers));
        self.entry.write(&self.home)
    }

    /// Where it is (to be) mounted.
    pub fn mount_point(&self) -> PathBuf {
        mount_point(&self.home)
    }

    /// Takes everything down and forgets the entry.
    ///
    /// # Errors
    /// See [`undo`]. The guard then goes on trying for a while.
    pub fn down(&mut self, patience: Patience) -> Result<(), StackError> {
        let rescue = Rescue::from(&self.entry.servers);
        // Its disk is wanted no more, so a guest that cannot unmount is only told of.
        let off = self.guest.take().map(|guest| guest.off(Path::new(guest::POINT), UNMOUNT_LIMIT));
        let stood_still = rescue.killed();
        undo(&self.home, &self.entry, patience)?;
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

impl Entry {
    /// Reads the entry of a directory.
    ///
    /// # Errors
    /// It is not there, or not whole.
    pub fn read(home: &Path) -> io::Result<Entry> {
        // Entries of other state directories are looked at, too, and those may be anybody's: a pipe is not waited for, nor is a device
        // read to its end.
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW)
            .open(home.join("entry.json"))?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("no regular file"));
        }
        let mut text = Vec::new();
        file.take(LARGEST_ENTRY).read_to_end(&mut text)?;
        Ok(serde_json::from_slice(&text)?)
    }

    /// As [`Entry::read`], of an entry that is to be acted upon.
    ///
    /// # Errors
    /// As [`Entry::read`]; where it is not believed, one that [`is_disbelief`] knows, with the
    /// reason.
    pub fn believed(home: &Path) -> io::Result<Entry> {
        let refused = |problem: String| io::Error::new(io::ErrorKind::PermissionDenied, problem);
        trust::home(home)?;
        let entry = Entry::read(home)?;
        let path = home.join("entry.json");
        trust::file(&path, &fs::symlink_metadata(&path)?).map_err(refused)?;
        entry.check(home).map_err(refused)?;
        Ok(entry)
    }

    /// Whether each path that is removed with this entry is one that Fathom makes, and what is
    /// there is what Fathom has made.
    ///
    /// # Errors
    /// In words: which is not, and why.
    pub fn check(&self, home: &Path) -> Result<(), String> {
        let here = crate::command::file_name(home);
        let expected = self.name.as_ref().map_or_else(|| self.tag.clone(), |name| format!("named-{name}"));
        // One that was never written has made nothing but its directory.
        let unwritten =
            self.name.is_none() && self.work.is_none() && self.servers.is_empty() && self.directory == home;
        if here != expected || !(is_tag(&self.tag) || unwritten) {
            return Err(format!(
                "it is the entry of {expected:?} with the tag {:?}, and so not of this place",
                self.tag
            ));
        }
        let plain =
            |path: &Path| path.is_absolute() && path.components().all(|it| it != Component::ParentDir);
        for path in [&self.directory].into_iter().chain(&self.unfinished()) {
            if !plain(path) && path != home {
                return Err(format!("it names {}, which is no whole path", path.display()));
            }
        }
        if let Some(work) = &self.work {
            self.check_work(work)?;
        }
        self.unfinished().iter().try_for_each(|path| self.check_file(path))
    }

    fn check_work(&self, work: &Path) -> Result<(), String> {
        let shown = work.display();
        if self.spec.filesystem != "dir" || *work != self.directory.join(&self.tag) {
            return Err(format!("it names {shown} as its working directory, which Fathom has not made"));
        }
        let Ok(about) = fs::symlink_metadata(work) else { return Ok(()) };
        // Where files have no owners, all that is made belongs to whom the directory belongs to.
        let of_directory = || fs::metadata(&self.directory).is_ok_and(|above| above.uid() == about.uid());
        if !about.is_dir() || !(trust::is_ours(&about) || of_directory()) {
            return Err(format!(
                "it names {shown}, which is no directory of this user's (id {})",
                about.uid()
            ));
        }
        Ok(())
    }

    /// Whether a file that goes with a stack that was not completed is the one that was made for
    /// it.
    fn check_file(&self, path: &Path) -> Result<(), String> {
        let Ok(about) = fs::symlink_metadata(path) else { return Ok(()) };
        let is_its_own = if self.spec.keep.as_deref() == Some(path) {
            self.keep_inode == Some(about.ino())
        } else {
            // The data is told by the log that it lies beside, which is removed after it.
            self.spec.operations.as_deref().is_some_and(is_log)
        };
        if about.is_file() && is_its_own {
            return Ok(());
        }
        let shown = path.display();
        Err(format!(
            "it names the file {shown}, which is another than was made for it: move that one elsewhere first"
        ))
    }

    /// Stands for an entry whose maker died before it was written: nothing but the entry's directory can exist then.
    pub fn unwritten(home: &Path) -> Entry {
        let tag = crate::command::file_name(home);
        let label = label_in(&tag).or_else(|| tag.strip_prefix("named-")).unwrap_or(&tag).to_owned();
        Entry {
            label,
            name: None,
            kept: false,
            spec: StackSpec::default(),
            record: None,
            owner_pid: 0,
            tag,
            directory: home.to_path_buf(),
            work: None,
            created_ms: 0,
            servers: Vec::new(),
            keep_inode: None,
            pid_namespace: None,
        }
    }

    /// Whether its owner's number means here what it meant there.
    pub fn is_of_this_namespace(&self) -> bool {
        self.pid_namespace.is_none_or(|of| pid_namespace().is_none_or(|here| here == of))
    }

    /// Files that stay with a complete stack, and go with one that is not: the command may be given again as it was.
    pub fn unfinished(&self) -> Vec<PathBuf> {
        let mut all: Vec<PathBuf> =
            self.spec.logs().into_iter().rev().chain(self.spec.keep.clone()).collect();
        // One without a name is never kept: its log is complete when it is taken down.
        all.retain(|_| self.name.is_some() && !self.kept);
        all
    }

    /// Writes the entry, whole or not at all.
    ///
    /// # Errors
    /// The state directory cannot be written.
    pub fn write(&self, home: &Path) -> Result<(), StackError> {
        let (path, new) = (home.join("entry.json"), home.join("entry.json.new"));
        let text = serde_json::to_vec_pretty(self)
            .map_err(io::Error::from)
            .map_err(StackError::io("write", &path))?;
        // Others may read it, to see whose a loop device is, and never write it, whatever umask
        // says.
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o644).custom_flags(libc::O_NOFOLLOW);
        let written = options.open(&new).and_then(|mut file| file.write_all(&text));
        written.and_then(|()| fs::rename(&new, &path)).map_err(StackError::io("write", &path))
    }
}

/// Whether an entry could be read and is not believed, by the error of [`Entry::believed`].
pub(crate) fn is_disbelief(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied && error.raw_os_error().is_none()
}

/// Whether an entry's owner is gone; if so, the lock that keeps other sweeps away. Call with the state locked.
pub(crate) fn abandoned(home: &Path) -> Option<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).custom_flags(libc::O_NOFOLLOW);
    match options.open(home.join("owner")) {
        Ok(owner) => {
            rustix::fs::flock(&owner, FlockOperation::NonBlockingLockExclusive).ok()?;
            Some(owner)
        }
        Err(e) => {
            if e.kind() == io::ErrorKind::NotFound {
                // Entries are made with the state locked, so this one is just being removed, or its remover died on the
                // last two steps. They do no harm to either: an rmdir takes nothing that is in use.
                let _ = fs::remove_dir_all(home.join(guest::STATE));
                let _ = fs::remove_dir(mount_point(home)).and_then(|()| fs::remove_dir(home));
                let _ = fs::remove_dir(home);
            }
            None
        }
    }
}

/// Unlocks at once. Closing alone would not: a child that another thread is just starting has a copy of the descriptor
/// until its exec.
pub(crate) fn let_go(lock: &File) {
    // An unlock of a valid descriptor does not fail; if it did, the lock would end with the descriptor's last copy.
    let _ = rustix::fs::flock(lock, FlockOperation::Unlock);
}

/// Every entry's directory.
pub(crate) fn homes(state: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> =
        fs::read_dir(stacks_in(state)).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    all.sort();
    all
}

/// Takes the state's lock, making the state directory where it is missing.
///
/// # Errors
/// It cannot be made or written, or others could have written it ([`trust::state`]).
pub(crate) fn lock_state(state: &Path) -> Result<File, StackError> {
    let stacks = stacks_in(state);
    trust::state(state)?;
    // Root's stacks may have to be entered by the users of servers, a user's own by nobody else.
    let mode = if crate::is_root() { 0o755 } else { 0o700 };
    DirBuilder::new().recursive(true).mode(mode).create(&stacks).map_err(|e| StackError::Directory {
        path: state.to_path_buf(),
        problem: format!(
            "cannot keep the list of stacks here: {e}; set FATHOM_STATE_DIR to a directory you can write"
        ),
    })?;
    // Again: somebody may have been faster.
    trust::state(state)?;
    let path = state.join("lock");
    let lock = open_lock(&path).map_err(StackError::io("open", &path))?;
    rustix::fs::flock(&lock, FlockOperation::LockExclusive)
        .map_err(io::Error::from)
        .map_err(StackError::io("lock", &path))?;
    Ok(lock)
}

/// Takes an entry down from whatever state it is in: its trace instance, mounts at its mount point, loop devices and image files of its tag,
/// the `dir` directory, the entry itself. What is already gone is fine.
///
/// # Errors
/// The entry names what Fathom has not made: then nothing is touched. The mount is busy or does not
/// go, the loop device stays, a file cannot be removed. With `lazy`, a busy mount is detached,
/// everything else is still undone, and the error tells of it.
pub(crate) fn undo(home: &Path, entry: &Entry, patience: Patience) -> Result<(), StackError> {
    entry.check(home).map_err(|problem| StackError::Disbelieved { path: home.to_path_buf(), problem })?;
    // Another process may have the number by now.
    let servers: Vec<Process> = entry.servers.iter().copied().filter(|it| it.is_server()).collect();
    let rescue = Rescue::from(&servers);
    if let (true, Ok(instance)) = (is_tag(&entry.tag), blocks::instance_path(&entry.tag)) {
        gone(blocks::remove_instance(&instance), "remove", &instance)?;
    }
    let point = mount_point(home);
    let lazily = unmount(&point, patience)?;
    // Not before: what is busy stays as it is.
    guest::end_left_behind(&home.join(guest::STATE));
    gone(fs::remove_dir_all(home.join(guest::STATE)), "remove", &home.join(guest::STATE))?;
    let still_held = release_loops(&entry.tag, if lazily.is_some() { Duration::ZERO } else { patience.wait });
    let mut served = lazily.is_some();
    for device in device_points(home, entry) {
        // Nobody uses it any more but a loop device that was detached lazily above; its server ends with the mount.
        served |= unmount(&device, Patience { lazy: true, ..patience })?.is_some();
        gone(fs::remove_dir(&device), "remove", &device)?;
    }
    if !served {
        // The end of a server is what completes its log.
        for server in &servers {
            let _ = server.ended(SERVER_END);
        }
    }
    for end in [".img", ".log.img"] {
        gone(fs::remove_file(image_path(entry, end)), "remove", &image_path(entry, end))?;
    }
    for path in entry.unfinished() {
        gone(fs::remove_file(&path), "remove", &path)?;
    }
    if let Some(work) = &entry.work {
        gone(remove_when_quiet(work, patience.wait), "remove", work)?;
    }
    gone(fs::remove_dir(&point), "remove", &point)?;
    for name in ["entry.json.new", "entry.json", "owner"] {
        gone(fs::remove_file(home.join(name)), "remove", &home.join(name))?;
    }
    gone(fs::remove_dir(home), "remove", home)?;
    match (lazily, still_held) {
        (Some(holders), _) => Err(StackError::Busy { path: point, holders, lazily: true }),
        (None, Some(error)) => Err(error),
        (None, None) => logged(entry, rescue.killed()),
    }
}

/// Tells of a device whose server had to be killed, and of a log that is not complete.
fn logged(entry: &Entry, stood_still: bool) -> Result<(), StackError> {
    let killed = || "the device's server was killed, and the last operations are missing".to_owned();
    let external = entry.spec.operations.as_deref().filter(|_| entry.spec.log_mib.is_some()).map(external_of);
    for path in entry.spec.operations.iter().cloned().chain(external) {
        let problem = match log_end(&path) {
            Ok(End::Open) if !entry.servers.is_empty() => killed(),
            Ok(end @ (End::OperationsLost(_) | End::DataLost(_))) => end.to_string(),
            Err(error) if error.kind() != io::ErrorKind::NotFound => error.to_string(),
            // Where it is gone, whoever took it knows. Without a server nothing was logged.
            _ => continue,
        };
        return Err(StackError::Log { path, problem });
    }
    if stood_still { Err(StackError::StoodStill) } else { Ok(()) }
}

/// Unmounts everything at `point`; the holders when that was only possible lazily.
pub(crate) fn unmount(point: &Path, patience: Patience) -> Result<Option<Vec<Holder>>, StackError> {
    let start = Instant::now();
    let mut pause = Duration::from_millis(2);
    let umount = find_program("umount").unwrap_or_else(|| "umount".into());
    while is_mounted(point) {
        let error = match CommandLine::new(&umount, ["--".as_ref(), point.as_os_str()]).run(UNMOUNT_LIMIT) {
            // Mounts may be stacked: look again.
            Ok(_) => continue,
            // A modelled device that this user has mounted without root.
            Err(_) if !crate::is_root() && fusermount(point, &[]).is_ok() => continue,
            Err(error) => error,
        };
        if !is_mounted(point) {
            break;
        }
        if start.elapsed() < patience.wait {
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(100));
            continue;
        }
        let holders = holders(point);
        if !patience.lazy {
            let busy = !holders.is_empty() || error.stderr.contains("busy");
            return Err(if busy {
                StackError::Busy { path: point.to_path_buf(), holders, lazily: false }
            } else {
                error.into()
            });
        }
        if crate::is_root() || fusermount(point, &["-z"]).is_err() {
            CommandLine::new(&umount, ["--lazy".as_ref(), "--".as_ref(), point.as_os_str()])
                .run(UNMOUNT_LIMIT)?;
        }
        return Ok(Some(holders));
    }
    Ok(None)
}

/// Waits for the loop devices of a tag to go, detaches those that stay, and tells of one that cannot be detached.
fn release_loops(tag: &str, wait: Duration) -> Option<StackError> {
    let mut error = None;
    for (number, backing) in loop_device::attached().into_iter().filter(|(_, file)| has_tag(file, tag)) {
        if loop_device::wait_detached(number, Some(tag), wait) {
            continue;
        }
        let detached = loop_device::detach(number, &format!("/.{tag}."));
        if detached.is_err() || !loop_device::wait_detached(number, Some(tag), Duration::from_millis(500)) {
            let holders = holders(Path::new(&format!("/dev/loop{number}")));
            error.get_or_insert(StackError::LoopHeld { number, backing, holders });
        }
    }
    error
}

/// Whether a backing file belongs to a tag: `…/.TAG.img` or `…/.TAG.log.img`.
fn has_tag(backing: &str, tag: &str) -> bool {
    is_tag(tag) && backing.contains(&format!("/.{tag}."))
}

/// Path that an image has for the moment between being made and losing its name.
pub(crate) fn image_path(entry: &Entry, end: &str) -> PathBuf {
    entry.directory.join(image_name(&entry.tag, end))
}

/// Name of an image: hidden, and ending in `.img` or `.log.img`.
pub(crate) fn image_name(tag: &str, end: &str) -> String {
    format!(".{tag}{end}")
}

/// Where an entry's stack is mounted.
pub(crate) fn mount_point(home: &Path) -> PathBuf {
    home.join("mnt")
}

/// Where the modelled devices of an entry are served: the file system's, then its external log's. Their names hold the tag, by which loop
/// devices on them are found.
pub(crate) fn device_points(home: &Path, entry: &Entry) -> Vec<PathBuf> {
    let spec = &entry.spec;
    let on_models = !spec.device.is_empty();
    let all = [(on_models, "device"), (on_models && spec.log_mib.is_some(), "log-device")];
    all.into_iter().filter(|it| it.0).map(|(_, end)| home.join(format!("{}.{end}", entry.tag))).collect()
}

fn stacks_in(state: &Path) -> PathBuf {
    state.join("stacks")
}

/// Opens or makes a file to be locked: nobody else may open it, for who can read it can lock it.
fn open_lock(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(libc::O_NOFOLLOW);
    options.open(path)
}

fn inode(path: &Path) -> Option<u64> {
    fs::symlink_metadata(path).ok().map(|about| about.ino())
}

/// The process namespace that this process is in, where /proc tells.
fn pid_namespace() -> Option<u64> {
    fs::metadata("/proc/self/ns/pid").ok().map(|about| about.ino())
}

/// Removes a directory with all that is in it. A server whose client was killed writes files until
/// it has ended itself; until then, and no longer than `wait`, the directory is tried again.
fn remove_when_quiet(path: &Path, wait: Duration) -> io::Result<()> {
    const PAUSE: Duration = Duration::from_millis(20);
    let begin = Instant::now();
    loop {
        match fs::remove_dir_all(path) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty && begin.elapsed() < wait => {
                std::thread::sleep(PAUSE);
            }
            done => return done,
        }
    }
}

fn gone(result: io::Result<()>, what: &'static str, path: &Path) -> Result<(), StackError> {
    match result {
        // A file system that is mounted read-only says so even of a name that does not exist.
        Err(e) if e.kind() != io::ErrorKind::NotFound && path.symlink_metadata().is_ok() => {
            Err(StackError::io(what, path)(e))
        }
        _ => Ok(()),
    }
}

/// The directory as an absolute path without links; empty is the current one.
fn absolute(directory: &Path) -> Result<PathBuf, StackError> {
    let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
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

/// A label as part of a file name: at most 32 characters of `[A-Za-z0-9._]` and `-`.
pub(crate) fn clean(label: &str) -> String {
    const LONGEST: usize = 32;
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' || c == '_' { c } else { '-' };
    let text: String = label.chars().take(LONGEST).map(plain).collect();
    if text.is_empty() { "stack".into() } else { text }
}

/// A tag that is this process's alone: `fathom-LABEL-PID-START-N`.
pub(crate) fn tag_of(label: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let sequence = NEXT.fetch_add(1, Ordering::Relaxed);
    // A label of `named-` and 32 more letters is not cut: the mark of a named stack must stay, and so must its label.
    let label: String = label.chars().map(|c| if c == '/' || c.is_control() { '-' } else { c }).collect();
    format!("fathom-{label}-{}-{}-{sequence}", std::process::id(), start_time("self").unwrap_or(0))
}

/// Start time of a process in clock ticks since boot (field 22 of `/proc/PID/stat`), which with its id names it for good.
pub(crate) fn start_time(pid: &str) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The command name (field 2) is in parentheses and may hold anything; field 3 follows the last one.
    stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

/// Whether this is a tag as [`tag_of`] makes them, and so a name that nothing else has.
pub(crate) fn is_tag(tag: &str) -> bool {
    let whole = tag.starts_with("fathom-") && !tag.chars().any(|c| c == '/' || c.is_control());
    whole && owner_in(tag).is_some() && label_in(tag).is_some()
}

/// The label in a tag.
fn label_in(tag: &str) -> Option<&str> {
    let mut parts = tag.strip_prefix("fathom-")?.rsplitn(4, '-');
    let numeric = |part: &str| !part.is_empty() && part.bytes().all(|it| it.is_ascii_digit());
    let numbers = parts.by_ref().take(3).filter(|it| numeric(it)).count();
    parts.next().filter(|label| numbers == 3 && !label.is_empty())
}

/// Process id and start time in a tag (`fathom-LABEL-PID-START-N`).
pub(crate) fn owner_in(tag: &str) -> Option<(u32, u64)> {
    let mut parts = tag.rsplit('-').skip(1);
    let start = parts.next()?.parse().ok()?;
    Some((parts.next()?.parse().ok()?, start))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_claim_is_written_locked_and_gone_after_down() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("state");
        let spec = StackSpec { directory: dir.path().into(), ..StackSpec::default() };
        let mut claim = Claim::new(&state, "ext4 wal/full", None, &spec).unwrap();
        assert_eq!(Entry::read(&claim.home).unwrap(), claim.entry);
        assert_eq!(claim.entry.label, "ext4-wal-full");
        assert!(abandoned(&claim.home).is_none(), "its owner lives");
        assert_eq!(owner_in(&claim.entry.tag).unwrap(), (std::process::id(), start_time("self").unwrap()));
        claim.down(Patience { wait: Duration::ZERO, lazy: false }).unwrap();
        assert_eq!(homes(&state), Vec::<PathBuf>::new());
    }

    /// What happened: a run that SIGTERM ended left its directory and its entry behind, because the
    /// database server of its killed worker was still making files there.
    #[test]
    fn a_directory_that_a_server_still_writes_to_is_removed_when_it_has_ended() {
        let dir = tempfile::tempdir().unwrap();
        let work = dir.path().join("work");
        fs::create_dir(&work).unwrap();
        let until = Instant::now() + Duration::from_millis(200);
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let work = &work;
                scope.spawn(move || {
                    for number in 0.. {
                        let written = fs::write(work.join(format!("{writer}-{number}")), "x");
                        if written.is_err() || Instant::now() > until {
                            break;
                        }
                    }
                });
            }
            std::thread::sleep(Duration::from_millis(20));
            remove_when_quiet(&work, Duration::from_secs(20)).unwrap();
        });
        assert!(!work.exists());
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
        let spec = StackSpec { directory: dir.path().into(), ..StackSpec::default() };
        let claim = Claim::new(&state, "lab", Some("lab"), &spec).unwrap();
        let (home, entry) = (claim.home.clone(), claim.entry.clone());
        drop(claim);
        let work = entry.work.clone().unwrap();
        fs::create_dir(&work).unwrap();
        let named = |spec: StackSpec| Entry { spec, ..entry.clone() };
        let with = |keep: Option<PathBuf>, operations: Option<PathBuf>| {
            named(StackSpec { keep, operations, capture: true, ..entry.spec.clone() })
        };
        let patience = Patience { wait: Duration::ZERO, lazy: true };
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
            let error = Entry::believed(&home).unwrap_err();
            assert!(is_disbelief(&error) && error.to_string().contains(why), "{why}: {error}");
            let error = undo(&home, &damaged, patience).unwrap_err().to_string();
            assert!(error.contains(why) && error.contains("rm -r"), "{why}: {error}");
            assert!(thesis.exists() && work.exists() && home.join("entry.json").exists(), "{why}");
        }
        // What lies there now is another directory than was made.
        fs::remove_dir(&work).unwrap();
        std::os::unix::fs::symlink(&docs, &work).unwrap();
        assert!(undo(&home, &entry, patience).is_err());
        fs::remove_file(&work).unwrap();
        // What was made is removed, and nothing that a link in it leads to.
        let (image, log) = (dir.path().join("image"), dir.path().join("log"));
        fs::write(&image, "an image").unwrap();
        crate::device::OperationLog::create(&log, true).unwrap();
        fs::create_dir(&work).unwrap();
        std::os::unix::fs::symlink(&docs, work.join("link")).unwrap();
        let whole = Entry { keep_inode: inode(&image), ..with(Some(image.clone()), Some(log.clone())) };
        whole.write(&home).unwrap();
        undo(&home, &Entry::believed(&home).unwrap(), patience).unwrap();
        for gone in [&image, &log, &crate::device::data_of(&log), &work, &home] {
            assert!(gone.symlink_metadata().is_err(), "{gone:?}");
        }
        assert_eq!(fs::read_to_string(thesis).unwrap(), "years of work");
    }

    #[test]
    fn a_name_is_taken_once() {
        let dir = tempfile::tempdir().unwrap();
        let spec = StackSpec { directory: dir.path().into(), ..StackSpec::default() };
        let _first = Claim::new(dir.path(), "x", Some("mine"), &spec).unwrap();
        let error = Claim::new(dir.path(), "x", Some("mine"), &spec).unwrap_err();
        assert!(error.to_string().contains("\"mine\" is already up"), "{error}");
    }

    #[test]
    fn directories_that_cannot_be_used_say_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        for (directory, part) in [(dir.path().join("missing"), "mkdir -p"), (file, "is not a directory")] {
            let error = absolute(&directory).unwrap_err().to_string();
            assert!(error.contains(part) && error.contains(directory.to_str().unwrap()), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_label_makes_a_safe_name(label: String) {
            let label = clean(&label);
            prop_assert!(!label.is_empty() && label.len() <= 32 && !label.contains('/'));
            prop_assert_eq!(owner_in(&format!("fathom-{label}-12-345-6")), Some((12, 345)));
        }
    }
}
