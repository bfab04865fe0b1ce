//! FUSE mounts of this user, taken away: by root itself, else with the help of fusermount.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use crate::command::{CommandError, CommandLine, Output, find_program};
use crate::system::is_root;

/// How long fusermount may take.
const LIMIT: Duration = Duration::from_secs(20);

/// `fusermount -u` with `more` options, for a mount that this user has made without root.
///
/// # Errors
/// It is not installed, or what it said.
pub fn fusermount(at: &Path, more: &[&str]) -> Result<Output, CommandError> {
    let program = ["fusermount3", "fusermount"].into_iter().find_map(find_program);
    let mut words: Vec<&OsStr> = vec!["-u".as_ref()];
    words.extend(more.iter().map(OsStr::new));
    words.extend(["--".as_ref(), at.as_os_str()]);
    CommandLine::new(program.unwrap_or_else(|| "fusermount3".into()), words).run(LIMIT)
}

/// Takes a FUSE mount of this user's away; whether it is gone.
#[must_use]
pub fn unmount(at: &Path) -> bool {
    if is_root() {
        return rustix::mount::unmount(at, rustix::mount::UnmountFlags::empty()).is_ok();
    }
    fusermount(at, &[]).is_ok()
}
