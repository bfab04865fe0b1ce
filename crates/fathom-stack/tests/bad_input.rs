//! Specifications and places that cannot work: each has a clear error that says what to do, and
//! leaves nothing.

#![allow(clippy::unwrap_used, reason = "helpers of tests outside #[test] functions")]

mod common;

use std::fs;
use std::process::Command;

use common::{Place, can_mount};
use fathom_stack::{StackSpec, Stacks};

#[track_caller]
fn refused(place: &Place, stacks: &Stacks, spec: &StackSpec, parts: &[&str]) {
    let error = stacks.up(spec, "bad input").unwrap_err().to_string();
    println!("{error}\n");
    for part in parts {
        assert!(error.contains(part), "{part:?} in {error:?}");
    }
    place.assert_nothing_left();
}

#[test]
fn specifications_that_cannot_be_are_refused_with_advice() {
    let place = Place::new();
    let stacks = place.stacks();
    let spec = |filesystem: &str| place.spec(filesystem);
    let text = |words: &[&str]| words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
    refused(
        &place,
        &stacks,
        &spec("ext5"),
        &["unknown file system \"ext5\"", "did you mean \"ext4\"?", "fathom list filesystems"],
    );
    refused(&place, &stacks, &spec(""), &["unknown file system \"\"", "fathom list filesystems"]);
    refused(&place, &stacks, &spec("squashfs"), &["unknown file system"]);
    refused(
        &place,
        &stacks,
        &StackSpec { size_mib: 299, ..spec("xfs") },
        &["size_mib", "299 MiB", "at least 300"],
    );
    refused(&place, &stacks, &StackSpec { size_mib: 0, ..spec("ext4") }, &["size_mib", "0 MiB"]);
    refused(
        &place,
        &stacks,
        &StackSpec { size_mib: u64::MAX, ..spec("ext4") },
        &["size_mib", "out of range"],
    );
    refused(
        &place,
        &stacks,
        &StackSpec { log_mib: Some(64), ..spec("btrfs") },
        &["log_mib", "no external log"],
    );
    refused(
        &place,
        &stacks,
        &StackSpec { log_mib: Some(1), ..spec("xfs") },
        &["log_mib", "1 MiB is out of range"],
    );
    refused(
        &place,
        &stacks,
        &StackSpec { mount: Some("noatime, ro".into()), ..spec("ext4") },
        &["mount", "commas"],
    );
    refused(&place, &stacks, &StackSpec { mkfs: text(&["-O", ""]), ..spec("ext4") }, &["mkfs", "empty word"]);
    // "-O x" went to mke2fs as one word, which alone knew that it was wrong.
    for words in ["-O ^has_journal", "-m0 -b 4096", "--label x"] {
        let spec = StackSpec { mkfs: text(&[words]), ..spec("ext4") };
        refused(&place, &stacks, &spec, &["mkfs", "several words"]);
    }
    refused(
        &place,
        &stacks,
        &StackSpec { mount: Some("noatime".into()), ..spec("dir") },
        &["mount", "no meaning"],
    );
    refused(&place, &stacks, &StackSpec { mkfs: text(&["-q"]), ..spec("dir") }, &["mkfs", "no meaning"]);
    refused(&place, &stacks, &StackSpec { log_mib: Some(64), ..spec("dir") }, &["log_mib", "no meaning"]);
}

#[test]
fn places_that_cannot_be_used_are_named_with_advice() {
    let place = Place::new();
    let stacks = place.stacks();
    let missing = place.root.path().join("missing");
    let file = place.root.path().join("file");
    fs::write(&file, "").unwrap();
    for filesystem in ["dir", "ext4"] {
        if !common::available(filesystem) {
            continue;
        }
        let at = |directory: &std::path::Path| StackSpec {
            directory: Some(directory.into()),
            ..place.spec(filesystem)
        };
        refused(&place, &stacks, &at(&missing), &["does not exist", "mkdir -p"]);
        refused(&place, &stacks, &at(&file), &["is not a directory"]);
        refused(&place, &stacks, &at("/proc".as_ref()), &["/proc"]);
    }
    let state = Stacks::at(file.join("state"));
    refused(&place, &state, &place.spec("dir"), &["FATHOM_STATE_DIR"]);
}

#[test]
fn a_read_only_and_a_full_file_system_say_so() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    let small = StackSpec { size_mib: 64, ..place.spec("ext4") };
    // A stack inside a stack: the outer one is full, then read-only.
    let outer = place.stacks().up(&small, "outer").unwrap();
    let inner_state = Stacks::at(place.root.path().join("inner-state"));
    let inner =
        |filesystem: &str| StackSpec { directory: Some(outer.path().into()), ..place.spec(filesystem) };
    let error = inner_state.up(&inner("ext4"), "inner").unwrap_err().to_string();
    assert!(error.contains("no space for an image of 128 MiB") && error.contains("MiB are free"), "{error}");
    let mount = outer.path().parent().unwrap();
    assert!(Command::new("mount").args(["-o", "remount,ro"]).arg(mount).status().unwrap().success());
    for spec in [inner("dir"), StackSpec { size_mib: 16, ..inner("ext4") }] {
        let error = inner_state.up(&spec, "inner").unwrap_err().to_string();
        assert!(error.contains("mounted read-only") && error.contains("another directory"), "{error}");
    }
    assert!(inner_state.leftovers().iter().all(|l| !l.label.contains("inner")));
    outer.down().unwrap();
    place.assert_nothing_left();
}

/// Drops root for one test process: what an ordinary user sees.
#[test]
fn an_ordinary_user_can_use_dir_and_is_told_about_the_rest() {
    if !fathom_ground::system::is_root() {
        println!("skipped: already an ordinary user, the child test covers it");
        return ordinary();
    }
    let place = Place::new();
    // What others may write is not trusted, so it is given to that user.
    let open = |path: &std::path::Path| {
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        std::os::unix::fs::chown(path, Some(65534), Some(65534)).unwrap();
    };
    open(place.root.path());
    open(&place.images);
    // The build directory may be closed to other users, so the binary is run from where they can
    // read.
    let exe = place.root.path().join("test-binary");
    // By a process of its own: what this one writes may be open in what another test starts.
    assert!(Command::new("cp").arg(std::env::current_exe().unwrap()).arg(&exe).status().unwrap().success());
    let reachable = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "test", "-x"])
        .arg(&exe)
        .status();
    if !reachable.is_ok_and(|s| s.success()) {
        println!("skipped: setpriv is missing, or another user cannot reach {}", exe.display());
        return;
    }
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(&exe)
        .args(["--exact", "child_without_root", "--ignored", "--nocapture"])
        .env("FATHOM_TEST_PLACE", place.root.path())
        .output()
        .unwrap();
    let text =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    println!("{text}");
    assert!(output.status.success() && text.contains("child saw everything"), "{text}");
}

#[test]
#[ignore = "the child process of the test above"]
fn child_without_root() {
    if std::env::var_os("FATHOM_TEST_PLACE").is_some() {
        ordinary();
    }
}

fn ordinary() {
    assert!(!fathom_ground::system::is_root());
    let root = std::env::var_os("FATHOM_TEST_PLACE").map_or_else(std::env::temp_dir, Into::into);
    let directory = tempfile::tempdir_in(&root).unwrap();
    let stacks = Stacks::at(directory.path().join("state"));
    let spec = |filesystem: &str| StackSpec {
        place: filesystem.into(),
        directory: Some(directory.path().into()),
        ..StackSpec::default()
    };
    let error = stacks.up(&spec("ext4"), "user").unwrap_err().to_string();
    assert!(error.contains("needs root") && error.contains("`dir`"), "{error}");
    let closed = StackSpec { directory: Some("/".into()), ..spec("dir") };
    let error = stacks.up(&closed, "user").unwrap_err().to_string();
    assert!(error.contains("may not write here"), "{error}");
    let stack = stacks.up(&spec("dir"), "user").unwrap();
    fs::write(stack.path().join("a"), vec![1; 1 << 20]).unwrap();
    let method = fathom_stack::cold(stack.path());
    assert_eq!(method, fathom_stack::ColdMethod::Evicted { files: 1 });
    stack.down().unwrap();
    for capability in fathom_stack::doctor() {
        println!("{capability:?}");
        if ["root", "ext4", "block-trace", "drop-caches"].contains(&capability.name.as_str()) {
            assert!(!capability.present && capability.remedy.starts_with("sudo "), "{capability:?}");
        }
    }
    println!("child saw everything");
}
