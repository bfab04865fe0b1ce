//! Files in which the kernel tells something of the machine, a word each.

use std::path::{Path, PathBuf};

/// What such a file says; none where it is not there, or empty.
pub(super) fn text(path: impl AsRef<Path>) -> Option<String> {
    std::fs::read_to_string(path).ok().map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
}

/// What is in a directory, in the order of the names.
pub(super) fn entries(directory: &Path) -> Vec<PathBuf> {
    let mut all: Vec<PathBuf> =
        std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    all.sort();
    all
}

/// Makes such a file, with the directories that lead to it.
#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "for tests")]
pub(super) fn put(root: &Path, path: &str, content: &str) {
    let path = root.join(path);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, content).unwrap();
}
