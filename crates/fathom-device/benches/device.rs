//! What the modelled device costs, and whether it keeps the times it is asked for.
//!
//! `cargo bench -p fathom-device --bench device` as root, on a quiet machine; `-- asked`, `-- loop`
//! or `-- memory` runs one part.
//!
//! *asked*: operations of a program that reads, writes and syncs 4 KiB past the page cache are
//! asked to take a known time; what they took (median of 101) over what was asked, after
//! calibration. The bar is 5 % from 200 µs on.
//!
//! *loop*: SQLite's commits of one row (DELETE and WAL, FULL) on ext4, on a loop device over a
//! plain file and over a modelled device without delays, in turn, with both images on the same
//! disk. The plain loop's flushes reach it, while the modelled device never syncs its image: the
//! ratio tells what a user gains who takes the device instead of the disk. The bar is 0.9 of the
//! plain loop's rate.
//!
//! *memory*: the same with both images in `/dev/shm`, where a flush costs neither of them more than
//! the way to it, so that like is compared with like: once as it is, and once with idle processors
//! kept awake for both, as the modelled device keeps them by itself. The second tells what its
//! machinery costs, the first what a user sees.

#![allow(clippy::unwrap_used, reason = "a benchmark that cannot do its work has nothing to say")]

use std::fs::File;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use fathom_device::{Disk, Options, Trial, preset};
use rusqlite::Connection;

const IMAGE_BYTES: u64 = 512 << 20;
const COMMITS: u32 = 400;
const PAIRS: usize = 9;
/// Where images are in memory.
const MEMORY: &str = "/dev/shm";

fn run(program: &str, arguments: &[&str]) -> String {
    let out = Command::new(program).args(arguments).output().unwrap_or_else(|e| panic!("{program}: {e}"));
    assert!(out.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&out.stderr));
    String::from_utf8_lossy(&out.stdout).trim().to_owned()
}

fn image(path: &Path) -> File {
    let file = File::options().read(true).write(true).create(true).truncate(true).open(path).unwrap();
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, IMAGE_BYTES).unwrap();
    file
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Median of the 2.5 % and 97.5 % of 2000 resampled medians around it.
fn interval(values: &[f64]) -> (f64, f64) {
    let mut state = 1u64;
    let mut medians: Vec<f64> = (0..2000)
        .map(|_| {
            let draw = (0..values.len()).map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                values[(state >> 33) as usize % values.len()]
            });
            median(draw.collect())
        })
        .collect();
    medians.sort_by(f64::total_cmp);
    (medians[50], medians[1949])
}

fn options(model: &str) -> Options {
    let model = preset(model).expect("a preset").clone();
    Options { model, seed: 1, log: None, capture: false, answers: None, faults: Vec::new() }
}

fn part_asked(dir: &Path) {
    let at = dir.join("device");
    std::fs::create_dir(&at).unwrap();
    let disk = Disk::serve(image(&dir.join("asked.img")), &at, options("none")).unwrap();
    let overhead = disk.overhead_ns().map(|ns| ns / 1000);
    println!("calibrated: a read, write, flush is answered {overhead:?} µs early");
    println!(
        "{:>9} {:>9} {:>9} {:>16} {:>16} {:>16}",
        "KiB", "rest, µs", "asked, µs", "read", "write", "flush"
    );
    for (bytes, rest_us) in [(4096, 0), (4096, 100), (4096, 2000), (128 << 10, 0), (1 << 20, 0)] {
        for asked_us in [200u64, 300, 500, 1000, 2000, 5000, 10_000] {
            let rest = Duration::from_micros(rest_us);
            let given = disk.trial(&Trial { asked_ns: asked_us * 1000, bytes, count: 51, rest }).unwrap();
            let shown = given
                .map(|ns| format!("{:>7.0} ({:.3})", ns as f64 / 1e3, ns as f64 / 1e3 / asked_us as f64));
            println!(
                "{:>9} {rest_us:>9} {asked_us:>9} {:>16} {:>16} {:>16}",
                bytes >> 10,
                shown[0],
                shown[1],
                shown[2]
            );
        }
    }
    disk.stop().unwrap();
}

/// Makes ext4 on a loop device over `file`, commits there, and takes all down. Commits a second, by
/// journal mode.
fn commits(file: &Path, mount: &Path) -> [f64; 2] {
    let device = run("losetup", &["--direct-io=on", "--show", "-f", &file.to_string_lossy()]);
    run("mkfs.ext4", &["-q", "-F", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0", &device]);
    run("mount", &[&device, &mount.to_string_lossy()]);
    let rates = ["delete", "wal"].map(|mode| {
        let db = Connection::open(mount.join(format!("{mode}.db"))).unwrap();
        db.execute_batch(&format!(
            "PRAGMA journal_mode={mode}; PRAGMA synchronous=full; CREATE TABLE t(id INTEGER PRIMARY KEY, v TEXT)"
        ))
        .unwrap();
        let mut insert = db.prepare("INSERT INTO t(v) VALUES (?1)").unwrap();
        for _ in 0..20 {
            insert.execute(["warm"]).unwrap();
        }
        let begin = Instant::now();
        for _ in 0..COMMITS {
            insert.execute(["a row of about a hundred bytes, as mobibench writes them, a row of about a hundred bytes"]).unwrap();
        }
        f64::from(COMMITS) / begin.elapsed().as_secs_f64()
    });
    run("umount", &[&mount.to_string_lossy()]);
    run("losetup", &["-d", &device]);
    rates
}

fn part_loop(dir: &Path) {
    pairs("on disk", dir, dir);
}

fn part_memory(dir: &Path) {
    let memory = match tempfile::tempdir_in(MEMORY) {
        Ok(memory) => memory,
        Err(error) => return println!("\nskipped: images in memory ({MEMORY}: {error})"),
    };
    pairs("in memory", dir, memory.path());
    match awake() {
        Ok(_awake) => pairs("in memory, processors kept awake", dir, memory.path()),
        Err(error) => println!("\nskipped: processors kept awake (/dev/cpu_dma_latency: {error})"),
    }
}

/// Keeps idle processors awake as long as the file is open.
fn awake() -> std::io::Result<File> {
    let file = File::options().write(true).open("/dev/cpu_dma_latency")?;
    std::os::unix::fs::FileExt::write_all_at(&file, &0_i32.to_ne_bytes(), 0)?;
    Ok(file)
}

/// Pairs with the images in `images`; the rest is done in `dir`.
fn pairs(what: &str, dir: &Path, images: &Path) {
    let dir = tempfile::tempdir_in(dir).unwrap();
    let dir = dir.path();
    let (mount, at) = (dir.join("mount"), dir.join("at"));
    std::fs::create_dir(&mount).unwrap();
    std::fs::create_dir(&at).unwrap();
    let plain = images.join("plain.img");
    let mut pairs = Vec::new();
    for pair in 0..PAIRS {
        drop(image(&plain));
        let one = |which| match which {
            0 => commits(&plain, &mount),
            _ => {
                let disk = Disk::serve(image(&images.join("modelled.img")), &at, options("none")).unwrap();
                let rates = commits(&disk.path(), &mount);
                disk.stop().unwrap();
                rates
            }
        };
        let (mut of_plain, mut of_device) = ([0.0; 2], [0.0; 2]);
        for which in if pair % 2 == 0 { [0, 1] } else { [1, 0] } {
            *(if which == 0 { &mut of_plain } else { &mut of_device }) = one(which);
        }
        pairs.push((of_plain, of_device));
    }
    println!("\ncommits/s of one row on ext4, images {what}; medians of {PAIRS} pairs");
    println!("{:>8} {:>12} {:>18} {:>26}", "journal", "plain loop", "modelled, no delay", "share [95 %]");
    for (mode, name) in ["delete", "wal"].iter().enumerate() {
        let shares: Vec<f64> = pairs.iter().map(|(plain, device)| device[mode] / plain[mode]).collect();
        let (low, high) = interval(&shares);
        println!(
            "{name:>8} {:>12.0} {:>18.0} {:>26}",
            median(pairs.iter().map(|p| p.0[mode]).collect()),
            median(pairs.iter().map(|p| p.1[mode]).collect()),
            format!("{:.3} [{low:.3}, {high:.3}]", median(shares))
        );
    }
}

fn main() {
    let parts: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    if !fathom_ground::system::is_root() || !Path::new("/dev/fuse").exists() {
        println!("skipped: mounts need root (sudo cargo bench …) and /dev/fuse");
        return;
    }
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    type Part = fn(&Path);
    let all: [(&str, Part); 3] = [("asked", part_asked), ("loop", part_loop), ("memory", part_memory)];
    for (name, part) in all {
        if parts.is_empty() || parts.iter().any(|p| p == name) {
            part(dir.path());
        }
    }
}
