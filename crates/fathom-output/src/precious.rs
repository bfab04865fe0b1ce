//! Files that cannot be made again, told by what they begin with: no output replaces one.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::place::parent;
use crate::{Access, OutputError};

/// The first bytes of an SQLite database, and where in its header the application's number is,
/// big-endian (<https://www.sqlite.org/fileformat2.html>).
const SQLITE: &[u8] = b"SQLite format 3\0";
const APPLICATION_AT: usize = 68;
/// The application's number of Fathom's results.
const RESULTS: &[u8] = b"FATM";
/// Ends of the names under which SQLite keeps what belongs to a database.
const COMPANIONS: [&str; 3] = ["-wal", "-shm", "-journal"];

/// What traces begin with. An output that is a trace itself may replace one: whether that was a
/// capture only its reader knows.
const TRACES: [(&[u8], &str); 2] =
    [(b"\x89FTRACE\n", "a trace"), (b"fathom-file-calls ", "a recording of file calls")];

/// What an excerpt of results begins with, as whatever is compressed by Zstandard (RFC 8878). An
/// output that is an excerpt itself may replace one.
const EXCERPT: &[u8] = b"\x28\xb5\x2f\xfd";

/// What else was recorded and cannot be recorded again, and what databases of `mmdb` begin with.
const RECORDED: [(&[u8], &str); 9] = [
    (b"FSPOOL1\n", "a spool of `fathom trace capture`"),
    (b"FATHDEV1", "a log of a device's operations"),
    (b"FATHDEV2", "a log of a device's operations"),
    (b"MMDBMAN1", "the manifest of an mmdb database"),
    (b"MMDBSEG0", "a part of an mmdb database"),
    (b"MMDBSEG1", "a part of an mmdb database"),
    (b"MMDBSTR1", "a part of an mmdb database"),
    (b"MMDBFRM1", "a part of an mmdb database"),
    (b"MMDBPOS1", "a part of an mmdb database"),
];

/// The file by which all of an mmdb database is found, and what it begins with.
const MANIFEST: (&str, &[u8]) = ("MANIFEST", b"MMDBMAN1");

/// The file that says what recordings of power cuts are of, and a word that it has near its begin.
const CUTS: (&str, &[u8]) = ("cut.json", b"\"cells\"");

/// Octets of a file that are looked at.
const HEAD: u64 = 100;

/// Whether SQLite takes a file of this name for a part of a database: it is deleted or overwritten
/// when that is opened, and it does not matter whether the database is there yet.
#[must_use]
pub fn is_journal(path: &Path) -> bool {
    companion_of(path).is_some()
}

/// The database that SQLite would take a file of this name for a part of.
pub(crate) fn companion_of(path: &Path) -> Option<&Path> {
    let name = path.as_os_str().as_bytes();
    let base = COMPANIONS.iter().find_map(|end| name.strip_suffix(end.as_bytes()))?;
    Some(Path::new(OsStr::from_bytes(base)))
}

/// Refuses to write in the place of what cannot be made again. `path` is how the user calls it, and
/// `place` where that leads to, whether there is something or not.
pub(crate) fn spare(path: &Path, place: &Path, access: Access) -> Result<(), OutputError> {
    if let Some(what) = held(place, access).map_err(OutputError::io(path))? {
        let problem = format!("{what}, which would be replaced: name another file");
        return Err(OutputError::refused(path, problem));
    }
    match companion_of(place).filter(|base| head(base).is_ok_and(|head| head.starts_with(SQLITE))) {
        None => Ok(()),
        Some(base) => {
            let problem = format!("SQLite takes it for a part of {}: name another file", base.display());
            Err(OutputError::refused(path, problem))
        }
    }
}

/// What lies there that must stay, in words.
fn held(place: &Path, access: Access) -> io::Result<Option<String>> {
    let head = match head(place) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
        Ok(head) => head,
    };
    if head.starts_with(SQLITE) {
        let is_ours = head.get(APPLICATION_AT..APPLICATION_AT + RESULTS.len()) == Some(RESULTS);
        return Ok(Some(if is_ours { "holds results of Fathom" } else { "an SQLite database" }.to_owned()));
    }
    let of = |kinds: &[(&[u8], &str)]| {
        kinds.iter().find(|(magic, _)| head.starts_with(magic)).map(|(_, what)| format!("is {what}"))
    };
    if let Some(what) = of(&RECORDED) {
        return Ok(Some(what));
    }
    if access != Access::Private
        && let Some(what) = of(&TRACES)
    {
        return Ok(Some(what));
    }
    if access != Access::Excerpt && head.starts_with(EXCERPT) {
        return Ok(Some("is an excerpt of results, or something else that is compressed".to_owned()));
    }
    if place.file_name() == Some(OsStr::new(CUTS.0)) && head.windows(CUTS.1.len()).any(|at| at == CUTS.1) {
        return Ok(Some("says what these recordings of power cuts are of".to_owned()));
    }
    let directory = parent(place);
    if self::head(&directory.join(MANIFEST.0)).is_ok_and(|head| head.starts_with(MANIFEST.1)) {
        return Ok(Some(format!("is a part of the mmdb database {}", directory.display())));
    }
    Ok(None)
}

/// A regular file's first octets; none of anything else, which is not opened: the other end of a
/// FIFO would be waited for.
fn head(path: &Path) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    if fs::metadata(path)?.is_file() {
        File::open(path)?.take(HEAD).read_to_end(&mut head)?;
    }
    Ok(head)
}
