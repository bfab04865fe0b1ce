//! Names in a database's directory that lead elsewhere, as a copy from a stranger may have them.
//!
//! What happened: a symbolic link of the name `images-a`, `images-b`, `MANIFEST.tmp` or
//! `STREAM.tmp` was followed, and the file that it led to, anywhere, was overwritten by the next
//! checkpoint, manifest or opening; a link that led nowhere made a file there. In the empty
//! directory for a backup a link to a block device passed for nothing, and the device was written
//! to. A FIFO of the name `LOCK`, `MANIFEST`, `STREAM` or of an image let the opening, and every
//! command of the tool, wait for good. The mend: the medium opens regular files only, follows no
//! link to what it writes, and makes new files instead of writing over what is there.
#![allow(clippy::unwrap_used)]

mod tree;

use mmdb::{ColumnType, Database, Error, OfflineDatabase, Options, Schema, restore};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;
use tree::Place;

fn options() -> Options {
    Options { segment_bytes: 64 << 10, ..Options::default() }
}

/// A database with a row, closed.
fn make(dir: &Path) {
    let db = Database::open(dir, options()).unwrap();
    let schema = Schema::new("t").column("id", ColumnType::Int64).primary_key(&["id"]);
    let t = db.create_table(schema).unwrap();
    db.run(|tx| tx.insert(&t, &[1.into()])).unwrap();
}

/// Everything that writes: an opening, a commit, two checkpoints, a closing.
fn work(dir: &Path) -> Result<(), Error> {
    let db = Database::open(dir, options())?;
    let t = db.table("t")?;
    db.run(|tx| tx.upsert(&t, &[2.into()]))?;
    db.checkpoint()?;
    db.checkpoint()?;
    db.close()
}

const PRECIOUS: &[u8] = b"precious";

#[test]
fn no_link_in_a_database_lets_it_write_elsewhere() {
    for name in ["images-a", "images-b", "MANIFEST.tmp", "LOCK", "log-0/STREAM.tmp", "log-0/LOCK"] {
        let p = Place::new("links");
        let (dir, elsewhere, nowhere) = (p.join("db"), p.join("elsewhere"), p.join("nowhere"));
        make(&dir);
        std::fs::write(&elsewhere, PRECIOUS).unwrap();
        for target in [&elsewhere, &nowhere] {
            let _ = std::fs::remove_file(dir.join(name));
            symlink(target, dir.join(name)).unwrap();
            let done = work(&dir);
            if name.starts_with("images") {
                let refused = done.unwrap_err();
                assert!(matches!(&refused, Error::File { .. }), "{name}: {refused}");
                assert!(refused.to_string().contains("symbolic link"), "{name}: {refused}");
            }
            assert_eq!(std::fs::read(&elsewhere).unwrap(), PRECIOUS, "{name}");
            assert!(!nowhere.exists(), "{name} made a file elsewhere");
        }
        let _ = std::fs::remove_file(dir.join(name));
        work(&dir).unwrap();
    }
}

#[test]
fn a_backup_is_written_through_no_link() {
    let p = Place::new("links-backup");
    let (dir, copy) = (p.join("db"), p.join("copy"));
    make(&dir);
    let db = Database::open(&dir, options()).unwrap();
    for name in ["images-a", "MANIFEST.tmp", "LOCK"] {
        std::fs::create_dir(&copy).unwrap();
        // Stands for a disk, which a test does not have: a link to a device is no file, either.
        symlink("/dev/null", copy.join(name)).unwrap();
        // What comes of it is a backup or an error; `/dev/null` can neither be synced nor read.
        if db.backup(&copy).is_ok() {
            Database::open(&copy, options()).unwrap();
        }
        let there = std::fs::symlink_metadata(copy.join(name)).map(|m| m.is_symlink());
        assert!(name == "LOCK" || !there.unwrap_or(false), "{name} was written through");
        std::fs::remove_dir_all(&copy).unwrap();
    }
}

/// What happened: `restore` passes over links, and did so where the images themselves were one, or
/// were missing. It reported success, and the copy could not be opened.
#[test]
fn a_backup_without_its_images_is_not_restored() {
    let p = Place::new("links-restore");
    let (dir, away) = (p.join("db"), p.join("away"));
    make(&dir);
    work(&dir).unwrap();
    // The second of two checkpoints is that of the manifest.
    let images = dir.join("images-b");
    std::fs::rename(&images, &away).unwrap();
    let e = restore(&dir, p.join("copy"), &options()).unwrap_err();
    assert!(matches!(&e, Error::Corrupt { file, .. } if *file == images), "{e}");
    symlink(&away, &images).unwrap();
    let e = restore(&dir, p.join("copy"), &options()).unwrap_err();
    assert!(matches!(&e, Error::File { .. }) && e.to_string().contains("symbolic link"), "{e}");
    assert!(!p.join("copy").exists(), "nothing is made");
    std::fs::rename(&away, &images).unwrap();
    restore(&dir, p.join("copy"), &options()).unwrap();
    work(&p.join("copy")).unwrap();
}

#[test]
fn what_is_no_file_is_refused_and_not_waited_for() {
    for name in ["LOCK", "MANIFEST", "images-a", "images-b", "log-0/LOCK", "log-0/STREAM"] {
        let p = Place::new("fifo");
        let dir = p.join("db");
        make(&dir);
        work(&dir).unwrap();
        let _ = std::fs::remove_file(dir.join(name));
        let made = std::process::Command::new("mkfifo").arg(dir.join(name)).status().unwrap();
        assert!(made.success());
        let (tell, told) = mpsc::channel();
        std::thread::spawn(move || {
            let read = OfflineDatabase::load(&dir, &options()).map(drop);
            tell.send((read.err(), work(&dir).err())).unwrap();
        });
        let (read, opened) = told.recv_timeout(Duration::from_secs(60)).expect("nobody waits for a FIFO");
        let refused = opened.expect("it is refused").to_string();
        assert!(refused.contains(name) && refused.contains("file"), "{name}: {refused}");
        // Of the two files of images one is not read.
        assert!(read.is_some() || name.starts_with("images"), "{name}");
    }
}
