//! A stack whose file system is mounted in a guest.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Guest, GuestError, Kernel, POINT, STATE};
use crate::claim::{Claim, Entry, image_name};
use crate::command::{CommandLine, find_program_in};
use crate::device::Model;
use crate::error::StackError;
use crate::filesystem::FileSystem;
use crate::image::Image;
use crate::mountinfo::{Mount, mount_of, mounts_in};
use crate::spec::StackRecord;
use crate::stack::{Stacks, place_warnings, refused};

/// What every reader of a guest's results must know.
const CPU_WARNING: &str = "ran in a guest kernel: a system call costs it some 13 µs instead of 0.1, and its clock is asked by system \
     call. Times at the device, operation counts and bytes may be compared with runs on this machine's own kernel; CPU \
     time, and times that are mostly CPU, may not";

impl Stacks {
    /// Images, guest, mkfs, settle, mount, work directory; the guest is the claim's. On an error everything is the claim's
    /// to undo.
    pub(crate) fn make_in_guest(
        &self,
        claim: &mut Claim,
        filesystem: &FileSystem,
        modelled: Option<(File, Model)>,
        kernel: &Kernel,
    ) -> Result<(PathBuf, StackRecord), StackError> {
        let entry = claim.entry.clone();
        let spec = &entry.spec;
        let host =
            mount_of(&entry.directory).map_err(StackError::io("find the mount of", &entry.directory))?;
        let mut warnings = place_warnings(&host.filesystem, spec.laid());
        warnings.push(CPU_WARNING.into());
        self.check_space(spec, filesystem)?;
        let image = |end: &str, mib: u64| {
            Image::create(&entry.directory, &image_name(&entry.tag, end), mib << 20, self.allocate)
                .map_err(|error| refused(&entry.directory, error))
        };
        let main = if modelled.is_some() { None } else { Some(image(".img", spec.size_mib)?) };
        let log = spec.log_mib.map(|mib| image(".log.img", mib)).transpose()?;
        let disks = modelled.as_ref().map(|(disk, _)| disk).into_iter();
        let images = || main.iter().chain(&log);
        let disks: Vec<PathBuf> = disks.chain(images().map(|it| &it.file)).map(path_of).collect();

        let state = claim.home.join(STATE);
        fs::create_dir(&state).map_err(StackError::io("make", &state))?;
        let failed = |error: GuestError| StackError::Guest(error);
        let program = self.server.as_deref().ok_or_else(|| no_agent(filesystem))?;
        let guest = claim.guest.insert(Guest::boot(kernel, program, &disks, &state).map_err(failed)?);

        let tool = |name: &str| find_program_in(&self.tools, name).unwrap_or_else(|| PathBuf::from(name));
        let mkfs = tool(&filesystem.mkfs);
        let device = Path::new("/dev/ubda");
        let log_device = log.as_ref().map(|_| Path::new("/dev/ubdb"));
        let commands = filesystem.mkfs_commands(&mkfs, device, log_device, &spec.mkfs);
        for command in &commands {
            guest.command(command, self.limit + Duration::from_secs(spec.size_mib / 100))?;
        }
        // What mkfs wrote is at the disk now: its last close of the device writes it out, and nothing more is kept back.
        guest.command(&CommandLine::new("sync", [""; 0]), self.limit)?;
        if self.allocate {
            for image in images() {
                image.settle().map_err(StackError::io("write the image in", &entry.directory))?;
            }
        }
        let point = Path::new(POINT);
        let mount = tool("mount");
        guest
            .command(&filesystem.mount_command(&mount, device, log_device, point, &spec.mount), self.limit)?;
        let mounted = mounted(guest, point, device)?;
        let path = point.join("work");
        guest.make_directory(&path).map_err(failed)?;

        let named = |text: String| text.replace("/dev/ubda", "IMAGE").replace("/dev/ubdb", "LOG");
        let short = |line: &CommandLine| CommandLine {
            program: crate::command::file_name(&line.program).into(),
            ..line.clone()
        };
        let record = StackRecord {
            filesystem: mounted.filesystem,
            mkfs: named(commands.iter().map(|it| short(it).shown()).collect::<Vec<_>>().join(" && ")),
            mkfs_version: filesystem.version_line(&mkfs),
            mount: named(mounted.options),
            device: match &modelled {
                None => described(&entry, &host),
                Some((_, model)) => format!("modelled {} ({})", model.name, model.title),
            },
            guest: format!("Linux {} (user-mode)", guest.release()),
            warnings,
        };
        Ok((path, record))
    }
}

/// A file by the descriptor that this process holds: images have no name.
fn path_of(file: &File) -> PathBuf {
    format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()).into()
}

fn described(entry: &Entry, host: &Mount) -> String {
    let log = if entry.spec.log_mib.is_some() { ", log on another" } else { "" };
    format!("guest's disk (direct I/O{log}) on {} ({})", host.filesystem, host.source)
}

fn no_agent(filesystem: &FileSystem) -> StackError {
    StackError::Unavailable {
        filesystem: format!("{} in a guest kernel", filesystem.name),
        reason: "the program `fathom` is what runs in the guest, and this is another program".into(),
        remedy: String::new(),
    }
}

/// The mount as the guest's kernel sees it; read-only is not what was asked for.
fn mounted(guest: &mut Guest, point: &Path, device: &Path) -> Result<Mount, StackError> {
    let text = guest.read(Path::new("/proc/self/mountinfo")).map_err(StackError::Guest)?;
    let wrong = |problem: String| StackError::Mount { path: point.to_path_buf(), problem };
    let mount = mounts_in(text.as_bytes())
        .into_iter()
        .rfind(|mount| mount.point == point)
        .ok_or_else(|| wrong("mount reported success, but nothing is mounted in the guest".into()))?;
    if Path::new(&mount.source) != device {
        return Err(wrong(format!(
            "{} is mounted in the guest instead of {}",
            mount.source,
            device.display()
        )));
    }
    if mount.options.split(',').any(|option| option == "ro") {
        return Err(wrong("mounted read-only in the guest: take `ro` out of the mount options".into()));
    }
    Ok(mount)
}
