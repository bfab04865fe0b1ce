//! Why a program's calls were not seen.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// What an ELF file tells of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Linkage {
    NotElf,
    Static,
    Dynamic,
}

/// Why no call of `program` was seen, as far as its file tells, and what to do.
pub fn why_unseen(program: &OsStr) -> String {
    let extension = "a program that brings its own SQLite and can load extensions is captured when it loads the file that \
                     the environment variable FATHOM_TRACE_EXTENSION names (see docs/traces.md)";
    let Some(path) = find(program) else {
        return format!("it called no shared libsqlite3.so; {extension}");
    };
    let shown = path.display();
    let mode = std::fs::metadata(&path).map_or(0, |metadata| metadata.permissions().mode());
    // SAFETY: geteuid has no preconditions and cannot fail.
    if mode & 0o6000 != 0 && unsafe { libc::geteuid() } != 0 {
        return format!("{shown} is set-user-id, so the system ignores LD_PRELOAD; run it as its owner");
    }
    match linkage(&path) {
        Linkage::Static => {
            format!("{shown} is statically linked, so no library can stand before its SQLite; {extension}")
        }
        _ if holds_sqlite(&path) => format!("{shown} has an SQLite of its own inside; {extension}"),
        _ => format!("{shown} called no shared libsqlite3.so; {extension}"),
    }
}

fn find(program: &OsStr) -> Option<PathBuf> {
    let path = Path::new(program);
    if path.components().count() > 1 {
        return path.exists().then(|| path.to_owned());
    }
    std::env::split_paths(&std::env::var_os("PATH")?)
        .map(|directory| directory.join(path))
        .find(|it| it.is_file())
}

/// Whether an ELF program asks for a dynamic linker (a program header of type PT_INTERP).
fn linkage(path: &Path) -> Linkage {
    let Ok(bytes) = std::fs::read(path) else { return Linkage::NotElf };
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

/// Whether the file holds what every SQLite library holds: the first bytes of a database.
fn holds_sqlite(path: &Path) -> bool {
    std::fs::read(path).is_ok_and(|bytes| bytes.windows(16).any(|window| window == b"SQLite format 3\0"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reason_is_told_from_the_file() {
        let own = std::env::current_exe().expect("this test");
        assert_eq!(linkage(&own), Linkage::Dynamic);
        // This test is linked with the bundled SQLite.
        assert!(
            why_unseen(own.as_os_str()).contains("an SQLite of its own inside"),
            "{}",
            why_unseen(own.as_os_str())
        );
        assert!(why_unseen(OsStr::new("true")).contains("called no shared libsqlite3.so"));
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("static");
        let mut elf = std::fs::read(&own).expect("readable");
        elf[56..58].copy_from_slice(&[0, 0]);
        std::fs::write(&path, elf).expect("written");
        assert!(why_unseen(path.as_os_str()).contains("statically linked"));
    }
}
