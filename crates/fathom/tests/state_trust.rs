//! What a state directory says is removed, and so it is believed only from its owner, and in what
//! it can prove.
//!
//! Without `HOME` and `XDG_STATE_HOME` a user's list of stacks was `$TMPDIR/fathom`, which anybody
//! could make first. An outsider, as the user nobody, put an entry there whose `work` was another
//! user's directory, with the number of an ended process as its owner. That user's next `fathom
//! run` said "Removed what a killed run had left: replay" and ended with 0, and his documents were
//! gone, from a home that nobody else could enter. A damaged entry in one's own state directory did
//! the same at `stack down --all`. Now a state directory that others own or may write is refused
//! with the remedy, the one in the temporary directory has the user's number in its name, and an
//! entry's paths are removed only where they are what Fathom itself has made.

#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

mod place;

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use place::Place;
use serde_json::{Value, json};

const VICTIM: u32 = 64_999;
const NOBODY: u32 = 65_534;

fn is_root() -> bool {
    // SAFETY: geteuid takes nothing and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

fn mode(path: &Path, bits: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(bits)).unwrap();
}

/// Gives a tree to a user.
fn give(path: &Path, user: u32) {
    let given = Command::new("chown").arg("-Rh").arg(user.to_string()).arg(path).status();
    assert!(given.unwrap().success());
}

fn shown(end: &Output) -> String {
    format!(
        "{:?}: {}{}",
        end.status,
        String::from_utf8_lossy(&end.stdout),
        String::from_utf8_lossy(&end.stderr)
    )
}

/// The entry of a real stack of this place, `stack up --fs dir --name lab`, as if its maker had
/// been killed before it was complete.
fn real_entry(place: &Place, state: &str) -> Value {
    let variables = [("FATHOM_STATE_DIR", state)];
    place.fathom_with(&["stack", "up", "--fs", "dir", "--dir", ".", "--name", "lab"], &variables).exits(0);
    let text = fs::read(Path::new(state).join("stacks/named-lab/entry.json")).unwrap();
    let mut entry: Value = serde_json::from_slice(&text).unwrap();
    entry["kept"] = json!(false);
    entry
}

#[test]
fn an_entry_that_another_user_has_put_there_removes_nothing() {
    if !is_root()
        || !Command::new("setpriv").arg("--version").output().is_ok_and(|output| output.status.success())
    {
        println!("SKIP: another user's place needs root and setpriv");
        return;
    }
    let place = Place::new();
    mode(&place.path(""), 0o755);
    for directory in ["tmp", "home/docs", "own"] {
        fs::create_dir_all(place.path(directory)).unwrap();
    }
    mode(&place.path("tmp"), 0o1777);
    place.copy_program("own/fathom");
    place.write("home/docs/thesis.txt", "years of work");
    place.write("home/tiny.toml", "name = \"tiny\"\nrepeats = 1\n[workload]\nname = \"update\"\nrows = 100\n[engine]\nname = \"sqlite\"\n");

    let state = place.path("state").display().to_string();
    let mut entry = real_entry(&place, &state);
    place.fathom_with(&["stack", "down", "lab"], &[("FATHOM_STATE_DIR", state.as_str())]).exits(0);
    let tag = "fathom-replay-4000000-528924-0";
    entry["name"] = Value::Null;
    entry["tag"] = json!(tag);
    entry["work"] = json!(place.path("home/docs"));
    // Both the name that was everybody's and the one that is the victim's.
    for name in ["fathom".to_owned(), format!("fathom-{VICTIM}")] {
        let home = place.path("tmp").join(&name).join("stacks").join(tag);
        fs::create_dir_all(home.join("mnt")).unwrap();
        fs::write(home.join("entry.json"), entry.to_string()).unwrap();
        fs::write(home.join("owner"), "").unwrap();
        let opened = Command::new("chmod").args(["-R", "777"]).arg(place.path("tmp").join(&name)).status();
        assert!(opened.unwrap().success());
        give(&place.path("tmp").join(&name), NOBODY);
    }
    give(&place.path("home"), VICTIM);
    mode(&place.path("home"), 0o700);

    let as_victim = |words: &[&str]| {
        let user = [format!("--reuid={VICTIM}"), format!("--regid={VICTIM}")];
        Command::new("setpriv")
            .args(user)
            .arg("--clear-groups")
            .arg(place.path("own/fathom"))
            .args(words)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("TMPDIR", place.path("tmp"))
            .current_dir(place.path("home"))
            .stdin(Stdio::null())
            .output()
            .unwrap()
    };
    for words in [&["run", "tiny.toml", "--out", "a.db", "-q"][..], &["stack", "down", "--all"]] {
        let end = as_victim(words);
        assert_eq!(place.read("home/docs/thesis.txt"), b"years of work", "{words:?}: {}", shown(&end));
        let said = String::from_utf8_lossy(&end.stderr);
        assert_eq!(end.status.code(), Some(1), "{words:?}: {}", shown(&end));
        for part in ["belongs to another user", "FATHOM_STATE_DIR="] {
            assert!(said.contains(part), "{words:?}: {part}: {said}");
        }
    }
    assert!(!place.path("home/a.db").exists(), "refused before anything is made");
    // The remedy, and a temporary directory in which nobody was first.
    fs::remove_dir_all(place.path("tmp").join(format!("fathom-{VICTIM}"))).unwrap();
    let end = as_victim(&["run", "tiny.toml", "--out", "a.db", "-q"]);
    assert!(end.status.success(), "{}", shown(&end));
    let made = fs::metadata(place.path("tmp").join(format!("fathom-{VICTIM}"))).unwrap();
    assert_eq!(made.permissions().mode() & 0o7777, 0o700, "nobody else looks into it");
}

#[test]
fn a_damaged_entry_of_ones_own_removes_nothing_that_it_did_not_make() {
    let place = Place::new();
    let state = place.path("state").display().to_string();
    let home = place.path("state/stacks/named-lab");
    let entry = real_entry(&place, &state);
    let path = home.join("entry.json");
    let work = std::path::PathBuf::from(entry["work"].as_str().unwrap());
    fs::create_dir(place.path("docs")).unwrap();
    place.write("docs/thesis.txt", "years of work");
    let with = |key: &str, value: Value| {
        let mut entry = entry.clone();
        match key.strip_prefix("spec.") {
            Some(key) => entry["spec"][key] = value,
            None => entry[key] = value,
        }
        entry
    };
    let tag = entry["tag"].as_str().unwrap();
    for (damaged, why) in [
        (with("work", json!(place.path("docs"))), "working directory, which Fathom has not made"),
        (with("work", json!(work.join("..").join("docs"))), "working directory, which Fathom has not made"),
        (with("directory", json!(place.path("docs"))), "working directory, which Fathom has not made"),
        (with("directory", json!("docs")), "no whole path"),
        (with("tag", json!("docs")), "so not of this place"),
        (with("tag", json!(format!("{tag}/../docs"))), "so not of this place"),
        (with("name", json!("other")), "so not of this place"),
        (with("spec.keep", json!(place.path("docs/thesis.txt"))), "another than was made for it"),
        (with("spec.operations", json!(place.path("docs/thesis.txt"))), "another than was made for it"),
    ] {
        fs::write(&path, damaged.to_string()).unwrap();
        let end = place.fathom_with(&["stack", "down", "--all"], &[("FATHOM_STATE_DIR", state.as_str())]);
        assert_eq!(place.read("docs/thesis.txt"), b"years of work", "{damaged}: {end}");
        assert!(work.is_dir() && path.exists(), "all or nothing: {damaged}: {end}");
        end.exits(1).says(why).says("left as it is");
        place
            .fathom_with(&["stack", "down", "lab"], &[("FATHOM_STATE_DIR", state.as_str())])
            .exits(1)
            .says(why);
    }
    // A link in the place of the directory leads elsewhere, and is nothing that was made.
    fs::write(&path, entry.to_string()).unwrap();
    fs::remove_dir(&work).unwrap();
    symlink(place.path("docs"), &work).unwrap();
    let down = || place.fathom_with(&["stack", "down", "--all"], &[("FATHOM_STATE_DIR", state.as_str())]);
    down().exits(1).says("no directory of this user's");
    fs::remove_file(&work).unwrap();
    // Another's directory of that name, and another's entry.
    if is_root() {
        fs::create_dir(&work).unwrap();
        chown(&work, Some(NOBODY), None).unwrap();
        // The place is root's.
        down().exits(1).says("no directory of this user's");
        chown(&work, Some(0), None).unwrap();
        for other in [&home, &path] {
            chown(other, Some(NOBODY), None).unwrap();
            down().exits(1).says("belongs to another user");
            chown(other, Some(0), None).unwrap();
        }
    }
    mode(&path, 0o666);
    down().exits(1).says("may be written by others");
    mode(&path, 0o644);
    let end = down();
    end.exits(0).says("");
    assert!(!home.exists() && !work.exists(), "what it did make goes: {end}");
    assert_eq!(place.read("docs/thesis.txt"), b"years of work");
}

/// What happened: with `ulimit -n 6` a run could not lock its new entry, and left the directory of
/// it. The mend: what was begun of an entry is removed at once; should even that fail, the next
/// command removes it and calls it by its name.
#[test]
fn a_stack_that_cannot_be_written_down_leaves_nothing() {
    let place = Place::new();
    let state = place.path("state").display().to_string();
    let variables = [("FATHOM_STATE_DIR", state.as_str())];
    for files in 4..20 {
        let script = format!("ulimit -n {files}; exec \"$0\" stack up --fs dir --dir . --name lab");
        let up = Command::new("sh")
            .args(["-c", &script, env!("CARGO_BIN_EXE_fathom")])
            .current_dir(place.path(""))
            .env("FATHOM_STATE_DIR", &state)
            .output()
            .unwrap();
        if !up.status.success() {
            let left: Vec<_> =
                fs::read_dir(place.path("state/stacks")).into_iter().flatten().flatten().collect();
            assert!(left.is_empty(), "{files} files: {left:?}: {}", shown(&up));
        }
        let down = place.fathom_with(&["stack", "down", "--all"], &variables);
        down.exits(0);
        assert!(down.stdout.lines().all(|line| line != "removed "), "{down}");
    }
}

/// What happened: while `fathom run --trace` worked, the application's databases, made again from
/// its trace, lay in a directory that everybody could enter and in files that everybody could read.
/// `trace replay` kept them to itself, and `run` did not. The mend: what is worked in is the user's
/// alone, and the worker's files are, too.
#[test]
fn nobody_else_reads_what_a_run_of_a_trace_works_on() {
    let place = Place::new();
    fs::create_dir(place.path("disk")).unwrap();
    place.write("mine.toml", "name = \"mine\"\nrepeats = 2\n[workload]\nname = \"trace\"\nprofile = \"gmail\"\n[engine]\nname = \"sqlite\"\n");
    let disk = place.path("disk");
    let shows_a_database = || {
        let mut is_shown = false;
        for work in fs::read_dir(&disk).unwrap().flatten() {
            for at in [work.path()]
                .into_iter()
                .chain(fs::read_dir(work.path()).into_iter().flatten().flatten().map(|file| file.path()))
            {
                // The floor probe's own file holds zeros.
                let name = at.file_name().unwrap().to_string_lossy();
                if at != work.path() && !name.contains(".db") {
                    continue;
                }
                let Ok(about) = fs::metadata(&at) else { continue };
                assert_eq!(about.permissions().mode() & 0o077, 0, "{}: {about:?}", at.display());
                is_shown |= at.extension().is_some_and(|end| end == "db");
            }
        }
        is_shown
    };
    // Who comes too late, on a busy machine, finds nothing any more and begins again.
    let is_seen = (0..10).any(|number| {
        let out = format!("r{number}.db");
        let running = place.start(&["run", "mine.toml", "--dir", "disk", "--out", &out, "-q"]);
        let is_seen = running.holds_before_its_end(&shows_a_database);
        running.end().exits(0);
        is_seen
    });
    assert!(is_seen, "no database was seen in {}", disk.display());
}
