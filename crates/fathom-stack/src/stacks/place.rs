//! Where a file system is mounted: by this machine's kernel or a guest's, and whether that can be.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use fathom_ground::command::find_program;
use fathom_ground::mountinfo::is_mounted;
use fathom_ground::system::is_root;

use super::config::Stacks;
use super::entry::{self, Entry, mount_point};
use super::error::StackError;
use crate::ground::distribution::{Distribution, Package};
use crate::ground::loop_device;
use crate::guest::Kernel;
use crate::spec::{FileSystem, Machine, StackSpec};

/// Which kernel mounts a file system.
pub(crate) enum MountedBy {
    /// This machine's own.
    Host,
    /// A guest's.
    Guest(Kernel),
}

impl Stacks {
    /// Checks everything that can be checked before anything is made. `None` for a directory.
    pub(crate) fn checked(&self, spec: &StackSpec) -> Result<Option<(FileSystem, MountedBy)>, StackError> {
        let guest = self.kernel.clone().filter(|_| self.program.is_some());
        let machine = Machine::with_tools(&self.tools).with_guest(guest);
        if let Some(problem) = spec.check(&machine).into_iter().next() {
            return Err(problem.into());
        }
        if spec.device.is_some() {
            self.can_serve(spec)?;
        }
        let named = spec.place.filesystem().and_then(|name| machine.filesystem(name));
        let Some(filesystem) = named else { return Ok(None) };
        let unavailable = |(reason, remedy)| StackError::Unavailable {
            filesystem: spec.place.name().to_owned(),
            reason,
            remedy,
        };
        let here = || match (machine.missing(filesystem), &machine.no_loop) {
            (Some(missing), _) => Err(unavailable(missing)),
            (None, _) if !machine.root => {
                Err(StackError::NeedsRoot { filesystem: spec.place.name().to_owned() })
            }
            (None, Some(reason)) => Err(unavailable((reason.clone(), String::new()))),
            (None, None) => Ok(MountedBy::Host),
        };
        let place = match if spec.guest { Err(None) } else { here().map_err(Some) } {
            Ok(place) => place,
            Err(not_here) => match (machine.in_guest(filesystem), not_here) {
                (Ok(kernel), _) => MountedBy::Guest(kernel),
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

    /// Refuses an image that a stack or a loop device writes: a copy of it would be of no one
    /// moment.
    pub(crate) fn check_unused(&self, path: &Path) -> Result<(), StackError> {
        let refused = |problem: String| {
            let problem = format!("{}: {problem}", path.display());
            Err(StackError::Spec { field: "image", problem })
        };
        let about = path.metadata().map_err(StackError::io("read", path))?;
        let number = (about.dev(), about.ino());
        let is_it = |other: &Path| other.metadata().is_ok_and(|o| (o.dev(), o.ino()) == number);
        for home in entry::homes(&self.state) {
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
        let attached = loop_device::attached().into_iter();
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
                filesystem: format!("{} on a modelled device", spec.place.name()),
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
        if !is_root() {
            let distribution = Distribution::here();
            if ["fusermount3", "fusermount"].into_iter().all(|program| find_program(program).is_none()) {
                return missing(
                    "without root it is served with the help of fusermount3, which is not installed",
                    &distribution.brings(Package::FUSE),
                );
            }
            if let Err(error) = OpenOptions::new().read(true).write(true).open("/dev/fuse") {
                return missing(&format!("you may not open /dev/fuse ({error})"), "sudo chmod 666 /dev/fuse");
            }
        }
        if self.program.is_none() {
            return missing("modelled devices are served by the program `fathom`, which this is not", "");
        }
        Ok(())
    }
}
