//! Loop-mounted stacks through the binary: whatever ends a run, no mount, loop device or image is
//! left. Needs root and mkfs.ext4.

#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

mod place;

use std::time::{Duration, Instant};

use place::Place;

const ON_EXT4: &str = r#"name = "mine"
title = "Mine"
repeats = 3

[workload]
name = "mobibench-sql"
transactions = 400
tables = 1

[engine]
name = "sqlite"
journal_mode = "wal"

[stack]
filesystem = "ext4"
size_mib = 64
"#;

/// Whether this machine can mount an ext4 image; says why not.
fn can_mount() -> bool {
    let list = Place::new().fathom(&["list", "filesystems", "--json"]);
    let listed: serde_json::Value = serde_json::from_str(&list.stdout).unwrap();
    let ext4 = listed["filesystems"]
        .as_array()
        .unwrap()
        .iter()
        .find(|filesystem| filesystem["filesystem"] == "ext4")
        .unwrap()
        .clone();
    if ext4["present"] != true {
        println!("SKIP: {}; to get it: {}", ext4["detail"], ext4["remedy"]);
    }
    ext4["present"] == true
}

/// Mounts and loop devices whose path or backing file lies below the place.
fn attached(place: &Place) -> Vec<String> {
    let below = place.path("").canonicalize().unwrap().display().to_string();
    let mut found: Vec<String> = std::fs::read_to_string("/proc/mounts")
        .unwrap()
        .lines()
        .filter(|line| line.contains(below.trim_end_matches('/')))
        .map(str::to_owned)
        .collect();
    for entry in std::fs::read_dir("/sys/block").unwrap().flatten() {
        let backing = std::fs::read_to_string(entry.path().join("loop/backing_file")).unwrap_or_default();
        if backing.contains(below.trim_end_matches('/')) {
            found.push(format!("{}: {backing}", entry.path().display()));
        }
    }
    found
}

fn assert_nothing_attached_soon(place: &Place) {
    let begin = Instant::now();
    while !attached(place).is_empty() {
        assert!(begin.elapsed() < Duration::from_secs(90), "still attached: {:?}", attached(place));
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_good_run_leaves_results_and_nothing_else() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    place.write("mine.toml", ON_EXT4);
    place.fathom(&["run", "mine.toml", "--out", "r.db", "--quiet"]).exits(0);
    assert_eq!(attached(&place), Vec::<String>::new());
    assert_eq!(place.leftover_work(), Vec::<String>::new());
    assert_eq!(place.rows("r.db", "SELECT count(*) FROM run WHERE status = 'done'"), "3");
    assert!(place.rows("r.db", "SELECT stack FROM run").contains("mke2fs"), "mkfs is part of the record");
}

#[test]
fn a_full_disk_fails_the_run_and_says_so() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    place.write(
        "mine.toml",
        &ON_EXT4
            .replace("mobibench-sql", "update")
            .replace("transactions = 400\ntables = 1", "rows = 1_000_000"),
    );
    place.fathom(&["run", "mine.toml", "--out", "r.db", "--repeat", "1"]).exits(1).says("full");
    assert_eq!(attached(&place), Vec::<String>::new());
    assert_eq!(place.rows("r.db", "SELECT count(*) FROM run WHERE status = 'failed'"), "1");
}

#[test]
fn mkfs_and_mount_words_that_do_not_work_are_named() {
    if !can_mount() {
        return;
    }
    for (set, says) in [("stack.mkfs=-Zwrong", "mke2fs"), ("stack.mount=data=sideways", "mount")] {
        let place = Place::new();
        place.write("mine.toml", ON_EXT4);
        place
            .fathom(&["run", "mine.toml", "--out", "r.db", "--repeat", "1", "--set", set])
            .exits(1)
            .says(says);
        assert_eq!(attached(&place), Vec::<String>::new());
    }
}

#[test]
fn a_file_system_that_this_machine_lacks_is_skipped_with_the_reason() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    place.write("mine.toml", ON_EXT4);
    let words = "run mine.toml --set stack.filesystem=jfs,ext4 --set stack.size_mib=64 --repeat 1 --out r.db";
    // Without a guest kernel, which has it.
    let nowhere = place.path("none").display().to_string();
    let end =
        place.fathom_with(&words.split(' ').collect::<Vec<_>>(), &[("FATHOM_CACHE_DIR", nowhere.as_str())]);
    if end.stderr.contains("skipped") {
        end.exits(0).says("skipped 1 of 2 cells").says("jfs");
        assert!(place.rows("r.db", "SELECT skipped FROM cell WHERE skipped IS NOT NULL").contains("jfs"));
    } else {
        println!("SKIP: this kernel has jfs");
    }
}

#[test]
fn ctrl_c_unmounts_what_is_mounted() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    place.write("mine.toml", &ON_EXT4.replace("transactions = 400", "transactions = 20_000"));
    let running = place.start(&["run", "mine.toml", "--out", "r.db"]);
    running.wait_for_child("worker");
    assert_ne!(attached(&place), Vec::<String>::new(), "the stack is up while the worker runs");
    running.interrupt();
    running.end().ends_by(libc::SIGINT).says("--resume");
    assert_nothing_attached_soon(&place);
    assert_eq!(place.leftover_work(), Vec::<String>::new());
}

#[test]
fn kill_9_of_the_parent_leaves_nothing() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    place.write("mine.toml", &ON_EXT4.replace("transactions = 400", "transactions = 20_000"));
    let running = place.start(&["run", "mine.toml", "--out", "r.db"]);
    let worker = running.wait_for_child("worker");
    assert_ne!(attached(&place), Vec::<String>::new(), "the stack is up while the worker runs");
    running.kill();
    assert_eq!(running.end().code, None, "killed");
    assert_nothing_attached_soon(&place);
    // The worker ends with its parent.
    place::gone_soon(worker);
    // The results file is whole, and the experiment goes on.
    place.fathom(&["run", "mine.toml", "--out", "r.db", "--resume", "--plan"]).exits(0);
}

/// What a list says but for what other tests have killed before it was mounted: loop devices are
/// the machine's, and nothing tells whose these are until their guards have them.
fn without_others(place: &Place, listed: &str) -> String {
    let own = place.path("").file_name().unwrap().to_string_lossy().into_owned();
    let mut lines = listed.lines();
    let mut kept = String::new();
    while let Some(line) = lines.next() {
        if line.contains("left behind by process") && !line.contains(&own) {
            // And how it is removed.
            let _ = lines.next();
            continue;
        }
        kept.push_str(line);
        kept.push('\n');
    }
    kept
}

/// `stack list` advised `down --all` for what a killed command had left, which takes everybody's
/// stacks. And `down --leftovers` failed once over what the test beside this one had just killed,
/// in another state directory: that is left to the directory that knows it.
#[test]
fn leftovers_go_without_what_is_up() {
    let _alone = place::alone();
    let place = Place::new();
    let state = place.path("state").display().to_string();
    let fathom = |words: &str| {
        place.fathom_with(&words.split(' ').collect::<Vec<_>>(), &[("FATHOM_STATE_DIR", state.as_str())])
    };
    for name in ["lives", "killed"] {
        fathom(&format!("stack up --fs dir --dir . --name {name}")).exits(0);
    }
    // As if its maker had been killed before it was complete; and one killed before it had written
    // what it made.
    let entry = "state/stacks/named-killed/entry.json";
    let text = String::from_utf8(place.read(entry)).unwrap();
    let unfinished = text.replace("\"kept\": true", "\"kept\": false");
    assert_ne!(text, unfinished);
    place.write(entry, &unfinished);
    std::fs::create_dir_all(place.path("state/stacks/fathom-run-1-2-3/mnt")).unwrap();
    place.write("state/stacks/fathom-run-1-2-3/owner", "");
    let listed = without_others(&place, &fathom("stack list").stdout);
    let advice: Vec<&str> =
        listed.lines().filter_map(|line| line.split("remove it with:  ").nth(1)).collect();
    // Of what was never written nothing is there but its directory, which nobody has to remove.
    assert_eq!(advice, ["fathom stack down killed"], "{listed}");
    fathom("stack down --leftovers --all").exits(2);
    let end = fathom("stack down --leftovers");
    end.exits(0);
    assert!(end.stdout.contains("removed killed") && !end.stdout.contains("lives"), "{end}");
    assert!(!place.path("state/stacks/fathom-run-1-2-3").exists(), "{end}");
    let listed = without_others(&place, &fathom("stack list").stdout);
    assert!(listed.contains("lives") && !listed.contains("left behind"), "{listed}");
    fathom("stack down lives").exits(0);
}

#[test]
fn a_long_name_shifts_no_columns() {
    // What no state directory knows any more is listed, too.
    let _alone = place::alone();
    let place = Place::new();
    let state = place.path("state").display().to_string();
    let fathom = |words: &[&str]| place.fathom_with(words, &[("FATHOM_STATE_DIR", state.as_str())]);
    let names = ["a", "a-name-of-more-than-12-letters"];
    for name in names {
        fathom(&["stack", "up", "--fs", "dir", "--dir", ".", "--name", name]).exits(0);
    }
    let listed = without_others(&place, &fathom(&["stack", "list"]).stdout);
    let columns: Vec<_> = listed.lines().map(|line| line.find(" MiB  /")).collect();
    assert!(columns.len() == 2 && columns[0].is_some() && columns[0] == columns[1], "{listed}");
    for name in names {
        fathom(&["stack", "down", name]).exits(0);
    }
}

/// A program whose file may be removed: a copy of its own.
fn copied(place: &Place) -> std::path::PathBuf {
    let program = place.path("bin/fathom");
    std::fs::create_dir_all(program.parent().unwrap()).unwrap();
    place.copy_program("bin/fathom");
    program
}

fn run_of(program: &std::path::Path, place: &Place) -> std::process::Child {
    std::process::Command::new(program)
        .args(["run", "mine.toml", "--out", "r.db", "--dir", ".", "--quiet"])
        .current_dir(place.path(""))
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap()
}

fn wait_for_mount(child: &std::process::Child) {
    let begin = Instant::now();
    while place::mounts_by(child.id() as i32).is_empty() {
        assert!(begin.elapsed() < Duration::from_secs(90), "nothing is mounted");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// What could happen: an update of Fathom replaces its file while a run goes on. The guard of the
/// run's stack is that program again; were it looked for by its name, it would be another version,
/// or none, and after kill -9 everything would stay. The mend: it runs the file that its owner
/// runs.
#[test]
fn a_killed_run_leaves_nothing_although_its_program_was_replaced() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    place.write("mine.toml", &ON_EXT4.replace("400", "1_000_000"));
    let program = copied(&place);
    let mut child = run_of(&program, &place);
    wait_for_mount(&child);
    std::fs::remove_file(&program).unwrap();
    place.write("bin/fathom", "another program");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_nothing_attached_soon(&place);
    let process = child.id() as i32;
    let begin = Instant::now();
    while !place::mounts_by(process).is_empty() {
        assert!(begin.elapsed() < Duration::from_secs(90), "{:?}", place::mounts_by(process));
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The same for what is started after the file has gone: the next runs' guards and workers.
#[test]
fn a_run_goes_on_although_its_program_was_removed() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    place.write("mine.toml", ON_EXT4);
    let program = copied(&place);
    let mut child = run_of(&program, &place);
    wait_for_mount(&child);
    std::fs::remove_file(&program).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(place.rows("r.db", "SELECT count(*) FROM run WHERE status = 'done'"), "3");
    assert!(!place.rows("r.db", "SELECT stack FROM run").contains("no guard"), "each stack has its guard");
    assert_nothing_attached_soon(&place);
}
