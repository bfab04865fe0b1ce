//! Makes and mounts a file system by this machine's kernel.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fathom_device::Model;
use fathom_ground::command::{CommandLine, find_program_in};
use fathom_ground::mountinfo::{Mount, host_of, mounts};

use super::claim::Claim;
use super::config::Stacks;
use super::entry::Entry;
use super::error::StackError;
use super::mkfs::run_mkfs;
use super::remarks::{described_models, place_warnings};
use crate::ground::image::{Image, make_private};
use crate::ground::loop_device::{BlockDevice, LoopDevice};
use crate::spec::{FileSystem, StackRecord};

impl Stacks {
    /// Image, loop device, mkfs, settle, mount, work directory. On an error the loop devices are
    /// closed (and so detached) here, the rest is the claim's.
    pub(crate) fn make_mounted(
        &self,
        claim: &Claim,
        filesystem: &FileSystem,
        modelled: &[(File, Model)],
    ) -> Result<(PathBuf, StackRecord, Vec<BlockDevice>), StackError> {
        let (entry, spec) = (&claim.entry, &claim.entry.spec);
        let host = host_of(&entry.directory);
        let mut warnings = place_warnings(&host.filesystem, spec.placement());
        warnings.extend(spec.discard_warning());
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
        let mkfs = tool(&filesystem.mkfs.program);
        let log_path = log.as_ref().map(|(_, device)| device.path.as_path());
        let commands = filesystem.mkfs_commands(&mkfs, &main.1.path, log_path, spec);
        let held: Vec<&File> = all().map(|(_, device)| device.file()).collect();
        for command in &commands {
            run_mkfs(command, &held, self.limit + Duration::from_secs(spec.size_mib / 100))?;
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
            .mount_command(&driver, &main.1.path, log_path, &point, spec.mount.as_deref())
            .run_holding(&held, self.limit)?;
        let mount = self.mounted(&point, &main.1.path)?;
        if program != "mount" {
            let shown: Vec<&str> = mount.options.split(',').collect();
            let unseen: Vec<&str> = spec
                .mount
                .iter()
                .flat_map(|all| all.split(','))
                .filter(|option| !shown.contains(option))
                .collect();
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
            image: String::new(),
            ran_on: BTreeMap::new(),
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
        match CommandLine::new(program, [word]).run(Duration::from_secs(60)) {
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
