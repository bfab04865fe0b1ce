//! Places that are no whole machine: a chroot, with and without `/proc`, and a user namespace.
//!
//! In a chroot (schroot, Termux's proot, build roots) all 40 runs of `./run` failed: "cannot find
//! the mount of …: no mount holds this path", because the mount that holds everything is not below
//! the root that a process sees there, and what is only recorded was asked for as if the run
//! depended on it. Without `/proc` not even the program's own path was found. And root of a user
//! namespace (`unshare -Ur`, a rootless container) was taken for root: its stacks were to be kept
//! in /run/fathom, which it may not write. What nobody tells is unknown, and who may do nothing of
//! root's is not root.

#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

mod place;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use place::Place;

/// Whether a command of this machine does what it is to.
fn able(words: &[&str]) -> bool {
    let able = output(words, Path::new("/"), &[]).is_some_and(|output| output.status.success());
    if !able {
        println!("SKIP: `{}` is not possible here", words.join(" "));
    }
    able
}

fn output(words: &[&str], directory: &Path, variables: &[(&str, &str)]) -> Option<Output> {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).current_dir(directory).envs(variables.iter().copied()).stdin(Stdio::null());
    command.output().ok()
}

/// Copies a file into the root that is being made. By a process of its own: what this one has open
/// for writing is, for a moment, open in what another test starts, and is not executed meanwhile
/// ("Text file busy").
fn copy(file: &Path, to: &Path) {
    fs::create_dir_all(to.parent().unwrap()).unwrap();
    assert!(Command::new("cp").arg("--").args([file, to]).status().unwrap().success());
}

/// A root with `fathom`, its libraries and nothing else.
fn root(place: &Place) -> PathBuf {
    let root = place.path("root");
    for directory in ["bin", "srv", "tmp", "proc", "sys", "dev"] {
        fs::create_dir_all(root.join(directory)).unwrap();
    }
    let program = env!("CARGO_BIN_EXE_fathom");
    // Not copied, which takes long where it is large.
    if fs::hard_link(program, root.join("bin/fathom")).is_err() {
        copy(Path::new(program), &root.join("bin/fathom"));
    }
    let listed = output(&["ldd", program], Path::new("/"), &[]).unwrap();
    for word in String::from_utf8(listed.stdout).unwrap().split_whitespace() {
        if word.starts_with('/') {
            copy(Path::new(word), &root.join(word.trim_start_matches('/')));
        }
    }
    root
}

const RUN: [&str; 8] = ["/bin/fathom", "run", "first-look", "--quick", "--repeat", "1", "--out", "/srv/r.db"];

#[track_caller]
fn good(end: &Output) -> String {
    let said = String::from_utf8_lossy(&end.stderr).into_owned();
    let text = String::from_utf8_lossy(&end.stdout).into_owned();
    assert!(end.status.success() && !said.contains("panicked"), "{}\n{text}\n{said}", end.status);
    text
}

/// What is recorded of the machine and of the runs' stacks.
#[track_caller]
fn recorded(results: &Path) -> (Vec<String>, Vec<String>) {
    let connection = rusqlite::Connection::open(results).unwrap();
    let rows = |sql: &str| -> Vec<String> {
        let mut select = connection.prepare(sql).unwrap();
        select.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    let failed = rows("SELECT message FROM run WHERE status <> 'done'");
    assert_eq!(failed, [""; 0]);
    (rows("SELECT key FROM environment"), rows("SELECT DISTINCT json_extract(stack, '$.mount') FROM run"))
}

/// `ways`: how the root is entered, in words of a shell, in a namespace where mounts are this
/// process's own and end with it.
#[test]
fn whatever_a_chroot_lacks_is_unknown_and_fails_no_run() {
    if !able(&["unshare", "-rm", "chroot", "/", "true"]) || !able(&["ldd", "/bin/sh"]) {
        return;
    }
    for (lacks, mounts) in [
        ("everything", ""),
        ("the root's mount", "mount --rbind /proc root/proc && "),
        ("/proc", "mount --rbind /sys root/sys && mount --rbind /dev root/dev && "),
    ] {
        let place = Place::new();
        let root = root(&place);
        let script = format!("{mounts}exec chroot root \"$@\"");
        let within = |words: &[&str]| {
            let words = [&["unshare", "-rm", "sh", "-c", &script, "sh"], words].concat();
            output(&words, &place.path(""), &[("FATHOM_STATE_DIR", "/state"), ("HOME", "/srv")]).unwrap()
        };
        good(&within(&RUN));
        let (keys, mounts) = recorded(&root.join("srv/r.db"));
        assert_eq!(mounts, ["unknown"], "without {lacks}");
        for key in ["kernel", "cpus", "memory_mib", "architecture"] {
            assert!(keys.iter().any(|other| other == key), "without {lacks}: {key} of {keys:?}");
        }
        good(&within(&[&RUN[..], &["--resume"]].concat()));
        let shown = good(&within(&["/bin/fathom", "doctor"]));
        assert!(shown.contains("root") && shown.contains("ext4"), "without {lacks}: {shown}");
        good(&within(&["/bin/fathom", "list", "filesystems"]));
        let up = ["stack", "up", "--fs", "dir", "--dir", "/srv", "--name", "here"];
        good(&within(&[&["/bin/fathom"][..], &up].concat()));
        assert!(good(&within(&["/bin/fathom", "stack", "list"])).contains("here"), "without {lacks}");
        good(&within(&["/bin/fathom", "stack", "down", "--all"]));
        let stays: Vec<_> = fs::read_dir(root.join("state/stacks")).unwrap().flatten().collect();
        assert!(stays.is_empty(), "without {lacks}: {stays:?}");
    }
}

/// An ordinary user outside: /run is not his, nor is any other id.
#[test]
fn root_of_a_user_namespace_works_in_directories_and_is_told_what_it_is() {
    let nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    let root = runs_as_root();
    let enter = [if root { &nobody[..] } else { &[] }, &["unshare", "-Ur"]].concat();
    if !able(&[&enter[..], &["true"]].concat()) {
        return;
    }
    let place = Place::new();
    for directory in ["", "home"] {
        fs::create_dir_all(place.path(directory)).unwrap();
        // His own: where anybody may write, no list of stacks is believed.
        if root {
            std::os::unix::fs::chown(place.path(directory), Some(65_534), Some(65_534)).unwrap();
        }
    }
    // Where it is, the program may not be reached by everybody.
    place.copy_program("fathom");
    let within = |words: &[&str]| {
        let mut command = Command::new(enter[0]);
        command.args(&enter[1..]).arg("./fathom").args(words).current_dir(place.path(""));
        command.env_remove("FATHOM_STATE_DIR").env_remove("XDG_STATE_HOME").env("HOME", place.path("home"));
        command.stdin(Stdio::null()).output().unwrap()
    };
    good(&within(&["run", "first-look", "--quick", "--repeat", "1", "--out", "r.db"]));
    recorded(&place.path("r.db"));
    assert!(good(&within(&["doctor"])).contains("user namespace"), "doctor says what this root is");
    good(&within(&["stack", "up", "--fs", "dir", "--dir", ".", "--name", "here"]));
    good(&within(&["stack", "down", "here"]));
    // What needs root says so, and leaves nothing.
    let end = within(&["stack", "up", "--fs", "ext4", "--dir", "."]);
    assert!(!end.status.success() && String::from_utf8_lossy(&end.stderr).contains("root"), "{end:?}");
}

fn runs_as_root() -> bool {
    // SAFETY: geteuid takes nothing and cannot fail.
    unsafe { libc::geteuid() == 0 }
}
