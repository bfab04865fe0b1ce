//! What stays of `fathom advise` when it is stopped, or a disk is full. Needs root, mkfs.ext4 and
//! /dev/fuse.

#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

mod place;

use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};

use place::{Place, can_serve};

fn application(place: &Place) {
    let rows: String = (0..30).map(|id| format!("INSERT INTO t VALUES ({id}, 'x');\n")).collect();
    place.write("app.sql", &format!("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT);\n{rows}"));
    place.fathom(&["trace", "import", "app.sql", "--out", "app.trace"]).exits(0);
}

/// What happened: Ctrl-C during the live runs threw the finished answer away, and was answered
/// after eight seconds in which nothing was said, for mkfs, the floor and the unmount went on at
/// the pace of the device; Ctrl-C before that left a half `--out`, of which it had been said that
/// it was removed; a trace that was written anew with the same bytes "had changed"; and a FIFO
/// without a reader heard no first Ctrl-C.
#[test]
fn a_signal_takes_no_answer_away_and_leaves_what_is_said() {
    let place = Place::new();
    if !can_serve(&place) {
        return;
    }
    application(&place);
    let words = ["advise", "app.trace", "--device", "emmc-51", "--repeat", "2", "--out", "out.db"];
    let before = place.files();
    let temporary = place.path("temporary");
    let variable = [("TMPDIR", temporary.to_str().unwrap())];
    let holds = |end: &str| {
        let inside = |directory: std::fs::DirEntry| std::fs::read_dir(directory.path()).into_iter().flatten();
        let files = std::fs::read_dir(&temporary).unwrap().flatten().flat_map(inside).flatten();
        files.map(|file| file.file_name()).any(|name| name.as_bytes().starts_with(end.as_bytes()))
    };
    // While there is this file. Who is so late, on a busy machine, that all is answered begins
    // again.
    let stopped_at = |words: &[&str], file: &str| {
        let in_time = || {
            std::fs::create_dir(&temporary).unwrap();
            let running = place.start_with(words, &variable);
            running.holds_before_its_end(|| holds(file));
            running.interrupt();
            let end = running.end();
            std::fs::remove_dir(&temporary).unwrap();
            let is_late = end.code == Some(0);
            for made in place.files().iter().filter(|made| is_late && !before.contains(made)) {
                std::fs::remove_file(place.path(made)).unwrap();
            }
            (!is_late).then_some(end)
        };
        (0..10).find_map(|_| in_time()).expect("all was answered each time")
    };
    // In the last round.
    let end = stopped_at(&words, "last.db");
    assert!(end.code.is_none() && end.stderr.contains("there is no advice"), "{end}");
    assert_eq!(place.files(), before);
    // In the live runs: the answer of the simulation is there, and what it rests on.
    let end = stopped_at(&[&words[..], &["--live", "--cut"]].concat(), "live-0.db");
    assert!(end.code.is_none() && end.stdout.contains("PRAGMA"), "{end}");
    assert!(end.stderr.contains("Stopping: ") && end.stderr.contains("a second Ctrl-C"), "{end}");
    for says in ["The live runs: stopped by a signal", "The exploration of power cuts: stopped"] {
        let told = end.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(told.contains(says), "{says}: {end}");
    }
    place.fathom(&["report", "out.db"]).exits(0);
    // The same bytes are the same trace.
    let bytes = place.read("app.trace");
    std::fs::remove_file(place.path("app.trace")).unwrap();
    place.write_bytes("app.trace", &bytes);
    let again = ["advise", "out.db", "--device", "sd-slow", "--must", "prefix"];
    let end = place.fathom(&again);
    end.exits(0).says("what is missing is recorded now");
    assert!(!end.stdout.contains("has changed"), "{end}");
    // Other bytes are not.
    place.write("app.sql", "CREATE TABLE t (a); INSERT INTO t VALUES (1);");
    place.fathom(&["trace", "import", "app.sql", "--out", "app.trace"]).exits(0);
    let end = place.fathom(&again);
    let told = end.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(told.contains("has changed"), "{end}");
    // A FIFO without a reader, at the first signal.
    let name = std::ffi::CString::new(place.path("pipe").as_os_str().as_bytes()).unwrap();
    // SAFETY: the name ends with a zero byte and outlives the call.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    let running = place.start(&["advise", "out.db", "--device", "emmc-51", "--html", "pipe"]);
    // What happened: three seconds were not enough on a busy machine, and the answer was not there.
    running.wait_until(|| running.said().contains("waiting for its reader"));
    running.signal(libc::SIGTERM);
    let end = running.end();
    assert!(end.code.is_none() && end.stderr.contains("waiting for its reader"), "{end}");
}

/// As `fathom` with `small` a disk of so much space, which only it sees.
fn on_a_small_disk(place: &Place, size: &str, words: &str) -> Output {
    let fathom = env!("CARGO_BIN_EXE_fathom");
    let script = format!("mount -t tmpfs -o size={size} small small && {words}")
        .replace("fathom ", &format!("{fathom} "));
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &script]).current_dir(place.path(""));
    command.env("FATHOM_STATE_DIR", place.path("state")).output().unwrap()
}

/// What happened: "Finished runs are kept; go on with --resume", where nothing is kept and advice
/// has no `--resume`; "use a smaller `size_mib`", which it has not either; and a full disk under
/// `--out` lost the answer and left parts of the file.
#[test]
fn a_full_disk_is_told_with_its_place_and_a_remedy_that_there_is() {
    let place = Place::new();
    if !can_serve(&place) {
        return;
    }
    application(&place);
    std::fs::create_dir(place.path("small")).unwrap();
    let advise = "fathom advise app.trace --device emmc-51 --repeat 1";
    for (size, words, says, has_answer) in [
        ("30m", format!("{advise} --dir small"), "--dir", false),
        ("200k", format!("TMPDIR=small {advise}"), "TMPDIR=DIR", false),
        (
            "64k",
            format!("{advise} --out small/o.db; code=$?; ls small >&2; exit $code"),
            "--out small/o.db",
            true,
        ),
    ] {
        let end = on_a_small_disk(&place, size, &words);
        let (text, told) = (String::from_utf8_lossy(&end.stdout), String::from_utf8_lossy(&end.stderr));
        assert_eq!(end.status.code(), Some(1), "{words}: {:?} {text}{told}", end.status.signal());
        assert!(told.contains(says) && told.contains("small"), "{words}: {told}");
        for wrong in ["--resume", "size_mib", "o.db-wal", "\no.db\n"] {
            assert!(!told.contains(wrong), "{words}: {wrong}: {told}");
        }
        assert_eq!(text.contains("PRAGMA"), has_answer, "{words}: {text}{told}");
    }
}
