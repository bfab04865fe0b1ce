//! Where recordings are made, and what that must have.

use std::path::Path;

use fathom_lab::schedule::Interrupt;
use fathom_output::shown_path;

use crate::outcome::Error;

/// Where recordings are made, and for whom.
#[derive(Debug)]
pub struct Place<'a> {
    /// Where the stacks are made.
    pub directory: &'a Path,
    /// The command that is carried out, for the record.
    pub command: &'a str,
    /// The user's wish to stop.
    pub interrupt: &'a Interrupt,
}

/// The image that is recorded on, MiB.
pub(super) const IMAGE_MIB: u64 = 1024;

/// Refuses a directory that has no space for one image to record on, and says how many of `wanted`
/// it has space for. Where that cannot be asked, whoever makes them finds out.
///
/// # Errors
/// It has no space for one.
pub fn images_that_fit(directory: &Path, wanted: usize) -> Result<usize, Error> {
    let Ok(free_bytes) = fathom_stack::free_bytes(directory) else { return Ok(wanted) };
    let free_mib = free_bytes >> 20;
    if free_mib < IMAGE_MIB {
        return Err(Error::failed(format!(
            "--dir {}: {free_mib} MiB are free there, and the image that is recorded on takes {IMAGE_MIB} MiB: free some space, \
             or name a directory on a larger disk with --dir",
            shown_path(directory)
        )));
    }
    Ok(wanted.min(usize::try_from(free_mib / IMAGE_MIB).unwrap_or(wanted)))
}

/// Why this machine cannot model a device, and what would bring that; none where it can.
pub fn why_not_here() -> Option<String> {
    if !fathom_ground::system::is_root() {
        return Some("Recording for other devices needs root: give the command with sudo".into());
    }
    let fuse = Path::new("/dev/fuse");
    (!fuse.exists()).then(|| "Recording for other devices needs /dev/fuse: `modprobe fuse`".into())
}

/// Whether this machine can record: a modelled device under a file system takes root.
///
/// # Errors
/// What is missing, and what there is to do.
pub fn check_machine(command: &str) -> Result<(), Error> {
    if fathom_ground::system::is_root() {
        return Ok(());
    }
    Err(Error::failed(format!(
        "{command} records on a modelled device with a file system on it, and mounting one needs root; a directory (`dir`) \
         cannot have a modelled device. Run it with sudo, or record where you are root \
         (`--out RECORDED.db`) and simulate here: `fathom simulate RECORDED.db`"
    )))
}
