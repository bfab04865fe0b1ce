//! Images that somebody gives, and the file that an image is to stay in.

use std::fs::File;
use std::path::Path;

use crate::content::{Content, content_of};
use crate::error::StackError;
use crate::spec::StackSpec;

/// The file system that an image holds, as [`StackSpec::filesystem`] names it.
///
/// # Errors
/// It cannot be read, or holds none that can be mounted: what it is, and the byte that tells it.
pub fn filesystem_in(path: &Path) -> Result<String, StackError> {
    looked_into(path).map(|(content, _)| content.names[0].to_owned()).map_err(refused)
}

/// Whether an image holds this file system, as [`StackSpec::filesystem`] names it.
///
/// # Errors
/// As [`filesystem_in`], or it holds another one.
pub fn holds(path: &Path, filesystem: &str) -> Result<(), StackError> {
    judged(path, filesystem).map_err(refused)
}

/// As [`holds`], in words.
pub(crate) fn judged(path: &Path, filesystem: &str) -> Result<(), String> {
    let (content, _) = looked_into(path)?;
    if content.names.contains(&filesystem) {
        return Ok(());
    }
    Err(wrong(path, &format!("it holds {}, not {filesystem}: name that", content.names.join(" or "))))
}

fn wrong(path: &Path, problem: &str) -> String {
    format!("{}: {problem}", path.display())
}

fn refused(problem: String) -> StackError {
    StackError::Spec { field: "image", problem }
}

/// What is in it, and its size in bytes.
fn looked_into(path: &Path) -> Result<(Content, u64), String> {
    // Asked before it is opened: the other end of a pipe would be waited for.
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

/// The specification with what a given image says: its size, and that it is what is to be mounted.
pub(crate) fn taken_over(spec: &StackSpec, named: bool) -> Result<StackSpec, StackError> {
    let refused = |field, problem: String| Err(StackError::Spec { field, problem });
    let mut spec = spec.clone();
    if let Some(path) = &spec.keep {
        if !named {
            return refused(
                "keep",
                "only what `fathom stack up` brings up is kept; each run has an image of its own".into(),
            );
        }
        if spec.filesystem == "dir" {
            return refused("keep", "a directory has no image: name a file system".into());
        }
        if spec.log_mib.is_some() {
            let problem = "the external log would go with the stack, and without it the image is of no use: leave out `log_mib`";
            return refused("keep", problem.into());
        }
        if path.symlink_metadata().is_ok() {
            let problem = format!("{} exists, and would be overwritten: name another file", path.display());
            return refused("keep", problem);
        }
    }
    let Some(path) = &spec.image else { return Ok(spec) };
    let (_, bytes) = looked_into(path).map_err(|problem| StackError::Spec { field: "image", problem })?;
    spec.size_mib = bytes.div_ceil(1 << 20);
    Ok(spec)
}
