//! A stack that is up: image, loop device, file system, mount, and a directory to work in.

use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use fathom_probe::Note;

use crate::attribution::Cause;
use crate::blocks::{BlockTrace, TraceError};
use crate::claim::{self, Claim, Entry, Patience, device_points, image_name};
use crate::command::{CommandError, CommandLine, CommandProblem, find_program_in};
use crate::device::server::{Order, Server};
use crate::device::{Model, RECORDER, Served, Statistics, external_of, own_model, presets, text_of};
use crate::distribution::{Distribution, Package};
use crate::error::StackError;
use crate::filesystem::{FileSystem, Machine, nameable};
use crate::floor::{FloorProbe, floor_probe};
use crate::given::taken_over;
use crate::guard::Guard;
use crate::guest::{self, Guest, GuestTrace, Kernel};
use crate::image::Image;
use crate::loop_device::LoopDevice;
use crate::mountinfo::{Mount, host_of, is_mounted, mounts};
use crate::process::Rescue;
use crate::spec::{StackRecord, StackSpec};
use crate::suggest::{did_you_mean, nearest};
use crate::trust;

/// Longest text of a model, bytes; presets have some 2 KiB.
const LARGEST_MODEL: u64 = 1 << 20;

/// Which kernel mounts a file system.
enum Place {
    /// This machine's own.
    Here,
    /// A guest's.
    Guest(Kernel),
}

/// A block device of a stack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockDevice {
    /// `/dev/loopN`.
    pub path: PathBuf,
    /// Major and minor number.
    pub number: (u32, u32),
}

/// Where stacks are written down, and how they are made. Most callers use [`Stack::up`], which takes [`Stacks::here`].
#[derive(Clone, Debug)]
pub struct Stacks {
    pub(crate) state: PathBuf,
    /// Looked into for mkfs and mount programs before `PATH`.
    pub(crate) tools: Vec<PathBuf>,
    /// Time limit of mkfs and mount; mkfs has one second more for each 100 MiB.
    pub(crate) limit: Duration,
    /// How long a busy mount is tried again when going down.
    pub(crate) patience: Duration,
    /// Whether images are allocated and written in full; a trial (doctor) does without.
    pub(crate) allocate: bool,
    /// Program that serves modelled devices: `fathom`.
    pub(crate) server: Option<PathBuf>,
    /// The kernel of guests; `None` where none was built.
    pub(crate) kernel: Option<Kernel>,
}

impl Stacks {
    /// The state directory of this user: `$FATHOM_STATE_DIR`, else `/run/fathom` for root, else
    /// `$XDG_STATE_HOME/fathom` or `~/.local/state/fathom`, and for who has no home `fathom-UID` in
    /// the temporary directory.
    #[must_use]
    pub fn here() -> Stacks {
        let variable = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
        let own = || {
            let home = variable("XDG_STATE_HOME").or_else(|| Some(variable("HOME")?.join(".local/state")));
            // Of a name in /tmp that is everybody's, the first to come would be the master.
            let user = rustix::process::geteuid().as_raw();
            let temporary = || std::env::temp_dir().join(format!("fathom-{user}"));
            home.map_or_else(temporary, |home| home.join("fathom"))
        };
        let state = variable("FATHOM_STATE_DIR");
        Stacks::at(state.unwrap_or_else(|| if crate::is_root() { "/run/fathom".into() } else { own() }))
    }

    /// Another state directory: stacks of different state directories do not see each other.
    #[must_use]
    pub fn at(state: impl Into<PathBuf>) -> Stacks {
        Stacks {
            state: state.into(),
            tools: Vec::new(),
            limit: Duration::from_secs(120),
            patience: Duration::from_secs(5),
            allocate: true,
            server: fathom_itself(),
            kernel: Kernel::cached(),
        }
    }

    /// The program that serves modelled devices when called with `device-server` (this one, if it is `fathom`, unless told).
    #[must_use]
    pub fn with_server(self, program: PathBuf) -> Stacks {
        Stacks { server: Some(program), ..self }
    }

    /// Looks into these directories for mkfs and mount programs before `PATH`.
    #[must_use]
    pub fn with_tools(self, tools: Vec<PathBuf>) -> Stacks {
        Stacks { tools, ..self }
    }

    /// Time limit of mkfs and mount (120 s unless told; mkfs has one second more for each 100 MiB).
    #[must_use]
    pub fn with_limit(self, limit: Duration) -> Stacks {
        Stacks { limit, ..self }
    }

    /// How long a busy mount is tried again when going down (5 s unless told).
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Stacks {
        Stacks { patience, ..self }
    }

    /// As [`Stack::up`], with this state directory.
    ///
    /// # Errors
    /// See [`Stack::up`].
    pub fn up(&self, spec: &StackSpec, label: &str) -> Result<Stack, StackError> {
        self.make(spec, label, None)
    }

    /// Sweeps, claims, guards, builds. Any error on the way undoes what was made: the claim is dropped.
    pub(crate) fn make(
        &self,
        spec: &StackSpec,
        label: &str,
        name: Option<&str>,
    ) -> Result<Stack, StackError> {
        let spec = &taken_over(spec, name.is_some())?;
        if let Some(path) = &spec.image {
            self.check_unused(path)?;
        }
        let checked = self.checked(spec)?;
        // A leftover may hold the very space that is needed. What cannot be removed now is reported by `leftovers`.
        self.sweep();
        // From here on the new file is the claim's, which removes it unless the stack is complete in the end.
        if let Some(path) = &spec.keep {
            Image::begin(path).map_err(StackError::io("make", path))?;
        }
        let mut claim = Claim::new(&self.state, label, name, spec).inspect_err(|_| {
            if let Some(path) = &spec.keep {
                let _ = fs::remove_file(path);
            }
        })?;
        let mut warnings = Vec::new();
        match claim.guarded() {
            Ok(guard) => claim.guard = Some(guard),
            Err(e) => warnings.push(format!(
                "no guard process (/bin/sh: {e}): after kill -9, `fathom stack down --leftovers` cleans up"
            )),
        }
        let mut stack = Stack {
            claim: Some(claim),
            path: PathBuf::new(),
            devices: Vec::new(),
            record: StackRecord::default(),
            patience: self.patience,
        };
        let claim = stack.claim.as_mut().expect("set in the line before");
        let made = match &checked {
            None => make_directory(&claim.entry).map(|(path, record)| (path, record, Vec::new())),
            Some((filesystem, place)) => self.make_on_devices(claim, filesystem, place),
        };
        if claim.rescue.take().is_some_and(Rescue::killed) {
            return Err(StackError::StoodStill);
        }
        (stack.path, stack.record, stack.devices) = made?;
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
        place: &Place,
    ) -> Result<(PathBuf, StackRecord, Vec<BlockDevice>), StackError> {
        // Before there are images, whose space would be asked for twice.
        self.check_space(&claim.entry.spec, filesystem)?;
        let device = self.serve_devices(claim)?;
        let kernel = match place {
            Place::Here => return self.make_mounted(claim, filesystem, &device),
            Place::Guest(kernel) => kernel,
        };
        let (path, record) = match claim.entry.name {
            Some(_) => self.make_relayed(claim, filesystem, &device, kernel)?,
            None => self.make_in_guest(claim, filesystem, &device, kernel)?,
        };
        Ok((path, record, Vec::new()))
    }

    /// Checks everything that can be checked before anything is made. `None` for `dir`.
    fn checked(&self, spec: &StackSpec) -> Result<Option<(FileSystem, Place)>, StackError> {
        let guest = self.kernel.clone().filter(|_| self.server.is_some());
        let machine = Machine { guest, ..Machine::here(&self.tools) };
        let known = machine.known();
        if let Some(problem) = spec.check(&nameable(&known)).into_iter().next() {
            return Err(StackError::Spec { field: problem.field, problem: problem.to_string() });
        }
        if !spec.device.is_empty() {
            self.can_serve(spec)?;
        }
        let Some(filesystem) = known.iter().find(|it| it.name == spec.filesystem) else {
            // What is known and in no table of file systems is the directory.
            return Ok(None);
        };
        let unavailable = |(reason, remedy)| StackError::Unavailable {
            filesystem: spec.filesystem.clone(),
            reason,
            remedy,
        };
        let here = || match (machine.missing(filesystem), &machine.no_loop) {
            (Some(missing), _) => Err(unavailable(missing)),
            (None, _) if !machine.root => Err(StackError::NeedsRoot { filesystem: spec.filesystem.clone() }),
            (None, Some(reason)) => Err(unavailable((reason.clone(), String::new()))),
            (None, None) => Ok(Place::Here),
        };
        let place = match if spec.guest { Err(None) } else { here().map_err(Some) } {
            Ok(place) => place,
            Err(not_here) => match (machine.in_guest(filesystem), not_here) {
                (Ok(kernel), _) => Place::Guest(kernel),
                (Err(missing), None) => return Err(unavailable(missing)),
                // A guest is named where nothing else brings it.
                (Err((in_guest, build)), Some(StackError::Unavailable { filesystem, reason, remedy }))
                    if remedy.is_empty() && !build.is_empty() =>
                {
                    let reason = format!("{reason}; in a guest: {in_guest}");
                    return Err(StackError::Unavailable { filesystem, reason, remedy: build });
                }
                (Err(_), Some(not_here)) => return Err(not_here),
            },
        };
        Ok(Some((filesystem.clone(), place)))
    }

    /// Refuses an image that a stack or a loop device writes: a copy of it would be of no one moment.
    fn check_unused(&self, path: &Path) -> Result<(), StackError> {
        let refused = |problem: String| {
            let problem = format!("{}: {problem}", path.display());
            Err(StackError::Spec { field: "image", problem })
        };
        let it = path.metadata().map_err(StackError::io("read", path))?;
        let is_it = |other: &Path| other.metadata().is_ok_and(|o| (o.dev(), o.ino()) == (it.dev(), it.ino()));
        for home in claim::homes(&self.state) {
            let Ok(entry) = Entry::read(&home) else { continue };
            // After a restart of the machine there is an entry still, and nobody writes.
            let in_use = !entry.kept || is_mounted(&mount_point(&home));
            if in_use && entry.spec.keep.as_deref().is_some_and(is_it) {
                let name = entry.name.unwrap_or(entry.label);
                return refused(format!(
                    "the stack {name:?} has it mounted, and a copy would be of no one moment: `fathom stack down {name}` first"
                ));
            }
        }
        let writes = |number: &u32| {
            let only_read = fs::read_to_string(format!("/sys/block/loop{number}/ro"));
            only_read.is_ok_and(|text| text.trim() == "0")
        };
        let attached = crate::loop_device::attached().into_iter();
        let by = attached.filter(|(_, file)| is_it(Path::new(file))).map(|(number, _)| number).find(writes);
        match by {
            Some(number) => refused(format!(
                "/dev/loop{number} writes it, and a copy would be of no one moment: unmount that, or `losetup -d /dev/loop{number}`, first"
            )),
            None => Ok(()),
        }
    }

    /// Whether this machine can serve a modelled device.
    fn can_serve(&self, spec: &StackSpec) -> Result<(), StackError> {
        let missing = |reason: &str, remedy: &str| {
            Err(StackError::Unavailable {
                filesystem: format!("{} on a modelled device", spec.filesystem),
                reason: reason.into(),
                remedy: remedy.into(),
            })
        };
        if !Path::new("/dev/fuse").exists() {
            return missing(
                "there is no /dev/fuse: this kernel has no FUSE, or its module is not loaded",
                "modprobe fuse",
            );
        }
        if !crate::is_root() {
            let distribution = Distribution::here();
            if ["fusermount3", "fusermount"].into_iter().all(|it| crate::command::find_program(it).is_none())
            {
                return missing(
                    "without root it is served with the help of fusermount3, which is not installed",
                    &distribution.brings(Package::FUSE),
                );
            }
            if let Err(error) = OpenOptions::new().read(true).write(true).open("/dev/fuse") {
                return missing(&format!("you may not open /dev/fuse ({error})"), "sudo chmod 666 /dev/fuse");
            }
        }
        if self.server.is_none() {
            return missing("modelled devices are served by the program `fathom`, which this is not", "");
        }
        Ok(())
    }

    /// Serves the stack's modelled devices, if it has any: the files that stand for them, and what they are. The file system's is
    /// first, its external log's second.
    fn serve_devices(&self, claim: &mut Claim) -> Result<Vec<(File, Model)>, StackError> {
        let spec = claim.entry.spec.clone();
        let log = if spec.log_device.is_empty() { &spec.device } else { &spec.log_device };
        let wanted = [
            ("device", &spec.device, ".img", Some(spec.size_mib)),
            ("log_device", log, ".log.img", spec.log_mib),
        ];
        let mut served = Vec::new();
        for (at, (field, device, end, mib)) in
            device_points(&claim.home, &claim.entry).into_iter().zip(wanted)
        {
            let (Some(mib), Some(program)) = (mib, &self.server) else { break };
            let refused_device = |problem: String| StackError::Spec { field, problem };
            let (file, text) = model_text(device).map_err(refused_device)?;
            let model = Model::parse(&file, &text).map_err(|error| refused_device(error.to_string()))?;
            // Blocks are never written in full: the image's own disk is not what is measured.
            let entry = &claim.entry;
            let image = self.image(entry, end, mib)?;
            if !image.bytes.is_multiple_of(model.sector_bytes.into()) {
                let problem = format!(
                    "{file} has sectors of {} bytes, and the image's {} bytes are no multiple of that",
                    model.sector_bytes, image.bytes
                );
                return Err(refused_device(problem));
            }
            let number = served.len();
            let order = Order {
                image: format!("/proc/{}/fd/{}", std::process::id(), image.file.as_raw_fd()).into(),
                at: at.clone(),
                model: text.clone(),
                // Times of its own, not the other device's again.
                seed: spec.device_seed.wrapping_add(number as u64),
                log: spec.operations.as_deref().map(|log| match number {
                    0 => log.to_path_buf(),
                    _ => external_of(log),
                }),
                capture: spec.capture,
                faults: if number == 0 { spec.faults.clone() } else { Vec::new() },
            };
            let state = claim.home.join(guest::STATE);
            fs::create_dir_all(&state).map_err(StackError::io("make", &state))?;
            let server = Server::start(program, &order, &state.join(format!("{field}.log")))
                .map_err(|problem| StackError::Mount { path: at.clone(), problem })?;
            claim.served_by(server)?;
            claim.models.push(text);
            let path = at.join(crate::device::FILE);
            let disk = OpenOptions::new()
                .read(true)
                .write(true)
                .open(&path)
                .map_err(StackError::io("open", &path))?;
            served.push((disk, model));
        }
        Ok(served)
    }

    /// Image, loop device, mkfs, settle, mount, work directory. On an error the loop devices are closed (and so detached)
    /// here, the rest is the claim's.
    fn make_mounted(
        &self,
        claim: &Claim,
        filesystem: &FileSystem,
        modelled: &[(File, Model)],
    ) -> Result<(PathBuf, StackRecord, Vec<BlockDevice>), StackError> {
        let (entry, spec) = (&claim.entry, &claim.entry.spec);
        let host = host_of(&entry.directory);
        let mut warnings = place_warnings(&host.filesystem, spec.laid());
        let attach = |number: usize, end: &str, mib: u64| match modelled.get(number) {
            None => self.attach(entry, end, mib),
            Some((disk, model)) => LoopDevice::attach_sectors(disk, model.sector_bytes)
                .map(|device| (None, device))
                .map_err(StackError::io("attach a loop device to the modelled device in", &claim.home)),
        };
        let main = attach(0, ".img", spec.size_mib)?;
        let log = spec.log_mib.map(|mib| attach(1, ".log.img", mib)).transpose()?;
        let all = || std::iter::once(&main).chain(log.as_ref());
        for (_, device) in all() {
            if !device.direct {
                warnings.push(format!(
                    "loop without direct I/O: {} does not take it, so data is cached twice and a flush costs more",
                    host.filesystem
                ));
            }
            if let Err(e) = device.refuse_discards() {
                warnings.push(format!("discards could not be turned off on {} ({e})", device.path.display()));
            }
        }

        let tool = |name: &str| find_program_in(&self.tools, name).unwrap_or_else(|| PathBuf::from(name));
        let mkfs = tool(&filesystem.mkfs);
        let log_path = log.as_ref().map(|(_, device)| device.path.as_path());
        let commands = filesystem.mkfs_commands(&mkfs, &main.1.path, log_path, spec);
        let held: Vec<&File> = all().map(|(_, device)| device.file()).collect();
        for command in &commands {
            command.run_holding(&held, self.limit + Duration::from_secs(spec.size_mib / 100))?;
        }
        for (image, device) in all() {
            let at = || StackError::io("write the image in", &entry.directory);
            device.flush().map_err(at())?;
            if let (true, Some(image)) = (self.allocate, image) {
                image.settle().map_err(at())?;
            }
        }

        let point = claim.mount_point();
        let program = filesystem.mount_program();
        let driver = tool(program);
        filesystem
            .mount_command(&driver, &main.1.path, log_path, &point, &spec.mount)
            .run_holding(&held, self.limit)?;
        let mount = self.mounted(&point, &main.1.path)?;
        if program != "mount" {
            let shown: Vec<&str> = mount.options.split(',').collect();
            let unseen: Vec<&str> =
                spec.mount.split(',').filter(|o| !o.is_empty() && !shown.contains(o)).collect();
            if !unseen.is_empty() {
                warnings.push(format!(
                    "{program} was given the mount options {}, and does not tell whether it took them (it passes over unknown ones)",
                    unseen.join(",")
                ));
            }
        }
        let path = point.join("work");
        // An image that was kept may have it.
        make_private(&path).map_err(StackError::io("make", &path))?;

        let anonymous = |text: String| {
            let text = text.replace(&*main.1.path.to_string_lossy(), "IMAGE");
            log_path.map_or(text.clone(), |log| text.replace(&*log.to_string_lossy(), "LOG"))
        };
        let mut versions = vec![filesystem.version_line(&mkfs)];
        if program != "mount" {
            versions.push(driver_version(program, &driver));
        }
        let record = StackRecord {
            filesystem: mount.filesystem,
            mkfs: anonymous(spec.made(&commands)),
            mkfs_version: versions.join("; "),
            mount: anonymous(mount.options),
            device: described_models(modelled).unwrap_or_else(|| described(&main.1, log.is_some(), &host)),
            models: Vec::new(),
            guest: String::new(),
            warnings,
        };
        let devices = all().map(|(_, device)| device.block_device());
        let devices = devices.collect::<io::Result<_>>().map_err(StackError::io("look at", &main.1.path))?;
        Ok((path, record, devices))
        // The loop devices are closed here; the mount keeps them attached.
    }

    fn attach(&self, entry: &Entry, end: &str, mib: u64) -> Result<(Option<Image>, LoopDevice), StackError> {
        let image = self.image(entry, end, mib)?;
        let device = LoopDevice::attach(&image.file)
            .map_err(StackError::io("attach a loop device to an image in", &entry.directory))?;
        Ok((Some(image), device))
    }

    /// The image of the file system (`.img`) or of its external log: in a file that is to stay, or without a name; empty, or a
    /// copy of the image that was given.
    pub(crate) fn image(&self, entry: &Entry, end: &str, mib: u64) -> Result<Image, StackError> {
        let (source, kept) = match end {
            ".img" => (entry.spec.image.as_deref(), entry.spec.keep.as_deref()),
            _ => (None, None),
        };
        let source = source.map(|path| File::open(path).map_err(StackError::io("read", path))).transpose()?;
        let bytes = match &source {
            Some(file) => file.metadata().map_err(StackError::io("read", &entry.directory))?.len(),
            None => mib << 20,
        };
        let place = kept.and_then(Path::parent).unwrap_or(&entry.directory);
        let made = match kept {
            Some(path) => OpenOptions::new()
                .read(true)
                .write(true)
                .open(path)
                .and_then(|file| Image::lay_out(file, bytes, self.allocate)),
            None => Image::create(&entry.directory, &image_name(&entry.tag, end), bytes, self.allocate),
        };
        let mut image = made.map_err(|error| refused(place, error))?;
        if let Some(from) = &source {
            image.fill(from).map_err(|error| refused(place, error))?;
        }
        Ok(image)
    }

    fn check_space(&self, spec: &StackSpec, filesystem: &FileSystem) -> Result<(), StackError> {
        let needed_bytes = (spec.size_mib + spec.log_mib.unwrap_or(0)) << 20;
        let space = rustix::fs::statvfs(&spec.directory)
            .map_err(io::Error::from)
            .map_err(StackError::io("ask for the free space of", &spec.directory))?;
        let free_bytes = space.f_bavail.saturating_mul(space.f_frsize);
        if self.allocate && needed_bytes > free_bytes {
            return Err(StackError::NoSpace {
                path: spec.directory.clone(),
                needed_bytes,
                free_bytes,
                filesystem: spec.filesystem.clone(),
                min_mib: filesystem.min_mib,
            });
        }
        Ok(())
    }

    /// The mount as the kernel sees it; read-only is not what was asked for.
    fn mounted(&self, point: &Path, device: &Path) -> Result<Mount, StackError> {
        let wrong = |problem: String| StackError::Mount { path: point.to_path_buf(), problem };
        let mounts = mounts().map_err(StackError::io("read", "/proc/self/mountinfo"))?;
        let mount = mounts.into_iter().rfind(|mount| mount.point == point);
        let mount = mount.ok_or_else(|| wrong("mount reported success, but nothing is mounted".into()))?;
        if Path::new(&mount.source) != device {
            return Err(wrong(format!("{} is mounted instead of {}", mount.source, device.display())));
        }
        if mount.options.split(',').any(|option| option == "ro") {
            return Err(wrong(
                "mounted read-only: take `ro` out of the mount options, or see dmesg for why the kernel fell back to it".into(),
            ));
        }
        Ok(mount)
    }
}

/// Whether this user's list of stacks lies where nobody else can have written it; [`Stack::up`] and
/// all that takes stacks down refuse it otherwise. Nothing is made.
///
/// # Errors
/// Which directory others may write, or whose it is, and what to do.
pub fn trusted_state() -> Result<(), StackError> {
    trust::state(&Stacks::here().state)
}

impl Default for Stacks {
    fn default() -> Self {
        Stacks::here()
    }
}

/// A stack that is up. Dropping it takes it down.
#[derive(Debug)]
pub struct Stack {
    claim: Option<Claim>,
    path: PathBuf,
    devices: Vec<BlockDevice>,
    record: StackRecord,
    patience: Duration,
}

impl Stack {
    /// Brings a stack up. `label` names its owner for lists of leftovers, e.g. the cell's label.
    ///
    /// For `dir`, a fresh subdirectory; otherwise an image in `spec.directory` (empty = the current directory), allocated
    /// and written in full, attached to a loop device with direct I/O, made with mkfs and mounted. Leftovers of dead
    /// owners are swept first.
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
        way.into_iter().try_for_each(|it| fs::set_permissions(it, fs::Permissions::from_mode(0o711)))
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

    /// Traces what reaches the stack's devices from now on: device 0 of the requests is the file system's, device 1 its
    /// external log. Stop it before the stack goes down; whatever undoes the stack removes the trace's instance.
    ///
    /// # Errors
    /// A `dir` stack, whose device is everybody's; see [`TraceError`].
    pub fn trace_blocks(&self) -> Result<BlockTrace, TraceError> {
        let tag = self.claim.as_ref().map_or("", |claim| claim.entry.tag.as_str());
        if self.devices.is_empty() {
            return Err(TraceError::Shared { path: self.path.clone() });
        }
        let numbers: Vec<(u32, u32)> = self.devices.iter().map(|it| it.number).collect();
        BlockTrace::start_tagged(&numbers, tag, crate::blocks::BUFFER_KIB)
    }

    /// As [`crate::floor_probe`], on this stack. What is to fail on the modelled device is counted anew from its end on.
    ///
    /// # Errors
    /// In words: a write fails.
    pub fn floor(&mut self, writes: u32) -> Result<FloorProbe, String> {
        self.tell_of_faults(Server::hold_faults)?;
        let floor = match self.claim.as_mut().and_then(|claim| claim.guest.as_mut()) {
            Some(guest) => guest.floor(&self.path, writes).map_err(|error| error.to_string()),
            None => {
                let rescue = self.rescue();
                rescue.explained(floor_probe(&self.path, writes).map_err(|error| error.to_string()))
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

    /// Runs a program of this machine's in the guest to its end; what it wrote to stdout and stderr. The host's files are
    /// read-only there, but for the file system under test.
    ///
    /// # Errors
    /// It cannot be started, fails or takes too long, or the stack is in no guest: see [`CommandError`].
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

    /// The block devices of this stack alone: the file system's, then its external log's; none for `dir`.
    #[must_use]
    pub fn devices(&self) -> &[BlockDevice] {
        &self.devices
    }

    /// The file that takes marks for the operation log of the file system's modelled device: a decimal number in each write (see
    /// [`crate::device::MARK`]); none without a modelled device.
    #[must_use]
    pub fn marks(&self) -> Option<PathBuf> {
        let claim = self.claim.as_ref()?;
        device_points(&claim.home, &claim.entry).first().map(|at| at.join(crate::device::MARK))
    }

    /// What the stack's modelled devices have done so far: the file system's, then its external log's; empty without one.
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
    pub fn served(&mut self) -> Result<Vec<Vec<Served>>, String> {
        self.claim.iter_mut().flat_map(|claim| &mut claim.servers).map(Server::served).collect()
    }

    /// Looks after the servers of the modelled devices as long as it is there: for whoever waits for the stack without a limit.
    #[must_use]
    pub fn rescue(&self) -> Rescue {
        Rescue::from(self.claim.as_ref().map_or(&[], |claim| &claim.entry.servers))
    }

    /// Kills the servers of the modelled devices, so that whoever waits for one gets an error: for those that even SIGKILL does not
    /// end. Whether there were any.
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
        self.claim.as_ref().is_some_and(|claim| claim.entry.spec.device == RECORDER)
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

    /// Takes the stack down. Close what is open on it first: after 5 seconds of trying, a busy mount is detached lazily.
    ///
    /// # Errors
    /// [`StackError::Busy`] names who held the mount; others when umount failed. Nothing more can be done then but to end
    /// those processes, after which loop device and space come free by themselves.
    pub fn down(mut self) -> Result<(), StackError> {
        self.undo()
    }

    fn undo(&mut self) -> Result<(), StackError> {
        let Some(mut claim) = self.claim.take() else { return Ok(()) };
        claim.down(Patience { wait: self.patience, lazy: true })
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

/// This program, if it is `fathom`, which serves devices and is the agent in guests.
pub(crate) fn fathom_itself() -> Option<PathBuf> {
    crate::own_program().ok().filter(|it| it.file_name().is_some_and(|name| name == "fathom"))
}

/// The text of a model and the name of its file: a preset, or a file of the user's.
pub(crate) fn model_text(device: &str) -> Result<(String, String), String> {
    if let Some(text) = text_of(device) {
        return Ok((format!("{device}.toml"), text.to_owned()));
    }
    if !is_model_file(device) {
        return Err(format!("there is no modelled device {device:?}"));
    }
    let text = model_file(Path::new(device)).map_err(|problem| format!("{device}: {problem}"))?;
    own_model(device, &text).map_err(|error| error.to_string())?;
    Ok((device.to_owned(), text))
}

/// The model of a device, as `--device` takes it: a preset's name, or a file's path.
///
/// # Errors
/// In words: what is wrong with the name or the file, and what would be right.
pub fn device_model(device: &str) -> Result<Model, String> {
    let (file, text) = model_text(device).map_err(|problem| {
        if is_model_file(device) {
            return problem;
        }
        let near = did_you_mean(nearest(device, presets().iter().map(|model| model.name.as_str())));
        format!("{problem}{near}\n`fathom list devices` shows them; or give the path of a model (FILE.toml)")
    })?;
    Model::parse(&file, &text).map_err(|error| error.to_string())
}

/// Whether a stack's `device` is the path of a model, and no preset's name.
pub(crate) fn is_model_file(device: &str) -> bool {
    device.contains('/') || device.ends_with(".toml")
}

/// The text of a file that is to hold a model.
fn model_file(path: &Path) -> Result<String, String> {
    // Asked before it is opened: the other end of a pipe would be waited for.
    if !path.metadata().map_err(|error| error.to_string())?.is_file() {
        return Err("it is no file, and so no model".into());
    }
    let mut text = String::new();
    let file = File::open(path).map_err(|error| error.to_string())?;
    file.take(LARGEST_MODEL + 1).read_to_string(&mut text).map_err(|error| error.to_string())?;
    match u64::try_from(text.len()) {
        Ok(..=LARGEST_MODEL) => Ok(text),
        _ => Err(format!("it has more than {} KiB, and so is no model", LARGEST_MODEL >> 10)),
    }
}

/// A `dir` stack: a fresh subdirectory.
fn make_directory(entry: &Entry) -> Result<(PathBuf, StackRecord), StackError> {
    let path = entry.work.clone().unwrap_or_else(|| entry.directory.join(&entry.tag));
    DirBuilder::new().mode(0o700).create(&path).map_err(|e| refused(&entry.directory, e))?;
    let host = host_of(&path);
    let record = StackRecord {
        warnings: place_warnings(&host.filesystem, Laid::Directory),
        filesystem: host.filesystem,
        mkfs: String::new(),
        mkfs_version: String::new(),
        mount: host.options,
        device: host.source,
        models: Vec::new(),
        guest: String::new(),
    };
    Ok((path, record))
}

/// Makes a directory to work in, where there is none: what an application keeps there is this
/// user's alone.
pub(crate) fn make_private(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Why a directory does not take our file, and what to do.
pub(crate) fn refused(directory: &Path, error: io::Error) -> StackError {
    let problem = match error.raw_os_error() {
        Some(libc::EROFS) => {
            "is on a file system that is mounted read-only; give another directory".to_owned()
        }
        Some(libc::EACCES | libc::EPERM) => "you may not write here; give a directory of your own".to_owned(),
        Some(libc::ENOSPC | libc::EDQUOT) => {
            "no space left (or a quota is used up); give another directory or a smaller `size_mib`".to_owned()
        }
        Some(libc::EFBIG) => {
            "its file system cannot hold a file of that size; give another directory or a smaller `size_mib`"
                .to_owned()
        }
        _ => error.to_string(),
    };
    StackError::Directory { path: directory.to_path_buf(), problem }
}

/// What is laid on a host's file system.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Laid {
    /// The databases themselves.
    Directory,
    /// An image, whose times are those of the disk that it lies on.
    Image,
    /// An image with a model's times, whatever it lies on: memory is as good as any disk, and quieter.
    Modelled,
}

impl StackSpec {
    pub(crate) fn laid(&self) -> Laid {
        if self.device.is_empty() { Laid::Image } else { Laid::Modelled }
    }
}

/// What a reader must know of the file system under an image or directory.
pub(crate) fn place_warnings(filesystem: &str, laid: Laid) -> Vec<String> {
    let what = match laid {
        Laid::Directory => "the directory lies on",
        Laid::Image => "the image lies on",
        Laid::Modelled => return Vec::new(),
    };
    let warning = match filesystem {
        "tmpfs" | "ramfs" => format!(
            "{what} {filesystem}: there is no device and syncs are free; durable writes look far too fast"
        ),
        "overlay" => format!(
            "{what} overlay: first writes copy files up, and the upper layer's device is what is measured"
        ),
        "nfs" | "nfs4" | "cifs" | "smb3" | "9p" | "virtiofs" | "ceph" | "afs" => {
            format!(
                "{what} {filesystem}: a server is measured, and what a sync promises is the server's affair"
            )
        }
        other if other == "fuse" || other.starts_with("fuse.") => {
            format!("{what} {other}: a program in user space is measured")
        }
        _ => return Vec::new(),
    };
    vec![warning]
}

/// The modelled devices in words, where there are any.
pub(crate) fn described_models(modelled: &[(File, Model)]) -> Option<String> {
    let each = |(_, model): &(File, Model)| format!("modelled {} ({})", model.name, model.title);
    match modelled {
        [] => None,
        [one] => Some(each(one)),
        [one, log, ..] => Some(format!("{}, log on {}", each(one), each(log))),
    }
}

fn described(device: &LoopDevice, log: bool, host: &Mount) -> String {
    let direct = if device.direct { "direct I/O" } else { "cached I/O" };
    let sectors = if device.sector_bytes == 512 {
        String::new()
    } else {
        format!(", sectors of {} bytes", device.sector_bytes)
    };
    let log = if log { ", log on another" } else { "" };
    format!("loop ({direct}{sectors}{log}) on {} ({})", host.filesystem, host.source)
}

fn driver_version(name: &str, program: &Path) -> String {
    for word in ["--version", "-V"] {
        match CommandLine::new(program, [word]).run(Duration::from_secs(10)) {
            Ok(out) if !(out.stdout.is_empty() && out.stderr.is_empty()) => {
                let text = format!("{}\n{}", out.stdout, out.stderr);
                return text.trim().lines().next().unwrap_or(name).to_owned();
            }
            Ok(_) => {}
            // ntfs-3g prints its version and ends with a failure.
            Err(e) if e.stderr.contains(char::is_numeric) && e.stderr.contains(name) => {
                return e.stderr.lines().next().unwrap_or(name).to_owned();
            }
            Err(_) => {}
        }
    }
    format!("{name} (version unknown)")
}

pub(crate) use claim::mount_point;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_under_an_image_is_warned_of_unless_a_model_keeps_the_times() {
        assert!(place_warnings("tmpfs", Laid::Image)[0].contains("syncs are free"));
        assert!(place_warnings("tmpfs", Laid::Directory)[0].contains("the directory lies on tmpfs"));
        assert!(place_warnings("tmpfs", Laid::Modelled).is_empty());
    }
}
