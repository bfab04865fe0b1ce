//! Every file system that this machine can make is made, used, recorded and taken down.

#![allow(clippy::unwrap_used, reason = "helpers of tests outside #[test] functions")]

mod common;

use std::fs;
use std::io::Write;

use common::{Place, available, can_mount};
use fathom_stack::{StackSpec, available_filesystems, floor_probe};

#[test]
fn each_available_file_system_works_and_leaves_nothing() {
    for filesystem in available_filesystems() {
        if !filesystem.present {
            println!("skipped {}: {}", filesystem.filesystem, filesystem.detail);
            continue;
        }
        let place = Place::new();
        let mut spec = place.spec(&filesystem.filesystem);
        spec.size_mib = spec.size_mib.max(filesystem.min_mib);
        let stack =
            place.stacks().up(&spec, "each").unwrap_or_else(|e| panic!("{}: {e}", filesystem.filesystem));
        assert_eq!(fs::read_dir(stack.path()).unwrap().count(), 0, "the directory is empty");
        fs::File::create(stack.path().join("a")).unwrap().write_all(&vec![1; 1 << 20]).unwrap();
        let floor = floor_probe(stack.path(), 20).unwrap();
        let record = stack.record();
        println!("{}: floor {} µs, {record:?}", filesystem.filesystem, floor.median_ns / 1000);
        if filesystem.filesystem != "dir" {
            assert!(record.device.starts_with("loop (direct I/O) on "), "{record:?}");
            assert!(record.mkfs.contains("IMAGE") && !record.mkfs.contains("/dev/loop"), "{record:?}");
            assert!(record.mkfs_version.contains(|c: char| c.is_ascii_digit()), "{record:?}");
            assert!(record.mount.split(',').any(|o| o == "rw"), "{record:?}");
            assert_eq!(record.warnings, Vec::<String>::new());
        }
        stack.down().unwrap();
        place.assert_nothing_left();
    }
}

/// What happened: while a run of a trace lasted, `STATE/stacks/ID/mnt/work` (0755) and the
/// databases of an application in it (0644) could be read by everybody, and so could the directory
/// of a `dir` stack. The mend: nobody else gets there, on file systems without owners neither; for
/// the server of another user there is a way that may be gone and not looked around in.
#[test]
fn nobody_else_may_enter_where_is_worked() {
    use std::os::unix::fs::PermissionsExt;
    for filesystem in ["dir", "ext4", "ntfs"] {
        if !available(filesystem) {
            continue;
        }
        let place = Place::new();
        let stack = place.stacks().up(&place.spec(filesystem), "private").unwrap();
        let way = || {
            let below = stack.path().ancestors().take_while(|directory| *directory != place.root.path());
            below
                .map(|directory| fs::metadata(directory).unwrap().permissions().mode() & 0o777)
                .collect::<Vec<_>>()
        };
        assert!(way().iter().any(|mode| mode & 0o077 == 0), "{filesystem}: {:?}", way());
        assert!(filesystem == "ntfs" || way()[0] == 0o700, "{filesystem}: {:?}", way());
        stack.let_enter().unwrap();
        assert!(way().iter().all(|mode| mode & 0o001 != 0), "{filesystem}: {:?}", way());
        stack.down().unwrap();
        place.assert_nothing_left();
    }
}

#[test]
fn the_smallest_sizes_are_enough() {
    for filesystem in available_filesystems().into_iter().filter(|f| f.present && f.filesystem != "dir") {
        let place = Place::new();
        let spec = StackSpec { size_mib: filesystem.min_mib, ..place.spec(&filesystem.filesystem) };
        let stack =
            place.stacks().up(&spec, "small").unwrap_or_else(|e| panic!("{}: {e}", filesystem.filesystem));
        fs::write(stack.path().join("a"), vec![1; 1 << 20]).unwrap();
        drop(stack);
        place.assert_nothing_left();
    }
}

fn recorded(place: &Place, spec: &StackSpec) -> fathom_stack::StackRecord {
    let stack = place.stacks().up(spec, "options").unwrap();
    fs::write(stack.path().join("a"), "x").unwrap();
    let record = stack.record();
    stack.down().unwrap();
    place.assert_nothing_left();
    record
}

#[test]
fn mount_and_mkfs_options_take_and_are_recorded() {
    if !can_mount() {
        return;
    }
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let cases = [
        ("ext4", "", "data=journal,noatime", "data=journal"),
        ("ext4", "", "data=writeback", "data=writeback"),
        ("ext4", "-O ^has_journal", "", "rw"),
        ("ext4", "-b 1024 -E stride=4", "nobarrier", "nobarrier"),
        ("ext3", "", "data=journal", "data=journal"),
        ("xfs", "-b size=1024", "logbsize=64k", "logbsize=64k"),
        ("btrfs", "-d single -m single", "ssd,nodatacow", "nodatacow"),
    ];
    for (filesystem, mkfs, mount, shown) in cases {
        if !available(filesystem) {
            continue;
        }
        let place = Place::new();
        let record = recorded(
            &place,
            &StackSpec { mkfs: words(mkfs), mount: Some(mount.into()), ..place.spec(filesystem) },
        );
        assert_eq!(record.filesystem, filesystem);
        assert!(record.mount.split(',').any(|o| o == shown), "{shown} in {record:?}");
        for word in words(mkfs) {
            assert!(record.mkfs.contains(&word), "{word} in {record:?}");
        }
        assert!(!record.mount.contains("discard") || record.mount.contains("nodiscard"), "{record:?}");
    }
}

#[test]
fn options_that_a_fuse_driver_may_have_passed_over_are_warned_of() {
    if !available("ntfs") {
        return;
    }
    let place = Place::new();
    let record =
        recorded(&place, &StackSpec { mount: Some("noatime,no_such_option".into()), ..place.spec("ntfs") });
    assert!(record.mount.contains("noatime"), "{record:?}");
    assert!(record.warnings.iter().any(|w| w.contains(" no_such_option,")), "{record:?}");
}

#[test]
fn external_logs_are_made_and_used() {
    if !can_mount() {
        return;
    }
    for (filesystem, shown) in [("xfs", "logdev=LOG"), ("ext4", "journal_dev"), ("ext3", "journal_dev")] {
        if !available(filesystem) {
            continue;
        }
        let place = Place::new();
        let record = recorded(&place, &StackSpec { log_mib: Some(64), ..place.spec(filesystem) });
        assert!(record.mkfs.contains("LOG") && format!("{record:?}").contains(shown), "{record:?}");
        assert!(record.device.contains("log on another"), "{record:?}");
    }
}

#[test]
fn a_mounted_image_has_neither_holes_nor_reserved_space() {
    if !can_mount() {
        return;
    }
    let place = Place::new();
    // A stack inside a stack: nobody else takes or frees space there.
    let spec = place.spec("ext4");
    let outer = place.stacks().up(&StackSpec { size_mib: 256, ..spec.clone() }, "outer").unwrap();
    let free = || {
        let space = rustix::fs::statvfs(outer.path()).unwrap();
        space.f_bfree * space.f_frsize
    };
    let before = free();
    let spec = StackSpec { directory: Some(outer.path().into()), ..spec };
    let stack = common::stacks_at(&place.root.path().join("inner-state")).up(&spec, "space").unwrap();
    let taken = || before.saturating_sub(free());
    assert!(taken() >= spec.size_mib << 20, "the image takes its space at once: {}", taken());
    // Deleting and trimming gives nothing back: the device refuses discards.
    let file = stack.path().join("big");
    fs::write(&file, vec![1; 32 << 20]).unwrap();
    fs::remove_file(&file).unwrap();
    let trim = std::process::Command::new("fstrim").arg(stack.path()).output();
    if let Ok(output) = trim {
        assert!(!output.status.success(), "{output:?}");
    }
    assert!(taken() >= spec.size_mib << 20, "and keeps it: {}", taken());
    stack.down().unwrap();
    outer.down().unwrap();
    place.assert_nothing_left();
}

#[test]
fn a_directory_stack_needs_no_root_and_goes_with_its_contents() {
    let place = Place::new();
    let spec = place.spec("dir");
    let stack = place.stacks().up(&spec, "dir test").unwrap();
    assert!(stack.path().starts_with(place.images.canonicalize().unwrap()));
    fs::create_dir_all(stack.path().join("a/b")).unwrap();
    fs::write(stack.path().join("a/b/c"), "x").unwrap();
    let record = stack.record();
    assert!(
        record.mkfs.is_empty() && !record.filesystem.is_empty() && !record.device.is_empty(),
        "{record:?}"
    );
    drop(stack);
    place.assert_nothing_left();
}

#[test]
fn tmpfs_is_warned_of() {
    let shm = std::path::Path::new("/dev/shm");
    let on_tmpfs =
        fs::read_to_string("/proc/mounts").unwrap().lines().any(|l| l.starts_with("tmpfs /dev/shm "));
    let Some(dir) = on_tmpfs.then(|| tempfile::tempdir_in(shm).ok()).flatten() else {
        println!("skipped: /dev/shm is not a tmpfs that can be written");
        return;
    };
    let place = Place::new();
    for filesystem in ["dir", "ext4"] {
        if !available(filesystem) {
            continue;
        }
        // A container has 64 MiB there.
        let small = StackSpec { size_mib: 32, ..place.spec(filesystem) };
        let spec = StackSpec { directory: Some(dir.path().into()), ..small };
        let stack = place.stacks().up(&spec, "tmpfs").unwrap();
        let warnings = stack.record().warnings;
        assert!(warnings.iter().any(|w| w.contains("tmpfs") && w.contains("syncs are free")), "{warnings:?}");
    }
    place.assert_nothing_left();
}
