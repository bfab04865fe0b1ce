//! Modelled devices through the binary: they keep their times, they fail as they are told to, and
//! whatever is killed leaves nothing. Needs root, mkfs.ext4 and /dev/fuse.

#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

mod place;

use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use place::{Place, Running, Stopped, can_serve, gone_soon, mounts_by, named, server, stopped, told};

fn up(place: &Place, name: &str, more: &[&str]) -> PathBuf {
    let words = ["stack", "up", "--fs", "ext4", "--size", "32", "--name", name, "--dir", ".", "--device"];
    let end = place.fathom(&[&words[..], more].concat());
    end.exits(0);
    PathBuf::from(end.stdout.trim())
}

fn mounts_of(name: &str) -> Vec<String> {
    let all = std::fs::read_to_string("/proc/mounts").unwrap();
    all.lines().filter(|line| line.contains(&format!("/named-{name}/"))).map(str::to_owned).collect()
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

/// What happened: a copy by another name (`fathom-0.1`, to compare two versions) could make no
/// modelled device, "served by the program `fathom`, which this is not", and all runs of it failed.
#[test]
fn a_program_by_another_name_is_fathom_too() {
    let (place, name) = (Place::new(), named("other-name"));
    if !can_serve(&place) {
        return;
    }
    let other = place.path("fathom-0.1");
    place.copy_program("fathom-0.1");
    let by = |words: &[&str]| {
        let mut command = Command::new(&other);
        let ran =
            command.args(words).current_dir(place.path("")).env("FATHOM_STATE_DIR", place.path("state"));
        let ran = ran.output().unwrap();
        assert!(ran.status.success(), "{words:?}: {}", String::from_utf8_lossy(&ran.stderr));
    };
    by(&["stack", "up", "--fs", "ext4", "--size", "32", "--dir", ".", "--device", "none", "--name", &name]);
    by(&["stack", "down", &name]);
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
    assert!(begin.elapsed() < SOON, "and gives them at once");
    drop(file);
    place.fathom(&["stack", "down", &name]).exits(0);
    assert_eq!(mounts_of(&name), Vec::<String>::new());
}

/// What is enough for a device that is gone or stands still to be noticed, on a machine that is
/// busy with other things too; less than [`Stopped`] waits, which would be no merit of the
/// program's.
const SOON: Duration = Duration::from_secs(100);

/// The worker of a run that has asked its device for something. It stands still, so that the run
/// does not end before the test has done with it; dropped, it goes on.
struct Worker(i32);

impl Worker {
    fn at_work(running: &Running) -> Worker {
        let asked = || -> u64 {
            let told = told(running);
            told["operations"].as_array().unwrap().iter().map(|value| value.as_u64().unwrap()).sum()
        };
        loop {
            let worker = Worker(running.stop_child("worker"));
            // What came before the worker began is the file system's and the floor probe's.
            let before = asked();
            // Where it ends meanwhile it is the next one's turn.
            loop {
                worker.go_on();
                std::thread::sleep(Duration::from_millis(20));
                if !stopped(worker.0) {
                    break;
                }
                if asked() > before + 10 {
                    return worker;
                }
            }
        }
    }

    fn go_on(&self) {
        // SAFETY: kill takes integers.
        unsafe { libc::kill(self.0, libc::SIGCONT) };
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.go_on();
    }
}

/// The experiment with so much to do, at work on its device.
fn at_work_for(place: &Place, transactions: u32, more: &[&str]) -> (Running, Worker) {
    place.write("late.toml", &longer(transactions));
    let running = place.start(&[&["run", "late.toml", "--out", "out.db", "--dir", "."], more].concat());
    let worker = Worker::at_work(&running);
    (running, worker)
}

/// The experiment with more to do.
fn longer(transactions: u32) -> String {
    EXPERIMENT.replace("transactions = 25", &format!("transactions = {transactions}"))
}

/// Its worker waits in the kernel, where no signal reaches it: the laboratory waited for its death
/// for ever.
#[test]
fn a_run_whose_device_stops_ends_within_its_limit_and_the_next_goes_on() {
    let place = Place::new();
    if !can_serve(&place) {
        return;
    }
    // The next one takes five seconds by the model at most, and has to end within its limit on a
    // busy machine too.
    let (running, worker) = at_work_for(&place, 60, &["--time-limit", "40"]);
    let begin = Instant::now();
    let stopped = Stopped::new(server(&place));
    drop(worker);
    let process = running.process();
    let end = running.end();
    end.exits(1).says("time limit").says("device's server, which stood still, was killed");
    assert!(begin.elapsed() < SOON, "{:?}", begin.elapsed());
    gone_soon(stopped.0);
    assert_eq!(mounts_by(process), Vec::<String>::new());
    let states = "SELECT group_concat(status, ' ') FROM (SELECT status FROM run ORDER BY id)";
    assert_eq!(place.rows("out.db", states), "failed done", "{end}");
}

#[test]
fn ctrl_c_ends_a_run_whose_device_stopped() {
    let place = Place::new();
    if !can_serve(&place) {
        return;
    }
    let (running, worker) = at_work_for(&place, 2000, &[]);
    let stopped = Stopped::new(server(&place));
    drop(worker);
    // So that the worker waits for it, which is the harder case.
    std::thread::sleep(Duration::from_millis(300));
    let begin = Instant::now();
    running.interrupt();
    let process = running.process();
    running.end().ends_by(libc::SIGINT).says("--resume");
    assert!(begin.elapsed() < SOON, "{:?}", begin.elapsed());
    gone_soon(stopped.0);
    assert_eq!(mounts_by(process), Vec::<String>::new());
}

#[test]
fn a_run_whose_server_is_killed_fails_at_once_and_the_next_goes_on() {
    let place = Place::new();
    if !can_serve(&place) {
        return;
    }
    let (running, worker) = at_work_for(&place, 200, &[]);
    // SAFETY: kill takes integers.
    assert_eq!(unsafe { libc::kill(server(&place), libc::SIGKILL) }, 0);
    drop(worker);
    let begin = Instant::now();
    let failed = || place.rows_or_empty("out.db", "SELECT count(*) FROM run WHERE status = 'failed'") == "1";
    running.wait_until(failed);
    assert!(begin.elapsed() < SOON, "{:?}", begin.elapsed());
    let process = running.process();
    let end = running.end();
    end.exits(1);
    assert_eq!(place.rows("out.db", "SELECT count(*) FROM run WHERE status = 'done'"), "1", "{end}");
    assert_eq!(mounts_by(process), Vec::<String>::new());
}

#[test]
fn a_stack_whose_server_stopped_goes_down_in_time() {
    let (place, name) = (Place::new(), named("stopped"));
    if !can_serve(&place) {
        return;
    }
    let work = up(&place, &name, &["none"]);
    // Not synced: to be written when it is unmounted.
    std::fs::write(work.join("file"), vec![1; 1 << 20]).unwrap();
    let stopped = Stopped::new(server(&place));
    // Who asks how it is waited for it, too.
    let asked = Instant::now();
    let hint = format!("`kill -CONT {}` lets it go on", stopped.0);
    place.fathom(&["stack", "status", &name]).exits(1).says("is stopped").says(&hint);
    assert!(asked.elapsed() < SOON, "{:?}", asked.elapsed());
    let begin = Instant::now();
    place.fathom(&["stack", "down", &name]).exits(1).says("stood still and was killed");
    assert!(begin.elapsed() < SOON, "{:?}", begin.elapsed());
    gone_soon(stopped.0);
    assert_eq!(mounts_of(&name), Vec::<String>::new());
    assert!(!place.fathom(&["stack", "list"]).stdout.contains(&name), "nothing is left of it");
}

#[test]
fn a_fault_reaches_the_program_and_a_run_fails_with_it() {
    let (place, name) = (Place::new(), named("fault"));
    if !can_serve(&place) {
        return;
    }
    // mkfs, mount and the floor take some hundred operations, the work thousands.
    let text = longer(2000).replace("\"sd-slow\"\n", "\"none\"\nfaults = [\"gone@1500\"]\n");
    assert!(text.contains("gone@1500"));
    place.write("fault.toml", &text);
    let running = place.start(&["run", "fault.toml", "--out", "out.db", "--dir", "."]);
    let process = running.process();
    running.end().exits(1).says("I/O error");
    let failed = "SELECT count(*) FROM run WHERE status = 'failed' AND message LIKE '%I/O error%'";
    assert_eq!(
        place.rows("out.db", failed),
        "2",
        "{}",
        place.rows("out.db", "SELECT group_concat(message) FROM run")
    );
    assert_eq!(mounts_by(process), Vec::<String>::new());
    let work = up(&place, &name, &["none", "--fault", "gone@1500"]);
    let file = std::fs::File::create(work.join("file")).unwrap();
    let failed =
        (0..2000).any(|i| file.write_all_at(&[2; 4096], i * 4096).and_then(|()| file.sync_all()).is_err());
    assert!(failed);
    drop(file);
    place.fathom(&["stack", "down", &name]).exits(0);
    assert_eq!(mounts_of(&name), Vec::<String>::new());
}

/// Counted from mkfs on, the first failures that anybody tries, `flush-error` and `gone`, ended
/// mkfs.
#[test]
fn what_fails_is_counted_from_the_mount_and_the_floor_on() {
    let (place, name) = (Place::new(), named("first"));
    if !can_serve(&place) {
        return;
    }
    for fault in ["flush-error", "gone"] {
        let work = up(&place, &name, &["none", "--fault", fault]);
        let file = std::fs::File::create(work.join("file"));
        let synced = file.and_then(|file| file.write_all_at(&[2; 4096], 0).and_then(|()| file.sync_all()));
        assert!(synced.is_err(), "{fault}");
        place.fathom(&["stack", "down", &name]).exits(0);
    }
    // A model of one's own, whose text is kept.
    let model = fathom_device::text_of("none").unwrap().replacen("\"none\"", "\"mine\"", 1);
    place.write("mine.toml", &model);
    let text = EXPERIMENT.replace("\"sd-slow\"\n", "\"./mine.toml\"\nfaults = [\"flush-error\"]\n");
    place.write("fault.toml", &text);
    place.fathom(&["run", "fault.toml", "--out", "out.db", "--dir", "."]).exits(1);
    let told = place.rows("out.db", "SELECT group_concat(message, ' | ') FROM run WHERE status = 'failed'");
    assert_eq!(told.matches("disk I/O error").count(), 2, "{told}");
    assert!(!told.contains("floor") && !told.contains("mke2fs"), "{told}");
    let kept = "SELECT count(*) FROM run WHERE json_extract(stack, '$.models[0]') LIKE '%name = \"mine\"%'";
    assert_eq!(place.rows("out.db", kept), "2");
}

#[test]
fn an_image_under_a_modelled_device_is_counted_once_for_space() {
    let (place, outer, inner) = (Place::new(), named("outer"), named("inner"));
    if !can_serve(&place) {
        return;
    }
    let words = ["stack", "up", "--fs", "ext4", "--size", "64", "--dir", ".", "--name", &outer];
    let room = place.fathom(&words);
    room.exits(0);
    // Some 50 MiB are free there: enough for one of 32, not for two.
    let words =
        ["stack", "up", "--fs", "ext4", "--size", "32", "--name", &inner, "--dir", room.stdout.trim()];
    place.fathom(&[&words[..], &["--device", "none"]].concat()).exits(0);
    place.fathom(&["stack", "down", &inner]).exits(0);
    place.fathom(&["stack", "down", &outer]).exits(0);
}

#[test]
fn an_external_log_lies_on_a_modelled_device_of_its_own() {
    let (place, name) = (Place::new(), named("log"));
    if !can_serve(&place) {
        return;
    }
    let in_guest = fathom_stack::guest::Kernel::cached().map(|_| "--guest");
    for (filesystem, where_from) in [("ext4", None), ("xfs", None), ("xfs", in_guest)] {
        if filesystem == "xfs" && !std::path::Path::new("/usr/sbin/mkfs.xfs").exists() {
            println!("SKIP: mkfs.xfs is not installed");
            continue;
        }
        let words = [
            "stack", "up", "--fs", filesystem, "--size", "320", "--log", "64", "--name", &name, "--dir", ".",
        ];
        let devices = ["--device", "sd-slow", "--log-device", "nvme-protected"];
        let logs = ["--operations", "ops", "--capture"];
        let end = place.fathom(&[&words[..], &devices, &logs, where_from.as_slice()].concat());
        end.exits(0).says("log on modelled nvme-protected");
        let work = PathBuf::from(end.stdout.trim());
        // Of the file system's device, and of its log's.
        let writes = || {
            let end = place.fathom(&["stack", "status", &name, "--json"]);
            end.exits(0);
            let both: Vec<serde_json::Value> =
                end.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
            assert_eq!((both.len(), &both[1]["device"]), (2, &"nvme-protected".into()), "{}", end.stdout);
            [0, 1].map(|which| both[which]["kinds"]["write"]["operations"].as_u64().unwrap())
        };
        let before = writes();
        for number in 0..10 {
            let file = std::fs::File::create(work.join(format!("file {number}"))).unwrap();
            file.write_all_at(&[1; 4096], 0).unwrap();
            file.sync_all().unwrap();
        }
        let after = writes();
        let more = [0, 1].map(|which| after[which] - before[which]);
        assert!(more[0] >= 10, "each file's data goes to the file system's device: {more:?}");
        assert!(more[1] >= 10, "each new file is written into the log: {more:?}");
        place.fathom(&["stack", "down", &name]).exits(0);
        assert_eq!(mounts_of(&name), Vec::<String>::new());
        // Each has its own log, and the data of what was written to it.
        for (log, writes) in [("ops", after[0]), ("ops.log", after[1])] {
            let printed = place.fathom(&["stack", "operations", log, "--json"]);
            printed.exits(0);
            let written: Vec<serde_json::Value> = printed
                .stdout
                .lines()
                .map(|line| serde_json::from_str(line).unwrap())
                .filter(|value: &serde_json::Value| value["operation"] == "write")
                .collect();
            assert!(written.len() as u64 >= writes, "{log}: {} of {writes}", written.len());
            let bytes: u64 = written.iter().map(|value| value["bytes"].as_u64().unwrap()).sum();
            assert_eq!(place.read(&format!("{log}.data")).len() as u64, bytes, "{log}");
            for file in [log.to_owned(), format!("{log}.data")] {
                std::fs::remove_file(place.path(&file)).unwrap();
            }
        }
    }
    // What is there of a log that would be made is refused, not written over, and not removed
    // either.
    let made = |more: &str| {
        let words =
            ["stack", "up", "--fs", "ext4", "--size", "64", "--log", "64", "--dir", ".", "--name", &name];
        place.fathom(&[&words[..], &["--device", "none", "--operations", "ops", more]].concat())
    };
    for precious in ["ops.log", "ops.log.data"] {
        std::fs::write(place.path(precious), "precious").unwrap();
        made("--capture").exits(2).says(precious);
        assert_eq!(place.read(precious), b"precious");
        assert!(!place.path("ops").exists());
        std::fs::remove_file(place.path(precious)).unwrap();
    }
    // Before anything is made, with the name that was given.
    let words = ["stack", "up", "--fs", "ext4", "--dir", ".", "--device", "none", "--name", &name];
    let logged_in = |log: &str| place.fathom(&[&words[..], &["--operations", log]].concat());
    logged_in("nowhere/ops").exits(2).says("--operations: there is no directory").says("nowhere");
    std::os::unix::fs::symlink(place.path("nowhere"), place.path("dangling")).unwrap();
    logged_in("dangling").exits(2).says("dangling exists");
    assert!(!place.path("nowhere").exists());
    // What fails is the file system's device, and the help says so.
    let help = place.fathom(&["stack", "up", "--help"]).stdout;
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(help.matches("not of an external log").count(), 1, "{help}");
    let words = ["stack", "up", "--fs", "xfs", "--size", "320", "--dir", ".", "--log-device", "nvme"];
    place.fathom(&words).exits(2).says("--log-device");
    let words = &words[..words.len() - 2];
    place
        .fathom(&[words, &["--device", "sd-slow", "--log", "64", "--log-device", "nvm"]].concat())
        .exits(2)
        .says("--log-device");
}

#[test]
fn what_a_device_is_doing_can_be_watched() {
    let (place, name) = (Place::new(), named("watched"));
    if !can_serve(&place) {
        return;
    }
    let work = up(&place, &name, &["sd-slow"]);
    let status = |more: &[&str]| {
        let end = place.fathom(&[&["stack", "status", &name][..], more].concat());
        end.exits(0);
        end.stdout
    };
    let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    let before = json(&status(&["--json"]));
    // Written and synced for as long as somebody watches.
    let (synced, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let watched = std::thread::scope(|scope| {
        scope.spawn(|| {
            let file = std::fs::File::create(work.join("file")).unwrap();
            while !is_over.load(Ordering::Acquire) {
                file.write_all_at(&[1; 4096], synced.load(Ordering::Relaxed) % 100 * 4096).unwrap();
                file.sync_all().unwrap();
                synced.fetch_add(1, Ordering::Release);
            }
        });
        while synced.load(Ordering::Acquire) == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        // A busy machine gives who writes nothing of an interval at times.
        let is_worked_in = |line: &str| {
            let moment: serde_json::Value = serde_json::from_str(line).unwrap_or_default();
            let some = |kind: &str| moment["kinds"][kind]["operations"].as_u64().is_some_and(|n| n > 0);
            some("write") && some("flush")
        };
        let begin = Instant::now();
        let end = loop {
            let end = place.fathom(&["stack", "status", &name, "--watch", "0.3", "--count", "2", "--json"]);
            if end.stdout.lines().all(is_worked_in) || begin.elapsed() > SOON {
                break end;
            }
        };
        is_over.store(true, Ordering::Release);
        end
    });
    watched.exits(0);
    let after = json(&status(&["--json"]));
    let flushes = |value: &serde_json::Value| value["kinds"]["flush"]["operations"].as_u64().unwrap();
    assert!(flushes(&after) - flushes(&before) >= synced.into_inner(), "{after:#}");
    let moments: Vec<_> = watched.stdout.lines().map(json).collect();
    assert_eq!(moments.len(), 2, "{watched}");
    for moment in &moments {
        let number = |name: &str| moment[name].as_f64().unwrap();
        // A write and a flush take 1.5 and 4 ms, one after the other: some 55 each in 0.3 s, less
        // on a busy machine, never more.
        assert!(number("span_s") >= 0.3 && flushes(moment) >= 1, "{moment:#}");
        assert!((flushes(moment) - 1) as f64 * 4e-3 <= number("span_s") + 4e-3, "{moment:#}");
        assert!(moment["kinds"]["write"]["p50_ns"].as_f64().unwrap() > 1.4e6, "{moment:#}");
        // The times of all operations added up, of which the flushes' are a part, over the time
        // that passed.
        let flushing_s = flushes(moment) as f64 * 4e-3;
        assert!(number("queue_depth") * number("span_s") > flushing_s * 0.999, "{moment:#}");
        assert!(moment["late_share"].is_number(), "{moment:#}");
    }
    for (text, parts) in [
        (
            status(&[]),
            &["mkfs and mount included", "in sequence", "answers late", "self-test off by", "sd-slow"][..],
        ),
        (status(&["--watch", "0.1", "--count", "1"]), &["reads/s", "flush p50", "queue", "late"]),
    ] {
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
    }
    // Its exit code is of all stacks, among them those of other tests, whose servers were killed.
    assert!(place.fathom(&["stack", "status"]).stdout.contains(&name));
    place.fathom(&["stack", "status", "none-such"]).exits(2).says("none-such");
    place.fathom(&["stack", "status", &name, "--watch", "0"]).exits(2).says("seconds");
    // Who watches is told of the end, and a device whose server was killed says so. What happened:
    // where taking it down took more than two seconds, the watched device was said to be broken.
    let watching = place.start(&["stack", "status", &name, "--watch", "0.1"]);
    watching.wait_for_output();
    place.fathom(&["stack", "down", &name]).exits(0);
    let end = watching.end();
    end.exits(0);
    assert!(end.stderr.contains("is down"), "{end}");
    assert_eq!(mounts_of(&name), Vec::<String>::new());
    up(&place, &name, &["none"]);
    let process = server(&place);
    // SAFETY: kill takes integers.
    assert_eq!(unsafe { libc::kill(process, libc::SIGKILL) }, 0);
    gone_soon(process);
    place.fathom(&["stack", "status", &name]).exits(1).says("does not answer").says("stack down");
    // The mount is still there, and nothing on it works.
    let listed = place.fathom(&["stack", "list"]).stdout;
    let rest = listed.lines().skip_while(|line| !line.contains(&name)).take(3).collect::<Vec<_>>().join("\n");
    for part in ["broken", &format!("server (process {process}) has ended"), &format!("stack down {name}")] {
        assert!(rest.contains(part), "{part}: {listed}");
    }
    let listed = json(&place.fathom(&["stack", "list", "--json"]).stdout);
    let device = listed.as_array().unwrap().iter().find(|device| device["name"] == name.as_str()).unwrap();
    assert_eq!(device["up"], false, "{device:#}");
    place.fathom(&["stack", "down", &name]).exits(0);
    assert_eq!(mounts_of(&name), Vec::<String>::new());
}

#[test]
fn what_is_no_device_is_refused_with_what_is() {
    let place = Place::new();
    place.write("mine.toml", "name = \"mine\"\ntitle = \"x\"\nkind = \"sdd\"\n[read]\n");
    place.write("large.toml", &"# more and more\n".repeat(1 << 17));
    let text = fathom_device::text_of("sd-slow").unwrap();
    place.write("preset.toml", &text.replacen("title = \"", "title = \"Faster: ", 1));
    for (more, says) in [
        (&["sd-slwo"][..], "did you mean \"sd-slow\""),
        (&["mine.toml"], "mine.toml:"),
        (&["./none-such.toml"], "none-such.toml"),
        (&["/dev/zero"], "it is no file"),
        (&["./large.toml"], "more than 1024 KiB"),
        (&["./preset.toml"], "give it a name of its own"),
        (&["sd-slow", "--fault", "full@xx"], "full@65536 (KiB)"),
        (&["sd-slow", "--fault", "flush-error@0"], "from 1"),
        (&["sd-slow", "--fault", "gome@3"], "did you mean `gone`"),
        (&["sd-slow", "--log-device", "nvme"], "external log"),
    ] {
        let words = ["stack", "up", "--fs", "ext4", "--dir", ".", "--device"];
        place.fathom(&[&words[..], more].concat()).exits(2).says(says);
    }
    // An experiment's too, before anything runs.
    place.write("late.toml", &EXPERIMENT.replace("\"sd-slow\"", "\"./mine.toml\""));
    place
        .fathom(&["run", "late.toml", "--plan", "--dir", "."])
        .exits(2)
        .says("late.toml:15: ./mine.toml:4: missing field");
    place
        .fathom(&["stack", "up", "--fs", "dir", "--dir", ".", "--device", "sd-slow"])
        .exits(2)
        .says("file system");
    place
        .fathom(&["stack", "up", "--fs", "ext4", "--dir", ".", "--fault", "gone"])
        .exits(2)
        .says("modelled device");
}

const EXPERIMENT: &str = "name = \"late\"\ntitle = \"late\"\nquestion = \"?\"\nrepeats = 1\n\
    [workload]\nname = \"mobibench-sql\"\ntransactions = 25\ntables = 1\n\
    [engine]\nname = \"sqlite\"\nsynchronous = \"full\"\n\
    [stack]\nfilesystem = \"ext4\"\nsize_mib = 32\ndevice = \"sd-slow\"\n\
    [matrix]\n\"engine.journal_mode\" = [\"delete\", \"wal\"]\n";

/// One run is left alone, and in the other the device stands still for a while, as on a machine
/// that is too busy.
#[test]
fn a_run_that_did_not_get_the_models_times_is_marked_and_told_its_model_time() {
    let place = Place::new();
    if !can_serve(&place) {
        return;
    }
    // By the model the device is busy for a second or more in each run.
    place.write("late.toml", &longer(60));
    let running = place.start(&["run", "late.toml", "--out", "out.db", "--dir", "."]);
    let worker = Worker::at_work(&running);
    let process = server(&place);
    drop(worker);
    // What comes while the server stands still is not late, for nobody has seen it come: an
    // operation has to be under way.
    let late_ns = || told(&running)["late_ns"].as_u64().unwrap();
    loop {
        let before_ns = late_ns();
        for (signal, ms) in [(libc::SIGSTOP, 700), (libc::SIGCONT, 20)] {
            // SAFETY: kill takes integers.
            assert_eq!(unsafe { libc::kill(process, signal) }, 0);
            std::thread::sleep(Duration::from_millis(ms));
        }
        if late_ns() - before_ns > 600_000_000 {
            break;
        }
    }
    let end = running.end();
    end.exits(0);
    let of = |what: &str| {
        let each = format!("SELECT json_extract(device, '$[0].{what}') AS it FROM run ORDER BY id");
        let text = place.rows("out.db", &format!("SELECT group_concat(it, ' ') FROM ({each})"));
        text.split_whitespace().map(|word| word.parse::<f64>().unwrap()).collect::<Vec<_>>()
    };
    let (model, measured, timed) = (of("model_ns"), of("measured_ns"), of("timed"));
    println!(
        "model {model:?} measured {measured:?} lateness p50 {:?} p99 {:?}",
        of("late_p50_ns"),
        of("late_p99_ns")
    );
    // Mostly the first one, or the second where the test came late.
    let latest = of("late_max_ns");
    let which = usize::from(latest[1] > latest[0]);
    assert!(
        measured[which] - model[which] > 0.5e9 && model[which] > 0.1e9,
        "what was stopped is no model time"
    );
    assert!(timed[which] > 100.0 && latest[which] > 0.5e9);
    // Asked against given, before each run.
    assert_eq!(of("self_test[0].asked_ns"), [200_000.0; 2]);
    // A millisecond was asked for; what a busy machine gives, too late or, by a wrong calibration,
    // too early, is for the report to say.
    assert!(of("self_test[1].given_ns[2]").iter().all(|ns| *ns > 0.0));
    let told = place.fathom(&["report", "out.db"]);
    told.exits(0);
    for part in ["! Runs in which this machine was too busy", "late device: in"] {
        assert!(told.stdout.to_lowercase().contains(&part.to_lowercase()), "{part}: {}", told.stdout);
    }
    let csv = place.fathom(&["report", "out.db", "--csv"]).stdout;
    assert!(
        csv.lines()
            .next()
            .unwrap()
            .contains("device_model_ns,elapsed_ns,elapsed_model_ns,device_marked_runs")
    );
    let json: serde_json::Value =
        serde_json::from_str(&place.fathom(&["report", "out.db", "--json"]).stdout).unwrap();
    let both = json["cells"].as_array().unwrap().iter().map(|value| &value["device"]["runs"][0]);
    assert!(both.clone().any(|run| run["kept"] == false), "{both:?}");
    let page = String::from_utf8(place.read("out.html")).unwrap();
    assert!(page.contains("Modelled devices: time by the model") && page.contains("<abbr title="));
}

/// The block layer's events and the device's own count come by ways that know nothing of each
/// other.
#[test]
fn a_device_counts_what_a_block_trace_of_it_tells() {
    let place = Place::new();
    if !can_serve(&place) {
        return;
    }
    let text = EXPERIMENT.replace("sd-slow", "none").replace("\"late\"", "\"counted\"");
    place.write("counted.toml", &format!("{text}[instruments]\nblocks = true\n"));
    let traced_and_counted = |more: &[&str]| {
        let words = ["run", "counted.toml", "--out", "out.db", "--dir", "."];
        place.fathom(&[&words[..], more].concat()).exits(0);
        let remarks = place.rows("out.db", "SELECT group_concat(remarks) FROM trace");
        assert_eq!(
            remarks.matches("the modelled device counted the same as this trace").count(),
            2,
            "{remarks}"
        );
        // 25 transactions sync the journal, its directory and the database, or the log.
        let flushes =
            "SELECT min(it) FROM (SELECT count(*) AS it FROM block WHERE op = 'flush' GROUP BY run)";
        assert!(place.rows("out.db", flushes).trim().parse::<u32>().unwrap() >= 25);
        std::fs::remove_file(place.path("out.db")).unwrap();
    };
    traced_and_counted(&[]);
    if fathom_stack::guest::Kernel::cached().is_none() {
        println!("SKIP: the same in a guest: there is no guest kernel (`fathom stack kernel` builds it)");
        return;
    }
    traced_and_counted(&["--guest"]);
}

/// What a stack's second device did is in the run's record, the trace and the report as well: the
/// log's flushes are the commits'.
#[test]
fn an_external_log_on_a_device_of_its_own_is_told_apart() {
    let place = Place::new();
    if !can_serve(&place) {
        return;
    }
    let stack =
        "filesystem = \"ext4\"\nsize_mib = 64\ndevice = \"sd-slow\"\nlog_mib = 16\nlog_device = \"none\"\n";
    let text = EXPERIMENT
        .replace("\"late\"", "\"logged\"")
        .replace("filesystem = \"ext4\"\nsize_mib = 32\ndevice = \"sd-slow\"\n", stack);
    assert!(text.contains(stack));
    place.write("logged.toml", &format!("{text}[instruments]\nblocks = true\n"));
    place.fathom(&["run", "logged.toml", "--out", "out.db", "--dir", "."]).exits(0);
    let number = |sql: &str| place.rows("out.db", sql).trim().parse::<u64>().unwrap();
    assert_eq!(number("SELECT sum(json_array_length(device)) FROM run"), 4);
    // 25 transactions; ext4 writes and flushes its log in each sync that changes a file's size or a
    // directory. Without delays it takes no time by the model, where the card under the file system
    // takes milliseconds for a flush.
    assert!(number("SELECT min(json_extract(device, '$[1].operations[1]')) FROM run") >= 25);
    assert!(number("SELECT max(json_extract(device, '$[1].model_ns')) FROM run") < 1_000_000);
    assert!(number("SELECT min(json_extract(device, '$[0].model_ns')) FROM run") > 100_000_000);
    let remarks = place.rows("out.db", "SELECT group_concat(remarks) FROM trace");
    for device in ["modelled device", "modelled log device"] {
        let same = format!("the {device} counted the same as this trace");
        assert_eq!(remarks.matches(&same).count(), 2, "{remarks}");
    }
    let page = String::from_utf8(place.read("out.html")).unwrap();
    assert_eq!(
        page.matches(", log device<").count() + page.matches(", log device <abbr").count(),
        4,
        "a row for each, in the table of devices and in that of their self-tests"
    );
    assert_eq!(
        place.rows("out.db", "SELECT group_concat(json_extract(device, '$[1].timed')) FROM run"),
        "0,0"
    );
    let json = place.fathom(&["report", "out.db", "--json"]).stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    for cell in json["cells"].as_array().unwrap() {
        assert_eq!(cell["log_device"]["carries"], "external-log");
        assert!(cell["log_device"]["runs"][0]["operations"][1].as_u64().unwrap() >= 25);
    }
}

#[test]
fn what_reached_a_device_is_logged_and_printed() {
    let (place, name) = (Place::new(), named("logged"));
    if !can_serve(&place) {
        return;
    }
    let work =
        up(&place, &name, &["none", "--operations", "log", "--capture", "--fault", "write-error@100000"]);
    let content = b"what a program wrote to a file on the device".repeat(200);
    std::fs::write(work.join("file"), &content).unwrap();
    std::fs::File::open(work.join("file")).unwrap().sync_all().unwrap();
    let used = place.fathom(&["stack", "status", &name, "--json"]).stdout;
    let used: serde_json::Value = serde_json::from_str(&used).unwrap();
    place.fathom(&["stack", "down", &name]).exits(0);
    // Complete from the first moment on.
    let csv = place.fathom(&["stack", "operations", "log"]);
    csv.exits(0);
    assert_eq!(csv.stderr, "", "and nothing to be warned of");
    let json = place.fathom(&["stack", "operations", "log", "--json"]).stdout;
    let lines: Vec<serde_json::Value> =
        json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(csv.stdout.lines().count(), lines.len() + 1);
    assert!(csv.stdout.starts_with("arrival_us,asked_us,given_us,operation,offset,bytes,"), "{csv}");
    for kind in ["read", "write", "flush"] {
        let logged = lines.iter().filter(|line| line["operation"] == kind).count() as u64;
        // Going down wrote some more.
        assert!(
            logged >= used["kinds"][kind]["operations"].as_u64().unwrap() && logged > 0,
            "{kind}: {logged}"
        );
    }
    // The data of a write is found by its place: the program's own is among it.
    let data = place.read("log.data");
    let has_it = |value: &serde_json::Value| {
        let (at, bytes) = (value["data_at"].as_u64(), value["bytes"].as_u64().unwrap() as usize);
        at.is_some_and(|at| data[at as usize..][..bytes].starts_with(&content[..4096]))
    };
    assert!(lines.iter().any(has_it), "none of {} writes holds the file's beginning", lines.len());
    let again = [
        "stack",
        "up",
        "--fs",
        "ext4",
        "--size",
        "32",
        "--dir",
        ".",
        "--device",
        "none",
        "--operations",
        "log",
    ];
    place.fathom(&again).exits(2).says("log exists");
    place.fathom(&["stack", "up", "--dir", ".", "--operations", "other"]).exits(2).says("modelled device");
    place
        .fathom(&["stack", "up", "--dir", ".", "--device", "none", "--capture"])
        .exits(2)
        .says("--operations");
    // As blktrace has it: queued, issued and complete, 48 bytes each.
    place.fathom(&["stack", "operations", "log", "--blktrace", "card"]).exits(0);
    assert_eq!(place.read("card.blktrace.0").len(), lines.len() * 3 * 48);
    place.fathom(&["stack", "operations", "log", "--blktrace", "-"]).exits(2).says("--blktrace");
    place.fathom(&["stack", "operations", "log", "--blktrace", "card", "--json"]).exits(2).says("--json");
    place.fathom(&["stack", "operations", "log.data"]).exits(2).says("FATHDEV2");
    place.fathom(&["stack", "operations", "none-such"]).exits(2).says("none-such");
}

/// A small disk in memory, to be full soon.
struct Small(PathBuf);

impl Small {
    fn new(at: PathBuf) -> Small {
        std::fs::create_dir(&at).unwrap();
        let mount = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=600k", "none"])
            .arg(&at)
            .status();
        assert!(mount.unwrap().success());
        Small(at)
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg(&self.0).status();
    }
}

/// A log whose disk was full ended there, and neither the command that took the stack down nor the
/// one that printed the log said so.
#[test]
fn a_log_that_could_not_be_written_is_told_of_wherever_it_matters() {
    let (place, name) = (Place::new(), named("lost"));
    if !can_serve(&place) {
        return;
    }
    let _small = Small::new(place.path("small"));
    let status = || {
        let end = place.fathom(&["stack", "status", &name, "--json"]);
        end.exits(0);
        serde_json::from_str::<serde_json::Value>(&end.stdout).unwrap()
    };
    // The data of 32 MiB, and the records of many operations.
    for (more, bytes, lost) in [
        (&["--capture"][..], 1 << 20, "the data of writes is missing"),
        (&[], 4096, "operations are missing"),
    ] {
        let work = up(&place, &name, &[&["none", "--operations", "small/log"][..], more].concat());
        // What mkfs writes is too much data already.
        assert_eq!(status()["log_problem"].is_null(), more.is_empty(), "{:#}", status());
        let file = std::fs::File::create(work.join("file")).unwrap();
        // A round is 4 MiB of data or at least 4000 operations, of which 600 KiB hold the records
        // of fewer than 20,000.
        let mut rounds = 0;
        while status()["log_problem"].is_null() {
            rounds += 1;
            assert!(rounds < 10, "the log takes it all");
            for i in 0..if bytes == 4096 { 2000 } else { 4 } {
                file.write_all_at(&vec![1; bytes], i * bytes as u64 % (8 << 20)).unwrap();
                file.sync_all().unwrap();
            }
        }
        drop(file);
        for part in [lost, "No space left"] {
            assert!(status()["log_problem"].as_str().unwrap().contains(part), "{:#}", status());
            assert!(place.fathom(&["stack", "status", &name]).stdout.contains(part));
        }
        place.fathom(&["stack", "down", &name]).exits(1).says(lost).says("No space left").says("small/log");
        assert_eq!(mounts_of(&name), Vec::<String>::new(), "it is down all the same");
        let printed = place.fathom(&["stack", "operations", "small/log", "--json"]);
        printed.exits(1).says(lost);
        assert!(printed.stdout.lines().count() > 5, "what there is is printed");
        let data = std::fs::metadata(place.path("small/log.data")).map_or(0, |metadata| metadata.len());
        for line in printed.stdout.lines() {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            let at = line["data_at"].as_u64();
            assert!(at.is_none_or(|at| at + line["bytes"].as_u64().unwrap() <= data), "{line}");
        }
        for file in ["small/log", "small/log.data"] {
            let _ = std::fs::remove_file(place.path(file));
        }
    }
    // Nor does an image fit there that is to be kept.
    let words = [
        "stack",
        "up",
        "--fs",
        "ext4",
        "--size",
        "32",
        "--name",
        &name,
        "--dir",
        ".",
        "--keep",
        "small/k.img",
    ];
    let end = place.fathom(&words);
    end.exits(1).says("/small: no space left").says("smaller --size");
    assert!(!place.path("small/k.img").exists());
    // The end of a log is only in its server's memory.
    up(&place, &name, &["none", "--operations", "small/log"]);
    let process = server(&place);
    place.fathom(&["stack", "operations", "small/log"]).exits(0);
    // SAFETY: kill takes integers.
    assert_eq!(unsafe { libc::kill(process, libc::SIGKILL) }, 0);
    gone_soon(process);
    place.fathom(&["stack", "down", &name]).exits(1).says("server was killed");
    place.fathom(&["stack", "operations", "small/log"]).exits(0).says("not closed");
    assert_eq!(mounts_of(&name), Vec::<String>::new());
}

/// While it tries itself a device is used by a process of its own, so that its server can be killed
/// then as at any other time.
#[test]
fn a_server_killed_while_it_tries_itself_ends() {
    let place = Place::new();
    if !can_serve(&place) {
        return;
    }
    for after_ms in [0, 5, 20, 50, 100, 200] {
        let at = place.path(&format!("at{after_ms}"));
        std::fs::create_dir(&at).unwrap();
        let image = place.path(&format!("image{after_ms}"));
        std::fs::File::create(&image).unwrap().set_len(8 << 20).unwrap();
        let order = serde_json::json!({ "image": image, "at": at, "model": fathom_device::text_of("sd-slow").unwrap(), "seed": 1,
            "log": null, "capture": false, "faults": [] });
        let mut server = std::process::Command::new(env!("CARGO_BIN_EXE_fathom"))
            .arg("device-server")
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        writeln!(server.stdin.as_mut().unwrap(), "{order}").unwrap();
        let mounted = || std::fs::read_to_string("/proc/mounts").unwrap().contains(&*at.to_string_lossy());
        let begin = std::time::Instant::now();
        while !mounted() {
            assert!(begin.elapsed() < SOON, "no mount");
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(after_ms));
        server.kill().unwrap();
        // Not a wait, which could be for ever.
        while server.try_wait().unwrap().is_none() {
            assert!(begin.elapsed() < SOON, "it does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
        // The process that tried the device has its file open until its own request has failed.
        let undone = || std::process::Command::new("umount").arg(&at).status().unwrap().success();
        while !undone() {
            assert!(begin.elapsed() < SOON, "it stays in use");
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(!mounted());
    }
}
