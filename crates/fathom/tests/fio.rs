//! fio's verify modes on the modelled device: what was written at random places and in sequence,
//! with flushes in between and several requests under way, is read back and its checksums hold, on
//! the device itself and on every file system, here and in the guest. FATHOM_LONG=1: more data, on
//! more models.

#![allow(clippy::unwrap_used, reason = "in a test an unwrap is an assertion")]

mod place;

use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use fathom_device::{Disk, Options, preset};
use fathom_stack::guest::Kernel;
use fathom_stack::{StackError, StackSpec, Stacks};
use place::Place;

const FATHOM: &str = env!("CARGO_BIN_EXE_fathom");
const FIO: &str = "/usr/bin/fio";
const LIMIT: Duration = Duration::from_secs(600);

fn long() -> bool {
    std::env::var_os("FATHOM_LONG").is_some()
}

fn can_verify() -> bool {
    let missing = [
        (!fathom_ground::system::is_root(), "a modelled device under a file system needs root"),
        (!Path::new("/dev/fuse").exists(), "there is no /dev/fuse"),
        (!Path::new(FIO).exists(), "fio is not installed (sudo apt-get install fio)"),
    ];
    let missing: Vec<&str> = missing.iter().filter(|pair| pair.0).map(|pair| pair.1).collect();
    if !missing.is_empty() {
        println!("SKIP: {}", missing.join("; "));
    }
    missing.is_empty()
}

/// The models: one with several channels and quantiles; in the long mode others too.
fn models() -> &'static [&'static str] {
    if long() { &["none", "ufs-fresh", "emmc-51", "nvme", "sd-sandisk-extreme"] } else { &["ufs-fresh"] }
}

/// fio's words for each job on `at`: a directory, or the device itself.
fn jobs(at: &str, is_device: bool, direct: bool) -> Vec<Vec<String>> {
    let mib = if long() { 24 } else { 2 };
    let place = if is_device { format!("--filename={at}") } else { format!("--directory={at}") };
    let common = [
        place,
        format!("--direct={}", u8::from(direct)),
        "--verify=crc32c --verify_fatal=1 --do_verify=1 --invalidate=1 --randseed=7 --thread --group_reporting".into(),
    ];
    let common = common.join(" ");
    [
        format!("--name=random --rw=randwrite --bs=4k --size={mib}m --ioengine=psync --fsync=16"),
        format!("--name=sequence --rw=write --bs=64k --size={}m --ioengine=psync --fsync=8", 2 * mib),
        format!("--name=queue --rw=randwrite --bsrange=4k-64k --size={mib}m --ioengine=libaio --iodepth=8 --fdatasync=32"),
    ]
    .into_iter()
    .map(|job| format!("{job} {common}").split_whitespace().map(str::to_owned).collect())
    .collect()
}

/// The verify phase must have read what was written.
#[track_caller]
fn verified(what: &str, said: &str) {
    let read = said
        .lines()
        .any(|line| line.trim_start().starts_with("read:") || line.trim_start().starts_with("READ:"));
    assert!(read && said.contains("err= 0"), "{what}: {said}");
}

fn here(what: &str, words: &[String]) {
    let end = Command::new(FIO).args(words).current_dir("/").output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&end.stdout), String::from_utf8_lossy(&end.stderr));
    assert!(end.status.success(), "{what}: {said}");
    verified(what, &said);
}

#[test]
fn fio_verifies_what_it_wrote_to_the_device_itself() {
    if !can_verify() {
        return;
    }
    for model in models() {
        let place = Place::new();
        std::fs::create_dir(place.path("at")).unwrap();
        let image = std::fs::File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(place.path("image"))
            .unwrap();
        image.set_len(128 << 20).unwrap();
        let behind = image.try_clone().unwrap();
        let options = Options {
            model: preset(model).unwrap().clone(),
            seed: 1,
            log: None,
            capture: false,
            answers: None,
            faults: Vec::new(),
        };
        let disk = Disk::serve(image, &place.path("at"), options).unwrap();
        for words in jobs(&disk.path().display().to_string(), true, true) {
            here(&format!("{model} {}", words[0]), &words);
        }
        // That fio would see a wrong byte: one is changed behind the device's back.
        let words = |phase: &str| {
            let words = format!(
                "--name=again --filename={} --rw=write --bs=64k --size=1m --direct=1 --verify=crc32c --verify_fatal=1 {phase}",
                disk.path().display()
            );
            Command::new(FIO)
                .args(words.split_whitespace())
                .current_dir(place.path(""))
                .output()
                .unwrap()
                .status
                .success()
        };
        assert!(words("--do_verify=0") && words("--verify_only=1"));
        behind.write_all_at(&[0; 16], 300_000).unwrap();
        assert!(!words("--verify_only=1"), "a wrong byte was not seen");
        let done = disk.stop().unwrap();
        println!("{model}: {:?} operations, {:?} bytes", done.operations, done.bytes);
        assert!(done.operations[2] > 0, "flushes arrived: {:?}", done.operations);
    }
}

#[test]
fn fio_verifies_what_it_wrote_to_every_file_system_of_this_kernel() {
    if !can_verify() {
        return;
    }
    for model in models() {
        for (filesystem, size_mib) in
            [("ext2", 64), ("ext3", 64), ("ext4", 64), ("xfs", 320), ("btrfs", 256), ("ntfs", 64)]
        {
            let place = Place::new();
            let Some(stack) = up(&place, filesystem, size_mib, model, false) else { continue };
            // NTFS-3G has its own cache, past which a program cannot read.
            for words in jobs(&stack.path().display().to_string(), false, filesystem != "ntfs") {
                here(&format!("{filesystem} on {model} {}", words[0]), &words);
            }
            stack.down().unwrap();
        }
    }
}

#[test]
fn fio_verifies_what_it_wrote_in_the_guest() {
    if !can_verify() {
        return;
    }
    if Kernel::cached().is_none() {
        println!("SKIP: there is no guest kernel (`fathom stack kernel` builds it)");
        return;
    }
    for model in models() {
        for (filesystem, size_mib) in
            [("vfat", 64), ("exfat", 64), ("f2fs", 128), ("ntfs3", 64), ("nilfs2", 192)]
        {
            let place = Place::new();
            let Some(mut stack) = up(&place, filesystem, size_mib, model, true) else { continue };
            // NILFS2 cannot write past the page cache.
            for words in jobs(&stack.path().display().to_string(), false, filesystem != "nilfs2") {
                let what = format!("{filesystem} on {model} in the guest {}", words[0]);
                let (said, complaints) = stack
                    .run_in_guest(Path::new(FIO), &words, LIMIT)
                    .unwrap_or_else(|error| panic!("{what}: {error}"));
                verified(&what, &format!("{said}{complaints}"));
            }
            stack.down().unwrap();
        }
    }
}

fn up(
    place: &Place,
    filesystem: &str,
    size_mib: u64,
    device: &str,
    guest: bool,
) -> Option<fathom_stack::Stack> {
    let spec = StackSpec {
        place: filesystem.into(),
        size_mib,
        directory: Some(place.path("")),
        device: Some(device.into()),
        device_seed: 1,
        guest,
        ..StackSpec::default()
    };
    match Stacks::at(place.path("state")).with_program(FATHOM.into()).up(&spec, "fio") {
        Ok(stack) => Some(stack),
        Err(error @ (StackError::Unavailable { .. } | StackError::Spec { field: "filesystem", .. })) => {
            println!("SKIP: {filesystem}: {error}");
            None
        }
        Err(error) => panic!("{filesystem}: {error}"),
    }
}
