//! Files that a run on another machine needs: pushed once, and known again by their content.
//!
//! A file lies there as `files/SHA-256/NAME`, written beside its place and renamed once all of it
//! has come: whoever finds it finds it whole.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use fathom_ground::command::shell_line;
use sha2::{Digest, Sha256};

use super::shell::{self, BEAT};
use super::target::Target;
use crate::schedule::Interrupt;

/// Says that a file has arrived.
const STORED: &str = "FATHOM-STORED";

/// A file here, by its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Content {
    /// SHA-256 in hexadecimal digits.
    pub hash: String,
    /// Octets.
    pub bytes: u64,
}

impl Content {
    /// Reads a file.
    ///
    /// # Errors
    /// What the system said.
    pub fn of(path: &Path) -> io::Result<Content> {
        let mut file = File::open(path)?;
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is no file"));
        }
        let mut hasher = Sha256::new();
        let mut buffer = vec![0; 1 << 18];
        let mut bytes = 0;
        loop {
            let read = file.read(&mut buffer)?;
            if read == 0 {
                break;
            }
            hasher.update(buffer.get(..read).unwrap_or_default());
            bytes += read as u64;
        }
        let digits = hasher.finalize().iter().map(|octet| format!("{octet:02x}")).collect();
        Ok(Content { hash: digits, bytes })
    }

    /// Where it lies there, below the machine's base.
    pub fn place(&self, name: &str) -> String {
        format!("files/{}/{name}", self.hash)
    }
}

/// The SHA-256 of a file here, in hexadecimal digits.
///
/// # Errors
/// What the system said.
pub fn file_hash(path: &Path) -> io::Result<String> {
    Content::of(path).map(|content| content.hash)
}

/// The name of a file there: what of its own can stand in any path without being quoted.
pub(super) fn plain_name(path: &Path) -> String {
    let own = path.file_name().unwrap_or_default().to_string_lossy();
    let plain: String = own
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '_' })
        .skip_while(|c| "._-".contains(*c))
        .take(100)
        .collect();
    if plain.is_empty() { "file".to_owned() } else { plain }
}

/// Takes away what a machine that lost its power, or a shell that was killed, has left of a file
/// that was on its way: nothing has been written to it for a day. Machines may share their homes,
/// and each sees its own processes alone; no clock is a day ahead. What has not both names, the
/// directory that of a content and the file that of a process, is somebody else's.
const ABANDONED: &str = "for part in files/*/.part.*; do of=${part#files/}; of=${of%/*}; \
     process=${part##*/.part.}; process=${process%%.*}; \
     case $process in \"\"|*[!0-9]*) continue;; esac; case $of in *[!0-9a-f]*) continue;; esac; \
     [ ${#of} -eq 64 ] && [ -n \"$(find \"$part\" -mtime +0 2>/dev/null)\" ] && rm -f \"$part\"; done; ";

/// Names the part, by a number that no other machine has: processes of two have the same numbers.
const PART: &str =
    "{ own=$(cat /proc/sys/kernel/random/uuid) || own=$(uname -n); } 2>/dev/null; part=.part.$$.$own; ";

/// What takes a file in there, as `name` by its content.
fn script(name: &str, content: &Content) -> String {
    let place = shell_line([content.place(name)]);
    let Content { hash, bytes } = content;
    // Whatever ends it early takes the beginning of the file with it; dash runs its trap of EXIT at
    // no signal that it has no trap of. Not every phone has a sha256sum. A power cut after it
    // leaves the file whole or not there, so it is on the disk before it has its name. What another
    // push has laid there meanwhile may run by now, on a machine with the same disk as well.
    format!(
        "{BEAT}trap 'kill $beat 2>/dev/null' EXIT; trap 'exit 1' HUP INT TERM; cd \"$base\" || exit 1; \
         {ABANDONED}{PART}mkdir -p files/{hash} && \
         if [ ! -O files/{hash} ]; then echo \"$base/files/{hash} belongs to another user\" >&2; exit 1; fi && \
         part=files/{hash}/$part && trap 'kill $beat 2>/dev/null; rm -f \"$part\"' EXIT && \
         cat > \"$part\" && if [ \"$(wc -c < \"$part\")\" -ne {bytes} ]; then echo 'it has not come whole' >&2; exit 1; fi && \
         if command -v sha256sum >/dev/null; then sum=$(sha256sum \"$part\"); case $sum in {hash}*) ;; \
         *) echo 'it has changed on its way' >&2; exit 1;; esac; fi && \
         if [ -O {place} ] && [ -x {place} ] && [ \"$(wc -c < {place})\" -eq {bytes} ]; then :; \
         else chmod 700 \"$part\" && sync && mv -f \"$part\" {place}; fi && echo {STORED}"
    )
}

/// Writes a file to the machine, as `name` by its content.
///
/// # Errors
/// In words: it cannot be read, the connection is lost, the disk there is full.
pub(super) fn push(
    target: &Target,
    path: &Path,
    name: &str,
    content: &Content,
    interrupt: &Interrupt,
) -> Result<(), String> {
    let file = File::open(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let said = shell::run(target, &script(name, content), Some(file), interrupt)?;
    match said.contains(STORED) {
        true => Ok(()),
        false => Err(format!("{target}: {} could not be written there", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_known_by_its_content() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("-a b;c.img");
        std::fs::write(&path, "abc").unwrap();
        let content = Content::of(&path).unwrap();
        // FIPS 180-2, appendix B.1.
        assert_eq!(content.hash, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        assert_eq!(content.bytes, 3);
        assert_eq!(plain_name(&path), "a_b_c.img");
        assert_eq!(plain_name(Path::new("/x/..")), "file");
        assert!(Content::of(place.path()).is_err());
    }

    /// What happened: a board that was switched off while a program of 20 MB was pushed to it kept
    /// the part that had come for good, once more each time. And where `FATHOM_REMOTE_CACHE` named a
    /// disk with a directory `files` of its user's own, `files/film/.part.mkv` was taken for such a
    /// part and removed. So was what was on its way on another machine with the same home, whose
    /// processes are not seen.
    #[test]
    fn what_was_left_on_its_way_goes_and_what_is_on_its_way_stays() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("app.trace");
        std::fs::write(&path, "abc").unwrap();
        let content = Content::of(&path).unwrap();
        let other = base.path().join("files").join("c0".repeat(32));
        let film = base.path().join("files/film");
        std::fs::create_dir_all(&other).unwrap();
        std::fs::create_dir_all(&film).unwrap();
        // Linux gives no process a number above 4194304: these are of other machines.
        let left = [other.join(".part.4194305"), other.join(".part.4194305.7d0e-4b")];
        let under_way = [other.join(".part.4194306"), other.join(".part.4194306.7d0e-4b")];
        let foreign = [film.join(".part.mkv"), film.join(".part.4194305"), other.join(".part.mkv")];
        let now = std::time::SystemTime::now();
        let hours = |count: u64| now - std::time::Duration::from_secs(count * 3600);
        for (parts, when) in [(&left[..], hours(49)), (&under_way[..], hours(14)), (&foreign[..], hours(49))]
        {
            for part in parts {
                std::fs::write(part, "ab").unwrap();
                File::options().write(true).open(part).unwrap().set_modified(when).unwrap();
            }
        }
        let quoted = shell_line([base.path().display().to_string()]);
        let words = format!("base={quoted}; {}", script("x", &content));
        let mut command = std::process::Command::new("sh");
        let end = command.args(["-c", &words]).stdin(File::open(&path).unwrap()).output().unwrap();
        assert!(String::from_utf8_lossy(&end.stdout).contains(STORED), "{end:?}");
        assert_eq!(std::fs::read(base.path().join(content.place("x"))).unwrap(), b"abc");
        assert!(left.iter().all(|part| !part.exists()) && under_way.iter().all(|part| part.exists()));
        assert!(foreign.iter().all(|part| part.exists()));
        let own = std::fs::read_dir(base.path().join("files").join(&content.hash)).unwrap();
        assert_eq!(own.count(), 1, "nothing beside it");
    }

    /// What happened: of two clients that pushed one program for the first time, the second put its
    /// file in the place of the one that the first one's agent ran: over a network's file system,
    /// from another machine, that file was gone for the agent.
    #[test]
    fn what_is_there_whole_is_not_replaced() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("app.trace");
        std::fs::write(&path, "abc").unwrap();
        let content = Content::of(&path).unwrap();
        let there = base.path().join(content.place("x"));
        let quoted = shell_line([base.path().display().to_string()]);
        let words = format!("base={quoted}; {}", script("x", &content));
        let push = || {
            let mut command = std::process::Command::new("sh");
            let end = command.args(["-c", &words]).stdin(File::open(&path).unwrap()).output().unwrap();
            assert!(String::from_utf8_lossy(&end.stdout).contains(STORED), "{end:?}");
            assert_eq!(std::fs::read(&there).unwrap(), b"abc");
            let left = std::fs::read_dir(there.parent().unwrap()).unwrap().count();
            assert_eq!(left, 1, "no part stays");
            std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(&there).unwrap())
        };
        std::fs::create_dir(base.path().join("files")).unwrap();
        let first = push();
        assert_eq!(push(), first);
        // Half of it, which keeps its place until the whole has come.
        std::fs::write(&there, "a").unwrap();
        push();
    }

    /// What happened: two machines with one home wrote to one part where their shells had the same
    /// number, as those of two that had just started may.
    #[test]
    fn no_two_pushes_write_to_one_part() {
        let named = || {
            let words = format!("{PART}echo \"$part\"");
            let end = std::process::Command::new("sh").args(["-c", &words]).output().unwrap();
            String::from_utf8(end.stdout).unwrap()
        };
        let own = |name: &str| name.trim_end().rsplit_once('.').unwrap().1.to_owned();
        let (first, second) = (own(&named()), own(&named()));
        let is_told = Path::new("/proc/sys/kernel/random/uuid").exists();
        assert!(!first.is_empty() && (first != second || !is_told), "{first} {second}");
    }
}
