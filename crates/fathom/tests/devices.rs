//! Modelled devices through the binary: they keep their times, they fail as they are told to, and whatever is killed leaves nothing.
//! Needs root, mkfs.ext4 and /dev/fuse.

#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

mod place;

use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use place::{Place, lives};

fn can_serve(place: &Place) -> bool {
    let list = place.fathom(&["list", "filesystems", "--json"]);
    let listed: serde_json::Value = serde_json::from_str(&list.stdout).unwrap();
    let ext4 =
        listed["filesystems"].as_array().unwrap().iter().find(|it| it["filesystem"] == "ext4").unwrap();
    let able = ext4["present"] == true && std::path::Path::new("/dev/fuse").exists();
    if !able {
        println!("SKIP: a modelled device needs root, mkfs.ext4 and /dev/fuse ({})", ext4["detail"]);
    }
    able
}

/// A stack's name of this test alone: all tests share the list of stacks.
fn named(test: &str) -> String {
    format!("{test}-{}", std::process::id())
}

fn up(place: &Place, name: &str, more: &[&str]) -> PathBuf {
    let words = ["stack", "up", "--fs", "ext4", "--size", "32", "--name", name, "--dir", ".", "--device"];
    let end = place.fathom(&[&words[..], more].concat());
    end.exits(0);
    PathBuf::from(end.stdout.trim())
}

/// The process that serves the device whose image lies in the place.
fn server(place: &Place) -> i32 {
    let below = place.path("").canonicalize().unwrap();
    let serves = |process: &std::fs::DirEntry| {
        let command = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
        let files = std::fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten();
        command.ends_with(b"device-server\0")
            && files.filter_map(|fd| std::fs::read_link(fd.path()).ok()).any(|at| at.starts_with(&below))
    };
    let mut all = std::fs::read_dir("/proc").unwrap().flatten();
    all.find(serves).and_then(|it| it.file_name().to_str()?.parse().ok()).unwrap()
}

fn mounts_of(name: &str) -> Vec<String> {
    let all = std::fs::read_to_string("/proc/mounts").unwrap();
    all.lines().filter(|line| line.contains(&format!("/named-{name}/"))).map(str::to_owned).collect()
}

fn gone_soon(process: i32) {
    let begin = Instant::now();
    while lives(process) {
        assert!(begin.elapsed() < Duration::from_secs(20), "the server still runs");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_device_outlives_the_command_and_goes_with_its_stack() {
    let (place, name) = (Place::new(), named("outlives"));
    if !can_serve(&place) {
        return;
    }
    let work = up(&place, &name, &["sd-slow"]);
    let process = server(&place);
    let file = std::fs::File::create(work.join("file")).unwrap();
    let begin = Instant::now();
    for i in 0..5 {
        file.write_all_at(&[1; 4096], i * 4096).unwrap();
        file.sync_all().unwrap();
    }
    // At the least a data write and a flush, 1.5 and 4 ms.
    assert!(begin.elapsed() >= Duration::from_micros(5 * 5500), "{:?}", begin.elapsed());
    drop(file);
    place.fathom(&["stack", "down", &name]).exits(0);
    gone_soon(process);
    assert_eq!(mounts_of(&name), Vec::<String>::new());
}

#[test]
fn a_server_that_is_killed_gives_errors_and_leaves_nothing() {
    let (place, name) = (Place::new(), named("killed"));
    if !can_serve(&place) {
        return;
    }
    let work = up(&place, &name, &["none"]);
    let process = server(&place);
    let file = std::fs::File::create(work.join("file")).unwrap();
    file.write_all_at(&[1; 4096], 0).unwrap();
    file.sync_all().unwrap();
    // SAFETY: kill takes integers.
    assert_eq!(unsafe { libc::kill(process, libc::SIGKILL) }, 0);
    gone_soon(process);
    let begin = Instant::now();
    let failed =
        (0..100).any(|i| file.write_all_at(&[2; 4096], i * 4096).and_then(|()| file.sync_all()).is_err());
    assert!(failed, "a device that is gone gives errors");
    assert!(begin.elapsed() < Duration::from_secs(20), "and gives them at once");
    drop(file);
    place.fathom(&["stack", "down", &name]).exits(0);
    assert_eq!(mounts_of(&name), Vec::<String>::new());
}

#[test]
fn a_fault_reaches_the_program_and_a_run_fails_with_it() {
    let (place, name) = (Place::new(), named("fault"));
    if !can_serve(&place) {
        return;
    }
    let work = up(&place, &name, &["none", "--fault", "gone@1500"]);
    let file = std::fs::File::create(work.join("file")).unwrap();
    let failed =
        (0..2000).any(|i| file.write_all_at(&[2; 4096], i * 4096).and_then(|()| file.sync_all()).is_err());
    assert!(failed);
    drop(file);
    place.fathom(&["stack", "down", &name]).exits(0);
    assert_eq!(mounts_of(&name), Vec::<String>::new());
}

#[test]
fn what_is_no_device_is_refused_with_what_is() {
    let place = Place::new();
    place.write("mine.toml", "name = \"mine\"\ntitle = \"x\"\nkind = \"sdd\"\n[read]\n");
    for (more, says) in [
        (&["sd-slwo"][..], "did you mean `sd-slow`"),
        (&["mine.toml"], "mine.toml:"),
        (&["./none-such.toml"], "none-such.toml"),
        (&["sd-slow", "--fault", "gome@3"], "did you mean `gone`"),
        (&["sd-slow", "--log", "64"], "external log"),
    ] {
        let words = ["stack", "up", "--fs", "ext4", "--dir", ".", "--device"];
        place.fathom(&[&words[..], more].concat()).exits(2).says(says);
    }
    place
        .fathom(&["stack", "up", "--fs", "dir", "--dir", ".", "--device", "sd-slow"])
        .exits(2)
        .says("file system");
    place
        .fathom(&["stack", "up", "--fs", "ext4", "--dir", ".", "--fault", "gone"])
        .exits(2)
        .says("modelled device");
}
