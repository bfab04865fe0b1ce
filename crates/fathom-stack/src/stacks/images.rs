//! The images of a stack: in a file that stays or without a name, empty or a copy.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

use super::config::Stacks;
use super::entry::{Entry, image_name};
use super::error::{SMALLER_IMAGE, StackError};
use crate::ground::image::Image;
use crate::spec::FileSystem;

impl Stacks {
    /// The image of the file system (`.img`) or of its external log: in a file that is to stay, or
    /// without a name; empty, or a copy of the image that was given.
    pub(crate) fn image(&self, entry: &Entry, end: &str, mib: u64) -> Result<Image, StackError> {
        let (source, kept) = match end {
            ".img" => (entry.spec.image.as_deref(), entry.spec.keep.as_deref()),
            _ => (None, None),
        };
        let source = source.map(|path| File::open(path).map_err(StackError::io("read", path))).transpose()?;
        let bytes = match &source {
            Some(file) => file.metadata().map_err(StackError::io("read", &entry.directory))?.len(),
            None => mib << 20,
        };
        let place = kept.and_then(Path::parent).unwrap_or(&entry.directory);
        let made = match kept {
            Some(path) => OpenOptions::new()
                .read(true)
                .write(true)
                .open(path)
                .and_then(|file| Image::lay_out(file, bytes, self.allocate)),
            None => Image::create(&entry.directory, &image_name(&entry.tag, end), bytes, self.allocate),
        };
        let mut image = made.map_err(|error| refused(place, true, error))?;
        if let Some(from) = &source {
            image.fill(from).map_err(|error| refused(place, true, error))?;
        }
        Ok(image)
    }

    pub(crate) fn check_space(&self, entry: &Entry, filesystem: &FileSystem) -> Result<(), StackError> {
        let spec = &entry.spec;
        let needed_bytes = (spec.size_mib + spec.log_mib.unwrap_or(0)) << 20;
        let free_bytes = free_bytes(&entry.directory)
            .map_err(StackError::io("ask for the free space of", &entry.directory))?;
        if self.allocate && needed_bytes > free_bytes {
            return Err(StackError::NoSpace {
                path: entry.directory.clone(),
                needed_bytes,
                free_bytes,
                filesystem: filesystem.name.to_string(),
                min_mib: filesystem.min_mib,
            });
        }
        Ok(())
    }
}

/// How much an unprivileged program may still write into a directory.
///
/// # Errors
/// The system cannot say it.
pub fn free_bytes(directory: &Path) -> io::Result<u64> {
    let space = rustix::fs::statvfs(directory)?;
    Ok(space.f_bavail.saturating_mul(space.f_frsize))
}

/// Why a directory does not take our file, which may be an image, and what to do.
pub(crate) fn refused(directory: &Path, has_image: bool, error: io::Error) -> StackError {
    let problem = match error.raw_os_error() {
        Some(libc::EROFS) => {
            "is on a file system that is mounted read-only; give another directory".to_owned()
        }
        Some(libc::EACCES | libc::EPERM) => "you may not write here; give a directory of your own".to_owned(),
        Some(libc::ENOSPC | libc::EDQUOT) => {
            return StackError::Full { path: directory.to_path_buf(), has_image };
        }
        Some(libc::EFBIG) => {
            format!("its file system cannot hold a file of that size; give another directory{SMALLER_IMAGE}")
        }
        _ => error.to_string(),
    };
    StackError::Directory { path: directory.to_path_buf(), problem }
}
