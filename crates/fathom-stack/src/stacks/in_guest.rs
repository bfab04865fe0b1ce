//! A stack whose file system is mounted in a guest.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fathom_device::{FILE, Model};
use fathom_ground::command::{CommandLine, find_program_in};
use fathom_ground::mountinfo::{Mount, host_of, mounts_in};

use super::claim::Claim;
use super::config::Stacks;
use super::entry::{Entry, device_points};
use super::error::StackError;
use super::remarks::{described_models, place_warnings};
use crate::ground::image::Image;
use crate::guest::{Disk, Guest, Kernel, POINT, STATE};
use crate::spec::{FileSystem, StackRecord};

/// What every reader of a guest's results must know.
const CPU_WARNING: &str = "ran in a guest kernel: a system call costs it some 13 µs instead of 0.1, and its clock is asked by system \
     call. Times at the device, operation counts and bytes may be compared with runs on this machine's own kernel; CPU \
     time, and times that are mostly CPU, may not";

/// The disks of a guest.
pub(super) struct Disks {
    /// The modelled devices' files: the file system's, and its external log's.
    pub devices: Vec<Disk>,
    /// Images of the same, where there are no such devices.
    pub images: Vec<Image>,
    /// The disk in words.
    pub described: String,
    /// What a reader must know.
    pub warnings: Vec<String>,
}

impl Disks {
    /// As the guest opens them, in their order; this process must hold them until then.
    pub fn all(&self) -> Vec<Disk> {
        let images = self.images.iter().map(|image| Disk { path: path_of(&image.file), sector_bytes: 512 });
        self.devices.iter().cloned().chain(images).collect()
    }
}

impl Stacks {
    /// Images, guest, mkfs, settle, mount, work directory; the guest is the claim's. On an error
    /// everything is the claim's to undo.
    pub(crate) fn make_in_guest(
        &self,
        claim: &mut Claim,
        filesystem: &FileSystem,
        modelled: &[(File, Model)],
        kernel: &Kernel,
    ) -> Result<(PathBuf, StackRecord), StackError> {
        let disks = self.disks(claim, modelled)?;
        let program = self.program.as_deref().ok_or_else(|| no_agent(filesystem))?;
        let state = state_in(&claim.home)?;
        let booted = Guest::boot(kernel, program, &disks.all(), &state, None);
        let guest = claim.guest.insert(booted.map_err(StackError::Guest)?);
        self.make_on(guest, &claim.entry, filesystem, &disks)
    }

    pub(super) fn disks(&self, claim: &Claim, modelled: &[(File, Model)]) -> Result<Disks, StackError> {
        let (entry, spec) = (&claim.entry, &claim.entry.spec);
        let host = host_of(&entry.directory);
        let mut warnings = place_warnings(&host.filesystem, spec.placement());
        warnings.extend(spec.discard_warning());
        warnings.push(CPU_WARNING.into());
        let wanted = [(".img", Some(spec.size_mib)), (".log.img", spec.log_mib)];
        let wanted = wanted.into_iter().filter(|_| modelled.is_empty());
        let images =
            wanted.filter_map(|(end, mib)| Some(self.image(entry, end, mib?))).collect::<Result<_, _>>()?;
        Ok(Disks {
            devices: device_points(&claim.home, entry)
                .into_iter()
                .zip(modelled)
                .map(|(point, (_, model))| Disk { path: point.join(FILE), sector_bytes: model.sector_bytes })
                .collect(),
            images,
            described: described_models(modelled).unwrap_or_else(|| described(entry, &host)),
            warnings,
        })
    }

    /// mkfs, settle, mount, work directory, in a guest with these disks.
    pub(super) fn make_on(
        &self,
        guest: &mut Guest,
        entry: &Entry,
        filesystem: &FileSystem,
        disks: &Disks,
    ) -> Result<(PathBuf, StackRecord), StackError> {
        let spec = &entry.spec;
        let tool = |name: &str| find_program_in(&self.tools, name).unwrap_or_else(|| PathBuf::from(name));
        let mkfs = tool(&filesystem.mkfs.program);
        let device = Path::new("/dev/ubda");
        let log_device = spec.log_mib.map(|_| Path::new("/dev/ubdb"));
        let commands = filesystem.mkfs_commands(&mkfs, device, log_device, spec);
        for command in &commands {
            guest.command(command, self.limit + Duration::from_secs(spec.size_mib / 100))?;
        }
        // What mkfs wrote is at the disk now: its last close of the device writes it out, and
        // nothing more is kept back.
        guest.command(&CommandLine::new("sync", [""; 0]), self.limit)?;
        if self.allocate {
            for image in &disks.images {
                image.settle().map_err(StackError::io("write the image in", &entry.directory))?;
            }
        }
        let point = Path::new(POINT);
        let mount = tool("mount");
        guest.command(
            &filesystem.mount_command(&mount, device, log_device, point, spec.mount.as_deref()),
            self.limit,
        )?;
        let mounted = mounted(guest, point, device)?;
        let path = point.join("work");
        guest.make_directory(&path).map_err(StackError::Guest)?;

        let named = |text: String| text.replace("/dev/ubda", "IMAGE").replace("/dev/ubdb", "LOG");
        let record = StackRecord {
            filesystem: mounted.filesystem,
            mkfs: named(spec.made(&commands)),
            mkfs_version: filesystem.version_line(&mkfs),
            mount: named(mounted.options),
            device: disks.described.clone(),
            models: Vec::new(),
            image: String::new(),
            ran_on: BTreeMap::new(),
            guest: format!("Linux {} (user-mode)", guest.release()),
            warnings: disks.warnings.clone(),
        };
        Ok((path, record))
    }
}

/// The directory in which a guest's kernel keeps what it needs, and its keeper what it has to say.
pub(super) fn state_in(home: &Path) -> Result<PathBuf, StackError> {
    let state = home.join(STATE);
    fs::create_dir_all(&state).map_err(StackError::io("make", &state))?;
    Ok(state)
}

/// A file by the descriptor that this process holds: images have no name.
pub(super) fn path_of(file: &File) -> PathBuf {
    format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd()).into()
}

fn described(entry: &Entry, host: &Mount) -> String {
    let log = if entry.spec.log_mib.is_some() { ", log on another" } else { "" };
    format!("guest's disk (direct I/O{log}) on {} ({})", host.filesystem, host.source)
}

pub(super) fn no_agent(filesystem: &FileSystem) -> StackError {
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
