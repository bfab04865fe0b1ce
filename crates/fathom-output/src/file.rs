//! Writing an output: the rules are in the crate's documentation.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, BufWriter, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, OFlags, linkat};
use tempfile::NamedTempFile;

use crate::place::{parent, planted};
use crate::stream::Stream;
use crate::target::{self, Target};
use crate::temporary::{self, TemporaryPath};
use crate::{Access, OutputError, is_stdout_closed, precious};

/// What the hidden name of a new file begins with, where it has to have one.
const HIDDEN: &str = ".fathom-output-";

/// An output that is being written. A regular file has its name only when [`Output::finish`] has
/// ended it; dropped before, it leaves nothing, and what was there is as it was.
#[derive(Debug)]
pub struct Output {
    path: PathBuf,
    to: To,
}

#[derive(Debug)]
enum To {
    Stream(Stream),
    File { new: New, place: PathBuf, access: Access },
}

/// A file that is being written.
#[derive(Debug)]
enum New {
    /// Without a name, so that nothing stays of it however the program ends (`O_TMPFILE`).
    Nameless(File),
    /// With a hidden name, where the file system has no others. The second one is dropped last.
    Hidden(NamedTempFile, TemporaryPath),
}

impl New {
    fn create(directory: &Path, mode: u32) -> io::Result<New> {
        match nameless(directory, mode) {
            Ok(Some(file)) => return Ok(New::Nameless(file)),
            Ok(None) => {}
            Err(error) => return Err(in_directory(directory, &error)),
        }
        let hidden = || {
            tempfile::Builder::new()
                .prefix(HIDDEN)
                .permissions(Permissions::from_mode(mode))
                .tempfile_in(directory)
        };
        let made = temporary::hold(hidden, NamedTempFile::path);
        // Its reason alone: the user has not named the file that is named there.
        let (new, held) = made.map_err(|error| in_directory(directory, &error.kind().into()))?;
        Ok(New::Hidden(new, held))
    }

    fn file(&self) -> &File {
        match self {
            New::Nameless(file) => file,
            New::Hidden(file, _) => file.as_file(),
        }
    }

    /// Gives it its name, whatever file has that now.
    fn name(self, place: &Path) -> io::Result<()> {
        let file = match self {
            New::Hidden(new, _held) => return new.persist(place).map(drop).map_err(|error| error.error),
            New::Nameless(file) => file,
        };
        let from = name_of_open(&file);
        let link = |to: &Path| linkat(CWD, &from, CWD, to, AtFlags::SYMLINK_FOLLOW).map_err(io::Error::from);
        match link(place) {
            // A link never replaces a file, and a renaming does: so there is a second name for a
            // moment.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => temporary::uninterrupted(|| {
                let hidden = tempfile::Builder::new().prefix(HIDDEN).make_in(parent(place), link);
                let hidden = hidden.map_err(|error| in_directory(parent(place), &error.kind().into()))?;
                hidden.persist(place).map(drop).map_err(|error| error.error)
            }),
            other => other,
        }
    }
}

/// A file without a name; none where the file system has no such, or none could be named later.
/// What keeps any file from being made there is an error.
fn nameless(directory: &Path, mode: u32) -> io::Result<Option<File>> {
    let flags = OFlags::TMPFILE.bits().cast_signed();
    let made = OpenOptions::new().read(true).write(true).mode(mode).custom_flags(flags).open(directory);
    let file = match made {
        Ok(file) => file,
        Err(error) => {
            let is_of_all = [libc::EACCES, libc::EROFS, libc::ENOSPC, libc::EDQUOT];
            return match error.raw_os_error().is_some_and(|code| is_of_all.contains(&code)) {
                true => Err(error),
                false => Ok(None),
            };
        }
    };
    let named = fs::metadata(name_of_open(&file)).and_then(|named| Ok((named, file.metadata()?)));
    let is_found = named.is_ok_and(|(named, own)| (own.dev(), own.ino()) == (named.dev(), named.ino()));
    Ok(is_found.then_some(file))
}

/// Why no file can be made there; the user has named that place alone.
fn in_directory(directory: &Path, error: &io::Error) -> io::Error {
    let directory = crate::shown_path(directory);
    io::Error::new(error.kind(), format!("no file can be made in {directory}: {error}"))
}

/// The kernel's name of an open file.
fn name_of_open(file: &File) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

/// Says what is wrong with an output, before hours of work for it. `inputs` is everything that the
/// command reads: files, and directories with all files in them.
///
/// # Errors
/// What the name leads to must not be written to; it cannot be looked at.
pub fn check(path: &Path, inputs: &[&Path]) -> Result<(), OutputError> {
    check_access(path, inputs, Access::Public)
}

/// As [`check`], of an output that will be made with this access: what is private is a trace, and
/// may replace a trace.
///
/// # Errors
/// As [`check`].
pub fn check_access(path: &Path, inputs: &[&Path], access: Access) -> Result<(), OutputError> {
    Target::of(path, inputs, access).map(drop)
}

/// Says of a file that is to be written over where it lies that it cannot be made again: who allows
/// that means no week's results. What is no regular file is not looked into.
///
/// # Errors
/// It is one of those that no output replaces; it cannot be read.
pub fn check_overwritten(path: &Path) -> Result<(), OutputError> {
    let ways = target::ways(path).map_err(OutputError::io(path))?;
    if let Some(planted) = ways.iter().find_map(|at| planted(at)) {
        return Err(OutputError::refused(path, format!("{planted}: name another file")));
    }
    precious::spare(path, ways.last().map_or(path, PathBuf::as_path), Access::Public)
}

/// As [`check`], of a name that the user did not give: what makes it up is the command. What is
/// there already is replaced only if it is such an output itself, which `mark` in its first 4 KiB
/// shows; also behind a link.
///
/// # Errors
/// As [`check`]; there is something of that name, and it is not known to be ours.
pub fn check_unnamed(path: &Path, inputs: &[&Path], mark: &str) -> Result<(), OutputError> {
    check(path, inputs)?;
    let io = OutputError::io(path);
    match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(io(error)),
        Ok(_) => {}
    }
    // A device or a FIFO would be waited for, and nobody has asked for it.
    if fs::metadata(path).is_ok_and(|metadata| metadata.is_file()) {
        let mut head = Vec::with_capacity(MARK_WITHIN);
        File::open(path).and_then(|file| file.take(MARK_WITHIN as u64).read_to_end(&mut head)).map_err(io)?;
        if head.windows(mark.len()).any(|other| other == mark.as_bytes()) {
            return Ok(());
        }
    }
    Err(OutputError::refused(
        path,
        "would be written, and is there already and was not made by Fathom: move it away",
    ))
}

/// Where a mark is looked for, octets from the begin.
const MARK_WITHIN: usize = 4096;

/// Whether an output of this name goes to standard output: `-`, or what leads to it.
#[must_use]
pub fn is_standard_output(path: &Path) -> bool {
    target::is_standard_output(path)
}

/// Writes an output whole: what `fill` gives. `inputs` as in [`check`].
///
/// # Errors
/// As [`Output::create`] and [`Output::finish`]; what `fill` says. A regular file is then as it
/// was.
pub fn write<E: From<OutputError>>(
    path: &Path,
    inputs: &[&Path],
    access: Access,
    fill: impl FnOnce(&mut dyn Write) -> Result<(), E>,
) -> Result<(), E> {
    let noting = Noting { output: Output::create(path, inputs, access)?, refusal: None };
    let mut out = BufWriter::with_capacity(1 << 16, noting);
    if let Err(error) = fill(&mut out) {
        // What is left in the buffer goes: the output is not whole.
        let (noting, _) = out.into_parts();
        // Whoever fills it says what was done when the disk was full, and not which disk.
        return Err(noting.refusal.map_or(error, |refusal| OutputError::io(path)(refusal).into()));
    }
    let noting = out.into_inner().map_err(|error| OutputError::io(path)(error.into_error()))?;
    Ok(noting.output.finish()?)
}

/// An output that keeps why it could not be written.
struct Noting {
    output: Output,
    refusal: Option<io::Error>,
}

impl Noting {
    fn noted<T>(&mut self, done: io::Result<T>) -> io::Result<T> {
        done.inspect_err(|error| {
            let same = || match error.raw_os_error() {
                Some(code) => io::Error::from_raw_os_error(code),
                None => io::Error::new(error.kind(), error.to_string()),
            };
            // After that it is tried again.
            if error.kind() != io::ErrorKind::Interrupted {
                self.refusal = Some(same());
            }
        })
    }
}

impl Write for Noting {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let done = self.output.write(bytes);
        self.noted(done)
    }

    fn flush(&mut self) -> io::Result<()> {
        let done = self.output.flush();
        self.noted(done)
    }
}

impl Output {
    /// Begins an output. `inputs` as in [`check`].
    ///
    /// # Errors
    /// What the name leads to must not be written to; the directory cannot be written.
    pub fn create(path: &Path, inputs: &[&Path], access: Access) -> Result<Output, OutputError> {
        let io = OutputError::io(path);
        let to = match Target::of(path, inputs, access)? {
            Target::Stdout if is_stdout_closed() => return Err(io(crate::print::closed())),
            Target::Stdout => {
                let own = io::stdout().as_fd().try_clone_to_owned().map_err(io)?;
                To::Stream(Stream::of(own.into()))
            }
            Target::Stream(path) => To::Stream(Stream::open(&path)?),
            Target::File(place) => {
                // The umask takes its share, as of every file that is made.
                let mode = if access == Access::Private { 0o600 } else { 0o666 };
                let new = New::create(parent(&place), mode).map_err(io)?;
                To::File { new, place, access }
            }
        };
        Ok(Output { path: path.to_owned(), to })
    }

    /// Brings a regular file to the device and gives it its name.
    ///
    /// # Errors
    /// A full disk; the name leads to something else than it did at the begin. What was there is as
    /// it was.
    pub fn finish(self) -> Result<(), OutputError> {
        let io = OutputError::io(&self.path);
        let (new, place, access) = match self.to {
            To::Stream(mut file) => return file.flush().map_err(io),
            To::File { new, place, access } => (new, place, access),
        };
        // Hours may have gone by since it was looked at first.
        if let Some(planted) = planted(&place) {
            return Err(OutputError::refused(&self.path, format!("{planted}, and was not there before")));
        }
        match fs::symlink_metadata(&place) {
            Ok(old) if !old.is_file() => {
                return Err(OutputError::refused(&self.path, "became something else than a file meanwhile"));
            }
            Ok(old) => like(new.file(), &old, access).map_err(&io)?,
            // There is none yet, or what is wrong is told by the renaming.
            Err(_) => {}
        }
        precious::spare(&self.path, &place, access)?;
        new.file().sync_all().map_err(&io)?;
        new.name(&place).map_err(&io)?;
        // Some file systems cannot sync a directory; the name is there all the same.
        let _ = File::open(parent(&place)).and_then(|directory| directory.sync_all());
        Ok(())
    }
}

/// Mode and owner as the old file had them. Only root may give a file away: for others the new one
/// is theirs.
fn like(new: &File, old: &fs::Metadata, access: Access) -> io::Result<()> {
    let made = new.metadata()?;
    if (made.uid(), made.gid()) != (old.uid(), old.gid()) {
        let _ = fchown(new, Some(old.uid()), Some(old.gid()));
    }
    match access {
        // Permissions only: set-user-ID and the like are of the program that was there.
        Access::Public | Access::Excerpt => new.set_permissions(Permissions::from_mode(old.mode() & 0o777)),
        Access::Private => Ok(()),
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.to {
            To::Stream(file) => file.write(bytes),
            To::File { new, .. } => new.file().write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.to {
            To::Stream(file) => file.flush(),
            To::File { new, .. } => new.file().flush(),
        }
    }
}
