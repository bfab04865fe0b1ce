//! The guest kernel: cells on file systems that this machine's kernel lacks, without root; every
//! flush arrives; whatever is killed leaves nothing. Skipped where no guest kernel was built:
//! `fathom stack kernel`, or FATHOM_GUEST=1 ./test.

#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

mod place;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fathom_device::{Operation, Record, read_log};
use fathom_stack::blocks::BlockOp;
use fathom_stack::guest::{Kernel, trial};
use fathom_stack::{Stack, StackSpec, Stacks};
use place::Place;

const FATHOM: &str = env!("CARGO_BIN_EXE_fathom");

/// What is enough for a command in a guest.
const SOON: Duration = Duration::from_secs(120);

fn can_boot() -> bool {
    let able = Kernel::cached().is_some();
    if !able {
        println!("SKIP: there is no guest kernel (`fathom stack kernel` builds it)");
    }
    able
}

fn has(program: &str) -> bool {
    let able = ["/usr/sbin", "/sbin", "/usr/bin"]
        .iter()
        .any(|directory| Path::new(directory).join(program).exists());
    if !able {
        println!("SKIP: {program} is not installed");
    }
    able
}

/// Processes of guests whose state is kept for a process (the place's `fathom`), by a word of their
/// command lines.
fn processes_with(word: &str) -> Vec<String> {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    all.filter(|entry| entry.file_name().to_string_lossy().starts_with(|c: char| c.is_ascii_digit()))
        .map(|setting| {
            String::from_utf8_lossy(&std::fs::read(setting.path().join("cmdline")).unwrap_or_default())
                .into_owned()
        })
        .filter(|text| text.contains(word))
        .collect()
}

#[track_caller]
fn gone_soon(word: &str) {
    let begin = Instant::now();
    while !processes_with(word).is_empty() {
        assert!(begin.elapsed() < SOON, "{:?}", processes_with(word));
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// An experiment of one transaction mode and the other on these file systems.
fn experiment(name: &str, filesystems: &str, transactions: u32, more: &str) -> String {
    format!(
        "name = \"{name}\"\ntitle = \"{name}\"\nquestion = \"?\"\nrepeats = 1\n\
         [workload]\nname = \"mobibench-sql\"\ntransactions = {transactions}\ntables = 1\n\
         [engine]\nname = \"sqlite\"\nsynchronous = \"full\"\n\
         [stack]\nsize_mib = 192\n{more}\n\
         [matrix]\n\"stack.filesystem\" = [{filesystems}]\n\"engine.journal_mode\" = [\"delete\", \"wal\"]\n"
    )
}

#[test]
fn a_kernel_boots_without_a_disk_as_after_its_build() {
    let Some(kernel) = Kernel::cached().filter(|_| can_boot()) else { return };
    let home = tempfile::tempdir().unwrap();
    let (release, mut filesystems) = trial(&kernel, Path::new(FATHOM), home.path()).unwrap();
    assert_eq!(release, kernel.release);
    let mut told = kernel.filesystems.clone();
    filesystems.sort();
    told.sort();
    assert_eq!(filesystems, told);
}

#[test]
fn cells_run_on_file_systems_that_only_the_guest_has() {
    if !can_boot() {
        return;
    }
    let tools = [
        ("vfat", "mkfs.vfat"),
        ("exfat", "mkfs.exfat"),
        ("ntfs3", "mkntfs"),
        ("f2fs", "mkfs.f2fs"),
        ("nilfs2", "mkfs.nilfs2"),
        ("ext2", "mke2fs"),
    ];
    let names: Vec<_> =
        tools.iter().filter(|(_, mkfs)| has(mkfs)).map(|(name, _)| format!("\"{name}\"")).collect();
    let place = Place::new();
    place.write("guest.toml", &experiment("each-fs", &names.join(", "), 20, ""));
    place.fathom(&["run", "guest.toml", "--guest", "--out", "out.db", "--dir", "."]).exits(0);
    let runs = place.rows("out.db", "SELECT count(*) FROM run WHERE status = 'done'");
    assert_eq!(runs, (2 * names.len()).to_string());
    let in_guest =
        "SELECT count(*) FROM run WHERE json_extract(stack, '$.guest') LIKE 'Linux %-fathom (user-mode)'";
    assert_eq!(place.rows("out.db", in_guest), runs);
    let told = String::from_utf8(place.read("out.html")).unwrap();
    for part in ["in a guest", "CPU"] {
        assert!(told.contains(part), "the report says {part:?}");
    }
    assert_eq!(place.leftover_work(), Vec::<String>::new());
}

/// Every cell on msdos failed before its worker was started: the floor's file had a name with a dot
/// in front, which FAT without long names refuses.
#[test]
fn a_file_system_without_long_names_is_measured() {
    if !can_boot() || !has("mkfs.vfat") {
        return;
    }
    let place = Place::new();
    place.write("guest.toml", &experiment("short-names", "\"msdos\"", 20, ""));
    let delete = ["--set", "engine.journal_mode=delete"];
    let words = ["run", "guest.toml", "--guest", "--out", "out.db", "--dir", "."];
    place.fathom(&[&words[..], &delete].concat()).exits(0);
    let known = "SELECT count(*) FROM run WHERE status = 'done' AND floor_ns > 0";
    assert_eq!(place.rows("out.db", known), "1");
    assert_eq!(place.leftover_work(), Vec::<String>::new());
}

#[test]
fn mkfs_and_mount_options_take_in_the_guest() {
    if !can_boot() {
        return;
    }
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let cases = [
        ("vfat", "mkfs.vfat", 64, "-F 16", "noatime", "noatime"),
        ("vfat", "mkfs.vfat", 64, "-F 32", "flush", "flush"),
        ("exfat", "mkfs.exfat", 64, "-c 32K", "noatime", "noatime"),
        ("f2fs", "mkfs.f2fs", 128, "", "fsync_mode=strict", "fsync_mode=strict"),
        ("f2fs", "mkfs.f2fs", 128, "", "fsync_mode=nobarrier", "fsync_mode=nobarrier"),
        ("nilfs2", "mkfs.nilfs2", 160, "", "order=strict", "order=strict"),
        ("ntfs3", "mkntfs", 64, "-c 8192", "noatime", "noatime"),
        ("ext4", "mke2fs", 64, "", "data=journal", "data=journal"),
        ("ext4", "mke2fs", 64, "", "commit=30,nobarrier", "commit=30"),
        ("ext3", "mke2fs", 64, "", "data=writeback", "data=writeback"),
        ("xfs", "mkfs.xfs", 320, "-l size=64m", "logbsize=64k", "logbsize=64k"),
        ("btrfs", "mkfs.btrfs", 128, "", "nodatacow", "nodatacow"),
    ];
    let place = Place::new();
    for (filesystem, tool, size_mib, mkfs, mount, shown) in cases {
        if !has(tool) {
            continue;
        }
        let spec = StackSpec {
            place: filesystem.into(),
            mkfs: words(mkfs),
            mount: Some(mount.into()),
            size_mib,
            directory: Some(place.path("")),
            guest: true,
            ..StackSpec::default()
        };
        let mut stack = stacks(&place)
            .up(&spec, "options")
            .unwrap_or_else(|e| panic!("{filesystem} {mkfs} {mount}: {e}"));
        let record = stack.record();
        assert!(record.mount.split(',').any(|part| part == shown), "{shown} in {record:?}");
        assert!(words(mkfs).iter().all(|word| record.mkfs.contains(word)), "{mkfs} in {record:?}");
        assert!(stack.floor(3).unwrap().median_ns > 0);
        stack.down().unwrap();
    }
}

fn stacks(place: &Place) -> Stacks {
    Stacks::at(place.path("state")).with_program(FATHOM.into())
}

fn modelled(place: &Place, filesystem: &str, device: &str, guest: bool) -> Option<Stack> {
    logged(place, filesystem, device, guest, None)
}

/// With a log of what reaches the device, at this path.
fn logged(place: &Place, filesystem: &str, device: &str, guest: bool, log: Option<PathBuf>) -> Option<Stack> {
    if !Path::new("/dev/fuse").exists() || !fathom_ground::system::is_root() || !has("mke2fs") {
        println!("SKIP: a modelled device on a loop needs root, /dev/fuse and mke2fs");
        return None;
    }
    let spec = StackSpec {
        place: filesystem.into(),
        size_mib: 64,
        directory: Some(place.path("")),
        device: Some(device.into()),
        device_seed: 1,
        guest,
        operations: log,
        ..StackSpec::default()
    };
    Some(stacks(place).up(&spec, "modelled").unwrap())
}

/// Without the change to the kernel's disk driver not one flush arrives.
#[test]
fn each_flush_of_the_guest_reaches_the_device() {
    if !can_boot() {
        return;
    }
    for filesystem in ["ext2", "ext4"] {
        let place = Place::new();
        let Some(mut stack) = modelled(&place, filesystem, "none", true) else { return };
        stack.trace_in_guest().unwrap();
        let before = stack.device_statistics().unwrap().remove(0);
        stack.floor(50).unwrap();
        let trace = stack.traced_in_guest(&[], &[]).unwrap();
        let after = stack.device_statistics().unwrap().remove(0);
        let asked =
            |op: BlockOp| trace.requests.iter().filter(|(request, _)| request.op == op).count() as u64;
        let arrived = |which: usize| after.operations[which] - before.operations[which];
        println!("{filesystem}: {} flushes, {} writes", asked(BlockOp::Flush), asked(BlockOp::Write));
        assert!(asked(BlockOp::Flush) >= 50, "a sync is a flush: {}", asked(BlockOp::Flush));
        assert_eq!((trace.lost_events, trace.unfinished), (0, 0));
        assert_eq!(asked(BlockOp::Flush), arrived(2), "flushes");
        // One request is one operation, however many pages it has.
        assert_eq!(asked(BlockOp::Write), arrived(1), "writes");
        assert_eq!(asked(BlockOp::Read), arrived(0), "reads");
        stack.down().unwrap();
    }
}

/// Operations that were at the device when each of these arrived, itself included: the most there
/// were.
fn most_at_once(log: &[Record]) -> usize {
    let at_once = |record: &Record| {
        log.iter()
            .filter(|other| other.arrival_ns <= record.arrival_ns && record.arrival_ns < other.given_ns)
            .count()
    };
    log.iter().map(at_once).max().unwrap_or(0)
}

/// What a file system hands on together is at the device together, in requests and sectors of the
/// same size, as outside.
#[test]
fn requests_of_the_guest_are_at_the_device_together() {
    if !can_boot() {
        return;
    }
    let place = Place::new();
    let written = |guest: bool| {
        let path = place.path(if guest { "guest.log" } else { "here.log" });
        let mut stack = logged(&place, "ext4", "ufs-fresh", guest, Some(path.clone()))?;
        let before: u64 = stack.device_statistics().unwrap()[0].operations.iter().sum();
        let file = format!("of={}", stack.path().join("file").display());
        let words = ["if=/dev/zero", &file, "bs=1M", "count=16", "conv=fsync"];
        let begin = Instant::now();
        if guest {
            stack.run_in_guest(Path::new("/bin/dd"), words, SOON).unwrap();
        } else {
            assert!(Command::new("dd").args(words).stderr(Stdio::null()).status().unwrap().success());
        }
        let took = begin.elapsed();
        if guest {
            let sector = ["/sys/block/ubda/queue/logical_block_size"];
            let (told, _) = stack.run_in_guest(Path::new("/bin/cat"), sector, SOON).unwrap();
            assert_eq!(told.trim(), "4096");
        }
        stack.down().unwrap();
        let log = read_log(&path).unwrap().records.split_off(before as usize);
        let writes = log.iter().filter(|log| log.operation == Operation::Write);
        let largest = writes.map(|request| request.bytes).max().unwrap();
        println!("guest {guest}: {} at once, the largest of {largest} bytes, {took:.1?}", most_at_once(&log));
        assert!(log.iter().all(|log| log.offset % 4096 == 0 && log.bytes % 4096 == 0));
        Some((most_at_once(&log), largest))
    };
    let Some((here, guest)) = written(false).zip(written(true)) else { return };
    assert!(here.0 >= 4, "{here:?}");
    assert!(guest.0 >= 4, "{guest:?} and outside {here:?}");
    assert!(guest.1 >= 512 << 10, "{guest:?} and outside {here:?}");
}

/// The same file system on the same modelled card takes the same time in the guest and outside:
/// pairs in turn, medians, or tenths where other work delays most: the guest waits for a processor
/// more often.
#[test]
fn ext4_on_a_modelled_card_is_as_fast_in_the_guest() {
    if !can_boot() {
        return;
    }
    let place = Place::new();
    let Some(mut here) = modelled(&place, "ext4", "sd-slow", false) else { return };
    let Some(mut guest) = modelled(&place, "ext4", "sd-slow", true) else { return };
    // A busy machine is late at times; five tries, of which one must agree. Where none does, those
    // count in which both devices kept their times.
    let mut quiet = 0;
    let agrees = |_| {
        let before = [&mut here, &mut guest].map(|stack| stack.device_statistics().unwrap().remove(0));
        let pair = |_| {
            let (there, outside) = (guest.floor(30).unwrap(), here.floor(30).unwrap());
            let ratio = |there: u64, outside: u64| there as f64 / outside as f64;
            [ratio(there.median_ns, outside.median_ns), ratio(there.p10_ns, outside.p10_ns)]
        };
        let pairs: Vec<[f64; 2]> = (0..5).map(pair).collect();
        let ratios = [0, 1].map(|which| {
            let mut ratios: Vec<f64> = pairs.iter().map(|pair| pair[which]).collect();
            ratios.sort_by(f64::total_cmp);
            ratios[2]
        });
        let after = [&mut here, &mut guest].map(|stack| stack.device_statistics().unwrap().remove(0));
        let kept = [0, 1].map(|which| after[which].since(&before[which]).use_of().is_on_time());
        println!("guest / here: {ratios:.3?}; times kept: {kept:?}");
        quiet += usize::from(kept == [true; 2]);
        ratios.iter().any(|ratio| (0.9..=1.1).contains(ratio))
    };
    let agrees = (0..5).any(agrees);
    if !agrees && quiet == 0 {
        println!("SKIP: this machine was too busy each time");
    } else {
        assert!(agrees);
    }
    here.down().unwrap();
    guest.down().unwrap();
}

#[test]
fn a_guest_that_is_killed_fails_its_run_at_once_and_leaves_nothing() {
    if !can_boot() || !has("mke2fs") {
        return;
    }
    let place = Place::new();
    place.write("long.toml", &experiment("long", "\"ext2\"", 100_000, ""));
    let running = place.start(&["run", "long.toml", "--guest", "--out", "out.db", "--dir", "."]);
    let process = running.wait_for_child("guest-agent");
    let owner = format!("/proc/{}/fd/", running.process());
    std::thread::sleep(Duration::from_secs(2));
    let begin = Instant::now();
    // The first of the two cells; the second goes on, and is stopped as a user stops it.
    // SAFETY: kill takes integers.
    assert_eq!(unsafe { libc::kill(process, libc::SIGKILL) }, 0);
    running.wait_until(|| {
        place.rows_or_empty("out.db", "SELECT count(*) FROM run WHERE status = 'failed'") == "1"
    });
    assert!(begin.elapsed() < Duration::from_secs(90), "{:?}", begin.elapsed());
    let message = place.rows("out.db", "SELECT message FROM run WHERE status = 'failed'");
    // A slow machine's is still booting after two seconds, and is said not to have come up, too.
    let says = ["guest kernel: it ", "it was killed (signal 9)"];
    assert!(says.iter().all(|part| message.contains(part)), "{message}");
    running.interrupt();
    running.end().ends_by(libc::SIGINT);
    gone_soon(&owner);
    assert_eq!(place.leftover_work(), Vec::<String>::new());
}

#[test]
fn a_killed_fathom_takes_its_guest_with_it() {
    if !can_boot() || !has("mke2fs") {
        return;
    }
    let place = Place::new();
    place.write("long.toml", &experiment("killed", "\"ext2\"", 100_000, ""));
    let running = place.start(&["run", "long.toml", "--guest", "--out", "out.db", "--dir", "."]);
    running.wait_for_child("guest-agent");
    let owner = format!("/proc/{}/fd/", running.process());
    std::thread::sleep(Duration::from_secs(1));
    assert!(!processes_with(&owner).is_empty());
    running.kill();
    running.end();
    gone_soon(&owner);
    // What it worked in is removed by its guard, which comes after the guest's end.
    let begin = Instant::now();
    while !place.leftover_work().is_empty() {
        assert!(begin.elapsed() < SOON, "{:?}", place.leftover_work());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn an_ordinary_user_runs_cells_in_a_guest() {
    if !can_boot() || !has("setpriv") || !has("mkfs.f2fs") || !fathom_ground::system::is_root() {
        return;
    }
    let place = Place::new();
    place.write("guest.toml", &experiment("user", "\"f2fs\", \"ext4\"", 20, ""));
    place.give_to_nobody(&Kernel::cached().unwrap().path);
    let end = place.as_nobody("./fathom run guest.toml --out out.db --dir .");
    let said = String::from_utf8_lossy(&end.stderr).into_owned();
    assert!(end.status.success(), "{said}");
    assert_eq!(place.rows("out.db", "SELECT count(*) FROM run WHERE status = 'done'"), "4", "{said}");
}

/// What is read after the caches were emptied comes from the device: as many bytes as the file has,
/// which in a guest whose caches are warm are not read at all.
#[test]
fn caches_are_emptied_in_the_guest() {
    if !can_boot() || !has("mkfs.f2fs") {
        return;
    }
    let place = Place::new();
    let read = |cold: bool| {
        let text = format!(
            "name = \"cold\"\ntitle = \"cold\"\nquestion = \"?\"\nrepeats = 1\n\
             [workload]\nname = \"mobibench-file\"\nfile_kib = 4096\naccesses = [\"random-read\"]\ncold = {cold}\n\
             [stack]\nsize_mib = 64\ndevice = \"none\"\n[matrix]\n\"stack.filesystem\" = [\"f2fs\", \"ext4\"]\n"
        );
        let (file, out) = (format!("cold-{cold}.toml"), format!("cold-{cold}.db"));
        place.write(&file, &text);
        place.fathom(&["run", &file, "--guest", "--out", &out, "--dir", "."]).exits(0);
        let told = place.rows(&out, "SELECT group_concat(text) FROM verified");
        assert_eq!(told.matches("cold caches").count() >= 2, cold, "{told}");
        assert!(!place.rows(&out, "SELECT group_concat(text) FROM warning").contains("not cold"));
        place.rows(&out, "SELECT min(json_extract(device, '$[0].bytes[0]')) || ' ' || max(json_extract(device, '$[0].bytes[0]')) FROM run")
    };
    let least_and_most =
        |text: String| -> Vec<u64> { text.split(' ').map(|part| part.parse().unwrap()).collect() };
    let (cold, warm) = (least_and_most(read(true)), least_and_most(read(false)));
    println!("read from the device: cold {cold:?}, warm {warm:?}");
    assert!(cold[0] >= 4 << 20, "every byte of the file comes from the device: {cold:?}");
    assert!(warm[1] < 2 << 20, "and none of it without: {warm:?}");
}

#[test]
fn blocks_are_traced_and_attributed_in_the_guest() {
    if !can_boot() || !has("mkfs.f2fs") {
        return;
    }
    let place = Place::new();
    let text = experiment("blocks", "\"f2fs\", \"ext4\"", 20, "");
    place.write("blocks.toml", &format!("{text}[instruments]\nblocks = true\n"));
    place.fathom(&["run", "blocks.toml", "--guest", "--out", "out.db", "--dir", "."]).exits(0);
    let csv = place.fathom(&["report", "out.db", "--requests"]);
    csv.exits(0);
    for cause in [",database,", ",wal,", ",rollback-journal,", ",flush,", ",file-system-journal,"] {
        assert!(csv.stdout.contains(cause), "{cause} among the requests: {}", &csv.stdout[..500]);
    }
}

/// Any worker that ended badly was told as one that its device had left hanging, and the device's
/// server was killed. This one is ended by what it loads, in the way that a failed read of SQLite's
/// mapped index ends one.
#[test]
fn a_worker_that_a_signal_ends_in_a_guest_is_not_told_as_one_that_hangs() {
    if !can_boot() || !has("mke2fs") || !has("cc") || !Path::new("/dev/fuse").exists() {
        return;
    }
    let place = Place::new();
    place.write(
        "end.c",
        "#include <signal.h>\n__attribute__((constructor)) static void end(void) { signal(SIGBUS, SIG_DFL); raise(SIGBUS); }\n",
    );
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o", "libend.so", "end.c"]);
    assert!(compiler.current_dir(place.path("")).status().unwrap().success());
    place.write("end.toml", &experiment("end", "\"ext2\"", 20, "device = \"none\""));
    let library = format!("engine.library={}", place.path("libend.so").display());
    let words = ["run", "end.toml", "--guest", "--out", "out.db", "--dir", ".", "--set", &library];
    place.fathom(&words).exits(1);
    let told = place.rows("out.db", "SELECT group_concat(message, ' | ') FROM run WHERE status = 'failed'");
    assert_eq!(told.matches("signal 7 (SIGBUS)").count(), 2, "{told}");
    assert!(!told.contains("stood still"), "{told}");
}

#[test]
fn what_a_guest_cannot_do_is_said() {
    let place = Place::new();
    place.write("dir.toml", &experiment("dir", "\"dir\"", 20, ""));
    place.fathom(&["run", "dir.toml", "--guest", "--dir", "."]).exits(2).says("stack.guest");
    let fuse = experiment("fuse", "\"exfat-fuse\"", 20, "");
    place.write("fuse.toml", &fuse);
    place
        .fathom(&["run", "fuse.toml", "--guest", "--dir", "."])
        .exits(1)
        .says("a program of this machine's, no driver of a kernel's");
    let nowhere = place.path("none").display().to_string();
    place.write("f2fs.toml", &experiment("f2fs", "\"f2fs\"", 20, ""));
    place
        .fathom_with(&["run", "f2fs.toml", "--guest", "--dir", "."], &[("FATHOM_CACHE_DIR", &nowhere)])
        .exits(1)
        .says("`fathom stack kernel` brings it");
    place.fathom_with(&["stack", "kernel", "--remove"], &[("FATHOM_CACHE_DIR", &nowhere)]).exits(0);
    place.fathom(&["guest-agent"]).exits(2).says("first process of a guest");
}
