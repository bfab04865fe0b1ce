//! Images that somebody gives.

use std::fs::File;
use std::path::Path;

use super::problem::Problem;
use crate::ground::content::{Content, content_of};

/// The file system that an image holds, as an experiment file names it.
///
/// # Errors
/// It cannot be read, or holds none that can be mounted: what it is, and the byte that tells it.
pub fn filesystem_in(path: &Path) -> Result<String, Problem> {
    match content(path) {
        Ok((content, _)) => Ok(content.names[0].to_owned()),
        Err(problem) => Err(Problem::new("image", problem, "")),
    }
}

/// Whether an image holds this file system.
///
/// # Errors
/// In words: it cannot be read, or holds none or another one.
pub(super) fn check_holds(path: &Path, filesystem: &str) -> Result<(), String> {
    let (content, _) = content(path)?;
    if content.names.contains(&filesystem) {
        return Ok(());
    }
    Err(wrong(path, &format!("it holds {}, not {filesystem}: name that", content.names.join(" or "))))
}

/// Size of an image, bytes.
///
/// # Errors
/// As [`filesystem_in`].
pub(crate) fn bytes_of(path: &Path) -> Result<u64, Problem> {
    content(path).map(|(_, bytes)| bytes).map_err(|problem| Problem::new("image", problem, ""))
}

fn wrong(path: &Path, problem: &str) -> String {
    format!("{}: {problem}", path.display())
}

/// What is in an image, and its size in bytes.
fn content(path: &Path) -> Result<(Content, u64), String> {
    // Looked at before it is opened: the other end of a pipe would be waited for.
    let kind = path.metadata().map_err(|error| wrong(path, &error.to_string()))?.file_type();
    if !kind.is_file() {
        return Err(wrong(path, "it is no file; copy what is to be measured:  dd if=DEVICE of=IMAGE bs=1M"));
    }
    let file = File::open(path).map_err(|error| wrong(path, &error.to_string()))?;
    let (content, bytes) = content_of(&file).map_err(|problem| wrong(path, &problem))?;
    if bytes % 512 != 0 {
        return Err(wrong(
            path,
            &format!("its {bytes} bytes are no multiple of a sector's 512: it was cut off"),
        ));
    }
    Ok((content, bytes))
}
