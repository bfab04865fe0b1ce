//! The program that runs, which starts itself again as guard, device server, keeper and agent.

use std::ffi::{CStr, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// The link to the file that this process runs, whatever has become of its name.
const RUNNING: &str = "/proc/self/exe";
/// What the kernel puts behind the name of a file that is gone.
const GONE: &str = " (deleted)";

/// The path of the program that runs. Without `/proc`, which a chroot may lack, the one that it was
/// started by.
///
/// # Errors
/// The system tells neither.
pub fn own_program() -> io::Result<PathBuf> {
    std::env::current_exe().or_else(|error| {
        // SAFETY: getauxval takes an integer; for AT_EXECFN it gives 0 or the address of a C string
        // that lies above the stack as long as the process lives.
        let name = unsafe {
            let at = libc::getauxval(libc::AT_EXECFN) as *const libc::c_char;
            if at.is_null() { c"" } else { CStr::from_ptr(at) }
        };
        let path = std::path::absolute(OsStr::from_bytes(name.to_bytes()));
        path.ok().filter(|path| path.is_file()).ok_or(error)
    })
}

/// Whether this process said that it is `fathom`.
static IS_FATHOM: AtomicBool = AtomicBool::new(false);

/// Says that this program is `fathom`, whatever its file is called.
pub fn this_is_fathom() {
    IS_FATHOM.store(true, Ordering::Relaxed);
}

/// This program, if it is `fathom`, which is what its other processes are started as. Its file may
/// have been removed or replaced meanwhile.
#[must_use]
pub fn own_fathom() -> Option<PathBuf> {
    own_program().ok().filter(|_| IS_FATHOM.load(Ordering::Relaxed))
}

/// What to execute for `program`: where that is the one that runs and its file was removed or
/// replaced meanwhile, the file that runs. An update must not keep a stack from being undone.
#[must_use]
pub fn executable(program: &Path) -> PathBuf {
    let number = |path: &Path| path.metadata().map(|about| (about.dev(), about.ino())).ok();
    let is_own = std::env::current_exe().is_ok_and(|own| is_same_name(&own, program));
    match is_own && number(program) != number(Path::new(RUNNING)) {
        true => RUNNING.into(),
        false => program.into(),
    }
}

/// Whether a program can be started by its name, as a guest's kernel does.
///
/// # Errors
/// In words: it is the one that runs, and its file was removed or replaced meanwhile.
pub fn found_by_name(program: &Path) -> Result<(), String> {
    if executable(program) == program {
        return Ok(());
    }
    Err(format!(
        "{}: the file of this program was removed or replaced (by an update?) after it was started, and a guest is \
         started with it by its name: give the command again (`fathom run --resume` goes on)",
        named(program).display()
    ))
}

/// The name of a program as it was before its file was removed or replaced: for messages, and for
/// what lies beside it. What it holds is read from [`executable`].
#[must_use]
pub fn named(program: &Path) -> &Path {
    Path::new(OsStr::from_bytes(with_name(program)))
}

/// Whether two links to files that run, as `/proc` shows them, are of one name: such a file may
/// have been removed or replaced meanwhile.
#[must_use]
pub fn is_same_name(left: &Path, right: &Path) -> bool {
    with_name(left) == with_name(right)
}

/// A path without what the kernel puts behind the name of a file that is gone.
fn with_name(path: &Path) -> &[u8] {
    let path = path.as_os_str().as_bytes();
    path.strip_suffix(GONE.as_bytes()).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    /// What happened: an agent whose file another push had replaced was no agent of this program's.
    #[test]
    fn a_file_that_is_gone_keeps_its_name() {
        let same = |left: &str, right: &str| is_same_name(Path::new(left), Path::new(right));
        assert!(same("/x/fathom (deleted)", "/x/fathom") && same("/x/fathom", "/x/fathom"));
        assert!(!same("/x/fathom (deleted)", "/y/fathom") && !same("/x/fathom", "/x/fathom2"));
    }

    /// Set for the child process whose program is removed.
    const CHILD: &str = "FATHOM_TEST_REMOVED_PROGRAM";

    #[test]
    fn a_program_whose_file_was_removed_starts_itself_again() {
        let name = "program::tests::a_program_whose_file_was_removed_starts_itself_again";
        if let Some(step) = std::env::var_os(CHILD) {
            let own = own_program().unwrap();
            if step == "remove" {
                assert_eq!((executable(&own), named(&own)), (own.clone(), &*own));
                assert_eq!(found_by_name(&own), Ok(()));
                let content = std::fs::read(&own).unwrap();
                std::fs::remove_file(&own).unwrap();
                assert_eq!(executable(&own), Path::new(RUNNING));
                // By its name, too, and where an update lies there.
                let now = own_program().unwrap();
                assert_eq!(named(&now), own);
                assert!(found_by_name(&now).unwrap_err().contains("removed or replaced"));
                std::fs::write(&own, "an update").unwrap();
                assert_eq!(executable(named(&now)), Path::new(RUNNING));
                assert!(std::fs::read(executable(named(&now))).unwrap() == content);
                std::fs::remove_file(&own).unwrap();
                let program = executable(&own_program().unwrap());
                let again = Command::new(program).args([name, "--exact"]).env(CHILD, "end").status();
                assert!(again.unwrap().success());
                assert_eq!(executable(Path::new("/bin/sh")), Path::new("/bin/sh"), "another's");
            }
            return;
        }
        let place = tempfile::tempdir().unwrap();
        let copy = place.path().join("program");
        // By a process of its own: what this one writes may be open in what another test starts
        // just now, and a file that is written cannot be executed ("Text file busy").
        let made = Command::new("cp").arg(std::env::current_exe().unwrap()).arg(&copy).status();
        assert!(made.unwrap().success());
        let child = Command::new(&copy).args([name, "--exact"]).env(CHILD, "remove").output().unwrap();
        assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stdout));
    }
}
