//! Writing an output: the rules are in the crate's documentation.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, BufWriter, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::OutputError;
use crate::target::{self, Target, parent};

/// Who may read a file that is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// As the umask says; a file that is replaced keeps its mode.
    Public,
    /// The user alone: traces hold what the users of an application wrote. So also where a file is replaced that others could read.
    Private,
}

/// An output that is being written. A regular file has its name only when [`Output::finish`] has ended it; dropped before, it leaves
/// nothing, and what was there is as it was.
#[derive(Debug)]
pub struct Output {
    path: PathBuf,
    to: To,
}

#[derive(Debug)]
enum To {
    Stream(File),
    File { new: NamedTempFile, place: PathBuf, access: Access },
}

/// Says what is wrong with an output, before hours of work for it. `inputs` is everything that the command reads: files, and
/// directories with all files in them.
///
/// # Errors
/// What the name leads to must not be written to; it cannot be looked at.
pub fn check(path: &Path, inputs: &[&Path]) -> Result<(), OutputError> {
    Target::of(path, inputs).map(drop)
}

/// Whether an output of this name goes to standard output: `-`, or what leads to it.
#[must_use]
pub fn is_standard_output(path: &Path) -> bool {
    target::is_standard_output(path)
}

/// Writes an output whole: what `fill` gives. `inputs` as in [`check`].
///
/// # Errors
/// As [`Output::create`] and [`Output::finish`]; what `fill` says. A regular file is then as it was.
pub fn write<E: From<OutputError>>(
    path: &Path,
    inputs: &[&Path],
    access: Access,
    fill: impl FnOnce(&mut dyn Write) -> Result<(), E>,
) -> Result<(), E> {
    let mut out = BufWriter::with_capacity(1 << 16, Output::create(path, inputs, access)?);
    fill(&mut out)?;
    let out = out.into_inner().map_err(|error| OutputError::io(path)(error.into_error()))?;
    Ok(out.finish()?)
}

impl Output {
    /// Begins an output. `inputs` as in [`check`].
    ///
    /// # Errors
    /// What the name leads to must not be written to; the directory cannot be written.
    pub fn create(path: &Path, inputs: &[&Path], access: Access) -> Result<Output, OutputError> {
        let io = OutputError::io(path);
        let to = match Target::of(path, inputs)? {
            Target::Stdout => To::Stream(io::stdout().as_fd().try_clone_to_owned().map_err(io)?.into()),
            Target::Stream(path) => {
                let file = OpenOptions::new().write(true).open(&path).map_err(&io)?;
                let kind = file.metadata().map_err(&io)?.file_type();
                if !kind.is_char_device() && !kind.is_fifo() {
                    return Err(OutputError::refused(&path, "became another file meanwhile"));
                }
                To::Stream(file)
            }
            Target::File(place) => {
                // The umask takes its share, as of every file that is made.
                let mode = if access == Access::Private { 0o600 } else { 0o666 };
                let new = tempfile::Builder::new()
                    .prefix(".fathom-output-")
                    .permissions(Permissions::from_mode(mode))
                    .tempfile_in(parent(&place))
                    .map_err(io)?;
                To::File { new, place, access }
            }
        };
        Ok(Output { path: path.to_owned(), to })
    }

    /// Brings a regular file to the device and gives it its name.
    ///
    /// # Errors
    /// A full disk; the name leads to something else than it did at the begin. What was there is as it was.
    pub fn finish(self) -> Result<(), OutputError> {
        let io = OutputError::io(&self.path);
        let (new, place, access) = match self.to {
            To::Stream(mut file) => return file.flush().map_err(io),
            To::File { new, place, access } => (new, place, access),
        };
        match fs::symlink_metadata(&place) {
            Ok(old) if !old.is_file() => {
                return Err(OutputError::refused(&self.path, "became something else than a file meanwhile"));
            }
            Ok(old) => like(new.as_file(), &old, access).map_err(&io)?,
            // There is none yet, or what is wrong is told by the renaming.
            Err(_) => {}
        }
        new.as_file().sync_all().map_err(&io)?;
        new.persist(&place).map_err(|error| io(error.error))?;
        // Some file systems cannot sync a directory; the name is there all the same.
        let _ = File::open(parent(&place)).and_then(|directory| directory.sync_all());
        Ok(())
    }
}

/// Mode and owner as the old file had them. Only root may give a file away: for others the new one is theirs.
fn like(new: &File, old: &fs::Metadata, access: Access) -> io::Result<()> {
    let made = new.metadata()?;
    if (made.uid(), made.gid()) != (old.uid(), old.gid()) {
        let _ = fchown(new, Some(old.uid()), Some(old.gid()));
    }
    match access {
        // Permissions only: set-user-ID and the like are of the program that was there.
        Access::Public => new.set_permissions(Permissions::from_mode(old.mode() & 0o777)),
        Access::Private => Ok(()),
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.to {
            To::Stream(file) => file.write(bytes),
            To::File { new, .. } => new.as_file_mut().write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.to {
            To::Stream(file) => file.flush(),
            To::File { new, .. } => new.as_file_mut().flush(),
        }
    }
}
