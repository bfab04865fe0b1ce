//! Why a program's calls were not seen.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::notes::CaptureNotes;

/// What an ELF file tells of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Linkage {
    NotElf,
    Static,
    Dynamic,
}

/// What to do about an SQLite that no library can stand before.
const EXTENSION: &str = "if it can load extensions, let it load the file that the environment variable FATHOM_TRACE_EXTENSION \
                         names (see docs/traces.md); or run a build that uses the system's libsqlite3.so.0, as distributions make them";

/// Why no call of `program` was seen, as far as its file and what its processes were and loaded
/// tell, and what to do.
pub fn why_unseen(program: &OsStr, seen: &CaptureNotes) -> String {
    let Some(path) = find(program) else {
        return format!("it called no shared libsqlite3.so; {EXTENSION}");
    };
    let shown = path.display();
    let mode = std::fs::metadata(&path).map_or(0, |metadata| metadata.permissions().mode());
    // SAFETY: geteuid has no preconditions and cannot fail.
    if mode & 0o6000 != 0 && unsafe { libc::geteuid() } != 0 {
        return format!("{shown} is set-user-id, so the system ignores LD_PRELOAD; run it as its owner");
    }
    if linkage(&path) == Linkage::Static {
        let inside = if holds_sqlite(&path) { ", and has an SQLite of its own inside" } else { "" };
        return format!(
            "{shown} is statically linked{inside}, so no library can stand before its SQLite; {EXTENSION}"
        );
    }
    // What is a script was noted as its interpreter, and what it started as well.
    let own: Vec<&PathBuf> = std::iter::once(&path).chain(&seen.programs).chain(&seen.libraries).collect();
    let mut holders: Vec<String> = Vec::new();
    for file in own {
        let shown = file.display().to_string();
        if !holders.contains(&shown) && !is_sqlite(file) && holds_sqlite(file) {
            holders.push(shown);
        }
    }
    if let [first, rest @ ..] = &holders[..] {
        let others = if rest.is_empty() { String::new() } else { format!(" (so have {})", rest.join(", ")) };
        return format!(
            "{first} has an SQLite of its own inside{others}: its calls go from one place of the file to another and never to \
             libsqlite3.so, so no library can stand before them; {EXTENSION}"
        );
    }
    if let Some(apart) = seen.apart.first() {
        return format!(
            "{} was opened in a name space of its own (dlmopen), where a library has its own copy of SQLite and nothing can be put before it; \
             {EXTENSION}",
            apart.display()
        );
    }
    if linkage(&path) == Linkage::Dynamic && !seen.programs.iter().any(|program| is_same(program, &path)) {
        return format!(
            "{shown} did not load the capture library: the system ignores LD_PRELOAD for a program with capabilities (getcap) and for \
             one of another C library or word size; run it without these"
        );
    }
    if seen.libraries.iter().any(|library| is_sqlite(library)) {
        return format!(
            "{shown} or what it started loaded libsqlite3.so and called none of its functions that reach a \
             database"
        );
    }
    format!("{shown} and what it started called no shared libsqlite3.so; {EXTENSION}")
}

fn is_same(a: &Path, b: &Path) -> bool {
    matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

/// Whether a file is SQLite's shared library itself.
fn is_sqlite(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"libsqlite3.so"))
}

fn find(program: &OsStr) -> Option<PathBuf> {
    let path = Path::new(program);
    if path.components().count() > 1 {
        return path.exists().then(|| path.to_owned());
    }
    std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|directory| directory.join(path))
        .find(|path| path.is_file())
}

/// Whether an ELF program asks for a dynamic linker (a program header of type PT_INTERP).
fn linkage(path: &Path) -> Linkage {
    // The program headers follow the file's own as a rule.
    let mut bytes = Vec::new();
    if File::open(path).and_then(|file| file.take(1 << 16).read_to_end(&mut bytes)).is_err() {
        return Linkage::NotElf;
    }
    // 64-bit, little-endian ELF; others are not told apart.
    if bytes.get(..6) != Some(b"\x7fELF\x02\x01") || bytes.len() < 64 {
        return Linkage::NotElf;
    }
    let number = |at: usize, length: usize| -> usize {
        bytes
            .get(at..at + length)
            .map_or(0, |word| word.iter().rev().fold(0, |sum, byte| sum << 8 | usize::from(*byte)))
    };
    let (table, size, count) = (number(32, 8), number(54, 2), number(56, 2));
    const PT_INTERP: usize = 3;
    let has_linker = (0..count)
        .filter_map(|entry| table.checked_add(entry * size))
        .filter(|at| at.saturating_add(4) <= bytes.len())
        .any(|at| number(at, 4) == PT_INTERP);
    if has_linker { Linkage::Dynamic } else { Linkage::Static }
}

/// The first bytes of a database, which every SQLite library holds.
const DATABASE_MAGIC: &[u8] = b"SQLite format 3\0";

/// Words of its messages, which a program that only knows how a database begins (`file`) does not
/// hold.
const MESSAGE: &[u8] = b"database disk image is malformed";

/// Whether the file holds SQLite's code.
fn holds_sqlite(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return false };
    if !file.metadata().is_ok_and(|found| found.is_file()) {
        return false;
    }
    let mut file = BufReader::with_capacity(1 << 20, file);
    let (mut has_magic, mut has_message) = (false, false);
    let overlap = DATABASE_MAGIC.len().max(MESSAGE.len());
    let mut piece: Vec<u8> = Vec::new();
    loop {
        // What lies across two pieces is looked at again.
        piece.drain(..piece.len().saturating_sub(overlap));
        match file.by_ref().take(1 << 20).read_to_end(&mut piece) {
            Ok(1..) => {}
            _ => return false,
        }
        has_magic = has_magic || holds(&piece, DATABASE_MAGIC);
        has_message = has_message || holds(&piece, MESSAGE);
        if has_magic && has_message {
            return true;
        }
    }
}

fn holds(bytes: &[u8], sought: &[u8]) -> bool {
    let Some((first, rest)) = sought.split_first() else { return true };
    let mut at = 0;
    while let Some(next) = bytes[at..].iter().position(|byte| byte == first) {
        at += next + 1;
        if bytes[at..].starts_with(rest) {
            return true;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn seen(programs: &[&Path], libraries: &[&Path], apart: &[&Path]) -> CaptureNotes {
        let set = |paths: &[&Path]| paths.iter().map(|path| path.to_path_buf()).collect::<BTreeSet<_>>();
        CaptureNotes { programs: set(programs), libraries: set(libraries), apart: set(apart) }
    }

    #[test]
    #[cfg_attr(target_feature = "crt-static", ignore = "it looks at itself as a dynamic program")]
    fn the_reason_is_told_from_the_files() {
        let own = std::env::current_exe().expect("this test");
        let shell = find(OsStr::new("sh")).expect("a shell").canonicalize().expect("there");
        assert_eq!(linkage(&own), Linkage::Dynamic);
        // This test is linked with the bundled SQLite.
        let why = why_unseen(own.as_os_str(), &seen(&[&own], &[], &[]));
        assert!(why.contains(&format!("{} has an SQLite of its own inside", own.display())), "{why}");
        assert!(why.contains("FATHOM_TRACE_EXTENSION"), "{why}");
        // A script's interpreter, or what it started, and a library of a process.
        for seen in [seen(&[&shell, &own], &[], &[]), seen(&[&shell], &[&own], &[])] {
            let why = why_unseen(OsStr::new("sh"), &seen);
            assert!(why.starts_with(&format!("{} has an SQLite", own.display())), "{why}");
        }
        let plain = seen(&[&shell], &[], &[]);
        let why = why_unseen(OsStr::new("sh"), &plain);
        assert!(why.contains("called no shared libsqlite3.so"), "{why}");
        let why = why_unseen(OsStr::new("sh"), &seen(&[&shell], &[], &[Path::new("plugin.so")]));
        assert!(why.contains("plugin.so was opened in a name space of its own (dlmopen)"), "{why}");
        let why = why_unseen(OsStr::new("sh"), &CaptureNotes::default());
        assert!(why.contains("did not load the capture library"), "{why}");
        let used = seen(&[&shell], &[Path::new("/usr/lib/libsqlite3.so.0")], &[]);
        let why = why_unseen(OsStr::new("sh"), &used);
        // What happened: `sh` was said to have loaded what the program in its command had.
        assert!(why.contains("sh or what it started loaded libsqlite3.so and called none"), "{why}");
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("static");
        let mut elf = std::fs::read(&own).expect("readable");
        elf[56..58].copy_from_slice(&[0, 0]);
        std::fs::write(&path, elf).expect("written");
        let why = why_unseen(path.as_os_str(), &plain);
        assert!(why.contains("is statically linked, and has an SQLite of its own inside"), "{why}");
    }

    #[test]
    fn a_text_is_found_wherever_it_stands() {
        assert!(holds(b"SSQLite", b"SQLite") && !holds(b"SQLit", b"SQLite"));
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("file");
        for at in [0, (1 << 20) - 7, (1 << 20) + 3, 3 << 20] {
            let mut bytes = vec![b'S'; at];
            bytes.extend(DATABASE_MAGIC);
            std::fs::write(&path, &bytes).expect("written");
            assert!(!holds_sqlite(&path), "knows how a database begins, and no more");
            bytes.extend(vec![b'd'; (1 << 20) - 40]);
            bytes.extend(MESSAGE);
            std::fs::write(&path, &bytes).expect("written");
            assert!(holds_sqlite(&path), "{at}");
        }
    }
}
