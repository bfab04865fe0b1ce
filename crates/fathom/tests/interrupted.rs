//! Ctrl-C at any moment of a run or of `stack up`, and a device that stands still under a guest:
//! all ends in time, and nothing stays. Needs root, mkfs.ext4 and /dev/fuse; for the guest's part a
//! guest kernel.

#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

mod place;

use std::path::Path;
use std::time::{Duration, Instant};

use fathom_stack::guest::Kernel;
use place::{Place, Stopped, can_serve, gone_soon, mounts_by, named, server, servers, told};

/// What is enough for a laboratory to notice that a device stands still, and to take down what is
/// there, on a busy machine too; less than [`Stopped`] waits.
const IN_TIME: Duration = Duration::from_secs(100);

/// One transaction and the next, for as long as it is left to itself.
fn experiment(filesystem: &str, transactions: u32) -> String {
    format!(
        r#"
name = "interrupted"
title = "t"
question = "q"
repeats = 2
[workload]
name = "mobibench-sql"
transactions = {transactions}
tables = 1
[engine]
name = "sqlite"
[stack]
filesystem = "{filesystem}"
size_mib = 192
device = "none"
"#
    )
}

/// The file systems that can be had, and how.
fn ways(place: &Place) -> Vec<(&'static str, &'static [&'static str])> {
    let mut ways: Vec<(&str, &[&str])> = Vec::new();
    if can_serve(place) {
        ways.push(("ext4", &[]));
    }
    if Kernel::cached().is_none() {
        println!("SKIP: the same in a guest: there is no guest kernel (`fathom stack kernel` builds it)");
    } else if !Path::new("/usr/sbin/mkfs.f2fs").exists() {
        println!("SKIP: the same in a guest: mkfs.f2fs is not installed");
    } else {
        ways.push(("f2fs", &["--guest"]));
    }
    ways
}

#[track_caller]
fn nothing_stays(place: &Place, process: i32) {
    let begin = Instant::now();
    let left = || {
        let (mounts, files) = (mounts_by(process), place.leftover_work());
        let none = mounts.is_empty() && files.is_empty() && servers(place).is_empty();
        (!none).then(|| format!("{mounts:?}, {files:?}, servers {:?}", servers(place)))
    };
    while let Some(left) = left() {
        assert!(begin.elapsed() < IN_TIME, "{left}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn ctrl_c_at_any_moment_of_a_run_leaves_nothing() {
    for (filesystem, more) in ways(&Place::new()) {
        // While the experiment is read, the device tries itself, mkfs, mount, the floor, the work;
        // and from the second run's begin on everything is the same again, with what the first one
        // has left.
        for after_ms in [0, 40, 80, 130, 190, 260, 340, 430, 530, 700, 900, 1200] {
            let place = Place::new();
            place.write("mine.toml", &experiment(filesystem, 100_000));
            let words = [&["run", "mine.toml", "--out", "out.db", "--dir", "."], more].concat();
            let running = place.start(&words);
            std::thread::sleep(Duration::from_millis(after_ms));
            let begin = Instant::now();
            running.interrupt();
            let process = running.process();
            let end = running.end();
            // Also in order, as it ends any program.
            end.ends_by(libc::SIGINT);
            assert!(
                !end.stderr.contains("panicked") && !end.stderr.contains("failed"),
                "after {after_ms} ms: {end}"
            );
            assert!(begin.elapsed() < IN_TIME, "after {after_ms} ms: {:?}", begin.elapsed());
            nothing_stays(&place, process);
            if place.files().contains(&"out.db".to_owned()) {
                place.fathom(&[&words[..], &["--resume", "--plan"]].concat()).exits(0);
            }
        }
    }
}

#[test]
fn ctrl_c_at_any_moment_of_an_up_leaves_all_of_a_stack_or_nothing() {
    for (filesystem, more) in ways(&Place::new()) {
        for after_ms in [0, 30, 60, 100, 150, 220, 300, 400, 500, 650, 800] {
            let (place, name) = (Place::new(), named(&format!("upped-{filesystem}-{after_ms}")));
            let words =
                ["stack", "up", "--fs", filesystem, "--size", "192", "--dir", ".", "--device", "none"];
            let running = place.start(&[&words[..], &["--name", &name], more].concat());
            std::thread::sleep(Duration::from_millis(after_ms));
            running.interrupt();
            let begin = Instant::now();
            let end = running.end();
            assert!(begin.elapsed() < IN_TIME, "after {after_ms} ms: {:?}", begin.elapsed());
            assert!(!end.stderr.contains("panicked"), "after {after_ms} ms: {end}");
            // What was ready is told and stays; anything else is undone, by whoever guards it.
            let home = format!("/named-{name}/");
            let there = || {
                std::fs::read_to_string("/proc/mounts").unwrap().contains(&home)
                    || !servers(&place).is_empty()
                    || !place.leftover_work().is_empty()
            };
            if end.code == Some(0) {
                assert!(there() && Path::new(end.stdout.trim()).is_dir(), "{end}");
                place.fathom(&["stack", "down", &name]).exits(0);
            }
            while there() {
                // Complete all the same, for the signal came just before the end.
                let listed = place.fathom(&["stack", "list", "--json"]).stdout.contains(&name);
                assert!(
                    !listed || !end.stderr.contains("Stopped"),
                    "after {after_ms} ms it is there, and was not told: {end}"
                );
                if listed {
                    place.fathom(&["stack", "down", &name]).exits(0);
                }
                let left = (servers(&place), place.leftover_work());
                assert!(begin.elapsed() < IN_TIME, "after {after_ms} ms: {left:?} {end}");
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

/// The guest's first process waits for its disk and answers nobody.
#[test]
fn a_guest_whose_device_stops_ends_within_the_limit_or_at_ctrl_c() {
    for (filesystem, more) in ways(&Place::new()).into_iter().filter(|(_, more)| !more.is_empty()) {
        for limited in [true, false] {
            let place = Place::new();
            place.write("mine.toml", &experiment(filesystem, 100_000));
            // The guest boots and works within it, on a busy machine too.
            let limit = ["--time-limit", if limited { "40" } else { "600" }];
            let words = [&["run", "mine.toml", "--out", "out.db", "--dir", "."][..], more, &limit].concat();
            let running = place.start(&words);
            running.wait_until(|| !servers(&place).is_empty());
            running.wait_for_child("guest-agent");
            // mkfs and the floor probe make some hundred; the worker goes on for long.
            running.wait_until(|| told(&running)["operations"][2].as_u64().unwrap() > 500);
            let stopped = Stopped::new(server(&place));
            std::thread::sleep(Duration::from_millis(300));
            let begin = Instant::now();
            if limited {
                let failed = "SELECT count(*) FROM run WHERE status = 'failed'";
                running.wait_until(|| place.rows_or_empty("out.db", failed) == "1");
                let message = place.rows("out.db", "SELECT message FROM run WHERE status = 'failed'");
                assert!(message.contains("time limit") && message.contains("stood still"), "{message}");
                // It was killed, and is gone when a processor has had time for that.
                gone_soon(stopped.0);
            }
            running.interrupt();
            let process = running.process();
            running.end().ends_by(libc::SIGINT).says("--resume");
            assert!(begin.elapsed() < IN_TIME, "{:?}", begin.elapsed());
            gone_soon(stopped.0);
            nothing_stays(&place, process);
        }
    }
}
