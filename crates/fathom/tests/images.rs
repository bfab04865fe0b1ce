//! Images that are given and images that are kept: what was acknowledged is in them after the
//! device's server was killed. Needs root, mkfs.ext4 and, on modelled devices, /dev/fuse.

#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

mod place;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicI64, Ordering};

use fathom_stack::guest::Kernel;
use place::{Place, can_serve, named};
use rusqlite::Connection;

fn up(place: &Place, name: &str, more: &[&str]) -> PathBuf {
    let end = place.fathom(&[&["stack", "up", "--name", name, "--dir", "."], more].concat());
    end.exits(0);
    PathBuf::from(end.stdout.trim())
}

fn down(place: &Place, name: &str) -> String {
    let end = place.fathom(&["stack", "down", name]);
    end.exits(0);
    end.stdout
}

/// Of the stacks whose names begin so; other tests of this process have theirs.
fn nothing_is_up(place: &Place, tests: &[&str]) {
    let listed = place.fathom(&["stack", "list"]).stdout;
    let process = format!("-{} ", std::process::id());
    let left =
        |line: &&str| line.contains(&process) && tests.iter().any(|test| line.trim_start().starts_with(test));
    assert_eq!(listed.lines().find(left), None, "{listed}");
    assert!(!fs::read_to_string("/proc/mounts").unwrap().contains(&*place.path("").to_string_lossy()));
}

/// The process that serves the device whose image is this file.
fn server_of(image: &Path) -> i32 {
    let serves = |process: &fs::DirEntry| {
        let command = fs::read(process.path().join("cmdline")).unwrap_or_default();
        let files = fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten();
        command.ends_with(b"device-server\0")
            && files.filter_map(|fd| fs::read_link(fd.path()).ok()).any(|at| at == image)
    };
    let mut all = fs::read_dir("/proc").unwrap().flatten();
    all.find(serves).and_then(|entry| entry.file_name().to_str()?.parse().ok()).unwrap()
}

#[test]
fn what_was_acknowledged_is_in_the_image_after_the_server_was_killed() {
    let place = Place::new();
    if !can_serve(&place) {
        return;
    }
    for (number, mode) in ["delete", "wal", "delete", "wal"].into_iter().enumerate() {
        let (name, image) = (named(&format!("killed{number}")), format!("killed{number}.img"));
        let words = ["--fs", "ext4", "--size", "32", "--device", "none", "--keep", &image];
        let work = up(&place, &name, &words);
        let process = server_of(&place.path(&image).canonicalize().unwrap());
        let connection = Connection::open(work.join("test.db")).unwrap();
        // With a rollback journal a commit is its deletion, which only EXTRA makes durable: FULL
        // loses the last one at times.
        let set = format!(
            "PRAGMA journal_mode={mode}; PRAGMA synchronous=extra; CREATE TABLE t(id INTEGER PRIMARY KEY, text)"
        );
        connection.execute_batch(&set).unwrap();
        let acknowledged = AtomicI64::new(0);
        let error = std::thread::scope(|scope| {
            scope.spawn(|| {
                while acknowledged.load(Ordering::Acquire) < 20 + 7 * number as i64 {
                    std::thread::yield_now();
                }
                // SAFETY: kill takes integers.
                assert_eq!(unsafe { libc::kill(process, libc::SIGKILL) }, 0);
            });
            (1..).find_map(|id| {
                let sql = "INSERT INTO t VALUES(?1, hex(randomblob(300)))";
                let done = connection.execute(sql, [id]);
                done.inspect(|_| acknowledged.store(id, Ordering::Release)).err()
            })
        });
        println!("{mode}: {acknowledged:?} acknowledged, then {error:?}");
        let text = error.unwrap().to_string();
        assert!(["disk I/O error", "unable to open"].iter().any(|word| text.contains(word)), "{text}");
        drop(connection);
        assert!(down(&place, &name).contains(&image), "where it is, is told");

        // Mounting it replays the journal; the second mount is of the copy's copy, without a
        // device.
        let again = named(&format!("again{number}"));
        let work = up(&place, &again, &["--image", &image]);
        let connection = Connection::open(work.join("test.db")).unwrap();
        let whole: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        let last: i64 =
            connection.query_row("SELECT coalesce(max(id), 0) FROM t", [], |row| row.get(0)).unwrap();
        assert_eq!(whole, "ok");
        let acknowledged = acknowledged.into_inner();
        assert!(
            (acknowledged..=acknowledged + 1).contains(&last),
            "{mode}: {acknowledged} acknowledged, {last} found"
        );
        drop(connection);
        down(&place, &again);
        let check = Command::new("e2fsck").args(["-fy"]).arg(place.path(&image)).output().unwrap();
        assert!(
            check.status.code().is_some_and(|code| code <= 1),
            "{}",
            String::from_utf8_lossy(&check.stdout)
        );
    }
    nothing_is_up(&place, &["killed", "again"]);
}

#[test]
fn a_stack_begins_with_a_copy_of_an_image() {
    let place = Place::new();
    if !can_serve(&place) {
        return;
    }
    let name = named("first");
    let work = up(&place, &name, &["--fs", "ext4", "--size", "16", "--keep", "first.img"]);
    fs::write(work.join("kept"), "text").unwrap();
    down(&place, &name);
    let before = place.read("first.img");
    for more in [&["--image", "first.img"][..], &["--image", "first.img", "--device", "none"]] {
        let work = up(&place, &name, more);
        assert_eq!(fs::read_to_string(work.join("kept")).unwrap(), "text", "{more:?}");
        fs::write(work.join("kept"), "changed").unwrap();
        let status = place.fathom(&["stack", "list", "--json"]).stdout;
        assert!(status.contains("copy of first.img"), "{status}");
        assert!(down(&place, &name).contains("its image is gone"));
    }
    assert!(place.read("first.img") == before, "what was given is left alone");

    // Each run of an experiment begins with it as well.
    place.write(
        "begun.toml",
        "name = \"begun\"\ntitle = \"begun\"\nquestion = \"?\"\nrepeats = 2\n\
         [workload]\nname = \"mobibench-sql\"\ntransactions = 5\ntables = 1\n[engine]\nname = \"sqlite\"\n\
         [stack]\nfilesystem = \"ext4\"\nimage = \"first.img\"\n",
    );
    place.fathom(&["run", "begun.toml", "--out", "out.db", "--dir", "."]).exits(0);
    let made = "SELECT count(*) FROM run WHERE status = 'done' AND json_extract(stack, '$.mkfs') = 'copy of first.img'";
    assert_eq!(place.rows("out.db", made), "2");
    assert!(place.read("first.img") == before);

    // What happened: another image of the same name was "1.5x faster" without a word.
    fs::rename(place.path("first.img"), place.path("small.img")).unwrap();
    up(&place, &name, &["--fs", "ext4", "--size", "32", "--keep", "first.img"]);
    down(&place, &name);
    place.fathom(&["run", "begun.toml", "--out", "other.db", "--dir", "."]).exits(0);
    let compared = place.fathom(&["compare", "out.db", "other.db", "--json"]);
    compared.exits(0);
    for words in
        ["ran on something else in B", "image size: 16777216 bytes in A, 33554432 bytes in B", "image UUID: "]
    {
        assert!(compared.stdout.contains(words), "{words}: {compared}");
    }
    place.fathom(&["run", "begun.toml", "--out", "again.db", "--dir", "."]).exits(0);
    let same = place.fathom(&["compare", "other.db", "again.db", "--json"]);
    same.exits(0);
    assert!(!same.stdout.contains("ran on something else"), "{same}");
    nothing_is_up(&place, &["first"]);
}

/// A copy of what is being written is of no one moment, and was made without a word.
#[test]
fn an_image_that_is_mounted_is_not_begun_with() {
    let place = Place::new();
    if !can_serve(&place) {
        return;
    }
    let (name, other) = (named("mounted"), named("copied"));
    let copy = ["stack", "up", "--name", &other, "--dir", ".", "--image", "mounted.img"];
    for device in [&["--device", "none"][..], &[]] {
        let words = [&["--fs", "ext4", "--size", "16", "--keep", "mounted.img"], device].concat();
        up(&place, &name, &words);
        place.fathom(&copy).exits(2).says("mounted.img").says(&format!("stack down {name}"));
        down(&place, &name);
        up(&place, &other, &copy[6..]);
        down(&place, &other);
        // Attached by somebody else.
        let attached = Command::new("losetup").args(["-f", "--show"]).arg(place.path("mounted.img")).output();
        let attached = String::from_utf8(attached.unwrap().stdout).unwrap();
        place.fathom(&copy).exits(2).says(&format!("{} writes it", attached.trim()));
        assert!(Command::new("losetup").args(["-d", attached.trim()]).status().unwrap().success());
        fs::remove_file(place.path("mounted.img")).unwrap();
    }
    // Nor is it told of where it is not.
    up(&place, &name, &["--fs", "ext4", "--size", "16", "--keep", "mounted.img"]);
    fs::remove_file(place.path("mounted.img")).unwrap();
    assert!(down(&place, &name).contains("mounted.img is not there any more"));
    nothing_is_up(&place, &["mounted", "copied"]);
}

/// Ctrl-C said nothing and left the image, so that the same command failed.
#[test]
fn a_stack_that_was_stopped_on_its_way_up_leaves_no_files() {
    let place = Place::new();
    if !can_serve(&place) {
        return;
    }
    let name = named("stopped");
    let words =
        ["stack", "up", "--fs", "ext4", "--size", "512", "--name", &name, "--dir", ".", "--device", "none"];
    let words = [&words[..], &["--keep", "stopped.img", "--operations", "stopped.ops", "--capture"]].concat();
    let files = ["stopped.img", "stopped.ops", "stopped.ops.data"];
    // What happened: on a busy machine the signal came when the stack was complete. Who is so late
    // begins again.
    let is_stopped_on_its_way = || {
        let running = place.start(&words);
        running
            .holds_before_its_end(|| files.iter().all(|file| place.path(file).exists()) && running.listens());
        running.interrupt();
        let end = running.end();
        let is_late = end.code == Some(0);
        if is_late {
            down(&place, &name);
            files.iter().for_each(|file| fs::remove_file(place.path(file)).unwrap());
        } else {
            end.ends_by(libc::SIGINT).says("Stopped").says("is being removed");
        }
        !is_late
    };
    let stopped = || assert!((0..20).any(|_| is_stopped_on_its_way()), "it was complete each time");
    stopped();
    let begin = std::time::Instant::now();
    while files.iter().any(|file| place.path(file).exists()) {
        assert!(begin.elapsed() < std::time::Duration::from_secs(60), "{:?}", place.files());
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    let left = || place.fathom(&["stack", "list"]).stdout.contains(&name);
    while left() {
        assert!(begin.elapsed() < std::time::Duration::from_secs(60), "{name} is still there");
    }
    stopped();
    // What happened: the same command, given again while the files of the stopped one were just
    // being removed, was told that they are "another stack's: name another file". And what is
    // complete stays.
    place.fathom(&words).exits(0);
    down(&place, &name);
    assert!(files.iter().all(|file| place.path(file).exists()), "{:?}", place.files());
}

#[test]
fn a_guest_mounts_an_image_that_was_kept() {
    let place = Place::new();
    if Kernel::cached().is_none() || !Path::new("/usr/sbin/mkfs.f2fs").exists() || !can_serve(&place) {
        return println!("SKIP: needs a guest kernel (`fathom stack kernel` builds it) and mkfs.f2fs");
    }
    let name = named("guest");
    let work = up(
        &place,
        &name,
        &["--fs", "f2fs", "--size", "64", "--device", "none", "--keep", "card.img", "--guest"],
    );
    fs::write(work.join("kept"), "text").unwrap();
    File::open(work.join("kept")).unwrap().sync_all().unwrap();
    down(&place, &name);
    let work = up(&place, &name, &["--image", "card.img", "--guest"]);
    assert_eq!(fs::read_to_string(work.join("kept")).unwrap(), "text");
    down(&place, &name);
}

#[test]
fn what_cannot_be_begun_with_or_kept_is_refused() {
    let place = Place::new();
    if !can_serve(&place) {
        return;
    }
    place.write("text.img", "no image\n");
    place.write("there.img", "precious");
    fs::create_dir(place.path("directory")).unwrap();
    assert!(Command::new("mkfifo").arg(place.path("pipe")).status().unwrap().success());
    let made = |path: &str, mib: u64| {
        File::create(place.path(path)).unwrap().set_len(mib << 20).unwrap();
        assert!(Command::new("mke2fs").args(["-q", "-F"]).arg(place.path(path)).status().unwrap().success());
    };
    made("good.img", 16);
    made("short.img", 16);
    File::options().write(true).open(place.path("short.img")).unwrap().set_len(8 << 20).unwrap();
    made("odd.img", 16);
    File::options().write(true).open(place.path("odd.img")).unwrap().set_len((16 << 20) + 100).unwrap();
    made("fine.img", 16);
    File::options().write(true).open(place.path("fine.img")).unwrap().set_len((16 << 20) + 512).unwrap();
    let name = named("refused");
    let cases: [(&[&str], &[&str]); 14] = [
        (&["--image", "none.img"], &["none.img", "No such file"]),
        (&["--image", "directory"], &["no file", "dd if="]),
        (&["--image", "pipe"], &["no file"]),
        (&["--image", "text.img"], &["text.img", "no file system that is known"]),
        (&["--image", "short.img"], &["cut off", "16777216", "8388608"]),
        (&["--image", "odd.img"], &["no multiple of a sector's 512"]),
        (&["--image", "good.img", "--fs", "xfs"], &["it holds ext2 or ext4, not xfs"]),
        (&["--image", "good.img", "--mkfs", "-O"], &["--mkfs:", "leave it out"]),
        (&["--image", "good.img", "--log", "8"], &["--log:", "leave it out"]),
        (&["--image", "fine.img", "--device", "ufs-fresh"], &["sectors of 4096 bytes", "no multiple"]),
        (&["--image", "good.img", "--size", "16"], &["--size"]),
        (&["--keep", "there.img"], &["there.img exists"]),
        (&["--fs", "dir", "--keep", "new.img"], &["a directory has no image"]),
        (&["--keep", "new.img", "--log", "8"], &["external log would go", "leave out"]),
    ];
    for (words, parts) in cases {
        let end = place.fathom(&[&["stack", "up", "--name", &name, "--dir", "."], words].concat());
        end.exits(2);
        for part in parts {
            end.says(part);
        }
    }
    // In words of the command line, not of experiment files.
    let cases: [(&[&str], &str); 6] = [
        (&["--log", "0"], "--log: 0 MiB is out of range"),
        (&["--size", "0"], "--size: an image of 0 MiB is too small for ext4: it needs at least 16 MiB"),
        (&["--log-device", "none"], "give --log and --device as well"),
        (&["--fault", "gone"], "--fault: only a modelled device fails on demand: name one with --device"),
        (&["--fs", "dir", "--log", "8"], "--log: has no meaning for --fs dir"),
        (&["--size", "16777216"], "a smaller --size (at least 16 for ext4)"),
    ];
    for (words, part) in cases {
        let end = place.fathom(&[&["stack", "up", "--name", &name, "--dir", "."], words].concat());
        end.fails().says(part);
        assert!(!end.stderr.contains("_mib") && !end.stderr.contains("stack:"), "{end}");
    }
    assert!(place.fathom(&["stack", "--help"]).stdout.contains("needs root or a guest kernel"));
    assert_eq!(place.read("there.img"), b"precious");
    // What is not complete is not kept.
    let words = ["--size", "16", "--mount", "nonsense=1", "--keep", "new.img"];
    place.fathom(&[&["stack", "up", "--name", &name, "--dir", "."], &words[..]].concat()).exits(1);
    place
        .fathom(&["stack", "up", "--name", &name, "--dir", "none", "--size", "16", "--keep", "new.img"])
        .exits(1);
    assert!(!place.path("new.img").exists());
    // Nor is its log, so that the same command may be given again.
    let words = ["--device", "none", "--operations", "new.ops", "--capture"];
    for _ in 0..2 {
        let failing = ["stack", "up", "--name", &name, "--dir", ".", "--size", "16", "--mount", "nonsense=1"];
        let end = place.fathom(&[&failing[..], &words].concat());
        end.exits(1).says("nonsense");
        assert!(!place.path("new.ops").exists() && !place.path("new.ops.data").exists(), "{end}");
    }
    place.write("new.ops.data", "precious");
    let end =
        place.fathom(&[&["stack", "up", "--name", &name, "--dir", ".", "--size", "16"][..], &words].concat());
    end.exits(2).says("new.ops.data exists");
    assert_eq!(place.read("new.ops.data"), b"precious");
    let cases = [
        ("filesystem = \"ext4\"\nkeep = \"new.img\"", "the stack has no key `keep`"),
        ("filesystem = \"ext4\"\nimage = \"text.img\"", "no file system that is known"),
        ("filesystem = \"xfs\"\nimage = \"good.img\"", "it holds ext2 or ext4, not xfs"),
        ("filesystem = \"ext4\"\nmkfs = [\"-O\", \"^64bit\"]\nimage = \"good.img\"", "leave it out"),
        ("filesystem = \"dir\"\nimage = \"good.img\"", "\"dir\""),
    ];
    for (keys, part) in cases {
        let text = format!(
            "name = \"begun\"\ntitle = \"begun\"\nquestion = \"?\"\n[workload]\nname = \"mobibench-sql\"\n[engine]\nname = \"sqlite\"\n[stack]\n{keys}\n"
        );
        place.write("bad.toml", &text);
        // With the line and what stands there.
        place.fathom(&["run", "bad.toml", "--dir", "."]).exits(2).says("bad.toml:1").says(part);
    }
    assert!(!place.path("new.img").exists());
    nothing_is_up(&place, &["refused"]);
}

/// `stack age` fills a file system and leaves its free space in pieces; the same seed makes the
/// same, and the image that is kept is what a run begins with.
#[test]
fn a_file_system_is_aged_and_kept() {
    let place = Place::new();
    if !fathom_ground::system::is_root() {
        return;
    }
    let aged = |name: &str, image: &str, seed: &str| {
        let name = named(name);
        up(&place, &name, &["--fs", "ext4", "--size", "64", "--keep", image]);
        let end =
            place.fathom(&["stack", "age", &name, "--used", "70", "--rounds", "2", "--seed", seed, "--json"]);
        end.exits(0);
        // It is aged once.
        let again = place.fathom(&["stack", "age", &name]);
        again.exits(2);
        assert!(again.stderr.contains("aged already"), "{}", again.stderr);
        down(&place, &name);
        serde_json::from_str::<serde_json::Value>(&end.stdout).unwrap()
    };
    let first = aged("aged1", "aged1.img", "7");
    let used = first["used"].as_f64().unwrap();
    assert!((0.6..=0.72).contains(&used), "{first}");
    let extents = |aged: &serde_json::Value, key: &str| aged[key].as_u64().unwrap();
    assert!(extents(&first, "extents_after") > 2 * extents(&first, "extents_before"), "{first}");
    assert_eq!(first["written_files"], aged("aged2", "aged2.img", "7")["written_files"]);
    assert_ne!(first["written_files"], aged("aged3", "aged3.img", "8")["written_files"]);
    // What was made is in the image.
    let name = named("aged4");
    let work = up(&place, &name, &["--image", "aged1.img"]);
    let files = fs::read_dir(work.join("aged")).unwrap().flatten();
    let count: usize = files.map(|entry| fs::read_dir(entry.path()).map_or(0, Iterator::count)).sum();
    assert_eq!(count as u64, extents(&first, "files"));
    down(&place, &name);
    let unknown = place.fathom(&["stack", "age", "no-such-stack"]);
    unknown.exits(2);
    assert!(unknown.stderr.contains("no stack is called"), "{}", unknown.stderr);
    nothing_is_up(&place, &["aged"]);
}

/// A stack that is a directory lies on a file system of the user's, which is not to be filled.
#[test]
fn a_directory_is_not_aged() {
    let place = Place::new();
    let name = named("precious");
    let end = place.fathom(&["stack", "up", "--fs", "dir", "--name", &name, "--dir", "."]);
    if end.code != Some(0) {
        return;
    }
    let aged = place.fathom(&["stack", "age", &name]);
    aged.exits(2);
    assert!(aged.stderr.contains("would be filled"), "{}", aged.stderr);
    down(&place, &name);
}
