//! A stack that is up: image, loop device, file system, mount, and a directory to work in.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use fathom_device::server::Server;
use fathom_device::{MARK, RECORDER, RequestTimes, Statistics};
use fathom_ground::command::{CommandError, CommandLine, CommandProblem};
use fathom_ground::mountinfo::host_of;
use fathom_probe::Note;

use super::claim::Claim;
use super::config::Stacks;
use super::entry::{Entry, device_points};
use super::error::{StackError, StackFailure};
use super::guard::Guard;
use super::images::refused;
use super::place::MountedBy;
use super::remarks::{Placement, place_warnings};
use super::teardown::BusyMount;
use crate::attribution::{Attribution, Cause};
use crate::blocks::{BUFFER_KIB, BlockTrace, TraceError};
use crate::ground::identity::{of_disk, of_image};
use crate::ground::image::Image;
use crate::ground::loop_device::BlockDevice;
use crate::ground::watchdog::Watchdog;
use crate::guest::{self, Guest, GuestTrace};
use crate::instruments::floor::{FloorError, FloorProbe, floor_probe};
use crate::spec::{FileSystem, StackRecord, StackSpec, bytes_of, image_state};

impl Stacks {
    /// As [`Stack::up`], with this state directory.
    ///
    /// # Errors
    /// See [`Stack::up`].
    pub fn up(&self, spec: &StackSpec, label: &str) -> Result<Stack, StackError> {
        self.make(spec, label, None)
    }

    /// Sweeps, claims, guards, builds. Any error on the way undoes what was made: the claim is
    /// dropped.
    pub(crate) fn make(
        &self,
        spec: &StackSpec,
        label: &str,
        name: Option<&str>,
    ) -> Result<Stack, StackError> {
        if spec.keep.is_some() && name.is_none() {
            let problem = "only what `fathom stack up` brings up is kept; each run has an image of its own";
            return Err(StackError::Spec { field: "keep", problem: problem.into() });
        }
        let checked = self.checked(spec)?;
        let mut spec = spec.clone();
        if let Some(path) = &spec.image {
            self.check_unused(path)?;
            spec.size_mib = bytes_of(path)?.div_ceil(1 << 20);
        }
        let spec = &spec;
        let image = spec.image.as_deref().map(image_state).unwrap_or_default();
        // A leftover may hold the very space that is needed. What cannot be removed now is reported
        // by `leftovers`.
        self.sweep();
        // From here on the new file is the claim's, which removes it unless the stack is complete
        // in the end.
        if let Some(path) = &spec.keep {
            Image::begin(path).map_err(StackError::io("make", path))?;
        }
        let mut claim = Claim::new(&self.state, label, name, spec).inspect_err(|_| {
            if let Some(path) = &spec.keep {
                let _ = fs::remove_file(path);
            }
        })?;
        let mut warnings = Vec::new();
        match claim.guarded(self.program.as_deref()) {
            Ok(guard) => claim.guard = Some(guard),
            Err(error) => warnings.push(format!(
                "no guard process ({error}): after kill -9, `fathom stack down --leftovers` cleans up"
            )),
        }
        let mut stack = Stack {
            claim: Some(claim),
            path: PathBuf::new(),
            devices: Vec::new(),
            record: StackRecord::default(),
            busy_limit: self.busy_limit,
        };
        let claim = stack.claim.as_mut().expect("set in the line before");
        let made = match &checked {
            None => make_directory(&claim.entry).map(|(path, record)| (path, record, Vec::new())),
            Some((filesystem, mounted_by)) => self.make_on_devices(claim, filesystem, mounted_by),
        };
        if made.is_err() {
            // mkfs may wait for the device still, and cannot be broken off.
            claim.hurry();
        }
        if claim.watchdog.take().is_some_and(Watchdog::killed) {
            return Err(StackError::StoodStill);
        }
        (stack.path, stack.record, stack.devices) = made?;
        if let Some(path) = spec.image.as_deref().filter(|path| image_state(path) != image) {
            let problem = format!("{} was written to while it was copied: end what does", path.display());
            return Err(StackError::Spec { field: "image", problem });
        }
        stack.record.image = image;
        if spec.device.is_none() {
            stack.record.ran_on = of_disk(&claim.entry.directory);
        }
        stack.record.ran_on.extend(spec.image.as_deref().map(of_image).unwrap_or_default());
        stack.record.warnings.extend(warnings);
        stack.record.models = std::mem::take(&mut claim.models);
        claim.entry.record = Some(stack.record.clone());
        claim.entry.write(&claim.home)?;
        stack.begin_faults()?;
        Ok(stack)
    }

    /// Modelled devices if there are any, and the file system on them.
    fn make_on_devices(
        &self,
        claim: &mut Claim,
        filesystem: &FileSystem,
        mounted_by: &MountedBy,
    ) -> Result<(PathBuf, StackRecord, Vec<BlockDevice>), StackError> {
        // Before there are images, whose space would be asked for twice.
        self.check_space(&claim.entry, filesystem)?;
        let device = self.serve_devices(claim)?;
        let kernel = match mounted_by {
            MountedBy::Host => return self.make_mounted(claim, filesystem, &device),
            MountedBy::Guest(kernel) => kernel,
        };
        let (path, record) = match claim.entry.name {
            Some(_) => self.make_relayed(claim, filesystem, &device, kernel)?,
            None => self.make_in_guest(claim, filesystem, &device, kernel)?,
        };
        Ok((path, record, Vec::new()))
    }
}

/// A stack that is up. Dropping it takes it down.
#[derive(Debug)]
pub struct Stack {
    claim: Option<Claim>,
    path: PathBuf,
    devices: Vec<BlockDevice>,
    record: StackRecord,
    busy_limit: Duration,
}

impl Stack {
    /// Brings a stack up. `label` names its owner for lists of leftovers, e.g. the cell's label.
    ///
    /// For a directory, a fresh subdirectory; otherwise an image in `spec.directory` (none = the
    /// current directory), allocated and written in full, attached to a loop device with direct
    /// I/O, made with mkfs and mounted. Leftovers of dead owners are swept first.
    ///
    /// # Errors
    /// See [`StackError`]; whatever had been made is undone.
    pub fn up(spec: &StackSpec, label: &str) -> Result<Stack, StackError> {
        Stacks::here().up(spec, label)
    }

    /// Lets other users through to the stack's directory, which they may enter and not list: a
    /// server that root starts runs as one of them.
    ///
    /// # Errors
    /// What the system said.
    pub fn let_enter(&self) -> io::Result<()> {
        let home = self.claim.as_ref().map(|claim| claim.home.as_path());
        let way = home.filter(|home| self.path.starts_with(home)).into_iter().chain([self.path()]);
        way.into_iter()
            .try_for_each(|directory| fs::set_permissions(directory, fs::Permissions::from_mode(0o711)))
    }

    /// An empty directory on the stack, the caller's alone.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// What was really made.
    #[must_use]
    pub fn record(&self) -> StackRecord {
        self.record.clone()
    }

    /// Traces what reaches the stack's devices from now on: device 0 of the requests is the file
    /// system's, device 1 its external log. Stop it before the stack goes down; whatever undoes the
    /// stack removes the trace's instance.
    ///
    /// # Errors
    /// A `dir` stack, whose device is everybody's; see [`TraceError`].
    pub fn trace_blocks(&self) -> Result<BlockTrace, TraceError> {
        let tag = self.claim.as_ref().map_or("", |claim| claim.entry.tag.as_str());
        if self.devices.is_empty() {
            return Err(TraceError::Shared { path: self.path.clone() });
        }
        let numbers: Vec<(u32, u32)> = self.devices.iter().map(|device| device.number).collect();
        BlockTrace::start_tagged(&numbers, tag, BUFFER_KIB)
    }

    /// As [`crate::floor_probe`], on this stack. What is to fail on the modelled device is counted
    /// anew from its end on.
    ///
    /// # Errors
    /// In words: a write fails.
    pub fn floor(&mut self, writes: u32) -> Result<FloorProbe, StackFailure> {
        self.tell_of_faults(Server::hold_faults)?;
        let floor = match self.claim.as_mut().and_then(|claim| claim.guest.as_mut()) {
            Some(guest) => {
                guest.floor(&self.path, writes).map_err(|error| StackFailure::from(error.to_string()))
            }
            None => {
                let watchdog = self.watchdog();
                let probed = floor_probe(&self.path, writes);
                let is_full_disk = probed.as_ref().is_err_and(FloorError::is_full_disk);
                let explained = watchdog.explained(probed.map_err(|error| error.to_string()));
                explained.map_err(|problem| StackFailure { problem, is_full_disk })
            }
        };
        let floor = floor?;
        self.tell_of_faults(Server::begin_faults)?;
        Ok(floor)
    }

    /// Has what is to fail be counted from now on.
    fn begin_faults(&mut self) -> Result<(), StackError> {
        let path = self.path.clone();
        self.tell_of_faults(Server::begin_faults).map_err(|problem| StackError::Mount { path, problem })
    }

    fn tell_of_faults(&mut self, tell: fn(&mut Server) -> Result<(), String>) -> Result<(), String> {
        let claim = self.claim.iter_mut().filter(|claim| !claim.entry.spec.faults.is_empty());
        claim.flat_map(|claim| &mut claim.servers).try_for_each(tell)
    }

    /// Whose the requests to the stack's devices were, as [`Attribution::gather`] finds it in the
    /// files that are there now.
    #[must_use]
    pub fn attribution(&self, notes: &[Note], causes: &[Cause]) -> Attribution {
        let device = self.devices.first().map(|device| device.path.as_path());
        Attribution::gather(&self.record.filesystem, device, &self.path, notes, causes)
    }

    /// As [`Stack::trace_blocks`], in the stack's guest; [`Stack::traced_in_guest`] ends it.
    ///
    /// # Errors
    /// In words: the guest has ended, or its kernel does not trace.
    pub fn trace_in_guest(&mut self) -> Result<(), String> {
        let Some(claim) = &mut self.claim else { return Ok(()) };
        let disks = 1 + usize::from(claim.entry.spec.log_mib.is_some());
        claim.guest.as_mut().map_or(Ok(()), |guest| guest.trace(disks)).map_err(|error| error.to_string())
    }

    /// Ends the trace of the stack's guest; `notes` and `causes` are as in
    /// [`Attribution::gather`](crate::attribution::Attribution::gather).
    ///
    /// # Errors
    /// In words: the guest has ended, or the trace could not be read.
    pub fn traced_in_guest(&mut self, notes: &[Note], causes: &[Cause]) -> Result<GuestTrace, String> {
        let Some(Claim { home, guest: Some(guest), .. }) = &mut self.claim else {
            return Err("the stack is in no guest".into());
        };
        let state = home.join(guest::STATE);
        guest
            .traced(&self.record.filesystem, &self.path, &state, notes, causes)
            .map_err(|error| error.to_string())
    }

    /// Runs a program of this machine's in the guest to its end; what it wrote to stdout and
    /// stderr. The host's files are read-only there, but for the file system under test.
    ///
    /// # Errors
    /// It cannot be started, fails or takes too long, or the stack is in no guest: see
    /// [`CommandError`].
    pub fn run_in_guest<W: AsRef<OsStr>>(
        &mut self,
        program: &Path,
        words: impl IntoIterator<Item = W>,
        limit: Duration,
    ) -> Result<(String, String), CommandError> {
        let line = CommandLine::new(program, words);
        match self.guest() {
            Some(guest) => guest.command(&line, limit).map(|output| (output.stdout, output.stderr)),
            None => Err(CommandError {
                command: line.shown(),
                problem: CommandProblem::Start(io::Error::other("the stack is in no guest")),
                stderr: String::new(),
            }),
        }
    }

    /// The guest in which the file system is mounted; [`Stack::path`] is a path in it then.
    pub fn guest(&mut self) -> Option<&mut Guest> {
        self.claim.as_mut()?.guest.as_mut()
    }

    /// The block devices of this stack alone: the file system's, then its external log's; none for
    /// `dir`.
    #[must_use]
    pub fn devices(&self) -> &[BlockDevice] {
        &self.devices
    }

    /// The file that takes marks for the operation log of the file system's modelled device: a
    /// decimal number in each write (see [`MARK`]); none without a modelled device.
    #[must_use]
    pub fn marks(&self) -> Option<PathBuf> {
        let claim = self.claim.as_ref()?;
        device_points(&claim.home, &claim.entry).first().map(|at| at.join(MARK))
    }

    /// What the stack's modelled devices have done so far: the file system's, then its external
    /// log's; empty without one.
    ///
    /// # Errors
    /// In words: a server is gone.
    pub fn device_statistics(&mut self) -> Result<Vec<Statistics>, String> {
        let servers = self.claim.iter_mut().flat_map(|claim| &mut claim.servers);
        servers.map(Server::statistics).collect()
    }

    /// Has the stack's modelled devices keep each operation from now on, for [`Stack::served`].
    ///
    /// # Errors
    /// In words: a server is gone.
    pub fn keep_served(&mut self) -> Result<(), String> {
        self.claim.iter_mut().flat_map(|claim| &mut claim.servers).try_for_each(Server::keep_served)
    }

    /// What the stack's modelled devices have served since [`Stack::keep_served`]: the file
    /// system's, then its external log's, each in order of the answers; empty without one.
    ///
    /// # Errors
    /// In words: a server is gone.
    pub fn served(&mut self) -> Result<Vec<Vec<RequestTimes>>, String> {
        self.claim.iter_mut().flat_map(|claim| &mut claim.servers).map(Server::served).collect()
    }

    /// Looks after the servers of the modelled devices as long as it is there: for whoever waits
    /// for the stack without a limit.
    #[must_use]
    pub fn watchdog(&self) -> Watchdog {
        Watchdog::over(self.claim.as_ref().map_or(&[], |claim| &claim.entry.servers))
    }

    /// Kills the servers of the modelled devices, so that whoever waits for one gets an error: for
    /// those that even SIGKILL does not end. Whether there were any.
    #[must_use]
    pub fn kill_devices(&self) -> bool {
        let all = self.claim.iter().flat_map(|claim| &claim.entry.servers);
        let alive: Vec<_> = all.filter(|server| server.lives()).collect();
        alive.iter().for_each(|server| server.kill());
        !alive.is_empty()
    }

    /// Whether its modelled device is [`RECORDER`].
    #[must_use]
    pub fn is_for_recordings(&self) -> bool {
        self.claim.as_ref().is_some_and(|claim| claim.entry.spec.device.as_deref() == Some(RECORDER))
    }

    /// Process id of the server of the modelled device.
    #[must_use]
    pub fn device_server_pid(&self) -> Option<u32> {
        self.claim.as_ref()?.servers.first().map(Server::pid)
    }

    /// Process id of the guard that undoes the stack should this process die.
    #[must_use]
    pub fn guard_pid(&self) -> Option<u32> {
        self.claim.as_ref()?.guard.as_ref().map(Guard::pid)
    }

    /// Takes the stack down. Close what is open on it first: after 5 seconds of trying, a busy
    /// mount is detached lazily.
    ///
    /// # Errors
    /// [`StackError::Busy`] names who held the mount; others when umount failed. Nothing more can
    /// be done then but to end those processes, after which loop device and space come free by
    /// themselves.
    pub fn down(mut self) -> Result<(), StackError> {
        self.undo()
    }

    fn undo(&mut self) -> Result<(), StackError> {
        let Some(mut claim) = self.claim.take() else { return Ok(()) };
        claim.down(BusyMount { wait: self.busy_limit, lazy: true })
    }

    /// Lets a named stack outlive this process.
    pub(crate) fn keep(mut self) -> Result<Entry, StackError> {
        match self.claim.take() {
            Some(claim) => claim.keep(),
            None => Err(StackError::Spec { field: "name", problem: "the stack is already down".into() }),
        }
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        if let Err(error) = self.undo() {
            // A destructor can return nothing, and a leftover must not be passed over in silence.
            eprintln!("fathom: taking a stack down: {error}");
        }
    }
}

/// A `dir` stack: a fresh subdirectory.
fn make_directory(entry: &Entry) -> Result<(PathBuf, StackRecord), StackError> {
    let path = entry.work.clone().unwrap_or_else(|| entry.directory.join(&entry.tag));
    DirBuilder::new().mode(0o700).create(&path).map_err(|e| refused(&entry.directory, false, e))?;
    let host = host_of(&path);
    let record = StackRecord {
        warnings: place_warnings(&host.filesystem, Placement::Directory),
        filesystem: host.filesystem,
        mkfs: String::new(),
        mkfs_version: String::new(),
        mount: host.options,
        device: host.source,
        models: Vec::new(),
        image: String::new(),
        ran_on: BTreeMap::new(),
        guest: String::new(),
    };
    Ok((path, record))
}
