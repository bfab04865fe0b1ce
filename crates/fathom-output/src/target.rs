//! What a name leads to, and whether it may be written to.

use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::place::{parent, planted};
use crate::precious::{companion_of, spare};
use crate::{Access, OutputError};

/// What a name leads to.
#[derive(Debug)]
pub(crate) enum Target {
    /// Standard output.
    Stdout,
    /// Something that is written to as it is: a character device, a FIFO.
    Stream(PathBuf),
    /// A regular file, or none yet: the place at the end of all links.
    File(PathBuf),
}

/// As many links are followed as the kernel follows.
const LINKS: usize = 40;

impl Target {
    /// Looks at what `path` leads to; nothing is opened for writing.
    pub(crate) fn of(path: &Path, inputs: &[&Path], access: Access) -> Result<Target, OutputError> {
        let refused = |problem: String| Err(OutputError::refused(path, problem));
        let bytes = path.as_os_str().as_bytes();
        if bytes == b"-" {
            return Ok(Target::Stdout);
        }
        if bytes.is_empty() {
            return refused("names no file".into());
        }
        let found = match fs::metadata(path) {
            Ok(found) => Some(found),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(source) => return Err(OutputError::Io { path: path.to_owned(), source }),
        };
        if bytes.ends_with(b"/") || path.file_name().is_none() || found.as_ref().is_some_and(Metadata::is_dir)
        {
            return refused("a directory; name a file in it".into());
        }
        let mut ways = ways(path).map_err(OutputError::io(path))?;
        if let Some(planted) = ways.iter().find_map(|at| planted(at)) {
            return refused(format!("{planted}, and what is written would be theirs: name another file"));
        }
        if let Some(found) = &found {
            if let Some(input) = inputs.iter().find(|input| is_of(input, found)) {
                let which = if *input == path { String::new() } else { format!(" ({})", input.display()) };
                return refused(format!(
                    "is the input itself{which}, which would be replaced while it is read: name another file"
                ));
            }
            let kind = found.file_type();
            if kind.is_char_device() || kind.is_fifo() {
                return Ok(Target::Stream(path.to_owned()));
            }
            if kind.is_block_device() {
                return refused("a block device, and what is on it would be overwritten: name a file".into());
            }
            if !kind.is_file() {
                return refused("no regular file: name another one".into());
            }
        }
        let place = ways.pop().unwrap_or_default();
        spare(path, &place, access)?;
        if let Some(found) = &found {
            if is_stdout(found) {
                return Ok(Target::Stdout);
            }
            // A link of /proc leads to an open file, which may have no name any more.
            if !fs::metadata(&place).is_ok_and(|metadata| same(&metadata, found)) {
                return refused("leads to a file that has no name any more: name another one".into());
            }
        }
        match parent(&place) {
            directory if directory.is_dir() => Ok(Target::File(place)),
            directory => refused(format!("there is no directory {}", directory.display())),
        }
    }
}

fn same(a: &Metadata, b: &Metadata) -> bool {
    (a.dev(), a.ino()) == (b.dev(), b.ino())
}

/// Whether `found` is this input, or lies in it where it is a directory.
fn is_of(input: &Path, found: &Metadata) -> bool {
    let Ok(metadata) = fs::metadata(input) else { return false };
    if !metadata.is_dir() {
        return same(&metadata, found);
    }
    let files = fs::read_dir(input).into_iter().flatten().flatten();
    files.filter_map(|file| fs::metadata(file.path()).ok()).any(|file| same(&file, found))
}

/// Whether standard output leads to it already: `> file --out /dev/stdout`, or the same name twice.
fn is_stdout(found: &Metadata) -> bool {
    let own = io::stdout().as_fd().try_clone_to_owned().map(File::from);
    own.and_then(|own| own.metadata()).is_ok_and(|own| same(&own, found))
}

/// Whether an output of this name goes to standard output.
pub(crate) fn is_standard_output(path: &Path) -> bool {
    path.as_os_str() == "-" || fs::metadata(path).is_ok_and(|found| !found.is_dir() && is_stdout(&found))
}

/// The name at the end of all links, whether there is something of that name or not.
fn followed(path: &Path) -> io::Result<PathBuf> {
    Ok(ways(path)?.pop().unwrap_or_default())
}

/// A name, and the names that it leads to by links, the last of which is none.
pub(crate) fn ways(path: &Path) -> io::Result<Vec<PathBuf>> {
    let mut at = path.to_owned();
    let mut ways = Vec::new();
    for _ in 0..LINKS {
        let next = fs::read_link(&at).map(|to| parent(&at).join(to));
        ways.push(at);
        match next {
            Ok(next) => at = next,
            // No link: `metadata` has told already what else there may be to say.
            Err(_) => return Ok(ways),
        }
    }
    Err(io::Error::other("too many levels of symbolic links"))
}

/// The file that a name leads to, told whether it is there or not: by its directory and its name in
/// there. None of what is no file's name.
fn place(path: &Path) -> Option<(u64, u64, OsString)> {
    let place = followed(path).ok()?;
    let directory = fs::metadata(parent(&place)).ok()?;
    Some((directory.dev(), directory.ino(), place.file_name()?.to_owned()))
}

/// Whether two names lead to the same file, or one of them to what SQLite takes for a part of the
/// other; devices and FIFOs may be written to twice.
#[must_use]
pub fn is_same_file(one: &Path, other: &Path) -> bool {
    if let (Ok(one), Ok(other)) = (fs::metadata(one), fs::metadata(other))
        && same(&one, &other)
    {
        return one.is_file();
    }
    let (Some(one), Some(other)) = (place(one), place(other)) else { return false };
    let is_part = |part: &OsString, whole: &OsString| companion_of(Path::new(part)) == Some(Path::new(whole));
    (one.0, one.1) == (other.0, other.1)
        && (one.2 == other.2 || is_part(&one.2, &other.2) || is_part(&other.2, &one.2))
}
