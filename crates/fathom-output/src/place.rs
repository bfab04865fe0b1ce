//! Where a file lies, and who may have put it there.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// The directory that a file lies in.
pub(crate) fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Others may make files in a directory of this mode, as in /tmp.
const EVERYBODYS: u32 = 0o002;

/// Whether a name was put by another user into a directory where everybody may, as /tmp is: a file
/// in which ours would be theirs to read and to change, a FIFO that they read, a link that leads
/// where they want. None but root, this user and the directory's owner is trusted with that, as by
/// the kernel with `fs.protected_symlinks` (and `_regular`, `_fifos`), which are not on everywhere
/// and say nothing of a file that is replaced. In words, what it is.
///
/// Of the directories on the way only links are looked at: who names a directory of another user's
/// writes into that.
pub(crate) fn planted(path: &Path) -> Option<String> {
    path.ancestors().find_map(|at| {
        let entry = fs::symlink_metadata(at).ok()?;
        let is_link = entry.is_symlink();
        if at != path && !is_link {
            return None;
        }
        let directory = fs::metadata(parent(at)).ok()?;
        if !is_of_a_stranger(&entry, &directory) {
            return None;
        }
        let what = if is_link { "a link" } else { "a file" };
        let shown = crate::shown_path(at);
        Some(format!(
            "{shown} is {what} of another user's (id {}) where everybody may make files",
            entry.uid()
        ))
    })
}

fn is_of_a_stranger(entry: &Metadata, directory: &Metadata) -> bool {
    let trusted = [0, rustix::process::geteuid().as_raw(), directory.uid()];
    directory.mode() & EVERYBODYS != 0 && !trusted.contains(&entry.uid())
}
