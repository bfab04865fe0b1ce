//! `fathom stack calibrate`: the model of a modelled device is that model, and nothing is
//! overwritten that was not given for it. FATHOM_LONG=1: in full instead of --quick, and on more
//! models, with their quantiles; FATHOM_MODELS=a,b: on these only.

#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

mod place;

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use fathom_device::{Disk, Latency, Model, Options, preset};
use fathom_stack::NoiseMeter;
use place::Place;

fn can_serve() -> bool {
    let able = fathom_ground::system::is_root() && Path::new("/dev/fuse").exists();
    if !able {
        println!("SKIP: a modelled device needs root here and /dev/fuse");
    }
    able
}

/// Tests that measure do so one after the other: beside each other they would measure each other.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn long() -> bool {
    std::env::var_os("FATHOM_LONG").is_some()
}

fn served(place: &Place, at: &str, model: &str, seed: u64) -> Disk {
    std::fs::create_dir(place.path(at)).unwrap();
    let image = tempfile::tempfile_in(place.path("")).unwrap();
    image.set_len(64 << 20).unwrap();
    let model = preset(model).unwrap().clone();
    Disk::serve(
        image,
        &place.path(at),
        Options { model, seed, log: None, capture: false, answers: None, faults: Vec::new() },
    )
    .unwrap()
}

/// What is measured of a model: a name, and the value in the model.
fn facts(model: &Model, quantiles: &[f64]) -> Vec<(String, f64)> {
    let mut all = vec![("channels".to_owned(), model.channels as f64)];
    let mut times = |name: &str, of: &Latency| {
        all.extend(quantiles.iter().map(|share| (format!("{name} at {share}"), of.quantile_ns(*share))));
    };
    times("4 KiB random read", &model.read.random);
    times("4 KiB sequential read", &model.read.sequential);
    // With a cache of the model's it is the cache that answers.
    let write = model.cache.map(|cache| Latency::constant_us(cache.write_ns / 1e3));
    times("4 KiB random write", write.as_ref().unwrap_or(&model.write.random));
    times("4 KiB sequential write", write.as_ref().unwrap_or(&model.write.sequential));
    times("a flush's base", &model.flush.base);
    let mib = 1048576.0 - 4096.0;
    let sequential = |side: &fathom_device::Side| side.sequential.quantile_ns(0.5) + mib * side.ns_per_byte;
    all.push(("1 MiB read in sequence".into(), sequential(&model.read)));
    if model.cache.is_none() {
        all.push(("1 MiB written in sequence".into(), sequential(&model.write)));
        let flush = model.flush.base.quantile_ns(0.5) + 1024.0 * model.flush.per_dirty_kib_ns;
        all.push(("a flush of 1 MiB".into(), flush));
    }
    if let Some(cache) = model.cache {
        all.push(("the cache's size".into(), cache.bytes as f64));
        all.push(("the cache's drain".into(), cache.drain_bytes_per_ns));
    }
    all
}

#[test]
fn the_model_of_a_modelled_device_is_that_model() {
    if !can_serve() {
        return;
    }
    let _alone = alone();
    let of_quantiles: &[f64] = &[0.5, 0.75];
    let cases: &[(&str, &[f64])] = match long() {
        false => &[("sd-sandisk-extreme", &[0.5])],
        true => &[
            ("sd-samsung-32", &[0.5, 0.9]),
            ("sd-sandisk-8", &[0.5, 0.9]),
            ("sd-slow", &[0.5, 0.9]),
            ("ufs-fresh", of_quantiles),
            // Its medians and p90 lie where its times begin to rise many times as fast: at p90 of a
            // flush 0.3 % of all operations more, which is what 10,000 of them leave open, are 17 %
            // of the time.
            ("ufs-fragmented", &[0.25, 0.75, 0.95]),
            ("emmc-51", &[0.5]),
        ],
    };
    let only = std::env::var("FATHOM_MODELS").unwrap_or_default();
    let wanted = |name: &str| only.is_empty() || only.split(',').any(|part| part == name);
    for (name, quantiles) in cases.iter().filter(|(name, _)| wanted(name)) {
        let place = Place::new();
        let given = facts(preset(name).unwrap(), quantiles);
        // A busy machine is late at times; five tries, of which one must agree. Where none does,
        // those count in which the device kept its times and nothing else worked.
        let (mut wrong, mut quiet) = (Vec::new(), 0);
        let agrees = (0..5).any(|number| {
            let noise = NoiseMeter::start();
            let disk = served(&place, &format!("at{number}"), name, number + 1);
            let (path, out) = (disk.path().display().to_string(), format!("model{number}.toml"));
            let mut words = vec![
                "stack",
                "calibrate",
                &path,
                "--destroy",
                "--size",
                "32",
                "--name",
                "again",
                "--out",
                &out,
            ];
            if !long() {
                words.push("--quick");
            }
            place.fathom(&words).exits(0);
            let kept = disk.stop().unwrap().use_of().is_on_time();
            let noise = noise.read().warnings();
            println!("{name}: times kept: {kept}; {noise:?}");
            quiet += usize::from(kept && noise.is_empty());
            let text = String::from_utf8(place.read(&out)).unwrap();
            let model = Model::parse(&out, &text).unwrap();
            assert!(
                model.sources[0].contains("measured 20") && model.sources[0].contains("O_DIRECT"),
                "{text}"
            );
            let found = facts(&model, quantiles);
            assert!(text.lines().any(|line| line.starts_with("# path ")), "{text}");
            wrong.clear();
            for (what, asked) in &given {
                let got = found.iter().find(|pair| pair.0 == *what).map_or(f64::NAN, |pair| pair.1);
                println!(
                    "{name}: {what}: {asked:.3e} measured {got:.3e} ({:+.1} %)",
                    (got / asked - 1.0) * 100.0
                );
                if (got / asked - 1.0).abs() > 0.1 || got.is_nan() {
                    wrong.push(format!("{what}: {asked:.3e} measured as {got:.3e}"));
                }
            }
            if !wrong.is_empty() {
                println!("{text}");
            }
            wrong.is_empty()
        });
        if !agrees && quiet == 0 {
            println!("SKIP: {name}: this machine was too busy each time: {wrong:#?}");
            continue;
        }
        assert!(agrees, "{name}: {wrong:#?}");
    }
}

/// What happened: the device beside one that is served through FUSE was served by the process that
/// measured it. Killed, that left its mount, and where it was waiting for its own answer it could
/// not be killed at all.
#[test]
fn what_is_served_beside_a_target_goes_when_the_measuring_is_killed() {
    if !can_serve() {
        return;
    }
    let _alone = alone();
    let place = Place::new();
    let disk = served(&place, "at", "none", 1);
    let path = disk.path().display().to_string();
    let is_there = |own: &str| std::fs::read_to_string("/proc/mounts").unwrap().contains(&format!("/{own}"));
    // Who is so late, on a busy machine, that all is measured begins again.
    let in_time = || {
        let running = place.start(&["stack", "calibrate", &path, "--destroy", "--quick", "--size", "32"]);
        let own = format!("fathom-path-{}-", running.process());
        running.holds_before_its_end(|| is_there(&own));
        running.kill();
        (running.end().signal == Some(libc::SIGKILL)).then_some(own)
    };
    let own = (0..10).find_map(|_| in_time()).expect("all was measured each time");
    let is_mounted = || is_there(&own);
    let begin = Instant::now();
    while is_mounted() {
        assert!(begin.elapsed() < Duration::from_secs(100), "{own} stays mounted");
        std::thread::sleep(Duration::from_millis(20));
    }
    for entry in std::fs::read_dir(std::env::temp_dir()).unwrap().flatten() {
        if entry.file_name().to_string_lossy().starts_with(&own) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
    disk.stop().unwrap();
}

#[test]
fn a_directory_is_measured_in_a_file_that_goes_again_and_the_model_can_be_loaded() {
    let _alone = alone();
    // The tests' place may lie in memory, which cannot be measured; the build's folder does not.
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let at = directory.path().display().to_string();
    let place = Place::new();
    let end = place.fathom(&["stack", "calibrate", &at, "--quick", "--size", "16"]);
    if end.stderr.contains("O_DIRECT") || end.stderr.contains("in memory") {
        println!("SKIP: {}", end.stderr);
        return;
    }
    end.exits(0);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "nothing is left");
    let model = Model::parse("printed", &end.stdout).unwrap();
    assert_eq!(model.name, "measured");
    assert!(
        model.read.random.quantile_ns(0.5) > 0.0 && model.sources[0].contains("a file on"),
        "{}",
        end.stdout
    );
    // As another user's place would be: what is not there, and what cannot be written.
    for missing in ["none", "none/file"] {
        let end =
            place.fathom(&["stack", "calibrate", &format!("{at}/{missing}"), "--quick", "--size", "16"]);
        end.exits(2).says("does not exist").says("mounted?");
    }
    for size in ["0", "8"] {
        place.fathom(&["stack", "calibrate", &at, "--size", size]).exits(2).says("too small").says("give 16");
    }
    place.fathom(&["stack", "calibrate", &at, "--size", "1000000000"]).exits(1).says("MiB are free");
    place.fathom(&["stack", "calibrate", &at, "--name", "My Card"]).exits(2).says("no name");
    // What happened: a minute or two were measured, and the model was refused by all that take one.
    place.fathom(&["stack", "calibrate", &at, "--name", "emmc-51"]).exits(2).says("my-emmc-51");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "nor by what failed");
}

#[test]
fn what_holds_data_is_not_overwritten_unasked() {
    let place = Place::new();
    place.write("precious", "precious");
    let precious = place.path("precious").display().to_string();
    place.fathom(&["stack", "calibrate", &precious]).exits(2).says("would be overwritten").says("--destroy");
    assert_eq!(place.read("precious"), b"precious");
    place.fathom(&["stack", "calibrate", &precious, "--destroy"]).exits(1).says("at least 16 are needed");
    place
        .fathom(&["stack", "calibrate", &precious, "--destroy", "--out", "precious"])
        .exits(2)
        .says("another file");
    assert_eq!(place.read("precious"), b"precious");
    // What happened: results, traces and databases were written over with --destroy.
    let database = "SQLite format 3\0".repeat(2 << 20);
    place.write("results.db", &database);
    let results = place.path("results.db").display().to_string();
    place
        .fathom(&["stack", "calibrate", &results, "--destroy", "--quick", "--size", "16"])
        .exits(2)
        .says("an SQLite database, which would be replaced");
    assert!(place.read("results.db") == database.as_bytes());
    if Path::new("/dev/loop0").exists() {
        place
            .fathom(&["stack", "calibrate", "/dev/loop0"])
            .exits(2)
            .says("is a block device")
            .says("--destroy");
    }
    place
        .fathom(&["stack", "calibrate", "/dev/null"])
        .exits(1)
        .says("neither a directory nor a block device");
    let memory = place.fathom(&["stack", "calibrate", "/dev/shm"]);
    memory.exits(1);
    assert!(memory.stderr.contains("in memory") || memory.stderr.contains("does not exist"), "{memory}");
    place.fathom(&["stack", "calibrate", "/proc"]).exits(1).says("no file can be made here");
    let refused = place.fathom(&["stack", "calibrate", "/sys/kernel"]);
    refused.exits(1);
    assert!(!fathom_ground::system::is_root() || !refused.stderr.contains("run as root"), "{refused}");
}
