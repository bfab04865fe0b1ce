//! A full disk under `fathom run`: which one it was is said, with a remedy that helps there. Needs
//! root, for a small disk in memory that only the command sees.

#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

mod place;

use std::process::Command;

use place::Place;

/// What happened: where the disk of `--dir` was full, more `size_mib` was recommended, which a
/// directory has not, and `--resume`, which found the disk as full as before.
#[test]
fn a_full_disk_of_a_directory_is_told_by_its_name_and_not_by_the_size_of_an_image() {
    // SAFETY: geteuid takes nothing and cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        println!("SKIP: a small disk is mounted, which needs root");
        return;
    }
    let place = Place::new();
    std::fs::create_dir(place.path("small")).unwrap();
    let words = "run first-look --quick --repeat 1 --set variants=wal/full --dir small --out r.db";
    let script =
        format!("mount -t tmpfs -o size=200k small small && {} {words}", env!("CARGO_BIN_EXE_fathom"));
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &script]).current_dir(place.path(""));
    let end = command.env("FATHOM_STATE_DIR", place.path("state")).output().unwrap();
    let told = String::from_utf8_lossy(&end.stderr);
    assert_eq!(end.status.code(), Some(1), "{told}");
    assert!(told.contains("The disk of --dir small was full: free some space there"), "{told}");
    assert!(!told.contains("size_mib"), "{told}");
}
