//! `fathom stack up` on file systems that only the guest kernel has: mounted here, for any program.
//! Skipped where no guest kernel was built: `fathom stack kernel`.

#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

mod place;

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use fathom_stack::guest::Kernel;
use place::{Place, lives};
use rusqlite::Connection;

/// What is enough for a guest to be ended and for a mount to be taken away.
const SOON: Duration = Duration::from_secs(90);

fn can_mount(mkfs: &str) -> bool {
    let missing = [
        (Kernel::cached().is_none(), "there is no guest kernel (`fathom stack kernel` builds it)".to_owned()),
        (!fathom_ground::system::is_root(), "not root".to_owned()),
        (!Path::new("/dev/fuse").exists(), "there is no /dev/fuse".to_owned()),
        (
            !["/usr/sbin", "/sbin", "/usr/bin"]
                .iter()
                .any(|directory| Path::new(directory).join(mkfs).exists()),
            format!("{mkfs} is not installed"),
        ),
    ];
    let missing: Vec<_> = missing.into_iter().filter(|pair| pair.0).map(|pair| pair.1).collect();
    if !missing.is_empty() {
        println!("SKIP: {}", missing.join("; "));
    }
    missing.is_empty()
}

/// A stack that is up; dropped, it is taken down, whatever a test has found.
struct Up<'a> {
    place: &'a Place,
    name: String,
    work: PathBuf,
}

impl<'a> Up<'a> {
    fn of(place: &'a Place, test: &str, filesystem: &str, device: &str) -> Up<'a> {
        // All tests share the list of stacks.
        let name = format!("{test}-{}", std::process::id());
        let words =
            ["stack", "up", "--guest", "--fs", filesystem, "--size", "192", "--dir", ".", "--name", &name];
        let end = place.fathom(&[&words[..], &["--device", device]].concat());
        end.exits(0);
        Up { place, name, work: PathBuf::from(end.stdout.trim()) }
    }

    fn status(&self) -> serde_json::Value {
        let end = self.place.fathom(&["stack", "status", &self.name, "--json"]);
        end.exits(0);
        serde_json::from_str(&end.stdout).unwrap()
    }

    fn flushes(&self) -> u64 {
        self.status()["kinds"]["flush"]["operations"].as_u64().unwrap()
    }

    /// The directory of what the guest's kernel keeps while it runs.
    fn state(&self) -> PathBuf {
        self.work.ancestors().nth(2).unwrap().join("state")
    }

    fn process(&self, file: &str) -> i32 {
        fs::read_to_string(self.state().join(file)).unwrap().trim().parse().unwrap()
    }

    /// Taken down; then nothing is mounted, and nothing runs that ran for it.
    #[track_caller]
    fn down(self) {
        let processes = ["guest/pid", "keeper"].map(|file| self.process(file));
        let begin = Instant::now();
        self.place.fathom(&["stack", "down", &self.name]).exits(0);
        assert!(begin.elapsed() < SOON, "{:?}", begin.elapsed());
        let mounts = fs::read_to_string("/proc/mounts").unwrap();
        assert!(!mounts.contains(&format!("/named-{}/", self.name)), "{mounts}");
        while processes.iter().any(|process| lives(*process)) {
            assert!(begin.elapsed() < SOON, "{processes:?} still run");
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(!self.work.ancestors().nth(2).unwrap().exists());
    }
}

impl Drop for Up<'_> {
    fn drop(&mut self) {
        if self.work.ancestors().nth(2).unwrap().exists() {
            self.place.fathom(&["stack", "down", &self.name]);
        }
    }
}

/// Rows in a database of one journal mode, through connections of their own: what one has committed
/// another reads.
fn commits_and_reads(path: &Path, mode: &str) {
    let open = || {
        let connection = Connection::open(path).unwrap();
        connection.pragma_update(None, "synchronous", "full").unwrap();
        connection
    };
    let writer = open();
    let set: String = writer.query_row(&format!("PRAGMA journal_mode={mode}"), [], |row| row.get(0)).unwrap();
    assert_eq!(set, mode);
    writer.execute_batch("CREATE TABLE t(id INTEGER PRIMARY KEY, text)").unwrap();
    // In WAL mode the second connection shares memory with the first, through the file.
    let reader = open();
    for id in 0..20 {
        writer.execute("INSERT INTO t VALUES(?1, hex(randomblob(2000)))", [id]).unwrap();
        let seen: i64 = reader.query_row("SELECT max(id) FROM t", [], |row| row.get(0)).unwrap();
        assert_eq!(seen, id, "{mode}");
    }
    drop((writer, reader));
    let whole: String = open().query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(whole, "ok", "{mode}");
}

/// What this machine has cached of the mount's files is given up, so that they are read from the
/// guest again.
fn forget_caches() {
    fs::write("/proc/sys/vm/drop_caches", "3").unwrap();
}

#[test]
fn files_and_databases_are_as_they_were_written_on_every_file_system() {
    let all = [
        ("f2fs", "mkfs.f2fs", true),
        ("vfat", "mkfs.vfat", false),
        ("exfat", "mkfs.exfat", false),
        ("ntfs3", "mkntfs", true),
        ("nilfs2", "mkfs.nilfs2", true),
        ("ext4", "mke2fs", true),
        // Its directories do not tell what kind a file is.
        ("minix", "mkfs.minix", true),
    ];
    for (filesystem, mkfs, has_links) in all {
        if !can_mount(mkfs) {
            continue;
        }
        let place = Place::new();
        let up = Up::of(&place, "files", filesystem, "none");
        let at = |name: &str| up.work.join(name);
        for mode in ["delete", "wal"] {
            commits_and_reads(&at(&format!("{mode}.db")), mode);
        }
        // Larger than one request, and its end is in none of the cache's pages alone.
        let text: Vec<u8> = (0..700_001_u32).map(|number| (number % 251) as u8).collect();
        fs::create_dir_all(at("a/b")).unwrap();
        fs::write(at("a/b/file"), &text).unwrap();
        fs::rename(at("a/b/file"), at("a/renamed")).unwrap();
        if has_links {
            fs::hard_link(at("a/renamed"), at("linked")).unwrap();
            std::os::unix::fs::symlink("a/renamed", at("symbolic")).unwrap();
        }
        File::options().write(true).open(at("a/renamed")).unwrap().set_len(500_000).unwrap();
        forget_caches();
        assert_eq!(fs::read(at("a/renamed")).unwrap(), text[..500_000], "{filesystem}");
        if has_links {
            assert_eq!(fs::read(at("symbolic")).unwrap(), text[..500_000], "{filesystem}");
            let same = [at("linked"), at("a/renamed")].map(|path| fs::metadata(path).unwrap());
            assert_eq!((same[0].ino(), same[0].nlink()), (same[1].ino(), 2), "{filesystem}");
        }
        // Open and without a name, it is still there.
        let open = File::options().read(true).write(true).open(at("a/renamed")).unwrap();
        fs::remove_file(at("a/renamed")).unwrap();
        open.write_all_at(b"still here", 0).unwrap();
        let mut back = [0; 10];
        open.read_exact_at(&mut back, 0).unwrap();
        assert_eq!(&back, b"still here", "{filesystem}");
        drop(open);
        assert!(!at("a/renamed").exists());
        let kinds: Vec<bool> = fs::read_dir(at("a"))
            .unwrap()
            .map(|entry| entry.unwrap().file_type().unwrap().is_dir())
            .collect();
        assert_eq!(kinds, [true], "{filesystem}: a directory is shown as one");
        fs::remove_dir_all(at("a")).unwrap();
        assert!(fs::metadata(at("a/b")).is_err());
        up.down();
    }
}

#[test]
fn a_name_of_other_case_is_the_same_file_where_the_file_system_says_so() {
    if !can_mount("mkfs.vfat") {
        return;
    }
    let place = Place::new();
    let up = Up::of(&place, "case", "vfat", "none");
    let at = |name: &str| up.work.join(name);
    assert!(!at("LONGER name.TXT").exists(), "the kernel has now heard that there is none");
    fs::write(at("Longer Name.txt"), "text").unwrap();
    assert_eq!(fs::read_to_string(at("LONGER name.TXT")).unwrap(), "text");
    fs::remove_file(at("LONGER name.TXT")).unwrap();
    assert!(!at("Longer Name.txt").exists(), "nor is it there by its first name");
    up.down();
}

#[test]
fn every_sync_reaches_the_device_and_takes_its_time() {
    if !can_mount("mkfs.vfat") {
        return;
    }
    let place = Place::new();
    let up = Up::of(&place, "syncs", "vfat", "sd-slow");
    let file = File::create(up.work.join("file")).unwrap();
    file.write_all_at(&[1; 4096], 0).unwrap();
    file.sync_all().unwrap();
    let (before, begin) = (up.flushes(), Instant::now());
    for i in 0..20 {
        file.write_all_at(&[2; 4096], i * 4096).unwrap();
        file.sync_data().unwrap();
    }
    // 4 ms each by the model, and no later sync may have been answered without its flush.
    assert!(begin.elapsed() >= Duration::from_millis(20 * 4), "{:?}", begin.elapsed());
    assert!(up.flushes() - before >= 20, "{} of 20", up.flushes() - before);
    // A program that has every write synced by the kernel gets one flush for each, past the cache
    // or through it.
    let room = vec![3_u8; 8192];
    for flags in [libc::O_DSYNC, libc::O_DSYNC | libc::O_DIRECT] {
        let synced = File::options().write(true).custom_flags(flags).open(up.work.join("file")).unwrap();
        let start = room.as_ptr().align_offset(4096);
        let before = up.flushes();
        for i in 0..10 {
            synced.write_all_at(&room[start..start + 4096], i * 4096).unwrap();
        }
        assert_eq!(up.flushes() - before, 10, "flags {flags:#o}");
    }
    drop(file);
    let database = up.work.join("wal.db");
    commits_and_reads(&database, "wal");
    let connection = Connection::open(&database).unwrap();
    connection.execute_batch("PRAGMA synchronous=full; PRAGMA wal_autocheckpoint=0; DELETE FROM t").unwrap();
    let before = up.flushes();
    for id in 0..10 {
        connection.execute("INSERT INTO t VALUES(?1, 'x')", [id]).unwrap();
    }
    assert!(up.flushes() - before >= 10, "a commit is a flush: {}", up.flushes() - before);
    drop(connection);
    up.down();
}

#[test]
fn a_guest_that_is_killed_gives_errors_and_can_be_taken_down() {
    if !can_mount("mkfs.f2fs") {
        return;
    }
    for who in ["guest/pid", "keeper"] {
        let place = Place::new();
        let up = Up::of(&place, "killed", "f2fs", "none");
        let mut file = File::create(up.work.join("file")).unwrap();
        file.write_all(&[1; 4096]).unwrap();
        file.sync_all().unwrap();
        // SAFETY: kill takes integers.
        assert_eq!(unsafe { libc::kill(up.process(who), libc::SIGKILL) }, 0);
        let begin = Instant::now();
        while file.write_all(&[2; 4096]).and_then(|()| file.sync_all()).is_ok() {
            assert!(begin.elapsed() < SOON, "a guest that is gone gives errors: {who}");
        }
        assert!(fs::read_dir(&up.work).is_err());
        drop(file);
        if who == "guest/pid" {
            let told = || place.fathom(&["stack", "list"]).stdout;
            while !told().contains("it was killed (signal 9)") {
                assert!(begin.elapsed() < SOON, "{}", told());
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        up.down();
    }
}

/// The process that serves the modelled device of a stack.
fn server(up: &Up) -> i32 {
    let image = format!("fathom-named-{}-", up.name);
    let serves = |process: &fs::DirEntry| {
        let command = fs::read(process.path().join("cmdline")).unwrap_or_default();
        let files = fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten();
        let mut files = files.filter_map(|fd| fs::read_link(fd.path()).ok());
        command.ends_with(b"device-server\0") && files.any(|at| at.to_string_lossy().contains(&image))
    };
    let found = fs::read_dir("/proc").unwrap().flatten().find(serves);
    found.and_then(|entry| entry.file_name().to_str()?.parse().ok()).unwrap()
}

#[test]
fn a_disk_that_never_answers_gives_errors_after_half_a_minute() {
    if std::env::var_os("FATHOM_LONG").is_none() {
        println!("SKIP: FATHOM_LONG=1 waits for half a minute");
        return;
    }
    if !can_mount("mkfs.f2fs") {
        return;
    }
    let place = Place::new();
    let up = Up::of(&place, "stuck", "f2fs", "none");
    let mut file = File::create(up.work.join("file")).unwrap();
    let process = server(&up);
    let send = |signal: i32| {
        // SAFETY: kill takes integers.
        assert_eq!(unsafe { libc::kill(process, signal) }, 0);
    };
    send(libc::SIGSTOP);
    let begin = Instant::now();
    let failed = file.write_all(&[1; 4096]).and_then(|()| file.sync_all()).is_err();
    let took = begin.elapsed();
    let told = place.fathom(&["stack", "list"]).stdout;
    send(libc::SIGCONT);
    assert!(failed && took > Duration::from_secs(29) && took < Duration::from_secs(100), "{took:?}");
    assert!(told.contains("while the disk did nothing"), "{told}");
    drop(file);
    up.down();
}

#[test]
fn what_is_in_use_stays_up() {
    if !can_mount("mkfs.f2fs") {
        return;
    }
    let place = Place::new();
    let up = Up::of(&place, "busy", "f2fs", "none");
    let file = File::create(up.work.join("file")).unwrap();
    place.fathom(&["stack", "down", &up.name]).exits(1).says("is busy");
    file.write_all_at(b"as before", 0).unwrap();
    file.sync_all().unwrap();
    drop(file);
    assert_eq!(fs::read(up.work.join("file")).unwrap(), b"as before");
    up.down();
}

#[test]
fn an_up_that_is_killed_on_the_way_leaves_nothing() {
    if !can_mount("mkfs.f2fs") {
        return;
    }
    let place = Place::new();
    let name = format!("halfway-{}", std::process::id());
    let words = ["stack", "up", "--guest", "--fs", "f2fs", "--size", "192", "--dir", ".", "--name", &name];
    for wait_ms in [50, 150, 250, 350, 450] {
        let running = place.start(&[&words[..], &["--device", "none"]].concat());
        std::thread::sleep(Duration::from_millis(wait_ms));
        running.kill();
        running.end();
        let begin = Instant::now();
        let home = format!("/named-{name}/");
        let mounted = || fs::read_to_string("/proc/mounts").unwrap().contains(&home);
        // Complete all the same: then it is there as a whole, and is taken down as such. What is
        // being undone is not in this list.
        let complete = || place.fathom(&["stack", "list", "--json"]).stdout.contains(&name);
        while mounted() {
            if complete() {
                place.fathom(&["stack", "down", &name]).exits(0);
            }
            assert!(begin.elapsed() < SOON, "after {wait_ms} ms");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

#[test]
fn fio_verifies_what_it_has_written() {
    if !can_mount("mkfs.f2fs") {
        return;
    }
    if !Path::new("/usr/bin/fio").exists() {
        println!("SKIP: fio is not installed (sudo apt-get install fio)");
        return;
    }
    let place = Place::new();
    let up = Up::of(&place, "fio", "f2fs", "ufs-fresh");
    let jobs = [
        "--name=random --rw=randwrite --bs=4k --size=4m --ioengine=psync --fsync=16",
        "--name=queue --rw=randwrite --bsrange=4k-256k --size=8m --ioengine=libaio --iodepth=8 --direct=1 --numjobs=2 --fdatasync=32",
        "--name=mapped --rw=randwrite --bs=4k --size=4m --ioengine=mmap --fsync=64",
    ];
    for job in jobs {
        let end = Command::new("/usr/bin/fio")
            .arg(format!("--directory={}", up.work.display()))
            .args(job.split_whitespace())
            .args(["--verify=crc32c", "--verify_fatal=1", "--do_verify=1", "--invalidate=1", "--thread"])
            .args(["--group_reporting", "--randseed=7"])
            .current_dir("/")
            .output()
            .unwrap();
        let said =
            format!("{}{}", String::from_utf8_lossy(&end.stdout), String::from_utf8_lossy(&end.stderr));
        assert!(end.status.success() && said.contains("err= 0") && said.contains("READ:"), "{job}: {said}");
    }
    up.down();
}

#[test]
fn an_ordinary_user_has_it_too() {
    if !can_mount("mkfs.f2fs") || !Path::new("/usr/bin/setpriv").exists() {
        return;
    }
    if !Path::new("/usr/bin/fusermount3").exists() {
        println!("SKIP: fusermount3 is not installed");
        return;
    }
    if fs::metadata("/dev/fuse").unwrap().mode() & 0o006 != 0o006 {
        println!("SKIP: only root may open /dev/fuse here");
        return;
    }
    let place = Place::new();
    place.give_to_nobody(&Kernel::cached().unwrap().path);
    let script = "set -e
        work=$(./fathom stack up --fs f2fs --device sd-slow --size 128 --name card --dir .)
        trap './fathom stack down card' EXIT
        echo text > $work/file; mkdir $work/made; sync $work/file
        test \"$(cat $work/file)\" = text; test -O $work/made; test -w $work/file
        ./fathom stack status card | grep flush";
    let end = place.as_nobody(script);
    let said = format!("{}{}", String::from_utf8_lossy(&end.stdout), String::from_utf8_lossy(&end.stderr));
    assert!(end.status.success() && said.contains("card is down"), "{said}");
    let mounts = fs::read_to_string("/proc/mounts").unwrap();
    assert!(!mounts.contains(place.path("").to_str().unwrap()), "{mounts}");
}
